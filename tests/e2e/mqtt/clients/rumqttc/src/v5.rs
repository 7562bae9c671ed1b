//! The module for 5.

use crate::line::Line;
use crate::{Client, State};
use rumqttc::v5::mqttbytes::v5::{
    ConnectProperties, Filter, LastWill, LastWillProperties, Packet, PubAckReason, Publish,
    PublishProperties, RetainForwardRule, SubscribeProperties, SubscribeReasonCode,
};
use rumqttc::v5::mqttbytes::{qos as number_of, QoS};
use rumqttc::v5::{Event, MqttOptions};
use rumqttc::Outgoing;
use std::time::Duration;

struct V5(rumqttc::v5::Client, State);

fn qos(line: &Line, key: &str) -> QoS {
    number_of(line.number(key, 0) as u8).expect("a QoS")
}

pub fn connect(name: &str, line: &Line) -> impl Client {
    let port = line.number("port", 0) as u16;
    let id = line.text("id").unwrap_or_default();
    let mut options = MqttOptions::new(id, line.need("host"), port);
    options.set_clean_start(line.flag("clean", true));
    options.set_keep_alive(Duration::from_secs(line.number("keep_alive", 60)));
    options.set_transport(crate::old::transport(line));
    let mut wishes = ConnectProperties::new();
    wishes.session_expiry_interval = line.maybe("expiry");
    wishes.receive_maximum = line.maybe("receive_max");
    wishes.max_packet_size = Some(line.number("packet_max", 1 << 20) as u32);
    wishes.topic_alias_max = line.maybe("alias_max");
    options.set_connect_properties(wishes);
    if let Some(user) = line.text("user") {
        options.set_credentials(user, line.text("password").unwrap_or_default());
    }
    if let Some(topic) = line.text("will_topic") {
        let properties = line.maybe("will_delay").map(|delay| LastWillProperties {
            delay_interval: Some(delay),
            payload_format_indicator: None,
            message_expiry_interval: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            user_properties: Vec::new(),
        });
        let payload = line.text("will_payload").unwrap_or_default().to_owned();
        let retain = line.flag("will_retain", false);
        let will = LastWill::new(topic, payload, qos(line, "will_qos"), retain, properties);
        options.set_last_will(will);
    }
    let (client, mut connection) = rumqttc::v5::Client::new(options, 1000);
    let state = State::new(name);
    let shared = state.clone();
    std::thread::spawn(move || {
        for event in connection.iter() {
            match event {
                Ok(event) => hear(&shared, event),
                Err(error) => return shared.ended(error.to_string()),
            }
        }
    });
    V5(client, state)
}

fn hear(state: &State, event: Event) {
    match event {
        Event::Incoming(Packet::ConnAck(ack)) => {
            let properties = ack.properties;
            let assigned = properties.and_then(|each| each.assigned_client_identifier);
            let more = assigned.map(|id| ("assigned_id", id));
            state.connected(ack.session_present, more.into_iter().collect());
        }
        Event::Incoming(Packet::SubAck(ack)) => {
            let code = match ack.return_codes[0] {
                SubscribeReasonCode::Success(qos) => qos as u8,
                SubscribeReasonCode::NotAuthorized => 0x87,
                _ => 0x80,
            };
            state.say("subscribed", &[("code", code.to_string())]);
        }
        Event::Incoming(Packet::UnsubAck(_)) => state.say("unsubscribed", &[]),
        Event::Incoming(Packet::PubAck(ack)) => state.published(match ack.reason {
            PubAckReason::Success => 0,
            PubAckReason::NoMatchingSubscribers => 0x10,
            PubAckReason::NotAuthorized => 0x87,
            _ => 0x80,
        }),
        Event::Incoming(Packet::PubComp(_)) | Event::Outgoing(Outgoing::Publish(0)) => {
            state.published(0);
        }
        Event::Incoming(Packet::Publish(message)) => say_message(state, &message),
        _ => {}
    }
}

fn say_message(state: &State, message: &Publish) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut fields = vec![
        ("topic", text(&message.topic)),
        ("payload", text(&message.payload)),
        ("qos", (message.qos as u8).to_string()),
        ("retain", u8::from(message.retain).to_string()),
        ("dup", u8::from(message.dup).to_string()),
    ];
    if let Some(properties) = &message.properties {
        let data = properties.correlation_data.as_deref().map(text);
        let one = |name, value: Option<String>| value.map(|value| (name, value));
        fields.extend(one("content_type", properties.content_type.clone()));
        fields.extend(one("response_topic", properties.response_topic.clone()));
        fields.extend(one("correlation", data));
        fields.extend(one("expiry", properties.message_expiry_interval.map(|s| s.to_string())));
        let format = properties.payload_format_indicator;
        fields.extend(one("payload_format", format.map(|byte| byte.to_string())));
        for id in &properties.subscription_identifiers {
            fields.push(("subscription_id", id.to_string()));
        }
        for (key, value) in &properties.user_properties {
            fields.push(("user_property", format!("{key}:{value}")));
        }
    }
    state.say("message", &fields);
}

impl Client for V5 {
    fn subscribe(&self, line: &Line) -> Result<(), String> {
        let mut filter = Filter::new(line.need("filter"), qos(line, "qos"));
        filter.nolocal = line.flag("no_local", false);
        filter.preserve_retain = line.flag("as_published", false);
        filter.retain_forward_rule = match line.number("handling", 0) {
            0 => RetainForwardRule::OnEverySubscribe,
            1 => RetainForwardRule::OnNewSubscribe,
            _ => RetainForwardRule::Never,
        };
        let id = line.maybe("subscription_id");
        let sent = match id {
            Some(id) => {
                let wishes = SubscribeProperties { id: Some(id), user_properties: Vec::new() };
                self.0.subscribe_many_with_properties([filter], wishes)
            }
            None => self.0.subscribe_many([filter]),
        };
        sent.map_err(|error| error.to_string())
    }

    fn unsubscribe(&self, line: &Line) -> Result<(), String> {
        self.0.unsubscribe(line.need("filter")).map_err(|error| error.to_string())
    }

    fn publish(&self, line: &Line, payload: String) -> Result<(), String> {
        let pairs = line.all("user_property");
        let properties = PublishProperties {
            payload_format_indicator: line.maybe("payload_format"),
            message_expiry_interval: line.maybe("expiry"),
            topic_alias: line.maybe("alias"),
            response_topic: line.text("response_topic").map(str::to_owned),
            correlation_data: line.text("correlation").map(|data| data.to_owned().into()),
            user_properties: pairs
                .iter()
                .filter_map(|pair| pair.split_once(':'))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            subscription_identifiers: Vec::new(),
            content_type: line.text("type").map(str::to_owned),
        };
        let topic = line.need("topic");
        let retain = line.flag("retain", false);
        let at = qos(line, "qos");
        let sent = self.0.publish_with_properties(topic, at, retain, payload, properties);
        sent.map_err(|error| error.to_string())
    }

    fn disconnect(&self) -> Result<(), String> {
        self.0.disconnect().map_err(|error| error.to_string())
    }

    fn state(&self) -> &State {
        &self.1
    }
}
