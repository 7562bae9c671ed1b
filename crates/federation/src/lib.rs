//! Other domains of XMPP: servers and components, on a shard with a thread of its own.
//!
//! ```text
//!  chat (any shard) ─ words out ─► way out ─► routes: queue, call, stream ─► another domain
//!  chat (home) ◄─ commands ─ desk ◄─ stanzas of domains that were shown ◄─ streams
//! ```
//! Stanzas of accounts to other domains come by the [`WayOut`] of every shard, wait in the route of
//! their domain and go over its stream ([`route`], [`logic`]); incoming stanzas are handed to the
//! homes of accounts ([`desk`]). Streams are machines of `proto-xmpp`; calls by name are `net`'s.
//! It knows no account's state and no store. Invariant: every stanza that waits for a domain has an
//! end: it is written, or its sender gets an error.

mod counted;
mod departures;
mod desk;
mod logic;
mod pushes;
mod rooms;
mod route;
mod settings;
mod trust;

pub use pushes::PushReply;
pub use settings::{ComponentSection, FederationSection};

use base::hash::HashKey;
use departures::Departures;
use desk::ArrivalDesk;
use logic::{FederationLogic, FederationParts};
use model::chat::GROUP_SERVICE;
use model::chat::foreign::{ForeignDomains, ForeignRefused, ForeignWord};
use model::id::ShardId;
use model::limits::{DialLimits, FederationLimits, Limits};
use model::ports::control::{Answer, Control};
use model::ports::names::{NameAnswer, NameQuestion, NameResolver};
use model::ports::notifications::{NotificationOrder, Notified};
use model::timeline::{Seq, TimelineId};
use names::{NameSettings, Resolver};
use net::epoll::Epoll;
use net::layer::ListenerSetup;
use net::mailbox::Mailbox;
use net::shard::{Census, ListenerChange, ShardMessage, ShardMessageOf};
use net::{Dialler, Shard};
use proto_xmpp::peer::dialback::DialbackSecret;
use proto_xmpp::peer::{ComponentSecret, PeerProfile};
use proto_xmpp::server::Advertised;
use rooms::RoomsDesk;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use trust::PeerTrust;

type FederationMailbox = Arc<Mailbox<ShardMessageOf<FederationLogic, OwnedFd>>>;

/// Messages to the shard of other domains.
pub enum FederationMail {
    /// Traffic to other domains.
    Out(Vec<ForeignWord>),
    /// A notification for a push service.
    Push(Box<NotificationOrder>, PushReply),
    /// Names were looked up.
    Names(u64, NameAnswer),
    /// The answer to a stanza that was handed to an account's shard.
    Taken(TakenStanza),
    /// Chat's answer to a request of a room, under this number.
    Asked(u64, Answer),
    /// New limits: federation's, and those of the process.
    Configure(Box<(FederationLimits, Limits)>),
    /// Changes of listeners, each with the purpose that it has here from then on.
    Listeners(Vec<(ListenerChange, Option<PeerDoor>)>),
    /// The home of a queue was not told that these have left it.
    NotLeft(TimelineId, Box<[Seq]>),
    /// Say farewell, and end.
    Stop,
}

/// The answer of an account's shard to a stanza.
pub struct TakenStanza {
    number: u64,
    answer: Answer,
}

/// Messages that wait for the shard of other domains: batches of words, and answers.
const MESSAGES_MAX: usize = 65_536;

/// The way out to other domains, as shards have it. Cheap to clone.
#[derive(Clone)]
pub struct WayOut {
    mailbox: FederationMailbox,
    /// Bytes that are on their way to that shard.
    handed: Arc<AtomicU64>,
    handed_max: Arc<AtomicU64>,
    /// Orders refused since the last report: for lack of room, and as invalid.
    refused: Arc<AtomicU64>,
    invalid: Arc<AtomicU64>,
}

impl WayOut {
    /// A way on which so many bytes may be.
    pub fn new(handed_max: u64) -> std::io::Result<WayOut> {
        let mailbox = Mailbox::new(MESSAGES_MAX)?;
        let (handed, refused, invalid) = Default::default();
        let handed_max = Arc::new(AtomicU64::new(handed_max));
        Ok(WayOut { mailbox, handed, handed_max, refused, invalid })
    }

    /// Sends traffic to other domains. Returns the counts of earlier refusals, and these words, if
    /// there is no room for them.
    pub fn put(&self, words: Vec<ForeignWord>) -> (ForeignRefused, Vec<ForeignWord>) {
        let bytes = weight_of(&words);
        let before = ForeignRefused {
            dropped: self.refused.swap(0, Ordering::Relaxed),
            invalid: self.invalid.swap(0, Ordering::Relaxed),
        };
        let handed = self.handed.fetch_add(bytes, Ordering::Relaxed);
        // What is more than all that may be on its way goes by itself.
        let has_room = handed == 0 || handed + bytes <= self.handed_max.load(Ordering::Relaxed);
        let back = match has_room {
            true => self.mailbox.put(ShardMessage::Mail(FederationMail::Out(words))),
            false => Err(ShardMessage::Mail(FederationMail::Out(words))),
        };
        if let Err(back) = back {
            self.handed.fetch_sub(bytes, Ordering::Relaxed);
            let ShardMessage::Mail(FederationMail::Out(words)) = back else {
                unreachable!("it is what was put")
            };
            return (before, words);
        }
        self.mailbox.ring();
        (before, Vec::new())
    }

    /// Sends a notification to a push service; an error says why it cannot be sent.
    pub fn notify(&self, order: Box<NotificationOrder>, reply: PushReply) -> Result<(), Notified> {
        let bytes = order.weight() as u64;
        let handed = self.handed.fetch_add(bytes, Ordering::Relaxed);
        let mail = ShardMessage::Mail(FederationMail::Push(order, reply));
        let handed_max = self.handed_max.load(Ordering::Relaxed);
        if handed + bytes > handed_max || self.mailbox.put(mail).is_err() {
            self.handed.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Notified::Later { rest_ms: 0 });
        }
        self.mailbox.ring();
        Ok(())
    }

    /// Changes listeners, in the order of the calls; each one's number follows the last one's or
    /// is known. Waits for room until the process is `over`.
    pub fn change_listeners(
        &self,
        changes: Vec<(ListenerChange, Option<PeerDoor>)>,
        over: &AtomicBool,
    ) {
        self.insist(FederationMail::Listeners(changes), over);
    }

    /// Sets other limits: federation's, and those of the process. Stanzas and streams that exceed a
    /// lower limit stay until they end. Waits for room until the process is `over`.
    pub fn set_limits(&self, limits: &FederationLimits, of_process: &Limits, over: &AtomicBool) {
        self.handed_max.store(limits.handed_bytes_max, Ordering::Relaxed);
        let both = Box::new((limits.clone(), of_process.clone()));
        self.insist(FederationMail::Configure(both), over);
    }

    fn insist(&self, mail: FederationMail, over: &AtomicBool) {
        let mut mail = ShardMessage::Mail(mail);
        while let Err(back) = self.mailbox.put(mail) {
            if over.load(Ordering::Relaxed) {
                return;
            }
            mail = back;
            self.mailbox.ring();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.mailbox.ring();
    }

    fn taken(&self, bytes: u64) {
        self.handed.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn refused(&self, count: u64) {
        self.refused.fetch_add(count, Ordering::Relaxed);
    }

    fn made_no_sense(&self, count: u64) {
        self.invalid.fetch_add(count, Ordering::Relaxed);
    }

    fn post(&self, mail: FederationMail) -> bool {
        let is_put = self.mailbox.put(ShardMessage::Mail(mail)).is_ok();
        self.mailbox.ring();
        is_put
    }
}

fn weight_of(words: &[ForeignWord]) -> u64 {
    words.iter().map(|word| word.weight() as u64).sum()
}

/// Kind of a listener of other domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerDoor {
    /// For servers.
    Server,
    /// For components.
    Component,
}

/// Settings of the shard of other domains.
pub struct FederationSettings {
    /// `[federation]`.
    pub section: FederationSection,
    /// `[component.NAME]`, with their secrets.
    pub components: Vec<(Box<str>, Box<str>)>,
    /// Which domains are whose.
    pub domains: Arc<ForeignDomains>,
    /// Files can be sent here.
    pub takes_files: bool,
    /// Features that the server advertises.
    pub advertised: Arc<Advertised>,
    /// The certificates that are shown to servers that are called, in the name of which domain,
    /// and their keys.
    pub certificates: Vec<(Box<str>, PathBuf, PathBuf)>,
    /// Secret from which keys of dialback are made: the same on every node of the domain.
    pub secret: Vec<u8>,
    /// The process's limits.
    pub limits: Limits,
    /// Random words.
    pub random: [u64; 3],
    /// Random: the key of the secrets that are drawn.
    pub drawn: [u8; 32],
    /// When the process began.
    pub began: std::time::Instant,
    /// All listeners, with what they are for here, and their sockets.
    pub doors: Vec<(Arc<ListenerSetup>, Option<PeerDoor>, Vec<OwnedFd>)>,
}

/// The shard of other domains. Dropping it stops it.
pub struct Federation {
    way: WayOut,
    thread: Option<JoinHandle<()>>,
}

/// Starts the shard of other domains. An error says what to change.
pub fn start(
    settings: FederationSettings,
    way: WayOut,
    control: Arc<dyn Control + Send + Sync>,
    look_ups: &NameSettings,
) -> Result<Federation, String> {
    let section = &settings.section;
    let limits = &section.limits;
    let profile = Arc::new(profile(&settings));
    let names: Box<dyn NameResolver + Send> = match section.enabled {
        true => Box::new(asker(&Resolver::start(look_ups)?, way.clone())),
        false => Box::new(NoNames),
    };
    let ([seed, key, other], secrets) = (settings.random, settings.drawn);
    let net_limits = net_limits(limits, settings.limits);
    let answers = way.clone();
    let tell = Arc::new(move |taken| {
        // Without room nobody is told of an error: it is as if the answer were lost on the way.
        let _ = answers.post(FederationMail::Taken(taken));
    });
    let rooms = RoomsDesk::new(control.clone(), way.clone(), seed ^ other);
    let departures = Departures::new(control.clone(), way.clone());
    let desk = ArrivalDesk::new(control, tell, (limits, other));
    let trust = match section.enabled {
        true => Some(PeerTrust::new(section, &settings.domains, &settings.certificates)?),
        false => None,
    };
    let (mut doors, mut kinds, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    for (door, kind, open) in settings.doors {
        doors.push(door);
        kinds.push(kind);
        sockets.push(open);
    }
    let logic = FederationLogic::new(FederationParts {
        profile,
        section: section.clone(),
        domains: settings.domains,
        takes_files: settings.takes_files,
        advertised: settings.advertised,
        kinds,
        way: way.clone(),
        desk,
        rooms,
        departures,
        dialler: Dialler::new(DialLimits::default(), seed),
        names,
        trust,
    });
    let shard = net::Settings {
        shard: ShardId(0),
        shards: 1,
        hash_key: HashKey::new(key, other),
        limits: Arc::new(net_limits),
        doors,
        census: Arc::<Census>::default(),
        seed,
        secrets,
    };
    let mailboxes = Arc::new([way.mailbox.clone()]);
    let net = Epoll::new(ShardId(0), sockets, mailboxes, settings.began).map_err(failed)?;
    let mut shard = Shard::new(shard, net, logic);
    let builder = std::thread::Builder::new().name("federation".into());
    let run = move || {
        net::executor::priority::give_way();
        shard.run();
    };
    let thread = builder.spawn(run).map_err(failed)?;
    Ok(Federation { way, thread: Some(thread) })
}

/// The profile that all streams to other domains share.
fn profile(settings: &FederationSettings) -> PeerProfile {
    let (section, limits) = (&settings.section, &settings.section.limits);
    let secrets = settings.components.iter();
    PeerProfile {
        rooms: format!("{GROUP_SERVICE}{}", settings.domains.own).into(),
        components: secrets.map(|(of, it)| (of.clone(), ComponentSecret(it.clone()))).collect(),
        domains: settings.domains.clone(),
        peers: section.peers(),
        secret: DialbackSecret::new(&settings.secret),
        requires_tls: section.requires_tls(),
        requires_certificates: section.require_certificates,
        certified: settings.certificates.iter().map(|(of, ..)| of.clone()).collect(),
        begin_ms_max: limits.begin_ms_max,
        idle_s_max: limits.idle_s_max,
        stream_bytes_per_s: limits.stream_bytes_per_s,
        acknowledged_ms_max: limits.acknowledged_ms_max,
    }
}

/// The process's limits for streams of other domains.
fn net_limits(limits: &FederationLimits, of_process: Limits) -> Limits {
    Limits {
        connections_max: limits.streams_max,
        bind_ms_max: limits.begin_ms_max,
        // The features of some servers are long.
        frame_bytes_unbound_max: of_process.frame_bytes_unbound_max.max(16 * 1024),
        ..of_process
    }
}

/// The resolver's client of this shard: answers come by mail.
fn asker(names: &Resolver, way: WayOut) -> names::NameAsker {
    names.asker(Arc::new(move |ticket, answer| {
        // Without room the look-up has no answer in time, which the dialler knows how to take.
        let _ = way.post(FederationMail::Names(ticket, answer));
    }))
}

/// Resolver that is never asked, as no server is called.
struct NoNames;

impl NameResolver for NoNames {
    fn ask(&mut self, _: u64, _: NameQuestion) {}
}

fn failed(error: std::io::Error) -> String {
    format!("federation: cannot start its thread: {error}")
}

impl Federation {
    /// Stops it; each stream is ended.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        while !self.way.post(FederationMail::Stop) && !thread.is_finished() {
            std::thread::yield_now();
        }
        // One that broke off has said so in the log.
        let _ = thread.join();
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        self.stop();
    }
}
