//! `[media]`: storage of sent files, and its limits.
//!
//! Without a folder or a bucket no storage exists. Secrets are never shown.

use super::sections::is_url;
use base::section;
use base::setting::{Hidden, Kind, text, whole};
use model::limits::MediaLimits;
use std::path::PathBuf;

section! {
    /// `[media]`: files sent by users.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MediaSection {
        /// Local folder for files; "" is none. It must belong to this server alone, and is created
        /// if it is missing. Clients upload and download at /media of the listeners with
        /// WebSockets.
        folder: Option<PathBuf> = None;
        /// Bytes of all files in the folder. An upload beyond this is refused (507).
        folder_bytes_max: u64 = 10 << 30, whole(1..=1 << 50, "bytes");
        /// Scheme and host under which clients reach these listeners, such as
        /// "https://chat.example.org". "" is the address of the first of them.
        url: String = String::new(), BASE_OR_NONE;
        /// S3 endpoint, instead of a folder, such as "https://s3.example.org"; "" is none. Clients
        /// transfer files directly to and from it, not through the server.
        s3_endpoint: String = String::new(), ENDPOINT_OR_NONE;
        /// Region of the bucket.
        s3_region: String = "us-east-1".into(), text("1 to 64 letters, digits and -", is_region);
        /// The bucket.
        s3_bucket: String = String::new(), text("the name of a bucket, or empty", is_bucket);
        /// Put the bucket in the path (https://host/bucket/…) instead of the host name
        /// (https://bucket.host/…).
        s3_path_style: bool = true;
        /// The access key.
        s3_access_key: String = String::new(), text("up to 256 visible characters", is_plain);
        /// Its secret. Never printed.
        s3_secret_key: Hidden = Hidden::default(), text("up to 256 visible characters", is_plain),
            secret;
        /// File with the secret, instead of s3_secret_key; "" is none.
        s3_secret_key_file: Option<PathBuf> = None;
        /// Base URL for downloads without a signature, if the bucket is public; "" uses signed
        /// addresses, which are valid for keep_s, and for a week at most.
        s3_public_url: String = String::new(), BASE_OR_NONE;
        /// Limits of media.
        @part limits: MediaLimits;
    }
}

const BASE_OR_NONE: Kind =
    text("an http:// or https:// address without query, or empty", is_base_or_none);

fn is_base_or_none(text: &str) -> bool {
    text.is_empty() || is_url(text) && !text.contains(['?', '#', '\'', '"', ';', ',', '@'])
}

/// The signature covers only the host of the storage address and the bucket's path.
const ENDPOINT_OR_NONE: Kind =
    text("an http:// or https:// address without path and query, or empty", |text| {
        let place = text.split_once("://").map_or("", |(_, rest)| rest.trim_end_matches('/'));
        is_base_or_none(text) && !place.contains('/')
    });

impl MediaSection {
    /// Whether storage is configured.
    pub fn is_on(&self) -> bool {
        self.folder.is_some() || !self.s3_endpoint.is_empty()
    }
}

/// Longest secret in a file, bytes.
pub(crate) const SECRET_FILE_BYTES_MAX: u64 = 4_096;

fn is_region(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn is_bucket(text: &str) -> bool {
    text.is_empty()
        || (3..=63).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

pub(crate) fn is_plain(text: &str) -> bool {
    text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic())
}
