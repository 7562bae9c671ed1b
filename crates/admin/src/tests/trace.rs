//! Traces by the API: who may, what is wished for, what is told, and when it ends.

use super::description::document;
use super::*;
use model::ports::trace::{
    PayloadShown, Trace, TraceDirection, TraceEvent, TraceOrder, TracePayload, TraceRefusal,
    TraceScope, TraceSink, TraceTold, TraceValue,
};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

/// Traces that the test tells what to say; each gives its sink to the test, if one listens.
pub(super) struct FakeTraces {
    begun: Mutex<Option<SyncSender<(TraceOrder, TraceSink)>>>,
    ended: Mutex<Option<SyncSender<()>>>,
    full: bool,
}

impl FakeTraces {
    /// Of which each ends at once.
    pub(super) fn none() -> FakeTraces {
        FakeTraces { begun: Mutex::default(), ended: Mutex::default(), full: false }
    }
}

struct FakeTrace(Option<SyncSender<()>>);

impl Trace for FakeTrace {}

impl Drop for FakeTrace {
    fn drop(&mut self) {
        if let Some(ended) = &self.0 {
            // The test may have heard enough.
            let _ = ended.try_send(());
        }
    }
}

impl Traces for FakeTraces {
    fn follow(&self, order: TraceOrder, sink: TraceSink) -> Result<Box<dyn Trace>, TraceRefusal> {
        if self.full {
            return Err(TraceRefusal::Full);
        }
        if let Some(begun) = &*self.begun.lock().expect("no panic") {
            begun.send((order, sink)).expect("the test listens");
        }
        Ok(Box::new(FakeTrace(self.ended.lock().expect("no panic").clone())))
    }
}

/// An API whose traces the test hears of: as they begin, and as they are let go of.
fn followed(change: impl FnOnce(&mut Settings)) -> (TestApi, Begun, Receiver<()>) {
    let (begin, begun) = mpsc::sync_channel(1);
    let (end, ended) = mpsc::sync_channel(8);
    let mut fake = FakeTraces::none();
    fake.begun = Mutex::new(Some(begin));
    fake.ended = Mutex::new(Some(end));
    let mut settings = Settings { traces: Arc::new(fake), ..settings() };
    change(&mut settings);
    (TestApi::with(settings, |_| Answer::Busy), begun, ended)
}

type Begun = Receiver<(TraceOrder, TraceSink)>;

fn event(kind: &str) -> TraceEvent {
    TraceEvent {
        at_ms: NOW_MS,
        connection: 7,
        protocol: "mqtt5",
        direction: Some(TraceDirection::In),
        kind: kind.into(),
        client: Some("till-7".into()),
        user: None,
        peer: "192.0.2.7:50123".parse().ok(),
        bytes: 42,
        fields: vec![
            ("keep_alive_s", TraceValue::Number(60)),
            ("password", TraceValue::Redacted(6)),
        ],
        payload: Some(TracePayload { bytes: 100, shown: b"open"[..].into() }),
    }
}

/// Events of a stream: their names with their data.
fn events(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.contains("event: "));
    let of = |block: &str, name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name));
        lines.map(str::trim).collect::<String>()
    };
    let told = |block: &str| {
        let data = serde_json::from_str(&of(block, "data:")).expect("JSON");
        (of(block, "event:"), data)
    };
    blocks.map(told).collect()
}

#[test]
fn a_trace_tells_what_is_seen_and_what_is_left_out_until_its_time_is_over() {
    let (api, begun, ended) = followed(|_| {});
    thread::scope(|scope| {
        let call = scope.spawn(|| api.send("GET", "/v1/trace?client=till-7&duration_s=1", ""));
        let (order, mut sink) = begun.recv().expect("it begins");
        let scope = TraceScope::Client("till-7".into());
        assert_eq!(order, TraceOrder { scope, payload: PayloadShown::Head });
        assert!(sink(TraceTold::Event(Box::new(event("CONNECT")))));
        assert!(sink(TraceTold::LeftOut(3)));
        let (status, text, _) = call.join().expect("no panic");
        assert_eq!(status, 200, "{text}");
        let told = events(&text);
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["trace", "left_out", "over"], "{text}");
        let [(_, first), (_, left_out), (_, over)] = &told[..] else { panic!("three") };
        assert_eq!(first["kind"], "CONNECT");
        assert_eq!(first["fields"]["password"]["redacted"], 6);
        assert_eq!((&first["direction"], &first["user"]), (&"in".into(), &Value::Null));
        assert_eq!(first["payload"]["shown"], "open");
        assert_eq!((&left_out["count"], &over["reason"]), (&3.into(), &"time".into()));
        let schemas = &document()["components"]["schemas"];
        for (name, told) in [("TraceEvent", first), ("TraceLeftOut", left_out), ("TraceOver", over)]
        {
            assert!(schemas[name].is_object(), "{name} is described");
            super::description::check_named(name, told);
        }
        ended.recv().expect("the trace is let go of");
        assert!(!sink(TraceTold::LeftOut(1)), "nobody listens any more");
    });
}

#[test]
fn a_trace_ends_when_the_server_stops_and_when_its_reader_goes() {
    let (mut api, begun, ended) = followed(|_| {});
    let running = api.running.take().expect("runs");
    thread::scope(|scope| {
        let call = scope.spawn(|| api.send("GET", "/v1/trace?user=tills", ""));
        let (_, sink) = begun.recv().expect("it begins");
        running.finish();
        let (_, text, _) = call.join().expect("no panic");
        assert_eq!(events(&text).last().expect("an end").1["reason"], "stopping");
        ended.recv().expect("the trace is let go of");
        drop(sink);
    });
    let (api, begun, ended) = followed(|_| {});
    let mut stream = std::net::TcpStream::connect(api.addr()).expect("connects");
    let request = format!(
        "GET /v1/trace?topic=%23 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let (order, mut sink) = begun.recv().expect("it begins");
    assert_eq!(order.scope, TraceScope::Topic("#".into()));
    drop(stream);
    // It is noticed when something is written, at the latest.
    while sink(TraceTold::Event(Box::new(event("PINGREQ")))) {}
    ended.recv().expect("the trace is let go of");
}

#[test]
fn a_wish_that_makes_no_sense_is_told_what_would() {
    let (api, _begun, _) = followed(|settings| settings.api.trace_s_max = 60);
    for (query, told) in [
        ("", "one of"),
        ("client=a&user=b", "one of"),
        ("client=", "1 to"),
        ("user=", "1 to"),
        ("address=here", "address"),
        ("topic=a%2F%23%2Fb", "`topic`"),
        ("topic=", "`topic`"),
        ("client=a&payload=all", "payload"),
        ("client=a&duration_s=0", "1 to 60"),
        ("client=a&duration_s=61", "1 to 60"),
        ("client=a&secrets=true", "secrets"),
    ] {
        let (status, answer) = api.json("GET", &format!("/v1/trace?{query}"), "");
        assert_eq!((status, &answer["error"]["code"]), (400, &"bad_request".into()), "{query}");
        let message = answer["error"]["message"].as_str().expect("words");
        assert!(message.contains(told), "{query}: {message}");
    }
}

#[test]
fn one_more_than_may_be_is_refused_and_who_traced_whom_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings();
    settings.audit_log = Some(folder.path().join("audit-log"));
    let full = FakeTraces { full: true, ..FakeTraces::none() };
    settings.traces = Arc::new(full);
    let api = TestApi::with(settings, |_| Answer::Busy);
    let (status, told) = api.json("GET", "/v1/trace?client=till-7", "");
    assert_eq!((status, &told["error"]["code"]), (503, &"busy".into()), "{told}");
    let (_, page) = api.json("GET", "/v1/audit_log", "");
    let entry = &page["entries"][0];
    assert_eq!(entry["action"], "GET /v1/trace", "{page}");
    assert_eq!(entry["on"], "/v1/trace?client=till-7", "{page}");
}
