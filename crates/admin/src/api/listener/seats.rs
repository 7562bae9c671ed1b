//! Seats of the API's connections: who has one, and which connection gives way when all are taken.
//!
//! A caller becomes known when one of its requests had a valid token. Connections that were never
//! known give way first: of the address that has most of them, the oldest, so that one stranger's
//! crowd harms only itself. Then the known connection that has been idle for longest. Those whose
//! request is being answered, or whose answer is being read, stay. If a source has used up its
//! share, one of its own gives way, in the same order. It reads no clock and knows no socket.
//! Invariant: no more than `connections_max` connections, and of one source no more than its share,
//! hold a seat that was not taken back.

use model::limits::seats::share_of;
use model::link::Source;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use tokio::sync::Notify;

/// Stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The head of a request has to come: from accept, or from its first byte.
    Head,
    /// The connection was answered and has asked nothing since.
    Idle,
    /// A request is being answered.
    Busy,
}

/// Counts of the fates of connections since the start.
#[derive(Default)]
pub struct SeatTally {
    /// Connections that gave up their seat for another one, because they had not shown a token, or
    /// asked nothing.
    pub(crate) evicted: AtomicU64,
    /// Requests refused while all others were being answered: the client should retry.
    pub(crate) refused: AtomicU64,
    /// Requests of a source that had used up its share: one of its own gave way, or the client
    /// should retry.
    pub(crate) beyond_source: AtomicU64,
    /// A head, the next request or a reader did not come in time.
    pub(crate) timed_out: AtomicU64,
}

/// The places of all listeners of a door.
pub(super) struct Table {
    places: Mutex<Places>,
    pub(super) tally: SeatTally,
    /// A connection ended or became a stream, or something was done.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Places {
    max: usize,
    share: usize,
    /// Rises with each thing that happens: it stands for time.
    moment: u64,
    taken: BTreeMap<u64, Place>,
    /// Seats of each source that were not taken back.
    of_sources: HashMap<Source, usize>,
    /// Seats that were taken back and whose connections are not gone yet.
    leaving: usize,
    /// Calls that are carried out although their caller may go.
    at_work: usize,
}

struct Place {
    from: Source,
    is_known: bool,
    requests: u32,
    stage: Stage,
    /// The moment of its last change of stage.
    since: u64,
    /// Its answer is a stream, which has no end of its own.
    is_stream: bool,
    /// Bytes of an answer wait until it reads.
    waits_for_reader: bool,
    is_out: bool,
    wakers: [Option<Waker>; 2],
}

/// Why a task of a connection is woken: it reads, or it writes.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Read = 0,
    Write = 1,
}

/// A connection's seat, shared by all tasks that serve the connection.
#[derive(Clone)]
pub struct ApiSlot {
    number: u64,
    peer: SocketAddr,
    table: Arc<Table>,
}

impl std::fmt::Debug for ApiSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seat({})", self.peer)
    }
}

impl Table {
    /// Makes a table of `max` slots, of which one source has at most `share` ([`share_of`]).
    pub(super) fn new(max: u32, share: u32) -> Arc<Table> {
        let (places, tally, changed) = Default::default();
        let table = Table { places, tally, changed };
        table.set_max(max, share);
        Arc::new(table)
    }

    /// Sets other numbers of slots. Connections beyond them stay until they end, or until they give
    /// way to a newcomer.
    pub(super) fn set_max(&self, max: u32, share: u32) {
        let mut places = self.lock();
        places.max = max.max(1) as usize;
        places.share = share_of(share, max.max(1)) as usize;
    }

    /// A seat for a new connection; `None`: all others, or all of its source, are being answered.
    pub(super) fn take(self: &Arc<Table>, peer: SocketAddr) -> Option<ApiSlot> {
        let mut places = self.lock();
        let from = Source::of(peer.ip());
        let is_beyond = places.of_sources.get(&from).is_some_and(|own| *own >= places.share);
        if is_beyond || places.taken.len() - places.leaving >= places.max {
            self.tally.beyond_source.fetch_add(u64::from(is_beyond), Ordering::Relaxed);
            let Some(victim) = places.victim(is_beyond.then_some(from)) else {
                self.tally.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            self.tally.evicted.fetch_add(1, Ordering::Relaxed);
            places.leaving += 1;
            let place = places.taken.get_mut(&victim).expect("the victim has a place");
            place.is_out = true;
            place.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
            let from = place.from;
            places.let_go(from);
        }
        let number = places.tick();
        *places.of_sources.entry(from).or_default() += 1;
        let place = Place {
            from,
            is_known: false,
            requests: 0,
            stage: Stage::Head,
            since: number,
            is_stream: false,
            waits_for_reader: false,
            is_out: false,
            wakers: [None, None],
        };
        places.taken.insert(number, place);
        Some(ApiSlot { number, peer, table: Arc::clone(self) })
    }

    /// Connections that hold a seat.
    pub(super) fn taken(&self) -> usize {
        let places = self.lock();
        places.taken.len() - places.leaving
    }

    /// Whether only streams are connected, and no work is in progress.
    pub(super) fn is_finished(&self) -> bool {
        let places = self.lock();
        let answered = |place: &Place| place.is_stream || place.is_out;
        places.at_work == 0 && places.taken.values().all(answered)
    }

    /// Connections that were told to go and have not ended.
    pub(super) fn leaving(&self) -> usize {
        self.lock().leaving
    }

    /// Locks the places. Nothing panics half way through a change of them.
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Returns a seat of this source.
    fn let_go(&mut self, from: Source) {
        if let Some(own) = self.of_sources.get_mut(&from) {
            *own -= 1;
            if *own == 0 {
                self.of_sources.remove(&from);
            }
        }
    }

    /// The connection that gives up its seat, of all or of one source.
    fn victim(&self, of: Option<Source>) -> Option<u64> {
        let may = |place: &Place| !place.is_out && of.is_none_or(|of| place.from == of);
        let here = || self.taken.iter().filter(|(_, place)| may(place));
        let mut strangers: HashMap<Source, (usize, u64)> = HashMap::new();
        for (&number, place) in here().filter(|(_, place)| !place.is_known) {
            // The first one seen of a source is its oldest: numbers rise.
            strangers.entry(place.from).or_insert((0, number)).0 += 1;
        }
        let most = |&(count, oldest): &(usize, u64)| (count, std::cmp::Reverse(oldest));
        if let Some((_, oldest)) = strangers.into_values().max_by_key(most) {
            return Some(oldest);
        }
        let is_idle = |place: &Place| place.stage != Stage::Busy && !place.waits_for_reader;
        let idle = here().filter(|(_, place)| is_idle(place));
        idle.min_by_key(|(_, place)| place.since).map(|(&number, _)| number)
    }

    fn stage(&mut self, number: u64, stage: Stage) {
        let since = self.tick();
        if let Some(place) = self.taken.get_mut(&number) {
            (place.stage, place.since) = (stage, since);
        }
    }
}

impl ApiSlot {
    /// Address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A request's head has come.
    pub fn begin(&self) {
        let mut places = self.table.lock();
        if let Some(place) = places.taken.get_mut(&self.number) {
            place.requests += 1;
        }
        places.stage(self.number, Stage::Busy);
    }

    /// Marks a request as answered, or given up.
    pub fn end(&self) {
        let mut places = self.table.lock();
        let Some(place) = places.taken.get_mut(&self.number) else { return };
        place.requests = place.requests.saturating_sub(1);
        let (left, known) = (place.requests, place.is_known);
        if left == 0 {
            place.is_stream = false;
            // A stranger has only the time that a head has, over and over.
            places.stage(self.number, if known { Stage::Idle } else { Stage::Head });
            // The reader may not be polled again before bytes arrive, so it is woken: its time
            // limit begins now.
            let place = places.taken.get_mut(&self.number);
            let waker = place.and_then(|place| place.wakers[Side::Read as usize].take());
            drop(places);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Notes that the connection's answer is a stream.
    pub(super) fn stream(&self) {
        if let Some(place) = self.table.lock().taken.get_mut(&self.number) {
            place.is_stream = true;
        }
        self.table.changed.notify_one();
    }

    /// Whether bytes of an answer wait until it reads.
    pub(super) fn wait_for_reader(&self, waits: bool) {
        if let Some(place) = self.table.lock().taken.get_mut(&self.number) {
            place.waits_for_reader = waits;
        }
    }

    /// Marks the connection as one that has shown a valid token.
    pub fn know(&self) {
        if let Some(place) = self.table.lock().taken.get_mut(&self.number) {
            place.is_known = true;
        }
    }

    /// Bytes have come: the head of a request has begun, where none is being answered.
    pub(super) fn heard(&self) {
        let mut places = self.table.lock();
        if places.taken.get(&self.number).is_some_and(|place| place.stage == Stage::Idle) {
            places.stage(self.number, Stage::Head);
        }
    }

    /// The stage of the connection, and its beginning; `None` if the connection was told to go. The
    /// waker is called when that happens.
    pub(super) fn look(&self, side: Side, waker: &Waker) -> Option<(Stage, u64)> {
        let mut places = self.table.lock();
        let place = places.taken.get_mut(&self.number)?;
        if place.is_out {
            return None;
        }
        match &mut place.wakers[side as usize] {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Some((place.stage, place.since))
    }

    /// Notes that the connection's time was over.
    pub(super) fn timed_out(&self) {
        self.table.tally.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection is gone.
    pub(super) fn leave(&self) {
        let mut places = self.table.lock();
        match places.taken.remove(&self.number) {
            Some(place) if place.is_out => places.leaving -= 1,
            Some(place) => places.let_go(place.from),
            None => {}
        }
        drop(places);
        self.table.changed.notify_one();
    }
}

/// Mark of work that goes on although its caller may go.
pub struct AtWork(Arc<Table>);

impl AtWork {
    pub(super) fn new(table: &Arc<Table>) -> AtWork {
        table.lock().at_work += 1;
        AtWork(Arc::clone(table))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.lock().at_work -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> SocketAddr {
        ([192, 0, 2, host], 1).into()
    }

    fn is_out(seat: &ApiSlot) -> bool {
        seat.look(Side::Read, Waker::noop()).is_none()
    }

    #[test]
    fn a_stranger_gives_way_before_anybody_who_is_known() {
        let table = Table::new(3, 3);
        let known = table.take(from(1)).expect("room");
        known.know();
        let strangers = [2, 2].map(|host| table.take(from(host)).expect("room"));
        let newcomer = table.take(from(3)).expect("the oldest stranger gives way");
        assert_eq!(strangers.each_ref().map(is_out), [true, false]);
        assert!(!is_out(&known) && !is_out(&newcomer));
        assert_eq!((table.taken(), table.leaving()), (3, 1));
        strangers[0].leave();
        assert_eq!((table.taken(), table.leaving()), (3, 0));
        assert_eq!(table.tally.evicted.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn of_strangers_the_address_with_most_of_them_pays() {
        let table = Table::new(4, 4);
        let lone = table.take(from(1)).expect("room");
        let crowd = [2, 2, 2].map(|host| table.take(from(host)).expect("room"));
        table.take(from(3)).expect("room is made");
        assert!(!is_out(&lone), "it came first, and is alone");
        assert_eq!(crowd.each_ref().map(is_out), [true, false, false]);
        let mapped: SocketAddr = "[::ffff:192.0.2.2]:9".parse().expect("an address");
        table.take(mapped).expect("room is made");
        assert_eq!(crowd.each_ref().map(is_out), [true, true, false], "it is the same address");
    }

    #[test]
    fn a_source_that_has_its_share_gives_up_one_of_its_own() {
        let table = Table::new(9, 2);
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let stranger = table.take(from(1)).expect("room");
        let crowd = [1, 2].map(|host| table.take(at(&format!("[2001:db8::{host}]:1"))));
        let crowd = crowd.map(|seat| seat.expect("room"));
        let newcomer = table.take(at("[2001:db8::3]:1")).expect("its oldest gives way");
        assert_eq!(crowd.each_ref().map(is_out), [true, false], "a /64 is one source");
        assert!(!is_out(&stranger), "though it is older");
        for seat in [&crowd[1], &newcomer] {
            seat.begin();
            seat.know();
        }
        assert!(table.take(at("[2001:db8::4]:1")).is_none(), "both of its are being answered");
        assert_eq!(table.tally.beyond_source.load(Ordering::Relaxed), 2);
        crowd[1].leave();
        assert!(table.take(at("[2001:db8::4]:1")).is_some());
        [stranger, newcomer].iter().for_each(ApiSlot::leave);
        assert_eq!(table.lock().of_sources.len(), 1, "who left is not remembered");
    }

    #[test]
    fn of_those_known_the_one_idle_for_longest_goes_and_the_busy_stay() {
        let table = Table::new(2, 2);
        let seats = [1, 2].map(|host| table.take(from(host)).expect("room"));
        for seat in &seats {
            seat.begin();
            seat.know();
        }
        assert!(table.take(from(3)).is_none(), "both are being answered");
        assert_eq!(table.tally.refused.load(Ordering::Relaxed), 1);
        seats[1].end();
        seats[0].end();
        assert!(table.take(from(3)).is_some());
        assert_eq!(seats.each_ref().map(is_out), [false, true]);
    }

    #[test]
    fn who_still_takes_an_answer_keeps_its_seat() {
        let table = Table::new(2, 2);
        let seats = [1, 2].map(|host| table.take(from(host)).expect("room"));
        for seat in &seats {
            seat.know();
            seat.begin();
            seat.end();
        }
        seats[0].wait_for_reader(true);
        table.take(from(3)).expect("room is made").know();
        assert_eq!(seats.each_ref().map(is_out), [false, true], "the first was idle for longer");
        seats[0].wait_for_reader(false);
        seats[1].leave();
        table.take(from(4)).expect("room is made");
        assert!(is_out(&seats[0]));
    }

    #[test]
    fn all_is_answered_when_only_streams_are_left_and_nothing_is_being_done() {
        let table = Table::new(3, 3);
        assert!(table.is_finished());
        let [stream, idle] = [1, 2].map(|host| table.take(from(host)).expect("room"));
        stream.begin();
        stream.stream();
        assert!(!table.is_finished(), "an idle one is not gone yet");
        let work = AtWork::new(&table);
        idle.leave();
        assert!(!table.is_finished(), "its caller went, and it is being done");
        drop(work);
        assert!(table.is_finished());
        stream.end();
        assert!(!table.is_finished(), "it may ask again");
    }

    #[test]
    fn a_seat_says_what_it_is_at() {
        let table = Table::new(1, 1);
        let seat = table.take(from(1)).expect("room");
        let stage = || seat.look(Side::Read, Waker::noop()).expect("it stays").0;
        assert_eq!(stage(), Stage::Head);
        seat.begin();
        seat.begin(); // pipelined
        assert_eq!(stage(), Stage::Busy);
        seat.end();
        assert_eq!(stage(), Stage::Busy);
        seat.end();
        assert_eq!(stage(), Stage::Head, "a stranger is not let idle");
        seat.begin();
        seat.know();
        seat.end();
        assert_eq!(stage(), Stage::Idle);
        seat.heard();
        assert_eq!(stage(), Stage::Head);
        seat.leave();
        assert_eq!(table.taken(), 0);
    }
}
