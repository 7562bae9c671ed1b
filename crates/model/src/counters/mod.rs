//! Counters for operators, declared once: those of the process, and a group a service.
//!
//! Each shard owns its [`Counters`]; they are added up when somebody asks. The metric, its help and
//! its place on the status page follow from the line that declares a counter.

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

        /// Something that is counted from the start of the process.
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
        Accepted "connections_accepted_total" "Connections taken from a listener.";
        AcceptFailed "accept_failures_total"
            "Accepts that failed for want of a descriptor or memory.";
        SourceFull "connections_source_full_total" "Connections beyond what one source may have.";
        PressedConnections "pressed_connections_total" "Connections refused for want of memory.";
        PressedStores "pressed_stores_total" "Messages and pushes not kept for want of memory.";
        MovedOut "connections_moved_total"
            "Connections handed to the shard that owns their device.";
        BytesIn "bytes_received_total" "Bytes received from sockets.";
        BytesOut "bytes_sent_total" "Bytes sent to sockets.";
        Writes "writes_total" "Calls to send.";
        ShortWrites "short_writes_total" "Sends that the socket did not take whole.";
        Pings "pings_total" "Heartbeats answered.";
        HeartbeatsLate "heartbeats_late_total" "Heartbeats more than a tenth later than agreed.";
        EventsDropped "events_dropped_total" "Events nobody had room for.";
        ShardMessagesSent "mailbox_messages_total" "Messages between shards.";
        ShardMessagesRefused "mailbox_full_total" "Messages that found a full mailbox.";
        StoreFailures "store_failures_total" "Entries the store could not take.";
        PullsFailed "pulls_failed_total"
            "Reads of stored pushes that failed; they are tried again.";
        RemovalsGivenUp "removals_given_up_total" "Removals left to the next start.";
        PacketsIn "packets_received_total" "MQTT packets received.";
        PacketsOut "packets_sent_total" "MQTT packets sent.";
    }
    /// Counter of pushes and devices.
    pushes: Push(PushCounter) {
        Binds "binds_total" "Binds accepted.";
        BindsResumed "binds_resumed_total" "Binds that went on with an earlier session.";
        BindsRefused "binds_refused_total" "Binds refused, for whatever reason.";
        Sent "pushes_sent_total" "Pushes handed to connections, resends included.";
        Resent "pushes_resent_total" "Pushes handed to connections again.";
        Delivered "pushes_delivered_total" "Pushes acknowledged by devices.";
        Stored "pushes_stored_total" "Pushes put into the store.";
        Expired "pushes_expired_total" "Pushes whose time was over.";
        Evicted "pushes_evicted_total" "Stored pushes evicted by newer ones.";
        Collapsed "pushes_collapsed_total" "Pushes replaced by newer ones of their collapse key.";
        Rejected "pushes_rejected_total" "Pushes not taken on.";
        Reports "reports_total" "Reports taken.";
        ReportsRefused "reports_refused_total" "Reports over quota or without room.";
        OrdersOverdue "orders_overdue_total" "Orders to many that a shard was told of once more.";
        OrdersGivenUp "orders_given_up_total"
            "Orders to many closed without a shard that had taken them and was silent.";
    }
    /// Counter of topics and sessions.
    topics: Topics(TopicCounter) {
        PressedPublishes "pressed_publishes_total" "Messages of QoS 0 dropped for want of memory.";
        SessionsConnected "sessions_connected_total" "Connects that were accepted.";
        SessionsResumed "sessions_resumed_total" "Connects that went on with an earlier session.";
        SessionsRefused "sessions_refused_total" "Connects that were refused, for whatever reason.";
        ClientIdsRefused "client_ids_refused_total" "Connects refused for their identifier.";
        SessionsTakenOver "sessions_taken_over_total" "Sessions taken over by a newer connection.";
        SessionsExpired "sessions_expired_total" "Sessions that ended by their expiry.";
        SessionsDelayed "sessions_delayed_total" "Connects answered late: they came too often.";
        Publishes "publishes_received_total" "Messages published by clients.";
        ChatCalls "publishes_chat_total" "Requests to chat published by clients, under $im/req/.";
        PublishesQos1 "publishes_qos1_received_total" "Of these, at QoS 1.";
        PublishesQos2 "publishes_qos2_received_total" "Of these, at QoS 2.";
        PublishesRepeated "publishes_repeated_total" "Messages of QoS 2 that had come before.";
        PublishesRefused "publishes_refused_total" "Messages refused, for whatever reason.";
        AnswersOverdue "answers_overdue_total" "Answers that waited too long, given as busy.";
        PagesOverdue "retained_pages_overdue_total" "Retained pages that were asked for once more.";
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
        SourceRefused "access_source_refused_total"
            "Connects refused: their source failed too often.";
        AccessAsked "access_questions_total" "Questions about access that took a while.";
        TolerateBridgeBit "tolerated_bridge_bit_total" "A bridge that marked itself.";
        TolerateClientId "tolerated_client_id_total" "Lenient: an identifier that is not allowed.";
        TolerateFlags "tolerated_flags_total" "Lenient: reserved bits that were set.";
        TolerateText "tolerated_text_total" "Lenient: text that is not allowed.";
        TolerateOrder "tolerated_order_total"
            "Lenient: more unanswered than agreed, or out of order.";
        TolerateOther "tolerated_other_total" "Lenient: anything else.";
    }
    /// Counter of accounts and conversations.
    chat: Chat(ChatCounter) {
        Logins "chat_logins_total" "Devices of accounts that were let in.";
        LoginsRefused "chat_logins_refused_total" "Logins refused, for whatever reason.";
        Sent "chat_sent_total" "Messages stored.";
        SentAgain "chat_sent_again_total" "Messages that were sent once more, and are there once.";
        SendsFailed "chat_sends_failed_total" "Sends, group changes, recalls refused.";
        Silenced "chat_silenced_total" "Messages of muted accounts, which were refused.";
        RateLimited "chat_rate_limited_total" "Messages that came too fast, and were refused.";
        ReadsLimited "chat_reads_limited_total"
            "Questions about other people and groups that came too fast, and were refused.";
        BytesOfAccount "chat_bytes_an_account_limited_total"
            "Messages and changes refused: their account had too many bytes stored at once.";
        BytesOfSource "chat_bytes_a_source_limited_total"
            "Likewise, accounts that came from their source address.";
        BytesOfDomain "chat_bytes_a_domain_limited_total"
            "Likewise, accounts of their domain, which is of another server.";
        ShareFull "chat_share_full_total"
            "Messages refused: their account, or domain, has its share of the log.";
        WordsRefused "chat_words_refused_total" "Messages refused for a word of the file.";
        WordsReplaced "chat_words_replaced_total" "Messages in which words became stars.";
        WordsFlagged "chat_words_flagged_total" "Messages that were told for a word.";
        Reviewed "chat_reviewed_total" "Messages that a hook was asked about.";
        ReviewsChanged "chat_reviews_changed_total" "Messages that a hook changed.";
        ReviewsRefused "chat_reviews_refused_total" "Messages that a hook refused.";
        ReviewsMissed "chat_reviews_missed_total"
            "Messages of which a hook said nothing that makes sense, in time or at all.";
        Distributed "chat_distributed_total" "Places that messages took in inboxes.";
        Redistributed "chat_redistributed_total" "Inboxes asked once more to take a message.";
        Drawn "chat_drawn_total"
            "Messages of groups that are read which an account drew into its inbox.";
        GroupsTurned "chat_groups_turned_total"
            "Groups that are read from now on, or written again.";
        Delivered "chat_delivered_total" "Messages handed to connections.";
        Notified "chat_notified_total" "Times a device was told that there is more.";
        Pulled "chat_pulled_total" "Messages pulled from inboxes.";
        GroupChanges "chat_group_changes_total" "Changes of groups stored.";
        HistoryRead "chat_history_total" "Messages read from conversations.";
        ArchiveRead "chat_archive_total" "Messages read from archives.";
        MembersRead "chat_members_total" "Members of groups told in lists of them.";
        Invalid "chat_invalid_total" "Requests that a protocol's machine found to make no sense.";
        ErasuresBegun "chat_erasures_begun_total" "Accounts that were to be erased.";
        ErasuresDone "chat_erasures_done_total" "Accounts of which nothing is left.";
        ErasedMessages "chat_erased_messages_total" "Messages called back for their accounts.";
        ReadsPaced "chat_reads_paced_total" "Cursors that were moved together with a later one.";
        DeliveriesTold "chat_deliveries_told_total" "Times a sender's home was told of delivery.";
        ReadersAsked "chat_readers_total" "Answers of who has read what.";
        ChatroomJoins "chat_chatroom_joins_total" "Times a session joined a chatroom.";
        ChatroomsRefused "chat_chatroom_refused_total" "Joins and orders of chatrooms refused.";
        ChatroomSaid "chat_chatroom_said_total" "Messages said in chatrooms.";
        ChatroomDropped "chat_chatroom_dropped_total" "Of these, refused: the room was too loud.";
        ChatroomDelivered "chat_chatroom_delivered_total" "Their copies handed to connections.";
        ChatroomMissed "chat_chatroom_missed_total" "Their copies that members were not handed.";
        ChatroomSkipped "chat_chatroom_skipped_total"
            "Copies handed to connections that were not sent, for nobody reads there.";
        ChatroomChanges "chat_chatroom_changes_total" "Changes of chatrooms stored.";
        CursorsMoved "chat_cursors_moved_total" "Times an account had read further than before.";
        ConversationsSet "chat_conversations_set_total" "Changes of how conversations are kept.";
        ConversationsListed "chat_conversations_listed_total" "Conversations told to devices.";
        ConversationsLoaded "chat_conversations_loaded_total" "Accounts read into memory.";
        ConversationsForgotten "chat_conversations_forgotten_total" "Rows lost to new ones.";
        Recalled "chat_recalled_total" "Messages called back.";
        ChangesFailed "chat_changes_failed_total" "Changes of cursors and settings refused.";
        ContactChanges "chat_contact_changes_total" "Changes of contacts stored.";
        ContactsFailed "chat_contacts_failed_total"
            "Orders about contacts and presence that were refused, for whatever reason.";
        ContactsTold "chat_contacts_told_total"
            "Words about contacts said to the contact's home, those said again included.";
        AccountsParted "chat_accounts_parted_total"
            "Accounts that were removed and have left the lists of all their contacts.";
        RequestsRefused "chat_requests_refused_total"
            "Wishes to see an account refused, for it had too many that it had not answered.";
        PresenceChanges "chat_presence_changes_total" "Times a session said how it is there.";
        PresenceHeld "chat_presence_held_total" "Of these, told later: there were too many.";
        PresenceWords "chat_presence_words_total"
            "Words about presence between homes, a shard and so many contacts each.";
        PresenceDelivered "chat_presence_delivered_total" "Presences handed to connections.";
        NodeChanges "chat_node_changes_total" "Changes of nodes stored.";
        NodesAsked "chat_nodes_asked_total" "Questions and orders about nodes.";
        NodesFailed "chat_nodes_failed_total" "Of these, refused, for whatever reason.";
        NodesLoaded "chat_nodes_loaded_total" "Accounts whose nodes were read into memory.";
        NodeWords "chat_node_words_total"
            "Words about nodes between homes, a shard and so many contacts each.";
        NodeNews "chat_node_news_total" "Notifications of nodes handed to connections.";
        NodeNewsLost "chat_node_news_lost_total"
            "Changes and last items of nodes that are not told, for there were too many.";
        ProfilesAsked "chat_profiles_asked_total" "Devices asked what they are interested in.";
        BlockedSends "chat_blocked_sends_total" "Messages refused, for one has blocked the other.";
        Detached "chat_detached_total" "Sessions kept when their connection ended.";
        DetachedOver "chat_detached_over_total" "Of these, ended when their time was over.";
        DetachedFull "chat_detached_full_total"
            "Sessions that could not be kept, or no longer, for they had more than is kept.";
        Resumed "chat_resumed_total" "Sessions that went on over another connection.";
        ResumesFailed "chat_resumes_failed_total" "Resumptions of sessions that were no more.";
        TokensGiven "chat_fast_tokens_total" "Tokens given by which a device comes back (FAST).";
        TokensRefused "chat_fast_refused_total" "Logins by such a token that were refused.";
        CallsRefused "chat_mqtt_refused_total"
            "Requests by MQTT refused: no device of an account, no such request, or too many.";
        ResumesRefused "chat_resumes_refused_total"
            "Resumptions refused: the id is another account's, or was never given.";
        PushesRegistered "chat_push_registered_total" "Devices registered to be woken.";
        PushesGone "chat_push_gone_total" "Of these, forgotten: gateway or hub said they are gone.";
        PushWishesFailed "chat_push_wishes_failed_total" "Wishes about pushes that were refused.";
        PushesSent "chat_push_sent_total" "Notifications handed out, a conversation each.";
        PushBadges "chat_push_badges_total" "Of these, about the number of unread alone.";
        PushesTaken "chat_push_taken_total" "Notifications taken on by gateway or hub.";
        PushesRetried "chat_push_retried_total"
            "Times an account's push was put off, to be retried.";
        PushesCoalesced "chat_push_coalesced_total" "Messages told of by the push of a later one.";
        PushesAttended "chat_push_attended_total" "Messages not pushed: a device had them in time.";
        PushesRead "chat_push_read_total" "Messages not pushed: they were read or called back.";
        PushesMuted "chat_push_muted_total" "Messages not pushed: muted, or in quiet hours.";
        PushesExpired "chat_push_expired_total" "Pushes given up: too old.";
        PushesRefused "chat_push_refused_total" "Pushes given up: gateway or hub refused them.";
        PushServicesTaken "chat_push_services_taken_total"
            "Notifications taken on by push services elsewhere.";
        PushServicesFailing "chat_push_services_failing_total"
            "Of those for push services elsewhere, answered by an error that may pass.";
        PushesUnread "chat_push_unread_total"
            "Accounts whose pushes waited: a log or home was busy.";
        ForeignSent "chat_foreign_sent_total" "Messages handed out to accounts of other domains.";
        ForeignDropped "chat_foreign_dropped_total"
            "Words for other domains that found no room: dropped, or refused to whoever said them.";
        ForeignReceived "chat_foreign_received_total" "Messages of accounts of other domains.";
        UploadsGranted "media_uploads_granted_total" "Leaves to upload a file that were given.";
        UploadsOff "media_uploads_off_total" "Files refused, for there is no storage.";
        UploadsInvalid "media_uploads_invalid_total" "Files refused, for name or type are none.";
        UploadsTooLarge "media_uploads_too_large_total" "Files refused for their size.";
        UploadsOfType "media_uploads_type_total" "Files refused for their type.";
        UploadsOverQuota "media_uploads_quota_total" "Files refused: enough for the day.";
        UploadsBusy "media_uploads_busy_total" "Files refused, for the log did not take them.";
        Edited "chat_edited_total" "Messages edited.";
        Reacted "chat_reacted_total" "Reactions to messages set or taken back.";
        Quoted "chat_quoted_total" "Messages stored that quote another one, or asked for again.";
        Searched "chat_searched_total" "Messages found by searches.";
        Transients "chat_transients_total"
            "Words that are kept nowhere (typing) taken from sessions.";
        TransientsDelivered "chat_transients_delivered_total" "Such words handed to connections.";
        TransientsDropped "chat_transients_dropped_total"
            "Such words dropped: too many, too large, of too large a group, or for nobody.";
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
