//! The command line of Outlast.
//!
//! This file alone knows that engine and keeper can run in the same program; everything else speaks to the engine through the client.

mod cli;
mod config;
mod os;
mod points;

use anyhow::{Context as _, ensure};
use cli::{AsEngine, AsKeeper, Asked};
use config::{Settings, World};
use rustix::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

fn main() {
    let code = match cli::parse(std::env::args_os().collect()) {
        Asked::Answered(code) => code,
        Asked::Keeper(AsKeeper { args }) => outlast_keeper::main(args),
        Asked::Engine(engine) => serve(engine),
        Asked::Verb(cli) => ask(*cli),
    };
    std::process::exit(code);
}

fn told(done: anyhow::Result<i32>) -> i32 {
    done.unwrap_or_else(|e| {
        say(&format!("{e:#}"));
        cli::OURS
    })
}

fn ask(cli: cli::Cli) -> i32 {
    let world = World::here();
    let settings = match world.settings() {
        Ok(settings) => settings,
        Err(e) => return cli.fail(&e),
    };
    if !cli.explains_settings() {
        warn(&settings);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return cli.fail_without_runtime(&e),
    };
    let code = runtime.block_on(cli::run(cli, world, settings));
    // Nobody waits for a thread that still writes to a reader who has stopped reading.
    runtime.shutdown_background();
    code
}

fn warn(settings: &Settings) {
    settings.warnings.iter().for_each(|warning| say(warning));
}

/// Says something to whoever looks. An engine's words go to a disk that may be full, which is no reason to end.
fn say(text: &str) {
    use std::io::Write as _;
    let _unheard = writeln!(std::io::stderr(), "outlast: {text}");
}

/// Is the engine of a home until it is told to end, or has nothing to do.
fn serve(asked: AsEngine) -> i32 {
    // What the caller had open is not ours to hold: a lock there would be held for as long as we live.
    outlast_keeper::close_inherited(asked.ready_fd);
    let began = || -> anyhow::Result<Starter> {
        if asked.detach {
            os::leave_parent().context("cannot leave whoever started us")?;
        }
        Ok(Starter(asked.ready_fd.map(descriptor).transpose()?))
    };
    match began() {
        // What went wrong is said before it is told that something did.
        Ok(mut starter) => told(serve_for(asked.home, &mut starter)),
        Err(e) => told(Err(e)),
    }
}

fn serve_for(home: PathBuf, starter: &mut Starter) -> anyhow::Result<i32> {
    let world = World::here();
    let settings = world.settings_in(home);
    warn(&settings);
    let log = std::sync::Arc::new(outlast_engine::LogFile::new(&settings.home));
    // What cannot be written is let go: to say so would be to write again, and to panic.
    tracing_subscriber::fmt().with_writer(log).with_ansi(false).with_target(false).log_internal_errors(false).init();
    let tell = || {
        starter.tell(b"ready\n");
        // Our input is the lock under which engines are started: from here on the next caller finds us listening.
        if let Ok(null) = std::fs::File::open("/dev/null") {
            // Should that fail, the lock goes with us; until then callers find us listening.
            let _ = rustix::stdio::dup2_stdin(null);
        }
    };
    let sinks = settings.sinks.calls.clone();
    let gateway = gateway_program(&world, &settings);
    let beside = |engine: &outlast_engine::Engine| {
        if let Some(gateway) = gateway {
            tokio::spawn(outlast_sinks::start_gateways(gateway, Facts::of(engine)));
        }
        if !sinks.is_empty() {
            let (to, of) = (engine.clone(), engine.clone());
            let desk = outlast_sinks::Within::new(move || to.connect_within(), move || of.has_stopped());
            tokio::spawn(outlast_sinks::run(sinks, std::sync::Arc::new(desk)));
        }
    };
    match outlast_engine::serve(engine_config(&world, &settings), beside, tell) {
        Ok(()) => Ok(0),
        Err(e @ outlast_engine::ServeError::Taken { .. }) => {
            say(&e.to_string());
            Ok(0)
        }
        // It says itself what the system said, which would be said again as its source.
        Err(e @ outlast_engine::ServeError::Io { .. }) => Err(anyhow::anyhow!(e.to_string())),
        Err(e) => Err(e.into()),
    }
}

/// The gateway that lies beside this program, if it does. A scratch home has none.
fn gateway_program(world: &World, settings: &Settings) -> Option<outlast_sinks::GatewayProgram> {
    let program = world.gateway().filter(|_| !settings.home.join(config::TRIAL_LOCK).exists())?;
    let mut env = world.settings_env(&settings.sinks);
    env.extend(world.var("OUTLAST_TEST_POINTS").map(|dir| ("OUTLAST_TEST_POINTS".into(), dir.to_owned())));
    Some(outlast_sinks::GatewayProgram { home: settings.home.clone(), program, env })
}

/// What the starter of gateways asks the engine.
struct Facts {
    engine: outlast_engine::Engine,
    watch: outlast_engine::GatewayWatch,
    /// A connection keeps the engine from ending.
    awake: Option<tokio::io::DuplexStream>,
}

impl Facts {
    fn of(engine: &outlast_engine::Engine) -> Self {
        Self { engine: engine.clone(), watch: engine.gateway_watch(), awake: None }
    }
}

impl outlast_sinks::GatewayFacts for Facts {
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

/// Whoever started us, until it has heard how that went. From an engine that was killed it hears nothing.
struct Starter(Option<OwnedFd>);

impl Starter {
    fn tell(&mut self, word: &[u8]) {
        if let Some(ready) = self.0.take() {
            // It may be gone, and we serve the others.
            let _ = rustix::io::write(ready, word);
        }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.tell(b"failed\n");
    }
}

fn engine_config(world: &World, settings: &Settings) -> outlast_engine::Config {
    use outlast_engine::{Config, KeeperProgram, UserInfo};
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
    config.test_points = world.var("OUTLAST_TEST_POINTS").map(Into::into);
    config
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
