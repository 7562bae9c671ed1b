//! Calls to a server that fails on purpose: what the shard's handle tells of each end.

use super::*;
use crate::epoll::{self, Epoll};
use crate::layer::ClientLayers;
use crate::layer::tls::ClientTls;
use crate::layer::websocket::UpgradeTarget;
use crate::logic::{ConnectionOrigin, Dial, ShardHandle, ShardLogic};
use crate::mailbox::Mailbox;
use crate::shard::{Settings, Shard, ShardMessageOf};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::close::CloseReason as R;
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::link::{Link, Protocol, WireProfile};
use model::machine::{Input, Machine, Outbox, TurnAway};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyWire, HeldPort, Wrapper};

/// Says `hello`; frames are four bytes, and must not begin with `!`.
struct Talker(u64);

impl Machine for Talker {
    type Up = ();
    type Down = ();

    fn opened(&mut self, _: Now, _: &Link, out: &mut Outbox<()>) -> Result<(), R> {
        out.bytes().extend_from_slice(b"hello");
        Ok(())
    }

    fn receive(&mut self, _: Now, input: &mut Input<'_>, _: &mut Outbox<()>) -> Result<(), R> {
        while input.rest().len() >= 4 {
            if input.take(4)[0] == b'!' {
                return Err(R::Malformed);
            }
        }
        Ok(())
    }

    fn command(&mut self, _: Now, (): (), _: &mut Outbox<()>) -> Result<(), R> {
        Ok(())
    }

    fn wake(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), R> {
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<()>) -> Result<(), R> {
        Ok(())
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<()>) {}

    fn closed(&mut self, _: Now, _: R, _: &mut Outbox<()>) {}
}

type End = (R, Detail, Reached);

/// Makes calls, gives up those that last too long, and notes how they end.
struct Caller {
    calls: Vec<Dial>,
    left: usize,
    under_way: Vec<ConnRef>,
    patience: Duration,
    connected: Vec<u64>,
    ends: BTreeMap<u64, End>,
}

impl Caller {
    fn note(&mut self, tag: u64, reason: R, handle: &mut ShardHandle<Caller>) {
        let told = self.ends.insert(tag, (reason, handle.detail(), handle.reached()));
        assert!(told.is_none(), "call {tag} ended twice");
        self.left -= 1;
        if self.left == 0 {
            handle.stop();
        }
    }
}

impl ShardLogic for Caller {
    type Machine = Talker;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &crate::wires::WIRES;

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<Talker> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        assert!(self.connected.contains(&tag), "TCP stands before the protocol begins");
        Some(Talker(tag))
    }

    fn word(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        std::mem::take(&mut self.calls).into_iter().for_each(|call| handle.dial(call));
        let deadline = Instant::default() + self.patience;
        if now.mono >= deadline {
            let late = std::mem::take(&mut self.under_way);
            late.into_iter().for_each(|conn| handle.close(conn, R::TimedOut));
            return None;
        }
        Some(deadline)
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, (): (), _: &mut ShardHandle<Self>) {}

    fn ended(&mut self, _: Now, machine: &Talker, reason: R, handle: &mut ShardHandle<Self>) {
        self.note(machine.0, reason, handle);
    }

    fn dialling(&mut self, _: Now, _: u64, conn: ConnRef) {
        self.under_way.push(conn);
    }

    fn connected(&mut self, _: Now, tag: u64) {
        self.connected.push(tag);
    }

    fn dial_failed(&mut self, _: Now, tag: u64, reason: R, handle: &mut ShardHandle<Self>) {
        self.note(tag, reason, handle);
    }
}

/// Makes the calls and waits for all their ends, in their order.
fn ends_of(calls: Vec<Dial>, patience: Duration) -> Vec<End> {
    let mailbox = Mailbox::<ShardMessageOf<Caller, OwnedFd>>::new(4).expect("an eventfd");
    let mailboxes = Arc::new([mailbox]);
    let net = Epoll::new(ShardId(0), Vec::new(), mailboxes, epoll::began()).expect("a poller");
    let settings = Settings {
        shard: ShardId(0),
        shards: 1,
        hash_key: HashKey::new(1, 2),
        limits: Arc::new(Limits::default()),
        doors: Vec::new(),
        census: Arc::default(),
        seed: 1,
        secrets: [1; 32],
    };
    let (left, under_way) = (calls.len(), Vec::new());
    let (connected, ends) = (Vec::new(), BTreeMap::new());
    let caller = Caller { calls, left, under_way, patience, connected, ends };
    let mut shard = Shard::new(settings, net, caller);
    shard.run();
    shard.logic().ends.values().copied().collect()
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(150);

fn plain() -> ClientLayers {
    ClientLayers::plain(Protocol::Miop)
}

fn call(to: SocketAddr, layers: &ClientLayers, tag: u64) -> Dial {
    Dial { to: to.into(), from: None, layers: layers.clone(), tag }
}

/// The ends of calls that meet these fates, in their order: one at a time, for it is the order of
/// coming that gives a fate.
fn meet(fates: Vec<Vec<FateStep>>, layers: &ClientLayers, patience: Duration) -> Vec<End> {
    let fates = fates.into_iter().map(|steps| {
        let server = Faulty::start(vec![ConnectionFate::new("it", steps)]);
        let end = ends_of(vec![call(server.address(), layers, 7)], patience);
        assert!(server.wait("it", 1, LONG) && server.accepted() == 1);
        end[0]
    });
    fates.collect()
}

fn say(bytes: &[u8]) -> FateStep {
    FateStep::Say(bytes.to_vec())
}

#[test]
fn calls_that_do_not_come_through_say_why() {
    let (closed, full) = (HeldPort::closed(), HeldPort::full(0));
    let stranger: IpAddr = [203, 0, 113, 9].into();
    let calls = vec![
        call(closed.address(), &plain(), 0),
        Dial { from: Some(stranger), ..call(closed.address(), &plain(), 1) },
        // Nobody can be called at the address of all: the kernel says so before a packet is sent.
        call(SocketAddr::from(([127, 255, 255, 255], 9)), &plain(), 2),
        call(full.address(), &plain(), 3),
        call(full.address(), &plain(), 4),
    ];
    let errno = |reason, errno| (reason, Detail::Errno(errno), Reached::Connect);
    let want = [
        errno(R::ConnectRefused, Errno::CONNREFUSED),
        errno(R::LocalLimit, Errno::ADDRNOTAVAIL),
        errno(R::ConnectFailed, Errno::NETUNREACH),
        (R::TimedOut, Detail::Nothing, Reached::Protocol),
        (R::TimedOut, Detail::Nothing, Reached::Connect),
    ];
    assert_eq!(ends_of(calls, SHORT), want);
}

#[test]
fn plain_connections_end_clean_inside_a_frame_or_reset() {
    let fates = vec![
        vec![FateStep::Hear, FateStep::Close],
        vec![FateStep::Hear, say(b"whole!"), FateStep::Close],
        vec![FateStep::Hear, FateStep::Reset],
        vec![FateStep::Reset],
        vec![FateStep::Hear, say(b"!lie"), FateStep::Close],
    ];
    let reset = (R::PeerReset, Detail::Errno(Errno::CONNRESET), Reached::Protocol);
    let want = [
        (R::PeerClosed, Detail::Nothing, Reached::Protocol),
        (R::PeerClosedMidFrame, Detail::Truncated, Reached::Protocol),
        reset,
        reset,
        (R::Malformed, Detail::Nothing, Reached::Protocol),
    ];
    assert_eq!(meet(fates, &plain(), LONG), want);
}

#[test]
fn an_upgrade_is_refused_with_a_status() {
    let web_socket = Some(UpgradeTarget::open("localhost", "/miop", &crate::wires::WIRES[0]));
    let layers = ClientLayers { web_socket, ..plain() };
    let fates = vec![
        vec![FateStep::Hear, say(b"HTTP/1.1 403 Forbidden\r\n\r\n"), FateStep::Close],
        vec![FateStep::Hear, say(b"HTTP/1.1 101 Of course\r\n\r\n"), FateStep::Close],
        vec![FateStep::Hear, say(b"\0\x07\x01\x02 no HTTP"), FateStep::Close],
        vec![FateStep::Hear, say(b"HTTP/1.1 10"), FateStep::Close],
        vec![FateStep::Hear, FateStep::Close],
    ];
    let refused = |status| (R::WebSocketFailed, Detail::Upgrade(status), Reached::Layers);
    let want = [
        refused(403),
        refused(101),
        refused(0),
        (R::PeerClosed, Detail::Truncated, Reached::Layers),
        (R::PeerClosed, Detail::Nothing, Reached::Layers),
    ];
    assert_eq!(meet(fates, &layers, LONG), want);
    let silent = vec![vec![FateStep::Hear, FateStep::Hold]];
    let late = (R::TimedOut, Detail::Nothing, Reached::Layers);
    assert_eq!(meet(silent, &layers, SHORT), [late]);
}

struct Encrypted(StreamOwned<ServerConnection, TcpStream>);

impl std::io::Read for Encrypted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(into)
    }
}

impl std::io::Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl FaultyWire for Encrypted {
    fn socket(&self) -> &TcpStream {
        &self.0.sock
    }

    fn farewell(&mut self) {
        self.0.conn.send_close_notify();
        // Whoever it is for may be gone.
        let _ = self.0.conn.write_tls(&mut self.0.sock);
    }
}

/// A server's TLS with a certificate of its own, and callers who believe it or do not.
fn encryption() -> (Wrapper, [ClientLayers; 2]) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("made");
    let key = rcgen::KeyPair::generate().expect("made");
    let mut other = rcgen::CertificateParams::new(vec!["localhost".into()]).expect("a name");
    other.distinguished_name.push(rcgen::DnType::CommonName, "another");
    let other = other.self_signed(&key).expect("made");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions it has")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.expect("a key"))
        .expect("they fit");
    let config = Arc::new(config);
    let wrap = move |stream: TcpStream| -> Box<dyn FaultyWire> {
        let session = ServerConnection::new(config.clone()).expect("a good configuration");
        Box::new(Encrypted(StreamOwned::new(session, stream)))
    };
    let layers = [made.cert, other].map(|authority| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("versions it has")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let tls = Some(Arc::new(ClientTls::new(Arc::new(config), name)));
        ClientLayers { tls, ..plain() }
    });
    (Arc::new(wrap), layers)
}

#[test]
fn tls_fails_in_classes() {
    let (wrap, [believer, doubter]) = encryption();
    let alert = [21, 3, 3, 0, 2, 2, 40];
    let fates = vec![
        vec![FateStep::Hear, say(b"220 mail.example ESMTP\r\n"), FateStep::Close],
        vec![FateStep::Hear, say(&alert), FateStep::Close],
        vec![FateStep::Hear, say(&alert[..4]), FateStep::Close],
        vec![FateStep::Hear, FateStep::Close],
        vec![FateStep::Hear, FateStep::Reset],
    ];
    let want = [
        (R::TlsFailed, Detail::Tls("not TLS"), Reached::Layers),
        (R::TlsFailed, Detail::Alert(40), Reached::Layers),
        (R::PeerClosed, Detail::Truncated, Reached::Layers),
        (R::PeerClosed, Detail::Nothing, Reached::Layers),
        (R::PeerReset, Detail::Errno(Errno::CONNRESET), Reached::Layers),
    ];
    assert_eq!(meet(fates, &believer, LONG), want);
    let serve = vec![vec![FateStep::Wrap(wrap.clone()), FateStep::Hear]];
    let unknown = (R::TlsFailed, Detail::Certificate("unknown issuer"), Reached::Layers);
    assert_eq!(meet(serve, &doubter, LONG), [unknown]);
    let fates = vec![
        vec![FateStep::Wrap(wrap.clone()), FateStep::Hear, FateStep::Farewell, FateStep::Close],
        vec![FateStep::Wrap(wrap.clone()), FateStep::Hear, FateStep::Close],
        vec![
            FateStep::Wrap(wrap),
            FateStep::Hear,
            say(b"whole!"),
            FateStep::Farewell,
            FateStep::Close,
        ],
    ];
    let ended = |detail| (R::PeerClosed, detail, Reached::Protocol);
    let want = [ended(Detail::Nothing), ended(Detail::Truncated), ended(Detail::Truncated)];
    assert_eq!(meet(fates, &believer, LONG), want);
}
