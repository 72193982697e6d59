//! A real terminal with a user: the program inside a tmux server of the test.

use crate::support::*;
use outlast_testkit::machine;
use std::path::PathBuf;
use std::process::{Command, Output};

/// One window of a server that only this test uses.
pub(crate) struct Tmux {
    socket: PathBuf,
    server: u32,
}

/// What the shell says when the program has ended: its exit code, and whether lines can be typed again.
const SHELL: &str = r#""$0" "$@"; echo "left with $?"; stty -a | grep -o ' icanon'; exec cat"#;

impl Tmux {
    /// Calls the program in a window of this size. Nothing, and a word about it, where there is no tmux.
    pub(crate) fn calls(test: &str, p: &Product, (cols, rows): (u16, u16), args: &[&str]) -> Option<Self> {
        if let Err(e) = Command::new("tmux").arg("-V").output() {
            machine::skipped(test, format!("tmux cannot be run: {e}"));
            return None;
        }
        let socket = p.work().join("tmux");
        let call = p.command(args);
        let mut new = Command::new("tmux");
        new.env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
        new.arg("-u").arg("-S").arg(&socket).args([
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &cols.to_string(),
            "-y",
            &rows.to_string(),
        ]);
        new.arg("-c").arg(p.work()).args(["sh", "-c", SHELL]).arg(call.get_program()).args(call.get_args());
        let made = new.output().expect("tmux runs");
        assert!(made.status.success(), "{made:?}");
        let mut tmux = Self { socket, server: 0 };
        tmux.server = tmux.asks("#{pid}").parse().expect("a pid");
        Some(tmux)
    }

    fn says(&self, args: &[&str]) -> Output {
        let said = Command::new("tmux").arg("-u").arg("-S").arg(&self.socket).args(args).output().expect("tmux runs");
        assert!(said.status.success(), "{args:?}: {said:?}");
        said
    }

    /// What tmux knows of the window.
    pub(crate) fn asks(&self, what: &str) -> String {
        String::from_utf8_lossy(&self.says(&["display-message", "-p", what]).stdout).trim().to_owned()
    }

    /// Presses keys, by the names that tmux has for them.
    pub(crate) fn presses(&self, keys: &[&str]) {
        self.says(&[&["send-keys"], keys].concat());
    }

    /// Types text.
    pub(crate) fn types(&self, text: &str) {
        self.says(&["send-keys", "-l", text]);
    }

    pub(crate) fn resizes(&self, cols: u16, rows: u16) {
        self.says(&["resize-window", "-x", &cols.to_string(), "-y", &rows.to_string()]);
    }

    /// Has tmux keep what a program sends for the clipboard.
    pub(crate) fn allows_clipboard(&self) {
        self.says(&["set-option", "-s", "set-clipboard", "on"]);
    }

    /// What a program sent for the clipboard last; empty if nothing was sent.
    pub(crate) fn clipboard(&self) -> String {
        let said = Command::new("tmux").arg("-S").arg(&self.socket).arg("show-buffer").output().expect("tmux runs");
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// The screen as text.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.says(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The screen with what makes text bold or coloured.
    pub(crate) fn painted_screen(&self) -> String {
        String::from_utf8_lossy(&self.says(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }

    /// Waits until the screen is as it should be, and gives it.
    pub(crate) fn shows(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            last = self.screen();
            if is_so(&last) {
                return last;
            }
            // A look at the screen is a call of tmux; the next one need not follow at once.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("never seen: {what}, but\n{last}");
    }

    /// Waits until the text is on the screen.
    pub(crate) fn sees(&self, text: &str) -> String {
        self.shows(text, |screen| screen.contains(text))
    }

    /// Waits until the program has ended, and gives its exit code. The terminal is as it was.
    pub(crate) fn left(&self) -> i32 {
        let screen = self.sees(" icanon");
        assert_eq!(self.asks("#{alternate_on}"), "0");
        let (_, code) = screen.rsplit_once("left with ").expect("an exit code");
        code.lines().next().and_then(|code| code.trim().parse().ok()).expect("a number")
    }

    /// The pid of the program.
    pub(crate) fn program(&self) -> u32 {
        let shell = self.asks("#{pane_pid}");
        let parent = format!("PPid:\t{shell}\n");
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let mut children = pids.filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| s.contains(&parent)));
        children.next().expect("the program")
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // A server whose window has closed is gone already.
        let _gone = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
        assert!(wait_for_end(self.server, PATIENCE) || std::thread::panicking(), "tmux does not end");
    }
}
