//! What lies on disk, one folder a process.
