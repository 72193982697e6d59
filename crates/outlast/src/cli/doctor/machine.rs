//! The machine: its kernel, its clock, and what a logout or a restart does.

use super::super::engine::install;
use super::super::{Context, times};
use super::Check;
use crate::os;
use outlast_client::Time;

/// No clock that is right shows an earlier time: 2025 began then.
const EARLIEST: Time = Time::from_micros(1_735_689_600_000_000);

pub(super) fn checks(ctx: &Context, engine: Option<u32>) -> Vec<Check> {
    let mut all = vec![kernel(&os::kernel()), clock(times::now())];
    let cgroup = engine.and_then(os::cgroup_of);
    all.extend(logout(os::systemd_runs(), cgroup.as_deref(), &ctx.world.user.name, os::lingers(&ctx.world.user.name)));
    all.push(match install::installed(ctx) {
        Some(unit) => Check::ok("reboot", format!("{} tells what a restart of the machine ends", unit.display())),
        None => {
            Check::ok("reboot", "what a restart of the machine ends is told with the next command (`outlast engine install`: without one)")
        }
    });
    all
}

fn kernel(release: &str) -> Check {
    if full_protection(release) {
        return Check::ok("kernel", format!("{release}: full protection, also after a keeper was lost"));
    }
    Check::degraded("kernel", &["P3", "P5"], format!("{release} tells an exit status to the parent alone"))
        .means("once a keeper of a process was lost, the loss of a second can cost its exit code, never its output; `poll` then shows protection: output-only")
        .hint("Linux 6.15 or newer protects both")
}

/// Whether the kernel keeps an exit status for whoever holds a pidfd, as it does since 6.15.
fn full_protection(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15)
}

fn clock(now: Time) -> Check {
    if now >= EARLIEST {
        return Check::ok("clock", now.to_string());
    }
    Check::degraded("clock", &["P3"], format!("it says {now}, which is long over"))
        .means(
            "times on records are wrong, and what is kept for days may be forgotten at once when the clock is set; running times are right",
        )
        .hint("set the clock, for instance with a time service")
}

/// Whether a logout ends the manager that the engine's scope belongs to.
fn logout(systemd: bool, cgroup: Option<&str>, user: &str, lingers: bool) -> Option<Check> {
    let cgroup = cgroup.filter(|_| systemd)?;
    let of_the_user = cgroup.split('/').any(|part| part.starts_with("user@") && part.ends_with(".service"));
    let of_a_login = cgroup.split('/').any(|part| part.starts_with("session-") && part.ends_with(".scope"));
    if of_the_user && !lingers || of_a_login {
        let what = if of_a_login {
            "the engine is part of a login"
        } else {
            "the engine is part of your user manager, which ends with your last login"
        };
        return Some(
            Check::degraded("logout", &["P5"], what)
                .means("a logout may stop the processes; each is then told as killed or lost")
                .hint(format!("`loginctl enable-linger {user}`, then `outlast engine stop`: the next one outlasts logins")),
        );
    }
    Some(Check::ok("logout", "processes go on"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        for (release, want) in
            [("6.15.0", true), ("6.18.3-generic", true), ("7.0", true), ("6.9.12", false), ("5.15.0-91", false), ("odd", false)]
        {
            assert_eq!(full_protection(release), want, "{release}");
            assert_eq!(kernel(release).state == State::Ok, want, "{release}");
        }
    }

    #[test]
    fn a_clock_that_was_never_set_is_told() {
        assert_eq!(clock(Time::from_micros(0)).state, State::Degraded);
        assert_eq!(clock(times::now()).state, State::Ok);
    }

    #[test]
    fn a_logout_ends_what_does_not_linger() {
        let scope = Some("/user.slice/user-1000.slice/user@1000.service/app.slice/outlast-ab-7.scope/engine");
        assert_eq!(logout(true, scope, "me", false).unwrap().state, State::Degraded);
        assert_eq!(logout(true, scope, "me", true).unwrap().state, State::Ok);
        assert_eq!(logout(true, Some("/user.slice/user-1000.slice/session-3.scope"), "me", true).unwrap().state, State::Degraded);
        assert_eq!(logout(true, Some("/system.slice/outlast-ab-7.scope/engine"), "root", false).unwrap().state, State::Ok);
        assert!(logout(false, scope, "me", false).is_none() && logout(true, None, "me", false).is_none());
    }
}
