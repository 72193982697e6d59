//! `outlast run --until`: waits for a line that says that the command is ready.

use super::answer::{merge, of_start};
use super::ending::{self, TIMED_OUT};
use super::progress::{self, About};
use super::{Context, Failure, named, output, times};
use outlast_client::{Chunk, Client, From, ProcessInfo};
use outlast_text::Redactor;
use outlast_text::watch::{Cursor, Scanner};
use serde_json::json;
use std::time::Duration;

/// An unfinished line, such as a prompt, is examined after this long. The keeper waits as long.
const UNFINISHED_LINE_DELAY: Duration = Duration::from_millis(200);

/// The line that is waited for.
pub(super) struct Ready {
    /// The text that the line contains.
    pub(super) text: String,
    pub(super) at_most: Option<Duration>,
}

/// What came first.
enum First {
    Line(String),
    End,
    Timeout(Duration),
}

impl Ready {
    /// Waits for the line, the end of the command, or the time limit. `typed` is what hints call it. Returns the exit code.
    pub(super) async fn wait(&self, ctx: &Context, client: &Client, info: &ProcessInfo, typed: &str) -> Result<i32, Failure> {
        let id = info.session_id.to_string();
        if !ctx.out.json {
            ctx.out.line(&id)?;
        }
        let words = format!("waiting for a line with {:?}", self.text);
        let shown = named::shown(&id, info.name.as_deref());
        let left = format!("{shown} keeps running; `outlast log {typed} --follow` shows its output");
        let first = progress::during(ctx, About::Words(&words), &left, self.first(ctx, client, &id)).await??;
        let line = match &first {
            First::Line(line) => Some(Redactor::new(ctx.settings.redact).output(&info.command, line).into_owned()),
            First::End | First::Timeout(_) => None,
        };
        if let First::End = first {
            return self.ended(ctx, client, info, &shown).await;
        }
        let code = if line.is_some() { 0 } else { TIMED_OUT };
        if ctx.out.json {
            let mut answer = serde_json::to_value(client.poll(&id).await?).unwrap_or_default();
            merge(&mut answer, json!({"matched_line": line, "timed_out": code == TIMED_OUT}));
            merge(&mut answer, of_start(info));
            ctx.out.object(&named::with_ids(&answer))?;
        } else if let Some(line) = line {
            ctx.out.line(&line)?;
        } else if let First::Timeout(waited) = first {
            let waited = times::age(waited.as_secs());
            ctx.out.remark(&format!(
                "{shown} keeps running; it printed no line with {:?} within {waited}. `outlast log {typed} --follow` shows its output",
                self.text
            ));
        }
        Ok(code)
    }

    /// The command ended first: prints its last output on standard error, and returns its exit code.
    async fn ended(&self, ctx: &Context, client: &Client, info: &ProcessInfo, shown: &str) -> Result<i32, Failure> {
        let id = &info.session_id.to_string();
        // It has ended, so this answers at once. Like every wait it settles the notice of the end.
        let waited = client.wait(id, None).await?;
        if ctx.out.json {
            let mut answer = serde_json::to_value(client.poll(id).await?).unwrap_or_default();
            merge(&mut answer, serde_json::to_value(&waited).unwrap_or_default());
            merge(&mut answer, json!({"matched_line": null, "timed_out": false}));
            merge(&mut answer, of_start(info));
            ctx.out.object(&named::with_ids(&answer))?;
        } else {
            let output = waited.output.trim_end_matches('\n');
            if !output.is_empty() {
                ctx.out.remark(output);
            }
            ctx.out.remark(&format!("{shown} {} before it printed a line with {:?}", ending::sentence(&waited.fate), self.text));
        }
        Ok(super::wait::code(&waited))
    }

    async fn first(&self, ctx: &Context, client: &Client, id: &str) -> Result<First, Failure> {
        match self.at_most {
            None => self.line_or_end(ctx, client, id).await,
            Some(at_most) => match tokio::time::timeout(at_most, self.line_or_end(ctx, client, id)).await {
                Ok(first) => first,
                Err(_) => Ok(First::Timeout(at_most)),
            },
        }
    }

    /// Reads from the beginning, so that a line that came before this call counts, too.
    async fn line_or_end(&self, ctx: &Context, client: &Client, id: &str) -> Result<First, Failure> {
        let mut chunks = output::masked(ctx, client.follow_to_exit(id, From::Byte(0)));
        let mut scanner = Scanner::new(std::slice::from_ref(&self.text), Cursor::default());
        let mut is_looked_at = false;
        loop {
            let next = match scanner.is_open() && !is_looked_at {
                true => tokio::time::timeout(UNFINISHED_LINE_DELAY, chunks.next()).await.ok().transpose()?,
                false => Some(chunks.next().await?),
            };
            is_looked_at = next.is_none();
            let is_over = matches!(next, Some(None));
            match next {
                Some(Some(Chunk::Bytes { bytes, .. })) => scanner.push(&bytes),
                Some(Some(Chunk::Gap { to, .. })) => {
                    scanner.settle();
                    scanner.skip_to(to);
                }
                // No more comes, or not for a while.
                Some(None) | None => scanner.settle(),
            }
            if let Some(found) = scanner.take() {
                return Ok(First::Line(found.lines.into_iter().next().unwrap_or_default()));
            }
            if is_over {
                return Ok(First::End);
            }
        }
    }
}
