//! The queue with a gateway that says what the test wants.

use super::super::{PlatformService, Verdict, Whose};
use super::*;
use crate::outward;
use model::id::DeviceId;
use model::limits::PlatformLimits;
use model::ports::notifications::Withdrawal;
use model::push::PlatformToken;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// More than a test sends at once.
const ROOM: usize = 64;

/// A gateway whose services are named by the first letter of a token.
struct Scripted {
    came: Mutex<SyncSender<String>>,
    verdicts: Mutex<Receiver<Verdict>>,
    services: usize,
}

impl Gateway for Scripted {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn service<'a>(&'a self, token: &'a str) -> &'a str {
        &token[..1]
    }

    fn services(&self) -> usize {
        self.services
    }

    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn send(&self, _: &mut Wire, message: &Message<'_>) -> Verdict {
        self.came.lock().expect("no panic").send(message.token.into()).expect("the test waits");
        self.verdicts.lock().expect("no panic").recv().expect("the test says")
    }
}

struct World {
    platform: Arc<Platform>,
    now_ms: Arc<AtomicU64>,
    came: Receiver<String>,
    verdicts: SyncSender<Verdict>,
    replies: (SyncSender<Notified>, Receiver<Notified>),
}

fn world(limits: PlatformLimits) -> World {
    world_of(2, limits)
}

fn world_of(services: usize, limits: PlatformLimits) -> World {
    let now_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
    let clock = now_ms.clone();
    let wall_ms: WallClock = Arc::new(move || clock.load(Ordering::Relaxed));
    let ((came, taken), (verdicts, said)) = (sync_channel(ROOM), sync_channel(ROOM));
    let (came, verdicts_said) = (Mutex::new(came), Mutex::new(said));
    let gateway = Box::new(Scripted { came, verdicts: verdicts_said, services });
    let service = PlatformService::Fcm { account: Vec::new(), url: String::new() };
    let name = "web".into();
    let settings = PlatformSettings { name, service, authorities: None, proxied: false, limits };
    let agent = outward::agent(1_000, false);
    let platform = Arc::new(Platform::new(settings, (gateway, agent), (wall_ms, 7)));
    platform.begin().expect("threads");
    World { platform, now_ms, came: taken, verdicts, replies: sync_channel(ROOM) }
}

fn limits() -> PlatformLimits {
    let (retry_ms_min, retry_ms_max) = (1_000, 60_000);
    PlatformLimits { requests_max: 1, retry_ms_min, retry_ms_max, ..PlatformLimits::default() }
}

impl World {
    fn offer(&self, token: &str) -> Result<(), Notified> {
        self.offer_with(token, Withdrawal::default())
    }

    fn offer_with(&self, token: &str, withdrawal: Withdrawal) -> Result<(), Notified> {
        let push = crate::platforms::samples::push();
        let token = PlatformToken { platform: "web".into(), token: token.into() };
        let targets = NotificationTargets::Platform(Arc::new(token), withdrawal);
        let device = DeviceId::parse("d").expect("allowed");
        let what = NotificationWhat::Push(device, Arc::new(push));
        let reply = self.replies.0.clone();
        let reply: NotifiedReply = Box::new(move |what| drop(reply.send(what)));
        self.platform.offer(Box::new(NotificationOrder { targets, what }), reply)
    }

    fn answered(&self) -> Notified {
        self.replies.1.recv().expect("an answer")
    }

    /// Sends one push, and gives its answer.
    fn send(&self, token: &str, verdict: Verdict) -> Notified {
        self.verdicts.send(verdict).expect("the gateway waits");
        assert_eq!(self.offer(token), Ok(()));
        assert_eq!(self.came.recv().expect("it came"), token);
        self.answered()
    }

    fn rests_ms(&self, token: &str) -> u32 {
        match self.offer(token) {
            Err(Notified::Later { rest_ms } | Notified::Resting { rest_ms }) => rest_ms,
            other => panic!("it does not rest: {other:?}"),
        }
    }

    fn pass_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.platform.close();
        self.platform.join();
    }
}

fn later(rest_ms: u32) -> Notified {
    Notified::Later { rest_ms }
}

fn failed(after_ms: Option<u64>) -> Verdict {
    Verdict::Failed("503".into(), Whose::All, after_ms)
}

#[test]
fn each_verdict_has_its_answer_and_is_counted() {
    let world = world(limits());
    assert_eq!(world.send("a1", Verdict::Accepted), Notified::Taken { gone: vec![] });
    assert_eq!(world.send("a2", Verdict::Dead), Notified::Taken { gone: vec!["a2".into()] });
    assert_eq!(world.send("a3", Verdict::Refused("x".into())), Notified::Refused);
    let status = world.platform.status();
    assert_eq!((status.state, status.last_fault.as_deref()), ("ready", Some("x")));
    let all = status.outcomes.all().map(|(_, count)| count);
    assert_eq!(all, [1, 1, 1, 0, 0, 0]);
}

#[test]
fn a_failed_service_rests_longer_each_time_and_as_long_as_it_says() {
    let world = world(limits());
    let Notified::Later { rest_ms } = world.send("a", failed(None)) else { panic!("later") };
    assert!((500..=1_000).contains(&rest_ms), "{rest_ms}");
    assert_eq!(world.rests_ms("a"), rest_ms);
    assert_eq!(world.platform.status().state, "resting");
    world.pass_ms(1_000);
    let Notified::Later { rest_ms } = world.send("a", failed(None)) else { panic!("later") };
    assert!((1_000..=2_000).contains(&rest_ms), "{rest_ms}");
    world.pass_ms(2_000);
    assert_eq!(world.send("a", failed(Some(90_000))), Notified::Later { rest_ms: 90_000 });
    assert_eq!(world.rests_ms("a"), 90_000, "more than the longest pause of its own");
    assert_eq!(world.send("b", Verdict::Accepted), Notified::Taken { gone: vec![] });
    world.pass_ms(90_000);
    assert_eq!(world.send("a", Verdict::Accepted), Notified::Taken { gone: vec![] });
    let Notified::Later { rest_ms } = world.send("a", failed(None)) else { panic!("later") };
    assert!(rest_ms <= 1_000, "the pauses begin anew: {rest_ms}");
}

#[test]
fn what_waits_for_a_service_that_fails_is_put_off_with_it() {
    let world = world(limits());
    assert_eq!(world.offer("a"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "a");
    assert_eq!((world.offer("a"), world.offer("b")), (Ok(()), Ok(())));
    world.verdicts.send(failed(Some(5_000))).expect("the gateway waits");
    assert_eq!(world.answered(), Notified::Later { rest_ms: 5_000 });
    assert_eq!(world.answered(), Notified::Later { rest_ms: 5_000 });
    assert_eq!(world.came.recv().expect("it came"), "b");
    world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
    assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    let outcomes = world.platform.status().outcomes;
    assert_eq!((outcomes.failed, outcomes.postponed, outcomes.accepted), (1, 1, 1));
}

#[test]
fn an_order_that_is_withdrawn_while_it_waits_is_not_sent() {
    let world = world(limits());
    let withdrawal = Withdrawal::default();
    assert_eq!(world.offer("a"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "a");
    assert_eq!(world.offer_with("withdrawn", withdrawal.clone()), Ok(()));
    assert_eq!(world.offer("b"), Ok(()));
    withdrawal.withdraw();
    for _ in 0..2 {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
    }
    let answers = [(); 3].map(|()| world.answered());
    let taken = || Notified::Taken { gone: vec![] };
    assert!(answers.contains(&later(1_000)), "{answers:?}");
    assert_eq!(answers.iter().filter(|it| **it == taken()).count(), 2);
    assert_eq!(world.came.recv().expect("it came"), "b");
    assert_eq!(world.platform.status().requests, 0);
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let world = world(PlatformLimits { waiting_max: 1, ..limits() });
    assert_eq!(world.offer("a"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "a");
    assert_eq!(world.offer("a"), Ok(()));
    assert_eq!(world.rests_ms("a"), 1_000);
    for _ in 0..2 {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
        assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    }
}

#[test]
fn a_service_that_hangs_leaves_half_of_the_threads_to_the_others() {
    let world = world(PlatformLimits { requests_max: 2, ..limits() });
    assert_eq!(world.send("b", Verdict::Accepted), Notified::Taken { gone: vec![] });
    for _ in 0..3 {
        assert_eq!(world.offer("a"), Ok(()));
    }
    assert_eq!(world.came.recv().expect("it came"), "a");
    assert_eq!(world.offer("b"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "b", "and no second one for a");
    assert_eq!(world.platform.status().waiting, 2);
    for _ in 0..4 {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
        assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    }
}

#[test]
fn the_only_service_of_a_platform_rests_for_all_devices() {
    let world = world_of(1, limits());
    let Notified::Resting { rest_ms } = world.send("a", failed(None)) else { panic!("it rests") };
    assert_eq!(world.offer("a2"), Err(Notified::Resting { rest_ms }));
    world.pass_ms(rest_ms.into());
    let stray = Verdict::Failed("429".into(), Whose::ThisToken, None);
    assert_eq!(world.send("a", stray), later(1_000), "the fault of one device");
}

#[test]
fn two_services_that_hang_leave_threads_to_a_third() {
    let world = world(PlatformLimits { requests_max: 8, ..limits() });
    assert_eq!(world.send("c", Verdict::Accepted), Notified::Taken { gone: vec![] });
    for service in ["a", "b"] {
        (0..5).for_each(|_| assert_eq!(world.offer(service), Ok(())));
    }
    let hanging: Vec<_> = (0..6).map(|_| world.came.recv().expect("it came")).collect();
    assert!(hanging.iter().all(|it| it == "a" || it == "b"), "{hanging:?}");
    assert_eq!(world.offer("c"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "c", "and no seventh one of the others");
    assert_eq!(world.platform.status().waiting, 4);
    for _ in 0..11 {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
        assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    }
}

#[test]
fn a_service_has_all_threads_until_another_one_is_used() {
    let world = world(PlatformLimits { requests_max: 4, ..limits() });
    (0..4).for_each(|_| assert_eq!(world.offer("a"), Ok(())));
    (0..4).for_each(|_| assert_eq!(world.came.recv().expect("it came"), "a"));
    for _ in 0..4 {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
        assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    }
}

#[test]
fn refused_credentials_are_an_alarm_until_a_push_is_accepted() {
    let world = world(limits());
    let denied = |whose| Verdict::Denied("403".into(), whose);
    let one = |token| assert_eq!(world.send(token, denied(Whose::ThisToken)), later(60_000));
    for token in ["a1", "a2", "a1", "a1"] {
        one(token);
        assert_eq!(world.platform.status().state, "ready", "the fault of a device or two");
    }
    one("a3");
    let status = || world.platform.status();
    assert_eq!(status().state, "denied");
    assert_eq!(world.send("a", Verdict::Refused("long".into())), Notified::Refused);
    assert_eq!(status().last_fault.as_deref(), Some("403"), "the alarm keeps its reason");
    assert_eq!(world.send("a", Verdict::Accepted), Notified::Taken { gone: vec![] });
    assert_eq!(status().state, "ready");
    let Notified::Later { rest_ms } = world.send("a", denied(Whose::All)) else { panic!("later") };
    assert_eq!(world.rests_ms("a"), rest_ms);
    assert_eq!(world.platform.status().state, "denied");
}

#[test]
fn services_that_rest_leave_room_for_every_other_one() {
    let world = world(limits());
    for service in ('A'..='Z').chain('0'..='9').chain('p'..='z').chain('!'..='/').chain(':'..='@') {
        world.send(&service.to_string(), failed(None));
    }
    assert_eq!(world.send("other", Verdict::Accepted), Notified::Taken { gone: vec![] });
}

#[test]
fn a_limit_of_one_device_pauses_its_service_when_several_in_a_row_meet_it() {
    let world = world(limits());
    let limited = |after_ms| Verdict::Failed("429".into(), Whose::ThisToken, Some(after_ms));
    for _ in 0..5 {
        assert_eq!(world.send("a1", limited(5_000)), later(5_000));
    }
    assert_eq!(world.send("a2", limited(5_000)), later(5_000));
    assert_eq!(world.send("a4", Verdict::Accepted), Notified::Taken { gone: vec![] });
    for token in ["a1", "a2"] {
        assert_eq!(world.send(token, limited(u64::MAX)), later(3_600_000), "an hour at most");
    }
    assert_eq!(world.send("a3", limited(7_000)), later(7_000));
    assert_eq!(world.rests_ms("a4"), 7_000);
    let alone = Verdict::Failed("no host".into(), Whose::ThisTokenAlone, Some(9_000));
    for token in ["b1", "b2", "b3", "b4"] {
        assert_eq!(world.send(token, alone.clone()), later(9_000));
    }
    assert_eq!(world.send("b5", Verdict::Accepted), Notified::Taken { gone: vec![] });
}

#[test]
fn an_older_request_that_is_accepted_ends_no_pause() {
    let world = world_of(1, PlatformLimits { requests_max: 2, ..limits() });
    for token in ["a1", "a2"] {
        assert_eq!(world.offer(token), Ok(()));
        assert_eq!(world.came.recv().expect("it came"), token);
    }
    world.verdicts.send(failed(Some(90_000))).expect("the gateway waits");
    assert_eq!(world.answered(), Notified::Resting { rest_ms: 90_000 });
    world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
    assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    assert_eq!(world.rests_ms("a"), 90_000);
    world.now_ms.fetch_sub(3_600_000, Ordering::Relaxed);
    let answer = world.send("a", Verdict::Accepted);
    assert_eq!(answer, Notified::Taken { gone: vec![] }, "a clock set back ends the pause");
}

#[test]
fn requests_that_fail_together_are_one_failure() {
    let world = world_of(1, PlatformLimits { requests_max: 8, ..limits() });
    for at in 0..8 {
        let token = format!("a{at}");
        assert_eq!(world.offer(&token), Ok(()));
        assert_eq!(world.came.recv().expect("it came"), token);
    }
    for _ in 0..8 {
        world.verdicts.send(failed(None)).expect("the gateway waits");
        world.answered();
    }
    assert!(world.rests_ms("a") <= 1_000);
}

#[test]
fn a_thread_that_waits_for_the_rate_leaves_no_order_to_sleeping_ones() {
    let world = world_of(1, PlatformLimits { requests_max: 3, rate_per_s: 1_000, ..limits() });
    let tokens = ["a1", "a2", "a3"];
    tokens.iter().for_each(|token| assert_eq!(world.offer(token), Ok(())));
    for token in tokens {
        assert_eq!(world.came.recv().expect("it came"), token);
        world.pass_ms(1);
    }
    for _ in tokens {
        world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
        assert_eq!(world.answered(), Notified::Taken { gone: vec![] });
    }
}

#[test]
fn a_stop_puts_off_what_waits_and_takes_nothing_more() {
    let world = world(limits());
    assert_eq!(world.offer("a"), Ok(()));
    assert_eq!(world.came.recv().expect("it came"), "a");
    assert_eq!(world.offer("a"), Ok(()));
    world.platform.close();
    assert_eq!(world.answered(), Notified::Later { rest_ms: 1_000 });
    assert_eq!(world.rests_ms("a"), 1_000);
    world.verdicts.send(Verdict::Accepted).expect("the gateway waits");
    assert_eq!(world.answered(), Notified::Taken { gone: vec![] }, "its request ends");
}
