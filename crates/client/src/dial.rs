//! Finding the engine or the gateway of a home.

use crate::ClientError;
use crate::link::{CallError, Cut, Link};
use crate::peer::{GatewayTalk, Peer, Talk};
use outlast_core::Owner;
use outlast_wire::socket;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Which engine or gateway to speak to, and for whom.
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
    /// What to do when none runs there.
    pub start: Start,
    /// For whom requests are made unless they say otherwise.
    pub owner: Owner,
}

/// What to do when no engine, or for a [`Chat`](crate::Chat) no gateway, runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// Start one.
    #[cfg(feature = "start")]
    OnDemand {
        /// The `outlast` program; for a [`Chat`](crate::Chat) the `outlast-gateway` program.
        program: PathBuf,
    },
    /// Say so.
    Never,
}

impl Connect {
    /// To the engine of a home if one runs there, for a person.
    pub fn to(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), start: Start::Never, owner: Owner::default() }
    }

    /// To the home that `outlast` uses, for the conversation that it would speak for: by `OUTLAST_HOME`, else `XDG_STATE_HOME`, else `HOME`; and by
    /// `OUTLAST_SESSION`, `OUTLAST_TASK` and `OUTLAST_GENERATION`. Nothing if none of the first three is there; a relative `HOME` is none.
    pub fn of_env(env: impl IntoIterator<Item = (OsString, OsString)>) -> Option<Self> {
        let env: Vec<_> = env.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let var = |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        // The specification has relative paths ignored.
        let dir = |name: &str| var(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = dir("XDG_STATE_HOME").or_else(|| dir("HOME").map(|home| home.join(".local/state")));
        let home = var("OUTLAST_HOME").map(PathBuf::from).or_else(|| state.map(|state| state.join("outlast")))?;
        let text = |name: &str| var(name).map(|value| value.to_string_lossy().into_owned());
        let owner = Owner { session: text("OUTLAST_SESSION"), task: text("OUTLAST_TASK"), generation: text("OUTLAST_GENERATION") };
        Some(Self::to(home).speaking_for(owner))
    }

    /// The same; where no engine runs one is started with this program, an `outlast`. For a [`Chat`](crate::Chat) it is an `outlast-gateway`. A name without a
    /// slash is looked for in `PATH`.
    #[cfg(feature = "start")]
    #[must_use]
    pub fn starting(self, program: impl Into<PathBuf>) -> Self {
        Self { start: Start::OnDemand { program: program.into() }, ..self }
    }

    /// The same, for somebody: a conversation.
    #[must_use]
    pub fn speaking_for(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same, wherever the caller or the engine goes.
    pub(crate) fn absolute(&self) -> Self {
        // What cannot be made absolute cannot be found either, which is told when it is looked for.
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

    /// A connection that has said hello, to a program that is started if it must be and may.
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

    /// The same for a client that only looks on, in place of a gateway that died. Nothing: a person has stopped the gateway meanwhile.
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

    /// The error where none runs, and none is to be started.
    pub(crate) fn not_running<T: Talk>(&self) -> ClientError {
        ClientError::Connect {
            peer: T::PEER,
            path: self.home.clone(),
            error: io::Error::new(io::ErrorKind::NotFound, format!("no {} runs in this home", T::PEER)),
            hint: T::PEER.none_hint().into(),
        }
    }
}

/// A connection to the engine or the gateway of `home`, if one runs.
pub(crate) async fn greet<T: Talk>(home: &Path) -> Result<Option<Link<T>>, ClientError> {
    let Some(stream) = connect(home, T::PEER).await? else { return Ok(None) };
    let halves = stream.into_std().and_then(socket::halves).map_err(|error| ClientError::Connect {
        peer: T::PEER,
        path: home.join("run"),
        error,
        hint: "too many files may be open: close some, or raise the limit with `ulimit -n`".into(),
    });
    let (read, write) = halves?;
    match Link::open(read, write).await {
        // The home is a copy, and what it remembers is where the original's sockets are.
        Ok(link) if link.home().is_some_and(|theirs| !is_same(theirs, home)) => Ok(None),
        Ok(link) => Ok(Some(link)),
        // It was about to end when we came: as good as none.
        Err(CallError::Cut(Cut::Gone(_))) => Ok(None),
        Err(CallError::Cut(Cut::Nonsense(what)) | CallError::Unreadable { what, .. }) => Err(ClientError::Protocol { peer: T::PEER, what }),
        Err(CallError::Refused(e)) => Err(ClientError::Refused(e)),
        Err(CallError::Unsent(e)) => Err(e),
    }
}

/// Whether two paths lead to the same directory. One that leads nowhere is no home of ours.
fn is_same(theirs: &Path, ours: &Path) -> bool {
    let file = |path| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    matches!((file(theirs), file(ours)), (Ok(theirs), Ok(ours)) if theirs == ours)
}

async fn connect(home: &Path, peer: Peer) -> Result<Option<UnixStream>, ClientError> {
    let path = match std::fs::read_link(home.join("run")) {
        // A relative link is meant from the home.
        Ok(dir) => home.join(dir).join(peer.socket()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let hint = "the home is damaged or not yours: choose another with OUTLAST_HOME, or look at it with `outlast doctor`".into();
            return Err(ClientError::Connect { peer, path: home.join("run"), error, hint });
        }
    };
    match dial(&path).await {
        Ok(stream) => {
            let listener = stream.peer_cred().map_err(|error| ClientError::Connect {
                peer,
                path: path.clone(),
                error,
                hint: "the kernel does not say who listens there".into(),
            })?;
            trust(peer, &path, listener.uid(), rustix::process::geteuid().as_raw())?;
            Ok(Some(stream))
        }
        // Nobody listens, or whoever did was killed as we came.
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ) =>
        {
            Ok(None)
        }
        Err(error) => {
            let hint = refused_connect_hint(&error).into();
            Err(ClientError::Connect { peer, path, error, hint })
        }
    }
}

/// The hint for a refused connect. File permissions answer EACCES; the filter of a sandbox answers EPERM.
fn refused_connect_hint(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) {
        return "a sandbox refuses Unix sockets here: allow them in its settings (sandbox-runtime: `network.allowAllUnixSockets`; Codex: network \
                access), or call outlast from outside the sandbox, as its MCP server does";
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => "the home belongs to another user: set OUTLAST_HOME to a directory of yours",
        _ => "look at the home with `outlast doctor`",
    }
}

async fn dial(path: &Path) -> io::Result<UnixStream> {
    match UnixStream::connect(path).await {
        // So many come at once that the queue is full. A blocking connect waits for its turn.
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            let path = path.to_owned();
            let stream =
                tokio::task::spawn_blocking(move || std::os::unix::net::UnixStream::connect(path)).await.map_err(io::Error::other)??;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        }
        other => other,
    }
}

/// Refuses a listener that is neither us nor root: it would see every command and every secret.
fn trust(peer: Peer, path: &Path, listener: u32, us: u32) -> Result<(), ClientError> {
    if listener == us || listener == 0 {
        return Ok(());
    }
    Err(ClientError::Connect {
        peer,
        path: path.to_owned(),
        error: io::Error::new(io::ErrorKind::PermissionDenied, format!("it is served by user {listener}, not by you (user {us}) or root")),
        hint: "do not use this home: set OUTLAST_HOME to a directory that only you can write".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_that_a_sandbox_refuses_says_what_to_allow() {
        let hint = |errno: rustix::io::Errno| refused_connect_hint(&errno.into());
        assert!(hint(rustix::io::Errno::PERM).contains("sandbox refuses Unix sockets"));
        assert!(hint(rustix::io::Errno::ACCESS).contains("another user"));
        assert!(hint(rustix::io::Errno::NOTDIR).contains("outlast doctor"));
    }

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

    #[test]
    fn a_strangers_engine_is_refused() {
        let path = Path::new("/run/x/engine");
        assert!(trust(Peer::Engine, path, 1000, 1000).is_ok());
        assert!(trust(Peer::Engine, path, 0, 1000).is_ok());
        let refused = trust(Peer::Engine, path, 1001, 1000).unwrap_err();
        assert!(refused.to_string().contains("served by user 1001"), "{refused}");
        assert!(refused.hint().contains("OUTLAST_HOME"));
    }
}
