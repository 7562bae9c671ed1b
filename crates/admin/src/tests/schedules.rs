//! Pushes by the devices' clocks, and schedules: what reaches the shards, and every way to be
//! refused.

use super::description::check_answer;
use super::*;
use model::calendar::{Calendar, Schedule, ScheduleState};
use model::id::{MessageId, ProductKey, ScheduleName};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand, PushCounts, PushOrder, PushState, PushTarget};
use model::zone::{CivilTime, LocalTime, Passed, Zone};
use serde_json::{Value, json};

/// A schedule as a shard tells it.
pub(super) fn morning() -> ScheduleState {
    let product = ProductKey::parse("shop").expect("a name");
    let push = PushOrder {
        time_to_live_s: 60,
        ..PushOrder::new(MessageId(1), product, PushTarget::Product, Box::from(*b"b"))
    };
    let schedule = Schedule {
        name: ScheduleName::parse("morning").expect("a name"),
        calendar: Calendar::cron("0 9 * * *").expect("a line"),
        zone: Zone::parse("Europe/Berlin").expect("a zone"),
        local: false,
        from: CivilTime::parse("2026-01-01T00:00"),
        until: None,
        count: Some(9),
        push,
    };
    let (last_ids, next_ms) = (vec![MessageId(5)], vec![NOW_MS + 1]);
    ScheduleState { schedule, paused: false, sent: 3, last_ids, next_ms }
}

fn message(told: &Value) -> &str {
    told["error"]["message"].as_str().expect("text")
}

#[test]
fn a_push_is_scheduled_by_the_clocks_of_the_devices() {
    let test_api = TestApi::new(|command| match command {
        Command::Push(PushCommand::Push(order)) => {
            let counts = PushCounts { state: PushState::Scheduled, ..PushCounts::default() };
            Answer::Push(PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts })
        }
        _ => Answer::Push(PushAnswer::Done(false)),
    });
    let push = |more: &str| {
        let body = format!(r#"{{"product": "shop", "device": "d", "body": "b", {more}}}"#);
        test_api.json("POST", "/v1/pushes", &body)
    };
    let at = Zone::UTC.shows(NOW_MS + 86_400_000);
    let berlin = Zone::parse("Europe/Berlin").expect("a zone");
    for (more, zone, passed) in [
        ("", Zone::UTC, Passed::Send),
        (r#", "zone": "europe/berlin", "passed": "skip", "track": true"#, berlin, Passed::Skip),
    ] {
        let (status, told) = push(&format!(r#""at_local": "{at}"{more}"#));
        assert_eq!((status, &told["state"]), (200, &json!("scheduled")), "{told}");
        check_answer("post", "/v1/pushes", &told);
        let asked = test_api.asked();
        let Some(Command::Push(PushCommand::Push(order))) = asked.last() else { panic!() };
        assert_eq!((order.local, order.send_at_ms), (Some(LocalTime { at, zone, passed }), None));
        assert_eq!(order.track, more.contains("track"));
    }
    let (past, far) = ("2025-01-01T00:00", "2099-01-01T00:00");
    let at = at.to_string();
    for (more, why) in [
        (format!(r#""at_local": "{past}""#), "has passed in every zone"),
        (format!(r#""at_local": "{far}""#), "schedule_s_max"),
        (r#""at_local": "2026-02-30T10:00""#.into(), "such as 2026-12-24T18:00"),
        (r#""at_local": "tomorrow""#.into(), "`at_local` is \"tomorrow\""),
        (format!(r#""at_local": "{at}", "zone": "Mars/Olympus""#), "\"Mars/Olympus\", which is no"),
        (format!(r#""at_local": "{at}", "passed": "never""#), "`send` or `skip`"),
        (format!(r#""at_local": "{at}", "send_at_ms": 7"#), "one of `at_local`"),
        (format!(r#""at_local": "{at}", "wait_ms": 7"#), "one of `at_local`"),
        (r#""zone": "UTC""#.into(), "need `at_local`"),
        (r#""passed": "send""#.into(), "need `at_local`"),
    ] {
        let (status, told) = push(&more);
        assert!(status == 400 && message(&told).contains(why), "{more}: {}", message(&told));
    }
}

#[test]
fn a_device_is_given_a_time_zone() {
    let test_api = TestApi::new(|command| {
        Answer::Push(PushAnswer::Done(matches!(
            command,
            Command::Push(PushCommand::SetZone { .. })
        )))
    });
    let path = "/v1/products/shop/devices/d/zone";
    let of_document = "/v1/products/{product}/devices/{device}/zone";
    let order = r#"{"zone": "america/new_york"}"#;
    for (method, body, zone) in
        [("PUT", order, json!("America/New_York")), ("DELETE", "", json!(null))]
    {
        for path in [path, "/v1/device/zone?product=shop&device=d"] {
            let (status, told) = test_api.json(method, path, body);
            assert_eq!((status, &told["zone"]), (200, &zone));
            check_answer(&method.to_lowercase(), of_document, &told);
        }
    }
    for zone in ["", "Berlin", "+01:00"] {
        let (status, told) = test_api.json("PUT", path, &json!({ "zone": zone }).to_string());
        assert!(status == 400 && message(&told).contains("no time zone"), "{}", message(&told));
    }
}

#[test]
fn schedules_are_saved_shown_paused_and_removed() {
    let test_api = TestApi::new(|command| {
        let is_known = |name: &ScheduleName| name.as_str() == "morning";
        Answer::Push(match command {
            Command::Push(PushCommand::PutSchedule(schedule)) => {
                match schedule.name.as_str() == "more" {
                    true => PushAnswer::TooManySchedules,
                    false => PushAnswer::Done(true),
                }
            }
            Command::Push(PushCommand::Schedules { schedule, .. }) => {
                let is_told = schedule.as_ref().is_none_or(is_known);
                PushAnswer::Schedules(is_told.then(morning).into_iter().collect())
            }
            Command::Push(
                PushCommand::DropSchedule { schedule, .. }
                | PushCommand::PauseSchedule { schedule, .. },
            ) => PushAnswer::Done(is_known(schedule)),
            _ => PushAnswer::Done(false),
        })
    });
    let save = |rule: &str, push: &str| {
        let push = format!(r#"{{"product": "shop", "all": true, "body": "b"{push}}}"#);
        let body = format!(r#"{{"name": "morning", {rule}, "push": {push}}}"#);
        test_api.json("POST", "/v1/schedules", &body)
    };
    for (rule, line) in [
        (r#""cron": "0  9 * * 1""#, "0 9 * * 1"),
        (r#""daily": {"at": "09:30"}"#, "30 9 * * *"),
        (r#""weekly": {"days": ["mon", "sun"], "at": "00:00"}"#, "0 0 * * 1,0"),
        (r#""monthly": {"days": [1, 31], "at": "23:59"}, "local": true"#, "59 23 1,31 * *"),
    ] {
        let (status, told) = save(rule, r#", "track": true"#);
        assert_eq!((status, &told["name"]), (200, &json!("morning")), "{told}");
        check_answer("post", "/v1/schedules", &told);
        let mut asked = test_api.asked();
        asked.retain(|it| matches!(it, Command::Push(PushCommand::PutSchedule(_))));
        let Some(Command::Push(PushCommand::PutSchedule(schedule))) = asked.last() else {
            panic!("{asked:?}")
        };
        assert_eq!((schedule.calendar.line(), schedule.local), (line, rule.contains("local")));
        assert!(schedule.push.track);
    }
    let (status, told) = test_api.json("GET", "/v1/schedules?product=shop", "");
    assert_eq!((status, &told["schedules"][0]["next_ms"]), (200, &json!([NOW_MS + 1])));
    check_answer("get", "/v1/schedules", &told);
    let (of, one) = ("/v1/schedules/{product}/{schedule}", "/v1/schedules/shop/morning");
    for (method, path) in [("GET", ""), ("POST", "/pause"), ("POST", "/resume")] {
        let (status, told) = test_api.json(method, &format!("{one}{path}"), "");
        assert_eq!((status, &told["last_ids"]), (200, &json!(["5"])));
        check_answer(&method.to_lowercase(), &format!("{of}{path}"), &told);
        let (status, told) = test_api.json(method, &format!("/v1/schedules/shop/x{path}"), "");
        assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_schedule")));
    }
    assert_eq!(test_api.json("DELETE", one, "").0, 200);
    assert_eq!(test_api.json("DELETE", "/v1/schedules/shop/x", "").0, 404);
    assert_eq!(test_api.json("GET", "/v1/schedules/shop/a%20b", "").0, 400);
    let more = r#"{"name": "more", "cron": "* * * * *",
        "push": {"product": "shop", "all": true, "body": "b"}}"#;
    let (status, told) = test_api.json("POST", "/v1/schedules", more);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("too_many_schedules")));
    let daily = r#""daily": {"at": "09:30"}"#;
    for (rule, push, why) in [
        (r#""cron": "0 9 * *""#, "", "`cron` must have five fields"),
        (r#""cron": "0 24 * * *""#, "", "`cron` has a wrong hour"),
        (r#""cron": "0 9 30 2 *""#, "", "never comes"),
        (r#""daily": {"at": "9:30"}"#, "", "`daily.at` is \"9:30\""),
        (r#""daily": {"at": "24:00"}"#, "", "`daily.at`"),
        (r#""weekly": {"days": ["mo"], "at": "09:30"}"#, "", "`weekly.days` has \"mo\""),
        (r#""weekly": {"days": [], "at": "09:30"}"#, "", "`weekly.days` must have"),
        (r#""monthly": {"days": [0], "at": "09:30"}"#, "", "from 1 to 31"),
        (r#""local": true"#, "", "exactly one of `cron`"),
        (&format!(r#"{daily}, "cron": "* * * * *""#), "", "exactly one of `cron`"),
        (&format!(r#"{daily}, "zone": "Mars""#), "", "\"Mars\", which is no time zone"),
        (&format!(r#"{daily}, "until": "2020-01-01T00:00""#), "", "still to come"),
        (&format!(r#"{daily}, "until": "soon""#), "", "`until` is \"soon\""),
        (&format!(r#"{daily}, "count": 0"#), "", "`count` must be at least 1"),
        (daily, r#", "send_at_ms": 7"#, "the schedule says when"),
        (daily, r#", "dry_run": true"#, "the schedule says when"),
        (daily, r#", "wait_ms": 7"#, "the schedule says when"),
        (daily, r#", "tag": "a""#, "exactly one of `device`"),
    ] {
        let (status, told) = save(rule, push);
        assert!(status == 400 && message(&told).contains(why), "{rule}: {}", message(&told));
    }
}
