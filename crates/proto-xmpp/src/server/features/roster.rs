//! Rosters (RFC 6121 2): asked for, changed, and what changes told to each resource that has asked;
//! by versions (2.6), with pre-approval (3.4).

use super::{Asking, What, wish};
use crate::fault::StanzaFault;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::chat::{Contact, ContactList, ContactOrder, Half, PeopleAsk};

const ROSTER: &str = "jabber:iq:roster";

pub(in crate::server) const FEATURE: Feature = Feature {
    questions: &[Questions { own_sets: &["query"], ..Questions::of_devices(ROSTER, answer) }],
    ..Feature::NONE
};

type Wanted = (What, Vec<PeopleAsk>);

fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    question.for_account()?;
    let wanted = match (question.asked.name(), question.is_set) {
        ("query", false) => Ok(session.wants_roster(question.asked)),
        ("query", true) => session.sets_item(question.asked),
        _ => return Err(StanzaFault::ServiceUnavailable),
    };
    session.asks_people(wanted, question, out)
}

impl Session {
    /// The roster is wanted, or what of it is newer than what the client has.
    fn wants_roster(&mut self, query: &Element<'_, '_>) -> Wanted {
        let version = query.attribute("ver");
        let after = version.as_deref().and_then(|version| version.parse().ok());
        self.set(Session::FOLLOWS, true);
        (What::Roster(version.is_some()), vec![PeopleAsk::Contacts { after }])
    }

    /// An item is added, changed or removed (2.3, 2.4, 2.5).
    fn sets_item(&self, query: &Element<'_, '_>) -> Result<Wanted, StanzaFault> {
        let mut items = query.children();
        let (Some(item), None) = (items.next(), items.next()) else {
            return Err(StanzaFault::BadRequest);
        };
        if !item.is("item", ROSTER) {
            return Err(StanzaFault::BadRequest);
        }
        let contact = self.contact_of(item.attribute("jid").as_deref())?;
        if contact.as_str() == self.account() {
            return Err(StanzaFault::NotAllowed);
        }
        let order = if item.attribute("subscription").as_deref() == Some("remove") {
            ContactOrder::Remove
        } else {
            let groups = item.children().filter(|child| child.is("group", ROSTER));
            let groups: Vec<Box<str>> = groups.map(|group| group.text().into()).collect();
            let is_twice = |at: usize| groups[..at].contains(&groups[at]);
            if (0..groups.len()).any(is_twice) {
                return Err(StanzaFault::BadRequest);
            }
            if groups.iter().any(|group| group.is_empty()) {
                return Err(StanzaFault::NotAcceptable);
            }
            let name = item.attribute("name").unwrap_or_default().into();
            ContactOrder::Set { name, groups: groups.into() }
        };
        Ok((What::Order, vec![wish(contact, order)]))
    }

    /// The roster as it is; or nothing, and then each item that changed (2.6.3).
    pub(super) fn write_roster(
        &mut self,
        asking: &Asking,
        (list, is_versioned): (&ContactList, bool),
        out: &mut Out,
    ) {
        if !list.is_whole {
            self.answer_asking(asking, "", out);
            for contact in &list.contacts {
                self.push_item(contact, contact.version, out);
            }
            return;
        }
        let items = list.contacts.iter().filter(|contact| contact.is_listed);
        let items: String = items.map(|contact| item(contact)).collect();
        let version = match is_versioned {
            true => format!(" ver='{}'", list.version),
            false => String::new(),
        };
        let query = format!("<query xmlns='{ROSTER}'{version}>{items}</query>");
        self.answer_asking(asking, &query, out);
    }

    /// An item has changed.
    pub(super) fn push_item(&mut self, contact: &Contact, version: u64, out: &mut Out) {
        let item = item(contact);
        self.push(&format!("<query xmlns='{ROSTER}' ver='{version}'>{item}</query>"), out);
    }
}

/// An item of a roster (2.1.2).
fn item(contact: &Contact) -> String {
    let jid = escaped(contact.address.jid());
    if !contact.is_listed {
        return format!("<item jid='{jid}' subscription='remove'/>");
    }
    let subscription = contact.subscription;
    let mut out = format!("<item jid='{jid}' subscription='{}'", subscription.word());
    if !contact.name.is_empty() {
        out.push_str(&format!(" name='{}'", escaped(&contact.name)));
    }
    if subscription.to == Half::Pending {
        out.push_str(" ask='subscribe'");
    }
    if subscription.approved {
        out.push_str(" approved='true'");
    }
    out.push('>');
    for group in &contact.groups {
        out.push_str(&format!("<group>{}</group>", escaped(group)));
    }
    out.push_str("</item>");
    out
}
