//! Version 1 of the messages between a link and the keeper's `connect`, which serves the processes of one sandbox over one stream.
//!
//! The stream carries the frames of [`crate::frame`]. The link numbers its requests. Raw frames belong to the request of their number:
//! the request to start, an attached process, or a channel to a keeper's socket.
//!
//! Losing the stream loses nothing. Whatever is sent here is also in the sandbox's folders, and every request that changes something may
//! be repeated.

use outlast_core::{OsText, ProcessId};
use serde::{Deserialize, Serialize};

/// What `connect` writes first. A login shell on the way may have written something before it, which the link skips.
pub const PREAMBLE: &[u8] = b"\0outlast-connect-1\n";
/// How much the link skips at most.
pub const NOISE_LIMIT: usize = 64 << 10;
/// The most bytes of a log in one update.
pub const LOG_CHUNK: usize = 256 << 10;
/// The most bytes of a file that only grows in one update.
pub const FILE_CHUNK: usize = 256 << 10;
/// How many bytes of a log may be under way before the link allows more.
pub const LOG_WINDOW: u64 = 1 << 20;
/// How many bytes may be under way to the socket of one keeper.
pub const CHANNEL_WINDOW: u64 = 256 << 10;
/// The longest request to start: a spec with both of its parts.
pub const SPEC_LIMIT: u64 = 15 << 20;
/// The length of the four blocks of a `meta`. Each is sent without the zeros at its end.
pub const META_BLOCK: usize = 1024;

/// One message to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToSandbox {
    /// The link's own number for the message. It is not used twice on one stream.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub ask: SandboxRequest,
}

/// Requests to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum SandboxRequest {
    /// First on each stream. From then on, earlier streams of the same home change nothing any more.
    Hello {
        /// The newest version that the link speaks.
        version: u32,
    },
    /// Start a process. Its spec follows in raw frames. If the process exists with the same content, nothing is started, and the answer
    /// is the same.
    Start {
        /// Its id.
        process: ProcessId,
        /// The length of the spec.
        len: u64,
    },
    /// Send what the folder of a process has from these offsets on, and what is added to it. The number of this request is that of the
    /// updates.
    Attach {
        /// The process.
        process: ProcessId,
        /// How much of its log the link has.
        log: u64,
        /// How much of the files that only grow the link has.
        files: FileOffsets,
        /// The log may be sent up to here.
        upto: u64,
    },
    /// The log of an attached process may be sent up to here.
    Allow {
        /// The number of the request to attach.
        of: u64,
        /// The offset.
        upto: u64,
    },
    /// Send no more updates.
    Detach {
        /// The number of the request to attach.
        of: u64,
    },
    /// Connect to the socket of a keeper. Raw frames with the number of this request go to it, and come from it.
    Dial {
        /// The process.
        process: ProcessId,
    },
    /// Close such a connection.
    HangUp {
        /// The number of the request to connect.
        of: u64,
    },
    /// How many bytes of its input a process has taken.
    InputTaken {
        /// The process.
        process: ProcessId,
    },
    /// List the processes of the sandbox's home.
    List,
    /// Remove the folder of a process that is over.
    Remove {
        /// The process.
        process: ProcessId,
    },
    /// Answer, to show that the stream works.
    Ping,
}

/// Offsets in the files of a process that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileOffsets {
    /// In `journal`.
    #[serde(default)]
    pub journal: u64,
    /// In `lines`.
    #[serde(default)]
    pub lines: u64,
    /// In `times`.
    #[serde(default)]
    pub times: u64,
}

/// One message from a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromSandbox {
    /// The number of the request that it answers, or to which it belongs.
    pub of: u64,
    /// The answer.
    #[serde(flatten)]
    pub say: SandboxReply,
}

/// Messages from a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum SandboxReply {
    /// The sandbox's half of the hello.
    Hello(Box<SandboxHello>),
    /// The request was fulfilled.
    Ok,
    /// What is new in the folder of an attached process. One raw frame follows with the bytes, in the order of the fields.
    Update(Update),
    /// Bytes of a channel were written to the keeper's socket.
    Taken {
        /// How many since the last message.
        bytes: u64,
    },
    /// The keeper closed the connection, or none listens.
    HungUp,
    /// How many bytes of its input a process has taken.
    InputTaken {
        /// The bytes, as callers count them.
        bytes: u64,
    },
    /// The processes of the sandbox's home.
    Processes {
        /// Their ids, sorted.
        processes: Vec<ProcessId>,
    },
    /// The request was refused.
    Refused {
        /// A stable code, from [`crate::code`].
        code: String,
        /// What was wrong.
        error: String,
    },
}

/// What a sandbox says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxHello {
    /// The version that will be spoken.
    pub version: u32,
    /// The program's own version.
    pub program: String,
    /// The identity of the sandbox's home, in hexadecimal: random, and made with the home. Another identity is another sandbox.
    pub home: String,
    /// The boot id of its kernel, in hexadecimal.
    pub boot: String,
    /// The user there.
    pub uid: u32,
    /// The architecture, such as `x86_64`.
    pub arch: String,
    /// Its clock, microseconds since 1970.
    pub clock_us: i64,
    /// Where commands start that name no directory.
    pub cwd: OsText,
}

/// What is new in the folder of an attached process.
///
/// An update has a `meta` with an end, of the command or of its output, only if the link then has the whole log. So no end is known before
/// the output that came before it. Another `meta` may speak of a longer log than the link has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Update {
    /// The bytes of the log. Those between the end of the last bytes and these are missing in the sandbox, too.
    #[serde(default, skip_serializing_if = "Piece::is_nothing")]
    pub log: Piece,
    /// The next bytes of `journal`.
    #[serde(default, skip_serializing_if = "Piece::is_nothing")]
    pub journal: Piece,
    /// The next bytes of `lines`.
    #[serde(default, skip_serializing_if = "Piece::is_nothing")]
    pub lines: Piece,
    /// The next bytes of `times`.
    #[serde(default, skip_serializing_if = "Piece::is_nothing")]
    pub times: Piece,
    /// How many bytes of each block of `meta` follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<[u16; 4]>,
    /// The length of the log in the sandbox. What is past the bytes of this update is not here yet.
    pub log_end: u64,
    /// Whether nothing more will be written to the folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_over: bool,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Piece {
    /// Where they begin.
    pub at: u64,
    /// How many they are.
    pub len: u64,
}

impl Piece {
    /// Whether it has no bytes and is at the beginning.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The bytes of an update, apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateBytes<'a> {
    /// Those of the log.
    pub log: &'a [u8],
    /// Those of `journal`.
    pub journal: &'a [u8],
    /// Those of `lines`.
    pub lines: &'a [u8],
    /// Those of `times`.
    pub times: &'a [u8],
    /// A whole `meta`, its zeros put back.
    pub meta: Option<Box<[u8; 4 * META_BLOCK]>>,
}

impl Update {
    /// Takes the bytes of an update apart. None if there are fewer or more than it says, or a block is too long.
    pub fn split<'a>(&self, bytes: &'a [u8]) -> Option<UpdateBytes<'a>> {
        let (log, rest) = cut(bytes, self.log.len, LOG_CHUNK)?;
        let (journal, rest) = cut(rest, self.journal.len, FILE_CHUNK)?;
        let (lines, rest) = cut(rest, self.lines.len, FILE_CHUNK)?;
        let (times, mut rest) = cut(rest, self.times.len, FILE_CHUNK)?;
        let mut meta = None;
        if let Some(blocks) = self.meta {
            let mut whole = Box::new([0; 4 * META_BLOCK]);
            for (block, len) in whole.chunks_exact_mut(META_BLOCK).zip(blocks) {
                let taken;
                (taken, rest) = cut(rest, len.into(), META_BLOCK)?;
                block[..taken.len()].copy_from_slice(taken);
            }
            meta = Some(whole);
        }
        rest.is_empty().then_some(UpdateBytes { log, journal, lines, times, meta })
    }

    /// The blocks of a `meta` without the zeros at their ends, and their lengths.
    pub fn blocks(meta: &[u8; 4 * META_BLOCK]) -> ([u16; 4], Vec<u8>) {
        let (mut lengths, mut bytes) = ([0; 4], Vec::new());
        for (block, length) in meta.chunks_exact(META_BLOCK).zip(&mut lengths) {
            let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            // A block is far shorter than the limit of the type.
            *length = used as u16;
            bytes.extend_from_slice(&block[..used]);
        }
        (lengths, bytes)
    }
}

fn cut(bytes: &[u8], len: u64, most: usize) -> Option<(&[u8], &[u8])> {
    let len = usize::try_from(len).ok().filter(|len| *len <= most)?;
    bytes.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_comes_apart_as_it_was_put_together() {
        let mut meta = [0; 4 * META_BLOCK];
        (meta[0], meta[700], meta[META_BLOCK], meta[4095]) = (1, 2, 3, 4);
        let (lengths, blocks) = Update::blocks(&meta);
        assert_eq!(lengths, [701, 1, 0, 1024]);
        let piece = |at, len| Piece { at, len };
        let update = Update { log: piece(7, 3), journal: piece(0, 1), times: piece(9, 2), meta: Some(lengths), ..Update::default() };
        let bytes = [b"log", b"j" as &[u8], b"tt", &blocks].concat();
        let apart = update.split(&bytes).unwrap();
        assert_eq!((apart.log, apart.journal, apart.lines, apart.times), (&b"log"[..], &b"j"[..], &b""[..], &b"tt"[..]));
        assert_eq!(*apart.meta.unwrap(), meta);
        for wrong in [&bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat(), b""] {
            assert_eq!(update.split(wrong), None, "{} bytes", wrong.len());
        }
    }

    #[test]
    fn an_update_that_claims_too_much_is_none() {
        let long = |len| Piece { at: 0, len };
        let bytes = vec![0; LOG_CHUNK + 1];
        let too_long = [
            Update { log: long(LOG_CHUNK as u64 + 1), ..Update::default() },
            Update { log: long(u64::MAX), ..Update::default() },
            Update { journal: long(FILE_CHUNK as u64 + 1), ..Update::default() },
            Update { meta: Some([0, 0, 0, META_BLOCK as u16 + 1]), ..Update::default() },
        ];
        for update in too_long {
            assert_eq!(update.split(&bytes), None, "{update:?}");
        }
    }
}
