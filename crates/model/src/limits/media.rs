//! The limits of sent files: keys of `[media]`.

use crate::media::is_type_pattern;
use base::section;
use base::setting::{list, whole};

section! {
    /// The limits of media.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MediaLimits {
        /// Bytes of one file. A larger one is refused.
        @live file_bytes_max: u64 = 32 * 1024 * 1024, whole(1..=1 << 40, "bytes");
        /// Accepted content types: "image/png", "image/*", or "*/*" for any. Others are refused.
        @live types: Vec<String> = usual_types(), list(64, "media types", is_type_pattern);
        /// Upload permissions for one account in a day (UTC), used or not. One more is refused.
        @live files_a_day_max: u32 = 500, whole(1..=1 << 30, "files");
        /// Bytes of these uploads. A file beyond them is refused.
        @live bytes_a_day_max: u64 = 1024 * 1024 * 1024, whole(1..=1 << 44, "bytes");
        /// How long an upload permission is valid. After it, the storage refuses the upload.
        @live upload_s: u32 = 300, whole(10..=86_400, "seconds");
        /// How long a file is kept and its address is valid. In the folder it is deleted then; in a
        /// bucket a lifecycle rule must do that, and a signed address is valid for a week at most.
        @live keep_s: u32 = 30 * 86_400, whole(60..=315_360_000, "seconds");
        /// Concurrent connections to the folder. One more gets 503.
        @live transfers_max: u32 = 256, whole(1..=65_536, "connections");
        /// Of them, those of one source: an IPv4 address, or an IPv6 /64. One more gets 503. 0:
        /// half of transfers_max. All connections of a proxy without PROXY header have the same
        /// source.
        @live transfers_a_source_max: u32 = 0, whole(0..=65_536, "connections");
        /// Concurrent uploads into the folder. One more gets 503.
        @live uploads_max: u32 = 64, whole(1..=65_536, "files");
        /// Of them, those of one source. One more gets 503. 0: half of uploads_max.
        @live uploads_a_source_max: u32 = 0, whole(0..=65_536, "files");
        /// Of them, those of one account. One more gets 429.
        @live uploads_an_account_max: u16 = 4, whole(1..=65_535, "files");
        /// Time in which a transfer must make progress. After it, the connection is closed.
        @live silence_ms_max: u32 = 30_000, whole(100..=3_600_000, "milliseconds");
        /// Longest transfer of one file. After it, the connection is closed.
        @live transfer_s_max: u32 = 3_600, whole(1..=86_400, "seconds");
    }
}

/// Content types that people usually send.
fn usual_types() -> Vec<String> {
    let types = ["image/*", "video/*", "audio/*", "text/plain", "application/*"];
    types.map(String::from).to_vec()
}
