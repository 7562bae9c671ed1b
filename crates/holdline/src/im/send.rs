//! `holdline im send`: one message, with a file or without, and the server's word that it is
//! stored.

use super::upload::upload;
use super::{Common, Failure, answer, goodbye};
use base::hex;
use client::im::{ImEvent, ImOrder, client_message_id};
use model::account::Addressee;
use model::chat::{ClientMessageId, Content};
use std::io::Read;
use std::path::PathBuf;

/// Message to send, and to whom.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Recipient: NAME, of your own domain, NAME@DOMAIN, or the address of a group
    #[arg(value_name = "TO")]
    to: String,
    /// The message; without it, or with -, read it from standard input
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Upload this file and send its link; TEXT is the caption, the file's name by default
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Media type of the file; by default derived from its name
    #[arg(long = "type", value_name = "TYPE", requires = "file")]
    media_type: Option<String>,
    /// Message id, 32 hex digits: retries with the same id never duplicate the message
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// Sends it.
pub(super) fn send(arguments: Arguments) -> Result<(), Failure> {
    let to = addressee(&arguments.to)?;
    let client_id = id_of(arguments.id.as_deref())?;
    let text = match arguments.text.as_deref() {
        None if arguments.file.is_some() => String::new(),
        None | Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| format!("standard input: {error}"))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    let (mut session, _) = arguments.common.login("send")?;
    let content = match &arguments.file {
        Some(file) => {
            let said = Some(&*text).filter(|text| !text.is_empty());
            upload(&mut session, file, (arguments.media_type.as_deref(), said))?
        }
        None => Content::text(&text),
    };
    session.order(ImOrder::Send { number: 1, to, client_id, content });
    let id = answer(&mut session, |event| match event {
        ImEvent::Sent { number: 1, id, .. } => Some(Ok(id)),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(not_sent(&arguments.to, &word))),
        _ => None,
    })?;
    out!("{id}");
    goodbye(session);
    Ok(())
}

/// Why a message was not sent.
fn not_sent(to: &str, word: &str) -> String {
    let remedy = match word {
        "unknown_account" => ". An account exists once its user was created and has logged in",
        _ => "",
    };
    format!("not sent to {to}: {word}{remedy}")
}

/// The id that was given, or one that nobody else gives.
pub(super) fn id_of(given: Option<&str>) -> Result<ClientMessageId, Failure> {
    let Some(text) = given else { return Ok(client_message_id()?) };
    let id = hex::decode_array(text).map(ClientMessageId);
    id.ok_or_else(|| format!("{text}: an id must have 32 hex digits").into())
}

/// The address that a word of the command line names.
pub(super) fn addressee(text: &str) -> Result<Addressee, Failure> {
    Addressee::parse(text).map_err(|fault| format!("{text}: {fault}").into())
}
