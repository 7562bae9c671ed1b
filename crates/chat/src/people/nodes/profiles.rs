//! Interests of devices in nodes, by their profiles (capabilities): each profile is asked once, of
//! one of the devices that have it.
//!
//! ```text
//! Has(profile) ─► known ──────────────────────────────► interests of the session
//!              └► not ─► one device is asked ─► Is ─┬─► of all with this profile, if proved
//!                         others wait      no answer└─► else of this device; the next is asked
//! ```
//! Invariants: one device of a profile is asked at a time; interests that are not proved hold for
//! that device alone; a session that has ended leaves nothing here.

use super::Nodes;
use crate::{Chat, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::chat::{ChatDelivery, INTERESTS_MAX, PROFILE_BYTES_MAX, ProfileRequest, ProfileSaid};
use model::counters::ChatCounter;
use model::id::ConnRef;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The nodes that a device is interested in, sorted.
pub(crate) type Interests = Arc<[Box<str>]>;

/// How long a device may take to answer, before the next is asked.
const TELLS_WITHIN: Duration = Duration::from_secs(10);

/// Known profiles, in two halves: when the younger is full it becomes the older, and the former
/// older one is forgotten.
#[derive(Default)]
pub(super) struct Profiles {
    young: HashMap<Box<str>, Interests>,
    old: HashMap<Box<str>, Interests>,
    /// Profiles that a device has been asked about.
    asked: HashMap<Box<str>, Asked>,
    /// Time of the next check for late answers.
    due: Option<Instant>,
    /// Interests of sessions that have any.
    interests: HashMap<Key, Interests>,
    /// Profiles of sessions whose interests are not known yet.
    unknown: HashMap<Key, Box<str>>,
}

struct Asked {
    who: Key,
    since: Instant,
    /// Other sessions with the same profile.
    waiting: VecDeque<Key>,
}

impl Profiles {
    /// The interests of a session.
    pub(super) fn of(&self, session: Key) -> Option<&Interests> {
        self.interests.get(&session)
    }

    fn known(&mut self, profile: &str, most: usize) -> Option<Interests> {
        if let Some(interests) = self.young.get(profile) {
            return Some(interests.clone());
        }
        let (name, interests) = self.old.remove_entry(profile)?;
        self.remember(name, interests.clone(), most);
        Some(interests)
    }

    fn remember(&mut self, profile: Box<str>, interests: Interests, most: usize) {
        if self.young.len() >= (most / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(profile, interests);
    }

    /// Drops a session's profile. Returns the session to ask instead, if this one had been asked.
    fn forgets(&mut self, session: Key, now: Now) -> Option<(Key, Box<str>)> {
        let profile = self.unknown.remove(&session)?;
        let asked = self.asked.get_mut(&profile)?;
        asked.waiting.retain(|other| *other != session);
        if asked.who != session {
            return None;
        }
        self.next(&profile, now).map(|next| (next, profile))
    }

    /// Replaces the session that was asked by the next one with the profile.
    fn next(&mut self, profile: &str, now: Now) -> Option<Key> {
        let asked = self.asked.get_mut(profile)?;
        let Some(next) = asked.waiting.pop_front() else {
            self.asked.remove(profile);
            return None;
        };
        (asked.who, asked.since) = (next, now.mono);
        Some(next)
    }

    pub(super) fn audit(&self) {
        for (profile, asked) in &self.asked {
            for session in asked.waiting.iter().chain([&asked.who]) {
                assert_eq!(self.unknown.get(session), Some(profile), "it is asked for this");
            }
        }
    }
}

impl Nodes {
    /// Whether a session wants changes of a node.
    pub(super) fn is_interested(&self, session: Key, node: &str) -> bool {
        let interests = self.profiles.of(session);
        interests.is_some_and(|all| all.binary_search_by(|one| (**one).cmp(node)).is_ok())
    }
}

impl Chat {
    /// Handles a session's request about its profile.
    pub(crate) fn profile_said(
        &mut self,
        now: Now,
        from: ConnRef,
        request: ProfileRequest,
        fx: &mut Effects,
    ) {
        let Some(key) = self.sessions.bound(from, request.session) else { return };
        match request.said {
            ProfileSaid::Has(profile) => self.has_profile(now, key, profile, fx),
            ProfileSaid::Is { profile, interests, is_proved } => {
                self.profile_is(now, (key, profile), interests, is_proved, fx);
            }
        }
    }

    fn has_profile(&mut self, now: Now, key: Key, profile: Box<str>, fx: &mut Effects) {
        let most = self.settings.limits.chat.profiles_known_max as usize;
        if self.nodes.profiles.unknown.get(&key) == Some(&profile) {
            return;
        }
        self.profile_left(now, key, fx);
        if let Some(interests) = self.nodes.profiles.known(&profile, most) {
            return self.interested(key, interests);
        }
        let profiles = &mut self.nodes.profiles;
        if profile.is_empty() || profile.len() > PROFILE_BYTES_MAX {
            return;
        }
        if let Some(asked) = profiles.asked.get_mut(&profile) {
            asked.waiting.push_back(key);
            profiles.unknown.insert(key, profile);
            return;
        }
        if profiles.asked.len() >= most {
            return;
        }
        let asked = Asked { who: key, since: now.mono, waiting: VecDeque::new() };
        profiles.asked.insert(profile.clone(), asked);
        profiles.unknown.insert(key, profile.clone());
        self.want_profile(now, (key, profile), fx);
    }

    /// Asks a device for the interests of its profile.
    fn want_profile(&mut self, now: Now, (key, profile): (Key, Box<str>), fx: &mut Effects) {
        let due = now.after(TELLS_WITHIN);
        self.nodes.profiles.due = Some(self.nodes.profiles.due.map_or(due, |other| other.min(due)));
        if let Some(session) = self.sessions.slab.at(key) {
            fx.counters.count(ChatCounter::ProfilesAsked);
            fx.deliveries.push((session.conn, ChatDelivery::ProfileWanted { profile }));
        }
    }

    fn profile_is(
        &mut self,
        now: Now,
        (key, profile): (Key, Box<str>),
        interests: Option<Box<[Box<str>]>>,
        is_proved: bool,
        fx: &mut Effects,
    ) {
        let most = self.settings.limits.chat.profiles_known_max as usize;
        let profiles = &mut self.nodes.profiles;
        if profiles.unknown.get(&key) != Some(&profile) {
            return; // the session was not asked, or has another profile by now
        }
        let interests = interests.map(|interests| {
            let mut interests = interests.into_vec();
            interests.sort_unstable();
            interests.dedup();
            interests.truncate(INTERESTS_MAX);
            Interests::from(interests)
        });
        match interests {
            Some(interests) if is_proved => {
                profiles.remember(profile.clone(), interests.clone(), most);
                let asked = profiles.asked.remove(&profile);
                let waiting =
                    asked.into_iter().flat_map(|it| it.waiting.into_iter().chain([it.who]));
                for key in waiting.collect::<Vec<_>>() {
                    self.nodes.profiles.unknown.remove(&key);
                    self.interested(key, interests.clone());
                }
            }
            told => {
                if let Some(next) = profiles.forgets(key, now) {
                    self.want_profile(now, next, fx);
                }
                if let Some(interests) = told {
                    self.interested(key, interests);
                }
            }
        }
    }

    /// Sets a session's interests, and requests the last items of those nodes.
    fn interested(&mut self, key: Key, interests: Interests) {
        let before = match interests.is_empty() {
            true => self.nodes.profiles.interests.remove(&key),
            false => self.nodes.profiles.interests.insert(key, interests.clone()),
        };
        let has = |node| before.as_ref().is_some_and(|all| all.contains(node));
        let new: Interests = interests.iter().filter(|node| !has(node)).cloned().collect();
        let Some(inbox) = self.sessions.slab.at(key).map(|session| session.inbox) else { return };
        if !new.is_empty() && self.people.is_present(inbox, key, i8::MIN) {
            self.look_for_nodes(inbox, key, new);
        }
    }

    /// Drops a session's profile when it has another, or none.
    fn profile_left(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if let Some(next) = self.nodes.profiles.forgets(key, now) {
            self.want_profile(now, next, fx);
        }
    }

    /// Removes a session that ends.
    pub(crate) fn leaves_nodes(&mut self, key: Key, fx: &mut Effects) {
        self.nodes.profiles.interests.remove(&key);
        // The next session is asked in a turn, since the end of a session has no time.
        if let Some(profile) = self.nodes.profiles.unknown.remove(&key)
            && let Some(asked) = self.nodes.profiles.asked.get_mut(&profile)
        {
            asked.waiting.retain(|other| *other != key);
            if asked.who == key {
                match asked.waiting.pop_front() {
                    Some(next) => {
                        asked.who = next;
                        self.ask_next(next, profile, fx);
                    }
                    None => _ = self.nodes.profiles.asked.remove(&profile),
                }
            }
        }
    }

    fn ask_next(&mut self, key: Key, profile: Box<str>, fx: &mut Effects) {
        if let Some(session) = self.sessions.slab.at(key) {
            fx.counters.count(ChatCounter::ProfilesAsked);
            fx.deliveries.push((session.conn, ChatDelivery::ProfileWanted { profile }));
        }
    }

    /// Gives up devices that did not answer in time; returns when to be called again.
    pub(super) fn turn_profiles(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let due = self.nodes.profiles.due?;
        if now.mono < due {
            return Some(due);
        }
        let is_over = |asked: &Asked| asked.since + TELLS_WITHIN <= now.mono;
        let over = self.nodes.profiles.asked.iter().filter(|(_, asked)| is_over(asked));
        let over: Vec<(Key, Box<str>)> =
            over.map(|(profile, asked)| (asked.who, profile.clone())).collect();
        for (who, profile) in over {
            self.nodes.profiles.unknown.remove(&who);
            if let Some(next) = self.nodes.profiles.next(&profile, now) {
                self.want_profile(now, (next, profile), fx);
            }
        }
        let asked = self.nodes.profiles.asked.values();
        self.nodes.profiles.due = asked.map(|asked| asked.since + TELLS_WITHIN).min();
        self.nodes.profiles.due
    }
}
