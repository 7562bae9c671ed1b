//! Import of account data: each item is carried out in its order, or refused with a reason.

use super::*;
use ::model::chat::foreign::ArrivalWhat;
use std::sync::atomic::{AtomicU32, Ordering};

fn moves(test_api: &TestApi, items: &Value) -> (u16, Value) {
    test_api.json("POST", "/v1/chat/moves", &json!({ "items": items }).to_string())
}

fn states(told: &Value) -> Vec<String> {
    let results = told["results"].as_array().expect("results").iter();
    results.map(|it| it["state"].as_str().expect("a state").to_owned()).collect()
}

fn message(text: &str) -> Value {
    json!({ "account": "ann", "what": { "message": {
        "with": "bob", "own": true, "device": "phone", "at_ms": 1_700_000_000_007_u64,
        "client_id": "0b9f6d3e58d54d5e9d1c6f0a3c1f2b77",
        "message": { "text": text, "counts": false } } } })
}

/// Messages are taken in; all else as ever.
fn takes(command: &Command) -> Answer {
    match command {
        Command::Chat(ChatCommand::MoveIn(_, moved)) => {
            let again = &*moved.content.text == "again";
            let sent = ChatDelivery::Sent { number: 0, id: 7, seq: 1, at_ms: 9, again };
            Answer::Chat(ChatAnswer::Told(Some(Box::new(sent))))
        }
        Command::Chat(ChatCommand::MovedUpTo(..)) => {
            Answer::Chat(ChatAnswer::Told(Some(Box::new(ChatDelivery::Done { number: 0 }))))
        }
        Command::Chat(ChatCommand::Foreign(_)) => Answer::Chat(ChatAnswer::Reached(true)),
        other => answer(other),
    }
}

fn commands(test_api: &TestApi) -> Vec<ChatCommand> {
    let asked = test_api.asked().into_iter();
    let of = |command| match command {
        Command::Chat(command) => command,
        other => panic!("{other:?}"),
    };
    asked.map(of).collect()
}

#[test]
fn messages_come_at_their_times_and_what_was_there_is_told() {
    let test_api = TestApi::new(takes);
    let (status, told) = moves(&test_api, &json!([message("hello"), message("again")]));
    assert_eq!((status, states(&told)), (200, vec!["done".into(), "again".into()]), "{told}");
    check_answer("post", "/v1/chat/moves", &told);
    let commands = commands(&test_api);
    let ChatCommand::MoveIn(by, moved) = &commands[0] else { panic!("{commands:?}") };
    assert_eq!((by, moved.with.as_str(), moved.is_own), (&person("ann"), "bob", true));
    assert_eq!((moved.at_ms, &*moved.device), (1_700_000_000_007, "phone"));
    assert_eq!(moved.content, Content { counts: false, ..Content::text("hello") });
    assert_eq!(commands.len(), 2);
}

#[test]
fn contacts_say_what_they_would_say_themselves() {
    let test_api = TestApi::new(takes);
    let contact = json!({ "account": "ann", "what": { "contact": {
        "with": "bob@b.example", "name": "Bob", "groups": ["work"], "sees": true, "is_seen": true,
        "saw": true } } });
    let (status, told) = moves(&test_api, &json!([contact]));
    assert_eq!((status, states(&told)), (200, vec!["done".into()]), "{told}");
    let orders: Vec<String> = commands(&test_api)
        .into_iter()
        .map(|command| match command {
            ChatCommand::Errand(errand) => match errand.what {
                ErrandWhat::Contact(wish) => format!("{:?} {:?}", wish.contact, wish.order),
                what => panic!("{what:?}"),
            },
            ChatCommand::Foreign(arrival) => match arrival.what {
                ArrivalWhat::Wish(wish) => format!("{} {:?}", arrival.home, wish.order),
                what => panic!("{what:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    let [set, granted, asks_here, asks] = &orders[..] else { panic!("{orders:?}") };
    assert!(set.contains("Bob") && set.contains("work"), "{set}");
    assert!(granted.contains("Say(Subscribed"), "{granted}");
    assert!(asks_here.starts_with("bob@b.example Say(Subscribe,"), "{asks_here}");
    assert!(asks.contains("Say(Subscribe,"), "{asks}");
}

#[test]
fn nodes_blocks_and_how_far_devices_were_come_too() {
    let test_api = TestApi::new(takes);
    let node = json!({ "account": "ann", "what": { "node": {
        "node": "nick", "access": "members", "items_max": 0, "badge": "",
        "items": [{ "id": "1", "payload_base64": "PG4vPg==" }] } } });
    let kept = json!({ "account": "ann", "what": { "node": {
        "node": "vcard-temp", "kept": true, "items": [] } } });
    let blocked = json!({ "account": "ann", "what": { "blocked": { "with": "mallory" } } });
    let seen = json!({ "account": "ann", "what": { "seen": { "upto": 3 } } });
    let domain = json!({ "account": "ann", "what": { "blocked": { "with": "@b.example" } } });
    let (status, told) = moves(&test_api, &json!([node, kept, blocked, seen, domain]));
    assert_eq!((status, states(&told)), (200, vec!["done".to_owned(); 5]), "{told}");
    let all = commands(&test_api);
    let change = |at: usize| match &all[at] {
        ChatCommand::Errand(errand) => match &errand.what {
            ErrandWhat::Nodes(ask) => match &**ask {
                NodesAsk::Change(changes) => changes[0].clone(),
                ask => panic!("{ask:?}"),
            },
            what => panic!("{what:?}"),
        },
        other => panic!("{other:?}"),
    };
    let (node, kept) = (change(0), change(1));
    let options = node.options.expect("some");
    assert_eq!((options.access, options.items_max), (Some(NodeAccess::Members), Some(1)));
    assert_eq!((&*node.publish[0].payload, node.badge.as_deref()), (&b"<n/>"[..], Some("")));
    assert_eq!((kept.space, kept.options), (NodeSpace::Kept, None));
    assert!(matches!(&all[3], ChatCommand::Account(_)), "it waits until so much is there");
    assert!(matches!(&all[4], ChatCommand::MovedUpTo(_, 3)), "{all:?}");
    let blocked = [2, 5].map(|at| match &all[at] {
        ChatCommand::Errand(errand) => match &errand.what {
            ErrandWhat::Contact(wish) => (wish.contact.as_str().to_owned(), wish.order.clone()),
            what => panic!("{what:?}"),
        },
        other => panic!("{other:?}"),
    });
    let block = |who: &str| (who.to_owned(), ContactOrder::Block);
    assert_eq!(blocked, [block("mallory"), block("@b.example")]);
}

fn group(change: &Value) -> Value {
    let mut group = json!({
        "group": "lunch@conference.a.example", "client_id": "0b9f6d3e58d54d5e9d1c6f0a3c1f2b77" });
    for (key, value) in change.as_object().expect("fields") {
        group[key] = value.clone();
    }
    json!({ "account": "ann", "what": { "group": group } })
}

#[test]
fn a_room_is_made_a_group_and_what_was_said_in_it_comes_behind_that() {
    let test_api = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::ChangeMoved(_, moved)) => {
            let told = match moved.order.verb {
                GroupVerb::Close => ChatDelivery::Failed { number: 0, why: ChatFault::Unchanged },
                GroupVerb::Ban => ChatDelivery::Failed { number: 0, why: ChatFault::BansFull },
                _ => {
                    let group = AccountAddress::parse("lunch@conference.a.example", "");
                    let (group, again) =
                        (group.expect("right"), moved.order.verb == GroupVerb::Add);
                    let (number, id, seq, at_ms) = (0, 7, 1, 9);
                    let changed = GroupChanged { number, group, id, seq, at_ms, again };
                    ChatDelivery::Changed(Box::new(changed))
                }
            };
            Answer::Chat(ChatAnswer::Told(Some(Box::new(told))))
        }
        other => takes(other),
    });
    let mut said = message("hello");
    said["account"] = json!("gone");
    said["what"]["message"]["with"] = json!("lunch@conference.a.example");
    let mut by_system = said.clone();
    by_system["account"] = json!("system");
    let items = json!([
        group(&json!({ "verb": "create", "title": "Lunch", "at_ms": 1_600_000_000_000_u64 })),
        group(&json!({ "verb": "add", "members": ["bob"] })),
        group(&json!({ "verb": "close" })),
        group(&json!({ "verb": "ban", "members": ["mallory"] })),
        said,
        by_system,
    ]);
    let (status, told) = moves(&test_api, &items);
    let expected = ["done", "again", "again", "refused", "done", "done"].map(String::from);
    assert_eq!((status, states(&told)), (200, expected.to_vec()), "{told}");
    assert_eq!(told["results"][3]["code"], "bans_full");
    check_answer("post", "/v1/chat/moves", &told);
    let commands = commands(&test_api);
    let ChatCommand::ChangeMoved(by, moved) = &commands[0] else { panic!("{commands:?}") };
    assert_eq!((by, moved.at_ms), (&person("ann"), 1_600_000_000_000));
    assert_eq!((moved.order.verb, &*moved.order.title), (GroupVerb::Create, "Lunch"));
    let ChatCommand::MoveIn(by, _) = &commands[4] else { panic!("{commands:?}") };
    assert_eq!(by, &person("gone"), "in its order, for it is about the same group");
    for (bent, why) in [
        (json!({ "verb": "dissolve" }), "`verb`"),
        (json!({ "verb": "join" }), "`verb`"),
        (json!({ "verb": "add" }), "`members`"),
        (json!({ "verb": "create", "title": "x".repeat(257) }), "`title`"),
        (json!({ "verb": "create", "group": "bob@a.example" }), "group"),
        (json!({ "verb": "create", "client_id": "x" }), "UUID"),
    ] {
        let (_, told) = moves(&test_api, &json!([group(&bent)]));
        let result = &told["results"][0];
        let text = result["told"].as_str().unwrap_or_default();
        assert!(result["state"] == "refused" && text.contains(why), "{bent}: {told}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_alone_and_what_is_refused_says_why() {
    let test_api = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::MoveIn(..)) => Answer::Chat(ChatAnswer::Told(None)),
        other => takes(other),
    });
    let long = "x".repeat(257);
    let bent = [
        json!({ "account": "a b", "what": { "seen": { "upto": 1 } } }),
        json!({ "account": "ann", "what": { "contact": { "with": "bob", "name": long } } }),
        json!({ "account": "ann", "what": { "node": { "node": "", "items": [] } } }),
        json!({ "account": "ann", "what": { "node": {
            "node": "n", "items": [], "access": "x" } } }),
        json!({ "account": "ann", "what": { "node": {
            "node": "n", "items": [{ "id": "", "payload_base64": "" }] } } }),
        message(""),
        message("to nobody"),
    ];
    let (status, told) = moves(&test_api, &json!(bent));
    assert_eq!((status, states(&told)), (200, vec!["refused".to_owned(); 7]), "{told}");
    assert_eq!(told["results"][6]["code"], "unknown_account");
    assert!(told["results"][1]["told"].as_str().is_some_and(|why| why.contains("256")));
    for (items, why) in [(json!([]), "1 to 256"), (json!([{ "account": "ann" }]), "what")] {
        let (status, told) = moves(&test_api, &items);
        let text = told.to_string();
        assert!(status == 400 && text.contains(why), "{text}");
    }
}

#[test]
fn what_is_busy_is_asked_again_and_nothing_behind_it_goes_before() {
    static BUSY: AtomicU32 = AtomicU32::new(0);
    let test_api = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::MoveIn(..)) if BUSY.fetch_add(1, Ordering::Relaxed) == 0 => {
            Answer::Chat(ChatAnswer::Busy)
        }
        other => takes(other),
    });
    let (status, told) = moves(&test_api, &json!([message("one"), message("two")]));
    assert_eq!((status, states(&told)), (200, vec!["done".to_owned(); 2]), "{told}");
    let texts: Vec<String> = commands(&test_api)
        .into_iter()
        .map(|command| match command {
            ChatCommand::MoveIn(_, moved) => moved.content.text.into(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["one", "one", "two"]);
}
