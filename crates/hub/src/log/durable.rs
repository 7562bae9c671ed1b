//! Encodings of the hub's types: rows, labels and bodies in the durable log.
//!
//! Little endian, written by hand, each value with its version in front; a text is one byte of
//! length and its bytes. `docs/storage.md` draws the layouts. Decoding trusts nothing: malformed
//! bytes give `None`, never a panic, and so do trailing bytes. Only the last field of a body may
//! have any length.

pub(crate) mod audience;
mod bytes;
pub(crate) mod device;
pub(crate) mod mark;
pub(crate) mod order;
pub(crate) mod outcomes;
pub(crate) mod product;
pub(crate) mod push;
mod report;
pub(crate) mod schedule;

pub use report::{decode_event, encode_event};

use base::hash::HashKey;
use model::id::{DeviceId, ProductKey};
use model::ports::log::Table;
use model::timeline::{Space, TimelineId};

/// The hash that chooses the shard of a device.
pub fn home_parts(home: HashKey, product: &ProductKey, device: &DeviceId) -> u64 {
    home.of(&[product.as_str().as_bytes(), device.as_str().as_bytes()])
}

/// The timeline of a device's queued pushes.
pub fn timeline_of(home: HashKey, product: &str, device: &str) -> TimelineId {
    TimelineId::of(Space::Pushes, home, &[product.as_bytes(), device.as_bytes()])
}

/// The timeline to which a device's row belongs, and a description of the device.
pub fn owner_of_row(home: HashKey, table: Table, key: &[u8]) -> Option<(TimelineId, String)> {
    let (product, id) = device::names(key).filter(|_| table == Table::Devices)?;
    let (product, id) = (product.as_str(), id.as_str());
    Some((timeline_of(home, product, id), format!("device {id} of product {product}")))
}

#[cfg(test)]
pub(crate) fn refuses_every_cut<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Option<T>) {
    assert!(read(bytes).is_some(), "the whole makes sense");
    assert!((0..bytes.len()).all(|cut| read(&bytes[..cut]).is_none()), "a part does not");
    let longer = [bytes, &[0]].concat();
    assert!(read(&longer).is_none(), "nor does what is too long");
    let newer = [&[99], &bytes[1..]].concat();
    assert!(read(&newer).is_none(), "nor another version");
}
