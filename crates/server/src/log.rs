//! The log's printer: to standard error, as text or JSON.

use crate::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

/// Starts the log. It can be started once in a process.
pub fn start(config: &Config) {
    let filter = EnvFilter::try_new(&config.server.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match config.server.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}
