//! A keeper for the tests of this crate, which cannot reach the binary of another.

fn main() {
    std::process::exit(outlast_keeper::main(std::env::args_os().skip(1)));
}
