//! The engine: it supervises all processes of one home, and answers clients.
//!
//! One task owns the table of processes; the other tasks ask it. Each running process has a supervising task that is connected to its
//! keeper and reads its folder when there is news. A request is on disk in the index before its command may run. What happens is in the
//! folder of the process before any client hears of it. So an engine can be killed at any instant, and the next one finds everything.
//!
//! [`serve()`] runs an engine as a program, which is what `outlast` does.
//!
//! # Embedding
//!
//! [`Engine::start`] runs an engine inside another program, and [`Engine::connect`] connects a client to it without a socket. Commands
//! outlive that program, because keepers run them: the next program that opens the home, this one or `outlast`, finds them, their output
//! and how they ended.
//!
//! ```
//! use outlast_client::{Client, Run, Spec, caller};
//! use outlast_engine::{Config, Engine, KeeperProgram, UserInfo};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (home, program) = (dir.path().join("home"), outlast_testkit::built::program("outlast-keeper"));
//! let config = Config::embedded(home, KeeperProgram::Binary(program), UserInfo::new("me", "/nonexistent", "/bin/sh"));
//! let engine = Engine::start(config.clone()).await?;
//! let client = Client::over(engine.connect()).await?;
//! let here = caller(std::env::vars_os(), dir.path());
//! let id = client.run(Run::new(Spec::shell("echo begun; read line; echo $line").with_input(), here)).await?.id();
//! engine.stop().await;
//!
//! // No engine runs, and the command keeps running. The next engine finds it.
//! let engine = Engine::start(config).await?;
//! let process = Client::over(engine.connect()).await?.process(id);
//! process.submit(b"and ended", outlast_client::At::End).await?;
//! assert_eq!(process.wait(None).await?.output, "begun\nand ended\n");
//! engine.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! - **The home** is a directory of the user's own, with mode 0700. Use one of your own, or that of `outlast` to share its processes.
//! - **The keeper** is a program ([`KeeperProgram`]): `outlast-keeper`, which is the smallest; or the embedding program itself
//!   ([`KeeperProgram::this_program`]), if its `main` begins as in the example `embed`. It is copied into the home, so that an upgrade
//!   changes nothing for running processes.
//! - **The user** is the one whose login files and shell are used. [`UserInfo::of_env`] reads the names from the environment.
//! - **The runtime** is any tokio runtime with I/O and time. Handles are cheap copies, and dropping them ends nothing. [`Engine::stop`]
//!   ends the engine and waits until everything is written. If the runtime or the whole program ends without that, the next engine recovers
//!   as after any crash.
//! - **One engine for each home.** If another one has the home, [`Engine::start`] returns [`ServeError::Taken`] and changes nothing. It
//!   does not become a client of the other one, because that has other settings and may end at any time. For that, use
//!   `Client::connect(&Connect::to(home))`.
//! - **Other programs** can connect after [`Engine::listen`]: `outlast list` and every other client then work on the home.
//! - **While no engine runs**, no notice is delivered. If [`Config::program`] names an `outlast`, keepers that have news start it.
//!   Otherwise the news waits in the folders for the next engine.
//! - **Sessions and cgroups** are not changed. A service manager that kills a whole cgroup kills commands with it: use `KillMode=process`.

// The layers, low to high. A module uses those of its own layer and of lower ones; `cargo xtask check` holds the table.

// Base.
mod bytes;
mod cgroup;
mod clients;
mod clock_jumps;
mod closing;
mod config;
mod disk;
mod fork_server;
mod gateways;
mod limits;
mod link;
mod links;
mod log_file;
mod logout;
mod masks;
mod mutex;
mod near;
mod os;
mod own_home;
mod points;
mod program;
mod retain;
mod run_dir;
mod shell;
mod spare_folders;
mod views;

// Folder: the content of a process's folder, and the trees of processes.
mod adopt;
mod facts;
mod final_record;
mod keepers;
mod left_behind;
mod orphan;
mod render;

mod index;

// Notices.
mod instances;
mod notices;
mod refuse;

// Table.
mod handle;
mod listing;
mod table;

// Supervise: the tasks that keep the table current, and acts on processes.
mod barrier;
mod feed;
mod intake;
mod launch;
mod owner;
mod parts;
mod reach;
mod recover;
mod remove;
mod stop;
mod stop_left;
mod supervise;

// Serve: clients.
mod engine;
mod gateway_watch;
mod listen;
mod serve;

pub use config::{Clock, Config, KeeperProgram, LinkProgram, Push, UserInfo};
pub use engine::{Engine, ServeError};
pub use gateway_watch::GatewayWatch;
pub use listen::serve;
pub use log_file::LogFile;
pub use run_dir::NoRunDir;
