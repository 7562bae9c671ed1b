//! From the header to a bound resource.

use super::super::*;
use super::harness::*;
use super::stream_error;
use model::chat::{DeliveredNews, Login, LoginRefused};
use model::link::{ChannelBindings, TlsFacts};
use model::session::Denial;

const SCRAM: &str = "<mechanism>SCRAM-SHA-256</mechanism>";
const PLAIN: &str = "<mechanism>PLAIN</mechanism>";

fn failure(condition: &str) -> String {
    format!("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><{condition}/></failure>")
}

fn login(side: &mut Side) -> Login {
    match words(side).as_slice() {
        [ChatRequest::Login(login)] => (**login).clone(),
        other => panic!("{other:?}"),
    }
}

fn refused(why: Denial) -> ChatDelivery {
    let refused = LoginRefused { why, retry_after_ms: 0, server: None, who: None };
    ChatDelivery::Refused(Box::new(refused))
}

#[test]
fn whoever_is_to_use_another_server_is_told_which() {
    let mut side = asked();
    login(&mut side);
    let (why, server) = (Denial::UseAnother, Some("a<b:5222".into()));
    let refused = LoginRefused { why, retry_after_ms: 0, server, who: None };
    let said = told(&mut side, ChatDelivery::Refused(Box::new(refused)));
    let moved = "<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>\
                 a&lt;b:5222</see-other-host></stream:error></stream:stream>";
    assert_eq!(said, failure("temporary-auth-failure") + moved);
    assert_eq!(side.ended, Some(CloseReason::Redirected));
}

#[test]
fn what_is_offered_follows_from_the_link() {
    let offered = |link| says(&mut over(link), HEADER);
    let plain = offered(bare());
    assert!(plain.contains(SCRAM) && !plain.contains(PLAIN) && !plain.contains("starttls"));
    let startable = offered(startable());
    assert!(startable.contains("<starttls") && startable.contains("<required/>"));
    assert!(!startable.contains("mechanism"));
    let encrypted = offered(encrypted());
    assert!(encrypted.contains(&format!("{SCRAM}{PLAIN}")) && !encrypted.contains("starttls"));
    assert!(plain.starts_with("<?xml version='1.0'?><stream:stream "));
    assert!(plain.contains(" from='a.example' "));
    let mut later = over(bare());
    later.spend_secret();
    assert_ne!(plain, says(&mut later, HEADER), "each stream has an id of its own");
}

#[test]
fn a_login_may_be_bound_to_its_connection() {
    let bindings = ChannelBindings { exporter: Some([7; 32]), end_point: Some([8; 32].into()) };
    let facts = |bindings: ChannelBindings| TlsFacts {
        bindings: Some(Box::new(bindings)),
        ..TlsFacts::default()
    };
    let over_tls = |facts| over(Link { tls: Some(facts), ..bare() });
    let mut side = over_tls(facts(bindings.clone()));
    let said = says(&mut side, HEADER);
    assert!(said.contains(&format!("<mechanism>SCRAM-SHA-256-PLUS</mechanism>{SCRAM}{PLAIN}")));
    assert!(said.contains(
        "<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/>\
         <channel-binding type='tls-server-end-point'/></sasl-channel-binding>"
    ));
    says(&mut side, &auth("SCRAM-SHA-256-PLUS", "p=tls-exporter,,n=ann,r=x"));
    let asked = login(&mut side);
    assert_eq!(asked.method.expect("an exchange").0.as_ref(), "SCRAM-SHA-256-PLUS");
    assert_eq!(asked.bindings.as_deref(), Some(&bindings));
    let mut side = over_tls(facts(ChannelBindings { exporter: None, ..bindings }));
    assert!(!says(&mut side, HEADER).contains("PLUS"), "TLS 1.2");
    says(&mut side, &auth("SCRAM-SHA-256", "y,,n=ann,r=x"));
    assert_eq!(login(&mut side).bindings, None);
}

#[test]
fn each_hash_is_offered_as_the_listener_says() {
    let bindings = ChannelBindings { exporter: Some([7; 32]), end_point: None };
    let facts = TlsFacts { bindings: Some(Box::new(bindings)), ..TlsFacts::default() };
    let over_tls = Link { tls: Some(facts), ..bare() };
    let offered = |has: [bool; 2], link: &Link| {
        let listener = XmppListener {
            bind_ms_max: 10_000,
            registration: model::ports::users::Registration::Password,
            domains: domains(false),
            scram_sha_256: has[0],
            scram_sha_1: has[1],
            plain: false,
            certificates: true,
            guests: false,
            fast: true,
            advertised: Arc::default(),
        };
        let said = says(&mut at(listener, link.clone()), HEADER);
        let names = |said: &str| {
            let parts = said.split("<mechanism>").skip(1);
            let names = parts.map(|part| part.split('<').next().unwrap_or_default().to_owned());
            names.filter(|name| !name.starts_with("HT-")).collect::<Vec<_>>()
        };
        let (old, new) = said.split_once("<authentication ").unwrap_or((&said, ""));
        assert_eq!(names(old), names(new), "the same by SASL 2");
        (names(old), said.contains("sasl-channel-binding"))
    };
    let (new, old) = ("SCRAM-SHA-256", "SCRAM-SHA-1");
    let (new_bound, old_bound) = ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS");
    for (has, names, bound) in [
        ([true, false], vec![new], vec![new_bound, new]),
        ([false, true], vec![old], vec![old_bound, old]),
        ([true, true], vec![new, old], vec![new_bound, new, old_bound, old]),
        ([false, false], vec![], vec![]),
    ] {
        let told = |names: Vec<&str>| names.into_iter().map(String::from).collect::<Vec<_>>();
        let is_bound = !bound.is_empty();
        assert_eq!(offered(has, &bare()), (told(names), false));
        assert_eq!(offered(has, &over_tls), (told(bound), is_bound));
    }
    let listener = XmppListener {
        bind_ms_max: 10_000,
        registration: model::ports::users::Registration::Password,
        domains: domains(false),
        scram_sha_256: false,
        scram_sha_1: true,
        plain: false,
        certificates: true,
        guests: false,
        fast: true,
        advertised: Arc::default(),
    };
    let mut side = at(listener, over_tls);
    says(&mut side, HEADER);
    assert_eq!(
        says(&mut side, &auth("SCRAM-SHA-256", "n,,n=ann,r=x")),
        failure("invalid-mechanism")
    );
    says(&mut side, &auth("SCRAM-SHA-1-PLUS", "p=tls-exporter,,n=ann,r=x"));
    let asked = login(&mut side);
    assert_eq!(asked.method.expect("an exchange").0.as_ref(), "SCRAM-SHA-1-PLUS");
    assert!(asked.bindings.is_some());
}

#[test]
fn tls_begins_within_the_stream_and_another_stream_behind_it() {
    let mut side = over(startable());
    says(&mut side, HEADER);
    let starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
    assert_eq!(says(&mut side, starttls), "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let late = Now::new(now().after(std::time::Duration::from_secs(60)), 0);
    assert_eq!(side.machine.wake(late, &mut out), Ok(()), "the handshake has its own time");
    side.machine.tls_started(late, Ok(&encrypted()), &mut out).expect("it stands");
    assert_eq!(out.take_wake(), Some(late.after(std::time::Duration::from_secs(10))));
    let mut again = over(encrypted());
    std::mem::swap(&mut again.machine, &mut side.machine);
    assert!(says(&mut again, HEADER).contains(PLAIN), "features behind TLS");
}

#[test]
fn tls_that_is_not_offered_ends_the_stream() {
    let mut side = begun();
    let said = says(&mut side, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(said, "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>");
    assert_eq!(side.ended, Some(CloseReason::OutOfOrder));
}

#[test]
fn a_password_is_not_taken_before_tls() {
    let mut side = over(startable());
    says(&mut side, HEADER);
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        assert_eq!(says(&mut side, &auth(mechanism, "\0ann\0x")), failure("encryption-required"));
    }
    let mut side = over(bare());
    says(&mut side, HEADER);
    assert_eq!(says(&mut side, &auth("PLAIN", "\0ann\0x")), failure("invalid-mechanism"));
    assert!(words(&mut side).is_empty() && side.homes.is_empty());
}

#[test]
fn a_login_goes_home_once_and_is_asked_there() {
    let mut side = begun();
    assert_eq!(says(&mut side, &auth("PLAIN", "\0Ann\0secret")), "");
    let home = address("ann").home_hash(base::hash::HashKey::new(1, 2));
    assert_eq!(side.homes, [home]);
    let asked = login(&mut side);
    assert_eq!((asked.protocol, &asked.account, asked.binds), ("xmpp", &address("ann"), true));
    assert_eq!((asked.password.as_deref(), asked.method), (Some(&b"secret"[..]), None));
    assert!(asked.tls && asked.near && asked.device.is_empty() && asked.certificate.is_none());
    let said = told(&mut side, yes());
    assert_eq!(said, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'></success>");
    assert_eq!(side.silence_ms, 300_000);
    let said = says(&mut side, HEADER);
    assert!(said.contains("<bind ") && !said.contains("mechanism"), "{said}");
}

#[test]
fn an_exchange_goes_on_until_the_service_says_yes() {
    let mut side = begun();
    says(&mut side, &auth("SCRAM-SHA-256", "n,,n=ann,r=x"));
    let method = Some(("SCRAM-SHA-256".into(), b"n,,n=ann,r=x".as_slice().into()));
    assert_eq!(login(&mut side).method, method);
    let said = told(&mut side, ChatDelivery::Challenge(b"r=xy".as_slice().into()));
    assert_eq!(said, "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>cj14eQ==</challenge>");
    says(&mut side, "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>Yz1iaXdz</response>");
    let proceed = ChatRequest::Proceed(b"c=biws".as_slice().into());
    assert_eq!(words(&mut side), [proceed]);
    let ChatDelivery::LoggedIn(mut accepted) = yes() else { unreachable!("it is") };
    accepted.data = Some(b"v=1".as_slice().into());
    let said = told(&mut side, ChatDelivery::LoggedIn(accepted));
    assert_eq!(said, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>dj0x</success>");
}

#[test]
fn a_mechanism_may_be_chosen_without_a_first_message() {
    let mut side = begun();
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>";
    let said = says(&mut side, auth);
    assert_eq!(said, "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'></challenge>");
    let response = "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AGFubgB4</response>";
    assert_eq!(says(&mut side, response), "");
    assert_eq!(login(&mut side).password.as_deref(), Some(&b"x"[..]));
}

#[test]
fn a_failed_login_may_be_tried_again_as_somebody_else_and_not_for_ever() {
    let mut side = asked();
    side.take_words();
    assert_eq!(told(&mut side, refused(Denial::BadCredentials)), failure("not-authorized"));
    says(&mut side, &auth("PLAIN", "\0bob\0x"));
    assert_eq!((login(&mut side).account, side.homes.len()), (address("bob"), 2));
    assert_eq!(told(&mut side, refused(Denial::BadCredentials)), failure("not-authorized"));
    says(&mut side, &auth("PLAIN", "\0ann\0y"));
    login(&mut side);
    let said = told(&mut side, refused(Denial::BadCredentials));
    assert_eq!(said, failure("not-authorized") + &stream_error("policy-violation"));
    assert_eq!(side.ended, Some(CloseReason::AuthFailed));
    assert!(words(&mut side).is_empty(), "the service knows that it is over");
}

#[test]
fn what_is_no_login_fails_and_counts() {
    for (message, condition) in [
        (auth("PLAIN", "ann"), "malformed-request"),
        (auth("PLAIN", "bob\0ann\0x"), "invalid-authzid"),
        (auth("PLAIN", "\0ann@b.example\0x"), "not-authorized"),
        (auth("SCRAM-SHA-256-PLUS", "p=tls-exporter,,n=ann,r=x"), "invalid-mechanism"),
        (auth("SCRAM-SHA-1", "n,,n=ann,r=x"), "invalid-mechanism"),
        (auth("PLAIN", "\0ann\0x").replace("AG", "A*"), "incorrect-encoding"),
        ("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>".into(), "malformed-request"),
        ("<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>".into(), "malformed-request"),
    ] {
        let mut side = begun();
        assert_eq!(says(&mut side, &message.repeat(2)), failure(condition).repeat(2), "{message}");
        assert_eq!(side.ended, None);
        assert!(says(&mut side, &message).ends_with(&stream_error("policy-violation")));
    }
}

#[test]
fn an_exchange_that_is_given_up_is_forgotten() {
    let mut side = challenged();
    side.take_words();
    let said = says(&mut side, "<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(said, failure("aborted"));
    assert_eq!(words(&mut side), [ChatRequest::Gone]);
    says(&mut side, &auth("PLAIN", "\0ann\0x"));
    login(&mut side);
}

#[test]
fn a_refusal_that_is_nobody_s_fault_is_the_end() {
    for (why, condition, fault, reason) in [
        (Denial::Busy, "temporary-auth-failure", "resource-constraint", CloseReason::Busy),
        (Denial::Full, "temporary-auth-failure", "resource-constraint", CloseReason::Full),
        (Denial::Banned, "account-disabled", "policy-violation", CloseReason::Banned),
        (Denial::ShuttingDown, "temporary-auth-failure", "system-shutdown", CloseReason::Draining),
    ] {
        let mut side = asked();
        let said = told(&mut side, refused(why));
        assert_eq!(said, failure(condition) + &stream_error(fault));
        assert_eq!(side.ended, Some(reason));
    }
}

#[test]
fn what_comes_behind_a_login_waits_for_its_answer() {
    let mut side = asked();
    assert_eq!(says(&mut side, HEADER), "");
    assert_eq!(side.untaken(), HEADER.as_bytes());
    let said = told(&mut side, yes());
    assert!(said.contains("<success ") && said.ends_with("</stream:features>"), "{said}");
    assert!(side.untaken().is_empty());
}

#[test]
fn a_resource_is_what_was_wanted_or_made_up() {
    let jid = |bind: &str, device: &str| {
        let mut side = granted();
        side.take_words();
        assert_eq!(says(&mut side, bind), "");
        let wanted = match words(&mut side).as_slice() {
            [ChatRequest::Bind { session: SESSION, device }] => device.clone(),
            other => panic!("{other:?}"),
        };
        (wanted, told(&mut side, ChatDelivery::Bound { device: device.into() }))
    };
    let result = |device: &str| {
        format!(
            "<iq type='result' id='b' to='ann@a.example/{device}'>\
             <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>ann@a.example/{device}</jid>\
             </bind></iq>"
        )
    };
    assert_eq!(jid(BIND, "desk"), (Some("desk".into()), result("desk")));
    let bare = BIND.replace("<resource>desk</resource>", "");
    assert_eq!(jid(&bare, "1f"), (None, result("1f")));
    for other in ["caf\u{e9}", "", &"x".repeat(65)] {
        assert_eq!(jid(&BIND.replace("desk", other), "1f"), (None, result("1f")), "{other}");
    }
}

#[test]
fn news_of_the_moment_are_not_for_a_device_without_a_name() {
    let mut side = granted();
    let news = DeliveredNews { with: address("bob"), upto: 1 };
    assert_eq!(told(&mut side, ChatDelivery::Delivered(Box::new(news))), "");
    assert!(says(&mut side, "<presence/>").contains("<not-authorized "), "it goes on");
}
