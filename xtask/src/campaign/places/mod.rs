//! `cargo xtask campaign places`: the smoke set in each place where agents live, and the table of what held there (`docs/places.md`).

mod bench;
mod calls;
mod containers;
mod disks;
mod kernels;
mod record;
mod sandboxes;
mod tests;

use self::bench::{Bench, Ran};
pub(crate) use self::containers::{Daemon, IMAGE};
use crate::Flags;
use anyhow::{Result, ensure};

/// One place: the value says how it is entered; inside, the smoke set always runs.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// A description for readers.
    pub(crate) about: &'static str,
    enter: Enter,
}

enum Enter {
    Host,
    Docker(&'static containers::Container),
    Podman(&'static containers::Container),
    Sandbox(sandboxes::Sandbox),
    Disk(disks::Disk, disks::State),
    /// The errno of refused calls.
    Calls(i32),
    Kernel(kernels::Kernel),
}

/// All of them, in the order of the table.
fn all() -> Vec<Place> {
    let mut all = vec![Place { name: "host", about: "the machine itself", enter: Enter::Host }];
    all.extend(containers::DOCKER.iter().map(|b| Place { name: b.name, about: b.about, enter: Enter::Docker(b) }));
    all.extend(containers::PODMAN.iter().map(|b| Place { name: b.name, about: b.about, enter: Enter::Podman(b) }));
    all.extend(sandboxes::ALL.iter().map(|(name, about, s)| Place { name, about, enter: Enter::Sandbox(*s) }));
    all.extend(disks::ALL.iter().map(|(name, about, d, s)| Place { name, about, enter: Enter::Disk(*d, *s) }));
    all.extend(calls::ALL.iter().map(|(name, about, errno)| Place { name, about, enter: Enter::Calls(*errno) }));
    all.extend(kernels::ALL.iter().map(|(name, about, k)| Place { name, about, enter: Enter::Kernel(*k) }));
    all
}

pub(crate) fn run(wanted: &[String], flags: &Flags<'_>) -> Result<()> {
    let places: Vec<Place> = all().into_iter().filter(|p| wanted.is_empty() || wanted.iter().any(|w| matches(p.name, w))).collect();
    if flags.has("--list") {
        for place in &places {
            println!("{:<24} {}", place.name, place.about);
        }
        return Ok(());
    }
    for word in wanted {
        ensure!(places.iter().any(|p| matches(p.name, word)), "no place is called {word:?}; --list names them all");
    }
    let bench = Bench::new(super::program(flags)?)?;
    if flags.has("--tests") {
        return tests::run(&bench);
    }
    let mut rows = Vec::new();
    for place in places {
        bench.checked()?;
        let ran = enter(&bench, &place).unwrap_or_else(|e| Ran::skipped(format!("{e:#}")));
        bench.checked()?;
        println!("{}", ran.line(place.name));
        rows.push((place, ran));
        // Written after each place, so that an interrupted campaign keeps its results.
        if flags.has("--record") {
            record::write(&rows)?;
        }
    }
    drop(bench);
    let failed = rows.iter().filter(|(_, ran)| !ran.failed.is_empty()).count();
    let skipped: Vec<&str> = rows.iter().filter(|(_, ran)| ran.skipped.is_some()).map(|(p, _)| p.name).collect();
    let checks: usize = rows.iter().map(|(_, ran)| ran.good.len()).sum();
    println!("{} places, {checks} checks passed, {failed} places with failures, {} skipped", rows.len() - skipped.len(), skipped.len());
    // CI has everything that these places need.
    ensure!(skipped.is_empty() || std::env::var_os("CI").is_none(), "skipped: {}", skipped.join(", "));
    ensure!(failed == 0, "something promised does not hold in {failed} places");
    Ok(())
}

fn enter(bench: &Bench, place: &Place) -> Result<Ran> {
    match &place.enter {
        Enter::Host => bench.run(bench.smoke(&bench.home(place.name)?, &[])),
        Enter::Docker(inside) => containers::docker(bench, inside),
        Enter::Podman(inside) => containers::podman(bench, inside),
        Enter::Sandbox(sandbox) => sandboxes::enter(bench, place.name, *sandbox),
        Enter::Disk(disk, state) => disks::enter(bench, place.name, *disk, *state),
        Enter::Calls(errno) => calls::enter(bench, place.name, *errno),
        Enter::Kernel(kernel) => kernels::enter(bench, place.name, *kernel),
    }
}

/// The places that were asked for: by whole names, or by the first words (`docker` means all of Docker's).
fn matches(name: &str, word: &str) -> bool {
    name == word || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-'))
}
