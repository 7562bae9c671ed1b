//! The row of a schedule.
//!
//! ```text
//!  key:    slot, product, 0xff, name
//!  value:  version, flags (1), zone, cron line, [from (4)], [until (4)], [count (4)],
//!          last time (4), pushes sent (4), number of ids (1), ids (8 each), id (8), push
//! ```
//! The push is the row of an order whose expiry is its time to live.

use super::bytes::text;
use super::order::{self, Ordered, PushToMany, StoredOrder};
use crate::schedules::SavedSchedule;
use base::bytes::ByteReader;
use model::calendar::{Calendar, LAST_IDS_MAX, Schedule};
use model::id::{MessageId, ProductKey, ScheduleName};
use model::ports::log::RowHome;
use model::ports::pushes::PushOrder;
use model::push::Push;
use model::zone::{CivilTime, Zone};
use std::sync::Arc;

const VERSION: u8 = 1;
const LOCAL: u8 = 1;
const FROM: u8 = 2;
const UNTIL: u8 = 4;
const COUNT: u8 = 8;
const PAUSED: u8 = 16;

/// The key of a schedule's row.
pub(crate) fn key(product: &ProductKey, schedule: &ScheduleName) -> Box<[u8]> {
    let (product, schedule) = (product.as_str().as_bytes(), schedule.as_str().as_bytes());
    RowHome::PROCESS.key(&[product, &[0xff], schedule])
}

/// The names in the key of a schedule's row.
pub(crate) fn names(key: &[u8]) -> Option<(ProductKey, ScheduleName)> {
    let key = RowHome::rest(key)?;
    let at = key.iter().position(|&byte| byte == 0xff)?;
    let product = ProductKey::from_bytes(&key[..at]).ok()?;
    Some((product, ScheduleName::from_bytes(&key[at + 1..]).ok()?))
}

/// The value of a schedule's row.
pub(crate) fn encode(saved: &SavedSchedule) -> Box<[u8]> {
    let SavedSchedule { schedule, last, sent, last_ids, paused } = saved;
    let Schedule { name: _, calendar, zone, local, from, until, count, push } = schedule;
    let flags = [
        (*local, LOCAL),
        (from.is_some(), FROM),
        (until.is_some(), UNTIL),
        (count.is_some(), COUNT),
        (*paused, PAUSED),
    ];
    let flags = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
    let mut out = vec![VERSION, flags];
    text(zone.as_str(), &mut out);
    text(calendar.line(), &mut out);
    let mut number = |number: u32| out.extend_from_slice(&number.to_le_bytes());
    [from, until].into_iter().flatten().for_each(|time| number(time.minutes()));
    count.iter().for_each(|count| number(*count));
    number(last.minutes());
    number(*sent);
    out.push(u8::try_from(last_ids.len()).expect("LAST_IDS_MAX is of 8 bits"));
    last_ids.iter().chain([&push.id]).for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
    out.extend_from_slice(&order::encode(&template(push)));
    out.into()
}

/// Decodes the row of a schedule with this name.
pub(crate) fn decode(name: ScheduleName, value: &[u8]) -> Option<SavedSchedule> {
    let mut from_bytes = ByteReader::of(VERSION, value)?;
    let it = &mut from_bytes;
    let flags = it.flags(LOCAL | FROM | UNTIL | COUNT | PAUSED)?;
    let has = |flag: u8| flags & flag != 0;
    let zone = Zone::parse(it.short_text()?)?;
    let calendar = Calendar::cron(it.short_text()?).ok()?;
    let from = if has(FROM) { Some(CivilTime::of_minutes(it.u32()?)?) } else { None };
    let until = if has(UNTIL) { Some(CivilTime::of_minutes(it.u32()?)?) } else { None };
    let count = if has(COUNT) { Some(it.u32()?) } else { None };
    let (last, sent, ids) = (CivilTime::of_minutes(it.u32()?)?, it.u32()?, it.byte()?);
    let ids = usize::from(ids).min(LAST_IDS_MAX);
    let last_ids = (0..ids).map(|_| it.u64().map(MessageId)).collect::<Option<Vec<_>>>()?;
    let id = MessageId(it.u64()?);
    let push = push(order::decode(id, from_bytes.rest())?)?;
    let (local, paused) = (has(LOCAL), has(PAUSED));
    let schedule = Schedule { name, calendar, zone, local, from, until, count, push };
    Some(SavedSchedule { schedule, last, sent, last_ids, paused })
}

/// The push as an order that is not given.
fn template(order: &PushOrder) -> StoredOrder {
    let push = Push {
        id: order.id,
        product: order.product.clone(),
        app_id: 0,
        body: order.body.clone(),
        collapse: order.collapse.clone(),
        expire_at: order.time_to_live_s,
        priority: order.priority,
        silent: order.silent,
        notifies: order.notifies,
    };
    let what = Ordered::Push(PushToMany {
        push: Arc::new(push),
        target: order.target.clone(),
        receipts: order.receipts,
        track: order.track,
        // The devices of a list are written with a time.
        send_at_ms: Some(0),
        local: None,
        devices_per_s: order.devices_per_s,
    });
    StoredOrder { id: order.id, at_s: 0, home: 0, named: None, what }
}

fn push(order: StoredOrder) -> Option<PushOrder> {
    let Ordered::Push(to_many) = order.what else { return None };
    let PushToMany { push, target, receipts, track, devices_per_s, .. } = to_many;
    let Push { id, product, body, collapse, expire_at, priority, silent, notifies, .. } =
        Push::clone(&push);
    Some(PushOrder {
        collapse,
        time_to_live_s: expire_at,
        priority,
        silent,
        notifies,
        receipts,
        track,
        devices_per_s,
        ..PushOrder::new(id, product, target, body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::DeviceId;
    use model::ports::pushes::PushTarget;
    use model::push::Priority;
    use std::num::NonZeroU32;

    #[test]
    fn a_schedule_comes_back_as_it_went() {
        let name = ScheduleName::parse("morning").expect("allowed");
        let product = ProductKey::parse("shop").expect("allowed");
        let time = |text| CivilTime::parse(text);
        let devices = ["a", "b"].map(|name| DeviceId::parse(name).expect("allowed"));
        let target = PushTarget::Devices(devices.into());
        let push = PushOrder {
            collapse: Some("k".into()),
            time_to_live_s: 3_600,
            priority: Priority::High,
            silent: true,
            receipts: true,
            track: true,
            devices_per_s: NonZeroU32::new(5),
            ..PushOrder::new(MessageId(77), product.clone(), target, b"hello".to_vec().into())
        };
        let full = Schedule {
            name: name.clone(),
            calendar: Calendar::cron("0 9 * * 1").expect("a line"),
            zone: Zone::parse("Europe/Berlin").expect("a zone"),
            local: true,
            from: time("2026-12-01T00:00"),
            until: time("2027-12-01T00:00"),
            count: Some(9),
            push,
        };
        let plain = Schedule { local: false, from: None, until: None, count: None, ..full.clone() };
        for (schedule, paused) in [(full, true), (plain, false)] {
            let last = time("2026-12-07T09:00").expect("a time");
            let last_ids = vec![MessageId(1 << 50), MessageId(9)];
            let saved = SavedSchedule { schedule, last, sent: 3, last_ids, paused };
            let value = encode(&saved);
            assert_eq!(decode(name.clone(), &value), Some(saved));
            let cuts = 0..value.len() - b"hello".len();
            assert!(cuts.into_iter().all(|cut| decode(name.clone(), &value[..cut]).is_none()));
        }
        assert_eq!(names(&key(&product, &name)), Some((product, name)));
    }
}
