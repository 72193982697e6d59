//! The example programs, unchanged, with a real engine.

use outlast_testkit::{built, product::Product};
use std::process::{Command, Output};

/// Runs an example in the test's own home, as if `outlast` were installed.
fn example(product: &Product, name: &str, args: &[&str]) -> Output {
    let mut command = Command::new(built::program(&format!("examples/{name}")));
    let beside = product.program().parent().unwrap().display();
    command.args(args).env_clear().env("OUTLAST_HOME", product.home().root).env("PATH", format!("{beside}:/usr/bin:/bin"));
    command.env("HOME", product.user()).env("USER", "tester").current_dir(product.work());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn follow_shows_the_output_and_ends_as_the_command_does() {
    let product = Product::new(built::program("outlast"));
    let done = example(&product, "follow", &["echo one; echo two >&2; exit 7"]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(7), "one\ntwo\n".into()), "{}", text(&done.stderr));
    assert!(text(&done.stderr).ends_with(" started\n"), "{}", text(&done.stderr));
}

#[test]
fn an_agent_is_told_once_however_often_it_is_called() {
    let product = Product::new(built::program("outlast"));
    let first = example(&product, "agent", &["echo ERROR: it broke; exit 1"]);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{said}{}", text(&first.stderr));
    assert_eq!((said.matches("matched watch pattern").count(), said.matches("(exit code 1)").count()), (1, 1), "{said}");
    let again = example(&product, "agent", &[]);
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(0), String::new()), "{}", text(&again.stderr));
}

#[test]
fn the_blocking_example_waits_for_all() {
    let product = Product::new(built::program("outlast"));
    let done = example(&product, "blocking", &["seq 9", "exit 3"]);
    let want = "seq 9: 0\n    5\n    6\n    7\n    8\n    9\nexit 3: 3\n";
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), want.into()), "{}", text(&done.stderr));
}
