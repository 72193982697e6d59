use crate::world::World;
use outlast_client::{Activity, Client, Owner, Run, Scope, Spec};
use std::time::Duration;

async fn start(client: &Client, world: &World) -> String {
    client.run(Run::new(Spec::shell("sleep 1000"), world.caller())).await.unwrap().id().to_string()
}

fn owner(task: &str, session: &str) -> Owner {
    Owner { task: Some(task.into()), session: Some(session.into()), generation: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_sees_and_touches_its_own_session_only() {
    let world = World::new().await;
    let (a, b) = (world.session("a"), world.session("b"));
    let (pa, pb) = (start(&a, &world).await, start(&b, &world).await);
    for error in [
        a.poll(&pb).await.unwrap_err(),
        a.kill(&pb, Default::default()).await.unwrap_err(),
        a.wait(&pb, None).await.unwrap_err(),
        a.write(&pb, b"x", outlast_client::At::End).await.unwrap_err(),
    ] {
        assert_eq!((error.status(), error.code()), ("not_found", "not_found"));
        assert_eq!(error.to_string(), format!("No process with ID {pb}"));
    }
    assert_eq!(a.list(&Scope::default(), true).await.unwrap().len(), 1);
    assert_eq!(world.client.list(&Scope::default(), true).await.unwrap().len(), 2, "a person sees everything");
    assert_eq!(a.kill_all(&Scope::default(), Default::default()).await.unwrap().killed, 1);
    assert_eq!(b.poll(&pb).await.unwrap().phase, "running");
    assert_eq!(a.poll(&pa).await.unwrap().phase, "exited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_177_another_task_of_the_session_is_listed_and_flagged() {
    let world = World::new().await;
    let own = start(&world.client.with_owner(owner("t1", "s1")), &world).await;
    let other = start(&world.client.with_owner(owner("t2", "s1")), &world).await;
    start(&world.client.with_owner(owner("t2", "s2")), &world).await;
    let scope = Scope { task: Some("t1".into()), session: Some("s1".into()) };
    let listed = world.client.list(&scope, false).await.unwrap();
    let flags: Vec<_> = listed.iter().map(|p| (p.session_id.to_string(), p.session_scoped)).collect();
    assert_eq!(flags, [(own, false), (other, true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_181_to_183_activity() {
    let world = World::new().await;
    let client = world.client.with_owner(owner("t1", "s1"));
    let id = start(&client, &world).await;
    let session = |max_age_ms| Activity::Session { session: "s1".into(), max_age_ms };
    assert!(world.client.active(Activity::Task { task: "t1".into() }).await.unwrap());
    assert!(!world.client.active(Activity::Task { task: "t2".into() }).await.unwrap());
    assert!(world.client.active(session(None)).await.unwrap());
    assert!(world.client.active(session(Some(86_400_000))).await.unwrap());
    assert!(!world.client.active(session(Some(0))).await.unwrap(), "an age that is not less does not count");
    assert!(world.client.active(Activity::Any).await.unwrap());
    assert!(world.client.active(Activity::Waiting { process: id.clone() }).await.unwrap());
    client.kill(&id, Default::default()).await.unwrap();
    assert!(!world.client.active(Activity::Any).await.unwrap());
    assert!(!world.client.active(Activity::Waiting { process: id }).await.unwrap());
    assert!(!world.client.active(Activity::Waiting { process: "nonsense".into() }).await.unwrap());
    assert_eq!(world.client.count_running().await.unwrap(), 0, "case 186");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_102_a_unique_prefix_names_a_process() {
    let world = World::new().await;
    for id in ["proc_abcd00000001", "proc_abcd00000002", "proc_ffff00000001"] {
        let run = Run::new(Spec::shell("true"), world.caller()).with_id(id.parse().unwrap());
        world.client.run(run).await.unwrap();
    }
    assert_eq!(world.client.poll("ffff").await.unwrap().session_id.to_string(), "proc_ffff00000001");
    assert_eq!(world.client.poll("proc_abcd00000002").await.unwrap().session_id.to_string(), "proc_abcd00000002");
    let both = world.client.poll("abcd").await.unwrap_err();
    assert_eq!(both.code(), "ambiguous_id");
    assert!(both.to_string().contains("proc_abcd00000001, proc_abcd00000002"), "{both}");
    for bad in ["fff", "", "xyz!", "../../etc"] {
        assert_eq!(world.client.poll(bad).await.unwrap_err().status(), "not_found", "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_is_cancelled_and_the_connection_stays_open() {
    let world = World::new().await;
    let id = start(&world.client, &world).await;
    let cancelled = tokio::time::timeout(Duration::from_millis(20), world.client.wait(&id, None)).await;
    assert!(cancelled.is_err());
    assert_eq!(world.client.poll(&id).await.unwrap().phase, "running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_interrupts_its_own_session_only() {
    let world = World::new().await;
    let error = world.session("a").interrupt("b").await.unwrap_err();
    assert_eq!((error.status(), error.code()), ("not_found", "not_found"));
    assert_eq!(world.session("a").interrupt("a").await.unwrap().count, Some(0));
    assert_eq!(world.client.interrupt("b").await.unwrap().count, Some(0), "a person may");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_does_not_stop_with_the_engine_what_is_anothers() {
    let world = World::new().await;
    let (a, b) = (world.session("a"), world.session("b"));
    let stays = start(&b, &world).await;
    let spec = Spec::shell("sleep 1000").ending_with_the_engine();
    let dies = b.run(Run::new(spec, world.caller())).await.unwrap();
    assert_eq!(a.engine_stop().await.unwrap_err().code(), "not_yours");
    assert_eq!(dies.poll().await.unwrap().phase, "running");
    dies.kill(Default::default()).await.unwrap();
    assert_eq!(b.poll(&stays).await.unwrap().phase, "running");
    a.engine_stop().await.unwrap();
    world.engine.stopped().await;
}
