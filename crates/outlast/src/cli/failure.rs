//! Why a command failed, for users and for programs.

use super::left_running::named;
use outlast_client::{ClientError, StoppedLeft, code};
use serde_json::{Value, json};
use std::fmt::Display;

/// The exit code of an error of `outlast` where it must not be confused with the exit code of the command.
pub(crate) const OURS: i32 = 125;

/// The exit code after Ctrl-C, as shells have it.
pub(crate) const INTERRUPTED: i32 = 130;

/// The engine's hint about a process that has ended.
const LOG_HINT: &str = "`outlast log` shows its output";

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    error: String,
    code: String,
    hint: String,
    status: String,
    /// The exit code of a process that has ended already.
    exit_code: Option<Option<i32>>,
    of: Box<Of>,
    exit: i32,
    /// The reader of the output is gone, so nothing is reported.
    silent: bool,
    /// The user interrupted the wait, which is not an error.
    left: bool,
    /// The request was done, although the exit code is that of a refusal.
    done: bool,
}

/// The process that a failure is about.
#[derive(Debug, Default)]
struct Of {
    /// Its id, if it was found.
    process: Option<String>,
    /// What a kill stopped although the process had ended already.
    stopped_left: StoppedLeft,
}

impl Failure {
    /// A refusal: the caller must change the request.
    pub(crate) fn refused(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code::USAGE, error, hint)
    }

    /// A refusal of a request that needs a running process.
    pub(crate) fn over(error: impl Into<String>, hint: impl Into<String>, exit_code: Option<i32>) -> Self {
        let status = code::ALREADY_EXITED.to_owned();
        Self { status, exit_code: Some(exit_code), ..Self::new(code::ALREADY_EXITED, error, hint) }
    }

    /// A failure of the machine or of Outlast.
    pub(crate) fn fault(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code::FAULT, error, hint)
    }

    /// The runtime that waits for answers could not be created.
    pub(crate) fn without_runtime(why: &std::io::Error) -> Self {
        if matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            return Self::fault(format!("cannot wait for an engine: {why}"), "close files, or raise the limit of open files (`ulimit -n`)");
        }
        Self::new(
            code::REFUSED_CALL,
            format!("cannot wait for an engine: epoll_create1 or eventfd2 is refused here: {why}"),
            "allow them in the container's seccomp profile (Docker: --security-opt seccomp=FILE), or in the settings of the sandbox",
        )
    }

    /// An error with this code.
    pub(crate) fn new(code: &str, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            code: code.into(),
            hint: hint.into(),
            status: "error".into(),
            exit_code: None,
            of: Box::default(),
            exit: 1,
            silent: false,
            left: false,
            done: false,
        }
    }

    /// An error in the command line.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let first = lines.next().unwrap_or("the command line makes no sense");
        let mut error = first.strip_prefix("error: ").unwrap_or(first).to_owned();
        if error.ends_with(':') {
            // clap has the name on the next line.
            error.extend(lines.next().map(|what| format!(" {what}")));
        }
        let rest: Vec<_> = lines.filter(|l| !l.starts_with("For more information")).collect();
        let hint = if rest.is_empty() { "--help says what can be given".into() } else { rest.join("; ") };
        Self { exit: 2, ..Self::new(code::USAGE, error, hint) }
    }

    /// The reader of the output is gone.
    pub(crate) fn unread() -> Self {
        Self { silent: true, exit: 0, ..Self::new(code::FAULT, "", "") }
    }

    /// The user interrupted a wait. The work that was waited for continues.
    pub(crate) fn left(what: &str) -> Self {
        Self { left: true, exit: INTERRUPTED, ..Self::new(code::UNAVAILABLE, what, "") }
    }

    /// The same, with another exit code.
    pub(crate) fn exit(self, exit: i32) -> Self {
        Self { exit: if self.silent || self.left { self.exit } else { exit }, ..self }
    }

    /// The same, with another text.
    pub(crate) fn saying(self, error: String) -> Self {
        Self { error, ..self }
    }

    /// The same, with another hint.
    pub(crate) fn hinting(self, hint: String) -> Self {
        Self { hint, ..self }
    }

    /// The same, with the id of the process that it is about, for programs.
    pub(crate) fn of_process(mut self, id: &str) -> Self {
        self.of.process = Some(id.to_owned());
        self
    }

    /// The same for users, with the process named. If a kill of an ended process has stopped what that left running, the text reports this as done.
    pub(crate) fn about(self, of: &impl Display) -> Self {
        if self.has_stopped() {
            let error = format!("stopped what {of} had left running: {}", named(&self.of.stopped_left.left_killed));
            return Self { error, hint: String::new(), done: true, ..self };
        }
        // The engine's words for a process without a name.
        let error = match self
            .error
            .strip_prefix("Process has ")
            .map(|rest| ("has", rest))
            .or(self.error.strip_prefix("the process is ").map(|rest| ("is", rest)))
        {
            Some((verb, rest)) => format!("{of} {verb} {rest}"),
            None => match self.of.process.as_ref().and_then(|id| self.error.strip_prefix(&format!("{id} "))) {
                Some(rest) => format!("{of} {rest}"),
                None => format!("{of}: {}", self.error),
            },
        };
        // The engine does not know which words the user can copy.
        let hint = match &self.of.process {
            Some(id) if self.hint == LOG_HINT => format!("`outlast log {id}` shows its output"),
            _ => self.hint.clone(),
        };
        Self { error, hint, ..self }
    }

    /// Whether a kill of a process that had ended has stopped what it left running.
    pub(crate) fn has_stopped(&self) -> bool {
        self.code == code::ALREADY_EXITED && !self.of.stopped_left.left_killed.is_empty()
    }

    /// The same for a request of a session, which sees only its own processes. If nothing was found, the hint says so.
    pub(crate) fn within(self, session: Option<&str>) -> Self {
        match session {
            Some(session) if self.code == code::NOT_FOUND || self.code == code::BAD_ID => {
                let only = format!("OUTLAST_SESSION is {session} here, so that only its processes are looked at");
                let hint = if self.hint.is_empty() { only } else { format!("{}; {only}", self.hint) };
                Self { hint, ..self }
            }
            _ => self,
        }
    }

    /// The stable code for programs.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The text of the error.
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    /// Reports the error, and returns the exit code.
    pub(crate) fn tell(&self, json: bool) -> i32 {
        use std::io::Write as _;
        if self.silent {
            return self.exit;
        }
        // If that cannot be written, only the exit code is left.
        if json {
            let _ = writeln!(std::io::stdout(), "{}", self.to_json());
        } else {
            let hint = if self.hint.is_empty() { String::new() } else { format!("\n  {}", self.hint) };
            let name = if self.left || self.done { "" } else { "outlast: " };
            let warning = self.of.stopped_left.warning.as_ref().map(|warning| format!("\n  {warning}")).unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "{name}{}{hint}{warning}", self.error);
        }
        self.exit
    }

    /// Reports the error, unless the answer contains it, and returns the exit code.
    pub(crate) fn tell_unless(&self, is_in_answer: bool) -> i32 {
        if is_in_answer { self.exit } else { self.tell(false) }
    }

    /// The error as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut all = json!({"status": self.status, "error": self.error, "code": self.code, "hint": self.hint});
        if let Some(code) = self.exit_code {
            all["exit_code"] = json!(code);
        }
        if let Some(id) = &self.of.process {
            (all["session_id"], all["id"]) = (json!(id), json!(id));
        }
        if let (Value::Object(all), Ok(Value::Object(stopped))) = (&mut all, serde_json::to_value(&self.of.stopped_left)) {
            all.extend(stopped);
        }
        all
    }
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Self {
        let mut failure = Self::new(e.code(), e.to_string(), e.hint());
        failure.status = e.status().to_owned();
        if let ClientError::Refused(refused) = e {
            failure.exit_code = refused.exit_code;
            failure.of.stopped_left = refused.stopped_left.map(|stopped| *stopped).unwrap_or_default();
        }
        failure
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        match e.kind() {
            std::io::ErrorKind::BrokenPipe => Self::unread(),
            _ => Self::fault(format!("cannot write the answer: {e}"), ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::{Error, ErrorKind};

    #[test]
    fn programs_get_code_hint_and_the_contracts_status() {
        let error = Error::new(ErrorKind::Refusal, code::ALREADY_EXITED, "Process has already finished", "look");
        let refused = ClientError::Refused(error.with_status("already_exited").with_exit_code(None));
        let want = json!({"status": "already_exited", "error": "Process has already finished", "code": "already_exited", "hint": "look", "exit_code": null});
        assert_eq!(Failure::from(refused).to_json(), want);
        let plain = Failure::refused("no", "do");
        assert_eq!(plain.to_json(), json!({"status": "error", "error": "no", "code": "usage", "hint": "do"}));
    }

    #[test]
    fn the_session_is_a_hint_also_if_there_is_no_other() {
        let hint = |hint: &str| Failure::new(code::NOT_FOUND, "no", hint).within(Some("s")).hint;
        assert!(hint("").starts_with("OUTLAST_SESSION is s here") && hint("look").starts_with("look; OUTLAST_SESSION is s here"));
    }

    #[test]
    fn an_output_without_a_reader_is_no_error() {
        assert_eq!(Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)).exit(OURS).tell(false), 0);
        assert_eq!(Failure::from(std::io::Error::from(std::io::ErrorKind::StorageFull)).exit, 1);
    }
}
