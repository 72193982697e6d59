//! The terminal of the user: raw while a view is open, and always restored.

mod keys;
mod leave;
mod modes;
mod one_screen;
mod replay;

pub(crate) use keys::{Key, Parser};
pub(crate) use leave::Leaving;
pub(crate) use modes::Modes;
pub(crate) use one_screen::OneScreen;
pub(crate) use replay::without_questions;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Write as _;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// How long the rest of a key's bytes may take.
pub(crate) const REST_OF_KEY: std::time::Duration = std::time::Duration::from_millis(50);
/// Ctrl-C, which leaves if keys do not go to the process.
const CTRL_C: u8 = 0x03;
/// How many reads of the keyboard may wait for the process to take them.
const QUEUE: usize = 64;

/// Raw mode until this is dropped, also by an error or a panic.
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

/// The signals that end this program. The terminal is restored after each of them.
pub(crate) struct Ends {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Ends {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal. The future may be dropped while it waits.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.quit.recv() => SignalKind::quit(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// A terminal in raw mode, whose keys go to the process.
    Raw,
    /// A terminal in raw mode, whose keys do not go to the process.
    Watching,
    /// Lines, or a file.
    Lines,
    /// A terminal in raw mode, whose keys are for this program.
    Own,
}

/// What the user types, and the signal to leave.
pub(crate) struct Keys {
    pub(crate) typed: mpsc::Receiver<Vec<u8>>,
    pub(crate) leave: Arc<Notify>,
    /// Standard input is read as long as this is held. Later keys are for the next reader of the terminal.
    pub(crate) held: OwnedFd,
}

/// Reads standard input in a thread of its own. Waiting for it asynchronously would make it non-blocking for other programs, too.
pub(crate) fn keys(keyboard: Keyboard, mut leaving: Leaving) -> std::io::Result<Keys> {
    let (tell, typed) = mpsc::channel(QUEUE);
    let leave = Arc::new(Notify::new());
    let left = leave.clone();
    let (let_go, held) = pipe_with(PipeFlags::CLOEXEC)?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while is_readable(&let_go) {
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(0) => return,
                Ok(n) if !pass_on(keyboard, &mut leaving, &buffer[..n], &tell, &left) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
    Ok(Keys { typed, leave, held })
}

/// Waits until standard input has bytes or has ended. False if the keys are not wanted any more.
fn is_readable(let_go: &OwnedFd) -> bool {
    let stdin = rustix::stdio::stdin();
    loop {
        let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(let_go.as_fd(), PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            // If it cannot be polled, it is read, and the read reports the error.
            Err(_) => return true,
        }
    }
}

/// Passes bytes on, and returns whether to read more.
fn pass_on(keyboard: Keyboard, leaving: &mut Leaving, bytes: &[u8], tell: &mpsc::Sender<Vec<u8>>, leave: &Notify) -> bool {
    match keyboard {
        Keyboard::Lines | Keyboard::Own => tell.blocking_send(bytes.to_vec()).is_ok(),
        Keyboard::Watching => {
            if leaving.see(bytes).1 || bytes.contains(&CTRL_C) {
                leave.notify_one();
            }
            true
        }
        Keyboard::Raw => {
            let (typed, left) = leaving.see(bytes);
            if !typed.is_empty() && tell.try_send(typed).is_err() {
                // The process reads nothing: the key is lost.
                ring();
            }
            if left {
                leave.notify_one();
            }
            !left
        }
    }
}

/// Rings the bell: keys were lost, or may have been. An error is ignored.
pub(crate) fn ring() {
    let _silent = std::io::stderr().write_all(b"\x07");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_view_types_nothing_and_leaves_with_either_key() {
        let (tell, mut typed) = mpsc::channel(4);
        let leave = Notify::new();
        let mut leaving = Leaving::new(&"ctrl-]".parse().unwrap());
        assert!(pass_on(Keyboard::Raw, &mut leaving, b"ls\x1c", &tell, &leave));
        assert!(!pass_on(Keyboard::Raw, &mut leaving, b"a\x1db", &tell, &leave));
        assert_eq!((typed.try_recv().unwrap(), typed.try_recv().unwrap()), (b"ls\x1c".to_vec(), b"a".to_vec()));
        assert!(pass_on(Keyboard::Watching, &mut leaving, b"typed\x03", &tell, &leave));
        assert!(typed.try_recv().is_err());
    }
}
