//! An account's state of its conversations: the sum of its inbox.
//!
//! Pure: it takes the entries of the inbox, place by place, and has the conversations, their order,
//! how far each is read and its unread messages. Invariant: the same entries make the same state,
//! however often it was encoded and decoded in between.

use super::unread::{RING_BYTES, Unread};
use crate::inboxes::entry::Entry;
use crate::label::Pointer;
use base::bytes::{ByteReader, put_text};
use model::account::AccountAddress;
use model::chat::{ConversationChange, InboxChange, InboxEvent, MuteLevel, UNREAD_PLACES_MAX};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, HashMap, VecDeque};

const VERSION: u8 = 3;

/// The version without cursors of forgotten conversations, and without the second byte of flags.
const VERSION_BEFORE: u8 = 2;

/// Flags of a row.
const PINNED: u8 = 1;
const MUTED: u8 = 2;
const HIDDEN: u8 = 4;
const UNREAD: u8 = 8;
const LEFT: u8 = 16;
const DRAWN: u8 = 32;
const MENTIONS: u8 = 128;

/// Second flags of a row.
const SPOKEN: u8 = 1;
const MADE: u8 = 2;
const MUTED_EVERYTHING: u8 = 4;

/// In a full list, conversations with strangers may be one in so many of all.
const STRANGE_SHARE: usize = 4;

/// All of an account's state.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Knowledge {
    /// The state of each conversation.
    rows: HashMap<TimelineId, Row>,
    /// Conversations by their places.
    order: BTreeMap<Seq, TimelineId>,
    /// Read positions of the conversations that were forgotten last: the account's, and the
    /// other's.
    forgotten: VecDeque<(TimelineId, Seq, Seq)>,
    /// The place up to which the inbox is added up.
    pub(super) upto: Seq,
}

/// The state of one conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(super) with: AccountAddress,
    /// The place in the inbox of the last message that is no amendment, or, without such a message,
    /// of the last change.
    pub(super) place: Seq,
    /// The last place in the conversation; 0: it has no message.
    pub(super) last_seq: Seq,
    /// The place in the conversation of the last message that is no amendment.
    pub(super) said_seq: Seq,
    pub(super) read: Seq,
    pub(super) peer_read: Seq,
    unread: Unread,
    /// Those of the unread messages that mention the account.
    mentions: Unread,
    pub(super) pinned: bool,
    pub(super) muted: MuteLevel,
    pub(super) hidden: bool,
    /// The account was in the group, and has left it.
    pub(super) left: bool,
    /// The account draws the group's messages itself: only this row has how far.
    drawn: bool,
    /// The account has sent a message there.
    spoken: bool,
    /// The conversation is a group that the account has made.
    made: bool,
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

    /// Groups that the account has made and is in.
    pub(super) fn made(&self) -> usize {
        self.rows.values().filter(|row| row.is_made()).count()
    }

    /// Adds the entry at the next place of the inbox. True: a conversation was forgotten, since
    /// there are more than `most`.
    pub(super) fn has(&mut self, place: Seq, entry: &Entry, most: usize) -> bool {
        self.upto = place;
        let (conversation, with) = match entry {
            Entry::Message(pointer, with) => (pointer.conversation, with),
            Entry::Event(conversation, event) => (*conversation, &event.with),
        };
        let forgotten = &mut self.forgotten;
        let row = self.rows.entry(conversation).or_insert_with(|| {
            let known = forgotten.iter().position(|(of, ..)| *of == conversation);
            let known = known.and_then(|at| forgotten.remove(at));
            let mut row = Row::new(with.clone());
            if let Some((_, read, peer_read)) = known {
                (row.read, row.peer_read) = (read, peer_read);
            }
            row
        });
        let before = row.place;
        match entry {
            Entry::Message(pointer, _) => row.said(place, *pointer),
            Entry::Event(_, event) => row.happened(place, event),
        }
        if row.place != before {
            self.order.remove(&before);
            self.order.insert(row.place, conversation);
        }
        self.rows.len() > most && self.forget_one(conversation, most)
    }

    /// Forgets one conversation, when they are one too many. Messages of strangers push out no
    /// conversation that the account has taken part in: of the strangers' the first to go are those
    /// that the account has left, then, if they exceed their share, the newest, which may be this
    /// one. Otherwise the conversation with the oldest last change goes, but not this one:
    /// preferably one with nothing unread. One that is pinned, or that the account draws, goes only
    /// when all are pinned or drawn.
    fn forget_one(&mut self, this: TimelineId, most: usize) -> bool {
        let all = || self.order.iter().filter_map(|(at, of)| Some((*at, *of, self.rows.get(of)?)));
        let strange = || all().filter(|(.., row)| row.is_strange());
        let others = || all().filter(|(_, of, _)| *of != this);
        let is_loose = |row: &Row| !row.pinned && !row.drawn;
        let too_many = || (strange().count() > most / STRANGE_SHARE).then(|| strange().next_back());
        let one = strange()
            .find(|(.., row)| row.left)
            .or_else(|| too_many().flatten())
            .or_else(|| others().find(|(.., row)| is_loose(row) && row.unread() == 0))
            .or_else(|| others().find(|(.., row)| is_loose(row)))
            .or_else(|| others().find(|(.., row)| !row.drawn))
            .or_else(|| others().next());
        let Some((place, of, row)) = one else { return false };
        let cursors = (of, row.read, row.peer_read);
        if row.read > 0 || row.peer_read > 0 {
            if self.forgotten.len() >= most {
                self.forgotten.pop_front();
            }
            self.forgotten.push_back(cursors);
        }
        self.order.remove(&place);
        self.rows.remove(&of).is_some()
    }

    /// Stops counting messages of a conversation up to a place as unread: they no longer exist.
    pub(super) fn has_lost(&mut self, conversation: TimelineId, upto: Seq) {
        if let Some(row) = self.rows.get_mut(&conversation) {
            let first = (row.last_seq + 1).saturating_sub(UNREAD_PLACES_MAX);
            row.forget(first, upto.min(row.last_seq));
        }
    }

    /// Skips the inbox up to a place: no entry before it can be read.
    pub(super) fn passes(&mut self, place: Seq) {
        self.upto = self.upto.max(place);
    }

    pub(super) fn encode(&self) -> Box<[u8]> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.upto.to_le_bytes());
        out.extend_from_slice(&(self.forgotten.len() as u32).to_le_bytes());
        for (conversation, read, peer_read) in &self.forgotten {
            out.extend_from_slice(&conversation.to_bytes());
            out.extend_from_slice(&read.to_le_bytes());
            out.extend_from_slice(&peer_read.to_le_bytes());
        }
        for (conversation, row) in &self.rows {
            out.extend_from_slice(&conversation.to_bytes());
            row.encode(&mut out);
        }
        out.into()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Knowledge> {
        let is_before = value.first() == Some(&VERSION_BEFORE);
        let version = if is_before { VERSION_BEFORE } else { VERSION };
        let mut bytes = ByteReader::of(version, value)?;
        let mut knowledge = Knowledge { upto: bytes.u64()?, ..Knowledge::default() };
        let forgotten = if is_before { 0 } else { bytes.u32()? };
        for _ in 0..forgotten {
            let of = TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)?;
            knowledge.forgotten.push_back((of, bytes.u64()?, bytes.u64()?));
        }
        loop {
            let Some(conversation) = bytes.take(16) else { return bytes.ends(knowledge) };
            let conversation = TimelineId::from_bytes(conversation.try_into().ok()?)?;
            let row = Row::decode(&mut bytes, is_before)?;
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
            muted: MuteLevel::Off,
            hidden: false,
            left: false,
            drawn: false,
            spoken: false,
            made: false,
            draft: "".into(),
        }
    }

    /// Whether the conversation is a group that the account has made and is in.
    pub(super) fn is_made(&self) -> bool {
        self.made && !self.left
    }

    /// Whether the account has done nothing in the conversation but get messages.
    fn is_strange(&self) -> bool {
        let is_kept = self.pinned || self.muted.is_on() || self.hidden || !self.draft.is_empty();
        !(self.spoken || self.read > 0 || is_kept)
    }

    pub(super) fn unread(&self) -> u16 {
        self.unread.count()
    }

    pub(super) fn mentions(&self) -> u16 {
        self.mentions.count()
    }

    /// Adds a message.
    fn said(&mut self, place: Seq, pointer: Pointer) {
        let Pointer { seq, relation, quiet, counts, recalls, .. } = pointer;
        if !quiet {
            (self.place, self.hidden) = (place, false);
            self.said_seq = self.said_seq.max(seq);
        } else if self.said_seq == 0 {
            self.place = place;
        }
        self.spoken |= relation.own;
        self.made |= relation.own && seq == 1 && self.with.is_group();
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

    /// Stops counting these places as unread.
    fn forget(&mut self, first: Seq, last: Seq) {
        self.unread.drop_all(first, last);
        self.mentions.drop_all(first, last);
    }

    /// Whether a place is among the last ones of the conversation.
    fn is_near(&self, seq: Seq) -> bool {
        seq <= self.last_seq && seq + UNREAD_PLACES_MAX > self.last_seq
    }

    /// Adds a change other than a message.
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
                ConversationChange::Mute(mute) => self.muted = *mute,
                ConversationChange::Hide(on) => self.hidden = *on,
                ConversationChange::Draft(draft) => self.draft = draft.clone(),
            },
        }
    }

    /// Whether the row has this setting already.
    pub(super) fn is_set(&self, change: &ConversationChange) -> bool {
        match change {
            ConversationChange::Pin(on) => self.pinned == *on,
            ConversationChange::Mute(mute) => self.muted == *mute,
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
        let flags = flag(self.pinned, PINNED) | flag(self.left, LEFT);
        let flags = flags | flag(self.muted.is_on(), MUTED);
        let flags = flags | flag(mentions.is_some(), MENTIONS) | flag(self.drawn, DRAWN);
        out.push(flags | flag(self.hidden, HIDDEN) | flag(unread.is_some(), UNREAD));
        let second = flag(self.muted == MuteLevel::Everything, MUTED_EVERYTHING);
        out.push(second | flag(self.spoken, SPOKEN) | flag(self.made, MADE));
        out.extend(unread.into_iter().chain(mentions).flatten());
    }

    fn decode(bytes: &mut ByteReader<'_>, is_before: bool) -> Option<Row> {
        let with = AccountAddress::parse(bytes.text()?, "").ok()?;
        let draft = bytes.text()?.into();
        let (place, last_seq, said_seq) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let (read, peer_read) = (bytes.u64()?, bytes.u64()?);
        let flags = bytes.flags(PINNED | MUTED | HIDDEN | UNREAD | LEFT | MENTIONS | DRAWN)?;
        // A row of the version before has no such flags: it is kept as one where the account has
        // spoken.
        let second =
            if is_before { SPOKEN } else { bytes.flags(SPOKEN | MADE | MUTED_EVERYTHING)? };
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
            muted: match second & MUTED_EVERYTHING {
                0 => (flags & MUTED != 0).into(),
                _ => MuteLevel::Everything,
            },
            hidden: flags & HIDDEN != 0,
            left: flags & LEFT != 0,
            drawn: flags & DRAWN != 0,
            spoken: second & SPOKEN != 0,
            made: second & MADE != 0,
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
            let entry = match rng.below(9) {
                0 => event(n, InboxChange::Read(rng.below(last[n as usize] + 1))),
                1 => event(n, InboxChange::PeerRead(rng.below(last[n as usize] + 2))),
                2 => {
                    let draft = ConversationChange::Draft(format!("draft {place}").into());
                    let hide = ConversationChange::Hide(true);
                    event(n, InboxChange::Set(if rng.one_in(2) { draft } else { hide }))
                }
                3 => event(n, InboxChange::Set(ConversationChange::Pin(rng.one_in(2)))),
                4 => {
                    let all = [MuteLevel::Off, MuteLevel::ButMentions, MuteLevel::Everything];
                    let muted = ConversationChange::Mute(all[rng.below(3) as usize]);
                    event(n, InboxChange::Set(muted))
                }
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

    fn own(n: u64, seq: Seq) -> Entry {
        let Entry::Message(pointer, with) = said(n, seq) else { panic!("a message") };
        let relation = Relation { own: true, ..pointer.relation };
        Entry::Message(Pointer { relation, ..pointer }, with)
    }

    /// A state of at most so many conversations, to which one entry after another is added.
    struct Told(Knowledge, Seq, usize);

    impl Told {
        fn has(&mut self, entry: &Entry) -> bool {
            self.1 += 1;
            self.0.has(self.1, entry, self.2)
        }

        fn all(&self) -> Vec<AccountAddress> {
            self.0.before(Seq::MAX).map(|(_, row)| row.with.clone()).collect()
        }
    }

    #[test]
    fn one_too_many_is_forgotten_where_nothing_happened_for_longest_but_no_pinned_one() {
        let mut known = Told(Knowledge::default(), 0, 3);
        for n in 1..=3 {
            assert!(!known.has(&own(n, 1)));
        }
        known.has(&event(2, InboxChange::Read(1)));
        known.has(&event(1, InboxChange::Set(ConversationChange::Pin(true))));
        assert!(known.has(&own(4, 1)));
        assert_eq!(known.all(), [with(4), with(3), with(1)]);
        assert!(known.has(&said(2, 2)), "it is there anew");
        let row = known.0.row(conversation(2)).expect("there");
        assert_eq!((row.read, row.unread()), (1, 1), "and as far as it was read");
        assert_eq!(known.0.row(conversation(3)), None);
    }

    #[test]
    fn strangers_push_nothing_out_that_the_account_has_to_do_with() {
        let mut known = Told(Knowledge::default(), 0, 8);
        // The account has answered one conversation, read another, and pinned a third.
        known.has(&said(1, 1));
        known.has(&own(1, 2));
        known.has(&said(2, 1));
        known.has(&event(2, InboxChange::Read(1)));
        known.has(&said(3, 1));
        known.has(&event(3, InboxChange::Set(ConversationChange::Pin(true))));
        for n in 10..2_100 {
            assert_eq!(known.has(&said(n, 1)), n >= 15, "{n}");
        }
        let all: Vec<_> = [14, 13, 12, 11, 10, 3, 2, 1].map(with).into();
        assert_eq!(known.all(), all, "the first of the strangers are there, and not the last");
        // A conversation that the account begins gets a row; one no longer strange keeps its row.
        assert!(known.has(&own(5_000, 1)));
        known.has(&event(10, InboxChange::Read(1)));
        assert!(known.has(&said(5_001, 1)));
        assert_eq!(known.all(), [5_000, 13, 12, 11, 10, 3, 2, 1].map(with));
        // A stranger's group that the account has left goes first.
        let Entry::Message(pointer, group) = said(12, 2) else { panic!("a message") };
        let relation = Relation { ends: true, ..pointer.relation };
        known.has(&Entry::Message(Pointer { relation, ..pointer }, group));
        assert!(known.has(&said(5_002, 1)));
        assert_eq!(known.all(), [5_002, 5_000, 13, 11, 10, 3, 2, 1].map(with));
    }

    #[test]
    fn who_knows_very_many_is_still_told_of_a_new_one() {
        let mut known = Told(Knowledge::default(), 0, 8);
        for n in 1..=8 {
            known.has(&said(n, 1));
            known.has(&event(n, InboxChange::Read(1)));
        }
        assert!(known.has(&said(9, 1)));
        assert_eq!(known.all()[..2], [with(9), with(8)]);
        known.0 = Knowledge::decode(&known.0.encode()).expect("as it was written");
        known.has(&said(1, 2));
        let row = known.0.row(conversation(1)).expect("there anew");
        assert_eq!((row.read, row.unread()), (1, 1));
    }

    #[test]
    fn what_a_version_before_wrote_is_read() {
        let mut known = Told(Knowledge::default(), 0, 8);
        known.has(&said(1, 1));
        let value = known.0.encode();
        // The version before has no number of forgotten conversations and no second flags, which
        // come last but for the ring of unread places.
        let flags = value.len() - RING_BYTES - 1;
        let parts: [&[u8]; 4] =
            [&[VERSION_BEFORE], &value[1..9], &value[13..flags], &value[flags + 1..]];
        let read = Knowledge::decode(&parts.concat()).expect("it is read");
        let row = read.row(conversation(1)).expect("there");
        assert_eq!((row.unread(), row.spoken, row.made), (1, true, false));
    }
}
