//! One request over HTTP/1.1: no pool, no proxy, no redirect, every wait bounded.

use crate::lookup::Lookups;
use crate::{Target, reason};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// How large the head of an answer may be.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What a receiver answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    /// The part of the body that was read.
    pub(crate) said: Vec<u8>,
}

/// How much of an answer's body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Read it also if the status is a success.
    pub(crate) always: bool,
    /// The most bytes to read.
    pub(crate) most: usize,
    /// How long to read. Bytes that come later are ignored.
    pub(crate) within: Duration,
}

/// One request, and the limits of its answer.
pub(crate) struct OutRequest<'a> {
    pub(crate) method: Method,
    pub(crate) target: &'a Target,
    pub(crate) headers: &'a [(&'static str, String)],
    /// JSON.
    pub(crate) body: Vec<u8>,
    /// How long finding the receiver, connecting and agreeing on TLS may take.
    pub(crate) connect: Duration,
    /// How long the whole request may take.
    pub(crate) whole: Duration,
    pub(crate) reading: Reading,
}

/// Makes a request and waits for the answer. An error says why there is none.
pub(crate) async fn send(asked: OutRequest<'_>, trust: &Trust) -> Result<Answer, String> {
    let OutRequest { method, target, headers, body, connect: connecting, whole, reading } = asked;
    let end = Instant::now() + whole;
    let request = request(method, target, headers, body)?;
    let by = Instant::now() + connecting.min(whole);
    let addresses = match timeout_at(by, trust.lookups.find(&target.host, target.port)).await {
        Ok(found) => found.map_err(|why| format!("cannot find {target}: {why}"))?,
        Err(_) => {
            let server = format!("the name server does not answer within {connecting:?}");
            return Err(format!("cannot find {target}: the name {} could not be looked up, because {server}", target.host));
        }
    };
    let stream = match timeout_at(by, connect(target, trust, addresses, connecting)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(format!("no connection to {target} within {connecting:?}")),
    };
    match timeout_at(end, exchange(stream, request, reading, end)).await {
        Ok(answer) => answer.map_err(|e| format!("no answer from {target}: {}", reason::chain(&e))),
        Err(_) => Err(format!("no answer from {target} within {whole:?}")),
    }
}

fn request(method: Method, target: &Target, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
    // The values are our own and checked, but a mistake here must not make the engine panic.
    let unfit = |e: http::Error| format!("the request cannot be made: {e}");
    let mut builder = Request::builder().method(method).uri(&target.path).header(HOST, &target.authority);
    builder = builder.header(CONTENT_TYPE, "application/json").header(USER_AGENT, concat!("outlast/", env!("CARGO_PKG_VERSION")));
    // Connections are not reused.
    builder = builder.header(http::header::CONNECTION, "close");
    if let Some(credentials) = &target.authorization {
        let mut value = HeaderValue::from_str(credentials).map_err(|e| unfit(e.into()))?;
        value.set_sensitive(true);
        builder = builder.header(AUTHORIZATION, value);
    }
    for (name, value) in headers {
        builder = builder.header(HeaderName::from_static(name), value);
    }
    builder.body(Full::new(Bytes::from(body))).map_err(unfit)
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn connect(target: &Target, trust: &Trust, addresses: Vec<SocketAddr>, within: Duration) -> Result<Box<dyn Stream>, String> {
    let tcp = reach(target, addresses, within).await?;
    if !target.tls {
        return Ok(Box::new(tcp));
    }
    let config = trust.config().await?;
    let name = ServerName::try_from(target.host.clone()).map_err(|_| format!("{target} has a name that no certificate can have"))?;
    match TlsConnector::from(config).connect(name, tcp).await {
        Ok(tls) => Ok(Box::new(tls)),
        Err(e) => Err(format!("no secure connection to {target}: {}", reason::chain(&e))),
    }
}

/// Connects to the first address that accepts the connection.
async fn reach(target: &Target, addresses: Vec<SocketAddr>, within: Duration) -> Result<TcpStream, String> {
    let unreachable = |e: &io::Error| format!("cannot connect to {target}: {e}");
    // `/etc/hosts` or a name server may resolve a name like `localhost` to another machine.
    let allowed: Vec<SocketAddr> = addresses.into_iter().filter(|a| !target.loopback_only || a.ip().is_loopback()).collect();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address that may be used");
    // An address that drops packets must not use up the time of the others.
    let each = within / u32::try_from(allowed.len().max(1)).unwrap_or(u32::MAX);
    for address in allowed {
        match timeout(each, TcpStream::connect(address)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                // A request is one write, so waiting to fill a packet only delays it. If this fails, the request is merely slower.
                let _slower = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(unreachable(&last))
}

async fn exchange(stream: Box<dyn Stream>, request: Request<Full<Bytes>>, reading: Reading, end: Instant) -> Result<Answer, hyper::Error> {
    let (mut sender, connection) = http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(TokioIo::new(stream)).await?;
    // The task that moves the bytes ends with this function.
    let mut mover = JoinSet::new();
    mover.spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let mut said = Vec::new();
    if reading.always || !status.is_success() {
        // A slow body does not matter: the status is known already.
        let _partly = timeout_at(end.min(Instant::now() + reading.within), listen(response.into_body(), reading.most, &mut said)).await;
    }
    Ok(Answer { status, retry_after, said })
}

async fn listen(mut body: Incoming, most: usize, said: &mut Vec<u8>) {
    while said.len() < most {
        let Some(Ok(frame)) = body.frame().await else { return };
        if let Some(bytes) = frame.data_ref() {
            said.extend_from_slice(&bytes[..bytes.len().min(most - said.len())]);
        }
    }
}

/// What the requests of one sink share: the running look-ups of names, and the certificates that receivers are checked against. Those are
/// the system's roots, and more if configured. They are read when first needed.
pub(crate) struct Trust {
    lookups: Lookups,
    more: Option<PathBuf>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Trust").field(&self.more).finish()
    }
}

impl Trust {
    pub(crate) fn new(more: Option<PathBuf>) -> Self {
        Self { lookups: Lookups::default(), more, config: OnceCell::new() }
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let make = || async {
            let more = self.more.clone();
            let made = tokio::task::spawn_blocking(move || read(more)).await;
            made.map_err(|e| format!("cannot read the trusted certificates: {e}"))?.map(Arc::new)
        };
        self.config.get_or_try_init(make).await.cloned()
    }
}

fn read(more: Option<PathBuf>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Certificates of the system's store that cannot be parsed are left out, as other programs do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = more {
        let unreadable = |e: &dyn std::fmt::Display| format!("cannot read certificates from {}: {e}", path.display());
        for certificate in CertificateDer::pem_file_iter(&path).map_err(|e| unreadable(&e))? {
            roots.add(certificate.map_err(|e| unreadable(&e))?).map_err(|e| unreadable(&e))?;
        }
    }
    if roots.is_empty() {
        return Err("this system has no trusted certificates: install its `ca-certificates`, or name a file with `ca_file`".into());
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.map_err(|e| format!("cannot set up TLS: {e}"))?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_server_that_does_not_answer_is_named() {
        let lookups = Lookups::with(|_| {
            loop {
                std::thread::park();
            }
        });
        let trust = Trust { lookups, ..Trust::new(None) };
        let target = Target::parse("https://host.example/hook", false).unwrap();
        let short = Duration::from_millis(20);
        let reading = Reading { always: false, most: 0, within: short };
        let asked =
            OutRequest { method: Method::POST, target: &target, headers: &[], body: Vec::new(), connect: short, whole: short, reading };
        let why = send(asked, &trust).await.unwrap_err();
        let name = "the name host.example could not be looked up, because the name server does not answer within 20ms";
        assert_eq!(why, format!("cannot find {target}: {name}"));
    }
}
