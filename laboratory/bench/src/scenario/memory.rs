//! Memory of an idle connection: the server's own as a slope, the kernel's beside a bare socket's.
//!
//! Connections are opened in five steps and nothing is sent on them afterwards. The kernel's
//! memory is that of both ends; the same caller first opens as many to `floor hold`, which accepts
//! and does not watch, and the difference is what Holdline's end costs beyond a bare socket. TLS
//! and WebSocket are opened by a fleet, whose ends cost the kernel more than a caller's: their
//! kernel memory is not split.

use super::Scale;
use crate::caller::orders::Remote;
use crate::caller::speech::Speech;
use crate::child::Child;
use crate::crowd::{self, Crowd};
use crate::holdline::{Holdline, Setup};
use crate::measure::memory::Memory;
use crate::measure::slab::{self, Slabs};
use crate::measure::slope::{self, Slope};
use crate::results::Outcome;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;

const STEP: u32 = 3_000;
const STEPS: u32 = 5;
const WINDOW: u32 = 100;
/// Pause after the last Bind of a step, before memory is read: longer than `bind_ms_max`, whose
/// timers are not part of an idle connection.
const SETTLE: Duration = Duration::from_secs(12);

/// Memory after each step of one program.
struct Growth {
    counts: Vec<u32>,
    memory: Vec<Memory>,
    user: Slope,
    /// Memory of the kernel, of both ends; absent when slabinfo may not be read.
    kernel: Option<slab::Growth>,
}

/// Plain TCP, beside bare sockets.
pub fn plain(scale: Scale) -> io::Result<Outcome> {
    let mut floor = Child::again(&["floor", "hold"], None)?;
    let to = floor.ready()?.parse().map_err(io::Error::other)?;
    let bare = grow(floor.pid(), scale, Remote::start(to, &Speech::Mute, None)?)?;
    drop(floor);
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(plan(&holdline, scale));
    let plain = grow_plain(&holdline, scale)?;
    outcome.figure("user bytes a connection", plain.user.each, "bytes");
    if let (Some(bare), Some(plain)) = (&bare.kernel, &plain.kernel) {
        outcome.figure("kernel bytes above a bare socket", plain.above(bare), "bytes");
        outcome.figure("kernel bytes of a bare accepted socket", bare.either_end(), "bytes");
        outcome.figure("kernel bytes of a bare connection, both ends", bare.total(), "bytes");
    }
    details(&mut outcome, "", &plain);
    details(&mut outcome, "bare ", &bare);
    Ok(outcome)
}

/// TLS 1.3, beside plain TCP.
pub fn tls(scale: Scale) -> io::Result<Outcome> {
    let setup = Setup { tls: true, ..Setup::default() };
    let plain = grow_plain(&setup.start()?, scale)?;
    let holdline = setup.start()?;
    let mut outcome = Outcome::new(plan(&holdline, scale));
    let crowd = Crowd::start(holdline.address, crowd::Layer::Tls)?;
    let tls = grow(holdline.pid(), scale, crowd)?;
    outcome.figure("user bytes of TLS on top", tls.user.each - plain.user.each, "bytes");
    outcome.figure("user bytes a connection", tls.user.each, "bytes");
    details(&mut outcome, "", &tls);
    details(&mut outcome, "plain ", &plain);
    Ok(outcome)
}

/// WebSocket without TLS.
pub fn websocket(scale: Scale) -> io::Result<Outcome> {
    let holdline = Setup::default().start()?;
    let mut outcome = Outcome::new(plan(&holdline, scale));
    let crowd = Crowd::start(holdline.address, crowd::Layer::WebSocket)?;
    let websocket = grow(holdline.pid(), scale, crowd)?;
    outcome.figure("user bytes a connection", websocket.user.each, "bytes");
    details(&mut outcome, "", &websocket);
    Ok(outcome)
}

/// Opener of connections.
trait Opener {
    /// Opens `count` more, for the devices from `first` on.
    fn open(&mut self, count: u32, first: u32) -> io::Result<()>;
}

impl Opener for Remote {
    fn open(&mut self, count: u32, first: u32) -> io::Result<()> {
        Remote::open(self, count, WINDOW, first)
    }
}

impl Opener for Crowd {
    fn open(&mut self, count: u32, first: u32) -> io::Result<()> {
        Crowd::open(self, count, WINDOW, first)
    }
}

fn grow_plain(holdline: &Holdline, scale: Scale) -> io::Result<Growth> {
    let (product, prefix) = ("demo".to_owned(), "mem".to_owned());
    let speech = Speech::Miop { product, prefix, reports: false };
    grow(holdline.pid(), scale, Remote::start(holdline.address, &speech, None)?)
}

fn grow(pid: u32, scale: Scale, mut opener: impl Opener) -> io::Result<Growth> {
    let step = scale.of(STEP);
    let (mut counts, mut memory) = (Vec::new(), Vec::new());
    let mut slabs: Vec<Option<Slabs>> = Vec::new();
    for at in 0..STEPS {
        opener.open(step, at * step)?;
        std::thread::sleep(SETTLE);
        counts.push((at + 1) * step);
        memory.push(Memory::of(pid)?);
        slabs.push(slab::read()?);
    }
    let point = |(count, memory): (&u32, &Memory)| (f64::from(*count), memory.private_dirty as f64);
    let points: Vec<(f64, f64)> = counts.iter().zip(&memory).map(point).collect();
    let known: Option<Vec<Slabs>> = slabs.into_iter().collect();
    let kernel = known
        .map(|slabs| slab::Growth::over(&counts.iter().copied().zip(slabs).collect::<Vec<_>>()));
    Ok(Growth { counts, memory, user: slope::through(&points), kernel })
}

fn plan(holdline: &Holdline, scale: Scale) -> Value {
    json!({
        "connections": (1..=STEPS).map(|at| at * scale.of(STEP)).collect::<Vec<_>>(),
        "device_id_bytes": 16, "window": WINDOW, "settle_ms": SETTLE.as_millis(),
        "user_memory": "Private_Dirty", "huge_pages": false, "holdline": holdline.plan(),
    })
}

fn details(outcome: &mut Outcome, prefix: &str, growth: &Growth) {
    outcome.figure(&format!("{prefix}R² of the slope"), growth.user.r2, "");
    outcome.figure(&format!("{prefix}fixed user memory"), growth.user.fixed / 1024.0, "KiB");
    let of = |figure: fn(&Memory) -> u64| growth.memory.iter().map(figure).collect::<Vec<_>>();
    let told = json!({
        "connections": growth.counts,
        "private_dirty": of(|memory| memory.private_dirty),
        "pss": of(|memory| memory.pss),
        "rss": of(|memory| memory.rss),
        "user_bytes_a_connection": growth.user.each,
        "kernel_bytes_a_connection_both_ends": growth.kernel.as_ref().map(slab::Growth::shown),
        "noisy_caches": growth.kernel.as_ref().map(|kernel| &kernel.noisy),
    });
    outcome.detail(&format!("{prefix}steps"), told);
}
