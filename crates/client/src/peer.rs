//! The two programs that a client talks to, and their protocols.

use outlast_core::Owner;
use outlast_wire::v1::chat::{ChatEvent, ChatMessage, ChatRequest};
use outlast_wire::v1::{Event, Message, Request};
use outlast_wire::{VERSION, code, frame};
use serde::de::DeserializeOwned;
use std::fmt;

/// A program of Outlast that listens in a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// The engine, which manages processes.
    Engine,
    /// The gateway, which manages sessions of agents.
    Gateway,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Engine => "engine",
            Self::Gateway => "gateway",
        })
    }
}

impl Peer {
    /// Its name with an article.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Self::Engine => "an engine",
            Self::Gateway => "a gateway",
        }
    }

    /// Its socket in the directory `run` of the home.
    pub(crate) fn socket(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Gateway => "gateway",
        }
    }

    /// What to do if it does not answer.
    pub(crate) fn stuck_hint(self) -> &'static str {
        match self {
            Self::Engine => "it may be stopped or stuck: `kill -9` of the engine harms no process, and the next command starts another",
            Self::Gateway => {
                "it may be stopped or stuck: `kill -9` of the gateway loses no message, and the next `outlast chat` starts another"
            }
        }
    }

    /// What to do if its version does not fit.
    pub(crate) fn version_hint(self) -> &'static str {
        match self {
            Self::Engine => "end it with the `outlast` that started it: `outlast engine stop`; processes keep running",
            Self::Gateway => "end it with the `outlast` that started it: `outlast gateway stop`; conversations are kept",
        }
    }

    /// What to do if it violates the protocol.
    pub(crate) fn nonsense_hint(self) -> &'static str {
        match self {
            Self::Engine => "client and engine may be of different versions: end the engine with `outlast engine stop` and ask again",
            Self::Gateway => "client and gateway may be of different versions: end the gateway with `outlast gateway stop` and ask again",
        }
    }

    /// How to start it if it does not run.
    pub(crate) fn none_hint(self) -> &'static str {
        match self {
            Self::Engine => "one is started by any command that needs it, such as `outlast list`",
            Self::Gateway => "one is started by `outlast chat`, or by `outlast gateway run`",
        }
    }

    /// Its log in the home.
    pub(crate) fn log(self) -> &'static str {
        match self {
            Self::Engine => "engine.log",
            Self::Gateway => "gateway.log",
        }
    }

    pub(crate) fn not_running(self) -> &'static str {
        match self {
            Self::Engine => code::NOT_RUNNING,
            Self::Gateway => code::GATEWAY_NOT_RUNNING,
        }
    }

    pub(crate) fn cannot_connect(self) -> &'static str {
        match self {
            Self::Engine => code::CANNOT_CONNECT,
            Self::Gateway => code::GATEWAY_CANNOT_CONNECT,
        }
    }

    pub(crate) fn cannot_start(self) -> &'static str {
        match self {
            Self::Engine => code::CANNOT_START,
            Self::Gateway => code::GATEWAY_CANNOT_START,
        }
    }
}

/// The messages of one of the two protocols, apart from requests.
pub(crate) trait Talk: Send + Sync + 'static {
    /// An event before an answer.
    type Event: DeserializeOwned + Send + 'static;
    /// The program that listens.
    const PEER: Peer;
    /// The frame of a hello.
    fn hello(id: u64) -> Vec<u8>;
    /// The frame that cancels request `of`.
    fn cancellation(id: u64, of: u64) -> Vec<u8>;
}

/// The protocol of the engine.
pub(crate) struct EngineTalk;

/// The protocol of the gateway.
pub(crate) struct GatewayTalk;

fn our_name() -> String {
    concat!("outlast-client ", env!("CARGO_PKG_VERSION")).into()
}

impl Talk for EngineTalk {
    type Event = Event;
    const PEER: Peer = Peer::Engine;

    fn hello(id: u64) -> Vec<u8> {
        let namespaces = Some(Box::new(crate::place::namespaces()));
        let request = Request::Hello { version: VERSION, client: our_name(), namespaces };
        frame::json(&Message { id, owner: Owner::default(), relay: false, instance: None, force: false, request })
    }

    fn cancellation(id: u64, of: u64) -> Vec<u8> {
        frame::json(&Message { id, owner: Owner::default(), relay: false, instance: None, force: false, request: Request::Cancel { of } })
    }
}

impl Talk for GatewayTalk {
    type Event = ChatEvent;
    const PEER: Peer = Peer::Gateway;

    fn hello(id: u64) -> Vec<u8> {
        let namespaces = Some(Box::new(crate::place::namespaces()));
        frame::json(&ChatMessage { id, session: None, request: ChatRequest::Hello { version: VERSION, client: our_name(), namespaces } })
    }

    fn cancellation(id: u64, of: u64) -> Vec<u8> {
        frame::json(&ChatMessage { id, session: None, request: ChatRequest::Cancel { of } })
    }
}
