//! Dispatch: hands each input of a shard's chat to the part that it is for.

use crate::conversations::changes::{Part, Wish};
use crate::operators::errands::Owed;
use crate::word::ReplyTo;
use crate::{Chat, ChatWord, Effects};
use base::time::{Instant, Now, earliest};
use model::chat::foreign::QueuePlace;
use model::chat::{ChatDelivery, ChatRequest};
use model::close::CloseReason;
use model::id::{ConnRef, ShardId};
use model::ports::control::Status;
use model::ports::log::{Restored, Table};
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::service::ServiceKind;
use model::timeline::{Space, TimelineId};

impl Chat {
    /// Restores an entry, row or timeline of the log. False: it cannot be read, or has no room.
    pub(super) fn restore(&mut self, restored: Restored<'_>) -> bool {
        match restored {
            Restored::Entry { timeline, seq, id, label } if timeline.space() == Space::Outbox => {
                self.last_id = self.last_id.max(id);
                self.outbox.restore((timeline, seq), id, label)
            }
            Restored::Entry { timeline: queue, seq, id, label }
                if queue.space() == Space::SendQueue =>
            {
                self.last_id = self.last_id.max(id);
                self.send_queue.restore(QueuePlace { queue, seq }, label)
            }
            Restored::Row { table: Table::ChatOwing, key, value } => {
                self.people.restore(key, value)
            }
            Restored::Row { table: Table::ChatMutes, key, value } => self.mutes.restore(key, value),
            Restored::Row { table: Table::ChatApart, key, value } => {
                self.receipts.privacy.restore(key, value) || self.erasures.restore(key, value)
            }
            Restored::Row { table: Table::ChatPushes, key, value } => {
                self.pushes.restore(self.settings.home, key, value)
            }
            Restored::Row { table: Table::Chatrooms, key, value } => {
                self.restore_chatroom(key, value)
            }
            Restored::Row { table: Table::ChatPublic, key, value } => {
                self.restore_public(key, value)
            }
            Restored::Row { table: Table::ChatTemporary, key, value } => {
                self.restore_temporary(key, value)
            }
            Restored::Timeline { timeline, .. } => {
                matches!(timeline.space(), Space::Outbox | Space::SendQueue)
            }
            _ => false,
        }
    }

    /// Begins work after everything in the log was restored.
    pub(super) fn restored(&mut self, now: Now, fx: &mut Effects) {
        self.pushes_restored(now);
        self.temporaries_restored(now);
        self.look_for_left(fx);
    }

    /// Takes a request of a protocol machine, or one made in an account's name.
    pub(crate) fn request(
        &mut self,
        now: Now,
        from: ConnRef,
        request: ChatRequest,
        fx: &mut Effects,
    ) {
        if let Some(request) = self.holds(from, request) {
            self.asks(now, from, request, fx);
        }
    }

    /// Takes back a delivery whose connection is gone.
    pub(super) fn undelivered(&mut self, to: ConnRef, delivery: ChatDelivery, fx: &mut Effects) {
        match delivery {
            // The client has gone since its login or resumption was granted.
            ChatDelivery::LoggedIn(logged_in) => {
                let (session, reason) = (logged_in.session, CloseReason::PeerClosed);
                match session.shard() == self.settings.shard {
                    true => self.closed(to, session, fx),
                    // The session is on another shard than the connection was (`Enter`).
                    false => fx.requests.push((to, ChatRequest::Closed { session, reason })),
                }
            }
            ChatDelivery::Resumed(resumed) => self.closed(to, resumed.session, fx),
            // Other deliveries are dropped, except those for a detached session.
            delivery => self.came_back(to, delivery, fx),
        }
    }

    /// Takes a message of another shard's chat service.
    pub(super) fn peer_message(
        &mut self,
        now: Now,
        from: ShardId,
        message: ChatWord,
        fx: &mut Effects,
    ) {
        match message {
            ChatWord::Request { number, request } => {
                self.requested(now, ReplyTo { shard: from, number }, request, fx);
            }
            ChatWord::Reply { number, result } => self.replied(number, result),
            ChatWord::Place(parcel) => self.place(now, from, parcel, fx),
            ChatWord::Placed { upto } => self.confirmed(now, from, upto, fx),
            ChatWord::NotPlaced => self.refused(now, from),
            ChatWord::Seek(sought) => self.sought(from, *sought, fx),
            ChatWord::Sought { number, inbox, has } => {
                self.told_of(now, (number, inbox), has, fx);
            }
            ChatWord::Fetch { number, ranges, reader } => {
                self.fetch(now, from, number, (ranges, reader), fx);
            }
            ChatWord::PushClaimed { number, route, by } => {
                self.device_claimed((from, number), (&route, by), fx);
            }
            ChatWord::PushYielded { number, more, is_done } => {
                self.device_yielded(number, (more, is_done), fx);
            }
            ChatWord::Fetched { number, result } => self.fetched(now, number, result, fx),
            ChatWord::Erased(account) => self.accounts.is_erased(&account),
            ChatWord::Delivered(told) => self.was_delivered(now, *told, fx),
            ChatWord::TransientSaid(said) => self.transient_in_group(now, *said, fx),
            ChatWord::TransientTold(told) => self.transient_told(now, &told, fx),
            ChatWord::SeatSaid(said) => self.seat_goes(now, *said, fx),
            ChatWord::SeatsLeft(left) => self.leaves_go(now, *left, fx),
            ChatWord::SeatsTold(told) => self.seats_told(&told, fx),
            ChatWord::BoundTold(told) => self.bound_told(&told, fx),
            ChatWord::VoiceAsked(asked) => self.voice_asked(now, *asked, fx),
            ChatWord::Tie(told) => self.tie_arrives(now, from, told, fx),
            ChatWord::TieHeard(receipt) => self.receipt_arrives(now, receipt, fx),
            ChatWord::Presence(told) => self.presence_told(from, &told, fx),
            ChatWord::PresenceHeard { number } => self.walk_heard(number),
            ChatWord::Probe(asked) => self.probe(from, &asked, fx),
            ChatWord::Probed(probed) => self.probed(&probed, fx),
            ChatWord::NodesTold(told) => self.nodes_told(from, &told, fx),
            ChatWord::Arrival(number, arrival) => {
                self.foreign_says(now, Owed::Shard(from, number), *arrival, fx);
            }
            ChatWord::ArrivalTaken(taken) => self.arrival_taken(*taken, fx),
            ChatWord::Chatroom(word) => self.chatroom_word(now, from, *word, fx),
            ChatWord::LastAsked(asked) => self.last_asked(from, *asked, fx),
        }
    }

    /// Continues the pending work of each part by a slice; returns when to continue.
    pub(super) fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.turn_inboxes(now, fx);
        let first = earliest([
            self.turn_errands(now, fx),
            self.turn_erasures(now),
            self.turn_bookmarks(now, fx),
            self.turn_reviews(now),
            // Sessions that end here leave their rooms behind.
            self.turn_rights(now, fx),
            self.turn_detached(now, fx),
            self.turn_looks(now, fx),
            self.turn_temporaries(now),
            self.turn_announcements(now, fx),
            self.turn_reads(now, fx),
            self.turn_reads_ahead(now, fx),
            self.turn_follows(now, fx),
            self.turn_people(now, fx),
            self.turn_nodes(now, fx),
            self.turn_outbox(now, fx),
            self.turn_queue(now, fx),
            self.turn_following(now, fx),
            self.turn_receipts(now, fx),
            self.turn_pushes(now, fx),
            self.turn_claims(now, fx),
            self.turn_chatrooms(now, fx),
            self.log.turn(now, fx),
        ]);
        // Work that came up after its part of the turn had run.
        let unsettled = self.outbox.unsettled() + self.send_queue.unsettled();
        let is_more = self.inboxes.is_untold() || unsettled > 0;
        let is_more = is_more || self.follows.has_more();
        earliest([first, is_more.then_some(now.mono)])
    }

    pub(super) fn has_news(&self) -> bool {
        self.settings.access.version() != self.sessions.version
    }

    pub(super) fn unsettled(&self) -> usize {
        self.log.unsettled() + self.outbox.unsettled() + self.send_queue.unsettled()
    }

    pub(super) fn is_behind(&self) -> bool {
        // Reading less from connections helps entries that move. Where entries do not move, new
        // ones are refused.
        self.outbox.moving_bytes() >= self.settings.undistributed_max() / 2
    }

    pub(super) fn set_draining(&mut self, now: Now, draining: bool) {
        self.logins.set_closed(draining);
        self.set_temporaries_kept(now, draining);
    }

    pub(super) fn status(&self, status: &mut Status) {
        status.chat_sessions += self.sessions.len() as u64;
        status.chat_undistributed += self.outbox.len() as u64;
        status.chat_queued_out += self.send_queue.len();
        status.chat_pushes_owing += self.pushes.owing() as u64;
        let (rooms, sessions) = self.chatrooms.count();
        status.chatrooms += rooms as u64;
        status.chatroom_sessions += sessions as u64;
    }

    pub(super) fn identity(
        &self,
        conn: ConnRef,
        subject: TraceSubject,
    ) -> Option<TraceIdentity<'_>> {
        let TraceSubject::Session(ServiceKind::Chat, session) = subject else { return None };
        let session = self.sessions.slab.at(self.sessions.bound(conn, session)?)?;
        let account = self.sessions.online.get(&session.inbox)?.address.as_str();
        Some(TraceIdentity {
            client: &session.device,
            within_user: true,
            user: Some(account),
            peer: None,
        })
    }

    pub(super) fn owner_of_timeline(&self, timeline: TimelineId, label: &[u8]) -> Option<String> {
        let name = |inbox: TimelineId| {
            self.sessions.online.get(&inbox).map(|it| format!("account {}", it.address.as_str()))
        };
        let between = || {
            let inboxes = crate::inboxes_of_label(label).into_iter();
            let names: Vec<String> = inboxes.filter_map(name).collect();
            (!names.is_empty()).then(|| names.join(" and "))
        };
        name(timeline).or_else(between)
    }

    pub(super) fn audit(&self) {
        self.audit_flows();
        self.sessions.audit();
        self.outbox.audit();
        self.conversations.audit();
        self.follows.audit();
        self.looks.audit();
        self.occupants.audit();
        self.questions.audit();
        self.groups.audit();
        self.reviews.audit();
        self.book_orders.audit();
        self.audit_people();
        self.pushes.audit();
        self.audit_nodes();
        self.audit_chatrooms();
        self.audit_public();
        self.audit_temporaries();
    }
}

impl Chat {
    /// Carries out a connection's request.
    pub(crate) fn asks(&mut self, now: Now, from: ConnRef, request: ChatRequest, fx: &mut Effects) {
        let Some(request) = self.in_pace(now, from, request, fx) else { return };
        match request {
            ChatRequest::Login(login) => self.login(now, from, login, fx),
            ChatRequest::Enter(entering) => self.enter_granted(now, from, *entering, fx),
            ChatRequest::Proceed(data) => self.proceed(now, from, data, fx),
            ChatRequest::Gone => self.gone(from),
            ChatRequest::Bind { session, device } => self.bind(now, from, session, device, fx),
            ChatRequest::Standing { session, number } => self.standing(from, (session, number), fx),
            ChatRequest::Send { session, number, message } => {
                self.send(from, (session, number), message, fx);
            }
            ChatRequest::Transient { session, number, transient } => {
                self.transient(now, from, (session, number), *transient, fx);
            }
            ChatRequest::Room(asked) => self.room(now, from, *asked, fx),
            ChatRequest::Voice { session, group } => self.voice(now, from, session, &group, fx),
            ChatRequest::Group { session, number, order } => {
                self.group_order(from, (session, number), *order, fx);
            }
            ChatRequest::Members { session, number, range } => {
                self.members(from, (session, number), *range, fx);
            }
            ChatRequest::Pull { session, number, after, count } => {
                self.pull(from, (session, number), (after, count), fx);
            }
            ChatRequest::History { session, number, range } => {
                self.history(now, from, (session, number), range, fx);
            }
            ChatRequest::Archive { session, number, range } => {
                self.archive(now, from, (session, number), range, fx);
            }
            ChatRequest::Search { session, number, range } => {
                self.search(from, (session, number), range, fx);
            }
            ChatRequest::Read { session, number, with, upto } => {
                self.wish(now, from, (session, number), (&with, Wish::Read(upto)), fx);
            }
            ChatRequest::Set { session, number, with, change } => {
                self.wish(now, from, (session, number), (&with, Wish::Set(*change)), fx);
            }
            ChatRequest::Conversation { session, number, with } => {
                self.wish(now, from, (session, number), (&with, Wish::Look), fx);
            }
            ChatRequest::Conversations { session, number, before, count, groups } => {
                let part = Part { before, count, groups };
                self.conversations(now, from, (session, number), part, fx);
            }
            ChatRequest::PublicGroups { session, number, range } => {
                self.public_groups(from, (session, number), *range, fx);
            }
            ChatRequest::Recall { session, number, order } => {
                self.recall(from, (session, number), *order, fx);
            }
            ChatRequest::Readers { session, number, range } => {
                self.readers(from, (session, number), *range, fx);
            }
            ChatRequest::Privacy { session, number, wish } => {
                self.privacy(from, (session, number), wish, fx);
            }
            ChatRequest::Upload { session, number, wish } => {
                self.upload(from, (session, number), *wish, fx);
            }
            ChatRequest::Acknowledge { session, upto } => {
                self.acknowledge(now, from, session, upto);
            }
            ChatRequest::People(asked) => self.ask_people(now, from, *asked, fx),
            ChatRequest::Redeem(redeeming) => self.redeem(now, from, *redeeming, fx),
            ChatRequest::Token(wish) => self.wants_token(from, *wish, fx),
            ChatRequest::Keep(keeping) => self.keep(from, &keeping, fx),
            ChatRequest::Detach(detaching) => self.detach(now, from, *detaching, fx),
            ChatRequest::Resume { session, id } => self.resume(now, from, (session, &id), fx),
            ChatRequest::Push { session, number, wish } => {
                self.push_wish(from, (session, number), wish, fx);
            }
            ChatRequest::Nodes(asked) => self.ask_nodes(now, from, *asked, fx),
            ChatRequest::Profile(said) => self.profile_said(now, from, *said, fx),
            ChatRequest::Chatroom(asked) => self.chatroom(from, *asked, fx),
            ChatRequest::ChatroomMissed { session, room, missed, again } => {
                if let Some(key) = self.sessions.bound(from, session) {
                    self.skips_in_chatroom(key, (room, missed, again), fx);
                }
            }
            ChatRequest::Book(asked) => self.book_wish(from, *asked, fx),
            ChatRequest::Register(wants) => self.register(from, *wants, fx),
            ChatRequest::HandOn(handing) => self.hand_on(now, from, *handing, fx),
            ChatRequest::HandTo(handing) => self.hand_to(now, from, *handing, fx),
            ChatRequest::Closed { session, .. } => self.closed(from, session, fx),
        }
    }
}
