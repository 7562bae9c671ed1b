//! Rows: sessions, their subscriptions, their wills.
//!
//! ```text
//!  Sessions       slot 2, client id    1 | flags | expiry_s 4 | since_s 4 | sent_upto 8 |
//!                                      user 2+n | protocol 2+n | account's number 8, if flagged
//!  Subscriptions  slot 2, client id,   1 | options | retain handling | subscription id 4 |
//!                 0, hash 8            filter 2+n
//!  Wills          slot 2, client id,   1 | flags | delay_s 4 | expiry_s 4 | due_s 4 | message
//! ```
//! Little endian. The client identifier has no NUL in it (MQTT5 1.5.4-2), or is at least found
//! again: the key of a subscription ends with nine bytes that are not its. Decoding trusts nothing.

use super::bytes::text;
use super::entries::{exchanges_of, home_hash, timeline_of};
use crate::retained::row;
use crate::session::principals::Principal;
use crate::session::record::Session;
use base::bytes::ByteReader;
use base::hash::HashKey;
use model::ports::log::{RowHome, Table};
use model::session::Will;
use model::timeline::TimelineId;
use model::topic::Qos;
use std::sync::Arc;

const VERSION: u8 = 1;
const ONLINE: u8 = 1;
const HAS_USER: u8 = 2;
const BRIDGE: u8 = 4;
const SENT_MORE: u8 = 8;
const HAS_ACCOUNT: u8 = 16;
const QOS: u8 = 3;
const RETAIN: u8 = 4;

/// Row of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SessionRow {
    pub online: bool,
    pub bridge: bool,
    pub expiry_s: u32,
    pub since_s: u32,
    /// The highest place that was sent, as far as it was known.
    pub sent_upto: u64,
    /// Whether more may have been sent before the last start, which is not known yet.
    pub sent_more: bool,
    pub user: Option<Box<str>>,
    pub protocol: Box<str>,
    /// The number of the user's account. Rows of earlier builds have none.
    pub account: Option<u64>,
}

/// Row of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SubscriptionRow {
    pub options: u8,
    pub subscription_id: Option<u32>,
    pub filter: Box<str>,
}

/// The key of a session's row.
pub(crate) fn session_key(home: HashKey, client_id: &str) -> Box<[u8]> {
    home_of(home, client_id).key(&[client_id.as_bytes()])
}

/// The timelines of a row's session, for messages and for exchanges, each with a description of the
/// owner; empty if the row belongs to no session.
pub fn owners_of_row(home: HashKey, table: Table, key: &[u8]) -> Vec<(TimelineId, String)> {
    let Some(id) = session_of(key).filter(|_| table == Table::Sessions) else { return Vec::new() };
    let name = format!("session {id}");
    vec![(timeline_of(home, id), name.clone()), (exchanges_of(home, id), name)]
}

/// The client identifier in the key of a session's row.
pub(crate) fn session_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(RowHome::rest(key)?).ok()
}

/// Where everything of a client lives.
fn home_of(home: HashKey, client_id: &str) -> RowHome {
    RowHome::at(home_hash(home, client_id))
}

/// The row of a session as it is now.
pub(crate) fn session_row(session: &Session, of: &Principal, protocol: &str) -> Box<[u8]> {
    let row = SessionRow {
        online: session.conn().is_some(),
        bridge: session.is_bridge(),
        expiry_s: session.expiry_s(),
        since_s: session.since_s(),
        sent_upto: session.queue().map_or(0, |queue| queue.sent_upto()),
        sent_more: session.queue().is_some_and(|queue| queue.sent_more()),
        user: of.user.as_deref().map(Box::from),
        protocol: protocol.into(),
        account: of.uid(),
    };
    row.encode()
}

impl SessionRow {
    pub fn encode(&self) -> Box<[u8]> {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = bit(self.online, ONLINE)
            | bit(self.user.is_some(), HAS_USER)
            | bit(self.bridge, BRIDGE)
            | bit(self.sent_more, SENT_MORE)
            | bit(self.account.is_some(), HAS_ACCOUNT);
        let mut out = vec![VERSION, flags];
        out.extend(self.expiry_s.to_le_bytes());
        out.extend(self.since_s.to_le_bytes());
        out.extend(self.sent_upto.to_le_bytes());
        text(self.user.as_deref().unwrap_or_default().as_bytes(), &mut out);
        text(self.protocol.as_bytes(), &mut out);
        out.extend(self.account.iter().flat_map(|uid| uid.to_le_bytes()));
        out.into_boxed_slice()
    }

    pub fn decode(bytes: &[u8]) -> Option<SessionRow> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let flags = from.flags(ONLINE | HAS_USER | BRIDGE | SENT_MORE | HAS_ACCOUNT)?;
        let row = SessionRow {
            online: flags & ONLINE != 0,
            bridge: flags & BRIDGE != 0,
            expiry_s: from.u32()?,
            since_s: from.u32()?,
            sent_upto: from.u64()?,
            sent_more: flags & SENT_MORE != 0,
            user: Some(from.text()?.into()).filter(|_| flags & HAS_USER != 0),
            protocol: from.text()?.into(),
            account: match flags & HAS_ACCOUNT {
                0 => None,
                _ => Some(from.u64()?),
            },
        };
        from.ends(row)
    }
}

/// The key of a subscription's row.
pub(crate) fn subscription_key(home: HashKey, client_id: &str, filter: &str) -> Box<[u8]> {
    let hash = home.of(&[filter.as_bytes()]).to_be_bytes();
    home_of(home, client_id).key(&[client_id.as_bytes(), &[0], &hash])
}

/// The client identifier in the key of a subscription's row, or of a will's.
pub(crate) fn subscriber(key: &[u8]) -> Option<&str> {
    let key = RowHome::rest(key)?;
    let (id, rest) = key.split_at_checked(key.len().checked_sub(9)?)?;
    (rest[0] == 0).then(|| std::str::from_utf8(id).ok()).flatten()
}

impl SubscriptionRow {
    pub fn encode(&self) -> Box<[u8]> {
        let mut out = vec![VERSION, self.options];
        out.extend(self.subscription_id.unwrap_or(0).to_le_bytes());
        text(self.filter.as_bytes(), &mut out);
        out.into_boxed_slice()
    }

    pub fn decode(bytes: &[u8]) -> Option<SubscriptionRow> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let row = SubscriptionRow {
            options: from.byte()?,
            subscription_id: Some(from.u32()?).filter(|&id| id != 0),
            filter: from.text()?.into(),
        };
        from.ends(row)
    }
}

/// The key of a will's row: a client may have a new one before the last is where it has to be.
pub(crate) fn will_key(home: HashKey, client_id: &str, number: u64) -> Box<[u8]> {
    home_of(home, client_id).key(&[client_id.as_bytes(), &[0], &number.to_be_bytes()])
}

/// The row of a will; `due_s`: the Unix second at which it is published, 0: not known yet.
pub(crate) fn will_row(will: &Will, due_s: u32) -> Box<[u8]> {
    let flags = will.message.qos as u8 | if will.message.retain { RETAIN } else { 0 };
    let mut out = vec![VERSION, flags];
    for value in [will.delay_s, will.expiry_s, due_s] {
        out.extend(value.to_le_bytes());
    }
    out.extend_from_slice(&row::encode(&will.message));
    out.into_boxed_slice()
}

/// The will of a row, and when it is due.
pub(crate) fn will_of(bytes: &[u8]) -> Option<(Will, u32)> {
    let mut from = ByteReader::of(VERSION, bytes)?;
    let flags = from.flags(QOS | RETAIN)?;
    let (delay_s, expiry_s, due_s) = (from.u32()?, from.u32()?, from.u32()?);
    let mut message = row::decode(from.rest())?;
    (message.qos, message.retain) = (Qos::of(flags & QOS)?, flags & RETAIN != 0);
    Some((Will { message: Arc::new(message), delay_s, expiry_s }, due_s))
}
