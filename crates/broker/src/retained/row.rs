//! Row format of a publication: retained ones and those for later alike.
//!
//! ```text
//! 1 version (1) | 1 QoS, and 4 for retain | 2 topic bytes | 4 property bytes | 8 id |
//! 8 publisher | 4 at_s | 4 expire_at | topic | properties | payload     little endian
//! ```
//! A row of another version, or one that is too short for what it says, is none.

use base::hash::HashKey;
use model::ports::log::RowHome;
use model::topic::{Publication, Qos};

const VERSION: u8 = 1;
const RETAIN: u8 = 4;
const HEAD_BYTES: usize = 32;

/// The two keys of the hash that names a topic's row: fixed, for rows outlive the process. A client
/// that finds two topics of one hash (2^64 tries) makes one of its own messages replace the other.
const ROW_KEYS: [HashKey; 2] = [
    HashKey::new(0x686f_6c64_6c69_6e65, 0x7265_7461_696e_6564),
    HashKey::new(0x746f_7069_6320_726f, 0x7720_6b65_7920_0002),
];

/// The key of a topic's row in `Table::Retained`.
pub fn row_key(home: HashKey, topic: &str) -> Box<[u8]> {
    let [first, second] = ROW_KEYS.map(|key| key.of(&[topic.as_bytes()]).to_be_bytes());
    row_home(home, topic).key(&[&first, &second])
}

/// Where everything of a topic lives.
pub fn row_home(home: HashKey, topic: &str) -> RowHome {
    RowHome::at(home.of(&[b"mqtt-topic", topic.as_bytes()]))
}

/// Bytes of a publication as the value of a row.
pub fn length(message: &Publication) -> usize {
    let (topic, properties, payload) = (message.topic(), message.properties(), message.payload());
    HEAD_BYTES + topic.len() + properties.len() + payload.len()
}

/// A publication as the value of a row.
pub fn encode(message: &Publication) -> Box<[u8]> {
    let (topic, properties, payload) = (message.topic(), message.properties(), message.payload());
    let mut row = Vec::with_capacity(length(message));
    let topic_bytes = u16::try_from(topic.len()).expect("a topic's length has 16 bits");
    let properties_bytes = u32::try_from(properties.len()).expect("so says Publication::new");
    row.extend([VERSION, message.qos as u8 | if message.retain { RETAIN } else { 0 }]);
    row.extend(topic_bytes.to_le_bytes());
    row.extend(properties_bytes.to_le_bytes());
    row.extend(message.id.to_le_bytes());
    row.extend(message.publisher.to_le_bytes());
    row.extend(message.at_s.to_le_bytes());
    row.extend(message.expire_at.to_le_bytes());
    row.extend(topic.as_bytes());
    row.extend(properties);
    row.extend(payload);
    row.into_boxed_slice()
}

/// Decodes a row of [`encode`]; `None`: it is malformed.
pub fn decode(row: &[u8]) -> Option<Publication> {
    let (head, rest) = row.split_at_checked(HEAD_BYTES)?;
    if head[0] != VERSION || head[1] > (RETAIN | 3) {
        return None;
    }
    let topic_bytes = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let (topic, rest) = rest.split_at_checked(topic_bytes)?;
    let (properties, payload) = rest.split_at_checked(word(head, 4) as usize)?;
    let mut message = Publication::new(std::str::from_utf8(topic).ok()?, properties, payload);
    message.qos = Qos::of(head[1] & 3)?;
    message.retain = head[1] & RETAIN != 0;
    message.id = long(head, 8);
    message.publisher = long(head, 16);
    message.at_s = word(head, 24);
    message.expire_at = word(head, 28);
    Some(message)
}

fn word(head: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*head[at..].first_chunk().expect("the head has 32 bytes"))
}

fn long(head: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*head[at..].first_chunk().expect("the head has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: HashKey = HashKey::new(5, 6);

    #[test]
    fn the_key_of_a_row_is_two_hashes_of_its_topic() {
        let key = row_key(HOME, "a/b");
        let halves = ROW_KEYS.map(|key| key.of(&[b"a/b"]).to_be_bytes());
        assert_eq!(RowHome::rest(&key), Some(&*halves.concat()));
        assert_eq!(RowHome::of(&key), RowHome::at(HOME.of(&[b"mqtt-topic", b"a/b"])));
    }

    #[test]
    fn what_was_put_into_a_row_comes_out_of_it() {
        let mut message = Publication::new("a/\u{e4}/b", &[1, 2, 3], b"payload");
        (message.id, message.publisher) = (u64::MAX - 1, 1 << 40);
        (message.at_s, message.expire_at) = (77, u32::MAX);
        (message.qos, message.retain) = (Qos::ExactlyOnce, true);
        let row = encode(&message);
        assert_eq!(decode(&row), Some(message));
        let plain = Publication::new("t", &[], b"");
        assert_eq!(decode(&encode(&plain)), Some(plain));
    }

    #[test]
    fn a_row_that_is_no_publication_is_none() {
        let row = encode(&Publication::new("topic", &[9; 4], b""));
        for length in 0..row.len() {
            assert_eq!(decode(&row[..length]), None, "{length}");
        }
        for (at, byte) in [(0, 2), (1, 3), (1, 8), (3, 1), (7, 1), (32, 0xff)] {
            let mut bent = row.clone();
            bent[at] = byte;
            assert_eq!(decode(&bent), None, "{at}");
        }
    }

    #[test]
    fn a_topic_has_the_same_key_for_ever() {
        let of = |topic| row_key(HOME, topic);
        assert_eq!(of("a/b"), of("a/b"));
        assert_ne!(of("a/b"), of("a/c"));
        assert_ne!(of("a/b")[2..10], of("a/b")[10..]);
    }
}
