//! This server's name in the directory, and the address where others reach its API.
//!
//! The configured one, or the host's with whatever a name may not have replaced by `-`. It opens
//! one file of the kernel and asks nobody. Invariant: there is always a name.

use crate::config::Config;
use model::presence::NodeName;

/// Where the kernel says the host's name.
const HOST: &str = "/proc/sys/kernel/hostname";

/// Where a host has no name.
const NAMELESS: &str = "holdline";

/// The configured name, or the host's.
pub fn name(configured: &str) -> NodeName {
    let host = || std::fs::read_to_string(HOST).unwrap_or_default();
    NodeName::parse(configured).unwrap_or_else(|_| of_host(&host()))
}

/// Where other programs reach this server's API: as configured, or where it listens; empty: they
/// cannot, or it is not known where.
pub fn address(config: &Config, name: &NodeName) -> String {
    let (configured, api) = (&config.presence.address, &config.api);
    let (ip, port) = (api.address.ip(), api.address.port());
    match configured.as_str() {
        "" if !api.enabled || ip.is_loopback() => String::new(),
        "" if ip.is_unspecified() => format!("http://{name}:{port}"),
        "" => format!("http://{}", api.address),
        configured => configured.into(),
    }
}

fn of_host(host: &str) -> NodeName {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = host.trim().chars().map(allowed).take(NodeName::BYTES_MAX).collect();
    let name = if name.is_empty() { NAMELESS } else { &name };
    NodeName::parse(name).expect("cleaned names are allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_configured_one_or_where_others_reach_the_api() {
        let mut config = Config::default();
        let name = NodeName::parse("web-1").expect("a name");
        let mut of = |listens: &str, configured: &str| {
            config.api.address = listens.parse().expect("an address");
            config.presence.address = configured.into();
            address(&config, &name)
        };
        assert_eq!(of("127.0.0.1:7080", ""), "", "nobody else reaches it there");
        assert_eq!(of("0.0.0.0:7080", ""), "http://web-1:7080");
        assert_eq!(of("[::]:80", ""), "http://web-1:80");
        assert_eq!(of("192.0.2.7:7080", ""), "http://192.0.2.7:7080");
        assert_eq!(of("127.0.0.1:7080", "https://a.example/b"), "https://a.example/b");
        config.api.enabled = false;
        (config.api.address, config.presence.address) = (([0, 0, 0, 0], 80).into(), "".into());
        assert_eq!(address(&config, &name), "");
    }

    #[test]
    fn any_host_has_a_name_that_is_allowed() {
        assert_eq!(of_host("web-1.example\n").as_str(), "web-1.example");
        assert_eq!(of_host("web 1 (ü)").as_str(), "web-1----");
        assert_eq!(of_host("").as_str(), NAMELESS);
        assert_eq!(of_host(&"x".repeat(64)).as_str().len(), NodeName::BYTES_MAX);
        assert_eq!(name("chosen").as_str(), "chosen");
    }
}
