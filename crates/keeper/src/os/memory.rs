//! How often the kernel has killed processes of the keepers' memory cgroup because memory ran out.

use std::path::{Path, PathBuf};

/// The OOM counter of the command's cgroup, and its value before the command ran.
#[derive(Debug)]
pub(crate) struct OomKills {
    /// The counter's file, which is read again at the end.
    file: PathBuf,
    before: u64,
}

impl OomKills {
    /// The counter for our children: in the v1 memory hierarchy if there is one, else in v2.
    pub(crate) fn find_file() -> Option<PathBuf> {
        let (cgroups, mounts) = (std::fs::read_to_string("/proc/self/cgroup").ok()?, std::fs::read_to_string("/proc/self/mounts").ok()?);
        let place = |mount: &Path, path: &str| mount.join(path.trim_start_matches('/'));
        let v1 = mount(&mounts, "cgroup", Some("memory")).and_then(|mount| {
            let path = cgroups.lines().find_map(|line| line.split_once(":memory:").map(|(_, path)| path))?;
            // In a container, its own cgroup may be the root of the mount.
            [place(&mount, path), mount].into_iter().map(|dir| dir.join("memory.oom_control")).find(|file| file.exists())
        });
        v1.or_else(|| {
            let mount = mount(&mounts, "cgroup2", None)?;
            let here = place(&mount, cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
            // Kills are counted in every ancestor too. Leaves of commands lie beside the cgroup of engine and keepers, so their parent's
            // counter is used.
            let from = if here.ends_with("engine") { here.parent()? } else { &here };
            from.ancestors().take_while(|dir| dir.starts_with(&mount)).map(|dir| dir.join("memory.events")).find(|file| file.exists())
        })
    }

    /// Reads the counter in `file` before the command runs.
    pub(crate) fn begin(file: &Path) -> Option<Self> {
        Some(Self { before: count(file)?, file: file.to_owned() })
    }

    /// Whether any process was killed since.
    pub(crate) fn any_since(&self) -> bool {
        count(&self.file).is_some_and(|now| now > self.before)
    }
}

fn count(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

fn mount(mounts: &str, kind: &str, option: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let has = |option| words.get(3).is_some_and(|all: &&str| all.split(',').any(|word| word == option));
        (words.get(2) == Some(&kind) && option.is_none_or(has)).then(|| PathBuf::from(words[1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_one_that_was_counted_since() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.events");
        assert!(OomKills::begin(&file).is_none(), "nothing counts");
        std::fs::write(&file, "low 0\noom 4\noom_kill 2\n").unwrap();
        let kills = OomKills::begin(&file).unwrap();
        assert!(!kills.any_since());
        std::fs::write(&file, "low 0\noom 5\noom_kill 3\noom_group_kill 0\n").unwrap();
        assert!(kills.any_since());
    }
}
