//! Calls to the operating system. Linux code is in `linux`, and the creation of processes in `clone`.

mod cgroup;
mod clone;
mod linux;
mod memory;

pub(crate) use cgroup::Leaf;
pub(crate) use clone::{Fork, Kin, fork, start};
pub use linux::close_inherited;
pub(crate) use linux::*;
pub(crate) use memory::OomKills;
pub(crate) use outlast_store::os::is_over;
