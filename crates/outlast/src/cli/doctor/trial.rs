//! Tries the promises: runs real commands in a scratch home, and kills our own processes there.
//!
//! The user's home is not touched. A function of its own turns the observations into checks.

mod parts;
mod scratch;

use super::{Check, CheckState, Context, times};
use outlast_client::{Client, ClientError, Connect, Owner, Start};
use parts::{Trial, Victim};
use scratch::{NotMade, Scratch};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NAME: &str = "trial";
/// How long the engine of the scratch home may take to start.
const ENGINE_START_TIMEOUT: Duration = Duration::from_secs(15);

/// What a trial observed; a part that was not tried is absent.
#[derive(Debug, Default)]
pub(super) struct TrialReport {
    not_made: Option<NotMade>,
    /// The engine did not start.
    engine: Option<TrialFailure>,
    pipe: TrialPart<CommandRun>,
    terminal: TrialPart<CommandRun>,
    keepers: TrialPart<KillSurvived>,
    next_engine: TrialPart<KillSurvived>,
    /// The scratch home that could not be removed, and why.
    left: Option<(PathBuf, std::io::Error)>,
}

type TrialPart<T> = Option<(Result<T, TrialFailure>, Duration)>;

/// A command that printed, read and was stopped.
#[derive(Debug)]
pub(super) struct CommandRun {
    bytes: usize,
    /// How many processes the stop ended.
    stopped: usize,
    /// Whether it was in a cgroup of its own.
    has_leaf: bool,
    /// The command's warnings, as `poll` shows them.
    warnings: Vec<String>,
}

/// A command that kept running when a process of ours was killed.
#[derive(Debug)]
pub(super) struct KillSurvived {
    /// `full` or `output-only`, as `poll` shows it.
    protection: String,
}

/// An observation that breaks or weakens a promise.
#[derive(Debug)]
pub(super) struct TrialFailure {
    state: CheckState,
    promises: &'static [&'static str],
    what: String,
    means: &'static str,
    hint: String,
    /// Nothing can be started, so the other parts would only repeat this.
    is_fatal: bool,
}

impl TrialFailure {
    fn broken(promises: &'static [&'static str], what: impl Into<String>) -> Self {
        let means = "commands that run here are affected in the same way";
        let hint = "please report it, with the output of `outlast doctor --json`".into();
        Self { state: CheckState::Broken, promises, what: what.into(), means, hint, is_fatal: false }
    }

    fn hang(what: &str, limit: Duration) -> Self {
        Self::broken(&[], format!("timed out after {} s, waiting for {what}", limit.as_secs()))
    }

    fn refused(what: &str, error: &ClientError) -> Self {
        let failure = Self::broken(&[], format!("{error} (while waiting for {what})"));
        let hint = match error {
            // The log that the error names is removed with the scratch home.
            ClientError::Start { .. } => "`outlast engine start` tries the same in your home, and engine.log there says more",
            other => other.hint(),
        };
        if hint.is_empty() { failure } else { Self { hint: hint.to_owned(), ..failure } }
    }

    /// Everything else works without a terminal.
    fn no_terminal(why: &str) -> Self {
        let means = "commands that need a terminal do not work here; all others do";
        let hint = "allow the container or sandbox to open terminals (/dev/ptmx and devpts)".into();
        Self { state: CheckState::Degraded, means, hint, ..Self::broken(&[], why) }
    }

    fn fatal(self) -> Self {
        Self { is_fatal: true, means: "no command can be started; the rest was not tried", ..self }
    }
}

impl TrialReport {
    /// Whether the trial's commands had cgroups of their own, if that was observed.
    pub(super) fn has_leaf(&self) -> Option<bool> {
        talked(&self.pipe).map(|t| t.has_leaf)
    }

    /// How many processes a stop ended.
    pub(super) fn stopped(&self) -> Option<usize> {
        talked(&self.pipe).map(|t| t.stopped)
    }

    /// Whether the exit code stays protected after a keeper was lost, if that was observed.
    pub(super) fn has_full_protection(&self) -> Option<bool> {
        self.keepers.as_ref().and_then(|(seen, _)| seen.as_ref().ok()).map(|k| k.protection == "full")
    }
}

fn talked(part: &TrialPart<CommandRun>) -> Option<&CommandRun> {
    part.as_ref().and_then(|(seen, _)| seen.as_ref().ok())
}

/// Tries everything in a scratch home beside the home of `ctx`, and removes it. None if it was interrupted.
pub(super) async fn perform(ctx: &Context, interrupted: impl Future<Output = ()>) -> Option<TrialReport> {
    let program = &ctx.world.program;
    scratch::remove_abandoned(&ctx.settings.home, program).await;
    let mut seen = TrialReport::default();
    let scratch = match Scratch::make(&ctx.settings.home) {
        Ok(scratch) => scratch,
        Err(not_made) => return Some(TrialReport { not_made: Some(not_made), ..seen }),
    };
    let home = scratch.home.clone();
    let is_complete = tokio::select! {
        () = try_all(ctx, &scratch, &mut seen) => true,
        () = interrupted => false,
    };
    seen.left = scratch.remove(program).await.err().map(|e| (home, e));
    is_complete.then_some(seen)
}

async fn try_all(ctx: &Context, scratch: &Scratch, seen: &mut TrialReport) {
    let mut to = Connect::to(&scratch.home).speaking_for(Owner::session("outlast doctor"));
    to.start = Start::OnDemand { program: ctx.world.program.clone() };
    let client = match parts::within_limit(ENGINE_START_TIMEOUT, "an engine to start", Client::connect(&to)).await {
        Ok(client) => client,
        Err(failure) => return seen.engine = Some(failure.fatal()),
    };
    let env = ctx.world.env.iter().filter(|(name, _)| name != "OUTLAST_HOME").cloned();
    let env = env.chain([("OUTLAST_HOME".into(), scratch.home.clone().into())]);
    let mut caller = outlast_client::caller(env, &scratch.home);
    caller.umask = ctx.world.umask;
    let trial = Trial { client, home: scratch.home.clone(), caller, login_limit: ctx.settings.snapshot_limit };
    seen.pipe = timed(trial.talk(false)).await;
    if matches!(&seen.pipe, Some((Err(failure), _)) if failure.is_fatal) {
        return;
    }
    seen.terminal = timed(trial.talk(true)).await;
    let keepers = async {
        // Each kill has a command of its own: the promise covers the loss of one process.
        trial.kill(Victim::Pump).await?;
        trial.kill(Victim::Holder).await
    };
    seen.keepers = timed(keepers).await;
    seen.next_engine = timed(trial.kill(Victim::Engine)).await;
}

async fn timed<T>(part: impl Future<Output = Result<T, TrialFailure>>) -> TrialPart<T> {
    let began = Instant::now();
    let done = part.await;
    Some((done, began.elapsed()))
}

/// The checks, one line for each part.
pub(super) fn checks(seen: &TrialReport) -> Vec<Check> {
    let mut all = Vec::new();
    if let Some(NotMade { dir, error }) = &seen.not_made {
        all.push(
            Check::degraded(NAME, &[], format!("nothing was tried: cannot make a scratch home in {}: {error}", dir.display()))
                .means("the promises could not be checked by trying them")
                .hint(match error.kind() {
                    std::io::ErrorKind::StorageFull => "make room there, then run `outlast doctor` again".to_owned(),
                    _ => "make it writable for you, or set OUTLAST_HOME to a directory that is".to_owned(),
                }),
        );
    }
    if let Some(failure) = &seen.engine {
        all.push(failed("engine", failure));
    }
    let talked = |t: &CommandRun| {
        let output = times::size(t.bytes as u64);
        let stop = format!("a stop ended all {} processes of a tree (P6)", t.stopped);
        format!("{output} of output are complete (P2), input arrived, the exit code is right (P3), {stop}")
    };
    all.extend(check("pipe", &seen.pipe, talked));
    all.extend(check("terminal", &seen.terminal, talked));
    let mut warnings: Vec<&String> = [&seen.pipe, &seen.terminal].into_iter().filter_map(self::talked).flat_map(|t| &t.warnings).collect();
    warnings.sort();
    warnings.dedup();
    for warning in warnings {
        all.push(
            Check::degraded(NAME, &["P5"], format!("every command has the warning: {warning}"))
                .means("all other promises hold")
                .hint("nothing has to be done; a newer kernel or another security profile of the container allows it"),
        );
    }
    let unharmed = "no output was lost, the exit code is right and the end was reported once (P4, P5)";
    all.extend(check("keepers", &seen.keepers, |_| format!("each was killed while a command ran: it kept running, {unharmed}")));
    all.extend(check("engine", &seen.next_engine, |_| format!("it was killed while a command ran: the next engine found it, {unharmed}")));
    if let Some((home, error)) = &seen.left {
        all.push(
            Check::degraded(NAME, &[], format!("the scratch home {} could not be removed: {error}", home.display()))
                .means("it takes a little room")
                .hint("the next `outlast doctor` tries again; otherwise remove it by hand"),
        );
    }
    all
}

fn check<T>(part: &str, seen: &TrialPart<T>, good: impl Fn(&T) -> String) -> Option<Check> {
    let (seen, took) = seen.as_ref()?;
    Some(match seen {
        Ok(seen) => Check::ok(NAME, format!("{part}: {} ({:.1} s)", good(seen), took.as_secs_f64())),
        Err(failure) => failed(part, failure),
    })
}

fn failed(part: &str, failure: &TrialFailure) -> Check {
    let check = match failure.state {
        CheckState::Degraded => Check::degraded(NAME, failure.promises, format!("{part}: {}", failure.what)),
        CheckState::Ok | CheckState::Broken => {
            Check { promises: failure.promises, ..Check::broken(NAME, format!("{part}: {}", failure.what)) }
        }
    };
    check.means(failure.means).hint(failure.hint.clone())
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;
    use std::io;

    fn after<T>(ms: u64, seen: Result<T, TrialFailure>) -> TrialPart<T> {
        Some((seen, Duration::from_millis(ms)))
    }

    fn talked(has_leaf: bool) -> Result<CommandRun, TrialFailure> {
        Ok(CommandRun { bytes: 42_401, stopped: 4, has_leaf, warnings: Vec::new() })
    }

    fn killed(protection: &str) -> Result<KillSurvived, TrialFailure> {
        Ok(KillSurvived { protection: protection.into() })
    }

    fn good() -> TrialReport {
        let (pipe, terminal) = (after(310, talked(true)), after(190, talked(true)));
        TrialReport {
            pipe,
            terminal,
            keepers: after(420, killed("full")),
            next_engine: after(380, killed("full")),
            ..TrialReport::default()
        }
    }

    #[test]
    fn what_was_seen_is_reported_part_by_part() {
        let refused = ClientError::Start {
            peer: outlast_client::Peer::Engine,
            program: "/bin/outlast".into(),
            error: "No space left on device".into(),
            hint: "its log says more".into(),
        };
        let not_made = |kind: io::ErrorKind| Some(NotMade { dir: "/home/me".into(), error: kind.into() });
        let cases = [
            ("all is well", good()),
            ("the directory is read-only", TrialReport { not_made: not_made(io::ErrorKind::ReadOnlyFilesystem), ..TrialReport::default() }),
            ("the disk is full", TrialReport { not_made: not_made(io::ErrorKind::StorageFull), ..TrialReport::default() }),
            ("no engine", TrialReport { engine: Some(TrialFailure::refused("an engine to start", &refused)), ..TrialReport::default() }),
            (
                "nothing starts",
                TrialReport {
                    pipe: after(2_000, Err(TrialFailure::broken(&[], "no command can be started: Permission denied").fatal())),
                    ..TrialReport::default()
                },
            ),
            (
                "a terminal cannot be had, and a stop hangs",
                TrialReport {
                    pipe: after(10_300, Err(TrialFailure::hang("a tree to be stopped", Duration::from_secs(10)))),
                    terminal: after(20, Err(TrialFailure::no_terminal("a terminal was asked for and could not be had"))),
                    ..good()
                },
            ),
            (
                "a promise is broken",
                TrialReport {
                    keepers: after(400, Err(TrialFailure::broken(&["P3"], "the exit code of a command is not known: it is lost"))),
                    ..good()
                },
            ),
            (
                "a call is refused",
                TrialReport {
                    pipe: after(
                        310,
                        talked(true).map(|t| CommandRun {
                            warnings: vec!["splice or tee is refused here: a killed keeper can lose output".into()],
                            ..t
                        }),
                    ),
                    ..good()
                },
            ),
            (
                "something is left",
                TrialReport { left: Some(("/home/me/.outlast-doctor-7-0".into(), io::ErrorKind::ResourceBusy.into())), ..good() },
            ),
        ];
        let text = cases.map(|(name, seen)| format!("# {name}\n{}", shown(&checks(&seen))));
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn only_what_was_seen_is_a_fact() {
        let nothing = TrialReport::default();
        assert_eq!((nothing.has_leaf(), nothing.stopped(), nothing.has_full_protection()), (None, None, None));
        assert_eq!((good().has_leaf(), good().stopped(), good().has_full_protection()), (Some(true), Some(4), Some(true)));
        let weaker = TrialReport { pipe: after(1, talked(false)), keepers: after(1, killed("output-only")), ..good() };
        assert_eq!((weaker.has_leaf(), weaker.has_full_protection()), (Some(false), Some(false)));
    }
}
