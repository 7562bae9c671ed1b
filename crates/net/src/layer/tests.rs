//! What stands before a protocol, split at every byte.

use super::*;

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_883))
}

const CONNECT: &[u8] = &[0x10, 0x0d, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 1, b'x'];

fn door(protocol: Option<Protocol>, paths: &[&str]) -> Arc<Door> {
    Arc::new(Door {
        name: "test".to_owned(),
        address: Address::Tcp(here()),
        protocol,
        tls: None,
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        origins: Vec::new(),
        proxy: false,
        connections_max: 0,
        open: Arc::default(),
    })
}

/// What comes out of `door` when `bytes` come in, so many at a time.
fn through(
    door: &Arc<Door>,
    bytes: &[u8],
    step: usize,
) -> Result<(Protocol, Vec<u8>), CloseReason> {
    let mut layers = Layers::accepted(door.clone(), here(), false);
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
    let request = websocket::request("h", path, Protocol::Mqtt);
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
    let refused = |door: &Arc<Door>, bytes: &[u8]| through(door, bytes, 1).err();
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

fn miop_door() -> Arc<Door> {
    door(Some(Protocol::Miop), &[])
}

#[test]
fn a_proxy_header_gives_the_address_of_a_client_of_mqtt() {
    let door = Door { proxy: true, ..(*door(Some(Protocol::Mqtt), &[])).clone() };
    let mut layers = Layers::accepted(Arc::new(door), here(), false);
    let bytes = [b"PROXY TCP4 10.1.2.3 10.0.0.1 4242 1883\r\n", CONNECT].concat();
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    assert_eq!(layers.receive(&bytes, &mut inner, &mut outer), Ok(Flow::Open));
    let link = layers.take_link().expect("it is open");
    assert_eq!((link.peer.to_string().as_str(), link.protocol), ("10.1.2.3:4242", Protocol::Mqtt));
    assert_eq!(inner, CONNECT);
}
