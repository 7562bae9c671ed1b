//! Values of the table: the cluster, its nodes, and who leads which log.
//!
//! ```text
//! cluster:  | version u8 | fingerprint u64 | logs u16 | level u16 |
//! node.N:   | version u8 | boot u64 | level u16 | name | count u8, count × address |
//! log.nn:   | version u8 | generation u32 | epoch u32 | leader u16 | boot u64 | wanted u16 |
//!           | count u8, count × follower u16 |              node 0: nobody; little endian
//! name, address: length u16, UTF-8
//! ```
//! A value changes by compare-and-set alone. A table may go back to older values: nothing here is
//! believed against the stream, which is the fence.

use crate::batch::LogLeader;
use base::bytes::{ByteReader, put_text};
use model::id::NodeId;

/// Longest name and longest address, bytes.
pub const TEXT_BYTES_MAX: usize = 255;

/// Addresses of a node, at most.
pub const ADDRESSES_MAX: usize = 16;

/// Followers of a log, at most.
pub const FOLLOWERS_MAX: usize = 8;

const VERSION: u8 = 1;

/// The value of `cluster`: what holds for all nodes and never changes but for the level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterEntry {
    /// The fingerprint of the cluster's secret.
    pub fingerprint: u64,
    /// How many logs the cluster has.
    pub logs: u16,
    /// Which formats nodes write.
    pub level: u16,
}

/// The value of `node.N`. A node writes it each 5 seconds: a proof that it reaches the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeEntry {
    /// The number of the node's start.
    pub boot: u64,
    /// Which formats it writes.
    pub level: u16,
    /// Its name, for people.
    pub name: Box<str>,
    /// Where clients reach it.
    pub addresses: Vec<Box<str>>,
}

/// The value of `log.nn`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogEntry {
    /// The generation of the log's stream.
    pub generation: u32,
    /// The epoch of the last claim.
    pub epoch: u32,
    /// Node that claimed the log.
    pub leader: Option<LogLeader>,
    /// Node that is to lead, if an operator moves the log.
    pub wanted: Option<NodeId>,
    /// Followers, in the order in which they take over.
    pub followers: Vec<NodeId>,
}

impl ClusterEntry {
    /// The value's bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(&self.logs.to_le_bytes());
        out.extend_from_slice(&self.level.to_le_bytes());
        out
    }

    /// Reads a value.
    pub fn read(bytes: &[u8]) -> Option<ClusterEntry> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let (fingerprint, logs, level) = (from.u64()?, from.u16()?, from.u16()?);
        from.ends(ClusterEntry { fingerprint, logs, level }).filter(|entry| entry.logs > 0)
    }
}

impl NodeEntry {
    /// The value's bytes. Texts and their number keep the limits.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.boot.to_le_bytes());
        out.extend_from_slice(&self.level.to_le_bytes());
        put_text(&self.name, &mut out);
        out.push(self.addresses.len() as u8);
        self.addresses.iter().for_each(|address| put_text(address, &mut out));
        out
    }

    /// Reads a value.
    pub fn read(bytes: &[u8]) -> Option<NodeEntry> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let (boot, level, name) = (from.u64()?, from.u16()?, read_text(&mut from)?);
        let count = usize::from(from.byte()?);
        if count > ADDRESSES_MAX {
            return None;
        }
        let addresses = (0..count).map(|_| read_text(&mut from)).collect::<Option<_>>()?;
        from.ends(NodeEntry { boot, level, name, addresses })
    }
}

impl LogEntry {
    /// The value's bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        let (node, boot) = self.leader.map_or((0, 0), |it| (it.node.number(), it.boot));
        out.extend_from_slice(&node.to_le_bytes());
        out.extend_from_slice(&boot.to_le_bytes());
        out.extend_from_slice(&self.wanted.map_or(0, NodeId::number).to_le_bytes());
        out.push(self.followers.len() as u8);
        for follower in &self.followers {
            out.extend_from_slice(&follower.number().to_le_bytes());
        }
        out
    }

    /// Reads a value.
    pub fn read(bytes: &[u8]) -> Option<LogEntry> {
        let mut from = ByteReader::of(VERSION, bytes)?;
        let (generation, epoch) = (from.u32()?, from.u32()?);
        let (node, boot) = (read_node(&mut from)?, from.u64()?);
        let leader = node.map(|node| LogLeader { node, boot });
        let wanted = read_node(&mut from)?;
        let count = usize::from(from.byte()?);
        if count > FOLLOWERS_MAX || (leader.is_none() && boot != 0) {
            return None;
        }
        let followers = (0..count).map(|_| read_node(&mut from)?).collect::<Option<Vec<_>>>()?;
        let others = |at: usize| followers[..at].contains(&followers[at]);
        let is_twice = (0..count).any(others);
        from.ends(LogEntry { generation, epoch, leader, wanted, followers }).filter(|_| !is_twice)
    }

    /// The nodes that have the log: who claimed it, and who follows.
    pub fn copies(&self) -> impl Iterator<Item = NodeId> + '_ {
        let leader = self.leader.map(|it| it.node);
        let others = self.followers.iter().copied();
        leader.into_iter().chain(others.filter(move |node| Some(*node) != leader))
    }
}

fn read_text(from: &mut ByteReader<'_>) -> Option<Box<str>> {
    from.text().filter(|text| text.len() <= TEXT_BYTES_MAX).map(Box::from)
}

/// A node's number; 0 is nobody.
fn read_node(from: &mut ByteReader<'_>) -> Option<Option<NodeId>> {
    match from.u16()? {
        0 => Some(None),
        number => NodeId::new(number).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hex;
    use base::prng::Prng;

    fn node(number: u16) -> NodeId {
        NodeId::new(number).expect("a node")
    }

    fn entries() -> (ClusterEntry, NodeEntry, LogEntry) {
        let cluster = ClusterEntry { fingerprint: 0x0102_0304_0506_0708, logs: 48, level: 1 };
        let addresses = vec!["a:1".into(), "b:2".into()];
        let of = NodeEntry { boot: 9, level: 2, name: "north".into(), addresses };
        let leader = Some(LogLeader { node: node(2), boot: 9 });
        let followers = vec![node(3), node(1)];
        let log = LogEntry { generation: 4, epoch: 11, leader, wanted: Some(node(3)), followers };
        (cluster, of, log)
    }

    #[test]
    fn values_have_these_bytes() {
        let (cluster, of, log) = entries();
        let golden = [
            "01080706050403020130000100",
            "01090000000000000002000500 6e6f727468 02 0300613a31 0300623a32",
            "01040000000b00000002000900000000000000 0300 02 0300 0100",
        ];
        let golden = golden.map(|text| text.replace(' ', ""));
        let bytes = [cluster.write(), of.write(), log.write()];
        assert_eq!(bytes.each_ref().map(|bytes| hex::encode(bytes)), golden);
        assert_eq!(ClusterEntry::read(&bytes[0]), Some(cluster));
        assert_eq!(NodeEntry::read(&bytes[1]), Some(of));
        assert_eq!(LogEntry::read(&bytes[2]), Some(log));
        assert_eq!(LogEntry::read(&LogEntry::default().write()), Some(LogEntry::default()));
    }

    #[test]
    fn values_beyond_the_limits_are_not_read() {
        let (cluster, of, log) = entries();
        let long = NodeEntry { name: "x".repeat(TEXT_BYTES_MAX + 1).into(), ..of.clone() };
        assert_eq!(NodeEntry::read(&long.write()), None);
        let many = vec!["x".into(); ADDRESSES_MAX + 1];
        assert_eq!(NodeEntry::read(&NodeEntry { addresses: many, ..of }.write()), None);
        let many = (1..=FOLLOWERS_MAX as u16 + 1).map(node).collect();
        assert_eq!(LogEntry::read(&LogEntry { followers: many, ..log.clone() }.write()), None);
        let twice = LogEntry { followers: vec![node(1), node(1)], ..log };
        assert_eq!(LogEntry::read(&twice.write()), None);
        assert_eq!(ClusterEntry::read(&ClusterEntry { logs: 0, ..cluster }.write()), None);
    }

    #[test]
    fn bent_values_never_panic_and_what_is_read_is_written_alike() {
        let (cluster, of, log) = entries();
        let mut rng = Prng::new(2);
        for whole in [cluster.write(), of.write(), log.write()] {
            for _ in 0..5_000 {
                let mut bent = whole.clone();
                let at = rng.below(bent.len() as u64) as usize;
                bent[at] = rng.draw() as u8;
                bent.truncate(rng.below(2 * whole.len() as u64) as usize);
                let again = [
                    ClusterEntry::read(&bent).map(|it| it.write()),
                    NodeEntry::read(&bent).map(|it| it.write()),
                    LogEntry::read(&bent).map(|it| it.write()),
                ];
                assert!(again.iter().flatten().all(|bytes| *bytes == bent), "{bent:?}");
            }
        }
    }
}
