use super::*;
use crate::config::{KeeperProgram, UserInfo};
use crate::facts::{Facts, FolderLook};
use crate::notices::NamedBy;
use crate::remove;
use crate::table::{ProcessView, WhichProcesses};
use outlast_store::meta::flag;
use outlast_wire::v1::ErrorKind;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// An engine that starts nothing: its keeper is none.
pub(crate) async fn engine(tmp: &tempfile::TempDir) -> Engine {
    engine_with(tmp, |_| {}).await
}

async fn engine_with(tmp: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Engine {
    let user = UserInfo { name: "test".into(), home: tmp.path().into(), shell: "/bin/bash".into() };
    let mut config = Config::new(tmp.path().join("home"), "/bin/false", KeeperProgram::Binary("/bin/true".into()), user);
    config.run_candidates = vec![tmp.path().to_owned()];
    config.detach = false;
    config.idle_exit = Duration::ZERO;
    change(&mut config);
    Engine::start(config).await.unwrap()
}

#[tokio::test]
async fn an_engine_that_has_stopped_makes_no_answers_up() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    engine.stop().await;
    let person = Owner::default();
    let errors = [
        engine.parts.table.all(&person, WhichProcesses::All).await.err(),
        engine.parts.table.counts().await.err(),
        engine.parts.table.interrupt("s".into()).await.err(),
        engine.parts.table.resolve("proc_abcdef012345", &person, None).await.err(),
    ];
    for error in errors {
        assert_eq!(error.unwrap().kind, ErrorKind::Unavailable);
    }
}

/// Gives up on `what` after it was polled this often; `false` if it was done before that.
pub(crate) async fn left_after(polls: usize, what: impl Future) -> bool {
    let (mut what, mut polled) = (std::pin::pin!(what), 0);
    std::future::poll_fn(|cx| {
        polled += 1;
        match what.as_mut().poll(cx) {
            std::task::Poll::Ready(_) => std::task::Poll::Ready(false),
            std::task::Poll::Pending if polled >= polls => std::task::Poll::Ready(true),
            std::task::Poll::Pending => std::task::Poll::Pending,
        }
    })
    .await
}

/// Waits until every process that is known has a folder, and every folder a process.
pub(crate) async fn until_listed_as_on_disk(engine: &Engine) -> usize {
    let agree = async {
        loop {
            let folders = std::fs::read_dir(engine.parts.home.processes()).unwrap().count();
            if engine.parts.table.counts().await.unwrap().known == folders as u64 {
                return folders;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), agree).await.expect("the list and the folders are the same in the end")
}

/// What a run writes down of a spec.
fn kept(engine: &Engine, id: ProcessId, spec: outlast_core::Spec) -> outlast_store::spec::Kept {
    outlast_store::spec::Kept {
        id,
        spec,
        hash: String::new(),
        accepted_at: engine.parts.now(),
        cwd: "/".into(),
        shell: None,
        command_scrubbed: false,
        masks: None,
        env_scrubbed: Vec::new(),
        warnings: Vec::new(),
        keep: outlast_store::segments::Keep::default(),
    }
}

/// A process that is over, written down as a run leaves it.
async fn ended(engine: &Engine, n: u8) -> ProcessView {
    let id = ProcessId::from_bytes([n; 6]);
    let kept = kept(engine, id, outlast_core::Spec::shell("x"));
    let dir = engine.parts.home.process(id);
    dir.create().unwrap();
    let failure = outlast_core::StartFailure { errno: libc::ENOENT, what: "x".into() };
    crate::final_record::never_started(&dir, id, failure, engine.parts.now()).unwrap();
    engine.parts.table.reserve(id, String::new(), Owner::default()).await.unwrap();
    let view = engine.parts.table.accept_process(Facts::accepted(kept).with(&FolderLook::look(&dir, 0)), None).await.unwrap();
    assert!(view.facts.phase.is_final());
    view
}

#[tokio::test]
async fn a_removal_whose_caller_leaves_is_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    for polls in 1.. {
        let view = ended(&engine, polls as u8).await;
        let left = left_after(polls, remove::forget(&engine.parts, &view)).await;
        // The process that was begun is removed in the end, wherever its caller left.
        let gone = async {
            while view.dir.path.exists() || engine.parts.table.counts().await.unwrap().known > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), gone).await.expect("no ghost is left");
        if !left {
            break;
        }
    }
    engine.stop().await;
}

#[tokio::test]
async fn a_removal_is_done_once_the_folder_is_gone() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let view = ended(&engine, 1).await;
    engine.parts.index.close().await;
    remove::forget(&engine.parts, &view).await.unwrap();
    assert_eq!(engine.parts.table.counts().await.unwrap().known, 0);
    assert_eq!(until_listed_as_on_disk(&engine).await, 0);
    engine.stop().await;
}

#[tokio::test]
async fn a_removal_that_did_not_begin_leaves_the_process_listed() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let view = ended(&engine, 1).await;
    // What is in the way cannot be taken for a folder, nor removed as one.
    let aside = view.dir.path.with_file_name(format!("{}.removed", view.id()));
    std::fs::write(&aside, "").unwrap();
    let done = remove::forget(&engine.parts, &view).await;
    assert!(done.is_err() && view.dir.path.exists(), "{done:?}");
    // It is put back before the next question is answered.
    assert_eq!(engine.parts.table.counts().await.unwrap().known, 1);
    engine.stop().await;
}

/// A watched process whose end is to be reported, as its keeper has it while it runs.
async fn watched(engine: &Engine, n: u8) -> (ProcessView, outlast_store::meta::Meta) {
    let id = ProcessId::from_bytes([n; 6]);
    let mut spec = outlast_core::Spec::shell("x");
    spec.owner.session = Some("s".into());
    spec.tell = outlast_core::Tell::end().line("ready");
    spec.tell.unless_waited_for = true;
    let kept = kept(engine, id, spec);
    let dir = engine.parts.home.process(id);
    dir.create().unwrap();
    let meta = outlast_store::meta::Meta::hold(&dir, id, engine.parts.now()).unwrap().unwrap();
    meta.live().cmd.store(1, SeqCst);
    meta.live().cmd_ticks.store(1, SeqCst);
    meta.live().set(flag::STARTED);
    engine.parts.table.reserve(id, String::new(), Owner::default()).await.unwrap();
    engine.parts.outbox.accept(Facts::accepted(kept.clone()), NamedBy::Client, None).await.unwrap();
    (engine.parts.table.accept_process(Facts::accepted(kept), None).await.unwrap(), meta)
}

/// Makes the index refuse whatever is written, as a full disk does, or lets it write again.
async fn full(engine: &Engine, is_full: bool) {
    engine.parts.index.work(move |db| db.pragma_update(None, "query_only", is_full)).await.unwrap();
}

fn matched(view: &ProcessView, up: u64) {
    let lines = vec!["ready".to_owned()];
    let at = outlast_core::Time::from_micros(up as i64);
    let matched = outlast_core::Matched { at, up, offset: up, upto: up + 6, pattern: "ready".into(), count: 1, lines, cut: false };
    let mut journal = outlast_store::journal::Journal::open_for_append(&view.dir).unwrap();
    journal.append(&outlast_core::Record::Matched(matched)).unwrap();
}

async fn look(engine: &Engine, view: &ProcessView) {
    let cursor = engine.parts.table.facts(view.id()).await.unwrap().cursor;
    engine.parts.intake.apply_look(view.id(), FolderLook::look(&view.dir, cursor)).await.unwrap();
}

/// The kinds of all notices, and whether the row of the process says that it is over for good.
async fn told(engine: &Engine, view: &ProcessView) -> (Vec<String>, bool) {
    let id = view.id().to_string();
    let read = move |db: &rusqlite::Connection| {
        let kinds = db.prepare("SELECT kind FROM notice ORDER BY seq")?.query_map([], |r| r.get(0))?.collect::<Result<Vec<_>, _>>()?;
        Ok((kinds, db.query_row("SELECT COALESCE((SELECT final FROM progress WHERE process = ?1), 0)", [id], |r| r.get(0))?))
    };
    engine.parts.index.work(read).await.unwrap()
}

async fn until_told(engine: &Engine, view: &ProcessView, wanted: &[&str]) {
    let all = async {
        while told(engine, view).await.0 != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), all).await.is_ok();
    assert!(in_time, "{:?} instead of {wanted:?}", told(engine, view).await);
}

#[tokio::test]
async fn a_match_that_a_full_disk_refused_is_told_though_a_later_one_comes_first() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (view, _meta) = watched(&engine, 1).await;
    matched(&view, 1_000_000);
    full(&engine, true).await;
    look(&engine, &view).await;
    full(&engine, false).await;
    // Long enough after the first for the limiter.
    matched(&view, 101_000_000);
    look(&engine, &view).await;
    until_told(&engine, &view, &["watch_match", "watch_match"]).await;
    engine.stop().await;
}

#[tokio::test]
async fn a_match_that_is_told_very_late_does_not_release_the_breaker() {
    let now = outlast_store::os::boottime_ns() / 1_000;
    let ups = [now - 1_000_000, now - 1_000_000, now.saturating_sub(100_000_000)];
    assert_eq!(told_of_matches(1, &ups).await.0, ["watch_match", "watch_overflow_tripped"]);
}

#[tokio::test]
async fn a_match_of_another_boot_holds_nothing_back_in_this_one() {
    let now = outlast_store::os::boottime_ns() / 1_000;
    // No time of this boot, which nothing may be measured by.
    let (kinds, due) = told_of_matches(2, &[now + 86_400_000_000, now - 1_000_000, now - 1_000_000]).await;
    assert_eq!(kinds, ["watch_match", "watch_match", "watch_overflow_tripped"]);
    assert!(due.is_some_and(|due| due < now + 60_000_000), "{due:?}, and it is {now}");
}

/// The notices for several processes that match at these times, with this many of them in a burst, and until when the breaker holds back.
async fn told_of_matches(burst: u32, ups: &[u64]) -> (Vec<String>, Option<u64>) {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine_with(&tmp, |c| c.watch = outlast_core::Rules { burst, ..Default::default() }).await;
    let mut kept = Vec::new();
    for (n, up) in (1..).zip(ups) {
        let (view, meta) = watched(&engine, n).await;
        matched(&view, *up);
        look(&engine, &view).await;
        kept.push((view, meta));
    }
    let kinds = told(&engine, &kept[0].0).await.0;
    let due = engine.parts.outbox.tick(engine.parts.now()).await.unwrap();
    engine.stop().await;
    (kinds, due)
}

#[tokio::test]
async fn an_index_that_knows_of_an_end_has_the_notice_of_it() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (view, meta) = watched(&engine, 1).await;
    let now = engine.parts.now();
    recorded(&meta, now);
    full(&engine, true).await;
    look(&engine, &view).await;
    full(&engine, false).await;
    meta.live().closed_at.store(now.micros(), SeqCst);
    meta.live().set(flag::OUTPUT_CLOSED | flag::DONE);
    look(&engine, &view).await;
    assert!(engine.parts.table.facts(view.id()).await.unwrap().phase.is_final());
    let (kinds, is_final) = told(&engine, &view).await;
    assert_eq!(kinds.is_empty(), !is_final, "an engine that starts now believes the row");
    until_told(&engine, &view, &["completion"]).await;
    engine.stop().await;
}

#[tokio::test]
async fn an_end_that_is_read_again_is_told_once() {
    let tmp = tempfile::tempdir().unwrap();
    let first = engine(&tmp).await;
    let (view, meta) = watched(&first, 1).await;
    ends(&meta, first.parts.now());
    look(&first, &view).await;
    assert_eq!(told(&first, &view).await, (vec!["completion".into()], true));
    first.parts.index.work(|db| db.execute_batch("DELETE FROM progress")).await.unwrap();
    first.stop().await;
    drop((first, meta));
    let second = engine(&tmp).await;
    assert_eq!(told(&second, &view).await, (vec!["completion".into()], true));
    let found = second.parts.outbox.read(crate::notices::NoticeFilter { limit: 9, ..Default::default() }).await.unwrap();
    assert!(!found[0].notice.repeat && found[0].attempts == 0, "{found:?}");
    second.stop().await;
}

#[tokio::test]
async fn an_end_that_was_answered_while_the_disk_was_full_is_not_told_again() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (view, meta) = watched(&engine, 1).await;
    let now = engine.parts.now();
    recorded(&meta, now);
    full(&engine, true).await;
    look(&engine, &view).await;
    // What an answer does once it is in the socket.
    engine.parts.outbox.end_seen_later(view.id(), "wait", now).await;
    engine.parts.table.consumed(view.id(), crate::facts::EndSeen::Seen).await;
    full(&engine, false).await;
    until_told(&engine, &view, &["completion"]).await;
    assert_eq!(state(&engine).await, "consumed");
    engine.stop().await;
}

#[tokio::test]
async fn an_end_whose_answer_was_not_confirmed_while_the_disk_was_full_is_told_as_a_repeat() {
    for answered in [false, true] {
        let tmp = tempfile::tempdir().unwrap();
        let engine = engine(&tmp).await;
        let (view, meta) = watched(&engine, 1).await;
        let now = engine.parts.now();
        recorded(&meta, now);
        full(&engine, true).await;
        look(&engine, &view).await;
        if answered {
            // What the answer to a relay does before it is sent, and what follows if the relay dies before it confirms the answer.
            engine.parts.intake.answer_begins(view.id(), now).await.unwrap();
            engine.parts.outbox.answer_failed(view.id()).await;
        }
        full(&engine, false).await;
        until_told(&engine, &view, &["completion"]).await;
        let found = engine.parts.outbox.read(crate::notices::NoticeFilter { limit: 9, ..Default::default() }).await.unwrap();
        assert_eq!((found.len(), found[0].notice.repeat), (1, answered));
        engine.stop().await;
    }
}

#[tokio::test]
async fn an_answer_holds_a_notice_whose_commit_a_full_disk_refused_at_first() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (view, meta) = watched(&engine, 1).await;
    recorded(&meta, engine.parts.now());
    // The commit fails, and no statement before it.
    let refuse = "CREATE TABLE one_more (id INTEGER PRIMARY KEY);
        CREATE TABLE refused (id INTEGER REFERENCES one_more (id) DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER refuse AFTER INSERT ON notice BEGIN INSERT INTO refused VALUES (1); END;";
    engine.parts.index.work(move |db| db.execute_batch(refuse)).await.unwrap();
    let waiting = engine.parts.waiters.begin(crate::notices::end_key(view.id()));
    look(&engine, &view).await;
    assert_eq!(told(&engine, &view).await.0, [""; 0]);
    drop(waiting);
    engine.parts.index.work(|db| db.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    until_told(&engine, &view, &["completion"]).await;
    engine.parts.intake.answer_begins(view.id(), engine.parts.now()).await.unwrap();
    assert_eq!(state(&engine).await, "answering");
    engine.stop().await;
}

#[tokio::test]
async fn an_answer_that_was_prepared_for_a_client_that_left_is_taken_back() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (view, meta) = watched(&engine, 1).await;
    recorded(&meta, engine.parts.now());
    let key = crate::notices::end_key(view.id());
    let waiting = engine.parts.waiters.begin(key.clone());
    look(&engine, &view).await;
    assert!(engine.parts.waiters.take_permit(&key));
    // As if the client had left between the transaction and its commit.
    drop(waiting);
    engine.parts.outbox.keep_permits(vec![key.clone()]).await;
    assert_eq!((state(&engine).await.as_str(), engine.parts.waiters.take_permit(&key)), ("pending", false));
    engine.stop().await;
}

/// The state of the only notice.
async fn state(engine: &Engine) -> String {
    let read = |db: &rusqlite::Connection| db.query_row("SELECT state FROM notice", [], |r| r.get::<_, String>(0));
    engine.parts.index.work(read).await.unwrap()
}

/// Its end is on record, and its output may be open.
fn recorded(meta: &outlast_store::meta::Meta, at: outlast_core::Time) {
    let ending = outlast_core::Ending { outcome: outlast_core::Outcome::Unknown, cause: outlast_core::Cause::OfItsOwn, at, oom: false };
    meta.record_ended(&ending, meta.live().commit().0.base, 0).unwrap();
    meta.live().set(flag::RECORDED);
}

fn ends(meta: &outlast_store::meta::Meta, at: outlast_core::Time) {
    recorded(meta, at);
    meta.live().closed_at.store(at.micros(), SeqCst);
    meta.live().set(flag::OUTPUT_CLOSED | flag::DONE);
    meta.release().unwrap();
}

#[tokio::test]
async fn matches_that_only_the_meta_file_holds_are_told_once_at_the_end() {
    use outlast_store::meta::{Commit, Waiting, Watched};
    for journalled in [false, true] {
        let tmp = tempfile::tempdir().unwrap();
        let engine = engine(&tmp).await;
        let (view, meta) = watched(&engine, 1).await;
        let output = b"one\nready now\nready again\n";
        outlast_store::segments::LogWriter::open(&view.dir, Default::default()).write_at(0, output).unwrap();
        meta.live().begin_drop(Commit { base: output.len() as u64, lines: 3, ..Commit::default() });
        let waiting = Waiting { count: 2, offset: 4, pattern: 0, at: 5_000_000, up: 4 };
        let begun = outlast_store::journal::Journal::open_for_append(&view.dir).unwrap().end();
        let upto = output.len() as u64;
        meta.live().set_watched(&Watched { upto, counted: false, waiting: Some(waiting), begun: Some(begun) });
        if journalled {
            // Both keepers were killed after the record and before they noted that no match waits.
            matched(&view, 4);
            look(&engine, &view).await;
        }
        ends(&meta, engine.parts.now());
        look(&engine, &view).await;
        look(&engine, &view).await;
        let (mut kinds, is_final) = told(&engine, &view).await;
        kinds.sort();
        assert_eq!((kinds, is_final), (vec!["completion".into(), "watch_match".into()], true));
        let found =
            engine.parts.outbox.read(crate::notices::NoticeFilter { kind: Some("watch_match".into()), limit: 9, ..Default::default() });
        let text = outlast_text::announce(&found.await.unwrap()[0].notice);
        assert!(text.contains(if journalled { "ready" } else { "ready now\n| ready again" }), "{text}");
        engine.stop().await;
    }
}

#[tokio::test]
async fn a_hook_is_called_after_all_if_a_waiting_client_was_not_answered() {
    for answered in [false, true] {
        let tmp = tempfile::tempdir().unwrap();
        let engine = engine_with(&tmp, |c| c.sinks = vec![crate::Push::observer("hook")]).await;
        let (view, meta) = watched(&engine, 1).await;
        let waiting = engine.parts.waiters.begin(crate::notices::end_key(view.id()));
        ends(&meta, engine.parts.now());
        look(&engine, &view).await;
        drop(waiting);
        let (outbox, now) = (&engine.parts.outbox, engine.parts.now());
        let take = || outbox.take("hook".into(), 9, "word".into(), 60_000_000, now);
        assert!(take().await.unwrap().0.is_empty(), "it is put off");
        if answered {
            outbox.end_seen_later(view.id(), "wait", now).await;
        } else {
            outbox.answer_failed(view.id()).await;
        }
        assert_eq!(take().await.unwrap().0.len(), usize::from(!answered));
        assert_eq!(outbox.owed().await.unwrap(), u64::from(!answered));
        engine.stop().await;
    }
}
