//! What became of requests: counted once each, by its reason.

use model::limits::seats::NoSeat;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! outcomes {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// What became of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum BoshOutcome { $(#[doc = $help] $variant,)+ }

        impl BoshOutcome {
            /// All of them.
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
    Begun "bosh_begun_total" "Sessions of BOSH that were begun.";
    Taken "bosh_taken_total" "Requests that were handed to their session.";
    Told "bosh_told_total" "Where a domain's services are, or what a page may do (CORS), was told.";
    BadRequest "bosh_bad_total" "Requests that make no sense.";
    Unknown "bosh_unknown_total" "Requests of a session that there is not (any more).";
    Full "bosh_full_total" "As many sessions, or requests, as there may be, or no room in a shard.";
    Source "bosh_source_total" "As many sessions, or connections, of one source as there may be.";
    TooLarge "bosh_too_large_total" "Requests that are too large, or did not come in time.";
    Origin "bosh_origin_total" "Requests by another site's web page, which is not let in.";
    Method "bosh_method_total" "A method or path that is not served.";
}

impl BoshOutcome {
    /// How it is counted that there is no room.
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
