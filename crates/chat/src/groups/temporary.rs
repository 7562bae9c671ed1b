//! Temporary groups: one ends when no device is in its room any more (XEP-0045 3), while others
//! stay until they are dissolved.
//!
//! ```text
//! the last session of a shard leaves, the last of other servers does, or there was grace enough
//!    │                    a session is there, or reads or joins it meanwhile: asked again later
//!    ▼                                  ▲
//! Attendance ─► all shards, and those of federation ─► no session there ─► Dissolve
//!
//! key    home │ conversation
//! value  version │ address              the text is behind its length
//! ```
//! Only the shards of the sessions know which are in a room ([`looks`](super::looks)), so the home
//! asks, and a missing answer is no answer. A session that enters looks at the group before it
//! reads it: so a shard whose answer is "none" gives it before a session that comes there reads,
//! and a read of the group while the home asks makes it ask anew. A server that stops disconnects
//! all clients, and ends no group. A row marks the group as temporary; it is stored before the
//! change; after a start each group has a time of grace, in which its sessions may come back.
//! Invariant: no group ends while a session is in its room, if no message between shards is lost;
//! the number of temporary groups of a shard is limited.

use crate::envelope::client_id_of;
use crate::groups::changes::{Anew, ChangeOrder, change_entered};
use crate::groups::state::Wish;
use crate::groups::{GroupTask, conversation_of};
use crate::label::Route;
use crate::service::flow::Flow;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::bytes::{ByteReader, put_text};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::foreign::ForeignWord;
use model::chat::{AttendanceAsked, AttendanceTold, ChatFault, GroupChange, GroupRole, GroupVerb};
use model::id::ShardId;
use model::ports::log::{RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Maximum of groups about which a turn begins to ask.
const ASKED_A_TURN: usize = 32;

/// The time after which the question is repeated: an answer, or the notice that the last session
/// left, may be lost.
const AGAIN: Duration = Duration::from_secs(300);

/// The reason in the message by which such a group ends.
const REASON: &str = "The room was temporary, and nobody is in it any more.";

const VERSION: u8 = 1;

/// The temporary groups at home here.
#[derive(Default)]
pub(crate) struct Temporaries {
    known: HashMap<TimelineId, Temporary>,
    /// The times at which questions are due, with their groups.
    due: BTreeSet<(Instant, TimelineId)>,
    last: u64,
    /// The server disconnects its clients: an empty room means nothing.
    is_stopping: bool,
}

/// A temporary group.
struct Temporary {
    group: AccountAddress,
    /// The time of the next question.
    at: Instant,
    asking: Option<Asking>,
}

/// A question that is under way, or about to be.
struct Asking {
    number: u64,
    /// The number of shards, with other servers as one, that have not answered "none".
    left: u16,
}

impl Temporaries {
    fn put(&mut self, at: Instant, (conversation, group): (TimelineId, AccountAddress)) {
        self.remove(conversation);
        self.known.insert(conversation, Temporary { group, at, asking: None });
        self.due.insert((at, conversation));
    }

    fn remove(&mut self, conversation: TimelineId) -> bool {
        let was = self.known.remove(&conversation);
        was.is_some_and(|it| self.due.remove(&(it.at, conversation)))
    }

    /// Sets the time of a group's next question, and drops one that is under way.
    fn set_due(&mut self, conversation: TimelineId, at: Instant) {
        let Some(it) = self.known.get_mut(&conversation) else { return };
        self.due.remove(&(it.at, conversation));
        (it.at, it.asking) = (at, None);
        self.due.insert((at, conversation));
    }

    /// Asks about a group whose last session on some shard, or on other servers, has left, unless a
    /// question is under way: its answers are or will be true.
    fn leave(&mut self, now: Now, conversation: TimelineId) {
        if self.known.get(&conversation).is_some_and(|it| it.asking.is_none()) {
            self.set_due(conversation, now.mono);
        }
    }

    /// Repeats a question that is under way, because an account reads the group, or joins it, and
    /// may be about to be in its room.
    pub(super) fn interrupt(&mut self, now: Now, conversation: TimelineId) {
        if self.known.get(&conversation).is_some_and(|it| it.asking.is_some()) {
            self.set_due(conversation, now.mono);
        }
    }

    /// Begins a question to so many shards about a group that is due; returns the group and the
    /// question's number.
    fn begin(&mut self, now: Now, left: u16) -> Option<(TimelineId, u64)> {
        let &(_, conversation) = self.due.first().filter(|(at, _)| *at <= now.mono)?;
        self.set_due(conversation, now.after(AGAIN));
        self.last += 1;
        self.known.get_mut(&conversation)?.asking = Some(Asking { number: self.last, left });
        Some((conversation, self.last))
    }

    /// The question about a group, if this one is still under way.
    fn asked(&self, conversation: TimelineId, number: u64) -> Option<AttendanceAsked> {
        let it = self.known.get(&conversation)?;
        it.asking.as_ref().filter(|asking| asking.number == number)?;
        Some(AttendanceAsked { group: it.group.clone(), number })
    }

    /// Takes an answer. True: all have answered that no session is there.
    fn take(&mut self, conversation: TimelineId, told: &AttendanceTold) -> bool {
        let Some(it) = self.known.get_mut(&conversation) else { return false };
        let Some(asking) = it.asking.as_mut().filter(|it| it.number == told.number) else {
            return false;
        };
        if told.attended {
            it.asking = None;
            return false;
        }
        asking.left = asking.left.saturating_sub(1);
        asking.left == 0
    }

    /// Whether all have answered this question, no session is there, and none came since.
    fn is_over(&self, conversation: TimelineId, number: u64) -> bool {
        let asking = self.known.get(&conversation).and_then(|it| it.asking.as_ref());
        !self.is_stopping && asking.is_some_and(|it| it.number == number && it.left == 0)
    }
}

fn key_of(conversation: TimelineId) -> Box<[u8]> {
    RowHome::key_of(conversation, &[])
}

fn put(conversation: TimelineId, group: &AccountAddress) -> Write {
    let mut value = vec![VERSION];
    put_text(group.as_str(), &mut value);
    Write::Put { table: Table::ChatTemporary, key: key_of(conversation), value: value.into() }
}

fn read(key: &[u8], value: &[u8]) -> Option<(TimelineId, AccountAddress)> {
    let (conversation, rest) = RowHome::parts_of(key)?;
    let mut bytes = ByteReader::of(VERSION, value)?;
    let group = AccountAddress::parse(bytes.text()?, "").ok().filter(AccountAddress::is_group)?;
    bytes.ends((conversation, group)).filter(|_| rest.is_empty())
}

/// Ends a group without sessions. If that fails the question is repeated after a time.
async fn end_unattended(mut flow: Flow, conversation: TimelineId, number: u64) {
    if flow.group(conversation, 0).await.is_err() {
        return;
    }
    let (chat, _, _) = flow.state();
    if let Some(order) = chat.ending((conversation, number)) {
        _ = change_entered(&mut flow, &order).await;
    }
}

impl Chat {
    fn after_grace(&self, now: Now) -> Instant {
        let grace_s = self.settings.limits.chat.temporary_group_grace_s;
        now.after(Duration::from_secs(grace_s.into()))
    }

    /// Restores a row of the log.
    pub(crate) fn restore_temporary(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some(of) = read(key, value) else { return false };
        self.temporaries.put(Instant::default(), of);
        true
    }

    /// Begins the time of grace, after everything in the log was restored.
    pub(crate) fn temporaries_restored(&mut self, now: Now) {
        let at = self.after_grace(now);
        let all: Vec<TimelineId> = self.temporaries.known.keys().copied().collect();
        all.into_iter().for_each(|conversation| self.temporaries.set_due(conversation, at));
    }

    /// Whether the shard may have one more temporary group.
    pub(super) fn may_unpersist(&self) -> Result<(), ChatFault> {
        let most = self.settings.limits.chat.temporary_groups_max as usize;
        if self.temporaries.known.len() < most { Ok(()) } else { Err(ChatFault::TemporaryFull) }
    }

    /// Prepares a change of a group: returns the row to be stored before it becomes temporary.
    pub(super) fn temporary_changes(
        &mut self,
        now: Now,
        conversation: TimelineId,
        (group, change): (&AccountAddress, &GroupChange),
    ) -> Option<Write> {
        if change.verb != GroupVerb::Unpersist {
            return None;
        }
        self.temporaries.put(self.after_grace(now), (conversation, group.clone()));
        Some(put(conversation, group))
    }

    /// Corrects the row to the state of a group, which is known. `group` is its address, where
    /// known.
    pub(super) fn is_temporary_as_known(
        &mut self,
        now: Now,
        conversation: TimelineId,
        group: Option<&AccountAddress>,
        fx: &mut Effects,
    ) {
        let Some(known) = self.groups.known.get(&conversation) else { return };
        let is_temporary = known.state.is_temporary();
        let is_listed = self.temporaries.known.contains_key(&conversation);
        match (is_temporary, group) {
            (true, Some(group)) if !is_listed => {
                self.temporaries.put(self.after_grace(now), (conversation, group.clone()));
                self.log.write(put(conversation, group), fx);
            }
            (false, _) if is_listed => {
                self.temporaries.remove(conversation);
                let (table, key) = (Table::ChatTemporary, key_of(conversation));
                self.log.write(Write::Delete { table, key }, fx);
            }
            _ => {}
        }
    }

    /// Keeps groups from ending while the server disconnects its clients. Afterwards sessions have
    /// as long to come back as after a start.
    pub(crate) fn set_temporaries_kept(&mut self, now: Now, kept: bool) {
        let is_over = self.temporaries.is_stopping && !kept;
        self.temporaries.is_stopping = kept;
        if is_over {
            self.temporaries_restored(now);
        }
    }

    /// Asks about groups that are due; returns when the next is.
    pub(crate) fn turn_temporaries(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        if self.temporaries.is_stopping {
            return None;
        }
        let asked = self.settings.shards.max(1) + u16::from(self.settings.foreign.is_any());
        for _ in 0..ASKED_A_TURN {
            let Some((conversation, number)) = self.temporaries.begin(now, asked) else { break };
            self.for_group(now, conversation, GroupTask::Attendance(number), fx);
        }
        self.temporaries.due.first().map(|(at, _)| *at)
    }

    /// Asks all shards about a group of this shard, whose state is known, if it is temporary.
    pub(super) fn ask_attendance(
        &mut self,
        now: Now,
        (conversation, number): (TimelineId, u64),
        fx: &mut Effects,
    ) {
        let Some(group) = self.groups.known.get(&conversation) else { return };
        let asked = self.temporaries.asked(conversation, number);
        let Some(asked) = asked.filter(|_| group.state.is_temporary()) else { return };
        let shards = (0..self.settings.shards.max(1)).map(ShardId);
        for shard in shards.filter(|it| *it != self.settings.shard) {
            let word = ChatWord::AttendanceAsked(Box::new(asked.clone()));
            fx.peer_messages.push((shard, word));
        }
        // An account of another server may be about to become a member by entering.
        if self.settings.foreign.is_any() {
            fx.foreign.push(ForeignWord::Attendance(Box::new(asked.clone())));
        }
        self.attendance_asked(now, asked, fx);
    }

    /// Answers the home of a group whether a session of this shard is there. A server that stops
    /// does not answer: a missing answer ends no group.
    pub(crate) fn attendance_asked(&mut self, now: Now, asked: AttendanceAsked, fx: &mut Effects) {
        let AttendanceAsked { group, number } = asked;
        if !self.temporaries.is_stopping {
            let attended = self.looks.is_attended(&group);
            self.tell_attendance(now, AttendanceTold { group, number, attended }, fx);
        }
    }

    /// Sends an answer to the home of a group, which may be here.
    pub(crate) fn tell_attendance(&mut self, now: Now, told: AttendanceTold, fx: &mut Effects) {
        let owner = self.settings.owner(&told.group);
        if owner == self.settings.shard {
            return self.attendance_told(now, &told);
        }
        fx.peer_messages.push((owner, ChatWord::AttendanceTold(Box::new(told))));
    }

    /// Takes the answer of a shard, or of other servers, about a group that is at home here; or the
    /// notice that their last session has left.
    pub(crate) fn attendance_told(&mut self, now: Now, told: &AttendanceTold) {
        let conversation = conversation_of(self.settings.home, &told.group);
        if told.number == 0 {
            return self.temporaries.leave(now, conversation);
        }
        if self.temporaries.take(conversation, told) {
            self.begin(|flow| end_unattended(flow, conversation, told.number));
        }
    }

    /// The change that ends a group without sessions, if all answers still hold.
    fn ending(&self, (conversation, number): (TimelineId, u64)) -> Option<ChangeOrder> {
        let state = &self.groups.known.get(&conversation)?.state;
        let (by, address) = state.one_with(GroupRole::Owner).filter(|_| state.is_temporary())?;
        let group = self.temporaries.known.get(&conversation)?.group.clone();
        if !self.temporaries.is_over(conversation, number) {
            return None;
        }
        let home = self.settings.home;
        // The change is the same for each retry.
        let of = [b"unattended" as &[u8], &conversation.to_bytes(), &state.last_id.to_be_bytes()];
        let (verb, title, members) = (GroupVerb::Dissolve, REASON.into(), Vec::new());
        Some(ChangeOrder {
            route: Route { from: by, to: None, conversation, read: None },
            once: home.of(&of),
            is_operator: true,
            address,
            device: Box::default(),
            client_id: client_id_of(home, &of),
            group,
            wish: Wish { verb, title, members },
            anew: Anew::MayNot,
            moved: None,
        })
    }

    /// Panics when an invariant does not hold.
    pub(crate) fn audit_temporaries(&self) {
        let Temporaries { known, due, .. } = &self.temporaries;
        assert_eq!(known.len(), due.len(), "each is due once");
        for (conversation, it) in known {
            assert!(due.contains(&(it.at, *conversation)));
            assert_eq!(conversation_of(self.settings.home, &it.group), *conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;

    const HOME: HashKey = HashKey::new(1, 2);

    fn at(s: u64) -> Instant {
        Instant::default() + Duration::from_secs(s)
    }

    fn lunch() -> (TimelineId, AccountAddress) {
        let group = AccountAddress::parse("lunch", "conference.a.example").expect("right");
        (conversation_of(HOME, &group), group)
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_nothing_else_is_one() {
        let (conversation, group) = lunch();
        let Write::Put { key, value, .. } = put(conversation, &group) else { panic!("a put") };
        assert_eq!(read(&key, &value), Some((conversation, group)));
        for end in 0..value.len() {
            assert_eq!(read(&key, &value[..end]), None, "cut at {end}");
        }
        assert_eq!(read(&key[..9], &value), None);
    }

    #[test]
    fn a_group_is_over_when_all_have_said_that_nobody_is_there_and_nobody_came_meanwhile() {
        let mut all = Temporaries::default();
        let (conversation, group) = lunch();
        let told = |number, attended| AttendanceTold { group: group.clone(), number, attended };
        let now = |s| Now::new(at(s), 0);
        assert_eq!(all.begin(now(9), 2), None, "there is none");
        all.put(at(9), lunch());
        all.put(at(10), lunch());
        assert_eq!(all.due, [(at(10), conversation)].into());
        assert_eq!(all.begin(now(9), 2), None, "it is not time");
        assert_eq!(all.begin(now(10), 2), Some((conversation, 1)));
        assert_eq!(all.begin(now(10), 2), None, "it is being asked");
        assert!(all.asked(conversation, 1).is_some() && all.asked(conversation, 2).is_none());
        assert!(!all.take(conversation, &told(1, false)) && !all.is_over(conversation, 1));
        all.leave(now(10), conversation);
        assert!(all.asked(conversation, 1).is_some(), "another one has left: it is asked already");
        assert!(all.take(conversation, &told(1, false)) && all.is_over(conversation, 1));
        assert!(!all.is_over(conversation, 2));
        // An account reads the group before it has ended.
        all.interrupt(now(11), conversation);
        assert!(!all.is_over(conversation, 1) && all.asked(conversation, 1).is_none());
        assert_eq!(all.due, [(at(11), conversation)].into(), "it is asked again");
        all.interrupt(now(12), conversation);
        assert_eq!(all.due, [(at(11), conversation)].into(), "it was not being asked");
        assert_eq!(all.begin(now(12), 2), Some((conversation, 2)));
        assert!(!all.take(conversation, &told(1, false)), "that was another question");
        assert!(!all.take(conversation, &told(2, true)));
        assert!(!all.take(conversation, &told(2, false)), "one is there");
        assert!(!all.is_over(conversation, 2));
        assert_eq!(all.due, [(at(12) + AGAIN, conversation)].into(), "that it leaves may be lost");
        all.leave(now(13), conversation);
        assert_eq!(all.begin(now(13), 1), Some((conversation, 3)));
        assert!(all.take(conversation, &told(3, false)));
        all.is_stopping = true;
        assert!(!all.is_over(conversation, 3), "the server stops");
        assert!(all.remove(conversation) && !all.remove(conversation) && all.due.is_empty());
    }
}
