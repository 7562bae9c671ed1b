//! The notifications that an account owes its registered devices, from the first message on until
//! all are sent.
//!
//! ```text
//!                    entry placed            due                all ways have sent it
//!   (mark written) ───────────► Waiting ───────────► in a round ───────────────────────► gone
//!                                  ▲   a device has it: gone       │ refused, more came
//!                                  └───────────────────────────────┘
//! ```
//! Invariant: while notifications are owed, the account's mark says so, and the account is in the
//! due list once.

use super::rows::{self, Kind, Mark};
use super::wishes::PushChore;
use super::{BADGED, Pushes, WAYS, Way, millis};
use crate::inboxes::entry::Entry;
use crate::log::{Answered, PendingCall};
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ConversationChange, InboxChange, Show};
use model::counters::ChatCounter;
use model::ports::log::Call;
use model::timeline::{Seq, TimelineId};
use std::collections::HashSet;

/// An account's debts: notifications that are owed.
pub(super) struct Owing {
    /// Time of the first owed message, Unix seconds.
    pub(super) since_s: u32,
    /// Time of the first owed message on the clock of this process.
    pub(super) first_at: Instant,
    /// The highest known offset of the inbox; 0 after a start.
    pub(super) head: Seq,
    /// Whether `told` of the lanes is known. If not, the debt is from before a start, and lies
    /// above the mark's offset, or the first entry is not placed yet.
    pub(super) is_known: bool,
    pub(super) is_restored: bool,
    /// Entries that the log has not answered.
    placing: u32,
    pub(super) lanes: [Lane; WAYS],
    /// External services that have accepted their notification while others have not, or that fail.
    pub(super) services: Vec<ServiceHeard>,
    /// Time at which the account is handled next, unless it is in a round.
    pub(super) due: Option<Instant>,
    pub(super) is_in_round: bool,
    /// The account waits for a round by these ways.
    pub(super) is_in_line: [bool; WAYS],
    /// The log has refused the mark.
    is_unmarked: bool,
    /// The log has stored the mark.
    is_marked: bool,
    /// Messages of a group that the account follows are still to be copied to its inbox.
    is_undrawn: bool,
    /// Earlier messages of such groups have been copied, and are announced first.
    pub(super) may_tell: bool,
}

/// Progress of one way.
#[derive(Clone, Copy, Default)]
pub(super) struct Lane {
    /// Notifications up to this offset of the inbox are done.
    pub(super) told: Seq,
    /// Number of failed attempts.
    pub(super) tries: u32,
    /// No attempt is made before this time.
    pub(super) not_before: Instant,
}

/// The last answer of an external service.
pub(super) struct ServiceHeard {
    /// The name of the registration.
    pub(super) name: Box<str>,
    /// The service has accepted notifications up to this offset of the inbox.
    pub(super) told: Seq,
    /// The account of the registration, if the service's last answer was a failure.
    pub(super) fails: Option<AccountAddress>,
}

/// Whether a connected device has the new messages.
enum Attended {
    No,
    /// Not yet; it may acknowledge them until this time.
    Until(Instant),
    Yes,
}

impl Owing {
    fn new(now: Now, since_s: u32) -> Owing {
        Owing {
            since_s,
            first_at: now.mono,
            head: 0,
            is_known: false,
            is_restored: false,
            placing: 0,
            lanes: [Lane::default(); WAYS],
            services: Vec::new(),
            due: None,
            is_in_round: false,
            is_in_line: [false; WAYS],
            is_unmarked: false,
            is_marked: false,
            is_undrawn: false,
            may_tell: false,
        }
    }

    /// Debts that a start finds, from the mark.
    pub(super) fn restored(mark: Mark) -> Owing {
        let lane = Lane { told: mark.told, ..Lane::default() };
        let lanes = [lane; WAYS];
        let owing = Owing::new(Now::new(Instant::default(), 0), mark.since_s);
        // Messages of groups that the account follows may not be in its inbox yet.
        let (is_restored, is_marked, is_undrawn, placing) = (true, true, true, 1);
        Owing { lanes, is_restored, is_marked, is_undrawn, placing, ..owing }
    }

    /// Whether a way has no notification left to send.
    pub(super) fn has_told(&self, way: Way) -> bool {
        let lane = self.lanes[way as usize];
        self.is_known && lane.told >= self.head && lane.tries == 0
    }

    /// The entry of an external service, created if needed.
    pub(super) fn service(&mut self, name: Box<str>) -> &mut ServiceHeard {
        let at = self.services.iter().position(|it| it.name == name);
        let at = at.unwrap_or_else(|| {
            self.services.push(ServiceHeard { name, told: 0, fails: None });
            self.services.len() - 1
        });
        &mut self.services[at]
    }

    /// The offset from which the inbox is to be read for these ways.
    pub(super) fn told_by(&self, ways: &[Way]) -> Seq {
        ways.iter().map(|way| self.lanes[*way as usize].told).min().unwrap_or(self.head)
    }
}

impl Pushes {
    /// Has an account handled at this time, or earlier if that was already planned.
    pub(super) fn arm(&mut self, inbox: TimelineId, at: Instant) {
        let Some(owing) = self.owing.get_mut(&inbox).filter(|it| !it.is_in_round) else { return };
        if let Some(before) = owing.due {
            if before <= at {
                return;
            }
            self.due.remove(&(before, inbox));
        }
        owing.due = Some(at);
        self.due.insert((at, inbox));
    }

    pub(super) fn disarm(&mut self, inbox: TimelineId) {
        let due = self.owing.get_mut(&inbox).and_then(|owing| owing.due.take());
        if let Some(at) = due {
            self.due.remove(&(at, inbox));
        }
    }

    /// The ways by which devices of an account are registered.
    pub(super) fn ways(&self, inbox: TimelineId) -> Vec<Way> {
        let counts = self.accounts.get(&inbox).map_or([0; WAYS], |it| it.counts);
        Way::ALL.into_iter().filter(|way| counts[*way as usize] > 0).collect()
    }

    /// Whether messages must be copied to the account's inbox before they are announced.
    pub(super) fn is_undrawn(&self, inbox: TimelineId) -> bool {
        self.owing.get(&inbox).is_some_and(|owing| owing.is_undrawn)
    }

    /// The inboxes among these, which are sorted, whose accounts have registered devices here.
    pub(crate) fn registered_of(&self, inboxes: &[TimelineId]) -> Vec<TimelineId> {
        match self.accounts.len() <= inboxes.len() {
            true => {
                let is_one = |inbox: &&TimelineId| inboxes.binary_search(inbox).is_ok();
                self.accounts.keys().filter(is_one).copied().collect()
            }
            false => {
                let is_one = |inbox: &&TimelineId| self.accounts.contains_key(*inbox);
                inboxes.iter().filter(is_one).copied().collect()
            }
        }
    }

    /// Whether an entry changes the notifications for registered devices.
    fn concerns(&self, inbox: TimelineId, entry: &Entry) -> bool {
        let Some(registered) = self.accounts.get(&inbox) else { return false };
        // A round may have sent an unread count, and not have the answer yet.
        let is_in_round = self.owing.get(&inbox).is_some_and(|owing| owing.is_in_round);
        let has_badge = registered.badges != [0; BADGED] || is_in_round;
        match entry {
            Entry::Message(pointer, _) if pointer.recalls.is_some() => has_badge,
            Entry::Message(pointer, _) => pointer.wakes(),
            Entry::Event(_, event) => {
                let mute = matches!(event.what, InboxChange::Set(ConversationChange::Mute(_)));
                has_badge && (mute || matches!(event.what, InboxChange::Read(_)))
            }
        }
    }
}

impl Chat {
    /// Prepares the append of an entry to these inboxes: writes the marks of accounts that get into
    /// debt by it, before the entry. Returns the accounts in debt, until the entry is
    /// [placed](Self::owes).
    pub(crate) fn owe(
        &mut self,
        now: Now,
        (inboxes, at_s): (&[TimelineId], u32),
        entry: &Entry,
        fx: &mut Effects,
    ) -> Vec<TimelineId> {
        if self.pushes.accounts.is_empty() {
            return Vec::new();
        }
        let concerned = inboxes.iter().filter(|inbox| self.pushes.concerns(**inbox, entry));
        let owing: Vec<TimelineId> = concerned.copied().collect();
        for &inbox in &owing {
            let is_new = !self.pushes.owing.contains_key(&inbox);
            let all = &mut self.pushes.owing;
            all.entry(inbox).or_insert_with(|| Owing::new(now, at_s)).placing += 1;
            if is_new {
                self.write_mark(inbox, fx);
            }
        }
        owing
    }

    /// Handles the log's answer for one of those accounts: the entry is placed, or will be
    /// repeated.
    pub(crate) fn owes(
        &mut self,
        now: Now,
        (inbox, place): (TimelineId, Option<Seq>),
        fx: &mut Effects,
    ) {
        let Some(owing) = self.pushes.owing.get_mut(&inbox) else { return };
        owing.placing = owing.placing.saturating_sub(1);
        let Some(place) = place else {
            let is_over = owing.placing == 0 && owing.due.is_none() && !owing.is_in_round;
            return if is_over {
                self.push_over(now, inbox, fx)
            };
        };
        if !owing.is_known && !owing.is_restored {
            owing.is_known = true;
            owing.lanes.iter_mut().for_each(|lane| lane.told = place.saturating_sub(1));
        }
        owing.head = owing.head.max(place);
        if owing.is_unmarked {
            self.write_mark(inbox, fx);
        }
        let at = self.push_window(now);
        self.pushes.arm(inbox, at);
    }

    /// Records a message of a group that the account follows, which is copied to its inbox before
    /// it is announced. True: the log has not yet confirmed the mark.
    pub(crate) fn owes_undrawn(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) -> bool {
        let is_new = !self.pushes.owing.contains_key(&inbox);
        let owing = || Owing::new(now, now.unix_s());
        let owing = self.pushes.owing.entry(inbox).or_insert_with(owing);
        owing.placing += u32::from(!owing.is_undrawn);
        owing.is_undrawn = true;
        let is_marked = owing.is_marked;
        if is_new || owing.is_unmarked {
            self.write_mark(inbox, fx);
        }
        let at = self.push_window(now);
        self.pushes.arm(inbox, at);
        !is_marked
    }

    /// Handles that the messages of groups at the time of the request are in the inbox: debts among
    /// them are announced. Unless that is all, later ones are copied afterwards.
    pub(crate) fn drawn_for_push(
        &mut self,
        now: Now,
        inbox: TimelineId,
        is_all: bool,
        fx: &mut Effects,
    ) {
        let Some(owing) = self.pushes.owing.get_mut(&inbox).filter(|it| it.is_undrawn) else {
            return;
        };
        if !is_all {
            owing.may_tell = true;
            return self.pushes.arm(inbox, now.mono);
        }
        owing.is_undrawn = false;
        owing.placing = owing.placing.saturating_sub(1);
        let is_nothing = owing.placing == 0 && !owing.is_known && !owing.is_restored;
        if is_nothing && owing.due.is_none() && !owing.is_in_round {
            return self.push_over(now, inbox, fx);
        }
        self.pushes.arm(inbox, now.mono);
    }

    /// Writes an account's mark, or deletes it if no notification is owed and no count shown.
    pub(super) fn write_mark(&mut self, inbox: TimelineId, fx: &mut Effects) {
        let Some(registered) = self.pushes.accounts.get(&inbox) else { return };
        let badges = registered.badges;
        let ways = self.pushes.ways(inbox);
        let mark = match self.pushes.owing.get_mut(&inbox) {
            Some(owing) => {
                owing.is_unmarked = false;
                let told = owing.told_by(&ways);
                Mark { since_s: owing.since_s.max(1), told, badges }
            }
            None => Mark { since_s: 0, told: 0, badges },
        };
        let name = (Kind::Mark, "");
        let write = match mark.since_s == 0 && badges == [0; BADGED] {
            true => rows::delete(inbox, name),
            false => rows::put(inbox, name, mark.encode()),
        };
        self.log.ask(PendingCall::PushMark(inbox), Call::Write(write), fx);
    }

    /// Handles the result of writing a mark.
    pub(crate) fn mark_written(&mut self, inbox: TimelineId, result: Answered) {
        // An outdated mark only makes a start look in vain.
        let Some(owing) = self.pushes.owing.get_mut(&inbox) else { return };
        owing.is_unmarked = result.is_err();
        owing.is_marked |= result.is_ok();
    }

    /// Handles an account with debts that is due.
    pub(super) fn begin_push(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let ways = self.pushes.ways(inbox);
        let Some(owing) = self.pushes.owing.get(&inbox) else { return };
        if owing.is_undrawn && !owing.may_tell {
            return self.draws_for_push(inbox);
        }
        let age_s_max = self.settings.limits.notifications.age_s_max;
        if now.unix_s().saturating_sub(owing.since_s) > age_s_max {
            fx.counters.count(ChatCounter::PushesExpired);
            return self.push_expires(now, inbox, fx);
        }
        let is_attended = match self.attended(now, inbox) {
            Attended::Until(at) => return self.pushes.arm(inbox, at),
            Attended::Yes => true,
            Attended::No => false,
        };
        let badges = self.pushes.accounts.get(&inbox).map_or([0; BADGED], |it| it.badges);
        if ways.is_empty() || is_attended && badges == [0; BADGED] {
            if is_attended {
                fx.counters.count(ChatCounter::PushesAttended);
            }
            return self.push_over(now, inbox, fx);
        }
        let (mut ready, next) = self.ready_ways(now, inbox, &ways);
        if ready.is_empty() && next.is_none() {
            return self.push_over(now, inbox, fx);
        }
        ready.sort_by_key(|way| way.may_be_slow()); // ways with fast carriers come first
        match ready.into_iter().find(|way| !self.waits_in_line(inbox, *way)) {
            Some(way) => self.begin_round(now, (inbox, vec![way]), is_attended, fx),
            None => next.into_iter().for_each(|at| self.pushes.arm(inbox, at.max(now.mono))),
        }
    }

    /// Gives up an account's debts, and removes registrations at external services that have failed
    /// for the whole time.
    fn push_expires(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let owing = self.pushes.owing.get_mut(&inbox);
        let services = owing.map_or(Vec::new(), |owing| std::mem::take(&mut owing.services));
        self.push_over(now, inbox, fx);
        for ServiceHeard { name, fails, .. } in services {
            if fails.is_some() {
                self.run_chore(inbox, PushChore::Gone(Way::Service, name), fx);
            }
        }
    }

    /// Whether an account has to wait for a round by this way; if so, it is queued.
    fn waits_in_line(&mut self, inbox: TimelineId, way: Way) -> bool {
        let (at, most) = (way as usize, self.settings.limits.notifications.accounts_at_once_max);
        let Pushes { owing, busy, queues, .. } = &mut self.pushes;
        let is_full = way.may_be_slow() && busy[at] >= most as usize;
        let Some(one) = owing.get_mut(&inbox).filter(|_| is_full) else { return false };
        if !std::mem::replace(&mut one.is_in_line[at], true) {
            let line = &mut queues[at];
            // Accounts that were served meanwhile are still in the queue.
            if line.len() >= 2 * owing.len() {
                let mut seen = HashSet::from([inbox]);
                let waits = |it: &TimelineId| owing.get(it).is_some_and(|it| it.is_in_line[at]);
                line.retain(|it| waits(it) && seen.insert(*it));
            }
            line.push_back(inbox);
        }
        true
    }

    /// The ways that may send now, and the time at which the next of the others may.
    fn ready_ways(
        &mut self,
        now: Now,
        inbox: TimelineId,
        ways: &[Way],
    ) -> (Vec<Way>, Option<Instant>) {
        let Pushes { owing, gateway_rests, rng, .. } = &mut self.pushes;
        let Some(owing) = owing.get(&inbox) else { return (Vec::new(), None) };
        let (mut ready, mut next) = (Vec::new(), None::<Instant>);
        for &way in ways {
            if owing.has_told(way) {
                continue;
            }
            let lane = owing.lanes[way as usize];
            let is_resting = way == Way::Gateway && *gateway_rests > now.mono;
            let not_before = match is_resting {
                // After the rest of the gateway, accounts do not all continue at the same time.
                true => lane.not_before.max(*gateway_rests + millis(rng.below(1_000) as u32)),
                false => lane.not_before,
            };
            match not_before <= now.mono {
                true => ready.push(way),
                false => next = Some(next.map_or(not_before, |at| at.min(not_before))),
            }
        }
        (ready, next)
    }

    /// Ends an account's debts, which were sent or given up. Entries on their way into its inbox
    /// stay owed, and so do messages that are still to be copied to it.
    pub(super) fn push_over(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        self.pushes.disarm(inbox);
        let Some(owing) = self.pushes.owing.get_mut(&inbox) else { return };
        let head = owing.head;
        owing.lanes.iter_mut().for_each(|lane| *lane = Lane { told: head, ..Lane::default() });
        owing.services.clear();
        owing.may_tell = false;
        if owing.placing == 0 {
            self.pushes.owing.remove(&inbox);
        }
        self.write_mark(inbox, fx);
        if self.pushes.is_undrawn(inbox) {
            let at = self.push_window(now);
            self.pushes.arm(inbox, at);
        }
    }

    /// Whether a connected device of an attentive user has the new messages; a device that does not
    /// acknowledge them gets some time to do so.
    fn attended(&self, now: Now, inbox: TimelineId) -> Attended {
        let Some(owing) = self.pushes.owing.get(&inbox) else { return Attended::No };
        let online = self.sessions.online.get(&inbox);
        // A session that is kept without a connection receives nothing.
        let is_here = |key: &base::slab::Key| !self.sessions.resumables.is_away(*key);
        if !online.is_some_and(|it| it.sessions.iter().any(is_here)) {
            return Attended::No;
        }
        if owing.is_known && self.attentive_upto(inbox) >= owing.head {
            return Attended::Yes;
        }
        let ends = owing.first_at + millis(self.settings.limits.notifications.attended_ms_max);
        if now.mono < ends { Attended::Until(ends) } else { Attended::No }
    }

    /// The offset of the inbox up to which some device of an attentive user has acknowledged.
    pub(super) fn attentive_upto(&self, inbox: TimelineId) -> Seq {
        let Some(online) = self.sessions.online.get(&inbox) else { return 0 };
        let is_attentive = |key: &&base::slab::Key| {
            let show = self.shown_by(inbox, **key);
            !matches!(show, Some(Show::Away | Show::ExtendedAway))
        };
        let sessions = online.sessions.iter().filter(is_attentive);
        let acked = sessions.filter_map(|key| self.sessions.slab.at(*key)).map(|it| it.acked);
        acked.max().unwrap_or(0)
    }
}
