//! Extensions of which each has a file of its own, and people: rosters, subscriptions, presence.
//!
//! A request to the service is remembered by number until it is answered: its stanza, and the kind
//! of its answer. Nothing of a roster is kept here. Invariant: each request is answered once, with
//! its id.

pub(super) mod accounts;
pub(super) mod advertised;
pub(super) mod blocking;
pub(super) mod capabilities;
pub(super) mod carbons;
pub(super) mod disco;
pub(super) mod ping;
mod presence;
pub(super) mod push;
pub(super) mod reporting;
pub(super) mod roster;
pub(super) mod services;
pub(super) mod time;
pub(super) mod uploads;
pub(super) mod version;

pub use advertised::{Advertised, ServerContact};
pub(super) use blocking::write_blocked_fault;
pub(super) use presence::says;
pub(crate) use presence::{
    greeting, put_greeting, put_presence, put_show, read_availability, read_show,
};
pub use services::{ExternalService, ServiceCredentials};
pub(super) use uploads::Uploading;

use super::Out;
use super::feature::{Answer, Question};
use super::session::Session;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::stanza::StanzaReply;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatFault, ChatRequest, ContactChange, ContactList, ContactOrder, ContactWish, PeopleAsk,
    PeopleRequest,
};

/// A question of people that is with the service.
pub(super) struct Asking {
    /// The numbers of what was asked: so many from here on, of which so many are not answered.
    first: u32,
    count: u32,
    left: u32,
    what: What,
    id: Option<Box<str>>,
    to: Option<Box<str>>,
    /// Which stanza it is of those that are acknowledged, if nothing says that it is done.
    place: Option<u32>,
    /// Why something of it was not done.
    fault: Option<ChatFault>,
}

/// Form of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The roster; whether the client knows versions.
    Roster(bool),
    /// A question that is answered by "done".
    Order,
    /// The block list.
    Blocked,
    /// All who are blocked are to be so no longer.
    UnblockAll,
    /// Presence: answered only if it is refused.
    Presence,
}

impl Asking {
    /// Whether it changes what stanzas behind it may depend on.
    pub(super) const fn changes(&self) -> bool {
        matches!(self.what, What::Order | What::UnblockAll)
    }

    pub(super) const fn place(&self) -> Option<u32> {
        self.place
    }

    fn has(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.count
    }
}

impl Session {
    /// The service is asked this many questions, to which one answer is due: the first number.
    fn asks(&mut self, (what, (id, to)): (What, (Option<&str>, Option<&str>)), count: u32) -> u32 {
        let first = self.numbers(count);
        let [id, to] = [id, to].map(|text| text.map(Box::from));
        let place = self.received().filter(|_| what == What::Presence);
        let asking = Asking { first, count, left: count, what, id, to, place, fault: None };
        self.busy().asks.push(asking);
        first
    }

    /// Asks the service about people; one answer is due for all of it.
    fn ask_people(
        &mut self,
        (what, about): (What, (Option<&str>, Option<&str>)),
        asks: Vec<PeopleAsk>,
        out: &mut Out,
    ) {
        let first = self.asks((what, about), asks.len() as u32);
        for (at, ask) in (0..).zip(asks) {
            let (session, number) = (self.session, first.wrapping_add(at));
            out.say(ChatRequest::People(Box::new(PeopleRequest { session, number, ask })));
        }
    }

    /// Asks the service what was wanted of people, unless it is refused.
    fn asks_people(
        &mut self,
        wanted: Result<(What, Vec<PeopleAsk>), StanzaFault>,
        question: &Question<'_, '_, '_>,
        out: &mut Out,
    ) -> Answer {
        let (what, asks) = wanted?;
        self.ask_people((what, question.about), asks, out);
        Ok(None)
    }

    /// The service has done something that was asked of people, or not. False: it was not that.
    pub(super) fn people_done(
        &mut self,
        number: u32,
        why: Option<ChatFault>,
        out: &mut Out,
    ) -> bool {
        let asks = &mut self.busy().asks;
        let Some(at) = asks.iter().position(|asking| asking.has(number)) else { return false };
        asks[at].left -= 1;
        asks[at].fault = asks[at].fault.or(why);
        if asks[at].left == 0 {
            let asking = asks.remove(at);
            self.answer_asking(&asking, "", out);
            self.pay_ack(out);
            self.releases(out);
        }
        true
    }

    /// Answers a question by this, unless it was refused.
    fn answer_asking(&mut self, asking: &Asking, inner: &str, out: &mut Out) {
        let about = (asking.id.as_deref(), asking.to.as_deref());
        let name = if asking.what == What::Presence { "presence" } else { "iq" };
        if let Some(why) = asking.fault {
            let jid = about.1.and_then(Jid::parse);
            let is_far = jid.is_some_and(|jid| !self.is_here(&jid.domain));
            return self.refuse(name, about, StanzaFault::of(why, is_far), out);
        }
        if asking.what != What::Presence {
            self.answers(about, inner, out);
        }
    }

    /// The contacts, or those that changed.
    pub(super) fn contacts(&mut self, list: &ContactList, out: &mut Out) {
        let asks = &mut self.busy().asks;
        let Some(at) = asks.iter().position(|asking| asking.has(list.number)) else { return };
        let asking = asks.remove(at);
        match asking.what {
            What::Roster(is_versioned) => self.write_roster(&asking, (list, is_versioned), out),
            What::Blocked => self.write_blocked(&asking, list, out),
            What::UnblockAll => self.unblock_all(asking, list, out),
            What::Order | What::Presence => self.answer_asking(&asking, "", out),
        }
        self.releases(out);
    }

    /// A contact has changed, or said something.
    pub(super) fn contact_changed(&mut self, change: &ContactChange, out: &mut Out) {
        if let Some(said) = change.said {
            self.write_said(&change.contact, said, out);
        }
        if change.is_news && self.has(Session::FOLLOWS) {
            self.push_item(&change.contact, change.contact.version, out);
        }
        if change.is_block_news {
            self.tell_block(&change.contact, out);
        }
    }

    /// Account that a contact's JID names: an account, not a device of it; or a domain that another
    /// server serves, such as that of a gateway.
    fn contact_of(&self, jid: Option<&str>) -> Result<AccountAddress, StanzaFault> {
        let domain = jid.and_then(Jid::parse).filter(|jid| jid.account.is_none());
        let is_foreign = |domain: &str| self.domains().is_some_and(|it| it.is_foreign(domain));
        let domain = domain.filter(|jid| is_foreign(&jid.domain));
        match domain.and_then(|jid| AccountAddress::of_domain(&jid.domain)) {
            Some(domain) if !domain.is_group() => Ok(domain),
            _ => account_of(jid),
        }
    }

    /// Writes a set of the server's own (RFC 6121 2.1.6); the answer does not matter.
    fn push(&mut self, inner: &str, out: &mut Out) {
        let id = format!("push{}", self.name_one());
        let reply = StanzaReply { name: "iq", from: None, to: self.jid(), id: Some(&id) };
        reply.put("set", inner, out.bytes());
        self.counts_sent(out);
    }
}

/// The account that a JID names, whichever device of it.
fn account_of(jid: Option<&str>) -> Result<AccountAddress, StanzaFault> {
    let jid = jid.ok_or(StanzaFault::BadRequest)?;
    let jid = Jid::parse(jid).ok_or(StanzaFault::JidMalformed)?;
    jid.account.filter(|account| !account.is_group()).ok_or(StanzaFault::ItemNotFound)
}

fn wish(contact: AccountAddress, order: ContactOrder) -> PeopleAsk {
    PeopleAsk::Wish(Box::new(ContactWish { contact: Addressee::from(contact), order }))
}
