//! Other programs that keep commands running, called as their users call them. Each is installed when it is first needed, and may be left out.

mod hermes;
mod install;
mod pueue;
mod spooler;
mod tmux;

pub(crate) use hermes::{Dotfiles, Hermes};
pub(crate) use pueue::Pueue;
pub(crate) use spooler::Spooler;
pub(crate) use tmux::Tmux;

use super::harness::{Bench, Who};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Prepares a peer. If it is to be left out or cannot be installed, this prints the reason and returns `None`.
pub(crate) fn ready<T>(bench: &mut Bench, who: Who, get: impl FnOnce(&Bench) -> Result<T>) -> Option<T> {
    if bench.skipped.iter().any(|(skipped, _)| *skipped == who) {
        return None;
    }
    let got = if bench.settings.without.contains(&who) {
        Err("left out by --without".to_owned())
    } else {
        get(bench).map_err(|e| format!("{e:#}"))
    };
    match got {
        Ok(peer) => Some(peer),
        Err(why) => {
            bench.say(&format!("skipped: {}: {why}", who.name()));
            bench.skipped.push((who, why));
            None
        }
    }
}

/// A call in an environment without our variables.
fn command(program: impl AsRef<std::ffi::OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(super::harness::environment(home)).current_dir(home).stdin(Stdio::null());
    command
}

/// The process that listens on a socket.
fn server_of(socket: &Path) -> Result<u32> {
    let stream = std::os::unix::net::UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
    Ok(rustix::net::sockopt::socket_peercred(&stream)?.pid.as_raw_nonzero().get() as u32)
}

/// Lets several callers call a command line repeatedly, each one call after the other, and returns the time of each call.
pub(crate) fn calls(callers: usize, many: usize, call: impl Fn(usize) -> Command + Sync) -> Result<Vec<f64>> {
    let call = &call;
    std::thread::scope(|scope| {
        let calling: Vec<_> = (0..callers)
            .map(|first| {
                scope.spawn(move || {
                    let mut times = Vec::new();
                    for number in (first..many).step_by(callers) {
                        let mut call = call(number);
                        let began = Instant::now();
                        let done = call.output().context("cannot make the call")?;
                        times.push(began.elapsed().as_secs_f64());
                        ensure!(done.status.success(), "{:?}: {}", call.get_program(), String::from_utf8_lossy(&done.stderr).trim());
                    }
                    Ok(times)
                })
            })
            .collect();
        let mut all = Vec::new();
        for caller in calling {
            all.extend(caller.join().map_err(|_| anyhow::anyhow!("a caller failed"))??);
        }
        Ok(all)
    })
}
