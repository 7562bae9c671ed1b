//! The configuration as the API shows it: what is in force, and what reading it again would change.
//!
//! Invariant: a secret never gets into it (`config/print.rs` hides it).

use crate::config::{Config, ConfigError, SettingChange};
use admin::{ConfigChange, Configuration};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads the configuration again, as it was read at the start.
pub type LoadConfig = Arc<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>;

/// Changes as the API tells them.
pub(in crate::start) fn changes(of: Vec<SettingChange>, live: bool) -> Vec<ConfigChange> {
    let told = |it: SettingChange| ConfigChange { key: it.key, old: it.old, new: it.new, live };
    of.into_iter().map(told).collect()
}

/// The configuration in force, shared by reloads and the API.
#[derive(Clone)]
pub(in crate::start) struct ShownConfig {
    in_force: Arc<Mutex<Config>>,
    load: Option<LoadConfig>,
}

impl ShownConfig {
    pub(in crate::start) fn new(config: Config, load: Option<LoadConfig>) -> ShownConfig {
        ShownConfig { in_force: Arc::new(Mutex::new(config)), load }
    }

    /// A reload changed it.
    pub(in crate::start) fn set(&self, config: Config) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// The configuration in force.
    pub(in crate::start) fn in_force(&self) -> Config {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file.
    pub(in crate::start) fn read(&self) -> Result<Config, String> {
        let load = self.load.as_ref().ok_or("the server was started without a configuration")?;
        load().map_err(|error| error.to_string())
    }

    /// Returns the configuration. Reads the file.
    pub(in crate::start) fn show(&self) -> Configuration {
        let in_force = self.in_force();
        let sections = in_force.shown();
        let (changed, problem) = match self.load.as_ref().map(|load| load()) {
            None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            Some(Ok(new)) => {
                let diff = in_force.diff(&new);
                let (live, restart) = (changes(diff.live, true), changes(diff.restart, false));
                (Some(live.into_iter().chain(restart).collect()), None)
            }
        };
        Configuration { sections, changes: changed, problem }
    }
}
