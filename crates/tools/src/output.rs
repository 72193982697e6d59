//! Output for an answer: all of it, or its beginning and its end around a note, two fifths and three fifths of the room.

use crate::{Host, Policy};
use outlast_client::{Client, ClientError, Event, LogPage, Page, Status};
use outlast_text::{head_chars, tail_chars};

/// The output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// Whether a part in the middle is left out.
    pub(crate) cut: bool,
    /// Ranges of output that were lost.
    pub(crate) gaps: Vec<Event>,
    /// Whether the command had ended when this was read. That read consumed the notice of the end.
    pub(crate) over: bool,
    /// Its tokens, if they were limited.
    pub(crate) tokens: Option<usize>,
}

impl Output {
    /// Reads the output of a process, limited to `tokens` or to the host's number of characters.
    pub(crate) async fn read(client: &Client, host: &Host, id: &str, tokens: Option<usize>) -> Result<Self, ClientError> {
        if let Some(tokens) = tokens {
            return Self::brief(client, host, id, tokens).await;
        }
        let head = client.log(id, Page::from_line(0).limit(u64::MAX)).await?;
        if head.at_end && head.output_cut.is_none() {
            return Ok(Self { gaps: head.gaps, over: head.status == Status::Exited, ..Self::of(&head.output, host) });
        }
        let tail = client.log(id, Page::last(u64::MAX)).await?;
        Ok(Self::around(&head, &tail, host))
    }

    /// Limits a text to the host's number of characters.
    pub(crate) fn of(text: &str, host: &Host) -> Self {
        let (text, chars) = (trimmed(text), host.output_chars);
        let total = text.chars().count();
        if total <= chars {
            return Self { text: text.to_owned(), ..Self::default() };
        }
        let (head, tail) = (first(text, chars), last(text, chars));
        let left_out = total - head.chars().count() - tail.chars().count();
        let line = head.matches('\n').count();
        Self { text: join(head, &notice(host, &format!("{left_out} of {total} characters"), line), tail), cut: true, ..Self::default() }
    }

    /// The beginning and the end of an output that is too long to be read at once. The part in between is counted in bytes.
    fn around(head: &LogPage, tail: &LogPage, host: &Host) -> Self {
        let chars = host.output_chars;
        let (first, last) = (first(head.output.trim_start_matches('\n'), chars), last(tail.output.trim_end(), chars));
        let total = tail.next_byte;
        let left_out = total.saturating_sub((first.len() + last.len()) as u64);
        let line = first.matches('\n').count();
        let gaps = if tail.gaps.is_empty() { head.gaps.clone() } else { tail.gaps.clone() };
        Self {
            text: join(first, &notice(host, &format!("about {left_out} of {total} bytes"), line), last),
            cut: true,
            gaps,
            over: tail.status == Status::Exited,
            tokens: None,
        }
    }
}

/// Removes blank lines at the beginning and white space at the end.
fn trimmed(text: &str) -> &str {
    text.trim_end().trim_start_matches(['\n', '\r'])
}

fn first(text: &str, chars: usize) -> &str {
    head_chars(text, chars * 2 / 5).text
}

fn last(text: &str, chars: usize) -> &str {
    tail_chars(text, chars - chars * 2 / 5).text
}

fn notice(host: &Host, how_much: &str, line: usize) -> String {
    match host.policy {
        Policy::Agent => {
            let reads = host.profile.read_lines(line as u64, None);
            format!("[OUTPUT TRUNCATED: {how_much} left out here; {reads} reads on from line {line}]")
        }
        Policy::CodeExecution => format!("[OUTPUT TRUNCATED: {how_much} left out here]"),
    }
}

fn join(head: &str, notice: &str, tail: &str) -> String {
    format!("{}\n\n{notice}\n\n{tail}", head.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::caller;

    fn host(output_chars: usize) -> Host {
        Host { output_chars, ..Host::new(caller([], std::path::Path::new("/"))) }
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(Output::of("\n  a\nb\n\n", &host(10)), Output { text: "  a\nb".into(), ..Output::default() });
    }

    #[test]
    fn long_output_keeps_two_fifths_of_its_beginning_and_three_of_its_end() {
        let text: String = (0..1000).map(|n| format!("line {n:04}\n")).collect();
        let cut = Output::of(&text, &host(1000));
        assert!(cut.cut);
        let (head, rest) = cut.text.split_once("\n\n[OUTPUT TRUNCATED: ").unwrap();
        let (notice, tail) = rest.split_once("]\n\n").unwrap();
        assert_eq!((head.lines().count(), head.lines().last()), (40, Some("line 0039")));
        assert_eq!((tail.lines().count(), tail.lines().last()), (60, Some("line 0999")));
        assert_eq!(notice, "9000 of 9999 characters left out here; process(action=\"log\", offset=40) reads on from line 40");
        // One long line is cut inside.
        let cut = Output::of(&"é".repeat(5000), &host(100));
        assert!(
            cut.text.starts_with(&"é".repeat(40)) && cut.text.ends_with(&"é".repeat(60)) && cut.text.contains("4900 of 5000"),
            "{cut:?}"
        );
    }
}
