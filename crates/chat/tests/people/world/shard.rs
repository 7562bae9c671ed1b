//! A shard: its service, its log, and the calls between them.

use super::{Names, service};
use base::prng::Prng;
use base::time::Now;
use chat::{ChatService, ChatWord, Effects};
use model::chat::{ChatDelivery, ChatRequest};
use model::id::{ConnRef, ShardId};
use model::limits::{ChatLimits, Limits, NotificationLimits};
use model::ports::chat::ChatAnswer;
use model::ports::log::{Append, Call, Completion, Read, StoreError, Ticket, Write};
use model::ports::notifications::NotificationOrder;
use model::ports::requests::PortRequest;
use model::service::Service;
use model::timeline::Space;
use std::collections::VecDeque;
use std::sync::Arc;
use testkit::log::{LogOptions, MemoryLog};

pub struct Shard {
    id: ShardId,
    shards: u16,
    /// Largest number of members of a group that is written.
    border: u32,
    names: Arc<Names>,
    pub chat: ChatService,
    pub(super) fx: Effects,
    pub(super) log: MemoryLog,
    calls: VecDeque<(Ticket, Call)>,
    /// Reads that are carried out later than calls behind them.
    reads: Vec<(Ticket, Read)>,
    /// Answers to reads that come later than those to calls behind them.
    late: Vec<Completion>,
    done: VecDeque<Completion>,
    /// The last append to inboxes that the log has refused.
    refused: Option<Ticket>,
    /// Answers to commands, with their numbers.
    pub answers: Vec<(u64, ChatAnswer)>,
    /// Push notifications for offline devices.
    pub notifications: VecDeque<(u64, NotificationOrder)>,
}

type Deliveries = Vec<(ConnRef, ChatDelivery)>;

/// Small limits, so that they are reached.
pub fn limits(group_written_members_max: u32) -> Limits {
    let chat = ChatLimits {
        inline_a_session_max: 3,
        page_messages_max: 5,
        accounts_known_max: 64,
        group_members_max: 3,
        group_banned_max: 2,
        groups_an_account_max: 14,
        groups_made_burst: 12,
        group_members_known_max: 12,
        group_written_members_max,
        drawn_ahead_max: 6,
        drawn_for_list_max: 200,
        drawn_together_max: 3,
        followed_known_max: 3,
        conversations_known_max: 14,
        conversations_stored_after: 3,
        amended_bytes_max: 256,
        search_entries_max: 128,
        transients_a_minute_max: 120,
        transient_bytes_max: 64,
        transient_members_max: 2,
        ..ChatLimits::default()
    };
    let notifications = NotificationLimits {
        registrations_an_account_max: 3,
        conversations_at_once_max: 2,
        window_ms: 500,
        retry_ms_max: 20_000,
        accounts_at_once_max: 2,
        ..NotificationLimits::default()
    };
    Limits { chat, notifications, ..Limits::default() }
}

impl Shard {
    pub fn new(id: ShardId, shards: u16, border: u32, names: &Arc<Names>) -> Shard {
        Shard {
            id,
            shards,
            border,
            names: names.clone(),
            chat: service((id, shards), border, names),
            fx: Effects::default(),
            log: MemoryLog::new(LogOptions::default()),
            calls: VecDeque::new(),
            reads: Vec::new(),
            late: Vec::new(),
            done: VecDeque::new(),
            refused: None,
            answers: Vec::new(),
            notifications: VecDeque::new(),
        }
    }

    pub fn request(&mut self, now: Now, from: ConnRef, request: ChatRequest) {
        Service::request(&mut self.chat, now, from, request, &mut self.fx);
    }

    pub fn undelivered(&mut self, now: Now, to: ConnRef, delivery: ChatDelivery) {
        Service::undelivered(&mut self.chat, now, to, delivery, &mut self.fx);
    }

    pub fn hears(&mut self, now: Now, from: ShardId, message: ChatWord) {
        Service::peer_message(&mut self.chat, now, from, message, &mut self.fx);
    }

    pub fn turn(&mut self, now: Now) {
        Service::turn(&mut self.chat, now, &mut self.fx);
    }

    pub fn is_busy(&self) -> bool {
        !(self.calls.is_empty()
            && self.reads.is_empty()
            && self.late.is_empty()
            && self.done.is_empty())
    }

    /// Lets the log carry out a call.
    pub fn log_works(&mut self, rng: &mut Prng) {
        let is_idle = self.calls.is_empty() && self.reads.is_empty();
        if !self.late.is_empty() && (is_idle || rng.one_in(4)) {
            let at = rng.below(self.late.len() as u64) as usize;
            return self.done.push_back(self.late.remove(at));
        }
        if !self.reads.is_empty() && (self.calls.is_empty() || rng.one_in(3)) {
            let (ticket, read) = self.reads.remove(rng.below(self.reads.len() as u64) as usize);
            let answer = (ticket, self.log.answer(&Call::Read(read)));
            match rng.one_in(3) {
                true => self.late.push(answer),
                false => self.done.push_back(answer),
            }
            return;
        }
        let Some((ticket, call)) = self.calls.pop_front() else { return };
        match call {
            Call::Write(Write::Append(append)) if self.is_behind(&append) => {
                self.refused = Some(ticket);
                self.done.push_back((ticket, Err(StoreError::Busy)));
            }
            Call::Read(read) if rng.one_in(2) => self.reads.push((ticket, read)),
            call => self.done.push_back((ticket, self.log.answer(&call))),
        }
    }

    /// Lets the log refuse the next call, if that appends to inboxes or to the queue for other
    /// servers; it may have room for calls behind it.
    pub fn log_refuses(&mut self) {
        let next = self.calls.pop_front_if(|(_, call)| match call {
            Call::Write(Write::Append(it)) => {
                it.to.iter().any(|to| [Space::Inbox, Space::SendQueue].contains(&to.space()))
            }
            _ => false,
        });
        if let Some((ticket, _)) = next {
            self.refused = Some(ticket);
            self.done.push_back((ticket, Err(StoreError::Full)));
        }
    }

    /// Whether an append would overtake one that was refused, as a log sees it.
    fn is_behind(&self, append: &Append) -> bool {
        append.heard.zip(self.refused).is_some_and(|(heard, refused)| refused >= heard)
    }

    /// Completes a call of the service.
    pub fn completes(&mut self, now: Now) {
        if let Some(completion) = self.done.pop_front() {
            Service::complete(&mut self.chat, now, completion, &mut self.fx);
        }
    }

    /// Takes the effects of the service. If `is_full`, the log has no room and refuses all calls at
    /// once.
    pub fn take(&mut self, now: Now, is_full: bool) -> (Deliveries, Vec<(ShardId, ChatWord)>) {
        if is_full {
            for (ticket, _) in std::mem::take(&mut self.fx.calls) {
                let busy = (ticket, Err(StoreError::Busy));
                Service::complete(&mut self.chat, now, busy, &mut self.fx);
            }
        }
        self.calls.extend(self.fx.calls.drain(..));
        self.answers.append(&mut self.fx.answers);
        let requests = self.fx.port_requests.drain(..);
        self.notifications.extend(requests.map(|(number, request)| match request {
            PortRequest::Notify(order) => (number, *order),
            other => panic!("everybody is admitted at once: {other:?}"),
        }));
        (std::mem::take(&mut self.fx.deliveries), std::mem::take(&mut self.fx.peer_messages))
    }

    /// Kills the shard, and starts it again. Some open calls are carried out all the same, from the
    /// front on.
    pub fn restart(&mut self, now: Now, rng: &mut Prng) {
        for _ in 0..rng.below(self.calls.len() as u64 + 1) {
            match self.calls.pop_front() {
                Some((ticket, Call::Write(Write::Append(it)))) if self.is_behind(&it) => {
                    self.refused = Some(ticket);
                }
                Some((_, call)) => _ = self.log.answer(&call),
                None => {}
            }
        }
        (self.calls, self.done, self.reads, self.late) = Default::default();
        self.refused = None;
        self.notifications.clear();
        let chat = service((self.id, self.shards), self.border, &self.names);
        (self.chat, self.fx) = (chat, Effects::default());
        self.log.restoration().each(|restored| {
            assert!(Service::restore(&mut self.chat, now, restored), "it is its own");
            true
        });
        Service::restored(&mut self.chat, now, &mut self.fx);
    }

    pub fn audit(&self) {
        Service::audit(&self.chat);
    }
}
