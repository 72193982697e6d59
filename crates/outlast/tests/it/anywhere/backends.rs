//! The environments of the tests, and what tests do to them behind our back.

use crate::support::*;
use outlast_store::dir::{Home, ProcessDir};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An environment of a test.
pub(super) struct Sandbox {
    /// Its name.
    pub(super) on: String,
    /// What is in it lies below this directory.
    pub(super) dir: PathBuf,
}

impl Sandbox {
    /// The home in it, once there is one.
    fn home(&self) -> Option<Home> {
        let homes = std::fs::read_dir(self.dir.join("outlast-sandbox/homes")).ok();
        let named = homes.into_iter().flatten().flatten().next().map(|entry| entry.path());
        named.or_else(|| Some(self.dir.join("home")).filter(|home| home.exists())).map(Home::new)
    }

    /// The folders of its processes.
    pub(super) fn folders(&self) -> Vec<ProcessDir> {
        self.home().map(|home| home.ids().unwrap().into_iter().map(|id| home.process(id)).collect()).unwrap_or_default()
    }

    /// Whether a process has ended there, and its keepers have left.
    pub(super) fn is_over(&self, id: &str) -> bool {
        let folders = self.folders();
        let folder = folders.iter().find(|folder| folder.path.ends_with(id));
        folder.is_none_or(|folder| !outlast_store::lock::is_held(&folder.meta()).unwrap())
    }

    /// Kills every `connect` in it.
    pub(super) fn cut(&self) {
        for pid in processes_with(&[b"connect", self.dir.as_os_str().as_bytes()]) {
            kill_and_wait(pid).unwrap();
        }
    }

    /// Kills the link. Returns whether there was one.
    pub(super) fn kill_link(&self, p: &Product) -> bool {
        let links = processes_with(&[b"outlast-link", p.home().root.as_os_str().as_bytes()]);
        links.iter().for_each(|pid| kill_and_wait(*pid).unwrap());
        !links.is_empty()
    }

    /// Ends everything in it, and removes its home.
    pub(super) fn destroy(&self, p: &Product, id: &str) {
        // While the link is there it would see the keepers die, and its sandbox could say what became of the process.
        self.kill_link(p);
        self.cut();
        let home = self.home().unwrap();
        let aside = home.root.with_extension("gone");
        std::fs::rename(&home.root, &aside).unwrap();
        for _ in 0..2 {
            let keepers = processes_with(&[b"outlast-keeper", id.as_bytes()]);
            keepers.into_iter().for_each(|pid| kill_and_wait(pid).unwrap());
        }
        outlast_testkit::leftovers::of_process(id).into_iter().for_each(|(pid, _)| kill_and_wait(pid).unwrap());
        std::fs::remove_dir_all(aside).unwrap();
    }

    /// What the links have logged, for a test that fails.
    pub(super) fn logs(&self, p: &Product) -> String {
        let all = std::fs::read_dir(p.home().environments()).into_iter().flatten().flatten();
        all.filter_map(|entry| std::fs::read_to_string(entry.path().join("log")).ok()).collect::<Vec<_>>().join("\n")
    }
}

/// The processes that have all of these in their command line.
fn processes_with(words: &[&[u8]]) -> Vec<u32> {
    let has = |line: &[u8], word: &[u8]| line.windows(word.len()).any(|part| part == word);
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != std::process::id());
    pids.filter(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| words.iter().all(|word| has(&line, word)))).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    dirs.iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists())
}

pub(super) mod local {
    use super::*;

    pub(crate) fn product() -> Product {
        crate::support::product()
    }

    pub(crate) fn sandbox(p: &Product) -> Option<Sandbox> {
        let dir = p.work().join("sandbox");
        std::fs::create_dir(&dir).unwrap();
        Some(Sandbox { on: format!("local:{}", dir.display()), dir })
    }
}

pub(super) mod bwrap {
    use super::*;

    pub(crate) fn product() -> Product {
        crate::support::product()
    }

    pub(crate) fn sandbox(p: &Product) -> Option<Sandbox> {
        if find("bwrap").is_none() {
            println!("skipped: bubblewrap is not installed");
            return None;
        }
        // The name of the directory is made from that of the environment, and this is the only one.
        let answer = p.json(["run", "--on", "bwrap", "true"]);
        assert!(answer["session_id"].is_string(), "{answer}");
        let dir = std::fs::read_dir(p.home().environments()).unwrap().flatten().next().unwrap().path().join("sandbox");
        p.wait(answer["session_id"].as_str().unwrap());
        Some(Sandbox { on: "bwrap".into(), dir })
    }
}
