//! Happenings as JSON, and which of them somebody wants.
//!
//! The same words serve the stream and the webhooks. 64-bit numbers are text, for many a reader of
//! JSON keeps only 53 bits. Invariant: an id made by [`id`] names a place in this process's feed
//! and no other's, and [`message_id`] never makes the same one.

use crate::answers;
use crate::feed::{Happening, Wish, topic};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::event::{ClientEvent, ClientWhat, DeviceEvent, DeviceWhat};
use model::id::ProductKey;
use model::presence::PresenceVersion;
use model::push::Outcome;
use serde_json::{Value, json};

/// The words for types of events: of devices, then of clients, then of messages.
pub const TYPES: [&str; 12] = [
    "online",
    "offline",
    "report",
    "pushed",
    "client_connected",
    "client_disconnected",
    "client_refused",
    "session_ended",
    "client_subscribed",
    "client_unsubscribed",
    MESSAGE,
    "messages_dropped",
];

/// Those of [`TYPES`] that are about devices come first.
const DEVICE_TYPES: usize = 4;

/// The type of a published message. It is only told to those who name it.
pub(crate) const MESSAGE: &str = "message_published";

/// Filter of the entries that a reader wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    /// Of devices of this product alone, and none of clients, which have no product.
    pub(crate) product: Option<ProductKey>,
    /// All but [`MESSAGE`] when empty.
    types: Vec<&'static str>,
    /// Messages on topics that match one of these; all when empty.
    topics: Vec<String>,
}

impl Filter {
    /// Of this product and these types; all types when there are none. An unknown one comes back.
    pub(crate) fn new<'a>(
        product: Option<ProductKey>,
        types: impl Iterator<Item = &'a str>,
        topics: Vec<String>,
    ) -> Result<Filter, &'a str> {
        let known = |name: &'a str| TYPES.into_iter().find(|known| *known == name).ok_or(name);
        Ok(Filter { product, types: types.map(known).collect::<Result<_, _>>()?, topics })
    }

    pub(crate) fn wants(&self, happening: &Happening) -> bool {
        let of_product = match (happening, &self.product) {
            (_, None) => true,
            (Happening::Device(event), Some(product)) => *product == event.product,
            (Happening::Client(_), Some(_)) => false,
        };
        of_product && self.wants_type(happening.name()) && self.wants_topic(happening)
    }

    /// The lane keeps what any reader wants: each takes its own.
    fn wants_topic(&self, happening: &Happening) -> bool {
        match happening {
            Happening::Client(ClientEvent { what: ClientWhat::Published(message), .. }) => {
                let wanted = |filter: &String| topic::matches(filter, message.topic());
                self.topics.is_empty() || self.topics.iter().any(wanted)
            }
            _ => true,
        }
    }

    pub(crate) fn wants_type(&self, name: &str) -> bool {
        self.types.contains(&name) || self.types.is_empty() && name != MESSAGE
    }

    /// The same without one type; nothing if no other is left.
    pub(crate) fn without(&self, name: &str) -> Option<Filter> {
        let left = TYPES.into_iter().filter(|known| *known != name && self.wants_type(known));
        let types: Vec<_> = left.collect();
        (!types.is_empty()).then(|| Filter { types, ..self.clone() })
    }

    /// What has to be kept of events.
    pub(crate) fn wish(&self) -> Wish {
        let (of_devices, others) = TYPES.split_at(DEVICE_TYPES);
        let of_clients = &others[..others.len() - 1];
        let any = |types: &[&str]| types.iter().any(|name| self.wants_type(name));
        let clients = self.product.is_none() && any(of_clients);
        Wish { devices: any(of_devices), clients, ..Wish::default() }
    }

    /// The messages it wants, if any.
    pub(crate) fn messages(&self) -> Option<Vec<String>> {
        let all = || vec!["#".to_owned()];
        self.wants_type(MESSAGE)
            .then(|| if self.topics.is_empty() { all() } else { self.topics.clone() })
    }
}

/// The id of the event at this place: the boot's number tells one process's places from another's.
pub(crate) fn id(boot: u64, place: u64) -> String {
    format!("{boot}-{place}")
}

/// The id of the message at this place.
pub(crate) fn message_id(boot: u64, place: u64) -> String {
    format!("{boot}-m{place}")
}

/// The place after the event with this id; `None` for an id of another process.
pub(crate) fn place_after(boot: u64, id: &str) -> Option<u64> {
    let (of, place) = id.split_once('-')?;
    let place: u64 = place.parse().ok()?;
    (of.parse() == Ok(boot)).then(|| place.saturating_add(1))
}

/// A happening as JSON, under this id.
pub(crate) fn json(id: &str, happening: &Happening) -> Value {
    match happening {
        Happening::Device(event) => device(id, event),
        Happening::Client(event) => client(id, event),
    }
}

/// An event of a device as JSON.
pub(crate) fn device(id: &str, event: &DeviceEvent) -> Value {
    let mut told = json!({
        "id": id,
        "type": event.what.name(),
        "at_ms": event.at_ms,
        "product": event.product.as_str(),
        "device": event.device.as_str(),
        "epoch": event.epoch.to_string(),
    });
    tell_version(&mut told, event.version);
    match &event.what {
        DeviceWhat::Online { protocol, resumed } => {
            told["protocol"] = json!(protocol);
            told["resumed"] = json!(resumed);
        }
        DeviceWhat::Offline { reason } => told["reason"] = json!(reason.name()),
        DeviceWhat::Report { seq, body } => {
            told["seq"] = json!(seq);
            told["body_base64"] = json!(STANDARD.encode(body));
            if let Ok(text) = std::str::from_utf8(body) {
                told["body"] = json!(text);
            }
        }
        DeviceWhat::Pushed { id, outcome } => {
            told["push"] = json!(id.0.to_string());
            told["outcome"] = json!(outcome.name());
            if let Outcome::Rejected(why) = outcome {
                told["reason"] = json!(why.name());
            }
        }
    }
    told
}

/// What is no transition has none.
fn tell_version(told: &mut Value, version: PresenceVersion) {
    if version != PresenceVersion::default() {
        told["version"] = json!(version.to_string());
    }
}

fn client(id: &str, event: &ClientEvent) -> Value {
    let mut told = json!({
        "id": id,
        "type": event.what.name(),
        "at_ms": event.at_ms,
        "client_id": &*event.client_id,
        "user": event.user.as_deref(),
    });
    tell_version(&mut told, event.version);
    match &event.what {
        ClientWhat::Connected { protocol, peer, resumed } => {
            told["protocol"] = json!(protocol);
            told["peer"] = json!(peer.to_string());
            told["resumed"] = json!(resumed);
        }
        ClientWhat::Disconnected { reason } => told["reason"] = json!(reason.name()),
        ClientWhat::Refused { why } => told["reason"] = json!(why.name()),
        ClientWhat::SessionEnded => {}
        ClientWhat::Subscribed { filter, qos } => {
            told["filter"] = json!(&**filter);
            told["qos"] = json!(*qos as u8);
        }
        ClientWhat::Unsubscribed { filter } => told["filter"] = json!(&**filter),
        ClientWhat::Published(message) => {
            told["message"] = answers::message(message);
        }
        ClientWhat::Dropped { why, count } => {
            told["reason"] = json!(why.name());
            told["count"] = json!(count);
        }
    }
    told
}
