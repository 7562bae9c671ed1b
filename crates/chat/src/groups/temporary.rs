//! Temporary groups: one ends when no device is in its room any more (XEP-0045 3), while others
//! stay until they are dissolved.
//!
//! ```text
//! the last device leaves the room, or there was grace enough ─► due ─► nobody there? ─► Dissolve
//!
//! key    home │ conversation
//! value  version │ address              the text is behind its length
//! ```
//! The home of a group knows who is in its room, and a device enters behind a change that is being
//! stored; so one that comes too late finds no group. A server that stops disconnects all clients,
//! and ends no group. A row marks the group as temporary; it is stored before the change; after a
//! start each group has a time of grace, in which its devices may come back. Invariant: no group
//! ends while a device is in its room; the number of temporary groups of a shard is limited.

use crate::envelope::client_id_of;
use crate::groups::changes::{Anew, ChangeOrder, change_entered};
use crate::groups::conversation_of;
use crate::groups::state::{Wanted, Wish};
use crate::label::Route;
use crate::service::flow::Flow;
use crate::{Chat, Effects};
use base::bytes::{ByteReader, put_text};
use base::time::{Instant, Now};
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupChange, GroupVerb};
use model::ports::log::{RowHome, Table, Write};
use model::timeline::TimelineId;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Maximum of groups that a turn looks at.
const LOOKED_A_TURN: usize = 32;

/// The time after which a group is looked at again that could not be ended.
const AGAIN: Duration = Duration::from_secs(300);

/// The reason in the message by which such a group ends.
const REASON: &str = "The room was temporary, and nobody is in it any more.";

const VERSION: u8 = 1;

/// The temporary groups at home here.
#[derive(Default)]
pub(crate) struct Temporaries {
    known: HashMap<TimelineId, Temporary>,
    /// The times at which groups are looked at.
    due: BTreeSet<(Instant, TimelineId)>,
    /// The server disconnects its clients: an empty room means nothing.
    is_stopping: bool,
}

/// A temporary group.
struct Temporary {
    group: AccountAddress,
    /// The time at which it is looked at next.
    at: Instant,
}

impl Temporaries {
    fn put(&mut self, at: Instant, (conversation, group): (TimelineId, AccountAddress)) {
        self.remove(conversation);
        self.known.insert(conversation, Temporary { group, at });
        self.due.insert((at, conversation));
    }

    fn remove(&mut self, conversation: TimelineId) -> bool {
        let was = self.known.remove(&conversation);
        was.is_some_and(|it| self.due.remove(&(it.at, conversation)))
    }

    /// Sets the time at which a group is looked at next.
    fn set_due(&mut self, conversation: TimelineId, at: Instant) {
        let Some(it) = self.known.get_mut(&conversation) else { return };
        self.due.remove(&(it.at, conversation));
        it.at = at;
        self.due.insert((at, conversation));
    }

    /// Looks at a group whose room its last device has left.
    pub(super) fn leave(&mut self, now: Now, conversation: TimelineId) {
        self.set_due(conversation, now.mono);
    }

    /// Whether the server disconnects its clients.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// The next group that is due.
    fn take_due(&mut self, now: Now) -> Option<TimelineId> {
        let &(_, conversation) = self.due.first().filter(|(at, _)| *at <= now.mono)?;
        self.set_due(conversation, now.after(AGAIN));
        Some(conversation)
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

/// Ends a group with nobody in its room. If that fails the group is looked at again after a time.
async fn end_unattended(mut flow: Flow, conversation: TimelineId) {
    if flow.group(conversation, 0).await.is_err() {
        return;
    }
    let (chat, _, _) = flow.state();
    if let Some(order) = chat.ending(conversation) {
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

    /// Ends groups that are due and have nobody in their rooms; returns when the next is due.
    pub(crate) fn turn_temporaries(&mut self, now: Now) -> Option<Instant> {
        if self.temporaries.is_stopping {
            return None;
        }
        for _ in 0..LOOKED_A_TURN {
            let Some(conversation) = self.temporaries.take_due(now) else { break };
            if self.occupants.seats_of(conversation) == 0 {
                self.begin(|flow| end_unattended(flow, conversation));
            }
        }
        self.temporaries.due.first().map(|(at, _)| *at)
    }

    /// The change that ends a group, if nobody is in its room.
    fn ending(&self, conversation: TimelineId) -> Option<ChangeOrder> {
        let state = &self.groups.known.get(&conversation)?.state;
        let (by, address) = state.owner().filter(|_| state.is_temporary())?;
        let group = self.temporaries.known.get(&conversation)?.group.clone();
        if self.occupants.seats_of(conversation) > 0 || self.temporaries.is_stopping {
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
            wish: Wanted::One(Wish { verb, title, members }),
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
    fn a_group_is_due_when_its_last_device_leaves_and_again_after_a_time() {
        let mut all = Temporaries::default();
        let (conversation, _) = lunch();
        let now = |s| Now::new(at(s), 0);
        assert_eq!(all.take_due(now(9)), None, "there is none");
        all.put(at(9), lunch());
        all.put(at(10), lunch());
        assert_eq!(all.due, [(at(10), conversation)].into());
        assert_eq!((all.take_due(now(9)), all.take_due(now(10))), (None, Some(conversation)));
        assert_eq!(all.due, [(at(10) + AGAIN, conversation)].into());
        all.leave(now(11), conversation);
        assert_eq!(all.take_due(now(11)), Some(conversation));
        assert!(all.remove(conversation) && !all.remove(conversation) && all.due.is_empty());
        all.leave(now(12), conversation);
        assert!(all.due.is_empty(), "it is none");
    }
}
