//! Names of orders: hashes by which a repeated order is recognised, and that choose the shard that
//! owns an order.

use crate::lists::hashes_of;
use crate::log::durable::order::{Change, Named};
use base::hash::HashKey;
use model::audience::{Audience, TagExpression};
use model::id::{DeviceUser, MessageId, ProductKey};
use model::ports::pushes::{PushOrder, PushTarget};
use model::push::Priority;
use model::zone::{LocalTime, Passed};

/// The hash that chooses the shard to which an order for a tag or a product goes. `home` is the key
/// of [`Settings::home`](crate::Settings::home).
pub fn order_home(home: HashKey, order: &PushOrder) -> u64 {
    match &order.idempotency_key {
        Some(key) => home.of(&[b"order", order.product.as_str().as_bytes(), key.as_bytes()]),
        None => home.of(&[b"order", &order.id.0.to_be_bytes()]),
    }
}

/// The hash that chooses the shard to which the cancel of a push goes, for any audience of the
/// push.
pub fn cancel_home(home: HashKey, push: MessageId) -> u64 {
    home.of(&[b"cancel", &push.0.to_be_bytes()])
}

/// The name of a cancel; a repeated cancel has the same.
pub(super) fn name_of_cancel(home: HashKey, change: &Change) -> Named {
    let product = change.product.as_ref().map_or("", ProductKey::as_str);
    let parts: [&[u8]; 3] = [b"cancels", &change.push.0.to_be_bytes(), product.as_bytes()];
    Named { key: name_key(home, parts), content: 0 }
}

pub(crate) fn name_key(home: HashKey, parts: [&[u8]; 3]) -> u128 {
    let (first, second) = hashes_of(home, &parts);
    u128::from(first) << 64 | u128::from(second)
}

/// The hashes of an order's idempotency key and of all that must be the same in a repeated order.
pub(crate) fn named(home: HashKey, order: &PushOrder, live_s: u32) -> Option<Named> {
    let name = order.idempotency_key.as_deref()?;
    let parts: [&[u8]; 3] = [b"named", order.product.as_str().as_bytes(), name.as_bytes()];
    let tag = match &order.target {
        PushTarget::Tag(tag) => tag.as_str(),
        PushTarget::Devices(_)
        | PushTarget::Product
        | PushTarget::Audience(_)
        | PushTarget::User(_) => "",
    };
    let audience = match &order.target {
        PushTarget::Audience(audience) => Some(audience_hash(home, audience)),
        PushTarget::Devices(_) | PushTarget::Tag(_) | PushTarget::Product | PushTarget::User(_) => {
            None
        }
    };
    // An order that is sent later is an order to many, whatever its audience.
    let ahead =
        order.send_at_ms.map(|at_ms| (at_ms.to_le_bytes(), names_hash(home, &order.target)));
    let local = order.local.as_ref().map(|local| local_hash(home, local, &order.target));
    // `notifies` has a bit of its own: a body of the same bytes may be data or a document.
    let shown = u8::from(order.silent) | u8::from(order.notifies) << 1;
    let flags = [u8::from(order.priority == Priority::High), shown];
    let collapse = order.collapse.as_deref().unwrap_or("");
    let (live_s, mut content) = (live_s.to_le_bytes(), Vec::with_capacity(9));
    let tracked = order.track.then(|| names_hash(home, &order.target));
    let pace = order.devices_per_s.map(|rate| rate.get().to_le_bytes());
    content.extend([tag.as_bytes(), &live_s, &flags, collapse.as_bytes(), &order.body]);
    if let Some((at_ms, names)) = &ahead {
        content.extend([&at_ms[..], &names[..]]);
    }
    if let Some(local) = &local {
        content.extend([&b"local"[..], &local[..]]);
    }
    if let Some(names) = &tracked {
        content.extend([&b"track"[..], &names[..]]);
    }
    if let Some(pace) = &pace {
        content.extend([&b"pace"[..], &pace[..]]);
    }
    if let Some(audience) = &audience {
        content.push(audience);
    }
    Some(Named { key: name_key(home, parts), content: home.of(&content) })
}

/// The hash of the listed devices.
fn names_hash(home: HashKey, target: &PushTarget) -> [u8; 8] {
    let names: Vec<&[u8]> = match target {
        PushTarget::Devices(devices) => devices.iter().map(|id| id.as_str().as_bytes()).collect(),
        PushTarget::Tag(_)
        | PushTarget::Product
        | PushTarget::Audience(_)
        | PushTarget::User(_) => Vec::new(),
    };
    home.of(&names).to_le_bytes()
}

/// The hash of a sending time by the devices' clocks, and of the listed devices.
fn local_hash(home: HashKey, local: &LocalTime, target: &PushTarget) -> [u8; 8] {
    let (at, zone) = (local.at.minutes().to_le_bytes(), local.zone.as_str().as_bytes());
    let skips = u8::from(local.passed == Passed::Skip);
    home.of(&[&at, zone, &[skips], &names_hash(home, target)]).to_le_bytes()
}

/// The hash of an audience as it was ordered: a segment is its name.
fn audience_hash(home: HashKey, audience: &Audience) -> [u8; 8] {
    let mut words = Vec::new();
    audience.tags.iter().for_each(|tags| put_words(tags, &mut words));
    let lists = [&audience.devices, &audience.except].map(|list| {
        let names = list.as_ref().map(|list| list.iter().map(str::as_bytes).collect::<Vec<_>>());
        names.map_or(0, |names| home.of(&names)).to_le_bytes()
    });
    let user = audience.user.as_ref().map_or("", DeviceUser::as_str).as_bytes();
    home.of(&[b"audience", user, &words, &lists[0], &lists[1]]).to_le_bytes()
}

/// Appends an expression in Polish notation.
fn put_words(tags: &TagExpression, words: &mut Vec<u8>) {
    let (sign, name, parts): (u8, &str, &[TagExpression]) = match tags {
        TagExpression::Tag(tag) => (b't', tag.as_str(), &[]),
        TagExpression::Segment(name, _) => (b's', name.as_str(), &[]),
        TagExpression::And(parts) => (b'&', "", parts),
        TagExpression::Or(parts) => (b'|', "", parts),
        TagExpression::Not(tags) => (b'!', "", std::slice::from_ref(&**tags)),
    };
    words.extend([sign, parts.len() as u8]);
    words.extend_from_slice(name.as_bytes());
    words.push(b' ');
    parts.iter().for_each(|tags| put_words(tags, words));
}
