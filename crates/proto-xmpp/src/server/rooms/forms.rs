//! Forms (XEP-0004) of rooms: what a room is (XEP-0045 15.5), and how its owner has it (10.2).
//!
//! An owner can set the name, which is the group's title; the description; that only moderators
//! speak, which is that the group is closed; that only members enter, which is that it is locked;
//! that it is public; that it is persistent, or ends with nobody in it. The fixed settings of a
//! group are listed, and other values for them are refused.

use super::MUC_OWNER;
use super::walk::Walk;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field, fields, number};
use crate::xml::scan::Element;

const CONFIGURATION: &str = "http://jabber.org/protocol/muc#roomconfig";
const INFORMATION: &str = "http://jabber.org/protocol/muc#roominfo";
const NAME: &str = "muc#roomconfig_roomname";
const MODERATED: &str = "muc#roomconfig_moderatedroom";
const DESCRIPTION: &str = "muc#roomconfig_roomdesc";
const MEMBERS_ONLY: &str = "muc#roomconfig_membersonly";
const PUBLIC: &str = "muc#roomconfig_publicroom";
const PERSISTENT: &str = "muc#roomconfig_persistentroom";
const WHOIS: &str = "muc#roomconfig_whois";

/// Fields that are read of a form.
const KNOWN: [&str; 8] =
    ["FORM_TYPE", NAME, DESCRIPTION, MODERATED, MEMBERS_ONLY, PUBLIC, PERSISTENT, WHOIS];

/// Settings of every group.
const FIXED: [(&str, bool); 2] =
    [("muc#roomconfig_enablearchiving", true), ("muc#roomconfig_passwordprotectedroom", false)];

/// How a room is wanted.
#[derive(Default)]
pub(super) struct Configuration {
    pub(super) name: Option<Box<str>>,
    pub(super) description: Option<Box<str>>,
    pub(super) is_moderated: Option<bool>,
    pub(super) is_locked: Option<bool>,
    pub(super) is_public: Option<bool>,
    pub(super) is_persistent: Option<bool>,
}

impl Configuration {
    /// The configuration in the form of a `query`; empty, if the form is cancelled.
    pub(super) fn of(query: &Element<'_, '_>) -> Result<Configuration, StanzaFault> {
        let form = query.child("x", FORMS).ok_or(StanzaFault::BadRequest)?;
        let mut wanted = Configuration::default();
        match form.attribute("type").as_deref() {
            Some("cancel") => return Ok(wanted),
            Some("submit") => {}
            _ => return Err(StanzaFault::BadRequest),
        }
        let mut seen = Vec::new();
        for (name, values) in fields(&form) {
            let Some(name) = name else { continue };
            let is_known = KNOWN.contains(&&*name);
            // Whoever says a thing twice means one of them (XEP-0004 3.2).
            if is_known && (seen.contains(&name) || values.len() > 1) {
                return Err(StanzaFault::BadRequest);
            }
            if is_known {
                seen.push(name.clone());
            }
            let Some(value) = values.into_iter().next() else { continue };
            match &*name {
                NAME => wanted.name = Some(value.into_owned().into()),
                "FORM_TYPE" if value != CONFIGURATION => return Err(StanzaFault::BadRequest),
                DESCRIPTION => wanted.description = Some(value.into_owned().into()),
                MODERATED => wanted.is_moderated = Some(truth(&value)?),
                MEMBERS_ONLY => wanted.is_locked = Some(truth(&value)?),
                PUBLIC => wanted.is_public = Some(truth(&value)?),
                PERSISTENT => wanted.is_persistent = Some(truth(&value)?),
                WHOIS if value != "anyone" => return Err(StanzaFault::NotAcceptable),
                name => {
                    let fixed = FIXED.iter().find(|(fixed, _)| *fixed == name);
                    if fixed.is_some_and(|(_, is)| truth(&value) != Ok(*is)) {
                        return Err(StanzaFault::NotAcceptable);
                    }
                }
            }
        }
        Ok(wanted)
    }
}

fn truth(value: &str) -> Result<bool, StanzaFault> {
    crate::forms::truth(value.trim()).ok_or(StanzaFault::BadRequest)
}

/// The form of a room's owner.
pub(super) fn configuration(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[CONFIGURATION]);
    fields += &field(NAME, "text-single", &[&walk.title]);
    fields += &field(DESCRIPTION, "text-single", &[&walk.description]);
    fields += &field(MODERATED, "boolean", &[number(walk.is_closed)]);
    fields += &field(MEMBERS_ONLY, "boolean", &[number(!walk.is_unlocked)]);
    fields += &field(PUBLIC, "boolean", &[number(walk.is_public)]);
    fields += &field(PERSISTENT, "boolean", &[number(!walk.is_temporary)]);
    fields += &field(WHOIS, "list-single", &["anyone"]);
    for (name, is) in FIXED {
        fields += &field(name, "boolean", &[number(is)]);
    }
    format!("<query xmlns='{MUC_OWNER}'><x xmlns='{FORMS}' type='form'>{fields}</x></query>")
}

/// Description of a room, for whoever may enter it, or find it.
pub(super) fn information(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[INFORMATION]);
    let described = if walk.description.is_empty() { &walk.title } else { &walk.description };
    fields += &field("muc#roominfo_description", "text-single", &[described]);
    fields += &field("muc#roominfo_subject", "text-single", &[&walk.title]);
    fields += &field("muc#roominfo_occupants", "text-single", &[&walk.occupants.to_string()]);
    format!("<x xmlns='{FORMS}' type='result'>{fields}</x>")
}
