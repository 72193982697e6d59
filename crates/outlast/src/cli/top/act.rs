//! What the user can do to processes on the screen: the question before it, and the report after it.

use super::row::Row;
use crate::cli::out::{Tone, tame};
use crate::cli::{ending, left_running, named, times};
use outlast_client::ProcessId;

/// An action on one or more processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Stop them, with everything they started.
    Stop,
    /// Remove them, with their output.
    Remove,
    /// Run their commands again.
    Rerun,
    /// Send this signal to the commands themselves.
    Signal(OfferedSignal),
}

/// A signal that the list of signals offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfferedSignal {
    pub(super) name: &'static str,
    pub(super) number: i32,
    /// What programs usually do when they get it.
    pub(super) usual: &'static str,
}

/// The signals that people send by hand. `outlast signal` knows the others.
pub(super) const SIGNALS: [OfferedSignal; 9] = [
    OfferedSignal { name: "TERM", number: libc::SIGTERM, usual: "asks it to end" },
    OfferedSignal { name: "INT", number: libc::SIGINT, usual: "interrupts it, as Ctrl-C does" },
    OfferedSignal { name: "HUP", number: libc::SIGHUP, usual: "servers often reload their configuration" },
    OfferedSignal { name: "QUIT", number: libc::SIGQUIT, usual: "ends it, some programs with a stack dump" },
    OfferedSignal { name: "USR1", number: libc::SIGUSR1, usual: "the program decides" },
    OfferedSignal { name: "USR2", number: libc::SIGUSR2, usual: "the program decides" },
    OfferedSignal { name: "STOP", number: libc::SIGSTOP, usual: "suspends it" },
    OfferedSignal { name: "CONT", number: libc::SIGCONT, usual: "continues a suspended one" },
    OfferedSignal { name: "KILL", number: libc::SIGKILL, usual: "ends it at once, and leaves what it started" },
];

/// The most processes that a question names.
const MAX_NAMED: usize = 6;

impl Act {
    /// Whether it can be applied to a process in its current phase.
    pub(super) fn suits(self, row: &Row) -> bool {
        match self {
            // What a finished process left running can be stopped, too.
            Self::Stop => row.is_running() || !row.info.left.is_empty(),
            Self::Remove => !row.is_running(),
            Self::Rerun => true,
            Self::Signal(_) => row.is_running(),
        }
    }

    /// Why it cannot be applied to this process.
    pub(super) fn refusal(self, row: &Row) -> String {
        match self {
            Self::Remove => format!("{} still runs: stop it first", row.id()),
            Self::Stop | Self::Signal(_) | Self::Rerun => format!("{} {}", row.id(), ending::sentence(&row.info.fate)),
        }
    }

    /// The title of the question's frame.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Stop => "Stop",
            Self::Remove => "Remove",
            Self::Rerun => "Run again",
            Self::Signal(_) => "Signal",
        }
    }

    /// What the keys below the question do.
    pub(super) fn answers(self, count: usize) -> String {
        let it = if count == 1 { "it" } else { "them" };
        match self {
            Self::Stop if count == 1 => "y stops it and everything it started   n or Esc leaves it".into(),
            Self::Stop => "y stops them and everything they started   n or Esc leaves them".into(),
            Self::Remove => format!("y removes {it}, with all output   n or Esc keeps {it}"),
            Self::Rerun => "y runs it again   n or Esc does not".into(),
            Self::Signal(_) => "j k choose   Enter sends it   Esc sends none".into(),
        }
    }

    /// The message after the user declined.
    pub(super) fn declined(self) -> &'static str {
        match self {
            Self::Stop => "nothing was stopped",
            Self::Remove => "nothing was removed",
            Self::Rerun => "nothing was started",
            Self::Signal(_) => "no signal was sent",
        }
    }

    /// The message until the engine has answered.
    pub(super) fn under_way(self, ids: &[ProcessId]) -> String {
        let what = named_or_counted(ids);
        match self {
            Self::Stop => format!("stopping {what} …"),
            Self::Remove => format!("removing {what} …"),
            Self::Rerun => format!("starting {what} again …"),
            Self::Signal(signal) => format!("sending {} to {what} …", signal.name),
        }
    }

    /// The request as a noun, for one that is still open when the user leaves.
    pub(super) fn request(self, ids: &[ProcessId]) -> String {
        let what = named_or_counted(ids);
        match self {
            Self::Stop => format!("the stop of {what}"),
            Self::Remove => format!("the removal of {what}"),
            Self::Rerun => format!("the new start of {what}"),
            Self::Signal(signal) => format!("the signal {} for {what}", signal.name),
        }
    }

    /// The outcome in one line. `results` has a sentence for each process.
    pub(super) fn outcome(self, results: &[(ProcessId, Result<String, String>)]) -> (String, Tone) {
        if let [(id, result)] = results {
            return match result {
                Ok(done) => (done.clone(), Tone::Good),
                Err(why) => (format!("{id}: {why}"), Tone::Bad),
            };
        }
        let done = match self {
            Self::Stop => "stopped",
            Self::Remove => "removed",
            Self::Rerun => "started again",
            Self::Signal(_) => "signalled",
        };
        let mut failed = results.iter().filter_map(|(id, result)| result.as_ref().err().map(|why| format!("{id}: {why}")));
        match failed.next() {
            None => (format!("{} processes were {done}", results.len()), Tone::Good),
            Some(first) => {
                let failures = 1 + failed.count();
                (format!("{} {done}, {failures} not: {first}", results.len() - failures), Tone::Bad)
            }
        }
    }

    /// The question about these processes. `left_out`: how many marked processes it cannot be applied to.
    pub(super) fn question(self, rows: &[&Row], left_out: usize) -> Vec<String> {
        let mut lines = match rows {
            [row] => self.about_one(row),
            rows => self.about_several(rows),
        };
        if left_out > 0 {
            lines.push(match self {
                Self::Remove => format!("{left_out} of the marked processes still run and stay."),
                Self::Stop | Self::Rerun | Self::Signal(_) => format!("{left_out} of the marked processes have finished and are left out."),
            });
        }
        lines
    }

    fn about_one(self, row: &Row) -> Vec<String> {
        let what = row.info.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        let tree = match row.usage.map(|u| u.processes) {
            Some(1) => ", 1 process".into(),
            Some(n) => format!(", {n} processes"),
            None => String::new(),
        };
        let standing = match row.is_running() {
            true => format!("{} for {}{tree}", row.info.phase, times::age(row.info.uptime_seconds)),
            false => row.standing().0,
        };
        let head = match self {
            Self::Stop | Self::Remove => format!("{} {}?", self.verb(), row.id()),
            Self::Rerun => format!("Run {} again?", row.id()),
            Self::Signal(_) => format!("Which signal for {}?", row.id()),
        };
        let mut lines = vec![head, tame(&format!("{what}{}", row.command())), standing];
        if self == Self::Stop && !row.is_running() {
            lines.push(format!("It left running: {}", tame(&left_running::named(&row.info.left))));
        }
        if self == Self::Rerun {
            lines.push(if row.is_running() { "It keeps running; a second one is started." } else { "A new process is started." }.into());
        }
        lines.extend(match row.conversation() {
            Some(of) if of.is_agent => Some(format!("It is the agent of the conversation {}.", of.name())),
            Some(of) => Some(format!("It belongs to the conversation {}.", of.name())),
            None => Some(row.owner()).filter(|owner| !owner.is_empty()).map(|owner| format!("It belongs to {owner}.")),
        });
        lines
    }

    fn about_several(self, rows: &[&Row]) -> Vec<String> {
        let mut lines = vec![match self {
            Self::Stop | Self::Remove | Self::Rerun => format!("{} these {} processes?", self.verb(), rows.len()),
            Self::Signal(_) => format!("Which signal for these {} processes?", rows.len()),
        }];
        let name = |row: &&Row| format!("  {}", named::shown(row.id(), Some(&row.title())));
        lines.extend(rows.iter().take(MAX_NAMED).map(name));
        if rows.len() > MAX_NAMED {
            lines.push(format!("  and {} more", rows.len() - MAX_NAMED));
        }
        lines
    }
}

fn named_or_counted(ids: &[ProcessId]) -> String {
    match ids {
        [id] => id.to_string(),
        ids => format!("{} processes", ids.len()),
    }
}
