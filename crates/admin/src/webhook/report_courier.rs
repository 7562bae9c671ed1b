//! Posts the Reports of the backlog to one webhook.
//!
//! Reports wait on stable storage, on each shard a timeline a webhook, and are taken off when the
//! application has taken them: a stop or a crash between the two has them posted again. Shards take
//! turns at being first, so that a full one holds up no other. It keeps no Report in memory between
//! two posts. Lost Reports are known by the gap behind the backlog's cursor, which moves only when
//! a batch was taken: so a restart hides no loss. Reports that are too old become dead letters
//! before they leave the store; a crash between the two makes them twice. Invariant: Reports of one
//! shard, so those of one device, are posted in the order of their places, and none is taken off
//! that was neither taken nor too old.

use super::dead::shelf::Why;
use super::{Address, BATCH_EVENTS_MAX, Backoff, GATHER};
use crate::events;
use crate::feed::Feed;
use model::ports::backlog::Backlog;
use model::ports::events::DeviceEvent;
use model::ports::log::StoreError;
use model::timeline::{Placed, Seq, TimelineId};
use model::{event, tell};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for Reports before looking whether the server stops, milliseconds.
const WAIT_MS: u64 = 1_000;

/// One webhook's courier for Reports.
pub(crate) struct ReportCourier {
    address: Arc<Address>,
    backlog: Arc<dyn Backlog>,
    /// Where its Reports wait, on each shard.
    timeline: TimelineId,
    /// Return value of the backlog's last wait.
    seen: u64,
    /// Set when the webhook was removed, or no longer wants Reports.
    ended: Arc<AtomicBool>,
    agent: ureq::Agent,
    backoff: Backoff,
    shards: Vec<Standing>,
    /// The shard whose Reports come first in the next batch.
    first: usize,
    /// Reports lost since the last batch that was taken.
    lost: u64,
}

/// Where the courier stands on one shard.
#[derive(Default)]
struct Standing {
    /// Place up to which all Reports are done.
    after: Seq,
    /// Reports that are done, but still to be removed. No more are read here before they are.
    over: Vec<Seq>,
    /// Place up to which the application accepted every Report, or learnt of its loss: the
    /// backlog's cursor, absent before it was asked.
    told: Option<Seq>,
    /// The cursor is still to be moved there. Nothing more is read here before it is.
    unsaid: bool,
    /// The backlog did not do what it was last asked here.
    refuses: bool,
}

/// Reports to post, and where they came from.
#[derive(Default)]
struct Batch {
    told: Vec<Value>,
    /// Shard and places, for each shard that has some here.
    from: Vec<(usize, Vec<Seq>)>,
}

impl ReportCourier {
    /// A courier for this webhook. It works until `ended` is set.
    pub(crate) fn new(
        address: Arc<Address>,
        backlog: Arc<dyn Backlog>,
        ended: Arc<AtomicBool>,
        seed: u64,
    ) -> ReportCourier {
        let shards = (0..backlog.shards()).map(|_| Standing::default()).collect();
        let (agent, backoff) = (address.agent(), address.retry.backoff(seed));
        let hook = &address.settings().hook;
        let timeline = backlog.timeline(&hook.url, hook.product.as_ref());
        ReportCourier {
            address,
            backlog,
            timeline,
            seen: 0,
            ended,
            agent,
            backoff,
            shards,
            first: 0,
            lost: 0,
        }
    }

    /// Posts Reports until the feed or the courier ends.
    pub(crate) fn run(mut self, feed: &Feed) {
        while self.pause(feed, Duration::ZERO) {
            let batch = self.gather();
            if batch.told.is_empty() {
                self.wait(feed);
            } else if self.address.post(&self.agent, self.lost, &batch.told).is_ok() {
                if self.ended.load(Ordering::Relaxed) {
                    return; // its timeline may be deleted already
                }
                self.lost = 0;
                self.backoff.reset();
                self.taken(batch.from);
            } else {
                (0..self.shards.len()).for_each(|shard| self.drop_old(shard));
                let span = self.backoff.wait();
                self.pause(feed, span); // the loop looks whether it goes on
            }
        }
    }

    /// Waits until there may be a Report, a shard that refused may be asked again, or the feed
    /// ends.
    fn wait(&mut self, feed: &Feed) {
        let mut came = false;
        while !came && self.pause(feed, Duration::ZERO) {
            let seen = self.backlog.wait(self.seen, WAIT_MS);
            came = std::mem::replace(&mut self.seen, seen) != seen;
            if self.shards.iter().any(|standing| standing.refuses) {
                return;
            }
        }
        if came {
            self.pause(feed, GATHER);
        }
    }

    /// Waits so long, or less when the feed or the courier ends. Whether neither does.
    fn pause(&self, feed: &Feed, span: Duration) -> bool {
        feed.pause_unless(&self.ended, span)
    }

    /// Waiting Reports, beginning with the shard whose turn it is.
    fn gather(&mut self) -> Batch {
        let mut batch = Batch::default();
        let count = self.shards.len();
        for shard in (self.first..self.first + count).map(|shard| shard % count) {
            let room = BATCH_EVENTS_MAX - batch.told.len();
            if room > 0 {
                self.gather_from(shard, room, &mut batch);
            }
        }
        self.first = (self.first + 1) % count.max(1);
        batch
    }

    fn gather_from(&mut self, shard: usize, room: usize, batch: &mut Batch) {
        let mut seqs = Vec::new();
        for placed in self.pull(shard).into_iter().take(room) {
            match self.backlog.event(&placed.message.body) {
                Some(event) => {
                    let id = id(&event, shard, placed.seq);
                    batch.told.push(events::device(&id, &event));
                    seqs.push(placed.seq);
                }
                None if seqs.is_empty() => {
                    self.give_up(shard, vec![placed.seq], "not Reports");
                }
                None => break, // it will be the first
            }
        }
        if !seqs.is_empty() {
            batch.from.push((shard, seqs));
        }
    }

    /// Drops Reports at the front that are too old. Called only while the application accepts none.
    fn drop_old(&mut self, shard: usize) {
        loop {
            let page = self.pull(shard);
            let age_ms =
                |placed: &Placed| self.address.age_ms(u64::from(placed.message.at_s) * 1_000);
            let is_old = |placed: &&Placed| age_ms(placed) > self.address.retry.report_age_ms_max;
            let old: Vec<_> = page.iter().take_while(is_old).collect();
            let all = old.len() == page.len();
            if !old.is_empty() {
                self.bury(shard, &old);
            }
            if !all || page.is_empty() {
                return;
            }
        }
    }

    /// The oldest Reports of a shard that are not over; none where the backlog refuses.
    fn pull(&mut self, shard: usize) -> Vec<Placed> {
        match self.try_pull(shard) {
            Ok(page) => {
                self.shards[shard].refuses = false;
                page
            }
            Err(error) => {
                self.refused(shard, error);
                Vec::new()
            }
        }
    }

    fn try_pull(&mut self, shard: usize) -> Result<Vec<Placed>, StoreError> {
        self.try_settle(shard)?;
        let Standing { after, told, .. } = self.shards[shard];
        let told = match told {
            Some(told) => told,
            None => self.backlog.cursor(self.timeline, shard as u16)?,
        };
        self.shards[shard].told = Some(told);
        // From the front, not from the cursor: what a crash left to be taken off is there.
        let mut page = self.backlog.pull(self.timeline, shard as u16, after)?.messages;
        if let Some(first) = page.first().map(|placed| placed.seq) {
            // Numbers have gaps only where Reports were removed. Gaps in what this courier removed
            // itself are known; the rest is lost.
            let missed = first.saturating_sub(after.max(told) + 1);
            self.shards[shard].after = first - 1;
            self.lose(missed, "they expired from the store before delivery");
            // Behind a gap the next page begins, so that each is seen.
            let whole = page.iter().zip(first..).take_while(|(placed, seq)| placed.seq == *seq);
            let whole = whole.count();
            page.truncate(whole);
        }
        Ok(page)
    }

    /// Handles a batch that was accepted, and with it the count of lost Reports: the application
    /// knows of everything up to where each shard stands now.
    ///
    /// A cursor moves before what was taken goes. After a crash between the two, the batch comes
    /// again; the other way round, what was taken would be a gap behind the cursor and be reported
    /// as lost. Shards of which there is nothing in the batch come first, for the same reason: what
    /// they lost is reported again only if the batch comes again too. No order hides a loss.
    fn taken(&mut self, from: Vec<(usize, Vec<Seq>)>) {
        from.into_iter().for_each(|(shard, seqs)| self.shards[shard].end(seqs));
        for standing in &mut self.shards {
            if standing.told.is_some_and(|told| told < standing.after) {
                (standing.told, standing.unsaid) = (Some(standing.after), true);
            }
        }
        let (with, without): (Vec<_>, Vec<_>) =
            (0..self.shards.len()).partition(|&shard| !self.shards[shard].over.is_empty());
        without.into_iter().chain(with).for_each(|shard| self.settle(shard));
    }

    /// Keeps Reports that are too old as dead letters, the undamaged ones.
    fn bury(&mut self, shard: usize, old: &[&Placed]) {
        let told = old.iter().filter_map(|placed| {
            let event = self.backlog.event(&placed.message.body)?;
            Some(events::device(&id(&event, shard, placed.seq), &event))
        });
        let kept = self.address.give_up(Why::TooOld, told);
        self.lost += kept;
        self.lose(old.len() as u64 - kept, "too old, and not Reports");
        self.over(shard, old.iter().map(|placed| placed.seq).collect());
    }

    /// Gives up Reports that the webhook did not take. The cursor stays: they are lost until a
    /// batch that says so was taken, even if that is after a restart.
    fn give_up(&mut self, shard: usize, seqs: Vec<Seq>, why: &'static str) {
        self.lose(seqs.len() as u64, why);
        self.over(shard, seqs);
    }

    fn over(&mut self, shard: usize, seqs: Vec<Seq>) {
        self.shards[shard].end(seqs);
        self.settle(shard);
    }

    fn lose(&mut self, count: u64, why: &'static str) {
        self.lost += count;
        self.address.dropped(count, why);
    }

    fn settle(&mut self, shard: usize) {
        self.try_settle(shard).unwrap_or_else(|error| self.refused(shard, error));
    }

    /// Moves the cursor and removes what is done, also where the backlog refused it before.
    fn try_settle(&mut self, shard: usize) -> Result<(), StoreError> {
        let standing = &mut self.shards[shard];
        if standing.unsaid || !standing.over.is_empty() {
            let (known, over) = (standing.told.unwrap_or(0), standing.over.clone());
            self.backlog.remove(self.timeline, shard as u16, known, over)?;
            standing.unsaid = false;
            standing.over.clear();
        }
        Ok(())
    }

    fn refused(&mut self, shard: usize, error: StoreError) {
        if !std::mem::replace(&mut self.shards[shard].refuses, true) {
            let url = crate::shown_url(&self.address.settings().hook.url);
            tell!(event::WEBHOOK_REPORTS_WAIT, shard, url, ?error);
        }
    }
}

impl Standing {
    /// Notes that these Reports, the first behind `after`, are done.
    fn end(&mut self, seqs: Vec<Seq>) {
        self.after = self.after.max(seqs.last().copied().unwrap_or(0));
        self.over.extend(seqs);
    }
}

/// Names a Report for good: when it was said and its place on stable storage.
fn id(event: &DeviceEvent, shard: usize, seq: Seq) -> String {
    format!("{}-{shard}-{seq}", event.at_ms)
}
