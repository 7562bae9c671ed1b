//! A Redis beside the server, for the stage that stops it, kills it and has it forget.
//!
//! The Redis is Debian's `redis-server` on a free port of loopback, with nothing on disk: after a
//! kill it comes back empty. Its command has the stage's folder in it, by which one that a stage
//! has started again is found. This module knows no protocol and no plan.

use super::{PATIENCE, free_port, listens};
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where Debian has it.
const PROGRAM: &str = "/usr/bin/redis-server";

/// A running Redis. It ends with this.
pub(super) struct Redis {
    child: Child,
    /// Its port on loopback.
    pub port: u16,
    /// The command that starts it again.
    pub start: String,
    /// Its version and settings, in words.
    pub words: String,
}

impl Redis {
    /// Starts one that keeps its files in this folder.
    pub fn start(folder: &Path) -> io::Result<Redis> {
        let version = Command::new(PROGRAM).arg("--version").output().map_err(|error| {
            let remedy = "apt-get install redis-server, or --redis none";
            io::Error::other(format!("{PROGRAM}: {error}; {remedy}"))
        })?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_whitespace().find_map(|word| word.strip_prefix("v="));
        let port = free_port()?;
        let file = folder.join("redis.conf");
        let (dir, log) = (folder.display(), folder.join("redis.log"));
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\ndaemonize no\n\
             set-proc-title no\ndir {dir}\nlogfile {}\n",
            log.display()
        );
        std::fs::write(&file, text)?;
        let mut child = Command::new(PROGRAM)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Err(error) = listens(port) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(format!("{PROGRAM}: {error} ({PATIENCE:?})")));
        }
        let version = version.unwrap_or("of unknown version");
        let words = format!("redis-server {version}, alone, on loopback, nothing on disk");
        let start = format!("{PROGRAM} {}", file.display());
        Ok(Redis { child, port, start, words })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // An error says that a stage has ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
