//! The terminal as a screen of our own, and as it was afterwards whatever happens.

use crate::cli::terminal::Raw;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::termios::{OptionalActions, tcsetattr};
use std::io::{Stdout, stdout};

/// The screen, until it is dropped: at the end, on an error and on a panic alike.
pub(super) struct Screen {
    _entered: Entered,
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    _raw: Raw,
}

struct Entered;

impl Screen {
    pub(super) fn enter() -> std::io::Result<Self> {
        let raw = Raw::enter()?;
        say_panics_on_the_old_screen(&raw);
        let entered = Entered;
        execute!(stdout(), EnterAlternateScreen)?;
        let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        terminal.clear()?;
        Ok(Self { _entered: entered, terminal, _raw: raw })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // On a panic it was left before the panic was told, and to leave it again would write over that.
        if !std::thread::panicking() {
            // A terminal that is gone needs no restoring.
            let _ = execute!(stdout(), LeaveAlternateScreen, Show);
            drop(std::panic::take_hook());
        }
    }
}

/// What a panic says would go with the screen it is said on.
fn say_panics_on_the_old_screen(raw: &Raw) {
    let (was, say) = (raw.was(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        // Whether or not that can be done, the panic is told.
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &was);
        say(panic);
    }));
}
