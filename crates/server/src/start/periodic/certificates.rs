//! Certificates that expire: told in the log from 30 days on, and shown to who asks.
//!
//! The check reads the certificates in use, not the files as they are now: a certificate that was
//! renewed and not read again expires all the same. A file that several listeners have is logged
//! once.

use super::PeriodicTask;
use crate::clock;
use crate::start::doors::ListenerTls;
use crate::start::live::listeners::Listeners;
use admin::CertificateStatus;
use model::{event, tell};
use net::layer::expiry::Expiry;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Days before the end from which on it is logged.
const DAYS: i64 = 30;

const DAY_S: i64 = 86_400;

/// Time between two log lines about it.
const EVERY: Duration = Duration::from_secs(DAY_S as u64);

/// When everything that is in use expires, the first first; each file once, with its listeners.
pub(in crate::start) fn statuses(tls: &ListenerTls) -> Vec<CertificateStatus> {
    let mut all: BTreeMap<Expiry, Vec<String>> = BTreeMap::new();
    for (listener, server) in tls {
        for expiry in server.expiries().iter() {
            all.entry(expiry.clone()).or_default().push(listener.clone());
        }
    }
    let now_s = i64::from(clock::unix_s());
    all.into_iter().map(|(expiry, listeners)| status(now_s, expiry, listeners)).collect()
}

fn status(now_s: i64, expiry: Expiry, listeners: Vec<String>) -> CertificateStatus {
    let Expiry { until_s, kind, file, subject } = expiry;
    let left_s = until_s.saturating_sub(now_s);
    let state = match left_s {
        ..=0 => "expired",
        left_s if left_s <= DAYS * DAY_S => "expiring",
        _ => "valid",
    };
    CertificateStatus {
        kind: kind.name(),
        file: file.display().to_string(),
        subject,
        listeners,
        expires_ms: u64::try_from(until_s).unwrap_or(0) * 1_000,
        days_left: left_s.div_euclid(DAY_S),
        state,
    }
}

/// Tells of those that expire soon or have expired.
pub(in crate::start) fn warn(tls: &ListenerTls) {
    for it in statuses(tls) {
        let shown = |text: &str| base::text::escaped(text).into_owned();
        let (file, subject) = (shown(&it.file), shown(&it.subject));
        let (listener, kind, days) = (it.listeners.join(","), it.kind, it.days_left);
        match it.state {
            "expired" => {
                tell!(event::CERTIFICATE_EXPIRED, listener, kind, file, subject, days);
            }
            "expiring" => {
                tell!(event::CERTIFICATE_EXPIRES, listener, kind, file, subject, days);
            }
            _ => {}
        }
    }
}

/// Tells it at the start and once a day.
pub(in crate::start) fn task(listeners: Arc<Listeners>) -> PeriodicTask {
    Box::new(move || {
        warn(&listeners.tls());
        EVERY
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::layer::expiry::ExpiryKind;

    #[test]
    fn it_is_told_from_thirty_days_on() {
        let (file, subject) = ("a.pem".into(), "CN=a".to_owned());
        let expiry = Expiry { until_s: 100 * DAY_S, kind: ExpiryKind::Certificate, file, subject };
        let at = |now_s: i64| {
            let told = status(now_s, expiry.clone(), vec!["any".into()]);
            (told.state, told.days_left)
        };
        assert_eq!(at(0), ("valid", 100));
        assert_eq!(at(70 * DAY_S - 1), ("valid", 30));
        assert_eq!(at(70 * DAY_S), ("expiring", 30));
        assert_eq!(at(100 * DAY_S - 1), ("expiring", 0));
        assert_eq!(at(100 * DAY_S), ("expired", 0));
        assert_eq!(at(100 * DAY_S + 1), ("expired", -1));
    }
}
