//! Listening: how many connections may wait for accept, and what happens to those that do not fit.
//! Rows that a tester does not need are left out of its list.

use super::Look;
use super::row::{Say, at_least, grouped, one_of, row, unknown};
use crate::listeners::{self, ListeningSocket, fullest};
use lab::host::{Fitness, HostRow};
use std::collections::BTreeMap;

/// The longest queue of half-open or waiting connections that is ever asked for.
const QUEUE_MAX: u64 = 65_535;

/// Ports of a server that are named, at most.
const PORTS_SHOWN_MAX: usize = 6;

const OVERFLOW: &str = "connects hang without an error and come back after seconds, all at once; \
                        ListenOverflows, ListenDrops; `ss -lt`: Recv-Q at Send-Q";

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    if !look.is_server() {
        return Vec::new();
    }
    let herd = look.need.connections.clamp(128, QUEUE_MAX);
    let own = own(look);
    let mut rows =
        vec![at_least(look, "net.core.somaxconn", herd, Fitness::Weak).symptom(OVERFLOW)];
    rows.push(backlog(look, &own, herd));
    rows.push(at_least(look, "net.ipv4.tcp_max_syn_backlog", herd, Fitness::Weak).symptom(
        "SYNs of a herd are dropped or answered with cookies; TCPReqQFullDrop, \
         TCPReqQFullDoCookies, SyncookiesSent",
    ));
    rows.push(
        one_of(look, "net.ipv4.tcp_syncookies", &["1", "2"], Fitness::Weak)
            .symptom("a full SYN queue drops instead of answering; TCPReqQFullDrop"),
    );
    rows.push(one_of(look, "net.ipv4.tcp_abort_on_overflow", &["0"], Fitness::Weak).symptom(
        "with 1 a client that found the accept queue full is reset instead of trying again: good \
         in a test, since it is seen; ListenOverflows, reset",
    ));
    rows.push(shards(&own));
    rows.push(migration(look, &own));
    rows
}

/// The listeners of the process that is looked at.
fn own(look: &Look) -> Option<Vec<ListeningSocket>> {
    let pid = look.need.pid?;
    let net = crate::network_of(look.place, Some(pid));
    let inodes: Vec<u64> = crate::process::sockets(look.place, pid).collect();
    let all = listeners::read(look.place, &net);
    Some(all.into_iter().filter(|one| inodes.contains(&one.inode)).collect())
}

/// The kernel clips what a program asks for to somaxconn, without a word.
fn backlog(look: &Look, own: &Option<Vec<ListeningSocket>>, need: u64) -> HostRow {
    let item = "listen() backlog";
    let wanted = format!("at least {} for the listeners of devices", grouped(need));
    let Some(own) = own else {
        let row = unknown(item, "give --pid of the server", wanted);
        return row.symptom(OVERFLOW);
    };
    let told = own.iter().filter_map(|one| Some((one.port, one.backlog?)));
    let by_port: BTreeMap<u16, u32> = told.collect();
    let Some(least) = by_port.values().min() else {
        return unknown(item, "its listeners are not visible", wanted).symptom(OVERFLOW);
    };
    let fitness = if u64::from(*least) >= need { Fitness::Good } else { Fitness::Weak };
    let ports = by_port.iter().take(PORTS_SHOWN_MAX);
    let ports: Vec<String> =
        ports.map(|(port, most)| format!("port {port}: {}", grouped((*most).into()))).collect();
    let waiting = fullest(own.iter()).map_or(0, |one| one.waiting);
    let value = format!("{} ({waiting} wait)", ports.join(", "));
    let somaxconn = look.number("net.core.somaxconn").unwrap_or(0);
    let first = if somaxconn < need { "raise net.core.somaxconn, then " } else { "" };
    let command = format!("{first}set the server's backlog to {need} and restart it");
    row(item, value, wanted).judged(fitness).symptom(OVERFLOW).by_anyone(command)
}

/// One listening socket for each core spreads the work of accepting; fewer is a choice.
fn shards(own: &Option<Vec<ListeningSocket>>) -> HostRow {
    let item = "SO_REUSEPORT";
    let wanted = "one listener a core, or an accepting thread that keeps up";
    let symptom = "a single stuck thread overflows its queue: Recv-Q of each listener; cpu.busiest";
    let Some(own) = own else {
        return unknown(item, "give --pid of the server", wanted).symptom(symptom);
    };
    let mut by_port: BTreeMap<u16, u32> = BTreeMap::new();
    own.iter().for_each(|one| *by_port.entry(one.port).or_default() += 1);
    let parts = by_port.iter().map(|(port, count)| format!("port {port}: {count}"));
    let value = parts.take(PORTS_SHOWN_MAX).collect::<Vec<_>>().join(", ");
    let value = if value.is_empty() { "no listener found".to_owned() } else { value };
    row(item, value, wanted).symptom(symptom)
}

fn migration(look: &Look, own: &Option<Vec<ListeningSocket>>) -> HostRow {
    let name = "net.ipv4.tcp_migrate_req";
    let shared = own.as_ref().is_some_and(|own| {
        own.iter().enumerate().any(|(at, one)| own[..at].iter().any(|had| had.port == one.port))
    });
    let mut row = one_of(look, name, &["1"], Fitness::Weak).symptom(
        "connections that wait at a listener are reset when it closes in a reload; \
         TCPMigrateReqFailure",
    );
    if !shared && row.fitness == Fitness::Weak {
        row.fitness = Fitness::Good;
        row.remedy.clear();
        row.root = false;
    }
    row.need = "1 where several listeners share a port".to_owned();
    row
}
