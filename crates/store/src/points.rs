//! Test points: places at which a test may pause a process of Outlast, to inspect it or to kill it there.
//!
//! Only with the feature `test-points`; without it [`reach`] does nothing. A test makes a FIFO `<dir>/<name>`. The first process
//! that reaches the point renames it to `<name>.held.<pid>`, and waits until a test opens the FIFO for writing. If the file
//! `<name>.panics` exists instead, every process that reaches the point panics there.

#[cfg(feature = "test-points")]
mod on {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static DIR: OnceLock<PathBuf> = OnceLock::new();

    /// Sets the directory in which tests put their FIFOs. Without it no point pauses.
    pub fn configure(dir: PathBuf) {
        let _first_stands = DIR.set(dir);
    }

    /// Pauses here if a test requested it.
    pub fn reach(name: &str) {
        let Some(dir) = DIR.get() else { return };
        assert!(!dir.join(format!("{name}.panics")).exists(), "a test has this point panic: {name}");
        let held = dir.join(format!("{name}.held.{}", std::process::id()));
        if std::fs::rename(dir.join(name), &held).is_ok() {
            // Opening a FIFO for reading blocks until there is a writer.
            let _released = std::fs::File::open(&held);
        }
    }
}

#[cfg(not(feature = "test-points"))]
mod off {
    /// Does nothing: this build has no test points.
    pub fn configure(_dir: std::path::PathBuf) {}
    /// Does nothing: this build has no test points.
    #[inline(always)]
    pub fn reach(_name: &str) {}
}

#[cfg(not(feature = "test-points"))]
pub use off::{configure, reach};
#[cfg(feature = "test-points")]
pub use on::{configure, reach};
