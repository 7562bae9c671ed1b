//! Accounts and conversations over one shard's part of them: who says what to whom, and what each
//! of their devices has of it.
//!
//! A [`Chat`] is pure and synchronous: it is told the time, takes one request, peer message,
//! command, admission or completion, and says in [`Effects`] what is to be done. It knows no wire,
//! socket, file or clock. Whatever protocol a device speaks, this is the one truth behind it. Its
//! invariants, held by tests over random histories with kills:
//!
//! - "Sent" is answered when the message is on stable storage; sent again by the same id it is
//!   there once, and answered as the first time.
//! - A message that was answered is, sooner or later, once in the inbox of each whom it concerns,
//!   whatever dies in between; the messages of a conversation are there in its order.
//! - A device that goes on from where it was gets everything behind that, in the inbox's order.
//! - Nothing waits in memory for a device that does not read.
//! - What two accounts are to each other is the same at the homes of both, sooner or later, and
//!   presence goes to whom that lets see it, and to nobody else.
//! - What is said in a group is for those who are members there at that place, and for nobody
//!   else.
//! - What an account knows of its conversations is the sum of its inbox; a read cursor never falls.
//! - A page has each message as it was when it was asked for, edited and reacted to; of what was
//!   called back before, nothing.
//!
//! Three places, each with a shard of its own: the sender's session, the conversation and the
//! inboxes. Read [`send`] (store, and answer), [`outbox`] and [`inboxes`] (distribute), `sessions`
//! (deliver, or notify), [`reads`] (pull); `groups` are conversations of many, and in it
//! `chatrooms` those of who is there now, and `follows` how members draw what is said in large
//! ones;
//! `conversations` what an account knows of its own,
//! [`amendments`] are what becomes of a message; `transients` are told and kept nowhere; `people`
//! says who knows and sees whom; `login` and `accounts` say who is here, and who may upload files;
//! `people/foreign.rs` is the way to accounts of other domains, and from them.
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
pub use groups::shows::ShowSaid;
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

/// By what labels of messages begin that are between two accounts, and those said to a group: a
/// store keeps them apart by it.
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
use crate::groups::public::Publics;
use crate::groups::shows::Shows;
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

/// Settings of a chat service. Where `limits` speak of the process, it takes its shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard it runs on.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// The node they are of.
    pub node: NodeId,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The key by which accounts and conversations are at home on a shard: the same over restarts.
    pub home: HashKey,
    /// Who may come in.
    pub access: Arc<dyn Access>,
    /// Who is woken, and by what.
    pub push: PushPolicy,
    /// The domain whose accounts are users by their bare names; those of others bring theirs.
    pub domain: Arc<str>,
    /// Who adds accounts to groups that have not said so themselves.
    pub adding: Adding,
    /// Whose accounts are foreign.
    pub foreign: Arc<ForeignDomains>,
    /// What the shard's log may have, bytes; 0: that is not known.
    pub log_bytes: u64,
    /// How messages are reviewed before they are stored; absent: none is.
    pub reviews: Option<ReviewSettings>,
    /// Words that may not be said.
    pub words: Arc<WordShelf>,
    /// From whom orders to the book of accounts are taken.
    pub book: BookPolicy,
    /// The storage of files; none: nobody may upload any.
    pub media: Option<Arc<dyn MediaStorage>>,
    /// How clients write their bookmarks; none: bookmarks and conversations are set apart.
    pub bookmarks: Option<BookmarkFormat>,
}

impl Settings {
    /// The shard where a timeline is at home.
    pub(crate) fn shard_at(&self, timeline: TimelineId) -> ShardId {
        ShardId(home(timeline.home_hash(), self.shards.max(1)))
    }

    /// These inboxes, by the shards where they are at home.
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

    /// Whether an account is of a domain that somebody else serves.
    pub(crate) fn is_foreign(&self, address: &AccountAddress) -> bool {
        self.foreign.is_any() && !address.is_group() && self.foreign.is_foreign(address.domain())
    }

    /// This shard's share of what may be stored and not yet in every inbox, bytes.
    fn undistributed_max(&self) -> u64 {
        self.limits.chat.undistributed_bytes_max / u64::from(self.shards.max(1))
    }

    /// The name by which an account logs in.
    fn user_of<'a>(&self, address: &'a AccountAddress) -> &'a str {
        if *address.domain() == *self.domain { address.name() } else { address.as_str() }
    }

    /// A device as a reader of its account's inbox.
    fn reader(&self, device: &str) -> ReaderId {
        ReaderId(self.home.of(&[b"device", device.as_bytes()]))
    }

    /// Whichever device of an account has come furthest, as a reader.
    pub(crate) fn any_reader(&self) -> ReaderId {
        ReaderId(self.home.of(&[b"any device"]))
    }

    /// All devices of an account that are named when they are here, as one reader.
    fn shared_reader(&self) -> ReaderId {
        ReaderId(self.home.of(&[b"binding devices"]))
    }
}

/// Effects that a chat service wants.
pub type Effects = model::service::Effects<ChatService>;

/// All that the chat service of one shard knows.
pub(crate) struct Chat {
    settings: Settings,
    logins: Logins,
    accounts: Accounts,
    /// Conversations into which a message comes over from another server.
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
    sessions: Sessions,
    flows: ChatFlows,
    /// Doors that the flow which runs was let in by.
    doors: Vec<Door>,
    readings: Waits<Reading>,
    fetchings: Waits<Fetching>,
    conversations: Conversations,
    displays: Displays,
    bookmarks: Bookmarks,
    groups: Groups,
    follows: Follows,
    /// Lists of groups for operators that are under way.
    catalogues: usize,
    chatrooms: Chatrooms,
    /// Orders to make groups or to change them that are under way.
    orders: usize,
    publics: Publics,
    temporaries: Temporaries,
    looks: Looks,
    shows: Shows,
    announcements: Announcements,
    /// Lists of members that are under way.
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
    /// Nobody is in it.
    pub(crate) fn new(settings: Settings) -> Chat {
        let shards = u32::from(settings.shards.max(1));
        let (limits, chat) = (&settings.limits, &settings.limits.chat);
        let sessions_max = (chat.sessions_max / shards).max(1) as usize;
        let rate = |per_s: u32, burst: u32| (per_s.into(), burst.into());
        let of_account = rate(chat.sends_an_account_per_s, chat.sends_an_account_burst);
        let of_group = rate(chat.sends_a_group_per_s, chat.sends_a_group_burst);
        let of_making = rate(chat.groups_made_a_minute, chat.groups_made_burst);
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
            publics: Publics::default(),
            temporaries: Temporaries::default(),
            looks: Looks::default(),
            shows: Shows::default(),
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

    /// From now on these limits are in force. What exceeds a lower one stays.
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
        self.byte_rates.configure(&self.settings);
        self.read_rates.configure(chat);
        self.shares.configure(chat, self.settings.log_bytes);
        self.sessions.set_max((chat.sessions_max / shards).max(1) as usize);
    }
}
