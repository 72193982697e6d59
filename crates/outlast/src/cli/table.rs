//! Tables with aligned columns that fit the terminal.

use super::out::{Out, Tone, tame};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// One cell.
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Text from outside. What would disturb the terminal is replaced.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: tame(text), tone: Tone::Plain }
    }

    /// The same in a tone.
    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// A column, and what happens to it on a narrow terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    head: &'static str,
    /// It may be cut to this width.
    least: Option<usize>,
    /// It may be left out; the column with the smallest number is left out first.
    goes: Option<u8>,
    /// It is cut only once all others have their least width.
    is_cut_last: bool,
    /// Its end says more than its beginning, so it is cut at the beginning of its value.
    keeps_end: bool,
}

impl Column {
    /// One that is neither cut nor left out.
    pub(crate) const fn new(head: &'static str) -> Self {
        Self { head, least: None, goes: None, is_cut_last: false, keeps_end: false }
    }

    /// The same, which may be cut to a width.
    pub(crate) const fn cut(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }

    /// The same, which is cut only once all others have their least width.
    pub(crate) const fn last(self) -> Self {
        Self { is_cut_last: true, ..self }
    }

    /// The same, of whose cells the end is shown if they are cut.
    pub(crate) const fn keeping_end(self) -> Self {
        Self { keeps_end: true, ..self }
    }

    /// The same, which may be left out; the column with the smallest number is left out first.
    pub(crate) const fn goes(self, turn: u8) -> Self {
        Self { goes: Some(turn), ..self }
    }
}

const GAP: usize = 2;

/// The lines of a table that is no wider than the terminal. Empty columns are left out.
pub(crate) fn lay_out<const N: usize>(columns: [Column; N], rows: &[[Cell; N]], out: &Out) -> Vec<String> {
    let used: Vec<usize> = (0..N).filter(|c| rows.iter().any(|r| !r[*c].text.is_empty())).collect();
    let natural = |c: usize| rows.iter().map(|r| r[c].text.width()).chain([columns[c].head.width()]).max().unwrap_or(0);
    let mut fit: Vec<(usize, usize)> = used.into_iter().map(|c| (c, natural(c))).collect();
    if let Some(width) = out.width {
        narrow(&columns, &mut fit, width);
    }
    let Some((&(last, room), before)) = fit.split_last() else { return Vec::new() };
    let line = |cells: &dyn Fn(usize) -> (String, Tone)| {
        let mut line = String::new();
        for &(c, width) in before {
            let (text, tone) = cells(c);
            let text = if columns[c].keeps_end { cut_before_end(&text, width) } else { cut(&text, width) };
            line += &out.paint(tone, &text);
            line += &" ".repeat((width + GAP).saturating_sub(text.width()));
        }
        let (text, tone) = cells(last);
        line += &out.paint(tone, &cut(&text, room));
        line.trim_end().to_owned()
    };
    let head = line(&|c| (columns[c].head.to_owned(), Tone::Quiet));
    let body = rows.iter().map(|r| line(&|c| (r[c].text.clone(), r[c].tone)));
    std::iter::once(head).chain(body).collect()
}

/// Whether the table fits the terminal with every column, those that are cut last as wide as they are.
pub(crate) fn fits<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], out: &Out) -> bool {
    let Some(width) = out.width else { return true };
    let natural = |c: usize| rows.iter().map(|r| r[c].text.width()).chain([columns[c].head.width()]).max().unwrap_or(0);
    let least = |c: usize| match columns[c].least {
        Some(least) if !columns[c].is_cut_last => least.min(natural(c)),
        _ => natural(c),
    };
    let used = (0..N).filter(|c| rows.iter().any(|r| !r[*c].text.is_empty()));
    used.map(|c| least(c) + GAP).sum::<usize>() <= width + GAP
}

/// Makes the columns fit: some are left out, then the widest that may be cut are cut, and at last every one is.
fn narrow(columns: &[Column], fit: &mut Vec<(usize, usize)>, room: usize) {
    let least = |c: usize, width: usize| columns[c].least.map_or(width, |least| least.min(width));
    let all = |widths: &mut dyn Iterator<Item = usize>| widths.map(|w| w + GAP).sum::<usize>().saturating_sub(GAP);
    while all(&mut fit.iter().map(|(c, w)| least(*c, *w))) > room {
        let Some(goes) = (0..fit.len()).filter(|i| columns[fit[*i].0].goes.is_some()).min_by_key(|i| columns[fit[*i].0].goes) else {
            break;
        };
        fit.remove(goes);
    }
    while all(&mut fit.iter().map(|(_, w)| *w)) > room {
        let can_be_cut = |i: &usize| fit[*i].1 > least(fit[*i].0, fit[*i].1);
        let wide = (0..fit.len()).filter(can_be_cut).max_by_key(|i| (!columns[fit[*i].0].is_cut_last, fit[*i].1));
        // Even the least widths are too much: the last column that can be cut is cut further.
        match wide.or_else(|| (0..fit.len()).rev().find(|i| fit[*i].1 > 1)) {
            Some(i) => fit[i].1 -= 1,
            // A terminal of a few columns shows what it can.
            None if fit.len() > 1 => _ = fit.pop(),
            None => return,
        }
    }
}

/// The text in at most `room` columns, with a mark where it was cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let (mut short, mut used) = ("", 0);
    for end in ends(text) {
        used += text[short.len()..end].width();
        if used >= room {
            break;
        }
        short = &text[..end];
    }
    if room == 0 { String::new() } else { format!("{short}…") }
}

/// The same for a text such as `KEY=VALUE` of which the end is shown: `procfile=…/shop/Procfile`.
fn cut_before_end(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    // Of several labels, the key of the first would seem to have the last value.
    let key = text.split_once('=').filter(|(key, value)| !value.contains('=') && key.width() + 2 < room / 2 + 4).map_or("", |(key, _)| key);
    let (key, value) = if key.is_empty() { (String::new(), text) } else { (format!("{key}="), &text[key.len() + 1..]) };
    let room = room.saturating_sub(key.width());
    let starts = value.char_indices().filter(|(_, c)| c.width() != Some(0)).map(|(at, _)| at);
    match starts.map(|at| &value[at..]).find(|end| end.width() < room) {
        Some(end) => format!("{key}…{end}"),
        None => cut(text, room + key.width()),
    }
}

/// Where letters end, each with the combining marks after it: a mark may make its letter wider.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    let begins = text.char_indices().filter(|(_, c)| c.width() != Some(0)).map(|(at, _)| at);
    begins.filter(|at| *at > 0).chain([text.len()])
}

/// The text in lines of at most `room` columns, broken between words if possible.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The text in lines that fit beside `before` columns. Without a width, or if it fits, it is one line as it is.
pub(crate) fn wrap_beside(before: usize, text: &str, width: Option<usize>) -> Vec<String> {
    match width.filter(|width| before + text.width() > *width) {
        Some(width) => wrap(text, width.saturating_sub(before)),
        None => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] =
        [Column::new("ID"), Column::new("STATE").cut(6), Column::new("PID").goes(1), Column::new("COMMAND").cut(12).goes(9)];

    fn lines(width: usize) -> Vec<String> {
        let row = |id: &str, state: &str, pid: &str, command: &str| [id, state, pid, command].map(Cell::new);
        let rows = [
            row("proc_0123456789ab", "running", "123456", "日本語 サーバ --with many --flags and more"),
            row("proc_0123456789ac", "exited, code unknown", "", "true"),
            row("proc_0123456789ad", "☁️☁️☁️☁️☁️☁️☁️☁️", "", "☁️☁️ 👩‍🚀☁️ up ☁️"),
        ];
        lay_out(COLUMNS, &rows, &Out::plain(Some(width)))
    }

    #[test]
    fn a_table_is_never_wider_than_the_terminal() {
        for width in 1..200 {
            for line in lines(width) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
        assert!(lines(120)[1].ends_with("more"), "{:#?}", lines(120));
        assert!(lines(60)[0].contains("PID") && !lines(40)[0].contains("PID"), "{:#?}", lines(40));
        assert!(lines(40)[1].contains("proc_0123456789ab"), "{:#?}", lines(40));
    }

    #[test]
    fn a_cut_counts_columns_and_not_letters() {
        assert_eq!((cut("日本語", 6), cut("日本語", 5), cut("日本語", 4)), ("日本語".into(), "日本…".into(), "日…".into()));
        assert_eq!((cut("☁️☁️", 4), cut("☁️☁️", 3), cut("☁️☁️", 2)), ("☁️☁️".into(), "☁️…".into(), "…".into()));
        assert_eq!((cut("abc", 0), cut("abc", 1), cut("abc", 3)), (String::new(), "…".into(), "abc".into()));
    }

    #[test]
    fn a_label_that_is_cut_keeps_the_end_of_its_value() {
        let label = "procfile=/home/me/work/shop/Procfile";
        assert_eq!(cut_before_end(label, 40), label);
        assert_eq!(cut_before_end(label, 24), "procfile=…/shop/Procfile");
        assert_eq!(cut_before_end(label, 12), "…op/Procfile");
        assert_eq!(cut_before_end("app=shop, procfile=/a/b/Procfile", 16), "…e=/a/b/Procfile");
        for room in 0..40 {
            for text in [label, "日本=語サーバ日本語", "☁️☁️=☁️☁️☁️☁️"] {
                assert!(cut_before_end(text, room).width() <= room, "{room}: {:?}", cut_before_end(text, room));
            }
        }
    }

    #[test]
    fn a_column_that_is_cut_last_keeps_its_width() {
        let columns = [Column::new("STATE").cut(6).last(), Column::new("COMMAND").cut(4)];
        let rows = [["exited 0, 1 runs", "a long command line"].map(Cell::new)];
        assert_eq!(lay_out(columns, &rows, &Out::plain(Some(24)))[1], "exited 0, 1 runs  a lon…");
        assert_eq!(lay_out(columns, &rows, &Out::plain(Some(20)))[1], "exited 0, 1 r…  a l…");
        assert!(fits(&columns, &rows, &Out::plain(Some(22))) && !fits(&columns, &rows, &Out::plain(Some(21))));
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a-word-that-is-longer than that", 8), ["a-word-that-is-longer", "than", "that"]);
        assert_eq!(wrap("", 8), [""]);
        assert_eq!(wrap_beside(4, "one  two three", Some(18)), ["one  two three"]);
        assert_eq!(wrap_beside(4, "one  two three", Some(12)), ["one two", "three"]);
        assert_eq!(wrap_beside(4, "one  two three", None), ["one  two three"]);
    }
}
