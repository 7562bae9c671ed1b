//! The part of MQTT 3.1.1 that load needs, written apart from the server's codec: a peer and
//! Holdline are spoken to by the same few bytes, and a fault of ours does not meet itself.

use std::io;

/// Bytes of every payload: whose message it is, its number, when it was sent, and padding.
pub const PAYLOAD_BYTES: usize = 64;

/// Longer than any run, and not zero: a peer refuses that.
const KEEP_ALIVE_S: u16 = 7_200;

/// Packet of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// The connection is taken.
    Connack,
    /// The subscription is taken.
    Suback,
    /// A message: the publisher's number, and when it was sent, nanoseconds of its clock.
    Message {
        /// Its QoS.
        qos: u8,
        /// Its packet identifier.
        id: u16,
        /// Publisher of the message.
        from: u32,
        /// Moment of sending, nanoseconds of the publisher's clock.
        at_ns: u64,
    },
    /// A message of QoS 1 was taken.
    Puback,
    /// A message of QoS 2 was taken.
    Pubrec(u16),
    /// A message of QoS 2 will not come again.
    Pubrel(u16),
    /// A message of QoS 2 is over.
    Pubcomp,
    /// Anything else.
    Other,
}

/// Appends a CONNECT.
pub fn connect(client: &str, clean: bool, out: &mut Vec<u8>) {
    let length = 12 + client.len();
    out.push(0x10);
    length_of(length, out);
    out.extend_from_slice(b"\0\x04MQTT\x04");
    out.push(if clean { 2 } else { 0 });
    out.extend_from_slice(&KEEP_ALIVE_S.to_be_bytes());
    text(client, out);
}

/// Appends a SUBSCRIBE with packet identifier 1.
pub fn subscribe(filter: &str, qos: u8, out: &mut Vec<u8>) {
    out.push(0x82);
    length_of(5 + filter.len(), out);
    out.extend_from_slice(&[0, 1]);
    text(filter, out);
    out.push(qos);
}

/// The bit of PUBLISH by which a message is retained.
pub const RETAIN: u8 = 1;

/// Appends a PUBLISH; `flags` are its QoS shifted by one, and perhaps [`RETAIN`].
pub fn publish(topic: &str, flags: u8, id: u16, (from, at_ns): (u32, u64), out: &mut Vec<u8>) {
    let qos = flags >> 1;
    let id_bytes = if qos == 0 { 0 } else { 2 };
    out.push(0x30 | flags);
    length_of(2 + topic.len() + id_bytes + PAYLOAD_BYTES, out);
    text(topic, out);
    if qos > 0 {
        out.extend_from_slice(&id.to_be_bytes());
    }
    out.extend_from_slice(&from.to_be_bytes());
    out.extend_from_slice(&at_ns.to_be_bytes());
    out.extend_from_slice(&[b'.'; PAYLOAD_BYTES - 12]);
}

/// Appends an acknowledgement: 4 PUBACK, 5 PUBREC, 6 PUBREL, 7 PUBCOMP.
pub fn ack(kind: u8, id: u16, out: &mut Vec<u8>) {
    out.push(kind << 4 | if kind == 6 { 2 } else { 0 });
    out.push(2);
    out.extend_from_slice(&id.to_be_bytes());
}

/// Reads the packet at the front, and says how long it is; `None`: it is not whole.
pub fn hear(bytes: &[u8]) -> io::Result<Option<(Said, usize)>> {
    let [first, rest @ ..] = bytes else { return Ok(None) };
    let (mut length, mut shift, mut at) = (0usize, 0, 1);
    for byte in rest.iter().take(4) {
        length |= usize::from(byte & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if byte & 0x80 == 0 {
            let Some(body) = bytes.get(at..at + length) else { return Ok(None) };
            return read(*first, body).map(|said| Some((said, at + length)));
        }
    }
    Ok(None)
}

fn read(first: u8, body: &[u8]) -> io::Result<Said> {
    let id = || body.get(..2).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
    Ok(match first >> 4 {
        2 if body.get(1) == Some(&0) => Said::Connack,
        2 => return Err(io::Error::other(format!("CONNACK {body:?}"))),
        9 if body.get(2).is_some_and(|code| *code < 0x80) => Said::Suback,
        9 => return Err(io::Error::other(format!("SUBACK {body:?}"))),
        3 => message(first >> 1 & 3, body).ok_or_else(|| io::Error::other("a short PUBLISH"))?,
        4 => Said::Puback,
        5 => Said::Pubrec(id()),
        6 => Said::Pubrel(id()),
        7 => Said::Pubcomp,
        _ => Said::Other,
    })
}

fn message(qos: u8, body: &[u8]) -> Option<Said> {
    let topic = usize::from(u16::from_be_bytes(body.get(..2)?.try_into().ok()?));
    let after = 2 + topic;
    let id = match qos {
        0 => 0,
        _ => u16::from_be_bytes(body.get(after..after + 2)?.try_into().ok()?),
    };
    let payload = body.get(after + if qos == 0 { 0 } else { 2 }..)?;
    let from = u32::from_be_bytes(payload.get(..4)?.try_into().ok()?);
    let at_ns = u64::from_be_bytes(payload.get(4..12)?.try_into().ok()?);
    Some(Said::Message { qos, id, from, at_ns })
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn length_of(mut length: usize, out: &mut Vec<u8>) {
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_is_heard_as_it_was_said() {
        let mut bytes = Vec::new();
        publish("a/b", 1 << 1, 700, (9, 123_456_789_012), &mut bytes);
        let said = Said::Message { qos: 1, id: 700, from: 9, at_ns: 123_456_789_012 };
        assert_eq!(hear(&bytes).expect("whole"), Some((said, bytes.len())));
        assert_eq!(hear(&bytes[..20]).expect("a part"), None);
        let mut acked = Vec::new();
        ack(6, 5, &mut acked);
        assert_eq!(hear(&acked).expect("whole"), Some((Said::Pubrel(5), 4)));
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(hear(&[0x20, 2, 0, 5]).is_err());
        assert!(hear(&[0x90, 3, 0, 1, 0x80]).is_err());
    }
}
