//! `run`: check, write down, start, answer.

mod check;
mod elsewhere;
mod secrets;

use check::check;
pub(super) use secrets::without_secrets;
use secrets::{Scrub, masks};

use super::context::{RequestContext, run_to_completion};
use super::poll;
use crate::bytes::{hex, random_id};
use crate::disk::blocking;
use crate::facts::Facts;
use crate::index::IndexError;
use crate::instances::Holder;
use crate::launch::KeeperSource;
use crate::notices::NamedBy;
use crate::parts::Parts;
use crate::points::point;
use crate::shell::{self, CommandForm, MergeError, OutputMode, Variable};
use crate::table::{ProcessView, Reservation};
use crate::{cgroup, final_record, refuse};
use outlast_core::{Command, EnvVar, OsText, Phase, ProcessId, Spec, StartFailure, limits};
use outlast_store::segments::Keep;
use outlast_store::spec::{Kept, Launch, SpecFile};
use outlast_wire::code;
use outlast_wire::v1::{self, Caller, Error, Process};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// The umask of a command if its client sends none. The engine's own would hide the command's files from other users.
const USUAL_UMASK: u32 = 0o022;
/// How many descriptors must be free for a start: those it needs, and a few for other requests meanwhile.
const DESCRIPTORS: usize = 16;
/// A warning about values that cannot all be masked.
const NOT_ALL_MASKED: &str = "the secret values of its environment have too many lines: some of them are not masked in its output";
/// When memory runs out, the kernel kills commands before the engine and the keepers.
const OOM_SCORE_ADJ: i32 = 300;

pub(super) async fn run(asked: &RequestContext, spec: v1::Spec, want: Option<ProcessId>, caller: Caller) -> Result<Process, Error> {
    let spec = spec.into_core(asked.owner.clone());
    start(asked, spec, want, caller, None).await
}

/// Runs a spec once: the same request with the same id gets the same process. `again`: the process that a request without a conversation
/// runs again, for the conversation that it belongs to.
pub(super) async fn start(
    asked: &RequestContext,
    spec: Spec,
    want: Option<ProcessId>,
    caller: Caller,
    again: Option<ProcessId>,
) -> Result<Process, Error> {
    check(&spec, &caller, &Scrub::new(&spec, &asked.parts.redactor))?;
    if let Some(refused) = &asked.parts.at_start.refused_call {
        return Err(refuse::refused_call(refused));
    }
    // Checked before anything is written: half a start would wait until another task closes a file.
    crate::os::room_for(DESCRIPTORS).map_err(|e| refuse::disk("nothing can be started now", &e))?;
    let (mut view, not_passed_on) = loop {
        let id = want.unwrap_or_else(random_id);
        let hash = hash(id, &spec, &caller);
        match asked.parts.table.reserve(id, hash.clone(), spec.owner.clone()).await {
            Ok(Reservation::New) => {
                let (named_by, elsewhere) = (asked.named_by(), asked.elsewhere.clone());
                let holder = match &asked.asker {
                    Some(asker) => asker.holder(),
                    None => again.and_then(|of| asked.parts.instances.holder_of(of)),
                };
                break begin(&asked.parts, StartRequest { id, hash, spec, caller, named_by, holder, elsewhere }).await?;
            }
            // Which variables the first request left out was not kept.
            Ok(Reservation::Same(view)) => break (view, Vec::new()),
            Ok(Reservation::Pending(mut pending)) => {
                // The other request ends by accepting or releasing the id. Either way this one asks again.
                let _ended = pending.changed().await;
            }
            // A random id that is taken: try another one.
            Err(error) if want.is_none() && error.code == code::ID_TAKEN => {}
            Err(error) => return Err(error),
        }
    };
    // A process in a sandbox that cannot be reached is accepted, and may start much later.
    view.until(|f| f.phase != Phase::Accepted || f.unreachable).await;
    point!("run.before_answer");
    let answer = poll::whole(asked, &view).await;
    asked.parts.spare_folders.refill();
    let mut answer = answer?;
    answer.not_passed_on = not_passed_on;
    Ok(answer)
}

/// Refuses what a start would refuse, without starting anything.
pub(super) async fn check_startable(asked: &RequestContext, spec: &Spec, caller: &Caller) -> Result<(), Error> {
    let scrub = Scrub::new(spec, &asked.parts.redactor);
    check(spec, caller, &scrub)?;
    if let Some(refused) = &asked.parts.at_start.refused_call {
        return Err(refuse::refused_call(refused));
    }
    if let Some(on) = &spec.on {
        return asked.parts.links.ready(on).await.map(|_| ());
    }
    let (wanted, here) = (spec.cwd.clone(), caller.cwd.clone());
    let found = blocking(move || shell::existing_cwd(wanted.as_ref().map(OsText::as_path), here.as_path()).map(|_| ())).await;
    found.map_err(|e| refuse::disk("cannot look for its directory", &e))?.map_err(|e| scrub.error(bad_cwd(e)))
}

#[derive(Clone)]
struct StartRequest {
    id: ProcessId,
    hash: String,
    spec: Spec,
    caller: Caller,
    named_by: NamedBy,
    /// The conversation that it belongs to as it is requested, if its session has several.
    holder: Option<Holder>,
    /// A warning about where the command runs.
    elsewhere: Option<String>,
}

/// Writes the request down and has the process supervised. If the client leaves meanwhile, this is completed or undone.
async fn begin(parts: &Arc<Parts>, request: StartRequest) -> Result<(ProcessView, Vec<String>), Error> {
    let (parts, id) = (Arc::clone(parts), request.id);
    run_to_completion(async move {
        // If the conversation ends meanwhile, the process passes to its successor with all others.
        if let Some(holder) = request.holder.clone() {
            parts.instances.hold(id, holder);
        }
        let begun = write_down(&parts, request).await;
        if begun.is_err() {
            parts.table.let_go(id).await;
            parts.instances.let_go(id);
        }

        begun.map_err(|error| if parts.own_home.is_lost() { refuse::home_gone(&parts.home.root) } else { error })
    })
    .await
}

async fn write_down(parts: &Arc<Parts>, request: StartRequest) -> Result<(ProcessView, Vec<String>), Error> {
    let (id, named_by) = (request.id, request.named_by);
    let environment = request.spec.on.clone();
    let mut prepared = match &environment {
        None => prepare(parts, request).await?,
        Some(on) => {
            // Before anything is written: what is wrong with the environment is a refusal, and not the end of a process.
            let sandbox = parts.links.ready(on).await?;
            elsewhere::prepare(parts, request, &sandbox)?
        }
    };
    let not_passed_on = std::mem::take(&mut prepared.not_passed_on);
    let (dir, kept, failed) = (parts.home.process(id), prepared.kept.clone(), prepared.failure.is_some());
    let now = parts.now();
    let spare = parts.spare_folders.take();
    let write = move || -> Result<(), Error> {
        let written = match spare.map(|spare| spare.become_process(&dir, &prepared.kept, &prepared.launch)) {
            Some(Ok(())) => Ok(()),
            // Without a spare folder it either works or gives a better error.
            Some(Err(_)) | None => {
                dir.create().map_err(|e| refuse::disk(format!("cannot make {}", dir.path.display()), &e))?;
                let no_room = |source| outlast_store::spec::SpecError::Io { path: dir.meta(), doing: "make", source };
                SpecFile::create(&dir, &prepared.kept, &prepared.launch)
                    .and_then(|()| outlast_store::meta::Meta::make_room(&dir).map_err(no_room))
            }
        };
        let written = written.map_err(|e| spec_failed(&e)).and_then(|()| match prepared.failure {
            // It cannot be started. That is reported as the end of the process, and not as a refusal.
            Some(failure) => {
                final_record::never_started(&dir, id, failure, now).map(|_| ()).map_err(|e| refuse::disk("cannot write the end", &e))
            }
            None => Ok(()),
        });
        if written.is_err() {
            undo(&dir);
        }
        written
    };
    parts.disk.at(write).await.map_err(|e| refuse::disk("cannot write the request", &e))??;
    // The keeper prepares itself while the request is written to disk. If there is none, the supervisor of the process asks again.
    // A process in a sandbox has its keepers there.
    let keeper = if failed || environment.is_some() { None } else { parts.launcher.ask(id, KeeperSource::ForkServer).await.ok() };
    point!("run.before_commit");
    if let Err(error) = accept(parts, &kept, named_by).await {
        if let Some(keeper) = keeper {
            keeper.call_off().await;
        }
        let dir = parts.home.process(id);
        // It logs its own failure. The first error is answered.
        let _undone = blocking(move || undo(&dir)).await;
        return Err(refuse::index_start(&error));
    }
    point!("run.after_commit");
    let keeper = match keeper {
        Some(keeper) => keeper.go().await.ok(),
        None => None,
    };
    Ok((parts.table.accept_process(Facts::accepted(kept), keeper).await?, not_passed_on))
}

/// Commits the request, with the conversation that the process belongs to by now.
async fn accept(parts: &Parts, kept: &Kept, named_by: NamedBy) -> Result<(), IndexError> {
    let _none_passes = parts.instances.while_none_passes().await;
    let holder = parts.instances.holder_of(kept.id);
    parts.outbox.accept(Facts::accepted(kept.clone()), named_by, holder).await
}

/// Removes a folder that was not accepted.
pub(super) fn undo(dir: &outlast_store::dir::ProcessDir) {
    if let Err(error) = dir.remove() {
        // It has no row. The next start removes it, or takes it in if a command was started in it.
        tracing::warn!(path = %dir.path.display(), %error, "cannot remove what was begun");
    }
}

fn spec_failed(error: &outlast_store::spec::SpecError) -> Error {
    match error {
        outlast_store::spec::SpecError::Io { source, .. } => refuse::disk(error, source),
        other => refuse::fault(other),
    }
}

struct Prepared {
    kept: Kept,
    launch: Launch,
    /// Why it cannot be started, if that is known already.
    failure: Option<StartFailure>,
    /// Variables of the client that the command does not get.
    not_passed_on: Vec<String>,
}

/// Finds shell, directory and program, and makes the environment.
async fn prepare(parts: &Arc<Parts>, request: StartRequest) -> Result<Prepared, Error> {
    let failed = |e: std::io::Error| refuse::disk("cannot prepare the command", &e);
    let here = Arc::clone(parts);
    let request = match parts.disk.at(move || prepare_now(&here, request, LoginFiles::IfKept)).await.map_err(failed)? {
        Attempt::Made(prepared) => return *prepared,
        Attempt::Unread(request) => *request,
    };
    // Login files are slow the first time, and one shell reads them for all.
    // The semaphore is never closed, so there is always a turn.
    let _turn = parts.login.acquire().await;
    let parts = Arc::clone(parts);
    match blocking(move || prepare_now(&parts, request, LoginFiles::Read)).await.map_err(failed)? {
        Attempt::Made(prepared) => *prepared,
        Attempt::Unread(_) => Err(refuse::fault("login files were read, and are not kept")),
    }
}

/// The result of an attempt to prepare a start.
enum Attempt {
    Made(Box<Result<Prepared, Error>>),
    /// Login files would have to be read first. The request is returned.
    Unread(Box<StartRequest>),
}

/// What to do if login files were not read yet, or have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginFiles {
    /// Run a login shell, for as long as that takes.
    Read,
    /// Use a snapshot only if there is a current one.
    IfKept,
}

fn prepare_now(parts: &Parts, request: StartRequest, login: LoginFiles) -> Attempt {
    let config = &parts.config;
    let value = |name: &[u8]| request.caller.env.iter().rev().find(|v| v.name.as_bytes() == name).map(|v| v.value.as_bytes());
    let shell = shell::find(value(b"PATH"), value(b"SHELL"));
    let dir = parts.home.shell();
    let wanted =
        shell::SnapshotRequest { shell: &shell, home: &config.user.home, user: &config.user.name, dir: &dir, limit: config.snapshot_limit };
    let snapshot = match login {
        LoginFiles::Read => parts.snapshots.get(&wanted),
        LoginFiles::IfKept => match parts.snapshots.kept(&wanted) {
            Some(kept) => kept,
            None => return Attempt::Unread(Box::new(request)),
        },
    };
    let scrub = Scrub::new(&request.spec, &parts.redactor);
    Attempt::Made(Box::new(prepare_with(parts, request, &shell, snapshot.as_ref(), &scrub).map_err(|e| scrub.error(e))))
}

fn prepare_with(
    parts: &Parts,
    request: StartRequest,
    shell: &shell::Shell,
    snapshot: Option<&shell::Snapshot>,
    scrub: &Scrub<'_>,
) -> Result<Prepared, Error> {
    let StartRequest { id, hash, spec, caller, elsewhere, .. } = request;
    let config = &parts.config;
    let variables =
        |all: &[EnvVar]| -> Vec<Variable> { all.iter().map(|v| (v.name.as_bytes().to_vec(), v.value.as_bytes().to_vec())).collect() };
    let inherited: Vec<Variable> = caller.env.into_iter().map(|v| (v.name.into_bytes(), v.value.into_bytes())).collect();
    let extras = variables(&spec.env);
    let cwd = shell::existing_cwd(spec.cwd.as_ref().map(OsText::as_path), caller.cwd.as_path()).map_err(bad_cwd)?;
    let mut warnings: Vec<String> = elsewhere.into_iter().collect();
    let is_worth_a_warning = config.detach && !parts.at_start.stays_in_session && !cgroup::ends_with_namespace();
    if let (true, None, Some(why)) = (is_worth_a_warning, &parts.place, parts.at_start.degraded.first()) {
        warnings.push(why.clone());
    }
    warnings.extend(parts.at_start.logout.clone());
    let limits = caller.limits;
    warnings.extend(limits.as_ref().zip(config.inherited.as_ref()).and_then(|(wanted, inherited)| inherited.shortfall(wanted)));
    let name = id.to_string();
    let arguments: Vec<Vec<u8>>;
    let form = match &spec.command {
        Command::Shell(line) => CommandForm::Line(line.as_bytes()),
        Command::Argv(args) => {
            arguments = args.iter().map(|a| a.as_bytes().to_vec()).collect();
            CommandForm::Argv(&arguments)
        }
    };
    let merged = shell::merge(&shell::LaunchInputs {
        caller: &inherited,
        extras: &extras,
        snapshot,
        shell,
        form,
        mode: if spec.pty { OutputMode::Pty } else { OutputMode::Pipe },
        cwd: &cwd,
        process_id: &name,
    })
    .map_err(|e| bad_spec(&e))?;
    // An empty variable is not missed.
    let is_missed = |name: &&Vec<u8>| shell::is_missed(name) && inherited.iter().any(|(n, value)| n == *name && !value.is_empty());
    let not_passed_on = merged.removed.iter().filter(is_missed).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let (program, failure) = match &spec.command {
        Command::Shell(_) => (shell.path.as_path().into(), None),
        Command::Argv(_) => match shell::resolve_program(&merged.argv[0], merged.path(), &cwd) {
            Ok(path) => (path.as_path().into(), None),
            Err(e) => {
                let errno = if e.exit_code() == 127 { libc::ENOENT } else { libc::EACCES };
                // Only what happened is kept. What to do about it is added where it is shown.
                let what = scrub.program_error(e, &spec.command).to_string().split(": ").next().unwrap_or_default().to_owned();
                (OsText::default(), Some(StartFailure { errno, what }))
            }
        },
    };
    let shown = |path: &OsText| Some(scrub.path(path, &spec.command)).filter(|shown| shown != path);
    let (program_shown, cwd_shown) = (shown(&program), shown(&cwd.as_path().into()));
    let keep = Keep { tail: config.log_tail_bytes, ..Keep::default() };
    let launch = Launch {
        program,
        argv: merged.argv.into_iter().map(Into::into).collect(),
        env: merged.env.into_iter().map(|(name, value)| EnvVar { name: name.into(), value: value.into() }).collect(),
        cwd: cwd.as_path().into(),
        pty: spec.pty.then_some(limits::PTY_SIZE),
        stdin: spec.stdin,
        timeout: spec.timeout,
        keep,
        home: parts.home.root.as_path().into(),
        run_dir: parts.sockets.dir().as_path().into(),
        engine: config.program.as_deref().map(Into::into),
        cgroup: parts.place.as_ref().map(|p| p.dir.as_path().into()),
        oom_score_adj: OOM_SCORE_ADJ,
        grace: config.grace,
        umask: Some(caller.umask.unwrap_or(USUAL_UMASK) & 0o777),
        nofile: None,
        program_shown,
        cwd_shown,
        limits: limits.map(|limits| *limits).or_else(|| config.inherited.as_ref().map(|i| i.limits.clone())),
    };
    let is_line = matches!(spec.command, Command::Shell(_));
    let (masks, all_masked) = masks(&spec, &parts.redactor);
    if !all_masked {
        warnings.push(NOT_ALL_MASKED.into());
    }
    let (spec, scrubbed) = without_secrets(spec, &parts.redactor);
    let kept = Kept {
        id,
        spec,
        hash,
        accepted_at: parts.now(),
        cwd: cwd.as_path().into(),
        shell: is_line.then(|| shell.path.as_path().into()),
        command_scrubbed: scrubbed.command,
        env_scrubbed: scrubbed.env,
        warnings,
        keep,
        masks,
    };
    Ok(Prepared { kept, launch, failure, not_passed_on })
}

fn bad_cwd(error: shell::NoDirectory) -> Error {
    refuse::refusal(code::BAD_SPEC, error.to_string(), error.hint())
}

fn bad_spec(error: &MergeError) -> Error {
    let text = error.to_string();
    match text.split_once("; ") {
        Some((what, hint)) => refuse::refusal(code::BAD_SPEC, what, hint),
        None => refuse::refusal(code::BAD_SPEC, text, ""),
    }
}

/// The hash of what makes two requests the same: command, directory, explicit environment, flags and owner. It covers the id, so hashes do
/// not show which processes have the same command.
fn hash(id: ProcessId, spec: &Spec, caller: &Caller) -> String {
    let here = caller.cwd.as_path();
    let cwd = OsText::from(spec.cwd.as_ref().map_or(here.to_owned(), |dir| here.join(dir.as_path())).as_path() as &Path);
    // A retry may wait or not.
    let mut whole = match &spec.on {
        None => spec.clone().in_dir(cwd),
        // The caller's directory is of another machine.
        Some(_) => spec.clone(),
    };
    whole.tell.awaited = false;
    let mut sum = Sha256::new();
    sum.update(id.bytes());
    // A spec holds strings, numbers and lists only, which always serialise.
    sum.update(serde_json::to_vec(&whole).expect("a spec serialises"));
    hex(&sum.finalize())
}

#[cfg(test)]
mod tests;
