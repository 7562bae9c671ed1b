//! One node leads all logs: log 0 decides, the others follow its leader.
//!
//! Each log has a machine of its own, which claims when its leader is silent. If each claimed for
//! itself, two followers would lead some logs each, and no server can start on some of its logs. So
//! only log 0 is claimed by silence. A node that leads log 0 wants all others at once; a node that
//! does not has no proof to claim any. Nothing of this is a rule of safety: the stream of each log
//! is its fence, whoever claims. Invariant: a node that does not lead log 0 claims no other log.

use cluster::wire::table::LogEntry;
use model::id::NodeId;

/// The log that decides.
pub(crate) const FIRST: u16 = 0;

/// Whether the machine of a log may see the node's proof of a majority, without which it claims
/// nothing. A log that is open keeps it: it would be isolated without.
pub(crate) fn may_claim(log: u16, leads_first: bool, is_open: bool) -> bool {
    log == FIRST || leads_first || is_open
}

/// The table's value as the machine of a log is to see it: a log beside log 0 is wanted by the
/// leader of log 0, and by nobody else.
pub(crate) fn shown(log: u16, entry: &LogEntry, me: NodeId, leads_first: bool) -> LogEntry {
    match log {
        FIRST => entry.clone(),
        _ => LogEntry { wanted: leads_first.then_some(me), ..entry.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::batch::LogLeader;

    fn node(number: u16) -> NodeId {
        NodeId::new(number).expect("a node")
    }

    #[test]
    fn only_the_leader_of_log_0_claims_the_others() {
        for leads_first in [false, true] {
            assert!(may_claim(0, leads_first, false));
            assert_eq!(may_claim(1, leads_first, false), leads_first);
            assert!(may_claim(1, leads_first, true), "it is open, and not isolated");
        }
    }

    #[test]
    fn the_leader_of_log_0_wants_the_others_and_log_0_is_shown_as_it_is() {
        let leader = Some(LogLeader { node: node(2), boot: 1 });
        let wanted = Some(node(3));
        let entry = LogEntry { generation: 1, epoch: 4, leader, wanted, followers: vec![node(1)] };
        assert_eq!(shown(0, &entry, node(1), true), entry);
        assert_eq!(shown(5, &entry, node(1), true).wanted, Some(node(1)));
        assert_eq!(shown(5, &entry, node(1), false).wanted, None);
        let same = LogEntry { wanted, ..shown(5, &entry, node(1), true) };
        assert_eq!(same, entry, "nothing else differs");
    }
}
