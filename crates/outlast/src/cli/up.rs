//! `outlast up`

mod procfile;

use super::envfile::EnvArgs;
use super::failure::INTERRUPTED;
use super::label::{self, Label};
use super::log::Several;
use super::named::{note_of_another, shown, with_ids};
use super::{Context, Failure, kill, millis, run};
use clap::Args;
use outlast_client::{Client, ClientError, Command, EnvVar, Kill, KillAll, ProcessId, ProcessInfo, Reason, Scope, Spec, Status};
use procfile::{Procfile, ProcfileEntry};
use serde_json::json;
use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet};

/// Run the lines of a Procfile and show their output
///
/// Each line is `name: command`; blank lines and lines that begin with # are skipped. Every command runs under its name, in the directory of the file, with
/// the label procfile=PATH. Each line of output is prefixed with the name of its process.
///
/// Ctrl-C stops all of them; a second Ctrl-C kills them at once. If this program is ended in another way, for instance because the terminal is closed, they
/// keep running. A process that ends leaves the others running. When all have ended, the exit code is the first that is not 0, in the order of the file.
///
/// If a line is wrong, or processes of the file are running already, nothing is started.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The file, or a directory with a file Procfile
    #[arg(value_name = "FILE", default_value = "Procfile")]
    file: OsString,
    /// Start the processes, print their ids and names, and leave them running
    #[arg(long, short)]
    detach: bool,
    #[command(flatten)]
    env: EnvArgs,
}

impl Up {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let mut given = self.file;
        if ctx.world.path(&given).is_dir() {
            given = std::path::Path::new(&given).join("Procfile").into();
        }
        let file = Procfile::read(&given, &ctx.world.path(&given))?;
        let env = self.env.read(&ctx.world)?;
        // From here on Ctrl-C stops what was started, also if it comes while the rest is being started.
        let mut interrupts = if self.detach { None } else { Some(signal(SignalKind::interrupt())?) };
        let client = ctx.client().await?;
        let group =
            ProcfileGroup { ctx, client: &client, label: Label::new(label::PROCFILE, file.path.to_string_lossy()), typed: file.typed() };
        let others = group.refuse_if_running().await?;
        let started = group.start(&file, env).await?;
        group.tell_namesakes(&started, &others);
        match &mut interrupts {
            None => group.detach(&started),
            Some(interrupts) => group.follow(&started, interrupts).await,
        }
    }
}

/// The processes of one file.
struct ProcfileGroup<'a> {
    ctx: &'a Context,
    client: &'a Client,
    label: Label,
    /// The value of the label in a hint: the file as the user named it.
    typed: String,
}

impl ProcfileGroup<'_> {
    /// An `outlast` command line for these processes.
    fn command(&self, verb: &str, flags: &[&str]) -> String {
        let label = Label::new(label::PROCFILE, &*self.typed).to_string();
        Command::Argv(["outlast", verb, "--label", &label].iter().chain(flags).map(|word| (*word).into()).collect()).shown()
    }

    /// Refuses if processes of the file run. Otherwise returns what else runs.
    async fn refuse_if_running(&self) -> Result<Vec<ProcessInfo>, Failure> {
        let owner = self.ctx.owner();
        let mut others = self.client.list(&Scope { task: owner.task, session: owner.session }, false).await?;
        others.retain(|p| p.status == Status::Running);
        let all: Vec<&ProcessInfo> = others.iter().filter(|p| self.label.is_on(p)).collect();
        let names: Vec<String> = all.iter().map(|p| shown(p.session_id, p.name.as_deref())).collect();
        let (follow, stop) = (self.command("log", &["--follow"]), self.command("kill", &[]));
        match &names[..] {
            [] => Ok(others),
            [one] => Err(Failure::refused(
                format!("{one} is already running from this file"),
                format!("`{follow}` follows it, `{stop}` stops it"),
            )),
            several => Err(Failure::refused(
                format!("{} are already running from this file", several.join(", ")),
                format!("`{follow}` follows them, `{stop}` stops them"),
            )),
        }
    }

    /// Notes each line whose name another running process has.
    fn tell_namesakes(&self, started: &[ProcessInfo], others: &[ProcessInfo]) {
        for name in started.iter().filter_map(|info| info.name.as_deref()) {
            let newest = others.iter().filter(|p| p.name.as_deref() == Some(name)).max_by_key(|p| p.started_at);
            if let Some(other) = newest {
                self.ctx.out.remark(&note_of_another(name, other.session_id));
            }
        }
    }

    /// Starts every line. If one cannot be started, those before it are stopped.
    async fn start(&self, file: &Procfile, env: Vec<EnvVar>) -> Result<Vec<ProcessInfo>, Failure> {
        let mut started: Vec<ProcessInfo> = Vec::new();
        for entry in &file.entries {
            match self.start_one(file, entry, env.clone()).await {
                Ok(info) => started.push(info),
                Err(failure) => {
                    let what = format!("{}: {}", file.at(entry.line), failure.error());
                    let others = if started.is_empty() { "nothing was started" } else { "those that had been started were stopped" };
                    return Err(match self.client.kill_these(&ids(&started), self.how(None)).await {
                        Ok(_) => failure.saying(format!("{what}; {others}")),
                        Err(_) => failure.saying(format!("{what}; `{}` stops those that had been started", self.command("kill", &[]))),
                    });
                }
            }
        }
        for warning in started.first().map(|info| &info.warnings[..]).unwrap_or_default() {
            self.ctx.out.remark(&format!("note: {warning}"));
        }
        // All were given the same variables.
        if let Some(first) = started.first() {
            run::tell_not_passed_on(self.ctx, first);
            label::tell_if_not_kept(self.ctx, true, first);
        }
        Ok(started)
    }

    async fn start_one(&self, file: &Procfile, entry: &ProcfileEntry, env: Vec<EnvVar>) -> Result<ProcessInfo, Failure> {
        let mut spec = Spec::shell(entry.command.as_str()).named(&entry.name).in_dir(file.dir()).owned_by(self.ctx.owner());
        spec.labels = label::collect(vec![self.label.clone()])?;
        spec.env = env;
        let info = self.client.run_info(outlast_client::Run::new(spec, self.ctx.caller())).await?;
        match (info.fate.completion_reason, &info.fate.start_error) {
            (Some(Reason::FailedStart), why) => {
                let why = why.as_deref().unwrap_or("no reason is known");
                Err(Failure::fault(format!("{} failed to start: {why}", entry.name), ""))
            }
            _ => Ok(info),
        }
    }

    fn detach(&self, started: &[ProcessInfo]) -> Result<i32, Failure> {
        if self.ctx.out.json {
            self.ctx.out.object(&with_ids(&json!({"processes": started})))?;
            return Ok(0);
        }
        for info in started {
            self.ctx.out.line(&format!("{} {}", info.session_id, info.name.as_deref().unwrap_or_default()))?;
        }
        let (follow, stop) = (self.command("log", &["--follow"]), self.command("kill", &[]));
        self.ctx.out.tip(&format!("`{follow}` follows them, `{stop}` stops them"));
        Ok(0)
    }

    /// Shows their output until all have ended. Ctrl-C stops them, the second one without a grace period; the third leaves.
    async fn follow(&self, started: &[ProcessInfo], interrupts: &mut Signal) -> Result<i32, Failure> {
        let ids = ids(started);
        let out = &self.ctx.out;
        out.tip("Ctrl-C stops them; closing the terminal leaves them running");
        let mut several = Several::whole(self.ctx, self.client, started);
        let interrupted = several.interrupted();
        let mut stops = JoinSet::new();
        let mut interruptions = 0;
        let ended = {
            let mut showing = pin!(several.show());
            loop {
                tokio::select! {
                    biased;
                    _ = interrupts.recv() => {
                        interruptions += 1;
                        interrupted.set(true);
                    }
                    Some(stopped) = stops.join_next() => match self.is_stopped(stopped) {
                        true => continue,
                        false => break Ended::Left(1),
                    },
                    is_whole = &mut showing => break Ended::All(is_whole?),
                }
                let how = match interruptions {
                    1 => {
                        out.remark("\nstopping them; Ctrl-C again kills them at once");
                        self.how(None)
                    }
                    2 => self.how(Some(Duration::ZERO)),
                    _ => break Ended::Left(INTERRUPTED),
                };
                let (client, ids) = (self.client.clone(), ids.clone());
                stops.spawn(async move { client.kill_these(&ids, how).await });
            }
        };
        match ended {
            Ended::Left(code) => several.leave().map(|()| code),
            Ended::All(is_whole) => {
                let mut is_done = true;
                while let Some(stopped) = stops.join_next().await {
                    is_done &= self.is_stopped(stopped);
                }
                Ok(match several.exit_code() {
                    _ if !is_whole || !is_done => 1,
                    _ if interruptions > 0 => INTERRUPTED,
                    code => code,
                })
            }
        }
    }

    /// Whether a stop did what it should. Reports what it could not do.
    fn is_stopped(&self, answer: Result<Result<KillAll, ClientError>, JoinError>) -> bool {
        let failed = match answer {
            Ok(Ok(stopped)) => stopped.failed.iter().map(ToString::to_string).collect(),
            Ok(Err(e)) => vec![Failure::from(e).error().to_owned()],
            Err(e) => vec![e.to_string()],
        };
        failed.iter().for_each(|what| self.ctx.out.remark(&format!("outlast: {what}")));
        failed.is_empty()
    }

    /// How they are stopped. Without a time the configured grace period counts.
    fn how(&self, grace: Option<Duration>) -> Kill {
        let mut how = Kill::default();
        how.grace_ms = grace.or(kill::configured(self.ctx)).map(millis);
        how
    }
}

/// Why no more is shown.
enum Ended {
    /// All have ended. Whether everything could be read.
    All(bool),
    /// They may run on. The exit code.
    Left(i32),
}

fn ids(of: &[ProcessInfo]) -> Vec<ProcessId> {
    of.iter().map(|info| info.session_id).collect()
}
