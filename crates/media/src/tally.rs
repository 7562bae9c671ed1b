//! What became of requests for files: counted once each, by its reason.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! outcomes {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// What became of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum TransferOutcome { $(#[doc = $help] $variant,)+ }

        impl TransferOutcome {
            /// All of them.
            pub const ALL: &'static [TransferOutcome] = &[$(TransferOutcome::$variant,)+];

            /// The metric's name, without the prefix `holdline_`.
            pub const fn name(self) -> &'static str {
                match self { $(TransferOutcome::$variant => $name,)+ }
            }

            /// The metric's explanation.
            pub const fn help(self) -> &'static str {
                match self { $(TransferOutcome::$variant => $help,)+ }
            }
        }
    };
}

outcomes! {
    Stored "media_http_stored_total" "A file is whole, and kept.";
    Given "media_http_given_total" "A file, or a part of one, was begun to be given.";
    Asked "media_http_asked_total" "A page asked what it may do (CORS), or a head was given.";
    Forbidden "media_http_forbidden_total" "The address is none of ours, or for something else.";
    Expired "media_http_expired_total" "The address holds no longer.";
    Missing "media_http_missing_total" "There is no such file (any more).";
    Length "media_http_length_total" "The length was not said, or is not the one that was agreed.";
    MediaType "media_http_type_total" "The type is not the one that was agreed.";
    Taken "media_http_taken_total" "A file is there already, or is being uploaded.";
    Busy "media_http_busy_total" "As many transfers as there may be.";
    Source "media_http_source_total" "As many transfers or uploads of one source as may be.";
    Account "media_http_account_total" "As many uploads of one account as there may be.";
    Full "media_http_full_total" "The folder has no room.";
    Torn "media_http_torn_total" "An upload that ended, or was silent, before it was whole.";
    Range "media_http_range_total" "A part that the file does not have.";
    Method "media_http_method_total" "A method that is not served.";
    Failed "media_http_failed_total" "The disk failed.";
}

/// Counts of all that.
#[derive(Default, Debug)]
pub struct MediaTally([AtomicU64; TransferOutcome::ALL.len()]);

impl MediaTally {
    pub(crate) fn count(&self, outcome: TransferOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests came to that.
    pub fn of(&self, outcome: TransferOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
