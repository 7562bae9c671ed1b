//! The before-send hook: verdicts, timeouts, and the order of waiting messages.

use crate::house::{Device, House, message, person};
use chat::ReviewSettings;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ClientMessageId, Content, GroupOrder, GroupVerb,
};
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::reviews::ReviewVerdict::{Allow, Change, Refuse};
use model::ports::reviews::{ReviewVerdict, Reviewed, Unreviewed};

const MS: u32 = 500;

fn house(shards: u16, kinds: &[Reviewed], unreviewed: Unreviewed) -> (House, [Device; 3]) {
    let settings = ReviewSettings::of(kinds, MS, unreviewed);
    let mut house = House::with(shards, Some(settings), |limits| limits.reviewed_messages_max = 12);
    let devices = ["ann", "bob", "carol"].map(|name| house.login(name));
    (house, devices)
}

fn all(shards: u16) -> (House, [Device; 3]) {
    house(shards, &[Reviewed::Single, Reviewed::Group], Unreviewed::Allow)
}

/// The first message at the hook that has no verdict yet.
fn next(house: &mut House) -> (u16, u64) {
    let (shard, number, _) = house.asked.remove(0);
    (shard, number)
}

#[test]
fn a_hook_allows_changes_and_refuses() {
    for shards in [1, 3] {
        let (mut house, [ann, bob, _]) = all(shards);
        house.says(ann, 1, message("bob", 1, "one"));
        assert!(house.answered(ann).is_empty() && house.texts(bob).is_empty(), "it waits");
        let review = &house.asked[0].2;
        assert_eq!((&review.from, &review.to), (&person("ann"), &person("bob")));
        assert_eq!((&*review.content.text, &*review.device), ("one", "desk"));
        let at = next(&mut house);
        house.verdict(at, Allow);
        assert_eq!((house.answered(ann), house.texts(bob)), (vec![(1, None)], vec!["one".into()]));
        house.says(ann, 2, message("bob", 2, "two"));
        let at = next(&mut house);
        house.verdict(at, Change { text: Some("2".into()), extra: None });
        assert_eq!((house.answered(ann), house.texts(bob)), (vec![(2, None)], vec!["2".into()]));
        assert_eq!(house.texts(ann), ["2"], "its sender is sent what stands there");
        house.says(ann, 3, message("bob", 3, "three"));
        let at = next(&mut house);
        house.verdict(at, Refuse("not here".into()));
        let told = house.rejection(ann);
        assert_eq!((told.number, told.why, &*told.reason), (3, ChatFault::Rejected, "not here"));
        assert!(house.texts(bob).is_empty());
    }
}

#[test]
fn nonsense_of_a_hook_is_held_to_the_limits_of_messages() {
    let (mut house, [ann, ..]) = all(1);
    let large: Box<str> = "x".repeat(300_000).into();
    for (number, text, why) in [(1, "".into(), ChatFault::Invalid), (2, large, ChatFault::TooLarge)]
    {
        house.says(ann, number, message("bob", number as u8, "one"));
        let at = next(&mut house);
        house.verdict(at, Change { text: Some(text), extra: None });
        assert_eq!(house.answered(ann), [(number, Some(why))]);
    }
    house.says(ann, 3, message("bob", 3, "three"));
    let at = next(&mut house);
    house.verdict(at, Refuse("é".repeat(400).into()));
    assert!(house.rejection(ann).reason.len() <= model::chat::REASON_BYTES_MAX);
}

#[test]
fn what_waits_holds_up_its_own_line_in_order_and_nobody_else() {
    let (mut house, [ann, bob, carol]) = all(2);
    house.says(ann, 1, message("bob", 1, "one"));
    house.says(ann, 2, message("bob", 2, "two"));
    house.says(ann, 3, message("carol", 3, "three"));
    house.says(carol, 4, message("bob", 4, "four"));
    let asked: Vec<_> = house.asked.drain(..).map(|(shard, number, _)| (shard, number)).collect();
    house.verdict(asked[1], Allow);
    assert!(house.answered(ann).is_empty(), "the first has no verdict");
    house.verdict(asked[2], Allow);
    house.verdict(asked[3], Allow);
    assert_eq!(house.answered(ann), [(3, None)]);
    assert_eq!((house.texts(carol), house.texts(bob)), (vec!["three".into()], vec!["four".into()]));
    house.verdict(asked[0], Refuse("no".into()));
    let answers = house.answered(ann);
    assert_eq!(answers, [(1, Some(ChatFault::Rejected)), (2, None)]);
    assert_eq!(house.texts(bob), ["two"]);
}

#[test]
fn a_hook_that_hangs_is_waited_for_so_long_and_then_the_policy_holds() {
    for (unreviewed, why) in
        [(Unreviewed::Allow, None), (Unreviewed::Refuse, Some(ChatFault::Rejected))]
    {
        let (mut house, [ann, bob, _]) = house(2, &[Reviewed::Single], unreviewed);
        house.says(ann, 1, message("bob", 1, "one"));
        house.pass_ms(100);
        house.says(ann, 2, message("bob", 2, "two"));
        house.pass_ms(u64::from(MS) - 101);
        assert!(house.answered(ann).is_empty(), "a millisecond early");
        house.pass_ms(1);
        assert_eq!(house.answered(ann), [(1, why)]);
        house.pass_ms(100);
        assert_eq!(house.answered(ann), [(2, why)], "each has its own time");
        let late = next(&mut house);
        house.verdict(late, Refuse("late".into()));
        assert!(house.answered(ann).is_empty(), "a verdict that comes late is none");
        let expected: &[&str] = if why.is_none() { &["one", "two"] } else { &[] };
        assert_eq!(house.texts(bob), expected);
    }
}

#[test]
fn nonsense_is_as_silence_and_a_kill_leaves_nothing_that_was_acknowledged() {
    let (mut house, [ann, bob, _]) = all(2);
    house.says(ann, 1, message("bob", 1, "one"));
    let at = next(&mut house);
    house.verdict(at, ReviewVerdict::None);
    assert_eq!((house.answered(ann), house.texts(bob)), (vec![(1, None)], vec!["one".into()]));
    house.says(ann, 2, message("bob", 2, "two"));
    assert!(house.answered(ann).is_empty(), "it waits, and is not acknowledged");
    house.restart();
    let ann = house.login("ann");
    house.says(ann, 3, message("bob", 2, "two"));
    let at = next(&mut house);
    house.verdict(at, Allow);
    assert_eq!(house.answered(ann), [(3, None)], "sent again it is there");
}

#[test]
fn the_kinds_that_are_configured_are_reviewed_and_the_servers_own_never() {
    let (mut house, [ann, bob, _]) = house(2, &[Reviewed::Group], Unreviewed::Allow);
    house.says(ann, 1, message("bob", 1, "one"));
    assert_eq!((house.answered(ann), house.asked.len()), (vec![(1, None)], 0));
    let order = Box::new(GroupOrder {
        group: Some(model::account::Addressee::parse("g@conference.a.example").expect("right")),
        client_id: ClientMessageId([9; 16]),
        verb: GroupVerb::Create,
        title: "g".into(),
        members: vec![person("bob").into()],
    });
    house.ask(ann, ChatRequest::Group { session: ann.session, number: 2, order });
    house.texts(bob);
    house.says(ann, 3, message("g@conference.a.example", 3, "to all"));
    assert_eq!(house.asked.len(), 1);
    house.errand("system", true, ErrandWhat::Send(message("g@conference.a.example", 4, "hear")));
    assert_eq!((house.asked.len(), house.texts(bob)), (1, vec!["hear".into()]));
    let at = next(&mut house);
    house.verdict(at, Allow);
    assert_eq!((house.answered(ann), house.texts(bob)), (vec![(3, None)], vec!["to all".into()]));
}

#[test]
fn so_many_wait_and_one_more_is_told_to_come_again() {
    let (mut house, [ann, bob, carol]) = all(1);
    (1..=4).for_each(|n| house.says(ann, n, message("bob", n as u8, "one")));
    assert_eq!(house.answered(ann), [(4, Some(ChatFault::Busy))], "a quarter is one sender's");
    let dave = house.login("dave");
    let eve = house.login("eve");
    for (by, name) in [(bob, "ann"), (carol, "bob"), (dave, "bob")] {
        (1..=3).for_each(|n| house.says(by, n, message(name, n as u8, "one")));
    }
    house.says(eve, 6, message("bob", 6, "six"));
    assert_eq!(house.answered(eve), [(6, Some(ChatFault::Busy))]);
    house.pass_ms(MS.into());
    assert_eq!((house.answered(ann).len(), house.answered(dave).len()), (3, 3));
    house.says(eve, 7, message("bob", 6, "six"));
    assert_eq!(house.asked.last().map(|asked| &*asked.2.content.text), Some("six"));
}

#[test]
fn a_mute_and_an_erasure_hold_for_what_was_waiting_when_they_came() {
    let (mut house, [ann, bob, carol]) = all(1);
    house.says(ann, 1, message("bob", 1, "one"));
    house.says(carol, 2, message("bob", 2, "two"));
    let (first, second) = (next(&mut house), next(&mut house));
    let until_s = house.now.unix_s() + 60;
    house.command(ChatCommand::Mute(person("ann"), until_s));
    house.command(ChatCommand::Erase(person("carol")));
    house.verdict(first, Allow);
    assert_eq!(house.answered(ann), [(1, Some(ChatFault::Silenced))]);
    house.verdict(second, Allow);
    assert!(house.texts(bob).is_empty(), "neither of them says anything");
}

#[test]
fn what_was_on_its_way_when_an_account_was_erased_is_called_back_too() {
    let mut house = House::new(1);
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.says(ann, 1, message("bob", 1, "hello"));
    house.texts(bob);
    let message = message("bob", 2, "a secret");
    let request = ChatRequest::Send { session: ann.session, number: 2, message };
    let slow = house.asks_slow_log(ann, request);
    house.command(ChatCommand::Erase(person("ann")));
    house.pass_ms(2_000);
    house.log_answers(slow);
    assert!(house.texts(bob).contains(&"a secret".to_owned()), "it comes late");
    (0..10).for_each(|_| house.pass_ms(4_000));
    let (session, after, count) = (bob.session, 0, 10);
    house.ask(bob, ChatRequest::Pull { session, number: 1, after, count });
    let kinds = match house.told.pop() {
        Some((_, ChatDelivery::Page(page))) => page.messages,
        other => panic!("{other:?}"),
    };
    let kinds: Vec<_> = kinds.into_iter().map(|(_, it)| it.content.kind).collect();
    assert_eq!(kinds.iter().filter(|it| **it == Content::RECALLED).count(), 2, "{kinds:?}");
    assert_eq!(house.command(ChatCommand::Erase(person("ann"))), ChatAnswer::Erasing(None));
}
