//! Events for applications and counters for operators, declared once.
//!
//! Each shard owns its [`Counters`]; they are added up when somebody asks. Events are made only
//! while somebody listens.

use crate::close::CloseReason;
use crate::id::{DeviceId, MessageId, ProductKey};
use crate::presence::PresenceVersion;
use crate::push::Outcome;
use crate::session::{Denial, Drop};
use crate::topic::{Publication, Qos};
use std::net::SocketAddr;
use std::sync::Arc;

/// Something that happened to a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceEvent {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Whose device.
    pub product: ProductKey,
    /// Which device.
    pub device: DeviceId,
    /// Epoch of the session it happened in. Together with `what` it orders a device's events: an
    /// offline of a lower epoch than the last online is late and means nothing.
    pub epoch: u64,
    /// Of the transition, where it came or went: above those of its earlier ones, on whatever
    /// server. Else zero.
    pub version: PresenceVersion,
    /// What happened.
    pub what: DeviceWhat,
}

/// Kind of an event of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceWhat {
    /// It bound.
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
    /// It sent a Report.
    Report {
        /// The device's number for it.
        seq: u32,
        /// What it said.
        body: Box<[u8]>,
    },
    /// A push reached its end at this device.
    Pushed {
        /// The push.
        id: MessageId,
        /// What became of it.
        outcome: Outcome,
    },
}

impl DeviceWhat {
    /// The word in streams and webhooks.
    pub const fn name(&self) -> &'static str {
        match self {
            DeviceWhat::Online { .. } => "online",
            DeviceWhat::Offline { .. } => "offline",
            DeviceWhat::Report { .. } => "report",
            DeviceWhat::Pushed { .. } => "pushed",
        }
    }
}

/// Something that happened to a client of a publish-and-subscribe protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientEvent {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Its identifier; empty: the server's own.
    pub client_id: Box<str>,
    /// Its user.
    pub user: Option<Arc<str>>,
    /// Of the transition, where it came or went: above those of its earlier ones, on whatever
    /// server. Else zero.
    pub version: PresenceVersion,
    /// What happened.
    pub what: ClientWhat,
}

/// Kind of an event of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientWhat {
    /// It is connected.
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
    /// It was refused.
    Refused {
        /// Reason of the refusal.
        why: Denial,
    },
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
    /// It published a message.
    Published(Arc<Publication>),
    /// Messages for it were dropped.
    Dropped {
        /// Reason for which they were dropped.
        why: Drop,
        /// How many.
        count: u64,
    },
}

impl ClientWhat {
    /// The word in streams and webhooks.
    pub const fn name(&self) -> &'static str {
        match self {
            ClientWhat::Connected { .. } => "client_connected",
            ClientWhat::Disconnected { .. } => "client_disconnected",
            ClientWhat::Refused { .. } => "client_refused",
            ClientWhat::SessionEnded => "session_ended",
            ClientWhat::Subscribed { .. } => "client_subscribed",
            ClientWhat::Unsubscribed { .. } => "client_unsubscribed",
            ClientWhat::Published(_) => "message_published",
            ClientWhat::Dropped { .. } => "messages_dropped",
        }
    }
}

macro_rules! counters {
    ($($variant:ident $name:literal $help:literal;)+) => {
        /// Something that is counted from the start of the process.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $variant,)+ }

        impl Counter {
            /// All counters, in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)+];

            /// The metric's name, without the prefix `holdline_`.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)+ }
            }

            /// The metric's explanation.
            pub const fn help(self) -> &'static str {
                match self { $(Counter::$variant => $help,)+ }
            }
        }
    };
}

counters! {
    Accepted "connections_accepted_total" "Connections taken from a listener.";
    AcceptFailed "accept_failures_total" "Accepts that failed for want of a descriptor or memory.";
    SourceFull "connections_source_full_total" "Connections beyond what one source may have.";
    PressedConnections "pressed_connections_total" "Connections refused for want of memory.";
    PressedPublishes "pressed_publishes_total" "Messages of QoS 0 dropped for want of memory.";
    PressedStores "pressed_stores_total" "Messages and pushes not kept for want of memory.";
    MovedOut "connections_moved_total" "Connections handed to the shard that owns their device.";
    BytesIn "bytes_received_total" "Bytes received from sockets.";
    BytesOut "bytes_sent_total" "Bytes sent to sockets.";
    Writes "writes_total" "Calls to send.";
    ShortWrites "short_writes_total" "Sends that the socket did not take whole.";
    Binds "binds_total" "Binds accepted.";
    BindsResumed "binds_resumed_total" "Binds that went on with an earlier session.";
    BindsRefused "binds_refused_total" "Binds refused, for whatever reason.";
    Pings "pings_total" "Heartbeats answered.";
    HeartbeatsLate "heartbeats_late_total" "Heartbeats more than a tenth later than agreed.";
    PushesSent "pushes_sent_total" "Pushes handed to connections, resends included.";
    PushesResent "pushes_resent_total" "Pushes handed to connections again.";
    PushesDelivered "pushes_delivered_total" "Pushes acknowledged by devices.";
    PushesStored "pushes_stored_total" "Pushes put into the store.";
    PushesExpired "pushes_expired_total" "Pushes whose time was over.";
    PushesEvicted "pushes_evicted_total" "Stored pushes evicted by newer ones.";
    PushesCollapsed "pushes_collapsed_total" "Pushes replaced by newer ones of their collapse key.";
    PushesRejected "pushes_rejected_total" "Pushes not taken on.";
    Reports "reports_total" "Reports taken.";
    ReportsRefused "reports_refused_total" "Reports over quota or without room.";
    EventsDropped "events_dropped_total" "Events nobody had room for.";
    LettersSent "mailbox_letters_total" "Letters between shards.";
    LettersRefused "mailbox_full_total" "Letters that found a full mailbox.";
    StoreFailures "store_failures_total" "Entries the store could not take.";
    PullsFailed "pulls_failed_total" "Reads of stored pushes that failed; they are tried again.";
    RemovalsGivenUp "removals_given_up_total" "Removals left to the next start.";
    SessionsConnected "sessions_connected_total" "Connects that were accepted.";
    SessionsResumed "sessions_resumed_total" "Connects that went on with an earlier session.";
    SessionsRefused "sessions_refused_total" "Connects that were refused, for whatever reason.";
    ClientIdsRefused "client_ids_refused_total" "Connects refused for their identifier.";
    SessionsTakenOver "sessions_taken_over_total" "Sessions taken over by a newer connection.";
    SessionsExpired "sessions_expired_total" "Sessions that ended by their expiry.";
    SessionsDelayed "sessions_delayed_total" "Connects answered late: they came too often.";
    PacketsIn "packets_received_total" "MQTT packets received.";
    PacketsOut "packets_sent_total" "MQTT packets sent.";
    Publishes "publishes_received_total" "Messages published by clients.";
    PublishesQos1 "publishes_qos1_received_total" "Of these, at QoS 1.";
    PublishesQos2 "publishes_qos2_received_total" "Of these, at QoS 2.";
    PublishesRepeated "publishes_repeated_total" "Messages of QoS 2 that had come before.";
    PublishesRefused "publishes_refused_total" "Messages refused, for whatever reason.";
    PublishesUnmatched "publishes_unmatched_total" "Messages nobody was subscribed to.";
    Delivered "deliveries_total" "Messages handed to connections, those sent again included.";
    DeliveredAgain "deliveries_again_total" "Messages handed to connections again.";
    DeliveredAcked "deliveries_acknowledged_total" "Messages of QoS 1 and 2 that clients have.";
    Queued "messages_queued_total" "Messages that had to wait for a session.";
    Subscribed "subscribes_total" "Subscriptions granted.";
    SubscribesRefused "subscribes_refused_total" "Subscriptions refused.";
    Unsubscribed "unsubscribes_total" "Subscriptions ended by clients.";
    WillsPublished "wills_published_total" "Wills published.";
    RetainedSet "retained_set_total" "Messages retained.";
    RetainedCleared "retained_cleared_total" "Retained messages cleared or expired.";
    RetainedRefused "retained_refused_total" "Messages not retained, for want of room.";
    RetainedSent "retained_sent_total" "Retained messages handed to connections.";
    ReadsHeld "reads_held_total" "Times a client was read more slowly.";
    SourceRefused "access_source_refused_total" "Connects refused: their source failed too often.";
    AccessAsked "access_questions_total" "Questions about access that took a while.";
    TolerateBridgeBit "tolerated_bridge_bit_total" "A bridge that marked itself.";
    TolerateClientId "tolerated_client_id_total" "Lenient: an identifier that is not allowed.";
    TolerateFlags "tolerated_flags_total" "Lenient: reserved bits that were set.";
    TolerateText "tolerated_text_total" "Lenient: text that is not allowed.";
    TolerateOrder "tolerated_order_total" "Lenient: more unanswered than agreed, or out of order.";
    TolerateOther "tolerated_other_total" "Lenient: anything else.";
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = Self::ALL.len();
}

/// Counts of one shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters {
    counts: [u64; Counter::COUNT],
    closed: [u64; CloseReason::COUNT],
    dropped: [u64; Drop::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            counts: [0; Counter::COUNT],
            closed: [0; CloseReason::COUNT],
            dropped: [0; Drop::ALL.len()],
        }
    }
}

impl Counters {
    /// Counts one.
    pub fn count(&mut self, counter: Counter) {
        self.counts[counter as usize] += 1;
    }

    /// Counts several.
    pub fn count_by(&mut self, counter: Counter, by: u64) {
        self.counts[counter as usize] += by;
    }

    /// Counts the end of a connection.
    pub fn closed(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// Counts messages that were not delivered to a session.
    pub fn dropped(&mut self, why: Drop, by: u64) {
        self.dropped[why as usize] += by;
    }

    /// How many messages were dropped so.
    pub fn dropped_of(&self, why: Drop) -> u64 {
        self.dropped[why as usize]
    }

    /// How many were counted.
    pub fn of(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// How many connections ended so.
    pub fn closed_of(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }

    /// How many connections ended at all.
    pub fn closed_sum(&self) -> u64 {
        self.closed.iter().sum()
    }

    /// Adds another shard's counts.
    pub fn add(&mut self, other: &Counters) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.closed.iter_mut().zip(other.closed).for_each(|(mine, theirs)| *mine += theirs);
        self.dropped.iter_mut().zip(other.dropped).for_each(|(mine, theirs)| *mine += theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_by_name() {
        let (mut a, mut b) = (Counters::default(), Counters::default());
        a.count(Counter::Binds);
        b.count_by(Counter::Binds, 2);
        b.closed(CloseReason::Replaced);
        a.add(&b);
        assert_eq!((a.of(Counter::Binds), a.of(Counter::Pings)), (3, 0));
        assert_eq!((a.closed_of(CloseReason::Replaced), a.closed_sum()), (1, 1));
        assert!(Counter::ALL.iter().enumerate().all(|(at, &c)| c as usize == at));
    }

    #[test]
    fn every_count_is_of_one_thing_and_all_of_them_add_up() {
        let (mut a, mut b) = (Counters::default(), Counters::default());
        for (at, &counter) in Counter::ALL.iter().enumerate() {
            a.count_by(counter, at as u64);
            b.count(counter);
        }
        for (at, &reason) in CloseReason::ALL.iter().enumerate() {
            (0..at).for_each(|_| a.closed(reason));
            b.closed(reason);
        }
        for (at, &why) in Drop::ALL.iter().enumerate() {
            a.dropped(why, 2 * at as u64);
            b.dropped(why, 1);
        }
        a.add(&b);
        assert!(Counter::ALL.iter().enumerate().all(|(at, &c)| a.of(c) == at as u64 + 1));
        assert!(
            CloseReason::ALL.iter().enumerate().all(|(at, &r)| a.closed_of(r) == at as u64 + 1)
        );
        assert!(Drop::ALL.iter().enumerate().all(|(at, &d)| a.dropped_of(d) == 2 * at as u64 + 1));
        let reasons = CloseReason::COUNT as u64;
        assert_eq!(a.closed_sum(), reasons * (reasons + 1) / 2);
    }

    #[test]
    fn every_metric_has_a_name_and_a_help_of_its_own() {
        for of in [Counter::name, Counter::help] {
            let mut told: Vec<_> = Counter::ALL.iter().map(|&c| of(c)).collect();
            told.sort_unstable();
            told.dedup();
            assert_eq!(told.len(), Counter::COUNT);
        }
        assert!(Counter::ALL.iter().all(|c| c.name().ends_with("_total")));
        assert!(Counter::ALL.iter().all(|c| c.help().ends_with('.')));
    }

    #[test]
    fn what_happened_is_told_in_a_word() {
        let reason = CloseReason::Replaced;
        let what = [
            DeviceWhat::Online { protocol: "miop7", resumed: false },
            DeviceWhat::Offline { reason },
            DeviceWhat::Report { seq: 1, body: [].into() },
            DeviceWhat::Pushed { id: MessageId(1), outcome: Outcome::Stored },
        ];
        assert_eq!(what.map(|what| what.name()), ["online", "offline", "report", "pushed"]);
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
