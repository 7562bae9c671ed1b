//! Refusals of the server, by its protocol's codes.
//!
//! A server that says it is full tells its own limit; one that refuses credentials tells a mistake
//! of the test, not a limit.

use crate::case::{Case, ended};
use crate::window;
use crate::words;
use lab::cause::Cause;
use lab::codes::{self, CodeMeaning};
use lab::run::{Finding, Gravity};

/// The finding of a server that refuses connections at its own limit.
const FULL: &str = "The server refused connections or messages: it is full or over a rate limit.";

/// Whether a finding is that of a server at its own limit.
pub fn is_limit(finding: &Finding) -> bool {
    finding.what == FULL
}

/// The server's own refusals.
pub fn detect(case: &Case) -> Vec<Finding> {
    let total = &case.run.total;
    let refused = total.causes.all_of(Cause::BindRefused) + total.causes.all_of(Cause::Kicked);
    let mut codes: Vec<(&String, u64)> =
        total.codes.iter().map(|(code, count)| (code, *count)).filter(|(_, n)| *n > 0).collect();
    if codes.is_empty() {
        return Vec::new();
    }
    codes.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let known = |code: &str| meaning(case, code);
    let told: Vec<String> = codes
        .iter()
        .take(5)
        .map(|(code, count)| {
            let meaning = known(code).map_or(String::new(), |known| format!(" ({})", known.text));
            format!("{} x {code}{meaning}", words::count(*count as f64))
        })
        .collect();
    let full: u64 = codes
        .iter()
        .filter(|(code, _)| known(code).is_some_and(|known| known.is_limit))
        .map(|(_, count)| count)
        .sum();
    let (from_ms, to_ms) = when(case);
    let limit = full > 0 && full as f64 >= 0.001 * total.attempts as f64;
    let of = match refused {
        0 => String::new(),
        _ => format!(
            "; {} connections in all were refused or closed by the server",
            words::count(refused as f64)
        ),
    };
    let online = case.online(from_ms).filter(|_| from_ms > 0).map_or(String::new(), |online| {
        format!("; {} clients were online at the first refusal", words::count(online))
    });
    vec![Finding {
        gravity: if limit { Gravity::Limit } else { Gravity::Warning },
        side: "target".to_owned(),
        what: match limit {
            true => FULL,
            false => "The server refused clients or ended their sessions.",
        }
        .to_owned(),
        evidence: format!("{}{of}{online}", words::list(&told)),
        remedy: match limit {
            true => {
                "Check the server's own limits (connections, connection rate, quota); its log and \
                 metrics name the limit."
            }
            false => {
                "Check the plan's credentials, client ids and protocol version, and the server's \
                 log."
            }
        }
        .to_owned(),
        from_ms,
        to_ms,
    }]
}

fn when(case: &Case) -> (u64, u64) {
    let met = [Cause::BindRefused, Cause::Kicked].map(|cause| {
        window::bursts(case.series(), &ended(cause), u64::MAX).first().map(|one| (one.0, one.1))
    });
    let met = met.into_iter().flatten();
    let around = met.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    around.unwrap_or((0, case.end_ms()))
}

/// Meaning of a code like `refused 135`, by the scheme of the target.
fn meaning(case: &Case, code: &str) -> Option<&'static CodeMeaning> {
    let scheme = case.run.target.first()?.split(':').next()?;
    codes::meaning(scheme, code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::Phase;

    fn with(code: &str) -> Finding {
        let mut made = Made::of(40);
        made.ended(Phase::Bind, Cause::BindRefused, 500, 20);
        made.gauge("clients.online", |_| 15_000.0);
        let mut run = made.run(20_000);
        run.total.codes.insert(code.to_owned(), 500);
        detect(&Case::of(&run)).remove(0)
    }

    #[test]
    fn a_server_that_is_full_tells_its_limit_and_one_that_refuses_a_password_does_not() {
        let full = with("refused 137");
        assert_eq!((full.gravity, full.from_ms), (Gravity::Limit, 19_000));
        assert!(full.evidence.starts_with("500 x refused 137 (server busy)"), "{}", full.evidence);
        assert!(full.evidence.contains("15,000 clients were online"), "{}", full.evidence);
        assert_eq!(with("refused 135").gravity, Gravity::Warning);
        assert_eq!(with("refused what").gravity, Gravity::Warning);
    }

    #[test]
    fn no_codes_are_no_finding() {
        assert_eq!(detect(&Case::of(&Made::of(4).run(10))), []);
    }

    #[test]
    fn calls_in_all_are_told_where_calls_were_refused() {
        assert!(with("refused 137").evidence.contains("; 500 connections in all were refused"));
        let mut run = Made::of(40).run(20_000);
        run.total.codes.insert("refused 137".to_owned(), 500);
        let found = detect(&Case::of(&run)).remove(0);
        assert_eq!(found.evidence, "500 x refused 137 (server busy)");
    }
}
