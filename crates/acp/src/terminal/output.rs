//! `terminal/output`: the end of a terminal's output, and its exit status.

use super::{Done, Terminal, TerminalSeen, Terminals, exit_status};
use crate::message::Failure;
use outlast_client::{Chunk, Client, ClientError, From, ProcessInfo, Status};
use outlast_text::{Options, Redactor, render};
use serde_json::json;

/// The most bytes in an answer, however many the agent asks for: they go into one message, and then to a model.
pub(super) const CAP: u64 = 1 << 20;
/// How many more bytes are read than shown, so that a secret or an escape sequence that the beginning tears apart is not shown.
const MARGIN: u64 = 64 << 10;

impl Terminals {
    pub(super) async fn output(&self, of: &Terminal) -> Done {
        // The semaphore is never closed.
        let room = self.room.clone().acquire_owned().await.ok();
        match self.look(of).await {
            Ok(done) => Done { _room: room, ..done },
            Err(failure) => Err(failure).into(),
        }
    }

    async fn look(&self, of: &Terminal) -> Result<Done, Failure> {
        let id = of.id()?;
        let most = self.known().limit_of(&of.session_id, id).unwrap_or(CAP).min(CAP);
        let looked = async {
            let client = self.client(&of.session_id).await?;
            // Status first, then output, so that an answer with an end has all output before it.
            let Some((onlooker, info)) = self.look_on(&of.session_id, &of.terminal_id).await? else { return Ok(None) };
            let tail = Tail::read(&onlooker, &of.terminal_id, most).await?;
            Ok::<_, ClientError>(Some((client, info, tail)))
        };
        let (client, info, tail) = looked.await.map_err(|e| of.refused(&e))?.ok_or_else(|| of.not_found())?;
        let (output, truncated) = tail.shown(&self.redactor, &info, most);
        let is_over = info.status == Status::Exited;
        let exit_status = is_over.then(|| exit_status(&info.fate));
        let outcome = Ok(json!({ "output": output, "truncated": truncated, "exitStatus": exit_status }));
        Ok(Done { seen: is_over.then_some(TerminalSeen { client, id }), ..outcome.into() })
    }
}

/// The end of a log, with its gaps.
#[derive(Debug, Default)]
pub(super) struct Tail {
    parts: Vec<Part>,
    closed: bool,
}

#[derive(Debug)]
enum Part {
    Bytes { at: u64, bytes: Vec<u8> },
    Gap { from: u64, to: u64, why: String },
}

impl Tail {
    pub(super) async fn read(client: &Client, id: &str, most: u64) -> Result<Self, ClientError> {
        let mut chunks = client.read(id, From::Last(most + MARGIN)).masked();
        let mut parts = Vec::new();
        while let Some(chunk) = chunks.next().await? {
            match (chunk, parts.last_mut()) {
                (Chunk::Bytes { bytes: more, .. }, Some(Part::Bytes { bytes, .. })) => bytes.extend(more),
                (Chunk::Bytes { at, bytes }, _) => parts.push(Part::Bytes { at, bytes }),
                (Chunk::Gap { from, to, why }, _) => parts.push(Part::Gap { from, to, why }),
            }
        }
        Ok(Self { parts, closed: chunks.closed() })
    }

    /// The last `most` bytes as a reader sees them, and whether output is missing before or in them.
    pub(super) fn shown(&self, redactor: &Redactor, info: &ProcessInfo, most: u64) -> (String, bool) {
        let mut text = String::new();
        let mut truncated = false;
        for (n, part) in self.parts.iter().enumerate() {
            match part {
                Part::Bytes { at, bytes } => {
                    let is_last = n + 1 == self.parts.len();
                    let bytes = if is_last && !self.closed { without_redraws(bytes) } else { bytes };
                    let options = Options {
                        starts_mid_stream: *at > 0,
                        ends_mid_stream: is_last && !self.closed,
                        drop_shell_noise: true,
                        ..Options::new(redactor)
                    };
                    text += &render(bytes, &info.command, &options).text;
                    truncated |= *at > 0;
                }
                Part::Gap { from, to, why } => {
                    let begin = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                    text += &format!("{begin}[bytes {from} to {to} are gone: {why}]\n");
                    truncated = true;
                }
            }
        }
        let tail = last_bytes(&text, usize::try_from(most).unwrap_or(usize::MAX));
        (tail.to_owned(), truncated || tail.len() < text.len())
    }
}

/// Removes an unfinished line that the program redraws. An agent that reads on from where it stopped would see it change. The line is shown
/// once it is finished.
fn without_redraws(bytes: &[u8]) -> &[u8] {
    let (finished, line) = bytes.split_at(memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1));
    // A `\r` at the very end may be half of the line end.
    let judged = line.strip_suffix(b"\r").unwrap_or(line);
    if judged.contains(&b'\r') { finished } else { &bytes[..finished.len() + judged.len()] }
}

/// The end of a text, at most `most` bytes, from the beginning of a character on.
fn last_bytes(text: &str, most: usize) -> &str {
    let mut at = text.len().saturating_sub(most);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::Time;
    use proptest::prelude::*;

    fn info() -> ProcessInfo {
        let time: Time = "2023-11-14T22:13:20Z".parse().unwrap();
        ProcessInfo::new("proc_0123456789ab".parse().unwrap(), "make", Status::Running, "running", time)
    }

    fn shown(parts: Vec<Part>, most: u64) -> (String, bool) {
        Tail { parts, closed: true }.shown(&Redactor::new(true), &info(), most)
    }

    fn bytes(at: u64, text: &str) -> Part {
        Part::Bytes { at, bytes: text.into() }
    }

    #[test]
    fn all_of_it_is_as_a_reader_sees_it() {
        let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
        let (text, truncated) = shown(vec![bytes(0, &format!("\x1b[31mred\x1b[0m\nuse {token} now\n"))], CAP);
        assert!(text.starts_with("red\nuse ") && text.ends_with(" now\n") && !text.contains("a1B2a1B2") && !truncated, "{text}");
    }

    #[test]
    fn what_is_missing_is_told() {
        let gap = Part::Gap { from: 2, to: 9, why: "disk_full".into() };
        let (text, truncated) = shown(vec![bytes(0, "a"), gap, bytes(9, "rest of a line\nb\n")], CAP);
        assert_eq!((text.as_str(), truncated), ("a\n[bytes 2 to 9 are gone: disk_full]\nb\n", true));
    }

    #[test]
    fn what_was_shown_of_a_running_command_stays_as_it_was() {
        let log = "one\n\x1b[1mtwo\x1b[0m\r\n 10%\r 20%\r100%\ndone é";
        let mut before = String::new();
        for end in 0..=log.len() {
            let tail = Tail { parts: vec![Part::Bytes { at: 0, bytes: log.as_bytes()[..end].into() }], closed: false };
            let (text, _) = tail.shown(&Redactor::new(true), &info(), CAP);
            // Only the first drawing of a line that is redrawn later is taken back.
            assert!(text.starts_with(before.trim_end_matches(" 10%")), "{before:?} became {text:?}");
            before = text;
        }
        assert_eq!(before, "one\ntwo\n100%\ndone é");
    }

    #[test]
    fn nothing_may_be_asked_for_too() {
        assert_eq!(shown(vec![bytes(0, "é")], 0), (String::new(), true));
        assert_eq!(shown(Vec::new(), 0), (String::new(), false));
    }

    proptest! {
        #[test]
        fn a_cut_is_at_the_beginning_and_between_characters(text: String, most in 0..40_usize) {
            let tail = last_bytes(&text, most);
            prop_assert!(text.ends_with(tail) && tail.len() <= most);
            // It is shorter by at most one character.
            prop_assert!(tail.len() == text.len() || tail.len() + 4 > most);
        }
    }
}
