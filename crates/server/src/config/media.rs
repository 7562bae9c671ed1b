//! `[media]`: where files are kept that people send, and what bounds them.
//!
//! There is no storage until one is named. Secrets are never shown.

use super::sections::is_url;
use base::section;
use base::setting::{Hidden, Kind, text, whole};
use model::limits::MediaLimits;
use std::path::PathBuf;

section! {
    /// `[media]`: files that people send.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MediaSection {
        /// Folder of this machine where they are kept; "" is none. It is this server's alone, and
        /// made if it is missing. They are put and got at /media of the listeners with WebSockets.
        folder: Option<PathBuf> = None;
        /// Bytes of all files in the folder. One that would make it more is refused (507).
        folder_bytes_max: u64 = 10 << 30, whole(1..=1 << 50, "bytes");
        /// Under which scheme and host these listeners are reached by whoever sends and gets files,
        /// such as "https://chat.example.org". "" is the address of the first of them.
        url: String = String::new(), BASE_OR_NONE;
        /// Instead of a folder, the endpoint of a storage that speaks S3, such as
        /// "https://s3.example.org"; "" is none. Devices go there by themselves: no file passes
        /// through the server.
        s3_endpoint: String = String::new(), ENDPOINT_OR_NONE;
        /// Its region.
        s3_region: String = "us-east-1".into(), text("1 to 64 letters, digits and -", is_region);
        /// The bucket.
        s3_bucket: String = String::new(), text("the name of a bucket, or empty", is_bucket);
        /// Whether the bucket stands in the path (https://host/bucket/…), and not in front of the
        /// host (https://bucket.host/…).
        s3_path_style: bool = true;
        /// The access key.
        s3_access_key: String = String::new(), text("up to 256 visible characters", is_plain);
        /// Its secret. Never printed.
        s3_secret_key: Hidden = Hidden::default(), text("up to 256 visible characters", is_plain),
            secret;
        /// File with the secret, instead; "" is none.
        s3_secret_key_file: Option<PathBuf> = None;
        /// Where files of the bucket are got without a signature, if anybody may who has the
        /// address; "" is by a signed address, which holds for keep_s, and for a week at most.
        s3_public_url: String = String::new(), BASE_OR_NONE;
        /// What bounds them.
        @part limits: MediaLimits;
    }
}

const BASE_OR_NONE: Kind =
    text("an http:// or https:// address without query, or empty", is_base_or_none);

fn is_base_or_none(text: &str) -> bool {
    text.is_empty() || is_url(text) && !text.contains(['?', '#', '\'', '"', ';', ',', '@'])
}

/// What is signed of an address of a storage is its host and the bucket's path alone.
const ENDPOINT_OR_NONE: Kind =
    text("an http:// or https:// address without path and query, or empty", |text| {
        let place = text.split_once("://").map_or("", |(_, rest)| rest.trim_end_matches('/'));
        is_base_or_none(text) && !place.contains('/')
    });

impl MediaSection {
    /// Whether there is a storage.
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
