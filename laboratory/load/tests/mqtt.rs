//! Load generators of MQTT clients against Mosquitto: all that is sent is delivered and counted,
//! whatever is done to the connections, in one process and in several.

#[path = "mqtt/mosquitto.rs"]
mod mosquitto;

use base::prng::Prng;
use lab::cause::{Cause, Phase};
use lab::generator::{LoadGenerator, Look};
use lab::order::{Cut, Order};
use lab::plan::Arrival;
use lab::run::Counts;
use lab::timing::Timing;
use load::LocalGenerator;
use mosquitto::Mosquitto;
use std::time::Duration;

/// Only a test that hangs takes so long.
const DEADLINE: Duration = Duration::from_secs(600);

fn found(generator: &mut LocalGenerator, text: &str) {
    let group = serde_json::from_str(text).expect("a group");
    generator
        .order(&Order::Found { group: Box::new(group), clients_max: 0 })
        .expect("it can be founded");
}

fn arrive(generator: &mut LocalGenerator, group: &str, clients: u32, arrival: Arrival) {
    let group = group.to_owned();
    generator.order(&Order::Arrive { group, clients, arrival }).expect("they can come");
}

fn send(generator: &mut LocalGenerator, group: &str, traffic: &str) {
    let traffic = serde_json::from_str(traffic).expect("traffic");
    generator.order(&Order::Traffic { group: group.to_owned(), traffic }).expect("it can be sent");
}

/// Looks until it is so.
fn wait(generator: &mut LocalGenerator, what: &str, until: impl Fn(&Look) -> bool) -> Look {
    let began = load::fleet::instant();
    loop {
        let look = generator.look();
        if until(&look) {
            return look;
        }
        let waited = load::fleet::instant() - began;
        assert!(waited < DEADLINE, "{what}: {:?}", look.total());
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn agrees(counts: &Counts) {
    assert!(counts.accounts.iter().all(|account| account.agrees()), "{:?}", counts.accounts);
    let connecting = counts.accounts[0].parts[0].1;
    assert_eq!(counts.attempts, connecting + counts.open + counts.causes.sum(), "{counts:?}");
}

/// Messages whose planned moment is over: those sent, and those that a machine busy otherwise came
/// to too late, or when nobody was online.
fn done(counts: &Counts) -> f64 {
    ["messages.sent", "messages.unsent", "dropped"].map(|name| counts.figure(name)).iter().sum()
}

fn stop(generator: &mut LocalGenerator) -> Counts {
    generator.order(&Order::Stop).expect("it can stop");
    let total = generator.look().total();
    agrees(&total);
    assert_eq!((total.open, total.online), (0, 0));
    total
}

#[test]
fn a_thousand_clients_hear_each_message_once_at_every_qos() {
    let broker = Mosquitto::start();
    let url = broker.url();
    for qos in 0..=2 {
        let mut generator = LocalGenerator::new(7);
        found(
            &mut generator,
            &format!(
                r#"{{"name": "a", "url": ["{url}"], "id": "q{qos}-%i", "subscribe": ["t/{qos}/%i"],
                    "subscribe_qos": {qos}, "threads": 2}}"#
            ),
        );
        arrive(&mut generator, "a", 1_000, Arrival::Window { open: 200 });
        wait(&mut generator, "subscribed", |look| {
            look.total().figure("subscriptions.granted") == 1_000.0
        });
        send(
            &mut generator,
            "a",
            &format!(
                r#"[{{"what": "publish", "topic": "t/{qos}/%i", "qos": {qos}, "messages": 3000,
                     "pace": {{"per_s": 3000}}}}]"#
            ),
        );
        wait(&mut generator, "delivered", |look| {
            let total = look.total();
            let sent = total.figure("messages.sent");
            done(&total) >= 3_000.0
                && total.figure("messages.received") >= sent
                && total.figure("messages.taken") >= sent
        });
        let total = stop(&mut generator);
        let sent = total.figure("messages.sent");
        assert_eq!((done(&total), sent > 0.0), (3_000.0, true), "{total:?}");
        let figures = ["taken", "received", "refused", "lost", "missing", "repeated"];
        let figures = figures.map(|name| total.figure(&format!("messages.{name}")));
        assert_eq!(figures, [sent, sent, 0.0, 0.0, 0.0, 0.0], "QoS {qos}: {total:?}");
        assert_eq!((total.attempts, total.bound), (1_000, 1_000));
        assert_eq!(total.causes.of(Phase::Online, Cause::RunOver), 1_000);
        assert_eq!(total.figure("messages.bytes"), sent * 64.0);
        // At QoS 0 the broker says nothing.
        let answered = if qos == 0 { 0 } else { sent as u64 };
        for (timing, count) in [(Timing::Publish, answered), (Timing::Delivery, sent as u64)] {
            let timed = total.timings.of(timing);
            assert_eq!((timed.raw.count(), timed.corrected.count()), (count, count), "{timing:?}");
        }
    }
}

#[test]
fn what_a_receiver_did_not_get_is_missing_by_its_number() {
    let broker = Mosquitto::start();
    let url = broker.url();
    let mut generator = LocalGenerator::new(7);
    found(&mut generator, &format!(r#"{{"name": "sender", "url": ["{url}"], "threads": 2}}"#));
    // Away for long enough that what is sent at once finds them away.
    found(
        &mut generator,
        &format!(
            r#"{{"name": "receiver", "url": ["{url}"], "subscribe": ["m/%i"], "threads": 2,
                "back_after": "5s", "back_max": "5s"}}"#
        ),
    );
    let subscribed = |generator: &mut LocalGenerator, count: f64| {
        wait(generator, "subscribed", |look| look.total().figure("subscriptions.granted") == count);
    };
    // Some ten for each sender, in turns: none goes without one, so that each receiver hears of
    // what it has missed.
    let traffic = r#"[{"what": "publish", "topic": "m/%i", "messages": 200,
                       "pace": {"every": "20ms"}}]"#;
    let sent = |generator: &mut LocalGenerator, count: f64| {
        wait(generator, "sent", |look| look.total().figure("messages.taken") == count);
    };
    arrive(&mut generator, "receiver", 20, Arrival::Burst);
    subscribed(&mut generator, 20.0);
    // Told before there is anybody to send it.
    send(&mut generator, "sender", traffic);
    arrive(&mut generator, "sender", 20, Arrival::Burst);
    sent(&mut generator, 200.0);
    wait(&mut generator, "heard", |look| look.total().figure("messages.received") == 200.0);
    let group = Some("receiver".to_owned());
    generator.order(&Order::Cut { group, share: 0.5, how: Cut::Close }).expect("they can be cut");
    wait(&mut generator, "away", |look| look.groups["receiver"].online == 10);
    send(&mut generator, "sender", traffic);
    sent(&mut generator, 400.0);
    subscribed(&mut generator, 30.0);
    // By later numbers they know what they have missed.
    send(&mut generator, "sender", traffic);
    sent(&mut generator, 600.0);
    let look = wait(&mut generator, "heard or missed", |look| {
        let total = look.total();
        total.figure("messages.received") + total.figure("messages.missing") >= 600.0
    });
    let total = look.total();
    let missing = total.figure("messages.missing");
    assert_eq!(total.figure("messages.received") + missing, 600.0, "{total:?}");
    assert!((1.0..200.0).contains(&missing), "{total:?}");
    assert_eq!((total.figure("messages.repeated"), total.figure("messages.reordered")), (0.0, 0.0));
    stop(&mut generator);
}

#[test]
fn a_message_that_asks_for_an_answer_is_timed_there_and_back() {
    let broker = Mosquitto::start();
    let url = broker.url();
    let mut generator = LocalGenerator::new(7);
    found(
        &mut generator,
        &format!(
            r#"{{"name": "device", "url": ["{url}"], "subscribe": ["ask/%i"],
                "answer_to": "answer/%s", "threads": 1}}"#
        ),
    );
    found(
        &mut generator,
        &format!(
            r#"{{"name": "asker", "url": ["{url}"], "subscribe": ["answer/%i"], "threads": 1}}"#
        ),
    );
    arrive(&mut generator, "device", 10, Arrival::Burst);
    arrive(&mut generator, "asker", 5, Arrival::Burst);
    wait(&mut generator, "subscribed", |look| look.total().figure("subscriptions.granted") == 15.0);
    let ask = r#"[{"what": "publish", "topic": "ask/%i", "among": 10, "messages": 200,
                   "pace": {"per_s": 1000}}]"#;
    send(&mut generator, "asker", ask);
    let look = wait(&mut generator, "answered", |look| {
        let asker = &look.groups["asker"];
        let answered = asker.timings.of(Timing::Request).raw.count() as f64;
        done(asker) == 200.0 && answered == asker.figure("messages.sent")
    });
    let sent = look.groups["asker"].figure("messages.sent");
    assert!(sent > 0.0);
    assert_eq!(look.groups["device"].timings.of(Timing::Delivery).raw.count() as f64, sent);
    assert_eq!(look.groups["asker"].figure("messages.received"), sent);
    stop(&mut generator);
}

#[test]
fn whatever_is_done_to_clients_every_sum_agrees() {
    let broker = Mosquitto::start();
    let url = broker.url();
    for seed in [1, 2, 3] {
        let mut random = Prng::new(seed);
        let mut generator = LocalGenerator::new(seed);
        found(
            &mut generator,
            &format!(
                r#"{{"name": "a", "url": ["{url}"], "id": "s{seed}-%i", "subscribe": ["c/%i"],
                    "subscribe_qos": 1, "back_after": "5ms", "back_max": "20ms", "threads": 2,
                    "timeout": "2s"}}"#
            ),
        );
        arrive(&mut generator, "a", 200, Arrival::Poisson { per_s: 5_000.0 });
        let traffic = r#"[
            {"what": "publish", "topic": "c/%i", "qos": 1, "pace": {"per_s": 2000}},
            {"what": "publish", "topic": "c/%i", "qos": 2, "pace": {"every": "50ms"}},
            {"what": "publish", "topic": "d", "qos": 0, "pace": {"window": 2}},
            {"what": "heartbeat", "pace": {"per_s": 500}}]"#;
        send(&mut generator, "a", traffic);
        wait(&mut generator, "come", |look| look.total().bound >= 200);
        let kinds =
            [Cut::Farewell, Cut::Close, Cut::Reset, Cut::Freeze, Cut::StopReading, Cut::Thaw];
        for _ in 0..30 {
            let how = kinds[random.below(kinds.len() as u64) as usize];
            let share = random.below(50) as f64 / 100.0;
            generator.order(&Order::Cut { group: None, share, how }).expect("they can be cut");
            if random.one_in(5) {
                arrive(&mut generator, "a", 100 + random.below(150) as u32, Arrival::Burst);
            }
            let share_per_s = random.below(3) as f64 / 2.0;
            generator.order(&Order::Flap { group: None, share_per_s }).expect("they can flap");
            let before = generator.look().total();
            agrees(&before);
            wait(&mut generator, "goes on", |look| done(&look.total()) >= done(&before) + 20.0);
        }
        generator.order(&Order::Flap { group: None, share_per_s: 0.0 }).expect("they can stop");
        generator
            .order(&Order::Cut { group: None, share: 1.0, how: Cut::Thaw })
            .expect("they thaw");
        arrive(&mut generator, "a", 50, Arrival::Burst);
        wait(&mut generator, "settled", |look| look.total().online == 50);
        let total = stop(&mut generator);
        assert_eq!(total.causes.by_side(lab::cause::Side::Tester), 0, "{seed} {:?}", total.causes);
    }
}

#[test]
fn each_kind_of_cut_is_what_it_says() {
    let broker = Mosquitto::start();
    let url = broker.url();
    let mut generator = LocalGenerator::new(7);
    found(
        &mut generator,
        &format!(
            r#"{{"name": "a", "url": ["{url}"], "back_after": "1ms", "back_max": "2ms",
                "keep_alive": "3s", "timeout": "600s"}}"#
        ),
    );
    arrive(&mut generator, "a", 20, Arrival::Rate { per_s: 1_000.0 });
    wait(&mut generator, "come", |look| look.total().online == 20);
    let cut = |share: f64, how: Cut, cause: Cause, count: u64, generator: &mut LocalGenerator| {
        let bound = generator.look().total().bound;
        generator.order(&Order::Cut { group: None, share, how }).expect("they can be cut");
        let look = wait(generator, "back", |look| look.total().bound == bound + count);
        assert_eq!(look.total().causes.of(Phase::Online, cause), count, "{how:?}");
    };
    cut(0.25, Cut::Farewell, Cause::Farewell, 5, &mut generator);
    cut(0.5, Cut::Close, Cause::Cut, 10, &mut generator);
    let recovered = generator.look().total().timings.of(Timing::Recovery).raw.count();
    assert_eq!(recovered, 10, "a farewell is no loss");
    generator
        .order(&Order::Cut { group: None, share: 0.2, how: Cut::Reset })
        .expect("they can be cut");
    wait(&mut generator, "back", |look| look.total().causes.of(Phase::Online, Cause::Cut) == 14);
    // Frozen ones neither beat nor notice that the broker lets them go, until they thaw.
    wait(&mut generator, "all back", |look| look.total().online == 20);
    generator
        .order(&Order::Cut { group: None, share: 1.0, how: Cut::Freeze })
        .expect("they freeze");
    let sent = generator.look().total().figure("heartbeats.sent");
    wait(&mut generator, "let go", |_| half_open(broker.port) == 20);
    let look = generator.look();
    assert_eq!(look.total().online, 20);
    assert!(look.total().figure("heartbeats.sent") <= sent + 20.0);
    generator.order(&Order::Cut { group: None, share: 1.0, how: Cut::Thaw }).expect("they thaw");
    wait(&mut generator, "thawed and back", |look| {
        look.total().bound >= 59 && look.total().online == 20
    });
    // The broker did what it should: it was the tester that had fallen silent.
    let total = generator.look().total();
    assert_eq!(total.causes.of(Phase::Online, Cause::Frozen), 20, "{:?}", total.causes);
    assert_eq!(total.causes.errors(), 0, "{:?}", total.causes);
    stop(&mut generator);
}

/// Connections to this port whose other end was closed: ours are in CLOSE_WAIT.
fn half_open(port: u16) -> usize {
    const CLOSE_WAIT: &str = "08";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let to = format!(":{port:04X}");
    let is_ours = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|remote| remote.ends_with(&to))
            && fields.next() == Some(CLOSE_WAIT)
    };
    table.lines().filter(is_ours).count()
}

/// Not a test of its own: the further process of the next one.
#[test]
#[ignore = "the next test calls it as a process of its own"]
fn a_further_process() {
    std::process::exit(load::local::serve_stdio());
}

#[test]
fn a_group_is_spread_over_processes() {
    let broker = Mosquitto::start();
    let url = broker.url();
    let program = std::env::current_exe().expect("this test");
    // Of one thread the harness writes the name of a test before it runs, into what is said here.
    let words = ["--ignored", "--exact", "--nocapture", "--test-threads=2", "a_further_process"];
    let command = [program.into()].into_iter().chain(words.map(Into::into)).collect();
    let mut generator = LocalGenerator::new(7).run_by(command, 40);
    found(&mut generator, &format!(r#"{{"name": "a", "url": ["{url}"], "subscribe": ["p/%i"]}}"#));
    arrive(&mut generator, "a", 100, Arrival::Rate { per_s: 2_000.0 });
    wait(&mut generator, "subscribed", |look| {
        look.total().figure("subscriptions.granted") == 100.0
    });
    send(&mut generator, "a", r#"[{"what": "publish", "topic": "p/%i", "pace": {"per_s": 600}}]"#);
    let look =
        wait(&mut generator, "heard", |look| look.total().figure("messages.received") >= 300.0);
    let total = look.total();
    assert_eq!((total.planned, total.bound, total.online), (100, 100, 100), "one id each");
    assert_eq!(look.agents[0].clients, 100);
    assert!(generator.expect(200).is_err_and(|why| why.contains("120")));
    let total = stop(&mut generator);
    assert_eq!((total.figure("messages.missing"), total.figure("messages.repeated")), (0.0, 0.0));
}
