use super::*;
use crate::index::Opened;

async fn open(tmp: &tempfile::TempDir) -> (Opened, Arc<Instances>) {
    let opened = Index::open(&tmp.path().join("index.db")).unwrap();
    let boot = outlast_store::os::boot_id().unwrap();
    let all = Instances::load(opened.index.clone(), boot, Shutdown::default()).await;
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

fn session_of(all: &Arc<Instances>, number: u64, begun: Uptime) -> Asker {
    Asker::new(all, "s", Instance::of_session(this_process(), number, begun))
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
