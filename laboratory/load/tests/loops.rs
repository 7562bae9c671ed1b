//! Open and closed loop against a tiny server that echoes, and stalls for a known time when told:
//! corrected times show the stall, raw ones do not.

use lab::generator::{LoadGenerator, Look};
use lab::order::Order;
use lab::plan::Arrival;
use lab::timing::Timing;
use load::LocalGenerator;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(300);
const STALL: Duration = Duration::from_millis(800);

/// A server that answers with what it got (TCP) or with a small page for each request (HTTP). At
/// the answer with this number it stalls, all connections with it.
struct Echo {
    to: SocketAddr,
    answers: Arc<AtomicU64>,
}

impl Echo {
    fn start(is_http: bool, stalls_at: u64) -> Echo {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let to = listener.local_addr().expect("it is bound");
        let answers = Arc::new(AtomicU64::new(0));
        let counted = answers.clone();
        let gate = Arc::new(std::sync::Mutex::new(()));
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let (counted, gate) = (counted.clone(), gate.clone());
                let serve = move || {
                    // A connection that ends is no matter here.
                    let _ = serve(stream, is_http, &counted, &gate, stalls_at);
                };
                std::thread::Builder::new().spawn(serve).expect("a thread");
            }
        };
        std::thread::Builder::new().spawn(accept).expect("a thread");
        Echo { to, answers }
    }
}

fn serve(
    mut stream: TcpStream,
    is_http: bool,
    answers: &AtomicU64,
    gate: &std::sync::Mutex<()>,
    stalls_at: u64,
) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let open = gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if answers.fetch_add(1, Ordering::Relaxed) + 1 == stalls_at {
            std::thread::sleep(STALL); // what is measured
        }
        drop(open);
        match is_http {
            true => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")?,
            false => stream.write_all(&buffer[..count])?,
        }
    }
}

fn generator(url: &str, clients: u32, traffic: &str) -> LocalGenerator {
    let mut generator = LocalGenerator::new(7);
    let group = format!(r#"{{"name": "a", "url": ["{url}"], "threads": 1}}"#);
    let group = serde_json::from_str(&group).expect("a group");
    generator
        .order(&Order::Found { group: Box::new(group), clients_max: 0 })
        .expect("it can be founded");
    let group = || "a".to_owned();
    let arrival = Arrival::Burst;
    generator.order(&Order::Arrive { group: group(), clients, arrival }).expect("they can come");
    wait(&mut generator, |look| look.total().online == u64::from(clients));
    let traffic = serde_json::from_str(traffic).expect("traffic");
    generator.order(&Order::Traffic { group: group(), traffic }).expect("it can be sent");
    generator
}

fn wait(generator: &mut LocalGenerator, until: impl Fn(&Look) -> bool) -> Look {
    let began = load::fleet::instant();
    loop {
        let look = generator.look();
        if until(&look) {
            return look;
        }
        assert!(load::fleet::instant() - began < DEADLINE, "{:#?}", look.total());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Open loop at 500 a second for four seconds, with a stall in the middle.
fn stalled(scheme: &str, is_http: bool) {
    let echo = Echo::start(is_http, 1_000);
    let url = format!("{scheme}://{}", echo.to);
    let plan = r#"[{"what": "request", "messages": 2000, "pace": {"per_s": 500}}]"#;
    let mut generator = generator(&url, 4, plan);
    let look = wait(&mut generator, |look| look.total().figure("requests.answered") == 2_000.0);
    let total = look.total();
    let timed = total.timings.of(Timing::Request);
    let stall_us = STALL.as_micros() as u64;
    // 400 of 2,000 were planned during the stall: a fifth waited, the first for all of it.
    assert!(timed.corrected.at(99.0) > stall_us * 9 / 10, "{scheme} {:?}", timed.corrected);
    assert!(timed.corrected.at(85.0) > stall_us / 10, "{scheme} {:?}", timed.corrected);
    // Four were really under way.
    assert!(timed.raw.at(99.0) < stall_us / 2, "{scheme} {:?}", timed.raw);
    assert!(timed.raw.max() > stall_us * 9 / 10, "{scheme} {:?}", timed.raw);
    assert_eq!((timed.raw.count(), timed.corrected.count()), (2_000, 2_000));
    assert_eq!((total.figure("dropped"), total.figure("messages.unsent")), (0.0, 0.0));
    generator.order(&Order::Stop).expect("it can stop");
    let total = generator.look().total();
    assert!(total.accounts.iter().all(|account| account.agrees()), "{:?}", total.accounts);
    // Of HTTP each client's first request is its Bind.
    let binds = if is_http { 4 } else { 0 };
    assert_eq!(echo.answers.load(Ordering::Relaxed), 2_000 + binds);
}

#[test]
fn a_stall_shows_in_corrected_times_alone_over_http() {
    stalled("http", true);
}

#[test]
fn a_stall_shows_in_corrected_times_alone_over_tcp() {
    stalled("tcp", false);
}

#[test]
fn a_closed_loop_keeps_its_window_and_knows_one_time() {
    let echo = Echo::start(false, u64::MAX);
    let url = format!("tcp://{}", echo.to);
    let mut generator = generator(&url, 3, r#"[{"what": "request", "pace": {"window": 1}}]"#);
    let look = wait(&mut generator, |look| look.total().figure("requests.answered") >= 500.0);
    let total = look.total();
    let timed = total.timings.of(Timing::Request);
    assert_eq!(timed.corrected, timed.raw);
    let open = total.figure("requests.sent") - total.figure("requests.answered");
    assert!(open <= 3.0, "{open}");
}

#[test]
fn connections_are_held_with_nothing_sent() {
    let echo = Echo::start(false, u64::MAX);
    let mut generator = generator(&format!("tcp://{}", echo.to), 50, "[]");
    generator.order(&Order::Stop).expect("it can stop");
    let total = generator.look().total();
    assert_eq!((total.bound, total.figure("bytes.out")), (50, 0.0));
    assert_eq!(echo.answers.load(Ordering::Relaxed), 0);
}
