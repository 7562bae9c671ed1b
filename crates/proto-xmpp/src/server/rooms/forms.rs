//! Forms (XEP-0004) of rooms: what a room is (XEP-0045 15.5), and how its owner has it (10.2).
//!
//! An owner can set the name, which is the group's title; the description; that only moderators
//! speak, which is that the group is closed; that only members enter, which is that it is locked;
//! that it is public; that it is persistent, or ends with nobody in it. Settings that would make
//! a room narrower than groups can be are refused: they are not passed over in silence.

use super::MUC_OWNER;
use super::walk::Walk;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field, fields, labelled_field, number};
use crate::xml::scan::Element;
use model::chat::GroupSettings;

const CONFIGURATION: &str = "http://jabber.org/protocol/muc#roomconfig";
const INFORMATION: &str = "http://jabber.org/protocol/muc#roominfo";
const NAME: &str = "muc#roomconfig_roomname";
const MODERATED: &str = "muc#roomconfig_moderatedroom";
const DESCRIPTION: &str = "muc#roomconfig_roomdesc";
const MEMBERS_ONLY: &str = "muc#roomconfig_membersonly";
const PUBLIC: &str = "muc#roomconfig_publicroom";
const PERSISTENT: &str = "muc#roomconfig_persistentroom";

/// Fields that are read of a form.
const KNOWN: [&str; 7] =
    ["FORM_TYPE", NAME, DESCRIPTION, MODERATED, MEMBERS_ONLY, PUBLIC, PERSISTENT];

/// Settings of every group, with their labels.
const FIXED: [(&str, &str, bool); 3] = [
    ("muc#roomconfig_changesubject", "Let everybody change the subject", false),
    ("muc#roomconfig_enablearchiving", "Keep an archive", true),
    ("muc#roomconfig_passwordprotectedroom", "Demand a password", false),
];

/// Fields that a form need not have, with the only values that hold here: a room that is narrower
/// than it seems would deceive its owner.
const REFUSED: [(&str, &[&str]); 6] = [
    ("muc#roomconfig_roomsecret", &[""]),
    ("muc#roomconfig_whois", &["", "anyone"]),
    ("muc#roomconfig_allowpm", &["", "anyone"]),
    ("muc#roomconfig_maxusers", &["", "0", "none"]),
    ("muc#roomconfig_roomadmins", &[""]),
    ("muc#roomconfig_roomowners", &[""]),
];

/// How a room is wanted.
pub(super) type Configuration = GroupSettings;

/// The configuration in the form of a `query`; none, if the form is cancelled.
pub(super) fn wanted(query: &Element<'_, '_>) -> Result<Option<Configuration>, StanzaFault> {
    let form = query.child("x", FORMS).ok_or(StanzaFault::BadRequest)?;
    let mut wanted = Configuration::default();
    match form.attribute("type").as_deref() {
        Some("cancel") => return Ok(None),
        Some("submit") => {}
        _ => return Err(StanzaFault::BadRequest),
    }
    let mut seen = Vec::new();
    for (name, values) in fields(&form) {
        let Some(name) = name else { continue };
        let is_known = KNOWN.contains(&&*name);
        // A field has one value, and stands once (XEP-0004 3.2).
        if is_known && (seen.contains(&name) || values.len() > 1) {
            return Err(StanzaFault::BadRequest);
        }
        if is_known {
            seen.push(name.clone());
        }
        let Some(value) = values.into_iter().next() else { continue };
        match &*name {
            NAME => wanted.title = Some(value.into_owned().into()),
            "FORM_TYPE" if value != CONFIGURATION => return Err(StanzaFault::BadRequest),
            DESCRIPTION => wanted.description = Some(value.into_owned().into()),
            MODERATED => wanted.closed = Some(truth(&value)?),
            MEMBERS_ONLY => wanted.unlocked = Some(!truth(&value)?),
            PUBLIC => wanted.public = Some(truth(&value)?),
            PERSISTENT => wanted.temporary = Some(!truth(&value)?),
            name => {
                let fixed = FIXED.iter().find(|(fixed, ..)| *fixed == name);
                let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
                if fixed.is_some_and(|(.., is)| truth(&value) != Ok(*is))
                    || refused.is_some_and(|(_, only)| !only.contains(&&*value))
                {
                    return Err(StanzaFault::NotAcceptable);
                }
            }
        }
    }
    Ok(Some(wanted))
}

fn truth(value: &str) -> Result<bool, StanzaFault> {
    crate::forms::truth(value.trim()).ok_or(StanzaFault::BadRequest)
}

/// The form of a room's owner.
pub(super) fn configuration(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[CONFIGURATION]);
    fields += &labelled_field(NAME, ("Name", "text-single"), &[&walk.title]);
    fields += &labelled_field(DESCRIPTION, ("Description", "text-single"), &[&walk.description]);
    let settings = [
        (MODERATED, "Let only members with a voice speak", walk.is_closed),
        (MEMBERS_ONLY, "Let only members enter", !walk.is_unlocked),
        (PUBLIC, "List the room publicly", walk.is_public),
        (PERSISTENT, "Keep the room when nobody is in it", !walk.is_temporary),
    ];
    for (name, label, is) in settings.into_iter().chain(FIXED) {
        fields += &labelled_field(name, (label, "boolean"), &[number(is)]);
    }
    let title = "<title>Room configuration</title>";
    format!("<query xmlns='{MUC_OWNER}'><x xmlns='{FORMS}' type='form'>{title}{fields}</x></query>")
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
