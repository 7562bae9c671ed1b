//! A shard over real sockets, with a machine whose shard messages are orders.

use super::*;
use crate::epoll::Epoll;
use crate::layer::ListenEndpoint;
use crate::layer::handing::{HandedPaths, HandedStream, StreamTaker};
use crate::listen;
use crate::logic::{ConnectionOrigin, DialAddress};
use crate::mailbox::Mailbox;
use crate::tcp::TcpFacts;
use crate::transport::{Accepted, Got};
use model::limits::TopicLimits;
use model::link::{Link, Protocol, WireProfile};
use model::machine::Input;
use model::ports::bans::BanAct;
use std::convert::Infallible;
use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Bytes that the machine sends on the order to send much: more than sockets take at once.
const MUCH: usize = 8 * 1024 * 1024;

/// Bytes that may wait before a machine drops what it may drop: not the default.
const BACKLOG_MAX: u32 = 77_777;

/// Takes shard messages: `a` has it answered, by much, `h` holds, `s` agrees on a silence and `l`
/// on a long one, `d` wants to know when all is written, `m`
/// sends much, `e` echoes, `c` counts, `p` counts packets, `x` tells how much may wait; a number of
/// `.` is one frame that ends with `!`.
#[derive(Default)]
struct TestMessages {
    _room: u64,
    dropped: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Said {
    Opened(SocketAddr),
    Took(u8),
    Frame(usize),
    Backlog(usize),
    BacklogMax(usize),
    Drained,
    Silent,
}

impl Machine for TestMessages {
    type Up = Said;
    type Down = bool;

    fn opened(&mut self, _: Now, link: &Link, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        out.say(Said::Opened(link.peer));
        Ok(())
    }

    fn receive(
        &mut self,
        _: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Said>,
    ) -> Result<(), CloseReason> {
        while let Some(&shard_message) = input.rest().first() {
            match shard_message {
                b'.' => match input.rest().iter().position(|&byte| byte == b'!') {
                    Some(at) => out.say(Said::Frame(input.take(at + 1).len())),
                    None => return Ok(()),
                },
                shard_message => {
                    input.take(1);
                    out.say(Said::Took(shard_message));
                    match shard_message {
                        b'h' => {
                            out.hold(true);
                            return Ok(());
                        }
                        b's' => out.silence(5_000),
                        b'l' => out.silence(1_000_000_000),
                        b'a' => {} // whoever hears of it answers
                        b'd' => out.tell_drained(),
                        b'm' => {
                            out.bytes().resize(MUCH, b'x');
                            return Ok(());
                        }
                        b'b' => out.say(Said::Backlog(out.backlog())),
                        b'c' => out.count(ProcessCounter::PacketsIn),
                        b'p' => out.packets(3, 2),
                        b'x' => out.say(Said::BacklogMax(out.backlog_max())),
                        other => out.bytes().push(other),
                    }
                }
            }
        }
        Ok(())
    }

    fn command(&mut self, _: Now, frees: bool, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        match frees {
            true => out.hold(false),
            false => out.bytes().resize(MUCH, b'x'),
        }
        Ok(())
    }

    fn wake(&mut self, _: Now, _: &mut Outbox<Said>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn drained(&mut self, _: Now, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        out.say(Said::Drained);
        Ok(())
    }

    fn silent(&mut self, _: Now, out: &mut Outbox<Said>) -> Result<(), CloseReason> {
        out.say(Said::Silent);
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<Said>) {}

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Outbox<Said>) {
        self.dropped = true;
    }
}

/// Notes what machines say.
#[derive(Default)]
struct Notes {
    said: Vec<Said>,
    conn: Option<ConnRef>,
    turned: usize,
    congested: bool,
    /// Bytes that passed, while it wants to see them.
    seen: Vec<String>,
    wants: bool,
    trail: Trail,
    banned: Option<IpAddr>,
    bans_version: u64,
    /// Actions against banned clients.
    acts: Vec<BanAct>,
    asked_again: u64,
}

/// Actions of a turn, in order.
type Trail = Arc<std::sync::Mutex<Vec<&'static str>>>;

impl ShardLogic for Notes {
    type Machine = TestMessages;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &crate::wires::WIRES;

    fn machine(&mut self, _: Now, _: &Link, _: ConnectionOrigin) -> Option<TestMessages> {
        Some(TestMessages::default())
    }

    fn word(&mut self, _: Now, from: ConnRef, word: Said, handle: &mut ShardHandle<Self>) {
        self.conn = Some(from);
        if word == Said::Took(b'a') {
            handle.deliver(from, false);
        }
        self.said.push(word);
    }

    fn lets_in(&mut self, _: Now, peer: IpAddr, act: BanAct) -> bool {
        let is_banned = self.banned == Some(peer);
        self.acts.extend(is_banned.then_some(act));
        !is_banned
    }

    fn bans_version(&self) -> u64 {
        self.bans_version
    }

    fn asked_again(&mut self, version: u64) {
        self.asked_again = version;
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, now: Now, _: &mut ShardHandle<Self>) -> Option<Instant> {
        // Turns go on, so that a test that waits for nothing ends.
        Some(now.after(Duration::from_millis(1)))
    }

    fn tell_shards(&mut self, _: Now, _: &mut ShardHandle<Self>) {
        self.trail.lock().expect("nobody panics").push("tells other shards");
    }

    fn turned(&mut self, _: Now, _: &mut ShardHandle<Self>) {
        self.turned += 1;
    }

    fn congested(&self) -> bool {
        self.congested
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: bool, _: &mut ShardHandle<Self>) {}

    fn tapped(&mut self, _: Now, _: ConnRef, _: &mut TestMessages, tapped: Tapped<'_, Said>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.seen.extend(match tapped {
            Tapped::Opened(_) => Some("opened".into()),
            Tapped::Received(bytes) => Some(format!("in {}", text(bytes))),
            Tapped::Untaken(bytes) => Some(format!("untaken {}", text(bytes))),
            Tapped::Says(outbox) => {
                let mut wire = Vec::new();
                outbox.look_at_wire(|bytes| wire.extend_from_slice(bytes));
                let words = outbox.look_at_words().len();
                Some(format!("says {words} words and {}", text(&wire)))
            }
            Tapped::Ended(reason) => Some(format!("ended {}", reason.name())),
        });
    }

    fn tapped_turn(&mut self) -> bool {
        self.wants
    }
}

type TestMessage = ShardMessageOf<Notes, OwnedFd>;

/// The real network with a clock that can be put forward.
struct Ahead {
    net: Epoll<TestMessage>,
    by: Duration,
    trail: Trail,
}

impl Net for Ahead {
    type Socket = OwnedFd;
    type Message = TestMessage;

    fn now(&mut self) -> Now {
        let now = self.net.now();
        Now::new(now.mono + self.by, now.wall_ms)
    }

    fn mono(&mut self) -> Instant {
        self.net.mono() + self.by
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        self.net.wait(timeout, ready);
    }

    fn accept(&mut self, door: u8) -> Accepted<OwnedFd> {
        self.net.accept(door)
    }

    fn stop_listening(&mut self) {
        self.net.stop_listening();
    }

    fn listen(&mut self, door: u8, sockets: Vec<OwnedFd>) -> std::io::Result<()> {
        self.net.listen(door, sockets)
    }

    fn dial(&mut self, to: &DialAddress, from: Option<IpAddr>) -> Result<OwnedFd, CloseReason> {
        self.net.dial(to, from)
    }

    fn dialled(&mut self, socket: &OwnedFd) -> Result<(), CloseReason> {
        self.net.dialled(socket)
    }

    fn adopt(&mut self, socket: &OwnedFd, token: u64) -> Result<(), CloseReason> {
        self.net.adopt(socket, token)
    }

    fn release(&mut self, socket: &OwnedFd) {
        self.net.release(socket);
    }

    fn give_away(&mut self, socket: OwnedFd) -> Option<OwnedFd> {
        self.net.give_away(socket)
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        self.net.peer(socket)
    }

    fn tcp(&self, socket: &OwnedFd) -> Option<TcpFacts> {
        self.net.tcp(socket)
    }

    fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Got {
        self.trail.lock().expect("nobody panics").push("reads a socket");
        self.net.receive(socket, into)
    }

    fn send(&mut self, socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> Got {
        self.trail.lock().expect("nobody panics").push("writes to a socket");
        self.net.send(socket, pieces)
    }

    fn close(&mut self, socket: OwnedFd, abort: bool) {
        self.net.close(socket, abort);
    }

    fn post(&mut self, to: ShardId, shard_message: TestMessage) -> Result<(), TestMessage> {
        self.net.post(to, shard_message)
    }

    fn wake_posted(&mut self, is_here: &mut dyn FnMut(ShardId) -> bool) {
        self.net.wake_posted(is_here);
    }

    fn shard_messages(&mut self, into: &mut Vec<TestMessage>) {
        self.trail.lock().expect("nobody panics").push("looks into its mailbox");
        self.net.shard_messages(into);
    }
}

struct ShardHarness {
    shard: Shard<Ahead, Notes>,
    at: SocketAddr,
}

/// Turns after which what has not come does not come.
const TURNS_MAX: usize = 50_000;

impl ShardHarness {
    fn new(protocol: Protocol) -> ShardHarness {
        let door = ListenerSetup {
            protocol: Some(protocol),
            paths: vec!["/".to_owned()],
            ..ListenerSetup::plain(
                "test",
                ListenEndpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            )
        };
        ShardHarness::at(door)
    }

    /// With this listener.
    fn at(door: ListenerSetup) -> ShardHarness {
        let mut open =
            listen::open(std::slice::from_ref(&door), 1, 10_000, Vec::new()).expect("port 0");
        let ListenEndpoint::Tcp(at) = open.addresses[0] else { panic!("it has a port") };
        let mailboxes: Arc<[Arc<Mailbox<TestMessage>>]> =
            vec![Mailbox::new(16).expect("an eventfd")].into();
        let net = Epoll::new(ShardId(0), open.shards.remove(0), mailboxes, crate::epoll::began());
        let (by, notes) = (Duration::ZERO, Notes::default());
        let net = Ahead { net: net.expect("a poller"), by, trail: notes.trail.clone() };
        let topics = TopicLimits {
            packet_bytes_max: 512 * 1024,
            qos0_backlog_bytes_max: BACKLOG_MAX,
            ..TopicLimits::default()
        };
        let limits = Limits { out_bytes_max: 16 * 1024 * 1024, topics, ..Limits::default() };
        let settings = Settings {
            shard: ShardId(0),
            shards: 1,
            hash_key: HashKey::new(1, 2),
            limits: Arc::new(limits),
            doors: vec![Arc::new(door)],
            census: Arc::default(),
            seed: 1,
            secrets: [1; 32],
        };
        ShardHarness { shard: Shard::new(settings, net, notes), at }
    }

    /// Turns until `done`, or fails.
    fn until(&mut self, done: impl Fn(&Notes) -> bool) {
        while !done(self.shard.logic()) {
            assert!(self.shard.logic().turned < TURNS_MAX, "{:?}", self.said());
            self.shard.turn();
        }
    }

    fn turns(&mut self, count: usize) {
        let until = self.shard.logic().turned + count;
        self.until(|notes| notes.turned >= until);
    }

    fn said(&self) -> &[Said] {
        &self.shard.logic().said
    }

    fn call(&mut self, first: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.at).expect("it listens");
        client.write_all(first).expect("the socket takes it");
        client
    }

    fn took(&self, shard_message: u8) -> usize {
        self.said().iter().filter(|said| **said == Said::Took(shard_message)).count()
    }

    fn release(&mut self) {
        let conn = self.shard.logic().conn.expect("a machine said something");
        self.shard.handle_mut().deliver(conn, true);
    }
}

/// The first byte is the protocol's; the machine echoes it.
const FIRST: u8 = 0x10;

#[test]
fn a_machine_sees_the_true_peer_when_it_is_opened() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let client = world.call(&[FIRST]);
    world.until(|notes| notes.said.len() >= 2);
    assert_eq!(world.said()[0], Said::Opened(client.local_addr().expect("bound")));
}

#[test]
fn what_passes_is_shown_once_and_in_order_and_only_while_it_is_wanted() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut before = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    assert_eq!(world.shard.logic().seen, [""; 0], "nobody wants to see it");
    world.shard.handle_mut().set_tapping(true);
    world.shard.logic_mut().wants = true;
    let mut client = world.call(&[FIRST, b'e', b'.', b'.']);
    world.until(|notes| notes.seen.len() >= 4);
    client.write_all(b".!").expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Frame(4)));
    client.read_exact(&mut [0; 2]).expect("its echo");
    drop(client);
    world.until(|notes| notes.seen.iter().any(|seen| seen.starts_with("ended")));
    before.write_all(b"1").expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Took(b'1')));
    assert_eq!(
        world.shard.logic().seen,
        [
            "opened",
            "says 1 words and ",
            "in \u{10}e",
            "says 2 words and \u{10}e",
            "in ...!",
            "says 1 words and ",
            "ended peer_closed",
            "in 1",
            "says 1 words and 1",
        ]
    );
    world.shard.logic_mut().wants = false;
    world.turns(2);
    before.write_all(b"2").expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Took(b'2')));
    assert_eq!(world.shard.logic().seen.len(), 9);
}

#[test]
fn what_comes_while_a_connection_is_held_is_shown_when_it_is_released() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut client = world.call(&[FIRST, b'h', b'1', b'2']);
    world.until(|notes| notes.said.contains(&Said::Took(b'h')));
    client.write_all(b"34").expect("the socket takes it");
    client.shutdown(std::net::Shutdown::Write).expect("it was open");
    world.turns(20);
    assert_eq!(world.said().last(), Some(&Said::Took(b'h')), "nothing is shown");
    assert_eq!(world.shard.connections(), 1, "not even its end is looked at");
    world.release();
    world.until(|notes| notes.said.contains(&Said::Took(b'4')));
    let tail = &world.said()[world.said().len() - 4..];
    assert_eq!(tail, [b'1', b'2', b'3', b'4'].map(Said::Took));
    world.until(|notes| notes.turned > 0);
    let mut rest = Vec::new();
    while world.shard.connections() > 0 {
        world.turns(1);
    }
    client.read_to_end(&mut rest).expect("closed in order");
    assert_eq!(rest, [FIRST, b'1', b'2', b'3', b'4']);
}

#[test]
fn silence_by_our_own_will_is_not_held_against_the_peer() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let _client = world.call(&[FIRST, b's', b'h']);
    world.until(|notes| notes.said.contains(&Said::Took(b'h')));
    world.shard.net.by = Duration::from_secs(60);
    world.turns(4);
    world.shard.net.by = Duration::from_secs(120);
    world.turns(4);
    assert_eq!(world.shard.connections(), 1);
    world.release();
    world.turns(4);
    assert_eq!(world.shard.connections(), 1, "its time begins anew");
    world.shard.net.by = Duration::from_secs(180);
    world.until(|notes| notes.said.contains(&Said::Silent));
}

#[test]
fn mail_is_read_before_sockets_and_sent_before_peers_are_answered() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut client = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    client.read_exact(&mut [0]).expect("its echo");
    let trail = world.shard.logic().trail.clone();
    trail.lock().expect("nobody panics").clear();
    client.write_all(b"e").expect("the socket takes it");
    client.set_nonblocking(true).expect("a socket");
    while client.read(&mut [0]).is_err() {
        world.turns(1);
    }
    let mut steps = trail.lock().expect("nobody panics").clone();
    let written = steps.iter().position(|step| *step == "writes to a socket").expect("an answer");
    steps.truncate(written + 1);
    let begin = steps.iter().rposition(|step| *step == "looks into its mailbox").expect("a turn");
    steps.drain(..begin);
    steps.dedup();
    let all = ["looks into its mailbox", "reads a socket", "tells other shards"];
    assert_eq!(steps, [&all[..], &["writes to a socket"]].concat());
}

#[test]
fn a_machine_is_told_once_when_all_is_written() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut client = world.call(&[FIRST, b'm', b'd', b'b']);
    world.until(|notes| notes.said.iter().any(|said| matches!(said, Said::Backlog(_))));
    world.turns(10);
    let waits = world.said().iter().any(|said| matches!(said, Said::Backlog(1..)));
    assert!(waits && !world.said().contains(&Said::Drained), "the socket is full");
    let mut left = MUCH;
    let mut buffer = vec![0; 1 << 20];
    client.set_nonblocking(true).expect("a socket");
    while left > 0 {
        left -= client.read(&mut buffer).unwrap_or(0);
        world.turns(1);
    }
    world.until(|notes| notes.said.contains(&Said::Drained));
    world.turns(5);
    let told = world.said().iter().filter(|said| **said == Said::Drained).count();
    assert_eq!(told, 1);
    // At once, when nothing waits.
    client.write_all(b"d").expect("the socket takes it");
    world.until(|notes| notes.said.iter().filter(|said| **said == Said::Drained).count() == 2);
}

#[test]
fn what_is_said_before_a_machine_is_told_that_all_is_written_is_written_first() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    // Nothing waits when it asks, and much when it would be told.
    let mut client = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    client.read_exact(&mut [0]).expect("its echo");
    client.write_all(b"da").expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Took(b'a')));
    world.turns(10);
    assert!(!world.said().contains(&Said::Drained), "the socket is full");
    let mut left = MUCH;
    let mut buffer = vec![0; 1 << 20];
    client.set_nonblocking(true).expect("a socket");
    while left > 0 {
        left -= client.read(&mut buffer).unwrap_or(0);
        world.turns(1);
    }
    world.until(|notes| notes.said.contains(&Said::Drained));
}

#[test]
fn packets_are_bounded_by_their_own_protocol() {
    let frame = |bytes: usize| [vec![b'.'; bytes - 1], vec![b'!']].concat();
    let large = 400 * 1024;
    for (first, protocol, bound) in
        [(0x10, Protocol::Mqtt, true), (0x10, Protocol::Mqtt, false), (0, Protocol::Miop, true)]
    {
        let mut world = ShardHarness::new(protocol);
        let mut client = world.call(&[first]);
        if bound {
            client.write_all(b"s").expect("the socket takes it");
        }
        client.set_nonblocking(true).expect("a socket");
        let (bytes, mut sent) = (frame(large), 0);
        while sent < large && world.shard.connections() > 0 || world.said().is_empty() {
            sent += client.write(&bytes[sent..]).unwrap_or(0);
            world.turns(1);
        }
        if bound && protocol == Protocol::Mqtt {
            world.until(|notes| notes.said.contains(&Said::Frame(large)));
        } else {
            let ended = |world: &ShardHarness| {
                world.shard.handle().counters.closed_of(CloseReason::TooLarge)
            };
            while ended(&world) == 0 {
                world.turns(1);
            }
        }
    }
}

#[test]
fn what_machines_count_is_counted() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let _client = world.call(&[FIRST, b'c', b'c']);
    world.until(|notes| notes.said.len() >= 4);
    assert_eq!(world.shard.handle().counters.of(ProcessCounter::PacketsIn), 2);
}

#[test]
fn packets_are_counted_and_a_machine_knows_how_much_may_wait() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let _client = world.call(&[FIRST, b'p', b'x']);
    world.until(|notes| notes.said.len() >= 4);
    let counters = &world.shard.handle().counters;
    assert_eq!(
        (counters.of(ProcessCounter::PacketsIn), counters.of(ProcessCounter::PacketsOut)),
        (3, 2)
    );
    assert!(world.said().contains(&Said::BacklogMax(BACKLOG_MAX as usize)));
}

#[test]
fn a_congested_logic_lets_nobody_say_more() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut client = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    world.shard.logic_mut().congested = true;
    client.write_all(b"1").expect("the socket takes it");
    world.turns(20);
    assert_eq!(world.took(b'1'), 0);
    world.shard.logic_mut().congested = false;
    world.until(|notes| notes.said.contains(&Said::Took(b'1')));
}

/// Bytes of a ping with as long a payload as one may have.
const PING: usize = 6 + 125;

/// Such pings.
fn pings(count: usize) -> Vec<u8> {
    let one = [&[0x89, 0xfd, 0, 0, 0, 0][..], &[b'p'; 125]].concat();
    one.repeat(count)
}

#[test]
fn who_pings_in_a_web_socket_and_does_not_read_is_owed_one_pong() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let target = crate::layer::websocket::UpgradeTarget::open("h", "/", &crate::wires::WIRES[1]);
    let request = target.request();
    let mut client = world.call(request.as_bytes());
    let mut head = [0; 4_096];
    world.turns(20);
    let length = client.read(&mut head).expect("an answer");
    assert!(head[..length].starts_with(b"HTTP/1.1 101"));
    client.set_nonblocking(true).expect("a socket");
    let (bytes, mut sent) = (pings(1_000), 0);
    // More pongs than all buffers between the two hold.
    while sent < 24 * 1024 * 1024 || sent % PING != 0 {
        sent += client.write(&bytes[sent % bytes.len()..]).unwrap_or(0);
        world.turns(1);
        let waiting = world.shard.waiting_bytes();
        assert!(waiting <= 64 * 1024, "{waiting} bytes of pongs wait");
    }
    assert_eq!(world.shard.connections(), 1, "it did nothing wrong");
    // When it reads, the newest is answered at last.
    client.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'!']).unwrap_or_default();
    let (mut buffer, mut tail) = (vec![0; 1 << 20], Vec::new());
    let mut quiet = 0;
    while quiet < 100 && !tail.ends_with(&[0x8a, 1, b'!']) {
        match client.read(&mut buffer) {
            Ok(count) => {
                let from = count.saturating_sub(16);
                tail.extend_from_slice(&buffer[from..count]);
            }
            Err(_) => quiet += 1,
        }
        world.turns(1);
    }
    assert!(tail.ends_with(&[0x8a, 1, b'!']), "the newest is answered last");
}

/// A world whose limits are others.
fn world_with(protocol: Protocol, change: impl FnOnce(&mut Limits)) -> ShardHarness {
    let mut world = ShardHarness::new(protocol);
    let mut limits = (*world.shard.settings.limits).clone();
    change(&mut limits);
    world.shard.settings.limits = Arc::new(limits);
    world
}

impl ShardHarness {
    fn closed(&self, reason: CloseReason) -> u64 {
        self.shard.handle().counters.closed_of(reason)
    }

    fn held(&self) -> u64 {
        let bytes = self.shard.settings.census.partial_bytes();
        assert_eq!(bytes, self.shard.partial_bytes, "it is the only shard");
        bytes
    }

    /// Somebody who agreed on a silence and sent so much of a frame.
    fn part(&mut self, bytes: usize) -> TcpStream {
        let mut client = self.call(&[FIRST, b'l']);
        let took = self.took(b'l');
        self.until(|notes| {
            notes.said.iter().filter(|said| **said == Said::Took(b'l')).count() > took
        });
        let before = self.held();
        client.write_all(&vec![b'.'; bytes]).expect("the socket takes it");
        while self.held() < before + bytes as u64 && self.closed(CloseReason::PartialFull) == 0 {
            self.turns(1);
        }
        client
    }
}

#[test]
fn frames_in_pieces_are_counted_until_they_are_whole_or_gone() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut whole = world.part(20_000);
    let gone = world.part(10_000);
    assert!((30_000..70_000).contains(&world.held()), "{}", world.held());
    whole.write_all(b"!").expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Frame(20_001)));
    assert!((10_000..25_000).contains(&world.held()), "{}", world.held());
    drop(gone);
    while world.shard.connections() > 1 {
        world.turns(1);
    }
    assert_eq!(world.held(), 0);
}

#[test]
fn a_frame_that_does_not_go_on_ends_and_one_that_does_may_be_slow() {
    let mut world = world_with(Protocol::Mqtt, |limits| limits.frame_ms_max = 20_000);
    let _stuck = world.part(10);
    let mut slow = world.part(10);
    for step in 1..8 {
        world.shard.net.by = Duration::from_secs(10 * step);
        slow.write_all(&[b'.'; 4_096]).expect("the socket takes it");
        let so_far = world.held();
        while world.held() == so_far && world.shard.connections() == 2 {
            world.turns(1);
        }
        // A whole pass of the sweep.
        for part in 1..=20 {
            world.shard.net.by = Duration::from_millis(10_000 * step + 250 * part);
            world.turns(2);
        }
    }
    assert_eq!(world.closed(CloseReason::FrameTimeout), 1);
    assert_eq!(world.shard.connections(), 1, "the slow one is there");
    // Nothing but silence is wrong with one that has no frame begun; that is the machine's matter.
    slow.write_all(b"!").expect("the socket takes it");
    world.until(|notes| notes.said.iter().any(|said| matches!(said, Said::Frame(_))));
    assert_eq!(world.held(), 0);
}

#[test]
fn beyond_the_bound_those_end_that_hold_much_for_long() {
    let mut world = world_with(Protocol::Mqtt, |limits| {
        limits.partial_bytes_max = 1;
        limits.topics.packet_bytes_max = 200_000;
    });
    let most = world.shard.settings.limits.partial_max();
    assert_eq!(most, 400_000);
    let _old = world.part(100_000);
    world.shard.net.by = Duration::from_secs(9);
    world.turns(2);
    let mut young: Vec<TcpStream> = Vec::new();
    while world.closed(CloseReason::PartialFull) == 0 {
        young.push(world.part(100_000));
        assert!(world.held() <= most && young.len() < 10);
    }
    assert_eq!(world.closed(CloseReason::PartialFull), 1, "the oldest was enough");
    for client in &mut young {
        client.write_all(b"!").expect("the socket takes it");
    }
    let count = young.len();
    world.until(|notes| {
        notes.said.iter().filter(|said| matches!(said, Said::Frame(_))).count() == count
    });
    assert_eq!(world.held(), 0);
}

#[test]
fn one_source_has_a_part_of_the_connections_and_this_machine_is_none() {
    let mut world = world_with(Protocol::Mqtt, |limits| {
        limits.connections_a_source_max = 2;
        limits.crowd_max = 1;
    });
    let near: Vec<TcpStream> = (0..6).map(|_| world.call(&[FIRST])).collect();
    world.until(|notes| notes.said.len() >= 12);
    assert_eq!(world.shard.handle().counters.of(ProcessCounter::SourceFull), 0);
    drop(near);
    // Behind a proxy the address counts that it tells.
    let mut door = (*world.shard.settings.doors[0]).clone();
    (door.proxy, door.proxies) = (true, vec!["127.0.0.1".parse().expect("one")]);
    world.shard.settings.doors = vec![Arc::new(door)];
    while world.shard.connections() > 0 {
        world.turns(1);
    }
    let come = |address: &str| format!("PROXY TCP4 {address} 10.0.0.1 1 1\r\n\u{10}").into_bytes();
    let mut clients: Vec<TcpStream> = Vec::new();
    for (number, address) in ["10.1.1.1", "10.1.1.1", "127.0.0.1", "10.1.1.1"].iter().enumerate() {
        clients.push(world.call(&come(address)));
        world.until(|notes| {
            notes.said.iter().filter(|said| matches!(said, Said::Opened(_))).count() == 7 + number
        });
    }
    assert_eq!(world.shard.handle().counters.of(ProcessCounter::SourceFull), 1);
    clients.push(world.call(&come("10.1.1.1")));
    while world.closed(CloseReason::Full) == 0 {
        world.turns(1);
    }
    assert_eq!(world.shard.connections(), 4);
    // One that goes makes room.
    drop(clients.remove(0));
    while world.shard.connections() > 3 {
        world.turns(1);
    }
    clients.push(world.call(&come("10.1.1.2")));
    world.until(|notes| {
        notes.said.iter().filter(|said| matches!(said, Said::Opened(_))).count() == 11
    });
    assert_eq!(world.shard.handle().counters.of(ProcessCounter::SourceFull), 2);
}

/// Takes as many connections as it has room for.
#[derive(Default)]
struct Taker {
    room: std::sync::atomic::AtomicUsize,
    taken: std::sync::Mutex<Vec<HandedStream>>,
}

impl StreamTaker for Taker {
    fn has_room(&self, _: SocketAddr) -> bool {
        self.room.load(std::sync::atomic::Ordering::Relaxed) > 0
    }

    fn take(&self, stream: HandedStream) -> bool {
        self.room.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.taken.lock().expect("nobody failed").push(stream);
        true
    }
}

#[test]
fn who_asks_for_what_others_answer_is_handed_over_and_keeps_its_place_until_it_is_let_go() {
    let taker = Arc::new(Taker::default());
    taker.room.store(1, std::sync::atomic::Ordering::Relaxed);
    let at = ListenEndpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let handed = HandedPaths { prefix: "/media/".into(), taker: taker.clone() };
    let mut world = ShardHarness::at(ListenerSetup {
        paths: vec!["/".to_owned()],
        handed: vec![handed],
        ..ListenerSetup::plain("test", at)
    });
    let said = b"PUT /media/x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhel";
    let mut client = world.call(&said[..20]);
    world.turns(3);
    assert_eq!(world.shard.connections(), 1, "its head is not whole");
    client.write_all(&said[20..]).expect("the socket takes it");
    while taker.taken.lock().expect("nobody failed").is_empty() {
        world.turns(1);
    }
    assert_eq!(world.shard.connections(), 0);
    let census = world.shard.settings.census.clone();
    let door = world.shard.settings.doors[0].open.clone();
    assert_eq!((census.open(), door.open()), (1, 1), "it is one of all connections");
    let stream = taker.taken.lock().expect("nobody failed").pop().expect("it is there");
    assert_eq!((&*stream.said, stream.tls.is_some(), &*stream.unsent), (&said[..], false, &[][..]));
    assert_eq!(stream.peer, client.local_addr().expect("bound"));
    let mut socket = TcpStream::from(stream.socket);
    client.write_all(b"lo").expect("the socket takes it");
    let mut more = [0; 2];
    socket.set_nonblocking(false).expect("it can");
    socket.read_exact(&mut more).expect("it is connected");
    socket.write_all(b"done").expect("the socket takes it");
    drop((socket, stream.place));
    let mut heard = String::new();
    client.read_to_string(&mut heard).expect("it ends");
    assert_eq!((&more, &*heard), (b"lo", "done"));
    assert_eq!((census.open(), door.open()), (0, 0));
    assert_eq!(world.shard.handle().counters.closed_of(CloseReason::HandedOver), 1);
    // For one more there is no room, and it is told so.
    let mut client = world.call(b"GET /media/x HTTP/1.1\r\n\r\n");
    while world.shard.handle().counters.closed_of(CloseReason::Busy) == 0 {
        world.turns(1);
    }
    client.read_to_string(&mut heard).expect("it ends");
    assert!(heard.starts_with("doneHTTP/1.1 503 "), "{heard}");
    assert_eq!((census.open(), door.open()), (0, 0));
}

#[test]
fn an_address_that_is_banned_is_refused_before_a_byte_and_ended_when_the_ban_comes_later() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let mut before = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    let logic = world.shard.logic_mut();
    (logic.banned, logic.bans_version) = (Some(IpAddr::from([127, 0, 0, 1])), 7);
    world.until(|notes| notes.asked_again == 7);
    while world.closed(CloseReason::Banned) < 1 {
        world.turns(1);
    }
    assert_eq!(world.shard.connections(), 0);
    let read = before.read(&mut [0; 2]);
    assert!(matches!(read, Ok(0 | 1)), "it ends: {read:?}");
    let said = world.said().len();
    let _after = world.call(&[FIRST]);
    while world.closed(CloseReason::Banned) < 2 {
        world.turns(1);
    }
    assert_eq!(world.said().len(), said, "no machine saw it");
    assert_eq!(world.shard.logic().acts, [BanAct::Ends, BanAct::Refuses]);
    assert_eq!((world.shard.connections(), world.shard.settings.census.open()), (0, 0));
}

#[test]
fn behind_a_proxy_the_address_in_the_header_is_judged_before_anything_else_is_read() {
    let at = ListenEndpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut world = ShardHarness::at(ListenerSetup {
        protocol: Some(Protocol::Mqtt),
        proxy: true,
        proxies: vec!["127.0.0.1".parse().expect("one")],
        ..ListenerSetup::plain("test", at)
    });
    let logic = world.shard.logic_mut();
    (logic.banned, logic.bans_version) = (Some(IpAddr::from([10, 1, 1, 1])), 1);
    let come = |address: &str| format!("PROXY TCP4 {address} 10.0.0.1 1 1\r\n\u{10}").into_bytes();
    let _good = world.call(&come("10.1.1.2"));
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    let said = world.said().len();
    let _banned = world.call(&come("10.1.1.1"));
    while world.closed(CloseReason::Banned) == 0 {
        world.turns(1);
    }
    assert_eq!((world.said().len(), world.shard.connections()), (said, 1));
    assert_eq!(world.shard.logic().acts, [BanAct::Refuses], "the walk leaves proxies alone");
}

#[test]
fn limits_that_change_hold_from_the_next_turn_on() {
    let mut world = world_with(Protocol::Mqtt, |limits| {
        (limits.connections_max, limits.crowd_max) = (2, 0);
    });
    let limits = (*world.shard.settings.limits).clone();
    let _first = world.part(10);
    let smaller = Limits { connections_max: 1, crowd_max: 0, ..limits.clone() };
    world.shard.handle_mut().set_limits(Arc::new(smaller));
    world.turns(2);
    let _refused = world.call(&[FIRST, b'l']);
    while world.closed(CloseReason::Full) == 0 {
        world.turns(1);
    }
    let larger = Limits { connections_max: 3, crowd_max: 0, ..limits };
    world.shard.handle_mut().set_limits(Arc::new(larger));
    world.turns(2);
    let _second = world.part(10);
    assert_eq!((world.shard.connections(), world.closed(CloseReason::Full)), (2, 1));
}

#[test]
fn an_evacuated_shard_goes_on_and_one_that_is_told_to_stay_keeps_who_is_left() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let _first = world.part(10);
    world.shard.handle_mut().evacuate(1);
    while world.shard.connections() > 0 {
        world.turns(1);
    }
    assert_eq!((world.closed(CloseReason::Draining), world.shard.is_stopped()), (1, false));
    let _second = world.part(10);
    world.shard.handle_mut().evacuate(86_400_000);
    world.turns(2);
    world.shard.handle_mut().stay();
    world.turns(2);
    assert_eq!((world.shard.connections(), world.shard.next_drain()), (1, None));
    world.shard.handle_mut().evacuate(86_400_000);
    world.turns(2);
    world.shard.handle_mut().drain(1);
    while world.shard.turn() {}
    assert_eq!(world.closed(CloseReason::Draining), 2, "a stop ends an evacuation");
}

/// Orders a change of this listener, and returns a receiver that is disconnected once the change is
/// carried out.
fn change(
    world: &mut ShardHarness,
    door: u8,
    setup: ListenerSetup,
    sockets: Option<Vec<OwnedFd>>,
) -> Receiver<Infallible> {
    let (done, is_done) = sync_channel(0);
    let setup = Arc::new(setup);
    world.shard.handle_mut().change_listener(ListenerChange { door, setup, sockets, done });
    is_done
}

fn until_done(world: &mut ShardHarness, is_done: &Receiver<Infallible>) {
    while is_done.try_recv() != Err(TryRecvError::Disconnected) {
        world.turns(1);
    }
}

#[test]
fn a_listener_opens_and_one_that_closes_accepts_its_queue_first_and_keeps_its_connections() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let first = (*world.shard.settings.doors[0]).clone();
    let second = ListenerSetup { name: "second".into(), open: Arc::default(), ..first.clone() };
    let mut opened = listen::open_one(&second, (1, 10_000), false).expect("port 0");
    let ListenEndpoint::Tcp(at) = opened.address else { panic!("it has a port") };
    let is_done = change(&mut world, 1, second, Some(opened.shards.remove(0)));
    drop(opened);
    until_done(&mut world, &is_done);
    let mut client = TcpStream::connect(at).expect("it listens");
    client.write_all(&[FIRST]).expect("the socket takes it");
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    assert_eq!(world.shard.settings.doors[1].open.open(), 1);
    // More than one turn accepts.
    let count = world.shard.settings.limits.accepts_per_turn as usize + 9;
    let clients: Vec<_> = (0..count).map(|_| world.call(&[FIRST])).collect();
    let is_done = change(&mut world, 0, first.clone(), Some(Vec::new()));
    until_done(&mut world, &is_done);
    assert_eq!(first.open.open() as usize, count, "nobody who waited is reset");
    assert!(TcpStream::connect(world.at).is_err(), "nobody listens there");
    assert!(TcpStream::connect(at).is_ok());
    while world.took(FIRST) < count + 1 {
        world.turns(1);
    }
    drop((clients, client));
    while first.open.open() > 0 || world.shard.settings.doors[1].open.open() > 0 {
        world.turns(1);
    }
}

#[test]
fn a_listener_that_changes_keeps_its_socket_and_its_connections_and_counts_on() {
    let mut world = world_with(Protocol::Mqtt, |limits| limits.crowd_max = 0);
    let setup = (*world.shard.settings.doors[0]).clone();
    let mut client = world.call(&[FIRST]);
    world.until(|notes| notes.said.contains(&Said::Took(FIRST)));
    let one = ListenerSetup { connections_max: 1, ..setup };
    let is_done = change(&mut world, 0, one, None);
    until_done(&mut world, &is_done);
    let _refused = world.call(&[FIRST]);
    while world.closed(CloseReason::Full) == 0 {
        world.turns(1);
    }
    client.write_all(b"1").expect("it is connected");
    world.until(|notes| notes.said.contains(&Said::Took(b'1')));
}

#[test]
fn a_shard_that_stops_opens_no_listener() {
    let mut world = ShardHarness::new(Protocol::Mqtt);
    let _client = world.part(10);
    let setup = (*world.shard.settings.doors[0]).clone();
    let mut opened = listen::open_one(&setup, (1, 10_000), false).expect("port 0");
    let ListenEndpoint::Tcp(at) = opened.address else { panic!("it has a port") };
    world.shard.handle_mut().drain(86_400_000);
    world.turns(2);
    let is_done = change(&mut world, 1, setup, Some(opened.shards.remove(0)));
    drop(opened);
    until_done(&mut world, &is_done);
    assert!(TcpStream::connect(at).is_err());
}
