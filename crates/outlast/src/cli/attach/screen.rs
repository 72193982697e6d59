//! A process that has a terminal, shown on a terminal: every key goes to the process, and every byte to the screen.

use super::super::follow::{NextOutput, OutputScreen};
use super::super::terminal::{self, Ends, Keyboard, Keys, Leaving, Modes, OneScreen, Raw, without_questions};
use super::super::{Context, Failure};
use super::{AttachEnd, end_by, over, type_in};
use crate::config::DetachKey;
use outlast_client::{Chunk, Client, ClientError, Done, From, ProcessInfo, code};
use std::io::Write as _;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How much earlier output is shown, unless a program has the whole screen.
const SHOWN: usize = 8 << 10;
/// How much of the beginning, and of the end, is read to find the modes that a program set on its terminal.
const HEAD: u64 = 64 << 10;
const TAIL: u64 = 4 << 20;
/// Output of a full-screen program is shown again, unless it is longer than this.
const MOST: usize = 1 << 20;
/// How long a program may take to draw itself in the temporary size, before it gets the size of this terminal.
const DRAWN: Duration = Duration::from_millis(250);

/// Has the terminal remember the title of its window.
const KEEP_TITLE: &[u8] = b"\x1b[22;0t";
/// Empties the screen, and restores the title.
const LEAVE_ALTERNATE: &str = "\x1b[H\x1b[2J\x1b[23;0t";

/// Shows a process until it ends or the user leaves. The terminal is restored, also after a failure.
pub(super) async fn on_terminal(
    ctx: &Context,
    client: &Client,
    info: &ProcessInfo,
    read_only: bool,
    key: &DetachKey,
) -> Result<AttachEnd, Failure> {
    let ctrl_c = if read_only { "Ctrl-C leaves" } else { "" };
    let leaves = match (key.bytes().is_empty(), read_only) {
        (true, _) => ctrl_c.to_owned(),
        (false, true) => format!("{key} leaves, as does Ctrl-C"),
        (false, false) => format!("{key} leaves"),
    };
    ctx.out.remark(format!("attached to {}; {leaves}", info.session_id).trim_end_matches("; "));
    let raw = Raw::enter()?;
    let mut modes = Modes::default();
    let left = look(ctx, client, info, read_only, key, &mut modes, None).await;
    // The screen is restored before the mode, also after a failure.
    write(modes.undo().as_bytes());
    drop(raw);
    left
}

/// The same on the alternate screen of the caller, which is shown and empty afterwards.
pub(super) async fn on_alternate_screen(ctx: &Context, client: &Client, info: &ProcessInfo, key: &DetachKey) -> Result<AttachEnd, Failure> {
    let leaves = if key.bytes().is_empty() { String::new() } else { format!("; {key} leaves") };
    let screen = OneScreen::new(format!("attached to {}{leaves}", info.session_id));
    let raw = Raw::enter()?;
    write(&[KEEP_TITLE, &screen.begin()].concat());
    let mut modes = Modes::default();
    let left = look(ctx, client, info, false, key, &mut modes, Some(screen)).await;
    write((modes.undo_on_one_screen() + LEAVE_ALTERNATE).as_bytes());
    drop(raw);
    left
}

/// Writes to the terminal. One that is gone has no screen to restore.
fn write(bytes: &[u8]) {
    let mut stdout = std::io::stdout();
    let _gone = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

async fn look(
    ctx: &Context,
    client: &Client,
    info: &ProcessInfo,
    read_only: bool,
    key: &DetachKey,
    modes: &mut Modes,
    mut one_screen: Option<OneScreen>,
) -> Result<AttachEnd, Failure> {
    let mut kept = |bytes: &[u8]| match &mut one_screen {
        Some(screen) => screen.keep(bytes),
        None => bytes.to_vec(),
    };
    let id = info.session_id.to_string();
    let mut ends = Ends::new()?;
    let mut resized = signal(SignalKind::window_change())?;
    let before = Before::read(client, &id, modes).await?;
    // Standard input is read only while this view is open. Later keys are for the next reader of the terminal.
    let Keys { typed, leave, held: _held } = terminal::keys(if read_only { Keyboard::Watching } else { Keyboard::Raw }, Leaving::new(key))?;
    let typing = type_in(client.clone(), info, typed);
    tokio::pin!(typing);
    let mut chunks = client.attach(&id, From::Byte(before.next), read_only);
    // The engine knows this view before it shows output, so that queries of the process are answered by this terminal.
    chunks.ready().await?;
    let mut screen = OutputScreen::new(ctx, true, "");
    if !before.enters {
        screen.bytes(&kept(modes.enter().as_bytes())).await?;
    }
    screen.bytes(&kept(&before.shown)).await?;
    screen.bytes(modes.redo().as_bytes()).await?;
    let mut drawn = None;
    if !read_only {
        // A full-screen program draws its screen again only when the size changes.
        if modes.is_full_screen() && nudge(client, &id).await? {
            drawn = Some(tokio::time::Instant::now() + DRAWN);
        } else {
            resize(client, &id).await?;
        }
    }
    loop {
        let mut next = tokio::select! {
            signal = ends.next() => return Ok(end_by(signal)),
            () = leave.notified() => return Ok(AttachEnd::Detached),
            _ = resized.recv(), if !read_only => { drawn = None; resize(client, &id).await?; continue }
            failed = &mut typing => return Err(failed),
            () = until(drawn), if drawn.is_some() => { drawn = None; resize(client, &id).await?; continue }
            next = screen.next(&mut chunks) => next?,
        };
        if let NextOutput::Chunk(Chunk::Bytes { bytes, .. }) = &mut next {
            modes.see(bytes);
            *bytes = kept(bytes);
        }
        if !screen.show(ctx, next).await? {
            return Ok(over(&chunks));
        }
        if drawn.take().is_some() {
            resize(client, &id).await?;
        }
    }
}

async fn until(when: Option<tokio::time::Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Gives the process the size of this terminal.
pub(super) async fn resize(client: &Client, id: &str) -> Result<(), ClientError> {
    match terminal::size() {
        Some((rows, cols)) => sized(client.resize(id, rows, cols).await),
        None => Ok(()),
    }
}

/// The end of the process is no error here: its output reports it.
fn sized(done: Result<Done, ClientError>) -> Result<(), ClientError> {
    match done {
        Err(e) if e.code() == code::ALREADY_EXITED => Ok(()),
        done => done.map(|_| ()),
    }
}

/// Gives the process one row less than this terminal has, so that the next resize is a change. Whether that was possible.
async fn nudge(client: &Client, id: &str) -> Result<bool, ClientError> {
    match terminal::size() {
        Some((rows, cols)) if rows > 1 => sized(client.resize(id, rows - 1, cols).await).map(|()| true),
        _ => Ok(false),
    }
}

/// The output from before this view.
struct Before {
    /// The part that is shown again.
    shown: Vec<u8>,
    /// Whether it begins with the program taking the whole screen.
    enters: bool,
    /// The byte after it.
    next: u64,
}

impl Before {
    /// Reads earlier output and the modes that the program has set on its terminal. Only the beginning and the end are read: a full-screen program mostly takes
    /// the screen at its beginning.
    async fn read(client: &Client, id: &str, modes: &mut Modes) -> Result<Self, ClientError> {
        let mut head = client.read(id, From::Byte(0));
        // Where the program took the whole screen.
        let mut entered = None;
        while let Some(chunk) = head.next().await? {
            if let Chunk::Bytes { at, bytes } = &chunk
                && let Some(here) = modes.see(bytes)
            {
                entered = Some(at + here as u64);
            }
            if head.next_byte().is_some_and(|at| at >= HEAD) {
                break;
            }
        }
        let seen = head.next_byte().unwrap_or(0);
        drop(head);
        let mut tail = client.read(id, From::Last(TAIL));
        let (mut shown, mut begin) = (Vec::new(), seen);
        while let Some(chunk) = tail.next().await? {
            let Chunk::Bytes { at, bytes } = chunk else { continue };
            // What was seen in the head is not seen twice: it would be taken for the newest.
            let new = usize::try_from(seen.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            if let Some(here) = modes.see(&bytes[new..]) {
                entered = Some(at + (new + here) as u64);
            }
            if shown.is_empty() || at != begin + shown.len() as u64 {
                // Across a gap nothing is joined.
                (shown, begin) = (Vec::new(), at);
            }
            shown.extend_from_slice(&bytes);
        }
        let next = tail.next_byte().unwrap_or(seen);
        let entered = entered.and_then(|at| usize::try_from(at.checked_sub(begin)?).ok());
        let from = match (modes.is_full_screen(), entered) {
            // As it was drawn since; where that is not known, it draws itself.
            (true, Some(entered)) => entered.min(shown.len()),
            (true, None) => shown.len(),
            (false, _) => whole_lines(&shown),
        };
        let shown = if shown.len() - from > MOST { &[][..] } else { &shown[from..] };
        let enters = modes.is_full_screen() && !shown.is_empty();
        Ok(Self { shown: without_questions(shown), enters, next })
    }
}

/// Where the last lines begin that fit into what is shown.
fn whole_lines(bytes: &[u8]) -> usize {
    let Some(from) = bytes.len().checked_sub(SHOWN) else { return 0 };
    bytes[from..].iter().position(|b| *b == b'\n').map_or(from, |end| from + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_output_begins_with_a_whole_line() {
        assert_eq!(whole_lines(b"short\nlines"), 0);
        let long = [vec![b'x'; 100], b"\nwhole\n".to_vec(), vec![b'y'; SHOWN - 4]].concat();
        assert_eq!(&long[whole_lines(&long)..][..3], b"yyy");
        assert_eq!(whole_lines(&vec![b'x'; SHOWN + 5]), 5);
    }
}
