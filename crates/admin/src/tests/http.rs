//! Requests and answers: what reaches the shards, what comes back, and every way to be refused.

use super::description::{check_answer, check_named};
use super::metrics::check_metrics;
use super::*;
use model::counters::{PushCounter, TopicCounter};
use model::id::{ShardId, Tag};
use model::ports::control::{ShardLoop, Status};
use model::ports::pushes::{DeviceState, OrderState, PushCounts, PushState, PushTarget};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::presence::PresenceVersion;
use model::product::{AnonymousFrom, Product, Secret};
use model::push::{Outcome, Priority, Rejection};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};

pub(super) fn state(name: &str) -> DeviceState {
    DeviceState {
        product: key("shop"),
        device: device(name),
        online: false,
        protocol: "miop7",
        epoch: 1 << 60,
        since_ms: NOW_MS,
        seen_ms: NOW_MS,
        version: PresenceVersion(7),
        reason: Some(CloseReason::PeerReset),
        heartbeat_s: 300,
        inflight: 1,
        waiting: 2,
        tags: vec![Tag::parse("berlin").expect("allowed")],
        user: None,
        zone: None,
        platform: None,
        blocked: false,
    }
}

#[test]
fn without_a_token_only_the_open_routes_answer_and_missing_and_wrong_are_told_apart() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    for rule in rules() {
        let path = rule.path.replace("{file}", "console.js").replace(['{', '}'], "");
        for (token, code) in [
            (None, "unauthorized"),
            (Some("Bearer "), "unauthorized"),
            (Some("Basic YTpi"), "unauthorized"),
            (Some("Bearer wrong"), "wrong_token"),
            (Some(&*format!("Bearer {}", &TOKEN[1..])), "wrong_token"),
        ] {
            let mut request = ureq::http::Request::builder()
                .method(&*rule.method.to_uppercase())
                .uri(test_api.url.clone() + &path);
            if let Some(token) = token {
                request = request.header("Authorization", token);
            }
            let mut response =
                test_api.agent.run(request.body(()).expect("a request")).expect("answers");
            let open = rule.scopes.is_empty();
            let good = match rule.path {
                _ if rule.is_log_in => 403,
                // Its body is empty here.
                "/v1/reports" => 400,
                _ => 200,
            };
            assert_eq!(response.status().as_u16(), if open { good } else { 401 }, "{path}");
            if !open {
                assert_eq!(response.headers()["www-authenticate"], "Bearer");
                let told: Value = response.body_mut().read_json().expect("JSON");
                assert_eq!(told["error"]["code"], code, "{token:?}");
                check_named("ApiError", &told);
            }
        }
    }
    // The server itself asks for the status every ten seconds, for alarms and the history.
    let mut asked = test_api.asked();
    asked.retain(|command| *command != Command::Status);
    assert_eq!(asked, []);
}

#[test]
fn a_push_to_devices_has_an_outcome_for_each() {
    let test_api = TestApi::new(|command| {
        let Command::Push(PushCommand::Push(order)) = command else {
            return Answer::Push(PushAnswer::Done(false));
        };
        let outcomes = vec![
            (device("a"), Outcome::Stored),
            (device("b"), Outcome::Rejected(Rejection::DeviceBlocked)),
        ];
        Answer::Push(PushAnswer::Pushed { id: order.id, outcomes, counts: PushCounts::default() })
    });
    let body = json!({
        "product": "shop", "devices": ["a", "b"], "body_base64": "AAE=", "ttl_s": 60,
        "collapse_key": "k", "priority": "high", "silent": true, "wait_ms": 5, "receipts": true,
    });
    let (status, told) = test_api.json("POST", "/v1/pushes", &body.to_string());
    assert_eq!(status, 200);
    check_answer("post", "/v1/pushes", &told);
    assert_eq!(told["id"], "7000000000000000001");
    assert_eq!(told["outcomes"][0], json!({ "device": "a", "outcome": "stored" }));
    assert_eq!(told["outcomes"][1]["reason"], "device_blocked");
    let asked = test_api.asked();
    let Command::Push(PushCommand::Push(order)) = &asked[0] else { panic!("{asked:?}") };
    assert_eq!(order.target, PushTarget::Devices(vec![device("a"), device("b")]));
    assert_eq!((&*order.body, order.collapse.as_deref()), (&[0u8, 1][..], Some("k")));
    assert_eq!((order.time_to_live_s, order.priority), (60, Priority::High));
    assert_eq!((order.silent, order.wait_ms, order.receipts), (true, 5, true));
}

#[test]
fn a_batch_has_an_outcome_for_each_message_whatever_the_shards_answer() {
    let test_api = TestApi::new(|command| {
        let Command::Push(PushCommand::Push(order)) = command else {
            return Answer::Push(PushAnswer::Done(true));
        };
        let PushTarget::Devices(devices) = &order.target else { panic!("{order:?}") };
        match devices[0].as_str() {
            "gone" => Answer::Push(PushAnswer::UnknownProduct),
            "full" => Answer::Push(PushAnswer::StoreFailed),
            "busy" => Answer::Busy,
            "odd" => Answer::Push(PushAnswer::Done(true)),
            _ => {
                let (id, outcomes) = (order.id, vec![(devices[0].clone(), Outcome::Stored)]);
                let counts = PushCounts::default();
                Answer::Push(PushAnswer::Pushed { id, outcomes, counts })
            }
        }
    });
    let names = ["a", "gone", "full", "busy", "odd", "b"];
    let messages = names.map(|name| json!({ "device": name, "body": "b" }));
    let body = json!({ "product": "shop", "messages": messages });
    let (status, told) = test_api.json("POST", "/v1/pushes/batch", &body.to_string());
    assert_eq!(status, 200, "{told}");
    check_answer("post", "/v1/pushes/batch", &told);
    let outcomes = told["outcomes"].as_array().expect("a list");
    let of = |it: &Value| {
        let word = |key: &str| it[key].as_str().unwrap_or("").to_owned();
        (word("device"), word("outcome"), word("reason"))
    };
    let found: Vec<_> = outcomes.iter().map(of).collect();
    let wanted = [
        ("a", "stored", ""),
        ("gone", "rejected", "unknown_device"),
        ("full", "rejected", "store_failed"),
        ("busy", "rejected", "busy"),
        ("odd", "unknown", ""),
        ("b", "stored", ""),
    ];
    assert_eq!(found, wanted.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let ids: std::collections::BTreeSet<_> = outcomes.iter().map(|it| it["id"].as_str()).collect();
    assert_eq!(ids.len(), names.len(), "{told}");
}

#[test]
fn a_batch_with_a_key_is_claimed_whole_before_its_messages() {
    let test_api = TestApi::new(|command| {
        let Command::Push(PushCommand::Push(order)) = command else {
            return Answer::Push(PushAnswer::Done(true));
        };
        let key = order.idempotency_key.as_deref().expect("a key");
        match (&order.target, key) {
            (PushTarget::Devices(none), "batch other") if none.is_empty() => {
                Answer::Push(PushAnswer::Conflict)
            }
            _ => {
                let (id, outcomes) = (MessageId(77), Vec::new());
                let counts = PushCounts::default();
                Answer::Push(PushAnswer::Pushed { id, outcomes, counts })
            }
        }
    });
    let body = |more: &str| {
        let messages = r#"[{"device": "a", "body": "1"}, {"device": "a", "body": "2"}]"#;
        format!(r#"{{"product": "shop", "messages": {messages}, "send_at_ms": {more}}}"#)
    };
    let send = |key: &[u8], body: &str| {
        let key = [("Idempotency-Key", key)];
        let (status, text, _) = test_api.send_with(&key, "POST", "/v1/pushes/batch", body);
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    let later = body(&(NOW_MS + 1).to_string());
    let (status, told) = send(b"k", &later);
    assert_eq!((status, &told["outcomes"][1]["id"]), (200, &json!("77")), "{told}");
    assert_eq!(told["outcomes"][0]["outcome"], "stored");
    check_answer("post", "/v1/pushes/batch", &told);
    let mut keys = Vec::new();
    let mut claims = Vec::new();
    for command in test_api.asked() {
        let Command::Push(PushCommand::Push(order)) = command else { continue };
        keys.push(order.idempotency_key.as_deref().expect("a key").to_owned());
        claims.push(order.body);
    }
    assert_eq!(keys, ["batch k", "batch k/0", "batch k/1"]);
    assert_eq!(claims[0].len(), 32, "the hash of the request");
    let (status, told) = send(b"other", &later);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("idempotency_conflict")));
    assert_eq!(test_api.asked().len(), 2, "the product was asked for, and nothing was sent");
    // Of a time that has passed, the hub knows whether it repeats an earlier request.
    assert_eq!(send(b"k", &body("7")).0, 200);
}

#[test]
fn a_push_that_no_log_takes_is_an_error_and_one_that_some_take_is_told_by_device() {
    let failed = Outcome::Rejected(Rejection::StoreFailed);
    for (outcomes, wanted) in [
        (vec![(device("a"), failed), (device("b"), failed)], 503),
        (vec![(device("a"), failed), (device("b"), Outcome::Stored)], 200),
        (vec![(device("a"), Outcome::Rejected(Rejection::StoreFull))], 200),
    ] {
        let test_api = TestApi::new(move |command| {
            let Command::Push(PushCommand::Push(order)) = command else {
                return Answer::Push(PushAnswer::Done(false));
            };
            let (id, outcomes) = (order.id, outcomes.clone());
            Answer::Push(PushAnswer::Pushed { id, outcomes, counts: PushCounts::default() })
        });
        let body = r#"{"product": "p", "devices": ["a", "b"], "body": "b"}"#;
        let (status, told) = test_api.json("POST", "/v1/pushes", body);
        assert_eq!(status, wanted, "{told}");
        match status {
            503 => assert_eq!(told["error"]["code"], "store_failed"),
            _ => check_answer("post", "/v1/pushes", &told),
        }
    }
}

#[test]
fn a_server_is_alive_whatever_its_logs_and_ready_while_they_take_everything() {
    use crate::LogHealth::{Failed, Full, Good};
    for (draining, logs, wanted, for_clients, reasons) in [
        (false, vec![Good, Good], 200, 200, vec![]),
        (false, vec![Good, Full], 503, 200, vec!["log 1 is full"]),
        (false, vec![Good, Failed], 503, 503, vec!["log 1 has failed"]),
        (false, vec![Failed, Full], 503, 503, vec!["log 0 has failed", "log 1 is full"]),
        (true, vec![Good], 503, 503, vec!["the server is draining"]),
    ] {
        let readiness = Readiness { draining, logs: logs.clone(), ..Readiness::default() };
        let settings = Settings { readiness: Arc::new(move || readiness.clone()), ..settings() };
        let test_api = TestApi::with(settings, |_| Answer::Busy);
        let (status, told) = test_api.json("GET", "/readyz", "");
        assert_eq!((status, &told["ready"]), (wanted, &json!(wanted == 200)), "{told}");
        let names: Vec<&str> = logs.iter().map(|log| log.name()).collect();
        assert_eq!((&told["draining"], &told["logs"]), (&json!(draining), &json!(names)));
        let told_why = told["reasons"].as_array().expect("a list");
        assert_eq!(told_why.len(), reasons.len(), "{told}");
        for (why, wanted) in told_why.iter().zip(reasons) {
            assert!(why.as_str().is_some_and(|why| why.starts_with(wanted)), "{why}");
        }
        check_answer("get", "/readyz", &told);
        let (status, same) = test_api.json("GET", "/readyz/connections", "");
        assert_eq!((status, &same), (for_clients, &told));
        check_answer("get", "/readyz/connections", &same);
        let (status, text, _) = test_api.send("GET", "/healthz", "");
        assert_eq!((status, text.as_str()), (200, "ok\n"));
    }
}

#[test]
fn an_idempotency_key_goes_with_the_order_and_a_second_use_is_a_conflict() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order))
            if order.idempotency_key.as_deref() == Some("again") =>
        {
            Answer::Push(PushAnswer::Conflict)
        }
        Command::Push(PushCommand::Push(order)) => {
            let outcomes = vec![(device("d"), Outcome::Stored)];
            Answer::Push(PushAnswer::Pushed {
                id: order.id,
                outcomes,
                counts: PushCounts::default(),
            })
        }
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    let to_one = r#"{"product": "p", "device": "d", "body": "b"}"#;
    let push = |keys: &[&[u8]], body: &str| {
        let headers: Vec<_> = keys.iter().map(|key| ("Idempotency-Key", *key)).collect();
        let (status, text, _) = test_api.send_with(&headers, "POST", "/v1/pushes", body);
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    let longest = [b'~'; 128];
    for key in [&b"order-17!"[..], &longest] {
        assert_eq!(push(&[key], to_one).0, 200);
        let asked = test_api.asked();
        let Command::Push(PushCommand::Push(order)) = &asked[0] else { panic!("{asked:?}") };
        assert_eq!(order.idempotency_key.as_deref().map(str::as_bytes), Some(key));
    }
    let (status, told) = push(&[b"again"], to_one);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("idempotency_conflict")));
    check_named("ApiError", &told);
    test_api.asked();
    let wrong: [&[&[u8]]; 5] = [&[b""], &[&[b'x'; 129]], &[b"a b"], &[&[0xe4]], &[b"a", b"b"]];
    for keys in wrong {
        let (status, told) = push(keys, to_one);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains("1 to 128 visible"), "{keys:?}: {message}");
    }
    for target in [r#""tag": "t""#, r#""all": true"#] {
        let body = format!(r#"{{"product": "p", "body": "b", {target}}}"#);
        assert_eq!(push(&[b"k"], &body).0, 200);
        let asked = test_api.asked();
        let Command::Push(PushCommand::Push(order)) = &asked[0] else { panic!("{asked:?}") };
        assert_eq!(order.idempotency_key.as_deref(), Some("k"));
    }
}

#[test]
fn a_push_without_a_byte_is_refused_and_one_with_a_byte_is_not() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order)) => Answer::Push(PushAnswer::Pushed {
            id: order.id,
            outcomes: vec![(device("d"), Outcome::Stored)],
            counts: PushCounts::default(),
        }),
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    for (field, empty, full) in [("body", "", "x"), ("body_base64", "", "eA==")] {
        let send = |what: &str| {
            let body = json!({ "product": "p", "device": "d", field: what }).to_string();
            test_api.json("POST", "/v1/pushes", &body)
        };
        let (status, told) = send(empty);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains("at least one byte"), "{message}");
        assert_eq!(send(full).0, 200);
    }
}

#[test]
fn a_push_to_many_is_waited_for_until_it_has_come_through_or_the_time_is_over() {
    // Its third look finds nothing running, the fourth nothing pending.
    let looks = std::sync::atomic::AtomicU64::new(0);
    let test_api = TestApi::new(move |command| match command {
        Command::Push(PushCommand::Push(order)) => {
            let counts = PushCounts { running: true, ..PushCounts::default() };
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts })
        }
        Command::Push(PushCommand::PushCounts(_)) => {
            let look = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let (running, pending) = (look < 2, u64::from(look < 3));
            let (matched, delivered) = (2, 2 - pending);
            let counts = PushCounts { matched, pending, delivered, running, ..Default::default() };
            Answer::Push(PushAnswer::Counts(Some(counts)))
        }
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    let push = |wait_ms: u32| {
        let body = json!({ "product": "p", "tag": "t", "body": "b", "wait_ms": wait_ms });
        let (status, told) = test_api.json("POST", "/v1/pushes", &body.to_string());
        assert_eq!(status, 200);
        told["counts"].clone()
    };
    assert_eq!(push(0)["running"], json!(true), "it is not waited for unasked");
    let counts = push(30_000);
    assert_eq!((&counts["running"], &counts["delivered"]), (&json!(false), &json!(2)));
    assert_eq!(test_api.asked().len(), 2 + 4);
}

#[test]
fn a_backup_is_made_where_it_is_asked_for_and_a_failure_is_told() {
    let settings = Settings {
        backup: Arc::new(|to| match to.to_str() {
            Some("/b/good") => Ok(7),
            _ => Err("the folder is there already".into()),
        }),
        ..settings()
    };
    let test_api = TestApi::with(settings, |_| Answer::Push(PushAnswer::Done(true)));
    let (status, told) = test_api.json("POST", "/v1/backup", r#"{"to": "/b/good"}"#);
    assert_eq!((status, &told), (200, &json!({ "to": "/b/good", "bytes": 7 })));
    check_answer("post", "/v1/backup", &told);
    let (status, told) = test_api.json("POST", "/v1/backup", r#"{"to": "/b/there"}"#);
    assert_eq!((status, &told["error"]["code"]), (500, &json!("backup_failed")));
    assert_eq!(told["error"]["message"], "the folder is there already");
    let (folder, file) =
        (env!("CARGO_MANIFEST_DIR"), concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    for to in [folder, file] {
        let (status, told) = test_api.json("POST", "/v1/backup", &json!({ "to": to }).to_string());
        assert_eq!((status, &told["error"]["code"]), (409, &json!("folder_taken")), "{to}");
    }
    for to in ["relative", "/b/../etc", ""] {
        let body = json!({ "to": to }).to_string();
        assert_eq!(test_api.json("POST", "/v1/backup", &body).0, 400, "{to}");
    }
}

#[test]
fn a_push_is_cancelled_and_one_that_nobody_knows_is_not_found() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Cancel { push: MessageId(5), product, .. }) => {
            let is_of = product.as_ref().is_none_or(|product| product.as_str() == "shop");
            let state = PushState::Cancelled;
            let counts =
                PushCounts { matched: 3, delivered: 1, cancelled: 2, state, ..Default::default() };
            Answer::Push(PushAnswer::Counts(is_of.then_some(counts)))
        }
        _ => Answer::Push(PushAnswer::Counts(None)),
    });
    for path in ["/v1/pushes/5", "/v1/pushes/5?product=shop"] {
        let (status, told) = test_api.json("DELETE", path, "");
        assert_eq!((status, &told["state"]), (200, &json!("cancelled")));
        assert_eq!((&told["id"], &told["counts"]["cancelled"]), (&json!("5"), &json!(2)));
        check_answer("delete", "/v1/pushes/{id}", &told);
    }
    for path in ["/v1/pushes/6", "/v1/pushes/5?product=other"] {
        let (status, told) = test_api.json("DELETE", path, "");
        assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_push")));
    }
    assert_eq!(test_api.json("DELETE", "/v1/pushes/x", "").0, 400);
}

#[test]
fn a_push_is_scheduled_for_a_time_to_come_that_is_near_enough() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order)) if order.collapse.is_some() => {
            Answer::Push(PushAnswer::TooManyScheduled)
        }
        Command::Push(PushCommand::Push(order)) if order.send_at_ms == Some(7) => {
            Answer::Push(PushAnswer::TimePassed)
        }
        Command::Push(PushCommand::Push(order)) => {
            let counts = PushCounts { state: PushState::Scheduled, ..PushCounts::default() };
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts })
        }
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    let push = |at_ms: u64, more: &str| {
        let order = r#""product": "shop", "device": "d", "body": "b""#;
        let body = format!(r#"{{{order}, "send_at_ms": {at_ms}{more}}}"#);
        test_api.json("POST", "/v1/pushes", &body)
    };
    let last = NOW_MS + 30 * 86_400_000;
    for at_ms in [NOW_MS + 1, last] {
        let (status, told) = push(at_ms, "");
        assert_eq!((status, &told["state"]), (200, &json!("scheduled")));
        check_answer("post", "/v1/pushes", &told);
        let asked = test_api.asked();
        let Some(Command::Push(PushCommand::Push(order))) = asked.last() else { panic!() };
        assert_eq!(order.send_at_ms, Some(at_ms));
    }
    for (at_ms, more, why) in [
        (NOW_MS, "", "has passed"),
        (0, "", "has passed"),
        (last + 1, "", "schedule_s_max"),
        (u64::MAX, "", "schedule_s_max"),
        (last, r#", "wait_ms": 1"#, "either `send_at_ms` or `wait_ms`"),
    ] {
        let (status, told) = push(at_ms, more);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(why), "{message}");
    }
    let (status, told) = push(last, r#", "collapse_key": "k""#);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("too_many_scheduled")));
    // Whether an order with a key repeats an earlier one, the hub knows.
    for (at_ms, status) in [(NOW_MS, 200), (7, 400)] {
        let order = r#""product": "shop", "device": "d", "body": "b""#;
        let body = format!(r#"{{{order}, "send_at_ms": {at_ms}}}"#);
        let key = [("Idempotency-Key", &b"k"[..])];
        assert_eq!(test_api.send_with(&key, "POST", "/v1/pushes", &body).0, status);
    }
}

#[test]
fn a_push_is_paused_resumed_and_sent_at_a_pace() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Pause { push: MessageId(5), paused, .. }) => {
            let state = if *paused { PushState::Paused } else { PushState::Running };
            let counts = PushCounts { state, running: true, ..PushCounts::default() };
            Answer::Push(PushAnswer::Counts(Some(counts)))
        }
        Command::Push(PushCommand::Push(order)) => {
            let counts = PushCounts::default();
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts })
        }
        _ => Answer::Push(PushAnswer::Counts(None)),
    });
    for (path, state) in [("pause", "paused"), ("resume?product=shop", "running")] {
        let (status, told) = test_api.json("POST", &format!("/v1/pushes/5/{path}"), "");
        assert_eq!((status, &told["state"]), (200, &json!(state)));
        check_answer("post", "/v1/pushes/{id}/pause", &told);
    }
    let (status, told) = test_api.json("POST", "/v1/pushes/6/pause", "");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_push")));
    let push = |more: &str| {
        let body = format!(r#"{{"product": "shop", "body": "b", {more}}}"#);
        test_api.json("POST", "/v1/pushes", &body)
    };
    assert_eq!(push(r#""tag": "t", "devices_per_s": 9"#).0, 200);
    let asked = test_api.asked();
    let Some(Command::Push(PushCommand::Push(order))) = asked.last() else { panic!() };
    assert_eq!(order.devices_per_s.map(|rate| rate.get()), Some(9));
    for wrong in [r#""device": "d", "devices_per_s": 9"#, r#""all": true, "devices_per_s": 0"#] {
        let (status, told) = push(wrong);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains("devices_per_s"), "{message}");
    }
}

#[test]
fn pushes_are_listed_by_state_and_page() {
    let test_api = TestApi::new(|command| {
        let Command::Push(PushCommand::Orders { before, count, .. }) = command else {
            return Answer::Push(PushAnswer::Done(false));
        };
        let of = |id: u64, state| OrderState {
            id: MessageId(id),
            product: ProductKey::parse("shop").ok(),
            send_at_ms: (state == PushState::Scheduled).then_some(NOW_MS + 1),
            counts: PushCounts { state, ..PushCounts::default() },
        };
        let all = [of(9, PushState::Scheduled), of(8, PushState::Finished)];
        let all = all.into_iter().filter(|it| before.is_none_or(|before| it.id < before));
        Answer::Push(PushAnswer::Orders(all.take(*count as usize).collect()))
    });
    let (status, told) = test_api.json("GET", "/v1/pushes?limit=1", "");
    assert_eq!((status, &told["next"]), (200, &json!("9")));
    assert_eq!(told["pushes"][0]["send_at_ms"], NOW_MS + 1);
    check_answer("get", "/v1/pushes", &told);
    let (_, told) = test_api.json("GET", "/v1/pushes?after=9", "");
    assert_eq!((&told["pushes"][0]["id"], &told["next"]), (&json!("8"), &json!(null)));
    let (_, told) = test_api.json("GET", "/v1/pushes?state=scheduled", "");
    assert_eq!(told["pushes"].as_array().map(Vec::len), Some(1));
    assert_eq!(test_api.json("GET", "/v1/pushes?state=late", "").0, 400);
}

#[test]
fn a_push_to_a_tag_or_a_product_is_counted() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order)) => {
            let counts = PushCounts { matched: 9, running: true, ..PushCounts::default() };
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts })
        }
        Command::Push(PushCommand::PushCounts(MessageId(5))) => {
            Answer::Push(PushAnswer::Counts(Some(PushCounts::default())))
        }
        _ => Answer::Push(PushAnswer::Counts(None)),
    });
    for (target, expected) in [
        (r#""tag": "berlin""#, PushTarget::Tag(Tag::parse("berlin").expect("allowed"))),
        (r#""all": true"#, PushTarget::Product),
    ] {
        let body = format!(r#"{{"product": "shop", "body": "ü", {target}}}"#);
        let (status, told) = test_api.json("POST", "/v1/pushes", &body);
        assert_eq!((status, &told["counts"]["matched"]), (200, &json!(9)));
        check_answer("post", "/v1/pushes", &told);
        let asked = test_api.asked();
        let Command::Push(PushCommand::Push(order)) = &asked[0] else { panic!("{asked:?}") };
        assert_eq!((&order.target, order.time_to_live_s), (&expected, 86_400));
        assert_eq!(&*order.body, "ü".as_bytes());
    }
    let (status, told) = test_api.json("GET", "/v1/pushes/5", "");
    assert_eq!(status, 200);
    check_answer("get", "/v1/pushes/{id}", &told);
    assert_eq!(test_api.json("GET", "/v1/pushes/6", "").1["error"]["code"], "unknown_push");
    assert_eq!(test_api.json("GET", "/v1/pushes/x", "").0, 400);
}

#[test]
fn what_makes_no_sense_is_told_with_what_would() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    let long = "x".repeat(65);
    let cases = [
        ("{", "the body is not JSON: "),
        (r#"{"product": "p"} x"#, "the body is not JSON: "),
        (r#"{"product": "p", "device": "d", "body": "b", "tll_s": 1}"#, "unknown field `tll_s`"),
        (r#"{"device": "d", "body": "b"}"#, "missing field `product`"),
        (r#"{"product": "p", "body": "b"}"#, "exactly one of `device`"),
        (r#"{"product": "p", "device": "d", "all": true, "body": "b"}"#, "exactly one of"),
        (r#"{"product": "p", "devices": [], "body": "b"}"#, "1 to 1000 names"),
        (r#"{"product": "p q", "device": "d", "body": "b"}"#, "0x20, allowed are"),
        (r#"{"product": "p", "device": "d"}"#, "give either `body` or `body_base64`"),
        (r#"{"product": "p", "device": "d", "body_base64": "?"}"#, "not base64"),
        (r#"{"product": "p", "device": "d", "body": "b", "priority": "low"}"#, "`normal`"),
        (r#"{"product": "p", "device": "d", "body": "b", "ttl_s": -1}"#, "from 0 to 4294967295"),
        (r#"{"product": "p", "device": "d", "body": "b", "wait_ms": 30001}"#, "at most 30000"),
        (r#"{"product": "p", "device": "d", "body": "b", "collapse_key": ""}"#, "1 to 64"),
        (&format!(r#"{{"product": "p", "device": "{long}", "body": "b"}}"#), "than 64 bytes"),
    ];
    for (body, expected) in cases {
        let (status, told) = test_api.json("POST", "/v1/pushes", body);
        let message = told["error"]["message"].as_str().expect("text");
        assert_eq!((status, &told["error"]["code"]), (400, &json!("bad_request")), "{body}");
        assert!(message.contains(expected), "{body}: {message}");
        check_named("ApiError", &told);
    }
    for (method, path, body, expected) in [
        ("GET", "/v1/devices?onlin=true", "", "onlin"),
        ("GET", "/v1/devices?limit=1001", "", "1 to 1000"),
        ("GET", "/v1/devices?limit=many", "", "`limit`: "),
        ("GET", "/v1/clients?address=nonsense", "", "`address`: invalid IP address"),
        ("GET", "/v1/devices?wrong=1", "", "unknown field `wrong`"),
        ("GET", "/v1/events?type=online,ofline", "", "ofline"),
        ("PUT", "/v1/products/p/devices/d/tags", r#"{"tags": ["a b"]}"#, "tag"),
        ("POST", "/v1/products/p/devices/d/kick", r#"{"addrs": ["nowhere"]}"#, "ip:port"),
        ("POST", "/v1/products/p/devices/d/token", r#"{"ttl_s": 0}"#, "`ttl_s` must be 1 to"),
    ] {
        let (status, told) = test_api.json(method, path, body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{path}: {status} {message}");
    }
    assert_eq!(test_api.asked(), [], "nothing of it reaches a shard");
    assert_eq!(test_api.json("GET", "/v2", "").1["error"]["code"], "unknown_path");
    assert_eq!(test_api.json("PATCH", "/v1/pushes", "").1["error"]["code"], "method_not_allowed");
}

#[test]
fn a_value_of_the_wrong_type_is_told_with_its_field_and_what_it_may_be() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Products(Vec::new())));
    let push = "/v1/pushes";
    let product = "/v1/products/p";
    let number = |field, max: u32| format!("`{field}` must be a whole number from 0 to {max}");
    for (path, body, expected) in [
        (push, r#"{"ttl_s": "long, expected u8"}"#, &*number("ttl_s", u32::MAX)),
        (push, r#"{"wait_ms": 1.5}"#, &number("wait_ms", u32::MAX)),
        (push, r#"{"body": ["s3cret"]}"#, "`body` must be a string"),
        (push, r#"{"priority": 1}"#, "`priority` must be a string"),
        (push, r#"{"silent": "yes"}"#, "`silent` must be true or false"),
        (push, r#"{"devices": "d"}"#, "`devices` must be a list"),
        (push, r#"{"devices": ["d", 7]}"#, "`devices[1]` must be a string"),
        (push, "[]", "the body must be an object"),
        (push, "7", "the body must be an object"),
        (push, r#"{"device": "d"}"#, "in the body: missing field `product`"),
        (product, r#"{"secrets": [{"key_id": 1, "hex": 424242}]}"#, "`secrets[0].hex` must be a"),
        (product, r#"{"heartbeat_min_s": 70000}"#, &number("heartbeat_min_s", 65_535)),
        (product, r#"{"secrets": [9]}"#, "`secrets[0]` must be an object"),
        (product, r#"{"secrets": [{"key_id": 7}]}"#, "in `secrets[0]`: missing field `hex`"),
        (product, r#"{"app_id": 1, "anonymous": "never"}"#, "`anonymous` must"),
    ] {
        let (status, told) = test_api.json(if path == push { "POST" } else { "PUT" }, path, body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.starts_with(expected), "{body}: {status} {message}");
        let leaks = ["at line", "struct ", "u32", "s3cret", "424242", "invalid"];
        assert!(!leaks.iter().any(|word| message.contains(word)), "{body}: {message}");
    }
    let (_, told) = test_api.json("PUT", product, r#"{"secrets": [{"key_id": 7, "hax": ""}]}"#);
    let message = told["error"]["message"].as_str().expect("text");
    assert_eq!(message, "unknown field `secrets[0].hax`, expected `key_id` or `hex`");
}

#[test]
fn a_body_that_announces_too_much_is_refused_before_it_comes() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    let addr = test_api.url.strip_prefix("http://").expect("a URL");
    let mut stream = std::net::TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let length = 1u64 << 40;
    let head = format!("POST /v1/pushes HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n");
    let head = format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("is sent");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    assert!(line.starts_with("HTTP/1.1 413 "), "{line}");
    assert_eq!(test_api.asked(), []);
}

#[test]
fn a_body_that_comes_after_its_refusal_does_not_break_the_connection() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    let mut stream = std::net::TcpStream::connect(test_api.addr()).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut answers = BufReader::new(stream.try_clone().expect("a second handle"));
    for (path, token, status) in [
        ("/v1/status", "wrong", "401"),
        ("/v1/nothing", "wrong", "401"),
        ("/v1/nothing", TOKEN, "404"),
        ("/v1/pushes", "wrong", "401"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n");
        let head = format!("{head}Authorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("is sent");
        assert_eq!(skip_answer(&mut answers), format!("HTTP/1.1 {status}"), "{path}");
        stream.write_all(b"{}").expect("is sent");
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").expect("is sent");
    assert_eq!(skip_answer(&mut answers), "HTTP/1.1 200");
}

/// Reads an answer to its end; gives version and status.
fn skip_answer(answers: &mut impl BufRead) -> String {
    let (mut status, mut length) = (String::new(), 0);
    answers.read_line(&mut status).expect("an answer");
    loop {
        let mut line = String::new();
        answers.read_line(&mut line).expect("a header");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a number"),
            Some(_) => {}
            None => break,
        }
    }
    answers.read_exact(&mut vec![0; length]).expect("a body");
    status.chars().take("HTTP/1.1 200".len()).collect()
}

#[test]
fn too_much_is_too_large() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    let push =
        |length| format!(r#"{{"product":"p","device":"d","body":"{}"}}"#, "x".repeat(length));
    let (status, told) = test_api.json("POST", "/v1/pushes", &push(4_097));
    assert_eq!((status, &told["error"]["code"]), (413, &json!("too_large")));
    let (status, told) = test_api.json("POST", "/v1/pushes", &push(200_000));
    assert_eq!((status, &told["error"]["code"]), (413, &json!("too_large")));
    assert_eq!(test_api.asked(), []);
}

#[test]
fn a_shard_that_lets_go_of_a_question_may_have_done_it() {
    struct Gone;
    impl Control for Gone {
        fn ask(&self, _: Command, reply: Reply) {
            drop(reply);
        }
        fn next_id(&self) -> MessageId {
            MessageId(1)
        }
    }
    let mut test_api = TestApi::new(|_| Answer::Busy);
    let settings = settings();
    let feed = Feed::new(&settings.limits);
    let running = start(settings, listeners(), Arc::new(Gone), feed).expect("starts");
    test_api.url = format!("http://{}", running.addrs()[0]);
    let (status, told) = test_api.json("GET", "/v1/status", "");
    assert_eq!((status, &told["error"]["code"]), (504, &json!("no_answer")));
}

#[test]
fn the_schema_of_im_is_served_to_everybody() {
    let test_api = TestApi::new(|_| Answer::Busy);
    let answer = ureq::get(format!("{}/im.proto", test_api.url)).call();
    let text = answer.expect("it is open").body_mut().read_to_string().expect("text");
    assert!(text.contains("syntax = \"proto3\""), "{text}");
}

#[test]
fn an_unknown_product_is_named() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Products) => Answer::Push(PushAnswer::Products(Vec::new())),
        Command::Push(PushCommand::DropProduct(_)) => Answer::Push(PushAnswer::Done(false)),
        Command::Push(PushCommand::Token { .. }) => Answer::Push(PushAnswer::Token(None)),
        _ => Answer::Push(PushAnswer::UnknownProduct),
    });
    let push = r#"{"product": "shoop", "device": "d", "body": "b"}"#;
    for (method, path, body) in [
        ("POST", "/v1/pushes", push),
        ("GET", "/v1/devices?product=shoop", ""),
        ("GET", "/v1/products/shoop", ""),
        ("DELETE", "/v1/products/shoop", ""),
        ("POST", "/v1/products/shoop/devices/d/kick", ""),
        ("POST", "/v1/products/shoop/devices/d/token", r#"{"ttl_s": 60}"#),
    ] {
        let (status, told) = test_api.json(method, path, body);
        let found = (status, &told["error"]["message"]);
        assert_eq!(found, (404, &json!("unknown product shoop")), "{method} {path}");
    }
}

#[test]
fn every_answer_that_refuses_has_a_status() {
    for (answer, status, code, retry) in [
        (Answer::Push(PushAnswer::UnknownProduct), 404, "unknown_product", None),
        (Answer::Busy, 503, "busy", Some("1")),
        (Answer::Push(PushAnswer::StoreFailed), 503, "store_failed", Some("30")),
        (Answer::Push(PushAnswer::Token(Some(String::new()))), 500, "internal", None),
    ] {
        let test_api = TestApi::new(move |_| answer.clone());
        let body = r#"{"product": "p", "device": "d", "body": "b"}"#;
        for (method, path, body) in
            [("POST", "/v1/pushes", body), ("GET", "/v1/status", ""), ("GET", "/v1/devices", "")]
        {
            let (found, text, after) = test_api.send(method, path, body);
            let told: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!((found, &told["error"]["code"]), (status, &json!(code)), "{path}");
            assert_eq!(after.as_deref(), retry);
        }
    }
}

/// The message of an error.
fn message(told: &serde_json::Value) -> &str {
    told["error"]["message"].as_str().unwrap_or_default()
}

#[test]
fn devices_are_told_and_ordered_about() {
    let test_api = TestApi::pushes(|command| match command {
        PushCommand::States { devices, .. } => PushAnswer::Devices(
            devices.iter().filter(|d| d.as_str() != "x").map(|d| state(d.as_str())).collect(),
        ),
        PushCommand::List { .. } => {
            PushAnswer::Page { devices: vec![state("a")], next: Some(u64::MAX) }
        }
        PushCommand::SetTags { tags, .. } => PushAnswer::Done(tags.len() < 2),
        PushCommand::Token { .. } => PushAnswer::Token(Some("tok".into())),
        _ => PushAnswer::Done(true),
    });
    let path = "/v1/products/shop/devices";
    let (status, told) = test_api.json("GET", &format!("{path}/a%2Fb"), "");
    check_answer("get", "/v1/products/{product}/devices/{device}", &told);
    assert_eq!(
        (status, &told["device"], &told["epoch"]),
        (200, &json!("a/b"), &json!("1152921504606846976"))
    );
    assert_eq!(test_api.json("GET", &format!("{path}/x"), "").1["error"]["code"], "unknown_device");
    let (_, told) = test_api.json("POST", &format!("{path}/query"), r#"{"devices": ["a", "x"]}"#);
    check_answer("post", "/v1/products/{product}/devices/query", &told);
    assert_eq!(told["devices"].as_array().map(Vec::len), Some(1));
    let query = "/v1/devices?product=shop&online=true&tag=t&after=18446744073709551615&limit=5";
    let (_, told) = test_api.json("GET", query, "");
    check_answer("get", "/v1/devices", &told);
    assert_eq!(told["next"], "18446744073709551615");
    let (product, device) = (key("shop"), device("a"));
    let list = Command::Push(PushCommand::List {
        product: Some(product.clone()),
        online: Some(true),
        tag: Some(Tag::parse("t").expect("allowed")),
        after: Some(u64::MAX),
        count: 5,
    });
    assert_eq!(test_api.asked().pop(), Some(list));
    let each = "/v1/products/{product}/devices/{device}";
    for (method, action, body, expected) in [
        ("POST", "kick", "", json!({ "was_online": true })),
        ("POST", "kick", r#"{"addrs": ["127.0.0.1:1"]}"#, json!({ "was_online": true })),
        ("PUT", "block", "", json!({ "blocked": true })),
        ("DELETE", "block", "", json!({ "blocked": false })),
        ("PUT", "tags", r#"{"tags": ["t"]}"#, json!({ "tags": ["t"] })),
        (
            "POST",
            "token",
            r#"{"ttl_s": 5}"#,
            json!({ "token": "tok", "expires_at": 1_760_000_005 }),
        ),
    ] {
        let (status, told) = test_api.json(method, &format!("{path}/a/{action}"), body);
        assert_eq!((status, &told), (200, &expected), "{action}");
        check_answer(&method.to_lowercase(), &format!("{each}/{action}"), &told);
    }
    let (p, d) = (|| product.clone(), || device.clone());
    let addrs = vec!["127.0.0.1:1".to_owned()];
    let tags = vec![Tag::parse("t").expect("allowed")];
    let expected = [
        PushCommand::Kick { product: p(), device: d(), addrs: Vec::new() },
        PushCommand::Kick { product: p(), device: d(), addrs },
        PushCommand::Block { product: p(), device: d(), blocked: true },
        PushCommand::Block { product: p(), device: d(), blocked: false },
        PushCommand::SetTags { product: p(), device: d(), tags },
        PushCommand::Token { product: p(), device: d(), user: None, until: 1_760_000_005 },
    ];
    assert_eq!(test_api.asked(), expected.map(Command::Push));
    let (status, told) = test_api.json("PUT", &format!("{path}/a/tags"), r#"{"tags": ["t", "u"]}"#);
    assert!(status == 400 && message(&told).contains("32 tags"));
}

#[test]
fn a_null_that_says_nothing_is_refused_with_its_field() {
    let test_api = TestApi::new(|_| Answer::Push(PushAnswer::Done(true)));
    for (wrong, field) in [
        (r#"{"hmac": null}"#, "`hmac` must not be null"),
        (r#"{"secrets": null, "topic": null}"#, "`secrets` must not be null"),
    ] {
        let (status, told) = test_api.json("PUT", "/v1/products/shop", wrong);
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.starts_with(field), "{told}");
    }
}

#[test]
fn products_are_made_and_changed_and_their_secrets_stay_inside() {
    let products = Arc::new(Mutex::new(Vec::<Arc<Product>>::new()));
    let table = Arc::clone(&products);
    let test_api = TestApi::pushes(move |command| {
        let mut table = table.lock().expect("no panic");
        match command {
            PushCommand::Products => return PushAnswer::Products(table.clone()),
            PushCommand::PutProduct(product) => {
                table.retain(|there| there.key != product.key);
                table.push(Arc::new((**product).clone()));
            }
            PushCommand::DropProduct(key) => {
                let before = table.len();
                table.retain(|there| there.key != *key);
                return PushAnswer::Done(table.len() < before);
            }
            _ => {}
        }
        PushAnswer::Done(true)
    });
    let (status, told) = test_api.json("PUT", "/v1/products/shop", "{}");
    assert!(status == 400 && message(&told).contains("app_id"));
    let (status, told) =
        test_api.json("PUT", "/v1/products/shop", r#"{"app_id": 7, "generate_secret": true}"#);
    assert_eq!((status, &told["key_ids"]), (200, &json!([1])));
    assert_eq!(told["generated_secret"], json!({ "key_id": 1, "hex": "a5".repeat(32) }));
    check_answer("put", "/v1/products/{product}", &told);
    test_api.asked();
    let change = r#"{"heartbeat_min_s": 1, "heartbeat_default_s": 2, "heartbeat_max_s": 3,
        "anonymous": "loopback", "hmac": false, "generate_secret": true}"#;
    let (_, told) = test_api.json("PUT", "/v1/products/shop", change);
    assert_eq!((&told["key_ids"], &told["app_id"]), (&json!([2, 1]), &json!(7)));
    assert_eq!(
        test_api.asked().pop(),
        Some(Command::Push(PushCommand::Configure { product: key("shop") }))
    );
    let kept = products.lock().expect("no panic")[0].clone();
    assert_eq!((kept.proofs.anonymous, kept.proofs.hmac), (AnonymousFrom::Loopback, false));
    assert!(kept.proofs.token, "what is left out keeps its value");
    let topic = r#"{"topic": "push/%p/%d"}"#;
    assert_eq!(test_api.json("PUT", "/v1/products/shop", topic).1["topic"], "push/%p/%d");
    assert_eq!(test_api.json("PUT", "/v1/products/shop", "{}").1["topic"], "push/%p/%d");
    let none = r#"{"topic": null}"#;
    assert_eq!(test_api.json("PUT", "/v1/products/shop", none).1["topic"], json!(null));
    let secrets = r#"{"secrets": [{"key_id": 9, "hex": "000102030405060708090a0b0c0d0e0f"}]}"#;
    assert_eq!(test_api.json("PUT", "/v1/products/shop", secrets).1["key_ids"], json!([9]));
    let kept = products.lock().expect("no panic")[0].secrets.clone();
    assert!(kept == [Secret { key_id: 9, bytes: (0..16).collect() }]);
    for path in ["/v1/products", "/v1/products/shop"] {
        let (status, text, _) = test_api.send("GET", path, "");
        let told = serde_json::from_str(&text).expect("JSON");
        check_answer("get", &path.replace("shop", "{product}"), &told);
        assert!(status == 200 && !text.contains("0a0b0c") && !text.contains("secret"), "{text}");
    }
    for (body, expected) in [
        (r#"{"secrets": [{"key_id": 1, "hex": "00"}]}"#, "16 to 64 bytes"),
        (r#"{"heartbeat_min_s": 5}"#, "`heartbeat_min_s` <= `heartbeat_default_s`"),
        (r#"{"reports_per_s": 10001}"#, "`reports_per_s` must be a whole number from 0 to 10000"),
        (r#"{"topic": "push/%p"}"#, "`topic` must have %d"),
        (r#"{"hmak": true}"#, "unknown field `hmak`"),
    ] {
        let (status, told) = test_api.json("PUT", "/v1/products/shop", body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{body}: {message}");
    }
    let (_, told) = test_api.json("DELETE", "/v1/products/shop", "");
    check_answer("delete", "/v1/products/{product}", &told);
    let gone = ["DELETE", "GET"].map(|method| test_api.json(method, "/v1/products/shop", "").0);
    assert_eq!(gone, [404, 404]);
}

#[test]
fn status_and_metrics_tell_every_counter() {
    let settings = Settings {
        readings: Arc::new(|| {
            let reading = |name, help| MetricReading { name, help, value: 77 };
            vec![reading("journal_bytes", "Bytes."), reading("journal_losses_total", "Losses.")]
        }),
        ..settings()
    };
    let test_api = TestApi::with(settings, |_| {
        let mut status = Status { connections: 5, retained_bytes: 9, ..Status::default() };
        status.turn_us_max = 1_500;
        let (connections, turns, busy_us, lag_us) = (5, 7, 2_500, 1_250_000);
        let of = |shard| ShardLoop { shard: ShardId(shard), connections, turns, busy_us, lag_us };
        status.loops = vec![of(0), of(1)];
        status.counters.dropped(model::session::Drop::QueueBytes, 3);
        status.counters.count_by(PushCounter::Binds, 12);
        status.counters.count_by(TopicCounter::Publishes, 9);
        status.counters.count_by(TopicCounter::PublishesQos1, 3);
        status.counters.count_by(TopicCounter::PublishesQos2, 2);
        status.counters.count_by(TopicCounter::TolerateText, 4);
        status.counters.closed(CloseReason::Replaced);
        Answer::Status(Box::new(status))
    });
    let (_, told) = test_api.json("GET", "/v1/status", "");
    check_answer("get", "/v1/status", &told);
    assert_eq!(
        (&told["counters"]["binds_total"], &told["closed"]["replaced"]),
        (&json!(12), &json!(1))
    );
    let (_, text, _) = test_api.send("GET", "/metrics", "");
    for line in [
        "# TYPE holdline_binds_total counter",
        "holdline_binds_total 12",
        "holdline_connections_closed_total{reason=\"replaced\"} 1",
        "holdline_connections 5",
        "# TYPE holdline_sessions gauge",
        "holdline_retained_bytes 9",
        "holdline_messages_dropped_total{reason=\"queue_bytes\"} 3",
        "holdline_publishes_received_total{qos=\"0\"} 4",
        "holdline_publishes_received_total{qos=\"1\"} 3",
        "holdline_publishes_received_total{qos=\"2\"} 2",
        "# TYPE holdline_tolerated_total counter",
        "holdline_tolerated_total{fault=\"text\"} 4",
        "# TYPE holdline_shard_turn_seconds_max gauge",
        "holdline_shard_turn_seconds_max 0.0015",
        "holdline_shard_connections{shard=\"0\"} 5",
        "holdline_shard_turns_total{shard=\"1\"} 7",
        "holdline_shard_busy_seconds_total{shard=\"1\"} 0.0025",
        "holdline_shard_lag_seconds_total{shard=\"0\"} 1.25",
        "# HELP holdline_journal_bytes Bytes.",
        "holdline_journal_bytes 77",
        "# TYPE holdline_journal_losses_total counter",
        "# TYPE process_resident_memory_bytes gauge",
        "holdline_build_info{version=\"0.0.0\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    check_metrics(&text);
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("bound");
    let fake = Fake {
        script: Box::new(|_| Answer::Busy),
        asked: Mutex::default(),
        next_id: AtomicU64::new(1),
    };
    let fake: Arc<dyn Control> = Arc::new(fake);
    let refused = |settings: Settings| {
        let feed = Feed::new(&settings.limits);
        let started = start(settings, listeners(), fake.clone(), feed);
        started.map(drop).expect_err("must not start").to_string()
    };
    let told = bind(addr).expect_err("it is taken").to_string();
    assert!(told.contains(&addr.to_string()) && told.contains("in use"), "{told}");
    assert!(refused(Settings { token: String::new(), ..settings() }).contains("token"));
    let hook = |types: &[&str], topics: &[&str]| {
        let words = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let (types, topics) = (words(types), words(topics));
        let (url, secret) = ("http://127.0.0.1:1".to_owned(), Vec::new());
        vec![Webhook { url, secret, product: None, types, topics }]
    };
    for (webhooks, expected) in [
        (hook(&["reprot"], &[]), "\"reprot\""),
        (hook(&["online"], &["a"]), "needs the type message_published"),
        (hook(&["message_published"], &["a#"]), "\"a#\" must use + only as"),
    ] {
        let told = refused(Settings { webhooks, ..settings() });
        assert!(told.contains(expected), "{told}");
    }
}
