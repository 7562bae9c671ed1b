//! Limits that a plateau may be: each is looked at, and met or ruled out.
//!
//! The invariant: whatever is met has its figures in its evidence, whatever is ruled out too.

use super::Plateau;
use crate::case::{Case, ended};
use crate::findings::accept;
use crate::fit;
use crate::window;
use crate::words;
use lab::cause::Cause;

/// How much stands behind a suspicion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strength {
    /// A counter stood at its limit, or a kernel or a server said so.
    Counter,
    /// A setting has this number.
    Setting,
    /// The number looks like a limit.
    Shape,
}

/// A limit that it may be.
pub struct Suspect {
    /// How much stands behind it.
    pub strength: Strength,
    /// Side whose limit it is.
    pub side: &'static str,
    /// In a few words.
    pub what: String,
    /// Evidence for the limit.
    pub evidence: String,
    /// Remedy for the limit.
    pub remedy: String,
    /// Difference of the number, as a share.
    pub off: f64,
}

/// Limits that were met, and limits ruled out with their figures.
#[derive(Default)]
struct Found {
    met: Vec<Suspect>,
    ruled_out: Vec<String>,
}

/// All that are met, and what is ruled out.
pub fn all(case: &Case, plateau: &Plateau) -> (Vec<Suspect>, Vec<String>) {
    let mut found = Found::default();
    filled(case, plateau, &mut found);
    memory(case, plateau, &mut found);
    said(case, plateau, &mut found);
    queue(case, plateau, &mut found);
    processors(case, plateau, &mut found);
    settings(case, plateau, &mut found);
    shapes(case, plateau, &mut found);
    (found.met, found.ruled_out)
}

/// Tables with a count and a limit, read while it lasted.
fn filled(case: &Case, plateau: &Plateau, found: &mut Found) {
    let tables = [
        ("process.fds", "process.fds_max", "descriptors", "RLIMIT_NOFILE", 0.99),
        ("host.files_open", "host.files_max", "open files", "fs.file-max", 0.98),
        ("conntrack.count", "conntrack.max", "tracked connections", "nf_conntrack_max", 0.98),
        ("tcp.mem_pages", "tcp.mem_pages_max", "pages of TCP buffers", "net.ipv4.tcp_mem", 0.98),
        ("cgroup.pids", "cgroup.pids_max", "threads", "pids.max", 1.0),
    ];
    for (count, limit, what, setting, full) in tables {
        for (side, column) in case.of_both(count, "target") {
            let read = window::highest(case.series(), &column, plateau.window);
            let read = read.map(|(_, value)| value);
            let most = case.at(&case.beside(&column, limit), plateau.window.1);
            let (Some(value), Some(most)) = (read, most.filter(|most| *most >= 1.0)) else {
                continue;
            };
            let told = format!("{side} {what} {} of {}", words::count(value), words::count(most));
            if value < full * most && value + 8.0 < most {
                found.ruled_out.push(told);
                continue;
            }
            found.met.push(Suspect {
                strength: Strength::Counter,
                side,
                what: format!("the {side} used all its {what} ({setting})"),
                evidence: format!("{told} ({setting})"),
                remedy: format!("Raise {setting} of the {side} to the planned number plus 10 %."),
                off: (most - value).abs() / most,
            });
        }
    }
}

fn memory(case: &Case, plateau: &Plateau, found: &mut Found) {
    for (side, column) in case.of_both("memory.available", "target") {
        let total = case.at(&case.beside(&column, "memory.total"), plateau.window.1);
        let left = window::values(case.series(), &column, plateau.window);
        let left = left.into_iter().reduce(f64::min);
        let (Some(left), Some(total)) = (left, total.filter(|total| *total > 0.0)) else {
            continue;
        };
        let told =
            format!("{side} memory {} of {} available", words::bytes(left), words::bytes(total));
        if left > 0.02 * total {
            found.ruled_out.push(told);
            continue;
        }
        found.met.push(Suspect {
            strength: Strength::Counter,
            side,
            what: format!("the {side}'s machine had no memory left"),
            evidence: told,
            remedy: "Use more memory or fewer connections.".to_owned(),
            off: left / total,
        });
    }
}

/// Adds errors of the tester's kernel or the server during the plateau.
fn said(case: &Case, plateau: &Plateau, found: &mut Found) {
    let words_of = [
        (Cause::NoDescriptors, "tester", "the tester ran out of descriptors"),
        (Cause::NoSystemFiles, "tester", "the tester's machine ran out of open files"),
        (Cause::NoPorts, "tester", "the tester ran out of source ports"),
        (Cause::NoBuffers, "tester", "the tester's kernel ran out of memory for sockets"),
        (Cause::NoWatches, "tester", "the tester reached its limit of watched sockets"),
        (Cause::Forbidden, "tester", "the tester's kernel forbade more connections"),
        (Cause::BindRefused, "target", "the server refused more clients"),
        (Cause::Refused, "target", "the server's kernel refused more connections"),
    ];
    for (cause, side, what) in words_of {
        let column = ended(cause);
        let Some(grown) = explaining(case, plateau, &column) else { continue };
        let codes = case.run.total.codes.iter().map(|(code, n)| format!("{code}: {n}"));
        let codes: Vec<String> = codes.take(3).collect();
        let codes = match side == "target" && !codes.is_empty() {
            true => format!(" ({})", codes.join(", ")),
            false => String::new(),
        };
        found.met.push(Suspect {
            strength: Strength::Counter,
            side,
            what: what.to_owned(),
            evidence: format!(
                "{} connection attempts ended with {}{codes}",
                words::count(grown),
                cause.name()
            ),
            remedy: match cause.setting() {
                "" => String::new(),
                setting => format!("Check: {setting}."),
            },
            off: 0.0,
        });
    }
}

/// Whether the server's own refusals are the reason of the plateau.
pub fn is_refused_by_server(case: &Case, plateau: &Plateau) -> bool {
    explaining(case, plateau, &ended(Cause::BindRefused)).is_some()
}

/// Ends of a column among the attempts of the plateau, where they are enough to explain it: one
/// refusal among many attempts that ended otherwise explains nothing.
fn explaining(case: &Case, plateau: &Plateau, column: &str) -> Option<f64> {
    let grown = window::growth(case.series(), column, plateau.counted)?;
    (grown >= 1.0 && grown >= 0.2 * plateau.calls).then_some(grown)
}

fn queue(case: &Case, plateau: &Plateau, found: &mut Found) {
    let Some(drops) = accept::overflowed(case, plateau.window) else { return };
    let told = format!("ListenDrops +{}", words::count(drops));
    if drops < 1.0 {
        found.ruled_out.push(told);
        return;
    }
    found.met.push(Suspect {
        // It is what follows when a server accepts no more, whatever the reason is.
        strength: Strength::Counter,
        side: "target",
        what: "the server accepted no more connections, and its queue overflowed".to_owned(),
        evidence: format!("{told} meanwhile"),
        remedy: "Check why the server does not accept: its descriptors, its connection limit, a \
                 blocked thread; then the backlog and net.core.somaxconn."
            .to_owned(),
        off: 1.0,
    });
}

fn processors(case: &Case, plateau: &Plateau, found: &mut Found) {
    for (side, column) in case.of_both("cpu.busy", "target") {
        let busy = fit::mean(&window::values(case.series(), &column, plateau.window));
        let cores = case.highest(&case.beside(&column, "cpu.cores"));
        let (Some(busy), Some((_, cores))) = (busy, cores.filter(|(_, n)| *n >= 1.0)) else {
            continue;
        };
        let told = format!("{side} {} of {} cores busy", words::number(busy), words::number(cores));
        if busy < 0.95 * cores {
            found.ruled_out.push(told);
            continue;
        }
        if case.by_others(&column, plateau.window) == Some(true) {
            found.ruled_out.push(format!("{told}, but by other programs"));
            continue;
        }
        found.met.push(Suspect {
            strength: Strength::Counter,
            side,
            what: format!("all cores of the {side}'s machine were busy"),
            evidence: told,
            remedy: "Use more cores; or a slower arrival, to tell a rate limit from a limit of \
                     connections."
                .to_owned(),
            // Full cores slow the growth, they seldom stop it at a number.
            off: 0.9,
        });
    }
}

/// Settings of the doctor whose value is a number of connections, descriptors or the like.
const COUNTED: [&str; 9] = [
    "NOFILE",
    "file-max",
    "nr_open",
    "user_watches",
    "nf_conntrack_max",
    "somaxconn",
    "backlog",
    "pids",
    "threads-max",
];

/// Settings that have just this number.
fn settings(case: &Case, plateau: &Plateau, found: &mut Found) {
    let number = plateau.number;
    let mut near: Vec<(String, f64, &'static str, String)> = Vec::new();
    for (whose, row) in &case.run.doctor {
        let side = if whose == "target" { "target" } else { "tester" };
        // What a setting says is sharper than what the doctor makes of it, less a reserve.
        let counts = COUNTED.iter().any(|name| row.item.contains(name));
        let said = first_number(&row.value).filter(|_| counts);
        if let Some(limit) = said.or(row.connections_max.map(|limit| limit as f64)) {
            let what = format!("{} = {} ({whose})", row.item, row.value);
            near.push((what, limit, side, row.remedy.clone()));
        }
    }
    let columns =
        ["process.fds_max", "conntrack.max", "epoll.watches_max", "process.listen_backlog"];
    for name in columns {
        for (side, column) in case.of_both(name, "target") {
            let Some(limit) = case.at(&column, plateau.window.1) else { continue };
            near.push((format!("{column} = {}", words::count(limit)), limit, side, String::new()));
        }
    }
    let ports = case.of_testers("ports.range").into_iter().next();
    if let Some(ports) = ports.and_then(|column| case.at(&column, plateau.window.1)) {
        let ways = case.run.target.len().max(1) as f64;
        for sources in 1..=16_u8 {
            let limit = ports * f64::from(sources) * ways;
            let what = format!(
                "{} ports of ip_local_port_range x {sources} source addresses x {ways} targets",
                words::count(ports),
            );
            near.push((what, limit, "tester", Cause::NoPorts.setting().to_owned()));
        }
    }
    near.retain(|(_, limit, ..)| *limit >= 16.0 && is_near(number, *limit));
    near.sort_by(|one, other| (one.1 - number).total_cmp(&(other.1 - number)));
    near.dedup_by(|one, other| one.0 == other.0);
    for (what, limit, side, remedy) in near.into_iter().take(3) {
        found.met.push(Suspect {
            strength: Strength::Setting,
            side,
            evidence: format!(
                "{what}: {}, {} more than the clients",
                words::count(limit),
                words::count(limit - number)
            ),
            what: format!("this is the number of {what}"),
            remedy,
            off: (limit - number) / limit,
        });
    }
}

/// Whether a number is that of a limit, less a few for other things.
fn is_near(number: f64, limit: f64) -> bool {
    let spare = f64::max(64.0, limit / 200.0).min(limit / 4.0);
    number <= limit && limit - number <= spare
}

/// The number that a text begins with.
fn first_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}

/// Numbers that look like a limit.
fn shapes(case: &Case, plateau: &Plateau, found: &mut Found) {
    let number = plateau.number;
    let fds = case.of_target("process.fds").and_then(|fds| case.at(&fds, plateau.window.1));
    let power = (4..=40).map(|bits| (bits, 2_f64.powi(bits)));
    let below = |limit: f64, spare: f64| number <= limit && limit - number <= spare;
    let near = power.into_iter().find(|(_, limit)| below(*limit, f64::min(256.0, limit / 16.0)));
    if let Some((bits, limit)) = near {
        let open = fds.map_or(String::new(), |fds| {
            format!("; the server's process had {} descriptors open", words::count(fds))
        });
        found.met.push(Suspect {
            strength: Strength::Shape,
            side: "",
            what: format!(
                "this is {} below 2^{bits}, which suggests a table or a descriptor limit of {} \
                 with {} entries used otherwise",
                words::count(limit - number),
                words::count(limit),
                words::count(limit - number)
            ),
            evidence: format!(
                "{} = 2^{bits} - {}{open}",
                words::count(number),
                words::count(limit - number)
            ),
            remedy: "Compare RLIMIT_NOFILE of the server's process (/proc/PID/limits), fs.nr_open \
                     and the server's connection limit with that power of two."
                .to_owned(),
            off: (limit - number) / limit,
        });
    }
    let size = 10_f64.powf(number.log10().floor());
    let round = (number / size).ceil() * size;
    if number >= 100.0 && below(round, f64::min(32.0, round / 100.0)) {
        found.met.push(Suspect {
            strength: Strength::Shape,
            side: "",
            what: format!("this suggests a configured maximum of {}", words::count(round)),
            evidence: format!(
                "{} = {} - {}",
                words::count(number),
                words::count(round),
                words::count(round - number)
            ),
            remedy: "Check the server's configuration or licence for a connection limit."
                .to_owned(),
            off: (round - number) / round,
        });
    }
}
