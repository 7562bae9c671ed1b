//! An assertion whose blast radius is one connection.
//!
//! `assert!` is for shared state: when it fails the process must not go on. [`never!`] is for the
//! state of one connection or one device: in tests and simulation it panics, in release it counts,
//! and the caller closes that one thing (STYLE.md, errors).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

static SEEN: AtomicU64 = AtomicU64::new(0);

static LAST: Mutex<&str> = Mutex::new("");

/// How often an impossible condition was met since the process began. Exported as a metric: any
/// value but zero is a defect to report.
pub fn seen() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

/// Where in the source the last one was met: file and line. Empty while there was none.
pub fn last() -> &'static str {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one impossible condition and keeps its place; called by [`never!`](crate::never!).
pub fn count(place: &'static str) {
    SEEN.fetch_add(1, Ordering::Relaxed);
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = place;
}

/// Evaluates to `true` when the impossible `condition` holds, after counting it; panics in builds
/// with debug assertions, so that tests and the simulation stop at the first one.
#[macro_export]
macro_rules! never {
    ($condition:expr, $($message:tt)+) => {{
        let met: bool = $condition;
        if met {
            $crate::never::count(concat!(file!(), ":", line!()));
            if cfg!(debug_assertions) {
                panic!($($message)+);
            }
        }
        met
    }};
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "a slot has two tenants")]
    fn it_panics_where_tests_run() {
        never!(1 + 1 == 2, "a slot has two tenants");
    }

    #[test]
    fn it_is_silent_when_all_is_well() {
        let before = super::seen();
        assert!(!never!(1 + 1 == 3, "arithmetic"));
        assert_eq!(super::seen(), before);
    }

    #[test]
    fn what_is_met_is_counted_and_its_place_kept() {
        let before = super::seen();
        super::count("a.rs:7");
        assert!(super::seen() > before);
        assert!(super::last().contains(".rs:"), "this one, or that of a test beside it");
    }
}
