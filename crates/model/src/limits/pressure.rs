//! Memory pressure: how short memory is, and what is refused because of it.
//!
//! Levels are shares of the memory that the process may use. Each refuses something in addition to
//! the levels below it, and ends a little below the value at which it began, so that it does not
//! flutter. This module does not know how memory is measured. Invariant: no level drops what was
//! acknowledged.

use std::sync::atomic::{AtomicU8, Ordering};

/// Level of memory pressure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u8)]
pub enum Pressure {
    /// No pressure.
    #[default]
    Calm,
    /// New connections get BUSY.
    Connections,
    /// Also drops messages of QoS 0.
    Qos0,
    /// Also stores nothing more for offline clients, and retains nothing.
    Stores,
}

impl Pressure {
    /// Every level.
    pub const ALL: [Pressure; 4] =
        [Pressure::Calm, Pressure::Connections, Pressure::Qos0, Pressure::Stores];

    /// Its name in the log, the status and the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Pressure::Calm => "calm",
            Pressure::Connections => "connections",
            Pressure::Qos0 => "qos0",
            Pressure::Stores => "stores",
        }
    }

    /// Requests refused from this level on, in words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Pressure::Calm => "nothing is refused for want of memory",
            Pressure::Connections => "new connections are told BUSY",
            Pressure::Qos0 => "messages of QoS 0 are dropped too",
            Pressure::Stores => "nothing more is queued for those who are away, nor retained, too",
        }
    }

    /// Percent of the maximum at which it begins.
    const fn percent(self) -> u64 {
        match self {
            Pressure::Calm => 0,
            Pressure::Connections => 85,
            Pressure::Qos0 => 92,
            Pressure::Stores => 97,
        }
    }

    /// The next level if `bytes` of `most` are used: it rises at once, and falls when usage is five
    /// percent below where the level began.
    pub fn after(self, bytes: u64, most: u64) -> Pressure {
        let percent = (u128::from(bytes) * 100 / u128::from(most.max(1))) as u64;
        let stays = |level: &Pressure| {
            let slack = if *level <= self { 5 } else { 0 };
            percent + slack >= level.percent()
        };
        Pressure::ALL.into_iter().rev().find(stays).unwrap_or_default()
    }
}

/// The current level, which all shards read.
#[derive(Default, Debug)]
pub struct Gauge(AtomicU8);

impl Gauge {
    /// The current level.
    pub fn now(&self) -> Pressure {
        Pressure::ALL[usize::from(self.0.load(Ordering::Relaxed)) % Pressure::ALL.len()]
    }

    /// Changes the level.
    pub fn set(&self, pressure: Pressure) {
        self.0.store(pressure as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_at_its_part_and_ends_a_while_below() {
        let mut level = Pressure::Calm;
        for (bytes, expected) in [
            (0, Pressure::Calm),
            (849, Pressure::Calm),
            (850, Pressure::Connections),
            (919, Pressure::Connections),
            (800, Pressure::Connections),
            (799, Pressure::Calm),
            (849, Pressure::Calm),
            (2_000, Pressure::Stores),
            (920, Pressure::Stores),
            (919, Pressure::Qos0),
            (870, Pressure::Qos0),
            (869, Pressure::Connections),
            (0, Pressure::Calm),
        ] {
            level = level.after(bytes, 1_000);
            assert_eq!(level, expected, "{bytes}");
        }
        assert_eq!(Pressure::Calm.after(1, 0), Pressure::Stores);
        assert_eq!(Pressure::Calm.after(u64::MAX, u64::MAX), Pressure::Stores);
    }

    #[test]
    fn a_gauge_shows_what_was_set() {
        let gauge = Gauge::default();
        for level in Pressure::ALL {
            gauge.set(level);
            assert_eq!(gauge.now(), level);
        }
    }

    #[test]
    fn every_level_has_a_name_and_a_meaning_of_its_own() {
        assert_eq!(Pressure::ALL.map(Pressure::name), ["calm", "connections", "qos0", "stores"]);
        let meanings = Pressure::ALL.map(Pressure::meaning);
        let word = ["nothing is refused", "told BUSY", "QoS 0", "nor retained"];
        assert!(meanings.iter().zip(word).all(|(told, word)| told.contains(word)), "{meanings:?}");
    }

    #[test]
    fn a_level_is_left_five_percent_below_where_it_began() {
        for (level, begins) in
            [(Pressure::Connections, 85), (Pressure::Qos0, 92), (Pressure::Stores, 97)]
        {
            assert!(Pressure::Calm.after(begins - 1, 100) < level);
            assert_eq!(Pressure::Calm.after(begins, 100), level);
            assert_eq!(level.after(begins - 5, 100), level);
            assert!(level.after(begins - 6, 100) < level);
        }
    }
}
