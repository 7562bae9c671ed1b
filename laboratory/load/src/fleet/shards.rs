//! Shards of simulated clients: one a thread, nothing shared on their clients' way.
//!
//! The driver of clients, the fleet or wrk, brings a logic for each thread and runs the shards on
//! threads of its own.

use base::hash::HashKey;
use model::close::CloseReason;
use model::id::ShardId;
use model::limits::Limits;
use net::epoll::Epoll;
use net::mailbox::Mailbox;
use net::shard::{Census, ShardMessageOf};
use net::{Settings, Shard, ShardLogic};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// A message to a shard with logic `L`.
pub type ClientMail<L> = ShardMessageOf<L, OwnedFd>;
/// A shard of simulated clients.
pub type ClientShard<L> = Shard<Epoll<ClientMail<L>>, L>;
/// Mailboxes of all shards, by their numbers.
pub type ClientMailboxes<L> = Arc<[Arc<Mailbox<ClientMail<L>>>]>;

/// A shard for each logic, and their mailboxes; their clocks begin at `began`. Precise ones turn
/// when something is planned, not up to a millisecond later, for one more system call a turn.
pub fn shards<L: ShardLogic>(
    logics: impl ExactSizeIterator<Item = L>,
    limits: Limits,
    seed: u64,
    began: Instant,
    is_precise: bool,
) -> Result<(ClientMailboxes<L>, Vec<ClientShard<L>>), String>
where
    ClientMail<L>: Send,
{
    let room = limits.mailbox_messages_max as usize;
    let count = logics.len();
    let boxes: Result<Vec<_>, _> = (0..count).map(|_| Mailbox::new(room)).collect();
    let mailboxes: ClientMailboxes<L> = boxes.map_err(failed)?.into();
    let (hash_key, limits, census) = (hash_key()?, Arc::new(limits), Arc::<Census>::default());
    let shards = logics.enumerate().map(|(shard, logic)| {
        let shard = ShardId(shard as u16);
        let settings = Settings {
            shard,
            shards: count as u16,
            hash_key,
            limits: limits.clone(),
            doors: Vec::new(),
            census: census.clone(),
            seed,
            // What a laboratory draws need not be kept from anybody.
            secrets: [0; 32],
        };
        let net = Epoll::new(shard, Vec::new(), mailboxes.clone(), began)?;
        let net = if is_precise { net.precise()? } else { net };
        Ok(Shard::new(settings, net, logic))
    });
    let shards = shards.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    Ok((mailboxes, shards))
}

/// A key that nobody knows.
pub fn hash_key() -> Result<HashKey, String> {
    Ok(HashKey::new(random()?, random()?))
}

/// A random number.
pub fn random() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!("random number generator: {error}"))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Error of starting threads.
pub fn failed(error: std::io::Error) -> String {
    format!("cannot start the clients' threads: {error} ({})", CloseReason::LocalLimit.meaning())
}
