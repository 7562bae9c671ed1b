//! Errors in a plan, each reported with its place: vectors of texts and messages.

use super::*;

const GOOD: &str = r#"name = "t"
about = "A plan."
pass = ["errors == 0"]

[target]
url = ["mqtt://127.0.0.1:1883"]

[[group]]
name = "devices"
keep_alive = "60s"

[[stage]]
name = "first"
clients = { devices = 10 }
arrive = { shape = "rate", per_s = 100 }
hold = "10s"

[[stage.traffic.devices]]
what = "publish"
topic = "t/%i"
pace = { per_s = 5 }

[[stage.fault]]
at = "5s"
what = { cut = { share = 0.5, how = "reset" } }
"#;

#[test]
fn a_good_plan_is_read_whole() {
    let plan = read("t.toml", GOOD, &[]).expect("it is good");
    assert_eq!(plan.stages[0].clients["devices"], 10);
    assert_eq!(plan.stages[0].faults.len(), 1);
}

/// A line of the good plan, what stands in its place, and what is said then.
const WRONG: &[(&str, &str, &str)] = &[
    ("name = \"t\"", "name = \"t t\"", "t.toml:1: name = `t t`: a name must have 1 to 64 letters"),
    ("about =", "abuot =", "t.toml:2: abuot = \"A plan.\": unknown field `abuot`, expected one of"),
    ("errors == 0", "erors == 0", "t.toml:3: pass.1 = `erors == 0`: "),
    (
        "mqtt://",
        "mqt://",
        "t.toml:6: target.url.1: invalid URL `mqt://127.0.0.1:1883`: unknown scheme mqt://",
    ),
    (
        "keep_alive = \"60s\"",
        "keep_alive = \"60\"",
        "t.toml:10: keep_alive = \"60\": `60` is not a duration",
    ),
    ("keep_alive = \"60s\"", "keep_alive = \"20h\"", "t.toml:10: group.devices.keep_alive = 20h: "),
    ("devices = 10 }", "device = 10 }", "t.toml:14: stage.first.clients.device: no group"),
    ("devices = 10 }", "devices = -1 }", "t.toml:14: clients = { devices = -1 }: invalid value"),
    ("per_s = 100 }", "per_s = 0 }", "t.toml:15: stage.first.arrive.per_s = 0: a rate a second"),
    ("per_s = 100 }", "per_s = nan }", "t.toml:15: stage.first.arrive.per_s = NaN: a rate"),
    (
        "topic = \"t/%i\"",
        "topic = \"t/%i\"\namong = 5\ncontacts = 5",
        "t.toml:22: stage.first.traffic.devices.1.contacts = 5: at least 1, and fewer than `among`",
    ),
    ("\"rate\", per_s", "\"rat\", per_s", "t.toml:15: arrive = { shape = \"rat\""),
    ("hold = \"10s\"", "hold = \"90d\"", "t.toml:16: stage.first.hold = 90d: a time up to 31"),
    ("pace = { per_s = 5 }", "qos = 3\npace = { per_s = 5 }", "stage.first.traffic.devices.1.qos"),
    ("pace = { per_s = 5 }", "pace = { window = 0 }", "t.toml:21: stage.first.traffic.devices.1.p"),
    ("at = \"5s\"", "at = \"15s\"", "t.toml:24: stage.first.fault.1.at = 15s: before the end"),
    ("share = 0.5", "share = 1.5", "t.toml:25: stage.first.fault.1.what.cut = 1.5: a share from"),
];

#[test]
fn what_is_wrong_is_told_with_file_line_key_and_value() {
    for (good, wrong, said) in WRONG {
        assert!(GOOD.contains(good), "the vector is about nothing: {good}");
        let text = GOOD.replacen(good, wrong, 1);
        let message = read("t.toml", &text, &[]).expect_err(wrong);
        assert!(message.contains(said), "{wrong}\nsaid:  {message}\nnot:   {said}");
    }
}

#[test]
fn the_command_line_changes_keys_and_is_checked_likewise() {
    let set = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        read("t.toml", GOOD, &sets)
    };
    let plan = set(&["stage.*.hold=20s", "group.devices.keep_alive=5s", "target.pid=7", "seed=1"]);
    let plan = plan.expect("good changes");
    assert_eq!(plan.stages[0].hold.to_string(), "20s");
    assert_eq!((plan.target.pid, plan.seed), (Some(7), Some(1)));
    assert_eq!(plan.groups[0].keep_alive.to_string(), "5s");
    let wrong = [
        ("stage.last.hold=1s", "no stage `last`; use one of first, or *"),
        ("stage.first.hold=soon", "--set stage.first.hold=soon: `soon` is not a duration"),
        ("stage.first.hlod=1s", "--set stage.first.hlod=1s: unknown field `hlod`"),
        ("stage.*.arrive.per_s=0", "--set stage.*.arrive.per_s=0: stage.first.arrive.per_s = 0"),
        ("seed", "write KEY=VALUE"),
        ("=1", "write KEY=VALUE"),
    ];
    for (change, said) in wrong {
        let message = set(&[change]).expect_err(change);
        assert!(message.contains(said), "{change}: {message}");
    }
}

#[test]
fn a_file_that_is_none_is_refused_early() {
    let long = "#".repeat(PLAN_BYTES_MAX + 1);
    assert!(read("x", &long, &[]).expect_err("too long").contains("Is it the right file?"));
    assert!(read("x", "name = ", &[]).expect_err("cut off").starts_with("x:1: name ="));
    assert!(read("x", "name = \"a\"", &[]).expect_err("empty").contains("[[group]]"));
}
