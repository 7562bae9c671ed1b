//! How an account's devices are woken, at the seam (IM 15).
//!
//! Requests that are invalid by themselves are answered here, and counted. A token is never sent
//! back.

use super::Out;
use super::session::{Session, refuse};
use crate::codec::push::{PushFields, PushSettingsFields, PushStatusFields};
use crate::codec::server_frame::ServerFrame;
use model::chat::{ChatRequest, PushStatus, PushWish};

impl Session {
    /// A device is to be woken so, or no longer.
    pub(super) fn push(&mut self, fields: &PushFields<'_>, out: &mut Out) {
        self.push_wish(fields.number, fields.wish(), out);
    }

    /// Hours of quiet, or all that there is.
    pub(super) fn push_settings(&mut self, fields: &PushSettingsFields, out: &mut Out) {
        self.push_wish(fields.number, fields.wish(), out);
    }

    fn push_wish(&mut self, number: u32, wish: Option<PushWish>, out: &mut Out) {
        let session = self.session;
        let Some(wish) = wish.map(Box::new) else { return refuse(number, out) };
        self.ask(ChatRequest::Push { session, number, wish }, out);
    }

    /// Sends the registrations.
    pub(super) fn push_status(&mut self, status: &PushStatus, out: &mut Out) {
        ServerFrame::PushStatus(PushStatusFields::of(status)).write(out.bytes());
        self.answered(out);
    }

    /// A code is on its way to the device.
    pub(super) fn push_code(&mut self, number: u32, out: &mut Out) {
        ServerFrame::PushCode(number).write(out.bytes());
        self.answered(out);
    }
}
