//! MCP over HTTP on the loopback interface, for clients that share a server.
//!
//! Each request must have the token: every user and every web page of the machine can reach the interface. `Host` and `Origin` are checked
//! as well, so that a page whose host name points here is refused even if it knows the token.
//!
//! Decision 108: docs/decisions/tools-mcp.md.

use crate::Server;
use crate::receipt::{AnswerReceipt, AnswerReceipts};
use crate::session::{Sessions, named};
use crate::slots::{Slot, Slots};
use bytes::{Buf as _, Bytes};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The longest request.
const MAX_REQUEST_BYTES: usize = 8 << 20;
/// The most connections at once.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failed accept, as when the descriptors are used up.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The path of the endpoint.
const PATH: &str = "/mcp";
/// The header that names what a request is about.
const NAME_HEADER: &str = "mcp-name";
/// The origins that are accepted: web pages of this machine. They need the token, too.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The secret that a client has to send with each request.
#[derive(Clone)]
pub struct Token(String);

/// A text that cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadToken;

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token has 16 to 256 letters, digits, `-`, `_`, `.` or `~`")
    }
}

impl std::error::Error for BadToken {}

impl Token {
    /// A new random token.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; 32];
        let mut drawn = 0;
        while drawn < bytes.len() {
            drawn += rustix::rand::getrandom(&mut bytes[drawn..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// A token that a user chose.
    pub fn read(text: &str) -> Result<Self, BadToken> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b));
        if plain && (16..=256).contains(&text.len()) { Ok(Self(text.to_owned())) } else { Err(BadToken) }
    }

    /// The text of the token, for the program that hands it to clients.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a request has the token. The comparison takes the same time wherever they differ.
    fn is_in(&self, value: Option<&HeaderValue>) -> bool {
        let given = value.and_then(|v| v.to_str().ok()).and_then(|v| v.split_once(' '));
        let Some((_, given)) = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else { return false };
        let (given, own) = (given.trim().as_bytes(), self.0.as_bytes());
        given.len() == own.len() && given.iter().zip(own).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A server on the loopback interface.
pub struct Http<S> {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service<S>>,
    slots: Slots,
}

struct Service<S> {
    mcp: StreamableHttpService<S, LocalSessionManager>,
    sessions: Sessions,
    /// Is told of the end of sessions, unless another kind of server is served.
    conversations: Option<Server>,
    /// `None` if every request is accepted, as in tests of the protocol.
    token: Option<Token>,
}

impl Http<Server> {
    /// Listens at an address of the loopback interface; any other is refused.
    pub async fn listen(address: SocketAddr, server: Server, token: Token) -> io::Result<Self> {
        let (listener, address) = bound(address).await?;
        let conversations = Some(server.clone());
        let service = Service { conversations, ..Service::new(move || server.for_another(), Some(token)) };
        Ok(Self { listener, address, service: Arc::new(service), slots: Slots::new(MAX_CONNECTIONS) })
    }
}

/// A listener at an address of the loopback interface, and its address.
async fn bound(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    if !address.ip().is_loopback() {
        let what = format!("{} is not an address of the loopback interface: use 127.0.0.1 or [::1]", address.ip());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl<S: ServerHandler> Http<S> {
    /// Listens for another kind of server; `make` makes one for each connection. Without a token every request is accepted, which is for tests
    /// of the protocol only.
    pub async fn listen_for(address: SocketAddr, make: impl Fn() -> S + Send + Sync + 'static, token: Option<Token>) -> io::Result<Self> {
        let (listener, address) = bound(address).await?;
        Ok(Self { listener, address, service: Arc::new(Service::new(make, token)), slots: Slots::new(MAX_CONNECTIONS) })
    }

    /// The address of the endpoint.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // No event says when a descriptor is free again.
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                    continue;
                }
            };
            let slot = Arc::new(self.slots.take().await);
            let connection = self.service.clone().connection(stream, slot.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = connection => {}
                    () = slot.given_away() => tracing::debug!("a connection that had shown no token gave way to another"),
                }
            });
        }
    }
}

impl<S: ServerHandler> Service<S> {
    fn new(make: impl Fn() -> S + Send + Sync + 'static, token: Option<Token>) -> Self {
        let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(MAX_REQUEST_BYTES).with_allowed_origins(ORIGINS);
        let sessions = Sessions::default();
        let mcp = StreamableHttpService::new(move || Ok(make()), sessions.manager(), config);
        Self { mcp, sessions, conversations: None, token }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, slot: Arc<Slot>) {
        // A small answer must not wait for more bytes. If this fails, the answer is merely slower.
        let _slower = stream.set_nodelay(true);
        // Receipts of answers that the library has taken and that are not in the socket yet.
        let written = AnswerReceipts::default();
        let io = TokioIo::new(Flushing { stream, written: written.clone() });
        let answer = service_fn(move |request: Request<Incoming>| {
            let (service, slot, written) = (self.clone(), slot.clone(), written.clone());
            async move { Ok::<_, Infallible>(service.answer(request, &slot, written).await) }
        });
        let mut connection = hyper::server::conn::http1::Builder::new();
        connection.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        if let Err(error) = connection.serve_connection(io, answer).await {
            tracing::debug!(%error, "a connection ended");
        }
    }

    async fn answer<B>(&self, mut request: Request<B>, slot: &Slot, written: AnswerReceipts) -> Response<BoxBody<Bytes, Infallible>>
    where
        B: Body + Send + 'static,
        B::Error: fmt::Display,
    {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "there is nothing here: the endpoint is /mcp\n");
        }
        if self.token.as_ref().is_some_and(|token| !token.is_in(request.headers().get(header::AUTHORIZATION))) {
            let mut refused = refusal(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: send `Authorization: Bearer TOKEN`; `outlast mcp --http` says where it is kept\n",
            );
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"outlast\""));
            // Only a client with the token keeps its slot.
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return refused;
        }
        if !slot.keep() {
            // The connection is about to end, so no call may begin: its answer would be lost.
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections: try again\n");
        }
        let receipts = AnswerReceipts::default();
        request.extensions_mut().insert(receipts.clone());
        self.sessions.used_by(&request);
        let deleted = (request.method() == Method::DELETE).then(|| named(request.headers())).flatten();
        let mut answered = match needs_name(&request) {
            true => match with_name(request).await {
                Ok(named) => self.mcp.handle(named).await,
                Err(refused) => return refused,
            },
            false => self.mcp.handle(request).await,
        };
        if let Some(id) = deleted.filter(|_| answered.status() == StatusCode::ACCEPTED) {
            self.session_ended(&id).await;
            // The library's 202 says that the session will end. It has ended, and some clients take nothing else for success.
            *answered.status_mut() = StatusCode::NO_CONTENT;
        }
        if let Some(id) = self.sessions.begun_by(&answered).await {
            self.session_ended(&id).await;
        }
        answered.map(|body| Answered { body, receipts, written }.boxed())
    }

    /// Has the conversation of a session end at once, and not only when it was unused for long.
    async fn session_ended(&self, id: &SessionId) {
        if let Some(server) = &self.conversations {
            server.session_ended(id).await;
        }
    }
}

/// Whether a request about a task lacks the header that names the task. FastMCP 4.1.2 leaves it out, and the library refuses that.
fn needs_name<B>(request: &Request<B>) -> bool {
    let method = request.headers().get("mcp-method").and_then(|method| method.to_str().ok());
    request.method() == Method::POST
        && method.is_some_and(|method| method.starts_with("tasks/"))
        && !request.headers().contains_key(NAME_HEADER)
}

/// The same request with the header, as its body names the task.
async fn with_name<B>(request: Request<B>) -> Result<Request<Full<Bytes>>, Response<BoxBody<Bytes, Infallible>>>
where
    B: Body + Send + 'static,
    B::Error: fmt::Display,
{
    #[derive(serde::Deserialize)]
    struct Asked {
        params: Option<TaskId>,
    }
    #[derive(serde::Deserialize)]
    struct TaskId {
        #[serde(rename = "taskId")]
        task_id: String,
    }
    let (mut head, body) = request.into_parts();
    let Ok(mut body) = Limited::new(body.map_err(|error| error.to_string()), MAX_REQUEST_BYTES).collect().await.map(Collected::aggregate)
    else {
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the request has more than 8 MiB, or did not arrive whole\n"));
    };
    let body = body.copy_to_bytes(body.remaining());
    let asked = serde_json::from_slice::<Asked>(&body).ok().and_then(|asked| asked.params);
    if let Some(name) = asked.and_then(|of| HeaderValue::from_str(&of.task_id).ok()) {
        head.headers.insert(NAME_HEADER, name);
    }
    Ok(Request::from_parts(head, Full::new(body)))
}

fn refusal(status: StatusCode, why: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// A body that moves its receipts to `written` when the library has given out the answer. The receipts then wait for the socket. If the
/// body ends without an answer, as after a cancelled request, or is dropped before, they are dropped.
struct Answered<T> {
    body: BoxBody<Bytes, Infallible>,
    receipts: AnswerReceipts<T>,
    written: AnswerReceipts<T>,
}

impl<T> Body for Answered<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && !self.receipts.is_empty()
            && frame.data_ref().is_some_and(|piece| is_answer(piece))
        {
            for receipt in self.receipts.take() {
                self.written.add(receipt);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether a piece of a body is the result of a request, plain or as an event. The library gives each message in one piece.
fn is_answer(piece: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message {
        result: Option<IgnoredAny>,
    }
    let texts = piece.split(|b| *b == b'\n').map(|line| line.strip_prefix(b"data:").unwrap_or(line));
    texts.filter_map(|text| serde_json::from_slice::<Message>(text).ok()).any(|message| message.result.is_some())
}

/// A stream that confirms answers when all its bytes are in the socket.
struct Flushing {
    stream: TcpStream,
    written: AnswerReceipts,
}

impl AsyncRead for Flushing {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Flushing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, pieces: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            for receipt in self.written.take() {
                tokio::spawn(AnswerReceipt::arrived(receipt));
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Reads a whole body, and returns what counts as written then.
    async fn taken(pieces: &[&'static str]) -> Vec<&'static str> {
        let frames: Vec<_> = pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece.as_bytes())))).collect();
        let (receipts, written) = (AnswerReceipts::default(), AnswerReceipts::default());
        receipts.add("an end");
        let mut body = Answered { body: Pieces(frames.into()).boxed(), receipts, written: written.clone() };
        while body.frame().await.is_some() {}
        written.take()
    }

    struct Pieces(std::collections::VecDeque<Result<Frame<Bytes>, Infallible>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    #[tokio::test]
    async fn a_body_that_ends_without_the_answer_has_told_nothing() {
        let (priming, progress) = ("id: 0/1\ndata: \n\n", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n");
        assert!(taken(&[priming, progress]).await.is_empty());
        assert_eq!(taken(&[priming, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"]).await, ["an end"]);
        assert_eq!(taken(&["{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"]).await, ["an end"]);
    }

    struct Nothing;

    impl ServerHandler for Nothing {}

    /// Sends a request, and returns the status line.
    async fn asked(stream: &mut TcpStream, token: &Token) -> String {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            token.reveal(),
            initialize.len()
        );
        stream.write_all((head + initialize).as_bytes()).await.unwrap();
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        // The body ends with an empty chunk.
        while !answer.ends_with(b"0\r\n\r\n") {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(n) => answer.extend_from_slice(&piece[..n]),
            }
        }
        String::from_utf8(answer).unwrap().lines().next().unwrap_or("the connection ended").to_owned()
    }

    /// A connection on which a client has begun a request and not ended it.
    async fn silent(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").await.unwrap();
        stream
    }

    #[tokio::test]
    async fn whoever_shows_no_token_keeps_nobody_out() {
        let token = Token::draw().unwrap();
        let mut http = Http::listen_for(([127, 0, 0, 1], 0).into(), || Nothing, Some(token.clone())).await.unwrap();
        http.slots = Slots::new(2);
        let address = http.address;
        let serving = tokio::spawn(http.serve());
        let seen = async {
            let (mut first, mut second) = (silent(address).await, silent(address).await);
            let mut client = TcpStream::connect(address).await.unwrap();
            assert_eq!(asked(&mut client, &token).await, "HTTP/1.1 200 OK");
            assert!(!matches!(first.read(&mut [0]).await, Ok(1..)), "it has given way");
            let _third = silent(address).await;
            assert!(!matches!(second.read(&mut [0]).await, Ok(1..)), "it has given way");
            assert_eq!(asked(&mut client, &token).await, "HTTP/1.1 200 OK", "the one with the token has its slot still");
        };
        tokio::time::timeout(HEAD_TIMEOUT / 2, seen).await.expect("it does not wait until the silent ones are given up");
        serving.abort();
    }

    #[test]
    fn only_a_result_is_an_answer() {
        for (piece, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true),
            ("id: 3/1\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"content\":[]}}\n\n", true),
            ("id: 0/1\nretry: 3000\ndata: \n\n", false),
            (":\n\n", false),
            (r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"\"result\":{}"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#, false),
        ] {
            assert_eq!(is_answer(piece.as_bytes()), want, "{piece}");
        }
    }

    #[test]
    fn a_token_is_compared_whole_and_never_shown() {
        let token = Token::read("0123456789abcdef").unwrap();
        let header = |text: &str| HeaderValue::from_str(text).unwrap();
        assert!(token.is_in(Some(&header("Bearer 0123456789abcdef"))) && token.is_in(Some(&header("bearer 0123456789abcdef "))));
        for bad in ["Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer "]
        {
            assert!(!token.is_in(Some(&header(bad))), "{bad}");
        }
        assert!(!token.is_in(None));
        assert_eq!(format!("{token:?}"), "Token");
        let drawn = Token::draw().unwrap();
        assert!(drawn.reveal().len() == 64 && Token::read(drawn.reveal()).is_ok());
        for bad in ["short", "0123456789 abcdef", "0123456789abcdef\n", &"x".repeat(257)] {
            assert!(Token::read(bad).is_err(), "{bad:?}");
        }
    }
}
