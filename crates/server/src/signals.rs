//! SIGTERM and SIGINT let everybody go, a second one ends at once; SIGHUP reloads.

use crate::config::{Config, ConfigError};
use crate::start::RunningServer;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals that are caught from now on, and wait until somebody serves.
pub struct Caught(Signals);

/// Catches the signals. To be called before anybody can know that the server is there.
pub fn catch() -> std::io::Result<Caught> {
    Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Caught)
}

/// Serves until a signal says otherwise, then returns when everything is closed. `load` reads the
/// configuration again, as it was read at the start.
pub fn serve(
    mut caught: Caught,
    mut running: RunningServer,
    load: impl Fn() -> Result<Config, ConfigError>,
) -> std::io::Result<()> {
    running.tell_ready();
    for signal in caught.0.forever() {
        if signal != SIGHUP {
            break;
        }
        running.tell_reloading();
        match load() {
            Ok(new) => running.reload(new),
            Err(error) => {
                tracing::error!("the new configuration is refused, the old one stays:\n{error}");
            }
        }
        running.tell_ready();
    }
    // From here on a further signal has its default effect: an end at once.
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_default(signal, always())?;
    }
    let ms = running.config().limits.drain_ms;
    tracing::info!(ms, "draining: no new connections, the others are let go over this time");
    running.drain();
    running.join();
    tracing::info!("stopped");
    Ok(())
}

fn always() -> std::sync::Arc<std::sync::atomic::AtomicBool> {
    std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true))
}
