//! The processes that are protected less well than promised.

use super::super::named::shown;
use super::engine::named;
use super::{Check, machine};
use outlast_client::{Event, ProcessInfo, Time};
use std::collections::BTreeMap;

pub(super) fn checks(all: &[ProcessInfo], now: Time) -> Vec<Check> {
    let ids = |which: &dyn Fn(&ProcessInfo) -> bool| -> Vec<String> {
        all.iter().filter(|p| which(p)).map(|p| shown(p.session_id, p.name.as_deref())).collect()
    };
    let mut found = Vec::new();
    let mut put = |ids: Vec<String>, say: &dyn Fn(&str, bool) -> Check| {
        if !ids.is_empty() {
            found.push(say(&named(&ids), ids.len() == 1));
        }
    };
    put(ids(&|p| p.protection.as_deref() == Some("output-only")), &|ids, is_one| {
        Check::degraded("protection", &["P3", "P5"], format!("a keeper of {ids} was killed"))
            .means(match is_one {
                true => "if the other keeper is killed too, the exit code is lost; the output stays complete",
                false => "if the other keepers are killed too, the exit codes are lost; the output stays complete",
            })
            .hint("nothing has to be done: it lasts until the process ends; Linux 6.15 or newer does not have this limit")
    });
    put(ids(&|p| p.phase == "orphaned"), &|ids, is_one| {
        Check::degraded("orphans", &["P2", "P3"], format!("both keepers of {ids} were killed"))
            .means(match is_one {
                true => "it keeps running; its output has no reader, and its exit code will not be known",
                false => "they keep running; their output has no reader, and their exit codes will not be known",
            })
            .hint(match is_one {
                true => "`outlast kill` still stops it, `outlast rerun` starts its command again",
                false => "`outlast kill` still stops them, `outlast rerun` starts their commands again",
            })
    });
    put(ids(&|p| p.phase == "unreachable"), &|ids, is_one| {
        let (keepers, do_not) = if is_one { ("keeper", "does not") } else { ("keepers", "do not") };
        Check::degraded("keepers", &[], format!("the {keepers} of {ids} {do_not} answer"))
            .means(match is_one {
                true => "it keeps running and is recorded, but takes no input, signal or stop for now",
                false => "they keep running and are recorded, but take no input, signal or stop for now",
            })
            .hint("try again; a keeper that hangs is replaced within 20 s of the next output, and engine.log says more")
    });
    put(ids(&|p| p.gaps.iter().any(|gap| matches!(gap, Event::Gap { why, .. } if why != "retention"))), &|ids, _| {
        Check::degraded("gaps", &["P2"], format!("output of {ids} was dropped"))
            .means("the disk was full, or the machine went down before it was written; `outlast poll` names the bytes")
            .hint("make room for the home, then `outlast rm` the processes whose output you do not need")
    });
    put(ids(&|p| p.started_at > now || p.fate.ended_by().is_some_and(|t| t > now)), &|ids, _| {
        Check::degraded("clock", &["P3"], format!("by this clock {ids} started or ended in the future"))
            .means("the clock was set back: records have the times of the clock as it was then; running times are right")
            .hint("nothing has to be done if the clock is right now")
    });
    let mut warnings: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    // A warning that applies to every command is reported once, with the engine.
    for p in all.iter().filter(|p| p.fate.completion_reason.is_none()) {
        for warning in p.warnings.iter().filter(|w| !w.contains("cgroup") && !w.contains(machine::ENDS_AT_LOGOUT)) {
            warnings.entry(warning).or_default().push(shown(p.session_id, p.name.as_deref()));
        }
    }
    found.extend(warnings.into_iter().map(|(warning, ids)| {
        Check::degraded("process", &[], format!("{}: {warning}", named(&ids)))
            .hint("`outlast poll` shows the details; `outlast rerun` starts its command again")
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn process(more: serde_json::Value) -> ProcessInfo {
        let mut all = json!({
            "session_id": "proc_000000000001", "command": "x", "status": "running", "phase": "running", "pid": 1, "cwd": "/",
            "started_at": "2026-01-01T00:00:00Z", "uptime_seconds": 1, "output_bytes": 0,
        });
        super::super::super::answer::merge(&mut all, more);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn what_is_kept_less_well_is_named() {
        let now: Time = "2026-01-01T01:00:00Z".parse().unwrap();
        let gap = |why: &str| json!({"gaps": [{"event": "gap", "from": 1, "to": 2, "why": why}]});
        for (more, want) in [
            (json!({}), None),
            (json!({"protection": "full"}), None),
            (json!({"protection": "output-only"}), Some("protection")),
            (json!({"phase": "orphaned"}), Some("orphans")),
            (json!({"phase": "unreachable"}), Some("keepers")),
            (gap("retention"), None),
            (gap("disk_full"), Some("gaps")),
            (gap("lost"), Some("gaps")),
            (json!({"started_at": "2026-01-01T02:00:00Z"}), Some("clock")),
            (json!({"warnings": ["a terminal was asked for and could not be had"]}), Some("process")),
            (json!({"warnings": ["no cgroup v2 hierarchy was found"]}), None),
            (json!({"warnings": ["about 10 s after your last logout systemd ends this engine and all processes"]}), None),
        ] {
            let checks = checks(&[process(more.clone())], now);
            assert_eq!(checks.first().map(|c| c.name), want, "{more}");
            assert!(checks.iter().all(|c| c.what.contains("proc_000000000001") && !c.hint.is_empty()), "{checks:?}");
        }
        let orphans = checks(&[process(json!({"phase": "orphaned", "name": "web"})), process(json!({"phase": "orphaned"}))], now);
        assert_eq!(orphans[0].what, "both keepers of web (proc_000000000001), proc_000000000001 were killed");
        assert!(orphans[0].means.starts_with("they keep running; their output"), "{orphans:?}");
    }
}
