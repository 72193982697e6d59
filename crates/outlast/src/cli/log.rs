//! `outlast log`

mod search;
mod several;

pub(crate) use several::Several;

use super::follow::{FollowOutput, OutputScreen, Stopped, gap};
use super::label::{NamedOrLabelled, Selection};
use super::out::Tone;
use super::output::{self, Begin, Form, Printer, Range};
use super::times::{self, GivenTime};
use super::{Context, Failure, named, some_lines};
use clap::Args;
use outlast_client::{Client, From, Page, Time};
use outlast_text::strip;
use regex::Regex;
use serde_json::Value;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Follow the output of a process; the same as `log --follow`
#[derive(Debug, Args)]
#[command(long_about = None)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub(crate) log: Log,
}

/// Show the output of a process
///
/// Prints everything that is kept if output goes to a pipe or a file, and the last lines that fit if it goes to a terminal. Missing bytes are reported on
/// standard error. Secrets of known forms are masked and escape sequences removed; a terminal shows the command's colours. --raw prints the bytes as they
/// were written.
/// Lines are numbered from 0.
///
/// With --json the answer is a page: the last 200 lines, or those chosen with --offset and --limit. `next_line` and `next_byte` say where to continue.
/// --grep searches everything that is kept unless a range is chosen; `matched` is the number of lines that match.
///
/// If several processes are named, each line begins with the name of its process. --follow shows new lines until all have ended, also across a restart of
/// the engine. With --json each line is then an object: {"event": "line", "session_id", "name", "text", "next_byte"}; other events are "gap", "end",
/// "error" and, after Ctrl-C, "left".
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(flatten)]
    which: NamedOrLabelled,
    /// The ids of the processes, once they were looked up.
    #[arg(skip)]
    ids: Vec<String>,
    /// The first of them in hints, as the user named it.
    #[arg(skip)]
    typed: String,
    /// Show the last N lines; with --since, the last N of those. --grep searches among them
    #[arg(long, short = 'n', alias = "tail", value_name = "N", conflicts_with_all = ["offset", "limit", "from_byte", "all"], value_parser = some_lines, allow_negative_numbers = true)]
    lines: Option<u64>,
    /// Show everything that is kept, also on a terminal
    #[arg(long, conflicts_with_all = ["offset", "limit", "from_byte", "json"])]
    all: bool,
    /// Show only lines that match this regular expression, of everything that is kept or of the range that the other flags choose
    #[arg(long, value_name = "REGEX", conflicts_with = "raw", allow_hyphen_values = true, value_parser = regex)]
    grep: Option<Regex>,
    /// Show output since this time: a duration such as 30s, 10m or 1h30m, or a time such as 14:00; precise to the second
    #[arg(long, value_name = "DURATION|TIME", value_parser = since, conflicts_with_all = ["offset", "limit", "from_byte", "all", "raw"])]
    since: Option<Since>,
    /// Begin each line with the time of its output, precise to the second
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    timestamps: bool,
    /// The first line to show
    #[arg(long, value_name = "LINE", conflicts_with = "from_byte", value_parser = position, allow_negative_numbers = true)]
    offset: Option<u64>,
    /// How many lines to show; without --offset the last ones
    #[arg(long, value_name = "N", value_parser = some_lines, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Show new output as it comes, until the output is closed; Ctrl-C stops watching
    #[arg(long, short, overrides_with = "follow")]
    follow: bool,
    /// Print the bytes as they were written
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// The first byte to show, instead of a line
    #[arg(long, value_name = "BYTE", value_parser = position, allow_negative_numbers = true)]
    from_byte: Option<u64>,
    /// Begin each line with the name of the process, also for a single process
    #[arg(long)]
    prefix: bool,
}

/// Parses the number of a line or a byte.
fn position(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "must be a whole number, 0 or more; -n N shows the last lines".to_owned())
}

/// Parses a regular expression. The error is on one line.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| match e.to_string().rsplit_once("error: ") {
        Some((_, why)) => format!("not a regular expression: {}", why.trim()),
        None => e.to_string(),
    })
}

/// From when on.
#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(Duration),
    Time(GivenTime),
}

fn since(text: &str) -> Result<Since, String> {
    match times::duration(text) {
        Ok(ago) => Ok(Since::Ago(ago)),
        Err(_) => text.parse().map(Since::Time).map_err(|_| format!("{text:?} is neither a duration such as 10m nor a time such as 14:00")),
    }
}

impl Since {
    fn instant(self, ctx: &Context) -> Time {
        let now = times::now();
        match self {
            Self::Ago(ago) => Time::from_micros(now.micros().saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX))),
            // A time out of the calendar is later than everything that was printed.
            Self::Time(time) => time.last(now, &ctx.world.zone()).unwrap_or(Time::from_micros(i64::MAX)),
        }
    }
}

impl Log {
    /// The same with --follow: `outlast tail`.
    pub(crate) fn followed(self) -> Self {
        Self { follow: true, ..self }
    }

    pub(crate) async fn perform(mut self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        // All are looked up before anything is shown: a name that is wrong is told at once.
        let Selection { all, is_one } = self.which.find(ctx, &client).await?;
        self.typed = all.first().map(|one| self.which.typed(one)).unwrap_or_default();
        self.ids = all.into_iter().map(|one| one.id).collect();
        if self.prefix || !is_one {
            return several::perform(self, ctx, &client).await;
        }
        match (self.follow, self.raw) {
            (true, _) => self.follow(ctx, &client).await,
            (false, true) => self.bytes(ctx, &client).await,
            (false, false) => self.page(ctx, &client).await,
        }
    }

    /// The one that is asked for.
    fn id(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    fn wanted(&self) -> Page {
        let mut page = Page::default();
        (page.offset, page.limit, page.from_byte) = (self.offset, self.limit.or(self.lines), self.from_byte);
        page
    }

    /// How lines are shown.
    fn form<'a>(&'a self, ctx: &Context, label: Option<(Tone, &'a str)>) -> Form<'a> {
        Form { grep: self.grep.as_ref(), label, timestamps: self.timestamps.then(|| ctx.world.zone()) }
    }

    /// The lines to show; without flags those that fit on the terminal, shared by `shares` processes.
    fn range(&self, ctx: &Context, shares: usize) -> Range {
        if let Some(since) = self.since {
            return Range::Since(since.instant(ctx), self.lines);
        }
        match (self.offset, self.from_byte, self.limit.or(self.lines)) {
            (Some(line), _, limit) => Range::FromLine(line, limit),
            (_, Some(byte), limit) => Range::FromByte(byte, limit),
            (None, None, Some(lines)) => Range::Last(lines),
            // Of lines that are searched for it is not known how many there are.
            (None, None, None) if self.all || self.grep.is_some() => Range::All,
            (None, None, None) => Range::usual(ctx, shares),
        }
    }

    async fn page(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        if ctx.out.json {
            ctx.out.object(&self.json_page(ctx, client, self.id()).await?)?;
            return Ok(0);
        }
        output::print(ctx, client, self.id(), self.range(ctx, 1), self.form(ctx, None)).await?;
        Ok(0)
    }

    /// The page of a process that is asked for, for programs. Of its lines those that are searched for, if any are.
    async fn json_page(&self, ctx: &Context, client: &Client, id: &str) -> Result<Value, Failure> {
        let mut wanted = self.wanted();
        if self.since.is_some() {
            wanted.from_byte = Some(Begin::find(client, id, self.range(ctx, 1)).await?.page_from());
        }
        let (mut page, matched) = match &self.grep {
            None => (client.log(id, wanted).await?, None),
            Some(grep) if wanted.limit.is_none() => {
                let from_start = wanted.offset.is_none() && wanted.from_byte.is_none();
                let wanted = if from_start { Page::from_line(0) } else { wanted };
                let (page, matched) = search::page(client, id, wanted, grep).await?;
                (page, Some(matched))
            }
            Some(grep) => {
                let mut page = client.log(id, wanted).await?;
                let lines: Vec<&str> = page.output.lines().filter(|line| grep.is_match(&strip(line))).collect();
                let matched = lines.len() as u64;
                page.output = lines.join("\n");
                (page, Some(matched))
            }
        };
        if let Some(lines) = page.lines {
            page.showing = super::out::counted(lines, "line");
        }
        let mut answer = named::with_ids(&page);
        if let Some(matched) = matched {
            answer["matched"] = matched.into();
        }
        Ok(answer)
    }

    /// The kept bytes: of the lines or from the byte asked for, else all.
    async fn bytes(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let (from, end) = self.raw_range(ctx, client).await?;
        let mut screen = OutputScreen::new(ctx, true, "");
        let mut chunks = client.read(self.id(), From::Byte(from));
        while let Some(chunk) = chunks.next().await? {
            match chunk {
                outlast_client::Chunk::Gap { from, to, why } => ctx.out.remark(&gap(from, to, &why)),
                outlast_client::Chunk::Bytes { at, bytes } => {
                    let room = end.map_or(bytes.len(), |end| end.saturating_sub(at).min(bytes.len() as u64) as usize);
                    screen.bytes(&bytes[..room]).await?;
                }
            }
            if end.is_some_and(|end| chunks.next_byte().is_some_and(|at| at >= end)) {
                break;
            }
        }
        if self.range(ctx, 1).is_of_lines()
            && let Some(at) = chunks.next_byte()
        {
            // If they reach the end of a process that is over, its notice counts as read.
            client.log(self.id(), Page::from_byte(end.map_or(at, |end| at.min(end))).limit(1)).await?;
        }
        Ok(0)
    }

    /// Where the bytes begin, and where they end unless that is the end of the log. A page may have fewer lines than asked for, so it only tells where lines are.
    async fn raw_range(&self, ctx: &Context, client: &Client) -> Result<(u64, Option<u64>), Failure> {
        // What is looked up here is not shown, and settles no notice.
        let client = client.with_owner(outlast_client::Owner::default());
        let (range, id) = (self.range(ctx, 1), self.id());
        match range {
            Range::Last(_) => Ok((Begin::find(&client, id, range).await?.from_byte, None)),
            Range::FromByte(byte, None) => Ok((byte, None)),
            Range::FromLine(_, limit) | Range::FromByte(_, limit) => {
                let page = client.log(id, self.wanted().limit(1)).await?;
                let Some(limit) = limit else { return Ok((page.from_byte, None)) };
                let after = client.log(id, Page::from_line(page.first_line.saturating_add(limit)).limit(1)).await?;
                Ok((page.from_byte, Some(after.from_byte)))
            }
            // A terminal gets all of it, too.
            Range::All | Range::Screenful(_) | Range::Since(..) => Ok((0, None)),
        }
    }

    async fn follow(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let range = self.range(ctx, 1);
        let begin = Begin::find(client, self.id(), range).await?;
        begin.tell_missing(ctx);
        begin.tell_left_out(ctx);
        if (self.grep.is_some() || self.timestamps) && !ctx.out.json {
            return self.follow_lines(ctx, client, &begin).await;
        }
        let from = match (range, self.raw, self.limit.or(self.lines)) {
            (Range::FromByte(byte, _), ..) => byte,
            (Range::Screenful(_), true, None) => 0,
            _ => begin.from_byte,
        };
        let id = begin.id;
        let follow = FollowOutput {
            client,
            id: &id,
            typed: &self.typed,
            command: &begin.command,
            from: From::Byte(from),
            raw: self.raw,
            to_exit: false,
        };
        let stopped = follow.show(ctx).await?;
        let now = client.poll(&id).await?;
        if ctx.out.json {
            let mut answer = serde_json::to_value(&now).unwrap_or_default();
            super::answer::merge(&mut answer, stopped.fields());
            ctx.out.object(&named::with_ids(&answer))?;
        } else if let Stopped::Ended { .. } = stopped
            && now.fate.completion_reason.is_some()
        {
            ctx.out.tip(&format!("{} {}", named::shown(&id, now.name.as_deref()), super::ending::sentence(&now.fate)));
        }
        Ok(0)
    }

    /// Shows the lines that are searched for, as they come.
    async fn follow_lines(&self, ctx: &Context, client: &Client, begin: &Begin) -> Result<i32, Failure> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut printer = Printer::new(ctx, begin, None, self.form(ctx, None));
        let mut chunks = printer.chunks(ctx, client.follow(&begin.id, From::Byte(begin.from_byte)));
        let shown = async {
            printer.begin(ctx, client, begin).await?;
            while let Some(chunk) = chunks.next().await? {
                printer.learn(chunks.take_times());
                printer.chunk(ctx, chunk).await?;
                printer.flush().await?;
            }
            printer.finish(ctx).await
        };
        tokio::select! {
            _ = interrupts.recv() => ctx.out.remark(&format!("\n{0} keeps running; come back with: outlast log {0} --follow", self.typed)),
            shown = shown => shown?,
        }
        Ok(0)
    }
}
