//! Which sessions may see and touch which processes.

use crate::world::World;
use outlast_client::{BarrierTarget, Client, Owner, Run, Spec, Take};
use std::time::Duration;

fn speaker(world: &World, generation: Option<&str>) -> Client {
    world.client.with_owner(Owner { session: Some("s".into()), task: None, generation: generation.map(str::to_owned) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_the_name_of_anothers_process_is_nothing_to_wait_for() {
    let world = World::new().await;
    let (a, b) = (world.session("a"), world.session("b"));
    let theirs = b.run(Run::new(Spec::shell("sleep 1000"), world.caller())).await.unwrap().id().to_string();
    let until = |name: &str| BarrierTarget::Process { process: name.into(), or_match: false };
    let opened = a.until_within(until(&theirs), Duration::from_secs(10)).await.unwrap();
    assert_eq!((opened.status.as_str(), opened.why.as_deref()), ("open", Some("unknown")));
    // A part of an id that means nothing to the caller is a mistake, also if it is part of another's id.
    let refused = a.until_within(until(&theirs[..10]), Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(refused.code(), "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_newest_life_posts_or_waits_for_is_not_dropped_as_that_of_an_old_one() {
    let world = World::new().await;
    let (first, second, any) = (speaker(&world, Some("1")), speaker(&world, Some("2")), speaker(&world, None));
    assert!(first.take(&Take::default()).await.unwrap().notices.is_empty());
    let event = serde_json::json!({"type": "custom"}).as_object().unwrap().clone();
    second.post(None, event, Default::default()).await.unwrap();
    let given = any.take(&Take::default()).await.unwrap();
    assert_eq!(given.notices.len(), 1);
    let third = speaker(&world, Some("3"));
    third.set_until(BarrierTarget::Process { process: "proc_abcdefabcdef".into(), or_match: false }).await.unwrap();
    let given = any.take(&Take::default().wait_at_most(Duration::from_secs(10))).await.unwrap();
    assert_eq!(given.notices.iter().map(|n| n.event.kind()).collect::<Vec<_>>(), ["until"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_is_passed_on_silences_a_terminal_once_it_has_arrived() {
    let world = World::new().await;
    let own = world.session("s");
    let at_a_terminal = || Take::default().at_a_terminal().limit(9);
    let mut spec = Spec::shell("exit 3");
    (spec.tell.completion, spec.owner) = (true, own.owner().clone());
    let id = own.run(Run::new(spec, world.caller())).await.unwrap().id().to_string();
    world.client.process(id.parse().unwrap()).wait(None).await.unwrap();
    for arrives in [false, true] {
        let (looking, receipt) = own.relaying();
        assert_eq!(looking.poll(&id).await.unwrap().fate.exit_code, Some(Some(3)));
        let given = own.take(&at_a_terminal().wait_at_most(Duration::from_secs(if arrives { 0 } else { 10 }))).await.unwrap();
        assert_eq!(given.notices.len(), 1, "it is not known to have been seen");
        let (ids, lease) = ([given.notices[0].event.event_id.as_str()], given.notices[0].lease.as_deref());
        own.settle(&ids, lease, outlast_client::Verdict::Released).await.unwrap();
        if arrives {
            receipt.passed_on().await.unwrap();
        }
    }
    assert!(own.take(&at_a_terminal()).await.unwrap().notices.is_empty());
    assert_eq!(own.take(&Take::default()).await.unwrap().notices.len(), 1, "a gateway tells it all the same");
}
