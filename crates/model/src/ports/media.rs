//! The port of media: whoever makes addresses of a storage where files are put.
//!
//! Making one asks nobody and waits for nothing: it is signed here, and the storage believes the
//! signature.

use crate::media::{UploadSlot, UploadWish};
use std::fmt;

/// A storage of files, as far as addresses are made for it.
pub trait MediaStorage: Send + Sync {
    /// Leave for an account to upload this file, at this time (Unix seconds). `account` tells it
    /// apart from others. Of the wish no more is looked at: whoever asks has compared it with the
    /// limits.
    fn slot(&self, now_s: u64, account: u64, wish: &UploadWish) -> UploadSlot;
}

impl fmt::Debug for dyn MediaStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MediaStorage")
    }
}
