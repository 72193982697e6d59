use crate::world::World;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_92_and_95_a_wait_ends_with_the_process_or_with_its_time() {
    let world = World::new().await;
    let process = world.sh("echo a; sleep 1000").await;
    let waited = process.wait(Some(Duration::from_millis(100))).await.unwrap();
    assert_eq!((waited.status.as_str(), waited.timeout_note.as_deref()), ("timeout", Some("Waited 0.1s, process still running")));
    assert_eq!(waited.fate.exit_code, None);
    let begun = Instant::now();
    let end = world.sh("sleep 0.05").await.wait(Some(Duration::from_secs(100))).await.unwrap();
    assert_eq!(end.status, "exited");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_56_a_descendant_that_holds_the_output_does_not_hold_up_the_end() {
    let world = World::new().await;
    let process = world.sh("sleep 1000 & echo x; exit 5").await;
    let end = process.wait(None).await.unwrap();
    assert_eq!((end.fate.exit_code, end.output.as_str()), (Some(Some(5)), "x\n"));
    assert_eq!(process.poll().await.unwrap().phase, "draining");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_96_to_98_an_interrupt_cancels_waits_of_its_own_session_only() {
    let world = World::new().await;
    let (a, b) = (world.session("a"), world.session("b"));
    let start = |client: &outlast_client::Client| {
        let (client, caller) = (client.clone(), world.caller());
        async move { client.run(outlast_client::Run::new(outlast_client::Spec::shell("sleep 1000"), caller)).await.unwrap() }
    };
    let (pa, pb) = (start(&a).await, start(&b).await);
    let (ia, ib) = (pa.id(), pb.id());
    let waits = [tokio::spawn(async move { pa.wait(None).await }), tokio::spawn(async move { pb.wait(None).await })];
    // Until the engine has both waits, an interrupt finds fewer.
    while world.client.interrupt("a").await.unwrap().count != Some(1) {}
    let [wait_a, mut wait_b] = waits;
    let interrupted = wait_a.await.unwrap().unwrap();
    assert_eq!(interrupted.status, "interrupted");
    assert_eq!(interrupted.note.as_deref(), Some("User sent a new message -- wait interrupted"));
    assert_eq!(a.poll(&ia.to_string()).await.unwrap().phase, "running");
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut wait_b).await.is_err());
    b.kill(&ib.to_string(), Default::default()).await.unwrap();
    assert_eq!(wait_b.await.unwrap().unwrap().status, "exited");
}
