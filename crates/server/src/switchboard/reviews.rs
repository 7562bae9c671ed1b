//! The before-send hook: an HTTP call for each message, before it is stored, on threads of its own.
//!
//! ```text
//! POST     {"from", "device", "to", "group", "client_id", "kind", "text", "extra_base64", "at_ms"}
//! 200      {"action": "allow" | "change" | "refuse", "text", "extra_base64", "reason"}
//! ```
//! An answer that is malformed, too large, late or not 200 is no verdict. The service keeps the
//! time of each message; this file limits the calls in progress, and drops messages whose time is
//! over. After several failures in a row no calls are made for a while (the circuit is open), then
//! a single one. Invariant: a shard that hands a message over never waits, and gets at most one
//! verdict for it.

use crate::clock;
use admin::outward;
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::id::ShardId;
use model::ports::reviews::{Review, ReviewVerdict};
use model::service::ServiceKind;
use model::{event, tell};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of an answer beside those of a message whose every byte is an escape.
const ANSWER_BESIDE_BYTES: u64 = 16 * 1024;

/// Failures in a row after which the circuit opens.
const FAILURES_MAX: u32 = 8;

/// How long it stays open before one call is tried.
const OPEN: Duration = Duration::from_secs(5);

/// Messages that wait for a call, for each call that may go on. One more has no verdict.
const WAITING_A_CALL_MAX: usize = 256;

/// Receiver of verdicts: service, shard, number, verdict. It must not wait.
pub type TellVerdict = Box<dyn Fn((ServiceKind, ShardId), u64, ReviewVerdict) + Send + Sync>;

/// External reviewer, and how to call it.
pub struct ReviewHook {
    /// Where.
    pub url: String,
    /// Key of the signature. Empty: nothing is signed.
    pub secret: Vec<u8>,
    /// Calls that may go on at once.
    pub calls_max: u16,
    /// Longest call, milliseconds.
    pub ms_max: u32,
    /// Longest text and longest bytes beside it that an answer may have.
    pub bytes_max: u64,
}

/// The hook, its threads, and its queue.
pub struct ReviewDesk {
    hook: ReviewHook,
    /// The hook's, now.
    bytes_max: AtomicU64,
    agent: ureq::Agent,
    queue: Mutex<Queue>,
    came: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    circuit: Circuit,
    closed: bool,
}

struct Waiting {
    since: Instant,
    by: (ServiceKind, ShardId),
    number: u64,
    review: Box<Review>,
}

/// Whether calls are made.
#[derive(Default)]
struct Circuit {
    failures: u32,
    /// Moment since which it is open, or was tried last.
    open_since: Option<Instant>,
}

impl Circuit {
    /// Whether a call may be made: of an open circuit one in a while.
    fn lets(&mut self, now: Instant) -> bool {
        match self.open_since {
            None => true,
            Some(since) if now.duration_since(since) < OPEN => false,
            Some(_) => {
                self.open_since = Some(now);
                true
            }
        }
    }

    /// A call has ended. Whether that opened or closed the circuit.
    fn ended(&mut self, now: Instant, is_good: bool) -> bool {
        let was_open = self.open_since.is_some();
        if is_good {
            (self.failures, self.open_since) = (0, None);
            return was_open;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.open_since = Some(now);
        }
        !was_open && self.open_since.is_some()
    }
}

impl ReviewDesk {
    /// Sets the most bytes of an answer.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// A desk without threads.
    pub fn new(hook: ReviewHook) -> Arc<ReviewDesk> {
        // The environment has no say in who sees what people say.
        let config = outward::config(hook.ms_max.into(), false);
        let config = config.max_idle_connections_per_host(hook.calls_max.into());
        let agent = config.build().new_agent();
        Arc::new(ReviewDesk {
            bytes_max: AtomicU64::new(hook.bytes_max),
            hook,
            agent,
            queue: Mutex::default(),
            came: Condvar::new(),
            threads: Mutex::default(),
        })
    }

    /// Starts its threads.
    pub fn start(self: &Arc<ReviewDesk>, tell: TellVerdict) -> std::io::Result<()> {
        let tell = Arc::new(tell);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for n in 0..self.hook.calls_max {
            let (desk, tell) = (self.clone(), tell.clone());
            let life = move || desk.work(&tell);
            threads.push(Builder::new().name(format!("holdline-review-{n}")).spawn(life)?);
        }
        Ok(())
    }

    /// Queues a message; or returns at once that there is no verdict.
    pub fn put(
        &self,
        by: (ServiceKind, ShardId),
        number: u64,
        review: Box<Review>,
    ) -> Result<(), ReviewVerdict> {
        let now = clock::began();
        let most = usize::from(self.hook.calls_max) * WAITING_A_CALL_MAX;
        let mut queue = self.lock();
        if queue.closed || queue.waiting.len() >= most || !queue.circuit.lets(now) {
            return Err(ReviewVerdict::None);
        }
        queue.waiting.push_back(Waiting { since: now, by, number, review });
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// Accepts no more, and waits until the calls in progress have ended.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.waiting.clear(); // nothing of it was acknowledged
        drop(queue);
        self.came.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "hook before sending");
            }
        }
    }

    fn work(&self, tell: &TellVerdict) {
        while let Some(Waiting { since, by, number, review }) = self.next() {
            let patience = Duration::from_millis(review.ms_max.into());
            if clock::since(since) >= patience {
                continue; // nobody waits for it any more
            }
            let asked = self.ask(&review);
            self.note(asked.as_ref().err());
            tell(by, number, asked.unwrap_or(ReviewVerdict::None));
        }
    }

    fn next(&self) -> Option<Waiting> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let queue = self.came.wait_while(self.lock(), idle);
        queue.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// Counts a call for the circuit, and says once that it opens or closes.
    fn note(&self, error: Option<&String>) {
        let changed = self.lock().circuit.ended(clock::began(), error.is_none());
        let url = admin::shown_url(&self.hook.url);
        match error {
            Some(error) if changed => {
                tell!(event::REVIEWS_AWAY, url, error);
            }
            None if changed => tell!(event::REVIEWS_BACK, url),
            _ => {}
        }
    }

    fn ask(&self, review: &Review) -> Result<ReviewVerdict, String> {
        let body = body_of(review).to_string();
        let failed = |error: ureq::Error| outward::failure(&error);
        let signing = (&*self.hook.secret, clock::wall_ms() / 1_000);
        let answer = outward::post_signed(&self.agent, &self.hook.url, signing, &body);
        let mut answer = answer.map_err(failed)?;
        if answer.status().as_u16() != 200 {
            return Err(format!("it answered with status {}", answer.status().as_u16()));
        }
        let bytes_max = self.bytes_max.load(Ordering::Relaxed) * 6 + ANSWER_BESIDE_BYTES;
        let limited = answer.body_mut().with_config().limit(bytes_max);
        verdict_of(&limited.read_to_vec().map_err(failed)?)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Request to the hook.
fn body_of(review: &Review) -> Value {
    json!({
        "at_ms": review.at_ms,
        "from": review.from.as_str(),
        "device": review.device,
        "to": review.to.as_str(),
        "group": review.to.is_group(),
        "client_id": hex::encode(&review.client_id.0),
        "kind": review.content.kind,
        "text": review.content.text,
        "extra_base64": STANDARD.encode(&review.content.extra),
    })
}

/// Answer of the hook.
fn verdict_of(body: &[u8]) -> Result<ReviewVerdict, String> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| format!("its answer is not JSON: {error}"))?;
    let text = |name: &str| match &answer[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str())),
        _ => Err(format!("`{name}` of its answer is not a string")),
    };
    match text("action")? {
        Some("allow") => Ok(ReviewVerdict::Allow),
        Some("refuse") => Ok(ReviewVerdict::Refuse(text("reason")?.unwrap_or_default().into())),
        Some("change") => {
            let extra = text("extra_base64")?.map(|extra| STANDARD.decode(extra)).transpose();
            let extra = extra.map_err(|error| format!("`extra_base64` is not base64: {error}"))?;
            let text = text("text")?.map(Box::from);
            Ok(ReviewVerdict::Change { text, extra: extra.map(Into::into) })
        }
        _ => Err("`action` of its answer must be allow, change or refuse".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hook_says_is_a_verdict_and_what_it_ought_not_to_say_is_none() {
        let of = |body: &str| verdict_of(body.as_bytes());
        assert_eq!(of(r#"{"action": "allow", "more": 1}"#), Ok(ReviewVerdict::Allow));
        assert_eq!(of(r#"{"action": "refuse"}"#), Ok(ReviewVerdict::Refuse("".into())));
        let refused = of(r#"{"action": "refuse", "reason": "no links"}"#);
        assert_eq!(refused, Ok(ReviewVerdict::Refuse("no links".into())));
        let changed = of(r#"{"action": "change", "text": "nicer", "extra_base64": "AAE="}"#);
        let extra: Box<[u8]> = [0, 1].into();
        let change = ReviewVerdict::Change { text: Some("nicer".into()), extra: Some(extra) };
        assert_eq!(changed, Ok(change));
        let same = ReviewVerdict::Change { text: None, extra: None };
        assert_eq!(of(r#"{"action": "change"}"#), Ok(same));
        for nonsense in [
            "",
            "[]",
            "{}",
            "null",
            "allow",
            r#"{"action": "Allow"}"#,
            r#"{"action": 1}"#,
            r#"{"action": "change", "text": 5}"#,
            r#"{"action": "change", "extra_base64": "%"}"#,
            r#"{"action": "refuse", "reason": []}"#,
        ] {
            assert!(of(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_circuit_opens_after_failures_in_a_row_and_closes_with_a_call_that_ends_well() {
        let (mut circuit, began) = (Circuit::default(), clock::began());
        assert!((1..FAILURES_MAX).all(|_| !circuit.ended(began, false)));
        assert!(!circuit.ended(began, true), "it was not open");
        assert!((1..FAILURES_MAX).all(|_| !circuit.ended(began, false)));
        assert!(circuit.ended(began, false) && !circuit.lets(began), "open");
        assert!(!circuit.lets(began + OPEN - Duration::from_millis(1)));
        assert!(circuit.lets(began + OPEN), "one is tried");
        assert!(!circuit.lets(began + OPEN), "and only one");
        assert!(!circuit.ended(began + OPEN, false), "it stays open");
        assert!(circuit.lets(began + OPEN * 2) && circuit.ended(began + OPEN * 2, true));
        assert!(circuit.lets(began + OPEN * 2));
    }
}
