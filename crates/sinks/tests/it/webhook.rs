//! Webhooks.

use crate::hook::reason;
use crate::queue::{Memory, Running, start};
use crate::receiver::{Receiver, Request};
use outlast_sinks::{Secret, Settle, SinkConfig, Target, Way, Webhook};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const KEYS: [&[u8; 24]; 2] = [b"a key of twenty-four by.", b"another of twenty-four.."];

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().enumerate().fold(0u32, |all, (n, b)| all | u32::from(*b) << (16 - 8 * n));
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n)) as usize & 63] as char;
            out.push(if n <= three.len() { letter } else { '=' });
        }
    }
    out
}

/// HMAC as RFC 2104 defines it, from nothing but the hash.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|n| key.get(n).unwrap_or(&0) ^ with).collect() };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn signature(key: &[u8], request: &Request) -> String {
    let head = format!("{}.{}.", request.header("webhook-id").unwrap(), request.header("webhook-timestamp").unwrap());
    let signed: Vec<u8> = head.into_bytes().into_iter().chain(request.body.iter().copied()).collect();
    format!("v1,{}", base64(&hmac(key, &signed)))
}

pub(crate) fn sink(url: &str, change: impl FnOnce(&mut Webhook)) -> SinkConfig {
    let secrets = KEYS.iter().map(|key| Secret::parse(&format!("whsec_{}", base64(*key))).unwrap()).collect();
    let mut webhook = Webhook::new(Target::parse(url, false).unwrap(), secrets, Some(tls("root.pem"))).unwrap();
    change(&mut webhook);
    SinkConfig::webhook("w", webhook).unwrap()
}

fn tls(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(file)
}

struct Scene {
    queue: Arc<Memory>,
    _running: Running,
}

impl Scene {
    fn new(url: &str) -> Self {
        Self::with(url, |_| {})
    }

    fn with(url: &str, change: impl FnOnce(&mut Webhook)) -> Self {
        let queue = Memory::new();
        let _running = start(&queue, vec![sink(url, change)]);
        Self { queue, _running }
    }

    /// How the first attempt to tell something goes.
    async fn first(&self) -> Settle {
        self.queue.post("w", "s", "x");
        self.queue.settlements(1).await.remove(0).1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_signed_as_standard_webhooks_says() {
    let receiver = Receiver::says(&[OK]);
    let scene = Scene::new(&receiver.url("/hook?a=b"));
    let seq = scene.queue.post("w", "agent:1", "done");
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(request.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(request.header("host").unwrap(), format!("127.0.0.1:{}", receiver.port));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(request.header("user-agent").unwrap().starts_with("outlast/"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("webhook-id"), Some("evt_1"));
    let at: u64 = request.header("webhook-timestamp").unwrap().parse().unwrap();
    assert!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - at < 60);
    let signatures: Vec<&str> = request.header("webhook-signature").unwrap().split(' ').collect();
    assert_eq!(signatures, KEYS.map(|key| signature(key, request)), "one for each secret");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["type"], "outlast.custom");
    assert_eq!(body["timestamp"], "1970-01-01T00:00:01.000000Z");
    assert_eq!(body["data"]["text"], "done");
    assert_eq!(body["data"]["event"]["session_key"], "agent:1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_tried_again_under_the_same_id() {
    let error = "HTTP/1.1 500 Oh\r\ncontent-length: 12\r\n\r\nout of order";
    let receiver = Receiver::says(&[error, "HTTP/1.1 404 No\r\n\r\n", OK]);
    let scene = Scene::new(&receiver.url("/"));
    let seq = scene.queue.post("w", "s", "x");
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let settled = scene.queue.settled();
    assert_eq!((reason(&settled[0].1), reason(&settled[1].1)), ("answered 500: out of order", "answered 404"));
    assert!(matches!(settled[0].1, Settle::Retry { after, .. } if after <= Duration::from_secs(5)));
    assert!(matches!(settled[1].1, Settle::Retry { after, .. } if after > Duration::from_secs(200)));
    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|r| r.header("webhook-id") == Some("evt_1") && r.body == requests[0].body));
}

#[test]
fn a_name_is_looked_up_on_no_thread_that_others_need() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    // The runtime's only blocking thread reads a disk that hangs, until the test is over.
    runtime.spawn_blocking(move || wait.recv());
    runtime.block_on(async {
        let receiver = Receiver::says(&[OK]);
        let scene = Scene::new(&format!("http://localhost:{}/", receiver.port));
        assert_eq!(scene.first().await, Settle::Delivered);
    });
    drop(go);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_answers_is_not_waited_for() {
    let receiver = Receiver::new(|_, stream| {
        // Until the other side gives up.
        let _closed = stream.read(&mut [0]);
    });
    let scene = Scene::with(&receiver.url("/"), |w| w.whole = Duration::from_millis(300));
    let settle = scene.first().await;
    assert_eq!(reason(&settle), format!("no answer from http://127.0.0.1:{} within 300ms", receiver.port));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wants_no_more_gets_no_more() {
    let receiver = Receiver::says(&["HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"]);
    let scene = Scene::new(&receiver.url("/"));
    let settle = scene.first().await;
    assert_eq!(settle, Settle::Dead { reason: "answered 410: the receiver unsubscribed".into() });
    let next = scene.queue.post("w", "s", "x");
    assert!(matches!(scene.queue.end_of(next).await, Settle::Dead { .. }));
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_time_gets_it() {
    for status in ["429 Slow Down", "503 Later"] {
        let receiver = Receiver::says(&[&format!("HTTP/1.1 {status}\r\nretry-after: 77\r\ncontent-length: 0\r\n\r\n"), OK]);
        let scene = Scene::new(&receiver.url("/"));
        let settle = scene.first().await;
        assert!(matches!(settle, Settle::Retry { after, .. } if after == Duration::from_secs(77)), "{settle:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::says(&[OK]);
    let redirect = format!("HTTP/1.1 307 There\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url("/"));
    let receiver = Receiver::says(&[&redirect]);
    let scene = Scene::new(&receiver.url("/"));
    assert_eq!(reason(&scene.first().await), "answered 307, and redirects are not followed");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_or_talks_nonsense_has_not_answered() {
    for answer in ["", "HTTP/1.1 200", "nonsense\r\n\r\n"] {
        let receiver = Receiver::says(&[answer]);
        let scene = Scene::new(&receiver.url("/"));
        let settle = scene.first().await;
        assert!(reason(&settle).starts_with("no answer from http://127.0.0.1:"), "{answer:?}: {settle:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_answer_is_cut_off() {
    let receiver = Receiver::new(|_, stream| {
        let _closed = stream.write_all(b"HTTP/1.1 500 Oh\r\n\r\n");
        while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    });
    let scene = Scene::new(&receiver.url("/"));
    let settle = scene.first().await;
    assert!(reason(&settle).starts_with("answered 500: xxx") && reason(&settle).len() < 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_head_is_cut_off() {
    let receiver = Receiver::new(|_, stream| {
        let _closed = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ");
        while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    });
    let scene = Scene::new(&receiver.url("/"));
    assert!(reason(&scene.first().await).starts_with("no answer from http://"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dripping_head_does_not_stretch_the_time() {
    let receiver = Receiver::new(|_, stream| {
        let mut drip = || stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").and_then(|()| stream.flush());
        let _closed = drip();
        // As slow as that it never ends; each drop is in time.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let scene = Scene::with(&receiver.url("/"), |w| w.whole = Duration::from_millis(300));
    let settle = scene.first().await;
    assert!(reason(&settle).ends_with("within 300ms"), "{settle:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_a_yes_however_slowly_more_is_said() {
    let receiver = Receiver::new(|_, stream| {
        let _closed = stream.write_all(b"HTTP/1.1 202 Yes\r\ncontent-length: 1000000\r\n\r\n");
        let _closed = stream.read(&mut [0]);
    });
    let scene = Scene::new(&receiver.url("/"));
    let began = Instant::now();
    assert_eq!(scene.first().await, Settle::Delivered);
    assert!(began.elapsed() < Webhook::WHOLE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_in_the_address_is_sent_and_never_shown() {
    let receiver = Receiver::says(&["HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"]);
    let url = format!("http://me:hush@127.0.0.1:{}/hush?hush", receiver.port);
    let config = sink(&url, |_| {});
    assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    let scene = Scene::new(&url);
    let settle = scene.first().await;
    assert_eq!(reason(&settle), "answered 401");
    assert_eq!(receiver.requests()[0].header("authorization").unwrap(), format!("Basic {}", base64(b"me:hush")));
    assert_eq!(receiver.requests()[0].header("host").unwrap(), format!("127.0.0.1:{}", receiver.port));
    drop(receiver);
    let refused = Scene::new(&url);
    let settle = refused.first().await;
    assert!(reason(&settle).starts_with("cannot connect to http://127.0.0.1:") && !reason(&settle).contains("hush"), "{settle:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_accept_is_not_waited_for() {
    // Its queue is filled, so that further connections wait for ever.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let filled: Vec<_> = (0..8).map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50))).collect();
    assert!(filled.iter().any(Result::is_err), "the queue is full");
    let url = format!("http://127.0.0.1:{}", address.port());
    let scene = Scene::with(&url, |w| w.connect = Duration::from_millis(200));
    let settle = scene.first().await;
    let told = [format!("no connection to {url} within 200ms"), format!("cannot connect to {url}: timed out")];
    assert!(told.contains(&reason(&settle).to_owned()), "{settle:?}");
}

mod secure {
    use super::*;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

    /// A receiver behind TLS that answers every request with yes.
    fn receiver() -> (u16, std::thread::JoinHandle<Option<Request>>) {
        let certificate = CertificateDer::from_pem_file(tls("receiver.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(tls("receiver.key")).unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (tcp, _) = listener.accept().unwrap();
            let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
            let request = Request::read(&mut tls)?;
            tls.write_all(OK.as_bytes()).ok()?;
            Some(request)
        });
        (port, thread)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_receiver_with_a_trusted_certificate_is_told() {
        for host in ["127.0.0.1", "localhost"] {
            let (port, thread) = receiver();
            let scene = Scene::new(&format!("https://{host}:{port}/hook"));
            assert_eq!(scene.first().await, Settle::Delivered);
            let request = thread.join().unwrap().unwrap();
            assert_eq!(request.header("webhook-signature").unwrap(), KEYS.map(|key| signature(key, &request)).join(" "));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stranger_is_told_nothing() {
        let (port, thread) = receiver();
        let secret = Secret::parse(&format!("whsec_{}", base64(KEYS[0]))).unwrap();
        let target = Target::parse(&format!("https://127.0.0.1:{port}/"), false).unwrap();
        // Trusts the receiver's own certificate as a root, which it is not.
        let untrusting = Webhook::new(target, vec![secret], Some(tls("receiver.pem"))).unwrap();
        let queue = Memory::new();
        let mut config = sink("https://localhost/", |_| {});
        config.way = Way::Webhook(untrusting);
        let _running = start(&queue, vec![config]);
        queue.post("w", "s", "x");
        let settle = queue.settlements(1).await.remove(0).1;
        assert!(reason(&settle).starts_with("no secure connection to https://127.0.0.1:"), "{settle:?}");
        assert!(thread.join().unwrap().is_none());
    }
}
