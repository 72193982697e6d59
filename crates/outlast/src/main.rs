//! The command line of Outlast.
//!
//! Engine and keeper can run in this program, too. Only this file knows that; everything else talks to the engine through the client.

mod cli;
mod config;
mod os;
mod points;
mod start_report;

use anyhow::Context as _;
use cli::{AsEngine, AsKeeper, Invocation};
use config::{Settings, World};
use start_report::StartReport;
use std::path::PathBuf;

fn main() {
    let code = match cli::parse(std::env::args_os().collect()) {
        Invocation::Answered(code) => code,
        Invocation::Keeper(AsKeeper { args }) => outlast_keeper::main(args),
        Invocation::Engine(engine) => serve(engine),
        Invocation::Verb(cli) => perform(*cli),
    };
    std::process::exit(code);
}

/// The exit code. An error is reported on standard error.
fn exit_code(done: anyhow::Result<i32>) -> i32 {
    done.unwrap_or_else(|e| {
        say(&format!("{e:#}"));
        cli::OURS
    })
}

/// Performs a verb, and returns the exit code.
fn perform(cli: cli::Cli) -> i32 {
    let world = World::here();
    let settings = match world.settings() {
        Ok(settings) => settings,
        Err(e) => return cli.fail(&e),
    };
    match &settings.warnings[..] {
        _ if cli.explains_settings() => {}
        all @ [_, _, ..] if !cli.shows_settings() => {
            say(&format!("{} problems in the configuration ({}); `outlast doctor` shows them", all.len(), settings.file.display()));
        }
        _ => warn(&settings),
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return cli.fail_without_runtime(&e),
    };
    let code = runtime.block_on(cli::run(cli, world, settings));
    // A thread may still write to a reader that has stopped reading. It is not waited for.
    runtime.shutdown_background();
    code
}

fn warn(settings: &Settings) {
    settings.warnings.iter().for_each(|warning| say(warning));
}

/// Writes a line to standard error. An error is ignored: an engine must not end because the disk of its log is full.
fn say(text: &str) {
    use std::io::Write as _;
    let _unheard = writeln!(std::io::stderr(), "outlast: {text}");
}

/// Runs the engine of a home until a request stops it or it has nothing to do. Returns the exit code.
fn serve(args: AsEngine) -> i32 {
    // Files of the caller that stayed open here would keep their locks for as long as the engine runs.
    outlast_keeper::close_inherited(args.ready_fd);
    let detached = || -> anyhow::Result<StartReport> {
        if args.detach {
            os::leave_parent().context("cannot leave the process tree of the caller")?;
        }
        StartReport::new(args.ready_fd)
    };
    match detached() {
        // An error is written to the log before the report is dropped, which sends `failed`.
        Ok(mut report) => exit_code(serve_for(args.home, &mut report)),
        Err(e) => exit_code(Err(e)),
    }
}

fn serve_for(home: PathBuf, report: &mut StartReport) -> anyhow::Result<i32> {
    let world = World::here();
    let settings = world.settings_in(home);
    warn(&settings);
    let log = std::sync::Arc::new(outlast_engine::LogFile::new(&settings.home));
    // A line of the log that cannot be written is dropped. Reporting that would write again, and panic.
    tracing_subscriber::fmt().with_writer(log).with_ansi(false).with_target(false).log_internal_errors(false).init();
    let when_listening = || {
        report.send(b"ready\n");
        // Standard input is the lock under which engines are started. It is released now, because the next caller finds this engine listening.
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // If that fails, the lock is held until the engine ends. Callers connect without it.
            let _kept = rustix::stdio::dup2_stdin(null);
        }
    };
    let sinks: Vec<_> = settings.sinks.calls.iter().map(|sink| cli::with_lines_for_people(sink, world.zone())).collect();
    let gateway = gateway_program(&world, &settings);
    let beside = |engine: &outlast_engine::Engine| {
        if let Some(gateway) = gateway {
            tokio::spawn(outlast_sinks::start_gateways(gateway, EngineFacts::of(engine)));
        }
        if !sinks.is_empty() {
            let (to, of) = (engine.clone(), engine.clone());
            let desk = outlast_sinks::Within::new(move || to.connect_within(), move || of.has_stopped());
            tokio::spawn(outlast_sinks::run(sinks, std::sync::Arc::new(desk)));
        }
    };
    match outlast_engine::serve(engine_config(&world, &settings), beside, when_listening) {
        Ok(()) => Ok(0),
        Err(e @ outlast_engine::ServeError::Taken { .. }) => {
            say(&e.to_string());
            Ok(0)
        }
        // Its text contains that of its source, which would be printed twice.
        Err(e @ outlast_engine::ServeError::Io { .. }) => Err(anyhow::anyhow!(e.to_string())),
        Err(e) => Err(e.into()),
    }
}

/// The gateway program in the directory of this one, if there is one. A scratch home has none.
fn gateway_program(world: &World, settings: &Settings) -> Option<outlast_sinks::GatewayProgram> {
    let program = world.gateway().filter(|_| !settings.home.join(config::TRIAL_LOCK).exists())?;
    let mut env = world.settings_env(&settings.sinks);
    env.extend(world.var("OUTLAST_TEST_POINTS").map(|dir| ("OUTLAST_TEST_POINTS".into(), dir.to_owned())));
    Some(outlast_sinks::GatewayProgram { home: settings.home.clone(), program, env })
}

/// What the part that starts gateways asks the engine.
struct EngineFacts {
    engine: outlast_engine::Engine,
    watch: outlast_engine::GatewayWatch,
    /// A connection keeps the engine from ending.
    awake: Option<tokio::io::DuplexStream>,
}

impl EngineFacts {
    fn of(engine: &outlast_engine::Engine) -> Self {
        Self { engine: engine.clone(), watch: engine.gateway_watch(), awake: None }
    }
}

impl outlast_sinks::GatewayFacts for EngineFacts {
    async fn changed(&mut self) -> bool {
        self.watch.changed().await
    }

    fn is_serving(&self) -> bool {
        self.engine.is_gateway_serving()
    }

    async fn has_notices(&self) -> std::io::Result<bool> {
        self.engine.has_notices_for_gateway().await
    }

    fn keep_awake(&mut self, is_awake: bool) {
        match is_awake {
            true => _ = self.awake.get_or_insert_with(|| self.engine.connect()),
            false => self.awake = None,
        }
    }
}

/// What the engine is told at its start.
fn engine_config(world: &World, settings: &Settings) -> outlast_engine::Config {
    use outlast_engine::{Config, KeeperProgram, LinkProgram, UserInfo};
    let keeper = world.keeper().map_or_else(|| KeeperProgram::SelfAsKeeper(world.program.clone()), KeeperProgram::Binary);
    let user = UserInfo::new(&world.user.name, world.user.home.clone().unwrap_or_else(|| "/".into()), &world.user.shell);
    let mut config = Config::new(&settings.home, &world.program, keeper, user);
    config.redact = settings.redact;
    config.grace = settings.grace;
    config.max_running = settings.max_running;
    config.keep_for = settings.keep_for;
    config.keep_bytes = settings.keep_bytes;
    config.wait_limit = settings.wait_limit;
    config.max_age = settings.max_age;
    config.log_tail_bytes = settings.log_tail_bytes;
    config.idle_exit = settings.idle_exit;
    config.snapshot_limit = settings.snapshot_limit;
    config.watch = settings.watch.clone();
    config.keep_notices = settings.keep_notices;
    config.sinks = settings.sinks.pushes.clone();
    config.run_candidates = world.socket_places();
    config.cgroup = settings.cgroup;
    config.settings = settings.of_engine();
    config.keeper_env = world.settings_env(&settings.sinks);
    config.link = world.link().map(|path| LinkProgram { path, env: world.link_env() });
    config.test_points = world.var("OUTLAST_TEST_POINTS").map(Into::into);
    config
}
