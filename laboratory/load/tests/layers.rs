//! A fleet against the server's own machine, through every layer and in every version.

use base::hash::HashKey;
use base::time::{Instant, Now};
use load::{Fleet, FleetPlan};
use model::id::{ConnRef, DeviceRef, ProductKey, ShardId};
use model::limits::Limits;
use model::link::{Link, WireProfile};
use model::request::{Bound, PushDelivery, PushRequest};
use model::service::{Delivery, Request};
use net::epoll::Epoll;
use net::layer::tls::{ClientCertificates, TlsServer};
use net::layer::websocket::UpgradeTarget;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::mailbox::Mailbox;
use net::shard::ShardMessageOf;
use net::{ConnectionOrigin, Settings, Shard, ShardHandle, ShardLogic, listen};
use proto_miop::client::Profile;
use proto_miop::codec::Version;
use proto_miop::server::Server;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Binds whoever comes.
struct Host;

impl ShardLogic for Host {
    type Machine = Server;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &[proto_miop::WIRE];

    fn machine(&mut self, _: Now, _: &Link, _: ConnectionOrigin) -> Option<Server> {
        Some(Server::new(5_000))
    }

    fn word(&mut self, _: Now, from: ConnRef, word: Request, handle: &mut ShardHandle<Host>) {
        let Request::Push(PushRequest::Bind(bind)) = word else { return };
        let bound = Bound {
            term: bind.term,
            device: DeviceRef::from_bits(from.bits()),
            epoch: 1,
            resumed: false,
            token: [1; 32],
            heartbeat_s: 300,
            inflight_max: 32,
            ack_ms: 10_000,
            offline_count: 0,
            server_ms: 1,
            frame_bytes_max: 65_536,
            app_id: 1,
        };
        handle.deliver(from, PushDelivery::Bound(Box::new(bound)).into());
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Host>) {}

    fn turn(&mut self, _: Now, _: &mut ShardHandle<Host>) -> Option<Instant> {
        None
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: Delivery, _: &mut ShardHandle<Host>) {}
}

fn certificate() -> Arc<TlsServer> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let off = ClientCertificates::Off;
    Arc::new(TlsServer::load(&certificate, &key, None, off).expect("it was just made"))
}

/// A server that tells layers and versions apart; it lives as long as the test's process.
fn server() -> SocketAddr {
    let door = ListenerSetup {
        tls: Some(certificate()),
        paths: vec!["/miop".into()],
        ..ListenerSetup::plain("test", ListenEndpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))))
    };
    let mut open =
        listen::open(std::slice::from_ref(&door), 1, 5_000, Vec::new()).expect("a free port");
    let mailbox = Mailbox::<ShardMessageOf<Host, OwnedFd>>::new(16).expect("an eventfd");
    let doors = open.shards.remove(0);
    let net = Epoll::new(ShardId(0), doors, Arc::new([mailbox]), load::fleet::instant());
    let settings = Settings {
        shard: ShardId(0),
        shards: 1,
        hash_key: HashKey::new(1, 2),
        limits: Arc::new(Limits::default()),
        doors: vec![Arc::new(door)],
        census: Arc::default(),
        seed: 1,
        secrets: [1; 32],
    };
    let mut shard = Shard::new(settings, net.expect("a poller"), Host);
    std::thread::Builder::new().spawn(move || shard.run()).expect("a thread");
    match open.addresses[0] {
        ListenEndpoint::Tcp(address) => address,
        ListenEndpoint::Unix(..) => unreachable!("it has a port"),
    }
}

fn check(to: SocketAddr, version: Version, encrypted: bool, web_socket: bool) {
    let product = ProductKey::parse("pk").expect("a valid key");
    let profile = Profile::new(version, product, "box");
    let mut plan = FleetPlan::new(to, 5, Arc::new(profile));
    let text = r#"{"what": "heartbeat", "pace": {"window": 1}}"#;
    plan.traffic = vec![serde_json::from_str(text).expect("traffic")];
    if encrypted {
        plan.layers.tls = Some(load::trust::towards("localhost", None).expect("TLS can be used"));
    }
    if web_socket {
        plan.layers.web_socket = Some(UpgradeTarget::open("localhost", "/miop", &proto_miop::WIRE));
    }
    let fleet = Fleet::start(plan).expect("it starts");
    let reached = fleet.wait(|s| s.online_now == 5 && s.pongs >= 500, Duration::from_secs(300));
    let seen = fleet.stop();
    assert!(reached, "{version:?} tls {encrypted} web socket {web_socket}: {seen:?}");
    assert!(seen.conserved(), "{:?}", seen.accounts());
    assert_eq!((seen.attempts, seen.bound, seen.unasked_pongs), (5, 5, 0));
}

#[test]
fn devices_come_through_every_layer() {
    let to = server();
    for (encrypted, web_socket) in [(false, false), (true, false), (false, true), (true, true)] {
        check(to, Version::V7, encrypted, web_socket);
    }
}

#[test]
fn devices_speak_every_version() {
    let to = server();
    for version in [Version::V5, Version::V6, Version::V7] {
        check(to, version, false, false);
    }
}
