//! Events for applications: what happened to devices, to clients and in chat.
//!
//! Services make events only while there are listeners.

use crate::account::{AccountAddress, AccountId};
use crate::chat::{ChatMessage, ClientMessageId, Content, ReportedAbuse};
use crate::close::CloseReason;
use crate::event::{self, EventKind};
use crate::id::{DeviceId, MessageId, ProductKey};
use crate::ports::control::disconnections::Disconnection;
use crate::presence::PresenceVersion;
use crate::push::{Outcome, PushReport};
use crate::session::{Denial, Drop};
use crate::topic::{Publication, Qos};
use std::net::SocketAddr;
use std::sync::Arc;

/// Event of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceEvent {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Product of the device.
    pub product: ProductKey,
    /// The device.
    pub device: DeviceId,
    /// Epoch of the session it happened in. Together with `what` it orders a device's events: an
    /// offline of a lower epoch than the last online is late and means nothing.
    pub epoch: u64,
    /// Version of the transition, if it came online or went offline: above those of its earlier
    /// transitions on any server. Else zero.
    pub version: PresenceVersion,
    /// The event itself.
    pub what: DeviceWhat,
}

/// Kind of an event of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceWhat {
    /// The device bound.
    Online {
        /// `miop5`, `miop6`, `miop7`.
        protocol: &'static str,
        /// An earlier session goes on.
        resumed: bool,
    },
    /// Its connection ended, or it unbound.
    Offline {
        /// Reason why the connection ended.
        reason: CloseReason,
    },
    /// The device sent a Report.
    Report {
        /// The device's number for it.
        seq: u32,
        /// Body of the Report.
        body: Box<[u8]>,
    },
    /// A push reached its end at this device.
    Pushed {
        /// The push.
        id: MessageId,
        /// Outcome of the push.
        outcome: Outcome,
    },
    /// The device reported what its user did with a push.
    Reported {
        /// The push.
        id: MessageId,
        /// The report.
        report: PushReport,
    },
    /// The device's platform no longer knows its address, which was removed.
    TokenDead {
        /// Name of the platform.
        platform: Box<str>,
    },
}

impl DeviceWhat {
    /// Kind of the event.
    pub const fn kind(&self) -> EventKind {
        match self {
            DeviceWhat::Online { .. } => event::ONLINE,
            DeviceWhat::Offline { .. } => event::OFFLINE,
            DeviceWhat::Report { .. } => event::REPORT,
            DeviceWhat::Pushed { .. } => event::PUSHED,
            DeviceWhat::Reported { report: PushReport::Opened, .. } => event::PUSH_OPENED,
            DeviceWhat::Reported { report: PushReport::Dismissed, .. } => event::PUSH_DISMISSED,
            DeviceWhat::TokenDead { .. } => event::DEVICE_TOKEN_DEAD,
        }
    }

    /// The word in streams and webhooks.
    pub const fn name(&self) -> &'static str {
        self.kind().name
    }
}

/// Event of a client of a publish-and-subscribe protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientEvent {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Its identifier; empty: the server's own.
    pub client_id: Box<str>,
    /// Its user.
    pub user: Option<Arc<str>>,
    /// Version of the transition, if it connected or disconnected: above those of its earlier
    /// transitions on any server. Else zero.
    pub version: PresenceVersion,
    /// The event itself.
    pub what: ClientWhat,
}

/// Kind of an event of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientWhat {
    /// The client connected.
    Connected {
        /// `mqtt31`, `mqtt311`, `mqtt5`.
        protocol: &'static str,
        /// Its address.
        peer: SocketAddr,
        /// An earlier session goes on.
        resumed: bool,
    },
    /// Its connection ended.
    Disconnected {
        /// Reason why the connection ended.
        reason: CloseReason,
    },
    /// The client was refused.
    Refused {
        /// Reason of the refusal.
        why: Denial,
    },
    /// Its connection ended, of whatever protocol.
    ConnectionEnded(Box<Disconnection>),
    /// Its session ended.
    SessionEnded,
    /// A subscription was granted.
    Subscribed {
        /// Its filter.
        filter: Box<str>,
        /// Its QoS.
        qos: Qos,
    },
    /// A subscription ended by its wish.
    Unsubscribed {
        /// Its filter.
        filter: Box<str>,
    },
    /// The client published a message.
    Published(Arc<Publication>),
    /// Messages for it were dropped.
    Dropped {
        /// Reason for which they were dropped.
        why: Drop,
        /// Number of dropped messages.
        count: u64,
    },
}

impl ClientWhat {
    /// Kind of the event.
    pub const fn kind(&self) -> EventKind {
        match self {
            ClientWhat::Connected { .. } => event::CLIENT_CONNECTED,
            ClientWhat::Disconnected { .. } => event::CLIENT_DISCONNECTED,
            ClientWhat::Refused { .. } => event::CLIENT_REFUSED,
            ClientWhat::ConnectionEnded(_) => event::DISCONNECTION,
            ClientWhat::SessionEnded => event::SESSION_ENDED,
            ClientWhat::Subscribed { .. } => event::CLIENT_SUBSCRIBED,
            ClientWhat::Unsubscribed { .. } => event::CLIENT_UNSUBSCRIBED,
            ClientWhat::Published(_) => event::MESSAGE_PUBLISHED,
            ClientWhat::Dropped { .. } => event::MESSAGES_DROPPED,
        }
    }

    /// The word in streams and webhooks.
    pub const fn name(&self) -> &'static str {
        self.kind().name
    }
}

/// Event of chat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChatEvent {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// The event itself.
    pub what: ChatWhat,
}

/// Kind of an event of chat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatWhat {
    /// A message is stored.
    Stored(Arc<ChatMessage>),
    /// A message that recalls another was sent.
    Recalled(Arc<ChatMessage>),
    /// A message that announces a change of its group was sent.
    GroupChanged(Arc<ChatMessage>),
    /// An account was made, or made anew under its name.
    AccountMade {
        /// Its address.
        account: AccountAddress,
        /// Its number.
        id: AccountId,
    },
    /// An account sent a message with a flagged word. The message may yet be refused.
    Flagged {
        /// Sender of the message.
        from: AccountAddress,
        /// Recipient.
        to: AccountAddress,
        /// The sender's id for it.
        client_id: ClientMessageId,
    },
    /// An account reported another one.
    AbuseReported(Arc<ReportedAbuse>),
}

impl ChatEvent {
    /// That a message is stored, by what it says.
    pub fn of_message(message: &Arc<ChatMessage>) -> ChatEvent {
        let what = match message.content.kind {
            Content::RECALL => ChatWhat::Recalled,
            Content::GROUP => ChatWhat::GroupChanged,
            _ => ChatWhat::Stored,
        };
        ChatEvent { at_ms: message.at_ms, what: what(message.clone()) }
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let beside = match &self.what {
            ChatWhat::Stored(message)
            | ChatWhat::Recalled(message)
            | ChatWhat::GroupChanged(message) => message.weight(),
            ChatWhat::AccountMade { .. } | ChatWhat::Flagged { .. } => 128,
            ChatWhat::AbuseReported(report) => report.weight(),
        };
        size_of::<ChatEvent>() + beside
    }
}

impl ChatWhat {
    /// Kind of the event.
    pub const fn kind(&self) -> EventKind {
        match self {
            ChatWhat::Stored(_) => event::CHAT_MESSAGE,
            ChatWhat::Recalled(_) => event::CHAT_RECALLED,
            ChatWhat::GroupChanged(_) => event::CHAT_GROUP_CHANGED,
            ChatWhat::AccountMade { .. } => event::CHAT_ACCOUNT_MADE,
            ChatWhat::Flagged { .. } => event::CHAT_FLAGGED,
            ChatWhat::AbuseReported(_) => event::CHAT_ABUSE_REPORTED,
        }
    }

    /// The word in streams and webhooks.
    pub const fn name(&self) -> &'static str {
        self.kind().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_told_in_a_word() {
        let reason = CloseReason::Replaced;
        let what = [
            DeviceWhat::Online { protocol: "miop7", resumed: false },
            DeviceWhat::Offline { reason },
            DeviceWhat::Report { seq: 1, body: [].into() },
            DeviceWhat::Pushed { id: MessageId(1), outcome: Outcome::Stored },
            DeviceWhat::Reported { id: MessageId(1), report: PushReport::Opened },
            DeviceWhat::Reported { id: MessageId(1), report: PushReport::Dismissed },
            DeviceWhat::TokenDead { platform: "web".into() },
        ];
        let names = [
            "online",
            "offline",
            "report",
            "pushed",
            "push_opened",
            "push_dismissed",
            "device_token_dead",
        ];
        assert_eq!(what.map(|what| what.name()), names);
        let filter: Box<str> = "a".into();
        let clients = [
            ClientWhat::Disconnected { reason },
            ClientWhat::Refused { why: Denial::Busy },
            ClientWhat::SessionEnded,
            ClientWhat::Subscribed { filter: filter.clone(), qos: Qos::AtMostOnce },
            ClientWhat::Unsubscribed { filter },
            ClientWhat::Published(Arc::new(Publication::new("a", &[], &[]))),
            ClientWhat::Dropped { why: Drop::Offline, count: 1 },
        ];
        assert_eq!(
            clients.map(|what| what.name()),
            [
                "client_disconnected",
                "client_refused",
                "session_ended",
                "client_subscribed",
                "client_unsubscribed",
                "message_published",
                "messages_dropped",
            ]
        );
    }
}
