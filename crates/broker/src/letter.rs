//! What the brokers of a process say to each other.
//!
//! Letters from one shard to another arrive in their order. One that found the mailbox full comes
//! back to its sender ([`crate::Broker::unsent`]).

use model::id::{SessionRef, ShardId};
use model::session::Denial;
use model::topic::Publication;
use std::sync::Arc;

/// One word from one shard's broker to another's.
#[derive(Clone, Debug)]
pub enum Letter {
    /// Somebody on your shard may want this.
    Publish {
        /// The message.
        message: Arc<Publication>,
        /// Who asks.
        from: ShardId,
        /// The number of the receipt that is wanted; 0: none.
        receipt: u64,
        /// Makes a repetition harmless; 0: it is none.
        once: u128,
        /// It is to be kept for later subscribers, too.
        keep: bool,
        /// Somebody may be subscribed.
        route: bool,
    },
    /// What became of what was to be receipted: somebody wanted it, or why it is not taken.
    Receipt {
        /// The number it was given.
        number: u64,
        /// The answer.
        result: Result<bool, Denial>,
    },
    /// About a shared group, to its owner.
    Group(Box<GroupWord>),
    /// A message of a shared group, to the member that was picked.
    Member(Box<MemberWord>),
    /// A page of retained messages is wanted.
    PageWanted(Box<PageWanted>),
    /// A page of retained messages.
    Page(Box<RetainedPage>),
    /// After a start: what stood there stands somewhere else by now.
    Elsewhere(OldPlace),
}

/// Where a message of a shared group stands that another member gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldPlace {
    /// The client whose session has it.
    pub client: Arc<str>,
    /// Its place in the timeline.
    pub seq: u64,
}

/// About a shared group.
#[derive(Clone, Debug)]
pub struct GroupWord {
    /// `$share/group/filter`.
    pub group: Arc<str>,
    /// Who it is about.
    pub member: SessionRef,
    /// What about it.
    pub what: GroupWhat,
}

/// What is said about a shared group.
#[derive(Clone, Debug)]
pub enum GroupWhat {
    /// The member joins, or is other than it was.
    Join {
        /// It has a connection.
        online: bool,
        /// It outlives its connection.
        durable: bool,
    },
    /// The member leaves.
    Leave,
    /// So many messages are over at the member.
    Done(u32),
    /// The member gives this message back, for somebody else.
    Back {
        /// The message.
        message: Arc<Publication>,
        /// Who is told when somebody else has it.
        from: ShardId,
        /// Under which number; 0: nobody.
        receipt: u64,
    },
    /// The member went away and has this message; if another one is online it shall have it.
    Offer {
        /// The message.
        message: Arc<Publication>,
        /// Who is told whether another one has it.
        from: ShardId,
        /// Under which number.
        receipt: u64,
        /// Where it stands until then.
        place: OldPlace,
    },
}

/// A message of a shared group for one member.
#[derive(Clone, Debug)]
pub struct MemberWord {
    /// `$share/group/filter`.
    pub group: Arc<str>,
    /// The member.
    pub member: SessionRef,
    /// The message.
    pub message: Arc<Publication>,
    /// Who wants a receipt.
    pub from: ShardId,
    /// Its number; 0: nobody wants one.
    pub receipt: u64,
    /// It has come back from so many members.
    pub hops: u8,
    /// Another member had it, and has it until this one does.
    pub offered: Option<OldPlace>,
}

/// Retained messages are wanted.
#[derive(Clone, Debug)]
pub struct PageWanted {
    /// Who asks.
    pub from: ShardId,
    /// For whom.
    pub session: SessionRef,
    /// The number of the page.
    pub page: u32,
    /// Which topics.
    pub filter: Arc<str>,
    /// Where the last page ended.
    pub after: Option<Box<str>>,
}

/// Retained messages.
#[derive(Clone, Debug)]
pub struct RetainedPage {
    /// Whose.
    pub shard: ShardId,
    /// For whom.
    pub session: SessionRef,
    /// The number of the page.
    pub page: u32,
    /// The messages, in order.
    pub messages: Vec<Arc<Publication>>,
    /// Where to go on; absent at the end.
    pub next: Option<Box<str>>,
}
