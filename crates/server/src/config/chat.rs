//! `[chat]`: `model::limits::ChatLimits`, and the other settings of accounts and conversations.

use super::access::URL_OR_NONE;
use super::outside::is_store;
use super::sections::TOKEN;
use base::section;
use base::setting::{Hidden, choice, list, text, whole};
use model::account::is_domain;
use model::chat::Adding;
use model::limits::ChatLimits;
use model::ports::reviews::Unreviewed;
use model::ports::users::Registration;
use std::path::PathBuf;

section! {
    /// `[chat]`: accounts and conversations.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ChatSection {
        /// Domain of accounts that log in with a bare name: the part after the @ of their
        /// addresses. It is part of the stored data: after a change, names belong to different
        /// accounts.
        domain: String = "localhost".into(), text("a host in lower case", is_domain);
        /// Serve a chat page for browsers at /chat, on listeners with IM in WebSockets at "/im".
        page: bool = true;
        /// Changes that XMPP clients may make to accounts. off: none. password: change their own
        /// password. open: also register before logging in, and delete their own account. An
        /// account is valid for every protocol: with open, set rules for what new users may do over
        /// MQTT.
        registration: Registration = Registration::Password;
        /// Users of the user database who administer the server over XMPP: create, delete and
        /// disable accounts, set passwords, end sessions. They log in with their passwords; their
        /// actions are in the audit log.
        administrators: Vec<String> = Vec::new(),
            list(64, "user names", |text| (1..=256).contains(&text.len()));
        /// Accounts that may add an account to groups, unless that account has chosen: everybody,
        /// its contacts (contacts) or nobody. All others can only invite it.
        adding: Adding = Adding::Everybody;
        /// MQTT clients of user accounts are devices of these accounts, which chat over topics that
        /// begin with $im/. Off, such clients get an error there.
        mqtt: bool = true;
        /// URL that each message is posted to, as JSON, before it is stored: the service may allow,
        /// change or refuse the message. "": none.
        before_send_url: String = String::new(), URL_OR_NONE, url;
        /// Key that signs these requests (HMAC-SHA256). "": unsigned. Never printed.
        before_send_secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Messages that are posted there: between two accounts (single), to groups and rooms
        /// (group).
        before_send_kinds: Vec<String> = vec!["single".into(), "group".into()],
            choice(&["single", "group"]);
        /// Timeout of its answer.
        before_send_ms_max: u32 = 500, whole(10..=30_000, "milliseconds");
        /// Fate of a message without a valid answer in time: store it (allow) or refuse it
        /// (refuse).
        before_send_unanswered: Unreviewed = Unreviewed::Allow;
        /// Concurrent calls to it, a thread each. For each call 256 further messages may wait; one
        /// more counts as unanswered.
        before_send_calls_max: u16 = 16, whole(1..=256, "calls");
        /// File of words, one a line, that are refused, replaced by stars or reported as events; a
        /// reload reads it again. "": none.
        @live words_file: Option<PathBuf> = None;
        /// MySQL or MariaDB database that receives every message after it is acknowledged, as
        /// mysql://user@host:3306/name; [mysql] says how it is reached. Messages it does not have
        /// yet are queued in the logs, within archive_count_max and archive_age_s_max of [store].
        /// "": none. User and password are never printed.
        archive: Hidden = Hidden::default(),
            text("\"\" or mysql://user@host:3306/name", is_store), url;
        /// How long messages between two accounts are kept. After that they are deleted, with their
        /// edits and reactions. 0: as long as the store has room (gives_way_percent of [store]).
        keep_conversations_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes of one such conversation. Beyond, its oldest messages are deleted. 0: as long as
        /// the store has room.
        keep_conversation_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// How long messages of groups, channels and XMPP rooms are kept. After that they are
        /// deleted; membership and changes of the group are kept. 0: as long as the store has room.
        keep_groups_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes of one group. Beyond, its oldest messages are deleted. 0: as long as the store has
        /// room.
        keep_group_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// How long entries of an account's inbox (its archive over all conversations) are kept.
        /// After that, the messages are found only through their conversations. 0: as long as the
        /// store has room.
        keep_inboxes_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes of one inbox, about 150 a message. Beyond, its oldest entries are deleted. 0: as
        /// long as the store has room.
        keep_inbox_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// Limits of chat.
        @part limits: ChatLimits;
    }
}
