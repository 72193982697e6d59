//! Shell lines, typed at a terminal.

use crate::person::Person;
use crate::support::*;
use std::path::Path;

/// A line for bash, with `outlast` and the programs in `bin` of the working directory on its path.
pub(crate) fn types(p: &Product, line: &str) -> Person {
    let mut call = p.command(["-c", line]);
    let programs = Path::new(env!("CARGO_BIN_EXE_outlast")).parent().unwrap();
    let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin", p.work().join("bin").display(), programs.display());
    let mut shell = std::process::Command::new("bash");
    shell.args(call.get_args()).envs(call.env("PATH", path).get_envs().filter_map(|(name, value)| Some((name, value?))));
    Person::runs(p, shell, 40, 100)
}

/// What the terminal shows when the line is done, and the exit code.
pub(crate) fn shows(p: &Product, line: &str) -> (String, Option<i32>) {
    let (shown, code) = types(p, line).until_the_end();
    (outlast_text::strip(&outlast_text::collapse(&shown)).into_owned(), code)
}
