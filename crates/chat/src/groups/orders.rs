//! Orders: a device makes a group or changes one, or a room of another server is imported as one.
//!
//! ```text
//! order ─► of a new group: in pace? how many has it made? ─► named accounts: found, added?
//!   answered ◄── accounts that ask for it are invited ◄── the home changes it ◄──┘
//! ```
//! Invariant: an order is answered once, by the place of the message that announces the change, or
//! by a fault.

use crate::envelope::{client_id_of, time_of};
use crate::groups::adding::{AddingAsked, NotAdded};
use crate::groups::changes::{Anew, ChangeOrder, Moved};
use crate::groups::conversation_of;
use crate::groups::state::{Affiliated, Consent, Named, Wanted, Wish};
use crate::label::Route;
use crate::send::{SendError, counter_of, too_fast};
use crate::service::flow::{Flow, stored};
use crate::sessions::{Asker, Requester};
use crate::word::{PeerReply, PeerRequest, StoredMessage};
use crate::{Chat, Effects};
use base::flows::WaitKey;
use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::{
    Affiliation, AffiliationItem, ChatDelivery, ChatFault, ClientMessageId, GROUP_NAMED_MAX,
    GroupChanged, GroupOrder, GroupVerb, RoomChange,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::pressure::Pressure;
use std::collections::BTreeMap;

/// Maximum of orders under way, per shard. A further one is answered as busy.
const ORDERS_MAX: usize = 4_096;

/// Approximate memory of an order that waits for an account, bytes.
const NAMED_BYTES: usize = 256;

/// Carries out a device's order to make or change a group, and answers with the place of the
/// change.
async fn order(mut flow: Flow, wait: Requester, asker: Asker, of: (GroupOrder, Option<Moved>)) {
    flow.state().0.orders += 1;
    let result = carry_out(&mut flow, &asker, of).await;
    let (chat, _, fx) = flow.state();
    chat.orders -= 1;
    match result {
        Ok((group, stored)) => chat.answer_change(wait, group, stored, fx),
        Err(SendError::Fault(fault)) => chat.answer_send(wait, Err(fault), fx),
        Err(SendError::Rejected(rejected)) => chat.reject_send(wait, rejected, fx),
    }
}

async fn carry_out(
    flow: &mut Flow,
    asker: &Asker,
    (order, moved): (GroupOrder, Option<Moved>),
) -> Result<(AccountAddress, StoredMessage), SendError> {
    let (chat, _, _) = flow.state();
    chat.may_order(&order)?;
    let group = chat.group_of(asker, &order).ok_or(ChatFault::Invalid)?;
    let conversation = conversation_of(chat.settings.home, &group);
    let home = chat.settings.shard_at(conversation);
    let GroupOrder { verb, title, members, client_id, .. } = order;
    let is_own = !asker.is_operator && moved.is_none();
    let makes = is_own && verb == GroupVerb::Create;
    if makes {
        may_make(flow, asker, &group).await?;
    }
    let mut wish = Wish { verb, title, members: named(asker, verb, &members) };
    if verb.names_accounts() {
        find_members(flow, &mut wish).await?;
    }
    let mut invited = Vec::new();
    if is_own && matches!(verb, GroupVerb::Create | GroupVerb::Add | GroupVerb::Invite) {
        invited = take_invited(flow, asker, &group, &mut wish).await?;
    }
    if !invited.is_empty() && verb == GroupVerb::Add && wish.members.is_empty() {
        (wish.verb, wish.members) = (GroupVerb::Invite, std::mem::take(&mut invited));
    }
    // The text of an order that makes a group is its title, not a reason.
    let reason = if verb.has_title() { Box::default() } else { wish.title.clone() };
    let wish = Wanted::One(wish);
    let change = flow.state().0.change_order(asker, &group, (client_id, wish, moved));
    let answer = flow.ask(home, PeerRequest::Change(change)).await.map(stored);
    // An order that finds its group made costs nothing.
    let is_new = |it: Result<StoredMessage, ChatFault>| it.is_ok_and(|it| !it.again);
    if makes && answer.is_some_and(|it| !is_new(it)) {
        flow.state().0.making_rates.give(asker.inbox, 1);
    }
    let changed = answer.unwrap_or(Err(ChatFault::Busy));
    if !invited.is_empty() && is_done(changed) {
        let wish = Wanted::One(Wish { verb: GroupVerb::Invite, title: reason, members: invited });
        let (chat, _, _) = flow.state();
        let client_id = client_id_of(chat.settings.home, &[b"invites", &client_id.0]);
        let change = chat.change_order(asker, &group, (client_id, wish, None));
        let invited = flow.store(conversation, PeerRequest::Change(change)).await;
        if !is_done(invited) {
            return Ok((group, invited?));
        }
    }
    Ok((group, changed?))
}

/// Carries out a device's change of a group as a whole, and answers with its place.
async fn change(
    mut flow: Flow,
    wait: Requester,
    asker: Asker,
    of: (AccountAddress, ClientMessageId, RoomChange),
) {
    flow.state().0.orders += 1;
    let group = of.0.clone();
    let result = changed(&mut flow, &asker, of).await;
    let (chat, _, fx) = flow.state();
    chat.orders -= 1;
    match result {
        Ok(stored) => chat.answer_change(wait, group, stored, fx),
        Err(fault) => chat.answer_send(wait, Err(fault), fx),
    }
}

async fn changed(
    flow: &mut Flow,
    asker: &Asker,
    (group, client_id, change): (AccountAddress, ClientMessageId, RoomChange),
) -> Result<StoredMessage, ChatFault> {
    let wish = match change {
        RoomChange::Settings(settings) => Wanted::Settings(settings),
        RoomChange::Affiliations(items) => {
            let mut all = found(flow, asker, items).await?;
            asks_consent(flow, asker, &mut all).await?;
            Wanted::Affiliations(all)
        }
    };
    let (chat, _, _) = flow.state();
    let home = chat.settings.shard_at(conversation_of(chat.settings.home, &group));
    let change = chat.change_order(asker, &group, (client_id, wish, None));
    flow.ask(home, PeerRequest::Change(change)).await.map(stored).unwrap_or(Err(ChatFault::Busy))
}

/// The items of a list with the numbers of their accounts, where these are found.
async fn found(
    flow: &mut Flow,
    asker: &Asker,
    items: Vec<AffiliationItem>,
) -> Result<Vec<Affiliated>, ChatFault> {
    let domain = asker.address.domain();
    let of = |AffiliationItem { account, affiliation, reason }: AffiliationItem| Affiliated {
        account: (account.within(domain), None),
        affiliation,
        reason,
        consent: Consent::Given,
    };
    let mut all: Vec<_> = items.into_iter().map(of).collect();
    for it in &all {
        flow.state().0.find_account((&it.account.0, None), (WaitKey::NONE, 0));
    }
    for it in &mut all {
        it.account.1 = match flow.account(&it.account.0, NAMED_BYTES).await {
            // An address is banned, and is no member, whether or not there is an account.
            Err(ChatFault::UnknownAccount) if it.affiliation <= Affiliation::None => {
                Some(AccountId(0))
            }
            Err(ChatFault::UnknownAccount) => None,
            found => Some(found?),
        };
    }
    Ok(all)
}

/// Asks the homes of accounts that are to be members whether they may be made that.
async fn asks_consent(
    flow: &mut Flow,
    asker: &Asker,
    all: &mut [Affiliated],
) -> Result<(), ChatFault> {
    if asker.is_operator {
        return Ok(());
    }
    let members = all.iter().filter(|it| it.affiliation >= Affiliation::Member);
    let named: Vec<Named> = members.map(|it| it.account.clone()).collect();
    let left = not_added(flow, asker, &named).await?;
    for it in all {
        if left.invited.contains(&it.account.0) {
            it.consent = Consent::Needed;
        } else if left.refused.contains(&it.account.0) {
            it.consent = Consent::Refused;
        }
    }
    Ok(())
}

/// Whether a group is as the order wants it.
fn is_done(result: Result<StoredMessage, ChatFault>) -> bool {
    matches!(result, Ok(_) | Err(ChatFault::Unchanged))
}

/// Whether an account may make a group: within its rate, and its number of groups.
async fn may_make(flow: &mut Flow, asker: &Asker, group: &AccountAddress) -> Result<(), SendError> {
    let (chat, now, fx) = flow.state();
    if let Err(retry_after_ms) = chat.making_rates.take(now, asker.inbox, 1) {
        fx.counters.count(ChatCounter::RateLimited);
        return Err(too_fast(retry_after_ms).into());
    }
    let most = chat.settings.limits.chat.groups_an_account_max as usize;
    let again = conversation_of(chat.settings.home, group);
    match flow.groups_made(asker.inbox, again).await? {
        made if made >= most => Err(ChatFault::GroupsFull.into()),
        _ => Ok(()),
    }
}

/// Finds the named accounts: all at once, so that the wait is no longer than the longest.
async fn find_members(flow: &mut Flow, wish: &mut Wish) -> Result<(), ChatFault> {
    for (one, _) in &wish.members {
        flow.state().0.find_account((one, None), (WaitKey::NONE, 0));
    }
    for (one, id) in &mut wish.members {
        let found = match flow.account(one, NAMED_BYTES).await {
            // An address is banned whether or not there is an account (XEP-0045 9.1).
            Err(ChatFault::UnknownAccount) if wish.verb == GroupVerb::Ban => AccountId(0),
            found => found?,
        };
        // A group of a foreign account is at home on that account's server.
        if wish.verb == GroupVerb::Create && found == AccountId::FOREIGN {
            return Err(ChatFault::UnknownAccount);
        }
        *id = Some(found);
    }
    Ok(())
}

/// Asks the homes of the named accounts whether they may be added; those that may not are taken
/// out, to be invited.
async fn take_invited(
    flow: &mut Flow,
    asker: &Asker,
    group: &AccountAddress,
    wish: &mut Wish,
) -> Result<Vec<Named>, ChatFault> {
    let left = not_added(flow, asker, &wish.members).await?;
    if !left.refused.is_empty() {
        return Err(ChatFault::UnknownAccount);
    }
    // An invited account gets the inviter's name in the invitation.
    if left.invited.is_empty() || wish.verb == GroupVerb::Invite {
        return Ok(Vec::new());
    }
    if group.is_channel() {
        return Err(ChatFault::InvitationNeeded);
    }
    let all = std::mem::take(&mut wish.members).into_iter();
    let (invited, added) = all.partition(|(one, _)| left.invited.contains(one));
    wish.members = added;
    Ok(invited)
}

/// Asks the homes of accounts which of them the asker may not add to a group.
async fn not_added(flow: &mut Flow, asker: &Asker, named: &[Named]) -> Result<NotAdded, ChatFault> {
    let (chat, _, _) = flow.state();
    let mut homes = BTreeMap::<ShardId, Vec<_>>::new();
    for (one, id) in named {
        // The asker is not asked, nor are accounts of other servers.
        if let Some(id) = id.filter(|id| *id != AccountId::FOREIGN && *one != asker.address) {
            let inbox = one.inbox(chat.settings.home, id);
            homes.entry(chat.settings.shard_at(inbox)).or_default().push((one.clone(), inbox));
        }
    }
    let mut left = NotAdded::default();
    for (home, accounts) in homes {
        let asked = Box::new(AddingAsked { accounts, by: asker.address.clone() });
        let reply = flow.request(home, PeerRequest::Adding(asked)).await?;
        let PeerReply::NotAdded(NotAdded { invited, refused }) = reply else {
            return Err(ChatFault::Busy);
        };
        left.invited.extend(invited);
        left.refused.extend(refused);
    }
    Ok(left)
}

/// The accounts that an order names, each once: the one that makes a group, or joins one, first.
fn named(asker: &Asker, verb: GroupVerb, members: &[Addressee]) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    if matches!(verb, GroupVerb::Create | GroupVerb::Join) {
        named.push((asker.address.clone(), None));
    }
    let members = if verb == GroupVerb::Join { &[][..] } else { members };
    for one in members.iter().map(|one| one.within(asker.address.domain())) {
        if named.iter().all(|(other, _)| *other != one) {
            named.push((one, None));
        }
    }
    named
}

impl Chat {
    /// Takes a device's order to make or change a group.
    pub(crate) fn group_order(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        order: GroupOrder,
        fx: &mut Effects,
    ) {
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        self.orders_group((wait, asker), (order, None), fx);
    }

    /// Takes an order to make or change a group, which may be an import.
    pub(crate) fn orders_group(
        &mut self,
        (wait, asker): (Requester, Asker),
        of: (GroupOrder, Option<Moved>),
        fx: &mut Effects,
    ) {
        if !self.begin(|flow| order(flow, wait, asker, of)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Takes a device's change of a group as a whole.
    pub(crate) fn changes_group(
        &mut self,
        (wait, asker): (Requester, Asker),
        of: (AccountAddress, ClientMessageId, RoomChange),
        fx: &mut Effects,
    ) {
        let is_long =
            matches!(&of.2, RoomChange::Affiliations(items) if items.len() > GROUP_NAMED_MAX);
        let is_busy = self.pressure >= Pressure::Stores || self.orders > ORDERS_MAX;
        if is_long || !of.0.is_group() {
            return self.answer_send(wait, Err(ChatFault::Invalid), fx);
        }
        if is_busy || !self.begin(|flow| change(flow, wait, asker, of)) {
            self.answer_send(wait, Err(ChatFault::Busy), fx);
        }
    }

    fn may_order(&self, order: &GroupOrder) -> Result<(), ChatFault> {
        let is_long = order.title.len() > order.verb.text_bytes_max();
        if is_long || order.members.len() > GROUP_NAMED_MAX {
            return Err(ChatFault::TooLarge);
        }
        if order.verb.names_members() && order.members.is_empty() {
            return Err(ChatFault::Invalid);
        }
        let is_busy = self.pressure >= Pressure::Stores || self.orders > ORDERS_MAX;
        if is_busy { Err(ChatFault::Busy) } else { Ok(()) }
    }

    /// The group of an order.
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

    /// Whether an order may make a group where a dissolved one had the name.
    fn makes_anew(
        &self,
        asker: &Asker,
        client_id: ClientMessageId,
        (group, is_moving): (&AccountAddress, bool),
    ) -> Anew {
        match self.group_made_by(asker, client_id) {
            Some(made) if made == *group => Anew::Again,
            _ if group.is_channel() || is_moving => Anew::MayNot,
            _ => Anew::May,
        }
    }

    /// The address of the group that an order makes without naming one.
    fn group_made_by(&self, asker: &Asker, client_id: ClientMessageId) -> Option<AccountAddress> {
        let home = self.settings.home;
        let number = home.of(&[b"made", &asker.inbox.to_bytes(), &client_id.0]);
        AccountAddress::of_group(number, asker.address.domain())
    }

    /// The change order for the home of a group.
    fn change_order(
        &self,
        asker: &Asker,
        group: &AccountAddress,
        (client_id, wish, moved): (ClientMessageId, Wanted, Option<Moved>),
    ) -> Box<ChangeOrder> {
        let home = self.settings.home;
        let conversation = conversation_of(home, group);
        let route = Route { from: asker.inbox, to: None, conversation, read: None };
        let once = home.of(&[&asker.inbox.to_bytes(), &client_id.0]);
        let is_making = matches!(&wish, Wanted::One(wish) if wish.verb == GroupVerb::Create);
        let anew = match is_making {
            true => self.makes_anew(asker, client_id, (group, moved.is_some())),
            false => Anew::MayNot,
        };
        let Asker { address, device, is_operator, .. } = asker.clone();
        let group = group.clone();
        Box::new(ChangeOrder {
            route,
            once,
            is_operator,
            address,
            device,
            client_id,
            group,
            wish,
            anew,
            moved,
        })
    }

    /// Answers the waiting device after the home of the group has changed it.
    fn answer_change(
        &mut self,
        wait: Requester,
        group: AccountAddress,
        StoredMessage { id, seq, again }: StoredMessage,
        fx: &mut Effects,
    ) {
        fx.counters.count(counter_of(again));
        let Requester { conn, session, number } = wait;
        let changed = GroupChanged { number, group, id, seq, at_ms: time_of(id), again };
        self.answer_session((conn, session), ChatDelivery::Changed(Box::new(changed)), fx);
    }
}
