//! A node before anybody leads.

use super::*;
use crate::port::StreamPage;
use crate::rules::without;

const NAME: LogName = LogName { cluster: 1, log: 0 };

/// Runs a node whose disk is empty, with proof of a majority, whose table has this value, for 90
/// seconds beside an empty stream: what it wants.
fn alone(entry: Option<LogEntry>) -> Vec<LogCommand> {
    let me = LogLeader { node: NodeId::new(1).expect("a node"), boot: 1 };
    let mut replica = Replica::new(NAME, me, OwnLog::new([], 0));
    let (mut proof, peers) = (MajorityProof::default(), PeerBeats::default());
    let mut all = Vec::new();
    for tick in 0..900 {
        let now = Instant::from_nanos(tick * 100_000_000);
        if let Some(ask) = proof.tick(now) {
            proof.proved(ask);
        }
        let view = NodeView { now, proof: &proof, peers: &peers, copies_min: 1 };
        let mut out = Vec::new();
        if tick == 0 {
            let entry = entry.clone();
            replica.on(&view, LogEvent::Table { revision: 0, entry }, &mut out);
        }
        replica.on(&view, LogEvent::Tick, &mut out);
        for command in out {
            if let LogCommand::Read { ask, .. } = &command {
                let page = StreamPage { first: 1, last: 0, messages: Vec::new() };
                let event = LogEvent::Read { ask: *ask, result: Ok(page) };
                replica.on(&view, event, &mut all);
            }
            all.push(command);
        }
    }
    all
}

fn claims(commands: &[LogCommand]) -> bool {
    commands.iter().any(|it| matches!(it, LogCommand::Claim { .. }))
}

#[test]
fn an_empty_table_is_never_a_beginning() {
    let waits = alone(None);
    let told = LogCommand::Tell(LogNotice::WaitsForRecover);
    assert_eq!(waits, [told], "an operator is told, once");
    let rule = Rule::EmptyTableIsNoBeginning;
    assert!(claims(&without(rule, || alone(None))), "without the rule it begins");
}

#[test]
fn a_node_that_the_table_does_not_name_does_nothing() {
    let others = vec![NodeId::new(2).expect("a node")];
    let entry = LogEntry { generation: 1, followers: others, ..LogEntry::default() };
    assert!(alone(Some(entry)).is_empty());
    let me = vec![NodeId::new(1).expect("a node")];
    let entry = LogEntry { generation: 1, followers: me, ..LogEntry::default() };
    assert!(claims(&alone(Some(entry))));
}
