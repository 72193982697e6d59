//! Kills Outlast's engine.

use super::Left;
use super::job::{self, Job};
use crate::bench_suite::harness::{Ours, Settings};
use anyhow::{Context, Result, ensure};
use outlast_client::{Chunk, Client, From, Spec};
use outlast_testkit::product::kill_and_wait;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the last notices may take.
const LATEST: Duration = Duration::from_secs(20);

pub(super) fn crash(settings: &Settings, jobs: &[Job]) -> Result<Left> {
    let told = tempfile::Builder::new().prefix("ol-told-").tempdir_in(&settings.disk)?;
    let file = told.path().join("announced");
    let config = format!("[[hook]]\nname = \"bench\"\ncommand = \"cat >> {}\"\n", file.display());
    let home = Ours::new(settings, &config, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ids: Vec<String> = runtime.block_on(async {
        let client = home.client("bench:crash").await?;
        let mut ids = Vec::new();
        for job in jobs {
            let line = job.line(told.path());
            ids.push(client.run(home.run(Spec::shell(line.as_str()))).await?.id().to_string());
        }
        anyhow::Ok(ids)
    })?;
    std::thread::sleep(Duration::from_secs(1));
    kill_and_wait(home.product.engine())?;
    // From here on no client calls until all notices that come without a call were counted.
    let alive = job::alive(jobs, told.path());
    let ended = job::until_over(jobs, told.path());
    let began = Instant::now();
    while told_of(&file, &ids)?.len() < jobs.len() && began.elapsed() < LATEST {
        std::thread::sleep(Duration::from_millis(50));
    }
    // A repeat would arrive at once.
    std::thread::sleep(Duration::from_secs(1));
    let heard = told_of(&file, &ids)?;
    let announced = job::announced(jobs, &heard);
    if announced < jobs.len() {
        eprintln!("  {announced} of {} were announced once and with their code; all announcements: {heard:?}", jobs.len());
    }
    home.product.engine();
    let (mut known, mut kept) = (0, 0);
    runtime.block_on(async {
        let client = home.client("bench:crash").await?;
        for (job, id) in jobs.iter().zip(&ids) {
            known += usize::from(client.poll(id).await?.fate.exit_code == Some(Some(job.code)));
            let output = output(&client, id).await?;
            ensure!(job.output.as_bytes().starts_with(&output), "{id} has output that it did not print");
            kept += output.len() as u64;
        }
        anyhow::Ok(())
    })?;
    Ok(Left { alive, ended, kept, known, announced })
}

async fn output(client: &Client, id: &str) -> Result<Vec<u8>> {
    let (mut chunks, mut all) = (client.read(id, From::Byte(0)), Vec::new());
    while let Some(chunk) = chunks.next().await? {
        match chunk {
            Chunk::Bytes { bytes, .. } => all.extend(bytes),
            // A log that was removed counts as empty.
            Chunk::Gap { .. } => {}
        }
    }
    Ok(all)
}

/// The notices of the hook: the number of each job, and its exit code.
fn told_of(file: &Path, ids: &[String]) -> Result<Vec<(usize, i32)>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).context("cannot read what was announced"),
    };
    // An unfinished line is read at the next look.
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(whole
        .filter_map(|told| {
            let event = &told["event"];
            let number = ids.iter().position(|id| event["session_id"] == **id)?;
            Some((number, event["exit_code"].as_i64()? as i32))
        })
        .collect())
}
