//! Places at which a test may hold or kill the engine; see [`outlast_store::points`].

/// Passes a test point. Without the feature `test-points` it is nothing.
macro_rules! point {
    ($name:literal) => {
        #[cfg(feature = "test-points")]
        // Held in a thread of its own, so that the other tasks of the engine continue. Its result is empty.
        let _passed = tokio::task::spawn_blocking(|| outlast_store::points::reach($name)).await;
    };
}
pub(crate) use point;
