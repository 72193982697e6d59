//! The gateway: conversations that survive restarts. Its work is in the crate `outlast-gateway`; here are its command line and its configuration.

// The gateway uses a part of what the command line reads.
#[allow(dead_code)]
#[path = "../config.rs"]
mod config;
#[allow(dead_code, unused_imports)]
#[path = "../os/mod.rs"]
mod os;

use anyhow::{Context as _, ensure};
use clap::Parser;
use config::{AgentTable, Permission, ResetTable, Settings, World};
use outlast_gateway::rules::conversation::BusyMode;
use outlast_gateway::rules::key::LOCAL_PLATFORM;
use outlast_gateway::rules::reset::{ResetMode, ResetPolicy};
use outlast_gateway::rules::turn::MarkWindow;
use outlast_gateway::{
    AgentLimits, AgentPermission, AgentSettings, EXIT_CONFIGURATION, EXIT_UNASKED, GatewaySettings, NoticeMode, Ran, ReadRequest,
};
use rustix::fd::{AsFd as _, FromRawFd as _, OwnedFd};
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
    /// Be nobody's child, so that whoever ends the tree of a caller does not end this
    #[arg(long)]
    detach: bool,
    /// Do nothing if a person stopped the gateway of this home
    #[arg(long)]
    unless_stopped: bool,
    /// Only look whether one could be started, and print what cannot be read of its memory
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
    /// A service manager starts it again
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
    let asked = AsGateway::parse();
    // What the caller had open is not ours to hold: a lock there would be held for as long as we live.
    outlast_keeper::close_inherited(asked.ready_fd);
    let code = serve(asked).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        EXIT_UNASKED
    });
    std::process::exit(code);
}

/// Says something to whoever looks. The log may lie on a disk that is full, which is no reason to end.
fn say(text: &str) {
    use std::io::Write as _;
    let _unheard = writeln!(std::io::stderr(), "outlast-gateway: {text}");
}

fn serve(asked: AsGateway) -> anyhow::Result<i32> {
    if asked.detach {
        os::leave_parent().context("cannot leave whoever started us")?;
        // A terminal that closes must not end it. That it leads a session already is just as good.
        let _leads = rustix::process::setsid();
    }
    let mut starter = Starter(asked.ready_fd.map(descriptor).transpose()?);
    // Whatever it makes is the user's alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let home = std::path::absolute(&asked.home).context("the home has no absolute path")?;
    let world = World::here();
    let settings = world.settings_in(home);
    if let Some(what) = asked.read {
        return read(&settings.home, what, asked.key, asked.generation, asked.session.as_deref());
    }
    settings.warnings.iter().for_each(|warning| say(warning));
    if !settings.gateway.faults.is_empty() {
        settings.gateway.faults.iter().for_each(|fault| say(fault));
        return Ok(EXIT_CONFIGURATION);
    }
    if asked.check {
        return Ok(check(&settings.home));
    }
    let level = if settings.gateway.is_log_detailed { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false).log_internal_errors(false);
    log.with_max_level(level).init();
    let tell = || {
        starter.tell(b"ready\n");
        // Our input is the lock under which gateways are started: from here on the next caller finds us listening.
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // Should that fail, the lock goes with us; until then callers find us listening.
            let _kept = rustix::stdio::dup2_stdin(null);
        }
    };
    let mut gateway = gateway_settings(&world, &settings);
    gateway.unless_stopped = asked.unless_stopped;
    gateway.is_service = asked.service;
    match outlast_gateway::run(gateway, tell) {
        Ok(Ran::Ended(code)) => Ok(code),
        Ok(Ran::Stopped) => Ok(0),
        Ok(Ran::Taken) => {
            say(&format!("another gateway serves {}", settings.home.display()));
            starter.tell(b"taken\n");
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

/// Prints what `outlast doctor` should know, a line each.
fn check(home: &Path) -> i32 {
    use std::io::Write as _;
    match outlast_gateway::check(home) {
        Ok(unreadable) => {
            // Who asked may have left.
            let _unheard = unreadable.iter().try_for_each(|line| writeln!(std::io::stdout(), "{}", line.replace('\n', " ")));
            0
        }
        Err(error) => {
            say(&error.to_string());
            error.code
        }
    }
}

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

/// Whoever started us, until it has heard how that went. From a gateway that was killed it hears nothing.
struct Starter(Option<OwnedFd>);

impl Starter {
    fn tell(&mut self, word: &[u8]) {
        if let Some(ready) = self.0.take() {
            // It may be gone, and we serve the others.
            let _gone = rustix::io::write(ready, word);
        }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.tell(b"failed\n");
    }
}

/// The descriptor that our starter passed by its number, for us alone and for nobody we start.
fn descriptor(number: i32) -> anyhow::Result<OwnedFd> {
    if number == 1 {
        let ready = std::io::stdout().as_fd().try_clone_to_owned().context("cannot keep standard output")?;
        // What is written there by mistake belongs into the log.
        rustix::stdio::dup2_stdout(std::io::stderr()).context("cannot put standard output into the log")?;
        return Ok(ready);
    }
    ensure!(
        number > 2 && Path::new(&format!("/proc/self/fd/{number}")).exists(),
        "--ready-fd {number} is no descriptor that was passed to us"
    );
    // SAFETY: it is open, as was just seen, and nothing else in this program knows the number: it was opened before us.
    #[allow(unsafe_code)]
    let ready = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&ready, rustix::io::FdFlags::CLOEXEC).context("cannot keep --ready-fd to ourselves")?;
    Ok(ready)
}
