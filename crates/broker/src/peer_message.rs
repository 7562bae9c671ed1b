//! Messages between the brokers of a process.
//!
//! Peer messages from one shard to another arrive in order, and none is lost. All names in them are
//! valid on every node: a client identifier, a topic, a group, a member by the timeline of its
//! session. Other values are local to the process (the number of a receipt, a page or a
//! subscription, the [`SessionRef`] of a session that asked for a page) and are return addresses:
//! only the shard that made one reads it, the answer returns it unchanged, and an answer whose
//! session or wait has ended is ignored.

use crate::session::principals::Principal;
use base::encoding::Encoding;
use model::id::{SessionRef, ShardId};
use model::session::Denial;
use model::timeline::TimelineId;
use model::topic::Publication;
use std::fmt;
use std::sync::Arc;

/// A message from one shard's broker to another's.
#[derive(Clone, Debug, Encoding)]
#[encoding[
    Publish = 0, Keep = 1, Receipt = 2, Group = 3, Member = 4, PageWanted = 5, Page = 6,
    LastWanted = 7, Late = 8, Elsewhere = 9
]]
pub enum PeerMessage {
    /// A publication that some session of the receiver may want.
    Publish {
        /// The message.
        message: Arc<Publication>,
        /// Shard that asks.
        from: ShardId,
        /// The number of the receipt that is wanted; 0: none.
        receipt: u64,
        /// Makes a repetition harmless; 0: it is none.
        once: u128,
    },
    /// The topic of this is at home with you: it is to be kept for later subscribers.
    Keep {
        /// The message.
        message: Arc<Publication>,
        /// Shard that asks.
        from: ShardId,
        /// The number of the receipt that is wanted; 0: none.
        receipt: u64,
        /// The number of pages that the owner had given out when the subscribers were searched: a
        /// subscription that got a page since may have missed the message.
        pages: u64,
    },
    /// Receipt for a message: whether it had a receiver, or why it was refused.
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
    /// Request for the retained message of one topic: a page held another one than was delivered
    /// live.
    LastWanted(Box<LastWanted>),
    /// A message was kept after a page was given out that it belongs to.
    Late(Box<LateWord>),
    /// After a start: a message that stood there stands somewhere else by now.
    Elsewhere(OldPlace),
}

impl PeerMessage {
    /// Memory of the message, bytes, roughly; a publication that others share is counted whole.
    pub fn weight(&self) -> usize {
        let inside = match self {
            PeerMessage::Publish { message, .. } | PeerMessage::Keep { message, .. } => {
                message.weight()
            }
            PeerMessage::Receipt { .. } => 0,
            PeerMessage::Group(word) => {
                let message = match &word.what {
                    GroupWhat::Back { message, .. } | GroupWhat::Offer { message, .. } => {
                        message.weight()
                    }
                    GroupWhat::Join { .. } | GroupWhat::Leave | GroupWhat::Done(_) => 0,
                };
                size_of::<GroupWord>() + word.group.len() + message
            }
            PeerMessage::Member(word) => {
                size_of::<MemberWord>() + word.group.len() + word.message.weight()
            }
            PeerMessage::PageWanted(wanted) => size_of::<PageWanted>() + 2 * wanted.filter.len(),
            PeerMessage::Page(page) => {
                let messages = page.messages.iter().map(|message| message.weight() + 8);
                size_of::<RetainedPage>() + messages.sum::<usize>()
            }
            PeerMessage::LastWanted(wanted) => {
                size_of::<LastWanted>() + wanted.topic.len() + wanted.asker.filter.len()
            }
            PeerMessage::Late(word) => {
                size_of::<LateWord>() + word.asker.filter.len() + word.message.weight()
            }
            PeerMessage::Elsewhere(place) => place.client.len(),
        };
        size_of::<PeerMessage>() + inside
    }
}

/// Old place of a message of a shared group that another member gets.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct OldPlace {
    /// The client whose session has it.
    pub client: Arc<str>,
    /// Its place in the timeline.
    pub seq: u64,
}

/// About a shared group.
#[derive(Clone, Debug, Encoding)]
pub struct GroupWord {
    /// `$share/group/filter`.
    pub group: Arc<str>,
    /// The member: the timeline of its session.
    pub member: TimelineId,
    /// Content of the message.
    pub what: GroupWhat,
}

/// A member that may not read all that its group is sent.
#[derive(Clone)]
pub struct RestrictedMember {
    pub(crate) client: Box<str>,
    pub(crate) principal: Principal,
    /// Rules from another process that are not compiled yet.
    pub(crate) encoded: Option<Box<[u8]>>,
}

impl fmt::Debug for RestrictedMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestrictedMember { client, principal, .. } = self;
        let mut shown = f.debug_struct("RestrictedMember");
        shown.field("client", client).field("user", &principal.user).finish_non_exhaustive()
    }
}

/// Kind of a message about a shared group.
#[derive(Clone, Debug, Encoding)]
#[encoding(Join = 0, Leave = 1, Done = 2, Back = 3, Offer = 4)]
pub enum GroupWhat {
    /// The member joins, or is other than it was.
    Join {
        /// Whether the member has a connection.
        online: bool,
        /// Whether the member outlives its connection.
        durable: bool,
        /// Topics that the member may read, if not all that the filter matches.
        reader: Option<Arc<RestrictedMember>>,
        /// Shard that is answered whether it is a member now.
        from: ShardId,
        /// Number of the receipt; 0: none is wanted.
        receipt: u64,
    },
    /// The member leaves.
    Leave,
    /// The member has finished this many messages.
    Done(u32),
    /// The member gives this message back, for another one.
    Back {
        /// The message.
        message: Arc<Publication>,
        /// Shard that is answered when another member has the message.
        from: ShardId,
        /// Number of the receipt; 0: none is wanted.
        receipt: u64,
    },
    /// The member went away and has this message; if another one is online it shall have it.
    Offer {
        /// The message.
        message: Arc<Publication>,
        /// Shard that is answered whether another member has the message.
        from: ShardId,
        /// Number of the receipt.
        receipt: u64,
        /// Place of the message until then.
        place: OldPlace,
    },
}

/// A message of a shared group for one member.
#[derive(Clone, Debug, Encoding)]
pub struct MemberWord {
    /// `$share/group/filter`.
    pub group: Arc<str>,
    /// The member: the timeline of its session.
    pub member: TimelineId,
    /// The message.
    pub message: Arc<Publication>,
    /// Shard that gets the receipt.
    pub from: ShardId,
    /// Number of the receipt; 0: none is wanted.
    pub receipt: u64,
    /// Another member had the message, and keeps it until this one has stored it.
    pub offered: Option<OldPlace>,
}

/// Retained messages are wanted.
#[derive(Clone, Debug, Encoding)]
pub struct PageWanted {
    /// Shard that asks.
    pub from: ShardId,
    /// Session that it is for: local to the shard that asks.
    pub session: SessionRef,
    /// The number of the page.
    pub page: u32,
    /// Filter of the topics.
    pub filter: Arc<str>,
    /// Where the last page ended.
    pub after: Option<Box<str>>,
    /// Moment since which the session has the subscription, by its shard's count.
    pub since: u64,
}

/// The retained message of one topic is wanted.
#[derive(Clone, Debug, Encoding)]
pub struct LastWanted {
    /// Session that asks, and for which subscription.
    pub asker: Asker,
    /// The topic.
    pub topic: Box<str>,
}

/// A subscription for which retained messages were asked for.
#[derive(Clone, Debug, Encoding)]
pub struct Asker {
    /// Session that asks: local to its shard.
    pub session: SessionRef,
    /// Its filter.
    pub filter: Arc<str>,
    /// Moment since which the session has it, by its shard's count.
    pub since: u64,
}

/// A retained message for one subscription.
#[derive(Clone, Debug, Encoding)]
pub struct LateWord {
    /// Session that gets the message.
    pub asker: Asker,
    /// The message.
    pub message: Arc<Publication>,
    /// Whether it was asked for alone: then it is the message retained at that time, whatever came
    /// live before.
    pub last: bool,
}

/// Retained messages.
#[derive(Clone, Debug, Encoding)]
pub struct RetainedPage {
    /// Shard whose retained messages they are.
    pub shard: ShardId,
    /// Session that it is for, as it was asked.
    pub session: SessionRef,
    /// The number of the page, as it was asked.
    pub page: u32,
    /// The messages, in order.
    pub messages: Vec<Arc<Publication>>,
    /// Where to go on; absent at the end.
    pub next: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;

    #[test]
    fn a_peer_message_weighs_what_it_carries() {
        let text = "f".repeat(100);
        let session = SessionRef::new(ShardId(0), Key { slot: 1, generation: 1 });
        let asker = || Asker { session, filter: text.as_str().into(), since: 1 };
        let message = || Arc::new(Publication::new("t", &[], &[0; 1_000]));
        let from = ShardId(0);
        for (least, peer_message) in [
            (1_000, PeerMessage::Publish { message: message(), from, receipt: 1, once: 0 }),
            (1_000, PeerMessage::Keep { message: message(), from, receipt: 1, pages: 0 }),
            (0, PeerMessage::Receipt { number: 1, result: Ok(true) }),
            (
                1_100,
                PeerMessage::Late(Box::new(LateWord {
                    asker: asker(),
                    message: message(),
                    last: true,
                })),
            ),
            (
                200,
                PeerMessage::LastWanted(Box::new(LastWanted {
                    asker: asker(),
                    topic: text.as_str().into(),
                })),
            ),
            (
                2_000,
                PeerMessage::Page(Box::new(RetainedPage {
                    shard: from,
                    session,
                    page: 1,
                    messages: vec![message(), message()],
                    next: None,
                })),
            ),
            (100, PeerMessage::Elsewhere(OldPlace { client: text.as_str().into(), seq: 1 })),
        ] {
            let weight = peer_message.weight();
            assert!((least..least + 1_000).contains(&weight), "{weight} of {peer_message:?}");
        }
    }
}
