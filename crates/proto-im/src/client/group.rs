//! Groups, as a client says and hears of them (IM 10).

use super::ImEvent;
use crate::codec::WireFault;
use crate::codec::group::{
    ChangedFields, GroupFields, MembersFields, MembersPageFields, verb_number,
};
use model::account::Addressee;
use model::chat::{GroupOrder, MembersRange};

/// The fields of an order.
pub(super) fn fields_of(number: u32, order: &GroupOrder) -> GroupFields<'_> {
    GroupFields {
        number,
        group: order.group.as_ref().map_or("", Addressee::as_str),
        client_id: &order.client_id.0,
        verb: verb_number(order.verb),
        title: &order.title,
        members: order.members.iter().map(Addressee::as_str).collect(),
    }
}

/// The fields of what is asked of a list.
pub(super) fn range_of(number: u32, range: &MembersRange) -> MembersFields<'_> {
    let MembersRange { version, from, count, banned, .. } = *range;
    let (group, count) = (range.group.as_str(), u32::from(count));
    MembersFields { number, group, version, from, count, banned }
}

/// A change that is stored, told.
pub(super) fn changed(fields: &ChangedFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Changed(Box::new(fields.changed()?)))
}

/// A page of members, told.
pub(super) fn members(fields: &MembersPageFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::Members(Box::new(fields.page()?)))
}
