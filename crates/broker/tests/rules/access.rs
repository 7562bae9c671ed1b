//! Access: who may connect, publish and subscribe.

use crate::harness::{BrokerHarness, access, connect, durable, message, will, wish};
use model::close::CloseReason;
use model::id::ShardId;
use model::ports::access::*;
use model::service::ServiceKind;
use model::session::*;
use model::topic::Qos;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Reads and publishes what begins with one of these.
#[derive(Debug)]
struct Prefixes(Vec<String>);

impl Rules for Prefixes {
    fn may(&self, _: &Who<'_>, _: Act, topic: &str) -> bool {
        self.0.iter().any(|prefix| topic.starts_with(prefix))
    }

    fn reach(&self, who: &Who<'_>, filter: &str) -> Reach {
        match filter.find(['+', '#']) {
            None if self.may(who, Act::Read, filter) => Reach::All,
            None => Reach::Nothing,
            Some(_) if self.0.iter().any(|prefix| filter.starts_with(prefix)) => Reach::All,
            Some(at) if self.0.iter().any(|prefix| prefix.starts_with(&filter[..at])) => {
                Reach::Partly
            }
            Some(_) => Reach::Nothing,
        }
    }

    fn encoded(&self) -> Box<[u8]> {
        self.0.join("\n").into_bytes().into()
    }
}

/// The same, as a token brings them.
#[derive(Debug)]
struct Token(Prefixes);

impl Rules for Token {
    fn may(&self, who: &Who<'_>, act: Act, topic: &str) -> bool {
        self.0.may(who, act, topic)
    }

    fn reach(&self, who: &Who<'_>, filter: &str) -> Reach {
        self.0.reach(who, filter)
    }

    fn fixed(&self) -> bool {
        true
    }

    fn encoded(&self) -> Box<[u8]> {
        self.0.encoded()
    }
}

/// An access that the test turns.
#[derive(Default)]
struct Door {
    prefixes: Mutex<Vec<&'static str>>,
    version: AtomicU64,
    until_s: AtomicU32,
    /// Of everybody's account; 0: nobody has one.
    epoch: AtomicU64,
    /// How many accounts were removed: the next under the same name has a higher number.
    removed: AtomicU64,
    /// Versions for which every session was looked at again.
    renewed: Mutex<Vec<u64>>,
}

impl Door {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn grant(&self, user: Option<&str>) -> Grant {
        let prefixes = self.prefixes.lock().expect("nobody panics").clone();
        let rules: Option<Arc<dyn Rules>> = match prefixes.is_empty() {
            true => None,
            false => Some(Arc::new(Prefixes(prefixes.iter().map(ToString::to_string).collect()))),
        };
        let until_s = self.until_s.load(Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let uid = 1 + self.removed.load(Ordering::Relaxed);
        let account = (epoch > 0).then_some(GrantedAccount { uid, epoch });
        Grant { user: user.map(Arc::from), rules, until_s, account, ..Grant::OPEN }
    }
}

struct Key(Arc<Door>);

impl Access for Key {
    fn rules(&self, encoded: &[u8]) -> Option<Arc<dyn Rules>> {
        let text = std::str::from_utf8(encoded).ok().filter(|text| !text.is_empty())?;
        Some(Arc::new(Prefixes(text.lines().map(String::from).collect())))
    }

    fn admit(&self, _: u32, question: &Question) -> Admission {
        let user = question.user.as_deref();
        if let Some((method, data)) = &question.method {
            return match (&**method, &**data, &question.dialogue) {
                ("SCRAM", b"first", _) => {
                    Admission::Continue { data: (*b"nonce").into(), dialogue: (*b"1").into() }
                }
                ("SCRAM", b"proof", Some(dialogue)) if **dialogue == *b"1" => {
                    Admission::Granted(self.0.grant(user), Some((*b"done").into()))
                }
                ("SCRAM", ..) => Admission::Refused(Denial::BadCredentials),
                _ => Admission::Refused(Denial::BadMethod),
            };
        }
        match user {
            Some("bad") => Admission::Refused(Denial::BadCredentials),
            Some("slow") => Admission::Later,
            Some("token") => {
                let rules: Arc<dyn Rules> = Arc::new(Token(Prefixes(vec!["open/".into()])));
                let until_s = self.0.until_s.load(Ordering::Relaxed);
                let (user, rules) = (user.map(Arc::from), Some(rules));
                Admission::Granted(Grant { user, rules, until_s, ..Grant::OPEN }, None)
            }
            _ => Admission::Granted(self.0.grant(user), None),
        }
    }

    fn renew(&self, who: &Who<'_>) -> Option<Grant> {
        Some(Grant { until_s: 0, ..self.0.grant(who.user) }).filter(|_| self.0.version() != 9).map(
            |grant| match self.0.version() {
                2 => Grant { until_s: 1, ..grant },
                _ => grant,
            },
        )
    }

    fn holds(&self, _: &str, account: Option<GrantedAccount>) -> bool {
        let epoch = self.0.epoch.load(Ordering::Relaxed);
        account.is_none_or(|account| account.epoch >= epoch)
    }

    fn is_removed(&self, _: &str, uid: u64) -> bool {
        uid <= self.0.removed.load(Ordering::Relaxed)
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }

    fn renewed(&self, _: (ServiceKind, ShardId), version: u64) {
        self.0.renewed.lock().expect("nobody panics").push(version);
    }
}

fn world(prefixes: &[&'static str]) -> (BrokerHarness, Arc<Door>) {
    let door = Arc::new(Door::default());
    *door.prefixes.lock().expect("nobody panics") = prefixes.to_vec();
    let own = door.clone();
    (BrokerHarness::with(1, move |settings| settings.access = access(Key(own.clone()))), door)
}

fn user(id: &str, name: &str) -> ConnectRequest {
    ConnectRequest { user: Some(name.into()), ..durable(id) }
}

#[test]
fn a_refusal_says_why_and_a_slow_answer_comes_later() {
    let (mut world, _) = world(&[]);
    assert_eq!(world.refused(user("a", "bad")), Denial::BadCredentials);
    let (conn, heard) = world.try_connect(user("b", "slow"));
    assert_eq!(heard, []);
    let (gone, _) = world.try_connect(user("c", "slow"));
    world.ask(gone, SessionRequest::Gone);
    for (shard, number, question) in std::mem::take(&mut world.questions) {
        assert_eq!(question.user.as_deref(), Some("slow"));
        let node = &mut world.nodes[usize::from(shard)];
        let grant = Grant { user: question.user.as_deref().map(Arc::from), ..Grant::OPEN };
        node.broker.admitted(world.now, number, Admission::Granted(grant, None), &mut node.fx);
    }
    world.run();
    assert!(matches!(&world.heard(conn)[..], [SessionDelivery::Connected(_)]));
    assert_eq!(world.heard(gone), []);
    assert_eq!(world.status().sessions, 1);
    world.audit();
}

#[test]
fn an_exchange_goes_step_by_step_and_may_be_repeated() {
    let (mut world, _) = world(&[]);
    let method = |data: &[u8]| Some(("SCRAM".into(), data.into()));
    let begin = ConnectRequest { method: method(b"first"), ..user("a", "ann") };
    let (conn, heard) = world.try_connect(begin.clone());
    let challenge =
        || SessionDelivery::Challenge { method: "SCRAM".into(), data: Box::from(*b"nonce") };
    assert_eq!(heard, [challenge()]);
    let proceed = |data: &[u8], session| {
        let (method, data) = ("SCRAM".into(), data.into());
        SessionRequest::Proceed(Box::new(Proceed { session, method, data }))
    };
    world.ask(conn, proceed(b"proof", None));
    let session = match &world.heard(conn)[..] {
        [SessionDelivery::Connected(connected)] => {
            assert_eq!(connected.method, Some(("SCRAM".into(), Box::from(*b"done"))));
            connected.session
        }
        other => panic!("{other:?}"),
    };
    world.ask(conn, proceed(b"first", Some(session)));
    assert_eq!(world.heard(conn), [challenge()]);
    world.ask(conn, proceed(b"proof", None));
    assert!(matches!(&world.heard(conn)[..], [SessionDelivery::Authenticated { .. }]));
    world.ask(conn, proceed(b"wrong", Some(session)));
    match &world.heard(conn)[..] {
        [SessionDelivery::End(denied)] => assert_eq!(denied.why, Denial::BadCredentials),
        other => panic!("{other:?}"),
    }
    let other = ConnectRequest { method: Some(("X".into(), Box::default())), ..begin.clone() };
    assert_eq!(world.refused(other), Denial::BadMethod);
    let (conn, _) = world.try_connect(begin);
    world.ask(conn, proceed(b"wrong", None));
    assert!(matches!(&world.heard(conn)[..], [SessionDelivery::Refused(_)]));
    world.audit();
}

#[test]
fn a_session_belongs_to_its_user() {
    let (mut world, _) = world(&[]);
    let a = world.client(user("a", "ann"));
    assert_eq!(world.refused(user("a", "bob")), Denial::NotAuthorized);
    let clean = ConnectRequest { clean_start: true, ..user("a", "bob") };
    assert_eq!(world.refused(clean), Denial::NotAuthorized, "nobody else ends it either");
    assert_eq!(world.heard(a.conn), []);
    world.cut(&a);
    world.crash();
    assert_eq!(world.refused(durable("a")), Denial::NotAuthorized);
    assert!(world.client(user("a", "ann")).connected.present);
}

/// Ann's account is removed, and ann is somebody else from now on.
fn remove_ann(door: &Door) {
    door.removed.fetch_add(1, Ordering::Relaxed);
    door.version.fetch_add(10, Ordering::Relaxed);
}

/// A session of ann's account that is subscribed, and for which a message waits.
fn away_with_mail(world: &mut BrokerHarness, door: &Door) {
    door.epoch.store(1, Ordering::Relaxed);
    let a = world.client(user("a", "ann"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.cut(&a);
    let source = world.client(user("source", "bob"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "for the first ann"));
    world.leave(&source);
}

/// Checks that the present ann finds nothing of the session before.
fn finds_nothing(world: &mut BrokerHarness) {
    let a = world.client(user("a", "ann"));
    assert!(!a.connected.present);
    let source = world.client(user("source", "bob"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "for whoever is subscribed"));
    assert_eq!(world.payloads(&a), [""; 0], "neither its queue nor its subscription");
    world.audit();
}

#[test]
fn a_session_ends_with_its_account_and_the_next_of_the_name_begins_anew() {
    let (mut world, door) = world(&[]);
    away_with_mail(&mut world, &door);
    remove_ann(&door);
    world.run();
    assert_eq!(world.status().sessions, 0);
    finds_nothing(&mut world);
    // One whose client is here ends with its connection.
    let b = world.client(user("b", "ann"));
    remove_ann(&door);
    world.run();
    assert!(matches!(&world.heard(b.conn)[..], [SessionDelivery::End(_)]));
    assert!(!world.client(user("b", "ann")).connected.present);
    // A session is the account's over a restart, too, and a kick does not end it.
    let (mut world, door) = self::world(&[]);
    away_with_mail(&mut world, &door);
    door.epoch.store(2, Ordering::Relaxed);
    world.crash();
    let a = world.client(user("a", "ann"));
    assert!(a.connected.present);
    assert_eq!(world.payloads(&a), ["for the first ann"]);
}

#[test]
fn an_account_that_was_removed_before_a_crash_leaves_no_session() {
    let (mut world, door) = world(&[]);
    away_with_mail(&mut world, &door);
    door.removed.fetch_add(1, Ordering::Relaxed);
    world.crash();
    finds_nothing(&mut world);
}

#[test]
fn a_session_that_nobody_may_have_any_more_is_not_gone_on_with_before_it_ends() {
    let (mut world, door) = world(&[]);
    away_with_mail(&mut world, &door);
    // The account is another one, and this shard has not looked at its sessions yet.
    door.removed.fetch_add(1, Ordering::Relaxed);
    finds_nothing(&mut world);
}

#[test]
fn a_session_of_before_is_the_accounts_that_comes_next_by_its_name() {
    let (mut world, door) = world(&[]);
    let a = world.client(user("a", "ann"));
    world.cut(&a);
    door.epoch.store(1, Ordering::Relaxed);
    let a = world.client(user("a", "ann"));
    assert!(a.connected.present, "it had no account when it was made");
    world.cut(&a);
    remove_ann(&door);
    world.run();
    assert!(!world.client(user("a", "ann")).connected.present, "and has one since");
}

#[test]
fn an_identifier_that_nobody_owns_makes_room_for_a_user() {
    let (mut world, _) = world(&[]);
    let nobody = world.client(durable("a"));
    world.subscribe(&nobody, "t", Qos::AtLeastOnce);
    let a = world.client(user("a", "ann"));
    assert!(!a.connected.present, "it begins anew");
    match &world.heard(nobody.conn)[..] {
        [SessionDelivery::End(denied)] => assert_eq!(denied.why, Denial::TakenOver),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.refused(durable("a")), Denial::NotAuthorized, "and is ann's from now on");
    world.cut(&a);
    assert!(world.client(user("a", "ann")).connected.present);
    world.audit();
}

#[test]
fn rules_are_asked_at_publish_subscribe_and_where_a_filter_reaches_beyond() {
    let (mut world, door) = world(&["open/"]);
    let a = world.client(user("a", "ann"));
    let answer = world.publish_at(&a, 1, message("shut/x", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Err(Denial::NotAuthorized)));
    for _ in 0..2 {
        let answer = world.publish_at(&a, 1, message("open/x", Qos::AtLeastOnce, "x"));
        assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
    }
    let wishes = ["shut/x", "#", "open/#"].map(|filter| wish(filter, Qos::AtMostOnce));
    let results = world.subscribe_with(&a, wishes[..2].to_vec(), None);
    assert_eq!(results, [Err(Denial::NotAuthorized), Ok(Qos::AtMostOnce)]);
    door.prefixes.lock().expect("nobody panics").clear();
    let free = world.client(user("free", "bob"));
    world.publish(&free, "shut/x", "no");
    world.publish(&free, "open/x", "yes");
    assert_eq!(world.payloads(&a), ["yes"]);
    door.prefixes.lock().expect("nobody panics").push("shut/");
    let refused = ConnectRequest { will: Some(will("open/x", "w", 0)), ..user("w", "ann") };
    assert_eq!(world.refused(refused), Denial::NotAuthorized, "a will is a message");
    world.audit();
}

#[test]
fn rules_that_change_hold_for_sessions_that_are_here() {
    let (mut world, door) = world(&["open/"]);
    let a = world.client(user("a", "ann"));
    world.subscribe(&a, "open/#", Qos::AtLeastOnce);
    world.subscribe(&a, "#", Qos::AtMostOnce);
    *door.prefixes.lock().expect("nobody panics") = vec!["shut/"];
    door.version.store(1, Ordering::Relaxed);
    world.run();
    assert_eq!(world.status().subscriptions, 1, "what reaches nothing goes");
    let answer = world.publish_at(&a, 1, message("open/x", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Err(Denial::NotAuthorized)), "nothing is remembered");
    world.publish(&a, "shut/x", "yes");
    assert_eq!(world.payloads(&a), ["yes"]);
    door.version.store(2, Ordering::Relaxed);
    world.run();
    match &world.heard(a.conn)[..] {
        [SessionDelivery::End(denied)] => assert_eq!(denied.why, Denial::NotAuthorized),
        other => panic!("{other:?}"),
    }
    door.version.store(3, Ordering::Relaxed);
    world.crash();
    assert_eq!(world.status().subscriptions, 1);
    world.audit();
}

#[test]
fn a_raised_epoch_ends_sessions_and_keeps_what_waits_for_those_who_are_away() {
    let (mut world, door) = world(&["open/"]);
    door.epoch.store(1, Ordering::Relaxed);
    let (a, b) = (world.client(user("a", "ann")), world.client(user("b", "ann")));
    world.subscribe(&b, "#", Qos::AtLeastOnce);
    world.leave(&b);
    let (slow, _) = world.try_connect(user("c", "slow"));
    let stale = door.grant(Some("slow"));
    door.version.store(1, Ordering::Relaxed);
    world.run();
    assert_eq!(world.heard(a.conn), [], "it is of this epoch");
    door.epoch.store(2, Ordering::Relaxed);
    door.version.store(3, Ordering::Relaxed);
    world.run();
    match &world.heard(a.conn)[..] {
        [SessionDelivery::End(denied)] => {
            assert_eq!(
                (denied.why, denied.reason),
                (Denial::NotAuthorized, CloseReason::AuthFailed)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*door.renewed.lock().expect("nobody panics"), [1, 3]);
    let a = world.client(user("a", "ann"));
    world.send(&a, 1, message("open/x", Qos::AtLeastOnce, "kept"));
    let b = world.client(user("b", "ann"));
    assert_eq!(world.payloads(&b), ["kept"]);
    // An answer that is older than the order lets nobody in.
    let (shard, number, _) = world.questions.pop().expect("asked");
    let node = &mut world.nodes[usize::from(shard)];
    node.broker.admitted(world.now, number, Admission::Granted(stale, None), &mut node.fx);
    world.run();
    match &world.heard(slow)[..] {
        [SessionDelivery::Refused(denied)] => assert_eq!(denied.why, Denial::BadCredentials),
        other => panic!("{other:?}"),
    }
    world.audit();
}

#[test]
fn what_is_granted_for_a_time_ends_with_it() {
    let (mut world, door) = world(&[]);
    door.until_s.store(world.now.unix_s() + 60, Ordering::Relaxed);
    let a = world.client(connect("a"));
    world.pass_s(59);
    assert_eq!(world.heard(a.conn), []);
    world.pass_s(2);
    match &world.heard(a.conn)[..] {
        [SessionDelivery::End(denied)] => assert_eq!(denied.why, Denial::Expired),
        other => panic!("{other:?}"),
    }
    world.audit();
}

#[test]
fn what_a_token_brought_is_not_widened_and_ends_with_it() {
    let (mut world, door) = world(&[]);
    door.until_s.store(world.now.unix_s() + 60, Ordering::Relaxed);
    let a = world.client(user("a", "token"));
    let b = world.client(user("b", "ann"));
    door.version.store(1, Ordering::Relaxed);
    world.run();
    let answer = world.publish_at(&a, 1, message("shut/x", Qos::AtLeastOnce, "x"));
    assert_eq!(answer, Some(Err(Denial::NotAuthorized)));
    world.pass_s(61);
    for client in [&a, &b] {
        let heard = world.heard(client.conn);
        assert!(
            matches!(&heard[..], [SessionDelivery::End(denied)] if denied.why == Denial::Expired)
        );
    }
    let c = world.client(ConnectRequest { clean_start: true, ..user("c", "token") });
    world.subscribe(&c, "#", Qos::AtLeastOnce);
    door.version.store(9, Ordering::Relaxed);
    world.crash();
    door.until_s.store(0, Ordering::Relaxed);
    let free = world.client(user("free", "ann"));
    for topic in ["shut/x", "open/x"] {
        world.send(&free, 1, message(topic, Qos::AtLeastOnce, topic));
    }
    let c = world.client(user("c", "token"));
    world.send(&free, 1, message("open/y", Qos::AtLeastOnce, "open/y"));
    assert_eq!(world.payloads(&c), ["open/y"], "while its rules were not known nothing was kept");
    world.audit();
}

/// Two members of one group, on two shards: one may read `open/` alone, the other everything.
fn group() -> (BrokerHarness, Arc<Door>, crate::harness::Client, crate::harness::Client) {
    let door = Arc::new(Door::default());
    let own = door.clone();
    let make = move |settings: &mut broker::Settings| settings.access = access(Key(own.clone()));
    let mut world = BrokerHarness::with(2, make);
    let names = [world.name_on(0, "half"), world.name_on(1, "whole")];
    let half = world.client(user(&names[0], "token"));
    let whole = world.client(user(&names[1], "ann"));
    for member in [&half, &whole] {
        world.subscribe(member, "$share/g/#", Qos::AtLeastOnce);
    }
    (world, door, half, whole)
}

#[test]
fn a_shared_message_goes_to_a_member_that_may_read_it() {
    let (mut world, _, half, whole) = group();
    let source = world.client(connect("source"));
    for n in 0..10 {
        let (id, text) = (n + 1, n.to_string());
        let answer = world.publish_at(&source, id, message("shut/x", Qos::AtLeastOnce, &text));
        assert_eq!(answer, Some(Ok(Routed::Matched)));
    }
    assert_eq!(world.payloads(&half), [""; 0]);
    assert_eq!(world.payloads(&whole).len(), 10);
    for n in 0..10 {
        world.send(&source, n + 1, message("open/x", Qos::AtLeastOnce, "x"));
        world.heard(source.conn);
    }
    let shares = [world.payloads(&half).len(), world.payloads(&whole).len()];
    assert_eq!(shares.iter().sum::<usize>(), 10);
    assert!(shares[0] > 0, "what both may read both get");
    assert_eq!(Drop::ALL.map(|why| world.dropped(why)).iter().sum::<u64>(), 0);
    world.audit();
}

#[test]
fn what_waits_for_a_member_is_not_offered_to_one_that_may_not_read_it() {
    let (mut world, _, half, whole) = group();
    let source = world.client(connect("source"));
    world.send(&source, 1, message("shut/x", Qos::AtLeastOnce, "mine"));
    assert_eq!(world.payloads(&whole), ["mine"]);
    world.cut(&whole);
    world.send(&source, 2, message("shut/x", Qos::AtLeastOnce, "later"));
    assert_eq!(world.payloads(&half), [""; 0]);
    let whole = world.client(user(&world.name_on(1, "whole"), "ann"));
    assert_eq!(world.payloads(&whole), ["mine", "later"]);
    assert_eq!(Drop::ALL.map(|why| world.dropped(why)).iter().sum::<u64>(), 0);
}

#[test]
fn what_no_member_may_read_is_counted_as_that() {
    let (mut world, _, half, whole) = group();
    let source = world.client(connect("source"));
    assert_eq!(world.unsubscribe(&whole, "$share/g/#"), Ok(true));
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        world.send(&source, 1, message("shut/x", qos, "x"));
        world.release(&source, 1);
        world.heard(source.conn);
    }
    assert_eq!(world.payloads(&half), [""; 0]);
    assert_eq!((world.dropped(Drop::NoReader), world.dropped(Drop::NoMember)), (3, 0));
    world.send(&source, 2, message("open/x", Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&half), ["x"]);
    world.audit();
}

#[test]
fn a_member_whose_rules_change_is_passed_over_from_then_on() {
    let (mut world, door, half, whole) = group();
    let source = world.client(connect("source"));
    world.subscribe(&source, "$share/h/#", Qos::AtLeastOnce);
    *door.prefixes.lock().expect("nobody panics") = vec!["open/"];
    door.version.store(1, Ordering::Relaxed);
    world.run();
    for n in 1..=4 {
        world.send(&source, n, message("open/x", Qos::AtLeastOnce, "x"));
        world.send(&source, n + 4, message("shut/x", Qos::AtLeastOnce, "x"));
    }
    let (to_half, to_whole) = (world.payloads(&half).len(), world.payloads(&whole).len());
    assert_eq!(to_half + to_whole, 4);
    let refused = world.count(model::counters::TopicCounter::PublishesRefused);
    assert_eq!(refused + world.dropped(Drop::NoReader), 4, "what is shut is nobody's any more");
}

/// Identifiers begin with their users' names.
struct Bound;

impl Access for Bound {
    fn admit(&self, now_s: u32, question: &Question) -> Admission {
        AllowAll.admit(now_s, question)
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn may_be(&self, who: &Who<'_>) -> bool {
        who.user.is_some_and(|user| who.client_id.starts_with(user))
    }

    fn version(&self) -> u64 {
        0
    }
}

#[test]
fn an_identifier_of_another_user_is_refused_and_counted() {
    let refused = model::counters::TopicCounter::ClientIdsRefused;
    let mut world = BrokerHarness::with(1, |settings| settings.access = access(Bound));
    assert_eq!(world.refused(user("ann:1", "eve")), Denial::ClientIdInvalid);
    assert_eq!((world.count(refused), world.status().sessions), (1, 0));
    let ann = world.client(user("ann:1", "ann"));
    assert_eq!(world.refused(user("ann:1", "eve")), Denial::ClientIdInvalid);
    // Of two users whose names begin alike the first one has the session.
    assert_eq!(world.refused(user("ann:1", "a")), Denial::NotAuthorized);
    assert_eq!(world.count(refused), 3);
    assert_eq!(world.heard(ann.conn), [], "nobody disturbs her");
    let given = world.client(user("", "eve"));
    assert!(given.connected.assigned.is_some(), "what is given is not looked at");
    world.cut(&ann);
    assert!(world.client(user("ann:1", "ann")).connected.present);
}

#[test]
fn an_exchange_has_so_many_steps() {
    let (mut world, _) = world(&[]);
    let proceed = |session| {
        let (method, data) = ("SCRAM".into(), (*b"first").into());
        SessionRequest::Proceed(Box::new(Proceed { session, method, data }))
    };
    let begin =
        ConnectRequest { method: Some(("SCRAM".into(), (*b"first").into())), ..user("a", "ann") };
    let (coming, heard) = world.try_connect(begin);
    assert!(matches!(&heard[..], [SessionDelivery::Challenge { .. }]));
    let here = world.client(user("b", "ann"));
    world.ask(here.conn, proceed(Some(here.session)));
    assert!(matches!(&world.heard(here.conn)[..], [SessionDelivery::Challenge { .. }]));
    for step in 1..=8 {
        for conn in [coming, here.conn] {
            world.ask(conn, proceed(None));
            let heard = world.heard(conn);
            assert!(matches!(&heard[..], [SessionDelivery::Challenge { .. }]), "{step}");
        }
    }
    for conn in [coming, here.conn] {
        world.ask(conn, proceed(None));
        match &world.heard(conn)[..] {
            [SessionDelivery::Refused(denied) | SessionDelivery::End(denied)] => {
                assert_eq!(denied.why, Denial::BadCredentials);
            }
            other => panic!("{other:?}"),
        }
    }
}
