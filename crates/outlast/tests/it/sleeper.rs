//! A process that the test itself started, for others to take in.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

/// A child of the test that sleeps until it is killed.
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn start() -> Self {
        Self::of("sleep", ["1000"])
    }

    /// Another program, with its arguments.
    pub(crate) fn of<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: impl IntoIterator<Item = S>) -> Self {
        Self(Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// When the kernel says it started, in ticks since boot.
    pub(crate) fn start_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it lives");
        stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().nth(19).expect("a start").parse().expect("a number")
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }

    /// Waits for its end: the signal that ended it, if one did.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.0.wait().expect("a child").signal()
    }

    pub(crate) fn end(&mut self) {
        // Over already: that is what is wanted.
        let _over = self.0.kill();
        self.ended_by();
    }

    /// Seconds since 1970, as a checkpoint has them.
    pub(crate) fn now() -> f64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}
