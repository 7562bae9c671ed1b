//! Descriptors: raising the limit, and refusing to start below the need.
//!
//! A full descriptor table does not look like refusals: the kernel completes handshakes until the
//! backlog is full and then drops SYNs in silence (research/push-and-load.md 5.2). So the need is
//! computed from what the configuration asks for, before anything listens.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;

/// Descriptors the process needs besides its connections: journal, API, pollers, log, libraries.
pub const OWN: u64 = 128;

/// Why the process must not start.
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
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limits.connections_max = {} needs {} descriptors, but this process may open {}. \
             Raise the limit (systemd: LimitNOFILE={}; shell: ulimit -n {}; container: --ulimit \
             nofile={}), or set limits.connections_max to {} or less",
            self.connections, self.need, self.limit, self.need, self.need, self.need, self.fit
        )
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
    Err(TooFew { need, limit, connections, fit })
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
    fn the_soft_limit_reaches_the_hard_one() {
        let limit = raise();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
