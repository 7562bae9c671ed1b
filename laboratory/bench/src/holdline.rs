//! The server under measurement: `holdline serve` in a folder of its own, on free ports.
//!
//! The binary is a release build from outside (HOLDLINE_BIN, else `target/release/holdline`): what
//! is measured is what ships. Its configuration is written here and stored with the result. It
//! holds two products: `demo`, whose devices are the crowd, and `probe`, for the one device whose
//! latency is taken.

use crate::api::Api;
use crate::child::Child;
use crate::clock;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Token of the API, for this one run on loopback.
const TOKEN: &str = "measurement-token-of-loopback";
/// A server that is told to end has so long for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the server is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Shards; 0 is one for each core.
    pub shards: u32,
    /// The core it is kept on, with all its threads.
    pub core: Option<usize>,
    /// Connections it may hold.
    pub connections: u32,
    /// Milliseconds that a connection may take until it is let in: an emulated machine may stand
    /// still for seconds.
    pub bind_ms: u32,
    /// Seconds after which a server that does not answer has not started.
    pub start_s: u32,
    /// TLS with a certificate made on the spot.
    pub tls: bool,
    /// Memory also in huge pages, where the kernel gives them to everybody; as it ships in small
    /// ones alone.
    pub huge_pages: bool,
    /// Shortest and longest heartbeat of its products, seconds.
    pub heartbeat_s: (u16, u16),
    /// Members that a group of its chat may have.
    pub group_members: u32,
    /// Further lines of its section `[chat]`.
    pub chat: String,
    /// Further sections.
    pub more: String,
    /// Members up to which a group is written into inboxes; larger ones are read.
    pub group_written: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        let heartbeat_s = (30, crate::caller::speech::HEARTBEAT_S);
        let (core, tls, huge_pages) = (None, false, false);
        Setup {
            shards: 0,
            core,
            connections: 18_000,
            bind_ms: 10_000,
            start_s: 20,
            tls,
            huge_pages,
            heartbeat_s,
            group_members: 500,
            chat: String::new(),
            more: String::new(),
            group_written: 2_000,
        }
    }
}

/// A running server.
pub struct Holdline {
    child: Child,
    /// Where devices come in.
    pub address: SocketAddr,
    /// Where MQTT clients come in.
    pub mqtt: SocketAddr,
    /// Its API.
    pub api: Api,
    setup: Setup,
    config: String,
    folder: tempfile::TempDir,
}

impl Setup {
    /// Starts a server and waits until its API answers.
    pub fn start(&self) -> io::Result<Holdline> {
        let folder = tempfile::tempdir()?;
        let [devices, mqtt, api] = free_ports()?;
        let config = self.config([devices, mqtt, api], folder.path())?;
        let file = folder.path().join("holdline.toml");
        std::fs::write(&file, &config)?;
        let (child, api) = (self.run(folder.path())?, Api::new(api, TOKEN));
        let setup = self.clone();
        let mut server = Holdline { child, address: devices, mqtt, api, setup, config, folder };
        server.wait()?;
        Ok(server)
    }

    /// Its process, over what is in `folder`.
    fn run(&self, folder: &Path) -> io::Result<Child> {
        // The server reads its environment as configuration: what is measured is the file alone.
        let mut command = clean(binary()?);
        command.arg("serve").arg("--config").arg(folder.join("holdline.toml"));
        command.arg("--data").arg(folder.join("data"));
        command.stderr(std::fs::File::create(folder.join("log"))?);
        Child::start(&mut command, self.core)
    }

    /// The configuration it would run with, without ports and certificates: for plans of several
    /// servers.
    pub fn plan(&self) -> io::Result<Value> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let setup = Setup { tls: false, ..self.clone() };
        Ok(shown(&setup.config([nowhere; 3], Path::new("."))?))
    }

    fn config(&self, ports: [SocketAddr; 3], folder: &Path) -> io::Result<String> {
        let [devices, mqtt, api] = ports;
        let tls = if self.tls { certificate(folder)? } else { String::new() };
        let Setup { shards, connections, bind_ms, heartbeat_s: (shortest, longest), .. } = self;
        let (members, written) = (self.group_members, self.group_written);
        let (chat, more) = (&self.chat, &self.more);
        let pin = self.core.is_none();
        let huge = if self.huge_pages { "huge_pages = true\n" } else { "" };
        let product = |key: &str, app_id: u32| {
            format!(
                "[products.{key}]\napp_id = {app_id}\nanonymous = \"loopback\"\n\
                 heartbeat_min_s = {shortest}\nheartbeat_default_s = {longest}\n\
                 heartbeat_max_s = {longest}\nreports_per_s = 10000\n\n"
            )
        };
        Ok(format!(
            "[server]\nshards = {shards}\npin = {pin}\n{huge}log = \"warn\"\n\n\
             [listen.any]\naddress = \"{devices}\"\nprotocol = \"any\"\nwebsocket = \"/miop\"\n\n\
             [listen.mqtt]\naddress = \"{mqtt}\"\nprotocol = \"mqtt\"\n\n\
             {tls}[api]\naddress = \"{api}\"\ntoken = \"{TOKEN}\"\n\n\
             [chat]\ngroup_members_max = {members}\n\
             group_written_members_max = {written}\nsends_an_account_per_s = 0\n\
             sends_a_group_per_s = 0\nbytes_an_account_per_s = 0\n\
             bytes_a_source_per_s = 0\nshare_an_account_percent = 0\n\
             chatroom_messages_per_s = 1000000\n\
             chatroom_waiting_max = 1000000\n\
             chatroom_messages_burst = 1000000\n{chat}\n\
             [limits]\nconnections_max = {connections}\nbind_ms_max = {bind_ms}\n\
             binds_per_s = 10000000\n\
             devices_max = {}\naccepts_per_turn = 256\n\n{}{}{more}",
            connections.max(&100_000) * 2,
            product("demo", 1),
            product("probe", 2),
        ))
    }
}

impl Holdline {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Keeps its first shard on `core`, and leaves its other threads where they are: a server with
    /// one shard leaves that to the kernel.
    pub fn keep_shard(&self, core: usize) -> io::Result<()> {
        self.child.keep("shard-0", core)
    }

    /// Where its data is.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Ends it, does something, and starts it again over its data, at the same addresses.
    pub fn restart(&mut self, between: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        self.child.end(PATIENCE);
        between(&self.data())?;
        self.start_again()
    }

    /// Kills it, and starts it again over its data, at the same addresses.
    pub fn kill_and_start(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.start_again()
    }

    fn start_again(&mut self) -> io::Result<()> {
        self.child = self.setup.run(self.folder.path())?;
        self.wait()
    }

    /// A command of `holdline` that speaks to its API.
    pub fn command(&self, words: &[&str]) -> io::Result<Command> {
        let mut command = clean(binary()?);
        command.args(words).args(["--url", &self.api.url(), "--token", TOKEN]);
        Ok(command)
    }

    /// Waits until its API answers.
    fn wait(&mut self) -> io::Result<()> {
        let (began, patience) = (clock::now(), Duration::from_secs(self.setup.start_s.into()));
        while self.api.status().is_err() {
            if !self.child.runs() || clock::since(began) > patience {
                let log = std::fs::read_to_string(self.folder.path().join("log"));
                let (log, config) = (log.unwrap_or_default(), &self.config);
                return Err(io::Error::other(format!("holdline did not start:\n{log}\n{config}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The configuration it runs with, without its ports: a part of a result's plan.
    pub fn plan(&self) -> Value {
        shown(&self.config)
    }
}

/// Beginnings of lines that a result leaves out: they differ in each run, or are secret.
const UNTOLD: [&str; 7] =
    ["address", "token", "store = \"mysql", "archive", "gateway", "secret", "s3_secret"];

/// A configuration without its ports and its secrets.
fn shown(config: &str) -> Value {
    let told = |line: &&str| !line.is_empty() && !UNTOLD.iter().any(|it| line.starts_with(it));
    json!(config.lines().filter(told).collect::<Vec<_>>())
}

/// A command without our own settings: a server reads its environment as configuration, also when
/// somebody else starts it again.
pub fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDLINE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The server's binary.
pub fn binary() -> io::Result<PathBuf> {
    let path = std::env::var_os("HOLDLINE_BIN")
        .map_or_else(|| crate::results::root().join("target/release/holdline"), PathBuf::from);
    let missing = || {
        let path = path.display();
        format!("{path} is missing: cargo build --release -p holdline, or set HOLDLINE_BIN")
    };
    path.is_file().then(|| path.clone()).ok_or_else(|| io::Error::other(missing()))
}

/// Ports of loopback that were free a moment ago.
pub fn free_ports<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..N).map(listen).collect::<Result<_, _>>()?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
    Ok(addresses.try_into().expect("as many as were asked for"))
}

/// A self-signed certificate in `folder`, and the section that names it.
fn certificate(folder: &Path) -> io::Result<String> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .map_err(io::Error::other)?;
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let (certificate, key) = (certificate.display(), key.display());
    Ok(format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n\n"))
}
