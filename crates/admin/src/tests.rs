//! The API over real sockets with a control port that says what the test wants.

mod audiences;
mod chat;
mod console;
mod description;
mod door;
mod event_stream;
mod hook;
mod http;
mod life;
mod metrics;
mod mutated;
mod names;
mod order;
mod outgoing;
mod presence_api;
mod push_outcomes;
mod roles;
mod schedules;
mod stream;
mod tokens;
mod topics;
mod trace;
mod users;

use super::*;
use crate::platforms::Platforms;
use crate::webhook::WallClock;
use model::close::CloseReason;
use model::id::{DeviceId, MessageId, ProductKey};
use model::ports::control::{Answer, Command, Reply};
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::pushes::{PushAnswer, PushCommand};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TOKEN: &str = "a-token-of-the-tests";
const NOW_MS: u64 = 1_760_000_000_000;

type Script = Box<dyn Fn(&Command) -> Answer + Send + Sync>;

/// A control port that answers by a script and remembers what it was asked.
struct Fake {
    script: Script,
    asked: Mutex<Vec<Command>>,
    next_id: AtomicU64,
}

impl Control for Fake {
    fn ask(&self, command: Command, reply: Reply) {
        let answer = (self.script)(&command);
        self.asked.lock().expect("no panic").push(command);
        reply(answer);
    }

    fn next_id(&self) -> MessageId {
        MessageId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

/// A running API and a client for it.
struct TestApi {
    running: Option<RunningApi>,
    fake: Arc<Fake>,
    feed: Arc<Feed>,
    url: String,
    agent: ureq::Agent,
}

impl TestApi {
    fn new(script: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> TestApi {
        TestApi::with(settings(), script)
    }

    /// One whose shards answer so about pushes.
    fn pushes(script: impl Fn(&PushCommand) -> PushAnswer + Send + Sync + 'static) -> TestApi {
        TestApi::new(move |command| match command {
            Command::Push(command) => script(command).into(),
            other => panic!("not about pushes: {other:?}"),
        })
    }

    fn with(
        settings: Settings,
        script: impl Fn(&Command) -> Answer + Send + Sync + 'static,
    ) -> TestApi {
        let (asked, next_id) = (Mutex::default(), AtomicU64::new(7_000_000_000_000_000_001));
        let fake = Arc::new(Fake { script: Box::new(script), asked, next_id });
        let feed = Feed::new(&settings.limits);
        let running = start(settings, listeners(), fake.clone(), feed.clone()).expect("starts");
        let url = format!("http://{}", running.addrs()[0]);
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .new_agent();
        TestApi { running: Some(running), fake, feed, url, agent }
    }

    fn addr(&self) -> SocketAddr {
        self.running.as_ref().expect("runs").addrs()[0]
    }

    fn stop(&mut self) {
        self.running.take().expect("runs").stop();
    }

    /// Sends a request with the token; gives status, body and `WebhookRetry-After`.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String, Option<String>) {
        self.send_with(&[], method, path, body)
    }

    /// The same with further headers.
    fn send_with(
        &self,
        headers: &[(&str, &[u8])],
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, String, Option<String>) {
        self.send_as(TOKEN, headers, (method, path, body))
    }

    /// The same with another token.
    fn send_as(
        &self,
        token: &str,
        headers: &[(&str, &[u8])],
        (method, path, body): (&str, &str, &str),
    ) -> (u16, String, Option<String>) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_owned()).expect("a request");
        let mut response = self.agent.run(request).expect("an answer");
        let retry = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().expect("a number").to_owned());
        let text = response.body_mut().read_to_string().expect("text");
        (response.status().as_u16(), text, retry)
    }

    /// The same where JSON is expected.
    fn json(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, text, _) = self.send(method, path, body);
        let told = serde_json::from_str(&text);
        (status, told.unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}")))
    }

    fn asked(&self) -> Vec<Command> {
        std::mem::take(&mut self.fake.asked.lock().expect("no panic"))
    }
}

/// A port of this machine.
fn listeners() -> Vec<TcpListener> {
    vec![bind(([127, 0, 0, 1], 0).into()).expect("a free port")]
}

fn settings() -> Settings {
    let book = Arc::new(users::Book::default());
    Settings {
        token: TOKEN.into(),
        tokens: Arc::new(tokens::Rows::default()),
        audit_log: None,
        alarms: None,
        api: ApiLimits::default(),
        proxy_from_environment: false,
        limits: Limits::default(),
        version: "0.0.0",
        console: true,
        chat_domain: "a.example".into(),
        roles: Roles::default(),
        people: users::backwards(&book),
        users: book,
        bans: Arc::new(model::ports::bans::NoBans),
        presence: Arc::new(presence_api::ScriptedQueries::none()),
        webhooks: Vec::new(),
        backlog: None,
        dead_letters: None,
        retry: WebhookRetry { wait_ms_min: 0, wait_ms_max: 0, ..WebhookRetry::default() },
        wall_ms: Arc::new(|| NOW_MS),
        random: Arc::new(|bytes| bytes.fill(0xa5)),
        readings: Arc::new(Vec::new),
        readiness: Arc::new(Readiness::default),
        cluster: Arc::new(|| None),
        bridges: Arc::new(Vec::new),
        platforms: platforms(),
        certificates: Arc::new(Vec::new),
        log: Arc::new(Vec::new),
        log_events: Arc::new(BTreeMap::new),
        configuration: Arc::new(Configuration::default),
        reload: Arc::new(|| Ok(Reloaded::default())),
        preview: Arc::new(|| Ok(ReloadPreview::default())),
        drain: Arc::new(|draining| DrainState { draining, drain_ms: 10_000 }),
        backup: Arc::new(|_| Err("not in this test".into())),
        traces: Arc::new(trace::FakeTraces::none()),
        otlp: None,
        heartbeat_ms: 15_000,
    }
}

/// A platform to which nothing is sent.
fn platforms() -> Arc<Platforms> {
    let (wall_ms, url): (WallClock, _) = (Arc::new(|| NOW_MS), String::new());
    let service = PlatformService::Xiaomi { package: "shop".into(), secret: "s".into(), url };
    let (name, limits) = ("android".into(), model::limits::PlatformLimits::default());
    let settings = PlatformSettings { name, service, authorities: None, proxied: false, limits };
    Platforms::new(vec![settings], &wall_ms, 1).expect("it is right")
}

fn rules() -> Vec<table::Rule> {
    table::table().into_iter().map(|route| route.rule).collect()
}

fn key(name: &str) -> ProductKey {
    ProductKey::parse(name).expect("allowed")
}

fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).expect("allowed")
}

fn report(seq: u32) -> DeviceEvent {
    happened(DeviceWhat::Report { seq, body: seq.to_string().into_bytes().into() })
}

fn offline() -> DeviceEvent {
    happened(DeviceWhat::Offline { reason: CloseReason::PeerClosed })
}

fn happened(what: DeviceWhat) -> DeviceEvent {
    let (product, device, version) =
        (key("shop"), device("till-7"), model::presence::PresenceVersion(9));
    DeviceEvent { at_ms: NOW_MS, product, device, epoch: 3, version, what }
}
