//! Messages that are kept nowhere: chat states (XEP-0085), those without a text, and those whose
//! sender wants them so (XEP-0334 4.1).
//!
//! A chat state alone is one in the model's words; what else a stanza has goes along as it came.
//! Invariant: what asks to be stored, or is a text that does not ask for the opposite, is none.

use crate::render::{self, KeptStanza};
use crate::stanza::put_attribute;
use crate::xml::scan::{CLIENT, Element};
use model::chat::{ChatState, Content, Transient};

/// The namespace of chat states (XEP-0085 8).
const CHAT_STATES: &str = "http://jabber.org/protocol/chatstates";

/// The transient in a `message`; `None`: the message is stored, or is empty.
pub fn told(message: &Element<'_, '_>) -> Option<(Option<ChatState>, Content)> {
    let is_kept_not = message.child("no-store", render::HINTS).is_some();
    let has_body = message.child("body", CLIENT).is_some();
    // An invitation to a room (XEP-0249) waits as a text does.
    let is_said = has_body || message.child("x", render::CONFERENCE).is_some();
    if message.child("store", render::HINTS).is_some() || (is_said && !is_kept_not) {
        return None;
    }
    let state = message.children().find_map(|child| state_of(&child));
    let is_beside =
        |child: &Element<'_, '_>| state_of(child).is_none() && child.namespace() != render::HINTS;
    if !message.children().any(|child| is_beside(&child)) {
        return state.map(|state| (Some(state), Content::default()));
    }
    Some((state, render::stanza_of(message)))
}

fn state_of(child: &Element<'_, '_>) -> Option<ChatState> {
    let known = ChatState::ALL.iter().copied();
    known.filter(|_| child.namespace() == CHAT_STATES).find(|it| it.word() == child.name())
}

/// Recipient of a transient, and the address that it is shown to be from.
#[derive(Clone, Copy, Debug)]
pub struct TransientView<'a> {
    /// Sender, as the reader sees it.
    pub from: &'a str,
    /// The reader's full JID.
    pub to: &'a str,
    /// Whether it was said in a room.
    pub in_room: bool,
}

/// Appends a transient as a stanza. False: it says nothing that XMPP can show.
pub fn write(transient: &Transient, shown: TransientView<'_>, out: &mut Vec<u8>) -> bool {
    let Transient { state, content, .. } = transient;
    let kept = KeptStanza::of(content);
    if state.is_none() && !kept.says(content) {
        return false;
    }
    out.extend_from_slice(b"<message xmlns='jabber:client'");
    put_attribute("from", Some(shown.from), out);
    put_attribute("to", Some(shown.to), out);
    put_attribute("type", Some(if shown.in_room { "groupchat" } else { "chat" }), out);
    kept.put_own_attributes(out);
    out.push(b'>');
    kept.put_content(content, out);
    if let Some(state) = state.filter(|_| !kept.is_stanza()) {
        out.extend_from_slice(format!("<{} xmlns='{CHAT_STATES}'/>", state.word()).as_bytes());
    }
    out.extend_from_slice(b"</message>");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;
    use model::account::AccountAddress;

    fn read(inner: &str) -> Option<(Option<ChatState>, Content)> {
        let stanza = format!("<message xmlns='jabber:client' type='chat'>{inner}</message>");
        told(&Scan::element(stanza.as_bytes()).expect("right").root())
    }

    fn shown(state: Option<ChatState>, content: Content) -> Option<String> {
        let name = |name| AccountAddress::parse(name, "a.example").expect("right");
        let (from, to) = (name("ann"), name("bob"));
        let transient = Transient { from, device: "desk".into(), to, state, content };
        let mut out = Vec::new();
        let how =
            TransientView { from: "ann@a.example/desk", to: "bob@a.example/x", in_room: false };
        write(&transient, how, &mut out).then(|| String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn chat_states_are_words_of_the_model_and_come_back_as_such() {
        for &state in ChatState::ALL {
            let stanza = format!("<{} xmlns='{CHAT_STATES}'/>", state.word());
            assert_eq!(read(&stanza), Some((Some(state), Content::default())));
            let hinted = format!("{stanza}<no-store xmlns='urn:xmpp:hints'/>");
            assert_eq!(read(&hinted), Some((Some(state), Content::default())));
            let told = shown(Some(state), Content::default()).expect("it says something");
            assert!(told.contains(&stanza), "{told}");
        }
        assert_eq!(read(&format!("<dreaming xmlns='{CHAT_STATES}'/>")).expect("kept").0, None);
    }

    #[test]
    fn what_is_to_be_kept_is_no_transient_and_what_is_not_goes_along_as_it_came() {
        let state = format!("<active xmlns='{CHAT_STATES}'/>");
        assert_eq!(read(&format!("<body>hi</body>{state}")), None);
        assert_eq!(read("<x xmlns='y'/><store xmlns='urn:xmpp:hints'/>"), None);
        assert_eq!(read(""), None);
        assert_eq!(read("<no-store xmlns='urn:xmpp:hints'/>"), None);
        let (seen, content) =
            read(&format!("<body>hi</body>{state}<no-store xmlns='urn:xmpp:hints'/>")).expect("it");
        assert_eq!((seen, &*content.text), (Some(ChatState::Active), "hi"));
        let told = shown(seen, content).expect("it says something");
        assert!(told.contains("<body>hi</body>") && told.contains(&state), "{told}");
        assert_eq!(told.matches("<active").count(), 1, "{told}");
        let (_, beside) = read("<x xmlns='y'/>").expect("an application's own");
        assert!(shown(None, beside).expect("it says something").contains("<x xmlns='y'/>"));
        assert_eq!(shown(None, Content::default()), None);
        let strange = Content { kind: 1_000, extra: [1].into(), ..Content::default() };
        assert_eq!(shown(None, strange), None, "of another protocol's application");
    }
}
