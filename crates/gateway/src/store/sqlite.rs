//! The database of a gateway: an SQLite file.

mod rows;

use super::{ConversationRecord, Loaded, Store, StoreChange, StoreError, TurnRecord};
use crate::rules::breaker::RunStart;
use crate::rules::conversation::{Cause, TurnId};
use crate::rules::turn::Turn;
use outlast_core::Time;
use outlast_wire::v1::chat::{Content, GenerationInfo, Part};
use rows::{CONVERSATION, GENERATIONS, TURN, conversation_of, generation_of, of_json, part_of, signed, turn_of, write};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The layout this build writes. A newer one is refused.
const LAYOUT: i64 = 2;

/// Keeps the shared state of the log in memory, because only one gateway uses the file. By default SQLite maps a file for that, and on a full disk that copies
/// on write, a store to this mapping kills the program.
const VFS: &std::ffi::CStr = c"unix-excl";

/// How long a reader waits for another one: with [`VFS`], one at a time has the file.
const READER_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Parts are read until they have this many bytes: a reader may be slow, and what it has not taken is held in memory.
const MAX_PAGE_BYTES: usize = 1 << 20;

const SCHEMA: &str = "
CREATE TABLE conversation (
    key TEXT NOT NULL, generation INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE,          -- the generation's name in the engine
    started_at INTEGER NOT NULL, started_why TEXT NOT NULL, ended_at INTEGER,
    agent TEXT, agent_session TEXT, cwd TEXT, origin TEXT, owner TEXT, mode TEXT NOT NULL,
    strikes INTEGER NOT NULL, suspended_at INTEGER, last_message_at INTEGER,
    seen INTEGER, last_order TEXT,
    resumed_from INTEGER,               -- the earlier generation that a person continued with this one
    sent INTEGER, sending INTEGER, send_tries INTEGER,
    PRIMARY KEY (key, generation)
);
CREATE UNIQUE INDEX conversation_current ON conversation (key) WHERE ended_at IS NULL;
CREATE TABLE turn (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, generation INTEGER NOT NULL,
    cause TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, body TEXT NOT NULL,
    state TEXT NOT NULL, attempt INTEGER NOT NULL, starts INTEGER NOT NULL,
    head INTEGER NOT NULL, quotes INTEGER,
    interrupt_reason TEXT, interrupted_at INTEGER,
    outcome TEXT, why TEXT, unattended INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL, started_at INTEGER, finished_at INTEGER
);
CREATE UNIQUE INDEX turn_running ON turn (key) WHERE state = 'running' AND head = id;
CREATE INDEX turn_open ON turn (key) WHERE state <> 'finished';
CREATE INDEX turn_generation ON turn (key, generation, id);
CREATE INDEX turn_unattended ON turn (key, started_at) WHERE unattended = 1;
CREATE TABLE part (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, turn INTEGER, attempt INTEGER NOT NULL,
    kind TEXT NOT NULL, body TEXT NOT NULL, at INTEGER NOT NULL
);
CREATE INDEX part_key ON part (key, id);
CREATE INDEX part_turn ON part (turn, attempt, id);
CREATE TABLE run (
    id INTEGER PRIMARY KEY, started_at INTEGER NOT NULL, found_interrupted INTEGER NOT NULL, ended_at INTEGER, how TEXT
);
";

/// What the layout before this one lacks.
const FROM_1: &str = "ALTER TABLE conversation ADD COLUMN resumed_from INTEGER";

/// How much of the first message of a generation is shown.
const MAX_FIRST_WORDS_CHARS: i64 = 200;

pub(crate) struct SqliteStore {
    path: PathBuf,
    connection: Connection,
}

impl SqliteStore {
    /// Opens the file, or makes it. The caller holds the gateway's lock.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS))
    }

    /// Opens a file that exists, to read it. The caller shares the gateway's lock. An older layout is brought up to date.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, connect_to_read(path))
    }

    fn open_with(path: &Path, connected: rusqlite::Result<Connection>) -> Result<Self, StoreError> {
        let failed = |e: rusqlite::Error| failed(path, &e);
        let connection = connected.map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Without this, SQLite looks at values such as a limit when it plans, and plans again for each question.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let layout: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(failed)?;
        if layout > LAYOUT {
            return Err(StoreError::Newer { path: path.to_owned(), layout, known: LAYOUT });
        }
        let mut store = Self { path: path.to_owned(), connection };
        match layout {
            LAYOUT => {}
            1 => store.change(FROM_1).map_err(failed)?,
            _ => store.change(SCHEMA).map_err(failed)?,
        }
        Ok(store)
    }

    /// Reads every row of a file that exists, and names those that cannot be read. Changes nothing. The caller holds the gateway's lock.
    pub(crate) fn look(path: &Path) -> Result<Vec<String>, StoreError> {
        let failed = |e: rusqlite::Error| failed(path, &e);
        let connection = connect_to_read(path).map_err(failed)?;
        let layout: i64 = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(failed)?;
        if layout > LAYOUT {
            return Err(StoreError::Newer { path: path.to_owned(), layout, known: LAYOUT });
        }
        let store = Self { path: path.to_owned(), connection };
        let mut skipped = Vec::new();
        // An older one is brought up to date by the next gateway, which names what it cannot read.
        if layout == LAYOUT {
            store.ask(|_| {
                store.readable(
                    &format!("SELECT {CONVERSATION} ORDER BY key, generation"),
                    "conversations",
                    &mut skipped,
                    conversation_of,
                )?;
                store.readable(&format!("SELECT {TURN} ORDER BY t.id"), "turns", &mut skipped, turn_of)?;
                store.readable("SELECT id, body, turn, attempt, kind, at FROM part ORDER BY id", "parts", &mut skipped, |row| {
                    of_json::<serde_json::Value>(row, 1)
                })
            })?;
        }
        Ok(skipped)
    }

    fn change(&mut self, sql: &str) -> rusqlite::Result<()> {
        let all = self.connection.transaction()?;
        all.execute_batch(sql)?;
        all.pragma_update(None, "user_version", LAYOUT)?;
        all.commit()
    }

    fn ask<T>(&self, asked: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        asked(&self.connection).map_err(|e| failed(&self.path, &e))
    }

    /// The rows that can be read; of the others what is wrong with them.
    fn readable<T>(
        &self,
        sql: &str,
        what: &str,
        skipped: &mut Vec<String>,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            match read(row) {
                Ok(one) => all.push(one),
                Err(error) => {
                    let name = match row.get_ref(0)? {
                        ValueRef::Integer(number) => number.to_string(),
                        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                        other => format!("{other:?}"),
                    };
                    skipped.push(format!("a row of {what} cannot be read ({name}): {error}"));
                }
            }
        }
        Ok(all)
    }
}

/// Opens a file that exists. It is opened for writing, because the log of a gateway that was killed may have to be recovered first.
fn connect_to_read(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, VFS)?;
    connection.busy_timeout(READER_LIMIT)?;
    Ok(connection)
}

impl Store for SqliteStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let mut skipped = Vec::new();
        let (conversations, mut turns, last, mut unreadable) = self.ask(|db| {
            let current = format!("SELECT {CONVERSATION} WHERE ended_at IS NULL ORDER BY key");
            let conversations = self.readable(&current, "conversations", &mut skipped, conversation_of)?;
            let open = format!("SELECT {TURN} WHERE t.state <> 'finished' ORDER BY t.id");
            let turns = self.readable(&open, "turns", &mut skipped, turn_of)?;
            let max = |table: &str| db.query_row(&format!("SELECT COALESCE(MAX(id), 0) FROM {table}"), [], |r| r.get::<_, i64>(0));
            let mut keys = db.prepare("SELECT key FROM conversation WHERE ended_at IS NULL")?;
            let keys: BTreeSet<String> = keys.query_map([], |row| row.get(0))?.filter_map(Result::ok).collect();
            Ok((conversations, turns, (max("turn")?, max("part")?, max("run")?), keys))
        })?;
        let running = self.ask(|db| {
            let mut rows = db.prepare("SELECT id, key FROM turn WHERE state = 'running' AND head = id")?;
            let rows = rows.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            Ok(rows.filter_map(Result::ok).collect::<Vec<_>>())
        })?;
        let is_read = |id: i64| turns.iter().any(|turn| turn.id.0 == id);
        let stuck: BTreeSet<String> = running.into_iter().filter(|(id, _)| !is_read(*id)).map(|(_, key)| key).collect();
        let mut loaded = Loaded { last_turn: last.0, last_part: last.1.unsigned_abs(), last_run: last.2, ..Loaded::default() };
        for conversation in conversations {
            // Nothing could start in it: the database allows one running turn, and that one cannot be ended.
            if stuck.contains(&conversation.key) {
                continue;
            }
            unreadable.remove(&conversation.key);
            let (own, others) = turns.into_iter().partition(|turn| turn.key == conversation.key);
            turns = others;
            loaded.conversations.push((conversation, own));
        }
        skipped
            .extend(turns.iter().map(|turn| format!("turn {} belongs to the conversation {}, which cannot be read", turn.id.0, turn.key)));
        (loaded.skipped, loaded.unreadable) = (skipped, unreadable);
        Ok(loaded)
    }

    fn commit(&mut self, changes: &[StoreChange]) -> Result<(), StoreError> {
        let path = &self.path;
        let failed = |e: rusqlite::Error| failed(path, &e);
        let all = self.connection.transaction().map_err(failed)?;
        // Rows that stop running come first: at most one turn runs, also within the transaction.
        let is_last = |change: &&StoreChange| matches!(change, StoreChange::Turn(turn) if matches!(turn.turn, Turn::Running { .. }));
        for change in changes.iter().filter(|c| !is_last(c)).chain(changes.iter().filter(is_last)) {
            write(&all, change).map_err(failed)?;
        }
        all.commit().map_err(failed)
    }

    fn generation(&self, key: &str, number: u32) -> Result<Option<ConversationRecord>, StoreError> {
        let sql = format!("SELECT {CONVERSATION} WHERE key = ?1 AND generation = ?2");
        self.ask(|db| db.prepare_cached(&sql)?.query_row(params![key, number], conversation_of).optional())
    }

    fn generations(&self, key: &str, limit: usize) -> Result<Vec<GenerationInfo>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.ask(|db| {
            let mut statement = db.prepare_cached(GENERATIONS)?;
            let rows = statement.query_map(params![key, limit, MAX_FIRST_WORDS_CHARS], generation_of)?;
            // One that cannot be read is named when the gateway starts.
            let mut all: Vec<GenerationInfo> = rows.filter_map(Result::ok).collect();
            all.reverse();
            Ok(all)
        })
    }

    fn get_ready(&mut self) {
        if let Err(error) = outlast_store::lengthen_log(&self.path) {
            tracing::debug!(%error, "commits wait for the file system's journal, too");
        }
    }

    fn turn_of_cause(&self, cause: &Cause) -> Result<Option<TurnRecord>, StoreError> {
        let sql = format!("SELECT {TURN} WHERE t.cause = ?1");
        self.ask(|db| db.prepare_cached(&sql)?.query_row([cause.to_string()], turn_of).optional())
    }

    fn turn(&self, id: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        let sql = format!("SELECT {TURN} WHERE t.id = ?1");
        self.ask(|db| db.prepare_cached(&sql)?.query_row([id.0], turn_of).optional())
    }

    fn turns(&self, key: &str, generation: u32, limit: usize) -> Result<Vec<TurnRecord>, StoreError> {
        let sql = format!("SELECT {TURN} WHERE t.key = ?1 AND t.generation = ?2 ORDER BY t.id DESC LIMIT ?3");
        self.ask(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map(params![key, generation, i64::try_from(limit).unwrap_or(i64::MAX)], turn_of)?;
            // One that cannot be read is named when the gateway starts.
            let mut all: Vec<TurnRecord> = rows.filter_map(Result::ok).collect();
            all.reverse();
            Ok(all)
        })
    }

    fn turn_ids(&self, key: &str, generation: u32, limit: usize) -> Result<Vec<TurnId>, StoreError> {
        let sql = "SELECT id FROM turn WHERE key = ?1 AND generation = ?2 ORDER BY id DESC LIMIT ?3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.ask(|db| db.prepare_cached(sql)?.query_map(params![key, generation, limit], |r| r.get(0).map(TurnId))?.collect())
    }

    fn parts(&self, key: &str, after: u64, upto: u64, limit: usize) -> Result<Vec<Part>, StoreError> {
        let bounds = params![key, signed(after), signed(upto), i64::try_from(limit).unwrap_or(i64::MAX)];
        self.ask(|db| {
            let mut statement = db.prepare_cached(
                "SELECT id, turn, attempt, kind, body, at FROM part WHERE key = ?1 AND id > ?2 AND id <= ?3 ORDER BY id LIMIT ?4",
            )?;
            let mut rows = statement.query(bounds)?;
            let (mut all, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.next()? {
                bytes += row.get_ref(4)?.as_bytes().map_or(0, <[u8]>::len);
                all.push(part_of(row)?);
                if bytes > MAX_PAGE_BYTES {
                    break;
                }
            }
            Ok(all)
        })
    }

    fn part_before(&self, key: &str, after: u64, count: u32) -> Result<u64, StoreError> {
        let sql = "SELECT id FROM part WHERE key = ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3";
        let found: Option<i64> =
            self.ask(|db| db.prepare_cached(sql)?.query_row(params![key, signed(after), count], |r| r.get(0)).optional())?;
        Ok(found.map_or(0, i64::unsigned_abs))
    }

    fn last_part(&self, key: &str) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT MAX(id) FROM part WHERE key = ?1";
        self.ask(|db| db.prepare_cached(sql)?.query_row([key], |r| r.get::<_, Option<i64>>(0))).map(|id| id.map(i64::unsigned_abs))
    }

    fn texts(&self, turn: TurnId, attempt: u32) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id, turn, attempt, kind, body, at FROM part WHERE turn = ?1 AND attempt = ?2 AND kind = 'text' ORDER BY id";
        let parts: Vec<Part> = self.ask(|db| db.prepare_cached(sql)?.query_map(params![turn.0, attempt], part_of)?.collect())?;
        let text = |part: Part| match part.content() {
            Content::Text(body) => Some(body.text),
            _ => None,
        };
        Ok(parts.into_iter().filter_map(text).collect())
    }

    fn last_cut_attempt(&self, key: &str, generation: u32) -> Result<Option<(TurnId, u32)>, StoreError> {
        let sql = "SELECT id, attempt, COALESCE(outcome, '') FROM turn WHERE key = ?1 AND generation = ?2 AND attempt > 0 AND head = id \
                   AND state IN ('finished', 'interrupted') ORDER BY started_at DESC, id DESC LIMIT 1";
        let read = |r: &Row<'_>| Ok((TurnId(r.get(0)?), r.get(1)?, r.get::<_, String>(2)?));
        let last = self.ask(|db| db.prepare_cached(sql)?.query_row(params![key, generation], read).optional())?;
        Ok(last.filter(|(_, _, outcome)| outcome != "completed").map(|(id, attempt, _)| (id, attempt)))
    }

    fn calls(&self, turn: TurnId, attempt: u32) -> Result<Vec<Part>, StoreError> {
        let sql = "SELECT id, turn, attempt, kind, body, at FROM part WHERE turn = ?1 AND attempt = ?2 AND kind IN ('tool', 'permission') \
                   ORDER BY id";
        self.ask(|db| db.prepare_cached(sql)?.query_map(params![turn.0, attempt], part_of)?.collect())
    }

    fn unattended_starts(&self, key: &str, since: Time) -> Result<Vec<Time>, StoreError> {
        let sql = "SELECT started_at FROM turn WHERE key = ?1 AND unattended = 1 AND head = id AND started_at >= ?2";
        self.ask(|db| {
            let time = |r: &Row<'_>| r.get(0).map(Time::from_micros);
            db.prepare_cached(sql)?.query_map(params![key, since.micros()], time)?.collect()
        })
    }

    fn has_history(&self, key: &str, generation: u32) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM turn WHERE key = ?1 AND generation = ?2 AND state = 'finished' AND outcome = 'completed' LIMIT 1";
        self.ask(|db| db.prepare_cached(sql)?.exists(params![key, generation]))
    }

    fn last_end(&self) -> Result<Option<String>, StoreError> {
        self.ask(|db| db.query_row("SELECT how FROM run ORDER BY id DESC LIMIT 1", [], |r| r.get(0)).optional().map(Option::flatten))
    }

    fn last_runs(&self, limit: usize) -> Result<Vec<RunStart>, StoreError> {
        let sql = "SELECT started_at, found_interrupted FROM run ORDER BY id DESC LIMIT ?1";
        let read = |r: &Row<'_>| Ok(RunStart { at: Time::from_micros(r.get(0)?), has_found_interrupted: r.get(1)? });
        self.ask(|db| {
            let rows =
                db.prepare_cached(sql)?.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], read)?.collect::<rusqlite::Result<Vec<_>>>();
            rows.map(|mut all| {
                all.reverse();
                all
            })
        })
    }
}

fn failed(path: &Path, error: &rusqlite::Error) -> StoreError {
    StoreError::Failed { path: path.to_owned(), what: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation of many megabytes takes seconds to read, and the next reader failed because the database was locked.
    #[test]
    fn a_reader_waits_for_one_that_reads_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.db");
        drop(SqliteStore::open(&path).unwrap());
        let waits_ms: i64 = connect_to_read(&path).unwrap().query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
        assert_eq!(u128::try_from(waits_ms).unwrap(), READER_LIMIT.as_millis());
    }
}
