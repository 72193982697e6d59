//! The command line of Outlast.
fn main() {}
