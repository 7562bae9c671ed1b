//! Requests that the server machine of a push protocol makes to the hub, and deliveries of the hub
//! through that machine.
//!
//! Words of the model: no protocol's opcodes and codes. One connection may carry several Binds
//! (MIOP 5 does); `term` says which of them is meant, counted from zero in the order of arrival.

use crate::close::CloseReason;
use crate::id::{DeviceId, DeviceRef, MessageId, ProductKey, ShardId, Tag};
use crate::push::{Push, Rejection};
use base::hash::{self, HashKey};
use std::net::SocketAddr;
use std::sync::Arc;

/// Request of a machine to the hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushRequest {
    /// Attach a device to this connection. Answered by `Bound`, `Refused` or `Challenge`.
    Bind(Box<Bind>),
    /// Detach it, with a farewell. Answered by `Unbound`.
    Unbind {
        /// Number of the Bind on its connection.
        term: u16,
        /// The device.
        device: DeviceRef,
    },
    /// The device has these pushes: `upto` with all that were sent before it, and those in `ids`.
    Ack {
        /// The device.
        device: DeviceRef,
        /// The last push received; everything sent before it is acknowledged too. A push that is no
        /// longer queued acknowledges nothing.
        upto: Option<MessageId>,
        /// Single pushes.
        ids: Vec<MessageId>,
    },
    /// The device cannot be sent this push over this connection.
    Unsendable {
        /// The device.
        device: DeviceRef,
        /// The push.
        id: MessageId,
        /// Reason why the push cannot be sent.
        why: Rejection,
    },
    /// Send up to `count` stored pushes that came after `after`. Answered by deliveries, then
    /// `Pulled`.
    Pull {
        /// Number of the Bind on its connection.
        term: u16,
        /// The device.
        device: DeviceRef,
        /// Id of the last push that the device has; if that push is no longer queued, from the
        /// front.
        after: MessageId,
        /// The most it wants, at least 1.
        count: u16,
    },
    /// A Report of the device. Answered by `ReportTaken` or `ReportRefused`.
    Report {
        /// Number of the Bind on its connection.
        term: u16,
        /// The device.
        device: DeviceRef,
        /// The device's own number for it, rising by one.
        seq: u32,
        /// Opaque bytes.
        body: Box<[u8]>,
    },
    /// All that was delivered for the device so far has been written to the socket, as
    /// [`PushDelivery::TellWritten`] asked.
    Written {
        /// The device.
        device: DeviceRef,
    },
    /// The connection ended while this device was bound to it.
    Closed {
        /// The device.
        device: DeviceRef,
        /// Why the connection ended.
        reason: CloseReason,
    },
}

impl PushRequest {
    /// The shard that owns the request's device, of `shards` shards. `key` is the key that chooses
    /// shards.
    pub fn owner(&self, (key, shards): (HashKey, u16)) -> ShardId {
        match self {
            PushRequest::Bind(bind) => owner((key, shards), &bind.product, &bind.device),
            PushRequest::Unbind { device, .. }
            | PushRequest::Ack { device, .. }
            | PushRequest::Unsendable { device, .. }
            | PushRequest::Pull { device, .. }
            | PushRequest::Report { device, .. }
            | PushRequest::Written { device }
            | PushRequest::Closed { device, .. } => device.shard(),
        }
    }
}

/// The shard that owns a device, of `shards`: what `Outbox::home` computes from the same two names.
pub fn owner((key, shards): (HashKey, u16), product: &ProductKey, device: &DeviceId) -> ShardId {
    let hash = key.of(&[product.as_str().as_bytes(), device.as_str().as_bytes()]);
    ShardId(hash::home(hash, shards))
}

/// Fields of a Bind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// Number of the Bind on its connection.
    pub term: u16,
    /// Product of the device.
    pub product: ProductKey,
    /// The device.
    pub device: DeviceId,
    /// Credentials of the device.
    pub proof: Proof,
    /// The protocol, for events and queries: `miop5`, `miop6`, `miop7`.
    pub protocol: &'static str,
    /// The peer's address; absent for a further device of a connection (MIOP 5), which no longer
    /// knows it, and for local sockets.
    pub peer: Option<SocketAddr>,
    /// Whether the peer's address is of this machine.
    pub from_loopback: bool,
    /// Whether the connection was accepted only to be answered BUSY.
    pub crowded: bool,
    /// Heartbeat the device wishes, in seconds; zeros mean no wish.
    pub heartbeat: HeartbeatWish,
    /// Unacknowledged pushes the device can hold; zero means no wish.
    pub inflight_max: u16,
    /// Push that came last: it is acknowledged by this, and all that were sent before it.
    pub last_id: Option<MessageId>,
    /// The session it wants to go on with.
    pub resume: Option<Resume>,
    /// The device fetches stored pushes itself (`Pull`) instead of having them sent.
    pub pulls: bool,
    /// Tags to set on the device; `None` leaves them.
    pub tags: Option<Vec<Tag>>,
}

/// Heartbeat that a device wishes, seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeartbeatWish {
    /// The heartbeat that the device prefers; zero: no preference.
    pub want_s: u16,
    /// Shortest it accepts; zero: no wish.
    pub min_s: u16,
    /// Longest it accepts; zero: no wish.
    pub max_s: u16,
}

/// A session to go on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The token that came with the session.
    pub token: [u8; 32],
    /// The session's epoch.
    pub epoch: u64,
}

/// Proof that a Bind is the device's.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// No proof.
    None,
    /// HMAC-SHA256 over `signed` with one of the product's secrets.
    Hmac {
        /// Number of the secret.
        key_id: u32,
        /// The bytes that were signed.
        signed: Box<[u8]>,
        /// The signature.
        mac: [u8; 32],
        /// The device's nonce, for the replay filter.
        nonce: [u8; 16],
        /// The device's clock, Unix milliseconds.
        device_ms: u64,
        /// Whether the hub's own challenge is part of the signed bytes.
        challenged: bool,
    },
    /// The first 16 bytes of HMAC-SHA256 over `signed` with the product's newest secrets (any
    /// may match): what fits the 32 hex digits of a classic `sign`.
    Classic {
        /// The bytes that were signed.
        signed: Box<[u8]>,
        /// The signature.
        sign: [u8; 16],
        /// The device's clock, Unix milliseconds.
        device_ms: u64,
    },
    /// A bearer token.
    Token(Box<[u8]>),
    /// The identity in a verified client certificate.
    Certificate(Box<str>),
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Proof::None => "None",
            Proof::Hmac { .. } => "Hmac",
            Proof::Classic { .. } => "Classic",
            Proof::Token(_) => "Token",
            Proof::Certificate(_) => "Certificate",
        })
    }
}

/// Delivery of the hub through a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushDelivery {
    /// The device is bound.
    Bound(Box<Bound>),
    /// The Bind was refused. A connection with no other bound device ends.
    Refused(Box<Refused>),
    /// The Bind must be repeated with this nonce in what it signs.
    Challenge {
        /// Number of the Bind on its connection.
        term: u16,
        /// The nonce.
        nonce: [u8; 16],
    },
    /// A push for the device.
    Push {
        /// Number of the Bind on its connection.
        term: u16,
        /// The push.
        push: Arc<Push>,
        /// Whether the push was sent before and not acknowledged.
        again: bool,
    },
    /// Say `Written` once all that was delivered before this has been written to the socket.
    TellWritten {
        /// Number of the Bind on its connection.
        term: u16,
    },
    /// The pull is answered; `remaining` stored pushes are left.
    Pulled {
        /// Number of the Bind on its connection.
        term: u16,
        /// Stored pushes not sent yet.
        remaining: u32,
    },
    /// The hub took responsibility for the device's Reports up to this number.
    ReportTaken {
        /// Number of the Bind on its connection.
        term: u16,
        /// The device's number.
        seq: u32,
    },
    /// The Report was not taken.
    ReportRefused {
        /// Number of the Bind on its connection.
        term: u16,
        /// The device's number.
        seq: u32,
        /// Reason of the refusal.
        why: Refusal,
    },
    /// The device was detached as asked. A connection with no other bound device ends.
    Unbound {
        /// Number of the Bind on its connection.
        term: u16,
    },
    /// The device is detached by the server: `Replaced`, `AdminKick`, `Redirect`.
    Kick(Box<Kick>),
    /// The server is about to stop; reconnect after this time, to one of `addrs` if any.
    GoAway {
        /// Milliseconds.
        retry_after_ms: u32,
        /// `ip:port`, at most four.
        addrs: Vec<String>,
    },
    /// New terms for a bound device.
    Configure {
        /// Number of the Bind on its connection.
        term: u16,
        /// Seconds.
        heartbeat_s: u16,
        /// Unacknowledged pushes.
        inflight_max: u16,
    },
}

/// A device was bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Number of the Bind on its connection.
    pub term: u16,
    /// The device's record.
    pub device: DeviceRef,
    /// Number of this session; higher than that of every earlier one of the device.
    pub epoch: u64,
    /// The earlier session goes on: what it had in flight is resent.
    pub resumed: bool,
    /// Token to go on with this session.
    pub token: [u8; 32],
    /// The agreed heartbeat, seconds, jitter included.
    pub heartbeat_s: u16,
    /// Unacknowledged pushes the hub will keep on the way.
    pub inflight_max: u16,
    /// Milliseconds after which an unacknowledged push is sent again.
    pub ack_ms: u32,
    /// Stored pushes.
    pub offline_count: u32,
    /// The server's clock, Unix milliseconds.
    pub server_ms: u64,
    /// Largest frame the server takes, bytes.
    pub frame_bytes_max: u32,
    /// The product's number.
    pub app_id: u32,
}

/// A Bind was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Number of the Bind on its connection.
    pub term: u16,
    /// Reason of the refusal.
    pub why: Refusal,
    /// Milliseconds after which to try again, jitter included; zero: do not.
    pub retry_after_ms: u32,
    /// Where to try, `ip:port`, at most four.
    pub addrs: Vec<String>,
    /// Name that the client claimed, for the log: `product/device`.
    pub who: Option<Box<str>>,
}

impl Refused {
    /// The refusal of a Bind, without a time and a place to try again.
    pub fn of(bind: &Bind, why: Refusal) -> Refused {
        let who = Some(format!("{}/{}", bind.product, bind.device).into());
        Refused { term: bind.term, why, retry_after_ms: 0, addrs: Vec::new(), who }
    }
}

/// A device was detached by the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kick {
    /// Number of the Bind on its connection.
    pub term: u16,
    /// Reason of the kick for the device.
    pub why: Refusal,
    /// Epoch of the session that took over, for `Replaced`.
    pub epoch: u64,
    /// Milliseconds after which to come back; zero: do not.
    pub retry_after_ms: u32,
    /// Where to go, `ip:port`, at most four.
    pub addrs: Vec<String>,
}

/// Reason why the hub says no.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// The proof is missing, of a kind the product does not accept, or wrong.
    AuthFailed,
    /// The device's clock is too far from the server's.
    ClockSkew,
    /// The nonce was used before.
    Replayed,
    /// Unknown product.
    UnknownProduct,
    /// The device is blocked.
    DeviceBlocked,
    /// The address or the device is banned.
    Banned,
    /// Too many requests at once; retry later.
    Busy,
    /// The connection limit is reached; retry later.
    Full,
    /// A quota is exceeded.
    Quota,
    /// The server is shutting down; retry later.
    Draining,
    /// Connect to another server.
    Redirect,
    /// A newer connection of the device took over.
    Replaced,
    /// An operator ended the connection.
    AdminKick,
    /// The frame is not allowed in this state.
    Malformed,
}

impl Refusal {
    /// The word in logs and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::AuthFailed => "auth_failed",
            Refusal::ClockSkew => "clock_skew",
            Refusal::Replayed => "replayed",
            Refusal::UnknownProduct => "unknown_product",
            Refusal::DeviceBlocked => "device_blocked",
            Refusal::Banned => "banned",
            Refusal::Busy => "busy",
            Refusal::Full => "full",
            Refusal::Quota => "quota",
            Refusal::Draining => "draining",
            Refusal::Redirect => "redirect",
            Refusal::Replaced => "replaced",
            Refusal::AdminKick => "admin_kick",
            Refusal::Malformed => "malformed",
        }
    }

    /// How a connection ends that is ended for this.
    pub const fn close_reason(self) -> CloseReason {
        match self {
            Refusal::AuthFailed => CloseReason::AuthFailed,
            Refusal::ClockSkew => CloseReason::ClockSkew,
            Refusal::Replayed => CloseReason::Replayed,
            Refusal::UnknownProduct => CloseReason::UnknownProduct,
            Refusal::DeviceBlocked => CloseReason::DeviceBlocked,
            Refusal::Banned => CloseReason::Banned,
            Refusal::Busy => CloseReason::Busy,
            Refusal::Full => CloseReason::Full,
            Refusal::Quota => CloseReason::Quota,
            Refusal::Draining => CloseReason::Draining,
            Refusal::Redirect => CloseReason::Redirected,
            Refusal::Replaced => CloseReason::Replaced,
            Refusal::AdminKick => CloseReason::AdminKick,
            Refusal::Malformed => CloseReason::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_ends_with_the_reason_of_its_name() {
        use Refusal::*;
        let all = [
            AuthFailed,
            ClockSkew,
            Replayed,
            UnknownProduct,
            DeviceBlocked,
            Busy,
            Full,
            Quota,
            Draining,
            Replaced,
            AdminKick,
            Malformed,
        ];
        for refusal in all {
            assert_eq!(refusal.name(), refusal.close_reason().name());
        }
        assert_eq!(Redirect.name(), "redirect");
        assert_eq!(Redirect.close_reason(), CloseReason::Redirected);
    }

    #[test]
    fn a_proof_is_not_shown() {
        let secret: Box<[u8]> = b"hush".as_slice().into();
        let hmac = Proof::Hmac {
            key_id: 1,
            signed: secret.clone(),
            mac: [7; 32],
            nonce: [7; 16],
            device_ms: 1,
            challenged: true,
        };
        let classic = Proof::Classic { signed: secret.clone(), sign: [7; 16], device_ms: 1 };
        let certificate = Proof::Certificate("d-1".into());
        let shown = [Proof::None, hmac, classic, Proof::Token(secret), certificate]
            .map(|proof| format!("{proof:?}"));
        assert_eq!(shown, ["None", "Hmac", "Classic", "Token", "Certificate"]);
    }
}
