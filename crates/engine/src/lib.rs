//! All processes of one home: the inside of the daemon.

pub mod shell;
