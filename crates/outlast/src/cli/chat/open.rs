//! `outlast chat [NAME]`: the interactive conversation.

use super::super::gateway::check_configuration;
use super::super::out::Out;
use super::super::table::cut;
use super::super::terminal::{self, Ends, Key, Keyboard, Keys, Leaving, Parser, REST_OF_KEY, Raw};
use super::super::times;
use super::commands::{self, Entered, SlashCommand};
use super::editor::{Edited, Editor};
use super::live::{Frame, LiveArea, lines_above, room};
use super::markdown::{ChatPaint, StyledLine, TextStyle};
use super::read::{ChatReader, ChatSource, ShownConversation};
use super::requests::{ChatNews, ChatRequest, RequestQueue};
use super::view::{CONTEXT_PARTS, ChatView};
use super::{AgentArgs, ChatName, Context, Failure, connect, failed, failed_with_meant, piped, send, show};
use crate::config::Colours;
use clap::Args;
use outlast_client::{ChatEvent, ChatFeed, ClientError, Content, Heard, Opened, Setup, Shown, Time, TurnInfo, TurnState, message_id};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The interval of redrawing times, and of reporting to the gateway which parts were seen.
const TICK: Duration = Duration::from_secs(1);
/// Ctrl-C twice within this time leaves.
const LEAVE_WINDOW: Duration = Duration::from_secs(2);
/// After this long without a gateway the status line says that none runs.
const STOPPED_AFTER: Duration = Duration::from_secs(3);
/// The least time between two draws, so that a flood of text does not become a flood of drawing.
const DRAW_PAUSE: Duration = Duration::from_millis(16);

/// The most columns of an agent's name in the greeting: a whole shell line would hide what follows.
const MAX_GREETED_AGENT_WIDTH: usize = 40;
/// The column at which the explanations of `/help` start.
const HELP_COLUMN: usize = 11;
/// The most events that wait to be shown.
const MAX_QUEUED_EVENTS: usize = 64;

/// The arguments without a subcommand.
#[derive(Debug, Args)]
pub(super) struct ChatOpen {
    /// The conversation
    #[arg(default_value = "main")]
    name: ChatName,
    #[command(flatten)]
    agent: AgentArgs,
}

impl ChatOpen {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !ctx.world.is_dumb();
        if is_terminal && ctx.out.json {
            return Err(Failure::refused(
                "`outlast chat` at a terminal has no answer in JSON",
                "`outlast chat send NAME --wait --json TEXT` answers as data",
            ));
        }
        let setup = self.agent.setup(ctx);
        let chat = connect(ctx).await?;
        let opened = match chat.open(&self.name.key, &setup).await {
            Ok(opened) => opened,
            Err(e) => return Err(failed_with_meant(&chat, &self.name, e).await),
        };
        if !is_terminal {
            return piped::perform(ctx, &chat, &self.name, &setup).await;
        }
        let feed = chat.follow(&self.name.key).after(opened.seen_part).with_context(CONTEXT_PARTS + 1).attended();
        let requests = RequestQueue::new(chat, ChatReader::new(ctx), self.name.clone(), Setup::default().in_dir(&ctx.world.cwd));
        ChatScreen::new(ctx, self.name, &opened, requests).run(feed).await
    }
}

/// The conversation on a terminal.
struct ChatScreen<'a> {
    ctx: &'a Context,
    name: ChatName,
    view: ChatView,
    editor: Editor,
    requests: RequestQueue,
    area: LiveArea,
    paint: ChatPaint,
    /// Finished lines that are not drawn yet.
    finished: Vec<StyledLine>,
    /// A hint above the prompt, until the next key.
    hint: Option<String>,
    busy_since: Option<Instant>,
    lost_since: Option<Instant>,
    /// Whether the lost gateway was stopped by the user.
    is_stopped: bool,
    /// The time of a Ctrl-C that had nothing to stop.
    interrupted_at: Option<Instant>,
    /// The last part that was reported to the gateway as seen.
    told_seen: Option<u64>,
    /// The question that was open when the user typed the first letter of the line.
    asked_at_first_key: Option<String>,
}

/// What a line is while the agent waits for an answer.
enum Answered {
    With(ChatRequest),
    /// It is no answer and too short for a message.
    Refused(String),
    Message,
}

/// Why the terminal is given back.
enum Leave {
    Asked,
    Signal(i32),
}

impl<'a> ChatScreen<'a> {
    fn new(ctx: &'a Context, name: ChatName, opened: &Opened, requests: RequestQueue) -> Self {
        let view = ChatView::new(name.short(), opened.seen_part, opened.conversation.standing.clone());
        let mut screen = Self {
            ctx,
            name,
            view,
            editor: Editor::default(),
            requests,
            area: LiveArea::default(),
            paint: if ctx.world.colours() == Colours::Never { ChatPaint::Emphasis } else { ChatPaint::Colours },
            finished: Vec::new(),
            hint: None,
            busy_since: None,
            lost_since: None,
            is_stopped: false,
            interrupted_at: None,
            told_seen: opened.seen_part,
            asked_at_first_key: None,
        };
        screen.greet(opened);
        screen
    }

    fn greet(&mut self, opened: &Opened) {
        let agent = opened.conversation.agent.as_deref().map(|agent| format!(", answered by {}", cut(agent, MAX_GREETED_AGENT_WIDTH)));
        let agent = agent.unwrap_or_default();
        let news = if opened.is_new { ", new" } else { "" };
        let text = format!("{}{news}{agent} · /help shows the commands, Ctrl-D leaves", opened.conversation.name);
        self.remark(TextStyle::Quiet, &text);
    }

    async fn run(mut self, feed: ChatFeed) -> Result<i32, Failure> {
        let mut heard = FeedTask::start(feed);
        let raw = Raw::enter()?;
        let paste = Paste::enter()?;
        let left = self.on_terminal(&mut heard).await;
        // The terminal is restored, also after an error.
        let _gone = self.draw_last();
        drop((paste, raw));
        let left = left?;
        let (is_busy, has_question) = (self.view.is_busy(), self.view.has_question());
        if let Some(part) = self.view.last_part().filter(|part| Some(*part) > self.told_seen) {
            self.requests.ask(ChatRequest::Seen(part));
        }
        let (out, name) = (self.ctx.out, self.name.short().to_owned());
        if !self.requests.finish().await {
            out.remark("what was said last may not be sent: say it again when you come back");
        }
        match left {
            Leave::Asked => {
                if has_question {
                    let limit = self.ctx.settings.gateway.limits.permission.as_secs_f64();
                    out.remark(&format!("the agent waits for your answer; without one it is refused after {limit} s"));
                }
                let goes_on = if is_busy && !has_question { "the agent keeps writing; " } else { "" };
                out.remark(&format!("{goes_on}`outlast chat {name}` comes back"));
                Ok(0)
            }
            Leave::Signal(number) => Ok(128 + number),
        }
    }

    async fn on_terminal(&mut self, feed: &mut FeedTask) -> Result<Leave, Failure> {
        let (mut ends, mut resized) = (Ends::new()?, signal(SignalKind::window_change())?);
        let Keys { mut typed, held: _held, .. } = terminal::keys(Keyboard::Own, Leaving::never())?;
        let mut parser = Parser::default();
        let mut tick = tokio::time::interval(TICK);
        let mut drawn = Instant::now();
        let mut is_due = true;
        loop {
            let pause = DRAW_PAUSE.saturating_sub(drawn.elapsed());
            if is_due && pause.is_zero() {
                self.draw()?;
                (drawn, is_due) = (Instant::now(), false);
            }
            let mut keys = Vec::new();
            tokio::select! {
                biased;
                end = ends.next() => return Ok(Leave::Signal(end.as_raw_value())),
                bytes = typed.recv() => match bytes {
                    Some(bytes) => keys = parser.push(&bytes),
                    // The terminal is gone.
                    None => return Ok(Leave::Signal(SignalKind::hangup().as_raw_value())),
                },
                // The Escape key sends the byte that starts a sequence. Only time tells them apart.
                () = tokio::time::sleep(REST_OF_KEY), if parser.waits() => keys.extend(parser.finish()),
                () = tokio::time::sleep(pause), if is_due => continue,
                heard = feed.next() => self.hear(&heard.map_err(|e| failed(&self.name, e))?),
                news = self.requests.next() => self.news(news),
                _ = resized.recv() => {}
                _ = tick.tick() => self.tick(),
            }
            is_due = true;
            for key in keys {
                if let Some(leave) = self.key(key) {
                    return Ok(leave);
                }
            }
        }
    }

    fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Event(event) => {
                if let ChatEvent::Part { part } = event
                    && let Content::Words(words) = part.content()
                {
                    self.editor.remember(&words.text);
                }
                let lines = self.view.event(event);
                self.finished.extend(lines);
            }
            Heard::Lost { .. } => {
                self.lost_since = Some(Instant::now());
                // A gateway that is stopped writes this before it closes its connections.
                let lock = std::fs::read_to_string(self.ctx.settings.home.join("gateway.lock"));
                self.is_stopped = lock.is_ok_and(|word| word.trim() == "stopped");
            }
            Heard::Regained => {
                self.lost_since = None;
                let lines = self.view.regained();
                self.finished.extend(lines);
            }
            Heard::FellBehind => self.view.fell_behind(),
            // Events of a newer client library.
            _ => {}
        }
        self.busy_since = if self.view.is_busy() { self.busy_since.or_else(|| Some(self.began())) } else { None };
    }

    /// When the agent started its reply. This may be before the terminal was opened.
    fn began(&self) -> Instant {
        let so_far = self.view.busy_since().map_or(0, |since| times::now().micros().saturating_sub(since.micros()));
        let so_far = Duration::from_micros(u64::try_from(so_far).unwrap_or(0));
        Instant::now().checked_sub(so_far).unwrap_or_else(Instant::now)
    }

    fn news(&mut self, news: ChatNews) {
        match news {
            ChatNews::Said(text) => {
                let lines = self.view.answered(&text);
                self.finished.extend(lines);
            }
            ChatNews::Unsent { message_id, why } => {
                self.view.unsaid(&message_id);
                self.remark(TextStyle::Bad, &format!("not sent: {why}"));
            }
            ChatNews::Failed(text) => self.output(TextStyle::Bad, &text),
            ChatNews::Status(found) => {
                let ShownConversation { shown, source } = *found;
                let out = plain_out();
                // The conversation is on the screen already, so the head and the last turn are enough.
                let mut lines = show::head(&shown, &out);
                lines.extend((source == ChatSource::Files).then(|| "no gateway runs".to_owned()));
                let waiting = shown.turns.iter().filter(|turn| turn.state == TurnState::Queued).count();
                let mut told = shown;
                told.turns = at_work_and_last(told.turns);
                lines.extend(show::turns(&told, source, times::now(), &out));
                lines.extend(
                    (waiting > 1).then(|| format!("{waiting} messages or notices wait: `outlast chat show {}`", self.name.short())),
                );
                self.output(TextStyle::Quiet, &lines.join("\n"));
            }
            ChatNews::History(found) => {
                let text = history(&found.shown, times::now(), &plain_out());
                self.output(TextStyle::Quiet, &text);
            }
        }
    }

    fn tick(&mut self) {
        let news = self.view.last_part().filter(|part| Some(*part) > self.told_seen);
        let is_due = self.view.is_caught_up() && self.lost_since.is_none();
        if let Some(part) = news.filter(|_| is_due)
            && self.requests.ask(ChatRequest::Seen(part))
        {
            self.told_seen = Some(part);
        }
    }

    fn key(&mut self, key: Key) -> Option<Leave> {
        self.hint = None;
        let interrupted = self.interrupted_at.take();
        if self.editor.is_empty() {
            self.asked_at_first_key = self.view.question().map(str::to_owned);
        }
        match key {
            Key::Ctrl('c') => return self.interrupt(interrupted),
            Key::Ctrl('d') if self.editor.is_empty() => return Some(Leave::Asked),
            // Clear the screen, and draw the unfinished lines again.
            Key::Ctrl('l') => {
                let _gone = write!(std::io::stdout(), "\x1b[H\x1b[2J");
                self.area = LiveArea::default();
            }
            key => match self.editor.key(key) {
                Edited::Changed => {}
                Edited::Refused => terminal::ring(),
                Edited::Choices(names) => self.hint = Some(names.join("  ")),
                Edited::Entered(line) => return self.enter(&line),
            },
        }
        None
    }

    fn interrupt(&mut self, before: Option<Instant>) -> Option<Leave> {
        if !self.editor.is_empty() {
            self.editor.clear();
        } else if self.view.can_stop() {
            self.ask(ChatRequest::Stop);
        } else if before.is_some_and(|at| at.elapsed() < LEAVE_WINDOW) {
            return Some(Leave::Asked);
        } else {
            self.interrupted_at = Some(Instant::now());
            self.hint = Some("press Ctrl-C again to leave, or Ctrl-D".into());
        }
        None
    }

    fn enter(&mut self, line: &str) -> Option<Leave> {
        let asked = self.asked_at_first_key.take();
        match self.answer(line, asked.as_deref()) {
            Answered::With(request) => {
                if let ChatRequest::Allow { permission, .. } = &request {
                    self.view.answers(permission);
                }
                self.ask(request);
                return None;
            }
            Answered::Refused(why) => {
                self.remark(TextStyle::Bad, &why);
                return None;
            }
            Answered::Message => {}
        }
        match commands::read(line) {
            Entered::Nothing => {}
            Entered::Words(words) => self.say(&words),
            Entered::Refused(why) => self.output(TextStyle::Bad, &why),
            Entered::Command(SlashCommand::New) => self.ask(ChatRequest::New),
            Entered::Command(SlashCommand::Resume(number)) => self.ask(ChatRequest::Resume(number)),
            Entered::Command(SlashCommand::Stop) => self.ask(ChatRequest::Stop),
            Entered::Command(SlashCommand::Status) => self.ask(ChatRequest::Status),
            Entered::Command(SlashCommand::History) => self.ask(ChatRequest::History),
            Entered::Command(SlashCommand::Restart) => self.restart(),
            Entered::Command(SlashCommand::Help) => {
                let lines = self.view.output(help());
                self.finished.extend(lines);
            }
            Entered::Command(SlashCommand::Quit) => return Some(Leave::Asked),
        }
        None
    }

    /// The answer that a line gives that was typed while this question was open. A longer line, or one started earlier, is a message.
    fn answer(&self, line: &str, asked: Option<&str>) -> Answered {
        if asked.is_none() || self.view.question() != asked {
            return Answered::Message;
        }
        match self.view.answer(line) {
            Ok(Some((permission, option))) => Answered::With(ChatRequest::Allow { permission: permission.into(), option: option.into() }),
            Ok(None) => Answered::Message,
            Err(why) => Answered::Refused(why),
        }
    }

    fn restart(&mut self) {
        // The configuration may have changed since this terminal was opened.
        let settings = self.ctx.world.settings_in(self.ctx.settings.home.clone());
        match check_configuration(&settings) {
            Ok(()) => self.ask(ChatRequest::Restart),
            Err(failure) => self.remark(TextStyle::Bad, &format!("{}\n  {}", failure.error(), failure.hint())),
        }
    }

    fn say(&mut self, words: &str) {
        let said = send::check(words).and_then(|()| Ok(message_id()?));
        match said {
            Ok(id) => {
                let lines = self.view.said(&id, words);
                self.finished.extend(lines);
                self.ask(ChatRequest::Say { message_id: id, words: words.to_owned() });
            }
            Err(failure) => self.remark(TextStyle::Bad, &format!("not sent: {}", failure.error())),
        }
    }

    fn ask(&mut self, request: ChatRequest) {
        if !self.requests.ask(request) {
            terminal::ring();
            self.remark(TextStyle::Bad, "too much waits for the gateway: this was not done");
        }
    }

    fn remark(&mut self, style: TextStyle, text: &str) {
        let lines = self.view.remark(style, text);
        self.finished.extend(lines);
    }

    fn output(&mut self, style: TextStyle, text: &str) {
        let lines = self.view.output(text.lines().map(|line| StyledLine::of(style, line)));
        self.finished.extend(lines);
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let columns = terminal::size().map_or(80, |(_, columns)| usize::from(columns));
        let mut above = self.view.live();
        above.extend(self.status().map(|status| StyledLine::of(TextStyle::Quiet, &status)));
        let frame = Frame::new(&above, &self.editor, columns);
        let finished = std::mem::take(&mut self.finished);
        Ok(self.area.draw(&mut std::io::stdout(), &finished, &frame, self.paint, columns)?)
    }

    /// Leaves the conversation on the terminal, and removes the prompt.
    fn draw_last(&mut self) -> std::io::Result<()> {
        let columns = terminal::size().map_or(80, |(_, columns)| usize::from(columns));
        let mut out = std::io::stdout();
        self.area.remove(&mut out, columns)?;
        let live = self.view.live();
        let last: Vec<_> = self.finished.drain(..).chain(live).collect();
        out.write_all(lines_above(&last, self.paint, columns).as_bytes())?;
        out.flush()
    }

    /// The status line.
    fn status(&self) -> Option<String> {
        if let Some(hint) = &self.hint {
            return Some(hint.clone());
        }
        if let Some(since) = self.lost_since {
            let is_stopped = self.is_stopped || since.elapsed() > STOPPED_AFTER;
            if !is_stopped {
                return Some("the gateway has ended; connecting again …".into());
            }
            let waiting = match self.view.waiting() {
                0 => String::new(),
                1 => " · 1 message waits".into(),
                n => format!(" · {n} messages wait"),
            };
            return Some(format!("no gateway runs: your next message starts it{waiting}"));
        }
        let waiting = match self.view.waiting() {
            0 => String::new(),
            n => format!(" · {n} waiting"),
        };
        let so_far = times::age(self.busy_since?.elapsed().as_secs());
        let what = if self.view.has_question() { "waits for your answer" } else { "Ctrl-C stops" };
        Some(format!("… {so_far} · {what}{waiting}"))
    }
}

/// The turn that runs or will be resumed, and the last turn.
pub(super) fn at_work_and_last(turns: Vec<TurnInfo>) -> Vec<TurnInfo> {
    let at_work = turns.iter().find(|turn| matches!(turn.state, TurnState::Running | TurnState::Interrupted)).cloned();
    let last = turns.into_iter().next_back().filter(|last| at_work.as_ref().is_none_or(|at_work| at_work.id != last.id));
    at_work.into_iter().chain(last).collect()
}

/// An output for tables in remarks, as wide as the lines of the terminal, so that no row is wrapped.
fn plain_out() -> Out {
    Out::plain(terminal::size().map(|(_, columns)| room(usize::from(columns))))
}

/// The generations of the conversation, and how to go back to one.
pub(super) fn history(shown: &Shown, now: Time, out: &Out) -> String {
    let what = match shown.generations.len() {
        // A gateway that can list them always lists the current one.
        0 => "the gateway that runs cannot list generations: /restart replaces it by the one that is installed",
        1 => "this is the only generation: /new begins another",
        _ => "/resume N goes back to a generation",
    };
    let mut lines = show::generations(shown, now, out);
    lines.push(what.to_owned());
    lines.join("\n")
}

fn help() -> Vec<StyledLine> {
    let commands = commands::ALL.iter().map(|(_, name, what)| format!("{name:<10} {what}"));
    let keys = [
        "Ctrl-C     stop the reply; twice at an empty prompt: leave",
        "Ctrl-D     leave; the agent keeps writing its reply",
        "Alt-Enter  begin another line; so does a backslash at the end",
        "Tab        complete a command",
        "//         a command of the agent's own, such as //compact; a path such as /etc/hosts needs one slash",
        "Up, Down   what was said before",
        "y a n d    when the agent asks: y yes, a always, n no, d never, or a number, + Enter; a longer line is a message",
    ];
    commands.chain(keys.map(str::to_owned)).map(|line| StyledLine::of(TextStyle::Quiet, &line).hanging(HELP_COLUMN)).collect()
}

/// Reads the feed in a task of its own, so that it reconnects to a gateway while the user types.
struct FeedTask {
    heard: mpsc::Receiver<Result<Heard, ClientError>>,
    task: AbortHandle,
}

impl FeedTask {
    fn start(mut feed: ChatFeed) -> Self {
        let (tell, heard) = mpsc::channel(MAX_QUEUED_EVENTS);
        let task = tokio::spawn(async move {
            loop {
                let heard = feed.next().await;
                let is_over = heard.is_err();
                if tell.send(heard).await.is_err() || is_over {
                    return;
                }
            }
        });
        Self { heard, task: task.abort_handle() }
    }

    /// The next event. Can be dropped while it waits.
    async fn next(&mut self) -> Result<Heard, ClientError> {
        match self.heard.recv().await {
            Some(heard) => heard,
            // The task has reported its error before it ended.
            None => std::future::pending().await,
        }
    }
}

impl Drop for FeedTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Has the terminal mark pasted text until it is dropped.
struct Paste;

impl Paste {
    fn enter() -> std::io::Result<Self> {
        let mut out = std::io::stdout();
        out.write_all(b"\x1b[?2004h")?;
        out.flush()?;
        Ok(Self)
    }
}

impl Drop for Paste {
    fn drop(&mut self) {
        let mut out = std::io::stdout();
        // If the terminal is gone, there is nothing to restore.
        let _gone = out.write_all(b"\x1b[?2004l").and_then(|()| out.flush());
    }
}
