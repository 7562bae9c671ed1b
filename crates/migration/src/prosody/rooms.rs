//! Rooms of Prosody's: what they are, who is what in them, and what was said there.
//!
//! ```text
//! rooms%2eexample%2ecom/ config   ROOM.dat    _jid, _data, _affiliation_data, and affiliations
//!                        muc_log  ROOM.list   items of lists, of mod_muc_mam
//! ```
//! The sender of a message stands in it twice, if at all: as the occupant's id, which Prosody makes
//! of the address and a salt of the room's (XEP-0421), and, where the room showed addresses to all
//! at that time, as the address itself, in the element that Prosody adds last. Clients may say the
//! like of that one, which is kept as it came: such a stanza has a receiver, or something behind
//! it. Invariant: what is given as an address of a room that shows them no client has written.

use super::occupants::OccupantIds;
use super::stores::{Store, each_stanza, folders_in, tables};
use super::{files_in, unescaped};
use crate::element::{MovedElement, MovedInner};
use crate::lua::{Literal, Table};
use crate::moved::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const LIST: &[u8] = b".list";
const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const OCCUPANT_IDS: &str = "urn:xmpp:occupant-id:0";
const RETRACT: &str = "urn:xmpp:message-retract:1";
const RETRACT_OLD: &str = "urn:xmpp:message-retract:0";
const FASTEN: &str = "urn:xmpp:fasten:0";

/// Rooms of each service of rooms that stands beside the host, by its name; then what was said in
/// them.
pub(super) fn rooms(folder: &Path, taking: &mut dyn Taking) -> Result<(), String> {
    let (Some(beside), Some(host)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let ending = [b"%2e", host.as_bytes()].concat();
    let is_of_host = |name: &OsStr| name.as_bytes().ends_with(&ending);
    let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    for service in folders_in(beside)? {
        let Some(domain) = service.file_name().filter(|name| is_of_host(name)) else { continue };
        let Some(domain) = unescaped(domain, b"") else { continue };
        // A host below this one has people of its own.
        if service.join("accounts").is_dir() {
            continue;
        }
        tables(&service.join("config"), taking, |table, store| {
            store.owner = format!("{}@{domain}", store.owner);
            room(table, store)
        })?;
        for file in files_in(&service.join("muc_log"), LIST)? {
            each_stanza(&file, taking, |name, item| {
                let said = said(item)?;
                Ok((format!("{name}@{domain}"), MovedWhat::Said(said)))
            })?;
        }
    }
    Ok(())
}

fn room(table: &Table, store: &mut Store<'_>) -> Result<(), String> {
    let nothing = Table::default();
    let data = table.table("_data").unwrap_or(&nothing);
    // Of older files they stand apart.
    let affiliations = table.table("_affiliations").unwrap_or(table).named();
    let affiliations = affiliations.filter(|(jid, _)| jid.contains('@'));
    let affiliations =
        affiliations.filter_map(|(jid, word)| Some((jid.to_owned(), word.text()?.to_owned())));
    let is = |name: &str| data.find(name) == Some(&Literal::Bool(true));
    let salt = data.text("occupant_id_salt").filter(|salt| !salt.is_empty());
    store.take(MovedWhat::Room(MovedRoom {
        title: data.text("name").unwrap_or_default().into(),
        description: data.text("description").unwrap_or_default().into(),
        is_moderated: is("moderated"),
        is_open: !is("members_only"),
        is_public: !is("hidden"),
        password: data.text("password").unwrap_or_default().into(),
        affiliations: affiliations.collect(),
        occupants: salt.map(OccupantIds::of_salt),
        shows_addresses: data.text("whois") == Some("anyone"),
    }))
}

/// Content of a stanza of a room's archive, and its sender.
fn said(item: &Table) -> Result<MovedSaid, String> {
    let MovedStanza { at, mut stanza, .. } = super::stores::message(item, false)?;
    if stanza.attribute("type") != Some("groupchat") {
        return Err("not a message to a whole room".into());
    }
    let own = |stanza: &MovedElement, name: &str, namespace: &str| {
        stanza.elements().filter(|it| it.is(name, namespace)).last().cloned()
    };
    let id = |it: &MovedElement| it.attribute("id").filter(|id| !id.is_empty()).map(String::from);
    let retracts = own(&stanza, "retract", RETRACT).or_else(|| {
        let fastened = own(&stanza, "apply-to", FASTEN);
        fastened.filter(|it| it.child("retract", RETRACT_OLD).is_some())
    });
    let from = stanza.attribute("from").and_then(|from| from.split_once('/'));
    let nick = from.map(|(_, nick)| nick.to_owned()).unwrap_or_default();
    let address = address(&stanza);
    let occupant = own(&stanza, "occupant-id", OCCUPANT_IDS).as_ref().and_then(id);
    let retracts = retracts.as_ref().and_then(id);
    stanza.attributes.retain(|(name, _)| !matches!(&**name, "from" | "to"));
    let id = item.text("key").map(String::from);
    Ok(MovedSaid { at, id, nick, address, occupant, retracts, stanza })
}

/// The address that Prosody has added, if it has.
fn address(stanza: &MovedElement) -> Option<String> {
    let Some(MovedInner::Element(last)) = stanza.children.last() else { return None };
    let item = last.child("item", MUC_USER).filter(|_| last.is("x", MUC_USER))?;
    let jid = item.attribute("jid")?;
    stanza.attribute("to").is_none().then(|| jid.to_owned())
}
