//! Blocking (XEP-0191): accounts that are blocked, by their bare JIDs, and whole domains of others.
//!
//! Of the forms of section 4 those with a resource are none here: what is kept of a block is kept
//! of an account, and no part of one is let through.

use super::{Asking, What, reporting, wish};
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;
use crate::stanza::{STANZA_ERRORS, StanzaReply};
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::account::AccountAddress;
use model::chat::foreign::ForeignDomains;
use model::chat::{Contact, ContactList, ContactOrder, PeopleAsk};

const BLOCKING: &str = "urn:xmpp:blocking";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        191,
        ("Blocking Command", "1.3"),
        "accounts and whole domains; not single resources",
        "xmpp/test_people.py::test_nothing_passes_to_or_from_who_is_blocked",
    )],
    server: (&[BLOCKING], ""),
    questions: &[Questions {
        own_sets: &["block", "unblock"],
        ..Questions::of_devices(BLOCKING, answer)
    }],
    ..Feature::NONE
};

/// Accounts and domains that one stanza blocks or unblocks.
const ITEMS_MAX: usize = 64;

type Wanted = (What, Vec<PeopleAsk>);

fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    question.for_account()?;
    let wanted = match (question.asked.name(), question.is_set) {
        ("blocklist", false) => Ok(session.wants_blocked()),
        ("block" | "unblock", true) => session.blocks(question.asked),
        _ => return Err(StanzaFault::ServiceUnavailable),
    };
    session.asks_people(wanted, question, out)
}

/// Answers that a stanza is for an address that the account has blocked itself (XEP-0191 3.3).
pub(in crate::server) fn write_blocked_fault(reply: &StanzaReply<'_>, out: &mut Vec<u8>) {
    let condition = format!("<not-acceptable xmlns='{STANZA_ERRORS}'/>");
    let blocked = "<blocked xmlns='urn:xmpp:blocking:errors'/>";
    reply.put("error", &format!("<error type='cancel'>{condition}{blocked}</error>"), out);
}

impl Session {
    /// Asks for the block list (3.2); from now on the resource gets changes (3.3).
    fn wants_blocked(&mut self) -> Wanted {
        self.set(Session::BLOCKS, true);
        (What::Blocked, vec![PeopleAsk::Contacts { after: None }])
    }

    /// Accounts and domains are blocked (3.3) or unblocked (3.4); all of them, if none is named
    /// (3.5).
    fn blocks(&mut self, asked: &Element<'_, '_>) -> Result<Wanted, StanzaFault> {
        let is_block = asked.name() == "block";
        let items: Vec<_> = asked.children().filter(|item| item.is("item", BLOCKING)).collect();
        if items.is_empty() {
            return match is_block {
                true => Err(StanzaFault::BadRequest),
                false => Ok((What::UnblockAll, vec![PeopleAsk::Contacts { after: None }])),
            };
        }
        if items.len() > ITEMS_MAX {
            return Err(StanzaFault::PolicyViolation);
        }
        let mut asks = Vec::with_capacity(items.len());
        for item in items {
            let contact = self.blockable(item.attribute("jid").as_deref(), is_block)?;
            if is_block {
                asks.extend(reporting::report(&item, (&contact, self.account()))?);
            }
            let order = if is_block { ContactOrder::Block } else { ContactOrder::Unblock };
            asks.push(wish(contact, order));
        }
        Ok((What::Order, asks))
    }

    /// Account that an item names: an account, or a domain, which is not ours if it is to be
    /// blocked.
    fn blockable(&self, jid: Option<&str>, is_block: bool) -> Result<AccountAddress, StanzaFault> {
        let jid = jid.ok_or(StanzaFault::BadRequest)?;
        let Jid { account, domain, resource } = Jid::parse(jid).ok_or(StanzaFault::JidMalformed)?;
        if resource.is_some() {
            return Err(StanzaFault::FeatureNotImplemented);
        }
        if let Some(account) = account {
            let is_room = account.is_group() || account.is_chatroom();
            return (!is_room).then_some(account).ok_or(StanzaFault::ItemNotFound);
        }
        let is_ours = |it: &ForeignDomains| it.is_ours(&domain) && !it.is_component(&domain);
        if is_block && (self.is_here(&domain) || self.domains().is_some_and(is_ours)) {
            return Err(StanzaFault::NotAllowed);
        }
        AccountAddress::of_domain(&domain).ok_or(StanzaFault::JidMalformed)
    }

    pub(super) fn write_blocked(&mut self, asking: &Asking, list: &ContactList, out: &mut Out) {
        let blocked = list.contacts.iter().filter(|contact| contact.is_blocked);
        let items: String = blocked.map(|contact| item(contact)).collect();
        let inner = format!("<blocklist xmlns='{BLOCKING}'>{items}</blocklist>");
        self.answer_asking(asking, &inner, out);
    }

    pub(super) fn unblock_all(&mut self, asking: Asking, list: &ContactList, out: &mut Out) {
        let blocked = list.contacts.iter().filter(|contact| contact.is_blocked);
        let one = |contact: &std::sync::Arc<Contact>| {
            wish(contact.address.clone(), ContactOrder::Unblock)
        };
        let asks: Vec<PeopleAsk> = blocked.map(one).collect();
        if asks.is_empty() {
            return self.answer_asking(&asking, "", out);
        }
        let about = (asking.id.as_deref(), asking.to.as_deref());
        self.ask_people((What::Order, about), asks, out);
    }

    /// Sends a resource that has asked for the block list a change of it.
    pub(super) fn tell_block(&mut self, contact: &Contact, out: &mut Out) {
        if self.has(Session::BLOCKS) {
            let verb = if contact.is_blocked { "block" } else { "unblock" };
            let item = item(contact);
            self.push(&format!("<{verb} xmlns='{BLOCKING}'>{item}</{verb}>"), out);
        }
    }
}

fn item(contact: &Contact) -> String {
    format!("<item jid='{}'/>", escaped(contact.address.jid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;
    use crate::server::tests::people::{asked, bob, changed, list, wish};
    use model::chat::{ChatDelivery, ContactWish};
    use std::sync::Arc;

    #[test]
    fn a_whole_domain_of_others_is_blocked_and_unblocked() {
        let mut side = available();
        let block = |verb: &str, jid: &str| {
            let item = format!("<item jid='{jid}'/>");
            format!("<iq type='set' id='x'><{verb} xmlns='urn:xmpp:blocking'>{item}</{verb}></iq>")
        };
        let spam = AccountAddress::of_domain("spam.example").expect("right");
        let wanted = |order| {
            let wish = ContactWish { contact: spam.clone().into(), order };
            PeopleAsk::Wish(Box::new(wish))
        };
        for (verb, order) in [("block", ContactOrder::Block), ("unblock", ContactOrder::Unblock)] {
            says(&mut side, &block(verb, "Spam.example"));
            let (number, ask) = asked(&mut side).pop().expect("asked");
            assert_eq!(ask, wanted(order));
            assert!(
                told(&mut side, ChatDelivery::Done { number }).contains("type='result' id='x'")
            );
        }
        // What is ours by now may stand in the list.
        says(&mut side, &block("unblock", "a.example"));
        let (number, _) = asked(&mut side).pop().expect("asked");
        told(&mut side, ChatDelivery::Done { number });
        says(&mut side, "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
        let (number, _) = asked(&mut side).pop().expect("asked");
        let blocked = Arc::new(Contact { is_blocked: true, ..Contact::nobody(spam) });
        let said = told(&mut side, list(number, true, vec![blocked.clone()]));
        assert!(said.contains("<item jid='spam.example'/></blocklist>"), "{said}");
        let said = told(&mut side, changed(blocked, None, false));
        assert!(
            said.contains("<block xmlns='urn:xmpp:blocking'><item jid='spam.example'/></block>")
        );
    }

    #[test]
    fn accounts_are_blocked_and_unblocked_and_whoever_asked_hears_of_it() {
        let mut side = available();
        let block = |verb: &str, inner: &str| {
            format!("<iq type='set' id='x'><{verb} xmlns='urn:xmpp:blocking'>{inner}</{verb}></iq>")
        };
        let two = "<item jid='bob@a.example'/><item jid='eve@a.example'/>";
        says(&mut side, &block("block", two));
        let both = asked(&mut side);
        assert_eq!(both.len(), 2);
        assert_eq!(
            told(&mut side, ChatDelivery::Done { number: both[0].0 }),
            "",
            "one is not done"
        );
        let done = told(&mut side, ChatDelivery::Done { number: both[1].0 });
        assert_eq!(done, "<iq type='result' id='x' to='ann@a.example/desk'></iq>");
        says(&mut side, "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
        let (number, _) = asked(&mut side).pop().expect("asked");
        let blocked = bob(|it| it.is_blocked = true);
        let said = told(&mut side, list(number, true, vec![blocked.clone(), bob(|_| {})]));
        assert!(
            said.contains("<blocklist xmlns='urn:xmpp:blocking'><item jid='bob@a.example'/></")
        );
        let said = told(&mut side, changed(blocked.clone(), None, false));
        assert!(
            said.contains("<block xmlns='urn:xmpp:blocking'><item jid='bob@a.example'/></block>")
        );
        let named = bob(|it| it.name = "Bob".into());
        let said = told(&mut side, changed(named, None, true));
        assert!(!said.contains("urn:xmpp:blocking"), "{said}");
        says(&mut side, &block("unblock", ""));
        let (number, _) = asked(&mut side).pop().expect("asked");
        assert_eq!(told(&mut side, list(number, true, vec![blocked])), "");
        let (number, order) = wish(&mut side);
        assert_eq!(order, ContactOrder::Unblock);
        assert!(told(&mut side, ChatDelivery::Done { number }).contains("type='result' id='x'"));
        assert!(says(&mut side, &block("block", "")).contains("bad-request"));
        // Section 4: what is of one resource is refused, and what is left of a stanza is not done.
        for (items, fault) in [
            (
                "<item jid='bob@a.example'/><item jid='bob@a.example/desk'/>",
                "feature-not-implemented",
            ),
            ("<item jid='b.example/x'/>", "feature-not-implemented"),
            ("<item jid='x@conference.a.example'/>", "item-not-found"),
            ("<item jid='x@live.a.example'/>", "item-not-found"),
            ("<item jid='a.example'/>", "not-allowed"),
            ("<item jid='@'/>", "jid-malformed"),
            ("<item/>", "bad-request"),
        ] {
            let said = says(&mut side, &block("block", items));
            assert!(said.contains(fault), "{items}: {said}");
            assert_eq!(asked(&mut side), [], "{items}");
        }
        let many = "<item jid='bob@a.example'/>".repeat(65);
        assert!(says(&mut side, &block("block", &many)).contains("policy-violation"));
    }
}
