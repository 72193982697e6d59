//! Reads more of a log than one answer of the engine holds.

use outlast_client::{Client, ClientError, LogPage, Page};
use outlast_text::Hole;

/// How much of a log is read from its beginning. For a longer log the last page is added, since errors come early and the result at the end.
const MAX_BYTES: usize = 4 << 20;

/// Several pages of a log, as one.
pub(crate) struct Pages {
    pub(crate) page: LogPage,
    /// Where lines are missing between two pages.
    pub(crate) holes: Vec<Hole>,
    /// Whether earlier answers have what comes before.
    pub(crate) continues: bool,
    /// How many line ends it has. Counted once: a log has many pages.
    newlines: usize,
}

impl Pages {
    /// Reads the wanted lines: from a byte or an offset on, or the last ones. Without a limit, all of them.
    pub(crate) async fn read(client: &Client, id: &str, wanted: Page) -> Result<Self, ClientError> {
        let page = first(client, id, wanted).await?;
        let mut all = Self { newlines: newlines(&page.output), page, holes: Vec::new(), continues: wanted.from_byte.is_some() };
        let end = all.page.first_line.saturating_add(wanted.limit.unwrap_or(u64::MAX));
        while !all.page.at_end && all.page.output.len() < MAX_BYTES {
            let lines = end.saturating_sub(all.last_line() + 1);
            if lines == 0 {
                return Ok(all);
            }
            all.add(client.log(id, Page::from_byte(all.page.next_byte).limit(lines)).await?);
        }
        // A single line may be too long for a page, so the page ends at the log's end and is still cut.
        let whole = all.page.at_end && all.page.output_cut.is_none();
        if !whole && wanted.limit.is_none() {
            all.add(client.log(id, Page::last(u64::MAX)).await?);
        }
        Ok(all)
    }

    /// Appends a later page.
    fn add(&mut self, next: LogPage) {
        let line = self.last_line();
        let known = (line + 1).saturating_sub(next.first_line);
        let goes_on = known == 1 && (next.from_byte == self.page.next_byte || self.page.at_end);
        if !goes_on {
            self.page.output.push('\n');
            self.newlines += 1;
        }
        let missing = next.first_line.saturating_sub(line + 1);
        if missing > 0 {
            self.holes.push(Hole { at: self.newlines, lines: missing });
        }
        // The last page of a log may begin with lines that were read already.
        let skip = if goes_on { 0 } else { known as usize };
        let from = self.page.output.len();
        self.page.output.extend(next.output.split_inclusive('\n').skip(skip));
        self.newlines += newlines(&self.page.output[from..]);
        self.page.showing = format!("{} lines", self.newlines + 1);
        self.page.lines = Some(self.newlines as u64 + 1);
        (self.page.next_line, self.page.partial) = (next.next_line, next.partial);
        self.page.gaps.extend(next.gaps);
        self.page.approximate |= next.approximate;
        (self.page.next_byte, self.page.at_end) = (next.next_byte, next.at_end);
        (self.page.total_lines, self.page.output_cut) = (next.total_lines, next.output_cut);
        (self.page.status, self.page.fate) = (next.status, next.fate);
    }

    /// The number of the last line.
    fn last_line(&self) -> u64 {
        let missing: u64 = self.holes.iter().map(|hole| hole.lines).sum();
        self.page.first_line + missing + self.newlines as u64
    }
}

/// The first page. If the last lines are too many for one page, it begins with the first of them.
async fn first(client: &Client, id: &str, wanted: Page) -> Result<LogPage, ClientError> {
    let from_line = |line: u64, limit: u64| client.log(id, Page::from_line(line).limit(limit));
    if let Some(byte) = wanted.from_byte {
        return client.log(id, Page::from_byte(byte).limit(wanted.limit.unwrap_or(u64::MAX))).await;
    }
    match (wanted.offset, wanted.limit) {
        (Some(line), limit) => from_line(line, limit.unwrap_or(u64::MAX)).await,
        (None, None) => from_line(0, u64::MAX).await,
        (None, Some(limit)) => {
            let last = client.log(id, Page::last(limit)).await?;
            let first_line = last.total_lines.saturating_sub(limit);
            if last.first_line > first_line { from_line(first_line, limit).await } else { Ok(last) }
        }
    }
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}
