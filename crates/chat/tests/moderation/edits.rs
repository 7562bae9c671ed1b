//! The rules for messages hold for their edits, too.

use crate::house::{Device, House, message, person};
use chat::ReviewSettings;
use chat::words::WordList;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ClientMessageId, Content, GroupOrder, GroupVerb,
    HistoryRange, NewMessage, TargetMessage,
};
use model::ports::reviews::ReviewVerdict::{Allow, Change};
use model::ports::reviews::{Reviewed, Unreviewed};

/// The last message that the server has confirmed to a device.
fn sent(house: &House, by: Device) -> TargetMessage {
    let of = |(conn, told): &_| match told {
        ChatDelivery::Sent { id, seq, .. } if *conn == by.conn => Some((*seq, *id)),
        _ => None,
    };
    let (seq, id) = house.told.iter().rev().find_map(of).expect("it was told");
    TargetMessage { seq, id, name: "".into() }
}

fn edit(target: &TargetMessage, id: u8, text: &str) -> Box<NewMessage> {
    let mut edit = message("bob", id, text);
    edit.content = Content { kind: Content::EDIT, ..Content::text(text) };
    edit.content.extra = target.extra(b"");
    edit
}

#[test]
fn words_are_looked_for_in_what_a_message_becomes() {
    let mut house = House::new(2);
    let list = WordList::parse(b"refuse casino\nreplace |darn|");
    house.words().put(list.expect("a list"));
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.says(ann, 1, message("bob", 1, "hello"));
    let target = sent(&house, ann);
    assert_eq!((house.answered(ann), house.texts(bob)), (vec![(1, None)], vec!["hello".into()]));
    house.says(ann, 2, edit(&target, 2, "the best CASINO"));
    assert_eq!(house.answered(ann), [(2, Some(ChatFault::Rejected))]);
    assert!(house.texts(bob).is_empty());
    house.says(ann, 3, edit(&target, 3, "Darn, hello"));
    assert_eq!(
        (house.answered(ann), house.texts(bob)),
        (vec![(3, None)], vec!["****, hello".into()])
    );
}

#[test]
fn the_hook_is_asked_about_what_a_message_becomes() {
    let settings = ReviewSettings::of(&[Reviewed::Single], 500, Unreviewed::Refuse);
    let mut house = House::with(2, Some(settings), |_| {});
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.says(ann, 1, message("bob", 1, "hello"));
    let (shard, number, _) = house.asked.remove(0);
    house.verdict((shard, number), Allow);
    let target = sent(&house, ann);
    assert_eq!((house.answered(ann), house.texts(bob)), (vec![(1, None)], vec!["hello".into()]));
    house.says(ann, 2, edit(&target, 2, "bye"));
    assert!(house.answered(ann).is_empty() && house.texts(bob).is_empty(), "it waits");
    let (shard, number, review) = house.asked.remove(0);
    assert_eq!((review.content.kind, &*review.content.text), (Content::EDIT, "bye"));
    house.verdict((shard, number), Change { text: Some("good day".into()), extra: None });
    assert_eq!((house.answered(ann), house.texts(bob)), (vec![(2, None)], vec!["good day".into()]));
}

#[test]
fn what_is_sent_again_much_later_is_told_as_the_message_is_now() {
    let mut house = House::new(2);
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.says(ann, 1, message("bob", 1, "first"));
    let target = sent(&house, ann);
    let reacts = |id, emoji| {
        let mut it = edit(&target, id, emoji);
        it.content.kind = Content::REACTION;
        it
    };
    house.says(ann, 2, edit(&target, 2, "second"));
    house.says(ann, 3, edit(&target, 3, "third"));
    house.says(ann, 4, reacts(4, "👍"));
    house.says(ann, 5, reacts(5, "🎉"));
    assert_eq!(house.texts(bob), ["first", "second", "third", "👍", "🎉"]);
    // The log has forgotten the idempotency key meanwhile.
    house.pass_ms(90_000_000);
    house.says(ann, 6, edit(&target, 2, "second"));
    house.says(ann, 7, reacts(4, "👍"));
    assert_eq!(house.answered(ann).len(), 7);
    assert_eq!(house.texts(bob), ["third", "🎉"], "nobody's device goes back");
}

#[test]
fn what_a_group_has_no_room_for_is_not_done_either() {
    let mut house = House::with(2, None, |limits| {
        (limits.sends_a_group_per_s, limits.sends_a_group_burst) = (1, 1);
    });
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    let name = "g@conference.a.example";
    let order = Box::new(GroupOrder {
        group: Some(model::account::Addressee::parse(name).expect("right")),
        client_id: ClientMessageId([9; 16]),
        verb: GroupVerb::Create,
        title: "g".into(),
        members: vec![person("bob").into()],
    });
    house.ask(ann, ChatRequest::Group { session: ann.session, number: 1, order });
    house.says(ann, 2, message(name, 2, "hello"));
    let target = sent(&house, ann);
    let edits = |id, text: &str| {
        let to = model::account::Addressee::parse(name).expect("right");
        Box::new(NewMessage { to, ..*edit(&target, id, text) })
    };
    house.answered(ann);
    house.says(ann, 3, edits(3, "bye"));
    assert_eq!(house.answered(ann), [(3, Some(ChatFault::RateLimited))]);
    let range = HistoryRange {
        with: model::account::Addressee::parse(name).expect("right"),
        from: target.seq - 1,
        backwards: false,
        count: 1,
    };
    let reads = |house: &mut House| {
        let (session, range) = (bob.session, Box::new(range.clone()));
        house.ask(bob, ChatRequest::History { session, number: 1, range });
        let of = |(_, told): &(_, ChatDelivery)| match told {
            ChatDelivery::History(page) => Some(page.messages[0].content.text.to_string()),
            _ => None,
        };
        house.told.iter().rev().find_map(of).expect("it is told")
    };
    assert_eq!(reads(&mut house), "hello", "what was refused was not done");
    house.pass_ms(1_000);
    house.says(ann, 4, edits(3, "bye"));
    assert_eq!((house.answered(ann), reads(&mut house)), (vec![(4, None)], "bye".into()));
}

#[test]
fn a_history_from_behind_all_places_is_empty() {
    let mut house = House::new(1);
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    house.says(ann, 1, message("bob", 1, "hello"));
    for backwards in [false, true] {
        let with = person("ann").into();
        let range = Box::new(HistoryRange { with, from: u64::MAX, backwards, count: 5 });
        house.ask(bob, ChatRequest::History { session: bob.session, number: 1, range });
        match house.told.pop() {
            Some((_, ChatDelivery::History(page))) => {
                assert_eq!(page.messages.len(), usize::from(backwards));
            }
            other => panic!("{other:?}"),
        }
    }
}
