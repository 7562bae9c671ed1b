//! Forms (XEP-0004) of rooms: what a room is (XEP-0045 15.5), and how its owner has it (10.2).
//!
//! Two things may be set: the name, which is the group's title, and that only moderators speak,
//! which is that the group is closed. What a group is in any case is said, and nothing else is
//! taken for it.

use super::MUC_OWNER;
use super::walk::Walk;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field, fields, number};
use crate::xml::scan::Element;

const CONFIGURATION: &str = "http://jabber.org/protocol/muc#roomconfig";
const INFORMATION: &str = "http://jabber.org/protocol/muc#roominfo";
const NAME: &str = "muc#roomconfig_roomname";
const MODERATED: &str = "muc#roomconfig_moderatedroom";
const WHOIS: &str = "muc#roomconfig_whois";

/// What every group is.
const FIXED: [(&str, bool); 4] = [
    ("muc#roomconfig_persistentroom", true),
    ("muc#roomconfig_membersonly", true),
    ("muc#roomconfig_publicroom", false),
    ("muc#roomconfig_passwordprotectedroom", false),
];

/// How a room is wanted.
#[derive(Default)]
pub(super) struct Configuration {
    pub(super) name: Option<Box<str>>,
    pub(super) is_moderated: Option<bool>,
}

impl Configuration {
    /// What the form in a `query` wants; nothing, of one that is cancelled.
    pub(super) fn of(query: &Element<'_, '_>) -> Result<Configuration, StanzaFault> {
        let form = query.child("x", FORMS).ok_or(StanzaFault::BadRequest)?;
        let mut wanted = Configuration::default();
        match form.attribute("type").as_deref() {
            Some("cancel") => return Ok(wanted),
            Some("submit") => {}
            _ => return Err(StanzaFault::BadRequest),
        }
        for (name, values) in fields(&form) {
            let name = name.unwrap_or_default();
            let Some(value) = values.into_iter().next() else { continue };
            match &*name {
                NAME => wanted.name = Some(value.into_owned().into()),
                MODERATED => {
                    wanted.is_moderated = Some(truth(&value).ok_or(StanzaFault::BadRequest)?)
                }
                WHOIS if value != "anyone" => return Err(StanzaFault::NotAcceptable),
                name => {
                    let fixed = FIXED.iter().find(|(fixed, _)| *fixed == name);
                    if fixed.is_some_and(|(_, is)| truth(&value) != Some(*is)) {
                        return Err(StanzaFault::NotAcceptable);
                    }
                }
            }
        }
        Ok(wanted)
    }
}

fn truth(value: &str) -> Option<bool> {
    crate::forms::truth(value.trim())
}

/// The form of a room's owner.
pub(super) fn configuration(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[CONFIGURATION]);
    fields += &field(NAME, "text-single", &[&walk.title]);
    fields += &field(MODERATED, "boolean", &[number(walk.is_closed)]);
    fields += &field(WHOIS, "list-single", &["anyone"]);
    for (name, is) in FIXED {
        fields += &field(name, "boolean", &[number(is)]);
    }
    format!("<query xmlns='{MUC_OWNER}'><x xmlns='{FORMS}' type='form'>{fields}</x></query>")
}

/// What a room is, for whoever may enter it.
pub(super) fn information(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[INFORMATION]);
    fields += &field("muc#roominfo_description", "text-single", &[&walk.title]);
    fields += &field("muc#roominfo_subject", "text-single", &[&walk.title]);
    fields += &field("muc#roominfo_occupants", "text-single", &[&walk.total.to_string()]);
    format!("<x xmlns='{FORMS}' type='result'>{fields}</x>")
}
