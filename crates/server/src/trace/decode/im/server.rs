//! Frames of servers. Names that people give each other and their own status texts are not shown,
//! nor announcements in a chatroom.

use super::super::{Decoded, Fields};
use super::{change, content, numbered, said, transient};
use proto_im::codec::chatroom::{JoinedFields, NewsFields, SaidFields};
use proto_im::codec::contact::{ContactChangedFields, ContactsPageFields};
use proto_im::codec::content::EntryFields;
use proto_im::codec::conversation::EventFields;
use proto_im::codec::conversations::ConversationsPageFields;
use proto_im::codec::group::{ChangedFields, MembersPageFields};
use proto_im::codec::receipts::ReadersPageFields;
use proto_im::codec::search::FoundFields;
use proto_im::codec::server_frame::{
    EndFields, LoggedInFields, PageFields, SentFields, ServerFrame,
};
use proto_im::codec::upload::SlotFields;

pub(super) fn decoded(frame: ServerFrame<'_>, bytes: usize) -> Decoded<'_> {
    let none = Fields::default();
    let mut payload = None;
    let (kind, fields) = match frame {
        ServerFrame::LoggedIn(it) => ("LoggedIn", logged_in(&it)),
        ServerFrame::Challenge(data) => ("Challenge", none.secret("data", data)),
        ServerFrame::Refused(it) => ("Refused", end(&it)),
        ServerFrame::Sent(it) => ("Sent", sent(&it)),
        ServerFrame::Failed(it) => {
            ("Failed", numbered(it.number).set("fault", it.fault).set("word", it.word))
        }
        ServerFrame::Message(it) => {
            payload = Some(it.message.content.text);
            ("Message", message(&it))
        }
        ServerFrame::Notify(head) => ("Notify", none.set("head", head)),
        ServerFrame::Page(it) => ("Page", page(&it)),
        ServerFrame::History(it) => {
            let fields = numbered(it.number).count("messages", it.messages.len());
            ("History", fields.set("more", it.more))
        }
        ServerFrame::End(it) => ("End", end(&it)),
        ServerFrame::Pong => ("Pong", none),
        ServerFrame::Changed(it) => ("Changed", changed(&it)),
        ServerFrame::Members(it) => ("Members", members(&it)),
        ServerFrame::Event(it) => ("Event", event(&it)),
        ServerFrame::MarkedRead(it) => ("MarkedRead", numbered(it.number).set("upto", it.upto)),
        ServerFrame::Set(number) => ("Set", numbered(number)),
        ServerFrame::Conversations(it) => ("Conversations", conversations(&it)),
        ServerFrame::Contacts(it) => ("Contacts", contacts(&it)),
        ServerFrame::Done(number) => ("Done", numbered(number)),
        ServerFrame::Contact(it) => ("Contact", contact(&it)),
        ServerFrame::Presence(it) => {
            let fields = none.set("from", it.from).set_text("device", it.device);
            ("Presence", fields.set("show", it.show))
        }
        ServerFrame::Transient(it) => ("Transient", transient(&it)),
        ServerFrame::Found(it) => ("Found", found(&it)),
        ServerFrame::Upload(it) => ("Upload", slot(&it)),
        ServerFrame::PushStatus(it) => {
            let count = it.registrations.len();
            ("PushStatus", numbered(it.number).count("registrations", count))
        }
        ServerFrame::PushCode(number) => ("PushCode", numbered(number)),
        ServerFrame::Readers(it) => ("Readers", readers(&it)),
        ServerFrame::Privacy(it) => ("Privacy", numbered(it.number).set("reads", it.reads)),
        ServerFrame::Delivered(it) => ("Delivered", none.set("with", it.with).set("upto", it.upto)),
        ServerFrame::ChatroomJoined(it) => ("ChatroomJoined", joined(&it)),
        ServerFrame::ChatroomSaid(it) => {
            payload = Some(it.message.content.text);
            ("ChatroomMessage", said_there(&it))
        }
        ServerFrame::ChatroomMissed(it) => {
            ("ChatroomMissed", none.set("room", it.room).set("missed", it.missed))
        }
        ServerFrame::ChatroomNews(it) => ("ChatroomNews", news(&it)),
        ServerFrame::Token(it) => {
            ("LoginToken", numbered(it.number).secret("token", it.token.as_bytes()))
        }
    };
    said(Decoded::new(kind, bytes, fields), payload)
}

fn logged_in(it: &LoggedInFields<'_>) -> Fields {
    let fields = Fields::default().set("account", it.account).set("head", it.head);
    let fields = fields.set("cursor", it.cursor).set("silence_s", it.silence_s);
    fields.secret("data", it.data)
}

fn end(it: &EndFields<'_>) -> Fields {
    let fields = Fields::default().set("reason", it.reason).set("word", it.word);
    let fields = fields.set_some("retry_after_ms", Some(it.retry_after_ms).filter(|&it| it != 0));
    fields.set_some("server", Some(it.server).filter(|server| !server.is_empty()))
}

fn sent(it: &SentFields) -> Fields {
    let fields = numbered(it.number).set("id", it.id).set("seq", it.seq);
    fields.set_if("again", it.again)
}

fn message(it: &EntryFields<'_>) -> Fields {
    let fields = Fields::default().set("place", it.seq);
    let fields = fields.set("from", it.message.from).set("to", it.message.to);
    let fields = fields.set("id", it.message.id).set("seq", it.message.seq);
    content(fields, &it.message.content)
}

fn page(it: &PageFields<'_>) -> Fields {
    let fields = numbered(it.number).count("messages", it.entries.len());
    fields.count("events", it.events.len()).set("upto", it.upto).set("head", it.head)
}

fn changed(it: &ChangedFields<'_>) -> Fields {
    let fields = numbered(it.number).set("group", it.group);
    fields.set("id", it.id).set("seq", it.seq).set_if("again", it.again)
}

fn members(it: &MembersPageFields<'_>) -> Fields {
    let fields = numbered(it.number).set("group", it.group);
    let fields = fields.set_text("title", it.title).set("total", it.total);
    fields.count("members", it.members.len())
}

fn event(it: &EventFields<'_>) -> Fields {
    let read = |upto| Some(upto).filter(|&upto| upto != 0);
    let fields = Fields::default().set("place", it.seq).set("with", it.with);
    let fields = fields.set_some("read", read(it.read)).set_some("peer_read", read(it.peer_read));
    match &it.change {
        Some(it) => change(fields, it),
        None => fields,
    }
}

fn conversations(it: &ConversationsPageFields<'_>) -> Fields {
    let fields = numbered(it.number).set("upto", it.upto);
    fields.count("conversations", it.conversations.len()).set("more", it.more)
}

fn contacts(it: &ContactsPageFields<'_>) -> Fields {
    let fields = numbered(it.number).count("contacts", it.contacts.len());
    fields.set("upto", it.upto).set("more", it.more)
}

fn contact(it: &ContactChangedFields<'_>) -> Fields {
    let contact = &it.contact;
    let fields = Fields::default().set("contact", contact.address).set("sees", contact.sees);
    let fields = fields.set("seen", contact.seen).set_if("blocked", contact.blocked);
    fields.set("said", it.said)
}

fn found(it: &FoundFields<'_>) -> Fields {
    let fields = numbered(it.number).count("messages", it.found.len());
    fields.set("before", it.before).set("more", it.more)
}

/// The address of a file gives the file to anybody: neither is shown.
fn slot(it: &SlotFields<'_>) -> Fields {
    let fields = numbered(it.number).secret("put_url", it.put_url.as_bytes());
    fields.secret("get_url", it.get_url.as_bytes())
}

fn readers(it: &ReadersPageFields<'_>) -> Fields {
    let fields = numbered(it.number).set("with", it.with).set("seq", it.seq);
    fields.set("total", it.total).set("read", it.read)
}

fn joined(it: &JoinedFields<'_>) -> Fields {
    let fields = numbered(it.number).set("room", it.state.room);
    let fields = fields.set("here", it.state.here).set("head", it.state.head);
    fields.count("history", it.history.len())
}

fn said_there(it: &SaidFields<'_>) -> Fields {
    let fields = Fields::default().set("from", it.message.from).set("to", it.message.to);
    let fields = fields.set("seq", it.message.seq).set_if("important", it.important);
    content(fields, &it.message.content)
}

fn news(it: &NewsFields<'_>) -> Fields {
    let fields = Fields::default().set("room", it.state.room).set("here", it.state.here);
    fields.set("out", it.out)
}
