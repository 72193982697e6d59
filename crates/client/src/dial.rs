//! Connects to the engine or the gateway of a home.

use crate::ClientError;
use crate::link::{CallError, Cut, Link};
use crate::peer::{Peer, Talk};
use outlast_wire::socket;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tokio::net::UnixStream;

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
        // The home is a copy, and its link leads to the sockets of the original.
        Ok(link) if link.home().is_some_and(|theirs| !is_same(theirs, home)) => Ok(None),
        Ok(link) => Ok(Some(link)),
        // It was shutting down: the same as none.
        Err(CallError::Cut(Cut::Gone(_))) => Ok(None),
        Err(CallError::Cut(Cut::ProtocolError(what)) | CallError::Unreadable { what, .. }) => {
            Err(ClientError::Protocol { peer: T::PEER, what })
        }
        Err(CallError::Refused(e)) => Err(ClientError::Refused(e)),
        Err(CallError::Unsent(e)) => Err(e),
    }
}

/// Whether two paths lead to the same directory. A path that leads nowhere is another home.
fn is_same(theirs: &Path, ours: &Path) -> bool {
    let file = |path| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    matches!((file(theirs), file(ours)), (Ok(theirs), Ok(ours)) if theirs == ours)
}

async fn connect(home: &Path, peer: Peer) -> Result<Option<UnixStream>, ClientError> {
    let path = match std::fs::read_link(home.join("run")) {
        // A relative link is relative to the home.
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
        // No program listens, or the listener was killed during the connect.
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
        // The queue of the socket is full. A blocking connect waits for its turn.
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

/// Refuses a listener that is neither this user nor root: it would see every command and every secret.
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
    fn a_strangers_engine_is_refused() {
        let path = Path::new("/run/x/engine");
        assert!(trust(Peer::Engine, path, 1000, 1000).is_ok());
        assert!(trust(Peer::Engine, path, 0, 1000).is_ok());
        let refused = trust(Peer::Engine, path, 1001, 1000).unwrap_err();
        assert!(refused.to_string().contains("served by user 1001"), "{refused}");
        assert!(refused.hint().contains("OUTLAST_HOME"));
    }
}
