//! Reading the log of a process: its end as it grows, pieces of it, and what is looked for.
//!
//! Bytes are read and made readable here. A page of lines from the engine would be less work, but one that reaches the end counts as having been seen, and whoever
//! looks on with `top` silences nobody.

use super::feed::Tell;
use super::lines::{Line, Look, Piece, Words, missing};
use super::tail::{LEAD, PIECE, Tail, whole_line, with_lead};
use outlast_client::{Chunk, Client, ClientError, From, Page};
use outlast_text::Redactor;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How much is looked through at a time.
const SEARCHED: u64 = 256 << 10;
/// More than this in a [`PERIOD`] is not shown line by line: nobody could read it.
const FLOOD: usize = 256 << 10;
const PERIOD: Duration = Duration::from_millis(100);

/// One process whose log is read.
pub(super) struct Reader {
    pub(super) client: Client,
    pub(super) id: String,
    pub(super) redact: Arc<Redactor>,
    look: OnceCell<Look>,
}

/// Which part is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The beginning.
    First,
    /// What ends at this byte.
    Before(u64),
    /// What begins at this byte.
    Behind(u64),
    /// The line at this byte, and what lies around it.
    Around(u64),
}

/// Where a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Lines that begin behind this byte, where one begins.
    Down(u64),
    /// Lines that begin before this byte.
    Up(u64),
    /// The line at this byte and those behind it; where there is none, those before it.
    Nearest(u64),
}

impl Reader {
    pub(super) fn new(client: Client, id: String, redact: Arc<Redactor>) -> Self {
        Self { client, id, redact, look: OnceCell::new() }
    }

    async fn look(&self) -> Result<&Look, ClientError> {
        // A page that lies behind the end has the whole command on it, and is no look at the end.
        let mut page = Page::from_byte(u64::MAX);
        page.limit = Some(1);
        let ask = || async { Ok(Look { command: self.client.log(&self.id, page).await?.command, redact: self.redact.clone() }) };
        self.look.get_or_try_init(ask).await
    }

    /// Follows the end of the log until it is closed, or nobody listens.
    pub(super) async fn follow(&self, tell: &Tell) -> Result<(), ClientError> {
        let look = self.look().await?;
        let mut fresh = true;
        loop {
            let mut chunks = self.client.follow(&self.id, From::Last(PIECE)).masked();
            let mut tail = Tail::default();
            let (mut period, mut came) = (Instant::now(), 0);
            loop {
                let Some(chunk) = chunks.next().await? else {
                    // An empty log is shown as one.
                    tell.output(tail.shown(look), fresh).await;
                    return Ok(());
                };
                came += tail.take(chunk);
                if !tell.output(tail.shown(look), std::mem::take(&mut fresh)).await {
                    return Ok(());
                }
                tail.shorten();
                if period.elapsed() > PERIOD {
                    (period, came) = (Instant::now(), 0);
                } else if came > FLOOD {
                    break;
                }
            }
            // No descriptor tells when a screen has been read: so often it may change, and then what was between is passed over.
            tokio::time::sleep_until(period + PERIOD).await;
            fresh = true;
        }
    }

    /// A part of the log.
    pub(super) async fn part(&self, part: Part) -> Result<Piece, ClientError> {
        match part {
            Part::First => self.behind(0, PIECE).await,
            Part::Before(to) => self.before(to, PIECE).await,
            Part::Behind(from) => self.behind(from, PIECE).await,
            Part::Around(at) => {
                let mut around = self.before(at, PIECE / 2).await?;
                let behind = self.behind(at, PIECE).await?;
                around.lines.extend(behind.lines);
                Ok(Piece { to: behind.to, is_last: behind.is_last, ..around })
            }
        }
    }

    /// What begins at a byte, about `most` long.
    async fn behind(&self, from: u64, most: u64) -> Result<Piece, ClientError> {
        let look = self.look().await?;
        let read = self.read(from.saturating_sub(LEAD), from + most).await?;
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

    /// What ends at a byte, about `most` long.
    async fn before(&self, to: u64, most: u64) -> Result<Piece, ClientError> {
        let look = self.look().await?;
        let mut wanted = to.saturating_sub(most);
        let mut read = self.read(wanted.saturating_sub(LEAD), to).await?;
        if let [Chunk::Gap { to: there, .. }] = read.chunks[..]
            && there >= to
        {
            let begin = self.beginning_of_gap(wanted.saturating_sub(LEAD)).await?;
            wanted = begin.saturating_sub(most);
            read = self.read(wanted.saturating_sub(LEAD), to).await?;
        }
        let mut lines: Vec<Line> = Vec::new();
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

    /// The next line that has the words: where it begins.
    pub(super) async fn search(&self, words: &Words, way: Way, tell: &Tell) -> Result<Option<u64>, ClientError> {
        match way {
            Way::Down(at) => self.search_down(words, at, at + 1, tell).await,
            Way::Up(before) => self.search_up(words, before, tell).await,
            Way::Nearest(at) => match self.search_down(words, at, at, tell).await? {
                Some(found) => Ok(Some(found)),
                None => self.search_up(words, at, tell).await,
            },
        }
    }

    async fn search_down(&self, words: &Words, at: u64, first: u64, tell: &Tell) -> Result<Option<u64>, ClientError> {
        let mut at = at;
        loop {
            let piece = self.behind(at, SEARCHED).await?;
            if let Some(found) = piece.lines.iter().find(|l| l.at >= first && words.are_in(&l.text)) {
                return Ok(Some(found.at));
            }
            if piece.is_last || piece.to <= at {
                return Ok(None);
            }
            at = piece.to;
            tell.searched(at);
        }
    }

    async fn search_up(&self, words: &Words, before: u64, tell: &Tell) -> Result<Option<u64>, ClientError> {
        let mut to = before;
        while to > 0 {
            let piece = self.before(to, SEARCHED).await?;
            if let Some(found) = piece.lines.iter().rev().find(|l| l.at < before && words.are_in(&l.text)) {
                return Ok(Some(found.at));
            }
            if piece.from >= to {
                break;
            }
            to = piece.from;
            tell.searched(to);
        }
        Ok(None)
    }

    /// What there is from one byte to another, the pieces of touching bytes joined.
    async fn read(&self, from: u64, to: u64) -> Result<Read, ClientError> {
        let mut read = Read { chunks: Vec::new(), is_last: false };
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
        // One piece may be larger than what was wanted.
        if let Some(Chunk::Bytes { at, bytes }) = read.chunks.last_mut() {
            let room = usize::try_from(to.saturating_sub(*at)).unwrap_or(usize::MAX);
            if bytes.len() > room {
                bytes.truncate(room);
                read.is_last = false;
            }
        }
        Ok(read)
    }

    /// Where the gap begins that a byte lies in: steps that double, then halves.
    async fn beginning_of_gap(&self, inside: u64) -> Result<u64, ClientError> {
        let (mut there, mut gone, mut step) = (0, inside, PIECE);
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

struct Read {
    chunks: Vec<Chunk>,
    is_last: bool,
}
