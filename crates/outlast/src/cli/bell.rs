//! Notifies a user at a terminal that a process has ended: with the bell, with a notification of the terminal, or with one of the desktop.
//!
//! The engine knows no terminal. `run` notifies if it waits; otherwise it starts a child that does.

use super::events::sentence;
use super::named::Named;
use super::out::tame;
use super::{Context, Failure, seconds, times};
use crate::config::{Notify, TerminalNotice};
use clap::Args;
use outlast_client::{
    Body, Client, ClientError, Completion, Connect, Fate, From, Notice, Owner, ProcessId, ProcessInfo, Reason, Route, Scope, Status, Time,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long `notify-send` may take.
const DESKTOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the engine is asked for an exit that the kernel has reported, and the pause between two requests.
const MAX_LOOKS: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How the user is notified, and how long the process must have run for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Args)]
struct NotifyBy {
    /// By the terminal, if the process ran for this long
    #[arg(long, value_parser = seconds)]
    terminal_after: Option<Duration>,
    /// By the desktop, if the process ran for this long
    #[arg(long, value_parser = seconds)]
    desktop_after: Option<Duration>,
}

impl NotifyBy {
    fn new(is_asked: bool, notify: Notify, after: Duration) -> Self {
        let desktop_after = (notify == Notify::Desktop).then_some(after);
        let terminal_after = match notify {
            _ if is_asked => Some(Duration::ZERO),
            Notify::Terminal => Some(after),
            Notify::Off | Notify::Desktop => None,
        };
        Self { terminal_after, desktop_after }
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The notification for the end of a process that was just started.
#[derive(Debug)]
pub(crate) struct Bell {
    means: NotifyBy,
    began: Instant,
}

impl Bell {
    /// None if no user is to be notified. `is_asked`: a flag asks for it, also if the process runs only for a short time.
    pub(crate) fn new(ctx: &Context, is_asked: bool) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            if is_asked {
                ctx.out.remark("note: --bell does nothing here: standard error is not a terminal");
            }
            return None;
        }
        // The settings are for users. An agent may have a terminal, too.
        let notify = if ctx.owner().session.is_none() { ctx.settings.notify } else { Notify::Off };
        let means = NotifyBy::new(is_asked, notify, ctx.settings.notify_after);
        (!means.is_none()).then(|| Self { means, began: Instant::now() })
    }

    /// Notifies that the process has ended.
    pub(crate) async fn tell_end(&self, ctx: &Context, of: &Named, command: &str, fate: &Fate) {
        let text = ended(of, command, fate, self.began.elapsed());
        self.means.tell(ctx, &text, self.began.elapsed()).await;
    }

    /// Notifies that a wait is over, if a flag asked for it.
    pub(crate) async fn tell_ready(&self, ctx: &Context, text: &str) {
        if self.means.terminal_after == Some(Duration::ZERO) {
            ring(ctx, text);
        }
    }

    /// Starts a child that waits for the end and notifies.
    pub(crate) fn leave(&self, ctx: &Context, info: &ProcessInfo) {
        if let Err(e) = self.start_child(ctx, info) {
            ctx.out.remark(&format!("note: you will not be told of its end: {e}"));
        }
    }

    fn start_child(&self, ctx: &Context, info: &ProcessInfo) -> std::io::Result<()> {
        let mut child = std::process::Command::new(&ctx.world.program);
        child.arg("__tell-end").arg(info.session_id.to_string());
        for (flag, after) in [("--terminal-after", self.means.terminal_after), ("--desktop-after", self.means.desktop_after)] {
            child.args(after.map(|after| [flag.to_owned(), after.as_secs_f64().to_string()]).into_iter().flatten());
        }
        child.args(info.pid.map(|pid| ["--pid".to_owned(), pid.to_string()]).into_iter().flatten());
        // It must not keep the caller's directory busy, nor a pipe open that the caller's reader waits for.
        child.env("OUTLAST_HOME", &ctx.settings.home).current_dir("/");
        child.stdin(Stdio::null()).stdout(std::io::stderr().as_fd().try_clone_to_owned()?).stderr(Stdio::null());
        child.spawn().map(drop)
    }
}

impl NotifyBy {
    async fn tell(self, ctx: &Context, text: &str, ran: Duration) {
        let is_due = |after: Option<Duration>| after.is_some_and(|after| ran >= after);
        // If the desktop cannot be notified, the terminal is.
        if (is_due(self.desktop_after) && !on_desktop(text).await) || is_due(self.terminal_after) {
            ring(ctx, text);
        }
    }
}

/// Rings the bell of the terminal, with the text as its notice. In the child that waits for the end, standard output is the terminal.
fn ring(ctx: &Context, text: &str) {
    let text = tame(text);
    let notice = match ctx.world.terminal_notice() {
        TerminalNotice::None => String::new(),
        TerminalNotice::Osc9 => format!("\x1b]9;outlast: {text}\x1b\\"),
        TerminalNotice::Osc777 => format!("\x1b]777;notify;outlast;{text}\x1b\\"),
    };
    let bytes = format!("{notice}\x07");
    // A terminal that is gone gets nothing.
    let _gone = match std::io::stderr().is_terminal() {
        true => std::io::stderr().write_all(bytes.as_bytes()),
        false => std::io::stdout().write_all(bytes.as_bytes()).and_then(|()| std::io::stdout().flush()),
    };
}

/// Whether the desktop shows the text.
async fn on_desktop(text: &str) -> bool {
    let mut send = tokio::process::Command::new("notify-send");
    send.args(["--app-name=outlast", "--", "outlast", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    send.kill_on_drop(true);
    match tokio::time::timeout(DESKTOP_TIMEOUT, send.status()).await {
        Ok(status) => status.is_ok_and(|status| status.success()),
        Err(_) => false,
    }
}

/// The same line as in `events`.
fn ended(of: &Named, command: &str, fate: &Fate, ran: Duration) -> String {
    let now = times::now();
    let micros = i64::try_from(ran.as_micros()).unwrap_or(i64::MAX);
    let mut end = Completion::new(command, fate.exit_code.flatten(), fate.completion_reason.unwrap_or(Reason::Exited));
    end.name.clone_from(&of.name);
    end.signal.clone_from(&fate.signal);
    end.oom = fate.oom;
    end.termination_source = fate.termination_source.clone().unwrap_or_default();
    (end.started_at, end.ended_at) = (Some(Time::from_micros(now.micros().saturating_sub(micros))), Some(now));
    let process = of.id.parse::<ProcessId>().ok();
    let notice = Notice::new(String::new(), now, process, &Owner::default(), Route::default(), Body::Completion(Box::new(end)));
    sentence(&notice, now, &jiff::tz::TimeZone::UTC).0
}

/// Notify the terminal on standard output, or the desktop, when a process has ended.
#[derive(Debug, Args)]
pub(crate) struct TellEnd {
    /// The process
    id: String,
    /// Its pid
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    means: NotifyBy,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// The pid has exited, or cannot be watched. The engine is asked.
    MayHaveEnded,
    TerminalGone,
}

impl TellEnd {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let began = Instant::now();
        // Keys that interrupt what runs in the terminal are not for us. A child that already leads a session needs no other.
        let _leads = setsid();
        if self.until_end(ctx).await == WaitEnd::TerminalGone {
            return Ok(0);
        }
        let text = match self.ending(ctx, began).await {
            Some(text) => text,
            // The engine was stopped meanwhile. It is not started for this.
            None => {
                format!("{} ended after {}", self.id, super::events::took(i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX)))
            }
        };
        self.means.tell(ctx, &text, began.elapsed()).await;
        Ok(0)
    }

    /// Waits for the exit of the pid without a connection to an engine. If only the terminal is to be notified, its end ends the wait, too. If the pid cannot
    /// be watched, this waits with the engine.
    async fn until_end(&self, ctx: &Context) -> WaitEnd {
        let pid = self.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let life = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(life)) => life,
            Some(Err(Errno::SRCH)) => return WaitEnd::MayHaveEnded,
            // A kernel or a sandbox without pidfds.
            Some(Err(_)) | None => {
                if let Ok(client) = engine(ctx).await {
                    let mut output = client.follow_to_exit(&self.id, From::Last(0));
                    while let Ok(Some(_)) = output.next().await {}
                }
                return WaitEnd::MayHaveEnded;
            }
        };
        // If the process runs now, the pid was its own when it was opened.
        if !self.is_running(ctx).await {
            return WaitEnd::MayHaveEnded;
        }
        // A descriptor without events is still reported when it is hung up.
        let terminal = std::io::stdout();
        let mut both = vec![PollFd::new(&life, PollFlags::IN)];
        if self.means.desktop_after.is_none() {
            both.push(PollFd::new(&terminal, PollFlags::empty()));
        }
        // This process has nothing else to do, so it may block its only thread.
        let polled = retry_on_intr(|| poll(&mut both, None));
        let has_ended = !both[0].revents().is_empty();
        if polled.is_ok() && !has_ended { WaitEnd::TerminalGone } else { WaitEnd::MayHaveEnded }
    }

    /// Whether the process runs, as far as an engine can be asked.
    async fn is_running(&self, ctx: &Context) -> bool {
        let Ok(client) = engine(ctx).await else { return true };
        match client.find(&self.id).await {
            Ok(found) => found.status == Status::Running,
            // An engine that dies before it answers says nothing about the process.
            Err(error) => !matches!(error, ClientError::Refused(_)),
        }
    }

    /// How it ended, if an engine can be asked. A list marks nothing as seen, so that the notice of the end, if there is one, is delivered all the same.
    async fn ending(&self, ctx: &Context, began: Instant) -> Option<String> {
        let client = engine(ctx).await.ok()?;
        for _ in 0..MAX_LOOKS {
            let all = client.list(&Scope::default(), true).await.ok()?;
            let found = all.into_iter().find(|p| p.session_id.to_string() == self.id)?;
            if found.fate.completion_reason.is_some() {
                let of = Named { id: self.id.clone(), name: found.name };
                return Some(ended(&of, &found.command, &found.fate, began.elapsed()));
            }
            // The keeper records the exit within milliseconds after the pid has exited. No descriptor of ours tells when it has.
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        None
    }
}

/// The engine, if one runs.
async fn engine(ctx: &Context) -> Result<Client, ClientError> {
    Client::connect(&Connect::to(&ctx.settings.home).speaking_for(ctx.owner())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_counts_at_once_and_a_setting_after_its_time() {
        let after = Duration::from_secs(30);
        let means = |asked, notify| NotifyBy::new(asked, notify, after);
        assert!(means(false, Notify::Off).is_none());
        assert_eq!(means(true, Notify::Off).terminal_after, Some(Duration::ZERO));
        assert_eq!(means(false, Notify::Terminal).terminal_after, Some(after));
        assert_eq!(means(true, Notify::Terminal), NotifyBy { terminal_after: Some(Duration::ZERO), desktop_after: None });
        assert_eq!(means(true, Notify::Desktop), NotifyBy { terminal_after: Some(Duration::ZERO), desktop_after: Some(after) });
    }
}
