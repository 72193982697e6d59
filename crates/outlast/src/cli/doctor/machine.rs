//! The machine: its kernel, its clock, and what a logout or a restart does.

use super::super::engine::install;
use super::super::{Context, times};
use super::{Check, DoctorFacts};
use crate::os;
use outlast_client::Time;

/// The beginning of 2025. A clock that shows an earlier time was never set.
const EARLIEST: Time = Time::from_micros(1_735_689_600_000_000);

/// How the engine's sentences begin: that it stays in its starter's session on purpose, and what a logout ends. Both are checked here
/// instead.
pub(super) const STAYS_IN_SESSION: &str = "the engine stays in the login session";
pub(super) const ENDS_AT_LOGOUT: &str = "logout systemd ends this engine";

pub(super) fn checks(ctx: &Context, facts: &DoctorFacts<'_>) -> Vec<Check> {
    let mut all = vec![kernel(&os::kernel(), facts.trial.and_then(|t| t.has_full_protection())), clock(times::now())];
    if let Ok(found) = facts.found
        && facts.place.has_systemd
        && let Some(cgroup) = os::cgroup_of(found.status.pid)
    {
        let user = &ctx.world.user.name;
        let is_safe_in_session = found.status.degraded.iter().any(|what| what.starts_with(STAYS_IN_SESSION));
        all.push(logout(&Login { cgroup: &cgroup, user, lingers: os::lingers(user), is_safe_in_session }));
    }
    match install::installed(ctx) {
        Some(unit) => {
            let what = format!("{} starts an engine at boot, which reports the processes that a reboot ended", unit.display());
            all.push(Check::ok("reboot", what));
        }
        // A container is not started with the machine, or its runtime starts it.
        None if facts.place.container.is_some() => {}
        None => all.push(Check::ok(
            "reboot",
            "processes that a reboot ended are reported by the next command; with `outlast engine install`, right after the reboot",
        )),
    }
    all
}

/// `seen`: whether the trial found full protection after it killed a keeper. Without a trial the kernel's version decides.
fn kernel(release: &str, seen: Option<bool>) -> Check {
    match seen {
        Some(true) => Check::ok("kernel", format!("{release}: after one keeper was killed, a kill of the other loses no exit code either")),
        None if keeps_exit_status(release) => {
            Check::ok("kernel", format!("{release}: after one keeper was killed, a kill of the other loses no exit code either"))
        }
        Some(false) | None => {
            let what = if keeps_exit_status(release) {
                "does not tell an exit status to a second keeper here"
            } else {
                "tells an exit status only to the parent"
            };
            Check::degraded("kernel", &["P3", "P5"], format!("{release} {what}"))
                .means("if both keepers of a process are killed one after the other, its exit code can be lost, never its output; `poll` shows protection: output-only after the first")
                .hint("nothing has to be done; Linux 6.15 or newer without a profile that forbids it protects the exit code too")
        }
    }
}

/// Whether the kernel keeps an exit status for the holder of a pidfd, as it does since 6.15.
fn keeps_exit_status(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15)
}

fn clock(now: Time) -> Check {
    if now >= EARLIEST {
        return Check::ok("clock", now.to_string());
    }
    Check::degraded("clock", &["P3"], format!("it shows {now}, which is in the past"))
        .means("times on records are wrong; running times are right")
        .hint("set the clock, for instance with a time service")
}

/// What decides whether commands survive the user's logout.
struct Login<'a> {
    /// Where the engine is in the cgroup hierarchy of systemd.
    cgroup: &'a str,
    user: &'a str,
    /// Whether the user manager stays after the last logout.
    lingers: bool,
    /// Whether the engine stays in the session because a logout leaves that alone.
    is_safe_in_session: bool,
}

fn logout(login: &Login<'_>) -> Check {
    const NAME: &str = "logout";
    let is_in = |prefix: &str, suffix: &str| login.cgroup.split('/').any(|part| part.starts_with(prefix) && part.ends_with(suffix));
    let linger = format!("`loginctl enable-linger {}`, then `outlast engine restart`", login.user);
    let ends = |what: &str| {
        Check::degraded(NAME, &["P5"], what)
            .means("commands end with your last logout; each is then reported as killed or lost")
            .hint(format!("{linger}: the next engine survives logouts"))
    };
    if is_in("user@", ".service") {
        return match login.lingers {
            true => Check::ok(NAME, "commands keep running: your user manager stays (linger)"),
            false => ends("systemd stops your user manager, with the engine in it, about 10 s after your last logout"),
        };
    }
    if is_in("session-", ".scope") {
        return match login.is_safe_in_session {
            true => Check::ok(NAME, "commands keep running: the engine stays in the login session, which a logout leaves alone"),
            false => ends("the engine is part of a login session, which systemd may kill at your logout"),
        };
    }
    Check::ok(NAME, "commands keep running")
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::super::tests::shown;
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        for (release, want) in
            [("6.15.0", true), ("6.18.3-generic", true), ("7.0", true), ("6.9.12", false), ("5.15.0-91", false), ("odd", false)]
        {
            assert_eq!(keeps_exit_status(release), want, "{release}");
            assert_eq!(kernel(release, None).state == CheckState::Ok, want, "{release}");
            assert!(
                kernel(release, Some(true)).state == CheckState::Ok && kernel(release, Some(false)).state == CheckState::Degraded,
                "what was seen counts"
            );
        }
    }

    #[test]
    fn a_clock_that_was_never_set_is_told() {
        let unset = clock(Time::from_micros(0));
        // A clock that is set right removes nothing early.
        assert_eq!((unset.state, unset.means.as_str()), (CheckState::Degraded, "times on records are wrong; running times are right"));
        assert_eq!(clock(times::now()).state, CheckState::Ok);
    }

    #[test]
    fn a_login_without_linger_is_told_what_to_do() {
        let manager = "/user.slice/user-1000.slice/user@1000.service/app.slice/outlast-ab-7.scope/engine";
        let session = "/user.slice/user-1000.slice/session-3.scope";
        let cases = [
            ("user manager", manager, false, false),
            ("user manager, lingers", manager, true, false),
            ("session", session, false, false),
            ("session that a logout leaves alone", session, false, true),
            ("service of the system", "/system.slice/outlast-ab-7.scope/engine", false, false),
        ];
        let text = cases.map(|(name, cgroup, lingers, is_safe_in_session)| {
            format!("# {name}\n{}", shown(&[logout(&Login { cgroup, user: "me", lingers, is_safe_in_session })]))
        });
        insta::assert_snapshot!(text.join("\n"));
    }
}
