//! Rooms of another server become groups, by the API of groups.
//!
//! A group has one owner: of several the first stays, the others are admins. Invariant: what was
//! done for a room before is passed over, so that a second run changes nothing.

use super::contents::Contents;
use crate::client::{Server, encoded};
use base::hash::HashKey;
use base::hex;
use migration::{MovedItem, MovedRoom, Taking};
use model::account::AccountAddress;
use model::chat::{GROUP_NAMED_MAX, GROUP_SERVICE, GROUP_TITLE_BYTES_MAX};
use serde_json::{Value, json};

/// Refusals that say that it is so already.
const SO_ALREADY: [&str; 2] = ["(unchanged)", "(conflict)"];

/// A room comes over.
pub(super) fn room(
    server: &Server,
    contents: &mut Contents<'_>,
    item: &MovedItem,
    room: &MovedRoom,
) -> Result<(), String> {
    let name = item.owner.split('@').next().unwrap_or_default().to_lowercase();
    let place = || item.place.clone();
    let mut by = |affiliation: &str| {
        let mut found = Vec::new();
        for (jid, _) in room.affiliations.iter().filter(|(_, is)| is == affiliation) {
            match contents.addresses.account(jid).filter(|it| contents.addresses.is_here(it)) {
                Some(account) => found.push(account),
                None => {
                    contents.leave(place(), "somebody in a room who is not of this host".into())
                }
            }
        }
        found.sort();
        found
    };
    let (owners, admins, members) = (by("owner"), by("admin"), by("member"));
    let banned = by("outcast");
    for owner in owners.iter().skip(1) {
        contents.leave(place(), format!("a second owner of a room, {owner}, who is an admin now"));
    }
    if room.had_password {
        contents.leave(place(), "the password of a room: members alone get in".into());
    }
    let owner = match owners.first() {
        Some(owner) if contents.opened(owner)? => owner,
        _ => {
            contents.leave(place(), "a room without an owner who comes over".into());
            return Ok(());
        }
    };
    let service = format!("{GROUP_SERVICE}{}", contents.addresses.here);
    if AccountAddress::parse(&name, &service).is_err() {
        contents.leave(place(), "the name of a room that cannot be one here".into());
        return Ok(());
    }
    let group = format!("{name}@{service}");
    let id = HashKey::new(0x726f_6f6d, 0x6d6f_7665).of(&[group.as_bytes()]).to_be_bytes();
    let id = hex::encode(&[id, id].concat());
    let title = if room.title.is_empty() { &name } else { &room.title };
    let order = json!({
        "owner": owner, "group": group, "title": short(title), "client_id": id,
    });
    if done(server.call("POST", "/v1/chat/groups", Some(&order)), contents, item)? {
        contents.sum.add("rooms");
    }
    let admins: Vec<&String> = owners[1..].iter().chain(&admins).collect();
    arranged(server, contents, (item, room), (&group, &admins, &members, &banned))
}

/// Who is what in a group that came over, and how it is.
fn arranged(
    server: &Server,
    contents: &mut Contents<'_>,
    (item, room): (&MovedItem, &MovedRoom),
    (group, admins, members, banned): (&str, &[&String], &[String], &[String]),
) -> Result<(), String> {
    let everybody: Vec<&String> = admins.iter().copied().chain(members).collect();
    let path = format!("/v1/chat/groups/{}/changes", encoded(group));
    let description = short(&room.description);
    let mut change = |verb: &str, who: &[&String]| {
        let order = match verb {
            "describe" => json!({ "verb": verb, "title": description }),
            verb => json!({ "verb": verb, "members": who }),
        };
        done(server.call("POST", &path, Some(&order)), contents, item).map(|_| ())
    };
    // Named one by one: somebody who is not there keeps out nobody else.
    for who in &everybody {
        change("add", &[*who])?;
    }
    for who in admins.chunks(GROUP_NAMED_MAX) {
        change("promote", who)?;
    }
    for who in banned {
        change("ban", &[who])?;
    }
    if !description.is_empty() {
        change("describe", &[])?;
    }
    if room.is_open {
        change("unlock", &[])?;
    }
    if room.is_moderated {
        change("close", &[])?;
    }
    Ok(())
}

/// Whether something was done; it may be so already, or not be possible.
fn done(
    answer: Result<Value, String>,
    contents: &mut Contents<'_>,
    item: &MovedItem,
) -> Result<bool, String> {
    match answer {
        Ok(told) => Ok(told["again"] != true),
        Err(why) if SO_ALREADY.iter().any(|so| why.contains(so)) => Ok(false),
        Err(why) if why.starts_with("the server answered 4") => {
            contents.leave(item.place.clone(), why);
            Ok(false)
        }
        Err(why) => Err(why),
    }
}

/// A title or a description, as far as it fits.
fn short(title: &str) -> &str {
    &title[..title.floor_char_boundary(GROUP_TITLE_BYTES_MAX)]
}
