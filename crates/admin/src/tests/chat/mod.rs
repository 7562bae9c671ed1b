//! Chat over the API: what each call asks of the service, and what becomes of its answers.

mod data;
mod moves;

use super::description::{check_answer, check_named};
use super::*;
use ::model::account::{AccountAddress, AccountId};
use ::model::chat::*;
use ::model::media::FileNote;
use ::model::ports::chat::{
    ChatAccountStatus, ChatAnswer, ChatCommand, ErasureStatus, Errand, ErrandWhat, GroupSummary,
    GroupsPage,
};
use ::model::ports::events::{ChatEvent, ChatWhat};
use ::model::timeline::Seq;
use serde_json::json;
use std::sync::atomic::AtomicBool;

fn person(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn lunch() -> AccountAddress {
    person("lunch@conference.a.example")
}

fn said(seq: Seq, text: &str) -> Arc<ChatMessage> {
    Arc::new(ChatMessage {
        id: 510_613_618_950_144_000 + seq,
        seq,
        at_ms: NOW_MS,
        from: person("ann"),
        device: "desk".into(),
        to: person("bob"),
        client_id: ClientMessageId([7; 16]),
        content: Content::text(text),
        amended: None,
    })
}

fn status() -> ChatAccountStatus {
    let devices = vec!["desk".into()];
    ChatAccountStatus { id: AccountId(7), made_s: 9, devices, head: 3, muted_until_s: 0 }
}

/// Answer of a service to an errand that succeeds.
fn told(what: &ErrandWhat) -> ChatDelivery {
    let (number, seq, at_ms, again) = (0, 1, NOW_MS, false);
    match what {
        ErrandWhat::Send(_) | ErrandWhat::Recall(_) => {
            ChatDelivery::Sent { number, id: 5, seq, at_ms, again }
        }
        ErrandWhat::Group(_) => {
            let changed = GroupChanged { number, group: lunch(), id: 5, at_ms, seq, again };
            ChatDelivery::Changed(Box::new(changed))
        }
        ErrandWhat::Members(range) => ChatDelivery::Members(Box::new(MembersPage {
            number,
            group: lunch(),
            version: 5,
            title: "Lunch".into(),
            closed: false,
            description: Box::default(),
            unlocked: false,
            public: false,
            temporary: false,
            protected: false,
            rules: RoomRules::default(),
            occupants: 0,
            own: None,
            total: 9,
            from: range.from,
            members: vec![MemberStatus {
                member: GroupMember { address: person("ann"), id: AccountId(7) },
                role: GroupRole::Owner,
                muted: false,
                reason: None,
            }],
        })),
        ErrandWhat::History(_) => {
            let messages = vec![said(1, "one"), said(2, "two")];
            ChatDelivery::History(Box::new(HistoryPage { number, messages, more: true }))
        }
        ErrandWhat::Conversations { before, .. } => {
            let mut conversations = vec![Conversation {
                with: person("bob"),
                place: 17,
                last_seq: 2,
                last: None,
                read: 1,
                peer_read: 0,
                unread: 1,
                pinned: false,
                muted: false,
                hidden: false,
                draft: "not told".into(),
                left: false,
                said_seq: 2,
                mentions: 1,
            }];
            conversations.retain(|it| it.place < *before);
            let more = !conversations.is_empty();
            let page = ConversationsPage { number, upto: 20, conversations, more };
            ChatDelivery::Conversations(Box::new(page))
        }
        ErrandWhat::Chatroom(_) => ChatDelivery::Done { number },
        ErrandWhat::Contacts(ContactsRange { after, .. }) => {
            let contacts =
                vec![Arc::new(Contact { is_listed: true, ..Contact::nobody(person("b")) })];
            let (is_anew, since, upto, more) = (true, 9, 7, *after < 7);
            let page = ContactsPage { number, is_anew, since, contacts, upto, more };
            ChatDelivery::ContactsPage(Box::new(page))
        }
        other => told_of_data(other),
    }
}

/// The same of what is kept of an account.
fn told_of_data(what: &ErrandWhat) -> ChatDelivery {
    let number = 0;
    match what {
        ErrandWhat::Inbox { after, .. } => {
            let file = FileNote { url: "https://a.example/cat.png", ..FileNote::default() };
            let content =
                Content { kind: Content::FILE, extra: file.write(), ..Content::text("a cat") };
            let file = Arc::new(ChatMessage { content, ..(*said(3, "")).clone() });
            let all = [(1, said(1, "one")), (3, file)];
            let messages: Vec<_> = all.into_iter().filter(|(place, _)| place > after).collect();
            let read = InboxEvent { with: person("bob"), what: InboxChange::Read(1) };
            let events = if *after < 2 { vec![(2, Arc::new(read))] } else { vec![] };
            let page = InboxPage { number, messages, events, upto: 3.max(*after), head: 3 };
            ChatDelivery::Page(Box::new(page))
        }
        ErrandWhat::Privacy => {
            let (shares_reads, adding) = (true, Adding::Contacts);
            ChatDelivery::Privacy { number, state: PrivacyState { shares_reads, adding } }
        }
        ErrandWhat::Pushes => {
            let route = PushRoute::Gateway { app: "chat".into(), token: "a secret".into() };
            let registration =
                PushRegistration { name: "node".into(), device: "desk".into(), route };
            let status = PushStatus { number, registrations: vec![registration], quiet: None };
            ChatDelivery::PushStatus(Box::new(status))
        }
        ErrandWhat::Nodes(ask) => {
            let result = match &**ask {
                NodesAsk::Names => Ok(NodesFound::Names(["nick".into()].into())),
                NodesAsk::KeptNames => Ok(NodesFound::Names([].into())),
                NodesAsk::Node(_) => {
                    let found = NodeFound { config: NodeConfig::default(), items: 1 };
                    Ok(NodesFound::Node(Box::new(found)))
                }
                NodesAsk::Change(_) => Ok(NodesFound::Done([].into())),
                NodesAsk::Items(wanted) => {
                    let is_first = matches!(&wanted[0].which, ItemsChosen::After(None, _));
                    let item = NodeItem { id: "1".into(), payload: b"<nick/>"[..].into() };
                    let items = if is_first { vec![Arc::new(item)] } else { vec![] };
                    let items = NodeItems { items, index: 0, total: 1 };
                    Ok(NodesFound::Items([Ok(items)].into()))
                }
                _ => Err(NodesFault::Busy),
            };
            ChatDelivery::Nodes(Box::new(NodesAnswer { number, result }))
        }
        ErrandWhat::Contact(_) => ChatDelivery::Done { number },
        other => panic!("answered elsewhere: {other:?}"),
    }
}

pub(in crate::tests) fn answer(command: &Command) -> Answer {
    match command {
        Command::Chat(ChatCommand::Errand(errand)) => {
            Answer::Chat(ChatAnswer::Told(Some(Box::new(told(&errand.what)))))
        }
        Command::Chat(ChatCommand::Kick(_)) => Answer::Chat(ChatAnswer::Ended(2)),
        Command::Chat(ChatCommand::Erase(_)) => {
            let status = ErasureStatus { messages: 7, step: "messages" };
            Answer::Chat(ChatAnswer::Erasing(Some(status)))
        }
        Command::Chat(ChatCommand::Groups { shard, after, .. }) => {
            let group = GroupSummary {
                group: lunch(),
                title: "Lunch".into(),
                owner: person("ann"),
                members: 9,
                closed: false,
                public: true,
                temporary: true,
                last_seq: 12,
                last_ms: NOW_MS,
            };
            let is_first = *shard == 0 && after.is_empty();
            let groups = if is_first { vec![group] } else { vec![] };
            let next = is_first.then(|| [0, 1, 255].into());
            Answer::Chat(ChatAnswer::Groups(Box::new(GroupsPage { groups, next, shards: 2 })))
        }
        Command::Chat(ChatCommand::Chatrooms { .. }) => Answer::Chat(ChatAnswer::Chatrooms(vec![])),
        Command::Chat(_) => Answer::Chat(ChatAnswer::Account(Some(status()))),
        other => panic!("not about chat: {other:?}"),
    }
}

/// The one command that was asked.
fn asked(test_api: &TestApi) -> ChatCommand {
    match test_api.asked().pop() {
        Some(Command::Chat(command)) => command,
        other => panic!("{other:?}"),
    }
}

fn errand(test_api: &TestApi) -> Errand {
    match asked(test_api) {
        ChatCommand::Errand(errand) => *errand,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_account_is_looked_at_made_muted_and_its_sessions_ended() {
    let test_api = TestApi::new(answer);
    let path = "/v1/chat/accounts/ann";
    let ann = person("ann");
    for (method, path, route, body, expected) in [
        ("GET", path.into(), "/v1/chat/accounts/{account}", "", ChatCommand::Account(ann.clone())),
        ("PUT", path.into(), "/v1/chat/accounts/{account}", "", ChatCommand::Open(ann.clone())),
        (
            "PUT",
            format!("{path}/mute"),
            "/v1/chat/accounts/{account}/mute",
            r#"{"seconds": 60}"#,
            ChatCommand::Mute(ann.clone(), 1_760_000_060),
        ),
        (
            "DELETE",
            format!("{path}/mute"),
            "/v1/chat/accounts/{account}/mute",
            "",
            ChatCommand::Mute(ann.clone(), 0),
        ),
        (
            "POST",
            format!("{path}/kick"),
            "/v1/chat/accounts/{account}/kick",
            "",
            ChatCommand::Kick(ann.clone()),
        ),
    ] {
        let (status, told) = test_api.json(method, &path, body);
        assert_eq!(status, 200, "{told}");
        check_answer(&method.to_lowercase(), route, &told);
        assert_eq!(asked(&test_api), expected);
    }
    let (_, told) = test_api.json("GET", "/v1/chat/accounts/ann@b.example", "");
    assert_eq!(told["account"], "ann@b.example");
}

#[test]
fn what_is_said_goes_in_an_accounts_name_and_as_the_servers_own_past_everything() {
    let test_api = TestApi::new(answer);
    let id = "0b9f6d3e-58d5-4d5e-9d1c-6f0a3c1f2b77";
    let body = json!({ "to": "bob", "client_id": id,
        "message": { "kind": 1001, "text": "hi", "extra_base64": "AAE=", "counts": false } });
    for (name, is_operators) in [("ann", false), ("system", true)] {
        let path = format!("/v1/chat/accounts/{name}/messages");
        let (status, told) = test_api.json("POST", &path, &body.to_string());
        assert_eq!((status, &told["id"], &told["seq"]), (200, &json!("5"), &json!(1)));
        check_answer("post", "/v1/chat/accounts/{account}/messages", &told);
        let Errand { by, is_operators: told, what } = errand(&test_api);
        assert_eq!((by, told), (person(name), is_operators));
        let ErrandWhat::Send(message) = what else { panic!("{what:?}") };
        assert_eq!((message.to.as_str(), message.client_id.0[0]), ("bob", 0x0b));
        let extra = [0, 1].into();
        let content = Content { kind: 1_001, extra, counts: false, ..Content::text("hi") };
        assert_eq!(message.content, content);
    }
}

#[test]
fn pages_go_on_where_they_ended() {
    let test_api = TestApi::new(answer);
    let get = |path: &str, route: &str| {
        let (status, told) = test_api.json("GET", path, "");
        assert_eq!(status, 200, "{told}");
        check_answer("get", route, &told);
        (told, errand(&test_api))
    };
    let account = "/v1/chat/accounts/{account}";
    let (told, _) = get("/v1/chat/accounts/ann/conversations", &format!("{account}/conversations"));
    assert_eq!((&told["next"], &told["conversations"][0]["unread"]), (&json!("17"), &json!(1)));
    let (_, next) = get(
        "/v1/chat/accounts/ann/conversations?before=17&limit=9&groups=true",
        &format!("{account}/conversations"),
    );
    assert_eq!(next.what, ErrandWhat::Conversations { before: 17, count: 9, groups: true });
    let (told, _) = get("/v1/chat/accounts/ann/contacts", &format!("{account}/contacts"));
    assert_eq!(told["next"], "7-9");
    let (_, next) = get("/v1/chat/accounts/ann/contacts?after=7-9", &format!("{account}/contacts"));
    let range = ContactsRange { after: 7, since: 9, count: 50 };
    assert_eq!(next.what, ErrandWhat::Contacts(range));
    for (query, from, backwards) in
        [("", Seq::MAX, true), ("&after=4", 4, false), ("&before=4", 4, true)]
    {
        let path = format!("/v1/chat/accounts/ann/history?with=bob{query}");
        let (told, asked) = get(&path, &format!("{account}/history"));
        assert_eq!((&told["messages"][1]["text"], &told["more"]), (&json!("two"), &json!(true)));
        let ErrandWhat::History(range) = asked.what else { panic!("{asked:?}") };
        assert_eq!((range.from, range.backwards, asked.is_operators), (from, backwards, false));
    }
    let (_, asked) =
        get("/v1/chat/groups/lunch/history?after=2", "/v1/chat/groups/{group}/history");
    assert_eq!((asked.by, asked.is_operators), (person("system"), true));
    let (told, _) = get("/v1/chat/groups/lunch?after=4&version=5", "/v1/chat/groups/{group}");
    assert_eq!((&told["next"], &told["version"]), (&json!(5), &json!("5")));
}

#[test]
fn groups_are_made_and_changed_and_messages_called_back() {
    let test_api = TestApi::new(answer);
    let post = |path: &str, body: Value| {
        let (status, told) = test_api.json("POST", path, &body.to_string());
        assert_eq!(status, 200, "{told}");
        errand(&test_api)
    };
    let made = post("/v1/chat/groups", json!({ "owner": "ann", "title": "L", "members": ["bob"] }));
    let ErrandWhat::Group(order) = made.what else { panic!("{made:?}") };
    assert_eq!((made.by, made.is_operators, order.verb), (person("ann"), false, GroupVerb::Create));
    for &verb in GroupVerb::ALL {
        if matches!(verb, GroupVerb::Create | GroupVerb::Leave) {
            continue;
        }
        let body = json!({ "verb": verb.word(), "title": "t", "members": ["bob"] });
        let changed = post("/v1/chat/groups/lunch/changes", body);
        let ErrandWhat::Group(order) = changed.what else { panic!("{changed:?}") };
        assert_eq!((changed.by, changed.is_operators), (person("system"), true));
        assert_eq!((order.verb, order.group), (verb, Some(lunch().into())));
    }
    let recall = |with: &str| {
        let (with, reason) = (person(with).into(), Box::default());
        ErrandWhat::Recall(Box::new(RecallOrder { with, seq: 3, reason }))
    };
    let of_two = post("/v1/chat/accounts/ann/recall", json!({ "with": "bob@a.example", "seq": 3 }));
    assert_eq!((of_two.by, of_two.is_operators, of_two.what), (person("ann"), true, recall("bob")));
    let of_group = post("/v1/chat/groups/lunch/recall", json!({ "seq": 3 }));
    let expected = recall("lunch@conference.a.example");
    assert_eq!((of_group.by, of_group.what), (person("system"), expected));
}

#[test]
fn orders_that_make_no_sense_reach_nobody() {
    let test_api = TestApi::new(answer);
    let many: Vec<_> = (0..129).map(|n| format!("p{n}")).collect();
    for (method, path, body, word) in [
        ("GET", "accounts/Ann", json!({}), "0x41"),
        ("GET", "accounts/lunch@conference.a.example", json!({}), "not of an account"),
        ("GET", "groups/lunch@a.example", json!({}), "NAME@conference.a.example"),
        ("GET", "accounts/ann/history", json!({}), "`with`"),
        ("GET", "accounts/ann/history?with=b&after=1&before=2", json!({}), "give either"),
        ("GET", "accounts/ann/history?with=b&limit=0", json!({}), "`limit`"),
        ("GET", "accounts/ann/contacts?after=7", json!({}), "`after`"),
        ("GET", "groups/lunch/history?with=b", json!({}), "omit `with`"),
        ("PUT", "accounts/ann/mute", json!({ "seconds": 0 }), "`seconds`"),
        ("POST", "accounts/ann/messages", json!({ "to": "b", "message": {} }), "needs a text"),
        ("POST", "accounts/ann/messages", json!({ "to": "B", "message": { "text": "x" } }), "`to`"),
        (
            "POST",
            "accounts/ann/messages",
            json!({ "to": "b", "client_id": "7", "message": { "text": "x" } }),
            "32 hexadecimal",
        ),
        (
            "POST",
            "accounts/ann/messages",
            json!({ "to": "b", "message": { "kind": 4, "text": "x" } }),
            "only the server",
        ),
        (
            "POST",
            "accounts/ann/messages",
            json!({ "to": "b", "message": { "extra_base64": "%" } }),
            "not base64",
        ),
        ("POST", "accounts/ann/recall", json!({ "with": "b", "seq": 0 }), "`seq`"),
        ("POST", "accounts/ann/recall", json!({ "seq": 1 }), "`with`"),
        ("POST", "groups/lunch/recall", json!({ "with": "b", "seq": 1 }), "omit `with`"),
        ("POST", "groups/lunch/changes", json!({ "verb": "create" }), "one of `add`"),
        ("POST", "groups/lunch/changes", json!({ "verb": "add" }), "must name at least one"),
        ("POST", "groups/lunch/changes", json!({ "verb": "add", "members": many }), "at most 128"),
        ("POST", "groups", json!({ "owner": "ann", "title": "x".repeat(257) }), "`title`"),
        ("POST", "broadcasts", json!({ "message": { "text": "x" } }), "give either `accounts`"),
        ("GET", "broadcasts/x", json!({}), "digits only"),
    ] {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let (status, told) = test_api.json(method, &format!("/v1/chat/{path}"), &body);
        assert_eq!((status, &told["error"]["code"]), (400, &json!("bad_request")), "{path}");
        let message = told["error"]["message"].as_str().expect("text");
        assert!(message.contains(word), "{path}: {message}");
    }
    let large = json!({ "to": "b", "message": { "text": "x".repeat(300_000) } }).to_string();
    let (status, told) = test_api.json("POST", "/v1/chat/accounts/ann/messages", &large);
    assert_eq!((status, &told["error"]["code"]), (413, &json!("too_large")));
    assert_eq!(test_api.asked(), []);
}

#[test]
fn each_refusal_of_the_service_has_a_status_and_its_own_word() {
    let why: Arc<Mutex<Option<ChatAnswer>>> = Arc::default();
    let says = Arc::clone(&why);
    let test_api = TestApi::new(move |_| {
        Answer::from(says.lock().expect("no panic").clone().expect("something"))
    });
    let send = |answer: ChatAnswer| {
        *why.lock().expect("no panic") = Some(answer);
        let body = r#"{"to": "bob", "message": {"text": "hi"}}"#;
        let path = "/v1/chat/accounts/ann/messages";
        let (status, text, retry) = test_api.send("POST", path, body);
        let told: Value = serde_json::from_str(&text).expect("JSON");
        check_named("ApiError", &told);
        (status, told["error"]["code"].as_str().expect("text").to_owned(), retry)
    };
    let failed = |why| ChatAnswer::Told(Some(Box::new(ChatDelivery::Failed { number: 0, why })));
    for &why in ChatFault::ALL {
        let expected = match why {
            ChatFault::UnknownAccount => (404, "unknown_account"),
            ChatFault::NotMember => (404, "unknown_group"),
            ChatFault::NoChatroom => (404, "unknown_chatroom"),
            ChatFault::UnknownMessage => (404, "unknown_message"),
            ChatFault::Invalid => (400, "bad_request"),
            ChatFault::TooLarge => (413, "too_large"),
            ChatFault::Busy => (503, "busy"),
            ChatFault::StoreFull | ChatFault::StoreFailed => (503, "store_failed"),
            why => (409, why.name()),
        };
        let (status, code, _) = send(failed(why));
        assert_eq!((status, code.as_str()), expected);
    }
    let rejected = |why, retry_after_ms| {
        let rejected = SendRejected { number: 0, why, reason: "no links".into(), retry_after_ms };
        ChatAnswer::Told(Some(Box::new(ChatDelivery::Rejected(Box::new(rejected)))))
    };
    let told = send(rejected(ChatFault::RateLimited, 1_500));
    assert_eq!(told, (429, "rate_limited".into(), Some("2".into())));
    assert_eq!(send(rejected(ChatFault::Rejected, 0)), (409, "rejected".into(), None));
    assert_eq!(send(ChatAnswer::Told(None)).1, "unknown_account");
    assert_eq!(send(ChatAnswer::MutesFull).1, "mutes_full");
    let erasing = ChatAnswer::Erasing(Some(ErasureStatus { messages: 7, step: "messages" }));
    assert_eq!(send(erasing.clone()), (409, "erasing".into(), None));
    *why.lock().expect("no panic") = Some(erasing);
    let (status, told) = test_api.json("PUT", "/v1/chat/accounts/ann", "");
    check_named("ApiError", &told);
    assert_eq!((status, &told["error"]["code"]), (409, &json!("erasing")));
    let left = json!({ "account": "ann", "what": { "message": {
        "with": "bob", "own": true, "device": "phone", "at_ms": 1_700_000_000_007_u64,
        "client_id": "0b9f6d3e58d54d5e9d1c6f0a3c1f2b77", "message": { "text": "hi" } } } });
    let body = json!({ "items": [left] }).to_string();
    let (status, told) = test_api.json("POST", "/v1/chat/moves", &body);
    assert_eq!((status, &told["results"][0]["code"]), (200, &json!("erasing")), "{told}");
    assert_eq!(send(ChatAnswer::StoreFailed).1, "store_failed");
    assert_eq!(send(ChatAnswer::Busy).0, 503);
}

/// The broadcast, when it is over.
fn ended(test_api: &TestApi, id: &str) -> Value {
    loop {
        let (_, told) = test_api.json("GET", &format!("/v1/chat/broadcasts/{id}"), "");
        if told["state"] != "running" {
            return told;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_broadcast_reaches_each_once_and_says_how_far_it_is() {
    let test_api = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::Errand(errand)) => match &errand.what {
            ErrandWhat::Send(message) if message.to.as_str() == "gone" => {
                let why = ChatFault::UnknownAccount;
                let failed = ChatDelivery::Failed { number: 0, why };
                Answer::Chat(ChatAnswer::Told(Some(Box::new(failed))))
            }
            what => Answer::Chat(ChatAnswer::Told(Some(Box::new(told(what))))),
        },
        _ => Answer::Busy,
    });
    let mut names: Vec<String> = (0..150).map(|n| format!("p{n}")).collect();
    names.push("gone".into());
    let id = "0b9f6d3e58d54d5e9d1c6f0a3c1f2b77";
    let body = json!({ "accounts": names, "client_id": id, "message": { "text": "hi" } });
    let (status, begun) = test_api.json("POST", "/v1/chat/broadcasts", &body.to_string());
    assert_eq!((status, &begun["from"]), (200, &json!("system@a.example")), "{begun}");
    check_answer("post", "/v1/chat/broadcasts", &begun);
    let told = ended(&test_api, begun["id"].as_str().expect("text"));
    assert_eq!(
        (&told["state"], &told["sent"], &told["refused"]),
        (&json!("done"), &json!(150), &json!(1))
    );
    let mut ids = std::collections::BTreeSet::new();
    for command in test_api.asked() {
        let Command::Chat(ChatCommand::Errand(errand)) = command else { panic!("{command:?}") };
        let ErrandWhat::Send(message) = errand.what else { panic!("it sends") };
        assert!(ids.insert(message.client_id), "each has an id of its own");
    }
    let (_, again) = test_api.json("POST", "/v1/chat/broadcasts", &body.to_string());
    ended(&test_api, again["id"].as_str().expect("text"));
    for command in test_api.asked() {
        let Command::Chat(ChatCommand::Errand(errand)) = command else { panic!("{command:?}") };
        let ErrandWhat::Send(message) = errand.what else { panic!("it sends") };
        assert!(ids.contains(&message.client_id), "and the same when it is begun again");
    }
    let (_, list) = test_api.json("GET", "/v1/chat/broadcasts", "");
    assert_eq!(list["broadcasts"].as_array().map(Vec::len), Some(2));
    let id = again["id"].as_str().expect("text");
    let (_, late) = test_api.json("DELETE", &format!("/v1/chat/broadcasts/{id}"), "");
    assert_eq!(late["state"], "done", "what is over is not cancelled any more");
    assert_eq!(ended(&test_api, id)["state"], "done");
    let unknown = test_api.json("DELETE", "/v1/chat/broadcasts/1", "");
    assert_eq!((unknown.0, &unknown.1["error"]["code"]), (404, &json!("unknown_broadcast")));
}

#[test]
fn a_broadcast_that_is_cancelled_ends_with_its_slice_and_says_so() {
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let goes_on = is_cancelled.clone();
    let test_api = TestApi::new(move |command| match command {
        Command::Chat(ChatCommand::Errand(errand)) if goes_on.load(Ordering::Relaxed) => {
            Answer::Chat(ChatAnswer::Told(Some(Box::new(told(&errand.what)))))
        }
        _ => Answer::Busy,
    });
    let names: Vec<String> = (0..150).map(|n| format!("p{n}")).collect();
    let body = json!({ "accounts": names, "message": { "text": "hi" } });
    let (_, begun) = test_api.json("POST", "/v1/chat/broadcasts", &body.to_string());
    let id = begun["id"].as_str().expect("text");
    while test_api.asked().is_empty() {
        std::thread::yield_now();
    }
    let (_, asked) = test_api.json("DELETE", &format!("/v1/chat/broadcasts/{id}"), "");
    assert_eq!(asked["state"], "running", "its slice goes on");
    is_cancelled.store(true, Ordering::Relaxed);
    let told = ended(&test_api, id);
    assert_eq!((&told["state"], &told["sent"]), (&json!("cancelled"), &json!(64)));
}

#[test]
fn events_of_chat_are_told_to_who_names_them_and_may() {
    let test_api = TestApi::new(answer);
    let (status, told) = test_api.json("GET", "/v1/events?type=chat_message,online", "");
    assert_eq!((status, &told["error"]["code"]), (400, &json!("bad_request")), "{told}");
    let (_, token) =
        test_api.json("POST", "/v1/tokens", r#"{"name": "looks", "scopes": ["read"]}"#);
    let token = token["token"].as_str().expect("a token");
    let (status, text, _) =
        test_api.send_as(token, &[], ("GET", "/v1/events?type=chat_message", ""));
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("scope_missing") && text.contains("`chat`"), "{text}");
    let change = GroupChange {
        verb: GroupVerb::Mute,
        title: "".into(),
        members: vec![GroupMember { address: person("bob"), id: AccountId(8) }],
    };
    let message = |content| Arc::new(ChatMessage { content, ..(*said(4, "")).clone() });
    let account = person("ann");
    let flagged = ChatWhat::Flagged {
        from: account.clone(),
        to: person("bob"),
        client_id: ClientMessageId([7; 16]),
    };
    let amended = Some(Box::new(Amended { edited_ms: 7, ..Amended::default() }));
    let edited = ChatMessage { amended, ..(*said(6, "cheaper")).clone() };
    let reported = Arc::new(ReportedAbuse {
        reporter: account.clone(),
        reported: person("eve"),
        reason: AbuseReason::Spam,
        text: "again".into(),
        messages: vec![said(5, "cheap"), Arc::new(edited)],
        left_out: 1,
        unreadable: 2,
        consent: ForwardConsent { origin: true, third_party: false },
    });
    for (what, field, value) in [
        (ChatWhat::Stored(said(1, "one")), "/message/text", json!("one")),
        (ChatWhat::Recalled(message(Recall { seq: 3, id: 9 }.content(""))), "/seq", json!(3)),
        (ChatWhat::GroupChanged(message(change.content())), "/verb", json!("mute")),
        (ChatWhat::AccountMade { account, id: AccountId(7) }, "/account", json!("ann@a.example")),
        (flagged, "/to", json!("bob@a.example")),
        (ChatWhat::AbuseReported(reported.clone()), "/messages/0/text", json!("cheap")),
        (ChatWhat::AbuseReported(reported.clone()), "/messages/0/edited", json!(false)),
        (ChatWhat::AbuseReported(reported.clone()), "/messages/1/edited", json!(true)),
        (ChatWhat::AbuseReported(reported.clone()), "/unreadable", json!(2)),
        (ChatWhat::AbuseReported(reported.clone()), "/forward_to_origin", json!(true)),
        (ChatWhat::AbuseReported(reported), "/forward_to_third_party", json!(false)),
    ] {
        let event = feed::Happening::Chat(ChatEvent { at_ms: NOW_MS, what });
        let told = events::json("1-c1", &event);
        assert_eq!((&told["type"], told.pointer(field)), (&json!(event.name()), Some(&value)));
        check_named("ChatEvent", &told);
    }
    assert_eq!(events::chat_place_after(7, "7-c12"), Some(13));
    let others = ["7-12", "8-c12", "7-m12", "7-c"];
    assert!(others.iter().all(|id| events::chat_place_after(7, id).is_none()));
}
