//! Stanzas of devices to devices of accounts here, which are not stored (RFC 6121 4.6, 8.5.3).
//!
//! ```text
//! HandTo ─► the account is found ─► neither has blocked the other ─► its home ─► its devices
//!    Done, or a fault ◄──────────────────────────────────────────────────┘
//! ```
//! Receivers of a session's directed presence learn when it goes offline, here and elsewhere. This
//! module does not interpret stanzas. Invariants: a session is answered once; a receiver of
//! directed presence is in a list of at most `directed_a_session_max`, or has learned that the
//! device is gone.

use super::Task;
use crate::accounts::FOUND_BYTES;
use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::word::{PeerReply, PeerRequest, ReplyTo};
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::slab::Key;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::foreign::ForeignWord;
use model::chat::{ChatDelivery, ChatFault, DirectedPresence, HandingTo};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::timeline::TimelineId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Receivers of directed presence, by session.
pub(crate) type Directed = HashMap<Key, VecDeque<(DirectedTo, Farewell)>>;

/// A receiver of directed presence.
#[derive(PartialEq, Eq)]
pub(crate) enum DirectedTo {
    /// A receiver at another domain: address, and domain.
    Elsewhere(Box<str>, Box<str>),
    /// A receiver here: an account, and one of its devices or all.
    Here(AccountAddress, Option<Box<str>>),
}

/// The stanza that a receiver gets when the device goes offline; none for another server, which
/// gets a notice in a form of its own.
pub(crate) type Farewell = Option<Arc<[u8]>>;

/// A stanza on its way to the home of an account.
#[derive(Debug, Encoding)]
pub struct StanzaHanded {
    pub(crate) from: AccountAddress,
    pub(crate) to: TimelineId,
    pub(crate) device: Option<Box<str>>,
    pub(crate) xml: Arc<[u8]>,
}

/// A stanza whose account is being found.
pub(crate) struct Handing {
    wait: Requester,
    from: AccountAddress,
    by: TimelineId,
    device: Option<Box<str>>,
    xml: Arc<[u8]>,
}

impl StanzaHanded {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<StanzaHanded>() + self.xml.len()
    }
}

/// Sends a stanza to devices of an account, and answers the session whether a device has it.
async fn hand(mut flow: Flow, to: AccountAddress, handing: Handing) {
    let wait = handing.wait;
    let result = hand_stanza(&mut flow, &to, handing).await;
    let (chat, _, fx) = flow.state();
    chat.answer_handed(wait, result, fx);
}

async fn hand_stanza(
    flow: &mut Flow,
    to: &AccountAddress,
    Handing { from, by, device, xml, .. }: Handing,
) -> Result<(), ChatFault> {
    let id = flow.account(to, FOUND_BYTES + xml.len()).await?;
    let (chat, _, _) = flow.state();
    let inbox = to.inbox(chat.settings.home, id);
    if chat.people.blocks(by, to) {
        return Err(ChatFault::Blocked);
    }
    let home = chat.settings.shard_at(inbox);
    let handed = Box::new(StanzaHanded { from, to: inbox, device, xml });
    flow.request(home, PeerRequest::Stanza(handed)).await.map(|_| ())
}

impl Chat {
    /// Sends a device's stanza to devices of an account here.
    pub(crate) fn hand_to(
        &mut self,
        now: Now,
        from: ConnRef,
        handing: HandingTo,
        fx: &mut Effects,
    ) {
        let HandingTo { session, number, to, device, xml, directed, .. } = handing;
        let Some(key) = self.sessions.bound(from, session) else { return };
        let Some(asker) = self.asker(from, session) else { return };
        let wait = Requester { conn: from, session, number };
        let to = to.within(asker.address.domain());
        if xml.starts_with(b"<message") && self.mutes.until(now, &asker.address) > 0 {
            return self.answer_handed(wait, Err(ChatFault::Silenced), fx);
        }
        if to.is_group() || to.is_chatroom() || self.settings.is_foreign(&to) {
            return self.answer_handed(wait, Err(ChatFault::UnknownAccount), fx);
        }
        if let Some(directed) = directed {
            let whom = DirectedTo::Here(to.clone(), device.clone());
            let farewell = match directed {
                DirectedPresence::There(farewell) => Some(Some(farewell)),
                DirectedPresence::Gone => None,
            };
            self.directed_to((key, &asker), whom, farewell, fx);
        }
        let Asker { inbox: by, address: from, .. } = asker;
        self.hands(to, Handing { wait, from, by, device, xml }, fx);
    }

    fn hands(&mut self, to: AccountAddress, handing: Handing, fx: &mut Effects) {
        let wait = handing.wait;
        if !self.begin(|flow| hand(flow, to, handing)) {
            self.answer_handed(wait, Err(ChatFault::Busy), fx);
        }
    }

    /// Handles a stanza from a flow of some shard, for devices of an account of this one. One for
    /// all devices waits until presences that came before it are known.
    pub(crate) fn stanza_handed(
        &mut self,
        now: Now,
        to: ReplyTo,
        handed: Box<StanzaHanded>,
        fx: &mut Effects,
    ) {
        let inbox = handed.to;
        match handed.device.is_none().then(|| self.people.waiting_at(inbox)).flatten() {
            Some(address) => {
                self.for_person(now, (inbox, &address), Task::Stanza(to, handed), fx);
            }
            None => self.hand_here(to, &handed, fx),
        }
    }

    /// Delivers a stanza of another device, and answers its sender.
    pub(super) fn hand_here(&mut self, to: ReplyTo, handed: &StanzaHanded, fx: &mut Effects) {
        let StanzaHanded { from, to: inbox, device, xml } = handed;
        let reached = self.stanza_arrives(*inbox, (Some(from), device.as_deref()), xml, fx);
        let taken = reached.then_some(PeerReply::Done).ok_or(ChatFault::UnknownAccount);
        self.reply(to, taken, fx);
    }

    pub(crate) fn answer_handed(
        &mut self,
        wait: Requester,
        result: Result<(), ChatFault>,
        fx: &mut Effects,
    ) {
        if wait == Requester::NOBODY {
            return;
        }
        let Requester { conn, session, number } = wait;
        let answer = match result {
            Ok(()) => ChatDelivery::Done { number },
            Err(why) => ChatDelivery::Failed { number, why },
        };
        self.answer_session((conn, session), answer, fx);
    }

    /// Delivers a stanza to devices of an account of this shard. Returns whether a device accepts
    /// it.
    pub(crate) fn stanza_arrives(
        &mut self,
        inbox: TimelineId,
        (from, device): (Option<&AccountAddress>, Option<&str>),
        xml: &Arc<[u8]>,
        fx: &mut Effects,
    ) -> bool {
        if from.is_some_and(|from| self.people.blocks(inbox, from)) {
            fx.counters.count(ChatCounter::BlockedSends);
            return false;
        }
        // RFC 6121 8.5.2.1.1: a message to the bare address is for devices with a priority that is
        // not negative.
        let least = if xml.starts_with(b"<message") { 0 } else { i8::MIN };
        let all = self.sessions.online.get(&inbox).map_or(&[][..], |online| &online.sessions);
        let is_meant = |key: &&Key| match device {
            Some(device) => self.sessions.slab.at(**key).is_some_and(|it| *it.device == *device),
            None => self.people.is_present(inbox, **key, least),
        };
        let takers = all.iter().filter(is_meant).filter_map(|key| self.sessions.slab.at(*key));
        // Devices of other protocols cannot receive stanzas.
        let conns: Vec<ConnRef> = takers.filter(|it| it.binds).map(|it| it.conn).collect();
        if xml.is_empty() {
            return !conns.is_empty();
        }
        let delivery = || ChatDelivery::Stanza(xml.clone());
        fx.deliveries.extend(conns.iter().map(|conn| (*conn, delivery())));
        !conns.is_empty()
    }

    /// Records a session's directed presence to a receiver, with its farewell; none: the presence
    /// is unavailable. Beyond the limit the oldest receivers get their farewells at once.
    pub(super) fn directed_to(
        &mut self,
        (key, asker): (Key, &Asker),
        whom: DirectedTo,
        farewell: Option<Farewell>,
        fx: &mut Effects,
    ) {
        let most = usize::from(self.settings.limits.chat.directed_a_session_max);
        let told = self.directed.entry(key).or_default();
        told.retain(|(other, _)| *other != whom);
        if let Some(farewell) = farewell {
            told.push_back((whom, farewell));
        }
        let passed = told.len().saturating_sub(most);
        let passed: Vec<_> = told.drain(..passed).collect();
        if told.is_empty() {
            self.directed.remove(&key);
        }
        for it in passed {
            self.says_farewell((&asker.address, asker.inbox, &asker.device), it, fx);
        }
    }

    /// Sends the farewells of a session that goes offline to the receivers of its directed presence
    /// (RFC 6121 4.6.3).
    pub(crate) fn takes_back_directed(
        &mut self,
        key: Key,
        (inbox, device): (TimelineId, &str),
        fx: &mut Effects,
    ) {
        let Some(told) = self.directed.remove(&key) else { return };
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        let address = online.address.clone();
        for it in told {
            self.says_farewell((&address, inbox, device), it, fx);
        }
    }

    /// Sends the farewells of the account's devices to receivers of directed presence at a domain
    /// that is blocked.
    pub(super) fn parts_from_domain(&mut self, inbox: TimelineId, domain: &str, fx: &mut Effects) {
        let Some(online) = self.sessions.online.get(&inbox) else { return };
        let (address, sessions) = (online.address.clone(), online.sessions.clone());
        let is_of_it = |(whom, _): &(DirectedTo, Farewell)| match whom {
            DirectedTo::Elsewhere(_, of) => **of == *domain,
            DirectedTo::Here(..) => false,
        };
        for key in sessions {
            let Some(session) = self.sessions.slab.at(key) else { continue };
            let (device, told) = (session.device.clone(), self.directed.remove(&key));
            let told = told.into_iter().flatten();
            let (parted, left): (VecDeque<_>, VecDeque<_>) = told.partition(is_of_it);
            if !left.is_empty() {
                self.directed.insert(key, left);
            }
            for it in parted {
                self.says_farewell((&address, inbox, &device), it, fx);
            }
        }
    }

    fn says_farewell(
        &mut self,
        (from, by, device): (&AccountAddress, TimelineId, &str),
        (whom, farewell): (DirectedTo, Farewell),
        fx: &mut Effects,
    ) {
        match (whom, farewell) {
            (DirectedTo::Elsewhere(to, domain), _) => {
                let (from, device) = (from.clone(), device.into());
                fx.foreign.push(ForeignWord::Gone { from, device, to, domain });
            }
            (DirectedTo::Here(to, device), Some(xml)) => {
                let (wait, from) = (Requester::NOBODY, from.clone());
                self.people.farewells.push((to, Handing { wait, from, by, device, xml }));
            }
            (DirectedTo::Here(..), None) => {}
        }
    }

    /// Sends the queued farewells.
    pub(super) fn turn_stanzas(&mut self, fx: &mut Effects) {
        for (to, handing) in std::mem::take(&mut self.people.farewells) {
            self.hands(to, handing, fx);
        }
    }
}
