//! `local:DIR`: no sandbox at all, but a home of its own in `DIR`. For tests, and to try what a sandbox does.

use crate::transport::{Opened, Transport, Working};
use crate::{KeeperFile, TransportError};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// `connect` as a child on this machine.
#[derive(Debug)]
pub(crate) struct Local {
    dir: PathBuf,
    keeper: KeeperFile,
}

impl Local {
    pub(crate) fn new(dir: PathBuf, keeper: KeeperFile) -> Self {
        Self { dir, keeper }
    }
}

impl Transport for Local {
    fn ensure(&self) -> Working<'_, PathBuf> {
        Box::pin(async {
            if !self.dir.is_dir() {
                return Err(TransportError::unavailable(format!("there is no directory {}", self.dir.display())));
            }
            self.keeper.copy_to(&self.dir.join("bin"))
        })
    }

    fn open<'a>(&'a self, program: &'a Path) -> Working<'a, Opened> {
        Box::pin(async move {
            let mut command = tokio::process::Command::new(program);
            command.arg("connect").arg("--home").arg(self.dir.join("home"));
            spawn(command)
        })
    }
}

/// Runs a program whose standard streams are the stream.
pub(crate) fn spawn(mut command: tokio::process::Command) -> Result<Opened, TransportError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|e| TransportError::unavailable(format!("cannot start {name}: {e}")))?;
    let (Some(to), Some(from), Some(words)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(TransportError::unavailable(format!("{name} was started without its standard streams")));
    };
    let why = Box::pin(async move {
        let words = last_words(words).await;
        let status = child.wait().await.map_err(|e| TransportError::unavailable(format!("cannot wait for {name}: {e}")))?;
        let ended = if status.success() { String::new() } else { format!(" ({status})") };
        Ok(if words.is_empty() { format!("{name} ended{ended}") } else { format!("{words}{ended}") })
    });
    Ok(Opened { from: Box::new(from), to: Box::new(to), why: Some(why) })
}

/// The last line of an error stream, and all of it if it is short.
async fn last_words(mut words: impl tokio::io::AsyncRead + Unpin) -> String {
    use tokio::io::AsyncReadExt;
    const KEPT: usize = 2 << 10;
    let (mut kept, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(n) = words.read(&mut piece).await {
        if n == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..n]);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    let text = String::from_utf8_lossy(&kept);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
