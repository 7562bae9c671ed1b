//! Questions of people of other domains about what accounts here publish: vCards, avatars, nodes
//! (XEP-0163 6, 0054, 0084).
//!
//! A foreign account is answered as one of ours that the account does not have among its contacts,
//! or has. Nothing is changed from elsewhere, and nobody subscribes: notifications go to contacts.
//! Invariant: each question is answered once.

use super::{Want, Wanted, gets, is_of_nodes, put_refusal, render};
use crate::stanza::{StanzaReply, kind};
use crate::xml::scan::Element;
use model::chat::{NodesAnswer, NodesAsk};

/// A question of somebody elsewhere that is with the service.
pub struct NodesQuestion(Want);

impl NodesQuestion {
    /// The question in a stanza, and the request to the service; `None`: the stanza asks nothing of
    /// nodes that other domains may ask.
    pub fn of(iq: &Element<'_, '_>) -> Option<(NodesQuestion, NodesAsk)> {
        let mut children = iq.children();
        let (asked, None) = (children.next()?, children.next()) else { return None };
        if *kind(iq) != *"get" || !is_of_nodes(&asked) {
            return None;
        }
        let wanted: Wanted = gets(&asked, false);
        let (want, ask) = wanted.ok()?;
        let may = matches!(
            ask,
            NodesAsk::Items(_) | NodesAsk::Names | NodesAsk::Node(_) | NodesAsk::LastThere
        );
        may.then_some((NodesQuestion(want), ask))
    }

    /// The answer, as a stanza.
    pub fn answer(self, answer: NodesAnswer, iq: &Element<'_, '_>) -> Vec<u8> {
        let (from, to, id) = (iq.attribute("from"), iq.attribute("to"), iq.attribute("id"));
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let reply = StanzaReply { name: "iq", from: Some(&to), to: &from, id: id.as_deref() };
        let mut out = Vec::new();
        let answered =
            answer.result.and_then(|found| render::answer(&self.0, found, (&from, Some(&to))));
        match answered {
            Ok(inner) => reply.result(&inner, &mut out),
            Err(fault) => {
                let fault = self.0.refusal(fault);
                let is_disco = matches!(self.0, Want::Account | Want::Names);
                put_refusal((&reply, &crate::server::echo(iq)), (fault, is_disco), &mut out);
            }
        }
        out
    }
}

impl std::fmt::Debug for NodesQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodesQuestion(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;
    use model::chat::{NodesFault, NodesFound};

    fn asked(kind: &str, inner: &str) -> Option<(NodesQuestion, NodesAsk)> {
        let iq = format!(
            "<iq type='{kind}' id='1' from='bob@b.example/x' to='ann@a.example'>{inner}</iq>"
        );
        NodesQuestion::of(&Scan::element(iq.as_bytes()).expect("XML").root())
    }

    const VCARD: &str = "<vCard xmlns='vcard-temp'/>";

    #[test]
    fn what_is_read_may_be_asked_from_elsewhere_and_nothing_else() {
        let items = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='x'/></pubsub>";
        let all = [
            VCARD,
            items,
            "<query xmlns='http://jabber.org/protocol/disco#info'/>",
            "<query xmlns='http://jabber.org/protocol/disco#items' node='x'/>",
            "<query xmlns='jabber:iq:last'/>",
        ];
        assert!(all.iter().all(|inner| asked("get", inner).is_some()));
        assert!(all.iter().all(|inner| asked("set", inner).is_none()));
        for inner in [
            "",
            "<ping xmlns='urn:xmpp:ping'/>",
            "<query xmlns='jabber:iq:private'><x xmlns='y'/></query>",
            "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
             <configure node='x'/></pubsub>",
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'><subscriptions/></pubsub>",
            "<vCard xmlns='vcard-temp'/><vCard xmlns='vcard-temp'/>",
        ] {
            assert!(asked("get", inner).is_none(), "{inner}");
        }
    }

    #[test]
    fn it_is_answered_with_its_id_or_refused() {
        let iq =
            format!("<iq type='get' id='7' from='bob@b.example/x' to='ann@a.example'>{VCARD}</iq>");
        let scan = Scan::element(iq.as_bytes()).expect("XML");
        let answer = |result| {
            let (question, _) = NodesQuestion::of(&scan.root()).expect("a question");
            let answer = question.answer(NodesAnswer { number: 0, result }, &scan.root());
            String::from_utf8(answer).expect("UTF-8")
        };
        let refused = answer(Err(NodesFault::NotSubscribed));
        assert!(refused.contains("type='error'") && refused.contains("id='7'"), "{refused}");
        assert!(refused.contains("presence-subscription-required"), "{refused}");
        assert!(refused.contains("to='bob@b.example/x'"), "{refused}");
        let strange = answer(Ok(NodesFound::Names([].into())));
        assert!(strange.contains("type='error'"), "{strange}");
    }
}
