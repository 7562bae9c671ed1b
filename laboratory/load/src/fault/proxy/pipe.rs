//! One connection through the proxy: two sockets and two ways.
//!
//! A way reads from one socket and writes to the other. Without a fault bytes go straight through
//! the thread's one buffer; what has to wait, because the other end does not read, or because the
//! fault is a delay or a throttle, stands in the way's queue.

use super::QUEUE_BYTES_MAX;
use lab::plan::Network;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Reads of one way in one turn. A sender of more waits a turn.
const READS: usize = 8;
/// A throttled way may save up what passes in this time.
const BURST: Duration = Duration::from_millis(50);
/// Shortest wait of a throttled way.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a truncated connection waits for both ends to close.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// From the client to the target; the other way is from the target to the client.
pub(super) const UP: usize = 0;

/// One connection.
pub(super) struct Pipe {
    /// The client's socket and, once it is called, the target's.
    pub ends: [Option<OwnedFd>; 2],
    /// Address of the client.
    pub peer: SocketAddr,
    /// Its place among all, of 2^32: below the share, the fault is its own.
    pub lot: u32,
    /// The target has answered.
    pub stands: bool,
    /// Whether it was cut in the middle: later input is read and forgotten.
    pub cut: bool,
    pub ways: [Way; 2],
}

/// One direction.
#[derive(Default)]
pub(super) struct Way {
    queue: VecDeque<Piece>,
    bytes: usize,
    /// The socket may have something.
    pub readable: bool,
    /// The other socket may take something.
    pub writable: bool,
    /// Whether the direction has ended.
    pub ended: bool,
    /// The other end was told so.
    closed: bool,
    /// When the timer that counts ends, if one stands for it.
    pub armed: Option<Instant>,
    /// Bytes that may pass now, when it is throttled, and as of when.
    credit: f64,
    since: Option<Instant>,
}

struct Piece {
    due: Instant,
    bytes: Box<[u8]>,
    from: usize,
}

/// Next step of a pump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// To hear of its sockets.
    Rest,
    /// Another turn: there is more.
    Again,
    /// To be pumped at this time.
    At(Instant),
    /// An end: the other end is gone, or both have closed.
    Over,
    /// The connection was cut in the middle by the fault.
    Cut,
}

/// Resources that the thread lends to a direction.
pub(super) struct Loan<'a> {
    pub now: Instant,
    pub buffer: &'a mut [u8],
    /// Bytes of all connections that wait.
    pub queued: &'a mut usize,
    /// Bytes that passed, up and down.
    pub passed: &'a mut [u64; 2],
    /// Whether no more bytes may wait.
    pub full: bool,
}

impl Pipe {
    pub(super) fn new(client: OwnedFd, peer: SocketAddr, lot: u32) -> Pipe {
        let ways = [Way::default(), Way::default()];
        Pipe { ends: [Some(client), None], peer, lot, stands: false, cut: false, ways }
    }

    /// Bytes that wait in it.
    pub(super) fn queued(&self) -> usize {
        self.ways.iter().map(|way| way.bytes).sum()
    }

    /// Moves what can be moved one way.
    pub(super) fn pump(&mut self, way: usize, fault: Option<Network>, loan: Loan<'_>) -> Next {
        let [Some(source), Some(sink)] = [&self.ends[way], &self.ends[1 - way]] else {
            return Next::Rest;
        };
        if !self.stands || (fault == Some(Network::Silence) && !self.cut) {
            return Next::Rest;
        }
        let moving = Moving { source, sink, fault, index: way, loan };
        let this = &mut self.ways[way];
        let next = if self.cut { this.forget(moving) } else { this.pump(moving) };
        if self.ways.iter().all(|way| way.closed || (self.cut && way.ended)) {
            return Next::Over;
        }
        next
    }

    /// Tells both ends that nothing more comes.
    pub(super) fn say_cut(&mut self) {
        self.cut = true;
        for end in self.ends.iter().flatten() {
            // An end that is gone needs no word.
            let _ = shutdown(end, Shutdown::Write);
        }
    }
}

struct Moving<'a, 'b> {
    source: &'a OwnedFd,
    sink: &'a OwnedFd,
    fault: Option<Network>,
    index: usize,
    loan: Loan<'b>,
}

impl Way {
    fn pump(&mut self, mut moving: Moving<'_, '_>) -> Next {
        for _ in 0..READS {
            let read = match self.read(&mut moving) {
                Ok(read) => read,
                Err(next) => return next,
            };
            let wait = match self.write(&mut moving) {
                Ok(wait) => wait,
                Err(next) => return next,
            };
            if self.queue.is_empty() && self.ended && !self.closed {
                self.closed = true;
                // An end that is gone needs no word.
                let _ = shutdown(moving.sink, Shutdown::Write);
            }
            let room = self.bytes < QUEUE_BYTES_MAX;
            if !(read && room) {
                return match wait {
                    Some(at) => Next::At(at),
                    None if self.readable && !self.ended && room => {
                        Next::At(moving.loan.now + PAUSE) // all that may wait does
                    }
                    None => Next::Rest,
                };
            }
        }
        Next::Again
    }

    /// Reads once, and passes it on if nothing is in its way. True: there may be more.
    fn read(&mut self, moving: &mut Moving<'_, '_>) -> Result<bool, Next> {
        let room = QUEUE_BYTES_MAX.saturating_sub(self.bytes);
        if !self.readable || self.ended || room == 0 || moving.loan.full {
            return Ok(false);
        }
        let most = room.min(moving.loan.buffer.len());
        let count = match rustix::io::read(moving.source, &mut moving.loan.buffer[..most]) {
            Ok(0) => {
                self.ended = true;
                return Ok(false);
            }
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.readable = false;
                return Ok(false);
            }
            Err(Errno::INTR) => return Ok(true),
            Err(_) => return Err(Next::Over),
        };
        let mut from = 0;
        match moving.fault {
            Some(Network::Truncate) => {
                let half = count / 2;
                self.keep(moving, 0..half, Duration::ZERO);
                // What the socket does not take of it now is lost too: it is cut anyway.
                self.write(moving)?;
                return Err(Next::Cut);
            }
            Some(Network::Delay(span)) => self.keep(moving, 0..count, span.0),
            Some(Network::Throttle(_)) => self.keep(moving, 0..count, Duration::ZERO),
            _ => {
                if self.queue.is_empty() && self.writable {
                    from = self.send(moving, None, count)?;
                }
                self.keep(moving, from..count, Duration::ZERO);
            }
        }
        Ok(true)
    }

    /// Writes what waits and may pass. Returns when more of it may.
    fn write(&mut self, moving: &mut Moving<'_, '_>) -> Result<Option<Instant>, Next> {
        while let Some(front) = self.queue.front() {
            let now = moving.loan.now;
            let waiting = front.bytes.len() - front.from;
            let mut most = waiting;
            match moving.fault {
                Some(Network::Delay(_)) if front.due > now => return Ok(Some(front.due)),
                Some(Network::Throttle(rate)) => {
                    let credit = self.credit(now, rate);
                    if credit < 1.0 {
                        let missing = (1.0 - credit) / f64::from(rate.max(1));
                        return Ok(Some(now + Duration::from_secs_f64(missing).max(PAUSE)));
                    }
                    most = most.min(credit as usize);
                }
                _ => {}
            }
            if !self.writable {
                break;
            }
            let front = self.queue.pop_front().expect("it was just looked at");
            let sent = self.send(moving, Some(&front), most);
            let taken = *sent.as_ref().unwrap_or(&0);
            self.credit -= taken as f64;
            self.bytes -= taken;
            *moving.loan.queued -= taken;
            if taken < waiting {
                self.queue.push_front(Piece { from: front.from + taken, ..front });
            }
            sent?;
        }
        Ok(None)
    }

    /// Sends at most so many bytes, of a piece or of what was just read.
    fn send(
        &mut self,
        moving: &mut Moving<'_, '_>,
        piece: Option<&Piece>,
        most: usize,
    ) -> Result<usize, Next> {
        let bytes = match piece {
            Some(piece) => &piece.bytes[piece.from..piece.from + most],
            None => &moving.loan.buffer[..most],
        };
        match send(moving.sink, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.writable = count == most;
                moving.loan.passed[moving.index] += count as u64;
                Ok(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.writable = false;
                Ok(0)
            }
            Err(_) => Err(Next::Over),
        }
    }

    fn keep(
        &mut self,
        moving: &mut Moving<'_, '_>,
        range: std::ops::Range<usize>,
        later: Duration,
    ) {
        if range.is_empty() {
            return;
        }
        let bytes: Box<[u8]> = moving.loan.buffer[range].into();
        self.bytes += bytes.len();
        *moving.loan.queued += bytes.len();
        self.queue.push_back(Piece { due: moving.loan.now + later, bytes, from: 0 });
    }

    /// Bytes that may pass now at so many a second.
    fn credit(&mut self, now: Instant, rate: u32) -> f64 {
        let rate = f64::from(rate.max(1));
        let spent = self.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        let most = (rate * BURST.as_secs_f64()).max(1.0);
        self.credit = (self.credit.max(0.0) + spent.as_secs_f64() * rate).min(most);
        self.credit
    }

    /// Reads and forgets: an end with unread bytes would be a reset.
    fn forget(&mut self, moving: Moving<'_, '_>) -> Next {
        *moving.loan.queued -= std::mem::take(&mut self.bytes);
        self.queue.clear();
        for _ in 0..READS {
            match rustix::io::read(moving.source, &mut *moving.loan.buffer) {
                Ok(0) => {
                    self.ended = true;
                    return Next::Rest;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Rest,
                Err(_) => return Next::Over,
            }
        }
        Next::Again
    }
}
