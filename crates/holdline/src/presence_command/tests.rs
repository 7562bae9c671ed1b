//! Tables and what counts as agreement.

use super::*;

fn memory(online: bool) -> Value {
    json!({
        "key": "shop#a", "online": online, "protocol": online.then_some("miop7"),
        "reason": (!online).then_some("peer_closed"), "node": "one", "since_ms": 1_000,
        "seen_ms": 86_401_002, "version": "000000000000000a",
    })
}

fn stored(online: bool, lease: bool, node: &str, version: &str) -> Value {
    let record = json!({
        "online": online, "protocol": online.then_some("miop7"),
        "reason": (!online).then_some("replaced"), "node": node, "at_ms": 1_000,
        "version": version,
    });
    json!({ "key": "shop#a", "online": online && lease, "lease": lease, "record": record })
}

#[test]
fn both_agree_when_they_say_the_same_of_the_same_connection() {
    let (here, same, other) = ("one", "000000000000000a", "000000000000000b");
    for (memory, stored, expected) in [
        (memory(true), stored(true, true, here, same), "yes"),
        (memory(true), stored(true, true, here, other), "no"),
        (memory(true), stored(true, true, "two", same), "no"),
        (memory(true), stored(true, false, here, same), "no"),
        (memory(true), Value::Null, "no"),
        (memory(false), stored(false, true, here, other), "yes"),
        (memory(false), Value::Null, "yes"),
        (Value::Null, Value::Null, "yes"),
        (memory(false), stored(true, false, here, same), "yes"),
        (memory(false), stored(true, true, here, same), "no"),
        (memory(false), stored(true, true, "two", other), "elsewhere"),
        (Value::Null, stored(true, true, "two", other), "elsewhere"),
    ] {
        let pair = Pair { key: "shop#a", memory: &memory, stored: &stored };
        assert_eq!(pair.agrees(), expected, "{memory} {stored}");
    }
}

#[test]
fn each_table_has_a_line_for_everybody_who_was_asked_for() {
    let keys = ["shop#a".to_owned(), "#b".to_owned()];
    let here = BTreeMap::from([(keys[0].clone(), memory(true))]);
    let there = BTreeMap::from([(keys[0].clone(), stored(true, false, "one", "00ff"))]);
    let told = states(&keys, &here);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[1].contains("online  miop7") && lines[1].ends_with(" 000000000000000a"));
    assert!(lines[1].contains("1970-01-02T00:00:01.002Z"), "{told}");
    assert!(lines[2].starts_with("#b ") && lines[2].contains("unknown"), "{told}");
    let told = records(&keys, &there);
    let words: Vec<&str> = told.lines().nth(1).expect("a line").split_whitespace().collect();
    assert_eq!(words[..5], ["shop#a", "offline", "no", "miop7", "one"]);
    let pairs: Vec<Pair> = keys.iter().map(|key| Pair::new(key, &here, &there)).collect();
    let told = side_by_side(&pairs);
    assert!(told.lines().nth(1).is_some_and(|line| line.ends_with(" no")), "{told}");
    assert!(told.lines().nth(2).is_some_and(|line| line.ends_with(" yes")), "{told}");
    assert_eq!(all(&pairs)[0]["agree"], "no");
}

#[test]
fn figures_and_standing_are_small_tables() {
    let by = json!([{
        "product": null, "protocol": "mqtt5", "online": 4, "arrivals": 6, "departures": 2,
    }]);
    let told = counts(&json!({ "online": 4, "arrivals": 6, "departures": 2, "by": by }));
    assert_eq!(told.lines().count(), 3);
    assert!(told.lines().nth(1).is_some_and(|line| line.starts_with("- ")), "{told}");
    let moments = json!({ "moments": [{
        "at_s": 86_401, "online": 4, "arrivals": 6, "departures": 2, "heartbeats": 9,
        "heartbeats_late": 1, "heartbeats_lost": 0,
    }] });
    let told = statistics(&moments);
    assert!(told.lines().nth(1).is_some_and(|line| line.starts_with("1970-01-02T00:00:01Z ")));
    let mut status = json!({
        "directory": "none", "node": "one", "boot": "feed", "circuit": "closed", "unwritten": 0,
        "lag_ms": 0, "resync_left": 0, "fault": null, "counters": { "directory_calls_total": 3 },
    });
    assert!(card(&status).starts_with(
        "no presence directory is configured: set `[presence] \
                                       directory`"
    ));
    status["directory"] = json!("redis");
    status["fault"] = json!({ "at_ms": 1_000, "message": "it did not answer" });
    let told = card(&status);
    assert!(told.starts_with("directory: redis\n"), "{told}");
    assert!(told.contains("1970-01-01T00:00:01.000Z it did not answer\n"), "{told}");
    let last: Vec<&str> = told.lines().last().expect("a line").split_whitespace().collect();
    assert_eq!(last, ["directory_calls_total", "3"]);
}

#[test]
fn a_history_has_a_line_for_each_transition_and_one_for_a_start_in_between() {
    let one = |online: bool, boot: &str| {
        json!({
            "at_ms": 86_401_002, "online": online, "protocol": "mqtt5", "peer": "192.0.2.7:4711",
            "reason": (!online).then_some("peer_closed"), "node": "one", "boot": boot,
        })
    };
    let told =
        history(&json!({ "transitions": [one(true, "a"), one(false, "a"), one(true, "b")] }));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    let expected =
        ["1970-01-02T00:00:01.002Z", "offline", "mqtt5", "192.0.2.7:4711", "peer_closed", "one"];
    assert_eq!(words, expected);
    assert_eq!(lines[3], "-- server started --");
    assert_eq!(history(&json!({ "transitions": [] })).lines().count(), 1);
}
