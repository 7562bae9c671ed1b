//! Requests about presence: principals by name or key, how to compare, figures of which time.
//!
//! Like all orders: unknown fields are errors, and a value that leaves this file is within its
//! limits. A principal is named by product and device, by client identifier, or by its key as it
//! stands in directories and answers.

use super::messages::client;
use super::{device, product};
use crate::fault::Fault;
use crate::texts::{ClientName, DeviceName, PrincipalKey, ProductName};
use model::limits::TopicLimits;
use model::ports::presence::queries::{AuditOrder, StatisticsStep};
use model::presence::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Principals in one question. A longer list is refused.
pub(crate) const PRINCIPALS_MAX: usize = 1_000;

/// Bytes of a question's body: a full list of the longest identifiers, with every byte an escape.
pub(crate) const PRINCIPALS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest time that a difference may be asked to last, milliseconds.
const SETTLE_MS_MAX: u32 = 600_000;

/// Default of that time, milliseconds: longer than a write takes with a directory that works.
const SETTLE_MS_DEFAULT: u32 = 2_000;

/// Differences told one by one, at most and when the order does not say.
const TOLD_MAX: u32 = 10_000;
const TOLD_DEFAULT: u32 = 100;

/// Transitions of one principal, at most and when the query does not say.
const TRANSITIONS_MAX: u32 = 10_000;
const TRANSITIONS_DEFAULT: u32 = 20;

/// Moments in one answer, at most (a day of minutes) and when the query does not say.
const MOMENTS_MAX: u32 = 1_440;
const MOMENTS_DEFAULT: u32 = 60;

/// Query of `GET /v1/presence` and `GET /v1/presence/stored`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrincipalQuery {
    /// With `device`: of which product.
    #[schemars(with = "Option<ProductName>")]
    product: Option<String>,
    /// With `product`: which device.
    #[schemars(with = "Option<DeviceName>")]
    device: Option<String>,
    /// Client of topics, by its identifier; instead of a device.
    #[schemars(with = "Option<ClientName>")]
    client: Option<String>,
    /// Key instead: `product#device` or `#client`; its # is written %23.
    #[schemars(with = "Option<PrincipalKey>")]
    key: Option<String>,
}

impl PrincipalQuery {
    pub(crate) fn principal(self, limits: &TopicLimits) -> Result<Principal, Fault> {
        match (self.product, self.device, self.client, self.key) {
            (Some(of), Some(name), None, None) => {
                Ok(Principal::Device(product(&of)?, device(&name)?))
            }
            (None, None, Some(id), None) => Ok(Principal::Client(client(id, limits)?)),
            (None, None, None, Some(text)) => key(&text, limits),
            _ => Err(Fault::bad("give `product` and `device`, or `client`, or `key`")),
        }
    }
}

/// Query of `GET /v1/presence/history`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    #[serde(flatten)]
    who: PrincipalQuery,
    /// The newest so many transitions; 20 when it is not said. `history_told_max` is the most.
    #[schemars(range(min = 1, max = TRANSITIONS_MAX))]
    limit: Option<u32>,
}

impl HistoryQuery {
    pub(crate) fn wish(self, limits: &TopicLimits) -> Result<(Principal, usize), Fault> {
        let count = self.limit.unwrap_or(TRANSITIONS_DEFAULT);
        if !(1..=TRANSITIONS_MAX).contains(&count) {
            return Err(Fault::bad(format!("`limit` must be 1 to {TRANSITIONS_MAX}")));
        }
        Ok((self.who.principal(limits)?, count as usize))
    }
}

/// Principals that are asked about, up to 1000.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PrincipalsQuery")]
#[schemars(extend("dependentRequired" = json!({ "devices": ["product"] })))]
pub(crate) struct PrincipalsBody {
    /// Of all `devices`.
    #[schemars(with = "Option<ProductName>")]
    product: Option<String>,
    /// Names of devices of `product`.
    #[serde(default)]
    #[schemars(with = "Vec<DeviceName>")]
    devices: Vec<String>,
    /// Client identifiers.
    #[serde(default)]
    #[schemars(with = "Vec<ClientName>")]
    clients: Vec<String>,
    /// `product#device` or `#client`.
    #[serde(default)]
    #[schemars(with = "Vec<PrincipalKey>")]
    keys: Vec<String>,
}

impl PrincipalsBody {
    /// The principals: devices, clients, then keys, each once.
    pub(crate) fn principals(self, limits: &TopicLimits) -> Result<Vec<Principal>, Fault> {
        let PrincipalsBody { product: of, devices, clients, keys } = self;
        let count = devices.len() + clients.len() + keys.len();
        if count == 0 || count > PRINCIPALS_MAX {
            return Err(Fault::bad(format!(
                "`devices`, `clients` and `keys` together must have 1 to {PRINCIPALS_MAX} entries"
            )));
        }
        let mut who = Vec::with_capacity(count);
        match (of, devices.is_empty()) {
            (Some(of), false) => {
                let of = product(&of)?;
                for name in &devices {
                    who.push(Principal::Device(of.clone(), device(name)?));
                }
            }
            (None, true) => {}
            _ => return Err(Fault::bad("give `product` and `devices` together")),
        }
        for id in clients {
            who.push(Principal::Client(client(id, limits)?));
        }
        for text in &keys {
            who.push(key(text, limits)?);
        }
        let mut seen = std::collections::HashSet::new();
        who.retain(|one| seen.insert(one.clone()));
        Ok(who)
    }
}

/// A principal by its key.
fn key(text: &str, limits: &TopicLimits) -> Result<Principal, Fault> {
    let wrong =
        || Fault::bad("a key must be `product#device` or `#client`; in a URL write # as %23");
    match Principal::parse(text).ok_or_else(wrong)? {
        Principal::Client(id) => Ok(Principal::Client(client(id.into(), limits)?)),
        device => Ok(device),
    }
}

/// How memory and directory are compared.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AuditOrder")]
pub(crate) struct AuditBody {
    /// How long a difference must last to be one.
    #[schemars(range(max = SETTLE_MS_MAX), extend("default" = SETTLE_MS_DEFAULT))]
    settle_ms: Option<u32>,
    /// Write persistent differences over, from memory.
    #[serde(default)]
    repair: bool,
    /// Differences told one by one.
    #[schemars(range(max = TOLD_MAX), extend("default" = TOLD_DEFAULT))]
    told_max: Option<u32>,
}

impl AuditBody {
    pub(crate) fn order(&self) -> Result<AuditOrder, Fault> {
        let settle_ms = self.settle_ms.unwrap_or(SETTLE_MS_DEFAULT);
        if settle_ms > SETTLE_MS_MAX {
            return Err(Fault::bad(format!("`settle_ms` must be at most {SETTLE_MS_MAX}")));
        }
        let told_max = self.told_max.unwrap_or(TOLD_DEFAULT);
        if told_max > TOLD_MAX {
            return Err(Fault::bad(format!("`told_max` must be at most {TOLD_MAX}")));
        }
        Ok(AuditOrder { settle_ms, repair: self.repair, told_max })
    }
}

/// Query of `GET /v1/presence/statistics`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatisticsQuery {
    /// `second`: the last fifteen minutes; `minute`: the last day.
    #[schemars(with = "Option<Step>", extend("default" = "second"))]
    step: Option<String>,
    /// Number of the last moments, or fewer if the server is younger.
    #[schemars(range(min = 1, max = MOMENTS_MAX), extend("default" = MOMENTS_DEFAULT))]
    count: Option<u32>,
}

/// Distance between moments.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PresenceStep")]
pub(crate) enum Step {
    Second,
    Minute,
}

impl StatisticsQuery {
    /// The step, its word, and how many of the last moments.
    pub(crate) fn wish(&self) -> Result<(StatisticsStep, Step, usize), Fault> {
        let (step, word) = match self.step.as_deref() {
            None | Some("second") => (StatisticsStep::Second, Step::Second),
            Some("minute") => (StatisticsStep::Minute, Step::Minute),
            Some(_) => return Err(Fault::bad("`step` must be `second` or `minute`")),
        };
        match self.count.unwrap_or(MOMENTS_DEFAULT) {
            count @ 1..=MOMENTS_MAX => Ok((step, word, count as usize)),
            _ => Err(Fault::bad(format!("`count` must be 1 to {MOMENTS_MAX}"))),
        }
    }
}
