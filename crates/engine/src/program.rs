//! The keeper's program: a copy that an upgrade does not replace, and how it is started.

use crate::bytes::hex;
use crate::config::{Config, KeeperProgram};
use crate::disk::blocking;
use crate::mutex::lock;
use outlast_store::dir::Home;
use outlast_store::meta::Image;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use tokio::process::Child;

/// A copy of the keeper in the home, named by its hash; or the installed program, if nothing in the home can be executed or the file size
/// limit forbids the copy.
#[derive(Debug, Clone)]
pub(crate) struct KeeperCopy {
    pub(crate) path: PathBuf,
    /// The arguments before the folder on its command line.
    pub(crate) first_argument: Option<&'static str>,
}

impl KeeperCopy {
    /// Copies the program, unless the same is there already, and removes the copies of earlier ones.
    pub(crate) fn make(home: &Home, program: &KeeperProgram) -> io::Result<Self> {
        if is_noexec(&home.bin()) {
            tracing::info!(home = %home.root.display(), "programs in the home cannot be executed (noexec): the installed keeper is used");
            return Ok(Self::installed(program));
        }
        let copy = match Self::find_or_make(home, program) {
            // The engine's starter has set a hard limit (`ulimit -f`). `engine status` names it.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                tracing::info!(%error, "the installed keeper is used");
                return Ok(Self::installed(program));
            }
            made => made?,
        };
        remove_others(home, &copy.path);
        Ok(copy)
    }

    /// The installed program. After an upgrade, the old engine starts keepers of the new version with it.
    pub(crate) fn installed(program: &KeeperProgram) -> Self {
        Self::at(program.path().to_owned(), program)
    }

    fn find_or_make(home: &Home, program: &KeeperProgram) -> io::Result<Self> {
        let from = program.path();
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("cannot copy the keeper {}: {e}", from.display()));
        let name = format!("outlast-keeper-{}", hash(from).map_err(failed)?);
        let path = home.bin().join(name);
        // The copy appears whole or not at all, so comparing its length is enough.
        if length(&path).is_ok_and(|there| length(from).is_ok_and(|wanted| there == wanted)) {
            return Ok(Self::at(path, program));
        }
        let new = home.bin().join(format!("new.{}", std::process::id()));
        let copied = copy(from, &new).and_then(|()| std::fs::rename(&new, &path));
        if let Err(e) = copied {
            // The next attempt overwrites a partial copy.
            let _ = std::fs::remove_file(&new);
            return Err(failed(e));
        }
        Ok(Self::at(path, program))
    }

    fn at(path: PathBuf, program: &KeeperProgram) -> Self {
        let first_argument = match program {
            KeeperProgram::Binary(_) => None,
            KeeperProgram::SelfAsKeeper(_) => Some("__keeper"),
        };
        Self { path, first_argument }
    }
}

/// Starts the keeper's program.
#[derive(Debug)]
pub(crate) struct KeeperStarter {
    home: Home,
    program: KeeperProgram,
    env: Vec<(OsString, OsString)>,
    test_points: Option<PathBuf>,
    /// Whether this process's standard error is the engine's log.
    stderr_is_log: bool,
    copy: Mutex<KeeperCopy>,
}

impl KeeperStarter {
    pub(crate) fn new(home: &Home, config: &Config) -> io::Result<Self> {
        Ok(Self {
            home: home.clone(),
            program: config.keeper.clone(),
            env: config.keeper_env.clone(),
            test_points: config.test_points.clone(),
            stderr_is_log: config.detach,
            copy: Mutex::new(KeeperCopy::make(home, &config.keeper)?),
        })
    }

    /// The program that is started now.
    pub(crate) fn copy(&self) -> KeeperCopy {
        lock(&self.copy).clone()
    }

    /// Starts the program for this folder, with `stdin` as its standard input and the live copy of `meta` as its standard output.
    pub(crate) async fn spawn(&self, folder: &Path, stdin: OwnedFd, image: Option<&Image>) -> io::Result<Child> {
        match self.spawn_copy(folder, stdin.try_clone()?, image) {
            // The file is being written, or was removed.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETXTBSY | libc::ENOENT | libc::EACCES)) => {
                self.copy_again().await?;
                match self.spawn_copy(folder, stdin.try_clone()?, image) {
                    // Execution is forbidden, not only by the mode. The home may be on a noexec mount by now, or a policy trusts installed
                    // programs only.
                    Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
                        *lock(&self.copy) = KeeperCopy::installed(&self.program);
                        self.spawn_copy(folder, stdin, image)
                    }
                    spawned => spawned,
                }
            }
            spawned => spawned,
        }
    }

    fn spawn_copy(&self, folder: &Path, stdin: OwnedFd, image: Option<&Image>) -> io::Result<Child> {
        let stdout = image.map_or_else(|| Ok(Stdio::null()), |image| image.try_clone().map(Stdio::from))?;
        let KeeperCopy { path, first_argument } = self.copy();
        let mut command = tokio::process::Command::new(path);
        // Nothing runs between fork and exec, so that the child is made without copying our memory map.
        command.args(first_argument).arg(folder).env_clear().stdin(stdin).stdout(stdout).stderr(self.log());
        command.current_dir("/").envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(points) = &self.test_points {
            command.env("OUTLAST_TEST_POINTS", points);
        }
        command.spawn()
    }

    async fn copy_again(&self) -> io::Result<()> {
        let (home, program) = (self.home.clone(), self.program.clone());
        let copy = blocking(move || KeeperCopy::make(&home, &program)).await??;
        *lock(&self.copy) = copy;
        Ok(())
    }

    /// The engine's log, as a keeper's standard error. A program that embeds the engine uses its own standard error for other things, and
    /// may wait until it is closed.
    fn log(&self) -> Stdio {
        if self.stderr_is_log {
            return Stdio::inherit();
        }
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(self.home.engine_log());
        log.map_or_else(|_| Stdio::null(), Stdio::from)
    }
}

/// Removes the copies of earlier programs. Keepers that run from one have it open, and never execute it again.
fn remove_others(home: &Home, kept: &Path) {
    let all = std::fs::read_dir(home.bin()).into_iter().flatten().flatten().map(|e| e.path());
    for other in all.filter(|p| p != kept) {
        if let Err(error) = std::fs::remove_file(&other) {
            tracing::warn!(path = %other.display(), %error, "cannot remove");
        }
    }
}

/// Whether a directory is on a noexec mount, as Docker's `--tmpfs` and /dev/shm are.
fn is_noexec(dir: &Path) -> bool {
    use rustix::fs::StatVfsMountFlags;
    rustix::fs::statvfs(dir).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

fn length(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&sum.finalize()[..8])),
            n => sum.update(&buffer[..n]),
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(to)?;
    io::copy(&mut File::open(from)?, &mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_is_made_once_and_again_when_it_was_spoiled() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        let program = tmp.path().join("keeper");
        std::fs::write(&program, "one").unwrap();
        let keeper = KeeperProgram::Binary(program.clone());
        let first = KeeperCopy::make(&home, &keeper).unwrap().path;
        let inode = std::fs::metadata(&first).unwrap().ino();
        assert_eq!(std::fs::metadata(KeeperCopy::make(&home, &keeper).unwrap().path).unwrap().ino(), inode);
        std::fs::write(&first, "torn").unwrap();
        assert_eq!(std::fs::read(KeeperCopy::make(&home, &keeper).unwrap().path).unwrap(), b"one");
        std::fs::write(&program, "two").unwrap();
        let running = File::open(&first).unwrap();
        assert_ne!(KeeperCopy::make(&home, &keeper).unwrap().path, first, "an upgrade does not change the old one");
        assert!(!first.exists() && running.metadata().unwrap().len() == 3, "who runs it keeps it");
    }
}
