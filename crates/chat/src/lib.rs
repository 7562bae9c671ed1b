//! Chat: accounts and conversations over one shard's part of them. Stores who says what to whom,
//! and how much of it each of their devices has.
//!
//! A [`Chat`] is pure and synchronous: it gets the time, takes one request, peer message, command,
//! admission or completion, and returns in [`Effects`] what is to be done. It knows no wire,
//! socket, file or clock. Devices of all protocols share this one state. Its invariants, held by
//! tests over random histories with kills:
//!
//! - A message is answered as sent when it is on stable storage; a retry with the same id stores
//!   nothing, and gets the first answer.
//! - A message that was answered is, eventually, once in the inbox of each account that it
//!   concerns, whichever process dies in between; an inbox has a conversation's messages in its
//!   order.
//! - A device that resumes at a place gets everything behind that place, in the inbox's order.
//! - Nothing waits in memory for a device that does not read.
//! - The relation of two accounts is eventually the same at the homes of both, and presence goes to
//!   the accounts that may see it by that relation, and to no others.
//! - A message of a group is for the accounts that are members at its place, and for no others.
//! - An account's state of its conversations is the sum of its inbox; a read cursor never falls.
//! - A page has each message as it was at the request, with its edits and reactions; of a message
//!   recalled before, it has no content.
//!
//! The state is in three places, each with a shard of its own: the sender's session, the
//! conversation and the inboxes. Read [`send`] (stores and answers), [`outbox`] and [`inboxes`]
//! (distribute), `sessions` (delivers, or notifies), [`reads`] (pulls). `groups` are conversations
//! with members; in it, `chatrooms` are those of the sessions that are in them, and by `follows`
//! members draw the messages of large groups. `conversations` is each account's state of its
//! conversations, and [`amendments`] are later changes of a message. `transients` are delivered and
//! not stored. `people` decides who knows and sees whom; `login` and `accounts` know who is
//! connected, and who may upload files; `people/foreign.rs` is the way to accounts of other
//! domains, and from them.
//!
//! [`send`]: crate::send
//! [`outbox`]: crate::outbox
//! [`inboxes`]: crate::inboxes
//! [`reads`]: crate::reads
//! [`amendments`]: crate::amendments

mod accounts;
mod amendments;
mod archived;
mod conversations;
mod envelope;
#[cfg(test)]
mod fuzz;
mod groups;
mod inboxes;
mod label;
mod log;
mod operators;
mod outbox;
mod people;
mod push;
mod reads;
mod send;
mod service;
mod sessions;
mod waits;
mod word;

pub use accounts::{inboxes_of_label, owner_of_row};
pub use amendments::AmendOrder;
pub use archived::{amended_row, archive_timeline, archived, archived_state};
pub use conversations::receipts::delivered::DeliveredTold;
pub use conversations::receipts::positions::{PositionsAsked, ReaderPosition};
pub use conversations::receipts::readers::ReadersSought;
pub use groups::adding::AddingAsked;
pub use groups::asides::VoiceAsked;
pub use groups::changes::ChangeOrder;
pub use groups::chatrooms::words::{ChatroomAsked, ChatroomWord, JoinAsked, Saying};
pub use groups::members::MembersAsked;
pub use groups::rooms::{RoomAsked, SeatSaid, SeatsLeft, SeatsTold};
pub use operators::moving::ImportOrder;
pub use operators::reviews::ReviewSettings;
pub use operators::words;
pub use people::nodes::{LastAsked, NodesAsked, NodesTold};
pub use people::partings::row as row_of_parting;
pub use people::{
    ArrivalTaken, PresenceTold, ProbeAsked, Probed, TieReceipt, TieTold, TieVerb, TieWord,
};
pub use push::{PushDetail, PushPolicy, QuietPush};
pub use service::ChatService;
pub use sessions::book_orders::BookPolicy;
pub use sessions::transients::{BoundTold, TransientSaid, TransientTold};
pub use word::{
    Cargo, ChatWord, Fetched, Parcel, PeerReply, PeerRequest, Range, ReadBy, SendOrder,
    StoredMessage,
};

/// First bytes of the labels of messages between two accounts, and of messages to a group: a store
/// distinguishes the two by it.
pub use crate::label::{GROUP as GROUP_KIND, MESSAGE as SINGLE_KIND};

use crate::accounts::Accounts;
use crate::amendments::Amendments;
use crate::conversations::Conversations;
use crate::conversations::bookmarks::Bookmarks;
use crate::conversations::displayed::Displays;
use crate::conversations::receipts::Receipts;
use crate::groups::Groups;
use crate::groups::chatrooms::Chatrooms;
use crate::groups::follows::Follows;
use crate::groups::looks::Looks;
use crate::groups::occupants::Occupants;
use crate::groups::public::Publics;
use crate::groups::relays::Questions;
use crate::groups::rooms::GUESSES_A_MINUTE_MAX;
use crate::groups::temporary::Temporaries;
use crate::inboxes::Inboxes;
use crate::log::LogCalls;
use crate::operators::announcements::Announcements;
use crate::operators::erasures::Erasures;
use crate::operators::errands::Errands;
use crate::operators::mutes::Mutes;
use crate::operators::rates::ByteRates;
use crate::operators::reading::ReadRates;
use crate::operators::reviews::Reviews;
use crate::operators::shares::Shares;
use crate::operators::words::WordShelf;
use crate::outbox::Outbox;
use crate::people::People;
use crate::people::foreign::queue::SendQueue;
use crate::people::nodes::Nodes;
use crate::push::Pushes;
use crate::reads::Reading;
use crate::reads::fetching::Fetching;
use crate::service::flow::{ChatFlows, Door, FLOWS_MAX};
use crate::sessions::Sessions;
use crate::sessions::book_orders::BookOrders;
use crate::sessions::login::Logins;
use crate::sessions::uploads::Uploads;
use crate::waits::Waits;
use base::hash::{HashKey, home};
use base::pace::buckets::Buckets;
use model::account::AccountAddress;
use model::chat::foreign::ForeignDomains;
use model::chat::{Adding, BookmarkFormat};
use model::id::{NodeId, ShardId};
use model::limits::Limits;
use model::ports::access::Access;
use model::ports::media::MediaStorage;
use model::pressure::Pressure;
use model::timeline::{ReaderId, TimelineId};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Settings of a chat service. Where `limits` are those of the process, the service takes its
/// shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard on which the service runs.
    pub shard: ShardId,
    /// The number of shards.
    pub shards: u16,
    /// The node of the shards.
    pub node: NodeId,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The key of the hash that places accounts and conversations on shards: the same over
    /// restarts.
    pub home: HashKey,
    /// Access control: who may log in.
    pub access: Arc<dyn Access>,
    /// The policy of push notifications: which are sent, and how much they contain.
    pub push: PushPolicy,
    /// The domain whose accounts log in by their bare names; accounts of other domains use their
    /// addresses.
    pub domain: Arc<str>,
    /// The accounts that may add an account to groups, where it has not set them itself.
    pub adding: Adding,
    /// The domains whose accounts are foreign.
    pub foreign: Arc<ForeignDomains>,
    /// The maximum size of the shard's log, bytes; 0: unknown.
    pub log_bytes: u64,
    /// How messages are reviewed before they are stored; absent: no message is reviewed.
    pub reviews: Option<ReviewSettings>,
    /// Words for which messages are refused, changed or flagged.
    pub words: Arc<WordShelf>,
    /// The policy that decides whose orders to the book of accounts are accepted.
    pub book: BookPolicy,
    /// The storage of files; none: uploads are refused.
    pub media: Option<Arc<dyn MediaStorage>>,
    /// The format of clients' bookmarks; none: bookmarks and settings of conversations are
    /// independent.
    pub bookmarks: Option<BookmarkFormat>,
}

impl Settings {
    /// The shard where a timeline is at home.
    pub(crate) fn shard_at(&self, timeline: TimelineId) -> ShardId {
        ShardId(home(timeline.home_hash(), self.shards.max(1)))
    }

    /// Groups inboxes by the shards where they are at home.
    pub(crate) fn by_shard(
        &self,
        inboxes: impl IntoIterator<Item = TimelineId>,
    ) -> BTreeMap<ShardId, Vec<TimelineId>> {
        let mut shards = BTreeMap::<ShardId, Vec<TimelineId>>::new();
        for inbox in inboxes {
            shards.entry(self.shard_at(inbox)).or_default().push(inbox);
        }
        shards
    }

    /// The shard that owns an account.
    fn owner(&self, address: &AccountAddress) -> ShardId {
        ShardId(home(address.home_hash(self.home), self.shards.max(1)))
    }

    /// Whether an account is of a domain that another server serves.
    pub(crate) fn is_foreign(&self, address: &AccountAddress) -> bool {
        self.foreign.is_any() && !address.is_group() && self.foreign.is_foreign(address.domain())
    }

    /// This shard's share of the bytes that may be stored and not yet in every inbox.
    fn undistributed_max(&self) -> u64 {
        self.limits.chat.undistributed_bytes_max / u64::from(self.shards.max(1))
    }

    /// The name by which an account logs in.
    fn user_of<'a>(&self, address: &'a AccountAddress) -> &'a str {
        if *address.domain() == *self.domain { address.name() } else { address.as_str() }
    }

    /// The reader of an account's inbox that is this device.
    fn reader(&self, device: &str) -> ReaderId {
        ReaderId(self.home.of(&[b"device", device.as_bytes()]))
    }

    /// The reader of an account's inbox that stands for its device with the highest position.
    pub(crate) fn any_reader(&self) -> ReaderId {
        ReaderId(self.home.of(&[b"any device"]))
    }

    /// The reader that an account's devices share which are named after login, by a bind request.
    fn shared_reader(&self) -> ReaderId {
        ReaderId(self.home.of(&[b"binding devices"]))
    }
}

/// Effects that a chat service wants.
pub type Effects = model::service::Effects<ChatService>;

/// The state of the chat service of one shard.
pub(crate) struct Chat {
    settings: Settings,
    logins: Logins,
    accounts: Accounts,
    /// Conversations into which a message is being imported from another server.
    moving: HashSet<TimelineId>,
    errands: Errands,
    erasures: Erasures,
    mutes: Mutes,
    reviews: Reviews,
    account_rates: Buckets<TimelineId>,
    group_rates: Buckets<TimelineId>,
    byte_rates: ByteRates,
    read_rates: ReadRates,
    shares: Shares,
    making_rates: Buckets<TimelineId>,
    abuse_rates: Buckets<TimelineId>,
    sessions: Sessions,
    flows: ChatFlows,
    /// Doors that have admitted the running flow.
    doors: Vec<Door>,
    readings: Waits<Reading>,
    fetchings: Waits<Fetching>,
    conversations: Conversations,
    displays: Displays,
    bookmarks: Bookmarks,
    groups: Groups,
    follows: Follows,
    /// The number of operators' lists of groups that are under way.
    catalogues: usize,
    chatrooms: Chatrooms,
    /// The number of orders to create or change groups that are under way.
    orders: usize,
    /// Reports of abuse under way.
    reports: usize,
    publics: Publics,
    temporaries: Temporaries,
    looks: Looks,
    occupants: Occupants,
    questions: Questions,
    /// Wrong passwords of rooms.
    guesses: Buckets<u64>,
    announcements: Announcements,
    /// The number of lists of members that are under way.
    listings: usize,
    receipts: Receipts,
    amendments: Amendments,
    uploads: Uploads,
    directed: people::stanzas::Directed,
    book_orders: BookOrders,
    guests: sessions::guests::Guests,
    people: People,
    pushes: Pushes,
    nodes: Nodes,
    outbox: Outbox,
    inboxes: Inboxes,
    send_queue: SendQueue,
    log: LogCalls,
    pressure: Pressure,
    last_id: u64,
}

impl Chat {
    /// A state without sessions.
    pub(crate) fn new(settings: Settings) -> Chat {
        let shards = u32::from(settings.shards.max(1));
        let (limits, chat) = (&settings.limits, &settings.limits.chat);
        let sessions_max = (chat.sessions_max / shards).max(1) as usize;
        let rate = |per_s: u32, burst: u32| (per_s.into(), burst.into());
        let of_account = rate(chat.sends_an_account_per_s, chat.sends_an_account_burst);
        let of_group = rate(chat.sends_a_group_per_s, chat.sends_a_group_burst);
        let of_making = rate(chat.groups_made_a_minute, chat.groups_made_burst);
        let of_abuse = rate(chat.abuse_reports_an_hour_max, chat.abuse_reports_an_hour_max);
        let rates_max = chat.rates_known_max as usize;
        Chat {
            logins: Logins::new((limits.binds_per_s / shards).max(1)),
            accounts: Accounts::new(chat.accounts_known_max),
            moving: HashSet::new(),
            errands: Waits::default(),
            erasures: Erasures::default(),
            mutes: Mutes::default(),
            reviews: Reviews::default(),
            account_rates: Buckets::new(of_account, rates_max),
            group_rates: Buckets::new(of_group, rates_max),
            byte_rates: ByteRates::new(&settings),
            read_rates: ReadRates::new(chat, settings.home),
            shares: Shares::new(chat, settings.log_bytes),
            making_rates: Buckets::a_minute(of_making, rates_max),
            abuse_rates: Buckets::an_hour(of_abuse, rates_max),
            sessions: Sessions::new(sessions_max, settings.access.version()),
            flows: ChatFlows::new(FLOWS_MAX),
            doors: Vec::new(),
            readings: Waits::default(),
            fetchings: Waits::default(),
            conversations: Conversations::default(),
            displays: Displays::default(),
            bookmarks: Bookmarks::default(),
            groups: Groups::default(),
            follows: Follows::default(),
            catalogues: 0,
            chatrooms: Chatrooms::default(),
            orders: 0,
            reports: 0,
            publics: Publics::default(),
            temporaries: Temporaries::default(),
            looks: Looks::default(),
            occupants: Occupants::default(),
            questions: Questions::default(),
            guesses: Buckets::a_minute((GUESSES_A_MINUTE_MAX, GUESSES_A_MINUTE_MAX), rates_max),
            announcements: Announcements::default(),
            listings: 0,
            receipts: Receipts::default(),
            amendments: Amendments::default(),
            uploads: Uploads::default(),
            directed: people::stanzas::Directed::default(),
            book_orders: BookOrders::default(),
            guests: sessions::guests::Guests::default(),
            people: People::default(),
            pushes: Pushes::new(settings.home.of(&[b"push", &settings.shard.0.to_be_bytes()])),
            nodes: Nodes::default(),
            outbox: Outbox::new(settings.home, settings.shard, settings.shards),
            inboxes: Inboxes::new(settings.shards),
            send_queue: SendQueue::new(settings.home, settings.shard, settings.shards),
            log: LogCalls::default(),
            pressure: Pressure::Calm,
            last_id: 0,
            settings,
        }
    }

    /// Puts these limits in force. Existing state that exceeds a lowered limit stays.
    pub(crate) fn configure(&mut self, limits: &Arc<Limits>) {
        self.settings.limits = limits.clone();
        let (shards, chat) = (u32::from(self.settings.shards.max(1)), &limits.chat);
        let most = chat.rates_known_max as usize;
        let rate = |count: u32, burst: u32| (count.into(), burst.into());
        let of_account = rate(chat.sends_an_account_per_s, chat.sends_an_account_burst);
        let of_group = rate(chat.sends_a_group_per_s, chat.sends_a_group_burst);
        let of_making = rate(chat.groups_made_a_minute, chat.groups_made_burst);
        self.logins.set_rate((limits.binds_per_s / shards).max(1));
        self.accounts.set_max(chat.accounts_known_max);
        self.account_rates.set_rate(of_account, most);
        self.group_rates.set_rate(of_group, most);
        self.making_rates.set_rate(of_making, most);
        let of_abuse = rate(chat.abuse_reports_an_hour_max, chat.abuse_reports_an_hour_max);
        self.abuse_rates.set_rate(of_abuse, most);
        self.byte_rates.configure(&self.settings);
        self.read_rates.configure(chat);
        self.shares.configure(chat, self.settings.log_bytes);
        self.sessions.set_max((chat.sessions_max / shards).max(1) as usize);
    }
}
