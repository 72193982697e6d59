//! The tables of the index, and how an older layout is brought to this one.
//!
//! Each index of `notice` is one more page to be written before an end is reported, so there is none without a query that needs it. No
//! column is added after `event`, which is long: each read would go through its pages.

/// The layout this build writes. An older one is migrated, a newer one is refused.
pub(crate) const LAYOUT: i64 = 5;

/// Requests, written once. As of the first layout, in which the row was rewritten with all progress.
pub(crate) const PROCESS: &str = "
CREATE TABLE process (
    id          TEXT PRIMARY KEY,
    accepted_at INTEGER NOT NULL,   -- microseconds, UTC
    session     TEXT,
    task        TEXT,
    generation  TEXT,
    hash        TEXT NOT NULL,      -- of the whole request
    kept        TEXT NOT NULL,      -- the request without its secrets, JSON
    phase       TEXT NOT NULL,      -- JSON
    final       INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    log_end     INTEGER NOT NULL,
    cursor      INTEGER NOT NULL,   -- how far the journal was read
    bytes       INTEGER NOT NULL,   -- on disk
    consumed    INTEGER NOT NULL,
    detached    INTEGER NOT NULL,
    sum         INTEGER NOT NULL    -- over the rest of the row: a changed byte is found, not believed
) STRICT, WITHOUT ROWID;
";

/// The progress of a process, if there was any. Short, because it is written several times. As of the third layout.
pub(crate) const PROGRESS: &str = "
CREATE TABLE progress (
    process     TEXT PRIMARY KEY,
    phase       TEXT NOT NULL,      -- these as in its row, and instead of them
    final       INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER,
    log_end     INTEGER NOT NULL,
    cursor      INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    consumed    INTEGER NOT NULL,
    detached    INTEGER NOT NULL,
    sum         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// The notices themselves, as of the fourth layout.
pub(crate) const NOTICE: &str = "
CREATE TABLE notice (
    seq         INTEGER PRIMARY KEY,    -- never given twice: see `floor` in `one`
    key         TEXT NOT NULL,          -- what it is about: process, kind and which of them
    id          TEXT NOT NULL UNIQUE,   -- made from the key, so that it stands for it
    kind        TEXT NOT NULL,
    process     TEXT NOT NULL,          -- empty: about none
    session     TEXT NOT NULL,          -- empty: for a person
    task        TEXT NOT NULL,
    generation  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,       -- microseconds, UTC, as everywhere here unless it says otherwise
    open_since  INTEGER NOT NULL,
    state       TEXT NOT NULL,          -- pending, reserved, answering, leased (by a taker), waking (leased by a sink); delivered, consumed, superseded, dropped
    reason      TEXT NOT NULL DEFAULT '',
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    observed    INTEGER NOT NULL DEFAULT 0,
    stale       TEXT NOT NULL DEFAULT '', -- the process was run again: why it is not told, unless the taker that has it tells it
    lease       TEXT NOT NULL DEFAULT '', -- the token, if it is leased or waking
    lease_up    INTEGER NOT NULL DEFAULT 0, -- until when it is held, in microseconds since the machine was started; 0 if it is pending
    lease_until INTEGER NOT NULL DEFAULT 0, -- the same by a clock that may be set: for showing only
    settled_at  INTEGER NOT NULL DEFAULT 0, -- 0 while it is open
    event       TEXT NOT NULL           -- JSON; last, since it is long and seldom read
) STRICT;
CREATE INDEX notice_of_process ON notice (process, seq) WHERE process <> '';
CREATE INDEX notice_settled ON notice (settled_at) WHERE settled_at > 0;
";

/// Indexes of notices by session, as of the fourth layout. Open notices are few among many: queries about them name the index, so that
/// SQLite has no choice. Changes of an open notice change neither index.
pub(crate) const NOTICE_BY_SESSION: &str = "
CREATE INDEX notice_open ON notice (session, seq) WHERE settled_at = 0;
CREATE INDEX notice_closed ON notice (session, seq) WHERE settled_at > 0;
";

/// From the second layout: SQLite counted the numbers of notices, and keys had an index of their own. The steps before and after the table
/// of notices is made.
pub(crate) const FROM_SECOND: (&str, &str) = (
    "
INSERT OR REPLACE INTO one (name, value) SELECT 'floor', CAST(seq AS TEXT) FROM sqlite_sequence WHERE name = 'notice';
DROP INDEX notice_open;
DROP INDEX notice_of_process;
DROP INDEX notice_of_session;
DROP INDEX notice_settled;
ALTER TABLE notice RENAME TO notice_2;
",
    "
INSERT INTO notice (seq, key, id, kind, process, session, task, generation, created_at, open_since, state, reason, attempts, maybe_told, observed, stale, lease,
        lease_up, lease_until, settled_at, event)
    SELECT seq, key, id, kind, process, session, task, generation, created_at, open_since, state, reason, attempts, maybe_told, observed, stale, lease,
        lease_up, lease_until, settled_at, event FROM notice_2;
DROP TABLE notice_2;
",
);

/// From the third layout: every held notice was `leased`, and a fixed token stood for an answer. Deliveries that were held back had a fixed
/// reason.
pub(crate) const FROM_THIRD: &str = "
DROP INDEX notice_open;
DROP INDEX notice_closed;
";

/// States as of the third layout become those of the fourth.
pub(crate) const STATES_OF_THIRD: &str = "
UPDATE notice SET state = 'waking' WHERE state = 'leased'
    AND EXISTS (SELECT 1 FROM delivery d WHERE d.seq = notice.seq AND d.state = 'leased' AND d.lease = notice.lease);
UPDATE notice SET state = CASE attempts WHEN 0 THEN 'reserved' ELSE 'answering' END, lease = '' WHERE state = 'leased' AND lease = 'answer';
UPDATE notice SET lease = '', lease_up = 0, lease_until = 0 WHERE state = 'pending' AND lease_up <> 0;
ALTER TABLE delivery ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;
UPDATE delivery SET quiet = 1, reason = '' WHERE reason = 'somebody waits for it';
";

/// Everything else, as of the fourth layout.
pub(crate) const CREATE: &str = "
CREATE TABLE delivery (                 -- one for each notice and each sink that pushes
    sink        TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    session     TEXT NOT NULL,
    state       TEXT NOT NULL,          -- pending, leased, delivered, dead
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    lease       TEXT NOT NULL DEFAULT '',
    due_up      INTEGER NOT NULL,       -- when it may be tried, in microseconds since the machine was started; of a leased one, when the lease ends
    first_at    INTEGER NOT NULL DEFAULT 0,
    died_at     INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '', -- what went wrong last
    quiet       INTEGER NOT NULL DEFAULT 0, -- 1: held back for a client that waits, and removed if that is answered
    PRIMARY KEY (sink, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_open ON delivery (sink, due_up, seq) WHERE state IN ('pending', 'leased');
CREATE INDEX delivery_dead ON delivery (seq) WHERE state = 'dead';
CREATE TABLE mark (                     -- outlives the process it is about
    process     TEXT PRIMARY KEY,
    consumed_at INTEGER NOT NULL DEFAULT 0,
    by          TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE TABLE watching (                 -- how far matches were judged, and what the limiter knows
    process     TEXT PRIMARY KEY,
    cursor      INTEGER NOT NULL,
    limiter     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE life (                     -- generations of a conversation, in the order in which they were seen
    session     TEXT NOT NULL,
    generation  TEXT NOT NULL,
    nth         INTEGER NOT NULL,
    PRIMARY KEY (session, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE barrier (
    id          TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    task        TEXT NOT NULL,
    generation  TEXT NOT NULL,
    until       TEXT NOT NULL,          -- JSON
    created_at  INTEGER NOT NULL,
    opened      TEXT NOT NULL DEFAULT '',
    opened_at   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE one (                      -- what there is one of
    name        TEXT PRIMARY KEY,
    value       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Conversations that share a session, as of the fifth layout. Times are microseconds since the machine was started.
pub(crate) const INSTANCE: &str = "
CREATE TABLE instance (
    session     TEXT NOT NULL,
    key         TEXT NOT NULL,
    about       TEXT NOT NULL,          -- JSON
    seen        INTEGER NOT NULL,       -- when it was last known to be alive
    server_gone INTEGER,                -- when its server ended
    client_gone INTEGER,                -- when its client ended
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE held_by (                  -- outlives the process, for its notices
    process     TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    instance    TEXT NOT NULL,          -- its key
    earlier     INTEGER NOT NULL        -- 1: it has passed to this instance from one that ended
) STRICT, WITHOUT ROWID;
";

/// Deliveries that are held back, as of the fourth layout.
pub(crate) const QUIET: &str = "CREATE INDEX delivery_quiet ON delivery (seq) WHERE quiet = 1;";

/// All tables, as of the fifth layout.
#[cfg(test)]
pub(crate) const ALL: [&str; 7] = [PROCESS, PROGRESS, CREATE, QUIET, NOTICE, NOTICE_BY_SESSION, INSTANCE];
