//! A listener that holds a bounded number of connections, each within its times.
//!
//! [`seats`] gives out seats and chooses the connection that gives way to a newcomer; this file
//! cuts a connection that was told to go, whose request head or next request does not arrive in
//! time, or whose peer does not read its answer. A newcomer for whom no connection can give way is
//! answered that it should retry. This module knows nothing of HTTP but that one answer. Invariant:
//! a seat lives exactly as long as its connection.

mod seats;

pub use seats::{ApiSlot, AtWork, SeatTally};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::IncomingStream;
use futures_util::StreamExt;
use seats::{Side, Stage, Table};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};

/// Answer for a newcomer without a seat.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\
    Retry-After: 1\r\nConnection: close\r\nContent-Length: 87\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"all API connections are in use: retry in \
    a second\"}}";

/// Most newcomers that get this answer at once. One more is closed without an answer.
const TOLD_MAX: usize = 32;

/// Time that a newcomer has to hear it.
const TOLD: Duration = Duration::from_secs(1);

/// Connections on their way out above which no newcomers are accepted.
const LEAVING_MAX: usize = 64;

/// The bounds of a door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorLimits {
    /// Most connections of all listeners. One more takes the seat of one that has not shown a
    /// token, else of the one that has been idle for longest, else it is answered that it should
    /// retry.
    pub connections_max: u32,
    /// Connections of one source; 0 is half of `connections_max`. One more takes the seat of
    /// another of its source.
    pub connections_a_source_max: u32,
    /// Time for the head of a request. Then the connection ends.
    pub head: Duration,
    /// Time between two requests of a caller that is known. Likewise.
    pub idle: Duration,
    /// Time in which nothing of an answer is taken. Likewise.
    pub write: Duration,
}

/// The seats of a door, shared by its listeners.
#[derive(Clone)]
pub struct Seats {
    limits: Arc<RwLock<DoorLimits>>,
    table: Arc<Table>,
    told: Arc<Semaphore>,
}

impl Seats {
    /// Seats that are all free.
    pub fn new(limits: DoorLimits) -> Seats {
        let told = Arc::new(Semaphore::new(TOLD_MAX));
        let table = Table::new(limits.connections_max, limits.connections_a_source_max);
        Seats { limits: Arc::new(RwLock::new(limits)), table, told }
    }

    /// Sets other bounds. Connections that are open keep their times.
    pub fn set_limits(&self, limits: DoorLimits) {
        self.table.set_max(limits.connections_max, limits.connections_a_source_max);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    fn limits(&self) -> DoorLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that hold a seat.
    pub fn taken(&self) -> usize {
        self.table.taken()
    }

    /// Counts of the fates of connections.
    pub fn tally(&self) -> &SeatTally {
        &self.table.tally
    }

    /// Marks work that goes on although its caller may go, until the mark is dropped.
    pub fn at_work(&self) -> AtWork {
        AtWork::new(&self.table)
    }

    /// Returns when only streams are left: all requests are answered, and all work is done.
    pub async fn finished(&self) {
        loop {
            let changed = self.table.changed.notified();
            if self.table.is_finished() {
                return;
            }
            changed.await;
        }
    }

    /// A listener whose connections take seats.
    pub fn listener(&self, listener: TcpListener) -> Limited {
        Limited { listener, seats: self.clone() }
    }

    fn refuse(&self, mut stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.told).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let tell = async {
                stream.writable().await?;
                stream.try_write(FULL.as_bytes())?;
                poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await?;
                // Closing on what was not read would take the answer back.
                loop {
                    stream.readable().await?;
                    match stream.try_read(&mut [0; 1024]) {
                        Ok(0) => return Ok(()),
                        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                }
            };
            // A newcomer that does not read does not get the answer.
            let _: Result<io::Result<()>, _> = timeout(TOLD, tell).await;
            drop(permit);
        });
    }
}

/// A listener whose connections take seats.
pub struct Limited {
    listener: TcpListener,
    seats: Seats,
}

impl axum::serve::Listener for Limited {
    type Io = SlottedConnection<TcpStream>;
    type Addr = ApiSlot;

    async fn accept(&mut self) -> (SlottedConnection<TcpStream>, ApiSlot) {
        loop {
            // Connections that were told to go end when they are next polled.
            for _ in 0..LEAVING_MAX {
                if self.seats.table.leaving() < LEAVING_MAX {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let (stream, peer) = axum::serve::Listener::accept(&mut self.listener).await;
            match self.seats.table.take(peer) {
                Some(seat) => {
                    let limits = self.seats.limits();
                    return (SlottedConnection::new(stream, seat.clone(), limits), seat);
                }
                None => self.seats.refuse(stream),
            }
        }
    }

    fn local_addr(&self) -> io::Result<ApiSlot> {
        // Not used: it is for servers that report their address, and ours knows it.
        Err(ErrorKind::Unsupported.into())
    }
}

impl Connected<IncomingStream<'_, Limited>> for ApiSlot {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> ApiSlot {
        stream.remote_addr().clone()
    }
}

/// Notes in the seat when a request begins, and when the last byte of its answer was handed over.
pub async fn seated(request: Request, next: Next) -> Response {
    let info = request.extensions().get::<ConnectInfo<ApiSlot>>();
    let Some(ConnectInfo(seat)) = info.cloned() else { return next.run(request).await };
    let busy = Busy::new(seat);
    let response = next.run(request).await;
    if response.body().size_hint().exact().is_some() {
        // The answer is complete: only writing it is left, which has its own time limit.
        return response;
    }
    busy.0.stream();
    response.map(|body| {
        let chunks = body.into_data_stream().map(move |chunk| {
            let _held = &busy;
            chunk
        });
        axum::body::Body::from_stream(chunks)
    })
}

/// A request that is being answered.
struct Busy(ApiSlot);

impl Busy {
    fn new(seat: ApiSlot) -> Busy {
        seat.begin();
        Busy(seat)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A connection with its seat.
pub struct SlottedConnection<S> {
    stream: S,
    seat: ApiSlot,
    limits: DoorLimits,
    /// The moment that `reading` is for.
    moment: u64,
    reading: Option<Pin<Box<Sleep>>>,
    /// Runs while nothing is taken.
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> SlottedConnection<S> {
    fn new(stream: S, seat: ApiSlot, limits: DoorLimits) -> SlottedConnection<S> {
        SlottedConnection { stream, seat, limits, moment: 0, reading: None, writing: None }
    }

    /// Whether it may still be read from.
    fn may_read(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some((stage, moment)) = self.seat.look(Side::Read, cx.waker()) else {
            return Err(ErrorKind::ConnectionAborted.into());
        };
        if moment != self.moment {
            self.moment = moment;
            self.reading = match stage {
                Stage::Head => Some(Box::pin(sleep(self.limits.head))),
                Stage::Idle => Some(Box::pin(sleep(self.limits.idle))),
                Stage::Busy => None,
            };
        }
        self.in_time(cx, |held| &mut held.reading)
    }

    fn in_time(
        &mut self,
        cx: &mut Context<'_>,
        timer: fn(&mut Self) -> &mut Option<Pin<Box<Sleep>>>,
    ) -> io::Result<()> {
        match timer(self).as_mut().map(|timer| timer.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                self.seat.timed_out();
                Err(ErrorKind::TimedOut.into())
            }
            _ => Ok(()),
        }
    }

    /// Handles the result of a write: a connection that takes not even one byte for too long ends.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.writing.take().is_some() {
                self.seat.wait_for_reader(false);
            }
            return polled;
        }
        if self.seat.look(Side::Write, cx.waker()).is_none() {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        if self.writing.is_none() {
            self.seat.wait_for_reader(true);
            self.writing = Some(Box::pin(sleep(self.limits.write)));
        }
        match self.in_time(cx, |held| &mut held.writing) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S> Drop for SlottedConnection<S> {
    fn drop(&mut self) {
        self.seat.leave();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlottedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.may_read(cx)?;
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.seat.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlottedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(cx, polled)
    }
}
