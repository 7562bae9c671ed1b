//! The server's HTTP API, as far as measurements use it.
//!
//! An application's view: nothing here goes around what users call. Connections are kept open, so
//! that a request costs the server no accept.

use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The API of one server.
#[derive(Clone)]
pub struct Api {
    agent: ureq::Agent,
    base: String,
    authorization: String,
}

impl Api {
    /// The API at `address`.
    pub fn new(address: SocketAddr, token: &str) -> Api {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60)));
        let (base, authorization) = (format!("http://{address}"), format!("Bearer {token}"));
        Api { agent: config.build().new_agent(), base, authorization }
    }

    /// Where it is.
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

    /// What `GET /v1/PATH` answers.
    pub fn ask(&self, path: &str) -> io::Result<Value> {
        let request = self.agent.get(format!("{}/v1/{path}", self.base));
        let answer = request.header("Authorization", &self.authorization).call();
        answer.and_then(|mut answer| answer.body_mut().read_json()).map_err(io::Error::other)
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

    /// What `POST PATH` answers to a body of JSON.
    pub fn post(&self, path: &str, body: &Value) -> io::Result<Value> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let answer = request.header("Authorization", &self.authorization).send_json(body);
        answer.and_then(|mut answer| answer.body_mut().read_json()).map_err(io::Error::other)
    }
}

/// A push of 64 bytes to all devices of a product, now or never.
pub fn to_all(product: &str) -> Value {
    json!({ "product": product, "all": true, "body": "x".repeat(64), "ttl_s": 0 })
}

/// A push of 64 bytes to these devices that may wait `ttl_s` seconds.
pub fn to_list(product: &str, devices: &[String], ttl_s: u32) -> Value {
    json!({ "product": product, "devices": devices, "body": "x".repeat(64), "ttl_s": ttl_s })
}
