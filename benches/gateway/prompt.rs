//! The time from the call of `outlast chat` to its prompt.

use super::home::GatewayHome;
use crate::bench_notices::{Spread, spread};
use anyhow::{Result, ensure};
use outlast_testkit::product::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The prompt.
const PROMPT: &str = "› ";
/// How many turns the conversation has, which are shown before the prompt.
const TURNS: usize = 20;
/// Ctrl-D.
const LEAVE: &[u8] = b"\x04";

pub(super) struct Shown {
    pub(super) prompt: Spread,
    /// The same program without any other work.
    pub(super) version: Spread,
}

pub(super) fn measure(home: &GatewayHome, opens: usize) -> Result<Shown> {
    for n in 0..TURNS {
        let said = home.product.call(["chat", "send", "main", "--json", "--command", "cat", "--wait", &format!("line {n}")]).json();
        ensure!(said["outcome"] == "completed", "{said}");
    }
    let (mut prompts, mut versions) = (Vec::new(), Vec::new());
    // The first call finds cold caches.
    for n in 0..=opens {
        let prompt = open(home)?;
        let began = Instant::now();
        ensure!(home.product.command(["--version"]).stdout(Stdio::null()).status()?.success(), "`outlast --version` fails");
        let version = began.elapsed();
        if n > 0 {
            prompts.push(prompt);
            versions.push(version);
        }
    }
    Ok(Shown { prompt: spread(prompts), version: spread(versions) })
}

/// Calls it in a terminal, and leaves when the prompt is there.
fn open(home: &GatewayHome) -> Result<Duration> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let screen = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&screen)?;
    rustix::pty::unlockpt(&screen)?;
    let terminal = rustix::pty::ioctl_tiocgptpeer(&screen, flags)?;
    tcsetwinsize(&screen, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 })?;
    let end = || -> Result<Stdio> { Ok(Stdio::from(terminal.try_clone()?)) };
    let mut call: Command = home.product.command(["chat", "main"]);
    call.env("TERM", "xterm-256color").stdin(end()?).stdout(end()?).stderr(end()?);
    let began = Instant::now();
    let mut call = call.spawn()?;
    let (mut seen, mut shown) = (Vec::new(), None);
    while shown.is_none() {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&screen, PollFlags::IN)], Some(&patience))?;
        ensure!(ready > 0, "no prompt: {:?}", String::from_utf8_lossy(&seen));
        let mut bytes = [0; 4096];
        let read = rustix::io::read(&screen, &mut bytes)?;
        seen.extend_from_slice(&bytes[..read]);
        shown = seen.windows(PROMPT.len()).any(|found| found == PROMPT.as_bytes()).then(|| began.elapsed());
    }
    rustix::io::write(&screen, LEAVE)?;
    ensure!(call.wait()?.success(), "`outlast chat` fails: {:?}", String::from_utf8_lossy(&seen));
    Ok(shown.unwrap_or_default())
}
