//! Questions of a bound device, and their answers (RFC 6120 8.2.3).
//!
//! Questions to the server or to the own account are answered here: ping (XEP-0199), service
//! discovery (XEP-0030), version (XEP-0092), time (XEP-0202), carbons (XEP-0280); questions about
//! people and files go to `features`, about nodes to `nodes`, about the own archive to `archive`,
//! about rooms to `rooms`, those to devices are handed on by `handing`. Any other question, to any
//! address, is answered `service-unavailable`: the answer does not reveal who exists or is online.

use super::Out;
use super::archive::is_asked;
use super::features::accounts::COMMANDS;
use super::features::{Advertised, BLOCKING, UPLOAD_SERVICE, is_of_lists};
use super::messages::SentAs;
use super::nodes::{ACCOUNT_NODE_FEATURES, KEPT_FEATURES, PUBSUB, is_of_nodes};
use super::session::Session;
use crate::archive::MAM_FEATURES;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::peer::pushes::PUSH;
use crate::render::{CARBONS, STANZA_IDS};
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind, timestamp};
use crate::stream::SESSION;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use base::time::Now;
use model::chat::foreign::ForeignDomains;
use model::chat::{CHANNEL_SERVICE, CHATROOM_SERVICE, GROUP_SERVICE};

pub(super) const PING: &str = "urn:xmpp:ping";
pub(crate) const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";
pub(super) const DISCO_ITEMS: &str = "http://jabber.org/protocol/disco#items";
const VERSION: &str = "jabber:iq:version";
const TIME: &str = "urn:xmpp:time";

/// Features that the server always advertises.
pub(super) const SERVER_FEATURES: [&str; 8] =
    [DISCO_INFO, DISCO_ITEMS, PING, VERSION, TIME, CARBONS, BLOCKING, COMMANDS];

/// Identity of the server. Accounts publish by it (XEP-0163 6.1).
pub(super) const SERVER_IDENTITY: &str = "<identity category='server' type='im' name='Holdline'/>\
    <identity category='pubsub' type='pep' name='Holdline'/>";

/// Features of an account.
const ACCOUNT_FEATURES: [&str; 7] = {
    let [mam, extended, groups] = MAM_FEATURES;
    [DISCO_INFO, DISCO_ITEMS, STANZA_IDS, PUSH, mam, extended, groups]
};

/// Address that a question is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Server,
    Account,
    Another,
}

impl Session {
    /// A question or an answer; a file has at most so many bytes, and without a storage none.
    pub(super) fn iq(
        &mut self,
        now: Now,
        file_bytes_max: u64,
        iq: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let (id, to, kind) = (iq.attribute("id"), iq.attribute("to"), kind(iq));
        if matches!(&*kind, "result" | "error") {
            return self.passes_answer(iq, *kind == *"result", out);
        }
        let id = id.as_deref().filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let about = (id, to.as_deref());
        let mut children = iq.children();
        let is_set = *kind == *"set";
        let (Some(_), Some(asked), None, true) =
            (id, children.next(), children.next(), is_set || *kind == *"get")
        else {
            return self.refuse("iq", about, StanzaFault::BadRequest, out);
        };
        if self.asks_elsewhere(iq, Some(&asked), out) {
            return;
        }
        let whom = match to.as_deref().map(Jid::parse) {
            Some(None) => return self.refuse("iq", about, StanzaFault::JidMalformed, out),
            Some(Some(jid)) if self.asks_device(iq, (&jid, SentAs::Iq), out) => return,
            Some(Some(jid)) if self.is_of_rooms(&jid) => {
                return self.asks_of_rooms(now, (&jid, &asked), (is_set, about), out);
            }
            Some(Some(jid)) if self.is_live(&jid) => {
                return self.asks_of_live((&jid, &asked), (is_set, about), out);
            }
            Some(Some(jid)) if file_bytes_max > 0 && self.is_of_uploads(&jid) => {
                return self.asks_of_uploads((&asked, file_bytes_max), (is_set, about), out);
            }
            Some(Some(jid)) => match self.whom(&jid) {
                (Asked::Another, _)
                    if (is_asked(&asked) || is_set && is_of_lists(&asked))
                        && self.is_neighbour(&jid) =>
                {
                    return self.refuse("iq", about, StanzaFault::Forbidden, out);
                }
                (Asked::Another, _)
                    if is_of_nodes(&asked) && self.is_neighbour(&jid) && jid.resource.is_none() =>
                {
                    let of = jid.account.as_ref().map(|account| account.as_str());
                    return self.asks_of_nodes(now, (of, &asked), (is_set, about), out);
                }
                (Asked::Another, fault) => return self.refuse("iq", about, fault, out),
                (whom, _) => whom,
            },
            None => Asked::Account,
        };
        if self.asks_of_book(&asked, (is_set, whom == Asked::Server, about), out) {
            return;
        }
        if whom == Asked::Account && self.asks_of_account(now, &asked, (is_set, about), out) {
            return;
        }
        let domain = to.as_deref().and_then(crate::jid::domain);
        match self.answer((now, file_bytes_max > 0), &asked, (is_set, whom, domain)) {
            Ok(inner) => self.answers(about, &inner, out),
            Err(fault) => self.refuse("iq", about, fault, out),
        }
        if asked.is("ping", PING) {
            out.beat();
        }
    }

    /// An answer is for another domain, for a device here, or for the server.
    fn passes_answer(&mut self, iq: &Element<'_, '_>, is_result: bool, out: &mut Out) {
        let jid = iq.attribute("to").and_then(|to| Jid::parse(&to));
        if !self.asks_elsewhere(iq, None, out)
            && !jid.is_some_and(|jid| self.asks_device(iq, (&jid, SentAs::Quiet), out))
        {
            self.hears_answer(iq, is_result, out);
        }
    }

    /// Whether it is a question about the own account that something of its own answers: people,
    /// pushes, the archive or nodes.
    fn asks_of_account(
        &mut self,
        now: Now,
        asked: &Element<'_, '_>,
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        out: &mut Out,
    ) -> bool {
        if self.asks_people(asked, (is_set, about), out)
            || self.asks_pushes(asked, (is_set, about), out)
        {
            return true;
        }
        if is_asked(asked) {
            self.asks_archive((asked, None), (is_set, about), out);
            return true;
        }
        let is_self = asked.is("query", DISCO_INFO) && asked.attribute("node").is_none();
        if is_of_nodes(asked) && !is_self {
            self.asks_of_nodes(now, (None, asked), (is_set, about), out);
            return true;
        }
        false
    }

    /// Answers a question of this id, to this one, by what is XML.
    pub(super) fn answers(
        &mut self,
        (id, from): (Option<&str>, Option<&str>),
        inner: &str,
        out: &mut Out,
    ) {
        let reply = StanzaReply { name: "iq", from, to: self.jid(), id };
        reply.result(inner, out.bytes());
        self.counts_sent(out);
    }

    fn whom(&self, jid: &Jid) -> (Asked, StanzaFault) {
        let whom = match &jid.account {
            None if self.is_here(&jid.domain) => Asked::Server,
            Some(account) if account.as_str() == self.account() => Asked::Account,
            _ => Asked::Another,
        };
        (whom, self.nobody_at(&jid.domain))
    }

    /// Whether this would be another account here (there may be none).
    fn is_neighbour(&self, jid: &Jid) -> bool {
        jid.account.is_some() && self.is_here(&jid.domain)
    }

    /// Content of the answer to a question.
    fn answer(
        &mut self,
        (now, takes_files): (Now, bool),
        asked: &Element<'_, '_>,
        (is_set, whom, domain): (bool, Asked, Option<Box<str>>),
    ) -> Result<String, StanzaFault> {
        if whom == Asked::Server
            && !is_set
            && let Some(answer) = self.answer_of_server(now, asked)
        {
            return answer;
        }
        match (asked.name(), asked.namespace(), is_set) {
            ("query", DISCO_INFO | DISCO_ITEMS, false) if asked.attribute("node").is_some() => {
                Err(StanzaFault::ItemNotFound)
            }
            ("query", DISCO_INFO, false) => Ok(account_info()),
            ("query", DISCO_ITEMS, false) => {
                Ok(items(whom, domain.as_deref().unwrap_or(self.domain()), takes_files))
            }
            ("enable" | "disable", CARBONS, true) => {
                self.set(Session::CARBONS, asked.name() == "enable");
                Ok(String::new())
            }
            ("session", SESSION, true) => Ok(String::new()),
            (_, _, false) => {
                common_answer(asked, now).unwrap_or(Err(StanzaFault::ServiceUnavailable))
            }
            _ => Err(StanzaFault::ServiceUnavailable),
        }
    }

    /// Asks the device whether it is there (XEP-0199 4.1).
    pub(super) fn write_ping(&mut self, out: &mut Out) {
        let ping =
            StanzaReply { name: "iq", from: Some(self.domain()), to: self.jid(), id: Some("ping") };
        ping.put("get", &format!("<ping xmlns='{PING}'/>"), out.bytes());
        self.counts_sent(out);
    }
}

/// Content of the answer to a question of another domain, or about the domains of this one: from
/// the time, whether files can be sent here, the other domains, and the server's features.
pub fn answer_for_domain(
    iq: &Element<'_, '_>,
    asked: &Element<'_, '_>,
    (now, takes_files, domains, advertised): (Now, bool, &ForeignDomains, &Advertised),
) -> Result<String, StanzaFault> {
    if *kind(iq) != *"get" {
        return Err(StanzaFault::ServiceUnavailable);
    }
    if let Some(answer) = advertised.answer_elsewhere(now, asked) {
        return answer;
    }
    let has_node = asked.attribute("node").is_some();
    match (asked.name(), asked.namespace()) {
        ("query", DISCO_ITEMS) if has_node => Err(StanzaFault::ItemNotFound),
        ("query", DISCO_ITEMS) => {
            let to = iq.attribute("to").and_then(|to| crate::jid::domain(&to));
            let own = to.as_deref().filter(|to| domains.is_own(to)).unwrap_or(&domains.own);
            let items = items(Asked::Server, own, takes_files);
            let components = domains.components.iter();
            let more: String = components.map(|it| format!("<item jid='{it}'/>")).collect();
            Ok(items.replace("</query>", &format!("{more}</query>")))
        }
        _ => common_answer(asked, now).unwrap_or(Err(StanzaFault::ServiceUnavailable)),
    }
}

/// The answer to what anybody may ask of the server.
fn common_answer(asked: &Element<'_, '_>, now: Now) -> Option<Result<String, StanzaFault>> {
    match (asked.name(), asked.namespace()) {
        ("ping", PING) => Some(Ok(String::new())),
        ("query", VERSION) => Some(Ok(format!(
            "<query xmlns='{VERSION}'><name>Holdline</name><version>{}</version></query>",
            env!("CARGO_PKG_VERSION")
        ))),
        ("time", TIME) => Some(Ok(format!(
            "<time xmlns='{TIME}'><tzo>+00:00</tzo><utc>{}</utc></time>",
            timestamp(now.wall_ms)
        ))),
        _ => None,
    }
}

/// Items of an address (XEP-0030 4.1): for the server, its services of rooms and the one that takes
/// files.
fn items(whom: Asked, domain: &str, takes_files: bool) -> String {
    let mut items = String::new();
    if whom == Asked::Server {
        items.push_str(&format!("<item jid='{GROUP_SERVICE}{domain}' name='Rooms'/>"));
        items.push_str(&format!("<item jid='{CHANNEL_SERVICE}{domain}' name='Channels'/>"));
        items.push_str(&format!("<item jid='{CHATROOM_SERVICE}{domain}' name='Chatrooms'/>"));
        if takes_files {
            items.push_str(&format!("<item jid='{UPLOAD_SERVICE}{domain}' name='Files'/>"));
        }
    }
    format!("<query xmlns='{DISCO_ITEMS}'>{items}</query>")
}

/// Identity and features of an account (XEP-0030 3.1, XEP-0163 6.1).
pub(super) fn account_info() -> String {
    let identities = "<identity category='account' type='registered'/>\
        <identity category='pubsub' type='pep'/>";
    let features = ACCOUNT_FEATURES.iter().chain([&PUBSUB]).chain(&ACCOUNT_NODE_FEATURES);
    disco_info(None, identities, features.chain(&KEPT_FEATURES).copied(), "")
}

/// Answer to disco#info (XEP-0030 3.1): identity, features, and further XML.
pub(super) fn disco_info<'a>(
    node: Option<&str>,
    identity: &str,
    features: impl IntoIterator<Item = &'a str>,
    more: &str,
) -> String {
    let node = node.map(|node| format!(" node='{}'", escaped(node))).unwrap_or_default();
    let features = features.into_iter().map(|feature| format!("<feature var='{feature}'/>"));
    let features: String = features.collect();
    format!("<query xmlns='{DISCO_INFO}'{node}>{identity}{features}{more}</query>")
}
