//! `holdline im conversations`, `read`, `keep` and `recall`: what an account knows of its
//! conversations (IM 11).

use super::send::addressee;
use super::{Common, Failure, answer, goodbye};
use base::text::escaped;
use client::im::{ImEvent, ImOrder, ImSession};
use model::chat::{Content, Conversation, ConversationChange, UNREAD_PLACES_MAX};
use model::timeline::Seq;
use serde_json::json;

/// The most that is asked for at once.
const PAGE: u16 = 100;

/// Number of what is asked of the list.
const NUMBER: u32 = 2;

/// Which conversations to print.
#[derive(clap::Args)]
pub struct List {
    #[command(flatten)]
    common: Common,
    /// Maximum number, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Only conversations with groups, including hidden ones
    #[arg(long)]
    groups: bool,
    /// Print JSON, one object per line, with all fields
    #[arg(long)]
    json: bool,
}

/// Conversation, and the message up to which it was read.
#[derive(clap::Args)]
pub struct Read {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Up to this sequence number; all by default
    #[arg(long, value_name = "PLACE")]
    upto: Option<Seq>,
}

/// How to keep a conversation.
#[derive(clap::Args)]
pub struct Keep {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    #[command(flatten)]
    how: How,
}

/// The one thing that is changed.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct How {
    /// Pin to the top
    #[arg(long)]
    pinned: Option<bool>,
    /// Mute notifications
    #[arg(long)]
    muted: Option<bool>,
    /// Hide from the list until a new message arrives
    #[arg(long)]
    hidden: Option<bool>,
    /// Draft text; empty: none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    draft: Option<String>,
}

/// Message to recall.
#[derive(clap::Args)]
pub struct Recall {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Sequence number of the message, as printed by `history --places`
    #[arg(value_name = "PLACE")]
    place: Seq,
}

/// Prints the list.
pub(super) fn list(arguments: &List) -> Result<(), Failure> {
    let (mut session, _) = arguments.common.login("conversations")?;
    let (mut seen, mut before) = (Vec::<Conversation>::new(), 0);
    while (seen.len() as u32) < arguments.count {
        let count = (arguments.count - seen.len() as u32).min(PAGE.into()) as u16;
        let (groups, with) = (arguments.groups, None);
        let wish = ImOrder::Conversations { number: NUMBER, with, before, count, groups };
        let (page, more) = asked(&mut session, wish)?;
        let Some(oldest) = page.last() else { break };
        before = oldest.place;
        seen.extend(page);
        if !more {
            break;
        }
    }
    match arguments.json {
        true => seen.iter().for_each(|one| out!("{}", shown(one))),
        false => table(&seen),
    }
    goodbye(session);
    Ok(())
}

/// Moves the account's read cursor, and prints where it is.
pub(super) fn read(arguments: &Read) -> Result<(), Failure> {
    let with = addressee(&arguments.with)?;
    let (mut session, _) = arguments.common.login("read")?;
    let upto = match arguments.upto {
        Some(upto) => upto,
        None => {
            let (number, which) = (NUMBER, Some(with.clone()));
            let one =
                ImOrder::Conversations { number, with: which, before: 0, count: 1, groups: false };
            let (found, _) = asked(&mut session, one)?;
            let last = found.first().map_or(0, |one| one.last_seq);
            if last == 0 {
                return Err(format!("no conversation with {}", escaped(with.as_str())).into());
            }
            last
        }
    };
    session.order(ImOrder::MarkRead { number: 1, with, upto });
    let upto = answer(&mut session, |event| match event {
        ImEvent::MarkedRead { number: 1, upto } => Some(Ok(upto)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    out!("{upto}");
    goodbye(session);
    Ok(())
}

/// Keeps a conversation otherwise.
pub(super) fn keep(arguments: &Keep) -> Result<(), Failure> {
    let with = addressee(&arguments.with)?;
    let How { pinned, muted, hidden, draft } = &arguments.how;
    let draft = draft.as_deref().map(|draft| ConversationChange::Draft(draft.into()));
    let change = pinned.map(ConversationChange::Pin);
    let change = change.or(muted.map(|on| ConversationChange::Mute(on.into())));
    let change = change.or(hidden.map(ConversationChange::Hide)).or(draft);
    let change = change.ok_or_else(|| {
        "nothing to change: give --pinned, --muted, --hidden or --draft".to_owned()
    })?;
    let (mut session, _) = arguments.common.login("keep")?;
    session.order(ImOrder::Set { number: 1, with, change });
    answer(&mut session, |event| match event {
        ImEvent::Set { number: 1 } => Some(Ok(())),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    goodbye(session);
    Ok(())
}

/// Calls a message back, and prints the number of the message that tells of it.
pub(super) fn recall(arguments: &Recall) -> Result<(), Failure> {
    let (with, seq) = (addressee(&arguments.with)?, arguments.place);
    let (mut session, _) = arguments.common.login("recall")?;
    session.order(ImOrder::Recall { number: 1, with, seq });
    let id = answer(&mut session, |event| match event {
        ImEvent::Sent { number: 1, id, .. } => Some(Ok(id)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("not recalled: {word}"))),
        _ => None,
    })?;
    out!("{id}");
    goodbye(session);
    Ok(())
}

/// A page of the list, or one conversation; whether there are more.
fn asked(session: &mut ImSession, wish: ImOrder) -> Result<(Vec<Conversation>, bool), Failure> {
    session.order(wish);
    answer(session, |event| match event {
        ImEvent::Conversations(page) if page.number == NUMBER => {
            Some(Ok((page.conversations, page.more)))
        }
        ImEvent::Failed { number: NUMBER, word, .. } => {
            Some(Err(format!("list not available: {word}")))
        }
        _ => None,
    })
}

/// The list for people: pinned conversations first.
fn table(all: &[Conversation]) {
    let width = all.iter().map(|one| one.with.as_str().len()).max().unwrap_or(0).max(4);
    out!("{:<width$} {:>6} {:<8} LAST", "WITH", "UNREAD", "FLAGS");
    for one in all.iter().filter(|one| one.pinned).chain(all.iter().filter(|one| !one.pinned)) {
        let marks = [(one.pinned, "pin"), (one.muted, "mute")];
        let kept: Vec<_> = marks.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        let (kept, last) = (kept.join(","), last_words(one));
        out!("{:<width$} {:>6} {kept:<8} {last}", one.with.as_str(), unread(one));
    }
}

/// How many are unread; beyond what is counted, that it is more.
fn unread(one: &Conversation) -> String {
    let more = if u64::from(one.unread) >= UNREAD_PLACES_MAX { "+" } else { "" };
    format!("{}{more}", one.unread)
}

/// The last message with its sender, on one line.
fn last_words(one: &Conversation) -> String {
    let Some(last) = &one.last else { return String::new() };
    let from = last.from.name();
    match last.kind {
        Content::RECALL | Content::RECALLED => format!("{from} recalled a message"),
        Content::GROUP => format!("{from} changed the group"),
        _ => {
            let cut = if last.whole { "" } else { "..." };
            format!("{from}: {}{cut}", escaped(&last.text))
        }
    }
}

/// A conversation as JSON.
fn shown(one: &Conversation) -> serde_json::Value {
    let last = one.last.as_ref().map(|last| {
        json!({
            "id": last.id.to_string(),
            "at_ms": last.at_ms,
            "from": last.from.as_str(),
            "kind": last.kind,
            "text": &*last.text,
            "whole": last.whole,
        })
    });
    json!({
        "with": one.with.as_str(),
        "place": one.place,
        "last_seq": one.last_seq,
        "said_seq": one.said_seq,
        "last": last,
        "read": one.read,
        "peer_read": one.peer_read,
        "unread": one.unread,
        "mentions": one.mentions,
        "pinned": one.pinned,
        "muted": one.muted,
        "hidden": one.hidden,
        "left": one.left,
        "draft": &*one.draft,
    })
}
