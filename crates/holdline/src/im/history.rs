//! `holdline im history`: what was said with somebody, or in a group, oldest first.

use super::send::addressee;
use super::{Common, Failure, answer, goodbye, line};
use base::text::escaped;
use client::im::{ImEvent, ImOrder, ImSession};
use model::account::Addressee;
use model::chat::{ChatFault, ChatMessage};
use model::timeline::Seq;
use std::sync::Arc;

/// What to print.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// With whom: NAME, of one's own domain, or NAME@DOMAIN, or a group's address
    #[arg(value_name = "WITH")]
    with: String,
    /// So many messages, the last ones
    #[arg(long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Those before this place in the conversation
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    before: Seq,
    /// Print the place of each in front of it
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
    let messages =
        messages.ok_or_else(|| format!("there is no account {}", escaped(with.as_str())))?;
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
                Some(Err("there is no such group, or you are no member of it".into()))
            }
            ImEvent::Failed { number: 2, word, .. } => Some(Err(format!("no history: {word}"))),
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
