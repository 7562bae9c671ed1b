//! The device's machine alone: what it must not take, and nonces that are never made twice.

use super::*;
use base::hash::HashKey;
use model::id::ProductKey;
use model::limits::Limits;
use model::link::Protocol;
use testkit::vector;

const BAD: &str = include_str!("../../vectors/1-malformed.txt");

fn client(version: Version) -> Client {
    let product = ProductKey::parse("p").expect("a name");
    let mut profile = Profile::new(version, product, "d");
    profile.prove = Prove::Secret { key_id: 1, bytes: b"secret".as_slice().into() };
    Client::new(Arc::new(profile), 1)
}

fn hear(client: &mut Client, bytes: &[u8], out: &mut Out) -> Result<(), CloseReason> {
    hear_under(&Limits::default(), client, bytes, out)
}

fn hear_under(
    limits: &Limits,
    client: &mut Client,
    bytes: &[u8],
    out: &mut Out,
) -> Result<(), CloseReason> {
    let link = Link::loopback(Protocol::Miop);
    client.receive(Now::default(), &mut Input::new(bytes, &link, limits), out)
}

#[test]
fn what_a_server_must_not_send_ends_the_connection() {
    let mut tried = 0;
    for vector in vector::read(BAD) {
        let fault = match (vector.text("device"), vector.need("expect").strip_prefix("error ")) {
            (Some(fault), _) => fault,
            (None, Some(fault)) if vector.text("side") == Some("device") => fault,
            _ => continue,
        };
        let bytes = vector.bytes("bytes");
        let version = Version::sniff(&bytes).expect("a version").expect("a version");
        let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
        let mut limits = Limits::default();
        if let Some(limit) = vector.text("limit") {
            limits.frame_bytes_max = limit.parse().expect("a number");
        }
        let seen = hear_under(&limits, &mut client(version), &bytes, &mut out);
        let fault = FrameFault::ALL.iter().find(|f| f.name() == fault).expect("a fault's name");
        assert_eq!(seen, Err(fault.close_reason()), "{}", vector.name);
        tried += 1;
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn every_bind_has_its_own_nonce() {
    let mut seen = std::collections::BTreeSet::new();
    let mut device = client(Version::V7);
    let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
    for _ in 0..3 {
        device.opened(Now::default(), &Link::loopback(Protocol::Miop), &mut out).expect("binds");
        let bytes = std::mem::take(out.bytes());
        let (frame, _) = crate::codec::frame::parse(&bytes, 4_096).expect("ours").expect("whole");
        seen.insert(frame.props.client_nonce.expect("signed Binds have one"));
        device.closed(Now::default(), CloseReason::PeerReset, &mut out);
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn an_unbound_device_does_nothing_it_is_told() {
    let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
    for action in [Action::Ping, Action::Pull(1), Action::Unbind, Action::Report([].into())] {
        client(Version::V7).command(Now::default(), action, &mut out).expect("nothing happens");
        assert!(out.is_empty());
    }
}

#[test]
fn a_version_7_error_before_the_bind_is_a_refusal() {
    let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
    let mut device = client(Version::V7);
    let error = [0, 7, 1, 17, 0, 0, 0, 4, 3, 15, 1, 44];
    hear(&mut device, &error, &mut out).expect("the server closes");
    let words: Vec<_> = out.words().collect();
    assert_eq!(words, [Observation::Refused { code: 44, retry_after_ms: 0 }]);
}
