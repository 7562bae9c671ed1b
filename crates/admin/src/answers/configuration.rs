//! The configuration in force: values, defaults, meanings.

use schemars::JsonSchema;
use serde::Serialize;

/// The configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "EffectiveConfiguration")]
pub struct Configuration {
    /// Its sections, in the order of the file.
    pub sections: Vec<ConfigSection>,
    /// Changes that reading the file again (SIGHUP) would make. Null: the file cannot be read, or
    /// the server was not started with one.
    pub changes: Option<Vec<ConfigChange>>,
    /// Problems of the file as it is now; null: none, or unknown.
    pub problem: Option<String>,
}

/// A section.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigSection {
    /// Its header in the file, such as `[limits]`.
    pub header: String,
    /// Purpose.
    pub about: String,
    /// Its keys.
    pub settings: Vec<ConfigSetting>,
}

/// A key of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// Its name.
    pub name: String,
    /// Its value in force, as in the file. Secrets are hidden.
    pub value: String,
    /// Its default in the same form; null: it has none.
    pub default: Option<String>,
    /// Whether the value is the default.
    pub is_default: bool,
    /// Allowed values.
    pub allowed: String,
    /// Meaning, and what happens at the limit.
    pub text: String,
    /// Whether a reload (SIGHUP) applies a change; otherwise it needs a restart.
    pub live: bool,
}

/// Effects that a reload would have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct ReloadPreview {
    /// The file that was read. Null: the server was started without one, and has its defaults.
    pub file: Option<String>,
    /// Changes that a reload or, where `live` is false, a restart would make.
    pub changes: Vec<ConfigChange>,
    /// Why a reload would be refused or would leave a part as it is: ports that are taken, files
    /// that cannot be used. Empty: it would succeed.
    pub problems: Vec<String>,
    /// Warnings, as `holdline check` prints them.
    pub warnings: Vec<String>,
}

/// Result of a reload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Reloaded {
    /// The file that was read. Null: the server was started without one, and has its defaults.
    pub file: Option<String>,
    /// Changes that are in force now.
    pub applied: Vec<ConfigChange>,
    /// Changes that take effect at the next restart: until then the old values are in force.
    pub needs_restart: Vec<ConfigChange>,
    /// Parts that could not follow: each keeps what it had.
    pub failed: Vec<FailedChange>,
    /// Warnings that `holdline check` prints for this configuration: certificates that expire
    /// within 30 days, for instance.
    pub warnings: Vec<String>,
}

/// A part of the server that could not follow a reload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FailedChange {
    /// A section, a key or a listener.
    pub what: String,
    /// Reason of the failure.
    pub error: String,
}

/// Whether the server is being drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct DrainState {
    /// New clients are refused, and `/readyz` and `/readyz/connections` answer 503.
    pub draining: bool,
    /// Time over which the connections are closed, milliseconds (`[limits] drain_ms`).
    pub drain_ms: u32,
}

/// A change that reading the file again would make, or has made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigChange {
    /// Section and key.
    pub key: String,
    /// The value in force. Secrets are hidden.
    pub old: String,
    /// The value in the file, in the same form.
    pub new: String,
    /// Whether a reload applies it; otherwise it needs a restart.
    pub live: bool,
}
