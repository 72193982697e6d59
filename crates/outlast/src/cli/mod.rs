//! The command line: one verb, one file.

mod acp_proxy;
mod active;
mod adopt;
mod answer;
mod attach;
mod bell;
mod chat;
mod choice;
mod clean;
mod close;
mod completions;
mod config;
mod conversation;
mod doctor;
mod edit;
mod ending;
mod engine;
mod envfile;
mod events;
mod explain;
mod failure;
mod follow;
mod gateway;
mod help;
mod hook;
mod input;
mod install;
mod interrupt;
mod kill;
mod label;
mod left_running;
mod list;
mod log;
mod man;
mod mcp;
mod mistake;
mod named;
mod one_line;
mod out;
mod output;
mod owner;
mod poll;
mod progress;
mod prompt;
mod ready;
mod report;
mod rerun;
mod restart;
mod rm;
mod route;
mod run;
mod signal;
mod submit;
mod table;
mod terminal;
mod times;
mod tool;
mod top;
mod until;
mod up;
mod view;
mod wait;
mod waiting;
mod write;

pub(crate) use events::with_lines_for_people;
pub(crate) use failure::{Failure, OURS};

use crate::config::{Colours, Settings, World};
use clap::{Args, Command, FromArgMatches as _, Parser, Subcommand};
use out::Out;
use outlast_client::{Client, Connect, Owner, Scope, Start};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

/// Run background processes that outlive the program that started them
#[derive(Debug, Parser)]
#[command(name = "outlast", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Answer with one JSON object on one line
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// Print no colours, not even those of a command's output
    #[arg(long, global = true, help_heading = GLOBAL)]
    no_color: bool,
    #[command(subcommand)]
    verb: Verb,
}

impl Cli {
    /// Reports an error before the verb could begin, and returns the exit code.
    pub(crate) fn fail(&self, why: &anyhow::Error) -> i32 {
        Failure::refused(format!("{why:#}"), "").exit(OURS).tell(self.json)
    }

    /// Reports that this program cannot wait for an engine, and returns the exit code.
    pub(crate) fn fail_without_runtime(&self, why: &std::io::Error) -> i32 {
        Failure::without_runtime(why).exit(OURS).tell(self.json)
    }

    /// Whether the answer of the verb contains warnings about settings, so that they are not printed separately.
    pub(crate) fn explains_settings(&self) -> bool {
        matches!(self.verb, Verb::Doctor(_) | Verb::Report(_))
    }

    /// Whether the verb is about settings, so that each warning is printed in full.
    pub(crate) fn shows_settings(&self) -> bool {
        matches!(self.verb, Verb::Config(_))
    }
}

// The flags of a verb are defined only if it is called. So its aliases stand here.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Verb {
    Run(run::Run),
    #[command(visible_aliases = ["ls", "ps"])]
    List(list::List),
    Top(top::Top),
    #[command(visible_aliases = ["status", "show"])]
    Poll(poll::Poll),
    #[command(visible_alias = "logs")]
    Log(log::Log),
    Tail(log::Tail),
    Wait(wait::Wait),
    Until(until::Until),
    #[command(visible_alias = "stop")]
    Kill(kill::Kill),
    Signal(signal::Signal),
    Write(write::Write),
    Submit(submit::Submit),
    Close(close::Close),
    Interrupt(interrupt::Interrupt),
    Attach(attach::Attach),
    Up(up::Up),
    Rerun(rerun::Rerun),
    Restart(restart::Restart),
    Rm(rm::Rm),
    Clean(clean::Clean),
    Active(active::Active),
    Events(events::Events),
    Chat(chat::ChatArgs),
    Gateway(gateway::GatewayArgs),
    View(view::View),
    Adopt(adopt::Adopt),
    Tool(tool::Tool),
    Mcp(mcp::Mcp),
    AcpProxy(acp_proxy::AcpProxy),
    Hook(hook::Hook),
    Install(install::Install),
    Doctor(doctor::Doctor),
    Report(report::Report),
    Config(config::Config),
    Engine(engine::Engine),
    Completions(completions::Completions),
    Prompt(prompt::Prompt),
    #[command(name = "__complete", hide = true)]
    Complete(completions::Complete),
    #[command(name = "__engine", hide = true)]
    AsEngine(AsEngine),
    #[command(name = "__keeper", hide = true)]
    AsKeeper(AsKeeper),
    #[command(name = "__man", hide = true)]
    Man(man::Man),
    #[command(name = "__tell-end", hide = true)]
    TellEnd(bell::TellEnd),
}

/// Be the engine of a home.
#[derive(Debug, Args)]
pub(crate) struct AsEngine {
    /// The home
    #[arg(long)]
    pub(crate) home: PathBuf,
    /// A descriptor to write `ready` and a newline to once it listens, or `failed`
    #[arg(long)]
    pub(crate) ready_fd: Option<i32>,
    /// Leave the caller's process tree, so that a kill of that tree does not end this
    #[arg(long)]
    pub(crate) detach: bool,
}

/// Be a keeper.
#[derive(Debug, Args)]
pub(crate) struct AsKeeper {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

/// The command line, parsed.
pub(crate) enum Invocation {
    /// A verb, to be performed.
    Verb(Box<Cli>),
    /// Run as the engine of a home.
    Engine(AsEngine),
    /// Run as a keeper.
    Keeper(AsKeeper),
    /// The command line was answered while it was parsed. The exit code.
    Answered(i32),
}

/// Reads the command line.
pub(crate) fn parse(args: Vec<OsString>) -> Invocation {
    let args = help::as_flag(args);
    let json = own_words(&args).iter().any(|a| a == "--json");
    // These verbs exit with the code of a command, so an error of their own must have another code. For a hook, exit code 2 is an order to its agent.
    let verb = args.iter().skip(1).find(|a| !a.as_encoded_bytes().starts_with(b"-"));
    let explained = verb.and_then(|v| v.to_str()).and_then(explain::Explained::named);
    let may_answer_for_a_command =
        verb.is_some_and(|v| ["run", "wait", "rerun", "restart", "acp-proxy", "hook"].iter().any(|own| v == own));
    match read(&args) {
        Ok(Cli { verb: Verb::AsEngine(engine), .. }) => Invocation::Engine(engine),
        Ok(Cli { verb: Verb::AsKeeper(keeper), .. }) => Invocation::Keeper(keeper),
        // It connects to an engine by itself, with a time limit short enough for a user who is typing.
        Ok(Cli { verb: Verb::Complete(complete), .. }) => Invocation::Answered(complete.perform()),
        // It runs before every prompt of a shell and prints nothing else.
        Ok(Cli { verb: Verb::Prompt(prompt), json, .. }) => Invocation::Answered(prompt.perform(json)),
        Ok(cli) => Invocation::Verb(Box::new(cli)),
        Err(e) if !json && is_incomplete(&e) && explained.is_some() && explain::is_typed() => {
            // A reader that has closed the pipe is no error.
            let _ = write!(std::io::stdout(), "{}", explained.map(explain::Explained::text).unwrap_or_default());
            Invocation::Answered(0)
        }
        Err(e) if e.use_stderr() => {
            if json {
                Failure::usage(&e).tell(true);
            } else {
                // If standard error is closed, there is no other place to report to.
                let _ = e.print();
            }
            Invocation::Answered(if may_answer_for_a_command { OURS } else { e.exit_code() })
        }
        Err(e) => {
            // A reader that has closed the pipe is no error.
            let _ = e.print();
            Invocation::Answered(e.exit_code())
        }
    }
}

/// The command line as the verbs define it, or a mistake in it with a tip.
fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    let parsed = help::command_for(args).try_get_matches_from(args).and_then(|mut found| Cli::from_arg_matches_mut(&mut found));
    let mut cli = parsed.map_err(|e| mistake::explained(e, args))?;
    if let Verb::Run(run) = &mut cli.verb {
        run.find_separator(args);
    }
    Ok(cli)
}

/// Whether the only mistake is that something is missing.
fn is_incomplete(error: &clap::Error) -> bool {
    use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument, MissingSubcommand};
    matches!(error.kind(), DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument | MissingSubcommand)
}

/// The words that are flags of `outlast` itself: those before `--`, and for `run` those before the command.
fn own_words(args: &[OsString]) -> &[OsString] {
    let until = |at: usize| &args[..at];
    let Some(verb) = args.iter().skip(1).position(|a| !a.as_encoded_bytes().starts_with(b"-")).map(|n| n + 1) else { return args };
    let end = args.iter().position(|a| a == "--").unwrap_or(args.len());
    if args[verb] != "run" || end <= verb {
        return until(end);
    }
    let run = run::Run::augment_args(Command::new("run"));
    let flag = |word: &str| {
        run.get_arguments().find(|a| match word.strip_prefix("--") {
            Some(long) => a.get_long() == Some(long),
            // `-wf` is several flags, and the value belongs to the last.
            None => a.get_short().is_some_and(|short| word.ends_with(short)),
        })
    };
    let mut before: Option<&clap::Arg> = None;
    for (at, word) in args.iter().enumerate().take(end).skip(verb + 1) {
        let word = word.to_string_lossy();
        let is_flag = word.starts_with('-') && word != "-";
        match before.take() {
            Some(flag) if !is_flag || flag.is_allow_hyphen_values_set() => {}
            _ if is_flag => before = flag(&word).filter(|a| a.get_action().takes_values()),
            _ => return until(at),
        }
    }
    until(end)
}

/// The heading of the flags that every verb has.
const GLOBAL: &str = "Global options";

/// What every verb gets: the world, the settings and the output.
pub(crate) struct Context {
    pub(crate) world: World,
    pub(crate) settings: Settings,
    pub(crate) out: Out,
}

impl Context {
    /// The owner of requests.
    fn owner(&self) -> Owner {
        self.world.owner()
    }

    /// A client. An engine is started if none runs.
    async fn client(&self) -> Result<Client, Failure> {
        self.connect(Start::OnDemand { program: self.world.program.clone() }).await
    }

    async fn connect(&self, start: Start) -> Result<Client, Failure> {
        let mut to = Connect::to(&self.settings.home).speaking_for(self.owner());
        to.start = start;
        Ok(progress::beside(self, progress::About::Words("starting the engine"), Client::connect(&to)).await?)
    }

    /// The settings of the tools that agents call.
    fn host(&self) -> outlast_tools::Host {
        let mut host = outlast_tools::Host::new(self.caller());
        host.default_timeout = self.settings.wait_limit;
        host.foreground_limit = self.settings.foreground_limit;
        host.wait_limit = self.settings.wait_limit;
        host
    }

    /// What a command inherits from this program: environment, directory, umask and priority.
    fn caller(&self) -> outlast_client::Caller {
        let mut here = outlast_client::caller(self.world.env.iter().cloned(), &self.world.cwd);
        here.umask = self.world.umask;
        if let Some(limits) = &mut here.limits {
            limits.io_priority = self.world.io_priority;
        }
        here
    }
}

/// Performs the verb, and returns the exit code.
pub(crate) async fn run(cli: Cli, world: World, settings: Settings) -> i32 {
    let json = cli.json;
    let colours = if cli.no_color { Colours::Never } else { world.colours() };
    let out = Out::new(json, colours);
    let ctx = Context { world, settings, out };
    let handles_signals = cli.verb.handles_signals();
    let is_everyday = cli.verb.is_everyday();
    let performed = tokio::select! {
        biased;
        performed = perform(cli.verb, &ctx) => performed,
        () = terminated_as_first_process(), if !handles_signals => return 128 + libc::SIGTERM,
    };
    if is_everyday && performed.is_ok() {
        waiting::tell(&ctx).await;
    }
    match performed {
        Ok(code) => code,
        Err(failure) => failure.within(ctx.owner().session.as_deref()).tell(json),
    }
}

/// Returns on SIGTERM if this is the first process of a container. For that process the kernel drops signals without a handler, and `docker
/// stop` would wait until it may kill. In any other process SIGTERM has its default effect.
async fn terminated_as_first_process() {
    use tokio::signal::unix::{SignalKind, signal};
    if std::process::id() != 1 {
        return std::future::pending().await;
    }
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => _ = terminate.recv().await,
        Err(_) => std::future::pending().await,
    }
}

impl Verb {
    /// Whether the verb ends with a remark about waiting notices.
    fn is_everyday(&self) -> bool {
        match self {
            // The engine marks an end as seen after the answer has arrived. Verbs that show ends would still count that notice.
            Self::Run(run) => !run.is_quiet() && !run.shows_output(),
            Self::List(_) | Self::Signal(_) | Self::Rm(_) | Self::Clean(_) | Self::Active(_) => true,
            _ => false,
        }
    }

    /// Whether the verb handles SIGTERM itself.
    fn handles_signals(&self) -> bool {
        match self {
            Self::Mcp(mcp) => mcp.is_over_http(),
            Self::Chat(chat) => chat.is_open(),
            Self::AcpProxy(_) | Self::Attach(_) | Self::Events(_) | Self::Top(_) => true,
            _ => false,
        }
    }
}

async fn perform(verb: Verb, ctx: &Context) -> Result<i32, Failure> {
    match verb {
        Verb::Run(args) => args.perform(ctx).await,
        Verb::List(args) => args.perform(ctx).await,
        Verb::Top(args) => args.perform(ctx).await,
        Verb::Poll(args) => args.perform(ctx).await,
        Verb::Log(args) => args.perform(ctx).await,
        Verb::Tail(args) => args.log.followed().perform(ctx).await,
        Verb::Wait(args) => args.perform(ctx).await,
        Verb::Until(args) => args.perform(ctx).await,
        Verb::Kill(args) => args.perform(ctx).await,
        Verb::Signal(args) => args.perform(ctx).await,
        Verb::Write(args) => args.perform(ctx).await,
        Verb::Submit(args) => args.perform(ctx).await,
        Verb::Close(args) => args.perform(ctx).await,
        Verb::Interrupt(args) => args.perform(ctx).await,
        Verb::Attach(args) => args.perform(ctx).await,
        Verb::Up(args) => args.perform(ctx).await,
        Verb::Rerun(args) => args.perform(ctx).await,
        Verb::Restart(args) => args.perform(ctx).await,
        Verb::Rm(args) => args.perform(ctx).await,
        Verb::Clean(args) => args.perform(ctx).await,
        Verb::Active(args) => args.perform(ctx).await,
        Verb::Events(args) => args.perform(ctx).await,
        Verb::Chat(args) => args.perform(ctx).await,
        Verb::Gateway(args) => args.perform(ctx).await,
        Verb::View(args) => args.perform(ctx).await,
        Verb::Adopt(args) => args.perform(ctx).await,
        Verb::Tool(args) => args.perform(ctx).await,
        Verb::Mcp(args) => args.perform(ctx).await,
        Verb::AcpProxy(args) => args.perform(ctx).await,
        Verb::Hook(args) => args.perform(ctx).await,
        Verb::Install(args) => args.perform(ctx).await,
        Verb::Doctor(args) => args.perform(ctx).await,
        Verb::Report(args) => args.perform(ctx).await,
        Verb::Config(args) => args.perform(ctx).await,
        Verb::Engine(args) => args.perform(ctx).await,
        Verb::Man(args) => args.perform(),
        Verb::Completions(args) => args.perform(),
        Verb::TellEnd(args) => args.perform(ctx).await,
        // `parse` has handled them.
        Verb::AsEngine(_) | Verb::AsKeeper(_) | Verb::Complete(_) | Verb::Prompt(_) => unreachable!("not a verb for people"),
    }
}

/// The processes that a list or a stop of many applies to.
#[derive(Debug, Clone, Args)]
struct ScopeArgs {
    /// Only processes of this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Only processes of this session
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
}

impl ScopeArgs {
    /// The scope of the flags; without any, that of the environment.
    fn or(self, owner: &Owner) -> Scope {
        match self {
            Self { task: None, session: None } => Scope { task: owner.task.clone(), session: owner.session.clone() },
            Self { task, session } => Scope { task, session },
        }
    }
}

/// Parses a time: `2` and `0.5` are seconds; `90s`, `5m`, `1h30m`, `2d`.
fn seconds(text: &str) -> Result<std::time::Duration, String> {
    times::duration(text)
}

/// Parses a time that is not zero.
fn some_seconds(text: &str) -> Result<std::time::Duration, String> {
    if text.trim_start().starts_with('-') && text.trim().parse::<f64>().is_ok() {
        return Err("must be more than 0".into());
    }
    match seconds(text)? {
        std::time::Duration::ZERO => Err("a time of 0 is not allowed: leave the flag out to have no limit".into()),
        time => Ok(time),
    }
}

/// Parses a number that is at least 1.
fn some_lines(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(count) => Ok(count),
        Err(_) => Err("must be a whole number, such as 100".into()),
    }
}

/// A duration in milliseconds for the wire.
fn millis(time: std::time::Duration) -> u64 {
    // Rounded up, so that a short time does not become 0.
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
