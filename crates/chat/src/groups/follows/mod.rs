//! Follows: the accounts of this shard follow large groups, whose messages are read and not written
//! to inboxes: each draws them into its own inbox while it has devices online.
//!
//! ```text
//! conversation's shard                    account's shard
//! Begin (from this message on) ─────────► a row: the account follows ──► confirmed
//! Read (a new message) ─────────────────► online, has all before it: one append for all such
//!                                         lacks more: draws it ─────┐     (a turn's together)
//! Fetch ◄──────────────────────────────────────────────────────────┤
//!       ─────────────────────────────────► messages ─► the inbox ───┘ until nothing is left
//! device comes ─► rows, what the inbox has ─► draws, not far beyond what it was sent
//! ```
//! The conversation's log is the only copy for offline accounts; a reference is stored in an inbox
//! when a device can take it, or a device is to be notified. So devices see one inbox, in one
//! order, however a group is distributed. How far an inbox has a group is the sum of the inbox
//! ([`conversations`](crate::conversations)); the row of a follow has only the place since when the
//! account follows, and where that ended. The end of a membership is read at its place among the
//! messages. Invariant: of the messages sent while an account was a member its inbox has all up to
//! a place, in order, and none twice.

mod begins;
mod draws;
mod held;
mod nudges;
mod row;

use crate::service::flow::Reply;
use crate::word::Fetched;
use crate::{Chat, Effects};
use base::flows::WaitKey;
use base::time::{Instant, Now};
use model::chat::ChatFault;
use model::id::ShardId;
use model::timeline::{Seq, TimelineId};
use nudges::Live;
use row::Following;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// The time after which a read or write that failed is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// The accounts of this shard that follow groups, as far as they are in memory.
#[derive(Default)]
pub(crate) struct Follows {
    followers: HashMap<TimelineId, Follower>,
    /// The number of groups that all of them follow.
    count: usize,
    /// New messages of groups whose followers are in memory.
    live: HashMap<TimelineId, Live>,
    /// Those of these groups in which messages wait.
    loud: BTreeSet<TimelineId>,
    /// Followers that may go on, in this turn.
    due: Vec<TimelineId>,
    /// Followers that go on later.
    later: BTreeSet<(Instant, TimelineId)>,
    /// Messages that were read for followers since the last turn.
    pub(crate) fetched: Vec<(TimelineId, Result<Fetched, ChatFault>)>,
    /// Requests about inboxes that waited until messages were drawn, and may be answered.
    let_go: Vec<held::Held>,
    /// Parcels that name new followers, and wait for the parcels before them.
    begins: BTreeMap<(ShardId, u64), begins::Beginning>,
    /// The number of these waiting parcels that name an inbox.
    to_begin: HashMap<TimelineId, u32>,
}

/// An account that follows groups.
#[derive(Default)]
struct Follower {
    /// The account's groups, when `is_loaded`.
    groups: BTreeMap<TimelineId, Followed>,
    is_loaded: bool,
    step: Step,
    /// Beginnings that are to be stored.
    line: VecDeque<begins::Begin>,
    /// All messages are drawn, even without a device online.
    draws_all: bool,
    /// The wait of an erasure until all messages are drawn.
    erasure: Option<WaitKey>,
    /// Pushes wait until all messages are drawn.
    wakes: bool,
    /// Messages that may be drawn in addition, for a list of conversations.
    list_room: u32,
    /// Such messages were granted since all was drawn the last time.
    had_list_room: bool,
    /// The group from which messages were drawn last.
    last_drawn: Option<TimelineId>,
    /// Requests of devices about the inbox that wait meanwhile.
    held: Vec<held::Held>,
}

/// A group that an account follows.
struct Followed {
    following: Following,
    /// The group may have messages that the inbox does not have.
    is_behind: bool,
    /// The last place of the group that is known to have a message.
    target: Seq,
    /// The place up to which an erasure or a push waits for messages.
    wanted: Seq,
    /// The group's messages have never been read to their end.
    is_unread: bool,
    /// The number of appends under way of messages that several followers draw together.
    together: u32,
    /// The row does not yet have the place since when the account follows.
    is_unstored: bool,
}

/// The step for which a follower waits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
    #[default]
    Idle,
    /// The row of a group is being read.
    Row,
    /// The row is being written.
    Writing,
    /// All rows are being read.
    Rows,
    /// The account's state is being read: how far the inbox has the groups.
    Cursors,
    /// Messages of a group are being read; the last place that was known when the read began.
    Messages(TimelineId, Seq),
    /// So many references are being stored in the inbox; one was refused; the group has more.
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
    /// Records a message that the follower has to draw alone.
    fn lacks(&mut self, seq: Seq) {
        self.hears(seq);
        self.is_behind |= self.following.wants(seq);
    }

    /// Records that the group has a message.
    fn hears(&mut self, seq: Seq) {
        self.target = self.target.max(seq);
    }

    /// Whether the inbox has the messages that are waited for.
    fn has_wanted(&self) -> bool {
        let is_over = self.following.next_behind().is_none();
        is_over || !self.is_unread && !self.following.wants(self.wanted)
    }
}

impl Follower {
    /// The next group from which this account alone may draw messages: groups take turns, so that a
    /// loud one does not keep others from being drawn.
    fn next_to_draw(&self) -> Option<(TimelineId, Seq, Seq)> {
        let last = self.last_drawn;
        let behind_last = self.groups.iter().filter(|(of, _)| Some(**of) > last);
        let others = self.groups.iter().filter(|(of, _)| Some(**of) <= last);
        let open = behind_last.chain(others).filter(|(_, it)| it.is_behind && it.together == 0);
        let next = |it: &Followed| Some((it.following.next_behind()?, it.target));
        open.filter_map(|(of, it)| next(it).map(|(behind, target)| (*of, behind, target))).next()
    }

    /// Whether all groups of the follower are known, and it waits for nothing.
    fn is_ready(&self) -> bool {
        self.is_loaded && self.line.is_empty() && self.step == Step::Idle
    }

    /// Whether the follower has nothing left to draw.
    fn has_drawn(&self) -> bool {
        self.is_ready()
            && self.groups.values().all(|it| !it.is_behind || it.following.next_behind().is_none())
    }

    /// Whether the follower may leave memory: no call of it is with the log.
    fn is_idle(&self) -> bool {
        let is_together = self.groups.values().any(|it| it.together > 0);
        self.step == Step::Idle && self.line.is_empty() && !is_together
    }
}

impl Follows {
    /// Queues a follower for this turn.
    pub(crate) fn is_due(&mut self, inbox: TimelineId) {
        self.due.push(inbox);
    }

    /// Continues a follower whose device has come further: its inbox may have room.
    pub(crate) fn comes_further(&mut self, inbox: TimelineId) {
        if self.followers.get(&inbox).is_some_and(|it| it.next_to_draw().is_some()) {
            self.due.push(inbox);
        }
    }

    /// Counts a beginning of an inbox as no longer waiting: it is in the follower's line.
    fn begins_now(&mut self, inbox: TimelineId) {
        if let Entry::Occupied(mut count) = self.to_begin.entry(inbox) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Waits for all messages that are known in the groups of an account.
    fn wants(&mut self, inbox: TimelineId) -> &mut Follower {
        let follower = self.followers.entry(inbox).or_default();
        follower.groups.values_mut().for_each(|it| it.wanted = it.target);
        follower
    }

    /// Whether an inbox has the messages that are waited for, of all groups of its account, and the
    /// account is about to follow no other. Later messages have their own nudge, so a loud group
    /// keeps no request waiting.
    fn has_wanted(&self, inbox: TimelineId) -> bool {
        let follower = self.followers.get(&inbox).filter(|it| it.is_ready());
        let is_to_begin = self.to_begin.contains_key(&inbox);
        follower.is_some_and(|it| !is_to_begin && it.groups.values().all(Followed::has_wanted))
    }

    /// Whether this turn has work.
    pub(crate) fn has_more(&self) -> bool {
        let waits = |of: &TimelineId| self.live.get(of).is_some_and(Live::may_go_on);
        let is_asked = !self.let_go.is_empty() || !self.fetched.is_empty();
        is_asked || !self.due.is_empty() || self.loud.iter().any(waits)
    }

    /// Begins to draw for an account whose device has logged in: requests about its inbox wait
    /// until it has drawn.
    pub(crate) fn comes(&mut self, inbox: TimelineId) {
        self.followers.entry(inbox).or_default();
        self.due.push(inbox);
    }

    /// Continues a follower later; until then its requests are answered with what the inbox has.
    fn waits(&mut self, now: Now, inbox: TimelineId) {
        self.lets_go(inbox);
        self.later.insert((now.after(AGAIN), inbox));
    }

    /// Lets the requests of a follower go on.
    fn lets_go(&mut self, inbox: TimelineId) {
        if let Some(follower) = self.followers.get_mut(&inbox) {
            self.let_go.append(&mut follower.held);
        }
    }

    /// Removes a follower from memory.
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
    /// Whether some device of an account would soon be sent a new entry of its inbox.
    fn may_draw(&self, inbox: TimelineId) -> bool {
        let Some(online) = self.sessions.online.get(&inbox) else { return false };
        let ahead = u64::from(self.settings.limits.chat.drawn_ahead_max);
        let known = online.sessions.iter().filter_map(|key| self.sessions.slab.at(*key));
        known.map(|it| it.known).max().is_some_and(|known| known + ahead > online.head)
    }

    /// Continues followers; returns when to continue.
    pub(crate) fn turn_follows(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.begins_that_may(now, fx);
        for (inbox, result) in std::mem::take(&mut self.follows.fetched) {
            self.messages_fetched(now, inbox, result);
        }
        self.hand_together(now);
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

    /// Draws all messages of an account, even without a device online, for its erasure. True: all
    /// are drawn; else the wait with this key is answered, and the erasure asks again.
    pub(crate) fn has_drawn_all(&mut self, inbox: TimelineId, key: WaitKey) -> bool {
        let was_asked = self.follows.followers.get(&inbox).is_some_and(|it| it.erasure.is_some());
        let is_over = was_asked && self.follows.has_wanted(inbox);
        let follower = match was_asked {
            true => self.follows.followers.entry(inbox).or_default(),
            false => self.follows.wants(inbox),
        };
        (follower.erasure, follower.draws_all) = ((!is_over).then_some(key), !is_over);
        self.follows.is_due(inbox);
        is_over
    }

    /// Draws all messages of an account, whose devices are to be notified.
    pub(crate) fn draws_for_push(&mut self, inbox: TimelineId) {
        self.follows.wants(inbox).wakes = true;
        self.follows.is_due(inbox);
    }

    /// Takes the next step of a follower, if it waits for nothing.
    fn advance_follower(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) {
        let may_draw = self.may_draw(inbox);
        let is_here = self.sessions.online.contains_key(&inbox);
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return };
        if follower.step != Step::Idle {
            return;
        }
        if !is_here {
            follower.held.clear(); // the devices that asked are gone
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

    /// Whether an inbox has the messages that were waited for; if so, the erasure or the pushes go
    /// on.
    fn has_what_was_wanted(&mut self, now: Now, inbox: TimelineId, fx: &mut Effects) -> bool {
        if !self.follows.has_wanted(inbox) {
            return false;
        }
        let Some(follower) = self.follows.followers.get_mut(&inbox) else { return true };
        let has_all = follower.groups.values().all(|it| !it.following.wants(it.target));
        let (draws_all, wakes) =
            (std::mem::take(&mut follower.draws_all), std::mem::take(&mut follower.wakes));
        if let Some(key) = follower.erasure.filter(|_| draws_all) {
            self.flows.reply(key, Reply::Late);
            self.follows.is_due(inbox);
        }
        if wakes {
            self.drawn_for_push(now, inbox, has_all, fx);
        }
        true
    }

    /// Removes a follower from memory: if it follows no group, at once; if it has no device online,
    /// when memory has many.
    fn forget_if_idle(&mut self, inbox: TimelineId, is_here: bool) {
        let most = self.settings.limits.chat.followed_known_max as usize;
        let Some(it) = self.follows.followers.get(&inbox) else { return };
        let is_known = it.is_loaded && !it.groups.is_empty();
        let is_kept = is_known && (is_here || self.follows.count <= most);
        let is_wanted = it.draws_all || it.wakes || it.erasure.is_some() || !it.held.is_empty();
        if it.is_idle() && !is_wanted && !is_kept {
            self.follows.forget(inbox);
        }
    }
}
