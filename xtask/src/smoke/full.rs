//! The disk of the home fills up while commands run, and is freed again.

use super::gate::Gate;
use super::notices::told_once;
use super::output::puppet;
use super::{ends_with, printed, until};
use crate::campaign::is_alive;
use crate::puppet::Part;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use outlast_testkit::trees::{alive_in, leavers};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a disk stays full under commands that print. When a store to a mapped file needed space, keepers died within 2 s.
const FULL_FOR: Duration = Duration::from_secs(4);

/// Files that take all free space, until this is dropped.
struct Filler(PathBuf);

impl Filler {
    fn new(p: &Product) -> Result<Self> {
        let filler = Self(p.work().join("filler"));
        std::fs::create_dir(&filler.0)?;
        // When one file cannot grow, small ones may still fit: some file systems store them elsewhere.
        fill(&filler.0.join("large"), &[1 << 20, 4096, 1])?;
        for n in 0..3000 {
            match fill_one(&filler.0.join(format!("small-{n}"))) {
                Err(e) if is_full(&e) => break,
                other => other?,
            }
        }
        Ok(filler)
    }

    fn free(self) {}
}

impl Drop for Filler {
    fn drop(&mut self) {
        // If the file system is being torn down, removing the files may fail, and frees nothing.
        let _gone = std::fs::remove_dir_all(&self.0);
        if let Ok(dir) = File::open(self.0.with_file_name(".")) {
            let _refused = rustix::fs::syncfs(&dir);
        }
    }
}

fn fill(path: &std::path::Path, sizes: &[usize]) -> Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    for size in sizes {
        let block = vec![b'f'; *size];
        loop {
            match file.write_all(&block).and_then(|()| if *size > 1 { Ok(()) } else { file.sync_data() }) {
                Ok(()) => {}
                Err(e) if is_full(&e) => break,
                Err(e) => return Err(e).with_context(|| format!("fill {}", path.display())),
            }
        }
        // A file system allocates some blocks only when they are written out.
        match file.sync_data() {
            Err(e) if !is_full(&e) => return Err(e.into()),
            _ => {}
        }
    }
    Ok(())
}

fn fill_one(path: &std::path::Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    file.write_all(&[b'f'; 2000])?;
    file.sync_data()
}

fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

pub(crate) fn keepers_live_on(p: &Product) -> Result<()> {
    let id = p.run("while :; do echo tick; sleep 0.02; done");
    let meta = p.meta(&id);
    let filler = Filler::new(p)?;
    let began = Instant::now();
    while began.elapsed() < FULL_FOR {
        for (role, pid) in [("pump", meta.pump), ("holder", meta.holder), ("command", meta.cmd)] {
            ensure!(is_alive(pid), "the {role} died {} ms after the disk was full", began.elapsed().as_millis());
        }
        // A pause between two checks that nothing died, until FULL_FOR is over. It waits for nothing.
        std::thread::sleep(Duration::from_millis(20));
    }
    let polled = p.json(["poll", &id]);
    ensure!(polled["phase"] == "running", "poll answered {polled}");
    filler.free();
    let length = p.json(["poll", &id])["output_bytes"].as_u64();
    until("output after the disk was freed", || (p.json(["poll", &id])["output_bytes"].as_u64() > length).then_some(()))?;
    let killed = p.json(["kill", &id, "--grace", "1"]);
    ensure!(killed["status"] == "killed", "kill answered {killed}");
    Ok(())
}

pub(crate) fn end_is_known(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("{}; echo last; exit 31", gate.wait()));
    let _filler = Filler::new(p)?;
    gate.open()?;
    ends_with(p, &id, 31)
}

pub(crate) fn stop_works(p: &Product) -> Result<()> {
    let dir = p.work().join("leavers-full");
    std::fs::create_dir(&dir)?;
    let id = p.run_with(&["--cwd", &dir.display().to_string()], leavers().line);
    until("the tree to stand", || dir.join("ready").exists().then_some(()))?;
    let _filler = Filler::new(p)?;
    let killed = p.json(["kill", &id, "--grace", "0.3"]);
    ensure!(killed["status"] == "killed", "kill answered {killed}");
    let left = alive_in(&dir);
    ensure!(left.is_empty(), "left alive: {left:?}");
    Ok(())
}

/// A command that cannot be recorded is not started, and the answer says what to do. A command that is started is recorded to its end.
pub(crate) fn start_is_refused_or_whole(p: &Product) -> Result<()> {
    let _filler = Filler::new(p)?;
    let began = Instant::now();
    let answer = p.call(["run", "--json", "--", "exit 32"]);
    let said = answer.json();
    ensure!(began.elapsed() < Duration::from_secs(20), "run answered after {:?}: {said}", began.elapsed());
    match said["session_id"].as_str().filter(|_| answer.code == Some(0)) {
        Some(id) => ends_with(p, id, 32),
        None => {
            ensure!(said["hint"].as_str().is_some_and(|h| h.contains("space") || h.contains("room")), "run answered {said}");
            Ok(())
        }
    }
}

pub(crate) fn output_is_kept_or_shown_as_missing(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("echo begin; {}; head -c 3000000 /dev/zero | tr '\\0' x; echo; exit 33", gate.wait()));
    until("its first line", || p.call(["log", &id, "--raw"]).out.starts_with(b"begin").then_some(()))?;
    let filler = Filler::new(p)?;
    gate.open()?;
    ends_with(p, &id, 33)?;
    let polled = p.json(["poll", &id]);
    let gaps = polled["gaps"].as_array().cloned().unwrap_or_default();
    let missing: u64 = gaps.iter().filter_map(|g| Some(g["to"].as_u64()? - g["from"].as_u64()?)).sum();
    let kept = p.call(["log", &id, "--raw"]).out.len() as u64;
    ensure!(kept + missing == 3_000_007, "{kept} bytes kept and {missing} shown as missing, of 3000007: {polled}");
    filler.free();
    Ok(())
}

pub(crate) fn engine_killed_while_full(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("{}; exit 34", gate.wait()));
    let _filler = Filler::new(p)?;
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    ensure!(polled["phase"] == "running", "poll answered {polled}");
    gate.open()?;
    ends_with(p, &id, 34)
}

pub(crate) fn end_is_told_once(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run_with(&["--notify", "--session", "full"], &format!("{}; exit 35", gate.wait()));
    let filler = Filler::new(p)?;
    gate.open()?;
    ends_with(p, &id, 35)?;
    filler.free();
    told_once(p, "full", &id, |e| e["exit_code"] == 35)
}

pub(crate) fn works_again_with_room(p: &Product) -> Result<()> {
    Filler::new(p)?.free();
    let part = Part { lines: 2_000, reads: false, code: 36, seed: 51 };
    let id = until("a start", || puppet(p, &[], &part).ok())?;
    ends_with(p, &id, 36)?;
    printed(p, &id, &part.output(&[], false))
}
