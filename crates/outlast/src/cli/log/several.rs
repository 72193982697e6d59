//! Several logs at once: whole lines, each with the name of its process before it.

use super::super::follow::{Line, Lines, Render, gap};
use super::super::out::{Tone, tame};
use super::super::output::{self, Begin};
use super::super::table::cut;
use super::super::{Context, Failure, ending, named, run};
use super::Log;
use outlast_client::{Chunk, Client, ClientError, From, ProcessInfo};
use outlast_text::{RESET, Redactor, strip};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use unicode_width::UnicodeWidthStr as _;

/// How many pieces of output may wait to be shown, of all processes together.
const QUEUE: usize = 16;
/// The columns that a name may take.
const NAME: usize = 24;

/// One of the processes, and how far its lines came.
struct Source {
    id: String,
    name: Option<String>,
    /// Its name on the screen, as wide as that of the others.
    label: String,
    tone: Tone,
    lines: Lines,
    open: bool,
}

/// What came of one of them.
enum Came {
    Chunk(Chunk),
    End,
    Failed(ClientError),
}

/// Shows what there is, and with `--follow` what comes, until every one has ended.
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
    for id in &log.ids {
        polled.push(client.poll(id).await?);
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
    follow(&log, ctx, client, sources(ctx, &begins, &polled)).await
}

/// The names before the lines, all of the same width.
fn labels(polled: &[ProcessInfo]) -> Vec<String> {
    let named = |name: &Option<String>| polled.iter().filter(|p| p.name == *name).count() == 1;
    let label = |p: &ProcessInfo| match &p.name {
        Some(name) if named(&p.name) => cut(&tame(name), NAME),
        _ => p.session_id.to_string(),
    };
    let width = polled.iter().map(|p| label(p).width()).max().unwrap_or(0);
    polled.iter().map(label).map(|label| format!("{label}{} |", " ".repeat(width - label.width()))).collect()
}

fn sources(ctx: &Context, begins: &[Begin], polled: &[ProcessInfo]) -> Vec<Source> {
    let source = |(n, ((begin, p), label)): (usize, ((&Begin, &ProcessInfo), String))| Source {
        id: p.session_id.to_string(),
        name: p.name.clone(),
        label,
        tone: Tone::Of(n),
        lines: Lines::new(Render::whole_lines(&begin.command, Redactor::new(ctx.settings.redact), ctx.out.sgr()), begin.from_byte),
        open: true,
    };
    begins.iter().zip(polled).zip(labels(polled)).enumerate().map(source).collect()
}

/// What there is.
async fn show(log: &Log, ctx: &Context, client: &Client, polled: &[ProcessInfo]) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut pages = Vec::new();
        for process in polled {
            pages.push(log.json_page(ctx, client, &process.session_id.to_string()).await?);
        }
        ctx.out.object(&named::with_ids(&json!({"logs": pages})))?;
        return Ok(0);
    }
    for (n, (process, label)) in polled.iter().zip(labels(polled)).enumerate() {
        let form = log.form(ctx, Some((Tone::Of(n), &label)));
        output::print(ctx, client, &process.session_id.to_string(), log.range(ctx, polled.len()), form).await?;
    }
    Ok(0)
}

async fn follow(log: &Log, ctx: &Context, client: &Client, mut sources: Vec<Source>) -> Result<i32, Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let (tell, mut heard) = mpsc::channel(QUEUE);
    // Those that are left when we leave end with this.
    let mut readers = JoinSet::new();
    for (n, source) in sources.iter().enumerate() {
        readers.spawn(read(client.clone(), source.id.clone(), source.lines.next_byte, n, tell.clone()));
    }
    drop(tell);
    let mut code = 0;
    loop {
        let came = tokio::select! {
            _ = interrupts.recv() => return leave(ctx, &sources),
            came = heard.recv() => came,
        };
        let Some((n, came)) = came else { return Ok(code) };
        let done = async {
            let taken = sources[n].take(log, ctx, client, came).await;
            let failed = taken.is_err();
            let (Ok(text) | Err(text)) = taken;
            let mut out = tokio::io::stdout();
            out.write_all(text.as_bytes()).await?;
            out.flush().await.map(|()| failed)
        };
        // Whoever reads our output may be slow, and must not keep us from leaving.
        let failed = tokio::select! {
            _ = interrupts.recv() => return leave(ctx, &sources),
            failed = done => failed?,
        };
        if failed {
            code = 1;
        }
    }
}

/// Reads one of them. Goes on over the death of an engine, as every reader does.
async fn read(client: Client, id: String, from: u64, n: usize, tell: mpsc::Sender<(usize, Came)>) {
    let mut chunks = client.follow(&id, From::Byte(from)).masked();
    loop {
        let (came, over) = match chunks.next().await {
            Ok(Some(chunk)) => (Came::Chunk(chunk), false),
            Ok(None) => (Came::End, true),
            Err(e) => (Came::Failed(e), true),
        };
        // Nobody listens any more once the person has left.
        if tell.send((n, came)).await.is_err() || over {
            return;
        }
    }
}

fn leave(ctx: &Context, sources: &[Source]) -> Result<i32, Failure> {
    let open: Vec<&Source> = sources.iter().filter(|s| s.open).collect();
    if ctx.out.json {
        open.iter().try_for_each(|s| ctx.out.object(&s.event("left", json!({}))))?;
        return Ok(0);
    }
    let ids: Vec<&str> = open.iter().map(|s| s.id.as_str()).collect();
    ctx.out.remark(&format!("\nthey go on; come back with: outlast log {} --follow", ids.join(" ")));
    Ok(0)
}

impl Source {
    /// What is shown of what came, also of a failure. Ends and gaps are remarks, or events like any other.
    async fn take(&mut self, log: &Log, ctx: &Context, client: &Client, came: Came) -> Result<String, String> {
        match came {
            Came::Chunk(Chunk::Bytes { at, bytes }) => {
                let lines = self.lines.push(at, &bytes);
                Ok(self.show(log, ctx, &lines))
            }
            Came::Chunk(Chunk::Gap { from, to, why }) => {
                let rest = self.lines.finish(to);
                let shown = self.show(log, ctx, &rest);
                let told = self.tell(ctx, &gap(from, to, &why), "gap", json!({"from": from, "to": to, "why": why}));
                Ok(shown + &told)
            }
            Came::End => {
                self.open = false;
                let rest = self.lines.finish(self.lines.seen);
                let shown = self.show(log, ctx, &rest);
                match client.poll(&self.id).await {
                    Ok(now) => {
                        let how = match now.fate.completion_reason {
                            Some(_) => ending::sentence(&now.fate),
                            None => "keeps running; its output has no reader".into(),
                        };
                        Ok(shown + &self.tell(ctx, &how, "end", json!({"process": now})))
                    }
                    Err(e) => Err(shown + &self.fail(ctx, e)),
                }
            }
            Came::Failed(e) => {
                self.open = false;
                Err(self.fail(ctx, e))
            }
        }
    }

    fn fail(&self, ctx: &Context, error: ClientError) -> String {
        let failure = Failure::from(error);
        self.tell(ctx, &format!("outlast: {}", failure.error()), "error", failure.to_json())
    }

    fn show(&self, log: &Log, ctx: &Context, lines: &[Line]) -> String {
        let wanted = |line: &&Line| log.grep.as_ref().is_none_or(|regex| regex.is_match(&strip(&line.text)));
        if ctx.out.json {
            let event = |line: &Line| json!({"text": line.text, "next_byte": line.next_byte});
            return lines.iter().map(|line| format!("{}\n", self.event("line", event(line)))).collect();
        }
        let label = ctx.out.paint(self.tone, &self.label);
        // The next line is another process's.
        let end = |line: &Line| if line.text.contains('\x1b') { RESET } else { "" };
        lines.iter().filter(wanted).map(|line| format!("{}{}\n", format!("{label} {}", line.text).trim_end(), end(line))).collect()
    }

    /// Says something about it: to a person beside the output, to a program within it.
    fn tell(&self, ctx: &Context, text: &str, event: &str, fields: Value) -> String {
        if ctx.out.json {
            return format!("{}\n", self.event(event, fields));
        }
        ctx.out.remark(&format!("{} {text}", ctx.out.paint_remark(self.tone, &self.label)));
        String::new()
    }

    fn event(&self, event: &str, fields: Value) -> Value {
        let mut all = json!({"event": event, "session_id": self.id, "name": self.name, "next_byte": self.lines.next_byte});
        run::merge(&mut all, fields);
        named::with_ids(&all)
    }
}
