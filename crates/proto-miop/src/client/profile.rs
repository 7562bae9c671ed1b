//! Profile of simulated devices: what many have in common.
//!
//! One profile is shared by all its devices; what differs follows from a device's number. Nonces
//! come from the profile's seed, which whoever makes the profile draws from the operating system.

use crate::codec::Version;
use crate::sign;
use model::id::{DeviceId, ProductKey, Tag};
use model::request::HeartbeatWish;

/// Profile of a plan's devices: what they have in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Profile {
    /// The version they speak.
    pub version: Version,
    /// Their product.
    pub product: ProductKey,
    /// Their names.
    pub name: DeviceNames,
    /// Proof that the devices bring.
    pub prove: Prove,
    /// Heartbeat they wish; classic versions say `want_s` only.
    pub heartbeat: HeartbeatWish,
    /// Unacknowledged pushes they can hold; zero: no wish. Version 7.
    pub inflight_max: u16,
    /// How they acknowledge.
    pub acks: PushAckMode,
    /// Whether the devices fetch stored pushes themselves. Version 7.
    pub pulls: bool,
    /// Whether the devices resume their session when they reconnect. Version 7.
    pub resumes: bool,
    /// Whether the devices ask to be woken for heartbeats; otherwise the virtual client orders
    /// them.
    pub beats: bool,
    /// Tags they set; none leave them as they are. Version 7.
    pub tags: Vec<Tag>,
    /// Seed of nonces: random, never used for another profile.
    pub nonce_seed: [u8; 32],
}

/// Names of devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceNames {
    /// This one.
    Exactly(DeviceId),
    /// This, a hyphen, and the device's number.
    Numbered(String),
}

/// Kind of proof that a device brings of its name.
#[derive(Clone, PartialEq, Eq)]
pub enum Prove {
    /// No proof.
    Nothing,
    /// A signature with a product's secret: HMAC in version 7, `sign` in classic versions.
    Secret {
        /// Number of the secret. Version 7.
        key_id: u32,
        /// The secret.
        bytes: Box<[u8]>,
    },
    /// A bearer token. Version 7.
    Token(Box<[u8]>),
    /// The certificate of its TLS connection. Version 7 says so; classic versions need not.
    Certificate,
}

/// Mode in which a device acknowledges pushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushAckMode {
    /// Never acknowledges: the server sends all again.
    Never,
    /// Each by its id, in one frame for all that came at once.
    Each,
    /// Acknowledges everything up to the highest id that came. Version 7; classic versions do as
    /// `Each`.
    UpTo,
    /// Acknowledges everything up to the highest id, with the next heartbeat. Version 7; else as
    /// `Each`.
    OnPing,
}

impl Profile {
    /// Anonymous devices `PREFIX-NUMBER` with no wishes, that acknowledge each push.
    pub fn new(version: Version, product: ProductKey, prefix: &str) -> Profile {
        Profile {
            version,
            product,
            name: DeviceNames::Numbered(prefix.to_owned()),
            prove: Prove::Nothing,
            heartbeat: HeartbeatWish::default(),
            inflight_max: 0,
            acks: PushAckMode::Each,
            pulls: false,
            resumes: false,
            beats: false,
            tags: Vec::new(),
            nonce_seed: [0; 32],
        }
    }

    /// The id of device `number`.
    pub fn device(&self, number: u32) -> String {
        match &self.name {
            DeviceNames::Exactly(id) => id.as_str().to_owned(),
            DeviceNames::Numbered(prefix) => format!("{prefix}-{number}"),
        }
    }

    /// The nonce of a device's Bind: the same for the same arguments, so that a challenge can be
    /// answered without keeping it.
    pub(super) fn nonce(&self, number: u32, bind_ms: u64, binds: u8) -> [u8; 16] {
        let mut bytes = [0; 13];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..12].copy_from_slice(&bind_ms.to_be_bytes());
        bytes[12] = binds;
        *sign::mac(&self.nonce_seed, &bytes).first_chunk().expect("16 of 32 bytes")
    }
}
