//! What became of requests for files: counted once each, by its reason.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! outcomes {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// What became of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Outcome { $(#[doc = $help] $variant,)+ }

        impl Outcome {
            /// All of them.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)+];

            /// The word in metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)+ }
            }
        }
    };
}

outcomes! {
    Stored "stored" "A file is whole, and kept.";
    Given "given" "A file, or a part of one, was begun to be given.";
    Asked "asked" "A page asked what it may do (CORS), or a head was given.";
    Forbidden "forbidden" "The address is none of ours, or for something else.";
    Expired "expired" "The address holds no longer.";
    Missing "missing" "There is no such file (any more).";
    Length "length" "The length was not said, or is not the one that was agreed.";
    MediaType "type" "The type is not the one that was agreed.";
    Taken "taken" "A file is there already, or is being uploaded.";
    Busy "busy" "As many transfers as there may be.";
    Account "account" "As many uploads of one account as there may be.";
    Full "full" "The folder has no room.";
    Torn "torn" "An upload that ended, or was silent, before it was whole.";
    Range "range" "A part that the file does not have.";
    Method "method" "A method that is not served.";
    Failed "failed" "The disk failed.";
}

/// Counts of all that.
#[derive(Default, Debug)]
pub struct MediaTally([AtomicU64; Outcome::ALL.len()]);

impl MediaTally {
    pub(crate) fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests came to that.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
