//! The pause in which calls fail at once, because the last ones got no answer.
//!
//! Without it a server that hangs would hold each caller's thread for the whole time of a call.

use crate::fault::{LdapFault, LdapFaultKind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Calls without an answer, and none with one between, before a pause begins.
const FAULTS_MIN: u32 = 2;

/// Length of a pause.
const PAUSE: Duration = Duration::from_secs(1);

/// The last calls without an answer; empty if the last call got one.
#[derive(Default)]
pub(crate) struct Pause(Mutex<Option<Silence>>);

struct Silence {
    faults: u32,
    last: LdapFault,
    /// Calls before this instant fail at once.
    until: Instant,
}

impl Pause {
    /// The fault of a call that must not be tried now. After a pause the first call is tried, and
    /// the others fail until it is over, which is within `call`.
    pub(crate) fn fault(&self, now: Instant, call: Duration) -> Option<LdapFault> {
        let mut silence = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silence = silence.as_mut().filter(|silence| silence.faults >= FAULTS_MIN)?;
        if now < silence.until {
            return Some(silence.last.clone());
        }
        silence.until = now + call;
        None
    }

    /// Takes note of the result of a call.
    pub(crate) fn heed<T>(&self, now: Instant, result: &Result<T, LdapFault>) {
        let mut silence = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *silence = match result {
            Err(last)
                if matches!(last.kind, LdapFaultKind::Timeout | LdapFaultKind::Unreachable) =>
            {
                let faults = silence.as_ref().map_or(0, |silence| silence.faults).saturating_add(1);
                Some(Silence { faults, last: last.clone(), until: now + PAUSE })
            }
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    const CALL: Duration = Duration::from_secs(5);

    #[test]
    fn two_calls_without_an_answer_begin_a_pause_and_one_call_ends_it() {
        let (pause, start) = (Pause::default(), now());
        let at = |ms| start + Duration::from_millis(ms);
        let late = LdapFault::new(LdapFaultKind::Timeout, "late");
        let heed = |ms, fault: Option<&LdapFault>| {
            pause.heed(at(ms), &fault.map_or(Ok(()), |fault| Err(fault.clone())));
        };
        heed(0, Some(&late));
        assert_eq!(pause.fault(at(0), CALL), None, "one late answer says little");
        heed(0, Some(&late));
        assert_eq!(pause.fault(at(999), CALL), Some(late.clone()));
        assert_eq!(pause.fault(at(1_000), CALL), None, "one call tries");
        assert_eq!(pause.fault(at(1_001), CALL), Some(late.clone()), "and the others do not");
        assert_eq!(pause.fault(at(6_000), CALL), None, "the call that tried was never heard of");
        heed(6_100, Some(&late));
        assert_eq!(pause.fault(at(7_099), CALL), Some(late.clone()));
        heed(7_099, Some(&LdapFault::new(LdapFaultKind::Ambiguous, "two entries")));
        assert_eq!(pause.fault(at(7_099), CALL), None, "the server answers");
        heed(7_100, Some(&late));
        heed(7_100, None);
        heed(7_100, Some(&late));
        assert_eq!(pause.fault(at(7_100), CALL), None);
    }
}
