//! Import of accounts' data from another server: contacts, nodes and blocks as they are read,
//! messages of all in the order of their times, then rooms, and their messages.
//!
//! ```text
//! items ─► contacts, nodes, blocks ─► batches ─► POST /v1/chat/moves
//!       └► messages ─► sorted by time ─► copies of one told apart ─► batches; then `seen`
//!       └► rooms ─► batches; then what was said in them
//! ```
//! Invariant: memory is that of the accounts, rooms, one batch and ten minutes of messages; items
//! that could not be taken are counted by reason, and the first places of each are printed.

use super::copies::{Copies, Times, Waiting};
use super::import::sent;
use super::moved::{Addresses, message_of, node_json, record, told_between};
use super::rooms;
use super::talk::Talk;
use crate::client::{Server, encoded};
use migration::sorted::Sorting;
use migration::{MovedItem, MovedStanza, MovedWhat, Taking};
use serde_json::{Value, json};
use server::clock::{began as now, since};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Things in one call, and their bytes.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of one thing: a call takes more. A larger thing could not belong to an account.
const ORDER_BYTES_MAX: usize = 3 << 20;

/// Places that are printed for one reason.
const TOLD_MAX: u64 = 10;

/// Reasons that are distinguished.
const REASONS_MAX: usize = 64;

/// Rooms of one import.
const ROOMS_MAX: usize = 100_000;

/// Time between two lines about the progress.
const TOLD: Duration = Duration::from_secs(1);

/// Result of an import.
#[derive(Default)]
pub(super) struct ContentsSum {
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// How often for which reason something was not taken.
    pub(super) left: BTreeMap<String, u64>,
}

/// How far somebody's inbox is.
#[derive(Default)]
struct Person {
    /// Its last place before anything came over.
    base: u64,
    /// Messages that came over and were given to its devices elsewhere.
    history: u64,
    /// One has come that was not.
    waits: bool,
}

/// Item of a batch.
pub(super) struct Batched {
    pub(super) place: String,
    pub(super) what: &'static str,
    pub(super) order: Value,
    /// Of a message: those whose inboxes it comes into, and whether it waits for the last of them.
    pub(super) inboxes: Vec<String>,
    pub(super) is_waiting: bool,
    /// Of a group that is made: the room that it was, and its address.
    pub(super) of_room: Option<(String, String)>,
}

/// Contents that come over.
pub(super) struct Contents<'a> {
    /// Absent: it is only counted.
    server: Option<&'a Server>,
    pub(super) addresses: Addresses,
    pub(super) accounts: &'a HashSet<String>,
    people: HashMap<String, Person>,
    batch: Vec<Batched>,
    batch_bytes: usize,
    messages: Sorting,
    waiting: Waiting,
    pub(super) rooms: Vec<MovedItem>,
    pub(super) talk: Talk,
    pub(super) sum: ContentsSum,
    told: Instant,
}

impl<'a> Contents<'a> {
    /// Makes an import for these accounts; without a server they are only checked.
    pub(super) fn new(
        server: Option<&'a Server>,
        accounts: &'a HashSet<String>,
        talk: Talk,
    ) -> Contents<'a> {
        Contents {
            server,
            addresses: Addresses::default(),
            accounts,
            people: HashMap::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            messages: Sorting::new(std::env::temp_dir()),
            waiting: Waiting::default(),
            rooms: Vec::new(),
            talk,
            sum: ContentsSum::default(),
            told: now(),
        }
    }

    fn count(&mut self, what: &'static str) {
        self.sum.add(what);
    }

    /// Opens the chat of an account, and notes its domain. Returns false if the account is not
    /// imported.
    pub(super) fn opened(&mut self, name: &str) -> Result<bool, String> {
        if !self.accounts.contains(name) {
            return Ok(false);
        }
        if let (Some(server), false) = (self.server, self.people.contains_key(name)) {
            let path = format!("/v1/chat/accounts/{}", encoded(name));
            let account = server.call("PUT", &path, None)?;
            let address = account["account"].as_str().unwrap_or_default();
            self.addresses.here = address.rsplit('@').next().unwrap_or_default().to_owned();
            let base = account["head"].as_u64().unwrap_or(0);
            self.people.insert(name.to_owned(), Person { base, ..Person::default() });
        }
        Ok(true)
    }

    /// One more for the batch.
    pub(super) fn put(&mut self, one: Batched) -> Result<(), String> {
        let bytes = one.order.to_string().len();
        if bytes > ORDER_BYTES_MAX {
            self.leave(one.place, "too large".into());
            return Ok(());
        }
        if self.batch.len() == BATCH_MAX || self.batch_bytes + bytes > BATCH_BYTES_MAX {
            self.flush()?;
        }
        self.batch_bytes += bytes;
        self.batch.push(one);
        Ok(())
    }

    /// Sends the batch. Returns whether nothing of it was refused.
    pub(super) fn flush(&mut self) -> Result<bool, String> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let Some(server) = self.server.filter(|_| !batch.is_empty()) else {
            batch.iter().for_each(|one| self.is_done(one));
            return Ok(true);
        };
        let items: Vec<&Value> = batch.iter().map(|one| &one.order).collect();
        let answer = sent(server, "/v1/chat/moves", &json!({ "items": items }))?;
        let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
        if results.len() != batch.len() {
            return Err("the server did not report a result for every item".into());
        }
        let mut is_whole = true;
        for (one, result) in batch.iter().zip(results) {
            match result["state"].as_str() {
                Some("again") if one.of_room.is_some() => self.is_there(one),
                Some("again") if one.what.is_empty() => {}
                Some("refused") if one.of_room.is_some() && rooms::is_there(result) => {
                    self.is_there(one);
                }
                Some("refused") => {
                    is_whole = false;
                    let why = result["told"].as_str().unwrap_or("refused").to_owned();
                    self.leave(one.place.clone(), why);
                }
                Some("again") => {
                    self.count("messages unchanged, or older than the conversation here");
                    self.arrived(one, false);
                }
                _ => {
                    self.is_done(one);
                    self.arrived(one, true);
                }
            }
        }
        Ok(is_whole)
    }

    /// Notes that an item was imported.
    fn is_done(&mut self, one: &Batched) {
        if !one.what.is_empty() {
            self.count(one.what);
        }
        self.is_there(one);
    }

    /// Notes a group that exists now, if the item is one.
    fn is_there(&mut self, one: &Batched) {
        if let Some((room, group)) = &one.of_room {
            self.talk.becomes(room, group.clone());
        }
    }

    /// A message stands in inboxes; whether it is new there.
    fn arrived(&mut self, one: &Batched, is_new: bool) {
        let last = one.inboxes.last();
        for name in &one.inboxes {
            let Some(person) = self.people.get_mut(name) else { continue };
            person.waits |= one.is_waiting && Some(name) == last;
            person.history += u64::from(is_new && !person.waits);
        }
    }

    /// All was read: messages take their places.
    pub(super) fn end(mut self) -> Result<ContentsSum, String> {
        self.flush()?;
        let nothing = Sorting::new(std::env::temp_dir());
        let sorting = std::mem::replace(&mut self.messages, nothing);
        let all = sorting.count();
        let told = |error: std::io::Error| format!("{}: {error}", std::env::temp_dir().display());
        let mut sorted = sorting.sorted().map_err(told)?;
        let (mut copies, mut times) = (Copies::default(), Times::default());
        let mut done = 0_u64;
        while let Some((at_ms, bytes)) = sorted.next_record().map_err(told)? {
            done += 1;
            let mut message: Value = serde_json::from_slice(&bytes).map_err(|it| it.to_string())?;
            if copies.is_new(at_ms, &message) {
                message["waiting"] = self.waiting.has(at_ms, &message).into();
                let at_ms = times.of(at_ms, told_between(&message));
                self.put(message_of(at_ms, message))?;
            }
            self.tell_progress((done, all), "messages");
        }
        self.flush()?;
        self.seen()?;
        self.names_occupants();
        self.make_rooms()?;
        self.talks()?;
        Ok(self.sum)
    }

    /// Prints the progress now and then.
    pub(super) fn tell_progress(&mut self, (done, all): (u64, u64), what: &str) {
        if since(self.told) >= TOLD && crate::out::is_told() {
            self.told = now();
            note!("{done} of {all} {what} checked");
        }
    }

    /// Rooms come last: a new member gets a message about it in its inbox.
    fn make_rooms(&mut self) -> Result<(), String> {
        let items = std::mem::take(&mut self.rooms);
        let mut plans = Vec::new();
        for item in &items {
            if let MovedWhat::Room(room) = &item.what {
                plans.extend(rooms::room(self, item, room)?);
            }
        }
        // Only what is made is arranged.
        self.flush()?;
        for plan in plans {
            plan.arrange(self)?;
        }
        self.flush().map(|_| ())
    }

    /// Marks messages that devices got on the other server, so that they get them once.
    fn seen(&mut self) -> Result<(), String> {
        let people = self.people.iter().filter(|(_, person)| person.history > 0);
        let orders: Vec<Value> = people
            .map(|(name, person)| {
                let upto = person.base + person.history;
                json!({ "account": name, "what": { "seen": { "upto": upto } } })
            })
            .collect();
        let Some(server) = self.server else { return Ok(()) };
        for orders in orders.chunks(BATCH_MAX) {
            sent(server, "/v1/chat/moves", &json!({ "items": orders }))?;
        }
        Ok(())
    }

    fn message(&mut self, item: &MovedItem, stanza: &MovedStanza) -> Result<(), String> {
        let (at_ms, record) = match record(&self.addresses, item, stanza) {
            Ok(found) => found,
            Err(why) => {
                self.leave(item.place.clone(), why.into());
                return Ok(());
            }
        };
        for name in record["inboxes"].as_array().into_iter().flatten() {
            self.opened(name.as_str().unwrap_or_default())?;
        }
        if self.server.is_none() {
            self.count("messages, including duplicates");
            return Ok(());
        }
        if stanza.is_waiting {
            self.waiting.put(at_ms, &record);
        }
        let bytes = record.to_string().into_bytes().into_boxed_slice();
        let put = self.messages.put(at_ms, bytes);
        put.map_err(|error| format!("{}: {error}", std::env::temp_dir().display()))
    }

    fn nodes(
        &mut self,
        item: &MovedItem,
        what: &'static str,
        changes: Option<Vec<model::chat::NodeChange>>,
    ) -> Result<(), String> {
        let Some(changes) = changes else {
            self.leave(item.place.clone(), "invalid data".into());
            return Ok(());
        };
        for (at, change) in changes.iter().enumerate() {
            for order in node_json(&item.owner, change) {
                // What goes along with it is not counted on its own.
                let what = if at == 0 { what } else { "parts of them" };
                self.put(Batched::of(&item.place, what, order))?;
            }
        }
        Ok(())
    }

    fn contact(&mut self, item: &MovedItem, it: &migration::MovedContact) -> Result<(), String> {
        let Some(with) = self.addresses.account(&it.jid) else {
            let why = "a contact that is not an account, or whose name is invalid here";
            self.leave(item.place.clone(), why.into());
            return Ok(());
        };
        let contact = json!({
            "with": with, "name": it.name, "groups": it.groups,
            "sees": it.sees || it.asks, "is_seen": it.is_seen,
            "saw": it.is_seen && !self.addresses.is_here(&with),
        });
        let order = json!({ "account": item.owner, "what": { "contact": contact } });
        self.put(Batched::of(&item.place, "contacts", order))
    }
}

impl Batched {
    pub(super) fn of(place: &str, what: &'static str, order: Value) -> Batched {
        let (place, inboxes) = (place.to_owned(), Vec::new());
        Batched { place, what, order, inboxes, is_waiting: false, of_room: None }
    }
}

impl Taking for Contents<'_> {
    fn host(&mut self, host: &str) {
        self.addresses.there = host.to_lowercase();
    }

    fn take(&mut self, mut item: MovedItem) -> Result<(), String> {
        item.owner.make_ascii_lowercase();
        if let MovedWhat::Room(_) = &item.what {
            match self.rooms.len() < ROOMS_MAX {
                true => self.rooms.push(item),
                false => self.leave(item.place, format!("more than {ROOMS_MAX} rooms")),
            }
            return Ok(());
        }
        if let MovedWhat::Said(said) = &item.what {
            return self.said(&item, said);
        }
        if let MovedWhat::Contact(contact) = &item.what {
            self.talk.knows(&contact.jid);
        }
        if !self.opened(&item.owner)? {
            self.leave(item.place, "its account is not imported".into());
            return Ok(());
        }
        match &item.what {
            MovedWhat::Contact(contact) => self.contact(&item, contact),
            MovedWhat::Blocked(jid) => match self.addresses.blocked(jid) {
                Ok(with) => {
                    let what = json!({ "blocked": { "with": with } });
                    let order = json!({ "account": item.owner, "what": what });
                    self.put(Batched::of(&item.place, "blocks", order))
                }
                Err(why) => {
                    self.leave(item.place, why.into());
                    Ok(())
                }
            },
            MovedWhat::VCard(vcard) => {
                let changes = proto_xmpp::moving::vcard(&vcard.write());
                self.nodes(&item, "vCards", changes)
            }
            MovedWhat::Private(kept) => {
                let changes = proto_xmpp::moving::private(&kept.write());
                self.nodes(&item, "private storage items", changes)
            }
            MovedWhat::Node(node) => {
                let changes = Some(super::moved::published(node));
                self.nodes(&item, "nodes", changes)
            }
            MovedWhat::Message(stanza) => self.message(&item, stanza),
            MovedWhat::Room(_) | MovedWhat::Said(_) => Ok(()),
        }
    }

    fn leave(&mut self, place: String, why: String) {
        let is_full = self.sum.left.len() >= REASONS_MAX && !self.sum.left.contains_key(&why);
        let reason = if is_full { "other reasons".to_owned() } else { why.clone() };
        let count = self.sum.left.entry(reason).or_default();
        *count += 1;
        match *count {
            count if count <= TOLD_MAX => note!("{place}: {why}"),
            count if count == TOLD_MAX + 1 => {
                note!("{place}: {why}; further lines of this kind are not shown")
            }
            _ => {}
        }
    }
}

impl ContentsSum {
    /// One more of something.
    pub(super) fn add(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left.values().sum()
    }

    /// In lines; nothing, if there was nothing.
    pub(super) fn told(&self) -> String {
        let mut out = String::new();
        for (what, count) in &self.counts {
            out += &format!("{count:>9} {what}\n");
        }
        if !self.left.is_empty() {
            out += &format!("{:>9} not imported:\n", self.left_out());
            for (why, count) in &self.left {
                out += &format!("{count:>9}   {why}\n");
            }
        }
        out
    }

    pub(super) fn json(&self) -> Value {
        json!({ "taken": self.counts, "not_taken": self.left })
    }
}
