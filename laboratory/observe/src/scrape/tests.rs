//! Pages as servers send them, and as they should not.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: &str = r#"# HELP holdline_connections Open.
# TYPE holdline_connections gauge
holdline_connections 12
# TYPE holdline_connections_closed_total counter
holdline_connections_closed_total{reason="slow_consumer"} 3
holdline_connections_closed_total{reason="farewell",shard="1"} 4 1700000000
holdline_connections_closed_total{shard="2",reason="farewell"} 5
# TYPE rpc_seconds histogram
rpc_seconds_bucket{le="0.1"} 7
rpc_seconds_bucket{le="+Inf"} 9
rpc_seconds_sum 1.5
rpc_seconds_count 9
# TYPE gc summary
gc{quantile="0.5"} 3
gc_sum 4
process_resident_memory_bytes 4.096e+06
requests_total{path="/a\"} b{",reason="odd value"} 2
# TYPE opened counter
opened_total 6
opened_created 1700000000
free NaN
over +Inf
"#;

#[test]
fn samples_are_summed_and_important_labels_kept_apart() {
    let (reading, left_out) = figures(PAGE);
    assert!(left_out.is_empty());
    let all: Vec<(String, FigureKind, Unit, f64)> = reading
        .iter()
        .map(|(column, value)| (column.name.to_string(), column.kind, column.unit, *value))
        .collect();
    let of = |name: &str, kind, unit, value| (name.to_owned(), kind, unit, value);
    let (total, gauge) = (FigureKind::Total, FigureKind::Gauge);
    let closed = "holdline_connections_closed_total";
    assert_eq!(
        all,
        [
            of("holdline_connections", gauge, Unit::Count, 12.0),
            of(closed, total, Unit::Count, 12.0),
            of(&format!("{closed}.slow_consumer"), total, Unit::Count, 3.0),
            of(&format!("{closed}.farewell"), total, Unit::Count, 9.0),
            of("rpc_seconds_sum", total, Unit::Seconds, 1.5),
            of("rpc_seconds_count", total, Unit::Count, 9.0),
            of("gc_sum", total, Unit::Count, 4.0),
            of("process_resident_memory_bytes", gauge, Unit::Bytes, 4_096_000.0),
            of("requests_total", total, Unit::Count, 2.0),
            of("opened_total", total, Unit::Count, 6.0),
        ]
    );
}

#[test]
fn nonsense_is_left_out_and_figures_are_bounded() {
    for line in [
        "",
        "a",
        "a b",
        "{} 1",
        "a{ 1",
        "a{b} 1",
        "a{b=\"} 1",
        "a{b=\"\\\"} 1",
        "<html> 1",
        "é 1",
        "# TYPE",
        "# TYPE a",
        "a{b=\"c\"}",
        "a{,,b=\"c\"",
        "\0 1",
    ] {
        assert_eq!(figures(line).0.iter().count(), 0, "{line}");
    }
    let long = "a".repeat(NAME_MAX + 1) + " 1";
    assert_eq!(figures(&long).0.iter().count(), 0);
    let many: String = (0..FIGURES_MAX + 9).map(|at| format!("a{at} 1\n")).collect();
    let (reading, left_out) = figures(&many);
    assert_eq!((reading.iter().count(), left_out.len()), (FIGURES_MAX, 9));
    assert_eq!(left_out[0], format!("a{FIGURES_MAX}"));
    assert_eq!(reading.of("a0"), Some(1.0));
    let twice = many.clone() + &many;
    assert_eq!(figures(&twice).0.of("a0"), Some(2.0));
}

/// Answers the calls to come with these, one connection each.
fn server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/metrics", socket.local_addr().expect("it is bound"));
    let serve = move || {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = socket.accept().expect("a call");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a whole head");
                head.push(byte[0]);
            }
            heads.push(String::from_utf8_lossy(&head).to_lowercase());
            // A page that is too large is not read to its end.
            let _ = stream.write_all(&answer);
        }
        heads
    };
    let thread = std::thread::Builder::new().name("page".to_owned()).spawn(serve);
    (url, thread.expect("a thread"))
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Each reading is seven microseconds after the one before.
fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(7, Ordering::Relaxed)
}

#[test]
fn what_is_left_out_is_told_by_name_and_the_page_is_timed() {
    let many: String = (0..FIGURES_MAX + 9).map(|at| format!("a{at} 1\n")).collect();
    let (url, server) = server(vec![answer("200 OK", &many)]);
    let mut scrape = Scrape::new(&url).timed(clock);
    let reading = scrape.read();
    assert_eq!(reading.of("scrape_us"), Some(7.0));
    let told = scrape.trouble().expect("nine are left out");
    assert!(told.contains("; 9 are left out, the first of them a"), "{told}");
    server.join().expect("it served");
}

#[test]
fn trouble_is_told_once_until_it_is_over() {
    let answers = [
        answer("401 Unauthorized", "no"),
        answer("401 Unauthorized", "no"),
        answer("200 OK", PAGE),
        answer("401 Unauthorized", "no"),
        answer("200 OK", &"a".repeat(PAGE_BYTES_MAX as usize + 1)),
    ];
    let (url, server) = server(answers.to_vec());
    let mut scrape = Scrape::new(&url).bearer(Some("abc".to_owned()));
    assert_eq!(scrape.read().iter().count(), 0);
    let told = scrape.trouble().expect("it was refused");
    assert!(told.trim_start_matches(&url).contains("401"), "{told}");
    scrape.read();
    assert_eq!(scrape.trouble(), None);
    assert_eq!(scrape.read().of("holdline_connections"), Some(12.0));
    assert_eq!(scrape.trouble(), None);
    scrape.read();
    assert!(scrape.trouble().is_some_and(|told| told.trim_start_matches(&url).contains("401")));
    assert_eq!(scrape.read().iter().count(), 0);
    // The port may have these digits too.
    let told = scrape.trouble().expect("it was too long");
    assert!(!told.trim_start_matches(&url).contains("401"), "{told}");
    let heads = server.join().expect("it served");
    assert!(heads.iter().all(|head| head.contains("authorization: bearer abc\r\n")), "{heads:?}");
    // Now nobody is there.
    scrape.read();
    assert!(scrape.trouble().is_some());
}
