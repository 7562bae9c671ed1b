//! `holdline chat`: what an operator does about chat, over a running server's API.
//!
//! The most wanted of it: look at an account, mute it, say something as the server or in a name,
//! read a history, look at a group and change it, call a message back, broadcast. It knows nothing
//! of conversations but what the API answers.

mod verbs;

use crate::client::consent::consent;
use crate::client::{Server, encoded, moment, named, query, tell};
use crate::clients::text;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::ExitCode;
use std::time::Duration;

/// How long an erasure is left alone before it is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Action of `holdline chat`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show an account: its devices, and whether it is muted
    Show {
        /// Name or address
        #[arg(value_parser = named)]
        account: String,
    },
    /// Mute an account for a time
    Mute {
        /// Name or address
        #[arg(value_parser = named)]
        account: String,
        /// How long: 90s, 5m, 1h30m; a plain number is in seconds
        #[arg(
            long = "for",
            value_name = "TIME",
            value_parser = crate::duration::some_seconds,
            default_value = "1h"
        )]
        seconds: u32,
    },
    /// Unmute an account
    Unmute {
        /// Name or address
        #[arg(value_parser = named)]
        account: String,
    },
    /// Send a message to an account or a group
    Send {
        /// Account or group
        to: String,
        /// Text of the message
        text: String,
        /// Sender
        #[arg(long, default_value = "system")]
        from: String,
        /// A UUID of your own: retries with it never duplicate the message
        #[arg(long, value_name = "UUID")]
        id: Option<String>,
    },
    /// Show the last messages between two accounts or in a group
    History {
        /// Account or group
        of: String,
        /// The other account; omit for a group
        with: Option<String>,
        /// Maximum number of messages
        #[arg(long, default_value_t = 50)]
        limit: u16,
    },
    /// List all groups with members, owner and the time of the last message
    Groups,
    /// Show a group and its members
    Group {
        /// Name or address
        group: String,
    },
    /// Change a group
    Change {
        /// Name or address
        group: String,
        /// Change to make
        #[arg(value_parser = verbs::of_group())]
        verb: String,
        /// Members or accounts concerned
        members: Vec<String>,
        /// New title, for rename
        #[arg(long, default_value = "")]
        title: String,
    },
    /// List chatrooms with the number of participants
    Chatrooms {
        /// Only rooms after this one, in the order of the list
        #[arg(long, value_name = "ROOM")]
        after: Option<String>,
        /// Maximum number of entries
        #[arg(long, default_value_t = 50)]
        limit: u16,
    },
    /// Change a chatroom
    Chatroom {
        /// Name or address
        room: String,
        /// Change to make
        #[arg(value_parser = verbs::of_chatroom())]
        verb: String,
        /// Members or accounts concerned
        accounts: Vec<String>,
        /// Title or announcement
        #[arg(long, default_value = "")]
        text: String,
    },
    /// Recall a message of any sender and any age
    Recall {
        /// Sequence number of the message in the conversation
        seq: u64,
        /// Account or group
        of: String,
        /// The other account; omit for a group
        with: Option<String>,
    },
    /// Export all data of an account as JSON lines; the last line is `end`
    Export {
        /// Name or address
        #[arg(value_parser = named)]
        account: String,
    },
    /// Erase an account permanently: its messages, groups, contacts, nodes and user entry. Asks
    /// first; exit code 3 if declined. Repeated, it shows the progress
    Erase {
        /// Name or address
        #[arg(value_parser = named)]
        account: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Wait until the account is erased
        #[arg(long)]
        wait: bool,
    },
    /// Broadcast a message to all accounts, or show the progress of broadcasts
    Broadcast {
        /// Text of the message; without it, list the broadcasts
        text: Option<String>,
        /// Sender
        #[arg(long, default_value = "system")]
        from: String,
        /// Cancel the broadcast with this number
        #[arg(long, value_name = "NUMBER", conflicts_with = "text")]
        cancel: Option<u64>,
    },
}

/// Carries out the command, and prints the result.
pub fn chat(arguments: Arguments) -> ExitCode {
    match &arguments.action {
        Action::Export { account } => match export(&arguments.server, account) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => tell(Err(why)),
        },
        Action::Erase { account, yes, .. } => {
            let question = format!(
                "Erase the account {account} with its messages, groups and contacts? This cannot \
                 be undone."
            );
            match consent(&question, *yes) {
                Ok(()) => tell(act(&arguments)),
                Err(declined) => declined,
            }
        }
        _ => tell(act(&arguments)),
    }
}

/// Copies an export as it comes; one that does not end with `end` is not whole.
fn export(server: &Server, account: &str) -> Result<(), String> {
    let stream = server.stream(&of_account(account, "/export"))?;
    let mut is_whole = false;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(|error| format!("the server aborted the export: {error}"))?;
        let what: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        is_whole = what["type"] == "end";
        out!("{line}");
        if crate::out::is_closed() {
            return Ok(());
        }
    }
    match is_whole {
        true => Ok(()),
        false => Err("the export is incomplete: its last line is not `end`".into()),
    }
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json: as_json, action } = arguments;
    let told = match action {
        Action::Show { account } => server.call("GET", &of_account(account, ""), None)?,
        Action::Mute { account, seconds } => {
            let order = json!({ "seconds": seconds });
            server.call("PUT", &of_account(account, "/mute"), Some(&order))?
        }
        Action::Unmute { account } => server.call("DELETE", &of_account(account, "/mute"), None)?,
        Action::Send { to, text, from, id } => {
            let mut order = json!({ "to": to, "message": { "text": text } });
            if let Some(id) = id {
                order["client_id"] = json!(id);
            }
            server.call("POST", &of_account(from, "/messages"), Some(&order))?
        }
        Action::History { of, with, limit } => {
            let path = of_conversation(of, with.as_deref(), "/history");
            let filters = [("with", with.clone()), ("limit", Some(limit.to_string()))];
            server.call("GET", &query(&path, &filters), None)?
        }
        Action::Erase { account, wait, .. } => erase(server, account, *wait)?,
        Action::Groups => groups(server)?,
        Action::Export { .. } => return Err("an export is copied".into()),
        Action::Group { group } => {
            server.call("GET", &format!("/v1/chat/groups/{}", encoded(group)), None)?
        }
        Action::Change { group, verb, members, title } => {
            let order = json!({ "verb": verb, "members": members, "title": title });
            let path = format!("/v1/chat/groups/{}/changes", encoded(group));
            server.call("POST", &path, Some(&order))?
        }
        Action::Chatrooms { after, limit } => {
            let filters = [("after", after.clone()), ("limit", Some(limit.to_string()))];
            server.call("GET", &query("/v1/chat/chatrooms", &filters), None)?
        }
        Action::Chatroom { room, verb, accounts, text } => {
            let order = json!({ "verb": verb, "accounts": accounts, "text": text });
            let path = format!("/v1/chat/chatrooms/{}/changes", encoded(room));
            server.call("POST", &path, Some(&order))?
        }
        Action::Recall { seq, of, with } => {
            let mut order = json!({ "seq": seq });
            if let Some(with) = with {
                order["with"] = json!(with);
            }
            let path = of_conversation(of, with.as_deref(), "/recall");
            server.call("POST", &path, Some(&order))?
        }
        Action::Broadcast { cancel: Some(number), .. } => {
            server.call("DELETE", &format!("/v1/chat/broadcasts/{number}"), None)?
        }
        Action::Broadcast { text: Some(text), from, .. } => {
            let order = json!({ "all": true, "from": from, "message": { "text": text } });
            server.call("POST", "/v1/chat/broadcasts", Some(&order))?
        }
        Action::Broadcast { .. } => server.call("GET", "/v1/chat/broadcasts", None)?,
    };
    Ok(if *as_json { format!("{told}\n") } else { shown(action, &told) })
}

/// Begins to erase an account, or says how far that is; with `wait` until it is done.
fn erase(server: &Server, account: &str, wait: bool) -> Result<Value, String> {
    let path = of_account(account, "");
    let mut told = server.call("DELETE", &path, None)?;
    while wait && told["erased"] != true {
        std::thread::sleep(ASK_AGAIN);
        match server.call("DELETE", &path, None) {
            Ok(further) => told = further,
            // Nobody is there any more by that name.
            Err(why) if why.contains("unknown_account") => told["erased"] = json!(true),
            Err(why) => return Err(why),
        }
    }
    Ok(told)
}

/// All groups, page by page.
fn groups(server: &Server) -> Result<Value, String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let filters = [("after", after.clone()), ("limit", Some("256".to_owned()))];
        let mut page = server.call("GET", &query("/v1/chat/groups", &filters), None)?;
        if let Some(groups) = page["groups"].as_array_mut() {
            all.append(groups);
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(json!({ "groups": all })),
        }
    }
}

fn of_account(account: &str, what: &str) -> String {
    format!("/v1/chat/accounts/{}{what}", encoded(account))
}

/// Of two accounts, or, where there is no other, of a group.
fn of_conversation(of: &str, with: Option<&str>, what: &str) -> String {
    match with {
        Some(_) => of_account(of, what),
        None => format!("/v1/chat/groups/{}{what}", encoded(of)),
    }
}

fn shown(action: &Action, told: &Value) -> String {
    let rows = |key: &str| rows(told, key);
    match action {
        Action::Show { .. } | Action::Mute { .. } | Action::Unmute { .. } => shown_account(told),
        Action::History { .. } => {
            let mut messages = rows("messages");
            messages.reverse(); // they come from the last one back
            let line = |it: &Value| {
                let (seq, from) = (text(&it["seq"]), text(&it["from"]));
                format!("{seq:>6}  {from}  {}\n", text(&it["text"]))
            };
            messages.iter().map(line).collect()
        }
        Action::Export { .. } => String::new(),
        Action::Erase { .. } => match told["erased"] == true {
            true => "erased\n".into(),
            false => {
                let of = |key: &str| text(&told[key]);
                format!("being erased: {}, {} messages recalled\n", of("step"), of("messages"))
            }
        },
        Action::Groups => {
            let line = |it: &Value| {
                let of = |key: &str| text(&it[key]);
                let last = moment(&it["last_ms"], "never");
                let (group, title) = (of("group"), of("title"));
                format!("{group}  {:>5} members  {last}  {}  {title}\n", of("members"), of("owner"))
            };
            rows("groups").iter().map(line).collect()
        }
        Action::Group { .. } => shown_group(told),
        Action::Broadcast { .. } => {
            let one = |it: &Value| {
                let of = |key: &str| text(&it[key]);
                let (sent, refused) = (of("sent"), of("refused"));
                format!("{}  {}  sent {sent}, refused {refused}\n", of("id"), of("state"))
            };
            match told["broadcasts"].as_array() {
                Some(all) => all.iter().map(one).collect(),
                None => one(told),
            }
        }
        Action::Chatrooms { .. } => {
            let line = |it: &Value| {
                let of = |key: &str| text(&it[key]);
                let quiet = if it["quiet"] == true { "  quiet" } else { "" };
                format!("{}  {} participants  {}{quiet}\n", of("room"), of("here"), of("title"))
            };
            rows("chatrooms").iter().map(line).collect()
        }
        Action::Chatroom { .. } => format!("done: {}\n", text(&told["room"])),
        Action::Send { .. } | Action::Change { .. } | Action::Recall { .. } => {
            let again = if told["again"] == true { " (sent before)" } else { "" };
            format!(
                "sent: message {}, sequence number {}{again}\n",
                text(&told["id"]),
                text(&told["seq"])
            )
        }
    }
}

/// An account, and its devices.
fn shown_account(told: &Value) -> String {
    let devices: Vec<_> = rows(told, "devices").iter().map(text).collect();
    let muted = match told["muted_until"].as_u64() {
        Some(until_s) => moment(&json!(until_s * 1_000), ""),
        None => "no".into(),
    };
    let (account, devices) = (text(&told["account"]), devices.join(", "));
    format!("account  {account}\ndevices  {devices}\nmuted    {muted}\n")
}

/// A group, and its members.
fn shown_group(told: &Value) -> String {
    let (title, total) = (text(&told["title"]), text(&told["total"]));
    let closed = if told["closed"] == true { ", closed" } else { "" };
    let public = if told["public"] == true { ", public" } else { "" };
    let temporary = if told["temporary"] == true { ", temporary" } else { "" };
    let line = |it: &Value| {
        let muted = if it["muted"] == true { "  muted" } else { "" };
        format!("{:<8} {}{muted}\n", text(&it["role"]), text(&it["account"]))
    };
    let members: String = rows(told, "members").iter().map(line).collect();
    let group = text(&told["group"]);
    format!("{group}  {title}, {total} members{closed}{public}{temporary}\n{members}")
}

fn rows(told: &Value, key: &str) -> Vec<Value> {
    told[key].as_array().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_an_accounts_or_a_groups() {
        assert_eq!(of_conversation("ann", Some("bob"), "/recall"), "/v1/chat/accounts/ann/recall");
        assert_eq!(of_conversation("lunch", None, "/history"), "/v1/chat/groups/lunch/history");
    }

    #[test]
    fn a_history_is_shown_from_the_first_to_the_last() {
        let told = json!({ "messages": [
            { "seq": 2, "from": "bob@a", "text": "two" },
            { "seq": 1, "from": "ann@a", "text": "one" },
        ] });
        let action = Action::History { of: "ann".into(), with: Some("bob".into()), limit: 2 };
        assert_eq!(shown(&action, &told), "     1  ann@a  one\n     2  bob@a  two\n");
    }
}
