//! What only the operating system can do. Everything that is Linux's own is in `linux`.

mod cgroup;
mod linux;

pub(crate) use cgroup::Leaf;
pub use linux::close_inherited;
pub(crate) use linux::*;
