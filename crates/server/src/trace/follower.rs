//! A trace's own thread: it takes events from shards, decodes them, and passes them on.
//!
//! The thread waits for its reader: a slow one makes the queue in front of the thread grow, up to
//! its limit, and later events are left out by the shards. Events beyond so many a second are left
//! out here. Both are reported as they are noticed. Invariant: an omission is reported before the
//! events behind it.

use super::decode::{Decoded, FrameMemory};
use super::desk::TraceTally;
use super::seen::{ActiveTrace, LinkFacts, Names, Seen, SeenWhat, WireKind};
use model::limits::ApiLimits;
use model::ports::trace::{
    HEAD_BYTES, PayloadShown, TraceDirection, TraceEvent, TraceField, TracePayload, TraceSink,
    TraceTold,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// Connections that are remembered. With one more all of them are forgotten: those that go on are
/// shown without the names of their clients.
const REMEMBERED_MAX: usize = 65_536;

/// Parts of a trace's thread.
pub(super) struct Follower {
    pub(super) trace: Arc<ActiveTrace>,
    pub(super) payload: PayloadShown,
    pub(super) sink: TraceSink,
    pub(super) tally: Arc<TraceTally>,
    pub(super) connections: HashMap<u64, Remembered>,
    /// The present second, and the number of events sent in it.
    pub(super) pace: (u64, u32),
    /// Events of it that were left out.
    pub(super) hurried: u64,
}

/// State of a followed connection.
pub(super) struct Remembered {
    wire: WireKind,
    memory: FrameMemory,
    names: Names,
}

impl Follower {
    pub(super) fn new(
        trace: Arc<ActiveTrace>,
        payload: PayloadShown,
        sink: TraceSink,
        tally: Arc<TraceTally>,
    ) -> Follower {
        let (connections, pace, hurried) = Default::default();
        Follower { trace, payload, sink, tally, connections, pace, hurried }
    }

    /// Passes events on until the reader has gone.
    pub(super) fn run(mut self, batches: &Receiver<Vec<Arc<Seen>>>) {
        while let Ok(batch) = batches.recv() {
            if self.trace.is_over() || !self.take(&batch) {
                return self.trace.end();
            }
        }
    }

    /// Passes on the events of a shard's turn; false if the reader has gone.
    fn take(&mut self, batch: &[Arc<Seen>]) -> bool {
        for seen in batch {
            if !self.told(seen) {
                return false;
            }
        }
        self.trace.taken(batch);
        self.tell_left_out()
    }

    /// Reports how many events are missing here, if any are.
    fn tell_left_out(&mut self) -> bool {
        let left_out = self.trace.take_left_out() + std::mem::take(&mut self.hurried);
        if left_out == 0 {
            return true;
        }
        self.tally.left_out.fetch_add(left_out, Ordering::Relaxed);
        (self.sink)(TraceTold::LeftOut(left_out))
    }

    fn told(&mut self, seen: &Seen) -> bool {
        let is_end = matches!(seen.what, SeenWhat::Closed(_));
        let mut goes_on = true;
        for event in self.events(seen) {
            goes_on = goes_on && self.tell(event);
        }
        if is_end {
            self.connections.remove(&seen.connection);
        }
        goes_on
    }

    /// Sends an event, unless too many were sent in its second.
    fn tell(&mut self, event: TraceEvent) -> bool {
        let second = event.at_ms / 1_000;
        if self.pace.0 != second {
            self.pace = (second, 0);
        }
        if self.pace.1 >= self.limits().trace_events_per_s_max {
            self.hurried += 1;
            return true;
        }
        self.pace.1 += 1;
        if self.hurried > 0 && !self.tell_left_out() {
            return false;
        }
        self.tally.events.fetch_add(1, Ordering::Relaxed);
        (self.sink)(TraceTold::Event(Box::new(event)))
    }

    fn limits(&self) -> &ApiLimits {
        &self.trace.limits
    }

    /// Trace events of something that was seen.
    fn events(&mut self, seen: &Seen) -> Vec<TraceEvent> {
        if self.connections.len() >= REMEMBERED_MAX {
            self.connections.clear();
        }
        let shown = match self.payload {
            PayloadShown::Nothing => 0,
            PayloadShown::Head => HEAD_BYTES,
            PayloadShown::Whole => self.limits().trace_payload_bytes_max as usize,
        };
        let known = self.connections.entry(seen.connection).or_insert_with(|| Remembered {
            wire: seen.wire,
            memory: FrameMemory::default(),
            names: Names::default(),
        });
        match &seen.what {
            SeenWhat::Opened { facts, was_there } => {
                known.names.peer = facts.peer;
                known.wire = seen.wire;
                let kind = if *was_there { "followed" } else { "opened" };
                vec![known.event(seen, None, noticed(kind, link(*facts)))]
            }
            SeenWhat::Is(names) => known.is(names),
            SeenWhat::Bytes(direction, bytes) => {
                known.wire = seen.wire;
                let frames = known.memory.read(seen.wire, *direction, bytes);
                let told = frames.into_iter().map(|frame| {
                    let (frame, payload) = cut(frame, shown);
                    TraceEvent { payload, ..known.event(seen, Some(*direction), frame) }
                });
                told.collect()
            }
            SeenWhat::TooMany(direction, count) => {
                let mut frame = noticed("undecoded", vec![("why", "too large to be shown".into())]);
                frame.bytes = *count;
                vec![known.event(seen, Some(*direction), frame)]
            }
            SeenWhat::Untaken(count) => {
                let mut frame = noticed("undecoded", vec![("why", "not taken".into())]);
                frame.bytes = *count;
                vec![known.event(seen, Some(TraceDirection::In), frame)]
            }
            SeenWhat::Noticed(kind, fields) => {
                vec![known.event(seen, None, noticed(kind, fields.clone()))]
            }
            SeenWhat::Message { kind, who, message, fields } => {
                let mut fields = fields.clone();
                fields.insert(0, ("topic", message.topic().into()));
                let payload = part(message.payload(), shown);
                let event = known.event(seen, None, noticed(kind, fields));
                let Names { client, user, peer } = who.clone();
                vec![TraceEvent { client, user, peer, payload: Some(payload), ..event }]
            }
            SeenWhat::Closed(reason) => {
                let fields = vec![("reason", reason.name().into())];
                vec![known.event(seen, None, noticed("closed", fields))]
            }
        }
    }
}

impl Remembered {
    /// Sets the identity of the connection. No event of its own: the next event shows it.
    fn is(&mut self, names: &Names) -> Vec<TraceEvent> {
        let peer = names.peer.or(self.names.peer);
        self.names = Names { peer, ..names.clone() };
        Vec::new()
    }

    fn event(
        &self,
        seen: &Seen,
        direction: Option<TraceDirection>,
        frame: Decoded<'_>,
    ) -> TraceEvent {
        let Names { client, user, peer } = self.names.clone();
        // What a service notices does not know what is spoken: the connection's bytes did.
        let wire = match seen.what {
            SeenWhat::Noticed(..) => self.wire,
            _ => seen.wire,
        };
        TraceEvent {
            at_ms: seen.at_ms,
            connection: seen.connection,
            protocol: self.memory.protocol(wire),
            direction,
            kind: frame.kind.into_owned(),
            client,
            user,
            peer,
            bytes: frame.bytes,
            fields: frame.fields,
            payload: None,
        }
    }
}

/// Event that is not on the wire.
fn noticed(kind: &'static str, fields: Vec<TraceField>) -> Decoded<'static> {
    Decoded { kind: kind.into(), bytes: 0, fields, payload: None }
}

fn link(facts: LinkFacts) -> Vec<TraceField> {
    let peer = |peer: SocketAddr| ("address", peer.to_string().as_str().into());
    let web_socket = facts.web_socket.then(|| ("web_socket", true.into()));
    let tls = facts.tls.map(|version| ("tls", version.into()));
    facts.peer.map(peer).into_iter().chain(tls).chain(web_socket).collect()
}

/// A frame, and as much of its payload as is shown.
fn cut(mut frame: Decoded<'_>, shown: usize) -> (Decoded<'_>, Option<TracePayload>) {
    let payload = frame.payload.take().map(|payload| part(&payload, shown));
    (frame, payload)
}

fn part(payload: &[u8], shown: usize) -> TracePayload {
    TracePayload { bytes: payload.len(), shown: payload[..payload.len().min(shown)].into() }
}
