//! Asides of a room to some occupants, and what they answer: that somebody declined an invitation
//! (XEP-0045 7.8.2), and who shall have a voice (7.13, 8.6).
//!
//! ```text
//! form of a visitor   ─► the group's home, at its pace ─► form for each moderator in the room
//! form of a moderator ─► allows? ─► SetRoles, as by `participant` of a moderator
//! ```
//! None of it is kept: a form is answered by what it says, whether it was ever asked. The session
//! uses the roles that it was shown last; the group judges anew. Invariant: only moderators who are
//! in a room see who asks for voice.

use super::administration::Ordering;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, fields, truth};
use crate::jid::Jid;
use crate::render::MUC_USER;
use crate::render::room::reason;
use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::StanzaReply;
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{AsideWhat, ChatRequest, GroupAside, OccupantName, nick_of};
use model::counters::ChatCounter;
use std::borrow::Cow;

/// Forms about voice (15.5.3), and the feature that says that a room knows them.
pub(super) const VOICE: &str = "http://jabber.org/protocol/muc#request";

const ROLE: &str = "muc#role";
const JID: &str = "muc#jid";
const NICK: &str = "muc#roomnick";
const ALLOW: &str = "muc#request_allow";

/// Fields that are read of a form, beside its kind.
const KNOWN: [&str; 4] = [ROLE, JID, NICK, ALLOW];

/// Whether an occupant moderates the room, and whether it has no voice.
pub(super) type Standing = (bool, bool);

/// A form about voice.
enum VoiceForm {
    /// The sender asks for a voice.
    Asks,
    /// This one is to have one.
    Allows(OccupantName),
    /// The form denies voice, or says nothing.
    Denies,
    /// The form was cancelled.
    Cancelled,
}

/// Result of a form about voice.
pub(super) enum Voiced {
    /// Moderators are asked.
    Asked,
    /// The group is given this order.
    Ordered(Ordering),
    Nothing,
}

impl VoiceForm {
    fn of(message: &Element<'_, '_>) -> Result<VoiceForm, StanzaFault> {
        let form = message.child("x", FORMS).ok_or(StanzaFault::ServiceUnavailable)?;
        match form.attribute("type").as_deref() {
            Some("cancel") => return Ok(VoiceForm::Cancelled),
            Some("submit") => {}
            _ => return Err(StanzaFault::BadRequest),
        }
        let mut is_of_voice = false;
        let mut known: [Option<Cow<'_, str>>; 4] = Default::default();
        for (name, values) in fields(&form) {
            let mut values = values.into_iter();
            let (Some(name), Some(value)) = (name, values.next()) else { continue };
            is_of_voice |= name == "FORM_TYPE" && value == VOICE;
            let Some(at) = KNOWN.iter().position(|it| *it == name) else { continue };
            // A field has one value, and stands once (XEP-0004 3.2).
            if known[at].replace(value).is_some() || values.next().is_some() {
                return Err(StanzaFault::BadRequest);
            }
        }
        if !is_of_voice {
            return Err(StanzaFault::ServiceUnavailable);
        }
        let [role, jid, nick, allow] = known;
        if role.as_ref().is_some_and(|role| role.trim() != "participant") {
            return Err(StanzaFault::NotAcceptable);
        }
        match (allow.map(|it| truth(it.trim())), role) {
            (None, Some(_)) => return Ok(VoiceForm::Asks),
            (Some(Some(true)), _) => {}
            (Some(Some(false)), _) => return Ok(VoiceForm::Denies),
            (Some(None), _) | (None, None) => return Err(StanzaFault::BadRequest),
        }
        let whom = match (jid, nick) {
            (Some(jid), _) => {
                let account = Jid::parse(jid.trim()).ok_or(StanzaFault::JidMalformed)?.account;
                let account = account.filter(|it| !it.is_group());
                OccupantName::Account(account.ok_or(StanzaFault::ItemNotFound)?)
            }
            (None, Some(nick)) => OccupantName::Nick(nick.trim().into()),
            (None, None) => return Err(StanzaFault::BadRequest),
        };
        Ok(VoiceForm::Allows(whom))
    }
}

impl Voiced {
    /// Result of the form in a message to a room, for a sender with this standing; `None`: it is
    /// not in the room.
    pub(super) fn of(
        room: &AccountAddress,
        message: &Element<'_, '_>,
        standing: Option<Standing>,
    ) -> Result<Voiced, StanzaFault> {
        let form = VoiceForm::of(message)?;
        let (is_moderator, is_silent) = standing.ok_or(StanzaFault::NotAcceptable)?;
        match form {
            VoiceForm::Cancelled => Ok(Voiced::Nothing),
            VoiceForm::Asks if is_silent && !room.is_channel() => Ok(Voiced::Asked),
            // It has one; or it subscribes, and never will.
            VoiceForm::Asks => Err(StanzaFault::NotAllowed),
            VoiceForm::Allows(_) | VoiceForm::Denies if !is_moderator => {
                Err(StanzaFault::Forbidden)
            }
            VoiceForm::Denies => Ok(Voiced::Nothing),
            VoiceForm::Allows(whom) => Ok(Voiced::Ordered(Ordering::voice(room.clone(), whom))),
        }
    }
}

/// Appends the stanza of an aside.
pub(super) fn put_aside(to: &str, aside: &GroupAside, out: &mut Vec<u8>) {
    let GroupAside { group, who, what } = aside;
    let head = StanzaReply { name: "message", from: Some(group.as_str()), to, id: None };
    let inner = match what {
        AsideWhat::Declined(why) => declined(who, why),
        AsideWhat::Voice => approval(group, who),
    };
    head.put("", &inner, out);
}

fn declined(who: &AccountAddress, why: &str) -> String {
    let (who, why) = (escaped(who.as_str()), reason(why));
    format!("<x xmlns='{MUC_USER}'><decline from='{who}'>{why}</decline></x>")
}

/// The form by which a moderator gives somebody a voice (8.6).
fn approval(room: &AccountAddress, who: &AccountAddress) -> String {
    let (jid, nick) = (escaped(who.as_str()), escaped(nick_of(room, who)));
    format!(
        "<x xmlns='{FORMS}' type='form'><title>Voice request</title>\
         <instructions>Somebody who may not speak in the room asks that it may.</instructions>\
         <field var='FORM_TYPE' type='hidden'><value>{VOICE}</value></field>\
         <field var='{ROLE}' type='list-single' label='Requested role'>\
         <value>participant</value>\
         <option label='Participant'><value>participant</value></option></field>\
         <field var='{JID}' type='jid-single' label='Address'><value>{jid}</value></field>\
         <field var='{NICK}' type='text-single' label='Name in the room'>\
         <value>{nick}</value></field>\
         <field var='{ALLOW}' type='boolean' label='Let it speak?'><value>0</value></field></x>"
    )
}

impl Session {
    /// A form about voice is sent to a room; or something that no room takes.
    pub(super) fn says_of_voice(
        &mut self,
        now: Now,
        (room, about): (&AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let standing = self.room(room).map(|it| it.standing());
        match Voiced::of(room, message, standing) {
            Ok(Voiced::Nothing) => {}
            Ok(Voiced::Asked) => {
                let (session, group) = (self.session, Box::new(room.clone().into()));
                out.say(ChatRequest::Voice { session, group });
            }
            Ok(Voiced::Ordered(order)) => self.order_room(now, ("message", about), order, out),
            Err(fault) => self.refuse_here("message", about, fault, out),
        }
    }

    /// A group tells the device something: who asks for voice a moderator hears that is in the
    /// room; who declined, whoever had invited, wherever it looks.
    pub(in crate::server) fn write_aside(&mut self, aside: &GroupAside, out: &mut Out) {
        let is_meant = match aside.what {
            AsideWhat::Declined(_) => true,
            AsideWhat::Voice => self.room(&aside.group).is_some_and(|it| it.own.is_moderator()),
        };
        if !is_meant || !self.hears_of_now(out) {
            return out.count(ChatCounter::TransientsDropped);
        }
        put_aside(self.jid(), aside, out.bytes());
        self.counts_sent(out);
    }
}
