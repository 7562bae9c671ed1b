//! Errands: calls of the API on behalf of an account, made as one of its devices would make them.
//!
//! An errand makes the request that a session would make ([`ChatRequest`]), on a connection that no
//! client has and a session that is the errand's number; so every request of a device works for
//! errands unchanged, and the reply to the device is the answer. Invariant: an errand is answered
//! once, at the latest at its timeout.

use crate::accounts::Owner;
use crate::people::ArrivalTaken;
use crate::service::flow::{Flow, Reply};
use crate::sessions::{Asker, Requester};
use crate::waits::Waits;
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::flows::WaitKey;
use base::slab::Key;
use base::time::{Instant, Now};
use model::account::AccountId;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, ChatroomAsk, ChatroomRequest, NodesRequest,
    OccupancyRequest, PeopleAsk, PeopleRequest, PrivacyWish, PushWish,
};
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::chat::{ChatAnswer, Errand, ErrandWhat};

/// An errand that is under way.
pub(crate) struct UnderWay {
    owed: Owed,
    pub(crate) asker: Asker,
}

/// The answer to an errand, or to an arrival that another shard carried out.
#[derive(Debug, Encoding)]
#[encoding(Told = 0, Reached = 1, Busy = 2, StoreFailed = 3)]
pub(crate) enum ErrandAnswer {
    /// The reply that a device would get.
    Told(Box<ChatDelivery>),
    /// Whether there was anybody for what came from elsewhere.
    Reached(bool),
    /// Too much at once, or no answer in time.
    Busy,
    /// The log does not take it.
    StoreFailed,
}

impl From<ErrandAnswer> for ChatAnswer {
    fn from(answer: ErrandAnswer) -> ChatAnswer {
        match answer {
            ErrandAnswer::Told(told) => ChatAnswer::Told(Some(told)),
            ErrandAnswer::Reached(is) => ChatAnswer::Reached(is),
            ErrandAnswer::Busy => ChatAnswer::Busy,
            ErrandAnswer::StoreFailed => ChatAnswer::StoreFailed,
        }
    }
}

/// The receiver of an errand's answer.
#[derive(Clone, Copy)]
pub(crate) enum Owed {
    /// A command of the API, by its number.
    Command(u64),
    /// Another shard, for an arrival from another server, by its number there.
    Shard(ShardId, u64),
    /// A flow of this shard.
    Flow(WaitKey),
    /// The task that updates a bookmark to match its conversation, by its number.
    Bookmark(u64),
}

pub(crate) type Errands = Waits<UnderWay>;

/// The connection of errands: the last one of its shard, which no client ever gets.
pub(crate) fn conn(shard: ShardId) -> ConnRef {
    ConnRef::new(shard, Key { slot: u32::MAX, generation: (1 << Key::GENERATION_BITS) - 1 })
}

/// The session of the errand with this number.
pub(crate) fn session_of(shard: ShardId, number: u64) -> SessionRef {
    SessionRef::new(shard, Key::unpack(number))
}

impl Chat {
    /// Whether a request on this connection is an errand's.
    pub(crate) fn is_errand(&self, conn: ConnRef) -> bool {
        conn == self::conn(self.settings.shard)
    }

    /// The owner of the account that is created for an errand if it does not exist; none: it is not
    /// created.
    pub(crate) fn errand_makes(errand: &Errand) -> Option<Owner> {
        errand.by.is_system().then_some(Owner::Nobody)
    }

    /// Runs an errand whose account has been found.
    pub(crate) fn run_errand(
        &mut self,
        now: Now,
        ask: u64,
        (errand, id): (Errand, AccountId),
        fx: &mut Effects,
    ) {
        let Errand { by, is_operators, what } = errand;
        let inbox = by.inbox(self.settings.home, id);
        let (device, is_operator, source) = (Box::default(), is_operators, None);
        let asker = Asker { inbox, address: by, device, is_operator, source };
        self.errand_asks(now, Owed::Command(ask), (asker, what), fx);
    }

    /// Makes a request on behalf of an account.
    pub(crate) fn errand_asks(
        &mut self,
        now: Now,
        owed: Owed,
        (asker, what): (Asker, ErrandWhat),
        fx: &mut Effects,
    ) {
        self.errand_requests(now, owed, (asker, |session| request_of(session, what)), fx);
    }

    /// Makes a request on behalf of an account that is already in the form of a device's request.
    pub(crate) fn errand_requests(
        &mut self,
        now: Now,
        owed: Owed,
        (asker, request): (Asker, impl FnOnce(SessionRef) -> ChatRequest),
        fx: &mut Effects,
    ) {
        if self.is_full_of_errands() {
            return self.answer_owed(owed, ErrandAnswer::Busy, fx);
        }
        let Requester { conn, session, .. } = self.puts_errand(owed, asker);
        self.request(now, conn, request(session), fx);
    }

    /// Whether one more errand is answered as busy.
    pub(crate) fn is_full_of_errands(&self) -> bool {
        self.errands.len() >= self.settings.limits.chat.errands_max as usize
    }

    /// Registers a request on behalf of an account; returns the requester to make it as.
    pub(crate) fn puts_errand(&mut self, owed: Owed, asker: Asker) -> Requester {
        let shard = self.settings.shard;
        let session = session_of(shard, self.errands.put(UnderWay { owed, asker }));
        Requester { conn: conn(shard), session, number: 0 }
    }

    /// The account on behalf of which an errand makes its request.
    pub(crate) fn asker_of_errand(&self, session: SessionRef) -> Option<Asker> {
        self.errands.at(session.key().pack()).map(|it| it.asker.clone())
    }

    /// Whether an errand brings a bookmark up to date.
    pub(crate) fn is_of_bookmark(&self, by: Requester) -> bool {
        let errand = self.errands.at(by.session.key().pack()).filter(|_| self.is_errand(by.conn));
        errand.is_some_and(|it| matches!(it.owed, Owed::Bookmark(_)))
    }

    /// Answers an errand with the reply that a device would get.
    pub(crate) fn answer_errand(
        &mut self,
        session: SessionRef,
        told: ChatDelivery,
        fx: &mut Effects,
    ) {
        let Some(UnderWay { owed, .. }) = self.errands.take(session.key().pack()) else { return };
        self.tell_owed(owed, told, fx);
    }

    fn tell_owed(&mut self, owed: Owed, told: ChatDelivery, fx: &mut Effects) {
        match owed {
            Owed::Flow(key) => {
                self.flows.reply(key, Reply::Told(Box::new(told)));
                return;
            }
            Owed::Bookmark(number) => return self.bookmarks.chores.hears(number, told),
            Owed::Command(_) | Owed::Shard(..) => {}
        }
        let answer = match told {
            ChatDelivery::Failed { why: ChatFault::StoreFailed | ChatFault::StoreFull, .. } => {
                ErrandAnswer::StoreFailed
            }
            told => ErrandAnswer::Told(Box::new(told)),
        };
        self.answer_owed(owed, answer, fx);
    }

    /// Sends the answer of an errand to a command or another shard. The other receivers get only
    /// replies to devices, and ignore it.
    pub(crate) fn answer_owed(&mut self, owed: Owed, answer: ErrandAnswer, fx: &mut Effects) {
        match owed {
            Owed::Command(ask) => fx.answers.push((ask, answer.into())),
            Owed::Shard(shard, number) => {
                let taken = Box::new(ArrivalTaken { number, answer });
                fx.peer_messages.push((shard, ChatWord::ArrivalTaken(taken)));
            }
            Owed::Flow(_) | Owed::Bookmark(_) => {}
        }
    }

    /// Answers overdue errands as busy; returns when to be called again.
    pub(crate) fn turn_errands(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        // The operations that an errand waits for have a timeout of their own, which is over by
        // then.
        let ms_max = self.settings.limits.answer_ms_max.saturating_mul(2);
        let (over, next) = self.errands.overdue(now, ms_max);
        // The errand may have been carried out all the same.
        for it in over {
            let busy = ChatDelivery::Failed { number: 0, why: ChatFault::Busy };
            self.tell_owed(it.owed, busy, fx);
        }
        next
    }
}

impl Flow {
    /// Makes a request on behalf of an account; returns the answer that a device would get.
    pub(crate) async fn errand(&mut self, asker: &Asker, what: ErrandWhat) -> ChatDelivery {
        self.errands(asker, vec![what]).await.swap_remove(0)
    }

    /// Makes requests on behalf of an account, all at once; returns the answers in the order in
    /// which they come.
    pub(crate) async fn errands(
        &mut self,
        asker: &Asker,
        all: Vec<ErrandWhat>,
    ) -> Vec<ChatDelivery> {
        let (count, key) = (all.len(), self.key_of_all(all.len()));
        let (chat, now, fx) = self.state();
        for what in all {
            let wait = chat.puts_errand(Owed::Flow(key), asker.clone());
            chat.request(now, wait.conn, request_of(wait.session, what), fx);
        }
        self.told(count).await
    }
}

/// The request that a device would make for this errand.
pub(crate) fn request_of(session: SessionRef, what: ErrandWhat) -> ChatRequest {
    let number = 0;
    match what {
        ErrandWhat::Send(message) => ChatRequest::Send { session, number, message },
        ErrandWhat::Group(order) => ChatRequest::Group { session, number, order },
        ErrandWhat::Members(range) => ChatRequest::Members { session, number, range },
        ErrandWhat::PublicGroups(range) => ChatRequest::PublicGroups { session, number, range },
        ErrandWhat::History(range) => ChatRequest::History { session, number, range },
        ErrandWhat::Archive(range) => ChatRequest::Archive { session, number, range },
        ErrandWhat::Conversations { before, count, groups } => {
            ChatRequest::Conversations { session, number, before, count, groups }
        }
        ErrandWhat::Recall(order) => ChatRequest::Recall { session, number, order },
        ErrandWhat::Chatroom(order) => {
            let ask = ChatroomAsk::Order(*order);
            ChatRequest::Chatroom(Box::new(ChatroomRequest { session, number, ask }))
        }
        ErrandWhat::Contacts(range) => {
            let ask = PeopleAsk::Page(range);
            ChatRequest::People(Box::new(PeopleRequest { session, number, ask }))
        }
        ErrandWhat::Inbox { after, count } => ChatRequest::Pull { session, number, after, count },
        ErrandWhat::Privacy => {
            ChatRequest::Privacy { session, number, wish: PrivacyWish::default() }
        }
        ErrandWhat::Pushes => {
            let wish = Box::new(PushWish::Show);
            ChatRequest::Push { session, number, wish }
        }
        ErrandWhat::Nodes(ask) => {
            let of = None;
            ChatRequest::Nodes(Box::new(NodesRequest { session, number, of, ask: *ask }))
        }
        ErrandWhat::Room(group, ask) => {
            ChatRequest::Room(Box::new(OccupancyRequest { session, number, group, ask }))
        }
        ErrandWhat::Voice(group) => ChatRequest::Voice { session, group: Box::new(group) },
        ErrandWhat::Contact(wish) => {
            let ask = PeopleAsk::Wish(wish);
            ChatRequest::People(Box::new(PeopleRequest { session, number, ask }))
        }
    }
}
