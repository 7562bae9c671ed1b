//! Settings of an engine, with the defaults.

use crate::log::LogSettings;
use model::ports::log::Table;
use model::timeline::{ReaderId, Space};

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
    /// Seconds for which once keys are remembered.
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
    /// Percent of all closed segments that must be dead before any is compacted.
    pub compact_dead_percent: u8,
    /// Seconds between two looks at everything for what retention drops.
    pub sweep_s: u32,
    /// Entries that are dropped without an order: see [`EngineSettings::keep`].
    pub retention: Vec<RetentionRule>,
    /// When so many percent of what the log may have are alive, the oldest go of what
    /// [gives way](Retention::gives_way), until five percent less are.
    pub gives_way_percent: u8,
}

/// Which messages a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetentionRule {
    /// Space of the timelines.
    pub space: Space,
    /// First byte of the labels; `None`: any. All messages of one timeline are of one kind.
    pub kind: Option<u8>,
    /// Limits of these messages.
    pub retention: Retention,
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
    /// Whether entries go that every reader of the timeline has acknowledged, if it has a reader.
    pub acknowledged: bool,
    /// The oldest go, whatever their timelines, when the log comes near what it may have.
    pub gives_way: bool,
    /// Reader whose unacknowledged messages are kept.
    pub behind: Option<ReaderId>,
    /// The reader of the timeline that learns what went: its cursor is at the last of it.
    pub marks: Option<ReaderId>,
    /// Rows of this table stand in place of messages: their keys are the timeline and a place. They
    /// go with the messages around them.
    pub rows: Option<Table>,
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
            retention: Vec::new(),
            gives_way_percent: 75,
        }
    }

    /// The settings with this rule for a space.
    pub fn keep(self, space: Space, retention: Retention) -> EngineSettings {
        self.keep_kind(RetentionRule { space, kind: None, retention })
    }

    /// The settings with this rule for a kind of messages of a space.
    pub fn keep_kind(mut self, rule: RetentionRule) -> EngineSettings {
        self.retention.retain(|it| (it.space, it.kind) != (rule.space, rule.kind));
        if rule.retention.is_any() {
            self.retention.push(rule);
        }
        self
    }

    /// The rules of a space.
    pub fn rules(&self, space: Space) -> impl Iterator<Item = RetentionRule> + '_ {
        self.retention.iter().copied().filter(move |rule| rule.space == space)
    }

    /// The rule of a message with this label.
    pub fn rule(&self, space: Space, label: &[u8]) -> Retention {
        rule_of(&self.retention, space, label)
    }
}

/// The rule among these for a message with this label.
pub(crate) fn rule_of(rules: &[RetentionRule], space: Space, label: &[u8]) -> Retention {
    let of_space = || rules.iter().filter(|rule| rule.space == space);
    let of_kind =
        of_space().find(|rule| rule.kind.is_some() && rule.kind == label.first().copied());
    let rule = of_kind.or_else(|| of_space().find(|rule| rule.kind.is_none()));
    rule.map(|rule| rule.retention).unwrap_or_default()
}

impl Retention {
    /// Whether it drops anything ever.
    pub fn is_any(&self) -> bool {
        *self != Retention::default()
    }

    /// Whether it drops what one timeline has too much of.
    pub(crate) fn is_of_heads(&self) -> bool {
        self.count_max.is_some() || self.bytes_max.is_some() || self.acknowledged
    }
}
