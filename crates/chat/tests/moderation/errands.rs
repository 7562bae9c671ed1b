//! Calls of the API on behalf of accounts, and the rights of operators.

use crate::house::{Device, House, message, person};
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::ports::chat::{ChatAnswer, ChatCommand, Errand, ErrandWhat};
use model::timeline::Seq;

const GROUP: &str = "g@conference.a.example";

fn to(text: &str) -> Addressee {
    Addressee::parse(text).expect("right")
}

fn history(with: &str) -> ErrandWhat {
    let range = HistoryRange { with: to(with), from: 0, backwards: false, count: 100 };
    ErrandWhat::History(Box::new(range))
}

fn texts(told: ChatDelivery) -> Vec<String> {
    match told {
        ChatDelivery::History(page) => {
            page.messages.iter().map(|message| message.content.text.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

pub fn fault(told: ChatDelivery) -> ChatFault {
    match told {
        ChatDelivery::Failed { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

fn change(verb: GroupVerb, id: u8, members: &[&str]) -> ErrandWhat {
    ErrandWhat::Group(Box::new(GroupOrder {
        group: Some(to(GROUP)),
        client_id: ClientMessageId([id; 16]),
        verb,
        title: "ours".into(),
        members: members.iter().map(|name| to(name)).collect(),
    }))
}

fn recalling(with: Addressee, seq: Seq) -> ErrandWhat {
    ErrandWhat::Recall(Box::new(RecallOrder { with, seq, reason: Box::default() }))
}

/// Ann's group with Bob; all three devices are connected.
fn group(shards: u16) -> (House, [Device; 3]) {
    let mut house = House::new(shards);
    let devices = ["ann", "bob", "carol"].map(|name| house.login(name));
    let made = house.errand("ann", false, change(GroupVerb::Create, 1, &["bob"]));
    assert!(matches!(made, ChatDelivery::Changed(_)), "{made:?}");
    devices.iter().for_each(|device| drop(house.texts(*device)));
    (house, devices)
}

#[test]
fn what_is_said_in_an_accounts_name_is_there_once_and_read_again() {
    for shards in [1, 4] {
        let mut house = House::new(shards);
        let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
        for again in [false, true] {
            match house.errand("ann", false, ErrandWhat::Send(message("bob", 1, "one"))) {
                ChatDelivery::Sent { seq: 1, again: told, .. } => assert_eq!(told, again),
                other => panic!("{other:?}"),
            }
        }
        let other = house.errand("ann", false, ErrandWhat::Send(message("bob", 1, "two")));
        assert_eq!(fault(other), ChatFault::Conflict);
        assert_eq!((house.texts(bob), house.texts(ann)), (vec!["one".into()], vec!["one".into()]));
        assert_eq!(texts(house.errand("bob", false, history("ann"))), ["one"]);
        let list = ErrandWhat::Conversations { before: Seq::MAX, count: 10, groups: false };
        match house.errand("bob", false, list) {
            ChatDelivery::Conversations(page) => {
                let of = &page.conversations[0];
                assert_eq!((&of.with, of.unread), (&person("ann"), 1));
            }
            other => panic!("{other:?}"),
        }
        let contacts = ErrandWhat::Contacts(ContactsRange { after: 0, since: 0, count: 10 });
        match house.errand("bob", false, contacts) {
            ChatDelivery::ContactsPage(page) => assert!(page.contacts.is_empty()),
            other => panic!("{other:?}"),
        }
        let nobody = ErrandWhat::Send(message("nobody", 2, "x"));
        assert_eq!(fault(house.errand("ann", false, nobody)), ChatFault::UnknownAccount);
        let by = person("nobody");
        let errand = Errand { by, is_operators: false, what: history("ann") };
        let told = house.command(ChatCommand::Errand(Box::new(errand)));
        assert_eq!(told, ChatAnswer::Told(None));
    }
}

#[test]
fn the_server_itself_speaks_to_accounts_and_groups() {
    let (mut house, [ann, bob, carol]) = group(3);
    let said = house.errand("system", true, ErrandWhat::Send(message("carol", 2, "welcome")));
    assert!(matches!(said, ChatDelivery::Sent { .. }), "{said:?}");
    assert_eq!(house.texts(carol), ["welcome"]);
    house.errand("system", true, ErrandWhat::Send(message(GROUP, 3, "all of you")));
    assert_eq!(
        (house.texts(ann), house.texts(bob)),
        (vec!["all of you".into()], vec!["all of you".into()])
    );
    assert!(house.texts(carol).is_empty());
    let stranger = house.errand("carol", false, ErrandWhat::Send(message(GROUP, 4, "me too")));
    assert_eq!(fault(stranger), ChatFault::NotMember);
    let nowhere = ErrandWhat::Send(message("none@conference.a.example", 5, "x"));
    assert_eq!(fault(house.errand("system", true, nowhere)), ChatFault::NotMember);
}

#[test]
fn a_closed_group_is_closed_to_its_members_and_not_to_operators() {
    let (mut house, [_, bob, _]) = group(2);
    house.errand("system", true, change(GroupVerb::Close, 2, &[]));
    house.texts(bob);
    house.says(bob, 1, message(GROUP, 3, "hello?"));
    assert_eq!(house.answered(bob), [(1, Some(ChatFault::Muted))]);
    house.errand("system", true, ErrandWhat::Send(message(GROUP, 4, "later")));
    assert_eq!(house.texts(bob), ["later"]);
}

#[test]
fn an_address_is_banned_before_there_is_an_account() {
    let (mut house, [_, _, carol]) = group(4);
    let ban = house.errand("ann", false, change(GroupVerb::Ban, 2, &["zoe", "carol"]));
    assert!(matches!(ban, ChatDelivery::Changed(_)), "{ban:?}");
    house.texts(carol);
    let add =
        |house: &mut House, id| house.errand("ann", false, change(GroupVerb::Add, id, &["zoe"]));
    assert_eq!(fault(add(&mut house, 3)), ChatFault::UnknownAccount);
    house.login("zoe");
    assert_eq!(fault(add(&mut house, 4)), ChatFault::GroupBanned);
    let unban = house.errand("ann", false, change(GroupVerb::Unban, 5, &["zoe"]));
    assert!(matches!(unban, ChatDelivery::Changed(_)), "{unban:?}");
    assert!(matches!(add(&mut house, 6), ChatDelivery::Changed(_)));
}

#[test]
fn an_operator_changes_a_group_it_is_no_member_of_and_never_leaves_it_without_an_owner() {
    let (mut house, [_, bob, carol]) = group(4);
    let mut done = |verb, id, members: &[&str]| match house.errand(
        "system",
        true,
        change(verb, id, members),
    ) {
        ChatDelivery::Changed(_) => Ok(()),
        told => Err(fault(told)),
    };
    assert_eq!(done(GroupVerb::Add, 2, &["carol"]), Ok(()));
    assert_eq!(done(GroupVerb::Promote, 3, &["bob"]), Ok(()));
    assert_eq!(done(GroupVerb::Mute, 4, &["carol"]), Ok(()));
    assert_eq!(done(GroupVerb::Mute, 5, &["carol"]), Err(ChatFault::Unchanged));
    assert_eq!(done(GroupVerb::Rename, 6, &[]), Ok(()));
    assert_eq!(done(GroupVerb::Remove, 7, &["ann"]), Err(ChatFault::Forbidden));
    assert_eq!(done(GroupVerb::Leave, 8, &[]), Err(ChatFault::NotMember));
    assert_eq!(done(GroupVerb::HandOver, 9, &["bob"]), Ok(()));
    assert_eq!(done(GroupVerb::Remove, 10, &["ann"]), Ok(()));
    let range = MembersRange { group: to(GROUP), version: 0, from: 0, count: 10, banned: false };
    match house.errand("system", true, ErrandWhat::Members(Box::new(range.clone()))) {
        ChatDelivery::Members(page) => {
            let of = |it: &MemberStatus| (it.member.address.clone(), it.role, it.muted);
            let mut members: Vec<_> = page.members.iter().map(of).collect();
            members.sort();
            let (bob, carol) = (person("bob"), person("carol"));
            let expected = [(bob, GroupRole::Owner, false), (carol, GroupRole::Member, true)];
            assert_eq!((members.as_slice(), &*page.title), (&expected[..], "ours"));
        }
        other => panic!("{other:?}"),
    }
    house.errand("system", true, change(GroupVerb::Dissolve, 11, &[]));
    let gone = house.errand("system", true, ErrandWhat::Members(Box::new(range)));
    assert_eq!(fault(gone), ChatFault::NotMember);
    assert!(house.texts(bob).len() > 5 && !house.texts(carol).is_empty(), "all were told");
}

#[test]
fn an_operator_reads_a_group_and_calls_back_what_others_said_however_long_ago() {
    for shards in [1, 3] {
        let (mut house, [ann, bob, _]) = group(shards);
        house.says(bob, 1, message(GROUP, 2, "rude"));
        house.says(bob, 2, message("ann", 3, "rude, too"));
        house.pass_ms(10_000_000);
        let own = recalling(to(GROUP), 2);
        assert_eq!(fault(house.errand("bob", false, own.clone())), ChatFault::TooLate);
        assert_eq!(fault(house.errand("carol", false, own.clone())), ChatFault::NotMember);
        let read = house.errand("system", true, history(GROUP));
        assert_eq!(texts(read), ["ours", "rude"]);
        house.texts(ann);
        let told = house.errand("system", true, own.clone());
        assert!(matches!(told, ChatDelivery::Sent { again: false, .. }), "{told:?}");
        assert_eq!(fault(house.errand("system", true, own)), ChatFault::Unchanged);
        assert_eq!(texts(house.errand("system", true, history(GROUP))), ["ours", "", ""]);
        let recall = recalling(to("bob"), 1);
        assert_eq!(fault(house.errand("ann", false, recall.clone())), ChatFault::Forbidden);
        let told = house.errand("ann", true, recall);
        assert!(matches!(told, ChatDelivery::Sent { .. }), "{told:?}");
        assert_eq!(texts(house.errand("bob", false, history("ann"))), ["", ""]);
        let none = recalling(to(GROUP), 99);
        assert_eq!(fault(house.errand("system", true, none)), ChatFault::UnknownMessage);
    }
}

#[test]
fn what_happens_is_told() {
    let mut house = House::new(2);
    house.listen();
    let ann = house.login("ann");
    house.login("bob");
    assert_eq!(house.happened(), ["chat_account_made"; 2]);
    house.says(ann, 1, message("bob", 1, "one"));
    house.says(ann, 2, message("bob", 1, "one"));
    assert_eq!(house.happened(), ["chat_message"], "sent again it happened once");
    let order = RecallOrder { with: to("bob"), seq: 1, reason: Box::default() };
    let (session, order) = (ann.session, Box::new(order));
    house.ask(ann, ChatRequest::Recall { session, number: 3, order });
    house.errand("ann", false, change(GroupVerb::Create, 2, &[]));
    assert_eq!(house.happened(), ["chat_recalled", "chat_group_changed"]);
}

#[test]
fn what_an_errand_reads_makes_no_room_for_a_device() {
    let mut house = House::new(1);
    let [_, bob] = ["ann", "bob"].map(|name| house.login(name));
    let pull = |number| ChatRequest::Pull { session: bob.session, number, after: 0, count: 1 };
    let slow: Vec<_> = (0..4).map(|number| house.asks_slow_log(bob, pull(number))).collect();
    house.ask(bob, pull(4));
    assert_eq!(house.answered(bob), [(4, Some(ChatFault::Busy))], "so many at once");
    assert_eq!(bob.session.key().pack(), 1, "the first errand has the same number");
    for _ in 0..2 {
        assert!(texts(house.errand("ann", false, history("bob"))).is_empty());
    }
    house.ask(bob, pull(5));
    assert_eq!(house.answered(bob), [(5, Some(ChatFault::Busy))]);
    slow.into_iter().for_each(|calls| house.log_answers(calls));
    house.ask(bob, pull(6));
    assert!(house.answered(bob).is_empty(), "it has its page");
}

#[test]
fn so_many_errands_go_on_and_one_more_is_busy() {
    let mut house = House::with(1, None, |limits| limits.errands_max = 0);
    house.login("ann");
    let errand = Errand { by: person("ann"), is_operators: false, what: history("ann") };
    let told = house.command(ChatCommand::Errand(Box::new(errand)));
    assert_eq!(told, ChatAnswer::Busy);
    assert!(AccountAddress::parse("system", "a.example").is_ok_and(|it| it.is_system()));
}
