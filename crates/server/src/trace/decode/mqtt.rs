//! MQTT, every packet of it, in both directions.
//!
//! Of properties that are the application's own (user properties, correlation data) the names are
//! shown and not the values.

use super::{Decoded, Fields};
use model::ports::trace::{TraceDirection, TraceValue};
use proto_mqtt::codec::ack::Ack;
use proto_mqtt::codec::block::Properties;
use proto_mqtt::codec::connect::Connect;
use proto_mqtt::codec::property::{Property, VarInt};
use proto_mqtt::codec::publish::Publish;
use proto_mqtt::codec::subscribe::SubscribeOptions;
use proto_mqtt::codec::{
    DecodeRules, DecodeStep, Packet, PacketKind, ReasonCode, Sender, Version, decode,
};
use std::collections::HashMap;

/// Topic aliases that are remembered of a connection, each way.
const ALIASES_MAX: usize = 256;

/// Filters of a packet that are shown.
const FILTERS_MAX: usize = 64;

/// Terms agreed on a connection.
#[derive(Default)]
pub(super) struct MqttMemory {
    version: Option<Version>,
    aliases_in: HashMap<u16, String>,
    aliases_out: HashMap<u16, String>,
}

impl MqttMemory {
    /// The version of its CONNECT.
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    pub(super) fn read<'a>(
        &mut self,
        version: Option<Version>,
        direction: TraceDirection,
        mut bytes: &'a [u8],
    ) -> Vec<Decoded<'a>> {
        let sender = match direction {
            TraceDirection::In => Sender::Client,
            TraceDirection::Out => Sender::Server,
        };
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let version = version.or(self.version).unwrap_or(Version::V5);
            match decode(bytes, &DecodeRules::lenient(sender, version)) {
                Ok(DecodeStep::Packet { packet, bytes: taken, .. }) => {
                    found.push(self.packet(&packet, taken, direction));
                    bytes = &bytes[taken..];
                }
                Ok(DecodeStep::More(_)) => {
                    found.push(Decoded::unread(bytes.len(), "cut"));
                    break;
                }
                Err(fault) => {
                    found.push(Decoded::unread(bytes.len(), fault.name()));
                    break;
                }
            }
        }
        found
    }

    fn packet<'a>(
        &mut self,
        packet: &Packet<'a>,
        bytes: usize,
        direction: TraceDirection,
    ) -> Decoded<'a> {
        let kind = packet.kind();
        let name = kind.name().to_ascii_uppercase();
        let fields = Fields::default();
        let fields = match packet {
            Packet::Connect(connect) => {
                *self = MqttMemory { version: Some(connect.version), ..MqttMemory::default() };
                connect_fields(connect)
            }
            Packet::Connack(it) => properties(
                reason(fields.set("session_present", it.session_present), kind, it.reason),
                it.properties,
            ),
            Packet::Publish(publish) => {
                let fields = self.publish(publish, direction);
                return Decoded::new(name, bytes, fields).with(publish.payload);
            }
            Packet::Puback(ack)
            | Packet::Pubrec(ack)
            | Packet::Pubrel(ack)
            | Packet::Pubcomp(ack) => ack_fields(kind, ack),
            Packet::Subscribe(it) => {
                let filters = it.subscriptions.iter().map(|(filter, it)| wish(filter, it));
                let fields = fields.set("packet_id", it.id);
                properties(fields.set("filters", some_of(filters)), it.properties)
            }
            Packet::Unsubscribe(it) => {
                let filters = it.filters.iter().map(str::to_owned);
                let fields = fields.set("packet_id", it.id);
                properties(fields.set("filters", some_of(filters)), it.properties)
            }
            Packet::Suback(it) | Packet::Unsuback(it) => {
                let reasons = it.reasons.iter().map(|code| code_name(kind, code));
                let fields = fields.set("packet_id", it.id);
                properties(fields.set("reasons", some_of(reasons)), it.properties)
            }
            Packet::Pingreq | Packet::Pingresp => fields,
            Packet::Disconnect(it) => properties(reason(fields, kind, it.reason), it.properties),
            Packet::Auth(it) => properties(reason(fields, kind, it.reason), it.properties),
        };
        Decoded::new(name, bytes, fields)
    }

    fn publish(&mut self, publish: &Publish<'_>, direction: TraceDirection) -> Fields {
        let aliases = match direction {
            TraceDirection::In => &mut self.aliases_in,
            TraceDirection::Out => &mut self.aliases_out,
        };
        let mut topic = publish.topic;
        let alias = publish.topic_alias();
        if let Some(alias) = alias {
            if topic.is_empty() {
                topic = aliases.get(&alias).map_or("", String::as_str);
            } else if aliases.len() < ALIASES_MAX || aliases.contains_key(&alias) {
                aliases.insert(alias, topic.to_owned());
            }
        }
        let fields = Fields::default()
            .set_text("topic", topic)
            .set("qos", publish.qos as u8)
            .set("retain", publish.retain)
            .set("dup", publish.dup)
            .set_some("packet_id", Some(publish.id).filter(|&id| id != 0));
        properties(fields, publish.properties)
    }
}

fn connect_fields(connect: &Connect<'_>) -> Fields {
    let mut fields = Fields::default()
        .set("version", connect.version.name())
        .set("client_id", connect.client_id)
        .set("clean_start", connect.clean_start)
        .set("keep_alive_s", connect.keep_alive_s)
        .set_some("user", connect.user_name)
        .set_some("password", connect.password.map(|it| TraceValue::Redacted(it.len())))
        .set_if("bridge", connect.is_bridge);
    if let Some(will) = &connect.will {
        fields = fields
            .set("will_topic", will.topic)
            .set("will_qos", will.qos as u8)
            .set("will_retain", will.retain)
            .count("will_bytes", will.payload.len());
    }
    properties(fields, connect.properties)
}

fn ack_fields(kind: PacketKind, ack: &Ack<'_>) -> Fields {
    let fields = Fields::default().set("packet_id", ack.id);
    properties(reason(fields, kind, ack.reason), ack.properties)
}

fn reason(fields: Fields, kind: PacketKind, reason: ReasonCode) -> Fields {
    fields.set("reason", code_name(kind, reason).as_str())
}

fn code_name(kind: PacketKind, code: ReasonCode) -> String {
    format!("{:#04x} {}", code.number(), code.name(kind))
}

fn wish(filter: &str, options: SubscribeOptions) -> String {
    let mut told = format!("{filter} qos={}", options.qos as u8);
    told += if options.no_local { " no_local" } else { "" };
    told += if options.retain_as_published { " retain_as_published" } else { "" };
    told
}

/// The shown ones, and the number of the others.
fn some_of(all: impl Iterator<Item = String>) -> TraceValue {
    let mut told: Vec<String> = all.collect();
    if told.len() > FILTERS_MAX {
        let more = told.len() - FILTERS_MAX;
        told.truncate(FILTERS_MAX);
        told.push(format!("and {more} more"));
    }
    TraceValue::List(told)
}

/// Properties by their names, with those values that are the protocol's own.
fn properties(fields: Fields, properties: Properties<'_>) -> Fields {
    if properties.is_empty() {
        return fields;
    }
    fields.set("properties", some_of(properties.iter().map(property)))
}

fn property(property: Property<'_>) -> String {
    let names = Property::ALL.iter();
    let name = names.clone().find(|(id, ..)| *id == property.id()).map_or("", |(_, name, _)| name);
    let value = match property {
        Property::PayloadFormat(it)
        | Property::RequestProblem(it)
        | Property::RequestResponse(it)
        | Property::MaximumQos(it)
        | Property::RetainAvailable(it)
        | Property::WildcardAvailable(it)
        | Property::SubscriptionIdAvailable(it)
        | Property::SharedAvailable(it) => it.to_string(),
        Property::ServerKeepAlive(it)
        | Property::ReceiveMaximum(it)
        | Property::TopicAliasMaximum(it)
        | Property::TopicAlias(it) => it.to_string(),
        Property::MessageExpiry(it)
        | Property::SessionExpiry(it)
        | Property::WillDelay(it)
        | Property::MaximumPacketSize(it)
        | Property::SubscriptionId(VarInt(it)) => it.to_string(),
        Property::ContentType(it)
        | Property::ResponseTopic(it)
        | Property::AssignedClientId(it)
        | Property::AuthMethod(it)
        | Property::ResponseInformation(it)
        | Property::ServerReference(it)
        | Property::ReasonString(it) => it.to_owned(),
        Property::AuthData(it) => format!("({} bytes, redacted)", it.len()),
        Property::CorrelationData(it) => format!("({} bytes)", it.len()),
        Property::UserProperty((name, _)) => return format!("{NAME}:{name}"),
    };
    format!("{name}={value}")
}

/// User properties as they are shown: by their names.
const NAME: &str = "user_property";
