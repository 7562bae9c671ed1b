//! Subscriptions for which pages of retained messages were given out.
//!
//! Three shards take part in delivering a retained message to a new subscription: the publisher's
//! finds the subscribers and sends them the message, the owner's stores it, the subscriber's asks
//! the owner for stored messages. A subscription made after the publisher's search may get its page
//! before the message is stored, and would miss it. So owners count the pages that they give out
//! and remember the receivers; the publisher's shard reads the count before it searches, and the
//! owner sends the message to those who got a page since. A subscriber that has it already does not
//! get it twice: see `newcomers`.

use crate::peer_message::Asker;
use base::time::{Instant, Now};
use std::collections::VecDeque;
use std::time::Duration;

/// Pages that are remembered, a shard: as many as may be given out while a peer message is on its
/// way.
const ASKED_MAX: usize = 65_536;

/// Bytes of their filters.
const ASKED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a peer message may be on its way.
const SPAN: Duration = Duration::from_secs(10);

/// Subscriptions that were given pages.
#[derive(Default)]
pub(crate) struct Askers {
    askers: VecDeque<(Instant, Asker)>,
    bytes: usize,
    /// All that ever were given out.
    count: u64,
}

impl Askers {
    /// Notes one more page that was given out.
    pub fn push(&mut self, now: Now, asker: Asker) {
        self.count += 1;
        self.bytes += asker.filter.len();
        self.askers.push_back((now.after(SPAN), asker));
        while let Some((until, first)) = self.askers.front()
            && (*until <= now.mono || self.askers.len() > ASKED_MAX || self.bytes > ASKED_BYTES_MAX)
        {
            self.bytes -= first.filter.len();
            self.askers.pop_front();
        }
    }

    /// How many ever were given out.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Askers behind the first `count` whose filters match the topic, the latest first.
    pub fn behind(&self, count: u64, topic: &str) -> Vec<Asker> {
        let new = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        let mut found: Vec<Asker> = Vec::new();
        for (_, asker) in self.askers.iter().rev().take(new) {
            let is_known =
                |known: &Asker| known.session == asker.session && *known.filter == *asker.filter;
            if crate::routes::matches(&asker.filter, topic) && !found.iter().any(is_known) {
                found.push(asker.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::made::NOW;
    use base::slab::Key;
    use model::id::{SessionRef, ShardId};
    use std::sync::Arc;

    fn asker(slot: u32, filter: &Arc<str>) -> Asker {
        let session = SessionRef::new(ShardId(0), Key { slot, generation: 0 });
        Asker { session, filter: Arc::clone(filter), since: 0 }
    }

    #[test]
    fn so_many_pages_are_remembered_and_for_so_long() {
        let (mut asked, filter) = (Askers::default(), Arc::from("t"));
        (0..ASKED_MAX as u32).for_each(|slot| asked.push(NOW, asker(slot, &filter)));
        assert_eq!((asked.askers.len(), asked.bytes), (ASKED_MAX, ASKED_MAX));
        asked.push(NOW, asker(7, &filter));
        assert_eq!((asked.askers.len(), asked.bytes), (ASKED_MAX, ASKED_MAX));
        assert_eq!(asked.askers[0].1.session.key().slot, 1, "the oldest goes");
        let at = |nanos: i64| {
            let mono = Instant::from_nanos(NOW.after(SPAN).nanos().wrapping_add_signed(nanos));
            Now::new(mono, NOW.wall_ms)
        };
        asked.push(at(-1), asker(8, &filter));
        assert_eq!(asked.askers.len(), ASKED_MAX);
        asked.push(at(0), asker(9, &filter));
        assert_eq!((asked.askers.len(), asked.bytes), (2, 2), "their answers have come");
        assert_eq!(asked.count, ASKED_MAX as u64 + 3);
    }

    #[test]
    fn their_filters_have_so_many_bytes() {
        let (mut asked, filter) = (Askers::default(), Arc::from("t".repeat(1_024)));
        let most = ASKED_BYTES_MAX / 1_024;
        (0..most as u32).for_each(|slot| asked.push(NOW, asker(slot, &filter)));
        assert_eq!((asked.askers.len(), asked.bytes), (most, ASKED_BYTES_MAX));
        asked.push(NOW, asker(9, &Arc::from("t")));
        assert_eq!((asked.askers.len(), asked.bytes), (most, ASKED_BYTES_MAX - 1_023));
    }

    #[test]
    fn those_behind_a_page_are_told_once_each_the_last_first() {
        let mut asked = Askers::default();
        let filters: [Arc<str>; 2] = [Arc::from("t/#"), Arc::from("u")];
        for (slot, filter) in [(1, 0), (2, 0), (1, 1), (1, 0), (3, 0)] {
            asked.push(NOW, asker(slot, &filters[filter]));
        }
        let behind = |count: u64, topic: &str| {
            let found = asked.behind(count, topic);
            found.iter().map(|asker| asker.session.key().slot).collect::<Vec<_>>()
        };
        assert_eq!(behind(0, "t/x"), [3, 1, 2]);
        assert_eq!(behind(4, "t/x"), [3]);
        assert_eq!((behind(5, "t/x"), behind(9, "t/x")), (vec![], vec![]));
        assert_eq!((behind(2, "u"), behind(3, "u")), (vec![1], vec![]));
    }
}
