//! Attached inside a real terminal, which says how it looks.

use crate::gate::until_printed;
use crate::support::*;
use outlast_testkit::machine::skipped;
use std::path::PathBuf;
use std::process::Command;

/// Terminals of their own, ended with the test.
struct Tmux<'a> {
    p: &'a Product,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    /// Nothing if there is no tmux, and the test says so by its name.
    fn new(p: &'a Product, test: &str) -> Option<Self> {
        let found = Command::new("tmux").arg("-V").output().is_ok_and(|o| o.status.success());
        if !found {
            skipped(test, "tmux is not installed");
        }
        found.then(|| Self { p, socket: p.work().join("tmux") })
    }

    fn call(&self, args: &[&str]) -> String {
        let call = self.p.command([""; 0]);
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(args).env_clear();
        tmux.envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm-256color")
            .current_dir(self.p.work());
        let done = tmux.output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// A terminal with text on the screen before `attach`, and with the shell afterwards.
    fn attach(&self, name: &str, cols: u32, rows: u32, args: &str) {
        let line = format!("echo was here; {} attach {args}; echo came back; exec cat", env!("CARGO_BIN_EXE_outlast"));
        let (cols, rows) = (cols.to_string(), rows.to_string());
        self.call(&["new-session", "-d", "-s", name, "-x", &cols, "-y", &rows, &line, ";", "set-option", "-g", "status", "off"]);
        self.call(&["resize-window", "-t", name, "-x", &cols, "-y", &rows]);
    }

    fn types(&self, name: &str, keys: &str) {
        self.call(&["send-keys", "-t", name, keys]);
    }

    fn screen(&self, name: &str) -> String {
        self.call(&["capture-pane", "-p", "-t", name])
    }

    /// Waits until the screen shows it.
    fn sees(&self, name: &str, text: &str) -> String {
        let mut screen = String::new();
        let began = std::time::Instant::now();
        while !screen.contains(text) {
            assert!(began.elapsed() < PATIENCE, "{text:?} is never seen in {name}: {screen}");
            screen = self.screen(name);
        }
        screen
    }

    /// The other screen, the cursor, keys and mouse, as tmux has them.
    fn modes(&self, name: &str) -> String {
        let flags = "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag} #{keypad_flag} #{mouse_any_flag} #{bracket_paste_flag}";
        self.call(&["display-message", "-p", "-t", name, flags]).trim_end().trim_end_matches(' ').to_owned()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // It may have ended with its last terminal.
        let _over = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// Has the whole screen, shows its size and the last key, and draws only when it must. `q` ends it. It asks for its size over and over: bash may fail to read a `$(…)` in which a
/// signal with a trap comes.
const FULL: &str = r#"stty -echo -icanon min 0 time 1; key=none; size=$(stty size)
draw() { printf '\033[2J\033[HSIZE %s KEY %s.' "$size" "$key"; }
printf 'before\n\033[?1049h\033[?25l\033[?1h\033[?1002;1006h'; draw
while [ "$key" != q ]; do
  got=$(dd bs=1 count=1 2>/dev/null)
  if [ -n "$got" ]; then key=$got; draw; fi
  now=$(stty size); if [ "$now" != "$size" ]; then size=$now; draw; fi
done
printf '\033[?1002;1006l\033[?1l\033[?25h\033[?1049l'; exit 5"#;

fn full_screen(p: &Product) -> String {
    let id = p.run_with(&["--pty"], FULL);
    until_printed(p, &id, "KEY none");
    id
}

#[test]
fn a_full_screen_program_is_drawn_for_who_comes_and_the_screen_is_back_for_who_leaves() {
    let p = product();
    let Some(tmux) = Tmux::new(&p, "a_full_screen_program_is_drawn_for_who_comes_and_the_screen_is_back_for_who_leaves") else { return };
    let id = full_screen(&p);
    tmux.attach("one", 90, 25, &id);
    let screen = tmux.sees("one", "SIZE 25 90 KEY none.");
    assert!(!screen.contains("was here") && !screen.contains("before"), "{screen}");
    assert!(tmux.modes("one").starts_with("1 0 1 0 1"), "{}", tmux.modes("one"));
    tmux.types("one", "x");
    tmux.sees("one", "SIZE 25 90 KEY x.");
    tmux.types("one", "C-\\");
    let screen = tmux.sees("one", "came back");
    assert!(screen.contains("was here") && screen.contains("come back with") && !screen.contains("SIZE"), "{screen}");
    assert!(tmux.modes("one").starts_with("0 1 0 0 0"), "{}", tmux.modes("one"));
    // Who comes to the same size sees it all the same.
    tmux.attach("again", 90, 25, &id);
    tmux.sees("again", "SIZE 25 90 KEY x.");
    tmux.types("again", "q");
    let screen = tmux.sees("again", "came back");
    assert!(screen.contains("exited with code 5") && screen.contains("was here"), "{screen}");
}

#[test]
fn of_several_the_last_to_come_or_to_type_has_its_size() {
    let p = product();
    let Some(tmux) = Tmux::new(&p, "of_several_the_last_to_come_or_to_type_has_its_size") else { return };
    let id = full_screen(&p);
    tmux.attach("large", 90, 25, &id);
    tmux.sees("large", "SIZE 25 90");
    tmux.attach("small", 70, 20, &id);
    tmux.sees("small", "SIZE 20 70");
    tmux.sees("large", "SIZE 20 70");
    tmux.attach("watcher", 60, 15, &format!("--read-only {id}"));
    tmux.sees("watcher", "SIZE 20 70");
    // The size of the terminal that types is sent again after a second.
    eventually("the size of who types", || {
        tmux.types("large", "a");
        tmux.screen("large").contains("SIZE 25 90").then_some(())
    });
    tmux.sees("small", "SIZE 25 90 KEY a.");
    tmux.call(&["resize-window", "-t", "small", "-x", "65", "-y", "18"]);
    tmux.sees("large", "SIZE 18 65");
    tmux.types("large", "C-\\");
    tmux.sees("large", "came back");
    // The views that are left continue.
    tmux.types("small", "b");
    tmux.sees("watcher", "KEY b.");
    p.call(["view", "close", &id]).good();
    for name in ["small", "watcher"] {
        let screen = tmux.sees(name, "came back");
        assert!(screen.contains("this view was closed"), "{screen}");
    }
}

#[test]
fn the_screen_is_back_when_no_engine_can_be_had_any_more() {
    let p = product();
    let Some(tmux) = Tmux::new(&p, "the_screen_is_back_when_no_engine_can_be_had_any_more") else { return };
    let id = full_screen(&p);
    tmux.attach("one", 90, 25, &id);
    tmux.sees("one", "SIZE 25 90");
    let (home, aside) = (p.home().root, p.work().join("home aside"));
    let engine = p.engine();
    std::fs::rename(&home, &aside).unwrap();
    std::fs::write(&home, "in the way").unwrap();
    kill_and_wait(engine).unwrap();
    let screen = tmux.sees("one", "came back");
    std::fs::remove_file(&home).unwrap();
    std::fs::rename(&aside, &home).unwrap();
    assert!(screen.contains("was here") && screen.contains("outlast: ") && !screen.contains("SIZE"), "{screen}");
    assert!(tmux.modes("one").starts_with("0 1 0 0 0"), "{}", tmux.modes("one"));
    assert_eq!(p.json(["poll", &id])["status"], "running", "the process keeps running");
}

#[test]
fn the_key_that_leaves_can_be_another() {
    let p = product();
    let Some(tmux) = Tmux::new(&p, "the_key_that_leaves_can_be_another") else { return };
    p.configure("[attach]\ndetach_key = \"ctrl-]\"\n");
    let id = full_screen(&p);
    tmux.attach("configured", 90, 25, &id);
    tmux.sees("configured", "SIZE 25 90");
    tmux.types("configured", "C-]");
    tmux.sees("configured", "came back");
    tmux.attach("given", 90, 25, &format!("--detach-key ctrl-p,ctrl-q {id}"));
    tmux.sees("given", "SIZE 25 90");
    tmux.types("given", "C-p");
    tmux.types("given", "z");
    tmux.sees("given", "KEY z.");
    tmux.types("given", "C-p");
    tmux.types("given", "C-q");
    tmux.sees("given", "came back");
    let refused = p.call(["attach", "--detach-key", "q", &id]);
    assert!(refused.code == Some(2) && refused.err.contains("not a key to leave with"), "{refused:?}");
}
