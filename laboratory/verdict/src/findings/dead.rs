//! The target does not answer: no call of the whole run came through.
//!
//! Then nothing is known about a server, and what else the machines did is no finding about one.

use crate::case::Case;
use crate::words;
use lab::cause::{Cause, Phase};
use lab::run::{Finding, Gravity};

/// Causes by which calls end where nobody answers.
const UNANSWERED: [Cause; 3] = [Cause::Refused, Cause::SynTimedOut, Cause::NoRoute];

/// A target that is not there.
pub fn detect(case: &Case) -> Vec<Finding> {
    let total = &case.run.total;
    let of = |cause: Cause| total.causes.of(Phase::Connect, cause);
    let unanswered: u64 = UNANSWERED.into_iter().map(of).sum();
    let came_through = total.figure("established") >= 1.0 || total.bound > 0;
    // What the tester's own limits stopped says nothing about who answers.
    if came_through || unanswered == 0 || unanswered < total.causes.errors() {
        return Vec::new();
    }
    let most = UNANSWERED.into_iter().max_by_key(|cause| of(*cause)).unwrap_or(Cause::Refused);
    let told: Vec<String> = UNANSWERED
        .into_iter()
        .filter(|cause| of(*cause) > 0)
        .map(|cause| format!("{} {}", words::count(of(cause) as f64), cause.name()))
        .collect();
    let whom = case.run.target.first().map_or("the target", String::as_str);
    let (why, remedy) = match most {
        Cause::Refused => (
            "no process listens on that port",
            "Start the server, or correct the address and the port.",
        ),
        Cause::NoRoute => ("no route to that address", "Correct the address; check the routes."),
        _ => (
            "connection attempts had no answer",
            "Correct the address; check whether a firewall drops packets and whether the machine \
             is up.",
        ),
    };
    vec![Finding {
        gravity: Gravity::Limit,
        side: case.run.side_of(most).name().to_owned(),
        what: format!("Nobody answers at {whom}: {why}."),
        evidence: format!(
            "none of {} connection attempts succeeded: {}",
            words::count(total.attempts as f64),
            words::list(&told)
        ),
        remedy: remedy.to_owned(),
        from_ms: 0,
        to_ms: case.end_ms(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::findings;
    use crate::made::Made;

    fn calls(established: f64) -> lab::run::Run {
        let mut made = Made::of(20);
        made.gauge("tester.cpu.cores", |_| 2.0);
        made.gauge("tester.cpu.busy", |_| 2.0);
        made.ended(Phase::Connect, Cause::Refused, 40, 1);
        let mut run = made.run(40);
        run.target = vec!["mqtt://127.0.0.1:1".to_owned()];
        run.total.raise("established", established);
        run
    }

    #[test]
    fn a_dead_port_is_that_and_nothing_else() {
        let found = findings(&calls(0.0));
        assert_eq!((found.len(), found[0].side.as_str()), (1, "target"), "{found:?}");
        let what = "Nobody answers at mqtt://127.0.0.1:1: no process listens on that port.";
        assert_eq!(found[0].what, what);
        assert_eq!(found[0].evidence, "none of 40 connection attempts succeeded: 40 refused");
        let first = crate::findings::first_limit(&calls(0.0)).expect("it is one");
        assert_eq!(first.what, what);
        assert!(findings(&calls(1.0)).len() > 1, "a server that refuses some is there");
    }
}
