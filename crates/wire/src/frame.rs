//! Frames: length, kind, payload.
//!
//! A frame is the little-endian `u32` length of the rest, one byte of kind, and the payload. The payload is a JSON text. In a raw
//! frame it is the `u64` number of the message that the bytes belong to, followed by the bytes.

use serde::Serialize;

/// The longest frame that either side accepts. A request with a large environment fits; a damaged length cannot use up all memory.
pub const MAX: usize = 16 << 20;
/// The most raw bytes in one frame.
pub const RAW_CHUNK: usize = 64 << 10;

const JSON: u8 = 0;
const RAW: u8 = 1;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A JSON message.
    Json(Vec<u8>),
    /// Bytes that belong to message `of`.
    Raw {
        /// The number of the message they belong to.
        of: u64,
        /// The raw bytes.
        bytes: Vec<u8>,
    },
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The length is above [`MAX`].
    #[error("a frame of {len} bytes is longer than the limit of {MAX}")]
    TooLong {
        /// The length field.
        len: usize,
    },
    /// The kind is unknown.
    #[error("a frame of unknown kind {kind}")]
    UnknownKind {
        /// The kind byte.
        kind: u8,
    },
    /// The frame is shorter than its own header.
    #[error("a frame too short for its kind")]
    TooShort,
}

/// A frame that carries `message`.
pub fn json<T: Serialize>(message: &T) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, JSON];
    // Message types hold only strings, numbers and lists with string keys. Those always serialise.
    serde_json::to_writer(&mut out, message).expect("a message serialises");
    finish(out)
}

/// A frame with an answer to message `of`. The answer is already JSON.
pub fn answer(of: u64, json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 48);
    out.extend_from_slice(&[0, 0, 0, 0, JSON]);
    out.extend_from_slice(format!("{{\"of\":{of},\"answer\":").as_bytes());
    out.extend_from_slice(json);
    out.push(b'}');
    finish(out)
}

/// A frame that carries `bytes` for message `of`.
pub fn raw(of: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(13 + bytes.len());
    out.extend_from_slice(&[0, 0, 0, 0, RAW]);
    out.extend_from_slice(&of.to_le_bytes());
    out.extend_from_slice(bytes);
    finish(out)
}

fn finish(mut out: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(out.len() - 4).expect("callers keep frames below the limit");
    out[..4].copy_from_slice(&len.to_le_bytes());
    out
}

/// Splits incoming bytes into frames.
#[derive(Debug, Default)]
pub struct Splitter {
    held: Vec<u8>,
    start: usize,
}

impl Splitter {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.held.len() {
            self.held.clear();
            self.start = 0;
        } else if self.start > 64 << 10 {
            self.held.drain(..self.start);
            self.start = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next complete frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, BadFrame> {
        let rest = &self.held[self.start..];
        let Some((head, body)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head) as usize;
        if len > MAX {
            return Err(BadFrame::TooLong { len });
        }
        if body.len() < len {
            return Ok(None);
        }
        let frame = parse(&body[..len])?;
        self.start += 4 + len;
        if self.start == self.held.len() {
            // An idle connection keeps no large buffer.
            self.held.clear();
            self.held.shrink_to(4 << 10);
            self.start = 0;
        }
        Ok(Some(frame))
    }
}

fn parse(body: &[u8]) -> Result<Frame, BadFrame> {
    match body.split_first() {
        None => Err(BadFrame::TooShort),
        Some((&JSON, rest)) => Ok(Frame::Json(rest.to_vec())),
        Some((&RAW, rest)) => {
            let (of, bytes) = rest.split_first_chunk::<8>().ok_or(BadFrame::TooShort)?;
            Ok(Frame::Raw { of: u64::from_le_bytes(*of), bytes: bytes.to_vec() })
        }
        Some((&kind, _)) => Err(BadFrame::UnknownKind { kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_at_every_split() {
        let bytes = [json(&"hello"), raw(7, b"\0\xff"), raw(8, b"")].concat();
        for cut in 0..=bytes.len() {
            let mut s = Splitter::default();
            let mut got = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                s.push(part);
                while let Some(f) = s.next_frame().unwrap() {
                    got.push(f);
                }
            }
            assert_eq!(
                got,
                [Frame::Json(b"\"hello\"".to_vec()), Frame::Raw { of: 7, bytes: b"\0\xff".to_vec() }, Frame::Raw { of: 8, bytes: vec![] }]
            );
        }
    }

    #[test]
    fn nonsense_is_refused_before_it_costs_memory() {
        for (bytes, want) in [
            (vec![0xff, 0xff, 0xff, 0xff], BadFrame::TooLong { len: u32::MAX as usize }),
            (vec![0, 0, 0, 0], BadFrame::TooShort),
            (vec![1, 0, 0, 0, 9], BadFrame::UnknownKind { kind: 9 }),
            (vec![2, 0, 0, 0, 1, 0], BadFrame::TooShort),
        ] {
            let mut s = Splitter::default();
            s.push(&bytes);
            assert_eq!(s.next_frame(), Err(want));
        }
    }
}
