//! Reports that wait for the server: in order, each under one number until it was taken.

const COUNT_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;
const IN_FLIGHT_MAX: usize = 16;
const PAUSE_FIRST_MS: u64 = 5_000;
const PAUSE_LONGEST_MS: u64 = 300_000;

/// Too many Reports wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// One that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub seq: u32,
    pub client_id: String,
    pub payload: Vec<u8>,
    pub sent: bool,
}

/// The queue of one device.
pub(crate) struct Reports {
    queue: Vec<Report>,
    next_seq: u32,
    pause_ms: u64,
    /// No Report is sent before this time.
    pub paused_until: Option<u64>,
}

impl Reports {
    pub fn new(next_seq: u32, queue: Vec<Report>) -> Reports {
        Reports { queue, next_seq, pause_ms: PAUSE_FIRST_MS, paused_until: None }
    }

    /// Queues one; false if its client id is queued already.
    pub fn add(&mut self, client_id: &str, payload: &[u8]) -> Result<bool, QueueFull> {
        if self.queue.iter().any(|report| report.client_id == client_id) {
            return Ok(false);
        }
        let bytes: usize = self.queue.iter().map(|report| report.payload.len()).sum();
        if self.queue.len() >= COUNT_MAX || bytes + payload.len() > BYTES_MAX {
            return Err(QueueFull);
        }
        let (seq, client_id, payload) = (self.next_seq, client_id.to_owned(), payload.to_vec());
        self.queue.push(Report { seq, client_id, payload, sent: false });
        self.next_seq = self.next_seq % u32::MAX + 1;
        Ok(true)
    }

    /// A new session: what was in flight is sent again.
    pub fn bound(&mut self) {
        self.queue.iter_mut().for_each(|report| report.sent = false);
    }

    /// Number and payload of those that may be sent now; they count as sent.
    pub fn to_send(&mut self, now: u64) -> Vec<(u32, Vec<u8>)> {
        if self.paused_until.is_some_and(|until| now < until) {
            return Vec::new();
        }
        self.paused_until = None;
        let in_flight = self.queue.iter().filter(|report| report.sent).count();
        let room = IN_FLIGHT_MAX.saturating_sub(in_flight);
        let waiting = self.queue.iter_mut().filter(|report| !report.sent).take(room);
        waiting
            .map(|report| {
                report.sent = true;
                (report.seq, report.payload.clone())
            })
            .collect()
    }

    /// The server has all that are in flight up to this number. Their client ids.
    pub fn taken(&mut self, seq: u32) -> Vec<String> {
        let is_taken = |it: &Report| it.sent && seq.wrapping_sub(it.seq) < 1 << 31;
        let (gone, left) = std::mem::take(&mut self.queue).into_iter().partition(is_taken);
        self.queue = left;
        let gone: Vec<Report> = gone;
        if !gone.is_empty() {
            self.pause_ms = PAUSE_FIRST_MS;
        }
        gone.into_iter().map(|report| report.client_id).collect()
    }

    /// The server did not take this one: all wait for a while.
    pub fn refused(&mut self, now: u64, seq: u32, random: f64) {
        let Some(report) = self.queue.iter_mut().find(|it| it.seq == seq && it.sent) else {
            return;
        };
        report.sent = false;
        let half = self.pause_ms as f64 / 2.0;
        self.paused_until = Some(now + (half + random * half) as u64);
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_LONGEST_MS);
    }

    /// The next number and the queue, for the state.
    pub fn saved(&self) -> (u32, &[Report]) {
        (self.next_seq, &self.queue)
    }
}
