//! Shared subscriptions (MQTT5 4.8.2).
//!
//! A group lives on the shard that its name and filter choose. That shard has the filter in its
//! table, picks a member for each message and forwards it; members are identified by their
//! sessions' timelines, which also name their shards. A client that reconnects after its session
//! ended is the same member: the session that ends leaves its groups before the next one of that
//! name begins. A member that may not read all of the filter is skipped for messages it may not
//! read. Messages that a member has not answered when it goes (QoS 1), or was not sent, come back
//! and go to another one; a QoS 2 delivery that began stays with its member.

use super::answers::{Origin, PendingAnswer, receipt_of};
use super::deliver::straight;
use super::groups::{Groups, Membership, share_of};
use super::handover::WorkOffer;
use super::queue::Entry;
use super::route::holder::{option, qos_of};
use crate::Broker;
use crate::Effects;
use crate::Settings;
use crate::durable::rows::{SubscriptionRow, subscription_key};
use crate::encodings;
use crate::group::MemberStanding;
use crate::peer_message::{GroupWhat, GroupWord, MemberWord, PeerMessage, RestrictedMember};
use crate::session::shares::{Share, ShareTerms};
use base::slab::Key;
use base::time::Now;
use model::counters::TopicCounter;
use model::ports::access::Act;
use model::ports::log::Table;
use model::session::{Denial, Drop, SessionDelivery};
use model::timeline::TimelineId;
use model::topic::{Publication, Qos};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most ended members that are removed from their group for one message. With more, its publisher
/// is answered that the server is busy.
const ENDED_MAX: usize = 1_024;

/// A message of a shared group, for one of its members, which wants it so.
struct GroupMessage<'m> {
    group: &'m str,
    member: TimelineId,
    terms: ShareTerms,
    message: &'m Arc<Publication>,
}

impl Broker {
    pub(crate) fn tell_group(
        &mut self,
        now: Now,
        group: &str,
        member: TimelineId,
        what: GroupWhat,
        fx: &mut Effects,
    ) {
        let owner = self.settings.owner_of_group(group);
        let word = GroupWord { group: group.into(), member, what };
        self.tell(now, owner, PeerMessage::Group(Box::new(word)), fx);
    }

    /// Shares a subscription with a group. The session becomes a member when the owner of the group
    /// has the order; `joining` is notified.
    pub(crate) fn join_group(
        &mut self,
        now: Now,
        key: Key,
        subscription: SubscriptionRow,
        joining: Option<Origin>,
        fx: &mut Effects,
    ) -> Result<(), Denial> {
        let wait = match joining {
            Some(origin) => Some(self.answers.open(origin).ok_or(Denial::Busy)?),
            None => None,
        };
        let Some(session) = self.sessions.at_mut(key) else { return Err(Denial::Protocol) };
        let SubscriptionRow { options, subscription_id, filter } = subscription;
        let share =
            Share { filter: filter.clone(), number: share_of(&filter), options, subscription_id };
        let member = session.timeline(self.settings.home);
        if session.more().shares.set(member, share) {
            self.subscriptions.add_share();
        }
        self.tell_standing(now, key, &filter, wait.map_or(0, receipt_of), fx);
        Ok(())
    }

    /// The owner of a group hears how a member is; it is asked for a receipt under a number, or
    /// for none.
    pub(crate) fn tell_standing(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        receipt: u64,
        fx: &mut Effects,
    ) {
        let Some((session, shares)) = self.sessions.sharing(key) else { return };
        let (online, durable) = (session.online().is_some(), session.is_durable());
        let Some((member, share)) = shares.member().zip(shares.get(filter)) else { return };
        let reader = (share.options & option::PARTLY != 0).then(|| {
            let principal = self.sessions.principal(session).clone();
            let client = session.id().into();
            Arc::new(RestrictedMember { client, principal, encoded: None })
        });
        let from = self.settings.shard;
        let what = GroupWhat::Join { online, durable, reader, from, receipt };
        self.tell_group(now, filter, member, what, fx);
    }

    /// Leaves a shared subscription; false if the session did not have it.
    pub(crate) fn leave_group(
        &mut self,
        now: Now,
        key: Key,
        filter: &str,
        fx: &mut Effects,
    ) -> bool {
        let Some(more) = self.sessions.more_mut(key) else { return false };
        let Some(member) = more.shares.member().filter(|_| more.shares.remove(filter)) else {
            return false;
        };
        self.subscriptions.drop_shares(1);
        self.tell_group(now, filter, member, GroupWhat::Leave, fx);
        self.sessions.rest(key);
        true
    }

    /// The session ends: what it did not answer goes to others. Gives the groups in which it is
    /// counted as a member until it leaves them one by one.
    pub(crate) fn leave_groups(&mut self, now: Now, key: Key, fx: &mut Effects) -> Vec<Share> {
        self.give_back(now, key, true, fx);
        let more = self.sessions.more_mut(key);
        let shares = more.map_or(Vec::new(), |more| more.shares.take());
        self.subscriptions.drop_shares(shares.len());
        shares
    }

    /// A member's connection came or went.
    pub(crate) fn share_presence(&mut self, now: Now, key: Key, online: bool, fx: &mut Effects) {
        self.stand_again(now, key, fx);
        if !online {
            self.give_back(now, key, false, fx);
        }
    }

    pub(crate) fn drop_share_row(&mut self, key: Key, filter: &str, fx: &mut Effects) {
        let Some(session) = self.sessions.at(key).filter(|session| session.is_durable()) else {
            return;
        };
        let row = subscription_key(self.settings.home, session.id(), filter);
        self.log.delete(Table::Subscriptions, row, fx);
    }

    /// Gives the unanswered and unsent messages of a member that goes back to its groups. A message
    /// in the log leaves it when another member has it there; at QoS 2 it stays with a member that
    /// comes back, for a kill between would have two members get it.
    fn give_back(&mut self, now: Now, key: Key, ends: bool, fx: &mut Effects) {
        let totals = &mut self.totals;
        let Some(session) = self.sessions.at_mut(key) else { return };
        // Messages in the log stay with a durable member, which gets them when it is back.
        let Some(more) = session.more.as_mut() else { return };
        let Some(member) = more.shares.member() else { return };
        if more.shares.is_empty() || more.queue.entries().all(|entry| entry.share == 0) {
            return;
        }
        let shares = more.shares.numbers();
        let sent = |entry: &Entry| {
            shares.contains(&entry.share)
                && entry.qos == Qos::AtLeastOnce
                && entry.message.is_some()
        };
        let waits = |entry: &Entry| {
            let may_move = ends || entry.seq == 0 || entry.qos != Qos::ExactlyOnce;
            shares.contains(&entry.share) && entry.message.is_some() && may_move
        };
        let mut back = more.queue.take_sent(sent, totals);
        back.extend(more.queue.take_waiting(waits, totals));
        if ends {
            // Before the groups hear what comes back: it is not for this one again.
            let left: BTreeSet<u32> = back.iter().map(|entry| entry.share).collect();
            let shares = more.shares.iter().filter(|share| left.contains(&share.number));
            let groups: Vec<Box<str>> = shares.map(|share| share.filter.clone()).collect();
            for group in groups {
                self.tell_group(now, &group, member, GroupWhat::Leave, fx);
            }
        }
        for mut entry in back {
            let Some(message) = entry.message.take() else { continue };
            let more = self.sessions.more(key);
            let share = more.and_then(|more| more.shares.numbered(entry.share));
            let Some(filter) = share.map(|share| share.filter.clone()) else { continue };
            let receipt = match entry.seq {
                0 => 0,
                _ => match self.await_move(key, entry) {
                    Ok(receipt) => receipt,
                    Err(entry) => {
                        self.put_back(now, key, *entry, fx);
                        continue;
                    }
                },
            };
            let what = GroupWhat::Back { message, from: self.settings.shard, receipt };
            self.tell_group(now, &filter, member, what, fx);
        }
    }

    /// Ends a delivery of a shared subscription.
    pub(crate) fn share_over(&mut self, key: Key, entry: &Entry, fx: &mut Effects) {
        if entry.share == 0 {
            return;
        }
        let Some((_, shares)) = self.sessions.sharing(key) else { return };
        let share = shares.numbered(entry.share).zip(shares.member());
        if let Some((share, member)) = share {
            tell_done((&self.settings, &mut self.groups), &share.filter, member, fx);
        }
    }

    /// Handles a message about a shared group of this shard.
    pub(crate) fn group_word(&mut self, now: Now, word: GroupWord, fx: &mut Effects) {
        let GroupWord { group, member, what } = word;
        match what {
            GroupWhat::Join { online, durable, reader, from, receipt } => {
                let standing = MemberStanding { online, durable };
                let access = &*self.settings.access;
                let reader = reader.map(|reader| encodings::compiled(reader, access));
                let membership = Membership { member, standing, reader };
                let joined = self.groups.join(&group, membership, &mut self.subscriptions);
                if receipt != 0 {
                    let result = if joined { Ok(true) } else { Err(Denial::Quota) };
                    let number = receipt;
                    match from == self.settings.shard {
                        // Whoever asked is not done asking.
                        true => self.answers.owe(number, result),
                        false => {
                            fx.peer_messages.push((from, PeerMessage::Receipt { number, result }))
                        }
                    }
                }
            }
            GroupWhat::Leave => self.groups.leave(&group, member, &mut self.subscriptions),
            GroupWhat::Done(count) => self.groups.done(&group, member, count),
            GroupWhat::Offer { message, from, receipt, place } => {
                let offer = WorkOffer { group, member, message, from, receipt, place };
                self.offered(now, offer, fx);
            }
            GroupWhat::Back { message, from, receipt } => {
                let origin = Origin::of_shard(from, receipt);
                let mut pending_answer = PendingAnswer::of(origin);
                pending_answer.except = Some(member);
                match self.groups.number(&group) {
                    Some(number) => {
                        self.share_out(now, number, &message, &mut pending_answer, fx);
                    }
                    None => fx.counters.dropped(Drop::NoMember, 1),
                }
                self.write_appends(&message, &mut pending_answer, fx);
                self.close(now, pending_answer, true, fx);
            }
        }
    }

    /// A message of a group goes to one of its members.
    pub(crate) fn share_out(
        &mut self,
        now: Now,
        number: u32,
        message: &Arc<Publication>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let window = u32::from(self.settings.limits.topics.inflight_max);
        let mut ended = 0;
        let (group, member, shard) = loop {
            let (group, member) =
                match self.groups.pick(number, message, window, pending_answer.except) {
                    Some(Ok(picked)) => picked,
                    Some(Err(why)) => return fx.counters.dropped(why, 1),
                    None => return fx.counters.dropped(Drop::NoMember, 1),
                };
            let shard = self.settings.shard_at(member.home_hash());
            if shard != self.settings.shard {
                break (group, member, shard);
            }
            if let Some((key, terms)) = self.sessions.member_of(&group, member) {
                let given = GroupMessage { group: &group, member, terms, message };
                return self.hand_member(now, key, given, pending_answer, fx);
            }
            // A session of this shard that ended and has not left the group yet.
            self.units.spend(1);
            self.groups.leave(&group, member, &mut self.subscriptions);
            ended += 1;
            if ended == ENDED_MAX {
                pending_answer.error = Some(Denial::Busy);
                return fx.counters.dropped(Drop::Busy, 1);
            }
        };
        pending_answer.mark_alone = true;
        let receipt = match message.qos {
            Qos::AtMostOnce => 0,
            _ => self.answers.one_more(pending_answer).map_or(0, receipt_of),
        };
        let word = MemberWord {
            group,
            member,
            message: message.clone(),
            from: self.settings.shard,
            receipt,
            offered: pending_answer.offered.clone(),
        };
        fx.peer_messages.push((shard, PeerMessage::Member(Box::new(word))));
    }

    /// A member of this shard was picked by another one.
    pub(crate) fn member_word(&mut self, now: Now, word: MemberWord, fx: &mut Effects) {
        let MemberWord { group, member, message, from, receipt, offered } = word;
        let origin = Origin::of_shard(from, receipt);
        let mut pending_answer = PendingAnswer::of(origin);
        let Some((key, terms)) = self.sessions.member_of(&group, member) else {
            // The member has left meanwhile: another one gets the message, and this one no more.
            let left = GroupWord { group: group.clone(), member, what: GroupWhat::Leave };
            self.tell(now, from, PeerMessage::Group(Box::new(left)), fx);
            if let Some(place) = offered {
                let offer = WorkOffer { group, member, message, from, receipt, place };
                return self.offer_again(now, offer, fx);
            }
            let what = GroupWhat::Back { message, from, receipt };
            let word = GroupWord { group, member, what };
            self.tell(now, from, PeerMessage::Group(Box::new(word)), fx);
            return;
        };
        pending_answer.offered = offered;
        let given = GroupMessage { group: &group, member, terms, message: &message };
        self.hand_member(now, key, given, &mut pending_answer, fx);
        self.write_appends(&message, &mut pending_answer, fx);
        self.close(now, pending_answer, true, fx);
    }

    /// A member gets a message.
    fn hand_member(
        &mut self,
        now: Now,
        key: Key,
        given: GroupMessage<'_>,
        pending_answer: &mut PendingAnswer,
        fx: &mut Effects,
    ) {
        let GroupMessage { terms, message, .. } = given;
        let Some(session) = self.sessions.at(key) else { return };
        if (session.is_reaching() || terms.options & option::PARTLY != 0)
            && !self.sessions.may(session, Act::Read, message.topic())
        {
            self.not_on_way(&given, fx);
            return self.sessions.dropped(now, key, Drop::NotAuthorized, 1, fx);
        }
        if pending_answer.offered.is_some() && !self.has_room_for_work(key, message.weight() as u32)
        {
            pending_answer.error = Some(Denial::Busy);
            return self.not_on_way(&given, fx);
        }
        let qos = qos_of(terms.options).min(message.qos);
        let retain = terms.options & option::AS_PUBLISHED != 0 && message.retain;
        let ids = terms.subscription_id.map(|id| Arc::from([id]));
        if qos == Qos::AtMostOnce {
            self.not_on_way(&given, fx);
            let Some(conn) = self.sessions.online(key) else {
                return self.sessions.dropped(now, key, Drop::Offline, 1, fx);
            };
            fx.counters.count(TopicCounter::Delivered);
            let outgoing = straight(message.clone(), retain, ids);
            fx.deliveries.push((conn, SessionDelivery::Publish(outgoing)));
            return;
        }
        let entry = Entry { share: terms.number, ..Entry::of(message, qos, retain, ids) };
        self.hand_entry(now, key, entry, pending_answer, fx);
    }

    /// A message that was counted as on its way is not answered by this member.
    fn not_on_way(&mut self, given: &GroupMessage<'_>, fx: &mut Effects) {
        if given.message.qos != Qos::AtMostOnce {
            tell_done((&self.settings, &mut self.groups), given.group, given.member, fx);
        }
    }
}

/// Reports to the owner of the group that a member has finished a message.
fn tell_done(
    (settings, groups): (&Settings, &mut Groups),
    group: &str,
    member: TimelineId,
    fx: &mut Effects,
) {
    let owner = settings.owner_of_group(group);
    if owner == settings.shard {
        return groups.done(group, member, 1);
    }
    let word = GroupWord { group: group.into(), member, what: GroupWhat::Done(1) };
    fx.peer_messages.push((owner, PeerMessage::Group(Box::new(word))));
}
