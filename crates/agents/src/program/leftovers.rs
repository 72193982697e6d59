//! What earlier agents of a conversation left behind: their processes in the engine, and their files.
//!
//! A turn is recorded before the next one of its conversation is started. So when an agent is started, nothing depends on the agents that have ended. Those that
//! failed are kept for a while, for people who look for the reason.

use super::ended::Ended;
use outlast_client::{Client, ProcessId, ProcessInfo, Reason, code};
use std::collections::BTreeSet;
use std::path::Path;

/// How many agents that failed are kept for one conversation.
const MAX_KEPT_FAILURES: usize = 3;
/// The files of a command per turn: the id of its process, and one of these.
const COMMAND_FILE_ENDS: [&str; 2] = [".stderr", ".prompt"];

/// Finished agents that are not needed any more, and those that are kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    pub(super) removable: Vec<ProcessId>,
    kept: BTreeSet<ProcessId>,
}

impl Leftovers {
    /// Sorts finished agents of a conversation. `next` is the one that is about to start, or is followed.
    pub(super) fn of(mut finished: Vec<ProcessInfo>, next: Option<ProcessId>) -> Self {
        finished.sort_by_key(|info| std::cmp::Reverse((info.started_at, info.session_id)));
        let mut sorted = Self { removable: Vec::new(), kept: next.into_iter().collect() };
        let mut failures = 0;
        for info in finished.into_iter().filter(|info| Some(info.session_id) != next) {
            // A stopped agent is no failure: its turn had ended, or another agent took its place.
            let is_failure = info.fate.completion_reason != Some(Reason::Killed) && Ended::of(&info.fate) != Ended::Exited(0);
            failures += usize::from(is_failure);
            match is_failure && failures <= MAX_KEPT_FAILURES {
                true => _ = sorted.kept.insert(info.session_id),
                false => sorted.removable.push(info.session_id),
            }
        }
        sorted
    }

    /// Removes the files of commands that are neither kept nor about to start. To be called before one starts: later, there may be files of the next.
    pub(super) fn remove_files(&self, dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| COMMAND_FILE_ENDS.iter().find_map(|end| name.strip_suffix(end)));
            if id.and_then(|id| id.parse().ok()).is_some_and(|id: ProcessId| !self.kept.contains(&id)) {
                // One that cannot be removed is tried again with the next start.
                let _again = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Removes finished processes with their logs, beside everything else. What is not removed now is found by the next start of an agent.
pub(super) fn remove_processes(client: &Client, removable: Vec<ProcessId>) {
    if removable.is_empty() {
        return;
    }
    let client = client.clone();
    tokio::spawn(async move {
        for id in removable {
            remove_process(&client, id).await;
        }
    });
}

/// Removes one finished process with its log, if it is there.
pub(super) async fn remove_process(client: &Client, id: ProcessId) {
    match client.remove(&id.to_string()).await {
        Err(error) if error.code() != code::NOT_FOUND => tracing::debug!(%id, %error, "a finished agent is removed later"),
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which process, and how it ended: an exit code, or a reason.
    fn info(number: u8, code: Option<i32>, reason: &str) -> ProcessInfo {
        serde_json::from_value(serde_json::json!({
            "session_id": id(number), "command": "x", "status": "exited", "phase": "exited", "cwd": "/", "uptime_seconds": 1, "output_bytes": 0,
            "started_at": format!("2023-11-14T22:13:{number:02}.000000Z"), "exit_code": code, "completion_reason": reason,
        }))
        .unwrap()
    }

    fn id(number: u8) -> ProcessId {
        ProcessId::from_bytes([number; 6])
    }

    #[test]
    fn of_agents_that_are_over_the_last_failures_are_kept() {
        let finished = vec![
            info(1, Some(1), "exited"),
            info(2, Some(0), "exited"),
            info(3, Some(2), "exited"),
            info(4, Some(-15), "killed"),
            info(5, Some(-11), "exited"),
            info(6, None, "lost"),
            info(7, Some(0), "exited"),
        ];
        let sorted = Leftovers::of(finished, Some(id(7)));
        assert_eq!(sorted.removable, [4, 2, 1].map(id), "neither the one that is followed nor the last three failures");
        assert_eq!(sorted.kept, [3, 5, 6, 7].map(id).into());
    }

    #[test]
    fn only_files_of_commands_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let kept =
            [format!("{}.stderr", id(1)), format!("{}.prompt", id(1)), "agent.stderr".into(), "notes.txt".into(), "proc_.stderr".into()];
        let gone = [format!("{}.stderr", id(2)), format!("{}.prompt", id(3))];
        kept.iter().chain(&gone).for_each(|name| std::fs::write(dir.path().join(name), "").unwrap());
        Leftovers::of(Vec::new(), Some(id(1))).remove_files(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut kept = kept.to_vec();
        kept.sort();
        assert_eq!(left, kept);
    }
}
