//! Counts of requests for files, each counted once by its outcome.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! outcomes {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// Outcome of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum TransferOutcome { $(#[doc = $help] $variant,)+ }

        impl TransferOutcome {
            /// All outcomes.
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
    Stored "media_http_stored_total" "Uploads stored.";
    Given "media_http_given_total" "Downloads begun, whole or in part.";
    Asked "media_http_asked_total" "CORS and HEAD requests answered.";
    Forbidden "media_http_forbidden_total" "Requests with an invalid address.";
    Expired "media_http_expired_total" "Requests with an expired address.";
    Missing "media_http_missing_total" "Requests for a missing file.";
    Length "media_http_length_total" "Uploads refused: missing or wrong length.";
    MediaType "media_http_type_total" "Uploads refused: wrong type.";
    Taken "media_http_taken_total" "Uploads refused: file exists or is being uploaded.";
    Busy "media_http_busy_total" "Refused: limit of transfers reached.";
    Source "media_http_source_total"
        "Refused: limit of transfers or uploads of one source reached.";
    Account "media_http_account_total" "Refused: limit of uploads of one account reached.";
    Full "media_http_full_total" "Uploads refused: folder full.";
    Torn "media_http_torn_total" "Uploads broken off before they were complete.";
    Range "media_http_range_total" "Invalid ranges requested.";
    Method "media_http_method_total" "Requests with an unknown method.";
    Failed "media_http_failed_total" "Requests failed: disk error.";
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
