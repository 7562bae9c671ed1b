//! Appends connects and disconnects to an external stream, such as Redis', in order.
//!
//! The courier reads the feed at its own place and repeats a batch with a growing, jittered wait
//! until the stream accepts it, for as long as the process lives; meanwhile the feed holds new
//! entries, and entries that it cannot hold are replaced by an entry `gap`. Repeated entries may be
//! in the stream twice; their versions show it. The courier knows no Redis and reads no clock.
//! Invariant: entries of one device or client are in the order of their versions, except for a
//! batch that is repeated whole; and between two entries nothing is missing, unless a `gap` or a
//! `started` stands there.

use crate::feed::{Feed, Happening, Reader, Taken, Wish};
use crate::webhook::{Backoff, WallClock};
use model::ports::events::{ClientEvent, ClientWhat, DeviceEvent, DeviceWhat};
use model::ports::presence::directory::{DirectoryError, EventStream};
use model::presence::NodeName;
use model::{event, tell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Events taken from the feed at once; with a gap, entries appended at once.
const BATCH_EVENTS_MAX: usize = 512;

/// How long a batch waits for more events.
const GATHER: Duration = Duration::from_millis(5);

/// First and longest wait between tries, milliseconds; half of each is random.
const WAIT_MS: (u64, u64) = (100, 5_000);

/// Entry of a stream for an event: fields and values.
type Entry = Vec<(&'static str, String)>;

/// Where entries go, and what they say of this server.
pub struct StreamSettings {
    /// Where they are appended.
    pub stream: Box<dyn EventStream>,
    /// This server.
    pub node: NodeName,
    /// Which start of it; also the seed of waits.
    pub boot: u64,
    /// Unix milliseconds.
    pub wall_ms: WallClock,
}

/// Counts of presence entries by what became of them on the way to the stream.
pub struct StreamTally {
    reader: Reader,
    appended: AtomicU64,
    lost: AtomicU64,
    failures: AtomicU64,
    is_away: AtomicBool,
}

/// The courier; its [`run`](StreamCourier::run) is the life of a thread.
pub struct StreamCourier {
    settings: StreamSettings,
    feed: Arc<Feed>,
    backoff: Backoff,
    tally: Arc<StreamTally>,
    /// The fault that was logged last.
    told: Option<DirectoryError>,
}

impl StreamTally {
    /// Entries that the stream took.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Events that it will never get, and others that were lost with them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Tries that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether the last try failed.
    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Events in the feed that the courier has not come to.
    pub fn waiting(&self) -> u64 {
        self.reader.waiting()
    }
}

impl StreamCourier {
    /// A courier that begins with what happens from now on.
    pub fn new(settings: StreamSettings, feed: &Arc<Feed>) -> StreamCourier {
        let tally = StreamTally {
            reader: feed.reader(Wish { presence: true, ..Wish::default() }, None),
            appended: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
        };
        let backoff = Backoff::new(WAIT_MS, settings.boot);
        let (feed, tally) = (Arc::clone(feed), Arc::new(tally));
        StreamCourier { settings, feed, backoff, tally, told: None }
    }

    /// Its figures.
    pub fn tally(&self) -> Arc<StreamTally> {
        Arc::clone(&self.tally)
    }

    /// Appends until the feed ends; what is left then is tried once more, and nothing after what
    /// was not taken even then.
    pub fn run(mut self) {
        let mut entries = vec![self.started()];
        let mut events = 0;
        while self.append(&entries) {
            let Some(taken) = self.tally.reader.next_batch(BATCH_EVENTS_MAX, GATHER) else {
                return;
            };
            (entries, events) = self.entries(taken);
        }
        while let Some(taken) = self.tally.reader.take(BATCH_EVENTS_MAX) {
            events += self.entries(taken).1;
        }
        self.lose(events);
    }

    /// Whether they were taken: false when the feed was closed and they were not.
    fn append(&mut self, entries: &[Entry]) -> bool {
        self.backoff.reset();
        let mut is_last = false;
        while !entries.is_empty() {
            match self.settings.stream.append(entries) {
                Ok(()) => {
                    self.tally.appended.fetch_add(entries.len() as u64, Ordering::Relaxed);
                    self.is_back();
                    break;
                }
                Err(fault) => self.failed(fault),
            }
            if is_last {
                return false;
            }
            is_last = !self.feed.pause(self.backoff.wait());
        }
        true
    }

    /// Logs each kind of fault once until the next success.
    fn failed(&mut self, fault: DirectoryError) {
        self.tally.failures.fetch_add(1, Ordering::Relaxed);
        self.tally.is_away.store(true, Ordering::Relaxed);
        if self.told.as_ref() != Some(&fault) {
            tell!(event::STREAM_AWAY, %fault);
            self.told = Some(fault);
        }
    }

    fn is_back(&mut self) {
        self.tally.is_away.store(false, Ordering::Relaxed);
        if self.told.take().is_some() {
            tell!(event::STREAM_BACK);
        }
    }

    fn lose(&self, count: u64) {
        if count > 0 {
            self.tally.lost.fetch_add(count, Ordering::Relaxed);
            tell!(event::STREAM_LOST, events = count);
        }
    }

    /// Entries to append, and how many of them are events.
    fn entries(&self, taken: Taken) -> (Vec<Entry>, u64) {
        self.lose(taken.lost);
        let told = taken.happenings.iter().filter_map(|(_, happening)| self.told(happening));
        let mut entries: Vec<_> = told.collect();
        let events = entries.len() as u64;
        if taken.lost > 0 {
            let mut gap = self.entry("gap", (self.settings.wall_ms)());
            gap.push(("lost", taken.lost.to_string()));
            entries.insert(0, gap);
        }
        (entries, events)
    }

    /// Entry for a start: all devices and clients that were online on this server before no longer
    /// are, and its last entries may be missing.
    fn started(&self) -> Entry {
        let mut started = self.entry("started", (self.settings.wall_ms)());
        started.push(("boot", format!("{:x}", self.settings.boot)));
        started
    }

    /// Entry of an event about presence; `None` for other events.
    fn told(&self, happening: &Happening) -> Option<Entry> {
        match happening {
            Happening::Device(event) => self.device(event),
            Happening::Client(event) => self.client(event),
            Happening::Chat(_) | Happening::Alarm(_) => None,
        }
    }

    fn device(&self, event: &DeviceEvent) -> Option<Entry> {
        let how = match &event.what {
            DeviceWhat::Online { protocol, .. } => ("protocol", *protocol),
            DeviceWhat::Offline { reason } => ("reason", reason.name()),
            DeviceWhat::Report { .. }
            | DeviceWhat::Pushed { .. }
            | DeviceWhat::Reported { .. }
            | DeviceWhat::TokenDead { .. } => return None,
        };
        let mut told = self.entry(event.what.name(), event.at_ms);
        told.push(("product", event.product.as_str().into()));
        told.push(("device", event.device.as_str().into()));
        told.push(("version", event.version.to_string()));
        told.push(("epoch", event.epoch.to_string()));
        told.push((how.0, how.1.into()));
        Some(told)
    }

    fn client(&self, event: &ClientEvent) -> Option<Entry> {
        let how = match &event.what {
            ClientWhat::Connected { protocol, .. } => ("protocol", *protocol),
            ClientWhat::Disconnected { reason } => ("reason", reason.name()),
            _ => return None,
        };
        let mut told = self.entry(event.what.name(), event.at_ms);
        told.push(("client_id", event.client_id.as_ref().into()));
        told.extend(event.user.iter().map(|user| ("user", user.as_ref().into())));
        told.push(("version", event.version.to_string()));
        told.push((how.0, how.1.into()));
        Some(told)
    }

    fn entry(&self, kind: &str, at_ms: u64) -> Entry {
        let node = self.settings.node.as_str().into();
        vec![("type", kind.into()), ("at_ms", at_ms.to_string()), ("node", node)]
    }
}
