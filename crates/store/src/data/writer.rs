//! The writer's life: one thread that owns a log's engine and does everything with it in order.
//!
//! A batch is whatever arrived while the last one was being written, and a little more where that
//! pays. Reads are planned behind the writes of their batch and finished by the log's reader,
//! another thread. The clock is a closure from outside. Where the log has copies, nothing leaves
//! the writer before all that it knew then is acknowledged ([`Held`]). Invariant: a party hears of
//! its stored writes in the order in which it handed them over; a refusal, which stores nothing,
//! may come earlier.

use crate::data::gathering::Gathering;
use crate::data::held::{Held, Leaving};
use crate::data::log_queue::{LogQueue, Parcel, Reading, write_weight};
use crate::data::refusals::Refusals;
use crate::engine::{Engine, Sizes};
use crate::log::record::BATCH_BYTES_MAX;
use model::ports::log::{Call, Completion, Done, Party, Post, StoreError, Ticket, Write};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Reads that are answered together.
const READS_TOGETHER: usize = 64;

/// The clock: Unix seconds.
pub(crate) type Clock = Arc<dyn Fn() -> u32 + Send + Sync>;

/// One log's writer.
pub(crate) struct Writer<F> {
    pub(crate) engine: Engine,
    pub(crate) queue: Arc<LogQueue>,
    /// Commits that share a sync; `None`: a commit is no sync.
    pub(crate) gathering: Option<Gathering>,
    pub(crate) sizes: Arc<Mutex<Sizes>>,
    pub(crate) refusals: Refusals,
    pub(crate) held: Held,
    pub(crate) now_s: Clock,
    pub(crate) on_complete: F,
}

impl<F: Fn(Party, Vec<Completion>)> Writer<F> {
    /// Works until the log's queue is closed; then makes a checkpoint, so that the next start is
    /// quick.
    pub(crate) fn run(mut self) {
        while let Some(work) = self.queue.take(self.gathering.as_mut(), self.held.awaited()) {
            if let Some(upto) = work.acknowledged {
                self.acknowledged(upto);
            }
            if let Some(finished) = work.finished {
                self.engine.finished((self.now_s)(), finished);
                self.queue.rest();
            }
            self.serve(work.parcels);
            for visit in work.visits {
                visit(&mut self.engine, (self.now_s)());
            }
            if work.sync {
                let _ = self.engine.sync(); // a failure is told with the next batch
            }
            self.keep_up();
            self.held.look(&self.engine);
            *self.sizes.lock().unwrap_or_else(PoisonError::into_inner) = self.engine.sizes();
        }
        // Nobody knows what becomes of what is not acknowledged.
        for leaving in self.held.give_up() {
            let answers: Vec<_> = match leaving {
                Leaving::Answers(answers) => answers.into_iter().map(|(name, _)| name).collect(),
                Leaving::Readings(readings) => {
                    self.queue.answered(readings.len());
                    readings.into_iter().map(|it| (it.party, it.ticket)).collect()
                }
                Leaving::Task(_) => Vec::new(),
            };
            let failed = answers.into_iter().map(|name| (name, Err(StoreError::Failed)));
            tell(&self.on_complete, failed);
        }
        self.engine.checkpoint_now((self.now_s)());
        self.queue.leave();
    }

    /// Copies have all up to this index: what waited for that leaves.
    fn acknowledged(&mut self, upto: u64) {
        self.engine.note_acknowledged(upto);
        while let Some(leaving) = self.held.next(upto) {
            match leaving {
                Leaving::Answers(answers) => tell(&self.on_complete, answers.into_iter()),
                Leaving::Readings(readings) => self.queue.read(readings),
                Leaving::Task(upkeep_task) if self.engine.is_behind() => {
                    self.engine.finished((self.now_s)(), upkeep_task.run());
                    self.queue.rest();
                }
                Leaving::Task(upkeep_task) => self.queue.give_kept(upkeep_task),
            }
        }
    }

    /// Answers leave, at once or when what they tell of is acknowledged. A refusal that stored
    /// nothing leaves at once: a stream without room may acknowledge nothing for long.
    fn answer(&mut self, answers: impl Iterator<Item = Answered>) {
        match self.engine.awaited() {
            0 => tell(&self.on_complete, answers),
            index => {
                let is_refused = |(_, answer): &Answered| {
                    matches!(answer, Err(StoreError::Full | StoreError::Busy))
                };
                let (refused, held): (Vec<_>, Vec<_>) = answers.partition(is_refused);
                tell(&self.on_complete, refused.into_iter());
                self.held.hold(index, Leaving::Answers(held));
            }
        }
    }

    /// Has a slice of upkeep done, if any is due: by the upkeep thread, which gives way to
    /// everything. Where that falls behind the writer does it, and what is to be written waits.
    fn keep_up(&mut self) {
        if !self.queue.is_idle() {
            return;
        }
        let upkeep_task = self.engine.upkeep_task((self.now_s)());
        self.queue.rests(upkeep_task.is_none() && !self.engine.is_pressed());
        let Some(upkeep_task) = upkeep_task else { return };
        if upkeep_task.awaits() > 0 {
            self.queue.keep();
            return self.held.hold(upkeep_task.awaits(), Leaving::Task(upkeep_task));
        }
        if !self.engine.is_behind() {
            return self.queue.give(upkeep_task);
        }
        let finished = upkeep_task.run();
        self.engine.finished((self.now_s)(), finished);
        self.queue.tick(false); // there is more, though nothing may come
    }

    fn serve(&mut self, parcels: Vec<Parcel>) {
        if parcels.is_empty() {
            return;
        }
        let (mut names, mut writes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for (party, calls) in parcels {
            for (ticket, call) in calls {
                match call {
                    Call::Write(write) => {
                        names.push((party, ticket));
                        writes.push(write);
                    }
                    Call::Read(read) => reads.push((party, ticket, read)),
                }
            }
        }
        self.write(names, &writes);
        let (mut readings, mut answers) = (Vec::new(), Vec::new());
        for (party, ticket, read) in reads {
            let planned = self.engine.plan(read);
            match planned.is_ready() {
                true => answers.push(((party, ticket), planned.finish())),
                false => readings.push(Reading { party, ticket, planned }),
            }
        }
        self.queue.answered(answers.len());
        self.answer(answers.into_iter());
        match self.engine.awaited() {
            index if index > 0 && !readings.is_empty() => {
                self.held.hold(index, Leaving::Readings(readings));
            }
            _ => self.queue.read(readings),
        }
    }

    /// Incoming calls in batches that fit into memory: one large message or many small ones each.
    fn write(&mut self, names: Vec<(Party, Ticket)>, writes: &[Write]) {
        let (mut names, mut rest) = (names.into_iter(), writes);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(together(rest, BATCH_BYTES_MAX));
            let these: Vec<_> = names.by_ref().take(now.len()).collect();
            let answers = self.commit(&these, now);
            self.answer(these.into_iter().zip(answers));
            rest = later;
        }
    }

    /// A batch; but for what would overtake something that was refused.
    fn commit(
        &mut self,
        names: &[(Party, Ticket)],
        writes: &[Write],
    ) -> Vec<Result<Done, StoreError>> {
        let now_s = (self.now_s)();
        let answers = match self.refusals.behind(names, writes) {
            None => self.engine.commit(now_s, writes),
            Some(behind) => {
                let others = writes.iter().zip(&behind).filter(|(_, behind)| !**behind);
                let others: Vec<Write> = others.map(|(write, _)| write.clone()).collect();
                let mut answers = self.engine.commit(now_s, &others).into_iter();
                let mut answer = |behind: &bool| match behind {
                    true => Err(StoreError::Busy),
                    false => answers.next().unwrap_or(Err(StoreError::Busy)),
                };
                behind.iter().map(&mut answer).collect()
            }
        };
        self.refusals.note(names, writes, &answers);
        answers
    }
}

/// Posts to whole rosters in a batch, at most: how many members one has is known only when it is
/// written. So many to the largest rosters take some 100 MiB.
const POSTS_TOGETHER: usize = 128;

/// How many of these writes, which are some, make a batch of at most so many bytes; at least one.
fn together(writes: &[Write], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |write: &&Write| {
        let is_post = matches!(write, Write::Post(Post { only: None, .. }));
        bytes += write_weight(write) + if is_post { bytes_max / POSTS_TOGETHER } else { 0 };
        bytes <= bytes_max
    };
    writes.iter().take_while(fits).count().max(1)
}

/// The reader's life: finishes what the writer planned.
pub(crate) fn finish_reads(queue: &LogQueue, on_complete: &impl Fn(Party, Vec<Completion>)) {
    loop {
        let readings = queue.readings(READS_TOGETHER);
        if readings.is_empty() {
            return;
        }
        let count = readings.len();
        let answer = |reading: Reading| ((reading.party, reading.ticket), reading.planned.finish());
        let answers: Vec<_> = readings.into_iter().map(answer).collect();
        queue.answered(count);
        tell(on_complete, answers.into_iter());
    }
}

pub(crate) type Answered = ((Party, Ticket), Result<Done, StoreError>);

fn tell(on_complete: &impl Fn(Party, Vec<Completion>), answers: impl Iterator<Item = Answered>) {
    let mut completions: BTreeMap<Party, Vec<Completion>> = BTreeMap::new();
    for ((party, ticket), answer) in answers {
        completions.entry(party).or_default().push((ticket, answer));
    }
    for (party, completed) in completions {
        on_complete(party, completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::log::{RosterId, Table};
    use model::timeline::Message;

    #[test]
    fn a_batch_is_one_large_write_or_many_small_ones() {
        let put = |bytes: usize| Write::Put {
            table: Table::Other,
            key: [1].into(),
            value: vec![0; bytes].into(),
        };
        let writes = [put(900), put(90), put(2_000), put(10), put(10)];
        assert_eq!(together(&writes, 1_500), 2);
        assert_eq!(together(&writes[2..], 1_500), 1, "too large for any, and alone");
        assert_eq!(together(&writes[3..], 1_500), 2);
        assert_eq!(together(&writes[3..], 0), 1);
        let post = Write::Post(Post {
            roster: RosterId(1),
            version: 1,
            only: None,
            message: Arc::new(Message { id: 1, at_s: 0, label: [].into(), body: [].into() }),
            once: None,
        });
        let posts = vec![post; 2 * POSTS_TOGETHER];
        let most = together(&posts, BATCH_BYTES_MAX);
        assert!((POSTS_TOGETHER - 1..=POSTS_TOGETHER).contains(&most), "{most}");
    }
}
