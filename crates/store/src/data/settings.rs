//! Settings of the store, for all logs together.
//!
//! Each limit has its answer beside it. Invariant: a log that is full has several segments, so that
//! it can become less full while the server runs.

use crate::Fsync;
use crate::engine::{EngineSettings, RetentionRule};
use crate::log::{LogIdentity, LogSettings, Origin};
use base::secret::ClusterSecret;

/// Shortest segment, bytes.
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// The part of a log's bytes that is kept from what stores ...
const KEPT_PART: u64 = 16;

/// ... or so many bytes, if that is less.
const KEPT_BYTES_MAX: u64 = 256 << 20;

/// The secrets of a data folder, made at its first start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secrets {
    /// Secret shared by the nodes of a cluster: everything stored is named under it.
    pub cluster: ClusterSecret,
    /// The node's own: nothing that is stored depends on it.
    pub node: [u8; 32],
}

impl Secrets {
    /// Secrets of these random bytes.
    pub fn of(random: [u8; 64]) -> Secrets {
        let [mut cluster, mut node] = [[0; 32]; 2];
        cluster.copy_from_slice(&random[..32]);
        node.copy_from_slice(&random[32..]);
        Secrets { cluster: ClusterSecret::new(cluster), node }
    }
}

/// Settings of the store. Limits are for all logs together, and each log has an equal part.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// When writes are put on stable storage.
    pub fsync: Fsync,
    /// Secrets for a folder that has none.
    pub secrets: Secrets,
    /// Unix millisecond of this start: its number is not below that.
    pub began_ms: u64,
    /// Logs, one a shard; 1 to 99.
    pub logs: u16,
    /// Bytes after which a new segment begins; at most a quarter of a log's part of
    /// `log_bytes_max`.
    pub segment_bytes: u64,
    /// Bytes of all segments. Beyond fifteen sixteenths (or all but 256 MiB a log, if that is
    /// more): `Full`, except for what finishes or ends something.
    pub log_bytes_max: u64,
    /// Messages kept in memory to be pulled without the disk, bytes. The oldest go.
    pub hot_bytes_max: usize,
    /// Blocks of derived state kept in memory, bytes. The longest unused go. About as much again
    /// may not have been written to its tables yet.
    pub cache_bytes: u64,
    /// Calls that may wait for one log, or for its disk. Beyond: `Busy`.
    pub calls_waiting_max: usize,
    /// Their bytes in memory, one log's. Beyond: `Busy`. As much again may be with the writer.
    pub bytes_waiting_max: usize,
    /// Entries that are dropped without an order.
    pub retention: Vec<RetentionRule>,
    /// When so many percent of what a log may have are alive, the oldest go of what gives way.
    pub gives_way_percent: u8,
    /// Once keys remembered, about 70 bytes each in derived state. The oldest are forgotten.
    pub once_count_max: usize,
    /// Memory for the newest of them, bytes. The others are looked up in derived state.
    pub once_bytes_max: usize,
    /// Seconds for which once keys are remembered.
    pub once_age_s_max: u32,
    /// Memory of changes of the logs' indexes after which their checkpoints begin, bytes. At twice
    /// as much nothing is written before a slice of the checkpoint is.
    pub index_changes_bytes: u64,
    /// Bytes of records of one log after which a checkpoint begins.
    pub checkpoint_bytes: u64,
    /// Seconds after which one begins when anything changed.
    pub checkpoint_s: u32,
    /// Bytes before the checkpoints of all logs whose checksums an opening looks at, the newest
    /// first. Older bytes are checked when they are read.
    pub inspect_bytes_max: u64,
}

impl Settings {
    /// The defaults for so many logs, with the secrets for a first start.
    pub fn new(secrets: Secrets, logs: u16) -> Settings {
        Settings {
            fsync: Fsync::Always,
            secrets,
            began_ms: 0,
            logs,
            segment_bytes: 64 << 20,
            log_bytes_max: 16 << 30,
            hot_bytes_max: 64 << 20,
            cache_bytes: 64 << 20,
            calls_waiting_max: 65_536,
            bytes_waiting_max: 16 << 20,
            retention: Vec::new(),
            gives_way_percent: 75,
            once_count_max: 1 << 26,
            once_bytes_max: 64 << 20,
            once_age_s_max: 24 * 3_600,
            index_changes_bytes: 256 << 20,
            checkpoint_bytes: 32 << 20,
            checkpoint_s: 30,
            inspect_bytes_max: 0,
        }
    }

    /// Settings of one log's engine, of so many logs.
    pub(crate) fn engine(&self, logs: u16) -> EngineSettings {
        let part = |all: u64| all / u64::from(logs.max(1));
        let log_bytes_max = part(self.log_bytes_max);
        let segment_bytes = self.segment_bytes.min(log_bytes_max / 4).max(SEGMENT_BYTES_MIN);
        let whose = LogIdentity::default(); // the folder's, which knows its secret
        let kept_bytes = (log_bytes_max / KEPT_PART).min(KEPT_BYTES_MAX);
        let fsync = self.fsync;
        let origin = Origin::default(); // likewise
        let log = LogSettings { whose, origin, fsync, segment_bytes, log_bytes_max, kept_bytes };
        let mut engine = EngineSettings::new(log);
        engine.hot_bytes_max = part(self.hot_bytes_max as u64) as usize;
        engine.once_count_max = part(self.once_count_max as u64).max(1) as usize;
        engine.once_bytes_max = part(self.once_bytes_max as u64) as usize;
        engine.once_age_s_max = self.once_age_s_max;
        engine.index_changes_bytes = part(self.index_changes_bytes);
        engine.checkpoint_bytes = self.checkpoint_bytes;
        engine.checkpoint_s = self.checkpoint_s;
        engine.gives_way_percent = self.gives_way_percent;
        self.retention.iter().fold(engine, |engine, rule| engine.keep_kind(*rule))
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { fsync, logs, segment_bytes, log_bytes_max, .. } = self;
        write!(
            f,
            "Settings {{ fsync: {fsync:?}, logs: {logs}, segment_bytes: {segment_bytes}, \
             log_bytes_max: {log_bytes_max}, .. }}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Retention;
    use model::timeline::Space;

    #[test]
    fn logs_share_what_there_may_be_and_a_segment_is_a_quarter_of_its_log_at_most() {
        let mut settings = Settings::new(Secrets::of([7; 64]), 4);
        (settings.log_bytes_max, settings.segment_bytes) = (64 << 20, 4 << 20);
        (settings.hot_bytes_max, settings.once_count_max) = (4_000, 40);
        let engine = settings.engine(4);
        assert_eq!((engine.log.log_bytes_max, engine.log.segment_bytes), (16 << 20, 4 << 20));
        assert_eq!((engine.hot_bytes_max, engine.once_count_max), (1_000, 10));
        assert_eq!(settings.engine(8).log.segment_bytes, 2 << 20);
        settings.log_bytes_max = 1;
        assert_eq!(settings.engine(4).log.segment_bytes, SEGMENT_BYTES_MIN);
        settings.once_count_max = 3;
        assert_eq!(settings.engine(4).once_count_max, 1, "one at least");
        assert_eq!(settings.engine(0).hot_bytes_max, 4_000);
        let rule = Retention { count_max: Some(5), ..Retention::default() };
        let of_reports = RetentionRule { space: Space::Reports, kind: None, retention: rule };
        settings.retention = vec![of_reports];
        assert_eq!(settings.engine(1).rule(Space::Reports, b"x"), rule);
        assert_eq!(settings.engine(1).rule(Space::Sessions, b"x"), Retention::default());
        let kind = Some(b'x');
        settings.retention.push(RetentionRule {
            kind,
            retention: Retention::default(),
            ..of_reports
        });
        let other = Retention { count_max: Some(6), ..rule };
        settings.retention.push(RetentionRule { kind, retention: other, ..of_reports });
        assert_eq!(settings.engine(1).rule(Space::Reports, b"x"), other);
        assert_eq!(settings.engine(1).rule(Space::Reports, b"y"), rule);
    }

    #[test]
    fn the_secrets_are_not_shown() {
        let shown = format!("{:?}", Settings::new(Secrets::of([77; 64]), 4));
        assert!(shown.contains("logs: 4") && !shown.contains("77"), "{shown}");
    }
}
