//! Showing output as it comes. Shared by `log`, `run` and `attach`.

use super::{Context, Failure};
use outlast_client::{Chunk, Chunks, Client, From};
use outlast_text::{Decoder, Redactor, Stripper};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};

/// How long an unfinished line, such as a prompt, waits for its end before it is shown.
const PROMPT: Duration = Duration::from_millis(200);

/// Which output, and how.
pub(crate) struct Follow<'a> {
    pub(crate) client: &'a Client,
    pub(crate) id: &'a str,
    /// The command, which decides how much is masked.
    pub(crate) command: &'a str,
    pub(crate) from: From,
    /// As it was written, and not as readers should see it.
    pub(crate) raw: bool,
    /// Until the command is over, and not only its output.
    pub(crate) to_exit: bool,
}

/// Why no more is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There is no more.
    Ended { next_byte: Option<u64> },
    /// The person left.
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

impl Follow<'_> {
    /// Shows output until its end, or Ctrl-C.
    pub(crate) async fn show(&self, ctx: &Context) -> Result<Stopped, Failure> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut chunks = match self.to_exit {
            true => self.client.follow_to_exit(self.id, self.from),
            false => self.client.follow(self.id, self.from),
        };
        let mut screen = Screen::new(ctx, self.raw, self.command);
        loop {
            let next = tokio::select! {
                _ = interrupts.recv() => return Ok(self.leave(ctx, &chunks)),
                next = screen.next(&mut chunks) => next?,
            };
            // Whoever reads our output may be slow, and must not keep us from leaving.
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
        ctx.out.remark(&format!("\n{0} goes on; come back with: outlast log {0} --follow{from}", self.id));
        Stopped::Detached { next_byte: chunks.next_byte() }
    }
}

/// What happened to the output.
pub(crate) enum Next {
    Chunk(Chunk),
    /// Nothing for a while, and an unfinished line waits.
    Quiet,
    End,
}

/// Where output is shown.
pub(crate) struct Screen {
    /// With `--json` standard output is for the one object, so that output goes to standard error.
    out: Box<dyn tokio::io::AsyncWrite + Unpin>,
    render: Option<Render>,
}

impl Screen {
    pub(crate) fn new(ctx: &Context, raw: bool, command: &str) -> Self {
        let out: Box<dyn tokio::io::AsyncWrite + Unpin> =
            if ctx.out.json { Box::new(tokio::io::stderr()) } else { Box::new(tokio::io::stdout()) };
        let render = (!raw).then(|| Render::new(command, Redactor::new(ctx.settings.redact)));
        Self { out, render }
    }

    /// The next thing to show. May be dropped while it waits.
    pub(crate) async fn next(&self, chunks: &mut Chunks) -> Result<Next, Failure> {
        let chunk = if self.render.as_ref().is_some_and(Render::waits) {
            match tokio::time::timeout(PROMPT, chunks.next()).await {
                Ok(chunk) => chunk?,
                Err(_quiet) => return Ok(Next::Quiet),
            }
        } else {
            chunks.next().await?
        };
        Ok(chunk.map_or(Next::End, Next::Chunk))
    }

    /// Shows it. Whether more may come.
    pub(crate) async fn show(&mut self, ctx: &Context, next: Next) -> Result<bool, Failure> {
        match next {
            Next::Chunk(Chunk::Bytes { bytes, .. }) => self.bytes(&bytes).await?,
            Next::Chunk(Chunk::Gap { from, to, why }) => {
                self.finish().await?;
                ctx.out.remark(&gap(from, to, &why));
            }
            Next::Quiet => {
                let text = self.render.as_mut().map(Render::show_unfinished).unwrap_or_default();
                self.write(text.as_bytes()).await?;
            }
            Next::End => {
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

/// What to say where bytes are missing.
pub(crate) fn gap(from: u64, to: u64, why: &str) -> String {
    format!("[bytes {from} to {to} are missing: {why}]")
}

/// Makes text for readers out of a stream: decoded, without escape sequences, secrets masked. Masks need whole lines, so an unfinished one waits.
struct Render {
    command: String,
    redact: Redactor,
    decoder: Decoder,
    stripper: Stripper,
    /// Text that is not judged yet.
    held: String,
    /// How much of the masked form of `held` is on the screen already.
    shown: String,
    /// Whether the held text has been looked at since it grew.
    asked: bool,
}

/// An unfinished line, or a key block, longer than this is shown in parts.
const LONGEST: usize = 64 << 10;

impl Render {
    fn new(command: &str, redact: Redactor) -> Self {
        Self {
            command: command.to_owned(),
            redact,
            decoder: Decoder::new(),
            stripper: Stripper::new(),
            held: String::new(),
            shown: String::new(),
            asked: false,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> String {
        let text = self.decoder.push(bytes);
        self.held += &self.stripper.push(&text);
        self.asked = false;
        match self.whole() {
            Some(end) => self.show(end),
            None => String::new(),
        }
    }

    /// Whether something waits to be shown.
    fn waits(&self) -> bool {
        !self.held.is_empty() && !self.asked
    }

    /// Up to where the held text can be judged: behind a line's end, or a redraw's, unless a private key is open.
    fn whole(&self) -> Option<usize> {
        let end = self.held.rfind(['\n', '\r']).map(|i| i + 1);
        let end = match self.held.find("-----BEGIN ") {
            Some(begin) if !self.held[begin..].contains("-----END ") => {
                end.filter(|e| *e <= begin).or(self.held[..begin].rfind('\n').map(|i| i + 1))
            }
            _ => end,
        };
        if self.held.len() > LONGEST { Some(end.filter(|e| *e > 0).unwrap_or(self.held.len())) } else { end.filter(|e| *e > 0) }
    }

    /// The held text up to `end`, masked, without what the screen has already.
    fn show(&mut self, end: usize) -> String {
        let rest = self.held.split_off(end);
        let whole = std::mem::replace(&mut self.held, rest);
        let masked = self.redact.output(&self.command, &whole).into_owned();
        let shown = std::mem::take(&mut self.shown);
        match masked.strip_prefix(shown.as_str()) {
            Some(new) => new.to_owned(),
            // What is known now changes what was shown: the line is shown again.
            None => format!("\n{masked}"),
        }
    }

    /// An unfinished line that has waited long enough. It is kept, to be judged again when it goes on.
    fn show_unfinished(&mut self) -> String {
        self.asked = true;
        if self.held.contains("-----BEGIN ") {
            return String::new();
        }
        let masked = self.redact.output(&self.command, &self.held).into_owned();
        let new = masked.strip_prefix(self.shown.as_str()).map_or_else(|| format!("\n{masked}"), str::to_owned);
        self.shown = masked;
        new
    }

    fn finish(&mut self) -> String {
        self.held += self.decoder.finish();
        self.held += &self.stripper.finish();
        self.show(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render() -> Render {
        Render::new("make", Redactor::new(true))
    }

    const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn lines_come_whole_and_without_colours() {
        let mut r = render();
        assert_eq!(r.push(b"one\ntw"), "one\n");
        assert_eq!(r.push(b"\x1b[31mo\x1b"), "");
        assert_eq!(r.push(b"[0m\nrest"), "two\n");
        assert_eq!(r.finish(), "rest");
    }

    #[test]
    fn a_character_in_two_pieces_is_whole() {
        let mut r = render();
        assert_eq!(r.push(b"caf\xc3"), "");
        assert_eq!(r.push(b"\xa9\n"), "café\n");
    }

    #[test]
    fn a_secret_in_two_pieces_is_masked() {
        let mut r = render();
        let (a, b) = TOKEN.split_at(10);
        assert_eq!(r.push(a.as_bytes()), "");
        let line = r.push(format!("{b}\n").as_bytes());
        assert!(!line.contains(TOKEN) && line.ends_with('\n'), "{line}");
    }

    #[test]
    fn a_private_key_is_never_shown_by_its_lines() {
        let mut r = render();
        let mut all = String::new();
        for line in
            ["before\n", "-----BEGIN RSA PRIVATE KEY-----\n", "c2VjcmV0c2VjcmV0c2VjcmV0\n", "-----END RSA PRIVATE KEY-----\n", "after\n"]
        {
            all += &r.push(line.as_bytes());
            all += &r.show_unfinished();
        }
        all += &r.finish();
        assert!(!all.contains("c2VjcmV0"), "{all}");
        assert!(all.starts_with("before\n") && all.ends_with("after\n"), "{all}");
    }

    #[test]
    fn a_prompt_is_shown_once_it_has_waited() {
        let mut r = render();
        assert_eq!(r.push(b"Continue? "), "");
        assert!(r.waits());
        assert_eq!(r.show_unfinished(), "Continue? ");
        assert!(!r.waits());
        assert_eq!(r.show_unfinished(), "");
        assert_eq!(r.push(b"y\nnext\n"), "y\nnext\n");
    }

    #[test]
    fn a_redraw_is_an_end() {
        let mut r = render();
        assert_eq!(r.push(b"10%\r20%"), "10%\r");
    }
}
