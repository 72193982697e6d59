//! The engine as a program: its socket, its signals, its end.

use crate::clients::ClientKind;
use crate::closing::Closing;
use crate::config::Config;
use crate::engine::{Engine, ServeError};
use crate::limits::Inherited;
use crate::mutex::lock;
use crate::os::Watch;
use crate::run_dir;
use crate::serve::connection;
use outlast_core::Owner;
use outlast_store::dir::FileId;
use outlast_wire::socket;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// How many threads run tasks.
const WORKERS: usize = 2;
/// How many threads wait for disks. With the main thread, the index's writer and one that helps with long lists that makes eight.
const BLOCKING: usize = 3;

/// How often the engine checks whether its socket is still at the path where clients look for it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Serves a home until a client stops the engine, or it is idle. `beside` may start tasks that end with the engine and connect by
/// [`Engine::connect_within`]. `ready` is called once clients can connect.
///
/// If another engine serves the home, this returns [`ServeError::Taken`], and there is nothing to do.
pub fn serve(mut config: Config, beside: impl FnOnce(&Engine), ready: impl FnOnce()) -> Result<(), ServeError> {
    if config.detach {
        crate::os::leave_session();
        config.inherited = Some(Inherited::leave_behind());
    }
    crate::os::private_umask();
    if let Some(points) = &config.test_points {
        outlast_store::points::configure(points.clone());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_name("engine")
        .enable_all()
        .build()
        .map_err(ServeError::io("start threads"))?;
    let served = runtime.block_on(run(config, beside, ready));
    // A read that hangs on a disk must not keep the program running.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

async fn run(config: Config, beside: impl FnOnce(&Engine), ready: impl FnOnce()) -> Result<(), ServeError> {
    // A handler, not SIG_IGN: ignored signals stay ignored in every program that the engine starts.
    let on = |kind| signal(kind).map_err(ServeError::io("take signals"));
    let (mut hangup, mut terminate, mut interrupt) =
        (on(SignalKind::hangup())?, on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    // If there is a limit on file sizes, a write beyond it fails instead of ending the engine.
    let _too_long = on(SignalKind::from_raw(libc::SIGXFSZ))?;
    let engine = Engine::start(config).await?;
    beside(&engine);
    let door = EngineSocket::open(&engine.run_dir())?;
    *lock(&engine.listening) = true;
    ready();
    let mut attended = std::pin::pin!(attend(&engine, door));
    loop {
        tokio::select! {
            biased;
            () = &mut attended => break,
            _ = terminate.recv() => engine.parts.table.begin_stop(Owner::default()).await,
            _ = interrupt.recv() => engine.parts.table.begin_stop(Owner::default()).await,
            _ = hangup.recv() => {}
        }
    }
    // From here on no client can connect. Connected clients are served until everything is written.
    engine.stopped().await;
    if engine.parts.own_home.is_lost() {
        return Err(ServeError::HomeGone { home: engine.home().to_owned() });
    }
    Ok(())
}

impl Engine {
    /// Listens for other programs of the same user, such as the command line, and returns once they can connect. Ends with the engine.
    ///
    /// For an engine that was started with [`Engine::start`]; [`serve`] listens by itself. A second call does nothing. Without this, an
    /// outside client gets the error that an engine holds the home and does not listen.
    pub async fn listen(&self) -> Result<(), ServeError> {
        let door = {
            // Held until the socket listens, so that a second call does not return before.
            let mut listening = lock(&self.listening);
            if *listening {
                return Ok(());
            }
            let door = EngineSocket::open(&self.run_dir())?;
            *listening = true;
            door
        };
        let engine = self.clone();
        tokio::spawn(async move { attend(&engine, door).await });
        Ok(())
    }
}

/// Accepts clients until the engine begins to end, and closes the socket then.
async fn attend(engine: &Engine, mut door: EngineSocket) {
    let mut stopping = std::pin::pin!(engine.parts.closing.reached(Closing::Stopping));
    loop {
        tokio::select! {
            biased;
            () = &mut stopping => break,
            // Another engine may listen there, which serves another directory at the home's path. This engine leaves the socket to it.
            () = door.lost() => match engine.parts.own_home.is_lost() {
                true => break,
                false => door = open_again(engine, door).await,
            },
            accepted = door.listener.accept() => match accepted {
                Ok((stream, _)) => greet(engine, stream),
                Err(error) => hold_off(&error).await,
            },
        }
    }
    door.close();
}

/// Serves a client of the same user. Other users cannot reach the socket; this is the second check.
fn greet(engine: &Engine, stream: UnixStream) {
    if engine.parts.own_home.is_lost() {
        // Closed without an answer: the client takes this for a missing engine, and starts one for the directory that is there now.
        return;
    }
    let us = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == us || peer.uid() == 0 => {
            let parts = Arc::clone(&engine.parts);
            match stream.into_std().and_then(socket::halves) {
                Ok(halves) => drop(tokio::spawn(connection(parts, halves, ClientKind::Outside))),
                Err(error) => tracing::warn!(%error, "a client cannot be served"),
            }
        }
        Ok(peer) => tracing::warn!(uid = peer.uid(), "refused a client of another user"),
        Err(error) => tracing::warn!(%error, "the user of a client is unknown"),
    }
}

/// After an error that stays for a while (no descriptors left), waits instead of asking again at once.
async fn hold_off(error: &io::Error) {
    tracing::error!(%error, "cannot accept a connection");
    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)) {
        // Nothing reports when a descriptor is free again.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The engine's socket.
struct EngineSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The identity of the socket's file, so that another file in its place is recognised.
    file: FileId,
    watch: Option<Watch>,
}

impl EngineSocket {
    /// Listens in `dir`, in place of the engine that listened there before. The caller holds the home's lock.
    fn open(dir: &Path) -> Result<Self, ServeError> {
        let path = dir.join(run_dir::ENGINE);
        let failed = || format!("listen at {}", path.display());
        let listener = bind(&path).map_err(ServeError::io(failed()))?;
        // Looked at only after the watch is set up, so that no loss is missed. If it cannot be watched, the socket is only checked at
        // intervals.
        let watch = Watch::for_loss(&path).map_err(|error| tracing::warn!(%error, "the socket is not watched")).ok();
        let file = FileId::at(&path).map_err(ServeError::io(failed()))?;
        Ok(Self { listener, path, file, watch })
    }

    /// Returns when clients cannot find the socket any more.
    async fn lost(&self) {
        while self.is_there() {
            tokio::select! {
                true = crate::os::changed(self.watch.as_ref()) => {}
                // Nothing reports that a parent directory was moved, or its file system detached.
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn is_there(&self) -> bool {
        FileId::at(&self.path).ok() == Some(self.file)
    }

    fn close(self) {
        if self.is_there()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "the socket was gone");
        }
    }
}

/// The socket or its directory was removed: listens again, elsewhere if needed.
async fn open_again(engine: &Engine, lost: EngineSocket) -> EngineSocket {
    tracing::warn!(path = %lost.path.display(), "the socket is gone");
    loop {
        let opened = match engine.parts.sockets.find_dir() {
            Ok(dir) => EngineSocket::open(&dir),
            Err(error) => Err(error.into()),
        };
        match opened {
            Ok(door) => return door,
            Err(error) => tracing::error!(%error, "no client can connect"),
        }
        if engine.parts.own_home.is_lost() {
            return lost;
        }
        // Nothing reports that a directory is usable again.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let new = path.with_extension(std::process::id().to_string());
    match std::fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&new)?;
    std::fs::rename(&new, path)?;
    Ok(listener)
}
