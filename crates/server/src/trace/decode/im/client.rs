//! Frames of clients. Search terms are not shown, nor the secrets of a registration.

use super::super::{Decoded, Fields};
use super::{change, content, numbered, place, said, transient};
use proto_im::codec::chatroom::ChatroomOrderFields;
use proto_im::codec::client_frame::{ClientFrame, HistoryFields, LoginFields, SendFields};
use proto_im::codec::contact::ContactsFields;
use proto_im::codec::conversation::{ConversationsFields, SetFields};
use proto_im::codec::group::{GroupFields, MembersFields};
use proto_im::codec::push::PushFields;
use proto_im::codec::receipts::ReadersFields;
use proto_im::codec::search::SearchFields;
use proto_im::codec::upload::UploadFields;

pub(super) fn decoded(frame: ClientFrame<'_>, bytes: usize) -> Decoded<'_> {
    let none = Fields::default();
    let mut payload = None;
    let (kind, fields) = match frame {
        ClientFrame::Login(it) => ("Login", login(&it)),
        ClientFrame::Proceed(data) => ("Proceed", none.secret("data", data)),
        ClientFrame::Send(it) => {
            payload = Some(it.content.text);
            ("Send", send(&it))
        }
        ClientFrame::Pull(it) => {
            ("Pull", numbered(it.number).set("after", it.after).set("count", it.count))
        }
        ClientFrame::History(it) => ("History", history(&it)),
        ClientFrame::Acknowledge(upto) => ("Acknowledge", none.set("upto", upto)),
        ClientFrame::Ping => ("Ping", none),
        ClientFrame::Goodbye => ("Goodbye", none),
        ClientFrame::Group(it) => ("Group", group(&it)),
        ClientFrame::Members(it) => ("Members", members(&it)),
        ClientFrame::MarkRead(it) => ("MarkRead", place(&it)),
        ClientFrame::Set(it) => ("Set", set(&it)),
        ClientFrame::Conversations(it) => ("Conversations", conversations(&it)),
        ClientFrame::Recall(it) => ("Recall", place(&it)),
        ClientFrame::Contacts(it) => ("Contacts", contacts(&it)),
        ClientFrame::Contact(it) => {
            ("Contact", numbered(it.number).set("contact", it.contact).set("verb", it.verb))
        }
        ClientFrame::Presence(it) => ("Presence", numbered(it.number).set("show", it.show)),
        ClientFrame::Transient(it) => ("Transient", transient(&it)),
        ClientFrame::Search(it) => ("Search", search(&it)),
        ClientFrame::Upload(it) => ("Upload", upload(&it)),
        ClientFrame::Push(it) => ("Push", push(&it)),
        ClientFrame::PushSettings(it) => ("PushSettings", numbered(it.number).set("sets", it.sets)),
        ClientFrame::Readers(it) => ("Readers", readers(&it)),
        ClientFrame::Privacy(it) => ("Privacy", numbered(it.number).set("reads", it.reads)),
        ClientFrame::ChatroomOrder(it) => ("ChatroomOrder", order(&it)),
        ClientFrame::JoinChatroom(it) => {
            ("JoinChatroom", numbered(it.number).set("room", it.room).set("history", it.history))
        }
        ClientFrame::LeaveChatroom(it) => {
            ("LeaveChatroom", numbered(it.number).set("room", it.room))
        }
        ClientFrame::Token(it) => ("TokenRequest", numbered(it.number).set_if("revoke", it.revoke)),
    };
    said(Decoded::new(kind, bytes, fields), payload)
}

fn login(it: &LoginFields<'_>) -> Fields {
    let fields = Fields::default().set("name", it.name).set("device", it.device);
    let fields = fields.secret("password", it.password).set_text("method", it.method);
    fields.secret("data", it.data).set("silence_s", it.silence_s)
}

fn send(it: &SendFields<'_>) -> Fields {
    content(numbered(it.number).set("to", it.to), &it.content)
}

fn history(it: &HistoryFields<'_>) -> Fields {
    let fields = numbered(it.number).set("with", it.with).set("from", it.from);
    fields.set("backwards", it.backwards).set("count", it.count)
}

fn group(it: &GroupFields<'_>) -> Fields {
    let fields = numbered(it.number).set_text("group", it.group);
    let fields = fields.set("verb", it.verb).set_text("title", it.title);
    fields.count("members", it.members.len())
}

fn members(it: &MembersFields<'_>) -> Fields {
    let fields = numbered(it.number).set("group", it.group);
    fields.set("from", it.from).set("count", it.count)
}

fn set(it: &SetFields<'_>) -> Fields {
    change(numbered(it.number).set("with", it.with), &it.change)
}

fn conversations(it: &ConversationsFields<'_>) -> Fields {
    let fields = numbered(it.number).set_text("with", it.with);
    fields.set("before", it.before).set("count", it.count)
}

fn contacts(it: &ContactsFields) -> Fields {
    let fields = numbered(it.number).set("after", it.after);
    fields.set("since", it.since).set("count", it.count)
}

fn search(it: &SearchFields<'_>) -> Fields {
    let fields = numbered(it.number).set_text("with", it.with);
    fields.set("before", it.before).set("count", it.count)
}

fn upload(it: &UploadFields<'_>) -> Fields {
    numbered(it.number).set_text("type", it.media_type).set("bytes", it.bytes)
}

fn push(it: &PushFields<'_>) -> Fields {
    let PushFields { number, registration, code, shared } = it;
    let fields = numbered(*number).set_text("name", registration.name);
    let fields = fields.set_text("app", registration.app);
    let fields = fields.secret("token", registration.token.as_bytes());
    let fields = fields.set_text("product", registration.product);
    let fields = fields.set_text("miop_device", registration.miop_device);
    fields.secret("code", code.as_bytes()).set("shared", *shared)
}

fn readers(it: &ReadersFields<'_>) -> Fields {
    let fields = numbered(it.number).set("with", it.with).set("seq", it.seq);
    fields.set("from", it.from).set("count", it.count)
}

fn order(it: &ChatroomOrderFields<'_>) -> Fields {
    let fields = numbered(it.number).set("room", it.room);
    fields.set("verb", it.verb).count("accounts", it.accounts.len())
}
