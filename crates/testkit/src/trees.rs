//! Trees of processes that resist a stop: shell lines for tests of stops.
//!
//! Each creates the file `ready` in its directory once the tree exists. All processes of a tree stay in that directory, where
//! [`alive_in`] finds them: a process keeps its directory if it leaves the session, clears its environment or changes its parent.

use std::path::Path;

/// A tree: its name, and the line that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// For messages.
    pub name: &'static str,
    /// A line for `sh` or `bash`.
    pub line: &'static str,
}

/// All trees.
pub fn all() -> Vec<Tree> {
    vec![ignorers(), leavers(), double_forks(), strippers(), stopped(), forking_loop(), hoppers(), born_in_the_grace(), crowd()]
}

/// A parent and two children that ignore TERM.
pub fn ignorers() -> Tree {
    Tree { name: "ignorers", line: "trap '' TERM HUP INT; sleep 1000 & sleep 1000 & touch ready; while :; do wait; sleep 1000; done" }
}

/// Children in sessions of their own.
pub fn leavers() -> Tree {
    Tree {
        name: "leavers",
        line: "trap '' TERM; setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & sleep 1000' & touch ready; sleep 1000; wait",
    }
}

/// Daemons of the old kind: their parents have exited, and they hold no output open.
pub fn double_forks() -> Tree {
    Tree {
        name: "double forks",
        line: "(setsid sh -c 'trap \"\" TERM; sh -c \"sleep 1000 & sleep 1000\" & :' </dev/null >/dev/null 2>&1 &); \
               (trap '' TERM; exec setsid sleep 1000 </dev/null >/dev/null 2>&1) & touch ready; exec sleep 1000",
    }
}

/// Children with an empty environment, in their own sessions, with dead parents.
pub fn strippers() -> Tree {
    Tree {
        name: "strippers",
        line: "(env -i setsid sh -c 'trap \"\" TERM; env -i sleep 1000 & env -i sleep 1000; wait' >/dev/null 2>&1 &); touch ready; exec sleep 1000",
    }
}

/// Suspended processes, which act on no signal until they are continued.
pub fn stopped() -> Tree {
    Tree { name: "stopped", line: "sleep 1000 & kill -STOP $!; setsid sleep 1000 & kill -STOP $!; touch ready; kill -STOP $$; sleep 1000" }
}

/// A loop that keeps starting children which ignore TERM.
pub fn forking_loop() -> Tree {
    Tree {
        name: "forking loop",
        line: "trap '' TERM; n=0; while :; do setsid sleep 1000 >/dev/null 2>&1 & n=$((n+1)); [ $n = 3 ] && touch ready; sleep 0.02; done",
    }
}

/// Processes that live for a moment and start the next one, so that a process that was found is gone when it is signalled.
pub fn hoppers() -> Tree {
    Tree {
        name: "hoppers",
        line: "printf '%s\\n' 'trap \"\" TERM HUP; sleep 0.02; setsid sh hop & exit' > hop; sh hop & sh hop & touch ready; exec sleep 1000",
    }
}

/// Children that a surviving leader starts because the stop has begun.
pub fn born_in_the_grace() -> Tree {
    Tree {
        name: "born in the grace",
        line: "trap 'setsid sh -c \"trap \\\"\\\" TERM; sleep 1000 & sleep 1000\" >/dev/null 2>&1 & echo born >> born' TERM; touch ready; \
               while :; do sleep 0.01; done",
    }
}

/// Many at once, three levels deep.
pub fn crowd() -> Tree {
    Tree {
        name: "crowd",
        line: "trap '' TERM; for i in 1 2 3 4 5; do sh -c 'for j in 1 2 3 4; do setsid sh -c \"sleep 1000 & sleep 1000 & wait\" & done; wait' & done; \
               touch ready; sleep 1000",
    }
}

/// The processes in `dir` without zombies, with a short description of each.
pub fn alive_in(dir: &Path) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id() && std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir)))
        .map(|pid| (pid, String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")))
        .collect()
}
