//! Products: families of devices that share a key, secrets and a policy.

use crate::id::{DeviceId, ProductKey};

/// A secret with which devices of a product sign their Binds.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Names the secret in a Bind, so that secrets can be rotated.
    pub key_id: u32,
    /// 16 to 64 bytes.
    pub bytes: Box<[u8]>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret {{ key_id: {}, .. }}", self.key_id)
    }
}

/// Proofs of identity that a product's Binds may bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proofs {
    /// None at all.
    pub anonymous: AnonymousFrom,
    /// HMAC-SHA256 with a secret of the product (MIOP 7).
    pub hmac: bool,
    /// Demand a challenge: the server's nonce is part of what is signed (MIOP 7).
    pub challenge: bool,
    /// A verified client certificate whose identity is the device id.
    pub certificate: bool,
    /// A bearer token made by the API for one device.
    pub token: bool,
    /// Holdline's own signature in classic text properties (MIOP 5 and 6).
    pub classic_sign: bool,
}

/// From where Binds without proof are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnonymousFrom {
    /// From nowhere.
    Nowhere,
    /// From this machine only.
    Loopback,
    /// From everywhere: an explicit choice of the operator.
    Everywhere,
}

/// Seconds of heartbeat that a product's devices may agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Shortest.
    pub min_s: u16,
    /// When the device has no wish.
    pub default_s: u16,
    /// Longest.
    pub max_s: u16,
}

/// A family of devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    /// Its key, as devices name it.
    pub key: ProductKey,
    /// Its number, as classic records carry it.
    pub app_id: u32,
    /// Secrets, newest first; at most eight.
    pub secrets: Vec<Secret>,
    /// What a Bind must prove.
    pub proofs: Proofs,
    /// Agreed heartbeats.
    pub heartbeat: Heartbeat,
    /// Pushes that may be unacknowledged on a connection.
    pub inflight_max: u16,
    /// Stored pushes a device, count.
    pub offline_count_max: u32,
    /// Stored pushes a device, bytes.
    pub offline_bytes_max: u32,
    /// Longest time to live of a push, seconds.
    pub time_to_live_max_s: u32,
    /// Whether pushes for devices that never bound are stored.
    pub store_for_unknown: bool,
    /// Reports a second a device may send, and as many at once as it may save up in ten seconds.
    pub reports_per_s: u16,
    /// Where pushes for its devices are published too, with `%p` for the product and `%d` for the
    /// device: who is the same account over a protocol of topics sees the same pushes. 1 to
    /// [`Product::TOPIC_BYTES_MAX`] bytes.
    pub topic: Option<Box<str>>,
}

impl Product {
    /// Highest `offline_count_max`: what one look through a device's queue may cost.
    pub const OFFLINE_COUNT_HARD_MAX: u32 = 10_000;

    /// Longest `topic`, bytes.
    pub const TOPIC_BYTES_MAX: usize = 200;

    /// The topic on which pushes for a device are published too.
    pub fn topic_of(&self, device: &DeviceId) -> Option<String> {
        let topic = self.topic.as_deref()?;
        Some(topic.replace("%p", self.key.as_str()).replace("%d", device.as_str()))
    }

    /// Why a `topic` cannot be one; `None` when it can.
    pub fn topic_fault(topic: &str) -> Option<&'static str> {
        if topic.is_empty() || topic.len() > Product::TOPIC_BYTES_MAX {
            Some("must have 1 to 200 bytes")
        } else if topic.contains(['+', '#', '\0']) || topic.starts_with('$') {
            Some("must be a topic name: no wildcard, not the server's own")
        } else if !topic.contains("%d") {
            Some("must have %d, the device, in it")
        } else {
            None
        }
    }

    /// A product with the defaults of the documentation.
    pub fn new(key: ProductKey, app_id: u32) -> Product {
        Product {
            key,
            app_id,
            secrets: Vec::new(),
            proofs: Proofs {
                anonymous: AnonymousFrom::Nowhere,
                hmac: true,
                challenge: false,
                certificate: true,
                token: true,
                classic_sign: true,
            },
            heartbeat: Heartbeat { min_s: 30, default_s: 300, max_s: 1_800 },
            inflight_max: 32,
            offline_count_max: 100,
            offline_bytes_max: 256 * 1024,
            time_to_live_max_s: 7 * 24 * 3_600,
            store_for_unknown: true,
            reports_per_s: 10,
            topic: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_names_the_device_in_200_bytes_and_is_nobody_elses() {
        let longest = format!("{}%d", "x".repeat(Product::TOPIC_BYTES_MAX - 2));
        for good in ["%d", "push/%p/%d", "a$/%d", &longest] {
            assert_eq!(Product::topic_fault(good), None, "{good}");
        }
        for (wrong, why) in [
            ("", "1 to 200 bytes"),
            (&format!("x{longest}"), "1 to 200 bytes"),
            ("+/%d", "no wildcard"),
            ("%d/#", "no wildcard"),
            ("%d\0", "no wildcard"),
            ("$SYS/%d", "not the server's own"),
            ("push/%p", "must have %d"),
        ] {
            assert!(Product::topic_fault(wrong).is_some_and(|told| told.contains(why)), "{wrong}");
        }
    }

    #[test]
    fn a_devices_topic_is_made_of_its_names() {
        let device = DeviceId::parse("d-1").expect("allowed");
        let mut product = Product::new(ProductKey::parse("shop").expect("allowed"), 7);
        assert_eq!(product.topic_of(&device), None);
        product.topic = Some("push/%p/%d/%d".into());
        assert_eq!(product.topic_of(&device).as_deref(), Some("push/shop/d-1/d-1"));
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let product = Product::new(ProductKey::parse("shop").expect("allowed"), 7);
        assert_eq!((product.offline_count_max, product.offline_bytes_max), (100, 262_144));
        assert_eq!(product.time_to_live_max_s, 604_800);
        assert_eq!(product.proofs.anonymous, AnonymousFrom::Nowhere);
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret { key_id: 3, bytes: b"hush-hush-hush-hush".as_slice().into() };
        assert_eq!(format!("{secret:?}"), "Secret { key_id: 3, .. }");
    }
}
