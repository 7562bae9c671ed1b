//! Beats: what a node tells all others each second.
//!
//! ```text
//! | "HB" | version u8 | 0 u8 | cluster u64 | node u16 | boot u64 | clock u16 | count u16 |
//! count × | log u16 | role u8 | generation u32 | epoch u32 | index u64 | synced u64 |
//! ```
//! A node that does not turn, or whose disk does not answer, sends none: silence is the sign by
//! which followers take over.

use crate::batch::LogLeader;
use base::bytes::ByteReader;
use model::id::NodeId;

/// Logs of a cluster, at most.
pub const LOGS_MAX: usize = 96;

const MAGIC: &[u8] = b"HB";
const VERSION: u8 = 1;

/// Role of a node for a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogRole {
    /// The node has no copy from which it could lead.
    Absent = 0,
    /// The node has a copy and keeps it up to date.
    Following = 1,
    /// The node claims the log and does not serve it yet.
    Claiming = 2,
    /// The node serves the log.
    Leading = 3,
    /// The node served the log and has closed it. This is its last beat: it begins anew, and
    /// answers nobody until then.
    Left = 4,
}

impl LogRole {
    /// Whether the node has a copy from which it could lead, and answers.
    pub fn has_copy(self) -> bool {
        !matches!(self, LogRole::Absent | LogRole::Left)
    }
}

/// A log as a node has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogBeat {
    /// Number of the log.
    pub log: u16,
    /// The node's role for it.
    pub role: LogRole,
    /// The generation of the stream that it knows.
    pub generation: u32,
    /// The epoch up to which it has the log.
    pub epoch: u32,
    /// The index up to which it knows the log to be acknowledged.
    pub index: u64,
    /// The index up to which the log is on its disk.
    pub synced: u64,
}

/// A beat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Node that sends the beat.
    pub by: LogLeader,
    /// Its wall clock, seconds: the lower 16 bits, and never 0. 0: it does not tell.
    pub clock: u16,
    /// Its logs.
    pub logs: Vec<LogBeat>,
}

/// A wall clock in Unix seconds as a beat tells it.
pub fn clock_of(unix_s: u32) -> u16 {
    (unix_s as u16).max(1)
}

/// Difference of two clocks as beats tell them, seconds, up to nine hours; none if one does not.
pub fn clock_difference(one: u16, other: u16) -> Option<u32> {
    let is_told = one != 0 && other != 0;
    is_told.then(|| u32::from((one.wrapping_sub(other) as i16).unsigned_abs()))
}

impl Beat {
    /// The beat's bytes.
    pub fn write(&self, cluster: u64) -> Vec<u8> {
        let mut out = Vec::from(MAGIC);
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&cluster.to_le_bytes());
        out.extend_from_slice(&self.by.node.number().to_le_bytes());
        out.extend_from_slice(&self.by.boot.to_le_bytes());
        out.extend_from_slice(&self.clock.to_le_bytes());
        out.extend_from_slice(&(self.logs.len() as u16).to_le_bytes());
        for log in &self.logs {
            out.extend_from_slice(&log.log.to_le_bytes());
            out.push(log.role as u8);
            out.extend_from_slice(&log.generation.to_le_bytes());
            out.extend_from_slice(&log.epoch.to_le_bytes());
            out.extend_from_slice(&log.index.to_le_bytes());
            out.extend_from_slice(&log.synced.to_le_bytes());
        }
        out
    }

    /// Reads a beat of this cluster.
    pub fn read(cluster: u64, bytes: &[u8]) -> Option<Beat> {
        let mut from = ByteReader::of(VERSION, bytes.strip_prefix(MAGIC)?)?;
        from.flags(0)?;
        if from.u64()? != cluster {
            return None;
        }
        let by = LogLeader { node: NodeId::new(from.u16()?)?, boot: from.u64()? };
        let (clock, count) = (from.u16()?, usize::from(from.u16()?));
        if count > LOGS_MAX {
            return None;
        }
        let logs = (0..count).map(|_| read_log(&mut from)).collect::<Option<_>>()?;
        from.ends(Beat { by, clock, logs })
    }
}

fn read_log(from: &mut ByteReader<'_>) -> Option<LogBeat> {
    let (log, role) = (from.u16()?, from.byte()?);
    let all =
        [LogRole::Absent, LogRole::Following, LogRole::Claiming, LogRole::Leading, LogRole::Left];
    Some(LogBeat {
        log,
        role: *all.get(usize::from(role))?,
        generation: from.u32()?,
        epoch: from.u32()?,
        index: from.u64()?,
        synced: from.u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hex;
    use base::prng::Prng;

    fn beat() -> Beat {
        let by = LogLeader { node: NodeId::new(2).expect("a node"), boot: 9 };
        let role = LogRole::Leading;
        let log = LogBeat { log: 3, role, generation: 4, epoch: 5, index: 6, synced: 7 };
        Beat { by, clock: 250, logs: vec![log] }
    }

    #[test]
    fn a_beat_has_these_bytes() {
        let golden = "484201000700000000000000 0200 0900000000000000 fa00 0100 \
                      0300 03 04000000 05000000 0600000000000000 0700000000000000";
        let golden = golden.replace(' ', "");
        assert_eq!(hex::encode(&beat().write(7)), golden);
        let bytes = hex::decode(&golden).expect("digits");
        assert_eq!(Beat::read(7, &bytes), Some(beat()));
        assert_eq!(Beat::read(8, &bytes), None, "of another cluster");
    }

    #[test]
    fn clocks_differ_by_the_shorter_way() {
        let difference = |one, other| clock_difference(clock_of(one), clock_of(other));
        let now = 1_800_000_000;
        assert_eq!(difference(now, now + 300), Some(300));
        assert_eq!(difference(now + 300, now), Some(300));
        assert_eq!(difference(0x1_fff0, 0x2_0010), Some(0x20), "where the lower bits turn");
        assert_eq!(clock_difference(0, 5), None, "an earlier build does not tell");
    }

    #[test]
    fn bent_beats_never_panic_and_what_is_read_is_written_alike() {
        let (whole, mut rng) = (beat().write(7), Prng::new(3));
        for _ in 0..20_000 {
            let mut bent = whole.clone();
            let at = rng.below(bent.len() as u64) as usize;
            bent[at] = rng.draw() as u8;
            bent.truncate(rng.below(2 * whole.len() as u64) as usize);
            let again = Beat::read(7, &bent).map(|beat| beat.write(7));
            assert!(again.is_none_or(|bytes| bytes == bent));
        }
        let logs = vec![beat().logs[0]; LOGS_MAX + 1];
        assert_eq!(Beat::read(7, &Beat { logs, ..beat() }.write(7)), None);
    }
}
