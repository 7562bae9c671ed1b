//! The hand that breaks things during a run: processes, Redis and the network by the fault proxy.
//!
//! The hand knows which fault is active and ends it when told. The invariant: it touches only
//! processes and networks that the plan names.

use super::parts::{Broken, FaultInjector};
use crate::fault::{ActiveFault, FaultRunner};
use crate::proxy::Proxy;
use lab::plan::{FaultKind, Target};
use std::net::SocketAddr;

/// The hand.
pub struct Hand {
    faults: FaultRunner,
    standing: Vec<(FaultKind, ActiveFault)>,
}

impl Hand {
    /// For what `target` names, and this proxy if there is one.
    pub fn new(target: &Target, proxy: Option<Proxy>) -> Hand {
        Hand { faults: FaultRunner::new(target, proxy), standing: Vec::new() }
    }
}

/// A fault proxy on loopback in front of these addresses.
pub fn proxy(to: &[SocketAddr]) -> Result<Proxy, String> {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Proxy::start(listen, to.to_vec()).map_err(|error| format!("the fault proxy: {error}"))
}

impl FaultInjector for Hand {
    fn begin(&mut self, what: &FaultKind) -> Result<String, String> {
        let (standing, words) = self.faults.begin(what)?;
        self.standing.push((what.clone(), standing));
        Ok(words)
    }

    fn end(&mut self, what: &FaultKind) -> Option<Result<String, String>> {
        let at = self.standing.iter().position(|(known, _)| known == what)?;
        let (_, standing) = self.standing.remove(at);
        let ended = self.faults.end(standing);
        // What had nothing to put right has nothing to say.
        (ended.as_deref() != Ok("")).then_some(ended)
    }

    fn broken(&mut self) -> Broken {
        let counts = self.faults.proxy().and_then(|proxy| proxy.counts().ok()).unwrap_or_default();
        Broken { resets: counts.reset + counts.refused, closed: counts.truncated }
    }
}
