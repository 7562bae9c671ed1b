//! Audits by an API on loopback that says what it is told to say.

use super::*;
use std::sync::Arc;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer as Reply};

/// A request in which all has come: its head, and the body that it announces.
fn whole(heard: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(heard).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    (body.len() >= length.unwrap_or(0)).then_some(text)
}

/// An API that answers by the path, if the token and the body are as they should be.
fn api(status: &'static str, audit: (u16, &'static str)) -> Faulty {
    let answer: Reply = Arc::new(move |heard| {
        let Some(request) = whole(heard) else { return Vec::new() };
        heard.clear();
        let plain: String = request.split([' ', '\n']).collect();
        let has = |word: &str| plain.contains(word);
        let asked = has("\"settle_ms\":50") && has("\"repair\":false");
        let (code, body) = match request.split_whitespace().nth(1) {
            _ if !has("Beareropen") => (401, "{}"),
            Some("/v1/presence/status") => (200, status),
            Some("/v1/presence/audit") if asked => audit,
            _ => (400, "{}"),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {code} X\r\ncontent-length: {length}\r\n\r\n");
        [head.into_bytes(), body.as_bytes().to_vec()].concat()
    });
    Faulty::start(vec![ConnectionFate::new("asked", [FateStep::Serve(answer), FateStep::Close])])
}

fn presence_api(api: &Faulty) -> PresenceApi {
    PresenceApi::new(&format!("http://{}/", api.address()), Some("open".to_owned()))
}

/// Waits for the answer, which the patience of requests bounds.
fn answer(audits: &mut Audits) -> Result<Audited, String> {
    loop {
        match audits.take() {
            Some(answer) => return answer,
            None => std::thread::yield_now(),
        }
    }
}

const STANDING: &str = r#"{"directory":"redis","circuit":"closed","unwritten":3,"lag_ms":41}"#;
const FOUND: &str = r#"{"online":900,"buckets_differing":4,"differing":6,
    "persistent":{"missing":1,"stale":2},"repaired":0,"took_ms":12,
    "differences":[{"key":"demo#a","kind":"missing","memory":null,"stored":null,"history":[]},
                   {"key":"demo#b","kind":"stale"},{"key":"demo#c","kind":"stale"}]}"#;

#[test]
fn an_audit_is_asked_for_and_read() {
    let api = api(STANDING, (200, FOUND));
    assert_eq!(presence_api(&api).why_not(), None);
    let mut audits = Audits::of(presence_api(&api));
    assert!(audits.take().is_some_and(|none| none.is_err()), "none was begun");
    audits.begin(50);
    let audited = answer(&mut audits).expect("it was answered");
    assert_eq!((audited.online, audited.differing), (900, 6));
    assert_eq!((audited.took_ms, audited.lag_ms), (12, 41));
    assert_eq!(audited.persistent.values().sum::<u64>(), 3);
    assert_eq!(audited.first.len(), 3);
    assert_eq!(audited.first[0], ("demo#a".to_owned(), "missing".to_owned()));
}

#[test]
fn what_is_not_an_answer_is_told() {
    for (status, audit, word) in [
        (STANDING, (503, "{\"error\":{\"code\":\"unreachable\"}}"), "503"),
        (STANDING, (200, "{\"online\":1}"), "missing field"),
        ("nonsense", (200, FOUND), "/v1/presence/status"),
    ] {
        let api = api(status, audit);
        let mut audits = Audits::of(presence_api(&api));
        audits.begin(50);
        let why = answer(&mut audits).expect_err("it is none");
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn a_server_without_a_directory_or_an_api_cannot_be_audited() {
    let none = api(r#"{"kind":"none","lag_ms":0}"#, (200, FOUND));
    let why = presence_api(&none).why_not().expect("it cannot");
    assert!(why.contains("no presence directory"), "{why}");
    let port = testkit::faulty::HeldPort::closed();
    let gone = PresenceApi::new(&format!("http://{}", port.address()), None);
    assert!(gone.why_not().is_some());
}
