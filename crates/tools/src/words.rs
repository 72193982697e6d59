//! How each set of tools says what to do next, for notes and hints.

use crate::Profile;
use outlast_client::LeftProcess;

/// How many processes that were left running a note names.
const MAX_NAMED: usize = 8;

impl Profile {
    /// How lines of a log are read; of which process, where the reader may not know.
    pub(crate) fn read_lines(self, first: u64, many: Option<u64>) -> String {
        let limit = many.map(|many| format!(", limit={many}")).unwrap_or_default();
        match self {
            Self::Hermes => format!("process(action=\"log\", offset={first}{limit})"),
            Self::Native => format!("log(offset={first}{limit})"),
            // It has no way to look back.
            Self::Codex => format!("`outlast log --offset {first}{}`", many.map(|many| format!(" --limit {many}")).unwrap_or_default()),
        }
    }

    /// How a process is named that there is.
    pub(crate) fn known(self) -> &'static str {
        match self {
            Self::Hermes => "process(action=\"list\") lists all processes",
            Self::Native => "list() lists all processes",
            Self::Codex => "use the session_id that exec_command returned",
        }
    }

    /// How the output of one that is over is seen.
    pub(crate) fn log(self) -> &'static str {
        match self {
            Self::Hermes => "process(action=\"log\")",
            Self::Native => "log(process)",
            Self::Codex => "write_stdin with empty chars",
        }
    }

    /// How one is stopped.
    pub(crate) fn kill(self, id: &str) -> String {
        match self {
            Self::Hermes => format!("process(action=\"kill\", session_id=\"{id}\")"),
            Self::Native => format!("kill(process=\"{id}\")"),
            // It has no way to stop one that is over.
            Self::Codex => format!("`outlast kill {id}`"),
        }
    }

    /// What there is to say of one that is over and has left these running.
    pub(crate) fn left_running(self, id: &str, left: &[LeftProcess]) -> String {
        let shown: Vec<String> = left.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        let more = if left.len() > MAX_NAMED { format!(" and {} more", left.len() - MAX_NAMED) } else { String::new() };
        let (processes, them) = match left.len() {
            1 => ("1 process is".to_owned(), "it"),
            many => (format!("{many} processes are"), "them"),
        };
        format!("{processes} still running: {}{more}; {} stops {them}", shown.join(", "), self.kill(id))
    }

    /// How one has to be started so that it takes input.
    pub(crate) fn input(self) -> &'static str {
        match self {
            Self::Hermes => "pty=true",
            Self::Native => "pty=true or input=true",
            Self::Codex => "tty=true",
        }
    }

    /// What a process is called in its arguments.
    pub(crate) fn process(self) -> &'static str {
        match self {
            Self::Hermes | Self::Codex => "session_id",
            Self::Native => "process",
        }
    }
}
