//! Starts the command. Its pid is recorded before it can run.
//!
//! Decisions 7, 81 and 154: docs/decisions/keeper.md; Decision 151: docs/decisions/store.md.

use crate::os::{self, Kin};
use crate::pair::Pair;
use crate::prepared::Prepared;
use outlast_core::Role;
use outlast_store::meta::{Live, flag};
use outlast_store::points;
use outlast_store::spec::SpecFile;
use outlast_wire::frame;
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply};
use rustix::fd::AsFd;
use rustix::net::SendFlags;
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering::SeqCst;

/// The steps of a start, as stored in `meta` when one fails.
const STEPS: [&str; 7] =
    ["start", "take the terminal of", "set up the streams of", "enter the directory of", "execute", "fork", "record the start of"];
const TERMINAL: u32 = 1;
const STREAMS: u32 = 2;
const DIRECTORY: u32 = 3;
const EXECUTE: u32 = 4;
const FORK: u32 = 5;
const RECORD: u32 = 6;

/// The step as a text.
pub(crate) fn step_name(step: u32) -> &'static str {
    STEPS.get(step as usize).copied().unwrap_or(STEPS[0])
}

/// Starts the command unless it was started before. Only a holder calls this, and there is never more than one.
pub(crate) fn start(pair: &mut Pair) {
    if pair.live().cmd.load(SeqCst) != 0 || pair.live().wait_status().is_some() {
        return;
    }
    let (Some(prepared), Some(_)) = (&pair.prepared, &pair.ends) else { return };
    let argv = pointers(&prepared.argv);
    let env = pointers(&prepared.env);
    points::reach("holder.start.before");
    // An interrupted attempt may have left its failure behind.
    fail(pair.live(), 0, 0);
    pair.live().started_at.store(outlast_store::os::now().micros(), SeqCst);
    if let Some(timeout) = pair.settings.timeout {
        // At least one: 0 means never.
        let at = outlast_store::os::boottime_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)).max(1);
        pair.live().deadline.store(at, SeqCst);
    }
    // The file must say this first: if the keepers and the engine are killed, the command might be started twice.
    if let Err(e) = pair.meta.save() {
        return never(pair, RECORD, &e);
    }
    points::reach("holder.start.marked");
    let live = pair.live();
    let run = || {
        let (step, errno) = child(pair, prepared, &argv, &env);
        fail(live, step, errno);
    };
    let started = match &pair.leaf {
        Some(leaf) => {
            live.set(flag::LEAF);
            os::start(&live.cmd, &Kin::ChildIn(leaf.fd()), run).or_else(|_| {
                // Without clone3 the child moves itself before it executes the command.
                os::start(&live.cmd, &Kin::Child, || {
                    if leaf.enter().is_err() {
                        // The leaf cannot be entered (its parent has controllers). The tree is then found by descent.
                        live.flags.fetch_and(!flag::LEAF, SeqCst);
                    }
                    run();
                })
            })
        }
        None => os::start(&live.cmd, &Kin::Child, run),
    };
    match started {
        Ok(pidfd) => {
            points::reach("holder.start.after");
            pair.cmd = pidfd;
            pair.learn_ticks();
            // If the write is refused, the pump tries again.
            let _later = pair.meta.save();
            points::reach("holder.start.saved");
            tell(pair);
        }
        Err(e) => return never(pair, FORK, &e),
    }
    pair.catch_up();
    pair.wake(Role::Pump);
}

/// Records that the command was not started and will not be.
fn never(pair: &mut Pair, step: u32, error: &std::io::Error) {
    // A write of zero bytes has no errno: the disk is full.
    let unnamed = if step == RECORD { libc::ENOSPC } else { libc::EAGAIN };
    fail(pair.live(), step, error.raw_os_error().unwrap_or(unnamed));
    pair.live().publish_status(Some(127 << 8), outlast_store::os::now().micros());
    pair.ends = None;
    pair.catch_up();
    pair.wake(Role::Pump);
}

/// Reports to the waiting engine that the command was executed or could not be, without waiting for the pump to wake up. The pump
/// tells all other engines.
fn tell(pair: &Pair) {
    let Some(engine) = &pair.engine else { return };
    scrub(pair);
    points::reach("holder.scrubbed");
    if pair.live().exec_errno.load(SeqCst) == 0 {
        pair.live().set(flag::STARTED);
    }
    points::reach("holder.told");
    // If the engine is gone, the next one finds the state in `meta`. The socket has space for so few bytes.
    let _gone = rustix::net::send(
        engine,
        &frame::json(&FromKeeper { of: None, say: KeeperReply::News }),
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    );
}

/// Removes the part of the request for the start. This happens before the start is reported: a client that reads the report finds
/// no secret on disk.
pub(crate) fn scrub(pair: &Pair) {
    if let Err(error) = SpecFile::scrub(&pair.dir) {
        crate::complain(&pair.dir.path, format_args!("{}: {error}", pair.id));
    }
}

fn fail(live: &Live, step: u32, errno: i32) {
    live.exec_step.store(step, SeqCst);
    live.exec_errno.store(errno, SeqCst);
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Runs between clone and exec, in the holder's memory. Returns only if a step failed.
fn child(pair: &Pair, prepared: &Prepared, argv: &[*const libc::c_char], env: &[*const libc::c_char]) -> (u32, i32) {
    let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
    let _leads_already = rustix::process::setsid();
    let Some(ends) = &pair.ends else { return (STREAMS, libc::EBADF) };
    if prepared.pty
        && let Err(e) = os::take_terminal(ends.output.as_fd())
    {
        return (TERMINAL, errno(e));
    }
    for (fd, at) in [(&ends.stdin, 0), (&ends.output, 1), (&ends.output, 2)] {
        if let Err(e) = os::put_at(fd.as_fd(), at) {
            return (STREAMS, errno(e));
        }
    }
    if let Some(value) = &prepared.oom {
        // Raising it needs no privilege. If it is refused, the command is as likely to be killed as other processes.
        let _refused = std::fs::write("/proc/self/oom_score_adj", value);
    }
    if let Some(limits) = &prepared.limits {
        limits.apply();
    } else if let Some(soft) = prepared.nofile {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        let _kept = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: now.maximum });
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(prepared.umask));
    if let Err(e) = rustix::process::chdir(prepared.cwd.as_c_str()) {
        return (DIRECTORY, e.raw_os_error());
    }
    os::reset_signals();
    (EXECUTE, os::exec(as_c(&prepared.program), argv, env))
}

fn as_c(s: &CString) -> &CStr {
    s.as_c_str()
}
