//! Clients, messages and retained messages over the API, and what the feed tells of them.

use super::description::{check_answer, check_named};
use super::hook::{Application, ids, test_api as hook_test_api};
use super::stream::Client;
use super::*;
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::topics::{
    ClientFilter, ClientState, SubscriptionState, TopicAnswer, TopicCommand,
};
use model::presence::PresenceVersion;
use model::service::ServiceKind;
use model::session::{Denial, Drop};
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use serde_json::json;

fn state(name: &str) -> ClientState {
    ClientState {
        client_id: name.into(),
        user: Some("tills".into()),
        online: true,
        protocol: "mqtt5",
        peer: Some(([192, 0, 2, 7], 50_123).into()),
        since_ms: NOW_MS,
        seen_ms: NOW_MS,
        version: PresenceVersion(7),
        reason: None,
        keep_alive_s: 60,
        expiry_s: u32::MAX,
        subscriptions: 1,
        inflight: 0,
        queued: 2,
        queued_bytes: 20,
        dropped: 3,
        has_will: true,
    }
}

/// A API of the test whose broker answers by a script.
fn test_api(script: impl Fn(&TopicCommand) -> TopicAnswer + Send + Sync + 'static) -> TestApi {
    TestApi::new(move |command| match command {
        Command::Topics(command) => Answer::Topics(script(command)),
        _ => Answer::Busy,
    })
}

fn asked(test_api: &TestApi) -> Vec<TopicCommand> {
    let topics = |command| match command {
        Command::Topics(command) => command,
        other => panic!("{other:?}"),
    };
    test_api.asked().into_iter().map(topics).collect()
}

#[test]
fn clients_are_told_and_kicked() {
    let test_api = test_api(|command| match command {
        TopicCommand::Clients { .. } => {
            TopicAnswer::Clients { clients: vec![state("a")], next: Some(u64::MAX) }
        }
        TopicCommand::Client(id) => {
            TopicAnswer::Client((&**id != "x").then(|| Box::new(state(id))))
        }
        TopicCommand::Kick(_) => TopicAnswer::Done(false),
        TopicCommand::DropSession(id) => TopicAnswer::Done(&**id != "x"),
        _ => TopicAnswer::Refused("not asked for"),
    });
    let path = "/v1/clients?online=true&user=tills&prefix=a&address=192.0.2.7&queued_min=2\
                &dropped_min=3&after=7&limit=5";
    let (status, told) = test_api.json("GET", path, "");
    assert_eq!((status, &told["next"]), (200, &json!("18446744073709551615")));
    check_answer("get", "/v1/clients", &told);
    let expected = TopicCommand::Clients {
        of: ClientFilter {
            online: Some(true),
            user: Some("tills".into()),
            prefix: Some("a".into()),
            address: Some([192, 0, 2, 7].into()),
            queued_min: Some(2),
            dropped_min: Some(3),
        },
        after: Some(7),
        count: 5,
    };
    assert_eq!(asked(&test_api), [expected]);
    let (_, told) = test_api.json("GET", "/v1/clients/a%2Fb%20%C3%BC", "");
    check_answer("get", "/v1/clients/{client}", &told);
    assert_eq!((&told["client_id"], &told["session_expiry_s"]), (&json!("a/b ü"), &json!(null)));
    assert_eq!(test_api.json("GET", "/v1/clients/x", "").1["error"]["code"], "unknown_client");
    let (_, told) = test_api.json("DELETE", "/v1/clients/a", "");
    check_answer("delete", "/v1/clients/{client}", &told);
    assert_eq!(told, json!({ "was_online": false }));
    let (_, told) = test_api.json("DELETE", "/v1/clients/a?session=true", "");
    check_answer("delete", "/v1/clients/{client}", &told);
    assert_eq!(told, json!({ "dropped": true }));
    assert_eq!(test_api.json("DELETE", "/v1/clients/x?session=true", "").0, 404);
    let long = "x".repeat(300);
    for (path, expected) in [
        ("/v1/clients?limit=0", "1 to 1000"),
        ("/v1/clients?onlin=true", "onlin"),
        ("/v1/clients/%FF", "UTF-8"),
        ("/v1/clients/a%00", "no U+0000"),
        (&*format!("/v1/clients/{long}"), "1 to 256 bytes"),
    ] {
        let (status, told) = test_api.json("GET", path, "");
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{path}: {status} {message}");
    }
}

#[test]
fn subscriptions_are_told_made_and_ended() {
    let wish = || SubscriptionOptions {
        filter: "a/+/b".into(),
        qos: Qos::AtLeastOnce,
        no_local: true,
        retain_as_published: false,
        retain_handling: RetainHandling::SendIfNew,
    };
    let test_api = test_api(move |command| match command {
        TopicCommand::Subscriptions(_) => {
            let granted = Qos::AtMostOnce;
            let one = SubscriptionState { wish: wish(), granted, subscription_id: Some(9) };
            TopicAnswer::Subscriptions(Some(vec![one]))
        }
        TopicCommand::Subscribe(id, _) if &**id == "full" => TopicAnswer::Refused("too many"),
        TopicCommand::Subscribe(id, _) => TopicAnswer::Done(&**id != "x"),
        _ => TopicAnswer::Done(false),
    });
    let path = |id: &str| format!("/v1/clients/{id}/subscriptions");
    let (_, told) = test_api.json("GET", &path("a"), "");
    check_answer("get", &path("{client}"), &told);
    assert_eq!(told["subscriptions"][0]["retain_handling"], "send_if_new");
    asked(&test_api);
    let body =
        r#"{"filter": "a/+/b", "qos": 1, "no_local": true, "retain_handling": "send_if_new"}"#;
    let (_, told) = test_api.json("POST", &path("a"), body);
    check_answer("post", &path("{client}"), &told);
    assert_eq!(asked(&test_api), [TopicCommand::Subscribe("a".into(), wish())]);
    assert_eq!(test_api.json("POST", &path("x"), body).1["error"]["code"], "unknown_client");
    let (status, told) = test_api.json("POST", &path("full"), body);
    assert_eq!((status, &told["error"]["message"]), (409, &json!("too many")));
    asked(&test_api);
    let (_, told) = test_api.json("DELETE", &(path("a") + "?filter=a%2F%2B%2Fb"), "");
    assert_eq!(told["error"]["code"], "unknown_subscription");
    assert_eq!(asked(&test_api), [TopicCommand::Unsubscribe("a".into(), "a/+/b".into())]);
    for (body, expected) in [
        ("{}", "missing field `filter`"),
        (r#"{"filter": "a#"}"#, "`filter` must use + only as"),
        (r#"{"filter": "a", "qos": 3}"#, "`qos` must be 0, 1 or 2"),
        (r#"{"filter": "a", "retain_handling": "no"}"#, "`retain_handling` must be"),
    ] {
        let (status, told) = test_api.json("POST", &path("a"), body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{body}: {message}");
    }
    assert_eq!(test_api.json("DELETE", &path("a"), "").0, 400, "without a filter");
}

#[test]
fn a_message_is_published_with_all_it_carries() {
    let test_api = test_api(|_| TopicAnswer::Published { matched: true });
    let body = json!({
        "topic": "a/b", "payload_base64": "AAE=", "qos": 2, "retain": true, "expiry_s": 60,
        "delay_s": 5, "content_type": "x", "response_topic": "r", "correlation_data": "c",
        "user_properties": [["k", "v"], ["k", "w"]],
    });
    let (status, told) = test_api.json("POST", "/v1/publish", &body.to_string());
    assert_eq!((status, &told), (200, &json!({ "matched": true })));
    check_answer("post", "/v1/publish", &told);
    let asked = asked(&test_api);
    let TopicCommand::Publish { message, delay_s: 5 } = &asked[0] else { panic!("{asked:?}") };
    assert_eq!((message.topic(), message.payload()), ("a/b", &[0, 1][..]));
    assert_eq!((message.qos, message.retain), (Qos::ExactlyOnce, true));
    assert_eq!((message.at_s, message.expire_at), (1_760_000_000, 1_760_000_065));
    // MQTT5 2.2.2.2: content type, response topic, correlation data, then the pairs.
    let properties = b"\x03\0\x01x\x08\0\x01r\x09\0\x01c\x26\0\x01k\0\x01v\x26\0\x01k\0\x01w";
    assert_eq!(message.properties(), properties);
}

#[test]
fn a_list_is_checked_whole_and_answered_one_by_one() {
    let test_api = test_api(|command| match command {
        TopicCommand::Publish { message, .. } if message.topic() == "b" => {
            TopicAnswer::Refused("not there")
        }
        _ => TopicAnswer::Published { matched: false },
    });
    let list = r#" [{"topic": "a", "payload": "1"}, {"topic": "b"}, {"topic": "c"}]"#;
    let (status, told) = test_api.json("POST", "/v1/publish", list);
    assert_eq!(status, 200);
    check_answer("post", "/v1/publish", &told);
    assert_eq!(told["results"][0], json!({ "matched": false }));
    assert_eq!(told["results"][1]["error"], json!({ "code": "refused", "message": "not there" }));
    let topics: Vec<_> = asked(&test_api)
        .into_iter()
        .map(|command| match command {
            TopicCommand::Publish { message, .. } => message.topic().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(topics, ["a", "b", "c"]);
    let long = "x".repeat(65_536);
    for (body, expected) in [
        (r#"[{"topic": "a"}, {"topic": "a/#"}]"#, "`[1].topic` is a topic name"),
        (r#"[{"topic": "a", "qos": "x"}]"#, "`[0].qos` must be a whole number from 0 to 255"),
        ("[]", "1 to 1000 messages"),
        (
            r#"{"topic": "a", "payload": "a", "payload_base64": "YQ=="}"#,
            "`payload` or `payload_base64`, not both",
        ),
        (r#"{"topic": "a", "payload_base64": "?"}"#, "`payload_base64` is not base64"),
        (r#"{"topic": "a", "payload_base64": "/w==", "payload_is_utf8": true}"#, "not UTF-8"),
        (r#"{"topic": "a", "delay_s": 4000000}"#, "`delay_s` must be at most 2592000"),
        (r#"{"topic": "a", "response_topic": "+"}"#, "`response_topic` is a topic name"),
        (r#"{"topic": "a", "user_properties": [["k"]]}"#, "`user_properties[0]` must be"),
        (
            &format!(r#"{{"topic": "a", "content_type": "{long}"}}"#),
            "`content_type` must have at \
                     most",
        ),
        (r#"{"topic": ""}"#, "`topic` must have 1 to 1024 bytes"),
        (r#"{"topc": "a"}"#, "unknown field `topc`"),
    ] {
        let (status, told) = test_api.json("POST", "/v1/publish", body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{expected}: {message}");
    }
    let large = format!(r#"{{"topic": "a", "payload": "{}"}}"#, "x".repeat(1024 * 1024));
    let (status, told) = test_api.json("POST", "/v1/publish", &large);
    assert_eq!((status, &told["error"]["code"]), (413, &json!("too_large")));
    assert_eq!(asked(&test_api), [], "nothing of it reaches a shard");
}

fn message(topic: &str, payload: &[u8]) -> Arc<Publication> {
    let mut message = Publication::new(topic, b"\x01\x01\x03\0\x01x", payload);
    (message.retain, message.expire_at) = (true, 1_760_000_009);
    Arc::new(message)
}

#[test]
fn retained_messages_are_told_and_cleared() {
    let test_api = test_api(|command| match command {
        TopicCommand::Retained { filter, .. } if &**filter == "none" => {
            TopicAnswer::Retained { messages: Vec::new(), next: None }
        }
        TopicCommand::Retained { .. } => {
            let messages = vec![message("a/1", b"on"), message("a/2", &[0xff])];
            TopicAnswer::Retained { messages, next: Some("a/2".into()) }
        }
        TopicCommand::ClearRetained(topic) => TopicAnswer::Done(&**topic != "none"),
        _ => TopicAnswer::Refused("not asked for"),
    });
    let (_, told) = test_api.json("GET", "/v1/retained?filter=a%2F%2B&after=a%2F0&limit=2", "");
    check_answer("get", "/v1/retained", &told);
    assert_eq!((&told["next"], &told["messages"][0]["payload"]), (&json!("a/2"), &json!("on")));
    assert_eq!(told["messages"][0]["content_type"], "x");
    assert_eq!(told["messages"][1].get("payload"), None);
    let expected =
        TopicCommand::Retained { filter: "a/+".into(), after: Some("a/0".into()), count: 2 };
    assert_eq!(asked(&test_api), [expected]);
    let (_, told) = test_api.json("GET", "/v1/retained/a%2F1", "");
    check_answer("get", "/v1/retained/{topic}", &told);
    assert_eq!(
        test_api.json("GET", "/v1/retained/none", "").1["error"]["code"],
        "unknown_retained"
    );
    let (_, told) = test_api.json("DELETE", "/v1/retained/a%2F1", "");
    check_answer("delete", "/v1/retained/{topic}", &told);
    assert_eq!(test_api.json("DELETE", "/v1/retained/none", "").0, 404);
    assert_eq!(test_api.json("DELETE", "/v1/retained/a%2F%23", "").0, 400);
}

fn happened_to(client_id: &str, what: ClientWhat) -> ClientEvent {
    let (user, version) = (Some("tills".into()), model::presence::PresenceVersion(9));
    ClientEvent { at_ms: NOW_MS, client_id: client_id.into(), user, version, what }
}

fn published(topic: &str) -> ClientEvent {
    happened_to("c", ClientWhat::Published(message(topic, b"hi")))
}

#[test]
fn a_stream_tells_what_happens_to_clients() {
    let test_api = TestApi::new(|_| Answer::Busy);
    let mut client = Client::open(&test_api, "", None);
    assert!(test_api.feed.wanted(ServiceKind::Topics) && !test_api.feed.messages_wanted());
    let peer = ([192, 0, 2, 7], 1).into();
    let events = vec![
        happened_to("c", ClientWhat::Connected { protocol: "mqtt5", peer, resumed: true }),
        happened_to("c", ClientWhat::Disconnected { reason: CloseReason::PeerClosed }),
        happened_to("c", ClientWhat::Refused { why: Denial::BadCredentials }),
        happened_to("c", ClientWhat::SessionEnded),
        happened_to("c", ClientWhat::Subscribed { filter: "a".into(), qos: Qos::AtLeastOnce }),
        published("a"),
        happened_to("c", ClientWhat::Unsubscribed { filter: "a".into() }),
        happened_to("c", ClientWhat::Dropped { why: Drop::QueueCount, count: 7 }),
    ];
    test_api.feed.publish(vec![offline()]);
    assert_eq!(test_api.feed.publish(events), 0);
    let told: Vec<_> = (0..8).map(|_| client.next().expect("an event")).collect();
    let expected = [
        "offline",
        "client_connected",
        "client_disconnected",
        "client_refused",
        "session_ended",
        "client_subscribed",
        "client_unsubscribed",
        "messages_dropped",
    ];
    assert_eq!(told.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), expected);
    for (at, (name, id, data)) in told.iter().enumerate() {
        check_named(if at == 0 { "Event" } else { "ClientEvent" }, data);
        assert_eq!((&data["type"], &data["id"]), (&json!(name), &json!(id)));
        assert_eq!(*id, format!("{NOW_MS}-{}", at + 1), "messages take no place here");
    }
    assert_eq!((&told[7].2["reason"], &told[7].2["count"]), (&json!("queue_count"), &json!(7)));
}

#[test]
fn a_stream_of_messages_has_those_on_its_topics() {
    let test_api = TestApi::new(|_| Answer::Busy);
    let query = "?type=message_published&topic=a%2F%2B";
    let mut client = Client::open(&test_api, query, None);
    assert!(
        test_api.feed.messages_wanted()
            && !test_api.feed.wanted(ServiceKind::Topics)
            && !test_api.feed.wanted(ServiceKind::Push)
    );
    let mut other = Client::open(&test_api, "?type=message_published&topic=b", None);
    test_api.feed.publish(vec![published("b"), published("a/1"), published("$SYS/a")]);
    let (name, id, data) = client.next().expect("a message");
    assert_eq!((name.as_str(), id), ("message_published", format!("{NOW_MS}-m2")));
    assert_eq!(other.next().expect("a message").2["message"]["topic"], "b", "to each its own");
    test_api.feed.publish(vec![published("b")]);
    assert_eq!(other.next().expect("a message").1, format!("{NOW_MS}-m3"));
    check_named("ClientEvent", &data);
    assert_eq!((&data["message"]["topic"], &data["user"]), (&json!("a/1"), &json!("tills")));
    let mut back = Client::open(&test_api, query, Some("17-m1"));
    let (name, _, data) = back.next().expect("a gap");
    assert_eq!((name.as_str(), &data), ("gap", &json!({ "lost": null })));
    for (query, expected) in [
        ("?type=message_published,online", "must not combine"),
        ("?topic=a", "`topic` is allowed with"),
        ("?type=message_published&topic=a%23", "`filter` must use + only"),
    ] {
        let (status, told) = test_api.json("GET", &format!("/v1/events{query}"), "");
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{query}: {message}");
    }
}

#[test]
fn messages_nobody_wants_cost_nothing_and_many_bytes_lose_the_oldest() {
    let feed = Feed::new(&Limits::default());
    assert_eq!(feed.publish(vec![published("a")]), 0);
    let reader = feed.message_reader(vec!["a".into()]);
    let large = || happened_to("c", ClientWhat::Published(message("a", &[0; 1024 * 1024])));
    let lost: usize = (0..70).map(|_| feed.publish(vec![large()])).sum();
    let taken = reader.take(100).expect("open");
    assert_eq!((taken.lost, taken.happenings.len()), (7, 63), "64 MiB with their weights");
    assert_eq!(lost, 7);
    drop(reader);
    assert!(!feed.messages_wanted());
}

#[test]
fn a_sort_that_nobody_kept_is_a_gap_for_who_comes_back_to_it() {
    let feed = Feed::new(&Limits::default());
    let wish = |devices, clients| feed::Wish { devices, clients, ..Default::default() };
    let hold = feed.reader(wish(true, false), None);
    feed.publish(vec![offline()]);
    assert!(feed.wanted(ServiceKind::Push) && !feed.wanted(ServiceKind::Topics));
    assert_eq!(feed.publish(vec![happened_to("c", ClientWhat::SessionEnded)]), 0);
    let back = feed.reader(wish(false, true), Some(1));
    assert_eq!(back.take(9).expect("open").lost, 1);
    feed.publish(vec![happened_to("c", ClientWhat::SessionEnded)]);
    let again = feed.reader(wish(true, true), Some(2)).take(9).expect("open");
    assert_eq!((again.lost, again.happenings.len()), (0, 1));
    drop(hold);
}

#[test]
fn a_webhook_gets_events_of_clients_and_the_messages_it_names() {
    let application = Application::start();
    let test_api = hook_test_api(&application, |settings| {
        let words = ["client_connected", "session_ended", "message_published"];
        settings.webhooks[0].types = words.map(String::from).into();
        settings.webhooks[0].topics = vec!["a/#".into()];
    });
    assert!(
        test_api.feed.wanted(ServiceKind::Topics)
            && test_api.feed.messages_wanted()
            && !test_api.feed.wanted(ServiceKind::Push)
    );
    let _other = test_api.feed.message_reader(vec!["b".into()]);
    test_api.feed.publish(vec![published("b"), published("a/1")]);
    let (signature, batch) = application.take(500);
    check_named("WebhookBody", &batch);
    assert!(!signature.is_empty() && ids(&batch) == [format!("{NOW_MS}-m2")]);
    assert_eq!(application.take(200).1, batch, "it is posted again until it is taken");
    test_api.feed.publish(vec![happened_to("c", ClientWhat::SessionEnded)]);
    let (_, batch) = application.take(200);
    check_named("WebhookBody", &batch);
    assert_eq!(ids(&batch), [format!("{NOW_MS}-1")]);
}
