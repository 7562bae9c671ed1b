//! Nodes of accounts, by XMPP: PubSub of accounts (XEP-0060, 0163), vCards (0054), private storage
//! (0049), and what is converted between them (0398, 0402); and last activity (0012).
//!
//! A request to the service is remembered by number until it is answered: the kind of its answer.
//! The module does not care whom a question is about: the service answers for each account as that
//! allows. Invariant: each question is answered once, with its id; the content of an item is XML,
//! and means the same wherever it is written.

pub(super) mod avatar;
pub(super) mod bookmarks;
pub(super) mod displayed;
mod elsewhere;
mod forms;
mod interests;
pub(super) mod last_there;
pub(crate) mod moved;
mod owner;
pub(super) mod private;
mod pubsub;
mod render;
pub(super) mod settings;
pub(super) mod vcard;

pub(super) use avatar::{put_badge, shows_avatar};
pub use elsewhere::NodesQuestion;
pub use settings::FORMAT as BOOKMARKS;

use super::Out;
use super::feature::{Answer, Feature, Question, Questions};
use super::iq::{DISCO_INFO, DISCO_ITEMS};
use super::session::Session;
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::stanza::StanzaReply;
use crate::xml::scan::{Element, Scan};
use base::time::Now;
use bookmarks::Storing;
use model::account::Addressee;
use model::chat::{
    ChatRequest, NodeChange, NodeOptions, NodesAnswer, NodesAsk, NodesFault, NodesRequest,
};

/// PubSub (XEP-0060), for whoever may read.
pub(super) const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
/// PubSub, for a node's owner.
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const ERRORS: &str = "http://jabber.org/protocol/pubsub#errors";

/// The one item of a node that has one.
const CURRENT: &str = "current";

/// Identity of a publisher by PEP (XEP-0163 6.1): the server, and an account.
const SERVER_IDENTITY: &str = "<identity category='pubsub' type='pep' name='Holdline'/>";
const ACCOUNT_IDENTITY: &str = "<identity category='pubsub' type='pep'/>";

/// PubSub of accounts. The server shows its features, too: clients look for them there.
pub(super) const FEATURE: Feature = Feature {
    claims: &[
        Xep::partial(
            60,
            ("Publish-Subscribe", "1.30.0"),
            "nodes of accounts; no service of its own, collections, other publishers, `authorize`",
            "xmpp/test_pep.py::test_each_bad_request_is_told_what_is_wrong",
        ),
        Xep::complete(
            163,
            ("Personal Eventing Protocol", "1.2.2"),
            "",
            "xmpp/test_pep.py::\
             test_one_sets_it_and_the_other_is_told_and_fetches_it_over_a_kill_too",
        ),
        Xep::complete(
            223,
            ("Persistent Storage of Private Data via PubSub", "1.1.1"),
            "",
            "xmpp/test_pep.py::test_bookmarks_of_one_client_are_those_of_another",
        ),
    ],
    server: (NODE_FEATURES, SERVER_IDENTITY),
    account: (NODE_FEATURES, ACCOUNT_IDENTITY),
    questions: &[
        Questions::of_devices(PUBSUB, Session::asks_own_nodes),
        Questions::of_devices(OWNER, Session::asks_own_nodes),
    ],
    ..Feature::NONE
};

/// Features of nodes (XEP-0060 10, XEP-0163 6).
const NODE_FEATURES: &[&str] = &[
    PUBSUB,
    "http://jabber.org/protocol/pubsub#access-open",
    "http://jabber.org/protocol/pubsub#access-presence",
    "http://jabber.org/protocol/pubsub#access-roster",
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#auto-create",
    "http://jabber.org/protocol/pubsub#auto-subscribe",
    "http://jabber.org/protocol/pubsub#config-node",
    "http://jabber.org/protocol/pubsub#config-node-max",
    "http://jabber.org/protocol/pubsub#create-and-configure",
    "http://jabber.org/protocol/pubsub#create-nodes",
    "http://jabber.org/protocol/pubsub#delete-items",
    "http://jabber.org/protocol/pubsub#delete-nodes",
    "http://jabber.org/protocol/pubsub#filtered-notifications",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#modify-affiliations",
    "http://jabber.org/protocol/pubsub#multi-items",
    "http://jabber.org/protocol/pubsub#persistent-items",
    "http://jabber.org/protocol/pubsub#publish",
    "http://jabber.org/protocol/pubsub#publish-options",
    "http://jabber.org/protocol/pubsub#purge-nodes",
    "http://jabber.org/protocol/pubsub#retract-items",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#rsm",
    "http://jabber.org/protocol/pubsub#subscribe",
    "urn:xmpp:pep-vcard-conversion:0",
];

/// A question about nodes that is with the service.
pub(super) struct NodesAsking {
    number: u32,
    id: Option<Box<str>>,
    to: Option<Box<str>>,
    want: Want,
}

/// Form of the answer.
enum Want {
    /// By "done".
    Order,
    /// By the id of what was published.
    Published(Box<str>),
    /// By items; whether they are a part of what was asked for is said if it was asked, or is so.
    Items(Box<str>, bool),
    /// By what there is (XEP-0030).
    Names,
    /// By what an account does.
    Account,
    /// By how a node is.
    Node(Box<str>),
    /// By its form.
    Configuration(Box<str>),
    /// By whether one is subscribed.
    Subscribed(Box<str>, bool),
    Subscriptions,
    /// By who is a member, or subscribed.
    Members(Box<str>),
    Subscribers(Box<str>),
    /// By a vCard; whether it is the own.
    VCard(bool),
    /// A vCard is stored when it is known whether there is an avatar that goes.
    VCardSet(Vec<NodeChange>),
    /// By what a client keeps.
    Private(Box<str>),
    /// By bookmarks, as they were before XEP-0402.
    Bookmarks,
    /// Bookmarks are stored when it is known which there are.
    BookmarksSet(Box<Storing>),
    /// By when the account was last there.
    LastThere,
}

impl NodesAsking {
    /// Whether it changes what is read behind it.
    pub(super) const fn changes(&self) -> bool {
        use Want::{BookmarksSet, Order, Published, VCardSet};
        matches!(self.want, Order | Published(_) | VCardSet(_) | BookmarksSet(_))
    }

    /// Memory with the changes to be stored later, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        let beside = match &self.want {
            Want::Order | Want::Names | Want::Account | Want::Subscriptions => 0,
            Want::VCard(_) | Want::Bookmarks | Want::LastThere => 0,
            Want::Published(text)
            | Want::Items(text, _)
            | Want::Node(text)
            | Want::Configuration(text)
            | Want::Subscribed(text, _)
            | Want::Members(text)
            | Want::Subscribers(text)
            | Want::Private(text) => text.len(),
            Want::VCardSet(changes) => changes.iter().map(weight_of).sum(),
            Want::BookmarksSet(storing) => storing.weight(),
        };
        size_of::<NodesAsking>() + beside
    }
}

fn weight_of(change: &NodeChange) -> usize {
    let items: usize = change.publish.iter().map(|item| item.weight()).sum();
    let ids: usize = change.retract.iter().map(|id| size_of::<Box<str>>() + id.len()).sum();
    let options = change.options.as_ref().map_or(0, |_| size_of::<NodeOptions>());
    size_of::<NodeChange>() + change.node.len() + items + ids + options
}

/// A stanza's request, and the kind of its answer.
type Wanted = Result<(Want, NodesAsk), NodesFault>;

/// Whether this is about what an account publishes or keeps.
pub(super) fn is_of_nodes(asked: &Element<'_, '_>) -> bool {
    matches!(
        (asked.name(), asked.namespace()),
        ("pubsub", PUBSUB | OWNER)
            | ("vCard", vcard::VCARD)
            | ("query", private::PRIVATE | DISCO_INFO | DISCO_ITEMS | last_there::LAST)
    )
}

impl Session {
    /// A question about what the own account publishes or keeps.
    pub(super) fn asks_own_nodes(
        &mut self,
        question: &Question<'_, '_, '_>,
        out: &mut Out,
    ) -> Answer {
        let Question { now, asked, is_set, about, .. } = *question;
        question.for_account()?;
        if !is_of_nodes(asked) {
            return Err(StanzaFault::ServiceUnavailable);
        }
        self.asks_of_nodes(now, (None, asked), (is_set, about), out);
        Ok(None)
    }

    /// Handles a request about the nodes of an account; `None`: its own.
    pub(super) fn asks_of_nodes(
        &mut self,
        now: Now,
        (of, asked): (Option<&str>, &Element<'_, '_>),
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        out: &mut Out,
    ) {
        let is_own = of.is_none();
        let wanted = match (asked.namespace(), is_set) {
            (PUBSUB, true) => self.sets_of_nodes(now, asked),
            (OWNER, _) => owner::asks(asked, is_set),
            (vcard::VCARD, true) if is_own => vcard::sets(asked),
            (private::PRIVATE, _) if is_own => private::asks(asked, is_set),
            (_, false) => gets(asked, is_own),
            _ => Err(NodesFault::Forbidden),
        };
        match wanted {
            Ok((want, ask)) => {
                let displayed = displayed::published(&ask);
                self.ask_nodes((want, of), ask, about, out);
                for (with, id) in displayed {
                    self.displays(&with, &id, out);
                }
            }
            Err(fault) => self.refuse_nodes(about, (fault, false), out),
        }
    }

    fn ask_nodes(
        &mut self,
        (want, of): (Want, Option<&str>),
        ask: NodesAsk,
        (id, to): (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        let number = self.numbers(1);
        let [id, to] = [id, to].map(|text| text.map(Box::from));
        self.busy().nodes.push(NodesAsking { number, id, to, want });
        let of = of.and_then(|of| Addressee::parse(of).ok());
        let session = self.session;
        out.say(ChatRequest::Nodes(Box::new(NodesRequest { session, number, of, ask })));
    }

    /// The service has answered.
    pub(super) fn nodes_told(&mut self, answer: NodesAnswer, out: &mut Out) {
        let asks = &mut self.busy().nodes;
        let Some(at) = asks.iter().position(|it| it.number == answer.number) else { return };
        let NodesAsking { id, to, want, .. } = asks.remove(at);
        let about = (id.as_deref(), to.as_deref());
        match (want, answer.result) {
            (Want::VCardSet(changes), Ok(found)) => {
                let ask = NodesAsk::Change(vcard::changes(changes, found));
                self.ask_nodes((Want::Order, None), ask, about, out);
            }
            (Want::BookmarksSet(storing), Ok(found)) => match storing.changes(found) {
                Ok(changes) => {
                    let ask = NodesAsk::Change(changes);
                    self.ask_nodes((Want::Order, None), ask, about, out);
                }
                Err(fault) => self.refuse_nodes(about, (fault, false), out),
            },
            (want, Ok(found)) => match render::answer(&want, found, (self.account(), about.1)) {
                Ok(inner) => self.answers(about, &inner, out),
                Err(fault) => self.refuse_nodes(about, (fault, false), out),
            },
            (want, Err(fault)) => {
                let fault = want.refusal(fault);
                let is_disco = matches!(want, Want::Account | Want::Names);
                self.refuse_nodes(about, (fault, is_disco), out);
            }
        }
        self.releases(out);
    }

    /// A question about nodes is answered by an error; whether it was about an account as such.
    fn refuse_nodes(
        &mut self,
        (id, to): (Option<&str>, Option<&str>),
        (fault, is_disco): (NodesFault, bool),
        out: &mut Out,
    ) {
        let echo = self.echo_of("iq", id);
        let reply = StanzaReply { name: "iq", from: to, to: self.jid(), id };
        put_refusal((&reply, &echo), (fault, is_disco), out.bytes());
        self.counts_sent(out);
    }
}

/// A question about nodes, of the own account or of another's.
fn gets(asked: &Element<'_, '_>, is_own: bool) -> Wanted {
    let node = asked.attribute("node").map(Box::<str>::from);
    match asked.namespace() {
        PUBSUB => pubsub::gets(asked),
        vcard::VCARD => Ok(vcard::gets(is_own)),
        last_there::LAST => Ok((Want::LastThere, NodesAsk::LastThere)),
        DISCO_INFO => Ok(match node {
            Some(node) => (Want::Node(node.clone()), NodesAsk::Node(node)),
            None => (Want::Account, NodesAsk::Names),
        }),
        DISCO_ITEMS => Ok(match node {
            Some(node) => pubsub::all_of(node),
            None => (Want::Names, NodesAsk::Names),
        }),
        _ => Err(NodesFault::Forbidden),
    }
}

/// Writes an error; whether the question was about an account as such.
fn put_refusal(
    (reply, echo): (&StanzaReply<'_>, &str),
    (fault, is_disco): (NodesFault, bool),
    out: &mut Vec<u8>,
) {
    let (fault, condition) = match fault {
        // XEP-0030 8: who may not know whether somebody is there is told nothing.
        NodesFault::UnknownAccount if is_disco => (StanzaFault::ServiceUnavailable, ""),
        fault => stanza_fault(fault),
    };
    let own = match condition {
        "" => String::new(),
        condition => format!("<{condition} xmlns='{ERRORS}'/>"),
    };
    reply.error_whole(echo, fault, ("", &own), out);
}

/// A fault as the stanza's, and the condition of PubSub that goes with it, if any.
fn stanza_fault(fault: NodesFault) -> (StanzaFault, &'static str) {
    match fault {
        NodesFault::UnknownAccount | NodesFault::UnknownNode | NodesFault::UnknownItem => {
            (StanzaFault::ItemNotFound, "")
        }
        NodesFault::Exists => (StanzaFault::Conflict, ""),
        NodesFault::Forbidden => (StanzaFault::Forbidden, ""),
        NodesFault::NotSubscribed => (StanzaFault::NotAuthorized, "presence-subscription-required"),
        NodesFault::NotInGroup => (StanzaFault::NotAuthorized, "not-in-roster-group"),
        NodesFault::NotMember => (StanzaFault::NotAllowed, "closed-node"),
        NodesFault::OtherConfig => (StanzaFault::Conflict, "precondition-not-met"),
        NodesFault::NotSupported => (StanzaFault::NotAcceptable, ""),
        NodesFault::Unknown => (StanzaFault::FeatureNotImplemented, ""),
        NodesFault::Invalid => (StanzaFault::BadRequest, ""),
        NodesFault::TooLarge => (StanzaFault::NotAcceptable, "payload-too-big"),
        NodesFault::NodesFull | NodesFault::BytesFull => (StanzaFault::PolicyViolation, ""),
        NodesFault::SubscribersFull => (StanzaFault::PolicyViolation, "too-many-subscriptions"),
        NodesFault::NoSubscription => (StanzaFault::UnexpectedRequest, "not-subscribed"),
        NodesFault::Blocked => (StanzaFault::NotAcceptable, ""),
        NodesFault::Busy
        | NodesFault::RateLimited
        | NodesFault::StoreFull
        | NodesFault::StoreFailed => (StanzaFault::ResourceConstraint, ""),
    }
}

/// Bytes to store for an element; an error: it would mean something else elsewhere.
fn payload(element: &Element<'_, '_>) -> Result<Box<[u8]>, NodesFault> {
    let whole = element.whole();
    let scan = Scan::alone(whole).map_err(|_| NodesFault::Invalid)?;
    let is_same = scan.root().is(element.name(), element.namespace());
    is_same.then(|| whole.as_bytes().into()).ok_or(NodesFault::Invalid)
}
