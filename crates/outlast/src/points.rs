//! Places at which a test may hold or kill the command line; see `outlast_store::points`.

use crate::config::World;

/// Passes a test point. Without the feature `test-points` it is nothing.
#[cfg(feature = "test-points")]
pub(crate) fn reach(world: &World, name: &str) {
    if let Some(dir) = world.var("OUTLAST_TEST_POINTS") {
        outlast_store::points::configure(dir.into());
        outlast_store::points::reach(name);
    }
}

/// Nothing: this build has no test points.
#[cfg(not(feature = "test-points"))]
#[inline(always)]
pub(crate) fn reach(_world: &World, _name: &str) {}
