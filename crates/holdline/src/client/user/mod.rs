//! `holdline user`: the book of users of a running server, and lines for password files.
//!
//! A password is never an argument, where other users of the machine and the shell's history would
//! see it: it is read from standard input.

use crate::client::{Server, encoded, query, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use model::ports::users::UserOrder;
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod contents;
mod copies;
mod export;
mod import;
mod moved;
mod rooms;
mod talk;

use export::Export;
use import::Import;

/// Action of `holdline user`.
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
    /// List the users
    List {
        /// Maximum number of entries
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show a user and its permissions
    Show {
        /// User name; `*`: the rules for everybody
        #[arg(value_parser = user_name)]
        name: String,
    },
    /// Create or change a user; options not given keep their values
    Put(Put),
    /// Remove users
    Remove {
        /// User names
        #[arg(required = true, value_parser = user_name)]
        names: Vec<String>,
    },
    /// Create or change the users in a file; identical ones are left alone
    Import(Import),
    /// Export accounts to an XEP-0227 file: keys, contacts, vCards, PubSub nodes, private storage,
    /// archives
    Export(Export),
    /// End all sessions of users, of every protocol; they may reconnect
    Kick {
        /// User names
        #[arg(required = true, value_parser = user_name)]
        names: Vec<String>,
    },
    /// Set a user's password in a password file, without a server; the file is created if missing
    Passwd {
        /// Password file, in the format of mosquitto_passwd
        file: PathBuf,
        /// User name
        #[arg(value_parser = file_name)]
        name: String,
        /// Remove the user from the file
        #[arg(long)]
        remove: bool,
    },
}

#[derive(Args)]
struct Put {
    /// User name; `*`: the rules for everybody
    #[arg(value_parser = user_name)]
    name: String,
    /// Read a new password from standard input
    #[arg(long)]
    password: bool,
    /// Superuser: may do everything; `false` revokes it
    #[arg(long = "super", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    is_super: Option<bool>,
    /// Disable the user: logins are refused; `false` enables it again
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    disabled: Option<bool>,
    /// May publish and subscribe: a topic filter; %c is the client, %u the user. The rules given,
    /// in this order, replace all rules of the user
    #[arg(long, value_name = "FILTER")]
    allow: Vec<String>,
    /// May publish
    #[arg(long, value_name = "FILTER")]
    publish: Vec<String>,
    /// May subscribe
    #[arg(long, value_name = "FILTER")]
    read: Vec<String>,
    /// May neither publish nor subscribe; checked before the other rules
    #[arg(long, value_name = "FILTER")]
    deny: Vec<String>,
    /// Remove all rules of the user
    #[arg(long, conflicts_with_all = ["allow", "publish", "read", "deny"])]
    no_rules: bool,
}

/// A name that a user can have.
fn user_name(text: &str) -> Result<String, String> {
    let max = UserOrder::NAME_BYTES_MAX;
    match text.is_empty() || text.len() > max || text.chars().any(char::is_control) {
        true => Err(format!("a user name has 1 to {max} bytes and no control characters")),
        false => Ok(text.to_owned()),
    }
}

/// A name that a user of a password file can have: a colon ends it there.
fn file_name(text: &str) -> Result<String, String> {
    match text.contains(':') {
        true => Err("a user name in a password file has no colon".into()),
        false => user_name(text),
    }
}

/// Carries out the command, and prints the result.
pub fn user(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    let path = |name: &str| format!("/v1/users/{}", encoded(name));
    let shown = |user: &Value| if json { format!("{user}\n") } else { card(user) };
    match &arguments.action {
        Action::List { limit } => {
            let mut found = server.pages(&query("/v1/users", &[]), "users", *limit)?;
            found.sort_by_cached_key(|user| text(&user["name"]));
            Ok(if json { lines(&found) } else { table(&found) })
        }
        Action::Show { name } => server.call("GET", &path(name), None).map(|user| shown(&user)),
        Action::Put(put) => {
            let password = if put.password { Some(password(&put.name)?) } else { None };
            let order = put.order(password);
            server.call("PUT", &path(&put.name), Some(&order)).map(|user| shown(&user))
        }
        Action::Remove { names } => server.delete_each(names, path, (json, "removed")),
        Action::Import(order) => import::import(server, order, json),
        Action::Export(order) => export::export(server, order),
        Action::Kick { names } => {
            let kick = |name: &String| {
                let user = server.call("POST", &format!("{}/kick", path(name)), None)?;
                let told = format!("{}: all sessions ended\n", text(&user["name"]));
                Ok::<_, String>(if json { format!("{user}\n") } else { told })
            };
            names.iter().map(kick).collect()
        }
        Action::Passwd { file, name, remove } => {
            let line = if *remove { None } else { Some(hashed(name, &password(name)?)?) };
            passwd(file, name, line.as_deref())
        }
    }
}

impl Put {
    fn order(&self, password: Option<String>) -> Value {
        let mut order = json!({});
        if let Some(password) = password {
            order["password"] = json!(password);
        }
        if let Some(is_super) = self.is_super {
            order["superuser"] = json!(is_super);
        }
        if let Some(disabled) = self.disabled {
            order["disabled"] = json!(disabled);
        }
        let sorts = [
            (&self.deny, "all", false),
            (&self.publish, "publish", true),
            (&self.read, "read", true),
            (&self.allow, "all", true),
        ];
        let rules: Vec<Value> = sorts
            .into_iter()
            .flat_map(|(filters, action, allow)| {
                let rule = move |filter: &String| {
                    json!({ "filter": filter, "action": action, "allow": allow })
                };
                filters.iter().map(rule)
            })
            .collect();
        if self.no_rules || !rules.is_empty() {
            order["rules"] = json!(rules);
        }
        order
    }
}

fn table(users: &[Value]) -> String {
    let mut out =
        format!("{:<32} {:<9} {:<6} {:<9} {:>5}\n", "USER", "PASSWORD", "SUPER", "STATE", "RULES");
    for user in users {
        let yes = |key: &str| if user[key] == true { "yes" } else { "no" };
        let state = if user["disabled"] == true { "disabled" } else { "enabled" };
        out += &format!(
            "{:<32} {:<9} {:<6} {state:<9} {:>5}\n",
            text(&user["name"]),
            yes("has_password"),
            yes("superuser"),
            user["rules"].as_array().map_or(0, Vec::len),
        );
    }
    out
}

fn card(user: &Value) -> String {
    let word = |key: &str, word: &'static str| if user[key] == true { word } else { "" };
    let mut out = format!("{}, account {}", text(&user["name"]), text(&user["uid"]));
    for part in [
        if user["has_password"] == true { "" } else { ", no password" },
        word("superuser", ", superuser"),
        word("disabled", ", disabled"),
    ] {
        out += part;
    }
    out += "\n";
    for rule in user["rules"].as_array().into_iter().flatten() {
        let allow = if rule["allow"] == true { "allow" } else { "deny" };
        out += &format!("  {allow:<6} {:<8} {}\n", text(&rule["action"]), text(&rule["filter"]));
    }
    out
}

/// One line of standard input; at a terminal it is asked for, and seen as it is typed.
fn password(name: &str) -> Result<String, String> {
    let input = std::io::stdin();
    if input.is_terminal() {
        crate::out::note(&format!("New password for {name} (input is visible): "));
    }
    let mut line = String::new();
    input.lock().read_line(&mut line).map_err(|error| format!("standard input: {error}"))?;
    let password = line.trim_end_matches(['\r', '\n']);
    match password.is_empty() {
        true => Err("expected the password on standard input, as one line".into()),
        false => Ok(password.into()),
    }
}

/// A line of a password file.
fn hashed(name: &str, password: &str) -> Result<String, String> {
    server::access::password_line(name, password)
}

/// Puts the user's line into the file, or takes it out. The file is replaced whole, so that a
/// server that reads it meanwhile sees one or the other.
fn passwd(file: &Path, name: &str, line: Option<&str>) -> Result<String, String> {
    let shown = file.display();
    let told = |error: std::io::Error| format!("{shown}: {error}");
    let before = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && line.is_some() => {
            String::new()
        }
        Err(error) => return Err(told(error)),
    };
    let (text, was_there) = replaced(&before, name, line);
    if line.is_none() && !was_there {
        return Err(format!("{shown}: no user {name}"));
    }
    let next = file.with_extension("next");
    write_private(&next, &text).map_err(|error| format!("{}: {error}", next.display()))?;
    if let Ok(before) = std::fs::metadata(file) {
        std::fs::set_permissions(&next, before.permissions()).map_err(told)?;
    }
    std::fs::rename(&next, file).map_err(told)?;
    let what = match (line, was_there) {
        (None, _) => "removed from",
        (Some(_), true) => "password changed in",
        (Some(_), false) => "added to",
    };
    Ok(format!("{name}: {what} {shown}; a running server loads it on SIGHUP\n"))
}

/// A file that nobody else reads.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The text with this line for the user, and whether it had one.
fn replaced(text: &str, name: &str, line: Option<&str>) -> (String, bool) {
    let is_of = |line: &str| line.split_once(':').is_some_and(|(found, _)| found == name);
    let was_there = text.lines().any(is_of);
    let mut lines: Vec<&str> = Vec::new();
    let mut new = line;
    for old in text.lines() {
        match is_of(old) {
            true => lines.extend(new.take()),
            false => lines.push(old),
        }
    }
    lines.extend(new);
    (lines.into_iter().map(|line| format!("{line}\n")).collect(), was_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_user_can_have_is_refused_with_what_is_allowed() {
        for wrong in ["", "a\nb", &"x".repeat(UserOrder::NAME_BYTES_MAX + 1)] {
            let why = user_name(wrong).expect_err("no name");
            assert!(why.contains("bytes and no control characters"), "{why}");
        }
        assert_eq!(user_name("ann:till 7"), Ok("ann:till 7".to_owned()));
        assert!(file_name("ann:till").is_err_and(|why| why.contains("colon")));
    }

    #[test]
    fn a_line_is_put_in_replaced_and_taken_out() {
        assert_eq!(replaced("", "a", Some("a:1")), ("a:1\n".into(), false));
        let two = "b:0\na:1\n# x\na:9";
        assert_eq!(replaced(two, "a", Some("a:2")), ("b:0\na:2\n# x\n".into(), true));
        assert_eq!(replaced(two, "b", None), ("a:1\n# x\na:9\n".into(), true));
        assert!(!replaced(two, "c", None).1);
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("passwords");
        passwd(&file, "a", Some("a:1")).expect("made");
        let mode = |file: &Path| std::fs::metadata(file).expect("is there").permissions().mode();
        assert_eq!(mode(&file) & 0o777, 0o600);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("set");
        passwd(&file, "b", Some("b:1")).expect("changed");
        assert_eq!(mode(&file) & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "a:1\nb:1\n");
        assert!(passwd(&file, "c", None).is_err_and(|why| why.contains("no user c")));
    }

    #[test]
    fn rules_are_ordered_with_what_is_denied_first() {
        let put = Put {
            name: "u".into(),
            password: false,
            is_super: Some(false),
            disabled: None,
            allow: vec!["a/#".into()],
            publish: Vec::new(),
            read: vec!["b".into()],
            deny: vec!["a/secret".into()],
            no_rules: false,
        };
        let order = put.order(None);
        assert_eq!(order["superuser"], false);
        assert_eq!((order.get("password"), order.get("disabled")), (None, None));
        let filters: Vec<_> =
            order["rules"].as_array().expect("rules").iter().map(|r| text(&r["filter"])).collect();
        assert_eq!(filters, ["a/secret", "b", "a/#"]);
    }
}
