//! `outlast acp-proxy`

use super::failure::OURS;
use super::{Context, Failure};
use clap::Args;
use outlast_acp::{Ended, Options, Proxy};
use outlast_client::Connect;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long an agent whose output is closed, or which was asked to end, may take until it is stopped.
const ENDING: Duration = Duration::from_secs(5);

/// Run the terminals of an ACP agent so that they outlive the agent
///
/// Put it before the agent's command in the configuration of the ACP client, such as an editor. It stands between client and agent, runs the commands that the agent
/// starts in terminals of its client, and forwards all other messages unchanged. These commands outlive agent and client, and the next proxy for the same ACP
/// session continues to serve them.
///
/// Standard input and output are connected to the client, standard error to the agent. The exit code is that of the agent, or 128+n for signal n.
#[derive(Debug, Args)]
pub(crate) struct AcpProxy {
    /// The agent and its arguments
    #[arg(last = true, required = true, value_name = "AGENT")]
    agent: Vec<OsString>,
}

impl AcpProxy {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let mut signals = EndSignals::listen().map_err(|e| e.exit(OURS))?;
        let mut agent = self.start()?;
        let (Some(to_agent), Some(from_agent)) = (agent.stdin.take(), agent.stdout.take()) else {
            unreachable!("both are pipes");
        };
        let mut options = Options::new(Connect::to(&ctx.settings.home).starting(&ctx.world.program), ctx.caller());
        options.owner = ctx.owner();
        options.redact = ctx.settings.redact;
        options.remark = remark;
        let run = Proxy::new(options).run((tokio::io::stdin(), tokio::io::stdout()), (from_agent, to_agent));
        tokio::pin!(run);
        let status = loop {
            tokio::select! {
                ended = &mut run => break at_its_end(&mut agent, ended).await,
                // A process that the agent started may hold its output open after the agent has exited.
                status = agent.wait() => {
                    let _open = tokio::time::timeout(ENDING, &mut run).await;
                    break status;
                }
                // The agent decides what a signal means. If it stays, the proxy ends when its client does.
                number = signals.next() => pass_on(&agent, number),
            }
        };
        let status = status.map_err(|e| Failure::fault(format!("cannot wait for the agent: {e}"), "").exit(OURS))?;
        Ok(code(status))
    }

    fn start(&self) -> Result<Child, Failure> {
        let (program, args) = self.agent.split_first().expect("one at least is required");
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map_err(|e| {
            let code = if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            let hint = "write the agent as you would start it, after --, for instance: outlast acp-proxy -- kimi acp";
            Failure::refused(format!("cannot start the agent {}: {e}", program.display()), hint).exit(code)
        })
    }
}

/// Waits for the agent, and stops it if it does not exit by itself.
async fn at_its_end(agent: &mut Child, ended: Ended) -> io::Result<ExitStatus> {
    if ended == Ended::Agent
        && let Ok(status) = tokio::time::timeout(ENDING, agent.wait()).await
    {
        return status;
    }
    pass_on(agent, libc::SIGTERM);
    if let Ok(status) = tokio::time::timeout(ENDING, agent.wait()).await {
        return status;
    }
    agent.start_kill()?;
    agent.wait().await
}

/// Sends the agent a signal. It was not reaped yet, so the pid is still its own.
fn pass_on(agent: &Child, number: i32) {
    let pid = agent.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(number)) {
        // It may have exited meanwhile, and then needs no signal.
        let _over = rustix::process::kill_process(pid, signal);
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn remark(what: &str) {
    use std::io::Write as _;
    let _unheard = writeln!(io::stderr(), "outlast acp-proxy: {what}");
}

/// The signals that ask this program to end.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl EndSignals {
    fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|e| Failure::fault(format!("cannot listen for signals: {e}"), ""));
        Ok(Self { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())?, hang_up: on(SignalKind::hangup())? })
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.hang_up.recv() => libc::SIGHUP,
        }
    }
}
