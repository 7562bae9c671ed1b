//! Entries of a session's two timelines: its queued messages, and the state of its exchanges. Of
//! the first a start reads only the head, the second has few entries.
//!
//! ```text
//!  label of a message   2 | 0 | flags | expire_at 4 | its publisher's packet identifier 2 |
//!                       share 4 | (another member had it: client 2 + n | its place there 8) |
//!                       subscription identifiers, 4 each
//!  of an exchange in    2 | 1 | packet identifier 2
//!  of one that is taken 2 | 3 | packet identifier 2
//!  of a release         2 | 2 | packet identifier 2 | place of the message 8
//! ```
//! Little endian. One message may stand in many timelines; among a publisher's exchanges it is no
//! message but the mark that its packet identifier is taken. A malformed entry is `None`.

use super::bytes::text;
use crate::peer_message::OldPlace;
use crate::retained::row;
use base::bytes::ByteReader;
use base::hash::HashKey;
use model::timeline::{Message, Space, TimelineId};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::sync::Arc;

const VERSION: u8 = 2;
const QOS: u8 = 3;
const RETAIN: u8 = 4;
const MOVED: u8 = 8;

/// Bytes of a label without what only some have.
const LABEL_BYTES: usize = 13;

/// Subscription identifiers that one delivery of a durable session names; more are left out.
pub(crate) const IDS_MAX: usize = 56;

/// Longest client identifier that a label has room for, bytes, beside one subscription identifier:
/// where a message stood before is named by it.
pub(crate) const OLD_CLIENT_BYTES_MAX: usize = 228;

/// Label under which a message stands in timelines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    pub qos: Qos,
    pub retain: bool,
    pub expire_at: u32,
    /// The packet identifier that it marks as taken among its publisher's exchanges; 0: none.
    pub origin: u16,
    /// Hash of the shared group it came through; 0: none.
    pub share: u32,
    pub ids: SubscriptionIds,
    /// Place of the message while another member of the group had it.
    pub old_place: Option<OldPlace>,
}

impl Label {
    /// Weight of a message under this label in the log, bytes.
    pub(crate) fn weight(&self, message: &Publication) -> u32 {
        let ids = self.ids.as_ref().map_or(0, |ids| ids.len().min(IDS_MAX) * 4);
        let old_place = self.old_place.as_ref().map_or(0, |place| 10 + place.client.len());
        let label = LABEL_BYTES + ids + old_place;
        let bytes = label + row::length(message) + Message::WEIGHT_BESIDE;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

impl OldPlace {
    /// Whether a label has room for it.
    pub(crate) fn fits(&self) -> bool {
        self.client.len() <= OLD_CLIENT_BYTES_MAX
    }
}

/// Content of a decoded label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// A message.
    Message(Label),
    /// A packet identifier of QoS 2 that the client has not released.
    Inbound(u16),
    /// As `Inbound`, once its message is stored wherever it has to be.
    Taken(u16),
    /// A message of QoS 2 that the client has: identifier, and the place it had.
    Released(u16, u64),
}

/// The hash that says where everything of a client is at home.
pub(crate) fn home_hash(home: HashKey, client_id: &str) -> u64 {
    home.of(&[b"mqtt", client_id.as_bytes()])
}

/// The timeline of a session. Its home is that of [`home_hash`].
pub(crate) fn timeline_of(home: HashKey, client_id: &str) -> TimelineId {
    TimelineId::of(Space::Sessions, home, &[b"mqtt", client_id.as_bytes()])
}

/// The timeline of a session's state of exchanges.
pub(crate) fn exchanges_of(home: HashKey, client_id: &str) -> TimelineId {
    TimelineId::of(Space::Exchanges, home, &[b"mqtt", client_id.as_bytes()])
}

impl Said {
    pub fn encode(&self) -> Box<[u8]> {
        let mut out = vec![VERSION];
        match self {
            Said::Message(label) => {
                let moved = if label.old_place.is_some() { MOVED } else { 0 };
                let flags = label.qos as u8 | if label.retain { RETAIN } else { 0 } | moved;
                out.extend([0, flags]);
                out.extend(label.expire_at.to_le_bytes());
                out.extend(label.origin.to_le_bytes());
                out.extend(label.share.to_le_bytes());
                if let Some(place) = &label.old_place {
                    text(place.client.as_bytes(), &mut out);
                    out.extend(place.seq.to_le_bytes());
                }
                let ids = label.ids.iter().flat_map(|ids| ids.iter().take(IDS_MAX));
                ids.for_each(|id| out.extend(id.to_le_bytes()));
            }
            Said::Inbound(id) => {
                out.push(1);
                out.extend(id.to_le_bytes());
            }
            Said::Taken(id) => {
                out.push(3);
                out.extend(id.to_le_bytes());
            }
            Said::Released(id, seq) => {
                out.push(2);
                out.extend(id.to_le_bytes());
                out.extend(seq.to_le_bytes());
            }
        }
        out.into_boxed_slice()
    }

    pub fn decode(bytes: &[u8]) -> Option<Said> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        match from.byte()? {
            0 => {
                let flags = from.flags(QOS | RETAIN | MOVED)?;
                let (expire_at, origin) = (from.u32()?, from.u16()?);
                let share = from.u32()?;
                let old_place = match flags & MOVED {
                    0 => None,
                    _ => Some(OldPlace { client: from.text()?.into(), seq: from.u64()? }),
                };
                let (ids, rest) = from.rest().as_chunks::<4>();
                let numbers = ids.iter().map(|id| u32::from_le_bytes(*id)).collect::<Arc<[u32]>>();
                rest.is_empty().then_some(Said::Message(Label {
                    qos: Qos::of(flags & QOS)?,
                    retain: flags & RETAIN != 0,
                    expire_at,
                    origin,
                    share,
                    ids: (!numbers.is_empty()).then_some(numbers),
                    old_place,
                }))
            }
            1 => {
                let id = from.u16()?;
                from.ends(Said::Inbound(id))
            }
            2 => {
                let (id, seq) = (from.u16()?, from.u64()?);
                from.ends(Said::Released(id, seq))
            }
            3 => {
                let id = from.u16()?;
                from.ends(Said::Taken(id))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        let label = Label {
            qos: Qos::ExactlyOnce,
            retain: true,
            expire_at: 5,
            origin: 3,
            share: 4,
            ids: Some(Arc::from([7, 1 << 27])),
            old_place: None,
        };
        let old_place = Some(OldPlace { client: "ä".into(), seq: 1 << 40 });
        let moved = Label { old_place, ids: None, ..label.clone() };
        let all = [
            Said::Message(label),
            Said::Message(moved),
            Said::Inbound(7),
            Said::Released(65_535, u64::MAX),
        ];
        for said in all {
            let bytes = said.encode();
            assert_eq!(Said::decode(&bytes), Some(said));
            let cut = Said::decode(&bytes[..bytes.len() - 1]);
            assert_eq!(cut, None, "a part makes no sense");
        }
        assert_eq!(Said::decode(&[9, 1, 0, 0]), None);
    }

    #[test]
    fn a_message_weighs_what_it_will_in_the_log() {
        let publication = Publication::new("topic", &[1, 2], b"payload");
        for count in [0, 1, 56, 57] {
            for old_place in [None, Some(OldPlace { client: "ä".into(), seq: 7 })] {
                let ids = (count > 0).then(|| (0..count).collect());
                let label = Label {
                    qos: Qos::AtLeastOnce,
                    retain: false,
                    expire_at: 0,
                    origin: 0,
                    share: 0,
                    ids,
                    old_place,
                };
                let (id, at_s) = (1, 2);
                let body = row::encode(&publication);
                let kept = Said::Message(label.clone()).encode();
                let message = Message { id, at_s, label: kept, body };
                assert_eq!(label.weight(&publication) as usize, message.weight(), "{count}");
            }
        }
    }

    #[test]
    fn a_delivery_names_so_many_subscriptions_and_its_label_has_room_for_them() {
        let label = |count: u32| Label {
            qos: Qos::AtLeastOnce,
            retain: false,
            expire_at: 0,
            origin: 0,
            share: 0,
            ids: Some((0..count).collect()),
            old_place: None,
        };
        for (count, kept) in [(1, 1), (56, 56), (57, 56), (1_000, 56)] {
            let bytes = Said::Message(label(count)).encode();
            assert!(bytes.len() <= Message::LABEL_BYTES_MAX);
            assert_eq!(Said::decode(&bytes), Some(Said::Message(label(kept))), "{count}");
        }
    }

    #[test]
    fn the_longest_name_of_an_old_place_has_room_in_a_label() {
        let label = |bytes: usize| {
            let old_place = OldPlace { client: "c".repeat(bytes).into(), seq: 1 };
            assert_eq!(old_place.fits(), bytes <= OLD_CLIENT_BYTES_MAX);
            let said = Said::Message(Label {
                qos: Qos::ExactlyOnce,
                retain: false,
                expire_at: 0,
                origin: 0,
                share: 7,
                ids: Some([9].into()),
                old_place: Some(old_place),
            });
            said.encode().len()
        };
        assert_eq!(label(OLD_CLIENT_BYTES_MAX), Message::LABEL_BYTES_MAX);
        assert_eq!(label(OLD_CLIENT_BYTES_MAX + 1), Message::LABEL_BYTES_MAX + 1);
    }
}
