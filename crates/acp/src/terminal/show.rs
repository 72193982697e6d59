//! The content that a client gets in place of a terminal that it does not have.

use super::output::Tail;
use super::{Terminals, exit_status};
use crate::terminal_content::{ShownTerminals, content, verbatim};
use outlast_client::{ClientError, ProcessInfo, Status};
use serde_json::Value;
use std::time::Duration;

/// How many bytes of output are shown: the end. A user reads them, and has the log for the rest.
const MAX_SHOWN_BYTES: u64 = 64 << 10;
/// How long this may take. Messages keep their order, so all later ones wait.
const SHOW_TIMEOUT: Duration = Duration::from_secs(2);

impl Terminals {
    /// The content in place of each terminal, as it is now. This never marks an end as seen.
    pub(crate) async fn show(&self, shown: &ShownTerminals) -> Vec<Value> {
        let mut all = Vec::new();
        for (_, id) in &shown.terminals {
            let text = match tokio::time::timeout(SHOW_TIMEOUT, self.text(&shown.session, id)).await {
                Ok(Ok(Some(text))) => text,
                _ => format!("What {id} printed cannot be shown here; `outlast log {id}` may have it."),
            };
            all.push(content(&text));
        }
        all
    }

    async fn text(&self, session: &str, id: &str) -> Result<Option<String>, ClientError> {
        let Some((onlooker, info)) = self.look_on(session, id).await? else { return Ok(None) };
        let tail = Tail::read(&onlooker, id, MAX_SHOWN_BYTES).await?;
        let (output, cut) = tail.shown(&self.redactor, &info, MAX_SHOWN_BYTES);
        Ok(Some(written(&info, &output, cut)))
    }
}

fn written(info: &ProcessInfo, output: &str, cut: bool) -> String {
    let gap = if cut { "[…]\n" } else { "" };
    let ran = verbatim(&format!("$ {}\n{gap}{output}", info.command));
    let id = info.session_id;
    let how = match info.status {
        Status::Exited => {
            let status = exit_status(&info.fate);
            match (&status["exitCode"], &status["signal"]) {
                (Value::Number(code), _) => format!("Exit code {code}."),
                (_, Value::String(signal)) => format!("Ended by {signal}."),
                _ => "Its exit status is unknown.".to_owned(),
            }
        }
        _ => format!("It keeps running: `outlast log --follow {id}`."),
    };
    match cut && info.status == Status::Exited {
        true => format!("{ran}\n{how} All of it: `outlast log {id}`."),
        false => format!("{ran}\n{how}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::Time;

    fn info(status: Status) -> ProcessInfo {
        let time: Time = "2023-11-14T22:13:20Z".parse().unwrap();
        ProcessInfo::new("proc_0123456789ab".parse().unwrap(), "make all", status, "running", time)
    }

    #[test]
    fn a_person_reads_what_ran_what_it_said_and_how_it_is() {
        assert_eq!(
            written(&info(Status::Running), "one\n", false),
            "```console\n$ make all\none\n```\nIt keeps running: `outlast log --follow proc_0123456789ab`."
        );
        let mut over = info(Status::Exited);
        over.fate.exit_code = Some(Some(3));
        assert_eq!(written(&over, "", false), "```console\n$ make all\n```\nExit code 3.");
        assert_eq!(
            written(&over, "z\n", true),
            "```console\n$ make all\n[…]\nz\n```\nExit code 3. All of it: `outlast log proc_0123456789ab`."
        );
        (over.fate.exit_code, over.fate.signal) = (Some(Some(-9)), Some("SIGKILL".into()));
        assert!(written(&over, "", false).ends_with("\nEnded by SIGKILL."));
        (over.fate.exit_code, over.fate.signal) = (Some(None), None);
        assert!(written(&over, "", false).ends_with("\nIts exit status is unknown."));
    }
}
