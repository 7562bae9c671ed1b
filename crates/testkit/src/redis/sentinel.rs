//! A master, a replica, and three Sentinels who watch over them.

use super::{RedisOptions, RedisServer, until};

/// Servers and those who watch.
pub struct Watched {
    /// The master first, at the beginning.
    pub servers: Vec<RedisServer>,
    /// The Sentinels.
    pub sentinels: Vec<RedisServer>,
}

/// The name of the master among Sentinels.
const NAME: &str = "holdline";

impl Watched {
    /// Starts them, and waits until all know each other. `options` are the servers'; Sentinels
    /// speak TLS if these do, and let everybody in.
    pub fn start(options: RedisOptions) -> Watched {
        let master = RedisServer::start(options.clone());
        let mut follower = options.clone();
        follower.lines.push(format!("replicaof 127.0.0.1 {}", master.port()));
        if let Some((user, password, _)) = &options.user {
            follower.lines.push(format!("masteruser {user}"));
            follower.lines.push(format!("masterauth {password}"));
        }
        let servers = vec![master, RedisServer::start(follower)];
        until("the replica follows", || {
            servers[1].cli(&["INFO", "replication"]).contains("master_link_status:up")
        });
        let mut lines = vec![
            format!("sentinel monitor {NAME} 127.0.0.1 {} 2", servers[0].port()),
            format!("sentinel down-after-milliseconds {NAME} 500"),
            format!("sentinel failover-timeout {NAME} 3000"),
        ];
        if let Some((user, password, _)) = &options.user {
            lines.push(format!("sentinel auth-user {NAME} {user}"));
            lines.push(format!("sentinel auth-pass {NAME} {password}"));
        }
        let tls = options.tls.clone();
        let watch = |_| {
            let options = RedisOptions {
                tls: tls.clone(),
                lines: lines.clone(),
                is_sentinel: true,
                ..RedisOptions::default()
            };
            RedisServer::start(options)
        };
        let sentinels: Vec<RedisServer> = (0..3).map(watch).collect();
        until("all Sentinels know each other and the replica", || {
            sentinels.iter().all(|sentinel| {
                let told = sentinel.cli(&["SENTINEL", "MASTER", NAME]);
                let mut words = told.lines();
                let mut after = |name: &str| {
                    words.find(|word| *word == name);
                    words.next().unwrap_or_default().to_string()
                };
                after("num-slaves") == "1" && after("num-other-sentinels") == "2"
            })
        });
        Watched { servers, sentinels }
    }

    /// The URL, with all Sentinels.
    pub fn url(&self) -> String {
        let first = self.servers[0].url();
        let (scheme, _) = first.split_once(':').expect("a URL");
        let places: Vec<String> =
            self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let account = self.servers[0].account();
        format!("{scheme}+sentinel://{account}{}/{NAME}", places.join(","))
    }

    /// The port that a Sentinel names.
    pub fn master(&self, sentinel: usize) -> String {
        let told = self.sentinels[sentinel].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        told.lines().last().unwrap_or_default().to_string()
    }

    /// Waits until the replica is master, and all Sentinels say so.
    pub fn until_promoted(&self) {
        let port = self.servers[1].port().to_string();
        until("the replica is promoted", || {
            (0..self.sentinels.len()).all(|sentinel| self.master(sentinel) == port)
                && self.servers[1].cli(&["ROLE"]).starts_with("master")
        });
    }
}
