//! Descriptors: a connection is one in its process, and one of the machine.

use super::Look;
use super::row::{Say, at_least, grouped, row, unknown};
use crate::lines;
use crate::process::open_files_max;
use lab::host::{Fitness, HostRow};

/// Descriptors that a process has for other things: logs, listeners, pollers, a store's files.
const OTHERS: u64 = 256;
/// Files that the rest of a machine has open, beside those that are open now.
const SPARE: u64 = 1_000;

/// Where a shell's limit does not reach.
const SERVICES: &str = "   # a service: LimitNOFILE=; a container: --ulimit nofile=";

const EMFILE: &str = "accept and socket fail with EMFILE; the kernel still completes connections, \
                      which nobody serves, so that clients see bind_timed_out; ListenOverflows";

pub(super) fn rows(look: &Look) -> Vec<HostRow> {
    let need = with_tenth(look.each()).saturating_add(OTHERS);
    let processes = u64::from(look.need.processes.max(1));
    let through = |limit: u64| (limit.saturating_sub(OTHERS) / 11 * 10).saturating_mul(processes);
    let mut nr_open = at_least(look, "fs.nr_open", need, Fitness::Bad)
        .symptom("no process can have a higher RLIMIT_NOFILE, whatever it asks for (EPERM)");
    nr_open.connections_max = look.number("fs.nr_open").map(through);
    let mut rows = vec![nr_open];
    rows.extend(limits(look, need, &through));
    rows.push(file_max(look));
    rows.push(watches(look));
    rows
}

/// A tenth more, as the list says.
fn with_tenth(connections: u64) -> u64 {
    connections.saturating_add(connections / 10)
}

fn limits(look: &Look, need: u64, through: &dyn Fn(u64) -> u64) -> Vec<HostRow> {
    let who = look.need.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let wanted = format!("at least {} in each process", grouped(need));
    let soft_item = "RLIMIT_NOFILE (soft)";
    let hard_item = "RLIMIT_NOFILE (hard)";
    let text = look.place.text(&format!("proc/{who}/limits")).unwrap_or_default();
    let Some((soft, hard)) = open_files_max(&text, 0).zip(open_files_max(&text, 1)) else {
        let why = "unreadable";
        return [soft_item, hard_item].map(|item| unknown(item, why, wanted.as_str())).into();
    };
    let value = |limit| if limit == u64::MAX { "unlimited".to_owned() } else { grouped(limit) };
    let judged = |item, limit| {
        let fitness = if limit >= need { Fitness::Good } else { Fitness::Bad };
        row(item, value(limit), wanted.as_str()).judged(fitness).symptom(EMFILE)
    };
    let (soft_row, hard_row) = (judged(soft_item, soft), judged(hard_item, hard));
    let set = match look.need.pid {
        Some(pid) => format!("prlimit --pid {pid} --nofile={need}:{}", need.max(hard)),
        None => format!("ulimit -n {need}{SERVICES}"),
    };
    let soft_row = soft_row.bounds(through(soft));
    let soft_row = if hard >= need { soft_row.by_anyone(set) } else { soft_row.by_root(set) };
    let raise = match look.need.pid {
        Some(pid) => format!("prlimit --pid {pid} --nofile={need}:{need}"),
        None => format!("ulimit -n {need}{SERVICES}"),
    };
    vec![soft_row, hard_row.bounds(through(hard)).by_root(raise)]
}

fn file_max(look: &Look) -> HostRow {
    let name = "fs.file-max";
    let files = look.setting("fs.file-nr").unwrap_or_default();
    let Some((open, max)) = lines::nth(&files, 0).zip(lines::nth(&files, 2)) else {
        return unknown(name, "not present", "more than all processes open");
    };
    // What a process that is looked at has open already is not needed twice.
    let rest = open.saturating_mul(u64::from(look.need.pid.is_none())).saturating_add(SPARE);
    let need = with_tenth(look.need.connections).saturating_add(rest);
    let fitness = if max >= need { Fitness::Good } else { Fitness::Bad };
    let value = format!("{} ({} open)", grouped(max), grouped(open));
    row(name, value, format!("at least {}", grouped(need)))
        .judged(fitness)
        .symptom("accept and socket fail with ENFILE for everybody; kernel log: file-max limit")
        .by_root(format!("sysctl -w {name}={need}"))
        .bounds(max.saturating_sub(rest) / 11 * 10)
}

fn watches(look: &Look) -> HostRow {
    let name = "fs.epoll.max_user_watches";
    let mut row = at_least(look, name, look.need.connections + OTHERS, Fitness::Bad)
        .symptom("adding a socket to epoll fails with ENOSPC (no_watches); a bound for each user");
    row.connections_max = look.number(name).map(|max| max.saturating_sub(OTHERS));
    row
}
