//! Shared state of all publishes: numbers of messages, publishers by number, room for matches.
//!
//! A message's number is given on its publisher's shard, in the order in which it published. The
//! last publisher is remembered, for most publish more than once. Matches are found into the same
//! list again and again, so that nothing is allocated for them.

use super::hits::Hits;
use crate::Settings;
use crate::durable::entries::home_hash;
use base::hash::HashKey;
use base::slab::Key;
use base::time::Now;
use model::id::ShardId;
use model::topic::Publication;

/// Routing state of a shard.
pub(crate) struct Routing {
    shard: ShardId,
    home: HashKey,
    last_id: u64,
    /// The last publisher, and what stands for it.
    publisher: Option<(Key, u64)>,
    hits: Hits,
}

impl Routing {
    pub fn new(settings: &Settings) -> Routing {
        let (shard, home) = (settings.shard, settings.home);
        Routing { shard, home, last_id: 0, publisher: None, hits: Hits::default() }
    }

    /// Gives a message its number and its time.
    pub fn stamp(&mut self, now: Now, message: &mut Publication) {
        self.last_id = Publication::number_after(self.last_id, now.wall_ms, self.shard);
        message.id = self.last_id;
        message.at_s = now.unix_s();
    }

    /// The number that was given last.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// A number that was given before a restart: those given from now on are above it.
    pub fn observe(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// Number of a client in the messages that it publishes.
    pub fn publisher_of(&self, client_id: &str) -> u64 {
        home_hash(self.home, client_id)
    }

    /// Number of a session as a publisher; `client_id` is called for its client identifier if it
    /// was not the last publisher.
    pub fn publisher<'s>(
        &mut self,
        session: Key,
        client_id: impl FnOnce() -> Option<&'s str>,
    ) -> Option<u64> {
        if let Some((last, publisher)) = self.publisher
            && last == session
        {
            return Some(publisher);
        }
        let publisher = self.publisher_of(client_id()?);
        self.publisher = Some((session, publisher));
        Some(publisher)
    }

    /// The list for matches, to be given back.
    pub fn take_hits(&mut self) -> Hits {
        std::mem::take(&mut self.hits)
    }

    pub fn put_hits(&mut self, hits: Hits) {
        self.hits = hits;
    }
}
