//! The log, the event feed, the questions of access and the directory as one shard of a real server
//! sees them.
//!
//! This module notes which appends are Reports, so that the webhooks' couriers are woken when one
//! is on stable storage and not at every push. Invariant: a ticket is noted from its call to its
//! completion.

use super::SharedParts;
use super::notices::Notices;
use super::periodic::memory;
use super::presence_setup::history::HistoryInbox;
use super::presence_setup::replication::ReplicatorInbox;
use super::storage::Storage;
use crate::access::Entrance;
use crate::shard_logic::outside::Outside;
use crate::switchboard::reviews::ReviewDesk;
use admin::Feed;
use base::time::{Instant, Now};
use federation::WayOut;
use guard::bans::BanQuery;
use guard::bans::offences::Offences;
use model::chat::foreign::{ForeignRefused, ForeignWord};
use model::id::ShardId;
use model::ports::bans::BanAct;
use model::ports::log::{Call, Completion, Party, Ticket, Write};
use model::ports::presence::directory::{Batch, DirectoryError};
use model::ports::requests::{PortReply, PortRequest};
use model::pressure::{Gauge, Pressure};
use model::service::{Event, ServiceKind};
use model::timeline::Space;
use net::executor::exchange::AwakeThreads;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Time between two times that a shard's allocator gives back, while memory is short.
const GIVE_BACK_TIME: Duration = Duration::from_millis(250);

/// Clients and devices whose disconnects are counted, a shard.
const LEAVING_MAX: usize = 50_000;

/// The log and the event feed of a real server.
pub struct ServerOutside {
    shard: ShardId,
    storage: Arc<Storage>,
    feed: Arc<Feed>,
    entrance: Arc<Entrance>,
    /// Reviews messages, where a hook is configured.
    reviews: Option<Arc<ReviewDesk>>,
    /// The way to the directory's thread, where there is one.
    copies: Option<ReplicatorInbox>,
    /// The way to the history, where one is kept.
    history: Option<HistoryInbox>,
    gauge: Arc<Gauge>,
    /// When the allocator is made to give back next.
    gives_back_at: Instant,
    awake: Arc<AwakeThreads>,
    /// Notifies devices that are not connected, and receives the answers.
    notices: Notices,
    /// The way to other domains, where there are any.
    way_out: Option<WayOut>,
    /// Tickets of Reports that are on their way to the log.
    reports: HashSet<(ServiceKind, Ticket)>,
    /// How often clients and devices went of late.
    leaving: Offences<Box<str>>,
}

impl ServerOutside {
    pub(super) fn new(shard: ShardId, parts: &SharedParts<'_>) -> ServerOutside {
        ServerOutside {
            shard,
            storage: parts.storage.clone(),
            feed: parts.feed.clone(),
            entrance: parts.entrance.clone(),
            reviews: parts.reviews.clone(),
            copies: parts.presence.copies(),
            history: parts.presence.history(),
            gauge: parts.gauge.clone(),
            gives_back_at: Instant::default(),
            awake: parts.awake.clone(),
            notices: parts.notices.clone(),
            way_out: parts.way_out.clone(),
            reports: HashSet::new(),
            leaving: Offences::new(LEAVING_MAX),
        }
    }
}

impl Outside for ServerOutside {
    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        let reports = calls.iter().filter(|(_, call)| is_report(call));
        self.reports.extend(reports.map(|(ticket, _)| (service, *ticket)));
        let party = Party::Service(service, self.shard);
        let refused = self.storage.logs.submit(party, self.shard.0, calls).err();
        let refused: Vec<Ticket> =
            refused.into_iter().flatten().map(|(ticket, _)| ticket).collect();
        for ticket in &refused {
            self.reports.remove(&(service, *ticket));
        }
        refused
    }

    fn completed(&mut self, service: ServiceKind, completions: &[Completion]) {
        if self.reports.is_empty() {
            return;
        }
        let is_noted = |(ticket, _): &&Completion| self.reports.remove(&(service, *ticket));
        let noted = completions.iter().filter(is_noted);
        if noted.filter(|(_, result)| result.is_ok()).count() > 0 {
            self.storage.backlog.appended();
        }
    }

    fn events_wanted(&self, service: ServiceKind) -> bool {
        self.feed.wanted(service)
    }

    fn publish(&mut self, events: Vec<Event>) -> usize {
        self.feed.publish(events)
    }

    fn messages_wanted(&self) -> bool {
        self.feed.messages_wanted()
    }

    fn pressure(&self) -> Pressure {
        self.gauge.now()
    }

    fn give_back(&mut self, now: Now) -> Option<Instant> {
        if self.gauge.now() == Pressure::Calm {
            return None;
        }
        if self.gives_back_at <= now.mono {
            memory::give_back();
            self.gives_back_at = now.after(GIVE_BACK_TIME);
        }
        Some(self.gives_back_at)
    }

    fn threads(&self) -> u32 {
        self.awake.count()
    }

    fn ask_port(
        &mut self,
        service: ServiceKind,
        number: u64,
        request: PortRequest,
    ) -> Result<(), PortReply> {
        let by = (service, self.shard);
        match request {
            PortRequest::Access(question) => {
                self.entrance.resolve(by, number, question).map_err(PortReply::Access)
            }
            PortRequest::Review(review) => match &self.reviews {
                Some(desk) => desk.put(by, number, review).map_err(PortReply::Review),
                None => Err(PortRequest::Review(review).without_port()),
            },
            PortRequest::Book(order) => {
                self.entrance.order(by, number, order).map_err(|fault| PortReply::Book(Err(fault)))
            }
            PortRequest::Notify(order) => self
                .notices
                .hand_over(by, number, order, self.way_out.as_ref())
                .map_err(PortReply::Notify),
        }
    }

    fn is_banned(
        &self,
        now: Now,
        address: Option<IpAddr>,
        device: Option<&str>,
        act: BanAct,
    ) -> bool {
        let whom = BanQuery { address, client: device, user: None };
        self.entrance.ban_book().bans_in_force().bans(now.unix_s(), &whom, act)
    }

    fn bans_version(&self) -> u64 {
        self.entrance.ban_book().bans_in_force().version()
    }

    fn asked_again(&self, version: u64) {
        self.entrance.ban_book().asked_again(self.shard, version);
    }

    fn login_failed(&self, now: Now, peer: SocketAddr, protocol: &str, device: &str) {
        let book = self.entrance.ban_book();
        book.login_failed(now.unix_s(), peer.ip(), protocol, (None, Some(device)));
    }

    fn left(&mut self, now: Now, who: &str) {
        let book = self.entrance.ban_book();
        let Some(rule) = book.flapping() else { return };
        if self.leaving.see(now.unix_s(), rule, who.into()) {
            book.flaps(who, rule.ban_s);
        }
    }

    fn go_out(&mut self, words: Vec<ForeignWord>) -> (ForeignRefused, Vec<ForeignWord>) {
        match &self.way_out {
            Some(way) => way.put(words),
            None => (ForeignRefused::default(), words),
        }
    }

    fn copy(&mut self, batches: Vec<Batch>) -> Result<(), DirectoryError> {
        match &self.copies {
            Some(copies) => copies.offer(self.shard, batches),
            None => Err(DirectoryError::Refused("no directory is configured".into())),
        }
    }

    fn keeps_history(&self) -> bool {
        self.history.is_some()
    }

    fn remember(&mut self, lines: &mut String) {
        if let Some(history) = &self.history {
            history.offer(lines);
        }
    }
}

fn is_report(call: &Call) -> bool {
    let Call::Write(Write::Append(append)) = call else { return false };
    append.to.first().is_some_and(|timeline| timeline.space() == Space::Reports)
}
