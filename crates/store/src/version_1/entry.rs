//! The payloads of records: entries of the journal port as bytes, by hand.
//!
//! Numbers are little endian; a text is a byte of length and its bytes. The layout of each kind is
//! drawn in `docs/storage.md`. Writing is for tests. Decoding trusts nothing: a payload with a good
//! checksum and wrong contents is an error, never a panic.

use crate::engine::record::bytes::Bytes;
#[cfg(test)]
use crate::version_1::record;
use crate::version_1::record::Kind;
use model::id::{DeviceId, MessageId, ProductKey};
#[cfg(test)]
use model::ports::journal::Entry;
#[cfg(test)]
use model::product::Proofs;
use model::product::{AnonymousFrom, Heartbeat, Product, Secret};
use model::push::{Priority, Push};

/// A decoded record, pushes apart from those who wait for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Body(Push),
    Waits { id: MessageId, device: DeviceId },
    Over { product: ProductKey, device: DeviceId, id: MessageId },
    Product(Product),
    NoProduct(ProductKey),
    Blocked { product: ProductKey, device: DeviceId, blocked: bool },
}

/// Appends the push that later `Waits` records of the segment refer to.
#[cfg(test)]
pub(crate) fn write_body(push: &Push, out: &mut Vec<u8>) {
    record::write(Kind::Body, out, |out| {
        out.extend_from_slice(&push.id.0.to_le_bytes());
        text(push.product.as_str(), out);
        out.extend_from_slice(&push.app_id.to_le_bytes());
        out.extend_from_slice(&push.expire_at.to_le_bytes());
        let high = push.priority == Priority::High;
        let flags = u8::from(high) | u8::from(push.silent) << 1;
        out.push(flags | u8::from(push.collapse.is_some()) << 2);
        if let Some(key) = &push.collapse {
            text(key, out);
        }
        out.extend_from_slice(&push.body);
    });
}

/// Appends an entry. The body of a push that waits is [`write_body`]'s.
#[cfg(test)]
pub(crate) fn write(entry: &Entry, out: &mut Vec<u8>) {
    match entry {
        Entry::Waits { push, device } => record::write(Kind::Waits, out, |out| {
            out.extend_from_slice(&push.id.0.to_le_bytes());
            text(device.as_str(), out);
        }),
        Entry::Over { product, device, id } => record::write(Kind::Over, out, |out| {
            out.extend_from_slice(&id.0.to_le_bytes());
            text(product.as_str(), out);
            text(device.as_str(), out);
        }),
        Entry::Product(product) => {
            record::write(Kind::Product, out, |out| write_product(product, out));
        }
        Entry::NoProduct(key) => record::write(Kind::NoProduct, out, |out| text(key.as_str(), out)),
        Entry::Blocked { product, device, blocked } => record::write(Kind::Blocked, out, |out| {
            text(product.as_str(), out);
            text(device.as_str(), out);
            out.push(u8::from(*blocked));
        }),
    }
}

/// What a record of this kind says; `None` when its payload makes no sense.
pub(crate) fn read(kind: Kind, payload: &[u8]) -> Option<Said> {
    let mut from = Reader(Bytes(payload));
    let said = match kind {
        Kind::Segment | Kind::Synced => return None,
        Kind::Body => return read_body(from).map(Said::Body),
        Kind::Waits => Said::Waits { id: from.id()?, device: from.device()? },
        Kind::Over => {
            let id = from.id()?;
            Said::Over { product: from.product()?, device: from.device()?, id }
        }
        Kind::Product => Said::Product(read_product(&mut from)?),
        Kind::NoProduct => Said::NoProduct(from.product()?),
        Kind::Blocked => Said::Blocked {
            product: from.product()?,
            device: from.device()?,
            blocked: from.flag()?,
        },
    };
    from.0.0.is_empty().then_some(said)
}

#[cfg(test)]
fn text(text: &str, out: &mut Vec<u8>) {
    let length = u8::try_from(text.len()).expect("names and collapse keys have at most 64 bytes");
    out.push(length);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
fn write_product(product: &Product, out: &mut Vec<u8>) {
    text(product.key.as_str(), out);
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
}

fn read_product(from: &mut Reader<'_>) -> Option<Product> {
    let mut product = Product::new(from.product()?, from.0.u32()?);
    product.proofs.anonymous = match from.0.u8()? {
        0 => AnonymousFrom::Nowhere,
        1 => AnonymousFrom::Loopback,
        2 => AnonymousFrom::Everywhere,
        _ => return None,
    };
    let flags = from.0.u8()?;
    let flag = |at: u8| flags & (1 << at) != 0;
    product.proofs.hmac = flag(0);
    product.proofs.challenge = flag(1);
    product.proofs.certificate = flag(2);
    product.proofs.token = flag(3);
    product.proofs.classic_sign = flag(4);
    product.store_for_unknown = flag(5);
    product.heartbeat =
        Heartbeat { min_s: from.0.u16()?, default_s: from.0.u16()?, max_s: from.0.u16()? };
    product.inflight_max = from.0.u16()?;
    product.reports_per_s = from.0.u16()?;
    product.offline_count_max = from.0.u32()?;
    product.offline_bytes_max = from.0.u32()?;
    product.time_to_live_max_s = from.0.u32()?;
    for _ in 0..from.0.u8()? {
        let key_id = from.0.u32()?;
        let length = from.0.u8()?;
        let bytes = from.0.take(length.into())?.into();
        product.secrets.push(Secret { key_id, bytes });
    }
    Some(product)
}

fn read_body(mut from: Reader<'_>) -> Option<Push> {
    let (id, product) = (from.id()?, from.product()?);
    let (app_id, expire_at, flags) = (from.0.u32()?, from.0.u32()?, from.0.u8()?);
    let collapse = match flags & 4 {
        0 => None,
        _ => Some(from.text()?.into()),
    };
    let priority = if flags & 1 == 0 { Priority::Normal } else { Priority::High };
    let silent = flags & 2 != 0;
    Some(Push { id, product, app_id, body: from.0.0.into(), collapse, expire_at, priority, silent })
}

/// Values that are taken off the front.
struct Reader<'a>(Bytes<'a>);

impl<'a> Reader<'a> {
    fn flag(&mut self) -> Option<bool> {
        self.0.u8().filter(|byte| *byte < 2).map(|byte| byte == 1)
    }

    fn id(&mut self) -> Option<MessageId> {
        self.0.u64().map(MessageId)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.0.u8()?;
        std::str::from_utf8(self.0.take(length.into())?).ok()
    }

    fn product(&mut self) -> Option<ProductKey> {
        ProductKey::parse(self.text()?).ok()
    }

    fn device(&mut self) -> Option<DeviceId> {
        DeviceId::parse(self.text()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn read_back(bytes: &[u8]) -> Said {
        let (kind, payload, length) = record::read(bytes).expect("whole");
        assert_eq!(length, bytes.len());
        for cut in 0..payload.len() {
            // A shorter body is still a body; everything else must end where it ends.
            let short = read(kind, &payload[..cut]);
            assert!(short.is_none() || kind == Kind::Body);
        }
        read(kind, payload).expect("makes sense")
    }

    fn written(entry: &Entry) -> Said {
        let mut bytes = Vec::new();
        write(entry, &mut bytes);
        read_back(&bytes)
    }

    #[test]
    fn entries_come_back_as_they_went() {
        let key = ProductKey::parse("shop").expect("allowed");
        let device = DeviceId::parse("d-1").expect("allowed");
        let mut product = Product::new(key.clone(), 7);
        product.proofs.anonymous = AnonymousFrom::Loopback;
        product.proofs.hmac = false;
        product.reports_per_s = 3;
        product.secrets = vec![Secret { key_id: 5, bytes: vec![1; 16].into() }];
        let expected = Said::Product(product.clone());
        assert_eq!(written(&Entry::Product(Arc::new(product))), expected);
        let id = MessageId(99);
        let over = Entry::Over { product: key.clone(), device: device.clone(), id };
        let expected = Said::Over { product: key.clone(), device: device.clone(), id };
        assert_eq!(written(&over), expected);
        assert_eq!(written(&Entry::NoProduct(key.clone())), Said::NoProduct(key.clone()));
        let blocked =
            Entry::Blocked { product: key.clone(), device: device.clone(), blocked: true };
        assert_eq!(written(&blocked), Said::Blocked { product: key, device, blocked: true });
    }

    #[test]
    fn a_body_comes_back_with_all_it_carries() {
        let push = Push {
            id: MessageId(3),
            product: ProductKey::parse("p").expect("allowed"),
            app_id: 8,
            body: b"\x00body".to_vec().into(),
            collapse: Some("score".into()),
            expire_at: 1_900_000_000,
            priority: Priority::High,
            silent: true,
        };
        let mut bytes = Vec::new();
        write_body(&push, &mut bytes);
        assert_eq!(read_back(&bytes), Said::Body(push));
    }
}
