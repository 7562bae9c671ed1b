//! Streams that go on after their connection.

use super::super::*;
use super::harness::*;
use super::stream_error;
use base::time::Instant;
use model::chat::{ChatFault, Detaching, Keeping, Resumed, ResumptionId, SessionEnd};
use model::session::Denial;
use model::timeline::Seq;

const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";
const ASK: &str = "<r xmlns='urn:xmpp:sm:3'/>";
const TO_BOB: &str = "<message to='bob@a.example' type='chat' id='x'><body>hi</body></message>";
const PING: &str = "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>";
const FAILED: &str = "<failed xmlns='urn:xmpp:sm:3'><item-not-found \
    xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

fn has(h: u32) -> String {
    format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>")
}

/// The id that a stream was given, as it is said and as the service knows it.
fn id_of(enabled: &str, side: &mut Side) -> (String, ResumptionId) {
    let id = enabled.split("id='").nth(1).and_then(|rest| rest.split('\'').next());
    let keeping = words(side).into_iter().find_map(|word| match word {
        ChatRequest::Keep(keeping) => Some(*keeping),
        _ => None,
    });
    let Keeping { id: known, seconds } = keeping.expect("the service is told");
    assert_eq!((known.session, seconds), (SESSION, 300));
    (id.expect("an id").to_owned(), known)
}

/// A device in step at the twelfth place, which may go on.
fn resumable() -> (Side, String) {
    let mut side = available();
    let enabled = says(&mut side, ENABLE);
    let (id, _) = id_of(&enabled, &mut side);
    assert_eq!(
        enabled,
        format!("<enabled xmlns='urn:xmpp:sm:3' id='{id}' resume='true' max='300'/>")
    );
    side.drain(now());
    side.take_words();
    (side, id)
}

/// The connection breaks: what is left with the service.
fn breaks(side: &mut Side, reason: CloseReason) -> Detaching {
    side.close(now(), reason);
    match words(side).pop() {
        Some(ChatRequest::Detach(it)) => {
            assert_eq!((it.session, it.reason), (SESSION, reason));
            *it
        }
        other => panic!("{other:?}"),
    }
}

/// Somebody asks for a session that has so many stanzas.
fn asks_for(id: &str, h: &str) -> Side {
    let mut side = granted();
    side.take_words();
    says(&mut side, &format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='{h}'/>"));
    side
}

/// Resumes a session, with the deliveries that waited; returns its output.
fn goes_on(
    left: Detaching,
    (id, h): (&str, u32),
    (waiting, head): (Vec<ChatDelivery>, Seq),
) -> (Side, String) {
    let mut side = asks_for(id, &h.to_string());
    match &words(&mut side)[..] {
        [ChatRequest::Resume { session, .. }] => assert_eq!(*session, SESSION),
        other => panic!("{other:?}"),
    }
    let Detaching { session, kept, .. } = left;
    let resumed = Resumed { session, kept, waiting, head };
    let said = told(&mut side, ChatDelivery::Resumed(Box::new(resumed)));
    (side, said)
}

fn resumed(id: &str, h: u32) -> String {
    format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='{h}'/>")
}

fn comes(side: &mut Side, seq: Seq, text: &str) -> String {
    told(side, ChatDelivery::Message { seq, message: message("bob", "phone", "ann", text) })
}

fn sent(side: &mut Side, number: u32) -> String {
    told(side, ChatDelivery::Sent { number, id: 1, seq: 1, at_ms: 1, again: false })
}

fn pull(after: Seq) -> ChatRequest {
    ChatRequest::Pull { session: SESSION, number: 0, after, count: 64 }
}

fn upto(upto: Seq) -> ChatRequest {
    ChatRequest::Acknowledge { session: SESSION, upto }
}

#[test]
fn a_client_may_wish_for_less_or_for_none() {
    for (wish, seconds) in [("max='20'", 20), ("max='4000'", 300), ("max='x'", 300)] {
        let mut side = available();
        let enabled =
            says(&mut side, &format!("<enable xmlns='urn:xmpp:sm:3' resume='1' {wish}/>"));
        assert!(enabled.ends_with(&format!("resume='true' max='{seconds}'/>")), "{enabled}");
    }
    for wish in ["", "resume='false'", "resume='true' max='0'", "resume='yes'"] {
        let mut side = available();
        let enabled = says(&mut side, &format!("<enable xmlns='urn:xmpp:sm:3' {wish}/>"));
        assert_eq!(enabled, "<enabled xmlns='urn:xmpp:sm:3'/>", "{wish}");
    }
    let mut side = available();
    side.limits.chat.resume_s_max = 0;
    assert_eq!(says(&mut side, ENABLE), "<enabled xmlns='urn:xmpp:sm:3'/>", "nobody is kept");
    side.take_words();
    side.close(now(), CloseReason::PeerReset);
    assert!(matches!(words(&mut side)[..], [ChatRequest::Closed { .. }]));
}

#[test]
fn ids_are_drawn_for_each_session() {
    let (one, other) = (resumable().1, {
        let mut side = available();
        side.spend_secret();
        let later = Now::new(Instant::from_nanos(2_000_000_000), now().wall_ms);
        let enabled = String::from_utf8(side.hear(later, ENABLE.as_bytes())).expect("UTF-8");
        id_of(&enabled, &mut side).0
    });
    assert_eq!((one.len(), other.len()), (48, 48));
    assert_eq!(one[..16], other[..16], "the same session");
    let same = one[16..].bytes().zip(other[16..].bytes()).filter(|(a, b)| a == b).count();
    assert!(same < 16, "{one} {other}");
}

#[test]
fn what_is_no_id_is_nobodys() {
    let (_, id) = resumable();
    let (short, upper) = (&id[1..], id.to_uppercase());
    for wrong in ["", "x", short, &format!("{id}0"), &format!("+{short}"), &upper] {
        let mut side = asks_for(wrong, "0");
        let is_upper_a_number = wrong == upper && upper == id;
        assert!(words(&mut side).is_empty() || is_upper_a_number, "{wrong}");
        says(&mut side, BIND);
        assert!(matches!(words(&mut side)[..], [ChatRequest::Bind { .. }]), "it binds anew");
    }
    let mut side = asks_for(&id, "7");
    assert_eq!(told(&mut side, ChatDelivery::NotResumed { handled: None }), FAILED);
    let mut side = asks_for(&id, "7");
    let known = told(&mut side, ChatDelivery::NotResumed { handled: Some(9) });
    assert_eq!(known, FAILED.replace("sm:3'><", "sm:3' h='9'><"));
    side.take_words();
    says(&mut side, BIND);
    assert!(matches!(words(&mut side)[..], [ChatRequest::Bind { .. }]));
    for h in ["", "x", "-1", "4294967296"] {
        let mut side = granted();
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='{h}'/>");
        assert_eq!(says(&mut side, &resume), stream_error("bad-format"), "{h}");
    }
}

#[test]
fn a_stream_that_was_closed_or_broke_the_rules_does_not_go_on() {
    for end in ["</stream:stream>", "<x/>", "<!-- -->", "<message from='bob@a.example'/>"] {
        let (mut side, _) = resumable();
        says(&mut side, end);
        let closed = words(&mut side);
        assert!(matches!(closed[..], [ChatRequest::Closed { .. }]), "{end}: {closed:?}");
    }
    let (mut side, _) = resumable();
    let (why, reason) = (Denial::AdminKick, CloseReason::AdminKick);
    told(&mut side, ChatDelivery::End(Box::new(SessionEnd { why, reason })));
    assert!(matches!(words(&mut side)[..], [ChatRequest::Closed { .. }]));
    for reason in
        [CloseReason::PeerClosed, CloseReason::KeepAliveTimeout, CloseReason::SlowConsumer]
    {
        let (mut side, _) = resumable();
        breaks(&mut side, reason);
    }
    let (mut side, _) = resumable();
    assert_eq!(told(&mut side, ChatDelivery::Yield), stream_error("conflict"));
    assert_eq!(side.ended, Some(CloseReason::Replaced));
    assert!(matches!(words(&mut side)[..], [ChatRequest::Detach(_)]), "somebody else goes on");
}

#[test]
fn what_was_not_had_comes_again_in_its_order() {
    let (mut side, id) = resumable();
    assert!(comes(&mut side, 13, "a").ends_with(ASK));
    says(&mut side, PING);
    comes(&mut side, 14, "b");
    comes(&mut side, 15, "c");
    let left = breaks(&mut side, CloseReason::PeerReset);
    // The first it had; meanwhile another came.
    let (mut side, said) = goes_on(left, (&id, 1), (vec![], 16));
    assert!(said.starts_with(&resumed(&id, 1)), "{said}");
    let (_, again) = said.split_once("h='1'/>").expect("resumed");
    let is_answer = again.starts_with("<iq ") && again.contains("type='result' id='1'");
    assert!(is_answer && again.ends_with(ASK) && !again.contains("<message"), "{again}");
    assert_eq!(words(&mut side), [upto(13), pull(13)]);
    // An answer to what it asks now stands behind what is owed.
    assert_eq!(says(&mut side, PING), "");
    let said = told(&mut side, page(13, &["b", "c", "d"], 16));
    let (before, rest) = said.split_at(said.find("<iq").expect("the answer"));
    let last = rest.find("<message").expect("d");
    assert_eq!(
        (bodies(before), bodies(&rest[last..])),
        (vec!["b+".into(), "c+".into()], vec!["d+".into()])
    );
    side.drain(now());
    // One ping, two messages, one ping, one message: five stanzas behind the first.
    says(&mut side, &has(6));
    assert_eq!(words(&mut side), [upto(16)]);
    assert!(comes(&mut side, 17, "e").contains("e</body>"), "in step");
    assert!(says(&mut side, &has(8)).contains("<handled-count-too-high "));
}

#[test]
fn what_was_answered_while_it_was_away_counts_and_an_error_is_said() {
    let (mut side, id) = resumable();
    says(&mut side, &TO_BOB.repeat(3));
    let left = breaks(&mut side, CloseReason::PeerReset);
    assert_eq!(left.handled, 0);
    let waiting = vec![
        ChatDelivery::Sent { number: 1, id: 1, seq: 1, at_ms: 1, again: false },
        ChatDelivery::Failed { number: 2, why: ChatFault::Busy },
    ];
    let (mut side, said) = goes_on(left, (&id, 0), (waiting, 12));
    assert_eq!(said, "", "the third is not answered");
    assert_eq!(says(&mut side, PING), "", "what it says waits");
    let said = sent(&mut side, 3);
    assert!(said.starts_with(&resumed(&id, 3)), "{said}");
    let error = said.find("type='error'").expect("the error of the second");
    assert!(said.contains("id='x'") && said.find("<iq").is_some_and(|ping| error < ping), "{said}");
    assert!(says(&mut side, ASK).ends_with(&has(4)));
}

#[test]
fn who_waits_for_an_answer_for_long_is_told_what_is_handled() {
    let (mut side, id) = resumable();
    says(&mut side, &TO_BOB.repeat(2));
    sent(&mut side, 1);
    let left = breaks(&mut side, CloseReason::PeerReset);
    assert_eq!(left.handled, 1);
    let (mut side, said) = goes_on(left, (&id, 0), (vec![], 12));
    assert_eq!(said, "");
    let later = Now::new(Instant::from_nanos(12_000_000_000), now().wall_ms);
    let said = String::from_utf8(side.pass(later)).expect("UTF-8");
    assert_eq!(said, resumed(&id, 1));
    says(&mut side, TO_BOB); // the second again
    sent(&mut side, 2);
    sent(&mut side, 3);
    assert_eq!(says(&mut side, ASK), has(2));
}

#[test]
fn carbons_and_what_one_s_others_said_meanwhile_go_on() {
    let (mut side, id) = resumable();
    says(&mut side, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    let carbon = message("ann", "phone", "bob", "mine");
    let live = told(&mut side, ChatDelivery::Message { seq: 13, message: carbon });
    assert!(live.contains("<sent xmlns='urn:xmpp:carbons:2'>"), "{live}");
    let left = breaks(&mut side, CloseReason::PeerReset);
    let (mut side, said) = goes_on(left, (&id, 1), (vec![], 15));
    assert!(said.starts_with(&resumed(&id, 1)), "{said}");
    let own = |seq| (seq, message("ann", "phone", "bob", "mine"));
    let here = (15, message("ann", "desk", "bob", "here"));
    let page = model::chat::InboxPage {
        number: 0,
        messages: vec![own(13), own(14), here],
        events: vec![],
        upto: 15,
        head: 15,
    };
    let said = told(&mut side, ChatDelivery::Page(Box::new(page)));
    assert_eq!(said.matches("<sent xmlns='urn:xmpp:carbons:2'>").count(), 2, "{said}");
    assert!(!said.contains("here"), "it said that itself");
}

#[test]
fn what_was_going_on_when_it_broke_twice_comes_once_each_time() {
    let (mut side, id) = resumable();
    comes(&mut side, 13, "a");
    says(&mut side, PING);
    comes(&mut side, 14, "b");
    let mut left = breaks(&mut side, CloseReason::PeerReset);
    for _ in 0..2 {
        // The inbox was not read again before it broke once more.
        let (mut side, said) = goes_on(left, (&id, 0), (vec![], 14));
        assert_eq!(said, resumed(&id, 1));
        assert_eq!(words(&mut side), [pull(12)]);
        left = breaks(&mut side, CloseReason::PeerReset);
    }
    let (mut side, _) = goes_on(left, (&id, 0), (vec![], 14));
    let said = told(&mut side, page(12, &["a", "b"], 14));
    let (iq, a) = (said.find("<iq").expect("the answer"), said.find("a</body>").expect("a"));
    assert!(a < iq && iq < said.find("b</body>").expect("b"), "{said}");
    // It broke behind the first of them.
    let left = breaks(&mut side, CloseReason::PeerReset);
    let (mut side, said) = goes_on(left, (&id, 1), (vec![], 14));
    assert!(said.contains("type='result' id='1'"), "{said}");
    side.take_words();
    assert_eq!(bodies(&told(&mut side, page(13, &["b"], 14))), ["b+"]);
    says(&mut side, &has(3));
    assert_eq!(words(&mut side), [upto(14)]);
}

#[test]
fn who_wants_no_messages_is_sent_the_rest_and_they_wait() {
    let (mut side, id) = resumable();
    comes(&mut side, 13, "a");
    says(&mut side, PING);
    says(&mut side, "<presence type='unavailable'/>");
    is_told(&mut side);
    let left = breaks(&mut side, CloseReason::PeerReset);
    let (mut side, said) = goes_on(left, (&id, 0), (vec![], 14));
    assert!(said.contains("type='result' id='1'"), "{said}");
    assert!(words(&mut side).is_empty(), "nothing is read");
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 13 });
    assert_eq!(words(&mut side)[1..], [upto(12), pull(12)]);
    assert_eq!(bodies(told(&mut side, page(12, &["a"], 13)).trim_end_matches(ASK)), ["a+"]);
}

#[test]
fn more_than_is_kept_ends_the_hope_to_go_on_and_nothing_else() {
    for (bytes, stanzas) in [(4_096, 4_096), (1 << 20, 64)] {
        let mut side = available();
        side.limits.chat.resume_bytes_max = bytes;
        side.limits.chat.resume_stanzas_max = stanzas;
        says(&mut side, ENABLE);
        side.take_words();
        comes(&mut side, 13, "a");
        for _ in 0..200 {
            says(&mut side, PING);
        }
        match &words(&mut side)[..] {
            [ChatRequest::Keep(it)] => assert_eq!((it.seconds, it.id.session), (0, SESSION)),
            other => panic!("{other:?}"),
        }
        assert!(says(&mut side, PING).contains("type='result'"));
        says(&mut side, &has(1));
        assert_eq!(words(&mut side), [upto(13)], "messages are owed as before");
        side.close(now(), CloseReason::PeerReset);
        assert!(matches!(words(&mut side)[..], [ChatRequest::Closed { .. }]));
    }
}

#[test]
fn nothing_is_kept_of_what_is_acknowledged() {
    let (mut side, _) = resumable();
    let left_bytes = |side: &mut Side| breaks(side, CloseReason::PeerReset).bytes;
    let empty = left_bytes(&mut resumable().0);
    for _ in 0..20 {
        says(&mut side, PING);
    }
    comes(&mut side, 13, "a");
    assert_eq!(says(&mut side, &has(21)), "");
    assert_eq!(left_bytes(&mut side), empty);
}

#[test]
fn pages_half_written_and_wishes_that_wait_count_as_what_is_kept() {
    use model::chat::ArchivePage;
    const LONG: usize = 40_000;
    let left_bytes = |side: &mut Side| breaks(side, CloseReason::PeerReset).bytes;
    let empty = left_bytes(&mut resumable().0);
    let long = "x".repeat(LONG);
    let (mut side, _) = resumable();
    says(&mut side, "<iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let number = words(&mut side).into_iter().find_map(|word| match word {
        ChatRequest::Archive { number, .. } => Some(number),
        _ => None,
    });
    let number = number.expect("it is asked");
    let messages = vec![message("bob", "phone", "ann", &long); 4];
    let page = ArchivePage { number, messages, goes_on: None };
    told(&mut side, ChatDelivery::Archive(Box::new(page)));
    side.take_words();
    let (left, two_written) = (left_bytes(&mut side), 2 * LONG);
    assert!(left > empty + two_written + 2 * LONG, "{left}: what waits, beside copies of the rest");
    let vcard = format!("<vCard xmlns='vcard-temp'><FN>{long}</FN></vCard>");
    let conference = format!("<conference jid='a@conference.a.example' name='{long}'/>");
    let bookmarks = format!(
        "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>{conference}\
         <url url='{long}'/></storage></query>"
    );
    for (wish, least) in [(vcard, LONG), (bookmarks, 2 * LONG)] {
        let (mut side, _) = resumable();
        assert_eq!(says(&mut side, &format!("<iq type='set' id='1'>{wish}</iq>")), "");
        side.take_words();
        let left = left_bytes(&mut side);
        assert!(left > empty + least, "{left} bytes");
    }
}

#[test]
fn presence_that_came_meanwhile_stands_behind_what_was_owed() {
    use model::chat::{Availability, Presence};
    let (mut side, id) = resumable();
    let is = |priority| {
        let availability = Availability { priority, ..Availability::default() };
        let (from, device) = (address("bob"), Some("phone".into()));
        let presence = Presence { from, device, availability: Some(availability.into()) };
        ChatDelivery::Presence(Box::new(presence))
    };
    told(&mut side, is(1));
    let left = breaks(&mut side, CloseReason::PeerReset);
    let (_, said) = goes_on(left, (&id, 0), (vec![is(2)], 12));
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("no {text} in {said}"));
    let (one, two) = (at("<priority>1<"), at("<priority>2<"));
    assert!(said.find("<resumed") == Some(0) && one < two, "{said}");
}

#[test]
fn a_room_stays_entered_and_shows_what_was_owed_and_what_came() {
    use super::rooms::{comes, inside, said};
    use model::chat::Content;
    let mut side = inside();
    let enabled = says(&mut side, ENABLE);
    let (id, _) = id_of(&enabled, &mut side);
    let shown = comes(&mut side, 13, said("bob", 5, Content::text("five")));
    assert!(shown.contains("five"));
    let left = breaks(&mut side, CloseReason::PeerReset);
    let (mut side, told_it) = goes_on(left, (&id, 0), (vec![], 14));
    assert_eq!(told_it, resumed(&id, 0));
    assert_eq!(words(&mut side), [pull(12)]);
    let page = model::chat::InboxPage {
        number: 0,
        messages: vec![
            (13, said("bob", 5, Content::text("five"))),
            (14, said("bob", 6, Content::text("six"))),
        ],
        events: vec![],
        upto: 14,
        head: 14,
    };
    let shown = told(&mut side, ChatDelivery::Page(Box::new(page)));
    assert_eq!((shown.matches("five</body>").count(), shown.matches("six</body>").count()), (1, 1));
}

#[test]
fn presence_waits_until_somebody_looks_and_is_the_newest() {
    use model::chat::{Availability, Presence};
    let is = |device: Option<&str>, priority: Option<i8>| {
        let how = |priority| Availability { priority, ..Availability::default() }.into();
        let (from, device) = (address("bob"), device.map(Box::from));
        ChatDelivery::Presence(Box::new(Presence { from, device, availability: priority.map(how) }))
    };
    let mut side = available();
    assert_eq!(says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>"), "");
    for priority in 1..4 {
        assert_eq!(told(&mut side, is(Some("phone"), Some(priority))), "");
        assert_eq!(told(&mut side, is(Some("desk"), Some(priority))), "");
    }
    assert!(
        told(
            &mut side,
            ChatDelivery::Message { seq: 13, message: message("bob", "phone", "ann", "x") }
        )
        .contains("<body>x</body>"),
        "messages come"
    );
    told(&mut side, is(Some("desk"), None));
    let shown = says(&mut side, "<active xmlns='urn:xmpp:csi:0'/>");
    let (one, two) = (shown.find("<priority>3<"), shown.find("unavailable"));
    assert!(one.is_some() && one < two && shown.matches("<presence").count() == 2, "{shown}");
    says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
    told(&mut side, is(Some("phone"), Some(5)));
    assert_eq!(told(&mut side, is(None, None)), "", "it is on no device any more");
    let shown = says(&mut side, "<active xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(shown.matches("<presence").count(), 1);
    says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
    let mut written = 0;
    for n in 0..300 {
        let device = format!("d{n}");
        written += told(&mut side, is(Some(&device), Some(1))).matches("<presence").count();
    }
    assert_eq!(written, 257, "with too many all are written");
    assert_eq!(
        says(&mut side, "<x xmlns='urn:xmpp:csi:0'/>"),
        stream_error("unsupported-stanza-type")
    );
}
