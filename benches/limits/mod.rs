//! The limits of the machine, measured in the same run, so that other figures can be given as multiples of them.

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
