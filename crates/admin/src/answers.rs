//! Bodies of answers to applications, a type each.
//!
//! `serde` writes them and `schemars` describes them in `GET /openapi.json`, both from the same
//! declaration: a comment of a field is its description there. 64-bit numbers that name something
//! are text. They are made of the model's words and know nothing of HTTP. Invariant: no secret
//! leaves, but the one that was just made.

pub(crate) mod chat;
pub(crate) mod clients;
pub(crate) mod configuration;
pub(crate) mod devices;
pub(crate) mod edge;
pub(crate) mod events;
pub(crate) mod hooks;
pub(crate) mod log;
pub(crate) mod meanings;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod presence;
pub(crate) mod products;
pub(crate) mod push_outcomes;
pub(crate) mod pushes;
pub(crate) mod schedules;
pub(crate) mod segments;
pub(crate) mod session;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod users;

use schemars::JsonSchema;
use serde::Serialize;

/// The object is deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Removed {
    /// True.
    pub(crate) removed: bool,
}

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApiError")]
pub(crate) struct ErrorBody {
    /// The error.
    pub(crate) error: ErrorWords,
}

/// Code and message of a refusal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorDetail")]
pub(crate) struct ErrorWords {
    /// A word for programs.
    pub(crate) code: &'static str,
    /// A sentence for people; it says what is allowed.
    pub(crate) message: String,
    /// With `elsewhere`: the devices that are online at other servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) elsewhere: Vec<DeviceElsewhere>,
}

/// A device that is online at another server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub(crate) struct DeviceElsewhere {
    /// The device.
    pub(crate) device: String,
    /// Name of the server.
    pub(crate) node: String,
    /// Address of the server's API, if it has told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
}
