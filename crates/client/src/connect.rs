//! Which home a client connects to, and whether it may start a program there.

use crate::ClientError;
use crate::dial::greet;
use crate::link::Link;
use crate::peer::{GatewayTalk, Talk};
use outlast_core::Owner;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Which engine or gateway to use, and for which owner.
///
/// ```
/// # use outlast_client::{Connect, Owner};
/// let to = Connect::to("/home/me/.local/state/outlast").starting("outlast").speaking_for(Owner::session("chat:42"));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Connect {
    /// The home: the directory that holds everything of one engine.
    pub home: PathBuf,
    /// What to do if none runs there.
    pub start: Start,
    /// The owner for which requests are made.
    pub owner: Owner,
}

/// What to do if no engine, or for a [`Chat`](crate::Chat) no gateway, runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// Start one.
    #[cfg(feature = "start")]
    OnDemand {
        /// The `outlast` program; for a [`Chat`](crate::Chat) the `outlast-gateway` program.
        program: PathBuf,
    },
    /// Return an error.
    Never,
}

impl Connect {
    /// The engine of a home if one runs there, for a person.
    pub fn to(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), start: Start::Never, owner: Owner::default() }
    }

    /// The home that `outlast` uses, for the owner that it would use. The home comes from `OUTLAST_HOME`, else `XDG_STATE_HOME`,
    /// else `HOME`; the owner from `OUTLAST_SESSION`, `OUTLAST_TASK` and `OUTLAST_GENERATION`. None if the environment names no
    /// home; a relative `HOME` does not count.
    pub fn of_env(env: impl IntoIterator<Item = (OsString, OsString)>) -> Option<Self> {
        let env: Vec<_> = env.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let var = |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        // The specification says that relative paths are ignored.
        let dir = |name: &str| var(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = dir("XDG_STATE_HOME").or_else(|| dir("HOME").map(|home| home.join(".local/state")));
        let home = var("OUTLAST_HOME").map(PathBuf::from).or_else(|| state.map(|state| state.join("outlast")))?;
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().into_owned());
        let owner = Owner { session: text("OUTLAST_SESSION"), task: text("OUTLAST_TASK"), generation: text("OUTLAST_GENERATION") };
        Some(Self::to(home).speaking_for(owner))
    }

    /// The same; if no engine runs, one is started with this program, an `outlast`. For a [`Chat`](crate::Chat) it is an
    /// `outlast-gateway`. A name without a slash is looked up in `PATH`.
    #[cfg(feature = "start")]
    #[must_use]
    pub fn starting(self, program: impl Into<PathBuf>) -> Self {
        Self { start: Start::OnDemand { program: program.into() }, ..self }
    }

    /// The same, for this owner.
    #[must_use]
    pub fn speaking_for(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same with absolute paths, which stay valid if the caller or the engine changes its directory.
    pub(crate) fn absolute(&self) -> Self {
        // A path that cannot be made absolute cannot be found either. Looking for it reports that.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let start = match &self.start {
            #[cfg(feature = "start")]
            Start::OnDemand { program } if program.as_os_str().as_encoded_bytes().contains(&b'/') => {
                Start::OnDemand { program: absolute(program) }
            }
            start => start.clone(),
        };
        Self { home: absolute(&self.home), start, owner: self.owner.clone() }
    }

    /// A connection with the hellos exchanged. The program is started if it does not run and may be started.
    pub(crate) async fn link<T: Talk>(&self) -> Result<Link<T>, ClientError> {
        if let Some(link) = greet(&self.home).await? {
            return Ok(link);
        }
        match &self.start {
            #[cfg(feature = "start")]
            Start::OnDemand { program } => crate::start::started(&self.home, program, crate::start::Starter::Asker).await,
            Start::Never => Err(self.not_running::<T>()),
        }
    }

    /// The same for a client that only follows a session, to replace a gateway that died. None if a person has stopped the gateway.
    pub(crate) async fn link_in_place(&self) -> Result<Option<Link<GatewayTalk>>, ClientError> {
        if let Some(link) = greet(&self.home).await? {
            return Ok(Some(link));
        }
        match &self.start {
            #[cfg(feature = "start")]
            Start::OnDemand { program } => match crate::start::started(&self.home, program, crate::start::Starter::Onlooker).await {
                Err(ClientError::Start { .. }) if crate::start::is_gateway_stopped(&self.home) => Ok(None),
                started => started.map(Some),
            },
            Start::Never => Ok(None),
        }
    }

    /// The error if none runs and the client may not start one.
    pub(crate) fn not_running<T: Talk>(&self) -> ClientError {
        ClientError::Connect {
            peer: T::PEER,
            path: self.home.clone(),
            error: io::Error::new(io::ErrorKind::NotFound, format!("no {} runs in this home", T::PEER)),
            hint: T::PEER.none_hint().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_the_command_line_is_found() {
        let found =
            |env: &[(&str, &str)]| Connect::of_env(env.iter().map(|(n, v)| (n.into(), v.into()))).map(|to| (to.home, to.owner.session));
        let home = |path: &str| Some((PathBuf::from(path), None));
        assert_eq!(found(&[("HOME", "/h")]), home("/h/.local/state/outlast"));
        assert_eq!(found(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), home("/s/outlast"));
        assert_eq!(found(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]), home("/h/.local/state/outlast"));
        assert_eq!(found(&[("OUTLAST_HOME", "/o"), ("HOME", "/h"), ("OUTLAST_SESSION", "")]), home("/o"));
        assert_eq!(found(&[("OUTLAST_HOME", "/o"), ("OUTLAST_SESSION", "s")]), Some(("/o".into(), Some("s".into()))));
        assert_eq!(found(&[("HOME", "")]), None);
        assert_eq!(found(&[("HOME", "h")]), None);
    }

    #[test]
    #[cfg(feature = "start")]
    fn an_engine_that_begins_elsewhere_finds_the_same() {
        let here = std::env::current_dir().unwrap();
        let to = |home: &str, program: &str| {
            let to = Connect::to(home).starting(program).absolute();
            (to.home, to.start)
        };
        let program = |path: &Path| Start::OnDemand { program: path.to_owned() };
        assert_eq!(to("home", "./outlast"), (here.join("home"), program(&here.join("outlast"))));
        assert_eq!(to("/h", "outlast"), ("/h".into(), program(Path::new("outlast"))));
    }
}
