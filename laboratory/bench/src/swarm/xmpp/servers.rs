//! The servers that figures of XMPP are compared with: Debian's Prosody and ejabberd, and ours.
//! Each is started afresh with the same people, whose passwords are kept as keys of
//! SCRAM-SHA-256 with 4,096 rounds, and with the same rosters.
//!
//! One that is not installed is left out and told. Holdline is one of them: the same orders.

use super::session::{DOMAIN, PASSWORD};
use crate::child::Child;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::scenario::lab::chat::accounts;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server that does not listen for so long has not started: it makes its people first.
const PATIENCE: Duration = Duration::from_secs(300);

/// Kind of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Holdline,
    Prosody,
    Ejabberd,
}

/// People of a server: so many, each of whom has so many contacts that have it, too.
#[derive(Clone, Copy)]
pub(super) struct People {
    pub(super) count: u32,
    pub(super) contacts: u32,
}

/// A running one.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    running: Running,
    _folder: tempfile::TempDir,
}

enum Running {
    Ours(Box<Holdline>),
    Theirs(Child),
}

impl People {
    /// The name of one.
    pub(super) fn name(at: u32) -> String {
        format!("u{at}")
    }

    /// Contacts of an account: those next to it, in a ring.
    fn contacts_of(self, at: u32) -> impl Iterator<Item = u32> {
        let half = self.contacts / 2;
        let count = self.count;
        (1..=half).flat_map(move |step| [(at + step) % count, (at + count - step % count) % count])
    }
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Holdline, Kind::Prosody, Kind::Ejabberd];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Holdline => "holdline",
            Kind::Prosody => "prosody",
            Kind::Ejabberd => "ejabberd",
        }
    }

    /// How long its memory has to come to rest: ours, until its log has made a checkpoint, for
    /// which changes wait in memory up to 30 s.
    pub(super) const fn rest(self) -> Duration {
        match self {
            Kind::Holdline => Duration::from_secs(35),
            Kind::Prosody | Kind::Ejabberd => Duration::from_millis(500),
        }
    }

    /// Its version; `None`: it is not installed.
    pub(super) fn version(self) -> Option<String> {
        let package = match self {
            Kind::Holdline => return crate::holdline::binary().ok().map(|_| "this".into()),
            Kind::Prosody => "prosody",
            Kind::Ejabberd => "ejabberd",
        };
        let shown = Command::new("dpkg-query").args(["-W", "-f=${Version}", package]).output();
        let shown = shown.ok().filter(|it| it.status.success())?;
        Some(String::from_utf8_lossy(&shown.stdout).into_owned()).filter(|it| !it.is_empty())
    }

    /// Starts it with people.
    pub(super) fn start(self, people: People) -> io::Result<Server> {
        let folder = tempfile::tempdir()?;
        if self == Kind::Holdline {
            // What is not to be kept is bounded a session and minute, else.
            let chat = "transients_a_minute_max = 65535\n".to_owned();
            let group_members = people.count.max(2_000);
            let setup = Setup { group_members, chat, ..Setup::default() };
            let mut ours = setup.start()?;
            populate(&ours, people)?;
            // What making them left in memory is none of what they cost.
            ours.restart(|_| Ok(()))?;
            let (address, running) = (ours.address, Running::Ours(Box::new(ours)));
            return Ok(Server { address, running, _folder: folder });
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = match self {
            Kind::Prosody => prosody(folder.path(), port, people)?,
            _ => ejabberd(folder.path(), port, people)?,
        };
        let mut child = Child::start_quiet(&mut command)?;
        let began = clock::now();
        let made = folder.path().join("made");
        let is_made = || self != Kind::Ejabberd || made.exists();
        while !is_made() || TcpStream::connect(address).is_err() {
            if !child.runs() || clock::since(began) > PATIENCE {
                let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("{} did not start:\n{log}", self.name())));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Server { address, running: Running::Theirs(child), _folder: folder })
    }
}

impl Server {
    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        match &self.running {
            Running::Ours(ours) => ours.pid(),
            Running::Theirs(child) => child.pid(),
        }
    }

    /// Makes a room of ours, of these; others make theirs by XMPP.
    pub(super) fn make_room(&self, room: &str, names: &[String]) -> io::Result<()> {
        let Running::Ours(ours) = &self.running else { return Ok(()) };
        let group = format!("{room}@conference.{DOMAIN}");
        let (owner, members) = (&names[0], &names[1..]);
        ours.api.post("/v1/chat/groups", &json!({ "owner": owner, "group": group }))?;
        for members in members.chunks(100) {
            let order = json!({ "verb": "add", "members": members });
            ours.api.post(&format!("/v1/chat/groups/{group}/changes"), &order)?;
        }
        Ok(())
    }
}

/// Makes people of ours.
fn populate(ours: &Holdline, people: People) -> io::Result<()> {
    let all: Vec<u32> = (0..people.count).collect();
    accounts::bring_people(ours, all.iter().map(|at| People::name(*at)))?;
    let contacts = all.iter().flat_map(|at| {
        people.contacts_of(*at).map(move |with| {
            let what = json!({ "contact": {
                "with": People::name(with), "sees": true, "is_seen": true } });
            json!({ "account": People::name(*at), "what": what })
        })
    });
    for at in &all {
        ours.api.put(&format!("/v1/chat/accounts/{}", People::name(*at)))?;
    }
    let contacts: Vec<Value> = contacts.collect();
    for items in contacts.chunks(256) {
        ours.api.post("/v1/chat/moves", &json!({ "items": items }))?;
    }
    Ok(())
}

const PROSODY: &str = r#"
run_as_root = true
prosody_user = "root"
prosody_group = "root"
daemonize = false
pidfile = "FOLDER/pid"
data_path = "FOLDER/data"
plugin_paths = { "FOLDER" }
interfaces = { "127.0.0.1" }
c2s_ports = { PORT }
s2s_ports = {}
http_ports = {}
https_ports = {}
modules_enabled = { "roster", "saslauth", "disco", "ping", "carbons", "mam", "offline", "people" }
modules_disabled = { "s2s" }
c2s_require_encryption = false
authentication = "internal_hashed"
password_hash = "SHA-256"
default_iteration_count = 4096
default_archive_policy = true
storage = "internal"
network_settings = { read_timeout = 3600 }
log = { warn = "FOLDER/log" }
VirtualHost "localhost"
Component "conference.localhost" "muc"
"#;

/// Prosody makes its people as it starts, before it listens.
const PEOPLE: &str = r#"
local usermanager, data = require "core.usermanager", require "util.datamanager";
if module.host ~= "localhost" then return; end
for at = 0, COUNT - 1 do
    assert(usermanager.create_user("u"..at, "secret", module.host));
    local roster = { [false] = { version = 1; pending = {} } };
    for step = 1, HALF do
        for _, with in ipairs{ (at + step) % COUNT, (at - step) % COUNT } do
            roster["u"..with.."@"..module.host] = { subscription = "both"; groups = {} };
        end
    end
    if HALF > 0 then data.store("u"..at, module.host, "roster", roster); end
end
"#;

fn prosody(folder: &Path, port: u16, people: People) -> io::Result<Command> {
    let here = folder.display().to_string();
    let filled = |text: &str| {
        let text = text.replace("FOLDER", &here).replace("PORT", &port.to_string());
        let half = (people.contacts / 2).to_string();
        text.replace("COUNT", &people.count.to_string()).replace("HALF", &half)
    };
    std::fs::create_dir(folder.join("data"))?;
    std::fs::write(folder.join("mod_people.lua"), filled(PEOPLE))?;
    let file = folder.join("prosody.cfg.lua");
    std::fs::write(&file, filled(PROSODY))?;
    let mut command = Command::new("prosody");
    command.arg("--config").arg(file).stderr(std::process::Stdio::null());
    Ok(command)
}

const EJABBERD: &str = r#"
hosts: ["localhost"]
loglevel: 2
auth_method: mnesia
auth_password_format: scram
auth_scram_hash: sha256
listen:
  - { port: PORT, ip: "127.0.0.1", module: ejabberd_c2s, starttls: false, max_stanza_size: 262144 }
acl: { local: { user_regexp: "" } }
access_rules: { local: { allow: local } }
shaper_rules: {}
modules:
  mod_admin_extra: {}
  mod_carboncopy: {}
  mod_disco: {}
  mod_mam: { default: always, assume_mam_usage: true }
  mod_muc: { host: "conference.localhost", access_create: local, max_users: 5000,
             default_room_options: { max_users: 5000 } }
  mod_offline: {}
  mod_ping: {}
  mod_roster: {}
"#;

/// ejabberd makes its people when it listens, and says when they are made by a file.
fn ejabberd(folder: &Path, port: u16, people: People) -> io::Result<Command> {
    let file = folder.join("ejabberd.yml");
    std::fs::write(&file, EJABBERD.replace("PORT", &port.to_string()))?;
    let People { count, contacts } = people;
    let half = contacts / 2;
    let made = format!(
        "{{ok, _}} = application:ensure_all_started(ejabberd), \
         N = fun(At) -> list_to_binary(\"u\" ++ integer_to_list((At + {count}) rem {count})) end, \
         H = <<\"localhost\">>, B = <<\"both\">>, \
         [ok = ejabberd_auth:try_register(N(At), H, <<\"{PASSWORD}\">>) \
            || At <- lists:seq(0, {count} - 1)], \
         [mod_admin_extra:add_rosteritem(N(At), H, N(At + Sign * Step), H, <<>>, <<>>, B) \
            || At <- lists:seq(0, {count} - 1), Step <- lists:seq(1, {half}), Sign <- [1, -1]], \
         ok = file:write_file(\"{}\", <<\"made\">>).",
        folder.join("made").display()
    );
    let mut command = Command::new("erl");
    command
        .args(["-noshell", "-noinput", "+P", "250000", "-mnesia", "dir"])
        .arg(format!("\"{}\"", folder.join("db").display()))
        .args(["-ejabberd", "config"])
        .arg(format!("\"{}\"", file.display()))
        .arg("log_path")
        .arg(format!("\"{}\"", folder.join("log").display()))
        .args(["-eval", &made])
        .env("ERL_LIBS", "/usr/lib/x86_64-linux-gnu")
        .env("ERL_CRASH_DUMP", "/dev/null")
        .stderr(std::process::Stdio::null());
    Ok(command)
}
