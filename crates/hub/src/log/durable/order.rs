//! An order to many devices as rows: the order itself and its progress. The cancel of a push is
//! such an order, too.
//!
//! ```text
//!  key:  0xffff, id (8, big endian) 0              the order, until it is over on every shard
//!        0xffff, id (8, big endian) 1 shard (2)    its counts, once it is
//!        0xffff, id (8) 2 shard (2) number (4)     devices that are through with it meanwhile
//!        0xffff, id (8) 3 shard (2) number (4)     outcomes of a tracked one at devices
//! ```
//! The last three name the shard that wrote them: when the number of shards changes, every log has
//! the rows of all. The timelines in a row are those of devices at which the push ended; a copy of
//! it that is still in such a timeline was about to be removed.

use super::audience;
use super::bytes::{self, text};
use base::bytes::ByteReader;
use model::id::{DeviceId, MessageId, ProductKey, SegmentName, ShardId};
use model::ports::log::RowHome;
use model::ports::pushes::PushTarget;
use model::push::{Priority, Push};
use model::timeline::TimelineId;
use model::zone::{CivilTime, LocalTime, Passed, Zone};
use std::num::NonZeroU32;
use std::sync::Arc;

const VERSION: u8 = 1;
const HIGH: u8 = 1;
const SILENT: u8 = 2;
const COLLAPSE: u8 = 4;
const TAG: u8 = 8;
const RECEIPTS: u8 = 16;
const NAMED: u8 = 32;
const CHANGE: u8 = 64;
const MORE: u8 = 128;

/// Flags of the byte that a row has if `MORE` is set.
const AHEAD: u8 = 1;
const PACED: u8 = 2;
const AUDIENCE: u8 = 4;
const NOTIFIES: u8 = 8;
const LOCAL: u8 = 16;
const TRACK: u8 = 32;

/// Flags of an order to many.
const MORE_FLAGS: u8 = AHEAD | PACED | AUDIENCE | NOTIFIES | LOCAL | TRACK;

/// Flags of counts, beside `NAMED`.
const PRODUCT: u8 = 1;
const CHANGES: u8 = 2;
const CANCELLED: u8 = 4;
const TRACKED: u8 = 8;
const CUT: u8 = 16;

/// Name of an order, by which a repeated order is recognised: hashes of its idempotency key and
/// of its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// Hash of the product and the idempotency key.
    pub key: u128,
    /// Hash of everything that must be the same when the order is repeated.
    pub content: u64,
}

/// An order to many devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredOrder {
    pub(crate) id: MessageId,
    /// Unix second at which the order was accepted.
    pub(crate) at_s: u32,
    /// The hash that chooses the shard that owns the order.
    pub(crate) home: u64,
    pub(crate) named: Option<Named>,
    pub(crate) what: Ordered,
}

/// Action of an order at its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ordered {
    /// The order sends a push.
    Push(PushToMany),
    /// The order cancels, pauses or resumes a push.
    Change(Change),
}

/// A push to a tag or a product, or one that is sent later or tracked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PushToMany {
    pub push: Arc<Push>,
    /// The audience; a list of devices only if the order is sent later or tracked, each device
    /// once.
    pub target: PushTarget,
    pub receipts: bool,
    /// The outcome of the push at each device is stored.
    pub track: bool,
    /// Unix millisecond at which the push is sent; at once when absent.
    pub send_at_ms: Option<u64>,
    /// The push is sent by the clock of each device; `send_at_ms` is that of the first zone.
    pub local: Option<Local>,
    /// Devices per second, over all shards; unlimited when absent.
    pub devices_per_s: Option<NonZeroU32>,
}

/// Sending time by the clocks of the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Local {
    pub time: LocalTime,
    /// Unix millisecond at which the push was ordered.
    pub since_ms: u64,
}

/// A change of a push that was ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub kind: ChangeKind,
    /// Id of the push that is changed.
    pub push: MessageId,
    /// Restricts the change to a push for devices of this product.
    pub product: Option<ProductKey>,
}

/// Kind of a change of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeKind {
    /// The push ends, and is recalled from the queues.
    Cancel,
    /// The push's fan-out stops until it is resumed.
    Pause,
    /// The push's fan-out goes on.
    Resume,
}

impl ChangeKind {
    fn of(byte: u8) -> Option<ChangeKind> {
        [ChangeKind::Cancel, ChangeKind::Pause, ChangeKind::Resume].get(usize::from(byte)).copied()
    }
}

impl Change {
    /// Whether the change applies to a push for devices of this product.
    pub fn is_for(&self, product: Option<&ProductKey>) -> bool {
        self.product.is_none() || self.product.as_ref() == product
    }
}

impl StoredOrder {
    /// The product whose devices get the order's push.
    pub(crate) fn product(&self) -> Option<&ProductKey> {
        self.to_many().map(|to_many| &to_many.push.product)
    }

    /// Unix millisecond at which the order's push is sent, if that is later.
    pub(crate) fn send_at_ms(&self) -> Option<u64> {
        self.to_many().and_then(|to_many| to_many.send_at_ms)
    }

    /// Its sending time by the devices' clocks, if it has one.
    pub(crate) fn local(&self) -> Option<Local> {
        self.to_many().and_then(|to_many| to_many.local)
    }

    /// Devices per second that the order visits, if limited.
    pub(crate) fn devices_per_s(&self) -> Option<NonZeroU32> {
        self.to_many().and_then(|to_many| to_many.devices_per_s)
    }

    /// Whether the order's devices are a list of their names, to which it goes without a scan.
    pub(crate) fn is_list(&self) -> bool {
        self.to_many().is_some_and(|it| matches!(it.target, PushTarget::Devices(_)))
    }

    /// Whether the outcome of the order's push at each device is stored.
    pub(crate) fn is_tracked(&self) -> bool {
        self.to_many().is_some_and(|to_many| to_many.track)
    }

    /// Whether the order's push is for devices that it names.
    pub(crate) fn names_devices(&self) -> bool {
        self.to_many().is_some_and(|to_many| match &to_many.target {
            PushTarget::Devices(_) => true,
            PushTarget::Audience(audience) => audience.devices.is_some(),
            PushTarget::Tag(_) | PushTarget::Product | PushTarget::User(_) => false,
        })
    }

    /// A segment of its audience whose expression is not put in.
    pub(crate) fn unresolved(&self) -> Option<&SegmentName> {
        match self.to_many().map(|to_many| &to_many.target) {
            Some(PushTarget::Audience(audience)) => audience.unresolved(),
            _ => None,
        }
    }

    /// Memory of the order's lists of devices, bytes.
    pub(crate) fn list_bytes(&self) -> u64 {
        match self.to_many().map(|to_many| &to_many.target) {
            Some(PushTarget::Audience(audience)) => audience.list_bytes(),
            Some(PushTarget::Devices(devices)) => size_of_val(&devices[..]) as u64,
            Some(PushTarget::Tag(_) | PushTarget::Product | PushTarget::User(_)) | None => 0,
        }
    }

    /// Forgets the names of its audience's lists for which this does not hold. Only for an order
    /// that is stored already, on a shard that does not hand it on.
    pub(crate) fn keep_names(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        if let Ordered::Push(PushToMany { push, target: PushTarget::Audience(all), .. }) =
            &mut self.what
        {
            *all = Arc::new(all.only(|name| is_kept(push.product.as_str(), name)));
        }
    }

    /// The push, if it is one.
    pub(crate) fn to_many(&self) -> Option<&PushToMany> {
        match &self.what {
            Ordered::Push(to_many) => Some(to_many),
            Ordered::Change(_) => None,
        }
    }

    /// The order's change of a push, if it is one.
    pub(crate) fn change(&self) -> Option<&Change> {
        match &self.what {
            Ordered::Push(_) => None,
            Ordered::Change(change) => Some(change),
        }
    }

    /// The product that a change names.
    pub(crate) fn names_product(&self) -> Option<&ProductKey> {
        self.change().and_then(|change| change.product.as_ref())
    }

    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        match &self.what {
            Ordered::Push(to_many) => {
                let devices = match &to_many.target {
                    PushTarget::Devices(devices) => devices.len(),
                    // All shards share the lists of an audience.
                    PushTarget::Tag(_)
                    | PushTarget::Product
                    | PushTarget::Audience(_)
                    | PushTarget::User(_) => 0,
                };
                to_many.push.body.len() + devices * size_of::<DeviceId>()
            }
            Ordered::Change(_) => 0,
        }
    }
}

/// Counts of ended devices: delivered, expired, rejected, cancelled.
pub(crate) type Ends = [u64; 4];

/// Content of a row of counts, or of a row of devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Progress {
    pub at_s: u32,
    pub ends: Ends,
    pub named: Option<Named>,
    /// The product whose devices get the order's push, or that a change names.
    pub product: Option<ProductKey>,
    /// The push that the order changes, and how.
    pub changes: Option<(MessageId, ChangeKind)>,
    /// Timelines of devices at which the push ended.
    pub through: Vec<TimelineId>,
    /// The push is tracked: whether lines of devices are missing.
    pub tracked: Option<bool>,
}

/// Kind of an order's row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Order,
    Counts(ShardId),
    Through(ShardId, u32),
    Outcomes(ShardId, u32),
}

/// The key of a row of the order.
pub(crate) fn key(id: MessageId, kind: Kind) -> Box<[u8]> {
    let mut key = RowHome::Everywhere.key(&[&id.0.to_be_bytes()]).into_vec();
    match kind {
        Kind::Order => key.push(0),
        Kind::Counts(shard) => {
            key.push(1);
            key.extend(shard.0.to_be_bytes());
        }
        Kind::Through(shard, number) => {
            key.push(2);
            key.extend(shard.0.to_be_bytes());
            key.extend(number.to_be_bytes());
        }
        Kind::Outcomes(shard, number) => {
            key.push(3);
            key.extend(shard.0.to_be_bytes());
            key.extend(number.to_be_bytes());
        }
    }
    key.into()
}

/// The beginning of the keys of a push's rows of outcomes that a shard wrote.
pub(crate) fn prefix_of_outcomes(id: MessageId, shard: ShardId) -> Box<[u8]> {
    RowHome::Everywhere.key(&[&id.0.to_be_bytes(), &[3], &shard.0.to_be_bytes()])
}

/// The order and the kind of a row, from its key.
pub(crate) fn kind(key: &[u8]) -> Option<(MessageId, Kind)> {
    let (id, rest) = RowHome::rest(key)?.split_first_chunk::<8>()?;
    let shard = |bytes: &[u8]| Some(ShardId(u16::from_be_bytes(bytes.try_into().ok()?)));
    let kind = match rest.split_first()? {
        (0, []) => Kind::Order,
        (1, rest) => Kind::Counts(shard(rest)?),
        (kind @ (2 | 3), rest) if rest.len() == 6 => {
            let number = u32::from_be_bytes(rest[2..].try_into().ok()?);
            let make = if *kind == 2 { Kind::Through } else { Kind::Outcomes };
            make(shard(&rest[..2])?, number)
        }
        _ => return None,
    };
    Some((MessageId(u64::from_be_bytes(*id)), kind))
}

/// The value of an order's row.
pub(crate) fn encode(order: &StoredOrder) -> Box<[u8]> {
    match &order.what {
        Ordered::Push(to_many) => encode_push(order, to_many),
        Ordered::Change(change) => encode_change(order, change),
    }
}

fn encode_push(order: &StoredOrder, to_many: &PushToMany) -> Box<[u8]> {
    let push = &to_many.push;
    let flags = [
        (push.priority == Priority::High, HIGH),
        (push.silent, SILENT),
        (push.collapse.is_some(), COLLAPSE),
        (matches!(to_many.target, PushTarget::Tag(_)), TAG),
        (to_many.receipts, RECEIPTS),
        (order.named.is_some(), NAMED),
        (more(to_many) != 0, MORE),
    ];
    let mut out = vec![VERSION, bits(&flags)];
    out.extend_from_slice(&push.expire_at.to_le_bytes());
    out.extend_from_slice(&order.at_s.to_le_bytes());
    out.extend_from_slice(&push.app_id.to_le_bytes());
    out.extend_from_slice(&order.home.to_le_bytes());
    text(push.product.as_str(), &mut out);
    if let Some(key) = &push.collapse {
        text(key, &mut out);
    }
    if let PushTarget::Tag(tag) = &to_many.target {
        text(tag.as_str(), &mut out);
    }
    put_named(order.named, &mut out);
    put_more(to_many, &mut out);
    out.extend_from_slice(&push.body);
    out.into()
}

fn encode_change(order: &StoredOrder, change: &Change) -> Box<[u8]> {
    let named = if order.named.is_some() { NAMED } else { 0 };
    let mut out = vec![VERSION, CHANGE | named];
    out.extend_from_slice(&order.at_s.to_le_bytes());
    out.extend_from_slice(&order.home.to_le_bytes());
    out.push(change.kind as u8);
    out.extend_from_slice(&change.push.0.to_le_bytes());
    text(change.product.as_ref().map_or("", ProductKey::as_str), &mut out);
    put_named(order.named, &mut out);
    out.into()
}

/// Decodes the value of an order's row.
pub(crate) fn decode(id: MessageId, value: &[u8]) -> Option<StoredOrder> {
    let mut from = ByteReader::of(VERSION, value)?;
    let flags = from.flags(u8::MAX)?;
    let has = |flag: u8| flags & flag != 0;
    if has(CHANGE) {
        return decode_change(id, flags, from);
    }
    let (expire_at, at_s, app_id, home) = (from.u32()?, from.u32()?, from.u32()?, from.u64()?);
    let product: ProductKey = bytes::product(&mut from)?;
    let collapse = if has(COLLAPSE) { Some(from.short_text()?.into()) } else { None };
    let tag = if has(TAG) { Some(bytes::tag(&mut from)?) } else { None };
    let named = if has(NAMED) { Some(take_named(&mut from)?) } else { None };
    let more = if has(MORE) { from.flags(MORE_FLAGS)? } else { 0 };
    let is_paced = more & PACED != 0;
    let devices_per_s = if is_paced { Some(NonZeroU32::new(from.u32()?)?) } else { None };
    let is_ahead = more & AHEAD != 0;
    let send_at_ms = if is_ahead { Some(from.u64()?) } else { None };
    let track = more & TRACK != 0;
    let devices = if is_ahead || track { take_devices(&mut from)? } else { Vec::new() };
    let local = if more & LOCAL != 0 { Some(take_local(&mut from)?) } else { None };
    let is_audience = more & AUDIENCE != 0;
    let audience = if is_audience { Some(audience::take(&mut from)?) } else { None };
    let target = match (audience, tag) {
        (Some(audience), _) => PushTarget::Audience(Arc::new(audience)),
        (None, Some(tag)) => PushTarget::Tag(tag),
        (None, None) if devices.is_empty() => PushTarget::Product,
        (None, None) => PushTarget::Devices(devices),
    };
    let priority = if has(HIGH) { Priority::High } else { Priority::Normal };
    let (silent, receipts) = (has(SILENT), has(RECEIPTS));
    let notifies = more & NOTIFIES != 0;
    let body = from.rest().into();
    let push = Push { id, product, app_id, body, collapse, expire_at, priority, silent, notifies };
    let push = Arc::new(push);
    let what = Ordered::Push(PushToMany {
        push,
        target,
        receipts,
        track,
        send_at_ms,
        local,
        devices_per_s,
    });
    Some(StoredOrder { id, at_s, home, named, what })
}

fn decode_change(id: MessageId, flags: u8, mut from: ByteReader<'_>) -> Option<StoredOrder> {
    let (at_s, home, kind) = (from.u32()?, from.u64()?, ChangeKind::of(from.byte()?)?);
    let push = MessageId(from.u64()?);
    let product = match from.short_text()? {
        "" => None,
        name => Some(ProductKey::parse(name).ok()?),
    };
    let named = if flags & NAMED != 0 { Some(take_named(&mut from)?) } else { None };
    let what = Ordered::Change(Change { kind, push, product });
    (flags & !NAMED == CHANGE).then_some(())?;
    from.ends(StoredOrder { id, at_s, home, named, what })
}

/// The value of a row of counts, or of devices.
pub(crate) fn encode_progress(progress: &Progress) -> Box<[u8]> {
    let [ends @ .., cancelled] = progress.ends;
    let flags = [
        (progress.named.is_some(), NAMED),
        (progress.product.is_some(), PRODUCT),
        (progress.changes.is_some(), CHANGES),
        (cancelled > 0, CANCELLED),
        (progress.tracked.is_some(), TRACKED),
        (progress.tracked == Some(true), CUT),
    ];
    let mut out = vec![VERSION, bits(&flags)];
    out.extend_from_slice(&progress.at_s.to_le_bytes());
    ends.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    put_named(progress.named, &mut out);
    if let Some(product) = &progress.product {
        text(product.as_str(), &mut out);
    }
    if let Some((push, kind)) = progress.changes {
        out.push(kind as u8);
        out.extend_from_slice(&push.0.to_le_bytes());
    }
    if cancelled > 0 {
        out.extend_from_slice(&cancelled.to_le_bytes());
    }
    progress.through.iter().for_each(|timeline| out.extend_from_slice(&timeline.to_bytes()));
    out.into()
}

/// Decodes the value of a row of counts, or of devices.
pub(crate) fn decode_progress(value: &[u8]) -> Option<Progress> {
    let mut from = ByteReader::of(VERSION, value)?;
    let flags = from.flags(NAMED | PRODUCT | CHANGES | CANCELLED | TRACKED | CUT)?;
    let has = |flag: u8| flags & flag != 0;
    let (at_s, mut ends) = (from.u32()?, [from.u64()?, from.u64()?, from.u64()?, 0]);
    let named = if has(NAMED) { Some(take_named(&mut from)?) } else { None };
    let product = if has(PRODUCT) { Some(bytes::product(&mut from)?) } else { None };
    let kind = if has(CHANGES) { Some(ChangeKind::of(from.byte()?)?) } else { None };
    let changes = match kind {
        Some(kind) => Some((MessageId(from.u64()?), kind)),
        None => None,
    };
    if has(CANCELLED) {
        ends[3] = from.u64()?;
    }
    let (all, left) = from.rest().as_chunks::<16>();
    let through = all.iter().map(|bytes| TimelineId::from_bytes(*bytes)).collect::<Option<_>>()?;
    let tracked = has(TRACKED).then_some(has(CUT));
    let progress = Progress { at_s, ends, named, product, changes, through, tracked };
    left.is_empty().then_some(progress)
}

/// The bits of the flags that are set.
fn bits(flags: &[(bool, u8)]) -> u8 {
    flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

/// Flags of an order with a sending time, a rate or an audience.
fn more(to_many: &PushToMany) -> u8 {
    let PushToMany { push, send_at_ms, local, devices_per_s, target, .. } = to_many;
    let is_audience = matches!(target, PushTarget::Audience(_));
    bits(&[
        (send_at_ms.is_some(), AHEAD),
        (devices_per_s.is_some(), PACED),
        (is_audience, AUDIENCE),
        (push.notifies, NOTIFIES),
        (local.is_some(), LOCAL),
        (to_many.track, TRACK),
    ])
}

/// Appends the sending time, the rate and the audience, if the order has any of them.
fn put_more(to_many: &PushToMany, out: &mut Vec<u8>) {
    let PushToMany { send_at_ms, local, devices_per_s, target, .. } = to_many;
    let more = more(to_many);
    if more != 0 {
        out.push(more);
    }
    if let Some(devices_per_s) = devices_per_s {
        out.extend_from_slice(&devices_per_s.get().to_le_bytes());
    }
    if let Some(at_ms) = send_at_ms {
        out.extend_from_slice(&at_ms.to_le_bytes());
    }
    if send_at_ms.is_some() || to_many.track {
        put_devices(target, out);
    }
    if let Some(local) = local {
        put_local(local, out);
    }
    if let PushTarget::Audience(of) = target {
        audience::put(of, out);
    }
}

/// Appends the sending time by the devices' clocks.
fn put_local(Local { time, since_ms }: &Local, out: &mut Vec<u8>) {
    out.extend_from_slice(&time.at.minutes().to_le_bytes());
    text(time.zone.as_str(), out);
    out.push(u8::from(time.passed == Passed::Skip));
    out.extend_from_slice(&since_ms.to_le_bytes());
}

fn take_local(from: &mut ByteReader<'_>) -> Option<Local> {
    let (at, zone) = (CivilTime::of_minutes(from.u32()?)?, Zone::parse(from.short_text()?)?);
    let passed = if from.flags(1)? == 1 { Passed::Skip } else { Passed::Send };
    Some(Local { time: LocalTime { at, zone, passed }, since_ms: from.u64()? })
}

/// Appends the devices that an order names; a count of zero if its audience is no list.
fn put_devices(target: &PushTarget, out: &mut Vec<u8>) {
    let devices = match target {
        PushTarget::Devices(devices) => devices.as_slice(),
        PushTarget::Tag(_)
        | PushTarget::Product
        | PushTarget::Audience(_)
        | PushTarget::User(_) => &[],
    };
    let count = u32::try_from(devices.len()).expect("push_devices_max bounds them");
    out.extend_from_slice(&count.to_le_bytes());
    devices.iter().for_each(|device| text(device.as_str(), out));
}

fn take_devices(from: &mut ByteReader<'_>) -> Option<Vec<DeviceId>> {
    let count = from.u32()?;
    (0..count).map(|_| bytes::device(from)).collect()
}

fn put_named(named: Option<Named>, out: &mut Vec<u8>) {
    if let Some(Named { key, content }) = named {
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&content.to_le_bytes());
    }
}

fn take_named(from: &mut ByteReader<'_>) -> Option<Named> {
    let key = u128::from_le_bytes(from.take(16)?.try_into().ok()?);
    Some(Named { key, content: from.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::audience::{Audience, DeviceListDraft, TagExpression};
    use model::id::{DeviceUser, Tag};
    use model::timeline::Space;

    #[test]
    fn an_order_comes_back_as_it_went() {
        let push = Push {
            id: MessageId(77),
            product: ProductKey::parse("shop").expect("allowed"),
            app_id: 8,
            body: b"\x00body".to_vec().into(),
            collapse: Some("score".into()),
            expire_at: 1_900_000_000,
            priority: Priority::High,
            silent: true,
            notifies: true,
        };
        let (tag, receipts) = (PushTarget::Tag(Tag::parse("t").expect("allowed")), true);
        let plain =
            Push { collapse: None, silent: false, priority: Priority::Normal, ..push.clone() };
        let (target, send_at_ms, devices_per_s) = (PushTarget::Product, None, None);
        let local = None;
        let push_now = Arc::new(plain);
        let plain = PushToMany {
            push: push_now,
            target,
            receipts: false,
            track: false,
            send_at_ms,
            local,
            devices_per_s,
        };
        let names = ["a", "b"].map(|name| DeviceId::parse(name).expect("allowed"));
        let later = |target| {
            let send_at_ms = Some(1_900_000_000_000);
            let devices_per_s = NonZeroU32::new(50);
            Ordered::Push(PushToMany { target, send_at_ms, devices_per_s, ..plain.clone() })
        };
        let full = StoredOrder {
            id: MessageId(77),
            at_s: 5,
            home: 1 << 63,
            named: Some(Named { key: 1 << 100, content: 9 }),
            what: Ordered::Push(PushToMany {
                push: Arc::new(push),
                target: tag,
                receipts,
                track: true,
                send_at_ms,
                local,
                devices_per_s,
            }),
        };
        let at = CivilTime::parse("2026-12-24T18:00").expect("a time");
        let zone = Zone::parse("Europe/Berlin").expect("a zone");
        let time = LocalTime { at, zone, passed: Passed::Skip };
        let zoned = Ordered::Push(PushToMany {
            send_at_ms: Some(7),
            local: Some(Local { time, since_ms: 1_900_000_000_001 }),
            track: true,
            ..plain.clone()
        });
        let zoned = StoredOrder { what: zoned, ..full.clone() };
        let cancel = |product: &str| {
            let (kind, product) = (ChangeKind::Pause, ProductKey::parse(product).ok());
            Ordered::Change(Change { kind, push: MessageId(7), product })
        };
        let list = |names: &[&str]| {
            let mut made = DeviceListDraft::default();
            names.iter().for_each(|name| made.add(name).expect("allowed"));
            Some(made.list())
        };
        let tags = Some(TagExpression::Tag(Tag::parse("t").expect("allowed")));
        let (devices, except) = (list(&["a", "b"]), list(&["c"]));
        let audience = Audience { user: DeviceUser::parse("ann"), tags, devices, except };
        let some = later(PushTarget::Audience(Arc::new(audience)));
        let some = StoredOrder { what: some, ..full.clone() };
        let listed = later(PushTarget::Devices(names.to_vec()));
        let listed = StoredOrder { what: listed, ..full.clone() };
        let later = StoredOrder { what: later(PushTarget::Product), ..full.clone() };
        let plain = StoredOrder { named: None, what: Ordered::Push(plain), ..full.clone() };
        let bound = StoredOrder { what: cancel("shop"), ..full.clone() };
        let free = StoredOrder { what: cancel(""), ..plain.clone() };
        for order in [full, plain, listed, later, bound, free, some, zoned] {
            let value = encode(&order);
            let body = if order.change().is_some() { 0 } else { b"\x00body".len() };
            assert_eq!(decode(order.id, &value), Some(order.clone()));
            for cut in 0..value.len() - body {
                assert_eq!(decode(order.id, &value[..cut]), None);
            }
            assert_eq!(decode(order.id, &[&[99], &value[1..]].concat()), None);
        }
    }

    #[test]
    fn progress_comes_back_as_it_went() {
        let of = |name: &[u8]| TimelineId::of(Space::Pushes, HashKey::new(1, 2), &[name]);
        let named = Some(Named { key: 7, content: 8 });
        let through = vec![of(b"a"), of(b"b")];
        let product = ProductKey::parse("shop").ok();
        let changes = Some((MessageId(9), ChangeKind::Resume));
        let tracked = Some(true);
        let ends = [1, 2, 3, 4];
        let progress = Progress { at_s: 3, ends, named, product, changes, through, tracked };
        let value = encode_progress(&progress);
        assert_eq!(decode_progress(&value), Some(progress));
        let head = value.len() - 32;
        let whole = |cut: usize| cut >= head && (cut - head).is_multiple_of(16);
        let read = |cut: &usize| decode_progress(&value[..*cut]).is_some();
        assert!((0..value.len()).all(|cut| read(&cut) == whole(cut)));
        assert_eq!(decode_progress(&[&[99], &value[1..]].concat()), None);
        assert_eq!(decode_progress(&encode_progress(&Progress::default())).expect("whole").at_s, 0);
    }

    #[test]
    fn a_key_says_what_its_row_is() {
        let kinds = [Kind::Order, Kind::Counts(ShardId(3)), Kind::Through(ShardId(4), 1 << 20)];
        for said in kinds {
            let key = key(MessageId(1 << 40), said);
            assert_eq!(kind(&key), Some((MessageId(1 << 40), said)));
            assert!((0..key.len()).all(|cut| kind(&key[..cut]).is_none()));
            assert_eq!(kind(&[&key, &b"x"[..]].concat()), None);
        }
    }
}
