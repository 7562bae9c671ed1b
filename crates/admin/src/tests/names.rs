//! A client or topic of any name is shown by the API and can be removed by it.

use super::description::check_answer;
use super::*;
use model::ports::pushes::{PushAnswer, PushCommand};
use model::ports::topics::{ClientState, TopicAnswer, TopicCommand};
use model::topic::Publication;
use serde_json::json;

/// Names that paths, terminals and proxies take ill.
const NAMES: [&str; 12] = [
    "\u{1}",
    "\u{1b}]0;x\u{7}",
    "a\u{9}b\r\nc",
    "/",
    "a//b/",
    "%2F",
    "%",
    "..",
    ".",
    "a b?c&d=e#f",
    "\u{1F980}\u{10FFFF}",
    "\u{85}\u{202e}",
];

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn client(name: &str) -> ClientState {
    ClientState {
        client_id: name.into(),
        user: None,
        online: false,
        protocol: "mqtt5",
        peer: None,
        since_ms: NOW_MS,
        seen_ms: NOW_MS,
        version: model::presence::PresenceVersion(1),
        reason: None,
        keep_alive_s: 0,
        expiry_s: 9,
        subscriptions: 0,
        inflight: 0,
        queued: 0,
        queued_bytes: 0,
        dropped: 0,
        has_will: false,
    }
}

fn test_api() -> TestApi {
    TestApi::new(|command| match command {
        Command::Topics(command) => Answer::Topics(match command {
            TopicCommand::Client(name) => TopicAnswer::Client(Some(Box::new(client(name)))),
            TopicCommand::Clients { .. } => {
                TopicAnswer::Clients { clients: NAMES.map(client).into(), next: None }
            }
            TopicCommand::Subscriptions(_) => TopicAnswer::Subscriptions(Some(Vec::new())),
            TopicCommand::Retained { filter, .. } => TopicAnswer::Retained {
                messages: vec![Arc::new(Publication::new(filter, b"", b"x"))],
                next: None,
            },
            _ => TopicAnswer::Done(true),
        }),
        _ => Answer::Busy,
    })
}

/// The one command that this reached the broker as.
fn asked(test_api: &TestApi) -> TopicCommand {
    match &test_api.asked()[..] {
        [Command::Topics(command)] => command.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_of_any_name_is_shown_changed_and_kicked() {
    let test_api = test_api();
    let (status, told) = test_api.json("GET", "/v1/clients", "");
    assert_eq!(status, 200);
    check_answer("get", "/v1/clients", &told);
    test_api.asked();
    for name in NAMES {
        let id: Box<str> = name.into();
        let code = encoded(name);
        let wish = r#"{"filter": "a"}"#;
        let filter = name.trim_end_matches("#f");
        for (place, open) in
            [(format!("/v1/clients/{code}"), '?'), (format!("/v1/client?client_id={code}"), '&')]
        {
            let below = |part: &str| match place.split_once('?') {
                Some((path, query)) => format!("{path}{part}?{query}"),
                None => format!("{place}{part}"),
            };
            let subscriptions = below("/subscriptions");
            let (status, told) = test_api.json("GET", &place, "");
            assert_eq!((status, &told["client_id"]), (200, &json!(name)), "{place}");
            assert_eq!(asked(&test_api), TopicCommand::Client(id.clone()));
            for (method, path, body, expected) in [
                ("DELETE", place.clone(), "", TopicCommand::Kick(id.clone())),
                (
                    "DELETE",
                    format!("{place}{open}session=true"),
                    "",
                    TopicCommand::DropSession(id.clone()),
                ),
                ("GET", subscriptions.clone(), "", TopicCommand::Subscriptions(id.clone())),
                (
                    "DELETE",
                    format!("{subscriptions}{open}filter={}", encoded(filter)),
                    "",
                    TopicCommand::Unsubscribe(id.clone(), filter.into()),
                ),
            ] {
                let (status, told) = test_api.json(method, &path, body);
                assert_eq!(status, 200, "{method} {path}: {told}");
                assert_eq!(asked(&test_api), expected, "{method} {path}");
            }
            let (status, told) = test_api.json("POST", &subscriptions, wish);
            assert_eq!(status, 200, "{subscriptions}: {told}");
            let TopicCommand::Subscribe(found, _) = asked(&test_api) else { panic!("{place}") };
            assert_eq!(found, id);
        }
    }
}

#[test]
fn a_retained_message_of_any_topic_is_shown_and_cleared() {
    let test_api = test_api();
    for name in NAMES.into_iter().filter(|name| !name.contains('#')) {
        let topic: Box<str> = name.into();
        let code = encoded(name);
        for place in [format!("/v1/retained/{code}"), format!("/v1/retained_message?topic={code}")]
        {
            let (status, told) = test_api.json("GET", &place, "");
            assert_eq!((status, &told["topic"]), (200, &json!(name)), "{place}");
            let shown = TopicCommand::Retained { filter: topic.clone(), after: None, count: 1 };
            assert_eq!(asked(&test_api), shown);
            assert_eq!(test_api.json("DELETE", &place, "").0, 200, "{place}");
            assert_eq!(asked(&test_api), TopicCommand::ClearRetained(topic.clone()));
        }
        let page = format!("/v1/retained?filter={code}&after={code}&limit=7");
        assert_eq!(test_api.json("GET", &page, "").0, 200, "{page}");
        let after = Some(topic.clone());
        assert_eq!(asked(&test_api), TopicCommand::Retained { filter: topic, after, count: 7 });
    }
}

#[test]
fn a_device_of_any_name_is_shown_kicked_blocked_and_tagged() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::States { .. }) => {
            Answer::Push(PushAnswer::Devices(vec![http::state("a")]))
        }
        Command::Push(PushCommand::Token { .. }) => {
            Answer::Push(PushAnswer::Token(Some("t".into())))
        }
        _ => Answer::Push(PushAnswer::Done(true)),
    });
    let names = NAMES.into_iter().chain(["a#b"]).filter(|name| DeviceId::parse(name).is_ok());
    let mut count = 0;
    for name in names {
        count += 1;
        let code = encoded(name);
        let (product, device) = (key("shop"), DeviceId::parse(name).expect("a name"));
        let tags = r#"{"tags": []}"#;
        for (method, what, body) in [
            ("GET", "", ""),
            ("POST", "/kick", ""),
            ("PUT", "/block", ""),
            ("DELETE", "/block", ""),
            ("PUT", "/tags", tags),
            ("POST", "/token", r#"{"ttl_s": 60}"#),
        ] {
            let path = format!("/v1/products/shop/devices/{code}{what}");
            let query = format!("/v1/device{what}?product=shop&device={code}");
            let mut orders = [path, query].map(|place| {
                let (status, told) = test_api.json(method, &place, body);
                assert_eq!(status, 200, "{method} {place}: {told}");
                check_answer(&method.to_lowercase(), &format!("/v1/device{what}"), &told);
                test_api.asked().pop().expect("the shards were asked")
            });
            assert_eq!(orders[0], orders[1], "{method} {what}");
            let (of, named) = match &mut orders[1] {
                Command::Push(PushCommand::States { product, devices }) => {
                    (product, devices.remove(0))
                }
                Command::Push(PushCommand::Kick { product, device, .. })
                | Command::Push(PushCommand::Block { product, device, .. })
                | Command::Push(PushCommand::SetTags { product, device, .. })
                | Command::Push(PushCommand::Token { product, device, .. }) => {
                    (product, device.clone())
                }
                other => panic!("{other:?}"),
            };
            assert_eq!((&*of, named), (&product, device.clone()), "{method} {what}");
        }
    }
    assert!(count >= 4, "{count} of the names are devices'");
    for query in ["", "?product=shop", "?device=d", "?product=shop&device=", "?product=a&nope=1"] {
        assert_eq!(test_api.json("GET", &format!("/v1/device{query}"), "").0, 400, "{query}");
    }
    assert_eq!(test_api.asked(), []);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_new_is_begun_with_control_characters() {
    let test_api = test_api();
    for (method, path, body) in [
        ("GET", "/v1/clients/a%00b", ""),
        ("GET", "/v1/clients/%FF", ""),
        ("GET", "/v1/client?client_id=", ""),
        ("GET", "/v1/client", ""),
        ("DELETE", "/v1/retained/a%00b", ""),
        ("GET", "/v1/retained_message?topic=a%2F%23", ""),
        ("GET", "/v1/products/%FF/devices/a", ""),
        ("PUT", "/v1/products/%FF", "{}"),
        ("POST", "/v1/publish", r#"{"topic": "a\u0001"}"#),
        ("POST", "/v1/clients/a/subscriptions", r#"{"filter": "a\u0001"}"#),
    ] {
        let (status, told) = test_api.json(method, path, body);
        assert_eq!((status, &told["error"]["code"]), (400, &json!("bad_request")), "{path}");
    }
    assert_eq!(test_api.asked(), []);
}
