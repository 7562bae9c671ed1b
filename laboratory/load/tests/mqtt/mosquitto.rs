//! A Mosquitto of the test's own: started on a free port, ended with the test.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the package of every distribution puts it.
const PROGRAM: &str = "/usr/sbin/mosquitto";

pub struct Mosquitto {
    process: Child,
    pub port: u16,
    _folder: tempfile::TempDir,
}

impl Mosquitto {
    /// Starts one, and waits until it listens.
    pub fn start() -> Mosquitto {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mosquitto.conf");
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nmax_connections -1\n\
             max_queued_messages 0\nmax_inflight_messages 0\nlog_dest none\n"
        );
        std::fs::write(&path, text).expect("written");
        let process = Command::new(PROGRAM)
            .arg("-c")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mosquitto is installed: apt-get install mosquitto");
        let mosquitto = Mosquitto { process, port, _folder: folder };
        let began = load::fleet::instant();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                load::fleet::instant() - began < Duration::from_secs(300),
                "it does not listen"
            );
            std::thread::yield_now();
        }
        mosquitto
    }

    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // It is ours, and nothing of it is to be kept.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
