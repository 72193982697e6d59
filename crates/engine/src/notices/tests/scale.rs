//! The work for a query, beside a hundred thousand other notices.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Fills tables with notices of this state, of one session or of twenty others, and with their deliveries.
fn filled(desk: &Desk, many: u32, session: &str, state: &str) {
    insert(&desk.db, &completion(1, owner(session, "")), &hook(), desk.now).unwrap();
    let settled = if state == "pending" { 0 } else { desk.now.utc.micros() };
    desk.db.execute("UPDATE notice SET state = ?1, settled_at = ?2", params![state, settled]).unwrap();
    desk.db
        .execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO notice (key, id, kind, process, session, task, generation, created_at, open_since, state, settled_at, event)
             SELECT key || i, id || i, kind, process || i, iif(session = '', 'other ' || (i % 20), session), task, generation, created_at,
                 open_since, state, settled_at, event FROM n, notice WHERE seq = 1",
            params![many],
        )
        .unwrap();
    desk.db.execute("INSERT INTO delivery (sink, seq, session, state, due_up) SELECT 'hook', seq, session, 'delivered', 0 FROM notice WHERE seq > 1", []).unwrap();
    desk.db.execute("UPDATE delivery SET state = 'delivered'", []).unwrap();
}

/// Counts the steps of SQLite's virtual machine for a query, which do not depend on the load of the machine.
struct Steps(Arc<AtomicU64>);

impl Steps {
    /// How many steps are counted at once.
    const AT_ONCE: u64 = 10;

    fn count(db: &mut Connection) -> Self {
        let steps = Arc::new(AtomicU64::new(0));
        let more = Arc::clone(&steps);
        let go_on = move || {
            more.fetch_add(Self::AT_ONCE, Relaxed);
            false
        };
        db.progress_handler(Self::AT_ONCE as i32, Some(go_on)).unwrap();
        Self(steps)
    }

    fn of(&self, what: impl FnOnce()) -> u64 {
        let before = self.0.load(Relaxed);
        what();
        self.0.load(Relaxed) - before
    }
}

#[test]
fn a_claim_takes_as_much_whatever_else_there_is() {
    for (session, state) in [("a", "delivered"), ("", "pending")] {
        let mut desk = Desk::new();
        // A hundred thousand settled ones of the same session, or open ones of others.
        filled(&desk, 100_000, session, state);
        let steps = Steps::count(&mut desk.db);
        let mut n = 0;
        let mut figures = Vec::new();
        figures.push((
            "claim",
            steps.of(|| {
                n += 1;
                desk.put(&posted(&n.to_string(), owner("a", ""), "")).unwrap();
                let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
                assert_eq!(given.len(), 1);
                desk.settle(&given[0], None, &Verdict::Delivered);
            }),
        ));
        figures.push((
            "nothing",
            steps.of(|| {
                assert!(desk.claim_as("a", "", TakerKind::Terminal, 10).is_empty());
                next_lapse(&desk.db, "a", desk.now).unwrap();
            }),
        ));
        figures.push(("last_seq", steps.of(|| assert!(last_seq(&desk.db).unwrap() > 100_000))));
        figures.push((
            "answer_begins",
            steps.of(|| {
                n += 1;
                let id = ProcessId::from_bytes([9, 9, 9, 9, 9, n as u8]).to_string();
                answer_begins(&desk.db, &end_key(&id), desk.now).unwrap();
                end_seen(&desk.db, &id, "wait", desk.now).unwrap();
            }),
        ));
        figures.push((
            "route",
            steps.of(|| {
                super::super::writer::route_of(&desk.db, "unknown").unwrap();
            }),
        ));
        for newest in [false, true] {
            figures.push((
                "conversation",
                steps.of(|| {
                    let filter = NoticeFilter { session: Some("a".into()), after: 99_000, newest, limit: 10, ..NoticeFilter::default() };
                    let found = read(&desk.db, &filter).unwrap();
                    assert_eq!(found.len(), if state == "delivered" { 10 } else { 1 });
                    assert!(found.is_sorted_by_key(|e| if newest { -(e.notice.seq as i64) } else { e.notice.seq as i64 }));
                }),
            ));
        }
        figures.push((
            "history",
            steps.of(|| {
                let filter = NoticeFilter { process: Some(id(7).to_string()), limit: 10, ..NoticeFilter::default() };
                assert!(read(&desk.db, &filter).unwrap().is_empty());
            }),
        ));
        figures.push((
            "take",
            steps.of(|| {
                assert!(take(&desk.db, "hook", 10, "w", SECOND, desk.now).unwrap().is_empty());
                next_due(&desk.db, "hook", desk.now).unwrap();
                owed(&desk.db, &hook(), desk.now).unwrap();
            }),
        ));
        figures.push(("dead", steps.of(|| assert!(dead(&desk.db, None, 10).unwrap().is_empty()))));
        println!("{state}: {figures:?} steps");
        // A look at every notice would take a few for each of them.
        for (what, steps) in figures {
            assert!(steps < 2_000, "{what}: {steps} steps");
        }
        desk.pass(8 * DAY);
        let removed = steps.of(|| assert_eq!(prune(&desk.db, desk.now.utc, &hook()).unwrap(), state == "delivered"));
        println!("{state}: {removed} steps to remove the first");
        // It looks at what sinks did, and at no notice.
        desk.db.execute("DELETE FROM delivery", []).unwrap();
        let swept = steps.of(|| sweep(&desk.db, desk.now.utc).unwrap());
        assert!(swept < 2_000, "{swept} steps to sweep up");
    }
}
