//! Retained topics that sessions which have just subscribed were given already.
//!
//! A retained message may reach a new subscriber twice, live by its publisher's shard and kept by
//! its topic's owner, in either order, and an older one behind a newer. For a while after each
//! subscription it is noted what a session was given last of each topic, so that neither happens.
//! Numbers of one shard are in the order in which it published; those of two shards are not, and
//! the owner is asked then. A note that is forgotten for lack of room costs a copy too many, never
//! one too few.

use base::slab::Key;
use base::time::{Instant, Now};
use model::topic::Publication;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Sessions that are newcomers at a time, a shard.
const NEWCOMERS_MAX: usize = 65_536;

/// Topics noted for one of them.
const NOTES_MAX: usize = 1_024;

/// Messages noted for one topic.
const GIVEN_MAX: usize = 16;

/// Bytes of a topic that is noted, above its text: its place in a tree that is two thirds full, and
/// the first of what was given.
const TOPIC_BYTES: u64 = 160;

/// Bytes of another message given.
const NOTE_BYTES: u64 = 32;

/// How long after a subscription, and as long as retained messages still come for it.
const SPAN: Duration = Duration::from_secs(5);

/// How old a retained message may be of which a live copy may still come, seconds.
const FRESH_S: u32 = 10;

/// Sessions looked at in one turn, whether they are newcomers no more.
const SLICE: usize = 1_024;

/// Verdict on a message that the owner of its topic kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The session gets it.
    New,
    /// The session had the message, or a newer one.
    Had,
    /// The session had a message of another shard, before or after.
    Doubt,
}

/// The newcomers of a shard.
#[derive(Default)]
pub(crate) struct Newcomers {
    notes: BTreeMap<Key, BTreeMap<Box<str>, Vec<Note>>>,
    /// When each is looked at, in order.
    due: VecDeque<(Instant, Key)>,
    /// Bytes of what is noted, and how many they may be.
    bytes: u64,
    bytes_max: u64,
    /// Subscriptions and messages given, as they came.
    count: u64,
}

/// A message that was given.
#[derive(Clone, Copy)]
struct Note {
    id: u64,
    /// When, by the count.
    at: u64,
    /// Whether the message was given as a retained one, and not live.
    kept: bool,
}

impl Newcomers {
    /// Makes an empty store of at most so many bytes.
    pub fn new(bytes_max: u64) -> Newcomers {
        Newcomers { bytes_max, ..Newcomers::default() }
    }

    /// Of so many bytes, at most, from now on.
    pub fn set_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Bytes of what is noted.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A session has a new subscription; since when, by the count.
    pub fn come(&mut self, now: Now, key: Key) -> u64 {
        self.count += 1;
        if self.notes.len() < NEWCOMERS_MAX && !self.notes.contains_key(&key) {
            self.notes.insert(key, BTreeMap::new());
            self.due.push_back((now.after(SPAN), key));
        }
        self.count
    }

    /// A message comes live. True: the session was given it as a retained one, and nothing live
    /// behind it.
    pub fn live(&mut self, key: Key, message: &Publication) -> bool {
        let Some(notes) = self.notes.get(&key) else { return false };
        let given = notes.get(message.topic()).map_or(&[][..], |given| given);
        let had = given.iter().rev().take_while(|note| note.kept).any(|it| it.id == message.id);
        if !had {
            self.note(key, message, false);
        }
        had
    }

    /// A message that was kept is to be given for a subscription that is held since then.
    pub fn kept(&mut self, now: Now, key: Key, since: u64, message: &Publication) -> Verdict {
        let (had, last) = self.given(key, since, message);
        let verdict = match last {
            _ if had => Verdict::Had,
            None => Verdict::New,
            Some(id) if Publication::shard_of(id) != Publication::shard_of(message.id) => {
                Verdict::Doubt
            }
            Some(id) if id > message.id => Verdict::Had,
            Some(_) => Verdict::New,
        };
        // Of an old one no live copy is on its way.
        let is_fresh = message.at_s.saturating_add(FRESH_S) >= now.unix_s();
        if verdict == Verdict::New && (is_fresh || last.is_some()) {
            self.note(key, message, true);
        }
        verdict
    }

    /// Whether the session gets a retained message that was asked for alone.
    pub fn kept_last(&mut self, key: Key, since: u64, message: &Publication) -> bool {
        let (had, last) = self.given(key, since, message);
        let shard = Publication::shard_of(message.id);
        let newer = |id: u64| Publication::shard_of(id) == shard && id > message.id;
        let gets = !had && !last.is_some_and(newer);
        if gets {
            self.note(key, message, true);
        }
        gets
    }

    /// Whether a session was given this message since then, and what it was given last.
    fn given(&self, key: Key, since: u64, message: &Publication) -> (bool, Option<u64>) {
        let given = self.notes.get(&key).and_then(|notes| notes.get(message.topic()));
        let given = given.map_or(&[][..], |given| given);
        let mut since = given.iter().rev().take_while(|note| note.at > since);
        let last = since.clone().next().map(|note| note.id);
        (since.any(|note| note.id == message.id), last)
    }

    fn note(&mut self, key: Key, message: &Publication, kept: bool) {
        let Some(notes) = self.notes.get_mut(&key) else { return };
        self.count += 1;
        let note = Note { id: message.id, at: self.count, kept };
        if let Some(given) = notes.get_mut(message.topic()) {
            let is_full = self.bytes + NOTE_BYTES > self.bytes_max;
            match given.len() >= GIVEN_MAX || is_full {
                true => _ = given.remove(0),
                false => self.bytes += NOTE_BYTES,
            }
            given.push(note);
            return;
        }
        let bytes = topic_bytes(message.topic());
        if notes.len() < NOTES_MAX && self.bytes + bytes <= self.bytes_max {
            notes.insert(message.topic().into(), vec![note]);
            self.bytes += bytes;
        }
    }

    /// Forgets what is over of a slice of the newcomers. `replays`: whether retained messages still
    /// come to a session.
    pub fn turn(&mut self, now: Now, replays: impl Fn(Key) -> bool) -> Option<Instant> {
        for _ in 0..SLICE {
            let &(at, key) = self.due.front()?;
            if at > now.mono {
                return Some(at);
            }
            self.due.pop_front();
            match replays(key) {
                true => self.due.push_back((now.after(SPAN), key)),
                false => self.forget(key),
            }
        }
        Some(now.mono)
    }

    fn forget(&mut self, key: Key) {
        for (topic, given) in self.notes.remove(&key).unwrap_or_default() {
            self.bytes -= topic_bytes(&topic) + NOTE_BYTES * (given.len() as u64 - 1);
        }
    }
}

fn topic_bytes(topic: &str) -> u64 {
    TOPIC_BYTES + topic.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::NOW;
    use model::id::ShardId;

    fn key(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    /// A message of a shard, by its number there.
    fn message(topic: &str, number: u64, shard: u16) -> Publication {
        let mut message = Publication::new(topic, &[], b"x");
        message.id = Publication::number_after(0, NOW.wall_ms, ShardId(shard)) + number;
        message.at_s = NOW.unix_s();
        message
    }

    #[test]
    fn so_many_sessions_are_newcomers_and_one_more_is_not_noted() {
        let mut newcomers = Newcomers::new(u64::MAX);
        (0..NEWCOMERS_MAX as u32).for_each(|slot| _ = newcomers.come(NOW, key(slot)));
        let one = message("t", 1, 0);
        for slot in [0, NEWCOMERS_MAX as u32 - 1, NEWCOMERS_MAX as u32] {
            let since = newcomers.come(NOW, key(slot));
            assert_eq!(newcomers.kept(NOW, key(slot), since, &one), Verdict::New);
            let is_noted = slot < NEWCOMERS_MAX as u32;
            assert_eq!(newcomers.live(key(slot), &one), is_noted, "{slot}");
        }
        assert_eq!(newcomers.due.len(), NEWCOMERS_MAX, "each is looked at once");
    }

    #[test]
    fn so_many_topics_are_noted_of_one_and_so_many_messages_of_a_topic() {
        let mut newcomers = Newcomers::new(u64::MAX);
        let since = newcomers.come(NOW, key(1));
        for n in 0..=NOTES_MAX {
            let one = message(&format!("t/{n}"), 1, 0);
            assert_eq!(newcomers.kept(NOW, key(1), since, &one), Verdict::New);
            let again = if n < NOTES_MAX { Verdict::Had } else { Verdict::New };
            assert_eq!(newcomers.kept(NOW, key(1), since, &one), again, "{n}");
        }
        let bytes = newcomers.bytes();
        for n in 1..GIVEN_MAX as u64 {
            assert!(!newcomers.live(key(1), &message("t/0", 1 + n, 0)));
        }
        assert_eq!(newcomers.bytes() - bytes, NOTE_BYTES * (GIVEN_MAX as u64 - 1));
        let first = message("t/0", 1, 0);
        assert!(newcomers.given(key(1), since, &first).0, "the first is known still");
        assert!(!newcomers.live(key(1), &message("t/0", 99, 0)));
        assert!(!newcomers.given(key(1), since, &first).0, "one more and it is forgotten");
        assert_eq!(newcomers.bytes() - bytes, NOTE_BYTES * (GIVEN_MAX as u64 - 1));
        newcomers.forget(key(1));
        assert_eq!(newcomers.bytes(), 0);
    }

    #[test]
    fn notes_have_so_many_bytes() {
        let one = topic_bytes("t/1");
        assert_eq!(one, TOPIC_BYTES + 3);
        for (most, topics, messages) in [
            (2 * one, 2, 1),
            (2 * one - 1, 1, 2),
            (one + NOTE_BYTES, 1, 2),
            (one + NOTE_BYTES - 1, 1, 1),
            (one, 1, 1),
            (one - 1, 0, 0),
        ] {
            let mut newcomers = Newcomers::new(most);
            let since = newcomers.come(NOW, key(1));
            for n in 1..=2 {
                newcomers.kept(NOW, key(1), since, &message(&format!("t/{n}"), 1, 0));
            }
            newcomers.live(key(1), &message("t/1", 2, 0));
            let notes = &newcomers.notes[&key(1)];
            let given = notes.get("t/1").map_or(0, Vec::len);
            assert_eq!((notes.len(), given), (topics, messages), "{most}");
            assert!(newcomers.bytes() <= most);
        }
    }

    #[test]
    fn what_was_kept_is_given_unless_the_session_had_it_or_a_newer_one() {
        let mut newcomers = Newcomers::new(u64::MAX);
        let since = newcomers.come(NOW, key(1));
        let kept = |newcomers: &mut Newcomers, number, shard| {
            newcomers.kept(NOW, key(1), since, &message("t", number, shard))
        };
        assert_eq!(kept(&mut newcomers, 5, 0), Verdict::New);
        assert_eq!(kept(&mut newcomers, 5, 0), Verdict::Had);
        assert_eq!(kept(&mut newcomers, 4, 0), Verdict::Had, "it had a newer one");
        assert_eq!(kept(&mut newcomers, 6, 0), Verdict::New);
        assert_eq!(kept(&mut newcomers, 7, 1), Verdict::Doubt, "of another shard");
        assert!(newcomers.kept_last(key(1), since, &message("t", 7, 1)));
        assert!(!newcomers.kept_last(key(1), since, &message("t", 7, 1)));
        assert!(!newcomers.kept_last(key(1), since, &message("t", 6, 1)));
        let later = newcomers.come(NOW, key(1));
        let again = newcomers.kept(NOW, key(1), later, &message("t", 7, 1));
        assert_eq!(again, Verdict::New, "it subscribed again behind it");
        assert!(newcomers.live(key(1), &message("t", 7, 1)), "given, and nothing live behind it");
        assert!(!newcomers.live(key(1), &message("t", 8, 1)));
        assert!(!newcomers.live(key(1), &message("t", 7, 1)), "something live is behind it");
        assert!(!newcomers.live(key(2), &message("t", 7, 1)), "nobody new");
    }

    #[test]
    fn of_an_old_message_nothing_is_noted() {
        for (age_s, is_noted) in [(FRESH_S, true), (FRESH_S + 1, false)] {
            let mut newcomers = Newcomers::new(u64::MAX);
            let since = newcomers.come(NOW, key(1));
            let mut old = message("t", 1, 0);
            old.at_s -= age_s;
            assert_eq!(newcomers.kept(NOW, key(1), since, &old), Verdict::New);
            assert_eq!(newcomers.bytes() > 0, is_noted, "{age_s}");
        }
    }
}
