//! Events by id, and filters of their readers.
//!
//! The stream and the webhooks use the same words ([`crate::answers::events`]). 64-bit numbers are
//! text, because many readers of JSON keep only 53 bits. Invariant: an id made by [`id`] names a
//! place in this process's feed and in no other, and [`message_id`] never makes the same one.

use crate::answers::events::{self as bodies, AnyEvent};
use crate::feed::{Happening, Wish, topic};
use model::event::{self, EventGroup, Told};
use model::id::ProductKey;
use model::ports::events::{ClientEvent, ClientWhat, DeviceEvent};
use serde_json::{Value, json};

/// The words for types of events, from the vocabulary: of devices, of clients, of chat, of the
/// server.
pub const TYPES: [&str; event::STREAMED_NAMES.len()] = event::STREAMED_NAMES;

/// Whether a type is about this.
fn is_about(name: &str, group: EventGroup) -> bool {
    event::streamed(name).is_some_and(|kind| kind.of == group)
}

/// Whether a type is about chat.
fn is_chat(name: &str) -> bool {
    is_about(name, EventGroup::Chat)
}

/// The type of a published message.
pub(crate) const MESSAGE: &str = event::MESSAGE_PUBLISHED.name;

/// Filter of the entries that a reader wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    /// Of devices of this product alone, and none of clients, which have no product.
    pub(crate) product: Option<ProductKey>,
    /// All that need not be named when empty.
    types: Vec<&'static str>,
    /// Messages on topics that match one of these; all when empty.
    topics: Vec<String>,
}

impl Filter {
    /// A filter for this product and these types; all types if none are given. An error returns the
    /// unknown type.
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
            (Happening::Client(_) | Happening::Chat(_) | Happening::Alarm(_), Some(_)) => false,
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
        let is_usual = || event::streamed(name).is_some_and(|kind| kind.told == Told::Streamed);
        self.types.contains(&name) || self.types.is_empty() && is_usual()
    }

    /// The filter without one type; `None` if no other is left.
    pub(crate) fn without(&self, name: &str) -> Option<Filter> {
        self.without_those(|known| known == name)
    }

    fn without_those(&self, are: impl Fn(&str) -> bool) -> Option<Filter> {
        let left = TYPES.into_iter().filter(|known| !are(known) && self.wants_type(known));
        let types: Vec<_> = left.collect();
        (!types.is_empty()).then(|| Filter { types, ..self.clone() })
    }

    /// Events that must be kept for this filter.
    pub(crate) fn wish(&self) -> Wish {
        let any = |group| {
            let of_group = TYPES.iter().filter(|name| is_about(name, group) && **name != MESSAGE);
            of_group.into_iter().any(|name| self.wants_type(name))
        };
        let clients = self.product.is_none() && any(EventGroup::Clients);
        let alarms = self.product.is_none() && any(EventGroup::Server);
        Wish { devices: any(EventGroup::Devices), clients, alarms, ..Wish::default() }
    }

    /// Whether it wants events of chat, which have no product.
    pub(crate) fn wants_chat(&self) -> bool {
        self.product.is_none() && TYPES.iter().any(|name| is_chat(name) && self.wants_type(name))
    }

    /// The filter without events of chat; `None` if no other type is left.
    pub(crate) fn without_chat(&self) -> Option<Filter> {
        self.without_those(is_chat)
    }

    /// The messages it wants, if any.
    pub(crate) fn messages(&self) -> Option<Vec<String>> {
        let all = || vec!["#".to_owned()];
        self.wants_type(MESSAGE)
            .then(|| if self.topics.is_empty() { all() } else { self.topics.clone() })
    }
}

/// The id of the event at this place: the boot's number distinguishes one process's places from
/// another's.
pub(crate) fn id(boot: u64, place: u64) -> String {
    format!("{boot}-{place}")
}

/// The id of the event of chat at this place.
pub(crate) fn chat_id(boot: u64, place: u64) -> String {
    format!("{boot}-c{place}")
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

/// As [`place_after`], for an event of chat.
pub(crate) fn chat_place_after(boot: u64, id: &str) -> Option<u64> {
    place_after(boot, &id.replacen("-c", "-", 1)).filter(|_| id.contains("-c"))
}

/// A happening as JSON, under this id.
pub(crate) fn json(id: &str, happening: &Happening) -> Value {
    json!(AnyEvent::new(id, happening))
}

/// An event of a device as JSON.
pub(crate) fn device(id: &str, event: &DeviceEvent) -> Value {
    json!(bodies::DeviceEvent::new(id, event))
}
