//! Forms (XEP-0004) of rooms: what a room is (XEP-0045 15.5), and how its owner has it (10.2).
//!
//! An owner can set the name, which is the group's title; the description; that only moderators
//! speak, which is that the group is closed; that only members enter, which is that it is locked;
//! that it is public; that it is persistent, or ends with nobody in it; and the rules of its room:
//! a password, how many enter, who invites, who sets the subject, who sends private messages.
//! Settings that would make a room narrower than groups can be are refused: they are not passed
//! over in silence.

use super::MUC_OWNER;
use super::walk::Walk;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field, fields, labelled_field, number};
use crate::xml::scan::Element;
use model::chat::{GroupSettings, ROOM_PASSWORD_BYTES_MAX, RoomRule, Whispers};

const CONFIGURATION: &str = "http://jabber.org/protocol/muc#roomconfig";
const INFORMATION: &str = "http://jabber.org/protocol/muc#roominfo";
const NAME: &str = "muc#roomconfig_roomname";
const MODERATED: &str = "muc#roomconfig_moderatedroom";
const DESCRIPTION: &str = "muc#roomconfig_roomdesc";
const MEMBERS_ONLY: &str = "muc#roomconfig_membersonly";
const PUBLIC: &str = "muc#roomconfig_publicroom";
const PERSISTENT: &str = "muc#roomconfig_persistentroom";

const PROTECTED: &str = "muc#roomconfig_passwordprotectedroom";
const SECRET: &str = "muc#roomconfig_roomsecret";
const OCCUPANTS_MAX: &str = "muc#roomconfig_maxusers";
const INVITES: &str = "muc#roomconfig_allowinvites";
const SUBJECT: &str = "muc#roomconfig_changesubject";
const WHISPERS: &str = "muc#roomconfig_allowpm";

/// Fields that are read of a form.
const KNOWN: [&str; 13] = [
    "FORM_TYPE",
    NAME,
    DESCRIPTION,
    MODERATED,
    MEMBERS_ONLY,
    PUBLIC,
    PERSISTENT,
    PROTECTED,
    SECRET,
    OCCUPANTS_MAX,
    INVITES,
    SUBJECT,
    WHISPERS,
];

/// Settings of every group, with their labels.
const FIXED: [(&str, &str, bool); 1] =
    [("muc#roomconfig_enablearchiving", "Keep an archive", true)];

/// Fields that a form need not have, with the only values that hold here: a room that is narrower
/// than it seems would deceive its owner.
const REFUSED: [(&str, &[&str]); 3] = [
    ("muc#roomconfig_whois", &["", "anyone"]),
    ("muc#roomconfig_roomadmins", &[""]),
    ("muc#roomconfig_roomowners", &[""]),
];

/// Fields that name the roles whose presence is broadcast, and those that get the list of members;
/// a form that leaves out a role is refused.
const OF_ROLES: [&str; 2] = ["muc#roomconfig_presencebroadcast", "muc#roomconfig_getmemberlist"];

const ROLES: [&str; 3] = ["moderator", "participant", "visitor"];

/// Limits of occupants that the form offers, beside the present one.
const OCCUPANTS: [u32; 6] = [10, 20, 50, 100, 500, 1_000];

/// The value that says that there is no limit.
const NO_LIMIT: &str = "none";

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
    let (mut is_protected, mut password) = (None, None);
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
        let has = |role: &&str| values.iter().any(|it| it == role);
        if OF_ROLES.contains(&&*name) && !ROLES.iter().all(has) {
            return Err(StanzaFault::NotAcceptable);
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
            PROTECTED => is_protected = Some(truth(&value)?),
            SECRET => password = Some(value.into_owned()),
            OCCUPANTS_MAX => wanted.rules.push(RoomRule::OccupantsMax(occupants_max(&value)?)),
            INVITES => wanted.rules.push(RoomRule::MembersInvite(truth(&value)?)),
            SUBJECT => wanted.rules.push(RoomRule::OpenSubject(truth(&value)?)),
            WHISPERS if value.trim().is_empty() => {}
            WHISPERS => {
                let whispers = Whispers::of(value.trim()).ok_or(StanzaFault::NotAcceptable)?;
                wanted.rules.push(RoomRule::Whispers(whispers));
            }
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
    wanted.rules.extend(password_of(is_protected, password)?);
    Ok(Some(wanted))
}

/// The rule of a password: of a form with a password alone it is that; one is demanded by no form
/// without it.
fn password_of(
    is_protected: Option<bool>,
    password: Option<String>,
) -> Result<Option<RoomRule>, StanzaFault> {
    let password = match (is_protected, password) {
        (None, None) => return Ok(None),
        (Some(false), _) => String::new(),
        (Some(true), None) => return Err(StanzaFault::NotAcceptable),
        (Some(true), Some(it)) if it.is_empty() => return Err(StanzaFault::NotAcceptable),
        (_, Some(it)) => it,
    };
    let is_odd = password.chars().any(char::is_control);
    if is_odd || password.len() > ROOM_PASSWORD_BYTES_MAX {
        return Err(StanzaFault::NotAcceptable);
    }
    Ok(Some(RoomRule::Password(password.into())))
}

fn occupants_max(value: &str) -> Result<u32, StanzaFault> {
    match value.trim() {
        "" | "0" | NO_LIMIT => Ok(0),
        value => value.parse().map_err(|_| StanzaFault::BadRequest),
    }
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
    let rules = &walk.rules;
    let of_rules = [
        (INVITES, "Let members invite others", rules.members_invite),
        (SUBJECT, "Let everybody change the subject", rules.open_subject),
        (PROTECTED, "Demand a password", walk.is_protected),
    ];
    for (name, label, is) in settings.into_iter().chain(FIXED).chain(of_rules) {
        fields += &labelled_field(name, (label, "boolean"), &[number(is)]);
    }
    fields += &labelled_field(SECRET, ("Password", "text-private"), &[&rules.password]);
    let whispers = Whispers::ALL.map(|it| it.word().to_owned());
    let label = "Who may send private messages";
    fields += &choice((WHISPERS, label), rules.whispers.word(), whispers.into());
    let most = match rules.occupants_max {
        0 => NO_LIMIT.to_owned(),
        most => most.to_string(),
    };
    let mut options: Vec<_> = OCCUPANTS.iter().map(u32::to_string).collect();
    if !OCCUPANTS.contains(&rules.occupants_max) && rules.occupants_max > 0 {
        options.push(most.clone());
    }
    options.push(NO_LIMIT.to_owned());
    fields += &choice((OCCUPANTS_MAX, "Maximum number of occupants"), &most, options);
    let title = "<title>Room configuration</title>";
    format!("<query xmlns='{MUC_OWNER}'><x xmlns='{FORMS}' type='form'>{title}{fields}</x></query>")
}

/// A field with one of these values.
fn choice((name, label): (&str, &str), is: &str, options: Vec<String>) -> String {
    let option = |it: &String| format!("<option><value>{it}</value></option>");
    let options: String = options.iter().map(option).collect();
    let field = labelled_field(name, (label, "list-single"), &[is]);
    field.replace("</field>", &format!("{options}</field>"))
}

/// Description of a room, for whoever may enter it, or find it.
pub(super) fn information(walk: &Walk) -> String {
    let mut fields = field("FORM_TYPE", "hidden", &[INFORMATION]);
    let described = if walk.description.is_empty() { &walk.title } else { &walk.description };
    fields += &field("muc#roominfo_description", "text-single", &[described]);
    fields += &field("muc#roominfo_subject", "text-single", &[&walk.title]);
    fields += &field("muc#roominfo_occupants", "text-single", &[&walk.occupants.to_string()]);
    let rules = &walk.rules;
    fields += &field(INVITES, "boolean", &[number(rules.members_invite)]);
    fields += &field(SUBJECT, "boolean", &[number(rules.open_subject)]);
    fields += &field(WHISPERS, "list-single", &[rules.whispers.word()]);
    if rules.occupants_max > 0 {
        fields += &field(OCCUPANTS_MAX, "list-single", &[&rules.occupants_max.to_string()]);
    }
    format!("<x xmlns='{FORMS}' type='result'>{fields}</x>")
}
