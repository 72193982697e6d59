//! The client library of Outlast, which runs background processes for agents. A process outlives the program that started it.
//!
//! A [`Client`] talks to the engine of one home, the directory with all data about its processes. The engine is started when it is
//! needed, and may die at any time. A request that may be repeated is sent again over a new connection, so the caller sees at most
//! a delay. Processes are not affected.
//!
//! # Connecting, running, waiting
//!
//! ```
//! use outlast_client::{Client, Connect, Run, Spec, caller};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let (home, program) = (product.home().root, product.program());
//! let client = Client::connect(&Connect::to(home).starting(program)).await?;
//! let here = caller(std::env::vars_os(), &std::env::current_dir()?);
//! let process = client.run(Run::new(Spec::shell("echo hello; exit 3"), here)).await?;
//! let end = process.wait(None).await?;
//! assert_eq!((end.output.as_str(), end.fate.exit_code), ("hello\n", Some(Some(3))));
//! # Ok(())
//! # }
//! ```
//!
//! `program` is the `outlast` executable. [`Connect::of_env`] finds the same home as the command line does. A command gets the
//! environment, directory and umask of the [`Caller`], never the engine's. A [`Spec`] is a shell line or a program with its
//! arguments, and says how to run it. [`Client::run`] returns once the command runs; that it exits with 3 is not an error but an
//! ending.
//!
//! # Following output
//!
//! Output is bytes, from an offset on. A reader may stop and continue at [`Chunks::next_byte`], today or next week. Missing bytes
//! are reported as a gap, never skipped silently.
//!
//! ```
//! use outlast_client::{Chunk, From};
//! # use outlast_client::{Client, Connect, Run, Spec, caller};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//! # let here = caller(std::env::vars_os(), &product.work());
//!
//! let process = client.run(Run::new(Spec::shell("seq 3"), here)).await?;
//! let mut chunks = process.follow(From::Byte(0));
//! let mut seen = Vec::new();
//! while let Some(chunk) = chunks.next().await? {
//!     match chunk {
//!         Chunk::Bytes { bytes, .. } => seen.extend(bytes),
//!         Chunk::Gap { from, to, why } => eprintln!("[bytes {from} to {to} are gone: {why}]"),
//!     }
//! }
//! assert_eq!(seen, b"1\n2\n3\n");
//! # Ok(())
//! # }
//! ```
//!
//! For people and models use [`Client::log`] instead: pages of lines, without escape sequences and with secrets masked.
//!
//! # Writing input
//!
//! ```
//! use outlast_client::At;
//! # use outlast_client::{Client, Connect, Run, Spec, caller};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//! # let here = caller(std::env::vars_os(), &product.work());
//!
//! let cat = client.run(Run::new(Spec::argv(["cat"]).with_input(), here)).await?;
//! let first = cat.submit(b"one", At::Byte(0)).await?;
//! // With an offset a write may be repeated, for instance after an error: bytes that are there already are not written again.
//! cat.submit(b"one", At::Byte(0)).await?;
//! cat.submit(b"two", At::Byte(first.next_offset.unwrap_or(0))).await?;
//! cat.close().await?;
//! assert_eq!(cat.wait(None).await?.output, "one\ntwo\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Stopping
//!
//! A stop reaches the whole tree, and its answer says how many processes were observed to die.
//!
//! ```
//! use outlast_client::Kill;
//! use std::time::Duration;
//! # use outlast_client::{Client, Connect, Run, Spec, caller};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//! # let here = caller(std::env::vars_os(), &product.work());
//!
//! let process = client.run(Run::new(Spec::shell("sleep 1000 & sleep 1000"), here)).await?;
//! let killed = process.kill(Kill::within(Duration::from_secs(5))).await?;
//! assert_eq!((killed.status.as_str(), killed.fate.signal.as_deref()), ("killed", Some("SIGTERM")));
//! # Ok(())
//! # }
//! ```
//!
//! # Notices
//!
//! A client that starts a command and does other work, or exits, can be notified of its end, and of lines that match. A notice
//! belongs to a session ([`Owner::session`]). It is leased to the client that takes it, and is done when it is settled: it is
//! delivered once, whatever crashes in between.
//!
//! ```
//! use outlast_client::{Owner, Take, Tell, Verdict};
//! # use outlast_client::{Client, Connect, Run, Spec, caller};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//! # let here = caller(std::env::vars_os(), &product.work());
//!
//! let agent = client.with_owner(Owner::session("chat:42"));
//! let tests = Spec::shell("echo ERROR: it broke; exit 1").telling(Tell::end().line("ERROR"));
//! agent.run(Run::new(tests, here)).await?;
//!
//! let mut kinds = Vec::new();
//! while kinds.len() < 2 {
//!     for told in agent.take(&Take::default().wait()).await?.notices {
//!         println!("{}", told.text);
//!         // The owner has it now. Without this it is offered again when the lease ends, marked as a repeat.
//!         agent.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await?;
//!         kinds.push(told.event.kind().to_owned());
//!     }
//! }
//! assert_eq!(kinds, ["watch_match", "completion"]);
//! assert!(agent.take(&Take::default()).await?.notices.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! A barrier waits for a process, a pid or a time. If the waiting client dies, the barrier stays, and its opening becomes a notice.
//!
//! ```
//! use outlast_client::BarrierTarget;
//! # use outlast_client::{Client, Connect, Run, Spec, caller};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//! # let here = caller(std::env::vars_os(), &product.work());
//!
//! let process = client.run(Run::new(Spec::argv(["true"]), here)).await?;
//! let opened = client.until(BarrierTarget::Process { process: process.id().to_string(), or_match: false }).await?;
//! assert_eq!(opened.why.as_deref(), Some("exited"));
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! [`ClientError`] has a stable [`code`](ClientError::code), a sentence, and a [`hint`](ClientError::hint) on what to do. After a
//! *refusal* ask differently, after *unavailable* ask again later.
//!
//! ```
//! use outlast_client::code;
//! # use outlast_client::{Client, Connect};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let client = Client::connect(&Connect::to(product.home().root)).await?;
//!
//! let refused = client.poll("proc_000000000000").await.unwrap_err();
//! assert_eq!(refused.code(), code::NOT_FOUND);
//! # Ok(())
//! # }
//! ```
//!
//! # Without async, and without a second program
//!
//! Programs without an async runtime use [`blocking`], which has the same methods. A program that wants no separate engine embeds
//! one, with the crate `outlast-engine`: `Client::over(engine.connect())`.
//!
//! # Features
//!
//! - `start` (default): lets the client start an engine if none runs, with `Connect::starting`. Without it, `default-features =
//!   false`, a client needs neither child processes nor signals, and uses a running engine or one in the same program.
//!
//! There is no feature for [`blocking`], which needs no further dependencies.
//!
//! # What may change
//!
//! Answers, notices, settings and errors grow: their types are not exhaustive. Read their fields, match with a last arm for unknown
//! values, and create those that you pass in with their constructors and methods, or by changing fields. [`Chunk`], [`Status`] and
//! [`ErrorKind`] are complete, and so are the small values [`Owner`], [`Route`], [`Scope`] and [`EnvVar`]. Each change of the
//! public items is compared with a recorded list; none is removed without a new version.
//!
//! # How the examples are run
//!
//! `cargo test --workspace` builds `outlast` first. Each example that is not marked otherwise then runs against a real engine in a
//! home of its own, and fails if any process or file is left. `cargo build -p outlast && cargo test -p outlast-client --doc` runs
//! the examples alone.

#![forbid(unsafe_code)]

pub mod blocking;
mod chat;
mod client;
mod connect;
mod counts;
mod dial;
mod error;
mod follow;
mod link;
mod notices;
mod own_limits;
mod peer;
mod place;
mod process;
mod redial;
mod relay;
#[cfg(feature = "start")]
mod start;

pub use chat::{Chat, ChatFeed, Heard, Setup, message_id};
pub use client::{At, Client, Run, caller};
pub use connect::{Connect, Start};
pub use counts::Counts;
pub use error::ClientError;
pub use follow::{Chunk, Chunks};
pub use notices::{Followed, Owed, SessionFeed, Take, Unread};
pub use peer::Peer;
pub use process::Process;
pub use relay::Receipt;

pub use outlast_core::notice_state::TakerKind;
pub use outlast_core::{
    Body, Command, Completion, EnvVar, EnvironmentName, Incarnation, Instance, InstanceKind, Notice, OnStop, OsText, Owner, ProcessId,
    ProcessLimits, Reason, ResourceLimit, Route, Scheduler, Scope, Spec, Status, Tell, Time, WatchMatch,
};
pub use outlast_wire::code;
pub use outlast_wire::v1::chat::{
    Accepted, AgentChoice, Changed, ChatEvent, Content, ConversationInfo, GatewayStatus, GenerationInfo, LineBody, MAX_WORDS_BYTES, Opened,
    Part, PartKind, PermissionBody, PermissionOption, Shown, Standing, TextBody, ToolBody, ToolState, TurnInfo, TurnKind, TurnOutcome,
    TurnState, WordsBody,
};
pub use outlast_wire::v1::notice::{
    Barrier, BarrierTarget, Dead, DeadLetter, DeadOfSink, Delivery, FailedDelivery, History, Judged, JudgedOne, Notices, Posted, Push,
    Replay, Told, Verdict,
};
pub use outlast_wire::v1::{
    Active, Activity, AdoptFrom, Adopted, Caller, Cleaned, Done, EngineStatus, Error, ErrorKind, Event, Fate, Found, From, Kill, KillAll,
    Killed, LeftProcess, List, LogPage, Page, Process as ProcessInfo, ReadEnd, Removed, RerunChange, Restarted, Setting, StoppedLeft,
    ViewClosed, Waited, Written,
};
