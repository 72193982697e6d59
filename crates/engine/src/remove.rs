//! Removes finished processes.

use crate::disk::{AGAIN, blocking};
use crate::parts::Parts;
use crate::refuse;
use crate::table::ProcessView;
use outlast_core::ProcessId;
use outlast_wire::v1::Error;
use std::io;
use std::sync::Arc;

/// How often a removal looks whether the end of its process was recorded: for about three seconds.
const RECORD_TRIES: u32 = 12;

/// Removes a finished process with its row and folder. If the client leaves meanwhile, the removal is completed or undone.
pub(crate) async fn forget(parts: &Arc<Parts>, view: &ProcessView) -> Result<(), Error> {
    let (parts, facts) = (Arc::clone(parts), Arc::clone(&view.facts));
    let task = tokio::spawn(async move {
        let id = facts.id();
        make_room_for_end(&parts, id).await?;
        if !parts.table.take(id).await? {
            return Err(refuse::not_found(&id.to_string(), &[]));
        }
        let removed = remove(&parts, id).await;
        if removed.is_err() {
            parts.table.put_back(facts).await;
        }
        removed
    });
    task.await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
}

/// Before a process is removed, its end must be recorded: without its folder the next engine would take it for lost. If the disk refuses
/// the record, the log is removed first, which the client asked for anyway and which may be what fills the disk.
async fn make_room_for_end(parts: &Parts, id: ProcessId) -> Result<(), Error> {
    if !parts.intake.unsaved.has(id) {
        return Ok(());
    }
    let dir = parts.home.process(id);
    let removed = blocking(move || {
        for first in dir.segments()? {
            std::fs::remove_file(dir.segment(first))?;
        }
        io::Result::Ok(())
    });
    removed.await.and_then(|removed| removed).map_err(|e| refuse::disk(format!("cannot remove the output of {id}"), &e))?;
    for _ in 0..RECORD_TRIES {
        // The engine tries to write what the disk refused once a second; nothing reports that it succeeded.
        tokio::time::sleep(AGAIN / 4).await;
        if !parts.intake.unsaved.has(id) {
            return Ok(());
        }
    }
    Err(refuse::unavailable(
        format!("the output of {id} was removed, but the disk still refuses the record of its end"),
        "make room on the disk; the end is recorded a second later, and the process can be removed then",
    ))
}

/// Removes folder and row, in this order. The folder is renamed first, in one step. If the engine dies after that, the next start finds the
/// row of an ended process without a folder, and drops it. In the other order it would find a folder without a row, and take the process in
/// again. So a failure after the rename is no error: the process is gone, and the next start removes the rest. After an error the folder is
/// unchanged.
pub(crate) async fn remove(parts: &Parts, id: ProcessId) -> Result<(), Error> {
    let (dir, place, socket) = (parts.home.process(id), parts.place.clone(), parts.sockets.of(id));
    blocking(move || {
        // Its keepers removed it themselves, unless they were killed.
        let _gone = std::fs::remove_file(socket);
        if let Some(place) = place {
            place.remove_leaf(id);
        }
        match dir.remove() {
            Err(error) if dir.is_removed() => {
                tracing::warn!(%id, %error, "removed, but some of its files are left");
                Ok(())
            }
            removed => removed,
        }
    })
    .await
    .and_then(|removed| removed)
    .map_err(|e| refuse::disk(format!("cannot remove {id}"), &e))?;
    if let Err(error) = parts.instances.forget(id).await {
        tracing::warn!(%id, %error, "removed, but its row is left");
    }
    Ok(())
}
