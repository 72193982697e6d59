use crate::fake::{Fake, ID};
use outlast_client::{Activity, Chunk, From, blocking};
use outlast_wire::frame;
use outlast_wire::v1::{Event, Request};
use serde_json::json;
use tokio::net::UnixStream;

#[test]
fn the_blocking_client_asks_the_same() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let engine = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            theirs.set_nonblocking(true).unwrap();
            let mut fake = Fake::new(UnixStream::from_std(theirs).unwrap());
            fake.hello().await;
            let m = fake.message().await.unwrap();
            assert!(matches!(m.request, Request::Active(Activity::Any)));
            fake.answer(m.id, json!({"active": true, "running": 2})).await;
            let m = fake.message().await.unwrap();
            fake.event(m.id, Event::At { byte: 0 }).await;
            fake.raw(&frame::raw(m.id, b"hi")).await;
            fake.answer(m.id, json!({"next_byte": 2, "closed": true})).await;
            let m = fake.message().await.unwrap();
            fake.event(m.id, Event::Waiting { after: Some(1) }).await;
        });
    });
    let client = blocking::Client::over(ours).unwrap();
    assert!(client.active(Activity::Any).unwrap());
    let got: Result<Vec<_>, _> = client.read(ID, From::Byte(0)).collect();
    assert_eq!(got.unwrap(), [Chunk::Bytes { at: 0, bytes: b"hi".to_vec() }]);
    // The engine ends once.
    let told: Vec<_> = client.follow_notices(None).collect();
    assert!(matches!(&told[..], [Err(_)]), "{told:?}");
    engine.join().unwrap();
}
