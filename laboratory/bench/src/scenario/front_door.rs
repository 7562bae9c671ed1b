//! The front door: what the pings of others feel of TLS handshakes.
//!
//! 500 devices a second come to a server of one shard, so that every ping meets the handshakes:
//! without TLS, with a full handshake each, and with one that goes on from an earlier session. The
//! pings are of a device that was there before, one after the other, on a blocking socket.

use super::{CALLER_CORE, SERVER_CORE, Scale};
use crate::caller::speech::Speech;
use crate::clock;
use crate::crowd::{Crowd, Layer};
use crate::holdline::{Holdline, Setup};
use crate::measure::{cpu, slope};
use crate::results::Outcome;
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEVICES_PER_S: u32 = 500;
const SPAN_S: u32 = 6;
/// Pause between two pings.
const PAUSE: Duration = Duration::from_millis(1);
/// Pings of the quiet server, before each kind of arrival.
const QUIET: u32 = 2_000;

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let devices = scale.of(DEVICES_PER_S * SPAN_S);
    let setup = Setup { shards: 1, core: Some(SERVER_CORE), tls: true, ..Setup::default() };
    let holdline = setup.start()?;
    let mut outcome = Outcome::new(json!({
        "devices": devices, "devices_per_s": DEVICES_PER_S, "pause_ms": PAUSE.as_millis(),
        "cores": [SERVER_CORE, CALLER_CORE], "holdline": holdline.plan(),
    }));
    let mut pinger = Pinger::connect(holdline.address)?;
    pinger.ping_while(|done| done < scale.of(QUIET) as usize)?; // warms up
    let kinds = [
        ("no TLS", Layer::None),
        ("full handshakes", Layer::TlsAfresh),
        ("resumed sessions", Layer::Tls),
    ];
    for (round, (name, layer)) in kinds.into_iter().enumerate() {
        let quiet = pinger.ping_while(|done| done < scale.of(QUIET) as usize)?;
        tell(&mut outcome, "quiet before", name, &quiet);
        let first = round as u32 * devices;
        let (beside, used) = beside(&holdline, &mut pinger, layer, (devices, first))?;
        tell(&mut outcome, "beside", name, &beside);
        let each = used.as_nanos() as f64 / 1e3 / f64::from(devices);
        outcome.figure(&format!("a login, {name}, pings included"), each, "µs of CPU");
    }
    Ok(outcome)
}

fn tell(outcome: &mut Outcome, when: &str, name: &str, latencies: &[f64]) {
    for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let value = slope::quantile(latencies, share);
        outcome.figure(&format!("{quantile} of a ping, {when} {name}"), value, "µs");
    }
    outcome.detail(&format!("pings, {when} {name}"), latencies.len() as u64);
}

/// Latencies of pings while devices come, and the CPU that the server used.
fn beside(
    holdline: &Holdline,
    pinger: &mut Pinger,
    layer: Layer,
    (devices, first): (u32, u32),
) -> io::Result<(Vec<f64>, Duration)> {
    let mut crowd = Crowd::start_on(holdline.address, layer, Some(CALLER_CORE))?;
    let over = AtomicBool::new(false);
    let before = cpu::used(holdline.pid())?;
    let latencies = std::thread::scope(|scope| {
        let come = || {
            let came = crowd.flow(devices, DEVICES_PER_S, first);
            over.store(true, Ordering::Relaxed);
            came
        };
        let thread = std::thread::Builder::new().name("crowd".into()).spawn_scoped(scope, come)?;
        let latencies = pinger.ping_while(|_| !over.load(Ordering::Relaxed))?;
        thread.join().map_err(|_| io::Error::other("the crowd failed"))??;
        Ok::<_, io::Error>(latencies)
    })?;
    Ok((latencies, cpu::used(holdline.pid())? - before))
}

/// A device that pings.
struct Pinger {
    stream: TcpStream,
    ping: Vec<u8>,
}

impl Pinger {
    fn connect(to: SocketAddr) -> io::Result<Pinger> {
        let (product, prefix) = ("probe".to_owned(), "pinger".to_owned());
        let speech = Speech::Miop { product, prefix, reports: false };
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let (mut hello, mut ping) = (Vec::new(), Vec::new());
        speech.hello(0, &mut hello);
        speech.message(1, &mut ping);
        stream.write_all(&hello)?;
        let mut pinger = Pinger { stream, ping };
        pinger.hear()?; // the answer to the Bind
        Ok(pinger)
    }

    /// Latencies of pings, microseconds, as long as `more` of so many.
    fn ping_while(&mut self, more: impl Fn(usize) -> bool) -> io::Result<Vec<f64>> {
        let mut latencies = Vec::new();
        while more(latencies.len()) {
            let began = clock::now();
            self.stream.write_all(&self.ping)?;
            self.hear()?;
            latencies.push(clock::since(began).as_nanos() as f64 / 1e3);
            std::thread::sleep(PAUSE);
        }
        Ok(latencies)
    }

    /// One answer: it is shorter than a segment, and nothing else is sent to this device.
    fn hear(&mut self) -> io::Result<()> {
        match self.stream.read(&mut [0; 256])? {
            0 => Err(io::Error::other("the server closed the pinger's connection")),
            _ => Ok(()),
        }
    }
}
