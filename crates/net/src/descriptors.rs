//! Descriptors: raising the limit, and refusing to start below the need.
//!
//! A full descriptor table does not look like refusals: the kernel completes handshakes until the
//! backlog is full and then drops SYNs in silence (research/push-and-load.md 5.2). So the need is
//! computed from what the configuration asks for, before anything listens.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;

/// Descriptors the process needs besides its connections: logs, API, pollers, log, libraries.
pub const OWN: u64 = 128;

/// Shortage of descriptors, for which the process must not start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooFew {
    /// Descriptors needed.
    pub need: u64,
    /// Descriptors this process may have, after raising its soft limit.
    pub limit: u64,
    /// Connections asked for.
    pub connections: u64,
    /// Connections that would fit.
    pub fit: u64,
    /// Descriptors for the crowd that only gets BUSY, and spare ones.
    pub besides: (u64, u64),
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fit == 0 {
            return self.nobody(f);
        }
        write!(
            f,
            "limits.connections_max = {} needs {} descriptors, but this process may open {}. \
             Raise the limit (systemd: LimitNOFILE={}; shell: ulimit -n {}; container: --ulimit \
             nofile={}), or set limits.connections_max to {} or less",
            self.connections, self.need, self.limit, self.need, self.need, self.need, self.fit
        )
    }
}

impl TooFew {
    /// Advice where not one connection would fit: there is no number of them to name.
    fn nobody(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (crowd, spare) = self.besides;
        let base = crowd + spare + OWN;
        write!(
            f,
            "this process may open {} descriptors, but {base} are needed before the first \
             connection: {crowd} for limits.crowd_max, {spare} for server.descriptors_spare, {OWN} \
             of its own. Raise the limit to {} or more (systemd: LimitNOFILE=; shell: ulimit -n; \
             container: --ulimit nofile=)",
            self.limit,
            base + self.connections.max(64)
        )?;
        // Half of what is left for the crowd leaves the other half for connections.
        match self.limit.saturating_sub(spare + OWN) / 2 {
            0 => Ok(()),
            crowd => write!(f, ", or set limits.crowd_max to {crowd} or less"),
        }
    }
}

/// Raises the soft limit to the hard one and returns it.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let now = if raised { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// Checks that `connections`, `crowd` beyond them and `spare` descriptors fit under `limit`.
pub fn check(connections: u64, crowd: u64, spare: u64, limit: u64) -> Result<(), TooFew> {
    let need = connections + crowd + spare + OWN;
    if need <= limit {
        return Ok(());
    }
    let fit = limit.saturating_sub(crowd + spare + OWN);
    Err(TooFew { need, limit, connections, fit, besides: (crowd, spare) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_is_told_with_the_remedy() {
        assert_eq!(check(1_000, 256, 64, 2_000), Ok(()));
        let too_few = check(20_000, 256, 64, 20_000).expect_err("20448 are needed");
        assert_eq!((too_few.need, too_few.fit), (20_448, 19_552));
        let text = too_few.to_string();
        assert!(text.contains("LimitNOFILE=20448") && text.contains("19552 or less"), "{text}");
    }

    #[test]
    fn advice_is_what_can_be_done() {
        let text = check(1, 256, 64, 300).expect_err("449 are needed").to_string();
        assert!(text.contains("300 descriptors, but 448 are needed before"), "{text}");
        assert!(
            text.contains("to 512 or more") && text.contains("crowd_max to 54 or less"),
            "{text}"
        );
        assert!(!text.contains("connections_max"), "{text}");
        assert_eq!(check(54, 54, 64, 300), Ok(()), "the advice holds");
        let hopeless = check(1, 256, 64, 150).expect_err("too few").to_string();
        assert!(!hopeless.contains("crowd_max to"), "{hopeless}");
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let limit = raise();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
