//! Counters for operators, declared once: those of the process, and a group a service.
//!
//! Each shard owns its [`Counters`]; they are added up on demand. The metric, its help and its
//! place on the status page follow from the line that declares a counter.

#[macro_use]
pub mod event;
pub mod frames;
pub mod latency;

use crate::close::CloseReason;
use crate::counters::frames::FrameKind;
use crate::latency::{Latencies, LatencyPhase};
use crate::session::Drop;
use std::time::Duration;

macro_rules! counters {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $wide:ident($group:ident) {
            $($variant:ident $name:literal $help:literal;)+
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            #[repr(u8)]
            pub enum $group { $(#[doc = $help] $variant,)+ }

            impl $group {
                /// Number of counters.
                const COUNT: usize = [$($name),+].len();
            }

            impl From<$group> for Counter {
                fn from(counter: $group) -> Counter {
                    Counter::$wide(counter)
                }
            }

            impl PartialEq<$group> for Counter {
                fn eq(&self, other: &$group) -> bool {
                    *self == Counter::from(*other)
                }
            }
        )+

        /// Figure that is counted from the start of the process.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Counter { $($(#[doc = $doc])+ $wide($group),)+ }

        impl Counter {
            /// All counters, in order.
            pub const ALL: &'static [Counter] = &[$($(Counter::$wide($group::$variant),)+)+];

            /// The metric's name, without the prefix `holdline_`.
            pub const fn name(self) -> &'static str {
                match self { $($(Counter::$wide($group::$variant) => $name,)+)+ }
            }

            /// The metric's explanation.
            pub const fn help(self) -> &'static str {
                match self { $($(Counter::$wide($group::$variant) => $help,)+)+ }
            }
        }

        /// Counts of one shard.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Counters {
            $($field: [u64; $group::COUNT],)+
            closed: [u64; CloseReason::COUNT],
            dropped: [u64; Drop::ALL.len()],
            frames: [u64; FrameKind::COUNT],
            latencies: Latencies,
        }

        impl Default for Counters {
            fn default() -> Self {
                Counters {
                    $($field: [0; $group::COUNT],)+
                    closed: [0; CloseReason::COUNT],
                    dropped: [0; Drop::ALL.len()],
                    frames: [0; FrameKind::COUNT],
                    latencies: Latencies::default(),
                }
            }
        }

        impl Counters {
            fn at(&self, counter: Counter) -> u64 {
                match counter { $(Counter::$wide(counter) => self.$field[counter as usize],)+ }
            }

            fn at_mut(&mut self, counter: Counter) -> &mut u64 {
                match counter { $(Counter::$wide(counter) => &mut self.$field[counter as usize],)+ }
            }
        }
    };
}

counters! {
    /// Counter of the process, whatever service it works for.
    process: Process(ProcessCounter) {
        Accepted "connections_accepted_total" "Connections accepted.";
        AcceptFailed "accept_failures_total" "Failed accepts: no file descriptor or memory.";
        SourceFull "connections_source_full_total" "Connections refused: too many from one source.";
        PressedConnections "pressed_connections_total" "Connections refused under memory pressure.";
        PressedStores "pressed_stores_total"
            "Messages and pushes not stored under memory pressure.";
        MovedOut "connections_moved_total"
            "Connections handed to the shard that owns their device.";
        BytesIn "bytes_received_total" "Bytes received from sockets.";
        BytesOut "bytes_sent_total" "Bytes sent to sockets.";
        Writes "writes_total" "Socket writes.";
        ShortWrites "short_writes_total" "Socket writes that were accepted only in part.";
        Pings "pings_total" "Heartbeats answered.";
        HeartbeatsLate "heartbeats_late_total" "Heartbeats more than a tenth later than agreed.";
        EventsDropped "events_dropped_total" "Events dropped: a subscriber's queue was full.";
        ShardMessagesSent "mailbox_messages_total" "Messages between shards.";
        ShardMessagesRefused "mailbox_full_total" "Messages between shards refused: mailbox full.";
        StoreFailures "store_failures_total" "Writes that the store refused.";
        PullsFailed "pulls_failed_total" "Failed reads of stored pushes; they are retried.";
        RemovalsGivenUp "removals_given_up_total" "Removals postponed to the next start.";
        PacketsIn "packets_received_total" "MQTT packets received.";
        PacketsOut "packets_sent_total" "MQTT packets sent.";
    }
    /// Counter of pushes and devices.
    pushes: Push(PushCounter) {
        Binds "binds_total" "Binds accepted.";
        BindsResumed "binds_resumed_total" "Binds that resumed a session.";
        BindsRefused "binds_refused_total" "Binds refused, for any reason.";
        Sent "pushes_sent_total" "Pushes sent to devices, including resends.";
        Resent "pushes_resent_total" "Pushes resent.";
        Delivered "pushes_delivered_total" "Pushes acknowledged by devices.";
        Stored "pushes_stored_total" "Pushes stored.";
        Expired "pushes_expired_total" "Pushes expired.";
        Evicted "pushes_evicted_total" "Stored pushes replaced by newer ones: queue full.";
        Collapsed "pushes_collapsed_total"
            "Pushes replaced by newer ones with the same collapse key.";
        Rejected "pushes_rejected_total" "Pushes rejected.";
        Cancelled "pushes_cancelled_total" "Pushes recalled by a cancel before delivery.";
        Reports "reports_total" "Reports accepted.";
        ReportsRefused "reports_refused_total" "Reports refused: over quota, or no space.";
        OrdersOverdue "orders_overdue_total" "Bulk orders repeated to a silent shard.";
        OrdersGivenUp "orders_given_up_total"
            "Bulk orders closed without the result of a silent shard.";
    }
    /// Counter of topics and sessions.
    topics: Topics(TopicCounter) {
        PressedPublishes "pressed_publishes_total"
            "Messages of QoS 0 dropped under memory pressure.";
        SessionsConnected "sessions_connected_total" "MQTT connects accepted.";
        SessionsResumed "sessions_resumed_total" "MQTT connects that resumed a session.";
        SessionsRefused "sessions_refused_total" "MQTT connects refused, for any reason.";
        ClientIdsRefused "client_ids_refused_total"
            "MQTT connects refused: client identifier not allowed.";
        SessionsTakenOver "sessions_taken_over_total" "Sessions taken over by a newer connection.";
        SessionsExpired "sessions_expired_total" "Sessions expired.";
        SessionsDelayed "sessions_delayed_total"
            "MQTT connects delayed: too many takeovers of one client identifier.";
        Publishes "publishes_received_total" "Messages published by clients.";
        ChatCalls "publishes_chat_total" "Chat requests published by clients, under $im/req/.";
        PublishesQos1 "publishes_qos1_received_total" "Messages published at QoS 1.";
        PublishesQos2 "publishes_qos2_received_total" "Messages published at QoS 2.";
        PublishesRepeated "publishes_repeated_total" "Duplicate messages of QoS 2 received.";
        PublishesRefused "publishes_refused_total" "Published messages refused, for any reason.";
        AnswersOverdue "answers_overdue_total" "Requests answered as busy after a timeout.";
        PagesOverdue "retained_pages_overdue_total"
            "Retained pages requested again after a timeout.";
        PublishesUnmatched "publishes_unmatched_total" "Published messages without a subscriber.";
        Delivered "deliveries_total" "Messages sent to clients, including resends.";
        DeliveredAgain "deliveries_again_total" "Messages resent to clients.";
        DeliveredAcked "deliveries_acknowledged_total"
            "Messages of QoS 1 and 2 acknowledged by clients.";
        Queued "messages_queued_total" "Messages queued for a session.";
        Subscribed "subscribes_total" "Subscriptions granted.";
        SubscribesRefused "subscribes_refused_total" "Subscriptions refused.";
        Unsubscribed "unsubscribes_total" "Subscriptions removed by clients.";
        WillsPublished "wills_published_total" "Wills published.";
        RetainedSet "retained_set_total" "Messages retained.";
        RetainedCleared "retained_cleared_total" "Retained messages cleared or expired.";
        RetainedRefused "retained_refused_total" "Messages not retained: limit reached.";
        RetainedSent "retained_sent_total" "Retained messages sent to clients.";
        ReadsHeld "reads_held_total" "Times that reading from a client was slowed down.";
        SourceRefused "access_source_refused_total"
            "Connects refused: too many failed logins from the source.";
        AccessAsked "access_questions_total" "Access decisions that were made asynchronously.";
        TolerateBridgeBit "tolerated_bridge_bit_total"
            "Tolerated: bridge connections (protocol version with the bridge bit).";
        TolerateClientId "tolerated_client_id_total" "Tolerated: invalid client identifiers.";
        TolerateFlags "tolerated_flags_total" "Tolerated: reserved bits that were set.";
        TolerateText "tolerated_text_total" "Tolerated: invalid text.";
        TolerateOrder "tolerated_order_total"
            "Tolerated: too many unanswered messages, or answers out of order.";
        TolerateOther "tolerated_other_total" "Tolerated: other faults.";
    }
    /// Counter of accounts and conversations.
    chat: Chat(ChatCounter) {
        Logins "chat_logins_total" "Chat logins accepted.";
        LoginsRefused "chat_logins_refused_total" "Chat logins refused, for any reason.";
        Sent "chat_sent_total" "Chat messages stored.";
        SentAgain "chat_sent_again_total" "Retried messages, recognized and stored only once.";
        SendsFailed "chat_sends_failed_total" "Sends, group changes and recalls refused.";
        Silenced "chat_silenced_total" "Messages refused: their account is muted.";
        RateLimited "chat_rate_limited_total" "Messages refused: rate limit.";
        ReadsLimited "chat_reads_limited_total"
            "Queries about other users and groups refused: rate limit.";
        BytesOfAccount "chat_bytes_an_account_limited_total"
            "Messages and changes refused: byte rate of the account.";
        BytesOfSource "chat_bytes_a_source_limited_total"
            "Messages and changes refused: byte rate of the source address.";
        BytesOfDomain "chat_bytes_a_domain_limited_total"
            "Messages refused: byte rate of the foreign domain.";
        ShareFull "chat_share_full_total"
            "Messages refused: the account or domain has used its share of the log.";
        WordsRefused "chat_words_refused_total" "Messages refused: forbidden word.";
        WordsReplaced "chat_words_replaced_total" "Messages with words replaced by stars.";
        WordsFlagged "chat_words_flagged_total" "Messages reported as events for a flagged word.";
        AbuseReports "chat_abuse_reports_total" "Reports of abuse that became events.";
        AbuseReportsRefused "chat_abuse_reports_refused_total"
            "Reports of abuse dropped: off, no listener, of a guest, too many, or a busy server.";
        Reviewed "chat_reviewed_total" "Messages submitted to the before-send hook.";
        ReviewsChanged "chat_reviews_changed_total" "Messages changed by the before-send hook.";
        ReviewsRefused "chat_reviews_refused_total" "Messages refused by the before-send hook.";
        ReviewsMissed "chat_reviews_missed_total"
            "Messages without a valid answer of the before-send hook in time.";
        Distributed "chat_distributed_total" "Inbox entries written.";
        Redistributed "chat_redistributed_total" "Inbox writes repeated.";
        Drawn "chat_drawn_total" "Messages of large groups filled into inboxes.";
        GroupsTurned "chat_groups_turned_total"
            "Groups that changed between fan-out on read and on write.";
        Delivered "chat_delivered_total" "Chat messages sent to devices.";
        Notified "chat_notified_total" "Notifications to devices that more messages are waiting.";
        Pulled "chat_pulled_total" "Messages fetched from inboxes.";
        GroupChanges "chat_group_changes_total" "Changes of groups stored.";
        HistoryRead "chat_history_total" "Messages read from conversations.";
        ArchiveRead "chat_archive_total" "Messages read from archives.";
        MembersRead "chat_members_total" "Group members returned in lists.";
        Invalid "chat_invalid_total" "Invalid requests.";
        ErasuresBegun "chat_erasures_begun_total" "Account erasures begun.";
        ErasuresDone "chat_erasures_done_total" "Account erasures finished.";
        ErasedMessages "chat_erased_messages_total" "Messages recalled by account erasures.";
        ReadsPaced "chat_reads_paced_total" "Read cursors combined with a later one.";
        DeliveriesTold "chat_deliveries_told_total" "Delivery receipts sent to senders' shards.";
        ReadersAsked "chat_readers_total" "Queries for the readers of messages answered.";
        ChatroomJoins "chat_chatroom_joins_total" "Joins of chatrooms.";
        ChatroomsRefused "chat_chatroom_refused_total"
            "Joins of and requests to chatrooms refused.";
        ChatroomSaid "chat_chatroom_said_total" "Chatroom messages sent by members.";
        ChatroomDropped "chat_chatroom_dropped_total"
            "Chatroom messages refused: rate limit of the room.";
        ChatroomDelivered "chat_chatroom_delivered_total"
            "Copies of chatroom messages sent to members.";
        ChatroomMissed "chat_chatroom_missed_total"
            "Copies of chatroom messages that members missed.";
        ChatroomSkipped "chat_chatroom_skipped_total"
            "Copies of chatroom messages discarded: the member's connection is not read.";
        ChatroomChanges "chat_chatroom_changes_total" "Changes of chatrooms stored.";
        CursorsMoved "chat_cursors_moved_total" "Read cursors advanced.";
        ConversationsSet "chat_conversations_set_total" "Changes of conversation settings.";
        ConversationsListed "chat_conversations_listed_total" "Conversations returned in lists.";
        ConversationsLoaded "chat_conversations_loaded_total"
            "Accounts whose conversations were loaded into memory.";
        ConversationsForgotten "chat_conversations_forgotten_total"
            "Conversations dropped from full lists.";
        Recalled "chat_recalled_total" "Messages recalled.";
        ChangesFailed "chat_changes_failed_total" "Changes of read cursors and settings refused.";
        ContactChanges "chat_contact_changes_total" "Changes of contacts stored.";
        ContactsFailed "chat_contacts_failed_total"
            "Requests about contacts and presence refused, for any reason.";
        ContactsTold "chat_contacts_told_total"
            "Messages about contacts to other shards, including repeats.";
        AccountsParted "chat_accounts_parted_total"
            "Deleted accounts removed from the lists of all their contacts.";
        RequestsRefused "chat_requests_refused_total"
            "Contact requests refused: the account has too many pending.";
        PresenceChanges "chat_presence_changes_total" "Presence changes received from sessions.";
        PresenceHeld "chat_presence_held_total" "Presence changes delayed: too many.";
        PresenceWords "chat_presence_words_total" "Presence messages between shards.";
        PresenceDelivered "chat_presence_delivered_total" "Presence updates sent to devices.";
        NodeChanges "chat_node_changes_total" "Changes of PEP nodes stored.";
        NodesAsked "chat_nodes_asked_total" "Requests about PEP nodes.";
        NodesFailed "chat_nodes_failed_total" "Requests about PEP nodes refused, for any reason.";
        NodesLoaded "chat_nodes_loaded_total" "Accounts whose PEP nodes were loaded into memory.";
        NodeWords "chat_node_words_total" "Messages about PEP nodes between shards.";
        NodeNews "chat_node_news_total" "PEP notifications sent to devices.";
        NodeNewsLost "chat_node_news_lost_total" "PEP notifications dropped: too many.";
        ProfilesAsked "chat_profiles_asked_total" "Capability queries sent to devices.";
        BlockedSends "chat_blocked_sends_total"
            "Messages refused: one account has blocked the other.";
        Detached "chat_detached_total" "Sessions kept for resumption after a disconnect.";
        DetachedOver "chat_detached_over_total" "Kept sessions that expired.";
        DetachedFull "chat_detached_full_total"
            "Sessions not kept for resumption, or dropped: over the limit.";
        Resumed "chat_resumed_total" "Sessions resumed.";
        ResumesFailed "chat_resumes_failed_total"
            "Failed resumptions: the session no longer exists.";
        TokensGiven "chat_fast_tokens_total" "FAST tokens issued.";
        TokensRefused "chat_fast_refused_total" "Logins by FAST token refused.";
        CallsRefused "chat_mqtt_refused_total"
            "Chat requests over MQTT refused: no account, unknown request, or too many.";
        ResumesRefused "chat_resumes_refused_total"
            "Resumptions refused: the id is another account's, or unknown.";
        PushesRegistered "chat_push_registered_total" "Devices registered for push notifications.";
        PushesGone "chat_push_gone_total"
            "Push registrations removed: reported as gone by gateway or hub.";
        PushWishesFailed "chat_push_wishes_failed_total"
            "Requests about push notifications refused.";
        PushesSent "chat_push_sent_total" "Push notifications sent, one for each conversation.";
        PushBadges "chat_push_badges_total" "Push notifications with the unread count only.";
        PushesTaken "chat_push_taken_total" "Push notifications accepted by gateway or hub.";
        PushesRetried "chat_push_retried_total" "Push notifications postponed for a retry.";
        PushesCoalesced "chat_push_coalesced_total"
            "Messages covered by a later push notification.";
        PushesAttended "chat_push_attended_total"
            "Messages not pushed: a connected device received them in time.";
        PushesRead "chat_push_read_total" "Messages not pushed: already read or recalled.";
        PushesMuted "chat_push_muted_total" "Messages not pushed: muted, or in quiet hours.";
        PushesExpired "chat_push_expired_total" "Push notifications dropped: too old.";
        PushesRefused "chat_push_refused_total"
            "Push notifications dropped: refused by gateway or hub.";
        PushServicesTaken "chat_push_services_taken_total"
            "Push notifications accepted by XMPP push services.";
        PushServicesFailing "chat_push_services_failing_total"
            "Push notifications answered by XMPP push services with a temporary error.";
        PushesUnread "chat_push_unread_total"
            "Push notifications delayed: a log or shard was busy.";
        ForeignSent "chat_foreign_sent_total" "Messages sent to accounts of other domains.";
        ForeignDropped "chat_foreign_dropped_total"
            "Stanzas for other domains dropped or refused: queue full.";
        ForeignReceived "chat_foreign_received_total"
            "Messages received from accounts of other domains.";
        UploadsGranted "media_uploads_granted_total" "File uploads permitted.";
        UploadsOff "media_uploads_off_total" "File uploads refused: no storage configured.";
        UploadsInvalid "media_uploads_invalid_total" "File uploads refused: invalid name or type.";
        UploadsTooLarge "media_uploads_too_large_total" "File uploads refused: too large.";
        UploadsOfType "media_uploads_type_total" "File uploads refused: type not allowed.";
        UploadsOverQuota "media_uploads_quota_total" "File uploads refused: daily quota reached.";
        UploadsBusy "media_uploads_busy_total" "File uploads refused: the log was busy.";
        Edited "chat_edited_total" "Messages edited.";
        Reacted "chat_reacted_total" "Reactions to messages set or removed.";
        Quoted "chat_quoted_total" "Messages stored that quote another one, including retries.";
        Searched "chat_searched_total" "Messages found by searches.";
        Transients "chat_transients_total" "Transient events (typing notifications) received.";
        TransientsDelivered "chat_transients_delivered_total" "Transient events sent to devices.";
        TransientsDropped "chat_transients_dropped_total"
            "Transient events dropped: too many, too large, too large a group, or no receiver.";
    }
}

impl Counters {
    /// Counts one.
    pub fn count(&mut self, counter: impl Into<Counter>) {
        *self.at_mut(counter.into()) += 1;
    }

    /// Counts several.
    pub fn count_by(&mut self, counter: impl Into<Counter>, by: u64) {
        *self.at_mut(counter.into()) += by;
    }

    /// Counts the end of a connection.
    pub fn closed(&mut self, reason: CloseReason) {
        self.closed[reason as usize] += 1;
    }

    /// Counts messages that were not delivered to a session.
    pub fn dropped(&mut self, why: Drop, by: u64) {
        self.dropped[why as usize] += by;
    }

    /// Counts a frame, a packet or a stanza of its kind.
    pub fn frame(&mut self, kind: FrameKind) {
        self.frames[kind.index()] += 1;
    }

    /// How many frames of this kind there were.
    pub fn frames_of(&self, kind: FrameKind) -> u64 {
        self.frames[kind.index()]
    }

    /// Counts how long a phase lasted.
    pub fn lasted(&mut self, phase: LatencyPhase, lasted: Duration) {
        self.latencies.record(phase, lasted);
    }

    /// How long phases lasted.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// How many messages were dropped so.
    pub fn dropped_of(&self, why: Drop) -> u64 {
        self.dropped[why as usize]
    }

    /// How many were counted.
    pub fn of(&self, counter: impl Into<Counter>) -> u64 {
        self.at(counter.into())
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
        Counter::ALL.iter().for_each(|&counter| *self.at_mut(counter) += other.at(counter));
        self.closed.iter_mut().zip(other.closed).for_each(|(mine, theirs)| *mine += theirs);
        self.dropped.iter_mut().zip(other.dropped).for_each(|(mine, theirs)| *mine += theirs);
        self.frames.iter_mut().zip(other.frames).for_each(|(mine, theirs)| *mine += theirs);
        self.latencies.add(&other.latencies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_by_name() {
        let (mut a, mut b) = (Counters::default(), Counters::default());
        a.count(PushCounter::Binds);
        b.count_by(PushCounter::Binds, 2);
        b.closed(CloseReason::Replaced);
        a.add(&b);
        assert_eq!((a.of(PushCounter::Binds), a.of(ProcessCounter::Pings)), (3, 0));
        assert_eq!((a.closed_of(CloseReason::Replaced), a.closed_sum()), (1, 1));
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
            assert_eq!(told.len(), Counter::ALL.len());
        }
        assert!(Counter::ALL.iter().all(|c| c.name().ends_with("_total")));
        assert!(Counter::ALL.iter().all(|c| c.help().ends_with('.')));
    }
}
