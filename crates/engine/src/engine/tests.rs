use super::*;
use crate::config::{KeeperProgram, UserInfo};
use outlast_wire::v1::ErrorKind;
use std::time::Duration;

/// An engine that starts nothing: its keeper is none.
pub(crate) async fn engine(tmp: &tempfile::TempDir) -> Engine {
    let user = UserInfo { name: "test".into(), home: tmp.path().into(), shell: "/bin/bash".into() };
    let mut config = Config::new(tmp.path().join("home"), "/bin/false", KeeperProgram::Binary("/bin/true".into()), user);
    config.run_candidates = vec![tmp.path().to_owned()];
    config.detach = false;
    config.idle_exit = Duration::ZERO;
    Engine::start(config).await.unwrap()
}

#[tokio::test]
async fn an_engine_that_has_stopped_makes_no_answers_up() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    engine.stop().await;
    let nobody = Owner::default();
    let errors = [
        engine.all(&nobody, Which::All).await.err(),
        engine.counts().await.err(),
        engine.interrupt("s".into()).await.err(),
        engine.resolve("proc_abcdef012345", &nobody).await.err(),
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
            let folders = std::fs::read_dir(engine.shared.home.processes()).unwrap().count();
            if engine.counts().await.unwrap().known == folders as u64 {
                return folders;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), agree).await.expect("the list and the folders are the same in the end")
}

/// A process that is over, written down as a run leaves it.
async fn ended(engine: &Engine, n: u8) -> View {
    let id = ProcessId::from_bytes([n; 6]);
    let kept = outlast_store::spec::Kept {
        id,
        spec: outlast_core::Spec::shell("x"),
        hash: String::new(),
        accepted_at: engine.shared.now(),
        cwd: "/".into(),
        shell: None,
        command_scrubbed: false,
        env_scrubbed: Vec::new(),
        warnings: Vec::new(),
        keep: outlast_store::segments::Keep::default(),
    };
    let dir = engine.shared.home.process(id);
    dir.create().unwrap();
    let failure = outlast_core::StartFailure { errno: libc::ENOENT, what: "x".into() };
    crate::settle::never_started(&dir, id, failure, engine.shared.now()).unwrap();
    engine.reserve(id, String::new(), Owner::default()).await.unwrap();
    let view = engine.accept_process(Facts::accepted(kept).with(&Seen::look(&dir, 0))).await.unwrap();
    assert!(view.facts.phase.is_final());
    view
}

#[tokio::test]
async fn a_removal_whose_caller_leaves_is_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    for polls in 1.. {
        let view = ended(&engine, polls as u8).await;
        let left = left_after(polls, engine.forget(&view)).await;
        // The one that was begun is gone in the end, wherever its caller left.
        let gone = async {
            while view.dir.path.exists() || engine.counts().await.unwrap().known > 0 {
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
    engine.shared.index.close().await;
    engine.forget(&view).await.unwrap();
    assert_eq!(engine.counts().await.unwrap().known, 0);
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
    let done = engine.forget(&view).await;
    assert!(done.is_err() && view.dir.path.exists(), "{done:?}");
    // It is put back before the next question is answered.
    assert_eq!(engine.counts().await.unwrap().known, 1);
    engine.stop().await;
}
