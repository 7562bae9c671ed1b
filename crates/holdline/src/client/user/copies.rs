//! Copies of one message: both of two have it in their archives, and one of them perhaps among what
//! waits, each with a time of its own.
//!
//! Of what is alike and comes within ten minutes, an archive's second is a second message, another
//! archive's is the first once more. It knows the messages in the order of their times. Invariants:
//! as many are new as the archive has that has most of them; of one conversation no two are of one
//! time, and the same archives give the same times.

use super::moved::told_apart;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};

/// How far apart copies of one message may be, milliseconds.
const APART_MS_MAX: u64 = 600_000;

/// Messages that are remembered, whatever their times.
const REMEMBERED_MAX: usize = 1_000_000;

/// How many of one message which archives had, and how many were new.
#[derive(Default)]
struct Alike {
    archives: Vec<(Box<str>, u32)>,
    new: u32,
    last_ms: u64,
}

/// Times of messages, a millisecond each in its conversation: archives tell seconds.
#[derive(Default)]
pub(super) struct Times {
    last: HashMap<u64, u64>,
    now_ms: u64,
}

impl Times {
    /// The time of a message that was said then, in the conversation with this hash.
    pub(super) fn of(&mut self, at_ms: u64, conversation: u64) -> u64 {
        if self.now_ms != at_ms {
            self.now_ms = at_ms;
            self.last.retain(|_, last_ms| *last_ms >= at_ms);
        }
        let last_ms = self.last.entry(conversation).or_default();
        *last_ms = at_ms.max(*last_ms + 1);
        *last_ms
    }
}

/// Messages that wait, of which archives have copies that say nothing of it.
#[derive(Default)]
pub(super) struct Waiting(HashMap<u64, u64>);

impl Waiting {
    /// One that waits was said then.
    pub(super) fn put(&mut self, at_ms: u64, message: &Value) {
        if self.0.len() < REMEMBERED_MAX {
            self.0.insert(told_apart(message), at_ms);
        }
    }

    /// Whether a message that was said then is one of them.
    pub(super) fn has(&self, at_ms: u64, message: &Value) -> bool {
        let waits_ms = self.0.get(&told_apart(message));
        waits_ms.is_some_and(|waits_ms| waits_ms.abs_diff(at_ms) <= APART_MS_MAX)
    }
}

/// Messages of the last ten minutes.
#[derive(Default)]
pub(super) struct Copies {
    alike: HashMap<u64, Alike>,
    line: VecDeque<(u64, u64)>,
}

impl Copies {
    /// Whether a message is no copy of one before.
    pub(super) fn is_new(&mut self, at_ms: u64, message: &Value) -> bool {
        while let Some((then_ms, told)) = self.line.front().copied() {
            if at_ms.saturating_sub(then_ms) <= APART_MS_MAX && self.line.len() < REMEMBERED_MAX {
                break;
            }
            self.line.pop_front();
            if self.alike.get(&told).is_some_and(|alike| alike.last_ms == then_ms) {
                self.alike.remove(&told);
            }
        }
        let told = told_apart(message);
        // What waits is of the archive of nobody.
        let waits = if message["waiting"] == true { "?" } else { "" };
        let archive = format!("{waits}{}", message["archive"].as_str().unwrap_or_default());
        let alike = self.alike.entry(told).or_default();
        alike.last_ms = at_ms;
        self.line.push_back((at_ms, told));
        let at = alike.archives.iter().position(|(name, _)| **name == *archive);
        let at = at.unwrap_or_else(|| {
            alike.archives.push((archive.into(), 0));
            alike.archives.len() - 1
        });
        alike.archives[at].1 += 1;
        let is_new = alike.archives[at].1 > alike.new;
        alike.new += u32::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::user::moved::told_between;
    use serde_json::json;

    fn message(archive: &str, text: &str) -> Value {
        json!({ "archive": archive, "account": "ann", "with": "bob", "own": true, "text": text,
                "kind": 1, "waiting": false })
    }

    #[test]
    fn a_message_of_two_archives_is_one_and_one_that_is_said_twice_is_two() {
        let mut copies = Copies::default();
        let mut new = |at_ms, archive, text| copies.is_new(at_ms, &message(archive, text));
        assert!(new(1, "ann", "hello"));
        assert!(!new(2, "bob", "hello"));
        assert!(new(3, "ann", "hello") && !new(4, "bob", "hello"), "said once more");
        assert!(new(5, "bob", "hello, you"), "the other archive lacks it");
        assert!(!new(6, "ann", "hello, you"));
        assert!(new(600_010, "bob", "hello"), "much later it is another");
    }

    #[test]
    fn messages_of_one_second_stand_a_millisecond_behind_each_other() {
        let mut times = Times::default();
        let other = json!({ "account": "ann", "with": "carl", "own": true });
        let back = json!({ "account": "bob", "with": "ann", "own": true });
        let mut of = |at_ms, message: &Value| times.of(at_ms, told_between(message));
        let ours = message("ann", "x");
        assert_eq!([of(1_000, &ours), of(1_000, &back), of(1_000, &other)], [1_000, 1_001, 1_000]);
        assert_eq!([of(1_001, &ours), of(2_000, &ours), of(2_000, &other)], [1_002, 2_000, 2_000]);
    }

    #[test]
    fn what_waits_is_a_copy_of_what_is_archived() {
        let mut copies = Copies::default();
        let waiting = json!({ "archive": "bob", "account": "ann", "with": "bob", "own": true,
                              "text": "hello", "kind": 1, "waiting": true });
        assert!(copies.is_new(0, &waiting));
        assert!(!copies.is_new(1, &message("ann", "hello")));
        assert!(!copies.is_new(2, &message("bob", "hello")));
        let mut waits = Waiting::default();
        waits.put(5_000, &waiting);
        assert!(waits.has(4_000, &message("ann", "hello")), "whichever comes first");
        assert!(!waits.has(4_000, &message("ann", "other")));
        assert!(!waits.has(700_000, &message("ann", "hello")), "another, much later");
    }
}
