use crate::fake::{Home, ID, process, waited};
use outlast_client::{Client, ClientError, Run, Spec, caller, code};
use outlast_wire::v1::notice::Replay;
use outlast_wire::v1::{self, Event, Message, Request};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

#[tokio::test]
async fn a_run_cut_off_by_a_crash_is_repeated_under_the_same_id() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let run = client.run(Run::new(Spec::shell("true"), caller([], Path::new("/"))));
    let (ran, ids) = tokio::join!(run, async {
        let first = fake.message().await.unwrap();
        drop(fake);
        let mut fake = home.accept().await;
        let second = fake.message().await.unwrap();
        let ids = [first.request, second.request].map(|r| match r {
            Request::Run { want: Some(id), .. } => id,
            other => panic!("{other:?}"),
        });
        fake.answer(second.id, process(&ids[1].to_string())).await;
        ids
    });
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ran.unwrap().id(), ids[0]);
}

#[tokio::test]
async fn what_would_be_another_thing_the_second_time_is_not_repeated() {
    async fn cut_off<T: std::fmt::Debug>(ask: impl AsyncFnOnce(&Client) -> Result<T, ClientError>) {
        let home = Home::new();
        let (client, mut fake) = home.client().await;
        let (sent, ()) = tokio::join!(ask(&client), async {
            fake.message().await.unwrap();
            drop(fake);
        });
        let failed = sent.unwrap_err();
        assert!(matches!(failed, ClientError::Unavailable { .. }), "{failed:?}");
        assert!(failed.hint().contains("may have been done"));
    }
    cut_off(async |client| client.signal(ID, 10).await).await;
    cut_off(async |client| client.clear_barriers().await).await;
    cut_off(async |client| client.replay(Replay::From { seq: 1 }).await).await;
}

#[tokio::test]
async fn a_sink_claims_again_if_the_answer_to_its_claim_is_lost() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (may, ()) = tokio::join!(client.wake("hook", &[]), async {
        let first = fake.message().await.unwrap();
        drop(fake);
        let mut fake = home.accept().await;
        let second = fake.message().await.unwrap();
        assert_eq!(serde_json::to_value(&first.request).unwrap(), serde_json::to_value(&second.request).unwrap());
        fake.answer(second.id, json!({"deliveries": []})).await;
    });
    assert_eq!(may.unwrap(), []);
}

#[tokio::test]
async fn a_wait_goes_on_over_a_restart_with_the_time_that_is_left() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (end, (first, second)) = tokio::join!(client.wait(ID, Some(Duration::from_secs(3600))), async {
        let first = fake.message().await.unwrap();
        drop(fake);
        let mut fake = home.accept().await;
        let second = fake.message().await.unwrap();
        fake.answer(second.id, waited("exited")).await;
        (first, second)
    });
    assert_eq!(end.unwrap().fate.exit_code, Some(Some(0)));
    let left = |m: Message| match m.request {
        Request::Wait { timeout_ms: Some(t), .. } => t,
        other => panic!("{other:?}"),
    };
    let (first, second) = (left(first), left(second));
    assert!(second <= first && first <= 3_600_000, "{first} {second}");
}

#[tokio::test]
async fn notices_from_now_on_are_from_the_same_place_on_over_a_restart() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut notices = client.follow_notices(None);
    let engine = async {
        for want in [None, Some(7)] {
            let mut fake = home.accept().await;
            let m = fake.message().await.unwrap();
            assert!(matches!(m.request, Request::NoticeFollow { after } if after == want), "{m:?}");
            fake.event(m.id, Event::Waiting { after: Some(want.unwrap_or(7)) }).await;
        }
    };
    tokio::select! {
        told = notices.next() => panic!("{told:?}"),
        () = engine => {}
    }
    assert_eq!(notices.after(), Some(7));
}

#[tokio::test]
async fn an_engine_that_is_ending_is_waited_out() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    // Also requests that must not be repeated: the engine said that it did nothing.
    let (closed, ()) = tokio::join!(client.close(ID), async {
        let m = fake.message().await.unwrap();
        fake.refuse(m.id, code::STOPPING, v1::ErrorKind::Unavailable).await;
        drop(fake);
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"status": "ok", "message": "stdin closed"})).await;
    });
    assert_eq!(closed.unwrap().message.as_deref(), Some("stdin closed"));
}

#[tokio::test]
async fn a_refusal_of_an_engine_that_stays_is_answered_at_once() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let began = std::time::Instant::now();
    let (refused, ()) = tokio::join!(client.close(ID), async {
        let m = fake.message().await.unwrap();
        fake.refuse(m.id, code::UNAVAILABLE, v1::ErrorKind::Unavailable).await;
    });
    assert_eq!(refused.unwrap_err().code(), code::UNAVAILABLE);
    // The engine is busy, not leaving: the client must not wait 5 s for it to close the connection.
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_engine_that_never_stays_up_is_given_up() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let crashes = async {
        loop {
            fake.message().await.unwrap();
            drop(fake);
            fake = home.accept().await;
        }
    };
    let failed = tokio::select! {
        failed = client.poll(ID) => failed.unwrap_err(),
        () = crashes => unreachable!(),
    };
    assert!(failed.to_string().contains("5 times in a row"), "{failed}");
}

#[tokio::test]
async fn a_connection_that_dies_at_hello_counts_as_none() {
    let home = Home::new();
    let to = home.connect();
    let (failed, ()) = tokio::join!(Client::connect(&to), async {
        drop(home.listener.accept().await.unwrap());
    });
    assert!(failed.map(|_| ()).unwrap_err().is_not_running());
}
