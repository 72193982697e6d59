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
const MOST_HEAD: usize = 64 * 1024;

/// What a receiver answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    /// The body, as far as it was read.
    pub(crate) said: Vec<u8>,
}

/// How much of an answer's body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Also where the status is a success.
    pub(crate) always: bool,
    /// At most so many bytes.
    pub(crate) most: usize,
    /// For at most so long. What has come by then is all there is.
    pub(crate) within: Duration,
}

/// What is asked.
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    pub(crate) target: &'a Target,
    pub(crate) headers: &'a [(&'static str, String)],
    /// In JSON.
    pub(crate) body: Vec<u8>,
    /// How long finding the receiver, connecting and agreeing on TLS may take.
    pub(crate) connect: Duration,
    /// How long all of it may take.
    pub(crate) whole: Duration,
    pub(crate) reading: Reading,
}

/// Asks, and waits for the answer. An error says why there is none.
pub(crate) async fn send(asked: Asked<'_>, trust: &Trust) -> Result<Answer, String> {
    let Asked { method, target, headers, body, connect: connecting, whole, reading } = asked;
    let end = Instant::now() + whole;
    let request = request(method, target, headers, body)?;
    let stream = match timeout(connecting.min(whole), connect(target, trust, connecting)).await {
        Ok(stream) => stream?,
        Err(_) => return Err(format!("no connection to {target} within {connecting:?}")),
    };
    match timeout_at(end, exchange(stream, request, reading, end)).await {
        Ok(answer) => answer.map_err(|e| format!("no answer from {target}: {}", reason::chain(&e))),
        Err(_) => Err(format!("no answer from {target} within {whole:?}")),
    }
}

fn request(method: Method, target: &Target, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
    // The values are ours and checked, but a mistake here must not become a panic in the engine.
    let unfit = |e: http::Error| format!("the request cannot be made: {e}");
    let mut builder = Request::builder().method(method).uri(&target.path).header(HOST, &target.authority);
    builder = builder.header(CONTENT_TYPE, "application/json").header(USER_AGENT, concat!("outlast/", env!("CARGO_PKG_VERSION")));
    // One request is all there is.
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

/// What a request goes through.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn connect(target: &Target, trust: &Trust, within: Duration) -> Result<Box<dyn Stream>, String> {
    let tcp = reach(target, &trust.lookups, within).await?;
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

/// Connects to the first address that lets us.
async fn reach(target: &Target, lookups: &Lookups, within: Duration) -> Result<TcpStream, String> {
    let unreachable = |e: &io::Error| format!("cannot connect to {target}: {e}");
    let addresses = lookups.find(&target.host, target.port).await.map_err(|why| format!("cannot find {target}: {why}"))?;
    // A name for this machine may lead elsewhere, if somebody said so in `/etc/hosts` or a name server.
    let allowed: Vec<SocketAddr> = addresses.into_iter().filter(|a| !target.loopback_only || a.ip().is_loopback()).collect();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address that may be used");
    // One that swallows what it gets must not use up the time of the others.
    let each = within / u32::try_from(allowed.len().max(1)).unwrap_or(u32::MAX);
    for address in allowed {
        match timeout(each, TcpStream::connect(address)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                // One write, one answer: waiting to fill a packet would only delay it. Without it, it is merely slower.
                let _slower = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(unreachable(&last))
}

async fn exchange(stream: Box<dyn Stream>, request: Request<Full<Bytes>>, reading: Reading, end: Instant) -> Result<Answer, hyper::Error> {
    let (mut sender, connection) = http1::Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(stream)).await?;
    // Whatever moves the bytes ends with this function.
    let mut mover = JoinSet::new();
    mover.spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let mut said = Vec::new();
    if reading.always || !status.is_success() {
        // It may say more; but the status is known, and nobody can take that back by saying it slowly.
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
/// the system's roots, and more if configured; they are read when first needed.
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
    // What cannot be read or understood of the system's store is left out, as every other program does.
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
