//! Tokens with scopes, what each route wants of them, and what is kept of what they did.

use super::description::{check_answer, check_named, document};
use super::stream::Client;
use super::*;
use crate::audit_log::Page;
use crate::table::{Of, Rule};
use crate::tokens::scope::Scope;
use model::audience::TagExpression;
use model::id::{SegmentName, Tag};
use model::ports::bans::{Ban, BanFault, BanOrder, BanSubject, Bans};
use model::ports::control::top::{TopPage, TopTally};
use model::ports::presence::queries::{PresenceAnswer, PresenceCommand, PresenceCounts};
use model::ports::pushes::{DeviceState, PushCounts};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::ports::tokens::NotKept;
use model::ports::topics::{ClientState, TopicAnswer, TopicCommand};
use model::ports::users::{Authority, UserOrder, Users};
use model::presence::{OnlineState, PresenceVersion};
use model::product::Product;
use model::topic::Publication;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

/// Rows in memory, which may refuse.
#[derive(Default)]
pub(super) struct Rows {
    rows: Mutex<BTreeMap<String, Vec<u8>>>,
    refuses: AtomicBool,
}

impl TokenRows for Rows {
    fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.rows.lock().expect("no panic").clone().into_iter().collect()
    }

    fn put(&self, name: &str, row: Vec<u8>) -> Result<(), NotKept> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(NotKept);
        }
        self.rows.lock().expect("no panic").insert(name.into(), row);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), NotKept> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(NotKept);
        }
        self.rows.lock().expect("no panic").remove(name);
        Ok(())
    }
}

/// Random bytes that are not the same twice.
fn random() -> RandomBytes {
    let next = AtomicU64::new(1);
    Arc::new(move |bytes| {
        let number = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(number.iter().cycle()).for_each(|(byte, from)| *byte = *from);
    })
}

/// Bans whatever it is told to, and has every ban.
struct AllBans;

impl Bans for AllBans {
    fn list(&self) -> Vec<Ban> {
        Vec::new()
    }

    fn put(&self, order: BanOrder) -> Result<Ban, BanFault> {
        let BanOrder { subject, cause, note, by, .. } = order;
        let (made_s, until_s, refused, ended) = (1, 0, 0, 0);
        Ok(Ban { subject, cause, note, by, made_s, until_s, refused, ended })
    }

    fn remove(&self, _: &BanSubject, _: &str) -> Result<bool, BanFault> {
        Ok(true)
    }

    fn refuses(&self, _: Option<IpAddr>, _: Option<&str>) -> bool {
        false
    }
}

/// A API of the test that has an answer for everything.
pub(super) fn whole_test_api(change: impl FnOnce(&mut Settings)) -> TestApi {
    let users = Arc::new(users::Book::default());
    let order = UserOrder {
        name: "tills".into(),
        password: None,
        is_super: None,
        is_disabled: None,
        rules: None,
    };
    users.put(order, Authority::Admin).expect("made");
    let url = "http://me:s3cret@127.0.0.1:1/hook?key=s3cret".into();
    let hook = Webhook { url, secret: vec![1], product: None, types: vec![], topics: vec![] };
    let mut settings = Settings {
        people: super::users::backwards(&users),
        users,
        presence: Arc::new(presence_api::ScriptedQueries::empty()),
        webhooks: vec![hook],
        random: random(),
        backup: Arc::new(|_| Ok(7)),
        bans: Arc::new(AllBans),
        ..settings()
    };
    change(&mut settings);
    TestApi::with(settings, answer)
}

fn answer(command: &Command) -> Answer {
    match command {
        Command::Push(PushCommand::Push(order)) => {
            let (id, outcomes, counts) = (order.id, Vec::new(), PushCounts::default());
            Answer::Push(PushAnswer::Pushed { id, outcomes, counts })
        }
        Command::Push(PushCommand::Orders { .. }) => Answer::Push(PushAnswer::Orders(Vec::new())),
        Command::Push(
            PushCommand::PushCounts(_) | PushCommand::Cancel { .. } | PushCommand::Pause { .. },
        ) => Answer::Push(PushAnswer::Counts(Some(PushCounts::default()))),
        Command::Push(PushCommand::Outcomes { .. }) => {
            Answer::Push(PushAnswer::Outcomes(Some(Vec::new())))
        }
        Command::Push(PushCommand::Minutes { .. }) => {
            Answer::Push(PushAnswer::Minutes(Some(vec![])))
        }
        Command::Push(PushCommand::States { devices, .. }) => {
            Answer::Push(PushAnswer::Devices(devices.iter().map(state).collect()))
        }
        Command::Push(PushCommand::List { .. }) => {
            Answer::Push(PushAnswer::Page { devices: Vec::new(), next: None })
        }
        Command::Push(PushCommand::UserDevices { .. }) => {
            Answer::Push(PushAnswer::Devices(Vec::new()))
        }
        Command::Push(PushCommand::Segments { .. }) => {
            let name = SegmentName::parse("regulars").expect("a name");
            let tags = TagExpression::Tag(Tag::parse("berlin").expect("a name"));
            Answer::Push(PushAnswer::Segments(vec![(name, Arc::new(tags))]))
        }
        Command::Push(PushCommand::Schedules { .. }) => {
            Answer::Push(PushAnswer::Schedules(vec![super::schedules::morning()]))
        }
        Command::Push(PushCommand::Products) => {
            Answer::Push(PushAnswer::Products(vec![Arc::new(Product::new(key("shop"), 7))]))
        }
        Command::Push(PushCommand::Token { .. }) => {
            Answer::Push(PushAnswer::Token(Some("t".into())))
        }
        Command::Status => Answer::Status(Box::default()),
        Command::Disconnections(_) => Answer::Disconnections(Vec::new()),
        Command::SlowClients => Answer::SlowClients(Vec::new()),
        Command::Top(_) => Answer::Top(TopPage {
            since_ms: 1,
            entries: [("a".into(), TopTally { messages_in: 1, ..TopTally::default() })].into(),
        }),
        Command::Topics(command) => Answer::Topics(match command {
            TopicCommand::Publish { .. } => TopicAnswer::Published { matched: true },
            TopicCommand::Clients { .. } => {
                TopicAnswer::Clients { clients: Vec::new(), next: None }
            }
            TopicCommand::Client(name) => TopicAnswer::Client(Some(Box::new(client(name)))),
            TopicCommand::Subscriptions(_) => TopicAnswer::Subscriptions(Some(Vec::new())),
            TopicCommand::Retained { filter, .. } => TopicAnswer::Retained {
                messages: vec![Arc::new(Publication::new(filter, b"", b"x"))],
                next: None,
            },
            _ => TopicAnswer::Done(true),
        }),
        Command::Presence(PresenceCommand::Counts) => {
            Answer::Presence(PresenceAnswer::Counts(PresenceCounts::default()))
        }
        Command::Presence(PresenceCommand::Find(who)) => {
            let found = |who: &model::presence::Principal| {
                model::ports::presence::queries::PresenceStatus {
                    who: who.clone(),
                    user: None,
                    state: OnlineState::Online("miop7"),
                    since_ms: 1,
                    seen_ms: 1,
                    version: PresenceVersion(1),
                }
            };
            Answer::Presence(PresenceAnswer::Found(who.iter().map(found).collect()))
        }
        Command::Chat(_) => chat::answer(command),
        Command::Presence(_) => Answer::Presence(PresenceAnswer::Found(Vec::new())),
        _ => Answer::Push(PushAnswer::Done(true)),
    }
}

fn state(device: &DeviceId) -> DeviceState {
    DeviceState {
        product: key("shop"),
        device: device.clone(),
        online: false,
        protocol: "",
        epoch: 0,
        since_ms: 0,
        seen_ms: 0,
        version: PresenceVersion(0),
        reason: None,
        heartbeat_s: 0,
        inflight: 0,
        waiting: 0,
        tags: Vec::new(),
        user: None,
        zone: None,
        platform: None,
        blocked: false,
    }
}

fn client(name: &str) -> ClientState {
    ClientState {
        client_id: name.into(),
        user: None,
        online: false,
        protocol: "mqtt5",
        peer: None,
        since_ms: 0,
        seen_ms: 0,
        version: PresenceVersion(0),
        reason: None,
        keep_alive_s: 0,
        expiry_s: 0,
        subscriptions: 0,
        inflight: 0,
        queued: 0,
        queued_bytes: 0,
        dropped: 0,
        has_will: false,
    }
}

/// A good call of a route: path with query, and body.
pub(super) fn good(rule: &Rule) -> (String, String) {
    let mut path = rule.path.to_owned();
    for (part, name) in [
        ("{id}", "5"),
        ("{product}", "shop"),
        ("{device}", "till-7"),
        ("{segment}", "regulars"),
        ("{schedule}", "morning"),
        ("{owner}", "ann"),
        ("{client}", "c"),
        ("{webhook}", "0"),
        ("{topic}", "t"),
        ("{user}", "tills"),
        ("{token}", "walker"),
        ("{file}", "console.js"),
        ("{account}", "ann"),
        ("{group}", "lunch"),
        ("{room}", "lobby"),
        ("{broadcast}", "5"),
        ("{kind}", "user"),
        ("{subject}", "mallory"),
        ("{of}", "topics"),
        ("{alarm}", "5"),
    ] {
        path = path.replace(part, name);
    }
    path += match (rule.method, rule.path) {
        ("delete", "/v1/client/subscriptions") => "?client_id=c&filter=a",
        (_, "/v1/client" | "/v1/client/subscriptions") => "?client_id=c",
        (_, "/v1/retained_message") => "?topic=t",
        (_, "/v1/trace") => "?client=c",
        ("delete", "/v1/clients/{client}/subscriptions") => "?filter=a",
        ("get", "/v1/presence" | "/v1/presence/history" | "/v1/presence/stored") => "?client=c",
        ("get", "/v1/chat/accounts/{account}/history") => "?with=bob",
        ("get", "/v1/devices" | "/v1/events" | "/v1/pushes" | "/v1/schedules") => "?product=shop",
        ("delete", "/v1/pushes/{id}") => "?product=shop",
        (_, "/v1/pushes/{id}/pause" | "/v1/pushes/{id}/resume") => "?product=shop",
        (_, "/v1/pushes/{id}/devices" | "/v1/pushes/{id}/minutes") => "?product=shop",
        (_, path) if path == "/v1/device" || path.starts_with("/v1/device/") => {
            "?product=shop&device=till-7"
        }
        _ => "",
    };
    let body = match rule.path {
        "/v1/bans" => r#"{"kind": "user", "subject": "mallory"}"#,
        "/v1/backup" => r#"{"to": "/b"}"#,
        "/v1/pushes" => r#"{"product": "shop", "device": "d", "body": "b"}"#,
        "/v1/reports" => {
            r#"{"product": "shop", "device": "d", "token": "t", "push": "5", "report": "opened"}"#
        }
        "/v1/pushes/batch" => r#"{"product": "shop", "messages": [{"device": "d", "body": "b"}]}"#,
        "/v1/products/{product}/devices/query" => r#"{"devices": ["d"]}"#,
        "/v1/products/{product}/devices/{device}/user" | "/v1/device/user" => r#"{"user": "ann"}"#,
        "/v1/products/{product}/devices/{device}/platform" | "/v1/device/platform" => {
            r#"{"platform": "android", "token": "t"}"#
        }
        "/v1/products/{product}/devices/{device}/zone" | "/v1/device/zone" => {
            r#"{"zone": "Europe/Berlin"}"#
        }
        "/v1/schedules" => {
            r#"{"name": "morning", "cron": "0 9 * * *",
                "push": {"product": "shop", "all": true, "body": "b"}}"#
        }
        "/v1/products/{product}/segments/{segment}" => r#"{"tags": "berlin"}"#,
        "/v1/products/{product}/devices/{device}/tags" | "/v1/device/tags" => r#"{"tags": []}"#,
        "/v1/products/{product}/devices/{device}/token" | "/v1/device/token" => r#"{"ttl_s": 5}"#,
        "/v1/clients/{client}/subscriptions" | "/v1/client/subscriptions" => r#"{"filter": "a"}"#,
        "/v1/presence" | "/v1/presence/stored" => r#"{"clients": ["c"]}"#,
        "/v1/publish" => r#"{"topic": "t"}"#,
        "/v1/users" => r#"{"lines": ["tills"]}"#,
        "/v1/session" => r#"{"token": "none"}"#,
        "/v1/tokens" => r#"{"name": "another", "scopes": ["read"]}"#,
        "/v1/chat/chatrooms/{room}/changes" => r#"{"verb": "quiet"}"#,
        "/v1/chat/accounts/{account}/mute" => r#"{"seconds": 60}"#,
        "/v1/chat/accounts/{account}/messages" => r#"{"to": "bob", "message": {"text": "hi"}}"#,
        "/v1/chat/accounts/{account}/recall" => r#"{"with": "bob", "seq": 1}"#,
        "/v1/chat/groups/{group}/recall" => r#"{"seq": 1}"#,
        "/v1/chat/groups" => r#"{"owner": "ann"}"#,
        "/v1/chat/groups/{group}/changes" => r#"{"verb": "close"}"#,
        "/v1/chat/moves" => r#"{"items": [{"account": "ann", "what": {"seen": {"upto": 1}}}]}"#,
        "/v1/chat/broadcasts" => r#"{"accounts": ["bob"], "message": {"text": "hi"}}"#,
        _ => "{}",
    };
    let has_body = matches!(rule.method, "post" | "put");
    (path, if has_body { body.into() } else { String::new() })
}

fn make(test_api: &TestApi, order: &Value) -> String {
    let (status, told) = test_api.json("POST", "/v1/tokens", &order.to_string());
    assert_eq!(status, 200, "{told}");
    told["token"].as_str().expect("a token").to_owned()
}

/// Status and code. An event stream is not read.
fn call(
    test_api: &TestApi,
    token: &str,
    rule: &Rule,
    (path, body): &(String, String),
) -> (u16, String) {
    let mut request = ureq::http::Request::builder()
        .method(&*rule.method.to_uppercase())
        .uri(format!("{}{path}", test_api.url));
    if !token.is_empty() {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut response =
        test_api.agent.run(request.body(body.clone()).expect("a request")).expect("told");
    let status = response.status().as_u16();
    if status == 200 {
        return (status, String::new());
    }
    let told: Value = response.body_mut().read_json().expect("JSON");
    check_named("ApiError", &told);
    (status, told["error"]["code"].as_str().expect("text").to_owned())
}

/// The folder of dead letters that every route can be good with.
fn with_letters(folder: &tempfile::TempDir) -> impl FnOnce(&mut Settings) {
    let letters = DeadLetterSettings::in_folder(folder.path().join("letters"));
    move |settings| settings.dead_letters = Some(letters)
}

#[test]
fn scope_users_changes_nobody_who_administers_and_admin_does() {
    let test_api = whole_test_api(|_| {});
    let [users, admin] = ["users", "admin"]
        .map(|scope| make(&test_api, &json!({ "name": scope, "scopes": [scope] })));
    let rules = rules();
    let asks = |token: &str, method: &str, path: &str, user: &str, body: &str| {
        let rule = rules.iter().find(|rule| (rule.method, rule.path) == (method, path));
        let path = path.replace("{user}", user);
        call(&test_api, token, rule.expect("it is served"), &(path, body.to_owned()))
    };
    for (method, path, body) in [
        ("put", "/v1/users/{user}", r#"{"password": "mine"}"#),
        ("post", "/v1/users", r#"{"lines": ["USER"]}"#),
        ("post", "/v1/users/{user}/kick", ""),
        ("delete", "/v1/users/{user}", ""),
    ] {
        for user in ["tills", "boss"] {
            let body = body.replace("USER", user);
            let told = asks(&users, method, path, user, &body);
            let expected = match user {
                "boss" => (403, "administrator".to_owned()),
                _ => (200, String::new()),
            };
            assert_eq!(told, expected, "{method} {path} {user}");
            if user == "boss" {
                let told = asks(&admin, method, path, user, &body);
                assert_eq!(told.0, 200, "{method} {path}: {told:?}");
            }
        }
    }
}

#[test]
fn every_route_answers_without_with_the_wrong_and_with_the_right_scope() {
    let folder = tempfile::tempdir().expect("a folder");
    let test_api = whole_test_api(with_letters(&folder));
    let document = document();
    let scoped: BTreeMap<&str, String> = Scope::ALL
        .into_iter()
        .map(|(word, _)| (word, make(&test_api, &json!({ "name": word, "scopes": [word] }))))
        .collect();
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let rules = rules();
            let found = rules.iter().find(|rule| (rule.path, rule.method) == (path, method));
            let rule = found.expect("it is described and served");
            let security = operation["security"].as_array().expect("scopes");
            let mut right: BTreeSet<&str> =
                security.iter().map(|any| any["token"][0].as_str().expect("a scope")).collect();
            if right.is_empty() {
                // Who logs in is a script of the console, which this is not.
                let open = if rule.is_log_in { 403 } else { 200 };
                assert_eq!(call(&test_api, "", rule, &good(rule)).0, open, "{path} is open");
                continue;
            }
            let what = format!("{method} {path}");
            assert_eq!(
                call(&test_api, "", rule, &good(rule)),
                (401, "unauthorized".into()),
                "{what}"
            );
            assert_eq!(
                call(&test_api, "hlt_00", rule, &good(rule)),
                (401, "wrong_token".into()),
                "{what}"
            );
            right.insert("admin");
            if right.contains("metrics") {
                right.insert("read");
            }
            for (word, token) in &scoped {
                // What a call takes away has to be there for the next one.
                if rule.path == "/v1/tokens/{token}" {
                    test_api.json(
                        "POST",
                        "/v1/tokens",
                        r#"{"name": "walker", "scopes": ["read"]}"#,
                    );
                }
                test_api.json("DELETE", "/v1/tokens/another", "");
                test_api.json("PUT", "/v1/users/tills", "");
                let told = call(&test_api, token, rule, &good(rule));
                let expected = match right.contains(word) {
                    // Numbers of broadcasts are made up.
                    true if rule.path.contains("{alarm}") => (404, "unknown_alarm".into()),
                    true if rule.path.contains("{broadcast}") => (404, "unknown_broadcast".into()),
                    true => (200, String::new()),
                    false => (403, "scope_missing".into()),
                };
                assert_eq!(told, expected, "{what} with {word}");
                seen += 1;
            }
        }
    }
    let open = rules().iter().filter(|rule| rule.scopes.is_empty()).count();
    assert_eq!((open, seen), (10, (rules().len() - open) * Scope::ALL.len()));
}

#[test]
fn a_token_for_a_product_opens_nothing_of_another() {
    let test_api = whole_test_api(|_| {});
    let scopes = json!(["push", "read", "manage"]);
    let made = |name: &str, product: &str| {
        make(&test_api, &json!({ "name": name, "scopes": scopes, "products": [product] }))
    };
    let (own, other) = (made("own", "shop"), made("other", "stock"));
    let wanted = [Scope::Push, Scope::Read, Scope::Manage];
    for rule in rules() {
        if rule.scopes.is_empty() || !wanted.iter().any(|scope| rule.scopes.contains(scope)) {
            continue;
        }
        let what = format!("{} {}", rule.method, rule.path);
        let bound = matches!(rule.of, Of::Path | Of::Query | Of::Body);
        let forbidden = (403, "product_forbidden".to_owned());
        let told = call(&test_api, &own, &rule, &good(&rule));
        let expected = if rule.of == Of::Other { forbidden.clone() } else { (200, String::new()) };
        assert_eq!(told, expected, "{what}");
        let told = call(&test_api, &other, &rule, &good(&rule));
        assert_eq!(told == forbidden, bound || rule.of == Of::Other, "{what}: {told:?}");
    }
    for path in ["/v1/devices", "/v1/devices?product=stock&product=shop", "/v1/events"] {
        let (status, text, _) = test_api.send_as(&own, &[], ("GET", path, ""));
        assert!(status == 403 && text.contains("product_forbidden"), "{path}: {text}");
    }
    for scope in ["metrics", "publish", "users", "admin"] {
        let order = json!({ "name": "x", "scopes": [scope], "products": ["shop"] });
        assert_eq!(test_api.json("POST", "/v1/tokens", &order.to_string()).0, 400, "{scope}");
    }
}

#[test]
fn a_token_is_shown_once_listed_and_revoked_and_outlives_a_restart() {
    let rows = Arc::new(Rows::default());
    let kept = |settings: &mut Settings| settings.tokens = rows.clone();
    let mut test_api = whole_test_api(kept);
    let order = json!({ "name": "ci", "scopes": ["push", "read"], "products": ["shop"] });
    let (_, told) = test_api.json("POST", "/v1/tokens", &order.to_string());
    check_answer("post", "/v1/tokens", &told);
    let text = told["token"].as_str().expect("text").to_owned();
    assert!(text.starts_with("hlt_") && text.len() == 52, "{text}");
    assert_eq!((&told["made_by"], &told["made_ms"]), (&json!("api.token"), &json!(NOW_MS)));
    let (status, told) = test_api.json("POST", "/v1/tokens", &order.to_string());
    assert_eq!((status, &told["error"]["code"]), (409, &json!("token_exists")));
    make(&test_api, &json!({ "name": "b", "scopes": ["read"] }));
    assert!(rows.all().iter().all(|(_, row)| {
        let row = String::from_utf8_lossy(row);
        !row.contains(&text) && !row.contains(text.trim_start_matches("hlt_"))
    }));
    test_api.stop();
    let test_api = whole_test_api(kept);
    let devices = ("GET", "/v1/devices?product=shop", "");
    assert_eq!(test_api.send_as(&text, &[], devices).0, 200);
    let (_, page) = test_api.json("GET", "/v1/tokens?limit=1", "");
    check_answer("get", "/v1/tokens", &page);
    assert_eq!((&page["tokens"][0]["name"], &page["next"]), (&json!("b"), &json!("b")));
    let (_, page) = test_api.json("GET", "/v1/tokens?after=b", "");
    assert_eq!((&page["tokens"][0]["name"], &page["next"]), (&json!("ci"), &json!(null)));
    assert_eq!(page["tokens"][0]["used_ms"], NOW_MS);
    let (_, one, _) = test_api.send("GET", "/v1/tokens/ci", "");
    check_answer("get", "/v1/tokens/{token}", &serde_json::from_str(&one).expect("JSON"));
    assert!(!one.contains("hlt_"), "{one}");
    rows.refuses.store(true, Ordering::Relaxed);
    let (status, told) = test_api.json("DELETE", "/v1/tokens/ci", "");
    assert_eq!((status, &told["error"]["code"]), (503, &json!("store_failed")));
    assert_eq!(test_api.send_as(&text, &[], devices).0, 200, "it was not revoked");
    let more = json!({ "name": "more", "scopes": ["read"] }).to_string();
    assert_eq!(test_api.json("POST", "/v1/tokens", &more).0, 503);
    rows.refuses.store(false, Ordering::Relaxed);
    let (_, told) = test_api.json("DELETE", "/v1/tokens/ci", "");
    check_answer("delete", "/v1/tokens/{token}", &told);
    let (status, told, _) = test_api.send_as(&text, &[], devices);
    assert!(status == 401 && told.contains("wrong_token"), "{told}");
    assert_eq!(test_api.json("DELETE", "/v1/tokens/ci", "").1["error"]["code"], "unknown_token");
    assert_eq!(rows.all().len(), 1);
}

#[test]
fn a_token_ends_when_it_was_to_end_and_a_stream_with_its_token() {
    let now_ms = Arc::new(AtomicU64::new(NOW_MS));
    let clock = now_ms.clone();
    let test_api = whole_test_api(|settings| {
        settings.wall_ms = Arc::new(move || clock.load(Ordering::Relaxed));
        settings.webhooks = Vec::new();
    });
    let text = make(&test_api, &json!({ "name": "short", "scopes": ["read"], "ttl_s": 60 }));
    let mut listener = Client::open_as(&test_api, &text, "", None);
    test_api.feed.publish(vec![report(1)]);
    assert!(listener.next().is_some());
    now_ms.store(NOW_MS + 59_999, Ordering::Relaxed);
    assert_eq!(test_api.send_as(&text, &[], ("GET", "/v1/clients", "")).0, 200);
    now_ms.store(NOW_MS + 60_000, Ordering::Relaxed);
    let (status, told, _) = test_api.send_as(&text, &[], ("GET", "/v1/clients", ""));
    assert!(status == 401 && told.contains("expired_token"), "{told}");
    assert_eq!(test_api.json("GET", "/v1/tokens/short", "").1["expired"], true);
    test_api.feed.publish(vec![report(2)]);
    assert_eq!(listener.next(), None, "nothing is told after the end");
    let text = make(&test_api, &json!({ "name": "long", "scopes": ["read"] }));
    let mut listener = Client::open_as(&test_api, &text, "", None);
    assert_eq!(test_api.json("DELETE", "/v1/tokens/long", "").0, 200);
    assert_eq!(listener.next(), None, "and nothing at all when it was revoked");
}

#[test]
fn what_makes_no_token_is_told() {
    let test_api = whole_test_api(|settings| settings.api.tokens_max = 1);
    let long = "x".repeat(65);
    for (order, expected) in [
        (json!({ "name": "", "scopes": ["read"] }), "1 to 64"),
        (json!({ "name": long, "scopes": ["read"] }), "1 to 64"),
        (json!({ "name": "a/b", "scopes": ["read"] }), "letters, digits"),
        (json!({ "name": "..", "scopes": ["read"] }), "must not start with"),
        (json!({ "name": "api.token", "scopes": ["read"] }), "must not be `api.token`"),
        (json!({ "name": "a", "scopes": [] }), "one or more of `metrics`"),
        (json!({ "name": "a", "scopes": ["reed"] }), "one or more of `metrics`"),
        (json!({ "name": "a", "scopes": ["read"], "ttl_s": 0 }), "`ttl_s` must be 1 to"),
        (json!({ "name": "a", "scopes": ["read"], "products": ["a b"] }), "0x20"),
        (json!({ "name": "a", "scopes": ["read"], "product": "p" }), "unknown field `product`"),
        (json!({ "name": "a" }), "missing field `scopes`"),
    ] {
        let (status, told) = test_api.json("POST", "/v1/tokens", &order.to_string());
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{order}: {message}");
    }
    make(&test_api, &json!({ "name": "a", "scopes": ["read"] }));
    let order = json!({ "name": "b", "scopes": ["read"] }).to_string();
    let (status, told) = test_api.json("POST", "/v1/tokens", &order);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("tokens_full")));
    check_named("ApiError", &told);
}

fn entries(test_api: &TestApi, query: &str) -> Vec<Value> {
    let (status, page) = test_api.json("GET", &format!("/v1/audit_log{query}"), "");
    assert_eq!(status, 200, "{page}");
    check_answer("get", "/v1/audit_log", &page);
    page["entries"].as_array().expect("a list").clone()
}

#[test]
fn what_was_changed_and_refused_is_in_the_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = |settings: &mut Settings| settings.audit_log = Some(folder.path().join("log"));
    let mut test_api = whole_test_api(kept);
    let text = make(&test_api, &json!({ "name": "ops", "scopes": ["users", "push"] }));
    test_api.json("GET", "/v1/users", "");
    let put = ("PUT", "/v1/users/a%1Bb", r#"{"password": "s3cret-word"}"#);
    assert_eq!(test_api.send_as(&text, &[], put).0, 400);
    let put = ("PUT", "/v1/users/bob", r#"{"password": "s3cret-word"}"#);
    assert_eq!(test_api.send_as(&text, &[], put).0, 200);
    let push = r#"{"product": "shop", "all": true, "body": "s3cret-word"}"#;
    for _ in 0..5 {
        assert_eq!(test_api.send_as(&text, &[], ("POST", "/v1/pushes", push)).0, 200);
        assert_eq!(test_api.send_as(&text, &[], ("POST", "/v1/backup", "{}")).0, 403);
        assert_eq!(test_api.send_as("guessed", &[], ("GET", "/v1/tokens?a", "")).0, 401);
    }
    let all = entries(&test_api, "");
    let told: Vec<_> = all
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            (text("token"), text("action"), text("outcome"), entry["more"].as_u64())
        })
        .collect();
    let one = |token: &str, action: &str, outcome: &str, more| {
        (token.to_owned(), action.to_owned(), outcome.to_owned(), Some(more))
    };
    let ordered: Vec<_> = told.iter().rev().take(6).cloned().collect();
    assert_eq!(
        ordered,
        [
            one("api.token", "POST /v1/tokens", "done", 0),
            one("ops", "PUT /v1/users/{user}", "failed", 0),
            one("ops", "PUT /v1/users/{user}", "done", 0),
            one("ops", "POST /v1/pushes", "done", 0),
            one("ops", "POST /v1/backup", "refused", 0),
            one("-", "any", "refused", 0),
        ]
    );
    let rest: BTreeSet<_> = told[..told.len() - 6].iter().cloned().collect();
    let gathered = [
        one("-", "any", "refused", 3),
        one("ops", "POST /v1/backup", "refused", 3),
        one("ops", "POST /v1/pushes", "done", 3),
    ];
    assert_eq!(rest, gathered.into(), "those alike share an entry");
    let of = |at: usize, key: &str| all[all.len() - 1 - at][key].clone();
    assert_eq!(of(0, "on"), "ops for push,users");
    assert_eq!(of(1, "on"), "/v1/users/a%1Bb");
    assert_eq!((of(2, "on"), of(2, "status")), (json!("/v1/users/bob"), json!(200)));
    assert!(of(3, "on").as_str().is_some_and(|on| on.starts_with("shop all push 7")));
    assert_eq!((of(4, "code"), of(5, "code")), (json!("scope_missing"), json!("wrong_token")));
    assert!(of(2, "peer").as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
    let read = |folder: &Path| std::fs::read_to_string(folder.join("log/current.jsonl"));
    let file = read(folder.path()).expect("a file");
    assert!(!file.contains("s3cret") && !file.contains(&text) && !file.contains("guessed"));
    assert_eq!(entries(&test_api, "?token=ops&outcome=done&limit=1").len(), 1);
    let (_, page) = test_api.json("GET", "/v1/audit_log?limit=2", "");
    let next = page["next"].as_str().expect("there is more");
    let rest = entries(&test_api, &format!("?after={next}&limit=1000"));
    assert_eq!(rest.len(), all.len() - 2);
    assert_eq!(test_api.json("GET", "/v1/audit_log?outcome=bad", "").0, 400);
    // Before the answer it is in the file: a kill of the process takes nothing of it.
    test_api.json("DELETE", "/v1/users/bob", "");
    assert!(read(folder.path()).expect("a file").contains("DELETE /v1/users/{user}"));
    test_api.stop();
    let test_api = whole_test_api(kept);
    assert_eq!(entries(&test_api, "")[0]["action"], "DELETE /v1/users/{user}");
}

#[test]
fn a_change_is_done_and_kept_although_its_caller_is_gone() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let (began, begun) = std::sync::mpsc::sync_channel(1);
    let (go, gone) = std::sync::mpsc::sync_channel(1);
    let gone = Mutex::new(gone);
    let test_api = whole_test_api(|settings| {
        settings.audit_log = Some(folder.path().to_owned());
        settings.backup = Arc::new(move |_| {
            began.send(()).expect("somebody waits");
            gone.lock().expect("no panic").recv().expect("told");
            Ok(7)
        });
    });
    let addr = test_api.running.as_ref().expect("runs").addrs()[0];
    let mut stream = std::net::TcpStream::connect(addr).expect("connects");
    let body = r#"{"to": "/b"}"#;
    let request = format!(
        "POST /v1/backup HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    begun.recv().expect("it is being done");
    drop(stream);
    // The API has seen a connection end when it says that it has one less: this one alone.
    while !test_api.send("GET", "/metrics", "").1.lines().any(|l| l == "holdline_api_connections 1")
    {
        std::thread::yield_now();
    }
    go.send(()).expect("somebody waits");
    while entries(&test_api, "").first().is_none_or(|entry| entry["action"] != "POST /v1/backup") {
        std::thread::yield_now();
    }
    let entry = &entries(&test_api, "")[0];
    assert_eq!((&entry["outcome"], &entry["status"]), (&json!("done"), &json!(200)));
}

#[test]
fn nothing_secret_of_a_webhook_is_told() {
    let test_api = whole_test_api(|_| {});
    let (_, text, _) = test_api.send("GET", "/v1/webhooks", "");
    assert!(text.contains("http://(hidden)@127.0.0.1:1/…"), "{text}");
    assert!(!text.contains("hook?"), "{text}");
    let metrics = test_api.send("GET", "/metrics", "").1;
    assert!(!text.contains("s3cret") && !metrics.contains("s3cret"));
    let hook = whole_hook();
    assert!(!format!("{hook:?}").contains("s3cret"));
    let blocked = tempfile::NamedTempFile::new().expect("a file");
    let settings = Settings {
        webhooks: vec![hook],
        dead_letters: Some(DeadLetterSettings::in_folder(blocked.path().into())),
        ..settings()
    };
    let feed = Feed::new(&settings.limits);
    let control = Arc::clone(&test_api.fake);
    let told =
        start(settings, listeners(), control, feed).map(drop).expect_err("no folder").to_string();
    assert!(told.contains("(hidden)") && !told.contains("s3cret"), "{told}");
}

fn whole_hook() -> Webhook {
    let url = "http://me:s3cret@127.0.0.1:1/hook?key=s3cret".into();
    Webhook { url, secret: b"s3cret".into(), product: None, types: vec![], topics: vec![] }
}

#[test]
fn a_full_disk_is_counted_and_nobody_is_refused_for_it() {
    let log = audit_log::AuditLog::open(None, 1).expect("none is kept");
    let page: Page = log.page(None, 1, &|_| true).expect("nothing");
    assert!(page.entries.is_empty() && !page.more);
    let folder = tempfile::tempdir().expect("a folder");
    let test_api = whole_test_api(|settings| {
        settings.audit_log = Some(folder.path().join("log"));
        settings.api.audit_log_bytes_max = 2; // each entry wants a new file
    });
    assert_eq!(test_api.json("DELETE", "/v1/users/tills", "").0, 200);
    std::fs::remove_dir_all(folder.path().join("log")).expect("gone");
    assert_eq!(test_api.json("PUT", "/v1/users/tills", "").0, 200);
    let metrics = test_api.send("GET", "/metrics", "").1;
    assert!(metrics.lines().any(|line| line == "holdline_api_audit_log_lost_total 1"));
}
