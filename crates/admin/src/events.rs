//! Events as JSON, and which of them somebody wants.
//!
//! The same words serve the stream and the webhooks. 64-bit numbers are text, for many a reader of
//! JSON keeps only 53 bits. Invariant: an id made by [`id`] names a place in this process's feed
//! and no other's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::event::{Event, What};
use model::id::ProductKey;
use model::push::Outcome;
use serde_json::{Value, json};

/// The words for types of events.
pub(crate) const TYPES: [&str; 4] = ["online", "offline", "report", "pushed"];

/// Which events somebody wants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) product: Option<ProductKey>,
    /// All when empty.
    types: Vec<&'static str>,
}

impl Filter {
    /// Of this product and these types; all types when there are none. An unknown one comes back.
    pub(crate) fn new<'a>(
        product: Option<ProductKey>,
        types: impl Iterator<Item = &'a str>,
    ) -> Result<Filter, &'a str> {
        let known = |name: &'a str| TYPES.into_iter().find(|known| *known == name).ok_or(name);
        Ok(Filter { product, types: types.map(known).collect::<Result<_, _>>()? })
    }

    pub(crate) fn wants(&self, event: &Event) -> bool {
        self.product.as_ref().is_none_or(|product| *product == event.product)
            && self.wants_type(event.what.name())
    }

    pub(crate) fn wants_type(&self, name: &str) -> bool {
        self.types.is_empty() || self.types.contains(&name)
    }

    /// The same without one type; nothing if no other is left.
    pub(crate) fn without(&self, name: &str) -> Option<Filter> {
        let left = TYPES.into_iter().filter(|known| *known != name && self.wants_type(known));
        let types: Vec<_> = left.collect();
        (!types.is_empty()).then(|| Filter { product: self.product.clone(), types })
    }
}

/// The id of the event at this place: the boot's number tells one process's places from another's.
pub(crate) fn id(boot: u64, place: u64) -> String {
    format!("{boot}-{place}")
}

/// The place after the event with this id; `None` for an id of another process.
pub(crate) fn place_after(boot: u64, id: &str) -> Option<u64> {
    let (of, place) = id.split_once('-')?;
    let place: u64 = place.parse().ok()?;
    (of.parse() == Ok(boot)).then(|| place.saturating_add(1))
}

/// An event as JSON, under this id.
pub(crate) fn json(id: &str, event: &Event) -> Value {
    let mut told = json!({
        "id": id,
        "type": event.what.name(),
        "at_ms": event.at_ms,
        "product": event.product.as_str(),
        "device": event.device.as_str(),
        "epoch": event.epoch.to_string(),
    });
    match &event.what {
        What::Online { protocol, resumed } => {
            told["protocol"] = json!(protocol);
            told["resumed"] = json!(resumed);
        }
        What::Offline { reason } => told["reason"] = json!(reason.name()),
        What::Report { seq, body } => {
            told["seq"] = json!(seq);
            told["body_base64"] = json!(STANDARD.encode(body));
            if let Ok(text) = std::str::from_utf8(body) {
                told["body"] = json!(text);
            }
        }
        What::Pushed { id, outcome } => {
            told["push"] = json!(id.0.to_string());
            told["outcome"] = json!(outcome.name());
            if let Outcome::Rejected(why) = outcome {
                told["reason"] = json!(why.name());
            }
        }
    }
    told
}
