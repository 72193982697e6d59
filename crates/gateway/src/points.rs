//! Places at which a test may hold or kill the gateway.

/// Passes a test point. Without the feature `test-points` it is nothing.
#[cfg(feature = "test-points")]
pub(crate) fn reach(name: &str) {
    outlast_store::points::reach(name);
}

/// Nothing: this build has no test points.
#[cfg(not(feature = "test-points"))]
#[inline(always)]
pub(crate) fn reach(_name: &str) {}

/// Names the directory in which tests put their points.
#[cfg(feature = "test-points")]
pub(crate) fn configure(dir: std::path::PathBuf) {
    outlast_store::points::configure(dir);
}

/// Nothing: this build has no test points.
#[cfg(not(feature = "test-points"))]
pub(crate) fn configure(_dir: std::path::PathBuf) {}
