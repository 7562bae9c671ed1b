//! The body of a message in its conversation: its content, its sender and its receiver.
//!
//! ```text
//! version u8 | kind u16 | flags u8 | client id 16
//! from u16 bytes | device u8 bytes | to u16 bytes | text u32 bytes | extra u32 bytes
//!   | quote, mentions and name, if a flag says so: bits u8
//!     | of a quote  place u64 | number u64 | name u16 bytes | sender u16 bytes
//!     | of mentions count u8 × (account u16 bytes)
//!     | of a name in a room  name u16 bytes
//! ```
//! Numbers are little-endian; texts and bytes stand behind their lengths. The body has neither the
//! server's number nor the time: a client that retries sends the same bytes, by which a log
//! recognizes the message. Invariant: decoding returns what was encoded.

use base::bytes::{ByteReader, put_text};
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatMessage, ClientMessageId, Content, Mentions, NewMessage, Quote, TargetMessage,
};
use model::id::MessageId;
use model::timeline::{Message, Seq};

const VERSION: u8 = 1;

/// Flag: the message counts as unread.
const COUNTS: u8 = 1;
/// Flag: the message has a quote, mentions or a name in a room.
const OTHERS: u8 = 64;

/// Bits of the part with quote, mentions and name.
const QUOTES: u8 = 1;
const MENTIONS: u8 = 2;
const EVERYBODY: u8 = 4;
const NICK: u8 = 8;

/// The sender of a message: an account and its device.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub address: &'a AccountAddress,
    pub device: &'a str,
}

/// The client id of an order that the server gives on behalf of an account: the same for each
/// retry. `of` identifies the order, and begins with its reason.
pub(crate) fn client_id_of(home: HashKey, of: &[&[u8]]) -> ClientMessageId {
    let (first, second) = (home.of(of), home.of(&of[1..]));
    ClientMessageId((u128::from(first) << 64 | u128::from(second)).to_be_bytes())
}

/// Encodes the body of a message from its sender to an account or a group.
pub(crate) fn encode(sender: Sender<'_>, to: &AccountAddress, message: &NewMessage) -> Box<[u8]> {
    let NewMessage { client_id, content, .. } = message;
    let (from, to) = (sender.address.as_str(), to.as_str());
    let fixed = 1 + 2 + 1 + 16 + 2 + 1 + 2 + 4 + 4;
    let texts = from.len() + sender.device.len() + to.len() + content.text.len();
    let mut out = Vec::with_capacity(fixed + texts + content.extra.len());
    out.push(VERSION);
    out.extend_from_slice(&content.kind.to_le_bytes());
    let others = content.quote.is_some() || content.mentions.is_some() || content.nick.is_some();
    out.push(if content.counts { COUNTS } else { 0 } | if others { OTHERS } else { 0 });
    out.extend_from_slice(&client_id.0);
    put_text(from, &mut out);
    out.push(sender.device.len() as u8);
    out.extend_from_slice(sender.device.as_bytes());
    put_text(to, &mut out);
    for bytes in [content.text.as_bytes(), &content.extra] {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    if others {
        put_others(content, &mut out);
    }
    out.into()
}

fn put_others(content: &Content, out: &mut Vec<u8>) {
    let (quote, mentions) = (content.quote.as_deref(), content.mentions.as_deref());
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let everybody = mentions.is_some_and(|it| it.everybody);
    let what = flag(quote.is_some(), QUOTES) | flag(mentions.is_some(), MENTIONS);
    out.push(what | flag(everybody, EVERYBODY) | flag(content.nick.is_some(), NICK));
    if let Some(Quote { target, from, .. }) = quote {
        out.extend_from_slice(&target.seq.to_le_bytes());
        out.extend_from_slice(&target.id.to_le_bytes());
        put_text(&target.name, out);
        put_text(from.as_ref().map_or("", AccountAddress::as_str), out);
    }
    if let Some(Mentions { accounts, .. }) = mentions {
        out.push(accounts.len() as u8);
        accounts.iter().for_each(|account| put_text(account.as_str(), out));
    }
    if let Some(nick) = &content.nick {
        put_text(nick, out);
    }
}

/// The message that a message quotes, the accounts that it mentions, and its sender's name in a
/// room.
type Others = (Option<Box<Quote>>, Option<Box<Mentions>>, Option<Box<str>>);

/// Decodes the quote, without the quoted text, the mentions, and the name.
fn others(bytes: &mut ByteReader<'_>) -> Option<Others> {
    let what = bytes.flags(QUOTES | MENTIONS | EVERYBODY | NICK)?;
    let (mut quote, mut mentions) = (None, None);
    if what & QUOTES != 0 {
        let (seq, id) = (bytes.u64()?, bytes.u64()?);
        let name = bytes.text()?.into();
        let from = match bytes.text()? {
            "" => None,
            from => Some(AccountAddress::parse(from, "").ok()?),
        };
        let target = TargetMessage { seq, id, name };
        quote = Some(Box::new(Quote { target, from, text: "".into() }));
    }
    if what & MENTIONS != 0 {
        let count = bytes.byte()?;
        let of = |_| Addressee::parse(bytes.text()?).ok();
        let accounts = (0..count).map(of).collect::<Option<_>>()?;
        mentions = Some(Box::new(Mentions { accounts, everybody: what & EVERYBODY != 0 }));
    }
    let nick = if what & NICK != 0 { Some(bytes.text()?.into()) } else { None };
    Some((quote, mentions, nick))
}

/// Decodes the body of the message with this number and place; `None`: it cannot be read.
pub(crate) fn decode(id: u64, seq: Seq, body: &[u8]) -> Option<ChatMessage> {
    let mut bytes = ByteReader::of(VERSION, body)?;
    let kind = bytes.u16()?;
    let flags = bytes.flags(COUNTS | OTHERS)?;
    let counts = flags & COUNTS != 0;
    let client_id = ClientMessageId(bytes.take(16)?.try_into().ok()?);
    let from = address(&mut bytes)?;
    let length = bytes.byte()?.into();
    let device = text(bytes.take(length)?)?;
    let to = address(&mut bytes)?;
    let length = bytes.u32()? as usize;
    let said = text(bytes.take(length)?)?;
    let length = bytes.u32()? as usize;
    let extra = bytes.take(length)?.into();
    let others = if flags & OTHERS != 0 { others(&mut bytes)? } else { Others::default() };
    let (quote, mentions, nick) = others;
    let content = Content { kind, text: said, extra, counts, quote, mentions, nick };
    let at_ms = time_of(id);
    let amended = None;
    bytes.ends(ChatMessage { id, seq, at_ms, from, device, to, client_id, content, amended })
}

/// A checksum by which a retried message is recognized: over the label and all of the body but the
/// device, so a retry by another device or resource of the account is recognized, too.
pub(crate) fn check_of(home: HashKey, message: &Message) -> u32 {
    let body = &*message.body;
    let (before, device) = device_in(body).unwrap_or((body.len(), 0));
    let behind = body.get(before + device..).unwrap_or_default();
    let before = body.get(..before).unwrap_or_default();
    home.of(&[b"check", &message.label, before, behind]) as u32
}

/// Place of the device's name in a body, and its length, including the length byte.
fn device_in(body: &[u8]) -> Option<(usize, usize)> {
    const FROM: usize = 1 + 2 + 1 + 16;
    let from = body.get(FROM..)?.first_chunk().map(|length| u16::from_le_bytes(*length))?;
    let at = FROM + 2 + usize::from(from);
    Some((at, 1 + usize::from(*body.get(at)?)))
}

/// The kind of a body, as [`Content::kind`]; 0: it cannot be read.
pub(crate) fn kind_of(body: &[u8]) -> u16 {
    ByteReader::of(VERSION, body).and_then(|mut bytes| bytes.u16()).unwrap_or(0)
}

/// Whether a body may quote a message: its flag for quote and mentions is set.
pub(crate) fn may_quote(body: &[u8]) -> bool {
    body.get(3).is_some_and(|flags| flags & OTHERS != 0)
}

/// The highest message number that can be given in this millisecond of Unix time.
pub(crate) fn last_number_of(ms: u64) -> u64 {
    ((ms.saturating_sub(MessageId::EPOCH_MS) + 1) << 22) - 1
}

/// The time at which a number was given, Unix milliseconds.
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

    fn quote(name: &str) -> Option<Box<Quote>> {
        let from = (!name.is_empty()).then(|| address("bob"));
        let target = TargetMessage { seq: 1 << 40, id: u64::MAX, name: name.into() };
        Some(Box::new(Quote { target, from, text: "".into() }))
    }

    fn mentions(everybody: bool) -> Option<Box<Mentions>> {
        let names = ["ann", "bob@b.example"].map(|name| Addressee::parse(name).expect("right"));
        Mentions::of(if everybody { Vec::new() } else { names.into() }, everybody)
    }

    #[test]
    fn a_body_says_what_was_said_and_nothing_of_the_time() {
        let long = "x".repeat(64);
        let (ann, bob) = (address("ann"), address(&format!("{long}@b.example")));
        for content in [
            Content::text("hello, 世界"),
            Content { kind: 1_000, extra: [0, 1, 2].into(), ..Content::default() },
            Content { text: "x".repeat(70_000).into(), ..Content::text("") },
            Content { quote: quote(""), ..Content::text("that") },
            Content { quote: quote("a name"), mentions: mentions(true), ..Content::text("all") },
            Content { mentions: mentions(false), ..Content::default() },
            Content { nick: Some("the hatter".into()), ..Content::text("tea") },
        ] {
            let client_id = ClientMessageId([7; 16]);
            let to = bob.clone().into();
            let message = NewMessage { to, client_id, content: content.clone() };
            let sender = Sender { address: &ann, device: "phone" };
            let body = encode(sender, &bob, &message);
            assert_eq!(body, encode(sender, &bob, &message), "the same each time");
            let id = MessageId::after(0, MessageId::EPOCH_MS + 5, Default::default()).0;
            let read = decode(id, 9, &body).expect("right");
            assert_eq!(kind_of(&body), content.kind);
            let others =
                content.quote.is_some() || content.mentions.is_some() || content.nick.is_some();
            assert_eq!(may_quote(&body), others);
            assert_eq!((read.id, read.seq, read.at_ms), (id, 9, MessageId::EPOCH_MS + 5));
            assert_eq!((&read.from, &*read.device, &read.to), (&ann, "phone", &bob));
            assert_eq!((read.client_id, &read.content), (client_id, &content));
            for end in 0..body.len().min(200) {
                assert!(decode(id, 9, &body[..end]).is_none(), "cut at {end}");
            }
        }
    }

    #[test]
    fn another_device_says_the_same_and_another_text_is_another_message() {
        let home = HashKey::new(1, 2);
        let check = |device: &str, text: &str| {
            let client_id = ClientMessageId([1; 16]);
            let (ann, bob) = (address("ann"), address("bob"));
            let message =
                NewMessage { to: bob.clone().into(), client_id, content: Content::text(text) };
            let body = encode(Sender { address: &ann, device }, &bob, &message);
            check_of(home, &Message { id: 1, at_s: 1, label: [1].into(), body })
        };
        assert_eq!(check("phone", "hello"), check("a desk", "hello"));
        assert_eq!(check("phone", "hello"), check("", "hello"));
        assert_ne!(check("phone", "hello"), check("phone", "hallo"));
        let (id, at_s) = (1, 1);
        let cut = |body: &[u8]| Message { id, at_s, label: [1].into(), body: body.into() };
        assert_ne!(check_of(home, &cut(&[1; 22])), check_of(home, &cut(&[1; 21])));
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
