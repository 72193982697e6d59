//! What both keepers hold, and how one makes the other.
//!
//! Decisions 4, 5 and 8: docs/decisions/keeper.md.

use crate::os::{self, Fork, Kin, Leaf};
use crate::spawn::Prepared;
use outlast_core::{OsText, ProcessId, Role};
use outlast_store::dir::{FileId, ProcessDir};
use outlast_store::meta::{Live, Meta, flag};
use outlast_store::points;
use outlast_store::segments::Keep;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Both ends of a pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) r: OwnedFd,
    pub(crate) w: OwnedFd,
}

impl Pipe {
    /// A pipe whose both ends never block us.
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::pipe::PipeFlags;
        let (r, w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { r, w })
    }

    /// How many bytes are inside.
    pub(crate) fn filled(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.r).unwrap_or(0)
    }
}

/// The descriptors that the command gets. Both keepers keep them until it exists, because a new holder would need them.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stdin: OwnedFd,
    pub(crate) output: OwnedFd,
    /// Closed by a successful exec: its other end then reads as ended.
    pub(crate) _executed: OwnedFd,
}

/// What was asked for, as far as it matters after the start.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) keep: Keep,
    pub(crate) home: OsText,
    pub(crate) run_dir: OsText,
    pub(crate) engine: Option<OsText>,
    pub(crate) grace: Duration,
    /// How long the command may run.
    pub(crate) timeout: Option<Duration>,
    pub(crate) pty: bool,
    /// Program and directory as an error names them.
    pub(crate) program: OsText,
    pub(crate) cwd: OsText,
    /// What its output is searched for.
    pub(crate) watch: Vec<String>,
    /// Whether somebody is to be told of anything.
    pub(crate) tells: bool,
}

/// Everything the two share. After a fork both have all of it.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) id: ProcessId,
    pub(crate) dir: ProcessDir,
    /// The identity of that directory when the keepers started; none if it could not be read.
    pub(crate) folder: Option<FileId>,
    pub(crate) meta: Meta,
    pub(crate) settings: Settings,
    /// The command, ready to be executed; gone once it was.
    pub(crate) prepared: Option<Prepared>,
    pub(crate) ends: Option<Ends>,
    /// The other end of the one that a successful exec closes.
    pub(crate) executed: Option<OwnedFd>,
    /// Where output comes from: a pipe's read end, or the terminal.
    pub(crate) out: Option<OwnedFd>,
    pub(crate) spool: Pipe,
    pub(crate) copy: Pipe,
    pub(crate) null: OwnedFd,
    /// Where input goes: a pipe's write end, or the terminal.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) in_spool: Option<Pipe>,
    pub(crate) listen: OwnedFd,
    pub(crate) wake_pump: OwnedFd,
    pub(crate) wake_holder: OwnedFd,
    pub(crate) signals: OwnedFd,
    /// A handle on the command.
    pub(crate) cmd: Option<OwnedFd>,
    /// When a command that is not our child was first seen to be over.
    pub(crate) over_since: std::cell::Cell<Option<std::time::Instant>>,
    /// A handle on the other keeper.
    pub(crate) partner: Option<OwnedFd>,
    pub(crate) leaf: Option<Leaf>,
    /// The OOM counter before the command ran, if there is one.
    pub(crate) oom_kills: Option<os::OomKills>,
    /// Where we say that the command was executed, for whoever has keepers and no engine.
    pub(crate) report: Option<OwnedFd>,
    /// The connection of that engine, until the pump takes it.
    pub(crate) engine: Option<OwnedFd>,
}

impl Pair {
    pub(crate) fn live(&self) -> &Live {
        self.meta.live()
    }

    /// Whether the folder is still in its home. If it was removed or replaced, an engine that serves the path does not know this process.
    pub(crate) fn is_in_home(&self) -> bool {
        self.folder.is_none() || FileId::at(&self.dir.path).ok() == self.folder
    }

    /// The cgroup in which the command's tree is, if it is in one.
    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        self.leaf.as_ref().filter(|_| self.live().has(flag::LEAF))
    }

    /// Makes the other keeper. In the new process: its role.
    pub(crate) fn fork(&mut self, role: Role) -> io::Result<Option<Role>> {
        let me = os::open_pidfd(rustix::process::getpid().as_raw_nonzero().get())?;
        points::reach(match role {
            Role::Holder => "pump.fork.before",
            Role::Pump => "holder.fork.before",
        });
        let forked = match role {
            Role::Holder => os::fork(&self.live().holder, &Kin::Child)?,
            // Not our child: what descends from us is the command's tree.
            Role::Pump => os::fork(&self.live().pump, &Kin::Sibling)?,
        };
        match forked {
            Fork::Parent(child) => {
                // Without a handle the new keeper has ended. The next check creates another.
                self.partner = child;
                points::reach(match role {
                    Role::Holder => "pump.fork.after",
                    Role::Pump => "holder.fork.after",
                });
                Ok(None)
            }
            Fork::Child => {
                self.partner = Some(me);
                // Each in its own session, so that no signal to a group takes both; and an heir of orphans, which is not inherited.
                let _already_leader = rustix::process::setsid();
                let _from_3_4 = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
                Ok(Some(role))
            }
        }
    }

    /// Whether the other keeper is dead.
    pub(crate) fn partner_is_over(&self) -> bool {
        self.partner.as_ref().is_none_or(|fd| os::is_over(fd.as_fd()))
    }

    /// Notes the death of the other and what it means for the next one.
    pub(crate) fn note_death(&self, role: Role) {
        let live = self.live();
        match role {
            Role::Pump => &live.pump_deaths,
            Role::Holder => &live.holder_deaths,
        }
        .fetch_add(1, SeqCst);
        if !os::keeps_status() {
            live.set(flag::OUTPUT_ONLY);
        }
    }

    /// Wakes the other keeper.
    pub(crate) fn wake(&self, role: Role) {
        let fd = match role {
            Role::Pump => &self.wake_pump,
            Role::Holder => &self.wake_holder,
        };
        // A counter that is full is a wake-up that was not read yet.
        let _full = rustix::io::write(fd, &1_u64.to_ne_bytes());
    }

    /// Learns when the command's number became its own, while it is.
    pub(crate) fn learn_ticks(&self) {
        let live = self.live();
        if live.cmd_ticks.load(SeqCst) == 0
            && let Ok(ticks) = outlast_store::os::start_ticks(live.cmd.load(SeqCst) as u32)
        {
            live.cmd_ticks.store(ticks, SeqCst);
        }
    }

    /// What both do whenever they look: close what the command has by now, learn who it is, let go of a closed input.
    pub(crate) fn catch_up(&mut self) {
        let cmd = self.live().cmd.load(SeqCst);
        if cmd != 0 || self.live().wait_status().is_some() {
            // It has its own by now, or will never need them.
            self.ends = None;
            self.prepared = None;
        }
        if cmd != 0 {
            if self.cmd.is_none() {
                // Not reaped before the record is safe, so the number is still its own.
                self.cmd = os::open_pidfd(cmd).ok();
            }
            self.learn_ticks();
        }
        if self.live().has(flag::INPUT_CLOSED) {
            self.input = None;
            self.in_spool = None;
        }
    }
}

/// Empties a wake-up counter.
pub(crate) fn slept(fd: &OwnedFd) {
    let mut count = [0; 8];
    let _empty = rustix::io::read(fd, &mut count);
}
