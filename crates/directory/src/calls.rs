//! The directory in Redis: what its calls are in commands.
//!
//! ```text
//! <prefix>b:<bucket>    hash: principal → record, written by scripts that take only what is newer
//! <prefix>node:<name>   boot, hexadecimal; lives as long as the lease
//! <prefix>nodes         hash: name → boot, of all that ever had a lease: whom to ask about
//! <prefix>addresses     hash: name → where a node's API is reached, as it says itself
//! <prefix>history       an id that whoever comes first makes; in a cluster `history:<n>`, on
//!                       each master one
//! ```
//!
//! Every command has one key, so nothing has to lie together in a cluster.

use crate::connections::{RedisCommand, RedisConnections, Reply};
use crate::settings::Settings;
use crate::url::RedisKind;
use crate::{reply, script};
use model::ports::presence::directory::{
    Batch, Directory, DirectoryEntry, DirectoryError, History, Lease, Put,
};
use model::presence::{Digest, NodeName, PresenceRecord, PresenceVersion, bucket};
use redis::Value;
use std::ops::Range;

/// Buckets whose digests are asked for at once, within one time limit.
const BUCKETS_AT_ONCE: u16 = 128;
/// Records that are looked up at once, within one time limit.
const KEYS_AT_ONCE: usize = 1_024;

/// A directory in Redis.
///
/// Calls end within the time limit of the settings, but for [`Directory::digests`] of more than
/// 128 buckets and [`Directory::find`] of more than 1,024 keys, which are made of pieces that size,
/// each with the time limit. Bytes of [`Directory::traffic`] are counted where they are written
/// and read, before encryption: all commands and replies with those of Sentinels, TLS and TCP not.
pub struct Redis {
    fleet: RedisConnections,
    prefix: String,
    address: String,
    /// Leases asked for, to make ids of histories unique.
    leases: u64,
}

impl Redis {
    /// Connects at the first call. The error says what is wrong with the settings.
    pub fn new(settings: &Settings) -> Result<Redis, String> {
        let fleet = RedisConnections::new(settings)?;
        let (prefix, address) = (settings.prefix.clone(), settings.address.clone());
        Ok(Redis { fleet, prefix, address, leases: 0 })
    }

    /// `redis`, `redis-sentinel` or `redis-cluster`.
    pub fn kind(&self) -> &'static str {
        self.fleet.kind().name()
    }

    fn bucket_key(&self, bucket: u16) -> String {
        format!("{}b:{bucket}", self.prefix)
    }

    fn node_key(&self, node: &NodeName) -> String {
        format!("{}node:{node}", self.prefix)
    }

    fn nodes_key(&self) -> String {
        format!("{}nodes", self.prefix)
    }

    fn addresses_key(&self) -> String {
        format!("{}addresses", self.prefix)
    }

    fn history_key(&self) -> String {
        format!("{}history", self.prefix)
    }

    /// Commands that renew a lease for `ms` milliseconds.
    fn renewal(&self, lease: &Lease, ms: u64) -> [RedisCommand; 3] {
        let (node, boot) = (lease.node.as_str(), format!("{:x}", lease.boot));
        let (key, list) = (self.node_key(&lease.node), self.nodes_key());
        let (set, all) = (["SET", &key, &boot, "PX", &ms.max(1).to_string()], self.addresses_key());
        [
            RedisCommand::new(&key, &set),
            RedisCommand::new(&list, &["HSET", &list, node, &boot]),
            RedisCommand::new(&all, &["HSET", &all, node, &self.address]),
        ]
    }
}

/// Commands that identify the history of a master: an id of the data, the id of its replication,
/// and the start of the server. The id of the data changes with the data, that of the replication
/// with a fail-over, that of the start with a restart that may have come back with less data.
fn watch(key: &str, id: &str) -> [RedisCommand; 4] {
    [
        RedisCommand::new(key, &["SET", key, id, "NX"]),
        RedisCommand::new(key, &["GET", key]),
        RedisCommand::new(key, &["INFO", "replication"]),
        RedisCommand::new(key, &["INFO", "server"]),
    ]
}

/// The words of it.
fn watched(replies: &mut impl Iterator<Item = Reply>) -> Result<String, DirectoryError> {
    let [made, id, replication, server] =
        [(); 4].map(|()| replies.next().unwrap_or(Ok(Value::Nil)));
    made?;
    let (id, replication) = (reply::text(id?)?, reply::text(replication?)?);
    let server = reply::text(server?)?;
    let line = |text, name| match reply::line(text, name) {
        "" => Err(DirectoryError::Nonsense(format!("INFO has no `{name}`"))),
        value => Ok(value.to_string()),
    };
    let (replication, run) = (line(&replication, "master_replid")?, line(&server, "run_id")?);
    Ok(format!("{id}/{replication}/{run}"))
}

impl Directory for Redis {
    fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, DirectoryError> {
        self.leases += 1;
        let id = format!("{}.{:x}.{}", lease.node, lease.boot, self.leases);
        let (renewal, alone) = (self.renewal(lease, ms), self.history_key());
        self.fleet.within(|fleet, deadline| {
            fleet.review(deadline);
            let keys = fleet.key_each(&alone);
            let orders: Vec<RedisCommand> = keys.iter().flat_map(|key| watch(key, &id)).collect();
            let mut replies = fleet.attempt(&orders, deadline).into_iter();
            let mut history = Vec::new();
            for _ in &keys {
                history.push(match watched(&mut replies) {
                    // Without one of several masters the others' leases go on.
                    Err(_) if keys.len() > 1 => "?".into(),
                    other => other?,
                });
            }
            fleet.run(&renewal, deadline)?;
            Ok(History(history.join(",").into()))
        })
    }

    fn release(&mut self, lease: &Lease) -> Result<(), DirectoryError> {
        let (node, boot) = (lease.node.as_str(), format!("{:x}", lease.boot));
        let (key, list) = (self.node_key(&lease.node), self.nodes_key());
        let orders = [
            RedisCommand::script(&script::RELEASE, &key, &[&boot]),
            RedisCommand::script(&script::UNLIST, &list, &[node, &boot]),
        ];
        self.fleet.call(&orders)?.into_iter().try_for_each(|reply| reply::number(reply).map(drop))
    }

    fn put(&mut self, batches: &[Batch]) -> Result<Vec<Put>, DirectoryError> {
        let full = || batches.iter().filter(|batch| !batch.entries.is_empty());
        let order = |batch: &Batch| {
            let entries = batch.entries.iter();
            let args = entries.flat_map(|(key, record)| [key.to_string(), record.encode()]);
            let key = self.bucket_key(batch.bucket);
            RedisCommand::script(&script::PUT, &key, &args.collect::<Vec<_>>())
        };
        let orders: Vec<RedisCommand> = full().map(order).collect();
        let is_cluster = self.fleet.kind() == RedisKind::Cluster;
        let replies = self.fleet.within(|fleet, deadline| {
            if is_cluster {
                part(fleet.attempt(&orders, deadline))
            } else {
                Ok(fleet.run(&orders, deadline)?.into_iter().map(Some).collect())
            }
        })?;
        let mut results = Vec::new();
        for (batch, reply) in full().zip(replies) {
            let first = results.len();
            let put = if reply.is_some() { Put::Taken } else { Put::Untaken };
            results.resize(first + batch.entries.len(), put);
            let Some(reply) = reply else { continue };
            for (index, text) in reply::pairs(reply)? {
                let (index, text) = (reply::number(index)?, reply::text(text)?);
                let put = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
                let put = put.and_then(|index| results[first..].get_mut(index));
                let (Some(put), Some(record)) = (put, PresenceRecord::decode(&text)) else {
                    return Err(DirectoryError::Nonsense(format!(
                        "record {index} is kept as `{text}`"
                    )));
                };
                *put = Put::Kept(record);
            }
        }
        Ok(results)
    }

    fn remove(
        &mut self,
        bucket: u16,
        keys: &[(Box<str>, PresenceVersion)],
    ) -> Result<u64, DirectoryError> {
        let args = keys.iter().flat_map(|(key, version)| [key.to_string(), version.to_string()]);
        let args: Vec<String> = args.collect();
        let order = RedisCommand::script(&script::REMOVE, &self.bucket_key(bucket), &args);
        reply::number(first(self.fleet.call(&[order])?))
    }

    fn digests(&mut self, of: &Lease, buckets: Range<u16>) -> Result<Vec<Digest>, DirectoryError> {
        let args = [of.node.to_string(), format!("{:x}", of.boot)];
        let mut digests = Vec::with_capacity(buckets.len());
        for start in buckets.clone().step_by(usize::from(BUCKETS_AT_ONCE)) {
            let end = start.saturating_add(BUCKETS_AT_ONCE).min(buckets.end);
            let order =
                |bucket| RedisCommand::script(&script::DIGEST, &self.bucket_key(bucket), &args);
            let orders: Vec<RedisCommand> = (start..end).map(order).collect();
            for reply in self.fleet.call(&orders)? {
                digests.push(digest(reply)?);
            }
        }
        Ok(digests)
    }

    fn bucket(&mut self, bucket: u16) -> Result<Vec<DirectoryEntry>, DirectoryError> {
        let key = self.bucket_key(bucket);
        let reply = first(self.fleet.call(&[RedisCommand::new(&key, &["HGETALL", &key])])?);
        let mut entries = Vec::new();
        for (key, record) in reply::pairs(reply)? {
            let (key, record) = (reply::bytes(key)?, reply::bytes(record)?);
            // What is no record counts as absent, here as in the scripts.
            let key = key.and_then(|key| String::from_utf8(key).ok());
            entries.extend(key.map(String::into_boxed_str).zip(record.and_then(decode)));
        }
        Ok(entries)
    }

    fn find(&mut self, keys: &[Box<str>]) -> Result<Vec<Option<PresenceRecord>>, DirectoryError> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let order = |key: &str| {
                let place = self.bucket_key(bucket(key));
                RedisCommand::new(&place, &["HGET", &place, key])
            };
            let orders: Vec<RedisCommand> = keys.iter().map(|key| order(key)).collect();
            for reply in self.fleet.call(&orders)? {
                found.push(reply::bytes(reply)?.and_then(decode));
            }
        }
        Ok(found)
    }

    fn nodes(&mut self) -> Result<Vec<Lease>, DirectoryError> {
        let list = self.nodes_key();
        let listed = first(self.fleet.call(&[RedisCommand::new(&list, &["HKEYS", &list])])?);
        let mut nodes = Vec::new();
        for name in reply::list(listed)? {
            nodes.extend(NodeName::parse(&reply::text(name)?).ok());
        }
        let order = |node: &NodeName| {
            let key = self.node_key(node);
            RedisCommand::new(&key, &["GET", &key])
        };
        let orders: Vec<RedisCommand> = nodes.iter().map(order).collect();
        let mut leases = Vec::new();
        for (node, reply) in nodes.into_iter().zip(self.fleet.call(&orders)?) {
            let boot = reply::bytes(reply)?.and_then(|boot| String::from_utf8(boot).ok());
            let boot = boot.and_then(|boot| u64::from_str_radix(&boot, 16).ok());
            leases.extend(boot.map(|boot| Lease { node, boot }));
        }
        Ok(leases)
    }

    fn address(&mut self, node: &NodeName) -> Result<Option<Box<str>>, DirectoryError> {
        let key = self.addresses_key();
        let order = RedisCommand::new(&key, &["HGET", &key, node.as_str()]);
        let found = reply::bytes(first(self.fleet.call(&[order])?))?;
        let text = found.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.filter(|text| !text.is_empty()).map(String::into_boxed_str))
    }

    fn traffic(&self) -> (u64, u64) {
        self.fleet.traffic()
    }
}

/// The replies there are, where not all are faults: a master that is down does not hold up the
/// others' part of a cluster.
fn part(replies: Vec<Reply>) -> Result<Vec<Option<Value>>, DirectoryError> {
    let fault = replies.iter().find_map(|reply| reply.as_ref().err().cloned());
    match fault {
        Some(fault) if replies.iter().all(Result::is_err) => Err(fault),
        _ => Ok(replies.into_iter().map(Result::ok).collect()),
    }
}

fn first(replies: Vec<Value>) -> Value {
    replies.into_iter().next().unwrap_or_default()
}

fn decode(text: Vec<u8>) -> Option<PresenceRecord> {
    PresenceRecord::decode(std::str::from_utf8(&text).ok()?)
}

fn digest(reply: Value) -> Result<Digest, DirectoryError> {
    let mut pair = reply::list(reply)?.into_iter();
    let mut next = || pair.next().unwrap_or_default();
    let (count, sum) = (reply::number(next())?, reply::text(next())?);
    let wrong = |_| DirectoryError::Nonsense(format!("a digest `{sum}`"));
    let sum = u64::from_str_radix(&sum, 16).map_err(wrong)?;
    Ok(Digest { count, sum })
}
