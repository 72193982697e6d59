use super::*;
use crate::engine::tests::{engine, left_after, until_listed_as_on_disk};
use crate::serve::Out;
use crate::serve::relay::Relays;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn an_adoption_whose_caller_leaves_is_finished() {
    let tmp = tempfile::tempdir().unwrap();
    let engine = engine(&tmp).await;
    let (to, _answers) = tokio::sync::mpsc::channel(1);
    let relays = Arc::new(Relays::new(Arc::clone(&engine.parts)));
    let asked = RequestContext {
        parts: Arc::clone(&engine.parts),
        owner: Default::default(),
        asker: None,
        force: false,
        pid: None,
        relays,
        relay: false,
        elsewhere: None,
        out: Out { to, of: 1 },
    };
    let mut children = Vec::new();
    for polls in 1.. {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let from = AdoptFrom::Pid { pid: child.id() };
        children.push(child);
        let left = left_after(polls, adopt(&asked, from)).await;
        until_listed_as_on_disk(&engine).await;
        if !left {
            break;
        }
    }
    // An id that was not released would be waited for.
    let stopped = tokio::time::timeout(Duration::from_secs(5), engine.stop()).await;
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    stopped.unwrap();
}
