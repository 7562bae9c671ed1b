//! One state at a time: wrk's globals, what goes between states, bounds, errors with their place.

use super::*;
use std::net::SocketAddr;

const SMALL: Bounds = Bounds { memory_bytes: 8 << 20, steps_once: 1_000_000, steps_call: 200_000 };

fn setting() -> ScriptSetting {
    ScriptSetting {
        scheme: "http".to_owned(),
        host: "::1".to_owned(),
        port: Some("8080".to_owned()),
        path: "/a?b=c".to_owned(),
        headers: vec!["X-One: two".to_owned(), "Bad:left out".to_owned()],
        http: true,
    }
}

fn state(text: &str) -> Script {
    Script::new(&setting(), Some(("t.lua", text.as_bytes())), SMALL).expect("a good script")
}

fn begun(text: &str) -> Script {
    let script = state(text);
    let words = ["http://[::1]:8080/a?b=c", "one", "two"].map(str::to_owned);
    script.init(&words).expect("a good init");
    script
}

fn text_of(script: &Script) -> String {
    match script.request(7).expect("a request") {
        ScriptRequest::Bytes(bytes) => String::from_utf8(bytes).expect("text"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_functions_the_request_is_made_of_the_url_and_the_headers() {
    let text = text_of(&begun(""));
    assert!(text.starts_with("GET /a?b=c HTTP/1.1\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(text.contains("Host: [::1]:8080\r\n") && text.contains("X-One: two\r\n"), "{text}");
    assert!(!text.contains("Bad") && !text.contains("Content-Length"), "{text}");
}

#[test]
fn fields_of_wrk_and_arguments_of_format_change_the_request() {
    let text = text_of(&begun("wrk.method = 'POST' wrk.body = 'a=b' wrk.headers.Host = 'x'"));
    assert!(
        text.starts_with("POST /a?b=c HTTP/1.1\r\n") && text.ends_with("\r\n\r\na=b"),
        "{text}"
    );
    assert!(text.contains("Host: x\r\n") && text.contains("Content-Length: 3\r\n"), "{text}");
    let own = "function request(client)
        return wrk.format('PUT', '/' .. client, { ['X'] = 1 }, 'body') end";
    let text = text_of(&begun(own));
    assert!(text.starts_with("PUT /7 HTTP/1.1\r\n") && text.contains("X: 1\r\n"), "{text}");
    assert!(text.contains("Host: [::1]:8080\r\n") && text.ends_with("body"), "{text}");
}

#[test]
fn init_hears_the_words_and_may_call_wrks_own() {
    let script = begun(
        "function init(args) wrk.init(args)
            seen = args[0] .. ' ' .. args[1] .. ' ' .. args[2] .. ' ' .. #args end
         function request() return seen .. type(wrk.request) end",
    );
    assert_eq!(text_of(&script), "http://[::1]:8080/a?b=c one two 2function");
}

#[test]
fn the_main_state_sets_and_reads_globals_of_a_thread() {
    let main = state(
        "threads = {}
         function setup(thread)
            threads[1] = thread
            thread:set('id', 3) thread:set('rows', { a = { 'x', true } })
            before = thread:get('start')
            other = wrk.lookup('127.0.0.2', 99)[1]
            thread.addr = other
         end
         function check() return threads[1]:get('id') + before, threads[1]:get('rows').a[1],
            tostring(threads[1].addr), tostring(threads[1]:get('where')),
            threads[1]:get('none') end",
    );
    let thread = state("start = 4 function init() id, where = id + 10, wrk.thread.addr end");
    let share = ThreadShare::new(SocketAddr::from(([127, 0, 0, 1], 1)));
    thread.setup(&main, &share).expect("a good setup");
    thread.init(&[]).expect("a good init");
    assert_eq!(share.addr(), SocketAddr::from(([127, 0, 0, 2], 99)));
    let check: Function = main.lua.globals().get("check").expect("it is there");
    let got: (i64, String, String, String, Value) = check.call(()).expect("values");
    assert_eq!((got.0, got.1.as_str()), (17, "x"));
    assert_eq!((got.2.as_str(), got.3.as_str()), ("127.0.0.2:99", "127.0.0.2:99"));
    assert!(got.4.is_nil() && !share.is_stopped());
    thread.lua.load("wrk.thread:stop()").exec().expect("it stops");
    assert!(share.is_stopped());
    let main = state("function setup(thread)\n thread:set('f', print) end");
    let wrong = thread.setup(&main, &share).expect_err("functions do not travel");
    assert_eq!(wrong, "t.lua:2: cannot transfer 'function' to thread");
}

#[test]
fn done_is_told_sums_and_distributions() {
    let script = begun(
        "function done(summary, latency, requests)
            local value, count = latency(2)
            local none = latency(9)
            seen = table.concat({ summary.duration, summary.requests, summary.bytes,
               summary.errors.connect, summary.errors.read, summary.errors.write,
               summary.errors.status, summary.errors.timeout, latency.min, latency.max,
               latency.mean, string.format('%.3f', latency.stdev), latency:percentile(50),
               latency:percentile(100), #latency, value, count, none, requests.max }, ' ')
         end",
    );
    let errors = Errors { connect: 1, read: 2, write: 3, status: 4, timeout: 5 };
    let summary = ScriptSummary { duration_us: 10, requests: 11, bytes: 12, errors };
    let (mut latency, mut requests) = (Spectrum::default(), Spectrum::default());
    [100, 200, 200, 300].into_iter().for_each(|us| latency.note(us));
    requests.note(77);
    script.done(&summary, latency, requests).expect("a good done");
    let seen: String = script.lua.globals().get("seen").expect("it is there");
    assert_eq!(seen, "10 11 12 1 2 3 4 5 100 300 200 81.650 200 300 3 200 2 0 77");
}

#[test]
fn answers_delays_and_events_reach_the_script() {
    let script = begun(
        "log = {}
         local function note(...) log[#log + 1] = table.concat({ ... }, ',') end
         function delay(client) return client + 0.9 end
         function response(status, headers, body, client)
            note('r', status, headers['X-A'], #body, client) end
         function connect(client) note('c', client) end
         function message(client, body, topic) note('m', client, body, topic) end
         function heartbeat(client, us) note('h', client, us) end
         function disconnect(client, cause) note('d', client, cause) end
         function stage(name) note('s', name) end
         function request(client)
            if client == 1 then return nil end
            if client == 2 then return { 'a/b', 'text', 1 } end
            if client == 3 then return { payload = 5, retain = true } end
            return {}
         end",
    );
    assert_eq!(script.wants().request, script.wants().stage);
    assert_eq!(script.delay(20), Ok(Duration::from_millis(20)));
    let headers = [(b"X-A".to_vec(), b"1".to_vec()), (b"X-A".to_vec(), b"2".to_vec())];
    script.response(5, 200, &headers, b"a\0b").expect("a good response");
    script.connect(1).expect("connect");
    script.message(2, b"hi", "t").expect("message");
    script.heartbeat(3, 44).expect("heartbeat");
    script.disconnect(4, "reset").expect("disconnect");
    script.stage("end").expect("stage");
    let log: Vec<String> = script.lua.globals().get("log").expect("it is there");
    assert_eq!(log, ["r,200,2,3,5", "c,1", "m,2,hi,t", "h,3,44", "d,4,reset", "s,end"]);
    assert_eq!(script.request(1), Ok(ScriptRequest::Nothing));
    let publish = |topic: Option<&str>, payload: &[u8], qos, retain| ScriptRequest::Publish {
        topic: topic.map(str::to_owned),
        payload: payload.to_vec(),
        qos,
        retain,
    };
    assert_eq!(script.request(2), Ok(publish(Some("a/b"), b"text", Some(1), false)));
    assert_eq!(script.request(3), Ok(publish(None, b"5", None, true)));
}

#[test]
fn a_script_that_does_not_end_is_ended_with_its_place() {
    let at = |text: &str| begun(text).delay(1).expect_err("it must not end");
    let end = "the script did not come to an end: a call used up its instructions";
    assert_eq!(at("function delay()\n  while true do end\nend"), format!("t.lua:2: {end}"));
    let catches = "function delay()\nwhile true do pcall(function() while true do end end) end end";
    assert_eq!(at(catches), format!("t.lua:2: {end}"));
    let inside =
        "local go = coroutine.wrap(function()\n\nlocal n = 0 while true do n = n + 1 end end)
        function delay() go() end";
    assert_eq!(at(inside), format!("t.lua:3: {end}"));
    let compiled = "jit.on() function delay()\n local n = 0 while true do n = n + 1 end end";
    assert_eq!(at(compiled), format!("t.lua:2: {end}"));
    let loading = Script::new(&setting(), Some(("t.lua", b"\nwhile true do end")), SMALL);
    assert_eq!(loading.err(), Some(format!("t.lua:2: {end}")));
}

#[test]
fn memory_is_bounded_and_errors_have_their_place() {
    let script = begun(
        "local t = {}\nfunction delay()
for i = 1, 1e6 do t[i] = string.rep('x', 1e3) .. i end end",
    );
    let wrong = script.delay(1).expect_err("8 MiB are not enough");
    assert_eq!(wrong, "t.lua: the script used up its memory (8 MiB), near line 3");
    let wrong = begun("function delay()\n return nothing.here end").delay(1);
    assert_eq!(wrong, Err("t.lua:2: attempt to index global 'nothing' (a nil value)".to_owned()));
    let wrong = begun("\nfunction delay() return {} end").delay(1);
    assert_eq!(wrong, Err("t.lua:2: delay() returned no number".to_owned()));
    let wrong = begun("\nfunction request() return { 'a', 'b', 7 } end").request(1);
    let message = "t.lua:2: request() returned a table that is no message: qos is 7, not 0, 1 or 2";
    assert_eq!(wrong, Err(message.to_owned()));
    let wrong = Script::new(&setting(), Some(("t.lua", b"x = = 1")), SMALL);
    assert!(wrong.is_err_and(|text| text.starts_with("t.lua:1: unexpected symbol")));
    let wrong = begun("function delay()\n local text = wrk.format({}) end").delay(1);
    assert!(wrong.is_err_and(|text| text.starts_with("t.lua:2: ")));
    let wrong = begun("function delay()\n wrk.lookup('127.0.0.1', 'nonsense') end").delay(1);
    assert!(wrong.is_err_and(|text| text.starts_with("t.lua:2: unable to resolve")));
}
