//! `holdline im search`: messages of the account that have a text in them, the newest first.

use super::send::addressee;
use super::{Common, Failure, answer, goodbye, line};
use crate::out;
use base::text::escaped;
use client::im::{ImEvent, ImOrder};
use model::chat::SearchRange;
use model::timeline::Seq;

/// Words to search for.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Text to search for, in any case
    #[arg(value_name = "TEXT")]
    text: String,
    /// Only the conversation with NAME, NAME@DOMAIN, or a group
    #[arg(long, value_name = "WITH")]
    with: Option<String>,
    /// Only messages from this sender
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Maximum number, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
}

/// Prints what is found, as it is found.
pub(super) fn search(arguments: &Arguments) -> Result<(), Failure> {
    let who = |text: &Option<String>| text.as_deref().map(addressee).transpose();
    let (with, from) = (who(&arguments.with)?, who(&arguments.from)?);
    let (mut session, _) = arguments.common.login("search")?;
    let (mut left, mut before) = (arguments.count, Seq::MAX);
    while left > 0 && !out::is_closed() {
        let range = Box::new(SearchRange {
            text: arguments.text.as_str().into(),
            with: with.clone(),
            from: from.clone(),
            since_ms: 0,
            until_ms: u64::MAX,
            before,
            count: left.min(100) as u16,
        });
        session.order(ImOrder::Search { number: 2, range });
        let page = answer(&mut session, |event| match event {
            ImEvent::Found(page) if page.number == 2 => Some(Ok(page)),
            ImEvent::Failed { number: 2, word, .. } => Some(Err(format!("search failed: {word}"))),
            _ => None,
        })?;
        for (_, message) in &page.found {
            let with = if message.to.is_group() { message.to.as_str() } else { message.to.name() };
            out!("{} > {}", line(message), escaped(with));
        }
        left = left.saturating_sub(page.found.len() as u32);
        if !page.more {
            break;
        }
        before = page.before;
    }
    goodbye(session);
    Ok(())
}
