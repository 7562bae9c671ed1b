//! A fleet against a tiny faulty server: each thing that happens is found under its name, and the
//! sums agree. What a device meets follows from its number.

use load::{Fleet, FleetPlan, Heartbeat, Reconnect, ReportPace, ReportPlan, Snapshot, Think};
use model::close::CloseReason;
use model::id::ProductKey;
use model::pilot::Action;
use proto_miop::client::Profile;
use proto_miop::codec::Version;
use proto_miop::codec::frame::{self, Frame, Opcode};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::Record;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(20);
const BYTES_MAX: usize = 64 * 1024;

/// What a device meets, by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    Refused,
    Blocked,
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
                    return Ok(());
                }
            } else {
                answer(fate, &frame, &mut out);
            }
        }
        bytes.drain(..taken);
        stream.write_all(&out)?;
    }
}

/// Answers a Bind; false: closes then.
fn bind(fate: Fate, first: bool, out: &mut Vec<u8>) -> bool {
    let busy = Props { result: Some(30), retry_after_ms: Some(1), ..Props::default() };
    match fate {
        Fate::Refused => Frame::new(Opcode::BindAck, busy).write(out),
        Fate::RefusedOnce if first => Frame::new(Opcode::BindAck, busy).write(out),
        Fate::Blocked => {
            let blocked = Props { result: Some(24), ..Props::default() };
            Frame::new(Opcode::BindAck, blocked).write(out);
        }
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
                Record { id: 7, app_id: 1, flags: 0, expire_at: 0, collapse: b"", body: &body };
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
    FleetPlan { heartbeat: Heartbeat::Never, ..FleetPlan::new(to, count, Arc::new(profile)) }
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
    plan.heartbeat = Heartbeat::ClosedLoop(Think::Fixed(Duration::from_millis(1)));
    let (seen, stopped) = fly(plan, |s| s.over == 12 && s.unanswered >= 2 && s.pongs >= 50);
    assert_eq!((seen.planned, seen.attempts, seen.established), (16, 16, 16));
    assert_eq!((seen.bound, seen.online_now, seen.refused.of(30)), (8, 4, 2));
    assert_eq!(seen.kicked.of(40), 2);
    assert_eq!(seen.closed.of(CloseReason::PeerClosedMidFrame), 2);
    assert_eq!(seen.bind_failed.of(CloseReason::BindTimeout), 2);
    assert_eq!(seen.bind_failed.of(CloseReason::PeerClosed), 2);
    assert_eq!(seen.bind_failed.sum(), 6, "{:?}", seen.bind_failed);
    assert_eq!((seen.messages, seen.push_us.len()), (2, 2));
    assert_eq!((seen.unanswered, seen.open_pings), (2, seen.pings - seen.pongs));
    assert_eq!(seen.heartbeat_us.len(), seen.pongs);
    assert_eq!(stopped.closed.of(CloseReason::ServerStopped), 4);
    assert_eq!((stopped.open_pings, stopped.over), (0, 16));
}

#[test]
fn a_closed_port_is_a_refused_call() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let (seen, _) = fly(plan(address, 3), |seen| seen.over == 3);
    assert_eq!(seen.connect_failed.of(CloseReason::ConnectRefused), 3);
    assert_eq!((seen.attempts, seen.established), (3, 0));
}

#[test]
fn who_is_told_to_come_back_does() {
    let mut plan = plan(server(&[Fate::RefusedOnce]), 1);
    let (base, max) = (Duration::from_millis(1), Duration::from_millis(5));
    plan.reconnect = Reconnect::Backoff { base, max };
    let (seen, _) = fly(plan, |seen| seen.online_now == 1);
    assert_eq!((seen.attempts, seen.reconnects, seen.refused.of(30)), (2, 1, 1));
}

#[test]
fn orders_and_reports_reach_the_devices() {
    let mut plan = plan(server(&[Fate::Well]), 4);
    plan.first_number = 100;
    let fleet = Fleet::start(plan).expect("it starts");
    assert!(fleet.wait(|seen| seen.online_now == 4, DEADLINE));
    fleet.send(101..103, Action::Ping);
    assert!(fleet.wait(|seen| seen.pongs == 2, DEADLINE));
    fleet.set_reports(Some(ReportPlan { bytes: 32, pace: ReportPace::Window(4) }));
    assert!(fleet.wait(|seen| seen.taken_reports >= 100, DEADLINE));
    fleet.set_reports(None);
    assert!(fleet.wait(|seen| seen.open_reports == 0, DEADLINE));
    fleet.send(100..101, Action::Unbind);
    assert!(fleet.wait(|seen| seen.over == 1, DEADLINE));
    let seen = fleet.stop();
    assert!(seen.conserved(), "{:?}", seen.accounts());
    assert_eq!((seen.pings, seen.lost_reports), (2, 0));
    assert_eq!((seen.report_us.is_empty(), seen.reports), (false, seen.taken_reports));
    assert_eq!(seen.closed.of(CloseReason::OwnStop), 1, "{:?}", seen.closed);
}

#[test]
fn planned_rates_are_kept() {
    let mut plan = plan(server(&[Fate::Well]), 10);
    plan.connects_per_s = Some(200.0);
    plan.heartbeat = Heartbeat::Rate(500.0);
    plan.reports = Some(ReportPlan { bytes: 8, pace: ReportPace::Rate(500.0) });
    let enough = |seen: &Snapshot| seen.pongs >= 100 && seen.taken_reports >= 100;
    let (seen, _) = fly(plan, enough);
    // Ten arrivals at 200 a second take at least 45 ms; nothing may come before its planned time.
    let most = |per_s: f64| (seen.elapsed.as_secs_f64() * per_s) as u64 + 1;
    assert!(seen.elapsed >= Duration::from_millis(45), "{:?}", seen.elapsed);
    assert!(seen.pings <= most(500.0) && seen.reports <= most(500.0), "{seen:?}");
}

#[test]
fn a_fleet_ends_by_itself() {
    let mut plan = plan(server(&[Fate::Well]), 2);
    plan.stop_after = Some(Duration::from_millis(50));
    let (seen, _) = fly(plan, Snapshot::is_over);
    assert_eq!(seen.closed.sum() + seen.bind_failed.sum() + seen.connect_failed.sum(), 2);
}

#[test]
fn a_wrong_plan_is_refused_in_words() {
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    let wrong = [
        FleetPlan { count: 0, ..plan(to, 1) },
        FleetPlan { to: Vec::new(), ..plan(to, 1) },
        FleetPlan { connects_per_s: Some(0.0), ..plan(to, 1) },
        FleetPlan { heartbeat: Heartbeat::Rate(f64::NAN), ..plan(to, 1) },
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
    plan.layers.tls = Some(load::trust::anybody("localhost").expect("TLS can be used"));
    let (seen, _) = fly(plan, |seen| seen.over == 1);
    assert_eq!((seen.connect_failed.of(CloseReason::TimedOut), seen.established), (1, 0));
}

#[test]
fn wrk_ends_when_no_device_will_come_back() {
    let url = format!("miop://box:pk@{}/", server(&[Fate::Blocked]));
    let line = ["-t", "2", "-c", "4", "--latency", &url, "-d", "30s", "--timeout", "15"];
    assert_eq!(load::wrk::run(line.map(str::to_owned).to_vec()), 0);
}
