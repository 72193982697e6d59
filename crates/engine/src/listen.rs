//! The engine as a program: its socket, its signals, its end.

use crate::config::Config;
use crate::engine::{Engine, ServeError};
use crate::shared::Closing;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// Threads that run tasks.
const WORKERS: usize = 2;
/// Threads that wait for disks. With the main one and the index's writer that makes eight.
const BLOCKING: usize = 4;

/// Serves a home until it is told to stop, or has nothing to do. `ready` is called once clients can connect.
///
/// That another engine serves the home is [`ServeError::Taken`]: nothing is wrong, and there is nothing to do.
pub fn serve(config: Config, ready: impl FnOnce()) -> Result<(), ServeError> {
    if config.detach {
        crate::os::leave_session();
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
    let served = runtime.block_on(run(config, ready));
    // A read of a disk that hangs must not keep us.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

async fn run(config: Config, ready: impl FnOnce()) -> Result<(), ServeError> {
    // A handler, not SIG_IGN: what is ignored stays ignored in every program that we start.
    let on = |kind| signal(kind).map_err(ServeError::io("take signals"));
    let (mut hangup, mut terminate, mut interrupt) =
        (on(SignalKind::hangup())?, on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    let engine = Engine::start(config).await?;
    let path = engine.run_dir().join("engine");
    let listener = bind(&path).map_err(ServeError::io(format!("listen at {}", path.display())))?;
    ready();
    let mut stopping = std::pin::pin!(engine.shared().closing(Closing::Stopping));
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => greet(&engine, stream),
                Err(error) => hold_off(&error).await,
            },
            _ = terminate.recv() => engine.begin_stop().await,
            _ = interrupt.recv() => engine.begin_stop().await,
            _ = hangup.recv() => {}
            () = &mut stopping => break,
        }
    }
    // From here on nobody finds us; who is connected is served until everything is written.
    drop(Gone(path));
    drop(listener);
    engine.stopped().await;
    Ok(())
}

/// Serves a client of ours. Nobody else can reach the socket; this is the second lock on the door.
fn greet(engine: &Engine, stream: UnixStream) {
    let us = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == us || peer.uid() == 0 => {
            let engine = engine.clone();
            tokio::spawn(async move { engine.accept(stream).await });
        }
        Ok(peer) => tracing::warn!(uid = peer.uid(), "a stranger was turned away"),
        Err(error) => tracing::warn!(%error, "whoever connected could not be told"),
    }
}

/// After an error that stays for a while (no descriptors left), waits instead of asking again at once.
async fn hold_off(error: &io::Error) {
    tracing::error!(%error, "cannot accept a connection");
    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)) {
        // Nothing tells when a descriptor is free again.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Listens at `path`, in place of whoever listened there before. The caller holds the home's lock.
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

/// Removes the socket.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "the socket was gone");
        }
    }
}
