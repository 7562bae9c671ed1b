//! The reference in doubt: every state that the store may be in.
//!
//! Writes without a certain answer are there as a prefix, in the order in which they were handed
//! over, for a log is written from the front. Invariant: `candidates` is not empty and has no two
//! alike.

use super::calls::brief;
use crate::log::{CallAnswer, MemoryLog, Restoration, Subject};
use model::ports::log::{Call, Done, StoreError, Write};

/// A row of at most so many bytes is taken by a full store.
const SMALL_ROW_BYTES: usize = 1_024;

/// All states that the answers so far allow.
pub(super) struct Follower {
    candidates: Vec<MemoryLog>,
    /// Calls and answers since the store failed. They are judged at its next start.
    since_failure: Vec<(Call, CallAnswer)>,
    may_refuse: bool,
    may_fail: bool,
    /// Of a store that is lazy: the states at its last start, and all writes since.
    started: Option<(Vec<MemoryLog>, Vec<Write>)>,
}

impl Follower {
    pub(super) fn new(empty: MemoryLog, subject: &dyn Subject) -> Follower {
        Follower {
            started: subject.is_lazy().then(|| (vec![empty.clone()], Vec::new())),
            candidates: vec![empty],
            since_failure: Vec::new(),
            may_refuse: subject.may_refuse(),
            may_fail: subject.may_fail(),
        }
    }

    /// The store said `Failed` since its last start.
    pub(super) fn has_failed(&self) -> bool {
        !self.since_failure.is_empty()
    }

    pub(super) fn advance(&mut self, now_s: u32) {
        self.candidates.iter_mut().for_each(|candidate| candidate.advance(now_s));
    }

    /// Maintenance came to its end at this time.
    pub(super) fn retain(&mut self, now_s: u32) {
        self.candidates.iter_mut().for_each(|candidate| candidate.retain(now_s));
    }

    /// Strikes out what would not have answered so.
    pub(super) fn judge(
        &mut self,
        calls: Vec<Call>,
        answers: Vec<CallAnswer>,
    ) -> Result<(), String> {
        self.note(&calls);
        let fails = answers.iter().any(has_failed);
        if fails && !self.may_fail {
            return Err("it answered Failed, and nothing had failed".into());
        }
        let both: Vec<(Call, CallAnswer)> = calls.into_iter().zip(answers).collect();
        if fails || self.has_failed() {
            // What a failed store reads may be on the disk or not.
            let writes = both.into_iter().filter(|(call, _)| matches!(call, Call::Write(_)));
            self.since_failure.extend(writes);
            if !self.has_failed() {
                let mark = Call::Read(super::calls::nothing());
                self.since_failure.push((mark, None));
            }
            return Ok(());
        }
        self.strike(&both)
    }

    /// The store died while it had these calls, and is up again.
    pub(super) fn cut_short(
        &mut self,
        calls: Vec<Call>,
        answers: Vec<CallAnswer>,
    ) -> Result<(), String> {
        if self.started.is_some() && !answers.is_empty() {
            self.note(&calls);
            return Ok(());
        }
        let mut both = std::mem::take(&mut self.since_failure);
        let after_failure = !both.is_empty() || self.may_fail && answers.iter().any(has_failed);
        let new = calls.into_iter().zip(answers);
        both.extend(new.filter(|(call, _)| !after_failure || matches!(call, Call::Write(_))));
        self.strike(&both)
    }

    /// Remembers writes that are not on stable storage yet.
    fn note(&mut self, calls: &[Call]) {
        if let Some((_, since)) = &mut self.started {
            since.extend(calls.iter().filter_map(|call| match call {
                Call::Write(write) => Some(write.clone()),
                Call::Read(_) => None,
            }));
        }
    }

    /// The store died. If it is lazy, any first part of its writes may be there.
    pub(super) fn crashed(&mut self) {
        let Some((base, since)) = &self.started else { return };
        let mut candidates = Vec::new();
        for mut log in base.iter().cloned() {
            candidates.push(log.clone());
            for write in since {
                let _ = log.write(write);
                candidates.push(log.clone());
            }
        }
        self.candidates = candidates;
    }

    /// The store is up again, and gave back this.
    pub(super) fn settle(&mut self, restored: &Restoration) -> Result<(), String> {
        self.cut_short(Vec::new(), Vec::new())?;
        let first = self.candidates[0].restoration();
        let count = self.candidates.len();
        self.candidates.retain(|candidate| candidate.restoration() == *restored);
        if self.candidates.is_empty() {
            return Err(format!("what it restored is none of {count} that it may be; {}", {
                difference(restored, &first)
            }));
        }
        if let Some(started) = &mut self.started {
            self.candidates.dedup();
            *started = (self.candidates.clone(), Vec::new());
        }
        Ok(())
    }

    fn strike(&mut self, both: &[(Call, CallAnswer)]) -> Result<(), String> {
        let doubtful = both.iter().filter(|(call, answer)| is_doubtful(call, answer)).count();
        let mut left: Vec<MemoryLog> = Vec::new();
        let mut why = String::new();
        for candidate in std::mem::take(&mut self.candidates) {
            if doubtful == 0 {
                let mut log = candidate;
                match self.follow(&mut log, both, (0, false)) {
                    Ok(()) => left.push(log),
                    Err(found) => why = found,
                }
                continue;
            }
            for (there, full) in (0..=doubtful).flat_map(|n| [(n, false), (n, true)]) {
                if full && !self.may_refuse {
                    continue;
                }
                let mut log = candidate.clone();
                match self.follow(&mut log, both, (there, full)) {
                    Ok(()) if !left.contains(&log) => left.push(log),
                    Ok(()) => {}
                    Err(found) => why = found,
                }
            }
        }
        if left.is_empty() {
            return Err(why);
        }
        self.candidates = left;
        Ok(())
    }

    /// Carries out what was answered and the first `there` of what is in doubt; of that only what
    /// frees something, if the disk was `full` and nobody lived to hear so. Reads must be as of
    /// some moment between the write before them and the last.
    fn follow(
        &self,
        log: &mut MemoryLog,
        both: &[(Call, CallAnswer)],
        (mut there, full): (usize, bool),
    ) -> Result<(), String> {
        let mut open: Vec<(&Call, &Result<Done, StoreError>)> = Vec::new();
        for (call, answer) in both {
            let write = match (call, answer) {
                (Call::Read(_), None) => continue,
                (Call::Read(read), Some(answer)) => {
                    if log.read(read) != *answer {
                        open.push((call, answer));
                    }
                    continue;
                }
                (Call::Write(write), _) => write,
            };
            if is_doubtful(call, answer) {
                if there > 0 {
                    there -= 1;
                    if !full || frees(write) {
                        let _ = log.write(write);
                    }
                }
            } else if self.was_refused(answer) {
                continue;
            } else {
                let must = log.write(write);
                let is = answer.as_ref().expect("a write without an answer is in doubt");
                if *is != must {
                    return Err(differs(call, is, &must));
                }
            }
            open.retain(|(call, answer)| match call {
                Call::Read(read) => log.read(read) != **answer,
                Call::Write(_) => false,
            });
        }
        match open.first() {
            Some(&(call, answer)) => Err(differs(call, answer, &log.answer(call))),
            None => Ok(()),
        }
    }

    fn was_refused(&self, answer: &CallAnswer) -> bool {
        self.may_refuse && matches!(answer, Some(Err(StoreError::Full | StoreError::Busy)))
    }
}

fn has_failed(answer: &CallAnswer) -> bool {
    matches!(answer, Some(Err(StoreError::Failed)))
}

fn is_doubtful(call: &Call, answer: &CallAnswer) -> bool {
    let unsure = matches!(answer, None | Some(Err(StoreError::Failed)));
    unsure && matches!(call, Call::Write(_))
}

/// A full store takes this.
fn frees(write: &Write) -> bool {
    match write {
        Write::Append(_) | Write::Post(_) | Write::Roster(_) | Write::AppendWith(_) => false,
        Write::Put { value, .. } => value.len() <= SMALL_ROW_BYTES,
        Write::Remove { .. }
        | Write::Acknowledge { .. }
        | Write::Forget(_)
        | Write::Disband(_)
        | Write::Delete { .. } => true,
    }
}

fn differs(call: &Call, is: &Result<Done, StoreError>, must: &Result<Done, StoreError>) -> String {
    format!("{}\n  is      {}\n  must be {}", brief(call), told(is), told(must))
}

/// An answer without its bodies.
fn told(answer: &Result<Done, StoreError>) -> String {
    let mut text = match answer {
        Ok(Done::Page(page)) => {
            let at = |at: &model::timeline::Placed| {
                format!("{}: {} of {} bytes", at.seq, at.message.id, at.message.body.len())
            };
            let all: Vec<_> = page.messages.iter().map(at).collect();
            format!("page [{}], more: {}", all.join(", "), page.more)
        }
        Ok(Done::Rows(rows)) => {
            let row = |row: &(Box<[u8]>, Box<[u8]>)| {
                format!("{}={}", row.0.escape_ascii(), row.1.escape_ascii())
            };
            format!("rows [{}]", rows.iter().map(row).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    };
    text.truncate(text.floor_char_boundary(3_000));
    text
}

fn difference(is: &Restoration, must: &Restoration) -> String {
    let rows = |a: &Restoration, b: &Restoration| {
        let only = a.rows.iter().filter(|row| !b.rows.contains(row)).take(3);
        only.map(|row| format!("{:?} {}", row.0, row.1.escape_ascii())).collect::<Vec<_>>()
    };
    let entries = |a: &Restoration, b: &Restoration| {
        let only = a.entries.iter().filter(|entry| !b.entries.contains(entry)).take(3);
        only.map(|entry| (entry.0, entry.1, entry.2)).collect::<Vec<_>>()
    };
    let heads = |a: &Restoration, b: &Restoration| {
        let only = a.heads.iter().filter(|head| !b.heads.contains(head)).take(3);
        only.copied().collect::<Vec<_>>()
    };
    format!(
        "only restored: {:?} {:?} {:?}; only in one that it may be: {:?} {:?} {:?}",
        rows(is, must),
        heads(is, must),
        entries(is, must),
        rows(must, is),
        heads(must, is),
        entries(must, is)
    )
}
