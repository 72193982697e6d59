use crate::world::World;
use outlast_client::{Activity, Kill, Owner, Run, Spec};
use outlast_core::Time;
use outlast_engine::{Clock, Config};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

const DAY: i64 = 86_400_000_000;

/// The system's clock, set wrong by this many microseconds.
fn wrong_by(by: &Arc<AtomicI64>) -> impl FnOnce(&mut Config) + use<> {
    let by = Arc::clone(by);
    move |config| config.clock = Clock::of(move || Time::from_micros(outlast_store::os::now().micros() + by.load(SeqCst)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_146_a_clock_that_is_set_back_ends_ages_and_forgets_nothing() {
    let by = Arc::new(AtomicI64::new(0));
    let mut world = World::with(wrong_by(&by)).await;
    let over = world.sh("exit 3").await.id().to_string();
    assert_eq!(world.client.wait(&over, None).await.unwrap().fate.exit_code, Some(Some(3)));
    let owned = world.client.with_owner(Owner { session: Some("s".into()), ..Owner::default() });
    let running =
        owned.run(Run::new(Spec::shell("trap '' TERM; while :; do sleep 0.01; done"), world.caller())).await.unwrap().id().to_string();
    by.store(-DAY, SeqCst);
    for _ in 0..2 {
        let polled = world.client.poll(&running).await.unwrap();
        assert_eq!((polled.phase.as_str(), polled.uptime_seconds), ("running", 0), "no age is negative");
        assert!(world.client.active(Activity::Session { session: "s".into(), max_age_ms: Some(1_000) }).await.unwrap());
        assert_eq!(world.client.poll(&over).await.unwrap().fate.exit_code, Some(Some(3)));
        // Waits and graces are measured by no clock that can be set.
        let waited = world.client.wait(&running, Some(Duration::from_millis(50))).await.unwrap();
        assert_eq!(waited.status, "timeout");
        let next = world.sh("exit 4").await.id().to_string();
        assert_eq!(world.client.wait(&next, None).await.unwrap().fate.exit_code, Some(Some(4)));
        world.restart(wrong_by(&by)).await;
    }
    let killed = world.client.kill(&running, Kill::within(Duration::from_millis(100))).await.unwrap();
    assert_eq!((killed.status.as_str(), killed.fate.signal.as_deref()), ("killed", Some("SIGKILL")));
    // Right again, and eight days on.
    by.store(8 * DAY, SeqCst);
    world.restart(wrong_by(&by)).await;
    assert_eq!(world.client.poll(&over).await.unwrap_err().code(), "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_forward_removes_nothing_and_time_that_passes_does() {
    let (wall, passed) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let clock = || {
        let (wall, passed) = (Arc::clone(&wall), Arc::clone(&passed));
        move |config: &mut Config| {
            let now = move || Time::from_micros(outlast_store::os::now().micros() + wall.load(SeqCst));
            let elapsed = move || Duration::from_micros(outlast_store::os::boottime_ns() / 1_000 + passed.load(SeqCst) as u64);
            config.clock = Clock::with_elapsed(now, elapsed);
        }
    };
    let mut world = World::with(clock()).await;
    let over = world.sh("exit 3").await.id().to_string();
    world.client.wait(&over, None).await.unwrap();
    wall.store(8 * DAY, SeqCst);
    for _ in 0..2 {
        world.restart(clock()).await;
        assert_eq!(world.client.poll(&over).await.unwrap().fate.exit_code, Some(Some(3)));
    }
    // Six days pass, and then two more.
    for (days, is_kept) in [(6, true), (8, false)] {
        wall.store((8 + days) * DAY, SeqCst);
        passed.store(days * DAY, SeqCst);
        world.restart(clock()).await;
        assert_eq!(world.client.poll(&over).await.is_ok(), is_kept, "after {days} days");
    }
}
