//! `outlast top`
//!
//! [`app`] is what is shown, changed by keys and news alone; [`view`] draws it; [`feed`] brings the news and carries out the wishes; [`act`] is
//! what can be done to processes.

mod act;
mod app;
mod detail;
mod feed;
mod lines;
mod listing;
mod reading;
mod row;
mod screen;
mod tail;
mod view;
mod window;

use super::follow::Sgr;
use super::terminal::{self, Ends, Keyboard, Keys, Leaving, Parser, REST_OF_KEY};
use super::{Context, Failure, ScopeArgs, attach, kill, millis, seconds};
use app::{App, Wish};
use clap::Args;
use feed::{Feed, News, Wanted, With};
use outlast_client::{Kill, ProcessId};
use outlast_text::Redactor;
use screen::{AlternateScreen, Screen};
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use view::Paint;

/// Watch processes on a full screen
///
/// Lists processes with their load and their last line of output. j and k move, / filters, and Enter opens a process: follow, search and page through its
/// log, or type into its terminal. Space marks several. Ctrl-K stops them, Ctrl-D removes finished ones, S sends a signal, r runs one again, and c copies
/// the id. Each of these asks first, except the copy. ? shows all keys.
///
/// To view a process does not mark its end as seen: its notice is still delivered.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Include finished processes; those that left something running are always shown
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Time between two updates, such as 0.5s, 5s or 5m
    #[arg(long, value_name = "DURATION", value_parser = every, default_value = "1s")]
    every: Duration,
}

/// Looking more often than this costs more than it shows.
const OFTENEST: Duration = Duration::from_millis(100);

fn every(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        time if time < OFTENEST => Err(format!("{text:?} is too often: give at least {}s", OFTENEST.as_secs_f64())),
        time => Ok(time),
    }
}

impl Top {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        is_possible(ctx)?;
        let client = ctx.client().await?;
        let wanted = Wanted { scope: self.scope.or(&ctx.owner()), all: self.all };
        let feed = Feed::new(&client, Arc::new(Redactor::new(ctx.settings.redact)), wanted.clone(), self.every);
        let mut kill = Kill::default();
        kill.grace_ms = kill::configured(ctx).map(millis);
        let with = With { kill, caller: Arc::new(ctx.caller()) };
        Session { ctx, feed, app: App::new(wanted), with }.run().await
    }
}

fn is_possible(ctx: &Context) -> Result<(), Failure> {
    if ctx.out.json {
        return Err(Failure::refused(
            "`outlast top` draws a screen and has no answer in JSON",
            "`outlast list --json` answers the same as data",
        ));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::refused(
            "`outlast top` needs a terminal, but standard input or output is not one",
            "`outlast list` prints the same once",
        ));
    }
    if ctx.world.var("TERM").is_none_or(|term| term == "dumb") {
        return Err(Failure::refused(
            "`outlast top` cannot draw on this terminal: TERM is not set, or dumb",
            "set TERM to what your terminal is, or call `outlast list`",
        ));
    }
    Ok(())
}

/// Why the loop stops.
enum Stop {
    /// With this exit code.
    Leave(i32),
    /// To give the terminal to a process for a while.
    HandOver(ProcessId),
}

/// A user at a terminal.
struct Session<'a> {
    ctx: &'a Context,
    feed: Feed,
    app: App,
    with: With,
}

impl Session<'_> {
    async fn run(mut self) -> Result<i32, Failure> {
        // One alternate screen for everything, so that a process that gets the terminal for a while leaves no trace on the user's own screen.
        let alternate = AlternateScreen::enter()?;
        loop {
            let id = match self.on_screen(&alternate).await? {
                Stop::Leave(code) => {
                    drop(alternate);
                    self.finish().await;
                    return Ok(code);
                }
                Stop::HandOver(id) => id,
            };
            let Some(row) = self.app.list.find(id) else { continue };
            let info = row.info.clone();
            match attach::hand_over(self.ctx, self.feed.client(), &info).await {
                Ok(None) => {}
                Ok(Some(signal)) => return Ok(128 + signal),
                Err(failure) => self.app.message = Some((failure.error().to_owned(), super::out::Tone::Bad)),
            }
            self.feed.look_again();
        }
    }

    /// Waits for the answers to what was asked for last, and prints them on the user's own screen.
    async fn finish(&mut self) {
        let (news, under_way) = self.feed.finish().await;
        for news in news.into_iter().filter(|news| matches!(news, News::Did { .. } | News::Typed(_))) {
            self.app.news(news);
            if let Some((text, _)) = &self.app.message {
                self.ctx.out.remark(text);
            }
        }
        for what in under_way {
            self.ctx.out.remark(&format!("{what} is still under way, and may be done or not: `outlast list` shows"));
        }
    }

    /// Shows everything until the terminal is to be given back.
    async fn on_screen(&mut self, alternate: &AlternateScreen) -> Result<Stop, Failure> {
        let (mut ends, mut resized) = (Ends::new()?, signal(SignalKind::window_change())?);
        let mut screen = Screen::on(alternate)?;
        let Keys { mut typed, held: _held, .. } = terminal::keys(Keyboard::Own, Leaving::never())?;
        let mut parser = Parser::default();
        let paint = match self.ctx.out.sgr() {
            Sgr::Shown => Paint::Colours,
            Sgr::Removed => Paint::Plain,
        };
        loop {
            screen.terminal.autoresize()?;
            let size = screen.terminal.size()?;
            self.app.resize(size.width, size.height);
            screen.terminal.draw(|frame| view::draw(frame, &self.app, paint))?;
            let (mut wishes, mut keys) = (Vec::new(), Vec::new());
            tokio::select! {
                end = ends.next() => return Ok(Stop::Leave(128 + end.as_raw_value())),
                _ = resized.recv() => {}
                news = self.feed.next() => wishes = self.app.news(news),
                bytes = typed.recv() => match bytes {
                    Some(bytes) => keys = parser.push(&bytes),
                    // Nobody can type any more: the terminal is gone.
                    None => return Ok(Stop::Leave(128 + SignalKind::hangup().as_raw_value())),
                },
                // An escape that is a key and one that begins a sequence are the same byte: only time tells them apart.
                () = tokio::time::sleep(REST_OF_KEY), if parser.waits() => keys.extend(parser.finish()),
            }
            let mut keys = keys.into_iter();
            loop {
                // Keys behind one that gives the terminal away were not meant for us.
                if let Some(stop) = wishes.drain(..).filter_map(|wish| self.grant(wish)).next() {
                    return Ok(stop);
                }
                match keys.next() {
                    Some(key) => wishes = self.app.key(key),
                    None => break,
                }
            }
        }
    }

    fn grant(&mut self, wish: Wish) -> Option<Stop> {
        match wish {
            Wish::Leave => return Some(Stop::Leave(0)),
            Wish::Attach(id) => return Some(Stop::HandOver(id)),
            Wish::List(wanted) => self.feed.list(wanted),
            Wish::LookAgain => self.feed.look_again(),
            Wish::Follow(id, of) => self.feed.follow(id, of),
            Wish::Pause => self.feed.pause(),
            Wish::Read(id, part, of) => self.feed.read(id, part, of),
            Wish::Search(id, words, way, of) => self.feed.search(id, words, way, of),
            Wish::StopSearching => self.feed.stop_searching(),
            Wish::LetGo => self.feed.let_go(),
            Wish::Do(act, ids) => self.feed.act(act, ids, &self.with),
            Wish::Copy(text) => copy(&text),
            Wish::Submit(id, line) => self.feed.submit(id, line),
            Wish::EndInput(id) => self.feed.close(id),
        }
        None
    }
}

/// Gives a text to the clipboard of the terminal, also over ssh. Terminals answer nothing, whether they took it or not.
fn copy(text: &str) {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(text);
    let mut stdout = std::io::stdout();
    // If the terminal is gone, the next read of its keys says so.
    let _gone = write!(stdout, "\x1b]52;c;{text}\x07").and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests;
