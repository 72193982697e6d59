//! Reading the conversations of a home whose gateway does not run. A gateway that is started for that would resume what a person has stopped.
//!
//! Decision 242: docs/decisions/gateway.md.

use crate::coordinator::{Live, Reading, not_found};
use crate::startup::StartError;
use crate::store::{SqliteStore, Store};
use crate::{RunError, lock};
use outlast_wire::v1::Error;
use outlast_wire::v1::chat::{Conversations, Part, Shown};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRequest {
    /// All conversations.
    List,
    /// A conversation with its turns in one generation, or in the current one.
    Show {
        /// Its key.
        key: String,
        /// The generation.
        generation: Option<u64>,
    },
    /// Every part of a conversation.
    Parts {
        /// Its key.
        key: String,
    },
}

/// What was read, or why not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAnswer {
    /// All conversations.
    List(Conversations),
    /// A conversation with its turns.
    Show(Box<Shown>),
    /// The parts of a conversation, oldest first.
    Parts(Vec<Part>),
    /// It is refused.
    Refused(Error),
    /// A gateway runs, or is being started: ask it.
    Taken,
}

/// Whether [`read`] would find that a gateway runs, or is being started. It costs two looks at locks, and no program.
///
/// # Errors
///
/// If the locks cannot be looked at.
pub fn is_taken(home: &Path) -> io::Result<bool> {
    Ok(lock::is_being_started(home)? || lock::is_held(home)?)
}

/// Reads from the files of a home whose gateway does not run, for a client that speaks for `session`. A gateway that starts meanwhile waits until this returns.
///
/// # Errors
///
/// If a gateway of this build could not be started with these files.
pub fn read(home: &Path, request: &ReadRequest, session: Option<&str>) -> Result<ReadAnswer, RunError> {
    let lock_file = home.join("gateway.lock");
    if lock::is_being_started(home).map_err(StartError::file("look at the locks in", home))? {
        return Ok(ReadAnswer::Taken);
    }
    let answer = match lock::look_at_lock(&lock_file) {
        Ok(Some(_held)) => read_files(home, request, session),
        Ok(None) => Ok(ReadAnswer::Taken),
        Err(error) => Err(StartError::file("look at", &lock_file)(error)),
    };
    answer.map_err(RunError::from)
}

fn read_files(home: &Path, request: &ReadRequest, session: Option<&str>) -> Result<ReadAnswer, StartError> {
    let path = home.join("gateway.db");
    if !path.try_exists().map_err(StartError::file("look at", &path))? {
        // It was never there, or a person has deleted it: either way there are no conversations.
        return Ok(match request {
            ReadRequest::List => ReadAnswer::List(Conversations::new(Vec::new())),
            ReadRequest::Show { key, .. } | ReadRequest::Parts { key } => ReadAnswer::Refused(not_found(key)),
        });
    }
    let mut store = SqliteStore::open_to_read(&path)?;
    let loaded = store.load()?;
    let chats: BTreeMap<String, Live> =
        loaded.conversations.into_iter().map(|(row, turns)| (row.key.clone(), Live::of_rows(row, turns))).collect();
    let reading = Reading { chats: &chats, store: &store };
    let answer = match request {
        ReadRequest::List => Ok(ReadAnswer::List(reading.list())),
        ReadRequest::Show { key, generation } => {
            reading.check_reader(session, key).and_then(|()| reading.shown(key, *generation)).map(|shown| ReadAnswer::Show(Box::new(shown)))
        }
        ReadRequest::Parts { key } => reading.check_reader(session, key).and_then(|()| reading.all_parts(key)).map(ReadAnswer::Parts),
    };
    Ok(answer.unwrap_or_else(ReadAnswer::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;

    /// Many readers, one after the other, kept a gateway from its lock until its client gave up.
    #[test]
    fn a_reader_lets_a_gateway_start_first() {
        let home = tempfile::tempdir().unwrap();
        drop(SqliteStore::open(&home.path().join("gateway.db")).unwrap());
        let read = || read(home.path(), &ReadRequest::List, None).unwrap();
        assert!(matches!(read(), ReadAnswer::List(_)), "no client has started a gateway");
        let start = File::create(home.path().join("gateway-start.lock")).unwrap();
        flock(&start, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(read(), ReadAnswer::Taken));
        flock(&start, FlockOperation::Unlock).unwrap();
        assert!(matches!(read(), ReadAnswer::List(_)));
    }
}
