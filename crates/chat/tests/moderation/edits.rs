//! What a message becomes when it is edited is held to the rules that it was held to.

use crate::house::{Device, House, message};
use chat::ReviewSettings;
use chat::words::WordList;
use model::chat::{ChatDelivery, ChatFault, Content, NewMessage, TargetMessage};
use model::ports::reviews::ReviewVerdict::{Allow, Change};
use model::ports::reviews::{Reviewed, Unreviewed};

/// The message that a device was told last that it has sent.
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
