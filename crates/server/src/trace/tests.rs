//! Traces of all protocols: what they show, what they redact, and their limits.

mod follow;
mod limits;

use super::decode::{Decoded, FrameMemory};
use super::seen::WireKind;
use base64_of::base64;
use model::ports::trace::{TraceDirection, TraceValue};
use proto_im::codec::client_frame::{ClientFrame, LoginFields, SendFields};
use proto_im::codec::content::ContentFields;
use proto_im::codec::server_frame::{LoggedInFields, ServerFrame};
use proto_miop::codec::classic::{self, ClassicOpcode};
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::PushRecord;
use proto_mqtt::codec::auth::Auth;
use proto_mqtt::codec::block::Block;
use proto_mqtt::codec::connack::Connack;
use proto_mqtt::codec::connect::Connect;
use proto_mqtt::codec::property::{Property, VarInt};
use proto_mqtt::codec::publish::Publish;
use proto_mqtt::codec::subscribe::{Subscribe, SubscribeOptions, Subscriptions, push_subscription};
use proto_mqtt::codec::{Packet, Qos, ReasonCode, Sender, Terms, Version};

/// Base64, which only tests need here.
mod base64_of {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    pub fn base64(bytes: &[u8]) -> String {
        let group = |group: &[u8]| {
            let of = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = of(0) << 16 | of(1) << 8 | of(2);
            let letter = |at: usize| match at <= group.len() {
                true => LETTERS[(bits >> (18 - 6 * at) & 63) as usize] as char,
                false => '=',
            };
            [letter(0), letter(1), letter(2), letter(3)]
        };
        bytes.chunks(3).flat_map(group).collect()
    }
}

use TraceDirection::{In, Out};

/// A secret of 32 bytes, as long as a MAC is.
const SECRET: &[u8; 32] = b"correct-horse-battery-staple-42!";

/// Everything that is told of a frame.
fn all_of(decoded: &Decoded<'_>) -> String {
    let payload = decoded.payload.as_deref().unwrap_or_default();
    let payload = String::from_utf8_lossy(payload);
    format!("{} {:?} {payload}", decoded.kind, decoded.fields)
}

fn mqtt(packet: &Packet<'_>, sender: Sender, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.write(sender, &Terms::of(version), &mut bytes).expect("it can be written");
    bytes
}

/// Frames with the secret in every place where one belongs.
fn secrets() -> Vec<(WireKind, TraceDirection, Vec<u8>)> {
    let text = std::str::from_utf8(SECRET).expect("it is text");
    let auth = [Property::AuthMethod("SCRAM-SHA-256"), Property::AuthData(SECRET)];
    let auth = Block::of(&auth).expect("it fits");
    let v5 = WireKind::Mqtt(Some(Version::V5));
    let mut found = Vec::new();
    for version in Version::ALL {
        let user_name = Some("tills");
        let mut connect =
            Connect { user_name, password: Some(SECRET), ..Connect::of(version, "till-7") };
        if version == Version::V5 {
            connect.properties = auth.properties();
        }
        let packet = Packet::Connect(Box::new(connect));
        found.push((WireKind::Mqtt(None), In, mqtt(&packet, Sender::Client, version)));
    }
    let reason = ReasonCode::ContinueAuthentication;
    let packet = Packet::Auth(Auth { reason, properties: auth.properties() });
    found.push((v5, In, mqtt(&packet, Sender::Client, Version::V5)));
    let connack = Connack {
        session_present: false,
        reason: ReasonCode::Success,
        properties: auth.properties(),
    };
    found.push((v5, Out, mqtt(&Packet::Connack(connack), Sender::Server, Version::V5)));
    let own = Block::of(&[Property::UserProperty(("authorization", text))]).expect("it fits");
    let publish = Publish {
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        topic: "t",
        id: 0,
        properties: own.properties(),
        payload: b"p",
    };
    found.push((v5, In, mqtt(&Packet::Publish(publish), Sender::Client, Version::V5)));
    found.extend(secrets_of_miop(text));
    found.extend(secrets_of_im());
    found.extend(secrets_of_xmpp(text));
    found
}

fn secrets_of_miop(text: &str) -> Vec<(WireKind, TraceDirection, Vec<u8>)> {
    let props = Props {
        device_id: Some(b"lamp"),
        mac: Some(*SECRET),
        token: Some(SECRET),
        resume_token: Some(*SECRET),
        ..Props::default()
    };
    let mut found = Vec::new();
    for (opcode, direction) in [(Opcode::Bind, In), (Opcode::Auth, In), (Opcode::BindAck, Out)] {
        let mut bytes = Vec::new();
        Frame::new(opcode, props.clone()).write(&mut bytes);
        found.push((WireKind::Miop, direction, bytes));
    }
    for version in [proto_miop::codec::Version::V5, proto_miop::codec::Version::V6] {
        let lines = format!("u:lamp@demo\nt:60\nsign:{text}\ntoken:{text}\nother:{text}");
        let mut bytes = Vec::new();
        classic::write_props(version, ClassicOpcode::Bind, lines.as_bytes(), &mut bytes);
        found.push((WireKind::Miop, In, bytes));
    }
    found
}

fn secrets_of_im() -> Vec<(WireKind, TraceDirection, Vec<u8>)> {
    let login = LoginFields {
        name: "ann",
        device: "phone",
        password: SECRET,
        method: "SCRAM-SHA-256",
        data: SECRET,
        ..LoginFields::default()
    };
    let mut found = Vec::new();
    for frame in [ClientFrame::Login(login), ClientFrame::Proceed(SECRET)] {
        let mut bytes = proto_im::codec::frame::PREFACE.to_vec();
        frame.write(&mut bytes);
        found.push((WireKind::Im, In, bytes));
    }
    let logged_in = LoggedInFields { account: "ann@a", data: SECRET, ..LoggedInFields::default() };
    for frame in [ServerFrame::LoggedIn(logged_in), ServerFrame::Challenge(SECRET)] {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        found.push((WireKind::Im, Out, bytes));
    }
    found
}

fn secrets_of_xmpp(text: &str) -> Vec<(WireKind, TraceDirection, Vec<u8>)> {
    let sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'";
    let told = base64(format!("\0ann\0{text}").as_bytes());
    let told_alone = base64(text.as_bytes());
    let sent = [
        (In, format!("<auth {sasl} mechanism='PLAIN'>{told}</auth>")),
        (In, format!("<response {sasl}>{told_alone}</response>")),
        (Out, format!("<challenge {sasl}>{told_alone}</challenge>")),
        (Out, format!("<success {sasl}>{told_alone}</success>")),
        (
            In,
            format!(
                "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>{told}\
             </initial-response></authenticate>"
            ),
        ),
        (
            In,
            format!(
                "<iq type='set' id='1'><query xmlns='jabber:iq:auth'><username>ann</username>\
             <password>{text}</password></query></iq>"
            ),
        ),
        (Out, format!("<enabled xmlns='urn:xmpp:sm:3' resume='true' id='{text}'/>")),
        (In, format!("<resume xmlns='urn:xmpp:sm:3' h='1' previd='{text}'/>")),
    ];
    sent.into_iter().map(|(way, xml)| (WireKind::Xmpp, way, xml.into_bytes())).collect()
}

#[test]
fn no_secret_is_in_what_is_told_of_any_frame_of_any_protocol() {
    let text = std::str::from_utf8(SECRET).expect("it is text");
    // Base64 of a part of a text depends on where that begins: three ways.
    let shifted = (0..3).map(|front| {
        let padded = [&vec![b'x'; front][..], SECRET].concat();
        let whole = base64(&padded);
        whole[4..whole.len() - 4].to_owned()
    });
    let forms: Vec<String> = shifted
        .chain([text.to_owned(), base::hex::encode(SECRET), format!("{SECRET:?}")])
        .collect();
    let (mut frames, mut redacted) = (0, 0);
    for (wire, direction, bytes) in secrets() {
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        let has_secret = forms.iter().any(|form| whole.contains(form.as_str()));
        assert!(has_secret, "the test is about a secret: {whole}");
        let mut memory = FrameMemory::default();
        for decoded in memory.read(wire, direction, &bytes) {
            let told = all_of(&decoded);
            assert_ne!(decoded.kind, "undecoded", "{wire:?}: {told}");
            for form in &forms {
                assert!(!told.contains(form.as_str()), "{wire:?}: {told}");
            }
            let is_secret =
                |(_, value): &&(_, TraceValue)| matches!(value, TraceValue::Redacted(_));
            redacted += decoded.fields.iter().filter(is_secret).count();
            frames += 1;
        }
        // What cannot be read is not shown at all.
        let cut = &bytes[..bytes.len() - 1];
        for decoded in FrameMemory::default().read(wire, direction, cut) {
            let told = all_of(&decoded);
            assert!(forms.iter().all(|form| !told.contains(form.as_str())), "{told}");
        }
    }
    assert!(frames >= 23 && redacted >= 15, "{frames} frames, {redacted} redacted");
}

fn fields(decoded: &Decoded<'_>) -> String {
    let told = decoded.fields.iter().map(|(name, value)| match value {
        TraceValue::Number(number) => format!("{name}={number}"),
        TraceValue::Flag(flag) => format!("{name}={flag}"),
        TraceValue::Text(text) => format!("{name}={text}"),
        TraceValue::List(all) => format!("{name}=[{}]", all.join("; ")),
        TraceValue::Redacted(bytes) => format!("{name}=({bytes})"),
    });
    format!("{}: {}", decoded.kind, told.collect::<Vec<_>>().join(" "))
}

#[test]
fn packets_of_mqtt_are_told_by_what_they_say() {
    let mut memory = FrameMemory::default();
    let wire = WireKind::Mqtt(None);
    let limits = Block::of(&[Property::ReceiveMaximum(7)]).expect("it fits");
    let connect = Connect {
        keep_alive_s: 60,
        properties: limits.properties(),
        ..Connect::of(Version::V5, "till-7")
    };
    let mut bytes = mqtt(&Packet::Connect(Box::new(connect)), Sender::Client, Version::V5);
    let mut list = Vec::new();
    let options = SubscribeOptions { no_local: true, ..SubscribeOptions::of(Qos::AtLeastOnce) };
    push_subscription("a/#", options, &mut list).expect("it fits");
    let named = Block::of(&[Property::SubscriptionId(VarInt(5))]).expect("it fits");
    let subscriptions = Subscriptions::over(&list);
    let subscribe = Subscribe { id: 9, properties: named.properties(), subscriptions };
    bytes.extend(mqtt(&Packet::Subscribe(subscribe), Sender::Client, Version::V5));
    bytes.extend(mqtt(&Packet::Pingreq, Sender::Client, Version::V5));
    let told: Vec<String> = memory.read(wire, In, &bytes).iter().map(fields).collect();
    assert_eq!(
        told,
        [
            "CONNECT: version=mqtt5 client_id=till-7 clean_start=true keep_alive_s=60 \
             properties=[receive_maximum=7]",
            "SUBSCRIBE: packet_id=9 filters=[a/# qos=1 no_local] properties=[subscription_id=5]",
            "PINGREQ: ",
        ]
    );
    assert_eq!(memory.protocol(wire), "mqtt5", "its CONNECT said so");
    // An alias stands for the topic that came with it.
    let alias = Block::of(&[Property::TopicAlias(3)]).expect("it fits");
    for (topic, payload) in [("a/b", &b"first"[..]), ("", b"second")] {
        let publish = Publish {
            dup: false,
            qos: Qos::AtLeastOnce,
            retain: true,
            topic,
            id: 4,
            properties: alias.properties(),
            payload,
        };
        let bytes = mqtt(&Packet::Publish(publish), Sender::Client, Version::V5);
        let told = memory.read(wire, In, &bytes);
        assert_eq!(
            fields(&told[0]),
            "PUBLISH: topic=a/b qos=1 retain=true dup=false packet_id=4 \
             properties=[topic_alias=3]"
        );
        assert_eq!(told[0].payload.as_deref(), Some(payload));
        assert_eq!(told[0].bytes, bytes.len());
    }
    let told = memory.read(wire, In, &[0xf0, 0x80]);
    assert_eq!(told[0].kind, "undecoded");
    assert_eq!(told[0].bytes, 2);
}

#[test]
fn frames_of_miop_im_and_xmpp_are_told_by_kind_and_main_fields() {
    let mut memory = FrameMemory::default();
    let mut bytes = Vec::new();
    let props = Props {
        device_id: Some(b"lamp"),
        product_key: Some(b"demo"),
        heartbeat_wish: Some((60, 30, 90)),
        ..Props::default()
    };
    Frame::new(Opcode::Bind, props).write(&mut bytes);
    bytes.extend_from_slice(&[0, 7, 0, 0]);
    let told: Vec<String> = memory.read(WireKind::Miop, In, &bytes).iter().map(fields).collect();
    assert_eq!(told, ["Bind: product=demo device=lamp heartbeat_wish_s=60 (30 to 90)", "Ping: "]);
    assert_eq!(memory.protocol(WireKind::Miop), "miop7");
    let mut payload = Vec::new();
    let record =
        PushRecord { id: 5, app_id: 1, flags: 0, expire_at: 0, collapse: b"", body: b"hello" };
    record.write(&mut payload);
    let mut bytes = Vec::new();
    let frame = Frame::new(Opcode::Msg, Props::default());
    Frame { payload: &payload, ..frame }.write(&mut bytes);
    let told = memory.read(WireKind::Miop, Out, &bytes);
    assert_eq!(fields(&told[0]), "Msg: pushes=[5 (5 bytes)]");
    assert_eq!(told[0].payload.as_deref(), Some(&b"hello"[..]));

    let content = ContentFields::new(1, "hi", b"x");
    let send = SendFields { number: 3, to: "bob", client_id: &[0; 16], content };
    let mut bytes = Vec::new();
    ClientFrame::Send(send).write(&mut bytes);
    let mut memory = FrameMemory::default();
    let told = memory.read(WireKind::Im, In, &bytes);
    assert_eq!(fields(&told[0]), "Send: number=3 to=bob kind=1 extra_bytes=1");
    assert_eq!(told[0].payload.as_deref(), Some(&b"hi"[..]));

    let xml = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
               xmlns:stream='http://etherx.jabber.org/streams' to='a.example' version='1.0'>\
               <message to='bob@a.example' type='chat' id='m1'><body>hi &amp; ho</body>\
               <active xmlns='http://jabber.org/protocol/chatstates'/></message> </stream:stream>";
    let mut memory = FrameMemory::default();
    let told = memory.read(WireKind::Xmpp, In, xml.as_bytes());
    let lines: Vec<String> = told.iter().map(fields).collect();
    assert_eq!(
        lines,
        [
            "stream: to=a.example version=1.0",
            "message: type=chat id=m1 to=bob@a.example \
             children=[body; active (http://jabber.org/protocol/chatstates)]",
            "space: ",
            "/stream: ",
        ]
    );
    assert_eq!(told[1].payload.as_deref(), Some(&b"hi & ho"[..]));
    assert_eq!(told.iter().map(|it| it.bytes).sum::<usize>(), xml.len());
}
