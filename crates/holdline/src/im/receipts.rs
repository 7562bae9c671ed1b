//! `holdline im readers` and `privacy`: who has read what, and whether one lets others know
//! (IM 17).

use super::send::addressee;
use super::{Common, Failure, answer, goodbye};
use base::text::escaped;
use client::im::{ImEvent, ImOrder};
use model::chat::{Adding, PrivacyWish, READERS_PAGE_MAX, ReadersPage, ReadersRange};
use model::timeline::Seq;
use serde_json::json;

/// The conversation whose readers are shown.
#[derive(clap::Args)]
pub struct Readers {
    #[command(flatten)]
    common: Common,
    /// The other side: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "WITH")]
    with: String,
    /// Count the readers of the message with this sequence number
    #[arg(value_name = "PLACE")]
    place: Option<Seq>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Changes of the account's privacy.
#[derive(clap::Args)]
pub struct Privacy {
    #[command(flatten)]
    common: Common,
    /// Share read receipts with others and see theirs; without a value, print the current setting
    #[arg(long, value_name = "WHETHER")]
    share_reads: Option<bool>,
    /// Accounts that may add you to groups directly: everybody, contacts or nobody; others can only
    /// invite you
    #[arg(long, value_name = "WHO", value_parser = adding)]
    adding: Option<Adding>,
}

/// Prints how far others are with a conversation.
pub(super) fn readers(arguments: &Readers) -> Result<(), Failure> {
    let with = addressee(&arguments.with)?;
    let (mut session, _) = arguments.common.login("readers")?;
    let (seq, mut from) = (arguments.place.unwrap_or(0), 0);
    let counted = loop {
        let (with, count) = (with.clone(), READERS_PAGE_MAX);
        let range = Box::new(ReadersRange { with, seq, from, count });
        session.order(ImOrder::Readers { number: 1, range });
        let page = answer(&mut session, |event| match event {
            ImEvent::Readers(page) if page.number == 1 => Some(Ok(*page)),
            ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
            _ => None,
        })?;
        print(&page, arguments.json);
        from += page.readers.len() as u32;
        if page.readers.is_empty() || from >= page.total {
            break page;
        }
    };
    if seq > 0 {
        note!("read by {} of {}", counted.read, counted.total);
    }
    goodbye(session);
    Ok(())
}

fn print(page: &ReadersPage, as_json: bool) {
    for reader in &page.readers {
        let (account, read, delivered) = (reader.account.as_str(), reader.read, reader.delivered);
        if as_json {
            let line = json!({ "account": account, "read": read, "delivered": delivered });
            out!("{line}");
        } else if page.with.is_group() {
            out!("{}: read {read}", escaped(account));
        } else {
            out!("{}: delivered {delivered}, read {read}", escaped(account));
        }
    }
}

fn adding(word: &str) -> Result<Adding, String> {
    Adding::of(word).ok_or_else(|| "expected everybody, contacts or nobody".to_owned())
}

/// Prints the account's privacy, or sets it.
pub(super) fn privacy(arguments: &Privacy) -> Result<(), Failure> {
    let (mut session, _) = arguments.common.login("privacy")?;
    let wish = PrivacyWish { shares_reads: arguments.share_reads, adding: arguments.adding };
    session.order(ImOrder::Privacy { number: 1, wish });
    let state = answer(&mut session, |event| match event {
        ImEvent::Privacy { number: 1, state } => Some(Ok(state)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        _ => None,
    })?;
    let word = if state.shares_reads { "shared" } else { "private" };
    out!("read receipts are {word}");
    out!("added to groups directly by {}", state.adding.name());
    goodbye(session);
    Ok(())
}
