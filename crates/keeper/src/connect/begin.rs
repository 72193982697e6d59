//! Starts keepers in a sandbox. The folder decides: a process whose folder is there is not started again.

use super::keeper_socket::Listener;
use super::resolve::Surroundings;
use super::sandbox_home::SandboxHome;
use outlast_core::ProcessId;
use outlast_store::blank::Blank;
use outlast_store::dir::ProcessDir;
use outlast_store::meta::Image;
use outlast_store::points;
use outlast_store::spec::{Launch, SpecFile};
use outlast_wire::code;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The word that tells a keeper to start its command.
const GO: &[u8] = b"g";

/// Why nothing was started.
#[derive(Debug)]
pub(super) struct NotBegun {
    pub(super) code: &'static str,
    pub(super) error: String,
}

impl NotBegun {
    fn new(code: &'static str, error: impl std::fmt::Display) -> Self {
        Self { code, error: error.to_string() }
    }
}

/// Starts the keepers of processes.
#[derive(Debug)]
pub(super) struct Starter {
    pub(super) surroundings: Surroundings,
    program: PathBuf,
    /// Whether the program is one that becomes a keeper by its first argument.
    is_self_as_keeper: bool,
    spares: u64,
}

impl Starter {
    pub(super) fn new(surroundings: Surroundings, program: PathBuf, is_self_as_keeper: bool) -> Self {
        Self { surroundings, program, is_self_as_keeper, spares: 0 }
    }

    /// Makes the folder of a process from the bytes of a `spec`, and returns whether it had none. The caller has a turn.
    pub(super) fn take_in(&mut self, home: &SandboxHome, id: ProcessId, spec: &[u8]) -> Result<bool, NotBegun> {
        let fault = |e: &dyn std::fmt::Display| NotBegun::new(code::FAULT, format_args!("cannot write the request: {e}"));
        self.spares += 1;
        let spare = Blank::make(&home.home, u64::from(std::process::id()) << 32 | self.spares).map_err(|e| fault(&e))?;
        let (kept, launch) = match spare.read_request(spec) {
            Ok((kept, Some(launch))) if kept.id == id => (kept, launch),
            read => {
                spare.remove();
                return Err(NotBegun::new(
                    code::BAD_REQUEST,
                    match read {
                        Ok((kept, Some(_))) => format!("the request is for {}", kept.id),
                        Ok((_, None)) => "the request has no part for the start".to_owned(),
                        Err(e) => e.to_string(),
                    },
                ));
            }
        };
        let dir = home.home.process(id);
        if dir.path.exists() {
            spare.remove();
            return match SpecFile::read_kept(&dir) {
                Ok(there) if there.hash == kept.hash => Ok(false),
                Ok(_) => Err(NotBegun::new(code::ID_TAKEN, "it exists with another content")),
                Err(e) => Err(NotBegun::new(code::FAULT, e)),
            };
        }
        let mut launch = self.surroundings.complete(&kept, launch);
        launch.home = home.home.root.as_path().into();
        launch.run_dir = home.run_dir.as_path().into();
        points::reach("connect.before_folder");
        spare.become_process(&dir, &kept, &launch).map_err(|e| fault(&e))?;
        points::reach("connect.after_folder");
        Ok(true)
    }

    /// Starts a pair of keepers, which start the command. Other keepers that have the process, or had it, make them leave.
    pub(super) fn start(&self, home: &SandboxHome, dir: &ProcessDir) -> io::Result<Listener> {
        let (ours, theirs) = socketpair()?;
        // As an engine does: this program knows the command's pid even if both keepers are killed at once.
        let image = Arc::new(Image::new()?);
        let log = OpenOptions::new().create(true).append(true).open(home.home.engine_log());
        let mut command = Command::new(&self.program);
        if self.is_self_as_keeper {
            command.arg("__keeper");
        }
        command.arg(&dir.path).current_dir("/").stdin(theirs).stdout(image.try_clone()?);
        command.stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
        // It is reaped by the signal of its end.
        let _pump = command.spawn()?;
        image.hold(dir);
        rustix::net::send(&ours, GO, SendFlags::NOSIGNAL)?;
        points::reach("connect.after_go");
        Listener::given(ours)
    }
}

/// Whether the request still has what a start needs.
pub(super) fn can_start(dir: &ProcessDir) -> Result<Option<Launch>, outlast_store::spec::SpecError> {
    SpecFile::read_launch(dir)
}

fn socketpair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}
