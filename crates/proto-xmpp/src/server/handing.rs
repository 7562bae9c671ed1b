//! Stanzas of a device for devices of accounts here, which are kept nowhere: questions and
//! answers, headlines, errors, and presence for somebody in particular (RFC 6121 4.6, 8.5).
//!
//! The stanzas are handed over as they are, and count as unanswered until the service says whether
//! a device has them. Invariant: a stanza that is handed over names its sender.

use super::Out;
use super::feature::is_of_lists;
use super::messages::SentAs;
use super::session::Session;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render;
use crate::stanza::{StanzaReply, kind};
use crate::xml::scan::Element;
use model::account::Addressee;
use model::chat::{ChatRequest, DirectedPresence, HandingTo};
use std::sync::Arc;

/// Whether a question sets a roster or a block list: a device takes such a one for its own server's
/// word (RFC 6121 2.1.6, XEP-0191 3.5).
pub(crate) fn sets_own_lists(iq: &Element<'_, '_>) -> bool {
    kind(iq) == "set" && iq.children().any(|asked| is_of_lists(&asked))
}

impl Session {
    /// Hands a question or an answer to the device of an account here that it is for. False: it is
    /// for no device.
    pub(super) fn asks_device(
        &mut self,
        iq: &Element<'_, '_>,
        (to, sent_as): (&Jid, SentAs),
        out: &mut Out,
    ) -> bool {
        let is_device = to.resource.is_some() && self.is_of_account(to);
        if is_device && sets_own_lists(iq) {
            let (id, to) = (iq.attribute("id"), iq.attribute("to"));
            let about = (id.as_deref(), to.as_deref());
            self.refuse("iq", about, StanzaFault::ServiceUnavailable, out);
        } else if is_device {
            self.hands_to(iq, (to, sent_as), None, out);
        }
        is_device
    }

    /// Hands a message over that is no conversation: a headline, an error, or what a room says to
    /// one of its occupants. False: that it is not, or nobody here gets it.
    pub(super) fn says_at_once(
        &mut self,
        message: &Element<'_, '_>,
        to: &Jid,
        out: &mut Out,
    ) -> bool {
        let is_full = to.resource.is_some();
        let sent_as = match &*kind(message) {
            "headline" => SentAs::Quiet,
            "error" if is_full => SentAs::Quiet,
            "groupchat" if is_full => SentAs::Message,
            _ => return false,
        };
        let is_theirs = self.is_of_account(to);
        if is_theirs {
            self.hands_to(message, (to, sent_as), None, out);
        }
        is_theirs
    }

    /// Tells somebody here in particular whether the device is there. False: whom is no account
    /// here.
    pub(super) fn directs(&mut self, presence: &Element<'_, '_>, to: &Jid, out: &mut Out) -> bool {
        if !self.is_of_account(to) {
            return false;
        }
        let directed = match kind(presence).is_empty() {
            true => DirectedPresence::There(self.farewell(presence)),
            false => DirectedPresence::Gone,
        };
        self.hands_to(presence, (to, SentAs::Quiet), Some(directed), out);
        true
    }

    /// That the device is not there any more, for whoever a presence is for.
    fn farewell(&self, presence: &Element<'_, '_>) -> Arc<[u8]> {
        let to = presence.attribute("to").unwrap_or_default();
        let head = StanzaReply { name: "presence", from: Some(self.jid()), to: &to, id: None };
        let mut farewell = Vec::new();
        head.put("unavailable", "", &mut farewell);
        farewell.into()
    }

    fn is_of_account(&self, to: &Jid) -> bool {
        to.account.is_some() && self.is_here(&to.domain)
    }

    fn hands_to(
        &mut self,
        stanza: &Element<'_, '_>,
        (to, sent_as): (&Jid, SentAs),
        directed: Option<DirectedPresence>,
        out: &mut Out,
    ) {
        let Some(account) = to.account.clone() else { return };
        let is_message = stanza.name() == "message";
        let is_passed_on = |child: &Element<'_, '_>| !is_message || !render::is_forged(child);
        let xml = render::passed_on(stanza, Some(self.jid()), is_passed_on).into();
        let (id, name) = (stanza.attribute("id"), stanza.attribute("to"));
        let is_question = matches!(sent_as, SentAs::Iq);
        let number = self.unanswered((id.as_deref(), name.as_deref()), sent_as);
        let (session, device) = (self.session, to.resource.clone());
        let to = Addressee::from(account);
        let handing = HandingTo { session, number, to, device, xml, is_question, directed };
        out.say(ChatRequest::HandTo(Box::new(handing)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::harness::*;
    use model::chat::{ChatDelivery, ChatFault};

    fn handed(side: &mut Side, stanza: &str) -> HandingTo {
        assert_eq!(says(side, stanza), "", "{stanza}");
        let mut words = words(side);
        let (Some(ChatRequest::HandTo(handing)), None) = (words.pop(), words.pop()) else {
            panic!("{stanza}")
        };
        *handing
    }

    fn xml(handing: &HandingTo) -> &str {
        std::str::from_utf8(&handing.xml).expect("UTF-8")
    }

    #[test]
    fn a_question_goes_to_the_device_and_its_error_or_answer_comes_back() {
        let mut side = bound();
        let ask = "<iq type='get' id='7' to='bob@a.example/x'><ping xmlns='urn:xmpp:ping'/></iq>";
        let handing = handed(&mut side, ask);
        assert_eq!((handing.to.as_str(), handing.device.as_deref()), ("bob@a.example", Some("x")));
        let shown = "<iq type='get' id='7' to='bob@a.example/x' from='ann@a.example/desk'>\
            <ping xmlns='urn:xmpp:ping'/></iq>";
        assert_eq!(xml(&handing), shown);
        assert_eq!(told(&mut side, ChatDelivery::Done { number: handing.number }), "");
        for (why, condition) in [
            (ChatFault::UnknownAccount, "service-unavailable"),
            (ChatFault::Blocked, "not-acceptable"),
            (ChatFault::Busy, "resource-constraint"),
        ] {
            let number = handed(&mut side, ask).number;
            let said = told(&mut side, ChatDelivery::Failed { number, why });
            let is_it = said.starts_with("<iq type='error' id='7' from='bob@a.example/x'");
            assert!(is_it && said.contains(condition), "{said}");
        }
        // Of another domain of this server, and another device of one's own.
        for to in ["bob@m.example/x", "ann@a.example/phone"] {
            let handing = handed(&mut side, &ask.replace("bob@a.example/x", to));
            assert_eq!(format!("{}/{}", handing.to.as_str(), handing.device.expect("one")), to);
        }
    }

    #[test]
    fn what_is_an_answer_itself_or_for_whoever_is_there_is_not_answered() {
        let mut side = bound();
        for stanza in [
            "<iq type='result' id='7' to='bob@a.example/x'/>",
            "<iq type='error' id='7' to='bob@a.example/x'><error type='cancel'/></iq>",
            "<message type='headline' to='bob@a.example'><body>news</body></message>",
            "<message type='headline' to='bob@a.example/x'><body>news</body></message>",
            "<message type='error' to='bob@a.example/x'><error type='cancel'/></message>",
            "<presence to='bob@a.example'><show>away</show></presence>",
            "<presence type='unavailable' to='bob@a.example/x'/>",
        ] {
            let handing = handed(&mut side, stanza);
            let why = ChatFault::UnknownAccount;
            let failed = ChatDelivery::Failed { number: handing.number, why };
            assert_eq!(told(&mut side, failed), "", "{stanza}");
        }
        let forged = "<message type='headline' to='bob@a.example'><body>x</body>\
            <stanza-id xmlns='urn:xmpp:sid:0' id='1' by='bob@a.example'/></message>";
        assert!(!xml(&handed(&mut side, forged)).contains("stanza-id"));
    }

    #[test]
    fn presence_for_somebody_brings_what_is_shown_when_the_device_is_gone() {
        let mut side = available();
        side.take_words();
        let handing = handed(&mut side, "<presence to='bob@a.example/x'/>");
        let Some(DirectedPresence::There(farewell)) = handing.directed else { panic!("there") };
        assert_eq!(
            std::str::from_utf8(&farewell),
            Ok("<presence type='unavailable' from='ann@a.example/desk' to='bob@a.example/x'>\
                </presence>")
        );
        // Not even to oneself is it presence for everybody.
        for to in ["bob@a.example/x", "ann@a.example", "ann@a.example/desk"] {
            let stanza = format!("<presence type='unavailable' to='{to}'/>");
            let handing = handed(&mut side, &stanza);
            assert_eq!(handing.directed, Some(DirectedPresence::Gone), "{to}");
        }
    }

    #[test]
    fn no_more_is_read_than_may_be_unanswered() {
        let mut side = bound();
        let ask = "<iq type='get' id='7' to='bob@a.example/x'><q xmlns='y'/></iq>";
        says(&mut side, &ask.repeat(1_000));
        let most = usize::from(model::limits::ChatLimits::default().requests_a_session_max);
        assert_eq!(words(&mut side).len(), most);
    }
}
