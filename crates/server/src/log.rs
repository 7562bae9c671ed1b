//! The log's printer: to standard error, as text or JSON, with a filter that can be changed.

use crate::config::{Config, LogFormat};
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

type Change = Box<dyn Fn(EnvFilter) + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Starts the log. It can be started once in a process.
pub fn start(config: &Config) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.server.log))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let change: Change = match config.server.log_format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| told(handle.reload(filter)))
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| told(handle.reload(filter)))
        }
    };
    let _ = CHANGE.set(change); // it is set once, for the log is started once
}

/// Changes what is logged.
pub fn change(log: &str) {
    if let Some(change) = CHANGE.get() {
        change(filter(log));
    }
}

fn filter(log: &str) -> EnvFilter {
    EnvFilter::try_new(log).unwrap_or_else(|_| EnvFilter::new("info"))
}

fn told(changed: Result<(), tracing_subscriber::reload::Error>) {
    if let Err(error) = changed {
        tracing::error!(%error, "the log's filter is what it was");
    }
}
