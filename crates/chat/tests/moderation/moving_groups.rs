//! Import of a room: the group is created before its first message, members read all messages with
//! their times and senders, and none counts as new.

use super::errands::fault;
use super::house::{Device, House, message, person};
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::id::MessageId;
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::timeline::Seq;

const DAY_MS: u64 = 86_400_000;
const GROUP: &str = "lunch@conference.a.example";

fn to(text: &str) -> Addressee {
    Addressee::parse(text).expect("right")
}

/// A message of the group, sent this many days ago.
fn said(house: &House, id: u8, days: u64, text: &str) -> MovedMessage {
    MovedMessage {
        with: to(GROUP),
        is_own: true,
        device: "".into(),
        at_ms: house.now.wall_ms - days * DAY_MS,
        client_id: ClientMessageId([id; 16]),
        content: Content { counts: false, ..Content::text(text) },
    }
}

fn comes(house: &mut House, by: &str, moved: MovedMessage) -> Result<bool, ChatFault> {
    told(house.command(ChatCommand::MoveIn(person(by), Box::new(moved))))
}

/// A number that tells changes apart.
fn id_of(members: &[&str]) -> u8 {
    members.first().map_or(0, |name| name.len() as u8 + name.as_bytes()[0] % 8)
}

/// A change of the group on Ann's behalf.
fn change(verb: GroupVerb, members: &[&str], at_ms: u64) -> MovedChange {
    let order = GroupOrder {
        group: Some(to(GROUP)),
        client_id: ClientMessageId([verb as u8 + 100 + 7 * id_of(members); 16]),
        verb,
        title: "Lunch".into(),
        members: members.iter().map(|name| to(name)).collect(),
    };
    MovedChange { order, at_ms }
}

fn changes(house: &mut House, moved: MovedChange) -> Result<bool, ChatFault> {
    told(house.command(ChatCommand::ChangeMoved(person("ann"), Box::new(moved))))
}

fn told(answer: ChatAnswer) -> Result<bool, ChatFault> {
    match answer {
        ChatAnswer::Told(Some(told)) => match *told {
            ChatDelivery::Sent { again, .. } => Ok(again),
            ChatDelivery::Changed(changed) => Ok(changed.again),
            told => Err(fault(told)),
        },
        other => panic!("{other:?}"),
    }
}

/// Ann's group, created ten days ago, with Bob.
fn made(house: &mut House) {
    let at_ms = house.now.wall_ms - 10 * DAY_MS;
    assert_eq!(changes(house, change(GroupVerb::Create, &[], at_ms)), Ok(false));
    assert_eq!(changes(house, change(GroupVerb::Add, &["bob"], 0)), Ok(false));
}

/// The group as a member reads it: senders, texts, and ages in days.
fn reads(house: &mut House, by: &str) -> Result<Vec<(AccountAddress, String, u64)>, ChatFault> {
    let range = HistoryRange { with: to(GROUP), from: 0, backwards: false, count: 50 };
    let page = match house.errand(by, false, ErrandWhat::History(Box::new(range))) {
        ChatDelivery::History(page) => page,
        told => return Err(fault(told)),
    };
    let ids: Vec<u64> = page.messages.iter().map(|it| it.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "numbers rise: {ids:?}");
    let said = page.messages.iter().filter(|it| !it.content.is_reserved());
    let days = |it: &ChatMessage| (house.now.wall_ms - it.at_ms) / DAY_MS;
    Ok(said.map(|it| (it.from.clone(), it.content.text.to_string(), days(it))).collect())
}

fn texts(house: &mut House, by: &str) -> Vec<String> {
    reads(house, by).expect("a member").into_iter().map(|(_, text, _)| text).collect()
}

/// Number of entries in an inbox, and of unread messages.
fn inbox(house: &mut House, by: &str) -> (Seq, u64) {
    let head = match house.command(ChatCommand::Account(person(by))) {
        ChatAnswer::Account(Some(status)) => status.head,
        other => panic!("{other:?}"),
    };
    let list = ErrandWhat::Conversations { before: Seq::MAX, count: 10, groups: false };
    match house.errand(by, false, list) {
        ChatDelivery::Conversations(page) => {
            (head, page.conversations.iter().map(|it| u64::from(it.unread)).sum())
        }
        other => panic!("{other:?}"),
    }
}

fn all_here(shards: u16) -> (House, [Device; 3]) {
    let mut house = House::new(shards);
    house.listen();
    let devices = ["ann", "bob", "carol"].map(|name| house.login(name));
    (house, devices)
}

#[test]
fn a_room_moves_in_with_its_people_and_what_they_said_at_its_times() {
    for shards in [1, 3] {
        let (mut house, devices) = all_here(shards);
        house.happened();
        made(&mut house);
        let heads = ["ann", "bob"].map(|name| inbox(&mut house, name).0);
        devices.iter().for_each(|device| drop(house.texts(*device)));
        // Carol is not a member any more; `gone` has no account any more, and Dave never had one
        // here.
        let all = [
            ("ann", 9, "hello"),
            ("carol", 8, "hello yourself"),
            ("gone", 7, "I go"),
            ("dave@b.example", 6, "who was that?"),
            ("system", 5, "[coffee] me"),
            ("bob", 4, "bye"),
        ];
        for (id, (by, days, text)) in (1..).zip(all) {
            let moved = said(&house, id, days, text);
            assert_eq!(comes(&mut house, by, moved), Ok(false), "{by}");
        }
        let expected: Vec<_> =
            all.iter().map(|(by, days, text)| (person(by), (*text).to_owned(), *days)).collect();
        for name in ["ann", "bob"] {
            assert_eq!(reads(&mut house, name).expect("a member"), expected);
        }
        assert_eq!(reads(&mut house, "carol"), Err(ChatFault::NotMember));
        for (name, head) in ["ann", "bob"].into_iter().zip(heads) {
            assert_eq!(inbox(&mut house, name), (head + 1, 0), "its own alone");
        }
        devices.iter().for_each(|device| assert_eq!(house.texts(*device).len(), 1));
        assert_eq!(house.happened(), Vec::<&str>::new(), "no event tells of it");
        house.restart();
        for (name, head) in ["ann", "bob"].into_iter().zip(heads) {
            assert_eq!(reads(&mut house, name).expect("a member"), expected);
            assert_eq!(inbox(&mut house, name), (head + 1, 0), "a start hands nothing out");
        }
    }
}

#[test]
fn once_more_is_not_twice_and_what_was_said_between_two_imports_comes() {
    for shards in [1, 3] {
        let (mut house, _) = all_here(shards);
        for round in 0..3 {
            let at_ms = house.now.wall_ms - 10 * DAY_MS;
            let is_so = round > 0;
            assert_eq!(changes(&mut house, change(GroupVerb::Create, &[], at_ms)), Ok(is_so));
            for (verb, members) in [
                (GroupVerb::Add, &["bob"][..]),
                (GroupVerb::Promote, &["bob"]),
                (GroupVerb::Ban, &["carol"]),
                (GroupVerb::Describe, &[]),
                (GroupVerb::Unlock, &[]),
                (GroupVerb::Reveal, &[]),
                (GroupVerb::Close, &[]),
            ] {
                let changed = changes(&mut house, change(verb, members, 0));
                let expected = if is_so { Err(ChatFault::Unchanged) } else { Ok(false) };
                assert_eq!(changed, expected, "{verb:?}");
            }
            for (id, days) in [(1, 9), (2, 8)] {
                let moved = said(&house, id, days, &id.to_string());
                assert_eq!(comes(&mut house, "ann", moved), Ok(is_so));
            }
            house.restart();
        }
        // The other server went on meanwhile: it has another member and another message.
        house.login("dave");
        assert_eq!(changes(&mut house, change(GroupVerb::Add, &["dave"], 0)), Ok(false));
        let moved = said(&house, 3, 7, "3");
        assert_eq!(comes(&mut house, "dave", moved), Ok(false));
        assert_eq!(texts(&mut house, "bob"), ["1", "2", "3"]);
        let of_dave = texts(&mut house, "dave");
        assert_eq!(of_dave, ["1", "2", "3"], "what any visitor of the unlocked group reads");
    }
}

#[test]
fn a_room_that_was_dissolved_here_is_not_brought_back_by_another_import() {
    for shards in [1, 3] {
        let (mut house, _) = all_here(shards);
        made(&mut house);
        let at_ms = house.now.wall_ms - 10 * DAY_MS;
        assert_eq!(changes(&mut house, change(GroupVerb::Dissolve, &[], 0)), Ok(false));
        for _ in 0..2 {
            let again = changes(&mut house, change(GroupVerb::Create, &[], at_ms));
            assert_eq!(again, Err(ChatFault::Conflict));
            house.restart();
        }
        // Carol creates another group of the name, which accepts no older messages.
        let (verb, members) = (GroupVerb::Create, vec![to("carol")]);
        let (client_id, title) = (ClientMessageId([9; 16]), "Tea".into());
        let order = GroupOrder { group: Some(to(GROUP)), client_id, verb, title, members };
        let told = house.errand("bob", false, ErrandWhat::Group(Box::new(order)));
        assert!(matches!(told, ChatDelivery::Changed(_)), "{told:?}");
        let late = said(&house, 3, 7, "of then");
        assert_eq!(comes(&mut house, "bob", late), Ok(true), "newer was said here");
        assert_eq!(texts(&mut house, "carol"), Vec::<String>::new());
    }
}

#[test]
fn where_people_talk_already_nothing_older_comes_in_and_nothing_overtakes() {
    for shards in [1, 3] {
        let (mut house, [ann, bob, _]) = all_here(shards);
        made(&mut house);
        let first = said(&house, 1, 9, "of then");
        assert_eq!(comes(&mut house, "carol", first), Ok(false));
        house.texts(bob);
        // While a message is being imported, a member sends one.
        let late = said(&house, 2, 8, "of then, too");
        house.begins(ChatCommand::MoveIn(person("carol"), Box::new(late)));
        house.says(ann, 1, message(GROUP, 9, "now"));
        house.rest();
        let all = texts(&mut house, "bob");
        let is_in = all.contains(&"of then, too".to_owned());
        let expected: &[&str] =
            if is_in { &["of then", "of then, too", "now"] } else { &["of then", "now"] };
        assert_eq!(all, expected, "{shards}");
        assert_eq!(house.texts(bob), ["now"], "it alone is new");
        let later = said(&house, 3, 7, "too late");
        assert_eq!(comes(&mut house, "bob", later), Ok(true), "newer was said here");
        // Changes of the group are still imported, behind that message.
        assert_eq!(changes(&mut house, change(GroupVerb::Add, &["carol"], 0)), Ok(false));
        house.says(ann, 2, message(GROUP, 10, "and now"));
        house.rest();
        assert_eq!(texts(&mut house, "carol"), ["and now"]);
    }
}

#[test]
fn a_group_that_is_large_takes_it_in_before_it_turns() {
    let mut house = House::with(2, None, |limits| limits.group_written_members_max = 1);
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    made(&mut house);
    for (id, days) in [(1, 9), (2, 8)] {
        let moved = said(&house, id, days, &id.to_string());
        assert_eq!(comes(&mut house, "ann", moved), Ok(false));
    }
    house.texts(bob);
    house.says(ann, 1, message(GROUP, 9, "now"));
    house.rest();
    assert_eq!(texts(&mut house, "bob"), ["1", "2", "now"]);
    assert!(house.texts(bob).contains(&"now".to_owned()));
    house.restart();
    assert_eq!(texts(&mut house, "bob"), ["1", "2", "now"]);
}

#[test]
fn what_an_account_said_there_is_gone_with_it() {
    for shards in [1, 3] {
        let (mut house, _) = all_here(shards);
        made(&mut house);
        for (id, by, days) in [(1, "bob", 9), (2, "ann", 8)] {
            let moved = said(&house, id, days, by);
            assert_eq!(comes(&mut house, by, moved), Ok(false));
        }
        for _ in 0..100 {
            if house.command(ChatCommand::Erase(person("bob"))) == ChatAnswer::Erasing(None) {
                break;
            }
            house.pass_ms(1_000);
        }
        assert_eq!(texts(&mut house, "ann"), ["ann"]);
    }
}

#[test]
fn what_makes_no_sense_does_not_come_in() {
    let (mut house, _) = all_here(2);
    let whole = said(&house, 1, 1, "x");
    assert_eq!(comes(&mut house, "ann", whole.clone()), Err(ChatFault::NotMember), "no group");
    let now_ms = house.now.wall_ms;
    for at_ms in [0, MessageId::EPOCH_MS, now_ms + 1] {
        let made = change(GroupVerb::Create, &[], at_ms);
        assert_eq!(changes(&mut house, made), Err(ChatFault::Invalid), "{at_ms}");
    }
    let added = change(GroupVerb::Add, &["bob"], 0);
    assert_eq!(changes(&mut house, added), Err(ChatFault::NotMember));
    made(&mut house);
    for (bent, why) in [
        (MovedMessage { is_own: false, ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { at_ms: MessageId::EPOCH_MS, ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { at_ms: now_ms + 1, ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { content: Content::text(""), ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { with: to("x@channel.a.example"), ..whole.clone() }, ChatFault::Invalid),
        (MovedMessage { with: to("x@live.a.example"), ..whole.clone() }, ChatFault::Invalid),
        (
            MovedMessage { content: Content::text(&"x".repeat(262_145)), ..whole.clone() },
            ChatFault::TooLarge,
        ),
    ] {
        assert_eq!(comes(&mut house, "ann", bent), Err(why));
    }
    let nobody = change(GroupVerb::Add, &["nobody"], 0);
    assert_eq!(changes(&mut house, nobody), Err(ChatFault::UnknownAccount));
    let mut other = change(GroupVerb::Create, &["bob"], now_ms - DAY_MS);
    assert_eq!(changes(&mut house, other.clone()), Err(ChatFault::Conflict), "it is made");
    other.order.group = Some(to("x@channel.a.example"));
    assert_eq!(changes(&mut house, other), Err(ChatFault::Invalid));
    assert_eq!(texts(&mut house, "ann"), Vec::<String>::new());
    assert_eq!(comes(&mut house, "ann", whole), Ok(false), "the next is not held up");
}
