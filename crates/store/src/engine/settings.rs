//! Settings of an engine, with the defaults.

use crate::log::LogSettings;
use model::timeline::Space;

/// Settings of one log's engine. Counts and bytes are a log's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Of the log beneath.
    pub log: LogSettings,
    /// Heads of timelines kept in memory, about 48 bytes each. Beyond, the longest untouched go, to
    /// be read from state when they are wanted; those that changed since the checkpoint stay.
    pub heads_resident_max: usize,
    /// Messages kept in memory to be pulled without the disk, bytes. The oldest go.
    pub hot_bytes_max: usize,
    /// Once keys remembered. The oldest are forgotten.
    pub once_count_max: usize,
    /// For how long, seconds.
    pub once_age_s_max: u32,
    /// Memory for the newest of them, bytes. The others are looked up in state; what state was not
    /// told of stays in memory beyond it.
    pub once_bytes_max: usize,
    /// Members of rosters, and of what appends named, kept in memory, 20 bytes each. Those that
    /// were not named lately go, rosters to be read again when they are wanted.
    pub roster_members_resident_max: usize,
    /// Bytes of records after which a checkpoint begins.
    pub checkpoint_bytes: u64,
    /// Memory of changes that state was not told of, bytes, after which a checkpoint begins: what
    /// places that messages took in timelines may take, and what a changed timeline does.
    pub index_changes_bytes: u64,
    /// Seconds after which a checkpoint begins when anything changed.
    pub checkpoint_s: u32,
    /// Timelines that changed from which on a checkpoint makes tables of their rows, and not
    /// batches.
    pub load_timelines_min: usize,
    /// Memory of such rows, bytes, after which they become a part of state.
    pub load_bytes_max: usize,
    /// A segment of which at most so many percent are alive is compacted.
    pub compact_percent: u8,
    /// But only when at least so many percent of all closed segments are dead.
    pub compact_dead_percent: u8,
    /// Seconds between two looks at everything for what retention drops.
    pub sweep_s: u32,
    /// What is dropped unasked, for each space: see [`EngineSettings::keep`].
    pub retention: [Retention; Space::ALL.len()],
}

/// Retention of a space's timelines: what they lose unasked. `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Messages made longer ago than this go, seconds.
    pub age_s_max: Option<u32>,
    /// The oldest of a timeline go until so many are left.
    pub count_max: Option<u64>,
    /// The oldest of a timeline go until they have so many bytes: bodies, labels, and 64 each.
    pub bytes_max: Option<u64>,
    /// What every reader of a timeline has acknowledged goes, if it has a reader.
    pub acknowledged: bool,
}

impl EngineSettings {
    /// The defaults over this log.
    pub fn new(log: LogSettings) -> EngineSettings {
        EngineSettings {
            log,
            heads_resident_max: 1 << 20,
            hot_bytes_max: 32 << 20,
            once_count_max: 1 << 25,
            once_age_s_max: 24 * 3_600,
            once_bytes_max: 32 << 20,
            roster_members_resident_max: 1 << 21,
            checkpoint_bytes: 32 << 20,
            index_changes_bytes: 128 << 20,
            checkpoint_s: 30,
            load_timelines_min: 16_384,
            load_bytes_max: 32 << 20,
            compact_percent: 50,
            compact_dead_percent: 25,
            sweep_s: 600,
            retention: [Retention::default(); Space::ALL.len()],
        }
    }

    /// The same with this rule for a space.
    pub fn keep(mut self, space: Space, rule: Retention) -> EngineSettings {
        self.retention[at(space)] = rule;
        self
    }

    /// The rule of a space.
    pub fn rule(&self, space: Space) -> Retention {
        self.retention[at(space)]
    }
}

impl Retention {
    /// Whether it drops anything ever.
    pub fn is_any(&self) -> bool {
        *self != Retention::default()
    }
}

fn at(space: Space) -> usize {
    Space::ALL.iter().position(|&other| other == space).expect("all spaces are in the list")
}
