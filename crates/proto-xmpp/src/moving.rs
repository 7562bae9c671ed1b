//! Data that other servers have kept as XML, in the model's words, and the other way round.
//!
//! An import of accounts has no stream: stanzas are converted here, in the same way. Invariant:
//! what a stanza says is the same whether its client says it here or another server had kept it.

use crate::jid::Jid;
use crate::message::amend;
use crate::render::{self, KeptStanza};
use crate::server::moved;
use crate::stanza::{kind, put_attribute, timestamp};
use crate::xml::scan::Scan;
use model::account::AccountAddress;
use model::chat::{ChatMessage, ClientMessageId, Content, NodeChange, NodeItem};

pub use crate::moment::moment;

/// Why what amends a message is not taken over.
const AMENDS: &str = "it corrects, retracts or reacts to another message";

/// A message as another server had kept it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptMessage {
    /// Sender; absent: the owner of the archive.
    pub from: Option<(AccountAddress, Box<str>)>,
    /// Recipient; `None`: the owner of the archive.
    pub to: Option<AccountAddress>,
    /// The id that its sender gave it, whatever that is.
    pub id: Option<Box<str>>,
    /// The sender's id, if it is one by which a repeated message is recognised.
    pub client_id: Option<ClientMessageId>,
    /// Content of the message.
    pub content: Content,
}

/// Reads one. In words, why it is not taken over.
pub fn message(xml: &str) -> Result<KeptMessage, &'static str> {
    let scan = Scan::element(xml.as_bytes()).map_err(|_| "it is malformed")?;
    let message = scan.root();
    match &*kind(&message) {
        "groupchat" => return Err("a room message"),
        "error" | "headline" => return Err("it is an error or a headline"),
        _ => {}
    }
    let party = |name: &str| -> Result<_, &'static str> {
        let Some(text) = message.attribute(name) else { return Ok(None) };
        let jid = Jid::parse(&text).ok_or("it has an invalid address")?;
        let account = jid.account.ok_or("it is from or to a domain, not to an account")?;
        Ok(Some((account, jid.resource.unwrap_or_default())))
    };
    let (from, to) = (party("from")?, party("to")?.map(|(account, _)| account));
    if amend::said(&message).is_some() {
        return Err(AMENDS);
    }
    let said = render::said(&message).ok_or("it has no text")?;
    let id = message.attribute("id").map(|id| id.as_ref().into());
    let content = Content { mentions: None, ..said.content };
    Ok(KeptMessage { from, to, id, client_id: said.client_id, content })
}

/// The content of a message that was said in a room, and its original text. An error says in words
/// why it is not imported.
pub fn said_in_room(xml: &str) -> Result<(Content, String), &'static str> {
    let scan = Scan::element(xml.as_bytes()).map_err(|_| "it is malformed")?;
    let message = scan.root();
    if &*kind(&message) != "groupchat" {
        return Err("not a message to a whole room");
    }
    if amend::said(&message).is_some() {
        return Err(AMENDS);
    }
    let said = render::said(&message).ok_or("it has no text")?;
    let body = render::text_of(&message).map(|body| body.text().into_owned());
    let content = Content { mentions: None, ..said.content };
    Ok((content, body.unwrap_or_default()))
}

/// A vCard (XEP-0054), with its photo as the avatar; `None`: it is none.
pub fn vcard(xml: &str) -> Option<Vec<NodeChange>> {
    moved::vcard(xml)
}

/// An element of private storage (XEP-0049); `None`: it is none.
pub fn private(xml: &str) -> Option<Vec<NodeChange>> {
    moved::private(xml)
}

/// The badge that an account shows after an item of a node; `None`: the item sets none.
pub fn badge(node: &str, item: &NodeItem) -> Option<Box<str>> {
    moved::badge(node, item)
}

/// Whether a node of what is kept has an element of private storage.
pub fn is_private(node: &str) -> bool {
    moved::is_private(node)
}

/// Appends a message as a result of an archive (XEP-0227 4.8). False: it says nothing that XMPP can
/// show.
pub fn put_result(message: &ChatMessage, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    // The sender's id stays the same when the archive moves; the server's would not.
    let id = message.client_id.text();
    out.extend_from_slice(b"<result xmlns='urn:xmpp:mam:2'");
    put_attribute("id", Some(&id), out);
    let stamp = timestamp(message.at_ms);
    let head = format!(
        "><forwarded xmlns='{}'><delay xmlns='{}' stamp='{stamp}'/><message xmlns='jabber:client'",
        render::FORWARD,
        render::DELAY
    );
    out.extend_from_slice(head.as_bytes());
    let says = render::put_kept(message, &KeptStanza::of(&message.content), out);
    match says {
        true => out.extend_from_slice(b"</message></forwarded></result>"),
        false => out.truncate(begin),
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::chat::NodeSpace;

    const ID: &str = "0b9f6d3e-58d5-4d5e-9d1c-6f0a3c1f2b77";

    #[test]
    fn a_message_is_what_it_would_be_if_it_was_said_here() {
        let read = |inner: &str| {
            message(&format!(
                "<message xmlns='jabber:client' type='chat' id='{ID}' from='ann@a.example/desk' \
                 to='bob@a.example'>{inner}</message>"
            ))
        };
        let kept = read("<body>hi &amp; ho</body>").expect("a message");
        assert_eq!(kept.content, Content::text("hi & ho"));
        let (from, device) = kept.from.expect("it says who");
        assert_eq!((from.as_str(), &*device), ("ann@a.example", "desk"));
        assert_eq!(kept.to.expect("it says to whom").as_str(), "bob@a.example");
        assert_eq!(kept.client_id.map(|id| id.text()).as_deref(), Some(ID));
        let more = read("<body>hi</body><x xmlns='other'>y</x>").expect("a message");
        assert_eq!(more.content.kind, Content::STANZA);
        for (inner, why) in [
            ("<composing xmlns='http://jabber.org/protocol/chatstates'/>", "no text"),
            ("<body>hi</body><replace xmlns='urn:xmpp:message-correct:0' id='x'/>", "corrects"),
        ] {
            assert!(read(inner).is_err_and(|told| told.contains(why)), "{inner}");
        }
        for (bent, why) in [
            ("<message xmlns='jabber:client' type='groupchat'><body>x</body></message>", "room"),
            ("<message xmlns='jabber:client' from='a.example'><body>x</body></message>", "domain"),
            ("<message xmlns='jabber:client'><body>x", "malformed"),
        ] {
            assert!(message(bent).is_err_and(|told| told.contains(why)), "{bent}");
        }
    }

    #[test]
    fn what_was_said_in_a_room_is_what_is_said_beside_what_the_server_added() {
        let read = |kind: &str, inner: &str| {
            said_in_room(&format!(
                "<message xmlns='jabber:client' type='{kind}' id='{ID}'>{inner}</message>"
            ))
        };
        let added = "<body>hi</body><occupant-id xmlns='urn:xmpp:occupant-id:0' id='x'/>\
                     <x xmlns='http://jabber.org/protocol/muc#user'><item jid='a@b'/></x>";
        assert_eq!(read("groupchat", added), Ok((Content::text("hi"), "hi".into())));
        let file = "<body>https://a.example/f.png</body><x xmlns='jabber:x:oob'>\
                    <url>https://a.example/f.png</url></x>";
        let (content, body) = read("groupchat", file).expect("a file");
        assert_eq!((content.kind, &*body), (Content::FILE, "https://a.example/f.png"));
        for (kind, inner, why) in [
            ("chat", "<body>hi</body>", "whole room"),
            ("groupchat", "<subject>noon</subject>", "no text"),
            (
                "groupchat",
                "<body>x</body><retract xmlns='urn:xmpp:message-retract:1' id='x'/>",
                "retracts",
            ),
            ("groupchat", "<body>x", "malformed"),
        ] {
            assert!(read(kind, inner).is_err_and(|told| told.contains(why)), "{inner}");
        }
    }

    #[test]
    fn a_result_of_an_archive_is_read_as_the_message_that_it_was() {
        let kept = message(&format!(
            "<message xmlns='jabber:client' type='chat' id='{ID}' from='ann@a.example/desk' \
             to='bob@a.example'><body>hi</body><x xmlns='other'>y</x></message>"
        ));
        let kept = kept.expect("a message");
        let ((from, device), to) =
            (kept.from.clone().expect("who"), kept.to.clone().expect("whom"));
        let client_id = kept.client_id.expect("one");
        let content = kept.content.clone();
        let (id, seq, at_ms, amended) = (7 << 22, 3, 1_700_000_000_007, None);
        let written = ChatMessage { id, seq, at_ms, from, device, to, client_id, content, amended };
        let mut out = Vec::new();
        assert!(put_result(&written, &mut out));
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains("stamp='2023-11-14T22:13:20.007Z'"), "{text}");
        let begin = text.find("<message ").expect("it is in it");
        let end = text.find("</forwarded>").expect("it ends");
        assert_eq!(message(&text[begin..end]), Ok(kept));
    }

    #[test]
    fn what_clients_keep_becomes_what_it_would_become_if_they_set_it() {
        let set = vcard("<vCard xmlns='vcard-temp'><FN>Ann</FN></vCard>").expect("a vCard");
        assert_eq!((set.len(), set[0].space), (1, NodeSpace::Kept));
        let photo = "<PHOTO><TYPE>image/png</TYPE><BINVAL>AAEC</BINVAL></PHOTO>";
        let set = vcard(&format!("<vCard xmlns='vcard-temp'>{photo}</vCard>")).expect("a vCard");
        assert_eq!(set.len(), 3);
        assert_eq!(badge(&set[2].node, &set[2].publish[0]), set[2].badge);
        let kept = private("<x xmlns='other'>y</x>").expect("an element");
        assert!(is_private(&kept[0].node) && !is_private("vcard-temp"));
        let bookmarks = private(
            "<storage xmlns='storage:bookmarks'><conference jid='a@b.example' name='A'/></storage>",
        );
        let bookmarks = bookmarks.expect("bookmarks");
        assert_eq!(&*bookmarks[0].node, "urn:xmpp:bookmarks:1");
        assert_eq!(&*bookmarks[0].publish[0].id, "a@b.example");
        assert_eq!((vcard("<x/>"), private("x"), vcard("<vCard")), (None, None, None));
    }
}
