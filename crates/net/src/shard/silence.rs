//! Keep-alive, and the time to come in, over a network without sockets, whose clock goes as far as
//! the shard waits.

use super::*;
use crate::layer::ListenEndpoint;
use crate::logic::{ConnectionOrigin, DialAddress};
use crate::transport::{Accepted, Got};
use model::link::{Link, Protocol, WireProfile};
use model::machine::Input;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

const SECOND: u64 = 1_000_000_000;

/// Agrees on the silence that its peer asks for, milliseconds in four bytes behind the first one,
/// and on a new one each time it hears four more; a single byte is a heartbeat.
#[derive(Default)]
struct Quiet {
    _room: (u64, bool),
}

impl Machine for Quiet {
    type Up = ();
    type Down = ();

    fn opened(&mut self, _: Now, _: &Link, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn receive(
        &mut self,
        _: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<()>,
    ) -> Result<(), CloseReason> {
        let bytes = input.take(input.rest().len());
        if let [.., a, b, c, d] = bytes {
            out.silence(u32::from_be_bytes([*a, *b, *c, *d]));
        }
        Ok(())
    }

    fn command(&mut self, _: Now, (): (), _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn wake(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<()>) {}

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Outbox<()>) {}
}

#[derive(Default)]
struct Nobody {
    congested: bool,
}

impl ShardLogic for Nobody {
    type Machine = Quiet;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &crate::wires::WIRES;

    fn machine(&mut self, _: Now, _: &Link, _: ConnectionOrigin) -> Option<Quiet> {
        Some(Quiet::default())
    }

    fn word(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, _: Now, _: &mut ShardHandle<Self>) -> Option<Instant> {
        None
    }

    fn congested(&self) -> bool {
        self.congested
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}
}

/// Script of the clients: when each one sends (nanoseconds), its number, and the bytes. The first
/// entry of a client is its call.
type Script = BTreeSet<(u64, u32, Vec<u8>)>;

#[derive(Default)]
struct Told {
    now: u64,
    script: Script,
    tokens: BTreeMap<u32, u64>,
    /// Clients whose bytes are in their sockets, while the shard has no event for them: it is busy
    /// with others.
    untold: BTreeSet<u32>,
    calls: VecDeque<u32>,
    inbox: BTreeMap<u32, Vec<u8>>,
    /// Socket, when it was heard last, when it was closed.
    last: BTreeMap<u32, u64>,
    closed: BTreeMap<u32, u64>,
    waits: u64,
    /// How far the turns of another shard are ahead, milliseconds, that sends connections until
    /// then, one at a time.
    ahead: Option<(u32, u64)>,
    moved: u32,
    moved_at: u64,
    /// Whether the mailbox has one.
    has_mail: bool,
}

impl Net for Told {
    type Socket = u32;
    type Message = ShardMessageOf<Nobody, u32>;

    fn now(&mut self) -> Now {
        Now::new(Instant::from_nanos(self.now), 0)
    }

    fn mono(&mut self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        self.waits += 1;
        let next = self.script.first().map(|(at, ..)| *at);
        let until = timeout.map(|timeout| self.now + timeout.as_nanos() as u64);
        let until = until.into_iter().chain(next).min().expect("somebody has something to do");
        self.now = self.now.max(until);
        if self.ahead.is_some() && self.now > self.moved_at {
            self.moved_at = self.now;
            self.has_mail = true;
            ready.push(ReadyEvent::Mailbox);
        }
        while let Some((at, who, bytes)) = self.script.pop_first() {
            if at > self.now {
                self.script.insert((at, who, bytes));
                break;
            }
            self.last.insert(who, at);
            self.inbox.entry(who).or_default().extend(bytes);
            match self.tokens.get(&who) {
                Some(_) if self.untold.contains(&who) => {}
                Some(&token) => ready.push(ReadyEvent::Socket {
                    token,
                    readable: true,
                    writable: false,
                    ended: false,
                }),
                None if self.calls.contains(&who) => {}
                None => {
                    self.calls.push_back(who);
                    ready.push(ReadyEvent::Door(0));
                }
            }
        }
    }

    fn accept(&mut self, _: u8) -> Accepted<u32> {
        match self.calls.pop_front() {
            Some(who) => Accepted::Socket(who, SocketAddr::from(([127, 0, 0, 1], 9))),
            None => Accepted::Nobody,
        }
    }

    fn stop_listening(&mut self) {}

    fn dial(&mut self, _: &DialAddress, _: Option<IpAddr>) -> Result<u32, CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn dialled(&mut self, _: &u32) -> Result<(), CloseReason> {
        Ok(())
    }

    fn adopt(&mut self, socket: &u32, token: u64) -> Result<(), CloseReason> {
        self.tokens.insert(*socket, token);
        // What it has said by now is read in the next round.
        self.script.insert((self.now, *socket, Vec::new()));
        Ok(())
    }

    fn release(&mut self, _: &u32) {}

    fn receive(&mut self, socket: &u32, into: &mut [u8]) -> Got {
        match self.inbox.remove(socket).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => {
                into[..bytes.len()].copy_from_slice(&bytes);
                Got::Bytes(bytes.len())
            }
            None => Got::Later,
        }
    }

    fn send(&mut self, _: &u32, pieces: &[IoSlice<'_>]) -> Got {
        Got::Bytes(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn close(&mut self, socket: u32, _: bool) {
        self.closed.insert(socket, self.now);
        self.tokens.remove(&socket);
    }

    fn post(&mut self, _: ShardId, shard_message: Self::Message) -> Result<(), Self::Message> {
        Err(shard_message)
    }

    fn wake_posted(&mut self, _: &mut dyn FnMut(ShardId) -> bool) {}

    fn shard_messages(&mut self, into: &mut Vec<Self::Message>) {
        if !std::mem::take(&mut self.has_mail) {
            return;
        }
        let Some((ahead_ms, _)) = self.ahead.filter(|(_, until)| self.now < *until) else { return };
        self.moved += 1;
        let heard_ms = (self.now / 1_000_000) as u32 + ahead_ms;
        let flags = Conn::<Told, Nobody>::BOUND;
        let extra = Box::<Extra>::default();
        let mut record = ConnectionRecord::new(1_000 + self.moved, heard_ms, flags, 0, extra);
        (record.machine, record.silence_ms) = (Some(Quiet::default()), 450_000);
        let moved = Moved { record, unread: Vec::new(), bucket: NO_BUCKET, notes: None };
        into.push(ShardMessage::Moved(Box::new(moved)));
    }
}

fn shard(script: Script) -> Shard<Told, Nobody> {
    let door = ListenerSetup {
        protocol: Some(Protocol::Mqtt),
        ..ListenerSetup::plain("test", ListenEndpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))))
    };
    let settings = Settings {
        shard: ShardId(0),
        shards: 1,
        hash_key: HashKey::new(1, 2),
        limits: Arc::default(),
        doors: vec![Arc::new(door)],
        census: Arc::default(),
        seed: 1,
        secrets: [1; 32],
    };
    Shard::new(settings, Told { now: SECOND, script, ..Told::default() }, Nobody::default())
}

/// Its first byte, and the silence of a keep-alive.
fn agrees(keep_alive_s: u16) -> Vec<u8> {
    let ms = u32::from(keep_alive_s) * 1_500;
    [&[0x10][..], &ms.to_be_bytes()].concat()
}

/// Each of these keep-alives at this many phases; the client is heard for a while and then not.
fn script(values: &[u16], phases: u64) -> (Script, Vec<u16>) {
    let (mut script, mut asked) = (Script::new(), Vec::new());
    for &keep_alive_s in values {
        for phase in 0..phases {
            let who = asked.len() as u32;
            // Not in step with any tick.
            let begins = 3 * SECOND + phase * 337_113_337 + u64::from(who) * 1_700_111;
            script.insert((begins, who, agrees(keep_alive_s)));
            let spans = phase % 4;
            for beat in 1..=spans {
                let span = u64::from(keep_alive_s) * SECOND * 10 / 9 + phase * 911_911;
                script.insert((begins + beat * span, who, vec![0]));
            }
            asked.push(keep_alive_s);
        }
    }
    (script, asked)
}

/// Turns until everybody was ended, and looks at when.
fn all_end_in_time((script, asked): (Script, Vec<u16>)) {
    let mut shard = shard(script);
    while shard.net().closed.len() < asked.len() {
        shard.turn();
    }
    let told = shard.net();
    for (who, &keep_alive_s) in asked.iter().enumerate() {
        let (last, closed) = (told.last[&(who as u32)], told.closed[&(who as u32)]);
        let (silent, keep_alive) = (closed - last, u64::from(keep_alive_s) * SECOND);
        let times = silent as f64 / keep_alive as f64;
        assert!(silent * 2 >= keep_alive * 3, "{keep_alive_s} s: early, {times}");
        assert!(silent * 4 <= keep_alive * 7, "{keep_alive_s} s: late, {times}");
    }
    assert_eq!(shard.connections(), 0);
}

#[test]
fn every_keep_alive_ends_between_one_and_a_half_and_one_and_three_quarters_of_it() {
    let values: Vec<u16> = (1..=60).collect();
    all_end_in_time(script(&values, 40));
}

#[test]
fn so_does_a_long_one() {
    all_end_in_time(script(&[90, 300, 1_800, 43_690, 43_691, 65_535], 8));
}

#[test]
fn nobody_is_late_where_few_become_many() {
    // Of 8,000 some are silent too long at each moment while 1,000 more come.
    for crowd_ms in [36_100, 37_900, 39_999] {
        let few = (0..8_000).map(|who| (3 * SECOND + u64::from(who) * 1_234_567, who, 21));
        let crowd = (8_000..9_000).map(|who| (crowd_ms * SECOND / 1_000, who, 600));
        let all: Vec<(u64, u32, u16)> = few.chain(crowd).collect();
        let script = all.iter().map(|(at, who, it)| (*at, *who, agrees(*it))).collect();
        all_end_in_time((script, all.iter().map(|(.., it)| *it).collect()));
    }
}

#[test]
fn those_who_are_heard_stay_and_cost_one_look_a_period() {
    let mut script = Script::new();
    for who in 0..200 {
        let begins = 3 * SECOND + u64::from(who) * 1_234_567;
        script.insert((begins, who, agrees(1)));
        (1..60).for_each(|beat| _ = script.insert((begins + beat * SECOND, who, vec![0])));
    }
    let mut shard = shard(script);
    while shard.net().now < 60 * SECOND {
        assert!(shard.looks.len() <= 200, "one look waits for each");
        shard.turn();
    }
    assert_eq!(shard.connections(), 200);
}

#[test]
fn nobody_with_an_ordinary_keep_alive_costs_a_timer() {
    let mut shard = shard((0..500).map(|who| (3 * SECOND, who, agrees(30))).collect());
    while shard.net().now < 30 * SECOND {
        shard.turn();
    }
    assert_eq!((shard.connections(), shard.looks.len()), (500, 0));
    let waits = shard.net().waits;
    while shard.net().now < 40 * SECOND {
        shard.turn();
    }
    assert!(shard.net().waits - waits <= 4, "a turn in four seconds while nothing happens");
}

#[test]
fn a_new_agreement_holds_from_the_next_look_on() {
    let mut script = Script::new();
    for (who, (first, second)) in [(600, 2), (2, 600), (10, 2), (0, 2)].into_iter().enumerate() {
        script.insert((3 * SECOND, who as u32, agrees(first)));
        script.insert((4 * SECOND, who as u32, agrees(second)));
    }
    let mut shard = shard(script);
    while shard.net().closed.len() < 3 {
        shard.turn();
    }
    let told = shard.net();
    let silent = |who: &u32| (told.closed[who] - told.last[who]) / 1_000_000;
    assert!(told.closed.keys().all(|&who| who != 1), "600 s is agreed on");
    assert!((3_000..3_500).contains(&silent(&0)) && (3_000..3_500).contains(&silent(&3)));
    assert!((3_000..=3_000 + 4_300).contains(&silent(&2)), "at the sweep, at the latest");
    // Shortened and lengthened as often as it likes, it has one look.
    let mut script: Script =
        (0..100).map(|n| (4 * SECOND + n * SECOND / 100, 0, agrees(1 + n as u16 % 19))).collect();
    script.insert((3 * SECOND, 0, agrees(5)));
    let mut shard = self::shard(script);
    while shard.net().now < 5 * SECOND {
        shard.turn();
        assert!(shard.looks.len() <= 1);
    }
}

/// Turns until it is so late.
fn turn_until(shard: &mut Shard<Told, Nobody>, second: u64) {
    while shard.net().now < second * SECOND {
        shard.turn();
    }
}

#[test]
fn who_spoke_in_time_and_was_not_read_is_read_before_its_time_is_over() {
    // Both are accepted, and nothing more is heard of them: one has said all it has to say.
    let script = [(3 * SECOND, 0, agrees(600)), (3 * SECOND, 1, Vec::new())].into();
    let mut shard = shard(script);
    shard.net_mut().untold = [0, 1].into();
    turn_until(&mut shard, 12);
    assert_eq!((shard.connections(), shard.net().inbox[&0].len()), (2, 5), "it is unread");
    turn_until(&mut shard, 100);
    let told = shard.net();
    assert_eq!(told.closed.keys().collect::<Vec<_>>(), [&1], "nobody heard from that one");
    let opened_s = (told.closed[&1] - 3 * SECOND) / SECOND;
    assert_eq!((opened_s, shard.connections()), (10, 1), "after `bind_ms_max`");
}

#[test]
fn who_is_not_read_because_there_is_too_much_to_do_is_not_late() {
    let mut shard = shard([(3 * SECOND, 0, agrees(600)), (3 * SECOND, 1, Vec::new())].into());
    shard.logic_mut().congested = true;
    turn_until(&mut shard, 20);
    assert_eq!((shard.connections(), shard.net().inbox[&0].len()), (2, 5), "nobody is read");
    shard.logic_mut().congested = false;
    turn_until(&mut shard, 60);
    let told = shard.net();
    assert_eq!((told.closed.len(), shard.connections()), (1, 1), "whoever said nothing is late");
    assert!(told.closed.contains_key(&1) && told.closed[&1] < 21 * SECOND);
}

#[test]
fn a_shard_that_reads_nobody_any_more_keeps_no_newcomer_beyond_twice_its_time() {
    let mut shard = shard([(3 * SECOND, 0, agrees(600)), (3 * SECOND, 1, Vec::new())].into());
    shard.logic_mut().congested = true;
    turn_until(&mut shard, 60);
    let told = shard.net();
    assert_eq!((told.closed.len(), shard.connections()), (2, 0));
    assert!(told.closed.values().all(|at| (23..25).contains(&(at / SECOND))), "{:?}", told.closed);
}

#[test]
fn who_comes_from_a_shard_whose_turn_began_later_is_not_late() {
    let mut script: Script = (1..200).map(|n| (3 * SECOND + n * SECOND / 20, 0, vec![0])).collect();
    script.insert((3 * SECOND, 0, agrees(600)));
    let mut shard = shard(script);
    shard.net_mut().ahead = Some((60, 13 * SECOND));
    turn_until(&mut shard, 14);
    let told = shard.net();
    assert!(told.moved >= 200 && told.closed.is_empty(), "{:?}", told.closed);
}
