//! Counts of requests, each counted once by its outcome.

use model::limits::seats::NoSeat;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! outcomes {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// Outcome of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum BoshOutcome { $(#[doc = $help] $variant,)+ }

        impl BoshOutcome {
            /// All outcomes.
            pub const ALL: &'static [BoshOutcome] = &[$(BoshOutcome::$variant,)+];

            /// The metric's name, without the prefix `holdline_`.
            pub const fn name(self) -> &'static str {
                match self { $(BoshOutcome::$variant => $name,)+ }
            }

            /// The metric's explanation.
            pub const fn help(self) -> &'static str {
                match self { $(BoshOutcome::$variant => $help,)+ }
            }
        }
    };
}

outcomes! {
    Begun "bosh_begun_total" "BOSH sessions begun.";
    Taken "bosh_taken_total" "BOSH requests passed to their session.";
    Told "bosh_told_total" "Requests for host-meta or CORS answered.";
    BadRequest "bosh_bad_total" "Invalid requests.";
    Unknown "bosh_unknown_total" "Requests for an unknown or ended session.";
    Full "bosh_full_total" "Refused: limit of sessions or requests reached, or a shard was full.";
    Source "bosh_source_total" "Refused: limit of sessions or connections of one source reached.";
    TooLarge "bosh_too_large_total" "Requests that were too large or too slow.";
    Origin "bosh_origin_total" "Requests from web pages of an origin that is not allowed.";
    Method "bosh_method_total" "Requests with an unknown method or path.";
}

impl BoshOutcome {
    /// Outcome that a lack of room is counted as.
    pub(crate) fn of(why: NoSeat) -> BoshOutcome {
        match why {
            NoSeat::Full => BoshOutcome::Full,
            NoSeat::SourceFull => BoshOutcome::Source,
        }
    }
}

/// Counts of all that.
#[derive(Default, Debug)]
pub struct BoshTally([AtomicU64; BoshOutcome::ALL.len()]);

impl BoshTally {
    pub(crate) fn count(&self, outcome: BoshOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests came to that.
    pub fn of(&self, outcome: BoshOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
