//! The configuration in force, as the roof tells it: values, defaults, what they mean.

use schemars::JsonSchema;
use serde::Serialize;

/// The configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Configuration {
    /// Its sections, in the order of the file.
    pub sections: Vec<ConfigSection>,
    /// What reading it again (SIGHUP) would change. Null: it cannot be read, or this server was
    /// not started from a file.
    pub changes: Option<Vec<ConfigChange>>,
    /// What is wrong with the file as it is now; null: nothing, or nobody knows.
    pub problem: Option<String>,
}

/// A section.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigSection {
    /// As it stands in the file: `[limits]`.
    pub header: String,
    /// What it is about.
    pub about: String,
    /// Its keys.
    pub settings: Vec<ConfigSetting>,
}

/// A key of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    /// Its name.
    pub name: String,
    /// Its value in force, as it would stand in the file. A secret is hidden.
    pub value: String,
    /// Its default, likewise; null: it has none.
    pub default: Option<String>,
    /// Whether the value is the default.
    pub is_default: bool,
    /// What values it takes.
    pub allowed: String,
    /// What it is, and what happens at it.
    pub text: String,
    /// Whether a reload (SIGHUP) follows a change; else it waits for a restart.
    pub live: bool,
}

/// What reading the file again would change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ConfigChange {
    /// Section and key.
    pub key: String,
    /// The value in force. A secret is hidden.
    pub old: String,
    /// The one in the file, likewise.
    pub new: String,
    /// Whether a reload follows; else it waits for a restart.
    pub live: bool,
}
