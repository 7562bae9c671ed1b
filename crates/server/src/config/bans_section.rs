//! `[bans]`: addresses, clients and users that are refused, and the rules that ban by themselves.

use base::section;
use base::setting::{list, whole};
use model::link::network::IpNetwork;

section! {
    /// `[bans]`: who is refused, for a time or for good.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct BansSection {
        /// Bans at once, those of rules included. One more is refused (409), and a rule bans nobody
        /// more.
        @live max: u32 = 10_000, whole(0..=1_000_000, "bans");
        /// Failed logins of one address (of IPv6: of a /64) within the window after which it is
        /// banned; 0 is off. All clients behind one NAT have one address: choose more than they
        /// fail together when a password is changed. Clients of this machine, proxies and the
        /// networks of exempt are never banned by this rule.
        @live failed_logins_max: u32 = 0, whole(0..=10_000_000, "logins");
        /// The window.
        @live failed_logins_window_s: u32 = 600, whole(1..=86_400, "seconds");
        /// How long such an address is banned.
        @live failed_logins_ban_s: u32 = 3_600, whole(1..=31_536_000, "seconds");
        /// Disconnects of one client (MQTT) or device (MIOP) within the window after which it is
        /// banned; 0 is off. Disconnects that the server ordered do not count. A client that
        /// connects for each message flaps too: choose more than it sends.
        @live flapping_max: u32 = 0, whole(0..=10_000_000, "disconnects");
        /// The window.
        @live flapping_window_s: u32 = 60, whole(1..=86_400, "seconds");
        /// How long such a client is banned.
        @live flapping_ban_s: u32 = 300, whole(1..=31_536_000, "seconds");
        /// Addresses and networks that rules never ban: your offices, gateways and NATs. An
        /// operator can.
        @live exempt: Vec<String> = Vec::new(), list(
            256,
            "addresses and networks, such as \"10.0.0.7\" or \"10.0.0.0/8\"",
            |text| text.parse::<IpNetwork>().is_ok(),
        );
        /// Lines of the log a second that tell of failed logins, for fail2ban; 0 is none. Beyond,
        /// failed logins are only counted.
        @live login_lines_per_s: u32 = 20, whole(0..=10_000, "lines a second");
    }
}

impl BansSection {
    /// The networks of `exempt`.
    pub fn exempt_networks(&self) -> Vec<IpNetwork> {
        self.exempt.iter().filter_map(|text| text.parse().ok()).collect()
    }
}
