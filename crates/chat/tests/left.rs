//! Messages that a crash left between a conversation and its inboxes: each inbox is searched once
//! at a time, a limited number at once, and in the end has every message once and in order.

#[path = "house/plain.rs"]
mod plain;
#[path = "house/shard.rs"]
mod shard;

use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatWord, Settings};
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::ChatCommand;
use model::ports::log::{Call, Done, Pull, Read, StoreError, Ticket, Write};
use model::service::Service;
use model::timeline::{Space, TimelineId};
use shard::Shard;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed;

const SHARDS: u16 = 2;
const MEMBERS: usize = 40;
const AT_ONCE: usize = 4;
const SAID: u8 = 150;

/// Shards that communicate, and their calls to their logs.
struct Town {
    settings: Settings,
    shards: Vec<Shard>,
    now: Now,
    /// Calls to the logs that are not answered.
    asked: Vec<Vec<(Ticket, Call)>>,
    sent: Vec<u64>,
    /// All inboxes that were written, by their shards.
    inboxes: BTreeSet<(usize, TimelineId)>,
}

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

/// The inbox that a call reads.
fn inbox_of(call: &Call) -> Option<TimelineId> {
    match call {
        Call::Read(Read::Pull(pull)) => Some(pull.timeline),
        _ => None,
    }
    .filter(|timeline| timeline.space() == Space::Inbox)
}

/// Whether a call appends to inboxes.
fn distributes(call: &Call) -> bool {
    let Call::Write(Write::Append(append)) = call else { return false };
    append.to.iter().any(|it| it.space() == Space::Inbox)
}

impl Town {
    fn new() -> Town {
        let chat = ChatLimits {
            left_inboxes_at_once_max: AT_ONCE as u32,
            group_written_members_max: 0,
            sends_a_group_per_s: 0,
            sends_an_account_per_s: 0,
            ..ChatLimits::default()
        };
        let limits = Arc::new(Limits { chat, ..Limits::default() });
        let settings = Settings { limits, ..plain::settings(ShardId(0), SHARDS) };
        Town {
            shards: (0..SHARDS).map(|n| Shard::new(&settings, n)).collect(),
            asked: vec![Vec::new(); usize::from(SHARDS)],
            settings,
            now: Now::new(Instant::default(), 1_700_000_000_000),
            sent: Vec::new(),
            inboxes: BTreeSet::new(),
        }
    }

    /// Lets the shards continue, except for calls to their logs that are withheld.
    fn goes_on(&mut self, withheld: impl Fn(&Call) -> bool) {
        loop {
            let (mut is_still, mut post) = (true, Vec::<(u16, ShardId, ChatWord)>::new());
            for (n, shard) in self.shards.iter_mut().enumerate() {
                Service::turn(&mut shard.chat, self.now, &mut shard.fx);
                self.asked[n].append(&mut shard.fx.calls);
                let (kept, calls) = std::mem::take(&mut self.asked[n])
                    .into_iter()
                    .partition(|(_, call)| withheld(call));
                self.asked[n] = kept;
                for (ticket, call) in calls {
                    is_still = false;
                    if let Call::Write(Write::Append(append)) = &call {
                        let inboxes = append.to.iter().filter(|it| it.space() == Space::Inbox);
                        self.inboxes.extend(inboxes.map(|inbox| (n, *inbox)));
                    }
                    let answer = shard.log.answer(&call);
                    Service::complete(&mut shard.chat, self.now, (ticket, answer), &mut shard.fx);
                }
                let told = shard.fx.peer_messages.drain(..);
                post.extend(told.map(|(to, word)| (n as u16, to, word)));
                for (_, delivery) in shard.fx.deliveries.drain(..) {
                    if let ChatDelivery::Sent { id, .. } = delivery {
                        self.sent.push(id);
                    }
                }
            }
            if is_still && post.is_empty() {
                return;
            }
            for (from, to, word) in post {
                let shard = &mut self.shards[usize::from(to.0)];
                let from = ShardId(from);
                Service::peer_message(
                    &mut shard.chat,
                    self.now,
                    from,
                    crossed(word),
                    &mut shard.fx,
                );
            }
        }
    }

    fn passes(&mut self, ms: u64) {
        let later = self.now.after(Duration::from_millis(ms));
        self.now = Now::new(later, self.now.wall_ms + ms);
    }

    fn home(&self, account: &AccountAddress) -> usize {
        usize::from(base::hash::home(account.home_hash(plain::HOME), SHARDS))
    }

    fn device(&mut self, name: &str) -> (ConnRef, SessionRef) {
        let account = address(name);
        let n = self.home(&account);
        let conn = ConnRef::new(ShardId(n as u16), Key { slot: 1, generation: 0 });
        let login = ChatRequest::Login(Box::new(plain::login(account, "phone")));
        let shard = &mut self.shards[n];
        Service::request(&mut shard.chat, self.now, conn, login, &mut shard.fx);
        loop {
            let shard = &mut self.shards[n];
            Service::turn(&mut shard.chat, self.now, &mut shard.fx);
            if let Some((_, ChatDelivery::LoggedIn(it))) = shard.fx.deliveries.pop() {
                return (conn, it.session);
            }
            for (ticket, call) in std::mem::take(&mut shard.fx.calls) {
                let answer = shard.log.answer(&call);
                Service::complete(&mut shard.chat, self.now, (ticket, answer), &mut shard.fx);
            }
        }
    }

    fn asks(&mut self, conn: ConnRef, request: ChatRequest, withheld: impl Fn(&Call) -> bool) {
        let shard = &mut self.shards[usize::from(conn.shard().0)];
        Service::request(&mut shard.chat, self.now, conn, request, &mut shard.fx);
        self.goes_on(withheld);
    }

    /// Kills all shards, and starts them again.
    fn dies(&mut self) {
        for (n, shard) in self.shards.iter_mut().enumerate() {
            shard.restart(self.now, &self.settings, n as u16);
            self.asked[n].clear();
        }
    }

    /// Inboxes that are being searched, by shard.
    fn scanned(&self) -> Vec<Vec<TimelineId>> {
        let of = |calls: &Vec<(Ticket, Call)>| {
            calls.iter().filter_map(|(_, call)| inbox_of(call)).collect()
        };
        self.asked.iter().map(of).collect()
    }

    /// Numbers of the messages in each inbox.
    fn inboxes(&mut self) -> BTreeMap<TimelineId, Vec<u64>> {
        let mut all = BTreeMap::new();
        for &(n, timeline) in &self.inboxes {
            let (from, count_max, bytes_max) = (0, 1_000, 1 << 20);
            let pull = Pull { timeline, from, backwards: false, count_max, bytes_max };
            let page = self.shards[n].log.answer(&Call::Read(Read::Pull(pull)));
            let Ok(Done::Page(page)) = page else { panic!("{page:?}") };
            assert!(!page.more);
            let ids = page.messages.iter().map(|placed| placed.message.id);
            all.insert(timeline, ids.collect());
        }
        all
    }
}

/// A crash after many messages to a group, of which some are in some inboxes.
fn killed() -> Town {
    let mut town = Town::new();
    let members: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}@a.example")).collect();
    for member in &members {
        let shard = town.home(&address(member));
        let (shard, open) = (&mut town.shards[shard], ChatCommand::Open(address(member)));
        Service::command(&mut shard.chat, town.now, 7, open, &mut shard.fx);
    }
    town.goes_on(|_| false);
    let (conn, session) = town.device("ann");
    let members = members.iter().map(|it| Addressee::from(address(it))).collect();
    let group: Addressee = address("yard@conference.a.example").into();
    let order = GroupOrder {
        group: Some(group.clone()),
        client_id: ClientMessageId([255; 16]),
        verb: GroupVerb::Create,
        title: "yard".into(),
        members,
    };
    let request = ChatRequest::Group { session, number: 1, order: Box::new(order) };
    town.asks(conn, request, |_| false);
    for n in 0..SAID {
        let (client_id, content) = (ClientMessageId([n; 16]), Content::text("hello"));
        let message = Box::new(NewMessage { to: group.clone(), client_id, content });
        let request = ChatRequest::Send { session, number: u32::from(n) + 2, message };
        town.asks(conn, request, |call| n >= SAID / 3 && distributes(call));
    }
    assert_eq!(town.sent.len(), usize::from(SAID), "all is stored");
    town.dies();
    town
}

/// Asserts that every message is in every inbox, once and in order.
fn is_whole(town: &mut Town) {
    let sent = town.sent.clone();
    let inboxes = town.inboxes();
    assert_eq!(inboxes.len(), MEMBERS + 1);
    for (inbox, ids) in inboxes {
        assert_eq!(ids[1..], sent, "{inbox:?}");
    }
}

#[test]
fn so_many_inboxes_are_asked_at_once_and_each_is_gone_through_once_at_a_time() {
    let mut town = killed();
    let mut most = 0;
    loop {
        // The log is slow with inboxes: it reads one page at a time.
        for _ in 0..3 {
            town.goes_on(|call| inbox_of(call).is_some());
            town.passes(6_000);
        }
        town.goes_on(|call| inbox_of(call).is_some());
        let scanned = town.scanned();
        for all in &scanned {
            let once: BTreeSet<_> = all.iter().collect();
            assert_eq!(once.len(), all.len(), "one is gone through twice at the same time");
        }
        let count = scanned.iter().map(Vec::len).sum::<usize>();
        assert!(count <= AT_ONCE * usize::from(SHARDS), "{count} at once");
        most = most.max(count);
        let Some(n) = (0..scanned.len()).max_by_key(|n| scanned[*n].len()) else { break };
        let Some(first) = scanned[n].first().copied() else { break };
        let at = town.asked[n].iter().position(|(_, call)| inbox_of(call) == Some(first));
        let (ticket, call) = town.asked[n].remove(at.expect("it is there"));
        let shard = &mut town.shards[n];
        let answer = shard.log.answer(&call);
        Service::complete(&mut shard.chat, town.now, (ticket, answer), &mut shard.fx);
    }
    assert!(most >= AT_ONCE, "{most}");
    is_whole(&mut town);
}

#[test]
fn whatever_is_refused_or_lost_on_the_way_all_of_it_gets_there() {
    let mut town = killed();
    for round in 0..400_u32 {
        town.goes_on(|call| inbox_of(call).is_some());
        for n in 0..town.asked.len() {
            for (at, (ticket, call)) in std::mem::take(&mut town.asked[n]).into_iter().enumerate() {
                let shard = &mut town.shards[n];
                let answer = match (round as usize + at).is_multiple_of(3) {
                    true => Err(StoreError::Busy),
                    false => shard.log.answer(&call),
                };
                Service::complete(&mut shard.chat, town.now, (ticket, answer), &mut shard.fx);
                if round.is_multiple_of(5) {
                    shard.fx.peer_messages.retain(|(_, word)| !is_told(word));
                }
            }
        }
        if round.is_multiple_of(2) {
            town.passes(6_000);
        }
        if round == 20 {
            town.dies();
        }
    }
    // Queries that were lost are repeated after a time.
    for _ in 0..20 {
        town.goes_on(|_| false);
        town.passes(6_000);
    }
    is_whole(&mut town);
}

fn is_told(word: &ChatWord) -> bool {
    matches!(word, ChatWord::Sought { .. } | ChatWord::Seek(_))
}
