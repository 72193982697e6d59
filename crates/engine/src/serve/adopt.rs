//! `adopt`: takes over a living process that another program started.

use super::context::RequestContext;
use super::poll;
use super::run::{undo, without_secrets};
use crate::adopt::{self, LivingProcess};
use crate::bytes::random_id;
use crate::disk::blocking;
use crate::facts::{Facts, FolderLook};
use crate::os::id_of_environment;
use crate::parts::Parts;
use crate::table::{ProcessView, Reservation, WhichProcesses};
use crate::{final_record, refuse};
use outlast_core::{Incarnation, Owner, ProcessId, Record};
use outlast_store::meta::Meta;
use outlast_store::os::{incarnation_of, parent_of};
use outlast_store::segments::Keep;
use outlast_store::spec::{Kept, Launch, SpecFile};
use outlast_wire::code;
use outlast_wire::v1::{AdoptFrom, Adopted, Error};
use std::sync::Arc;

/// How many parents are followed. Pids that are reused while they are read could form a loop.
const DEEPEST: usize = 1_024;

pub(super) async fn adopt(asked: &RequestContext, from: AdoptFrom) -> Result<Adopted, Error> {
    let (bin, now) = (asked.parts.home.bin(), asked.parts.now());
    let by_pid = matches!(from, AdoptFrom::Pid { .. });
    let mut answer = Adopted::default();
    let found: Vec<Result<LivingProcess, String>> = match from {
        AdoptFrom::Pid { pid } => {
            let hint = "`ps` shows which pids there are";
            let found = adopt::from_pid(pid, asked.owner.clone(), &bin, now);
            let found = found.map_err(|why| refuse::refusal(code::NOT_THAT_PROCESS, why, hint))?;
            vec![Ok(found)]
        }
        AdoptFrom::Checkpoint { text } => {
            let entries =
                adopt::parse(&text).map_err(|why| refuse::refusal(code::BAD_REQUEST, why, "give the text of a processes.json"))?;
            entries.into_iter().map(|e| e.and_then(|e| adopt::from_entry(e, &bin, now))).collect()
        }
        other => return Err(refuse::unknown("something to adopt", &other)),
    };
    for one in found {
        let taken = match one {
            Ok(found) if !asked.owner.may_touch(&found.spec.owner) => Err(format!("pid {} belongs to another session", found.of.pid)),
            Ok(found) => match take_in(asked, found).await {
                // A request for this pid alone is refused; of a checkpoint the entry is skipped.
                Err(error) if by_pid && error.code == code::NOT_THAT_PROCESS => return Err(error),
                taken => taken.map_err(|e| e.error),
            },
            Err(why) => Err(why),
        };
        match taken {
            Ok(view) => answer.adopted.push(poll::whole(asked, &view).await?),
            Err(why) => answer.skipped.push(why),
        }
    }
    Ok(answer)
}

/// Why this process belongs to a known one, if it does. Only the owner of that one may stop it, and it would be stopped twice.
async fn part_of(asked: &RequestContext, of: Incarnation) -> Result<Option<String>, Error> {
    let all = asked.parts.table.all(&Owner::default(), WhichProcesses::All).await?;
    let leads = |v: &ProcessView, life: Incarnation| v.facts.local().is_some_and(|facts| facts.phase.alive() == Some(life));
    let (by_name, above) = (id_of_environment(of.pid), ancestors(of.pid));
    let named = all.iter().find(|v| by_name == Some(v.id()));
    let Some(view) = named.or_else(|| all.iter().find(|v| above.iter().any(|life| leads(v, *life)))) else { return Ok(None) };
    let whose = match asked.owner.may_touch(&view.facts.kept.spec.owner) {
        true => view.id().to_string(),
        false => "a process of another session".into(),
    };
    let why = if named.is_some() { "its environment says so" } else { "it descends from it" };
    Ok(Some(format!("pid {} belongs to {whose}: {why}", of.pid)))
}

/// The living ancestors of a pid, nearest first.
fn ancestors(pid: u32) -> Vec<Incarnation> {
    let parents = std::iter::successors(parent_of(pid), |p| parent_of(*p)).take_while(|p| *p > 1);
    parents.take(DEEPEST).filter_map(|p| incarnation_of(p).ok()).collect()
}

/// The known process that has this incarnation already.
async fn known(asked: &RequestContext, of: Incarnation) -> Result<Option<ProcessView>, Error> {
    // Of all sessions: an operating-system process must not be adopted twice.
    let all = asked.parts.table.all(&Owner::default(), WhichProcesses::Live).await?;
    Ok(all.into_iter().find(|v| v.facts.local().is_some_and(|facts| facts.phase.alive() == Some(of))))
}

async fn take_in(asked: &RequestContext, found: LivingProcess) -> Result<ProcessView, Error> {
    if let Some(view) = known(asked, found.of).await? {
        return if asked.owner.may_touch(&view.facts.kept.spec.owner) {
            Ok(view)
        } else {
            Err(refuse::not_found(&view.id().to_string(), &[]))
        };
    }
    if let Some(why) = part_of(asked, found.of).await? {
        return Err(refuse::refusal(code::NOT_THAT_PROCESS, why, "`outlast list --all` shows the processes of Outlast"));
    }
    begin(&asked.parts, found).await
}

/// Writes the process down and has it supervised. If the client leaves meanwhile, this is completed or undone.
async fn begin(parts: &Arc<Parts>, found: LivingProcess) -> Result<ProcessView, Error> {
    let parts = Arc::clone(parts);
    let task = tokio::spawn(async move {
        let id = reserve(&parts, &found).await?;
        let writer = Arc::clone(&parts);
        // In a task of its own, so that the id is released after a panic, too.
        let written = tokio::spawn(async move { write_down(&writer, id, found).await });
        let taken = written.await.unwrap_or_else(|panic| Err(refuse::fault(panic)));
        if taken.is_err() {
            parts.table.let_go(id).await;
        }
        taken
    });
    task.await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
}

async fn reserve(parts: &Arc<Parts>, found: &LivingProcess) -> Result<ProcessId, Error> {
    // If the id from the checkpoint belongs to another process here, this one gets a new id.
    for id in found.id.into_iter().chain(std::iter::repeat_with(random_id)) {
        match parts.table.reserve(id, hash(found), found.spec.owner.clone()).await {
            Ok(Reservation::New) => return Ok(id),
            Ok(Reservation::Same(_) | Reservation::Pending(_)) => {}
            Err(error) if error.code == code::ID_TAKEN => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("ids do not run out")
}

fn hash(found: &LivingProcess) -> String {
    format!("adopted:{}:{}:{:032x}", found.of.pid, found.of.start_ticks, found.of.boot)
}

async fn write_down(parts: &Arc<Parts>, id: ProcessId, found: LivingProcess) -> Result<ProcessView, Error> {
    let (dir, now, of) = (parts.home.process(id), parts.now(), found.of);
    let kept = kept(parts, id, found);
    let on_disk = kept.clone();
    let written = blocking(move || -> Result<FolderLook, Error> {
        let failed = |e: std::io::Error| refuse::disk(format!("cannot write down {id}"), &e);
        dir.create().map_err(failed)?;
        // Nothing will be started, so what a keeper would need is removed at once.
        SpecFile::create(&dir, &on_disk, &nothing()).and_then(|()| SpecFile::scrub(&dir)).map_err(refuse::fault)?;
        if let Some(meta) = Meta::hold(&dir, id, now).map_err(failed)? {
            meta.release().map_err(failed)?;
        }
        final_record::record(&dir, &[Record::Adopted { at: now, of }]).map_err(failed)?;
        Ok(FolderLook::look(&dir, 0))
    })
    .await
    .map_err(|e| refuse::disk(format!("cannot write down {id}"), &e))?;
    let dir = parts.home.process(id);
    let undo = move || undo(&dir);
    let facts = match written {
        Ok(seen) => Facts::accepted(kept).with(&seen),
        Err(error) => {
            // It logs its own failure. The first error is answered.
            let _undone = blocking(undo).await;
            return Err(error);
        }
    };
    if let Err(error) = parts.index.put(facts.clone()).await {
        // It logs its own failure.
        let _undone = blocking(undo).await;
        return Err(refuse::index_start(&error));
    }
    parts.table.accept_process(facts, None).await
}

fn kept(parts: &Parts, id: ProcessId, found: LivingProcess) -> Kept {
    let hash = hash(&found);
    let (spec, _) = without_secrets(found.spec, &parts.redactor);
    Kept {
        id,
        spec,
        hash,
        accepted_at: found.started_at,
        cwd: found.cwd,
        shell: None,
        command_scrubbed: true,
        masks: None,
        env_scrubbed: Vec::new(),
        warnings: found.warnings,
        keep: Keep::default(),
    }
}

fn nothing() -> Launch {
    Launch {
        program: Default::default(),
        argv: Vec::new(),
        env: Vec::new(),
        cwd: Default::default(),
        pty: None,
        stdin: false,
        timeout: None,
        keep: Keep::default(),
        home: Default::default(),
        run_dir: Default::default(),
        engine: None,
        cgroup: None,
        oom_score_adj: 0,
        grace: Default::default(),
        umask: None,
        nofile: None,
        program_shown: None,
        cwd_shown: None,
        limits: None,
    }
}

#[cfg(test)]
mod tests;
