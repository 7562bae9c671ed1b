//! The server's HTTP API, as far as measurements use it.
//!
//! An application's view: nothing here goes around what users call. Connections are kept open, so
//! that a request costs the server no accept.

use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a reader of a stream waits before it looks whether it is to end.
const STREAM_WAIT: Duration = Duration::from_millis(200);

/// The API of one server.
#[derive(Clone)]
pub struct Api {
    agent: ureq::Agent,
    address: SocketAddr,
    base: String,
    authorization: String,
}

/// A stream of the API, read by a thread of its own.
pub struct Followed {
    over: Arc<AtomicBool>,
    reader: JoinHandle<u64>,
}

impl Followed {
    /// Ends it. Gives how many of its events came.
    pub fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.reader.join().expect("a reader ends by itself")
    }
}

impl Api {
    /// The API at `address`.
    pub fn new(address: SocketAddr, token: &str) -> Api {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60)));
        let (base, authorization) = (format!("http://{address}"), format!("Bearer {token}"));
        Api { agent: config.build().new_agent(), address, base, authorization }
    }

    /// URL of the API.
    pub fn url(&self) -> String {
        self.base.clone()
    }

    /// Counters and gauges of the server.
    pub fn status(&self) -> io::Result<Value> {
        self.ask("status")
    }

    /// A counter or gauge of the server, which is there.
    pub fn count(&self, name: &str) -> io::Result<u64> {
        let status = self.status()?;
        let counter = status["counters"][name].as_u64().or_else(|| status[name].as_u64());
        counter.ok_or_else(|| io::Error::other(format!("a status without {name}")))
    }

    /// Answer to `GET /v1/PATH`.
    pub fn ask(&self, path: &str) -> io::Result<Value> {
        let request = self.agent.get(format!("{}/v1/{path}", self.base));
        let answer = request.header("Authorization", &self.authorization).call();
        answer.and_then(|mut answer| answer.body_mut().read_json()).map_err(io::Error::other)
    }

    /// Reads a stream and counts its events of this type.
    pub fn follow(&self, path: &str, event: &'static str) -> io::Result<Followed> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(STREAM_WAIT))?;
        let (authorization, address) = (&self.authorization, self.address);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {authorization}\r\n\r\n"
        )?;
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let named = Builder::new().name("bench-follow".into());
        let reader = named.spawn(move || count(stream, event, &asked))?;
        Ok(Followed { over, reader })
    }

    /// Devices that are online.
    pub fn online(&self) -> io::Result<u64> {
        self.status()?["online"].as_u64().ok_or_else(|| io::Error::other("a status without online"))
    }

    /// Sessions of topics that have a connection.
    pub fn sessions_online(&self) -> io::Result<u64> {
        let odd = || io::Error::other("a status without sessions_online");
        self.status()?["sessions_online"].as_u64().ok_or_else(odd)
    }

    /// Orders a push: `order` is the body of `POST /v1/pushes`.
    pub fn push(&self, order: &Value) -> io::Result<Value> {
        self.post("/v1/pushes", order)
    }

    /// Answer to `POST PATH` with a body of JSON.
    pub fn post(&self, path: &str, body: &Value) -> io::Result<Value> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let answer = request.header("Authorization", &self.authorization).send_json(body);
        answer.and_then(|mut answer| answer.body_mut().read_json()).map_err(io::Error::other)
    }

    /// Puts something that needs no words at a path.
    pub fn put(&self, path: &str) -> io::Result<Value> {
        let request = self.agent.put(format!("{}{path}", self.base));
        let answer = request.header("Authorization", &self.authorization).send_json(json!({}));
        answer.and_then(|mut answer| answer.body_mut().read_json()).map_err(io::Error::other)
    }
}

/// Events of a type in what comes, till the end or until it is over.
fn count(mut stream: TcpStream, event: &str, over: &AtomicBool) -> u64 {
    let (mut line, mut some, mut count) = (Vec::new(), [0; 16 * 1024], 0);
    let wanted = format!("event: {event}").into_bytes();
    while !over.load(Ordering::Relaxed) {
        let came = match stream.read(&mut some) {
            Ok(0) => break,
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        for &byte in &some[..came] {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            count += u64::from(line == wanted);
            line.clear();
        }
    }
    count
}

/// A push of 64 bytes to all devices of a product, now or never.
pub fn to_all(product: &str) -> Value {
    json!({ "product": product, "all": true, "body": "x".repeat(64), "ttl_s": 0 })
}

/// A push of 64 bytes to these devices that may wait `ttl_s` seconds.
pub fn to_list(product: &str, devices: &[String], ttl_s: u32) -> Value {
    json!({ "product": product, "devices": devices, "body": "x".repeat(64), "ttl_s": ttl_s })
}
