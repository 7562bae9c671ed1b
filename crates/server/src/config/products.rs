//! `[products.KEY]` and its secrets: the table of `model::product::Product`.
//!
//! The defaults are the model's; ranges and answers stand here. A secret's bytes are written as
//! hexadecimal digits and never shown again.

use model::id::ProductKey;
use model::product::{AnonymousFrom, Product, Secret};

use super::key::{Field, Key, Kind, Reload, Section, Value, Words, key, unhex, words};

words!(AnonymousFrom { Nowhere = "nowhere", Loopback = "loopback", Everywhere = "everywhere" });

impl Section for Product {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            app_id,
            Kind::whole(0, u32::MAX as u64, "application number"),
            Live,
            "Its number, as records on the wire carry it."
        ),
        key!(
            "anonymous" => proofs.anonymous,
            Kind::Word(AnonymousFrom::WORDS),
            Live,
            "From where devices may bind without any proof. everywhere is warned of at the start."
        ),
        key!(
            "hmac" => proofs.hmac,
            Kind::Bool,
            Live,
            "Accept Binds signed with a secret of the product (MIOP 7)."
        ),
        key!(
            "challenge" => proofs.challenge,
            Kind::Bool,
            Live,
            "Demand that the signature covers a number the server has just chosen: one round trip \
             more. Needs hmac."
        ),
        key!(
            "certificate" => proofs.certificate,
            Kind::Bool,
            Live,
            "Accept a verified client certificate whose identity is the device id."
        ),
        key!(
            "token" => proofs.token,
            Kind::Bool,
            Live,
            "Accept a bearer token that the API made for the device."
        ),
        key!(
            "classic_sign" => proofs.classic_sign,
            Kind::Bool,
            Live,
            "Accept Holdline's signature in classic text properties (MIOP 5 and 6)."
        ),
        key!(
            "heartbeat_min_s" => heartbeat.min_s,
            SECONDS,
            Live,
            "Shortest heartbeat. A device that wishes for less gets this."
        ),
        key!(
            "heartbeat_default_s" => heartbeat.default_s,
            SECONDS,
            Live,
            "Heartbeat of a device without a wish."
        ),
        key!(
            "heartbeat_max_s" => heartbeat.max_s,
            SECONDS,
            Live,
            "Longest heartbeat. A device that wishes for more gets this."
        ),
        key!(
            inflight_max,
            Kind::whole(1, 1_024, "pushes"),
            Live,
            "Pushes that may be unacknowledged on a connection. The rest wait."
        ),
        key!(
            offline_count_max,
            Kind::whole(0, Product::OFFLINE_COUNT_HARD_MAX as u64, "pushes"),
            Live,
            "Pushes stored for a device. At the limit an older one makes room, or the new one is \
             rejected."
        ),
        key!(
            offline_bytes_max,
            Kind::whole(0, 1 << 30, "bytes"),
            Live,
            "Their bytes for a device. At the limit the same."
        ),
        key!(
            "ttl_max_s" => time_to_live_max_s,
            Kind::whole(0, 365 * 86_400, "seconds"),
            Live,
            "Longest time to live of a push. A longer wish is shortened to it."
        ),
        key!(
            store_for_unknown,
            Kind::Bool,
            Live,
            "Store pushes for devices that never bound. Otherwise they are rejected."
        ),
        key!(
            topic,
            Kind::Text {
                what: "a topic of MQTT with %p and %d, or empty for none",
                fits: |text| text.is_empty() || Product::topic_fault(text).is_none()
            },
            Live,
            "The topic of MQTT on which every push of the product is published too; %p stands for \
             the product, %d for the device. \"\": on none."
        ),
        key!(
            reports_per_s,
            Kind::whole(0, 10_000, "Reports a second"),
            Live,
            "Reports a device may send, ten seconds' worth at once. One more is refused."
        ),
    ];

    fn blank(name: &str) -> Result<Self, String> {
        match ProductKey::parse(name) {
            Ok(key) => Ok(Product::new(key, 0)),
            Err(error) => Err(format!("the product's key {error}")),
        }
    }
}

impl Section for Secret {
    const KEYS: &'static [Key<Self>] = &[
        key!(
            key_id,
            Kind::whole(0, u32::MAX as u64, "key number"),
            Live,
            "Names the secret in a Bind. Put the newest secret first, take the oldest away when \
             no device uses it any more."
        )
        .required(),
        key!(
            "hex" => bytes,
            Kind::Text { what: "32 to 128 hexadecimal digits (16 to 64 bytes)", fits: is_secret },
            Live,
            "The secret's bytes. Never printed. `openssl rand -hex 32` makes one."
        )
        .required()
        .secret(),
    ];

    fn blank(_: &str) -> Result<Self, String> {
        Ok(Secret { key_id: 0, bytes: Box::default() })
    }
}

const SECONDS: Kind = Kind::whole(1, 43_200, "seconds");

fn is_secret(text: &str) -> bool {
    unhex(text).is_some_and(|bytes| (16..=64).contains(&bytes.len()))
}
