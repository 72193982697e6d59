use crate::fake::{Fake, ID, pair, process, waited};
use outlast_client::{Client, ClientError, Kill, Owner, Page, Run, Scope, Spec, caller, code};
use outlast_wire::frame;
use outlast_wire::v1::{self, Request};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

#[tokio::test]
async fn answers_reach_whoever_asked_in_any_order() {
    let (client, mut fake) = pair().await;
    let engine = async {
        let (a, b) = (fake.message().await.unwrap(), fake.message().await.unwrap());
        for m in [b, a] {
            let Request::Poll { process: which } = &m.request else { panic!("{m:?}") };
            fake.answer(m.id, process(which)).await;
        }
    };
    let (one, two, ()) = tokio::join!(client.poll("proc_000000000001"), client.poll("proc_000000000002"), engine);
    assert_eq!(one.unwrap().session_id.to_string(), "proc_000000000001");
    assert_eq!(two.unwrap().session_id.to_string(), "proc_000000000002");
}

#[tokio::test]
async fn a_dropped_future_cancels_its_request() {
    let (client, mut fake) = pair().await;
    let asker = client.clone();
    let waiting = tokio::spawn(async move { asker.wait(ID, None).await });
    let wait = fake.message().await.unwrap();
    assert!(matches!(wait.request, Request::Wait { timeout_ms: None, .. }));
    waiting.abort();
    let cancel = fake.message().await.unwrap();
    assert!(matches!(cancel.request, Request::Cancel { of } if of == wait.id), "{cancel:?}");
}

#[tokio::test]
async fn an_answer_that_crosses_its_cancellation_is_dropped() {
    let (client, mut fake) = pair().await;
    let asker = client.clone();
    let waiting = tokio::spawn(async move { asker.wait(ID, None).await });
    let wait = fake.message().await.unwrap();
    waiting.abort();
    fake.message().await.unwrap();
    fake.answer(wait.id, waited("exited")).await;
    let (count, ()) = tokio::join!(client.count_running(), async {
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"active": true, "running": 3})).await;
    });
    assert_eq!(count.unwrap(), 3);
}

#[tokio::test]
async fn a_refusal_comes_with_code_and_hint() {
    let (client, mut fake) = pair().await;
    let (refused, ()) = tokio::join!(client.kill(ID, Kill::default()), async {
        let m = fake.message().await.unwrap();
        fake.refuse(m.id, code::ALREADY_EXITED, v1::ErrorKind::Refusal).await;
    });
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), refused.hint()), (code::ALREADY_EXITED, "h"));
}

#[tokio::test]
async fn frames_that_make_no_sense_are_a_protocol_error() {
    for nonsense in [vec![0xff; 8], vec![1, 0, 0, 0, 9], frame::json(&"hello"), [5, 0, 0, 0, 0].iter().chain(b"{bad").copied().collect()] {
        let (client, mut fake) = pair().await;
        let (failed, ()) = tokio::join!(client.poll(ID), async {
            fake.message().await.unwrap();
            fake.raw(&nonsense).await;
        });
        let failed = failed.unwrap_err();
        assert!(matches!(failed, ClientError::Protocol { .. }), "{nonsense:?}: {failed:?}");
        // The connection cannot be used any more, and requests fail at once.
        assert!(matches!(client.poll(ID).await, Err(ClientError::Unavailable { .. })));
    }
}

/// This many nested lists.
fn lists(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// A reply whose answer may be one that no value of Outlast's types serialises to.
fn reply(of: u64, answer: &str) -> Vec<u8> {
    let text = format!("{{\"of\":{of},\"answer\":{answer}}}");
    [&(text.len() as u32 + 1).to_le_bytes()[..], &[0], text.as_bytes()].concat()
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_nobody_elses_trouble() {
    let (client, mut fake) = pair().await;
    let engine = async {
        let (one, other) = (fake.message().await.unwrap(), fake.message().await.unwrap());
        fake.raw(&reply(one.id, &lists(500))).await;
        fake.answer(other.id, process(ID)).await;
    };
    let (unread, read, ()) = tokio::join!(client.poll(ID), client.poll(ID), engine);
    assert_eq!(unread.unwrap_err().code(), code::PROTOCOL);
    assert_eq!(read.unwrap().session_id.to_string(), ID);
}

#[tokio::test]
async fn what_a_sink_owes_is_read_one_by_one() {
    let (client, mut fake) = pair().await;
    let owed = |seq: u64, field: &str| {
        format!(
            "{{\"event\":{{\"type\":\"custom\",\"event_id\":\"evt_{seq}\",\"seq\":{seq},\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"x\":{field}}},\
             \"text\":\"t\",\"attempts\":0,\"first_at\":\"2023-11-14T22:13:20.000000Z\",\"lease\":\"word\"}}"
        )
    };
    let all = [owed(1, "1"), owed(2, &lists(124)), owed(3, &lists(500)), owed(4, "4"), owed(5, "5").replace("created_at", "made_at")];
    let engine = async {
        let asked = fake.message().await.unwrap();
        fake.raw(&reply(asked.id, &format!("{{\"deliveries\":[{}]}}", all.join(",")))).await;
        let dead = fake.message().await.unwrap();
        fake.answer(dead.id, json!({"status": "ok"})).await;
        dead.request
    };
    let sink = async {
        let owed = client.deliveries("h", 8, Duration::from_secs(1)).await.unwrap();
        let given_up = client.give_up("h", &owed.unread[0]).await.unwrap();
        (owed, given_up)
    };
    let ((owed, given_up), asked) = tokio::join!(sink, engine);
    // A part of an answer that is nested too deeply may be readable by itself.
    assert_eq!(owed.deliveries.iter().map(|d| d.event.seq).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(owed.unread.iter().map(|u| (u.seq, u.lease.as_str())).collect::<Vec<_>>(), [(3, "word"), (5, "word")]);
    assert!(given_up);
    assert!(
        matches!(&asked, Request::Pushed { seq: 3, how: v1::notice::Push::Dead { reason }, .. } if reason.contains("recursion limit")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_answer_of_another_shape_is_a_protocol_error() {
    let (client, mut fake) = pair().await;
    let everything = Scope::default();
    let (failed, ()) = tokio::join!(client.list(&everything, true), async {
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"processes": 3})).await;
    });
    assert!(matches!(failed, Err(ClientError::Protocol { .. })));
}

#[tokio::test]
async fn a_request_too_long_to_send_is_refused_here() {
    let (client, _fake) = pair().await;
    let spec = Spec::shell("x".repeat(frame::MAX));
    let refused = client.run(Run::new(spec, caller([], Path::new("/")))).await.map(|p| p.id()).unwrap_err();
    assert_eq!(refused.code(), code::BAD_REQUEST);
}

#[tokio::test]
async fn an_engine_of_another_version_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(theirs);
    let (client, ()) = tokio::join!(Client::over(ours), async {
        let hello = fake.message().await.unwrap();
        fake.answer(hello.id, json!({"version": 99, "program": "outlast 9", "pid": 42})).await;
    });
    let refused = client.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), code::BAD_VERSION);
    assert!(refused.to_string().contains("pid 42"), "{refused}");
}

#[tokio::test]
async fn what_is_under_way_survives_the_client_value() {
    let (client, mut fake) = pair().await;
    let log = client.with_owner(Owner { session: Some("s".into()), ..Owner::default() });
    drop(client);
    let (page, ()) = tokio::join!(log.log(ID, Page::default()), async {
        let m = fake.message().await.unwrap();
        assert_eq!(m.owner.session.as_deref(), Some("s"));
        let page = json!({"session_id": ID, "command": "true", "status": "running", "output": "x", "total_lines": 1,
                          "showing": "1 lines", "first_line": 0, "from_byte": 0, "next_byte": 2, "at_end": true});
        fake.answer(m.id, page).await;
    });
    assert_eq!(page.unwrap().output, "x");
    drop(log);
    assert!(fake.message().await.is_none(), "the connection ends with its last user");
}

#[tokio::test]
async fn a_given_connection_that_closes_is_not_said_to_have_been_tried_again() {
    let (client, mut fake) = pair().await;
    let (failed, ()) = tokio::join!(client.poll(ID), async {
        fake.message().await.unwrap();
        drop(fake);
    });
    let failed = failed.unwrap_err();
    assert!(failed.to_string().ends_with("before it answered") && !failed.hint().contains("engine.log"), "{failed}");
}
