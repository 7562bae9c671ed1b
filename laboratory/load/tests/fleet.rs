//! A fleet against a tiny faulty server: each thing that happens is found under its name, and the
//! sums agree. The fate of a device follows from its number.

use lab::cause::{Cause, Phase};
use lab::plan::{Arrival, Pace, Traffic, What};
use lab::timing::Timing;
use load::{Fleet, FleetPlan, HeartbeatMode, Reconnect, Snapshot};
use model::id::ProductKey;
use model::ports::virtual_client::Action;
use proto_miop::client::Profile;
use proto_miop::codec::Version;
use proto_miop::codec::frame::{self, Frame, Opcode};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::PushRecord;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(300);
const BYTES_MAX: usize = 64 * 1024;

/// Fate of a device, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    Refused,
    RefusedOnce,
    CutMidFrame,
    NoAnswer,
    NoPong,
    Kicked,
    ClosedUnbound,
    Garbage,
}

/// Listens on a free port; each connection's fate is that of the device in its Bind.
fn server(fates: &'static [Fate]) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let binds = Arc::new(AtomicU32::new(0));
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let binds = binds.clone();
            let serve = move || drop(serve(stream, fates, &binds));
            std::thread::Builder::new().spawn(serve).expect("a thread");
        }
    };
    std::thread::Builder::new().spawn(accept).expect("a thread");
    address
}

fn props() -> Props<'static> {
    Props { result: Some(0), heartbeat: Some(300), ..Props::default() }
}

fn serve(mut stream: TcpStream, fates: &[Fate], binds: &AtomicU32) -> std::io::Result<()> {
    let (mut bytes, mut fate) = (Vec::new(), Fate::Well);
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..count]);
        let mut out = Vec::new();
        let mut taken = 0;
        while let Ok(Some((frame, length))) = frame::parse(&bytes[taken..], BYTES_MAX) {
            taken += length;
            if frame.opcode == Opcode::Bind {
                let id = frame.props.device_id.map(String::from_utf8_lossy).unwrap_or_default();
                let number: usize = id.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                fate = fates[number % fates.len()];
                let first = binds.fetch_add(1, Ordering::Relaxed) == 0;
                if !bind(fate, first, &mut out) {
                    stream.write_all(&out)?;
                    return leave(stream);
                }
            } else {
                answer(fate, &frame, &mut out);
            }
        }
        bytes.drain(..taken);
        stream.write_all(&out)?;
    }
}

/// Closes when the other side has: what it still sends would make a reset of the farewell.
fn leave(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    std::io::copy(&mut stream, &mut std::io::sink())?;
    Ok(())
}

/// Answers a Bind; false: closes then.
fn bind(fate: Fate, first: bool, out: &mut Vec<u8>) -> bool {
    let busy = Props { result: Some(30), retry_after_ms: Some(1), ..Props::default() };
    match fate {
        Fate::Refused => Frame::new(Opcode::BindAck, busy).write(out),
        Fate::RefusedOnce if first => Frame::new(Opcode::BindAck, busy).write(out),
        Fate::NoAnswer => return true,
        Fate::ClosedUnbound => return false,
        Fate::Garbage => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        _ => Frame::new(Opcode::BindAck, props()).write(out),
    }
    match fate {
        Fate::CutMidFrame => out.extend_from_slice(&[0, 7, 1, 3, 0, 0]),
        Fate::Kicked => {
            let kick = Props { result: Some(40), ..Props::default() };
            Frame::new(Opcode::Kick, kick).write(out);
        }
        Fate::Well => {
            let body = [&load::stamp::stamp()[..], b"hello"].concat();
            let record =
                PushRecord { id: 7, app_id: 1, flags: 0, expire_at: 0, collapse: b"", body: &body };
            let message = Frame::new(Opcode::Msg, Props::default());
            frame::write(&message, |out| record.write(out), out);
        }
        _ => {}
    }
    fate != Fate::CutMidFrame
}

fn answer(fate: Fate, frame: &Frame<'_>, out: &mut Vec<u8>) {
    match frame.opcode {
        Opcode::Ping if fate != Fate::NoPong => {
            Frame::new(Opcode::Pong, Props::default()).write(out);
        }
        Opcode::Report => {
            let taken = Props { report_seq: frame.seq, ..Props::default() };
            Frame::new(Opcode::ReportAck, taken).write(out);
        }
        Opcode::Unbind => Frame::new(Opcode::UnbindAck, Props::default()).write(out),
        _ => {}
    }
}

fn plan(to: SocketAddr, count: u32) -> FleetPlan {
    let product = ProductKey::parse("pk").expect("a valid key");
    let profile = Profile::new(Version::V7, product, "box");
    FleetPlan { heartbeat: HeartbeatMode::Never, ..FleetPlan::new(to, count, Arc::new(profile)) }
}

/// Runs until `until` holds, and looks at what is left after the stop.
fn fly(plan: FleetPlan, until: impl Fn(&Snapshot) -> bool) -> (Snapshot, Snapshot) {
    let fleet = Fleet::start(plan).expect("it starts");
    let reached = fleet.wait(until, DEADLINE);
    let seen = fleet.snapshot();
    assert!(reached, "{seen:?}");
    assert!(seen.conserved(), "{:?}", seen.accounts());
    let stopped = fleet.stop();
    assert!(stopped.conserved(), "{:?}", stopped.accounts());
    assert_eq!((stopped.online_now, stopped.connecting, stopped.asking), (0, 0, 0));
    (seen, stopped)
}

/// Traffic at this pace: heartbeats, or reports of 32 bytes.
fn traffic(what: What, pace: Pace) -> Traffic {
    Traffic {
        what,
        topic: None,
        addresses: Vec::new(),
        among: None,
        contacts: None,
        loops: None,
        qos: 0,
        retain: false,
        bytes: 32,
        messages: None,
        pace,
    }
}

#[test]
fn every_fate_is_counted_under_its_name() {
    const FATES: &[Fate] = &[
        Fate::Well,
        Fate::Refused,
        Fate::CutMidFrame,
        Fate::NoAnswer,
        Fate::NoPong,
        Fate::Kicked,
        Fate::ClosedUnbound,
        Fate::Garbage,
    ];
    let mut plan = plan(server(FATES), 16);
    plan.threads = 2;
    plan.timeout = Duration::from_millis(200);
    plan.traffic = vec![traffic(What::Heartbeat, Pace::Window(1))];
    let (seen, stopped) = fly(plan, |s| s.over == 12 && s.unanswered >= 2 && s.pongs >= 50);
    assert_eq!((seen.planned, seen.attempts, seen.established), (16, 16, 16));
    assert_eq!((seen.bound, seen.online_now, seen.codes.of("refused 30")), (8, 4, 2));
    let ends = [
        (Phase::Bind, Cause::BindRefused),
        (Phase::Bind, Cause::BindTimedOut),
        (Phase::Bind, Cause::ClosedClean),
        (Phase::Bind, Cause::ProtocolViolation),
        (Phase::Online, Cause::Kicked),
        (Phase::Online, Cause::ClosedMidFrame),
    ];
    for (phase, cause) in ends {
        assert_eq!(seen.causes.of(phase, cause), 2, "{phase:?} {cause:?} {:?}", seen.causes);
    }
    assert_eq!((seen.causes.sum(), seen.codes.of("kicked 40")), (12, 2));
    assert_eq!((seen.messages, seen.timings.of(Timing::Delivery).raw.count()), (2, 2));
    // On a busy machine some of those that are answered are answered late.
    let answered = seen.pongs + seen.late_pongs;
    assert_eq!(seen.unanswered, 2 + seen.late_pongs);
    assert_eq!(seen.open_pings, seen.pings - answered - seen.lost_pings);
    assert_eq!(seen.timings.of(Timing::Heartbeat).raw.count(), seen.pongs);
    assert_eq!(seen.timings.of(Timing::Ready).corrected.count(), 8);
    assert_eq!(stopped.causes.of(Phase::Online, Cause::RunOver), 4);
    assert_eq!((stopped.open_pings, stopped.over), (0, 16));
}

#[test]
fn a_closed_port_is_a_refused_call() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let (seen, _) = fly(plan(address, 3), |seen| seen.over == 3);
    assert_eq!(seen.causes.of(Phase::Connect, Cause::Refused), 3);
    assert_eq!((seen.attempts, seen.established), (3, 0));
}

#[test]
fn who_is_told_to_come_back_does() {
    let mut plan = plan(server(&[Fate::RefusedOnce]), 1);
    let (base, max) = (Duration::from_millis(1), Duration::from_millis(5));
    plan.reconnect = Reconnect::Backoff { base, max };
    let (seen, _) = fly(plan, |seen| seen.online_now == 1);
    assert_eq!((seen.attempts, seen.reconnects, seen.codes.of("refused 30")), (2, 1, 1));
    assert_eq!(seen.timings.of(Timing::Recovery).raw.count(), 1);
}

#[test]
fn orders_and_reports_reach_the_devices() {
    let mut plan = plan(server(&[Fate::Well]), 4);
    plan.first_number = 100;
    let fleet = Fleet::start(plan).expect("it starts");
    assert!(fleet.wait(|seen| seen.online_now == 4, DEADLINE));
    fleet.send(101..103, Action::Ping);
    assert!(fleet.wait(|seen| seen.pongs == 2, DEADLINE));
    fleet.send_from_now_on(&[traffic(What::Publish, Pace::Window(4))]).expect("it can");
    assert!(fleet.wait(|seen| seen.taken >= 100, DEADLINE));
    fleet.send_from_now_on(&[]).expect("it can");
    assert!(fleet.wait(|seen| seen.open == 0, DEADLINE));
    fleet.send(100..101, Action::Unbind);
    assert!(fleet.wait(|seen| seen.over == 1, DEADLINE));
    let seen = fleet.stop();
    assert!(seen.conserved(), "{:?}", seen.accounts());
    assert_eq!((seen.pings, seen.lost), (2, 0));
    let timed = seen.timings.of(Timing::Publish).raw.count();
    assert_eq!((timed, seen.sent), (seen.taken, seen.taken));
    assert_eq!(seen.causes.of(Phase::Online, Cause::Farewell), 1, "{:?}", seen.causes);
}

#[test]
fn planned_rates_are_kept() {
    let mut plan = plan(server(&[Fate::Well]), 10);
    plan.arrival = Arrival::Rate { per_s: 200.0 };
    plan.traffic = vec![
        traffic(What::Heartbeat, Pace::PerS(500.0)),
        traffic(What::Publish, Pace::PerS(500.0)),
    ];
    let enough = |seen: &Snapshot| seen.pongs >= 100 && seen.taken >= 100;
    let (seen, _) = fly(plan, enough);
    // Ten arrivals at 200 a second take at least 45 ms; nothing may come before its planned time.
    let most = |per_s: f64| (seen.elapsed.as_secs_f64() * per_s) as u64 + 2;
    assert!(seen.elapsed >= Duration::from_millis(45), "{:?}", seen.elapsed);
    assert!(seen.pings <= most(500.0) && seen.sent <= most(500.0), "{seen:?}");
}

#[test]
fn a_plan_of_so_many_messages_ends_with_the_last() {
    let mut plan = plan(server(&[Fate::Well]), 7);
    plan.threads = 2;
    let fleet = Fleet::start(plan).expect("it starts");
    assert!(fleet.wait(|seen| seen.online_now == 7, DEADLINE));
    let many = Traffic { messages: Some(101), ..traffic(What::Publish, Pace::PerS(5_000.0)) };
    let window = Traffic { messages: Some(50), ..traffic(What::Publish, Pace::Window(2)) };
    fleet.send_from_now_on(&[many, window]).expect("it can");
    assert!(fleet.wait(|seen| seen.taken == 151, DEADLINE), "{:?}", fleet.snapshot());
    let beats = Traffic { messages: Some(9), ..traffic(What::Heartbeat, Pace::PerS(1_000.0)) };
    fleet.send_from_now_on(&[beats]).expect("it can");
    assert!(fleet.wait(|seen| seen.pongs == 9, DEADLINE), "{:?}", fleet.snapshot());
    let seen = fleet.stop();
    assert_eq!((seen.sent, seen.pings, seen.dropped), (151, 9, 0));
}

#[test]
fn of_too_many_clients_the_last_ones_go_and_come_back_when_they_are_wanted() {
    let mut plan = plan(server(&[Fate::Well]), 20);
    plan.threads = 3;
    let fleet = Fleet::start(plan).expect("it starts");
    assert!(fleet.wait(|seen| seen.online_now == 20, DEADLINE));
    fleet.arrive(5, Arrival::Burst, Vec::new()).expect("it can");
    assert!(fleet.wait(|seen| seen.online_now == 5 && seen.over == 15, DEADLINE));
    let every = lab::plan::Span::from_millis(20);
    let steps = Arrival::Steps { clients: 10, every };
    fleet.arrive(40, steps, Vec::new()).expect("it can");
    assert!(fleet.wait(|seen| seen.online_now == 40, DEADLINE), "{:?}", fleet.snapshot());
    let seen = fleet.stop();
    assert!(seen.conserved(), "{:?}", seen.accounts());
    assert_eq!((seen.attempts, seen.causes.of(Phase::Online, Cause::Farewell)), (55, 15));
}

#[test]
fn thousands_that_are_too_many_are_not_called_while_they_are_dismissed() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let fleet = Fleet::start(plan(address, 3_000)).expect("it starts");
    assert!(fleet.wait(|seen| seen.over == 3_000, DEADLINE));
    fleet.arrive(0, Arrival::Burst, Vec::new()).expect("it can");
    assert!(fleet.wait(|seen| seen.planned == 0, DEADLINE));
    // A look is answered between two turns, and a turn dismisses a thousand.
    (0..5).for_each(|_| drop(fleet.snapshot()));
    let seen = fleet.stop();
    assert_eq!((seen.attempts, seen.over), (3_000, 3_000), "{seen:?}");
}

#[test]
fn a_wrong_plan_is_refused_in_words() {
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    let wrong = [
        FleetPlan { to: Vec::new(), ..plan(to, 1) },
        FleetPlan { arrival: Arrival::Rate { per_s: 0.0 }, ..plan(to, 1) },
        FleetPlan { traffic: vec![traffic(What::Heartbeat, Pace::PerS(f64::NAN))], ..plan(to, 1) },
        FleetPlan { traffic: vec![traffic(What::Request, Pace::PerS(1.0))], ..plan(to, 1) },
        FleetPlan { first_number: u32::MAX, ..plan(to, 1) },
    ];
    for plan in wrong {
        assert!(Fleet::start(plan).is_err_and(|message| !message.is_empty()));
    }
}

#[test]
fn a_handshake_without_answer_is_given_up() {
    let mut plan = plan(server(&[Fate::NoAnswer]), 1);
    plan.timeout = Duration::from_millis(100);
    plan.layers.tls = Some(load::trust::towards("localhost", None).expect("TLS can be used"));
    let (seen, _) = fly(plan, |seen| seen.over == 1);
    assert_eq!((seen.causes.of(Phase::Layers, Cause::LayersTimedOut), seen.established), (1, 0));
}
