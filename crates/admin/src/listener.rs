//! A listener that holds a bounded number of connections.
//!
//! One more waits in the kernel's backlog until another ends. It knows nothing of HTTP. Invariant:
//! a permit lives exactly as long as its connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener whose connections take permits.
pub struct Limited {
    /// Where callers come in.
    pub listener: TcpListener,
    /// As many as there may be connections.
    pub permits: Arc<Semaphore>,
}

/// A connection with its permit.
pub struct Held(TcpStream, #[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl axum::serve::Listener for Limited {
    type Io = Held;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Held, SocketAddr) {
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_owned().await.expect("nobody closes the semaphore");
        let (stream, addr) = axum::serve::Listener::accept(&mut self.listener).await;
        (Held(stream, permit), addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
