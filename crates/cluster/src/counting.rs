//! Which batches of a stream count.
//!
//! The fence of the stream guards the place of a message, not what is before it: a message of a
//! deposed leader may stand behind a rival's. So readers decide, and all of them alike:
//!
//! - a batch counts if its parts stand whole one behind the other, its index and chain follow what
//!   counted before, and its epoch is the last Lead's; a Lead's epoch is higher;
//! - the batch at the beginning of the stream counts: whoever purges leaves one that counts there.
//!   Before it may be parts of it, which are published again; no other batch counts behind those;
//! - behind an End of the last Lead's epoch or a later one nothing counts.
//!
//! All other batches are passed over. Followers, the settling of unknown outcomes and claims read
//! by this one reader. Invariant: what counts depends on the stream alone, not on where or when it
//! is read.

use crate::batch::{BATCH_BYTES_MAX, HEAD_BYTES, LogEnd, LogLeader, StreamBatch};
use crate::rules::Rule;
use crate::wire::message::{LogName, MessageBody, StreamMessage};

/// Where the last batch that counts stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// The sequence of its message, or of the first of its parts.
    pub first: u64,
    /// The sequence of its message, or of the last of its parts.
    pub last: u64,
    /// The end of the log behind it.
    pub end: LogEnd,
}

/// Batches of one message, or of its parts, that count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Where they stand.
    pub at: Anchor,
    /// The batches, in their order.
    pub batches: Vec<StreamBatch>,
}

/// A message was missing: the reader knows no more what counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceGap;

/// A reader of a stream from its first message on.
#[derive(Clone, Debug)]
pub struct Counting {
    name: LogName,
    next: u64,
    partial: Option<Partial>,
    /// The head of the first batch, if parts of it are at the beginning.
    begins: Option<Box<[u8]>>,
    last: Last,
}

#[derive(Clone, Copy, Debug)]
enum Last {
    /// No message was read, or only parts of the first batch.
    Nothing,
    /// This batch counted last.
    Counted(Anchor),
    /// The stream does not begin with a batch: nothing in it counts.
    Void,
    /// The generation ended, by a claim with this epoch, behind what counted.
    Ended(u32, Option<Anchor>),
}

/// Parts of a batch.
#[derive(Clone, Debug)]
struct Partial {
    by: LogLeader,
    first: u64,
    next: u16,
    parts: u16,
    bytes: Vec<u8>,
}

impl Counting {
    /// A reader of a stream whose first message has, or will have, this sequence.
    pub fn new(name: LogName, first: u64) -> Counting {
        Counting { name, next: first, partial: None, begins: None, last: Last::Nothing }
    }

    /// The sequence that is read next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The last batch that counts.
    pub fn anchor(&self) -> Option<Anchor> {
        match self.last {
            Last::Counted(anchor) | Last::Ended(_, Some(anchor)) => Some(anchor),
            _ => None,
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        matches!(self.last, Last::Nothing) && self.partial.is_none() && self.begins.is_none()
    }

    /// The epoch of the claim that ended the generation.
    pub fn ended(&self) -> Option<u32> {
        match self.last {
            Last::Ended(epoch, _) => Some(epoch),
            _ => None,
        }
    }

    /// Whether nothing counts in this stream, whatever comes: its beginning is not a batch.
    pub fn is_void(&self) -> bool {
        matches!(self.last, Last::Void)
    }

    /// Reads the message at a sequence: what counts since, which is nothing for most parts.
    pub fn read(&mut self, sequence: u64, bytes: &[u8]) -> Result<Option<Counted>, SequenceGap> {
        if sequence != self.next {
            return Err(SequenceGap);
        }
        self.next += 1;
        let is_first = matches!(self.last, Last::Nothing);
        let message = StreamMessage::read(self.name, bytes);
        let counted = match message.map(|message| (message.by, message.body)) {
            Some((_, MessageBody::End { epoch })) => {
                self.end(epoch);
                None
            }
            Some((by, MessageBody::Batches { part: 0, parts, piece })) if parts > 1 => {
                let next = is_first || self.anchor().is_some();
                let bytes = piece.to_vec();
                if is_first && Rule::BeginWithTheFirstPart.holds() {
                    let head = &piece[..HEAD_BYTES.min(piece.len())];
                    self.begins.get_or_insert_with(|| head.into());
                }
                self.partial =
                    next.then_some(Partial { by, first: sequence, next: 1, parts, bytes });
                return Ok(None);
            }
            Some((_, MessageBody::Batches { part: 0, piece, .. })) => {
                self.partial = None;
                self.count(sequence, sequence, piece)
            }
            Some((by, MessageBody::Batches { part, parts, piece })) => {
                match self.add(by, (part, parts), piece) {
                    Added::More => return Ok(None),
                    Added::Whole(partial) => self.count(partial.first, sequence, &partial.bytes),
                    Added::Alone => None,
                }
            }
            None => None,
        };
        self.partial = None;
        if matches!(self.last, Last::Nothing) && self.begins.is_none() {
            self.last = Last::Void; // the first message, or its batch, was none
        }
        Ok(counted)
    }

    fn add(&mut self, by: LogLeader, (part, parts): (u16, u16), piece: &[u8]) -> Added {
        let Some(mut partial) = self.partial.take() else { return Added::Alone };
        let is_next = (partial.by, partial.next, partial.parts) == (by, part, parts);
        if !is_next || partial.bytes.len() + piece.len() > BATCH_BYTES_MAX {
            return Added::Alone;
        }
        partial.bytes.extend_from_slice(piece);
        partial.next += 1;
        if partial.next == parts {
            return Added::Whole(partial);
        }
        self.partial = Some(partial);
        Added::More
    }

    fn end(&mut self, epoch: u32) {
        let anchor = self.anchor();
        let counts = match self.last {
            Last::Ended(before, _) => epoch > before,
            _ => anchor.is_none_or(|anchor| epoch >= anchor.end.epoch),
        };
        if counts {
            self.last = Last::Ended(epoch, anchor);
        }
    }

    fn count(&mut self, first: u64, last: u64, mut bytes: &[u8]) -> Option<Counted> {
        let mut behind = match self.last {
            Last::Nothing => None,
            Last::Counted(anchor) => Some(anchor.end),
            Last::Void | Last::Ended(..) => return None,
        };
        let begins = self.begins.as_ref().filter(|_| behind.is_none());
        if begins.is_some_and(|head| !bytes.starts_with(head)) {
            return None;
        }
        let mut batches = Vec::new();
        while !bytes.is_empty() {
            let batch = StreamBatch::take(&mut bytes)?;
            if !behind.is_none_or(|behind| counts(&batch, &behind)) {
                return None;
            }
            behind = Some(batch.end());
            batches.push(batch);
        }
        let at = Anchor { first, last, end: behind? };
        self.last = Last::Counted(at);
        Some(Counted { at, batches })
    }
}

enum Added {
    /// More parts of the batch must come.
    More,
    /// All parts are there.
    Whole(Partial),
    /// The batch follows no batch that was read.
    Alone,
}

/// Whether a batch counts behind another one.
fn counts(batch: &StreamBatch, behind: &LogEnd) -> bool {
    let follows = match Rule::ChainFollows.holds() {
        true => batch.follows(behind),
        false => batch.first_index() == behind.index + 1,
    };
    let has_epoch = match batch.leader() {
        Some(_) => batch.epoch() > behind.epoch,
        None => batch.epoch() == behind.epoch,
    };
    follows && (has_epoch || !Rule::EpochIsTheLastLeads.holds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::batch;
    use crate::rules::without;
    use crate::wire::message::{PIECE_BYTES_MAX, messages_of};
    use base::prng::Prng;
    use model::id::NodeId;

    const NAME: LogName = LogName { cluster: 1, log: 0 };

    fn by(node: u16) -> LogLeader {
        LogLeader { node: NodeId::new(node).expect("a node"), boot: 1 }
    }

    fn lead(at: LogEnd, epoch: u32, node: u16) -> StreamBatch {
        StreamBatch::lead(at, epoch, by(node))
    }

    fn one(node: u16, batch: &StreamBatch) -> Vec<u8> {
        messages_of(NAME, by(node), std::slice::from_ref(batch)).remove(0)
    }

    /// The ends of the batches that count in a stream that begins at 1.
    fn read(messages: &[Vec<u8>]) -> (Vec<LogEnd>, Counting) {
        let mut counting = Counting::new(NAME, 1);
        let mut ends = Vec::new();
        for (message, sequence) in messages.iter().zip(1..) {
            let counted = counting.read(sequence, message).expect("no gap");
            ends.extend(counted.iter().flat_map(|it| it.batches.iter().map(StreamBatch::end)));
        }
        (ends, counting)
    }

    #[test]
    fn what_a_deposed_leader_has_behind_a_rivals_lead_is_passed_over() {
        let first = lead(LogEnd::default(), 1, 1);
        let a = batch(first.end(), 1, &[b"a"]);
        let b = batch(a.end(), 1, &[b"b"]);
        let second = lead(a.end(), 2, 2);
        let c = batch(second.end(), 2, &[b"c"]);
        let late = [one(1, &first), one(1, &a), one(2, &second), one(1, &b), one(2, &c)];
        let (ends, _) = read(&late);
        assert_eq!(ends, [first.end(), a.end(), second.end(), c.end()]);
        let again = batch(c.end(), 1, &[b"x"]);
        let (ends, _) = read(&[&late[..], &[one(1, &again)]].concat());
        assert_eq!(ends.len(), 4, "it follows, but its epoch is over");
        let lower = lead(c.end(), 2, 1);
        assert_eq!(read(&[&late[..], &[one(1, &lower)]].concat()).0.len(), 4);
    }

    #[test]
    fn a_batch_of_another_history_does_not_count() {
        let first = lead(LogEnd::default(), 1, 1);
        let (a, other) = (batch(first.end(), 1, &[b"a"]), batch(first.end(), 1, &[b"A"]));
        let b = batch(other.end(), 1, &[b"b"]);
        let (ends, _) = read(&[one(1, &first), one(1, &a), one(1, &b), b"noise".to_vec()]);
        assert_eq!(ends, [first.end(), a.end()]);
    }

    #[test]
    fn parts_count_only_whole_and_in_their_order() {
        let first = lead(LogEnd::default(), 1, 1);
        let large = batch(first.end(), 1, &[&[7; PIECE_BYTES_MAX * 5 / 2]]);
        let parts = messages_of(NAME, by(1), std::slice::from_ref(&large));
        let [a, b, c] = &parts[..] else { panic!("three parts") };
        let lead = one(1, &first);
        let with = |messages: &[&Vec<u8>]| {
            let all: Vec<_> = [&lead].iter().chain(messages).map(|it| it.to_vec()).collect();
            read(&all)
        };
        let (ends, counting) = with(&[a, b, c]);
        assert_eq!(ends, [first.end(), large.end()]);
        assert_eq!(counting.anchor().map(|it| (it.first, it.last)), Some((2, 4)));
        for broken in [&[a, b][..], &[a, c], &[b, c], &[a, b, b, c], &[a, b, &lead, c]] {
            assert_eq!(with(broken).0, [first.end()]);
        }
        assert_eq!(with(&[a, a, b, c]).0, [first.end(), large.end()], "published again");
        let again = [a, a, b, a, b, c].map(Clone::clone);
        assert_eq!(read(&again).0, [large.end()], "also at the beginning of a stream");
    }

    #[test]
    fn a_stream_begins_with_a_batch_or_nothing_in_it_counts() {
        let first = lead(LogEnd::default(), 1, 1);
        let a = batch(first.end(), 1, &[b"a"]);
        let b = batch(a.end(), 1, &[b"b"]);
        assert_eq!(read(&[one(1, &a), one(1, &b)]).0, [a.end(), b.end()], "it was purged");
        let (ends, counting) = read(&[b"noise".to_vec(), one(1, &a)]);
        assert!(ends.is_empty() && counting.is_void());
        let large = batch(first.end(), 1, &[&[7; PIECE_BYTES_MAX * 2]]);
        let parts = messages_of(NAME, by(1), std::slice::from_ref(&large));
        let (ends, counting) = read(&[parts[1].clone(), parts[2].clone(), one(1, &first)]);
        assert!(ends.is_empty() && counting.is_void());
    }

    /// A generation begins with a large batch, of which a part was refused; the batch behind it
    /// was on its way.
    #[test]
    fn behind_parts_of_the_first_batch_no_other_batch_counts_before_it() {
        let large = batch(LogEnd::default(), 1, &[&[7; PIECE_BYTES_MAX * 2]]);
        let next = batch(large.end(), 1, &[b"b"]);
        let mut messages = messages_of(NAME, by(1), std::slice::from_ref(&large));
        let whole = messages.clone();
        messages.truncate(1);
        messages.push(one(1, &next));
        let read_all = || {
            let (ends, counting) = read(&messages);
            assert!(!counting.is_void() && !counting.is_empty());
            let (again, _) = read(&[&messages[..], &whole, &[one(1, &next)]].concat());
            (ends, again)
        };
        assert_eq!(read_all(), (vec![], vec![large.end(), next.end()]));
        let rule = Rule::BeginWithTheFirstPart;
        assert_eq!(
            without(rule, read_all).0,
            [next.end()],
            "without the rule `large` is passed over"
        );
    }

    #[test]
    fn behind_an_end_nothing_counts() {
        let first = lead(LogEnd::default(), 3, 1);
        let a = batch(first.end(), 3, &[b"a"]);
        let end = |epoch| StreamMessage { by: by(2), body: MessageBody::End { epoch } }.write(NAME);
        let (ends, counting) = read(&[one(1, &first), end(2), one(1, &a)]);
        assert_eq!((ends.len(), counting.ended()), (2, None), "of an older claim");
        let (ends, counting) = read(&[one(1, &first), end(3), one(1, &a)]);
        assert_eq!((ends.len(), counting.ended()), (1, Some(3)));
        assert_eq!(counting.anchor().map(|it| it.end), Some(first.end()));
    }

    #[test]
    fn a_missing_message_is_noticed() {
        let mut counting = Counting::new(NAME, 5);
        assert_eq!(counting.read(6, b"x"), Err(SequenceGap));
        assert_eq!(counting.read(4, b"x"), Err(SequenceGap));
        assert_eq!(counting.read(5, b"x"), Ok(None));
    }

    /// Bytes are changed, messages are swapped, said twice and left out: whatever counts is of the
    /// history that was written, in its order.
    #[test]
    fn bent_streams_never_panic_and_count_nothing_that_was_not_written() {
        let mut rng = Prng::new(4);
        for _ in 0..300 {
            let mut at = lead(LogEnd::default(), 1, 1);
            let mut written = vec![at.end()];
            let mut messages = vec![one(1, &at)];
            for number in 0..12_u8 {
                let long = [number; PIECE_BYTES_MAX + 9];
                let payload = if rng.one_in(6) { &long[..] } else { &long[..3] };
                at = batch(at.end(), 1, &[payload]);
                written.push(at.end());
                messages.extend(messages_of(NAME, by(1), std::slice::from_ref(&at)));
            }
            for _ in 0..3 {
                let (a, b) = (rng.below(messages.len() as u64), rng.below(messages.len() as u64));
                let (a, b) = (1.max(a as usize), 1.max(b as usize));
                match rng.below(4) {
                    0 => messages.swap(a, b),
                    1 => messages.insert(a, messages[b].clone()),
                    2 if messages.len() > 3 => drop(messages.remove(a)),
                    _ => {
                        let at = rng.below(messages[a].len() as u64) as usize;
                        messages[a][at] ^= 1 << rng.below(8);
                    }
                }
            }
            let (ends, _) = read(&messages);
            assert_eq!(ends, written[..ends.len()]);
        }
    }
}
