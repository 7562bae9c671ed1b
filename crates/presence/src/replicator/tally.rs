//! Counters of a replicator, with names and explanations.

use model::ports::presence::directory::DirectoryError;

/// Counts since the process began.
#[derive(Default)]
pub struct ReplicationTally {
    pub puts: u64,
    pub records: u64,
    pub kept: u64,
    pub untaken: u64,
    pub leases: u64,
    pub openings: u64,
    pub resyncs: u64,
    pub compared: u64,
    pub differing: u64,
    pub repairs: u64,
    pub swept: u64,
    faults: [u64; 4],
}

impl ReplicationTally {
    /// A call failed.
    pub fn fault(&mut self, fault: &DirectoryError) {
        let kind = match fault {
            DirectoryError::Unreachable(_) => 0,
            DirectoryError::Slow => 1,
            DirectoryError::Refused(_) => 2,
            DirectoryError::Nonsense(_) => 3,
        };
        self.faults[kind] += 1;
    }

    /// Name, explanation, value.
    pub fn counters(&self, (sent, received): (u64, u64)) -> Vec<(&'static str, &'static str, u64)> {
        let [unreachable, slow, refused, nonsense] = self.faults;
        vec![
            ("directory_writes_total", "Calls that wrote records.", self.puts),
            ("directory_records_written_total", "Records that were taken.", self.records),
            ("directory_records_kept_total", "Records that gave way to newer ones.", self.kept),
            (
                "directory_records_untaken_total",
                "Records whose part of the directory did not answer, while others did.",
                self.untaken,
            ),
            ("directory_leases_total", "Leases renewed.", self.leases),
            (
                "directory_faults_unreachable_total",
                "Calls that failed because it could not be reached.",
                unreachable,
            ),
            ("directory_faults_slow_total", "Calls that were not answered in time.", slow),
            ("directory_faults_refused_total", "Calls answered with an error.", refused),
            ("directory_faults_nonsense_total", "Calls answered with nonsense.", nonsense),
            (
                "directory_circuit_openings_total",
                "Times from which on no calls were made for a while.",
                self.openings,
            ),
            (
                "directory_resyncs_total",
                "Comparisons of all buckets, begun because records may have been lost.",
                self.resyncs,
            ),
            ("directory_buckets_compared_total", "Buckets compared by digest.", self.compared),
            (
                "directory_buckets_differing_total",
                "Buckets whose digests differed.",
                self.differing,
            ),
            (
                "directory_repairs_total",
                "Buckets read and given to the shards, which write what is missing.",
                self.repairs,
            ),
            (
                "directory_records_swept_total",
                "Records of dead nodes, and of those long offline, that were removed.",
                self.swept,
            ),
            ("directory_bytes_sent_total", "Bytes sent to the directory.", sent),
            ("directory_bytes_received_total", "Bytes received from the directory.", received),
        ]
    }
}
