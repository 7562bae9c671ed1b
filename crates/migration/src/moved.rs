//! Data of accounts on another server beside the accounts themselves.
//!
//! Each item names its owner; items come one at a time, in no order, to a receiver. Stanzas are XML
//! as they were kept. Invariant: nothing here is more than one stanza, one roster's item or one
//! node with what it keeps.

use crate::element::MovedElement;
use crate::prosody::OccupantIds;

/// One thing that somebody has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedItem {
    /// Place in the source, for messages.
    pub place: String,
    /// Owner of the item: the name of an account; of a room, its address.
    pub owner: String,
    /// The item itself.
    pub what: MovedWhat,
}

/// Kind of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MovedWhat {
    /// A contact in the roster.
    Contact(MovedContact),
    /// A blocked JID: an account, or a domain.
    Blocked(String),
    /// A vCard (XEP-0054).
    VCard(MovedElement),
    /// An element that a client keeps (XEP-0049).
    Private(MovedElement),
    /// A node that is published, with its items (XEP-0163).
    Node(MovedNode),
    /// A message of the archive, or one that waits.
    Message(MovedStanza),
    /// A room.
    Room(MovedRoom),
    /// A message in a room.
    Said(MovedSaid),
}

/// Contact in a roster (RFC 6121 2.1.2).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MovedContact {
    /// Address of the contact.
    pub jid: String,
    /// Name of the contact.
    pub name: String,
    /// Groups that it is in.
    pub groups: Vec<String>,
    /// The owner sees it.
    pub sees: bool,
    /// Whether the contact sees the owner's presence, or may when it asks.
    pub is_seen: bool,
    /// The owner has asked to see it.
    pub asks: bool,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MovedNode {
    /// Its name.
    pub node: String,
    /// Its access model, if that is known.
    pub access: Option<String>,
    /// How many items it keeps, if that is known: a number, or `max`.
    pub items_max: Option<String>,
    /// Ids and payloads, the oldest first.
    pub items: Vec<(String, MovedElement)>,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedStanza {
    /// When.
    pub at: MovedTime,
    /// The id that it has in the archive, if that is known.
    pub id: Option<String>,
    /// Whether it waits for its owner.
    pub is_waiting: bool,
    /// With both addresses.
    pub stanza: MovedElement,
}

/// A time, as it stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MovedTime {
    /// Unix milliseconds.
    UnixMs(u64),
    /// A text (XEP-0082).
    Stamp(String),
}

/// A room.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MovedRoom {
    /// Title of the room.
    pub title: String,
    /// Description of the room.
    pub description: String,
    /// Only moderators may speak to begin with.
    pub is_moderated: bool,
    /// Whether anybody who knows its address, and its password, may enter.
    pub is_open: bool,
    /// Whether the list of its service showed it.
    pub is_public: bool,
    /// Its password; empty: none.
    pub password: String,
    /// Bare JIDs, each with its affiliation.
    pub affiliations: Vec<(String, String)>,
    /// Generator of the ids of its occupants, if it is known.
    pub occupants: Option<OccupantIds>,
    /// Whether its occupants saw the addresses of all others.
    pub shows_addresses: bool,
}

/// Message in a room to all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedSaid {
    /// When.
    pub at: MovedTime,
    /// The id that it has in the archive, if that is known.
    pub id: Option<String>,
    /// As whom it was said: what anybody may be called.
    pub nick: String,
    /// Sender, as the server wrote it; of a room that shows no addresses anybody may have written
    /// it there.
    pub address: Option<String>,
    /// The id that an occupant of this address has in this room.
    pub occupant: Option<String>,
    /// Id of the message that it retracts.
    pub retracts: Option<String>,
    /// Without addresses.
    pub stanza: MovedElement,
}

/// Receiver of the items found.
pub trait Taking {
    /// Names the host of the items that follow.
    fn host(&mut self, host: &str);

    /// One thing more. In words, why no more is taken.
    fn take(&mut self, item: MovedItem) -> Result<(), String>;

    /// Takes an item that cannot be taken over, with the reason.
    fn leave(&mut self, place: String, why: String);
}
