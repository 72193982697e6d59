//! The alternate screen of the terminal, which is left on every exit.

use crate::cli::terminal::Raw;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{Stdout, stdout};

/// Keeps the terminal on its alternate screen until it is dropped, also after an error or panic.
pub(super) struct AlternateScreen(());

impl AlternateScreen {
    pub(super) fn enter() -> std::io::Result<Self> {
        print_panics_on_the_own_screen(tcgetattr(std::io::stdin())?);
        let entered = Self(());
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(entered)
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // On a panic the hook has left it before it printed the panic. Leaving it again would write over that.
        if !std::thread::panicking() {
            // A terminal that is gone needs no restoring.
            let _ = execute!(stdout(), LeaveAlternateScreen, Show);
            drop(std::panic::take_hook());
        }
    }
}

/// The alternate screen with the terminal in raw mode.
pub(super) struct TopScreen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    _raw: Raw,
}

impl TopScreen {
    /// Clears the screen, and draws on it until it is dropped.
    pub(super) fn on(_: &AlternateScreen) -> std::io::Result<Self> {
        let raw = Raw::enter()?;
        let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        terminal.clear()?;
        Ok(Self { terminal, _raw: raw })
    }
}

/// Prints panics on the user's own screen. A text on the alternate screen would vanish with it.
fn print_panics_on_the_own_screen(was: Termios) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The panic is printed whether or not the terminal can be restored.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &was);
        print(panic);
    }));
}
