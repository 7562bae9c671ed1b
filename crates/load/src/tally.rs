//! Counts by cause: ends of connections by close reason and side, refusals by code.

use model::close::CloseReason;
use std::collections::BTreeMap;
use std::fmt;

/// Whose doing an end was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// This machine or the plan's own limits: not the target's fault.
    Tester,
    /// The server that is tested.
    Target,
    /// Something between the two, or either of them: it cannot be told from here.
    Between,
    /// The tester's own wish: the run is over.
    Stop,
}

impl Side {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Tester => "tester",
            Side::Target => "target",
            Side::Between => "between",
            Side::Stop => "own stop",
        }
    }
}

/// Whose doing an end with this reason is, as the tester sees it.
pub fn side_of(reason: CloseReason) -> Side {
    use CloseReason as R;
    match reason {
        R::LocalLimit | R::Full | R::NoDescriptor | R::SlowConsumer | R::Internal => Side::Tester,
        R::OwnStop | R::ServerStopped | R::Draining => Side::Stop,
        R::PeerReset | R::TimedOut | R::IoError | R::ConnectFailed => Side::Between,
        _ => Side::Target,
    }
}

/// Ends of connections by reason.
#[derive(Clone, PartialEq, Eq)]
pub struct Ends([u64; CloseReason::COUNT]);

impl Default for Ends {
    fn default() -> Self {
        Ends([0; CloseReason::COUNT])
    }
}

impl Ends {
    /// Ends with this reason.
    pub fn of(&self, reason: CloseReason) -> u64 {
        self.0[reason as usize]
    }

    /// All ends.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Ends that were the doing of `side`.
    pub fn by_side(&self, side: Side) -> u64 {
        self.iter().filter(|(reason, _)| side_of(*reason) == side).map(|(_, count)| count).sum()
    }

    /// The reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (CloseReason, u64)> {
        let all = CloseReason::ALL.iter().map(|&reason| (reason, self.of(reason)));
        all.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn count(&mut self, reason: CloseReason) {
        self.0[reason as usize] += 1;
    }

    pub(crate) fn add(&mut self, other: &Ends) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(reason, count)| (reason.name(), count))).finish()
    }
}

/// Counts by a protocol's own code. The codes are the server's words: at most [`Codes::KINDS_MAX`]
/// are told apart, others count as [`Codes::OTHER`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Codes(BTreeMap<u32, u64>);

impl Codes {
    /// Codes that are told apart.
    pub const KINDS_MAX: usize = 64;
    /// Stands for all codes beyond.
    pub const OTHER: u32 = u32::MAX;

    /// Counts of this code.
    pub fn of(&self, code: u32) -> u64 {
        self.0.get(&code).copied().unwrap_or(0)
    }

    /// All counts.
    pub fn sum(&self) -> u64 {
        self.0.values().sum()
    }

    /// The codes that occurred, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|(&code, &count)| (code, count))
    }

    pub(crate) fn count(&mut self, code: u32) {
        self.count_by(code, 1);
    }

    pub(crate) fn add(&mut self, other: &Codes) {
        other.iter().for_each(|(code, count)| self.count_by(code, count));
    }

    fn count_by(&mut self, code: u32, by: u64) {
        let known = self.0.contains_key(&code) || self.0.len() < Self::KINDS_MAX;
        *self.0.entry(if known { code } else { Self::OTHER }).or_default() += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_side() {
        let mut ends = Ends::default();
        CloseReason::ALL.iter().for_each(|&reason| ends.count(reason));
        let sides = [Side::Tester, Side::Target, Side::Between, Side::Stop];
        assert_eq!(sides.map(|side| ends.by_side(side)).iter().sum::<u64>(), ends.sum());
        assert_eq!(ends.sum(), CloseReason::COUNT as u64);
    }

    #[test]
    fn codes_from_outside_are_bounded() {
        let mut codes = Codes::default();
        (0..1_000).for_each(|code| codes.count(code));
        assert_eq!(codes.sum(), 1_000);
        assert_eq!((codes.of(63), codes.of(64)), (1, 0));
        assert_eq!(codes.of(Codes::OTHER), 1_000 - Codes::KINDS_MAX as u64);
    }
}
