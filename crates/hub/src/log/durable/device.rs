//! A device's row: its state as kept while it is away and across restarts.
//!
//! The key is slot, product, 0xff, device: no name contains that byte. Close reasons and protocols
//! are written as words, because their numbers may change; an unknown word is read as none.

use super::bytes::{self, text};
use base::bytes::ByteReader;
use base::hash::HashKey;
use model::close::CloseReason;
use model::id::{DeviceId, DeviceUser, MessageId, ProductKey, Tag};
use model::ports::log::RowHome;
use model::push::PlatformToken;
use model::timeline::Seq;
use model::zone::Zone;
use std::sync::Arc;

const VERSION: u8 = 1;
/// Version of a row that ends with a time zone.
const ZONED: u8 = 2;
const BLOCKED: u8 = 1;
const BOUND: u8 = 2;
const ONLINE: u8 = 4;
const THROUGH: u8 = 8;
const BARRED: u8 = 16;
const USER: u8 = 32;
const CUT: u8 = 64;
const PLATFORM: u8 = 128;

/// Protocols whose names can come back from a row: the record holds names of the program only.
const PROTOCOLS: [&str; 3] = ["miop5", "miop6", "miop7"];

/// Row of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DeviceRow {
    /// The device is blocked.
    pub blocked: bool,
    /// The device was bound at least once.
    pub bound: bool,
    /// The device was online when the row was written.
    pub online: bool,
    /// The device's last session must not be resumed.
    pub barred: bool,
    /// Epoch of the device's last session.
    pub epoch: u64,
    /// Unix millisecond since when the device is online, offline or known.
    pub since_ms: u64,
    /// Close reason of the device's last connection, if the device was offline.
    pub reason: Option<CloseReason>,
    /// Name of the protocol of the device's last session, or empty.
    pub protocol: &'static str,
    /// The device's tags.
    pub tags: Vec<Tag>,
    /// Id of an order: no order to many up to it is still to visit the device. Zero: not recorded.
    pub through: u64,
    /// The user to whom the device belongs.
    pub user: Option<DeviceUser>,
    /// The device's time zone.
    pub zone: Option<Zone>,
    /// Pushes that are not for the device's user, if it has changed hands.
    pub cut: Option<Cut>,
    /// The device's address at its platform, and the offset up to which its pushes have gone there.
    pub platform: Option<(Arc<PlatformToken>, Seq)>,
}

/// Pushes that were queued for a device before it was given to another user. They are told by their
/// places in the device's timeline: ids do not rise there without exception.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cut {
    /// The pushes up to this offset.
    pub through: Seq,
    /// Pushes whose offsets were not known yet.
    pub ids: Vec<MessageId>,
}

impl Cut {
    /// Whether a push was queued before; its offset is zero if it is not known.
    pub fn has(&self, seq: Seq, id: MessageId) -> bool {
        (1..=self.through).contains(&seq) || self.ids.contains(&id)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.ids.len()).expect("pushes at the log are bounded");
        out.extend_from_slice(&self.through.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        self.ids.iter().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
    }

    fn take(from: &mut ByteReader<'_>) -> Option<Cut> {
        let (through, count) = (from.u64()?, from.u32()?);
        let ids = (0..count).map(|_| from.u64().map(MessageId)).collect::<Option<_>>()?;
        Some(Cut { through, ids })
    }
}

/// The key of a device's row.
pub(crate) fn key(home: HashKey, product: &str, device: &str) -> Box<[u8]> {
    let (product, device) = (product.as_bytes(), device.as_bytes());
    RowHome::at(home.of(&[product, device])).key(&[product, &[0xff], device])
}

/// The names in the key of a device's row.
pub(crate) fn names(key: &[u8]) -> Option<(ProductKey, DeviceId)> {
    let key = RowHome::rest(key)?;
    let at = key.iter().position(|&byte| byte == 0xff)?;
    let product = ProductKey::from_bytes(&key[..at]).ok()?;
    Some((product, DeviceId::from_bytes(&key[at + 1..]).ok()?))
}

/// The value of a device's row.
pub(crate) fn encode(row: &DeviceRow) -> Box<[u8]> {
    let mut out = vec![if row.zone.is_some() { ZONED } else { VERSION }];
    let flags = [
        (row.blocked, BLOCKED),
        (row.bound, BOUND),
        (row.online, ONLINE),
        (row.through != 0, THROUGH),
        (row.barred, BARRED),
        (row.user.is_some(), USER),
        (row.cut.is_some(), CUT),
        (row.platform.is_some(), PLATFORM),
    ];
    out.push(flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
    out.extend_from_slice(&row.epoch.to_le_bytes());
    out.extend_from_slice(&row.since_ms.to_le_bytes());
    text(row.reason.map_or("", CloseReason::name), &mut out);
    text(row.protocol, &mut out);
    let count = u16::try_from(row.tags.len()).expect("tags_a_device_max is of 16 bits");
    out.extend_from_slice(&count.to_le_bytes());
    row.tags.iter().for_each(|tag| text(tag.as_str(), &mut out));
    if row.through != 0 {
        out.extend_from_slice(&row.through.to_le_bytes());
    }
    if let Some(user) = &row.user {
        text(user.as_str(), &mut out);
    }
    if let Some(cut) = &row.cut {
        cut.put(&mut out);
    }
    if let Some((token, through)) = &row.platform {
        text(&token.platform, &mut out);
        let length = u16::try_from(token.token.len()).expect("TOKEN_BYTES_MAX is of 16 bits");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(token.token.as_bytes());
        out.extend_from_slice(&through.to_le_bytes());
    }
    if let Some(zone) = row.zone {
        text(zone.as_str(), &mut out);
    }
    out.into()
}

/// Decodes the value of a device's row.
pub(crate) fn decode(value: &[u8]) -> Option<DeviceRow> {
    let is_zoned = value.first() == Some(&ZONED);
    let mut from = ByteReader::of(if is_zoned { ZONED } else { VERSION }, value)?;
    let flags = from.flags(u8::MAX)?;
    let (epoch, since_ms) = (from.u64()?, from.u64()?);
    let word = from.short_text()?;
    let reason = CloseReason::ALL.iter().find(|reason| reason.name() == word).copied();
    let word = from.short_text()?;
    let protocol = PROTOCOLS.into_iter().find(|name| *name == word).unwrap_or("");
    let count = from.u16()?;
    let tags = (0..count).map(|_| bytes::tag(&mut from)).collect::<Option<Vec<_>>>()?;
    let [blocked, bound, online, barred] =
        [BLOCKED, BOUND, ONLINE, BARRED].map(|bit| flags & bit != 0);
    let through = if flags & THROUGH == 0 { 0 } else { from.u64()? };
    let has_user = flags & USER != 0;
    let user = if has_user { Some(DeviceUser::parse(from.short_text()?)?) } else { None };
    let cut = if flags & CUT == 0 { None } else { Some(Cut::take(&mut from)?) };
    let has_platform = flags & PLATFORM != 0;
    let platform = if has_platform { Some(take_platform(&mut from)?) } else { None };
    // A zone that this version's data lacks is none.
    let zone = if is_zoned { Zone::parse(from.short_text()?) } else { None };
    let row = DeviceRow {
        user,
        zone,
        cut,
        platform,
        blocked,
        bound,
        online,
        barred,
        epoch,
        since_ms,
        reason,
        protocol,
        tags,
        through,
    };
    from.ends(row)
}

fn take_platform(from: &mut ByteReader<'_>) -> Option<(Arc<PlatformToken>, Seq)> {
    let platform = from.short_text()?.into();
    let length = from.u16()?;
    let token = std::str::from_utf8(from.take(length.into())?).ok()?.into();
    let token = PlatformToken { platform, token };
    let through = from.u64()?;
    token.is_allowed().then(|| (Arc::new(token), through))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_comes_back_as_it_went() {
        let tags = ["a", "b"].map(|name| Tag::parse(name).expect("allowed"));
        let row = DeviceRow {
            blocked: true,
            bound: true,
            online: false,
            barred: true,
            epoch: 1 << 60,
            since_ms: 1_800_000_000_123,
            reason: Some(CloseReason::KeepAliveTimeout),
            protocol: "miop6",
            tags: tags.into(),
            through: 1 << 41,
            user: DeviceUser::parse("ann@example.org"),
            zone: Zone::parse("Europe/Berlin"),
            cut: Some(Cut { through: 1 << 42, ids: [7, 1 << 60].map(MessageId).into() }),
            platform: Some((
                Arc::new(PlatformToken { platform: "web".into(), token: "t".repeat(300).into() }),
                1 << 43,
            )),
        };
        assert_eq!(decode(&encode(&row)), Some(row.clone()));
        assert_eq!(decode(&encode(&DeviceRow::default())), Some(DeviceRow::default()));
        let unzoned = DeviceRow { zone: None, ..row.clone() };
        assert_eq!(decode(&encode(&unzoned)), Some(unzoned));
        super::super::refuses_every_cut(&encode(&row), decode);
    }

    #[test]
    fn a_key_says_both_names() {
        let key = key(HashKey::new(1, 2), "shop", "d-1");
        let (product, device) = names(&key).expect("made by us");
        assert_eq!((product.as_str(), device.as_str()), ("shop", "d-1"));
        let home = HashKey::new(1, 2).of(&[b"shop", b"d-1"]);
        assert_eq!(RowHome::of(&key), RowHome::at(home));
        let none = [&b"shop"[..], b"shop\xff", b"\xffd", b"s\xffd\xff"];
        assert!(none.iter().all(|rest| names(&[b"ab", *rest].concat()).is_none()));
        assert!(names(b"s").is_none());
    }
}
