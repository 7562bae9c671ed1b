//! `holdline im edit` and `im react`: a message says something else, or somebody reacts to it.

use super::send::addressee;
use super::{Common, Failure, answer, goodbye, history};
use client::im::{ImEvent, ImOrder, client_message_id};
use model::chat::{Content, TargetMessage};
use model::timeline::Seq;

/// Which message, and what it is to say.
#[derive(clap::Args)]
pub struct Edit {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Sequence number of the message, as printed by `im history --places`
    #[arg(value_name = "PLACE", value_parser = clap::value_parser!(u64).range(1..))]
    place: Seq,
    /// New text
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Which message, and how to react.
#[derive(clap::Args)]
pub struct React {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Sequence number of the message, as printed by `im history --places`
    #[arg(value_name = "PLACE", value_parser = clap::value_parser!(u64).range(1..))]
    place: Seq,
    /// Emoji, replacing your earlier ones; none removes them
    #[arg(value_name = "EMOJI")]
    emoji: Vec<String>,
}

/// Edits a message.
pub(super) fn edit(arguments: &Edit) -> Result<(), Failure> {
    let Edit { common, with, place, text } = arguments;
    amend(common, (with, *place), (Content::EDIT, text))
}

/// Reacts to a message.
pub(super) fn react(arguments: &React) -> Result<(), Failure> {
    let React { common, with, place, emoji } = arguments;
    amend(common, (with, *place), (Content::REACTION, &emoji.join(" ")))
}

fn amend(
    common: &Common,
    (with, place): (&str, Seq),
    (kind, text): (u16, &str),
) -> Result<(), Failure> {
    let to = addressee(with)?;
    let (mut session, _) = common.login("amend")?;
    let found = history::last(&mut session, &to, place.saturating_add(1), 1)?;
    let message = found.unwrap_or_default().pop().filter(|message| message.seq == place);
    let Some(message) = message else {
        return Err(format!("no message with sequence number {place}").into());
    };
    let extra = TargetMessage { seq: place, id: message.id, name: "".into() }.extra(b"");
    let content = Content { kind, text: text.into(), extra, ..Content::default() };
    let client_id = client_message_id()?;
    session.order(ImOrder::Send { number: 1, to, client_id, content });
    let id = answer(&mut session, |event| match event {
        ImEvent::Sent { number: 1, id, .. } => Some(Ok(id)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    out!("{id}");
    goodbye(session);
    Ok(())
}
