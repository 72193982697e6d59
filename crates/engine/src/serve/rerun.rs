//! `rerun`: the same command again, in the caller's environment of now.

use super::{Asked, run};
use crate::refuse;
use outlast_core::{EnvVar, Owner, ProcessId, Spec};
use outlast_store::spec::Kept;
use outlast_wire::code;
use outlast_wire::v1::{self, Caller, Error, Process};

pub(super) async fn rerun(
    asked: &Asked,
    name: &str,
    caller: Caller,
    env: Vec<v1::EnvVar>,
    want: Option<ProcessId>,
) -> Result<Process, Error> {
    let view = asked.resolve(name).await?;
    if view.facts.detached {
        let what = format!("{} was adopted: how it was started is not known", view.id());
        return Err(refuse::refusal(code::BAD_SPEC, what, "start it with `outlast run`"));
    }
    let given = env.into_iter().map(Into::into).collect();
    let spec = again(&view.facts.kept, given, &asked.owner)?;
    let same_owner = spec.owner == view.facts.kept.spec.owner;
    let started = run::start(asked, spec, want, caller).await?;
    if same_owner && started.session_id != view.id() {
        let (outbox, now) = (&asked.shared().outbox, asked.shared().now());
        // Its owner would be told of an end that is no longer the one to look at.
        if let Err(error) = outbox.supersede(view.id(), started.session_id, now).await {
            tracing::warn!(%error, "an end that is stale may be told");
        }
    }
    Ok(started)
}

/// The spec of a process that is to run again, with values given anew. Refuses if one is missing.
fn again(kept: &Kept, given: Vec<EnvVar>, owner: &Owner) -> Result<Spec, Error> {
    if kept.command_scrubbed {
        let what = format!("the command of {} held a secret, which was not kept", kept.id);
        return Err(refuse::refusal(code::SCRUBBED, what, "start it with `outlast run` and the whole command"));
    }
    let is_given = |name: &outlast_core::OsText| given.iter().any(|v| v.name == *name);
    let missing: Vec<String> = kept.env_scrubbed.iter().filter(|n| !is_given(n)).map(|n| n.to_lossy().into_owned()).collect();
    if !missing.is_empty() {
        let what = format!("values that {} was started with were not kept: {}", kept.id, missing.join(", "));
        return Err(refuse::refusal(code::SCRUBBED, what, "give them again with --env"));
    }
    let mut env: Vec<EnvVar> = kept.spec.env.iter().filter(|v| !is_given(&v.name)).cloned().collect();
    env.extend(given);
    // Somebody who speaks for nobody in particular runs it for whom it ran.
    let owner = if *owner == Owner::default() { kept.spec.owner.clone() } else { owner.clone() };
    // Whoever waited for the first does not wait for this one.
    let mut spec = kept.spec.clone().in_dir(kept.cwd.clone()).owned_by(owner);
    (spec.tell.awaited, spec.tell.unless_waited_for) = (false, false);
    spec.env = env;
    Ok(spec)
}
