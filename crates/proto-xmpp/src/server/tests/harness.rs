//! Sides in each state.

use crate::sasl;
use crate::server::{Server, XmppListener};
use crate::xml::scan::Scan;
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
pub(crate) use model::chat::ChatRequest;
use model::chat::foreign::ForeignDomains;
use model::chat::{
    ChatDelivery, ChatMessage, ClientMessageId, Content, Conversation, InboxPage, LoggedIn,
    OccupancyAsk, PeopleAsk,
};
use model::id::SessionRef;
use model::link::{Link, Protocol, TlsFacts};
use model::timeline::Seq;
use std::sync::Arc;
use testkit::pair::PairSide;

pub(crate) type Side = PairSide<Server>;

pub(crate) const SESSION: SessionRef = SessionRef::from_bits(5);

pub(crate) const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' to='a.example' version='1.0'>";

pub(crate) const BIND: &str = "<iq type='set' id='b'>\
    <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>desk</resource></bind></iq>";

pub(crate) fn now() -> Now {
    Now::new(Instant::from_nanos(1_000_000_000), 1_700_000_000_000)
}

pub(crate) fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

/// A conversation of which nothing is known but where it stands.
pub(crate) fn conversation(place: Seq, with: &str) -> Conversation {
    Conversation {
        with: address(with),
        place,
        last_seq: 1,
        said_seq: 0,
        left: false,
        last: None,
        read: 0,
        peer_read: 0,
        mentions: 0,
        unread: 0,
        pinned: false,
        muted: false,
        hidden: false,
        draft: "".into(),
    }
}

/// The domains a.example and m.example; whether others serve theirs.
pub(crate) fn domains(federates: bool) -> Arc<ForeignDomains> {
    let others = ["m.example".into()].into();
    let own = "a.example".into();
    Arc::new(ForeignDomains { own, others, federates, ..ForeignDomains::default() })
}

/// A connection over a link that stands.
pub(crate) fn over(link: Link) -> Side {
    at(listener(), link)
}

/// One that takes passwords and certificates.
pub(crate) fn listener() -> XmppListener {
    XmppListener {
        bind_ms_max: 10_000,
        registration: model::ports::users::Registration::Password,
        domains: domains(false),
        scram_sha_256: true,
        scram_sha_1: false,
        plain: true,
        certificates: true,
        guests: false,
        fast: true,
        advertised: Arc::default(),
    }
}

/// A connection to such a listener.
pub(crate) fn at(listener: XmppListener, link: Link) -> Side {
    let mut side = PairSide::new(Server::new(Arc::new(listener)), link);
    assert!(side.open(now()).is_empty(), "the client speaks first");
    side
}

/// A connection without TLS, to a listener without a certificate.
pub(crate) fn bare() -> Link {
    Link::loopback(Protocol::Xmpp)
}

/// A connection whose TLS may begin.
pub(crate) fn startable() -> Link {
    Link { may_start_tls: true, ..bare() }
}

/// A connection in TLS.
pub(crate) fn encrypted() -> Link {
    Link { tls: Some(TlsFacts::default()), ..bare() }
}

/// Output of a side for this input.
pub(crate) fn says(side: &mut Side, stanza: &str) -> String {
    String::from_utf8(side.hear(now(), stanza.as_bytes())).expect("UTF-8")
}

/// Output of a side for this delivery.
pub(crate) fn told(side: &mut Side, word: ChatDelivery) -> String {
    String::from_utf8(side.tell(now(), word)).expect("UTF-8")
}

/// A stream has begun, over TLS.
pub(crate) fn begun() -> Side {
    let mut side = over(encrypted());
    says(&mut side, HEADER);
    side
}

pub(crate) fn auth(mechanism: &str, message: &str) -> String {
    let data = sasl::encoded(message.as_bytes());
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{data}</auth>")
}

/// A login is with the service.
pub(crate) fn asked() -> Side {
    let mut side = begun();
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    side
}

/// The client must answer a challenge.
pub(crate) fn challenged() -> Side {
    let mut side = begun();
    says(&mut side, &auth("SCRAM-SHA-256", "n,,n=ann,r=x"));
    told(&mut side, ChatDelivery::Challenge(b"r=xy".as_slice().into()));
    side
}

/// The service's yes.
pub(crate) fn yes() -> ChatDelivery {
    ChatDelivery::LoggedIn(Box::new(LoggedIn {
        session: SESSION,
        account: AccountId(1),
        address: address("ann"),
        head: 12,
        cursor: 10,
        server_ms: 1_700_000_000_000,
        data: None,
    }))
}

/// Let in, and on the stream behind it.
pub(crate) fn granted() -> Side {
    let mut side = asked();
    told(&mut side, yes());
    says(&mut side, HEADER);
    side
}

/// Bound; what was said is taken.
pub(crate) fn bound() -> Side {
    let mut side = granted();
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    side
}

/// Bound, there, and in step at the twelfth place.
pub(crate) fn available() -> Side {
    let mut side = bound();
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 12 });
    is_told(&mut side);
    side
}

/// The same, and it may go on when its connection breaks.
pub(crate) fn resumable() -> Side {
    let mut side = available();
    says(&mut side, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    side
}

/// A side in the state that a vector names.
pub(crate) fn in_state(state: &str) -> Side {
    match state {
        "plain" => over(bare()),
        "startable" => over(startable()),
        "encrypted" => over(encrypted()),
        "begun" => begun(),
        "asked" => asked(),
        "challenged" => challenged(),
        "granted" => granted(),
        "bound" => bound(),
        "available" => available(),
        "resumable" => resumable(),
        other => panic!("no state {other}"),
    }
}

pub(crate) fn message(from: &str, device: &str, to: &str, text: &str) -> Arc<ChatMessage> {
    Arc::new(ChatMessage {
        id: 1,
        seq: 1,
        at_ms: 1_700_000_000_007,
        from: address(from),
        device: device.into(),
        to: address(to),
        client_id: ClientMessageId([7; 16]),
        content: Content::text(text),
        amended: None,
    })
}

/// A page of what Bob has said, from one place on.
pub(crate) fn page(after: u64, texts: &[&str], head: u64) -> ChatDelivery {
    let messages: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| (after + 1 + at as u64, message("bob", "phone", "ann", text)))
        .collect();
    let upto = after + texts.len() as u64;
    ChatDelivery::Page(Box::new(InboxPage { number: 0, messages, events: Vec::new(), upto, head }))
}

/// Bodies of what was sent, with a `+` where it says that it waited; all of it is XML.
pub(crate) fn bodies(mut sent: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while !sent.is_empty() {
        let end = sent.find("</message>").expect("messages alone") + "</message>".len();
        let scan = Scan::element(&sent.as_bytes()[..end]).expect("XML");
        let root = scan.root();
        let body =
            root.child("body", crate::xml::scan::CLIENT).expect("a body").text().into_owned();
        let waited = root.child("delay", crate::render::DELAY).map_or("", |_| "+");
        seen.push(format!("{body}{waited}"));
        sent = &sent[end..];
    }
    seen
}

/// Requests to the service, but for the side's own presence.
pub(crate) fn words(side: &mut Side) -> Vec<ChatRequest> {
    let is_quiet = |word: &ChatRequest| match word {
        ChatRequest::People(asked) => matches!(asked.ask, PeopleAsk::Present(_)),
        ChatRequest::Room(asked) => matches!(asked.ask, OccupancyAsk::Leave),
        _ => false,
    };
    let words = side.take_words_as::<ChatRequest>().into_iter();
    words.filter(|word| !is_quiet(word)).collect()
}

/// The service has done all that it was asked about people.
pub(crate) fn is_told(side: &mut Side) {
    for word in side.take_words_as::<ChatRequest>() {
        if let ChatRequest::People(asked) = word {
            told(side, ChatDelivery::Done { number: asked.number });
        }
    }
}
