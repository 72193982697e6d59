//! Reset policies: when a message starts a new generation because the conversation was idle, or because of the time of day.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_core::Time;
use serde::{Deserialize, Serialize};

use super::key::{ChatType, LOCAL_PLATFORM};

/// How long a conversation may be idle unless configured otherwise.
pub const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(1440 * 60);

/// The hour of the daily reset unless configured otherwise: few people talk to an agent at four.
pub const DEFAULT_RESET_HOUR: u8 = 4;

/// Up to this age a process protects its conversation unless configured otherwise. A server that runs for weeks must not keep a
/// conversation for ever.
pub const DEFAULT_PROTECTION_AGE: Duration = Duration::from_secs(24 * 3600);

const MICROS_PER_SECOND: i128 = 1_000_000;
const SECONDS_PER_DAY: i128 = 86_400;
const SECONDS_PER_HOUR: i128 = 3_600;

/// When a conversation is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum ResetMode {
    /// Never.
    None,
    /// When the last message is older than this.
    Idle {
        /// The age at which it is reset.
        after: Duration,
    },
    /// When the last message was before the last `at_hour`:00.
    Daily {
        /// Local hour, 0 to 23.
        at_hour: u8,
    },
    /// Both. Idle is tested first and so names the reason.
    Both {
        /// The age at which it is reset.
        after: Duration,
        /// Local hour, 0 to 23.
        at_hour: u8,
    },
}

/// When one conversation is reset, and what keeps it from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetPolicy {
    /// The condition.
    pub mode: ResetMode,
    /// A live process younger than this protects its conversation. Zero: of any age.
    pub protection_age: Duration,
    /// Whether the person gets a line about it.
    pub should_notify: bool,
}

impl ResetPolicy {
    /// No reset.
    pub const OFF: Self = Self { mode: ResetMode::None, protection_age: DEFAULT_PROTECTION_AGE, should_notify: true };

    /// Whether any reset is configured.
    pub fn is_on(&self) -> bool {
        self.mode != ResetMode::None
    }
}

impl Default for ResetPolicy {
    fn default() -> Self {
        Self::OFF
    }
}

/// The configured policies. A platform's counts before a chat type's, and that before the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResetPolicies {
    /// For every chat without one of the others.
    pub default: ResetPolicy,
    /// The policies of platforms, by name.
    pub by_platform: BTreeMap<String, ResetPolicy>,
    /// The policies of chat types.
    pub by_chat_type: BTreeMap<ChatType, ResetPolicy>,
}

impl ResetPolicies {
    /// The policy of a chat. Local chats are reset only if a policy names their platform: a terminal that comes back continues where it
    /// was.
    pub fn of(&self, platform: &str, chat_type: ChatType) -> ResetPolicy {
        let own = self.by_platform.get(platform);
        let usual = (platform != LOCAL_PLATFORM).then(|| self.by_chat_type.get(&chat_type).unwrap_or(&self.default));
        own.or(usual).copied().unwrap_or(ResetPolicy::OFF)
    }
}

/// Why a conversation was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// It was idle for too long.
    Idle,
    /// The daily hour has passed since the last message.
    Daily,
}

/// What runs in a session, as far as it protects the conversation. A dead pid protects nothing, so it is looked up each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveProcesses {
    /// Nothing runs.
    None,
    /// The youngest has this age.
    Youngest(Duration),
    /// The engine could not be asked. That counts as a young one: a conversation that is kept too long can be left with `/new`.
    Unknown,
}

/// What a reset depends on besides the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetFacts {
    /// The policy of the chat.
    pub policy: ResetPolicy,
    /// How far local time is ahead of UTC, for the daily hour. On a day on which the offset changes the hour is off by that change.
    pub utc_offset_seconds: i32,
    /// What runs in the session.
    pub processes: LiveProcesses,
    /// Whether a turn of this generation was completed. Without one there is no history that a person could miss.
    pub has_history: bool,
}

/// Whether a reset is due, and why. The caller has checked that nothing is open.
pub fn due(facts: &ResetFacts, last_message_at: Option<Time>, now: Time) -> Option<ResetReason> {
    let last = last_message_at?;
    if is_protected(facts) {
        return None;
    }
    let (idle, daily) = match facts.policy.mode {
        ResetMode::None => (None, None),
        ResetMode::Idle { after } => (Some(after), None),
        ResetMode::Daily { at_hour } => (None, Some(at_hour)),
        ResetMode::Both { after, at_hour } => (Some(after), Some(at_hour)),
    };
    let age = u128::try_from(i128::from(now.micros()) - i128::from(last.micros())).unwrap_or(0);
    if idle.is_some_and(|after| age > after.as_micros()) {
        return Some(ResetReason::Idle);
    }
    daily.filter(|hour| i128::from(last.micros()) < last_boundary(*hour, facts.utc_offset_seconds, now)).map(|_| ResetReason::Daily)
}

fn is_protected(facts: &ResetFacts) -> bool {
    let limit = facts.policy.protection_age;
    match facts.processes {
        LiveProcesses::None => false,
        LiveProcesses::Youngest(age) => limit.is_zero() || age < limit,
        LiveProcesses::Unknown => true,
    }
}

/// The last `hour`:00 local time that is not after `now`, in microseconds.
fn last_boundary(hour: u8, utc_offset_seconds: i32, now: Time) -> i128 {
    let shift = (i128::from(hour) * SECONDS_PER_HOUR - i128::from(utc_offset_seconds)) * MICROS_PER_SECOND;
    let day = SECONDS_PER_DAY * MICROS_PER_SECOND;
    (i128::from(now.micros()) - shift).div_euclid(day) * day + shift
}
