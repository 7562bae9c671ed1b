//! The body of a message in its conversation: what was said, by whom, to whom.
//!
//! ```text
//! version u8 | kind u16 | flags u8 | client id 16
//! from u16 bytes | device u8 bytes | to u16 bytes | text u32 bytes | extra u32 bytes
//! ```
//! Numbers are little-endian; texts and bytes stand behind their lengths. Neither the server's
//! number nor the time is in it: who sends
//! a message again sends the same bytes, by which a log knows it. Invariant: what is encoded is
//! decoded as it was.

use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{ChatMessage, ClientMessageId, Content, NewMessage};
use model::id::MessageId;
use model::timeline::Seq;

const VERSION: u8 = 1;

/// A bit of the flags: it counts as unread.
const COUNTS: u8 = 1;

/// Who says something: an account and its device.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub address: &'a AccountAddress,
    pub device: &'a str,
}

/// The body of what a sender says to somebody.
pub(crate) fn encode(sender: Sender<'_>, to: &AccountAddress, message: &NewMessage) -> Box<[u8]> {
    let NewMessage { client_id, content, .. } = message;
    let (from, to) = (sender.address.as_str(), to.as_str());
    let fixed = 1 + 2 + 1 + 16 + 2 + 1 + 2 + 4 + 4;
    let texts = from.len() + sender.device.len() + to.len() + content.text.len();
    let mut out = Vec::with_capacity(fixed + texts + content.extra.len());
    out.push(VERSION);
    out.extend_from_slice(&content.kind.to_le_bytes());
    out.push(if content.counts { COUNTS } else { 0 });
    out.extend_from_slice(&client_id.0);
    put_text(from, &mut out);
    out.push(sender.device.len() as u8);
    out.extend_from_slice(sender.device.as_bytes());
    put_text(to, &mut out);
    for bytes in [content.text.as_bytes(), &content.extra] {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out.into()
}

/// The message with this body that has this number and this place; `None`: it cannot be read.
pub(crate) fn decode(id: u64, seq: Seq, body: &[u8]) -> Option<ChatMessage> {
    let mut bytes = ByteReader::of(VERSION, body)?;
    let kind = bytes.u16()?;
    let counts = bytes.flags(COUNTS)? == COUNTS;
    let client_id = ClientMessageId(bytes.take(16)?.try_into().ok()?);
    let from = address(&mut bytes)?;
    let length = bytes.byte()?.into();
    let device = text(bytes.take(length)?)?;
    let to = address(&mut bytes)?;
    let length = bytes.u32()? as usize;
    let said = text(bytes.take(length)?)?;
    let length = bytes.u32()? as usize;
    let extra = bytes.take(length)?.into();
    let content = Content { kind, text: said, extra, counts };
    let at_ms = time_of(id);
    bytes.ends(ChatMessage { id, seq, at_ms, from, device, to, client_id, content })
}

/// When a number was given, Unix milliseconds.
pub(crate) fn time_of(id: u64) -> u64 {
    (id >> 22) + MessageId::EPOCH_MS
}

fn address(bytes: &mut ByteReader<'_>) -> Option<AccountAddress> {
    let length = bytes.u16()?.into();
    AccountAddress::parse(std::str::from_utf8(bytes.take(length)?).ok()?, "").ok()
}

fn text(bytes: &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(bytes).ok().map(Box::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> AccountAddress {
        AccountAddress::parse(text, "a.example").expect("right")
    }

    #[test]
    fn a_body_says_what_was_said_and_nothing_of_the_time() {
        let long = "x".repeat(64);
        let (ann, bob) = (address("ann"), address(&format!("{long}@b.example")));
        for content in [
            Content::text("hello, 世界"),
            Content { kind: 1_000, extra: [0, 1, 2].into(), ..Content::default() },
            Content { text: "x".repeat(70_000).into(), ..Content::text("") },
        ] {
            let client_id = ClientMessageId([7; 16]);
            let to = bob.clone().into();
            let message = NewMessage { to, client_id, content: content.clone() };
            let sender = Sender { address: &ann, device: "phone" };
            let body = encode(sender, &bob, &message);
            assert_eq!(body, encode(sender, &bob, &message), "the same each time");
            let id = MessageId::after(0, MessageId::EPOCH_MS + 5, Default::default()).0;
            let read = decode(id, 9, &body).expect("right");
            assert_eq!((read.id, read.seq, read.at_ms), (id, 9, MessageId::EPOCH_MS + 5));
            assert_eq!((&read.from, &*read.device, &read.to), (&ann, "phone", &bob));
            assert_eq!((read.client_id, &read.content), (client_id, &content));
            for end in 0..body.len().min(200) {
                assert!(decode(id, 9, &body[..end]).is_none(), "cut at {end}");
            }
        }
    }

    #[test]
    fn what_is_no_body_is_not_guessed_at() {
        let sender = Sender { address: &address("ann"), device: "p" };
        let client_id = ClientMessageId([1; 16]);
        let bob = address("bob");
        let content = Content::text("a");
        let message = NewMessage { to: bob.clone().into(), client_id, content };
        let body = encode(sender, &bob, &message);
        let wrong = |at: usize, byte: u8| {
            let mut body = body.to_vec();
            body[at] = byte;
            decode(1, 1, &body).is_none()
        };
        assert!(wrong(0, 9), "another version");
        assert!(wrong(3, 0x80), "a flag that is not known");
        assert!(wrong(22, b'A'), "a name that is not allowed");
        assert!(decode(1, 1, &[&*body, b"x"].concat()).is_none(), "something behind it");
    }
}
