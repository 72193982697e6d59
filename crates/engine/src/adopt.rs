//! Finds processes that another program started, by a pid or a `processes.json` of the Hermes agent.

use crate::orphan::is_ours;
use outlast_core::{Incarnation, OsText, Owner, ProcessId, Route, Spec, Tell, Time};
use outlast_store::os::{incarnation_of, is_zombie};
use serde_json::Value;
use std::path::Path;

/// A living process that may be adopted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LivingProcess {
    pub(crate) of: Incarnation,
    pub(crate) id: Option<ProcessId>,
    pub(crate) spec: Spec,
    pub(crate) cwd: OsText,
    pub(crate) started_at: Time,
    /// What does not work for it after the adoption, each in a sentence.
    pub(crate) warnings: Vec<String>,
}

/// An entry of a checkpoint, with the contract's defaults for what is missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckpointEntry {
    pub(crate) id: Option<ProcessId>,
    pub(crate) pid: u32,
    pub(crate) start: Option<u64>,
    pub(crate) command: String,
    pub(crate) cwd: Option<String>,
    pub(crate) started_at: Option<Time>,
    pub(crate) owner: Owner,
    /// Whether its end is to be reported, and where to.
    pub(crate) tell: Tell,
    /// Whether its output was watched for patterns. Only its own parent can read the output.
    pub(crate) watched: bool,
}

/// Parses a checkpoint. A bad entry does not affect the others.
pub(crate) fn parse(text: &str) -> Result<Vec<Result<CheckpointEntry, String>>, String> {
    let whole: Value = serde_json::from_str(text).map_err(|e| format!("the checkpoint is not JSON: {e}"))?;
    let Value::Array(entries) = whole else { return Err("the checkpoint is not a list".into()) };
    Ok(entries.iter().enumerate().map(|(n, e)| entry(e).map_err(|why| format!("entry {n}: {why}"))).collect())
}

fn entry(value: &Value) -> Result<CheckpointEntry, String> {
    let Value::Object(fields) = value else { return Err("it is not an object".into()) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned);
    let pid = fields.get("pid").and_then(Value::as_u64).and_then(|p| u32::try_from(p).ok()).ok_or("it has no pid")?;
    match text("pid_scope").as_deref() {
        None | Some("host") => {}
        Some(scope) => return Err(format!("its pid {pid} is one inside a {scope}, which means nothing here")),
    }
    let id = text("session_id");
    let route = Route {
        platform: text("watcher_platform"),
        chat_id: text("watcher_chat_id"),
        user_id: text("watcher_user_id"),
        user_name: text("watcher_user_name"),
        thread_id: text("watcher_thread_id"),
        message_id: text("watcher_message_id"),
    };
    let notify = fields.get("notify_on_complete") == Some(&Value::Bool(true));
    Ok(CheckpointEntry {
        id: id.and_then(|s| s.parse().ok()),
        pid,
        start: fields.get("host_start_time").and_then(Value::as_u64),
        command: text("command").unwrap_or_else(|| "unknown".into()),
        cwd: text("cwd"),
        started_at: fields.get("started_at").and_then(Value::as_f64).filter(|t| *t > 0.0).map(|t| Time::from_micros((t * 1e6) as i64)),
        owner: Owner { session: text("session_key"), task: text("task_id"), generation: None },
        tell: if notify { Tell::end() } else { Tell::default() }.to(route),
        watched: fields.get("watch_patterns").and_then(Value::as_array).is_some_and(|patterns| !patterns.is_empty()),
    })
}

/// The living process of a checkpoint's entry, if its pid was not reused.
pub(crate) fn from_entry(entry: CheckpointEntry, bin: &Path, now: Time) -> Result<LivingProcess, String> {
    let of = alive(entry.pid, bin)?;
    if entry.start.is_some_and(|start| start != of.start_ticks) {
        return Err(format!("pid {} is another process by now", entry.pid));
    }
    let cwd = entry.cwd.map_or_else(|| cwd_of(entry.pid), Into::into);
    let spec = Spec::shell(entry.command).owned_by(entry.owner).telling(entry.tell);
    let unwatched = "its output cannot be read, so lines that were watched for are not reported";
    let warnings = entry.watched.then(|| unwatched.to_owned()).into_iter().collect();
    Ok(LivingProcess { of, id: entry.id, spec, cwd, started_at: entry.started_at.unwrap_or(now), warnings })
}

/// The living process with this pid.
pub(crate) fn from_pid(pid: u32, owner: Owner, bin: &Path, now: Time) -> Result<LivingProcess, String> {
    let of = alive(pid, bin)?;
    if std::fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Err(format!("pid {pid} is the kernel's own"));
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let args: Vec<OsText> = match line.strip_suffix(b"\0").unwrap_or(&line) {
        // It is about to execute another program, or has overwritten its arguments.
        b"" => vec![outlast_store::os::command_name(pid).unwrap_or_else(|| "unknown".into()).into()],
        line => line.split(|&b| b == 0).map(|a| OsText::from(a.to_vec())).collect(),
    };
    let (spec, started_at) = (Spec::argv(args).owned_by(owner), started(&of, now).unwrap_or(now));
    Ok(LivingProcess { of, id: None, spec, cwd: cwd_of(pid), started_at, warnings: Vec::new() })
}

fn cwd_of(pid: u32) -> OsText {
    // Its directory cannot be read without permission.
    std::fs::read_link(format!("/proc/{pid}/cwd")).map_or_else(|_| "/".into(), |p| p.as_path().into())
}

fn started(of: &Incarnation, now: Time) -> Option<Time> {
    let ticks_a_second = rustix::param::clock_ticks_per_second();
    let since_boot = of.start_ticks.checked_mul(1_000_000)?.checked_div(ticks_a_second)?;
    Some(Time::from_micros(crate::final_record::booted_at(now).micros() + i64::try_from(since_boot).ok()?))
}

fn alive(pid: u32, bin: &Path) -> Result<Incarnation, String> {
    if is_ours(pid, bin) || runs_outlast(pid) {
        return Err(format!("pid {pid} is Outlast's own, or the first process of the system"));
    }
    let of = incarnation_of(pid).ok().filter(|_| !is_zombie(pid)).ok_or_else(|| format!("pid {pid} is not alive"))?;
    let may = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).map(rustix::process::test_kill_process);
    match may {
        Some(Err(rustix::io::Errno::PERM)) => Err(format!("pid {pid} belongs to another user and could not be stopped")),
        _ => Ok(of),
    }
}

/// Whether it is an engine or a keeper that runs from another place.
fn runs_outlast(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split(|&b| b == 0).skip(1).any(|a| a == b"__engine" || a == b"__keeper"))
}

#[cfg(test)]
mod tests;
