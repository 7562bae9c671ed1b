//! A connection that a listener has handed over, with what was read of it and not yet written, and
//! its TLS.
//!
//! Either direction that goes on keeps it alive: a download is not cut because nothing is said, nor
//! an upload because nothing is answered. Invariant: a connection ends when nothing has gone on for
//! the time that is allowed, or the whole has taken longer than that.

use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Bytes that are read, and encrypted, at once.
const PIECE: usize = 16 * 1024;
/// Bytes that may wait to be written while more is read.
const UNSENT_MAX: usize = 64 * 1024;
/// Bytes that are passed over behind the last answer, so that it is not taken back: closing on what
/// was not read would do that.
const LINGER_BYTES: usize = 1024 * 1024;
/// How long they are waited for.
const LINGER: Duration = Duration::from_secs(2);

/// TLS of a connection, whose handshake is over.
pub trait Cipher: Send {
    /// Takes records: what they say is appended to `plain`, answers to `out`. False: nothing
    /// follows.
    fn receive(&mut self, bytes: &[u8], plain: &mut Vec<u8>, out: &mut Vec<u8>)
    -> io::Result<bool>;

    /// Appends records that say `plain`.
    fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()>;

    /// Appends the farewell.
    fn farewell(&mut self, out: &mut Vec<u8>);
}

/// A connection on its way here.
pub struct Incoming {
    /// The socket, which does not block.
    pub socket: OwnedFd,
    /// Its TLS.
    pub cipher: Option<Box<dyn Cipher>>,
    /// Bytes that were read from the connection and are not in TLS any more.
    pub said: Vec<u8>,
    /// Bytes to write first.
    pub unsent: Vec<u8>,
    /// Its place among all connections, kept until its end.
    pub seat: Box<dyn Send>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("said", &self.said.len()).finish_non_exhaustive()
    }
}

/// A connection that is served.
pub struct Handed<S> {
    stream: S,
    cipher: Option<Box<dyn Cipher>>,
    plain: Vec<u8>,
    taken: usize,
    unsent: Vec<u8>,
    sent: usize,
    ended: bool,
    silence: Duration,
    quiet: Pin<Box<Sleep>>,
    whole: Pin<Box<Sleep>>,
    /// Bytes of the request that are still skipped after the last answer, and the deadline for
    /// that.
    linger: Option<(usize, Pin<Box<Sleep>>)>,
    _seat: Box<dyn Send>,
}

impl Handed<TcpStream> {
    /// Begins to serve it: something must go on within `silence`, and all be over within `whole`.
    pub fn new(
        incoming: Incoming,
        silence: Duration,
        whole: Duration,
    ) -> io::Result<Handed<TcpStream>> {
        let Incoming { socket, cipher, said, unsent, seat } = incoming;
        let stream = TcpStream::from_std(std::net::TcpStream::from(socket))?;
        Ok(Handed::over(stream, cipher, (said, unsent), (silence, whole), seat))
    }
}

impl<S> Handed<S> {
    fn over(
        stream: S,
        cipher: Option<Box<dyn Cipher>>,
        (plain, unsent): (Vec<u8>, Vec<u8>),
        (silence, whole): (Duration, Duration),
        seat: Box<dyn Send>,
    ) -> Handed<S> {
        let (taken, sent, ended) = (0, 0, false);
        let (quiet, whole) = (Box::pin(sleep(silence)), Box::pin(sleep(whole)));
        Handed {
            stream,
            cipher,
            plain,
            taken,
            unsent,
            sent,
            ended,
            silence,
            quiet,
            whole,
            linger: None,
            _seat: seat,
        }
    }

    /// Notes progress: the time without any begins anew.
    fn goes_on(&mut self) {
        self.quiet.as_mut().set(sleep(self.silence));
    }

    /// Waits, with an error when the time for progress is up.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let quiet = self.quiet.as_mut().poll(cx).is_ready();
        if quiet || self.whole.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Gives of what was said as much as fits.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = &self.plain[self.taken..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.plain.len() {
            (self.plain, self.taken) = (Vec::new(), 0);
        }
        count > 0
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handed<S> {
    /// Writes what waits.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let rest = &self.unsent[self.sent..];
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    self.goes_on();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.wait(cx),
            }
        }
        (self.unsent, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Handed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.unsent.len() - this.sent > UNSENT_MAX {
                ready!(this.drain(cx))?;
            }
            if this.give(buf) || this.ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut piece = [0; PIECE];
            let mut read = ReadBuf::new(&mut piece);
            match Pin::new(&mut this.stream).poll_read(cx, &mut read) {
                Poll::Pending => return this.wait(cx),
                Poll::Ready(done) => done?,
            }
            let bytes = read.filled();
            this.goes_on();
            match &mut this.cipher {
                _ if bytes.is_empty() => this.ended = true,
                None => this.plain.extend_from_slice(bytes),
                Some(cipher) => {
                    let more = cipher.receive(bytes, &mut this.plain, &mut this.unsent)?;
                    this.ended |= !more;
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Handed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        let piece = &bytes[..bytes.len().min(PIECE)];
        match &mut this.cipher {
            Some(cipher) => cipher.send(piece, &mut this.unsent)?,
            None => this.unsent.extend_from_slice(piece),
        }
        // What the socket does not take now waits here, and no more is taken until it has gone.
        match this.drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(piece.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(mut cipher) = this.cipher.take() {
            cipher.farewell(&mut this.unsent);
            this.ended = true;
        }
        ready!(this.drain(cx))?;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let left = this.linger.get_or_insert_with(|| (LINGER_BYTES, Box::pin(sleep(LINGER))));
        while left.0 > 0 {
            let mut piece = [0; PIECE];
            let mut read = ReadBuf::new(&mut piece);
            match Pin::new(&mut this.stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    left.0 = left.0.saturating_sub(read.filled().len());
                }
                Poll::Pending if left.1.as_mut().poll(cx).is_pending() => return Poll::Pending,
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
