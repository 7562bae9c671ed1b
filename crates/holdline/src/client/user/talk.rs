//! Messages in rooms of another server: their senders, and the groups that they move into.
//!
//! ```text
//! said ─► sorted by time ────────────────────────────────────┐
//!   └──► ids of occupants ─► whose are they? ─► who said it ─┴► batches ─► POST /v1/chat/moves
//! ```
//! A nick does not say who has it: anybody takes it whose bearer is away. An occupant's id does,
//! for it is made of an address, so whoever is known is tried. A message without a known sender is
//! sent by the server itself, with the nick before the text. Invariants: what stands under an
//! account's name the other server knew to be by that one; the same archive gives the same times
//! and ids; of what is remembered there is so much and no more.

use super::contents::{Batched, Contents};
use super::copies::Times;
use super::moved::{HASH, made_id};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use migration::sorted::Sorting;
use migration::{MovedItem, MovedRoom, MovedSaid, MovedTime, MovedWhat, Taking};
use model::chat::{Content, MovedMessage};
use model::ports::chat::SYSTEM_NAME;
use proto_xmpp::moving;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Occupants, addresses and messages taken back that are remembered, each, of all rooms.
const REMEMBERED_MAX: usize = 1_000_000;

/// Ids that are made to find out whose some are, in all: minutes.
const TRIED_MAX: u64 = 500_000_000;

/// Bytes of an address, or of an id, that is looked for.
const NAME_BYTES_MAX: usize = 512;

/// Characters of a nick that are shown.
const NICK_CHARS_MAX: usize = 64;

/// How long before the first that was said in it a group is made; the clocks of this machine and
/// the server's may differ.
const BEFORE_MS: u64 = 1;
const EMPTY_BEFORE_MS: u64 = 3_600_000;

/// Messages imported from rooms' archives.
pub(super) struct Talk {
    is_wanted: bool,
    began_ms: u64,
    records: Sorting,
    /// By the rooms' addresses there.
    rooms: HashMap<String, RoomTalk>,
    /// Retracted messages with who retracted them: hashes.
    retracted: HashSet<u64>,
    /// Addresses of people elsewhere.
    known: HashSet<String>,
    remembered: usize,
    /// Groups that rooms have become.
    groups: HashMap<String, String>,
}

/// State of the import of a room's archive.
#[derive(Default)]
struct RoomTalk {
    /// When the first was said.
    first_ms: Option<u64>,
    /// Addresses that stand in it.
    named: HashSet<String>,
    /// Occupants by their ids, with their addresses.
    occupants: HashMap<String, Option<String>>,
    /// Their ids tell their addresses.
    is_telling: bool,
    /// Sender's address as the server has written it.
    shows_addresses: bool,
}

impl Talk {
    /// Makes an empty record of an import that began then.
    pub(super) fn new(is_wanted: bool, began_ms: u64) -> Talk {
        Talk {
            is_wanted,
            began_ms,
            records: Sorting::new(std::env::temp_dir()),
            rooms: HashMap::new(),
            retracted: HashSet::new(),
            known: HashSet::new(),
            remembered: 0,
            groups: HashMap::new(),
        }
    }

    /// Notes an address elsewhere that may have been in a room.
    pub(super) fn knows(&mut self, jid: &str) {
        if self.is_wanted && self.known.len() < REMEMBERED_MAX && jid.len() <= NAME_BYTES_MAX {
            self.known.insert(jid.to_lowercase());
        }
    }

    /// A room is a group.
    pub(super) fn becomes(&mut self, room: &str, group: String) {
        self.groups.insert(room.to_owned(), group);
    }

    /// When the import began, Unix milliseconds.
    pub(super) fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// The group that a room is.
    pub(super) fn group(&self, room: &str) -> Option<&String> {
        self.groups.get(room)
    }

    /// When a room's group is made: before all that was said in it.
    pub(super) fn made_ms(&self, room: &str) -> u64 {
        let first_ms = self.rooms.get(room).and_then(|room| room.first_ms);
        first_ms.map_or(self.began_ms - EMPTY_BEFORE_MS, |first_ms| first_ms - BEFORE_MS)
    }

    /// Whether something said then may come in: there is a number for it, and for its group.
    fn may_be(&self, at_ms: u64) -> bool {
        let before = at_ms.saturating_sub(BEFORE_MS);
        at_ms <= self.began_ms && MovedMessage::number_at(before, 0).is_some()
    }

    fn has_room(&mut self, name: &str) -> bool {
        let has = self.remembered < REMEMBERED_MAX && name.len() <= NAME_BYTES_MAX;
        self.remembered += usize::from(has);
        has
    }

    /// Evidence of a message's sender.
    fn remembers(&mut self, room: &str, at_ms: u64, said: &MovedSaid) {
        let mut talk = self.rooms.remove(room).unwrap_or_default();
        talk.first_ms = Some(talk.first_ms.map_or(at_ms, |first_ms| first_ms.min(at_ms)));
        if let Some(jid) = said.address.as_ref().filter(|jid| !talk.named.contains(*jid))
            && self.has_room(jid)
        {
            talk.named.insert(jid.clone());
        }
        if let Some(id) = said.occupant.as_ref().filter(|id| !talk.occupants.contains_key(*id))
            && self.has_room(id)
        {
            talk.occupants.insert(id.clone(), None);
        }
        self.rooms.insert(room.to_owned(), talk);
    }

    /// Looks for the addresses of occupants among all that are known.
    pub(super) fn finds_occupants<'a>(
        &mut self,
        rooms: impl Iterator<Item = (&'a str, &'a MovedRoom)>,
        accounts: &HashSet<String>,
        host: &str,
    ) {
        let mut left = TRIED_MAX;
        for (name, room) in rooms {
            let Some(talk) = self.rooms.get_mut(name) else { continue };
            talk.shows_addresses = room.shows_addresses;
            let Some(ids) = &room.occupants else { continue };
            talk.is_telling = true;
            let mut open = talk.occupants.len();
            let named = std::mem::take(&mut talk.named);
            let affiliated = room.affiliations.iter().map(|(jid, _)| jid.clone());
            let accounts = accounts.iter().map(|name| format!("{name}@{host}"));
            let all = affiliated.chain(named).chain(accounts).chain(self.known.iter().cloned());
            for jid in all {
                if open == 0 || left == 0 {
                    break;
                }
                left -= 1;
                if let Some(whose @ None) = talk.occupants.get_mut(&ids.id_of(&jid)) {
                    *whose = Some(jid);
                    open -= 1;
                }
            }
        }
    }

    /// The address that stands with something, if the server has written it.
    fn address<'a>(&self, record: &'a Value) -> Option<&'a str> {
        let room = self.rooms.get(record["room"].as_str()?)?;
        record["address"].as_str().filter(|_| room.shows_addresses)
    }

    /// Sender of a message, by its address there; none: no evidence, or contradictory evidence.
    fn who(&self, record: &Value) -> Option<String> {
        let room = self.rooms.get(record["room"].as_str()?)?;
        let (address, occupant) = (self.address(record), record["occupant"].as_str());
        let found = occupant.and_then(|id| room.occupants.get(id)?.as_deref());
        match (address, found) {
            (Some(address), Some(found)) if address != found => None,
            (_, Some(found)) => Some(found.to_owned()),
            // Its own address would have been found.
            (Some(_), None) if occupant.is_some() && room.is_telling => None,
            (address, None) => address.map(String::from),
        }
    }
}

/// Identity of a message in its room, as its sender may refer to it.
fn told_of(room: &str, by: &str, id: &str) -> u64 {
    HASH.of(&[room.as_bytes(), by.as_bytes(), id.as_bytes()])
}

/// Identity of a sender in the room. A nick is none.
fn bearer<'a>(occupant: Option<&'a str>, address: Option<&'a str>) -> Option<&'a str> {
    occupant.or(address)
}

/// Text of a message whose sender is known by nick alone: the nick stands before it, in one line
/// and without anything that ends it. Without a nick it is a message of the room itself.
fn quoted(nick: &str, body: &str) -> String {
    let is_plain = |sign: &char| !sign.is_control() && !matches!(sign, '[' | ']');
    let nick: String = nick.chars().filter(is_plain).take(NICK_CHARS_MAX).collect();
    if nick.is_empty() { body.to_owned() } else { format!("[{nick}] {body}") }
}

impl Contents<'_> {
    /// Imports a message of a room.
    pub(super) fn said(&mut self, item: &MovedItem, said: &MovedSaid) -> Result<(), String> {
        if !self.talk.is_wanted {
            return Ok(());
        }
        let (room, place) = (&item.owner, || item.place.clone());
        if let Some(target) = &said.retracts {
            let by = bearer(said.occupant.as_deref(), said.address.as_deref());
            if let Some(by) = by.filter(|_| self.talk.retracted.len() < REMEMBERED_MAX) {
                self.talk.retracted.insert(told_of(room, by, target));
            }
            self.leave(place(), "a retraction of a room message".into());
            return Ok(());
        }
        let at_ms = match &said.at {
            MovedTime::UnixMs(at_ms) => Some(*at_ms),
            MovedTime::Stamp(stamp) => moving::moment(stamp).map(|it| it.floor_ms),
        };
        let Some(at_ms) = at_ms.filter(|at_ms| self.talk.may_be(*at_ms)) else {
            let why = "a room message dated before 2020 or in the future";
            self.leave(place(), why.into());
            return Ok(());
        };
        // In another room nobody asks for it by the id that it had.
        let mut stanza = said.stanza.clone();
        stanza.attributes.retain(|(name, _)| name != "id");
        let (content, body) = match moving::said_in_room(&stanza.write()) {
            Ok(read) => read,
            Err(why) => {
                self.leave(place(), why.into());
                return Ok(());
            }
        };
        self.talk.remembers(room, at_ms, said);
        let record = json!({
            "place": item.place, "room": room, "nick": said.nick, "address": said.address,
            "occupant": said.occupant, "id": said.id, "name": said.stanza.attribute("id"),
            "kind": content.kind, "text": content.text, "body": body,
            "extra_base64": STANDARD.encode(&content.extra),
        });
        let bytes = record.to_string().into_bytes().into_boxed_slice();
        let put = self.talk.records.put(at_ms, bytes);
        put.map_err(|error| format!("{}: {error}", std::env::temp_dir().display()))
    }

    /// All of it takes its places.
    pub(super) fn talks(&mut self) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", std::env::temp_dir().display());
        let records = Sorting::new(std::env::temp_dir());
        let records = std::mem::replace(&mut self.talk.records, records);
        let (all, mut done) = (records.count(), 0);
        let mut sorted = records.sorted().map_err(told)?;
        let mut times = Times::default();
        while let Some((at_ms, bytes)) = sorted.next_record().map_err(told)? {
            done += 1;
            let record: Value = serde_json::from_slice(&bytes).map_err(|it| it.to_string())?;
            // Of what does not come in, the time is taken all the same.
            let room = record["room"].as_str().unwrap_or_default();
            let at_ms = times.of(at_ms, HASH.of(&[room.as_bytes()]));
            self.one_said(at_ms, &record)?;
            self.tell_progress((done, all), "messages in rooms");
        }
        self.flush().map(|_| ())
    }

    fn one_said(&mut self, at_ms: u64, record: &Value) -> Result<(), String> {
        let text = |key: &str| record[key].as_str().unwrap_or_default();
        let (place, room) = (text("place"), text("room"));
        let by = bearer(record["occupant"].as_str(), self.talk.address(record));
        let is_retracted =
            |id: &str| by.is_some_and(|by| self.talk.retracted.contains(&told_of(room, by, id)));
        if is_retracted(text("id")) || is_retracted(text("name")) {
            self.leave(place.into(), "a room message retracted by its sender".into());
            return Ok(());
        }
        let Some(group) = self.talk.group(room).cloned() else {
            self.leave(place.into(), "its room is not imported".into());
            return Ok(());
        };
        let account = self.talk.who(record).and_then(|jid| self.addresses.account(&jid));
        let account = account.filter(|account| account != SYSTEM_NAME);
        let is_known = account.is_some();
        // It is known by its archive's id; without one, by all of it.
        let at = at_ms.to_be_bytes();
        let parts: [&[u8]; 4] = match record["id"].as_str() {
            Some(id) => [room.as_bytes(), id.as_bytes(), b"", b""],
            None => [room.as_bytes(), text("nick").as_bytes(), text("body").as_bytes(), &at],
        };
        let message = match is_known {
            true => json!({
                "kind": record["kind"], "text": record["text"],
                "extra_base64": record["extra_base64"], "counts": false,
            }),
            false => json!({
                "kind": Content::TEXT, "text": quoted(text("nick"), text("body")),
                "counts": false,
            }),
        };
        let order = json!({
            "account": account.as_deref().unwrap_or(SYSTEM_NAME),
            "what": { "message": {
                "with": group, "own": true, "device": "", "at_ms": at_ms,
                "client_id": made_id(&parts),
                "message": message,
            }},
        });
        let what = match is_known {
            true => "messages in rooms",
            false => "messages in rooms, with only the nickname known",
        };
        self.put(Batched::of(place, what, order))
    }

    /// Of everybody who is known it is tried whether they are occupants of rooms.
    pub(super) fn names_occupants(&mut self) {
        let rooms = self.rooms.iter().filter_map(|item| match &item.what {
            MovedWhat::Room(room) => Some((&*item.owner, room)),
            _ => None,
        });
        self.talk.finds_occupants(rooms, self.accounts, &self.addresses.there);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use migration::MovedElement;
    use migration::prosody::OccupantIds;

    const BEGAN_MS: u64 = 1_700_000_000_000;
    const ROOM: &str = "r@conference.b.example";

    fn ids() -> OccupantIds {
        OccupantIds::of_salt("salt")
    }

    /// Fields of an archived message: the address of an occupant's id, and an address.
    fn said(occupant: Option<&str>, address: Option<&str>) -> MovedSaid {
        MovedSaid {
            at: MovedTime::UnixMs(0),
            id: None,
            nick: "ann".into(),
            address: address.map(Into::into),
            occupant: occupant.map(|jid| ids().id_of(jid)),
            retracts: None,
            stanza: MovedElement::default(),
        }
    }

    /// Sender in a room with or without a salt, which shows addresses or not.
    fn who(said: &MovedSaid, has_salt: bool, shows_addresses: bool) -> Option<String> {
        let mut talk = Talk::new(true, BEGAN_MS);
        talk.knows("dave@c.example");
        talk.remembers(ROOM, 5, said);
        let affiliations = vec![("bob@b.example".into(), "outcast".into())];
        let occupants = has_salt.then(ids);
        let room = MovedRoom { affiliations, occupants, shows_addresses, ..MovedRoom::default() };
        let accounts = ["ann".to_owned()].into();
        talk.finds_occupants([(ROOM, &room)].into_iter(), &accounts, "b.example");
        talk.who(&json!({ "room": ROOM, "address": said.address, "occupant": said.occupant }))
    }

    #[test]
    fn an_id_tells_whoever_is_known_and_nothing_else_does_where_nicks_alone_are_shown() {
        for known in ["ann@b.example", "bob@b.example", "dave@c.example"] {
            assert_eq!(who(&said(Some(known), None), true, false).as_deref(), Some(known));
            assert_eq!(who(&said(Some(known), None), false, false), None, "without the salt");
            // A client has written it.
            let forged = said(Some(known), Some("eve@b.example"));
            assert_eq!(who(&forged, true, false).as_deref(), Some(known));
        }
        let eve = "eve@b.example";
        assert_eq!(who(&said(Some(eve), None), true, false), None, "nobody is called so");
        assert_eq!(who(&said(None, Some(eve)), true, false), None);
    }

    #[test]
    fn an_address_tells_where_all_are_shown_and_must_be_that_of_the_id() {
        let eve = "eve@b.example";
        for has_salt in [false, true] {
            assert_eq!(who(&said(None, Some(eve)), has_salt, true).as_deref(), Some(eve));
            assert_eq!(who(&said(Some(eve), Some(eve)), has_salt, true).as_deref(), Some(eve));
        }
        assert_eq!(who(&said(Some("ann@b.example"), Some(eve)), true, true), None);
        assert_eq!(who(&said(Some("gone@b.example"), Some(eve)), true, true), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_a_group_is_made_before_its_first_message() {
        let mut talk = Talk::new(true, BEGAN_MS);
        assert!(talk.made_ms(ROOM) < BEGAN_MS);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        talk.knows(&long);
        for at_ms in [BEGAN_MS - 3, BEGAN_MS - 7, BEGAN_MS - 5] {
            talk.remembers(ROOM, at_ms, &said(None, Some(&long)));
        }
        assert_eq!(talk.made_ms(ROOM), BEGAN_MS - 8);
        assert_eq!((talk.remembered, talk.known.len()), (0, 0));
        assert!(talk.may_be(BEGAN_MS) && !talk.may_be(BEGAN_MS + 1));
        let epoch_ms = model::id::MessageId::EPOCH_MS;
        assert!(talk.may_be(epoch_ms + 2) && !talk.may_be(epoch_ms + 1) && !talk.may_be(0));
    }

    #[test]
    fn a_nick_stands_before_what_it_said_and_does_not_end_by_itself() {
        assert_eq!(quoted("coffee", "hi"), "[coffee] hi");
        assert_eq!(quoted("a] hi\n[b", "yes"), "[a hib] yes");
        assert_eq!(quoted("", "the room is made"), "the room is made");
        assert_eq!(quoted(&"x".repeat(999), "").len(), NICK_CHARS_MAX + 3);
    }
}
