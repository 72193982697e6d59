//! `restart`: stops a process and its tree, and starts its command again.

use super::context::{AnswerWithEnd, RequestContext};
use super::{kill, rerun, run};
use crate::render;
use outlast_core::{EnvVar, ProcessId};
use outlast_wire::code;
use outlast_wire::v1::{Caller, Error, Kill, Killed, RerunChange, Restarted};

pub(super) async fn restart(
    asked: &RequestContext,
    name: &str,
    caller: Caller,
    env: Vec<EnvVar>,
    want: Option<ProcessId>,
    grace_ms: Option<u64>,
) -> Result<AnswerWithEnd<Restarted>, Error> {
    let view = asked.resolve_to_change(name).await?;
    // If the command could not be started again, the process is not stopped.
    let spec = rerun::spec_again(&view.facts, env, RerunChange::default(), &asked.owner)?;
    run::check_startable(asked, &spec, &caller).await?;
    let mut kill = Kill::default();
    kill.grace_ms = grace_ms;
    let (old, left_killed, of, awaiting) = match kill::kill(asked, &view.id().to_string(), kill).await {
        Ok(AnswerWithEnd { answer, of, awaiting }) => (answer, Vec::new(), of, awaiting),
        Err(error) if error.code == code::ALREADY_EXITED => {
            let mut old = Killed::new(code::ALREADY_EXITED, view.id(), render::fate(&view.facts));
            let left = error.stopped_left.unwrap_or_default();
            old.warning = left.warning;
            (old, left.left_killed, None, None)
        }
        Err(error) => return Err(error),
    };
    let new = match rerun::start_again(asked, &view, spec, want, caller).await {
        Ok(new) => new,
        Err(mut error) => {
            error.error = format!("{} was stopped and could not be started again: {}", view.id(), error.error);
            return Err(error);
        }
    };
    let mut answer = Restarted::new(old, new);
    answer.left_killed = left_killed;
    Ok(AnswerWithEnd { answer, of, awaiting })
}
