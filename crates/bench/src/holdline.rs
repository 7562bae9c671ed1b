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
/// A server that does not answer for so long has not started.
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
    /// TLS with a certificate made on the spot.
    pub tls: bool,
    /// Memory in pages of 4 KiB only. Huge ones hide a slope: 2 MiB hold thousands of records.
    pub small_pages: bool,
    /// Shortest and longest heartbeat of its products, seconds.
    pub heartbeat_s: (u16, u16),
    /// Members that a group of its chat may have.
    pub group_members: u32,
}

impl Default for Setup {
    fn default() -> Setup {
        let heartbeat_s = (30, crate::caller::speech::HEARTBEAT_S);
        let (core, tls, small_pages) = (None, false, false);
        Setup {
            shards: 0,
            core,
            connections: 18_000,
            bind_ms: 10_000,
            tls,
            small_pages,
            heartbeat_s,
            group_members: 500,
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
    config: String,
    _folder: tempfile::TempDir,
}

impl Setup {
    /// Starts a server and waits until its API answers.
    pub fn start(&self) -> io::Result<Holdline> {
        let folder = tempfile::tempdir()?;
        let [devices, mqtt, api] = free_ports()?;
        let config = self.config([devices, mqtt, api], folder.path())?;
        let file = folder.path().join("holdline.toml");
        std::fs::write(&file, &config)?;
        let mut command = Command::new(binary()?);
        command.arg("serve").arg("--config").arg(&file);
        command.arg("--data").arg(folder.path().join("data"));
        command.stderr(std::fs::File::create(folder.path().join("log"))?);
        // The server reads its environment as configuration: what is measured is the file alone.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDLINE_") {
                command.env_remove(name);
            }
        }
        if self.small_pages {
            command.env("MIMALLOC_ALLOW_THP", "0"); // the allocator's own switch
        }
        let mut child = Child::start(&mut command, self.core)?;
        let api = Api::new(api, TOKEN);
        let began = clock::now();
        while api.status().is_err() {
            if !child.runs() || clock::since(began) > PATIENCE {
                let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("holdline did not start:\n{log}\n{config}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Holdline { child, address: devices, mqtt, api, config, _folder: folder })
    }

    fn config(&self, ports: [SocketAddr; 3], folder: &Path) -> io::Result<String> {
        let [devices, mqtt, api] = ports;
        let tls = if self.tls { certificate(folder)? } else { String::new() };
        let Setup { shards, connections, bind_ms, heartbeat_s: (shortest, longest), .. } = self;
        let members = self.group_members;
        let pin = self.core.is_none();
        let product = |key: &str, app_id: u32| {
            format!(
                "[products.{key}]\napp_id = {app_id}\nanonymous = \"loopback\"\n\
                 heartbeat_min_s = {shortest}\nheartbeat_default_s = {longest}\n\
                 heartbeat_max_s = {longest}\nreports_per_s = 10000\n\n"
            )
        };
        Ok(format!(
            "[server]\nshards = {shards}\npin = {pin}\nlog = \"warn\"\n\n\
             [listen.any]\naddress = \"{devices}\"\nprotocol = \"any\"\nwebsocket = \"/miop\"\n\n\
             [listen.mqtt]\naddress = \"{mqtt}\"\nprotocol = \"mqtt\"\n\n\
             {tls}[api]\naddress = \"{api}\"\ntoken = \"{TOKEN}\"\n\n\
             [chat]\ngroup_members_max = {members}\nsends_an_account_per_s = 0\n\
             sends_a_group_per_s = 0\nchatroom_messages_per_s = 1000000\n\
             chatroom_messages_burst = 1000000\n\n\
             [limits]\nconnections_max = {connections}\nbind_ms_max = {bind_ms}\n\
             binds_per_s = 10000000\n\
             devices_max = {}\naccepts_per_turn = 256\n\n{}{}",
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

    /// The configuration it runs with, without its ports: a part of a result's plan.
    pub fn plan(&self) -> Value {
        let ports = |line: &&str| !line.starts_with("address") && !line.starts_with("token");
        json!(self.config.lines().filter(ports).filter(|line| !line.is_empty()).collect::<Vec<_>>())
    }
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
fn free_ports<const N: usize>() -> io::Result<[SocketAddr; N]> {
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
