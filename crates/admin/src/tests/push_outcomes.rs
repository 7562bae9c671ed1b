//! Outcomes of tracked pushes, and reports of devices.

use super::description::check_answer;
use super::{TestApi, settings};
use crate::Settings;
use model::id::{DeviceId, MessageId};
use model::ports::bans::{Ban, BanFault, BanOrder, BanSubject, Bans};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{
    BearerToken, DeviceStep, OutcomePart, PushAnswer, PushCommand, PushCounts, PushMinute,
    PushTarget,
};
use model::push::{Outcome, PushReport, PushStep, Rejection, StepKind};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

fn answer(command: &Command) -> Answer {
    let Command::Push(command) = command else { return Answer::Busy };
    let device = DeviceId::parse("d").expect("a name");
    Answer::Push(match command {
        PushCommand::Push(order) => {
            let counts = PushCounts { matched: 1, tracked: true, ..PushCounts::default() };
            PushAnswer::Pushed { id: order.id, outcomes: Vec::new(), counts }
        }
        PushCommand::Outcomes { push: MessageId(5), .. } => {
            let step = PushStep::Outcome(Outcome::Rejected(Rejection::QueueFull));
            let lines = vec![(17, DeviceStep { device, step, at_ms: 9 })];
            let (from, end, more, is_cut) = (0, 17, true, false);
            let part = OutcomePart { shard: 0, from, lines, end, more, is_cut };
            PushAnswer::Outcomes(Some(vec![part]))
        }
        PushCommand::Minutes { push: MessageId(5), .. } => {
            let mut counts = [0; StepKind::ALL.len()];
            counts[StepKind::Opened as usize] = 3;
            PushAnswer::Minutes(Some(vec![PushMinute { minute: 2, counts }]))
        }
        PushCommand::Outcomes { push: MessageId(6), .. }
        | PushCommand::Minutes { push: MessageId(6), .. } => PushAnswer::NotTracked,
        PushCommand::Outcomes { .. } => PushAnswer::Outcomes(None),
        PushCommand::Minutes { .. } => PushAnswer::Minutes(None),
        PushCommand::ReportPush { token, .. } => match &*token.0 {
            "good" => PushAnswer::Done(true),
            "unknown" => PushAnswer::Done(false),
            "fast" => PushAnswer::TooManyReports,
            "none" => PushAnswer::NoReports,
            _ => PushAnswer::TokenRefused,
        },
        _ => PushAnswer::Done(false),
    })
}

#[test]
fn a_page_of_devices_goes_on_where_it_ended_and_has_lines_of_one_kind() {
    let test_api = TestApi::new(answer);
    let (status, told) = test_api.json("GET", "/v1/pushes/5/devices", "");
    let line = json!({"device": "d", "outcome": "rejected", "reason": "queue_full", "at_ms": 9});
    assert_eq!((status, &told["devices"], &told["next"]), (200, &json!([line]), &json!("11")));
    check_answer("get", "/v1/pushes/{id}/devices", &told);
    test_api.asked();
    let path = "/v1/pushes/5/devices?product=shop&outcome=opened&after=11-0&limit=7";
    assert_eq!(test_api.json("GET", path, "").0, 200);
    match &test_api.asked()[..] {
        [Command::Push(PushCommand::Outcomes { product, after, kind, count, .. })] => {
            assert_eq!(product.as_ref().map(|it| it.as_str()), Some("shop"));
            assert_eq!((&after[..], *kind, *count), (&[17, 0][..], Some(StepKind::Opened), 7));
        }
        other => panic!("{other:?}"),
    }
    for (query, words) in [
        ("outcome=pending", "`outcome` must be one of stored, delivered"),
        ("after=x", "`after` must be"),
        ("after=", "`after` must be"),
        ("limit=0", "`limit`"),
        ("what=1", "what"),
    ] {
        let (status, told) = test_api.json("GET", &format!("/v1/pushes/5/devices?{query}"), "");
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(words), "{query}: {message}");
    }
}

#[test]
fn minutes_are_told_and_an_unknown_push_is_not_one_that_was_not_tracked() {
    let test_api = TestApi::new(answer);
    let (status, told) = test_api.json("GET", "/v1/pushes/5/minutes", "");
    assert_eq!((status, &told["minutes"][0]["at_ms"]), (200, &json!(120_000)));
    assert_eq!(
        (&told["minutes"][0]["opened"], &told["minutes"][0]["stored"]),
        (&json!(3), &json!(0))
    );
    check_answer("get", "/v1/pushes/{id}/minutes", &told);
    for part in ["devices", "minutes"] {
        for (push, status, code) in [(6, 409, "not_tracked"), (7, 404, "unknown_push")] {
            let (got, told) = test_api.json("GET", &format!("/v1/pushes/{push}/{part}"), "");
            assert_eq!((got, &told["error"]["code"]), (status, &json!(code)), "{part}");
        }
    }
}

#[test]
fn a_tracked_push_is_answered_with_counts_whatever_its_target() {
    let test_api = TestApi::new(answer);
    for target in [r#""device": "d""#, r#""devices": ["d", "e"]"#, r#""user": "ann""#] {
        let body = format!(r#"{{"product": "shop", "body": "b", "track": true, {target}}}"#);
        let (status, told) = test_api.json("POST", "/v1/pushes", &body);
        assert_eq!((status, &told["counts"]["matched"]), (200, &json!(1)), "{told}");
        assert_eq!(told["tracked"], true);
        check_answer("post", "/v1/pushes", &told);
        match &test_api.asked()[..] {
            [.., Command::Push(PushCommand::Push(order))] => {
                assert!(order.track && !matches!(order.target, PushTarget::User(_)), "{order:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    let body =
        r#"{"product": "shop", "body": "b", "track": true, "user": "a", "last_active": true}"#;
    assert_eq!(test_api.json("POST", "/v1/pushes", body).0, 400);
}

#[test]
fn a_device_reports_with_its_own_token_and_no_other() {
    let test_api = TestApi::new(answer);
    let report = |token: &str, report: &str| {
        let body = json!({
            "product": "shop", "device": "d", "token": token, "push": "5", "report": report,
        });
        let order = ("POST", "/v1/reports", &*body.to_string());
        let (status, told, _) = test_api.send_as("", &[], order);
        (status, told)
    };
    assert_eq!(report("good", "opened").0, 200);
    match &test_api.asked()[..] {
        [Command::Push(command @ PushCommand::ReportPush { token, push, report, .. })] => {
            assert_eq!((token, push.0), (&BearerToken("good".into()), 5));
            assert_eq!(*report, PushReport::Opened);
            assert!(!format!("{command:?}").contains("good"), "a token is never printed");
        }
        other => panic!("{other:?}"),
    }
    for (token, told, status, words) in [
        ("bad", "opened", 401, "wrong_token"),
        ("unknown", "opened", 404, "unknown_device"),
        ("fast", "dismissed", 429, "too_many_reports"),
        ("none", "opened", 409, "no_reports"),
        ("good", "seen", 400, "`opened` or `dismissed`"),
        ("", "opened", 400, "`token`"),
    ] {
        let (got, answer) = report(token, told);
        assert!(got == status && answer.contains(words), "{token} {told}: {got} {answer}");
    }
}

/// A ban of the client `banned`.
struct OneBan;

impl Bans for OneBan {
    fn list(&self) -> Vec<Ban> {
        Vec::new()
    }

    fn put(&self, _: BanOrder) -> Result<Ban, BanFault> {
        Err(BanFault::Full)
    }

    fn remove(&self, _: &BanSubject, _: &str) -> Result<bool, BanFault> {
        Ok(false)
    }

    fn refuses(&self, _: Option<IpAddr>, _: Option<&str>) -> bool {
        false
    }

    fn refuses_client(&self, client: &str) -> bool {
        client == "banned"
    }
}

#[test]
fn a_banned_device_reports_nothing() {
    let test_api = TestApi::with(Settings { bans: Arc::new(OneBan), ..settings() }, answer);
    for (device, status) in [("d", 200), ("banned", 403)] {
        let body = json!({
            "product": "shop", "device": device, "token": "good", "push": "5", "report": "opened",
        });
        let (got, ..) = test_api.send_as("", &[], ("POST", "/v1/reports", &*body.to_string()));
        assert_eq!(got, status, "{device}");
    }
}
