//! Ended connections: why a client was disconnected.
//!
//! Each shard keeps its newest ones in memory. A service knows whose connection it was
//! ([`Parting`]), `net` how it ended, and the two make one [`Disconnection`]. Refused logins and
//! failed TLS handshakes are included. It knows neither shards nor JSON.

use crate::close::CloseReason;
use crate::id::{ConnRef, ProductKey};
use crate::link::Protocol;
use crate::link::network::IpNetwork;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of a client's name that are kept. A longer name is cut.
pub const CLIENT_BYTES_MAX: usize = 256;

/// Most memory of one kept disconnection, with the longest name.
pub const DISCONNECTION_BYTES_MAX: usize =
    size_of::<(DisconnectionPlace, Disconnection)>() + CLIENT_BYTES_MAX;

const _: () =
    assert!(size_of::<(DisconnectionPlace, Disconnection)>() <= 200, "10,000 of them are 2 MB");

/// Facts of a service about a connection that its session or device leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parting {
    /// The connection.
    pub conn: ConnRef,
    /// Client identifier; name of the device.
    pub client: Box<str>,
    /// Product of a device.
    pub product: Option<ProductKey>,
    /// User or account.
    pub user: Option<Arc<str>>,
    /// Address, where the service knows it.
    pub peer: Option<SocketAddr>,
    /// Unix millisecond of the login, in chat to the second; 0: it was refused.
    pub since_ms: u64,
    /// Why the login was refused; empty: it was not.
    pub detail: &'static str,
}

/// One connection that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disconnection {
    /// Unix millisecond at which it ended.
    pub at_ms: u64,
    /// Client identifier, name of the device; empty: the connection ended before it was known.
    pub client: Box<str>,
    /// Product of a device.
    pub product: Option<ProductKey>,
    /// User or account.
    pub user: Option<Arc<str>>,
    /// Address; absent: the kernel forgot it before the server could ask, as after a reset.
    pub peer: Option<SocketAddr>,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Protocol; absent: it ended before that was known.
    pub protocol: Option<Protocol>,
    /// Why it ended.
    pub reason: CloseReason,
    /// More about the reason: why a login was refused, how TLS failed, or the path of the file that
    /// a browser was given. May be empty.
    pub detail: &'static str,
    /// Milliseconds since the login; absent if there was no login.
    pub lasted_ms: Option<u64>,
    /// Bytes of TCP payload from and to the peer; absent: the kernel does not tell.
    pub traffic: Option<ByteCounts>,
}

/// Bytes of TCP payload, as the kernel counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteCounts {
    /// Received from the peer.
    pub received: u64,
    /// Sent and acknowledged by the peer's kernel.
    pub acknowledged: u64,
}

/// Place of a disconnection among those of all shards, which are sorted by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DisconnectionPlace {
    /// Milliseconds of the monotonic clock.
    pub mono_ms: u64,
    /// Number of the shard.
    pub shard: u16,
    /// Number within the shard.
    pub number: u64,
}

impl fmt::Display for DisconnectionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.mono_ms, self.shard, self.number)
    }
}

/// The text is no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlace;

impl FromStr for DisconnectionPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<DisconnectionPlace, NoPlace> {
        let mut parts = text.split('-').map(|part| part.parse::<u64>().map_err(|_| NoPlace));
        let mut next = || parts.next().unwrap_or(Err(NoPlace));
        let (mono_ms, shard, number) = (next()?, next()?, next()?);
        let shard = u16::try_from(shard).map_err(|_| NoPlace)?;
        if parts.next().is_some() {
            Err(NoPlace)
        } else {
            Ok(DisconnectionPlace { mono_ms, shard, number })
        }
    }
}

/// Filter of disconnections: all that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DisconnectionFilter {
    /// Name of the client or device. `account/device` names a device of an account.
    pub client: Option<Box<str>>,
    /// Name of the user; an account may be named without its domain.
    pub user: Option<Box<str>>,
    /// Address or network of the client.
    pub address: Option<IpNetwork>,
    /// Ended for this reason.
    pub reason: Option<CloseReason>,
    /// Protocol of the connection.
    pub protocol: Option<Protocol>,
    /// Ended at this Unix millisecond or later.
    pub since_ms: Option<u64>,
    /// Ended before this Unix millisecond.
    pub until_ms: Option<u64>,
}

impl DisconnectionFilter {
    /// Whether it wants this one.
    pub fn wants(&self, it: &Disconnection) -> bool {
        let unless = |is_wanted: Option<bool>| is_wanted != Some(false);
        unless(self.reason.map(|reason| reason == it.reason))
            && unless(self.protocol.map(|protocol| Some(protocol) == it.protocol))
            && unless(self.since_ms.map(|since| it.at_ms >= since))
            && unless(self.until_ms.map(|until| it.at_ms < until))
            && unless(self.client.as_deref().map(|client| is_client(client, it)))
            && unless(self.user.as_deref().map(|user| is_user(user, it.user.as_deref())))
            && unless(self.address.map(|network| {
                it.peer.is_some_and(|peer| network.contains(peer.ip().to_canonical()))
            }))
    }
}

/// Whether the disconnection is one of this client, by the part of its name that is kept.
fn is_client(wanted: &str, it: &Disconnection) -> bool {
    if cut(wanted) == &*it.client && !wanted.is_empty() {
        return true;
    }
    let parts = wanted.rsplit_once('/').filter(|_| it.user.is_some());
    parts.is_some_and(|(user, device)| {
        cut(device) == &*it.client && is_user(user, it.user.as_deref())
    })
}

/// Whether this is the user, by the whole name or without the domain.
fn is_user(wanted: &str, user: Option<&str>) -> bool {
    let local = |user: &str| user.split_once('@').is_some_and(|(name, _)| name == wanted);
    user.is_some_and(|user| user == wanted || local(user))
}

/// The part of a client's name that is kept.
pub fn cut(client: &str) -> &str {
    &client[..client.floor_char_boundary(CLIENT_BYTES_MAX)]
}

/// A question for the newest disconnections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisconnectionQuery {
    /// Filter of the disconnections.
    pub filter: DisconnectionFilter,
    /// Only those before this place; absent: from the newest on.
    pub before: Option<DisconnectionPlace>,
    /// Maximum number.
    pub count: u32,
}

/// A page of disconnections, newest first. There may be more behind a full one.
pub type DisconnectionPage = Vec<(DisconnectionPlace, Disconnection)>;

/// Two shards' pages as one of at most `count`.
pub fn merge(mut one: DisconnectionPage, other: DisconnectionPage) -> DisconnectionPage {
    one.extend(other);
    one.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(client: &str, user: Option<&str>, peer: &str) -> Disconnection {
        Disconnection {
            at_ms: 1_000,
            client: client.into(),
            product: None,
            user: user.map(Into::into),
            peer: peer.parse().ok(),
            listener: "main".into(),
            protocol: Some(Protocol::Mqtt),
            reason: CloseReason::PeerReset,
            detail: "",
            lasted_ms: None,
            traffic: None,
        }
    }

    #[test]
    fn a_filter_wants_what_all_its_parts_want() {
        let it = ended("till-7", Some("tills@a.example"), "[::ffff:10.1.2.3]:99");
        let all = DisconnectionFilter {
            client: Some("till-7".into()),
            user: Some("tills".into()),
            address: "10.0.0.0/8".parse().ok(),
            reason: Some(CloseReason::PeerReset),
            protocol: Some(Protocol::Mqtt),
            since_ms: Some(1_000),
            until_ms: Some(1_001),
        };
        assert!(all.wants(&it) && DisconnectionFilter::default().wants(&it));
        let but = |edit: fn(&mut DisconnectionFilter)| {
            let mut filter = all.clone();
            edit(&mut filter);
            filter
        };
        for other in [
            but(|it| it.client = Some("till".into())),
            but(|it| it.client = Some("".into())),
            but(|it| it.user = Some("a.example".into())),
            but(|it| it.address = "10.1.2.4".parse().ok()),
            but(|it| it.reason = Some(CloseReason::PeerClosed)),
            but(|it| it.protocol = Some(Protocol::Xmpp)),
            but(|it| it.since_ms = Some(1_001)),
            but(|it| it.until_ms = Some(1_000)),
        ] {
            assert!(!other.wants(&it), "{other:?}");
        }
        let of_account = but(|it| it.client = Some("tills/till-7".into()));
        assert!(of_account.wants(&it), "a device of an account");
        let nobody = ended("", None, "unknown");
        assert!(!all.wants(&nobody) && DisconnectionFilter::default().wants(&nobody));
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let long = "é".repeat(200);
        assert_eq!(cut(&long).len(), CLIENT_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(cut(&odd).len(), CLIENT_BYTES_MAX - 1);
        let filter =
            DisconnectionFilter { client: Some(odd.as_str().into()), ..Default::default() };
        assert!(filter.wants(&ended(cut(&odd), None, "")), "it is found by its whole name");
    }

    #[test]
    fn a_place_survives_its_text_and_sorts_by_time() {
        let place = DisconnectionPlace { mono_ms: 12, shard: 3, number: 45 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "1", "1-2", "1-2-3-4", "a-1-2", "1-70000-2"] {
            assert_eq!(text.parse::<DisconnectionPlace>(), Err(NoPlace), "{text}");
        }
        let at = |mono_ms, shard| {
            (DisconnectionPlace { mono_ms, shard, number: 0 }, ended("", None, ""))
        };
        let merged = merge(vec![at(5, 0), at(1, 0)], vec![at(3, 1), at(1, 1)]);
        let places: Vec<_> = merged.iter().map(|(it, _)| (it.mono_ms, it.shard)).collect();
        assert_eq!(places, [(5, 0), (3, 1), (1, 1), (1, 0)]);
    }
}
