//! Products: families of devices that share a key, secrets and a policy; keys of `[products.KEY]`.

use crate::id::{DeviceId, ProductKey};
use base::setting::{Kind, text, whole};
use base::{section, words};

section! {
    /// A secret that devices of a product sign their Binds with.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Secret {
        /// Number that a Bind names the secret by. Put the newest secret first, and remove the
        /// oldest when no device uses it any more.
        @live key_id: u32, whole(0..=u32::MAX as u64, "key number");
        /// The secret's bytes, in hexadecimal. Never printed. `openssl rand -hex 32` makes one.
        @live bytes as "hex": Box<[u8]>,
            text("32 to 128 hexadecimal digits (16 to 64 bytes)", is_secret), secret;
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret {{ key_id: {}, .. }}", self.key_id)
    }
}

fn is_secret(text: &str) -> bool {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && text.len().is_multiple_of(2) && (32..=128).contains(&text.len())
}

section! {
    /// Accepted proofs of identity in a product's Binds.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Proofs {
        /// From where devices may bind without proof. The start warns of everywhere.
        @live anonymous: AnonymousFrom = AnonymousFrom::Nowhere;
        /// Accept Binds signed with a secret of the product (MIOP 7).
        @live hmac: bool = true;
        /// Require that the signature covers a challenge from the server: one more round trip.
        /// Needs hmac.
        @live challenge: bool = false;
        /// Accept a verified client certificate whose identity is the device id.
        @live certificate: bool = true;
        /// Accept a bearer token that the API issued for the device.
        @live token: bool = true;
        /// Accept Holdline's signature in classic text properties (MIOP 5 and 6).
        @live classic_sign: bool = true;
    }
}

words! {
    /// Addresses from which Binds without proof are accepted.
    pub enum AnonymousFrom {
        /// From nowhere.
        Nowhere = "nowhere",
        /// Addresses of this machine only.
        Loopback = "loopback",
        /// From everywhere: an explicit choice of the operator.
        Everywhere = "everywhere",
    }
}

section! {
    /// Heartbeat intervals, in seconds, that devices of a product may use.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Heartbeat {
        /// Shortest heartbeat. A device that asks for less gets this.
        @live min_s as "heartbeat_min_s": u16 = 30, SECONDS;
        /// Heartbeat of a device that asks for none.
        @live default_s as "heartbeat_default_s": u16 = 300, SECONDS;
        /// Longest heartbeat. A device that asks for more gets this.
        @live max_s as "heartbeat_max_s": u16 = 1_800, SECONDS;
    }
}

const SECONDS: Kind = whole(1..=43_200, "seconds");

section! {
    /// A family of devices.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Product {
        /// Its key, by which devices name it.
        @aside key: ProductKey = ProductKey::parse("unnamed").expect("a plain word");
        /// Its number in records on the wire.
        @live app_id: u32 = 0, whole(0..=u32::MAX as u64, "application number");
        /// Secrets, newest first; at most eight.
        @aside secrets: Vec<Secret>;
        /// Proofs required of a Bind.
        @part proofs: Proofs;
        /// Agreed heartbeats.
        @part heartbeat: Heartbeat;
        /// Unacknowledged pushes on a connection. The rest wait.
        @live inflight_max: u16 = 32, whole(1..=1_024, "pushes");
        /// Pushes stored for a device. At the limit, an older one is replaced, or the new one is
        /// rejected.
        @live offline_count_max: u32 = 100,
            whole(0..=Product::OFFLINE_COUNT_HARD_MAX as u64, "pushes");
        /// Bytes of these. At the limit, the same.
        @live offline_bytes_max: u32 = 256 * 1024, whole(0..=1 << 30, "bytes");
        /// Longest time to live of a push. A longer one is capped.
        @live time_to_live_max_s as "ttl_max_s": u32 = 7 * 24 * 3_600,
            whole(0..=365 * 86_400, "seconds");
        /// Store pushes for devices that never bound. Otherwise, such pushes are rejected.
        @live store_for_unknown: bool = true;
        /// MQTT topic on which every push of the product is also published; %p is the product, %d
        /// the device. "": none.
        // The same account sees the same pushes over MQTT.
        @live topic: Option<Box<str>> = None,
            text("a topic of MQTT with %p and %d, or empty for none", |text| {
                text.is_empty() || Product::topic_fault(text).is_none()
            });
        /// Reports of a device, with bursts of ten seconds' worth. One more is refused.
        @live reports_per_s: u16 = 10, whole(0..=10_000, "Reports a second");
    }
}

impl Product {
    /// Highest `offline_count_max`: the cost of one pass over a device's queue.
    pub const OFFLINE_COUNT_HARD_MAX: u32 = 10_000;

    /// Longest `topic`, bytes.
    pub const TOPIC_BYTES_MAX: usize = 200;

    /// The topic on which pushes for a device are also published.
    pub fn topic_of(&self, device: &DeviceId) -> Option<String> {
        let topic = self.topic.as_deref()?;
        Some(topic.replace("%p", self.key.as_str()).replace("%d", device.as_str()))
    }

    /// Why a `topic` is invalid; `None` if it is valid.
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

    /// A product with the documented defaults.
    pub fn new(key: ProductKey, app_id: u32) -> Product {
        Product { key, app_id, ..Product::default() }
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
