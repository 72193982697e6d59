//! What the outbox is made of.
//!
//! Each index of `notice` is one more page to be written before an end is told: there is none without a question that needs it.

/// The notices themselves, as of the third layout.
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
    state       TEXT NOT NULL,          -- pending, leased, delivered, consumed, superseded, dropped
    reason      TEXT NOT NULL DEFAULT '',
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    observed    INTEGER NOT NULL DEFAULT 0,
    stale       TEXT NOT NULL DEFAULT '', -- why it is not to be told again, should whoever has it not tell it
    lease       TEXT NOT NULL DEFAULT '',
    lease_up    INTEGER NOT NULL DEFAULT 0, -- when the lease ends, in microseconds since the machine was started
    lease_until INTEGER NOT NULL DEFAULT 0, -- the same by a clock that may be set: for showing only
    settled_at  INTEGER NOT NULL DEFAULT 0,
    event       TEXT NOT NULL           -- JSON; last, since it is long and seldom read
) STRICT;
-- Open ones are few among many. Questions about them name this index, so that SQLite has no choice.
CREATE INDEX notice_open ON notice (session, seq) WHERE state IN ('pending', 'leased');
CREATE INDEX notice_closed ON notice (session, seq) WHERE state NOT IN ('pending', 'leased');
CREATE INDEX notice_of_process ON notice (process, seq) WHERE process <> '';
CREATE INDEX notice_settled ON notice (settled_at) WHERE settled_at > 0;
";

/// From the second layout to the third: places were counted by SQLite, and keys had an index of their own.
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

/// Everything else, as of the second layout.
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
    reason      TEXT NOT NULL DEFAULT '',
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
