//! The limits of accounts and conversations: keys of `[chat]`.

use crate::chat::{
    ABUSE_TEXT_BYTES_MAX, AMENDED_BYTES_HARD_MAX, CHATROOM_KEEPS_MAX, CONTACTS_HARD_MAX,
    DRAFT_BYTES_MAX, EMOJI_HARD_MAX, EXTRA_BYTES_MAX, GROUP_MEMBERS_HARD_MAX, MENTIONS_HARD_MAX,
    PAGE_MESSAGES_MAX, REACTORS_HARD_MAX, READERS_HARD_MAX, TEXT_BYTES_MAX,
};
use base::section;
use base::setting::whole;

const ABUSE_TEXT: u64 = ABUSE_TEXT_BYTES_MAX as u64;
const TEXT: u64 = TEXT_BYTES_MAX as u64;
const EXTRA: u64 = EXTRA_BYTES_MAX as u64;
const MEMBERS: u64 = GROUP_MEMBERS_HARD_MAX as u64;
const DRAFT: u64 = DRAFT_BYTES_MAX as u64;
const EMOJI: u64 = EMOJI_HARD_MAX as u64;
const MENTIONS: u64 = MENTIONS_HARD_MAX as u64;
const AMENDED: u64 = AMENDED_BYTES_HARD_MAX as u64;
const REACTORS: u64 = REACTORS_HARD_MAX as u64;
const CONTACTS: u64 = CONTACTS_HARD_MAX as u64;
const KEEPS: u64 = CHATROOM_KEEPS_MAX as u64;
const PAGE: u64 = PAGE_MESSAGES_MAX as u64;

section! {
    /// The limits of chat. Counts are for the whole process unless they say otherwise.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ChatLimits {
        /// Sessions: connected devices of accounts. One more is refused as full.
        @live sessions_max: u32 = 4_000_000, whole(1..=1 << 30, "sessions");
        /// Connected devices of one account. One more disconnects the one that connected first.
        @live devices_an_account_max: u8 = 16, whole(1..=64, "devices");
        /// Guests: users of listeners whose methods include anonymous, with accounts that exist
        /// only while they are connected. One more is refused as full.
        @live guests_max: u32 = 1_000, whole(0..=1_000_000, "guests");
        /// Accounts registered in an hour, where registration is open. Failed attempts count, too.
        /// One more is refused.
        @live registrations_an_hour_max: u32 = 200, whole(1..=1_000_000, "registrations");
        /// The same from one source (an IPv4 address, or an IPv6 /64). Clients on this machine are
        /// not counted.
        @live registrations_a_source_max: u32 = 5, whole(1..=1_000_000, "registrations an hour");
        /// Password changes of one account by its own devices in an hour. One more is refused.
        @live passwords_an_account_max: u32 = 20, whole(1..=100_000, "passwords an hour");
        /// Bytes of a message's text. A longer one is refused (in XMPP with policy-violation). If
        /// it equals stanza_bytes_max, any text that fits into a stanza is accepted.
        @live text_bytes_max: u32 = 256 * 1024, whole(256..=TEXT, "bytes");
        /// Bytes of a message's extra data, beside its text. More is refused.
        @live extra_bytes_max: u32 = 64 * 1024, whole(0..=EXTRA, "bytes");
        /// Messages in one page of an inbox or a conversation. A larger request is capped.
        @live page_messages_max: u16 = 128, whole(1..=PAGE, "messages");
        /// Inbox entries examined for one page of an archive. If more entries lie between two
        /// wanted messages, the page ends there and says where the next one continues; an id that
        /// is not found among this many entries is unknown.
        @live archive_entries_max: u32 = 8_192, whole(256..=1 << 20, "entries");
        /// Inbox entries examined by one search. Then the server returns what it found, and where
        /// the next search continues.
        @live search_entries_max: u32 = 2_048, whole(128..=1 << 20, "entries");
        /// Unanswered requests of one device. Beyond, the server reads nothing more from it until
        /// it has answered one.
        @live requests_a_session_max: u16 = 256, whole(1..=65_535, "requests");
        /// Messages sent to one device and not acknowledged. Beyond, the device is notified of new
        /// messages and fetches them itself.
        @live inline_a_session_max: u16 = 64, whole(1..=4_096, "messages");
        /// Addresses of accounts whose numbers are cached, a shard. Others are looked up.
        @live accounts_known_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Members of a group. One more is not added.
        @live group_members_max: u32 = 500, whole(2..=MEMBERS, "members");
        /// Groups that one account created and is still in. Beyond, it creates no more
        /// (groups_full). Groups that conversations_an_account_max removed from its list are not
        /// counted. 0: it creates none.
        @live groups_an_account_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// Groups that one account may create in a minute. Beyond, after its saved-up burst, it is
        /// refused (rate_limited). 0: unlimited.
        @live groups_made_a_minute: u32 = 20, whole(0..=60_000, "groups a minute");
        /// Burst of groups that an account may save up.
        @live groups_made_burst: u32 = 500, whole(1..=100_000, "groups");
        /// Accounts banned from a group. One more is not banned (bans_full).
        @live group_banned_max: u32 = 1_000, whole(0..=MEMBERS, "accounts");
        /// Public groups with their home on one shard, all domains together. One more is refused
        /// (public_full). 0: none.
        @live public_groups_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// Temporary groups with their home on one shard. One more is refused (temporary_full). 0:
        /// none.
        @live temporary_groups_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// How long, in seconds, a temporary group without users in its room is kept after the
        /// server started or the group became temporary.
        @live temporary_group_grace_s: u32 = 600, whole(1..=86_400, "seconds");
        /// Largest group whose messages are written into each member's inbox. A larger group stores
        /// each message once, in its conversation, and fills a member's inbox from it when the
        /// member connects. At half as many members it changes back. 0: all groups are written.
        @live group_written_members_max: u32 = 2_000, whole(0..=MEMBERS, "members");
        /// Messages of large groups in an inbox beyond what any device of its account was sent. The
        /// rest is filled in as a device reads on.
        @live drawn_ahead_max: u16 = 1_024, whole(1..=65_535, "messages");
        /// Further messages of large groups, from all of them in turn, that are filled in before
        /// the server answers a device's first request for the beginning of its list of
        /// conversations.
        @live drawn_for_list_max: u32 = 16_384, whole(0..=1 << 20, "messages");
        /// Messages of one large group that wait for the log together, a shard. Beyond, each
        /// connected member's inbox is filled separately.
        @live drawn_together_max: u16 = 256, whole(1..=4_096, "messages");
        /// Large groups that offline accounts are in, cached, a shard. Others are read when needed.
        @live followed_known_max: u32 = 1 << 18, whole(1..=1 << 30, "groups");
        /// Largest group with read receipts by member. In larger ones requests for readers are
        /// refused (readers_untold).
        @live readers_members_max: u32 = 100, whole(0..=READERS_HARD_MAX, "members");
        /// Interval in which reads of one conversation by one account are reported once: further
        /// reads in it are reported together at its end. 0: each is reported at once.
        @live read_told_ms: u32 = 1_000, whole(0..=60_000, "milliseconds");
        /// Such reads that wait, and conversations that were reported recently, a shard. One more
        /// is answered as busy.
        @live reads_paced_max: u32 = 65_536, whole(64..=1 << 24, "conversations");
        /// Messages to an account, unacknowledged by all its devices, whose senders will get
        /// delivery receipts. Older ones are covered by a later receipt. 0: no delivery receipts,
        /// except on request.
        @live undelivered_an_account_max: u16 = 64, whole(0..=4_096, "messages");
        /// Unanswered requests for the readers of messages, a shard. One more is answered as busy.
        @live readers_asked_max: u32 = 4_096, whole(1..=1 << 20, "questions");
        /// Cached members of groups, a shard. Others are read when needed.
        @live group_members_known_max: u32 = 1 << 20, whole(1_024..=1 << 30, "members");
        /// Conversations of one account whose read position and settings are kept. One more
        /// replaces one, which appears anew when something is said in it: the newest of those with
        /// strangers, if they are more than a quarter; otherwise the longest idle one that is not
        /// pinned.
        @live conversations_an_account_max: u32 = 2_000, whole(16..=100_000, "conversations");
        /// Cached conversations, with what accounts know of them, a shard. Others are read when
        /// needed.
        @live conversations_known_max: u32 = 1 << 18, whole(1_024..=1 << 30, "conversations");
        /// New entries in an account's inbox after which the state of its conversations is stored,
        /// so that later reads need not go further back; or as many as it has conversations, if
        /// that is more.
        @live conversations_stored_after: u32 = 256, whole(16..=65_536, "entries");
        /// Bytes of a draft. A longer one is refused.
        @live draft_bytes_max: u32 = 1_024, whole(0..=DRAFT, "bytes");
        /// How long a message may be recalled. Later recalls are refused.
        @live recall_s_max: u32 = 3_600, whole(0..=2_678_400, "seconds");
        /// Transient events of one session in a minute, which are not stored: typing notifications,
        /// XMPP messages without a body. More are refused (rate_limited).
        @live transients_a_minute_max: u16 = 6_000, whole(0..=65_535, "transients");
        /// Bytes of a transient event: text and extra data. A larger one is refused (too_large).
        @live transient_bytes_max: u32 = 4_096, whole(0..=65_536, "bytes");
        /// Largest group with typing notifications. In larger ones they are refused (too_large).
        @live transient_members_max: u32 = 100, whole(0..=MEMBERS, "members");
        /// Devices in one XMPP room. One more cannot enter, unless it is an admin's.
        @live room_devices_max: u32 = 10_000, whole(1..=1 << 24, "devices");
        /// Devices in XMPP rooms of groups with their home on a shard. One more cannot enter.
        @live room_devices_known_max: u32 = 262_144, whole(1..=1 << 24, "devices");
        /// Largest XMPP room, in devices, whose occupants see each other come and go. In a larger
        /// one a new occupant sees this many others, and later changes of itself alone.
        @live room_presences_max: u32 = 1_000, whole(0..=1 << 24, "devices");
        /// How long a message may be edited. Later edits are refused.
        @live edit_s_max: u32 = 3_600, whole(0..=2_678_400, "seconds");
        /// Bytes of a message, text and extra data, that may be edited or reacted to, and of its
        /// new content. For a larger one this is refused.
        @live amended_bytes_max: u32 = 16 * 1024, whole(256..=AMENDED, "bytes");
        /// Emoji in one user's reaction to one message. More are refused.
        @live emoji_a_person_max: u8 = 6, whole(1..=EMOJI, "emoji");
        /// Users who react to one message. One more is refused.
        @live reactors_a_message_max: u16 = 64, whole(1..=REACTORS, "people");
        /// Accounts that one message may mention. A message with more is refused.
        @live mentions_a_message_max: u8 = 32, whole(0..=MENTIONS, "accounts");
        /// Contacts of an account: in its list, blocked, or allowed to see its presence. Beyond, an
        /// order to add one is refused; if more than this many accounts block it, it is not
        /// notified of further blocks.
        @live contacts_an_account_max: u32 = 5_000, whole(1..=CONTACTS, "contacts");
        /// Pending contact requests to an account. One more is refused on its behalf.
        @live contact_requests_an_account_max: u32 = 256, whole(1..=CONTACTS, "requests");
        /// Removed contacts that are remembered, so that devices learn of the removal. A device
        /// that missed more gets the whole list.
        @live contacts_removed_max: u16 = 64, whole(1..=65_535, "contacts");
        /// Cached contacts, a shard. Those of unused accounts are read when needed.
        @live contacts_known_max: u32 = 1 << 20, whole(1_024..=1 << 30, "contacts");
        /// Accounts whose last time online is remembered, a shard, until the next start. Beyond,
        /// the oldest are forgotten. 0: none.
        @live departures_known_max: u32 = 65_536, whole(0..=1 << 24, "accounts");
        /// Changes of an account's presence in a minute that are sent at once. Beyond, only its
        /// latest state is sent, every presence_pause_ms.
        @live presence_changes_a_minute_max: u16 = 10, whole(1..=65_535, "changes");
        /// Interval of updates for accounts whose presence changes too often.
        @live presence_pause_ms: u32 = 10_000, whole(100..=600_000, "milliseconds");
        /// PEP nodes of an account: what it publishes, and what its clients store. One more is not
        /// created.
        @live nodes_an_account_max: u32 = 128, whole(1..=4_096, "nodes");
        /// Items of a node, whatever its configuration says. One more replaces the oldest.
        @live node_items_max: u32 = 1_000, whole(1..=8_192, "items");
        /// Bytes of an item. A larger one is refused.
        @live node_item_bytes_max: u32 = 128 * 1024, whole(1_024..=1 << 24, "bytes");
        /// Bytes of all items of an account. An item beyond them is refused.
        @live node_bytes_an_account_max: u32 = 4 * 1024 * 1024, whole(1_024..=1 << 30, "bytes");
        /// Subscribers of a node, and as many members of it. One more is refused.
        @live node_subscribers_max: u32 = 256, whole(0..=4_096, "accounts");
        /// Cached nodes and items, a shard. Those of unused accounts are read when needed.
        @live nodes_known_max: u32 = 65_536, whole(256..=1 << 30, "nodes and items");
        /// Changes of one account's nodes queued for its contacts. Beyond, the oldest is dropped.
        @live node_changes_untold_max: u16 = 64, whole(1..=4_096, "changes");
        /// Accounts whose latest items are queued for a user who connected, a shard. One more is
        /// not sent.
        @live last_items_wanted_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Cached capability profiles of devices, a shard: identical devices are queried once.
        /// Beyond, the least recently used are dropped.
        @live profiles_known_max: u32 = 1_024, whole(16..=1 << 20, "profiles");
        /// Bytes of messages from other shards on the way to one shard, of stored messages not yet
        /// in every inbox, and of those that wait for their receiver's number. Beyond, sends are
        /// answered as busy.
        @live undistributed_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// Time after which an inbox that did not confirm a message is asked once more.
        @live redistribute_ms: u32 = 5_000, whole(100..=600_000, "milliseconds");
        /// Inboxes that a shard repairs at once after a start, with messages from before it. The
        /// others follow as these finish.
        @live left_inboxes_at_once_max: u32 = 256, whole(1..=1 << 20, "inboxes");
        /// Accounts muted by operators, a shard. One more is not muted.
        @live muted_accounts_max: u32 = 100_000, whole(1..=1 << 24, "accounts");
        /// Unfinished calls of the API on behalf of accounts, a shard. One more is answered as
        /// busy.
        @live errands_max: u32 = 1_024, whole(1..=1 << 20, "errands");
        /// Messages that one account may send in a second, all devices together. Beyond, after its
        /// saved-up burst, they are refused (rate_limited). 0: unlimited.
        @live sends_an_account_per_s: u32 = 1_000, whole(0..=1_000_000, "messages a second");
        /// Burst of messages that an account may save up.
        @live sends_an_account_burst: u32 = 10_000, whole(1..=10_000_000, "messages");
        /// Messages in one group or room in a second, from all members together. Beyond, after its
        /// saved-up burst, they are refused (rate_limited). 0: unlimited.
        @live sends_a_group_per_s: u32 = 1_000, whole(0..=1_000_000, "messages a second");
        /// Burst of messages that a group may save up.
        @live sends_a_group_burst: u32 = 10_000, whole(1..=10_000_000, "messages");
        /// Queries about other users and groups that one account may send in a second, all devices
        /// together: vCards, avatars and other published items, capabilities (disco), members and
        /// readers of groups, public groups. Beyond, after its saved-up burst, they are refused
        /// (rate_limited; resource-constraint). 0: unlimited.
        @live reads_an_account_per_s: u32 = 50, whole(0..=1_000_000, "questions a second");
        /// Burst of queries that an account may save up: one for each contact of a long list.
        @live reads_an_account_burst: u32 = 6_000, whole(1..=10_000_000, "questions");
        /// Bytes that one account of this server may store in a second: texts, extra data, 512 for
        /// each message, drafts. Beyond, after its saved-up burst, they are refused (rate_limited).
        /// 0: unlimited.
        @live bytes_an_account_per_s: u64 = 1 << 20, whole(0..=1 << 40, "bytes a second");
        /// Burst of bytes that an account may save up.
        @live bytes_an_account_burst: u64 = 32 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes that all accounts of one source (an IPv4 address, or an IPv6 /64) may store in a
        /// second; each shard has its part of them. Beyond, after its saved-up burst, they are
        /// refused (rate_limited). 0: unlimited.
        @live bytes_a_source_per_s: u64 = 16 << 20, whole(0..=1 << 40, "bytes a second");
        /// Burst of bytes that a source may save up; each shard has its part of them.
        @live bytes_a_source_burst: u64 = 512 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes that all accounts of one domain of another server or component may store in a
        /// second; each shard has its part of them. Beyond, after its saved-up burst, they are
        /// refused (rate_limited). 0: unlimited.
        @live bytes_a_domain_per_s: u64 = 4 << 20, whole(0..=1 << 40, "bytes a second");
        /// Burst of bytes that such a domain may save up; each shard has its part of them.
        @live bytes_a_domain_burst: u64 = 64 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Percent of a log that one account of this server may fill with its messages, measured
        /// over the most recent bytes, about as many as fit into the log. Beyond, its messages are
        /// refused (store_full). 0: unlimited.
        @live share_an_account_percent: u8 = 20, whole(0..=100, "percent");
        /// Percent of a log that all accounts of one domain of another server or component may
        /// fill. Beyond, their messages are refused (store_full). 0: unlimited.
        @live share_a_domain_percent: u8 = 20, whole(0..=100, "percent");
        /// Age after which messages no longer count in these shares.
        @live share_s: u32 = 7 * 86_400, whole(60..=365 * 86_400, "seconds");
        /// Accounts, and as many groups, sources and domains, whose rates are tracked, a shard. If
        /// more are active, the half that has used the least starts anew.
        @live rates_known_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Reports of spam and abuse that one account may make in an hour (XEP-0377), after as many
        /// at once: up to twice as many in the first hour. More are dropped, and answered as if
        /// they were not; so are those of guests. 0: all are dropped.
        @live abuse_reports_an_hour_max: u32 = 20, whole(0..=10_000, "reports an hour");
        /// Bytes of one such report with the messages that it names, as they are stored; in the
        /// event, texts are escaped and other data is base64. Messages beyond are counted in the
        /// event (left_out) and not shown.
        @live abuse_report_bytes_max: u32 = 64 * 1024, whole(ABUSE_TEXT..=256 * 1024, "bytes");
        /// Chatrooms with their home on one shard. One more is not created.
        @live chatrooms_max: u32 = 10_000, whole(0..=1 << 20, "chatrooms");
        /// Chatrooms with their home on one shard that one account may own. 0: only operators
        /// create chatrooms.
        @live chatrooms_an_account_max: u32 = 8, whole(0..=1 << 20, "chatrooms");
        /// Chatrooms that one session may be in. It does not join one more.
        @live chatrooms_a_session_max: u16 = 16, whole(1..=1_024, "chatrooms");
        /// Sessions in one chatroom. One more does not join.
        @live chatroom_members_max: u32 = 50_000, whole(1..=1 << 24, "sessions");
        /// Messages in one chatroom in a second. Beyond, after its saved-up burst, they are refused
        /// (rate_limited); a quarter of the burst is reserved for its moderators.
        @live chatroom_messages_per_s: u32 = 500, whole(1..=1_000_000, "messages a second");
        /// Burst of messages that a chatroom may save up.
        @live chatroom_messages_burst: u32 = 1_000, whole(4..=10_000_000, "messages");
        /// Messages of one chatroom that a shard has not delivered to all its sessions there. One
        /// more drops the oldest: sessions that did not get it are notified that they missed one.
        @live chatroom_waiting_max: u32 = 1_000, whole(64..=10_000_000, "messages");
        /// Bytes of these, all chatrooms together, a shard. Beyond, the oldest messages of the room
        /// of the new one are dropped.
        @live chatrooms_waiting_bytes_max: u64 = 64 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes of a message in a chatroom, text and extra data. A larger one is refused.
        @live chatroom_message_bytes_max: u32 = 4_096, whole(1..=65_536, "bytes");
        /// Messages that a chatroom keeps for users who join. A larger request is capped.
        @live chatroom_keeps_max: u16 = 50, whole(0..=KEEPS, "messages");
        /// Accounts muted in a chatroom, and as many banned ones. One more is not muted or banned.
        @live chatroom_banned_max: u32 = 1_000, whole(1..=10_000, "accounts");
        /// Interval at which a shard reports changes in a chatroom's members, and at which a member
        /// is notified of the number of messages it missed. The number of members is reported less
        /// often, to at most a thousand members in a second.
        @live chatroom_pause_ms: u32 = 1_000, whole(10..=60_000, "milliseconds");
        /// Messages that wait for a hook's verdict, a shard; a quarter of them of one sender. One
        /// more is answered as busy.
        @live reviewed_messages_max: u32 = 4_096, whole(1..=1 << 20, "messages");
        /// Bytes of these. Beyond, messages are answered as busy, too.
        @live reviewed_bytes_max: u64 = 16 * 1024 * 1024, whole(1 << 18..=1 << 40, "bytes");
        /// Rooms that one XMPP session may be in. It does not enter one more (policy-violation).
        @live rooms_a_session_max: u16 = 64, whole(1..=65_535, "rooms");
        /// Whether a room that an XMPP client makes lets everybody in once its maker answers its
        /// first form, unless that form says otherwise. Before, and without this, only members
        /// enter.
        @live rooms_open: bool = true;
        /// Whether a room that an XMPP client makes is listed among the public rooms of its domain
        /// with its first form, unless that says otherwise.
        @live rooms_public: bool = true;
        /// Addresses that one XMPP session sends directed presence to (not contacts; rooms on other
        /// servers count). One more sends the first of them that the session is unavailable.
        @live directed_a_session_max: u16 = 64, whole(1..=65_535, "addresses");
        /// Bytes of an XMPP stanza. A longer one closes its stream (policy-violation).
        stanza_bytes_max: u32 = 256 * 1024, whole(10_000..=1 << 24, "bytes");
        /// How long a disconnected XMPP session that asked for resumption is kept; a client may ask
        /// for less. 0: none is kept.
        @live resume_s_max: u32 = 300, whole(0..=86_400, "seconds");
        /// Bytes kept for one resumable session: unacknowledged stanzas, and what arrives while it
        /// is disconnected; messages are in its inbox. Beyond, it cannot be resumed, and a
        /// disconnected one ends.
        @live resume_bytes_max: u32 = 1024 * 1024, whole(4_096..=1 << 28, "bytes");
        /// The same in stanzas.
        @live resume_stanzas_max: u32 = 4_096, whole(64..=1 << 20, "stanzas");
        /// Bytes kept for all disconnected sessions. Beyond, a session ends when it loses its
        /// connection.
        @live detached_bytes_max: u64 = 256 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// How long a token is valid with which a client of XMPP (FAST) or IM logs in without its
        /// password. 0: no tokens.
        @live fast_token_s_max: u32 = 1_209_600, whole(0..=31_536_000, "seconds");
        /// Devices of one account with such tokens. One more replaces the oldest token.
        @live fast_devices_an_account_max: u16 = 16, whole(1..=256, "devices");
        /// Longest silence of a device, unless it announces a shorter one. After it, its connection
        /// is closed.
        @live silence_s_max: u16 = 300, whole(10..=65_535, "seconds");
    }
}
