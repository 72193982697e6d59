//! The namespaces of a process, which decide which pids and files it sees.

use serde::{Deserialize, Serialize};

/// The namespaces of a process, as the links in `/proc/self/ns` name them, and the boot id of its machine. Unknown ones are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Namespaces {
    /// The PID namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// The mount namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mnt: Option<String>,
    /// The user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The boot id of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
}

impl Namespaces {
    /// Makes it from what `find` returns for each path: the target of a link below `/proc/self/ns`, or the text of the file with the boot
    /// id.
    pub fn read(mut find: impl FnMut(&str) -> Option<String>) -> Self {
        Self {
            pid: find("/proc/self/ns/pid"),
            mnt: find("/proc/self/ns/mnt"),
            user: find("/proc/self/ns/user"),
            boot: find("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()),
        }
    }

    /// The names of those that differ from `other`. An unknown one does not count as different.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let differs = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
        let all = [("pid", &self.pid, &other.pid), ("mount", &self.mnt, &other.mnt), ("user", &self.user, &other.user)];
        all.into_iter().filter(|(_, a, b)| differs(a, b)).map(|(name, ..)| name).collect()
    }

    /// Whether pids from there are valid here: the same machine and PID namespace, as far as is known.
    pub fn shares_pids(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| !matches!((a, b), (Some(a), Some(b)) if a != b);
        same(&self.pid, &other.pid) && same(&self.boot, &other.boot)
    }
}

/// The holder of a home: the contents of `lock.ns` beside `lock`. It counts only if its pid is the one in `lock`: an engine of an earlier
/// version, which writes no such file, may hold the lock by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockHolder {
    /// The engine's pid, in its own namespace.
    pub pid: u32,
    /// Where the engine runs.
    pub namespaces: Namespaces,
}

impl LockHolder {
    /// An engine with this pid in these namespaces.
    pub fn new(pid: u32, namespaces: Namespaces) -> Self {
        Self { pid, namespaces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pid: &str, boot: &str) -> Namespaces {
        Namespaces { pid: Some(pid.into()), boot: Some(boot.into()), ..Namespaces::default() }
    }

    #[test]
    fn what_is_not_known_differs_in_nothing() {
        let here = at("pid:[1]", "a");
        assert!(here.shares_pids(&at("pid:[1]", "a")) && here.shares_pids(&Namespaces::default()));
        assert!(!here.shares_pids(&at("pid:[2]", "a")) && !here.shares_pids(&at("pid:[1]", "b")));
        assert_eq!(here.differing(&at("pid:[2]", "a")), ["pid"]);
        assert_eq!(here.differing(&Namespaces::default()), [""; 0]);
    }

    #[test]
    fn a_holder_is_one_line_of_json() {
        let holder = LockHolder::new(7, at("pid:[1]", "a"));
        let text = serde_json::to_string(&holder).unwrap();
        assert_eq!(text, r#"{"pid":7,"namespaces":{"pid":"pid:[1]","boot":"a"}}"#);
        assert_eq!(serde_json::from_str::<LockHolder>(&text).unwrap(), holder);
    }
}
