//! The front of a message's body, by which its latency and what became of it are known where it
//! arrives.
//!
//! ```text
//! 0       2            8             12               16
//! | mark  | planned at | sent later  | tag and number | ...
//! 16          20      24    25       26       32         36
//! | publisher | topic | tag | stream | number | checksum | ...
//! ```
//! All big-endian. A *head* is the first line: the mark; Unix time in microseconds (48 bits: it
//! wraps after nine years); how much later than planned it was really sent, microseconds; and who
//! sent it ([`From`]). A *proof* is both lines, and has a mark of its own: its [`Sign`] is no other
//! message's, and its checksum is over the whole body but itself. A bare [`stamp`] is the first
//! eight bytes with a mark of its own: any process of the same machine can write it.
//!
//! A message published over MQTT bears a *note* behind the proof, where it has room for one: with
//! it the receiver checks how the message arrived.
//!
//! ```text
//! 36         38        39       40                    44
//! | mark     | QoS     | retain | CRC-32 of the topic | ...
//! ```
//! The note is covered by the proof's checksum.

use model::ports::virtual_client::{HEAD_BYTES as FRONT_BYTES, NOTE_BYTES};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 8;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 16;
/// Bytes of a proof. A body that is shorter has a head and no proof.
pub const PROOF_BYTES: usize = 36;
/// Where the checksum of a proof stands.
const CHECK_AT: usize = 32;

const _: () = assert!(PROOF_BYTES == FRONT_BYTES, "what machines hand on is a whole proof");

/// Bytes of a body that has room for a note.
pub const NOTED_BYTES: usize = PROOF_BYTES + NOTE_BYTES;
/// The first two bytes of a note.
const MARK_NOTE: [u8; 2] = [0x4c, 0x4e];

/// How a message was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishNote {
    /// CRC-32 of the topic's name.
    pub topic: u32,
    /// 0, 1 or 2.
    pub qos: u8,
    /// Whether it was to be retained for later subscribers.
    pub retain: bool,
}

impl PublishNote {
    /// The note as bytes of a body.
    pub fn bytes(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        bytes[..2].copy_from_slice(&MARK_NOTE);
        (bytes[2], bytes[3]) = (self.qos, u8::from(self.retain));
        bytes[4..].copy_from_slice(&self.topic.to_be_bytes());
        bytes
    }

    /// Reads it; `None`: these bytes are no note.
    pub fn read(bytes: &[u8; NOTE_BYTES]) -> Option<PublishNote> {
        let [one, two, qos, retain, topic @ ..] = *bytes;
        let is_note = [one, two] == MARK_NOTE && qos <= 2 && retain <= 1;
        let topic = u32::from_be_bytes(topic);
        is_note.then_some(PublishNote { topic, qos, retain: retain == 1 })
    }
}

/// A bare stamp.
const MARK: u64 = 0x4c54;
/// The first eight bytes of a head.
const MARK_HEAD: u64 = 0x4c48;
/// The first eight bytes of the head of an answer to a message with a head.
const MARK_ANSWER: u64 = 0x4c41;
/// The first two bytes of a proof.
const MARK_PROOF: u64 = 0x4c50;
/// The first two bytes of the proof of an answer.
const MARK_PROOF_ANSWER: u64 = 0x4c51;
const MARKS: [u64; 5] = [MARK, MARK_HEAD, MARK_ANSWER, MARK_PROOF, MARK_PROOF_ANSWER];
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Longest latency that is believed, microseconds: beyond, the body only looks like a stamp.
const LATENCY_US_MAX: u64 = 7 * 24 * 3_600 * 1_000_000;

/// A stamp of this moment, to put in front of a body.
pub fn stamp() -> [u8; STAMP_BYTES] {
    stamp_at(wall_us())
}

/// A stamp of another moment, Unix time in microseconds.
pub fn stamp_at(wall_us: u64) -> [u8; STAMP_BYTES] {
    ((MARK << TIME_BITS) | (wall_us & TIME_MASK)).to_be_bytes()
}

/// Microseconds since the stamp in front of `body`, if it has one. A stamp from the future, by as
/// much as clocks read a moment apart may differ, counts as zero.
pub fn since_stamp(body: &[u8], wall_us: u64) -> Option<u64> {
    let stamp = u64::from_be_bytes(*body.first_chunk::<STAMP_BYTES>()?);
    if !MARKS.contains(&(stamp >> TIME_BITS)) {
        return None;
    }
    let latency = wall_us.wrapping_sub(stamp) & TIME_MASK;
    match latency {
        0..=LATENCY_US_MAX => Some(latency),
        _ if TIME_MASK - latency < 1_000_000 => Some(0),
        _ => None,
    }
}

/// Sender of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// No sender in particular.
    Nobody,
    /// The `number`th from one sender to one topic. Two groups of senders have different tags, as
    /// far as 127 tell them apart.
    Row {
        /// Of the sender's group, 1 to 127.
        tag: u8,
        /// From 1 on, below 2^24.
        number: u32,
    },
    /// The sender with this number, below 2^31.
    Sender(u32),
}

const SENDER: u32 = 1 << 31;
/// Numbers in a row are below this.
pub const ROW_END: u32 = 1 << 24;

/// The front of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampHead {
    /// Microseconds since it was planned to be sent.
    pub corrected_us: u64,
    /// Microseconds since it was sent.
    pub raw_us: u64,
    /// Sender of the message.
    pub from: From,
    /// Whether it is the answer to a message, with that message's head.
    pub is_answer: bool,
}

/// A head: planned at this Unix time in microseconds, sent so much later.
pub fn head(planned_us: u64, late_us: u32, from: From) -> [u8; HEAD_BYTES] {
    let word = match from {
        From::Nobody => 0,
        From::Row { tag, number } => (u32::from(tag & 0x7f) << 24) | (number % ROW_END),
        From::Sender(number) => SENDER | number,
    };
    let mut bytes = [0; HEAD_BYTES];
    let stamp = (MARK_HEAD << TIME_BITS) | (planned_us & TIME_MASK);
    bytes[..8].copy_from_slice(&stamp.to_be_bytes());
    bytes[8..12].copy_from_slice(&late_us.to_be_bytes());
    bytes[12..].copy_from_slice(&word.to_be_bytes());
    bytes
}

/// The head of an answer to the message with this head; `None`: it has none, or is an answer.
pub fn answer(head: &[u8]) -> Option<[u8; HEAD_BYTES]> {
    let mut bytes = *head.first_chunk::<HEAD_BYTES>()?;
    let mark = u64::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    if ![MARK_HEAD, MARK_PROOF].contains(&mark) {
        return None;
    }
    bytes[..2].copy_from_slice(&(MARK_ANSWER as u16).to_be_bytes());
    Some(bytes)
}

/// Which message one is: no other has the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sign {
    /// Number of the client that sent it.
    pub publisher: u32,
    /// Number in its topic's name; [`NO_TOPIC`]: the name has none.
    pub topic: u32,
    /// Of the sender's group.
    pub tag: u8,
    /// Stream among those that the group sends, with [`TO_MANY`] or without; [`UNORDERED`]: several
    /// clients send it at once.
    pub stream: u8,
    /// Rises from one message of the publisher to the next, modulo 2^48.
    pub number: u64,
}

/// Numbers of signs are below this.
pub const NUMBER_END: u64 = 1 << 48;

impl Sign {
    /// The sign as bytes of a proof, and as an id of the message.
    pub fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.publisher.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.topic.to_be_bytes());
        bytes[8] = self.tag;
        bytes[9] = self.stream;
        bytes[10..].copy_from_slice(&self.number.to_be_bytes()[2..]);
        bytes
    }
}

/// A topic without a number.
pub const NO_TOPIC: u32 = u32::MAX;
/// On top of a stream: the topic is a conversation of many, and no client's own.
pub const TO_MANY: u8 = 1 << 6;
/// A stream that has no order.
pub const UNORDERED: u8 = u8::MAX;
/// The stream of answers.
pub const ANSWERS: u8 = u8::MAX - 1;

/// Checksum of what is behind a proof.
pub fn rest_of(body: &[u8]) -> u32 {
    crc32fast::hash(body.get(PROOF_BYTES..).unwrap_or_default())
}

/// The head made a proof of a body whose [`rest_of`] is this.
pub fn prove(head: &[u8; HEAD_BYTES], sign: &Sign, rest: u32) -> [u8; PROOF_BYTES] {
    let mut bytes = [0; PROOF_BYTES];
    bytes[..HEAD_BYTES].copy_from_slice(head);
    let is_answer = head[..2] == (MARK_ANSWER as u16).to_be_bytes();
    let mark = if is_answer { MARK_PROOF_ANSWER } else { MARK_PROOF } as u16;
    bytes[..2].copy_from_slice(&mark.to_be_bytes());
    bytes[HEAD_BYTES..CHECK_AT].copy_from_slice(&sign.bytes());
    let check = checksum(&bytes, rest);
    bytes[CHECK_AT..].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn checksum(front: &[u8; PROOF_BYTES], rest: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(rest);
    hasher.update(&front[..CHECK_AT]);
    hasher.finalize()
}

/// Result of checking a body's proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StampProof {
    /// The body is as it was sent.
    Whole(Sign),
    /// The body was changed.
    Changed,
    /// The body is too short for a proof, or bears only a stamp.
    Short,
    /// The body is not of this laboratory, or was changed beyond recognition.
    Foreign,
}

/// Reads the proof of a body of so many bytes with this front and this [`rest_of`].
pub fn proof(front: &[u8], bytes: u32, rest: u32) -> StampProof {
    let mark = front.first_chunk::<2>().map(|mark| u64::from(u16::from_be_bytes(*mark)));
    match mark {
        Some(MARK_PROOF | MARK_PROOF_ANSWER) => {}
        Some(MARK | MARK_HEAD | MARK_ANSWER) => return StampProof::Short,
        _ => return StampProof::Foreign,
    }
    let Some(front) = front.first_chunk::<PROOF_BYTES>().filter(|_| bytes as usize >= PROOF_BYTES)
    else {
        return StampProof::Changed;
    };
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| front[at + n]));
    if word(CHECK_AT) != checksum(front, rest) {
        return StampProof::Changed;
    }
    let number = front[26..CHECK_AT].iter().fold(0, |all, &byte| (all << 8) | u64::from(byte));
    let (publisher, topic) = (word(16), word(20));
    StampProof::Whole(Sign { publisher, topic, tag: front[24], stream: front[25], number })
}

/// Reads what is in front of `body`: a head, or a bare stamp.
pub fn read(body: &[u8], wall_us: u64) -> Option<StampHead> {
    let corrected_us = since_stamp(body, wall_us)?;
    let mark = u64::from(u16::from_be_bytes([body[0], body[1]]));
    let bare =
        StampHead { corrected_us, raw_us: corrected_us, from: From::Nobody, is_answer: false };
    let (Some(front), true) = (body.first_chunk::<HEAD_BYTES>(), mark != MARK) else {
        return Some(bare);
    };
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| front[at + n]));
    let from = match word(12) {
        0 => From::Nobody,
        word if word & SENDER != 0 => From::Sender(word & !SENDER),
        word => From::Row { tag: (word >> 24) as u8, number: word % ROW_END },
    };
    let raw_us = corrected_us.saturating_sub(u64::from(word(8)));
    let is_answer = [MARK_ANSWER, MARK_PROOF_ANSWER].contains(&mark);
    Some(StampHead { raw_us, from, is_answer, ..bare })
}

/// How far this machine's wall clock is ahead of that of the run, microseconds.
static AHEAD_US: AtomicI64 = AtomicI64::new(0);

/// On an agent: its wall clock is so far ahead of the coordinator's, whose time holds for stamps.
pub(crate) fn set_ahead_us(us: i64) {
    AHEAD_US.store(us, Ordering::Relaxed);
}

/// How far this machine's wall clock is ahead of the run's time, microseconds.
pub(crate) fn ahead_us() -> i64 {
    AHEAD_US.load(Ordering::Relaxed)
}

/// The time of the run, microseconds: this machine's wall clock, or on an agent the coordinator's.
pub(crate) fn wall_us() -> u64 {
    machine_us().saturating_add_signed(-ahead_us())
}

/// This machine's wall clock, microseconds.
#[expect(clippy::disallowed_methods, reason = "the laboratory measures time")]
pub(crate) fn machine_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_790_000_000_000_000;

    #[test]
    fn a_stamp_tells_its_age_and_nothing_else_does() {
        let mut body = stamp_at(AT).to_vec();
        body.extend_from_slice(b"text and more text");
        assert_eq!(since_stamp(&body, AT + 1_234), Some(1_234));
        assert_eq!(since_stamp(&body, AT - 3), Some(0));
        assert_eq!(since_stamp(&body, AT - 3_600_000_000), None);
        assert_eq!(since_stamp(&body[1..], AT), None);
        assert_eq!(since_stamp(b"short", AT), None);
        let read = read(&body, AT + 7).expect("a bare stamp");
        assert_eq!((read.corrected_us, read.raw_us, read.from), (7, 7, From::Nobody));
    }

    #[test]
    fn a_head_is_read_back_and_answered_once() {
        let froms = [
            From::Nobody,
            From::Row { tag: 127, number: ROW_END - 1 },
            From::Row { tag: 1, number: 1 },
            From::Sender(0),
            From::Sender(77_000),
        ];
        for from in froms {
            let bytes = head(AT, 300, from);
            let seen = read(&bytes, AT + 1_000).expect("its own");
            assert_eq!((seen.corrected_us, seen.raw_us, seen.from), (1_000, 700, from));
            let answer = answer(&bytes).expect("a head");
            let back = read(&answer, AT + 1_000).expect("its own");
            assert!(back.is_answer && !seen.is_answer && back.from == from);
            assert_eq!(super::answer(&answer), None);
        }
    }

    #[test]
    fn a_proof_tells_every_change_of_a_body_and_whose_it_is() {
        let sign = Sign { publisher: 7, topic: 9, tag: 3, stream: 1, number: (1 << 48) - 1 };
        let mut body = vec![b'r'; 64];
        let head = head(AT, 300, From::Sender(7));
        let front = prove(&head, &sign, rest_of(&body));
        body[..PROOF_BYTES].copy_from_slice(&front);
        let of = |body: &[u8]| proof(&body[..body.len().min(36)], body.len() as u32, rest_of(body));
        assert_eq!(of(&body), StampProof::Whole(sign));
        let seen = read(&body, AT + 1_000).expect("its own");
        assert_eq!((seen.raw_us, seen.from, seen.is_answer), (700, From::Sender(7), false));
        for at in 0..body.len() {
            for bit in 0..8 {
                let mut other = body.clone();
                other[at] ^= 1 << bit;
                let seen = of(&other);
                let is_told = match at {
                    0 | 1 => !matches!(seen, StampProof::Whole(_)),
                    _ => seen == StampProof::Changed,
                };
                assert!(is_told, "byte {at} bit {bit}: {seen:?}");
            }
        }
        for bytes in 0..body.len() {
            assert!(!matches!(of(&body[..bytes]), StampProof::Whole(_)), "cut at {bytes}");
        }
        let longer = [&body[..], b"r"].concat();
        assert_eq!(of(&longer), StampProof::Changed);
        assert_eq!((of(&head), of(b"hello, world")), (StampProof::Short, StampProof::Foreign));
        let back = prove(&answer(&body).expect("a head"), &sign, rest_of(&[]));
        assert!(read(&back, AT).is_some_and(|head| head.is_answer));
        assert_eq!((of(&back), answer(&back)), (StampProof::Whole(sign), None));
    }
}
