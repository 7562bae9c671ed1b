//! Webhooks that are added, changed and removed while the server runs.

use super::backlog::Waiting;
use crate::tests::hook::{Application, ids, test_api, wait_for};
use crate::tests::*;
use model::ports::backlog::Backlog;
use model::service::ServiceKind;
use serde_json::json;

fn set(test_api: &TestApi, webhooks: Vec<Webhook>) -> Result<(), String> {
    let handle = test_api.running.as_ref().expect("runs").handle();
    handle.set_webhooks(webhooks).map_err(|error| error.to_string())
}

fn only(hook: Webhook, types: &[&str]) -> Webhook {
    Webhook { types: types.iter().map(|name| (*name).to_owned()).collect(), ..hook }
}

#[test]
fn a_webhook_that_is_added_gets_what_happens_from_then_on() {
    let (first, second) = (Application::start(), Application::start());
    let test_api = test_api(&first, |settings| settings.webhooks.clear());
    assert!(!test_api.feed.wanted(ServiceKind::Push));
    test_api.feed.publish(vec![report(1)]);
    set(&test_api, vec![first.hook(), only(second.hook(), &["offline"])]).expect("allowed");
    test_api.feed.publish(vec![report(2), offline()]);
    let (_, body) = first.take(200);
    assert_eq!((ids(&body).len(), &body["events"][0]["body"]), (2, &json!("2")));
    assert_eq!(second.take(200).1["events"][0]["type"], "offline");
    let (_, told) = test_api.json("GET", "/v1/webhooks", "");
    assert_eq!(told["webhooks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_webhook_that_changes_keeps_its_place_and_its_counts() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    test_api.feed.publish(vec![report(1)]);
    let (signature, first) = application.take(500);
    assert!(!signature.is_empty());
    // It waits for the batch that the application refused, and one more is in the feed.
    test_api.feed.publish(vec![offline()]);
    let changed = only(application.hook(), &["offline", "chat_message"]);
    let changed = Webhook { secret: Vec::new(), ..changed };
    set(&test_api, vec![changed]).expect("allowed");
    assert!(test_api.feed.wanted(ServiceKind::Chat), "it wants events of chat now");
    // A request may have been on its way before the change: it is posted until it is taken.
    let (_, again) = application.take(200);
    assert_eq!(again, first, "nothing of before the change is lost");
    let (signature, next) = application.take(200);
    assert_eq!((&*signature, &next["events"][0]["type"]), ("", &json!("offline")));
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 2");
}

#[test]
fn a_webhook_that_is_removed_is_asked_for_nothing_more_and_gives_nothing_up() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let backlog: Arc<dyn Backlog> = waiting.clone();
    let test_api = test_api(&application, |settings| {
        settings.backlog = Some(backlog);
        // What is refused is posted again after an hour: only the removal ends that wait.
        settings.retry.wait_ms_min = 3_600_000;
        settings.retry.wait_ms_max = 3_600_000;
    });
    test_api.feed.publish(vec![offline()]);
    waiting.append(0, NOW_MS, "a 1");
    application.take(500);
    application.take(500);
    let other = Application::start();
    set(&test_api, vec![other.hook()]).expect("allowed");
    // Another application takes what waits and what comes.
    assert_eq!(other.take(200).1["events"][0]["type"], "report");
    test_api.feed.publish(vec![offline()]);
    assert_eq!(other.take(200).1["events"][0]["type"], "offline");
    set(&test_api, Vec::new()).expect("allowed");
    let (_, told) = test_api.json("GET", "/v1/webhooks", "");
    assert_eq!(told["webhooks"], json!([]));
    // It comes back, and begins with what happens from then on.
    set(&test_api, vec![application.hook()]).expect("allowed");
    test_api.feed.publish(vec![happened(DeviceWhat::Online { protocol: "miop7", resumed: false })]);
    let (_, body) = application.take(200);
    assert_eq!((ids(&body).len(), &body["events"][0]["type"]), (1, &json!("online")));
}

#[test]
fn a_change_that_cannot_be_made_changes_nothing() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    let other = Application::start();
    let wrong = vec![other.hook(), only(application.hook(), &["nonsense"])];
    let error = set(&test_api, wrong).expect_err("there is no such type");
    assert!(error.contains("nonsense"), "{error}");
    test_api.feed.publish(vec![report(1)]);
    assert_eq!(application.take(200).1["events"][0]["body"], "1");
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 1");
}
