//! The console's files, and its sessions: who gets one, what it opens, and when it ends.

use super::description::{check_answer, check_named};
use super::tokens::whole_test_api;
use super::*;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Headers that a script of the console sends.
pub(super) const OWN: [(&str, &str); 2] =
    [("Sec-Fetch-Site", "same-origin"), ("Holdline-Console", "1")];

/// An answer: status, head, body.
pub(super) struct Told {
    pub(super) status: u16,
    head: ureq::http::HeaderMap,
    pub(super) body: String,
}

impl Told {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(super) fn code(&self) -> String {
        let told = self.json();
        check_named("ApiError", &told);
        told["error"]["code"].as_str().expect("a code").to_owned()
    }

    fn head(&self, name: &str) -> &str {
        self.head.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The cookie that it sets, as a browser sends it back.
    pub(super) fn cookie(&self) -> String {
        self.head("set-cookie").split(';').next().expect("a pair").to_owned()
    }
}

pub(super) fn ask(
    api: &TestApi,
    head: &[(&str, &str)],
    (method, path, body): (&str, &str, &str),
) -> Told {
    let mut request =
        ureq::http::Request::builder().method(method).uri(format!("{}{path}", api.url));
    for (name, value) in head {
        request = request.header(*name, *value);
    }
    let request = request.body(body.to_owned()).expect("a request");
    let mut response = api.agent.run(request).expect("an answer");
    let (status, head) = (response.status().as_u16(), response.headers().clone());
    Told { status, head, body: response.body_mut().read_to_string().expect("text") }
}

/// With a cookie, by a script of the console.
fn with(api: &TestApi, cookie: &str, (method, path): (&str, &str)) -> Told {
    ask(api, &[OWN[0], OWN[1], ("Cookie", cookie)], (method, path, ""))
}

fn log_in(api: &TestApi, token: &str) -> Told {
    ask(api, &OWN, ("POST", "/v1/session", &json!({ "token": token }).to_string()))
}

fn token(api: &TestApi, name: &str, scope: &str) -> String {
    let order = json!({ "name": name, "scopes": [scope] }).to_string();
    let (status, told) = api.json("POST", "/v1/tokens", &order);
    assert_eq!(status, 200, "{told}");
    told["token"].as_str().expect("a token").to_owned()
}

/// An API whose clock the test moves.
fn timed_api(change: impl FnOnce(&mut Settings)) -> (TestApi, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(NOW_MS));
    let told = Arc::clone(&clock);
    let api = whole_test_api(|settings| {
        settings.wall_ms = Arc::new(move || told.load(Ordering::Relaxed));
        change(settings);
    });
    (api, clock)
}

#[test]
fn a_browser_is_given_the_page_and_a_program_the_text() {
    let api = whole_test_api(|_| {});
    let page = ask(&api, &[("Accept", "text/html,application/xhtml+xml;q=0.9")], ("GET", "/", ""));
    assert_eq!((page.status, page.head("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.body.contains("console/console.js") && page.head("vary") == "Accept");
    for program in [vec![], vec![("Accept", "*/*")], vec![("Accept", "application/json")]] {
        let text = ask(&api, &program, ("GET", "/", ""));
        assert!(text.status == 200 && text.body.starts_with("Holdline, the API"), "{program:?}");
    }
    let off = whole_test_api(|settings| settings.console = false);
    let text = ask(&off, &[("Accept", "text/html")], ("GET", "/", ""));
    assert!(text.body.starts_with("Holdline, the API"));
    assert_eq!(ask(&off, &[], ("GET", "/console/console.js", "")).code(), "unknown_path");
}

#[test]
fn a_file_is_kept_by_its_tag_and_may_do_little() {
    let api = whole_test_api(|_| {});
    let file = ask(&api, &[], ("GET", "/console/console.js", ""));
    assert_eq!((file.status, file.head("content-type")), (200, "text/javascript; charset=utf-8"));
    assert_eq!(file.head("cache-control"), "no-cache");
    assert_eq!(file.head("x-content-type-options"), "nosniff");
    let policy = file.head("content-security-policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    for (known, status) in [
        (file.head("etag").to_owned(), 304),
        (format!("\"x\", W/{}", file.head("etag")), 304),
        ("*".to_owned(), 304),
        ("\"x\"".to_owned(), 200),
    ] {
        let again = ask(&api, &[("If-None-Match", &known)], ("GET", "/console/console.js", ""));
        assert_eq!((again.status, again.body.is_empty()), (status, status == 304), "{known}");
        assert_eq!(again.head("etag"), file.head("etag"));
    }
    let head = ask(&api, &[], ("HEAD", "/console/console.js", ""));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.head("content-length"), file.body.len().to_string());
    for path in ["/console/none.js", "/console/..%2Fapi.js", "/console/%00"] {
        assert_eq!(ask(&api, &[], ("GET", path, "")).code(), "unknown_path", "{path}");
    }
    // What is no route answers as before: only who has a token hears that there is none.
    assert_eq!(ask(&api, &[], ("GET", "/console/", "")).code(), "unauthorized");
    assert_eq!(ask(&api, &[], ("POST", "/console/console.js", "")).code(), "unauthorized");
}

#[test]
fn who_shows_a_token_has_a_session_that_opens_what_the_token_opens_until_it_is_ended() {
    let api = whole_test_api(|_| {});
    let nobody = ask(&api, &OWN, ("GET", "/v1/session", ""));
    assert_eq!((nobody.status, nobody.json()), (200, json!({ "session": null })));
    let viewer = token(&api, "viewer", "read");
    let told = log_in(&api, &viewer);
    assert_eq!(told.status, 200, "{}", told.body);
    check_answer("post", "/v1/session", &told.json());
    let session = &told.json()["session"];
    assert_eq!(session["token"], "viewer");
    assert_eq!(session["scopes"], json!(["metrics", "read"]));
    assert_eq!(session["ends_ms"], NOW_MS + 12 * 3_600_000);
    let line = told.head("set-cookie");
    assert!(line.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{line}");
    assert!(!told.body.contains(&viewer) && told.head("cache-control") == "no-store");
    let cookie = told.cookie();
    assert_eq!(with(&api, &cookie, ("GET", "/v1/session")).json(), told.json());
    assert_eq!(with(&api, &cookie, ("GET", "/v1/clients")).status, 200);
    let kick = with(&api, &cookie, ("DELETE", "/v1/clients/c"));
    assert_eq!((kick.status, kick.code()), (403, "scope_missing".into()));
    // A token in the same call is who asks.
    let bearer = format!("Bearer {TOKEN}");
    let head = [("Authorization", &*bearer), ("Cookie", &cookie)];
    assert_eq!(ask(&api, &head, ("DELETE", "/v1/clients/c", "")).status, 200);
    let out = with(&api, &cookie, ("DELETE", "/v1/session"));
    check_answer("delete", "/v1/session", &out.json());
    assert!(out.head("set-cookie").contains("=; Path=/; Max-Age=0;"));
    assert_eq!(with(&api, &cookie, ("GET", "/v1/clients")).code(), "session_over");
    assert_eq!(with(&api, &cookie, ("GET", "/v1/session")).json(), json!({ "session": null }));
}

#[test]
fn a_page_of_another_origin_gets_nothing_by_the_cookie() {
    let api = whole_test_api(|_| {});
    let host = api.url.strip_prefix("http://").expect("a scheme").to_owned();
    let cookie = log_in(&api, TOKEN).cookie();
    let own = ("Holdline-Console", "1");
    let here = format!("http://{host}");
    for (head, method, status) in [
        (vec![("Origin", "http://evil.example"), own], "DELETE", 403),
        (vec![("Origin", "null"), own], "DELETE", 403),
        (vec![("Origin", "http://127.0.0.1:1"), own], "DELETE", 403),
        (vec![("Sec-Fetch-Site", "cross-site"), own], "DELETE", 403),
        (vec![("Sec-Fetch-Site", "same-site"), own], "DELETE", 403),
        (vec![("Sec-Fetch-Site", "same-origin")], "DELETE", 403),
        (vec![("Origin", &here)], "DELETE", 403),
        (vec![own], "DELETE", 403),
        (vec![("Origin", &here), own], "DELETE", 200),
        (vec![("Sec-Fetch-Site", "cross-site")], "GET", 403),
        (vec![("Sec-Fetch-Site", "none")], "GET", 200),
    ] {
        let mut all = head.clone();
        all.push(("Cookie", &cookie));
        let told = ask(&api, &all, (method, "/v1/clients/c", ""));
        assert_eq!(told.status, status, "{method} {head:?}: {}", told.body);
        if status == 403 {
            assert_eq!(told.code(), "cross_origin", "{head:?}");
        }
    }
    let body = json!({ "token": TOKEN }).to_string();
    for head in [vec![("Origin", "http://evil.example"), own], vec![own], vec![]] {
        let told = ask(&api, &head, ("POST", "/v1/session", &body));
        assert_eq!((told.status, told.code()), (403, "cross_origin".into()), "{head:?}");
    }
}

#[test]
fn a_session_ends_when_it_is_idle_when_it_is_old_and_with_its_token() {
    let (api, clock) = timed_api(|settings| {
        settings.api.console_idle_s_max = 60;
        settings.api.console_age_s_max = 150;
    });
    let looks = |cookie: &str| with(&api, cookie, ("GET", "/v1/clients")).status;
    let cookie = log_in(&api, TOKEN).cookie();
    for passed_s in [59, 118, 149] {
        clock.store(NOW_MS + passed_s * 1_000, Ordering::Relaxed);
        assert_eq!(looks(&cookie), 200, "it asks often enough");
    }
    clock.store(NOW_MS + 150_000, Ordering::Relaxed);
    assert_eq!(with(&api, &cookie, ("GET", "/v1/clients")).code(), "session_over", "it is old");
    let cookie = log_in(&api, TOKEN).cookie();
    clock.fetch_add(60_000, Ordering::Relaxed);
    assert_eq!(looks(&cookie), 401, "it is idle");
    let text = token(&api, "monday", "read");
    let cookie = log_in(&api, &text).cookie();
    assert_eq!((looks(&cookie), api.json("DELETE", "/v1/tokens/monday", "").0), (200, 200));
    assert_eq!(with(&api, &cookie, ("GET", "/v1/clients")).code(), "session_over", "revoked");
    let order = r#"{"name": "short", "scopes": ["read"], "ttl_s": 30}"#;
    let text = api.json("POST", "/v1/tokens", order).1["token"].as_str().expect("one").to_owned();
    let cookie = log_in(&api, &text).cookie();
    clock.fetch_add(30_000, Ordering::Relaxed);
    assert_eq!(looks(&cookie), 401, "the token's time is over");
}

#[test]
fn one_session_too_many_ends_the_one_that_asked_nothing_for_longest() {
    let (api, clock) = timed_api(|settings| {
        settings.api.console_sessions_max = 2;
        settings.api.console_sessions_a_source_max = 2;
    });
    let first = log_in(&api, TOKEN).cookie();
    clock.fetch_add(1_000, Ordering::Relaxed);
    let second = log_in(&api, TOKEN).cookie();
    clock.fetch_add(1_000, Ordering::Relaxed);
    assert_eq!(with(&api, &first, ("GET", "/v1/clients")).status, 200);
    let third = log_in(&api, TOKEN).cookie();
    for (cookie, status) in [(&first, 200), (&second, 401), (&third, 200)] {
        assert_eq!(with(&api, cookie, ("GET", "/v1/clients")).status, status);
    }
    let page = api.send("GET", "/metrics", "").1;
    assert!(page.contains("\nholdline_console_sessions 2\n"), "{page}");
    assert!(page.contains("\nholdline_users 1\n"), "{page}");
}

#[test]
fn wrong_log_ins_are_told_entered_and_held_up() {
    let (api, clock) = timed_api(|settings| settings.api.console_failures_a_source_max = 2);
    for body in ["", "{}", r#"{"token": ""}"#, r#"{"token": 5}"#, r#"{"token": "a", "b": 1}"#] {
        assert_eq!(ask(&api, &OWN, ("POST", "/v1/session", body)).code(), "bad_request", "{body}");
    }
    let long = ask(&api, &OWN, ("POST", "/v1/session", &"x".repeat(20_000)));
    assert_eq!((long.status, long.code()), (413, "too_large".into()));
    for _ in 0..2 {
        let told = log_in(&api, "hlt_wrong");
        assert_eq!((told.status, told.code()), (401, "wrong_token".into()));
        assert_eq!(told.head("set-cookie"), "");
    }
    let held = log_in(&api, TOKEN);
    assert_eq!((held.status, held.code()), (429, "too_many_logins".into()));
    assert_eq!(held.head("retry-after"), "60");
    clock.fetch_add(60_000, Ordering::Relaxed);
    assert_eq!(log_in(&api, TOKEN).status, 200);
}

#[test]
fn the_audit_log_has_who_logged_in_and_neither_token_nor_cookie() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = whole_test_api(|settings| {
        settings.audit_log = Some(folder.path().join("audit-log"));
    });
    let viewer = token(&api, "viewer", "read");
    let told = log_in(&api, &viewer);
    log_in(&api, "hlt_wrong");
    with(&api, &told.cookie(), ("DELETE", "/v1/clients/c"));
    let (_, page) = api.json("GET", "/v1/audit_log", "");
    let entries = page["entries"].as_array().expect("entries").iter().map(|entry| {
        let of = |name: &str| entry[name].as_str().unwrap_or("").to_owned();
        (of("token"), of("action"), of("outcome"))
    });
    let entries: Vec<_> = entries.collect();
    for (token, action, outcome) in [
        ("viewer", "POST /v1/session", "done"),
        ("", "POST /v1/session", "refused"),
        ("viewer", "DELETE /v1/clients/{client}", "refused"),
    ] {
        let wanted = (token.into(), action.into(), outcome.into());
        assert!(entries.contains(&wanted), "{wanted:?} in {entries:?}");
    }
    let (_, value) =
        told.cookie().split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a pair");
    let kept = page.to_string();
    assert!(!kept.contains(&viewer) && !kept.contains(&value) && !kept.contains("hlt_wrong"));
}

/// Reads a stream until it says so or ends; what it said.
fn heard(stream: &TcpStream, until: &str) -> String {
    let mut said = String::new();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        said += &line;
        if said.contains(until) {
            break;
        }
    }
    said
}

#[test]
fn the_overview_is_told_every_second_and_its_stream_ends_with_the_session() {
    let api = whole_test_api(|_| {});
    let (status, told) = api.json("GET", "/v1/overview", "");
    assert_eq!(status, 200, "{told}");
    check_answer("get", "/v1/overview", &told);
    let cookie = log_in(&api, TOKEN).cookie();
    let mut stream = TcpStream::connect(api.addr()).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let request = format!(
        "GET /v1/overview/stream HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n\
         Cookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    // The name of a cookie has the port that was asked.
    let request = request.replacen("Host: a", &format!("Host: {}", api.addr()), 1);
    stream.write_all(request.as_bytes()).expect("sent");
    let said = heard(&stream, "event: overview");
    assert!(said.contains("text/event-stream"), "{said}");
    assert_eq!(with(&api, &cookie, ("DELETE", "/v1/session")).status, 200);
    // It would go on for ever.
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("an end before anybody's patience");
    assert!(!rest.contains("error"), "{rest}");
}

#[test]
fn the_history_of_the_overview_is_told_in_steps_of_ten_seconds() {
    let api = whole_test_api(|_| {});
    let (status, told) = api.json("GET", "/v1/overview/history?step_s=60&count=10", "");
    assert_eq!((status, &told["step_s"]), (200, &Value::from(60)), "{told}");
    check_answer("get", "/v1/overview/history", &told);
    for odd in ["step_s=0", "step_s=15", "step_s=3610", "count=0", "count=361", "since=1"] {
        let (status, told) = api.json("GET", &format!("/v1/overview/history?{odd}"), "");
        assert_eq!(status, 400, "{odd}: {told}");
    }
}

#[test]
fn names_have_meanings_and_the_log_and_the_configuration_are_shown() {
    let api = whole_test_api(|settings| {
        let line = LogLine {
            number: 7,
            at_ms: NOW_MS,
            level: "warn",
            event: Some("log_full"),
            text: "a <b>".into(),
        };
        settings.log = Arc::new(move || vec![line.clone()]);
        settings.configuration = Arc::new(|| Configuration {
            sections: Vec::new(),
            changes: Some(vec![ConfigChange {
                key: "[limits] drain_ms".into(),
                old: "1".into(),
                new: "2".into(),
                live: true,
            }]),
            problem: None,
        });
    });
    for path in ["/v1/meanings", "/v1/log", "/v1/configuration"] {
        let (status, told) = api.json("GET", path, "");
        assert_eq!(status, 200, "{told}");
        check_answer("get", path, &told);
    }
    let (_, told) = api.json("GET", "/v1/meanings", "");
    assert_eq!(told["closed"].as_object().map(|all| all.len()), Some(CloseReason::COUNT));
    assert_eq!(api.json("GET", "/v1/log", "").1["lines"][0]["text"], "a <b>");
}
