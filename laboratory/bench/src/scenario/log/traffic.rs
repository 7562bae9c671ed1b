//! Appended messages: 200 random bytes, each to a group of timelines.
//!
//! A message is a function of its number, so that whoever reads it back can tell whether it is
//! right. The timelines are a million of hashed names, in groups as wide as an append; a group
//! keeps its members. Invariant: a group's messages are appended in the order of their numbers,
//! so that a list of as many rising numbers of the group is everything it was given.

use base::hash::HashKey;
use base::prng::Prng;
use model::ports::log::{Append, Post, RosterChange, RosterId};
use model::timeline::{Message, Space, TimelineId};
use std::sync::Arc;

/// Length of a body, bytes.
pub const BODY_BYTES: usize = 200;
/// Length of a label, bytes: with the number in front, a key of sixteen bytes.
pub const LABEL_BYTES: usize = 8;
/// Timelines of a usual traffic: a million.
pub const TIMELINES: u32 = 1 << 20;

/// A source of appends.
pub struct Traffic {
    seed: u64,
    /// Timelines that an append goes to.
    pub fan: u32,
    timelines: Arc<[TimelineId]>,
    groups: Vec<Group>,
    next: u64,
}

/// Messages that a group of timelines got.
#[derive(Clone, Copy, Default, Debug)]
pub struct Group {
    /// Messages that were made for it and should be in its timelines.
    pub made: u32,
    /// Messages before them that were removed on purpose.
    pub gone: u32,
}

/// The timelines 0 to `count`.
pub fn timelines(count: u32) -> Arc<[TimelineId]> {
    (0..count).map(timeline).collect()
}

/// So many timelines, none of which is among those that begin at 0.
pub fn other_timelines(count: u32) -> Arc<[TimelineId]> {
    (0..count).map(|number| timeline(u32::MAX - number)).collect()
}

/// Timeline `number`.
pub fn timeline(number: u32) -> TimelineId {
    TimelineId::of(Space::Other, HashKey::new(7, 9), &[&number.to_le_bytes()])
}

impl Traffic {
    /// Appends to `fan` each of `timelines`, of whose count it is a divisor.
    pub fn new(seed: u64, fan: u32, timelines: &Arc<[TimelineId]>) -> Traffic {
        let groups = vec![Group::default(); timelines.len() / fan as usize];
        Traffic { seed, fan, timelines: Arc::clone(timelines), groups, next: 1 }
    }

    /// The next append, to a group that the seed chooses.
    pub fn append(&mut self) -> Append {
        let group = self.group_of(self.next);
        self.append_to(group)
    }

    /// The next message as a post to the roster of a group.
    pub fn post(&mut self) -> Post {
        let id = self.next;
        let group = self.group_of(id);
        self.next += 1;
        self.groups[group as usize].made += 1;
        let (message, roster) = (Arc::new(self.message(id)), RosterId(group.into()));
        Post { message, roster, version: 1, only: None, once: None }
    }

    /// The rosters of all groups.
    pub fn rosters(&self) -> impl Iterator<Item = RosterChange> {
        let groups = self.timelines.chunks_exact(self.fan as usize).enumerate();
        groups.map(|(group, timelines)| {
            let (roster, join) = (RosterId(group as u128), timelines.to_vec());
            RosterChange { roster, after: 0, version: 1, leave: Vec::new(), join }
        })
    }

    /// The next append, to `group` if the seed would have it so or not. Such a traffic is read
    /// back by its counts and bodies all the same.
    pub fn append_to(&mut self, group: u32) -> Append {
        let id = self.next;
        self.next += 1;
        self.groups[group as usize].made += 1;
        let first = (group * self.fan) as usize;
        let to = self.timelines[first..first + self.fan as usize].to_vec();
        Append { message: Arc::new(self.message(id)), to, once: None, heard: None, ends: false }
    }

    /// Messages made.
    pub fn messages(&self) -> u64 {
        self.next - 1
    }

    /// Groups and their timelines.
    pub fn groups(&self) -> impl Iterator<Item = (Group, &[TimelineId])> {
        self.groups.iter().copied().zip(self.timelines.chunks_exact(self.fan as usize))
    }

    /// The timelines of all groups but every `stays`th, whose messages count as gone from now on.
    pub fn forget_but(&mut self, stays: usize) -> Vec<TimelineId> {
        let mut timelines = Vec::new();
        for (at, group) in self.groups.iter_mut().enumerate() {
            if at % stays != 0 && group.made > 0 {
                *group = Group { made: 0, gone: group.gone + group.made };
                let first = at * self.fan as usize;
                timelines.extend(&self.timelines[first..first + self.fan as usize]);
            }
        }
        timelines
    }

    /// Whether `message` is the one that was made with its number.
    pub fn made(&self, message: &Message) -> bool {
        (1..self.next).contains(&message.id) && *message == self.message(message.id)
    }

    fn group_of(&self, id: u64) -> u32 {
        Prng::new(self.seed ^ id.wrapping_mul(0x2545_f491)).below(self.groups.len() as u64) as u32
    }

    fn message(&self, id: u64) -> Message {
        let mut prng = Prng::new(!self.seed ^ id.wrapping_mul(0x9e37_79b9));
        let label = prng.draw().to_le_bytes();
        let mut body = [0; BODY_BYTES];
        for eight in body.chunks_exact_mut(8) {
            eight.copy_from_slice(&prng.draw().to_le_bytes());
        }
        Message { id, at_s: (id >> 16) as u32, label: label.into(), body: body.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_known_again_and_nothing_else() {
        let mut traffic = Traffic::new(3, 4, &timelines(64));
        let appends: Vec<Append> = (0..50).map(|_| traffic.append()).collect();
        assert!(appends.iter().all(|append| append.to.len() == 4 && traffic.made(&append.message)));
        let mut other = Message::clone(&appends[9].message);
        other.body[100] ^= 1;
        assert!(!traffic.made(&other));
        other = traffic.message(51);
        assert!(!traffic.made(&other), "it was not made yet");
        let rows: u32 = traffic.groups().map(|(group, to)| group.made * to.len() as u32).sum();
        assert_eq!(rows, 200);
        let forgotten = traffic.forget_but(2);
        let gone: u32 = traffic.groups().map(|(group, to)| group.gone * to.len() as u32).sum();
        let rows: u32 = traffic.groups().map(|(group, to)| group.made * to.len() as u32).sum();
        assert_eq!((rows + gone, forgotten.len()), (200, 32));
    }
}
