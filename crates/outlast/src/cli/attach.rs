//! `outlast attach`

mod screen;

use super::follow::OutputScreen;
use super::named::{self, Named};
use super::terminal::{self, Ends, Keyboard, Leaving};
use super::{Context, Failure, ending};
use crate::config::DetachKey;
use clap::Args;
use outlast_client::{At, Chunks, Client, From, Page, ProcessInfo, Status, code};
use serde_json::json;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// After this long without a key, the process may have the size of another terminal. The next key sets the size of this one again.
const SIZE_VALID: Duration = Duration::from_secs(1);
/// How many earlier lines are shown of a process that is not on a terminal.
const BEFORE_LINES: u64 = 20;

/// Show a process in this terminal and type into it
///
/// Ctrl-\ leaves, or another key set with --detach-key or attach.detach_key in the configuration; the process keeps running. A process on a terminal gets every
/// other key and the size of this terminal; a full-screen program redraws. A process with a pipe for input gets lines, Ctrl-D closes its input, and
/// Ctrl-C leaves. With --read-only nothing is sent, and Ctrl-C leaves too.
///
/// Several terminals may be attached, and all may type. The process has the size of the terminal that was attached, resized or typed into last; --read-only changes nothing.
/// The terminal is always restored.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
    /// Show only, and send nothing
    #[arg(long)]
    read_only: bool,
    /// The key that leaves: ctrl-], ^], several in order as in ctrl-p,ctrl-q, or none [default: ctrl-\]
    #[arg(long, value_name = "KEY")]
    detach_key: Option<DetachKey>,
}

/// Why this view ended.
enum AttachEnd {
    /// The output is closed.
    Ended,
    /// The user left.
    Detached,
    /// The view was closed, as with `outlast view close`.
    Closed,
    /// A signal ended this program.
    Signalled(i32),
}

impl Attach {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let process = named::find(ctx, &client, &self.id, named::Purpose::Act).await?;
        let info = client.poll(&process.id).await?;
        if info.status == Status::Exited {
            let (how, hint) = (
                format!("{process} {}", ending::sentence(&info.fate)),
                format!("`outlast log {}` shows its output", process.typed(&[self.id])),
            );
            return Err(Failure::over(how, hint, info.fate.exit_code.flatten()));
        }
        let at_a_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let left = if info.pty && at_a_terminal && !ctx.out.json {
            let key = self.detach_key.as_ref().unwrap_or(&ctx.settings.detach_key);
            screen::on_terminal(ctx, &client, &info, self.read_only, key).await?
        } else {
            by_lines(ctx, &client, &info, self.read_only).await?
        };
        tell(ctx, &client, &process, &process.typed(&[self.id]), left).await
    }
}

/// Reports how the view ended, and returns the exit code.
async fn tell(ctx: &Context, client: &Client, of: &Named, typed: &str, left: AttachEnd) -> Result<i32, Failure> {
    let id = &of.id;
    let now = client.poll(id).await?;
    if ctx.out.json {
        let mut answer = serde_json::to_value(&now).unwrap_or_default();
        super::answer::merge(&mut answer, json!({"detached_here": !matches!(left, AttachEnd::Ended)}));
        ctx.out.object(&named::with_ids(&answer))?;
    }
    match left {
        AttachEnd::Ended if now.fate.completion_reason.is_some() => ctx.out.remark(&format!("\n{of} {}", ending::sentence(&now.fate))),
        AttachEnd::Ended => ctx.out.remark(&format!("\n{}", ending::without_reader(&now, typed))),
        AttachEnd::Closed => ctx.out.remark(&format!("\nthis view was closed; {of} keeps running; come back with: outlast attach {typed}")),
        AttachEnd::Detached | AttachEnd::Signalled(_) => {
            ctx.out.remark(&format!("\n{of} keeps running; come back with: outlast attach {typed}"))
        }
    }
    Ok(match left {
        AttachEnd::Ended | AttachEnd::Detached | AttachEnd::Closed => 0,
        AttachEnd::Signalled(number) => 128 + number,
    })
}

/// What a signal to this program means.
fn end_by(signal: SignalKind) -> AttachEnd {
    match signal {
        // Ctrl-C, and Ctrl-\ where the terminal is not raw.
        signal if signal == SignalKind::interrupt() || signal == SignalKind::quit() => AttachEnd::Detached,
        signal => AttachEnd::Signalled(signal.as_raw_value()),
    }
}

/// Shows a process on the alternate screen until the user leaves it or it ends. Nothing of it reaches the user's own screen. Returns the signal that ended this
/// program, if one did.
pub(super) async fn hand_over(ctx: &Context, client: &Client, info: &ProcessInfo) -> Result<Option<i32>, Failure> {
    Ok(match screen::on_alternate_screen(ctx, client, info, &ctx.settings.detach_key).await? {
        AttachEnd::Signalled(number) => Some(number),
        AttachEnd::Ended | AttachEnd::Detached | AttachEnd::Closed => None,
    })
}

/// Sends typed lines to the process, if it has an input, and shows its output without escape sequences.
async fn by_lines(ctx: &Context, client: &Client, info: &ProcessInfo, read_only: bool) -> Result<AttachEnd, Failure> {
    let id = info.session_id.to_string();
    let mut ends = Ends::new()?;
    let input = info.takes_input && !read_only;
    let effect = match (input, read_only) {
        (true, _) => ", Ctrl-D closes its input",
        (false, true) => "",
        (false, false) => "; its input is closed, so only its output is shown (`run --stdin` or `--pty` opens one)",
    };
    ctx.out.tip(&format!("attached to {id}; Ctrl-C leaves{effect}"));
    let page = client.log(&id, Page::last(BEFORE_LINES)).await?;
    let mut chunks = client.view(&id, From::Byte(page.from_byte));
    let mut screen = OutputScreen::new(ctx, false, &info.command);
    let lines = async {
        if !input {
            return std::future::pending().await;
        }
        match terminal::keys(Keyboard::Lines, Leaving::never()) {
            Ok(keys) => type_in(client.clone(), info, keys.typed).await,
            Err(e) => e.into(),
        }
    };
    tokio::pin!(lines);
    loop {
        let next = tokio::select! {
            signal = ends.next() => return Ok(end_by(signal)),
            failed = &mut lines => return Err(failed),
            next = screen.next(&mut chunks) => next?,
        };
        let more = tokio::select! {
            signal = ends.next() => return Ok(end_by(signal)),
            more = screen.show(ctx, next) => more?,
        };
        if !more {
            return Ok(over(&chunks));
        }
    }
}

/// Why the output ended.
fn over(chunks: &Chunks) -> AttachEnd {
    if chunks.view_closed() { AttachEnd::Closed } else { AttachEnd::Ended }
}

/// Writes what the user types into the process. Returns only after a failure.
///
/// An agent may be typing too, so each write appends to the input. If an engine dies during a write, the length of the input shows whether the write was done.
async fn type_in(client: Client, info: &ProcessInfo, mut typed: mpsc::Receiver<Vec<u8>>) -> Failure {
    let id = info.session_id.to_string();
    let mut length = info.input_bytes;
    let mut sized = Instant::now();
    while let Some(bytes) = typed.recv().await {
        if info.pty && sized.elapsed() > SIZE_VALID {
            sized = Instant::now();
            // If the process has ended, its output reports that. If the resize failed for another reason, the write reports it.
            let _over = screen::resize(&client, &id).await;
        }
        loop {
            match client.write(&id, &bytes, At::End).await {
                Ok(written) => length = written.next_offset,
                Err(e) if e.code() == code::MAYBE_WRITTEN => {
                    let before = length;
                    length = match client.poll(&id).await {
                        Ok(now) => now.input_bytes,
                        Err(e) => return e.into(),
                    };
                    match is_written(before, length, bytes.len()) {
                        Some(true) => {}
                        Some(false) => continue,
                        None => terminal::ring(),
                    }
                }
                // The process does not read its input.
                Err(e) if e.code() == code::INPUT_FULL => terminal::ring(),
                // Its output reports the end.
                Err(e) if e.code() == code::ALREADY_EXITED => {}
                Err(e) => return e.into(),
            }
            break;
        }
    }
    // Standard input has ended. On a terminal that was Ctrl-D, which is meant for the process.
    if std::io::stdin().is_terminal()
        && !info.pty
        && let Err(e) = client.close(&id).await
        && e.code() != code::ALREADY_EXITED
    {
        return e.into();
    }
    std::future::pending().await
}

/// Whether a write of `bytes` to an input that was `before` bytes long and is `now` was done. None if another client wrote meanwhile and it is not known.
fn is_written(before: Option<u64>, now: Option<u64>, bytes: usize) -> Option<bool> {
    match now?.checked_sub(before?)? {
        0 => Some(false),
        more if more >= bytes as u64 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_input_tells_whether_keys_were_written() {
        assert_eq!(is_written(Some(7), Some(7), 3), Some(false));
        assert_eq!((is_written(Some(7), Some(10), 3), is_written(Some(7), Some(11), 3)), (Some(true), Some(true)));
        // Another client wrote. Whether this one did, too, is unknown.
        assert_eq!(is_written(Some(7), Some(9), 3), None);
        assert_eq!((is_written(None, Some(9), 3), is_written(Some(7), None, 3)), (None, None));
    }
}
