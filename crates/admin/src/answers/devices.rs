//! Devices: their state, and results of operators' calls.

use crate::texts::{CloseWord, Decimal, Version, ZoneName};
use model::close::CloseReason;
use model::ports::pushes::DeviceState;
use model::zone::Zone;
use schemars::JsonSchema;
use serde::Serialize;

/// State of a device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Device {
    /// Key of its product.
    product: String,
    /// Its name.
    device: String,
    /// Whether it is online.
    online: bool,
    /// `miop5`, `miop6`, `miop7`; empty if it never bound.
    protocol: &'static str,
    /// Number of its last session, 64 bits as text; 0 if it never bound.
    #[schemars(with = "Decimal")]
    epoch: String,
    /// Unix millisecond since which it is online or offline; 0 if it never bound.
    since_ms: u64,
    /// Unix millisecond at which it was last known to be connected; 0: never.
    seen_ms: u64,
    /// Version of its last transition: 64 bits as sixteen hexadecimal digits, so that texts sort as
    /// versions do.
    #[schemars(with = "Version")]
    version: String,
    /// How its last connection ended, when offline.
    #[schemars(with = "Option<CloseWord>")]
    reason: Option<&'static str>,
    /// Agreed heartbeat, when online.
    heartbeat_s: u16,
    /// Pushes sent and not acknowledged.
    inflight: u32,
    /// Pushes queued, including those in flight.
    waiting: u32,
    /// Its tags.
    tags: Vec<String>,
    /// The user to whom it belongs, if it belongs to one.
    user: Option<String>,
    /// Its time zone, if it has one.
    #[schemars(with = "Option<ZoneName>")]
    zone: Option<&'static str>,
    /// The platform at which it has a token, if it has one.
    platform: Option<String>,
    /// Whether it is blocked.
    blocked: bool,
}

impl From<&DeviceState> for Device {
    fn from(state: &DeviceState) -> Device {
        Device {
            product: state.product.as_str().into(),
            device: state.device.as_str().into(),
            online: state.online,
            protocol: state.protocol,
            epoch: state.epoch.to_string(),
            since_ms: state.since_ms,
            seen_ms: state.seen_ms,
            version: state.version.to_string(),
            reason: state.reason.map(CloseReason::name),
            heartbeat_s: state.heartbeat_s,
            inflight: state.inflight,
            waiting: state.waiting,
            tags: state.tags.iter().map(|tag| tag.as_str().to_owned()).collect(),
            user: state.user.as_ref().map(|user| user.as_str().into()),
            zone: state.zone.map(Zone::as_str),
            platform: state.platform.as_ref().map(|it| it.as_ref().into()),
            blocked: state.blocked,
        }
    }
}

/// Some devices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Devices {
    /// The known ones.
    pub(crate) devices: Vec<Device>,
}

/// A page of devices.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DevicePage {
    /// The page.
    pub(crate) devices: Vec<Device>,
    /// Give it as `after` for the next page; null at the end.
    pub(crate) next: Option<String>,
}

/// The user of a device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OwnedDevice {
    /// The user to whom the device belongs from now on; null: nobody.
    pub(crate) user: Option<String>,
}

/// The time zone of a device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceZone {
    /// Its zone from now on; null: none.
    #[schemars(with = "Option<ZoneName>")]
    pub(crate) zone: Option<&'static str>,
}

/// The platform of a device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DevicePlatform {
    /// The platform at which it has a token from now on; null: none.
    pub(crate) platform: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Kicked {
    /// Whether a connection was closed.
    pub(crate) was_online: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Blocked {
    /// Whether the device is blocked now.
    pub(crate) blocked: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Token")]
pub(crate) struct DeviceToken {
    /// The device presents it in its Bind.
    pub(crate) token: String,
    /// Unix second at which it expires.
    pub(crate) expires_at: u64,
}
