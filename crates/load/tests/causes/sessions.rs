//! Ends of MQTT and MIOP sessions, while they are asked for and once they stand.

use crate::crew::Crew;
use lab::cause::{Cause, Phase};
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use testkit::faulty::{Fate, Faulty, Step};

/// MQTT 5. A client that subscribes says something when it is bound, for which a fate can wait.
pub const GROUP: &str = r#", "version": 5, "timeout": "2s", "subscribe": ["t"], "beats": false"#;

/// CONNACK of MQTT 5 without a word, and of 3.1.1 the same to the byte but one.
const CONNACK: [u8; 5] = [0x20, 3, 0, 0, 0];
const CONNACK_4: [u8; 4] = [0x20, 2, 0, 0];

fn say(bytes: &[u8]) -> Step {
    Step::Say(bytes.to_vec())
}

/// A fate that begins when the client (of MQTT 3.1.1, which subscribes) is online.
pub fn online(name: &'static str, then: impl Into<Vec<Step>>) -> Fate {
    begins(name, &CONNACK_4, then)
}

fn begins(name: &'static str, answer: &[u8], then: impl Into<Vec<Step>>) -> Fate {
    let steps = [Step::Hear, say(answer), Step::Hear].into_iter().chain(then.into());
    Fate::new(name, steps.collect::<Vec<_>>())
}

/// Has `each` clients meet every fate, and says what became of them.
fn meet(fates: Vec<(Fate, Phase, Cause)>, group: &str, url: &str) -> crate::crew::Seen {
    let each = 3;
    let clients = each * fates.len() as u64;
    let names: Vec<&str> = fates.iter().map(|(fate, ..)| fate.name).collect();
    let want: Vec<_> = fates.iter().map(|(_, phase, cause)| (*phase, *cause, each)).collect();
    let server = Faulty::start(fates.into_iter().map(|(fate, ..)| fate).collect());
    let url = url.replace("ADDRESS", &server.address().to_string());
    let seen = Crew::call(&url, group, clients as u32).ends(clients);
    seen.are(&want);
    for name in names {
        assert!(crate::until(|| server.count(name) == each), "{name}: {:?}", server.counts());
    }
    assert_eq!(server.accepted(), clients);
    seen
}

#[test]
fn binds_end_in_every_way() {
    use Phase::Bind;
    let asked = |name, steps: &[Step]| {
        let steps = [&[Step::Hear], steps].concat();
        Fate::new(name, steps)
    };
    let fates = vec![
        (asked("refused", &[say(&[0x20, 3, 0, 0x87, 0]), Step::Close]), Bind, Cause::BindRefused),
        (asked("mute", &[Step::Hold]), Bind, Cause::BindTimedOut),
        (asked("clean", &[Step::Close]), Bind, Cause::ClosedClean),
        (asked("half", &[say(&CONNACK[..2]), Step::Close]), Bind, Cause::ClosedMidFrame),
        (asked("reset", &[Step::Reset]), Bind, Cause::Reset),
        (asked("lies", &[say(&[0xd0, 0]), Step::Close]), Bind, Cause::ProtocolViolation),
    ];
    let seen = meet(fates, GROUP, "mqtt://ADDRESS");
    assert_eq!((seen.code("refused 135"), seen.0.bound), (3, 0), "{:?}", seen.0.codes);
}

#[test]
fn a_server_may_answer_late_in_time_and_too_late() {
    let pause = std::time::Duration::from_millis;
    let drip = |times| {
        let bytes: Vec<u8> = CONNACK.to_vec();
        let rest = Step::Say(bytes[1..].to_vec());
        [Step::Hear, Step::Stall(pause(times)), say(&bytes[..1]), rest, Step::Hear, Step::Close]
    };
    let fates = vec![
        (Fate::new("late", drip(50)), Phase::Online, Cause::ClosedClean),
        // It is not heard any more, so that its last step is the stall.
        (
            Fate::new("too late", [Step::Hear, Step::Stall(pause(3_500))]),
            Phase::Bind,
            Cause::BindTimedOut,
        ),
    ];
    let seen = meet(fates, GROUP, "mqtt://ADDRESS");
    assert_eq!(seen.0.bound, 3);
}

#[test]
fn sessions_end_in_every_way() {
    use Phase::Online;
    let then = |name, steps: &[Step]| begins(name, &CONNACK, steps);
    let fates = vec![
        (then("clean", &[Step::Close]), Online, Cause::ClosedClean),
        (then("half", &[say(&[0x30, 10, 0, 1, b't']), Step::Close]), Online, Cause::ClosedMidFrame),
        (then("reset", &[Step::Reset]), Online, Cause::Reset),
        // Session taken over, MQTT 5 4.13.
        (then("kicked", &[say(&[0xe0, 2, 0x8e, 0]), Step::Close]), Online, Cause::Kicked),
        (then("lies", &[say(&[b'H'; 100]), Step::Close]), Online, Cause::ProtocolViolation),
    ];
    let seen = meet(fates, GROUP, "mqtt://ADDRESS");
    assert_eq!((seen.code("kicked 142"), seen.0.bound), (3, 15), "{:?}", seen.0.codes);
}

fn frame(opcode: Opcode, props: Props<'static>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::new(opcode, props).write(&mut bytes);
    bytes
}

#[test]
fn sessions_of_miop_end_in_its_words() {
    let code = |result| Props { result: Some(result), ..Props::default() };
    let bound = frame(Opcode::BindAck, Props { heartbeat: Some(300), ..code(0) });
    let after = |opcode, props| [bound.clone(), frame(opcode, props)].concat();
    let fate = |name, bytes: Vec<u8>| Fate::new(name, [Step::Hear, Step::Say(bytes), Step::Close]);
    let kick = after(Opcode::Kick, code(40));
    let half = kick[..kick.len() - 1].to_vec();
    let fates = vec![
        (fate("refused", frame(Opcode::BindAck, code(24))), Phase::Bind, Cause::BindRefused),
        (fate("kicked", kick), Phase::Online, Cause::Kicked),
        (fate("clean", bound.clone()), Phase::Online, Cause::ClosedClean),
        (fate("half", half), Phase::Online, Cause::ClosedMidFrame),
    ];
    let group = r#", "product": "pk", "timeout": "2s""#;
    let seen = meet(fates, group, "miop://box:pk@ADDRESS");
    assert_eq!((seen.code("refused 24"), seen.code("kicked 40")), (3, 3), "{:?}", seen.0.codes);
}

#[test]
fn who_is_sent_away_comes_back() {
    let bound = Props { result: Some(0), heartbeat: Some(300), ..Props::default() };
    let bound = frame(Opcode::BindAck, bound);
    let away = Props { retry_after_ms: Some(1), ..Props::default() };
    let away = [bound.clone(), frame(Opcode::GoAway, away)].concat();
    let server = Faulty::start(vec![
        Fate::new("away", [Step::Hear, Step::Say(away), Step::Hold]),
        Fate::new("stays", [Step::Hear, Step::Say(bound), Step::Hold]),
    ]);
    // One client meets one fate after the other.
    let group = r#", "product": "pk", "back_after": "1ms""#;
    let mut crew = Crew::call(&format!("miop://box:pk@{}", server.address()), group, 1);
    crew.wait("back", |seen| seen.bound == 2 && seen.online == 1);
    let seen = crew.stop();
    seen.are(&[(Phase::Online, Cause::Redirected, 1), (Phase::Online, Cause::RunOver, 1)]);
    assert_eq!((seen.0.figure("go_aways"), seen.0.figure("reconnects")), (1.0, 1.0));
    assert_eq!((server.count("away"), server.count("stays")), (1, 1));
}
