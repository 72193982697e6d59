//! Where the program runs: a container, a sandbox, a laptop. The texts differ for each.

use super::{Check, DoctorFacts};
use crate::os::{self, Container, Surroundings};
use std::time::Duration;

/// How long process 1 may take to reap. An init takes a few milliseconds; some other programs do it every few seconds.
const REAP_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the process table is read meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn checks(facts: &DoctorFacts<'_>) -> Vec<Check> {
    place(&facts.place).into_iter().chain(reaping(&facts.place, facts.unreaped)).collect()
}

/// How many of our processes have ended and stay in the process table, because the container's process 1 does not reap.
pub(super) async fn unreaped(place: &Surroundings) -> usize {
    // On a machine, process 1 reaps, sometimes with a delay: nothing to wait for.
    let mut left = if place.container.is_some() { os::unreaped_by_init() } else { Vec::new() };
    let until = tokio::time::Instant::now() + REAP_TIMEOUT;
    while !left.is_empty() && tokio::time::Instant::now() < until {
        // Only the parent of a process learns that it was reaped, and we are not its parent.
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = os::unreaped_by_init();
        left.retain(|pid| now.contains(pid));
    }
    left.len()
}

fn place(place: &Surroundings) -> Option<Check> {
    match place.container {
        Some(container) => {
            let what = format!("{}; its processes end with it, and are reported as lost at the next start", container.name());
            Some(Check::ok("place", what))
        }
        None if place.has_battery => Some(Check::ok(
            "place",
            "a laptop: while it sleeps no process runs, and all continue when it wakes; `systemd-inhibit outlast wait ID` keeps it awake",
        )),
        None => None,
    }
}

/// Reports a process 1 that does not reap. Nothing is lost by it, but the process table fills up slowly.
fn reaping(place: &Surroundings, unreaped: usize) -> Option<Check> {
    let entries = match unreaped {
        0 => return None,
        1 => "1 ended process of Outlast stays".to_owned(),
        n => format!("{n} ended processes of Outlast stay"),
    };
    let what = format!("process 1 ({}) does not reap: {entries} in the process table", place.init);
    let hint = match place.container {
        Some(Container::Docker) => "start the container with `docker run --init` (Compose: `init: true`)",
        Some(Container::Podman) => "start the container with `podman run --init`",
        Some(Container::Kubernetes) => "set `shareProcessNamespace: true` for the pod, or start the container through `tini`",
        Some(Container::Unnamed) | None => "start it through an init such as `tini` or `dumb-init`",
    };
    Some(
        Check::degraded("init", &[], what)
            .means("each engine that ends and each keeper that is killed leaves one entry until the container ends; every promise holds")
            .hint(hint),
    )
}

impl Container {
    /// A description for users.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "a Docker container",
            Self::Podman => "a Podman container",
            Self::Kubernetes => "a container in a Kubernetes pod",
            Self::Unnamed => "a container or sandbox",
        }
    }

    /// What removes its file system.
    pub(super) fn removal(self) -> &'static str {
        match self {
            Self::Docker => "goes with the container (`docker rm`)",
            Self::Podman => "goes with the container (`podman rm`)",
            Self::Kubernetes => "goes with the pod",
            Self::Unnamed => "may go with the container",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MACHINE, docker, shown};
    use super::*;

    #[test]
    fn each_place_has_its_own_words() {
        let containers = [Container::Docker, Container::Podman, Container::Kubernetes, Container::Unnamed];
        let containers = containers.map(|container| Surroundings { container: Some(container), ..docker() });
        let laptop = Surroundings { has_battery: true, ..MACHINE };
        let text = |at: &Surroundings, unreaped| shown(&place(at).into_iter().chain(reaping(at, unreaped)).collect::<Vec<_>>());
        assert_eq!(text(&MACHINE, 0), "");
        let all: Vec<String> = std::iter::once(text(&laptop, 0)).chain(containers.iter().map(|at| text(at, 2))).collect();
        insta::assert_snapshot!(all.join("\n"));
        assert!(!text(&docker(), 0).contains("--init"));
    }
}
