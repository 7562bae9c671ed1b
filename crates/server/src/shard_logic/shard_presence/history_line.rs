//! A line of the history: a transition, or which start of which node wrote the lines behind it.
//!
//! Lines are JSON, so that an operator's own tools read them. The key stands first: whoever looks
//! for a principal compares the beginnings of lines.

use model::ports::presence::directory::Lease;
use model::ports::presence::queries::PastTransition;
use model::presence::{NodeName, OnlineState, PresenceVersion, Principal, Transition};
use serde_json::{Value, json};
use std::fmt::Write;

/// Appends a transition.
pub fn put(transition: &Transition, lines: &mut String) {
    let Transition { who, user, state, protocol, peer, version } = transition;
    let written = write!(
        lines,
        "{}\"version\":\"{version}\",\"online\":{},\"protocol\":\"{protocol}\"",
        beginning(who),
        state.is_online(),
    );
    written.expect("text takes what is written");
    if let OnlineState::Offline(reason) = state {
        write!(lines, ",\"reason\":\"{}\"", reason.name()).expect("likewise");
    }
    if let Some(peer) = peer {
        write!(lines, ",\"peer\":\"{peer}\"").expect("likewise");
    }
    if let Some(user) = user {
        write!(lines, ",\"user\":{}", Value::from(&**user)).expect("likewise");
    }
    lines.push_str("}\n");
}

/// How the lines of a principal begin.
pub fn beginning(who: &Principal) -> String {
    format!("{{\"key\":{},", Value::from(&*who.key()))
}

/// The line that says who writes what is behind it.
pub fn head(lease: &Lease) -> String {
    let boot = format!("{:x}", lease.boot);
    format!("{}\n", json!({ "node": lease.node.as_str(), "boot": boot }))
}

/// Writer of the lines behind this one, if it names one.
pub fn read_head(line: &[u8]) -> Option<Lease> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let boot = u64::from_str_radix(line["boot"].as_str()?, 16).ok()?;
    Some(Lease { node: NodeName::parse(line["node"].as_str()?).ok()?, boot })
}

/// The transition of a line, which this node wrote.
pub fn read(line: &[u8], lease: &Lease) -> Option<PastTransition> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| line[name].as_str();
    Some(PastTransition {
        version: PresenceVersion(u64::from_str_radix(text("version")?, 16).ok()?),
        online: line["online"].as_bool()?,
        protocol: text("protocol")?.into(),
        reason: text("reason").map(Into::into),
        peer: text("peer").and_then(|peer| peer.parse().ok()),
        user: text("user").map(Into::into),
        lease: lease.clone(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::close::CloseReason;

    pub(crate) fn who(key: &str) -> Principal {
        Principal::parse(key).expect("a key")
    }

    pub(crate) fn lease(boot: u64) -> Lease {
        Lease { node: NodeName::parse("node-1").expect("a name"), boot }
    }

    pub(crate) fn came(key: &str, version: u64) -> Transition {
        Transition {
            who: who(key),
            user: None,
            state: OnlineState::Online("miop7"),
            protocol: "miop7",
            peer: Some("192.0.2.7:4711".parse().expect("an address")),
            version: PresenceVersion(version),
        }
    }

    pub(crate) fn went(key: &str, version: u64) -> Transition {
        let state = OnlineState::Offline(CloseReason::KeepAliveTimeout);
        Transition { state, peer: None, ..came(key, version) }
    }

    #[test]
    fn a_transition_is_its_line() {
        let odd = "#a \"quoted\"\n{\"key\": ü";
        let one = Transition { user: Some("ann \"x\"\n".into()), ..came(odd, 0x1234) };
        let mut lines = String::new();
        put(&one, &mut lines);
        put(&went("shop#till-7", 5), &mut lines);
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let mut lines = lines.lines();
        let line = lines.next().expect("the first");
        assert!(line.starts_with(&beginning(&who(odd))), "{line}");
        assert_eq!(
            read(line.as_bytes(), &lease(7)),
            Some(PastTransition {
                version: PresenceVersion(0x1234),
                online: true,
                protocol: "miop7".into(),
                reason: None,
                peer: one.peer,
                user: Some("ann \"x\"\n".into()),
                lease: lease(7),
            })
        );
        assert_eq!(
            lines.next(),
            Some(
                "{\"key\":\"shop#till-7\",\"version\":\"0000000000000005\",\"online\":false,\
                 \"protocol\":\"miop7\",\"reason\":\"keep_alive_timeout\"}"
            )
        );
        assert_eq!(read_head(head(&lease(0xfe)).as_bytes()), Some(lease(0xfe)));
        assert_eq!((read_head(line.as_bytes()), read(b"{\"key\":", &lease(1))), (None, None));
    }
}
