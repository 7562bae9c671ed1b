//! Causes of a simulated client's end, as the tester sees it: the only list.
//!
//! Every attempt to connect is open, or ended in one [`Phase`] with one [`Cause`]. Each cause has a
//! side (whose doing), a meaning, the setting that is likely to be wrong, and the counter that
//! shows it, so that no report ever says "timeout" and nothing else.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Side that caused an end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// This machine, or limits of the tester: not the target's fault.
    Tester,
    /// The server that is tested.
    Target,
    /// The network between the two, or either of them: the tester cannot know.
    Between,
    /// The tester's own wish: the plan says so, or the run is over.
    Plan,
}

impl Side {
    /// All sides.
    pub const ALL: [Side; 4] = [Side::Tester, Side::Target, Side::Between, Side::Plan];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Tester => "tester",
            Side::Target => "target",
            Side::Between => "between",
            Side::Plan => "plan",
        }
    }
}

/// How far a connection had come when it ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the TCP connection was established.
    Connect,
    /// TCP stood; TLS or WebSocket were not open.
    Layers,
    /// The layers were open; the Bind (CONNECT, first request) was not answered.
    Bind,
    /// Bound.
    Online,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 4] = [Phase::Connect, Phase::Layers, Phase::Bind, Phase::Online];

    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Connect => "connect",
            Phase::Layers => "layers",
            Phase::Bind => "bind",
            Phase::Online => "online",
        }
    }
}

/// Declares the causes once.
macro_rules! causes {
    ($(
        $variant:ident $name:literal $side:ident
        $meaning:literal $setting:literal $counter:literal;
    )+) => {
        /// Why a simulated client's connection failed or ended.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Cause { $(#[doc = $meaning] $variant,)+ }

        impl Cause {
            /// All causes, in the order of reports.
            pub const ALL: &'static [Cause] = &[$(Cause::$variant,)+];

            /// The name in reports, files and thresholds.
            pub const fn name(self) -> &'static str {
                match self { $(Cause::$variant => $name,)+ }
            }

            /// Side that causes such ends.
            pub const fn side(self) -> Side {
                match self { $(Cause::$variant => Side::$side,)+ }
            }

            /// Meaning of the cause, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Cause::$variant => $meaning,)+ }
            }

            /// The setting that is likely to be wrong; empty: none.
            pub const fn setting(self) -> &'static str {
                match self { $(Cause::$variant => $setting,)+ }
            }

            /// The counter that shows it; empty: none beside this count.
            pub const fn counter(self) -> &'static str {
                match self { $(Cause::$variant => $counter,)+ }
            }
        }
    };
}

causes! {
    NoDescriptors "no_descriptors" Tester
        "The tester's process cannot open more files (EMFILE)."
        "ulimit -n (RLIMIT_NOFILE) of the tester; more processes or agents" "tester.process.fds";
    NoSystemFiles "no_system_files" Tester
        "The tester's machine cannot open more files (ENFILE)."
        "fs.file-max" "tester.host.files_open";
    NoPorts "no_ports" Tester
        "No source port is left towards this address (EADDRNOTAVAIL, EADDRINUSE)."
        "net.ipv4.ip_local_port_range; more source addresses; more ports of the target"
        "tester.tcp.time_wait";
    NoBuffers "no_buffers" Tester
        "The tester's kernel has no memory for the socket (ENOBUFS, ENOMEM)."
        "memory; net.ipv4.tcp_mem; memory.max of the container" "tester.tcp.mem_pages";
    NoWatches "no_watches" Tester
        "No more sockets can be watched (ENOSPC)."
        "fs.epoll.max_user_watches" "";
    Forbidden "forbidden" Tester
        "The tester's kernel forbade the call: a filter, or a full table of connections (EPERM)."
        "nf_conntrack_max; firewall rules" "tester.conntrack.count";
    LocalError "local_error" Tester
        "Another error of the tester's kernel." "" "";
    NameUnknown "name_unknown" Between
        "The target's name has no address." "the name; the resolver" "";
    NoRoute "no_route" Between
        "No route to the target (ENETUNREACH, EHOSTUNREACH)."
        "routes; neighbour table gc_thresh" "";
    Refused "refused" Target
        "Connection refused: the target answered the SYN with a reset."
        "the target's listener; tcp_abort_on_overflow" "target.tcp.listen_drops";
    SynTimedOut "syn_timed_out" Between
        "No answer to the SYN in the plan's time: a full accept queue, or a lost packet."
        "the target's listen backlog and net.core.somaxconn; a paced arrival"
        "target.tcp.listen_overflows";
    TlsCertificate "tls_certificate" Target
        "The target's certificate was not trusted."
        "the authority given to the tester; the certificate's names and dates" "";
    TlsAlert "tls_alert" Target
        "The target refused the TLS handshake with an alert."
        "versions, ciphers, client certificates" "";
    TlsFailed "tls_failed" Target
        "The target did not answer with TLS." "the port: is it a TLS listener?" "";
    WebSocketRefused "web_socket_refused" Target
        "The target did not accept the WebSocket upgrade, or broke RFC 6455."
        "path and subprotocol" "";
    LayersTimedOut "layers_timed_out" Target
        "TLS or WebSocket did not finish in the plan's time." "the target's CPU" "target.cpu.busy";
    BindTimedOut "bind_timed_out" Target
        "Connected, but the Bind had no answer in the plan's time: often a server without file \
         descriptors, whose kernel still completes connections."
        "the target's ulimit -n; its CPU" "target.process.fds";
    BindRefused "bind_refused" Target
        "The target refused the Bind; the codes say why."
        "credentials; the target's limits" "";
    ProtocolViolation "protocol_violation" Target
        "The target violated its protocol." "is it the right port and scheme?" "";
    ClosedClean "closed_clean" Target
        "The target closed between two frames." "the target's log" "";
    ClosedMidFrame "closed_mid_frame" Target
        "The target closed inside a frame, or ended TLS without close_notify."
        "the target's log: did it die? does a proxy cut connections?" "";
    Reset "reset" Between
        "The connection was reset: the target died, closed with unread bytes, or a device between \
         forgot it."
        "the target's log; time-outs of load balancers" "target.tcp.out_resets";
    TransmitTimedOut "transmit_timed_out" Between
        "Sent bytes were never acknowledged by the other kernel (ETIMEDOUT)."
        "the network; tcp_retries2" "tester.tcp.retransmits";
    Kicked "kicked" Target
        "The target ended the session by its protocol's means; the codes say why."
        "two clients with one id?" "";
    Redirected "redirected" Target
        "The target asked the client to reconnect." "" "";
    HeartbeatLost "heartbeat_lost" Between
        "A heartbeat had no answer, and the client gave the connection up."
        "the target's CPU; the network" "";
    SlowReader "slow_reader" Target
        "The target did not read: the tester's output queue reached its limit."
        "the target's CPU; its flow control" "";
    Farewell "farewell" Plan
        "The client disconnected, as planned." "" "";
    Cut "cut" Plan
        "The tester cut the connection, as planned." "" "";
    RunOver "run_over" Plan
        "The run ended." "" "";
    Frozen "frozen" Plan
        "The target dropped a client that the tester had frozen or stopped reading for, as planned."
        "" "";
    PlannedFault "planned_fault" Plan
        "A planned fault ended it: the network by the fault proxy, or the target."
        "" "";
    AgentLost "agent_lost" Tester
        "It was open when its agent was lost: its end is unknown."
        "the agent's machine, and the network to it" "";
    Internal "internal" Tester
        "A defect of the tester; please report it." "" "";
}

impl Cause {
    /// Number of causes.
    pub const COUNT: usize = Self::ALL.len();

    /// The cause of this name.
    pub fn named(name: &str) -> Option<Cause> {
        Self::ALL.iter().copied().find(|cause| cause.name() == name)
    }

    /// Side that causes such ends where both ends are one machine: nothing lies between them.
    pub const fn side_here(self) -> Side {
        match (self, self.side()) {
            (Cause::NameUnknown | Cause::NoRoute, _) => Side::Tester,
            (_, Side::Between) => Side::Target,
            (_, side) => side,
        }
    }

    /// Whether it counts as an error: whatever the plan did not want.
    pub fn is_error(self) -> bool {
        self.side() != Side::Plan
    }
}

/// Ends by phase and cause.
#[derive(Clone, PartialEq, Eq)]
pub struct Causes([[u64; Cause::COUNT]; Phase::ALL.len()]);

impl fmt::Debug for Causes {
    /// Causes that occurred.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.iter().map(|(phase, cause, count)| ((phase, cause), count));
        f.debug_map().entries(ends).finish()
    }
}

impl Default for Causes {
    fn default() -> Self {
        Causes([[0; Cause::COUNT]; Phase::ALL.len()])
    }
}

impl Causes {
    /// Counts one end.
    pub fn count(&mut self, phase: Phase, cause: Cause) {
        self.0[phase as usize][cause as usize] += 1;
    }

    /// Ends in this phase with this cause.
    pub fn of(&self, phase: Phase, cause: Cause) -> u64 {
        self.0[phase as usize][cause as usize]
    }

    /// Ends with this cause, in whatever phase.
    pub fn all_of(&self, cause: Cause) -> u64 {
        self.0.iter().map(|phase| phase[cause as usize]).sum()
    }

    /// All ends.
    pub fn sum(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// All ends that the plan did not want.
    pub fn errors(&self) -> u64 {
        self.iter().filter(|(_, cause, _)| cause.is_error()).map(|(_, _, count)| count).sum()
    }

    /// Ends that were the doing of `side`.
    pub fn by_side(&self, side: Side) -> u64 {
        self.iter().filter(|(_, cause, _)| cause.side() == side).map(|(_, _, count)| count).sum()
    }

    /// Ends that were the doing of `side`, where both ends are one machine.
    pub fn by_side_here(&self, side: Side) -> u64 {
        let ends = self.iter().filter(|(_, cause, _)| cause.side_here() == side);
        ends.map(|(_, _, count)| count).sum()
    }

    /// Counts so many ends of a phase, at most, under another cause: how many there were.
    pub fn recount(&mut self, phase: Phase, from: Cause, to: Cause, most: u64) -> u64 {
        let row = &mut self.0[phase as usize];
        let moved = row[from as usize].min(most);
        row[from as usize] -= moved;
        row[to as usize] += moved;
        moved
    }

    /// Counts above zero, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, Cause, u64)> {
        let all = Phase::ALL.into_iter().flat_map(move |phase| {
            Cause::ALL.iter().map(move |&cause| (phase, cause, self.of(phase, cause)))
        });
        all.filter(|(_, _, count)| *count > 0)
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Causes) {
        for (mine, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *mine += theirs;
        }
    }

    /// Counts since `earlier`.
    pub fn since(&self, earlier: &Causes) -> Causes {
        let mut rest = self.clone();
        for (mine, theirs) in rest.0.iter_mut().flatten().zip(earlier.0.iter().flatten()) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest
    }
}

impl Serialize for Causes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named: BTreeMap<String, u64> = self
            .iter()
            .map(|(phase, cause, count)| (format!("{}.{}", phase.name(), cause.name()), count))
            .collect();
        named.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Causes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut causes = Causes::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            let unknown = || serde::de::Error::custom(format!("{name}: no cause of that name"));
            let (phase, cause) = name.split_once('.').ok_or_else(unknown)?;
            let phase = Phase::ALL.into_iter().find(|known| known.name() == phase);
            let (phase, cause) = phase.zip(Cause::named(cause)).ok_or_else(unknown)?;
            causes.0[phase as usize][cause as usize] = count;
        }
        Ok(causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_name_of_its_own_and_its_place() {
        let mut names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::COUNT);
        for (at, &cause) in Cause::ALL.iter().enumerate() {
            assert_eq!((cause as usize, Cause::named(cause.name())), (at, Some(cause)));
        }
    }

    #[test]
    fn sides_sum_up_and_a_tally_survives_a_file() {
        let mut causes = Causes::default();
        for phase in Phase::ALL {
            Cause::ALL.iter().for_each(|&cause| causes.count(phase, cause));
        }
        let sides = Side::ALL.map(|side| causes.by_side(side)).iter().sum::<u64>();
        assert_eq!((sides, causes.sum()), (causes.sum(), 4 * Cause::COUNT as u64));
        let text = serde_json::to_string(&causes).expect("plain values");
        assert_eq!(serde_json::from_str::<Causes>(&text).expect("its own words"), causes);
        assert!(serde_json::from_str::<Causes>(r#"{"connect.nothing": 1}"#).is_err());
        assert_eq!(causes.since(&causes).sum(), 0);
    }

    #[test]
    fn on_one_machine_nothing_lies_between_and_ends_can_be_told_apart() {
        let mut causes = Causes::default();
        for phase in Phase::ALL {
            Cause::ALL.iter().for_each(|&cause| causes.count(phase, cause));
        }
        assert_eq!(causes.by_side_here(Side::Between), 0);
        let sum = Side::ALL.map(|side| causes.by_side_here(side)).iter().sum::<u64>();
        assert_eq!(sum, causes.sum());
        assert_eq!(causes.recount(Phase::Online, Cause::Reset, Cause::PlannedFault, 7), 1);
        assert_eq!(causes.of(Phase::Online, Cause::Reset), 0);
        assert_eq!((causes.of(Phase::Online, Cause::PlannedFault), causes.sum()), (2, sum));
    }
}
