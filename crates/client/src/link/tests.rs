//! Links through every layer, to a listener of this process that says again what it hears.

use super::*;
use crate::{CertificateCheck, Trust};
use model::link::Protocol;
use net::layer::tls::{ClientCertificates, TlsServer};
use net::layer::{ListenEndpoint, ListenerSetup};
use std::net::TcpListener;
use std::thread::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(300);

/// A listener, and what became of its one connection.
struct Echo {
    port: u16,
    trust: Trust,
    ended: JoinHandle<Detail>,
    _folder: tempfile::TempDir,
}

impl Echo {
    /// One that is served in WebSockets at `/mqtt`, in TLS or without.
    fn start() -> Echo {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let made = made.expect("a certificate");
        let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
        std::fs::write(&cert, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let at = listener.local_addr().expect("an address");
        let tls = TlsServer::load(&cert, &key, None, ClientCertificates::Off);
        let setup = ListenerSetup {
            protocol: Some(Protocol::Mqtt),
            tls: Some(Arc::new(tls.expect("it was just made"))),
            paths: vec!["/mqtt".to_owned()],
            ..ListenerSetup::plain("echo", ListenEndpoint::Tcp(at))
        };
        let serve = move || {
            let (stream, peer) = listener.accept().expect("a connection");
            echo(stream, Layers::accepted(Arc::new(setup), &[proto_mqtt::WIRE], peer, false))
        };
        let ended = std::thread::Builder::new().spawn(serve).expect("a thread");
        let trust = Trust { ca_file: Some(cert), ..Trust::default() };
        Echo { port: at.port(), trust, ended, _folder: folder }
    }

    fn open(&self, tls: bool, path: Option<&str>) -> Result<Link, ConnectError> {
        let mut address = BrokerAddress::tcp("localhost", self.port);
        (address.tls, address.web_socket) = (tls, path.map(str::to_owned));
        let config = self.trust.config().expect("good files");
        Link::open(&address, Some(&config), None, clock::now().after(PATIENCE))
    }
}

/// Serves a connection to its end: what is known of how its layers failed.
fn echo(mut stream: TcpStream, mut layers: Layers) -> Detail {
    let mut buffer = [0; 1_000];
    loop {
        let count = stream.read(&mut buffer).unwrap_or(0);
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let flow = layers.receive(&buffer[..count], &mut inner, &mut outer);
        if flow == Ok(Flow::Open) {
            layers.take_link();
        }
        if !inner.is_empty() {
            layers.wrap(&inner, &mut outer).expect("open layers");
        }
        let written = stream.write_all(&outer);
        if count == 0 || written.is_err() || !matches!(flow, Ok(Flow::Opening | Flow::Open)) {
            return layers.detail();
        }
    }
}

#[test]
fn bytes_come_back_through_every_layer() {
    for (tls, path) in [(false, None), (true, None), (false, Some("/mqtt")), (true, Some("/mqtt"))]
    {
        let listener = Echo::start();
        let mut link = listener.open(tls, path).unwrap_or_else(|error| panic!("{error}"));
        let said: Vec<u8> = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
        // The broker's first bytes say what it speaks, so ours begin like a CONNECT.
        let said =
            [&[0x10, 0x0d, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 1, b'x'], &said[..]];
        let said = said.concat();
        link.send(&said).expect("an open link");
        while link.inbox.len() < said.len() {
            assert!(link.wait(PATIENCE), "tls {tls}, path {path:?}");
            link.flush().and_then(|()| link.receive()).expect("an open link");
        }
        assert!(link.inbox == said, "tls {tls}, path {path:?}");
        link.close();
        assert_eq!(listener.ended.join().expect("it served"), Detail::Nothing);
    }
}

#[test]
fn a_certificate_that_is_not_believed_is_told_by_an_alert() {
    let (listener, other) = (Echo::start(), Echo::start());
    let stranger = Echo { trust: other.trust.clone(), ..listener };
    let error = stranger.open(true, None).err().expect("another authority");
    assert_eq!(error.what, ConnectErrorKind::Tls);
    assert!(error.text.contains("TLS handshake failed: invalid peer certificate"), "{error}");
    let heard = stranger.ended.join().expect("it served");
    assert!(matches!(heard, Detail::Alert(_)), "{heard:?}");
    let check = CertificateCheck::Nothing;
    let careless = Echo { trust: Trust { check, ..Trust::default() }, ..other };
    assert!(careless.open(true, None).is_ok());
}

#[test]
fn an_upgrade_that_is_refused_is_told_with_its_status() {
    let error = Echo::start().open(false, Some("/elsewhere")).err().expect("there is no such path");
    assert_eq!(error.what, ConnectErrorKind::WebSocket);
    assert!(error.text.contains("the broker answered `404`. Check the path"), "{error}");
}
