//! Orders: a device wants a group made or changed. Those whom it names as members are found first.
//!
//! Invariant: an order is answered once, by the place of the message that tells of the change, or
//! by why there is none.

use crate::accounts::Waiter;
use crate::envelope::{client_id_of, time_of};
use crate::groups::conversation_of;
use crate::groups::state::Wish;
use crate::label::Route;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::word::{Moved, StoreOrder, StoredMessage};
use crate::{Chat, Effects};
use base::flows::WaitKey;
use base::time::{Instant, Now, earliest};
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ChatDelivery, ChatFault, ClientMessageId, GROUP_NAMED_MAX, GroupChanged, GroupOrder, GroupVerb,
};
use model::id::{ConnRef, SessionRef};
use model::pressure::Pressure;

/// Orders that may wait for accounts, a shard. One more is answered as busy.
const ORDERS_MAX: usize = 4_096;

/// A change that is wanted of a group, as its home hears of it.
#[derive(Debug)]
pub struct ChangeAsked {
    pub(crate) address: AccountAddress,
    pub(crate) device: Box<str>,
    pub(crate) client_id: ClientMessageId,
    pub(crate) group: AccountAddress,
    pub(crate) wish: Wish,
    /// What it makes where a group was that is dissolved.
    pub(crate) anew: Anew,
}

/// What an order to make a group is where there was one that is dissolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anew {
    /// The address follows from it: it is the order that made the group, given again.
    Again,
    /// Somebody chose the name, which is free again.
    May,
    /// The name is taken for good: of a channel, all of which whoever subscribes reads, and for
    /// what moves in, which is brought as often as anybody likes.
    MayNot,
}

/// An order whose members are being found.
pub(crate) struct Ordering {
    wait: Requester,
    asker: Asker,
    client_id: ClientMessageId,
    group: AccountAddress,
    wish: Wish,
    /// Members that are not found, or of whom it is not known whether they are added.
    left: usize,
    /// Those of them who are not added, but invited.
    invited: Vec<AccountAddress>,
    moved: Option<Moved>,
}

pub(crate) type Orders = Waits<Ordering>;

/// A change of a group that its home is asked for.
struct Change {
    client_id: ClientMessageId,
    wish: Wish,
    moved: Option<Moved>,
}

/// An order whose members are found.
struct Ordered {
    asker: Asker,
    group: AccountAddress,
    first: Change,
    /// Those who are invited when that is done, by the same order.
    then: Option<Change>,
    /// It makes a group, and has taken of its asker's rate of that.
    makes: bool,
}

/// Asks the home of a group for a change and for the invitations that follow it, and answers the
/// device that waits.
async fn change_group(mut flow: Flow, wait: Requester, ordered: Ordered) {
    let Ordered { asker, group, first, then, makes } = ordered;
    let key = flow.key();
    let (chat, now, fx) = flow.state();
    chat.hands_order(now, key, (&asker, &group), first, fx);
    let answer = flow.stored_in_time(key).await;
    // What was there already costs nothing.
    if makes && answer.is_some_and(|it| !matches!(it, Ok(StoredMessage { again: false, .. }))) {
        flow.state().0.making_rates.give(asker.inbox, 1);
    }
    let mut result = answer.unwrap_or(Err(ChatFault::Busy));
    if let Some(then) = then.filter(|_| is_done(&result)) {
        let key = flow.key();
        let (chat, now, fx) = flow.state();
        chat.hands_order(now, key, (&asker, &group), then, fx);
        let invited = flow.stored(key).await;
        if !is_done(&invited) {
            result = invited;
        }
    }
    let (chat, _, fx) = flow.state();
    chat.answer_change(wait, group, result, fx);
}

/// Whether a group is as an order wants it.
fn is_done(result: &Result<StoredMessage, ChatFault>) -> bool {
    matches!(result, Ok(_) | Err(ChatFault::Unchanged))
}

impl Ordering {
    /// Which group is to be made, or changed.
    pub(crate) fn group(&self) -> &AccountAddress {
        &self.group
    }

    /// Who orders.
    pub(super) fn asker(&self) -> &AccountAddress {
        &self.asker.address
    }
}

impl Chat {
    /// A device wants to make a group, or change one.
    pub(crate) fn group_order(
        &mut self,
        now: Now,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        order: GroupOrder,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        self.orders_group(now, (wait, asker), (order, None), fx);
    }

    /// The same, of a group that may be moving in.
    pub(crate) fn orders_group(
        &mut self,
        now: Now,
        (wait, asker): (Requester, Asker),
        (order, moved): (GroupOrder, Option<Moved>),
        fx: &mut Effects,
    ) {
        let group = self
            .may_not_order(&order)
            .map_or_else(|| self.group_of(&asker, &order).ok_or(ChatFault::Invalid), Err);
        let group = match group {
            Ok(group) => group,
            Err(fault) => return self.answer_send(wait, Err(fault), fx),
        };
        let GroupOrder { verb, title, members, client_id, .. } = order;
        let mut named: Vec<AccountAddress> = Vec::new();
        if matches!(verb, GroupVerb::Create | GroupVerb::Join) {
            named.push(asker.address.clone());
        }
        let members = if verb == GroupVerb::Join { &[][..] } else { &members[..] };
        for one in members.iter().map(|one| one.within(asker.address.domain())) {
            if !named.contains(&one) {
                named.push(one);
            }
        }
        let members: Vec<_> = named.into_iter().map(|one| (one, None)).collect();
        let left = if verb.names_accounts() { members.len() } else { 0 };
        let makes = verb == GroupVerb::Create && !asker.is_operator && moved.is_none();
        let (inbox, wish, invited) = (asker.inbox, Wish { verb, title, members }, Vec::new());
        let ordering = Ordering { wait, asker, client_id, group, wish, left, invited, moved };
        let key = self.orders.put(ordering);
        match makes {
            true => self.may_make(now, (inbox, wait), key, fx),
            false => self.finds_members(now, key, fx),
        }
    }

    /// Those whom an order names are found.
    pub(crate) fn finds_members(&mut self, now: Now, key: u64, fx: &mut Effects) {
        let Some(ordering) = self.orders.at(key) else { return };
        if ordering.left == 0 {
            return self.order_change(key, fx);
        }
        let all: Vec<_> = ordering.wish.members.iter().map(|(one, _)| one.clone()).collect();
        for one in all {
            self.find_account(now, &one, None, Waiter::Group(key), fx);
        }
    }

    /// An order is not carried out.
    pub(crate) fn refuse_order(&mut self, key: u64, fault: ChatFault, fx: &mut Effects) {
        if let Some(ordering) = self.orders.take(key) {
            self.answer_send(ordering.wait, Err(fault), fx);
        }
    }

    fn may_not_order(&self, order: &GroupOrder) -> Option<ChatFault> {
        let is_busy = self.pressure >= Pressure::Stores || self.orders.len() >= ORDERS_MAX;
        let is_long = order.title.len() > order.verb.text_bytes_max();
        if is_long || order.members.len() > GROUP_NAMED_MAX {
            return Some(ChatFault::TooLarge);
        }
        if order.verb.names_members() && order.members.is_empty() {
            return Some(ChatFault::Invalid);
        }
        is_busy.then_some(ChatFault::Busy)
    }

    /// The group that an order is about.
    fn group_of(&self, asker: &Asker, order: &GroupOrder) -> Option<AccountAddress> {
        let domain = asker.address.domain();
        let named = order.group.as_ref().map(|group| group.within(domain));
        if order.verb == GroupVerb::Create {
            if named.is_some() {
                return named.filter(|group| group.is_group_of(domain));
            }
            return self.group_made_by(asker, order.client_id);
        }
        named.filter(AccountAddress::is_group)
    }

    /// What an order makes where a group was that is dissolved.
    fn makes_anew(
        &self,
        asker: &Asker,
        (verb, client_id): (GroupVerb, ClientMessageId),
        (group, is_moving): (&AccountAddress, bool),
    ) -> Anew {
        if verb != GroupVerb::Create {
            return Anew::MayNot; // it makes nothing
        }
        match self.group_made_by(asker, client_id) {
            Some(made) if made == *group => Anew::Again,
            _ if group.is_channel() || is_moving => Anew::MayNot,
            _ => Anew::May,
        }
    }

    /// The address of the group that an order makes which names none.
    fn group_made_by(&self, asker: &Asker, client_id: ClientMessageId) -> Option<AccountAddress> {
        let home = self.settings.home;
        let number = home.of(&[b"made", &asker.inbox.to_bytes(), &client_id.0]);
        AccountAddress::of_group(number, asker.address.domain())
    }

    /// Somebody whom an order names is found, or why not.
    pub(crate) fn member_found(
        &mut self,
        now: Now,
        key: u64,
        (address, id): (&AccountAddress, Result<AccountId, ChatFault>),
        fx: &mut Effects,
    ) {
        let Some(ordering) = self.orders.at_mut(key) else { return };
        // What a foreign account makes is at home with its own server.
        let is_making = ordering.wish.verb == GroupVerb::Create;
        let may_be = |id: &AccountId| !is_making || *id != AccountId::FOREIGN;
        let id = match id.and_then(|id| Some(id).filter(may_be).ok_or(ChatFault::UnknownAccount)) {
            Ok(id) => id,
            Err(fault) => return self.refuse_order(key, fault, fx),
        };
        let named = ordering.wish.members.iter_mut().find(|(named, _)| named == address);
        let Some((_, found)) = named.filter(|(_, found)| found.is_none()) else { return };
        *found = Some(id);
        let Asker { is_operator, address: by, .. } = &ordering.asker;
        let makes_member =
            matches!(ordering.wish.verb, GroupVerb::Create | GroupVerb::Add | GroupVerb::Invite);
        // Nobody asks itself; of other servers nobody is asked, and operators ask nobody.
        let is_asked = makes_member
            && !is_operator
            && ordering.moved.is_none()
            && by != address
            && id != AccountId::FOREIGN;
        match is_asked {
            true => self.ask_adding(now, key, (address, id), fx),
            false => self.member_told(key, fx),
        }
    }

    /// One more named account has been judged: it is added, or it is not.
    fn member_told(&mut self, key: u64, fx: &mut Effects) {
        let Some(ordering) = self.orders.at_mut(key) else { return };
        ordering.left -= 1;
        if ordering.left == 0 {
            self.order_change(key, fx);
        }
    }

    /// Somebody who is named is added, invited, or neither.
    pub(crate) fn adding_answered(
        &mut self,
        (key, address): (u64, AccountAddress),
        is_added: Result<bool, ChatFault>,
        fx: &mut Effects,
    ) {
        let Some(ordering) = self.orders.at_mut(key) else { return };
        match is_added {
            Err(fault) => return self.refuse_order(key, fault, fx),
            Ok(true) => {}
            // Whoever is invited is told of the one who invites it.
            Ok(false) if ordering.wish.verb == GroupVerb::Invite => {}
            Ok(false) if ordering.group.is_channel() => {
                return self.refuse_order(key, ChatFault::InvitationNeeded, fx);
            }
            Ok(false) => ordering.invited.push(address),
        }
        self.member_told(key, fx);
    }

    /// The group's home is asked for the change.
    fn order_change(&mut self, key: u64, fx: &mut Effects) {
        let Some(ordering) = self.orders.take(key) else { return };
        let Ordering { wait, asker, client_id, group, mut wish, moved, invited, .. } = ordering;
        let is_invited = |(address, _): &(AccountAddress, _)| invited.contains(address);
        let (invited, added): (Vec<_>, Vec<_>) = wish.members.into_iter().partition(is_invited);
        wish.members = added;
        let then = match (invited.is_empty(), wish.verb) {
            (true, _) => None,
            (false, GroupVerb::Add) if wish.members.is_empty() => {
                (wish.verb, wish.members) = (GroupVerb::Invite, invited);
                None
            }
            (false, verb) => {
                // What is said with it is the title of what is made.
                let title = if verb.has_title() { Box::default() } else { wish.title.clone() };
                let wish = Wish { verb: GroupVerb::Invite, title, members: invited };
                let client_id = client_id_of(self.settings.home, &[b"invites", &client_id.0]);
                Some(Change { client_id, wish, moved: None })
            }
        };
        let makes = wish.verb == GroupVerb::Create && !asker.is_operator && moved.is_none();
        let ordered =
            Ordered { asker, group, first: Change { client_id, wish, moved }, then, makes };
        if !self.begin(|flow| change_group(flow, wait, ordered)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Has a change stored at the home of its group, under a key of this shard.
    fn hands_order(
        &mut self,
        now: Now,
        key: WaitKey,
        (asker, group): (&Asker, &AccountAddress),
        Change { client_id, wish, moved }: Change,
        fx: &mut Effects,
    ) {
        let conversation = conversation_of(self.settings.home, group);
        let route = Route { from: asker.inbox, to: None, conversation, read: None };
        let anew = self.makes_anew(asker, (wish.verb, client_id), (group, moved.is_some()));
        let once = self.settings.home.of(&[&asker.inbox.to_bytes(), &client_id.0]);
        let Asker { address, device, is_operator, .. } = asker.clone();
        let group = group.clone();
        let change = Some(Box::new(ChangeAsked { address, device, client_id, group, wish, anew }));
        let (number, body) = (key.number(), Box::default());
        let order = StoreOrder { number, route, once, is_operator, body, change, moved };
        self.hand_to_conversation(now, order, fx);
    }

    /// The home of the group has answered an order: so is whoever waits.
    fn answer_change(
        &mut self,
        wait: Requester,
        group: AccountAddress,
        result: Result<StoredMessage, ChatFault>,
        fx: &mut Effects,
    ) {
        let StoredMessage { id, seq, again } = match result {
            Ok(stored) => stored,
            Err(fault) => return self.answer_send(wait, Err(fault), fx),
        };
        fx.counters.count(crate::send::counter_of(again));
        let Requester { conn, session, number } = wait;
        let changed = GroupChanged { number, group, id, seq, at_ms: time_of(id), again };
        self.answer_session((conn, session), ChatDelivery::Changed(Box::new(changed)), fx);
    }

    /// Orders whose members were not found in time; when to look again.
    pub(crate) fn turn_orders(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let ms_max = self.settings.limits.answer_ms_max;
        let (over, next) = self.orders.overdue(now, ms_max);
        for ordering in over {
            self.answer_send(ordering.wait, Err(ChatFault::Busy), fx);
        }
        // The orders that these are of are answered so, too.
        let (_, adding) = self.adding.overdue(now, ms_max);
        earliest([next, adding])
    }
}
