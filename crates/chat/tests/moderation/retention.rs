//! Conversations that have lost their oldest messages to retention, and the time at which an inbox
//! may lose entries.

use crate::house::{Device, House, message, person};
use model::account::AccountId;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, Content, ConversationsPage, HistoryRange, TargetMessage,
};
use model::ports::log::{Call, Done, Read, Write};
use model::timeline::{ReaderId, Seq, Space, TimelineId};

/// A device of an account, and its inbox.
fn login(house: &mut House, name: &str) -> (Device, TimelineId) {
    match house.logs_in(name, "desk") {
        (conn, ChatDelivery::LoggedIn(told)) => {
            let device = Device { conn, session: told.session };
            (device, inbox(house, name, told.account))
        }
        (_, other) => panic!("{other:?}"),
    }
}

fn inbox(house: &House, name: &str, id: AccountId) -> TimelineId {
    person(name).inbox(house.home(), id)
}

fn conversation(house: &House, one: TimelineId, other: TimelineId) -> TimelineId {
    let (first, second) = (one.min(other).to_bytes(), one.max(other).to_bytes());
    TimelineId::of(Space::Conversation, house.home(), &[&first, &second])
}

/// Removes messages as the store does, and moves the cursor of retention up to the last one.
fn drops(house: &mut House, timeline: TimelineId, seqs: &[Seq]) {
    let seqs = seqs.to_vec();
    let upto = seqs.last().copied().expect("some go");
    let reader = ReaderId::RETENTION;
    for write in [Write::Remove { timeline, seqs }, Write::Acknowledge { timeline, reader, upto }] {
        assert_eq!(house.asks_log(timeline, &Call::Write(write)), Ok(Done::Written));
    }
}

fn list(house: &mut House, by: Device) -> ConversationsPage {
    let (session, before, count, groups) = (by.session, Seq::MAX, 10, false);
    house.ask(by, ChatRequest::Conversations { session, number: 70, before, count, groups });
    match house.told.pop() {
        Some((conn, ChatDelivery::Conversations(page))) if conn == by.conn => *page,
        other => panic!("{other:?}"),
    }
}

fn unread(house: &mut House, by: Device) -> (u16, Option<String>) {
    let page = list(house, by);
    let [conversation] = &page.conversations[..] else { panic!("{page:?}") };
    let last = conversation.last.as_ref().map(|last| last.text.to_string());
    (conversation.unread, last)
}

#[test]
fn what_is_gone_is_no_longer_unread_listed_read_or_edited() {
    for shards in [1, 3] {
        let mut house = House::new(shards);
        let ((ann, of_ann), (bob, of_bob)) = (login(&mut house, "ann"), login(&mut house, "bob"));
        let timeline = conversation(&house, of_ann, of_bob);
        for n in 1..=5 {
            house.says(bob, n, message("ann", n as u8, &format!("number {n}")));
        }
        let first = house.told.iter().find_map(|(_, told)| match told {
            ChatDelivery::Sent { id, seq: 1, .. } => Some(*id),
            _ => None,
        });
        assert_eq!(unread(&mut house, ann), (5, Some("number 5".into())));
        drops(&mut house, timeline, &[1, 2, 3]);
        assert_eq!(unread(&mut house, ann), (2, Some("number 5".into())));
        let range =
            HistoryRange { with: person("bob").into(), from: 0, backwards: false, count: 10 };
        let session = ann.session;
        house.ask(ann, ChatRequest::History { session, number: 71, range: Box::new(range) });
        match house.told.pop() {
            Some((_, ChatDelivery::History(page))) => {
                let seqs: Vec<Seq> = page.messages.iter().map(|it| it.seq).collect();
                assert_eq!((seqs, page.more), (vec![4, 5], false));
            }
            other => panic!("{other:?}"),
        }
        let target = TargetMessage { seq: 1, id: first.expect("it was told"), name: "".into() };
        let mut edit = message("ann", 9, "number one");
        edit.content = Content { kind: Content::EDIT, ..Content::text("number one") };
        edit.content.extra = target.extra(b"");
        house.answered(bob);
        house.says(bob, 9, edit);
        assert_eq!(house.answered(bob), [(9, Some(ChatFault::UnknownMessage))]);
        drops(&mut house, timeline, &[4, 5]);
        assert_eq!(unread(&mut house, ann), (0, None), "nothing is left of it");
        house.restart();
        let (ann, bob) = (house.login("ann"), house.login("bob"));
        assert_eq!(unread(&mut house, ann), (0, None));
        house.says(bob, 10, message("ann", 10, "still there?"));
        assert_eq!(unread(&mut house, ann), (1, Some("still there?".into())));
    }
}

#[test]
fn an_inbox_is_added_up_though_nobody_asks_so_that_it_may_lose_what_is_old() {
    let mut house = House::with(1, None, |limits| {
        (limits.sends_an_account_per_s, limits.sends_a_group_per_s) = (0, 0);
    });
    let (_, of_ann) = login(&mut house, "ann");
    house.restart();
    let bob = house.login("bob");
    let summed = |house: &mut House| {
        let (timeline, reader) = (of_ann, ReaderId::KNOWLEDGE);
        match house.asks_log(timeline, &Call::Read(Read::Standing { timeline, reader })) {
            Ok(Done::Standing(status)) => (status.cursor, status.last),
            other => panic!("{other:?}"),
        }
    };
    for n in 0..1_100u32 {
        let mut said = message("ann", 0, "hi");
        said.client_id.0[..4].copy_from_slice(&n.to_be_bytes());
        house.says(bob, n, said);
        house.told.clear();
    }
    assert_eq!(summed(&mut house), (1_024, 1_100));
    // The account's knowledge is the same when the entries that it sums up are gone.
    let seqs = (1..=1_024).collect::<Vec<_>>();
    drops(&mut house, of_ann, &seqs);
    house.restart();
    let ann = house.login("ann");
    assert_eq!(unread(&mut house, ann), (1_024, Some("hi".into())));
}
