//! Products; of their secrets only the ids.

use crate::orders::SecretBody;
use base::hex;
use model::product::{self, AnonymousFrom};
use schemars::JsonSchema;
use serde::Serialize;

/// Settings of a product.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Product {
    /// Its key.
    key: String,
    /// Its number in classic records.
    app_id: u32,
    /// Ids of its secrets, newest first. The secrets themselves are never shown.
    key_ids: Vec<u32>,
    /// Addresses from which Binds without proof are accepted.
    anonymous: Anonymous,
    /// HMAC-SHA256 with a secret of the product (MIOP 7).
    hmac: bool,
    /// Whether a challenge is required (MIOP 7).
    challenge: bool,
    /// A verified client certificate.
    certificate: bool,
    /// A token made by this API.
    token: bool,
    /// The signature of MIOP 5 and 6.
    classic_sign: bool,
    /// Shortest heartbeat, seconds.
    heartbeat_min_s: u16,
    /// Heartbeat of a device that asks for none, seconds; not below the shortest.
    heartbeat_default_s: u16,
    /// Longest heartbeat, seconds; not below the default.
    heartbeat_max_s: u16,
    /// Maximum unacknowledged pushes on a connection.
    inflight_max: u16,
    /// Maximum stored pushes of a device.
    offline_count_max: u32,
    /// Maximum stored pushes of a device, bytes.
    offline_bytes_max: u32,
    /// Longest time to live of a push.
    ttl_max_s: u32,
    /// Whether pushes for devices that never bound are stored.
    store_for_unknown: bool,
    /// Maximum Reports of a device in a second.
    reports_per_s: u16,
    /// Topic on which pushes for a device are also published, with %p for the product and %d for
    /// the device; %d is required. null: none.
    topic: Option<String>,
    /// The new secret: shown only once.
    #[serde(skip_serializing_if = "Option::is_none")]
    generated_secret: Option<SecretBody>,
}

/// Addresses from which Binds without proof are accepted.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AnonymousAccess")]
pub(crate) enum Anonymous {
    Nowhere,
    Loopback,
    Everywhere,
}

impl Product {
    /// The product, and its new secret, if one was made.
    pub(crate) fn new(product: &product::Product, made: Option<&product::Secret>) -> Product {
        let proofs = &product.proofs;
        Product {
            key: product.key.as_str().into(),
            app_id: product.app_id,
            key_ids: product.secrets.iter().map(|secret| secret.key_id).collect(),
            anonymous: match proofs.anonymous {
                AnonymousFrom::Nowhere => Anonymous::Nowhere,
                AnonymousFrom::Loopback => Anonymous::Loopback,
                AnonymousFrom::Everywhere => Anonymous::Everywhere,
            },
            hmac: proofs.hmac,
            challenge: proofs.challenge,
            certificate: proofs.certificate,
            token: proofs.token,
            classic_sign: proofs.classic_sign,
            heartbeat_min_s: product.heartbeat.min_s,
            heartbeat_default_s: product.heartbeat.default_s,
            heartbeat_max_s: product.heartbeat.max_s,
            inflight_max: product.inflight_max,
            offline_count_max: product.offline_count_max,
            offline_bytes_max: product.offline_bytes_max,
            ttl_max_s: product.time_to_live_max_s,
            store_for_unknown: product.store_for_unknown,
            reports_per_s: product.reports_per_s,
            topic: product.topic.as_deref().map(str::to_owned),
            generated_secret: made.map(|secret| SecretBody {
                key_id: secret.key_id,
                hex: hex::encode(&secret.bytes),
            }),
        }
    }
}

/// All products.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Products {
    /// All of them, by key.
    pub(crate) products: Vec<Product>,
}
