//! Peer messages as a shard of another process gets them: encoded and decoded.

use base::encoding::{Encoding, decode, encode};
use std::fmt::Debug;

/// The message after its way to another process. Panics if it is a different one there.
pub fn crossed<T: Encoding + Debug>(message: T) -> T {
    let bytes = encode(std::slice::from_ref(&message));
    let decoded = decode(&bytes).unwrap_or_else(|why| panic!("{why}: {message:?}"));
    let [decoded]: [T; 1] = decoded.try_into().unwrap_or_else(|_| panic!("{message:?}"));
    assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    decoded
}
