//! Starts the command: its pid is on record before it can run.
//!
//! Decisions 7, 81 and 154: docs/decisions/keeper.md; Decision 151: docs/decisions/store.md.

use crate::limits::PreparedLimits;
use crate::os::{self, Kin};
use crate::pair::Pair;
use outlast_core::Role;
use outlast_store::meta::{Live, flag};
use outlast_store::points;
use outlast_store::spec::{Launch, SpecFile};
use outlast_wire::frame;
use outlast_wire::v1::keeper::{FromKeeper, Say};
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

/// What a step was, in words.
pub(crate) fn step_name(step: u32) -> &'static str {
    STEPS.get(step as usize).copied().unwrap_or(STEPS[0])
}

/// A command in the form in which the kernel takes it. Made before the fork, so that the child needs no memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    pty: bool,
    umask: u32,
    limits: Option<PreparedLimits>,
    nofile: Option<u64>,
    oom: Option<String>,
}

impl Prepared {
    pub(crate) fn new(launch: &Launch, pty: bool) -> Self {
        // The engine has refused NULs; should one have come through, the text before it is what the kernel would have seen.
        let text = |b: &[u8]| CString::new(b.split(|c| *c == 0).next().unwrap_or(b"")).unwrap_or_default();
        Self {
            program: text(launch.program.as_bytes()),
            argv: launch.argv.iter().map(|a| text(a.as_bytes())).collect(),
            env: launch.env.iter().map(|v| text(&[v.name.as_bytes(), b"=", v.value.as_bytes()].concat())).collect(),
            cwd: text(launch.cwd.as_bytes()),
            pty,
            umask: launch.umask.unwrap_or(0o022),
            limits: launch.limits.as_ref().map(PreparedLimits::new),
            nofile: launch.nofile,
            oom: (launch.oom_score_adj > 0).then(|| launch.oom_score_adj.to_string()),
        }
    }
}

/// Starts the command, if nobody has. Only a holder calls this, and there is never more than one.
pub(crate) fn start(pair: &mut Pair) {
    if pair.live().cmd.load(SeqCst) != 0 || pair.live().wait_status().is_some() {
        return;
    }
    let (Some(prepared), Some(_)) = (&pair.prepared, &pair.ends) else { return };
    let argv = pointers(&prepared.argv);
    let env = pointers(&prepared.env);
    points::reach("holder.start.before");
    // An attempt that was cut off may have left its failure behind.
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
                // Without clone3 the child moves itself, before it executes anything.
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
            // If the disk refuses, the pump tries again.
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

/// It was executed, or could not be. Whoever waits to hear of it hears it from here, without waiting for the pump to wake up; the pump tells everybody else.
fn tell(pair: &Pair) {
    let Some(engine) = &pair.engine else { return };
    scrub(pair);
    points::reach("holder.scrubbed");
    if pair.live().exec_errno.load(SeqCst) == 0 {
        pair.live().set(flag::STARTED);
    }
    points::reach("holder.told");
    // Gone meanwhile: the next engine finds it in meta. There is nothing in the way of so few bytes.
    let _gone =
        rustix::net::send(engine, &frame::json(&FromKeeper { of: None, say: Say::News }), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Removes what was needed to start. Before it is said that the command runs: whoever reads that finds no secret on the disk any more.
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

/// Between clone and exec, in the holder's own memory. Returns only with the step that failed.
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
        // Raising needs no privilege; where it is refused all the same, the command runs as likely to be killed as anyone.
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
