//! Instant messaging beside Wildfire's and others' own tests: accounts, archive, pulls, logins,
//! memory, pushes and media, and Tigase's test of XMPP.
//!
//! The server is the shipped one, on a core of its own where CPU is measured; what speaks to it is
//! on the other. Messages between people are measured beside this, by a plan of `holdline load`.
//! Invariant: what was acknowledged is looked for and found, or there is no figure.

pub mod accounts;
mod archive;
pub mod gateway;
mod mariadb;
mod media;
mod people;
mod person;
mod pull;
mod push;
mod sync;
pub mod tigase;
mod wukongim;

use crate::clock;
use crate::holdline::Holdline;
use crate::measure::cpu;
use std::io;
use std::time::Duration;

pub use archive::w1_mariadb;
pub use media::run as media;
pub use people::memory;
pub use pull::run as pull;
pub use push::run as push;
pub use sync::run as login_sync;
pub use wukongim::api as wukongim_api;

/// A server is at rest when it uses less of a core than this in [`LOOK`], twice in a row. A build
/// that is not optimised, as tests use it, needs more for its timers, above all on a busy machine.
const REST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10 } else { 2 });
const LOOK: Duration = Duration::from_millis(200);
/// Longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a server is at rest; an error if it never is.
fn rest(server: &Holdline) -> io::Result<()> {
    rest_of(server.pid())
}

/// As [`rest`], for any process.
fn rest_of(pid: u32) -> io::Result<()> {
    let began = clock::now();
    let mut quiet = 0;
    while quiet < 2 {
        if clock::since(began) > PATIENCE {
            return Err(io::Error::other("the server does not come to rest"));
        }
        let before = cpu::used(pid)?;
        std::thread::sleep(LOOK);
        // A thread that has ended takes its time along.
        let used = cpu::used(pid)?.saturating_sub(before);
        quiet = if used < REST { quiet + 1 } else { 0 };
    }
    Ok(())
}
