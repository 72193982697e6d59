//! The engine and the keepers, and what they could not have.

use super::super::{Context, Failure};
use super::{Check, Found};
use crate::os;
use outlast_client::EngineStatus;
use std::path::Path;

/// How many ids are named before the rest is counted.
const NAMED: usize = 4;

pub(super) fn checks(ctx: &Context, found: &Result<Found, Failure>) -> Vec<Check> {
    let mut all = Vec::new();
    match found {
        Err(e) => {
            all.push(Check::broken("engine", e.error().to_owned()).means("nothing can be asked; what runs goes on").hint(e.hint()));
            all.push(Check::degraded("shell", &[], "not known while no engine runs").hint("see to the engine first"));
        }
        Ok(Found { status, .. }) => {
            all.push(version(status));
            all.push(Check::ok("shell", status.shell.clone()));
            all.extend(promises(&status.degraded));
        }
    }
    all.push(beside(ctx));
    if let Ok(Found { status, .. }) = found {
        all.extend(older(&os::older_keepers(Path::new(&status.home), Path::new(&status.keeper))));
    }
    all
}

fn version(s: &EngineStatus) -> Check {
    const NAME: &str = "engine";
    let ours = env!("CARGO_PKG_VERSION");
    if s.version != ours {
        return Check::degraded(NAME, &[], format!("pid {} is version {}, this is {ours}", s.pid, s.version))
            .means("what is new in one of the two may be missing")
            .hint("`outlast engine stop`; the next command starts the new one, and processes go on");
    }
    Check::ok(NAME, format!("pid {}, version {}, {} running of {} known", s.pid, s.version, s.running, s.known))
}

/// What the engine says it could not have, each with what it means and what to do.
fn promises(degraded: &[String]) -> Vec<Check> {
    let mut all: Vec<Check> = degraded.iter().map(|what| promise(what)).collect();
    if !all.iter().any(|c| c.name == "cgroup") {
        all.insert(0, Check::ok("cgroup", "out of its starter's; each command has a leaf of its own"));
    }
    all
}

fn promise(what: &str) -> Check {
    // The engine's own sentence says what it means behind the last colon.
    let (what, means) = match what.rsplit_once(": ") {
        Some((what, means)) if what.contains("cgroup") => (what.to_owned(), means.to_owned()),
        _ => (what.to_owned(), String::new()),
    };
    let tree = "a stop follows the tree process by process, instead of the kernel killing it at once";
    if what.contains("switched off") {
        return Check::degraded("cgroup", &["P5", "P6"], what)
            .means(format!("{means}; {tree}"))
            .hint("set engine.cgroup to true, and `outlast engine stop`");
    }
    if what.contains("cgroup v2") {
        return Check::degraded("cgroup", &["P5", "P6"], what).means(format!("{means}; {tree}")).hint("boot with the unified hierarchy");
    }
    if what.contains("cgroup") {
        return Check::degraded("cgroup", &["P5", "P6"], what)
            .means(format!("{means}; {tree}"))
            .hint("with systemd, start the engine from a login that has a user manager; in a container, let it write its own cgroup");
    }
    if what.starts_with("the index was") {
        return Check::degraded("index", &["P4"], what)
            .means("whoever was told before may be told again, and what only the index knew is gone")
            .hint("look through `outlast events history`; the next engine no longer mentions it");
    }
    if what.starts_with("a process cannot be listed") {
        return Check::degraded("folder", &["P1", "P3"], what)
            .means("what it ran, printed and returned cannot be asked for")
            .hint("look into its folder below `proc` in the home, and move it away if nobody needs it");
    }
    if what.starts_with("the sink ") {
        return Check::degraded("sink", &["P4"], what)
            .means("whoever is behind it is told late, and after a day not at all")
            .hint("see to the receiver; what is given up is in `outlast events dead`");
    }
    Check::degraded("promise", &[], what).hint("engine.log in the home says more")
}

fn beside(ctx: &Context) -> Check {
    match ctx.world.keeper() {
        Some(path) => Check::ok("keeper", path.display().to_string()),
        None => Check::degraded("keeper", &[], "no outlast-keeper lies beside this program, so it is its own keeper")
            .means("each process costs some 500 KB more memory")
            .hint("install outlast-keeper into the same directory"),
    }
}

fn older(ids: &[String]) -> Option<Check> {
    (!ids.is_empty()).then(|| {
        Check::degraded("keepers", &[], format!("{} by keepers of another version: {}", held(ids.len()), named(ids)))
            .means("they keep every promise of their own version, and know nothing of what is newer")
            .hint("nothing, or `outlast rerun` those that you want under the new one")
    })
}

fn held(n: usize) -> String {
    if n == 1 { "1 process is held".into() } else { format!("{n} processes are held") }
}

/// The first few, and how many more there are.
pub(super) fn named(ids: &[String]) -> String {
    match ids.len() {
        0..=NAMED => ids.join(", "),
        n => format!("{} and {} more", ids[..NAMED].join(", "), n - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn every_degraded_promise_says_what_it_means_and_what_to_do() {
        let said = [
            "no cgroup v2 hierarchy was found: what stops the starter may stop processes too",
            "the starter's cgroup could not be left (/sys/fs/cgroup: Permission denied): what stops the starter may stop processes too",
            "cgroups are switched off (engine.cgroup): what stops the starter's whole control group may stop processes too",
            "the index was gone and was rebuilt from the folders: posted notices are gone",
            "a process cannot be listed: spec is damaged",
            "the sink ops did not take 3 notices, and is tried again: connection refused",
        ];
        let checks = promises(&said.map(str::to_owned));
        assert_eq!(checks.iter().map(|c| c.name).collect::<Vec<_>>(), ["cgroup", "cgroup", "cgroup", "index", "folder", "sink"]);
        for check in &checks {
            assert!(check.state == State::Degraded && !check.promises.is_empty(), "{check:?}");
            assert!(!check.means.is_empty() && !check.hint.is_empty(), "{check:?}");
        }
        assert_eq!(checks[1].what, "the starter's cgroup could not be left (/sys/fs/cgroup: Permission denied)");
        assert_eq!(promises(&[])[0].state, State::Ok);
        assert_eq!(promise("something new").state, State::Degraded);
    }

    #[test]
    fn many_are_counted() {
        let ids: Vec<String> = (0..6).map(|n| format!("proc_{n}")).collect();
        assert_eq!(named(&ids), "proc_0, proc_1, proc_2, proc_3 and 2 more");
        assert!(older(&[]).is_none());
        assert!(older(&ids[..1]).unwrap().what.starts_with("1 process is held"));
    }
}
