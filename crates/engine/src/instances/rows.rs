//! The rows of instances, and of what belongs to them.

use super::Holder;
use outlast_core::notice_state::Uptime;
use outlast_core::{Incarnation, Instance, InstanceKind, KnownInstance, ProcessId};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What the row of an instance says beside its times. An added field must be absent in rows of earlier builds, and may be ignored by them.
#[derive(Debug, Serialize, Deserialize)]
struct StoredInstance {
    key: String,
    kind: InstanceKind,
    client: Incarnation,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Instance>,
    /// The PID namespace of its processes. If it is not known, it is that of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<String>,
}

/// The PID namespace of the engine, and so of all clients that it tells apart. A program never leaves it.
fn own_pid_namespace() -> Option<String> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    NAMED.get_or_init(|| crate::os::namespaces().pid).clone()
}

/// Writes to which instance a process belongs.
pub(crate) fn write_holder(db: &Connection, process: ProcessId, holder: &Holder) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO held_by (process, session, instance, earlier) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        process.to_string(),
        holder.session,
        holder.key,
        holder.earlier
    ])?;
    Ok(())
}

/// Writes all that is known of an instance.
pub(super) fn write_known(db: &Connection, session: &str, known: &KnownInstance) -> rusqlite::Result<()> {
    let Instance { key, kind, client } = known.about.clone();
    let stored = StoredInstance { key, kind, client, others: known.others.clone(), pid_namespace: own_pid_namespace() };
    // It holds strings and numbers only, which always serialise.
    let about = serde_json::to_string(&stored).expect("an instance serialises");
    db.prepare_cached(
        "INSERT OR REPLACE INTO instance (session, key, about, seen, server_gone, client_gone) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![session, known.about.key, about, known.seen, known.server_gone, known.client_gone])?;
    Ok(())
}

/// Writes when an instance was last seen, and nothing else: its end may have been written meanwhile.
pub(super) fn write_seen(db: &Connection, session: &str, key: &str, seen: Uptime) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE instance SET seen = MAX(seen, ?3) WHERE session = ?1 AND key = ?2")?.execute(params![session, key, seen])?;
    Ok(())
}

pub(super) fn read_known(db: &Connection) -> rusqlite::Result<Vec<(String, KnownInstance)>> {
    let own = own_pid_namespace();
    let mut rows = db.prepare("SELECT session, about, seen, server_gone, client_gone FROM instance")?;
    let rows = rows.query_map([], |row| {
        // One that cannot be read counts as forgotten.
        let Ok(stored) = serde_json::from_str::<StoredInstance>(&row.get::<_, String>(1)?) else { return Ok(None) };
        let StoredInstance { key, kind, client, others, pid_namespace } = stored;
        let is_foreign = matches!((&own, &pid_namespace), (Some(own), Some(theirs)) if own != theirs);
        let known = KnownInstance {
            others,
            server_gone: row.get(3)?,
            client_gone: row.get(4)?,
            is_foreign,
            ..KnownInstance::new(Instance { key, kind, client }, row.get(2)?)
        };
        Ok(Some((row.get(0)?, known)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

pub(super) fn read_held(db: &Connection) -> rusqlite::Result<HashMap<ProcessId, Holder>> {
    let mut rows = db.prepare("SELECT process, session, instance, earlier FROM held_by")?;
    let rows = rows.query_map([], |row| {
        let process: Option<ProcessId> = row.get::<_, String>(0)?.parse().ok();
        let holder = Holder { session: row.get(1)?, key: row.get(2)?, earlier: row.get(3)? };
        Ok(process.map(|process| (process, holder)))
    })?;
    rows.filter_map(Result::transpose).collect()
}
