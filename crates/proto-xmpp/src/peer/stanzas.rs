//! Stanzas between this server and other domains: the model's words written, and stanzas read into
//! the model's words.
//!
//! A stanza is read when it is known that it is of the domain that it says; what it is for is
//! looked at here, and who there is is known to others. Invariant: what is shown to a device is the
//! stanza as it came, but for namespaces of streams between servers, and ids of archives that it
//! gives in the name of this domain.

use crate::fault::StanzaFault;
use crate::jid::{self, Jid};
use crate::render::{self, MUC_USER, STANZA_IDS};
use crate::server::{
    NodesQuestion, echo, greeting, put_greeting, put_presence, read_availability, sets_own_lists,
};
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::Element;
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::{ArrivalWhat, ForeignArrival, ForeignWord};
use model::chat::{
    Availability, ClientMessageId, ContactOrder, ContactWish, DEVICE_NAME_BYTES_MAX,
    GREETING_BYTES_MAX, GREETING_EXTRA_BYTES_MAX, NewMessage, PRESENCE_EXTRA_BYTES_MAX,
    STATUS_BYTES_MAX, SubscriptionVerb, greeting_of, greeting_parts,
};

/// Writes a word as a stanza. False: XMPP has none for it.
pub fn write(word: &ForeignWord, out: &mut Vec<u8>) -> bool {
    let head = |from: &str, to: &str, kind: &str, out: &mut Vec<u8>| {
        StanzaReply { name: "presence", from: Some(from), to, id: None }.open(kind, out);
    };
    match word {
        ForeignWord::Message(queued) => return render::write_out(&queued.message, out),
        ForeignWord::Subscription { from, to, verb, greeting } => {
            head(from.jid(), to.jid(), verb.word(), out);
            put_greeting(greeting, out);
        }
        ForeignWord::Presence { from, device, availability, to } => {
            let from = render::full_jid(from, device.as_deref().unwrap_or_default());
            head(&from, to.jid(), if availability.is_some() { "" } else { "unavailable" }, out);
            availability.iter().for_each(|how| put_presence(how, out));
        }
        ForeignWord::Probe { from, to } => head(from.jid(), to.jid(), "probe", out),
        ForeignWord::Gone { from, device, to, .. } => {
            head(&render::full_jid(from, device), to, "unavailable", out);
        }
        // To each who looks at the room: that is known to `rooms`.
        ForeignWord::Room(_) | ForeignWord::RoomNews(..) | ForeignWord::Aside(_) => return false,
        ForeignWord::Stanza(stanza) => {
            out.extend_from_slice(&stanza.xml);
            return true;
        }
    }
    out.extend_from_slice(b"</presence>");
    true
}

/// A stanza of another domain.
#[derive(Debug)]
pub enum StanzaPurpose {
    /// For an account here.
    Arrival(ForeignArrival),
    /// A question about what an account here publishes.
    Nodes(ForeignArrival, NodesQuestion),
    /// A question to this domain itself, or to the server in the name of an account.
    Question,
    /// The stanza is ignored.
    Nothing,
}

/// Reads a stanza that is for a domain of ours. `made` is an id for a message that brings none.
pub fn read(stanza: &Element<'_, '_>, made: ClientMessageId) -> Result<StanzaPurpose, StanzaFault> {
    let address = |name: &str| stanza.attribute(name).and_then(|text| Jid::parse(&text));
    let to = address("to").ok_or(StanzaFault::JidMalformed)?;
    if stanza.attribute("id").is_some_and(|id| id.len() > ID_BYTES_MAX) {
        return Err(StanzaFault::BadRequest);
    }
    let is_answer = matches!(&*kind(stanza), "error" | "result");
    let Some(home) = to.account.clone() else {
        return match stanza.name() {
            "iq" if !is_answer => Ok(StanzaPurpose::Question),
            "message" if !is_answer => Err(StanzaFault::ServiceUnavailable),
            _ => Ok(StanzaPurpose::Nothing),
        };
    };
    let from = address("from");
    let sender = from.as_ref().and_then(sender_of);
    let arrival = StanzaArrival { stanza, from, sender, to, home };
    match stanza.name() {
        "message" => arrival.message(made),
        "presence" => arrival.presence(),
        // What sets a roster or a block list comes of the account's own server.
        "iq" if arrival.to.resource.is_some() && sets_own_lists(stanza) => {
            Err(StanzaFault::ServiceUnavailable)
        }
        "iq" if arrival.to.resource.is_some() => Ok(arrival.shown()),
        "iq" if is_answer => Ok(StanzaPurpose::Nothing),
        "iq" => Ok(arrival.asks()),
        _ => Err(StanzaFault::FeatureNotImplemented),
    }
}

/// A stanza for an account here.
struct StanzaArrival<'s, 't, 'a> {
    stanza: &'s Element<'t, 'a>,
    /// Address of the sender; `None`: one that is invalid here and cannot be stored.
    from: Option<Jid>,
    /// Sender: an account, or a domain itself.
    sender: Option<AccountAddress>,
    to: Jid,
    home: AccountAddress,
}

impl StanzaArrival<'_, '_, '_> {
    /// Shown to the device it is for, or to all that are there.
    fn shown(self) -> StanzaPurpose {
        let is_shown = |child: &Element<'_, '_>| !is_forged(child, &self.to.domain);
        let xml = render::passed_on(self.stanza, None, is_shown).into();
        let (from, device) = (self.blockable(), self.to.resource);
        let what = ArrivalWhat::Stanza { from, device, xml };
        StanzaPurpose::Arrival(ForeignArrival { home: self.home, what })
    }

    /// The sender, if it is of a kind that can be blocked: an account, or the domain of a sender
    /// that cannot be one.
    fn blockable(&self) -> Option<AccountAddress> {
        let account = self.from.as_ref().and_then(|jid| jid.account.clone());
        let domain = || jid::domain_of(&self.stanza.attribute("from")?);
        account.or_else(|| AccountAddress::of_domain(&domain()?))
    }

    /// A question to an account, which its server answers.
    fn asks(self) -> StanzaPurpose {
        let from = self.from.and_then(|jid| jid.account);
        match from.zip(NodesQuestion::of(self.stanza)) {
            Some((home, (question, ask))) => {
                let what = ArrivalWhat::Nodes { of: self.home, ask: Box::new(ask) };
                StanzaPurpose::Nodes(ForeignArrival { home, what }, question)
            }
            None => StanzaPurpose::Question,
        }
    }

    /// RFC 6121 8.5.
    fn message(self, made: ClientMessageId) -> Result<StanzaPurpose, StanzaFault> {
        let (is_full, kind) = (self.to.resource.is_some(), kind(self.stanza));
        // A message that is nothing but a forged carbon would be empty without it.
        let mut children = self.stanza.children().peekable();
        if children.peek().is_some() && children.all(|child| render::is_carbon(&child)) {
            return Err(StanzaFault::NotAcceptable);
        }
        match &*kind {
            "groupchat" | "error" if is_full => return Ok(self.shown()),
            "groupchat" => return Err(StanzaFault::ServiceUnavailable),
            "error" => return Ok(StanzaPurpose::Nothing),
            "headline" => return Ok(self.shown()),
            _ => {}
        }
        let said = render::said(self.stanza);
        let (Some(said), Some(from)) = (said, self.from.clone()) else { return Ok(self.shown()) };
        // What an occupant says in private is of a room, and not of whom the room is named after.
        let is_private = is_full && self.stanza.child("x", MUC_USER).is_some();
        // A room itself invites somebody: it is no account that has a conversation here.
        let is_of_account = |it: &AccountAddress| !is_private && !it.is_group();
        let Some(sender) = from.account.filter(is_of_account) else { return Ok(self.shown()) };
        let client_id = said.client_id.unwrap_or(made);
        let to = Addressee::from(self.home);
        let message = Box::new(NewMessage { to, client_id, content: said.content });
        let device = from.resource.filter(|it| it.len() <= DEVICE_NAME_BYTES_MAX);
        let device = device.unwrap_or_default();
        let what = ArrivalWhat::Send { device, message };
        Ok(StanzaPurpose::Arrival(ForeignArrival { home: sender, what }))
    }

    /// RFC 6121 3, 4.
    fn presence(self) -> Result<StanzaPurpose, StanzaFault> {
        let kind = kind(self.stanza);
        let sender = self.sender.clone();
        let verb = SubscriptionVerb::ALL.into_iter().find(|verb| verb.word() == kind);
        let arrival = |home, what| Ok(StanzaPurpose::Arrival(ForeignArrival { home, what }));
        match (&*kind, verb, sender) {
            (_, Some(verb), Some(sender)) => {
                let said = greeting(self.stanza);
                let (text, beside) = greeting_parts(&said);
                let fits = beside.len() <= GREETING_EXTRA_BYTES_MAX;
                let text = cut(text, GREETING_BYTES_MAX);
                let greeting = greeting_of(text, if fits { beside } else { "" });
                let order = ContactOrder::Say(verb, greeting);
                let contact = Addressee::from(self.home);
                arrival(sender, ArrivalWhat::Wish(Box::new(ContactWish { contact, order })))
            }
            ("probe", _, Some(from)) => arrival(self.home, ArrivalWhat::Probe { from }),
            ("" | "unavailable" | "error", ..) if self.to.resource.is_some() => Ok(self.shown()),
            ("" | "unavailable", _, Some(from)) => {
                let device = self.from.and_then(|jid| jid.resource);
                // A domain itself may be there without a resource.
                let is_there = kind.is_empty() && from.is_domain();
                let device = device.or(is_there.then(Box::default));
                let availability = kind.is_empty().then(|| Box::new(availability(self.stanza)));
                arrival(self.home, ArrivalWhat::Presence { from, device, availability })
            }
            _ => Ok(StanzaPurpose::Nothing),
        }
    }
}

/// Account of an address that can be a contact here: an account, or a domain itself.
fn sender_of(jid: &Jid) -> Option<AccountAddress> {
    match &jid.account {
        Some(account) => Some(account.clone()),
        None => AccountAddress::of_domain(&jid.domain).filter(|domain| !domain.is_group()),
    }
}

/// How somebody elsewhere is there, within bounds.
fn availability(presence: &Element<'_, '_>) -> Availability {
    let mut how = read_availability(presence, true);
    how.status = cut(&how.status, STATUS_BYTES_MAX).into();
    if how.extra.len() > PRESENCE_EXTRA_BYTES_MAX {
        how.extra = Box::default();
    }
    Availability { badge: None, ..how }
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Whether this is a carbon, which only the server of the account itself may say (XEP-0280 11), or
/// an id that only an archive of this domain may give (XEP-0359 6).
fn is_forged(child: &Element<'_, '_>, own: &str) -> bool {
    if render::is_carbon(child) {
        return true;
    }
    let by = || child.attribute("by").and_then(|by| crate::jid::domain_of(&by));
    child.is("stanza-id", STANZA_IDS) && by().is_none_or(|by| *by == *own)
}

/// Writes the error that a stanza is answered by, to whoever sent it; false: it has none, being an
/// error or an answer itself (RFC 6120 8.3.1).
pub fn refuse(stanza: &Element<'_, '_>, fault: StanzaFault, out: &mut Vec<u8>) -> bool {
    let told_of = |name: &str| stanza.attribute(name);
    let is_final = matches!(&*kind(stanza), "error" | "result" | "unavailable" | "probe");
    let is_silent = is_final || SubscriptionVerb::ALL.iter().any(|it| it.word() == kind(stanza));
    let Some(to) = told_of("from").filter(|_| !is_silent) else { return false };
    let (from, id) = (told_of("to"), told_of("id"));
    let reply =
        StanzaReply { name: stanza.name(), from: from.as_deref(), to: &to, id: id.as_deref() };
    reply.error_whole(&echo(stanza), fault, ("", ""), out);
    true
}

#[cfg(test)]
mod tests;
