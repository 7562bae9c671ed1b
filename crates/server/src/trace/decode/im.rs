//! IM, frames of clients and of servers.
//!
//! What is said between people is the payload; lists are told by how long they are.

use super::{Decoded, Fields};
use model::ports::trace::TraceDirection;
use proto_im::codec::WireFault;
use proto_im::codec::client_frame::{ClientFrame, LoginFields};
use proto_im::codec::content::ContentFields;
use proto_im::codec::conversation::{ChangeFields, EventFields, PlaceFields};
use proto_im::codec::frame::{PREFACE, split};
use proto_im::codec::group::GroupFields;
use proto_im::codec::push::PushFields;
use proto_im::codec::server_frame::{EndFields, ServerFrame};
use proto_im::codec::transient::TransientFields;
use proto_im::codec::upload::{SlotFields, UploadFields};

pub(super) fn read(direction: TraceDirection, mut bytes: &[u8]) -> Vec<Decoded<'_>> {
    let mut found = Vec::new();
    // No frame begins as the preface does: its first byte would be a length, and its third no tag.
    if direction == TraceDirection::In && bytes.starts_with(&PREFACE) {
        found.push(Decoded::new("Preface", PREFACE.len(), Fields::default()));
        bytes = &bytes[PREFACE.len()..];
    }
    while !bytes.is_empty() {
        let step = match split(bytes, usize::MAX) {
            Ok(Some((frame, taken))) => decoded(direction, frame, taken).map(|it| (it, taken)),
            Ok(None) => {
                found.push(Decoded::unread(bytes.len(), "cut"));
                break;
            }
            Err(fault) => Err(fault),
        };
        match step {
            Ok((decoded, taken)) => {
                found.push(decoded);
                bytes = &bytes[taken..];
            }
            Err(_) => {
                found.push(Decoded::unread(bytes.len(), "malformed"));
                break;
            }
        }
    }
    found
}

fn decoded(
    direction: TraceDirection,
    frame: &[u8],
    bytes: usize,
) -> Result<Decoded<'_>, WireFault> {
    Ok(match direction {
        TraceDirection::In => of_client(ClientFrame::read(frame)?, bytes),
        TraceDirection::Out => match ServerFrame::read(frame)? {
            Some(frame) => of_server(frame, bytes),
            None => Decoded::new("unknown", bytes, Fields::default()),
        },
    })
}

fn of_client(frame: ClientFrame<'_>, bytes: usize) -> Decoded<'_> {
    let none = Fields::default();
    let mut payload = None;
    let (kind, fields) = match frame {
        ClientFrame::Login(it) => ("Login", login(none, &it)),
        ClientFrame::Proceed(data) => ("Proceed", none.secret("data", data)),
        ClientFrame::Send(it) => {
            payload = Some(it.content.text);
            let fields = none.set("number", it.number).set("to", it.to);
            ("Send", content(fields, &it.content))
        }
        ClientFrame::Pull(it) => {
            let fields = none.set("number", it.number).set("after", it.after);
            ("Pull", fields.set("count", it.count))
        }
        ClientFrame::History(it) => {
            let fields = none.set("number", it.number).set("with", it.with).set("from", it.from);
            ("History", fields.set("backwards", it.backwards).set("count", it.count))
        }
        ClientFrame::Acknowledge(upto) => ("Acknowledge", none.set("upto", upto)),
        ClientFrame::Ping => ("Ping", none),
        ClientFrame::Goodbye => ("Goodbye", none),
        ClientFrame::Group(it) => ("Group", group(none, &it)),
        ClientFrame::Members(it) => {
            let fields = none.set("number", it.number).set("group", it.group);
            ("Members", fields.set("from", it.from).set("count", it.count))
        }
        ClientFrame::MarkRead(it) => ("MarkRead", place(none, it)),
        ClientFrame::Set(it) => {
            ("Set", change(none.set("number", it.number).set("with", it.with), it.change))
        }
        ClientFrame::Conversations(it) => {
            let fields = none.set("number", it.number).set_text("with", it.with);
            ("Conversations", fields.set("before", it.before).set("count", it.count))
        }
        ClientFrame::Recall(it) => ("Recall", place(none, it)),
        ClientFrame::Contacts(it) => {
            let fields = none.set("number", it.number).set("after", it.after);
            ("Contacts", fields.set("since", it.since).set("count", it.count))
        }
        ClientFrame::Contact(it) => {
            let fields = none.set("number", it.number).set("contact", it.contact);
            ("Contact", fields.set("verb", it.verb))
        }
        ClientFrame::Presence(it) => {
            ("Presence", none.set("number", it.number).set("show", it.show))
        }
        ClientFrame::Search(_) | ClientFrame::Transient(_) => of_words(&frame),
        ClientFrame::Push(it) => ("Push", push(none, it)),
        ClientFrame::PushSettings(it) => {
            ("PushSettings", none.set("number", it.number).set("sets", it.sets))
        }
        ClientFrame::Upload(it) => ("Upload", upload(none, it)),
        ClientFrame::Readers(it) => {
            let fields = none.set("number", it.number).set("with", it.with).set("seq", it.seq);
            ("Readers", fields.set("from", it.from).set("count", it.count))
        }
        ClientFrame::Privacy(it) => {
            ("Privacy", none.set("number", it.number).set("reads", it.reads))
        }
        ClientFrame::ChatroomOrder(_)
        | ClientFrame::JoinChatroom(_)
        | ClientFrame::LeaveChatroom(_) => to_chatrooms(&frame),
    };
    said(Decoded::new(kind, bytes, fields), payload)
}

fn login(fields: Fields, it: &LoginFields<'_>) -> Fields {
    let fields = fields.set("name", it.name).set("device", it.device);
    let fields = fields.secret("password", it.password).set_text("method", it.method);
    fields.secret("data", it.data).set("silence_s", it.silence_s)
}

fn group(fields: Fields, it: &GroupFields<'_>) -> Fields {
    let fields = fields.set("number", it.number).set_text("group", it.group);
    let fields = fields.set("verb", it.verb).set_text("title", it.title);
    fields.count("members", it.members.len())
}

fn of_server(frame: ServerFrame<'_>, bytes: usize) -> Decoded<'_> {
    let none = Fields::default();
    let mut payload = None;
    let (kind, fields) = match frame {
        ServerFrame::LoggedIn(it) => {
            let fields = none.set("account", it.account).set("head", it.head);
            let fields = fields.set("cursor", it.cursor).set("silence_s", it.silence_s);
            ("LoggedIn", fields.secret("data", it.data))
        }
        ServerFrame::Challenge(data) => ("Challenge", none.secret("data", data)),
        ServerFrame::Refused(it) => ("Refused", end(none, it)),
        ServerFrame::End(it) => ("End", end(none, it)),
        ServerFrame::Sent(it) => {
            let fields = none.set("number", it.number).set("id", it.id).set("seq", it.seq);
            ("Sent", fields.set_if("again", it.again))
        }
        ServerFrame::Failed(it) => {
            let fields = none.set("number", it.number).set("fault", it.fault);
            ("Failed", fields.set("word", it.word))
        }
        ServerFrame::Message(it) => {
            payload = Some(it.message.content.text);
            let (from, to) = (it.message.from, it.message.to);
            let fields = none.set("place", it.seq).set("from", from).set("to", to);
            let fields = fields.set("id", it.message.id).set("seq", it.message.seq);
            ("Message", content(fields, &it.message.content))
        }
        ServerFrame::Notify(head) => ("Notify", none.set("head", head)),
        ServerFrame::Page(_)
        | ServerFrame::History(_)
        | ServerFrame::Members(_)
        | ServerFrame::Conversations(_) => of_pages(&frame),
        ServerFrame::Pong => ("Pong", none),
        ServerFrame::Changed(it) => {
            let fields = none.set("number", it.number).set("group", it.group);
            ("Changed", fields.set("id", it.id).set("seq", it.seq).set_if("again", it.again))
        }
        ServerFrame::Event(it) => ("Event", event(none, it)),
        ServerFrame::MarkedRead(it) => {
            ("MarkedRead", none.set("number", it.number).set("upto", it.upto))
        }
        ServerFrame::Set(number) => ("Set", none.set("number", number)),
        ServerFrame::Upload(it) => ("Upload", slot(none, &it)),
        ServerFrame::Contacts(_)
        | ServerFrame::Done(_)
        | ServerFrame::Contact(_)
        | ServerFrame::Presence(_)
        | ServerFrame::Found(_)
        | ServerFrame::Transient(_) => of_people(&frame),
        ServerFrame::PushStatus(_)
        | ServerFrame::PushCode(_)
        | ServerFrame::Readers(_)
        | ServerFrame::Privacy(_)
        | ServerFrame::Delivered(_) => of_devices(&frame),
        ServerFrame::ChatroomSaid(it) => {
            payload = Some(it.message.content.text);
            let (from, to) = (it.message.from, it.message.to);
            let fields = none.set("from", from).set("to", to).set("seq", it.message.seq);
            let fields = fields.set_if("important", it.important);
            ("ChatroomMessage", content(fields, &it.message.content))
        }
        ServerFrame::ChatroomJoined(_)
        | ServerFrame::ChatroomMissed(_)
        | ServerFrame::ChatroomNews(_) => of_chatrooms(&frame),
    };
    said(Decoded::new(kind, bytes, fields), payload)
}

fn event(fields: Fields, it: EventFields<'_>) -> Fields {
    let fields = fields.set("place", it.seq).set("with", it.with);
    let fields = fields.set_some("read", Some(it.read).filter(|&upto| upto != 0));
    let peer_read = Some(it.peer_read).filter(|&upto| upto != 0);
    let fields = fields.set_some("peer_read", peer_read);
    match it.change {
        Some(it) => change(fields, it),
        None => fields,
    }
}

/// A frame about people, or what was found. What people call each other and say of
/// themselves is not shown.
fn of_people(frame: &ServerFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ServerFrame::Contacts(it) => {
            let fields = none.set("number", it.number).count("contacts", it.contacts.len());
            ("Contacts", fields.set("upto", it.upto).set("more", it.more))
        }
        ServerFrame::Done(number) => ("Done", none.set("number", *number)),
        ServerFrame::Contact(it) => {
            let contact = &it.contact;
            let fields = none.set("contact", contact.address).set("sees", contact.sees);
            let fields = fields.set("seen", contact.seen).set_if("blocked", contact.blocked);
            ("Contact", fields.set("said", it.said))
        }
        ServerFrame::Presence(it) => {
            let fields = none.set("from", it.from).set_text("device", it.device);
            ("Presence", fields.set("show", it.show))
        }
        ServerFrame::Found(it) => {
            let fields = none.set("number", it.number).count("messages", it.found.len());
            ("Found", fields.set("before", it.before).set("more", it.more))
        }
        ServerFrame::Transient(it) => ("Transient", transient(none, it)),
        _ => ("unknown", none),
    }
}

/// A frame about pushes, or about receipts.
fn of_devices(frame: &ServerFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ServerFrame::Readers(it) => {
            let fields = none.set("number", it.number).set("with", it.with).set("seq", it.seq);
            ("Readers", fields.set("total", it.total).set("read", it.read))
        }
        ServerFrame::Privacy(it) => {
            ("Privacy", none.set("number", it.number).set("reads", it.reads))
        }
        ServerFrame::Delivered(it) => ("Delivered", none.set("with", it.with).set("upto", it.upto)),
        ServerFrame::PushStatus(it) => {
            let fields = none.set("number", it.number);
            ("PushStatus", fields.count("registrations", it.registrations.len()))
        }
        ServerFrame::PushCode(number) => ("PushCode", none.set("number", *number)),
        _ => ("unknown", none),
    }
}

/// A frame about chatrooms. What was announced there is not shown.
fn of_pages(frame: &ServerFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ServerFrame::Page(it) => {
            let fields = none.set("number", it.number).count("messages", it.entries.len());
            let fields = fields.count("events", it.events.len());
            ("Page", fields.set("upto", it.upto).set("head", it.head))
        }
        ServerFrame::History(it) => {
            let fields = none.set("number", it.number).count("messages", it.messages.len());
            ("History", fields.set("more", it.more))
        }
        ServerFrame::Members(it) => {
            let fields = none.set("number", it.number).set("group", it.group);
            let fields = fields.set_text("title", it.title).set("total", it.total);
            ("Members", fields.count("members", it.members.len()))
        }
        ServerFrame::Conversations(it) => {
            let fields = none.set("number", it.number).set("upto", it.upto);
            let fields = fields.count("conversations", it.conversations.len());
            ("Conversations", fields.set("more", it.more))
        }
        _ => ("unknown", none),
    }
}

fn to_chatrooms(frame: &ClientFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ClientFrame::ChatroomOrder(it) => {
            let fields = none.set("number", it.number).set("room", it.room);
            ("ChatroomOrder", fields.set("verb", it.verb).count("accounts", it.accounts.len()))
        }
        ClientFrame::JoinChatroom(it) => {
            let fields = none.set("number", it.number).set("room", it.room);
            ("JoinChatroom", fields.set("history", it.history))
        }
        ClientFrame::LeaveChatroom(it) => {
            ("LeaveChatroom", none.set("number", it.number).set("room", it.room))
        }
        _ => ("unknown", none),
    }
}

fn of_chatrooms(frame: &ServerFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ServerFrame::ChatroomJoined(it) => {
            let fields = none.set("number", it.number).set("room", it.state.room);
            let fields = fields.set("here", it.state.here).set("head", it.state.head);
            ("ChatroomJoined", fields.count("history", it.history.len()))
        }
        ServerFrame::ChatroomMissed(it) => {
            ("ChatroomMissed", none.set("room", it.room).set("missed", it.missed))
        }
        ServerFrame::ChatroomNews(it) => {
            let fields = none.set("room", it.state.room).set("here", it.state.here);
            ("ChatroomNews", fields.set("out", it.out))
        }
        _ => ("unknown", none),
    }
}

/// A client's frame of what messages can do. What is searched for is not shown.
fn of_words(frame: &ClientFrame<'_>) -> (&'static str, Fields) {
    let none = Fields::default();
    match frame {
        ClientFrame::Search(it) => {
            let fields = none.set("number", it.number).set_text("with", it.with);
            ("Search", fields.set("before", it.before).set("count", it.count))
        }
        ClientFrame::Transient(it) => ("Transient", transient(none, it)),
        _ => ("unknown", none),
    }
}

/// What is kept nowhere. What is said beside the state is not shown.
fn transient(fields: Fields, it: &TransientFields<'_>) -> Fields {
    let fields = fields.set_text("from", it.from).set("to", it.to).set("state", it.state);
    content(fields, &it.content)
}

/// With what is said, as its payload.
fn said<'a>(decoded: Decoded<'a>, text: Option<&'a str>) -> Decoded<'a> {
    match text {
        Some(text) => decoded.with(text.as_bytes()),
        None => decoded,
    }
}

fn content(fields: Fields, content: &ContentFields<'_>) -> Fields {
    let fields = fields.set("kind", content.kind).set_if("uncounted", content.uncounted);
    let fields = fields.set_some("quotes", content.quote.map(|quote| quote.seq));
    let mentions = Some(content.mentions.len() as u64).filter(|count| *count > 0);
    let fields = fields.set_some("mentions", mentions);
    let fields = fields.set_if("everybody", content.everybody);
    match content.extra.is_empty() {
        true => fields,
        false => fields.count("extra_bytes", content.extra.len()),
    }
}

fn push(none: Fields, it: PushFields<'_>) -> Fields {
    let PushFields { number, registration, code } = it;
    let fields = none.set("number", number).set_text("name", registration.name);
    let fields = fields.set_text("app", registration.app);
    let fields = fields.secret("token", registration.token.as_bytes());
    let fields = fields.set_text("product", registration.product);
    let fields = fields.set_text("miop_device", registration.miop_device);
    fields.secret("code", code.as_bytes())
}

fn upload(fields: Fields, it: UploadFields<'_>) -> Fields {
    fields.set("number", it.number).set_text("type", it.media_type).set("bytes", it.bytes)
}

/// Whoever has an address has the file: neither is shown.
fn slot(fields: Fields, it: &SlotFields<'_>) -> Fields {
    let fields = fields.set("number", it.number).secret("put_url", it.put_url.as_bytes());
    fields.secret("get_url", it.get_url.as_bytes())
}

fn place(fields: Fields, place: PlaceFields<'_>) -> Fields {
    fields.set("number", place.number).set("with", place.with).set("seq", place.seq)
}

fn change(fields: Fields, change: ChangeFields<'_>) -> Fields {
    fields.set("setting", change.setting).set("on", change.on)
}

fn end(fields: Fields, end: EndFields<'_>) -> Fields {
    let fields = fields.set("reason", end.reason).set("word", end.word);
    fields.set_some("retry_after_ms", Some(end.retry_after_ms).filter(|&wait| wait != 0))
}
