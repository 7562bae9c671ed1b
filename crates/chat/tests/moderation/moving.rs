//! Import of the messages of two accounts: each keeps its time, is stored once, and is delivered to
//! no one whom it does not concern.

use super::errands::fault;
use super::house::{House, message, person};
use model::account::Addressee;
use model::chat::*;
use model::id::MessageId;
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::timeline::Seq;

const DAY_MS: u64 = 86_400_000;

/// A message between Ann and Bob, sent this many days ago.
fn moved(house: &House, id: u8, days: u64, text: &str) -> MovedMessage {
    MovedMessage {
        with: Addressee::parse("bob").expect("right"),
        is_own: id.is_multiple_of(2),
        device: "old".into(),
        at_ms: house.now.wall_ms - days * DAY_MS,
        client_id: ClientMessageId([id; 16]),
        content: Content { counts: false, ..Content::text(text) },
    }
}

/// Imports a message into Ann's archive; returns whether it was there before, or the fault.
fn comes(house: &mut House, moved: MovedMessage) -> Result<bool, ChatFault> {
    match house.command(ChatCommand::MoveIn(person("ann"), Box::new(moved))) {
        ChatAnswer::Told(Some(told)) => match *told {
            ChatDelivery::Sent { again, .. } => Ok(again),
            told => Err(fault(told)),
        },
        other => panic!("{other:?}"),
    }
}

fn history(of: &str, house: &mut House) -> Vec<(String, String, u64)> {
    let with = Addressee::parse(if of == "ann" { "bob" } else { "ann" }).expect("right");
    let range = HistoryRange { with, from: 0, backwards: false, count: 50 };
    match house.errand(of, false, ErrandWhat::History(Box::new(range))) {
        ChatDelivery::History(page) => page
            .messages
            .iter()
            .map(|it| (it.from.name().to_owned(), it.content.text.to_string(), it.at_ms))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_said_elsewhere_stands_at_its_time_and_is_told_to_nobody() {
    for shards in [1, 3] {
        let mut house = House::new(shards);
        house.listen();
        house.login("ann");
        house.login("bob");
        house.happened();
        let days = [(1, 9, "hello"), (2, 8, "hello yourself"), (3, 7, "bye")];
        for (id, days, text) in days {
            let message = moved(&house, id, days, text);
            assert_eq!(comes(&mut house, message), Ok(false));
        }
        let expected: Vec<_> = days
            .iter()
            .map(|(id, days, text)| {
                let from = if id % 2 == 0 { "ann" } else { "bob" };
                (from.to_owned(), (*text).to_owned(), house.now.wall_ms - days * DAY_MS)
            })
            .collect();
        for name in ["ann", "bob"] {
            assert_eq!(history(name, &mut house), expected);
            let list = ErrandWhat::Conversations { before: Seq::MAX, count: 10, groups: false };
            match house.errand(name, false, list) {
                ChatDelivery::Conversations(page) => assert_eq!(page.conversations[0].unread, 0),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(house.happened(), Vec::<&str>::new(), "no event tells of it");
    }
}

#[test]
fn once_more_is_not_twice_whenever_that_is_and_nothing_comes_in_between() {
    for shards in [1, 3] {
        let mut house = House::new(shards);
        house.login("bob");
        house.login("ann");
        for round in [false, true] {
            for (id, days) in [(1, 9), (2, 8), (3, 7)] {
                let message = moved(&house, id, days, &id.to_string());
                assert_eq!(comes(&mut house, message), Ok(round));
            }
            house.restart();
        }
        let ann = house.login("ann");
        house.says(ann, 1, message("bob", 9, "now"));
        house.rest();
        let late = moved(&house, 4, 5, "of before");
        assert_eq!(comes(&mut house, late), Ok(true), "newer was said here");
        let texts: Vec<_> = history("bob", &mut house).into_iter().map(|it| it.1).collect();
        assert_eq!(texts, ["1", "2", "3", "now"]);
    }
}

#[test]
fn what_no_device_could_have_said_does_not_come_in() {
    let mut house = House::new(2);
    house.login("ann");
    house.login("bob");
    let whole = moved(&house, 1, 1, "x");
    let tomorrow = house.now.wall_ms + DAY_MS;
    let with = |name: &str| Addressee::parse(name).expect("right");
    for (bent, why) in [
        (MovedMessage { at_ms: MessageId::EPOCH_MS, ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { at_ms: tomorrow, ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { device: "d".repeat(65).into(), ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { content: Content::text(""), ..whole.clone() }, ChatFault::Invalid),
        (
            MovedMessage {
                content: Content { kind: Content::EDIT, ..Content::text("x") },
                ..whole.clone()
            },
            ChatFault::Invalid,
        ),
        (
            MovedMessage {
                content: Content { kind: Content::GROUP, ..Content::text("x") },
                ..whole.clone()
            },
            ChatFault::Invalid,
        ),
        (
            MovedMessage { content: Content::text(&"x".repeat(262_145)), ..whole.clone() },
            ChatFault::TooLarge,
        ),
        (MovedMessage { with: with("nobody"), ..whole.clone() }, ChatFault::UnknownAccount),
        (
            MovedMessage { with: with("lunch@conference.a.example"), ..whole.clone() },
            ChatFault::Invalid,
        ),
    ] {
        assert_eq!(comes(&mut house, bent), Err(why));
    }
    let by = person("nobody");
    let told = house.command(ChatCommand::MoveIn(by, Box::new(whole)));
    assert_eq!(told, ChatAnswer::Told(None));
    assert!(history("ann", &mut house).is_empty());
}

#[test]
fn what_devices_had_elsewhere_is_behind_them_and_what_waited_is_not() {
    let mut house = House::new(2);
    house.login("ann");
    house.login("bob");
    for (id, days) in [(2, 9), (4, 8)] {
        let message = moved(&house, id, days, &id.to_string());
        assert_eq!(comes(&mut house, message), Ok(false));
    }
    let done = house.command(ChatCommand::MovedUpTo(person("bob"), 1));
    assert_eq!(done, ChatAnswer::Told(Some(Box::new(ChatDelivery::Done { number: 0 }))));
    match house.logs_in("bob", "").1 {
        ChatDelivery::LoggedIn(told) => assert_eq!((told.cursor, told.head), (1, 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(house.command(ChatCommand::MovedUpTo(person("nobody"), 1)), ChatAnswer::Told(None));
}
