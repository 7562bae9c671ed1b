//! Lines of an export: all data of a chat account, one object a line.
//!
//! Invariant: no line contains a secret: push registrations are shown without tokens.

use super::{Account, ContactTold, ConversationTold, Message};
use crate::texts::Base64;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::chat::{
    InboxChange, InboxEvent, MembersPage, NodeAccess, NodeConfig, NodeItem, PushRegistration,
    PushRoute,
};
use model::media::FileNote;
use model::timeline::Seq;
use schemars::JsonSchema;
use serde::Serialize;

/// A line.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "ChatExportLine")]
pub(crate) enum ExportLine {
    /// The account; the first line.
    Account(Account),
    /// Its settings.
    Settings(Settings),
    /// A contact.
    Contact(ContactTold),
    /// A conversation.
    Conversation(ConversationTold),
    /// A group that the account is in.
    Group(GroupTold),
    /// A device registered for push notifications.
    Push(PushTold),
    /// A PEP node that it publishes, or that its clients store.
    Node(NodeTold),
    /// An item of a node.
    Item(ItemTold),
    /// A message of its inbox.
    Message(MessageTold),
    /// Another entry of the inbox.
    Event(EventTold),
    /// A file that it sent or received.
    File(FileTold),
    /// Reading failed: the export is incomplete.
    Fault(FaultTold),
    /// The last line of a complete export.
    End(EndTold),
}

/// Settings of an account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportSettings")]
pub(crate) struct Settings {
    /// Whether it sends read receipts.
    pub(crate) shares_reads: bool,
    /// Users who may add it to groups without asking: everybody, contacts or nobody.
    pub(crate) adding: &'static str,
    /// Quiet hours: minutes of the day from and until which notifications are silent, and the
    /// offset of its clock from UTC in minutes; null: none.
    pub(crate) quiet: Option<[i32; 3]>,
}

/// A group that an account is in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportGroup")]
pub(crate) struct GroupTold {
    /// Its address.
    group: String,
    /// Its title.
    title: String,
    /// Number of members.
    members: u32,
}

impl From<&MembersPage> for GroupTold {
    fn from(page: &MembersPage) -> GroupTold {
        let (group, title) = (page.group.to_string(), page.title.to_string());
        GroupTold { group, title, members: page.total }
    }
}

/// A device registered for push notifications.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportPush")]
pub(crate) struct PushTold {
    /// The registration's name.
    name: String,
    /// The device that made it.
    device: String,
    /// The route: the gateway's application, a product and its MIOP device, or an XMPP push
    /// service.
    way: String,
}

impl From<&PushRegistration> for PushTold {
    fn from(it: &PushRegistration) -> PushTold {
        let way = match &it.route {
            PushRoute::Gateway { app, .. } => format!("gateway {app}"),
            PushRoute::Miop { product, device } => {
                format!("miop {} {}", product.as_str(), device.as_str())
            }
            PushRoute::Service(at) => format!("service {}", at.address),
        };
        PushTold { name: it.name.to_string(), device: it.device.to_string(), way }
    }
}

/// A PEP node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportNode")]
pub(crate) struct NodeTold {
    /// Its name.
    pub(crate) node: String,
    /// Access of others to the node; null: it is private to the account's own clients, not
    /// published.
    #[schemars(extend("enum" = ["open", "presence", "groups", "members", null]))]
    pub(crate) access: Option<&'static str>,
    /// Maximum number of items; null: the server's limit, or not published.
    pub(crate) items_max: Option<u32>,
}

impl NodeTold {
    pub(crate) fn new(node: &str, config: Option<&NodeConfig>) -> NodeTold {
        let access = config.map(|config| match config.access {
            NodeAccess::Open => "open",
            NodeAccess::Presence => "presence",
            NodeAccess::Groups => "groups",
            NodeAccess::Members => "members",
        });
        let items_max = config.map(|config| config.items_max).filter(|most| *most != u32::MAX);
        NodeTold { node: node.into(), access, items_max }
    }
}

/// An item of a node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportItem")]
pub(crate) struct ItemTold {
    /// The node.
    node: String,
    /// Whether the node is private to the account's own clients, not published.
    kept: bool,
    /// The item's id.
    id: String,
    /// Its bytes.
    #[schemars(with = "Base64")]
    payload_base64: String,
}

impl ItemTold {
    pub(crate) fn new((node, kept): (&str, bool), item: &NodeItem) -> ItemTold {
        let payload_base64 = STANDARD.encode(&item.payload);
        ItemTold { node: node.into(), kept, id: item.id.to_string(), payload_base64 }
    }
}

/// A message of an inbox.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportMessage")]
pub(crate) struct MessageTold {
    /// Its place in the inbox.
    pub(crate) place: Seq,
    /// The message.
    #[serde(flatten)]
    pub(crate) message: Message,
}

/// Another entry of an inbox.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportEvent")]
pub(crate) struct EventTold {
    /// Its place.
    place: Seq,
    /// The other side of the conversation.
    with: String,
    /// The kind of entry.
    #[schemars(extend("enum" = ["read", "peer_read", "set"]))]
    what: &'static str,
    /// Place up to which it was read; null: the settings of the conversation changed.
    upto: Option<Seq>,
}

impl EventTold {
    pub(crate) fn new(place: Seq, event: &InboxEvent) -> EventTold {
        let (what, upto) = match &event.what {
            InboxChange::Read(upto) => ("read", Some(*upto)),
            InboxChange::PeerRead(upto) => ("peer_read", Some(*upto)),
            InboxChange::Set(_) => ("set", None),
        };
        EventTold { place, with: event.with.to_string(), what, upto }
    }
}

/// A file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportFile")]
pub(crate) struct FileTold {
    /// Place of its message in the inbox.
    place: Seq,
    /// Its address.
    url: String,
    /// Its name; may be empty.
    name: String,
    /// Its type; may be empty.
    media_type: String,
    /// Its size, bytes; zero: unknown.
    bytes: u64,
}

impl FileTold {
    pub(crate) fn new(place: Seq, note: &FileNote<'_>) -> FileTold {
        let (url, name, media_type) = (note.url.into(), note.name.into(), note.media_type.into());
        FileTold { place, url, name, media_type, bytes: note.bytes }
    }
}

/// Why an export ended early.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportFault")]
pub(crate) struct FaultTold {
    /// The error code.
    pub(crate) code: String,
}

/// Contents of the export.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportEnd")]
pub(crate) struct EndTold {
    /// Lines before this one.
    pub(crate) lines: u64,
    /// Place in the inbox up to which the export is complete.
    pub(crate) upto: Seq,
}
