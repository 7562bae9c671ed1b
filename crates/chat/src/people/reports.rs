//! Reports of abuse: an account reports another one, and the operator gets an event with evidence.
//!
//! ```text
//! asked ─► wanted, and within the rate? ─► the named messages, one by one ─► event ─► done
//! ```
//! Nothing is stored. Invariant: an event shows a message only if the reported account sent it to
//! the reporter, in its present state; a report that is dropped is counted, and answered like
//! any other.

use crate::service::flow::Flow;
use crate::sessions::{Asker, Requester};
use crate::{Chat, Effects};
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ABUSE_TEXT_BYTES_MAX, ARCHIVE_NAMED_MAX, AbuseReport, ArchiveId, ArchiveRange, ChatDelivery,
    ChatFault, ChatMessage, ReportedAbuse,
};
use model::counters::ChatCounter;
use model::ports::chat::ErrandWhat;
use model::ports::events::{ChatEvent, ChatWhat};
use std::sync::Arc;

/// Largest number of reports under way on a shard. One more is dropped.
const REPORTS_MAX: usize = 64;

/// Collects the evidence of a report and publishes it.
async fn report(
    mut flow: Flow,
    (asker, wait): (Asker, Requester),
    reported: AccountAddress,
    report: Box<AbuseReport>,
) {
    let AbuseReport { of, reason, text, mut named, unread, consent } = *report;
    let mut left = named.len() as u32;
    let all = left + unread;
    let mut found = Vec::new();
    if reported.is_domain() {
        (named, left) = (Vec::new(), 0); // a message has an account
    }
    // Each by itself, since a page with an unknown id is refused whole; and one after the other,
    // so that a report never has more than one read under way.
    for id in named {
        match read(&mut flow, &asker, (&of, id)).await {
            Ok(messages) => found.extend(messages.into_iter().filter(|it| it.from == reported)),
            Err(ChatFault::UnknownMessage) => {}
            Err(_) => break,
        }
        left -= 1;
    }
    let (chat, now, fx) = flow.state();
    chat.reports -= 1;
    let bytes_max = chat.settings.limits.chat.abuse_report_bytes_max as usize;
    let messages = evidence(found, bytes_max - text.len());
    let (unreadable, left_out) = (left, all - left - messages.len() as u32);
    fx.counters.count(ChatCounter::AbuseReports);
    let reporter = asker.address;
    let what = ChatWhat::AbuseReported(Arc::new(ReportedAbuse {
        reporter,
        reported,
        reason,
        text,
        messages,
        left_out,
        unreadable,
        consent,
    }));
    fx.tell(ChatEvent { at_ms: now.wall_ms, what });
    chat.answer_people(wait, Ok(()), fx);
}

/// The message with this id in the account's conversation with another one.
async fn read(
    flow: &mut Flow,
    asker: &Asker,
    (with, id): (&Addressee, ArchiveId),
) -> Result<Vec<Arc<ChatMessage>>, ChatFault> {
    if flow.state().0.is_full_of_errands() {
        return Err(ChatFault::Busy);
    }
    let (with, named) = (Some(with.clone()), vec![id]);
    let range = ArchiveRange { with, named, ..ArchiveRange::whole(false, 1) };
    match flow.errand(asker, ErrandWhat::Archive(Box::new(range))).await {
        ChatDelivery::Archive(page) => Ok(page.messages),
        ChatDelivery::Failed { why, .. } => Err(why),
        _ => Err(ChatFault::StoreFailed),
    }
}

/// The messages in their order, each once, up to so many bytes.
fn evidence(mut messages: Vec<Arc<ChatMessage>>, bytes_max: usize) -> Vec<Arc<ChatMessage>> {
    messages.sort_by_key(|message| message.seq);
    messages.dedup_by_key(|message| message.seq);
    let mut bytes = 0;
    messages.retain(|message| {
        let weight = message.weight();
        let fits = bytes + weight <= bytes_max;
        bytes += if fits { weight } else { 0 };
        fits
    });
    messages
}

impl Chat {
    /// Handles an account's report of another one.
    pub(super) fn report_abuse(
        &mut self,
        now: Now,
        (asker, wait): (Asker, Requester),
        asked: Box<AbuseReport>,
        fx: &mut Effects,
    ) {
        let reported = asked.of.within(asker.address.domain());
        let is_too_large =
            asked.text.len() > ABUSE_TEXT_BYTES_MAX || asked.named.len() > ARCHIVE_NAMED_MAX;
        if is_too_large || reported == asker.address {
            return self.answer_people(wait, Err(ChatFault::Invalid), fx);
        }
        let is_on = self.settings.limits.chat.abuse_reports_an_hour_max > 0;
        // A guest that comes again is another account, whose rate limits nothing.
        let may = is_on
            && fx.events_wanted
            && !self.guests.contains_key(&asker.inbox)
            && self.reports < REPORTS_MAX
            && !self.is_full_of_errands()
            && self.abuse_rates.take(now, asker.inbox, 1).is_ok();
        if may && self.begin(|flow| report(flow, (asker, wait), reported, asked)) {
            self.reports += 1;
        } else {
            fx.counters.count(ChatCounter::AbuseReportsRefused);
            self.answer_people(wait, Ok(()), fx);
        }
    }
}
