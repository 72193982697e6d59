//! `outlast signal`

use super::choice::NamedVerb;
use super::named::{self, Each, Named};
use super::{Context, Failure};
use clap::Args;
use outlast_core::nearest;

/// Send a signal to a process
///
/// Only the command itself gets the signal, not what it started; `kill` stops the whole tree.
///
/// Several processes may be named before the signal. If it could not be sent to one of them, the exit code is 1. With --json the answer is then
/// {"processes": [...]}, each as for one process, or an error with its `id`.
#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The process: its name, its id, or at least four digits of its id; may be several
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// A name or a number: USR1, SIGUSR1, 10
    #[arg(value_name = "SIGNAL", value_parser = number)]
    signal: i32,
    /// Do not ask first if several running processes have the name
    #[arg(long)]
    yes: bool,
}

impl Signal {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let (verb, done) = (format!("send {} to", shown(self.signal)), "sent");
        let verb = NamedVerb { verb: &verb, done, yes: self.yes };
        let Some(all) = verb.choose(ctx, &client, &self.ids).await? else { return Ok(1) };
        let tell = |of: &Named| ctx.out.tip(&format!("{of} was sent {}", shown(self.signal)));
        if let ([one], 1) = (&all[..], self.ids.len()) {
            let sent = client.signal(&one.id, self.signal).await.map_err(|e| one.failed(ctx, e))?;
            tell(one);
            if ctx.out.json {
                ctx.out.object(&named::with_ids(&sent))?;
            }
            return Ok(0);
        }
        let mut each = Each::new();
        for one in &all {
            match client.signal(&one.id, self.signal).await {
                Ok(sent) => {
                    tell(one);
                    each.done(&sent, 0);
                }
                Err(e) => each.failed(ctx, one, e),
            }
        }
        each.finish(ctx)
    }
}

const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// The names that are accepted.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// The number of a signal by its name or number.
fn number(text: &str) -> Result<i32, String> {
    let bad = || {
        let upper = text.to_ascii_uppercase();
        let meant = nearest(upper.strip_prefix("SIG").unwrap_or(&upper), NAMES.iter().map(|(name, _)| *name));
        let meant = if meant.is_empty() { String::new() } else { format!("did you mean {}? ", meant.join(" or ")) };
        format!("{text:?} is not a signal; {meant}use a name such as TERM, SIGUSR1 or RTMIN+1, or a number from 1 to {}", libc::SIGRTMAX())
    };
    if let Ok(n) = text.parse::<i32>() {
        return if (1..=libc::SIGRTMAX()).contains(&n) { Ok(n) } else { Err(bad()) };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = NAMES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number);
    known.or_else(|| real_time(name)).ok_or_else(bad)
}

/// The usual name of a signal, such as `SIGSTOP`, or its number.
fn shown(signal: i32) -> String {
    match NAMES.iter().find(|(_, number)| *number == signal) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

fn real_time(name: &str) -> Option<i32> {
    let (base, rest) = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) => (libc::SIGRTMIN(), rest),
        (_, Some(rest)) => (libc::SIGRTMAX(), rest),
        (None, None) => return None,
    };
    let shift: i32 = if rest.is_empty() { 0 } else { rest.parse().ok().filter(|_| rest.starts_with(['+', '-']))? };
    base.checked_add(shift).filter(|n| (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, want) in
            [("TERM", 15), ("SIGTERM", 15), ("sigterm", 15), ("15", 15), ("KILL", 9), ("64", 64), ("SIGRTMAX", 64), ("usr1", 10)]
        {
            assert_eq!(number(text), Ok(want), "{text}");
        }
        assert_eq!([19, 6, 40].map(shown), ["SIGSTOP", "SIGABRT", "signal 40"]);
        assert_eq!(number("RTMIN+2"), Ok(libc::SIGRTMIN() + 2));
        assert_eq!(number("RTMAX-1"), Ok(63));
        assert!(number("SIGTREM").unwrap_err().contains("did you mean TERM?"), "{:?}", number("SIGTREM"));
        for bad in ["", "0", "-1", "65", "TERMINATE", "SIG", "RTMIN2", "RTMAX+1", "RTMIN-1"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
