use crate::fake::{Home, ID, process};
use outlast_client::{Chunk, ClientError, From};
use outlast_wire::frame;
use outlast_wire::v1::{Event, Request};
use serde_json::json;

#[tokio::test]
async fn following_goes_on_at_the_byte_reached() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut chunks = client.follow(ID, From::Last(100));
    let engine = async {
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Last(100), follow: true, .. }));
        fake.event(m.id, Event::At { byte: 1000 }).await;
        fake.raw(&frame::raw(m.id, b"one ")).await;
        fake.event(m.id, Event::Gap { from: 1004, to: 2000, why: "dropped".into() }).await;
        fake.raw(&frame::raw(m.id, b"two ")).await;
        drop(fake);
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Byte(2004), follow: true, .. }), "{m:?}");
        fake.event(m.id, Event::At { byte: 2004 }).await;
        fake.raw(&frame::raw(m.id, b"three")).await;
        fake.answer(m.id, json!({"next_byte": 2009, "closed": true})).await;
    };
    let reader = async {
        let mut got = Vec::new();
        while let Some(chunk) = chunks.next().await.unwrap() {
            got.push(chunk);
        }
        got
    };
    let (got, ()) = tokio::join!(reader, engine);
    assert_eq!(
        got,
        [
            Chunk::Bytes { at: 1000, bytes: b"one ".to_vec() },
            Chunk::Gap { from: 1004, to: 2000, why: "dropped".into() },
            Chunk::Bytes { at: 2000, bytes: b"two ".to_vec() },
            Chunk::Bytes { at: 2004, bytes: b"three".to_vec() },
        ]
    );
    assert!(chunks.closed());
    assert_eq!(chunks.next_byte(), Some(2009));
}

#[tokio::test]
async fn a_terminal_that_looks_on_is_announced_on_its_own_connection() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut chunks = client.attach(ID, From::Now, true);
    let (end, ()) = tokio::join!(chunks.next(), async {
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Attach { read_only: true, .. }));
        fake.answer(m.id, process(ID)).await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Now, follow: true, .. }));
        fake.answer(m.id, json!({"next_byte": 0, "closed": true})).await;
    });
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_told_once() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut chunks = client.follow(ID, From::Now);
    let (end, ()) = tokio::join!(chunks.next(), async {
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!("over")).await;
    });
    assert!(matches!(end, Err(ClientError::Protocol { .. })), "{end:?}");
    assert_eq!(chunks.next().await.unwrap(), None);
    assert!(!chunks.closed());
}
