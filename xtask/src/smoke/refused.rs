//! A place in which no engine can work: the first call says why, and how to allow it.

use anyhow::{Result, ensure};
use outlast_testkit::product::Product;
use serde_json::Value;
use std::time::{Duration, Instant};

pub(crate) fn run_says_why_at_once(p: &Product) -> Result<()> {
    let began = Instant::now();
    let answer = p.call(["run", "--json", "--", "true"]);
    let took = began.elapsed();
    let text = answer.text() + &answer.err;
    ensure!(answer.code != Some(0), "it works: {text}");
    ensure!(took < Duration::from_secs(5), "run answered after {took:?}: {text}");
    // A client that cannot wait for anything has no JSON answer. It prints its error as text.
    let Ok(said) = serde_json::from_slice::<Value>(&answer.out) else {
        ensure!(text.contains("refused"), "run does not say why: {text:?}");
        return Ok(());
    };
    ensure!(said["hint"].as_str().is_some_and(|h| !h.is_empty()), "run answered without a hint: {said}");
    println!("said nothing starts, and `run` says: {}", said["hint"].as_str().unwrap_or("?"));
    Ok(())
}
