//! Reports from the backlog to an application that takes, refuses or is away.

use crate::tests::description::check_named;
use crate::tests::hook::{Application, ids, test_api, wait_for};
use crate::tests::*;
use base::hash::HashKey;
use model::id::ProductKey;
use model::ports::backlog::Backlog;
use model::ports::log::{Page, StoreError};
use model::service::ServiceKind;
use model::timeline::{Message, Placed, Seq, Space, TimelineId};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Condvar;

/// A backlog in memory whose bodies are a device's name and a Report's number.
pub(in crate::tests) struct Waiting {
    shards: Vec<Mutex<Shard>>,
    came: (Mutex<u64>, Condvar),
}

#[derive(Default)]
struct Shard {
    next: Seq,
    messages: BTreeMap<Seq, Arc<Message>>,
    /// Error with which the shard answers every call; `None`: it does not refuse.
    refuses: Option<StoreError>,
    /// The numbers of its removals' seqs.
    removed: Vec<Seq>,
    cursor: Seq,
}

impl Waiting {
    pub(in crate::tests) fn new(shards: usize) -> Arc<Waiting> {
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Arc::new(Waiting { shards, came: Default::default() })
    }

    pub(in crate::tests) fn append(&self, shard: usize, at_ms: u64, body: &str) {
        let mut to = self.shard(shard);
        to.next += 1;
        let (seq, at_s) = (to.next, (at_ms / 1_000) as u32);
        let (label, body) = (Box::default(), body.as_bytes().into());
        to.messages.insert(seq, Arc::new(Message { id: seq, at_s, label, body }));
        drop(to);
        self.ring();
    }

    fn ring(&self) {
        *self.came.0.lock().expect("no panic") += 1;
        self.came.1.notify_all();
    }

    fn shard(&self, shard: usize) -> std::sync::MutexGuard<'_, Shard> {
        self.shards[shard].lock().expect("no panic")
    }

    pub(in crate::tests) fn left(&self) -> usize {
        (0..self.shards.len()).map(|shard| self.shard(shard).messages.len()).sum()
    }

    /// Asks until the backlog is so.
    pub(in crate::tests) fn wait_until(&self, so: impl Fn(&Waiting) -> bool) {
        while !so(self) {
            std::thread::yield_now();
        }
    }
}

impl Backlog for Waiting {
    fn shards(&self) -> u16 {
        self.shards.len() as u16
    }

    fn timeline(&self, url: &str, product: Option<&ProductKey>) -> TimelineId {
        let product = product.map_or("", ProductKey::as_str);
        TimelineId::of(Space::Reports, HashKey::new(1, 2), &[url.as_bytes(), product.as_bytes()])
    }

    fn pull(&self, timeline: TimelineId, shard: u16, after: Seq) -> Result<Page, StoreError> {
        assert_eq!(timeline.space(), Space::Reports);
        let shard = self.shard(shard.into());
        if let Some(error) = shard.refuses {
            return Err(error);
        }
        let found = shard.messages.range(after + 1..).take(64);
        let messages = found.map(|(&seq, message)| Placed { seq, message: message.clone() });
        Ok(Page { messages: messages.collect(), damaged: Vec::new(), more: false })
    }

    fn cursor(&self, _: TimelineId, shard: u16) -> Result<Seq, StoreError> {
        let shard = self.shard(shard.into());
        shard.refuses.map_or(Ok(shard.cursor), Err)
    }

    fn remove(
        &self,
        _: TimelineId,
        shard: u16,
        known: Seq,
        seqs: Vec<Seq>,
    ) -> Result<(), StoreError> {
        let mut shard = self.shard(shard.into());
        if let Some(error) = shard.refuses {
            return Err(error);
        }
        shard.cursor = shard.cursor.max(known);
        seqs.iter().for_each(|seq| drop(shard.messages.remove(seq)));
        shard.removed.extend(seqs);
        Ok(())
    }

    fn wait(&self, seen: u64, ms_max: u64) -> u64 {
        let (came, told) = &self.came;
        let (came, time) = (came.lock().expect("no panic"), Duration::from_millis(ms_max));
        let waited = told.wait_timeout_while(came, time, |came| *came == seen);
        *waited.expect("no panic").0
    }

    fn event(&self, body: &[u8]) -> Option<DeviceEvent> {
        let (name, seq) = std::str::from_utf8(body).ok()?.split_once(' ')?;
        let event = report(seq.parse().ok()?);
        Some(DeviceEvent { device: device(name), ..event })
    }
}

fn reporting(application: &Application, waiting: &Arc<Waiting>) -> TestApi {
    let backlog: Arc<dyn Backlog> = waiting.clone();
    test_api(application, |settings| settings.backlog = Some(backlog))
}

/// Device and number of each Report.
fn told(body: &Value) -> Vec<String> {
    let events = body["events"].as_array().expect("a list");
    let name =
        |event: &Value| format!("{} {}", event["device"].as_str().expect("a name"), event["seq"]);
    events.iter().map(name).collect()
}

fn dropped(test_api: &TestApi, count: u64) {
    let metric = "holdline_webhook_events_total{hook=\"0\",result=\"dropped\"}";
    wait_for(test_api, &format!("{metric} {count}"));
}

#[test]
fn a_report_is_taken_off_only_when_it_was_taken() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let _test_api = reporting(&application, &waiting);
    waiting.append(0, NOW_MS, "a 1");
    let (_, first) = application.take(500);
    check_named("WebhookBody", &first);
    assert_eq!((ids(&first), told(&first)), (vec![&*format!("{NOW_MS}-0-1")], vec!["a 1".into()]));
    assert_eq!(waiting.left(), 1, "it was refused");
    assert_eq!(application.take(200).1, first);
    waiting.wait_until(|waiting| waiting.left() == 0);
    waiting.append(0, NOW_MS, "a 2");
    let (_, second) = application.take(204);
    assert_eq!((told(&second), &second["lost"]), (vec!["a 2".into()], &json!(0)));
    waiting.wait_until(|waiting| waiting.left() == 0);
    assert_eq!(waiting.shard(0).removed, [1, 2]);
}

#[test]
fn what_was_not_taken_off_is_posted_again_after_a_restart() {
    let (application, waiting) = (Application::start(), Waiting::new(2));
    let mut test_api = reporting(&application, &waiting);
    waiting.append(1, NOW_MS, "a 1");
    let (_, first) = application.take(500);
    test_api.stop();
    let other = Application::start();
    let _again = reporting(&other, &waiting);
    assert_eq!(other.take(200).1, first, "under the same id");
    waiting.wait_until(|waiting| waiting.left() == 0);
}

#[test]
fn reports_of_all_shards_come_in_batches_and_in_order_within_each() {
    let (application, waiting) = (Application::start(), Waiting::new(2));
    for number in 1..=90 {
        waiting.append(0, NOW_MS, &format!("a {number}"));
        waiting.append(1, NOW_MS, &format!("b {number}"));
    }
    let _test_api = reporting(&application, &waiting);
    let mut all = Vec::new();
    while all.len() < 180 {
        let batch = told(&application.take(200).1);
        assert!(!batch.is_empty() && batch.len() <= BATCH_EVENTS_MAX, "{}", batch.len());
        all.extend(batch);
    }
    for shard in ["a", "b"] {
        let of = all.iter().filter(|told| told.starts_with(shard)).cloned();
        let expected: Vec<_> = (1..=90).map(|number| format!("{shard} {number}")).collect();
        assert_eq!(of.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_feed_gives_the_other_events_while_reports_wait() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let test_api = reporting(&application, &waiting);
    test_api.feed.publish(vec![report(1), offline()]);
    let (_, body) = application.take(200);
    assert_eq!(body["events"].as_array().map(Vec::len), Some(1), "the Report is the backlog's");
    assert_eq!(body["events"][0]["type"], "offline");
}

#[test]
fn who_wants_only_reports_leaves_the_feed_alone() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let backlog: Arc<dyn Backlog> = waiting.clone();
    let test_api = test_api(&application, |settings| {
        settings.backlog = Some(backlog);
        settings.webhooks[0].types = vec!["report".into()];
    });
    assert!(!test_api.feed.wanted(ServiceKind::Push));
    waiting.append(0, NOW_MS, "a 1");
    assert_eq!(told(&application.take(200).1), ["a 1"]);
}

#[test]
fn reports_that_are_too_old_are_dropped_only_when_they_are_not_taken() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let old_ms = NOW_MS - 8 * 24 * 3_600 * 1_000;
    (1..=70).for_each(|number| waiting.append(0, old_ms, &format!("a {number}")));
    let test_api = reporting(&application, &waiting);
    assert_eq!(told(&application.take(200).1).len(), 64, "an old one that is taken is not lost");
    assert_eq!(told(&application.take(500).1).len(), 6);
    dropped(&test_api, 6);
    waiting.wait_until(|waiting| waiting.left() == 0);
    waiting.append(0, NOW_MS, "a 71");
    let (_, next) = application.take(200);
    assert_eq!((told(&next), &next["lost"]), (vec!["a 71".into()], &json!(6)));
}

#[test]
fn what_the_store_dropped_or_spoilt_is_told_as_lost() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    let test_api = reporting(&application, &waiting);
    waiting.append(0, NOW_MS, "a 1");
    application.take(200);
    waiting.wait_until(|waiting| waiting.left() == 0);
    waiting.shard(0).next += 3; // three came and went
    waiting.append(0, NOW_MS, "nonsense");
    waiting.append(0, NOW_MS, "a 2");
    let (_, next) = application.take(200);
    assert_eq!(told(&next), ["a 2"]);
    dropped(&test_api, 4);
    assert!(next["lost"].as_u64() == Some(4), "{next}");
}

/// The next batch, taken: what it tells, and how many were lost.
fn take(application: &Application) -> (Vec<String>, Value) {
    let (_, body) = application.take(200);
    (told(&body), body["lost"].clone())
}

#[test]
fn what_was_lost_is_told_over_a_restart_and_only_once() {
    let waiting = Waiting::new(2);
    for (number, lost) in [(1, 0), (5, 3), (6, 0)] {
        let application = Application::start();
        waiting.shard(0).next = number - 1; // what came between was dropped
        waiting.append(0, NOW_MS, &format!("a {number}"));
        let mut test_api = reporting(&application, &waiting);
        assert_eq!(take(&application), (vec![format!("a {number}")], json!(lost)));
        dropped(&test_api, lost);
        waiting.wait_until(|waiting| waiting.left() == 0);
        test_api.stop();
        assert_eq!(waiting.shard(0).cursor, number);
    }
}

#[test]
fn what_was_dropped_before_any_was_taken_is_told_too() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    waiting.shard(0).next = 4;
    waiting.append(0, NOW_MS, "a 5");
    let _test_api = reporting(&application, &waiting);
    assert_eq!(take(&application), (vec!["a 5".into()], json!(4)));
}

#[test]
fn a_loss_that_no_batch_has_told_is_told_after_the_restart_with_those_of_other_shards() {
    let (application, waiting) = (Application::start(), Waiting::new(2));
    let old_ms = NOW_MS - 8 * 24 * 3_600 * 1_000;
    (1..=3).for_each(|number| waiting.append(0, old_ms, &format!("a {number}")));
    let mut test_api = reporting(&application, &waiting);
    application.take(500);
    waiting.wait_until(|waiting| waiting.left() == 0);
    test_api.stop();
    assert_eq!(waiting.shard(0).cursor, 0, "nobody was told");
    let application = Application::start();
    let mut test_api = reporting(&application, &waiting);
    waiting.append(1, NOW_MS, "b 1");
    assert_eq!(take(&application), (vec!["b 1".into()], json!(0)), "nothing shows the gap yet");
    waiting.append(0, old_ms, "a 4");
    let (_, refused) = application.take(500);
    assert_eq!((told(&refused), &refused["lost"]), (vec!["a 4".into()], &json!(3)));
    waiting.wait_until(|waiting| waiting.left() == 0);
    waiting.append(1, NOW_MS, "b 2");
    assert_eq!(take(&application), (vec!["b 2".into()], json!(4)), "of another shard");
    waiting.wait_until(|waiting| waiting.left() == 0);
    test_api.stop();
    assert_eq!((waiting.shard(0).cursor, waiting.shard(1).cursor), (4, 2));
    let application = Application::start();
    let _test_api = reporting(&application, &waiting);
    waiting.append(0, NOW_MS, "a 5");
    assert_eq!(take(&application), (vec!["a 5".into()], json!(0)), "that was told");
}

#[test]
fn what_a_crash_left_behind_the_cursor_comes_again_and_is_no_loss() {
    let (application, waiting) = (Application::start(), Waiting::new(1));
    for number in 1..=6 {
        waiting.append(0, NOW_MS, &format!("a {number}"));
    }
    waiting.shard(0).cursor = 4; // 1 to 4 were taken; the crash came before they were taken off
    waiting.shard(0).messages.retain(|&seq, _| [2, 4, 6].contains(&seq));
    let _test_api = reporting(&application, &waiting);
    assert_eq!(take(&application), (vec!["a 2".into()], json!(0)));
    assert_eq!(take(&application), (vec!["a 4".into()], json!(0)));
    assert_eq!(take(&application), (vec!["a 6".into()], json!(1)), "5 is behind the cursor");
}

#[test]
fn a_shard_whose_store_refuses_holds_up_no_other_and_comes_back() {
    let (application, waiting) = (Application::start(), Waiting::new(2));
    waiting.shard(0).refuses = Some(StoreError::Busy);
    waiting.append(0, NOW_MS, "a 1");
    waiting.append(1, NOW_MS, "b 1");
    let _test_api = reporting(&application, &waiting);
    assert_eq!(told(&application.take(200).1), ["b 1"]);
    waiting.shard(0).refuses = None;
    waiting.ring();
    assert_eq!(told(&application.take(200).1), ["a 1"]);
}
