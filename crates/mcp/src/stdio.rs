//! MCP over standard input and output: one agent, one server.

use crate::Server;
use crate::receipt::ReportingTransport;
use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

/// The longest message.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Serves the agent at this program's standard input and output until it leaves.
pub async fn stdio(server: Server) -> Result<(), String> {
    let (read, write) = rmcp::transport::io::stdio_pipes();
    over(server, read, write).await
}

/// Serves over a pair of streams until the other side leaves.
pub async fn over<R, W>(server: Server, read: R, write: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let pending = server.pending.clone();
    let transport = ReportingTransport::new(AsyncRwTransport::new(read, write).with_max_line_length(MAX_MESSAGE_BYTES), pending);
    let running = match server.serve(transport).await {
        Ok(running) => running,
        // A client that leaves before its first message is no error.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(e) => return Err(format!("no session could be begun: {e}")),
    };
    match running.waiting().await {
        Ok(QuitReason::Cancelled | QuitReason::Closed) => Ok(()),
        Ok(reason) => Err(format!("the session ended: {reason:?}")),
        Err(e) => Err(format!("the session broke: {e}")),
    }
}
