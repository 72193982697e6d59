//! The keeper: a small program that looks after one command.

fn main() {
    std::process::exit(outlast_keeper::main(std::env::args_os().skip(1)));
}
