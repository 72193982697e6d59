//! `outlast attach`

use super::follow::{Next, Screen};
use super::terminal::{self, Keyboard, Keys, Modes, Raw};
use super::{Context, Failure, ending};
use clap::Args;
use outlast_client::{At, Chunk, Chunks, Client, ClientError, From, Page, ProcessInfo, Status, code};
use serde_json::json;
use std::io::{IsTerminal, Write as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// How much output from before is shown on a terminal.
const BEFORE_BYTES: u64 = 8 << 10;
/// How many lines from before are shown of a process without one.
const BEFORE_LINES: u64 = 20;

/// Look at a process and type into it
///
/// Ctrl-\ leaves; the process goes on. A process with a terminal gets every key and the size of this one. A process with a pipe for input gets
/// lines, Ctrl-D ends its input, and Ctrl-C leaves. With --read-only nothing is sent, and Ctrl-C leaves too.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The process: its id, or at least four of its digits
    id: String,
    /// Only look
    #[arg(long)]
    read_only: bool,
}

/// Why it is over.
enum Left {
    /// The output is closed.
    Ended,
    /// The person left.
    Detached,
    /// Somebody closed the view.
    Closed,
    /// We were told to end.
    Signalled(i32),
}

impl Attach {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let info = client.poll(&self.id).await?;
        let id = info.session_id.to_string();
        if info.status == Status::Exited {
            let (how, hint) = (format!("{id} {}", ending::sentence(&info.fate)), format!("`outlast log {id}` shows its output"));
            return Err(Failure::over(how, hint, info.fate.exit_code.flatten()));
        }
        let left = if info.pty && std::io::stdin().is_terminal() && !ctx.out.json {
            on_terminal(ctx, &client, &info, self.read_only).await?
        } else {
            by_lines(ctx, &client, &info, self.read_only).await?
        };
        tell(ctx, &client, &id, left).await
    }
}

async fn tell(ctx: &Context, client: &Client, id: &str, left: Left) -> Result<i32, Failure> {
    let now = client.poll(id).await?;
    if ctx.out.json {
        let mut answer = serde_json::to_value(&now).unwrap_or_default();
        super::run::merge(&mut answer, json!({"detached_here": !matches!(left, Left::Ended)}));
        ctx.out.object(&answer)?;
    }
    match left {
        Left::Ended if now.fate.completion_reason.is_some() => ctx.out.remark(&format!("\n{id} {}", ending::sentence(&now.fate))),
        Left::Ended => ctx.out.remark(&format!("\n{id} goes on, and nobody reads its output")),
        Left::Closed => ctx.out.remark(&format!("\nthis view was closed; {id} goes on; come back with: outlast attach {id}")),
        Left::Detached | Left::Signalled(_) => ctx.out.remark(&format!("\n{id} goes on; come back with: outlast attach {id}")),
    }
    Ok(match left {
        Left::Ended | Left::Detached | Left::Closed => 0,
        Left::Signalled(number) => 128 + number,
    })
}

/// The signals that end us, each of which must leave the terminal as it was.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Ends {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Left {
        tokio::select! {
            _ = self.interrupt.recv() => Left::Detached,
            _ = self.terminate.recv() => Left::Signalled(SignalKind::terminate().as_raw_value()),
            _ = self.hangup.recv() => Left::Signalled(SignalKind::hangup().as_raw_value()),
        }
    }
}

/// Every key goes to the process, and every byte to the screen.
async fn on_terminal(ctx: &Context, client: &Client, info: &ProcessInfo, read_only: bool) -> Result<Left, Failure> {
    let id = info.session_id.to_string();
    let mut ends = Ends::new()?;
    let mut resized = signal(SignalKind::window_change())?;
    ctx.out.remark(&format!("attached to {id}; Ctrl-\\ leaves{}", if read_only { ", as does Ctrl-C" } else { "" }));
    let raw = Raw::enter()?;
    let mut modes = Modes::default();
    let Keys { typed, leave } = terminal::keys(if read_only { Keyboard::Watching } else { Keyboard::Raw });
    let typing = type_in(client.clone(), info, typed);
    tokio::pin!(typing);
    let mut chunks = client.attach(&id, From::Last(BEFORE_BYTES), read_only);
    let mut screen = Screen::new(ctx, true, "");
    if !read_only {
        resize(client, &id).await?;
    }
    let left = loop {
        let next = tokio::select! {
            left = ends.next() => break Ok(left),
            () = leave.notified() => break Ok(Left::Detached),
            _ = resized.recv(), if !read_only => { resize(client, &id).await?; continue }
            failed = &mut typing => break Err(failed),
            next = screen.next(&mut chunks) => next?,
        };
        if let Next::Chunk(Chunk::Bytes { bytes, .. }) = &next {
            modes.see(bytes);
        }
        if !screen.show(ctx, next).await? {
            break Ok(over(&chunks));
        }
    };
    // First the screen, then the mode, whichever way it ended. A terminal that is gone has no screen to restore.
    let _ = std::io::stdout().write_all(modes.undo().as_bytes()).and_then(|()| std::io::stdout().flush());
    drop(raw);
    left
}

/// Lines go to the process if it takes any, and output is shown as readers see it.
async fn by_lines(ctx: &Context, client: &Client, info: &ProcessInfo, read_only: bool) -> Result<Left, Failure> {
    let id = info.session_id.to_string();
    let mut ends = Ends::new()?;
    let input = info.takes_input && !read_only;
    ctx.out.tip(&format!("attached to {id}; Ctrl-C leaves{}", if input { ", Ctrl-D ends its input" } else { "" }));
    let page = client.log(&id, Page::last(BEFORE_LINES)).await?;
    let mut chunks = client.view(&id, From::Byte(page.from_byte));
    let mut screen = Screen::new(ctx, false, &info.command);
    let lines = async {
        if !input {
            return std::future::pending().await;
        }
        let failed = type_in(client.clone(), info, terminal::keys(Keyboard::Lines).typed);
        failed.await
    };
    tokio::pin!(lines);
    loop {
        let next = tokio::select! {
            left = ends.next() => return Ok(left),
            failed = &mut lines => return Err(failed),
            next = screen.next(&mut chunks) => next?,
        };
        let more = tokio::select! {
            left = ends.next() => return Ok(left),
            more = screen.show(ctx, next) => more?,
        };
        if !more {
            return Ok(over(&chunks));
        }
    }
}

/// Why there is no more to show.
fn over(chunks: &Chunks) -> Left {
    if chunks.view_closed() { Left::Closed } else { Left::Ended }
}

async fn resize(client: &Client, id: &str) -> Result<(), Failure> {
    if let Some((rows, cols)) = terminal::size() {
        client.resize(id, rows, cols).await?;
    }
    Ok(())
}

/// Writes what is typed into the process. Returns only when that has failed.
///
/// Input goes behind whatever is there, since an agent may be typing too. When an engine dies under a write, the length of the input tells
/// whether it was done.
async fn type_in(client: Client, info: &ProcessInfo, mut typed: mpsc::Receiver<Vec<u8>>) -> Failure {
    let id = info.session_id.to_string();
    let mut length = info.input_bytes;
    while let Some(bytes) = typed.recv().await {
        loop {
            match client.write(&id, &bytes, At::End).await {
                Ok(written) => length = written.next_offset,
                Err(e) if e.code() == code::MAYBE_WRITTEN => match unwritten(&client, &id, &mut length).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(e) => return e.into(),
                },
                Err(e) if e.code() == code::INPUT_FULL => {
                    // It reads nothing; the person hears that the keys were not taken.
                    let _ = std::io::stderr().write_all(b"\x07");
                }
                // Its end is seen where its output is.
                Err(e) if e.code() == code::ALREADY_EXITED => {}
                Err(e) => return e.into(),
            }
            break;
        }
    }
    // Nobody types any more. On a terminal that was Ctrl-D, which is meant for the process.
    if std::io::stdin().is_terminal()
        && !info.pty
        && let Err(e) = client.close(&id).await
        && e.code() != code::ALREADY_EXITED
    {
        return e.into();
    }
    std::future::pending().await
}

/// Whether the input is as long as before.
async fn unwritten(client: &Client, id: &str, length: &mut Option<u64>) -> Result<bool, ClientError> {
    let before = *length;
    *length = client.poll(id).await?.input_bytes;
    Ok(before.is_some() && *length == before)
}
