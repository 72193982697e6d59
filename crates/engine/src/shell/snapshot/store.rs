//! Snapshots on disk: a description in JSON and a file for bash, both of mode 0600.
//!
//! Two files for each user, home and shell: `KEY.json` has the variables and the stamps of the files that the snapshot depends on,
//! `KEY.bash` defines functions and aliases. The second is written first and its hash is in the first, so that a crash between them, or an
//! edit, makes the pair invalid and not wrong.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bytes::{hex, random_hex};

use super::dump::LoginAnswer;
use super::{SnapshotRequest, TakeFailure, Taken};

/// The snapshot of a request, or the failure to take one.
pub(super) struct SnapshotEntry {
    pub(super) tried_at: u64,
    pub(super) files: BTreeMap<PathBuf, Option<Stamp>>,
    pub(super) outcome: LoginOutcome,
    /// The stamp of the file for bash, if there is one.
    pub(super) file_stamp: Option<Stamp>,
}

pub(super) enum LoginOutcome {
    Ready(Arc<Taken>),
    Failed(TakeFailure),
}

/// Identifies a state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i64,
    // Also differs for a copy with the modification time of the original.
    changed_ns: i64,
}

/// The stamp of a file. None if there is no file, or it cannot be examined.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    Some(Stamp {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified_ns: nanos(meta.mtime(), meta.mtime_nsec()),
        changed_ns: nanos(meta.ctime(), meta.ctime_nsec()),
    })
}

/// The files that every login bash looks for, existing or not. A directory stands for the list of its files.
pub(super) fn usual_files(home: &Path) -> BTreeMap<PathBuf, Option<Stamp>> {
    const SYSTEM: [&str; 4] = ["/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc"];
    const OWN: [&str; 4] = [".bash_profile", ".bash_login", ".profile", ".bashrc"];
    let scripts = fs::read_dir("/etc/profile.d").into_iter().flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        (path.extension()? == "sh").then_some(path)
    });
    SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain(scripts)
        .chain(OWN.iter().map(|name| home.join(name)))
        .map(|path| {
            let stamp = stamp(&path);
            (path, stamp)
        })
        .collect()
}

/// The name under which a request's snapshot is kept.
pub(super) fn key(request: &SnapshotRequest<'_>) -> String {
    let mut hash = Sha256::new();
    let parts = [request.user.as_bytes(), request.home.as_os_str().as_bytes(), request.shell.path.as_os_str().as_bytes()];
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hex(&hash.finalize()[..8])
}

/// Loads a snapshot. None if anything is not as it was written: then it is taken again.
pub(super) fn load(request: &SnapshotRequest<'_>) -> Option<SnapshotEntry> {
    let text = fs::read(request.dir.join(key(request) + ".json")).ok()?;
    let kept: v1::Description = serde_json::from_slice(&text).ok()?;
    let of_this = kept.version == v1::VERSION
        && kept.user == request.user
        && kept.home.as_bytes() == request.home.as_os_str().as_bytes()
        && kept.shell.as_bytes() == request.shell.path.as_os_str().as_bytes();
    if !of_this {
        return None;
    }
    let file = request.dir.join(key(request) + ".bash");
    let (outcome, file_stamp) = match kept.outcome {
        v1::SavedOutcome::Ready { exports, path, functions, aliases, sha256 } => {
            // The stamp is taken before the file is read, so that a later change is noticed.
            let file_stamp = stamp(&file);
            if hex(&Sha256::digest(fs::read(&file).ok()?)) != sha256 {
                return None;
            }
            let exports = exports.into_iter().map(|(name, value)| (name.bytes(), value.bytes())).collect();
            let path = path.map(|path| path.bytes());
            (LoginOutcome::Ready(Arc::new(Taken { exports, path, functions, aliases, file })), file_stamp)
        }
        v1::SavedOutcome::Failed(failure) => (LoginOutcome::Failed(failure.into()), None),
    };
    let files = kept.files.into_iter().map(|(path, stamp)| (path.path(), stamp)).collect();
    Some(SnapshotEntry { tried_at: kept.tried_at, files, outcome, file_stamp })
}

/// Saves a snapshot.
pub(super) fn keep(
    request: &SnapshotRequest<'_>,
    answer: LoginAnswer,
    files: &BTreeMap<PathBuf, Option<Stamp>>,
    tried_at: u64,
) -> Result<SnapshotEntry, TakeFailure> {
    let text = bash_file(&answer);
    let file = request.dir.join(key(request) + ".bash");
    let (functions, aliases) = (answer.functions.len(), answer.aliases.len());
    let outcome = v1::SavedOutcome::Ready {
        exports: answer.exports.iter().map(|(name, value)| (v1::Bytes::from(&name[..]), v1::Bytes::from(&value[..]))).collect(),
        path: answer.path.as_deref().map(v1::Bytes::from),
        functions,
        aliases,
        sha256: hex(&Sha256::digest(&text)),
    };
    let kept = v1::Description::new(request, files, tried_at, outcome);
    make_dir(request.dir)?;
    write(&file, &text)?;
    write(&request.dir.join(key(request) + ".json"), &json(&kept))?;
    let taken = Taken { exports: answer.exports, path: answer.path, functions, aliases, file };
    Ok(SnapshotEntry { tried_at, files: files.clone(), file_stamp: stamp(&taken.file), outcome: LoginOutcome::Ready(Arc::new(taken)) })
}

/// Saves a failure. If that fails too, this engine at least keeps it in memory.
pub(super) fn keep_failure(
    request: &SnapshotRequest<'_>,
    failure: TakeFailure,
    files: &BTreeMap<PathBuf, Option<Stamp>>,
    tried_at: u64,
) -> SnapshotEntry {
    let outcome = v1::SavedOutcome::Failed(v1::Failure::from(&failure));
    let kept = v1::Description::new(request, files, tried_at, outcome);
    let written = make_dir(request.dir).and_then(|()| write(&request.dir.join(key(request) + ".json"), &json(&kept)));
    if let Err(error) = written {
        tracing::warn!(%error, "the failed login snapshot is remembered in memory only");
    }
    SnapshotEntry { tried_at, files: files.clone(), outcome: LoginOutcome::Failed(failure), file_stamp: None }
}

/// A file that bash reads before a command, because BASH_ENV names it.
///
/// It first restores BASH_ENV, so that neither the command nor a bash below it reads this file again. Each definition stands alone in
/// quotes: one that this bash cannot parse is skipped, and the command runs. Aliases come after functions, whose texts have them expanded
/// already. They are switched on last, after the caller's own BASH_ENV file, which was not written for them.
fn bash_file(answer: &LoginAnswer) -> Vec<u8> {
    let mut text = br#"# What login files define. Written by outlast; changes here are lost.
if [[ -n ${_OUTLAST_BASH_ENV+x} ]]; then
  builtin export BASH_ENV="$_OUTLAST_BASH_ENV"
else
  builtin unset -v BASH_ENV
fi
builtin unset -v _OUTLAST_BASH_ENV
builtin set +e +u
{
"#
    .to_vec();
    if answer.extglob {
        text.extend(b"builtin shopt -s extglob\n");
    }
    for (_, definition) in &answer.functions {
        text.extend(b"builtin eval ");
        quote(&mut text, definition);
        text.extend(b" || :\n");
    }
    for (name, value) in &answer.aliases {
        text.extend(b"builtin alias -- ");
        quote(&mut text, &[name, b"=".as_slice(), value].concat());
        text.extend(b" || :\n");
    }
    text.extend(
        br#":
} 2>/dev/null
if [[ -n ${BASH_ENV-} ]]; then
  builtin eval "_OUTLAST_BASH_ENV=\"$BASH_ENV\"" 2>/dev/null || _OUTLAST_BASH_ENV=
  case $_OUTLAST_BASH_ENV in (/*) ;; (?*) _OUTLAST_BASH_ENV=./$_OUTLAST_BASH_ENV ;; esac
  if [[ -f $_OUTLAST_BASH_ENV && -r $_OUTLAST_BASH_ENV ]]; then
    builtin . "$_OUTLAST_BASH_ENV"
  fi
  builtin unset -v _OUTLAST_BASH_ENV
fi
builtin shopt -s expand_aliases
"#,
    );
    text
}

/// Appends a word in single quotes, in which bash expands nothing.
fn quote(text: &mut Vec<u8>, word: &[u8]) {
    text.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => text.extend(br"'\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
}

fn json(kept: &v1::Description) -> Vec<u8> {
    // It holds strings, numbers and lists only, which always serialise.
    serde_json::to_vec(kept).expect("a snapshot's description is plain data")
}

fn make_dir(dir: &Path) -> Result<(), TakeFailure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(not_kept(dir))
}

/// Replaces a file by a rename, so that a reader gets the old text or the new one.
fn write(path: &Path, text: &[u8]) -> Result<(), TakeFailure> {
    let write = || {
        let beside = path.with_extension(format!("{}.tmp", random_hex::<8>()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| file.write_all(text))
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The first error is reported.
            let _ = fs::remove_file(&beside);
        }
        written
    };
    sweep(path);
    write().map_err(not_kept(path))
}

/// Removes files that a killed engine left half written.
fn sweep(path: &Path) {
    const OLD: Duration = Duration::from_secs(600);
    let entries = path.parent().and_then(|dir| fs::read_dir(dir).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let is_ours = entry.path().extension().is_some_and(|extension| extension == "tmp");
        let age = entry.metadata().and_then(|meta| meta.modified()).map(|time| time.elapsed());
        if is_ours && matches!(age, Ok(Ok(age)) if age > OLD) {
            // The next sweep tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn not_kept(path: &Path) -> impl Fn(io::Error) -> TakeFailure {
    |error| TakeFailure::NotKept { path: path.to_owned(), detail: error.to_string() }
}

/// The description as it is on disk.
mod v1 {
    use super::*;

    pub(super) const VERSION: u32 = 1;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Description {
        pub(super) version: u32,
        pub(super) user: String,
        pub(super) home: Bytes,
        pub(super) shell: Bytes,
        pub(super) tried_at: u64,
        pub(super) files: Vec<(Bytes, Option<Stamp>)>,
        pub(super) outcome: SavedOutcome,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum SavedOutcome {
        Ready { exports: Vec<(Bytes, Bytes)>, path: Option<Bytes>, functions: usize, aliases: usize, sha256: String },
        Failed(Failure),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Failure {
        TimedOut { limit_ms: u64 },
        Ended { status: String },
        Unreadable { detail: String },
        NotRun { shell: Bytes, detail: String },
        NotKept { path: Bytes, detail: String },
    }

    /// Bytes, as text where they are text.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(super) enum Bytes {
        Text(String),
        Raw(Vec<u8>),
    }

    impl From<&[u8]> for Bytes {
        fn from(bytes: &[u8]) -> Bytes {
            match std::str::from_utf8(bytes) {
                Ok(text) => Bytes::Text(text.to_owned()),
                Err(_) => Bytes::Raw(bytes.to_vec()),
            }
        }
    }

    impl From<&Path> for Bytes {
        fn from(path: &Path) -> Bytes {
            Bytes::from(path.as_os_str().as_bytes())
        }
    }

    impl Bytes {
        pub(super) fn as_bytes(&self) -> &[u8] {
            match self {
                Bytes::Text(text) => text.as_bytes(),
                Bytes::Raw(bytes) => bytes,
            }
        }

        pub(super) fn bytes(self) -> Vec<u8> {
            match self {
                Bytes::Text(text) => text.into_bytes(),
                Bytes::Raw(bytes) => bytes,
            }
        }

        pub(super) fn path(self) -> PathBuf {
            std::ffi::OsString::from_vec(self.bytes()).into()
        }
    }

    impl Description {
        pub(super) fn new(
            request: &SnapshotRequest<'_>,
            files: &BTreeMap<PathBuf, Option<Stamp>>,
            tried_at: u64,
            outcome: SavedOutcome,
        ) -> Description {
            let files = files.iter().map(|(path, stamp)| (Bytes::from(path.as_path()), *stamp)).collect();
            Description {
                version: VERSION,
                user: request.user.to_owned(),
                home: request.home.into(),
                shell: request.shell.path.as_path().into(),
                tried_at,
                files,
                outcome,
            }
        }
    }

    impl From<&TakeFailure> for Failure {
        fn from(failure: &TakeFailure) -> Failure {
            match failure.clone() {
                TakeFailure::TimedOut { limit } => Failure::TimedOut { limit_ms: limit.as_millis().try_into().unwrap_or(u64::MAX) },
                TakeFailure::Ended { status } => Failure::Ended { status },
                TakeFailure::Unreadable { detail } => Failure::Unreadable { detail },
                TakeFailure::NotRun { shell, detail } => Failure::NotRun { shell: shell.as_path().into(), detail },
                TakeFailure::NotKept { path, detail } => Failure::NotKept { path: path.as_path().into(), detail },
            }
        }
    }

    impl From<Failure> for TakeFailure {
        fn from(failure: Failure) -> TakeFailure {
            match failure {
                Failure::TimedOut { limit_ms } => TakeFailure::TimedOut { limit: Duration::from_millis(limit_ms) },
                Failure::Ended { status } => TakeFailure::Ended { status },
                Failure::Unreadable { detail } => TakeFailure::Unreadable { detail },
                Failure::NotRun { shell, detail } => TakeFailure::NotRun { shell: shell.path(), detail },
                Failure::NotKept { path, detail } => TakeFailure::NotKept { path: path.path(), detail },
            }
        }
    }
}
