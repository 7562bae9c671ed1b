//! The server's HTTP API as an application sees it: asked, answered, or lost on the way.
//!
//! A lost answer says nothing about what was done. Nothing is asked a second time here.

use crate::server::TOKEN;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use ureq::http::Request;

/// The API of one life of the server. Each thread has its own.
pub struct Api {
    agent: ureq::Agent,
    base: String,
}

/// Result of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The request succeeded.
    Done(Value),
    /// The request was refused, with status and code.
    Refused(u16, String),
    /// No answer came.
    Lost,
}

impl Api {
    /// The API at `address`.
    pub fn new(address: SocketAddr) -> Api {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(20)))
            .http_status_as_error(false)
            .build();
        Api { agent: config.new_agent(), base: format!("http://{address}") }
    }

    /// Asks for something.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None, None)
    }

    /// Removes something.
    pub fn delete(&self, path: &str) -> Reply {
        self.ask("DELETE", path, None, None)
    }

    /// Puts something.
    pub fn put(&self, path: &str, body: Option<&Value>) -> Reply {
        self.ask("PUT", path, body, None)
    }

    /// Orders a push, under an idempotency key if there is one.
    pub fn push(&self, order: &Value, key: Option<&str>) -> Reply {
        self.ask("POST", "/v1/pushes", Some(order), key)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>, key: Option<&str>) -> Reply {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header("Authorization", format!("Bearer {TOKEN}"));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.agent.run(request.body(body.to_string()).expect("its parts are well formed"))
            }
            None => self.agent.run(request.body(()).expect("its parts are well formed")),
        };
        let Ok(mut answer) = answer else { return Reply::Lost };
        let status = answer.status().as_u16();
        match answer.body_mut().read_json::<Value>() {
            Ok(value) if (200..300).contains(&status) => Reply::Done(value),
            Ok(value) => {
                let code = value["error"]["code"].as_str().unwrap_or("without a code");
                Reply::Refused(status, code.to_owned())
            }
            Err(_) => Reply::Lost,
        }
    }
}
