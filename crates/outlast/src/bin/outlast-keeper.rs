//! The keeper: a small program that looks after one command.
fn main() {}
