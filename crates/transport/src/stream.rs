//! One stream to a sandbox: the hello, frames in, frames out, and how its loss is noticed.

use crate::transport::{Opened, Transport};
use crate::{TransportError, TransportFailure};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::sandbox::{FromSandbox, NOISE_LIMIT, PREAMBLE, SandboxHello, SandboxReply, SandboxRequest, ToSandbox, Update};
use outlast_wire::{OLDEST, VERSION};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// How long a sandbox may take to be ready and to answer the first hello.
const OPEN_LIMIT: Duration = Duration::from_secs(60);
/// After this silence the link asks whether the other side is there.
const SILENCE: Duration = Duration::from_secs(15);
/// After this many questions without an answer the stream counts as lost.
const SILENCES: u32 = 3;
/// The number of the hello, and of the questions after a silence.
const OWN_NUMBER: u64 = 0;
/// How much is read at once.
const READ: usize = 64 << 10;

/// What came on a stream.
#[derive(Debug)]
pub(crate) enum StreamInput {
    /// A message. An update comes with its bytes.
    Said(FromSandbox, Vec<u8>),
    /// Bytes of a channel.
    Raw(u64, Vec<u8>),
}

/// The frames of a stream on their way to the sandbox.
pub(crate) type StreamOut = mpsc::UnboundedSender<Vec<u8>>;

/// A stream after the hellos.
pub(crate) struct Stream {
    pub(crate) hello: SandboxHello,
    opened: Opened,
    reader: FrameReader,
}

impl Stream {
    /// Opens a stream.
    pub(crate) async fn open(transport: &dyn Transport) -> Result<Self, TransportError> {
        let open = async {
            let program = transport.ensure().await?;
            let mut opened = transport.open(&program).await?;
            let mut reader = FrameReader::default();
            let asked = ToSandbox { id: OWN_NUMBER, ask: SandboxRequest::Hello { version: VERSION } };
            let greeted = async {
                opened.to.write_all(&frame::json(&asked)).await.map_err(|e| e.to_string())?;
                opened.to.flush().await.map_err(|e| e.to_string())?;
                reader.skip_noise(&mut opened.from).await?;
                reader.next(&mut opened.from).await
            };
            let said = greeted.await;
            match said {
                Ok(StreamInput::Said(FromSandbox { say: SandboxReply::Hello(hello), .. }, _)) => {
                    if !(OLDEST..=VERSION).contains(&hello.version) {
                        let what = format!("the keeper in the sandbox speaks version {}, and not {OLDEST} to {VERSION}", hello.version);
                        return Err(TransportError::refused(what, "use the same version on both sides"));
                    }
                    Ok(Self { hello: *hello, opened, reader })
                }
                Ok(other) => Err(TransportError::unavailable(format!("the sandbox said {other:?} instead of hello"))),
                Err(error) => Err(TransportError::unavailable(explained(error, opened).await)),
            }
        };
        match tokio::time::timeout(OPEN_LIMIT, open).await {
            Ok(opened) => opened,
            Err(_) => Err(TransportError::unavailable(format!("the sandbox did not answer within {} s", OPEN_LIMIT.as_secs()))),
        }
    }

    /// Moves frames until the stream is lost, and returns why. `own` is for the questions after a silence.
    pub(crate) async fn run<T>(
        self,
        mut out: mpsc::UnboundedReceiver<Vec<u8>>,
        own: StreamOut,
        inbox: mpsc::Sender<T>,
        wrap: impl Fn(StreamInput) -> T,
    ) -> TransportError {
        let Self { mut opened, mut reader, .. } = self;
        let (to, from) = (&mut opened.to, &mut opened.from);
        let write = async {
            while let Some(frame) = out.recv().await {
                if let Err(e) = to.write_all(&frame).await {
                    return e.to_string();
                }
                if out.is_empty()
                    && let Err(e) = to.flush().await
                {
                    return e.to_string();
                }
            }
            // The link has no use for it any more.
            String::from("the link closed it")
        };
        let read = async {
            let mut silences = 0;
            loop {
                match tokio::time::timeout(SILENCE, reader.next(from)).await {
                    Ok(Ok(came)) => {
                        silences = 0;
                        let is_own = matches!(&came, StreamInput::Said(said, _) if said.of == OWN_NUMBER);
                        if !is_own && inbox.send(wrap(came)).await.is_err() {
                            return String::from("the link ends");
                        }
                    }
                    Ok(Err(error)) => return error,
                    Err(_) if silences == SILENCES => return format!("nothing came for {} s", SILENCE.as_secs() * u64::from(SILENCES + 1)),
                    Err(_) => {
                        silences += 1;
                        // If it cannot be sent, the writer says so.
                        let _lost = own.send(frame::json(&ToSandbox { id: OWN_NUMBER, ask: SandboxRequest::Ping }));
                    }
                }
            }
        };
        let why = tokio::select! {
            why = write => why,
            why = read => why,
        };
        TransportError { failure: TransportFailure::Unavailable, ..TransportError::unavailable(explained(why, opened).await) }
    }
}

/// The end of a stream with what the program that carried it had to say.
async fn explained(error: String, opened: Opened) -> String {
    const LAST_WORDS: Duration = Duration::from_secs(2);
    let Opened { why, .. } = opened;
    match why {
        None => error,
        Some(why) => match tokio::time::timeout(LAST_WORDS, why).await {
            Ok(Ok(said)) => said,
            Ok(Err(_)) | Err(_) => error,
        },
    }
}

/// Puts bytes together to messages.
#[derive(Debug, Default)]
struct FrameReader {
    split: Splitter,
    /// An update whose bytes have not come.
    update: Option<(u64, Update)>,
}

impl FrameReader {
    /// Skips what came before `connect` began to write.
    async fn skip_noise(&mut self, from: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<(), String> {
        let mut seen = Vec::new();
        loop {
            if let Some(at) = seen.windows(PREAMBLE.len()).position(|part| part == PREAMBLE) {
                self.split.push(&seen[at + PREAMBLE.len()..]);
                return Ok(());
            }
            if seen.len() > NOISE_LIMIT {
                return Err("something else than the keeper answers there".into());
            }
            let mut piece = [0; 4096];
            match from.read(&mut piece).await {
                Ok(0) => return Err("the stream ended before the keeper answered".into()),
                Ok(n) => seen.extend_from_slice(&piece[..n]),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// The next message. Can be dropped half-way and called again.
    async fn next(&mut self, from: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<StreamInput, String> {
        loop {
            while let Some(frame) = self.split.next_frame().map_err(|e| e.to_string())? {
                match (frame, self.update.take()) {
                    (Frame::Raw { of, bytes }, Some((wanted, update))) if of == wanted => {
                        return Ok(StreamInput::Said(FromSandbox { of, say: SandboxReply::Update(update) }, bytes));
                    }
                    (_, Some(_)) => return Err("the sandbox violated the protocol: an update without its bytes".into()),
                    (Frame::Raw { of, bytes }, None) => return Ok(StreamInput::Raw(of, bytes)),
                    (Frame::Json(json), None) => {
                        let said: FromSandbox =
                            serde_json::from_slice(&json).map_err(|e| format!("the sandbox violated the protocol: {e}"))?;
                        match said.say {
                            SandboxReply::Update(update) => self.update = Some((said.of, update)),
                            _ => return Ok(StreamInput::Said(said, Vec::new())),
                        }
                    }
                }
            }
            let mut piece = vec![0; READ];
            match from.read(&mut piece).await {
                Ok(0) => return Err("the stream ended".into()),
                Ok(n) => self.split.push(&piece[..n]),
                Err(e) => return Err(e.to_string()),
            }
        }
    }
}
