//! Starting commands, their ends, and requests about them.

use super::gate::Gate;
use super::{ends_with, printed, until};
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use serde_json::{Value, json};

pub(crate) fn exit_code_zero(p: &Product) -> Result<()> {
    let answer = p.call(["run", "--wait", "--", "true"]);
    ensure!(answer.code == Some(0), "run --wait exited {:?}: {}", answer.code, answer.err);
    Ok(())
}

pub(crate) fn exit_code_of_the_command(p: &Product) -> Result<()> {
    let id = p.run("echo out; echo err >&2; exit 7");
    ends_with(p, &id, 7)?;
    printed(p, &id, b"out\nerr\n")
}

pub(crate) fn death_by_signal(p: &Product) -> Result<()> {
    let id = p.run("kill -9 $$");
    let ended = p.wait(&id);
    ensure!(ended["signal"] == "SIGKILL" && ended["exit_code"] == -9, "wait answered {ended}");
    Ok(())
}

pub(crate) fn program_that_is_missing(p: &Product) -> Result<()> {
    let answer = p.call(["run", "--wait", "--", "no-such-program", "a"]);
    ensure!(answer.code == Some(127), "run --wait exited {:?}: {}", answer.code, answer.err);
    Ok(())
}

pub(crate) fn same_id_starts_once(p: &Product) -> Result<()> {
    let id = outlast_core::ProcessId::from_bytes(std::process::id().to_le_bytes().repeat(2)[..6].try_into()?).to_string();
    for _ in 0..2 {
        let started = p.json(["run", "--id", &id, "--", "echo started >> once; exit 4"]);
        ensure!(started["session_id"] == id.as_str(), "run answered {started}");
    }
    ends_with(p, &id, 4)?;
    let once = std::fs::read_to_string(p.work().join("once"))?;
    ensure!(once == "started\n", "it was started more than once: {once:?}");
    Ok(())
}

pub(crate) fn directory_and_environment(p: &Product) -> Result<()> {
    let dir = p.work().join("a directory");
    std::fs::create_dir(&dir)?;
    let id = p.run_with(&["--cwd", &dir.display().to_string(), "--env", "GREETING=hello there"], "pwd; echo \"$GREETING\"; umask");
    ends_with(p, &id, 0)?;
    printed(p, &id, format!("{}\nhello there\n0022\n", dir.display()).as_bytes())
}

pub(crate) fn wait_with_a_timeout(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("{}; exit 5", gate.wait()));
    let answer = p.call(["wait", &id, "--timeout", "0.2"]);
    ensure!(answer.code == Some(124), "wait --timeout exited {:?}: {}", answer.code, answer.err);
    gate.open()?;
    ends_with(p, &id, 5)
}

pub(crate) fn forty_at_once(p: &Product) -> Result<()> {
    let bad: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|t| scope.spawn(move || (0..10).map(|n| one_of_many(p, t * 10 + n)).collect::<Vec<_>>())).collect();
        let results = threads.into_iter().flat_map(|t| t.join().unwrap_or_else(|_| vec![Err(anyhow::anyhow!("a start panicked"))]));
        results.filter_map(|r| r.err().map(|e| format!("{e:#}"))).collect()
    });
    ensure!(bad.is_empty(), "{} of 40: {}", bad.len(), bad[0]);
    Ok(())
}

fn one_of_many(p: &Product, n: i64) -> Result<()> {
    let id = p.run(&format!("echo {n}; sleep 0.2; exit {n}"));
    ends_with(p, &id, n)?;
    printed(p, &id, format!("{n}\n").as_bytes())
}

pub(crate) fn removed(p: &Product) -> Result<()> {
    let id = p.run("echo to be removed");
    ends_with(p, &id, 0)?;
    let folder = p.folder(&id).path;
    let removed = until("its removal", || Some(p.json(["rm", &id])).filter(|r| r["code"] != "still_running"))?;
    ensure!(removed["status"] == "removed", "rm answered {removed}");
    ensure!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

/// `doctor` finds every promise held or something weaker; never broken.
pub(crate) fn doctor(p: &Product) -> Result<()> {
    let answer = p.call(["doctor", "--json"]);
    let said: Value = serde_json::from_slice(&answer.out).with_context(|| format!("doctor answered {:?} {}", answer.text(), answer.err))?;
    let want = match said["status"].as_str() {
        Some("ok") => 0,
        Some("degraded") => 3,
        _ => {
            let broken: Vec<&Value> = said["checks"].as_array().into_iter().flatten().filter(|c| c["state"] == json!("broken")).collect();
            anyhow::bail!("doctor finds something broken: {}", serde_json::to_string(&broken)?)
        }
    };
    ensure!(answer.code == Some(want), "doctor says {} and exits {:?}", said["status"], answer.code);
    Ok(())
}
