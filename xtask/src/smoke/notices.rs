//! Ends and matches are reported, once each.

use super::gate::Gate;
use super::{ends_with, until};
use anyhow::{Result, ensure};
use outlast_testkit::product::Product;
use serde_json::Value;

pub(crate) fn end_is_told_once(p: &Product) -> Result<()> {
    let id = p.run_with(&["--notify", "--session", "ends"], "echo done; exit 6");
    told_once(p, "ends", &id, |e| e["type"] == "completion" && e["exit_code"] == 6)
}

pub(crate) fn match_is_told_once(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let flags = ["--watch", "READY", "--session", "matches"];
    let id = p.run_with(&flags, &format!("echo warming up; echo server is READY; {}", gate.wait()));
    told_once(p, "matches", &id, |e| e["type"] == "watch_match" && e["output"] == "server is READY")?;
    gate.open()?;
    ends_with(p, &id, 0)?;
    told_nothing_more(p, "matches")
}

/// The command ends while no engine runs: the keeper starts one, and the owner gets the notice.
pub(crate) fn end_without_an_engine_is_told(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run_with(&["--notify", "--session", "alone"], &format!("{}; exit 8", gate.wait()));
    p.kill_engine();
    gate.open()?;
    told_once(p, "alone", &id, |e| e["type"] == "completion" && e["exit_code"] == 8)
}

/// Takes notices until the wanted one came, and once more: it must not come again.
pub(crate) fn told_once(p: &Product, session: &str, id: &str, right: impl Fn(&Value) -> bool) -> Result<()> {
    let told = until("the notice", || Some(drained(p, session)).filter(|all| !all.is_empty()))?;
    ensure!(told.len() == 1 && told[0]["session_id"] == id && right(&told[0]), "told {}", Value::from(told));
    told_nothing_more(p, session)
}

fn told_nothing_more(p: &Product, session: &str) -> Result<()> {
    let again = drained(p, session);
    ensure!(again.is_empty(), "told again: {}", Value::from(again));
    Ok(())
}

fn drained(p: &Product, session: &str) -> Vec<Value> {
    let said = p.json(["events", "drain", "--session", session]);
    said["events"].as_array().into_iter().flatten().map(|e| e["event"].clone()).collect()
}
