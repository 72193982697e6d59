//! Reads the log of a process: its end as it grows, parts of it, and lines that match a search.
//!
//! Bytes are read and made readable here. A page of lines from the engine would be less work, but a page that reaches the end marks the end
//! as seen, and viewing with `top` must not consume a notice.

use super::command::{LogPart, SearchFrom};
use super::lines::{LineRenderer, LogLine, Piece, Words, missing};
use super::news::NewsSender;
use super::tail::{LEAD_BYTES, PIECE_BYTES, Tail, whole_line, with_lead};
use outlast_client::{Chunk, Client, ClientError, From, Page};
use outlast_text::Redactor;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How many bytes a search reads at a time.
const SEARCH_BYTES: u64 = 256 << 10;
/// More output than this in a [`PERIOD`] is skipped: a reader cannot follow it.
const FLOOD_BYTES: usize = 256 << 10;
const PERIOD: Duration = Duration::from_millis(100);

/// Reads the log of one process.
pub(super) struct LogReader {
    pub(super) client: Client,
    pub(super) id: String,
    pub(super) redact: Arc<Redactor>,
    look: OnceCell<LineRenderer>,
}

impl LogReader {
    pub(super) fn new(client: Client, id: String, redact: Arc<Redactor>) -> Self {
        Self { client, id, redact, look: OnceCell::new() }
    }

    async fn look(&self) -> Result<&LineRenderer, ClientError> {
        // A page after the end has the whole command, and does not mark the end as seen.
        let mut page = Page::from_byte(u64::MAX);
        page.limit = Some(1);
        let ask = || async { Ok(LineRenderer { command: self.client.log(&self.id, page).await?.command, redact: self.redact.clone() }) };
        self.look.get_or_try_init(ask).await
    }

    /// Follows the end of the log until the log or the screen is closed.
    pub(super) async fn follow(&self, news: &NewsSender) -> Result<(), ClientError> {
        let look = self.look().await?;
        let mut fresh = true;
        loop {
            let mut chunks = self.client.follow(&self.id, From::Last(PIECE_BYTES)).masked();
            let mut tail = Tail::default();
            let (mut period, mut came) = (Instant::now(), 0);
            loop {
                let Some(chunk) = chunks.next().await? else {
                    // An empty log is reported, too.
                    news.output(tail.shown(look), fresh).await;
                    return Ok(());
                };
                came += tail.take(chunk);
                if !news.output(tail.shown(look), std::mem::take(&mut fresh)).await {
                    return Ok(());
                }
                tail.shorten();
                if period.elapsed() > PERIOD {
                    (period, came) = (Instant::now(), 0);
                } else if came > FLOOD_BYTES {
                    break;
                }
            }
            // In a flood the screen changes once in a period, and the output between is skipped. No descriptor says when a screen was read.
            tokio::time::sleep_until(period + PERIOD).await;
            fresh = true;
        }
    }

    /// Reads a part of the log.
    pub(super) async fn part(&self, part: LogPart) -> Result<Piece, ClientError> {
        match part {
            LogPart::First => self.after(0, PIECE_BYTES).await,
            LogPart::Before(to) => self.before(to, PIECE_BYTES).await,
            LogPart::After(from) => self.after(from, PIECE_BYTES).await,
            LogPart::Around(at) => {
                let mut around = self.before(at, PIECE_BYTES / 2).await?;
                let after = self.after(at, PIECE_BYTES).await?;
                around.lines.extend(after.lines);
                Ok(Piece { to: after.to, is_last: after.is_last, ..around })
            }
        }
    }

    /// Reads about `most` bytes that start at a byte.
    async fn after(&self, from: u64, most: u64) -> Result<Piece, ClientError> {
        let look = self.look().await?;
        let read = self.read(from.saturating_sub(LEAD_BYTES), from + most).await?;
        let mut piece = Piece { from, to: from, lines: Vec::new(), is_last: read.is_last };
        let last = read.chunks.len().saturating_sub(1);
        for (i, chunk) in read.chunks.into_iter().enumerate() {
            match chunk {
                Chunk::Gap { to, .. } if to <= from => {}
                Chunk::Gap { from: begin, to, why } => {
                    piece.lines.push(missing(begin.max(from), to, &why));
                    piece.to = to;
                }
                Chunk::Bytes { at, bytes } => {
                    let bytes = match (read.is_last || i < last, bytes.iter().rposition(|b| *b == b'\n')) {
                        (false, Some(newline)) if at + newline as u64 >= from => &bytes[..=newline],
                        _ => &bytes[..],
                    };
                    let (at, bytes) = with_lead(at, bytes, from);
                    piece.lines.extend(look.lines(at, bytes).into_iter().filter(|l| l.at >= from));
                    piece.to = piece.to.max(at + bytes.len() as u64);
                }
            }
        }
        Ok(piece)
    }

    /// Reads about `most` bytes that end at a byte.
    async fn before(&self, to: u64, most: u64) -> Result<Piece, ClientError> {
        let look = self.look().await?;
        let mut wanted = to.saturating_sub(most);
        let mut read = self.read(wanted.saturating_sub(LEAD_BYTES), to).await?;
        if let [Chunk::Gap { to: there, .. }] = read.chunks[..]
            && there >= to
        {
            let begin = self.beginning_of_gap(wanted.saturating_sub(LEAD_BYTES)).await?;
            wanted = begin.saturating_sub(most);
            read = self.read(wanted.saturating_sub(LEAD_BYTES), to).await?;
        }
        let mut lines: Vec<LogLine> = Vec::new();
        let mut from = None;
        for chunk in read.chunks {
            match chunk {
                Chunk::Gap { from: begin, to: end, why } => {
                    from = from.or(Some(begin));
                    lines.push(missing(begin, end.min(to), &why));
                }
                Chunk::Bytes { at, bytes } => {
                    let bytes = &bytes[..usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len())];
                    let begin = if from.is_none() { whole_line(at, bytes, wanted) } else { at };
                    let (lead, bytes) = with_lead(at, bytes, begin);
                    lines.extend(look.lines(lead, bytes).into_iter().filter(|l| l.at >= begin));
                    from = from.or(Some(begin));
                }
            }
        }
        Ok(Piece { from: from.unwrap_or(wanted).min(to), to, lines, is_last: false })
    }

    /// The start of the next line with the words.
    pub(super) async fn search(&self, words: &Words, from: SearchFrom, news: &NewsSender) -> Result<Option<u64>, ClientError> {
        match from {
            SearchFrom::Down(at) => self.search_down(words, at, at + 1, news).await,
            SearchFrom::Up(before) => self.search_up(words, before, news).await,
            SearchFrom::Nearest(at) => match self.search_down(words, at, at, news).await? {
                Some(found) => Ok(Some(found)),
                None => self.search_up(words, at, news).await,
            },
        }
    }

    async fn search_down(&self, words: &Words, at: u64, first: u64, news: &NewsSender) -> Result<Option<u64>, ClientError> {
        let mut at = at;
        loop {
            let piece = self.after(at, SEARCH_BYTES).await?;
            if let Some(found) = piece.lines.iter().find(|l| l.at >= first && words.are_in(&l.text)) {
                return Ok(Some(found.at));
            }
            if piece.is_last || piece.to <= at {
                return Ok(None);
            }
            at = piece.to;
            news.searched(at);
        }
    }

    async fn search_up(&self, words: &Words, before: u64, news: &NewsSender) -> Result<Option<u64>, ClientError> {
        let mut to = before;
        while to > 0 {
            let piece = self.before(to, SEARCH_BYTES).await?;
            if let Some(found) = piece.lines.iter().rev().find(|l| l.at < before && words.are_in(&l.text)) {
                return Ok(Some(found.at));
            }
            if piece.from >= to {
                break;
            }
            to = piece.from;
            news.searched(to);
        }
        Ok(None)
    }

    /// The bytes and gaps of a range, with adjacent bytes joined.
    async fn read(&self, from: u64, to: u64) -> Result<ReadChunks, ClientError> {
        let mut read = ReadChunks { chunks: Vec::new(), is_last: false };
        let mut chunks = self.client.read(&self.id, From::Byte(from)).masked();
        while chunks.next_byte().is_none_or(|at| at < to) {
            match (chunks.next().await?, read.chunks.last_mut()) {
                (None, _) => {
                    read.is_last = true;
                    break;
                }
                (Some(Chunk::Bytes { bytes: more, .. }), Some(Chunk::Bytes { bytes, .. })) => bytes.extend(more),
                (Some(chunk), _) => read.chunks.push(chunk),
            }
        }
        // The last chunk may go beyond the range.
        if let Some(Chunk::Bytes { at, bytes }) = read.chunks.last_mut() {
            let room = usize::try_from(to.saturating_sub(*at)).unwrap_or(usize::MAX);
            if bytes.len() > room {
                bytes.truncate(room);
                read.is_last = false;
            }
        }
        Ok(read)
    }

    /// The start of the gap that a byte is in, found by doubling steps and then halving.
    async fn beginning_of_gap(&self, inside: u64) -> Result<u64, ClientError> {
        let (mut there, mut gone, mut step) = (0, inside, PIECE_BYTES);
        while gone > 0 {
            let at = gone.saturating_sub(step);
            if self.is_there(at).await? {
                there = at;
                break;
            }
            (gone, step) = (at, step * 2);
        }
        while gone - there > 1 {
            let middle = there + (gone - there) / 2;
            if self.is_there(middle).await? {
                there = middle;
            } else {
                gone = middle;
            }
        }
        Ok(gone)
    }

    async fn is_there(&self, at: u64) -> Result<bool, ClientError> {
        Ok(matches!(self.client.read(&self.id, From::Byte(at)).next().await?, Some(Chunk::Bytes { .. })))
    }
}

/// The content of a range of the log.
struct ReadChunks {
    chunks: Vec<Chunk>,
    /// Whether the log ends here.
    is_last: bool,
}
