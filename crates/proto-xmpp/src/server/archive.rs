//! Archives of the own account and of its rooms (XEP-0313): questions of a bound device, and their
//! answers.
//!
//! ```text
//! query ─► waits for those before it ─► Archive ─► page: written in parts, as the socket takes
//!                                                  them ─► fin ─► the next query
//! ```
//! One question is with the service at a time; those behind it are counted with what is not
//! answered, beyond which the device is read no further. Of a page no more is written at once than
//! the inbox would. Invariant: each question is answered once, in the order in which they came, its
//! messages before its end.

use super::Out;
use super::feature::{Feature, Question, Questions};
use super::session::Session;
use crate::archive::{self, ArchiveQuery, MAM, MAM_FEATURES};
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::render::room::{RoomRendering, write_in_room};
use crate::render::{self, Rendering};
use crate::xml::scan::Element;
use model::account::{AccountAddress, Addressee};
use model::chat::{ArchiveId, ArchivePage, ArchiveRange, ChatFault, ChatMessage, ChatRequest};
use model::counters::ChatCounter;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            313,
            ("Message Archive Management", "1.1.3"),
            "for accounts and rooms",
            "xmpp/test_authority.py::\
             test_the_archive_of_a_room_is_read_by_pages_by_its_members_alone",
        ),
        Xep::partial(
            441,
            ("Message Archive Management Preferences", "0.2.0"),
            "everything is archived; other preferences are refused",
            "server/tests/archive.rs::the_form_and_the_policy_are_told",
        ),
    ],
    account: (&MAM_FEATURES, ""),
    questions: &[Questions::of_devices(MAM, |session, question, out| {
        let Question { asked, is_set, about, .. } = *question;
        question.for_account()?;
        if !is_asked(asked) {
            return Err(StanzaFault::ServiceUnavailable);
        }
        session.asks_archive((asked, None), (is_set, about), out);
        Ok(None)
    })],
    ..Feature::NONE
};

/// Bytes that are written of a page before the rest of it is put off until they are gone.
const PAGE_WRITTEN_BYTES: usize = 64 * 1024;

/// A question that is not answered.
pub(super) struct ArchiveAsking {
    /// That of what is asked of the service; of a question that waits, none yet.
    number: Option<u32>,
    what: What,
    /// The room that is asked; none: it is the own account.
    room: Option<AccountAddress>,
    id: Option<Box<str>>,
    to: Option<Box<str>>,
    /// The rest of the page.
    writing: Option<Writing>,
}

enum What {
    /// A page.
    Query(Box<ArchiveQuery>),
    /// Where the archive begins and ends: what is wanted now, and its first message, if that is
    /// known.
    Metadata(Box<ArchiveRange>, Option<Arc<ChatMessage>>),
}

/// A page on its way to the device.
struct Writing {
    messages: VecDeque<Arc<ChatMessage>>,
    /// Element that ends the page.
    fin: String,
}

impl ArchiveAsking {
    /// Memory with the rest of the page, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        let ids = |range: &ArchiveRange| {
            let count = range.after.len() + range.before.len() + range.named.len();
            size_of::<ArchiveRange>() + count * size_of::<ArchiveId>()
        };
        let what = match &self.what {
            What::Query(query) => {
                let range = query.range.as_deref().map_or(0, ids);
                size_of::<ArchiveQuery>() + range + query.query_id.as_ref().map_or(0, |it| it.len())
            }
            What::Metadata(range, first) => ids(range) + first.as_deref().map_or(0, weight_of),
        };
        let writing = self.writing.as_ref().map_or(0, |writing| {
            let messages = writing.messages.iter().map(|it| weight_of(it));
            messages.sum::<usize>() + writing.fin.len()
        });
        size_of::<ArchiveAsking>() + what + writing
    }
}

fn weight_of(message: &ChatMessage) -> usize {
    let content = &message.content;
    size_of::<ChatMessage>() + content.text.len() + content.extra.len()
}

/// A question's id, and to whom it was.
type About<'a> = (Option<&'a str>, Option<&'a str>);

/// Whether something is asked of an archive.
pub(super) fn is_asked(asked: &Element<'_, '_>) -> bool {
    asked.namespace() == MAM && ["query", "metadata", "prefs"].contains(&asked.name())
}

impl Session {
    /// Answers a question about the own archive, or that of a room, now or later.
    pub(super) fn asks_archive(
        &mut self,
        (asked, room): (&Element<'_, '_>, Option<&AccountAddress>),
        (is_set, about): (bool, About<'_>),
        out: &mut Out,
    ) {
        let what = match (asked.name(), is_set) {
            ("query", false) => return self.answers(about, &archive::form(), out),
            // There is one policy, and whoever wants another is told which.
            ("prefs", _) if room.is_none() => {
                return self.answers(about, &archive::preferences(), out);
            }
            ("metadata", false) => What::Metadata(Box::new(whole(room, false)), None),
            ("query", true) => match room
                .map_or_else(|| ArchiveQuery::read(asked), |it| ArchiveQuery::of_room(asked, it))
            {
                Ok(query) => What::Query(Box::new(query)),
                Err(fault) => {
                    out.count(ChatCounter::Invalid);
                    return self.refuse("iq", about, fault, out);
                }
            },
            _ => return self.refuse("iq", about, StanzaFault::BadRequest, out),
        };
        let [id, to] = [about.0, about.1].map(|text| text.map(Box::from));
        let room = room.cloned();
        let asking = ArchiveAsking { number: None, what, room, id, to, writing: None };
        self.busy().archive.push_back(asking);
        self.archive_goes_on(out);
    }

    /// The first question is asked of the service, or answered, if it needs none of that.
    fn archive_goes_on(&mut self, out: &mut Out) {
        while let Some(first) = self.busy().archive.front() {
            if first.number.is_some() || first.writing.is_some() {
                return;
            }
            let (range, is_whole) = match &first.what {
                What::Query(query) => (query.range.clone(), query.is_whole),
                What::Metadata(range, _) => (Some(range.clone()), false),
            };
            let Some(range) = range else {
                self.archive_answered(&archive::fin_of_nothing(is_whole), out);
                continue;
            };
            let (session, number) = (self.session, self.numbers(1));
            if let Some(first) = self.busy().archive.front_mut() {
                first.number = Some(number);
            }
            return out.say(ChatRequest::Archive { session, number, range });
        }
    }

    /// The first question is answered by this.
    fn archive_answered(&mut self, inner: &str, out: &mut Out) {
        let Some(asking) = self.busy().archive.pop_front() else { return };
        self.answers((asking.id.as_deref(), asking.to.as_deref()), inner, out);
        self.releases(out);
    }

    /// The service could not read the archive. False: it was not asked that.
    pub(super) fn archive_failed(&mut self, number: u32, why: ChatFault, out: &mut Out) -> bool {
        let archive = &mut self.busy().archive;
        let Some(asking) = archive.pop_front_if(|first| first.number == Some(number)) else {
            return false;
        };
        let fault = match why {
            ChatFault::UnknownMessage => StanzaFault::ItemNotFound,
            // Of a room that is not there nobody hears either (XEP-0313 5.1.2).
            ChatFault::NotMember => StanzaFault::Forbidden,
            why => StanzaFault::of(why, false),
        };
        self.refuse("iq", (asking.id.as_deref(), asking.to.as_deref()), fault, out);
        self.releases(out);
        self.archive_goes_on(out);
        true
    }

    /// The service has read a part of the archive.
    pub(super) fn archive_page(&mut self, mut page: ArchivePage, out: &mut Out) {
        let first = self.busy().archive.front_mut();
        let Some(first) = first.filter(|first| first.number == Some(page.number)) else {
            base::never!(true, "an answer to nothing");
            return;
        };
        first.number = None;
        match &mut first.what {
            What::Query(query) => {
                let backwards = query.range.as_ref().is_some_and(|range| range.backwards);
                let fin = archive::fin(&page, backwards);
                page.messages.retain(|message| query.has(message));
                if query.flips {
                    page.messages.reverse();
                }
                first.writing = Some(Writing { messages: page.messages.into(), fin });
                self.write_archive(out);
            }
            What::Metadata(range, begin) => {
                let message = page.messages.pop();
                match (message, page.goes_on) {
                    // There is something else in front: it is looked for behind that.
                    (None, Some(id)) if range.backwards => range.before = vec![id],
                    (None, Some(id)) => range.after = vec![id],
                    (Some(message), _) if !range.backwards => {
                        *begin = Some(message);
                        **range = whole(first.room.as_ref(), true);
                    }
                    (message, _) => {
                        let inner = archive::metadata(begin.as_deref(), message.as_deref());
                        self.archive_answered(&inner, out);
                    }
                }
            }
        }
        self.archive_goes_on(out);
    }

    /// Writes of a page what may be written now.
    pub(super) fn write_archive(&mut self, out: &mut Out) {
        let begins = out.bytes().len();
        while let Some(first) = self.busy.as_mut().and_then(|busy| busy.archive.front_mut()) {
            let Some(writing) = &mut first.writing else { break };
            let written = out.bytes().len() - begins;
            if written >= PAGE_WRITTEN_BYTES || out.backlog() > out.backlog_max() {
                return out.tell_drained();
            }
            if let Some(message) = writing.messages.pop_front() {
                let query_id = match &first.what {
                    What::Query(query) => query.query_id.clone(),
                    What::Metadata(..) => None,
                };
                let is_of_room = first.room.is_some();
                self.write_result((&message, is_of_room), query_id.as_deref(), out);
                continue;
            }
            let fin = std::mem::take(&mut writing.fin);
            self.archive_answered(&fin, out);
            self.archive_goes_on(out);
        }
    }

    fn write_result(
        &mut self,
        (message, is_of_room): (&ChatMessage, bool),
        query_id: Option<&str>,
        out: &mut Out,
    ) {
        let reader = self.account();
        let how = Rendering { reader, delayed_by: None, is_carbon: false, asks: false };
        let mut stanza = Vec::new();
        let (owner, says) = match is_of_room {
            true => {
                let kept = RoomRendering { to: None, is_delayed: false, is_abroad: false };
                (message.to.as_str(), write_in_room(message, kept, &mut stanza))
            }
            false => (self.account(), render::write(message, how, &mut stanza)),
        };
        if says {
            let whose = (owner, self.jid());
            archive::put_result((message, &stanza), whose, query_id, out.bytes());
            self.counts_sent(out);
        }
    }
}

/// One message of all that there is, of a room if one is named.
fn whole(room: Option<&AccountAddress>, backwards: bool) -> ArchiveRange {
    let with = room.cloned().map(Addressee::from);
    ArchiveRange { with, ..ArchiveRange::whole(backwards, 1) }
}
