//! Lines of an export: all that is kept of an account of chat, one thing a line.
//!
//! Invariant: no line has a secret: of how devices are woken the way, and no token.

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
    /// Somebody whom it knows.
    Contact(ContactTold),
    /// A conversation of it.
    Conversation(ConversationTold),
    /// A group that it is in.
    Group(GroupTold),
    /// A device of it that is to be woken.
    Push(PushTold),
    /// A node that it publishes, or that its clients keep.
    Node(NodeTold),
    /// An item of one.
    Item(ItemTold),
    /// A message of its inbox.
    Message(MessageTold),
    /// Something else that stands there.
    Event(EventTold),
    /// A file that it sent or was sent.
    File(FileTold),
    /// It could not be read further: the export is not whole.
    Fault(FaultTold),
    /// The last line, of an export that is whole.
    End(EndTold),
}

/// Settings of an account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportSettings")]
pub(crate) struct Settings {
    /// It lets others know what it has read.
    pub(crate) shares_reads: bool,
    /// Who adds it to groups without asking it: everybody, contacts or nobody.
    pub(crate) adding: &'static str,
    /// Minutes of the day from and until which nothing makes a sound, and how many minutes its
    /// clock is later than UTC; null: at no time.
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
    /// How many members it has.
    members: u32,
}

impl From<&MembersPage> for GroupTold {
    fn from(page: &MembersPage) -> GroupTold {
        let (group, title) = (page.group.to_string(), page.title.to_string());
        GroupTold { group, title, members: page.total }
    }
}

/// A device that is to be woken.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportPush")]
pub(crate) struct PushTold {
    /// The registration's name.
    name: String,
    /// The device that made it.
    device: String,
    /// By which way: the gateway's application, a product of pushes and its device, or a push
    /// service of XMPP elsewhere.
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

/// A node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportNode")]
pub(crate) struct NodeTold {
    /// Its name.
    pub(crate) node: String,
    /// Who may read it; null: it is kept for the account's own clients, and not published.
    #[schemars(extend("enum" = ["open", "presence", "groups", "members", null]))]
    pub(crate) access: Option<&'static str>,
    /// How many items it keeps; null: as many as there may be, or it is not published.
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
    /// The node is kept for the account's own clients, and not published.
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

/// What else stands in an inbox.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportEvent")]
pub(crate) struct EventTold {
    /// Its place.
    place: Seq,
    /// The conversation, by whom it is with.
    with: String,
    /// What happened.
    #[schemars(extend("enum" = ["read", "peer_read", "set"]))]
    what: &'static str,
    /// Up to which place was read; null: it is kept otherwise.
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
    /// The place in the inbox of the message that is about it.
    place: Seq,
    /// Where it is.
    url: String,
    /// Its name; may be empty.
    name: String,
    /// Its type; may be empty.
    media_type: String,
    /// Its size, bytes; zero: not said.
    bytes: u64,
}

impl FileTold {
    pub(crate) fn new(place: Seq, note: &FileNote<'_>) -> FileTold {
        let (url, name, media_type) = (note.url.into(), note.name.into(), note.media_type.into());
        FileTold { place, url, name, media_type, bytes: note.bytes }
    }
}

/// Why an export ends before its end.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportFault")]
pub(crate) struct FaultTold {
    /// The code that a refusal would have.
    pub(crate) code: String,
}

/// What an export has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatExportEnd")]
pub(crate) struct EndTold {
    /// Lines before this one.
    pub(crate) lines: u64,
    /// The place of the inbox up to which it is everything.
    pub(crate) upto: Seq,
}
