//! `outlast engine`

pub(super) mod install;

use super::progress::{self, About};
use super::table::wrap_beside;
use super::{Context, Failure, times};
use clap::{Args, Subcommand};
use outlast_client::{Client, Connect, Scope, Status, code};
use serde_json::json;

/// Show, start, stop or restart the engine, or start it at boot
///
/// The engine is the background program that supervises processes. Every verb starts it when needed, and it exits when it is idle. Stopping or restarting
/// it does not harm running processes.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    #[command(subcommand)]
    command: EngineCommand,
}

#[derive(Debug, Subcommand)]
enum EngineCommand {
    /// Show the state of the engine; starts none
    Status {
        /// As without this flag, which earlier releases needed
        #[arg(long, hide = true)]
        no_start: bool,
    },
    /// Start the engine, if none runs
    Start,
    /// Stop the engine; processes keep running unless they were started with --on-stop kill
    ///
    /// The gateway of `outlast chat` needs an engine and starts it again. `outlast gateway stop` stops the gateway first.
    Stop,
    /// Replace the engine by one that reads the current configuration; every process keeps running
    ///
    /// If the configuration file cannot be read, nothing is restarted and the exit code is 1.
    Restart,
    Install(install::EngineInstallArgs),
}

impl Engine {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.command {
            EngineCommand::Status { no_start: _ } => match running(ctx).await? {
                Some(client) => status(ctx, client).await,
                None => none(ctx),
            },
            EngineCommand::Start => start(ctx).await,
            EngineCommand::Restart => restart(ctx).await,
            EngineCommand::Install(install) => install.perform(ctx).await,
            EngineCommand::Stop => match running(ctx).await? {
                Some(client) => stop(ctx, client).await,
                None => none(ctx),
            },
        }
    }
}

/// A client of the engine that runs, if one does.
pub(super) async fn running(ctx: &Context) -> Result<Option<Client>, Failure> {
    let to = Connect::to(&ctx.settings.home).speaking_for(ctx.owner());
    match Client::connect(&to).await {
        Ok(client) => Ok(Some(client)),
        Err(e) if e.is_not_running() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn none(ctx: &Context) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"status": "not_running", "pid": null, "version": env!("CARGO_PKG_VERSION"), "home": ctx.settings.home}))?;
    } else {
        ctx.out.line("no engine runs; the next command that needs one starts it")?;
    }
    Ok(0)
}

async fn status(ctx: &Context, client: Client) -> Result<i32, Failure> {
    let s = client.engine_status().await?;
    if ctx.out.json {
        ctx.out.object(&s)?;
        return Ok(0);
    }
    let line = |name: &str, value: &str| {
        let names = std::iter::once(name).chain(std::iter::repeat(""));
        wrap_beside(9, value, ctx.out.width).iter().zip(names).try_for_each(|(text, name)| ctx.out.line(&format!("{name:9}{text}")))
    };
    line("pid", &s.pid.to_string())?;
    line("version", &s.version)?;
    line("home", &s.home)?;
    line("since", &times::clock_and_age(s.started_at, times::now(), &ctx.world.zone()))?;
    line("running", &format!("{} of {} known, {} already running when the engine started", s.running, s.known, s.recovered))?;
    line("keeper", &s.keeper)?;
    line("shell", &s.shell)?;
    s.degraded.iter().try_for_each(|what| line("degraded", what))?;
    Ok(0)
}

async fn start(ctx: &Context) -> Result<i32, Failure> {
    let was = running(ctx).await?.is_some();
    let pid = ctx.client().await?.engine_status().await?.pid;
    if ctx.out.json {
        ctx.out.object(&json!({"status": if was { "running" } else { "started" }, "pid": pid, "home": ctx.settings.home}))?;
    } else {
        ctx.out.tip(&format!("the engine {} (pid {pid})", if was { "runs already" } else { "has started" }));
    }
    Ok(0)
}

/// Ends the engine, if one runs, and starts the next one.
async fn restart(ctx: &Context) -> Result<i32, Failure> {
    if let Some(why) = &ctx.settings.unreadable {
        // The next engine would have every value at its default, and no hook.
        return Err(Failure::new(
            code::CANNOT_START,
            format!("the engine was not restarted, because the next one could not read its configuration: {why}"),
            "correct the file and restart again; until then the running engine keeps its configuration",
        ));
    }
    let was = match running(ctx).await? {
        Some(client) => {
            let pid = client.engine_status().await?.pid;
            let about = About::Words("the engine is ending");
            let left = "the engine is still ending; the next command starts another";
            progress::during(ctx, about, left, client.engine_hand_over()).await??;
            Some(pid)
        }
        None => None,
    };
    let now = ctx.client().await?.engine_status().await?;
    if ctx.out.json {
        let status = if was.is_some() { "restarted" } else { "started" };
        ctx.out.object(&json!({"status": status, "pid": now.pid, "was": was, "running": now.running, "home": ctx.settings.home}))?;
        return Ok(0);
    }
    let running = running_in_words(now.running);
    match was {
        Some(was) => {
            ctx.out.line(&format!("the engine was restarted with the current configuration (pid {was}, now {}); {running}", now.pid))?
        }
        None => ctx.out.line(&format!("no engine ran; one has started with the current configuration (pid {})", now.pid))?,
    }
    Ok(0)
}

fn running_in_words(count: u64) -> String {
    match count {
        0 => "no process runs".into(),
        1 => "1 process keeps running".into(),
        n => format!("{n} processes keep running"),
    }
}

/// Says on a terminal that the configuration was changed after the engine had read it.
pub(super) async fn tell_outdated(ctx: &Context, client: &Client) {
    if !ctx.out.has_person() {
        return;
    }
    let outdated = outdated(ctx, client).await;
    if !outdated.is_empty() {
        ctx.out.tip(&format!(
            "note: the engine uses earlier settings ({}); `outlast engine restart` applies the current ones",
            outdated.join(", ")
        ));
    }
}

/// The settings that were changed after the engine had read them.
pub(super) async fn outdated(ctx: &Context, client: &Client) -> Vec<String> {
    // The request itself reports what is wrong with the engine.
    let Ok(status) = client.engine_status().await else { return Vec::new() };
    ctx.settings.outdated(&status.settings)
}

async fn stop(ctx: &Context, client: Client) -> Result<i32, Failure> {
    let pid = client.engine_status().await?.pid;
    let before = client.list(&Scope::default(), false).await?;
    // A gateway that does not answer is reported by `outlast gateway stop`.
    let has_gateway = super::gateway::running(ctx).await.is_ok_and(|found| found.is_some());
    let about = About::Words("the engine is ending");
    let done = progress::during(ctx, about, "the engine is still ending", client.engine_stop()).await??;
    // Those that were started with --on-stop kill have ended with the engine.
    let left = before
        .iter()
        .filter(|p| p.status == Status::Running && p.pid.is_some_and(|pid| crate::os::stat(pid).is_some_and(|now| !now.is_zombie)))
        .count();
    let note = has_gateway.then_some("a gateway runs and starts the engine again; run `outlast gateway stop` first");
    if ctx.out.json {
        let mut answer = json!({"status": "stopped", "pid": pid, "count": done.count, "running": left});
        if let Some(note) = note {
            answer["note"] = note.into();
        }
        ctx.out.object(&answer)?;
    } else {
        ctx.out.tip(&format!("the engine (pid {pid}) has ended; {}", running_in_words(left as u64)));
        note.into_iter().for_each(|note| ctx.out.remark(&format!("note: {note}")));
    }
    Ok(0)
}
