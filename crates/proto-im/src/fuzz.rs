//! Frames that were bent at random, against codec and machines: nothing may panic, nothing may be
//! taken that did not come, and what is written stays in proportion to what was read.

use crate::client::{Client, Profile};
use crate::codec::client_frame::{ClientFrame, LoginFields};
use crate::codec::frame::{PREFACE, split};
use crate::codec::server_frame::ServerFrame;
use crate::server::tests::harness::{Side, client, now, opened, yes};
use base::hash::HashKey;
use base::prng::Prng;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    CONTACT_GROUPS_MAX, CONTACTS_PAGE_MAX, ChatDelivery, ChatFault, ChatMessage, ChatRequest,
    ChatroomAsk, ChatroomJoined, ChatroomRequest, ClientMessageId, Contact, ContactChange,
    ContactOrder, ContactsPage, Content, Conversation, ConversationsPage, FastOutcome,
    GROUP_NAMED_MAX, GroupChanged, GroupMember, GroupRole, HistoryPage, InboxChange, InboxEvent,
    InboxPage, LoginRefused, MemberStatus, MembersPage, PeopleAsk, PeopleRequest, Presence,
    RoomRules, SessionEnd, SubscriptionVerb,
};
use model::chat::{PrivacyState, READERS_PAGE_MAX};
use model::close::CloseReason;
use model::link::{Link, Protocol};
use model::media::UploadSlot;
use model::session::Denial;
use model::timeline::{Space, TimelineId};
use std::sync::Arc;
use testkit::pair::PairSide;
use testkit::vector::{self, bent};

const FILES: [&str; 2] =
    [include_str!("../vectors/1-malformed.txt"), include_str!("../vectors/2-frames.txt")];
const ROUNDS: u64 = 30_000;

fn corpus() -> Vec<Vec<u8>> {
    let vectors = FILES.iter().flat_map(|file| vector::read(file));
    vectors.map(|vector| vector.bytes("bytes")).collect()
}

#[test]
fn the_codec_takes_no_more_than_came_and_reads_what_it_writes() {
    let (corpus, mut rng) = (corpus(), Prng::new(0x494d));
    let (mut clients, mut servers) = (0, 0);
    for _ in 0..ROUNDS {
        let bytes = bent(&mut rng, &corpus);
        let bytes_max = rng.below(5_000) as usize;
        let Ok(Some((frame, length))) = split(&bytes, bytes_max) else { continue };
        assert!(length <= bytes.len() && length <= bytes_max && frame.len() < length);
        let mut written = Vec::new();
        if let Ok(read) = ClientFrame::read(frame) {
            read.write(&mut written);
            let (again, _) = split(&written, 1 << 20).expect("a frame").expect("a whole one");
            assert_eq!(ClientFrame::read(again), Ok(read));
            clients += 1;
        }
        written.clear();
        if let Ok(Some(read)) = ServerFrame::read(frame) {
            read.write(&mut written);
            let (again, _) = split(&written, 1 << 20).expect("a frame").expect("a whole one");
            assert_eq!(ServerFrame::read(again), Ok(Some(read)));
            servers += 1;
        }
    }
    assert!(clients > 1_000 && servers > 1_000, "{clients} {servers}: most were no frames");
}

fn message() -> Arc<ChatMessage> {
    let ann = AccountAddress::parse("ann", "a.example").expect("right");
    Arc::new(ChatMessage {
        id: 1,
        seq: 1,
        at_ms: 1,
        from: ann.clone(),
        device: "phone".into(),
        to: ann,
        client_id: ClientMessageId([7; 16]),
        content: Content::text("x"),
        amended: None,
    })
}

fn changed(number: u32) -> GroupChanged {
    let group = AccountAddress::of_group(7, "a.example").expect("right");
    GroupChanged { number, group, id: 1, seq: 1, at_ms: 1, again: false }
}

fn members(number: u32) -> MembersPage {
    let address = AccountAddress::parse("ann", "a.example").expect("right");
    let member = GroupMember { address, id: AccountId(1) };
    let (role, muted) = (GroupRole::Owner, false);
    let members = vec![MemberStatus { member, role, muted, reason: None }];
    let GroupChanged { group, .. } = changed(number);
    let (title, description, closed, unlocked) = ("x".into(), "y".into(), false, true);
    let (public, temporary, version, total, from) = (false, true, 1, 1, 0);
    MembersPage {
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
    }
}

fn whim_of_upload(rng: &mut Prng, number: u32) -> ChatDelivery {
    let slot = Box::new(UploadSlot {
        put_url: "https://a.example/put".into(),
        headers: vec![("Content-Type".into(), "image/png".into())],
        get_url: "https://a.example/get".into(),
        put_until_s: 1,
        get_until_s: 2,
    });
    match rng.below(2) {
        0 => ChatDelivery::Failed { number, why: ChatFault::Busy },
        _ => ChatDelivery::Upload { number, slot },
    }
}

fn event() -> Arc<InboxEvent> {
    let with = AccountAddress::parse("ann", "a.example").expect("right");
    Arc::new(InboxEvent { with, what: InboxChange::Read(1) })
}

fn conversations(number: u32) -> ConversationsPage {
    let one = Conversation {
        with: event().with.clone(),
        place: 1,
        last_seq: 1,
        said_seq: 1,
        left: false,
        last: None,
        read: 1,
        peer_read: 1,
        mentions: 1,
        unread: 1,
        pinned: true,
        muted: true,
        hidden: true,
        draft: "x".into(),
    };
    ConversationsPage { number, upto: 1, conversations: vec![one], more: true }
}

/// A possible answer of a service to a request about people.
fn whim_of_people(rng: &mut Prng, asked: &PeopleRequest) -> ChatDelivery {
    let number = asked.number;
    let contact = Arc::new(Contact::nobody(event().with.clone()));
    match &asked.ask {
        PeopleAsk::Contacts { .. } | PeopleAsk::Report(_) => {
            unreachable!("IM has no frame for it")
        }
        PeopleAsk::Page(range) => {
            assert!(range.count <= CONTACTS_PAGE_MAX, "a longer wish is cut");
            let contacts = vec![contact];
            let page =
                ContactsPage { number, is_anew: true, since: 1, contacts, upto: 1, more: true };
            ChatDelivery::ContactsPage(Box::new(page))
        }
        PeopleAsk::Wish(wish) => {
            if let ContactOrder::Set { groups, .. } = &wish.order {
                let are_names = groups.iter().all(|group| !group.is_empty());
                assert!(groups.len() <= CONTACT_GROUPS_MAX + 1 && are_names);
            }
            match rng.below(3) {
                0 => ChatDelivery::Failed { number, why: ChatFault::Busy },
                _ => ChatDelivery::Done { number },
            }
        }
        PeopleAsk::Present(_) => ChatDelivery::Done { number },
    }
}

/// A possible delivery of a service about people, without a request.
fn whim_of_others(rng: &mut Prng) -> ChatDelivery {
    let from = event().with.clone();
    match rng.below(2) {
        0 => {
            let (contact, said) =
                (Arc::new(Contact::nobody(from)), Some(SubscriptionVerb::Subscribe));
            ChatDelivery::Contact(Box::new(ContactChange {
                contact,
                said,
                is_news: false,
                is_block_news: false,
            }))
        }
        _ => {
            let (device, availability) = (Some("phone".into()), Some(Arc::default()));
            ChatDelivery::Presence(Box::new(Presence { from, device, availability }))
        }
    }
}

/// A possible answer of a service to a search or a transient.
fn whim_of_words(request: &ChatRequest) -> Option<ChatDelivery> {
    Some(match request {
        ChatRequest::Search { number, .. } => {
            let found = vec![(2, message())];
            let page = model::chat::SearchPage { number: *number, found, before: 2, more: true };
            ChatDelivery::Found(Box::new(page))
        }
        ChatRequest::Transient { transient, .. } => {
            let (to, from) = (transient.to.within("a.example"), message().from.clone());
            let model::chat::NewTransient { state, content, .. } = (**transient).clone();
            let told = model::chat::Transient { from, device: "desk".into(), to, state, content };
            ChatDelivery::Transient(Arc::new(told))
        }
        _ => return None,
    })
}

/// A possible answer of a service to a request.
fn whim(rng: &mut Prng, request: &ChatRequest) -> Option<ChatDelivery> {
    let failed = |number| ChatDelivery::Failed { number, why: ChatFault::Busy };
    Some(match request {
        ChatRequest::Login(_) | ChatRequest::Proceed(_) => whim_of_login(rng),
        ChatRequest::Send { number, .. } => match rng.below(2) {
            0 => failed(*number),
            _ => ChatDelivery::Sent { number: *number, id: 1, seq: 1, at_ms: 1, again: false },
        },
        ChatRequest::Pull { number, .. } => {
            let messages = vec![(1, message())];
            let events = vec![(2, event())];
            let page = InboxPage { number: *number, messages, events, upto: 2, head: 2 };
            ChatDelivery::Page(Box::new(page))
        }
        ChatRequest::History { number, .. } => {
            let page = HistoryPage { number: *number, messages: vec![message()], more: false };
            ChatDelivery::History(Box::new(page))
        }
        ChatRequest::Acknowledge { .. } => return whim_unasked(rng),
        ChatRequest::Group { number, order, .. } => {
            assert!(order.members.len() <= GROUP_NAMED_MAX + 1, "the rest is read over");
            match rng.below(2) {
                0 => failed(*number),
                _ => ChatDelivery::Changed(Box::new(changed(*number))),
            }
        }
        ChatRequest::Upload { number, .. } => whim_of_upload(rng, *number),
        ChatRequest::Members { number, .. } => ChatDelivery::Members(Box::new(members(*number))),
        ChatRequest::Read { number, upto, .. } => {
            assert!(*upto > 0, "a cursor of nothing is refused");
            ChatDelivery::Read { number: *number, upto: *upto }
        }
        ChatRequest::Set { number, .. } => match rng.below(2) {
            0 => failed(*number),
            _ => ChatDelivery::Set { number: *number },
        },
        ChatRequest::Conversations { number, .. } | ChatRequest::Conversation { number, .. } => {
            ChatDelivery::Conversations(Box::new(conversations(*number)))
        }
        ChatRequest::Recall { number, order, .. } => {
            assert!(order.seq > 0, "a place of nothing is refused");
            ChatDelivery::Sent { number: *number, id: 1, seq: 1, at_ms: 1, again: false }
        }
        ChatRequest::People(asked) => whim_of_people(rng, asked),
        ChatRequest::Push { number, .. } => ChatDelivery::PushCode { number: *number },
        ChatRequest::Token(wish) => {
            let given = wish.secret.map(|secret| FastOutcome::Given { secret, until_s: 7 });
            let outcome = given.filter(|_| rng.below(2) == 0).unwrap_or(FastOutcome::Denied);
            ChatDelivery::Token(Box::new(wish.answer(outcome)))
        }
        ChatRequest::Readers { number, range, .. } => {
            assert!(range.count <= READERS_PAGE_MAX, "a longer wish is cut");
            failed(*number)
        }
        ChatRequest::Privacy { number, wish, .. } => {
            let (shares_reads, adding) =
                (wish.shares_reads.unwrap_or(true), wish.adding.unwrap_or_default());
            ChatDelivery::Privacy { number: *number, state: PrivacyState { shares_reads, adding } }
        }
        ChatRequest::Search { .. } | ChatRequest::Transient { .. } => whim_of_words(request)?,
        ChatRequest::Chatroom(asked) => whim_of_chatroom(rng, asked),
        ChatRequest::Gone | ChatRequest::Closed { .. } | ChatRequest::ChatroomMissed { .. } => {
            return None;
        }
        other => unreachable!("IM has no frame for it: {other:?}"),
    })
}

fn whim_of_login(rng: &mut Prng) -> ChatDelivery {
    match rng.below(8) {
        0 => {
            let why = Denial::BadCredentials;
            let refused = LoginRefused { why, retry_after_ms: 1, server: None, who: None };
            ChatDelivery::Refused(Box::new(refused))
        }
        1 => ChatDelivery::Challenge(Box::default()),
        _ => yes(),
    }
}

/// A possible delivery of a service without a request.
fn whim_unasked(rng: &mut Prng) -> Option<ChatDelivery> {
    Some(match rng.below(6) {
        4 => whim_of_others(rng),
        3 => ChatDelivery::Event { seq: 3, event: event() },
        0 => ChatDelivery::Notify { head: 2 },
        1 => ChatDelivery::Message { seq: 2, message: message() },
        2 => ChatDelivery::End(Box::new(SessionEnd {
            why: Denial::AdminKick,
            reason: CloseReason::AdminKick,
        })),
        _ => return None,
    })
}

fn whim_of_chatroom(rng: &mut Prng, asked: &ChatroomRequest) -> ChatDelivery {
    let ChatroomRequest { number, ask, .. } = asked;
    let room = AccountAddress::parse("lobby", "live.a.example").expect("right");
    let timeline = TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[b"lobby"]);
    match ask {
        ChatroomAsk::Join { .. } => ChatDelivery::ChatroomJoined(Box::new(ChatroomJoined {
            number: *number,
            room,
            timeline,
            role: GroupRole::Member,
            muted: rng.one_in(2),
            state: Arc::default(),
            history: Vec::new(),
        })),
        ChatroomAsk::Leave(_) => ChatDelivery::Done { number: *number },
        ChatroomAsk::Order(_) => {
            ChatDelivery::Failed { number: *number, why: ChatFault::Forbidden }
        }
    }
}

/// Feeds a server's machine in random pieces, with a service of whims. Returns how often somebody
/// was let in.
fn serve(bytes: &[u8], rng: &mut Prng) -> usize {
    let mut side: Side = opened();
    side.limits.chat.requests_a_session_max = 2;
    let (mut rest, mut sent, mut logins) = (bytes, 0, 0);
    while !rest.is_empty() && side.ended.is_none() {
        let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(40) as usize));
        rest = later;
        sent += side.hear(now(), piece).len();
        loop {
            let words = side.take_words_as::<ChatRequest>();
            let answers: Vec<_> = words.iter().filter_map(|word| whim(rng, word)).collect();
            logins += answers.iter().filter(|a| matches!(a, ChatDelivery::LoggedIn(_))).count();
            if answers.is_empty() {
                break;
            }
            sent += answers.into_iter().map(|down| side.tell(now(), down).len()).sum::<usize>();
        }
    }
    assert!(side.untaken().len() <= bytes.len());
    assert!(sent <= 64 * bytes.len() + 256, "{sent} bytes sent for {}", bytes.len());
    side.close(now(), CloseReason::PeerReset);
    let ends = side.take_words_as::<ChatRequest>();
    let is_end =
        |word: &&ChatRequest| matches!(word, ChatRequest::Gone | ChatRequest::Closed { .. });
    assert!(ends.iter().filter(is_end).count() <= 1);
    logins
}

#[test]
fn the_server_answers_waits_or_ends() {
    let (corpus, mut rng, mut logins) = (corpus(), Prng::new(7), 0);
    let login = LoginFields { name: "ann", device: "phone", ..LoginFields::default() };
    let begin = [&PREFACE[..], &client(&ClientFrame::Login(login))].concat();
    for _ in 0..ROUNDS {
        let mut bytes = if rng.one_in(4) { Vec::new() } else { begin.clone() };
        bytes.extend(bent(&mut rng, &corpus));
        logins += serve(&bytes, &mut rng);
    }
    assert!(logins > ROUNDS as usize / 4, "{logins}: most rounds never came past the Login");
}

#[test]
fn the_client_listens_or_ends() {
    let vectors = vector::read(FILES[1]);
    let of_servers = vectors.iter().filter(|vector| vector.need("side") == "server");
    let corpus: Vec<_> = of_servers.map(|vector| vector.bytes("bytes")).collect();
    let mut rng = Prng::new(8);
    let welcome = {
        let mut side = crate::server::tests::harness::asked();
        side.tell(now(), yes())
    };
    let mut events = 0;
    for _ in 0..ROUNDS {
        let profile = Arc::new(Profile::new("ann", "phone"));
        let mut side = PairSide::new(Client::new(profile), Link::loopback(Protocol::Im));
        let mut sent = side.open(now()).len();
        let mut bytes = if rng.one_in(4) { Vec::new() } else { welcome.clone() };
        bytes.extend(bent(&mut rng, &corpus));
        for piece in bytes.chunks(1 + rng.below(40) as usize) {
            sent += side.hear(now(), piece).len();
        }
        assert!(sent <= 64, "it says nothing by itself: {sent}");
        assert!(side.words.len() <= bytes.len());
        events += side.words.len();
    }
    assert!(events > ROUNDS as usize, "{events}");
}
