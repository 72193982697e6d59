//! How records and requests are written to disk, version 1. Renaming an internal type changes nothing here; changing a name here
//! makes old homes unreadable.
//!
//! Decision 19: docs/decisions/store.md.

use outlast_core as core;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version byte of frames that hold these.
pub(crate) const VERSION: u8 = 1;

/// Microseconds since 1970.
type Micros = i64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Record {
    Accepted { at: Micros },
    Started { at: Micros, of: Incarnation },
    Adopted { at: Micros, of: Incarnation },
    StopAsked { at: Micros, stop: Stop },
    Ended { ending: Ending, log_end: u64 },
    OutputClosed { at: Micros, output: OutputEnd },
    TakenOver { at: Micros, role: Role, times: u32 },
    Gap { at: Micros, from: u64, to: u64, why: GapWhy },
    Matched { at: Micros, up: u64, offset: u64, upto: u64, pattern: String, count: u64, lines: Vec<String>, cut: bool },
    Orphaned { at: Micros, of: Incarnation },
    Lost { at: Micros },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Incarnation {
    pid: u32,
    start_ticks: u64,
    boot: Boot,
}

/// 32 hexadecimal digits: JSON numbers of that size do not survive every reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boot(u128);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    outcome: Outcome,
    cause: Cause,
    at: Micros,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    oom: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Code(i32),
    Signal { number: i32, dumped_core: bool },
    NeverStarted { errno: i32, what: String },
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    OfItsOwn,
    Asked { by: Owner, source: String },
    Deadline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutputEnd {
    end: u64,
    left_running: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stop {
    cause: Cause,
    way: StopWay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopWay {
    Escalate { grace_us: u64 },
    TermOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Holder,
    Pump,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GapWhy {
    Retention,
    DiskFull,
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Owner {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    command: Command,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on: Option<core::EnvironmentName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<core::OsText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env: Vec<EnvVar>,
    #[serde(default)]
    pty: bool,
    #[serde(default)]
    stdin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner: Owner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_us: Option<u64>,
    #[serde(default)]
    on_stop: OnStop,
    #[serde(default, skip_serializing_if = "Tell::is_nothing")]
    tell: Tell,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tell {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    completion: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unless_waited_for: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    awaited: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watch: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chars: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

impl Tell {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    Shell(core::OsText),
    Argv(Vec<core::OsText>),
}

/// Name and value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvVar(core::OsText, core::OsText);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnStop {
    #[default]
    Keep,
    Kill,
}

/// Rounded up: a wait of less than a microsecond must not become zero.
pub(crate) fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for EnvVar {
    // A value may be a secret, and a Debug text may reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}=…", self.0)
    }
}

impl Serialize for Boot {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Boot {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let hex = std::borrow::Cow::<'de, str>::deserialize(d)?;
        u128::from_str_radix(&hex, 16).map(Self).map_err(|_| de::Error::custom("a boot is 32 hexadecimal digits"))
    }
}

impl From<&core::Record> for Record {
    fn from(record: &core::Record) -> Self {
        use core::Record as R;
        match record {
            R::Accepted { at } => Self::Accepted { at: at.micros() },
            R::Started { at, of } => Self::Started { at: at.micros(), of: of.into() },
            R::Adopted { at, of } => Self::Adopted { at: at.micros(), of: of.into() },
            R::StopAsked { at, stop } => Self::StopAsked { at: at.micros(), stop: stop.into() },
            R::Ended { ending, log_end } => Self::Ended { ending: ending.into(), log_end: *log_end },
            R::OutputClosed { at, output } => Self::OutputClosed { at: at.micros(), output: (*output).into() },
            R::TakenOver { at, role, times } => Self::TakenOver { at: at.micros(), role: (*role).into(), times: *times },
            R::Gap { at, from, to, why } => Self::Gap { at: at.micros(), from: *from, to: *to, why: (*why).into() },
            R::Matched(m) => {
                // Destructured, so that a new field cannot be forgotten here.
                let core::Matched { at, up, offset, upto, pattern, count, lines, cut } = m.clone();
                Self::Matched { at: at.micros(), up, offset, upto, pattern, count, lines, cut }
            }
            R::Orphaned { at, of } => Self::Orphaned { at: at.micros(), of: of.into() },
            R::Lost { at } => Self::Lost { at: at.micros() },
        }
    }
}

impl From<Record> for core::Record {
    fn from(record: Record) -> Self {
        use Record as R;
        let time = core::Time::from_micros;
        match record {
            R::Accepted { at } => Self::Accepted { at: time(at) },
            R::Started { at, of } => Self::Started { at: time(at), of: of.into() },
            R::Adopted { at, of } => Self::Adopted { at: time(at), of: of.into() },
            R::StopAsked { at, stop } => Self::StopAsked { at: time(at), stop: stop.into() },
            R::Ended { ending, log_end } => Self::Ended { ending: ending.into(), log_end },
            R::OutputClosed { at, output } => Self::OutputClosed { at: time(at), output: output.into() },
            R::TakenOver { at, role, times } => Self::TakenOver { at: time(at), role: role.into(), times },
            R::Gap { at, from, to, why } => Self::Gap { at: time(at), from, to, why: why.into() },
            R::Matched { at, up, offset, upto, pattern, count, lines, cut } => {
                Self::Matched(core::Matched { at: time(at), up, offset, upto, pattern, count, lines, cut })
            }
            R::Orphaned { at, of } => Self::Orphaned { at: time(at), of: of.into() },
            R::Lost { at } => Self::Lost { at: time(at) },
        }
    }
}

impl From<&core::Incarnation> for Incarnation {
    fn from(of: &core::Incarnation) -> Self {
        Self { pid: of.pid, start_ticks: of.start_ticks, boot: Boot(of.boot) }
    }
}
impl From<Incarnation> for core::Incarnation {
    fn from(of: Incarnation) -> Self {
        Self { pid: of.pid, start_ticks: of.start_ticks, boot: of.boot.0 }
    }
}

impl From<&core::Ending> for Ending {
    fn from(e: &core::Ending) -> Self {
        Self { outcome: (&e.outcome).into(), cause: (&e.cause).into(), at: e.at.micros(), oom: e.oom }
    }
}
impl From<Ending> for core::Ending {
    fn from(e: Ending) -> Self {
        Self { outcome: e.outcome.into(), cause: e.cause.into(), at: core::Time::from_micros(e.at), oom: e.oom }
    }
}

impl From<&core::Outcome> for Outcome {
    fn from(outcome: &core::Outcome) -> Self {
        use core::Outcome as O;
        match outcome {
            O::Code(code) => Self::Code(*code),
            O::Signal { number, dumped_core } => Self::Signal { number: *number, dumped_core: *dumped_core },
            O::NeverStarted(f) => Self::NeverStarted { errno: f.errno, what: f.what.clone() },
            O::Unknown => Self::Unknown,
        }
    }
}
impl From<Outcome> for core::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Code(code) => Self::Code(code),
            Outcome::Signal { number, dumped_core } => Self::Signal { number, dumped_core },
            Outcome::NeverStarted { errno, what } => Self::NeverStarted(core::StartFailure { errno, what }),
            Outcome::Unknown => Self::Unknown,
        }
    }
}

impl From<&core::Cause> for Cause {
    fn from(cause: &core::Cause) -> Self {
        match cause {
            core::Cause::OfItsOwn => Self::OfItsOwn,
            core::Cause::Asked { by, source } => Self::Asked { by: by.into(), source: source.clone() },
            core::Cause::Deadline => Self::Deadline,
        }
    }
}
impl From<Cause> for core::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::OfItsOwn => Self::OfItsOwn,
            Cause::Asked { by, source } => Self::Asked { by: by.into(), source },
            Cause::Deadline => Self::Deadline,
        }
    }
}

impl From<core::OutputEnd> for OutputEnd {
    fn from(o: core::OutputEnd) -> Self {
        Self { end: o.end, left_running: o.left_running }
    }
}
impl From<OutputEnd> for core::OutputEnd {
    fn from(o: OutputEnd) -> Self {
        Self { end: o.end, left_running: o.left_running }
    }
}

impl From<&core::Stop> for Stop {
    fn from(stop: &core::Stop) -> Self {
        let way = match stop.way {
            core::StopWay::Escalate { grace } => StopWay::Escalate { grace_us: micros(grace) },
            core::StopWay::TermOnly => StopWay::TermOnly,
        };
        Self { cause: (&stop.cause).into(), way }
    }
}
impl From<Stop> for core::Stop {
    fn from(stop: Stop) -> Self {
        let way = match stop.way {
            StopWay::Escalate { grace_us } => core::StopWay::Escalate { grace: Duration::from_micros(grace_us) },
            StopWay::TermOnly => core::StopWay::TermOnly,
        };
        Self { cause: stop.cause.into(), way }
    }
}

impl From<core::Role> for Role {
    fn from(role: core::Role) -> Self {
        match role {
            core::Role::Holder => Self::Holder,
            core::Role::Pump => Self::Pump,
        }
    }
}
impl From<Role> for core::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Holder => Self::Holder,
            Role::Pump => Self::Pump,
        }
    }
}

impl From<core::GapWhy> for GapWhy {
    fn from(why: core::GapWhy) -> Self {
        match why {
            core::GapWhy::Retention => Self::Retention,
            core::GapWhy::DiskFull => Self::DiskFull,
            core::GapWhy::Lost => Self::Lost,
        }
    }
}
impl From<GapWhy> for core::GapWhy {
    fn from(why: GapWhy) -> Self {
        match why {
            GapWhy::Retention => Self::Retention,
            GapWhy::DiskFull => Self::DiskFull,
            GapWhy::Lost => Self::Lost,
        }
    }
}

impl From<&core::Owner> for Owner {
    fn from(o: &core::Owner) -> Self {
        Self { session: o.session.clone(), task: o.task.clone(), generation: o.generation.clone() }
    }
}
impl From<Owner> for core::Owner {
    fn from(o: Owner) -> Self {
        Self { session: o.session, task: o.task, generation: o.generation }
    }
}

impl From<&core::EnvVar> for EnvVar {
    fn from(v: &core::EnvVar) -> Self {
        Self(v.name.clone(), v.value.clone())
    }
}
impl From<EnvVar> for core::EnvVar {
    fn from(EnvVar(name, value): EnvVar) -> Self {
        Self { name, value }
    }
}

impl From<&core::Tell> for Tell {
    fn from(tell: &core::Tell) -> Self {
        let core::Tell { completion, unless_waited_for, awaited, watch, chars, route, .. } = tell.clone();
        let core::Route { platform, chat_id, user_id, user_name, thread_id, message_id } = route;
        Self { completion, unless_waited_for, awaited, watch, chars, platform, chat_id, user_id, user_name, thread_id, message_id }
    }
}
impl From<Tell> for core::Tell {
    fn from(tell: Tell) -> Self {
        let Tell { completion, unless_waited_for, awaited, watch, chars, platform, chat_id, user_id, user_name, thread_id, message_id } =
            tell;
        let mut tell = Self::default();
        tell.completion = completion;
        tell.unless_waited_for = unless_waited_for;
        tell.awaited = awaited;
        tell.watch = watch;
        tell.chars = chars;
        tell.route = core::Route { platform, chat_id, user_id, user_name, thread_id, message_id };
        tell
    }
}

impl From<&core::Spec> for Spec {
    fn from(spec: &core::Spec) -> Self {
        // A new field that is forgotten here is found by the test that writes `Spec::with_everything`.
        let core::Spec { command, on, cwd, env, pty, stdin, name, labels, owner, timeout, on_stop, tell, .. } = spec;
        Self {
            command: match command {
                core::Command::Shell(line) => Command::Shell(line.clone()),
                core::Command::Argv(args) => Command::Argv(args.clone()),
            },
            on: on.clone(),
            cwd: cwd.clone(),
            env: env.iter().map(Into::into).collect(),
            pty: *pty,
            stdin: *stdin,
            name: name.clone(),
            labels: labels.clone(),
            owner: owner.into(),
            timeout_us: timeout.map(micros),
            on_stop: match on_stop {
                core::OnStop::Keep => OnStop::Keep,
                core::OnStop::Kill => OnStop::Kill,
            },
            tell: tell.into(),
        }
    }
}
impl From<Spec> for core::Spec {
    fn from(spec: Spec) -> Self {
        let Spec { command, on, cwd, env, pty, stdin, name, labels, owner, timeout_us, on_stop, tell } = spec;
        let mut spec = Self::of(match command {
            Command::Shell(line) => core::Command::Shell(line),
            Command::Argv(args) => core::Command::Argv(args),
        });
        spec.on = on;
        spec.cwd = cwd;
        spec.env = env.into_iter().map(Into::into).collect();
        spec.pty = pty;
        spec.stdin = stdin;
        spec.name = name;
        spec.labels = labels;
        spec.owner = owner.into();
        spec.timeout = timeout_us.map(Duration::from_micros);
        spec.on_stop = match on_stop {
            OnStop::Keep => core::OnStop::Keep,
            OnStop::Kill => core::OnStop::Kill,
        };
        spec.tell = tell.into();
        spec
    }
}
