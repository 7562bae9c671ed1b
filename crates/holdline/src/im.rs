//! `holdline im`: a person, or a script, that talks by instant messaging.
//!
//! Each command logs in as a device of an account, does one thing and goes. Text of strangers is
//! printed on one line, with nothing in it that a terminal obeys.

mod amend;
mod changes;
mod chat;
mod chatrooms;
mod contacts;
mod conversations;
mod follower;
mod groups;
mod history;
mod keyboard;
mod listen;
mod presence;
mod push;
mod receipts;
mod search;
mod send;
mod upload;

use crate::mqtt::Tls;
use base::calendar::{date, hour};
use base::text::escaped;
use clap::{Args, Subcommand};
use client::im::{ImEvent, ImSession, ImSettings, Profile, Welcome};
use client::{BrokerAddress, ConnectError, IM_PORT, IMS_PORT, Scram};
use model::chat::{Amended, ChatMessage, Content, Reaction};
use model::media::FileNote;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Time for an answer of the server.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Action of `holdline im`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Log in, print the account and the state of its inbox, and exit
    Login(Common),
    /// Create groups, change them and list their members
    Groups(groups::Arguments),
    /// Send a message or a file; print its server-side number once it is stored
    Send(send::Arguments),
    /// Chat with a user or in a group: typed lines are sent, incoming messages printed; /quit ends
    Chat(chat::Arguments),
    /// Create chatrooms, change them, chat in them and list the participants
    Chatrooms(chatrooms::Arguments),
    /// Print the messages of a conversation
    History(history::Arguments),
    /// Print everything that arrives, one JSON object per line
    Listen(listen::Arguments),
    /// List your conversations, newest first: with whom, unread messages, last message
    Conversations(conversations::List),
    /// Mark a conversation as read on all devices, and send a read receipt
    Read(conversations::Read),
    /// Print delivery and read receipts of a conversation, or the readers of a message
    Readers(receipts::Readers),
    /// Share read receipts or keep them private, in both directions
    Privacy(receipts::Privacy),
    /// Change settings of a conversation: pinned, muted, hidden, draft
    Keep(conversations::Keep),
    /// Recall a message of yours
    Recall(conversations::Recall),
    /// Edit a message of yours
    Edit(amend::Edit),
    /// React to a message with emoji
    React(amend::React),
    /// Search messages for a text, newest first
    Search(search::Arguments),
    /// List and change contacts, friends, contact requests and blocked users
    Contacts(contacts::Arguments),
    /// Be online until Ctrl-C and print the presence of others, one JSON object per line
    Presence(presence::Arguments),
    /// Set up push notifications for offline devices, and quiet hours
    Push(push::Arguments),
}

/// Flags of all commands: who logs in where.
#[derive(Args)]
struct Common {
    /// Host of the server
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// Port; 7005, or 7006 with TLS
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// URL with all of these: im(s)|ws(s)://[USER[:PASSWORD]@]HOST[:PORT][/PATH]
    #[arg(long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    url: Option<String>,
    /// Connect over WebSocket, at this path
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "/im")]
    ws: Option<String>,
    /// Account: NAME or NAME@DOMAIN
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Password or token
    #[arg(long, value_name = "PASSWORD", env = "HOLDLINE_IM_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// Authenticate with SCRAM-SHA-256 instead of sending the password
    #[arg(long)]
    scram: bool,
    /// Device name, for which the server stores the read position; by default one per command
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    #[command(flatten)]
    tls: Tls,
}

/// Why a command ends before its work is done.
struct Failure(String);

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure(text)
    }
}

impl From<ConnectError> for Failure {
    fn from(fault: ConnectError) -> Failure {
        Failure(fault.to_string())
    }
}

/// Carries out the command.
pub fn im(arguments: Arguments) -> ExitCode {
    let result = match arguments.command {
        Command::Login(common) => login(&common),
        Command::Groups(arguments) => groups::groups(arguments),
        Command::Send(arguments) => send::send(arguments),
        Command::Chat(arguments) => chat::chat(&arguments),
        Command::Chatrooms(arguments) => chatrooms::chatrooms(arguments),
        Command::History(arguments) => history::history(&arguments),
        Command::Edit(arguments) => amend::edit(&arguments),
        Command::React(arguments) => amend::react(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Listen(arguments) => listen::listen(&arguments),
        Command::Conversations(list) => conversations::list(&list),
        Command::Read(read) => conversations::read(&read),
        Command::Readers(readers) => receipts::readers(&readers),
        Command::Privacy(privacy) => receipts::privacy(&privacy),
        Command::Keep(keep) => conversations::keep(&keep),
        Command::Recall(recall) => conversations::recall(&recall),
        Command::Contacts(arguments) => contacts::contacts(arguments),
        Command::Presence(arguments) => presence::presence(&arguments),
        Command::Push(arguments) => push::push(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            note!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn login(common: &Common) -> Result<(), Failure> {
    let (session, welcome) = common.login("login")?;
    let Welcome { account, head, cursor, .. } = *welcome;
    out!("{account}: {head} messages in the inbox, {cursor} read by this device");
    goodbye(session);
    Ok(())
}

impl Common {
    /// Logs in; `command` names the device where none is named.
    fn login(&self, command: &str) -> Result<(ImSession, Box<Welcome>), Failure> {
        let mut session = ImSession::new(self.settings(command)?)?;
        let welcome = session.login()?;
        Ok((session, welcome))
    }

    fn settings(&self, command: &str) -> Result<ImSettings, String> {
        let address = self.address()?;
        let user = self.user.clone().or(address.user.clone());
        let user = user.ok_or("user name missing: give --user NAME")?;
        let password = match &self.password_file {
            Some(file) => Some(first_line(file)?),
            None => self.password.clone().or(address.password.clone()),
        };
        let device = self.device.clone().unwrap_or_else(|| format!("holdline-{command}"));
        let mut profile = Profile::new(&user, &device);
        let scram = match (self.scram, password) {
            (true, None) => return Err("--scram needs a password".into()),
            // The proof is about the name that the account's keys were made for.
            (true, Some(password)) => {
                let user = user.split('@').next().unwrap_or_default().to_owned();
                Some(Scram { user, password })
            }
            (false, password) => {
                profile.password = password.unwrap_or_default().into_bytes().into();
                None
            }
        };
        Ok(ImSettings {
            address,
            trust: self.tls.trust()?,
            profile,
            scram,
            connect_timeout: Duration::from_secs(10),
        })
    }

    fn address(&self) -> Result<BrokerAddress, String> {
        if let Some(url) = &self.url {
            let mut address = BrokerAddress::parse_im(url)?;
            if let (Some(path), Some(_)) = (&self.ws, &address.web_socket) {
                address.web_socket = Some(path.clone());
            }
            return Ok(address);
        }
        let tls = self.tls.is_wanted() || self.port == Some(IMS_PORT);
        let port = self.port.unwrap_or(if tls { IMS_PORT } else { IM_PORT });
        let address = BrokerAddress::im(&self.host, port);
        Ok(BrokerAddress { tls, web_socket: self.ws.clone(), ..address })
    }
}

fn first_line(file: &std::path::Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Waits for the answer to a request. Other events meanwhile are ignored.
fn answer<T>(
    session: &mut ImSession,
    mut is_it: impl FnMut(ImEvent) -> Option<Result<T, String>>,
) -> Result<T, Failure> {
    let until = client::now().after(ANSWER_TIME);
    loop {
        let now = client::now().mono;
        if now >= until {
            return Err(format!("{}: no answer in time", session.address()).into());
        }
        if let Some(answer) = session.poll(until - now)?.and_then(&mut is_it) {
            return answer.map_err(Failure);
        }
    }
}

/// Says farewell, after what still waits for the socket.
fn goodbye(mut session: ImSession) {
    session.order(client::im::ImOrder::Goodbye);
}

/// A message on one line: its time (UTC), who said it, and what; or what happened in a group.
fn line(message: &ChatMessage) -> String {
    let (from, text) = (message.from.name(), escaped(&message.content.text));
    let unix_s = message.at_ms / 1_000;
    let at = format!("{} {}", date(unix_s), hour(unix_s));
    if let Some(told) = changes::told(message) {
        return format!("{at} {told}");
    }
    let Content { kind, extra, .. } = &message.content;
    if let (&Content::FILE, Some(note)) = (kind, FileNote::parse(extra)) {
        let what = if note.media_type.is_empty() { "file" } else { note.media_type };
        let (what, url) = (escaped(what), escaped(note.url));
        return format!("{at} {from}: [{what}] {text} {url}");
    }
    let beside = match (*kind, extra.len()) {
        (Content::TEXT, 0) => String::new(),
        (Content::EDIT, _) => "(edited) ".into(),
        (Content::REACTION, _) => "reacts: ".into(),
        (kind, bytes) => format!("[kind {kind}, {bytes} bytes] "),
    };
    let quote = message.content.quote.as_ref().map(|it| format!("[quotes {}] ", it.target.seq));
    let beside = quote.unwrap_or_default() + &beside;
    let amended = message.amended.as_deref().map_or_else(String::new, amended);
    format!("{at} {from}: {beside}{text}{amended}")
}

/// State of a message: whether it was edited, and its reactions.
fn amended(it: &Amended) -> String {
    let edited = if it.edited_ms > 0 { " (edited)" } else { "" };
    let of = |it: &Reaction| format!(" [{} {}]", it.by.name(), escaped(&it.emoji));
    edited.to_owned() + &it.reactions.iter().map(of).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::{ClientMessageId, Quote};

    #[test]
    fn a_message_is_one_line_whatever_its_text() {
        let address = |text| AccountAddress::parse(text, "a.example").expect("right");
        let mut message = ChatMessage {
            id: 1,
            seq: 1,
            at_ms: 1_700_000_000_000,
            from: address("ann"),
            device: "phone".into(),
            to: address("bob"),
            client_id: ClientMessageId([0; 16]),
            content: Content::text("hello\n2023-11-14 22:13 bob: \x1b[2J"),
            amended: None,
        };
        let expected = "2023-11-14 22:13 ann: hello\\u000a2023-11-14 22:13 bob: \\u001b[2J";
        assert_eq!(line(&message), expected);
        let extra = b"abc".as_slice().into();
        message.content = Content { kind: 1_000, extra, ..Content::text("x") };
        assert_eq!(line(&message), "2023-11-14 22:13 ann: [kind 1000, 3 bytes] x");
        let extra = b"url: http://a.example/x\ntype: image/png\n".as_slice().into();
        message.content = Content { kind: Content::FILE, extra, ..Content::text("x") };
        let quote = Some(Box::new(Quote::of(3, 9)));
        let quoting =
            ChatMessage { content: Content { quote, ..Content::text("yes") }, ..message.clone() };
        assert_eq!(line(&quoting), "2023-11-14 22:13 ann: [quotes 3] yes");
        let expected = "2023-11-14 22:13 ann: [image/png] x http://a.example/x";
        assert_eq!(line(&message), expected);
    }
}
