//! Processors: a machine whose cores are all busy, one thread or one core that is the bottleneck,
//! time that a hypervisor took, threads that waited.
//!
//! A processor that is full while nobody suffers does its work: that is a warning. It is a limit
//! when clients were lost or late meanwhile.

use crate::case::Case;
use crate::window::{self, Window};
use crate::words;
use lab::run::{Finding, Gravity};

/// Rows that something must last.
const ROWS: usize = 5;
/// Share at which a core, a thread or all cores are full.
const FULL: f64 = 0.95;

/// Processors at their limit.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (side, column) in case.of_both("cpu.busy", "") {
        machine(case, side, &column, &mut found);
    }
    if let Some(column) = case.of_target("process.busiest") {
        one(case, ("target", &column), Bottleneck::Thread, &mut found);
    }
    for (side, column) in case.of_both("cpu.softirq_busiest", "") {
        one(case, (side, &column), Bottleneck::SoftInterrupts, &mut found);
    }
    for (side, column) in case.of_both("cpu.steal", "") {
        let cores = cores(case, &column);
        let met = window::stretches(case.series(), &column, 0.1 * cores, ROWS);
        let what = format!("The hypervisor took CPU time from {} (steal).", machine_of(side));
        let remedy = "Measure on a machine with dedicated cores.";
        let most = |most: f64| format!("up to {} of its cores", words::percent(most / cores));
        warned(case, side, (&what, remedy), (&met, &most), &mut found);
    }
    for (name, level, what) in [
        ("psi.cpu", 0.5, "waited for a core"),
        ("psi.memory_full", 0.1, "waited for memory"),
        ("psi.io_full", 0.3, "waited for a disk"),
    ] {
        for (side, column) in case.of_both(name, "") {
            let met = window::stretches(case.series(), &column, level, ROWS);
            let said = format!("On {} threads {what}.", machine_of(side));
            let most = |most: f64| format!("{} of the time, at most (PSI)", words::percent(most));
            warned(case, side, (&said, ""), (&met, &most), &mut found);
        }
    }
    found
}

fn machine_of(side: &str) -> String {
    match side {
        "" => "the machine that server and tester share".to_owned(),
        _ => format!("the {side}'s machine"),
    }
}

fn cores(case: &Case, column: &str) -> f64 {
    case.highest(&case.beside(column, "cpu.cores")).map_or(1.0, |(_, cores)| cores.max(1.0))
}

fn around(met: &[(u64, u64, f64)]) -> Option<(Window, f64, u64)> {
    let (first, last) = (met.first()?, met.last()?);
    let most = met.iter().map(|stretch| stretch.2).fold(0.0, f64::max);
    let each = met.iter().map(|(from, to, _)| to.saturating_sub(*from).saturating_add(1_000));
    let lasted = each.fold(0, u64::saturating_add);
    Some(((first.0, last.1), most, lasted))
}

/// All cores of a machine.
fn machine(case: &Case, side: &str, column: &str, found: &mut Vec<Finding>) {
    let cores = cores(case, column);
    let met = window::stretches(case.series(), column, FULL * cores, ROWS);
    let Some((window, most, lasted_ms)) = around(&met) else { return };
    let share = |whose: &str| {
        let used = case.cores_of(whose, window)?;
        Some(format!("the {whose} used {} cores", words::number(used)))
    };
    let told: Vec<String> = ["target", "tester"].into_iter().filter_map(share).collect();
    let by_others = case.by_others(column, window) == Some(true);
    let harm = case.harm(window);
    let harmed = case.harmed_at(window).filter(|_| harm.is_some() && !by_others);
    let latency = case.latency_beside(window);
    let mut evidence = format!(
        "{} of {} cores busy for {} {}",
        words::number(most),
        words::number(cores),
        words::time(lasted_ms as f64 * 1e3),
        words::between(window.0, window.1)
    );
    let told = (!told.is_empty()).then(|| words::list(&told));
    for more in [told, latency, harm.clone()].into_iter().flatten() {
        evidence = format!("{evidence}; {more}");
    }
    found.push(Finding {
        gravity: if harmed.is_some() { Gravity::Limit } else { Gravity::Warning },
        side: side.to_owned(),
        what: match by_others {
            true => format!("Other programs kept all cores of {} busy.", machine_of(side)),
            false => format!("All cores of {} were busy.", machine_of(side)),
        },
        evidence,
        remedy: match side {
            _ if by_others => "Measure on machines that do nothing else.",
            "target" => "Give the server more cores or fewer clients; profile it.",
            "tester" => "Use more machines to generate the load (agents).",
            _ => {
                "Run server and tester on separate machines: this run does not show what the \
                 server can do alone."
            }
        }
        .to_owned(),
        // Full cores are a limit from the moment at which somebody suffers.
        from_ms: harmed.unwrap_or(window.0),
        to_ms: window.1,
    });
}

/// Part that can be full while others are idle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bottleneck {
    Thread,
    SoftInterrupts,
}

fn one(case: &Case, (side, column): (&str, &str), kind: Bottleneck, found: &mut Vec<Finding>) {
    let thread = kind == Bottleneck::Thread;
    let met = window::stretches(case.series(), column, if thread { FULL } else { 0.85 }, ROWS);
    let Some((window, most, lasted_ms)) = around(&met) else { return };
    // Where all cores are full, one of them is no finding of its own.
    let busy = case.beside(column, "cpu.busy");
    let busy = crate::fit::mean(&window::values(case.series(), &busy, window));
    let cores = cores(case, column);
    if busy.is_some_and(|busy| busy >= 0.9 * cores) {
        return;
    }
    let harmed = case.harmed_at(window);
    let idle = busy.map_or(String::new(), |busy| {
        format!(", while {} of {} cores were busy", words::number(busy), words::number(cores))
    });
    found.push(Finding {
        gravity: if harmed.is_some() { Gravity::Limit } else { Gravity::Warning },
        side: side.to_owned(),
        what: match kind {
            Bottleneck::Thread => "One thread of the server was fully busy.".to_owned(),
            Bottleneck::SoftInterrupts => {
                format!("The network's soft interrupts filled one core of {}.", machine_of(side))
            }
        },
        evidence: format!(
            "{} of a core for {} {}{idle}{}",
            words::percent(most),
            words::time(lasted_ms as f64 * 1e3),
            words::between(window.0, window.1),
            case.beside_it(window)
        ),
        remedy: match kind {
            Bottleneck::Thread => {
                "Spread the server's work over more threads or listeners \
                                   (SO_REUSEPORT)."
            }
            Bottleneck::SoftInterrupts => {
                "Spread packets over cores: more queues of the network \
                                           card (RSS), RPS, interrupt affinity."
            }
        }
        .to_owned(),
        from_ms: harmed.unwrap_or(window.0),
        to_ms: window.1,
    });
}

/// Stretches of time: from, to, and the highest in them.
type Stretches<'a> = &'a [(u64, u64, f64)];

/// A warning about stretches.
fn warned(
    case: &Case,
    side: &str,
    (what, remedy): (&str, &str),
    (met, most): (Stretches, &dyn Fn(f64) -> String),
    found: &mut Vec<Finding>,
) {
    let Some((window, highest, lasted_ms)) = around(met) else { return };
    found.push(Finding {
        gravity: Gravity::Warning,
        side: side.to_owned(),
        what: what.to_owned(),
        evidence: format!(
            "{}, for {} {}{}",
            most(highest),
            words::time(lasted_ms as f64 * 1e3),
            words::between(window.0, window.1),
            case.beside_it(window)
        ),
        remedy: remedy.to_owned(),
        from_ms: window.0,
        to_ms: window.1,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::{Cause, Phase};

    fn busy(made: &mut Made, whose: &str) {
        made.gauge(&format!("{whose}.cpu.cores"), |_| 4.0);
        made.gauge(
            &format!("{whose}.cpu.busy"),
            |s| if (10..20).contains(&s) { 3.98 } else { 1.0 },
        );
    }

    #[test]
    fn full_cores_are_a_limit_only_where_somebody_suffered() {
        let mut made = Made::of(40);
        busy(&mut made, "target");
        let found = detect(&Case::of(&made.run(100)));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Warning));
        made.ended(Phase::Bind, Cause::BindTimedOut, 12, 15);
        let found = detect(&Case::of(&made.run(100)));
        assert_eq!((found[0].gravity, found[0].side.as_str()), (Gravity::Limit, "target"));
        assert!(
            found[0].evidence.contains("3.98 of 4 cores busy for 10 s"),
            "{}",
            found[0].evidence
        );
    }

    #[test]
    fn cores_that_others_use_are_no_limit_of_the_server() {
        let mut made = Made::of(40);
        busy(&mut made, "target");
        made.ended(Phase::Bind, Cause::BindTimedOut, 12, 15);
        made.gauge("target.process.cpu", |_| 0.01);
        let found = detect(&Case::of(&made.run(100)));
        assert_eq!(found[0].gravity, Gravity::Warning);
        assert!(found[0].what.starts_with("Other programs kept all cores"), "{}", found[0].what);
        let mut made = Made::of(40);
        busy(&mut made, "target");
        made.ended(Phase::Bind, Cause::BindTimedOut, 12, 15);
        made.gauge("target.process.cpu", |_| 3.5);
        let found = detect(&Case::of(&made.run(100)));
        assert_eq!((found[0].gravity, found[0].from_ms), (Gravity::Limit, 15_000));
    }

    #[test]
    fn a_shared_machine_is_said_to_be_shared() {
        let mut made = Made::of(40);
        busy(&mut made, "tester");
        let mut run = made.run(100);
        run.target = vec!["mqtt://127.0.0.1:1883".to_owned()];
        let found = detect(&Case::of(&run));
        assert_eq!((found.len(), found[0].side.as_str()), (1, ""));
        assert!(found[0].what.contains("share"), "{}", found[0].what);
    }

    #[test]
    fn one_busy_thread_is_seen_beside_idle_cores_and_not_beside_full_ones() {
        let with = |cores_busy: f64| {
            let mut made = Made::of(40);
            made.gauge("target.process.busiest", |_| 0.99);
            made.gauge("target.cpu.cores", |_| 8.0);
            made.gauge("target.cpu.busy", move |_| cores_busy);
            detect(&Case::of(&made.run(100)))
        };
        let found = with(1.5);
        assert!(found[0].what.starts_with("One thread"), "{}", found[0].what);
        assert!(found[0].evidence.contains("while 1.5 of 8 cores"), "{}", found[0].evidence);
        assert!(with(8.0).iter().all(|found| !found.what.starts_with("One thread")));
    }

    #[test]
    fn steal_and_pressure_warn() {
        let mut made = Made::of(40);
        made.gauge("tester.cpu.cores", |_| 2.0);
        made.gauge("tester.cpu.steal", |s| if s < 20 { 0.5 } else { 0.0 });
        made.gauge("tester.psi.cpu", |_| 0.8);
        let found = detect(&Case::of(&made.run(100)));
        assert_eq!(found.len(), 2);
        assert!(found[0].evidence.contains("25 % of its cores"), "{}", found[0].evidence);
        assert!(found[1].evidence.contains("80 % of the time"), "{}", found[1].evidence);
    }
}
