//! What applications hear of, by the streams of the API and by webhooks. In the order of their
//! groups: devices first, chat last.

kinds! {
    Devices {
        /// A device is bound.
        ONLINE "online" streamed [product device epoch version protocol resumed]
            = "binds_total";
        /// The connection of a device ended, or it unbound.
        OFFLINE "offline" streamed [product device epoch version reason]
            = "connections_closed_total";
        /// A device sent a Report. `body` is there when it is UTF-8.
        REPORT "report" streamed [product device epoch seq body_base64 body] = "reports_total";
        /// A push that was sent with `receipts` reached its end at a device. `reason` says why it
        /// was rejected.
        PUSHED "pushed" streamed [product device epoch push outcome reason];
    }
    Clients {
        /// A client is connected.
        CLIENT_CONNECTED "client_connected" streamed
            [client_id user version protocol peer resumed] = "sessions_connected_total";
        /// The connection of a client ended.
        CLIENT_DISCONNECTED "client_disconnected" streamed [client_id user version reason]
            = "connections_closed_total";
        /// A client was refused.
        CLIENT_REFUSED "client_refused" streamed [client_id user reason]
            = "sessions_refused_total";
        /// The session of a client ended.
        SESSION_ENDED "session_ended" streamed [client_id user];
        /// A subscription was granted.
        CLIENT_SUBSCRIBED "client_subscribed" streamed [client_id user filter qos]
            = "subscribes_total";
        /// A subscription ended by its client's wish.
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
        /// A message of chat is stored.
        CHAT_MESSAGE "chat_message" by_name [message] = "chat_sent_total";
        /// A message is stored that calls another one back: that is gone. `seq` is its place.
        CHAT_RECALLED "chat_recalled" by_name [message seq] = "chat_recalled_total";
        /// A message is stored that tells of a change of its group.
        CHAT_GROUP_CHANGED "chat_group_changed" by_name [message verb members]
            = "chat_group_changes_total";
        /// An account was made, or made anew under its name.
        CHAT_ACCOUNT_MADE "chat_account_made" by_name [account number];
        /// Somebody says something with a word that is to be told. It may be refused yet.
        CHAT_FLAGGED "chat_flagged" by_name [from to client_id] = "chat_words_flagged_total";
    }
}
