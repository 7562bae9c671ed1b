//! Presence and subscriptions (RFC 6121 3, 4): a resource's own presence, to all and to contacts,
//! and that of others.

use super::{What, wish};
use crate::fault::StanzaFault;
use crate::render;
use crate::server::Out;
use crate::server::nodes::{put_badge, shows_avatar};
use crate::server::session::Session;
use crate::stanza::{StanzaReply, kind};
use crate::xml::scan::{CLIENT, Element, Scan};
use crate::xml::text;
use model::chat::{
    Availability, Contact, ContactOrder, PeopleAsk, Presence, Show, SubscriptionVerb, greeting_of,
    greeting_parts,
};

/// The shows of RFC 6121 4.7.2.1.
const SHOWS: [(&str, Show); 4] = [
    ("chat", Show::Chat),
    ("away", Show::Away),
    ("xa", Show::ExtendedAway),
    ("dnd", Show::DoNotDisturb),
];

/// The subscription step of a presence stanza, if it is one.
pub(in crate::server) fn says(presence: &Element<'_, '_>) -> Option<SubscriptionVerb> {
    let kind = kind(presence);
    SubscriptionVerb::ALL.into_iter().find(|verb| verb.word() == kind)
}

impl Session {
    /// Handles available or unavailable presence, and passes it to those who may see it.
    pub(in crate::server) fn says_presence(
        &mut self,
        presence: &Element<'_, '_>,
        is_there: bool,
        out: &mut Out,
    ) {
        let availability = is_there.then(|| Box::new(read_availability(presence, false)));
        let id = presence.attribute("id");
        self.set(Session::THERE, is_there);
        let asks = vec![PeopleAsk::Present(availability)];
        self.ask_people((What::Presence, (id.as_deref(), None)), asks, out);
    }

    /// Handles a subscription step (3).
    pub(in crate::server) fn says_of(
        &mut self,
        presence: &Element<'_, '_>,
        verb: SubscriptionVerb,
        out: &mut Out,
    ) {
        let (id, to) = (presence.attribute("id"), presence.attribute("to"));
        let about = (id.as_deref(), to.as_deref());
        let contact = self.contact_of(about.1).map_err(|fault| match fault {
            StanzaFault::ItemNotFound => StanzaFault::ServiceUnavailable,
            fault => fault,
        });
        match contact {
            Ok(contact) => {
                let order = ContactOrder::Say(verb, greeting(presence));
                self.ask_people((What::Presence, about), vec![wish(contact, order)], out);
            }
            Err(fault) => self.refuse("presence", about, fault, out),
        }
    }

    /// A contact has said something of a subscription.
    pub(super) fn write_said(&mut self, contact: &Contact, verb: SubscriptionVerb, out: &mut Out) {
        let is_asking = verb == SubscriptionVerb::Subscribe;
        if !self.has(if is_asking { Session::THERE } else { Session::FOLLOWS }) {
            return;
        }
        let from = Some(contact.address.jid());
        let head = StanzaReply { name: "presence", from, to: self.account(), id: None };
        head.open(verb.word(), out.bytes());
        if is_asking {
            put_greeting(&contact.greeting, out.bytes());
        }
        head.close(out.bytes());
        self.counts_sent(out);
    }

    /// Writes the presence of another account or of one of its devices.
    pub(in crate::server) fn write_presence(&mut self, presence: &Presence, out: &mut Out) {
        let Presence { from, device, availability } = presence;
        let device = device.as_deref();
        if from.as_str() == self.account() && device == Some(self.resource()) {
            return; // it was told when it said so
        }
        let from = render::full_jid(from, device.unwrap_or_default());
        let head = StanzaReply { name: "presence", from: Some(&from), to: self.jid(), id: None };
        let Some(how) = availability else {
            head.put("unavailable", "", out.bytes());
            return self.counts_sent(out);
        };
        head.open("", out.bytes());
        put_presence(how, out.bytes());
        head.close(out.bytes());
        self.counts_sent(out);
    }
}

/// The greeting of a subscription request: a text, and elements that mean the same wherever they
/// are written (RFC 6121 3.1.3).
pub(crate) fn greeting(presence: &Element<'_, '_>) -> Box<str> {
    let status = presence.child("status", CLIENT).map(|status| status.text());
    let beside = presence.children().filter(|child| child.namespace() != CLIENT);
    let beside = beside.filter(|child| !child.has_prefix() && Scan::alone(child.whole()).is_ok());
    let beside: String = beside.map(|child| child.whole()).collect();
    greeting_of(&status.unwrap_or_default(), &beside)
}

/// Writes what was said with a wish. It may come from any protocol.
pub(crate) fn put_greeting(greeting: &str, out: &mut Vec<u8>) {
    let (text, beside) = greeting_parts(greeting);
    if !text.is_empty() {
        put("status", text, out);
    }
    if Scan::alone(&format!("<x xmlns='{CLIENT}'>{beside}</x>")).is_ok() {
        out.extend_from_slice(beside.as_bytes());
    }
}

/// Writes what is said of a resource.
pub(crate) fn put_presence(how: &Availability, out: &mut Vec<u8>) {
    put_show(how.show, &how.status, out);
    if how.priority != 0 {
        put("priority", &how.priority.to_string(), out);
    }
    out.extend_from_slice(&how.extra);
    if let Some(badge) = &how.badge {
        put_badge(badge, out);
    }
}

/// Writes how somebody is there, and in which words.
pub(crate) fn put_show(show: Show, status: &str, out: &mut Vec<u8>) {
    if let Some((word, _)) = SHOWS.iter().find(|(_, it)| *it == show) {
        put("show", word, out);
    }
    if !status.is_empty() {
        put("status", status, out);
    }
}

/// How somebody is there, and in which words, as a stanza says.
pub(crate) fn read_show(presence: &Element<'_, '_>) -> (Show, Box<str>) {
    let text = |name: &str| presence.child(name, CLIENT).map(|child| child.text());
    let show = text("show").unwrap_or_default();
    let show = SHOWS.iter().find(|(word, _)| *word == show.trim());
    (show.map_or(Show::Here, |(_, show)| *show), text("status").unwrap_or_default().into())
}

/// Reads available presence. Elements beyond RFC 6121 are kept as they are, except those with a
/// prefix that the stanza itself declares: elsewhere the prefix would be undeclared, and end the
/// readers' streams. `with_avatar`: the avatar's hash is kept with the rest.
pub(crate) fn read_availability(presence: &Element<'_, '_>, with_avatar: bool) -> Availability {
    let text = |name: &str| presence.child(name, CLIENT).map(|child| child.text());
    let (show, status) = read_show(presence);
    let priority = text("priority").and_then(|priority| priority.trim().parse().ok());
    let mut extra = Vec::new();
    for child in presence.children() {
        let is_ours = ["show", "status", "priority"].iter().any(|name| child.is(name, CLIENT));
        let is_told = with_avatar || !shows_avatar(&child);
        if !is_ours && is_told && Scan::alone(child.whole()).is_ok() {
            extra.extend_from_slice(child.whole().as_bytes());
        }
    }
    Availability {
        show,
        status,
        priority: priority.unwrap_or(0),
        extra: extra.into(),
        // Which avatar it has is the service's to say.
        badge: Some(Box::default()),
    }
}

fn put(name: &str, content: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<{name}>").as_bytes());
    text::put(content, out);
    out.extend_from_slice(format!("</{name}>").as_bytes());
}
