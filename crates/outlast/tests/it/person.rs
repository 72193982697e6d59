//! A user at a terminal.

use crate::support::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::process::{Child, Command, Stdio};

/// A terminal whose user has started the program.
pub(crate) struct Person {
    screen: OwnedFd,
    /// Kept to look at the terminal's mode, and so that the screen stays open when the call ends.
    terminal: OwnedFd,
    call: Child,
    pub(crate) seen: String,
}

impl Person {
    /// At a terminal of 40 rows and 100 columns.
    pub(crate) fn calls(p: &Product, args: &[&str]) -> Self {
        Self::calls_at(p, args, 40, 100)
    }

    pub(crate) fn calls_at(p: &Product, args: &[&str], rows: u16, cols: u16) -> Self {
        Self::runs(p, p.command(args), rows, cols)
    }

    /// Has any program started in the terminal, in the surroundings of a call.
    pub(crate) fn runs(p: &Product, call: Command, rows: u16, cols: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&screen).unwrap();
        rustix::pty::unlockpt(&screen).unwrap();
        let terminal = rustix::pty::ioctl_tiocgptpeer(&screen, flags).unwrap();
        tcsetwinsize(&screen, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let call = Command::new("setsid")
            // Ctrl-C works also if the tests were started in the background of a script, where it is ignored.
            .args(["--ctty", "--wait", "env", "--default-signal=INT,QUIT,HUP"])
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
        Self { screen, terminal, call, seen: String::new() }
    }

    pub(crate) fn resizes(&self, rows: u16, cols: u16) {
        tcsetwinsize(&self.screen, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    pub(crate) fn types(&self, keys: &str) {
        assert_eq!(rustix::io::write(&self.screen, keys.as_bytes()).unwrap(), keys.len());
    }

    /// Looks at the screen until the text is there.
    pub(crate) fn sees(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let mut fds = [PollFd::new(&self.screen, PollFlags::IN)];
            let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            assert!(poll(&mut fds, Some(&patience)).unwrap() > 0, "never seen: {text:?} in {:?}", self.seen);
            let mut bytes = [0; 4096];
            let n = rustix::io::read(&self.screen, &mut bytes).unwrap();
            self.seen += &String::from_utf8_lossy(&bytes[..n]);
        }
    }

    pub(crate) fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// The pid of the call, which takes the place of what gives it its terminal.
    pub(crate) fn pid(&self) -> u32 {
        self.call.id()
    }

    /// What the terminal shows until every program has closed it, and how the call ended.
    pub(crate) fn until_the_end(self) -> (String, Option<i32>) {
        let Self { screen, terminal, mut call, seen } = self;
        drop(terminal);
        let mut shown = seen.into_bytes();
        let mut bytes = [0; 4096];
        loop {
            match rustix::io::read(&screen, &mut bytes) {
                Ok(0) | Err(rustix::io::Errno::IO) => break,
                Ok(n) => shown.extend_from_slice(&bytes[..n]),
                Err(e) => panic!("cannot read the screen: {e}"),
            }
        }
        (String::from_utf8_lossy(&shown).into_owned(), call.wait().unwrap().code())
    }

    /// How the call ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.call.wait().unwrap().code()
    }
}
