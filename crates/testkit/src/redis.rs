//! Real Redis for tests: servers on free ports of loopback, clusters, masters with Sentinels.
//!
//! A server lives in a folder that vanishes with it, and is ended with its [`RedisServer`], paused
//! or not. A test waits for a condition, which is checked again and again a bounded number of
//! times. Where redis-server is not installed a test fails and says so: it is never skipped.

mod certificates;
mod cluster;
mod sentinel;

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use sentinel::Watched;

use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How a server is made.
#[derive(Clone, Default)]
pub struct RedisOptions {
    /// Speaks TLS alone, with these.
    pub tls: Option<Certificates>,
    /// An ACL user with a password, and what it may do in the words of ACL. The default user is
    /// off then.
    pub user: Option<(String, String, String)>,
    /// Further lines of the configuration.
    pub lines: Vec<String>,
    /// Whether it is a Sentinel: then `lines` say of what.
    pub is_sentinel: bool,
    /// Whether it is a node of a cluster.
    pub is_node: bool,
}

/// A running redis-server.
pub struct RedisServer {
    folder: TempDir,
    options: RedisOptions,
    /// On 127.0.0.1.
    port: u16,
    /// A node's port for other nodes.
    bus_port: u16,
    child: Option<Child>,
}

/// How often a condition is looked at, and how long between: a minute.
const LOOKS: u32 = 3_000;
const BETWEEN: Duration = Duration::from_millis(20);
/// Ports that are tried: between the look for a free one and the start somebody may take it.
const PORTS: u32 = 20;

impl RedisServer {
    /// Starts one and waits until it answers.
    pub fn start(options: RedisOptions) -> RedisServer {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = RedisServer { folder, options, port: 0, bus_port: 0, child: None };
        for _ in 0..PORTS {
            // Both anew: somebody else may have taken one of them meanwhile.
            (server.port, server.bus_port) = (free_port(), free_port());
            let _ = std::fs::remove_file(server.folder.path().join("nodes.conf"));
            std::fs::write(server.path(), server.configuration()).expect("a file");
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server did not start: {}", server.log());
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    /// The URL of it alone, with the ACL user.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}127.0.0.1:{}", self.account(), self.port)
    }

    /// `user:password@` of the ACL user; empty where there is none.
    pub fn account(&self) -> String {
        let user = self.options.user.as_ref();
        user.map_or(String::new(), |(user, password, _)| format!("{user}:{password}@"))
    }

    /// Output of redis-cli for a command as the ACL user. Errors of Redis are text too.
    pub fn cli(&self, command: &[&str]) -> String {
        self.ask(command).unwrap_or_else(|error| panic!("redis-cli {command:?}: {error}"))
    }

    /// Does not run on, nor is its end: SIGSTOP.
    pub fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).expect("it runs");
    }

    /// Runs on.
    pub fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).expect("it runs");
    }

    /// Ends it at once: SIGKILL.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Starts it again after [`RedisServer::kill`], on its port, with what it has on disk.
    pub fn restart(&mut self) {
        self.kill();
        let mut started = false;
        // The port may still be in the hands of connections that end.
        until("redis-server starts again", || {
            started = started || self.spawn();
            started
        });
    }

    fn ask(&self, command: &[&str]) -> Result<String, String> {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "--no-auth-warning"]);
        if let Some(tls) = &self.options.tls {
            cli.arg("--tls").arg("--cacert").arg(tls.write(self.folder.path()));
        }
        if let Some((user, password, _)) = &self.options.user {
            cli.args(["--user", user, "--pass", password]);
        }
        let told = cli.args(command).stdin(Stdio::null()).output();
        let told = told.map_err(|error| format!("{error}; install the package redis-tools"))?;
        if !told.status.success() {
            return Err(String::from_utf8_lossy(&told.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&told.stdout).trim_end().to_string())
    }

    /// Starts the process; false: it ended at once.
    fn spawn(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.arg(self.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if self.options.is_sentinel {
            command.arg("--sentinel");
        }
        let child = command.spawn().unwrap_or_else(|error| {
            panic!(
                "redis-server cannot be started ({error}): scripts/test.sh installs it, or \
                 `apt-get install redis-server redis-sentinel redis-tools`"
            )
        });
        self.child = Some(child);
        let mut has_ended = false;
        until("redis-server answers", || {
            let child = self.child.as_mut().expect("it was started");
            has_ended = child.try_wait().expect("our child").is_some();
            let answers = |text: String| text == "PONG" || text.contains("NOPERM");
            has_ended || self.ask(&["PING"]).is_ok_and(answers)
        });
        if has_ended {
            self.child = None;
        }
        !has_ended
    }

    /// Its configuration, which it may rewrite itself.
    fn path(&self) -> PathBuf {
        self.folder.path().join("redis.conf")
    }

    fn configuration(&self) -> String {
        let folder = self.folder.path();
        let mut lines = vec![
            "bind 127.0.0.1".to_string(),
            format!("dir {}", folder.display()),
            format!("logfile {}", folder.join("log").display()),
            "daemonize no".into(),
        ];
        match &self.options.tls {
            None => lines.push(format!("port {}", self.port)),
            Some(tls) => {
                let authority = tls.write(folder);
                let file = |name: &str| folder.join(name).display().to_string();
                lines.push("port 0".into());
                lines.push(format!("tls-port {}", self.port));
                lines.push(format!("tls-cert-file {}", file("server.pem")));
                lines.push(format!("tls-key-file {}", file("server.key")));
                lines.push(format!("tls-ca-cert-file {}", authority.display()));
                lines.push("tls-auth-clients optional".into());
                lines.push("tls-replication yes".into());
            }
        }
        if self.options.is_node {
            lines.push("cluster-enabled yes".into());
            // A port of its own: that of clients plus 10,000 may be none.
            lines.push(format!("cluster-port {}", self.bus_port));
        }
        if !self.options.is_sentinel {
            lines.extend(["save \"\"", "appendonly no"].map(String::from));
        }
        if let Some((user, password, rules)) = &self.options.user {
            lines.push("user default off".into());
            lines.push(format!("user {user} on >{password} {rules}"));
        }
        lines.extend(self.options.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        std::thread::sleep(BETWEEN);
    }
    panic!("in vain waited until {what}");
}

/// A port of loopback that nobody listened on just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Writes a file beside others, unless it is there.
fn write_once(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    if !path.exists() {
        std::fs::write(path, text).expect("a file");
    }
}
