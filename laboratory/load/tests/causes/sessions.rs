//! Ends of MQTT and MIOP sessions, while they are asked for and once they stand.

use crate::one_group::OneGroup;
use lab::cause::{Cause, Phase};
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use testkit::faulty::{ConnectionFate, FateStep, Faulty};

/// MQTT 5. A client that subscribes says something when it is bound, for which a fate can wait.
pub const GROUP: &str = r#", "version": 5, "timeout": "2s", "subscribe": ["t"], "beats": false"#;

/// CONNACK of MQTT 5 without a word, and of 3.1.1 the same to the byte but one.
const CONNACK: [u8; 5] = [0x20, 3, 0, 0, 0];
const CONNACK_4: [u8; 4] = [0x20, 2, 0, 0];

fn say(bytes: &[u8]) -> FateStep {
    FateStep::Say(bytes.to_vec())
}

/// A fate that begins when the client (of MQTT 3.1.1, which subscribes) is online.
pub fn online(name: &'static str, then: impl Into<Vec<FateStep>>) -> ConnectionFate {
    begins(name, &CONNACK_4, then)
}

fn begins(name: &'static str, answer: &[u8], then: impl Into<Vec<FateStep>>) -> ConnectionFate {
    let steps = [FateStep::Hear, say(answer), FateStep::Hear].into_iter().chain(then.into());
    ConnectionFate::new(name, steps.collect::<Vec<_>>())
}

/// Has `each` clients meet every fate, and says what became of them.
fn meet(
    fates: Vec<(ConnectionFate, Phase, Cause)>,
    group: &str,
    url: &str,
) -> crate::one_group::Seen {
    let each = 3;
    let clients = each * fates.len() as u64;
    let names: Vec<&str> = fates.iter().map(|(fate, ..)| fate.name).collect();
    let want: Vec<_> = fates.iter().map(|(_, phase, cause)| (*phase, *cause, each)).collect();
    let server = Faulty::start(fates.into_iter().map(|(fate, ..)| fate).collect());
    let url = url.replace("ADDRESS", &server.address().to_string());
    let seen = OneGroup::call(&url, group, clients as u32).ends(clients);
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
    let asked = |name, steps: &[FateStep]| {
        let steps = [&[FateStep::Hear], steps].concat();
        ConnectionFate::new(name, steps)
    };
    let fates = vec![
        (
            asked("refused", &[say(&[0x20, 3, 0, 0x87, 0]), FateStep::Close]),
            Bind,
            Cause::BindRefused,
        ),
        (asked("mute", &[FateStep::Hold]), Bind, Cause::BindTimedOut),
        (asked("clean", &[FateStep::Close]), Bind, Cause::ClosedClean),
        (asked("half", &[say(&CONNACK[..2]), FateStep::Close]), Bind, Cause::ClosedMidFrame),
        (asked("reset", &[FateStep::Reset]), Bind, Cause::Reset),
        (asked("lies", &[say(&[0xd0, 0]), FateStep::Close]), Bind, Cause::ProtocolViolation),
    ];
    let seen = meet(fates, GROUP, "mqtt://ADDRESS");
    assert_eq!((seen.code("refused 135"), seen.0.bound), (3, 0), "{:?}", seen.0.codes);
}

#[test]
fn a_server_may_answer_late_in_time_and_too_late() {
    let pause = std::time::Duration::from_millis;
    let drip = |times| {
        let bytes: Vec<u8> = CONNACK.to_vec();
        let rest = FateStep::Say(bytes[1..].to_vec());
        [
            FateStep::Hear,
            FateStep::Stall(pause(times)),
            say(&bytes[..1]),
            rest,
            FateStep::Hear,
            FateStep::Close,
        ]
    };
    let fates = vec![
        (ConnectionFate::new("late", drip(50)), Phase::Online, Cause::ClosedClean),
        // It is not heard any more, so that its last step is the stall.
        (
            ConnectionFate::new("too late", [FateStep::Hear, FateStep::Stall(pause(3_500))]),
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
    let then = |name, steps: &[FateStep]| begins(name, &CONNACK, steps);
    let fates = vec![
        (then("clean", &[FateStep::Close]), Online, Cause::ClosedClean),
        (
            then("half", &[say(&[0x30, 10, 0, 1, b't']), FateStep::Close]),
            Online,
            Cause::ClosedMidFrame,
        ),
        (then("reset", &[FateStep::Reset]), Online, Cause::Reset),
        // Session taken over, MQTT 5 4.13.
        (then("kicked", &[say(&[0xe0, 2, 0x8e, 0]), FateStep::Close]), Online, Cause::Kicked),
        (then("lies", &[say(&[b'H'; 100]), FateStep::Close]), Online, Cause::ProtocolViolation),
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
    let fate = |name, bytes: Vec<u8>| {
        ConnectionFate::new(name, [FateStep::Hear, FateStep::Say(bytes), FateStep::Close])
    };
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
        ConnectionFate::new("away", [FateStep::Hear, FateStep::Say(away), FateStep::Hold]),
        ConnectionFate::new("stays", [FateStep::Hear, FateStep::Say(bound), FateStep::Hold]),
    ]);
    // One client meets one fate after the other.
    let group = r#", "product": "pk", "back_after": "1ms""#;
    let mut generator = OneGroup::call(&format!("miop://box:pk@{}", server.address()), group, 1);
    generator.wait("back", |seen| seen.bound == 2 && seen.online == 1);
    let seen = generator.stop();
    seen.are(&[(Phase::Online, Cause::Redirected, 1), (Phase::Online, Cause::RunOver, 1)]);
    assert_eq!((seen.0.figure("go_aways"), seen.0.figure("reconnects")), (1.0, 1.0));
    assert_eq!((server.count("away"), server.count("stays")), (1, 1));
}
