//! Several logs at once: whole lines, each with the name of its process before it.

use super::super::follow::{Lines, OutputLine, Render, gap};
use super::super::out::{Tone, tame};
use super::super::output::{self, Begin};
use super::super::table::cut;
use super::super::{Context, Failure, answer, ending, named};
use super::Log;
use outlast_client::{Chunk, Chunks, Client, ClientError, Fate, From, ProcessInfo};
use outlast_text::{RESET, Redactor, strip};
use regex::Regex;
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use unicode_width::UnicodeWidthStr as _;

/// How many chunks of output may wait to be shown, of all processes together.
const MAX_QUEUED_CHUNKS: usize = 16;
/// The most columns that a name takes.
const MAX_NAME_COLUMNS: usize = 24;

/// One of the processes, and its lines so far.
struct FollowedProcess {
    id: String,
    name: Option<String>,
    /// Its name on the screen, as wide as that of the others.
    label: String,
    tone: Tone,
    lines: Lines,
    open: bool,
    /// The exit code that stands for its ending, once that is known.
    code: Option<i32>,
}

/// What the reader of a process delivers.
enum Received {
    Chunk(Chunk),
    End,
    Failed(ClientError),
}

/// Shows the existing output, and with `--follow` new output until every process has ended.
pub(super) async fn perform(log: Log, ctx: &Context, client: &Client) -> Result<i32, Failure> {
    if log.raw || log.from_byte.is_some() {
        let flag = if log.raw { "--raw" } else { "--from-byte" };
        return Err(Failure::refused(format!("{flag} is about the bytes of one process"), "name one process, without --prefix"));
    }
    if log.timestamps && log.follow {
        return Err(Failure::refused(
            "--timestamps and --follow show one process at a time",
            "name one process, without --prefix, or leave out one of them",
        ));
    }
    let mut polled: Vec<ProcessInfo> = Vec::new();
    for one in &log.all {
        polled.push(client.poll(&one.id).await?);
    }
    if !log.follow {
        return show(&log, ctx, client, &polled).await;
    }
    let mut begins = Vec::new();
    for process in &polled {
        let begin = Begin::find(client, &process.session_id.to_string(), log.range(ctx, polled.len())).await?;
        begin.tell_missing(ctx);
        begin.tell_left_out(ctx);
        begins.push(begin);
    }
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut several = Several::new(ctx, client, &polled, begins.iter().map(|begin| begin.from_byte));
    several.grep = log.grep.as_ref();
    // A slow reader of our output must not delay Ctrl-C.
    tokio::select! {
        biased;
        _ = interrupts.recv() => {}
        is_whole = several.show() => return is_whole.map(|is_whole| i32::from(!is_whole)),
    }
    several.leave().map(|()| 0)
}

/// The names before the lines, all of the same width.
fn labels(polled: &[ProcessInfo]) -> Vec<String> {
    let named = |name: &Option<String>| polled.iter().filter(|p| p.name == *name).count() == 1;
    let label = |p: &ProcessInfo| match &p.name {
        Some(name) if named(&p.name) => cut(&tame(name), MAX_NAME_COLUMNS),
        _ => p.session_id.to_string(),
    };
    let width = polled.iter().map(|p| label(p).width()).max().unwrap_or(0);
    polled.iter().map(label).map(|label| format!("{label}{} |", " ".repeat(width - label.width()))).collect()
}

/// Shows the existing output.
async fn show(log: &Log, ctx: &Context, client: &Client, polled: &[ProcessInfo]) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut pages = Vec::new();
        for process in polled {
            pages.push(log.json_page(ctx, client, &process.session_id.to_string()).await?);
        }
        ctx.out.object(&named::with_ids(&json!({"processes": pages})))?;
        return Ok(0);
    }
    for (n, (process, label)) in polled.iter().zip(labels(polled)).enumerate() {
        let form = log.form(ctx, Some((Tone::Of(n), &label)));
        let end = output::print(ctx, client, &process.session_id.to_string(), log.range(ctx, polled.len()), form).await?;
        if let Some(end) = end {
            ctx.out.tip(&format!("{} {}", ctx.out.paint_remark(Tone::Of(n), &label), ending::sentence(&end)));
        }
    }
    Ok(0)
}

/// Several processes that are followed at once.
pub(crate) struct Several<'a> {
    ctx: &'a Context,
    client: &'a Client,
    /// If set, only matching lines are shown.
    grep: Option<&'a Regex>,
    /// Follow until the commands have ended, not only until their output has.
    to_exit: bool,
    /// Whether the user stopped them with Ctrl-C.
    is_interrupted: Rc<Cell<bool>>,
    sources: Vec<FollowedProcess>,
}

impl<'a> Several<'a> {
    /// These processes, each from its byte on.
    fn new(ctx: &'a Context, client: &'a Client, processes: &[ProcessInfo], from: impl IntoIterator<Item = u64>) -> Self {
        let source = |(n, ((p, from), label)): (usize, ((&ProcessInfo, u64), String))| FollowedProcess {
            id: p.session_id.to_string(),
            name: p.name.clone(),
            label,
            tone: Tone::Of(n),
            lines: Lines::new(Render::whole_lines(&p.command, Redactor::new(ctx.settings.redact), ctx.out.sgr()), from),
            open: true,
            code: None,
        };
        let sources = processes.iter().zip(from).zip(labels(processes)).enumerate().map(source).collect();
        Self { ctx, client, grep: None, to_exit: false, is_interrupted: Rc::default(), sources }
    }

    /// These processes, from their start until their commands have ended.
    pub(crate) fn whole(ctx: &'a Context, client: &'a Client, processes: &[ProcessInfo]) -> Self {
        Self { to_exit: true, ..Self::new(ctx, client, processes, std::iter::repeat(0)) }
    }

    /// A flag to set when the user stops them with Ctrl-C.
    pub(crate) fn interrupted(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_interrupted)
    }

    /// Shows output until all have ended. Returns whether everything could be read.
    pub(crate) async fn show(&mut self) -> Result<bool, Failure> {
        let (tell, mut heard) = mpsc::channel(MAX_QUEUED_CHUNKS);
        // Readers that still run are stopped when this is dropped.
        let mut readers = JoinSet::new();
        for (n, source) in self.sources.iter().enumerate() {
            let from = From::Byte(source.lines.next_byte);
            let chunks = match self.to_exit {
                true => self.client.follow_to_exit(&source.id, from),
                false => self.client.follow(&source.id, from),
            };
            readers.spawn(read(chunks.masked(), n, tell.clone()));
        }
        drop(tell);
        let mut is_whole = true;
        while let Some((n, came)) = heard.recv().await {
            let sentence = if self.is_interrupted.get() { ending::sentence_after_ctrl_c } else { ending::sentence };
            let taken = self.sources[n].take(self.grep, self.ctx, self.client, came, sentence).await;
            is_whole &= taken.is_ok();
            let (Ok(text) | Err(text)) = taken;
            let mut out = tokio::io::stdout();
            out.write_all(text.as_bytes()).await?;
            out.flush().await?;
        }
        Ok(is_whole)
    }

    /// The first exit code that is not 0, in the order of the processes. An unknown one counts as 0.
    pub(crate) fn exit_code(&self) -> i32 {
        self.sources.iter().filter_map(|s| s.code).find(|code| *code != 0).unwrap_or(0)
    }

    /// Reports that unfinished processes keep running without a reader.
    pub(crate) fn leave(&self) -> Result<(), Failure> {
        let open: Vec<&FollowedProcess> = self.sources.iter().filter(|s| s.open).collect();
        if self.ctx.out.json {
            return open.iter().try_for_each(|s| self.ctx.out.object(&s.event("left", json!({}))));
        }
        let ids: Vec<&str> = open.iter().map(|s| s.id.as_str()).collect();
        self.ctx.out.remark(&format!("\nthey keep running; come back with: outlast log {} --follow", ids.join(" ")));
        Ok(())
    }
}

/// Reads the output of one process. Continues after the death of an engine, as every reader does.
async fn read(mut chunks: Chunks, n: usize, tell: mpsc::Sender<(usize, Received)>) {
    loop {
        let (came, over) = match chunks.next().await {
            Ok(Some(chunk)) => (Received::Chunk(chunk), false),
            Ok(None) => (Received::End, true),
            Err(e) => (Received::Failed(e), true),
        };
        // The user has left if this fails.
        if tell.send((n, came)).await.is_err() || over {
            return;
        }
    }
}

impl FollowedProcess {
    /// The text to show for what was received, also for a failure. Ends and gaps are remarks, or events in JSON.
    async fn take(
        &mut self,
        grep: Option<&Regex>,
        ctx: &Context,
        client: &Client,
        came: Received,
        sentence: fn(&Fate) -> String,
    ) -> Result<String, String> {
        match came {
            Received::Chunk(Chunk::Bytes { at, bytes }) => {
                let lines = self.lines.push(at, &bytes);
                Ok(self.show(grep, ctx, &lines))
            }
            Received::Chunk(Chunk::Gap { from, to, why }) => {
                let rest = self.lines.finish(to);
                let shown = self.show(grep, ctx, &rest);
                let told = self.tell(ctx, &gap(from, to, &why), "gap", json!({"from": from, "to": to, "why": why}));
                Ok(shown + &told)
            }
            Received::End => {
                self.open = false;
                let rest = self.lines.finish(self.lines.seen);
                let shown = self.show(grep, ctx, &rest);
                match client.poll(&self.id).await {
                    Ok(now) => {
                        let how = match now.fate.completion_reason {
                            Some(_) => {
                                self.code = Some(ending::exit_code(&now.fate));
                                sentence(&now.fate)
                            }
                            None => ending::without_reader(&now, &self.id),
                        };
                        let text = shown + &self.tell(ctx, &how, "end", json!({"process": now}));
                        if ending::is_out_of_reach(&now) { Err(text) } else { Ok(text) }
                    }
                    Err(e) => Err(shown + &self.fail(ctx, e)),
                }
            }
            Received::Failed(e) => {
                self.open = false;
                Err(self.fail(ctx, e))
            }
        }
    }

    fn fail(&self, ctx: &Context, error: ClientError) -> String {
        let failure = Failure::from(error);
        self.tell(ctx, &format!("outlast: {}", failure.error()), "error", failure.to_json())
    }

    fn show(&self, grep: Option<&Regex>, ctx: &Context, lines: &[OutputLine]) -> String {
        let wanted = |line: &&OutputLine| grep.is_none_or(|regex| regex.is_match(&strip(&line.text)));
        if ctx.out.json {
            let event = |line: &OutputLine| json!({"text": line.text, "next_byte": line.next_byte});
            return lines.iter().map(|line| format!("{}\n", self.event("line", event(line)))).collect();
        }
        let label = ctx.out.paint(self.tone, &self.label);
        // The next line may belong to another process.
        let end = |line: &OutputLine| if line.text.contains('\x1b') { RESET } else { "" };
        lines.iter().filter(wanted).map(|line| format!("{}{}\n", format!("{label} {}", line.text).trim_end(), end(line))).collect()
    }

    /// Reports something about it: to a user on standard error, in JSON as an event.
    fn tell(&self, ctx: &Context, text: &str, event: &str, fields: Value) -> String {
        if ctx.out.json {
            return format!("{}\n", self.event(event, fields));
        }
        ctx.out.remark(&format!("{} {text}", ctx.out.paint_remark(self.tone, &self.label)));
        String::new()
    }

    fn event(&self, event: &str, fields: Value) -> Value {
        let mut all = json!({"event": event, "session_id": self.id, "name": self.name, "next_byte": self.lines.next_byte});
        answer::merge(&mut all, fields);
        named::with_ids(&all)
    }
}
