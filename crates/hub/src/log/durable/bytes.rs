//! Names among the bytes of a row: appending them and taking them off the front.

use base::bytes::ByteReader;
use model::id::{DeviceId, ProductKey, Tag};

/// Appends a text of at most 255 bytes, the limit of all names here.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    let length = u8::try_from(text.len()).expect("names, collapse keys and topics are short");
    out.push(length);
    out.extend_from_slice(text.as_bytes());
}

/// Takes the key of a product.
pub(super) fn product(from: &mut ByteReader<'_>) -> Option<ProductKey> {
    ProductKey::parse(from.short_text()?).ok()
}

/// Takes the name of a device.
pub(super) fn device(from: &mut ByteReader<'_>) -> Option<DeviceId> {
    DeviceId::parse(from.short_text()?).ok()
}

/// Takes a tag.
pub(super) fn tag(from: &mut ByteReader<'_>) -> Option<Tag> {
    Tag::parse(from.short_text()?).ok()
}
