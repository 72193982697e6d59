//! Output as bytes.

use crate::link::{CallError, Link, Stream, StreamItem, read};
use crate::peer::EngineTalk;
use crate::redial::{Repeat, Tries, to_error};
use crate::{Client, ClientError};
use outlast_core::Time;
use outlast_wire::v1::{Event, From, ReadEnd, ReadUntil, Request};
use std::sync::Arc;

/// A piece of output. The two variants are all there are, and every reader of output has to handle both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes as the command wrote them.
    Bytes {
        /// The offset of the first byte.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are missing.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The first byte after the gap.
        to: u64,
        /// Why they are missing.
        why: String,
    },
}

/// Output from an offset on, piece by piece.
///
/// If the engine dies, reading continues through the next one at the same offset: no byte is missed and none comes twice.
pub struct Chunks {
    client: Client,
    process: String,
    until: ReadUntil,
    attach: Option<ReadOnly>,
    view: View,
    masked: bool,
    timed: bool,
    /// When bytes arrived: the offset of the first, and the time.
    times: Vec<(u64, Time)>,
    from: From,
    link: Option<Arc<Link>>,
    stream: Option<Stream>,
    end: Option<ReadEnd>,
    tries: Tries,
}

/// Whether an attached terminal sends no input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOnly(pub(crate) bool);

/// Whether this reader is a view, which can be detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    None,
    Open,
    /// The view was closed.
    Closed,
}

impl Client {
    /// The output so far, as bytes.
    pub fn read(&self, process: &str, from: From) -> Chunks {
        Chunks::new(self.clone(), process, from, ReadUntil::Now, None)
    }

    /// The output so far and all that follows, as bytes, until it is closed. The command may run longer.
    ///
    /// ```
    /// # use outlast_client::{Chunk, Client, Connect, From, Run, Spec, caller};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// # let here = caller(std::env::vars_os(), &product.work());
    /// # let id = client.run(Run::new(Spec::shell("echo one; echo two"), here)).await?.id().to_string();
    /// let mut chunks = client.follow(&id, From::Last(4));
    /// while let Some(chunk) = chunks.next().await? {
    ///     match chunk {
    ///         Chunk::Bytes { bytes, .. } => print!("{}", String::from_utf8_lossy(&bytes)),
    ///         Chunk::Gap { from, to, why } => println!("[bytes {from} to {to} are gone: {why}]"),
    ///     }
    /// }
    /// assert!(chunks.closed() && chunks.next_byte() == Some(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, process: &str, from: From) -> Chunks {
        Chunks::new(self.clone(), process, from, ReadUntil::Closed, None)
    }

    /// Like [`Client::follow`], and continues until the command has ended, so that a `poll` shows how.
    pub fn follow_to_exit(&self, process: &str, from: From) -> Chunks {
        Chunks::new(self.clone(), process, from, ReadUntil::Exit, None)
    }

    /// Like [`Client::follow_to_exit`], for a real terminal: while it is attached, it answers the program's queries, not the
    /// keeper.
    pub fn attach(&self, process: &str, from: From, read_only: bool) -> Chunks {
        Chunks::new(self.clone(), process, from, ReadUntil::Exit, Some(ReadOnly(read_only)))
    }

    /// Like [`Client::follow_to_exit`], as a view that can be detached: it ends early if the view is closed.
    pub fn view(&self, process: &str, from: From) -> Chunks {
        self.follow_to_exit(process, from).viewed()
    }
}

impl Chunks {
    pub(crate) fn new(client: Client, process: &str, from: From, until: ReadUntil, attach: Option<ReadOnly>) -> Self {
        let view = if attach.is_some() { View::Open } else { View::None };
        Self {
            client,
            process: process.to_owned(),
            until,
            attach,
            view,
            masked: false,
            timed: false,
            times: Vec::new(),
            from,
            link: None,
            stream: None,
            end: None,
            tries: Tries::default(),
        }
    }

    /// Waits until the engine has registered this reader. From then on an attached terminal is sent queries, and a view can be
    /// closed.
    pub async fn ready(&mut self) -> Result<(), ClientError> {
        while self.end.is_none() && self.stream.is_none() {
            if let Err(e) = self.open().await {
                self.again(e).await?;
            }
        }
        Ok(())
    }

    /// The next piece, or none at the end. The future may be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Option<Chunk>, ClientError> {
        while self.end.is_none() {
            self.ready().await?;
            let Some(stream) = &mut self.stream else { continue };
            match stream.next().await {
                StreamItem::Event(Event::At { byte }) => self.from = From::Byte(byte),
                StreamItem::Event(Event::ViewClosed) => {
                    self.view = View::Closed;
                    self.end = Some(ReadEnd::default());
                }
                StreamItem::Event(Event::Gap { from, to, why }) => {
                    self.from = From::Byte(to);
                    return Ok(Some(Chunk::Gap { from, to, why }));
                }
                StreamItem::Event(Event::Came { byte, at }) => self.times.push((byte, at)),
                // An event of a newer engine. It does not affect the end.
                StreamItem::Event(_) => {}
                StreamItem::Raw(bytes) => {
                    let From::Byte(at) = self.from else {
                        return Err(ClientError::protocol("bytes came before their offset"));
                    };
                    self.from = From::Byte(at + bytes.len() as u64);
                    return Ok(Some(Chunk::Bytes { at, bytes }));
                }
                StreamItem::End(end) => {
                    // This is the end even if it cannot be read.
                    self.end = Some(ReadEnd::default());
                    let end: ReadEnd = read(&end).map_err(ClientError::protocol)?;
                    self.end = Some(end);
                    if self.next_byte().is_none() {
                        // There was no output, and this is where it would have begun.
                        self.from = From::Byte(end.next_byte);
                    }
                }
                StreamItem::Failed(e) => self.again(e).await?,
            }
        }
        Ok(None)
    }

    /// The byte after the last one that was returned, once it is known: where to continue another time.
    pub fn next_byte(&self) -> Option<u64> {
        match self.from {
            From::Byte(byte) => Some(byte),
            From::Last(_) | From::Now | From::Since(_) => None,
        }
    }

    /// Whether the output is closed, so that no more will come. Known at the end.
    pub fn closed(&self) -> bool {
        self.end.is_some_and(|end| end.closed)
    }

    /// Masks each byte of a secret value with a `*`, for text that is displayed. Secret values are those of variables with a
    /// secret's name in the environment of the process. Offsets do not change. A value that the program prints in another form,
    /// such as base64, is not found.
    #[must_use]
    pub fn masked(self) -> Self {
        Self { masked: true, ..self }
    }

    /// Requests the times at which bytes arrived, for [`Chunks::take_times`].
    #[must_use]
    pub fn timed(self) -> Self {
        Self { timed: true, ..self }
    }

    /// Takes the times that were received so far, in order: the offset of a byte, and when it arrived, to the second. A byte
    /// arrived within a second of the last entry at or before it. There are no entries for output whose keeper did not record
    /// times.
    pub fn take_times(&mut self) -> Vec<(u64, Time)> {
        std::mem::take(&mut self.times)
    }

    /// The same as a view, which ends when the view is closed.
    pub(crate) fn viewed(self) -> Self {
        Self { view: View::Open, ..self }
    }

    /// Whether it ended because the view was closed. The process keeps running.
    pub fn view_closed(&self) -> bool {
        self.view == View::Closed
    }

    async fn open(&mut self) -> Result<(), CallError> {
        // A reader may be slow, so it gets its own connection if one can be made.
        let link = self.client.own_link().await.map_err(CallError::Unsent)?;
        self.link = Some(link.clone());
        if let Some(ReadOnly(read_only)) = self.attach {
            link.call(self.client.by(), Request::Attach { process: self.process.clone(), read_only }, &[]).await?;
        }
        let (follow, to_exit) = self.until.flags();
        let (process, from, view) = (self.process.clone(), self.from, self.view != View::None);
        let (masked, timed) = (self.masked, self.timed);
        let read = Request::Read { process, from, follow, to_exit, view, masked, timed };
        self.stream = Some(link.stream(self.client.by(), read).await?);
        Ok(())
    }

    /// Prepares to continue after `error`, or returns it.
    async fn again(&mut self, error: CallError) -> Result<(), ClientError> {
        self.stream = None;
        let link = self.link.take();
        if self.client.can_redial() && self.tries.again(&error, link.as_deref(), Repeat::Safe).await {
            return Ok(());
        }
        self.end = Some(ReadEnd::default());
        Err(to_error::<EngineTalk>(error, "read its output"))
    }
}
