//! Layers before a protocol, with input split at every byte.

use super::*;
use crate::wires::WIRES;

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_883))
}

const CONNECT: &[u8] = &[0x10, 0x0d, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 1, b'x'];

fn door(protocol: Option<Protocol>, paths: &[&str]) -> Arc<ListenerSetup> {
    Arc::new(ListenerSetup {
        protocol,
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        ..ListenerSetup::plain("test", ListenEndpoint::Tcp(here()))
    })
}

/// Output of `door` for these bytes, which come so many at a time.
fn through(
    door: &Arc<ListenerSetup>,
    bytes: &[u8],
    step: usize,
) -> Result<(Protocol, Vec<u8>), CloseReason> {
    let mut layers = Layers::accepted(door.clone(), &WIRES, here(), false);
    let (mut got, mut link) = (Vec::new(), None);
    for part in bytes.chunks(step) {
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        if layers.receive(part, &mut inner, &mut outer)? == Flow::Open && link.is_none() {
            link = layers.take_link();
        }
        got.extend(inner);
    }
    Ok((link.map_or(Protocol::Http, |link| link.protocol), got))
}

fn upgrade(path: &str, subprotocol: Option<&str>) -> Vec<u8> {
    let request = websocket::UpgradeTarget::open("h", path, &WIRES[1]).request();
    let ours = "Sec-WebSocket-Protocol: mqtt\r\n";
    let theirs = subprotocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
    request.replace(ours, &theirs.unwrap_or_default()).into_bytes()
}

fn in_frames(bytes: &[u8], each: usize) -> Vec<u8> {
    let (mut client, mut wire) = (WebSocket::client(), Vec::new());
    bytes.chunks(each).for_each(|part| client.wrap(part, &mut wire));
    wire
}

#[test]
fn a_connect_is_told_from_what_it_comes_in() {
    for protocol in [None, Some(Protocol::Mqtt)] {
        let door = door(protocol, &["/mqtt"]);
        let plain = CONNECT.to_vec();
        let named = [upgrade("/mqtt", Some("mqtt")), in_frames(CONNECT, 4)].concat();
        let older = [upgrade("/mqtt", Some("mqttv3.1")), in_frames(CONNECT, 99)].concat();
        let silent = [upgrade("/mqtt", None), in_frames(CONNECT, 1)].concat();
        for bytes in [plain, named, older, silent] {
            for step in [1, 2, 7, bytes.len()] {
                let (found, got) = through(&door, &bytes, step).expect("it is served");
                assert_eq!((found, &got[..]), (Protocol::Mqtt, CONNECT), "{step} at a time");
            }
        }
    }
}

#[test]
fn a_listener_of_one_protocol_takes_no_other() {
    let mqtt = door(Some(Protocol::Mqtt), &["/mqtt"]);
    let refused = |door: &Arc<ListenerSetup>, bytes: &[u8]| through(door, bytes, 1).err();
    assert_eq!(refused(&mqtt, &[0, 7, 0, 2]), Some(CloseReason::ProtocolNotServed));
    let miop = [upgrade("/mqtt", None), in_frames(&[0, 7, 0, 2], 9)].concat();
    assert_eq!(refused(&mqtt, &miop), Some(CloseReason::ProtocolNotServed));
    let named = upgrade("/mqtt", Some("miop"));
    assert_eq!(refused(&mqtt, &named), Some(CloseReason::WebSocketFailed));
    let plain = door(Some(Protocol::Mqtt), &[]);
    assert_eq!(refused(&plain, &upgrade("/mqtt", None)), Some(CloseReason::ProtocolNotServed));
    let http = door(Some(Protocol::Http), &["/mqtt"]);
    assert_eq!(refused(&http, CONNECT), Some(CloseReason::ProtocolNotServed));
    assert_eq!(refused(&miop_door(), CONNECT), Some(CloseReason::ProtocolNotServed));
    assert_eq!(refused(&mqtt, &[0x20, 0]), Some(CloseReason::UnknownProtocol));
}

fn miop_door() -> Arc<ListenerSetup> {
    door(Some(Protocol::Miop), &[])
}

#[test]
fn a_proxy_header_gives_the_address_of_a_client_of_mqtt() {
    let mut layers = Layers::accepted(behind(&["127.0.0.1"]), &WIRES, here(), false);
    let bytes = [b"PROXY TCP4 10.1.2.3 10.0.0.1 4242 1883\r\n", CONNECT].concat();
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    assert_eq!(layers.receive(&bytes, &mut inner, &mut outer), Ok(Flow::Open));
    let link = layers.take_link().expect("it is open");
    assert_eq!((link.peer.to_string().as_str(), link.protocol), ("10.1.2.3:4242", Protocol::Mqtt));
    assert_eq!(inner, CONNECT);
}

/// A listener of MQTT that believes these.
fn behind(proxies: &[&str]) -> Arc<ListenerSetup> {
    let proxies = proxies.iter().map(|text| text.parse().expect("a network")).collect();
    Arc::new(ListenerSetup { proxy: true, proxies, ..(*door(Some(Protocol::Mqtt), &[])).clone() })
}

#[test]
fn nobody_behind_a_proxy_is_of_this_machine() {
    for header in [
        "PROXY TCP4 127.0.0.1 10.0.0.1 4242 1883\r\n",
        "PROXY TCP6 ::1 ::1 4242 1883\r\n",
        "PROXY UNKNOWN\r\n",
    ] {
        let mut layers = Layers::accepted(behind(&["127.0.0.0/8"]), &WIRES, here(), false);
        let bytes = [header.as_bytes(), CONNECT].concat();
        let opened = layers.receive(&bytes, &mut Vec::new(), &mut Vec::new());
        assert_eq!(opened, Ok(Flow::Open), "{header}");
        assert!(!layers.take_link().expect("it is open").near, "{header}");
    }
    let mut layers = Layers::accepted(door(None, &[]), &WIRES, here(), false);
    assert_eq!(layers.receive(CONNECT, &mut Vec::new(), &mut Vec::new()), Ok(Flow::Open));
    assert!(layers.take_link().expect("it is open").near, "its socket says so");
}

#[test]
fn a_header_from_elsewhere_is_not_even_read() {
    for proxies in [&[][..], &["10.0.0.0/8"]] {
        let mut layers = Layers::accepted(behind(proxies), &WIRES, here(), false);
        let begun = layers.receive(b"P", &mut Vec::new(), &mut Vec::new());
        assert_eq!(begun, Err(CloseReason::ProxyRefused));
    }
    let file = ListenerSetup {
        address: ListenEndpoint::Unix("/run/x".into(), 0o600),
        proxies: Vec::new(),
        ..(*behind(&[])).clone()
    };
    let mut layers = Layers::accepted(Arc::new(file), &WIRES, here(), false);
    assert_eq!(layers.receive(b"P", &mut Vec::new(), &mut Vec::new()), Ok(Flow::Opening));
}

#[test]
fn nothing_comes_plain_where_all_must_come_in_tls() {
    let paths = ["/mqtt"];
    for protocol in [None, Some(Protocol::Mqtt), Some(Protocol::Miop), Some(Protocol::Http)] {
        let door = Arc::new(ListenerSetup { tls_only: true, ..(*door(protocol, &paths)).clone() });
        let plain = [CONNECT.to_vec(), vec![0, 7, 0, 2], upgrade("/mqtt", Some("mqtt"))];
        for bytes in plain {
            let refused = through(&door, &bytes, 1).err();
            assert_eq!(refused, Some(CloseReason::TlsFailed), "{protocol:?} {bytes:?}");
        }
    }
}

#[test]
fn a_page_of_another_site_is_told_so_and_ends() {
    let door = door(None, &["/mqtt"]);
    let request = String::from_utf8(upgrade("/mqtt", None)).expect("a request");
    let request = request.replace("Host: h", "Host: h\r\nOrigin: https://evil.example");
    let mut layers = Layers::accepted(door, &WIRES, here(), false);
    let mut outer = Vec::new();
    let answered = layers.receive(request.as_bytes(), &mut Vec::new(), &mut outer);
    assert_eq!(answered, Err(CloseReason::OriginRefused));
    assert!(outer.starts_with(b"HTTP/1.1 403 "));
}

#[test]
fn a_file_is_given_however_the_request_is_split_and_the_upgrade_goes_on_beside_it() {
    let file = files::StaticFile::new("/mqtt", "text/html", b"<p>here");
    let plain = door(Some(Protocol::Mqtt), &["/mqtt"]);
    let door = Arc::new(ListenerSetup { files: [file].into(), ..(*plain).clone() });
    let request = b"GET /mqtt?a=1 HTTP/1.1\r\nHost: h\r\n\r\n";
    for step in [1, 3, request.len()] {
        let mut layers = Layers::accepted(door.clone(), &WIRES, here(), false);
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let behind = [&request[..], b"GET /mqtt HTTP/1.1\r\n\r\nmore"].concat();
        for part in behind.chunks(step) {
            let flow = layers.receive(part, &mut inner, &mut outer);
            assert_eq!(flow, Ok(Flow::Opening), "it is the browser that closes");
        }
        let said = String::from_utf8(outer).expect("text");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("<p>here"), "{said}");
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "one connection is one file");
        assert!(inner.is_empty() && layers.has_begun() && !layers.is_truncated());
        assert_eq!(layers.pieces().0, 0, "nothing is kept of what comes behind it");
        assert_eq!((layers.given_file(), layers.speaks_http()), (Some("/mqtt"), true));
    }
    let bytes = [upgrade("/mqtt", Some("mqtt")), in_frames(CONNECT, 4)].concat();
    assert_eq!(through(&door, &bytes, 2), Ok((Protocol::Mqtt, CONNECT.to_vec())));
    let mut layers = Layers::accepted(door, &WIRES, here(), false);
    let (request, mut outer) = (b"GET /else HTTP/1.1\r\nHost: h\r\n\r\n", Vec::new());
    let refused = layers.receive(request, &mut Vec::new(), &mut outer);
    assert_eq!(refused, Err(CloseReason::WebSocketFailed));
    assert!(outer.starts_with(b"HTTP/1.1 404 "));
    assert_eq!((layers.given_file(), layers.speaks_http()), (None, true));
}
