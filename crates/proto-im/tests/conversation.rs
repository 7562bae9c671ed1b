//! A client and a server talk, over a link that splits and merges as the seed says; behind the
//! server is a service of one inbox, in which stands whatever the device says.

use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::{
    ChatDelivery as Down, ChatFault, ChatMessage, ChatRequest as Up, ClientMessageId, Content,
    Conversation as Known, ConversationChange, ConversationsPage, Excerpt, GroupChanged,
    GroupMember, GroupOrder, GroupRole, GroupVerb, HistoryPage, InboxChange, InboxEvent, InboxPage,
    LoggedIn, LoginRefused, MemberStatus, MembersPage, MembersRange, MuteLevel, NewMessage,
    RecallOrder, RoomRules,
};
use model::close::CloseReason;
use model::id::SessionRef;
use model::link::{Link, Protocol};
use model::media::{UploadSlot, UploadWish};
use model::session::Denial;
use model::timeline::Seq;
use proto_im::client::{Client, ImEvent, ImOrder, Profile};
use proto_im::codec::EndReason;
use proto_im::server::{ImListener, Server};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Pair, PairSide};

const SEEDS: u64 = 20;

type Conversation = Pair<Client, Server>;

/// A service that everybody talks to himself with.
#[derive(Default)]
struct Diary {
    said: Vec<Arc<ChatMessage>>,
    acknowledged: Seq,
    ends: Vec<Up>,
    orders: Vec<GroupOrder>,
    members: Vec<AccountAddress>,
    /// Events other than messages, behind the places of the messages.
    events: Vec<Arc<InboxEvent>>,
    recalled: Vec<(Addressee, Seq)>,
}

fn group() -> AccountAddress {
    AccountAddress::of_group(7, "a.example").expect("right")
}

fn ann() -> AccountAddress {
    AccountAddress::parse("ann", "a.example").expect("right")
}

/// A transient's copy, as if Bob had sent it.
fn told_back(it: model::chat::NewTransient) -> Down {
    let from = AccountAddress::parse("bob", "a.example").expect("right");
    let model::chat::NewTransient { state, content, .. } = it;
    Down::Transient(Arc::new(model::chat::Transient {
        from,
        device: "desk".into(),
        to: ann(),
        state,
        content,
    }))
}

impl Diary {
    fn hear(&mut self, word: Up) -> Vec<Down> {
        match word {
            Up::Login(login) if login.password.as_deref() == Some(b"wrong") => {
                let why = Denial::BadCredentials;
                vec![Down::Refused(Box::new(LoginRefused {
                    why,
                    retry_after_ms: 0,
                    server: None,
                    who: None,
                }))]
            }
            Up::Login(login) if login.method.is_some() => {
                vec![Down::Challenge(b"what?".as_slice().into())]
            }
            Up::Login(_) | Up::Proceed(_) => vec![Down::LoggedIn(Box::new(LoggedIn {
                session: SessionRef::from_bits(5),
                account: AccountId(1),
                address: ann(),
                head: self.said.len() as u64,
                cursor: self.acknowledged,
                server_ms: 1,
                data: None,
            }))],
            Up::Send { number, message, .. } => self.say(number, *message),
            Up::Pull { number, after, count, .. } => {
                let head = self.said.len() as u64;
                let behind = self.said.iter().skip(after as usize).take(usize::from(count));
                let messages: Vec<_> = behind.map(|m| (m.seq, m.clone())).collect();
                let mut upto = messages.last().map_or(after, |(seq, _)| *seq);
                let mut events = Vec::new();
                if upto >= head {
                    events = (head + 1..).zip(self.events.iter().cloned()).collect();
                    upto = head + events.len() as u64;
                }
                let head = head + self.events.len() as u64;
                vec![Down::Page(Box::new(InboxPage { number, messages, events, upto, head }))]
            }
            Up::History { number, range, .. } => {
                let all = self.said.iter().filter(|m| range.backwards || m.seq > range.from);
                let mut messages: Vec<_> = all.cloned().collect();
                if range.backwards {
                    messages.reverse();
                }
                let more = messages.len() > usize::from(range.count);
                messages.truncate(usize::from(range.count));
                vec![Down::History(Box::new(HistoryPage { number, messages, more }))]
            }
            Up::Group { number, order, .. } => self.change(number, *order),
            Up::Members { number, range, .. } => vec![self.list(number, &range)],
            Up::Read { .. }
            | Up::Set { .. }
            | Up::Conversations { .. }
            | Up::Conversation { .. }
            | Up::Recall { .. } => self.know(word),
            Up::Transient { transient, .. } => vec![told_back(*transient)],
            Up::Upload { number, wish, .. } => vec![leave(number, &wish)],
            Up::Acknowledge { upto, .. } => {
                self.acknowledged = upto;
                vec![]
            }
            Up::Gone | Up::Closed { .. } => {
                self.ends.push(word);
                vec![]
            }
            other => panic!("nobody asks it here: {other:?}"),
        }
    }

    /// Answers a request about conversations.
    fn know(&mut self, word: Up) -> Vec<Down> {
        match word {
            Up::Read { number, with, upto, .. } => {
                let event = self.happens(&with, InboxChange::Read(upto));
                vec![event, Down::Read { number, upto }]
            }
            Up::Set { number, with, change, .. } => {
                let event = self.happens(&with, InboxChange::Set(*change));
                vec![event, Down::Set { number }]
            }
            Up::Conversations { number, before, count, .. } => {
                let conversations = (1..before.min(9)).rev().take(count.into()).map(known);
                let conversations = conversations.collect();
                let page = ConversationsPage { number, upto: 5, conversations, more: before > 3 };
                vec![Down::Conversations(Box::new(page))]
            }
            Up::Conversation { number, with, .. } => {
                let one = Known { with: with.within("a.example"), last: None, ..known(0) };
                let (upto, conversations, more) = (5, vec![one], false);
                let page = ConversationsPage { number, upto, conversations, more };
                vec![Down::Conversations(Box::new(page))]
            }
            Up::Recall { number, order, .. } => {
                let RecallOrder { with, seq, .. } = *order;
                self.recalled.push((with, seq));
                vec![Down::Sent { number, id: 60, seq, at_ms: 7, again: false }]
            }
            _ => unreachable!("it is not of conversations"),
        }
    }

    fn happens(&mut self, with: &Addressee, what: InboxChange) -> Down {
        let event = Arc::new(InboxEvent { with: with.within("a.example"), what });
        self.events.push(event.clone());
        Down::Event { seq: (self.said.len() + self.events.len()) as u64, event }
    }

    /// Changes the only group, whose members are those named in an order.
    fn change(&mut self, number: u32, order: GroupOrder) -> Vec<Down> {
        if order.verb == GroupVerb::Mute {
            return vec![Down::Failed { number, why: ChatFault::Forbidden }];
        }
        self.members.extend(order.members.iter().map(|one| one.within("a.example")));
        self.orders.push(order);
        let (id, seq) = (50, self.orders.len() as u64);
        let changed = GroupChanged { number, group: group(), id, seq, at_ms: 7, again: false };
        vec![Down::Changed(Box::new(changed))]
    }

    fn list(&self, number: u32, range: &MembersRange) -> Down {
        let MembersRange { version, from, count, .. } = *range;
        let these = self.members.iter().skip(from as usize).take(usize::from(count));
        let of = |address: &AccountAddress| {
            let member = GroupMember { address: address.clone(), id: AccountId(9) };
            let (role, muted) = (GroupRole::Admin, true);
            MemberStatus { member, role, muted, reason: None }
        };
        let members = these.map(of).collect();
        let (title, total) = ("us".into(), self.members.len() as u32);
        let group = group();
        let (description, closed, unlocked) = ("lunch".into(), true, true);
        let (public, temporary) = (false, true);
        let page = MembersPage {
            number,
            group,
            version,
            title,
            description,
            closed,
            unlocked,
            public,
            temporary,
            protected: false,
            rules: RoomRules::default(),
            occupants: 0,
            own: None,
            total,
            from,
            members,
        };
        Down::Members(Box::new(page))
    }

    fn say(&mut self, number: u32, new: NewMessage) -> Vec<Down> {
        let to = new.to.within("a.example");
        let before = self.said.iter().find(|said| said.client_id == new.client_id);
        if let Some(before) = before {
            let (id, seq, at_ms) = (before.id, before.seq, before.at_ms);
            return match before.content == new.content && before.to == to {
                true => vec![Down::Sent { number, id, seq, at_ms, again: true }],
                false => vec![Down::Failed { number, why: ChatFault::Conflict }],
            };
        }
        let seq = self.said.len() as u64 + 1;
        let message = Arc::new(ChatMessage {
            id: 1_000 + seq,
            seq,
            at_ms: 7,
            from: ann(),
            device: "phone".into(),
            to,
            client_id: new.client_id,
            content: new.content,
            amended: None,
        });
        self.said.push(message.clone());
        let (id, at_ms) = (message.id, message.at_ms);
        vec![Down::Sent { number, id, seq, at_ms, again: false }, Down::Message { seq, message }]
    }
}

fn conversation(profile: Profile, seed: u64) -> Conversation {
    let listener = Arc::new(ImListener { bind_ms_max: 10_000, domain: "a.example".into() });
    let link = || Link::loopback(Protocol::Im);
    let a = PairSide::new(Client::new(Arc::new(profile)), link());
    let b = PairSide::new(Server::new(listener), link());
    let mut pair = Pair::new(a, b, seed);
    pair.open();
    pair
}

/// Goes on until nobody has anything to say.
fn settle(pair: &mut Conversation, diary: &mut Diary) {
    loop {
        pair.settle();
        let words = pair.b.take_words_as::<Up>();
        if words.is_empty() {
            return;
        }
        for answer in words.into_iter().flat_map(|word| diary.hear(word)) {
            pair.tell_b(answer);
        }
    }
}

fn logged_in(diary: &mut Diary, seed: u64) -> Conversation {
    let mut pair = conversation(Profile::new("ann", "phone"), seed);
    settle(&mut pair, diary);
    match pair.a.take_words().as_slice() {
        [ImEvent::LoggedIn(welcome)] => assert_eq!(welcome.account, ann()),
        other => panic!("{other:?}"),
    }
    pair
}

fn send(number: u32, id: u8, text: &str) -> ImOrder {
    let (to, content) = (Addressee::parse("bob").expect("right"), Content::text(text));
    ImOrder::Send { number, to, client_id: ClientMessageId([id; 16]), content }
}

#[test]
fn what_is_said_is_stored_once_and_comes_back() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let mut pair = logged_in(&mut diary, seed);
        pair.tell_a(send(1, 1, "hello"));
        pair.tell_a(send(2, 1, "hello"));
        pair.tell_a(send(3, 1, "other"));
        settle(&mut pair, &mut diary);
        let sent = |number, again| ImEvent::Sent { number, id: 1_001, seq: 1, at_ms: 7, again };
        let failed =
            ImEvent::Failed { number: 3, why: Some(ChatFault::Conflict), word: "conflict".into() };
        let message = diary.said[0].clone();
        assert_eq!((message.to.as_str(), &*message.content.text), ("bob@a.example", "hello"));
        let expected =
            [sent(1, false), ImEvent::Message { seq: 1, message }, sent(2, true), failed];
        assert_eq!(pair.a.take_words(), expected);
        pair.tell_a(ImOrder::Acknowledge(1));
        pair.tell_a(ImOrder::Goodbye);
        settle(&mut pair, &mut diary);
        assert_eq!(diary.acknowledged, 1);
        assert_eq!(pair.a.ended, Some(CloseReason::OwnStop));
        assert!(matches!(diary.ends[..], [Up::Closed { .. }]));
    }
}

#[test]
fn an_inbox_and_a_history_are_read_in_pages() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let mut pair = logged_in(&mut diary, seed);
        (0..50).for_each(|n| pair.tell_a(send(n, n as u8, &"text ".repeat(n as usize))));
        settle(&mut pair, &mut diary);
        assert_eq!(pair.a.take_words().len(), 100, "each is sent, and told");
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            pair.tell_a(ImOrder::Pull { number: 7, after, count: 16 });
            settle(&mut pair, &mut diary);
            let [ImEvent::Page { messages, upto, head, .. }] = &pair.a.take_words()[..] else {
                panic!("no page")
            };
            seen.extend(messages.iter().map(|(_, message)| message.clone()));
            after = *upto;
            if upto == head {
                break;
            }
        }
        assert_eq!(seen, diary.said);
        let with = Addressee::parse("bob").expect("right");
        pair.tell_a(ImOrder::History { number: 8, with, from: 0, backwards: true, count: 3 });
        settle(&mut pair, &mut diary);
        let [ImEvent::History { messages, more: true, .. }] = &pair.a.take_words()[..] else {
            panic!("no history")
        };
        assert_eq!(messages.iter().map(|m| m.seq).collect::<Vec<_>>(), [50, 49, 48]);
    }
}

#[test]
fn every_order_to_a_group_arrives_as_it_was_given_and_its_members_are_told_in_pages() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let mut pair = logged_in(&mut diary, seed);
        let mut given = Vec::new();
        for (number, &verb) in (1..).zip(GroupVerb::ALL) {
            let is_new = verb == GroupVerb::Create;
            let order = GroupOrder {
                group: (!is_new).then(|| group().into()),
                client_id: ClientMessageId([number as u8; 16]),
                verb,
                title: format!("title {number}").into(),
                members: vec![Addressee::parse(&format!("p{number}@b.example")).expect("right")],
            };
            pair.tell_a(ImOrder::Group { number, order: Box::new(order.clone()) });
            settle(&mut pair, &mut diary);
            if verb == GroupVerb::Mute {
                let (why, word) = (Some(ChatFault::Forbidden), "forbidden".into());
                assert_eq!(pair.a.take_words(), [ImEvent::Failed { number, why, word }]);
                continue;
            }
            // Rules of rooms have no order.
            if verb == GroupVerb::Set {
                let (why, word) = (Some(ChatFault::Invalid), "invalid".into());
                assert_eq!(pair.a.take_words(), [ImEvent::Failed { number, why, word }]);
                continue;
            }
            given.push(order);
            let (id, seq) = (50, given.len() as u64);
            let changed = GroupChanged { number, group: group(), id, seq, at_ms: 7, again: false };
            assert_eq!(pair.a.take_words(), [ImEvent::Changed(Box::new(changed))]);
        }
        assert_eq!(diary.orders, given);
        let mut seen = Vec::new();
        while seen.len() < given.len() {
            let (group, from) = (group().into(), seen.len() as u32);
            let range =
                Box::new(MembersRange { group, version: 50, from, count: 5, banned: false });
            pair.tell_a(ImOrder::Members { number: 99, range });
            settle(&mut pair, &mut diary);
            let [ImEvent::Members(page)] = &pair.a.take_words()[..] else { panic!("no page") };
            assert_eq!((page.number, page.version, page.from, page.closed), (99, 50, from, true));
            assert_eq!((page.total as usize, &*page.title), (given.len(), "us"));
            seen.extend(page.members.iter().map(|it| it.member.address.clone()));
        }
        assert_eq!(seen, diary.members);
    }
}

/// A conversation in which each field says something else.
fn known(place: Seq) -> Known {
    let (from, text) = (ann(), "how are".into());
    Known {
        with: group(),
        place,
        last_seq: 4,
        said_seq: 0,
        left: false,
        last: Some(Excerpt {
            id: 1,
            at_ms: 2,
            from,
            kind: 5,
            text,
            whole: place.is_multiple_of(2),
        }),
        read: 3,
        peer_read: 2,
        mentions: 0,
        unread: 1_024,
        pinned: place.is_multiple_of(3),
        muted: place % 3 == 1,
        hidden: place % 3 == 2,
        draft: "d".into(),
    }
}

#[test]
fn cursors_settings_lists_and_recalls_arrive_and_events_are_told_live_and_in_pages() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let mut pair = logged_in(&mut diary, seed);
        let with = Addressee::parse("bob").expect("right");
        pair.tell_a(ImOrder::MarkRead { number: 1, with: with.clone(), upto: 300 });
        let changes = [
            ConversationChange::Pin(true),
            ConversationChange::Mute(MuteLevel::Off),
            ConversationChange::Hide(true),
            ConversationChange::Draft("Dear B".into()),
        ];
        for (number, change) in (2..).zip(changes) {
            pair.tell_a(ImOrder::Set { number, with: with.clone(), change });
        }
        settle(&mut pair, &mut diary);
        let mut expected = Vec::new();
        for (at, event) in (1u32..).zip(&diary.events) {
            expected.push(ImEvent::Event { seq: at.into(), event: Some(event.clone()) });
            expected.push(match event.what {
                InboxChange::Read(upto) => ImEvent::MarkedRead { number: at, upto },
                _ => ImEvent::Set { number: at },
            });
        }
        assert_eq!((pair.a.take_words(), diary.events.len()), (expected, 5));
        pair.tell_a(ImOrder::Pull { number: 6, after: 0, count: 9 });
        settle(&mut pair, &mut diary);
        let events = (1..).zip(diary.events.iter().cloned()).collect();
        let page = ImEvent::Page { number: 6, messages: vec![], events, upto: 5, head: 5 };
        assert_eq!(pair.a.take_words(), [page]);
        pair.tell_a(ImOrder::Recall { number: 7, with: with.clone(), seq: 17 });
        for (number, with, before, count) in
            [(8, None, 0, 2), (9, None, 3, 9), (10, Some(with.clone()), 0, 0)]
        {
            let groups = number == 9;
            pair.tell_a(ImOrder::Conversations { number, with, before, count, groups });
        }
        settle(&mut pair, &mut diary);
        assert_eq!(diary.recalled, [(with.clone(), 17)]);
        let list = |number, conversations, more| {
            let page = ConversationsPage { number, upto: 5, conversations, more };
            ImEvent::Conversations(Box::new(page))
        };
        let alone = Known { with: with.within("a.example"), last: None, ..known(0) };
        let expected = [
            ImEvent::Sent { number: 7, id: 60, seq: 17, at_ms: 7, again: false },
            list(8, vec![known(8), known(7)], true),
            list(9, vec![known(2), known(1)], false),
            list(10, vec![alone], false),
        ];
        assert_eq!(pair.a.take_words(), expected);
    }
}

fn leave(number: u32, wish: &UploadWish) -> Down {
    match wish.bytes > 100 {
        true => Down::Failed { number, why: ChatFault::UploadQuota },
        false => Down::Upload { number, slot: Box::new(slot(wish)) },
    }
}

fn slot(wish: &UploadWish) -> UploadSlot {
    UploadSlot {
        put_url: format!("https://a.example/put/{}", wish.name).into(),
        headers: wish.headers(),
        get_url: "https://a.example/get".into(),
        put_until_s: 1_700_000_300,
        get_until_s: 1_800_000_000,
    }
}

#[test]
fn leave_to_upload_is_asked_for_and_told_or_refused() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let mut pair = logged_in(&mut diary, seed);
        let wish = |bytes| {
            let (name, media_type) = ("a cat.png".into(), "image/png".into());
            Box::new(UploadWish { name, media_type, bytes })
        };
        pair.tell_a(ImOrder::Upload { number: 3, wish: wish(100) });
        pair.tell_a(ImOrder::Upload { number: 4, wish: wish(101) });
        settle(&mut pair, &mut diary);
        let (why, word) = (Some(ChatFault::UploadQuota), "upload_quota".into());
        let expected = [
            ImEvent::Upload { number: 3, slot: Box::new(slot(&wish(100))) },
            ImEvent::Failed { number: 4, why, word },
        ];
        assert_eq!(pair.a.take_words(), expected);
    }
}

#[test]
fn a_refusal_and_an_exchange_are_told() {
    for seed in 0..SEEDS {
        let mut diary = Diary::default();
        let wrong =
            Profile { password: b"wrong".as_slice().into(), ..Profile::new("ann", "phone") };
        let mut pair = conversation(wrong, seed);
        settle(&mut pair, &mut diary);
        let [ImEvent::Refused(said)] = &pair.a.take_words()[..] else { panic!("no refusal") };
        assert_eq!((said.reason, &*said.word), (EndReason::BadCredentials, "bad_credentials"));
        assert_eq!(pair.b.ended, Some(CloseReason::AuthFailed));
        let method = Some(("PROOF".into(), b"first".as_slice().into()));
        let mut pair = conversation(Profile { method, ..Profile::new("ann", "phone") }, seed);
        settle(&mut pair, &mut diary);
        let challenge = ImEvent::Challenge(b"what?".as_slice().into());
        assert_eq!(pair.a.take_words(), [challenge]);
        pair.tell_a(ImOrder::Proceed(b"this".as_slice().into()));
        settle(&mut pair, &mut diary);
        assert!(matches!(pair.a.take_words()[..], [ImEvent::LoggedIn(_)]));
    }
}

#[test]
fn an_idle_pair_stays_and_one_that_hears_nothing_ends() {
    let mut diary = Diary::default();
    let profile = Profile { silence_s: 10, ..Profile::new("ann", "phone") };
    let mut pair = conversation(profile, 1);
    settle(&mut pair, &mut diary);
    pair.a.take_words();
    for _ in 0..20 {
        pair.pass(Duration::from_secs(5));
        settle(&mut pair, &mut diary);
    }
    assert_eq!((pair.a.ended, pair.b.ended), (None, None));
    let pongs = pair.a.take_words();
    assert!(pongs.len() >= 9 && pongs.iter().all(|event| *event == ImEvent::Pong), "{pongs:?}");
    // A client that does not ask any more is not heard.
    let mut silent = conversation(Profile { silence_s: 10, ..Profile::new("ann", "tv") }, 2);
    settle(&mut silent, &mut diary);
    let later = base::time::Now::new(silent.now.after(Duration::from_secs(16)), 0);
    let mut out = model::machine::Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let ended = model::machine::Machine::silent(&mut silent.b.machine, later, &mut out);
    assert_eq!(ended, Err(CloseReason::KeepAliveTimeout));
}
