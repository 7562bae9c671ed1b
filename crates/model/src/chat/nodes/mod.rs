//! Nodes: what an account publishes about itself, and what its clients keep with the server.
//!
//! A **node** has a name and **items**, each an id and bytes that nobody here looks into, in the
//! order in which they were published. Its configuration says who may read it, how many items it
//! keeps and which notifications it causes. Nodes stand at the home of their account; whoever asks
//! for those of another is answered by that home, as far as its account lets it.

mod bookmark;
mod displayed;

pub use bookmark::{BOOKMARKS_NODE, BookmarkFormat, BookmarkSettings};
pub use displayed::{DISPLAYED_NODE, displayed_item, displays};

use crate::account::{AccountAddress, Addressee};
use crate::id::SessionRef;
use base::encoding::Encoding;
use std::sync::Arc;

/// Longest name of a node, bytes.
pub const NODE_NAME_BYTES_MAX: usize = 256;

/// Longest id of an item, bytes.
pub const ITEM_ID_BYTES_MAX: usize = 256;

/// Most items in one answer.
pub const NODE_PAGE_MAX: usize = 1_024;

/// Bytes of items in one answer; one item is in it whatever it has.
pub const NODE_PAGE_BYTES_MAX: usize = 512 * 1024;

/// Nodes that one question may ask for items.
pub const NODES_ASKED_MAX: usize = 8;

/// Items that one request may publish or retract.
pub const NODE_CHANGE_MAX: usize = 1_024;

/// Groups of contacts that a node may name.
pub const NODE_GROUPS_MAX: usize = 16;

/// Longest badge, bytes.
pub const BADGE_BYTES_MAX: usize = 64;

/// Longest name of a profile, bytes.
pub const PROFILE_BYTES_MAX: usize = 256;

/// Nodes that a device may be interested in.
pub const INTERESTS_MAX: usize = 64;

/// Namespaces of nodes. A published node and a private one may have the same name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Encoding)]
#[encoding(Published = 0, Kept = 1)]
pub enum NodeSpace {
    /// Published nodes: listed, and subscribers are notified of changes.
    Published,
    /// Private data of a client: neither listed nor announced.
    Kept,
}

/// Readers of a node beside its account.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Encoding)]
#[encoding(Open = 0, Presence = 1, Groups = 2, Members = 3)]
pub enum NodeAccess {
    /// All accounts that are not blocked.
    Open,
    /// Accounts that may see the account's presence.
    #[default]
    Presence,
    /// Accounts that may see its presence, and that it lists in one of the groups of the node.
    Groups,
    /// Members of the node.
    Members,
}

/// When a subscriber gets a node's last item without asking.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Encoding)]
#[encoding(Never = 0, Subscribed = 1, Present = 2)]
pub enum SendLast {
    /// Never.
    Never,
    /// When it subscribes.
    Subscribed,
    /// When it subscribes, and when it comes online.
    #[default]
    Present,
}

/// How a node is.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodeConfig {
    /// Its readers.
    pub access: NodeAccess,
    /// Groups of contacts, each once, if they say who may read it.
    pub groups: Box<[Box<str>]>,
    /// Whether items are kept; otherwise subscribers are notified of them, and nothing is stored.
    pub persists: bool,
    /// Items that are kept, at least one: with one more the oldest goes. [`u32::MAX`]: as many as
    /// there may be.
    pub items_max: u32,
    /// When subscribers get the last item.
    pub send_last: SendLast,
    /// Whether subscribers are notified when the node is deleted or purged.
    pub tells_deletes: bool,
    /// Whether subscribers are notified when an item is retracted.
    pub tells_retracts: bool,
    /// Whether subscribers get whole items; otherwise their ids.
    pub tells_payloads: bool,
}

impl Default for NodeConfig {
    /// XEP-0163 3: one item, for those who are subscribed to the account's presence.
    fn default() -> Self {
        NodeConfig {
            access: NodeAccess::Presence,
            groups: Box::default(),
            persists: true,
            items_max: 1,
            send_last: SendLast::Present,
            tells_deletes: true,
            tells_retracts: true,
            tells_payloads: true,
        }
    }
}

/// Wanted settings of a node; absent ones stay as they are.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct NodeOptions {
    /// See [`NodeConfig::access`].
    pub access: Option<NodeAccess>,
    /// See [`NodeConfig::groups`].
    pub groups: Option<Box<[Box<str>]>>,
    /// See [`NodeConfig::persists`].
    pub persists: Option<bool>,
    /// See [`NodeConfig::items_max`].
    pub items_max: Option<u32>,
    /// See [`NodeConfig::send_last`].
    pub send_last: Option<SendLast>,
    /// See [`NodeConfig::tells_deletes`].
    pub tells_deletes: Option<bool>,
    /// See [`NodeConfig::tells_retracts`].
    pub tells_retracts: Option<bool>,
    /// See [`NodeConfig::tells_payloads`].
    pub tells_payloads: Option<bool>,
}

impl NodeOptions {
    /// A configuration as these want it, and otherwise as it was.
    pub fn over(&self, config: &NodeConfig) -> NodeConfig {
        NodeConfig {
            access: self.access.unwrap_or(config.access),
            groups: self.groups.clone().unwrap_or_else(|| config.groups.clone()),
            persists: self.persists.unwrap_or(config.persists),
            items_max: self.items_max.unwrap_or(config.items_max),
            send_last: self.send_last.unwrap_or(config.send_last),
            tells_deletes: self.tells_deletes.unwrap_or(config.tells_deletes),
            tells_retracts: self.tells_retracts.unwrap_or(config.tells_retracts),
            tells_payloads: self.tells_payloads.unwrap_or(config.tells_payloads),
        }
    }
}

/// An item of a node.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodeItem {
    /// Its id, at most [`ITEM_ID_BYTES_MAX`]; no other of the node has it.
    pub id: Box<str>,
    /// Opaque bytes.
    pub payload: Box<[u8]>,
}

/// Event of a node for its subscribers.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Published = 0, Named = 1, Retracted = 2, Purged = 3, Deleted = 4)]
pub enum NodeEvent {
    /// An item was published; or is the last, for whoever has come.
    Published(Arc<NodeItem>),
    /// An item was published, and the subscriber gets only its id.
    Named(Box<str>),
    /// An item was retracted.
    Retracted(Box<str>),
    /// All items are gone.
    Purged,
    /// The node is.
    Deleted,
}

/// Events of a node for a session.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodeNews {
    /// Owner of the node.
    pub from: AccountAddress,
    /// The node.
    pub node: Box<str>,
    /// The events, in order.
    pub events: Arc<[NodeEvent]>,
}

impl NodeEvent {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let beside = match self {
            NodeEvent::Published(item) => item.weight(),
            NodeEvent::Named(id) | NodeEvent::Retracted(id) => id.len(),
            NodeEvent::Purged | NodeEvent::Deleted => 0,
        };
        size_of::<NodeEvent>() + beside
    }
}

impl NodeNews {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let events: usize = self.events.iter().map(NodeEvent::weight).sum();
        size_of::<NodeNews>() + self.node.len() + events
    }
}

impl NodeItem {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        size_of::<NodeItem>() + self.id.len() + self.payload.len()
    }
}

/// Items of a node that are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ItemsWanted {
    /// Namespace of the node.
    pub space: NodeSpace,
    /// The node.
    pub node: Box<str>,
    /// Items of the node.
    pub which: ItemsChosen,
}

/// Items of a node to return.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Ids = 0, Last = 1, After = 2, Before = 3)]
pub enum ItemsChosen {
    /// Items with these ids, where they exist.
    Ids(Box<[Box<str>]>),
    /// The last that were published, so many.
    Last(u32),
    /// At most so many items behind one of them, or from the first on.
    After(Option<Box<str>>, u32),
    /// At most so many items before one of them.
    Before(Box<str>, u32),
}

/// A change of a node's items.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodeChange {
    /// Namespace of the node.
    pub space: NodeSpace,
    /// The node. It is made if it is not there and something is published.
    pub node: Box<str>,
    /// Published items, in order; an id that exists is replaced, and comes last.
    pub publish: Vec<NodeItem>,
    /// Ids that are retracted before that.
    pub retract: Vec<Box<str>>,
    /// Whether it is a fault to retract an id that does not exist.
    pub must_be_there: bool,
    /// Whether subscribers are notified of retracted items, whatever the node's configuration says.
    pub tells: bool,
    /// How the node must be, and is made.
    pub options: Option<Box<NodeOptions>>,
    /// The badge that the account shows with its presence from now on, at most [`BADGE_BYTES_MAX`];
    /// empty: none.
    pub badge: Option<Box<str>>,
}

impl NodeChange {
    /// One that changes nothing yet of a node.
    pub fn of(space: NodeSpace, node: impl Into<Box<str>>) -> NodeChange {
        NodeChange {
            space,
            node: node.into(),
            publish: Vec::new(),
            retract: Vec::new(),
            must_be_there: false,
            tells: false,
            options: None,
            badge: None,
        }
    }
}

/// Question or order about nodes.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding[
    Items = 0, Change = 1, Create = 2, Configure = 3, Delete = 4, Purge = 5, Names = 6,
    KeptNames = 7, Node = 8, Subscribe = 9, Unsubscribe = 10, Subscriptions = 11, Accounts = 12,
    Members = 13, LastThere = 14
]]
pub enum NodesAsk {
    /// Items of nodes. Answered by [`NodesFound::Items`].
    Items(Box<[ItemsWanted]>),
    /// Items are published or retracted, of one node after the other, up to the first change that
    /// is refused. Answered by [`NodesFound::Done`], of the last.
    Change(Vec<NodeChange>),
    /// A node is made. It must not be there.
    Create(Box<str>, Box<NodeOptions>),
    /// A node is configured. It must be there.
    Configure(Box<str>, Box<NodeOptions>),
    /// A node goes.
    Delete(Box<str>),
    /// All items of a node go.
    Purge(Box<str>),
    /// Requests the nodes that the asker may read. Answered by [`NodesFound::Names`].
    Names,
    /// Requests the nodes that are kept, but not published. Answered by [`NodesFound::Names`].
    KeptNames,
    /// How a node is. Answered by [`NodesFound::Node`].
    Node(Box<str>),
    /// Subscribes the asking account to a node.
    Subscribe(Box<str>),
    /// The account unsubscribes from a node.
    Unsubscribe(Box<str>),
    /// Requests the nodes that the asker is subscribed to. Answered by [`NodesFound::Names`].
    Subscriptions,
    /// Asks for the subscribers and members of a node. Answered by [`NodesFound::Accounts`].
    Accounts(Box<str>),
    /// Adds members to a node (`true`), or removes them.
    Members(Box<str>, Box<[(AccountAddress, bool)]>),
    /// When was the account last there? Of those who see its presence; answered by
    /// [`NodesFound::LastThere`], or by [`NodesFault::UnknownItem`] if it is not known.
    LastThere,
}

impl NodesAsk {
    /// Whether it changes something.
    pub const fn is_change(&self) -> bool {
        !matches!(
            self,
            NodesAsk::Items(_)
                | NodesAsk::Names
                | NodesAsk::KeptNames
                | NodesAsk::Node(_)
                | NodesAsk::Subscriptions
                | NodesAsk::Accounts(_)
                | NodesAsk::LastThere
        )
    }
}

/// Request of a session about nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodesRequest {
    /// Session that asks.
    pub session: SessionRef,
    /// Number that the answer repeats.
    pub number: u32,
    /// Owner of the nodes; absent: the session's own account.
    pub of: Option<Addressee>,
    /// The question or order.
    pub ask: NodesAsk,
}

/// Items of a node, in the order in which they were published.
#[derive(Clone, PartialEq, Eq, Default, Debug, Encoding)]
pub struct NodeItems {
    /// The items.
    pub items: Vec<Arc<NodeItem>>,
    /// Items of the node that come before the first of these.
    pub index: u32,
    /// All items of the node.
    pub total: u32,
}

/// How a node is, and what it has.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodeFound {
    /// Its configuration.
    pub config: NodeConfig,
    /// Its items, counted.
    pub items: u32,
}

/// Result of a request about nodes.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Done = 0, Items = 1, Names = 2, Node = 3, Accounts = 4, LastThere = 5)]
pub enum NodesFound {
    /// The order was carried out; ids of the published items.
    Done(Box<[Box<str>]>),
    /// Items of each node that was asked for.
    Items(Box<[Result<NodeItems, NodesFault>]>),
    /// Names of nodes.
    Names(Box<[Box<str>]>),
    /// A node.
    Node(Box<NodeFound>),
    /// Subscribers and members of a node.
    Accounts {
        /// Subscribed.
        subscribers: Box<[AccountAddress]>,
        /// Members.
        members: Box<[AccountAddress]>,
    },
    /// When the account was last there.
    LastThere {
        /// Seconds since then; 0 while it is online.
        ago_s: u64,
    },
}

impl NodesFound {
    /// Approximate memory beside itself, bytes.
    pub fn weight(&self) -> usize {
        match self {
            NodesFound::Items(parts) => {
                let parts = parts.iter().flatten().flat_map(|part| &part.items);
                parts.map(|item| item.weight()).sum()
            }
            NodesFound::Done(names) | NodesFound::Names(names) => {
                names.iter().map(|name| size_of::<Box<str>>() + name.len()).sum()
            }
            NodesFound::Node(found) => {
                let groups = found.config.groups.iter();
                size_of::<NodeFound>()
                    + groups.map(|group| size_of::<Box<str>>() + group.len()).sum::<usize>()
            }
            NodesFound::Accounts { subscribers, members } => {
                let all = subscribers.iter().chain(members);
                all.map(|one| size_of::<AccountAddress>() + one.as_str().len()).sum()
            }
            NodesFound::LastThere { .. } => 0,
        }
    }
}

/// Answer to a request about nodes.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct NodesAnswer {
    /// Number of the request.
    pub number: u32,
    /// The result, or why the request was refused.
    pub result: Result<NodesFound, NodesFault>,
}

/// Request of a session about the nodes that its device is interested in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileRequest {
    /// Session that says it.
    pub session: SessionRef,
    /// The session's statement about a profile.
    pub said: ProfileSaid,
}

/// Statement of a session about a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProfileSaid {
    /// The device has the one of this name, at most [`PROFILE_BYTES_MAX`]. If it is not known, the
    /// device or one like it is asked.
    Has(Box<str>),
    /// A profile is this.
    Is {
        /// Its name.
        profile: Box<str>,
        /// Nodes that a device of it is interested in, at most [`INTERESTS_MAX`]; none: the device
        /// does not tell.
        interests: Option<Box<[Box<str>]>>,
        /// Whether the name follows from the device's answer, so that it is true of every device of
        /// this profile.
        is_proved: bool,
    },
}

/// Declares the faults once: variant, word, meaning.
macro_rules! faults {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Why a request about nodes was refused.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum NodesFault { $(#[doc = $meaning] $variant,)+ }

        impl NodesFault {
            /// All reasons.
            pub const ALL: &'static [NodesFault] = &[$(NodesFault::$variant,)+];

            /// The name in the log.
            pub const fn name(self) -> &'static str {
                match self { $(NodesFault::$variant => $name,)+ }
            }
        }
    };
}

faults! {
    UnknownAccount "unknown_account" "Unknown account, or the requester may not see it.";
    UnknownNode "unknown_node" "Unknown node.";
    UnknownItem "unknown_item" "Unknown item.";
    Exists "exists" "The node already exists.";
    Forbidden "forbidden" "Only the account itself may do that.";
    NotSubscribed "not_subscribed" "Only accounts with a presence subscription may read it.";
    NotInGroup "not_in_group" "Only certain contact groups of the account may read it.";
    NotMember "not_member" "Only members of the node may read it.";
    OtherConfig "other_config" "The node's configuration differs from the one required.";
    NotSupported "not_supported" "The configuration is not supported.";
    Unknown "unknown" "Unknown operation.";
    Invalid "invalid" "Invalid request.";
    TooLarge "too_large" "An item, an id or a name is larger than allowed.";
    NodesFull "nodes_full" "The account has the maximum number of nodes.";
    BytesFull "bytes_full" "The account reached its limit of stored bytes.";
    SubscribersFull "subscribers_full" "The node has the maximum number of subscribers or members.";
    NoSubscription "no_subscription" "The requester is not subscribed.";
    Blocked "blocked" "The requester has blocked the account.";
    RateLimited "rate_limited" "The requester exceeded its rate limit: retry later.";
    Busy "busy" "Too many requests at once, or no answer in time: retry.";
    StoreFull "store_full" "The log is full.";
    StoreFailed "store_failed" "The log failed: writes are refused until the server restarts.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_words_of_their_own() {
        let mut names: Vec<_> = NodesFault::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NodesFault::ALL.len());
    }

    #[test]
    fn what_is_not_wanted_otherwise_stays_as_it_was() {
        let before = NodeConfig { items_max: 7, ..NodeConfig::default() };
        assert_eq!(NodeOptions::default().over(&before), before);
        let options = NodeOptions { access: Some(NodeAccess::Open), ..NodeOptions::default() };
        let after = options.over(&before);
        assert_eq!((after.access, after.items_max), (NodeAccess::Open, 7));
    }
}
