//! What an account knows of its conversations: the sum of its inbox.
//!
//! Pure: it is told what stands in the inbox, place by place, and says which conversations there
//! are, in which order, how far each is read and what is unread of it. Invariant: whoever is told
//! the same knows the same, however often what it knew was written down and read meanwhile.

use super::unread::{RING_BYTES, Unread};
use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{ConversationChange, InboxChange, InboxEvent, UNREAD_PLACES_MAX};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap};

const VERSION: u8 = 2;

/// Flags of a row.
const PINNED: u8 = 1;
const MUTED: u8 = 2;
const HIDDEN: u8 = 4;
const UNREAD: u8 = 8;
const LEFT: u8 = 16;
const DRAWN: u8 = 32;
const MENTIONS: u8 = 128;

/// All that an account knows.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Knowledge {
    /// By conversation.
    rows: HashMap<TimelineId, Row>,
    /// Conversations by their places.
    order: BTreeMap<Seq, TimelineId>,
    /// All of the inbox up to here is in it.
    pub(super) upto: Seq,
}

/// What it knows of one conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(super) with: AccountAddress,
    /// The place in the inbox of the last that was said and is no amendment, or, if nothing was, of
    /// the last change.
    pub(super) place: Seq,
    /// The last place in the conversation; 0: nothing was said.
    pub(super) last_seq: Seq,
    /// The place in the conversation of the last that was said and is no amendment.
    pub(super) said_seq: Seq,
    pub(super) read: Seq,
    pub(super) peer_read: Seq,
    unread: Unread,
    /// What of that mentions the account.
    mentions: Unread,
    pub(super) pinned: bool,
    pub(super) muted: bool,
    pub(super) hidden: bool,
    /// The account was in the group, and is no more.
    pub(super) left: bool,
    /// The account draws what is said there: how far it has, this row says alone.
    drawn: bool,
    pub(super) draft: Box<str>,
}

impl Knowledge {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, conversation: TimelineId) -> Option<&Row> {
        self.rows.get(&conversation)
    }

    /// Conversations before a place, the newest first.
    pub(super) fn before(&self, place: Seq) -> impl Iterator<Item = (TimelineId, &Row)> {
        let all = self.order.range(..place).rev();
        all.filter_map(|(_, of)| Some((*of, self.rows.get(of)?)))
    }

    /// This stands at a place of the inbox, the next one. True: a conversation was forgotten, since
    /// there are more than `most`.
    pub(super) fn has(&mut self, place: Seq, entry: &Entry, most: usize) -> bool {
        self.upto = place;
        let (conversation, with) = match entry {
            Entry::Message(pointer, with) => (pointer.conversation, with),
            Entry::Event(conversation, event) => (*conversation, &event.with),
        };
        let row = self.rows.entry(conversation).or_insert_with(|| Row::new(with.clone()));
        let before = row.place;
        match entry {
            Entry::Message(pointer, _) => row.said(place, *pointer),
            Entry::Event(_, event) => row.happened(place, event),
        }
        if row.place != before {
            self.order.remove(&before);
            self.order.insert(row.place, conversation);
        }
        self.rows.len() > most && self.forget_one(conversation)
    }

    /// The conversation in which nothing happened for longest is forgotten, but not this one; of
    /// those that are pinned, or that the account draws, only if there are no others.
    fn forget_one(&mut self, kept: TimelineId) -> bool {
        let others = || self.order.iter().filter(|(_, of)| **of != kept);
        let row = |of: &TimelineId| self.rows.get(of);
        let is_loose = |of: &TimelineId| row(of).is_some_and(|row| !row.pinned && !row.drawn);
        let is_written = |of: &TimelineId| row(of).is_some_and(|row| !row.drawn);
        let first = others().find(|(_, of)| is_loose(of));
        let first = first.or_else(|| others().find(|(_, of)| is_written(of)));
        let first = first.or_else(|| others().next());
        let Some((&place, &of)) = first else { return false };
        self.order.remove(&place);
        self.rows.remove(&of).is_some()
    }

    /// Nothing that can be read stands up to a place.
    pub(super) fn passes(&mut self, place: Seq) {
        self.upto = self.upto.max(place);
    }

    pub(super) fn encode(&self) -> Box<[u8]> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.upto.to_le_bytes());
        for (conversation, row) in &self.rows {
            out.extend_from_slice(&conversation.to_bytes());
            row.encode(&mut out);
        }
        out.into()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Knowledge> {
        let mut bytes = ByteReader::of(VERSION, value)?;
        let mut knowledge = Knowledge { upto: bytes.u64()?, ..Knowledge::default() };
        loop {
            let Some(conversation) = bytes.take(16) else { return bytes.ends(knowledge) };
            let conversation = TimelineId::from_bytes(conversation.try_into().ok()?)?;
            let row = Row::decode(&mut bytes)?;
            knowledge.order.insert(row.place, conversation);
            knowledge.rows.insert(conversation, row);
        }
    }
}

impl Row {
    fn new(with: AccountAddress) -> Row {
        Row {
            with,
            place: 0,
            last_seq: 0,
            said_seq: 0,
            read: 0,
            peer_read: 0,
            unread: Unread::default(),
            mentions: Unread::default(),
            pinned: false,
            muted: false,
            hidden: false,
            left: false,
            drawn: false,
            draft: "".into(),
        }
    }

    pub(super) fn unread(&self) -> u16 {
        self.unread.count()
    }

    pub(super) fn mentions(&self) -> u16 {
        self.mentions.count()
    }

    /// Something was said.
    fn said(&mut self, place: Seq, pointer: Pointer) {
        let Pointer { seq, relation, quiet, counts, recalls, .. } = pointer;
        if !quiet {
            (self.place, self.hidden) = (place, false);
            self.said_seq = self.said_seq.max(seq);
        } else if self.said_seq == 0 {
            self.place = place;
        }
        self.left = relation.ends;
        self.drawn = relation.drawn && !relation.ends;
        if seq > self.last_seq {
            self.unread.advance(self.last_seq, seq);
            self.mentions.advance(self.last_seq, seq);
            self.last_seq = seq;
        }
        if counts && !relation.own && seq > self.read && self.is_near(seq) {
            self.unread.put(seq);
            if relation.mentioned {
                self.mentions.put(seq);
            }
        }
        if let Some(seq) = recalls.filter(|seq| self.is_near(*seq)) {
            self.forget(seq, seq);
        }
    }

    /// These places are not unread any more.
    fn forget(&mut self, first: Seq, last: Seq) {
        self.unread.drop_all(first, last);
        self.mentions.drop_all(first, last);
    }

    /// Whether a place is among the last.
    fn is_near(&self, seq: Seq) -> bool {
        seq <= self.last_seq && seq + UNREAD_PLACES_MAX > self.last_seq
    }

    /// Something else happened.
    fn happened(&mut self, place: Seq, event: &InboxEvent) {
        if self.said_seq == 0 {
            self.place = place;
        }
        match &event.what {
            InboxChange::Read(upto) if *upto > self.read => {
                self.read = *upto;
                let first = (self.last_seq + 1).saturating_sub(UNREAD_PLACES_MAX);
                self.forget(first, (*upto).min(self.last_seq));
            }
            InboxChange::Read(_) => {}
            InboxChange::PeerRead(upto) => self.peer_read = self.peer_read.max(*upto),
            InboxChange::Set(change) => match change {
                ConversationChange::Pin(on) => self.pinned = *on,
                ConversationChange::Mute(on) => self.muted = *on,
                ConversationChange::Hide(on) => self.hidden = *on,
                ConversationChange::Draft(draft) => self.draft = draft.clone(),
            },
        }
    }

    /// Whether it is kept so already.
    pub(super) fn is_set(&self, change: &ConversationChange) -> bool {
        match change {
            ConversationChange::Pin(on) => self.pinned == *on,
            ConversationChange::Mute(on) => self.muted == *on,
            ConversationChange::Hide(on) => self.hidden == *on,
            ConversationChange::Draft(draft) => self.draft == *draft,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for text in [self.with.as_str(), &*self.draft] {
            put_text(text, out);
        }
        for number in [self.place, self.last_seq, self.said_seq, self.read, self.peer_read] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let (unread, mentions) = (self.unread.bytes(), self.mentions.bytes());
        let flags = flag(self.pinned, PINNED) | flag(self.muted, MUTED) | flag(self.left, LEFT);
        let flags = flags | flag(mentions.is_some(), MENTIONS) | flag(self.drawn, DRAWN);
        out.push(flags | flag(self.hidden, HIDDEN) | flag(unread.is_some(), UNREAD));
        out.extend(unread.into_iter().chain(mentions).flatten());
    }

    fn decode(bytes: &mut ByteReader<'_>) -> Option<Row> {
        let with = AccountAddress::parse(bytes.text()?, "").ok()?;
        let draft = bytes.text()?.into();
        let (place, last_seq, said_seq) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let (read, peer_read) = (bytes.u64()?, bytes.u64()?);
        let flags = bytes.flags(PINNED | MUTED | HIDDEN | UNREAD | LEFT | MENTIONS | DRAWN)?;
        let mut ring = |bit: u8| match flags & bit {
            0 => Some(Unread::default()),
            _ => Unread::of_bytes(bytes.take(RING_BYTES)?),
        };
        let (unread, mentions) = (ring(UNREAD)?, ring(MENTIONS)?);
        Some(Row {
            with,
            place,
            last_seq,
            said_seq,
            read,
            peer_read,
            unread,
            mentions,
            pinned: flags & PINNED != 0,
            muted: flags & MUTED != 0,
            hidden: flags & HIDDEN != 0,
            left: flags & LEFT != 0,
            drawn: flags & DRAWN != 0,
            draft,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::Relation;
    use base::hash::HashKey;
    use base::prng::Prng;
    use model::timeline::Space;

    fn conversation(n: u64) -> TimelineId {
        TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[&n.to_be_bytes()])
    }

    fn with(n: u64) -> AccountAddress {
        AccountAddress::parse(&format!("p{n}"), "a.example").expect("right")
    }

    fn said(n: u64, seq: Seq) -> Entry {
        let (conversation, bytes) = (conversation(n), 1);
        let (relation, quiet, counts) = (Relation::default(), false, true);
        let recalls = None;
        let pointer = Pointer { conversation, seq, relation, quiet, counts, recalls, bytes };
        Entry::Message(pointer, with(n))
    }

    fn event(n: u64, what: InboxChange) -> Entry {
        Entry::Event(conversation(n), InboxEvent { with: with(n), what })
    }

    #[test]
    fn what_is_known_is_the_same_however_often_it_was_written_down_and_read() {
        let mut rng = Prng::new(9);
        let (mut one, mut other) = (Knowledge::default(), Knowledge::default());
        let mut last = [0; 12];
        for place in 1..5_000 {
            let n = rng.below(12);
            let entry = match rng.below(8) {
                0 => event(n, InboxChange::Read(rng.below(last[n as usize] + 1))),
                1 => event(n, InboxChange::PeerRead(rng.below(last[n as usize] + 2))),
                2 => {
                    let draft = ConversationChange::Draft(format!("draft {place}").into());
                    let hide = ConversationChange::Hide(true);
                    event(n, InboxChange::Set(if rng.one_in(2) { draft } else { hide }))
                }
                3 => event(n, InboxChange::Set(ConversationChange::Pin(rng.one_in(2)))),
                _ => {
                    last[n as usize] += 1;
                    said(n, last[n as usize])
                }
            };
            let forgot = one.has(place, &entry, 10);
            assert_eq!(other.has(place, &entry, 10), forgot);
            if rng.one_in(5) {
                other = Knowledge::decode(&other.encode()).expect("as it was written");
            }
            assert_eq!(one, other);
            assert!(one.len() <= 10 && one.order.len() == one.len());
        }
        let value = one.encode();
        assert_eq!(Knowledge::decode(&value[..value.len() - 1]), None);
    }

    #[test]
    fn one_too_many_is_forgotten_where_nothing_happened_for_longest_but_no_pinned_one() {
        let mut known = Knowledge::default();
        let mut place = 0;
        let mut has = |known: &mut Knowledge, entry: &Entry| {
            place += 1;
            known.has(place, entry, 3)
        };
        for n in 1..=3 {
            assert!(!has(&mut known, &said(n, 1)));
        }
        has(&mut known, &event(1, InboxChange::Set(ConversationChange::Pin(true))));
        assert!(has(&mut known, &said(4, 1)));
        let all: Vec<_> = known.before(Seq::MAX).map(|(_, row)| row.with.clone()).collect();
        assert_eq!(all, [with(4), with(3), with(1)]);
        assert!(has(&mut known, &said(2, 2)), "it is there anew");
        let row = known.row(conversation(2)).expect("there");
        assert_eq!((row.read, row.unread(), known.row(conversation(3))), (0, 1, None));
    }
}
