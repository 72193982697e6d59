//! What only the operating system can tell. Everything that is Linux's own is in `linux`.

mod linux;

pub(crate) use linux::{Sampler, Usage};
