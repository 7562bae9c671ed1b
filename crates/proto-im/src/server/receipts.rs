//! Receipts, at the seam: questions of who has read what become the model's words (IM 17).

use super::Out;
use super::session::{Session, refuse, write_failed};
use crate::codec::receipts::{DeliveredFields, PrivacyFields, ReadersFields, ReadersPageFields};
use crate::codec::server_frame::ServerFrame;
use model::account::Addressee;
use model::chat::{
    ChatDelivery, ChatFault, ChatRequest, DeliveredNews, READERS_PAGE_MAX, ReadersPage,
    ReadersRange,
};

impl Session {
    /// The device wants to know who has read what.
    pub(super) fn readers(&mut self, fields: &ReadersFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let &ReadersFields { seq, from, .. } = fields;
        let Ok(with) = Addressee::parse(fields.with) else { return refuse(number, out) };
        let count = fields.count.min(u32::from(READERS_PAGE_MAX)) as u16;
        let range = Box::new(ReadersRange { with, seq, from, count });
        self.ask(ChatRequest::Readers { session, number, range }, out);
    }

    /// The device sets, or asks, whether its account shares what it has read.
    pub(super) fn privacy(&mut self, fields: &PrivacyFields, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        match fields.wish() {
            Some(wish) => self.ask(ChatRequest::Privacy { session, number, wish }, out),
            None => refuse(number, out),
        }
    }
}

impl Session {
    /// The service says something of receipts. False: it says something else.
    pub(super) fn receipt_told(&mut self, word: &ChatDelivery, out: &mut Out) -> bool {
        match word {
            ChatDelivery::Readers(page) => write_readers(page, out),
            &ChatDelivery::Privacy { number, state } => {
                ServerFrame::Privacy(PrivacyFields::told(number, state)).write(out.bytes());
            }
            ChatDelivery::Delivered(news) => {
                write_delivered(news, out);
                return true;
            }
            _ => return false,
        }
        self.answered(out);
        true
    }
}

/// A page for a device that does not read is put off: it asks again (IM 17.2).
fn write_readers(page: &ReadersPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    ServerFrame::Readers(ReadersPageFields::of(page)).write(out.bytes());
}

/// A device that does not read is not told: it asks when it does (IM 17.1).
fn write_delivered(news: &DeliveredNews, out: &mut Out) {
    if out.backlog() <= out.backlog_max() {
        ServerFrame::Delivered(DeliveredFields::of(news)).write(out.bytes());
    }
}
