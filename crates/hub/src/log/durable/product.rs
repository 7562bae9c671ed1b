//! A product's row: its key is the product's, its value the product's policy, or that it was
//! dropped.

use base::bytes::ByteReader;
use model::id::ProductKey;
use model::ports::log::RowHome;
use model::product::{AnonymousFrom, Heartbeat, Product, Proofs, Secret};

const VERSION: u8 = 1;

/// Most secrets of a product.
const SECRETS_MAX: u8 = 8;

/// The value of a dropped product, until its last device is gone.
pub(crate) const DROPPED: &[u8] = &[0];

/// The key of a product's row.
pub(crate) fn key(product: &ProductKey) -> Box<[u8]> {
    RowHome::Everywhere.key(&[product.as_str().as_bytes()])
}

/// The product of a row.
pub(crate) fn of_key(key: &[u8]) -> Option<ProductKey> {
    ProductKey::from_bytes(RowHome::rest(key)?).ok()
}

/// The value of a product's row. `base` is a hash of the product as it was configured when the API
/// changed it; zero if it was not configured.
pub(crate) fn encode(product: &Product, base: u64) -> Box<[u8]> {
    let mut out = vec![VERSION];
    out.extend_from_slice(&product.app_id.to_le_bytes());
    let proofs = &product.proofs;
    out.push(match proofs.anonymous {
        AnonymousFrom::Nowhere => 0,
        AnonymousFrom::Loopback => 1,
        AnonymousFrom::Everywhere => 2,
    });
    let Proofs { hmac, challenge, certificate, token, classic_sign, .. } = *proofs;
    let flags = [hmac, challenge, certificate, token, classic_sign, product.store_for_unknown];
    out.push(flags.iter().enumerate().fold(0, |bits, (at, &flag)| bits | u8::from(flag) << at));
    for number in [product.heartbeat.min_s, product.heartbeat.default_s, product.heartbeat.max_s] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&product.inflight_max.to_le_bytes());
    out.extend_from_slice(&product.reports_per_s.to_le_bytes());
    for number in [product.offline_count_max, product.offline_bytes_max, product.time_to_live_max_s]
    {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(u8::try_from(product.secrets.len()).expect("at most eight secrets"));
    for secret in &product.secrets {
        out.extend_from_slice(&secret.key_id.to_le_bytes());
        out.push(u8::try_from(secret.bytes.len()).expect("a secret has at most 64 bytes"));
        out.extend_from_slice(&secret.bytes);
    }
    super::bytes::text(product.topic.as_deref().unwrap_or(""), &mut out);
    out.extend_from_slice(&base.to_le_bytes());
    out.into()
}

/// The product of a row, and its `base` (see [`encode`]).
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<(Product, u64)> {
    let mut from = ByteReader::of(VERSION, value)?;
    let mut product = Product::new(of_key(key)?, from.u32()?);
    product.proofs.anonymous = match from.byte()? {
        0 => AnonymousFrom::Nowhere,
        1 => AnonymousFrom::Loopback,
        2 => AnonymousFrom::Everywhere,
        _ => return None,
    };
    let flags = from.flags(0x3f)?;
    let flag = |at: u8| flags & (1 << at) != 0;
    product.proofs.hmac = flag(0);
    product.proofs.challenge = flag(1);
    product.proofs.certificate = flag(2);
    product.proofs.token = flag(3);
    product.proofs.classic_sign = flag(4);
    product.store_for_unknown = flag(5);
    product.heartbeat =
        Heartbeat { min_s: from.u16()?, default_s: from.u16()?, max_s: from.u16()? };
    product.inflight_max = from.u16()?;
    product.reports_per_s = from.u16()?;
    product.offline_count_max = from.u32()?;
    product.offline_bytes_max = from.u32()?;
    product.time_to_live_max_s = from.u32()?;
    for _ in 0..from.byte().filter(|&count| count <= SECRETS_MAX)? {
        let key_id = from.u32()?;
        let length = from.byte()?;
        let bytes = from.take(length.into())?.into();
        product.secrets.push(Secret { key_id, bytes });
    }
    let topic = from.short_text().filter(|topic| topic.is_empty() || is_topic(topic))?;
    product.topic = (!topic.is_empty()).then(|| topic.into());
    let base = from.u64()?;
    from.ends((product, base))
}

fn is_topic(topic: &str) -> bool {
    Product::topic_fault(topic).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_comes_back_as_it_went() {
        let mut product = Product::new(ProductKey::parse("shop").expect("allowed"), 7);
        product.proofs.anonymous = AnonymousFrom::Loopback;
        product.proofs.hmac = false;
        product.store_for_unknown = false;
        (product.reports_per_s, product.inflight_max) = (3, 9);
        product.secrets = vec![Secret { key_id: 5, bytes: vec![1; 16].into() }];
        let key = key(&product.key);
        let bare = encode(&product, 0);
        assert_eq!(decode(&key, &bare), Some((product.clone(), 0)), "without a topic and a base");
        product.topic = Some("push/%p/%d".into());
        let value = encode(&product, 77);
        assert_eq!(decode(&key, &value), Some((product, 77)));
        assert_eq!(decode(b"", &value), None);
        super::super::refuses_every_cut(&value, |bytes| decode(&key, bytes));
    }
}
