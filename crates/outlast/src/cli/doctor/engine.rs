//! The engine and the keepers, and what they could not get.

use super::super::Context;
use super::{Check, DoctorFacts, EngineReport, machine};
use crate::os::{self, Surroundings};
use outlast_client::EngineStatus;
use std::path::Path;

/// How many ids are named before the rest is counted.
const MAX_NAMED: usize = 4;

pub(super) fn checks(ctx: &Context, facts: &DoctorFacts<'_>) -> Vec<Check> {
    let mut all = Vec::new();
    match facts.found {
        Err(e) => {
            all.push(
                Check::broken("engine", e.error().to_owned()).means("no request is answered; running commands keep running").hint(e.hint()),
            );
        }
        Ok(EngineReport { status, .. }) => {
            all.push(version(status));
            all.extend(outdated(&ctx.settings.outdated(&status.settings)));
            all.push(Check::ok("shell", status.shell.clone()));
            let group = CgroupFacts {
                place: &facts.place,
                has_leaf: facts.trial.and_then(|t| t.has_leaf()),
                stopped: facts.trial.and_then(|t| t.stopped()),
            };
            all.extend(promises(&status.degraded, &group));
        }
    }
    all.push(beside(ctx));
    if let Ok(EngineReport { status, .. }) = facts.found {
        all.extend(older(&os::older_keepers(Path::new(&status.home), Path::new(&status.keeper))));
    }
    all
}

/// What is known about cgroups besides the engine's answer.
struct CgroupFacts<'a> {
    place: &'a Surroundings,
    /// Whether the trial's commands had cgroups of their own.
    has_leaf: Option<bool>,
    /// How many processes of a tree the trial saw a stop end.
    stopped: Option<usize>,
}

/// The settings that were changed after the engine had read them.
fn outdated(keys: &[String]) -> Option<Check> {
    let check = || {
        Check::degraded("settings", &[], format!("the engine uses earlier values of {}", keys.join(", ")))
            .means("config.toml was changed after the engine had read it")
            .hint("`outlast engine restart`; running commands keep running")
    };
    (!keys.is_empty()).then(check)
}

fn version(s: &EngineStatus) -> Check {
    const NAME: &str = "engine";
    let ours = env!("CARGO_PKG_VERSION");
    if s.version != ours {
        return Check::degraded(NAME, &[], format!("pid {} is version {}, and this program is {ours}", s.pid, s.version))
            .means("features that only one of the two has may be missing")
            .hint("`outlast engine restart`; running commands keep running");
    }
    Check::ok(NAME, format!("pid {}, version {}, {} running of {} known", s.pid, s.version, s.running, s.known))
}

/// What the engine could not get, each with what it means and what to do.
fn promises(degraded: &[String], group: &CgroupFacts<'_>) -> Vec<Check> {
    let is_about_cgroups = |what: &&String| what.contains("cgroup");
    let is_about_logout = |what: &str| what.contains(machine::ENDS_AT_LOGOUT);
    let mut all = vec![cgroup(degraded.iter().find(is_about_cgroups).map(String::as_str), group)];
    // The sinks that gave up have a check with the numbers of all their notices.
    let is_about_dead_letters = |what: &str| what.starts_with("the sink ") && what.contains(" gave up on ");
    let is_rest = |what: &&String| !is_about_cgroups(what) && !is_about_logout(what) && !is_about_dead_letters(what);
    all.extend(degraded.iter().filter(is_rest).map(|what| promise(what)));
    all
}

/// The cgroups of the engine and of commands. `why`: the engine's sentence on why it has none.
fn cgroup(why: Option<&str>, group: &CgroupFacts<'_>) -> Check {
    const NAME: &str = "cgroup";
    let stopped = group.stopped.map(|n| format!(" (in the trial it ended all {n})")).unwrap_or_default();
    let tree = format!(
        "a stop finds the tree process by process{stopped}; once a keeper was killed, it can miss a detached child that cleared its environment"
    );
    let Some(why) = why else {
        return match group.has_leaf {
            Some(true) => Check::ok(NAME, "the engine has left its starter's; the trial saw each command in one of its own"),
            None => Check::ok(NAME, "the engine has left its starter's"),
            Some(false) => Check::degraded(NAME, &["P6"], "the commands of the trial had none of their own").means(tree).hint(
                "nothing has to be done; where the kernel or a security profile refuses to start a command in a cgroup, this stays so",
            ),
        };
    };
    // In the engine's sentence, the consequence follows the last colon.
    let (what, means) = why.rsplit_once(": ").unwrap_or((why, "what stops the starter's control group may stop commands too"));
    if what.contains("switched off") {
        return Check::degraded(NAME, &["P5", "P6"], what)
            .means(format!("{means}; {tree}"))
            .hint("set engine.cgroup to true, then `outlast engine restart`");
    }
    if what.starts_with(machine::STAYS_IN_SESSION) {
        return Check::degraded(NAME, &["P6"], format!("commands have none of their own: {what}"))
            .means(tree)
            .hint("`loginctl enable-linger`, then `outlast engine restart`: the next engine survives logouts with cgroups");
    }
    if group.place.container.is_some() {
        // The end of a container ends all its processes, in whichever cgroup. So only the stop is weaker.
        return Check::degraded(NAME, &["P6"], format!("commands have none of their own in this container: {what}"))
            .means(tree)
            .hint("nothing has to be done; in a container that may write its cgroup file system, each command gets one");
    }
    let hint = if what.contains("cgroup v2") {
        "boot with cgroup v2 (with systemd: systemd.unified_cgroup_hierarchy=1 on the kernel command line)"
    } else if group.place.has_systemd {
        "start the engine from a login that has a user manager (`systemctl --user status` answers there), or as a system service"
    } else {
        "start the engine as root once, or from a shell that may write its own cgroup"
    };
    Check::degraded(NAME, &["P5", "P6"], what).means(format!("{means}; {tree}")).hint(hint)
}

fn promise(what: &str) -> Check {
    if what.starts_with("the index was") {
        return Check::degraded("index", &["P4"], what)
            .means("notices that were delivered before may be delivered again, and posted notices are gone")
            .hint("look through `outlast events history`; the next engine no longer mentions it");
    }
    if what.starts_with("a process cannot be listed") {
        return Check::degraded("folder", &["P1", "P3"], what)
            .means("its command, output and exit code are not available")
            .hint("look into its folder below `proc` in the home; move it away if you do not need it");
    }
    if what.starts_with("the sink ") {
        return Check::degraded("sink", &["P4"], what)
            .means("its receiver is notified late; after a day the notice is a dead letter")
            .hint("check the receiver; `outlast events dead` lists what the sink gave up on");
    }
    if what.starts_with("the hook ") {
        return Check::degraded("sink", &["P4"], what)
            .means("an agent that does nothing is not notified; one that calls a tool of Outlast gets its notices with the answer")
            .hint("the lines `wake` say what is known of each hook; `outlast hook test NAME` calls one");
    }
    if let Some((what, todo)) = what.split_once(": ").filter(|(what, _)| what.starts_with("a hard limit")) {
        return Check::degraded("limits", &["P1"], what)
            .means("the kernel ends them, or fails their writes, when it is reached")
            .hint(todo);
    }
    Check::degraded("promise", &[], what).hint("engine.log in the home says more")
}

fn beside(ctx: &Context) -> Check {
    match ctx.world.keeper() {
        Some(path) => Check::ok("keeper", path.display().to_string()),
        None => Check::degraded("keeper", &[], "outlast-keeper is not beside this program, which is its own keeper instead")
            .means("each process takes about 500 KB more memory")
            .hint("install outlast-keeper into the same directory"),
    }
}

fn older(ids: &[String]) -> Option<Check> {
    (!ids.is_empty()).then(|| {
        Check::degraded("keepers", &[], format!("{} a keeper of another version: {}", have(ids.len()), named(ids)))
            .means("they keep every promise of that version, and lack what is newer")
            .hint("nothing has to be done; `outlast rerun` starts one again under the new version")
    })
}

fn have(n: usize) -> String {
    if n == 1 { "1 process has".into() } else { format!("{n} processes have") }
}

/// The first few, and how many more there are.
pub(super) fn named(ids: &[String]) -> String {
    match ids.len() {
        0..=MAX_NAMED => ids.join(", "),
        n => format!("{} and {} more", ids[..MAX_NAMED].join(", "), n - MAX_NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::super::tests::{MACHINE, docker, shown};
    use super::*;

    const STARTERS: &str = "the engine could not leave its starter's cgroup (/sys/fs/cgroup: Read-only file system): what stops the starter may stop processes too";

    fn said() -> [String; 4] {
        [
            STARTERS,
            "the index was gone and was rebuilt from the folders: posted notices are gone",
            "a process cannot be listed: spec is damaged",
            "the sink ops did not take 3 notices, and is tried again: connection refused",
        ]
        .map(str::to_owned)
    }

    #[test]
    fn every_degraded_promise_says_what_it_means_and_what_to_do() {
        let group = CgroupFacts { place: &MACHINE, has_leaf: None, stopped: None };
        let checks = promises(&said(), &group);
        assert_eq!(checks.iter().map(|c| c.name).collect::<Vec<_>>(), ["cgroup", "index", "folder", "sink"]);
        for check in &checks {
            assert!(check.state == CheckState::Degraded && !check.promises.is_empty(), "{check:?}");
            assert!(!check.means.is_empty() && !check.hint.is_empty(), "{check:?}");
        }
        insta::assert_snapshot!(shown(&checks[1..]));
        let limit = promise("a hard limit of its starter allows the engine and its keepers 7 bytes: start it without that limit");
        assert_eq!((limit.name, limit.state, limit.hint.as_str()), ("limits", CheckState::Degraded, "start it without that limit"));
        assert_eq!(promise("something new").state, CheckState::Degraded);
    }

    #[test]
    fn cgroups_are_described_for_the_place() {
        let (docker, systemd) = (docker(), Surroundings { has_systemd: true, ..MACHINE });
        let seen = |has_leaf, stopped| (Some(has_leaf), Some(stopped));
        let cases = [
            ("a machine, tried", &MACHINE, None, seen(true, 4)),
            ("a machine, not tried", &MACHINE, None, (None, None)),
            ("a machine where no command could be started in one", &MACHINE, None, seen(false, 4)),
            (
                "a machine with cgroup v1",
                &MACHINE,
                Some("no cgroup v2 hierarchy was found: what stops the starter may stop processes too"),
                seen(false, 4),
            ),
            ("a machine without systemd", &MACHINE, Some(STARTERS), seen(false, 4)),
            ("a machine with systemd", &systemd, Some(STARTERS), seen(false, 4)),
            (
                "switched off",
                &MACHINE,
                Some("cgroups are switched off (engine.cgroup): what stops the starter may stop processes too"),
                seen(false, 4),
            ),
            (
                "a login session that a logout leaves alone",
                &MACHINE,
                Some("the engine stays in the login session, which a logout leaves alone: processes have no cgroup of their own"),
                seen(false, 4),
            ),
            ("Docker, tried", &docker, Some(STARTERS), seen(false, 4)),
            ("Docker, not tried", &docker, Some(STARTERS), (None, None)),
        ];
        let text = cases.map(|(name, place, why, (has_leaf, stopped))| {
            format!("# {name}\n{}", shown(&[cgroup(why, &CgroupFacts { place, has_leaf, stopped })]))
        });
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn many_are_counted() {
        let ids: Vec<String> = (0..6).map(|n| format!("proc_{n}")).collect();
        assert_eq!(named(&ids), "proc_0, proc_1, proc_2, proc_3 and 2 more");
        assert!(older(&[]).is_none());
        assert!(older(&ids[..1]).unwrap().what.starts_with("1 process has"));
    }
}
