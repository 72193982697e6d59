//! What this process was started with: environment, directory, user and program.

use super::{FileNames, Settings, Sinks, sinks};
use anyhow::Context as _;
use outlast_core::{Owner, expand_home};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The lock file that marks a directory as the scratch home of a `doctor`.
pub(crate) const TRIAL_LOCK: &str = "doctor.lock";

/// What this process was started with.
#[derive(Debug)]
pub(crate) struct World {
    /// The environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// The permissions that new files do not get, if the system reports them.
    pub(crate) umask: Option<u32>,
    /// I/O class and level, if the system reports them.
    pub(crate) io_priority: Option<i32>,
    /// This executable.
    pub(crate) program: PathBuf,
    /// The user.
    pub(crate) user: User,
}

/// The user whose login files and shell count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) home: Option<PathBuf>,
    pub(crate) shell: PathBuf,
}

/// Where output may have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    Never,
    OnTerminals,
    Always,
}

/// The escape sequence with which a terminal shows a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // The gateway has no terminal.
pub(crate) enum TerminalNotice {
    /// The terminal has only a bell.
    None,
    Osc9,
    Osc777,
}

impl World {
    /// Reads it from this process and its user.
    pub(crate) fn here() -> Self {
        let env: Vec<_> = std::env::vars_os().collect();
        let uid = rustix::process::getuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = user(&passwd, uid, |name| lookup(&env, name));
        let cwd = crate::os::working_dir();
        let umask = std::fs::read_to_string("/proc/self/status").ok().and_then(|s| umask(&s));
        Self { cwd, umask, io_priority: crate::os::io_priority(), program: program(), user, env }
    }

    /// A variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_os_str())
    }

    /// The file or directory that a flag or a variable names: `~` is the user's home directory, a relative path is relative to the working
    /// directory.
    pub(crate) fn path(&self, given: impl AsRef<Path>) -> PathBuf {
        self.cwd.join(expand_home(given.as_ref(), self.user.home.as_deref()))
    }

    /// The variables that decide settings, home and user, for an engine that is started without a caller. Those that name a session or a call are left out.
    pub(crate) fn settings_env(&self, sinks: &Sinks) -> Vec<(OsString, OsString)> {
        const OF_A_CALL: [&str; 5] = ["OUTLAST_SESSION", "OUTLAST_TASK", "OUTLAST_GENERATION", "OUTLAST_PROCESS_ID", "OUTLAST_TEST_POINTS"];
        const PLAIN: [&str; 9] = ["HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TZ", "TERMINAL_TIMEOUT", "HERMES_REDACT_SECRETS"];
        let secret = |name: &str| sinks.secret_env.iter().any(|n| n == name);
        let wanted = |name: &str| {
            PLAIN.contains(&name)
                || secret(name)
                || name.starts_with("XDG_")
                || (name.starts_with("OUTLAST_") && !OF_A_CALL.contains(&name))
        };
        self.env.iter().filter(|(name, _)| name.to_str().is_some_and(wanted)).cloned().collect()
    }

    /// The owner of requests, unless flags name another.
    pub(crate) fn owner(&self) -> Owner {
        let text = |name| self.var(name).map(|v| v.to_string_lossy().into_owned());
        Owner { session: text("OUTLAST_SESSION"), task: text("OUTLAST_TASK"), generation: text("OUTLAST_GENERATION") }
    }

    /// Where output may have colours. `NO_COLOR` wins over `CLICOLOR_FORCE`, which asks for colours also in a pipe. `CLICOLOR=0` or a dumb terminal means none.
    pub(crate) fn colours(&self) -> Colours {
        let forced = self.var("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        match (self.var("NO_COLOR").is_some(), forced) {
            (true, _) => Colours::Never,
            (false, true) => Colours::Always,
            (false, false) if self.is_dumb() || self.var("CLICOLOR").is_some_and(|v| v == "0") => Colours::Never,
            (false, false) => Colours::OnTerminals,
        }
    }

    /// The time zone of the user: that of `TZ`, else that of the machine.
    #[allow(dead_code)] // The gateway's own program shows no times.
    pub(crate) fn zone(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::system()
    }

    /// The editor of the user, which may have arguments.
    #[allow(dead_code)] // The gateway's own program edits nothing.
    pub(crate) fn editor(&self) -> OsString {
        self.var("VISUAL").or_else(|| self.var("EDITOR")).map_or_else(|| "vi".into(), OsStr::to_owned)
    }

    /// The directory for short-lived files.
    #[allow(dead_code)] // The gateway's own program has none.
    pub(crate) fn temp_dir(&self) -> PathBuf {
        self.var("TMPDIR").map(PathBuf::from).filter(|dir| dir.is_absolute()).unwrap_or_else(|| "/tmp".into())
    }

    /// The escape sequence with which this terminal shows a notification. VTE, rxvt and foot understand OSC 777, others OSC 9 if any.
    #[allow(dead_code)] // The gateway has no terminal.
    pub(crate) fn terminal_notice(&self) -> TerminalNotice {
        let term = self.var("TERM").and_then(OsStr::to_str).unwrap_or_default();
        match term {
            "" | "dumb" | "linux" => TerminalNotice::None,
            _ if self.var("VTE_VERSION").is_some() || term.starts_with("rxvt") || term.starts_with("foot") => TerminalNotice::Osc777,
            _ => TerminalNotice::Osc9,
        }
    }

    /// Whether the terminal, if there is one, cannot rewrite a line.
    pub(crate) fn is_dumb(&self) -> bool {
        self.var("TERM").is_none_or(|t| t == "dumb")
    }

    /// `outlast-keeper` beside this executable, if it is there.
    pub(crate) fn keeper(&self) -> Option<PathBuf> {
        self.beside("outlast-keeper")
    }

    /// `outlast-gateway` beside this executable, if it is there.
    pub(crate) fn gateway(&self) -> Option<PathBuf> {
        self.beside("outlast-gateway")
    }

    /// `outlast-link` beside this executable, if it is there.
    pub(crate) fn link(&self) -> Option<PathBuf> {
        self.beside("outlast-link")
    }

    /// The environment of links: what programs such as `ssh` need to find the user's keys and settings, and nothing else. A sandbox on this
    /// machine shows it to its commands.
    pub(crate) fn link_env(&self) -> Vec<(OsString, OsString)> {
        const NAMES: [&str; 13] = [
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "PATH",
            "LANG",
            "TZ",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
            "SSH_AUTH_SOCK",
            "DOCKER_HOST",
            "CONTAINER_HOST",
            "OUTLAST_TEST_POINTS",
        ];
        let wanted = |name: &OsString| name.to_str().is_some_and(|name| NAMES.contains(&name));
        self.env.iter().filter(|(name, _)| wanted(name)).cloned().collect()
    }

    /// A program in the directory of this executable, if it can be run.
    fn beside(&self, name: &str) -> Option<PathBuf> {
        let path = self.program.with_file_name(name);
        let usable = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
        usable.then_some(path)
    }

    /// Directories for sockets, best first: short paths on a tmpfs.
    pub(crate) fn socket_places(&self) -> Vec<PathBuf> {
        let runtime = self.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
        runtime.into_iter().chain(["/dev/shm".into(), "/tmp".into()]).collect()
    }

    /// Reads the configuration, and finds the state directory.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Ok(self.settings_in(self.home()?))
    }

    /// The state directory.
    pub(crate) fn home(&self) -> anyhow::Result<PathBuf> {
        match self.var("OUTLAST_HOME") {
            Some(home) => Ok(self.path(home)),
            None => Ok(self.xdg("XDG_STATE_HOME", ".local/state").context("no home directory is known: set OUTLAST_HOME")?.join("outlast")),
        }
    }

    /// Reads the configuration for a given state directory.
    pub(crate) fn settings_in(&self, home: PathBuf) -> Settings {
        let file = self.config_home().map(|dir| dir.join("outlast/config.toml"));
        let file = file.unwrap_or_else(|| "/etc/outlast/config.toml".into());
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => Ok(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(e.to_string()),
        };
        let mut settings = super::read(home, file, text, self.user.home.as_deref(), |name| self.var(name).map(OsStr::to_owned));
        let (file, warnings) = (settings.file.clone(), &mut settings.warnings);
        let names = FileNames { file: &file, user_home: self.user.home.as_deref() };
        settings.sinks = sinks::read(&settings.tables, &names, &self.env, warnings);
        if settings.home.join(TRIAL_LOCK).exists() {
            // The receivers of hooks and webhooks would take a trial for real notices.
            settings.sinks = Sinks::default();
        }
        settings
    }

    /// The directory in which the user's programs have their configuration.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.xdg("XDG_CONFIG_HOME", ".config")
    }

    /// The path of this executable that stays valid after an upgrade: the one in `PATH`, else its own. None if it has no path.
    pub(crate) fn lasting_program(&self) -> Option<PathBuf> {
        let real = self.program.canonicalize().ok().filter(|p| p.is_absolute() && !self.program.starts_with("/proc"))?;
        let name = real.file_name()?;
        let found = self.var("PATH").into_iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
        let same = |path: &PathBuf| path.canonicalize().is_ok_and(|p| p == real);
        found.into_iter().find(same).or(Some(real.clone()))
    }

    /// A directory of the XDG specification: the one that the variable names, else one below the user's home.
    fn xdg(&self, name: &str, fallback: &str) -> Option<PathBuf> {
        // The specification has relative paths ignored.
        let set = self.var(name).map(PathBuf::from).filter(|p| p.is_absolute());
        set.or_else(|| self.user.home.as_ref().map(|home| home.join(fallback)))
    }
}

/// The mask in `/proc/self/status`. The system call that returns it also changes it.
fn umask(status: &str) -> Option<u32> {
    status.lines().find_map(|l| l.strip_prefix("Umask:")).and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
}

/// A variable that is set and not empty.
fn lookup(env: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    env.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.clone())
}

/// The path of this executable. After an upgrade has replaced the file, the path of the new one.
fn program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        Ok(path) => match path.to_str().and_then(|p| p.strip_suffix(" (deleted)")).map(PathBuf::from) {
            Some(replaced) if replaced.exists() => replaced,
            _ => "/proc/self/exe".into(),
        },
        Err(_) => "/proc/self/exe".into(),
    }
}

/// The user of `uid`. The shell is the one of a login, the home that of `HOME`.
fn user(passwd: &str, uid: u32, env: impl Fn(&str) -> Option<OsString>) -> User {
    let entry = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f.len() == 7 && f[2].parse() == Ok(uid));
    let field = |i: usize| entry.as_ref().map(|f| f[i].to_owned()).filter(|f| !f.is_empty());
    let name = || env("USER").or_else(|| env("LOGNAME")).map(|n| n.to_string_lossy().into_owned());
    User {
        name: field(0).or_else(name).unwrap_or_else(|| uid.to_string()),
        home: env("HOME").map(PathBuf::from).filter(|h| h.is_absolute()).or_else(|| field(5).map(PathBuf::from)),
        shell: field(6).map(PathBuf::from).or_else(|| env("SHELL").map(PathBuf::from)).unwrap_or_else(|| "/bin/sh".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_as_at_a_login() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000::/home/me:/usr/bin/zsh\nbroken\n";
        let none = |_: &str| None;
        assert_eq!(user(passwd, 1000, none), User { name: "me".into(), home: Some("/home/me".into()), shell: "/usr/bin/zsh".into() });
        let env = |name: &str| {
            Some(OsString::from(match name {
                "HOME" => "/h",
                "USER" => "ldap",
                "SHELL" => "/bin/fish",
                _ => return None,
            }))
        };
        assert_eq!(user(passwd, 7, env), User { name: "ldap".into(), home: Some("/h".into()), shell: "/bin/fish".into() });
        assert_eq!(user("", 7, none), User { name: "7".into(), home: None, shell: "/bin/sh".into() });
    }

    #[test]
    fn the_mask_is_octal() {
        assert_eq!(umask("Name:\toutlast\nUmask:\t0027\nState:\tR"), Some(0o027));
        assert_eq!(umask("Name:\toutlast\n"), None);
    }

    fn world(env: &[(&str, &str)]) -> World {
        World {
            env: env.iter().map(|(n, v)| (n.into(), v.into())).collect(),
            cwd: "/work".into(),
            umask: None,
            io_priority: None,
            program: "/bin/outlast".into(),
            user: User { name: "me".into(), home: Some("/home/me".into()), shell: "/bin/sh".into() },
        }
    }

    #[test]
    fn the_home_is_that_of_outlast_home_or_of_xdg() {
        let home = |env: &[(&str, &str)]| world(env).settings().unwrap().home;
        assert_eq!(home(&[]), Path::new("/home/me/.local/state/outlast"));
        assert_eq!(home(&[("XDG_STATE_HOME", "/s")]), Path::new("/s/outlast"));
        assert_eq!(home(&[("XDG_STATE_HOME", "relative")]), Path::new("/home/me/.local/state/outlast"));
        assert_eq!(home(&[("OUTLAST_HOME", "here"), ("XDG_STATE_HOME", "/s")]), Path::new("/work/here"));
        assert_eq!(world(&[("XDG_CONFIG_HOME", "/x")]).settings().unwrap().file, Path::new("/x/outlast/config.toml"));
    }

    #[test]
    fn the_owner_is_in_the_environment() {
        let owner = world(&[("OUTLAST_SESSION", "s"), ("OUTLAST_TASK", "")]).owner();
        assert_eq!(owner, Owner { session: Some("s".into()), task: None, generation: None });
    }
}
