//! What is done once an answer was written.
//!
//! An answer that is handed to the protocol's library may still be lost. Each transport reports when it is in the pipe or socket. Only then
//! an end that it shows counts as seen, and a notice that comes with it as delivered.
//!
//! Decision 103: docs/decisions/tools-mcp.md.

use crate::calls::CallGuard;
use outlast_client::Receipt;
use outlast_tools::OnDelivered;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RequestContext, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is done once one answer was written.
#[derive(Debug)]
pub(crate) struct AnswerReceipt {
    pub(crate) receipt: Receipt,
    pub(crate) after: Vec<OnDelivered>,
    /// The call that is answered, if it is one of a tool.
    pub(crate) call: Option<CallGuard>,
}

impl AnswerReceipt {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self { receipt, after: Vec::new(), call: None }
    }

    /// The answer was written: confirms it to the engine, unless its client may have given up before. Then it counts as not given, and what
    /// it shows is delivered again.
    pub(crate) async fn arrived(self) {
        if !self.call.is_none_or(CallGuard::arrived) {
            return;
        }
        for after in self.after {
            after.delivered().await;
        }
        if let Err(error) = self.receipt.passed_on().await {
            // The engine delivers it once more, marked as a repeat.
            tracing::warn!(%error, "an answer has arrived, and the engine does not know");
        }
    }
}

/// The receipts of one HTTP request.
#[derive(Debug)]
pub(crate) struct AnswerReceipts<T = AnswerReceipt>(Arc<Mutex<Vec<T>>>);

impl<T> Default for AnswerReceipts<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for AnswerReceipts<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> AnswerReceipts<T> {
    pub(crate) fn add(&self, receipt: T) {
        self.lock().push(receipt);
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

/// The receipts of one connection, by request. They are taken when the request is answered, and dropped when it was cancelled.
#[derive(Clone, Default)]
pub(crate) struct PendingReceipts(Arc<Mutex<HashMap<RequestId, RequestReceipts>>>);

/// The receipts of one request.
struct RequestReceipts {
    receipts: AnswerReceipts,
    /// Whether the request was answered or cancelled.
    is_over: Box<dyn Fn() -> bool + Send>,
}

impl PendingReceipts {
    /// Adds a receipt for the answer to a request.
    pub(crate) fn add(&self, request: &RequestContext<RoleServer>, receipt: AnswerReceipt) {
        match request.extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<AnswerReceipts>()) {
            Some(receipts) => receipts.add(receipt),
            None => {
                let cancelled = request.ct.clone();
                self.of(&request.id, move || cancelled.is_cancelled()).add(receipt);
            }
        }
    }

    fn of(&self, request: &RequestId, is_over: impl Fn() -> bool + Send + 'static) -> AnswerReceipts {
        let new = || RequestReceipts { receipts: AnswerReceipts::default(), is_over: Box::new(is_over) };
        self.lock().entry(request.clone()).or_insert_with(new).receipts.clone()
    }

    fn take(&self, request: &RequestId) -> Vec<AnswerReceipt> {
        self.lock().remove(request).map(|entry| entry.receipts.take()).unwrap_or_default()
    }

    /// Drops the receipts of finished requests. An answer that was ready when its request was cancelled is never sent.
    fn drop_cancelled(&self) {
        self.lock().retain(|_, entry| !(entry.is_over)());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, RequestReceipts>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// A transport that reports when an answer was written.
pub(crate) struct ReportingTransport<T> {
    inner: T,
    pending: PendingReceipts,
}

impl<T> ReportingTransport<T> {
    pub(crate) fn new(inner: T, pending: PendingReceipts) -> Self {
        Self { inner, pending }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for ReportingTransport<T> {
    type Error = T::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let receipts = match &item {
            JsonRpcMessage::Response(response) => self.pending.take(&response.id),
            JsonRpcMessage::Error(error) => {
                // An error shows nothing.
                drop(error.id.as_ref().map(|id| self.pending.take(id)));
                Vec::new()
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => Vec::new(),
        };
        let sent = self.inner.send(item);
        async move {
            sent.await?;
            for receipt in receipts {
                receipt.arrived().await;
            }
            Ok(())
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        // The library sends and receives in one loop, so the receipts of an answer that it is about to send were taken already.
        self.pending.drop_cancelled();
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
        let pending = PendingReceipts::default();
        let (cancelled, under_way) = (RequestId::Number(1), RequestId::Number(2));
        pending.of(&cancelled, || true);
        pending.of(&under_way, || false);
        pending.drop_cancelled();
        assert_eq!(pending.lock().keys().collect::<Vec<_>>(), [&under_way]);
    }
}
