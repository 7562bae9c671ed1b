//! Port of bans: addresses, clients and users that are refused, for a time or permanently.
//!
//! A ban is about one subject, and a subject has at most one ban. The keeper of the list stores it
//! before it answers. Invariant: an address of this machine is banned only by a network that lies
//! within the loopback addresses, so that no wide network locks the operator out.

use crate::link::network::{IpNetwork, MAPPED_BITS};
use std::net::IpAddr;

/// Longest name of a client or user, bytes.
pub const BAN_NAME_BYTES_MAX: usize = 1_024;

/// Longest note, bytes.
pub const BAN_NOTE_BYTES_MAX: usize = 256;

/// The fewest bits of a network that bans this address: of one of this machine, those of the
/// loopback network.
pub fn bits_min(address: IpAddr) -> u8 {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_loopback() => MAPPED_BITS + 8,
        IpAddr::V6(address) if address.is_loopback() => 128,
        _ => 0,
    }
}

/// Subject of a ban.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BanSubject {
    /// An address or a network.
    Network(IpNetwork),
    /// A client of MQTT by its identifier, or a MIOP device of any product.
    Client(Box<str>),
    /// A user.
    User(Box<str>),
}

impl BanSubject {
    /// The kinds, as they are written.
    pub const KINDS: [&'static str; 3] = ["address", "client", "user"];

    /// Error for any other kind of subject.
    pub const UNKNOWN_KIND: &'static str = "the kind of a ban is address, client or user";

    /// Its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            BanSubject::Network(_) => Self::KINDS[0],
            BanSubject::Client(_) => Self::KINDS[1],
            BanSubject::User(_) => Self::KINDS[2],
        }
    }

    /// The address, network or name.
    pub fn value(&self) -> String {
        match self {
            BanSubject::Network(network) => network.to_string(),
            BanSubject::Client(name) | BanSubject::User(name) => name.to_string(),
        }
    }

    /// Parses a subject; the error says what is wrong with it.
    pub fn parse(kind: &str, value: &str) -> Result<BanSubject, &'static str> {
        let is_name = (1..=BAN_NAME_BYTES_MAX).contains(&value.len());
        let name = || is_name.then(|| value.into()).ok_or("a name has 1 to 1024 bytes");
        match kind {
            "address" => value.parse().map(BanSubject::Network).map_err(|_| {
                "an address is 192.0.2.7 or 2001:db8::7, a network 192.0.2.0/24 or 2001:db8::/32"
            }),
            "client" => name().map(BanSubject::Client),
            "user" => name().map(BanSubject::User),
            _ => Err(Self::UNKNOWN_KIND),
        }
    }

    /// Whether a ban of it refuses this address. A network refuses addresses of this machine only
    /// if it lies within the loopback addresses.
    pub fn refuses_address(&self, address: IpAddr) -> bool {
        let BanSubject::Network(network) = *self else { return false };
        network.bits() >= bits_min(address) && IpNetwork::around(address, network.bits()) == network
    }
}

/// Cause of a ban.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BanCause {
    /// An operator banned it.
    Operator,
    /// A client disconnected too often.
    Flapping,
    /// Too many logins from an address failed.
    FailedLogins,
}

impl BanCause {
    /// All.
    pub const ALL: [BanCause; 3] = [BanCause::Operator, BanCause::Flapping, BanCause::FailedLogins];

    /// The word in the list, the API and the log.
    pub const fn name(self) -> &'static str {
        match self {
            BanCause::Operator => "operator",
            BanCause::Flapping => "flapping",
            BanCause::FailedLogins => "failed_logins",
        }
    }
}

/// Effect of a ban.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BanAct {
    /// A connection or a login is refused.
    Refuses,
    /// A connection that is open is ended.
    Ends,
}

/// A ban to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BanOrder {
    /// Subject of the ban.
    pub subject: BanSubject,
    /// Its cause.
    pub cause: BanCause,
    /// Why, in the operator's words; may be empty.
    pub note: Box<str>,
    /// Author of the ban: a token's name, or empty for an automatic rule.
    pub by: Box<str>,
    /// Seconds for which it holds; 0: permanently.
    pub for_s: u32,
}

/// A ban.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ban {
    /// Subject of the ban.
    pub subject: BanSubject,
    /// Its cause.
    pub cause: BanCause,
    /// Why, in the operator's words; may be empty.
    pub note: Box<str>,
    /// Name of the ban's author.
    pub by: Box<str>,
    /// Unix second at which it was made.
    pub made_s: u32,
    /// Unix second at which it ends; 0: never.
    pub until_s: u32,
    /// Connections and logins that it refused since the server started.
    pub refused: u64,
    /// Connections that it ended.
    pub ended: u64,
}

/// Reason why a list of bans was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BanFault {
    /// The number of bans is at `bans.max`.
    Full,
    /// The store refused the write.
    NotKept,
}

/// The list of bans. One serves the process.
pub trait Bans: Send + Sync {
    /// All bans in force, in the order of their subjects.
    fn list(&self) -> Vec<Ban>;

    /// Number of bans in force.
    fn count(&self) -> u64 {
        self.list().len() as u64
    }

    /// Adds a ban, or replaces the one with its subject. When this returns, the ban is stored and
    /// in force, and its connections have ended; a busy server may still be ending some. May block.
    fn put(&self, order: BanOrder) -> Result<Ban, BanFault>;

    /// Removes a ban, for the token with this name. False: unknown ban. May block.
    fn remove(&self, subject: &BanSubject, by: &str) -> Result<bool, BanFault>;

    /// Whether a request from this address, or a login of this user, is refused. A refusal is
    /// counted. Does not block.
    fn refuses(&self, address: Option<IpAddr>, user: Option<&str>) -> bool;

    /// Whether a client or device with this name is refused. A refusal is counted. Does not block.
    fn refuses_client(&self, client: &str) -> bool {
        let _ = client;
        false
    }

    /// A login by HTTP failed. Does not block.
    fn login_failed(&self, address: IpAddr, user: Option<&str>) {
        let _ = (address, user);
    }
}

/// An empty list that refuses every new ban.
#[derive(Clone, Copy, Debug)]
pub struct NoBans;

impl Bans for NoBans {
    fn list(&self) -> Vec<Ban> {
        Vec::new()
    }

    fn put(&self, _: BanOrder) -> Result<Ban, BanFault> {
        Err(BanFault::Full)
    }

    fn remove(&self, _: &BanSubject, _: &str) -> Result<bool, BanFault> {
        Ok(false)
    }

    fn refuses(&self, _: Option<IpAddr>, _: Option<&str>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(network: &str, address: &str) -> bool {
        let network = BanSubject::parse("address", network).expect("a network");
        network.refuses_address(address.parse().expect("an address"))
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.7", "::ffff:192.0.2.7") && has("0.0.0.0/0", "192.0.2.7"));
        assert!(!has("0.0.0.0/0", "2001:db8::1") && has("::/0", "2001:db8::1"));
        assert!(has("2001:db8::/64", "2001:db8::ffff") && !has("2001:db8::/64", "2001:db8:1::"));
    }

    #[test]
    fn this_machine_is_only_in_networks_of_its_own() {
        assert!(!has("0.0.0.0/0", "127.0.0.1") && !has("::/0", "::1") && !has("::/0", "127.0.0.1"));
        assert!(!has("126.0.0.0/7", "127.0.0.1") && !has("::/127", "::1"));
        assert!(has("127.0.0.0/8", "127.0.0.1") && has("127.0.0.9", "127.0.0.9"));
        assert!(has("::1", "::1") && !has("127.0.0.9", "127.0.0.1"));
    }

    #[test]
    fn subjects_are_read_and_written() {
        for (kind, value) in [("address", "10.0.0.0/8"), ("client", "a/b"), ("user", "ann")] {
            let subject = BanSubject::parse(kind, value).expect(kind);
            assert_eq!((subject.kind(), &*subject.value()), (kind, value));
        }
        assert!(BanSubject::KINDS.iter().all(|kind| BanSubject::UNKNOWN_KIND.contains(kind)));
        let long = "x".repeat(BAN_NAME_BYTES_MAX + 1);
        for (kind, value) in [("address", "ann"), ("client", ""), ("user", &long), ("host", "a")] {
            assert!(BanSubject::parse(kind, value).is_err(), "{kind}");
        }
    }
}
