//! Places at which a test may hold or kill the engine.
//!
//! With the feature `test-points` and a directory configured, whoever reaches the point `name` looks for the file `name` there. If it exists, it is claimed by
//! renaming it to `name.held.<pid>`, and the point is passed once that file is gone. Without the feature nothing of this is compiled in.

/// Passes a test point; see [the module](crate::points).
macro_rules! point {
    ($config:expr, $name:literal) => {
        #[cfg(feature = "test-points")]
        $crate::points::reach(&$config.test_points, $name).await
    };
}
pub(crate) use point;

#[cfg(feature = "test-points")]
pub(crate) async fn reach(dir: &Option<std::path::PathBuf>, name: &'static str) {
    let Some(dir) = dir.clone() else { return };
    // Held in a thread of its own, so that the other tasks of the engine go on.
    let held = tokio::task::spawn_blocking(move || hold(&dir, name)).await;
    if let Ok(Err(error)) = held {
        tracing::error!(name, %error, "test point");
    }
}

#[cfg(feature = "test-points")]
fn hold(dir: &std::path::Path, name: &str) -> std::io::Result<()> {
    use rustix::fs::inotify;
    let claimed = dir.join(format!("{name}.held.{}", std::process::id()));
    match std::fs::rename(dir.join(name), &claimed) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    }
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, dir, inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVED_FROM)?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    // The watch is there before the look, so a removal in between is not missed.
    while claimed.exists() {
        inotify::Reader::new(&watch, &mut buffer).next()?;
    }
    Ok(())
}
