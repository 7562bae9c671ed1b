//! Receipts, as a client hears of them (IM 17).

use super::ImEvent;
use crate::codec::WireFault;
use crate::codec::receipts::{DeliveredFields, PrivacyFields, ReadersPageFields};

/// A page of readers, told.
pub(super) fn readers(fields: &ReadersPageFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Readers(Box::new(fields.page()?)))
}

/// The account's privacy, told.
pub(super) fn privacy(fields: &PrivacyFields) -> ImEvent {
    ImEvent::Privacy { number: fields.number, state: fields.state() }
}

/// Event for a delivery receipt.
pub(super) fn delivered(fields: &DeliveredFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Delivered(Box::new(fields.news()?)))
}
