//! `[chat]`: `model::limits::ChatLimits`, and what else holds for accounts and conversations.

use super::access::URL_OR_NONE;
use super::accounts_section::is_store;
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
        /// Whose accounts those are that log in by a bare name: what stands behind the @ of their
        /// addresses. It is part of what is stored: with another one they are other accounts.
        domain: String = "localhost".into(), text("a host in lower case", is_domain);
        /// Whether listeners with IM in WebSockets at "/im" give browsers a page to talk, at /chat.
        page: bool = true;
        /// What people may do with accounts by XMPP: nothing (off), give their own another password
        /// (password), or also make one before they log in, and give it up (open). An account is
        /// good for every protocol: with open, say in rules what strangers may do by MQTT.
        registration: Registration = Registration::Password;
        /// Users of the book who administer the server by XMPP: make, remove and disable accounts,
        /// give them passwords, end their sessions. They log in with their passwords; what they did
        /// is in the audit log.
        administrators: Vec<String> = Vec::new(),
            list(64, "user names", |text| (1..=256).contains(&text.len()));
        /// Who adds an account to groups that has said nothing of it: everybody, its contacts
        /// (contacts) or nobody. The others invite it. Accounts choose for themselves, too.
        adding: Adding = Adding::Everybody;
        /// Whether MQTT clients that log in with accounts of the book are devices of theirs, which
        /// chat by topics that begin with $im/. If not, they are told so.
        mqtt: bool = true;
        /// Who is asked about each message before it is stored, as JSON by POST: it may allow it,
        /// change it or refuse it. "": nobody.
        before_send_url: String = String::new(), URL_OR_NONE, url;
        /// Signs what is posted there (HMAC-SHA256). "": nothing is signed. Never printed.
        before_send_secret: Hidden = Hidden::default(), TOKEN, secret;
        /// Which messages it is asked about: those between two accounts (single), those to groups
        /// and rooms (group).
        before_send_kinds: Vec<String> = vec!["single".into(), "group".into()],
            choice(&["single", "group"]);
        /// How long its answer is waited for.
        before_send_ms_max: u32 = 500, whole(10..=30_000, "milliseconds");
        /// What becomes of a message of which it says nothing that makes sense, in time or at all:
        /// it is stored (allow), or refused (refuse).
        before_send_unanswered: Unreviewed = Unreviewed::Allow;
        /// Calls to it that go on at once, a thread each. For each 256 further messages may wait;
        /// one more is treated as unanswered.
        before_send_calls_max: u16 = 16, whole(1..=256, "calls");
        /// A file of words that may not be said, become stars or are told as events, a line each; a
        /// reload reads it again. "": none.
        @live words_file: Option<PathBuf> = None;
        /// A database of MySQL or MariaDB that gets every message behind its answer, as
        /// mysql://user@host:3306/name; [mysql] says how it is reached. What it does not have yet
        /// waits in the logs, within archive_count_max and archive_age_s_max of [store]. "": none.
        /// User and password are never printed.
        archive: Hidden = Hidden::default(),
            text("\"\" or mysql://user@host:3306/name", is_store), url;
        /// How long messages between two are kept. Then they go, with what they became by edits and
        /// reactions. 0: as long as there is room (gives_way_percent of [store]).
        keep_conversations_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes that one such conversation may have. Beyond, its oldest messages go. 0: as many as
        /// there is room for.
        keep_conversation_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// How long messages of groups and channels are kept, and rooms of XMPP. Then likewise; who
        /// is in a group, and what happened to it, stays.
        keep_groups_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes that one group may have. Likewise.
        keep_group_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// How long an account's inbox, which is its archive over all conversations, keeps what it
        /// refers to. Then that is found by its conversation alone. 0: as long as there is room.
        keep_inboxes_s: u32 = 0, whole(0..=100 * 365 * 86_400, "seconds");
        /// Bytes that one inbox may have, some 150 for each message. Likewise.
        keep_inbox_bytes: u64 = 0, whole(0..=1 << 44, "bytes");
        /// What bounds them.
        @part limits: ChatLimits;
    }
}
