//! The limits of files that people send: keys of `[media]`.

use crate::media::is_type_pattern;
use base::section;
use base::setting::{list, whole};

section! {
    /// The limits of media.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct MediaLimits {
        /// Bytes of one file. A larger one is refused.
        file_bytes_max: u64 = 32 * 1024 * 1024, whole(1..=1 << 40, "bytes");
        /// Types of content that are taken: "image/png", "image/*", or "*/*" for any. Others are
        /// refused.
        types: Vec<String> = usual_types(), list(64, "media types", is_type_pattern);
        /// Files that one account may be given leave to upload in a day (of UTC), whether it does
        /// or not. One more is refused.
        files_a_day_max: u32 = 500, whole(1..=1 << 30, "files");
        /// Bytes of them. A file that would make it more is refused.
        bytes_a_day_max: u64 = 1024 * 1024 * 1024, whole(1..=1 << 44, "bytes");
        /// How long the leave to upload holds. Later the storage refuses it.
        upload_s: u32 = 300, whole(10..=86_400, "seconds");
        /// How long a file is kept, and its address holds. In the folder it is removed then; in a
        /// bucket a lifecycle rule does that, and a signed address holds for a week at most.
        keep_s: u32 = 30 * 86_400, whole(60..=315_360_000, "seconds");
        /// Connections that the folder serves at once. One more is answered 503.
        transfers_max: u32 = 256, whole(1..=65_536, "connections");
        /// Of them, those of one source: an IPv4 address, or a /64 of IPv6. One more is answered
        /// 503. 0: half of transfers_max. All that a proxy brings without a PROXY header is of one
        /// source.
        transfers_a_source_max: u32 = 0, whole(0..=65_536, "connections");
        /// Files that are being uploaded into the folder at once. One more is answered 503.
        uploads_max: u32 = 64, whole(1..=65_536, "files");
        /// Of them, those of one source. One more is answered 503. 0: half of uploads_max.
        uploads_a_source_max: u32 = 0, whole(0..=65_536, "files");
        /// Of them, those of one account. One more is answered 429.
        uploads_an_account_max: u16 = 4, whole(1..=65_535, "files");
        /// Time in which something of a file must go on. Then the connection ends.
        silence_ms_max: u32 = 30_000, whole(100..=3_600_000, "milliseconds");
        /// Time that one file may take. Then the connection ends.
        transfer_s_max: u32 = 3_600, whole(1..=86_400, "seconds");
    }
}

/// What people send each other.
fn usual_types() -> Vec<String> {
    let types = ["image/*", "video/*", "audio/*", "text/plain", "application/*"];
    types.map(String::from).to_vec()
}
