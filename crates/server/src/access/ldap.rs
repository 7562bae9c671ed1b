//! Logins that an LDAP server checks: the connection to it, its counts, and its log lines.
//!
//! A server that stops answering is logged once, and so is its return; an unusable entry at most
//! once a minute. `guard` decides what the answers mean for access.

use super::settings::Settings;
use crate::clock;
use ::ldap::{Ldap, LdapFault, LdapFaultKind};
use guard::http::NoVerdict;
use model::ports::access::LdapVerdict;
use model::{event, tell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shortest time between two log lines about an unavailable server, seconds.
const TELL_SERVER_S: u32 = 1;

/// Shortest time between two log lines about entries, seconds.
const TELL_ENTRY_S: u32 = 60;

/// Time between two probes while the server is unavailable and no user logs in, seconds.
pub(super) const RETRY_S: u32 = 30;

/// The LDAP server, if one is configured.
pub(super) struct LdapService {
    ldap: Option<Ldap>,
}

impl LdapService {
    /// Reads the files that the settings name. The error says what is wrong with them.
    pub(super) fn new(settings: &Settings) -> Result<LdapService, String> {
        let wrong = |why| format!("[access.ldap] {why}");
        let settings = settings.ldap().transpose().map_err(wrong)?;
        let ldap = settings.map(|settings| Ldap::new(&settings)).transpose().map_err(wrong)?;
        Ok(LdapService { ldap })
    }

    /// Checks a user's name and password at the server.
    pub(super) fn look_up(
        &self,
        tally: &LdapTally,
        user: &str,
        password: &[u8],
    ) -> Result<LdapVerdict, NoVerdict> {
        let Some(ldap) = &self.ldap else {
            return Err(NoVerdict("no LDAP server is configured".into()));
        };
        tally.asked.fetch_add(1, Ordering::Relaxed);
        let answer = ldap.ask(user, password);
        tally.heed(clock::unix_s(), answer.as_ref().err());
        answer.map_err(|fault| NoVerdict(fault.words))
    }

    /// Whether a server is configured.
    pub(super) fn is_configured(&self) -> bool {
        self.ldap.is_some()
    }

    /// Connects and binds, so that an unavailable server is logged before users notice.
    pub(super) fn probe(&self, tally: &LdapTally) {
        match &self.ldap {
            Some(ldap) => tally.heed(clock::unix_s(), ldap.probe().as_ref().err()),
            None => tally.forget(),
        }
    }
}

/// Metrics of an LDAP server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LdapCounts {
    /// 1 if the server answered the last call, 0 if not.
    pub up: u64,
    /// Logins that the server was asked about.
    pub asked: u64,
    /// Calls without an answer, by reason.
    pub faults: [(LdapFaultKind, u64); LdapFaultKind::ALL.len()],
}

/// Counts, and state of the log lines; they survive reloads.
#[derive(Default)]
pub(super) struct LdapTally {
    asked: AtomicU64,
    faults: [AtomicU64; LdapFaultKind::ALL.len()],
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// Why the server is unavailable now; `None` if it is available.
    away: Option<LdapFaultKind>,
    /// The reason in the last log line about the server; `None` if it is logged as available.
    told: Option<LdapFaultKind>,
    /// Unix seconds of the last log line about the server, and of the last about an entry.
    server_s: u32,
    entry_s: u32,
    /// Unusable entries since that line.
    more: u64,
}

impl LdapTally {
    /// Whether the server did not answer the last call.
    pub(super) fn is_away(&self) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).away.is_some()
    }

    pub(super) fn counts(&self) -> LdapCounts {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let faults = std::array::from_fn(|at| (LdapFaultKind::ALL[at], count(&self.faults[at])));
        LdapCounts { up: told.away.is_none().into(), asked: count(&self.asked), faults }
    }

    /// Resets the state, because no server is configured any more.
    fn forget(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Told::default();
    }

    /// Counts and logs the result of a call.
    fn heed(&self, now_s: u32, fault: Option<&LdapFault>) {
        if let Some(fault) = fault {
            let place = LdapFaultKind::ALL.iter().position(|kind| *kind == fault.kind);
            place.iter().for_each(|&at| _ = self.faults[at].fetch_add(1, Ordering::Relaxed));
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            Some(fault) if fault.kind.is_of_entry() => told.entry(now_s, fault),
            _ => told.server(now_s, fault),
        }
    }
}

impl Told {
    fn entry(&mut self, now_s: u32, fault: &LdapFault) {
        if now_s.abs_diff(self.entry_s) < TELL_ENTRY_S {
            self.more += 1;
            return;
        }
        self.entry_s = now_s;
        let (reason, words, more) =
            (fault.kind.name(), &fault.words, std::mem::take(&mut self.more));
        tell!(event::LDAP_ENTRY_UNUSABLE, reason, words, more);
    }

    fn server(&mut self, now_s: u32, fault: Option<&LdapFault>) {
        self.away = fault.map(|fault| fault.kind);
        if self.away == self.told {
            return;
        }
        match fault {
            // A server that answers every other call is logged as unavailable at most once a
            // second.
            Some(_) if now_s.abs_diff(self.server_s) < TELL_SERVER_S => return,
            Some(fault) => {
                self.server_s = now_s;
                let (reason, words) = (fault.kind.name(), &fault.words);
                tell!(event::LDAP_AWAY, reason, words);
            }
            None => tell!(event::LDAP_BACK),
        }
        self.told = self.away;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: LdapFaultKind) -> LdapFault {
        LdapFault { kind, words: "words".into() }
    }

    #[test]
    fn a_change_is_told_once_and_entries_once_a_minute() {
        let tally = LdapTally::default();
        let state = || {
            let told = tally.told.lock().expect("no panic");
            (told.told, told.server_s, told.entry_s, told.more)
        };
        tally.heed(100, None);
        assert_eq!(state(), (None, 0, 0, 0));
        let (late, gone) = (LdapFaultKind::Timeout, LdapFaultKind::Unreachable);
        tally.heed(100, Some(&fault(late)));
        tally.heed(150, Some(&fault(late)));
        assert_eq!(state(), (Some(late), 100, 0, 0));
        tally.heed(160, Some(&fault(gone)));
        tally.heed(160, None);
        assert_eq!((state(), tally.counts().up), ((None, 160, 0, 0), 1));
        tally.heed(160, Some(&fault(gone)));
        assert_eq!((state(), tally.counts().up), ((None, 160, 0, 0), 0), "one line a second");
        tally.heed(161, Some(&fault(gone)));
        tally.heed(161, None);
        assert_eq!(state(), (None, 161, 0, 0));
        let ambiguous = fault(LdapFaultKind::Ambiguous);
        (200..210).for_each(|now_s| tally.heed(now_s, Some(&ambiguous)));
        assert_eq!(state(), (None, 161, 200, 9), "the server is available");
        tally.heed(260, Some(&ambiguous));
        assert_eq!(state(), (None, 161, 260, 0));
        let counted: Vec<u64> = tally.counts().faults.map(|(_, count)| count).into();
        assert_eq!(counted, [3, 2, 0, 0, 0, 0, 11, 0]);
    }
}
