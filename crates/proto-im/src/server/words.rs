//! Words of a session other than messages, at the seam: transients and searches become the model's
//! words, and go out (IM 16).

use super::Out;
use super::pages::{bytes_of, entry_of, fitting};
use super::session::{Session, most, refuse, write_failed};
use crate::codec::search::{FoundFields, SearchFields};
use crate::codec::server_frame::ServerFrame;
use crate::codec::transient::{TransientFields, state_of};
use model::account::Addressee;
use model::chat::{ChatFault, ChatRequest, NewTransient, SearchPage, SearchRange, Transient};
use model::counters::ChatCounter;
use model::timeline::Seq;

impl Session {
    /// The device searches what its account has said and heard.
    pub(super) fn search(&mut self, fields: &SearchFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let who = |text: &str| match text {
            "" => Ok(None),
            text => Addressee::parse(text).map(Some),
        };
        let (Ok(with), Ok(from)) = (who(fields.with), who(fields.from)) else {
            return refuse(number, out);
        };
        let range = Box::new(SearchRange {
            text: fields.text.into(),
            with,
            from,
            since_ms: fields.since_ms,
            until_ms: if fields.until_ms == 0 { u64::MAX } else { fields.until_ms },
            before: if fields.before == 0 { Seq::MAX } else { fields.before },
            count: most(fields.count),
        });
        self.ask(ChatRequest::Search { session, number, range }, out);
    }

    /// Handles a transient of the device. It is answered if it has a number; of one without, what
    /// makes no sense is dropped.
    pub(super) fn transient(&mut self, fields: &TransientFields<'_>, out: &mut Out) {
        let parts = (Addressee::parse(fields.to), fields.content.content());
        let number = fields.number;
        let (Ok(to), Some(content)) = parts else {
            out.count(ChatCounter::TransientsDropped);
            return if number == 0 {
            } else {
                write_failed(number, ChatFault::Invalid, out)
            };
        };
        let (session, state) = (self.session, state_of(fields.state));
        let transient = Box::new(NewTransient { to, state, content });
        let request = ChatRequest::Transient { session, number, transient };
        match number {
            0 => out.say(request),
            _ => self.ask(request, out),
        }
    }
}

/// Writes the result of a search; a page ends before the message that exceeds its bytes.
pub(super) fn write_found(page: &SearchPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    let fitting = fitting(page.found.iter().map(|(_, message)| bytes_of(message)));
    let (found, rest) = page.found.split_at(fitting);
    let next = rest.first().map(|(place, _)| place + 1);
    let fields = FoundFields {
        number: page.number,
        found: found.iter().map(entry_of).collect(),
        before: next.unwrap_or(page.before),
        more: page.more || next.is_some(),
    };
    ServerFrame::Found(fields).write(out.bytes());
}

/// A device that does not read is not told at all (IM 16.1).
pub(super) fn write_transient(transient: &Transient, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return out.count(ChatCounter::TransientsDropped);
    }
    ServerFrame::Transient(TransientFields::of(transient)).write(out.bytes());
}
