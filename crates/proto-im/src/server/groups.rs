//! Groups, at the seam: orders and lists of members become the model's words (IM 10).
//!
//! Requests that are invalid by themselves are answered here, and counted; the service checks
//! permissions.

use super::Out;
use super::session::{Session, refuse, write_failed};
use crate::codec::content::client_id;
use crate::codec::group::{ChangedFields, GroupFields, MembersFields, MembersPageFields, verb_of};
use crate::codec::server_frame::ServerFrame;
use model::account::Addressee;
use model::chat::{
    ChatFault, ChatRequest, GroupChanged, GroupOrder, GroupVerb, MEMBERS_PAGE_MAX, MembersPage,
    MembersRange,
};

impl Session {
    /// The device wants something of a group.
    pub(super) fn order(&mut self, fields: &GroupFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        match order_of(fields) {
            Some(order) => {
                let order = Box::new(order);
                self.ask(ChatRequest::Group { session, number, order }, out);
            }
            None => refuse(number, out),
        }
    }

    /// The device wants to know who is in a group.
    pub(super) fn members(&mut self, fields: &MembersFields<'_>, out: &mut Out) {
        let (session, number) = (self.session, fields.number);
        let MembersFields { version, from, banned, .. } = *fields;
        let Ok(group) = Addressee::parse(fields.group) else { return refuse(number, out) };
        let count = fields.count.min(u32::from(MEMBERS_PAGE_MAX)) as u16;
        let range = Box::new(MembersRange { group, version, from, count, banned });
        self.ask(ChatRequest::Members { session, number, range }, out);
    }
}

/// The order that these fields are; `None`: they make no sense.
fn order_of(fields: &GroupFields<'_>) -> Option<GroupOrder> {
    let verb = verb_of(fields.verb)?;
    let group = match (verb, fields.group) {
        (GroupVerb::Create, "") => None,
        // A channel has the name that its maker gives it: whoever subscribes must know it.
        (GroupVerb::Create, channel) => {
            let channel = Addressee::parse(channel).ok()?;
            Some(channel.within("").is_channel().then_some(channel)?)
        }
        (_, group) => Some(Addressee::parse(group).ok()?),
    };
    let members = fields.members.iter().map(|name| Addressee::parse(name).ok());
    let members = members.collect::<Option<_>>()?;
    let client_id = client_id(fields.client_id)?;
    Some(GroupOrder { group, client_id, verb, title: fields.title.into(), members })
}

pub(super) fn write_changed(changed: &GroupChanged, out: &mut Out) {
    ServerFrame::Changed(ChangedFields::of(changed)).write(out.bytes());
}

/// A page for a device that does not read is put off: it asks again (IM 10.3).
pub(super) fn write_members(page: &MembersPage, out: &mut Out) {
    if out.backlog() > out.backlog_max() {
        return write_failed(page.number, ChatFault::Busy, out);
    }
    ServerFrame::Members(MembersPageFields::of(page)).write(out.bytes());
}
