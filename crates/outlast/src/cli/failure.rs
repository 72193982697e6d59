//! Why a command could not be done, for people and for programs.

use super::left_running::named;
use outlast_client::{ClientError, StoppedLeft, code};
use serde_json::{Value, json};
use std::fmt::Display;

/// The exit code of an error of ours where it must not be taken for the command's own.
pub(crate) const OURS: i32 = 125;

/// The exit code of what Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Why, and with which exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    error: String,
    code: String,
    hint: String,
    status: String,
    /// The exit code of a process that is over already.
    exit_code: Option<Option<i32>>,
    of: Box<Of>,
    exit: i32,
    /// Nobody reads any more, so nothing is said.
    silent: bool,
    /// Somebody left on purpose, which is no failure of ours.
    left: bool,
    /// What was asked was done, although the exit code is that of a refusal.
    done: bool,
}

/// What is known of the process that a failure is about.
#[derive(Debug, Default)]
struct Of {
    /// Its id, if it was found.
    process: Option<String>,
    /// What a kill did although the process was over already.
    stopped_left: StoppedLeft,
}

impl Failure {
    /// The caller must ask differently.
    pub(crate) fn refused(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code::USAGE, error, hint)
    }

    /// What was asked needs a process that runs.
    pub(crate) fn over(error: impl Into<String>, hint: impl Into<String>, exit_code: Option<i32>) -> Self {
        let status = code::ALREADY_EXITED.to_owned();
        Self { status, exit_code: Some(exit_code), ..Self::new(code::ALREADY_EXITED, error, hint) }
    }

    /// The machine, or we, failed.
    pub(crate) fn fault(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(code::FAULT, error, hint)
    }

    /// The runtime that waits for answers could not be made.
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

    /// Something of this code.
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

    /// The words on the command line make no sense.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let first = lines.next().unwrap_or("the command line makes no sense");
        let mut error = first.strip_prefix("error: ").unwrap_or(first).to_owned();
        if error.ends_with(':') {
            // What is meant stands below.
            error.extend(lines.next().map(|what| format!(" {what}")));
        }
        let rest: Vec<_> = lines.filter(|l| !l.starts_with("For more information")).collect();
        let hint = if rest.is_empty() { "--help says what can be given".into() } else { rest.join("; ") };
        Self { exit: 2, ..Self::new(code::USAGE, error, hint) }
    }

    /// Whoever read our output has gone.
    pub(crate) fn unread() -> Self {
        Self { silent: true, exit: 0, ..Self::new(code::FAULT, "", "") }
    }

    /// Whoever waited was interrupted, and what they waited for goes on.
    pub(crate) fn left(what: &str) -> Self {
        Self { left: true, exit: INTERRUPTED, ..Self::new(code::UNAVAILABLE, what, "") }
    }

    /// The same, with another exit code.
    pub(crate) fn exit(self, exit: i32) -> Self {
        Self { exit: if self.silent || self.left { self.exit } else { exit }, ..self }
    }

    /// The same, in other words.
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

    /// The same for people, about this process. A kill of one that was over has stopped what that left running, which is what was wanted.
    pub(crate) fn about(self, of: &impl Display) -> Self {
        if self.has_stopped() {
            let error = format!("stopped what {of} had left running: {}", named(&self.of.stopped_left.left_killed));
            return Self { error, hint: String::new(), done: true, ..self };
        }
        let error = format!("{of}: {}", self.error);
        self.saying(error)
    }

    /// Whether a kill of a process that was over has stopped something.
    pub(crate) fn has_stopped(&self) -> bool {
        self.code == code::ALREADY_EXITED && !self.of.stopped_left.left_killed.is_empty()
    }

    /// The same, to somebody who is asked for on behalf of a conversation: what belongs to others is not there for them.
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

    /// Its word for programs.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// What was wrong.
    pub(crate) fn error(&self) -> &str {
        &self.error
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    /// Tells, and returns the exit code.
    pub(crate) fn tell(&self, json: bool) -> i32 {
        use std::io::Write as _;
        if self.silent {
            return self.exit;
        }
        // Where neither can be written, the exit code has to do.
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

    /// Tells, unless the answer has it, and returns the exit code.
    pub(crate) fn tell_unless(&self, is_in_answer: bool) -> i32 {
        if is_in_answer { self.exit } else { self.tell(false) }
    }

    /// For an answer in JSON.
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
    fn a_conversation_is_a_hint_also_where_there_is_no_other() {
        let hint = |hint: &str| Failure::new(code::NOT_FOUND, "no", hint).within(Some("s")).hint;
        assert!(hint("").starts_with("OUTLAST_SESSION is s here") && hint("look").starts_with("look; OUTLAST_SESSION is s here"));
    }

    #[test]
    fn nobody_is_told_that_nobody_reads() {
        assert_eq!(Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)).exit(OURS).tell(false), 0);
        assert_eq!(Failure::from(std::io::Error::from(std::io::ErrorKind::StorageFull)).exit, 1);
    }
}
