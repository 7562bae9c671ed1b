//! The module for 3.1.1.

use crate::line::Line;
use crate::{Client, State};
use rumqttc::{Event, LastWill, MqttOptions, Outgoing, Packet, QoS, SubscribeReasonCode};
use rumqttc::{TlsConfiguration, Transport};
use std::time::Duration;

struct Old(rumqttc::Client, State);

/// How to reach the server: the module for 5 wants the same.
pub fn transport(line: &Line) -> Transport {
    let Some(ca) = line.text("ca") else { return Transport::tcp() };
    let read = |path: &str| std::fs::read(path).expect("a file of the test");
    let client_auth = line.text("cert").map(|cert| (read(cert), read(line.need("key"))));
    Transport::tls_with_config(TlsConfiguration::Simple { ca: read(ca), alpn: None, client_auth })
}

fn qos(line: &Line, key: &str) -> QoS {
    rumqttc::qos(line.number(key, 0) as u8).expect("a QoS")
}

pub fn connect(name: &str, line: &Line) -> impl Client {
    let port = line.number("port", 0) as u16;
    let id = line.text("id").unwrap_or_default();
    let mut options = MqttOptions::new(id, line.need("host"), port);
    options.set_clean_session(line.flag("clean", true));
    options.set_keep_alive(Duration::from_secs(line.number("keep_alive", 60)));
    options.set_transport(transport(line));
    options.set_max_packet_size(1 << 20, 1 << 20);
    if let Some(user) = line.text("user") {
        options.set_credentials(user, line.text("password").unwrap_or_default());
    }
    if let Some(topic) = line.text("will_topic") {
        let payload = line.text("will_payload").unwrap_or_default();
        let retain = line.flag("will_retain", false);
        options.set_last_will(LastWill::new(topic, payload, qos(line, "will_qos"), retain));
    }
    let (client, mut connection) = rumqttc::Client::new(options, 1000);
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
    Old(client, state)
}

fn hear(state: &State, event: Event) {
    match event {
        Event::Incoming(Packet::ConnAck(ack)) => state.connected(ack.session_present, Vec::new()),
        Event::Incoming(Packet::SubAck(ack)) => {
            let code = match ack.return_codes[0] {
                SubscribeReasonCode::Success(qos) => qos as u8,
                SubscribeReasonCode::Failure => 0x80,
            };
            state.say("subscribed", &[("code", code.to_string())]);
        }
        Event::Incoming(Packet::UnsubAck(_)) => state.say("unsubscribed", &[]),
        Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_))
        | Event::Outgoing(Outgoing::Publish(0)) => state.published(0),
        Event::Incoming(Packet::Publish(message)) => {
            let fields = [
                ("topic", message.topic),
                ("payload", String::from_utf8_lossy(&message.payload).into_owned()),
                ("qos", (message.qos as u8).to_string()),
                ("retain", u8::from(message.retain).to_string()),
                ("dup", u8::from(message.dup).to_string()),
            ];
            state.say("message", &fields);
        }
        _ => {}
    }
}

impl Client for Old {
    fn subscribe(&self, line: &Line) -> Result<(), String> {
        self.0.subscribe(line.need("filter"), qos(line, "qos")).map_err(|error| error.to_string())
    }

    fn unsubscribe(&self, line: &Line) -> Result<(), String> {
        self.0.unsubscribe(line.need("filter")).map_err(|error| error.to_string())
    }

    fn publish(&self, line: &Line, payload: String) -> Result<(), String> {
        let retain = line.flag("retain", false);
        let sent = self.0.publish(line.need("topic"), qos(line, "qos"), retain, payload);
        sent.map_err(|error| error.to_string())
    }

    fn disconnect(&self) -> Result<(), String> {
        self.0.disconnect().map_err(|error| error.to_string())
    }

    fn state(&self) -> &State {
        &self.1
    }
}
