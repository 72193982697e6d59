//! All processes of one home: the inside of the daemon.
//!
//! One task owns what is known ([`Engine`]); everybody else asks it. A task for each running process is connected to its keeper and reads its folder when
//! there is news. What was asked for is on disk in the index before it may run; what happened is in the folder of the process before any client is told. So an
//! engine can be killed at any instant, and the next one finds everything.
//!
//! [`serve()`] runs an engine as a program, which is what `outlast` does.
//!
//! # Embedding
//!
//! [`Engine::start`] runs an engine inside of another program, and a client is made over [`Engine::connect`], with no socket between them. Commands outlast that
//! program all the same, because keepers run them: the next program that opens the home, this one or `outlast`, finds them, their output and how they
//! ended.
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
//! - **The home** is a directory of the user's own, 0700. Use one of your own, or that of `outlast` to share its processes.
//! - **The keeper** is a program ([`KeeperProgram`]): `outlast-keeper` where it is installed, which is the smallest; or the embedding program itself
//!   ([`KeeperProgram::this_program`]), if its `main` begins as in the example `embed`. It is copied into the home, so that an upgrade changes nothing for what runs.
//! - **The user** is whose login files and shell count; [`UserInfo::of_env`] takes them from the environment.
//! - **The runtime** is any of tokio's, with I/O and time. Handles are cheap copies; dropping them ends nothing. [`Engine::stop`] ends the engine and waits until
//!   everything is written. If the runtime or the whole program goes without that, it was a crash, and the next engine recovers from it as from any other.
//! - **One engine for each home.** Where another one has it already, [`Engine::start`] says [`ServeError::Taken`] and nothing was touched. It does not quietly
//!   become a client of that one, whose settings and life are not this program's. For that there is `Client::connect(&Connect::to(home))`.
//! - **Others are let in** by [`Engine::listen`]: `outlast list` and every other client then work on the home.
//! - **While no engine runs** nothing is told. With [`Config::program`] set to an `outlast`, keepers that have news start one; without it, news waits in the folders
//!   for the next engine.
//! - **Sessions and cgroups are left alone.** A service manager that kills a whole cgroup kills commands with it: use `KillMode=process`.

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
#[doc(hidden)]
pub mod shell;
mod spare_folders;
mod views;

// Folder: what the folder of a process says, and the trees of processes.
mod adopt;
mod facts;
mod final_record;
mod keepers;
mod left_behind;
mod orphan;
mod render;

mod index;

// Notices.
mod notices;
mod refuse;

// Table.
mod handle;
mod listing;
mod table;

// Supervise: what keeps the table true, and acts on processes.
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

pub use config::{Clock, Config, KeeperProgram, Push, UserInfo};
pub use engine::{Engine, ServeError};
pub use gateway_watch::GatewayWatch;
pub use listen::serve;
pub use log_file::LogFile;
pub use run_dir::NoRunDir;
