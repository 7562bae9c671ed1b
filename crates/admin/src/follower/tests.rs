//! Answers of a node that follows.

use super::*;
use crate::answers::edge::cluster::{ClusterLog, ClusterNode};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;

struct World {
    api: FollowerApi,
    view: Arc<Mutex<ClusterView>>,
}

fn world() -> World {
    let node = |node, name: &str| ClusterNode { node, name: name.into(), ..Default::default() };
    let view = Arc::new(Mutex::new(ClusterView {
        name: "shop".into(),
        node: 2,
        leader: Some(1),
        leader_api: Some("10.0.0.7:7080".into()),
        connected: true,
        nodes: vec![node(1, "north"), node(2, "south")],
        logs: vec![ClusterLog { role: "following".into(), ..ClusterLog::default() }],
        ..ClusterView::default()
    }));
    let read = view.clone();
    let reading = crate::MetricReading { name: "cluster_lag", help: "Lag.", value: 7 };
    let settings = FollowerSettings {
        token: "secret".into(),
        limits: ApiLimits::default(),
        version: "1.2.3",
        cluster: Arc::new(move || Some(read.lock().expect("held").clone())),
        wall_ms: Arc::new(|| 1_700_000_000_000),
        readings: Arc::new(move || vec![reading]),
        log_events: Arc::new(BTreeMap::new),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    World { api: follow(settings, listener).expect("started"), view }
}

impl World {
    fn get(&self, path: &str, token: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.api.addr()).expect("it listens");
        let asks = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nConnection: \
             close\r\n\r\n"
        );
        stream.write_all(asks.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        (code, answer)
    }
}

#[test]
fn a_node_that_follows_is_ready_but_does_not_lead() {
    let world = world();
    assert_eq!(world.get("/healthz", "").0, 200);
    assert_eq!(world.get("/readyz", "").0, 200);
    let (code, told) = world.get("/readyz?lead", "");
    assert_eq!(code, 503);
    assert!(told.contains("north leads, its API is http://10.0.0.7:7080"), "{told}");
    assert_eq!(world.get("/readyz/connections", "").0, 503);
    world.view.lock().expect("held").logs[0].role = "absent".into();
    let (code, told) = world.get("/readyz", "");
    assert_eq!(code, 503);
    assert!(told.contains("log 0 is absent"), "{told}");
    world.api.stop();
}

#[test]
fn the_cluster_and_figures_are_for_those_who_have_the_token() {
    let world = world();
    for path in ["/v1/cluster", "/v1/status", "/metrics"] {
        assert_eq!(world.get(path, "wrong").0, 401, "{path}");
        assert_eq!(world.get(path, "secret").0, 200, "{path}");
    }
    assert!(world.get("/metrics", "secret").1.contains("holdline_cluster_lag 7"));
    assert!(world.get("/v1/cluster", "secret").1.contains("\"leader\":1"));
}

#[test]
fn a_node_that_follows_shows_the_alarms_that_concern_it() {
    let world = world();
    let active = |world: &World| world.get("/v1/alarms?state=active", "secret").1;
    assert_eq!(world.get("/v1/alarms", "wrong").0, 401);
    assert_eq!(world.get("/v1/alarms?state=other", "secret").0, 400);
    assert!(active(&world).contains("\"active\":0"));
    {
        let mut view = world.view.lock().expect("held");
        (view.clock_skew_s, view.clocks_differ, view.logs[0].lag) = (300, true, 20_000);
    }
    let told = active(&world);
    assert!(told.contains("log 0 lacks 20000 records of the leader's"), "{told}");
    assert!(told.contains("the clocks of two nodes differ by 300 s"), "{told}");
    let status = world.get("/v1/status", "secret").1;
    assert!(status.contains("\"kind\":\"follower_behind\",\"level\":\"warning\""), "{status}");
    assert!(world.get("/metrics", "secret").1.contains("holdline_alarms_active 2"));
    world.view.lock().expect("held").logs[0].lag = 0;
    assert!(active(&world).contains("\"active\":1"), "it is over");
    assert!(world.get("/v1/alarms?state=past", "secret").1.contains("follower_behind"));
}

#[test]
fn everything_else_is_at_the_leader() {
    let world = world();
    let (code, told) = world.get("/v1/devices", "secret");
    assert_eq!(code, 503);
    assert!(told.contains("\"code\":\"follows\"") && told.contains("north leads"), "{told}");
    let (code, page) = world.get("/", "");
    assert_eq!(code, 200);
    assert!(page.contains("<a href=\"http://10.0.0.7:7080/\">"), "{page}");
    world.view.lock().expect("held").leader = None;
    assert!(world.get("/v1/devices", "").1.contains("no node leads now"));
}
