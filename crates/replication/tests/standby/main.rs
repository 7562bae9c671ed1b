//! Nodes of a cluster over real NATS and real folders, in one process: who leads writes, who
//! follows takes over.

mod node;
mod proxy;

use node::{Node, TEST};
use replication::operations::{NewNode, Operations};
use replication::{ClusterNotice, LeaveReason};
use testkit::nats::NatsServers;

fn operations(nats: &NatsServers) -> Operations {
    let settings = nats::NatsSettings { servers: nats.addresses(), ..Default::default() };
    Operations::connect(&settings, "test").expect("NATS answers")
}

fn new_node(name: &str) -> NewNode {
    NewNode { node: None, name: name.to_owned(), advertise: vec![format!("{name}:1883")] }
}

/// A cluster of two logs with one node in its table.
fn cluster(nats: &NatsServers) -> Operations {
    let operations = operations(nats);
    let plan = operations.create(node::fingerprint(), TEST.logs, new_node("n1")).expect("a plan");
    assert_eq!(plan.node().number(), 1);
    assert!(plan.lines().iter().any(|line| line.contains("3 copies")), "{:?}", plan.lines());
    plan.carry_out().expect("it is made");
    let again = operations.create(node::fingerprint(), TEST.logs, new_node("n9"));
    let refused = again.err().expect("it exists").to_string();
    assert!(refused.contains("exists already"), "{refused}");
    operations
}

/// A cluster of two nodes, of which the first one leads: it is alone in the table until it does. Of
/// two empty nodes in the table either may lead first. `wire`: addresses of NATS for the first one.
fn two_nodes(nats: &NatsServers, wire: &[String]) -> (Operations, Node, Node) {
    let operations = cluster(nats);
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    one.begin(wire);
    one.lead();
    let plan = operations.join(node::fingerprint(), new_node("n2")).expect("a plan");
    assert_eq!((plan.node(), plan.logs()), (two.number(), TEST.logs));
    plan.carry_out().expect("it joins");
    two.begin(&nats.addresses());
    (operations, one, two)
}

#[test]
fn a_standby_has_everything_that_was_answered_when_its_leader_is_gone() {
    let servers = NatsServers::start(3);
    let (operations, mut one, mut two) = two_nodes(&servers, &servers.addresses());
    one.write(300);
    two.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    one.write(50);
    let status = one.until("a copy is there", |status| {
        status.leads && status.logs.iter().all(|log| log.copies == 1)
    });
    assert!(status.logs[0].acknowledgements > 0);
    let leader = two.until("it knows who leads", |status| status.leader.is_some()).leader;
    assert_eq!(leader.map(|node| node.number()), Some(1));

    // The leader is gone, as by kill -9.
    one.kill();
    two.lead();
    two.has_all_of(&[&one]);
    two.write(50);

    // It comes back, follows, and is wanted by an operator: no answer is lost on the way, and what
    // was sent before the clients go is answered.
    one.begin(&servers.addresses());
    one.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    two.until("a copy is there", |status| status.logs.iter().all(|log| log.copies == 1));
    operations.promote(one.number()).expect("a plan").carry_out().expect("it is said");
    two.until_it_is_to_leave();
    two.write(20);
    let (why, to) = two.leave();
    assert_eq!(
        (why, to.map(|to| to.addresses)),
        (LeaveReason::Asked, Some(vec!["n1:1883".into()]))
    );
    one.lead();
    one.has_all_of(&[&two]);
    one.write(20);

    // A folder that was wiped is copied anew, and leads with everything.
    two.wipe();
    two.begin(&servers.addresses());
    two.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    one.until("a copy is there", |status| status.logs.iter().all(|log| log.copies == 1));
    one.kill();
    two.lead();
    two.has_all_of(&[&one]);

    // A log that is damaged does not open, and is copied anew.
    one.damage();
    one.begin(&servers.addresses());
    one.until_notice("log 0 is of no use", |notice| {
        matches!(notice, ClusterNotice::CopiesAnew { log: 0, .. })
    });
    one.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    two.until("a copy is there", |status| status.logs.iter().all(|log| log.copies == 1));
    two.kill();
    one.lead();
    one.has_all_of(&[&two]);
    let lost = |notice: &ClusterNotice| matches!(notice, ClusterNotice::AcknowledgedLost { .. });
    assert!(!one.notices().iter().chain(two.notices()).any(lost));
}

#[test]
fn a_copy_of_a_node_s_folder_does_not_lead_while_the_node_runs_and_hinders_it_no_more_when_gone() {
    let servers = NatsServers::start(3);
    cluster(&servers);
    let mut one = Node::new(1);
    one.begin(&servers.addresses());
    one.lead();
    one.write(10);
    one.kill();
    let mut copy = one.copy_of_folder();
    one.begin(&servers.addresses());
    one.lead();
    copy.begin(&servers.addresses());
    copy.until_notice("it is told", |notice| *notice == ClusterNotice::SameNumber(true));
    one.until_notice("it is told", |notice| *notice == ClusterNotice::SameNumber(true));
    one.write(10);
    assert!(one.is_serving(), "the earlier process still serves");
    copy.kill();
    one.until_notice("the copy is gone", |notice| *notice == ClusterNotice::SameNumber(false));
    one.write(10);
    assert!(one.is_serving());

    // The copy alone leads when the other one has been silent.
    copy.begin(&servers.addresses());
    copy.until_notice("it is told", |notice| *notice == ClusterNotice::SameNumber(true));
    one.kill();
    copy.lead();
    copy.has_all_of(&[&one]);
}

#[test]
fn a_stream_that_is_removed_begins_anew_behind_the_leaders_disk() {
    let servers = NatsServers::start(3);
    let (_, mut one, mut two) = two_nodes(&servers, &servers.addresses());
    one.write(100);
    two.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    for log in 0..TEST.logs {
        node::door(&servers.addresses()).delete(&format!("HL-test-LOG-{log:02}-1")).expect("gone");
    }
    one.write(100);
    assert!(one.is_serving(), "no client was sent away");
    one.until("the next generation", |status| {
        status.leads && status.logs.iter().all(|log| log.generation == 2)
    });
    two.until("it follows", |status| {
        status.logs.iter().all(|log| log.generation == 2 && log.lag == 0)
    });
    one.kill();
    two.lead();
    two.has_all_of(&[&one]);
}

#[test]
fn a_leader_that_is_cut_off_acknowledges_nothing_and_leaves_when_it_is_back() {
    let servers = NatsServers::start(3);
    let wire = proxy::Proxy::begin(&servers.ports());
    let (_, mut one, mut two) = two_nodes(&servers, &wire.addresses());
    one.write(100);
    two.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    wire.cut(true);
    let late = one.submit(20);
    two.lead();
    two.write(50);
    assert_eq!(one.answered(&late), 0, "nobody but its own disk has them");
    one.until("it knows that it is cut off", |status| status.is_isolated && !status.leads);
    wire.cut(false);
    let (why, to) = one.leave();
    assert_eq!(why, LeaveReason::Deposed);
    assert!(to.is_none_or(|to| to.node.number() == 2), "the table may tell later than the stream");
    assert_eq!(one.answered(&late), 0, "and not later either");
    one.begin(&servers.addresses());
    one.until("it follows", |status| status.logs.iter().all(|log| log.index > 0 && log.lag == 0));
    two.until("a copy is there", |status| status.logs.iter().all(|log| log.copies == 1));
    two.kill();
    one.lead();
    one.has_all_of(&[&two]);
}

#[test]
fn values_that_are_removed_are_written_anew_and_the_good_ones_stay() {
    let servers = NatsServers::start(1);
    let operations = operations(&servers);
    let plan = operations.create(node::fingerprint(), TEST.logs, new_node("n1")).expect("a plan");
    plan.carry_out().expect("it is made");
    let mut one = Node::new(1);
    one.begin(&servers.addresses());
    one.lead();
    assert_eq!(one.cluster_name().as_deref(), Some("test"), "noted once the table is known");
    let door = node::door(&servers.addresses());
    let remove = |key: &str| {
        let mut value = door.get("HL-test-TABLE", key).expect("it is there");
        value.value = None;
        door.set("HL-test-TABLE", &value).expect("it answers").expect("it is removed");
    };
    let epoch = |operations: &Operations| operations.list().expect("it is whole").table[0].1.epoch;
    let before = epoch(&operations);
    let repaired = |key: &str| ClusterNotice::TableDamaged { key: key.into(), is_repaired: true };
    for key in ["cluster", "log.01"] {
        remove(key);
        one.until_notice("the leader wrote it anew", |notice| *notice == repaired(key));
        assert_eq!(epoch(&operations), before);
    }
    one.kill();

    // Nobody leads.
    ["cluster", "log.01"].into_iter().for_each(remove);
    let again = operations.create(node::fingerprint(), TEST.logs, new_node("n1"));
    let refused = again.err().expect("somebody led").to_string();
    assert!(refused.contains("damaged or missing: cluster"), "{refused}");
    let own = NewNode { node: Some(node::number(1)), ..new_node("n1") };
    let plan = operations.recover(node::fingerprint(), TEST.logs, own).expect("a plan");
    let written = |key: &str| {
        let told = format!("write the value {key} of the table anew");
        plan.lines().iter().any(|line| line.starts_with(&told))
    };
    assert!(written("cluster") && written("log.01") && plan.lines().len() == 2);
    plan.carry_out().expect("it is written");
    let table = operations.list().expect("it is whole").table;
    assert!(table.iter().all(|(_, entry)| entry.epoch == before), "{table:?}");
    one.begin(&servers.addresses());
    one.lead();
}

#[test]
fn a_node_that_is_not_in_the_table_and_one_of_another_cluster_say_so_and_do_nothing() {
    let servers = NatsServers::start(1);
    let operations = operations(&servers);
    let missing = operations.list().expect_err("no cluster").to_string();
    assert!(missing.contains("create"), "{missing}");
    let plan = operations.create(7, TEST.logs, new_node("n1")).expect("a plan");
    assert!(plan.lines().iter().any(|line| line.starts_with("WARNING")), "{:?}", plan.lines());
    plan.carry_out().expect("it is made");
    // What was left half done is said again.
    let door = node::door(&servers.addresses());
    let mut key = door.get("HL-test-TABLE", "cluster").expect("it is there");
    assert!(key.value.take().is_some());
    door.set("HL-test-TABLE", &key).expect("it answers").expect("it is removed");
    let broken = operations.list().expect_err("a table without the cluster's value").to_string();
    assert!(broken.contains("damaged or missing: cluster"), "{broken}");
    operations.create(7, TEST.logs, new_node("n1")).expect("a plan").carry_out().expect("made");
    let again = NewNode { node: Some(node::number(1)), ..new_node("n1") };
    operations.join(7, again).expect("a plan").carry_out().expect("it is in already");
    let listed = operations.list().expect("it is whole");
    assert_eq!((listed.nodes.len(), listed.table.len()), (1, usize::from(TEST.logs)));
    let refused = operations.join(8, new_node("n2")).err().expect("another secret").to_string();
    assert!(refused.contains("fingerprint"), "{refused}");
    let mut other = Node::new(2);
    other.begin(&servers.addresses());
    other.until_notice("it is told", |notice| match notice {
        ClusterNotice::OtherCluster { why } => why.contains("secret"),
        _ => false,
    });
    let last = operations.remove(node::number(1)).err().expect("the only copy").to_string();
    assert!(last.contains("no other copy"), "{last}");
}
