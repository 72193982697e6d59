//! The loop: order, concurrency, gathering, the end.

use crate::hook::{Scene, gone, pid};
use crate::queue::start;
use outlast_sinks::{Budget, Gather, Hook, HookCommand, Settle, SinkConfig};
use serde_json::Value;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_conversation_is_told_in_order_one_at_a_time() {
    let scene = Scene::new("mkdir busy || exit 9; echo $OUTLAST_EVENT_ID >> order; rmdir busy");
    let seqs: Vec<u64> = (0..12).map(|_| scene.queue.post("h", "s", "x")).collect();
    let _running = scene.start();
    let settled = scene.queue.settlements(12).await;
    assert!(settled.iter().all(|(_, s)| *s == Settle::Delivered), "{settled:?}");
    let wanted: String = seqs.iter().map(|seq| format!("evt_{seq}\n")).collect();
    assert_eq!(scene.read("order"), wanted);
}

#[tokio::test]
async fn a_hung_conversation_holds_up_neither_others_nor_other_sinks() {
    let scene = Scene::new("if [ $OUTLAST_SESSION = hung ]; then echo $$ > told; read x < held; fi");
    scene.pipe("told");
    scene.pipe("held");
    let other = SinkConfig::hook("o", Hook::new(HookCommand::Shell(":".into()), Vec::new(), scene.dir.path().into())).unwrap();
    let hung: Vec<u64> = (0..300).map(|_| scene.queue.post("h", "hung", "x")).collect();
    let running = scene.start();
    let _other = start(&scene.queue, vec![other]);
    let leader = pid(&scene.hear("told").await);
    let late = scene.queue.post("h", "free", "x");
    let elsewhere = scene.queue.post("o", "hung", "x");
    assert_eq!(scene.queue.end_of(late).await, Settle::Delivered);
    assert_eq!(scene.queue.end_of(elsewhere).await, Settle::Delivered);
    let settled = scene.queue.settled();
    let of_hung: Vec<_> = settled.iter().filter(|(seq, _)| *seq <= *hung.last().unwrap()).collect();
    assert!(of_hung.iter().all(|(_, s)| matches!(s, Settle::Later { .. })), "only handed back: {of_hung:?}");
    drop(running);
    gone(leader).await;
}

#[tokio::test]
async fn no_more_calls_are_made_at_once_than_allowed() {
    let scene = Scene::with(HookCommand::Shell("echo x > told; read x < held".into()), |sink, _| sink.at_once = 2);
    scene.pipe("told");
    scene.pipe("held");
    for session in ["a", "b", "c"] {
        scene.queue.post("h", session, "x");
    }
    let _running = scene.start();
    let mut told = 0;
    while told < 2 {
        told += scene.hear("told").await.lines().count();
    }
    assert!(scene.queue.settled().is_empty());
    // The third starts only when one of the two has ended.
    scene.say("held").await;
    scene.queue.settlements(1).await;
    while told < 3 {
        told += scene.hear("told").await.lines().count();
    }
}

#[tokio::test]
async fn what_arrives_together_wakes_once() {
    let scene = Scene::with(HookCommand::Shell("cat >> in; echo $OUTLAST_EVENT_COUNT >> counts".into()), |_, hook| {
        hook.gather = Gather::together(Hook::WAKE_WINDOW, None);
    });
    for n in 0..5 {
        scene.queue.post("h", "s", &format!("text {n}"));
    }
    let alone = scene.queue.post("h", "t", "other");
    let _running = scene.start();
    scene.queue.settlements(6).await;
    let mut calls: Vec<Value> = scene.read("in").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    calls.sort_by_key(|c| c["events"][0]["event"]["seq"].as_u64());
    assert_eq!(calls.len(), 2, "{calls:?}");
    let seqs = |call: &Value| call["events"].as_array().unwrap().iter().map(|e| e["event"]["seq"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((seqs(&calls[0]), seqs(&calls[1])), (vec![1, 2, 3, 4, 5], vec![alone]));
    assert_eq!(calls[0]["events"][2]["text"], "text 2");
}

#[tokio::test]
async fn what_failed_together_is_tried_again_together() {
    let scene = Scene::with(HookCommand::Shell("cat >> in; [ -e failed ] || { touch failed; exit 1; }".into()), |_, hook| {
        hook.gather = Gather::together(Hook::WAKE_WINDOW, None);
    });
    scene.queue.post("h", "s", "a");
    scene.queue.post("h", "s", "b");
    let _running = scene.start();
    let settled = scene.queue.settlements(4).await;
    assert_eq!(settled[0].1, settled[1].1, "the same wait for both");
    assert!(settled[2..].iter().all(|(_, s)| *s == Settle::Delivered), "{settled:?}");
    assert_eq!(scene.read("in").lines().count(), 2);
}

#[tokio::test]
async fn beyond_its_budget_a_conversation_is_left_alone() {
    let hour = Duration::from_secs(3_600);
    let scene = Scene::with(HookCommand::Shell("echo call >> calls".into()), |_, hook| {
        hook.gather = Gather::together(Duration::ZERO, Some(Budget { count: 1, per: hour }));
    });
    let first = scene.queue.post("h", "s", "x");
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(first).await, Settle::Delivered);
    let (second, third, other) = (scene.queue.post("h", "s", "x"), scene.queue.post("h", "s", "x"), scene.queue.post("h", "t", "x"));
    assert_eq!(scene.queue.end_of(other).await, Settle::Delivered);
    let settled = scene.queue.settlements(4).await;
    for seq in [second, third] {
        let (_, settle) = settled.iter().find(|(s, _)| *s == seq).unwrap();
        // Until the budget has room again, and without an attempt being counted.
        assert!(matches!(settle, Settle::Later { after } if *after > hour - Duration::from_secs(120) && *after <= hour), "{settle:?}");
    }
    assert_eq!(scene.read("calls").lines().count(), 2);
}

#[tokio::test]
async fn what_was_lent_before_is_marked_as_a_repeat() {
    let scene = Scene::new("cat > in");
    let seq = scene.queue.post_tried("h", "s", "x", 1);
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let told: Value = serde_json::from_str(&scene.read("in")).unwrap();
    assert_eq!((&told["attempt"], &told["repeat"]), (&2.into(), &true.into()));
}

#[tokio::test]
async fn sinks_end_with_the_engine_and_leave_no_hook_behind() {
    let scene = Scene::new("trap '' TERM; echo $$ > told; while :; do sleep 1000; done");
    scene.pipe("told");
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    let leader = pid(&scene.hear("told").await);
    let began = Instant::now();
    scene.queue.stop();
    running.ended().await;
    assert!(began.elapsed() < Duration::from_secs(20), "the limit of the hook is not waited for");
    gone(leader).await;
    assert!(scene.queue.settled().is_empty());
}

#[tokio::test]
async fn a_hook_that_is_about_to_end_when_the_engine_stops_may_do_so() {
    let scene = Scene::new("echo $$ > told; read x < held; echo done > done");
    scene.pipe("told");
    scene.pipe("held");
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    scene.hear("told").await;
    scene.queue.stop();
    scene.say("held").await;
    running.ended().await;
    assert_eq!(scene.read("done"), "done\n");
}

#[tokio::test]
async fn what_a_lease_that_ran_out_belonged_to_is_told_again_after_the_first_call() {
    let scene = Scene::new("cat >> in; if [ ! -e once ]; then touch once; echo $$ > told; read x < held; fi");
    scene.pipe("told");
    scene.pipe("held");
    let seq = scene.queue.post("h", "s", "x");
    let _running = scene.start();
    scene.hear("told").await;
    scene.queue.lapse(seq);
    scene.say("held").await;
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    assert_eq!(scene.queue.settled().len(), 1, "the token of the first lease counts for nothing");
    let told: Vec<Value> = scene.read("in").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let marks: Vec<bool> = told.iter().map(|t| t["repeat"].as_bool().unwrap()).collect();
    assert_eq!(marks, [false, true]);
}

#[tokio::test]
async fn what_is_lent_twice_takes_the_place_of_one() {
    let line = "if [ $OUTLAST_SESSION = hung ]; then echo $$ > told; read x < held; fi";
    let scene = Scene::with(HookCommand::Shell(line.into()), |sink, hook| {
        sink.at_once = 1;
        hook.time_limit = Duration::from_secs(600);
    });
    scene.pipe("told");
    scene.pipe("held");
    scene.queue.post("h", "hung", "x");
    let _running = scene.start();
    scene.hear("told").await;
    // It waits for its turn, and its lease ends more often than a sink has places.
    let seq = scene.queue.post("h", "s", "x");
    for times in 1..=200 {
        scene.queue.leased(seq, times).await;
        scene.queue.lapse(seq);
    }
    scene.say("held").await;
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let late = scene.queue.post("h", "t", "x");
    assert_eq!(scene.queue.end_of(late).await, Settle::Delivered);
}
