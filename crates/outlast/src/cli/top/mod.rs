//! `outlast top`
//!
//! [`app`] is the state of the screen, which only keys and [`news`] change; [`view`] draws it. [`command`] is what the state asks for, and
//! [`feed`] carries it out. [`act`] is what can be done to processes.

mod act;
mod app;
mod command;
mod detail;
mod feed;
mod help;
mod lines;
mod listing;
mod news;
mod reading;
mod row;
mod screen;
mod tail;
mod view;
mod window;

use super::follow::Sgr;
use super::terminal::{self, Ends, Keyboard, Keys, Leaving, Parser, REST_OF_KEY};
use super::{Context, Failure, ScopeArgs, attach, kill, millis, seconds};
use app::App;
use clap::Args;
use command::{ListRequest, TopCommand};
use feed::{ActContext, Feed};
use news::News;
use outlast_client::{Kill, ProcessId};
use outlast_text::Redactor;
use screen::{AlternateScreen, TopScreen};
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use view::TopPaint;

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

/// Listing more often than this costs more than it shows.
const MIN_LIST_INTERVAL: Duration = Duration::from_millis(100);

fn every(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        time if time < MIN_LIST_INTERVAL => Err(format!("{text:?} is too often: give at least {}s", MIN_LIST_INTERVAL.as_secs_f64())),
        time => Ok(time),
    }
}

impl Top {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        is_possible(ctx)?;
        let client = ctx.client().await?;
        let wanted = ListRequest { scope: self.scope.or(&ctx.owner()), all: self.all };
        let feed = Feed::new(&client, Arc::new(Redactor::new(ctx.settings.redact)), wanted.clone(), self.every);
        let mut kill = Kill::default();
        kill.grace_ms = kill::configured(ctx).map(millis);
        let with = ActContext { kill, caller: Arc::new(ctx.caller()) };
        TopSession { ctx, feed, app: App::new(wanted), with }.run().await
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

/// Why the terminal is given back.
enum LeaveScreen {
    /// The program ends, with this exit code.
    Exit(i32),
    /// A process gets the terminal for a while.
    HandOver(ProcessId),
}

/// One run of `outlast top`.
struct TopSession<'a> {
    ctx: &'a Context,
    feed: Feed,
    app: App,
    with: ActContext,
}

impl TopSession<'_> {
    async fn run(mut self) -> Result<i32, Failure> {
        // One alternate screen for everything, so that a process that gets the terminal for a while writes nothing to the user's own
        // screen.
        let alternate = AlternateScreen::enter()?;
        loop {
            let id = match self.on_screen(&alternate).await? {
                LeaveScreen::Exit(code) => {
                    drop(alternate);
                    self.finish().await;
                    return Ok(code);
                }
                LeaveScreen::HandOver(id) => id,
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

    /// Waits for the answers to the last requests, and prints them on the user's own screen.
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

    /// Shows the screen until the terminal is given back.
    async fn on_screen(&mut self, alternate: &AlternateScreen) -> Result<LeaveScreen, Failure> {
        let (mut ends, mut resized) = (Ends::new()?, signal(SignalKind::window_change())?);
        let mut screen = TopScreen::on(alternate)?;
        let Keys { mut typed, held: _held, .. } = terminal::keys(Keyboard::Own, Leaving::never())?;
        let mut parser = Parser::default();
        let paint = match self.ctx.out.sgr() {
            Sgr::Shown => TopPaint::Colours,
            Sgr::Removed => TopPaint::Plain,
        };
        loop {
            screen.terminal.autoresize()?;
            let size = screen.terminal.size()?;
            self.app.resize(size.width, size.height);
            screen.terminal.draw(|frame| view::draw(frame, &self.app, paint))?;
            let (mut commands, mut keys) = (Vec::new(), Vec::new());
            tokio::select! {
                end = ends.next() => return Ok(LeaveScreen::Exit(128 + end.as_raw_value())),
                _ = resized.recv() => {}
                news = self.feed.next() => commands = self.app.news(news),
                bytes = typed.recv() => match bytes {
                    Some(bytes) => keys = parser.push(&bytes),
                    // The terminal is gone.
                    None => return Ok(LeaveScreen::Exit(128 + SignalKind::hangup().as_raw_value())),
                },
                // The Escape key sends the byte that starts a sequence. Only time tells them apart.
                () = tokio::time::sleep(REST_OF_KEY), if parser.waits() => keys.extend(parser.finish()),
            }
            let mut keys = keys.into_iter();
            loop {
                // Keys typed after one that hands over the terminal are not ours.
                if let Some(stop) = commands.drain(..).filter_map(|command| self.carry_out(command)).next() {
                    return Ok(stop);
                }
                match keys.next() {
                    Some(key) => commands = self.app.key(key),
                    None => break,
                }
            }
        }
    }

    fn carry_out(&mut self, command: TopCommand) -> Option<LeaveScreen> {
        match command {
            TopCommand::Leave => return Some(LeaveScreen::Exit(0)),
            TopCommand::Attach(id) => return Some(LeaveScreen::HandOver(id)),
            TopCommand::List(wanted) => self.feed.list(wanted),
            TopCommand::LookAgain => self.feed.look_again(),
            TopCommand::Follow(id, of) => self.feed.follow(id, of),
            TopCommand::Pause => self.feed.pause(),
            TopCommand::Read(id, part, of) => self.feed.read(id, part, of),
            TopCommand::Search(id, words, way, of) => self.feed.search(id, words, way, of),
            TopCommand::StopSearching => self.feed.stop_searching(),
            TopCommand::CloseLog => self.feed.close_log(),
            TopCommand::Do(act, ids) => self.feed.act(act, ids, &self.with),
            TopCommand::Copy(text) => copy(&text),
            TopCommand::Submit(id, line) => self.feed.submit(id, line),
            TopCommand::EndInput(id) => self.feed.close(id),
        }
        None
    }
}

/// Sends a text to the clipboard of the terminal (OSC 52), which also works over ssh. Terminals do not confirm it.
fn copy(text: &str) {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(text);
    let mut stdout = std::io::stdout();
    // If the terminal is gone, the next read of a key reports it.
    let _gone = write!(stdout, "\x1b]52;c;{text}\x07").and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests;
