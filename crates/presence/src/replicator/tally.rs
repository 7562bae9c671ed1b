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
            ("directory_writes_total", "Calls that write records.", self.puts),
            ("directory_records_written_total", "Records written.", self.records),
            (
                "directory_records_kept_total",
                "Records not written: the directory had newer \
                                              ones.",
                self.kept,
            ),
            (
                "directory_records_untaken_total",
                "Records not written: their part of the directory did not answer.",
                self.untaken,
            ),
            ("directory_leases_total", "Leases renewed.", self.leases),
            (
                "directory_faults_unreachable_total",
                "Calls that failed: directory unreachable.",
                unreachable,
            ),
            ("directory_faults_slow_total", "Calls that timed out.", slow),
            ("directory_faults_refused_total", "Calls answered with an error.", refused),
            ("directory_faults_nonsense_total", "Calls with an invalid answer.", nonsense),
            (
                "directory_circuit_openings_total",
                "Times that the circuit breaker opened.",
                self.openings,
            ),
            (
                "directory_resyncs_total",
                "Comparisons of all buckets after a possible loss of records.",
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
                "Buckets repaired: read, and missing records written.",
                self.repairs,
            ),
            (
                "directory_records_swept_total",
                "Records of dead nodes, or offline for long, that were removed.",
                self.swept,
            ),
            ("directory_bytes_sent_total", "Bytes sent to the directory.", sent),
            ("directory_bytes_received_total", "Bytes received from the directory.", received),
        ]
    }
}
