//! A line on a terminal that says what is waited for. It is removed when the wait is over.

use super::follow::{Render, Sgr};
use super::out::{Tone, tame};
use super::table::cut;
use super::{Context, Failure, times};
use outlast_client::{Chunk, Client, ClientError, From, Owner, Time};
use outlast_text::Redactor;
use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// When the line appears, and how often it is updated.
const SECOND: Duration = Duration::from_secs(1);
/// How much of the end of its output is read for the last line.
const END: u64 = 4 << 10;
/// How long looking for the last line may take before the line goes without it.
const LOOK: Duration = Duration::from_millis(500);

/// What is waited for.
pub(crate) enum About<'a> {
    /// The end of a process.
    End { client: &'a Client, id: &'a str, at_most: Option<Duration> },
    /// A process that was asked to end, and is killed after the grace period.
    Stop { what: &'a str, grace: Duration },
    /// A time.
    Until { at: Time },
    /// Something else, in words.
    Words(&'a str),
}

/// Waits for `work`, and shows meanwhile what is waited for.
pub(crate) async fn beside<T>(ctx: &Context, about: About<'_>, work: impl Future<Output = T>) -> T {
    if !is_seen(ctx) {
        return work.await;
    }
    tokio::select! {
        biased;
        done = work => done,
        never = tell(ctx, &about) => match never {},
    }
}

/// The same for a wait that Ctrl-C may end. `left` is the remark for that case: the work continues. From here on Ctrl-C does not end the program by itself.
pub(crate) async fn during<T>(ctx: &Context, about: About<'_>, left: &str, work: impl Future<Output = T>) -> Result<T, Failure> {
    if !is_seen(ctx) {
        return Ok(work.await);
    }
    let mut interrupts = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        done = work => Ok(done),
        _ = interrupts.recv() => Err(Failure::left(left)),
        never = tell(ctx, &about) => match never {},
    }
}

/// Makes a remark while the line is shown: in its place, and the line is drawn again below it.
pub(crate) fn remark_above(ctx: &Context, text: &str) {
    if is_seen(ctx) {
        wipe();
    }
    ctx.out.remark(text);
}

/// Whether standard error is a terminal that can rewrite a line.
fn is_seen(ctx: &Context) -> bool {
    !ctx.out.json && !ctx.world.is_dumb() && std::io::stderr().is_terminal()
}

async fn tell(ctx: &Context, about: &About<'_>) -> std::convert::Infallible {
    let began = Instant::now();
    // Wiped when it is dropped, which is when the wait is over.
    let line = StatusLine::default();
    let mut watched = None;
    loop {
        tokio::time::sleep(SECOND).await;
        let text = about.say(ctx, began.elapsed(), &mut watched).await;
        line.show(ctx, &text);
    }
}

impl About<'_> {
    async fn say(&self, ctx: &Context, waited: Duration, watched: &mut Option<Watched>) -> String {
        let so_far = times::age(waited.as_secs());
        match self {
            Self::End { client, id, at_most } => {
                if watched.is_none() {
                    // If it cannot be looked up, the wait continues all the same.
                    *watched = tokio::time::timeout(LOOK, Watched::find(ctx, client, id)).await.ok().and_then(Result::ok);
                }
                let limit = at_most.map(|t| format!(" of {}", times::age(t.as_secs()))).unwrap_or_default();
                match watched {
                    Some(it) => {
                        let last = tokio::time::timeout(LOOK, it.last_line()).await.ok().and_then(Result::ok).flatten();
                        let last = last.map(|line| format!(": {line}")).unwrap_or_default();
                        format!("{so_far}{limit}, waiting for {}{last}", it.name)
                    }
                    None => format!("{so_far}{limit}, waiting for {id}"),
                }
            }
            Self::Stop { what, grace } => match grace.checked_sub(waited) {
                Some(rest) => format!("{so_far}, {what} was asked to end, and is killed in {}", times::age(rest.as_secs() + 1)),
                None => format!("{so_far}, {what} was killed, and is not gone yet"),
            },
            Self::Until { at } => format!("{so_far}, {} to go", times::age(at.seconds_since(times::now()))),
            Self::Words(words) => format!("{so_far}, {words}"),
        }
    }
}

/// The process that is waited for.
struct Watched {
    client: Client,
    id: String,
    /// The name for users.
    name: String,
    command: String,
    redact: bool,
}

impl Watched {
    /// Asks without an owner, so that the process does not count as seen by its session.
    async fn find(ctx: &Context, client: &Client, id: &str) -> Result<Self, ClientError> {
        let client = client.with_owner(Owner::default());
        let info = client.poll(id).await?;
        let id = info.session_id.to_string();
        Ok(Self { client, name: info.name.unwrap_or_else(|| id.clone()), id, command: info.command, redact: ctx.settings.redact })
    }

    /// The last line of its output that is not blank.
    async fn last_line(&self) -> Result<Option<String>, ClientError> {
        let mut render = Render::new(&self.command, Redactor::new(self.redact), Sgr::Removed);
        let mut text = String::new();
        let mut chunks = self.client.read(&self.id, From::Last(END)).masked();
        while let Some(chunk) = chunks.next().await? {
            if let Chunk::Bytes { bytes, .. } = chunk {
                text += &render.push(&bytes);
            }
        }
        text += &render.finish();
        Ok(last_of(&text))
    }
}

fn last_of(text: &str) -> Option<String> {
    let lines = text.lines().flat_map(|line| line.split('\r'));
    lines.map(|line| tame(line).trim().to_owned()).rfind(|line| !line.is_empty())
}

/// The one line, wiped when it is dropped.
#[derive(Default)]
struct StatusLine {
    shown: Cell<bool>,
}

impl StatusLine {
    fn show(&self, ctx: &Context, text: &str) {
        let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |w| usize::from(w.ws_col.max(2)));
        // A full last column would begin another line.
        let text = ctx.out.paint_remark(Tone::Quiet, &cut(&tame(text), width - 1));
        // A line that cannot be shown changes nothing.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}").and_then(|()| std::io::stderr().flush());
        self.shown.set(true);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.shown.get() {
            wipe();
        }
    }
}

fn wipe() {
    // A terminal that is gone shows nothing any more.
    let _ = write!(std::io::stderr(), "\r\x1b[K").and_then(|()| std::io::stderr().flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_that_is_not_blank() {
        assert_eq!(last_of("one\ntwo\n\n  \n").as_deref(), Some("two"));
        assert_eq!(last_of("10%\r90%\r").as_deref(), Some("90%"));
        assert_eq!(last_of("\n"), None);
    }
}
