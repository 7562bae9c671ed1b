//! Streams between servers, and of components: what a side says to what it hears.

use super::*;
use base::time::Now;
use model::link::{CertificateName, Link, PeerCertificate, Protocol, Source, TlsFacts};
use testkit::pair::PairSide;

type Side = PairSide<Peer>;

const OPEN: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:server' \
    xmlns:db='jabber:server:dialback' xmlns:stream='http://etherx.jabber.org/streams'";

pub(super) fn profile(requires_tls: bool) -> Arc<PeerProfile> {
    Arc::new(PeerProfile {
        rooms: "conference.a.example".into(),
        components: vec![("echo.a.example".into(), ComponentSecret("secret".into()))],
        domains: Arc::new(ForeignDomains {
            components: ["echo.a.example".into()].into(),
            ..(*crate::server::tests::harness::domains(true)).clone()
        }),
        peers: PeerDomains { allow: [].into(), deny: ["denied.example".into()].into() },
        secret: DialbackSecret::new(b"cluster"),
        requires_tls,
        requires_certificates: false,
        certified: ["a.example".into()].into(),
        begin_ms_max: 10_000,
        idle_s_max: 60,
        stream_bytes_per_s: 0,
        acknowledged_ms_max: 10_000,
    })
}

/// Of a.example and b.example.
fn pair() -> DomainPair {
    pair_of("a.example")
}

fn pair_of(own: &str) -> DomainPair {
    DomainPair { own: own.into(), peer: "b.example".into() }
}

fn bare() -> Link {
    Link::loopback(Protocol::Xmpp)
}

fn encrypted(names: &[&str]) -> Link {
    let names = names.iter().map(|name| CertificateName::Dns((*name).into())).collect();
    let certificate = PeerCertificate { names, ..PeerCertificate::default() };
    let facts = TlsFacts { certificate: Some(Box::new(certificate)), ..TlsFacts::default() };
    Link { tls: Some(facts), ..bare() }
}

fn says(side: &mut Side, text: &str) -> String {
    String::from_utf8(side.hear(Now::default(), text.as_bytes())).expect("UTF-8")
}

fn told(side: &mut Side, order: PeerOrder) -> String {
    String::from_utf8(side.tell(Now::default(), order)).expect("UTF-8")
}

/// A stream of another server, from its header on.
fn incoming(link: Link, requires_tls: bool) -> (Side, String) {
    let mut side = PairSide::new(Peer::incoming(profile(requires_tls), 1), link);
    side.open(Now::default());
    let features =
        says(&mut side, &format!("{OPEN} from='b.example' to='a.example' version='1.0'>"));
    (side, features)
}

/// The other server shows a key of b.example to one of ours: what is to be asked about it.
fn shows(side: &mut Side, own: &str) -> Box<DialbackProof> {
    let key = format!("<db:result from='b.example' to='{own}'>key</db:result>");
    assert_eq!(says(side, &key), "");
    match side.take_words().pop() {
        Some(PeerWord::Shows { proof, .. }) => proof,
        other => panic!("{other:?}"),
    }
}

fn id_of(header: &str) -> &str {
    header.split_once(" id='").and_then(|(_, rest)| rest.split_once('\'')).expect("an id").0
}

const MESSAGE: &str =
    "<message from='bob@b.example/x' to='ann@a.example'><body>hi</body></message>";

#[test]
fn a_domain_is_believed_when_its_own_server_has_said_so() {
    let (mut side, features) = incoming(bare(), false);
    assert!(features.contains("urn:xmpp:features:dialback") && !features.contains("EXTERNAL"));
    let id = id_of(&features).to_owned();
    assert_eq!(says(&mut side, "<db:result from='b.example' to='a.example'>key</db:result>"), "");
    let proof = DialbackProof { pair: pair(), id: id.as_str().into(), key: "key".into() };
    let source = Source::of(bare().peer.ip());
    let shows = PeerWord::Shows { proof: Box::new(proof), number: 1, source };
    assert_eq!(side.take_words(), [shows]);
    let said = told(&mut side, PeerOrder::Shown(pair(), Some(true)));
    assert_eq!(said, "<db:result from='a.example' to='b.example' type='valid'></db:result>");
    assert_eq!(says(&mut side, MESSAGE), "");
    let from = "b.example".into();
    let xml = MESSAGE.as_bytes().into();
    assert_eq!(side.take_words(), [PeerWord::Stanza { from, xml, place: None }]);
}

#[test]
fn a_stream_that_brings_more_than_its_rate_is_read_more_slowly() {
    let slow = Arc::new(PeerProfile { stream_bytes_per_s: 1_024, ..(*profile(false)).clone() });
    let mut side = PairSide::new(Peer::incoming(slow, 1), bare());
    let at = |ms: u64| Now::new(base::time::Instant::from_nanos(ms * 1_000_000), 0);
    side.open(at(0));
    side.hear(at(0), format!("{OPEN} from='b.example' to='a.example' version='1.0'>").as_bytes());
    side.hear(at(0), b"<db:result from='b.example' to='a.example'>key</db:result>");
    side.tell(at(0), PeerOrder::Shown(pair(), Some(true)));
    side.take_words();
    // Each costs its bytes and 512: some 0.57 s. Two seconds' worth may be owed.
    side.hear(at(0), MESSAGE.repeat(20).as_bytes());
    assert_eq!(side.take_words().len(), 4);
    assert!(!side.untaken().is_empty());
    let mut read = 0;
    for ms in (0..8_000).step_by(100) {
        side.pass(at(ms));
        side.hear(at(ms), b"");
        read += side.take_words().len();
    }
    assert!((10..=15).contains(&read), "{read} in 8 s");
    assert!(side.ended.is_none());
}

#[test]
fn rooms_have_a_name_of_their_own_among_servers() {
    let mut side = PairSide::new(Peer::incoming(profile(false), 1), bare());
    side.open(Now::default());
    let header = format!("{OPEN} from='b.example' to='conference.a.example' version='1.0'>");
    let features = says(&mut side, &header);
    assert!(features.contains(" from='conference.a.example'"), "{features}");
    let proof = shows(&mut side, "conference.a.example");
    assert_eq!(&*proof.pair.own, "conference.a.example");
    let said = told(&mut side, PeerOrder::Shown(proof.pair, Some(true)));
    assert!(said.starts_with("<db:result from='conference.a.example' to='b.example'"), "{said}");
    let to_room = MESSAGE.replace("ann@a.example", "yard@conference.a.example");
    assert_eq!(says(&mut side, &to_room), "");
    assert_eq!(side.take_words().len(), 1);
    // A key of theirs that is shown to us is asked about in the name that it was shown to.
    let pair = pair_of("conference.a.example");
    let mut side = PairSide::new(Peer::outgoing(profile(false), 7, pair.clone()), bare());
    let header = String::from_utf8(side.open(Now::default())).expect("UTF-8");
    assert!(header.contains("from='conference.a.example' to='b.example'"), "{header}");
    says(&mut side, &format!("{OPEN} from='b.example' id='77' version='1.0'>"));
    let said = says(&mut side, "<stream:features/>");
    let key = DialbackSecret::new(b"cluster").key("b.example", "conference.a.example", "77");
    assert!(said.contains(&key) && said.contains("from='conference.a.example'"), "{said}");
    says(&mut side, "<db:result from='b.example' to='conference.a.example' type='valid'/>");
    assert_eq!(side.take_words(), [PeerWord::Ready(pair)]);
    // And other servers ask about ours.
    let (mut side, _) = incoming(bare(), false);
    let (to, from) = ("conference.a.example", "b.example");
    let asked = format!("<db:verify from='{from}' to='{to}' id='77'>{key}</db:verify>");
    assert!(says(&mut side, &asked).contains("type='valid'"));
    let mut side = PairSide::new(Peer::incoming(profile(false), 1), bare());
    side.open(Now::default());
    let header = format!("{OPEN} from='b.example' to='live.a.example' version='1.0'>");
    assert!(says(&mut side, &header).contains("<host-unknown"));
}

#[test]
fn who_was_not_shown_or_says_another_domain_is_not_heard() {
    let (mut side, _) = incoming(bare(), false);
    let said = says(&mut side, MESSAGE);
    assert!(said.contains("<not-authorized") && side.ended.is_some(), "{said}");
    for (forged, fault) in [
        ("<message from='x@c.example' to='ann@a.example'/>", "<invalid-from"),
        ("<message to='ann@a.example'/>", "<improper-addressing"),
        ("<message from='x@b.example'/>", "<improper-addressing"),
        ("<message from='x@b.example' to='y@c.example'/>", "<host-unknown"),
        ("<query from='x@b.example' to='y@a.example'/>", "<unsupported-stanza-type"),
        ("<db:result from='c.example'>key</db:result>", "<improper-addressing"),
    ] {
        let (mut side, _) = incoming(bare(), false);
        says(&mut side, "<db:result from='b.example' to='a.example'>key</db:result>");
        told(&mut side, PeerOrder::Shown(pair(), Some(true)));
        side.take_words();
        let said = says(&mut side, forged);
        assert!(said.contains(fault) && side.ended.is_some(), "{forged}: {said}");
        assert_eq!(side.take_words(), []);
    }
}

#[test]
fn a_key_that_is_not_right_shows_nothing() {
    for (right, kind) in [(Some(false), "type='invalid'"), (None, "remote-server-timeout")] {
        let (mut side, _) = incoming(bare(), false);
        says(&mut side, "<db:result from='b.example' to='a.example'>key</db:result>");
        let said = told(&mut side, PeerOrder::Shown(pair(), right));
        assert!(said.contains(kind), "{said}");
        assert!(says(&mut side, MESSAGE).contains("<not-authorized"));
    }
    // What nobody has asked for is no answer.
    let (mut side, _) = incoming(bare(), false);
    assert_eq!(told(&mut side, PeerOrder::Shown(pair(), Some(true))), "");
    assert!(says(&mut side, MESSAGE).contains("<not-authorized"));
}

#[test]
fn a_key_that_is_too_long_is_not_asked_about() {
    for (length, is_asked) in [(256, true), (257, false)] {
        let (mut side, _) = incoming(bare(), false);
        let key = "k".repeat(length);
        let said = says(
            &mut side,
            &format!("<db:result from='b.example' to='a.example'>{key}</db:result>"),
        );
        assert_eq!((side.take_words().len() == 1, said.is_empty()), (is_asked, is_asked), "{said}");
        assert!(is_asked || said.contains("<not-acceptable"), "{said}");
    }
}

#[test]
fn keys_of_ours_are_told_from_others() {
    let (mut side, _) = incoming(bare(), false);
    let key = DialbackSecret::new(b"cluster").key("b.example", "a.example", "7");
    for (key, id, kind) in [(&*key, "7", "valid"), (&*key, "8", "invalid"), ("no", "7", "invalid")]
    {
        let asked =
            format!("<db:verify from='b.example' to='a.example' id='{id}'>{key}</db:verify>");
        let said = says(&mut side, &asked);
        let answer = format!(
            "<db:verify from='a.example' to='b.example' id='{id}' type='{kind}'></db:verify>"
        );
        assert_eq!(said, answer);
    }
}

#[test]
fn a_certificate_shows_the_domains_that_it_names_and_no_other() {
    let (mut side, features) = incoming(encrypted(&["b.example"]), true);
    assert!(features.contains("<mechanism>EXTERNAL</mechanism>"));
    let auth = |data: &str| {
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{data}</auth>")
    };
    let other = says(&mut side, &auth(&sasl_encoded("c.example")));
    assert!(other.contains("<invalid-authzid/>"), "{other}");
    assert!(says(&mut side, &auth("=")).contains("<success"));
    let again = says(&mut side, &format!("{OPEN} from='b.example' to='a.example' version='1.0'>"));
    assert!(!again.contains("EXTERNAL"), "{again}");
    assert_eq!(says(&mut side, MESSAGE), "");
    assert_eq!(side.take_words().len(), 1);
    let (mut side, features) = incoming(encrypted(&["c.example"]), true);
    assert!(!features.contains("EXTERNAL"));
    assert!(says(&mut side, &auth("=")).contains("<invalid-mechanism/>"));
}

/// An authentication by the certificate.
const EXTERNAL: &str =
    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>";

/// A stream of a server with a certificate of many domains.
fn wild() -> Side {
    let link = encrypted(&["*.b.example", "*.a.example", "a.example", "denied.example"]);
    let mut side = PairSide::new(Peer::incoming(profile(true), 1), link);
    side.open(Now::default());
    side
}

#[test]
fn neither_a_certificate_nor_a_key_shows_a_domain_that_is_ours_a_components_or_denied() {
    for domain in ["a.example", "conference.a.example", "echo.a.example", "denied.example"] {
        let mut side = wild();
        let open = format!("{OPEN} from='{domain}' to='a.example' version='1.0'>");
        let features = says(&mut side, &open);
        assert!(!features.contains("EXTERNAL"), "{domain}: {features}");
        assert!(says(&mut side, EXTERNAL).contains("<invalid-mechanism/>"), "{domain}");
        let key = format!("<db:result from='{domain}' to='a.example'>key</db:result>");
        let said = says(&mut side, &key);
        assert!(said.contains("type='error'") && side.take_words().is_empty(), "{domain}: {said}");
        let stanza = format!("<message from='x@{domain}' to='ann@a.example'/>");
        assert!(says(&mut side, &stanza).contains("<not-authorized"), "{domain}");
    }
}

#[test]
fn where_some_domains_are_allowed_no_other_is_shown() {
    let peers = PeerDomains { allow: ["b.example".into()].into(), deny: [].into() };
    let profile = PeerProfile { peers, ..(*profile(true)).clone() };
    assert!(profile.may_be("b.example") && !profile.may_be("c.example"));
    let off = ForeignDomains { federates: false, ..(*profile.domains).clone() };
    assert!(!PeerProfile { domains: Arc::new(off), ..profile }.may_be("b.example"));
}

#[test]
fn a_certificate_of_many_domains_shows_so_many_and_no_more() {
    let mut side = wild();
    for at in 0..=16 {
        let open = format!("{OPEN} from='x{at}.b.example' to='a.example' version='1.0'>");
        says(&mut side, &open);
        let said = says(&mut side, EXTERNAL);
        let (is_shown, is_refused) =
            (said.contains("<success"), said.contains("<policy-violation"));
        assert_eq!((is_shown, is_refused), (at < 16, at == 16), "{at}: {said}");
    }
    assert!(side.ended.is_some());
}

fn sasl_encoded(text: &str) -> String {
    crate::sasl::encoded(text.as_bytes())
}

#[test]
fn where_tls_must_be_nothing_is_taken_without() {
    let startable = Link { may_start_tls: true, ..bare() };
    let (mut side, features) = incoming(startable, true);
    assert!(features.contains("<required/>") && !features.contains("dialback xmlns"));
    let said = says(&mut side, "<db:result from='b.example' to='a.example'>key</db:result>");
    assert!(said.contains("<policy-violation"), "{said}");
    let startable = Link { may_start_tls: true, ..bare() };
    let (mut side, _) = incoming(startable, true);
    let said = says(&mut side, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert!(said.contains("<proceed"), "{said}");
}

#[test]
fn a_stream_for_another_domain_or_of_no_server_ends() {
    for (header, fault) in [
        (format!("{OPEN} to='c.example' version='1.0'>"), "<host-unknown"),
        (
            "<stream:stream xmlns='jabber:client' to='a.example' version='1.0' \
          xmlns:stream='http://etherx.jabber.org/streams'>"
                .into(),
            "<invalid-namespace",
        ),
        ("<a>".into(), "<invalid-namespace"),
        ("hello".into(), "<bad-format"),
        ("<!DOCTYPE".into(), "<restricted-xml"),
    ] {
        let mut side = PairSide::new(Peer::incoming(profile(false), 1), bare());
        side.open(Now::default());
        let said = says(&mut side, &header);
        assert!(said.contains(fault) && said.contains("<stream:stream"), "{header}: {said}");
    }
}

/// A stream to b.example, as far as its features.
fn outgoing(link: Link, features: &str) -> (Side, String) {
    let mut side = PairSide::new(Peer::outgoing(profile(false), 7, pair()), link);
    let header = String::from_utf8(side.open(Now::default())).expect("UTF-8");
    assert!(header.contains("from='a.example' to='b.example' version='1.0'"), "{header}");
    let header = format!("{OPEN} from='b.example' id='77' version='1.0'>");
    assert_eq!(says(&mut side, &header), "");
    let said = says(&mut side, &format!("<stream:features>{features}</stream:features>"));
    (side, said)
}

#[test]
fn a_stream_of_ours_is_ready_when_the_other_server_believes_our_key() {
    let (mut side, said) = outgoing(bare(), "");
    let key = DialbackSecret::new(b"cluster").key("b.example", "a.example", "77");
    assert_eq!(said, format!("<db:result from='a.example' to='b.example'>{key}</db:result>"));
    assert_eq!(side.take_words(), []);
    says(&mut side, "<db:result from='b.example' to='a.example' type='valid'/>");
    assert_eq!(side.take_words(), [PeerWord::Ready(pair())]);
    let (mut side, _) = outgoing(bare(), "");
    says(&mut side, "<db:result from='b.example' to='a.example' type='invalid'/>");
    assert_eq!((side.take_words(), side.ended), (vec![], Some(CloseReason::AuthFailed)));
}

#[test]
fn tls_begins_where_it_is_offered_and_our_certificate_is_shown_where_it_is_wanted() {
    let startable = || Link { may_start_tls: true, ..bare() };
    let tls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
    let (_, said) = outgoing(startable(), tls);
    assert_eq!(said, tls);
    let external = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
        <mechanism>EXTERNAL</mechanism></mechanisms>";
    let (mut side, said) = outgoing(encrypted(&[]), external);
    assert!(said.contains(&sasl_encoded("a.example")), "{said}");
    let said = says(&mut side, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert!(said.starts_with("<?xml"), "{said}");
    assert_eq!(side.take_words(), [], "its features come first");
    let features = format!("{OPEN} from='b.example' id='78' version='1.0'><stream:features/>");
    assert_eq!(says(&mut side, &features), "");
    assert_eq!(side.take_words(), [PeerWord::Ready(pair())]);
    // A server that does not want it after all is shown a key.
    let (mut side, _) = outgoing(encrypted(&[]), external);
    let failed = "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>";
    assert!(says(&mut side, failed).starts_with("<db:result"));
}

#[test]
fn keys_are_asked_about_as_soon_as_may_be_and_answers_are_told_by_domain_and_id() {
    let proof = |id: &str| DialbackProof { pair: pair(), id: id.into(), key: "k".into() };
    let mut side = PairSide::new(Peer::outgoing(profile(false), 7, pair()), bare());
    side.open(Now::default());
    assert_eq!(told(&mut side, PeerOrder::Verify(Box::new(proof("1")))), "", "not yet");
    says(&mut side, &format!("{OPEN} from='b.example' id='77' version='1.0'>"));
    let said = says(&mut side, "<stream:features/>");
    let asked = |id| format!("<db:verify from='a.example' to='b.example' id='{id}'>k</db:verify>");
    assert!(said.ends_with(&asked("1")), "{said}");
    assert_eq!(told(&mut side, PeerOrder::Verify(Box::new(proof("2")))), asked("2"));
    for forged in ["from='c.example' id='2'", "from='b.example' id='3'"] {
        says(&mut side, &format!("<db:verify {forged} to='a.example' type='valid'/>"));
        assert_eq!(side.take_words(), [], "{forged}");
    }
    for (id, kind, is_right) in [("2", "valid", true), ("1", "invalid", false)] {
        let answer =
            format!("<db:verify from='b.example' to='a.example' id='{id}' type='{kind}'/>");
        says(&mut side, &answer);
        assert_eq!(side.take_words(), [PeerWord::Verified(Box::new(proof(id)), is_right)]);
        says(&mut side, &answer);
        assert_eq!(side.take_words(), [], "once");
    }
}

#[test]
fn a_component_is_who_knows_the_secret() {
    let open = |to: &str| {
        format!(
            "<stream:stream xmlns='jabber:component:accept' to='{to}' \
             xmlns:stream='http://etherx.jabber.org/streams'>"
        )
    };
    let begun = || {
        let mut side = PairSide::new(Peer::component(profile(false), 3), bare());
        side.open(Now::default());
        let header = says(&mut side, &open("echo.a.example"));
        let id = id_of(&header).to_owned();
        (side, id)
    };
    let (mut side, id) = begun();
    let right = component::handshake(&id, "secret");
    let said = says(&mut side, &format!("<handshake>{right}</handshake>"));
    assert_eq!(said, "<handshake/>");
    assert_eq!(side.take_words(), [PeerWord::Component("echo.a.example".into(), 3)]);
    let stanza = "<presence from='x@echo.a.example/y' to='ann@a.example'/>";
    says(&mut side, stanza);
    let from = "echo.a.example".into();
    let xml = stanza.as_bytes().into();
    assert_eq!(side.take_words(), [PeerWord::Stanza { from, xml, place: None }]);
    assert!(
        says(&mut side, "<presence from='a.example' to='ann@a.example'/>")
            .contains("<invalid-from")
    );
    for wrong in
        [component::handshake(&id, "other"), String::new(), component::handshake("1", "secret")]
    {
        let (mut side, _) = begun();
        let said = says(&mut side, &format!("<handshake>{wrong}</handshake>"));
        assert!(said.contains("<not-authorized"), "that of another stream, too: {said}");
        assert_eq!(side.take_words(), []);
    }
    let mut side = PairSide::new(Peer::component(profile(false), 3), bare());
    side.open(Now::default());
    assert!(says(&mut side, &open("b.example")).contains("<host-unknown"));
}

/// Parts of which random streams are made.
const PARTS: [&str; 18] = [
    "<?xml version='1.0'?>",
    OPEN,
    " from='b.example' to='a.example' version='1.0' id='4'>",
    "<stream:features/>",
    "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>",
    "<db:result from='b.example' to='a.example'>key</db:result>",
    "<db:result from='b.example' to='a.example' type='valid'/>",
    "<db:verify from='b.example' to='a.example' id='4'>key</db:verify>",
    "<db:verify from='b.example' to='a.example' id='4' type='valid'/>",
    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>",
    "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
    "<handshake>00</handshake>",
    MESSAGE,
    "<iq from='c.example' to='a.example' id='1' type='get'/>",
    "<stream:error><reset xmlns='x'/></stream:error>",
    "</stream:stream>",
    " ",
    "<a",
];

/// For any input, a stream answers, waits or ends; and passes on no stanza of a domain that it was
/// not shown.
#[test]
fn whatever_comes_no_stanza_is_of_a_domain_that_was_not_shown() {
    let (mut streams, mut stanzas) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = base::prng::Prng::new(seed);
        let profile = profile(rng.below(2) == 0);
        let peer = match rng.below(3) {
            0 => Peer::incoming(profile, 1),
            1 => Peer::outgoing(profile, 1, pair()),
            _ => Peer::component(profile, 1),
        };
        let link = if rng.below(2) == 0 { bare() } else { encrypted(&["b.example"]) };
        let mut side = PairSide::new(peer, link);
        side.open(Now::default());
        let mut text = if rng.below(8) > 0 {
            format!("{OPEN} from='b.example' to='a.example' version='1.0' id='4'>")
        } else {
            String::new()
        };
        if rng.below(2) == 0 {
            text += "<db:result from='b.example' to='a.example'>key</db:result>";
        }
        for _ in 0..rng.below(8) {
            text += match rng.below(3) {
                0 => MESSAGE,
                _ => PARTS[rng.below(PARTS.len() as u64) as usize],
            };
        }
        let mut bytes = text.into_bytes();
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at).filter(|_| rng.below(2) == 0) {
                *byte = rng.below(256) as u8;
            }
        }
        let mut shown = Vec::new();
        for piece in bytes.chunks(1 + rng.below(200) as usize) {
            if side.ended.is_some() {
                break;
            }
            side.hear(Now::default(), piece);
            for word in side.take_words() {
                match word {
                    PeerWord::Shows { proof, .. } if side.ended.is_none() => {
                        let is_right =
                            [Some(true), Some(true), Some(false), None][rng.below(4) as usize];
                        if is_right == Some(true) {
                            shown.push(proof.pair.peer.clone());
                        }
                        side.tell(Now::default(), PeerOrder::Shown(proof.pair, is_right));
                    }
                    PeerWord::Stanza { from, .. } => {
                        let has_certificate = side.link.tls.is_some() && *from == *"b.example";
                        assert!(shown.contains(&from) || has_certificate, "seed {seed}: {from}");
                        stanzas += 1;
                    }
                    _ => {}
                }
            }
        }
        streams += 1;
    }
    assert!(streams == 3_000 && stanzas > 10, "{stanzas}");
}

const SM: &str = "urn:xmpp:sm:3";

#[test]
fn what_another_server_says_is_counted_once_it_is_taken() {
    let (mut side, features) = incoming(bare(), false);
    assert!(features.contains(&format!("<sm xmlns='{SM}'/>")), "{features}");
    let enable = format!("<enable xmlns='{SM}'/>");
    assert!(says(&mut side, &enable).starts_with("<failed"), "no domain was shown");
    let proof = shows(&mut side, "a.example");
    told(&mut side, PeerOrder::Shown(proof.pair, Some(true)));
    says(&mut side, MESSAGE);
    assert_eq!(says(&mut side, &enable), format!("<enabled xmlns='{SM}'/>"));
    says(&mut side, MESSAGE);
    let places = side.take_words().into_iter().map(|word| match word {
        PeerWord::Stanza { place, .. } => place,
        other => panic!("{other:?}"),
    });
    assert_eq!(places.collect::<Vec<_>>(), [None, Some(StreamPlace { stream: 1, seq: 1 })]);
    let has = |h: u32| format!("<a xmlns='{SM}' h='{h}'/>");
    assert_eq!(says(&mut side, &format!("<r xmlns='{SM}'/>")), has(0), "it is not taken");
    assert_eq!(told(&mut side, PeerOrder::Taken(1)), has(1));
}

/// A stream of another server over which it has said something that is taken, unasked.
fn counted() -> Side {
    let (mut side, _) = incoming(bare(), false);
    let proof = shows(&mut side, "a.example");
    told(&mut side, PeerOrder::Shown(proof.pair, Some(true)));
    says(&mut side, &format!("<enable xmlns='{SM}'/>{MESSAGE}{MESSAGE}"));
    assert_eq!(told(&mut side, PeerOrder::Taken(1)), "", "nobody asks");
    side
}

#[test]
fn a_stream_that_ends_in_peace_tells_the_other_server_first_what_is_taken() {
    let has = format!("<a xmlns='{SM}' h='1'/>");
    let farewell = format!("{has}</stream:stream>");
    assert_eq!(says(&mut counted(), "</stream:stream>"), farewell);
    assert_eq!(told(&mut counted(), PeerOrder::End), farewell);
    let (mut side, mut out) = (counted(), Out::new(base::hash::HashKey::new(1, 2), [0; 32]));
    let away = TurnAway::of(model::request::Refusal::Draining, 1);
    side.machine.turn_away(Now::default(), away, &mut out);
    let said = String::from_utf8(std::mem::take(out.bytes())).expect("UTF-8");
    assert!(said.starts_with(&format!("{has}<stream:error><system-shutdown")), "{said}");
}

#[test]
fn a_server_that_counts_is_asked_what_it_has_and_given_up_when_it_does_not_say() {
    let sm = format!("<sm xmlns='{SM}'/>");
    let (mut side, _) = outgoing(bare(), &sm);
    let said = says(&mut side, "<db:result from='b.example' to='a.example' type='valid'/>");
    assert_eq!(said, format!("<enable xmlns='{SM}'/>"));
    let words = [PeerWord::Ready(pair()), PeerWord::Counts(pair(), Some(0))];
    assert_eq!(side.take_words(), words);
    let write = |count| PeerOrder::Write(b"<message/>".repeat(count as usize).into(), count);
    let asked = format!("<r xmlns='{SM}'/>");
    assert_eq!(told(&mut side, write(2)), format!("<message/><message/>{asked}"));
    side.take_words();
    says(&mut side, &format!("<a xmlns='{SM}' h='2'/>"));
    assert_eq!(side.take_words(), [PeerWord::Acknowledged(pair(), 2)]);
    assert!(told(&mut side, write(1)).ends_with(&asked));
    let late = Now::default().after(Duration::from_secs(11));
    side.pass(Now { mono: late, ..Now::default() });
    assert_eq!(side.ended, Some(CloseReason::KeepAliveTimeout));
}

#[test]
fn a_server_that_says_to_have_more_than_was_said_is_not_believed() {
    let (mut side, _) = outgoing(bare(), &format!("<sm xmlns='{SM}'/>"));
    says(&mut side, "<db:result from='b.example' to='a.example' type='valid'/>");
    let said = says(&mut side, &format!("<a xmlns='{SM}' h='1'/>"));
    assert!(said.contains("<undefined-condition"), "{said}");
}

#[test]
fn who_is_shown_by_a_certificate_says_behind_it_whether_it_counts() {
    let external = format!(
        "<sm xmlns='{SM}'/><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
         <mechanism>EXTERNAL</mechanism></mechanisms>"
    );
    let (mut side, _) = outgoing(encrypted(&[]), &external);
    says(&mut side, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    let features = format!(
        "{OPEN} from='b.example' id='78' version='1.0'><stream:features><sm xmlns='{SM}'/>\
         </stream:features>"
    );
    assert_eq!(says(&mut side, &features), format!("<enable xmlns='{SM}'/>"));
    says(&mut side, &format!("<failed xmlns='{SM}'/>"));
    let counts = |from| PeerWord::Counts(pair(), from);
    assert_eq!(side.take_words(), [PeerWord::Ready(pair()), counts(Some(0)), counts(None)]);
}
