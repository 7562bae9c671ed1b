//! Streams that were bent at random, against the machine in every state: nothing may panic, nothing
//! may be taken that did not come, all that is written is XML, and it stays in proportion to what
//! was read.

mod guided;

use crate::archive::{ArchiveQuery, id_text, read_id};
use crate::server::tests::harness::{
    BIND, HEADER, Side, address, auth, conversation, in_state, message, now, page, words, yes,
};
use crate::xml::scan::Scan;
use base::prng::Prng;
use base::time::Now;
use model::account::{AccountAddress, AccountId};
use model::chat::{
    ARCHIVE_BOUNDS_MAX, ARCHIVE_NAMED_MAX, ArchiveId, ArchivePage, ChatDelivery, ChatFault,
    ChatRequest, Contact, ContactList, Content, ConversationsPage, Detaching, FastOutcome,
    GroupChange, GroupChanged, GroupMember, GroupRole, GroupVerb, HistoryPage, InboxChange,
    InboxEvent, LoginRefused, MemberStatus, MembersPage, NewTransient, NodeConfig, NodeFound,
    NodeItem, NodeItems, NodesAnswer, NodesAsk, NodesFault, NodesFound, NodesRequest,
    OccupancyRequest, Occupant, OccupantShow, PAGE_MESSAGES_MAX, PeopleAsk, PeopleRequest,
    PublicGroup, PublicPage, Resumed, RoomActor, RoomEntered, RoomEvent, RoomExit, RoomNews,
    RoomRules, SessionEnd, Show,
};
use model::close::CloseReason;
use model::ports::users::{BookDone, BookFault};
use model::session::Denial;
use std::sync::Arc;
use std::time::Duration;
use testkit::vector::{self, bent};

const FILES: [&str; 2] =
    [include_str!("../../vectors/1-faults.txt"), include_str!("../../vectors/2-stanzas.txt")];
const ROOM: &str = "x@conference.a.example";
const ROUNDS: u64 = 24_000;
const STATES: [&str; 10] = [
    "plain",
    "startable",
    "encrypted",
    "begun",
    "asked",
    "challenged",
    "granted",
    "bound",
    "available",
    "resumable",
];

fn corpus() -> Vec<Vec<u8>> {
    let vectors = FILES.iter().flat_map(|file| vector::read(file));
    let stanzas = vectors.map(|vector| vector.need("in").replace("HEADER", HEADER));
    let steps = [
        HEADER.to_owned(),
        BIND.to_owned(),
        auth("PLAIN", "\0ann\0secret"),
        auth("SCRAM-SHA-256", "n,,n=ann,r=x"),
        "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>Yz1iaXdz</response>".to_owned(),
        "<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>".to_owned(),
        "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>".to_owned(),
        "<iq type='get' id='1'><query xmlns='jabber:iq:roster' ver='7'/></iq>".to_owned(),
        "<iq type='set' id='2'><query xmlns='jabber:iq:roster'><item jid='bob@a.example' \
         name='B'><group>x</group></item></query></iq>"
            .to_owned(),
        "<iq type='set' id='3'><unblock xmlns='urn:xmpp:blocking'/></iq>".to_owned(),
        "<presence type='subscribe' to='bob@a.example'><status>hi</status></presence>".to_owned(),
    ];
    let more = ARCHIVE.iter().chain(&FAST).chain(&NODES).chain(&WORDS).chain(&ACCOUNTS);
    let more = more.map(|it| (*it).to_owned());
    let steps = steps.into_iter().chain(more);
    stanzas.chain(steps).map(String::into_bytes).collect()
}

/// Stanzas about messages, which are kept nowhere.
const WORDS: [&str; 5] = [
    "<message to='bob@a.example' type='chat'><body>b</body>\
     <replace xmlns='urn:xmpp:message-correct:0' id='a'/></message>",
    "<message to='bob@a.example' type='chat'><reactions xmlns='urn:xmpp:reactions:0' id='a'>\
     <reaction>x</reaction></reactions></message>",
    "<message to='bob@a.example'><retract xmlns='urn:xmpp:message-retract:1' id='a'/></message>",
    "<message to='bob@a.example'><displayed xmlns='urn:xmpp:chat-markers:0' id='a'/></message>",
    "<message to='bob@a.example'><composing xmlns='http://jabber.org/protocol/chatstates'/>\
     </message>",
];

/// Orders about accounts.
const ACCOUNTS: [&str; 5] = [
    "<iq type='set' id='14'><query xmlns='jabber:iq:register'><username>ann</username>\
     <password>x</password></query></iq>",
    "<iq type='set' id='15'><query xmlns='jabber:iq:register'><remove/></query></iq>",
    "<iq type='set' id='16' to='a.example'><command xmlns='http://jabber.org/protocol/commands' \
     node='http://jabber.org/protocol/admin#add-user' action='execute'/></iq>",
    "<iq type='set' id='17' to='a.example'><command xmlns='http://jabber.org/protocol/commands' \
     node='http://jabber.org/protocol/admin#add-user' sessionid='c1'><x xmlns='jabber:x:data' \
     type='submit'><field var='accountjid'><value>bob@a.example</value></field><field \
     var='password'><value>x</value></field></x></command></iq>",
    "<iq type='get' id='18' to='a.example'><query xmlns='http://jabber.org/protocol/disco#items' \
     node='http://jabber.org/protocol/commands'/></iq>",
];

/// Questions about the archive.
const ARCHIVE: [&str; 4] = [
    "<iq type='set' id='4'><query xmlns='urn:xmpp:mam:2' queryid='f'><x xmlns='jabber:x:data' \
     type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field><field var='start'>\
     <value>2023-11-14T22:13:20.5+01:00</value></field><field var='with'><value>bob@a.example/x\
     </value></field><field var='ids'><value>AAAAAAAAAAEAAAAAAAAAAQ</value></field></x>\
     <flip-page/></query></iq>",
    "<iq type='set' id='5'><query xmlns='urn:xmpp:mam:2'><set \
     xmlns='http://jabber.org/protocol/rsm'><max>9</max><before>AAAAAAAAAAEAAAAAAAAAAQ</before>\
     </set></query></iq>",
    "<iq type='get' id='6'><metadata xmlns='urn:xmpp:mam:2'/></iq>",
    "<iq type='get' id='7'><query xmlns='urn:xmpp:mam:2'/></iq>",
];

/// Logins that bring more, streams that go on, clients that nobody looks at.
const FAST: [&str; 9] = [
    "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGFubgBzZWNyZXQ=\
     </initial-response><user-agent id='x'/><request-token xmlns='urn:xmpp:fast:0' \
     mechanism='HT-SHA-256-NONE'/><bind xmlns='urn:xmpp:bind:0'><tag>x</tag>\
     <enable xmlns='urn:xmpp:sm:3' resume='true' max='9'/><inactive xmlns='urn:xmpp:csi:0'/></bind>\
     </authenticate>",
    "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'><initial-response>\
     YW5uADAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAx</initial-response><user-agent id='x'/>\
     <fast xmlns='urn:xmpp:fast:0' invalidate='1'/><resume xmlns='urn:xmpp:sm:3' h='1' \
     previd='000000000000000500000000000000000000000000000000'/></authenticate>",
    "<response xmlns='urn:xmpp:sasl:2'>Yz1iaXdz</response>",
    "<enable xmlns='urn:xmpp:sm:3' resume='1'/>",
    "<resume xmlns='urn:xmpp:sm:3' h='1' \
     previd='000000000000000500000000000000000000000000000000'/>",
    "<r xmlns='urn:xmpp:sm:3'/>",
    "<a xmlns='urn:xmpp:sm:3' h='1'/>",
    "<inactive xmlns='urn:xmpp:csi:0'/>",
    "<active xmlns='urn:xmpp:csi:0'/>",
];

/// Questions about nodes, and an answer to one of the server's.
const NODES: [&str; 8] = [
    "<iq type='set' id='8'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'>\
     <item id='i'><x xmlns='urn:x'/></item></publish><publish-options><x xmlns='jabber:x:data' \
     type='submit'><field var='pubsub#max_items'><value>max</value></field></x></publish-options>\
     </pubsub></iq>",
    "<iq type='get' id='9' to='bob@a.example'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
     <items node='n' max_items='2'/></pubsub></iq>",
    "<iq type='set' id='10'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><affiliations \
     node='n'><affiliation jid='bob@a.example' affiliation='member'/></affiliations></pubsub></iq>",
    "<iq type='get' id='11'><vCard xmlns='vcard-temp'/></iq>",
    "<iq type='set' id='12'><vCard xmlns='vcard-temp'><FN>&amp;</FN></vCard></iq>",
    "<iq type='set' id='13'><query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>\
     <conference jid='r@x.example' autojoin='1'><nick>n</nick></conference><url url='x'/></storage>\
     </query></iq>",
    "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='x' \
     ver='y'/></presence>",
    "<iq type='result' id='caps:x#y'><query xmlns='http://jabber.org/protocol/disco#info'><feature \
     var='n+notify'/><x xmlns='jabber:x:data'><field var='FORM_TYPE'><value>f</value></field></x>\
     </query></iq>",
];
/// A transient's copy, as if Bob had sent it.
fn told_back(transient: &NewTransient) -> ChatDelivery {
    let NewTransient { to, state, content } = transient.clone();
    let (from, to) = (address("bob"), to.within("a.example"));
    let told = model::chat::Transient { from, device: "x".into(), to, state, content };
    ChatDelivery::Transient(Arc::new(told))
}

fn whim_of_transient(rng: &mut Prng, number: u32, transient: &NewTransient) -> ChatDelivery {
    match rng.below(3) {
        0 => told_back(transient),
        1 => ChatDelivery::Done { number },
        _ => ChatDelivery::Failed { number, why: ChatFault::RateLimited },
    }
}

fn whim_of_handing(rng: &mut Prng, handing: &model::chat::HandingTo) -> ChatDelivery {
    match rng.below(3) {
        0 => ChatDelivery::Done { number: handing.number },
        1 => ChatDelivery::Failed { number: handing.number, why: ChatFault::UnknownAccount },
        // It was for the device itself.
        _ => ChatDelivery::Stanza(handing.xml.clone()),
    }
}

fn whim_of_login(rng: &mut Prng) -> ChatDelivery {
    match rng.below(8) {
        0 => {
            let why = [Denial::BadCredentials, Denial::Busy][rng.below(2) as usize];
            let refused = LoginRefused { why, retry_after_ms: 1, server: None, who: None };
            ChatDelivery::Refused(Box::new(refused))
        }
        1 => ChatDelivery::Challenge(Box::default()),
        _ => yes(),
    }
}

/// A possible answer of a service to a request.
fn whim(rng: &mut Prng, request: &ChatRequest) -> Option<ChatDelivery> {
    let failed = |number| ChatDelivery::Failed { number, why: ChatFault::Busy };
    Some(match request {
        ChatRequest::Login(_) | ChatRequest::Proceed(_) | ChatRequest::Redeem(_) => {
            whim_of_login(rng)
        }
        ChatRequest::Bind { .. } => ChatDelivery::Bound { device: "desk".into() },
        ChatRequest::Standing { number, .. } => {
            ChatDelivery::Standing { number: *number, cursor: rng.below(3), head: rng.below(9) }
        }
        ChatRequest::Read { number, upto, .. } => match rng.below(2) {
            0 => failed(*number),
            _ => ChatDelivery::Read { number: *number, upto: *upto },
        },
        ChatRequest::Recall { number, .. } | ChatRequest::Send { number, .. } => match rng.below(2)
        {
            0 => failed(*number),
            _ => ChatDelivery::Sent { number: *number, id: 1, seq: 1, at_ms: 1, again: false },
        },
        ChatRequest::HandTo(handing) => whim_of_handing(rng, handing),
        ChatRequest::People(asked) => match rng.below(3) {
            0 => failed(asked.number),
            is_whole => whim_of_people(rng, asked, is_whole == 1),
        },
        ChatRequest::Pull { number, after, .. } => match rng.below(4) {
            0 => failed(*number),
            _ => page(*after, &["<x>", "y"], after + 2),
        },
        ChatRequest::Acknowledge { upto, .. } => match rng.below(8) {
            0 => ChatDelivery::Notify { head: upto + rng.below(3) },
            1 | 2 => {
                let from = ["ann", "bob"][rng.below(2) as usize];
                let to = ["ann", ROOM][rng.below(2) as usize];
                let mut message = Arc::unwrap_or_clone(message(from, "phone", to, "&"));
                if to == ROOM {
                    (message.seq, message.content) = (rng.below(9), happens(rng));
                }
                ChatDelivery::Message { seq: upto + 1, message: Arc::new(message) }
            }
            3 => ChatDelivery::End(Box::new(SessionEnd {
                why: Denial::AdminKick,
                reason: CloseReason::AdminKick,
            })),
            4 => {
                let what = InboxChange::PeerRead(1);
                let event = Arc::new(InboxEvent { with: address("bob"), what });
                ChatDelivery::Event { seq: upto + 1, event }
            }
            _ => return None,
        },
        ChatRequest::Keep(_)
        | ChatRequest::Detach(_)
        | ChatRequest::Gone
        | ChatRequest::Closed { .. }
        | ChatRequest::Profile(_) => return None,
        ChatRequest::Nodes(asked) => whim_of_nodes(rng, asked),
        ChatRequest::Book(asked) => ChatDelivery::Book {
            number: asked.number,
            answer: Box::new(match rng.below(4) {
                0 => Err(BookFault::Forbidden),
                1 => Err(BookFault::Unknown("<bob>".into())),
                2 => Ok(BookDone::Online { count: 1, accounts: vec![address("bob")] }),
                _ => Ok(BookDone::Done),
            }),
        },
        ChatRequest::Room(asked) if asked.number == 0 => return None,
        ChatRequest::Room(asked) => whim_of_room(rng, asked),
        other => whim_of_what_was_said(rng, other),
    })
}

/// A possible answer to a request about a room, or news of it.
fn whim_of_room(rng: &mut Prng, asked: &OccupancyRequest) -> ChatDelivery {
    let (number, group) = (asked.number, asked.group.within("a.example"));
    let mut named = |nick: &str, account: &str| {
        Arc::new(Occupant {
            nick: nick.into(),
            account: address(account),
            device: "<x>".into(),
            role: GroupRole::ALL.get(rng.below(4) as usize).copied(),
            silent: true,
            moderates: rng.one_in(2),
            show: OccupantShow { show: Show::Away, status: "<s>".into(), extra: None },
        })
    };
    let (ann, bob) = (named("<ann>", "ann"), named("bob", "bob"));
    let actor =
        || Box::new(RoomActor { by: address("bob"), nick: "<b>".into(), reason: "<r>".into() });
    let event = match rng.below(8) {
        0 => RoomEvent::Is(ann.clone(), Some(actor())),
        1 => RoomEvent::Renamed("<ann>".into(), ann.clone()),
        2 => RoomEvent::Gone(ann.clone(), RoomExit::Banned(actor())),
        3 => RoomEvent::Gone(bob.clone(), RoomExit::Dissolved("<d>".into(), Some(address(ROOM)))),
        _ => RoomEvent::Is(bob.clone(), None),
    };
    match rng.below(7) {
        0 => ChatDelivery::Failed { number, why: ChatFault::Conflict },
        4 => ChatDelivery::Occupants { number, occupants: [ann, bob].into() },
        1 => ChatDelivery::Done { number },
        2 => ChatDelivery::Occupant { number, occupant: bob },
        3 => ChatDelivery::RoomNews(Arc::new(RoomNews { group, number: rng.below(4), event })),
        _ => {
            let (own, others, title) = (ann, vec![bob], "<t>".into());
            ChatDelivery::RoomEntered(Box::new(RoomEntered {
                number,
                group,
                last: 1,
                own,
                others,
                title,
                titled_by: Some("<b>".into()),
            }))
        }
    }
}

/// A possible answer to a request about people.
fn whim_of_people(rng: &mut Prng, asked: &PeopleRequest, is_whole: bool) -> ChatDelivery {
    let number = asked.number;
    if !matches!(asked.ask, PeopleAsk::Contacts { .. }) {
        return ChatDelivery::Done { number };
    }
    let mut contact = Contact::nobody(address("bob"));
    contact.is_listed = rng.below(2) == 0;
    (contact.is_blocked, contact.name) = (true, "<Bob>".into());
    let contacts = vec![std::sync::Arc::new(contact)];
    ChatDelivery::Contacts(Box::new(ContactList { number, is_whole, version: 7, contacts }))
}

/// A possible answer to a request about nodes.
fn whim_of_nodes(rng: &mut Prng, asked: &NodesRequest) -> ChatDelivery {
    let item = |payload: &str| NodeItem { id: "<i>".into(), payload: payload.as_bytes().into() };
    let part = || NodeItems { items: vec![item("<x xmlns='urn:x'/>").into()], index: 3, total: 9 };
    let fault = NodesFault::ALL[rng.below(NodesFault::ALL.len() as u64) as usize];
    let result = match (&asked.ask, rng.below(4)) {
        (_, 0) => Err(fault),
        (NodesAsk::Items(wanted), is_there) => {
            let of = |_| if is_there == 1 { Err(fault) } else { Ok(part()) };
            Ok(NodesFound::Items(wanted.iter().map(of).collect()))
        }
        (NodesAsk::Names | NodesAsk::KeptNames | NodesAsk::Subscriptions, _) => {
            Ok(NodesFound::Names(["<n>".into()].into()))
        }
        (NodesAsk::Node(_), _) => {
            let found = NodeFound { config: NodeConfig::default(), items: 1 };
            Ok(NodesFound::Node(Box::new(found)))
        }
        (NodesAsk::Accounts(_), _) => {
            let accounts = || [address("bob")].into();
            Ok(NodesFound::Accounts { subscribers: accounts(), members: accounts() })
        }
        _ => Ok(NodesFound::Done(["<i>".into()].into())),
    };
    ChatDelivery::Nodes(Box::new(NodesAnswer { number: asked.number, result }))
}

/// A possible answer to a request for an archive, a room, a token or an earlier session.
fn whim_of_what_was_said(rng: &mut Prng, request: &ChatRequest) -> ChatDelivery {
    let failed = |number, why| ChatDelivery::Failed { number, why };
    match request {
        ChatRequest::Transient { number, transient, .. } => {
            whim_of_transient(rng, *number, transient)
        }
        ChatRequest::Token(wish) => {
            let until_s = rng.below(2) as u32;
            let secret = wish.secret.filter(|_| until_s > 0);
            let given = secret.map(|secret| FastOutcome::Given { secret, until_s });
            ChatDelivery::Token(Box::new(wish.answer(given.unwrap_or(FastOutcome::Denied))))
        }
        ChatRequest::Resume { .. } => ChatDelivery::NotResumed { handled: None },
        ChatRequest::Archive { number, range, .. } => match rng.below(4) {
            0 => failed(*number, ChatFault::Busy),
            goes_on => {
                let messages = ["<x>", ""].map(|text| message("bob", "x", "ann", text)).to_vec();
                let goes_on = (goes_on == 1).then(|| ArchiveId::of(&messages[0]));
                assert!((1..=PAGE_MESSAGES_MAX).contains(&range.count));
                let page = ArchivePage { number: *number, messages, goes_on };
                ChatDelivery::Archive(Box::new(page))
            }
        },
        ChatRequest::Members { number, range, .. } => match rng.below(4) {
            0 => failed(*number, ChatFault::NotMember),
            _ => members(rng, *number, range.group.within("a.example")),
        },
        ChatRequest::History { number, range, .. } => match rng.below(4) {
            0 => failed(*number, ChatFault::Busy),
            _ => {
                let group = range.with.within("a.example");
                let messages = vec![message("bob", "phone", group.as_str(), "&")];
                ChatDelivery::History(Box::new(HistoryPage {
                    number: *number,
                    messages,
                    more: true,
                }))
            }
        },
        ChatRequest::Group { number, order, .. } => match rng.below(4) {
            0 => failed(*number, ChatFault::Unchanged),
            1 => failed(*number, ChatFault::Forbidden),
            _ => {
                let group = order.group.as_ref().expect("named").within("a.example");
                let (number, id, seq, at_ms, again) = (*number, 1, 1, 1, false);
                let changed = GroupChanged { number, group, id, seq, at_ms, again };
                ChatDelivery::Changed(Box::new(changed))
            }
        },
        ChatRequest::Conversations { number, .. } => {
            let conversations = vec![conversation(1, "bob"), conversation(1, ROOM)];
            let (number, upto, more) = (*number, 1, rng.one_in(2));
            let page = ConversationsPage { number, upto, conversations, more };
            ChatDelivery::Conversations(Box::new(page))
        }
        ChatRequest::PublicGroups { number, range, .. } => {
            let group = AccountAddress::parse("yard", &range.domain).expect("right");
            let (number, groups) = (*number, vec![PublicGroup { group, title: "<x>".into() }]);
            ChatDelivery::PublicGroups(Box::new(PublicPage { number, groups }))
        }
        other => unreachable!("a device of XMPP does not ask for it: {other:?}"),
    }
}

fn member(name: &str) -> GroupMember {
    GroupMember { address: address(name), id: AccountId(1) }
}

/// A possible message or change in a room.
fn happens(rng: &mut Prng) -> Content {
    if rng.one_in(2) {
        return Content::text("&");
    }
    let verb = GroupVerb::ALL[rng.below(GroupVerb::ALL.len() as u64) as usize];
    let members = ["ann", "bob"].map(member)[rng.below(2) as usize..].to_vec();
    GroupChange { verb, title: "<x>".into(), members }.content()
}

/// A list of members, of this version or that.
fn members(rng: &mut Prng, number: u32, group: AccountAddress) -> ChatDelivery {
    let status = |name, role| {
        let reason = Some("<y>".into());
        MemberStatus { member: member(name), role, muted: true, reason }
    };
    let members = vec![status("ann", GroupRole::Member), status("bob", GroupRole::Owner)];
    ChatDelivery::Members(Box::new(MembersPage {
        number,
        group,
        version: 1 + rng.below(2),
        title: "<x>".into(),
        closed: rng.one_in(2),
        description: Box::default(),
        unlocked: false,
        public: false,
        temporary: false,
        protected: false,
        rules: RoomRules::default(),
        occupants: 0,
        own: None,
        total: 2 + rng.below(2) as u32,
        from: 0,
        members,
    }))
}

/// Feeds a machine in random pieces, with a service of whims. All that it sent, and how often the
/// service was asked to send something.
fn serve(side: &mut Side, bytes: &[u8], rng: &mut Prng) -> (Vec<u8>, usize) {
    side.limits.chat.requests_a_session_max = 2;
    let (mut rest, mut sent, mut sends) = (bytes, Vec::new(), 0);
    while !rest.is_empty() && side.ended.is_none() {
        let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(90) as usize));
        rest = later;
        sent.extend(side.hear(now(), piece));
        // An inbox of whims has no end.
        for _ in 0..4 {
            let asked = words(side);
            sends += asked.iter().filter(|it| matches!(it, ChatRequest::Send { .. })).count();
            for down in asked.iter().filter_map(|word| whim(rng, word)).collect::<Vec<_>>() {
                sent.extend(side.tell(now(), down));
            }
            sent.extend(side.drain(now()));
        }
        // What was not answered is asked again by nobody: the number of requests is bounded.
        for down in words(side).iter().filter_map(|word| whim(rng, word)).collect::<Vec<_>>() {
            sent.extend(side.tell(now(), down));
        }
        side.take_words();
        if side.untaken().len() > 4_096 {
            break;
        }
    }
    (sent, sends)
}

/// Whether all of a stream, perhaps of several, is XML.
fn is_xml(sent: &[u8]) -> bool {
    let text = std::str::from_utf8(sent).expect("UTF-8");
    let mut framer = crate::xml::framer::Framer::default();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let is_header = rest.starts_with(b"<?xml");
        let piece = framer.next(rest, !is_header, usize::MAX).expect("pieces");
        use crate::xml::framer::StreamPiece;
        let (length, is_right) = match piece {
            Some(StreamPiece::Header(length)) => (length, Scan::header(&rest[..length]).is_ok()),
            Some(StreamPiece::Element(length)) => (length, Scan::element(&rest[..length]).is_ok()),
            Some(StreamPiece::Close(length) | StreamPiece::Space(length)) => (length, true),
            None => return false,
        };
        if !is_right {
            return false;
        }
        rest = &rest[length..];
    }
    true
}

#[test]
fn the_server_answers_waits_or_ends() {
    let (corpus, mut rng) = (corpus(), Prng::new(0x584d));
    let stanzas: Vec<_> = vector::read(FILES[1])
        .iter()
        .map(|vector| vector.need("in").to_owned().into_bytes())
        .chain(ARCHIVE.map(|question| question.as_bytes().to_vec()))
        .chain(FAST[3..].iter().map(|element| element.as_bytes().to_vec()))
        .chain(NODES.map(|question| question.as_bytes().to_vec()))
        .collect();
    let (mut ended, mut sends, mut pages, mut went_on, mut nodes) = (0, 0, 0, 0, 0);
    for round in 0..ROUNDS {
        let mut side = in_state(STATES[round as usize % STATES.len()]);
        side.take_words();
        // Whoever is bound is shown stanzas, for the most part.
        let is_bound = round as usize % STATES.len() >= 7 && !rng.one_in(4);
        let bytes = bent(&mut rng, if is_bound { &stanzas } else { &corpus });
        let (sent, asked) = served(&mut side, &bytes, &mut rng);
        ended += u64::from(side.ended.is_some());
        sends += asked;
        pages += String::from_utf8_lossy(&sent).matches("</fin>").count();
        nodes += String::from_utf8_lossy(&sent).matches("</pubsub>").count();
        went_on += u64::from(is_left(&mut side, &bytes, &mut rng));
    }
    assert!(ended > ROUNDS / 8 && ended < ROUNDS, "{ended} of {ROUNDS} ended");
    assert!(sends > 300, "{sends}");
    assert!(pages > 100, "{pages}");
    assert!(nodes > 50, "{nodes}");
    assert!(went_on > 400, "{went_on}");
}

/// Feeds a machine, and looks at what it sent.
fn served(side: &mut Side, bytes: &[u8], rng: &mut Prng) -> (Vec<u8>, usize) {
    let (sent, asked) = serve(side, bytes, rng);
    assert!(is_xml(&sent), "{}", String::from_utf8_lossy(&sent));
    assert!(side.untaken().len() <= bytes.len() + HEADER.len());
    let most = 4_096 + 128 * bytes.len();
    assert!(sent.len() <= most, "{} bytes sent for {}", sent.len(), bytes.len());
    (sent, asked)
}

/// The connection breaks; whether the session went on over another one.
fn is_left(side: &mut Side, bytes: &[u8], rng: &mut Prng) -> bool {
    side.close(now(), CloseReason::PeerReset);
    let mut last = words(side);
    last.retain(|word| {
        let is_end = matches!(word, ChatRequest::Gone | ChatRequest::Closed { .. });
        is_end || matches!(word, ChatRequest::Detach(_))
    });
    assert!(last.len() <= 1, "{last:?}");
    let Some(ChatRequest::Detach(left)) = last.pop() else { return false };
    goes_on(*left, bytes, rng);
    true
}

/// A session that was left goes on over another connection, by a client that counts somehow.
fn goes_on(left: Detaching, bytes: &[u8], rng: &mut Prng) {
    let mut side = in_state("granted");
    let id = "0".repeat(48);
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='{}'/>", rng.below(4));
    side.hear(now(), resume.as_bytes());
    side.take_words();
    let waiting = vec![ChatDelivery::Notify { head: 7 }];
    let (session, kept, head) = (left.session, left.kept, rng.below(20));
    let resumed = Resumed { session, kept, waiting, head };
    let mut sent = side.tell(now(), ChatDelivery::Resumed(Box::new(resumed)));
    sent.extend(serve(&mut side, bytes, rng).0);
    sent.extend(side.pass(Now::new(now().after(Duration::from_secs(60)), now().wall_ms)));
    assert!(is_xml(&sent), "{}", String::from_utf8_lossy(&sent));
    side.close(now(), CloseReason::PeerReset);
}

#[test]
fn whatever_is_asked_of_an_archive_is_refused_or_within_bounds() {
    let corpus = ARCHIVE.map(|question| question.as_bytes().to_vec());
    let (mut rng, mut taken, mut refused) = (Prng::new(0x313), 0, 0);
    for _ in 0..ROUNDS {
        let mut bytes = corpus[rng.below(2) as usize].clone();
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.draw() as u8 & 0x7f,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"0-:TZ.+<>'/ "[rng.below(12) as usize]),
            }
        }
        let Ok(scan) = Scan::element(&bytes) else { continue };
        let Some(query) = scan.root().children().next() else { continue };
        match ArchiveQuery::read(&query) {
            Err(_) => refused += 1,
            Ok(query) => {
                taken += 1;
                let Some(range) = query.range else { continue };
                assert!((1..=PAGE_MESSAGES_MAX).contains(&range.count));
                assert!(range.after.len().max(range.before.len()) <= ARCHIVE_BOUNDS_MAX);
                assert!(range.named.len() <= ARCHIVE_NAMED_MAX);
                for id in range.after.iter().chain(&range.before).chain(&range.named) {
                    assert_eq!(read_id(&id_text(*id)), Some(*id));
                }
            }
        }
    }
    assert!(taken > 2_000 && refused > 1_000, "{taken} taken, {refused} refused");
}

#[test]
fn a_whole_stream_is_served_however_it_is_cut() {
    let stanzas: String = vector::read(FILES[1])
        .iter()
        .filter(|vector| vector.need("state") == "bound")
        .map(|vector| vector.need("in").to_owned())
        .collect();
    let login = auth("PLAIN", "\0ann\0secret");
    let stream = format!("{HEADER}{login}{HEADER}{BIND}<presence/>{stanzas}</stream:stream>");
    for seed in 0..200 {
        let mut rng = Prng::new(seed);
        let mut side = in_state("encrypted");
        let mut rest = stream.as_bytes();
        while !rest.is_empty() && side.ended.is_none() {
            let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(200) as usize));
            rest = later;
            side.hear(now(), piece);
            loop {
                let yeses: Vec<_> = words(&mut side).iter().filter_map(agrees).collect();
                if yeses.is_empty() {
                    break;
                }
                yeses.into_iter().for_each(|down| _ = side.tell(now(), down));
            }
        }
        assert_eq!((side.ended, rest.len()), (Some(CloseReason::Unbound), 0), "seed {seed}");
    }
}

/// A service that does all it is asked.
fn agrees(request: &ChatRequest) -> Option<ChatDelivery> {
    Some(match request {
        ChatRequest::Login(_) => yes(),
        ChatRequest::Bind { .. } => ChatDelivery::Bound { device: "desk".into() },
        ChatRequest::Standing { .. } => ChatDelivery::Standing { number: 0, cursor: 0, head: 0 },
        ChatRequest::Send { number, .. } => {
            ChatDelivery::Sent { number: *number, id: 1, seq: 1, at_ms: 1, again: false }
        }
        _ => return None,
    })
}
