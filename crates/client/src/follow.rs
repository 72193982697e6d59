//! Reading output as bytes.

use crate::link::{CallError, Item, Link, Stream, read};
use crate::peer::EngineTalk;
use crate::redial::{Repeat, Tries, to_error};
use crate::{Client, ClientError};
use outlast_core::Time;
use outlast_wire::v1::{Event, From, ReadEnd, Request};
use std::sync::Arc;

/// A piece of output. There is no third kind, and whoever reads output has to think of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes as the command wrote them.
    Bytes {
        /// The offset of the first.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are gone.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The first byte that is there again.
        to: u64,
        /// Why.
        why: String,
    },
}

/// Output from an offset on, piece by piece.
///
/// Should the engine die, reading goes on over the next one at the byte reached: nothing is missed and nothing comes twice.
pub struct Chunks {
    client: Client,
    process: String,
    until: Until,
    attach: Option<ReadOnly>,
    view: View,
    masked: bool,
    timed: bool,
    /// When bytes came: from which one on, and the time.
    times: Vec<(u64, Time)>,
    from: From,
    link: Option<Arc<Link>>,
    stream: Option<Stream>,
    end: Option<ReadEnd>,
    tries: Tries,
}

/// How long to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// What there is.
    Now,
    /// Until no more can come.
    Closed,
    /// And until the command is over.
    Exit,
}

/// Whether a terminal that looks on sends no input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOnly(pub(crate) bool);

/// Whether somebody looks on who can be told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    None,
    Open,
    /// It was.
    Closed,
}

impl Chunks {
    pub(crate) fn new(client: Client, process: &str, from: From, until: Until, attach: Option<ReadOnly>) -> Self {
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

    /// Waits until the engine knows of this reader: an attached terminal is asked from now on, and a view can be closed.
    pub async fn ready(&mut self) -> Result<(), ClientError> {
        while self.end.is_none() && self.stream.is_none() {
            if let Err(e) = self.open().await {
                self.again(e).await?;
            }
        }
        Ok(())
    }

    /// The next piece, or nothing at the end. May be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Option<Chunk>, ClientError> {
        while self.end.is_none() {
            self.ready().await?;
            let Some(stream) = &mut self.stream else { continue };
            match stream.next().await {
                Item::Event(Event::At { byte }) => self.from = From::Byte(byte),
                Item::Event(Event::ViewClosed) => {
                    self.view = View::Closed;
                    self.end = Some(ReadEnd::default());
                }
                Item::Event(Event::Gap { from, to, why }) => {
                    self.from = From::Byte(to);
                    return Ok(Some(Chunk::Gap { from, to, why }));
                }
                Item::Event(Event::Came { byte, at }) => self.times.push((byte, at)),
                // What a newer engine says on the way, and the end does not depend on.
                Item::Event(_) => {}
                Item::Raw(bytes) => {
                    let From::Byte(at) = self.from else {
                        return Err(ClientError::protocol("bytes came before their offset"));
                    };
                    self.from = From::Byte(at + bytes.len() as u64);
                    return Ok(Some(Chunk::Bytes { at, bytes }));
                }
                Item::End(end) => {
                    // The end it is, also if it cannot be read.
                    self.end = Some(ReadEnd::default());
                    let end: ReadEnd = read(&end).map_err(ClientError::protocol)?;
                    self.end = Some(end);
                    if self.next_byte().is_none() {
                        // There was nothing to read, and this is where it would have begun.
                        self.from = From::Byte(end.next_byte);
                    }
                }
                Item::Failed(e) => self.again(e).await?,
            }
        }
        Ok(None)
    }

    /// The byte after the last one that was returned, once it is known: where to go on another time.
    pub fn next_byte(&self) -> Option<u64> {
        match self.from {
            From::Byte(byte) => Some(byte),
            From::Last(_) | From::Now | From::Since(_) => None,
        }
    }

    /// Whether the output is closed, so that nothing will ever follow. Known at the end.
    pub fn closed(&self) -> bool {
        self.end.is_some_and(|end| end.closed)
    }

    /// Masks each byte of a secret value with a `*`, for text that is shown. Secret values are those that the process was given under a
    /// secret's name. Offsets do not change. A value that the program prints in another form, such as base64, is not found.
    #[must_use]
    pub fn masked(self) -> Self {
        Self { masked: true, ..self }
    }

    /// Has the engine say when the bytes came, for [`Chunks::take_times`].
    #[must_use]
    pub fn timed(self) -> Self {
        Self { timed: true, ..self }
    }

    /// Takes what the engine said since about when bytes came, in order: from which byte on, and when, to the second. A byte came within a second of
    /// the last entry at or before it. Nothing is said of output whose keeper has not recorded it.
    pub fn take_times(&mut self) -> Vec<(u64, Time)> {
        std::mem::take(&mut self.times)
    }

    /// The same for somebody who looks on and leaves when the view is closed.
    pub(crate) fn viewed(self) -> Self {
        Self { view: View::Open, ..self }
    }

    /// Whether it ended because the view was closed. The process goes on.
    pub fn view_closed(&self) -> bool {
        self.view == View::Closed
    }

    async fn open(&mut self) -> Result<(), CallError> {
        // A reader may be slow, so it does not share its connection where another can be had.
        let link = self.client.own_link().await.map_err(CallError::Unsent)?;
        self.link = Some(link.clone());
        if let Some(ReadOnly(read_only)) = self.attach {
            link.call(self.client.owner(), Request::Attach { process: self.process.clone(), read_only }, &[]).await?;
        }
        let (follow, to_exit) = (self.until != Until::Now, self.until == Until::Exit);
        let (process, from, view) = (self.process.clone(), self.from, self.view != View::None);
        let (masked, timed) = (self.masked, self.timed);
        let read = Request::Read { process, from, follow, to_exit, view, masked, timed };
        self.stream = Some(link.stream(self.client.owner(), read).await?);
        Ok(())
    }

    /// Makes ready to go on after `error`, or gives it back.
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
