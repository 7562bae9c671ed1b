//! Posts the feed's events, or its messages, to one webhook.
//!
//! The feed's ring is in memory. Events that were not posted when the server stops are tried once
//! more, and given up if they are not accepted even then. If a webhook is nearly a whole ring
//! behind, its oldest events are given up before the ring loses them; messages are lost instead,
//! because clients publish any number of them. It skips Reports if they have a backlog. Invariant:
//! a batch is posted again until it is accepted or given up, and nothing later is posted before it.

use super::dead::shelf::Why;
use super::{Address, BATCH_EVENTS_MAX, Backoff, GATHER, HookSettings};
use crate::events;
use crate::feed::{Feed, Happening, Paused, Reader, Taken};
use serde_json::Value;
use std::sync::Arc;

/// Events given up at once.
const GIVE_UP_EVENTS_MAX: usize = 1_024;

/// One webhook's courier for one lane of the feed.
pub(crate) struct FeedCourier {
    pub(crate) address: Arc<Address>,
    /// A type that another courier of the webhook posts.
    pub(crate) skipped: Option<&'static str>,
    pub(crate) boot: u64,
    /// Makes ids of boot and place: [`events::id`] or [`events::message_id`].
    pub(crate) id: fn(u64, u64) -> String,
    /// Whether events are given up before the ring loses them, where they are kept.
    pub(crate) spills: bool,
}

/// Events that a courier is posting.
struct Round<'a> {
    feed: &'a Feed,
    reader: &'a Reader,
    agent: ureq::Agent,
    backoff: Backoff,
    /// Events lost or given up since the last batch that was taken.
    lost: u64,
}

type Placed = (u64, Arc<Happening>);

impl FeedCourier {
    /// Posts events until the feed ends; the rest is then tried once. Ends at once with its reader:
    /// the webhook was removed, or no longer wants anything of this lane.
    pub(crate) fn run(self, feed: &Feed, reader: &Reader) {
        let (agent, backoff) = (self.address.agent(), self.address.retry.backoff(self.boot));
        let mut round = Round { feed, reader, agent, backoff, lost: 0 };
        while let Some(taken) = reader.next_batch(BATCH_EVENTS_MAX, GATHER) {
            let events = self.wanted(taken, &mut round.lost);
            match self.deliver(&events, &mut round) {
                None => {}
                Some(Why::ServerStopped) => {
                    self.drain(&mut round, Why::ServerStopped, |_| true);
                    return;
                }
                Some(Why::TooFarBehind) => {
                    self.drain(&mut round, Why::TooFarBehind, Reader::is_far_behind);
                }
                Some(Why::TooOld) => {}
            }
        }
    }

    /// Posts a batch until it is taken, or gives it up and says why.
    fn deliver(&self, events: &[Placed], round: &mut Round<'_>) -> Option<Why> {
        let (_, newest) = events.last()?;
        let told: Vec<_> = self.told(events).collect();
        round.backoff.reset();
        while self.address.post(&round.agent, round.lost, &told).is_err() {
            let is_old = self.address.age_ms(newest.at_ms()) > self.address.retry.age_ms_max;
            let why = if is_old { Some(Why::TooOld) } else { self.pause(round) };
            if round.reader.is_ended() {
                return None;
            }
            if let Some(why) = why {
                round.lost += self.address.give_up(why, told.into_iter());
                return Some(why);
            }
        }
        round.lost = 0;
        None
    }

    /// Waits before the next try. Returns why there is none, if so.
    fn pause(&self, round: &mut Round<'_>) -> Option<Why> {
        let span = round.backoff.wait();
        if !self.spills || self.address.dead.is_none() {
            let goes_on = round.feed.pause_unless(round.reader.end_flag(), span);
            return (!goes_on).then_some(Why::ServerStopped);
        }
        match round.reader.pause(span) {
            Paused::Over => None,
            Paused::FarBehind => Some(Why::TooFarBehind),
            Paused::Closed => Some(Why::ServerStopped),
        }
    }

    /// Gives up waiting events while `is_so` holds.
    fn drain(&self, round: &mut Round<'_>, why: Why, is_so: fn(&Reader) -> bool) {
        while is_so(round.reader) {
            let Some(taken) = round.reader.take(GIVE_UP_EVENTS_MAX) else { return };
            let events = self.wanted(taken, &mut round.lost);
            round.lost += self.address.give_up(why, self.told(&events));
        }
    }

    fn wanted(&self, taken: Taken, lost: &mut u64) -> Vec<Placed> {
        self.address.dropped(taken.lost, "the webhook was too slow");
        *lost += taken.lost;
        let HookSettings { filter, .. } = &*self.address.settings();
        let is_ours = |event: &Happening| self.skipped != Some(event.name()) && filter.wants(event);
        taken.happenings.into_iter().filter(|(_, event)| is_ours(event)).collect()
    }

    fn told(&self, events: &[Placed]) -> impl Iterator<Item = Value> {
        events.iter().map(|(place, event)| events::json(&(self.id)(self.boot, *place), event))
    }
}
