//! Events for applications, sent by the API's streams and by webhooks. In the order of their
//! groups: devices first, the server last.

kinds! {
    Devices {
        /// A device is bound.
        ONLINE "online" streamed [product device epoch version protocol resumed]
            = "binds_total";
        /// A device's connection ended, or it unbound.
        OFFLINE "offline" streamed [product device epoch version reason]
            = "connections_closed_total";
        /// A device sent a Report. `body` is present if it is UTF-8.
        REPORT "report" streamed [product device epoch seq body_base64 body] = "reports_total";
        /// A push that was sent with `receipts` reached its final state at a device. `reason` says
        /// why it was rejected.
        PUSHED "pushed" streamed [product device epoch push outcome reason];
        /// A device reported that its user opened a push.
        PUSH_OPENED "push_opened" streamed [product device epoch push];
        /// A device reported that its user dismissed a push.
        PUSH_DISMISSED "push_dismissed" streamed [product device epoch push];
        /// A platform's push service no longer knows a device: its token was removed. The app
        /// registers a new one.
        DEVICE_TOKEN_DEAD "device_token_dead" streamed [product device epoch platform];
    }
    Clients {
        /// A client connected.
        CLIENT_CONNECTED "client_connected" streamed
            [client_id user version protocol peer resumed] = "sessions_connected_total";
        /// A client's connection ended.
        CLIENT_DISCONNECTED "client_disconnected" streamed [client_id user version reason]
            = "connections_closed_total";
        /// A client was refused.
        CLIENT_REFUSED "client_refused" streamed [client_id user reason]
            = "sessions_refused_total";
        /// A connection of any protocol ended, or was refused. The fields are those of
        /// `GET /v1/disconnections`.
        DISCONNECTION "disconnection" by_name
            [client_id product user address listener protocol reason detail connected_ms
             bytes_in bytes_out] = "connections_closed_total";
        /// A client's session ended.
        SESSION_ENDED "session_ended" streamed [client_id user];
        /// A subscription was granted.
        CLIENT_SUBSCRIBED "client_subscribed" streamed [client_id user filter qos]
            = "subscribes_total";
        /// A client unsubscribed.
        CLIENT_UNSUBSCRIBED "client_unsubscribed" streamed [client_id user filter]
            = "unsubscribes_total";
        /// A client published a message.
        MESSAGE_PUBLISHED "message_published" by_name [client_id user message]
            = "publishes_received_total";
        /// Messages for a client were dropped.
        MESSAGES_DROPPED "messages_dropped" streamed [client_id user reason count]
            = "messages_dropped_total";
    }
    Chat {
        /// A chat message was stored.
        CHAT_MESSAGE "chat_message" by_name [message] = "chat_sent_total";
        /// A message was recalled. `message` is the recall, `seq` the place of the recalled
        /// message.
        CHAT_RECALLED "chat_recalled" by_name [message seq] = "chat_recalled_total";
        /// A change of a group was stored, as a message; without the password of its room.
        /// `further` are changes that were made at once with it, each with `verb` and `members`;
        /// absent, if there are none.
        CHAT_GROUP_CHANGED "chat_group_changed" by_name [message verb members further]
            = "chat_group_changes_total";
        /// An account was created, or created again under its old name.
        CHAT_ACCOUNT_MADE "chat_account_made" by_name [account number];
        /// A message contained a flagged word. The message may still be refused.
        CHAT_FLAGGED "chat_flagged" by_name [from to client_id] = "chat_words_flagged_total";
        /// An account reported another one, or a whole domain, as spam or abuse. `messages` are
        /// those of the named messages that the reporter received from it, in their present state:
        /// its sender edited a message with `edited`, and recalled one of kind 5. `left_out` counts
        /// the others, but those that could not be read now, which `unreadable` counts. The
        /// reporter agrees to the report being forwarded to the reported account's domain
        /// (`forward_to_origin`) or to third parties.
        CHAT_ABUSE_REPORTED "chat_abuse_reported" by_name
            [reporter reported reason text messages left_out unreadable forward_to_origin
             forward_to_third_party] = "chat_abuse_reports_total";
    }
    Server {
        /// A condition that needs an operator began: an alarm is active. `alarm` is its id, `kind`
        /// one of [these](api.md#alarms).
        ALARM_RAISED "alarm_raised" by_name [alarm kind level subject text]
            = "alarms_raised_total";
        /// The condition of an alarm is over.
        ALARM_CLEARED "alarm_cleared" by_name [alarm kind level subject text];
    }
}
