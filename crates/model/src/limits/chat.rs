//! The limits of accounts and conversations: keys of `[chat]`.

use crate::chat::{
    AMENDED_BYTES_HARD_MAX, CHATROOM_KEEPS_MAX, CONTACTS_HARD_MAX, DRAFT_BYTES_MAX, EMOJI_HARD_MAX,
    EXTRA_BYTES_MAX, GROUP_MEMBERS_HARD_MAX, MENTIONS_HARD_MAX, PAGE_MESSAGES_MAX,
    REACTORS_HARD_MAX, READERS_HARD_MAX, TEXT_BYTES_MAX,
};
use base::section;
use base::setting::whole;

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
        /// Sessions: devices of accounts that are here. One more is refused as full.
        sessions_max: u32 = 4_000_000, whole(1..=1 << 30, "sessions");
        /// Devices of one account that are here. With one more the one that came first ends.
        devices_an_account_max: u8 = 16, whole(1..=64, "devices");
        /// Guests, who come by listeners whose methods have anonymous, and whose accounts are there
        /// for as long as they are. One more is refused as full.
        guests_max: u32 = 1_000, whole(0..=1_000_000, "guests");
        /// Accounts that are made by whoever wants one, where registration is open, in an hour.
        /// What was tried counts, too. One more is refused.
        registrations_an_hour_max: u32 = 200, whole(1..=1_000_000, "registrations");
        /// The same from one source (an IPv4 address, or a /64 of IPv6). Who is of this machine is
        /// not counted.
        registrations_a_source_max: u32 = 5, whole(1..=1_000_000, "registrations an hour");
        /// Times in an hour that one account is given another password by its own devices. One more
        /// is refused.
        passwords_an_account_max: u32 = 20, whole(1..=100_000, "passwords an hour");
        /// Bytes of a message's text. A longer one is refused (in XMPP by policy-violation). With
        /// as many as stanza_bytes_max, whatever fits into a stanza is taken.
        text_bytes_max: u32 = 256 * 1024, whole(256..=TEXT, "bytes");
        /// Bytes that a message carries beside its text. More is refused.
        extra_bytes_max: u32 = 64 * 1024, whole(0..=EXTRA, "bytes");
        /// Messages in one answer: of an inbox, or of a conversation. A longer wish is cut.
        page_messages_max: u16 = 128, whole(1..=PAGE, "messages");
        /// Entries of an inbox that are looked through for one page of an archive. With more
        /// between two messages that are wanted, the page ends there, and says where the next goes
        /// on; an id that is not among so many is unknown.
        archive_entries_max: u32 = 8_192, whole(256..=1 << 20, "entries");
        /// Entries of an inbox that one search looks through. Then it answers with what it has
        /// found, and says where the next goes on.
        search_entries_max: u32 = 2_048, whole(128..=1 << 20, "entries");
        /// Requests of one device that are not answered. With one more it is read no further until
        /// an answer goes out.
        requests_a_session_max: u16 = 256, whole(1..=65_535, "requests");
        /// Messages on the way to one device that it has not acknowledged. Beyond, it is told that
        /// there is more, and pulls.
        inline_a_session_max: u16 = 64, whole(1..=4_096, "messages");
        /// Addresses of accounts whose numbers are remembered, a shard. The others are asked for.
        accounts_known_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Members of a group. Whoever would be one more is not added.
        group_members_max: u32 = 500, whole(2..=MEMBERS, "members");
        /// Groups that one account has made and is still in. It makes no more (groups_full). Of
        /// those that conversations_an_account_max has pushed out of its list none is counted. 0:
        /// it makes none.
        groups_an_account_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// Groups that one account may make in a minute. Beyond, after those that it has saved up,
        /// it makes none (rate_limited). 0: as many as it likes.
        groups_made_a_minute: u32 = 20, whole(0..=60_000, "groups a minute");
        /// Groups that an account may have saved up.
        groups_made_burst: u32 = 500, whole(1..=100_000, "groups");
        /// Accounts that are banned from a group. Whoever would be one more is not (bans_full).
        group_banned_max: u32 = 1_000, whole(0..=MEMBERS, "accounts");
        /// Groups at home on one shard that may be public, of all domains. One more is refused
        /// (public_full). 0: none may be.
        public_groups_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// Groups at home on one shard that may be temporary. One more is refused (temporary_full).
        /// 0: none may be.
        temporary_groups_max: u32 = 1_000, whole(0..=100_000, "groups");
        /// How long a temporary group stays, seconds, whose room nobody enters after the server was
        /// started or the group was made temporary.
        temporary_group_grace_s: u32 = 600, whole(1..=86_400, "seconds");
        /// Members of a group up to which what is said there is written into the inbox of each. A
        /// larger one is read: its members draw what was said from its conversation when they are
        /// here. With half as many it is written again. 0: every group is written.
        group_written_members_max: u32 = 2_000, whole(0..=MEMBERS, "members");
        /// Messages of such groups that an inbox has beyond what any device of its account was
        /// sent. What is more is drawn when a device has come further.
        drawn_ahead_max: u16 = 1_024, whole(1..=65_535, "messages");
        /// Further messages of such groups that the server draws, from all of them in turn, before
        /// it answers a device's first request for the beginning of its list of conversations.
        drawn_for_list_max: u32 = 16_384, whole(0..=1 << 20, "messages");
        /// Messages that were said in such a group and wait for the log together, a shard. With one
        /// more each of its members that is here draws them by itself.
        drawn_together_max: u16 = 256, whole(1..=4_096, "messages");
        /// Groups that accounts follow which are not here, in memory, a shard. The others are read
        /// when they are wanted.
        followed_known_max: u32 = 1 << 18, whole(1..=1 << 30, "groups");
        /// Members of a group up to which it is told who has read what. Of larger ones nobody is
        /// told (readers_untold).
        readers_members_max: u32 = 100, whole(0..=READERS_HARD_MAX, "members");
        /// For so long what an account has read of a conversation is told once: further wishes of
        /// that time are done together behind it. 0: each is told at once.
        read_told_ms: u32 = 1_000, whole(0..=60_000, "milliseconds");
        /// Such wishes that wait, and conversations that were told of, a shard. One more is
        /// answered as busy.
        reads_paced_max: u32 = 65_536, whole(64..=1 << 24, "conversations");
        /// Messages of others that were sent to an account's devices and are not acknowledged by
        /// any: of so many their senders are told when they are. Of older ones they are told with a
        /// later one. 0: nobody is told of deliveries, but who asks.
        undelivered_an_account_max: u16 = 64, whole(0..=4_096, "messages");
        /// Questions of who has read what that are not answered, a shard. One more is answered as
        /// busy.
        readers_asked_max: u32 = 4_096, whole(1..=1 << 20, "questions");
        /// Members of groups that are remembered, a shard. The others are read when they are
        /// wanted.
        group_members_known_max: u32 = 1 << 20, whole(1_024..=1 << 30, "members");
        /// Conversations of one account of which it is remembered how far it has read them, and how
        /// it wants them kept. With one more, one is forgotten, and is there anew when something is
        /// said: of strangers', if they are more than a fourth, the newest; else the one in which
        /// nothing happened for longest, of those that are not pinned.
        conversations_an_account_max: u32 = 2_000, whole(16..=100_000, "conversations");
        /// Conversations, with what accounts know of them, in memory, a shard. The others are read
        /// when they are wanted.
        conversations_known_max: u32 = 1 << 18, whole(1_024..=1 << 30, "conversations");
        /// Entries of an account's inbox after which what it knows of its conversations is stored,
        /// so that no more of the inbox is read for it; or as many as it has conversations, if
        /// those are more.
        conversations_stored_after: u32 = 256, whole(16..=65_536, "entries");
        /// Bytes of a draft. A longer one is refused.
        draft_bytes_max: u32 = 1_024, whole(0..=DRAFT, "bytes");
        /// How long a message may be called back. Later that is refused.
        recall_s_max: u32 = 3_600, whole(0..=2_678_400, "seconds");
        /// What one session may tell others in a minute that is kept nowhere: that somebody is
        /// typing, messages of XMPP without a body. More is refused (rate_limited).
        transients_a_minute_max: u16 = 6_000, whole(0..=65_535, "transients");
        /// Bytes of such a thing, its text and what stands beside. A larger one is refused
        /// (too_large).
        transient_bytes_max: u32 = 4_096, whole(0..=65_536, "bytes");
        /// Members of a group in which it is told who is typing. In larger ones that is refused
        /// (too_large).
        transient_members_max: u32 = 100, whole(0..=MEMBERS, "members");
        /// Members of groups, of those that are at home on a shard, of which is remembered how they
        /// say that they are there. With one more the one that said so first is forgotten: whoever
        /// enters later is not told of it.
        member_shows_known_max: u32 = 65_536, whole(0..=1 << 24, "members");
        /// How long a message may be edited. Later that is refused.
        edit_s_max: u32 = 3_600, whole(0..=2_678_400, "seconds");
        /// Bytes of a message that may be edited or reacted to, and of what it is edited to: its
        /// text and what stands beside. Of a larger one that is refused.
        amended_bytes_max: u32 = 16 * 1024, whole(256..=AMENDED, "bytes");
        /// Emoji by which one person reacts to one message. More are refused.
        emoji_a_person_max: u8 = 6, whole(1..=EMOJI, "emoji");
        /// People who react to one message. Whoever would be one more is refused.
        reactors_a_message_max: u16 = 64, whole(1..=REACTORS, "people");
        /// Accounts that one message mentions. One with more is refused.
        mentions_a_message_max: u8 = 32, whole(0..=MENTIONS, "accounts");
        /// Contacts of an account that are in its list or blocked, or whom it lets see it. With one
        /// more the order is refused; blocked by more, it is told of no further block.
        contacts_an_account_max: u32 = 5_000, whole(1..=CONTACTS, "contacts");
        /// Those who ask to see an account that does not have them in its list. One more is refused
        /// in its name.
        contact_requests_an_account_max: u32 = 256, whole(1..=CONTACTS, "requests");
        /// Contacts that were removed and are remembered, so that a device hears of it. A device
        /// that was away for more of them gets the whole list.
        contacts_removed_max: u16 = 64, whole(1..=65_535, "contacts");
        /// Contacts that are remembered, a shard. Those of accounts that nobody needs are read when
        /// they are wanted.
        contacts_known_max: u32 = 1 << 20, whole(1_024..=1 << 30, "contacts");
        /// Accounts of which is remembered when they were last there, a shard, until the next
        /// start. Beyond, those that went first are forgotten; 0: none is remembered.
        departures_known_max: u32 = 65_536, whole(0..=1 << 24, "accounts");
        /// Changes of an account's presence in a minute that are told at once. Beyond, its last
        /// state is told each so many seconds.
        presence_changes_a_minute_max: u16 = 10, whole(1..=65_535, "changes");
        /// Pause between what is told of an account whose presence changes too often.
        presence_pause_ms: u32 = 10_000, whole(100..=600_000, "milliseconds");
        /// Nodes of an account: what it publishes, and what its clients keep. One more is not made.
        nodes_an_account_max: u32 = 128, whole(1..=4_096, "nodes");
        /// Items of a node, whatever its configuration says. With one more the oldest goes.
        node_items_max: u32 = 1_000, whole(1..=8_192, "items");
        /// Bytes of an item. A larger one is refused.
        node_item_bytes_max: u32 = 128 * 1024, whole(1_024..=1 << 24, "bytes");
        /// Bytes of all items of an account. An item that would be too much is refused.
        node_bytes_an_account_max: u32 = 4 * 1024 * 1024, whole(1_024..=1 << 30, "bytes");
        /// Accounts that subscribed to a node, and as many that are its members. One more is
        /// refused.
        node_subscribers_max: u32 = 256, whole(0..=4_096, "accounts");
        /// Nodes and items of which it is remembered that they are there, a shard. Those of
        /// accounts that nobody asks for are read when they are wanted.
        nodes_known_max: u32 = 65_536, whole(256..=1 << 30, "nodes and items");
        /// Changes of nodes of one account that are to be told to its contacts. With one more the
        /// oldest is not told.
        node_changes_untold_max: u16 = 64, whole(1..=4_096, "changes");
        /// Accounts whose last items are to be told to somebody who came, a shard. One more is not
        /// told.
        last_items_wanted_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Profiles of devices that are known, a shard: devices that are alike are asked once. With
        /// one more those that were not wanted lately are forgotten.
        profiles_known_max: u32 = 1_024, whole(16..=1 << 20, "profiles");
        /// Bytes of messages on their way to one shard from the others, and of those that are
        /// stored and not yet in every inbox, or wait for their receiver's number. Beyond, sending
        /// is answered as busy.
        undistributed_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// After so long an inbox that did not confirm a message is asked once more.
        redistribute_ms: u32 = 5_000, whole(100..=600_000, "milliseconds");
        /// Inboxes that a shard asks at once, after a start, for messages of before that may not be
        /// in them yet. The others are asked when these have answered.
        left_inboxes_at_once_max: u32 = 256, whole(1..=1 << 20, "inboxes");
        /// Accounts that operators have muted, a shard. One more is not muted.
        muted_accounts_max: u32 = 100_000, whole(1..=1 << 24, "accounts");
        /// What the API does in the names of accounts and is not answered, a shard. One more is
        /// answered as busy.
        errands_max: u32 = 1_024, whole(1..=1 << 20, "errands");
        /// Messages that one account may send in a second, over all its devices. Beyond, after
        /// those that it has saved up, they are refused (rate_limited). 0: as many as it likes.
        sends_an_account_per_s: u32 = 1_000, whole(0..=1_000_000, "messages a second");
        /// Messages that an account may have saved up.
        sends_an_account_burst: u32 = 10_000, whole(1..=10_000_000, "messages");
        /// Messages that may be said in one group, or room, in a second, whoever says them. Beyond,
        /// likewise. 0: as many as its members like.
        sends_a_group_per_s: u32 = 1_000, whole(0..=1_000_000, "messages a second");
        /// Messages that a group may have saved up.
        sends_a_group_burst: u32 = 10_000, whole(1..=10_000_000, "messages");
        /// Questions about other people and groups that one account may ask in a second, over all
        /// its devices: vCards, avatars and other items that somebody publishes, what they and
        /// their devices support (disco), members and readers of groups, public groups. Beyond,
        /// after those that it has saved up, they are refused (rate_limited; resource-constraint).
        /// 0: as many as it likes.
        reads_an_account_per_s: u32 = 50, whole(0..=1_000_000, "questions a second");
        /// Questions that an account may have saved up: one for each contact of a long list.
        reads_an_account_burst: u32 = 6_000, whole(1..=10_000_000, "questions");
        /// Bytes that one account of this server may have stored in a second: texts, what stands
        /// beside them, 512 for each message, drafts. Beyond, after those that it has saved up,
        /// they are refused (rate_limited). 0: as many as it likes.
        bytes_an_account_per_s: u64 = 1 << 20, whole(0..=1 << 40, "bytes a second");
        /// Bytes that an account may have saved up.
        bytes_an_account_burst: u64 = 32 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes that all accounts whose devices came from one address (of IPv6 a /64) may have
        /// stored in a second; each shard takes its part of them. Beyond, likewise. 0: as many as
        /// they like.
        bytes_a_source_per_s: u64 = 16 << 20, whole(0..=1 << 40, "bytes a second");
        /// Bytes that an address may have saved up, likewise.
        bytes_a_source_burst: u64 = 512 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes that all accounts of one domain of another server or component may have stored in
        /// a second; each shard takes its part of them. Beyond, likewise. 0: as many as they like.
        bytes_a_domain_per_s: u64 = 4 << 20, whole(0..=1 << 40, "bytes a second");
        /// Bytes that such a domain may have saved up, likewise.
        bytes_a_domain_burst: u64 = 64 << 20, whole(1 << 20..=1 << 40, "bytes");
        /// Percent of a log that one account of this server may take with what it says, of the last
        /// bytes that were said, about as many as fit into the log. Beyond, it is refused
        /// (store_full). 0: all of it.
        share_an_account_percent: u8 = 20, whole(0..=100, "percent");
        /// Percent of a log that all accounts of one domain of another server or component may
        /// take. Likewise.
        share_a_domain_percent: u8 = 20, whole(0..=100, "percent");
        /// What was said longer ago takes nothing of a share any more.
        share_s: u32 = 7 * 86_400, whole(60..=365 * 86_400, "seconds");
        /// Accounts, and as many groups, addresses and domains, whose rates are remembered, a
        /// shard. With more who are not at rest, the half that has taken the least begins anew.
        rates_known_max: u32 = 65_536, whole(64..=1 << 24, "accounts");
        /// Chatrooms that are at home on one shard. One more is not made.
        chatrooms_max: u32 = 10_000, whole(0..=1 << 20, "chatrooms");
        /// Chatrooms at home on one shard that one account may own. Zero: only operators make any.
        chatrooms_an_account_max: u32 = 8, whole(0..=1 << 20, "chatrooms");
        /// Chatrooms that one session may be in. One more is not joined.
        chatrooms_a_session_max: u16 = 16, whole(1..=1_024, "chatrooms");
        /// Sessions in one chatroom. Whoever would be one more does not join.
        chatroom_members_max: u32 = 50_000, whole(1..=1 << 24, "sessions");
        /// Messages that may be said in one chatroom in a second. Beyond, after those that it has
        /// saved up, they are refused (rate_limited); a fourth of what is saved up is kept for its
        /// moderators.
        chatroom_messages_per_s: u32 = 500, whole(1..=1_000_000, "messages a second");
        /// Messages that a chatroom may have saved up.
        chatroom_messages_burst: u32 = 1_000, whole(4..=10_000_000, "messages");
        /// Messages of one chatroom that a shard has not handed to all its sessions there. With one
        /// more the oldest is left out: whoever has not had it is told that it missed one.
        chatroom_waiting_max: u32 = 1_000, whole(64..=10_000_000, "messages");
        /// Bytes of these, of all chatrooms, a shard. Beyond, likewise in the room that is spoken
        /// in.
        chatrooms_waiting_bytes_max: u64 = 64 * 1024 * 1024, whole(1 << 20..=1 << 40, "bytes");
        /// Bytes of a message in a chatroom, with what it carries beside its text. A larger one is
        /// refused.
        chatroom_message_bytes_max: u32 = 4_096, whole(1..=65_536, "bytes");
        /// Messages that a chatroom keeps for those who join, at most. A longer wish is cut.
        chatroom_keeps_max: u16 = 50, whole(0..=KEEPS, "messages");
        /// Accounts that are muted in a chatroom, and as many that are banned. One more is not.
        chatroom_banned_max: u32 = 1_000, whole(1..=10_000, "accounts");
        /// Pause between what a shard tells of who is in a chatroom, and between two words to a
        /// member of how much it missed. How many are there is told to members more rarely, at most
        /// to a thousand of them in a second.
        chatroom_pause_ms: u32 = 1_000, whole(10..=60_000, "milliseconds");
        /// Messages that may wait for a hook's verdict, a shard; of one sender a quarter. One more
        /// is answered as busy.
        reviewed_messages_max: u32 = 4_096, whole(1..=1 << 20, "messages");
        /// Their bytes. Beyond, likewise.
        reviewed_bytes_max: u64 = 16 * 1024 * 1024, whole(1 << 18..=1 << 40, "bytes");
        /// Rooms that one session of XMPP may be in. One more is not entered (policy-violation).
        rooms_a_session_max: u16 = 64, whole(1..=65_535, "rooms");
        /// Addresses that one session of XMPP may tell in particular that it is there (those that
        /// are no contacts, and rooms elsewhere). With one more the first of them is told that it
        /// is not there any more.
        directed_a_session_max: u16 = 64, whole(1..=65_535, "addresses");
        /// Bytes of a stanza of XMPP. A longer one ends its stream (policy-violation).
        stanza_bytes_max: u32 = 256 * 1024, whole(10_000..=1 << 24, "bytes");
        /// How long a session of XMPP is kept that lost its connection and asked to be
        /// resumed; a client may wish for less. Zero: none is kept.
        resume_s_max: u32 = 300, whole(0..=86_400, "seconds");
        /// Bytes that are kept for one session that may be resumed: stanzas that its client has not
        /// acknowledged, and what comes while it is away; messages stand in its inbox. With more it
        /// cannot be resumed, and one that is away ends.
        resume_bytes_max: u32 = 1024 * 1024, whole(4_096..=1 << 28, "bytes");
        /// The same in stanzas.
        resume_stanzas_max: u32 = 4_096, whole(64..=1 << 20, "stanzas");
        /// Bytes that are kept for all sessions that are away. With more a session that loses its
        /// connection ends.
        detached_bytes_max: u64 = 256 * 1024 * 1024, whole(1 << 20..=1 << 44, "bytes");
        /// How long a token is good by which a client of XMPP comes back without its password
        /// (FAST). Zero: none is given.
        fast_token_s_max: u32 = 1_209_600, whole(0..=31_536_000, "seconds");
        /// Devices of one account that have such tokens. With one more the one that was given its
        /// token first has it no longer.
        fast_devices_an_account_max: u16 = 16, whole(1..=256, "devices");
        /// Longest silence of a device, unless it says a shorter one: then its connection ends.
        silence_s_max: u16 = 300, whole(10..=65_535, "seconds");
    }
}
