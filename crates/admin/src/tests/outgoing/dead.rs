//! Dead letters: what webhooks give up, over the API and over a restart.

use super::backlog::Waiting;
use crate::tests::description::{check_answer, check_named};
use crate::tests::hook::{Application, ids, test_api, wait_for};
use crate::tests::*;
use model::ports::backlog::Backlog;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A folder of this process's that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("holdline-dead-{}-{number}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn keep(&self, settings: &mut Settings) {
        settings.dead_letters = Some(DeadLetterSettings::in_folder(self.0.clone()));
    }

    /// The only file in it.
    fn file(&self) -> PathBuf {
        let mut files = fs::read_dir(&self.0).expect("a folder");
        let file = files.next().expect("a file").expect("readable").path();
        assert!(files.next().is_none());
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0)); // it may never have been made
    }
}

const LETTERS: &str = "/v1/webhooks/0/dead_letters";
const PATH: &str = "/v1/webhooks/{webhook}/dead_letters";
const AGAIN: &str = "/v1/webhooks/0/dead_letters/redeliver";

fn old(seq: u32) -> DeviceEvent {
    DeviceEvent { at_ms: NOW_MS - 25 * 3_600 * 1_000, ..report(seq) }
}

fn count(test_api: &TestApi, count: u64) {
    wait_for(test_api, &format!("holdline_webhook_dead_letters{{hook=\"0\"}} {count}"));
}

/// Number and Report's number of each letter.
fn told(page: &Value) -> Vec<(String, u64)> {
    let letters = page["dead_letters"].as_array().expect("a list").iter();
    let told = letters.map(|letter| {
        let number = letter["number"].as_str().expect("text").to_owned();
        (number, letter["event"]["seq"].as_u64().expect("a Report"))
    });
    told.collect()
}

fn pairs(numbers: impl IntoIterator<Item = u64>) -> Vec<(String, u64)> {
    numbers.into_iter().map(|number| (number.to_string(), number)).collect()
}

#[test]
fn what_is_too_old_is_kept_and_posted_again_when_somebody_says_so() {
    let (application, folder) = (Application::start(), Folder::new());
    let test_api = test_api(&application, |settings| folder.keep(settings));
    test_api.feed.publish(vec![old(1), old(2)]);
    let (_, first) = application.take(500);
    count(&test_api, 2);
    let (status, page) = test_api.json("GET", LETTERS, "");
    check_answer("get", PATH, &page);
    assert_eq!((status, told(&page), &page["next"]), (200, pairs([1, 2]), &json!(null)));
    let letter = &page["dead_letters"][0];
    assert_eq!((&letter["why"], &letter["kept_ms"]), (&json!("too_old"), &json!(NOW_MS)));
    assert_eq!(letter["event"], first["events"][0], "as it was posted");

    application.expect(503);
    let (status, again) = test_api.json("POST", AGAIN, "");
    check_answer("post", "/v1/webhooks/{webhook}/dead_letters/redeliver", &again);
    assert_eq!((status, &again["taken"], &again["left"]), (200, &json!(0), &json!(2)));
    assert!(again["failure"].as_str().is_some_and(|why| why.contains("503")), "{again}");
    application.next();
    application.expect(200);
    let (_, again) = test_api.json("POST", AGAIN, r#"{"limit": 1}"#);
    assert_eq!(again, json!({ "taken": 1, "left": 1, "failure": null }));
    let (signature, body) = application.next();
    check_named("WebhookBody", &body);
    assert!(!signature.is_empty(), "it is signed like any other");
    assert_eq!(body, json!({ "lost": 0, "redelivered": true, "events": [first["events"][0]] }));
    assert_eq!(told(&test_api.json("GET", LETTERS, "").1), pairs([2]));
    wait_for(&test_api, "holdline_webhook_dead_letters_total{hook=\"0\",result=\"redelivered\"} 1");
    crate::tests::metrics::check_metrics(&test_api.send("GET", "/metrics", "").1);

    let (status, cleared) = test_api.json("DELETE", LETTERS, "");
    check_answer("delete", PATH, &cleared);
    assert_eq!((status, cleared), (200, json!({ "cleared": 1 })));
    let (_, again) = test_api.json("POST", AGAIN, "");
    assert_eq!(again, json!({ "taken": 0, "left": 0, "failure": null }), "nothing is posted");
}

#[test]
fn webhooks_are_listed_with_what_became_of_their_events() {
    let (application, folder) = (Application::start(), Folder::new());
    let test_api = test_api(&application, |settings| {
        folder.keep(settings);
        settings.webhooks[0].product = Some(key("shop"));
        settings.webhooks[0].types = vec!["report".into()];
    });
    test_api.feed.publish(vec![report(1)]);
    application.take(200);
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 1");
    let (status, told) = test_api.json("GET", "/v1/webhooks", "");
    check_answer("get", "/v1/webhooks", &told);
    let hook = &told["webhooks"][0];
    assert_eq!((status, &hook["number"], &hook["delivered"]), (200, &json!(0), &json!(1)));
    assert_eq!((&hook["product"], &hook["events"]), (&json!("shop"), &json!(["report"])));
    assert_eq!((&hook["signed"], &hook["dead_letters"]["count"]), (&json!(true), &json!(0)));
    assert!(!told.to_string().contains("key"), "the secret is nobody's business: {told}");
    for (method, path) in [("GET", LETTERS), ("DELETE", LETTERS), ("POST", AGAIN)] {
        for wrong in ["1", "x", "-1"] {
            let (status, told) = test_api.json(method, &path.replace('0', wrong), "");
            assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_webhook")));
        }
    }
    for wrong in ["?after=x", "?limit=0", "?through=1"] {
        assert_eq!(test_api.json("GET", &format!("{LETTERS}{wrong}"), "").0, 400, "{wrong}");
    }
    assert_eq!(test_api.json("POST", AGAIN, r#"{"limit": 1001}"#).0, 400);
    assert_eq!(test_api.json("DELETE", &format!("{LETTERS}?through=x"), "").0, 400);
}

#[test]
fn without_a_folder_there_are_no_dead_letters() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    let (status, told) = test_api.json("GET", LETTERS, "");
    assert_eq!((status, &told["error"]["code"]), (409, &json!("no_dead_letters")));
    let (_, told) = test_api.json("GET", "/v1/webhooks", "");
    check_answer("get", "/v1/webhooks", &told);
    assert_eq!(told["webhooks"][0]["dead_letters"], json!(null));
    assert!(!test_api.send("GET", "/metrics", "").1.contains("dead_letters"));
}

#[test]
fn dead_letters_outlive_a_restart_also_with_a_torn_tail_and_go_page_by_page() {
    let folder = Folder::new();
    let application = Application::start();
    let mut first = test_api(&application, |settings| folder.keep(settings));
    first.feed.publish((1..=5).map(old).collect());
    application.take(500);
    count(&first, 5);
    first.stop();
    let file = folder.file();
    let mut text = fs::read(&file).expect("a file");
    text.truncate(text.len() - 7);
    fs::write(&file, text).expect("written");
    // The same URL, so the same letters.
    let mut test_api = test_api(&application, |settings| folder.keep(settings));
    let (_, page) = test_api.json("GET", &format!("{LETTERS}?limit=3"), "");
    assert_eq!((told(&page), &page["next"]), (pairs(1..=3), &json!("3")));
    let (_, page) = test_api.json("GET", &format!("{LETTERS}?limit=3&after=3"), "");
    assert_eq!((told(&page), &page["next"]), (pairs([4]), &json!(null)), "5 was torn");
    assert_eq!(test_api.json("DELETE", &format!("{LETTERS}?through=3"), "").1["cleared"], 3);
    test_api.feed.publish(vec![old(5)]);
    application.take(500);
    count(&test_api, 2);
    assert_eq!(told(&test_api.json("GET", LETTERS, "").1), pairs([4, 5]));
    test_api.stop();
    let other = Application::start();
    let elsewhere = crate::tests::hook::test_api(&other, |settings| folder.keep(settings));
    assert_eq!(told(&elsewhere.json("GET", LETTERS, "").1), [], "another URL has its own");
}

#[test]
fn what_waits_when_the_server_stops_is_kept() {
    let (application, folder) = (Application::start(), Folder::new());
    let mut test_api = test_api(&application, |settings| folder.keep(settings));
    test_api.feed.publish(vec![report(1)]);
    let first = application.next();
    test_api.feed.publish((2..=300).map(report).collect());
    application.expect(500); // the first request
    (0..50).for_each(|_| application.expect(500)); // as often as it likes to try again
    test_api.stop();
    assert_eq!(first.1["events"][0]["seq"], 1);
    let test_api = crate::tests::hook::test_api(&application, |settings| folder.keep(settings));
    let (_, page) = test_api.json("GET", &format!("{LETTERS}?limit=1000"), "");
    assert_eq!(told(&page), pairs(1..=300));
    assert!(page["dead_letters"][299]["why"] == "server_stopped", "{}", page["next"]);
}

#[test]
fn what_the_ring_would_lose_is_kept_before_it_does() {
    let (application, folder) = (Application::start(), Folder::new());
    let test_api = test_api(&application, |settings| {
        folder.keep(settings);
        settings.limits.events_waiting_max = 4_096;
        (settings.retry.wait_ms_min, settings.retry.wait_ms_max) = (3_600_000, 3_600_000);
    });
    test_api.feed.publish(vec![report(1)]);
    application.take(500); // it will not be tried again for half an hour
    assert_eq!(test_api.feed.publish((2..=3_073).map(report).collect()), 0, "the ring has room");
    // Three quarters of it wait: the courier gives up what it has, and until half of it is free.
    let (_, body) = application.take(200);
    assert_eq!((&body["lost"], &body["events"][0]["seq"]), (&json!(2_049), &json!(2_050)));
    assert_eq!(ids(&body).len(), 100);
    count(&test_api, 2_049);
    for first in [1, 1_001, 2_001] {
        let query = format!("?limit=1000&after={}", first - 1);
        let (_, page) = test_api.json("GET", &format!("{LETTERS}{query}"), "");
        assert_eq!(told(&page), pairs(first..=(first + 999).min(2_049)), "nothing is missing");
        assert_eq!(page["dead_letters"][0]["why"], "too_far_behind");
    }
    (0..20).for_each(|_| application.expect(200)); // the rest, so that the stop waits for nobody
}

#[test]
fn reports_that_are_too_old_are_kept_before_they_leave_the_store() {
    let (application, folder) = (Application::start(), Folder::new());
    let waiting = Waiting::new(1);
    let old_ms = NOW_MS - 8 * 24 * 3_600 * 1_000;
    (1..=3).for_each(|number| waiting.append(0, old_ms, &format!("a {number}")));
    let backlog: Arc<dyn Backlog> = waiting.clone();
    let test_api = test_api(&application, |settings| {
        folder.keep(settings);
        settings.backlog = Some(backlog);
    });
    let (_, first) = application.take(500);
    waiting.wait_until(|waiting| waiting.left() == 0);
    let (_, page) = test_api.json("GET", LETTERS, "");
    assert_eq!(told(&page), pairs(1..=3));
    assert_eq!(page["dead_letters"][2]["event"], first["events"][2], "under the same id");
    waiting.append(0, NOW_MS, "a 4");
    let (_, next) = application.take(200);
    assert_eq!((&next["lost"], &next["events"][0]["seq"]), (&json!(3), &json!(4)));
}

#[test]
fn a_folder_that_cannot_be_used_is_told_at_the_start() {
    let folder = Folder::new();
    fs::write(&folder.0, "a file").expect("written");
    let application = Application::start();
    let mut settings = Settings { webhooks: vec![application.hook()], ..settings() };
    folder.keep(&mut settings);
    let feed = Feed::new(&settings.limits);
    let fake = TestApi::new(|_| Answer::Busy).fake.clone();
    let why = start(settings, listeners(), fake, feed).err().expect("refused").to_string();
    assert!(why.contains("dead letters") && why.contains("http://127.0.0.1:"), "{why}");
    drop(fs::remove_file(&folder.0));
}
