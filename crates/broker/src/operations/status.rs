//! Status of a shard: its gauges, what is not settled, and its invariants, looked at one by one.
//!
//! Counts are kept where things change; only the audit, which is for tests and the simulation,
//! walks.

use crate::Broker;
use crate::message::queue::Totals;
use model::ports::control::Status;

impl Broker {
    /// Adds this shard's gauges.
    pub fn status(&self, status: &mut Status) {
        status.sessions += self.sessions.len() as u64;
        status.sessions_online += self.sessions.count_online();
        status.subscriptions += self.subscriptions.len() as u64 + self.groups.members();
        let (retained, retained_bytes) = self.retained.all().of_users();
        status.retained += retained as u64;
        status.retained_bytes += retained_bytes;
        status.queued += self.totals.count();
        status.queued_bytes += self.totals.bytes();
        status.delayed += self.delayed.len() as u64;
    }

    /// Calls to the log that are not completed, and work that waits.
    pub fn unsettled(&self) -> usize {
        let waiting = self.delayed.wills() + self.endings.len() + self.fan_outs.len();
        self.log.unsettled() + waiting
    }
    /// Panics when an invariant does not hold. Visits all sessions: not for a server at work.
    pub fn audit(&self) {
        let (mut online, mut totals, mut filters, mut users) = (0, Totals::default(), 0, 0);
        for (key, session) in self.sessions.iter() {
            assert_eq!(self.sessions.find(session.id()), Some(key), "a session is found by name");
            users += 1;
            for filter in session.filters() {
                filters += 1;
                assert!(
                    self.subscriptions.options(filter, key.slot).is_some(),
                    "it holds its filters"
                );
            }
            assert!(session.version() <= self.sessions.last_version(), "versions rise");
            assert!(session.version().0 > 0, "whoever came or was restored has a version");
            let is_online = session.online().is_some();
            online += u64::from(is_online);
            assert!(!is_online || session.reason().is_none(), "who is online has not ended");
            let away = session.conn().is_none();
            assert!(
                !away || session.expiry_s() > 0,
                "what does not outlive its connection is gone"
            );
            assert!(!away || session.is_durable(), "who is away is in the log");
            let Some(more) = &session.more else { continue };
            assert!(!more.is_idle(), "who is idle owns nothing but a record");
            more.queue.audit(&mut totals);
            assert!(
                !away || more.queue.on_way() <= more.queue.releases().count(),
                "nothing goes out"
            );
            more.inbound.audit(away, |wait| self.answers.is_open(wait));
        }
        assert_eq!(online, self.sessions.count_online(), "online");
        for (left, queue) in self.endings.each() {
            filters += left;
            queue.audit(&mut totals);
        }
        self.totals.audit(totals);
        assert_eq!(filters, self.subscriptions.len(), "subscriptions");
        assert_eq!(users, self.sessions.holders(), "principals");
        self.answers.audit();
        self.admissions.audit(|key| self.sessions.conn(key));
    }
}
