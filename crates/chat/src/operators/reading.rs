//! The rate of queries about others: people, their published items, their devices, groups.
//!
//! An account's queries are counted together, over all its devices and protocols; those of another
//! server's domain likewise, since it can make names at no cost. Queries about the account itself,
//! and queries of operators, have no rate. Invariant: a query beyond the rate is answered at once,
//! and costs other accounts nothing.

use crate::{Chat, Effects};
use base::hash::HashKey;
use base::pace::buckets::Buckets;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, NodesAnswer, NodesAsk, NodesFault, OccupancyAsk,
};
use model::counters::ChatCounter;
use model::id::ConnRef;
use model::limits::ChatLimits;
use model::timeline::TimelineId;

/// Token buckets of queries.
pub(crate) struct ReadRates {
    accounts: Buckets<TimelineId>,
    domains: Buckets<u64>,
    home: HashKey,
}

impl ReadRates {
    pub(crate) fn new(chat: &ChatLimits, home: HashKey) -> ReadRates {
        let most = chat.rates_known_max as usize;
        let rate = (chat.reads_an_account_per_s.into(), chat.reads_an_account_burst.into());
        ReadRates { accounts: Buckets::new(rate, most), domains: Buckets::new(rate, most), home }
    }

    /// Applies changed limits.
    pub(crate) fn configure(&mut self, chat: &ChatLimits) {
        let most = chat.rates_known_max as usize;
        let rate = (chat.reads_an_account_per_s.into(), chat.reads_an_account_burst.into());
        self.accounts.set_rate(rate, most);
        self.domains.set_rate(rate, most);
    }

    fn takes(&mut self, now: Now, (address, inbox): (&AccountAddress, Option<TimelineId>)) -> bool {
        let taken = match inbox {
            Some(inbox) => self.accounts.take(now, inbox, 1),
            None => self.domains.take(now, self.home.of(&[address.domain().as_bytes()]), 1),
        };
        taken.is_ok()
    }
}

impl Chat {
    /// The request, if its rate admits it; a query about others beyond the rate is refused here.
    pub(crate) fn in_pace(
        &mut self,
        now: Now,
        from: ConnRef,
        mut request: ChatRequest,
        fx: &mut Effects,
    ) -> Option<ChatRequest> {
        if !is_about_others(&request) {
            return Some(request);
        }
        let session = request.session()?;
        let Some(asker) = self.asker(from, session) else { return Some(request) };
        let is_self = |of: &Addressee| of.within(asker.address.domain()) == asker.address;
        let is_own = matches!(&request, ChatRequest::Nodes(asked)
            if asked.of.as_ref().is_none_or(is_self));
        let is_here = !self.settings.is_foreign(&asker.address);
        let inbox = is_here.then_some(asker.inbox);
        if is_own || asker.is_operator || self.read_rates.takes(now, (&asker.address, inbox)) {
            return Some(request);
        }
        fx.counters.count(ChatCounter::ReadsLimited);
        let is_of_nodes = matches!(request, ChatRequest::Nodes(_));
        let number = *request.number_mut()?;
        let answer = match is_of_nodes {
            true => {
                let result = Err(NodesFault::RateLimited);
                ChatDelivery::Nodes(Box::new(NodesAnswer { number, result }))
            }
            false => ChatDelivery::Failed { number, why: ChatFault::RateLimited },
        };
        self.answer_session((from, session), answer, fx);
        None
    }
}

/// Whether a request asks about another account, or about a group.
fn is_about_others(request: &ChatRequest) -> bool {
    match request {
        ChatRequest::Members { .. }
        | ChatRequest::PublicGroups { .. }
        | ChatRequest::Readers { .. } => true,
        ChatRequest::HandTo(handing) => handing.is_question,
        // As many answers as questions are relayed.
        ChatRequest::Room(asked) => matches!(&asked.ask, OccupancyAsk::Relay { .. }),
        ChatRequest::Nodes(asked) => matches!(
            asked.ask,
            NodesAsk::Items(_)
                | NodesAsk::Names
                | NodesAsk::Node(_)
                | NodesAsk::Subscriptions
                | NodesAsk::LastThere
        ),
        _ => false,
    }
}
