//! Nodes and items as rows.
//!
//! ```text
//! ChatNodes  home | inbox 16 | space 1 | name               ─► the node, without what is in items
//! ChatItems  home | inbox 16 | space 1 | name | 0 | number 8 ─► the id and the bytes of an item
//! ```
//! The number is big endian. Names have no zero byte, so no node's keys begin with another's.

use super::NodeName;
use super::node::{Kept, Node};
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{
    ITEM_ID_BYTES_MAX, NODE_NAME_BYTES_MAX, NodeAccess, NodeConfig, NodeItem, NodeSpace, SendLast,
};
use model::ports::log::{ROW_KEY_BYTES_MAX, RowHome};
use model::timeline::TimelineId;

const VERSION: u8 = 1;

const _: () = assert!(2 + 16 + 1 + NODE_NAME_BYTES_MAX + 1 + 8 <= ROW_KEY_BYTES_MAX);
const _: () = assert!(ITEM_ID_BYTES_MAX <= u16::MAX as usize);

const PERSISTS: u8 = 1;
const TELLS_DELETES: u8 = 2;
const TELLS_RETRACTS: u8 = 4;
const TELLS_PAYLOADS: u8 = 8;
const GONE: u8 = 16;

/// The key prefix of an account's nodes.
pub(super) fn prefix(inbox: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[])
}

/// The key of a node.
pub(super) fn node_key(inbox: TimelineId, name: &NodeName) -> Box<[u8]> {
    RowHome::key_of(inbox, &[&[space_byte(name.0)], name.1.as_bytes()])
}

/// The key of an item.
pub(super) fn item_key(inbox: TimelineId, name: &NodeName, number: u64) -> Box<[u8]> {
    let (space, number) = ([space_byte(name.0)], number.to_be_bytes());
    RowHome::key_of(inbox, &[&space, name.1.as_bytes(), &[0], &number])
}

/// The name of the node whose row has this key.
pub(super) fn name_of(inbox: TimelineId, key: &[u8]) -> Option<NodeName> {
    let rest = RowHome::rest(key)?.strip_prefix(&inbox.to_bytes()[..])?;
    let (space, name) = rest.split_first()?;
    let space = [NodeSpace::Published, NodeSpace::Kept]
        .into_iter()
        .find(|other| space_byte(*other) == *space)?;
    Some((space, std::str::from_utf8(name).ok()?.into()))
}

const fn space_byte(space: NodeSpace) -> u8 {
    match space {
        NodeSpace::Published => 0,
        NodeSpace::Kept => 1,
    }
}

/// The value of an item's row.
pub(super) fn encode_item(item: &NodeItem) -> Box<[u8]> {
    let mut out = vec![VERSION];
    put_text(&item.id, &mut out);
    out.extend_from_slice(&item.payload);
    out.into()
}

/// The item of a row.
pub(super) fn decode_item(value: &[u8]) -> Option<NodeItem> {
    let mut bytes = ByteReader::of(VERSION, value)?;
    let id = bytes.text()?.into();
    Some(NodeItem { id, payload: bytes.rest().into() })
}

impl Node {
    /// The value of the node's row.
    pub(super) fn encode(&self) -> Box<[u8]> {
        let config = &self.config;
        let flags = [
            (config.persists, PERSISTS),
            (config.tells_deletes, TELLS_DELETES),
            (config.tells_retracts, TELLS_RETRACTS),
            (config.tells_payloads, TELLS_PAYLOADS),
            (self.is_gone, GONE),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let mut out = vec![VERSION, flags, config.access as u8, config.send_last as u8];
        out.extend_from_slice(&config.items_max.to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        put_text(self.badge.as_deref().unwrap_or_default(), &mut out);
        count(config.groups.len(), &mut out);
        config.groups.iter().for_each(|group| put_text(group, &mut out));
        count(self.items.len(), &mut out);
        for Kept { id, number, bytes } in &self.items {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            put_text(id, &mut out);
        }
        count(self.subscribers.len(), &mut out);
        for (address, inbox) in &self.subscribers {
            out.extend_from_slice(&inbox.to_bytes());
            put_text(address.as_str(), &mut out);
        }
        count(self.members.len(), &mut out);
        self.members.iter().for_each(|member| put_text(member.as_str(), &mut out));
        count(self.litter.len(), &mut out);
        self.litter.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.into()
    }

    /// Decodes a node's row; `None`: it cannot be read.
    pub(super) fn decode(value: &[u8]) -> Option<Node> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let known = PERSISTS | TELLS_DELETES | TELLS_RETRACTS | TELLS_PAYLOADS | GONE;
        let flags = bytes.flags(known)?;
        let is = |flag: u8| flags & flag != 0;
        let (access, send_last) = (access(bytes.byte()?)?, send_last(bytes.byte()?)?);
        let (items_max, next) = (bytes.u32()?, bytes.u64()?);
        let badge = Some(bytes.text()?).filter(|badge| !badge.is_empty()).map(Box::from);
        let many = |bytes: &mut ByteReader<'_>| bytes.u32();
        let groups = (0..many(&mut bytes)?).map(|_| bytes.text().map(Box::from));
        let groups = groups.collect::<Option<Vec<_>>>()?.into();
        let items = (0..many(&mut bytes)?).map(|_| {
            let (number, size) = (bytes.u64()?, bytes.u32()?);
            Some(Kept { id: bytes.text()?.into(), number, bytes: size })
        });
        let items = items.collect::<Option<Vec<_>>>()?;
        let subscribers = (0..many(&mut bytes)?).map(|_| {
            let inbox = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
            Some((address(bytes.text()?)?, inbox))
        });
        let subscribers = subscribers.collect::<Option<Vec<_>>>()?;
        let members = (0..many(&mut bytes)?).map(|_| address(bytes.text()?));
        let members = members.collect::<Option<Vec<_>>>()?;
        let litter = (0..many(&mut bytes)?).map(|_| bytes.u64()).collect::<Option<Vec<_>>>()?;
        let config = NodeConfig {
            access,
            groups,
            persists: is(PERSISTS),
            items_max,
            send_last,
            tells_deletes: is(TELLS_DELETES),
            tells_retracts: is(TELLS_RETRACTS),
            tells_payloads: is(TELLS_PAYLOADS),
        };
        let is_gone = is(GONE);
        let node = Node { config, items, subscribers, members, badge, next, litter, is_gone };
        bytes.ends(node)
    }
}

fn count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

fn address(text: &str) -> Option<AccountAddress> {
    AccountAddress::parse(text, "").ok()
}

fn access(byte: u8) -> Option<NodeAccess> {
    let all = [NodeAccess::Open, NodeAccess::Presence, NodeAccess::Groups, NodeAccess::Members];
    all.into_iter().find(|access| *access as u8 == byte)
}

fn send_last(byte: u8) -> Option<SendLast> {
    let all = [SendLast::Never, SendLast::Subscribed, SendLast::Present];
    all.into_iter().find(|when| *when as u8 == byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::AccountId;

    fn whole() -> Node {
        let ann = AccountAddress::parse("ann", "a.example").expect("right");
        let inbox = ann.inbox(HashKey::new(1, 2), AccountId(7));
        let config = NodeConfig {
            access: NodeAccess::Groups,
            groups: ["work".into(), "home".into()].into(),
            items_max: u32::MAX,
            send_last: SendLast::Never,
            tells_retracts: false,
            ..NodeConfig::default()
        };
        Node {
            items: vec![Kept { id: "a".into(), number: 3, bytes: 9 }],
            subscribers: vec![(ann.clone(), inbox)],
            members: vec![ann],
            badge: Some("cafe".into()),
            next: 4,
            litter: vec![1, 2],
            ..Node::new(config)
        }
    }

    #[test]
    fn a_node_is_read_as_it_was_written_and_nothing_shorter_is_one() {
        let (whole, gone) = (whole(), Node { is_gone: true, ..Node::new(NodeConfig::default()) });
        for node in [whole, gone] {
            let row = node.encode();
            assert_eq!(Node::decode(&row), Some(node));
            for length in 0..row.len() {
                assert_eq!(Node::decode(&row[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn a_row_that_claims_more_than_it_has_is_none() {
        let mut row = Node::new(NodeConfig::default()).encode().into_vec();
        let end = row.len() - 4;
        row[end..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Node::decode(&row), None);
    }

    #[test]
    fn keys_of_items_are_in_the_order_of_their_numbers_and_apart_from_other_nodes() {
        let inbox = whole().subscribers[0].1;
        let (short, long) =
            ((NodeSpace::Published, "n".into()), (NodeSpace::Published, "nn".into()));
        let keys = [0, 1, 255, 256, u64::MAX].map(|number| item_key(inbox, &short, number));
        assert!(keys.is_sorted());
        assert!(keys.iter().all(|key| *key < item_key(inbox, &long, 0)));
        assert_eq!(name_of(inbox, &node_key(inbox, &long)), Some(long));
        let item = NodeItem { id: "x".into(), payload: b"<x/>"[..].into() };
        assert_eq!(decode_item(&encode_item(&item)), Some(item));
    }
}
