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
