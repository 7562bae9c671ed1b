//! The configuration as the API shows it: what is in force, and what reading it again would change.
//!
//! Invariant: a secret never gets into it (`config/print.rs` hides it).

use crate::config::{Config, ConfigError};
use admin::{ConfigChange, Configuration};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads the configuration again, as it was read at the start.
pub type LoadConfig = Arc<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>;

/// What is in force, shared between who reloads and who shows.
#[derive(Clone)]
pub(super) struct ShownConfig {
    in_force: Arc<Mutex<Config>>,
    load: Option<LoadConfig>,
}

impl ShownConfig {
    pub(super) fn new(config: Config, load: Option<LoadConfig>) -> ShownConfig {
        ShownConfig { in_force: Arc::new(Mutex::new(config)), load }
    }

    /// A reload changed it.
    pub(super) fn set(&self, config: Config) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// All of it. Reads the file.
    pub(super) fn show(&self) -> Configuration {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sections = in_force.shown();
        let (changes, problem) = match self.load.as_ref().map(|load| load()) {
            None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            Some(Ok(new)) => {
                let changes = in_force.diff(&new);
                let told = |live| {
                    move |it: crate::config::SettingChange| ConfigChange {
                        key: it.key,
                        old: it.old,
                        new: it.new,
                        live,
                    }
                };
                let restart = changes.restart.into_iter().map(told(false));
                (Some(changes.live.into_iter().map(told(true)).chain(restart).collect()), None)
            }
        };
        Configuration { sections, changes, problem }
    }
}
