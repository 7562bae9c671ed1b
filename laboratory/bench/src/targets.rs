//! Targets of the figures: the part of the project's targets.
//!
//! The only list of them. It judges and measures nothing.

use crate::results::Verdict;

/// Target of one figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Target {
    /// The scenario.
    pub scenario: &'static str,
    /// The figure's name in it.
    pub figure: &'static str,
    /// Value that must be reached.
    pub floor: f64,
    /// The aim.
    pub stretch: f64,
}

const fn target(scenario: &'static str, figure: &'static str, floor: f64, stretch: f64) -> Target {
    Target { scenario, figure, floor, stretch }
}

/// All targets. Where the aim is above the floor more is better, else less.
pub const ALL: &[Target] = &[
    target("memory-plain", "user bytes a connection", 256.0, 112.0),
    target("memory-plain", "kernel bytes above a bare socket", 256.0, 208.0),
    target("memory-tls", "user bytes of TLS on top", 4_000.0, 3_600.0),
    target("memory-websocket", "user bytes a connection", 512.0, 200.0),
    target("echo", "ping ratio", 1.5, 1.1),
    target("echo", "report ratio", 1.5, 1.1),
    target("login", "ratio", 1.5, 1.2),
    target("fan-out", "p99 ratio", 10.0, 3.0),
    target("idle", "percent of a core", 2.0, 1.0),
    target("empty", "user memory", 16.0, 10.0),
    target("quiet", "percent of a core", 0.1, 0.1),
    target("console", "a page is open: percent of a core on top", 2.0, 0.5),
    target("push-ack", "pushes a second a core", 100_000.0, 250_000.0),
    target("push-ack", "pushes a second a core, streams", 100_000.0, 250_000.0),
    target("sim-1m", "server bytes a device", 256.0, 112.0),
    target("sim-10m", "server bytes a device", 256.0, 112.0),
    target("sim-10m", "bytes of the process", 3e9, 1.6e9),
    // A durable send of the instant messaging targets is more than an append, and holds one.
    target("log-append", "200 producers: appends a second a core", 30_000.0, 61_350.0),
    target("log-append", "pipelined: appends a second a core", 30_000.0, 61_350.0),
    // What an append to two costs, upkeep to its end, and a lone one beside a bare file.
    target("log-append", "200 producers, log: CPU", 7.0, 3.5),
    target("log-append", "pipelined, log: CPU", 7.0, 3.5),
    target("log-append", "lock step: rate of the log to bare", 0.85, 1.0),
    target("log-fanout", "to 100: rows a second a core", 600_000.0, 1e6),
    target("log-fanout", "to 1000: rows a second a core", 600_000.0, 1e6),
    target("log-posting", "to 100: rows a second a core", 600_000.0, 1e6),
    target("log-posting", "to 1000: rows a second a core", 600_000.0, 1e6),
    target("log-chat-send", "CPU", 15.0, 8.0),
    // Twenty-five and fifty times what Wildfire reports; W2 with its receivers online.
    target("im-w1", "sends a second a core", 30_000.0, 61_350.0),
    target("im-w1-pipelined", "sends a second a core", 30_000.0, 61_350.0),
    target("im-w2", "sends a second a core", 20_000.0, 43_450.0),
    target("im-w2-pipelined", "sends a second a core", 20_000.0, 43_450.0),
    // Fifty times what Wildfire reports of groups of a thousand; twice that is the aim.
    target("im-w3", "distributions a second a core", 437_500.0, 875_000.0),
    target("im-w4", "distributions a second a core", 437_500.0, 875_000.0),
    target("im-w5", "distributions a second a core", 437_500.0, 875_000.0),
    // Twelve and fifty times what Wildfire attempts in its chatrooms.
    target("im-w6", "deliveries a second a core", 400_000.0, 1_600_000.0),
    target("im-w7", "deliveries a second a core", 400_000.0, 1_600_000.0),
    target("im-w8", "deliveries a second a core", 400_000.0, 1_600_000.0),
    // An import of 200,003 accounts with keys for SCRAM, embedded; the aim is half of it.
    target("im-accounts-embedded", "imported, embedded", 10.0, 5.0),
    // Ten and fifty times 2,978 messages a second a core.
    target("log-pull", "hot tail, forwards, engine: CPU", 33.6, 6.7),
    target("log-pull", "page cache, forwards, engine: CPU", 33.6, 6.7),
    target("log-pull", "cold, forwards, engine: CPU", 33.6, 6.7),
    target("mqtt-memory", "no subscription: holdline", 256.0, 112.0),
    target("mqtt-memory", "one exact subscription: holdline", 400.0, 160.0),
    target("mqtt-memory", "one wildcard subscription: holdline", 400.0, 160.0),
    // Against the best of the peers that are installed here, in the same run: half, and a third.
    target("mqtt-shapes", "pair q0: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "pair q1: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "pair q2: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "fan-out q0: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "fan-out q1: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "fan-in q0: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "fan-in q1: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "share q1: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "fan-in q0, window 2: against the best peer", 0.5, 0.3333),
    target("mqtt-shapes", "share q1, window 2: against the best peer", 0.5, 0.3333),
    target("mqtt-latency", "lone q0: against the best peer", 1.0, 0.5),
    target("mqtt-latency", "lone q1: against the best peer", 1.0, 0.5),
    target("mqtt-latency", "lone q0 p50: against the best peer", 1.0, 0.5),
    target("mqtt-latency", "lone q1 p50: against the best peer", 1.0, 0.5),
    target("mqtt-kept", "rate of kept sessions against clean ones", 0.5, 0.8),
    target("mqtt-retained", "holdline: delivered", 1e6, 1e6),
    // A tenth of what Tigase says of itself; a fifth of the best of Prosody and ejabberd.
    target("xmpp", "holdline: user bytes a session, with 0 contacts", 1_000.0, 400.0),
    target("xmpp", "a message, archived: against the best peer", 0.2, 0.1),
    target("xmpp", "a message, not archived: against the best peer", 0.2, 0.1),
    // Tigase's mean of 25 ms, and four times it for all but one of a hundred.
    target("xmpp-tigase", "delivered, mean", 25_000.0, 5_000.0),
    target("xmpp-tigase", "delivered, p99", 100_000.0, 20_000.0),
    target("xmpp-tigase-mariadb", "delivered, mean", 25_000.0, 5_000.0),
    target("xmpp-tigase-mariadb", "delivered, p99", 100_000.0, 20_000.0),
    target("xmpp-tigase-whole", "delivered, mean", 25_000.0, 5_000.0),
    target("xmpp-tigase-whole", "delivered, p99", 100_000.0, 20_000.0),
    target("lab-clients", "holdline: memory", 512.0, 250.0),
    target("vm-mqtt", "devices held", 1e6, 1e6),
    target("vm-mqtt", "user bytes a connection", 400.0, 160.0),
    target("vm-mqtt", "errors", 0.0, 0.0),
    target("vm-mqtt", "back after the server was killed", 1e6, 1e6),
    target("vm-mqtt-kept", "devices held", 1e6, 1e6),
    target("vm-mqtt-kept", "errors", 0.0, 0.0),
    target("vm-mqtt-kept", "back after the server was killed", 1e6, 1e6),
    target("vm-mqtt-kept", "of them, sessions that went on", 1e6, 1e6),
    target("vm", "devices held", 1e6, 1e6),
    target("vm", "user bytes a connection", 256.0, 112.0),
    target("vm", "errors", 0.0, 0.0),
    target("vm", "back after the server was killed", 1e6, 1e6),
];

/// The target of a figure, if it has one.
pub fn of(scenario: &str, figure: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.scenario == scenario && target.figure == figure)
}

impl Target {
    /// How `value` stands to it.
    pub fn verdict(&self, value: f64) -> Verdict {
        let counts = [
            "devices held",
            "holdline: delivered",
            "back after the server was killed",
            "of them, sessions that went on",
        ];
        let more = self.stretch > self.floor || counts.contains(&self.figure);
        let reaches = |wanted: f64| if more { value >= wanted } else { value <= wanted };
        match (reaches(self.stretch), reaches(self.floor)) {
            (true, _) => Verdict::Stretch,
            (_, true) => Verdict::Floor,
            _ => Verdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_better_where_the_aim_is_lower() {
        let target = of("echo", "ping ratio").unwrap();
        assert_eq!(target.verdict(1.05), Verdict::Stretch);
        assert_eq!(target.verdict(1.5), Verdict::Floor);
        assert_eq!(target.verdict(1.51), Verdict::Missed);
        assert_eq!(target.verdict(f64::NAN), Verdict::Missed);
    }

    #[test]
    fn more_is_better_where_the_aim_is_higher() {
        let target = of("push-ack", "pushes a second a core").unwrap();
        assert_eq!(target.verdict(250_000.0), Verdict::Stretch);
        assert_eq!(target.verdict(100_000.0), Verdict::Floor);
        assert_eq!(target.verdict(99_999.0), Verdict::Missed);
        assert_eq!(of("vm", "devices held").unwrap().verdict(999_999.0), Verdict::Missed);
        let back = of("vm-mqtt-kept", "back after the server was killed").unwrap();
        assert_eq!(
            (back.verdict(1e6), back.verdict(999_999.0)),
            (Verdict::Stretch, Verdict::Missed)
        );
        assert_eq!(of("vm", "errors").unwrap().verdict(1.0), Verdict::Missed);
    }
}
