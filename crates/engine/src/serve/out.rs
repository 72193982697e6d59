//! What a connection sends: frames, and the answers to one request.

use crate::points::point;
use outlast_wire::frame;
use outlast_wire::v1::{Error, Event, Reply};
use serde::Serialize;
use std::pin::Pin;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Work to do once an answer is in the socket, or once it is known that it never will be.
pub(super) type AfterSend = Box<dyn FnOnce(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A frame to be sent.
pub(super) struct Outgoing {
    frame: Vec<u8>,
    then: Option<AfterSend>,
}

pub(super) async fn send_all(mut to: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Outgoing>) {
    let mut open = true;
    while let Some(Outgoing { frame, then }) = outgoing.recv().await {
        open = open && to.write_all(&frame).await.is_ok();
        if let Some(then) = then {
            then(open).await;
        }
    }
    // The client may have left.
    let _shut = to.shutdown().await;
}

/// Where the answers to one request go.
#[derive(Clone)]
pub(crate) struct Out {
    pub(super) to: mpsc::Sender<Outgoing>,
    pub(super) of: u64,
}

impl Out {
    pub(super) async fn answer<T: Serialize>(&self, answer: T) {
        self.send(frame::json(&Reply::answer(self.of, answer))).await;
    }

    /// Runs `first`, answers, and runs `then` with whether the answer reached the socket. All of it is done even if the client leaves
    /// meanwhile.
    pub(super) async fn answer_between<T: Serialize>(&self, first: impl Future<Output = ()> + Send + 'static, answer: T, then: AfterSend) {
        let (to, outgoing) = (self.to.clone(), Outgoing { frame: frame::json(&Reply::answer(self.of, answer)), then: Some(then) });
        let answered = tokio::spawn(async move {
            first.await;
            point!("answer.held");
            if let Err(mpsc::error::SendError(Outgoing { then: Some(then), .. })) = to.send(outgoing).await {
                then(false).await;
            }
        });
        // A panic in there was reported by its own thread.
        let _answered = answered.await;
    }

    pub(super) async fn error(&self, error: Error) {
        self.send(frame::json(&Reply::<()>::error(self.of, error))).await;
    }

    pub(super) async fn event(&self, event: Event) {
        self.send(frame::json(&Reply::<()>::event(self.of, event))).await;
    }

    pub(super) async fn raw(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(frame::RAW_CHUNK) {
            self.send(frame::raw(self.of, chunk)).await;
        }
    }

    pub(super) async fn result<T: Serialize>(&self, result: Result<T, Error>) {
        match result {
            Ok(answer) => self.answer(answer).await,
            Err(error) => self.error(error).await,
        }
    }

    pub(super) async fn send(&self, frame: Vec<u8>) {
        // The client may have left.
        let _gone = self.to.send(Outgoing { frame, then: None }).await;
    }
}
