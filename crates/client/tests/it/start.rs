use crate::fake::Fake;
use outlast_client::{Client, ClientError, Connect, code};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// A program that simulates the engine's start. A shell writes the file: if it were open for writing here, a forked child could
/// keep it busy.
fn program(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("outlast");
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let status = std::process::Command::new("sh").args(["-c", write, "sh", script]).arg(&path).status().unwrap();
    assert!(status.success());
    path
}

#[tokio::test]
async fn an_engine_is_started_where_none_runs() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
    let home = dir.path().join("deep/home");
    let script = format!(
        r#"test "$1 $2 $4 $5 $6" = "__engine --home --ready-fd 1 --detach" || exit 9; ln -s {0} "$3/run"; echo started >> {0}/starts; echo ready"#,
        dir.path().display()
    );
    let to = Connect::to(&home).starting(program(dir.path(), &script));
    let accept = async {
        let mut fakes = Vec::new();
        for _ in 0..3 {
            let mut fake = Fake::new(listener.accept().await.unwrap().0);
            fake.hello().await;
            fakes.push(fake);
        }
    };
    // Three clients come at once; one starts the engine, and the others find it.
    let (a, b, c, ()) = tokio::join!(Client::connect(&to), Client::connect(&to), Client::connect(&to), accept);
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(std::fs::read_to_string(dir.path().join("starts")).unwrap(), "started\n");
    assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn an_engine_that_no_longer_listens_is_let_to_end() {
    use rustix::fs::{FlockOperation, flock};
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let last = std::fs::File::create(home.join("lock")).unwrap();
    flock(&last, FlockOperation::LockExclusive).unwrap();
    let script = format!(r#"flock -n "$3/lock" true || exit 9; ln -s {} "$3/run"; echo ready"#, dir.path().display());
    let to = Connect::to(&home).starting(program(dir.path(), &script));
    let ending = async {
        // The client holds the lock of starters; the last engine still holds the home.
        let starters = loop {
            match std::fs::File::open(home.join("start.lock")) {
                Ok(file) => break file,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        while flock(&starters, FlockOperation::NonBlockingLockShared).is_ok() {
            flock(&starters, FlockOperation::Unlock).unwrap();
            tokio::task::yield_now().await;
        }
        drop(last);
        let mut fake = Fake::new(listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    };
    let (client, _fake) = tokio::join!(Client::connect(&to), ending);
    client.map(|_| ()).unwrap();
}

#[tokio::test]
async fn an_engine_that_another_program_has_just_started_is_waited_for() {
    use rustix::fs::{FlockOperation, flock};
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    // The engine holds the home from its first moment on, and listens a little later.
    let lock = std::fs::File::create(home.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let to = Connect::to(&home).starting(program(dir.path(), "exit 9"));
    let starting = async {
        while !home.join("start.lock").exists() {
            tokio::task::yield_now().await;
        }
        let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
        std::os::unix::fs::symlink(dir.path(), home.join("run")).unwrap();
        let mut fake = Fake::new(listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    };
    let (client, _fake) = tokio::join!(Client::connect(&to), starting);
    client.map(|_| ()).unwrap();
    drop(lock);
}

#[tokio::test]
async fn an_engine_that_cannot_start_has_its_last_words_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("engine.log"), "words of an earlier life\n").unwrap();
    for (script, want) in [
        ("echo first >&2; echo 'cannot open index: disk is full' >&2; exit 1", "cannot open index: disk is full"),
        ("exit 3", "ended at once, without a word (exit status: 3)"),
        ("kill -9 $$", "signal: 9"),
        ("sh -c 'kill -9 $$' & exit 0", "it was killed while it started"),
        ("(echo 'the home is taken' >&2; echo failed) & exit 0", "the home is taken"),
        ("echo failed & exit 0", "could not write why into its log"),
    ] {
        let program = program(dir.path(), script);
        let to = Connect::to(&home).starting(program);
        let failed = Client::connect(&to).await.map(|_| ()).unwrap_err();
        assert!(matches!(failed, ClientError::Start { .. }), "{failed:?}");
        assert!(failed.to_string().contains(want), "{failed}");
        assert!(failed.hint().contains("engine.log"));
    }
}

#[tokio::test]
async fn an_engine_killed_while_it_starts_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
    // The second one gets to listen. Neither is a child of the client.
    let script = format!(
        r#"echo started >> {0}/starts; n=$(wc -l < {0}/starts); (if test $n = 1; then sh -c 'kill -9 $$'; exit; fi; {{ ln -s {0} "$3/run"; echo ready; }}) & exit 0"#,
        dir.path().display()
    );
    let to = Connect::to(dir.path().join("home")).starting(program(dir.path(), &script));
    let accept = async {
        let mut fake = Fake::new(listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    };
    let (client, _fake) = tokio::join!(Client::connect(&to), accept);
    client.map(|_| ()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("starts")).unwrap(), "started\nstarted\n");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nowhere");
    let to = Connect::to(dir.path().join("home")).starting(program);
    let failed = Client::connect(&to).await.map(|_| ()).unwrap_err();
    assert!(failed.to_string().contains("nowhere"), "{failed}");
    assert_eq!(failed.code(), code::CANNOT_START);
}
