//! The brokers that a figure is compared with: each started afresh, on a free port, with nothing
//! but a listener and no limit that its load would meet.
//!
//! A peer that is not installed is left out and told; `bench/README.md` says how to get each.
//! Holdline is one of them here: the same orders, the same swarm.

use crate::child::Child;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A peer that does not listen for so long has not started.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kind of broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Holdline, ours.
    Holdline,
    /// Debian's mosquitto.
    Mosquitto,
    /// rumqttd, from its crate.
    Rumqttd,
    /// mochi, from its Go module.
    Mochi,
    /// nats-server, from its Go module.
    Nats,
}

/// A program of somebody else's: in HOLDLINE_PEERS, a folder, the PATH, or /usr/sbin.
pub fn installed(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("HOLDLINE_PEERS").into_iter();
    let folders = folders.chain(std::env::var_os("PATH")).chain(["/usr/sbin".into()]);
    let mut all = folders.flat_map(|it| std::env::split_paths(&it).collect::<Vec<_>>());
    let folder = all.find(|folder| folder.join(name).is_file())?;
    Some(folder.join(name))
}

/// A running broker.
pub struct Peer {
    /// Where clients come in.
    pub address: SocketAddr,
    running: Running,
    /// Folder of a broker that is not ours.
    _folder: Option<tempfile::TempDir>,
}

enum Running {
    Ours(Box<Holdline>),
    Theirs(Child),
}

impl Kind {
    /// All of them, ours first.
    pub const ALL: [Kind; 5] =
        [Kind::Holdline, Kind::Mosquitto, Kind::Rumqttd, Kind::Mochi, Kind::Nats];

    /// Its name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Holdline => "holdline",
            Kind::Mosquitto => "mosquitto",
            Kind::Rumqttd => "rumqttd",
            Kind::Mochi => "mochi",
            Kind::Nats => "nats-server",
        }
    }

    /// Its program: HOLDLINE_PEERS, a folder, or the PATH.
    pub fn program(self) -> Option<PathBuf> {
        if self == Kind::Holdline {
            return crate::holdline::binary().ok();
        }
        installed(self.name())
    }

    /// Its version, as it says itself.
    pub fn version(self) -> String {
        let Some(program) = self.program() else { return "not installed".to_owned() };
        let argument = if self == Kind::Mosquitto { "-h" } else { "--version" };
        if self == Kind::Mochi {
            return "the version that go install brought".to_owned(); // it has no such option
        }
        let said = Command::new(program).arg(argument).output();
        let said = said.map(|it| [it.stdout, it.stderr].concat()).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().next().unwrap_or("").to_owned()
    }

    /// Starts one. `kept`: its sessions survive a restart.
    pub fn start(self, kept: bool) -> io::Result<Peer> {
        if self == Kind::Holdline {
            return Peer::ours(&Setup::default());
        }
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let missing = || io::Error::other(format!("{} is not installed", self.name()));
        let mut command = Command::new(self.program().ok_or_else(missing)?);
        let file = folder.path().join("conf.toml");
        match self {
            Kind::Mosquitto => {
                let persistence = match kept {
                    true => format!(
                        "persistence true\npersistence_location {}/\n",
                        folder.path().display()
                    ),
                    false => "persistence false\n".to_owned(),
                };
                std::fs::write(&file, format!("{}{persistence}", mosquitto(port)))?;
                command.arg("-c").arg(&file);
            }
            Kind::Rumqttd => {
                std::fs::write(&file, rumqttd(port))?;
                command.arg("-c").arg(&file).arg("-q");
            }
            Kind::Nats => {
                std::fs::write(&file, nats(port, folder.path()))?;
                command.arg("-c").arg(&file);
            }
            _ => {
                command.arg("-tcp").arg(format!("127.0.0.1:{port}"));
                command.args(["-ws", "127.0.0.1:0", "-info", "127.0.0.1:0"]);
            }
        }
        command.current_dir(folder.path()).stderr(Stdio::null());
        let mut child = Child::start_quiet(&mut command)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let began = clock::now();
        while TcpStream::connect(address).is_err() {
            if !child.runs() || clock::since(began) > PATIENCE {
                return Err(io::Error::other(format!("{} did not start", self.name())));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(200)); // it notices that we hung up
        Ok(Peer { address, running: Running::Theirs(child), _folder: Some(folder) })
    }
}

impl Peer {
    /// Holdline with this setup.
    pub fn ours(setup: &Setup) -> io::Result<Peer> {
        let ours = setup.start()?;
        let (address, running) = (ours.mqtt, Running::Ours(Box::new(ours)));
        Ok(Peer { address, running, _folder: None })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        match &self.running {
            Running::Ours(holdline) => holdline.pid(),
            Running::Theirs(child) => child.pid(),
        }
    }
}

impl Peer {
    /// The longest turn of a shard since the last question, microseconds, if it can be asked.
    pub fn turn_us_max(&self) -> Option<f64> {
        match &self.running {
            Running::Ours(holdline) => holdline.api.status().ok()?["turn_us_max"].as_f64(),
            Running::Theirs(_) => None,
        }
    }
}

fn mosquitto(port: u16) -> String {
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nlog_type none\nmax_queued_messages 0\n\
         set_tcp_nodelay true\nmax_inflight_messages 100\n"
    )
}

fn nats(port: u16, folder: &Path) -> String {
    let store = folder.join("store");
    format!(
        "server_name: bench\nlisten: \"127.0.0.1:-1\"\njetstream {{ store_dir: \"{}\" }}\n\
         mqtt {{ listen: \"127.0.0.1:{port}\", max_ack_pending: 1000 }}\n",
        store.display()
    )
}

fn rumqttd(port: u16) -> String {
    format!(
        "id = 0\n[router]\nid = 0\nmax_connections = 20000\nmax_outgoing_packet_count = 200\n\
         max_segment_size = 104857600\nmax_segment_count = 10\n\
         [v4.1]\nname = \"v4-1\"\nlisten = \"127.0.0.1:{port}\"\nnext_connection_delay_ms = 0\n\
         [v4.1.connections]\nconnection_timeout_ms = 60000\nmax_payload_size = 20480\n\
         max_inflight_count = 100\ndynamic_filters = true\n"
    )
}
