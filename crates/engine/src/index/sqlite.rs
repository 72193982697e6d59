//! The index as an SQLite file.

use super::v1::{KeptV1, PhaseV1};
use super::{IndexChange, IndexError, io_error, schema};
use crate::facts::{EndSeen, Facts};
use outlast_core::{ProcessId, Time};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default size of a page in bytes. We do not change it.
const PAGE: u64 = 4096;

/// Keeps the shared state of the log in memory, because only one engine uses the index. By default SQLite maps a file for that. On a full
/// disk that copies on write, a store to this mapping kills the program.
const VFS: &std::ffi::CStr = c"unix-excl";

pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
}

/// Opens or creates the file. Returns the database, its rows, where a damaged file was moved, and whether the file is new.
pub(super) fn open(path: &Path) -> Result<(Database, Vec<Facts>, Option<PathBuf>, bool), IndexError> {
    // If only the log is left of a lost file, SQLite would build half an index from it.
    let len = std::fs::metadata(path).map_or(0, |m| m.len());
    if len == 0 {
        remove_companions(path);
    }
    let opened = match len {
        // SQLite treats a file shorter than a page as empty, and would overwrite it.
        1..PAGE => Err(FileProblem::Damaged("it is cut short".into())),
        _ => open_whole(path),
    };
    match opened {
        Ok((database, rows, fresh)) => Ok((database, rows, None, fresh)),
        Err(FileProblem::Other(error)) => Err(error),
        Err(FileProblem::Damaged(what)) => {
            let aside = set_aside(path).map_err(|e| io_error(path, &e))?;
            tracing::error!(path = %path.display(), aside = %aside.display(), what, "the index is damaged and is rebuilt from the folders");
            match open_whole(path) {
                Ok((database, rows, _)) => Ok((database, rows, Some(aside), true)),
                Err(FileProblem::Other(error)) => Err(error),
                Err(FileProblem::Damaged(what)) => Err(IndexError::Other { path: path.to_owned(), what }),
            }
        }
    }
}

enum FileProblem {
    /// The file is damaged.
    Damaged(String),
    /// Another error. The file may be intact.
    Other(IndexError),
}

/// The database, its rows, and whether it was created just now. Then every folder belongs into it.
fn open_whole(path: &Path) -> Result<(Database, Vec<Facts>, bool), FileProblem> {
    let trouble = |e: rusqlite::Error| trouble(path, &e);
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS).map_err(trouble)?;
    keep_questions_ready(&connection).map_err(trouble)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(trouble)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(trouble)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(trouble)?;
    let mut database = Database { path: path.to_owned(), connection };
    let made = database.migrate()?;
    let verdict: String = database.connection.query_row("PRAGMA integrity_check(1)", [], |r| r.get(0)).map_err(trouble)?;
    if verdict != "ok" {
        return Err(FileProblem::Damaged(verdict));
    }
    let rows = database.rows()?;
    Ok((database, rows, made))
}

/// Keeps prepared statements, so that queries are not parsed each time.
pub(crate) fn keep_questions_ready(connection: &Connection) -> rusqlite::Result<()> {
    // The outbox alone has more statements than the 16 of the default.
    connection.set_prepared_statement_cache_capacity(128);
    // Without this, SQLite plans a query anew for each value of a limit. Measured: the histories of the outbox take three times as long.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

impl Database {
    /// Migrates the tables to this build's layout. Returns whether there were none.
    fn migrate(&mut self) -> Result<bool, FileProblem> {
        let trouble = |e: rusqlite::Error| trouble(&self.path, &e);
        let layout: i64 = self.connection.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(trouble)?;
        if layout > schema::LAYOUT {
            let what = format!("a newer version wrote it (layout {layout}, and this build knows {}): use that version", schema::LAYOUT);
            return Err(FileProblem::Other(IndexError::Other { path: self.path.clone(), what }));
        }
        if layout < 1 {
            let table = "SELECT name FROM sqlite_schema LIMIT 1";
            if self.connection.query_row(table, [], |r| r.get::<_, String>(0)).optional().map_err(trouble)?.is_some() {
                return Err(FileProblem::Damaged("it has tables but no layout number".into()));
            }
        }
        if layout < schema::LAYOUT {
            let step = self.connection.transaction().map_err(trouble)?;
            let steps: &[&str] = match layout {
                0 => &[schema::PROCESS, schema::PROGRESS, schema::CREATE, schema::QUIET, schema::NOTICE, schema::NOTICE_BY_SESSION],
                1 => &[schema::PROGRESS, schema::CREATE, schema::QUIET, schema::NOTICE, schema::NOTICE_BY_SESSION],
                2 => &[
                    schema::PROGRESS,
                    schema::FROM_SECOND.0,
                    schema::NOTICE,
                    schema::FROM_SECOND.1,
                    schema::STATES_OF_THIRD,
                    schema::QUIET,
                    schema::NOTICE_BY_SESSION,
                ],
                3 => &[schema::FROM_THIRD, schema::STATES_OF_THIRD, schema::QUIET, schema::NOTICE_BY_SESSION],
                _ => &[],
            };
            steps.iter().chain([&schema::INSTANCE]).try_for_each(|sql| step.execute_batch(sql)).map_err(trouble)?;
            step.pragma_update(None, "user_version", schema::LAYOUT).map_err(trouble)?;
            step.commit().map_err(trouble)?;
        }
        Ok(layout < 1)
    }

    fn rows(&self) -> Result<Vec<Facts>, FileProblem> {
        let trouble = |e: rusqlite::Error| trouble(&self.path, &e);
        let spoilt = || FileProblem::Damaged("a row is not as it was written".into());
        let mut all = self.connection.prepare(&format!("SELECT process, {} FROM progress", ProgressColumns::COLUMNS)).map_err(trouble)?;
        let mut found = all.query([]).map_err(trouble)?;
        let mut since = HashMap::new();
        while let Some(r) = found.next().map_err(trouble)? {
            let (id, one): (String, ProgressColumns) = (r.get(0).map_err(trouble)?, ProgressColumns::read(r).map_err(trouble)?);
            if one.sum(&id) != r.get::<_, i64>(8).map_err(trouble)? {
                return Err(spoilt());
            }
            since.insert(id, one);
        }
        let columns = format!("SELECT id, {}, kept FROM process ORDER BY id", ProgressColumns::COLUMNS);
        let mut all = self.connection.prepare(&columns).map_err(trouble)?;
        let mut found = all.query([]).map_err(trouble)?;
        let mut rows = Vec::new();
        while let Some(r) = found.next().map_err(trouble)? {
            let (id, kept): (String, String) = (r.get(0).map_err(trouble)?, r.get(9).map_err(trouble)?);
            let first = ProgressColumns::read(r).map_err(trouble)?;
            if first.sum_with(&id, &kept) != r.get::<_, i64>(8).map_err(trouble)? {
                return Err(spoilt());
            }
            let now = since.remove(&id).unwrap_or(first);
            rows.push(now.into_facts(&id, &kept).ok_or_else(spoilt)?);
        }
        Ok(rows)
    }

    /// Writes the log to its full length once, so that commits are quicker.
    pub(super) fn lengthen_log(&self) -> io::Result<()> {
        outlast_store::lengthen_log(&self.path)
    }

    /// Another connection, which reads while this one writes.
    pub(super) fn reader(&self) -> Result<Connection, IndexError> {
        let error = |e: rusqlite::Error| error(&self.path, &e);
        // Opened for writing, because a read-only connection would change the lock that both share. It writes nothing.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = Connection::open_with_flags_and_vfs(&self.path, flags, VFS).map_err(error)?;
        reader.pragma_update(None, "query_only", true).map_err(error)?;
        keep_questions_ready(&reader).map_err(error)?;
        Ok(reader)
    }

    /// Writes all changes in one transaction, or nothing. Returns the result of each: work that fails is undone, and the others are written
    /// without it.
    pub(super) fn write(&mut self, changes: Vec<IndexChange>) -> Result<Vec<Result<(), IndexError>>, IndexError> {
        let path = &self.path;
        let error = |e: rusqlite::Error| error(path, &e);
        let written = write(&mut self.connection, changes).map_err(error)?;
        Ok(written.into_iter().map(|one| one.map_err(error)).collect())
    }
}

fn write(connection: &mut Connection, changes: Vec<IndexChange>) -> rusqlite::Result<Vec<rusqlite::Result<()>>> {
    let alone = changes.len() == 1;
    let all = connection.transaction()?;
    let mut written = Vec::with_capacity(changes.len());
    for change in changes {
        written.push(match change {
            IndexChange::Put(facts) => put(&all, &facts),
            IndexChange::Forget(id) => forget(&all, id),
            // A single change is undone with its transaction.
            IndexChange::Work(work) if alone => return work(&all).and_then(|()| all.commit()).map(|()| vec![Ok(())]),
            IndexChange::Work(work) => apart(&all, work),
            IndexChange::Nothing | IndexChange::Close => Ok(()),
        });
        // Some errors, such as a full disk, roll back the whole transaction.
        if all.is_autocommit()
            && let Some(Err(error)) = written.pop()
        {
            return Err(error);
        }
    }
    all.commit()?;
    Ok(written)
}

/// Runs work inside a transaction, and undoes only this work if it fails.
fn apart(all: &Transaction<'_>, work: super::Work) -> rusqlite::Result<()> {
    let done = |what: &str| all.prepare_cached(what)?.execute([]).map(|_| ());
    done("SAVEPOINT part")?;
    let worked = work(all);
    // Some errors, such as a full disk, have rolled back everything already.
    if worked.is_err() && all.is_autocommit() {
        return worked;
    }
    if worked.is_err() {
        done("ROLLBACK TO part")?;
    }
    done("RELEASE part")?;
    worked
}

/// Removes the row of a process, and its progress.
pub(crate) fn forget(tables: &Connection, id: ProcessId) -> rusqlite::Result<()> {
    for sql in ["DELETE FROM progress WHERE process = ?1", "DELETE FROM process WHERE id = ?1"] {
        tables.prepare_cached(sql)?.execute(params![id.to_string()])?;
    }
    Ok(())
}

/// Writes the row of a process, or its progress if the row exists. Older progress does not replace newer: two looks at the same time may be
/// written in either order.
pub(crate) fn put(tables: &Connection, facts: &Facts) -> rusqlite::Result<()> {
    let (id, since) = (facts.id().to_string(), ProgressColumns::of(facts));
    let ended_at = facts.ended_at().map(Time::micros);
    if !tables.prepare_cached("SELECT 1 FROM process WHERE id = ?1")?.exists(params![id])? {
        // It holds strings, numbers and lists only, which always serialise.
        let kept = serde_json::to_string(&KeptV1::from(&*facts.kept)).expect("a request serialises");
        let owner = &facts.kept.spec.owner;
        tables
            .prepare_cached(
                "INSERT INTO process (id, accepted_at, session, task, generation, hash, kept, phase, final, started_at, ended_at,
                     log_end, cursor, bytes, consumed, detached, sum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            )?
            .execute(params![
                id,
                facts.kept.accepted_at.micros(),
                owner.session,
                owner.task,
                owner.generation,
                facts.kept.hash,
                kept,
                since.phase,
                facts.phase.is_final(),
                since.started_at,
                ended_at,
                since.log_end,
                since.cursor,
                since.bytes,
                since.consumed,
                since.detached,
                since.sum_with(&id, &kept),
            ])?;
        return Ok(());
    }
    tables
        .prepare_cached(
            "INSERT INTO progress (process, phase, final, started_at, ended_at, log_end, cursor, bytes, consumed, detached, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (process) DO UPDATE SET phase = excluded.phase, final = excluded.final, started_at = excluded.started_at,
                 ended_at = excluded.ended_at, log_end = excluded.log_end, cursor = excluded.cursor, bytes = excluded.bytes,
                 consumed = excluded.consumed, detached = excluded.detached, sum = excluded.sum
             WHERE excluded.cursor >= progress.cursor AND excluded.final >= progress.final",
        )?
        .execute(params![
            id,
            since.phase,
            facts.phase.is_final(),
            since.started_at,
            ended_at,
            since.log_end,
            since.cursor,
            since.bytes,
            since.consumed,
            since.detached,
            since.sum(&id),
        ])?;
    Ok(())
}

/// The progress of a process, as its columns hold it.
struct ProgressColumns {
    phase: String,
    started_at: Option<i64>,
    log_end: i64,
    cursor: i64,
    bytes: i64,
    /// See [`EndSeen`]: 0, 1 or 2. Earlier releases wrote 0 or 1.
    consumed: u8,
    detached: bool,
}

impl ProgressColumns {
    /// The columns that [`ProgressColumns::read`] reads, after the name of the process.
    const COLUMNS: &str = "phase, started_at, log_end, cursor, bytes, consumed, detached, sum";

    fn of(facts: &Facts) -> Self {
        Self {
            // It holds strings and numbers only, which always serialise.
            phase: serde_json::to_string(&PhaseV1::from(&facts.phase)).expect("a phase serialises"),
            started_at: facts.started_at.map(Time::micros),
            log_end: facts.log_end as i64,
            cursor: facts.cursor as i64,
            bytes: facts.bytes as i64,
            consumed: facts.consumed as u8,
            detached: facts.detached,
        }
    }

    fn read(r: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            phase: r.get(1)?,
            started_at: r.get(2)?,
            log_end: r.get(3)?,
            cursor: r.get(4)?,
            bytes: r.get(5)?,
            consumed: r.get(6)?,
            detached: r.get(7)?,
        })
    }

    /// The checksum of a row of `progress`.
    fn sum(&self, id: &str) -> i64 {
        self.sum_of(&[id, &self.phase])
    }

    /// The checksum of a row of `process`.
    fn sum_with(&self, id: &str, kept: &str) -> i64 {
        self.sum_of(&[id, kept, &self.phase])
    }

    fn sum_of(&self, texts: &[&str]) -> i64 {
        let mut sum = Sha256::new();
        for text in texts {
            sum.update((text.len() as u64).to_le_bytes());
            sum.update(text);
        }
        for number in [self.started_at.unwrap_or(i64::MIN), self.log_end, self.cursor, self.bytes] {
            sum.update(number.to_le_bytes());
        }
        sum.update([self.consumed, u8::from(self.detached)]);
        let digest = sum.finalize();
        i64::from_le_bytes(digest[..8].try_into().expect("eight bytes"))
    }

    fn into_facts(self, id: &str, kept: &str) -> Option<Facts> {
        let id: ProcessId = id.parse().ok()?;
        Some(Facts {
            kept: Arc::new(serde_json::from_str::<KeptV1>(kept).ok()?.into_kept(id)),
            phase: serde_json::from_str::<PhaseV1>(&self.phase).ok()?.into_phase()?,
            started_at: self.started_at.map(Time::from_micros),
            log_end: self.log_end as u64,
            cursor: self.cursor as u64,
            bytes: self.bytes as u64,
            consumed: match self.consumed {
                0 => EndSeen::Not,
                1 => EndSeen::Seen,
                _ => EndSeen::SetAside,
            },
            detached: self.detached,
            unreachable: false,
        })
    }
}

/// The error for the caller.
pub(super) fn error(path: &Path, error: &rusqlite::Error) -> IndexError {
    match trouble(path, error) {
        FileProblem::Other(error) => error,
        FileProblem::Damaged(what) => IndexError::Other { path: path.to_owned(), what },
    }
}

fn trouble(path: &Path, error: &rusqlite::Error) -> FileProblem {
    let (owned, what) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => FileProblem::Damaged(what),
        Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            FileProblem::Other(IndexError::NoRoom { path: owned, what })
        }
        // A column of another type, text that is not UTF-8, a missing table: no engine wrote that.
        None | Some(ErrorCode::Unknown) => FileProblem::Damaged(what),
        Some(_) => FileProblem::Other(IndexError::Other { path: owned, what }),
    }
}

fn companions(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn remove_companions(path: &Path) {
    for file in companions(path) {
        if let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %file.display(), %error, "cannot remove");
        }
    }
}

/// Renames the file to the first free name.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    for n in 1.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{n}"));
        let aside = PathBuf::from(name);
        if aside.exists() {
            continue;
        }
        std::fs::rename(path, &aside)?;
        // The log belongs to the damaged file, and must not be applied to the new one.
        for (from, to) in companions(path).iter().zip(companions(&aside)) {
            if from.exists() {
                std::fs::rename(from, to)?;
            }
        }
        return Ok(aside);
    }
    unreachable!("numbers do not run out")
}
