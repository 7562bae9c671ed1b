//! Presence over the API: memory from the shards, the directory from queries that say what the
//! test wants.

use super::description::{check_answer, check_named};
use super::metrics::check_metrics;
use super::*;
use model::ports::presence::directory::{DirectoryError, Lease};
use model::ports::presence::queries::PastTransition;
use model::ports::presence::queries::{
    Audit, AuditOrder, Circuit, Count, Difference, DifferenceKind, Moment, PresenceAnswer,
    PresenceCommand, PresenceCounts, PresenceQueries, PresenceStatus, Remembered,
    ReplicationStatus, StatisticsStep,
};
use model::ports::pushes::{PushCounts, PushTarget};
use model::presence::{NodeName, OnlineState, PresenceRecord, PresenceVersion, Principal};
use model::push::Outcome;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::mpsc;

type Stored = Result<(Vec<Option<PresenceRecord>>, Vec<Lease>), DirectoryError>;
type Find = dyn Fn(&[Principal]) -> Stored + Send + Sync;
type Compare = dyn Fn(AuditOrder) -> Result<Audit, DirectoryError> + Send + Sync;

/// Queries that are answered by script. Without one it is where no directory is configured.
pub(super) struct ScriptedQueries {
    kind: &'static str,
    circuit: Circuit,
    stored: Box<Find>,
    audit: Box<Compare>,
}

impl ScriptedQueries {
    pub(super) fn none() -> ScriptedQueries {
        let refused = || DirectoryError::Refused("nobody asks where there is none".into());
        ScriptedQueries {
            kind: "none",
            circuit: Circuit::Open,
            stored: Box::new(move |_| Err(refused())),
            audit: Box::new(move |_| Err(refused())),
        }
    }

    /// One that has a directory and nothing in it.
    pub(super) fn empty() -> ScriptedQueries {
        let lease = lease();
        ScriptedQueries {
            kind: "redis",
            circuit: Circuit::Open,
            stored: Box::new(move |who| {
                Ok((vec![Some(record(lease.boot)); who.len()], vec![lease.clone()]))
            }),
            audit: Box::new(|_| Ok(Audit::default())),
        }
    }

    fn redis() -> ScriptedQueries {
        ScriptedQueries { kind: "redis", ..ScriptedQueries::none() }
    }
}

impl PresenceQueries for ScriptedQueries {
    fn standing(&self) -> ReplicationStatus {
        ReplicationStatus {
            kind: self.kind,
            node: lease(),
            circuit: self.circuit,
            unwritten: 3,
            lag_ms: 70,
            resync_left: 9,
            fault: Some(("the directory did not answer in time".into(), NOW_MS)),
            counters: vec![
                ("directory_calls_total", "Calls.", 17),
                ("directory_depth", "Depth.", 2),
            ],
        }
    }

    fn stored(&self, who: &[Principal]) -> Stored {
        (self.stored)(who)
    }

    fn addresses(&self, nodes: &[NodeName]) -> Result<Vec<Option<Box<str>>>, DirectoryError> {
        let address = |node: &NodeName| match node.as_str() {
            "node-2" => Some("http://10.0.0.2:7080".into()),
            _ => None,
        };
        Ok(nodes.iter().map(address).collect())
    }

    fn history(&self, who: &Principal, count: usize) -> Option<Vec<PastTransition>> {
        let one = |n: u64| PastTransition {
            version: PresenceVersion(n << 22),
            online: n % 2 == 1,
            protocol: "mqtt5".into(),
            reason: n.is_multiple_of(2).then(|| "peer_closed".into()),
            peer: (n > 2).then(|| "192.0.2.7:4711".parse().expect("an address")),
            user: None,
            lease: lease(),
        };
        let all: Vec<PastTransition> = (1..=4).map(one).collect();
        (self.kind != "none").then(|| match who.key().ends_with("gone") {
            true => Vec::new(),
            false => all[all.len() - count.min(all.len())..].to_vec(),
        })
    }

    fn audit(&self, order: AuditOrder) -> Result<Audit, DirectoryError> {
        (self.audit)(order)
    }

    fn statistics(&self, step: StatisticsStep) -> Vec<Moment> {
        let online = if step == StatisticsStep::Second { 1 } else { 60 };
        let of = BTreeMap::from([count("shop", "miop7", online)]);
        let moment = |at_s| Moment { at_s, of: of.clone(), heartbeats: 4, ..Moment::default() };
        (1..=100).map(moment).collect()
    }
}

fn test_api(queries: ScriptedQueries) -> TestApi {
    let settings = Settings { presence: Arc::new(queries), ..settings() };
    TestApi::with(settings, |command| match command {
        Command::Presence(PresenceCommand::Find(who)) => {
            let known = who.iter().filter(|who| !who.key().ends_with("gone"));
            // In no particular order.
            let found = known.rev().map(found).collect();
            Answer::Presence(PresenceAnswer::Found(found))
        }
        Command::Presence(PresenceCommand::Counts) => {
            let of = BTreeMap::from([count("", "mqtt5", 5), count("shop", "miop7", 7)]);
            Answer::Presence(PresenceAnswer::Counts(PresenceCounts { of }))
        }
        _ => Answer::Status(Box::default()),
    })
}

fn lease() -> Lease {
    Lease { node: key("node-1"), boot: 0xfeed }
}

fn count(product: &str, protocol: &'static str, online: u64) -> ((Box<str>, &'static str), Count) {
    ((product.into(), protocol), Count { online, arrivals: 20, departures: 20 - online.min(20) })
}

fn principal(key: &str) -> Principal {
    Principal::parse(key).expect("a key")
}

fn found(who: &Principal) -> PresenceStatus {
    let state = match who {
        Principal::Device(..) => OnlineState::Online("miop7"),
        Principal::Client(_) => OnlineState::Offline(CloseReason::PeerReset),
    };
    let (since_ms, seen_ms, version) = (NOW_MS, NOW_MS + 9, PresenceVersion(0xabc));
    PresenceStatus { who: who.clone(), user: None, state, since_ms, seen_ms, version }
}

fn record(boot: u64) -> PresenceRecord {
    PresenceRecord {
        version: PresenceVersion(1 << 40),
        online: true,
        node: key("node-1"),
        boot,
        detail: "mqtt5".into(),
        user: Some("a user".into()),
    }
}

fn message(told: &Value) -> &str {
    told["error"]["message"].as_str().expect("text")
}

#[test]
fn a_principal_is_found_in_memory_by_each_of_its_names() {
    let test_api = test_api(ScriptedQueries::none());
    for (query, key) in [
        ("product=shop&device=till%2F7", "shop#till/7"),
        ("key=shop%23till%2F7", "shop#till/7"),
        ("client=odd%20%23%C3%BC", "#odd #ü"),
        ("key=%23odd%20%23%C3%BC", "#odd #ü"),
    ] {
        let (status, told) = test_api.json("GET", &format!("/v1/presence?{query}"), "");
        assert_eq!((status, &told["key"]), (200, &json!(key)), "{query}");
        check_answer("get", "/v1/presence", &told);
        let is_device = key.starts_with("shop");
        assert_eq!(told["online"], is_device);
        assert_eq!(told["device"], if is_device { json!("till/7") } else { Value::Null });
        assert_eq!(told["reason"], if is_device { Value::Null } else { json!("peer_reset") });
        assert_eq!(told["version"], "0000000000000abc");
        assert_eq!((&told["node"], &told["seen_ms"]), (&json!("node-1"), &json!(NOW_MS + 9)));
        let asked = Command::Presence(PresenceCommand::Find(vec![principal(key)]));
        assert_eq!(test_api.asked(), [asked]);
    }
    let (status, told) = test_api.json("GET", "/v1/presence?client=gone", "");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_principal")));
    test_api.asked();
    for (query, expected) in [
        ("", "give `product` and `device`, or `client`, or `key`"),
        ("?product=shop", "give `product` and `device`"),
        ("?product=shop&device=a&client=b", "give `product` and `device`"),
        ("?key=nothing", "a key must be `product#device`"),
        ("?key=%23", "a key must be `product#device`"),
        ("?client=a%00b", "no U+0000"),
        ("?key=%23a%00b", "no U+0000"),
        ("?product=a%20b&device=c", "0x20, allowed are"),
        ("?clnt=a", "clnt"),
    ] {
        for path in ["/v1/presence", "/v1/presence/stored"] {
            let (status, told) = test_api.json("GET", &format!("{path}{query}"), "");
            assert!(status == 400 && message(&told).contains(expected), "{query}: {told}");
        }
    }
    assert_eq!(test_api.asked(), [], "nothing of it reaches a shard");
}

#[test]
fn a_list_is_answered_in_its_order_and_the_unknown_are_named() {
    let test_api = test_api(ScriptedQueries::none());
    let body = r##"{"product": "shop", "devices": ["a", "gone", "b"], "clients": ["c", "gone"],
        "keys": ["#d", "shop#a"]}"##;
    let (status, told) = test_api.json("POST", "/v1/presence", body);
    assert_eq!(status, 200);
    check_answer("post", "/v1/presence", &told);
    let keys: Vec<_> = told["found"].as_array().expect("a list").iter().collect();
    let keys: Vec<_> = keys.iter().map(|one| one["key"].as_str().expect("text")).collect();
    assert_eq!(keys, ["shop#a", "shop#b", "#c", "#d"], "one that is named twice is there once");
    assert_eq!(told["unknown"], json!(["shop#gone", "#gone"]));
    test_api.asked();
    let clients = |count| json!({ "clients": vec!["c".to_owned(); count] }).to_string();
    for (body, expected) in [
        (r#"{}"#.to_owned(), "1 to 1000 entries"),
        (clients(1_001), "1 to 1000 entries"),
        (r#"{"devices": ["a"]}"#.into(), "together"),
        (r#"{"product": "p", "clients": ["a"]}"#.into(), "together"),
        (r#"{"keys": ["a"]}"#.into(), "a key must be"),
        (r#"{"clients": [7]}"#.into(), "`clients[0]` must be a string"),
        (r#"{"client": ["a"]}"#.into(), "unknown field `client`"),
    ] {
        for path in ["/v1/presence", "/v1/presence/stored"] {
            let (status, told) = test_api.json("POST", path, &body);
            assert!(status == 400 && message(&told).contains(expected), "{expected}: {told}");
        }
    }
    assert_eq!(test_api.asked(), [], "nothing of it reaches a shard");
    let longest = |at: usize| format!("{at:04}{}", "x".repeat(252));
    let full = json!({ "clients": (0..1_000).map(longest).collect::<Vec<_>>() }).to_string();
    assert_eq!(test_api.json("POST", "/v1/presence", &full).0, 200, "a full list has room");
}

#[test]
fn a_record_is_online_only_with_its_own_lease() {
    let stored = |who: &[Principal]| {
        let of = |who: &Principal| match &*who.key() {
            "#here" => Some(record(0xfeed)),
            "#before" => Some(record(0xdead)),
            "#left" => {
                let detail = "replaced".into();
                Some(PresenceRecord { online: false, user: None, detail, ..record(0xfeed) })
            }
            _ => None,
        };
        Ok((who.iter().map(of).collect(), vec![lease()]))
    };
    let test_api =
        test_api(ScriptedQueries { stored: Box::new(stored), ..ScriptedQueries::redis() });
    for (client, online, lease, says) in
        [("here", true, true, true), ("before", false, false, true), ("left", false, true, false)]
    {
        let (status, told) =
            test_api.json("GET", &format!("/v1/presence/stored?client={client}"), "");
        assert_eq!(status, 200, "{told}");
        check_answer("get", "/v1/presence/stored", &told);
        assert_eq!((&told["online"], &told["lease"]), (&json!(online), &json!(lease)), "{client}");
        assert_eq!(told["record"]["online"], says);
        assert_eq!(told["bucket"], model::presence::bucket(&format!("#{client}")));
        assert_eq!(told["client_id"], client);
    }
    let (status, told) = test_api.json("GET", "/v1/presence/stored?client=none", "");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_record")));
    let body = r#"{"clients": ["none", "here", "left"]}"#;
    let (_, told) = test_api.json("POST", "/v1/presence/stored", body);
    check_answer("post", "/v1/presence/stored", &told);
    assert_eq!(told["unknown"], json!(["#none"]));
    assert_eq!(told["leases"], json!([{ "node": "node-1", "boot": "feed" }]));
    let record = &told["found"][0]["record"];
    assert_eq!(record["text"], "0000010000000000 o node-1 feed mqtt5 a user");
    assert_eq!(record["version"], "0000010000000000");
    assert_eq!(told["found"][1]["record"]["reason"], "replaced");
    assert_eq!(test_api.asked(), [], "memory is not asked");
}

#[test]
fn without_a_directory_one_is_told_what_to_configure() {
    let test_api = test_api(ScriptedQueries::none());
    for (method, path, body) in [
        ("GET", "/v1/presence/stored?client=a", ""),
        ("POST", "/v1/presence/stored", r#"{"clients": ["a"]}"#),
        ("POST", "/v1/presence/audit", ""),
    ] {
        let (status, told) = test_api.json(method, path, body);
        assert_eq!((status, &told["error"]["code"]), (409, &json!("no_directory")), "{path}");
        assert!(message(&told).contains("`[presence] directory`"), "{told}");
        check_named("ApiError", &told);
    }
    let (status, told) = test_api.json("GET", "/v1/presence/status", "");
    assert_eq!((status, &told["directory"]), (200, &json!("none")));
}

#[test]
fn a_directory_that_fails_is_told_in_its_words() {
    let failed = || DirectoryError::Unreachable("connection refused".into());
    let (stored, audit) = (move |_: &[Principal]| Err(failed()), move |_| Err(failed()));
    let test_api = test_api(ScriptedQueries {
        stored: Box::new(stored),
        audit: Box::new(audit),
        ..ScriptedQueries::redis()
    });
    for (method, path) in [("GET", "/v1/presence/stored?client=a"), ("POST", "/v1/presence/audit")]
    {
        let (status, text, retry) = test_api.send(method, path, "");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status, &told["error"]["code"]), (503, &json!("directory_failed")));
        assert!(message(&told).contains("cannot be reached: connection refused"), "{told}");
        assert_eq!(retry.as_deref(), Some("5"));
    }
}

#[test]
fn a_comparison_is_told_with_every_difference_and_its_history() {
    let (tell, told) = mpsc::sync_channel(4);
    let audit = move |order| {
        tell.send(order).expect("somebody listens");
        let history = vec![
            Remembered { version: PresenceVersion(1 << 40), state: OnlineState::Online("mqtt5") },
            Remembered {
                version: PresenceVersion(2 << 40),
                state: OnlineState::Offline(CloseReason::Replaced),
            },
        ];
        let difference = Difference {
            key: "#till-7".into(),
            kind: DifferenceKind::WrongNode,
            memory: Some(record(0xfeed)),
            stored: None,
            history,
        };
        Ok(Audit {
            online: 1_000_000,
            buckets_differing: 2,
            differing: 5,
            persistent: BTreeMap::from([("missing", 1), ("wrong_node", 3)]),
            differences: vec![difference],
            repaired: 4,
            took_ms: 812,
        })
    };
    let test_api = test_api(ScriptedQueries { audit: Box::new(audit), ..ScriptedQueries::redis() });
    let (status, found) = test_api.json("POST", "/v1/presence/audit", "");
    assert_eq!((status, &found["online"]), (200, &json!(1_000_000)));
    check_answer("post", "/v1/presence/audit", &found);
    let kinds = json!({ "missing": 1, "stale": 0, "extra": 0, "wrong_node": 3 });
    assert_eq!(found["persistent"], kinds);
    let difference = &found["differences"][0];
    assert_eq!((&difference["kind"], &difference["stored"]), (&json!("wrong_node"), &Value::Null));
    assert_eq!(difference["memory"]["boot"], "feed");
    assert_eq!(difference["history"][1]["reason"], "replaced");
    assert_eq!(difference["history"][0]["version"], "0000010000000000");
    let usual = AuditOrder { settle_ms: 2_000, repair: false, told_max: 100 };
    assert_eq!(told.try_recv(), Ok(usual));
    let body = r#"{"settle_ms": 0, "repair": true, "told_max": 0}"#;
    assert_eq!(test_api.json("POST", "/v1/presence/audit", body).0, 200);
    assert_eq!(told.try_recv(), Ok(AuditOrder { settle_ms: 0, repair: true, told_max: 0 }));
    for (body, expected) in [
        (r#"{"settle_ms": 600001}"#, "`settle_ms` must be at most 600000"),
        (r#"{"told_max": 10001}"#, "`told_max` must be at most 10000"),
        (r#"{"repair": "yes"}"#, "`repair` must be true or false"),
        (r#"{"settle": 1}"#, "unknown field `settle`"),
    ] {
        let (status, refused) = test_api.json("POST", "/v1/presence/audit", body);
        assert!(status == 400 && message(&refused).contains(expected), "{body}: {refused}");
    }
    assert!(told.try_recv().is_err(), "nothing of it reaches the office");
}

#[test]
fn one_comparison_at_a_time_and_another_is_told_busy() {
    let (began, begins) = mpsc::sync_channel(4);
    let (end, ends) = mpsc::sync_channel(4);
    let ends = Mutex::new(ends);
    let audit = move |_| {
        began.send(()).expect("somebody listens");
        ends.lock().expect("no panic").recv().expect("told to end");
        Ok(Audit::default())
    };
    let test_api = test_api(ScriptedQueries { audit: Box::new(audit), ..ScriptedQueries::redis() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| test_api.json("POST", "/v1/presence/audit", "").0);
        begins.recv().expect("it began");
        let (status, text, retry) = test_api.send("POST", "/v1/presence/audit", "");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status, &told["error"]["code"]), (503, &json!("busy")));
        assert_eq!(retry.as_deref(), Some("1"));
        assert_eq!(test_api.json("GET", "/v1/presence/status", "").0, 200, "all else goes on");
        end.send(()).expect("it waits");
        assert_eq!(first.join().expect("no panic"), 200);
    });
    end.send(()).expect("it will wait");
    assert_eq!(test_api.json("POST", "/v1/presence/audit", "").0, 200, "then there is room again");
}

#[test]
fn standing_counts_and_figures_over_time_are_told() {
    let test_api = test_api(ScriptedQueries::redis());
    let (_, told) = test_api.json("GET", "/v1/presence/status", "");
    check_answer("get", "/v1/presence/status", &told);
    assert_eq!((&told["circuit"], &told["boot"]), (&json!("open"), &json!("feed")));
    assert_eq!((&told["lag_ms"], &told["fault"]["at_ms"]), (&json!(70), &json!(NOW_MS)));
    assert_eq!(told["counters"]["directory_calls_total"], 17);
    let (_, told) = test_api.json("GET", "/v1/presence/counts", "");
    check_answer("get", "/v1/presence/counts", &told);
    assert_eq!((&told["online"], &told["arrivals"]), (&json!(12), &json!(40)));
    assert_eq!(told["by"][0]["product"], Value::Null);
    assert_eq!((&told["by"][1]["product"], &told["by"][1]["online"]), (&json!("shop"), &json!(7)));
    let path = "/v1/presence/statistics";
    let moments = |query: &str| {
        let (status, told) = test_api.json("GET", &format!("{path}{query}"), "");
        assert_eq!(status, 200, "{told}");
        check_answer("get", path, &told);
        let list = told["moments"].as_array().expect("a list").clone();
        (list.len(), list[0]["at_s"].clone(), list[0]["online"].clone())
    };
    assert_eq!(moments(""), (60, json!(41), json!(1)), "the last minute, oldest first");
    assert_eq!(moments("?step=minute&count=1440"), (100, json!(1), json!(60)));
    for (query, expected) in [
        ("?step=hour", "`second` or `minute`"),
        ("?count=0", "1 to 1440"),
        ("?count=1441", "1 to 1440"),
        ("?cuont=1", "cuont"),
    ] {
        let (status, told) = test_api.json("GET", &format!("{path}{query}"), "");
        assert!(status == 400 && message(&told).contains(expected), "{query}: {told}");
    }
}

#[test]
fn metrics_have_counts_by_product_and_protocol_and_how_the_directory_stands() {
    let lines = |test_api: &TestApi| test_api.send("GET", "/metrics", "").1;
    let text = lines(&test_api(ScriptedQueries::redis()));
    for line in [
        "# TYPE holdline_presence_online gauge",
        "holdline_presence_online{product=\"\",protocol=\"mqtt5\"} 5",
        "# TYPE holdline_presence_arrivals_total counter",
        "holdline_presence_departures_total{product=\"shop\",protocol=\"miop7\"} 13",
        "holdline_presence_unwritten 3",
        "holdline_presence_lag_seconds 0.07",
        "holdline_presence_circuit{state=\"closed\"} 0",
        "holdline_presence_circuit{state=\"open\"} 1",
        "holdline_presence_resync_left 9",
        "# TYPE holdline_directory_calls_total counter",
        "holdline_directory_calls_total 17",
        "# TYPE holdline_directory_depth gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let none = lines(&test_api(ScriptedQueries::none()));
    assert!(none.contains("presence_online{") && !none.contains("presence_lag"), "{none}");
    check_metrics(&text);
    let silent = TestApi::new(|_| Answer::Status(Box::default()));
    assert!(!lines(&silent).contains("presence_online"), "absent, not zero");
}

#[test]
fn metrics_of_many_products_are_bounded_and_nothing_is_lost_of_the_sum() {
    let of = (0..300).map(|at| count(&format!("p{at:03}"), "miop7", 1)).collect();
    let answer = Answer::Presence(PresenceAnswer::Counts(PresenceCounts { of }));
    let test_api = TestApi::new(move |command| match command {
        Command::Status => Answer::Status(Box::default()),
        _ => answer.clone(),
    });
    let text = test_api.send("GET", "/metrics", "").1;
    let mut samples: Vec<_> =
        text.lines().filter(|line| line.contains("presence_online{")).collect();
    assert_eq!(samples.len(), 257);
    samples.retain(|line| line.contains("\"*\""));
    assert_eq!(samples, ["holdline_presence_online{product=\"*\",protocol=\"miop7\"} 44"]);
}

#[test]
fn the_history_of_one_is_told_oldest_first_with_where_it_came_from() {
    let test_api = test_api(ScriptedQueries::redis());
    let (status, told) = test_api.json("GET", "/v1/presence/history?client=a&limit=3", "");
    assert_eq!((status, &told["key"]), (200, &json!("#a")), "{told}");
    check_answer("get", "/v1/presence/history", &told);
    let all = told["transitions"].as_array().expect("a list");
    assert_eq!(all.len(), 3);
    let gone = json!({
        "at_ms": PresenceVersion(2 << 22).unix_ms(), "online": false, "protocol": "mqtt5",
        "reason": "peer_closed", "peer": null, "user": null, "node": "node-1", "boot": "feed",
        "version": PresenceVersion(2 << 22).to_string(),
    });
    assert_eq!(all[0], gone);
    assert_eq!((&all[1]["online"], &all[1]["peer"]), (&json!(true), &json!("192.0.2.7:4711")));
    let (status, told) = test_api.json("GET", "/v1/presence/history?key=shop%23gone", "");
    assert_eq!((status, &told["transitions"]), (200, &json!([])), "nothing is known of it");
    for wrong in ["client=a&limit=0", "client=a&limit=10001", "limit=3", "client=a&device=b"] {
        let (status, _) = test_api.json("GET", &format!("/v1/presence/history?{wrong}"), "");
        assert_eq!(status, 400, "{wrong}");
    }
}

#[test]
fn where_no_history_is_kept_the_answer_says_so() {
    let test_api = test_api(ScriptedQueries { kind: "none", ..ScriptedQueries::redis() });
    let (status, told) = test_api.json("GET", "/v1/presence/history?client=a", "");
    assert_eq!((status, &told["error"]["code"]), (409, &json!("no_history")));
}

/// A server of which memory says this of devices, one answer after the other, and the directory
/// that of every one; it takes whatever push it gets.
fn shop(
    circuit: Circuit,
    memory: Vec<Vec<(&'static str, bool, u64)>>,
    directory: impl Fn() -> Option<(PresenceRecord, Vec<Lease>)> + Send + Sync + 'static,
) -> TestApi {
    let queries = ScriptedQueries {
        circuit,
        stored: Box::new(move |who| {
            let (record, leases) = directory().ok_or(DirectoryError::Slow)?;
            Ok((vec![Some(record); who.len()], leases))
        }),
        ..ScriptedQueries::redis()
    };
    let settings = Settings { presence: Arc::new(queries), ..settings() };
    let memory = Mutex::new(memory.into_iter());
    TestApi::with(settings, move |command| match command {
        Command::Presence(PresenceCommand::Find(who)) => {
            let known = memory.lock().expect("whole").next().unwrap_or_default();
            let known = known.into_iter().map(|(name, is_online, version)| {
                let who = Principal::Device(key("shop"), device(name));
                let state = match is_online {
                    true => OnlineState::Online("miop7"),
                    false => OnlineState::Offline(CloseReason::PeerReset),
                };
                PresenceStatus { state, version: PresenceVersion(version), ..found(&who) }
            });
            let found = known.filter(|it| who.contains(&it.who)).collect();
            Answer::Presence(PresenceAnswer::Found(found))
        }
        Command::Push(PushCommand::Push(order)) => {
            let outcomes = match &order.target {
                PushTarget::Devices(devices) => devices.clone(),
                _ => Vec::new(),
            };
            let outcomes = outcomes.into_iter().map(|it| (it, Outcome::Stored)).collect();
            let counts = PushCounts::default();
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes, counts })
        }
        _ => Answer::Status(Box::default()),
    })
}

fn at_node(node: &str, boot: u64) -> Option<(PresenceRecord, Vec<Lease>)> {
    let leases = vec![
        lease(),
        Lease { node: key("node-2"), boot: 2 },
        Lease { node: key("node-3"), boot: 3 },
    ];
    Some((PresenceRecord { node: key(node), ..record(boot) }, leases))
}

fn pushes(test_api: &TestApi, target: Value) -> (u16, Value) {
    let mut body = json!({ "product": "shop", "body": "x" });
    body.as_object_mut().expect("an object").extend(target.as_object().cloned().expect("one"));
    let (status, told) = test_api.json("POST", "/v1/pushes", &body.to_string());
    match status {
        200 => check_answer("post", "/v1/pushes", &told),
        _ => check_named("Error", &told),
    }
    (status, told)
}

#[test]
fn a_push_to_a_device_at_another_server_is_refused_with_that_ones_address() {
    let at_two = || at_node("node-2", 2);
    let test_api = shop(Circuit::Closed, vec![vec![("b", true, 1)]; 2], at_two);
    let (status, told) = pushes(&test_api, json!({ "devices": ["a", "b"] }));
    assert_eq!((status, &told["error"]["code"]), (409, &json!("elsewhere")));
    let place = json!([{ "device": "a", "node": "node-2", "address": "http://10.0.0.2:7080" }]);
    assert_eq!(told["error"]["elsewhere"], place, "the other one is here");
    assert!(message(&told).contains("a is online at node-2 (http://10.0.0.2:7080)"), "{told}");
    assert!(test_api.asked().iter().all(|it| !matches!(it, Command::Push(_))), "nothing is stored");
    let (_, page, _) = test_api.send("GET", "/metrics", "");
    assert!(page.contains("\nholdline_pushes_elsewhere_total 1\n"), "{page}");
    // A node that has not told where it is.
    let test_api = shop(Circuit::Closed, Vec::new(), || at_node("node-3", 3));
    let (status, told) = pushes(&test_api, json!({ "device": "a" }));
    let place = json!([{ "device": "a", "node": "node-3" }]);
    assert_eq!((status, &told["error"]["elsewhere"]), (409, &place));
}

#[test]
fn a_push_is_taken_unless_the_directory_shows_the_device_elsewhere_now() {
    let one = || json!({ "device": "a" });
    let newer = (1 << 40) + 1;
    /// Memory's answers about devices, question by question.
    type Memory = Vec<Vec<(&'static str, bool, u64)>>;
    type Told = fn() -> Option<(PresenceRecord, Vec<Lease>)>;
    let cases: [(&str, Memory, Told, Value); 8] = [
        ("online here", vec![vec![("a", true, 1)]], || at_node("node-2", 2), one()),
        (
            "offline here since later",
            vec![vec![("a", false, newer)]],
            || at_node("node-2", 2),
            one(),
        ),
        ("came meanwhile", vec![vec![], vec![("a", true, newer)]], || at_node("node-2", 2), one()),
        ("a record of this server", vec![], || at_node("node-1", 0xfeed), one()),
        ("a server that has ended", vec![], || at_node("node-2", 7), one()),
        (
            "offline everywhere",
            vec![],
            || {
                at_node("node-2", 2)
                    .map(|(it, leases)| (PresenceRecord { online: false, ..it }, leases))
            },
            one(),
        ),
        ("a tag", vec![], || at_node("node-2", 2), json!({ "tag": "t" })),
        ("all", vec![], || at_node("node-2", 2), json!({ "all": true })),
    ];
    for (why, memory, directory, target) in cases {
        let test_api = shop(Circuit::Closed, memory, directory);
        let (status, told) = pushes(&test_api, target);
        assert_eq!(status, 200, "{why}: {told}");
        let (_, page, _) = test_api.send("GET", "/metrics", "");
        assert!(page.contains("\nholdline_pushes_elsewhere_total 0\n"), "{why}");
        assert!(page.contains("\nholdline_pushes_unchecked_total 0\n"), "{why}");
    }
}

#[test]
fn a_directory_that_does_not_answer_stops_no_push_and_that_is_counted() {
    let late = shop(Circuit::Closed, Vec::new(), || None);
    // It is known that it does not answer: it is not even asked.
    let away = shop(Circuit::Open, Vec::new(), || at_node("node-2", 2));
    for test_api in [late, away] {
        let (status, told) = pushes(&test_api, json!({ "device": "a" }));
        assert_eq!((status, &told["outcomes"][0]["outcome"]), (200, &json!("stored")));
        let (_, page, _) = test_api.send("GET", "/metrics", "");
        assert!(page.contains("\nholdline_pushes_unchecked_total 1\n"), "{page}");
    }
}
