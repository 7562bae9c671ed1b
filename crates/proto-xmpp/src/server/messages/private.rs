//! Messages for one device alone (XEP-0280 6, `<private/>`; XEP-0334 4.4, `<no-copy/>`).
//!
//! ```text
//! stanza to a full JID ─► is that device there? ─┬ yes ─► Send, which names the device
//!                                                └ no ──► Send, as to the bare JID
//! ```
//! It is stored as any message is, and stands in the archives of both. Invariant: of an account's
//! devices of XMPP none but the one that a message names is shown it as it comes; one for a device
//! that is not there is for all (RFC 6121 8.5.3.2.1).

use crate::jid::Jid;
use crate::render::{self, StanzaContent};
use crate::server::Out;
use crate::server::messages::SentAs;
use crate::server::session::Session;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatRequest, HandingTo, NewMessage};
use std::sync::Arc;

/// A message for one device, while it is asked whether that is there.
pub(in crate::server) struct Knock {
    number: u32,
    resource: Box<str>,
    message: Box<NewMessage>,
}

impl Knock {
    /// Approximate memory, bytes.
    pub(in crate::server) fn weight(&self) -> usize {
        size_of::<Knock>() + self.resource.len() + self.message.weight()
    }
}

/// The device of a person that a stanza is addressed to.
pub(super) fn resource_of(to: Option<&str>) -> Option<Box<str>> {
    let jid = Jid::parse(to?)?;
    let is_person = jid.account.is_some_and(|it| !it.is_group() && !it.is_chatroom());
    jid.resource.filter(|_| is_person)
}

impl Session {
    /// Sends a message to one device of an account, if that is online. Devices of other domains are
    /// known to their own server.
    pub(super) fn knocks(
        &mut self,
        now: Now,
        (account, about): (AccountAddress, (Option<&str>, Option<&str>)),
        (resource, said): (Box<str>, StanzaContent),
        out: &mut Out,
    ) {
        if !self.is_here(account.domain()) {
            let content = render::for_resource(said.content, &resource);
            return self.sends(now, (account, about), StanzaContent { content, ..said }, out);
        }
        let client_id = said.client_id.unwrap_or_else(|| self.made_up(now, out));
        let to = Addressee::from(account);
        let message = Box::new(NewMessage { to: to.clone(), client_id, content: said.content });
        let number = self.unanswered(about, SentAs::Message);
        let (session, device, xml) = (self.session, Some(resource.clone()), Arc::from([]));
        self.busy().knocks.push(Knock { number, resource, message });
        let (is_question, directed) = (false, None);
        let handing = HandingTo { session, number, to, device, xml, is_question, directed };
        out.say(ChatRequest::HandTo(Box::new(handing)));
    }

    /// Sends a message once it is known whether its device is there. False: no message waited for
    /// this answer.
    pub(super) fn knocked(&mut self, number: u32, is_there: bool, out: &mut Out) -> bool {
        let Some(busy) = &mut self.busy else { return false };
        let Some(at) = busy.knocks.iter().position(|knock| knock.number == number) else {
            return false;
        };
        let Knock { resource, mut message, .. } = busy.knocks.swap_remove(at);
        if is_there {
            let content = std::mem::take(&mut message.content);
            message.content = render::for_resource(content, &resource);
        }
        out.say(ChatRequest::Send { session: self.session, number, message });
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::server::tests::harness::*;
    use model::chat::{ChatDelivery, ChatFault, ChatRequest, Content, NewMessage};

    const PRIVATE: &str = "<private xmlns='urn:xmpp:carbons:2'/>";
    const NO_COPY: &str = "<no-copy xmlns='urn:xmpp:hints'/>";

    fn stanza(to: &str, hint: &str) -> String {
        format!("<message type='chat' id='7' to='{to}'><body>x</body>{hint}</message>")
    }

    /// The device that is asked for, and the number.
    fn asked_for(side: &mut Side) -> (u32, String) {
        match words(side).pop() {
            Some(ChatRequest::HandTo(it)) => {
                assert!(it.xml.is_empty(), "the device is told nothing");
                (it.number, format!("{}/{}", it.to.as_str(), it.device.unwrap_or_default()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(side: &mut Side) -> (u32, NewMessage) {
        match words(side).pop() {
            Some(ChatRequest::Send { number, message, .. }) => (number, *message),
            other => panic!("{other:?}"),
        }
    }

    fn text(content: &Content) -> String {
        String::from_utf8_lossy(&content.extra).into_owned()
    }

    #[test]
    fn what_is_private_names_its_device_if_that_is_there() {
        for hint in [PRIVATE, NO_COPY] {
            let mut side = bound();
            assert_eq!(says(&mut side, &stanza("bob@a.example/it&apos;s", hint)), "");
            let (number, device) = asked_for(&mut side);
            assert_eq!(device, "bob@a.example/it's");
            assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
            let (again, message) = sent(&mut side);
            assert_eq!(again, number);
            let kept = text(&message.content);
            assert!(kept.starts_with("<message id=\"7\" to='it&apos;s' type="), "{kept}");
            let failed = ChatDelivery::Failed { number, why: ChatFault::UnknownAccount };
            let error = told(&mut side, failed);
            assert!(error.contains("id='7'") && error.contains("service-unavailable"), "{error}");
        }
    }

    #[test]
    fn what_is_for_a_device_that_is_not_there_is_for_all() {
        let mut side = bound();
        says(&mut side, &stanza("bob@a.example/gone", PRIVATE));
        let (number, _) = asked_for(&mut side);
        let failed = ChatDelivery::Failed { number, why: ChatFault::UnknownDevice };
        assert_eq!(told(&mut side, failed), "", "nobody is told of an error");
        assert!(!text(&sent(&mut side).1.content).contains(" to="));
    }

    #[test]
    fn what_is_not_private_or_for_no_device_is_asked_of_nobody() {
        let mut side = bound();
        for (to, hint, named) in
            [("bob@a.example", PRIVATE, None), ("bob@a.example/x", "", Some("x"))]
        {
            says(&mut side, &stanza(to, hint));
            assert_eq!(sent(&mut side).1.content.resource(), named, "{to}");
        }
    }
}
