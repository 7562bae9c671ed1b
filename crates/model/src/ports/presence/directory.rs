//! The directory: a copy of presence outside of memory, which may die, lag, lie or come back empty.
//!
//! A [`Directory`] takes only what is newer than what it has, so whatever is written twice, late or
//! out of order does no harm. A principal counts as online there only while its record says so
//! **and** the lease of the record's node carries the record's boot. Calls block, within a time
//! limit of the implementation's, and are made by a thread of their own: none is on a connection's
//! way. Two things live behind it: a table in the process, and Redis.

use crate::presence::{Digest, NodeName, PresenceRecord, PresenceVersion};
use std::fmt;
use std::ops::Range;

/// A copy of presence.
pub trait Directory: Send {
    /// Renews this node's lease for `ms` milliseconds, and returns a number that identifies the
    /// current life of the directory's data. A different number than before, or a refusal on the
    /// way, means that everything written before may be lost.
    fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, DirectoryError>;

    /// Ends this node's lease: all its records count as offline from now on. A lease of another
    /// boot is left alone.
    fn release(&mut self, lease: &Lease) -> Result<(), DirectoryError>;

    /// Puts records that are newer than those kept. An offline record never replaces another node's
    /// online one, however new it is: the end of an old connection says nothing of a newer one
    /// elsewhere. Answers for each, in order.
    fn put(&mut self, batches: &[Batch]) -> Result<Vec<Put>, DirectoryError>;

    /// Takes records away unless they are newer than said. How many were.
    fn remove(
        &mut self,
        bucket: u16,
        keys: &[(Box<str>, PresenceVersion)],
    ) -> Result<u64, DirectoryError>;

    /// The digests of these buckets over the records that this boot of this node says are online.
    fn digests(&mut self, of: &Lease, buckets: Range<u16>) -> Result<Vec<Digest>, DirectoryError>;

    /// All records of a bucket.
    fn bucket(&mut self, bucket: u16) -> Result<Vec<DirectoryEntry>, DirectoryError>;

    /// The records with these keys.
    fn find(&mut self, keys: &[Box<str>]) -> Result<Vec<Option<PresenceRecord>>, DirectoryError>;

    /// The leases that are in force.
    fn nodes(&mut self) -> Result<Vec<Lease>, DirectoryError>;

    /// Where another node says that it can be reached, if it does.
    fn address(&mut self, _node: &NodeName) -> Result<Option<Box<str>>, DirectoryError> {
        Ok(None)
    }

    /// Bytes sent to it and received from it since it was made.
    fn traffic(&self) -> (u64, u64);
}

/// A server that is alive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    /// Its name.
    pub node: NodeName,
    /// Random number of the server's start.
    pub boot: u64,
}

/// Generation of the directory's data: another one means that records may be gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History(pub Box<str>);

/// Records of one bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Bucket that the records belong to.
    pub bucket: u16,
    /// The records.
    pub entries: Vec<DirectoryEntry>,
}

/// A principal's key and its record.
pub type DirectoryEntry = (Box<str>, PresenceRecord);

/// Result of writing a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// The directory has the record, from this call or an earlier one.
    Taken,
    /// A newer one is kept.
    Kept(PresenceRecord),
    /// Nothing is known of this one, for its part of the directory does not answer: it is to be
    /// offered again, later.
    Untaken,
}

/// Error of a call to a directory. It may have been carried out all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryError {
    /// The directory cannot be reached, or the connection broke.
    Unreachable(String),
    /// The directory did not answer in time.
    Slow,
    /// The directory answered with an error: read-only, out of memory, not allowed, a cluster that
    /// is down.
    Refused(String),
    /// The directory holds a record that cannot be decoded.
    Nonsense(String),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Unreachable(why) => write!(f, "the directory cannot be reached: {why}"),
            DirectoryError::Slow => write!(f, "the directory did not answer in time"),
            DirectoryError::Refused(why) => write!(f, "the directory refused: {why}"),
            DirectoryError::Nonsense(why) => write!(f, "the directory has nonsense: {why}"),
        }
    }
}

/// A stream of events outside, such as Redis' streams.
pub trait EventStream: Send {
    /// Appends events, each a list of field and value, in order. After an error none, some or all
    /// of them may be there.
    fn append(&mut self, events: &[Vec<(&'static str, String)>]) -> Result<(), DirectoryError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_it_is_and_why() {
        for (fault, told) in [
            (
                DirectoryError::Unreachable("no route".into()),
                "the directory cannot be reached: no route",
            ),
            (DirectoryError::Slow, "the directory did not answer in time"),
            (DirectoryError::Refused("NOAUTH".into()), "the directory refused: NOAUTH"),
            (DirectoryError::Nonsense("12 o".into()), "the directory has nonsense: 12 o"),
        ] {
            assert_eq!(fault.to_string(), told);
        }
    }
}
