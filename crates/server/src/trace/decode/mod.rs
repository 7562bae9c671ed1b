//! Bytes of a connection, as people read them: frames with their names and main fields.
//!
//! Machines take whole frames and say whole frames, so each string of bytes that was seen is some
//! of them. Bytes that cannot be read are shown as their number. It knows no shard and no trace.
//! Invariant: passwords, tokens, signatures and what SASL says leave here as a length
//! ([`TraceValue::Redacted`]), and bytes that cannot be read not at all, for one may be among them.

mod im;
mod miop;
mod mqtt;
mod xmpp;

use super::seen::WireKind;
use model::ports::trace::{TraceDirection, TraceField, TraceValue};
use mqtt::MqttMemory;
use std::borrow::Cow;

/// A frame.
pub(super) struct Decoded<'a> {
    pub(super) kind: Cow<'static, str>,
    /// On the wire.
    pub(super) bytes: usize,
    pub(super) fields: Vec<TraceField>,
    pub(super) payload: Option<Cow<'a, [u8]>>,
}

/// State of a connection that later frames are decoded with.
#[derive(Default)]
pub(super) struct FrameMemory {
    mqtt: MqttMemory,
    /// Name of the last frame, where versions show in frames.
    name: Option<&'static str>,
}

impl FrameMemory {
    /// Reads bytes of a connection that speaks this.
    pub(super) fn read<'a>(
        &mut self,
        wire: WireKind,
        direction: TraceDirection,
        bytes: &'a [u8],
    ) -> Vec<Decoded<'a>> {
        match wire {
            WireKind::Mqtt(version) => self.mqtt.read(version, direction, bytes),
            WireKind::Miop => miop::read(bytes, &mut self.name),
            WireKind::Im => im::read(direction, bytes),
            WireKind::Xmpp => xmpp::read(bytes),
        }
    }

    /// The name of what is spoken.
    pub(super) fn protocol(&self, wire: WireKind) -> &'static str {
        match wire {
            WireKind::Mqtt(version) => {
                version.or(self.mqtt.version()).map_or("mqtt", |version| version.name())
            }
            WireKind::Miop => self.name.unwrap_or("miop"),
            WireKind::Im => "im",
            WireKind::Xmpp => "xmpp",
        }
    }
}

impl<'a> Decoded<'a> {
    fn new(kind: impl Into<Cow<'static, str>>, bytes: usize, fields: Fields) -> Decoded<'a> {
        Decoded { kind: kind.into(), bytes, fields: fields.0, payload: None }
    }

    fn with(mut self, payload: impl Into<Cow<'a, [u8]>>) -> Decoded<'a> {
        self.payload = Some(payload.into());
        self
    }

    /// Bytes that cannot be decoded.
    fn unread(bytes: usize, why: &str) -> Decoded<'a> {
        Decoded::new("undecoded", bytes, Fields::default().set("why", why))
    }
}

/// Fields as they are gathered.
#[derive(Default)]
struct Fields(Vec<TraceField>);

impl Fields {
    fn set(mut self, name: &'static str, value: impl Into<TraceValue>) -> Fields {
        self.0.push((name, value.into()));
        self
    }

    /// A field that is there if it has a value.
    fn set_some(self, name: &'static str, value: Option<impl Into<TraceValue>>) -> Fields {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    /// A text that is there if it is not empty.
    fn set_text(self, name: &'static str, text: &str) -> Fields {
        self.set_some(name, Some(text).filter(|text| !text.is_empty()))
    }

    /// A flag that is there if it is set.
    fn set_if(self, name: &'static str, flag: bool) -> Fields {
        self.set_some(name, flag.then_some(true))
    }

    fn count(self, name: &'static str, count: usize) -> Fields {
        self.set(name, count as u64)
    }

    /// A secret that is there if it is not empty.
    fn secret(self, name: &'static str, secret: &[u8]) -> Fields {
        match secret.is_empty() {
            true => self,
            false => self.set(name, TraceValue::Redacted(secret.len())),
        }
    }
}
