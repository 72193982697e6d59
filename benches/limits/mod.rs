//! What the machine can do at best: the same run measures it, so that the rest can be told as a multiple of it.

mod burst;
mod capture;
mod disk;
mod end;
mod spawn;
mod trip;

pub(crate) use burst::burst;
pub(crate) use capture::capture;
pub(crate) use disk::sync;
pub(crate) use end::records;
pub(crate) use spawn::lives;
pub(crate) use trip::{Echo, echo};
