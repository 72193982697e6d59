//! The link of one environment: one task owns the mirrors, the connections of the engine and the stream, and is sent everything that
//! happens.

mod control;
mod mirrored;
mod serve;
mod streams;

use crate::stream::{StreamInput, StreamOut};
use crate::{Transport, TransportError};
use control::{ControlConn, ControlInput};
use mirrored::Mirrored;
use outlast_core::{EnvironmentName, ProcessId};
use outlast_wire::v1::link::LinkReply;
use outlast_wire::v1::sandbox::SandboxHello;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};

pub use serve::serve_link;

/// What a link is told at its start.
pub struct LinkSettings {
    /// The home of the engine.
    pub home: PathBuf,
    /// The environment.
    pub on: EnvironmentName,
    /// Where the engine connects.
    pub socket: PathBuf,
    /// Where the sockets of processes are.
    pub run_dir: PathBuf,
    /// A directory of the environment's own, with the lock of the link.
    pub dir: PathBuf,
    /// The way into the sandbox.
    pub transport: Box<dyn Transport>,
}

/// What happens to a link.
#[derive(Debug)]
enum LinkInput {
    /// An engine has connected, or has left.
    Engines(bool),
    /// The engine asks whether the sandbox can be reached.
    Ready(oneshot::Sender<LinkReply>),
    /// The engine asks to look after a process.
    Take(ProcessId, oneshot::Sender<LinkReply>),
    /// On a connection to the socket of a process.
    Control(ControlInput),
    /// A stream was opened; frames for it go here.
    Up(Box<SandboxHello>, StreamOut),
    /// It could not be opened, or is lost.
    Down(TransportError, bool),
    /// Something came on stream number `0`.
    Came(u64, StreamInput),
    /// A disk that refused a mirror is tried again.
    TryAgain(ProcessId),
}

/// Where the stream stands.
enum StreamPhase {
    /// It is being opened. After a failure: why.
    Opening(Option<TransportError>),
    /// It is open.
    Open { hello: Box<SandboxHello>, out: StreamOut, boot: u128 },
}

/// What a number on the stream stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbered {
    Start(ProcessId),
    Attach(ProcessId),
    /// A channel of a connection.
    Channel(u64),
    /// The engine wants to know how much input a process has taken, on this connection as this request.
    InputTaken(ProcessId, u64, u64),
    List,
    Remove,
}

/// The state of a link.
struct Link {
    settings: LinkSettings,
    inbox: mpsc::Sender<LinkInput>,
    phase: StreamPhase,
    /// Counts the streams. What comes late from an earlier one is not taken for the current one's.
    stream: u64,
    /// Has the next stream opened at once.
    hurry: Arc<Notify>,
    last_number: u64,
    numbers: HashMap<u64, Numbered>,
    processes: BTreeMap<ProcessId, Mirrored>,
    conns: HashMap<u64, ControlConn>,
    /// Engines that wait for the sandbox.
    waiting: Vec<oneshot::Sender<LinkReply>>,
    engines: usize,
}
