//! Parts of random inboxes: the answers are compared with a search of the whole inbox in memory.

use super::*;
use base::hash::HashKey;
use base::prng::Prng;
use model::account::AccountAddress;
use model::chat::{ClientMessageId, Content, InboxChange, InboxEvent};
use model::id::MessageId;
use model::timeline::{Message, Space};
use std::collections::VecDeque;

const HOME: HashKey = HashKey::new(1, 2);
const BEGINS_MS: u64 = 1_700_000_000_000;

/// An inbox, and the messages in it.
struct Inbox {
    entries: Vec<Placed>,
    /// Messages, of groups too, with their offsets and conversations.
    messages: Vec<(Seq, TimelineId, Arc<ChatMessage>)>,
}

fn name(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("right")
}

/// The parties that an account communicates with: three accounts, and a group.
fn partner(n: u64) -> AccountAddress {
    match n {
        3 => AccountAddress::of_group(7, "a.example").expect("right"),
        n => name(&format!("p{n}")),
    }
}

fn conversation(n: u64) -> TimelineId {
    TimelineId::of(Space::Conversation, HOME, &[&n.to_be_bytes()])
}

impl Inbox {
    /// An inbox of this many entries. Messages arrive late, those of each conversation in order.
    fn at_random(rng: &mut Prng, count: usize) -> Inbox {
        let (mut at_ms, mut last, mut seqs) = (BEGINS_MS, 0, [0; 4]);
        let mut said: [VecDeque<Arc<ChatMessage>>; 4] = Default::default();
        let mut inbox = Inbox { entries: Vec::new(), messages: Vec::new() };
        while inbox.entries.len() < count {
            let pause_ms = if rng.one_in(9) { 30_000 } else { 700 };
            at_ms += rng.below(pause_ms);
            let n = rng.below(4) as usize;
            if rng.one_in(2) && said[n].len() < 4 {
                last = MessageId::after(last, at_ms, Default::default()).0;
                seqs[n] += 1;
                let (ann, other) = (name("ann"), partner(n as u64));
                let is_own = n == 3 || rng.one_in(2);
                let (from, to) = if is_own { (ann, other) } else { (other, ann) };
                said[n].push_back(Arc::new(ChatMessage {
                    id: last,
                    seq: seqs[n],
                    at_ms,
                    from,
                    device: "".into(),
                    to,
                    client_id: ClientMessageId([1; 16]),
                    content: Content::text("x"),
                    amended: None,
                }));
            }
            let n = rng.below(4);
            match said[n as usize].pop_front() {
                Some(message) => inbox.put_message(n, message, at_ms),
                None => inbox.put_event(n, at_ms),
            }
        }
        inbox
    }

    fn put_message(&mut self, n: u64, message: Arc<ChatMessage>, at_ms: u64) {
        let own = message.from == name("ann");
        let relation = crate::label::Relation { own, ..Default::default() };
        let entry = Entry::of_message(conversation(n), relation, &message);
        let seq = self.put(message.id, at_ms, &entry);
        self.messages.push((seq, conversation(n), message));
    }

    fn put_event(&mut self, n: u64, at_ms: u64) {
        let event = InboxEvent { with: partner(n), what: InboxChange::PeerRead(1) };
        self.put(1, at_ms, &Entry::Event(conversation(n), event));
    }

    fn put(&mut self, id: u64, at_ms: u64, entry: &Entry) -> Seq {
        let (label, body) = entry.encode();
        let message = Arc::new(Message { id, at_s: (at_ms / 1_000) as u32, label, body });
        let seq = self.entries.last().map_or(5, |last| last.seq + 1);
        self.entries.push(Placed { seq, message });
        seq
    }

    fn read(&self, (from, backwards, count): Part) -> Page {
        let all = self.entries.iter();
        let mut found: Vec<Placed> = match backwards {
            true => all.rev().filter(|it| it.seq < from).take(count + 1).cloned().collect(),
            false => all.filter(|it| it.seq > from).take(count + 1).cloned().collect(),
        };
        let more = found.len() > count;
        found.truncate(count);
        Page { messages: found, damaged: Vec::new(), more }
    }

    /// A page, and the number of reads and entries that it took.
    fn page(&self, range: &ArchiveRange, entries_max: usize) -> (Answer, usize, usize) {
        let (mut reads, mut entries) = (0, 0);
        let count = usize::from(range.count);
        let mut archive =
            InboxArchive::new(name("ann"), Box::new(range.clone()), count, entries_max);
        while let Some(part) = archive.part() {
            let page = self.read(part);
            (reads, entries) = (reads + 1, entries + page.messages.len());
            if let Err(fault) = archive.sees(&page) {
                return (Err(fault), reads, entries);
            }
        }
        let wanted = archive.wanted();
        let is_wanted = |(_, of, message): &&(Seq, TimelineId, Arc<ChatMessage>)| {
            wanted.iter().any(|it| (it.conversation, it.seq) == (*of, message.seq))
        };
        let messages = self.messages.iter().filter(is_wanted);
        let messages = messages.map(|(_, of, message)| (*of, message.clone())).collect();
        let (messages, goes_on) = archive.page(Fetched { messages, ..Fetched::default() });
        (Ok((messages, goes_on)), reads, entries)
    }

    /// Offsets and messages between two accounts.
    fn of_two(&self) -> impl Iterator<Item = (Seq, &Arc<ChatMessage>)> {
        let all = self.messages.iter().map(|(seq, _, message)| (*seq, message));
        all.filter(|(_, message)| !message.to.is_group())
    }
}

type Answer = Result<(Vec<Arc<ChatMessage>>, Option<ArchiveId>), ChatFault>;

fn whole(backwards: bool, count: u16) -> ArchiveRange {
    ArchiveRange::whole(backwards, count)
}

#[test]
fn page_by_page_it_is_everything_once_in_order_from_either_end() {
    let mut rng = Prng::new(1);
    for round in 0..40 {
        let size = rng.below(1_500) as usize;
        let inbox = Inbox::at_random(&mut rng, size);
        let entries_max = 200 + rng.below(100) as usize;
        for backwards in [false, true] {
            let (mut seen, mut range) = (Vec::new(), whole(backwards, 5 + rng.below(90) as u16));
            loop {
                let (answer, ..) = inbox.page(&range, entries_max);
                let (messages, goes_on) = answer.expect("what goes on is there");
                assert!(messages.len() <= usize::from(range.count));
                match backwards {
                    true => seen.splice(0..0, messages),
                    false => seen.splice(seen.len().., messages),
                };
                let Some(id) = goes_on else { break };
                let bound = if backwards { &mut range.before } else { &mut range.after };
                assert_ne!(*bound, [id], "it gets on");
                *bound = vec![id];
            }
            let expected: Vec<_> = inbox.of_two().map(|(_, message)| message.clone()).collect();
            assert!(seen == expected, "round {round}: {} of {}", seen.len(), expected.len());
        }
    }
}

#[test]
fn between_bounds_of_any_kind_it_is_what_lies_there() {
    let mut rng = Prng::new(2);
    for round in 0..2_000 {
        let size = 1 + rng.below(300) as usize;
        let inbox = Inbox::at_random(&mut rng, size);
        if inbox.messages.is_empty() {
            continue;
        }
        let mut range = whole(rng.one_in(2), 200);
        let (mut lower, mut upper) = (0, Seq::MAX);
        for _ in 0..rng.below(3) {
            // Group messages have ids, too: a page may have ended at one.
            let (seq, _, message) =
                &inbox.messages[rng.below(inbox.messages.len() as u64) as usize];
            if rng.one_in(2) {
                range.after.push(ArchiveId::of(message));
                lower = lower.max(*seq);
            } else {
                range.before.push(ArchiveId::of(message));
                upper = upper.min(*seq);
            }
        }
        let span = inbox.entries.len() as u64 * 2_000;
        if rng.one_in(2) {
            range.since_ms = BEGINS_MS + rng.below(span);
        }
        if rng.one_in(2) {
            range.until_ms = BEGINS_MS + rng.below(span);
        }
        if rng.one_in(4) {
            let all: Vec<_> = inbox.of_two().map(|(_, it)| ArchiveId::of(it)).collect();
            let some = all.iter().filter(|_| rng.one_in(9)).take(16);
            range.named = some.copied().collect();
        }
        let is_wanted = |(seq, message): &(Seq, &Arc<ChatMessage>)| {
            let is_named = range.named.is_empty() || range.named.contains(&ArchiveId::of(message));
            is_named && *seq > lower && *seq < upper && range.has_time(message.at_ms)
        };
        let expected: Vec<_> = inbox.of_two().filter(is_wanted).map(|(_, it)| it.clone()).collect();
        let (answer, ..) = inbox.page(&range, 8_192);
        let (messages, goes_on) = answer.expect("all of it is there");
        assert!(messages == expected, "round {round}: {range:?}");
        assert_eq!(goes_on, None);
    }
}

#[test]
fn what_is_recent_costs_few_reads_and_what_is_old_as_many_as_the_length_has_bits() {
    let mut rng = Prng::new(3);
    let inbox = Inbox::at_random(&mut rng, 20_000);
    let at = |n: usize| ArchiveId::of(&inbox.messages[n].2);
    let range = |n| ArchiveRange { after: vec![at(n)], ..whole(false, 20) };
    let (answer, reads, _) = inbox.page(&range(inbox.messages.len() - 10), 8_192);
    assert!(answer.is_ok() && reads <= 3, "{reads} reads");
    let (answer, reads, entries) = inbox.page(&range(9), 8_192);
    assert!(answer.is_ok() && reads < 24, "{reads} reads");
    assert!(entries < 1_024, "{entries} entries");
    let (answer, reads, _) = inbox.page(&whole(true, 50), 8_192);
    assert!(answer.is_ok() && reads <= 3, "{reads} reads");
}

#[test]
fn an_id_that_is_not_there_is_unknown_after_so_many_entries() {
    let mut rng = Prng::new(4);
    let inbox = Inbox::at_random(&mut rng, 20_000);
    let (_, _, message) = &inbox.messages[50];
    let right = ArchiveId::of(message);
    for wrong in [
        ArchiveId { seq: right.seq + 1, ..right },
        ArchiveId { number: right.number + 1, ..right },
        ArchiveId { number: 0, seq: 0, pair: 0 },
        ArchiveId { pair: right.pair + 1, ..right },
        ArchiveId { number: u64::MAX, seq: Seq::MAX, pair: u32::MAX },
    ] {
        for range in [
            ArchiveRange { after: vec![wrong], ..whole(false, 5) },
            ArchiveRange { before: vec![wrong], ..whole(true, 5) },
            ArchiveRange { named: vec![right, wrong], ..whole(false, 5) },
        ] {
            let (answer, _, entries) = inbox.page(&range, 2_000);
            assert_eq!(answer, Err(ChatFault::UnknownMessage));
            assert!(entries < 3_000, "{entries}");
        }
    }
}

#[test]
fn a_group_s_message_leads_on_and_is_not_given() {
    let mut rng = Prng::new(6);
    let inbox = Inbox::at_random(&mut rng, 200);
    let of_group = inbox.messages.iter().find(|(_, _, it)| it.to.is_group());
    let id = ArchiveId::of(&of_group.expect("there is one").2);
    let after = ArchiveRange { after: vec![id], ..whole(false, 5) };
    assert!(inbox.page(&after, 8_192).0.is_ok());
    let named = ArchiveRange { named: vec![id], ..whole(false, 5) };
    assert_eq!(inbox.page(&named, 8_192).0, Err(ChatFault::UnknownMessage));
}

#[test]
fn a_clock_that_went_back_hides_no_id() {
    let mut rng = Prng::new(5);
    let mut inbox = Inbox::at_random(&mut rng, 4_000);
    for placed in &mut inbox.entries[2_000..] {
        let message = Message::clone(&placed.message);
        placed.message = Arc::new(Message { at_s: message.at_s - 50, ..message });
    }
    // Earlier messages are found, whichever way the bisection goes.
    for (_, _, message) in inbox.messages.iter().filter(|(seq, ..)| *seq < 2_000) {
        let range = ArchiveRange { after: vec![ArchiveId::of(message)], ..whole(false, 1) };
        assert!(inbox.page(&range, 8_192).0.is_ok());
    }
}

#[test]
fn what_is_large_makes_a_page_of_few() {
    let mut inbox = Inbox { entries: Vec::new(), messages: Vec::new() };
    for seq in 1..=6 {
        let id = MessageId::after(0, BEGINS_MS + seq, Default::default()).0;
        inbox.put_message(
            0,
            Arc::new(ChatMessage {
                id,
                seq,
                at_ms: BEGINS_MS + seq,
                from: name("ann"),
                device: "".into(),
                to: partner(0),
                client_id: ClientMessageId([1; 16]),
                content: Content::text(&"x".repeat(60_000)),
                amended: None,
            }),
            BEGINS_MS + seq,
        );
    }
    let seqs = |backwards| {
        let (answer, ..) = inbox.page(&whole(backwards, 100), 8_192);
        let (messages, goes_on) = answer.expect("it is there");
        (messages.iter().map(|it| it.seq).collect::<Vec<_>>(), goes_on.map(|id| id.seq))
    };
    assert_eq!(seqs(false), (vec![1, 2, 3], Some(3)));
    assert_eq!(seqs(true), (vec![4, 5, 6], Some(4)));
}
