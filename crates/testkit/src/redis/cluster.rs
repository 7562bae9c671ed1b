//! A Redis Cluster: three masters with the slots in equal parts, each with a replica.

use super::{RedisOptions, RedisServer, until};

/// A cluster. Nodes 0 to 2 are the masters at first, 3 to 5 their replicas.
pub struct Cluster {
    /// Its nodes.
    pub nodes: Vec<RedisServer>,
}

const MASTERS: usize = 3;
const NODES: usize = 6;
const SLOTS: usize = 16_384;

impl Cluster {
    /// Starts six nodes, and waits until they agree and all replicas follow.
    pub fn start(options: RedisOptions) -> Cluster {
        let node = |_| {
            let mut options = RedisOptions { is_node: true, ..options.clone() };
            let ours = [
                // So long that a busy machine makes no fail-over; tests of that say less.
                "cluster-node-timeout 15000".to_string(),
                "repl-diskless-sync-delay 0".into(),
            ];
            options.lines.splice(0..0, ours);
            if options.tls.is_some() {
                options.lines.push("tls-cluster yes".into());
            }
            if let Some((user, password, _)) = &options.user {
                options.lines.push(format!("masteruser {user}"));
                options.lines.push(format!("masterauth {password}"));
            }
            RedisServer::start(options)
        };
        let nodes: Vec<RedisServer> = (0..NODES).map(node).collect();
        for (at, node) in nodes.iter().enumerate() {
            // Each its epoch: otherwise they have to come to terms about it first.
            expect_ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < MASTERS {
                let (first, last) = (at * SLOTS / MASTERS, (at + 1) * SLOTS / MASTERS - 1);
                let (first, last) = (first.to_string(), last.to_string());
                expect_ok(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
        let cluster = Cluster { nodes };
        for node in &cluster.nodes[1..] {
            let (port, bus) =
                (node.port().to_string(), node.cli(&["CONFIG", "GET", "cluster-port"]));
            let bus = bus.lines().last().unwrap_or_default().to_string();
            expect_ok(&cluster.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        until("all nodes know each other", || {
            cluster
                .nodes
                .iter()
                .all(|node| node.cli(&["CLUSTER", "NODES"]).lines().count() == NODES)
        });
        for (at, replica) in cluster.nodes[MASTERS..].iter().enumerate() {
            let id = cluster.id(at);
            until("a replica has a master", || replica.cli(&["CLUSTER", "REPLICATE", &id]) == "OK");
        }
        until("the cluster is whole", || {
            let follows = |node: &RedisServer| {
                node.cli(&["INFO", "replication"]).contains("master_link_status:up")
            };
            cluster.nodes[MASTERS..].iter().all(follows)
                && cluster.nodes.iter().all(Cluster::is_whole)
        });
        cluster
    }

    /// The URL, with all nodes.
    pub fn url(&self) -> String {
        let first = self.nodes[0].url();
        let (scheme, _) = first.split_once(':').expect("a URL");
        let places: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("{scheme}+cluster://{}{}", self.nodes[0].account(), places.join(","))
    }

    /// The id of a node.
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].cli(&["CLUSTER", "MYID"])
    }

    /// Whether a node believes that all slots are served and all masters agree about it.
    pub fn is_whole(node: &RedisServer) -> bool {
        let told = node.cli(&["CLUSTER", "INFO"]);
        told.contains("cluster_state:ok") && told.contains(&format!("cluster_slots_ok:{SLOTS}"))
    }

    /// Begins to move a slot: nothing of it has gone yet, but what is not there is asked for at
    /// the other.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)];
        expect_ok(&self.nodes[to], &importing);
        expect_ok(&self.nodes[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)]);
    }

    /// Moves the keys of a slot whose move has begun.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let keys = self.nodes[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]);
        let port = self.nodes[to].port().to_string();
        for key in keys.lines().filter(|key| !key.is_empty()) {
            expect_ok(&self.nodes[from], &["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        }
    }

    /// Ends the move of a slot. The other master is told first; the rest hear of it from these.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        for node in [to, from] {
            expect_ok(&self.nodes[node], &["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }
}

fn expect_ok(node: &RedisServer, command: &[&str]) {
    let told = node.cli(command);
    assert_eq!(told, "OK", "{command:?}");
}
