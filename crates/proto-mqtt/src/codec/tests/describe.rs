//! Packets as text, in the lines that vectors show.

use crate::codec::block::Properties;
use crate::codec::property::{Property, VarInt};
use crate::codec::{Packet, PacketKind, ReasonCode, Version, connect, publish, subscribe};
use std::fmt::Write;

/// The line.
pub fn describe(packet: &Packet<'_>) -> String {
    let kind = packet.kind();
    let mut line = kind.name().to_owned();
    match packet {
        Packet::Connect(connect) => connect_line(connect, &mut line),
        Packet::Connack(connack) => {
            flag(connack.session_present, "session_present", &mut line);
            reason_word(connack.reason, kind, &mut line);
            line += &properties(&connack.properties);
        }
        Packet::Publish(publish) => publish_line(publish, &mut line),
        Packet::Puback(ack) | Packet::Pubrec(ack) | Packet::Pubrel(ack) | Packet::Pubcomp(ack) => {
            line += &format!(" id={}", ack.id);
            reason_word(ack.reason, kind, &mut line);
            line += &properties(&ack.properties);
        }
        Packet::Subscribe(subscribe) => {
            line += &format!(" id={}{}", subscribe.id, properties(&subscribe.properties));
            for (filter, options) in subscribe.subscriptions.iter() {
                line += &format!(" {} qos={}", quote(filter), options.qos as u8);
                flag(options.no_local, "no_local", &mut line);
                flag(options.retain_as_published, "retain_as_published", &mut line);
                use subscribe::RetainHandling;
                flag(options.retain_handling == RetainHandling::WhenNew, "when_new", &mut line);
                flag(options.retain_handling == RetainHandling::Never, "never", &mut line);
            }
        }
        Packet::Suback(suback) | Packet::Unsuback(suback) => {
            line += &format!(" id={}{}", suback.id, properties(&suback.properties));
            for reason in suback.reasons.iter() {
                line += &format!(" {}", reason.name(kind));
            }
        }
        Packet::Unsubscribe(unsubscribe) => {
            line += &format!(" id={}{}", unsubscribe.id, properties(&unsubscribe.properties));
            for filter in unsubscribe.filters.iter() {
                line += &format!(" {}", quote(filter));
            }
        }
        Packet::Pingreq | Packet::Pingresp => {}
        Packet::Disconnect(disconnect) => {
            reason_word(disconnect.reason, kind, &mut line);
            line += &properties(&disconnect.properties);
        }
        Packet::Auth(auth) => {
            reason_word(auth.reason, kind, &mut line);
            line += &properties(&auth.properties);
        }
    }
    line
}

/// A version by its name in vectors.
pub fn version(name: &str) -> Version {
    match name {
        "3.1" => Version::V31,
        "3.1.1" => Version::V311,
        "5" => Version::V5,
        _ => panic!("no version {name}"),
    }
}

fn connect_line(connect: &connect::Connect<'_>, line: &mut String) {
    *line += &format!(" {}", connect.version.name());
    flag(connect.is_bridge, "bridge", line);
    flag(connect.clean_start, "clean", line);
    *line += &format!(" keep_alive={}", connect.keep_alive_s);
    *line += &properties(&connect.properties);
    *line += &format!(" id={}", quote(connect.client_id));
    if let Some(will) = &connect.will {
        *line += &format!(" will qos={}", will.qos as u8);
        flag(will.retain, "retain", line);
        *line += &properties(&will.properties);
        *line += &format!(" topic={} payload={}", quote(will.topic), hex(will.payload));
    }
    if let Some(user) = connect.user_name {
        *line += &format!(" user={}", quote(user));
    }
    if let Some(password) = connect.password {
        *line += &format!(" password={}", hex(password));
    }
}

fn publish_line(publish: &publish::Publish<'_>, line: &mut String) {
    flag(publish.dup, "dup", line);
    *line += &format!(" qos={}", publish.qos as u8);
    flag(publish.retain, "retain", line);
    if publish.qos as u8 > 0 {
        *line += &format!(" id={}", publish.id);
    }
    *line += &format!(" topic={}", quote(publish.topic));
    *line += &properties(&publish.properties);
    *line += &format!(" payload={}", hex(publish.payload));
}

fn flag(is_set: bool, name: &str, line: &mut String) {
    if is_set {
        *line += &format!(" {name}");
    }
}

fn reason_word(reason: ReasonCode, kind: PacketKind, line: &mut String) {
    *line += &format!(" reason={}", reason.name(kind));
}

fn properties(properties: &Properties<'_>) -> String {
    if properties.is_empty() {
        return String::new();
    }
    let each: Vec<String> = properties.iter().map(property).collect();
    format!(" {{{}}}", each.join(", "))
}

fn property(property: Property<'_>) -> String {
    use Property::*;
    let value = match property {
        PayloadFormat(value)
        | RequestProblem(value)
        | RequestResponse(value)
        | MaximumQos(value)
        | RetainAvailable(value)
        | WildcardAvailable(value)
        | SubscriptionIdAvailable(value)
        | SharedAvailable(value) => value.to_string(),
        ServerKeepAlive(value)
        | ReceiveMaximum(value)
        | TopicAliasMaximum(value)
        | TopicAlias(value) => value.to_string(),
        MessageExpiry(value)
        | SessionExpiry(value)
        | WillDelay(value)
        | MaximumPacketSize(value)
        | SubscriptionId(VarInt(value)) => value.to_string(),
        ContentType(text)
        | ResponseTopic(text)
        | AssignedClientId(text)
        | AuthMethod(text)
        | ResponseInformation(text)
        | ServerReference(text)
        | ReasonString(text) => quote(text),
        CorrelationData(bytes) | AuthData(bytes) => hex(bytes),
        UserProperty((name, value)) => format!("{}:{}", quote(name), quote(value)),
    };
    format!("{}={value}", property.name())
}

/// Text in quotes; a long run of one character is told by its length.
fn quote(text: &str) -> String {
    let mut chars = text.chars();
    if let Some(first) = chars.next()
        && text.chars().count() > 40
        && chars.all(|char| char == first)
    {
        return format!("\"{first}\"*{}", text.chars().count());
    }
    let mut quoted = String::from('"');
    for char in text.chars() {
        if char.is_control() || char == '\u{feff}' {
            let _ = write!(quoted, "\\u{{{:x}}}", char as u32);
        } else {
            quoted.push(char);
        }
    }
    quoted + "\""
}

/// Bytes in hex; a long run of one byte is told by its length.
fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        [first, ..] if bytes.len() > 40 && bytes.iter().all(|byte| byte == first) => {
            format!("{first:02x}*{}", bytes.len())
        }
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
