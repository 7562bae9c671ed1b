//! SIGTERM and SIGINT let everybody go, a second one ends at once; SIGHUP reloads.

use crate::config::Config;
use crate::start::Running;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;

/// Serves until a signal says otherwise, then returns when everything is closed.
pub fn serve(mut running: Running, file: Option<&Path>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let handle = signals.handle();
    for signal in signals.forever() {
        match signal {
            SIGHUP => reload(&mut running, file),
            _ => break,
        }
    }
    handle.close();
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

fn reload(running: &mut Running, file: Option<&Path>) {
    match Config::load(file, crate::config::environment()) {
        Ok(new) => running.reload(new),
        Err(error) => {
            tracing::error!("the new configuration is refused, the old one stays:\n{error}");
        }
    }
}
