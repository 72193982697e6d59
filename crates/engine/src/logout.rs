//! What a logout ends, so that the engine can stay where processes are likelier to survive it.
//!
//! systemd's user manager stops about ten seconds after the user's last logout, with everything below it, unless the user lingers. The
//! scope of a login session survives the logout, unless logind is configured to kill it (`KillUserProcesses`).
//!
//! Decision 167: docs/decisions/places.md.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// How long logind may take to answer.
const BUS_LIMIT: Duration = Duration::from_secs(2);

/// The facts that decide what a logout ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logout {
    /// Where the engine's starter is.
    starter: Starter,
    /// Whether the user manager stays after the last logout.
    lingers: bool,
    /// Whether logind kills the processes that are left in a session; none if logind does not answer.
    kills: Option<bool>,
}

/// The place of a process in systemd's cgroup tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starter {
    /// In the scope of a login session.
    Session,
    /// Below the user manager.
    UserManager,
    /// Elsewhere: in a system service, or without systemd.
    Elsewhere,
}

impl Logout {
    /// Reads the facts for the user `name`, whose starter is at `path` in the hierarchy. Root's processes are below no user manager.
    pub(crate) async fn find(path: &str, name: &str) -> Self {
        let starter = Starter::at(path);
        // The file has the user's name. systemd creates it for `loginctl enable-linger`.
        let lingers = !name.is_empty() && Path::new("/var/lib/systemd/linger").join(name).exists();
        let kills = match (starter, lingers) {
            (Starter::Session, false) => ask_logind(name).await,
            _ => None,
        };
        Self { starter, lingers, kills }
    }

    /// Whether processes are likelier to survive in the starter's session than below the user manager.
    pub(crate) fn should_stay(self) -> bool {
        self.starter == Starter::Session && !self.lingers && self.kills == Some(false)
    }

    /// What a logout ends, in a sentence, for an engine below the user manager or in a session.
    pub(crate) fn danger(self, is_below_user_manager: bool) -> Option<String> {
        let what = match (is_below_user_manager, self.lingers) {
            (_, true) => return None,
            (true, false) => "about 10 s after your last logout systemd ends this engine and all processes",
            (false, false) if self.starter == Starter::Session && self.kills == Some(true) => {
                "at your logout systemd ends this engine and all processes (KillUserProcesses)"
            }
            (false, false) => return None,
        };
        Some(format!("{what}: `loginctl enable-linger` keeps them running"))
    }
}

impl Starter {
    fn at(path: &str) -> Self {
        match path.split('/').any(|part| part.starts_with("session-") && part.ends_with(".scope")) {
            _ if is_below_user_manager(path) => Self::UserManager,
            true => Self::Session,
            false => Self::Elsewhere,
        }
    }
}

/// Whether a process at this path of the hierarchy ends with the user manager.
pub(crate) fn is_below_user_manager(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with("user@") && part.ends_with(".service"))
}

async fn ask_logind(name: &str) -> Option<bool> {
    let mut call = tokio::process::Command::new("busctl");
    call.args(["--system", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"])
        .args(["KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let ran = tokio::time::timeout(BUS_LIMIT, call.output()).await.ok()?.ok()?;
    if !ran.status.success() {
        return None;
    }
    kills(&String::from_utf8_lossy(&ran.stdout), name)
}

/// What logind's three settings mean for a user: the switch, the list of users to kill, and the list of users to spare.
fn kills(answer: &str, name: &str) -> Option<bool> {
    let mut lines = answer.lines();
    let is_on = match lines.next()?.trim() {
        "b true" => true,
        "b false" => false,
        _ => return None,
    };
    let mut names = || -> Option<Vec<String>> {
        let list = lines.next()?.trim().strip_prefix("as ")?;
        Some(list.split_ascii_whitespace().skip(1).map(|name| name.trim_matches('"').to_owned()).collect())
    };
    let (only, except) = (names()?, names()?);
    let is_in = |list: &[String]| list.iter().any(|one| one == name);
    Some(is_on && !is_in(&except) && (only.is_empty() || is_in(&only)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "/user.slice/user-1000.slice/session-3.scope";
    const TERMINAL: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope";

    fn logout(path: &str, lingers: bool, kills: Option<bool>) -> Logout {
        Logout { starter: Starter::at(path), lingers, kills }
    }

    #[test]
    fn the_engine_stays_in_a_session_that_a_logout_leaves_alone() {
        assert!(logout(SESSION, false, Some(false)).should_stay());
        assert!(!logout(SESSION, true, Some(false)).should_stay(), "a manager that lingers is safer");
        assert!(!logout(SESSION, false, Some(true)).should_stay(), "what is in the session is killed");
        assert!(!logout(SESSION, false, None).should_stay(), "not known");
        assert!(!logout(TERMINAL, false, Some(false)).should_stay(), "it is below the manager anyway");
        assert!(!logout("/system.slice/agent.service", false, Some(false)).should_stay(), "a restart of the service would end it");
        assert!(!logout("/", false, None).should_stay());
    }

    #[test]
    fn what_a_logout_ends_is_told_with_what_to_do() {
        let told = |path, lingers, kills, below| logout(path, lingers, kills).danger(below).unwrap_or_default();
        assert!(told(TERMINAL, false, None, true).contains("10 s after your last logout"));
        assert!(told(SESSION, false, Some(true), false).contains("KillUserProcesses"));
        assert!(told(SESSION, false, Some(true), true).contains("enable-linger"));
        for quiet in [told(SESSION, false, Some(false), false), told(SESSION, true, None, true), told("/", false, None, false)] {
            assert_eq!(quiet, "");
        }
    }

    #[test]
    fn the_answer_of_logind_is_read_for_the_user() {
        let answer = |on: &str, only: &str, except: &str| format!("b {on}\nas {only}\nas {except}\n");
        assert_eq!(kills(&answer("false", "0", "1 \"root\""), "me"), Some(false));
        assert_eq!(kills(&answer("true", "0", "1 \"root\""), "me"), Some(true));
        assert_eq!(kills(&answer("true", "0", "1 \"root\""), "root"), Some(false));
        assert_eq!(kills(&answer("true", "2 \"you\" \"me\"", "0"), "me"), Some(true));
        assert_eq!(kills(&answer("true", "1 \"you\"", "0"), "me"), Some(false));
        assert_eq!(kills("", "me"), None);
        assert_eq!(kills("b maybe\nas 0\nas 0\n", "me"), None);
    }
}
