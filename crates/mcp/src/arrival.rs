//! What follows from an answer once it has arrived.
//!
//! An answer that is handed to the protocol's library is not yet with anybody. Each transport says when it is in the pipe or socket; only then an end that it showed
//! counts as seen, and a notice that came with it as told.
//!
//! Decision 103: docs/decisions/tools-mcp.md.

use outlast_client::Receipt;
use outlast_tools::After;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RequestContext, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What follows from one answer.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) receipt: Receipt,
    pub(crate) after: Vec<After>,
}

impl Arrival {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self { receipt, after: Vec::new() }
    }

    /// It is there.
    pub(crate) async fn arrived(self) {
        for after in self.after {
            after.arrived().await;
        }
        if let Err(error) = self.receipt.passed_on().await {
            // It is told once more, and said to be a repeat.
            tracing::warn!(%error, "an answer has arrived, and the engine does not know");
        }
    }
}

/// Arrivals of one HTTP request.
#[derive(Debug)]
pub(crate) struct Passage<T = Arrival>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Passage<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Passage<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Passage<T> {
    pub(crate) fn add(&self, arrival: T) {
        self.lock().push(arrival);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// Arrivals by the requests of one connection. Each is taken when its request is answered, or dropped when it was cancelled.
#[derive(Clone, Default)]
pub(crate) struct Passages(Arc<Mutex<HashMap<RequestId, Answering>>>);

/// What follows from the answer to one request.
struct Answering {
    passage: Passage,
    /// Whether the request is over: answered, or cancelled.
    is_over: Box<dyn Fn() -> bool + Send>,
}

impl Passages {
    /// The answer to this request leads to that.
    pub(crate) fn add(&self, request: &RequestContext<RoleServer>, arrival: Arrival) {
        match request.extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<Passage>()) {
            Some(passage) => passage.add(arrival),
            None => {
                let cancelled = request.ct.clone();
                self.of(&request.id, move || cancelled.is_cancelled()).add(arrival);
            }
        }
    }

    fn of(&self, request: &RequestId, is_over: impl Fn() -> bool + Send + 'static) -> Passage {
        let new = || Answering { passage: Passage::default(), is_over: Box::new(is_over) };
        self.lock().entry(request.clone()).or_insert_with(new).passage.clone()
    }

    fn take(&self, request: &RequestId) -> Vec<Arrival> {
        self.lock().remove(request).map(|answering| answering.passage.take()).unwrap_or_default()
    }

    /// Drops what belongs to requests that are over. An answer that was ready when its request was cancelled is never sent.
    fn drop_cancelled(&self) {
        self.lock().retain(|_, answering| !(answering.is_over)());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Answering>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// A transport that knows when an answer was written.
pub(crate) struct Noting<T> {
    inner: T,
    passages: Passages,
}

impl<T> Noting<T> {
    pub(crate) fn new(inner: T, passages: Passages) -> Self {
        Self { inner, passages }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Noting<T> {
    type Error = T::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let arrivals = match &item {
            JsonRpcMessage::Response(response) => self.passages.take(&response.id),
            JsonRpcMessage::Error(error) => {
                // What could not be answered was not shown.
                drop(error.id.as_ref().map(|id| self.passages.take(id)));
                Vec::new()
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => Vec::new(),
        };
        let sent = self.inner.send(item);
        async move {
            sent.await?;
            for arrival in arrivals {
                arrival.arrived().await;
            }
            Ok(())
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        // The library sends and receives in one loop: an answer that it is about to send has been taken by now.
        self.passages.drop_cancelled();
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_cancelled_request_is_not_kept() {
        let passages = Passages::default();
        let (cancelled, under_way) = (RequestId::Number(1), RequestId::Number(2));
        passages.of(&cancelled, || true);
        passages.of(&under_way, || false);
        passages.drop_cancelled();
        assert_eq!(passages.lock().keys().collect::<Vec<_>>(), [&under_way]);
    }
}
