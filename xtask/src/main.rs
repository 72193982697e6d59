//! Checks, campaigns and benchmarks of this workspace.
fn main() {}
