//! The kept output of a process, printed: all of it, or the lines that were asked for. Shared by `log`, `run`, `wait` and `kill`.

use super::follow::{Lines, OutputLine, Render, gap};
use super::out::Tone;
use super::{Context, Failure, times};
use jiff::tz::TimeZone;
use outlast_client::{Chunk, Chunks, Client, Event, Fate, From, LogPage, Page, Time};
use outlast_text::{RESET, Redactor, strip};
use regex::Regex;
use serde::Serialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

/// Which lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// All that are kept.
    All,
    /// The last ones.
    Last(u64),
    /// As many of the last ones as fit on the terminal. A remark says how many are left out.
    Screenful(u64),
    /// From a line on, at most this number of lines.
    FromLine(u64, Option<u64>),
    /// From a byte on, at most this number of lines.
    FromByte(u64, Option<u64>),
    /// What came at this time or later, or the last lines of that.
    Since(Time, Option<u64>),
}

impl Range {
    /// What is printed unless flags say otherwise: everything to a file or a pipe, a screenful to each of `shares` processes on a terminal.
    pub(crate) fn usual(ctx: &Context, shares: usize) -> Self {
        match ctx.out.height {
            // The prompt, the remark and the end of the process take a line each.
            Some(height) => Self::Screenful((height.saturating_sub(3) / shares.max(1)).max(1) as u64),
            None => Self::All,
        }
    }

    /// Whether lines were asked for by number.
    pub(crate) fn is_of_lines(self) -> bool {
        match self {
            Self::Last(_) | Self::FromLine(..) | Self::FromByte(_, Some(_)) | Self::Since(_, Some(_)) => true,
            Self::All | Self::Screenful(_) | Self::FromByte(_, None) | Self::Since(_, None) => false,
        }
    }

    /// How many lines it has at most.
    fn limit(self) -> Option<u64> {
        match self {
            Self::FromLine(_, limit) | Self::FromByte(_, limit) => limit,
            // More may come while they are read.
            Self::All | Self::Last(_) | Self::Screenful(_) | Self::Since(..) => None,
        }
    }
}

/// Where a range begins.
pub(crate) struct Begin {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) from_byte: u64,
    /// Missing bytes before the first line.
    gaps: Vec<Event>,
    /// The remark about lines that are left out.
    left_out: Option<String>,
    total_lines: u64,
    /// The rest of the line in which a range by bytes begins. The engine has seen how that line began, and so what is secret in it.
    rest_of_line: Vec<OutputLine>,
    /// Whether nothing of the output is in the range.
    is_empty: bool,
    /// The last byte of the output, if nothing came since the time that was asked for.
    nothing_since: Option<u64>,
    /// How the process ended, if the range begins at the end of its output.
    end: Option<Fate>,
}

impl Begin {
    pub(crate) async fn find(client: &Client, id: &str, range: Range) -> Result<Self, Failure> {
        let one = |page: Page| client.log(id, page.limit(1));
        let mut nothing_since = None;
        let (page, first) = match range {
            Range::FromByte(byte, _) => (one(Page::from_byte(byte)).await?, None),
            Range::FromLine(line, _) => (one(Page::from_line(line)).await?, None),
            Range::All => (Self::head(client, id).await?, None),
            Range::Since(time, last) => {
                let mut chunks = client.read(id, From::Since(time));
                let first = match chunks.next().await? {
                    Some(Chunk::Bytes { at, .. }) => Some(at),
                    Some(Chunk::Gap { from, .. }) => Some(from),
                    None => {
                        nothing_since = chunks.next_byte();
                        nothing_since
                    }
                };
                // The line in which it begins is shown whole.
                let within = one(Page::from_byte(first.unwrap_or(0))).await?;
                let first_of_last = last.and_then(|last| within.total_lines.checked_sub(last)).unwrap_or(0);
                (one(Page::from_line(within.first_line.max(first_of_last))).await?, None)
            }
            Range::Last(lines) | Range::Screenful(lines) => {
                let head = Self::head(client, id).await?;
                match head.total_lines.checked_sub(lines) {
                    None | Some(0) => (head, None),
                    Some(first) => (one(Page::from_line(first)).await?, Some(first)),
                }
            }
        };
        let left_out = match (range, first) {
            (Range::Screenful(_), Some(_)) => Some(format!(
                "[the first {} of {} lines are left out; `outlast log {} --all` shows all, -n N the last N]",
                page.first_line, page.total_lines, page.session_id
            )),
            _ => None,
        };
        let mut begin = Self {
            end: ending(&page),
            id: page.session_id.to_string(),
            command: page.command.clone(),
            from_byte: page.from_byte,
            gaps: if page.from_byte > 0 { page.gaps.clone() } else { Vec::new() },
            left_out,
            total_lines: page.total_lines,
            rest_of_line: Vec::new(),
            is_empty: match range {
                Range::FromLine(line, _) => line > page.total_lines,
                Range::FromByte(byte, _) => byte > page.next_byte,
                // The next output may continue the last line, which is then shown whole.
                Range::Since(..) => nothing_since.is_some(),
                Range::All | Range::Last(_) | Range::Screenful(_) => false,
            },
            nothing_since,
        };
        if let Range::FromByte(..) = range {
            begin.take_rest(client, page).await?;
        }
        Ok(begin)
    }

    /// The byte at which a page begins that has the output of this range.
    pub(crate) fn page_from(&self) -> u64 {
        self.nothing_since.unwrap_or(self.from_byte)
    }

    /// Takes the line of this page, and where it is too long for one page, the rest of it.
    async fn take_rest(&mut self, client: &Client, mut page: LogPage) -> Result<(), Failure> {
        loop {
            let is_ended = page.output_cut.is_none();
            self.from_byte = page.next_byte;
            if page.next_byte > page.from_byte {
                self.rest_of_line.push(OutputLine { text: page.output, from_byte: page.from_byte, next_byte: page.next_byte, is_ended });
            }
            if is_ended || page.at_end {
                return Ok(());
            }
            page = client.log(&self.id, Page::from_byte(page.next_byte).limit(1)).await?;
        }
    }

    /// The shortest page, which says how many lines there are.
    async fn head(client: &Client, id: &str) -> Result<LogPage, Failure> {
        let mut head = client.log(id, Page::from_line(0).limit(1)).await?;
        // Also if the first line is missing.
        head.from_byte = 0;
        Ok(head)
    }

    /// Reports bytes that are missing before the first line.
    pub(crate) fn tell_missing(&self, ctx: &Context) {
        for missing in &self.gaps {
            if let Event::Gap { from, to, why } = missing {
                ctx.out.remark(&gap(*from, *to, why));
            }
        }
    }

    /// Reports which lines are left out.
    pub(crate) fn tell_left_out(&self, ctx: &Context) {
        if let Some(left_out) = &self.left_out {
            ctx.out.remark(left_out);
        }
    }
}

/// How lines are printed.
#[derive(Default)]
pub(crate) struct Form<'a> {
    /// Print only lines that match.
    pub(crate) grep: Option<&'a Regex>,
    /// The text before each line.
    pub(crate) label: Option<(Tone, &'a str)>,
    /// Print the time of each line before it, in this time zone.
    pub(crate) timestamps: Option<TimeZone>,
}

/// Prints what is kept. If that reaches the end of a process that is over, its notice counts as read, and how it ended is returned.
pub(crate) async fn print(ctx: &Context, client: &Client, id: &str, range: Range, form: Form<'_>) -> Result<Option<Fate>, Failure> {
    let begin = Begin::find(client, id, range).await?;
    begin.tell_missing(ctx);
    if begin.is_empty {
        tell_nothing(ctx, range, begin.total_lines, false);
        return Ok(begin.end);
    }
    let mut end_shown = None;
    let mut printer = Printer::new(ctx, &begin, range.limit(), form);
    printer.begin(ctx, client, &begin).await?;
    let mut at = begin.from_byte;
    while let Some(end) = printer.print(ctx, printer.chunks(ctx, client.read(&begin.id, From::Byte(at)))).await? {
        let last = client.log(&begin.id, Page::from_byte(end).limit(1)).await?;
        if last.next_byte <= end {
            end_shown = ending(&last);
            break;
        }
        // More came meanwhile.
        at = end;
    }
    printer.finish(ctx).await?;
    if !printer.has_written {
        tell_nothing(ctx, range, begin.total_lines, printer.form.grep.is_some());
    }
    begin.tell_left_out(ctx);
    Ok(end_shown)
}

/// How the process ended, if this page has the end of its output.
pub(crate) fn ending(page: &LogPage) -> Option<Fate> {
    (page.at_end && page.fate.completion_reason.is_some()).then(|| page.fate.clone())
}

/// Tells a user why no line was printed, if the flags are the reason.
fn tell_nothing(ctx: &Context, range: Range, total_lines: u64, is_searched: bool) {
    match (range, total_lines) {
        _ if is_searched => ctx.out.tip("no line matches"),
        (Range::FromLine(..), 1) => ctx.out.tip("there is 1 line"),
        (Range::FromLine(..), total) => ctx.out.tip(&format!("there are {total} lines")),
        _ => {}
    }
}

/// The output with secrets masked, unless the settings say otherwise.
pub(crate) fn masked(ctx: &Context, chunks: Chunks) -> Chunks {
    if ctx.settings.redact { chunks.masked() } else { chunks }
}

/// Writes lines to standard output.
pub(crate) struct Printer<'a> {
    out: tokio::io::BufWriter<tokio::io::Stdout>,
    lines: Lines,
    now: Time,
    /// How many lines may still be printed.
    left: Option<u64>,
    /// Whether there were more.
    is_cut: bool,
    form: Form<'a>,
    label: String,
    /// When bytes came, for lines that are not printed yet.
    times: Vec<(u64, Time)>,
    /// Whether a line without a known time was printed, and whether a remark has explained it.
    untimed: Untimed,
    has_written: bool,
    /// Whether the last output was an unfinished line.
    in_line: bool,
    /// After a gap: how many bytes of the line without its beginning were left out. Secrets in such a line could not be recognised.
    torn: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Untimed {
    NoLine,
    Printed,
    Told,
}

/// In place of a time that was not recorded.
const UNKNOWN_TIME: &str = "--:--:--";
/// How much is written at once.
const BUFFER: usize = 64 << 10;

impl<'a> Printer<'a> {
    pub(crate) fn new(ctx: &Context, begin: &Begin, left: Option<u64>, form: Form<'a>) -> Self {
        let render = Render::whole_lines(&begin.command, Redactor::new(ctx.settings.redact), ctx.out.sgr());
        let label = form.label.map(|(tone, label)| ctx.out.paint(tone, label)).unwrap_or_default();
        Self {
            out: tokio::io::BufWriter::with_capacity(BUFFER, tokio::io::stdout()),
            lines: Lines::new(render, begin.from_byte),
            now: times::now(),
            left,
            is_cut: false,
            form,
            label,
            times: Vec::new(),
            untimed: Untimed::NoLine,
            has_written: false,
            in_line: false,
            torn: None,
        }
    }

    /// Prints what comes before the first piece.
    pub(crate) async fn begin(&mut self, ctx: &Context, client: &Client, begin: &Begin) -> Result<(), Failure> {
        if let Some(first) = begin.rest_of_line.first().filter(|_| self.form.timestamps.is_some()) {
            let mut chunks = self.chunks(ctx, client.read(&begin.id, From::Byte(first.from_byte)));
            chunks.next().await?;
            self.learn(chunks.take_times());
        }
        self.write(&begin.rest_of_line).await
    }

    /// Prints the lines of these pieces. Returns the byte after them, unless there were more lines than wanted.
    pub(crate) async fn print(&mut self, ctx: &Context, mut chunks: Chunks) -> Result<Option<u64>, Failure> {
        while let Some(chunk) = chunks.next().await? {
            self.learn(chunks.take_times());
            if !self.chunk(ctx, chunk).await? {
                return Ok(None);
            }
        }
        let has_more = self.left == Some(0) && (self.is_cut || self.lines.next_byte < self.lines.seen);
        Ok((!has_more).then_some(self.lines.seen))
    }

    /// These pieces masked and with their times, as the settings and flags ask.
    pub(crate) fn chunks(&self, ctx: &Context, chunks: Chunks) -> Chunks {
        let chunks = masked(ctx, chunks);
        if self.form.timestamps.is_some() { chunks.timed() } else { chunks }
    }

    /// Takes the times of the next piece.
    pub(crate) fn learn(&mut self, times: Vec<(u64, Time)>) {
        self.times.extend(times);
    }

    /// The time at which a byte came. Lines come in order, so earlier times are dropped.
    fn time_of(&mut self, byte: u64) -> Option<Time> {
        let known = self.times.partition_point(|(from, _)| *from <= byte).checked_sub(1)?;
        self.times.drain(..known);
        self.times.first().map(|(_, at)| *at)
    }

    /// Prints the lines of one piece. Whether more lines are wanted.
    pub(crate) async fn chunk(&mut self, ctx: &Context, chunk: Chunk) -> Result<bool, Failure> {
        if self.left == Some(0) {
            return Ok(false);
        }
        match chunk {
            Chunk::Bytes { at, bytes } => {
                let (at, bytes) = self.after_torn(ctx, at, &bytes);
                let lines = self.lines.push(at, bytes);
                self.write(&lines).await?;
                self.tell_untimed(ctx).await?;
            }
            Chunk::Gap { from, to, why } => {
                let rest = self.lines.finish(to);
                self.write(&rest).await?;
                self.end_line().await?;
                self.out.flush().await?;
                ctx.out.remark(&gap(from, to, &why));
                self.torn = Some(0);
            }
        }
        Ok(true)
    }

    /// The bytes after the first line that follows a gap. That line lacks its beginning and is left out.
    fn after_torn<'b>(&mut self, ctx: &Context, at: u64, bytes: &'b [u8]) -> (u64, &'b [u8]) {
        let Some(dropped) = self.torn else { return (at, bytes) };
        let newline = bytes.iter().position(|b| *b == b'\n').map(|n| n + 1);
        let end = newline.unwrap_or(bytes.len());
        let (dropped, from) = (dropped + end as u64, at + end as u64);
        self.torn = newline.is_none().then_some(dropped);
        if newline.is_some() {
            tell_torn(ctx, dropped);
        }
        self.lines.skip_to(from);
        (from, &bytes[end..])
    }

    /// Prints what is left.
    pub(crate) async fn finish(&mut self, ctx: &Context) -> Result<(), Failure> {
        if let Some(dropped) = self.torn.take().filter(|dropped| *dropped > 0) {
            tell_torn(ctx, dropped);
        }
        if self.left != Some(0) {
            let rest = self.lines.finish(self.lines.seen);
            self.write(&rest).await?;
            self.end_line().await?;
        }
        self.tell_untimed(ctx).await?;
        Ok(self.out.flush().await?)
    }

    /// Explains the first line that has no time.
    async fn tell_untimed(&mut self, ctx: &Context) -> Result<(), Failure> {
        if self.untimed == Untimed::Printed {
            self.untimed = Untimed::Told;
            self.out.flush().await?;
            ctx.out.remark(&format!(
                "[{UNKNOWN_TIME}: not known; the process was started by an earlier version, its disk was full, or the output is too old]"
            ));
        }
        Ok(())
    }

    /// Writes what was printed so far.
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush().await?)
    }

    async fn write(&mut self, lines: &[OutputLine]) -> Result<(), Failure> {
        for line in lines {
            if self.left == Some(0) {
                self.is_cut = true;
                return Ok(());
            }
            if line.is_ended {
                self.left = self.left.map(|left| left - 1);
            }
            if self.form.grep.is_some_and(|regex| !regex.is_match(&strip(&line.text))) {
                continue;
            }
            let mut text = String::with_capacity(self.label.len() + line.text.len() + 8);
            if !self.in_line && !self.label.is_empty() {
                text += &self.label;
                text += if line.text.is_empty() || self.form.timestamps.is_some() { "" } else { " " };
            }
            if !self.in_line
                && let Some(zone) = self.form.timestamps.clone()
            {
                let time = self.time_of(line.from_byte).map(|at| times::clock(at, self.now, &zone));
                text += if self.label.is_empty() { "" } else { " " };
                text += time.as_deref().unwrap_or(UNKNOWN_TIME);
                if time.is_none() && self.untimed == Untimed::NoLine {
                    self.untimed = Untimed::Printed;
                }
                text += if line.text.is_empty() { "" } else { " " };
            }
            text += &line.text;
            if (self.form.grep.is_some() || self.form.label.is_some()) && line.text.contains('\x1b') {
                // The line that would end the colour may be another process's, or left out.
                text += RESET;
            }
            if line.is_ended {
                text.push('\n');
            }
            (self.in_line, self.has_written) = (!line.is_ended, true);
            self.out.write_all(text.as_bytes()).await?;
        }
        Ok(())
    }

    async fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_line) {
            self.out.write_all(b"\n").await?;
        }
        Ok(())
    }
}

fn tell_torn(ctx: &Context, bytes: u64) {
    ctx.out.remark(&format!("[{bytes} bytes after them, the rest of a line, are left out; --raw shows them]"));
}

/// The answer of a wait or a stop for programs, with as much of the end of the output as a page of `log` has. `from_byte` is where that begins, if it is
/// not the whole output.
pub(crate) async fn in_json(client: &Client, id: &str, answer: &impl Serialize) -> Value {
    let mut answer = super::named::with_ids(answer);
    if answer.get("output_cut").is_none() {
        return answer;
    }
    // The wait or the stop settles the notice. This read does not.
    let reader = client.with_owner(outlast_client::Owner::default());
    // If the log cannot be read, the answer has the end that came with it.
    let Ok(page) = reader.log(id, Page::last(u64::MAX)).await else { return answer };
    let newline = if page.partial || page.output.is_empty() { "" } else { "\n" };
    answer["output"] = format!("{}{newline}", page.output).into();
    // Bytes that were not read count as characters.
    match page.output_cut.unwrap_or(0).max(page.from_byte) {
        0 => _ = answer.as_object_mut().and_then(|fields| fields.remove("output_cut")),
        cut => (answer["output_cut"], answer["from_byte"]) = (cut.into(), page.from_byte.into()),
    }
    answer
}

/// Prints the output of a process that is waited for or was stopped. `end` is the end of it, and `is_whole` says whether that is all.
pub(crate) async fn print_end(ctx: &Context, client: &Client, id: &str, end: &str, is_whole: bool) -> Result<(), Failure> {
    if is_whole && ctx.out.height.is_none() {
        return ctx.out.text(end);
    }
    // The wait or the stop settles the notice. This read does not.
    let client = client.with_owner(outlast_client::Owner::default());
    // The caller says how it ended.
    print(ctx, &client, id, Range::usual(ctx, 1), Form::default()).await.map(drop)
}
