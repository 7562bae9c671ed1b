//! Sessions of BOSH: requests in every order, streams that say anything.

use super::session::REQUESTS_MAX;
use super::{BoshFault, BoshOutput, BoshRequest, BoshSession, BoshTerms, HTTP_BIND};
use crate::xml::scan::Scan;
use base::prng::Prng;
use sha1::{Digest, Sha1};
use testkit::vector::bent;

const TERMS: BoshTerms = BoshTerms {
    wait_s_max: 60,
    inactivity_s: 30,
    pause_s_max: 120,
    waiting_bytes_max: 1_000,
    stanza_bytes_max: 4_000,
    unproven_bytes_max: 1_000,
};
const SERVER_HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' id='7' from='a.example' version='1.0'>";
const FEATURES: &str = "<stream:features><a xmlns='b'/></stream:features>";

fn read(attributes: &str, inner: &str) -> Result<BoshRequest, BoshFault> {
    BoshRequest::read(format!("<body xmlns='{HTTP_BIND}' {attributes}>{inner}</body>").as_bytes())
}

/// A session with what came out of it.
struct Client {
    session: BoshSession,
    now_ms: u64,
    out: BoshOutput,
}

impl Client {
    fn begin(attributes: &str) -> Client {
        let attributes =
            format!("rid='10' to='a.example' xmlns:xmpp='urn:xmpp:xbosh' {attributes}");
        let request = read(&attributes, "").expect("a request");
        let mut out = BoshOutput::default();
        let session = BoshSession::begin(0, (TERMS, "s1"), (request, 10), &mut out);
        Client { session: session.expect("a session"), now_ms: 0, out }
    }

    /// One whose stream has said what it offers, and that has heard it.
    fn begun(attributes: &str) -> Client {
        let mut client = Client::begin(attributes);
        client.hear(&format!("{SERVER_HEADER}{FEATURES}"));
        assert_eq!(client.answers().len(), 1);
        client.streamed();
        client
    }

    /// A request whose ticket is its number.
    fn ask(&mut self, rid: u64, attributes: &str, inner: &str) {
        let ticket = rid + self.now_ms % 1_000 * 1_000;
        let attributes = format!("rid='{rid}' sid='s1' xmlns:xmpp='urn:xmpp:xbosh' {attributes}");
        let request = read(&attributes, inner).expect("a request");
        self.session.take(self.now_ms, request, ticket, &mut self.out);
    }

    fn hear(&mut self, text: &str) {
        self.session.heard(self.now_ms, text.as_bytes(), &mut self.out);
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.session.wake(self.now_ms, &mut self.out);
    }

    fn answers(&mut self) -> Vec<(u64, String)> {
        let answers = std::mem::take(&mut self.out.answers);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        answers.into_iter().map(|(ticket, answer)| (ticket, text(&answer))).collect()
    }

    fn streamed(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out.stream)).expect("UTF-8")
    }

    /// The session has ended by this.
    fn ends_with(&mut self, condition: &str) {
        let answers = self.answers();
        let ended = format!("type='terminate' condition='{condition}'");
        assert!(!answers.is_empty() && self.session.is_over(), "{answers:?}");
        assert!(answers.iter().all(|(_, answer)| answer.contains(&ended)), "{answers:?}");
    }
}

fn empty() -> String {
    format!("<body xmlns='{HTTP_BIND}'/>")
}

#[test]
fn a_request_is_read_strictly() {
    let request = read("rid='9007199254740991' hold='1' wait='99999999999'", " <a/>\n<b>c</b> ");
    let request = request.expect("it is whole");
    assert_eq!((request.rid, request.wait_s), ((1 << 53) - 1, Some(u32::MAX)));
    assert_eq!(request.payload, b"<a/><b>c</b>");
    use BoshFault::*;
    for (attributes, inner, fault) in [
        ("", "", BadRequest),
        ("rid=''", "", BadRequest),
        ("rid='0'", "", BadRequest),
        ("rid='-1'", "", BadRequest),
        ("rid='+1'", "", BadRequest),
        ("rid='9007199254740992'", "", BadRequest),
        ("rid='99999999999999999999999'", "", BadRequest),
        ("rid='1' hold='x'", "", BadRequest),
        ("rid='1'", "text", BadRequest),
        ("rid='1'", "<a>", BadRequest),
        ("rid='1'", "<!-- -->", BadRequest),
        ("rid='1'", "<![CDATA[text]]>", BadRequest),
        ("rid='1'", "<?php ?>", BadRequest),
        ("rid='1'", "</body><body>", BadRequest),
        ("rid='1'", "</stream:stream>", BadRequest),
        ("rid='1' key='short'", "", ItemNotFound),
    ] {
        assert_eq!(read(attributes, inner), Err(fault), "{attributes} {inner}");
    }
    let deep = format!("{}{}", "<a>".repeat(70), "</a>".repeat(70));
    assert_eq!(read("rid='1'", &deep), Err(PolicyViolation));
    for other in ["<body rid='1'/>", "<query xmlns='http://jabber.org/protocol/httpbind'/>", ""] {
        assert_eq!(BoshRequest::read(other.as_bytes()), Err(BadRequest), "{other}");
    }
}

#[test]
fn a_session_begins_with_what_the_stream_offers() {
    let mut client = Client::begin("hold='5' wait='600' xml:lang='de'");
    let header = client.streamed();
    assert!(header.starts_with("<?xml version='1.0'?><stream:stream "), "{header}");
    assert!(header.ends_with(" version='1.0' to='a.example' xml:lang='de'>"), "{header}");
    for cut in SERVER_HEADER.split_inclusive(' ') {
        client.hear(cut);
    }
    assert_eq!(client.answers(), []);
    client.hear(FEATURES);
    let expected = format!(
        "<body xmlns='{HTTP_BIND}' xmlns:xmpp='urn:xmpp:xbosh' sid='s1' wait='60' hold='1' \
         requests='2' inactivity='30' maxpause='120' ver='1.6' from='a.example' \
         xmpp:version='1.0' xmpp:restartlogic='true' authid='7'><stream:features \
         xmlns:stream='http://etherx.jabber.org/streams'><a xmlns='b'/></stream:features></body>"
    );
    assert_eq!(client.answers(), [(10, expected)]);
    client.ask(11, "xmpp:restart='true'", "");
    assert_eq!(client.streamed(), header);
    client.hear(SERVER_HEADER);
    assert_eq!(client.answers(), []);
    client.hear(FEATURES);
    assert_eq!(client.answers().len(), 1);
}

#[test]
fn a_session_is_for_a_domain() {
    let request = read("rid='1'", "").expect("a request");
    let begun =
        BoshSession::begin(0, (TERMS, "s"), (request, 1), &mut BoshOutput::default()).map(|_| ());
    assert_eq!(begun, Err(BoshFault::ImproperAddressing));
    let mut client = Client::begin("");
    client.hear(&format!(
        "{SERVER_HEADER}<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         </stream:error></stream:stream>"
    ));
    let answers = client.answers();
    assert!(answers[0].1.contains("condition='host-unknown'"), "{answers:?}");
    assert!(answers[0].1.contains("<stream:error "), "{answers:?}");
    assert!(client.session.is_over());
}

#[test]
fn an_answer_is_held_until_there_is_something_to_say() {
    let mut client = Client::begun("wait='60' hold='1'");
    client.ask(11, "", "<message/>");
    assert_eq!((client.streamed(), client.answers().len()), ("<message/>".to_owned(), 0));
    client.hear("<message to='x'");
    client.hear("><body>hi</body></message><presence/>");
    let told = "<message xmlns='jabber:client' to='x'><body>hi</body></message>\
        <presence xmlns='jabber:client'/>";
    assert_eq!(client.answers(), [(11, format!("<body xmlns='{HTTP_BIND}'>{told}</body>"))]);
    client.ask(12, "", "");
    client.ask(13, "", "<iq/>");
    assert_eq!(client.answers(), [(12, empty())], "one is held, and not two");
    assert_eq!(client.session.due_ms(), Some(60_000));
    client.pass(59_999);
    assert_eq!(client.answers(), []);
    client.pass(1);
    assert_eq!(client.answers(), [(13, empty())]);
}

#[test]
fn requests_are_taken_by_their_numbers() {
    let mut client = Client::begun("");
    client.ask(12, "", "<b/>");
    assert_eq!((client.streamed(), client.answers().len()), (String::new(), 0));
    client.ask(11, "", "<a/>");
    assert_eq!(client.streamed(), "<a/><b/>");
    assert_eq!(client.answers(), [(11, empty())]);
    client.ask(15, "", "");
    client.ends_with("item-not-found");
    for early in [9, 11 + REQUESTS_MAX, 1] {
        let mut client = Client::begun("");
        client.ask(early, "", "<x/>");
        assert_eq!(client.streamed(), "");
        client.ends_with("item-not-found");
    }
}

#[test]
fn before_a_login_little_is_said_at_once() {
    let long = format!("<a>{}</a>", "x".repeat(1_000));
    for rid in [11, 12] {
        let mut client = Client::begun("");
        client.ask(rid, "", &long);
        assert!(client.session.is_over(), "in its turn or before it");
        assert!(!client.streamed().contains("xxx"), "nothing of it is said");
    }
    let mut client = Client::begun("");
    client.ask(11, "xmpp:restart='true'", "");
    client.ask(12, "", &long);
    assert!(client.session.is_over(), "its own word proves nothing");
    let mut client = Client::begun("");
    client.hear("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    client.ask(11, "", &long);
    assert!(!client.session.is_over() && client.streamed().contains("xxx"));
}

#[test]
fn what_never_comes_is_not_waited_for() {
    let mut client = Client::begun("wait='10'");
    client.ask(12, "", "<b/>");
    client.pass(10_000);
    assert_eq!(client.streamed(), "");
    client.ends_with("item-not-found");
}

#[test]
fn an_answer_that_was_lost_is_given_again() {
    let mut client = Client::begun("");
    client.ask(11, "", "<a/>");
    client.hear("<iq/>");
    let first = client.answers();
    client.now_ms += 1;
    client.ask(11, "", "<a/>");
    assert_eq!(client.streamed(), "<a/>", "it was said once");
    assert_eq!(client.answers(), [(1_011, first[0].1.clone())]);
    client.ask(12, "", "");
    client.now_ms += 1;
    client.ask(12, "", "");
    let error = format!("<body xmlns='{HTTP_BIND}' type='error'/>");
    assert_eq!(client.answers(), [(1_012, error)], "who is not there any more is let go");
    client.hear("<iq/>");
    assert_eq!(client.answers()[0].0, 2_012);
    client.ask(13, "", "");
    client.ask(14, "", "");
    client.ask(15, "", "");
    client.answers();
    client.ask(11, "", "<a/>");
    client.answers();
    assert!(client.session.is_over(), "only the last are kept");
}

#[test]
fn keys_follow_from_each_other() {
    let hashed = |text: &str| base::hex::encode(&Sha1::digest(text.as_bytes()));
    let (k1, other) = (hashed("seed"), hashed("other"));
    let (k2, k3) = (hashed(&k1), hashed(&hashed(&k1)));
    let begun = || Client::begun(&format!("newkey='{k3}'"));
    let mut client = begun();
    client.ask(11, &format!("key='{k2}'"), "<a/>");
    client.ask(12, &format!("key='{k1}' newkey='{}'", hashed(&other)), "<b/>");
    client.ask(13, &format!("key='{other}'"), "<c/>");
    assert_eq!(client.streamed(), "<a/><b/><c/>");
    assert!(!client.session.is_over());
    for wrong in [String::new(), format!("key='{k1}'"), format!("key='{k3}'")] {
        let mut client = begun();
        client.ask(11, &wrong, "<a/>");
        assert_eq!(client.streamed(), "");
        client.ends_with("item-not-found");
    }
    let mut client = begun();
    client.ask(11, &format!("key='{k2}'"), "<a/>");
    client.hear("<iq id='secret'/>");
    client.answers();
    client.ask(11, &format!("key='{k1}'"), "<a/>");
    let answers = client.answers();
    assert!(!answers[0].1.contains("secret"), "a kept answer is for who has its key: {answers:?}");
}

#[test]
fn whoever_asks_for_nothing_too_long_is_gone() {
    let mut client = Client::begun("");
    assert_eq!(client.session.due_ms(), Some(30_000));
    client.pass(29_999);
    assert!(!client.session.is_over());
    client.ask(11, "pause='100'", "");
    assert_eq!(client.answers()[0].1, empty());
    client.pass(99_999);
    assert!(!client.session.is_over());
    client.pass(1);
    assert!(client.session.is_over());
    let mut client = Client::begun("");
    client.ask(11, "pause='121'", "");
    client.ends_with("policy-violation");
}

#[test]
fn a_server_hears_now_and_then_that_somebody_is_there() {
    let mut client = Client::begun("");
    client.ask(11, "", "");
    client.pass(14_999);
    client.ask(12, "", "");
    assert_eq!(client.streamed(), "");
    client.pass(1);
    client.ask(13, "", "");
    client.ask(14, "", "");
    assert_eq!(client.streamed(), " ");
}

#[test]
fn whoever_polls_is_answered_at_once() {
    for terms in ["hold='0'", "wait='0'"] {
        let mut client = Client::begun(terms);
        client.ask(11, "", "");
        assert_eq!(client.answers(), [(11, empty())]);
        client.hear("<iq/>");
        assert_eq!(client.answers(), []);
        client.ask(12, "", "");
        assert!(client.answers()[0].1.contains("<iq "), "{terms}");
    }
}

#[test]
fn an_end_is_told_with_what_was_said_before() {
    let mut client = Client::begun("");
    client.ask(11, "", "");
    client.ask(12, "type='terminate'", "<presence type='unavailable'/>");
    assert_eq!(client.streamed(), "<presence type='unavailable'/></stream:stream>");
    let ended = format!("<body xmlns='{HTTP_BIND}' type='terminate'/>");
    assert_eq!(client.answers(), [(11, ended.clone()), (12, ended)]);
    assert!(client.session.is_over());
    let mut client = Client::begun("");
    client.hear("<message/><stream:error><conflict xmlns='x'/></stream:error></stream:stream>");
    client.session.stream_ended(0, &mut client.out);
    assert!(!client.session.is_over(), "nobody has heard it");
    assert_eq!(client.session.due_ms(), Some(10_000), "and is not waited for as long as usual");
    client.ask(11, "", "<a/>");
    assert_eq!(client.streamed(), "");
    let answers = client.answers();
    let (message, error) = (answers[0].1.find("<message"), answers[0].1.find("<stream:error"));
    assert!(message.is_some() && message < error, "{answers:?}");
    assert!(answers[0].1.contains("condition='remote-stream-error'"), "{answers:?}");
    let mut client = Client::begun("");
    client.ask(11, "", "");
    client.session.stream_ended(0, &mut client.out);
    client.ends_with("remote-connection-failed");
}

#[test]
fn a_stream_is_read_as_far_as_somebody_asks() {
    let mut client = Client::begun("");
    client.hear(&format!("<message>{}</message>", "x".repeat(900)));
    assert!(!client.session.is_full());
    client.hear("<message>123456789012345678901234567890</message>");
    assert!(client.session.is_full());
    client.ask(11, "", "");
    assert!(!client.session.is_full());
    let mut client = Client::begun("");
    client.ask(11, "", "");
    client.hear(&format!("<message>{}", "x".repeat(TERMS.stanza_bytes_max)));
    client.ends_with("internal-server-error");
}

#[test]
fn whatever_comes_is_answered_once_in_xml() {
    let mut prng = Prng::new(16);
    let corpus = [
        format!("<body xmlns='{HTTP_BIND}' rid='11' sid='s1'><message><a>x</a></message></body>"),
        format!("<body xmlns='{HTTP_BIND}' rid='12' sid='s1' type='terminate'><iq/></body>"),
        format!(
            "<body xmlns='{HTTP_BIND}' rid='11' xmlns:xmpp='urn:xmpp:xbosh' xmpp:restart='true' \
             pause='9' key='0123456789012345678901234567890123456789'/>"
        ),
    ]
    .map(String::into_bytes);
    let heard = ["<iq/><message><a>b</a></message>", SERVER_HEADER, FEATURES]
        .map(|text| text.as_bytes().to_vec());
    for round in 0..20_000_u64 {
        let mut client = Client::begun("");
        let (mut asked, mut answered) = (0, 0);
        for step in 0..4 {
            let text = match prng.below(2) {
                0 => corpus[prng.below(3) as usize].clone(),
                _ => bent(&mut prng, &corpus),
            };
            if let Ok(request) = BoshRequest::read(&text) {
                assert!(Scan::element(&[b"<a>", &request.payload[..], b"</a>"].concat()).is_ok());
                client.session.take(step, request, 100 + step, &mut client.out);
                asked += 1;
            }
            if prng.below(2) == 0 {
                let heard = bent(&mut prng, &heard);
                client.session.heard(step, &heard, &mut client.out);
            }
        }
        client.session.stream_ended(9, &mut client.out);
        for (_, answer) in std::mem::take(&mut client.out.answers) {
            if std::str::from_utf8(&answer).is_ok() {
                assert!(answer.starts_with(b"<body xmlns='"));
            }
            answered += 1;
        }
        assert_eq!(asked, answered, "round {round}");
    }
}
