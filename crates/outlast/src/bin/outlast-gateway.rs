//! The program `outlast-gateway`: its command line and its configuration. The gateway itself is the crate `outlast-gateway`.

// The gateway uses some of what the command line reads.
#[allow(dead_code)]
#[path = "../config.rs"]
mod config;
#[allow(dead_code, unused_imports)]
#[path = "../os/mod.rs"]
mod os;
#[path = "../start_report.rs"]
mod start_report;

use anyhow::Context as _;
use clap::Parser;
use config::{AgentTable, Permission, ResetTable, Settings, World};
use outlast_gateway::rules::conversation::BusyMode;
use outlast_gateway::rules::key::LOCAL_PLATFORM;
use outlast_gateway::rules::reset::{ResetMode, ResetPolicy};
use outlast_gateway::rules::turn::MarkWindow;
use outlast_gateway::{
    AgentLimits, AgentPermission, AgentSettings, EXIT_CONFIGURATION, EXIT_UNASKED, GatewaySettings, NoticeMode, Ran, ReadRequest,
};
use start_report::StartReport;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keep conversations with agents, and continue them after every restart
///
/// It is started by `outlast chat`, by `outlast gateway run` and by the engine.
#[derive(Debug, Parser)]
#[command(name = "outlast-gateway", version)]
struct AsGateway {
    /// The home
    #[arg(long)]
    home: PathBuf,
    /// A descriptor to write `ready` and a newline to once it listens, `taken` if another gateway serves the home, or `failed`
    #[arg(long)]
    ready_fd: Option<i32>,
    /// Leave the caller's process tree, so that a kill of that tree does not end this
    #[arg(long)]
    detach: bool,
    /// Do nothing if a person stopped the gateway of this home
    #[arg(long)]
    unless_stopped: bool,
    /// Only check whether one could be started, and print what cannot be read of its files
    #[arg(long, conflicts_with_all = ["ready_fd", "detach", "unless_stopped", "service"])]
    check: bool,
    /// Only read conversations from its files, and print them as JSON; nothing is started or resumed
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["ready_fd", "detach", "unless_stopped", "service", "check"])]
    read: Option<ReadWhat>,
    /// The key of the conversation to read
    #[arg(long, requires = "read")]
    key: Option<String>,
    /// The generation to read [default: the current one]
    #[arg(long, requires = "read")]
    generation: Option<u64>,
    /// The session that the reader speaks for
    #[arg(long, requires = "read")]
    session: Option<String>,
    /// It runs under a service manager, which starts it again
    #[arg(long)]
    service: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ReadWhat {
    /// All conversations
    List,
    /// The conversation --key with its turns
    Show,
    /// Everything that was said in the conversation --key
    Parts,
}

fn main() {
    let args = AsGateway::parse();
    // Files of the caller that stayed open here would keep their locks for as long as the gateway runs.
    outlast_keeper::close_inherited(args.ready_fd);
    let code = serve(args).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        EXIT_UNASKED
    });
    std::process::exit(code);
}

/// Writes a line to standard error. An error is ignored: a gateway must not end because the disk of its log is full.
fn say(text: &str) {
    use std::io::Write as _;
    let _unheard = writeln!(std::io::stderr(), "outlast-gateway: {text}");
}

/// Runs the gateway, or the flag that replaces that. Returns the exit code.
fn serve(args: AsGateway) -> anyhow::Result<i32> {
    if args.detach {
        os::leave_parent().context("cannot leave the process tree of the caller")?;
        // A terminal that closes must not end it. An error means that it leads a session already.
        let _leads = rustix::process::setsid();
    }
    let mut report = StartReport::new(args.ready_fd)?;
    // Every file that it creates is for its user only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let home = std::path::absolute(&args.home).context("the home has no absolute path")?;
    let world = World::here();
    let settings = world.settings_in(home);
    if let Some(what) = args.read {
        return read(&settings.home, what, args.key, args.generation, args.session.as_deref());
    }
    settings.warnings.iter().for_each(|warning| say(warning));
    if !settings.gateway.faults.is_empty() {
        settings.gateway.faults.iter().for_each(|fault| say(fault));
        return Ok(EXIT_CONFIGURATION);
    }
    if args.check {
        return Ok(check(&settings.home));
    }
    let level = if settings.gateway.is_log_detailed { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false).log_internal_errors(false);
    log.with_max_level(level).init();
    let when_listening = || {
        report.send(b"ready\n");
        // Standard input is the lock under which gateways are started. It is released now, because the next caller finds this gateway listening.
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // If that fails, the lock is held until the gateway ends. Callers connect without it.
            let _kept = rustix::stdio::dup2_stdin(null);
        }
    };
    let mut gateway = gateway_settings(&world, &settings);
    gateway.unless_stopped = args.unless_stopped;
    gateway.is_service = args.service;
    match outlast_gateway::run(gateway, when_listening) {
        Ok(Ran::Ended(code)) => Ok(code),
        Ok(Ran::Stopped) => Ok(0),
        Ok(Ran::Taken) => {
            say(&format!("another gateway serves {}", settings.home.display()));
            report.send(b"taken\n");
            Ok(0)
        }
        Err(error) => {
            say(&error.to_string());
            Ok(error.code)
        }
    }
}

/// Prints what was read, as JSON.
fn read(home: &Path, what: ReadWhat, key: Option<String>, generation: Option<u64>, session: Option<&str>) -> anyhow::Result<i32> {
    use std::io::Write as _;
    let key = || key.context("--key is missing");
    let request = match what {
        ReadWhat::List => ReadRequest::List,
        ReadWhat::Show => ReadRequest::Show { key: key()?, generation },
        ReadWhat::Parts => ReadRequest::Parts { key: key()? },
    };
    match outlast_gateway::read(home, &request, session) {
        Ok(answer) => {
            std::io::stdout().write_all(&serde_json::to_vec(&answer)?).context("cannot print what was read")?;
            Ok(0)
        }
        Err(error) => {
            say(&error.to_string());
            Ok(error.code)
        }
    }
}

/// Prints what cannot be read of the gateway's files, one line each, for `outlast doctor`.
fn check(home: &Path) -> i32 {
    use std::io::Write as _;
    match outlast_gateway::check(home) {
        Ok(unreadable) => {
            // The reader may have closed the pipe.
            let _unheard = unreadable.iter().try_for_each(|line| writeln!(std::io::stdout(), "{}", line.replace('\n', " ")));
            0
        }
        Err(error) => {
            say(&error.to_string());
            error.code
        }
    }
}

/// What the gateway is told at its start.
fn gateway_settings(world: &World, configured: &Settings) -> GatewaySettings {
    let table = &configured.gateway;
    let mut settings = GatewaySettings::new(&configured.home, world.program.with_file_name("outlast"));
    settings.user.clone_from(&world.user.name);
    settings.user_home = world.user.home.clone().unwrap_or_else(|| "/".into());
    settings.path = world.var("PATH").map(ToOwned::to_owned).unwrap_or_default();
    settings.drain_timeout = table.drain_timeout;
    settings.idle_exit = table.idle_exit;
    settings.mode = if table.is_interrupting { BusyMode::Interrupt } else { BusyMode::Queue };
    settings.mark_window = MarkWindow(table.resume_window);
    settings.resets.by_platform.insert(LOCAL_PLATFORM.into(), reset_policy(&table.reset, configured.max_age));
    settings.utc_offset = |at| os::utc_offset_seconds(at.micros().div_euclid(1_000_000));
    settings.notices = match table.notices.as_str() {
        "all" => NoticeMode::All,
        "result" => NoticeMode::Result,
        "error" => NoticeMode::Error,
        "off" => NoticeMode::Off,
        _ => NoticeMode::Concise,
    };
    settings.agent.clone_from(&table.agent);
    let config::LimitTable { silence, start, permission } = table.limits;
    settings.limits = AgentLimits { silence, start, permission };
    settings.agents = table.agents.iter().map(|(name, agent)| (name.clone(), agent_settings(agent))).collect();
    settings.test_points = world.var("OUTLAST_TEST_POINTS").map(Into::into);
    settings
}

fn reset_policy(table: &ResetTable, protection_age: Duration) -> ResetPolicy {
    let (after, at_hour) = (table.idle, table.at_hour);
    let mode = match table.mode.as_str() {
        "idle" => ResetMode::Idle { after },
        "daily" => ResetMode::Daily { at_hour },
        "both" => ResetMode::Both { after, at_hour },
        _ => ResetMode::None,
    };
    ResetPolicy { mode, protection_age, should_notify: table.should_notify }
}

fn agent_settings(table: &AgentTable) -> AgentSettings {
    let permission = match &table.permission {
        Permission::Ask => AgentPermission::Ask,
        Permission::AllowList(entries) => AgentPermission::AllowList(entries.clone()),
        Permission::Always => AgentPermission::Always,
    };
    AgentSettings { argv: table.argv.clone(), is_command: table.is_command, env_file: table.env_file.clone(), permission }
}
