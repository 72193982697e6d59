//! The terminal of a person: raw while they are attached, and as it was afterwards whatever happens.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Write as _;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// Ctrl-\, which leaves.
const LEAVE: u8 = 0x1c;
/// Ctrl-C, which leaves where nothing is typed into the process.
const CTRL_C: u8 = 0x03;
/// How many reads of the keyboard may wait for the process to take them.
const QUEUE: usize = 64;

/// Raw mode, until it is dropped: at the end, on an error and on a panic alike.
pub(crate) struct Raw {
    was: Termios,
}

impl Raw {
    pub(crate) fn enter() -> std::io::Result<Self> {
        let stdin = std::io::stdin();
        let was = tcgetattr(&stdin)?;
        let mut raw = was.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Self { was })
    }

    /// How the terminal was, for somebody who may have to bring it back without this.
    pub(crate) fn was(&self) -> Termios {
        self.was.clone()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.was);
    }
}

/// Rows and columns, if output goes to a terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    tcgetwinsize(std::io::stdout()).ok().map(|w| (w.ws_row, w.ws_col)).filter(|(rows, cols)| *rows > 0 && *cols > 0)
}

/// The signals that end us, each of which must leave the terminal as it was.
pub(crate) struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Ends {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// A terminal in raw mode, typed into the process.
    Raw,
    /// A terminal in raw mode, nothing of which reaches the process.
    Watching,
    /// Lines, or a file.
    Lines,
    /// A terminal in raw mode, whose keys are for us.
    Own,
}

/// What is typed, and the wish to leave.
pub(crate) struct Keys {
    pub(crate) typed: mpsc::Receiver<Vec<u8>>,
    pub(crate) leave: Arc<Notify>,
    /// For as long as this is held, standard input is read; afterwards the keys are somebody else's.
    pub(crate) held: OwnedFd,
}

/// Reads standard input in a thread of its own, since nothing else can be waited for together with it without changing it for others.
pub(crate) fn keys(keyboard: Keyboard) -> std::io::Result<Keys> {
    let (tell, typed) = mpsc::channel(QUEUE);
    let leave = Arc::new(Notify::new());
    let left = leave.clone();
    let (let_go, held) = pipe_with(PipeFlags::CLOEXEC)?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while is_readable(&let_go) {
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(0) => return,
                Ok(n) if !pass_on(keyboard, &buffer[..n], &tell, &left) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
    Ok(Keys { typed, leave, held })
}

/// Waits until standard input has something, or its end. `false`: nobody wants it any more.
fn is_readable(let_go: &OwnedFd) -> bool {
    let stdin = rustix::stdio::stdin();
    loop {
        let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(let_go.as_fd(), PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            // What cannot be waited for is read, and that says what is wrong.
            Err(_) => return true,
        }
    }
}

/// Gives bytes on; whether to read more.
fn pass_on(keyboard: Keyboard, bytes: &[u8], tell: &mpsc::Sender<Vec<u8>>, leave: &Notify) -> bool {
    match keyboard {
        Keyboard::Lines | Keyboard::Own => tell.blocking_send(bytes.to_vec()).is_ok(),
        Keyboard::Watching => {
            if bytes.iter().any(|b| matches!(*b, LEAVE | CTRL_C)) {
                leave.notify_one();
            }
            true
        }
        Keyboard::Raw => {
            let end = bytes.iter().position(|b| *b == LEAVE);
            let typed = &bytes[..end.unwrap_or(bytes.len())];
            if !typed.is_empty() && tell.try_send(typed.to_vec()).is_err() {
                // The process reads nothing: the key is lost, and the person hears it. A silent terminal is no reason to stop.
                let _ = std::io::stderr().write_all(b"\x07");
            }
            if end.is_some() {
                leave.notify_one();
            }
            end.is_none()
        }
    }
}

/// Watches for what a program does to the terminal, so that it can be undone when the person leaves in the middle.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    tail: Vec<u8>,
    alternate: bool,
}

const SWITCHES: [(&[u8], bool); 6] = [
    (b"\x1b[?1049h", true),
    (b"\x1b[?1049l", false),
    (b"\x1b[?1047h", true),
    (b"\x1b[?1047l", false),
    (b"\x1b[?47h", true),
    (b"\x1b[?47l", false),
];
const LONGEST: usize = 8;

impl Modes {
    /// Looks at output that is shown.
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        let all = [&self.tail, bytes].concat();
        let last = SWITCHES.iter().filter_map(|(s, on)| all.windows(s.len()).rposition(|w| w == *s).map(|at| (at, *on))).max();
        if let Some((_, on)) = last {
            self.alternate = on;
        }
        self.tail = all[all.len().saturating_sub(LONGEST - 1)..].to_vec();
    }

    /// What brings the terminal back: own screen, cursor, colours, keys, and no reports of mouse or paste.
    pub(crate) fn undo(&self) -> String {
        let screen = if self.alternate { "\x1b[?1049l" } else { "" };
        format!("{screen}\x1b[?25h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_left_in_the_middle_is_brought_back() {
        let mut modes = Modes::default();
        modes.see(b"plain\x1b[31m");
        assert!(!modes.undo().contains("1049l"));
        for piece in [&b"x\x1b[?1"[..], b"049", b"hy"] {
            modes.see(piece);
        }
        assert!(modes.undo().starts_with("\x1b[?1049l"));
        modes.see(b"\x1b[?1049l\x1b[?1049h\x1b[?1049l");
        assert!(!modes.undo().contains("1049l"));
    }

    #[test]
    fn the_leaving_key_is_not_typed() {
        let (tell, mut typed) = mpsc::channel(4);
        let leave = Notify::new();
        assert!(pass_on(Keyboard::Raw, b"ls\x03", &tell, &leave));
        assert!(!pass_on(Keyboard::Raw, b"a\x1cb", &tell, &leave));
        assert_eq!(typed.try_recv().unwrap(), b"ls\x03");
        assert_eq!(typed.try_recv().unwrap(), b"a");
        assert!(typed.try_recv().is_err());
        assert!(pass_on(Keyboard::Watching, b"typed", &tell, &leave));
        assert!(typed.try_recv().is_err());
    }
}
