//! Processes that wait until a test lets them continue.

use crate::support::*;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// A FIFO with one end here. A reader waits for a line, or for the gate to be dropped.
pub(crate) struct Gate {
    path: PathBuf,
    ours: File,
}

impl Gate {
    /// A gate in the directory of the test's own files.
    pub(crate) fn new(p: &Product, name: &str) -> Self {
        use rustix::fs::{CWD, FileType, Mode};
        let path = p.work().join(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        // With both directions open here, neither side waits for the other to come.
        let ours = File::options().read(true).write(true).open(&path).expect("a FIFO");
        Self { path, ours }
    }

    /// A piece of a shell line that waits.
    pub(crate) fn wait(&self) -> String {
        format!("read -r _ <{}", self.path.display())
    }

    /// Lets one waiter through, the next to come if none is there.
    pub(crate) fn open(&self) {
        (&self.ours).write_all(b"\n").expect("a waiter");
    }
}

/// Stopped by a signal, until this is dropped.
pub(crate) struct Held(rustix::process::Pid);

impl Held {
    pub(crate) fn new(pid: u32) -> Self {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A process that was killed meanwhile needs no signal.
        let _gone = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

/// Waits until the log of a process holds this text.
pub(crate) fn until_printed(p: &Product, id: &str, text: &str) {
    eventually(text, || p.call(["log", id, "--raw"]).text().contains(text).then_some(()));
}

/// What a finished command printed.
pub(crate) fn printed(p: &Product, line: &str) -> String {
    let id = p.run(line);
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 0, "{ended}");
    p.call(["log", &id, "--raw"]).text()
}
