//! Connections that ask nothing, too slowly, or do not listen: none of them keeps others out.

use super::*;
use model::ports::control::Status;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

fn test_api(api: ApiLimits) -> TestApi {
    TestApi::with(Settings { api, ..settings() }, |_| Answer::Status(Box::<Status>::default()))
}

/// A connection that gives up a read after a time in which any machine has answered.
pub(super) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream.set_write_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

/// All that comes until the server ends it.
pub(super) fn ended(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it was not ended: {error}"),
    }
    String::from_utf8_lossy(&text).into_owned()
}

pub(super) fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

/// The head and the announced body of one answer.
pub(super) fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        text.push(byte[0]);
        if let Some(head) = text.strip_suffix(b"\r\n\r\n") {
            let head = String::from_utf8_lossy(head).to_lowercase();
            let length = head.split("content-length: ").nth(1).expect("a length");
            let length = length.lines().next().and_then(|text| text.parse().ok()).expect("whole");
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            text.extend(body);
            return String::from_utf8(text).expect("text");
        }
    }
}

#[test]
fn idle_connections_do_not_close_the_api() {
    let test_api = test_api(ApiLimits { connections_max: 8, ..ApiLimits::default() });
    let mut known = connect(test_api.addr());
    known.write_all(request("/v1/status").as_bytes()).expect("sent");
    assert!(answer(&mut known).starts_with("HTTP/1.1 200"));
    let idle: Vec<_> = (0..100).map(|_| connect(test_api.addr())).collect();
    assert_eq!(test_api.json("GET", "/v1/status", "").0, 200);
    for stream in idle.into_iter().take(80) {
        assert_eq!(ended(stream), "", "the oldest that have asked nothing give way");
    }
    known.write_all(request("/v1/status").as_bytes()).expect("sent");
    assert!(answer(&mut known).starts_with("HTTP/1.1 200"), "who is known stays");
    let (_, text, _) = test_api.send("GET", "/metrics", "");
    let figure = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("holdline_{name} ")));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).expect("a figure")
    };
    assert!(figure("api_connections_evicted_total") >= 94);
    assert!(figure("api_connections") <= 8);
}

#[test]
fn where_all_are_answered_one_more_is_told_to_come_back() {
    let test_api = test_api(ApiLimits { connections_max: 1, ..ApiLimits::default() });
    let stream = stream::Client::open(&test_api, "", None);
    let told = ended(connect(test_api.addr()));
    let (head, body) = told.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("Retry-After: 1"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{told}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    description::check_named("ApiError", &body);
    assert_eq!(body["error"]["code"], "busy");
    drop(stream);
    // The stream's end is seen when it is: until then one is told the same.
    while test_api.send("GET", "/v1/status", "").0 != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn a_head_has_its_time_however_it_trickles() {
    let test_api = test_api(ApiLimits { head_ms_max: 100, ..ApiLimits::default() });
    assert_eq!(ended(connect(test_api.addr())), "", "nothing came");
    let mut stream = connect(test_api.addr());
    stream.set_read_timeout(Some(Duration::from_millis(5))).expect("set");
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").expect("sent");
    // As long as it is not ended, a byte more: it would have all day.
    let over = (0..20_000).any(|_| {
        let sent = stream.write_all(b"x");
        let read = stream.read(&mut [0; 64]);
        let waits = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        sent.is_err() || !read.is_err_and(|error| waits(&error))
    });
    assert!(over);
}

#[test]
fn a_known_caller_may_be_idle_for_longer_and_not_for_ever() {
    let limits = ApiLimits { head_ms_max: 60_000, idle_ms_max: 100, ..ApiLimits::default() };
    let test_api = test_api(limits);
    let mut known = connect(test_api.addr());
    known.write_all(request("/v1/status").as_bytes()).expect("sent");
    assert!(answer(&mut known).starts_with("HTTP/1.1 200"));
    assert_eq!(ended(known), "");
}

#[test]
fn a_stranger_gains_no_time_by_being_refused() {
    let limits = ApiLimits { head_ms_max: 100, idle_ms_max: 600_000, ..ApiLimits::default() };
    let test_api = test_api(limits);
    let mut stranger = connect(test_api.addr());
    stranger.write_all(b"GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    assert!(answer(&mut stranger).starts_with("HTTP/1.1 401"));
    assert_eq!(ended(stranger), "");
}

#[test]
fn a_body_that_trickles_is_refused_in_time() {
    let test_api = test_api(ApiLimits { body_ms_max: 50, ..ApiLimits::default() });
    let mut stream = connect(test_api.addr());
    let head =
        request("/v1/publish").replace("GET", "POST").replace("Host: a", "Content-Length: 9");
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(b"{").expect("sent");
    let told = answer(&mut stream);
    assert!(told.starts_with("HTTP/1.1 408") && told.contains("slow_body"), "{told}");
}

#[test]
fn who_takes_nothing_of_what_it_is_sent_is_cut_off() {
    let test_api =
        test_api(ApiLimits { write_ms_max: 50, head_ms_max: 600_000, ..ApiLimits::default() });
    let mut stream = connect(test_api.addr());
    let asked = request("/openapi.json");
    // Answers of many megabytes, none of them read.
    let failed = (0..100_000).any(|_| stream.write_all(asked.as_bytes()).is_err());
    assert!(failed, "it was read on and on");
}

#[test]
fn bodies_share_a_bounded_room() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let whole = |room: &Arc<tokio::sync::Semaphore>| {
        let body = axum::body::Body::from(vec![b'x'; 5_000]);
        runtime.block_on(body::whole(body, (10_000, 60_000), room))
    };
    let room = Arc::new(tokio::sync::Semaphore::new(9));
    let first = whole(&room).expect("there is room");
    assert_eq!((first.0.len(), room.available_permits()), (5_000, 4));
    let busy = whole(&room).map(drop).expect_err("there is not");
    assert_eq!(busy.code(), "busy");
    drop(first);
    assert_eq!(room.available_permits(), 9);
    whole(&room).expect("there is room again");
}

#[test]
fn room_for_bodies_grows_at_once_and_shrinks_as_bodies_end() {
    let room = body::BodyRoom::new(9);
    let held = Arc::clone(room.room()).try_acquire_many_owned(6).expect("there is room");
    room.set(4);
    assert_eq!(room.room().available_permits(), 0);
    drop(held);
    assert_eq!(room.room().available_permits(), 4, "no more than there should be");
    room.set(20);
    assert_eq!(room.room().available_permits(), 20);
}

#[test]
fn limits_that_a_reload_changes_hold_from_then_on() {
    let test_api = test_api(ApiLimits::default());
    let handle = test_api.running.as_ref().expect("runs").handle();
    let set = |api: ApiLimits| handle.set_limits(&Arc::new(Limits::default()), &api);
    let make = |name: &str| {
        let order = format!("{{\"name\":\"{name}\",\"scopes\":[\"read\"]}}");
        test_api.send("POST", "/v1/tokens", &order).0
    };
    let first = make("a");
    assert!((200..300).contains(&first), "{first}");
    set(ApiLimits { tokens_max: 1, streams_max: 0, ..ApiLimits::default() });
    assert!(make("b") >= 400, "no more tokens");
    assert_eq!(test_api.send("GET", "/v1/events", "").0, 503, "no streams");
    set(ApiLimits { tokens_max: 2, ..ApiLimits::default() });
    assert_eq!(make("b"), first);
}
