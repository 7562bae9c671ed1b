//! A push as a message: its label has the fields that the queue needs, its body those for the
//! device.
//!
//! The message's id is the push's; its timeline tells the device. A push with an idempotency key
//! must have the same bytes when its order is repeated later, so its expiry counts from the time in
//! its id, which the store does not compare, and its body holds a hash of the listed devices.

use super::bytes::text;
use base::bytes::ByteReader;
use model::id::{MessageId, ProductKey};
use model::push::{Priority, Push};
use model::timeline::Message;

const VERSION: u8 = 1;
const HIGH: u8 = 1;
const SILENT: u8 = 2;
const COLLAPSE: u8 = 4;
/// The label's expiry counts seconds from the time in the id.
const FROM_ID: u8 = 8;
const NOTIFIES: u8 = 16;
/// The body holds a hash of the order's devices.
const LISTED: u8 = 1;

/// Fields of a push that a queue needs while the body is in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    /// Unix second after which the push must not be delivered.
    pub expire_at: u32,
    /// The push's weight in a queue, bytes.
    pub weight: u32,
    /// The push's urgency.
    pub priority: Priority,
    /// Asks the application on the device to show nothing.
    pub silent: bool,
    /// The body is a document with a notification.
    pub notifies: bool,
    /// Collapse key: a newer push with the same key replaces this one.
    pub collapse: Option<Box<str>>,
}

/// The Unix second in an id.
pub(crate) fn made_s(id: MessageId) -> u32 {
    ((MessageId::EPOCH_MS + (id.0 >> 22)) / 1_000) as u32
}

/// The message that stores a push. `listed` is the hash of its devices, if it is stored under an
/// idempotency key.
pub(crate) fn message(push: &Push, at_s: u32, listed: Option<u64>) -> Message {
    let from_id = listed.filter(|_| push.stores()).map(|_| made_s(push.id));
    let flags = [
        (push.priority == Priority::High, HIGH),
        (push.silent, SILENT),
        (push.notifies, NOTIFIES),
        (push.collapse.is_some(), COLLAPSE),
        (from_id.is_some(), FROM_ID),
    ];
    let mut label = vec![VERSION, flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()];
    let end = push.expire_at.saturating_sub(from_id.unwrap_or(0));
    label.extend_from_slice(&end.to_le_bytes());
    label.extend_from_slice(&(push.weight() as u32).to_le_bytes());
    if let Some(key) = &push.collapse {
        text(key, &mut label);
    }
    let mut body = Vec::with_capacity(14 + push.body.len());
    body.extend([VERSION, if listed.is_some() { LISTED } else { 0 }]);
    body.extend_from_slice(&push.app_id.to_le_bytes());
    if let Some(hash) = listed {
        body.extend_from_slice(&hash.to_le_bytes());
    }
    body.extend_from_slice(&push.body);
    Message { id: push.id.0, at_s, label: label.into(), body: body.into() }
}

/// Decodes the label of a message with this id.
pub(crate) fn label(id: MessageId, bytes: &[u8]) -> Option<Label> {
    let mut from = ByteReader::of(VERSION, bytes)?;
    let flags = from.flags(HIGH | SILENT | COLLAPSE | FROM_ID | NOTIFIES)?;
    let (end, weight) = (from.u32()?, from.u32()?);
    let expire_at = match flags & FROM_ID {
        0 => end,
        _ => made_s(id).saturating_add(end),
    };
    let collapse = match flags & COLLAPSE {
        0 => None,
        _ => Some(from.short_text()?.into()),
    };
    let priority = if flags & HIGH == 0 { Priority::Normal } else { Priority::High };
    let (silent, notifies) = (flags & SILENT != 0, flags & NOTIFIES != 0);
    from.ends(Label { expire_at, weight, priority, silent, notifies, collapse })
}

/// Decodes the push that a message stores for a device of this product.
pub(crate) fn push(product: &ProductKey, message: &Message) -> Option<Push> {
    let id = MessageId(message.id);
    let label = label(id, &message.label)?;
    let mut from = ByteReader::of(VERSION, &message.body)?;
    let flags = from.flags(LISTED)?;
    let app_id = from.u32()?;
    if flags & LISTED != 0 {
        from.u64()?;
    }
    Some(Push {
        id,
        product: product.clone(),
        app_id,
        body: from.rest().into(),
        collapse: label.collapse,
        expire_at: label.expire_at,
        priority: label.priority,
        silent: label.silent,
        notifies: label.notifies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::NodeId;

    fn example() -> Push {
        Push {
            id: MessageId::after(0, 1_800_000_000_000, NodeId::ALONE),
            product: ProductKey::parse("p").expect("allowed"),
            app_id: 8,
            body: b"\x00body".to_vec().into(),
            collapse: Some("score".into()),
            expire_at: 1_900_000_000,
            priority: Priority::High,
            silent: true,
            notifies: true,
        }
    }

    #[test]
    fn a_push_comes_back_with_all_it_carries() {
        let example = example();
        for listed in [None, Some(77)] {
            let kept = message(&example, 5, listed);
            assert_eq!(push(&example.product, &kept), Some(example.clone()));
            super::super::refuses_every_cut(&kept.label, |bytes| label(example.id, bytes));
            // A shorter body is still a body; its head is whole or nothing.
            let head = if listed.is_some() { 14 } else { 6 };
            for cut in 0..head {
                let body = kept.body[..cut].into();
                assert_eq!(push(&example.product, &Message { body, ..kept.clone() }), None);
            }
        }
        let plain = Push { collapse: None, silent: false, notifies: false, ..example };
        assert_eq!(push(&plain.product, &message(&plain, 5, None)), Some(plain));
    }

    #[test]
    fn a_repeated_order_has_the_same_bytes() {
        let example = example();
        let live_s = example.expire_at - made_s(example.id);
        let id = MessageId::after(0, 1_800_000_060_000, NodeId::ALONE);
        let again = Push { id, expire_at: made_s(id) + live_s, ..example.clone() };
        let [first, second] =
            [(&example, 5), (&again, 65)].map(|(push, at_s)| message(push, at_s, Some(3)));
        assert_eq!((first.label, first.body), (second.label, second.body));
    }
}
