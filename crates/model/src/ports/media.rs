//! The port of media: makes URLs of a storage to which clients upload files.
//!
//! Making a URL needs no request and does not block: the URL is signed here, and the storage trusts
//! the signature.

use crate::media::{UploadSlot, UploadWish};
use std::fmt;

/// A storage of files, as far as addresses are made for it.
pub trait MediaStorage: Send + Sync {
    /// Permission for an account to upload this file, at this time (Unix seconds). `account`
    /// distinguishes its files from others'. The wish is not checked again: the caller has compared
    /// it with the limits.
    fn slot(&self, now_s: u64, account: u64, wish: &UploadWish) -> UploadSlot;
}

impl fmt::Debug for dyn MediaStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MediaStorage")
    }
}
