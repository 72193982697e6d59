//! `log --json --grep` without a number of lines: searches everything that is kept, or everything from a place on.

use super::super::Failure;
use outlast_client::{Client, LogPage, Owner, Page};
use regex::Regex;

/// How many characters of found lines an answer has at most: as many as a page.
const MAX_FOUND_CHARS: usize = 200_000;

/// The lines that were found so far.
struct PageSearch<'a> {
    grep: &'a Regex,
    found: Vec<String>,
    chars: usize,
    /// How many lines were searched.
    lines: u64,
    /// The last line, if its end has not been read.
    open: Option<String>,
}

/// Searches page by page, beginning with the wanted one. Returns one page about everything that was searched, with the matching lines as
/// output, and their number. It ends before the first line that does not fit.
pub(super) async fn page(client: &Client, id: &str, wanted: Page, grep: &Regex) -> Result<(LogPage, u64), Failure> {
    // What is searched is not shown, and settles no notice.
    let reader = client.with_owner(Owner::default());
    let mut search = PageSearch { grep, found: Vec::new(), chars: 0, lines: 0, open: None };
    let mut next = reader.log(id, wanted.limit(u64::MAX)).await?;
    let mut all = next.clone();
    all.gaps.clear();
    let mut at = None;
    loop {
        all.gaps.append(&mut next.gaps);
        all.approximate |= next.approximate;
        if let Some(first_omitted) = search.take(&next, next.from_byte == all.next_byte) {
            let rest = reader.log(id, Page::from_line(first_omitted).limit(1)).await?;
            (all.next_byte, all.at_end, all.partial, next.next_line) = (rest.from_byte, false, false, Some(rest.first_line));
            break;
        }
        let is_stuck = at.is_some_and(|at| next.next_byte <= at);
        at = Some(next.next_byte);
        (all.next_byte, all.at_end, all.partial) = (next.next_byte, next.at_end, next.partial);
        if next.at_end || is_stuck {
            // If that is the end of a process that is over, its notice counts as read.
            client.log(id, Page::from_byte(all.next_byte).limit(1)).await?;
            search.end_line();
            break;
        }
        next = reader.log(id, Page::from_byte(all.next_byte).limit(u64::MAX)).await?;
    }
    (all.next_line, all.total_lines, all.status, all.fate) = (next.next_line, next.total_lines, next.status, next.fate);
    (all.lines, all.output_cut, all.output) = (Some(search.lines), None, search.found.join("\n"));
    Ok((all, search.found.len() as u64))
}

impl PageSearch<'_> {
    /// Takes the lines of a page. `continues` says whether it begins where the one before ended. Returns the number of the first line that does not fit.
    fn take(&mut self, page: &LogPage, continues: bool) -> Option<u64> {
        if page.lines == Some(0) {
            return None;
        }
        let begun = self.open.take();
        if let Some(begun) = begun.as_ref().filter(|_| !continues)
            && !self.fits(begun)
        {
            return Some(page.first_line.saturating_sub(1));
        }
        let last = page.output.split('\n').count() - 1;
        for (n, line) in page.output.split('\n').enumerate() {
            let whole = match begun.as_ref().filter(|_| n == 0 && continues) {
                Some(begun) => format!("{begun}{line}"),
                None => line.to_owned(),
            };
            if n == last && page.partial {
                self.open = Some(whole);
            } else if !self.fits(&whole) {
                return Some(page.first_line + n as u64);
            }
        }
        None
    }

    /// The last line has no end.
    fn end_line(&mut self) {
        if let Some(line) = self.open.take() {
            // It may exceed the limit by itself, so that nothing is left for another answer.
            self.chars = 0;
            self.fits(&line);
        }
    }

    /// Takes a line if it matches. Whether it has room, if it does.
    fn fits(&mut self, line: &str) -> bool {
        if self.grep.is_match(line) {
            let chars = line.chars().count() + 1;
            if self.chars + chars > MAX_FOUND_CHARS && !self.found.is_empty() {
                return false;
            }
            self.chars += chars;
            self.found.push(line.to_owned());
        }
        self.lines += 1;
        true
    }
}
