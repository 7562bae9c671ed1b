//! Reports of abuse: which messages an event shows, and when there is none.

use crate::house::{Device, House, message, person};
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::counters::ChatCounter;
use model::ports::chat::{ChatCommand, Errand, ErrandWhat};
use model::ports::events::ChatWhat;
use model::pressure::Pressure;
use std::sync::Arc;

/// The archive of an account, all of it.
fn archive(house: &mut House, of: &str) -> Vec<Arc<ChatMessage>> {
    let range = Box::new(ArchiveRange::whole(false, 100));
    match house.errand(of, false, ErrandWhat::Archive(range)) {
        ChatDelivery::Archive(page) => page.messages,
        other => panic!("{other:?}"),
    }
}

const CONSENT: ForwardConsent = ForwardConsent { origin: false, third_party: true };

fn report(of: &str, named: Vec<ArchiveId>) -> AbuseReport {
    let of = Addressee::parse(of).expect("right");
    AbuseReport {
        of,
        reason: AbuseReason::Spam,
        text: "see".into(),
        named,
        unread: 0,
        consent: CONSENT,
    }
}

/// The answer to a report, and the events of it.
fn reports(house: &mut House, by: Device, report: AbuseReport) -> (ChatDelivery, Vec<Reported>) {
    house.events.clear();
    house.ask(by, request(by, report));
    let at = house.told.iter().rposition(|(conn, _)| *conn == by.conn).expect("answered");
    (house.told.remove(at).1, reported(house))
}

fn request(by: Device, report: AbuseReport) -> ChatRequest {
    let ask = PeopleAsk::Report(Box::new(report));
    ChatRequest::People(Box::new(PeopleRequest { session: by.session, number: 7, ask }))
}

/// The events of reports since the last call.
fn reported(house: &mut House) -> Vec<Reported> {
    let of = |what: ChatWhat| match what {
        ChatWhat::AbuseReported(it) => Some(Reported {
            who: (it.reporter.to_string(), it.reported.to_string()),
            texts: it.messages.iter().map(|it| it.content.text.to_string()).collect(),
            edited: it.messages.iter().map(|it| it.amended.is_some()).collect(),
            left_out: (it.left_out, it.unreadable),
            consent: it.consent,
        }),
        _ => None,
    };
    house.events.drain(..).filter_map(|event| of(event.what)).collect()
}

/// Content of an event.
#[derive(PartialEq, Eq, Debug)]
struct Reported {
    who: (String, String),
    texts: Vec<String>,
    edited: Vec<bool>,
    /// Left out, and unreadable.
    left_out: (u32, u32),
    consent: ForwardConsent,
}

fn done() -> ChatDelivery {
    ChatDelivery::Done { number: 7 }
}

#[test]
fn an_event_shows_what_the_reported_account_sent_and_nothing_of_others() {
    for shards in [1, 3] {
        let mut house = House::new(shards);
        house.listen();
        let [ann, bob, carol] = ["ann", "bob", "carol"].map(|name| house.login(name));
        house.says(bob, 1, message("ann", 1, "cheap"));
        house.says(ann, 2, message("bob", 2, "no"));
        house.says(carol, 3, message("ann", 3, "hello"));
        house.says(bob, 4, message("ann", 4, "cheaper"));
        house.says(bob, 5, message("carol", 5, "to another"));
        let all = archive(&mut house, "ann");
        let mut named: Vec<ArchiveId> = all.iter().map(|it| ArchiveId::of(it)).collect();
        assert_eq!(named.len(), 4);
        named.push(ArchiveId { number: 1, seq: 9, pair: 1 });
        let of_carol = archive(&mut house, "carol").last().map(|it| ArchiveId::of(it));
        named.extend(of_carol);
        named.push(named[0]);
        let asked = AbuseReport { unread: 2, ..report("bob", named) };
        let who = ("ann@a.example".into(), "bob@a.example".into());
        let texts = vec!["cheap".into(), "cheaper".into()];
        // Of nine: her own answer, two of others, one that there is not, one twice, two unread.
        let (edited, left_out, consent) = (vec![false; 2], (7, 0), CONSENT);
        let expected = Reported { who, texts, edited, left_out, consent };
        assert_eq!(reports(&mut house, ann, asked), (done(), vec![expected]), "{shards}");
        let (told, events) = reports(&mut house, ann, report("nobody", Vec::new()));
        assert_eq!((told, events.len()), (done(), 1), "there may be no such account");
    }
}

#[test]
fn of_a_whole_domain_no_message_is_looked_for() {
    let mut house = House::new(1);
    house.listen();
    let ann = house.login("ann");
    let named = vec![ArchiveId { number: 1, seq: 1, pair: 1 }];
    let of = Addressee::from(AccountAddress::of_domain("b.example").expect("right"));
    let report = AbuseReport { of, ..report("x", named) };
    assert_eq!(house.asks_slow_log(ann, request(ann, report)).1, []);
    house.rest();
    assert_eq!(reported(&mut house)[0].left_out, (1, 0));
}

#[test]
fn messages_are_shown_up_to_so_many_bytes() {
    let mut house = House::with(1, None, |limits| limits.abuse_report_bytes_max = 1_024);
    house.listen();
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    house.says(bob, 1, message("ann", 1, &"x".repeat(2_000)));
    house.says(bob, 2, message("ann", 2, "short"));
    let named = archive(&mut house, "ann").iter().map(|it| ArchiveId::of(it)).collect();
    let (_, events) = reports(&mut house, ann, report("bob", named));
    assert_eq!((events[0].texts.clone(), events[0].left_out), (vec!["short".to_owned()], (1, 0)));
}

#[test]
fn an_account_makes_so_many_reports_an_hour_and_further_ones_are_dropped() {
    let mut house = House::with(2, None, |limits| limits.abuse_reports_an_hour_max = 2);
    house.listen();
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    let count = |house: &mut House, by| {
        let (told, events) = reports(house, by, report("eve", Vec::new()));
        assert_eq!(told, done(), "a client is not told");
        events.len()
    };
    assert_eq!([(); 3].map(|()| count(&mut house, ann)), [1, 1, 0]);
    assert_eq!(count(&mut house, bob), 1, "nobody pays for another");
    house.pass_ms(1_800_000);
    assert_eq!([(); 2].map(|()| count(&mut house, ann)), [1, 0]);
    house.configure(|limits| limits.abuse_reports_an_hour_max = 0);
    assert_eq!(count(&mut house, ann), 0, "it is off");
}

#[test]
fn a_report_that_makes_no_sense_is_refused() {
    let mut house = House::new(1);
    house.listen();
    let ann = house.login("ann");
    let id = ArchiveId { number: 1, seq: 1, pair: 1 };
    let long = "x".repeat(ABUSE_TEXT_BYTES_MAX + 1).into();
    for wrong in [
        report("ann", Vec::new()),
        report("bob", vec![id; ARCHIVE_NAMED_MAX + 1]),
        AbuseReport { text: long, ..report("bob", Vec::new()) },
    ] {
        let (told, events) = reports(&mut house, ann, wrong);
        assert_eq!(told, ChatDelivery::Failed { number: 7, why: ChatFault::Invalid });
        assert_eq!(events, []);
    }
}

#[test]
fn reports_take_few_reads_and_leave_errands_to_others() {
    let mut house = House::with(1, None, |limits| limits.errands_max = 100);
    house.listen();
    let bob = house.login("bob");
    let by: Vec<Device> = ["ann", "carol", "dan", "eve"].map(|name| house.login(name)).into();
    let mut named = Vec::new();
    for (n, name) in (1..).zip(["ann", "carol", "dan", "eve"]) {
        house.says(bob, n, message(name, n as u8, "cheap"));
        let id = ArchiveId::of(archive(&mut house, name).last().expect("it is there"));
        named.push(vec![id; ARCHIVE_NAMED_MAX]);
    }
    house.events.clear();
    let mut waiting = Vec::new();
    for (by, named) in by.into_iter().zip(named) {
        for _ in 0..20 {
            waiting.extend(house.asks_slow_log(by, request(by, report("bob", named.clone()))).1);
        }
    }
    assert_eq!(house.counted(ChatCounter::AbuseReportsRefused), 80 - 64);
    let range = Box::new(ArchiveRange::whole(false, 1));
    let of_another = house.errand("bob", false, ErrandWhat::Archive(range));
    assert!(matches!(of_another, ChatDelivery::Archive(_)), "{of_another:?}");
    house.log_answers((0, waiting));
    let all = reported(&mut house);
    assert_eq!(all.len(), 64);
    assert!(all.iter().all(|it| it.texts == ["cheap"] && it.left_out == (15, 0)), "{all:?}");
    assert_eq!(house.counted(ChatCounter::AbuseReports), 64);
}

#[test]
fn a_report_is_dropped_while_as_many_errands_are_under_way_as_may_be() {
    let mut house = House::with(1, None, |limits| limits.errands_max = 1);
    house.listen();
    let ann = house.login("ann");
    let range = Box::new(ArchiveRange::whole(false, 1));
    let (by, what) = (person("ann"), ErrandWhat::Archive(range));
    let errand = Errand { by, is_operators: false, what };
    let calls = house.begins_slow_log(ChatCommand::Errand(Box::new(errand)));
    let (told, events) = reports(&mut house, ann, report("bob", Vec::new()));
    assert_eq!((told, events), (done(), vec![]));
    assert_eq!(house.counted(ChatCounter::AbuseReportsRefused), 1);
    house.log_answers(calls);
    let (_, events) = reports(&mut house, ann, report("bob", Vec::new()));
    assert_eq!(events.len(), 1);
}

#[test]
fn a_report_is_dropped_if_nobody_listens_or_a_guest_makes_it() {
    let mut house = House::with(1, None, |limits| limits.guests_max = 1);
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    let guest = house.login_guest("guest");
    house.says(bob, 1, message("ann", 1, "cheap"));
    let named: Vec<_> = archive(&mut house, "ann").iter().map(|it| ArchiveId::of(it)).collect();
    let calls = house.asks_slow_log(ann, request(ann, report("bob", named.clone())));
    assert_eq!(calls.1, [], "nothing is read");
    house.rest();
    house.listen();
    assert_eq!(reports(&mut house, guest, report("bob", Vec::new())), (done(), vec![]));
    assert_eq!(house.counted(ChatCounter::AbuseReports), 0);
    assert_eq!(house.counted(ChatCounter::AbuseReportsRefused), 2);
    let (_, events) = reports(&mut house, ann, report("bob", named));
    assert_eq!(events.len(), 1);
}

#[test]
fn a_message_that_its_sender_edited_is_shown_as_edited() {
    let mut house = House::new(1);
    house.listen();
    let [ann, bob] = ["ann", "bob"].map(|name| house.login(name));
    house.says(bob, 1, message("ann", 1, "cheap"));
    let all = archive(&mut house, "ann");
    let named = vec![ArchiveId::of(&all[0])];
    let target = TargetMessage { seq: all[0].seq, id: all[0].id, name: "".into() };
    let mut edit = message("ann", 2, "hello");
    edit.content = Content { kind: Content::EDIT, ..Content::text("hello") };
    edit.content.extra = target.extra(b"");
    house.says(bob, 2, edit);
    let (_, events) = reports(&mut house, ann, report("bob", named));
    assert_eq!(
        (&events[0].texts[..], &events[0].edited[..]),
        (&["hello".to_owned()][..], &[true][..])
    );
}

#[test]
fn a_report_is_refused_under_the_pressure_that_refuses_its_block() {
    let mut house = House::new(1);
    house.listen();
    let ann = house.login("ann");
    house.press(Pressure::Stores);
    let (told, events) = reports(&mut house, ann, report("bob", Vec::new()));
    assert_eq!(told, ChatDelivery::Failed { number: 7, why: ChatFault::Busy });
    assert_eq!(events, []);
}
