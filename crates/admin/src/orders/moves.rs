//! Import of account data from another server.
//!
//! Invariant: what leaves this file is what a device of the account could have said itself.

use super::chat::{SayingBody, account, addressee, client_id, group, members, no_verb, title};
use crate::fault::Fault;
use crate::texts::{AccountName, Base64, BlockedName, MessageId16};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::{ArrivalWhat, ForeignArrival};
use model::chat::{
    CONTACT_GROUP_BYTES_MAX, CONTACT_GROUPS_MAX, CONTACT_NAME_BYTES_MAX, ContactOrder, ContactWish,
    GROUP_NAMED_MAX, GroupOrder, GroupVerb, ITEM_ID_BYTES_MAX, MovedChange, MovedMessage,
    NODE_CHANGE_MAX, NODE_NAME_BYTES_MAX, NodeAccess, NodeChange, NodeItem, NodeOptions, NodeSpace,
    NodesAsk, SendLast, SubscriptionVerb,
};
use model::limits::ChatLimits;
use model::ports::chat::{ChatCommand, Errand, ErrandWhat};
use model::timeline::Seq;
use schemars::JsonSchema;
use serde::Deserialize;

/// Things in one call.
pub(crate) const MOVES_MAX: usize = 256;

/// Several things.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatMoves")]
pub(crate) struct MovesBody {
    /// The items, at most 256. Items about one account are carried out in their order.
    #[schemars(length(min = 1, max = MOVES_MAX))]
    pub(crate) items: Vec<MoveBody>,
}

/// One thing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatMove")]
pub(crate) struct MoveBody {
    /// Account that the item belongs to.
    #[schemars(with = "AccountName")]
    account: String,
    /// Content of the item.
    what: MoveWhat,
}

/// Kind of an imported item.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "ChatMoveWhat")]
pub(crate) enum MoveWhat {
    /// A contact of the account.
    Contact(ContactMove),
    /// An address that the account has blocked.
    Blocked(BlockedMove),
    /// A node that the account publishes, or keeps private.
    Node(NodeMove),
    /// A message between it and another one, or that it said in a group.
    Message(Box<MessageMove>),
    /// A group that it makes or changes, which was a room.
    Group(Box<GroupMove>),
    /// Mark that the account's inbox up to now was delivered to its devices by the old server.
    Seen(SeenMove),
}

/// Contact of an account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatContactMove")]
pub(crate) struct ContactMove {
    /// The contact.
    #[schemars(with = "AccountName")]
    with: String,
    /// Name of the contact; at most 256 bytes.
    #[serde(default)]
    name: String,
    /// Groups that it is in; at most 16, of 128 bytes each.
    #[serde(default)]
    groups: Vec<String>,
    /// The account sees it, or has asked to: it is asked again, if need be.
    #[serde(default)]
    sees: bool,
    /// Whether the contact sees the account's presence, or may when it asks.
    #[serde(default)]
    is_seen: bool,
    /// Whether the account's own server has it that it sees the contact already: nothing more is
    /// said by it.
    #[serde(default)]
    saw: bool,
}

/// Blocked address of an account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatBlockedMove")]
pub(crate) struct BlockedMove {
    /// The blocked account.
    #[schemars(with = "BlockedName")]
    with: String,
}

/// A node with items.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatNodeMove")]
pub(crate) struct NodeMove {
    /// Its name; at most 256 bytes.
    node: String,
    /// Whether the node is kept for the account's own clients, and not published.
    #[serde(default)]
    kept: bool,
    /// Accounts that may read it.
    #[schemars(extend("enum" = ["open", "presence", "members", null]))]
    access: Option<String>,
    /// How many items it keeps.
    items_max: Option<u32>,
    /// Its items, the oldest first.
    items: Vec<ItemMove>,
    /// Badge that the account shows with its presence from now on; empty: none.
    badge: Option<String>,
}

/// An item of a node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatItemMove")]
pub(crate) struct ItemMove {
    /// Its id; at most 256 bytes.
    id: String,
    /// Its bytes.
    #[schemars(with = "Base64")]
    payload_base64: String,
}

/// A message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatMessageMove")]
pub(crate) struct MessageMove {
    /// The other of the two; or a group, in which whoever said it need not have an account here.
    #[schemars(with = "AccountName")]
    with: String,
    /// The account said it; else the other did. In a group it did.
    own: bool,
    /// Device of the sender.
    #[serde(default)]
    device: String,
    /// When, Unix milliseconds; from 2020 on.
    at_ms: u64,
    /// The id that tells it from others of whoever said it.
    #[schemars(with = "MessageId16")]
    client_id: String,
    /// Content of the message.
    message: SayingBody,
}

/// A group that was a room.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatGroupMove")]
pub(crate) struct GroupMove {
    /// Its address, `NAME@conference.DOMAIN`.
    #[schemars(with = "AccountName")]
    group: String,
    /// Operation to carry out; `create` before all others.
    #[schemars(extend("enum" = moved_verbs()))]
    verb: String,
    /// Its title or description, for those that have one; at most 256 bytes.
    #[serde(default)]
    title: String,
    /// Members that the operation is about; at most 128 at once.
    #[serde(default)]
    #[schemars(with = "Vec<AccountName>", length(max = GROUP_NAMED_MAX))]
    members: Vec<String>,
    /// The id that tells it from other changes by the account.
    #[schemars(with = "MessageId16")]
    client_id: String,
    /// When it was made, for `create`, Unix milliseconds; from 2020 on, and before all that was
    /// said in it.
    #[serde(default)]
    at_ms: u64,
}

/// Operations on a group that moves in.
fn moved_verbs() -> Vec<&'static str> {
    use GroupVerb::{Add, Ban, Close, Create, Describe, Promote, Reveal, Unlock};
    [Create, Add, Promote, Ban, Describe, Unlock, Reveal, Close].map(GroupVerb::word).into()
}

/// How far devices had come.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatSeenMove")]
pub(crate) struct SeenMove {
    /// Place of the inbox up to which its entries were seen.
    pub(crate) upto: Seq,
}

/// Commands for one item, carried out one after the other.
pub(crate) struct Move {
    /// Accounts whose inboxes and rows the commands change: items about one account are carried out
    /// in their order.
    pub(crate) about: Vec<String>,
    pub(crate) commands: Vec<ChatCommand>,
}

impl MoveBody {
    pub(crate) fn order(&self, domain: &str, limits: &ChatLimits) -> Result<Move, Fault> {
        let by = account(&self.account, domain)?;
        let mut about = vec![by.to_string()];
        let errand = |what| {
            let by = by.clone();
            ChatCommand::Errand(Box::new(Errand { by, is_operators: true, what }))
        };
        let commands = match &self.what {
            MoveWhat::Contact(contact) => contact.commands(&by)?,
            MoveWhat::Blocked(blocked) => {
                let contact = Addressee::of_contact(&blocked.with);
                let contact = contact.map_err(|fault| Fault::bad(format!("`with`: {fault}")))?;
                let order = ContactOrder::Block;
                vec![errand(ErrandWhat::Contact(Box::new(ContactWish { contact, order })))]
            }
            MoveWhat::Node(node) => {
                let ask = NodesAsk::Change(vec![node.change()?]);
                vec![errand(ErrandWhat::Nodes(Box::new(ask)))]
            }
            MoveWhat::Message(message) => {
                let moved = message.moved(limits)?;
                if by.is_system() {
                    about.clear(); // it says things in many groups, and has no inbox of them
                }
                about.push(moved.with.within(by.domain()).to_string());
                vec![ChatCommand::MoveIn(by.clone(), Box::new(moved))]
            }
            MoveWhat::Group(group) => {
                let moved = group.moved(by.domain())?;
                let group = moved.order.group.as_ref().map(|it| it.within(by.domain()));
                about.extend(group.map(|group| group.to_string()));
                vec![ChatCommand::ChangeMoved(by.clone(), Box::new(moved))]
            }
            MoveWhat::Seen(seen) => vec![ChatCommand::MovedUpTo(by.clone(), seen.upto)],
        };
        Ok(Move { about, commands })
    }
}

impl ContactMove {
    fn commands(&self, by: &AccountAddress) -> Result<Vec<ChatCommand>, Fault> {
        let with = addressee("with", &self.with)?;
        let is_long = |text: &String| text.is_empty() || text.len() > CONTACT_GROUP_BYTES_MAX;
        let is_wrong = self.name.len() > CONTACT_NAME_BYTES_MAX
            || self.groups.len() > CONTACT_GROUPS_MAX
            || self.groups.iter().any(is_long);
        if is_wrong {
            return Err(Fault::bad(format!(
                "a name can have at most {CONTACT_NAME_BYTES_MAX} bytes, and a contact at most \
                 {CONTACT_GROUPS_MAX} groups of 1 to {CONTACT_GROUP_BYTES_MAX}"
            )));
        }
        let wish =
            |order| ErrandWhat::Contact(Box::new(ContactWish { contact: with.clone(), order }));
        let errand = |order| {
            let (by, what) = (by.clone(), wish(order));
            ChatCommand::Errand(Box::new(Errand { by, is_operators: true, what }))
        };
        let groups = self.groups.iter().map(|group| group.as_str().into()).collect();
        let mut commands =
            vec![errand(ContactOrder::Set { name: self.name.as_str().into(), groups })];
        if self.is_seen {
            commands.push(errand(ContactOrder::Say(SubscriptionVerb::Subscribed, "".into())));
        }
        if self.is_seen && self.saw {
            // Its server says it no more: it asks here, and is granted what is granted already.
            let home = with.within(by.domain());
            let order = ContactOrder::Say(SubscriptionVerb::Subscribe, "".into());
            let wish = Box::new(ContactWish { contact: by.clone().into(), order });
            let arrival = ForeignArrival { home, what: ArrivalWhat::Wish(wish) };
            commands.push(ChatCommand::Foreign(Box::new(arrival)));
        }
        if self.sees {
            commands.push(errand(ContactOrder::Say(SubscriptionVerb::Subscribe, "".into())));
        }
        Ok(commands)
    }
}

impl NodeMove {
    fn change(&self) -> Result<NodeChange, Fault> {
        let is_named = (1..=NODE_NAME_BYTES_MAX).contains(&self.node.len());
        if !is_named || self.items.len() > NODE_CHANGE_MAX {
            return Err(Fault::bad(format!(
                "the name of a node must have 1 to {NODE_NAME_BYTES_MAX} bytes, and the node at \
                 most {NODE_CHANGE_MAX} items at once"
            )));
        }
        let access = match self.access.as_deref() {
            None => None,
            Some("open") => Some(NodeAccess::Open),
            Some("presence") => Some(NodeAccess::Presence),
            Some("members") => Some(NodeAccess::Members),
            Some(_) => return Err(Fault::bad("`access` must be `open`, `presence` or `members`")),
        };
        // What is only for the account itself is told to nobody who comes.
        let send_last = (access == Some(NodeAccess::Members)).then_some(SendLast::Never);
        let options = NodeOptions {
            access,
            items_max: self.items_max.map(|count| count.max(1)),
            send_last,
            ..NodeOptions::default()
        };
        let publish = self.items.iter().map(ItemMove::item).collect::<Result<_, _>>()?;
        let space = if self.kept { NodeSpace::Kept } else { NodeSpace::Published };
        Ok(NodeChange {
            publish,
            options: Some(Box::new(options)).filter(|it| **it != NodeOptions::default()),
            badge: self.badge.as_deref().map(Into::into),
            ..NodeChange::of(space, self.node.as_str())
        })
    }
}

impl ItemMove {
    fn item(&self) -> Result<NodeItem, Fault> {
        let payload = STANDARD.decode(&self.payload_base64);
        let payload = payload.map_err(|_| Fault::bad("`payload_base64` is not base64"))?;
        match (1..=ITEM_ID_BYTES_MAX).contains(&self.id.len()) {
            true => Ok(NodeItem { id: self.id.as_str().into(), payload: payload.into() }),
            false => Err(Fault::bad(format!("an id must have 1 to {ITEM_ID_BYTES_MAX} bytes"))),
        }
    }
}

impl GroupMove {
    fn moved(&self, domain: &str) -> Result<MovedChange, Fault> {
        let verb = GroupVerb::ALL.iter().find(|verb| verb.word() == self.verb);
        let verb = *verb
            .filter(|verb| moved_verbs().contains(&verb.word()))
            .ok_or_else(|| no_verb(&moved_verbs()))?;
        let members = members(&self.members)?;
        if verb.names_members() && members.is_empty() {
            return Err(Fault::bad("`members` must name at least one account for this verb"));
        }
        let client_id = client_id(Some(&self.client_id))?;
        let order = GroupOrder {
            group: Some(group(&self.group, domain)?.into()),
            client_id: client_id.ok_or_else(|| Fault::bad("`client_id` must be a UUID"))?,
            verb,
            title: title(&self.title)?,
            members,
        };
        Ok(MovedChange { order, at_ms: self.at_ms })
    }
}

impl MessageMove {
    fn moved(&self, limits: &ChatLimits) -> Result<MovedMessage, Fault> {
        let client_id = client_id(Some(&self.client_id))?;
        Ok(MovedMessage {
            with: addressee("with", &self.with)?,
            is_own: self.own,
            device: self.device.as_str().into(),
            at_ms: self.at_ms,
            client_id: client_id.ok_or_else(|| Fault::bad("`client_id` must be a UUID"))?,
            content: self.message.content(limits)?,
        })
    }
}
