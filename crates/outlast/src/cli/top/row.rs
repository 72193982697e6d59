//! One process as a row: what the engine reports, and what changes between two lists.

use crate::cli::conversation::{self, Conversation};
use crate::cli::ending;
use crate::cli::label;
use crate::cli::out::{Tone, tame};
use crate::os::Usage;
use outlast_client::{ProcessId, ProcessInfo, Status};

/// A process as the engine listed it, with its use of resources.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) info: ProcessInfo,
    /// Bytes of output per second; known from the second list on.
    pub(super) rate: Option<f64>,
    /// What its tree uses, if that is known.
    pub(super) usage: Option<Usage>,
}

impl Row {
    pub(super) fn id(&self) -> ProcessId {
        self.info.session_id
    }

    pub(super) fn is_running(&self) -> bool {
        self.info.status == Status::Running
    }

    /// Whether it has finished and left something running, which can be stopped.
    pub(super) fn has_left(&self) -> bool {
        !self.is_running() && !self.info.left.is_empty()
    }

    /// Whether it has finished, neither with exit code 0 nor because it was stopped on request.
    pub(super) fn is_failed(&self) -> bool {
        ending::is_failed(&self.info)
    }

    /// The digits of its id.
    pub(super) fn digits(&self) -> String {
        let id = self.id().to_string();
        id.strip_prefix("proc_").unwrap_or(&id).to_owned()
    }

    /// Its name, or its command if it has none.
    pub(super) fn title(&self) -> String {
        self.info.name.as_deref().map_or_else(|| self.command(), tame)
    }

    /// Its phase or ending.
    pub(super) fn standing(&self) -> (String, Tone) {
        ending::standing(&self.info)
    }

    /// The same for a narrow column.
    pub(super) fn short_standing(&self) -> (String, Tone) {
        ending::short_standing(&self.info)
    }

    /// Its owner: its conversation, else its session, else its task.
    pub(super) fn owner(&self) -> String {
        match self.conversation() {
            Some(of) if of.is_agent => tame(&format!("{} (agent)", of.name())),
            Some(of) => tame(of.name()),
            None => tame(self.session().or(self.info.task_id.as_deref()).unwrap_or_default()),
        }
    }

    /// The conversation that it belongs to, as its agent or otherwise.
    pub(super) fn conversation(&self) -> Option<Conversation<'_>> {
        Conversation::of(&self.info)
    }

    /// Its session. The agent of a conversation belongs to that conversation.
    pub(super) fn session(&self) -> Option<&str> {
        self.conversation().map(|of| of.key).or(self.info.session_key.as_deref())
    }

    /// Its command, as its user gave it.
    pub(super) fn command(&self) -> String {
        tame(conversation::command(&self.info))
    }

    /// Whether it is an agent of a conversation that has finished. Its replies are in the conversation.
    pub(super) fn is_finished_agent(&self) -> bool {
        conversation::is_finished_agent(&self.info)
    }

    /// The last line of its output that is not empty.
    pub(super) fn last_line(&self) -> String {
        let preview = self.info.output_preview.as_deref().unwrap_or_default();
        tame(preview.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default().trim())
    }

    /// Whether a filter matches it: its id, name, labels, command, state, owner, or the last line of its output. `text` is in lower case.
    pub(super) fn has(&self, text: &str) -> bool {
        let info = &self.info;
        let words = [info.name.as_deref(), Some(&*info.command), info.session_key.as_deref(), info.task_id.as_deref(), Some(&*info.phase)];
        let state = match (self.is_running(), self.is_failed()) {
            (true, _) => "running",
            (false, true) => "finished failed",
            (false, false) if ending::was_stopped(info) => "finished stopped",
            (false, false) => "finished",
        };
        let labels = label::shown(info).unwrap_or_default();
        let shown = [self.standing().0, self.owner(), self.last_line(), state.to_owned(), self.id().to_string(), labels];
        let mut all = words.into_iter().flatten().chain(shown.iter().map(String::as_str));
        all.any(|word| word.to_lowercase().contains(text))
    }
}

/// A time in at most four columns: `45s`, `12m`, `3h`, `9d`.
pub(super) fn short_age(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds}s"),
        100..6_000 => format!("{}m", seconds / 60),
        6_000..360_000 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of bytes in at most five columns: `640`, `9.5K`, `120M`, `1.2G`.
pub(super) fn short_size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut n = bytes;
    let mut unit = 0;
    while n >= 999.5 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    if unit > 0 && n < 9.95 { format!("{n:.1}{}", UNITS[unit]) } else { format!("{n:.0}{}", UNITS[unit]) }
}

/// A share of one core in at most five columns.
pub(super) fn short_percent(percent: f64) -> String {
    if percent < 99.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        for (seconds, want) in [(0, "0s"), (99, "99s"), (100, "1m"), (5_999, "99m"), (6_000, "1h"), (359_999, "99h"), (360_000, "4d")] {
            assert_eq!(short_age(seconds), want);
        }
        let sizes =
            [(0.0, "0"), (999.0, "999"), (1000.0, "1.0K"), (10_240.0, "10K"), (1_048_576.0, "1.0M"), (1.2e9, "1.1G"), (9e15, "8185T")];
        for (bytes, want) in sizes {
            assert_eq!(short_size(bytes), want);
        }
        for (percent, want) in [(0.0, "0.0"), (99.94, "99.9"), (99.96, "100"), (1600.0, "1600")] {
            assert_eq!(short_percent(percent), want);
        }
    }
}
