//! Recognises engines and keepers of any home by the locks they hold.
//!
//! A command may use another home, and then starts an engine and keepers of that home. They descend from the command, but are not part of
//! it. A name or a command line proves nothing, since any program can have them.
//!
//! Decision 158: docs/decisions/stop.md.

use crate::dir::UNNAMED;
use crate::os::parent_of;
use outlast_core::ProcessId;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The programs of Outlast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Program {
    /// It holds the lock of a home.
    Engine,
    /// It holds the lock on the `meta` of a process.
    Keeper,
    /// It forks keepers, and an engine started it. Its forks that wait for a request count too.
    ForkServer,
}

/// Which program of Outlast the process with this pid is, if any.
pub fn program_of(pid: u32) -> Option<Program> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = line.split(|b| *b == 0);
    if arguments.any(|a| a == b"__engine") {
        return holds(pid, |file| file.file_name().is_some_and(|name| name == "lock")).then_some(Program::Engine);
    }
    let folder = line.split(|b| *b == 0).map(|a| Path::new(std::ffi::OsStr::from_bytes(a))).rfind(|a| !a.as_os_str().is_empty())?;
    let name = folder.file_name()?.to_str()?;
    if name == UNNAMED {
        let mut above = std::iter::successors(parent_of(pid), |pid| parent_of(*pid));
        return above.by_ref().take(2).any(|pid| program_of(pid) == Some(Program::Engine)).then_some(Program::ForkServer);
    }
    let id: ProcessId = name.parse().ok()?;
    holds_lock(pid, id).then_some(Program::Keeper)
}

/// Whether the process with this pid holds the lock on the `meta` of that process, in any home: only its keepers do.
pub fn holds_lock(pid: u32, of: ProcessId) -> bool {
    let is_meta = |file: &Path| {
        let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        file.file_name().is_some_and(|name| name == "meta") && folder.and_then(|name| name.parse().ok()) == Some(of)
    };
    holds(pid, is_meta)
}

/// Whether it has a file open that `is_it` accepts, and holds a lock through that descriptor.
fn holds(pid: u32, is_it: impl Fn(&Path) -> bool) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|fd| {
        let Ok(file) = std::fs::read_link(fd.path()) else { return false };
        let is_locked = || {
            let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.file_name().to_string_lossy()));
            info.is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK")))
        };
        is_it(&without_mark(file)) && is_locked()
    })
}

/// Removes the kernel's mark for deleted files. A home may be removed under its engine.
fn without_mark(file: PathBuf) -> PathBuf {
    match file.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(name) => Path::new(std::ffi::OsStr::from_bytes(name)).to_owned(),
        None => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// A shell with this command line, and this file as its input. Returns once it runs.
    fn pretender(arguments: &[&str], input: File) -> Child {
        let mut command = Command::new("bash");
        command.args(["-c", "echo; exec 3<&0; sleep 1000 & wait"]).args(arguments).stdin(input).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn end(mut child: Child) {
        for pid in crate::os::children_of(child.id()) {
            crate::os::signal(&crate::os::incarnation_of(pid).unwrap(), libc::SIGKILL).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_command_line_is_no_proof_and_a_lock_is() {
        let tmp = tempfile::tempdir().unwrap();
        let folder = tmp.path().join("proc").join("proc_0123456789ab");
        std::fs::create_dir_all(&folder).unwrap();
        for (file, arguments, is) in [
            (tmp.path().join("lock"), ["outlast", "__engine"], Program::Engine),
            (folder.join("meta"), ["outlast-keeper", folder.to_str().unwrap()], Program::Keeper),
        ] {
            std::fs::write(&file, "").unwrap();
            let open = File::open(&file).unwrap();
            let child = pretender(&arguments, open.try_clone().unwrap());
            assert_eq!(program_of(child.id()), None, "it holds no lock");
            assert!(crate::lock::try_hold(&open).unwrap());
            assert_eq!(program_of(child.id()), Some(is), "it has the description that the lock is on");
            end(child);
        }
    }

    #[test]
    fn a_fork_server_is_known_by_the_engine_that_started_it() {
        let child = pretender(&["outlast-keeper", &format!("/home/proc/{UNNAMED}")], File::open("/dev/null").unwrap());
        assert_eq!(program_of(child.id()), None);
        end(child);
    }
}
