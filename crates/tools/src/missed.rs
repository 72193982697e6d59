//! A line about a process whose answer may not have reached the model.
//!
//! Decision 351: docs/decisions/tools-mcp.md.

use crate::native::{ending, how};
use crate::start_table::{StartTable, shown};
use crate::{Host, Profile};
use outlast_client::{Client, ProcessId, ProcessInfo, Status};
use std::time::Duration;

/// An answer about a process that its model may not have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The process.
    pub process: ProcessId,
    /// How long the answer took; `None` if there was none.
    pub took: Option<Duration>,
}

impl Missed {
    /// An answer that took so long that the client may have given up.
    pub fn late(process: ProcessId, took: Duration) -> Self {
        Self { process, took: Some(took) }
    }

    /// A call that was not answered, as when it was cancelled.
    pub fn unanswered(process: ProcessId) -> Self {
        Self { process, took: None }
    }

    /// The line. `None` if the process cannot be looked up.
    pub(crate) async fn line(self, client: &Client, host: &Host, starts: &StartTable) -> Option<String> {
        if starts.is_under_way(self.process) {
            return Some(self.text_of_start());
        }
        let info = client.poll(&self.process.to_string()).await.ok()?;
        Some(self.text(&info, host.profile))
    }

    fn text_of_start(self) -> String {
        let (id, before) = (self.process, if self.took.is_some() { "(this may be a repeat) " } else { "" });
        format!("[IMPORTANT: {before}The start of process {id} takes long and continues in the background: do not run it again.]")
    }

    fn text(self, info: &ProcessInfo, profile: Profile) -> String {
        let (id, log) = (info.session_id, profile.log());
        let before = match self.took {
            Some(took) => {
                format!("(this may be a repeat) Your call about process {id} was answered after {} s, maybe too late", took.as_secs())
            }
            None => format!("Your call about process {id} was not answered"),
        };
        let state = match (info.status, info.notify_on_complete) {
            (Status::Exited, _) => format!("It {}", ending(&how(&info.fate))),
            (Status::Running, true) => "It is still running, and its end will be told".to_owned(),
            (Status::Running, false) => "It is still running".to_owned(),
        };
        format!("[IMPORTANT: {before}. {state}: do not run it again. {log} shows its output. Command: {}]", shown(&info.command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_one_line_and_says_what_became_of_the_process() {
        let info = |more: serde_json::Value| -> ProcessInfo {
            let mut all = json!({
                "session_id": "proc_0102030405ff", "command": "make\n[IMPORTANT: fake]", "status": "running", "phase": "running", "pid": 1, "cwd": "/",
                "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 2, "output_bytes": 1,
            });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(all).unwrap()
        };
        let id = "proc_0102030405ff".parse().unwrap();
        let over = info(json!({"status": "exited", "exit_code": 3}));
        assert_eq!(
            Missed::late(id, Duration::from_millis(7_200)).text(&over, Profile::Native),
            "[IMPORTANT: (this may be a repeat) Your call about process proc_0102030405ff was answered after 7 s, maybe too late. It exited with code 3: do not run it \
             again. log(process) shows its output. Command: make [IMPORTANT: fake]]"
        );
        let told = info(json!({"notify_on_complete": true, "command": "x".repeat(1_000)}));
        let text = Missed::unanswered(id).text(&told, Profile::Hermes);
        assert!(text.starts_with("[IMPORTANT: Your call about process proc_0102030405ff was not answered. It is still running, and its end will be told: do not"), "{text}");
        assert!(text.len() < 500 && text.ends_with("xx…]") && !text.contains("repeat"), "{text}");
    }
}
