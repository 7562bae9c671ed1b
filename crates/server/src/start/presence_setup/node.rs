//! This server's name in the directory.
//!
//! The configured one, or the host's with whatever a name may not have replaced by `-`. It opens
//! one file of the kernel and asks nobody. Invariant: there is always a name.

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
    fn any_host_has_a_name_that_is_allowed() {
        assert_eq!(of_host("web-1.example\n").as_str(), "web-1.example");
        assert_eq!(of_host("web 1 (ü)").as_str(), "web-1----");
        assert_eq!(of_host("").as_str(), NAMELESS);
        assert_eq!(of_host(&"x".repeat(64)).as_str().len(), NodeName::BYTES_MAX);
        assert_eq!(name("chosen").as_str(), "chosen");
    }
}
