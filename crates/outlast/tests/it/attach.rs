//! `attach`: a person at a terminal looks at a process and types into it.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::process::{Child, Command, Stdio};

/// A terminal, with somebody at it who has called the program.
struct Person {
    screen: OwnedFd,
    /// Kept to look at the terminal's mode, and so that the screen stays open when the call ends.
    terminal: OwnedFd,
    call: Child,
    seen: String,
}

impl Person {
    fn calls(p: &Product, args: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&screen).unwrap();
        rustix::pty::unlockpt(&screen).unwrap();
        let terminal = rustix::pty::ioctl_tiocgptpeer(&screen, flags).unwrap();
        let call = p.command(args);
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let call = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(call.get_program())
            .args(call.get_args())
            .env_clear()
            .envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm")
            .current_dir(p.work())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let person = Self { screen, terminal, call, seen: String::new() };
        person.resizes(40, 100);
        person
    }

    fn resizes(&self, rows: u16, cols: u16) {
        tcsetwinsize(&self.screen, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    fn types(&self, keys: &str) {
        assert_eq!(rustix::io::write(&self.screen, keys.as_bytes()).unwrap(), keys.len());
    }

    /// Looks at the screen until the text is there.
    fn sees(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let mut fds = [PollFd::new(&self.screen, PollFlags::IN)];
            let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            assert!(poll(&mut fds, Some(&patience)).unwrap() > 0, "never seen: {text:?} in {:?}", self.seen);
            let mut bytes = [0; 4096];
            let n = rustix::io::read(&self.screen, &mut bytes).unwrap();
            self.seen += &String::from_utf8_lossy(&bytes[..n]);
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// How the call ended.
    fn ended(&mut self) -> Option<i32> {
        self.call.wait().unwrap().code()
    }
}

#[test]
fn a_person_sees_what_was_before_types_and_leaves_while_the_process_goes_on() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo before; while read -r line; do echo \"got $line\"; done; exit 3");
    until_printed(&p, &id, "before");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("before");
    assert!(person.is_raw());
    person.types("first\r");
    person.sees("got first");
    // An agent may type at the same time.
    p.call(["submit", &id, "from elsewhere"]).good();
    person.sees("got from elsewhere");
    person.types("\x1c");
    person.sees(&format!("come back with: outlast attach {id}"));
    assert_eq!(person.ended(), Some(0));
    assert!(!person.is_raw(), "the terminal is as it was");
    assert_eq!(p.json(["poll", &id])["status"], "running");
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["exit_code"], 3);
}

#[test]
fn the_process_gets_the_size_of_the_persons_terminal_also_when_it_changes() {
    let p = product();
    let id = p.run_with(&["--pty"], "while stty size; do read -r -t 0.05 _; done");
    until_printed(&p, &id, "30 120");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("40 100");
    person.resizes(50, 90);
    person.sees("50 90");
    person.types("\x1c");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn a_question_to_the_terminal_is_answered_by_the_one_that_is_there_and_only_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!(
        "stty raw -echo; echo ready; {0}; printf '\\033[6n'; IFS= read -r -d R got; printf '<%s>' \"${{got#??}}\"; {0}; IFS= read -r -t 0.01 -N 1 more; printf '[%s]' \"$more\"",
        gate.wait()
    );
    let id = p.run_with(&["--pty"], &line);
    let mut person = Person::calls(&p, &["attach", &id]);
    // What it shows comes once the process knows of it.
    person.sees("ready");
    gate.open();
    person.sees("\x1b[6n");
    person.types("\x1b[5;7R");
    person.sees("<5;7>");
    gate.open();
    person.sees("[]");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn who_only_looks_sends_nothing_and_changes_nothing() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo shown; read -r line; stty size; echo \"got $line\"; read -r _");
    until_printed(&p, &id, "shown");
    let mut person = Person::calls(&p, &["attach", "--read-only", &id]);
    person.sees("shown");
    eventually("raw mode", || person.is_raw().then_some(()));
    person.types("ignored\r");
    p.call(["submit", &id, "real"]).good();
    person.sees("got real");
    assert!(person.seen.contains("30 120"), "{:?}", person.seen);
    person.types("\x03");
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn a_process_with_a_pipe_gets_lines_and_the_end_of_input() {
    let p = product();
    let id = p.run_with(&["--stdin"], "echo ready; cat; echo over");
    until_printed(&p, &id, "ready");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("ready");
    person.types("a line\n");
    person.sees("a line\r\na line\r\n");
    person.types("\x04");
    person.sees("over");
    person.sees("exited with code 0");
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.wait(&id)["output"], "ready\na line\nover\n");
}

#[test]
fn a_person_is_told_of_the_end_and_the_terminal_is_as_it_was() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--pty"], &format!("printf '\\033[?1049hfull screen'; {}; exit 5", gate.wait()));
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("full screen");
    gate.open();
    person.sees("exited with code 5");
    person.sees("\x1b[?1049l");
    assert_eq!(person.ended(), Some(0));
    assert!(!person.is_raw());
}

#[test]
fn an_attached_person_goes_on_through_the_death_of_the_engine() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo before; while read -r line; do echo \"got $line\"; done");
    until_printed(&p, &id, "before");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("before");
    p.kill_engine();
    person.types("after\r");
    person.sees("got after");
    person.types("\x1c");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn what_is_over_cannot_be_attached_to() {
    let p = product();
    let id = p.run("exit 3");
    p.wait(&id);
    let refused = p.call(["attach", &id]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("exited with code 3") && refused.err.contains(&format!("outlast log {id}")), "{refused:?}");
}
