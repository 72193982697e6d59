//! The settings of a gateway. The program that runs it fills them in.

use crate::rules::conversation::BusyMode;
use crate::rules::reset::ResetPolicies;
use crate::rules::shown::NoticeMode;
use crate::rules::turn::MarkWindow;
use outlast_agents::{AcpLimits, PermissionPolicy};
use outlast_core::Time;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long turns may take to finish when a gateway is stopped, unless configured otherwise.
pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a gateway without work runs on, unless configured otherwise.
pub const DEFAULT_IDLE_EXIT: Duration = Duration::from_secs(600);

/// How a gateway runs.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The directory with the state of engine and gateway.
    pub home: PathBuf,
    /// The `outlast` program, which starts an engine where none runs.
    pub outlast: PathBuf,
    /// The user's name, for agents.
    pub user: String,
    /// The user's home directory.
    pub user_home: PathBuf,
    /// Where programs of agents are looked for.
    pub path: OsString,
    /// How long turns may take to finish when the gateway is stopped.
    pub drain_timeout: Duration,
    /// After this time without work it exits. Zero: never.
    pub idle_exit: Duration,
    /// Whether a service manager starts it again, and the engine only if that does not.
    pub is_service: bool,
    /// What a message does to a running turn.
    pub mode: BusyMode,
    /// When conversations are reset.
    pub resets: ResetPolicies,
    /// How many seconds local time is ahead of UTC at a time, for the hour of a daily reset.
    pub utc_offset: fn(Time) -> i32,
    /// How long a mark is fresh.
    pub mark_window: MarkWindow,
    /// What people are shown of notices.
    pub notices: NoticeMode,
    /// Who answers in a conversation for which no agent was chosen: the name of an agent.
    pub agent: Option<String>,
    /// The configured agents, by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// How long agents may take.
    pub limits: AgentLimits,
    /// It was started by a program, so it ends at once if a person stopped the previous one.
    pub unless_stopped: bool,
    /// The directory of test points, for tests.
    pub test_points: Option<PathBuf>,
}

impl GatewaySettings {
    /// The usual, for a home and the `outlast` program beside the gateway's.
    pub fn new(home: impl Into<PathBuf>, outlast: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            outlast: outlast.into(),
            user: String::new(),
            user_home: "/".into(),
            path: OsString::new(),
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            idle_exit: DEFAULT_IDLE_EXIT,
            is_service: false,
            mode: BusyMode::Queue,
            resets: ResetPolicies::default(),
            utc_offset: |_| 0,
            mark_window: MarkWindow::default(),
            notices: NoticeMode::Concise,
            agent: None,
            agents: BTreeMap::new(),
            limits: AgentLimits::default(),
            unless_stopped: false,
            test_points: None,
        }
    }
}

/// How an agent is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The program and its arguments. Empty: as for the known agent of that name.
    pub argv: Vec<String>,
    /// Whether it speaks ACP, or is a command that is run for each turn.
    pub is_command: bool,
    /// A file with variables for it.
    pub env_file: Option<PathBuf>,
    /// Who decides what it may do.
    pub permission: AgentPermission,
}

/// How long agents may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLimits {
    /// How long an agent may say nothing in a turn.
    pub silence: Duration,
    /// How long an agent may take to open its session.
    pub start: Duration,
    /// How long a question about a permission waits if no person is present.
    pub permission: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        let limits = AcpLimits::default();
        Self { silence: limits.silence, start: limits.start, permission: PermissionPolicy::default().unattended_limit }
    }
}

/// Who decides what an agent may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentPermission {
    /// A person.
    Ask,
    /// What is on the list is allowed; a person decides about the rest.
    AllowList(Vec<String>),
    /// Everything is allowed.
    Always,
}
