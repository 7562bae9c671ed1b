//! Figures of a machine, a process and a server under load.
//!
//! One door: the kernel's files under /proc and /sys, its list of listeners, and a server's page of
//! metrics. [`ObservedHost`], [`Process`] and [`Scrape`] each give a [`lab::series::Reading`] a
//! call; [`doctor`] says whether a machine is fit for so many connections; [`environment`] what it
//! is.
//!
//! This crate reads no clock, starts no thread and knows neither plan nor client. The invariants:
//! no call costs more because there are more connections; whatever a file holds, nothing panics; a
//! figure that cannot be read is absent, never zero.
#![doc = ""]
#![doc = include_str!("../../../docs/counters.md")]

pub mod columns;
pub mod doctor;
mod environment;
#[cfg(test)]
mod folder;
mod host;
mod lines;
mod listeners;
mod place;
mod process;
mod scrape;
#[cfg(test)]
mod tests;

pub use environment::{environment, environment_at};
pub use host::ObservedHost;
pub use listeners::{ListeningSocket, of as listeners};
pub use place::KernelFiles;
pub use process::Process;
pub use scrape::Scrape;

/// The folder of the network's counters that hold for a process: they are its network namespace's.
fn network_of(place: &KernelFiles, pid: Option<u32>) -> String {
    let Some(pid) = pid else { return "proc/net".to_owned() };
    let namespace = |who: &str| place.link(&format!("proc/{who}/ns/net"));
    match namespace(&pid.to_string()) {
        Some(its) if namespace("self") != Some(its.clone()) => format!("proc/{pid}/net"),
        _ => "proc/net".to_owned(),
    }
}
