//! `holdline user export`: accounts as a file of XEP-0227, with what people have beside.
//!
//! ```text
//! GET /v1/users, /v1/users/NAME/keys, /v1/chat/accounts/NAME/export ─► a file
//! ```
//! Lines of the API are written as they come. Invariant: what is written is XML, in one element
//! what belongs together; a file that is whole ends with the end of its root.

use super::text;
use crate::client::{Server, encoded, query};
use base::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use model::account::AccountAddress;
use model::chat::{ChatMessage, ClientMessageId, Content};
use proto_xmpp::moving;
use proto_xmpp::xml::text::escaped;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Accounts in one page of the book.
const PAGE: u32 = 1_000;

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const FORM: &str = "jabber:x:data";

/// Accounts to export, and the file.
#[derive(Args)]
pub struct Export {
    /// File to create; it contains password verifiers
    file: PathBuf,
    /// Accounts to export; all by default
    names: Vec<String>,
}

/// Element that is open in the file.
#[derive(Clone, PartialEq, Eq)]
enum Part {
    Nothing,
    Roster,
    Blocked,
    Nodes,
    /// Of a node.
    Items(String),
    Private,
    Archive,
}

/// An account that is being written.
struct User<'a, W> {
    out: &'a mut W,
    part: Part,
    /// Blocked users, until the roster is closed.
    blocked: Vec<String>,
    domain: String,
    messages: u64,
}

/// Exports what was ordered.
pub fn export(server: &Server, order: &Export) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}", order.file.display());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut out = BufWriter::new(options.open(&order.file).map_err(told)?);
    match written(server, order, &mut out) {
        Ok(sum) => {
            let file: File = out.into_inner().map_err(|error| told(error.into_error()))?;
            file.sync_all().map_err(told)?;
            Ok(sum)
        }
        Err(why) => {
            let _ = std::fs::remove_file(&order.file);
            Err(why)
        }
    }
}

fn written(server: &Server, order: &Export, out: &mut impl Write) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}", order.file.display());
    let domain = domain(server)?;
    write!(
        out,
        "<?xml version='1.0' encoding='UTF-8'?>\n<server-data xmlns='urn:xmpp:pie:0'>\
         <host jid='{}'>\n",
        escaped(&domain)
    )
    .map_err(told)?;
    let (mut users, mut messages) = (0_u64, 0_u64);
    let mut one = |name: &str| {
        users += 1;
        messages += user(server, (name, &domain), out)?;
        Ok::<_, String>(())
    };
    for name in &order.names {
        one(name)?;
    }
    let mut after = String::new();
    while order.names.is_empty() {
        let path =
            query("/v1/users", &[("limit", Some(PAGE.to_string())), ("after", some(&after))]);
        let page = server.call("GET", path.trim_end_matches(['&', '?']), None)?;
        for user in page["users"].as_array().into_iter().flatten() {
            // `*` has rules, and is no account.
            if user["uid"] != "0" {
                one(&text(&user["name"]))?;
            }
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    out.write_all(b"</host></server-data>\n").map_err(told)?;
    Ok(format!("{users} accounts, {messages} messages\n"))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The domain of the accounts.
fn domain(server: &Server) -> Result<String, String> {
    let configuration = server.call("GET", "/v1/configuration", None)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let sections = list(&configuration["sections"]);
    let chat = sections.iter().find(|section| section["header"] == "[chat]");
    let settings = chat.map(|section| list(&section["settings"])).unwrap_or_default();
    let domain = settings.iter().find(|setting| setting["name"] == "domain");
    // As it stands in the file: in quotes.
    let domain = domain.and_then(|it| it["value"].as_str()).map(|it| it.trim_matches('"'));
    domain.map(String::from).ok_or_else(|| "the server did not report its domain".into())
}

/// One account; how many messages it has.
fn user(
    server: &Server,
    (name, domain): (&str, &str),
    out: &mut impl Write,
) -> Result<u64, String> {
    let told = |error: std::io::Error| error.to_string();
    write!(out, "<user name='{}'>", escaped(name)).map_err(told)?;
    let keys = server.call("GET", &format!("/v1/users/{}/keys", encoded(name)), None)?;
    for line in keys["keys"].as_array().into_iter().flatten() {
        if let Some(credentials) = credentials(line.as_str().unwrap_or_default()) {
            out.write_all(credentials.as_bytes()).map_err(told)?;
        }
    }
    let path = format!("/v1/chat/accounts/{}/export", encoded(name));
    let lines = match server.stream(&path) {
        Ok(lines) => lines,
        // Nobody has ever been it, nor written to it.
        Err(why) if why.contains("(unknown_account)") => {
            out.write_all(b"</user>\n").map_err(told)?;
            return Ok(0);
        }
        Err(why) => return Err(why),
    };
    let (part, blocked, domain) = (Part::Nothing, Vec::new(), domain.to_owned());
    let mut user = User { out, part, blocked, domain, messages: 0 };
    let mut is_whole = false;
    for line in BufReader::new(lines).lines() {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        let line: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        match line["type"].as_str() {
            Some("end") => is_whole = true,
            Some("fault") => return Err(format!("{name}: {}", text(&line["code"]))),
            _ => user.line(&line).map_err(told)?,
        }
    }
    if !is_whole {
        return Err(format!("{name}: the server's answer is incomplete"));
    }
    user.opens(Part::Nothing).map_err(told)?;
    let messages = user.messages;
    out.write_all(b"</user>\n").map_err(told)?;
    Ok(messages)
}

/// Keys as XEP-0227 has them (4.3), from a line of a password file.
fn credentials(line: &str) -> Option<String> {
    let mut words = line.strip_prefix('$')?.split('$');
    let mechanism = match words.next()? {
        "scram-sha-1" => "SCRAM-SHA-1",
        "scram-sha-256" => "SCRAM-SHA-256",
        _ => return None,
    };
    let [rounds, salt, stored, server] = std::array::from_fn(|_| words.next());
    let [rounds, salt, stored, server] = [rounds?, salt?, stored?, server?].map(escaped);
    Some(format!(
        "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='{mechanism}'>\
         <iter-count>{rounds}</iter-count><salt>{salt}</salt><server-key>{server}</server-key>\
         <stored-key>{stored}</stored-key></scram-credentials>"
    ))
}

impl<W: Write> User<'_, W> {
    /// Closes the open element, unless it is this one, and opens this one.
    fn opens(&mut self, part: Part) -> std::io::Result<()> {
        if self.part == part {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.part, part);
        let stays = matches!((&before, &self.part), (Part::Items(_), Part::Items(_)));
        self.out.write_all(match before {
            Part::Nothing => b"".as_slice(),
            Part::Roster | Part::Private => b"</query>",
            Part::Blocked => b"</blocklist>",
            Part::Nodes => b"</pubsub>",
            Part::Items(_) if stays => b"</items>",
            Part::Items(_) => b"</items></pubsub>",
            Part::Archive => b"</archive>",
        })?;
        if before == Part::Roster {
            self.blocks()?;
        }
        let head = match &self.part {
            Part::Nothing => String::new(),
            Part::Roster => "<query xmlns='jabber:iq:roster'>".into(),
            Part::Private => "<query xmlns='jabber:iq:private'>".into(),
            Part::Blocked => "<blocklist xmlns='urn:xmpp:blocking'>".into(),
            Part::Nodes => format!("<pubsub xmlns='{OWNER}'>"),
            Part::Items(node) => {
                let pubsub =
                    if stays { String::new() } else { format!("<pubsub xmlns='{PUBSUB}'>") };
                format!("{pubsub}<items node='{}'>", escaped(node))
            }
            Part::Archive => "<archive xmlns='urn:xmpp:pie:0#mam'>".into(),
        };
        self.out.write_all(head.as_bytes())
    }

    /// Blocked users, who stood among the contacts.
    fn blocks(&mut self) -> std::io::Result<()> {
        let blocked = std::mem::take(&mut self.blocked);
        if blocked.is_empty() {
            return Ok(());
        }
        let part = std::mem::replace(&mut self.part, Part::Nothing);
        self.opens(Part::Blocked)?;
        for jid in blocked {
            write!(self.out, "<item jid='{}'/>", escaped(&jid))?;
        }
        self.opens(Part::Nothing)?;
        self.part = part;
        Ok(())
    }

    fn line(&mut self, line: &Value) -> std::io::Result<()> {
        match line["type"].as_str().unwrap_or_default() {
            "contact" => self.contact(line),
            "node" => self.node(line),
            "item" => self.item(line),
            "message" => self.message(line),
            _ => Ok(()),
        }
    }

    fn contact(&mut self, line: &Value) -> std::io::Result<()> {
        self.opens(Part::Roster)?;
        let account = text(&line["account"]);
        // A domain itself (`AccountAddress::jid`).
        let jid = account.strip_prefix('@').unwrap_or(&account).to_owned();
        if line["blocked"] == true {
            self.blocked.push(jid.clone());
        }
        if line["listed"] != true {
            return Ok(());
        }
        let subscription = match (line["sees"] == "yes", line["seen"] == "yes") {
            (true, true) => "both",
            (true, false) => "to",
            (false, true) => "from",
            (false, false) => "none",
        };
        write!(self.out, "<item jid='{}' subscription='{subscription}'", escaped(&jid))?;
        let name = text(&line["name"]);
        if !name.is_empty() {
            write!(self.out, " name='{}'", escaped(&name))?;
        }
        if line["sees"] == "asks" {
            self.out.write_all(b" ask='subscribe'")?;
        }
        self.out.write_all(b">")?;
        for group in line["groups"].as_array().into_iter().flatten() {
            write!(self.out, "<group>{}</group>", escaped(&text(group)))?;
        }
        self.out.write_all(b"</item>")
    }

    /// How a node is that is published.
    fn node(&mut self, line: &Value) -> std::io::Result<()> {
        let Some(access) = line["access"].as_str() else { return Ok(()) };
        self.opens(Part::Nodes)?;
        let access = match access {
            "members" => "whitelist",
            "groups" => "roster",
            access => access,
        };
        let most = line["items_max"].as_u64().map_or_else(|| "max".into(), |most| most.to_string());
        write!(
            self.out,
            "<configure node='{}'><x xmlns='{FORM}' type='submit'>\
             <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#node_config</value></field>\
             <field var='pubsub#access_model'><value>{access}</value></field>\
             <field var='pubsub#max_items'><value>{most}</value></field></x></configure>",
            escaped(&text(&line["node"]))
        )
    }

    fn item(&mut self, line: &Value) -> std::io::Result<()> {
        let node = text(&line["node"]);
        let payload = STANDARD.decode(text(&line["payload_base64"])).unwrap_or_default();
        if line["kept"] != true {
            self.opens(Part::Items(node))?;
            write!(self.out, "<item id='{}'>", escaped(&text(&line["id"])))?;
            self.out.write_all(&payload)?;
            return self.out.write_all(b"</item>");
        }
        if moving::is_private(&node) {
            self.opens(Part::Private)?;
        } else if node == "vcard-temp" {
            self.opens(Part::Nothing)?;
        } else {
            return Ok(());
        }
        self.out.write_all(&payload)
    }

    fn message(&mut self, line: &Value) -> std::io::Result<()> {
        let Some(message) = message_of(line, &self.domain) else { return Ok(()) };
        let mut result = Vec::new();
        if moving::put_result(&message, &mut result) {
            self.opens(Part::Archive)?;
            self.messages += 1;
            self.out.write_all(&result)?;
        }
        Ok(())
    }
}

/// A message of an inbox; `None`: it was said in a group.
fn message_of(line: &Value, domain: &str) -> Option<ChatMessage> {
    let of = |key: &str| AccountAddress::parse(line[key].as_str()?, domain).ok();
    let (from, to) = (of("from")?, of("to")?);
    if to.is_group() || to.is_chatroom() {
        return None;
    }
    let content = Content {
        kind: u16::try_from(line["kind"].as_u64()?).ok()?,
        text: line["text"].as_str()?.into(),
        extra: STANDARD.decode(line["extra_base64"].as_str()?).ok()?.into(),
        counts: line["counts"] == true,
        ..Content::default()
    };
    Some(ChatMessage {
        id: line["id"].as_str()?.parse().ok()?,
        seq: line["seq"].as_u64()?,
        at_ms: line["at_ms"].as_u64()?,
        from,
        device: line["device"].as_str()?.into(),
        to,
        client_id: ClientMessageId(hex::decode_array(line["client_id"].as_str()?)?),
        content,
        amended: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Text written for an account with these lines.
    fn of(lines: &[Value]) -> String {
        let mut out = Vec::new();
        let (part, blocked, domain) = (Part::Nothing, Vec::new(), "a.example".to_owned());
        let mut user = User { out: &mut out, part, blocked, domain, messages: 0 };
        lines.iter().for_each(|line| user.line(line).expect("written"));
        user.opens(Part::Nothing).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_belongs_together_stands_in_one_element() {
        let contact = |account: &str, blocked: bool| {
            json!({ "type": "contact", "account": account, "listed": !blocked, "name": "B'",
                    "groups": ["x"], "sees": "asks", "seen": "yes", "blocked": blocked })
        };
        let item = |node: &str, kept: bool, payload: &str| {
            let payload = STANDARD.encode(payload);
            json!({ "type": "item", "node": node, "kept": kept, "id": "1",
                    "payload_base64": payload })
        };
        let text = of(&[
            contact("b@c", false),
            contact("m@c", true),
            contact("@spam.example", true),
            json!({ "type": "conversation" }),
            json!({ "type": "node", "node": "n", "access": "members", "items_max": 1 }),
            json!({ "type": "node", "node": "vcard-temp", "access": null }),
            item("n", false, "<p/>"),
            item("o", false, "<p/>"),
            item("vcard-temp", true, "<vCard/>"),
            item("jabber:iq:private k urn:k", true, "<k/>"),
            json!({ "type": "message", "id": "7", "seq": 1, "at_ms": 1_700_000_000_000_u64,
                    "from": "ann@a.example", "device": "d", "to": "b@c", "kind": 1,
                    "client_id": "0b9f6d3e58d54d5e9d1c6f0a3c1f2b77", "text": "hi",
                    "extra_base64": "", "counts": true }),
        ]);
        assert_eq!(
            text,
            "<query xmlns='jabber:iq:roster'><item jid='b@c' subscription='from' name='B&apos;' \
             ask='subscribe'><group>x</group></item></query>\
             <blocklist xmlns='urn:xmpp:blocking'><item jid='m@c'/>\
             <item jid='spam.example'/></blocklist>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='n'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
             <value>http://jabber.org/protocol/pubsub#node_config</value></field>\
             <field var='pubsub#access_model'><value>whitelist</value></field>\
             <field var='pubsub#max_items'><value>1</value></field></x></configure></pubsub>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'><item id='1'><p/>\
             </item></items><items node='o'><item id='1'><p/></item></items></pubsub>\
             <vCard/><query xmlns='jabber:iq:private'><k/></query>\
             <archive xmlns='urn:xmpp:pie:0#mam'><result xmlns='urn:xmpp:mam:2' \
             id='0b9f6d3e-58d5-4d5e-9d1c-6f0a3c1f2b77'><forwarded xmlns='urn:xmpp:forward:0'>\
             <delay xmlns='urn:xmpp:delay' stamp='2023-11-14T22:13:20.000Z'/>\
             <message xmlns='jabber:client' from='ann@a.example/d' to='b@c' type='chat' \
             id='0b9f6d3e-58d5-4d5e-9d1c-6f0a3c1f2b77'><body>hi</body></message></forwarded>\
             </result></archive>"
        );
    }

    #[test]
    fn keys_are_told_by_their_mechanism() {
        let told = credentials("$scram-sha-1$4096$c2FsdA==$AAAA$BBBB").expect("keys");
        assert!(told.contains("mechanism='SCRAM-SHA-1'") && told.contains("<salt>c2FsdA==</salt>"));
        assert!(told.contains("<server-key>BBBB</server-key><stored-key>AAAA</stored-key>"));
        assert_eq!(credentials("$7$101$c2FsdA==$AAAA"), None);
    }
}
