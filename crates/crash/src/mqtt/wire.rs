//! The part of MQTT 3.1.1 and 5.0 that an honest client needs, written apart from the server's
//! codec: a fault of ours does not meet itself. No properties are kept; what has them is passed
//! over.

use std::io;

/// The protocol's level in CONNECT.
pub const V4: u8 = 4;
/// The level of version 5.0.
pub const V5: u8 = 5;

/// A message as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its topic.
    pub topic: String,
    /// Its QoS.
    pub qos: u8,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Whether it was retained.
    pub retain: bool,
    /// Its packet identifier; 0 at QoS 0.
    pub id: u16,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Packet of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// The connection is taken, or not: whether the session is present, and the code.
    Connack(bool, u8),
    /// A message.
    Publish(Message),
    /// An answer: packet type 4 to 7, identifier, reason.
    Ack(u8, u16, u8),
    /// Subscriptions are taken: identifier and codes.
    Suback(u16, Vec<u8>),
    /// Subscriptions are gone: identifier.
    Unsuback(u16),
    /// A ping was answered.
    Pong,
    /// The connection is over, for this reason.
    Disconnect(u8),
}

/// A CONNECT.
#[derive(Clone, Debug)]
pub struct Connect<'a> {
    /// [`V4`] or [`V5`].
    pub version: u8,
    /// The client identifier.
    pub client: &'a str,
    /// Whether the session outlives connections; if not, it begins clean too.
    pub durable: bool,
    /// Topic, payload and QoS of its will.
    pub will: Option<(&'a str, &'a [u8], u8)>,
}

/// How long durable sessions outlive their connections, seconds.
const EXPIRY_S: u32 = 86_400;

impl Connect<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = b"\0\x04MQTT".to_vec();
        let will = self.will.map_or(0, |(_, _, qos)| 4 | qos << 3);
        body.extend([self.version, will | if self.durable { 0 } else { 2 }, 0, 0]);
        if self.version == V5 {
            match self.durable {
                true => {
                    body.extend([5, 0x11]);
                    body.extend(EXPIRY_S.to_be_bytes());
                }
                false => body.push(0),
            }
        }
        text(self.client, &mut body);
        if let Some((topic, payload, _)) = self.will {
            if self.version == V5 {
                body.push(0);
            }
            text(topic, &mut body);
            body.extend((payload.len() as u16).to_be_bytes());
            body.extend(payload);
        }
        packet(0x10, &body)
    }
}

/// A SUBSCRIBE; version 5 wants no retained messages (retain handling 2).
pub fn subscribe(version: u8, id: u16, filters: &[(String, u8)], retained: bool) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == V5 {
        body.push(0);
    }
    for (filter, qos) in filters {
        text(filter, &mut body);
        body.push(if version == V5 && !retained { qos | 0x20 } else { *qos });
    }
    packet(0x82, &body)
}

/// An UNSUBSCRIBE.
pub fn unsubscribe(version: u8, id: u16, filter: &str) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == V5 {
        body.push(0);
    }
    text(filter, &mut body);
    packet(0xa2, &body)
}

/// A PUBLISH of QoS 1 or 2.
pub fn publish(version: u8, message: &Message) -> Vec<u8> {
    let mut body = Vec::with_capacity(message.topic.len() + message.payload.len() + 5);
    text(&message.topic, &mut body);
    body.extend(message.id.to_be_bytes());
    if version == V5 {
        body.push(0);
    }
    body.extend(&message.payload);
    let flags = u8::from(message.dup) << 3 | message.qos << 1 | u8::from(message.retain);
    packet(0x30 | flags, &body)
}

/// An acknowledgement: 4 PUBACK, 5 PUBREC, 6 PUBREL, 7 PUBCOMP.
pub fn ack(kind: u8, id: u16) -> Vec<u8> {
    packet(kind << 4 | if kind == 6 { 2 } else { 0 }, &id.to_be_bytes())
}

/// A PINGREQ.
pub const PING: [u8; 2] = [0xc0, 0];
/// A DISCONNECT, of either version.
pub const DISCONNECT: [u8; 2] = [0xe0, 0];

/// Reads the packet at the front, and says how long it is; `None`: it is not whole.
pub fn hear(version: u8, bytes: &[u8]) -> io::Result<Option<(Said, usize)>> {
    let Some(first) = bytes.first() else { return Ok(None) };
    let Some((length, head)) = length(&bytes[1..]) else { return Ok(None) };
    let Some(body) = bytes.get(1 + head..1 + head + length) else { return Ok(None) };
    let said = read(version, *first, body);
    let said = said.ok_or_else(|| io::Error::other(format!("not MQTT: {first:#x} {body:?}")))?;
    Ok(Some((said, 1 + head + length)))
}

fn read(version: u8, first: u8, body: &[u8]) -> Option<Said> {
    let id = || Some(u16::from_be_bytes(body.get(..2)?.try_into().ok()?));
    let rest = || if version == V5 { properties(body.get(2..)?) } else { body.get(2..) };
    Some(match first >> 4 {
        2 => Said::Connack(*body.first()? & 1 == 1, *body.get(1)?),
        3 => Said::Publish(message(version, first, body)?),
        kind @ 4..=7 => Said::Ack(kind, id()?, body.get(2).copied().unwrap_or(0)),
        9 => Said::Suback(id()?, rest()?.to_vec()),
        11 => Said::Unsuback(id()?),
        13 => Said::Pong,
        14 => Said::Disconnect(body.first().copied().unwrap_or(0)),
        _ => return None,
    })
}

fn message(version: u8, first: u8, body: &[u8]) -> Option<Message> {
    let topic_bytes = usize::from(u16::from_be_bytes(body.get(..2)?.try_into().ok()?));
    let topic = String::from_utf8(body.get(2..2 + topic_bytes)?.to_vec()).ok()?;
    let (mut rest, qos, mut id) = (body.get(2 + topic_bytes..)?, first >> 1 & 3, 0);
    if qos > 0 {
        let (bytes, after) = rest.split_first_chunk::<2>()?;
        (id, rest) = (u16::from_be_bytes(*bytes), after);
    }
    let payload = if version == V5 { properties(rest)? } else { rest }.to_vec();
    let (dup, retain) = (first & 8 != 0, first & 1 != 0);
    (qos < 3 && (qos == 0) == (id == 0)).then_some(Message { topic, qos, dup, retain, id, payload })
}

/// Bytes behind the properties.
fn properties(bytes: &[u8]) -> Option<&[u8]> {
    let (length, head) = length(bytes)?;
    bytes.get(head + length..)
}

/// A variable byte integer and its own length.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, at + 1));
        }
    }
    None
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let (mut bytes, mut length) = (vec![first], body.len());
    while length > 0x7f {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(body);
    bytes
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_heard_as_it_was_said_in_both_versions() {
        for version in [V4, V5] {
            for length in [0, 100, 20_000] {
                let (topic, payload) = ("a/b".to_owned(), vec![7; length]);
                let message = Message { topic, qos: 2, dup: true, retain: false, id: 700, payload };
                let bytes = publish(version, &message);
                let heard = hear(version, &bytes).expect("well formed");
                assert_eq!(heard, Some((Said::Publish(message), bytes.len())));
                assert_eq!(hear(version, &bytes[..bytes.len() - 1]).expect("a part"), None);
            }
        }
    }

    #[test]
    fn answers_are_read_with_and_without_reasons() {
        let ack = |bytes: &[u8]| hear(V5, bytes).expect("well formed").map(|(said, _)| said);
        assert_eq!(ack(&[0x40, 2, 0, 5]), Some(Said::Ack(4, 5, 0)));
        assert_eq!(ack(&[0x50, 4, 0, 5, 0x97, 0]), Some(Said::Ack(5, 5, 0x97)));
        assert_eq!(ack(&[0x90, 4, 0, 1, 0, 2]), Some(Said::Suback(1, vec![2])));
        assert_eq!(ack(&[0x20, 8, 1, 0, 5, 0x11, 0, 0, 0, 9]), Some(Said::Connack(true, 0)));
        assert!(hear(V4, &[0xf0, 0]).is_err());
    }

    #[test]
    fn a_connect_is_that_of_the_standard() {
        let connect = Connect { version: V4, client: "c", durable: true, will: None };
        assert_eq!(connect.bytes(), b"\x10\x0d\0\x04MQTT\x04\0\0\0\0\x01c");
        let will = Some(("t", &b"xy"[..], 1));
        let connect = Connect { version: V5, client: "c", durable: false, will };
        assert_eq!(connect.bytes(), b"\x10\x16\0\x04MQTT\x05\x0e\0\0\0\0\x01c\0\0\x01t\0\x02xy");
    }
}
