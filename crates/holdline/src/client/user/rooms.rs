//! Rooms of another server become groups.
//!
//! A group is made in the name of its first owner, before anything that was said in it; members,
//! roles and settings stand before that, too. Invariant: what was done for a room before is passed
//! over, so that a second run changes nothing.

use super::contents::{Batched, Contents};
use super::moved::made_id;
use migration::{MovedItem, MovedRoom, Taking};
use model::account::AccountAddress;
use model::chat::{GROUP_NAMED_MAX, GROUP_SERVICE, GROUP_TITLE_BYTES_MAX, GroupVerb, RoomRule};
use serde_json::{Value, json};

const PASSWORD_LEFT: &str = "the password of a room: imported as members-only";

/// Result of the import of a room.
pub(super) struct RoomAsGroup<'a> {
    item: &'a MovedItem,
    room: &'a MovedRoom,
    owner: String,
    group: String,
    /// The other owners.
    owners: Vec<String>,
    admins: Vec<String>,
    members: Vec<String>,
    banned: Vec<String>,
}

/// A room comes over: its group is to be made, and this is what it is then. None: it does not.
pub(super) fn room<'a>(
    contents: &mut Contents<'_>,
    item: &'a MovedItem,
    room: &'a MovedRoom,
) -> Result<Option<RoomAsGroup<'a>>, String> {
    let name = item.owner.split('@').next().unwrap_or_default().to_lowercase();
    let place = || item.place.clone();
    let mut by = |affiliation: &str| {
        let mut found = Vec::new();
        for (jid, _) in room.affiliations.iter().filter(|(_, is)| is == affiliation) {
            match contents.addresses.account(jid).filter(|it| contents.addresses.is_here(it)) {
                Some(account) => found.push(account),
                None => contents.leave(place(), "a room member from another host".into()),
            }
        }
        found.sort();
        found
    };
    let (owners, admins, members) = (by("owner"), by("admin"), by("member"));
    let banned = by("outcast");
    if password_of(room).is_none() {
        contents.leave(place(), PASSWORD_LEFT.into());
    }
    let mut owners = owners.into_iter();
    let owner = match owners.next() {
        Some(owner) if contents.opened(&owner)? => owner,
        _ => {
            contents.leave(place(), "a room without an imported owner".into());
            return Ok(None);
        }
    };
    let service = format!("{GROUP_SERVICE}{}", contents.addresses.domain());
    if AccountAddress::parse(&name, &service).is_err() {
        contents.leave(place(), "a room whose name is invalid here".into());
        return Ok(None);
    }
    let owners = owners.collect();
    let group = format!("{name}@{service}");
    let title = if room.title.is_empty() { &name } else { &room.title };
    let plan = RoomAsGroup { item, room, owner, group, owners, admins, members, banned };
    let at_ms = contents.talk.made_ms(&item.owner);
    let made = plan.order(contents, GroupVerb::Create, short(title), &[], at_ms);
    contents.put(Batched { of_room: Some((item.owner.clone(), plan.group.clone())), ..made })?;
    Ok(Some(plan))
}

impl RoomAsGroup<'_> {
    /// Roles of members and settings of the group; nothing if it was not made.
    pub(super) fn arrange(&self, contents: &mut Contents<'_>) -> Result<(), String> {
        if contents.talk.group(&self.item.owner).is_none() {
            return Ok(());
        }
        let mut change = |verb: GroupVerb, title: &str, who: &[&String]| {
            let order = self.order(contents, verb, title, who, 0);
            contents.put(order)
        };
        // Named one by one: somebody who is not there keeps out nobody else.
        for who in self.owners.iter().chain(&self.admins).chain(&self.members) {
            change(GroupVerb::Add, "", &[who])?;
        }
        for (verb, all) in [(GroupVerb::AddOwner, &self.owners), (GroupVerb::Promote, &self.admins)]
        {
            for who in all.iter().collect::<Vec<_>>().chunks(GROUP_NAMED_MAX) {
                change(verb, "", who)?;
            }
        }
        for who in &self.banned {
            change(GroupVerb::Ban, "", &[who])?;
        }
        let description = short(&self.room.description);
        if !description.is_empty() {
            change(GroupVerb::Describe, description, &[])?;
        }
        if self.is_protected(contents)? && self.room.is_open {
            let order = self.order(contents, GroupVerb::Unlock, "", &[], 0);
            contents.put(order)?;
        }
        let mut change = |verb: GroupVerb| {
            let order = self.order(contents, verb, "", &[], 0);
            contents.put(order)
        };
        if self.room.is_public {
            change(GroupVerb::Reveal)?;
        }
        if self.room.is_moderated {
            change(GroupVerb::Close)?;
        }
        Ok(())
    }

    /// Whether the group has the room's password, if that has one. A refused one leaves a group
    /// that only members enter.
    fn is_protected(&self, contents: &mut Contents<'_>) -> Result<bool, String> {
        let Some(rule) = password_of(self.room) else { return Ok(false) };
        if self.room.password.is_empty() {
            return Ok(true);
        }
        contents.flush()?;
        let order = self.order(contents, GroupVerb::Set, &rule.text(), &[], 0);
        contents.put(order)?;
        let is_set = contents.flush()?;
        if !is_set {
            contents.leave(self.item.place.clone(), PASSWORD_LEFT.into());
        }
        Ok(is_set)
    }

    fn order(
        &self,
        contents: &Contents<'_>,
        verb: GroupVerb,
        title: &str,
        who: &[&String],
        at_ms: u64,
    ) -> Batched {
        let named: Vec<&[u8]> = who.iter().map(|name| name.as_bytes()).collect();
        // Of another run it is another: what was undone meanwhile is done again.
        let run = contents.talk.began_ms().to_be_bytes();
        let parts = [&[self.group.as_bytes(), verb.word().as_bytes(), &run][..], &named].concat();
        let order = json!({
            "account": self.owner,
            "what": { "group": {
                "group": self.group, "verb": verb.word(), "title": title, "members": who,
                "client_id": made_id(&parts), "at_ms": at_ms,
            }},
        });
        let what = if verb == GroupVerb::Create { "rooms" } else { "" };
        Batched::of(&self.item.place, what, order)
    }
}

/// The rule of a room's password; none: rooms here cannot have this one.
fn password_of(room: &MovedRoom) -> Option<RoomRule> {
    RoomRule::of(&RoomRule::Password((*room.password).into()).text())
}

/// Whether a refusal says that a group is there, made otherwise.
pub(super) fn is_there(result: &Value) -> bool {
    result["code"] == "conflict"
}

/// A title or a description, as far as it fits.
fn short(title: &str) -> &str {
    &title[..title.floor_char_boundary(GROUP_TITLE_BYTES_MAX)]
}
