//! Changes of a group, at its home.
//!
//! ```text
//! order ─► room? ─► the group's turn ─► may it? ─► a row, of some ─► one append: conversation,
//!   answered ◄── distributed ◄── applied ◄── stored ◄── outbox, and the group's timeline ◄──┘
//! ```
//! While the log stores a change, no other task is admitted to the group. The row with a state that
//! the group will have (public, temporary) is stored before the change, and corrected when the
//! change is over. Invariant: a change is judged by all changes before it, and by nothing else.

use crate::accounts::fault_of;
use crate::envelope::{self, Sender, client_id_of};
use crate::groups::state::{Most, Verdict, Wanted};
use crate::groups::{Step, changes_of, fan_out};
use crate::label::Route;
use crate::operators::moving::last_number;
use crate::outbox::receivers::{Audience, Receivers};
use crate::service::flow::Flow;
use crate::word::{Cargo, ReplyTo, StoredMessage};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::hash::HashKey;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ClientMessageId, GROUP_TITLE_BYTES_MAX, GroupChange, GroupVerb, NewMessage, nick_of,
};
use model::counters::ChatCounter;
use model::ports::log::{AppendWith, Call, Write};
use model::timeline::{Message, TimelineId};
use std::sync::Arc;

/// A change of a group, as an account wants it.
#[derive(Debug, Encoding)]
pub struct ChangeOrder {
    pub(crate) route: Route,
    /// The once key of the message that announces the change, in its conversation.
    pub(crate) once: u64,
    /// The order is an operator's: rules that may stop an account do not apply.
    pub(crate) is_operator: bool,
    pub(crate) address: AccountAddress,
    pub(crate) device: Box<str>,
    pub(crate) client_id: ClientMessageId,
    pub(crate) group: AccountAddress,
    pub(crate) wish: Wanted,
    /// Whether the order may make the group where a dissolved one had its name.
    pub(crate) anew: Anew,
    /// The change is imported, with a number from before its import.
    pub(crate) moved: Option<Moved>,
}

/// Whether an order to make a group may use the name of a dissolved one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(Again = 0, May = 1, MayNot = 2)]
pub(crate) enum Anew {
    /// The address follows from the order, so this is a retry of the order that made the group.
    Again,
    /// The account chose the name, which is free again.
    May,
    /// The name is taken for good: that of a channel, whose subscribers read all of it, and that of
    /// an imported group, because an import may be repeated.
    MayNot,
}

/// The number of an imported change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
#[encoding(At = 0, Behind = 1)]
pub(crate) enum Moved {
    /// This number, or the next behind the last in the group.
    At(u64),
    /// The next number behind the last.
    Behind,
}

impl Moved {
    /// The number behind the last one; none: an empty conversation has no last number.
    fn behind(self, last: u64) -> Option<u64> {
        match self {
            Moved::At(id) => Some(id.max(last + 1)),
            Moved::Behind => (last > 0).then_some(last + 1),
        }
    }
}

/// Changes a group of this shard, for an asker on some shard.
pub(crate) async fn change(mut flow: Flow, to: ReplyTo, order: Box<ChangeOrder>) {
    let result = change_group(&mut flow, &order).await;
    let (chat, _, fx) = flow.state();
    chat.tell_stored(to, result, fx);
}

async fn change_group(flow: &mut Flow, order: &ChangeOrder) -> Result<StoredMessage, ChatFault> {
    let ChangeOrder { route, is_operator, group, moved, .. } = order;
    let (chat, now, fx) = flow.state();
    chat.takes_room(now, (route, &[]), *is_operator || moved.is_some(), fx)?;
    flow.group(route.conversation, order.weight()).await?;
    // An imported change is not delivered by the group's present fan-out.
    if moved.is_none() {
        fan_out::turn_if_due(flow, route.conversation, || Some(group.clone())).await;
    }
    change_entered(flow, order).await
}

/// Changes a group that the flow has entered, if the change is allowed.
pub(super) async fn change_entered(
    flow: &mut Flow,
    order: &ChangeOrder,
) -> Result<StoredMessage, ChatFault> {
    let conversation = order.route.conversation;
    let (chat, now, fx) = flow.state();
    let verdict = chat.judge_change(order);
    // An owner may leave a new room as it is (10.1.2).
    if matches!(order.wish, Wanted::Settings(_)) && matches!(verdict, Err(ChatFault::Unchanged)) {
        chat.is_made(conversation);
    }
    let changes = match verdict? {
        Verdict::Made(id, seq) => return Ok(StoredMessage { id, seq, again: true }),
        Verdict::Change(changes) => changes,
    };
    let rows = chat.begin_change(now, order, &changes, fx);
    let result = store_all(flow, order, &changes, rows).await;
    let (chat, now, fx) = flow.state();
    chat.group_entered_again(now, conversation, fx);
    result
}

/// Stores changes by one message; invitations, and what a channel does not announce, by messages of
/// their own, which other accounts read. Answered by the first that the conversation has.
async fn store_all(
    flow: &mut Flow,
    order: &ChangeOrder,
    changes: &[GroupChange],
    rows: Vec<Write>,
) -> Result<StoredMessage, ChatFault> {
    let is_apart = |change: &GroupChange| match order.group.is_channel() {
        true => change.verb.is_about_subscribers(),
        false => change.verb == GroupVerb::Invite,
    };
    let mut parts = changes.chunk_by(|a, b| is_apart(a) == is_apart(b));
    let first = parts.next().ok_or(ChatFault::Unchanged)?;
    let mut answer = store_change(flow, order, first, rows).await?;
    for (n, part) in (1..).zip(parts) {
        let order = order.part(flow.state().0.settings.home, n);
        let stored = store_change(flow, &order, part, Vec::new()).await?;
        if answer.seq == 0 {
            answer = stored;
        }
    }
    Ok(answer)
}

async fn store_change(
    flow: &mut Flow,
    order: &ChangeOrder,
    changes: &[GroupChange],
    rows: Vec<Write>,
) -> Result<StoredMessage, ChatFault> {
    let conversation = order.route.conversation;
    for row in rows {
        flow.log(Call::Write(row)).await.map_err(fault_of)?;
    }
    let moved_to = match order.moved {
        Some(moved) => moved.behind(last_number(flow, conversation).await?),
        None => None,
    };
    let (chat, now, _) = flow.state();
    let is_quiet = chat.is_quiet(conversation, changes);
    let (message, write) = chat.change_write(now, order, (changes, is_quiet), moved_to);
    let done = flow.append(&message, Write::AppendWith(write)).await?;
    let place = match done.seqs[..] {
        _ if is_quiet => None,
        [seq, place, ..] => Some((seq, place)),
        _ => return Err(ChatFault::StoreFailed),
    };
    let seq = place.map_or(0, |(seq, _)| seq);
    if done.new {
        let (chat, now, fx) = flow.state();
        let audience = chat.apply_change(now, order, (done.id, changes), fx);
        let message = envelope::decode(message.id, seq, &message.body);
        match place.zip(message) {
            // An imported change was announced on its own server when it happened.
            Some(((_, place), message)) if moved_to.is_some() => {
                let place = (chat.outbox.timeline(), place);
                let (to, cargo) = (&audience.receivers, Cargo::Message(Arc::new(message)));
                chat.distribute(now, place, (order.route, to), &cargo, fx);
            }
            Some(((_, place), message)) => chat.fan_out(now, place, audience, message, fx),
            None => {}
        }
    }
    Ok(StoredMessage { id: done.id, seq, again: !done.new })
}

impl ChangeOrder {
    /// The order whose message announces another part of the changes.
    fn part(&self, home: HashKey, n: u8) -> ChangeOrder {
        let client_id = client_id_of(home, &[b"part", &[n], &self.client_id.0]);
        let ChangeOrder { route, is_operator, anew, moved, .. } = *self;
        ChangeOrder {
            once: home.of(&[&route.from.to_bytes(), &client_id.0]),
            address: self.address.clone(),
            device: self.device.clone(),
            group: self.group.clone(),
            wish: Wanted::Affiliations(Vec::new()),
            client_id,
            route,
            is_operator,
            anew,
            moved,
        }
    }

    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        let named = |address: &AccountAddress| 40 + address.as_str().len();
        let wish = match &self.wish {
            Wanted::One(wish) => {
                let names = wish.members.iter().map(|(address, _)| named(address));
                wish.title.len() + names.sum::<usize>()
            }
            Wanted::Settings(_) => 3 * GROUP_TITLE_BYTES_MAX,
            Wanted::Affiliations(all) => {
                all.iter().map(|it| named(&it.account.0) + it.reason.len()).sum()
            }
        };
        size_of::<ChangeOrder>() + wish
    }
}

impl Chat {
    /// The verdict on a change of a group that a flow has entered.
    fn judge_change(&self, order: &ChangeOrder) -> Result<Verdict, ChatFault> {
        let group = self.groups.known.get(&order.route.conversation);
        let state = &group.ok_or(ChatFault::StoreFailed)?.state;
        // A repeated import finds its change done.
        if order.moved.is_some() && state.is_described(&order.wish) {
            return Err(ChatFault::Unchanged);
        }
        let limits = &self.settings.limits.chat;
        let [members, banned] =
            [limits.group_members_max, limits.group_banned_max].map(|it| it as usize);
        // The subject is a moderator's, too, while it is in the room (8.1), and by a rule of the
        // room everybody's who has a voice.
        let is_subject = matches!(&order.wish, Wanted::One(it) if it.verb == GroupVerb::Rename);
        let (conversation, from) = (order.route.conversation, order.route.from);
        let is_free = || state.rules().open_subject && self.may_speak(conversation, from).is_ok();
        let may = is_subject && (self.occupants.moderates(conversation, from) || is_free());
        let by = (from, order.is_operator || may);
        let verdict = state.judge(self.settings.home, by, order, Most { members, banned })?;
        if let Verdict::Change(changes) = &verdict {
            let is_any = |verb| changes.iter().any(|it| it.verb == verb);
            is_any(GroupVerb::Reveal).then(|| self.may_reveal()).transpose()?;
            is_any(GroupVerb::Unpersist).then(|| self.may_unpersist()).transpose()?;
        }
        Ok(verdict)
    }

    /// Begins changes of a group: returns the rows to be stored before them. Until they are over no
    /// other task is admitted.
    fn begin_change(
        &mut self,
        now: Now,
        order: &ChangeOrder,
        changes: &[GroupChange],
        fx: &mut Effects,
    ) -> Vec<Write> {
        let conversation = order.route.conversation;
        if let Some(group) = self.groups.known.get_mut(&conversation) {
            group.step = Step::Changing;
            group.state.is_channel |= order.group.is_channel();
        }
        let mut rows = Vec::new();
        for change in changes {
            if change.verb == GroupVerb::Create {
                self.is_listed(&order.group, fx);
            }
            let of = (&order.group, change);
            rows.extend(self.temporary_changes(now, conversation, of));
        }
        rows.extend(self.public_changes(conversation, (&order.group, changes)));
        rows
    }

    /// The write of the message that announces a change, which the group's own timeline gets, too.
    /// `is_quiet`: only that timeline gets it, and no reader sees it.
    fn change_write(
        &mut self,
        now: Now,
        order: &ChangeOrder,
        (changes, is_quiet): (&[GroupChange], bool),
        moved_to: Option<u64>,
    ) -> (Arc<Message>, Box<AppendWith>) {
        let ChangeOrder { group, address, device, client_id, route, once, .. } = order;
        let sender = Sender { address, device };
        let known = self.groups.known.get(&route.conversation).filter(|_| moved_to.is_none());
        let key = known.and_then(|it| it.state.key_for(changes));
        let told: Vec<GroupChange> = changes.iter().cloned().chain(key).collect();
        let (to, mut content) = (group.clone().into(), GroupChange::content_of(&told));
        let nick = self.nick_there((route.conversation, route.from), (group, address, device));
        content.nick = Some(nick).filter(|nick| **nick != *nick_of(group, address));
        let said = NewMessage { to, client_id: *client_id, content };
        let body = envelope::encode(sender, group, &said);
        let id = moved_to.unwrap_or_else(|| self.next_id(now));
        let (message, mut write) = self.message_write(now, route, (id, *once, body), None);
        let own = changes_of(self.settings.home, route.conversation);
        let told_in = if is_quiet { 0..2 } else { 2..2 };
        write.append.to.splice(told_in, [own]);
        write.append.ends = changes.iter().all(|it| it.verb.ends_membership());
        (message, write)
    }

    /// A room has its first settings: others find it.
    fn is_made(&mut self, conversation: TimelineId) {
        if let Some(room) = self.occupants.room(conversation) {
            room.maker = None;
        }
    }

    /// Applies changes that the log has stored; returns their audience.
    fn apply_change(
        &mut self,
        now: Now,
        order: &ChangeOrder,
        (id, changes): (u64, &[GroupChange]),
        fx: &mut Effects,
    ) -> Audience {
        // A subject is no setting.
        let is_setting = |it: &GroupChange| {
            it.members.is_empty() && !matches!(it.verb, GroupVerb::Create | GroupVerb::Rename)
        };
        if matches!(order.wish, Wanted::Settings(_)) || changes.iter().any(is_setting) {
            self.is_made(order.route.conversation);
        }
        let (route, home, settings) = (order.route, self.settings.home, &self.settings);
        let of = (route.conversation, route.from);
        let nick = self.nick_there(of, (&order.group, &order.address, &order.device));
        let Some(group) = self.groups.known.get_mut(&route.conversation) else {
            return Audience { route, receivers: Receivers::nobody(), abroad: None };
        };
        fx.counters.count(ChatCounter::GroupChanges);
        let is_own = order.moved.is_none() && !order.is_operator;
        let declining = is_own.then(|| group.state.declining(route.from, order)).flatten();
        let (known, before) = (group.state.known(), group.state.foreign().all);
        let concerned = group.state.apply_all(home, id, changes);
        group.state.is_titled(changes, &nick);
        let receivers = group.state.receivers_of(concerned, |inbox| settings.shard_at(inbox));
        let mut abroad = group.state.foreign();
        if changes.iter().any(|it| it.verb.ends_membership()) {
            let new = abroad.all.iter().filter(|it| !before.contains(it)).cloned();
            abroad.all = before.iter().cloned().chain(new).collect();
        }
        self.groups.members = self.groups.members + group.state.known() - known;
        if let Some((inviter, aside)) = declining {
            self.tell_aside(vec![inviter], aside, fx);
        }
        for change in changes {
            let by = (&order.address, &*nick);
            self.room_changes(now, route.conversation, (by, change), fx);
            if change.verb == GroupVerb::Dissolve {
                self.is_listed_no_more(route.conversation, fx);
            }
        }
        Audience { route, receivers, abroad: Some(abroad) }
    }
}
