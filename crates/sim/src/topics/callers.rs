//! The callers of a world of topics: clients of MQTT whose sessions outlive their connections.
//!
//! Each has one subscription and publishes to a few topics. The client machine that is shipped is
//! kept over connections, session and all. A [`Book`] has the messages that clients sent, were
//! promised and heard. Invariant: a client whose subscription was granted finds its session at
//! every return.

use super::book::Book;
use base::hash::HashKey;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, Protocol, WireProfile};
use model::machine::{Input, Machine, Outbox, Piece, TurnAway};
use model::presence::Principal;
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use net::layer::ClientLayers;
use net::{ConnectionOrigin, Dial, ShardHandle, ShardLogic};
use proto_mqtt::client::{Clean, Client, ClientOrder, Formula, MqttEvent, Profile};
use proto_mqtt::codec::Version;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Behaviour of callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallerMood {
    /// Callers connect and stay until they are subscribed.
    Subscribing,
    /// Callers publish, leave and come back.
    Wild,
    /// Callers connect and stay, and publish nothing.
    Calm,
}

/// How long a caller waits to be let in: an answer may vanish with its link, and who has nothing on
/// its way is never told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Filters of callers, by number.
const FILTERS: [&str; 5] = ["t/#", "t/+/a", "t/1/+", "t/0/b", "$share/g/t/#"];

struct CallerClient {
    client: Arc<Mutex<Client>>,
    filter: &'static str,
    qos: Qos,
    conn: Option<ConnRef>,
    /// Moment at which its connection came.
    since: Instant,
    calling: bool,
    online: bool,
    subscribed: bool,
    next_at: Instant,
    next_token: u32,
}

/// The logic of the callers.
pub struct CallerLogic {
    rng: Prng,
    to: SocketAddr,
    seats: Vec<CallerClient>,
    mood: CallerMood,
    /// Messages sent, promised and heard.
    pub book: Book,
}

impl CallerLogic {
    /// Logic of so many callers of `to`.
    pub fn new(seed: u64, to: SocketAddr, count: u32) -> CallerLogic {
        let mut rng = Prng::new(seed);
        let seats = (0..count).map(|number| seat(&mut rng, number)).collect();
        CallerLogic { rng, to, seats, mood: CallerMood::Subscribing, book: Book::default() }
    }

    /// The name of a caller.
    pub fn who(number: u32) -> Principal {
        Principal::Client(format!("caller-{number}").into())
    }

    /// Changes what they do, at once.
    pub fn set_mood(&mut self, mood: CallerMood) {
        self.mood = mood;
        self.seats.iter_mut().for_each(|seat| seat.next_at = Instant::default());
    }

    /// Whether all are subscribed.
    pub fn all_subscribed(&self) -> bool {
        self.seats.iter().all(|seat| seat.subscribed)
    }

    /// Whether all are there and have nothing on the way.
    pub fn all_settled(&self) -> bool {
        let settled = |seat: &CallerClient| seat.online && lock(&seat.client).under_way() == 0;
        self.seats.iter().all(settled)
    }

    /// Number, filter and QoS of each.
    pub fn subscriptions(&self) -> impl Iterator<Item = (u32, &'static str, Qos)> {
        (0..).zip(&self.seats).map(|(number, seat)| (number, seat.filter, seat.qos))
    }

    /// Describes the callers' states, for a failed test.
    pub fn describe(&self) -> String {
        let lines = self.seats.iter().enumerate().map(|(at, seat)| {
            let (conn, online, under_way) =
                (seat.conn, seat.online, lock(&seat.client).under_way());
            format!("{at}: {conn:?} online {online} under way {under_way}")
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    fn act(&mut self, now: Now, at: usize, handle: &mut ShardHandle<Self>) {
        let pause_ms =
            100 + self.rng.below(if self.mood == CallerMood::Wild { 2_000 } else { 500 });
        let seat = &mut self.seats[at];
        seat.next_at = now.after(Duration::from_millis(pause_ms));
        let Some(conn) = seat.conn else {
            if !seat.calling {
                seat.calling = true;
                let protocol = Protocol::Mqtt;
                let layers = ClientLayers::plain(protocol);
                handle.dial(Dial { to: self.to.into(), from: None, layers, tag: at as u64 });
            }
            return;
        };
        if !seat.online && now.mono - seat.since > PATIENCE {
            handle.close(conn, CloseReason::OwnStop);
        }
        if !seat.online || self.mood != CallerMood::Wild {
            return;
        }
        match self.rng.below(12) {
            0 => handle.close(conn, CloseReason::OwnStop),
            1 => handle.deliver(conn, ClientOrder::Ping),
            _ => (0..1 + self.rng.below(4)).for_each(|_| self.publish(at, conn, handle)),
        }
    }

    fn publish(&mut self, at: usize, conn: ConnRef, handle: &mut ShardHandle<Self>) {
        let topic = format!("t/{}/{}", self.rng.below(3), ["a", "b"][self.rng.below(2) as usize]);
        let qos = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce][self.rng.below(3) as usize];
        let seat = &mut self.seats[at];
        let token = seat.next_token;
        seat.next_token += 1;
        let mut payload = Vec::from((at as u32).to_be_bytes());
        payload.extend(token.to_be_bytes());
        payload.resize(8 + self.rng.below(300) as usize, b'.');
        let mut message = Publication::new(&topic, &[], &payload);
        message.qos = qos;
        self.book.sent((at as u32, token), topic, qos);
        handle.deliver(conn, ClientOrder::Publish { token, message: Arc::new(message) });
    }

    fn heard(&mut self, at: usize, event: MqttEvent, handle: &mut ShardHandle<Self>) {
        let seat = &mut self.seats[at];
        match event {
            MqttEvent::Connected(accepted) => {
                seat.online = true;
                assert!(
                    accepted.session_present || !seat.subscribed,
                    "the session of caller {at} is gone"
                );
                if !seat.subscribed {
                    let wish = SubscriptionOptions {
                        filter: seat.filter.into(),
                        qos: seat.qos,
                        no_local: false,
                        retain_as_published: false,
                        retain_handling: RetainHandling::Send,
                    };
                    let (wishes, properties) = (vec![wish], Default::default());
                    let conn = seat.conn.expect("it is open");
                    handle.deliver(conn, ClientOrder::Subscribe { token: 0, wishes, properties });
                }
            }
            MqttEvent::Subscribed { reasons, .. } => {
                seat.subscribed |= reasons.iter().all(|reason| (*reason as u8) < 0x80);
            }
            MqttEvent::Published { token, result } => {
                let took = result.is_ok_and(|reason| (reason as u8) < 0x80);
                self.book.answered((at as u32, token), took);
            }
            MqttEvent::Message { message, .. } => {
                let word = |from: usize| {
                    let bytes = message.payload()[from..from + 4].try_into();
                    u32::from_be_bytes(bytes.expect("four bytes"))
                };
                let shared = seat.filter.starts_with('$');
                self.book.heard(at as u32, (word(0), word(4)), shared);
            }
            _ => {}
        }
    }

    fn gone(&mut self, now: Now, at: usize) {
        let pause_ms = 50 + self.rng.below(3_000);
        let seat = &mut self.seats[at];
        (seat.conn, seat.calling, seat.online) = (None, false, false);
        seat.next_at = now.after(Duration::from_millis(pause_ms));
    }
}

fn seat(rng: &mut Prng, number: u32) -> CallerClient {
    let version = if rng.one_in(3) { Version::V311 } else { Version::V5 };
    let profile = Profile {
        clean: Clean::Never,
        expiry_s: u32::MAX,
        keep_alive_s: 10 + rng.below(20) as u16,
        beats: true,
        receive_max: 1 + rng.below(20) as u16,
        inflight_max: 1 + rng.below(10) as u16,
        // It counts what came over earlier connections too, which MQTT5 4.9 begins anew.
        bears_more: true,
        ..Profile::new(version, Formula::new("caller-%i"))
    };
    CallerClient {
        client: Arc::new(Mutex::new(Client::new(Arc::new(profile), number))),
        filter: FILTERS[number as usize % FILTERS.len()],
        qos: if rng.one_in(2) { Qos::AtLeastOnce } else { Qos::ExactlyOnce },
        conn: None,
        since: Instant::default(),
        calling: false,
        online: false,
        subscribed: false,
        next_at: Instant::from_nanos(rng.below(2_000_000_000)),
        next_token: 1,
    }
}

impl ShardLogic for CallerLogic {
    type Machine = CallerMachine;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &[proto_mqtt::WIRE];

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<CallerMachine> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        let client = self.seats[tag as usize].client.clone();
        Some(CallerMachine { seat: tag as u32, client })
    }

    fn word(&mut self, now: Now, from: ConnRef, (at, word): Said, handle: &mut ShardHandle<Self>) {
        let at = at as usize;
        match word {
            None => (self.seats[at].conn, self.seats[at].since) = (Some(from), now.mono),
            Some(event) => self.heard(at, event, handle),
        }
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        for at in 0..self.seats.len() {
            if self.seats[at].next_at <= now.mono {
                self.act(now, at, handle);
            }
        }
        self.seats.iter().map(|seat| seat.next_at).min()
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: ClientOrder, _: &mut ShardHandle<Self>) {}

    fn ended(&mut self, now: Now, gone: &CallerMachine, _: CloseReason, _: &mut ShardHandle<Self>) {
        self.gone(now, gone.seat as usize);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, _: CloseReason, _: &mut ShardHandle<Self>) {
        self.gone(now, tag as usize);
    }
}

/// Which caller says it, and what; nothing: its connection is open.
type Said = (u32, Option<MqttEvent>);

/// One connection of a caller: its client, that outlives it.
pub struct CallerMachine {
    seat: u32,
    client: Arc<Mutex<Client>>,
}

impl CallerMachine {
    /// Lets the client act and passes on what it wants, with the caller's number on its words.
    fn pass(
        &mut self,
        out: &mut Outbox<Said>,
        act: impl FnOnce(&mut Client, &mut Outbox<MqttEvent>) -> Result<(), CloseReason>,
    ) -> Result<(), CloseReason> {
        let mut inner = Outbox::new(HashKey::new(0, 0), [0; 32]);
        let result = act(&mut lock(&self.client), &mut inner);
        inner.drain_wire(|piece| match piece {
            Piece::Own(bytes) => out.bytes().extend_from_slice(bytes),
            Piece::Shared(frame) => out.share(frame),
        });
        inner.words().for_each(|event| out.say((self.seat, Some(event))));
        if let Some(at) = inner.take_wake() {
            out.wake(at);
        }
        if let Some(ms) = inner.take_silence() {
            out.silence(ms);
        }
        if inner.take_tell_drained() {
            out.tell_drained();
        }
        result
    }
}

impl Machine for CallerMachine {
    type Up = Said;
    type Down = ClientOrder;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        out.say((self.seat, None));
        self.pass(out, |client, inner| client.opened(now, link, inner))
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Said>,
    ) -> Result<(), CloseReason> {
        self.pass(out, |client, inner| client.receive(now, input, inner))
    }

    fn command(
        &mut self,
        now: Now,
        order: ClientOrder,
        out: &mut Outbox<Said>,
    ) -> Result<(), CloseReason> {
        self.pass(out, |client, inner| client.command(now, order, inner))
    }

    fn wake(&mut self, now: Now, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        self.pass(out, |client, inner| client.wake(now, inner))
    }

    fn drained(&mut self, now: Now, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        self.pass(out, |client, inner| client.drained(now, inner))
    }

    fn silent(&mut self, now: Now, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        self.pass(out, |client, inner| client.silent(now, inner))
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<Said>) {}

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Outbox<Said>) {
        let done = self.pass(out, |client, inner| {
            client.closed(now, reason, inner);
            Ok(())
        });
        debug_assert!(done.is_ok());
    }
}

fn lock(client: &Mutex<Client>) -> std::sync::MutexGuard<'_, Client> {
    crate::virtual_clients::lock(client)
}
