//! One client, stanza by stanza: what it says to the server and to the logic.

use super::*;
use base::hash::HashKey;
use model::limits::Limits;
use model::link::{Link, Protocol};

const HEADER: &str = "<stream:stream xmlns='jabber:client' version='1.0' id='1' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";

/// The client of user-7, and what it has for the wire.
struct Device {
    client: Client,
    out: Out,
}

impl Device {
    fn new(password: Option<&str>, is_scram: bool) -> Device {
        let profile = XmppProfile {
            user: Formula::new("user-%i"),
            domain: "h".into(),
            resource: Formula::new("r%i"),
            password: password.map(Box::from),
            is_scram,
            silence_s: 60,
            is_lite: false,
        };
        let client = Client::new(Arc::new(profile), 7);
        Device { client, out: Outbox::new(HashKey::new(1, 2), [0; 32]) }
    }

    /// The client's observations of this text, and its answers to the server, however the text is
    /// cut.
    fn hear(&mut self, text: &str) -> (Vec<Observation>, String) {
        let (limits, link) = (Limits::default(), Link::loopback(Protocol::Xmpp));
        let mut kept = Vec::new();
        for byte in text.bytes() {
            kept.push(byte);
            let mut input = Input::new(&kept, &link, &limits);
            self.client.receive(&mut input, &mut self.out).expect("good XML");
            let taken = input.taken();
            kept.drain(..taken);
        }
        assert!(kept.is_empty(), "{}", String::from_utf8_lossy(&kept));
        self.told()
    }

    fn told(&mut self) -> (Vec<Observation>, String) {
        let wire = String::from_utf8(std::mem::take(self.out.bytes())).expect("text");
        (self.out.words().collect(), wire)
    }

    /// How it ends when it hears this.
    fn end(&mut self, text: &str) -> Told {
        let (limits, link) = (Limits::default(), Link::loopback(Protocol::Xmpp));
        self.client.receive(&mut Input::new(text.as_bytes(), &link, &limits), &mut self.out)
    }

    /// Logs in by PLAIN, where the server counts stanzas or does not.
    fn come(&mut self, is_counted: bool) {
        self.client.opened(&mut self.out).expect("it calls");
        assert!(self.told().1.ends_with("to='h'>"));
        let (_, wire) = self.hear(&format!("{HEADER}{}", mechanisms(&["DIGEST-MD5", "PLAIN"])));
        let proof = STANDARD.encode("\0user-7\0secret");
        assert_eq!(wire, format!("<auth xmlns='{SASL}' mechanism='PLAIN'>{proof}</auth>"));
        let (_, wire) = self.hear(&format!("<success xmlns='{SASL}'/>"));
        assert!(wire.starts_with("<?xml"), "{wire}");
        let sm = if is_counted { format!("<sm xmlns='{SM}'/>") } else { String::new() };
        let features =
            format!("{HEADER}<stream:features><bind xmlns='{BIND}'/>{sm}</stream:features>");
        let (_, wire) = self.hear(&features);
        assert!(wire.contains("<resource>r7</resource>"), "{wire}");
        let (mut told, mut wire) = self.hear("<iq type='result' id='bind'/>");
        if is_counted {
            assert_eq!((told.len(), wire), (0, format!("<enable xmlns='{SM}'/>")));
            // What the server says before it counts is not counted.
            self.hear("<message from='h'><body>welcome</body></message>");
            (told, wire) = self.hear(&format!("<enabled xmlns='{SM}'/>"));
        }
        let bound = Observation::Bound { resumed: false, heartbeat_s: 60, offline_count: 0 };
        assert_eq!(told, [bound]);
        assert!(wire.contains("jabber:iq:roster") && wire.ends_with("<presence/>"), "{wire}");
    }

    fn say(&mut self, number: u32, front: &[u8], text: &str) -> String {
        let say = ChatSay {
            virtual_client: 0,
            number,
            to: "user-8@h".into(),
            id: [0; 16],
            front: front.into(),
            text: text.into(),
        };
        self.client.say(&say, &mut self.out);
        self.told().1
    }
}

fn mechanisms(names: &[&str]) -> String {
    let all: String = names.iter().map(|name| format!("<mechanism>{name}</mechanism>")).collect();
    format!("<stream:features><mechanisms xmlns='{SASL}'>{all}</mechanisms></stream:features>")
}

fn taken(seq: u32) -> Observation {
    Observation::TakenAlone { seq }
}

#[test]
fn what_it_says_is_taken_when_the_server_has_counted_it() {
    let mut device = Device::new(Some("secret"), false);
    device.come(true);
    // The roster and its presence are the first two stanzas.
    let wire = device.say(1, b"front", "a < b");
    let said =
        "<message type='chat' to='user-8@h' id='m1'><body>ZnJvbnQ= a &lt; b</body></message>";
    assert_eq!(wire, format!("{said}<r xmlns='{SM}'/>"));
    device.say(2, b"front", "");
    device.say(3, b"front", "");
    assert_eq!(device.hear(&format!("<a xmlns='{SM}' h='2'/>")).0, []);
    assert_eq!(device.hear(&format!("<a xmlns='{SM}' h='4'/>")).0, [taken(1), taken(2)]);
    assert_eq!(device.hear(&format!("<a xmlns='{SM}' h='5'/>")).0, [taken(3)]);
    assert!(device.client.work.is_none(), "what is not needed is given back");
}

#[test]
fn at_a_server_that_does_not_count_a_ping_behind_each_message_is_its_answer() {
    let mut device = Device::new(Some("secret"), false);
    device.come(false);
    let wire = device.say(4, b"front", "");
    assert!(wire.ends_with("id='taken-4'><ping xmlns='urn:xmpp:ping'/></iq>"), "{wire}");
    // A server that knows no ping has answered all the same.
    assert_eq!(device.hear("<iq type='error' id='taken-4'/>").0, [taken(4)]);
    assert_eq!(device.hear("<iq type='result' id='taken-4'/>").0, [], "once");
}

#[test]
fn what_is_not_taken_has_the_code_of_its_condition() {
    let mut device = Device::new(Some("secret"), false);
    device.come(true);
    device.say(1, b"front", "");
    let error = "<message type='error' id='m1' from='user-8@h'><error type='wait'>\
                 <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
                 </error></message>";
    let all = proto_xmpp::fault::StanzaFault::ALL;
    let at = all.iter().position(|fault| fault.name() == "resource-constraint").expect("listed");
    assert_eq!(device.hear(error).0, [Observation::NotTaken { seq: 1, code: at as u32 + 1 }]);
    assert_eq!(device.hear(&format!("<a xmlns='{SM}' h='3'/>")).0, [], "it has its answer");
}

#[test]
fn what_others_say_is_handed_on_as_it_was_said_and_counted() {
    let mut device = Device::new(Some("secret"), false);
    device.come(true);
    let mut front = vec![7; HEAD_BYTES];
    let one = "<message from='user-8@h/r8' type='chat'>";
    let message = format!("{one}<body>{} a &lt; b</body></message>", STANDARD.encode(&front));
    let rest = crc32fast::hash(b"a < b");
    let head = [7; HEAD_BYTES];
    let claim = DeliveryClaim::Sender(crc32fast::hash(b"user-8"));
    let heard = |bytes, rest, again| Observation::Heard { bytes, head, rest, again, claim };
    let (told, wire) = device.hear(&format!("{message}<r xmlns='{SM}'/>"));
    assert_eq!(told, [heard(41, rest, false)]);
    assert_eq!(wire, format!("<a xmlns='{SM}' h='1'/>"));
    // One that waited, and whose front is longer than what is handed on.
    front.push(1);
    let later = format!(
        "{one}<body>{}</body><delay xmlns='urn:xmpp:delay'/></message>",
        STANDARD.encode(&front)
    );
    assert_eq!(device.hear(&later).0, [heard(37, crc32fast::hash(&[1]), true)]);
    // Somebody else's words, a mark that somebody types, a presence.
    let (told, _) = device.hear(&format!("{one}<body>hello, there</body></message>"));
    assert_eq!(told.len(), 1);
    assert_eq!(device.hear(&format!("{one}<composing/></message>")).0, []);
    assert_eq!(
        device.hear(&format!("<presence/><r xmlns='{SM}'/>")).1,
        "<a xmlns='urn:xmpp:sm:3' h='5'/>"
    );
}

#[test]
fn whoever_asks_has_an_answer_and_a_heartbeat_is_a_ping() {
    let mut device = Device::new(Some("secret"), false);
    device.come(true);
    let ping = "<iq type='get' id='1' from='h'><ping xmlns='urn:xmpp:ping'/></iq>";
    assert_eq!(device.hear(ping).1, "<iq type='result' id='1' to='h'></iq>");
    let version = "<iq type='get' id='2'><query xmlns='jabber:iq:version'/></iq>";
    assert!(device.hear(version).1.contains("service-unavailable"));
    device.client.act(&Action::Ping, &mut device.out).expect("it goes on");
    assert!(device.told().1.contains("id='beat'"));
    assert_eq!(device.hear("<iq type='result' id='beat'/>").0, [Observation::Pong]);
    assert_eq!(device.client.act(&Action::Unbind, &mut device.out), Err(CloseReason::OwnStop));
    assert_eq!(device.told().1, "</stream:stream>");
}

#[test]
fn a_password_is_proved_without_being_shown_and_refusals_have_codes() {
    let mut device = Device::new(Some("secret"), true);
    device.client.opened(&mut device.out).expect("it calls");
    let _ = device.told();
    let (_, wire) = device.hear(&format!("{HEADER}{}", mechanisms(&["PLAIN", "SCRAM-SHA-256"])));
    let first = wire.split(['>', '<']).nth(2).map(|text| STANDARD.decode(text).expect("base64"));
    let first = String::from_utf8(first.expect("it says something")).expect("text");
    let nonce = first.strip_prefix("n,,n=user-7,r=").expect("who it is").to_owned();
    let challenge = STANDARD.encode(format!("r={nonce}x,s=QQ==,i=2"));
    let (_, wire) = device.hear(&format!("<challenge xmlns='{SASL}'>{challenge}</challenge>"));
    assert!(wire.starts_with("<response") && !wire.contains("secret"), "{wire}");
    let failure = format!("<failure xmlns='{SASL}'><not-authorized/></failure>");
    let refused = |code| Observation::Refused { code, retry_after_ms: 0 };
    assert_eq!(device.hear(&failure).0, [refused(10)]);
    assert!(PERMANENT_REFUSALS.contains(&10));
    device.client.closed();
    // A server that does not know who it is itself is left.
    device.client.opened(&mut device.out).expect("it calls");
    device.hear(&format!("{HEADER}{}", mechanisms(&["SCRAM-SHA-256"])));
    assert_eq!(device.end(&format!("<success xmlns='{SASL}'/>")), Err(CloseReason::AuthFailed));
}

#[test]
fn a_server_without_the_way_of_the_plan_is_told_and_one_that_ends_says_why() {
    for (password, is_scram) in [(None, false), (Some("secret"), true)] {
        let mut device = Device::new(password, is_scram);
        device.client.opened(&mut device.out).expect("it calls");
        let (told, _) = device.hear(&format!("{HEADER}{}", mechanisms(&["PLAIN"])));
        assert_eq!(told, [refused(NO_MECHANISM)]);
    }
    let end = |name: &str| {
        let mut device = Device::new(Some("secret"), false);
        device.come(true);
        let streams = "urn:ietf:params:xml:ns:xmpp-streams";
        device.hear(&format!("<stream:error><{name} xmlns='{streams}'/></stream:error>")).0
    };
    let away = Observation::GoAway { retry_after_ms: 0, addrs: Vec::new() };
    assert_eq!(end("system-shutdown"), [away]);
    let at = StreamFault::ALL.iter().position(|fault| *fault == StreamFault::Conflict);
    assert_eq!(end("conflict"), [Observation::Kicked { code: at.expect("listed") as u32 + 1 }]);
    assert_eq!(end("something-new"), [Observation::Kicked { code: 0 }]);
}

#[test]
fn a_server_shows_what_it_knows_with_its_success_or_before_it() {
    for is_before in [false, true] {
        let mut device = Device::new(Some("secret"), true);
        device.client.opened(&mut device.out).expect("it calls");
        let _ = device.told();
        let (_, wire) = device.hear(&format!("{HEADER}{}", mechanisms(&["SCRAM-SHA-256"])));
        let said = |wire: &str| {
            let text = wire.split(['>', '<']).nth(2).expect("it says something").to_owned();
            String::from_utf8(STANDARD.decode(text).expect("base64")).expect("text")
        };
        let first = said(&wire);
        let challenge = format!("{}x,s=QQ==,i=2", &first[first.find("r=").expect("a nonce")..]);
        let shown = STANDARD.encode(&challenge);
        let (_, wire) = device.hear(&format!("<challenge xmlns='{SASL}'>{shown}</challenge>"));
        let last = said(&wire);
        let last = &last[..last.find(",p=").expect("a proof")];
        let known =
            STANDARD.encode(signature("secret", &format!("{},{challenge},{last}", &first[3..])));
        if is_before {
            let (_, wire) = device.hear(&format!("<challenge xmlns='{SASL}'>{known}</challenge>"));
            assert_eq!(wire, format!("<response xmlns='{SASL}'></response>"));
            assert!(device.hear(&format!("<success xmlns='{SASL}'/>")).1.starts_with("<?xml"));
        } else {
            let success = format!("<success xmlns='{SASL}'>{known}</success>");
            assert!(device.hear(&success).1.starts_with("<?xml"));
        }
    }
}

/// Last message of a server that has two rounds of this password, salted with `A` (RFC 5802 3).
fn signature(password: &str, said: &str) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mac = |key: &[u8], text: &[u8]| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).expect("any length is one");
        mac.update(text);
        mac.finalize().into_bytes()
    };
    let first = mac(password.as_bytes(), b"A\0\0\0\x01");
    let second = mac(password.as_bytes(), &first);
    let salted: Vec<u8> = first.iter().zip(second).map(|(one, other)| one ^ other).collect();
    let key = mac(&salted, b"Server Key");
    format!("v={}", STANDARD.encode(mac(&key, said.as_bytes())))
}

#[test]
fn what_a_server_says_out_of_turn_ends_the_stream() {
    for text in [
        format!("<success xmlns='{SASL}'/>"),
        format!("<challenge xmlns='{SASL}'>QQ==</challenge>"),
        format!("<enabled xmlns='{SM}'/>"),
        format!("<failed xmlns='{SM}'/>"),
    ] {
        let mut device = Device::new(Some("secret"), false);
        device.come(true);
        assert_eq!(device.end(&text), Err(CloseReason::OutOfOrder), "{text}");
        let mut device = Device::new(Some("secret"), true);
        device.client.opened(&mut device.out).expect("it calls");
        assert_eq!(device.end(&format!("{HEADER}{text}")), Err(CloseReason::OutOfOrder), "{text}");
    }
    let mut device = Device::new(Some("secret"), false);
    device.client.opened(&mut device.out).expect("it calls");
    device.hear(&format!("{HEADER}{}", mechanisms(&["PLAIN"])));
    let challenge = format!("<challenge xmlns='{SASL}'>QQ==</challenge>");
    assert_eq!(device.end(&challenge), Err(CloseReason::AuthFailed), "there is nothing to answer");
}

#[test]
fn who_has_no_password_comes_as_a_guest_and_what_bounces_late_is_told() {
    let mut device = Device::new(None, false);
    device.client.opened(&mut device.out).expect("it calls");
    let _ = device.told();
    let (_, wire) = device.hear(&format!("{HEADER}{}", mechanisms(&["PLAIN", "ANONYMOUS"])));
    assert_eq!(wire, format!("<auth xmlns='{SASL}' mechanism='ANONYMOUS'>=</auth>"));
    let mut device = Device::new(Some("secret"), false);
    device.come(true);
    let say = ChatSay {
        virtual_client: 0,
        number: 1,
        to: "user-8".into(),
        id: [0; 16],
        front: Box::default(),
        text: "".into(),
    };
    device.client.say(&say, &mut device.out);
    assert!(device.told().1.starts_with("<message type='chat' to='user-8@h'"));
    assert_eq!(device.hear(&format!("<a xmlns='{SM}' h='3'/>")).0, [taken(1)]);
    let error = "<message type='error' id='m1'><error type='cancel'/></message>";
    assert_eq!(device.hear(error).0, [Observation::NotTaken { seq: 1, code: 0 }]);
}

const OFFER: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>";
const ASK: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const PROCEED: &str = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

/// A call that may begin TLS.
fn may_encrypt(device: &mut Device, text: &str) -> (usize, String) {
    let (limits, mut link) = (Limits::default(), Link::loopback(Protocol::Xmpp));
    link.may_start_tls = true;
    let mut input = Input::new(text.as_bytes(), &link, &limits);
    device.client.receive(&mut input, &mut device.out).expect("good XML");
    (input.taken(), device.told().1)
}

#[test]
fn it_begins_tls_where_the_server_wants_it_and_logs_in_behind_it() {
    let features = format!("{HEADER}<stream:features>{OFFER}</stream:features>");
    let mut device = Device::new(Some("secret"), false);
    device.client.opened(&mut device.out).expect("it calls");
    device.told();
    assert_eq!(may_encrypt(&mut device, &features).1, ASK);
    // What comes behind the word belongs to the handshake.
    let behind = format!("{PROCEED}<stream:features/>");
    assert_eq!(may_encrypt(&mut device, &behind).0, PROCEED.len());
    assert!(device.out.take_start_tls());
    device.client.encrypted(&mut device.out);
    assert!(device.told().1.starts_with("<?xml"));
    let (_, wire) = device.hear(&format!("{HEADER}{}", mechanisms(&["SCRAM-SHA-1"])));
    assert!(wire.starts_with(&format!("<auth xmlns='{SASL}' mechanism='SCRAM-SHA-1'>")), "{wire}");
}

#[test]
fn tls_that_is_only_offered_is_left_alone_and_one_that_is_refused_is_told() {
    let offer = OFFER.replace("<required/>", "");
    let mut device = Device::new(Some("secret"), false);
    device.client.opened(&mut device.out).expect("it calls");
    device.told();
    let both =
        mechanisms(&["PLAIN"]).replace("</stream:features>", &format!("{offer}</stream:features>"));
    let wire = may_encrypt(&mut device, &format!("{HEADER}{both}")).1;
    assert!(wire.contains("mechanism='PLAIN'"), "{wire}");
    let mut device = Device::new(Some("secret"), false);
    device.client.opened(&mut device.out).expect("it calls");
    device.told();
    may_encrypt(&mut device, &format!("{HEADER}<stream:features>{OFFER}</stream:features>"));
    let (told, _) = device.hear("<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(told, [refused(NO_TLS)]);
    // Without TLS to be had there is no way in.
    let mut device = Device::new(Some("secret"), false);
    device.client.opened(&mut device.out).expect("it calls");
    device.told();
    let (told, _) = device.hear(&format!("{HEADER}<stream:features>{OFFER}</stream:features>"));
    assert_eq!(told, [refused(NO_MECHANISM)]);
}
