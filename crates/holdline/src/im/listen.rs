//! `holdline im listen`: all that arrives, messages and events, a line of JSON each. Missed
//! messages come first: the server remembers how far this device is.

use super::follower::{Came, Follower};
use super::{Common, Failure, goodbye};
use crate::out;
use base::hex;
use client::im::ImEvent;
use model::chat::{
    ChatMessage, ChatState, Content, ConversationChange, InboxChange, InboxEvent, Transient,
};
use model::media::FileNote;
use model::timeline::Seq;
use serde_json::json;
use std::time::Duration;

/// Account to listen as, and the form of the output.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Only new messages
    #[arg(long)]
    new: bool,
    /// End after this many messages
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// How long it is quiet before what was printed is acknowledged.
const QUIET: Duration = Duration::from_millis(200);

/// Prints what comes, until the connection or the reader ends.
pub(super) fn listen(arguments: &Arguments) -> Result<(), Failure> {
    let (mut session, welcome) = arguments.common.login("listen")?;
    let last = if arguments.new { welcome.head } else { welcome.cursor };
    let mut follower = Follower::new(last, welcome.head);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    let mut is_quiet = false;
    note!("listening as {}", welcome.account);
    while left > 0 && !out::is_closed() {
        follower.orders(is_quiet).into_iter().for_each(|order| session.order(order));
        let event = session.poll(QUIET)?;
        is_quiet = event.is_none();
        if let Some(ImEvent::Delivered(news)) = &event {
            let (with, upto) = (news.with.as_str(), news.upto);
            out!("{}", json!({ "event": "delivered", "with": with, "upto": upto }));
        }
        if let Some(ImEvent::Transient(it)) = &event {
            out!("{}", passing(it));
        }
        for (place, came) in event.iter().flat_map(|event| follower.hear(event)) {
            if left == 0 {
                break;
            }
            match came {
                Came::Message(message) => {
                    out!("{}", shown(place, &message));
                    left -= 1;
                }
                Came::Event(event) => out!("{}", happened(place, &event)),
            }
        }
    }
    if arguments.count.is_none() || follower.is_there() {
        follower.orders(true).into_iter().for_each(|order| session.order(order));
    }
    goodbye(session);
    Ok(())
}

/// Reactions to a message, as JSON.
fn reactions(message: &ChatMessage) -> Vec<serde_json::Value> {
    let all = message.amended.iter().flat_map(|it| &it.reactions);
    all.map(|it| json!({ "by": it.by.as_str(), "emoji": &*it.emoji })).collect()
}

/// Transient signals, which are not stored, as JSON.
fn passing(it: &Transient) -> serde_json::Value {
    json!({
        "event": "transient",
        "from": it.from.as_str(),
        "device": &*it.device,
        "to": it.to.as_str(),
        "state": it.state.map(ChatState::word),
        "kind": it.content.kind,
        "text": &*it.content.text,
        "extra": hex::encode(&it.content.extra),
    })
}

/// Events other than messages, as JSON.
fn happened(place: Seq, event: &InboxEvent) -> serde_json::Value {
    let with = event.with.as_str();
    match &event.what {
        InboxChange::Read(upto) => {
            json!({ "place": place, "event": "read", "with": with, "upto": upto })
        }
        InboxChange::PeerRead(upto) => {
            json!({ "place": place, "event": "peer_read", "with": with, "upto": upto })
        }
        InboxChange::Set(change) => match change {
            ConversationChange::Pin(on) => set(place, with, ("pinned", json!(on))),
            ConversationChange::Mute(mute) => set(place, with, ("muted", json!(mute.is_on()))),
            ConversationChange::Hide(on) => set(place, with, ("hidden", json!(on))),
            ConversationChange::Draft(draft) => set(place, with, ("draft", json!(&**draft))),
        },
    }
}

/// A setting as JSON, under the name that it has in lists.
fn set(place: Seq, with: &str, (name, value): (&str, serde_json::Value)) -> serde_json::Value {
    json!({ "place": place, "event": "set", "with": with, name: value })
}

/// A message as JSON; what is opaque is in hex.
fn shown(place: Seq, message: &ChatMessage) -> serde_json::Value {
    let note =
        (message.content.kind == Content::FILE).then(|| FileNote::parse(&message.content.extra));
    let file = note.flatten().map(|note| {
        let (width, height) = note.size;
        json!({
            "url": note.url,
            "name": note.name,
            "type": note.media_type,
            "bytes": note.bytes,
            "width": width,
            "height": height,
            "blurhash": note.blurhash,
        })
    });
    json!({
        "place": place,
        "id": message.id.to_string(),
        "seq": message.seq,
        "at_ms": message.at_ms,
        "from": message.from.as_str(),
        "device": &*message.device,
        "to": message.to.as_str(),
        "client_id": hex::encode(&message.client_id.0),
        "kind": message.content.kind,
        "text": &*message.content.text,
        "extra": hex::encode(&message.content.extra),
        "counts": message.content.counts,
        "file": file,
        "edited_ms": message.amended.as_ref().map_or(0, |it| it.edited_ms),
        "reactions": reactions(message),
    })
}
