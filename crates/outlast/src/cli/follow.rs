//! Shows output as it comes. Shared by `log`, `run` and `attach`.

mod lines;
mod render;

pub(crate) use lines::{Lines, OutputLine};
pub(crate) use render::{Render, Sgr};

use render::LONGEST_WHOLE;

use super::{Context, Failure};
use outlast_client::{Chunk, Chunks, Client, From};
use outlast_text::Redactor;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};

/// How long an unfinished line, such as a prompt, waits for its end before it is shown.
const PROMPT: Duration = Duration::from_millis(200);

/// Which output is followed, and how it is shown.
pub(crate) struct FollowOutput<'a> {
    pub(crate) client: &'a Client,
    pub(crate) id: &'a str,
    /// The process in hints, as the user names it.
    pub(crate) typed: &'a str,
    /// The command, which decides how much is masked.
    pub(crate) command: &'a str,
    pub(crate) from: From,
    /// Show the bytes as they were written.
    pub(crate) raw: bool,
    /// Follow until the command has exited, not only until its output is closed.
    pub(crate) to_exit: bool,
}

/// Why following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The output ended.
    Ended { next_byte: Option<u64> },
    /// The user left with Ctrl-C.
    Detached { next_byte: Option<u64> },
}

impl Stopped {
    /// For an answer in JSON.
    pub(crate) fn fields(self) -> Value {
        match self {
            Self::Ended { next_byte } => json!({"next_byte": next_byte}),
            Self::Detached { next_byte } => json!({"next_byte": next_byte, "detached_here": true}),
        }
    }
}

impl FollowOutput<'_> {
    /// Shows output until its end, or Ctrl-C.
    pub(crate) async fn show(&self, ctx: &Context) -> Result<Stopped, Failure> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut chunks = match self.to_exit {
            true => self.client.follow_to_exit(self.id, self.from),
            false => self.client.follow(self.id, self.from),
        };
        if !self.raw && ctx.settings.redact {
            chunks = chunks.masked();
        }
        let mut screen = OutputScreen::new(ctx, self.raw, self.command);
        loop {
            let next = tokio::select! {
                _ = interrupts.recv() => return Ok(self.leave(ctx, &chunks)),
                next = screen.next(&mut chunks) => next?,
            };
            // A slow reader of the output must not delay Ctrl-C.
            let more = tokio::select! {
                _ = interrupts.recv() => return Ok(self.leave(ctx, &chunks)),
                more = screen.show(ctx, next) => more?,
            };
            if !more {
                return Ok(Stopped::Ended { next_byte: chunks.next_byte() });
            }
        }
    }

    fn leave(&self, ctx: &Context, chunks: &Chunks) -> Stopped {
        let from = chunks.next_byte().map(|b| format!(" --from-byte {b}")).unwrap_or_default();
        ctx.out.remark(&format!("\n{0} keeps running; come back with: outlast log {0} --follow{from}", self.typed));
        Stopped::Detached { next_byte: chunks.next_byte() }
    }
}

/// The next event of the output.
pub(crate) enum NextOutput {
    Chunk(Chunk),
    /// No output for a while, and an unfinished line is pending.
    Quiet,
    End,
}

/// Writes output to standard output.
pub(crate) struct OutputScreen {
    /// With `--json`, standard output is for the one object and this is standard error.
    out: Box<dyn tokio::io::AsyncWrite + Unpin>,
    render: Option<Render>,
}

impl OutputScreen {
    pub(crate) fn new(ctx: &Context, raw: bool, command: &str) -> Self {
        let out: Box<dyn tokio::io::AsyncWrite + Unpin> =
            if ctx.out.json { Box::new(tokio::io::stderr()) } else { Box::new(tokio::io::stdout()) };
        let render = (!raw).then(|| Render::new(command, Redactor::new(ctx.settings.redact), ctx.out.sgr()));
        Self { out, render }
    }

    /// The next event. The future may be dropped while it waits.
    pub(crate) async fn next(&self, chunks: &mut Chunks) -> Result<NextOutput, Failure> {
        let chunk = if self.render.as_ref().is_some_and(Render::waits) {
            match tokio::time::timeout(PROMPT, chunks.next()).await {
                Ok(chunk) => chunk?,
                Err(_quiet) => return Ok(NextOutput::Quiet),
            }
        } else {
            chunks.next().await?
        };
        Ok(chunk.map_or(NextOutput::End, NextOutput::Chunk))
    }

    /// Shows the event, and returns whether more may come.
    pub(crate) async fn show(&mut self, ctx: &Context, next: NextOutput) -> Result<bool, Failure> {
        match next {
            NextOutput::Chunk(Chunk::Bytes { bytes, .. }) => self.bytes(&bytes).await?,
            NextOutput::Chunk(Chunk::Gap { from, to, why }) => {
                self.finish().await?;
                ctx.out.remark(&gap(from, to, &why));
            }
            NextOutput::Quiet => {
                let text = self.render.as_mut().map(Render::show_unfinished).unwrap_or_default();
                self.write(text.as_bytes()).await?;
            }
            NextOutput::End => {
                self.finish().await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) async fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.render {
            None => self.write(bytes).await,
            Some(render) => {
                let text = render.push(bytes);
                self.write(text.as_bytes()).await
            }
        }
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        let rest = self.render.as_mut().map(Render::finish).unwrap_or_default();
        self.write(rest.as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).await?;
        Ok(self.out.flush().await?)
    }
}

/// The remark for missing bytes.
pub(crate) fn gap(from: u64, to: u64, why: &str) -> String {
    format!("[bytes {from} to {to} are missing: {why}]")
}
