//! Several domains on one listener, and logins without a password: by certificate, and as a guest.

use super::super::*;
use super::harness::*;
use model::chat::{ChatRequest, Login};
use model::link::{CertificateName, PeerCertificate, TlsFacts};

fn listener() -> XmppListener {
    XmppListener {
        bind_ms_max: 10_000,
        registration: model::ports::users::Registration::Password,
        domains: domains(false),
        scram_sha_256: true,
        scram_sha_1: false,
        plain: true,
        certificates: true,
        guests: true,
        fast: true,
        advertised: Arc::default(),
    }
}

fn header(domain: &str) -> String {
    HEADER.replace("a.example", domain)
}

/// The login that is with the service.
fn login(side: &mut Side) -> Login {
    let words: Vec<ChatRequest> = side.take_words_as();
    match &words[..] {
        [ChatRequest::Login(login)] => (**login).clone(),
        other => panic!("{other:?}"),
    }
}

fn certified(names: &[&str]) -> Link {
    let names = names.iter().map(|name| CertificateName::Xmpp((*name).into())).collect();
    let certificate = PeerCertificate { names, ..PeerCertificate::default() };
    let facts = TlsFacts { certificate: Some(Box::new(certificate)), ..TlsFacts::default() };
    Link { tls: Some(facts), ..bare() }
}

#[test]
fn a_stream_is_of_the_domain_that_it_names() {
    let mut side = at(listener(), encrypted());
    let said = says(&mut side, &header("M.example"));
    assert!(said.contains(" from='m.example'"), "{said}");
    for forged in ["\0ann@a.example\0secret", "ann@a.example\0ann\0secret"] {
        let said = says(&mut side, &auth("PLAIN", forged));
        assert!(said.contains("<failure "), "{forged} {said}");
    }
    let mut side = at(listener(), encrypted());
    says(&mut side, &header("m.example"));
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    assert_eq!(login(&mut side).account.as_str(), "ann@m.example");
    for unknown in ["d.example", "conference.a.example", "x.a.example", ""] {
        let said = says(&mut at(listener(), encrypted()), &header(unknown));
        assert!(said.contains("<host-unknown "), "{unknown} {said}");
    }
}

#[test]
fn behind_a_login_the_stream_stays_with_the_account_s_domain() {
    let mut side = at(listener(), encrypted());
    says(&mut side, HEADER);
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    told(&mut side, yes());
    let said = says(&mut side, &header("m.example"));
    assert!(said.contains("<host-unknown "), "{said}");
}

#[test]
fn a_neighbour_of_another_domain_is_one() {
    let mut side = at(listener(), encrypted());
    for step in [HEADER, &auth("PLAIN", "\0ann\0secret")] {
        says(&mut side, step);
    }
    told(&mut side, yes());
    says(&mut side, HEADER);
    says(&mut side, BIND);
    told(&mut side, model::chat::ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    let said = says(&mut side, "<message id='1' to='bob@m.example'><body>hi</body></message>");
    assert_eq!(said, "");
    let words: Vec<ChatRequest> = side.take_words_as();
    assert!(matches!(&words[..], [ChatRequest::Send { .. }]), "{words:?}");
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let said = says(&mut side, &format!("<iq type='get' id='2' to='m.example'>{items}</iq>"));
    assert!(said.contains("from='m.example'") && said.contains("conference.m.example"), "{said}");
    let ping = "<ping xmlns='urn:xmpp:ping'/>";
    for (whom, fault) in [
        ("bob@m.example", "service-unavailable"),
        ("bob@d.example/x", "remote-server-not-found"),
        ("d.example", "remote-server-not-found"),
    ] {
        let said = says(&mut side, &format!("<iq type='get' id='3' to='{whom}'>{ping}</iq>"));
        assert!(said.contains(fault), "{whom} {said}");
    }
}

#[test]
fn a_certificate_says_who_comes() {
    let names = ["ann@a.example", "bob@m.example"];
    for (domain, user) in [("a.example", "ann"), ("m.example", "bob@m.example")] {
        let mut side = at(listener(), certified(&names));
        let said = says(&mut side, &header(domain));
        assert!(said.contains("<mechanism>EXTERNAL</mechanism>"), "{said}");
        assert_eq!(says(&mut side, &auth("EXTERNAL", "")), "");
        let login = login(&mut side);
        assert_eq!(login.certificate.as_deref(), Some(user));
        let method = login.method.expect("it has one").0;
        assert_eq!((login.account.domain(), &*method), (domain, "EXTERNAL"));
        assert_eq!(login.password, None);
    }
    let offered = |listener: XmppListener, link: Link| {
        says(&mut at(listener, link), HEADER).contains("EXTERNAL")
    };
    assert!(!offered(listener(), encrypted()) && !offered(listener(), certified(&["x@d.example"])));
    assert!(!offered(XmppListener { certificates: false, ..listener() }, certified(&names)));
    let mut side = at(listener(), encrypted());
    says(&mut side, HEADER);
    let said = says(&mut side, &auth("EXTERNAL", "ann@a.example"));
    assert!(said.contains("<invalid-mechanism/>"), "{said}");
}

#[test]
fn a_guest_has_a_name_that_is_made_up() {
    let mut side = at(listener(), bare());
    assert!(says(&mut side, &header("m.example")).contains("<mechanism>ANONYMOUS</mechanism>"));
    assert_eq!(says(&mut side, &auth("ANONYMOUS", "I am Ann")), "");
    let login = login(&mut side);
    assert_eq!(login.account.domain(), "m.example");
    assert!(login.account.name().starts_with("guest-"), "{}", login.account);
    let method = login.method.expect("it has one");
    assert_eq!((&*method.0, &*method.1), ("ANONYMOUS", &b""[..]), "nothing of it is kept");
    let mut side = at(XmppListener { guests: false, ..listener() }, bare());
    assert!(!says(&mut side, HEADER).contains("ANONYMOUS"));
    assert!(says(&mut side, &auth("ANONYMOUS", "")).contains("<invalid-mechanism/>"));
}
