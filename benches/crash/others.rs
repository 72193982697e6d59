//! Kills the managers of the other programs. Each is then restarted, as its users would do.

use super::Left;
use super::job::{self, Job};
use crate::bench_suite::peers::{Dotfiles, Hermes, Pueue, Spooler, Tmux};
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::kill_and_wait;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How long all jobs may take.
const STARTED: Duration = Duration::from_secs(10);

pub(super) fn hermes(hermes: &Hermes, jobs: &[Job]) -> Result<Left> {
    let home = hermes.home(Dotfiles::Clean)?;
    let lines: Vec<String> = jobs.iter().map(|job| job.line(home.path())).collect();
    let args: Vec<&str> = ["jobs"].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let (mut manager, pids) = hermes.jobs(home.path(), &args)?;
    ensure!(pids.len() == jobs.len(), "{} of {} run", pids.len(), jobs.len());
    std::thread::sleep(Duration::from_secs(1));
    manager.kill()?;
    manager.wait()?;
    let alive = job::alive(jobs, home.path());
    let wait = (jobs.first().context("a job")?.lived() + 2).to_string();
    let found = hermes.ask_in(home.path(), &["recover", &wait], &["announced", "codes", "kept"])?;
    let ended = job::until_over(jobs, home.path());
    let [announced, known, kept] = [0, 1, 2].map(|n: usize| found[n].first().copied().unwrap_or(0.0) as u64);
    Ok(Left { alive, ended, kept, known: known as usize, announced: announced as usize })
}

pub(super) fn pueue(pueue: &mut Pueue, jobs: &[Job]) -> Result<Left> {
    let home = pueue.home().to_owned();
    for job in jobs {
        pueue.call(&["add", "--", &job.line(&home)])?;
    }
    until("pueue runs them all", || Ok(pueue.tasks()?.iter().filter(|task| task["status"]["Running"].is_object()).count() == jobs.len()))?;
    pueue.crash()?;
    let alive = job::alive(jobs, &home);
    let ended = job::until_over(jobs, &home);
    let told: Vec<(usize, i32)> = announcements(&home)?;
    let log: Value = serde_json::from_str(&pueue.call(&["log", "--json", "--full"])?)?;
    let (mut known, mut kept) = (0, 0);
    for job in jobs {
        let task = &log[job.number.to_string()];
        known += usize::from(task["task"]["status"]["Done"]["result"]["Failed"] == job.code);
        kept += task["output"].as_str().map_or(0, |text| common(text, &job.output));
    }
    Ok(Left { alive, ended, kept, known, announced: job::announced(jobs, &told) })
}

pub(super) fn spooler(spooler: &Spooler, jobs: &[Job]) -> Result<Left> {
    let home = spooler.home().to_owned();
    for job in jobs {
        let added = spooler.command(true).args(["bash", "-c", &job.line(&home)]).output()?;
        ensure!(added.status.success(), "tsp: {}", String::from_utf8_lossy(&added.stderr).trim());
    }
    let running = |list: &str| list.lines().filter(|line| line.contains(" running ")).count();
    until("task-spooler runs them all", || Ok(running(&spooler.call(&[])?) == jobs.len()))?;
    kill_and_wait(spooler.server()?)?;
    // The next call starts another manager.
    let _left = std::fs::remove_file(home.join("socket"));
    spooler.call(&[])?;
    let alive = job::alive(jobs, &home);
    let ended = job::until_over(jobs, &home);
    let told = announcements(&home)?;
    // It no longer knows the jobs. Only its files are left.
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&home)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ts-out")) {
            files.push(std::fs::read_to_string(path)?);
        }
    }
    let kept = jobs.iter().map(|job| files.iter().map(|text| common(text, &job.output)).max().unwrap_or(0)).sum();
    let list = spooler.call(&[])?;
    let known = list.lines().filter(|line| line.contains(" finished ")).count();
    Ok(Left { alive, ended, kept, known, announced: job::announced(jobs, &told) })
}

pub(super) fn tmux(tmux: &Tmux, jobs: &[Job]) -> Result<Left> {
    let home = tmux.home().to_owned();
    for job in jobs {
        tmux.call(&["new-session", "-d", "-s", &format!("job-{}", job.number), &job.line(&home)])?;
    }
    std::thread::sleep(Duration::from_secs(1));
    kill_and_wait(tmux.server()?)?;
    let alive = job::alive(jobs, &home);
    let ended = job::until_over(jobs, &home);
    // A new server does not know the sessions of the first.
    let kept = jobs
        .iter()
        .map(|job| tmux.call(&["capture-pane", "-p", "-t", &format!("job-{}", job.number)]).map_or(0, |text| common(&text, &job.output)))
        .sum();
    Ok(Left { alive, ended, kept, known: 0, announced: 0 })
}

/// How many bytes of a text are correct, from its start.
fn common(text: &str, expected: &str) -> u64 {
    text.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count() as u64
}

/// The lines of a number and a code that a peer wrote when it announced.
fn announcements(home: &Path) -> Result<Vec<(usize, i32)>> {
    let text = std::fs::read_to_string(home.join("announced")).unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| {
            let (number, code) = line.split_once(' ')?;
            Some((number.parse().ok()?, code.trim().parse().ok()?))
        })
        .collect())
}

fn until(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    crate::wait::until(what, STARTED, Duration::from_millis(50), || Ok(look()?.then_some(())))
}
