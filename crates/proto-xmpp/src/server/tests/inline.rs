//! Requests along with a login.

use super::super::*;
use super::harness::*;
use super::stream_error;
use model::chat::{FastAnswer, FastBinding, FastOutcome, LoginRefused, Resumed};
use model::link::{ChannelBindings, Link, TlsFacts};
use model::session::Denial;

const V2: &str = "urn:xmpp:sasl:2";
const AGENT: &str = "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'/>";
const BIND2: &str = "<bind xmlns='urn:xmpp:bind:0'><tag>App</tag>\
    <enable xmlns='urn:xmpp:carbons:2'/><enable xmlns='urn:xmpp:sm:3' resume='true'/>\
    <inactive xmlns='urn:xmpp:csi:0'/></bind>";
const WISH: &str = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-EXPR'/>";

fn authenticate(mechanism: &str, first: &[u8], inner: &str) -> String {
    let first = crate::sasl::encoded(first);
    format!(
        "<authenticate xmlns='{V2}' mechanism='{mechanism}'>\
         <initial-response>{first}</initial-response>{inner}</authenticate>"
    )
}

fn plain(inner: &str) -> String {
    authenticate("PLAIN", b"\0ann\0secret", inner)
}

fn failure(condition: &str) -> String {
    format!(
        "<failure xmlns='{V2}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>"
    )
}

fn success(data: &str, jid: &str, inner: &str) -> String {
    format!(
        "<success xmlns='{V2}'>{data}<authorization-identifier>{jid}</authorization-identifier>\
         {inner}</success>"
    )
}

/// In TLS that logins may be bound to.
fn tls() -> Link {
    let end_point = Some([8; 32].as_slice().into());
    let bindings = ChannelBindings { exporter: Some([7; 32]), end_point };
    Link {
        tls: Some(TlsFacts { bindings: Some(Box::new(bindings)), ..TlsFacts::default() }),
        ..bare()
    }
}

fn over_tls() -> Side {
    let mut side = over(tls());
    says(&mut side, HEADER);
    side
}

fn one(side: &mut Side) -> ChatRequest {
    let mut all = words(side);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn binds(side: &mut Side, device: &str) -> String {
    let wanted = match one(side) {
        ChatRequest::Bind { device, .. } => device,
        other => panic!("{other:?}"),
    };
    let is_own = wanted.as_deref().is_some_and(|it| it.starts_with("App~") && it.len() == 20);
    assert!(is_own, "{wanted:?}");
    told(side, ChatDelivery::Bound { device: device.into() })
}

#[test]
fn it_is_offered_with_what_goes_along() {
    let said = says(&mut over(tls()), HEADER);
    let offer = said.split("<authentication xmlns='urn:xmpp:sasl:2'>").nth(1).expect("an offer");
    assert!(offer.contains(
        "<inline><bind xmlns='urn:xmpp:bind:0'><inline><feature var='urn:xmpp:carbons:2'/>\
         <feature var='urn:xmpp:csi:0'/><feature var='urn:xmpp:sm:3'/></inline></bind>\
         <sm xmlns='urn:xmpp:sm:3'/><fast xmlns='urn:xmpp:fast:0'>\
         <mechanism>HT-SHA-256-EXPR</mechanism><mechanism>HT-SHA-256-ENDP</mechanism>\
         <mechanism>HT-SHA-256-NONE</mechanism></fast></inline></authentication>"
    ));
    let said = says(&mut over(bare()), HEADER);
    assert!(said.contains("<authentication ") && !said.contains("HT-SHA"), "nothing without TLS");
    assert!(!says(&mut over(startable()), HEADER).contains("<authentication "));
}

#[test]
fn who_knows_how_it_logs_in_is_online_in_one_round_trip() {
    let mut side = over(tls());
    let ping = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    // All of it comes at once.
    let begun = says(&mut side, &format!("{HEADER}{}{ping}", plain(&format!("{AGENT}{BIND2}"))));
    assert!(begun.ends_with("</stream:features>"), "{begun}");
    assert!(matches!(one(&mut side), ChatRequest::Login(it) if it.binds));
    assert_eq!(told(&mut side, yes()), "");
    let said = binds(&mut side, "App~1");
    let keep = side.take_words_as::<ChatRequest>();
    assert!(matches!(&keep[..], [ChatRequest::Keep(it)] if it.id.session == SESSION), "{keep:?}");
    let jid = "ann@a.example/App~1";
    let (before, after) = said.split_once("<enabled xmlns='urn:xmpp:sm:3' id='").expect("enabled");
    assert_eq!(
        before,
        success("", jid, "<bound xmlns='urn:xmpp:bind:0'>").trim_end_matches("</success>")
    );
    let rest = "' resume='true' max='300'/></bound></success><stream:features/><iq ";
    assert!(after[48..].starts_with(rest), "{after}");
    assert!(after.contains("id='p'"), "what it says besides is answered: {after}");
    // Carbons, and nobody looks.
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 12 });
    let own = message("ann", "phone", "bob", "x");
    let carbon = told(&mut side, ChatDelivery::Message { seq: 13, message: own });
    assert!(carbon.contains("<sent xmlns='urn:xmpp:carbons:2'>"), "{carbon}");
}

#[test]
fn a_login_that_brings_nothing_goes_on_as_it_always_did() {
    let mut side = over_tls();
    says(&mut side, &plain(""));
    side.take_words();
    let said = told(&mut side, yes());
    assert!(said.starts_with(&success("", "ann@a.example", "")), "{said}");
    assert!(said.ends_with("</stream:features>") && said.contains("<bind "), "{said}");
    says(&mut side, BIND);
    assert!(matches!(one(&mut side), ChatRequest::Bind { .. }));
    assert!(told(&mut side, ChatDelivery::Bound { device: "desk".into() }).contains("<jid>"));
}

#[test]
fn an_exchange_is_spoken_of_in_the_words_it_began_with() {
    let mut side = over_tls();
    let begin = authenticate("SCRAM-SHA-256", b"n,,n=ann,r=x", BIND2);
    assert_eq!(says(&mut side, &begin), "");
    side.take_words();
    let challenge = told(&mut side, ChatDelivery::Challenge(b"r=xy".as_slice().into()));
    assert_eq!(challenge, format!("<challenge xmlns='{V2}'>cj14eQ==</challenge>"));
    says(&mut side, &format!("<response xmlns='{V2}'>Yz1iaXdz</response>"));
    assert!(matches!(one(&mut side), ChatRequest::Proceed(data) if *data == *b"c=biws"));
    let ChatDelivery::LoggedIn(mut it) = yes() else { panic!("a yes") };
    it.data = Some(b"v=1".as_slice().into());
    assert_eq!(told(&mut side, ChatDelivery::LoggedIn(it)), "");
    assert!(matches!(one(&mut side), ChatRequest::Bind { device: None, .. }), "it says not which");
    let said = told(&mut side, ChatDelivery::Bound { device: "x".into() });
    assert!(
        said.starts_with(&format!("<success xmlns='{V2}'><additional-data>dj0x</additional-data>"))
    );
    let refused =
        LoginRefused { why: Denial::BadCredentials, retry_after_ms: 0, server: None, who: None };
    let mut side = over_tls();
    says(&mut side, &plain(BIND2));
    let said = told(&mut side, ChatDelivery::Refused(Box::new(refused)));
    assert_eq!(said, failure("not-authorized"));
    // Another one may be in the older words.
    side.take_words();
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    side.take_words();
    assert_eq!(
        told(&mut side, yes()),
        "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'></success>"
    );
}

#[test]
fn what_makes_no_sense_fails_and_three_times_ends_the_stream() {
    let resume = "<resume xmlns='urn:xmpp:sm:3' previd='x' h='y'/>";
    for (wrong, condition) in [
        (plain(resume), "malformed-request"),
        (authenticate("X", b"x", ""), "invalid-mechanism"),
        (format!("<authenticate xmlns='{V2}'/>"), "invalid-mechanism"),
        (format!("<response xmlns='{V2}'/>"), "malformed-request"),
        (format!("<abort xmlns='{V2}'/>"), "malformed-request"),
        (authenticate("PLAIN", b"ann", ""), "malformed-request"),
        (
            authenticate("HT-SHA-256-EXPR", &[b"ann\0", &[1; 32][..]].concat(), AGENT),
            "malformed-request",
        ),
        (authenticate("HT-SHA-256-EXPR", b"ann\0short", &fast(AGENT)), "malformed-request"),
        (authenticate("HT-SHA-256-UNIQ", b"x", &fast(AGENT)), "invalid-mechanism"),
        (authenticate("HT-SHA-256-NONE", b"x", &fast("")), "malformed-request"),
    ] {
        let mut side = over_tls();
        for _ in 0..2 {
            assert_eq!(says(&mut side, &wrong), failure(condition), "{wrong}");
        }
        let end = format!("{}{}", failure(condition), stream_error("policy-violation"));
        assert_eq!(says(&mut side, &wrong), end);
        assert_eq!(side.ended, Some(CloseReason::AuthFailed));
    }
    let mut side = over(startable());
    says(&mut side, HEADER);
    assert_eq!(says(&mut side, &plain("")), failure("encryption-required"));
    let mut side = over_tls();
    says(&mut side, &format!("<authenticate xmlns='{V2}' mechanism='SCRAM-SHA-256'/>"));
    assert_eq!(says(&mut side, &format!("<abort xmlns='{V2}'/>")), failure("aborted"));
}

fn answer(outcome: FastOutcome) -> ChatDelivery {
    ChatDelivery::Token(Box::new(FastAnswer { number: 0, outcome }))
}

fn fast(agent: &str) -> String {
    format!("{agent}<fast xmlns='urn:xmpp:fast:0' count='1'/>")
}

#[test]
fn a_token_is_given_once_it_is_stored_and_shown_by_a_mac() {
    let mut side = over_tls();
    says(&mut side, &plain(&format!("{AGENT}{WISH}{BIND2}")));
    side.take_words();
    assert_eq!(told(&mut side, yes()), "");
    let wish = match one(&mut side) {
        ChatRequest::Token(wish) => *wish,
        other => panic!("{other:?}"),
    };
    assert_eq!((wish.binding, wish.session), (FastBinding::Exporter, SESSION));
    let secret = wish.secret.expect("drawn for it");
    let given = FastOutcome::Given { secret, until_s: 1_700_000_060 };
    assert_eq!(told(&mut side, answer(given)), "");
    let said = binds(&mut side, "App~1");
    let secret: String = secret.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!(
        "<token xmlns='urn:xmpp:fast:0' expiry='2023-11-14T22:14:20.000Z' token='{secret}'/>\
         <bound xmlns='urn:xmpp:bind:0'>"
    );
    assert!(said.contains(&token), "{said}");
    // It comes back with it, and wants no other.
    let mut side = over_tls();
    let shown = [b"ann\0", &[9; 32][..]].concat();
    says(&mut side, &authenticate("HT-SHA-256-EXPR", &shown, &format!("{}{BIND2}", fast(AGENT))));
    match one(&mut side) {
        ChatRequest::Redeem(it) => {
            assert_eq!((it.mac, &*it.bound, it.invalidates), ([9; 32], &[7; 32][..], false));
            assert_eq!((Some(it.agent), it.binding), (wish.agent, wish.binding));
            assert!(it.login.password.is_none() && it.login.method.is_none());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(side.homes.len(), 1);
    told(&mut side, yes());
    assert!(!binds(&mut side, "App~1").contains("<token"));
    // None is given: the login is one as well.
    let mut side = over_tls();
    says(&mut side, &plain(&format!("{AGENT}{WISH}")));
    side.take_words();
    told(&mut side, yes());
    let said = told(&mut side, answer(FastOutcome::Denied));
    assert!(said.starts_with(&success("", "ann@a.example", "")), "{said}");
    // Bound to what this connection does not have.
    let mut side = over(encrypted());
    says(&mut side, HEADER);
    let shown = authenticate("HT-SHA-256-EXPR", &shown, &fast(AGENT));
    assert_eq!(says(&mut side, &shown), failure("invalid-mechanism"));
}

#[test]
fn where_no_password_is_taken_tokens_are_neither_offered_nor_given_nor_taken() {
    let closed = || {
        let mut side = at(XmppListener { fast: false, ..listener() }, tls());
        let said = says(&mut side, HEADER);
        assert!(said.contains("<authentication ") && !said.contains("urn:xmpp:fast:0"), "{said}");
        side
    };
    let shown = [b"ann\0", &[9; 32][..]].concat();
    let shown = authenticate("HT-SHA-256-EXPR", &shown, &fast(AGENT));
    let mut side = closed();
    assert_eq!(says(&mut side, &shown), failure("invalid-mechanism"));
    assert!(words(&mut side).is_empty() && side.homes.is_empty());
    let mut side = closed();
    says(&mut side, &plain(&format!("{AGENT}{WISH}")));
    side.take_words();
    let said = told(&mut side, yes());
    assert!(said.starts_with(&success("", "ann@a.example", "")), "{said}");
}

#[test]
fn who_cannot_go_on_is_bound_instead_and_told_both() {
    let id = "0".repeat(48);
    for (id, asks) in [(&*id, true), ("x", false)] {
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='3'/>");
        let mut side = over_tls();
        says(&mut side, &plain(&format!("{AGENT}{resume}{BIND2}")));
        side.take_words();
        told(&mut side, yes());
        if asks {
            assert!(matches!(one(&mut side), ChatRequest::Resume { .. }));
            assert_eq!(told(&mut side, ChatDelivery::NotResumed { handled: Some(2) }), "");
        }
        let said = binds(&mut side, "App~1");
        let failed = if asks {
            "<failed xmlns='urn:xmpp:sm:3' h='2'>"
        } else {
            "<failed xmlns='urn:xmpp:sm:3'>"
        };
        let at = said.find(failed).unwrap_or_else(|| panic!("{said}"));
        assert!(at < said.find("<bound ").expect("bound"), "{said}");
    }
}

#[test]
fn who_goes_on_is_told_so_within_its_success() {
    let mut side = over_tls();
    says(&mut side, &plain(&format!("{AGENT}{BIND2}")));
    side.take_words();
    told(&mut side, yes());
    let said = binds(&mut side, "App~1");
    let id = said.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
    side.take_words();
    let message = "<message to='bob@a.example' type='chat' id='x'><body>hi</body></message>";
    says(&mut side, message);
    side.close(now(), CloseReason::PeerReset);
    let left = match words(&mut side).pop() {
        Some(ChatRequest::Detach(left)) => *left,
        other => panic!("{other:?}"),
    };
    let mut side = over_tls();
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>");
    says(&mut side, &plain(&format!("{AGENT}{resume}{BIND2}")));
    side.take_words();
    told(&mut side, yes());
    side.take_words();
    let resumed = Resumed { session: SESSION, kept: left.kept, waiting: vec![], head: 12 };
    assert_eq!(told(&mut side, ChatDelivery::Resumed(Box::new(resumed))), "", "it is not stored");
    let sent = ChatDelivery::Sent { number: 1, id: 1, seq: 1, at_ms: 1, again: false };
    let inner = format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='1'/>");
    let expected = success("", "ann@a.example/App~1", &inner) + "<stream:features/>";
    assert_eq!(told(&mut side, sent), expected);
}
