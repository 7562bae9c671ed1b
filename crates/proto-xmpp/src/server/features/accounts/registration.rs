//! Registration (XEP-0077 2.4): an account before the login, where that is open, and another
//! password or the end of one's own behind it.
//!
//! A password is taken over connections alone that are encrypted, or of this machine.

use super::{BookWhat, Wanted, fault_of, password};
use crate::claims::Xep;
use crate::fault::{StanzaFault, StreamFault};
use crate::forms::FORMS;
use crate::jid;
use crate::server::feature::{Feature, Offered, Questions};
use crate::server::opening::{Opening, Stage};
use crate::server::session::Session;
use crate::server::{End, Out};
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use model::chat::ChatRequest;
use model::close::CloseReason;
use model::link::{Link, Source};
use model::ports::users::{BookAnswer, BookWish, Registering, Registration};

/// The namespace of registration (XEP-0077 14.1).
const REGISTER: &str = "jabber:iq:register";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::partial(
        77,
        ("In-Band Registration", "2.4"),
        "user name and password only; no other fields, no e-mail",
        "xmpp/test_accounts.py::test_a_password_is_changed_and_the_other_devices_go",
    )],
    offered: Offered::WithAccounts,
    server: (&[REGISTER], ""),
    questions: &[Questions::of_devices(REGISTER, |session, question, out| {
        if question.asked.name() != "query" {
            return Err(StanzaFault::ServiceUnavailable);
        }
        let wanted = session.registers(question.asked, (question.is_set, question.about), out);
        session.wants_of_book(wanted, question, out)
    })],
    ..Feature::NONE
};

/// Accounts that one connection may ask for. With one more its stream ends.
const REGISTRATIONS_MAX: u8 = 3;

/// Stream feature for registration (XEP-0077 8).
const STREAM_FEATURE: &str = "<register xmlns='http://jabber.org/features/iq-register'/>";

/// Whether passwords may be sent over such a link.
pub(in crate::server) fn is_private(link: &Link) -> bool {
    link.tls.is_some() || link.near
}

/// Stream feature for registration before a login over such a link; empty: not offered.
pub(in crate::server) fn stream_feature(registration: Registration, link: &Link) -> &'static str {
    let may_register = registration == Registration::Open && is_private(link);
    // Where TLS may begin, it must, and nothing else is offered.
    if may_register && !(link.tls.is_none() && link.may_start_tls) { STREAM_FEATURE } else { "" }
}

/// Whether somebody asks about an account without having one.
pub(in crate::server) fn wants_registration(stanza: &Element<'_, '_>) -> bool {
    stanza.name() == "iq" && stanza.child("query", REGISTER).is_some()
}

impl Session {
    /// A question about the registration of the own account.
    fn registers(
        &mut self,
        query: &Element<'_, '_>,
        (is_set, about): (bool, (Option<&str>, Option<&str>)),
        out: &mut Out,
    ) -> Wanted {
        if !self.has(Session::ACCOUNTS) {
            return Err(StanzaFault::ServiceUnavailable);
        }
        let name = self.account().split_once('@').map_or("", |(name, _)| name).to_owned();
        if !is_set {
            let name = format!("<registered/><username>{}</username><password/>", escaped(&name));
            self.answers(about, &format!("<query xmlns='{REGISTER}'>{name}</query>"), out);
            return Ok(None);
        }
        if query.child("remove", REGISTER).is_some() {
            // XEP-0077 3.2: it stands alone.
            return match query.children().count() {
                1 => Ok(Some((BookWhat::Own, BookWish::Leave))),
                _ => Err(StanzaFault::BadRequest),
            };
        }
        let [whose, new] = ["username", "password"].map(|name| query.child(name, REGISTER));
        let (Some(whose), Some(new)) = (whose, new) else { return Err(StanzaFault::BadRequest) };
        if *whose.text().trim().to_ascii_lowercase() != *name {
            return Err(StanzaFault::NotAllowed);
        }
        Ok(Some((BookWhat::Own, BookWish::Password(password(&new.text())?))))
    }
}

impl Opening {
    /// Handles a client's question about registration before login (XEP-0077 3.1).
    pub(in crate::server) fn registers(
        &mut self,
        stanza: &Element<'_, '_>,
        link: &Link,
        out: &mut Out,
    ) -> Result<(), End> {
        let (id, kind) = (stanza.attribute("id"), kind(stanza));
        let id = id.as_deref().filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let query = stanza.child("query", REGISTER);
        let (Some(id), Some(query), "get" | "set") = (id, query, &*kind) else {
            return Err(StreamFault::NotAuthorized.into());
        };
        if stream_feature(self.listener.registration, link).is_empty() {
            self.write_refused(id, (StanzaFault::NotAllowed, ""), out);
            return Ok(());
        }
        if *kind == *"get" {
            let fields = "<instructions>Choose a name and a password.</instructions>\
                <username/><password/>";
            self.write_result(id, &format!("<query xmlns='{REGISTER}'>{fields}</query>"), out);
            return Ok(());
        }
        if self.registrations >= REGISTRATIONS_MAX {
            let fault = StreamFault::PolicyViolation;
            return Err(End::Because(fault, CloseReason::AuthFailed));
        }
        self.registrations += 1;
        match self.account_of(&query) {
            Ok(mut registering) => {
                registering.source = (!link.near).then(|| Source::of(link.peer.ip()));
                self.stage = Stage::Registering(id.into());
                out.say(ChatRequest::Register(Box::new(registering)));
            }
            Err((fault, told)) => self.write_refused(id, (fault, told), out),
        }
        Ok(())
    }

    /// Account and password that a registration asks for.
    fn account_of(
        &self,
        query: &Element<'_, '_>,
    ) -> Result<Registering, (StanzaFault, &'static str)> {
        if query.child("remove", REGISTER).is_some() || query.child("x", FORMS).is_some() {
            return Err((StanzaFault::BadRequest, ""));
        }
        let of = |name| query.child(name, REGISTER).map(|it| it.text());
        let (Some(name), Some(new)) = (of("username"), of("password")) else {
            return Err((StanzaFault::NotAcceptable, "A name and a password are needed."));
        };
        let told = "A name must have 1 to 64 characters: a to z, digits and . _ + -";
        let address = jid::account(name.trim(), &self.domain);
        let address = address.ok_or((StanzaFault::NotAcceptable, told))?;
        let told = "A password must have 1 to 1,024 bytes.";
        let password = password(&new).map_err(|fault| (fault, told))?;
        Ok(Registering { address, password, source: None })
    }

    /// Whether there is an account now.
    pub(in crate::server) fn registered(&mut self, answer: &BookAnswer, out: &mut Out) -> bool {
        let Stage::Registering(id) = std::mem::replace(&mut self.stage, Stage::Features) else {
            return false;
        };
        match answer {
            Ok(_) => self.write_result(&id, "", out),
            Err(fault) => self.write_refused(&id, fault_of(fault), out),
        }
        true
    }

    fn write_result(&self, id: &str, inner: &str, out: &mut Out) {
        self.reply(id).result(inner, out.bytes());
    }

    fn write_refused(&self, id: &str, (fault, told): (StanzaFault, &str), out: &mut Out) {
        self.reply(id).error(fault, told, out.bytes());
    }

    /// An answer to whoever has no address yet.
    fn reply<'a>(&'a self, id: &'a str) -> StanzaReply<'a> {
        StanzaReply { name: "iq", from: Some(&self.domain), to: "", id: Some(id) }
    }
}
