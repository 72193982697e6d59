//! Calls to the operating system. All Linux code is in `linux`.

mod linux;

pub(crate) use linux::ChildHandle;
