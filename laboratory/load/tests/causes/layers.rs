//! TLS and WebSocket that do not open, in classes, and that end without a farewell.

use crate::one_group::{OneGroup, Seen};
use crate::sessions::GROUP;
use lab::cause::{Cause, Phase};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::net::TcpStream;
use std::sync::Arc;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyWire, Wrapper};

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

/// TLS with a certificate of its own.
fn encryption() -> Wrapper {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).expect("made");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions it has")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.expect("a key"))
        .expect("they fit");
    let config = Arc::new(config);
    Arc::new(move |stream| {
        let session = ServerConnection::new(config.clone()).expect("a good configuration");
        Box::new(Encrypted(StreamOwned::new(session, stream)))
    })
}

fn say(bytes: &[u8]) -> FateStep {
    FateStep::Say(bytes.to_vec())
}

/// Has two clients meet each fate.
fn meet(fates: Vec<(ConnectionFate, Phase, Cause)>, scheme: &str) -> Seen {
    let clients = 2 * fates.len() as u64;
    let want: Vec<_> = fates.iter().map(|(_, phase, cause)| (*phase, *cause, 2)).collect();
    let server = Faulty::start(fates.iter().map(|(fate, ..)| fate.clone()).collect());
    let url = format!("{scheme}://{}", server.address());
    let seen = OneGroup::call(&url, GROUP, clients as u32).ends(clients);
    seen.are(&want);
    for (fate, ..) in fates {
        assert!(crate::until(|| server.count(fate.name) == 2), "{}", fate.name);
    }
    seen
}

#[test]
fn tls_fails_in_classes() {
    use Phase::{Layers, Online};
    let heard =
        |name, steps: &[FateStep]| ConnectionFate::new(name, [&[FateStep::Hear], steps].concat());
    let wrap = FateStep::Wrap(encryption());
    let bound = [wrap, FateStep::Hear, say(&[0x20, 3, 0, 0, 0]), FateStep::Hear];
    let ends = |name, steps: &[FateStep]| ConnectionFate::new(name, [&bound[..], steps].concat());
    let alert = say(&[21, 3, 3, 0, 2, 2, 70]);
    let fates = vec![
        (
            heard("no TLS", &[say(b"220 mail.example\r\n"), FateStep::Close]),
            Layers,
            Cause::TlsFailed,
        ),
        (heard("alert", &[alert, FateStep::Close]), Layers, Cause::TlsAlert),
        (heard("mute", &[FateStep::Hold]), Layers, Cause::LayersTimedOut),
        (heard("clean", &[FateStep::Close]), Layers, Cause::ClosedClean),
        (heard("reset", &[FateStep::Reset]), Layers, Cause::Reset),
        (ends("farewell", &[FateStep::Farewell, FateStep::Close]), Online, Cause::ClosedClean),
        (ends("none", &[FateStep::Close]), Online, Cause::ClosedMidFrame),
    ];
    let seen = meet(fates, "mqtts");
    assert_eq!((seen.code("alert 70"), seen.code("tls not TLS")), (2, 2), "{:?}", seen.0.codes);
}

#[test]
fn a_certificate_is_not_believed() {
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).expect("made");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.pem");
    std::fs::write(&path, other.cert.pem()).expect("written");
    let fate = ConnectionFate::new(
        "shown",
        [FateStep::Wrap(encryption()), FateStep::Hear, FateStep::Close],
    );
    let server = Faulty::start(vec![fate]);
    let rest = format!(r#", "authority": "{}""#, path.display());
    let url = format!("mqtts://{}", server.address());
    let seen = OneGroup::call(&url, &rest, 4).ends(4);
    seen.are(&[(Phase::Layers, Cause::TlsCertificate, 4)]);
    let codes: u64 = seen
        .0
        .codes
        .iter()
        .filter(|(code, _)| code.starts_with("certificate"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!((codes, server.accepted()), (4, 4), "{:?}", seen.0.codes);
}

#[test]
fn upgrades_fail_with_their_status() {
    use Phase::Layers;
    let heard =
        |name, steps: &[FateStep]| ConnectionFate::new(name, [&[FateStep::Hear], steps].concat());
    let refused = |name, head: &[u8]| {
        (heard(name, &[say(head), FateStep::Close]), Layers, Cause::WebSocketRefused)
    };
    let fates = vec![
        refused("forbidden", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
        refused("broken", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        refused("no HTTP", b"\x20\x02\x00\x00\r\n\r\n"),
        (heard("half", &[say(b"HTTP/1.1 10"), FateStep::Close]), Layers, Cause::ClosedMidFrame),
        (heard("mute", &[FateStep::Hold]), Layers, Cause::LayersTimedOut),
    ];
    let clients = fates.len() as u32 * 2;
    let merged = [
        (Layers, Cause::WebSocketRefused, 6),
        (Layers, Cause::ClosedMidFrame, 2),
        (Layers, Cause::LayersTimedOut, 2),
    ];
    let server = Faulty::start(fates.into_iter().map(|(fate, ..)| fate).collect());
    let url = format!("ws://{}/mqtt", server.address());
    let seen = OneGroup::call(&url, GROUP, clients).ends(u64::from(clients));
    seen.are(&merged);
    let codes = ["upgrade 403", "upgrade 500", "upgrade without HTTP"].map(|code| seen.code(code));
    assert_eq!(codes, [2, 2, 2], "{:?}", seen.0.codes);
    assert_eq!(server.accepted(), u64::from(clients));
}
