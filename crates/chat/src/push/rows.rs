//! Rows of an account's pushes: registrations, quiet hours, and the mark of debts.
//!
//! ```text
//! key      home │ inbox (16) │ kind (1) │ name of the registration
//! 1 mark           since u32 │ told u64 │ badges, two u32
//! 2 quiet          from u16 │ to u16 │ offset u16
//! 3 registration   route (1) │ account │ device │ app │ token, or product │ device,
//!                  or service │ node │ how many options (1) │ name │ value, each
//! ```
//! Texts are preceded by their lengths. Invariant: decoding restores the encoded value.

use super::BADGED;
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{PushRegistration, PushRoute, PushService, QuietHours};
use model::ports::log::{ROWS_MAX, Read, Row, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};

const VERSION: u8 = 1;

const GATEWAY: u8 = 0;
const MIOP: u8 = 1;
const SERVICE: u8 = 2;

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    Mark = 1,
    Quiet = 2,
    Registration = 3,
}

/// The mark of an account's debts, as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Mark {
    /// Time of the first owed message, Unix seconds; 0: none is owed.
    pub(super) since_s: u32,
    /// Notifications up to this offset of the inbox are done.
    pub(super) told: Seq,
    /// The unread count that devices were last sent, by way.
    pub(super) badges: [u32; BADGED],
}

/// All rows of an account except its mark.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Rows {
    pub(super) registrations: Vec<PushRegistration>,
    /// The account of the registrations, as of the last one.
    pub(super) address: Option<AccountAddress>,
    pub(super) quiet: Option<QuietHours>,
}

pub(super) fn key_of(inbox: TimelineId, kind: Kind, name: &str) -> Box<[u8]> {
    RowHome::key_of(inbox, &[&[kind as u8], name.as_bytes()])
}

/// Reads all rows of an account.
pub(super) fn read(inbox: TimelineId) -> Read {
    let prefix = RowHome::key_of(inbox, &[]);
    Read::Rows { table: Table::ChatPushes, prefix, after: None, count: ROWS_MAX }
}

pub(super) fn put(inbox: TimelineId, (kind, name): (Kind, &str), value: Box<[u8]>) -> Write {
    Write::Put { table: Table::ChatPushes, key: key_of(inbox, kind, name), value }
}

pub(super) fn delete(inbox: TimelineId, (kind, name): (Kind, &str)) -> Write {
    Write::Delete { table: Table::ChatPushes, key: key_of(inbox, kind, name) }
}

/// The inbox, kind and name of a row, from its key.
pub(super) fn names(key: &[u8]) -> Option<(TimelineId, Kind, &str)> {
    let (inbox, rest) = RowHome::parts_of(key)?;
    let (kind, name) = rest.split_first()?;
    let all = [Kind::Mark, Kind::Quiet, Kind::Registration];
    let kind = all.into_iter().find(|one| *one as u8 == *kind)?;
    Some((inbox, kind, std::str::from_utf8(name).ok()?))
}

impl Rows {
    /// Decodes the rows of an account. A row that cannot be read is skipped.
    pub(super) fn of(rows: &[Row]) -> Rows {
        let mut it = Rows::default();
        for (key, value) in rows {
            match names(key) {
                Some((_, Kind::Registration, name)) => {
                    if let Some((address, registration)) = registration(name, value) {
                        it.address = Some(address);
                        it.registrations.push(registration);
                    }
                }
                Some((_, Kind::Quiet, _)) => it.quiet = quiet_hours(value),
                Some((_, Kind::Mark, _)) | None => {}
            }
        }
        it
    }
}

impl Mark {
    pub(super) fn encode(self) -> Box<[u8]> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.since_s.to_le_bytes());
        out.extend_from_slice(&self.told.to_le_bytes());
        self.badges.iter().for_each(|badge| out.extend_from_slice(&badge.to_le_bytes()));
        out.into()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Mark> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let (since_s, told) = (bytes.u32()?, bytes.u64()?);
        let badges = [bytes.u32()?, bytes.u32()?];
        bytes.ends(Mark { since_s, told, badges })
    }
}

pub(super) fn encode_quiet(hours: QuietHours) -> Box<[u8]> {
    let QuietHours { from_min, to_min, offset_min } = hours;
    let numbers = [from_min, to_min, offset_min as u16].map(u16::to_le_bytes).concat();
    [&[VERSION][..], &numbers].concat().into()
}

fn quiet_hours(value: &[u8]) -> Option<QuietHours> {
    let mut bytes = ByteReader::of(VERSION, value)?;
    let (from_min, to_min, offset_min) = (bytes.u16()?, bytes.u16()?, bytes.u16()? as i16);
    bytes.ends(QuietHours::of(from_min, to_min, offset_min)?)
}

pub(super) fn encode_registration(
    address: &AccountAddress,
    registration: &PushRegistration,
) -> Box<[u8]> {
    let (kind, first, second) = match &registration.route {
        PushRoute::Gateway { app, token } => (GATEWAY, &**app, &**token),
        PushRoute::Miop { product, device } => (MIOP, product.as_str(), device.as_str()),
        PushRoute::Service(service) => (SERVICE, &*service.address, &*service.node),
    };
    let mut out = vec![VERSION, kind];
    for text in [address.as_str(), &registration.device, first, second] {
        put_text(text, &mut out);
    }
    if let PushRoute::Service(service) = &registration.route {
        out.push(service.options.len() as u8);
        for (name, value) in &service.options {
            put_text(name, &mut out);
            put_text(value, &mut out);
        }
    }
    out.into()
}

pub(super) fn registration(name: &str, value: &[u8]) -> Option<(AccountAddress, PushRegistration)> {
    let mut bytes = ByteReader::of(VERSION, value)?;
    let kind = bytes.byte()?;
    let address = AccountAddress::parse(bytes.text()?, "").ok()?;
    let device = bytes.text()?.into();
    let (first, second) = (bytes.text()?, bytes.text()?);
    let route = match kind {
        GATEWAY => PushRoute::gateway(first, second)?,
        MIOP => PushRoute::miop(first, second)?,
        SERVICE => {
            let mut options = Vec::new();
            for _ in 0..bytes.byte()? {
                options.push((bytes.text()?.into(), bytes.text()?.into()));
            }
            PushRoute::Service(Box::new(PushService::new(first, second, options)?))
        }
        _ => return None,
    };
    bytes.ends((address, PushRegistration { name: name.into(), device, route }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn service(options: &[(&str, &str)]) -> PushRoute {
        let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let it = PushService::new("push.example", "a node", options.collect());
        PushRoute::Service(Box::new(it.expect("allowed")))
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let inbox = TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[b"ann"]);
        let address = AccountAddress::parse("ann@a.example", "").expect("right");
        let routes = [
            PushRoute::gateway("chat", "a token").expect("allowed"),
            PushRoute::miop("shop", "phone").expect("allowed"),
            service(&[("secret", "s"), ("secret", ""), ("other", "\u{fc}<")]),
            service(&[]),
        ];
        let mut rows = Vec::new();
        let mut written = Vec::new();
        for (at, route) in (0..).zip(routes) {
            let name: Box<str> = format!("device {at}").into();
            let registration = PushRegistration { name: name.clone(), device: "d".into(), route };
            let value = encode_registration(&address, &registration);
            for end in 0..value.len() {
                assert_eq!(super::registration(&name, &value[..end]), None, "{end}");
            }
            rows.push((key_of(inbox, Kind::Registration, &name), value));
            written.push(registration);
        }
        let quiet = QuietHours::of(22 * 60, 7 * 60, -90);
        rows.push((key_of(inbox, Kind::Quiet, ""), encode_quiet(quiet.expect("hours"))));
        rows.push((key_of(inbox, Kind::Mark, ""), Mark::default().encode()));
        rows.push((key_of(inbox, Kind::Quiet, "broken"), [9, 9].into()));
        rows.pop();
        let read = Rows::of(&rows);
        assert_eq!(read, Rows { registrations: written, address: Some(address), quiet });
        assert_eq!(names(&rows[0].0), Some((inbox, Kind::Registration, "device 0")));
        assert_eq!(names(&rows[0].0[..10]), None);
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark { since_s: 7, told: 1 << 40, badges: [3, u32::MAX] };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        assert_eq!(Mark::decode(&mark.encode()[1..]), None);
    }
}
