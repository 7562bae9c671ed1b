//! Messages that the server has not stored yet, in the order in which they were sent.
//!
//! One message of a conversation is on its way at a time, so that a conversation keeps its order.
//! Each keeps its client id until the server has answered, so that retries never duplicate it
//! (IM 4.2).

use crate::pb::Content;
use crate::words::Error;

const MESSAGES_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;
/// After a message that the server could not take now, milliseconds; it doubles up to the second.
const AGAIN_MS: u64 = 1_000;
const AGAIN_MS_MAX: u64 = 30_000;

/// A message that waits.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Queued {
    pub client_id: [u8; 16],
    pub to: String,
    pub content: Content,
}

impl Queued {
    fn size(&self) -> usize {
        self.content.text.len() + self.content.extra.len()
    }

    fn conversation<'a>(&'a self, domain: &'a str) -> (&'a str, &'a str) {
        self.to.split_once('@').unwrap_or((&self.to, domain))
    }
}

#[derive(Default)]
pub(crate) struct Outbox {
    queue: Vec<Queued>,
    /// Rises with each change of the queue.
    pub version: u64,
    /// Numbers of requests, and the messages that they send.
    under_way: Vec<(u32, [u8; 16])>,
    again_at: Option<u64>,
    again_ms: u64,
}

impl Outbox {
    pub fn new(queue: Vec<Queued>) -> Outbox {
        Outbox { queue, again_ms: AGAIN_MS, ..Outbox::default() }
    }

    pub fn queue(&self) -> &[Queued] {
        &self.queue
    }

    /// Queues it, unless a message with this client id waits already.
    pub fn add(&mut self, queued: Queued) -> Result<(), Error> {
        if self.queue.iter().any(|it| it.client_id == queued.client_id) {
            return Ok(());
        }
        let size: usize = self.queue.iter().map(Queued::size).sum();
        if self.queue.len() >= MESSAGES_MAX || size + queued.size() > BYTES_MAX {
            return Err(Error::new("queue_full"));
        }
        self.queue.push(queued);
        self.version += 1;
        Ok(())
    }

    /// The next that is to be sent: the first of a conversation that has none on its way.
    pub fn next(&mut self, now: u64, domain: &str, window: usize) -> Option<Queued> {
        if self.again_at.is_some_and(|at| now < at) {
            return None;
        }
        self.again_at = None;
        if self.under_way.len() >= window {
            return None;
        }
        let is_under_way = |it: &Queued| self.under_way.iter().any(|(_, id)| *id == it.client_id);
        let busy: Vec<_> = self.queue.iter().filter(|it| is_under_way(it)).collect();
        let is_free = |it: &&Queued| {
            let conversation = it.conversation(domain);
            busy.iter().all(|other| other.conversation(domain) != conversation)
        };
        self.queue.iter().find(is_free).cloned()
    }

    pub fn sent(&mut self, number: u32, client_id: [u8; 16]) {
        self.under_way.push((number, client_id));
    }

    fn landed(&mut self, number: u32) -> Option<[u8; 16]> {
        let at = self.under_way.iter().position(|(it, _)| *it == number)?;
        Some(self.under_way.swap_remove(at).1)
    }

    /// The server has answered this request for good; its message.
    pub fn answered(&mut self, number: u32) -> Option<Queued> {
        let client_id = self.landed(number)?;
        self.again_ms = AGAIN_MS;
        self.take(&client_id)
    }

    /// The server could not take it now.
    pub fn refused(&mut self, now: u64, number: u32, hint_ms: u64) {
        if self.landed(number).is_some() {
            self.again_at = Some(now + self.again_ms.max(hint_ms));
            self.again_ms = (self.again_ms * 2).min(AGAIN_MS_MAX);
        }
    }

    /// Removes a message from the queue.
    pub fn take(&mut self, client_id: &[u8]) -> Option<Queued> {
        let at = self.queue.iter().position(|it| it.client_id == client_id)?;
        self.version += 1;
        Some(self.queue.remove(at))
    }

    /// Removes the messages that are too large for the server.
    pub fn take_large(&mut self, text_max: u32, extra_max: u32) -> Vec<Queued> {
        let is_large = |it: &Queued| {
            it.content.text.len() > text_max as usize || it.content.extra.len() > extra_max as usize
        };
        let (large, rest) = std::mem::take(&mut self.queue).into_iter().partition(is_large);
        self.queue = rest;
        let large: Vec<Queued> = large;
        self.version += u64::from(!large.is_empty());
        large
    }

    /// The connection has ended: nothing is on its way.
    pub fn lost(&mut self) {
        self.under_way.clear();
        self.again_at = None;
    }

    pub fn due(&self) -> Option<u64> {
        self.again_at.filter(|_| !self.queue.is_empty())
    }
}
