//! A Report that waits for a webhook.

use super::bytes::{self, text};
use base::bytes::ByteReader;
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::presence::PresenceVersion;

const VERSION: u8 = 1;

/// The body of the message that stores a Report for webhooks; `None` for other events, which are
/// not stored. A Report has no presence version.
pub fn encode_event(event: &DeviceEvent) -> Option<Box<[u8]>> {
    let DeviceWhat::Report { seq, body } = &event.what else { return None };
    let mut out = Vec::with_capacity(128 + body.len());
    out.push(VERSION);
    text(event.product.as_str(), &mut out);
    text(event.device.as_str(), &mut out);
    out.extend_from_slice(&event.at_ms.to_le_bytes());
    out.extend_from_slice(&event.epoch.to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(body);
    Some(out.into())
}

/// Decodes the event in a message's body; `None` if it is malformed.
pub fn decode_event(body: &[u8]) -> Option<DeviceEvent> {
    let mut from = ByteReader::of(VERSION, body)?;
    let (product, device) = (bytes::product(&mut from)?, bytes::device(&mut from)?);
    let (at_ms, epoch, seq) = (from.u64()?, from.u64()?, from.u32()?);
    let what = DeviceWhat::Report { seq, body: from.rest().into() };
    Some(DeviceEvent { at_ms, product, device, epoch, version: PresenceVersion::default(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::{DeviceId, ProductKey};

    #[test]
    fn a_report_comes_back_as_it_went() {
        let mut event = DeviceEvent {
            at_ms: 1_800_000_000_123,
            product: ProductKey::parse("shop").expect("allowed"),
            device: DeviceId::parse("d-1").expect("allowed"),
            epoch: 1 << 61,
            version: PresenceVersion::default(),
            what: DeviceWhat::Report { seq: 9, body: b"\xff21.5".to_vec().into() },
        };
        let bytes = encode_event(&event).expect("a Report");
        assert_eq!(decode_event(&bytes), Some(event.clone()));
        let head = bytes.len() - 5;
        assert!((0..head).all(|cut| decode_event(&bytes[..cut]).is_none()));
        assert!(decode_event(&[&[2], &bytes[1..]].concat()).is_none(), "another version");
        event.what = DeviceWhat::Online { protocol: "miop7", resumed: false };
        assert_eq!(encode_event(&event), None);
    }
}
