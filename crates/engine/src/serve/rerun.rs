//! `rerun`: runs the same command again in the caller's current environment.

use super::context::RequestContext;
use super::run;
use crate::facts::Facts;
use crate::refuse;
use crate::table::ProcessView;
use outlast_core::{Command, EnvVar, Owner, ProcessId, Spec};
use outlast_store::spec::Kept;
use outlast_wire::code;
use outlast_wire::v1::{Caller, Error, Process, RerunChange};

pub(super) async fn rerun(
    asked: &RequestContext,
    name: &str,
    caller: Caller,
    env: Vec<EnvVar>,
    change: RerunChange,
    want: Option<ProcessId>,
) -> Result<Process, Error> {
    let view = asked.resolve(name).await?;
    let spec = spec_again(&view.facts, env, change, &asked.owner)?;
    start_again(asked, &view, spec, want, caller).await
}

/// The spec for another run of a process. Refuses if a part of it was not kept.
pub(super) fn spec_again(of: &Facts, env: Vec<EnvVar>, change: RerunChange, owner: &Owner) -> Result<Spec, Error> {
    if of.detached {
        let what = format!("{} was adopted: how it was started is not known", of.id());
        return Err(refuse::refusal(code::BAD_SPEC, what, "start it with `outlast run`"));
    }
    again(&of.kept, env, change, owner)
}

/// Starts the spec as the successor of the process that it was taken from.
pub(super) async fn start_again(
    asked: &RequestContext,
    view: &ProcessView,
    spec: Spec,
    want: Option<ProcessId>,
    caller: Caller,
) -> Result<Process, Error> {
    let before = &view.facts.kept.spec.owner;
    let same_owner = spec.owner == *before && !asked.is_of_another(view.id());
    // A person runs it again for the conversation that started it.
    let again = Some(view.id()).filter(|_| spec.owner.session == before.session);
    let started = run::start(asked, spec, want, caller, again).await?;
    if same_owner && started.session_id != view.id() {
        let (outbox, now) = (&asked.parts.outbox, asked.parts.now());
        // The notice of the old end would only confuse its owner now.
        if let Err(error) = outbox.supersede(view.id(), started.session_id, now).await {
            tracing::warn!(%error, "the end of the older run may be delivered");
        }
    }
    Ok(started)
}

/// The spec for another run of a process, with the given values. Refuses if one is missing.
fn again(kept: &Kept, given: Vec<EnvVar>, change: RerunChange, owner: &Owner) -> Result<Spec, Error> {
    let RerunChange { name, command, .. } = change;
    if kept.command_scrubbed {
        check_secrets_given(kept, command.as_ref())?;
    }
    let is_given = |name: &outlast_core::OsText| given.iter().any(|v| v.name == *name);
    let missing: Vec<String> = kept.env_scrubbed.iter().filter(|n| !is_given(n)).map(|n| n.to_lossy().into_owned()).collect();
    if !missing.is_empty() {
        let flags: Vec<String> = missing.iter().map(|name| format!("--env {name}")).collect();
        let (what, them) = match &missing[..] {
            [one] => (format!("the value of {one} was not kept"), "it"),
            several => (format!("the values of {} were not kept", several.join(", ")), "them"),
        };
        return Err(refuse::refusal(code::SCRUBBED, what, format!("give {them} again with {}", flags.join(" "))));
    }
    let mut env: Vec<EnvVar> = kept.spec.env.iter().filter(|v| !is_given(&v.name)).cloned().collect();
    env.extend(given);
    // A caller without an owner runs it for the owner that it had.
    let owner = if *owner == Owner::default() { kept.spec.owner.clone() } else { owner.clone() };
    // A client that waited for the first process does not wait for this one.
    let mut spec = kept.spec.clone().in_dir(kept.cwd.clone()).owned_by(owner);
    (spec.tell.awaited, spec.tell.unless_waited_for) = (false, false);
    spec.env = env;
    spec.command = command.unwrap_or(spec.command);
    spec.name = name.or(spec.name);
    Ok(spec)
}

/// Refuses a command in which a mask stands where a secret was.
fn check_secrets_given(kept: &Kept, command: Option<&Command>) -> Result<(), Error> {
    let Some(command) = command.map(Command::shown) else {
        let what = format!("the command of {} held a secret, which was not kept", kept.id);
        return Err(refuse::refusal(
            code::SCRUBBED,
            what,
            format!("write it again with `outlast rerun {} --edit`, or start the whole command with `outlast run`", kept.id),
        ));
    };
    let shown = kept.spec.command.shown();
    match shown.split_whitespace().filter(|word| holds_mask(word)).find(|word| command.contains(word)) {
        None => Ok(()),
        Some(word) => {
            let what = format!("{word} stands for a secret in the command of {}, which was not kept", kept.id);
            Err(refuse::refusal(code::SCRUBBED, what, "write the secret in its place, or a variable that --env gives"))
        }
    }
}

/// Whether an argument may hold the mask of a secret: `***`, or dots before its last four characters. Dots at the end belong to the
/// command, as in `./...`.
fn holds_mask(word: &str) -> bool {
    word.contains("***") || word.match_indices("...").any(|(at, dots)| word[at + dots.len()..].chars().count() >= 4)
}
