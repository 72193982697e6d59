use crate::fake::{Home, ID};
use outlast_client::{At, code};
use outlast_wire::frame::Frame;
use outlast_wire::v1::Request;
use serde_json::json;

#[tokio::test]
async fn a_long_write_goes_in_pieces_that_follow_each_other() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    let (written, got) = tokio::join!(client.write(ID, &bytes, At::Byte(10)), async {
        let mut got = Vec::new();
        while got.len() < bytes.len() {
            let m = fake.message().await.unwrap();
            let Request::Write { at: Some(at), len, .. } = m.request else { panic!("{m:?}") };
            assert_eq!(at, 10 + got.len() as u64);
            let end = got.len() + len as usize;
            while got.len() < end {
                let Some(Frame::Raw { of, bytes }) = fake.frame().await else { panic!("expected bytes") };
                assert_eq!(of, m.id);
                got.extend_from_slice(&bytes);
            }
            fake.answer(m.id, json!({"status": "ok", "bytes_written": len, "next_offset": 10 + got.len()})).await;
        }
        got
    });
    assert_eq!(written.unwrap().bytes_written, Some(300_000));
    assert!(got == bytes);
}

#[tokio::test]
async fn a_write_without_an_offset_is_never_repeated() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (written, ()) = tokio::join!(client.submit(ID, b"y", At::End), async {
        fake.message().await.unwrap();
        drop(fake);
    });
    assert_eq!(written.unwrap_err().code(), code::MAYBE_WRITTEN);
}
