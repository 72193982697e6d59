//! `ssh:HOST`: another machine, by the system's `ssh` and the user's configuration as it is. Host keys are checked as that says; a question
//! that only a person could answer is a failure.
//!
//! One connection carries everything (`ControlMaster`), so that another stream costs no new login.

use crate::local::spawn;
use crate::transport::{Opened, Transport, Working};
use crate::{KeeperFile, TransportError};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// How long one command on the other machine may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(40);
/// How long a master that is told to exit may take.
const EXIT_LIMIT: Duration = Duration::from_secs(3);
/// What the answer of the other machine begins with. A login shell may write something before it.
const MARK: &str = "outlast-sandbox-1 ";

/// A machine that is reached by `ssh`.
#[derive(Debug)]
pub(crate) struct Ssh {
    host: String,
    keeper: KeeperFile,
    /// The socket of the shared connection.
    control: PathBuf,
    /// The name of this home's directory there.
    key: String,
}

/// What the other machine says of itself.
struct RemotePlace {
    dir: PathBuf,
    has_program: bool,
}

impl Ssh {
    pub(crate) fn new(host: &str, keeper: KeeperFile, dir: &Path, run_dir: &Path) -> Result<Self, TransportError> {
        let key = key(dir).map_err(|e| TransportError::unavailable(format!("cannot keep the key of {host} in {}: {e}", dir.display())))?;
        let control = run_dir.join(format!("s{}", &key[..8]));
        Ok(Self { host: host.to_owned(), keeper, control, key })
    }

    fn command(&self, remote: &str) -> Command {
        let mut command = Command::new("ssh");
        let control = |name: &str| {
            let mut option = OsString::from(name);
            option.push(&self.control);
            option
        };
        command.args([
            "-T",
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=10",
            "-o",
            "ServerAliveInterval=15",
            "-o",
            "ServerAliveCountMax=3",
        ]);
        command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=30", "-o"]).arg(control("ControlPath="));
        command.arg("--").arg(&self.host).arg(remote).kill_on_drop(true);
        command
    }

    /// Runs a command there, and returns its output.
    async fn run(&self, remote: &str, input: Option<&[u8]>) -> Result<String, TransportError> {
        let mut command = self.command(remote);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                TransportError::refused("ssh is not installed", "install it (Debian: apt-get install openssh-client)")
            }
            _ => TransportError::unavailable(format!("cannot start ssh: {e}")),
        })?;
        let mut to = child.stdin.take();
        let send = async {
            if let (Some(to), Some(input)) = (&mut to, input) {
                // What went wrong is in the answer.
                let _broken = to.write_all(input).await;
            }
            drop(to.take());
        };
        let both = async { tokio::join!(send, child.wait_with_output()).1 };
        let done = tokio::time::timeout(COMMAND_LIMIT, both).await;
        let done =
            done.map_err(|_| TransportError::unavailable(format!("{} did not answer within {} s", self.host, COMMAND_LIMIT.as_secs())))?;
        let done = done.map_err(|e| TransportError::unavailable(format!("cannot wait for ssh: {e}")))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(failure(&self.host, said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ").as_str()))
    }

    async fn look(&self) -> Result<RemotePlace, TransportError> {
        let name = self.keeper.name();
        let script = format!(
            "umask 077; d=\"${{XDG_DATA_HOME:-$HOME/.local/share}}/outlast-sandbox\"; mkdir -p \"$d/bin\" \"$d/homes\" || exit 1; \
             if [ -x \"$d/bin/{name}\" ]; then p=there; else p=missing; fi; printf '{MARK}%s %s %s\\n' \"$(uname -m)\" \"$p\" \"$d\""
        );
        let said = self.run(&posix(&script), None).await?;
        let answer = said.lines().rev().find_map(|line| line.split_once(MARK)).map(|(_, answer)| answer.to_owned());
        let parts = answer.as_deref().map(|answer| answer.splitn(3, ' ').collect::<Vec<_>>());
        let Some([arch, program, dir]) = parts.as_deref() else {
            return Err(TransportError::unavailable(format!("{} answered something else than expected", self.host)));
        };
        if *arch != std::env::consts::ARCH {
            let what = format!("{} is a machine of architecture {arch}, and this keeper is for {}", self.host, std::env::consts::ARCH);
            return Err(TransportError::refused(what, "use a machine of the same architecture"));
        }
        Ok(RemotePlace { dir: PathBuf::from(dir), has_program: *program == "there" })
    }

    /// Puts the keeper there. It gets its name only once its bytes were checked.
    async fn push(&self) -> Result<(), TransportError> {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(self.keeper.path()).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|e| TransportError::unavailable(format!("cannot read {}: {e}", self.keeper.path().display())))?;
        let (name, hash) = (self.keeper.name(), self.keeper.hash());
        let script = format!(
            "umask 077; cd \"${{XDG_DATA_HOME:-$HOME/.local/share}}/outlast-sandbox/bin\" || exit 1; cat > new.$$ || exit 1; \
             s=$(sha256sum < new.$$ | cut -d ' ' -f 1); if [ \"$s\" != {hash} ]; then rm -f new.$$; echo 'the keeper arrived damaged' >&2; exit 1; fi; \
             chmod 700 new.$$ && mv new.$$ {name}"
        );
        self.run(&posix(&script), Some(&bytes)).await.map(|_| ())
    }
}

impl Transport for Ssh {
    fn ensure(&self) -> Working<'_, PathBuf> {
        Box::pin(async {
            let place = self.look().await?;
            if !place.has_program {
                self.push().await?;
            }
            Ok(place.dir)
        })
    }

    fn open<'a>(&'a self, dir: &'a Path) -> Working<'a, Opened> {
        Box::pin(async move {
            let (program, home) = (dir.join("bin").join(self.keeper.name()), dir.join("homes").join(&self.key));
            spawn(self.command(&format!("exec {} connect --home {}", quoted(&program), quoted(&home))))
        })
    }

    fn lost(&self) -> Working<'_, ()> {
        Box::pin(async {
            // A shared connection may hang, and every stream on it would.
            let mut command = Command::new("ssh");
            let mut option = OsString::from("ControlPath=");
            option.push(&self.control);
            command.args(["-O", "exit", "-o"]).arg(option).arg("--").arg(&self.host);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            if let Ok(mut child) = command.spawn() {
                let _exited = tokio::time::timeout(EXIT_LIMIT, child.wait()).await;
            }
            // A master that does not answer keeps its old connection, and is not found by the next stream.
            let _gone = std::fs::remove_file(&self.control);
            Ok(())
        })
    }
}

/// Why `ssh` failed, from its last words. Whatever is not known to need a person is tried again.
fn failure(host: &str, said: &str) -> TransportError {
    let needs_person = [
        ("Host key verification failed", "the host key is unknown or has changed: connect once by hand with `ssh`, and check it"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key has changed: find out why before you accept it"),
        ("Permission denied", "set up a key that needs no question, or an agent"),
        ("Could not resolve hostname", "check the name, or add it to ~/.ssh/config"),
        ("Bad configuration option", "check ~/.ssh/config"),
        ("No space left on device", "make room there"),
    ];
    let said = if said.is_empty() { format!("ssh to {host} failed and said nothing") } else { said.to_owned() };
    match needs_person.iter().find(|(words, _)| said.contains(words)) {
        Some((_, hint)) => TransportError::refused(said, *hint),
        None => TransportError::unavailable(said),
    }
}

/// The user's shell there may be any; what follows is for a POSIX shell.
fn posix(script: &str) -> String {
    format!("exec sh -c {}", quoted(Path::new(script)))
}

/// A text that every shell takes as one word.
fn quoted(text: &Path) -> String {
    format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"))
}

/// The name of this home's directory on the other machine: random, and kept here.
fn key(dir: &Path) -> std::io::Result<String> {
    let file = dir.join("key");
    if let Ok(key) = std::fs::read_to_string(&file)
        && key.len() == 32
        && key.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return Ok(key);
    }
    let mut random = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let key: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let new = dir.join("key.new");
    let mut out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    std::io::Write::write_all(&mut out, key.as_bytes())?;
    out.sync_all()?;
    std::fs::rename(new, file)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportFailure;

    #[test]
    fn what_only_a_person_can_mend_is_not_tried_again() {
        for (said, wanted) in [
            ("ssh: connect to host x port 22: Connection refused", TransportFailure::Unavailable),
            ("Host key verification failed.", TransportFailure::Refused),
            ("me@x: Permission denied (publickey).", TransportFailure::Refused),
            ("", TransportFailure::Unavailable),
        ] {
            assert_eq!(failure("x", said).failure, wanted, "{said}");
        }
    }

    #[test]
    fn a_quoted_text_is_one_word() {
        assert_eq!(quoted(Path::new("a 'b' $c")), r"'a '\''b'\'' $c'");
    }
}
