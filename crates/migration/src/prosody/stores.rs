//! Data in a host's folder of Prosody's beside accounts.
//!
//! ```text
//! example%2ecom/ roster  blocklist  vcard  private  pep   NAME.dat    a table each
//!                archive  offline  pep_NODE               NAME.list   items of lists
//! ```
//! Rooms stand beside it ([`rooms`]). Nothing is run and nothing else opened. Invariant: one file
//! of tables, or one item of a list, is in memory.

use super::element::element;
use super::rooms::rooms;
use super::{ENDING, FILE_BYTES_MAX, files_in, list, unescaped};
use crate::element::MovedElement;
use crate::lua::{Literal, Table};
use crate::moved::*;
use std::path::{Path, PathBuf};

/// Bytes of a file that is one table: a roster, a vCard.
const TABLE_BYTES_MAX: u64 = 256 * FILE_BYTES_MAX;

const LIST: &[u8] = b".list";
const CLIENT: &str = "jabber:client";
const NODES: &str = "pep_";

/// Hands all data of a host's folder, and of its rooms, to `taking`.
pub fn walk(folder: &Path, taking: &mut dyn Taking) -> Result<(), String> {
    let host = folder.file_name().and_then(|name| unescaped(name, b""));
    taking.host(&host.ok_or("its name is not a Prosody host name")?);
    for (store, read) in [
        ("roster", roster as fn(&Table, &mut Store<'_>) -> Result<(), String>),
        ("blocklist", blocklist),
        ("vcard", vcard),
        ("private", private),
    ] {
        tables(&folder.join(store), taking, read)?;
    }
    for store in folders_in(folder)? {
        let name = store.file_name().and_then(|name| unescaped(name, b""));
        if let Some(node) = name.as_deref().and_then(|name| name.strip_prefix(NODES)) {
            nodes(folder, &store, node, taking)?;
        }
    }
    for (store, is_waiting) in [("archive", false), ("offline", true)] {
        for file in files_in(&folder.join(store), LIST)? {
            messages(&file, is_waiting, taking)?;
        }
    }
    rooms(folder, taking)
}

/// One file of a store: whose it is, and who takes what it has.
pub(super) struct Store<'a> {
    place: String,
    pub(super) owner: String,
    taking: &'a mut dyn Taking,
}

impl Store<'_> {
    pub(super) fn take(&mut self, what: MovedWhat) -> Result<(), String> {
        let (place, owner) = (self.place.clone(), self.owner.clone());
        self.taking.take(MovedItem { place, owner, what })
    }

    fn leave(&mut self, why: &str) {
        self.taking.leave(self.place.clone(), why.into());
    }
}

/// Files of a store that are a table each.
pub(super) fn tables(
    store: &Path,
    taking: &mut dyn Taking,
    read: impl Fn(&Table, &mut Store<'_>) -> Result<(), String>,
) -> Result<(), String> {
    for file in files_in(store, ENDING)? {
        let place = file.display().to_string();
        let Some(owner) = file.file_name().and_then(|name| unescaped(name, ENDING)) else {
            taking.leave(place, "its name is not in Prosody's form".into());
            continue;
        };
        match super::table(&file, TABLE_BYTES_MAX) {
            Ok(table) => read(&table, &mut Store { place, owner, taking })?,
            Err(why) => taking.leave(place, why),
        }
    }
    Ok(())
}

fn roster(table: &Table, store: &mut Store<'_>) -> Result<(), String> {
    for (jid, item) in table.named() {
        let Literal::Table(item) = item else { continue };
        let subscription = item.text("subscription").unwrap_or("none");
        let is_approved = item.find("approved") == Some(&Literal::Bool(true));
        let groups = item.table("groups").map(|groups| {
            let named = groups.named().filter(|(_, is)| **is == Literal::Bool(true));
            named.map(|(name, _)| name.to_owned()).collect()
        });
        store.take(MovedWhat::Contact(MovedContact {
            jid: jid.into(),
            name: item.text("name").unwrap_or_default().into(),
            groups: groups.unwrap_or_default(),
            sees: matches!(subscription, "to" | "both"),
            is_seen: matches!(subscription, "from" | "both") || is_approved,
            asks: item.text("ask") == Some("subscribe"),
        }))?;
    }
    Ok(())
}

fn blocklist(table: &Table, store: &mut Store<'_>) -> Result<(), String> {
    for (jid, is) in table.named() {
        if *is != Literal::Bool(false) {
            store.take(MovedWhat::Blocked(jid.into()))?;
        }
    }
    Ok(())
}

fn vcard(table: &Table, store: &mut Store<'_>) -> Result<(), String> {
    match element(table, "").filter(|it| it.is("vCard", "vcard-temp")) {
        Some(vcard) => store.take(MovedWhat::VCard(vcard)),
        None => {
            store.leave("not a vCard");
            Ok(())
        }
    }
}

fn private(table: &Table, store: &mut Store<'_>) -> Result<(), String> {
    for (key, kept) in table.named() {
        let kept = match kept {
            Literal::Table(kept) => element(kept, ""),
            _ => None,
        };
        match kept {
            Some(kept) => store.take(MovedWhat::Private(kept))?,
            None => store.leave(&format!("{} is not an element", key.escape_debug())),
        }
    }
    Ok(())
}

/// The items that people have in a node of this name.
fn nodes(folder: &Path, store: &Path, node: &str, taking: &mut dyn Taking) -> Result<(), String> {
    for file in files_in(store, LIST)? {
        let place = file.display().to_string();
        let Some(owner) = file.file_name().and_then(|name| unescaped(name, LIST)) else {
            taking.leave(place, "its name is not in Prosody's form".into());
            continue;
        };
        let mut found = MovedNode { node: node.into(), ..MovedNode::default() };
        let own = Path::new(file.file_name().unwrap_or_default()).with_extension("dat");
        // A node without a configuration is as nodes are when they are made.
        let configured = super::table(&folder.join("pep").join(own), TABLE_BYTES_MAX).ok();
        let config = configured.as_ref().and_then(|all| all.table(node)?.table("config"));
        if let Some(config) = config {
            found.access = config.text("access_model").map(String::from);
            let count = config.number("max_items").map(|count| format!("{count:.0}"));
            found.items_max = count.or_else(|| config.text("max_items").map(String::from));
        }
        list::each(&file, |number, item| {
            match item.and_then(|item| node_item(&item)) {
                Ok(item) => found.items.push(item),
                Err(why) => taking.leave(format!("{place}: item {number}"), why),
            }
            Ok(())
        })?;
        taking.take(MovedItem { place, owner, what: MovedWhat::Node(found) })?;
    }
    Ok(())
}

fn node_item(table: &Table) -> Result<(String, MovedElement), String> {
    let mut item = element(table, "").ok_or("not an element")?;
    let id = item.attribute("id").or_else(|| table.text("key")).unwrap_or_default();
    // Of some versions the payload itself is kept.
    if item.name != "item" {
        item.attributes.retain(|(name, _)| !name.starts_with("stamp"));
        return Ok((table.text("key").unwrap_or_default().into(), item));
    }
    let mut inner = item.elements();
    match (inner.next(), inner.next()) {
        (Some(payload), None) => Ok((id.into(), payload.clone())),
        _ => Err("it must have exactly one payload".into()),
    }
}

/// The messages of a list.
fn messages(file: &Path, is_waiting: bool, taking: &mut dyn Taking) -> Result<(), String> {
    each_stanza(file, taking, |name, item| {
        let message = message(item, is_waiting)?;
        Ok((name.to_owned(), MovedWhat::Message(message)))
    })
}

/// The items of a list that are stanzas: whose each is, by the file's name, and what.
pub(super) fn each_stanza(
    file: &Path,
    taking: &mut dyn Taking,
    read: impl Fn(&str, &Table) -> Result<(String, MovedWhat), String>,
) -> Result<(), String> {
    let place = file.display().to_string();
    let Some(name) = file.file_name().and_then(|name| unescaped(name, LIST)) else {
        taking.leave(place, "its name is not in Prosody's form".into());
        return Ok(());
    };
    list::each(file, |number, item| {
        let place = format!("{place}: item {number}");
        match item.and_then(|item| read(&name, &item)) {
            Ok((owner, what)) => taking.take(MovedItem { place, owner, what }),
            Err(why) => {
                taking.leave(place, why);
                Ok(())
            }
        }
    })
}

pub(super) fn message(item: &Table, is_waiting: bool) -> Result<MovedStanza, String> {
    let mut stanza = element(item, CLIENT).ok_or("not a stanza")?;
    if stanza.name != "message" {
        return Err(format!("a stanza `{}`, not a message", stanza.name));
    }
    let stamp = stanza.attribute("stamp").map(|stamp| MovedTime::Stamp(stamp.into()));
    let when = item.number("when").filter(|when| (0.0..1e12).contains(when));
    let at = when.map(|when| MovedTime::UnixMs((when * 1_000.0) as u64)).or(stamp);
    stanza.attributes.retain(|(name, _)| !name.starts_with("stamp"));
    Ok(MovedStanza { at: at.ok_or("it has no timestamp")?, id: None, is_waiting, stanza })
}

pub(super) fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut folders = Vec::new();
    for entry in folder.read_dir().map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests;
