//! Marks: upper bounds of a shard's epochs.
//!
//! The key names the shard, so that one log can hold the marks of several logs after the number of
//! shards changed: the highest of all applies.

use base::bytes::ByteReader;
use model::id::ShardId;
use model::ports::log::RowHome;

const VERSION: u8 = 1;
const EPOCH: &[u8] = b"epoch";

/// The key of a shard's mark of epochs.
pub(crate) fn key(shard: ShardId) -> Box<[u8]> {
    RowHome::Everywhere.key(&[EPOCH, &shard.0.to_be_bytes()])
}

/// The value of a mark.
pub(crate) fn encode(bound: u64) -> Box<[u8]> {
    [&[VERSION][..], &bound.to_le_bytes()].concat().into()
}

/// The bound in a mark of epochs, of any shard.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<u64> {
    RowHome::rest(key)?.strip_prefix(EPOCH).filter(|shard| shard.len() == 2)?;
    let mut from = ByteReader::of(VERSION, value)?;
    let bound = from.u64()?;
    from.ends(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_as_it_went() {
        let key = key(ShardId(7));
        assert_eq!(decode(&key, &encode(1 << 50)), Some(1 << 50));
        assert_eq!(decode(b"  other..", &encode(1)), None);
        super::super::refuses_every_cut(&encode(9), |bytes| decode(&key, bytes));
    }
}
