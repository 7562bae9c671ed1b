//! Mutes, rates and word lists, as devices experience them, over restarts too.

use crate::house::{Device, House, message, person};
use chat::words::WordList;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ClientMessageId, ContactOrder, ContactWish, Content,
    ConversationChange, GroupOrder, GroupVerb, NewMessage, NewTransient, PeopleAsk, PeopleRequest,
};
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::log::Table;
use model::session::Denial;

fn mute(house: &mut House, name: &str, seconds: u32) -> u32 {
    let until_s = if seconds == 0 { 0 } else { house.now.unix_s() + seconds };
    match house.command(ChatCommand::Mute(person(name), until_s)) {
        ChatAnswer::Account(Some(status)) => status.muted_until_s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_muted_account_says_nothing_until_its_time_over_restarts_too() {
    for shards in [1, 3] {
        let mut house = House::new(shards);
        let (ann, bob) = (house.login("ann"), house.login("bob"));
        let until_s = house.now.unix_s() + 60;
        assert_eq!(mute(&mut house, "ann", 60), until_s);
        house.says(ann, 1, message("bob", 1, "one"));
        let told = house.rejection(ann);
        assert_eq!((told.why, told.retry_after_ms), (ChatFault::Silenced, 60_000));
        assert!(told.reason.contains("60 s"), "{}", told.reason);
        house.says(bob, 1, message("ann", 1, "still here?"));
        assert_eq!(house.texts(ann), ["still here?"], "it hears");
        house.restart();
        let ann = house.login("ann");
        house.pass_ms(59_000);
        house.says(ann, 2, message("bob", 2, "two"));
        assert_eq!(house.answered(ann), [(2, Some(ChatFault::Silenced))]);
        house.pass_ms(1_000);
        house.says(ann, 3, message("bob", 3, "three"));
        assert_eq!(house.answered(ann), [(3, None)]);
        mute(&mut house, "ann", 60);
        assert_eq!(mute(&mut house, "ann", 0), 0, "lifted");
        house.says(ann, 4, message("bob", 4, "four"));
        assert_eq!(house.answered(ann), [(4, None)]);
        house.restart();
        let ann = house.login("ann");
        house.says(ann, 5, message("bob", 5, "five"));
        assert_eq!(house.answered(ann), [(5, None)], "and lifted it stays");
    }
}

#[test]
fn nobody_is_muted_who_is_not_there_and_so_many_are() {
    let mut house = House::with(1, None, |limits| limits.muted_accounts_max = 2);
    let until_s = house.now.unix_s() + 60;
    let mute =
        |house: &mut House, name: &str| house.command(ChatCommand::Mute(person(name), until_s));
    assert_eq!(mute(&mut house, "nobody"), ChatAnswer::Account(None));
    ["ann", "bob", "carol"].iter().for_each(|name| _ = house.login(name));
    mute(&mut house, "ann");
    mute(&mut house, "bob");
    assert_eq!(mute(&mut house, "carol"), ChatAnswer::MutesFull);
    assert!(matches!(mute(&mut house, "bob"), ChatAnswer::Account(Some(_))), "it is there");
    house.pass_ms(60_000);
    let until_s = house.now.unix_s() + 60;
    let told = house.command(ChatCommand::Mute(person("carol"), until_s));
    assert!(matches!(told, ChatAnswer::Account(Some(_))), "the others' time is over: {told:?}");
}

#[test]
fn who_is_muted_again_stays_so_whatever_becomes_of_the_row_of_before() {
    for is_refused in [false, true] {
        let mut house = House::with(1, None, |limits| limits.muted_accounts_max = 2);
        ["ann", "bob", "carol"].iter().for_each(|name| _ = house.login(name));
        ["ann", "bob"].iter().for_each(|name| _ = mute(&mut house, name, 10));
        house.pass_ms(20_000);
        let until_s = house.now.unix_s() + 60;
        let again = || ChatCommand::Mute(person("ann"), until_s);
        if is_refused {
            // Earlier rows stay for now, and are not taken for later ones.
            house.refuses = Some(Table::ChatMutes);
            assert_eq!(mute(&mut house, "carol", 60), until_s);
            house.refuses = None;
            house.command(again());
        } else {
            // Both changes are at the log at once.
            house.begins(again());
            assert_eq!(mute(&mut house, "carol", 60), until_s);
        }
        house.pass_ms(5_000);
        house.restart();
        for (number, name) in [(1, "ann"), (2, "carol")] {
            let device = house.login(name);
            house.says(device, number, message("bob", number as u8, "free?"));
            assert_eq!(house.answered(device), [(number, Some(ChatFault::Silenced))], "{name}");
        }
    }
}

fn long(to: &str, id: u8, kib: usize) -> Box<NewMessage> {
    message(to, id, &"x".repeat(kib << 10))
}

#[test]
fn an_account_stores_so_many_bytes_a_second_however_few_messages_they_are() {
    let mut house = House::with(1, None, |limits| {
        (limits.bytes_an_account_per_s, limits.bytes_an_account_burst) = (64 << 10, 128 << 10);
    });
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    (1..=2).for_each(|n| house.says(ann, n, long("bob", n as u8, 60)));
    assert_eq!(house.answered(ann), [(1, None), (2, None)]);
    house.says(ann, 3, long("bob", 3, 60));
    let told = house.rejection(ann);
    assert_eq!(told.why, ChatFault::RateLimited);
    assert!((800..1_000).contains(&told.retry_after_ms), "{}", told.retry_after_ms);
    house.says(ann, 4, message("bob", 4, "a short one has room"));
    house.says(bob, 1, long("ann", 1, 60));
    assert_eq!(house.answered(ann), [(4, None)]);
    assert_eq!(house.answered(bob), [(1, None)], "nobody pays for another");
    house.pass_ms(1_000);
    house.says(ann, 5, long("bob", 5, 60));
    assert_eq!(house.answered(ann), [(5, None)]);
}

#[test]
fn a_draft_is_stored_and_so_counts_among_the_bytes_of_its_account() {
    let mut house = House::with(1, None, |limits| {
        (limits.bytes_an_account_per_s, limits.bytes_an_account_burst) = (1, 2_000);
    });
    let [ann, _] = ["ann", "bob"].map(|name| house.login(name));
    house.says(ann, 1, message("bob", 1, "hi"));
    assert_eq!(house.answered(ann), [(1, None)]);
    let mut set = |number| {
        let with = Box::new(person("bob").into());
        let draft = format!("{number} {}", "x".repeat(600));
        let change = Box::new(ConversationChange::Draft(draft.into()));
        house.ask(ann, ChatRequest::Set { session: ann.session, number, with, change });
        house.answered(ann)
    };
    assert_eq!(set(2), []);
    assert_eq!(set(3), [(3, Some(ChatFault::RateLimited))]);
}

#[test]
fn accounts_of_one_address_share_what_it_may_store() {
    let mut house = House::with(1, None, |limits| {
        (limits.bytes_a_source_per_s, limits.bytes_a_source_burst) = (64 << 10, 128 << 10);
    });
    let mut login = |name, source| match house.logs_in_from(name, "desk", source) {
        (conn, ChatDelivery::LoggedIn(told)) => Device { conn, session: told.session },
        (_, other) => panic!("{other:?}"),
    };
    let [ann, bob, carol] = [("ann", 9), ("bob", 9), ("carol", 8)].map(|(n, at)| login(n, at));
    house.says(ann, 1, long("carol", 1, 60));
    house.says(bob, 1, long("carol", 1, 60));
    assert_eq!((house.answered(ann), house.answered(bob)), (vec![(1, None)], vec![(1, None)]));
    house.says(bob, 2, long("carol", 2, 60));
    assert_eq!(house.answered(bob), [(2, Some(ChatFault::RateLimited))]);
    house.says(carol, 1, long("ann", 1, 60));
    assert_eq!(house.answered(carol), [(1, None)]);
}

#[test]
fn rates_and_sizes_that_change_hold_at_once() {
    let mut house = House::with(2, None, |limits| {
        (limits.sends_an_account_per_s, limits.sends_an_account_burst) = (10, 1);
    });
    let [ann, _bob] = ["ann", "bob"].map(|name| house.login(name));
    house.says(ann, 1, message("bob", 1, "hi"));
    assert_eq!(house.answered(ann), [(1, None)]);
    house.says(ann, 2, message("bob", 2, "hi"));
    assert_eq!(house.rejection(ann).why, ChatFault::RateLimited);
    house.configure(|limits| {
        (limits.sends_an_account_per_s, limits.sends_an_account_burst) = (10, 2);
        limits.text_bytes_max = 4;
    });
    house.says(ann, 3, message("bob", 3, "hi"));
    assert_eq!(house.answered(ann), [(3, None)], "a full burst");
    house.says(ann, 4, message("bob", 4, "hello"));
    assert_eq!(house.answered(ann), [(4, Some(ChatFault::TooLarge))]);
}

#[test]
fn an_account_and_a_group_have_rates_of_their_own() {
    let mut house = House::with(2, None, |limits| {
        (limits.sends_an_account_per_s, limits.sends_an_account_burst) = (10, 3);
        (limits.sends_a_group_per_s, limits.sends_a_group_burst) = (2, 2);
    });
    let [ann, bob, carol] = ["ann", "bob", "carol"].map(|name| house.login(name));
    (1..=3).for_each(|n| house.says(ann, n, message("bob", n as u8, "hi")));
    assert!(house.answered(ann).iter().all(|(_, why)| why.is_none()));
    house.says(ann, 4, message("carol", 4, "hi"));
    let told = house.rejection(ann);
    assert_eq!((told.why, told.retry_after_ms), (ChatFault::RateLimited, 100));
    house.says(bob, 1, message("ann", 1, "hi"));
    assert_eq!(house.answered(bob), [(1, None)], "nobody pays for another");
    house.pass_ms(100);
    house.says(ann, 4, message("carol", 4, "hi"));
    assert_eq!(house.answered(ann), [(4, None)]);
    house.pass_ms(10_000);
    for (number, name) in [(10, "g"), (11, "h")] {
        let group = format!("{name}@conference.a.example");
        let order = Box::new(GroupOrder {
            group: Some(model::account::Addressee::parse(&group).expect("right")),
            client_id: ClientMessageId([number as u8; 16]),
            verb: GroupVerb::Create,
            title: name.into(),
            members: vec![person("bob").into(), person("carol").into()],
        });
        house.ask(ann, ChatRequest::Group { session: ann.session, number, order });
    }
    let (group, other) = ("g@conference.a.example", "h@conference.a.example");
    let dave = house.login("dave");
    (1..=3).for_each(|n| house.says(dave, n, message(group, n as u8, "let me in")));
    let answers = house.answered(dave);
    assert!(answers.iter().all(|(_, why)| *why == Some(ChatFault::NotMember)), "{answers:?}");
    house.says(ann, 12, message(group, 12, "hi"));
    house.says(bob, 12, message(group, 12, "hi"));
    house.says(carol, 12, message(group, 12, "hi"));
    assert_eq!((house.answered(ann), house.answered(bob)), (vec![(12, None)], vec![(12, None)]));
    let told = house.rejection(carol);
    assert_eq!((told.why, told.retry_after_ms), (ChatFault::RateLimited, 1_000));
    house.says(carol, 13, message(other, 13, "hi"));
    assert_eq!(house.answered(carol), [(13, None)], "one group never starves another");
    house.pass_ms(1_000);
    house.says(carol, 14, message(group, 12, "hi"));
    assert_eq!(house.answered(carol), [(14, None)]);
}

#[test]
fn words_are_refused_replaced_and_told() {
    let mut house = House::new(2);
    house.listen();
    let list = WordList::parse(b"refuse casino\nreplace |darn|\nflag meet");
    house.words().put(list.expect("a list"));
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.happened();
    house.says(ann, 1, message("bob", 1, "the best CASINO"));
    assert_eq!(house.answered(ann), [(1, Some(ChatFault::Rejected))]);
    assert!(house.happened().is_empty());
    house.says(ann, 2, message("bob", 2, "Darn, let us Meet"));
    assert_eq!(house.answered(ann), [(2, None)]);
    assert_eq!(house.texts(bob), ["****, let us Meet"]);
    assert_eq!(house.happened(), ["chat_flagged", "chat_message"]);
    house.says(ann, 3, message("bob", 2, "Darn, let us Meet"));
    assert_eq!(house.answered(ann), [(3, None)], "sent again it becomes the same");
    let said = house.errand("system", true, ErrandWhat::Send(message("bob", 4, "darn casino")));
    assert!(matches!(said, model::chat::ChatDelivery::Sent { .. }), "{said:?}");
    house.words().put(WordList::none());
    house.says(ann, 5, message("bob", 5, "casino"));
    assert_eq!(house.answered(ann), [(5, None)]);
}

#[test]
fn nobody_comes_in_by_the_servers_own_name_or_says_what_only_it_says() {
    let mut house = House::new(1);
    assert_eq!(house.try_login("system").err(), Some(Denial::ClientIdInvalid));
    let ann = house.login("ann");
    for (number, kind) in [(1, Content::GROUP), (2, Content::RECALL), (3, Content::RECALLED)] {
        let content = Content { kind, ..Content::text("x") };
        let message = NewMessage { content, ..*message("ann", 1, "x") };
        house.says(ann, number, Box::new(message));
        assert_eq!(house.answered(ann), [(number, Some(ChatFault::Invalid))]);
    }
}

#[test]
fn a_muted_account_tells_nothing_that_is_kept_nowhere_either() {
    let mut house = House::new(2);
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    let tells = |house: &mut House| {
        house.told.clear();
        let NewMessage { to, content, .. } = *message("bob", 1, "psst");
        let transient = Box::new(NewTransient { to, state: None, content });
        house.ask(ann, ChatRequest::Transient { session: ann.session, number: 0, transient });
        let is_it =
            |(conn, told): &_| *conn == bob.conn && matches!(told, ChatDelivery::Transient(_));
        house.told.iter().any(is_it)
    };
    assert!(tells(&mut house));
    mute(&mut house, "ann", 60);
    assert!(!tells(&mut house));
    house.pass_ms(61_000);
    assert!(tells(&mut house));
}

#[test]
fn cursors_that_wait_are_so_many_of_all_conversations_together() {
    let mut house = House::with(1, None, |limits| limits.reads_paced_max = 5);
    let [ann, bob, carol] = ["ann", "bob", "carol"].map(|name| house.login(name));
    for (by, count) in [(bob, 5), (carol, 1)] {
        (1..=count).for_each(|n| house.says(by, n, message("ann", n as u8, "hi")));
    }
    let mut reads = |name: &str, number: u32, upto| {
        let with = Box::new(person(name).into());
        house.ask(ann, ChatRequest::Read { session: ann.session, number, with, upto });
    };
    reads("carol", 1, 1);
    (1..=5).for_each(|upto| reads("bob", 10 + upto as u32, upto));
    // The cursors of two conversations were sent on, and three wait.
    assert_eq!(house.answered(ann), [(15, Some(ChatFault::Busy))]);
    house.pass_ms(1_000);
    let upto = |(_, told): &(_, ChatDelivery)| match told {
        ChatDelivery::Read { upto, .. } => Some(*upto),
        _ => None,
    };
    let read: Vec<_> = house.told.iter().filter_map(upto).collect();
    assert_eq!(read, [1, 1, 4, 4, 4], "each that waited is answered");
}

#[test]
fn while_a_row_of_an_erased_account_stays_its_erasure_goes_on() {
    for table in [Table::ChatContacts, Table::ChatAccounts] {
        let mut house = House::new(1);
        let (ann, _) = (house.login("ann"), house.login("bob"));
        let order = ContactOrder::Set { name: "bob".into(), groups: [].into() };
        let wish = Box::new(ContactWish { contact: person("bob").into(), order });
        let ask = PeopleAsk::Wish(wish);
        let request = PeopleRequest { session: ann.session, number: 1, ask };
        house.ask(ann, ChatRequest::People(Box::new(request)));
        house.refuses = Some(table);
        house.command(ChatCommand::Erase(person("ann")));
        (0..40).for_each(|_| house.pass_ms(1_000));
        house.restart();
        (0..40).for_each(|_| house.pass_ms(1_000));
        let told = house.command(ChatCommand::Erase(person("ann")));
        assert!(matches!(told, ChatAnswer::Erasing(Some(_))), "{table:?} has a row: {told:?}");
        house.refuses = None;
        (0..40).for_each(|_| house.pass_ms(1_000));
        assert!(house.try_login("ann").is_ok(), "it is somebody else");
    }
}
