use super::*;
use crate::index::Opened;

async fn open(tmp: &tempfile::TempDir) -> (Opened, Arc<Instances>) {
    open_while(tmp, true).await
}

/// `has_keepers`: whether the processes have keepers.
async fn open_while(tmp: &tempfile::TempDir, has_keepers: bool) -> (Opened, Arc<Instances>) {
    let opened = Index::open(&tmp.path().join("index.db")).unwrap();
    let boot = outlast_store::os::boot_id().unwrap();
    let all = Instances::load(opened.index.clone(), boot, Shutdown::default(), |_| has_keepers).await;
    (opened, all)
}

async fn close(opened: Opened) {
    opened.index.close().await;
    opened.writer.join();
}

fn this_process() -> Incarnation {
    outlast_store::os::incarnation_of(std::process::id()).unwrap()
}

fn process(n: u8) -> ProcessId {
    ProcessId::from_bytes([n; 6])
}

/// Writes that a process is the asker's.
async fn start(all: &Arc<Instances>, asker: &Asker, n: u8) {
    let holder = Holder { session: asker.session.clone(), key: asker.instance.key.clone(), earlier: false };
    all.hold(process(n), holder.clone());
    all.index.work(move |db| write_holder(db, process(n), &holder)).await.unwrap();
}

async fn holders(all: &Instances) -> Vec<ProcessId> {
    let mut rows: Vec<_> = all.index.work(read_held).await.unwrap().into_keys().collect();
    let mut memory: Vec<_> = lock(&all.book).held.keys().copied().collect();
    rows.sort();
    memory.sort();
    assert_eq!(rows, memory);
    rows
}

/// A notice about a process, as far as it matters here.
fn notice(n: u8, state: &str) -> impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static {
    let (id, state) = (process(n).to_string(), state.to_owned());
    move |db| {
        let sql = "INSERT INTO notice (key, id, kind, process, session, task, generation, created_at, open_since, state, event)
            VALUES (?1, ?1, 'completion', ?1, 's', '', '', 0, 0, ?2, '{}')";
        db.execute(sql, params![id, state]).map(drop)
    }
}

#[tokio::test]
async fn what_belongs_to_whom_is_forgotten_with_the_process_and_its_notices() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let asker = Asker::new(&all, "s", Instance::of_session(this_process(), 1, 0));
    asker.register().await;
    for n in 1..=4 {
        start(&all, &asker, n).await;
    }
    for (n, state) in [(1, "consumed"), (2, "pending"), (3, "delivered")] {
        all.index.work(notice(n, state)).await.unwrap();
    }
    for n in 1..=4 {
        all.forget(process(n)).await.unwrap();
    }
    assert_eq!(holders(&all).await, [process(2), process(3)], "their notices may be given or shown");
    all.index.work(|db| db.execute("DELETE FROM notice WHERE state = 'delivered'", [])).await.unwrap();
    all.sweep().await.unwrap();
    assert_eq!(holders(&all).await, [process(2)]);
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    assert_eq!(holders(&all).await, [process(2)]);
    close(opened).await;
}

#[tokio::test]
async fn only_so_many_are_told_apart_and_those_that_are_over_and_hold_nothing_make_room() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let of = |n: usize| Asker::new(&all, "s", Instance::of_session(this_process(), n as u64, uptime()));
    of(0).register().await;
    {
        let mut book = lock(&all.book);
        let known = book.known["s"].values().next().unwrap().clone();
        for n in 1..MAX_INSTANCES {
            let about = Instance::of_session(this_process(), n as u64, uptime());
            book.known.get_mut("s").unwrap().insert(about.key.clone(), KnownInstance { about, ..known.clone() });
        }
    }
    let count = || lock(&all.book).known["s"].len();
    let late = of(MAX_INSTANCES);
    late.register().await;
    assert_eq!(count(), MAX_INSTANCES, "it is not known");
    assert_eq!(late.holder(), None, "what it starts would count as left by one that has ended");
    start(&all, &of(1), 1).await;
    lock(&all.book).known.get_mut("s").unwrap().values_mut().take(10).for_each(|known| known.seen = -i64::MAX / 2);
    late.register().await;
    assert!(count() < MAX_INSTANCES, "{}", count());
    close(opened).await;
}

#[tokio::test]
async fn one_of_another_boot_is_over_and_one_that_cannot_be_read_is_forgotten() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let old = Incarnation { boot: this_process().boot ^ 1, ..this_process() };
    let before = Asker::new(&all, "s", Instance::of_client(old));
    start(&all, &before, 1).await;
    let row = KnownInstance::new(Instance::clone(&before.instance), uptime());
    all.index.work(move |db| write_known(db, "s", &row)).await.unwrap();
    all.index.work(|db| db.execute("INSERT INTO instance VALUES ('s', 'x', 'nonsense', 1, NULL, NULL)", [])).await.unwrap();
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    let now = Asker::new(&all, "s", Instance::of_client(this_process()));
    assert!(!now.takes(&process(1).to_string(), false) && now.takes(&process(1).to_string(), true));
    now.register().await;
    assert!(now.takes(&process(1).to_string(), false) && now.is_earlier(&process(1).to_string()));
    close(opened).await;
}

/// Sets when a session over HTTP was used last.
fn used(all: &Instances, asker: &Asker, at: Uptime) {
    lock(&all.book).known.get_mut("s").unwrap().get_mut(&asker.instance.key).unwrap().seen = at;
}

/// Longer ago than a session is open.
fn long_ago() -> Uptime {
    uptime() - 2 * outlast_core::HTTP_SESSION_IDLE
}

fn session_of(all: &Arc<Instances>, number: u64, begun: Uptime) -> Asker {
    Asker::new(all, "s", Instance::of_session(this_process(), number, begun))
}

fn takes(asker: &Asker, n: u8) -> bool {
    asker.takes(&process(n).to_string(), false)
}

#[tokio::test]
async fn a_session_that_was_left_stays_so_for_the_next_engine() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let left = session_of(&all, 1, long_ago());
    left.register().await;
    start(&all, &left, 1).await;
    used(&all, &left, long_ago());
    // As of an engine that was killed, whose row is as old as the last use.
    all.index.work(|db| db.execute("UPDATE instance SET seen = ?1", [long_ago()])).await.unwrap();
    all.save().await;
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    let next = session_of(&all, 2, uptime());
    next.register().await;
    assert!(takes(&next, 1) && next.is_earlier(&process(1).to_string()));
    close(opened).await;
}

#[tokio::test]
async fn what_a_session_leaves_passes_to_one_that_began_after_its_last_use_and_is_open_when_it_ends() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let (beside, left) = (session_of(&all, 1, long_ago() - 1), session_of(&all, 2, 0));
    beside.register().await;
    left.register().await;
    start(&all, &left, 1).await;
    let next = session_of(&all, 3, uptime());
    next.register().await;
    assert_eq!(next.belonging(process(1)), Belonging::Other, "it may be used again");
    used(&all, &left, long_ago());
    beside.register().await;
    assert_eq!((beside.belonging(process(1)), takes(&beside, 1)), (Belonging::Ended, false));
    next.register().await;
    assert!(takes(&next, 1) && next.is_earlier(&process(1).to_string()));
    assert_eq!(beside.belonging(process(1)), Belonging::Other);
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    assert!(takes(&Asker { all: Arc::clone(&all), ..next }, 1), "it is on disk");
    close(opened).await;
}

#[tokio::test]
async fn a_session_is_open_while_one_of_its_requests_is_under_way() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let waits = session_of(&all, 1, long_ago());
    let under_way = waits.register().await;
    start(&all, &waits, 1).await;
    used(&all, &waits, long_ago());
    let next = session_of(&all, 2, uptime());
    next.register().await;
    assert_eq!(next.belonging(process(1)), Belonging::Other);
    // The engine that follows finds it open as well.
    let seen = |db: &Connection| db.query_row("SELECT MIN(seen) FROM instance", [], |r| r.get::<_, Uptime>(0));
    assert!(all.index.work(seen).await.unwrap() > long_ago());
    drop(under_way);
    next.register().await;
    assert_eq!(next.belonging(process(1)), Belonging::Other, "it was used until just now");
    close(opened).await;
}

#[tokio::test]
async fn a_session_that_is_used_beside_another_one_is_so_after_a_kill_of_the_engine() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let first = session_of(&all, 1, uptime());
    first.register().await;
    let second = session_of(&all, 2, uptime());
    second.register().await;
    first.register().await;
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    let begun = match second.instance.kind {
        InstanceKind::Session { begun } => begun,
        _ => panic!(),
    };
    assert!(lock(&all.book).known["s"][&first.instance.key].seen > begun);
    close(opened).await;
}

#[tokio::test]
async fn an_end_that_falls_into_the_registration_of_another_one_is_kept() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let of = |pid| Instance::of_client(Incarnation { pid, ..this_process() });
    {
        let mut book = lock(&all.book);
        let step = book.registration("s", &of(1), uptime()).unwrap();
        book.carry_out(step);
    }
    let (known, step) = {
        let book = lock(&all.book);
        (book.known["s"].values().next().unwrap().clone(), book.registration("s", &of(2), uptime()).unwrap())
    };
    let ended = lock(&all.book).note_end(of(1).client, uptime());
    let write = step.clone();
    let write = move |db: &Connection| {
        write_known(db, "s", &known)?;
        ended.iter().try_for_each(|(session, known)| write_known(db, session, known))?;
        write.write(db)
    };
    all.index.work(write).await.unwrap();
    lock(&all.book).carry_out(step);
    assert!(lock(&all.book).known["s"][&of(1).key].client_gone.is_some());
    let rows = all.index.work(read_known).await.unwrap();
    assert!(rows.iter().any(|(_, known)| known.about == of(1) && known.client_gone.is_some()), "{rows:?}");
    close(opened).await;
}

#[tokio::test]
async fn a_row_of_an_earlier_build_is_read() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let about = Instance::of_server(this_process(), this_process(), Some("x"));
    let row = (about.key.clone(), serde_json::to_string(&about).unwrap());
    all.index.work(|db| db.execute("INSERT INTO instance (session, key, about, seen) VALUES ('s', ?1, ?2, 7)", row)).await.unwrap();
    assert_eq!(all.index.work(read_known).await.unwrap(), [("s".to_owned(), KnownInstance::new(about, 7))]);
    close(opened).await;
}

#[tokio::test]
async fn an_instance_of_another_pid_namespace_is_not_taken_for_one_that_has_ended() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let theirs = Asker::new(&all, "s", Instance::of_client(Incarnation { pid: u32::MAX >> 1, ..this_process() }));
    start(&all, &theirs, 1).await;
    let about = Instance::clone(&theirs.instance);
    let about = serde_json::to_string(&about).unwrap().replacen('{', r#"{"pid_namespace":"pid:[1]","#, 1);
    let sql = "INSERT INTO instance (session, key, about, seen) VALUES ('s', ?1, ?2, 1)";
    all.index.work(move |db| db.execute(sql, [theirs.instance.key.clone(), about])).await.unwrap();
    let row = |db: &Connection| {
        let sql = "SELECT about, seen, server_gone, client_gone FROM instance WHERE seen = 1";
        db.query_row(sql, [], |r| {
            Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?, r.get::<_, Option<i64>>(2)?, r.get::<_, Option<i64>>(3)?))
        })
    };
    let before = all.index.work(row).await.unwrap();
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    let here = Asker::new(&all, "s", Instance::of_client(this_process()));
    here.register().await;
    assert!(!takes(&here, 1) && here.takes(&process(1).to_string(), true));
    assert!(here.belonging(process(1)) != Belonging::Ended && here.is_earlier(&process(1).to_string()));
    all.save().await;
    assert_eq!(all.index.work(row).await.unwrap(), before, "its own engine finds it as it was");
    close(opened).await;
}

#[tokio::test]
async fn what_was_started_before_a_restart_of_the_container_passes_to_the_next_conversation() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let theirs = Asker::new(&all, "s", Instance::of_client(Incarnation { pid: u32::MAX >> 1, ..this_process() }));
    start(&all, &theirs, 1).await;
    let about = serde_json::to_string(&*theirs.instance).unwrap().replacen('{', r#"{"pid_namespace":"pid:[1]","#, 1);
    let sql = "INSERT INTO instance (session, key, about, seen) VALUES ('s', ?1, ?2, 1)";
    all.index.work(move |db| db.execute(sql, [theirs.instance.key.clone(), about])).await.unwrap();
    close(opened).await;
    let (opened, all) = open_while(&tmp, false).await;
    let next = Asker::new(&all, "s", Instance::of_client(this_process()));
    next.register().await;
    assert!(takes(&next, 1) && next.is_earlier(&process(1).to_string()));
    close(opened).await;
}

#[tokio::test]
async fn a_process_whose_start_is_under_way_passes_with_the_others() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let left = session_of(&all, 1, 0);
    left.register().await;
    all.hold(process(1), left.holder().unwrap());
    used(&all, &left, long_ago());
    let next = session_of(&all, 2, uptime());
    next.register().await;
    assert_eq!(all.holder_of(process(1)), next.holder().map(|holder| Holder { earlier: true, ..holder }));
    close(opened).await;
}

#[tokio::test]
async fn what_belongs_to_whom_is_kept_if_the_removal_of_the_process_is_rolled_back() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let asker = session_of(&all, 1, 0);
    asker.register().await;
    start(&all, &asker, 1).await;
    let refuse = "CREATE TRIGGER refuse BEFORE DELETE ON process BEGIN SELECT RAISE(ROLLBACK, 'no'); END";
    let row = "INSERT INTO process VALUES (?1, 0, 's', '', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0)";
    all.index.work(move |db| db.execute_batch(refuse).and_then(|()| db.execute(row, [process(1).to_string()]))).await.unwrap();
    all.forget(process(1)).await.unwrap_err();
    assert_eq!(holders(&all).await, [process(1)]);
    close(opened).await;
}

#[tokio::test]
async fn a_session_that_was_ended_stays_so_and_the_next_one_has_what_it_left() {
    let tmp = tempfile::tempdir().unwrap();
    let (opened, all) = open(&tmp).await;
    let [ended, beside, next] = [1, 2, 3].map(|n| Asker::new(&all, "s", Instance::of_session(this_process(), n, uptime())));
    let takes = |asker: &Asker| asker.takes(&process(1).to_string(), false);
    // One that is not known is no mistake.
    ended.end().await.unwrap();
    ended.register().await;
    beside.register().await;
    start(&all, &ended, 1).await;
    ended.end().await.unwrap();
    assert_eq!(beside.belonging(process(1)), Belonging::Ended);
    // A call that was under way goes on, and does not begin it again.
    ended.register().await;
    assert_eq!((beside.belonging(process(1)), takes(&ended)), (Belonging::Ended, true));
    close(opened).await;
    let (opened, all) = open(&tmp).await;
    let [beside, next] = [beside, next].map(|asker| Asker { all: Arc::clone(&all), ..asker });
    assert!(!takes(&beside));
    next.register().await;
    assert!(takes(&next) && next.is_earlier(&process(1).to_string()));
    assert_eq!(beside.belonging(process(1)), Belonging::Other);
    close(opened).await;
}
