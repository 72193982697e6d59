//! All processes of one home: the inside of the daemon.
//!
//! One task owns what is known ([`Engine`]); everybody else asks it. A task for each running process is connected to its keeper and reads its folder when
//! there is news. What was asked for is on disk in the index before it may run; what happened is in the folder of the process before anybody is told. So an
//! engine can be killed at any instant, and the next one finds everything.
//!
//! [`serve()`] runs an engine as a program. To embed one, start it with [`Engine::start`] and make clients over [`Engine::connect`].

mod adopt;
mod barrier;
mod cgroup;
mod config;
mod disk;
mod engine;
mod facts;
mod index;
mod keepers;
mod launch;
mod link;
mod listen;
mod log_file;
mod mind;
mod near;
mod nest;
mod orphan;
mod os;
mod outbox;
mod points;
mod program;
mod recover;
mod refuse;
mod render;
mod retain;
mod run_dir;
mod serve;
mod settle;
mod shared;
pub mod shell;
mod state;

pub use config::{Clock, Config, KeeperProgram, UserInfo};
pub use engine::{Engine, ServeError};
pub use listen::serve;
pub use log_file::LogFile;
pub use outbox::Push;
pub use run_dir::NoRunDir;
