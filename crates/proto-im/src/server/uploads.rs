//! Files that a device wants to upload, at the seam (IM 14).

use super::Out;
use super::session::Session;
use crate::codec::server_frame::ServerFrame;
use crate::codec::upload::{SlotFields, UploadFields};
use model::chat::ChatRequest;
use model::media::UploadSlot;

impl Session {
    /// The device wants to upload a file.
    pub(super) fn upload(&mut self, fields: &UploadFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        self.ask(ChatRequest::Upload { session, number, wish: Box::new(fields.wish()) }, out);
    }

    /// A file may be uploaded.
    pub(super) fn slot(&mut self, number: u32, slot: &UploadSlot, out: &mut Out) {
        ServerFrame::Upload(SlotFields::of(number, slot)).write(out.bytes());
        self.answered(out);
    }
}
