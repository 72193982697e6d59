//! Decides what a call of `terminal` asks for: all checks, in order, before anything runs.

use crate::args::{Args, short, type_name};
use crate::{Answer, AtLimit, Host, Policy, answer, misuse};
use outlast_client::{OsText, Spec};
use outlast_core::{Tell, expand_home};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// In the background; the call returns at once.
    Background,
    /// In the foreground; the call waits for its end.
    Foreground {
        /// How long the call waits.
        limit: Duration,
        /// What happens at the limit.
        at_limit: AtLimit,
    },
}

/// A checked call of `terminal`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Plan {
    /// What to run.
    pub spec: Spec,
    /// Where to run it.
    pub mode: Mode,
    /// Further fields of the answer.
    pub notes: Answer,
    /// The most tokens of output in the answer.
    pub tokens: Option<usize>,
    /// Whether the call names its wait.
    pub(crate) names_wait: bool,
}

impl Plan {
    /// Checks the arguments of a call. The error is the answer to the call.
    pub fn of(arguments: &Value, host: &Host) -> Result<Self, Answer> {
        let args = Args::of(arguments).map_err(|e| refused(&e))?;
        let Some(Value::String(command)) = args.get("command") else {
            return Err(refused(&format!("Invalid command: expected string, got {}", type_name(args.get("command")))));
        };
        if command.trim().is_empty() {
            return Err(refused("Invalid command: it is empty"));
        }
        let wanted = Flags::of(&args, host.policy).map_err(|e| refused(&e))?;
        let mut notes = Answer::new();
        let mode = if wanted.background { Mode::Background } else { foreground(&args, host, command)? };
        let cwd = args.text("workdir").filter(|dir| !dir.trim().is_empty()).map(|dir| directory(&dir, host)).transpose()?;
        let pty = wanted.pty && !takes_a_token(command);
        if pty != wanted.pty {
            let note = "PTY disabled for this command: `gh auth login --with-token` reads the token from standard input, which has to end";
            notes.insert("pty_note".into(), note.into());
        }
        let tell = match mode {
            Mode::Background => wanted.tell(host, command, &mut notes),
            // Recorded at the start, so that the end becomes a notice even if the caller is gone by then. The wait of this call consumes it.
            Mode::Foreground { at_limit: AtLimit::HandOver, .. } if host.can_notify => {
                let mut tell = Tell::end().to(host.route.clone());
                tell.unless_waited_for = true;
                tell
            }
            Mode::Foreground { .. } => Tell::default(),
        };
        let tokens = match host.policy {
            Policy::Agent => args.size("max_output_tokens").map_err(|e| refused(&e))?,
            Policy::CodeExecution => None,
        };
        let timeout = match mode {
            // The keeper enforces the limit, even if the caller is gone.
            Mode::Foreground { limit, at_limit: AtLimit::Kill } => Some(limit),
            Mode::Foreground { at_limit: AtLimit::HandOver, .. } | Mode::Background => None,
        };
        let mut spec = Spec::shell(command.as_str()).telling(tell);
        (spec.cwd, spec.pty, spec.timeout) = (cwd, pty, timeout);
        Ok(Self { spec, mode, notes, tokens, names_wait: args.has("timeout") })
    }
}

/// The flags of a call.
struct Flags {
    background: bool,
    pty: bool,
    notify: bool,
    patterns: Vec<String>,
}

impl Flags {
    fn of(args: &Args<'_>, policy: Policy) -> Result<Self, String> {
        match policy {
            Policy::Agent => Ok(Self {
                background: args.flag("background")?,
                pty: args.flag("pty")?,
                notify: args.flag("notify_on_complete")?,
                patterns: args.texts("watch_patterns")?,
            }),
            // These flags are ignored for scripts.
            Policy::CodeExecution => Ok(Self { background: false, pty: false, notify: false, patterns: Vec::new() }),
        }
    }

    /// The notices that a background process makes, and notes for the model about them.
    fn tell(self, host: &Host, command: &str, notes: &mut Answer) -> Tell {
        let Self { notify, patterns, .. } = self;
        let mut hints = hints(command);
        let mut tell = Tell::default();
        match (notify, !patterns.is_empty()) {
            (false, false) if host.can_notify => hints.insert(0, SILENT),
            (false, false) => {}
            _ if !host.can_notify => {
                notes.insert("notify_unsupported".into(), UNSUPPORTED.into());
            }
            (true, both) => {
                tell.completion = true;
                notes.insert("notify_on_complete".into(), true.into());
                if both {
                    notes.insert("watch_patterns_ignored".into(), EXCLUSIVE.into());
                }
            }
            (false, true) => {
                notes.insert("watch_patterns".into(), json!(patterns));
                tell.watch = patterns;
            }
        }
        if !hints.is_empty() {
            notes.insert("hint".into(), hints.join(" ").into());
        }
        if !tell.is_nothing() {
            tell.route = host.route.clone();
        }
        tell
    }
}

const SILENT: &str = "This process is silent: you will not be told when it ends. For a job that ends by itself (tests, a build, a deployment) call again with \
    notify_on_complete=true; for a server or watcher that is to go on, ignore this and look at it with process(action=\"poll\") when you need to.";
pub(crate) const UNSUPPORTED: &str = "This host cannot deliver a notice after your turn, so notify_on_complete and watch_patterns do nothing here. Ask with process(action=\"poll\") or \
    process(action=\"wait\") instead.";
const EXCLUSIVE: &str = "watch_patterns was dropped because notify_on_complete is set: both on one process would give duplicate notifications. Set only one of them.";
const POLLER: &str = "This looks like a home-made CI poller. `gh pr checks NUMBER --watch --fail-fast` and `gh run watch RUN --exit-status` wait by themselves, know every \
    state and exit with the result.";
const DETACHED: &str = "The command leaves something running behind the shell, which itself ends at once, and with it what is told of this process. Leave out '&', nohup, \
    setsid and disown: a background process outlasts this call without them.";

/// Hints about a background command.
fn hints(command: &str) -> Vec<&'static str> {
    let asks_github = command.contains("gh pr view") || command.contains("gh pr checks");
    let filters = command.contains("--jq") || command.contains("| jq") || command.contains("|jq");
    let mut hints = Vec::new();
    if command.contains("statusCheckRollup") || (asks_github && filters) {
        hints.push(POLLER);
    }
    if matches!(misuse(command), Some(crate::Misuse::Detaches(_) | crate::Misuse::Background)) && !command.contains("wait") {
        hints.push(DETACHED);
    }
    hints
}

/// The limits of a foreground command, or why it must not run in the foreground.
fn foreground(args: &Args<'_>, host: &Host, command: &str) -> Result<Mode, Answer> {
    let asked = args.whole("timeout", 1).map_err(|e| refused(&e))?;
    let most = host.foreground_limit;
    if let Some(seconds) = asked.filter(|s| Duration::from_secs(*s) > most) {
        let instead = match host.policy {
            Policy::Agent => "Use background=true with notify_on_complete=true for what takes longer",
            Policy::CodeExecution => "Ask for less",
        };
        return Err(answer([(
            "error",
            format!("Foreground timeout {seconds}s exceeds the maximum of {}s. {instead}.", most.as_secs()).into(),
        )]));
    }
    if let Some(misuse) = misuse(command) {
        return Err(refused(&misuse.to_string()));
    }
    let usual = match host.at_limit() {
        AtLimit::HandOver => host.usual_wait(host.default_timeout),
        // The limit stops the command, so the wait for it must not shorten it.
        AtLimit::Kill => host.default_timeout,
    };
    Ok(Mode::Foreground { limit: asked.map_or(usual, Duration::from_secs), at_limit: host.at_limit() })
}

/// The directory that an argument names. No shell reads it. Characters that a shell interprets are refused, since a model that writes them
/// means something else.
fn directory(dir: &str, host: &Host) -> Result<OsText, Answer> {
    let allowed = |c: char| c.is_alphanumeric() || r"/\:_-.~ +@=,".contains(c);
    if let Some(bad) = dir.chars().find(|c| !allowed(*c)) {
        let error = format!("Blocked: workdir contains {bad:?}, which no workdir may contain. Give a plain path; got {:?}", short(dir));
        return Err(answer([("output", "".into()), ("exit_code", (-1).into()), ("error", error.into()), ("status", "blocked".into())]));
    }
    let home = || host.caller.env.iter().find(|v| v.name.as_bytes() == b"HOME").map(|v| PathBuf::from(v.value.as_os_str()));
    let path = expand_home(Path::new(dir), home().as_deref());
    Ok(host.caller.cwd.as_path().join(path).as_path().into())
}

/// The same for tools whose errors are a text.
pub(crate) fn directory_in(args: &Args<'_>, name: &str, host: &Host) -> Result<Option<OsText>, String> {
    let given = args.text(name).filter(|dir| !dir.trim().is_empty());
    let said = |refusal: Answer| refusal.get("error").and_then(Value::as_str).unwrap_or("it cannot be used").to_owned();
    given.map(|dir| directory(&dir, host)).transpose().map_err(said)
}

/// Whether the command reads a token until its input ends. In a terminal the input does not end.
fn takes_a_token(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let at = words.windows(3).position(|w| w == ["gh", "auth", "login"]);
    at.is_some_and(|at| words[at..].contains(&"--with-token"))
}

/// The answer to a call that is refused.
pub(crate) fn refused(error: &str) -> Answer {
    answer([("output", "".into()), ("exit_code", (-1).into()), ("error", error.into()), ("status", "error".into())])
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::any_call;
