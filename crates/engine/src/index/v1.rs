//! The columns of a row as they are on disk. They are types of their own, so that renaming a field elsewhere changes nothing on disk.

use outlast_core::{Cause, Ending, Incarnation, Outcome, OutputEnd, Owner, Phase, ProcessId, Spec, StartFailure, Time};
use outlast_store::segments::Keep;
use outlast_store::spec::Kept;
use serde::{Deserialize, Serialize};

/// The `kept` column.
#[derive(Serialize, Deserialize)]
pub(super) struct KeptV1 {
    spec: Spec,
    hash: String,
    accepted_at_us: i64,
    cwd: outlast_core::OsText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<outlast_core::OsText>,
    #[serde(default)]
    command_scrubbed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env_scrubbed: Vec<outlast_core::OsText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    head: u64,
    segment: u64,
    tail: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    masks: Option<outlast_store::spec::Masks>,
}

impl From<&Kept> for KeptV1 {
    fn from(k: &Kept) -> Self {
        Self {
            spec: k.spec.clone(),
            hash: k.hash.clone(),
            accepted_at_us: k.accepted_at.micros(),
            cwd: k.cwd.clone(),
            shell: k.shell.clone(),
            command_scrubbed: k.command_scrubbed,
            env_scrubbed: k.env_scrubbed.clone(),
            warnings: k.warnings.clone(),
            head: k.keep.head,
            segment: k.keep.segment,
            tail: k.keep.tail,
            masks: k.masks.clone(),
        }
    }
}

impl KeptV1 {
    pub(super) fn into_kept(self, id: ProcessId) -> Kept {
        Kept {
            id,
            spec: self.spec,
            hash: self.hash,
            accepted_at: Time::from_micros(self.accepted_at_us),
            cwd: self.cwd,
            shell: self.shell,
            command_scrubbed: self.command_scrubbed,
            env_scrubbed: self.env_scrubbed,
            warnings: self.warnings,
            keep: Keep { head: self.head, segment: self.segment, tail: self.tail },
            masks: self.masks,
        }
    }
}

/// The `phase` column. For a process that is not over, the name is enough: its folder is read again.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PhaseV1 {
    Accepted,
    Running { of: LifeV1 },
    Orphaned { of: LifeV1 },
    Draining { ending: EndingV1 },
    Done { ending: EndingV1, end: u64, left_running: u32 },
    Lost { last_seen: Option<LifeV1>, at_us: i64 },
}

#[derive(Serialize, Deserialize)]
pub(super) struct LifeV1 {
    pid: u32,
    start_ticks: u64,
    /// Hexadecimal, because not every JSON reader keeps numbers of that size.
    boot: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct EndingV1 {
    outcome: OutcomeV1,
    cause: CauseV1,
    at_us: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    oom: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeV1 {
    Code(i32),
    Signal { number: i32, dumped_core: bool },
    NeverStarted { errno: i32, what: String },
    Unknown,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseV1 {
    OfItsOwn,
    Asked { by: Owner, source: String },
    Deadline,
}

impl From<&Phase> for PhaseV1 {
    fn from(phase: &Phase) -> Self {
        match phase {
            Phase::Accepted => Self::Accepted,
            Phase::Running { of, .. } | Phase::Stopping { of, .. } => Self::Running { of: of.into() },
            Phase::Orphaned { of } => Self::Orphaned { of: of.into() },
            Phase::Draining { ending } => Self::Draining { ending: ending.into() },
            Phase::Done { ending, output } => Self::Done { ending: ending.into(), end: output.end, left_running: output.left_running },
            Phase::Lost { last_seen, at } => Self::Lost { last_seen: last_seen.as_ref().map(Into::into), at_us: at.micros() },
        }
    }
}

impl PhaseV1 {
    pub(super) fn into_phase(self) -> Option<Phase> {
        Some(match self {
            Self::Accepted => Phase::Accepted,
            Self::Running { of } => Phase::Running { of: of.into_core()?, closed: None },
            Self::Orphaned { of } => Phase::Orphaned { of: of.into_core()? },
            Self::Draining { ending } => Phase::Draining { ending: ending.into() },
            Self::Done { ending, end, left_running } => Phase::Done { ending: ending.into(), output: OutputEnd { end, left_running } },
            Self::Lost { last_seen, at_us } => {
                let last_seen = match last_seen {
                    Some(life) => Some(life.into_core()?),
                    None => None,
                };
                Phase::Lost { last_seen, at: Time::from_micros(at_us) }
            }
        })
    }
}

impl From<&Incarnation> for LifeV1 {
    fn from(of: &Incarnation) -> Self {
        Self { pid: of.pid, start_ticks: of.start_ticks, boot: format!("{:032x}", of.boot) }
    }
}

impl LifeV1 {
    fn into_core(self) -> Option<Incarnation> {
        let boot = u128::from_str_radix(&self.boot, 16).ok()?;
        Some(Incarnation { pid: self.pid, start_ticks: self.start_ticks, boot })
    }
}

impl From<&Ending> for EndingV1 {
    fn from(e: &Ending) -> Self {
        let outcome = match &e.outcome {
            Outcome::Code(code) => OutcomeV1::Code(*code),
            Outcome::Signal { number, dumped_core } => OutcomeV1::Signal { number: *number, dumped_core: *dumped_core },
            Outcome::NeverStarted(f) => OutcomeV1::NeverStarted { errno: f.errno, what: f.what.clone() },
            Outcome::Unknown => OutcomeV1::Unknown,
        };
        let cause = match &e.cause {
            Cause::OfItsOwn => CauseV1::OfItsOwn,
            Cause::Asked { by, source } => CauseV1::Asked { by: by.clone(), source: source.clone() },
            Cause::Deadline => CauseV1::Deadline,
        };
        Self { outcome, cause, at_us: e.at.micros(), oom: e.oom }
    }
}

impl From<EndingV1> for Ending {
    fn from(e: EndingV1) -> Self {
        let outcome = match e.outcome {
            OutcomeV1::Code(code) => Outcome::Code(code),
            OutcomeV1::Signal { number, dumped_core } => Outcome::Signal { number, dumped_core },
            OutcomeV1::NeverStarted { errno, what } => Outcome::NeverStarted(StartFailure { errno, what }),
            OutcomeV1::Unknown => Outcome::Unknown,
        };
        let cause = match e.cause {
            CauseV1::OfItsOwn => Cause::OfItsOwn,
            CauseV1::Asked { by, source } => Cause::Asked { by, source },
            CauseV1::Deadline => Cause::Deadline,
        };
        Self { outcome, cause, at: Time::from_micros(e.at_us), oom: e.oom }
    }
}
