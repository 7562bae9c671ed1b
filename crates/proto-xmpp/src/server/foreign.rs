//! Stanzas of a device for other domains, and theirs for it.
//!
//! A message to an account of another domain is stored like any other; subscription requests and
//! presence for such accounts are the service's. All other stanzas are handed on as they are:
//! questions and their answers, messages in rooms elsewhere, chat states, presence for addresses
//! that are no contacts. This module does not know whether the other side exists: an error comes as
//! an answer does. Invariant: a stanza that is handed on names its sender.

use super::Out;
use super::features::write_blocked_fault;
use super::iq::DISCO_ITEMS;
use super::session::Session;
use crate::archive::MAM;
use crate::jid::{self, Jid};
use crate::render::{self, MUC_USER};
use crate::stanza::{StanzaReply, kind};
use crate::xml::scan::{Element, Scan};
use model::account::AccountAddress;
use model::chat::foreign::ForeignStanza;
use model::chat::{ChatRequest, HandingOn};
use model::counters::ChatCounter;

/// Archives elsewhere that a device has asked and that have not answered. With one more the first
/// is forgotten: what else comes of it is left out.
const ARCHIVES_ELSEWHERE_MAX: usize = 16;

impl Session {
    /// The domain of an address, if somebody else may serve that.
    pub(super) fn foreign_domain(&self, to: Option<&str>) -> Option<Box<str>> {
        let domain = jid::domain_of(to.filter(|_| self.federates())?)?;
        let is_ours = self.domains().is_some_and(|domains| domains.is_ours(&domain));
        (!is_ours).then_some(domain)
    }

    /// A message for another domain that is not stored is handed on. False: it is to be stored, or
    /// for nobody else.
    pub(super) fn says_elsewhere(&mut self, message: &Element<'_, '_>, out: &mut Out) -> bool {
        let to = message.attribute("to");
        let Some(domain) = self.foreign_domain(to.as_deref()) else { return false };
        let jid = to.as_deref().and_then(Jid::parse);
        let is_private = jid.as_ref().is_some_and(|jid| jid.resource.is_some())
            && message.child("x", MUC_USER).is_some();
        let has_account = jid.as_ref().is_some_and(|jid| jid.account.is_some());
        let is_passing = matches!(&*kind(message), "groupchat" | "headline" | "error");
        let is_stored = has_account && !is_passing && !is_private;
        // A receipt is handed on even if it asks to be stored: it says nothing that is kept here.
        let with = jid.and_then(|jid| jid.account).filter(|_| is_stored);
        let is_receipt = with.is_some_and(|with| self.says_receipt(&with, message, out));
        if is_stored && !is_receipt && render::said(message).is_some() {
            return false;
        }
        self.hands_on(message, (domain, None), out);
        true
    }

    /// Presence for somebody in particular at another domain is handed on. False: it is for nobody
    /// there, or says something of a subscription.
    pub(super) fn tells_elsewhere(&mut self, presence: &Element<'_, '_>, out: &mut Out) -> bool {
        let (to, kind) = (presence.attribute("to"), kind(presence));
        let domain = self.foreign_domain(to.as_deref());
        let Some(domain) = domain.filter(|_| matches!(&*kind, "" | "unavailable" | "error")) else {
            return false;
        };
        let whom = to.as_deref().filter(|_| *kind != *"error");
        let directed = whom.map(|whom| (whom.into(), kind.is_empty()));
        self.hands_on(presence, (domain, directed), out);
        true
    }

    /// A question, of which this is asked, or an answer is handed on if it is for another domain;
    /// and the question of which services there are: whoever knows the other domains knows those
    /// of this one, too. False: it is neither.
    pub(super) fn asks_elsewhere(
        &mut self,
        iq: &Element<'_, '_>,
        asked: Option<&Element<'_, '_>>,
        out: &mut Out,
    ) -> bool {
        let to = iq.attribute("to");
        let lists_services = asked.is_some_and(|asked| {
            asked.is("query", DISCO_ITEMS) && asked.attribute("node").is_none()
        });
        let own = to.as_deref().and_then(jid::domain).filter(|to| self.is_here(to));
        let own = own.filter(|_| self.federates() && lists_services);
        let Some(domain) = self.foreign_domain(to.as_deref()).or(own) else { return false };
        if asked.is_some_and(|asked| asked.is("query", MAM)) {
            self.asks_archive_elsewhere(to.as_deref().unwrap_or_default());
        }
        self.hands_on(iq, (domain, None), out);
        true
    }

    /// Hands a stanza on to a domain; presence says whom it tells what.
    pub(super) fn hands_on(
        &mut self,
        stanza: &Element<'_, '_>,
        (domain, directed): (Box<str>, Option<(Box<str>, bool)>),
        out: &mut Out,
    ) {
        let is_message = stanza.name() == "message";
        let is_passed_on =
            |child: &Element<'_, '_>| !is_message || !render::is_of_own_server(child);
        let xml = render::passed_on(stanza, Some(self.jid()), is_passed_on).into();
        let (id, name) = (stanza.attribute("id"), stanza.attribute("to"));
        let is_answered = match (stanza.name(), &*kind(stanza)) {
            ("iq", kind) => matches!(kind, "get" | "set"),
            ("message", kind) => kind != "error",
            _ => false,
        };
        let refusal = is_answered.then(|| {
            let from = name.as_deref();
            let (name, to, id) = (stanza.name(), self.jid(), id.as_deref());
            let mut refusal = Vec::new();
            write_blocked_fault(&StanzaReply { name, from, to, id }, &mut refusal);
            refusal.into()
        });
        // An account that has no place here is blocked by its domain alone.
        let to = name.as_deref().and_then(Jid::parse).and_then(|jid| jid.account);
        let to = to.or_else(|| AccountAddress::of_domain(&domain));
        let stanza = ForeignStanza { domain, xml };
        let session = self.session;
        let handing = HandingOn { session, to, stanza, directed, refusal };
        out.say(ChatRequest::HandOn(Box::new(handing)));
    }

    /// A stanza from another domain, or of another device here. Results of an archive are shown of
    /// one that the device has asked; of others they are left out.
    pub(super) fn hears_from_elsewhere(&mut self, xml: &[u8], out: &mut Out) {
        let is_result = |child: &Element<'_, '_>| child.is("result", MAM);
        if let Ok(scan) = Scan::element(xml)
            && self.hears_carbon(&scan.root(), out)
        {
            return;
        }
        if let Ok(scan) = Scan::element(xml)
            && let root = scan.root()
            && !self.has_asked_archive(&root)
            && root.children().any(|child| is_result(&child))
        {
            if root.children().all(|child| is_result(&child)) {
                return out.count(ChatCounter::Invalid);
            }
            let rest = render::passed_on(&root, None, |child| !is_result(child));
            out.bytes().extend_from_slice(&rest);
        } else {
            out.bytes().extend_from_slice(xml);
        }
        self.counts_sent(out);
    }

    /// A question to an archive elsewhere, such as that of a room, goes out.
    fn asks_archive_elsewhere(&mut self, to: &str) {
        let Some(archive) = Jid::parse(to).filter(|jid| jid.resource.is_none()) else { return };
        let asked = &mut self.busy().archives_elsewhere;
        if asked.len() >= ARCHIVES_ELSEWHERE_MAX {
            asked.pop_front();
        }
        asked.push_back(archive);
    }

    /// Whether a stanza is of an archive that was asked and has not answered; its answer ends that.
    fn has_asked_archive(&mut self, stanza: &Element<'_, '_>) -> bool {
        let Some(busy) = self.busy.as_mut().filter(|it| !it.archives_elsewhere.is_empty()) else {
            return false;
        };
        let from = stanza.attribute("from").and_then(|from| Jid::parse(&from));
        let asked = &mut busy.archives_elsewhere;
        let at = asked.iter().position(|archive| from.as_ref() == Some(archive));
        if stanza.name() == "iq" && matches!(&*kind(stanza), "result" | "error") {
            at.map(|at| asked.remove(at));
        }
        at.is_some()
    }
}
