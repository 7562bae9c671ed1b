//! Groups that are read: accounts of this shard follow them, and draw what was said into their
//! inboxes when they are here.
//!
//! ```text
//! conversation's shard                    account's shard
//! Begin (from this message on) ─────────► a row: the account follows ──► confirmed
//! Read (there is a message) ────────────► who is here and has all before it: one append for them
//!                                         who lacks more: draws it ─┐     (a turn's together)
//! Fetch ◄──────────────────────────────────────────────────────────┤
//!       ─────────────────────────────────► messages ─► the inbox ───┘ until nothing is left
//! device comes ─► rows, what the inbox has ─► draws, not far beyond what it was sent
//! ```
//! The conversation's log is the only copy for whoever is away; a reference takes its place in an
//! inbox when there is a device for it, or somebody to be woken. So devices see one inbox, in one
//! order, however a group is distributed. How far an inbox has a group is the sum of the inbox
//! ([`conversations`](crate::conversations)); its row says only since when the account follows, and
//! where that ended. What ends a membership is read in its place among the messages. Invariant: of
//! what was said while it was a member an account's inbox has everything up to a place, in order,
//! and nothing twice.

mod begins;
mod draws;
mod held;
mod nudges;
mod row;

use crate::word::Fetched;
use crate::{Chat, Effects};
use base::time::{Instant, Now};
use model::chat::ChatFault;
use model::id::ShardId;
use model::timeline::{Seq, TimelineId};
use nudges::Live;
use row::Following;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

pub(crate) use draws::Drawing;
pub(crate) use nudges::Together;

/// After so long what could not be read or written is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Accounts of this shard that follow groups, as far as they are in memory.
#[derive(Default)]
pub(crate) struct Follows {
    followers: HashMap<TimelineId, Follower>,
    /// Groups of all of them.
    count: usize,
    /// What is said in groups whose followers are in memory.
    live: HashMap<TimelineId, Live>,
    /// Those of them in which something waits.
    loud: BTreeSet<TimelineId>,
    /// Followers that may go on, at this turn.
    due: Vec<TimelineId>,
    /// Those that go on later.
    later: BTreeSet<(Instant, TimelineId)>,
    /// What was read for them since the last turn.
    pub(crate) fetched: Vec<(TimelineId, Result<Fetched, ChatFault>)>,
    /// What was asked of inboxes, and waited until these were drawn into.
    let_go: Vec<held::Held>,
    /// Parcels that say who follows from now on, and wait for those before them.
    begins: BTreeMap<(ShardId, u64), begins::Beginning>,
    /// In how many of these, that wait, an inbox is.
    to_begin: HashMap<TimelineId, u32>,
}

/// An account that follows groups.
#[derive(Default)]
struct Follower {
    /// Its groups, when `is_loaded`.
    groups: BTreeMap<TimelineId, Followed>,
    is_loaded: bool,
    step: Step,
    /// Beginnings that wait to be stored.
    line: VecDeque<begins::Begin>,
    /// What there is is drawn whoever is here.
    draws_all: bool,
    /// Somebody waits for that, and asks now and then.
    is_asked: bool,
    /// Pushes wait for that.
    wakes: bool,
    /// Messages that may be drawn besides, for a list of conversations.
    list_room: u32,
    /// There was such room since all was drawn the last time.
    had_list_room: bool,
    /// The group that was drawn from last.
    last_drawn: Option<TimelineId>,
    /// What devices have asked of the inbox meanwhile.
    held: Vec<held::Held>,
}

/// A group that an account follows.
struct Followed {
    following: Following,
    /// There may be more than the inbox has.
    is_behind: bool,
    /// The last message that is known to be there.
    target: Seq,
    /// Whoever waits for what was there waits for this one.
    wanted: Seq,
    /// What is there has never been read to its end.
    is_unread: bool,
    /// Appends of messages that several draw together.
    together: u32,
    /// Since when it follows is not yet in its row.
    is_unstored: bool,
}

/// What a follower waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
    #[default]
    Idle,
    /// The row of a group.
    Row,
    /// That it is written.
    Writing,
    /// All rows.
    Rows,
    /// How far the inbox has the groups.
    Cursors,
    /// Messages of a group; the last that was known to be there when they were asked for.
    Messages(TimelineId, Seq),
    /// So many places in the inbox; one was refused; there are more.
    Places { conversation: TimelineId, left: u32, has_failed: bool, more: bool },
}

impl Followed {
    fn new(following: Following) -> Followed {
        let (target, wanted, together) = (0, 0, 0);
        let (is_behind, is_unread, is_unstored) = (true, true, false);
        Followed { following, is_behind, target, wanted, is_unread, together, is_unstored }
    }
}

impl Followed {
    /// There is a message that it has not.
    fn lacks(&mut self, seq: Seq) {
        self.hears(seq);
        self.is_behind |= self.following.wants(seq);
    }

    /// There is a message.
    fn hears(&mut self, seq: Seq) {
        self.target = self.target.max(seq);
    }

    /// Whether the inbox has what is waited for.
    fn has_wanted(&self) -> bool {
        let is_over = self.following.next_behind().is_none();
        is_over || !self.is_unread && !self.following.wants(self.wanted)
    }
}

impl Follower {
    /// A group of which something may be drawn by this account alone: one after the other, so that
    /// a loud one does not keep others from being drawn.
    fn next_to_draw(&self) -> Option<(TimelineId, Seq, Seq)> {
        let last = self.last_drawn;
        let behind_last = self.groups.iter().filter(|(of, _)| Some(**of) > last);
        let others = self.groups.iter().filter(|(of, _)| Some(**of) <= last);
        let open = behind_last.chain(others).filter(|(_, it)| it.is_behind && it.together == 0);
        let next = |it: &Followed| Some((it.following.next_behind()?, it.target));
        open.filter_map(|(of, it)| next(it).map(|(behind, target)| (*of, behind, target))).next()
    }

    /// Whether all of it is known, and it waits for nothing.
    fn is_ready(&self) -> bool {
        self.is_loaded && self.line.is_empty() && self.step == Step::Idle
    }

    /// Whether nothing is left that it would draw.
    fn has_drawn(&self) -> bool {
        self.is_ready()
            && self.groups.values().all(|it| !it.is_behind || it.following.next_behind().is_none())
    }

    /// Whether it may leave memory: nothing of it is with the log.
    fn is_idle(&self) -> bool {
        let is_together = self.groups.values().any(|it| it.together > 0);
        self.step == Step::Idle && self.line.is_empty() && !is_together
    }
}

impl Follows {
    /// A follower is looked at this turn.
    pub(crate) fn is_due(&mut self, inbox: TimelineId) {
        self.due.push(inbox);
    }

    /// A device of an account has come further: there may be room in its inbox.
    pub(crate) fn comes_further(&mut self, inbox: TimelineId) {
        if self.followers.get(&inbox).is_some_and(|it| it.next_to_draw().is_some()) {
            self.due.push(inbox);
        }
    }

    /// A beginning of an inbox waits no longer: it is in its line.
    fn begins_now(&mut self, inbox: TimelineId) {
        if let Entry::Occupied(mut count) = self.to_begin.entry(inbox) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Somebody waits for what is known to be there in the groups of an account.
    fn wants(&mut self, inbox: TimelineId) -> &mut Follower {
        let follower = self.followers.entry(inbox).or_default();
        follower.groups.values_mut().for_each(|it| it.wanted = it.target);
        follower
    }

    /// Whether an inbox has what is waited for, of all groups of its account; none is about to be
    /// followed. What was said since has its own nudge, so a loud group keeps nobody waiting.
    fn has_wanted(&self, inbox: TimelineId) -> bool {
        let follower = self.followers.get(&inbox).filter(|it| it.is_ready());
        let is_to_begin = self.to_begin.contains_key(&inbox);
        follower.is_some_and(|it| !is_to_begin && it.groups.values().all(Followed::has_wanted))
    }

    /// Whether there is something to do at this turn.
    pub(crate) fn has_more(&self) -> bool {
        let waits = |of: &TimelineId| self.live.get(of).is_some_and(Live::may_go_on);
        let is_asked = !self.let_go.is_empty() || !self.fetched.is_empty();
        is_asked || !self.due.is_empty() || self.loud.iter().any(waits)
    }

    /// A device of an account has come: what is asked of its inbox waits until it has drawn.
    pub(crate) fn comes(&mut self, inbox: TimelineId) {
        self.followers.entry(inbox).or_default();
        self.due.push(inbox);
    }

    /// A follower goes on later; what it has is what there is until then.
    fn waits(&mut self, now: Now, inbox: TimelineId) {
        self.lets_go(inbox);
        self.later.insert((now.after(AGAIN), inbox));
    }

    /// What is held of a follower waits no longer.
    fn lets_go(&mut self, inbox: TimelineId) {
        if let Some(follower) = self.followers.get_mut(&inbox) {
            self.let_go.append(&mut follower.held);
        }
    }

    /// A follower leaves memory.
    fn forget(&mut self, inbox: TimelineId) {
        let Some(follower) = self.followers.remove(&inbox) else { return };
        self.count -= follower.groups.len();
        for conversation in follower.groups.keys() {
            self.hears_no_more(inbox, *conversation);
        }
    }

    fn hears_no_more(&mut self, inbox: TimelineId, conversation: TimelineId) {
        if let Some(live) = self.live.get_mut(&conversation) {
            live.leaves(inbox);
            if live.is_over() {
                self.live.remove(&conversation);
            }
        }
    }

    pub(crate) fn audit(&self) {
        let count: usize = self.followers.values().map(|it| it.groups.len()).sum();
        assert_eq!(count, self.count, "all groups are counted");
        for (conversation, live) in &self.live {
            for inbox in live.followers() {
                let follower = self.followers.get(inbox).expect("it is in memory");
                assert!(follower.groups.contains_key(conversation), "it follows the group");
            }
        }
    }
}

impl Chat {
    /// Whether some device of an account would be sent what comes into its inbox, before long.
    fn may_draw(&self, inbox: TimelineId) -> bool {
        let Some(online) = self.sessions.online.get(&inbox) else { return false };
        let ahead = u64::from(self.settings.limits.chat.drawn_ahead_max);
        let known = online.sessions.iter().filter_map(|key| self.sessions.slab.at(*key));
        known.map(|it| it.known).max().is_some_and(|known| known + ahead > online.head)
    }

    /// Goes on with followers; when to come back.
    pub(crate) fn turn_follows(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.begins_that_may(now, fx);
        for (inbox, result) in std::mem::take(&mut self.follows.fetched) {
            self.messages_fetched(now, inbox, result, fx);
        }
        self.hand_together(now, fx);
        while let Some(&(at, inbox)) = self.follows.later.first() {
            if at > now.mono {
                break;
            }
            self.follows.later.pop_first();
            self.follows.due.push(inbox);
        }
        let mut due = std::mem::take(&mut self.follows.due);
        due.sort_unstable();
        due.dedup();
        for inbox in due {
            self.advance_follower(now, inbox, fx);
        }
        self.answer_held(now, fx);
        let later = self.follows.later.first().map(|(at, _)| *at);
        later.into_iter().chain(self.follows.has_more().then_some(now.mono)).min()
    }

    /// An account draws what is there, whoever is here; asked again and again until it has.
    pub(crate) fn has_drawn_all(&mut self, inbox: TimelineId) -> bool {
        let was_asked = self.follows.followers.get(&inbox).is_some_and(|it| it.is_asked);
        let is_over = was_asked && self.follows.has_wanted(inbox);
        let follower = match was_asked {
            true => self.follows.followers.entry(inbox).or_default(),
            false => self.follows.wants(inbox),
        };
        (follower.is_asked, follower.draws_all) = (!is_over, !is_over);
        self.follows.is_due(inbox);
        is_over
    }

    /// What is there is drawn, for the devices of an account are to be woken.
    pub(crate) fn draws_for_push(&mut self, inbox: TimelineId) {
        self.follows.wants(inbox).wakes = true;
        self.follows.is_due(inbox);
    }

    /// Does what is next for a follower, if it waits for nothing.
    fn advance_follower(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let may_draw = self.may_draw(inbox);
        let is_here = self.sessions.online.contains_key(&inbox);
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        if follower.step != Step::Idle {
            return;
        }
        if !is_here {
            follower.held.clear(); // whoever asked has gone
        }
        if !follower.line.is_empty() {
            return self.begin_next(now, inbox, fx);
        }
        let draws_all = follower.draws_all || follower.wakes;
        if (is_here || draws_all) && !follower.is_loaded {
            return self.load_follower(now, inbox, None, fx);
        }
        let draws_all = draws_all && !self.has_what_was_wanted(now, inbox, fx);
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        let may_draw = may_draw || draws_all || follower.list_room > 0;
        let next = follower.next_to_draw();
        if next.is_none() && follower.is_ready() {
            (follower.list_room, follower.had_list_room) = (0, false);
        }
        if let Some(next) = next.filter(|_| may_draw) {
            return self.fetch_next(now, inbox, next, fx);
        }
        if self.follows.followers.get(&inbox).is_some_and(|it| it.is_loaded) {
            self.follows.lets_go(inbox);
        }
        self.forget_if_idle(inbox, is_here);
    }

    /// Whether an inbox has what somebody has waited for, who is told.
    fn has_what_was_wanted(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) -> bool {
        if !self.follows.has_wanted(inbox) {
            return false;
        }
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return true };
        let has_all = follower.groups.values().all(|it| !it.following.wants(it.target));
        let (draws_all, wakes) =
            (std::mem::take(&mut follower.draws_all), std::mem::take(&mut follower.wakes));
        if draws_all && follower.is_asked {
            self.erasure_has_drawn(now, inbox);
            self.follows.is_due(inbox);
        }
        if wakes {
            self.drawn_for_push(now, inbox, has_all, fx);
        }
        true
    }

    /// Who is not here leaves memory when there are many, and who follows nothing at once.
    fn forget_if_idle(&mut self, inbox: TimelineId, is_here: bool) {
        let most = self.settings.limits.chat.followed_known_max as usize;
        let Some(it) = self.follows.followers.get(&inbox) else { return };
        let is_known = it.is_loaded && !it.groups.is_empty();
        let is_kept = is_known && (is_here || self.follows.count <= most);
        let is_wanted = it.draws_all || it.wakes || it.is_asked || !it.held.is_empty();
        if it.is_idle() && !is_wanted && !is_kept {
            self.follows.forget(inbox);
        }
    }
}
