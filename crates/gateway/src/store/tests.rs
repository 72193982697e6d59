//! The store alone: what is committed is there again, and what must never be is refused.

use super::*;
use crate::rules::turn::{FailureReason, InterruptReason, Outcome};
use outlast_wire::v1::chat::{Content, LineBody, Standing, TextBody};

const KEY: &str = "agent:main:local:dm:main";

fn at(micros: i64) -> Time {
    Time::from_micros(micros)
}

fn conversation(key: &str, number: u32) -> ConversationRecord {
    ConversationRecord {
        key: key.into(),
        generation: Generation { number, started_at: at(1) },
        started_why: StartedWhy::First,
        mode: BusyMode::Queue,
        strikes: 2,
        suspended_at: Some(at(5)),
        last_message_at: Some(at(4)),
        chat: ChatState {
            agent: Some(AgentChoice::Command("cat".into())),
            agent_session: Some("s".into()),
            resumed_from: Some(7),
            cwd: Some("/tmp".into()),
            owner: Some("1000".into()),
            seen: Some(3),
            last_order: Some(LastOrder { request_id: "req:1".into(), answer: Changed::new(Standing::Active, 1, "done") }),
        },
    }
}

fn turn(id: i64, turn: Turn) -> TurnRecord {
    TurnRecord {
        id: TurnId(id),
        key: KEY.into(),
        generation: 1,
        cause: Cause::Message(id.to_string()),
        body: Arc::new(TurnBody::Message { words: "hello".into() }),
        turn,
        attempt: 0,
        starts: 0,
        head: TurnId(id),
        quotes: None,
        mark: None,
        why: None,
        is_unattended: false,
        accepted_at: at(2),
        started_at: None,
        finished_at: None,
        quoted_mark: None,
    }
}

fn running(id: i64) -> TurnRecord {
    TurnRecord { attempt: 1, starts: 1, started_at: Some(at(3)), ..turn(id, Turn::Running { attempt: 1, mark: None }) }
}

fn put(turn: &TurnRecord) -> StoreChange {
    StoreChange::Turn(Box::new(turn.clone()))
}

fn open(dir: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(&dir.path().join("gateway.db")).unwrap()
}

#[test]
fn case_015_and_027_what_is_committed_is_there_again_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mark = Mark { reason: InterruptReason::RestartInterrupted, at: at(7) };
    let interrupted = TurnRecord {
        attempt: 2,
        starts: 3,
        mark: Some(mark),
        started_at: Some(at(3)),
        is_unattended: true,
        ..turn(1, Turn::Interrupted { attempt: 2, mark })
    };
    let quoting = TurnRecord { quotes: Some(TurnId(1)), quoted_mark: Some(mark), ..turn(2, Turn::Queued) };
    let failed = Turn::Finished(Outcome::Failed { why: FailureReason::Reported });
    let finished = TurnRecord { why: Some("it said: no".into()), finished_at: Some(at(9)), ..turn(3, failed) };
    let part = outlast_wire::v1::chat::Part::new(1, Some(3), 0, &Content::Text(TextBody::new("hi")), at(8));
    {
        let mut store = open(&dir);
        let part = StoreChange::Part { key: KEY.into(), part: Box::new(part.clone()) };
        let run = StoreChange::RunStarted { id: 1, at: at(1), has_found_interrupted: true };
        store
            .commit(&[
                StoreChange::Conversation(Box::new(conversation(KEY, 1))),
                put(&interrupted),
                put(&quoting),
                put(&finished),
                part,
                run,
            ])
            .unwrap();
        // Refused as a whole: the second row takes the cause of the first.
        let twice = TurnRecord { cause: Cause::Message("1".into()), ..turn(9, Turn::Queued) };
        assert!(store.commit(&[put(&turn(8, Turn::Queued)), put(&twice)]).is_err());
    }
    let mut store = open(&dir);
    let loaded = store.load().unwrap();
    assert_eq!(loaded.conversations, [(conversation(KEY, 1), vec![interrupted, quoting])]);
    assert_eq!((loaded.last_turn, loaded.last_part, loaded.last_run, loaded.skipped), (3, 1, 1, Vec::new()));
    assert_eq!(store.turn(TurnId(3)).unwrap(), Some(finished.clone()));
    assert_eq!(store.turn_of_cause(&Cause::Message("3".into())).unwrap(), Some(finished));
    assert_eq!(store.turn(TurnId(8)).unwrap(), None);
    assert_eq!(store.parts(KEY, 0, 9, 9).unwrap(), [part]);
    assert_eq!(store.texts(TurnId(3), 0).unwrap(), ["hi"]);
    assert_eq!(store.unattended_starts(KEY, at(0)).unwrap(), [at(3)]);
    assert_eq!(store.last_runs(2).unwrap(), [RunStart { at: at(1), has_found_interrupted: true }]);
    assert_eq!(store.last_end().unwrap(), None, "killed");
    store.commit(&[StoreChange::RunEnded { id: 1, at: at(9), how: "stop".into() }]).unwrap();
    assert_eq!(store.last_end().unwrap().as_deref(), Some("stop"));
}

#[test]
fn a_conversation_has_one_running_turn_and_one_current_generation() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    store.commit(&[StoreChange::Conversation(Box::new(conversation(KEY, 1))), put(&running(1))]).unwrap();
    assert!(store.commit(&[put(&running(2))]).is_err(), "two at a time");
    assert!(store.commit(&[StoreChange::Conversation(Box::new(conversation(KEY, 2)))]).is_err(), "the first has not ended");
    // One ends and the next starts in one commit, in whichever order they are named.
    let ended = TurnRecord { turn: Turn::Finished(Outcome::Completed), finished_at: Some(at(9)), ..running(1) };
    store.commit(&[put(&running(2)), put(&ended)]).unwrap();
    // A notice that rides in the prompt of another one runs beside it.
    let rider = TurnRecord { head: TurnId(2), ..running(3) };
    store.commit(&[put(&rider)]).unwrap();
    let ended = StoreChange::GenerationEnded { key: KEY.into(), generation: 1, at: at(9) };
    store.commit(&[ended, StoreChange::Conversation(Box::new(conversation(KEY, 2)))]).unwrap();
    assert_eq!(store.load().unwrap().conversations[0].0.generation.number, 2);
}

#[test]
fn case_018_and_070_a_row_that_cannot_be_read_is_named_and_the_others_load() {
    let dir = tempfile::tempdir().unwrap();
    {
        let mut store = open(&dir);
        let other = "agent:main:local:dm:other";
        let own = TurnRecord { key: other.into(), ..turn(2, Turn::Queued) };
        let all = [conversation(KEY, 1), conversation(other, 1)].map(|row| StoreChange::Conversation(Box::new(row)));
        store.commit(&all).unwrap();
        store.commit(&[put(&turn(1, Turn::Queued)), put(&own), put(&turn(3, Turn::Queued))]).unwrap();
    }
    let db = rusqlite::Connection::open(dir.path().join("gateway.db")).unwrap();
    db.execute_batch("UPDATE conversation SET started_why = 'whim' WHERE key LIKE '%other'; UPDATE turn SET state = x'ff' WHERE id = 3")
        .unwrap();
    drop(db);
    let mut store = open(&dir);
    let loaded = store.load().unwrap();
    assert_eq!(loaded.conversations, [(conversation(KEY, 1), vec![turn(1, Turn::Queued)])]);
    assert_eq!(loaded.skipped.len(), 3, "{:?}", loaded.skipped);
    assert!(loaded.skipped.iter().any(|what| what.contains("other")), "{:?}", loaded.skipped);
}

/// The database allows one running turn in a conversation, so every start beside that one would fail, and with it the commits of others.
#[test]
fn a_running_turn_that_cannot_be_read_closes_its_conversation() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir).commit(&[StoreChange::Conversation(Box::new(conversation(KEY, 1))), put(&running(1)), put(&turn(2, Turn::Queued))]).unwrap();
    let db = rusqlite::Connection::open(dir.path().join("gateway.db")).unwrap();
    db.execute_batch("UPDATE turn SET body = 'no JSON' WHERE id = 1").unwrap();
    drop(db);
    let loaded = open(&dir).load().unwrap();
    assert_eq!(loaded.conversations, []);
    assert!(loaded.unreadable.contains(KEY) && loaded.skipped.len() == 2, "{:?}", loaded.skipped);
}

#[test]
fn context_begins_so_many_parts_before_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let content = Content::Line(LineBody::new("x", "y"));
    for id in [2, 4, 6, 8] {
        let part = Box::new(outlast_wire::v1::chat::Part::new(id, None, 0, &content, at(1)));
        store.commit(&[StoreChange::Part { key: KEY.into(), part }]).unwrap();
    }
    let ids = |after, count| {
        let from = store.part_before(KEY, after, count).unwrap();
        store.parts(KEY, from, 8, 9).unwrap().iter().map(|part| part.id).collect::<Vec<_>>()
    };
    assert_eq!((ids(6, 1), ids(6, 2), ids(6, 9), ids(0, 3)), (vec![6, 8], vec![4, 6, 8], vec![2, 4, 6, 8], vec![2, 4, 6, 8]));
    assert_eq!(store.last_part(KEY).unwrap(), Some(8));
    assert_eq!(store.parts(KEY, 2, 6, 9).unwrap().len(), 2);
}

#[test]
fn case_016_a_file_of_the_first_layout_is_brought_to_this_one_and_keeps_what_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(dir.path().join("gateway.db")).unwrap();
    db.execute_batch(include_str!("../../../../fixtures/gateway-1.sql")).unwrap();
    drop(db);
    let mut store = open(&dir);
    let loaded = store.load().unwrap();
    let [(row, turns)] = &loaded.conversations[..] else { panic!("{loaded:?}") };
    assert_eq!((row.strikes, row.chat.agent_session.as_deref(), row.chat.resumed_from), (1, Some("s"), None));
    let mark = Mark { reason: InterruptReason::RestartInterrupted, at: at(7) };
    assert_eq!(turns.iter().map(|turn| turn.turn).collect::<Vec<_>>(), [Turn::Interrupted { attempt: 1, mark }]);
    assert_eq!((loaded.last_turn, loaded.last_part, loaded.last_run, loaded.skipped), (1, 1, 1, Vec::new()));
    let changed = ConversationRecord { chat: ChatState { resumed_from: Some(7), ..row.chat.clone() }, ..row.clone() };
    store.commit(&[StoreChange::Conversation(Box::new(changed.clone()))]).unwrap();
    drop(store);
    assert_eq!(open(&dir).generation(KEY, 1).unwrap(), Some(changed));
}

#[test]
fn a_newer_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(&dir));
    let path = dir.path().join("gateway.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(SqliteStore::open(&path), Err(StoreError::Newer { layout: 99, .. })));
}

#[test]
fn an_owner_that_makes_no_sense_hides_no_conversation() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir).commit(&[StoreChange::Conversation(Box::new(conversation(KEY, 1)))]).unwrap();
    for (sql, owner) in [("NULL", None), ("'root'", Some("root")), ("0", Some("0")), ("x'ff00'", Some("")), ("1.5", Some("1.5"))] {
        let db = rusqlite::Connection::open(dir.path().join("gateway.db")).unwrap();
        db.execute_batch(&format!("UPDATE conversation SET owner = {sql}")).unwrap();
        drop(db);
        let loaded = open(&dir).load().unwrap();
        assert_eq!(loaded.conversations[0].0.chat.owner.as_deref(), owner, "{sql}");
    }
}

#[test]
fn generations_are_listed_with_what_they_are_about() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let mut commit = |changes: &[StoreChange]| store.commit(changes).unwrap();
    let began = |number, at_micros| {
        let mut row = conversation(KEY, number);
        (row.generation.started_at, row.chat.resumed_from) = (at(at_micros), (number == 3).then_some(1));
        StoreChange::Conversation(Box::new(row))
    };
    let long = "x".repeat(1000);
    let said = |id, generation, words: &str| {
        let body = Arc::new(TurnBody::Message { words: words.into() });
        put(&TurnRecord { generation, body, accepted_at: at(id), ..turn(id, Turn::Queued) })
    };
    let notice = TurnRecord {
        cause: Cause::Notice("evt_1".into()),
        body: Arc::new(TurnBody::Notice { text: "a process ended".into(), is_repeat: false }),
        accepted_at: at(2),
        ..turn(2, Turn::Queued)
    };
    commit(&[began(1, 1), put(&notice), said(3, 1, "\"one\"\nmore"), said(4, 1, "two")]);
    commit(&[StoreChange::GenerationEnded { key: KEY.into(), generation: 1, at: at(9) }, began(2, 9)]);
    commit(&[StoreChange::GenerationEnded { key: KEY.into(), generation: 2, at: at(10) }, began(3, 10), said(11, 3, &long)]);
    let all = store.generations(KEY, 100).unwrap();
    let found: Vec<_> = all
        .iter()
        .map(|g| (g.generation, g.started_at, g.ended_at, g.turns, g.last_turn_at, g.first_words.as_deref(), g.resumed_from))
        .collect();
    assert_eq!(
        found,
        [
            (1, at(1), Some(at(9)), 3, Some(at(4)), Some("\"one\"\nmore"), None),
            (2, at(9), Some(at(10)), 0, None, None, None),
            (3, at(10), None, 1, Some(at(11)), Some(&long[..200]), Some(1)),
        ]
    );
    assert_eq!(store.generations(KEY, 2).unwrap()[0].generation, 2, "the last ones are listed");
    assert!(store.generations("agent:main:local:dm:other", 2).unwrap().is_empty());
    drop(store);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE turn SET body = 'broken' WHERE id = 3", []).unwrap();
    let found = SqliteStore::open(&path).unwrap().generations(KEY, 100).unwrap();
    assert_eq!((found.len(), found[0].first_words.as_deref()), (3, None), "a row that cannot be read hides no other");
}
