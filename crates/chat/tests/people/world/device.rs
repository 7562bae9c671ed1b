//! A device: its position in the inbox, and its messages.

use super::amendments::{amendment_of, quote_of};
use super::receipts::Receipts;
use super::{Said, person, plain};
use base::prng::Prng;
use model::account::AccountAddress;
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef};
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Device {
    pub account: AccountAddress,
    pub name: String,
    pub conn: Option<ConnRef>,
    pub(super) session: Option<SessionRef>,
    numbers: u32,
    /// Its messages that are not answered, by request.
    pub waiting: BTreeMap<u32, (Said, String)>,
    /// All messages that it has ever sent.
    pub said: BTreeSet<Said>,
    /// Its position, and all messages that it has.
    pub(super) place: Seq,
    /// The highest offset that it has ever acknowledged, also before it was installed anew.
    pub(super) acknowledged: Seq,
    pub has: BTreeMap<Seq, Arc<ChatMessage>>,
    /// Other entries of its inbox.
    pub events: BTreeMap<Seq, Arc<InboxEvent>>,
    /// The other party of each of its requests about read positions and settings.
    pub changing: BTreeMap<u32, AccountAddress>,
    /// Read positions that its account was confirmed: other party, and offset.
    pub cursors: Vec<(AccountAddress, Seq)>,
    /// Messages that it recalled, by request.
    pub recalling: BTreeMap<u32, (AccountAddress, Seq)>,
    /// Number of messages that had been recalled at the time of each request.
    pub asked: BTreeMap<u32, usize>,
    /// Conversation lists that it got, with the request for each.
    pub lists: Vec<(Looked, ConversationsPage)>,
    looking: BTreeMap<u32, Looked>,
    /// Whether the device knows that more entries follow, or does not know that none do.
    is_behind: bool,
    pulling: Option<(u32, Seq)>,
    /// The server assumes a position that is not its own.
    is_ahead: bool,
    /// The fault of its last request.
    pub failed: Option<ChatFault>,
    reading: BTreeMap<u32, HistoryRange>,
    pub(super) archiving: BTreeMap<u32, ArchiveRange>,
    /// The last part of its account's archive that it read.
    pub(super) archive: Option<ArchivePage>,
    /// The last part of a conversation that it read.
    pub last_read: Vec<Arc<ChatMessage>>,
    /// Groups that it has learned of.
    pub groups: BTreeSet<AccountAddress>,
    /// Messages of groups that it has read in their conversations: group and place.
    pub read: BTreeSet<(AccountAddress, Seq)>,
    pub(super) listing: BTreeMap<u32, MembersRange>,
    /// All pages of members that it ever got.
    pub pages: Vec<MembersPage>,
    /// Pages of banned accounts.
    pub banned: Vec<MembersPage>,
    pub(super) begun_anew: usize,
    /// Answers to its requests about push registrations.
    pub(super) push_answers: Vec<ChatDelivery>,
    /// Its requests for receipts, and their answers.
    pub receipts: Receipts,
    /// Transients that it got.
    pub heard: Vec<Arc<Transient>>,
    /// Whether the device gets its name after the login.
    pub binds: bool,
    /// News of rooms that it got.
    pub shown: Vec<Arc<RoomNews>>,
    /// Notices of groups that went to it alone.
    pub asides: Vec<Arc<GroupAside>>,
    /// Its last search results.
    pub found: Option<SearchPage>,
    /// The last list of public groups that it got.
    pub public: Option<PublicPage>,
}

/// The conversations that a device asks for.
#[derive(Clone, Debug)]
pub enum Looked {
    At(AccountAddress),
    Before(Seq, u16),
    /// Those with groups, hidden ones too.
    Groups(Seq, u16),
}

/// The content that a text stands for: some texts do not count as unread.
pub fn content_of(text: &str) -> Content {
    if let Some(amendment) = amendment_of(text) {
        return amendment;
    }
    let accounts = if text.ends_with(['1', '4']) { vec![person(1).into()] } else { Vec::new() };
    let mentions = Mentions::of(accounts, text.ends_with('5'));
    let (counts, quote) = (!text.ends_with(['3', '7']), quote_of(text));
    Content { counts, quote, mentions, ..Content::text(text) }
}

/// Puts a message at an offset, which must be free or hold the same message, perhaps recalled.
pub fn put(has: &mut BTreeMap<Seq, Arc<ChatMessage>>, seq: Seq, message: Arc<ChatMessage>) {
    let gone = |it: &ChatMessage| it.content.kind == Content::RECALLED;
    let Some(before) = has.get(&seq) else {
        has.insert(seq, message);
        return;
    };
    let named = |it: &ChatMessage| (it.id, it.seq, it.from.clone(), it.to.clone(), it.client_id);
    assert_eq!(named(before), named(&message), "one message at a place");
    if gone(&message) {
        has.insert(seq, message);
    } else {
        // An edited message comes in its present state, and so does its edit.
        let is_amended = |it: &ChatMessage| it.amended.is_some() || it.content.is_amendment();
        let may_differ = is_amended(before) || is_amended(&message);
        // A message that is delivered live has the quoted text, too.
        let as_read = |it: &ChatMessage| {
            let mut content = it.content.clone();
            content.quote.iter_mut().for_each(|quote| quote.text = "".into());
            content
        };
        let is_same = as_read(before) == as_read(&message);
        assert!(gone(before) || is_same || may_differ, "one message at a place");
        let edited = |it: &ChatMessage| it.amended.as_ref().map_or(0, |it| it.edited_ms);
        if !gone(before) && edited(&message) > edited(before) {
            has.insert(seq, message);
        }
    }
}

impl Device {
    pub fn new(who: u32, n: u32) -> Device {
        Device {
            account: person(who),
            name: format!("d{n}"),
            conn: None,
            session: None,
            numbers: 0,
            waiting: BTreeMap::new(),
            said: BTreeSet::new(),
            place: 0,
            acknowledged: 0,
            has: BTreeMap::new(),
            events: BTreeMap::new(),
            changing: BTreeMap::new(),
            cursors: Vec::new(),
            recalling: BTreeMap::new(),
            asked: BTreeMap::new(),
            lists: Vec::new(),
            looking: BTreeMap::new(),
            is_behind: true,
            pulling: None,
            is_ahead: false,
            failed: None,
            reading: BTreeMap::new(),
            archiving: BTreeMap::new(),
            archive: None,
            last_read: Vec::new(),
            groups: BTreeSet::new(),
            read: BTreeSet::new(),
            listing: BTreeMap::new(),
            pages: Vec::new(),
            banned: Vec::new(),
            begun_anew: 0,
            push_answers: Vec::new(),
            receipts: Receipts::default(),
            heard: Vec::new(),
            binds: false,
            shown: Vec::new(),
            asides: Vec::new(),
            found: None,
            public: None,
        }
    }

    pub(super) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub fn comes(&mut self, conn: ConnRef, proves: bool) -> ChatRequest {
        self.conn = Some(conn);
        let password = proves.then(|| b"secret"[..].into());
        ChatRequest::Login(Box::new(Login {
            password,
            ..plain::login(self.account.clone(), if self.binds { "" } else { &self.name })
        }))
    }

    pub fn goes(&mut self) -> ChatRequest {
        let session = self.session;
        self.is_cut();
        let reason = CloseReason::PeerClosed;
        session.map_or(ChatRequest::Gone, |session| ChatRequest::Closed { session, reason })
    }

    pub fn is_cut(&mut self) {
        (self.conn, self.session, self.pulling) = (None, None, None);
        self.waiting.clear();
        self.reading.clear();
        self.archiving.clear();
        self.listing.clear();
        self.changing.clear();
        self.looking.clear();
        self.recalling.clear();
        self.asked.clear();
        self.receipts.is_cut();
    }

    pub fn is_here(&self) -> bool {
        self.session.is_some()
    }

    /// Is installed anew.
    pub fn forgets(&mut self) {
        if self.pulling.is_none() {
            (self.place, self.is_behind) = (0, true);
            self.has.clear();
            self.events.clear();
        }
    }

    /// The request that it has to make next.
    pub fn owes(&mut self) -> Option<ChatRequest> {
        let session = self.session?;
        if std::mem::take(&mut self.is_ahead) {
            return self.acknowledges();
        }
        if !self.is_behind || self.pulling.is_some() {
            return None;
        }
        let number = self.number();
        self.pulling = Some((number, self.place));
        Some(ChatRequest::Pull { session, number, after: self.place, count: 100 })
    }

    pub fn acknowledges(&mut self) -> Option<ChatRequest> {
        let session = self.session?;
        self.acknowledged = self.acknowledged.max(self.place);
        Some(ChatRequest::Acknowledge { session, upto: self.place })
    }

    pub fn says(&mut self, said: Said, to: AccountAddress, text: String) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        let (client_id, content) = (said.1, content_of(&text));
        self.waiting.insert(number, (said, text));
        let message = Box::new(NewMessage { to: to.into(), client_id, content });
        Some(ChatRequest::Send { session, number, message })
    }

    /// Makes a request about a group.
    pub fn orders(&mut self, said: Said, order: GroupOrder) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.waiting.insert(number, (said, order.title.to_string()));
        Some(ChatRequest::Group { session, number, order: Box::new(order) })
    }

    /// Reads a conversation from one end.
    pub fn reads_all(&mut self, with: AccountAddress, backwards: bool) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        let from = if backwards { Seq::MAX } else { 0 };
        let range = HistoryRange { with: with.into(), from, backwards, count: 5 };
        self.reading.insert(number, range.clone());
        Some(ChatRequest::History { session, number, range: Box::new(range) })
    }

    pub fn reads(
        &mut self,
        rng: &mut Prng,
        people: u32,
        group: Option<AccountAddress>,
    ) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        let with = group.unwrap_or_else(|| person(rng.below(people.into()) as u32));
        let backwards = rng.one_in(2);
        let from = if backwards && rng.one_in(2) { Seq::MAX } else { rng.below(8) };
        let range =
            HistoryRange { with: with.into(), from, backwards, count: 1 + rng.below(8) as u16 };
        self.reading.insert(number, range.clone());
        Some(ChatRequest::History { session, number, range: Box::new(range) })
    }

    /// Reports that its account has read a message.
    pub fn has_read(&mut self, with: AccountAddress, upto: Seq) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.changing.insert(number, with.clone());
        Some(ChatRequest::Read { session, number, with: Box::new(with.into()), upto })
    }

    /// Recalls a message.
    pub fn recalls(&mut self, with: AccountAddress, seq: Seq) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.recalling.insert(number, (with.clone(), seq));
        let reason = format!("reason {number}").into();
        let order = Box::new(RecallOrder { with: with.into(), seq, reason });
        Some(ChatRequest::Recall { session, number, order })
    }

    /// Changes a setting of a conversation.
    pub fn sets(
        &mut self,
        with: AccountAddress,
        change: ConversationChange,
    ) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.changing.insert(number, with.clone());
        let (with, change) = (Box::new(with.into()), Box::new(change));
        Some(ChatRequest::Set { session, number, with, change })
    }

    /// Asks for its account's knowledge of conversations.
    pub fn looks(&mut self, looked: Looked) -> Option<ChatRequest> {
        let session = self.session?;
        let number = self.number();
        self.looking.insert(number, looked.clone());
        Some(match looked {
            Looked::At(with) => {
                ChatRequest::Conversation { session, number, with: Box::new(with.into()) }
            }
            Looked::Before(before, count) | Looked::Groups(before, count) => {
                let groups = matches!(looked, Looked::Groups(..));
                ChatRequest::Conversations { session, number, before, count, groups }
            }
        })
    }

    pub fn hears(&mut self, delivery: ChatDelivery) {
        if self.receipts.hears(&delivery) {
            return;
        }
        match delivery {
            ChatDelivery::LoggedIn(logged_in) => {
                self.session = Some(logged_in.session);
                self.is_behind = self.place != logged_in.head;
                self.is_ahead = self.place > logged_in.cursor;
            }
            ChatDelivery::Message { seq, message } => {
                // While the device pulls, new entries are behind those of the page.
                assert!(seq > self.place || self.pulling.is_some() || self.is_behind);
                self.take(seq, message);
                if !self.is_behind && self.pulling.is_none() {
                    self.place = seq;
                }
            }
            ChatDelivery::Event { seq, event } => {
                assert!(seq > self.place || self.pulling.is_some() || self.is_behind);
                self.take_event(seq, event);
                if !self.is_behind && self.pulling.is_none() {
                    self.place = seq;
                }
            }
            ChatDelivery::Read { number, upto } => {
                let with = self.changing.remove(&number).expect("it asked");
                self.cursors.push((with, upto));
            }
            ChatDelivery::Set { number } => {
                self.changing.remove(&number).expect("it asked");
            }
            ChatDelivery::Conversations(page) => {
                let looked = self.looking.remove(&page.number).expect("it asked");
                self.lists.push((looked, *page));
            }
            ChatDelivery::Notify { .. } => self.is_behind = true,
            ChatDelivery::Page(page) => self.page(*page),
            ChatDelivery::History(page) => self.history(*page),
            ChatDelivery::Archive(page) => self.archived(*page),
            ChatDelivery::Failed { number, why } => self.fails(number, why),
            ChatDelivery::Rejected(rejected) => self.fails(rejected.number, rejected.why),
            ChatDelivery::Refused(_) | ChatDelivery::End(_) => self.is_cut(),
            ChatDelivery::Sent { .. } => {}
            ChatDelivery::Changed(changed) => drop(self.groups.insert(changed.group)),
            ChatDelivery::Members(page) => self.listed(*page),
            ChatDelivery::Done { .. }
            | ChatDelivery::PushStatus(_)
            | ChatDelivery::PushCode { .. } => self.push_answers.push(delivery),
            ChatDelivery::Transient(told) => self.heard.push(told),
            ChatDelivery::RoomNews(news) => self.shown.push(news),
            ChatDelivery::RoomEntered(_) => {}
            ChatDelivery::Aside(aside) => self.asides.push(aside),
            ChatDelivery::Bound { .. } => assert!(self.binds),
            ChatDelivery::Found(page) => self.found = Some(*page),
            ChatDelivery::PublicGroups(page) => self.public = Some(*page),
            ChatDelivery::Challenge(_) => panic!("nobody is asked for a proof"),
            other => panic!("nobody asks for it: {other:?}"),
        }
    }

    fn fails(&mut self, number: u32, why: ChatFault) {
        self.failed = Some(why);
        self.waiting.remove(&number);
        self.reading.remove(&number);
        self.archive_refused(number, why);
        self.listing.remove(&number);
        self.changing.remove(&number);
        self.looking.remove(&number);
        self.recalling.remove(&number);
        self.receipts.asking.remove(&number);
        if self.pulling.is_some_and(|(pulling, _)| pulling == number) {
            self.pulling = None;
        }
    }

    fn take(&mut self, seq: Seq, message: Arc<ChatMessage>) {
        let is_mine =
            [&message.from, &message.to].contains(&&self.account) || message.to.is_group();
        if message.to.is_group() {
            self.groups.insert(message.to.clone());
        }
        assert!(is_mine, "{} got {message:?}", self.account);
        if !message.to.is_group() {
            self.receipts.had.insert((message.from.clone(), message.seq));
        }
        put(&mut self.has, seq, message);
    }

    fn take_event(&mut self, seq: Seq, event: Arc<InboxEvent>) {
        let before = self.events.insert(seq, event.clone());
        assert!(before.is_none_or(|before| before == event), "one event at a place");
    }

    fn page(&mut self, page: InboxPage) {
        let (number, after) = self.pulling.take().expect("it pulls");
        assert_eq!(page.number, number);
        assert!(page.upto >= after && page.head >= page.upto, "{page:?} after {after}");
        for (seq, message) in page.messages {
            assert!((after + 1..=page.upto).contains(&seq));
            self.take(seq, message);
        }
        for (seq, event) in page.events {
            assert!((after + 1..=page.upto).contains(&seq));
            self.take_event(seq, event);
        }
        self.place = page.upto;
        self.is_behind = page.upto < page.head;
    }

    fn history(&mut self, page: HistoryPage) {
        let range = self.reading.remove(&page.number).expect("it asked");
        self.last_read = page.messages.clone();
        assert!(page.messages.len() <= usize::from(range.count));
        let seqs: Vec<Seq> = page.messages.iter().map(|message| message.seq).collect();
        let first = seqs.first().copied().unwrap_or(0);
        if range.backwards {
            assert!(seqs.windows(2).all(|pair| pair[0] == pair[1] + 1));
            assert!(first == 0 || first < range.from);
        } else {
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            let of_group = range.with.within("a.example").is_group();
            assert!(first == 0 || first == range.from + 1 || of_group && first > range.from);
        }
        for message in page.messages {
            if message.to.is_group() {
                assert_eq!(message.to, range.with.within("a.example"));
                self.read.insert((message.to.clone(), message.seq));
                continue;
            }
            let pair = [&message.from, &message.to];
            assert!(
                pair.contains(&&self.account) && pair.contains(&&range.with.within("a.example"))
            );
        }
    }

    /// Checks that it has the whole inbox, except its own messages that it did not get back.
    pub fn check(&self, inbox: &BTreeMap<Seq, Arc<ChatMessage>>) {
        assert!(
            self.session.is_some() && !self.is_behind,
            "{} {} is in step",
            self.account,
            self.name
        );
        for (seq, message) in inbox {
            let own = message.from == self.account && *message.device == *self.name;
            assert!(
                own || self.has.contains_key(seq),
                "{} {} lacks {seq}",
                self.account,
                self.name
            );
        }
    }
}
