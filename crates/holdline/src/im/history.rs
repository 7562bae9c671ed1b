//! `holdline im history`: what was said with somebody, or in a group, oldest first.

use super::send::addressee;
use super::{Common, Failure, answer, goodbye, line};
use base::text::escaped;
use client::im::{ImEvent, ImOrder, ImSession};
use model::account::Addressee;
use model::chat::{ChatFault, ChatMessage};
use model::timeline::Seq;
use std::sync::Arc;

/// Conversation and part of its history to print.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Number of messages, counted from the last
    #[arg(long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Only messages before this sequence number; 0: the last ones
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    before: Seq,
    /// Print the sequence number before each message
    #[arg(long)]
    places: bool,
}

/// The server's words for an account that there is not, and for a group that one is not in.
const UNKNOWN: &str = ChatFault::UnknownAccount.name();
const NOT_MEMBER: &str = ChatFault::NotMember.name();

/// Prints it.
pub(super) fn history(arguments: &Arguments) -> Result<(), Failure> {
    let with = addressee(&arguments.with)?;
    let (mut session, _) = arguments.common.login("history")?;
    let messages = last(&mut session, &with, arguments.before, arguments.count)?;
    let messages = messages.ok_or_else(|| format!("unknown account {}", escaped(with.as_str())))?;
    for message in messages {
        match arguments.places {
            true => out!("{} {}", message.seq, line(&message)),
            false => out!("{}", line(&message)),
        }
    }
    goodbye(session);
    Ok(())
}

/// The last messages before a place (0: the end), oldest first. `None`: there is no such account.
pub(super) fn last(
    session: &mut ImSession,
    with: &Addressee,
    before: Seq,
    count: u32,
) -> Result<Option<Vec<Arc<ChatMessage>>>, Failure> {
    let (mut seen, mut from) = (Vec::<Arc<ChatMessage>>::new(), before);
    while (seen.len() as u32) < count {
        let wanted = (count - seen.len() as u32).min(100) as u16;
        let with = with.clone();
        session.order(ImOrder::History { number: 2, with, from, backwards: true, count: wanted });
        let answered = answer(session, |event| match event {
            ImEvent::History { number: 2, messages, more } => Some(Ok(Some((messages, more)))),
            ImEvent::Failed { number: 2, word, .. } if *word == *UNKNOWN => Some(Ok(None)),
            ImEvent::Failed { number: 2, word, .. } if *word == *NOT_MEMBER => {
                Some(Err("unknown group, or you are not a member of it".into()))
            }
            ImEvent::Failed { number: 2, word, .. } => {
                Some(Err(format!("history not available: {word}")))
            }
            _ => None,
        })?;
        let Some((messages, more)) = answered else { return Ok(None) };
        let Some(oldest) = messages.last() else { break };
        from = oldest.seq;
        seen.extend(messages);
        if !more || from <= 1 {
            break;
        }
    }
    seen.reverse();
    Ok(Some(seen))
}
