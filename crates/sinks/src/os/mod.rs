//! What only the operating system can tell or do. Everything that is Linux's own is in `linux`.

mod linux;

pub(crate) use linux::Life;
