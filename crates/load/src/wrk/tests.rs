//! The command line, and the printed block against a text with figures that no clock has made.

use super::*;
use crate::Snapshot;
use crate::effort::ThreadUse;
use crate::snapshot::note;
use model::close::CloseReason;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn run_of(line: &str) -> Arguments {
    match parse(&words(line)) {
        Ok(Wish::Run(arguments)) => *arguments,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_reports_line_parses_but_for_its_script() {
    let line = "miop://box7:pk@10.0.0.1:7000/ -t 12 -c 60000 --latency -d 120m --timeout 15";
    let got = run_of(line);
    assert_eq!((got.threads, got.connections, got.latency), (12, 60_000, true));
    assert_eq!((got.duration.as_secs(), got.timeout.as_secs()), (7_200, 15));
    let target = &got.target;
    assert_eq!((target.prefix.as_str(), target.product.as_str()), ("box7", "pk"));
    assert_eq!((target.host.as_str(), target.port, target.version), ("10.0.0.1", 7_000, 7));
    let refused = parse(&words(&format!("{line} -s delay.lua"))).expect_err("no scripts yet");
    assert!(refused.contains("laboratory"), "{refused}");
}

#[test]
fn flags_may_be_glued_and_stand_anywhere() {
    let got =
        run_of("-t1 -c1k miops://h:p@[::1]:9/?version=6&secret=00ff&keep=300 --duration=5s -L");
    assert_eq!((got.threads, got.connections, got.latency), (1, 1_000, true));
    let target = &got.target;
    assert_eq!((target.scheme, target.host.as_str()), (Scheme::Miops, "[::1]"));
    assert_eq!((target.version, target.keep_s), (6, 300));
    assert_eq!(target.secret.as_deref(), Some(&[0u8, 255][..]));
    let defaults = run_of("ws://h:p@localhost:80/miop -R 2k");
    assert_eq!((defaults.threads, defaults.connections), (2, 10));
    assert_eq!((defaults.duration.as_secs(), defaults.timeout.as_secs()), (10, 2));
    assert_eq!((defaults.rate, defaults.target.path.as_str()), (Some(2_000.0), "/miop"));
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = [
        ("", "no URL"),
        ("miop://h:p@x:1/ -q", "`-q` is not known"),
        ("miop://h:p@x:1/ --frob=1", "`--frob=1` is not known"),
        ("miop://h:p@x:1/ -c", "needs a value"),
        ("miop://h:p@x:1/ -c ten", "-c ten"),
        ("miop://h:p@x:1/ -c 1 -t 2", ">= threads"),
        ("miop://h:p@x:1/ extra", "too many"),
        ("miop://h:p@x:1/ --latency=9", "takes no value"),
        ("mqtt://h:p@x:1/", "comes with its protocol"),
        ("gopher://h:p@x:1/", "not known"),
        ("miop://x:1/", "HOST:PRODUCT@"),
        ("miop://h@x:1/", "HOST:PRODUCT@"),
        ("miop://h:p@x/", "no port"),
        ("miop://h:p@x:99999/", "port"),
        ("miop://h:p@x:1/?version=4", "5, 6 and 7"),
        ("miop://h:p@x:1/?secret=0", "hex"),
        ("miop://h:p@x:1/?sekret=00", "`sekret` is not known"),
        ("miop://h:p@x:1/ -d 0", "above zero"),
    ];
    for (line, message) in wrong {
        let got = parse(&words(line)).expect_err(line);
        assert!(got.contains(message), "{line}: {got}");
    }
    assert_eq!(run(words("miop://h:p@127.0.0.1:1/ --frob")), 1);
    assert_eq!(parse(&words("-v")), Ok(Wish::Version));
}

#[test]
fn device_ids_are_checked_before_the_run() {
    let long = "x".repeat(63);
    let arguments = run_of(&format!("miop://{long}:p@127.0.0.1:1/ -c 100"));
    let refused = plan(&arguments).err().expect("65 bytes are too long");
    assert!(refused.contains("longer than 64"), "{refused}");
    assert!(plan(&run_of("miop://h:p@127.0.0.1:1/ -c 100")).is_ok());
}

#[test]
fn too_many_connections_are_refused_with_the_remedy() {
    let refused = check_descriptors(60_000, 20_000).expect_err("20,000 are too few");
    assert!(refused.contains("ulimit -n 60128") && refused.contains("19872"), "{refused}");
}

#[test]
fn the_block_is_printed_as_wrk_prints_it() {
    let arguments = run_of(
        "miop://h:pk@127.0.0.1:7000/?secret=aa&key_id=2 -t 2 -c 4 -d 30s --latency --timeout 15",
    );
    let seen = fixed();
    assert!(seen.conserved(), "{:?}", seen.accounts());
    let cpu = Duration::from_millis(12_340);
    let run = Run { arguments: &arguments, seen: &seen, stopped: &seen, cpu };
    let text = format!("{}{}", block::opening(&arguments), print(&run));
    assert_eq!(text, include_str!("golden.txt"));
}

/// The text's figures.
fn fixed() -> Snapshot {
    let mut seen = Snapshot {
        elapsed: Duration::from_millis(30_010),
        planned: 4,
        attempts: 7,
        reconnects: 3,
        established: 6,
        bound: 4,
        online_now: 2,
        pings: 1_003,
        pongs: 1_000,
        late_pongs: 1,
        lost_pings: 1,
        open_pings: 1,
        unanswered: 2,
        bytes_in: 5_000_000,
        ..Snapshot::default()
    };
    seen.refused.count(30);
    seen.connect_failed.count(CloseReason::ConnectRefused);
    seen.bind_failed.count(CloseReason::BindTimeout);
    seen.closed.count(CloseReason::PeerClosedMidFrame);
    seen.kicked.count(40);
    for value in 1..=1_000 {
        note(&mut seen.heartbeat_us, value);
    }
    note(&mut seen.heartbeat_us, 16_000_000);
    [200, 300, 400, 500].into_iter().for_each(|us| note(&mut seen.bind_us, us));
    [90, 100, 110].into_iter().for_each(|us| note(&mut seen.connect_us, us));
    [30, 33, 34, 36].into_iter().for_each(|rate| note(&mut seen.requests_per_s, rate));
    let (elapsed, ran) = (seen.elapsed, Duration::from_millis(28_000));
    let waited = Duration::from_millis(1_000);
    seen.threads.push(ThreadUse { elapsed, ran, waited, turn_us_max: 1_500 });
    seen
}
