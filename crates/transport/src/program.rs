//! The keeper's program as a file to be put into a sandbox.

use crate::TransportError;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The keeper's program on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperFile {
    path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal.
    hash: String,
}

impl KeeperFile {
    /// The program at this path.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), hash: hash(path)? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// SHA-256 of its bytes, in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its name in a sandbox: another program has another name.
    pub fn name(&self) -> String {
        format!("outlast-keeper-{}", &self.hash[..16])
    }

    /// Copies it to a directory of a sandbox that is reachable as a path. The copy appears whole and checked, or not at all.
    pub(crate) fn copy_to(&self, dir: &Path) -> Result<PathBuf, TransportError> {
        let failed = |e: io::Error| TransportError::unavailable(format!("cannot copy the keeper to {}: {e}", dir.display()));
        let path = dir.join(self.name());
        if hash(&path).is_ok_and(|there| there == self.hash) {
            return Ok(path);
        }
        std::fs::create_dir_all(dir).map_err(failed)?;
        let new = dir.join(format!("new.{}", std::process::id()));
        let copied = (|| {
            let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&new)?;
            io::copy(&mut File::open(&self.path)?, &mut out)?;
            out.flush()?;
            if hash(&new)? != self.hash {
                return Err(io::Error::other("the copy differs from the program"));
            }
            std::fs::rename(&new, &path)
        })();
        copied.map_err(|e| {
            let _partial = std::fs::remove_file(&new);
            failed(e)
        })?;
        Ok(path)
    }
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(&sum.finalize())),
            n => sum.update(&piece[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
