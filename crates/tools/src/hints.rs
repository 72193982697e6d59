//! How each set of tools names the next step, for notes and hints.

use crate::Profile;
use outlast_client::LeftProcess;

/// The most processes that a note about left processes names.
const MAX_NAMED: usize = 8;

impl Profile {
    /// The call that reads lines of a log.
    pub(crate) fn read_lines(self, first: u64, many: Option<u64>) -> String {
        let limit = many.map(|many| format!(", limit={many}")).unwrap_or_default();
        match self {
            Self::Hermes => format!("process(action=\"log\", offset={first}{limit})"),
            Self::Native => format!("log(offset={first}{limit})"),
            // These tools cannot read older output.
            Self::Codex => format!("`outlast log --offset {first}{}`", many.map(|many| format!(" --limit {many}")).unwrap_or_default()),
        }
    }

    /// How to find the id of an existing process.
    pub(crate) fn known(self) -> &'static str {
        match self {
            Self::Hermes => "process(action=\"list\") lists all processes",
            Self::Native => "list() lists all processes",
            Self::Codex => "use the session_id that exec_command returned",
        }
    }

    /// The call that shows the output of an ended process.
    pub(crate) fn log(self) -> &'static str {
        match self {
            Self::Hermes => "process(action=\"log\")",
            Self::Native => "log(process)",
            Self::Codex => "write_stdin with empty chars",
        }
    }

    /// The call that stops a process.
    pub(crate) fn kill(self, id: &str) -> String {
        match self {
            Self::Hermes => format!("process(action=\"kill\", session_id=\"{id}\")"),
            Self::Native => format!("kill(process=\"{id}\")"),
            // These tools cannot stop what an ended process left.
            Self::Codex => format!("`outlast kill {id}`"),
        }
    }

    /// The note for an ended process that left these processes running.
    pub(crate) fn left_running(self, id: &str, left: &[LeftProcess]) -> String {
        let shown: Vec<String> = left.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        let more = if left.len() > MAX_NAMED { format!(" and {} more", left.len() - MAX_NAMED) } else { String::new() };
        let (processes, them) = match left.len() {
            1 => ("1 process is".to_owned(), "it"),
            many => (format!("{many} processes are"), "them"),
        };
        format!("{processes} still running: {}{more}; {} stops {them}", shown.join(", "), self.kill(id))
    }

    /// The argument with which a process takes input.
    pub(crate) fn input(self) -> &'static str {
        match self {
            Self::Hermes => "pty=true",
            Self::Native => "pty=true or input=true",
            Self::Codex => "tty=true",
        }
    }

    /// The argument that names a process.
    pub(crate) fn process(self) -> &'static str {
        match self {
            Self::Hermes | Self::Codex => "session_id",
            Self::Native => "process",
        }
    }
}
