//! The JSON shapes in `meta`, version 1.

use outlast_core::{Cause, Ending, Outcome, Owner, StartFailure, Stop, StopWay, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A block: length, checksum, JSON.
pub(super) fn seal<T: Serialize>(value: &T, room: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; 8];
    serde_json::to_writer(&mut out, value).ok()?;
    if out.len() > room {
        return None;
    }
    let len = u32::try_from(out.len() - 8).ok()?;
    let crc = crc32fast::hash(&out[8..]);
    out[..4].copy_from_slice(&len.to_le_bytes());
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

/// The contents of a block: none if it was never written, an error if it is damaged.
pub(super) fn unseal<T: for<'de> Deserialize<'de>>(block: &[u8]) -> Result<Option<T>, ()> {
    let (head, body) = block.split_at_checked(8).ok_or(())?;
    let len = u32::from_le_bytes(head[..4].try_into().map_err(|_| ())?) as usize;
    let crc = u32::from_le_bytes(head[4..].try_into().map_err(|_| ())?);
    if len == 0 && crc == 0 {
        return Ok(None);
    }
    let json = body.get(..len).ok_or(())?;
    if crc32fast::hash(json) != crc {
        return Err(());
    }
    serde_json::from_slice(json).map(Some).map_err(|_| ())
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum CauseV1 {
    Own,
    Asked {
        source: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<String>,
    },
    Deadline,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StopV1 {
    cause: CauseV1,
    /// Absent: TERM only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grace_us: Option<u64>,
    at: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum OutcomeV1 {
    Code { code: i32 },
    Signal { number: i32, core: bool },
    NeverStarted { errno: i32, what: String },
    Unknown,
}

#[derive(Serialize, Deserialize)]
pub(super) struct EndedV1 {
    pub(super) outcome: OutcomeV1,
    pub(super) cause: CauseV1,
    pub(super) at: Time,
    pub(super) log_end: u64,
    pub(super) lines: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) oom: bool,
}

impl From<Cause> for CauseV1 {
    fn from(c: Cause) -> Self {
        match c {
            Cause::OfItsOwn => Self::Own,
            Cause::Asked { by, source } => Self::Asked { source, session: by.session, task: by.task, generation: by.generation },
            Cause::Deadline => Self::Deadline,
        }
    }
}

impl From<CauseV1> for Cause {
    fn from(c: CauseV1) -> Self {
        match c {
            CauseV1::Own => Self::OfItsOwn,
            CauseV1::Asked { source, session, task, generation } => Self::Asked { by: Owner { session, task, generation }, source },
            CauseV1::Deadline => Self::Deadline,
        }
    }
}

impl StopV1 {
    pub(super) fn new(stop: Stop, at: Time) -> Self {
        let grace_us = match stop.way {
            StopWay::Escalate { grace } => Some(grace.as_micros() as u64),
            StopWay::TermOnly => None,
        };
        Self { cause: stop.cause.into(), grace_us, at }
    }
    pub(super) fn into_core(self) -> (Stop, Time) {
        let way = match self.grace_us {
            Some(us) => StopWay::Escalate { grace: Duration::from_micros(us) },
            None => StopWay::TermOnly,
        };
        (Stop { cause: self.cause.into(), way }, self.at)
    }
}

impl EndedV1 {
    pub(super) fn new(e: Ending, log_end: u64, lines: u64) -> Self {
        let outcome = match e.outcome {
            Outcome::Code(code) => OutcomeV1::Code { code },
            Outcome::Signal { number, dumped_core } => OutcomeV1::Signal { number, core: dumped_core },
            Outcome::NeverStarted(f) => OutcomeV1::NeverStarted { errno: f.errno, what: f.what },
            Outcome::Unknown => OutcomeV1::Unknown,
        };
        Self { outcome, cause: e.cause.into(), at: e.at, log_end, lines, oom: e.oom }
    }
    pub(super) fn into_ending(self) -> Ending {
        let outcome = match self.outcome {
            OutcomeV1::Code { code } => Outcome::Code(code),
            OutcomeV1::Signal { number, core } => Outcome::Signal { number, dumped_core: core },
            OutcomeV1::NeverStarted { errno, what } => Outcome::NeverStarted(StartFailure { errno, what }),
            OutcomeV1::Unknown => Outcome::Unknown,
        };
        Ending { outcome, cause: self.cause.into(), at: self.at, oom: self.oom }
    }
}
