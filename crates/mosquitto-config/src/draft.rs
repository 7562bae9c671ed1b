//! Options read so far, and the configuration that they make at the end.
//!
//! Most options are a key at once; those of listeners are gathered, for they mean something only
//! together: who may come in follows from `allow_anonymous`, `password_file`, certificates and
//! whether settings are a listener's own. It writes no text. Invariant: that of the crate.

pub(super) use base::text::quoted;

use super::lines::Line;
use super::words::{self, listen};
use super::{OptionFate, OptionNote};
use std::net::{IpAddr, ToSocketAddrs};

/// A key with its value as TOML, and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) from: String,
}

/// A section that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sheet {
    /// `mqtt`, `listen.mqtt-1883`.
    pub(super) header: String,
    /// Comments above its keys.
    pub(super) comments: Vec<String>,
    pub(super) entries: Vec<Entry>,
}

/// The end of a draft.
pub(super) struct Finished {
    pub(super) sheets: Vec<Sheet>,
    /// Where, and what.
    pub(super) problems: Vec<(String, String)>,
}

/// Settings of access so far, each with its place.
#[derive(Clone, Default)]
pub(super) struct Security {
    pub(super) anonymous: Option<(bool, String)>,
    pub(super) password_file: Option<(String, String)>,
    pub(super) acl_file: Option<(String, String)>,
}

/// A listener, as far as it was said.
#[derive(Default)]
pub(super) struct Listener {
    /// Place at which it began.
    pub(super) from: String,
    pub(super) port: u16,
    pub(super) host: Option<String>,
    pub(super) socket: Option<String>,
    pub(super) ipv: Option<u8>,
    pub(super) own: Security,
    pub(super) web_sockets: bool,
    pub(super) http_api: bool,
    pub(super) certificate: Option<(String, String)>,
    pub(super) key: Option<(String, String)>,
    pub(super) ca: Option<(String, String)>,
    pub(super) ca_folder: Option<String>,
    pub(super) crl: Option<(String, String)>,
    pub(super) requires_certificate: Option<String>,
    pub(super) identity: Option<(&'static str, String)>,
    /// Why it is not opened, and where that was said.
    pub(super) closed: Option<(String, String)>,
    /// Keys that need nothing else.
    pub(super) entries: Vec<Entry>,
}

/// A connection to another broker.
#[derive(Default)]
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) from: String,
    /// Where the other broker is, and where that was said.
    pub(super) addresses: (Vec<String>, String),
    /// Its connection is encrypted.
    pub(super) tls: bool,
    pub(super) topics: Vec<String>,
    pub(super) entries: Vec<Entry>,
}

/// Plug-in that the following options are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plugin {
    /// One that reads a password file.
    Passwords,
    /// One that reads an ACL file.
    Rules,
    /// One whose work is done here anyway.
    Needless,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) per_listener: bool,
    pub(super) everywhere: Security,
    /// Listeners that were named, in their order.
    pub(super) listeners: Vec<Listener>,
    pub(super) bridges: Vec<Bridge>,
    /// Messages on the way, of clients and of bridges.
    pub(super) inflight: Option<Entry>,
    /// Number of the listener of `port`, or of options without any.
    usual: Option<usize>,
    /// Listener that the next options are for, by its number in the draft.
    pub(super) listener: Option<usize>,
    pub(super) bridge: Option<usize>,
    pub(super) plugin: Option<Plugin>,
    file: usize,
    outer: Option<(Option<usize>, Option<usize>, Option<Plugin>)>,
    general: Vec<(&'static str, Entry)>,
    /// Levels that the log was set to, by mosquitto's words.
    pub(super) log_types: Vec<String>,
    pub(super) log_from: String,
}

impl Draft {
    /// Turns to another file: the listener, bridge and plug-in that options apply to do not reach
    /// over the end of an included file.
    pub(super) fn turn_to(&mut self, file: usize) {
        if file == self.file {
            return;
        }
        let now = (self.listener, self.bridge, self.plugin);
        let outer = *self.outer.get_or_insert(now);
        let next = if file == 0 { outer } else { (None, None, None) };
        if file == 0 {
            self.outer = None;
        }
        (self.listener, self.bridge, self.plugin) = next;
        self.file = file;
    }

    /// A key of a section there is one of; said again, the last holds.
    pub(super) fn put(
        &mut self,
        section: &'static str,
        key: &'static str,
        value: String,
        at: &Line,
    ) {
        self.general.retain(|(of, entry)| (*of, entry.key) != (section, key));
        let from = from(at);
        self.general.push((section, Entry { key, value, from }));
    }

    /// The listener that an option is for: that of the file's last `listener`, or the usual one.
    pub(super) fn here(&mut self, at: &Line) -> &mut Listener {
        let number = match (self.listener, self.usual) {
            (Some(number), _) | (None, Some(number)) => number,
            (None, None) => {
                self.listeners.push(Listener { from: from(at), port: 1883, ..Listener::default() });
                self.usual = Some(self.listeners.len() - 1);
                self.listeners.len() - 1
            }
        };
        &mut self.listeners[number]
    }

    /// The usual listener, which the options that follow are for too.
    pub(super) fn usual(&mut self, at: &Line) -> &mut Listener {
        self.listener = self.usual;
        self.here(at);
        self.listener = self.usual;
        self.here(at)
    }

    /// Settings of access that apply here: the listener's own if settings are per listener, else
    /// those of all.
    pub(super) fn security(&mut self, at: &Line) -> &mut Security {
        match self.per_listener {
            true => &mut self.here(at).own,
            false => &mut self.everywhere,
        }
    }

    /// The bridge that an option is for.
    pub(super) fn crossing(&mut self) -> Result<&mut Bridge, String> {
        let number = self.bridge.ok_or("is only allowed after `connection NAME`")?;
        Ok(&mut self.bridges[number])
    }

    /// The configuration, from all options.
    pub(super) fn finish(mut self, notes: &mut Vec<OptionNote>) -> Finished {
        let mut problems = Vec::new();
        let local = self.listeners.is_empty();
        if local {
            let from = "mosquitto without a listener serves only this machine".to_owned();
            let host = Some("127.0.0.1".to_owned());
            self.listeners.push(Listener { from, port: 1883, host, ..Listener::default() });
        }
        self.log();
        self.access(notes);
        let mut sheets = Vec::new();
        self.sheet(words::SERVER, &mut sheets);
        let mut names = Vec::new();
        let files = self.files();
        for listener in std::mem::take(&mut self.listeners) {
            if listener.http_api {
                continue;
            }
            let security = Security {
                anonymous: match self.per_listener {
                    true => listener.own.anonymous.clone(),
                    false => listener.own.anonymous.clone().or(self.everywhere.anonymous.clone()),
                },
                password_file: match self.per_listener {
                    true => listener.own.password_file.clone(),
                    false => self.everywhere.password_file.clone(),
                },
                acl_file: None,
            };
            let name = name(&listener, &names);
            let mut sheet = Sheet {
                header: format!("listen.{name}"),
                comments: Vec::new(),
                entries: Vec::new(),
            };
            names.push(name);
            let told = listener.tell(&security, (local, &files), &mut sheet, notes);
            if let Err(why) = told {
                problems.push((listener.from.clone(), why));
            }
            sheets.push(sheet);
        }
        for section in [words::ACCESS, words::MQTT, words::LIMITS] {
            self.sheet(section, &mut sheets);
        }
        sheets.push(Sheet {
            header: "products".into(),
            comments: vec!["mosquitto has no products: none are configured".into()],
            entries: Vec::new(),
        });
        for mut bridge in self.bridges {
            bridge.entries.extend(self.inflight.clone());
            sheets.push(bridge.sheet());
        }
        Finished { sheets, problems }
    }

    fn sheet(&self, section: &'static str, sheets: &mut Vec<Sheet>) {
        let of_section = self.general.iter().filter(|(of, _)| *of == section);
        let entries: Vec<_> = of_section.map(|(_, entry)| entry.clone()).collect();
        if !entries.is_empty() {
            sheets.push(Sheet { header: section.into(), comments: Vec::new(), entries });
        }
    }

    /// The finest of the levels that were named.
    fn log(&mut self) {
        let named = |words: &[&str]| self.log_types.iter().any(|word| words.contains(&&**word));
        let level = match () {
            () if self.log_types.is_empty() => return,
            () if named(&[
                "all",
                "debug",
                "subscribe",
                "unsubscribe",
                "internal",
                "websockets",
            ]) =>
            {
                "debug"
            }
            () if named(&["information", "notice"]) => "info",
            () if named(&["warning"]) => "warn",
            () if named(&["error"]) => "error",
            () => "off",
        };
        let entry = Entry { key: "log", value: quoted(level), from: self.log_from.clone() };
        self.general.push((words::SERVER, entry));
    }

    /// The files of users and rules that hold: of each there is one here.
    fn files(&self) -> [Option<String>; 2] {
        let of = |key: &str| {
            let found = self.general.iter().find(|(_, entry)| entry.key == key);
            found.map(|(_, entry)| entry.value.clone())
        };
        [of("password_file"), of("acl_file")]
    }

    /// Users and rules: with settings of listeners, the first of each holds everywhere.
    fn access(&mut self, notes: &mut Vec<OptionNote>) {
        let securities: Vec<Security> = match self.per_listener {
            true => self.listeners.iter().map(|listener| listener.own.clone()).collect(),
            false => vec![self.everywhere.clone()],
        };
        type Named = fn(&Security) -> &Option<(String, String)>;
        let sort: [(&'static str, Named); 2] =
            [("password_file", |s| &s.password_file), ("acl_file", |s| &s.acl_file)];
        for (key, of) in sort {
            let mut named = securities.iter().filter_map(|security| of(security).as_ref());
            let Some((path, from)) = named.next() else { continue };
            let entry = Entry { key, value: quoted(path), from: from.clone() };
            self.general.push((words::ACCESS, entry));
            let alone = securities.iter().all(|security| of(security).is_some());
            if key == "acl_file" && !alone {
                notes.push(OptionNote {
                    place: from.clone(),
                    option: key.into(),
                    fate: OptionFate::Lost,
                    words: "its rules were for one listener, and apply to all listeners".into(),
                });
            }
        }
        let users = securities.iter().find_map(|security| security.password_file.clone());
        let is_said = self.general.iter().any(|(_, entry)| entry.key == "client_ids");
        if let Some((_, from)) = users.filter(|_| !is_said) {
            let (key, value) = ("client_ids", "[\"*\"]".to_owned());
            self.general.push((words::ACCESS, Entry { key, value, from }));
        }
    }
}

impl Listener {
    /// Closes it: the first reason is reported.
    pub(super) fn close(&mut self, why: &str, at: &Line) {
        self.closed.get_or_insert((why.to_owned(), from(at)));
    }

    pub(super) fn put(&mut self, key: &'static str, value: String, at: &Line) {
        self.entries.retain(|entry| entry.key != key);
        self.entries.push(Entry { key, value, from: from(at) });
    }

    /// Adds one to a list.
    pub(super) fn add(&mut self, key: &'static str, text: &str, at: &Line) {
        let more =
            |known: &Entry| format!("{}, {}]", known.value.trim_end_matches(']'), quoted(text));
        let known = self.entries.iter().find(|entry| entry.key == key);
        let value = known.map_or_else(|| format!("[{}]", quoted(text)), more);
        self.put(key, value, at);
    }

    fn tell(
        &self,
        security: &Security,
        (local, files): (bool, &[Option<String>; 2]),
        sheet: &mut Sheet,
        notes: &mut Vec<OptionNote>,
    ) -> Result<(), String> {
        let mut put = |key, value: String, from: &str| {
            sheet.entries.push(Entry { key, value, from: from.to_owned() });
        };
        put(listen::ADDRESS, quoted(&self.address()?), &self.from);
        let protocol = if self.web_sockets { "http" } else { "mqtt" };
        put(listen::PROTOCOL, quoted(protocol), &self.from);
        if self.web_sockets {
            put(listen::WEB_SOCKET, quoted(words::ANY_PATH), &self.from);
        }
        self.tls(&mut put)?;
        let anonymous = security.anonymous.clone().unwrap_or((local, self.from.clone()));
        let by_certificate = self.identity.is_some() && self.certificate.is_some();
        let word = if anonymous.0 && !by_certificate { "yes" } else { "no" };
        put(listen::ANONYMOUS, quoted(word), &anonymous.1);
        if let Some((identity, from)) = self.identity.as_ref().filter(|_| by_certificate) {
            put(listen::IDENTITY, quoted(identity), from);
            put(listen::METHODS, "[\"certificate\"]".into(), from);
        } else if anonymous.0 && security.password_file.is_none() {
            // Without a file of users, names and passwords are taken as they come.
            put(listen::BELIEVE_NAMES, "true".into(), &anonymous.1);
        }
        sheet.entries.extend(self.entries.iter().cloned());
        if let Some((why, from)) = self.closed.clone().or_else(|| self.opener(security, files)) {
            sheet.comments.push(
                "Not opened: it would be less restrictive than in \
                                 mosquitto."
                    .into(),
            );
            sheet.entries.push(Entry {
                key: listen::ENABLED,
                value: "false".into(),
                from: from.clone(),
            });
            let option = format!("the listener of {}", self.from);
            let words = format!("it is not opened ({why})");
            notes.push(OptionNote { place: from, option, fate: OptionFate::Lost, words });
        }
        Ok(())
    }

    /// Setting that would admit more clients than mosquitto does, and its place.
    fn opener(&self, security: &Security, files: &[Option<String>; 2]) -> Option<(String, String)> {
        if let Some(from) = self.ca_folder.as_ref().filter(|_| self.asks_for_certificates()) {
            return Some(("capath is not read: set cafile".into(), from.clone()));
        }
        let of = [
            ("password_file", &security.password_file, "all users into one file"),
            ("acl_file", &self.own.acl_file, "all rules into one file"),
        ];
        let mut others = of.into_iter().zip(files).filter_map(|((option, own, remedy), first)| {
            let (path, from) = own.as_ref()?;
            let why = format!(
                "{option}: listeners have different ones, and only one is possible here: put \
                 {remedy}"
            );
            (*first.as_ref()? != quoted(path)).then(|| (why, from.clone()))
        });
        others.next()
    }

    fn asks_for_certificates(&self) -> bool {
        self.requires_certificate.is_some() || self.identity.is_some()
    }

    fn tls(&self, put: &mut impl FnMut(&'static str, String, &str)) -> Result<(), String> {
        let (certificate, key) = match (&self.certificate, &self.key) {
            (None, None) => {
                return match self.ca.as_ref().or(self.crl.as_ref()) {
                    Some((_, from)) => Err(format!("{from} needs certfile and keyfile")),
                    None => Ok(()),
                };
            }
            (Some(certificate), Some(key)) => (certificate, key),
            _ => return Err("certfile and keyfile go together".into()),
        };
        put(listen::TLS, "true".into(), &certificate.1);
        put(listen::CERTIFICATE, quoted(&certificate.0), &certificate.1);
        put(listen::KEY, quoted(&key.0), &key.1);
        let wants = match (&self.requires_certificate, &self.identity) {
            (Some(from), _) => Some(("required", from)),
            (None, Some((_, from))) => Some(("optional", from)),
            (None, None) => None,
        };
        let Some((word, from)) = wants else { return Ok(()) };
        if let Some((ca, from)) = &self.ca {
            put(listen::CLIENT_CA, quoted(ca), from);
        } else if self.ca_folder.is_none() {
            return Err("client certificates need cafile".into());
        }
        if self.ca.is_some() {
            put(listen::CLIENT_CERTIFICATES, quoted(word), from);
        }
        if let Some((crl, from)) = &self.crl {
            put(listen::REVOKED, quoted(crl), from);
        }
        Ok(())
    }

    fn address(&self) -> Result<String, String> {
        if let Some(path) = &self.socket {
            return Ok(format!("unix:{path}"));
        }
        let ip = match (self.host.as_deref(), self.ipv) {
            (None, Some(4)) => IpAddr::from([0, 0, 0, 0]),
            // Every interface, of both families.
            (None, _) => IpAddr::from([0u16; 8]),
            (Some("localhost"), Some(6)) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16]),
            (Some("localhost"), _) => IpAddr::from([127, 0, 0, 1]),
            (Some(host), ipv) => resolved(host, ipv)?,
        };
        Ok(std::net::SocketAddr::new(ip, self.port).to_string())
    }
}

fn resolved(host: &str, ipv: Option<u8>) -> Result<IpAddr, String> {
    if let Ok(ip) = host.parse() {
        return Ok(ip);
    }
    let found = (host, 0).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    let fits = |ip: &IpAddr| ipv.is_none_or(|ipv| (ipv == 4) == ip.is_ipv4());
    let found = found.map(|address| address.ip()).find(fits);
    found.ok_or_else(|| format!("{host} has no address of that family: write an address"))
}

impl Bridge {
    fn sheet(self) -> Sheet {
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        };
        let (addresses, from) = &self.addresses;
        let secured = addresses.iter().map(|address| match self.tls {
            true => format!("mqtts://{address}"),
            false => address.clone(),
        });
        let value = list(&secured.collect::<Vec<_>>());
        let mut entries = vec![Entry { key: words::bridge::ADDRESSES, value, from: from.clone() }];
        entries.extend(self.entries);
        let value = list(&self.topics);
        entries.push(Entry { key: words::bridge::TOPICS, value, from: self.from });
        let dotted = self.name.contains('.');
        let name = if dotted { quoted(&self.name) } else { self.name };
        Sheet { header: format!("bridge.{name}"), comments: Vec::new(), entries }
    }
}

/// A name for a listener that none has yet.
fn name(listener: &Listener, names: &[String]) -> String {
    let plain = match (&listener.socket, listener.web_sockets) {
        (Some(_), _) => "socket".into(),
        (None, true) => format!("ws-{}", listener.port),
        (None, false) => format!("mqtt-{}", listener.port),
    };
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut all = std::iter::once(plain.clone()).chain(numbered);
    all.find(|name| !names.contains(name)).expect("there is always another number")
}

/// Where a line is, and which option it has: never its value, which may be a secret.
pub(super) fn from(line: &Line) -> String {
    line.place.to_string()
}
