//! Files of the portable form for servers (XEP-0227), as Prosody and ejabberd write them.
//!
//! ```text
//! <server-data xmlns='urn:xmpp:pie:0'>
//!   <host jid='example.com'>                                  or this is the root (ejabberd)
//!     <user name='ann' password='…'/>
//!     <user name='bob'>
//!       <scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'>
//!         <iter-count/> <salt/> <server-key/> <stored-key/>   base64
//! ```
//! Two more forms are ejabberd's: keys in base64 of their base64 (23.01 writes them so), and
//! `password='scram:STORED,SERVER,SALT,ROUNDS'` of old. Everything else of a user is passed over as
//! it is read, so that archives may be of any size. It opens no other file: a name in `xi:include`
//! is reported. Invariant: one element or text, and how deep they stand in each other, have a
//! limit.

use crate::Moving;
use crate::account::{Account, Found, Keys};
use base64::prelude::{BASE64_STANDARD, Engine};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::io::BufRead;

mod contents;
mod pace;

pub use contents::walk;
use pace::Pace;

/// Bytes of one tag or text: a picture of somebody, or a message.
pub const TOKEN_BYTES_MAX: usize = 16 << 20;

/// Elements in elements.
pub const DEPTH_MAX: usize = 256;

/// Bytes of a part of keys: a salt of the longest, in base64 twice.
const PART_BYTES_MAX: usize = 2_048;

const PIE: &str = "urn:xmpp:pie:0";
const SCRAM: &str = "urn:xmpp:pie:0#scram";
const INCLUDE: &str = "http://www.w3.org/2001/XInclude";

/// Names of the parts of keys.
const PARTS: [&str; 4] = ["iter-count", "salt", "server-key", "stored-key"];

/// Reads the accounts of files, each with its name in messages; of this host, or of the only one
/// that is found. In words, why nothing can be taken over.
pub fn read<R: BufRead>(files: Vec<(String, R)>, host: Option<&str>) -> Result<Moving, String> {
    let mut reading = Reading::of(host);
    for (name, file) in files {
        Walk::new(&name, file).run(&mut reading).map_err(|(line, why)| {
            let place = if line > 0 { format!("{name}:{line}") } else { name.clone() };
            format!("{place}: {why}")
        })?;
    }
    reading.has_host()?;
    Ok(reading.found.into_moving())
}

/// Accounts read of all files so far.
struct Reading {
    found: Found,
    /// The host to take, in lower case.
    wanted: Option<String>,
    /// The host that is taken.
    host: Option<String>,
    /// Hosts that are not wanted, the first few.
    others: Vec<String>,
}

impl Reading {
    fn of(host: Option<&str>) -> Reading {
        let wanted = host.map(str::to_lowercase);
        Reading { found: Found::default(), wanted, host: None, others: Vec::new() }
    }

    /// The host was there; in words, that it was not.
    fn has_host(&self) -> Result<(), String> {
        if self.host.is_some() {
            return Ok(());
        }
        let wanted = self.wanted.as_ref();
        let wanted = wanted.map_or_else(|| "a host".into(), |host| format!("`{host}`"));
        let there = match self.others.is_empty() {
            true => String::new(),
            false => format!("; the file has {}", self.others.join(", ")),
        };
        Err(format!("{wanted} not found{there}"))
    }

    /// Whether a host's users are taken; an error says why that cannot be decided.
    fn takes(&mut self, jid: &str) -> Result<bool, String> {
        let jid = jid.to_lowercase();
        if self.wanted.as_ref().is_some_and(|wanted| *wanted != jid) {
            if self.others.len() < 16 && !self.others.contains(&jid) {
                self.others.push(jid);
            }
            return Ok(false);
        }
        match &self.host {
            Some(host) if *host != jid => {
                Err(format!("the file has the hosts {host} and {jid}: choose one with --host"))
            }
            _ => {
                self.host = Some(jid);
                Ok(true)
            }
        }
    }
}

/// Where the walk is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In front of the root.
    Begin,
    Server,
    Host,
    User,
    Credentials,
    /// In a part of keys, by its index.
    Part(usize),
    /// In something else, so many elements deep.
    Other(usize),
}

/// One file.
struct Walk<'a, R> {
    file: &'a str,
    reader: NsReader<Pace<R>>,
    place: Place,
    /// Where one is behind an [`Place::Other`].
    behind: Place,
    /// Where one is behind a host.
    above: Place,
    /// Users of the host are taken.
    is_taken: bool,
    user: Option<User>,
}

/// A user that is being read.
#[derive(Default)]
struct User {
    account: Account,
    /// Why it cannot be taken over.
    why: Option<String>,
    /// Length of the keys that are read, if they are of a hash that is taken.
    key_bytes: Option<usize>,
    /// Texts of the parts.
    parts: [String; PARTS.len()],
}

/// Namespace and name of a tag.
struct Tag {
    namespace: Option<Box<str>>,
    name: Box<str>,
}

impl Tag {
    fn is(&self, namespace: &str, name: &str) -> bool {
        self.namespace.as_deref() == Some(namespace) && *self.name == *name
    }
}

impl<'a, R: BufRead> Walk<'a, R> {
    fn new(file: &'a str, source: R) -> Walk<'a, R> {
        let mut reader = NsReader::from_reader(Pace::new(source, TOKEN_BYTES_MAX));
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_comments = true;
        let place = Place::Begin;
        Walk { file, reader, place, behind: place, above: place, is_taken: false, user: None }
    }

    /// Reads it to its end. `Err` has the line, or 0, and the reason.
    fn run(mut self, reading: &mut Reading) -> Result<(), (usize, String)> {
        let mut bytes = Vec::new();
        let mut has_root = false;
        loop {
            bytes.clear();
            self.reader.get_mut().begin();
            let event = match self.reader.read_event_into(&mut bytes) {
                Ok(event) => event,
                Err(error) => return Err((self.line(), error.to_string())),
            };
            let step = match event {
                Event::Start(start) => {
                    let is_second = self.place == Place::Begin && has_root;
                    has_root = true;
                    match is_second {
                        true => Err("a second root".into()),
                        false => self.start(&start, reading),
                    }
                }
                Event::End(_) => self.end(reading),
                Event::Text(text) => {
                    self.text(&text);
                    Ok(())
                }
                Event::CData(text) => {
                    self.text(&text);
                    Ok(())
                }
                // None of the characters of base64 need one.
                Event::GeneralRef(_) => {
                    self.text("&");
                    Ok(())
                }
                Event::Decl(head) => match head.encoding() {
                    None => Ok(()),
                    Some(Ok(name)) if name.eq_ignore_ascii_case("utf-8") => Ok(()),
                    Some(_) => Err("it is not UTF-8".into()),
                },
                Event::DocType(_) => Err("a document type, which is not supported".into()),
                Event::Eof if self.place != Place::Begin || !has_root => {
                    Err("the file ends too early".into())
                }
                Event::Eof => return Ok(()),
                Event::Empty(_) | Event::Comment(_) | Event::PI(_) => Ok(()),
            };
            step.map_err(|why| (self.line(), why))?;
        }
    }

    fn line(&mut self) -> usize {
        self.reader.get_mut().line()
    }

    fn tag(&self, start: &BytesStart<'_>) -> Tag {
        let (namespace, name) = self.reader.resolver().resolve_element(start.name());
        let namespace = match namespace {
            ResolveResult::Bound(Namespace(namespace)) => Some(namespace.into()),
            ResolveResult::Unbound | ResolveResult::Unknown(_) => None,
        };
        Tag { namespace, name: name.as_ref().into() }
    }

    fn start(&mut self, start: &BytesStart<'_>, reading: &mut Reading) -> Result<(), String> {
        if let Place::Other(depth) = self.place {
            self.place = Place::Other(depth + 1);
            return match depth < DEPTH_MAX {
                true => Ok(()),
                false => Err(format!("more than {DEPTH_MAX} nested elements")),
            };
        }
        let tag = self.tag(start);
        self.place = match self.place {
            Place::Begin if tag.is(PIE, "server-data") => Place::Server,
            Place::Begin | Place::Server if tag.is(PIE, "host") => {
                let jid = attribute(start, "jid")?.ok_or("a host has no jid")?;
                (self.is_taken, self.above) = (reading.takes(&jid)?, self.place);
                Place::Host
            }
            Place::Begin => {
                return Err("not an XEP-0227 file: neither server-data nor host".into());
            }
            Place::Server if tag.is(INCLUDE, "include") => {
                let other = attribute(start, "href")?.unwrap_or_default();
                return Err(format!("the host is in the file `{other}`: import that one"));
            }
            Place::Host if self.is_taken && tag.is(PIE, "user") => {
                self.user = Some(User::of(start)?);
                Place::User
            }
            Place::User if tag.is(SCRAM, "scram-credentials") => {
                let mechanism = attribute(start, "mechanism")?.unwrap_or_default();
                if let Some(user) = &mut self.user {
                    user.begin(&mechanism);
                }
                Place::Credentials
            }
            Place::Credentials => {
                let part = PARTS.iter().position(|part| tag.is(SCRAM, part));
                part.map_or_else(|| self.other(), Place::Part)
            }
            _ => self.other(),
        };
        Ok(())
    }

    /// Steps into something that is passed over.
    fn other(&mut self) -> Place {
        self.behind = self.place;
        Place::Other(1)
    }

    fn end(&mut self, reading: &mut Reading) -> Result<(), String> {
        self.place = match self.place {
            Place::Other(1) => self.behind,
            Place::Other(depth) => Place::Other(depth - 1),
            Place::Part(_) => Place::Credentials,
            Place::Credentials => {
                if let Some(user) = &mut self.user {
                    user.end();
                }
                Place::User
            }
            Place::User => {
                if let Some(User { account, why, .. }) = self.user.take() {
                    let place = format!("{}: {}", self.file, account.name.escape_debug());
                    match why.filter(|_| account.password.is_none() && account.keys.is_empty()) {
                        Some(why) => reading.found.leave(place, why),
                        None => reading.found.put(place, &account)?,
                    }
                }
                Place::Host
            }
            Place::Host => self.above,
            Place::Server | Place::Begin => Place::Begin,
        };
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let (Place::Part(at), Some(user)) = (self.place, &mut self.user) {
            user.add(at, text);
        }
    }
}

impl User {
    /// One whose tag begins.
    fn of(start: &BytesStart<'_>) -> Result<User, String> {
        let mut user = User::default();
        user.account.name = attribute(start, "name")?.unwrap_or_default();
        let password = attribute(start, "password")?.filter(|text| !text.is_empty());
        let parts = password.as_deref().and_then(|text| text.strip_prefix("scram:"));
        let parts: Vec<&str> = parts.map_or_else(Vec::new, |text| text.split(',').collect());
        let keys = match *parts {
            [stored, server, salt, rounds] => keys(20, [rounds, salt, server, stored]),
            ["sha256", stored, server, salt, rounds] => keys(32, [rounds, salt, server, stored]),
            ["sha512", _, _, _, _] => None,
            _ => {
                user.account.password = password;
                return Ok(user);
            }
        };
        match keys {
            Some(keys) => user.account.keys.push(keys),
            None => user.why = Some("its keys (scram:…) are incomplete, or SHA-512".into()),
        }
        Ok(user)
    }

    /// Keys of a mechanism begin.
    fn begin(&mut self, mechanism: &str) {
        self.parts = Default::default();
        self.key_bytes = match mechanism {
            "SCRAM-SHA-1" => Some(20),
            "SCRAM-SHA-256" => Some(32),
            _ => None,
        };
        if self.key_bytes.is_none() {
            let mechanism: String =
                mechanism.chars().take(32).flat_map(char::escape_debug).collect();
            self.why = Some(format!("its keys are {mechanism}, which is not supported"));
        }
    }

    /// Adds to a part of the user's data.
    fn add(&mut self, at: usize, text: &str) {
        let part = &mut self.parts[at];
        if part.len() + text.len() <= PART_BYTES_MAX {
            part.extend(text.chars().filter(|sign| !sign.is_ascii_whitespace()));
        } else {
            *part = "too long".into();
        }
    }

    /// Takes the keys, whose parts are complete.
    fn end(&mut self) {
        let Some(bytes) = self.key_bytes else { return };
        match keys(bytes, self.parts.each_ref().map(|part| &**part)) {
            Some(keys) => {
                self.account.keys.retain(|other| other.stored.len() != bytes);
                self.account.keys.push(keys);
            }
            None => self.why = Some("its keys are incomplete".into()),
        }
    }
}

/// Keys of so many bytes, from their parts in the order of [`PARTS`]. They may be in base64 twice.
fn keys(bytes: usize, [rounds, salt, server, stored]: [&str; PARTS.len()]) -> Option<Keys> {
    let iterations = rounds.parse().ok()?;
    let decoded = |text: &[u8]| BASE64_STANDARD.decode(text).ok();
    let [mut salt, mut server, mut stored] =
        [decoded(salt.as_bytes())?, decoded(server.as_bytes())?, decoded(stored.as_bytes())?];
    if stored.len() != bytes {
        [salt, server, stored] = [decoded(&salt)?, decoded(&server)?, decoded(&stored)?];
    }
    let is_whole = stored.len() == bytes && server.len() == bytes;
    is_whole.then_some(Keys { iterations, salt, stored, server })
}

/// The value of an attribute without a prefix.
fn attribute(start: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let mut value = None;
    for found in start.attributes() {
        let found = found.map_err(|error| error.to_string())?;
        if found.key.as_ref() == name {
            let text = found.normalized_value(XmlVersion::Implicit1_0);
            value = Some(text.map_err(|error| format!("{name}: {error}"))?.into());
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
