//! What the server itself said no to, by its protocol's codes.
//!
//! A server that says it is full tells its own limit; one that refuses credentials tells a mistake
//! of the test, not a limit.

use crate::case::{Case, ended};
use crate::window;
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// What a code means, and whether it is the server's limit.
struct Meaning(u64, &'static str, bool);

const MIOP: &[Meaning] = &[
    Meaning(11, "the version is not served", false),
    Meaning(20, "the proof was refused", false),
    Meaning(21, "the clock is too far off", false),
    Meaning(23, "no such product", false),
    Meaning(24, "the device is blocked", false),
    Meaning(30, "too much at once, or full", true),
    Meaning(31, "more than the quota allows", true),
    Meaning(32, "the server is going", false),
    Meaning(40, "a newer connection took the device over: are two clients one id?", false),
    Meaning(42, "nothing was heard for too long", false),
    Meaning(43, "the client did not read", false),
    Meaning(44, "no Bind came in time", true),
    Meaning(50, "a defect of the server", false),
];

/// MQTT 3.1.1 table 3.1 and MQTT 5 table 2-6: what may refuse or end a session.
const MQTT: &[Meaning] = &[
    Meaning(1, "the protocol version is not served", false),
    Meaning(2, "the client identifier is not allowed", false),
    Meaning(3, "server unavailable", true),
    Meaning(4, "bad user name or password", false),
    Meaning(5, "not authorised", false),
    Meaning(132, "the protocol version is not served", false),
    Meaning(133, "the client identifier is not valid", false),
    Meaning(134, "bad user name or password", false),
    Meaning(135, "not authorised", false),
    Meaning(136, "server unavailable", true),
    Meaning(137, "server busy", true),
    Meaning(138, "banned", false),
    Meaning(139, "the server is shutting down", false),
    Meaning(141, "keep-alive timeout", false),
    Meaning(142, "the session was taken over: are two clients one id?", false),
    Meaning(147, "more at once than the receive maximum", true),
    Meaning(150, "message rate too high", true),
    Meaning(151, "quota exceeded", true),
    Meaning(156, "use another server", false),
    Meaning(157, "the server has moved", false),
    Meaning(159, "connection rate exceeded", true),
];

/// IM 8.1: what may refuse or end a session. Of messages (IM 8.2) the numbers say other things.
const IM: &[Meaning] = &[
    Meaning(1, "name, password, token or proof are wrong", false),
    Meaning(2, "not authorised", false),
    Meaning(3, "the account's or the device's name is not allowed", false),
    Meaning(5, "what must be asked does not answer", true),
    Meaning(6, "busy", true),
    Meaning(7, "full", true),
    Meaning(8, "more than a quota allows", true),
    Meaning(9, "more than a rate allows", true),
    Meaning(10, "banned", false),
    Meaning(14, "a newer connection took the device over: are two clients one device?", false),
    Meaning(15, "an operator said so", false),
    Meaning(16, "the session's authorisation is over", false),
    Meaning(17, "the log has no room", true),
    Meaning(18, "the log takes nothing until a restart", true),
    Meaning(35, "no login came in time", true),
    Meaning(36, "nothing was heard for too long", false),
];

/// IM 8.2: why a message was not taken.
const IM_MESSAGES: &[Meaning] = &[
    Meaning(1, "no such account", false),
    Meaning(2, "the message's id was used for another one", false),
    Meaning(3, "too large", false),
    Meaning(4, "it makes no sense", false),
    Meaning(5, "busy", true),
    Meaning(6, "the log has no room", true),
    Meaning(7, "the log takes nothing until a restart", true),
];

const HTTP: &[Meaning] = &[
    Meaning(401, "not authorised", false),
    Meaning(403, "forbidden", false),
    Meaning(404, "no such path", false),
    Meaning(429, "too many requests", true),
    Meaning(502, "bad gateway", true),
    Meaning(503, "service unavailable", true),
    Meaning(504, "gateway timeout", true),
];

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
            let meaning = known(code).map_or(String::new(), |known| format!(" ({})", known.1));
            format!("{} x {code}{meaning}", words::count(*count as f64))
        })
        .collect();
    let full: u64 = codes
        .iter()
        .filter(|(code, _)| known(code).is_some_and(|known| known.2))
        .map(|(_, count)| count)
        .sum();
    let (from_ms, to_ms) = when(case);
    let limit = full > 0 && full as f64 >= 0.001 * total.attempts as f64;
    let of = match refused {
        0 => String::new(),
        _ => format!("; {} calls in all were refused or ended so", words::count(refused as f64)),
    };
    let online = case.online(from_ms).filter(|_| from_ms > 0).map_or(String::new(), |online| {
        format!("; {} clients were online when it began", words::count(online))
    });
    vec![Finding {
        gravity: if limit { Gravity::Limit } else { Gravity::Warning },
        side: "target".to_owned(),
        what: match limit {
            true => "The server said itself that it is full or asked too much.",
            false => "The server refused clients or ended their sessions.",
        }
        .to_owned(),
        evidence: format!("{}{of}{online}", words::list(&told)),
        remedy: match limit {
            true => {
                "The server's own limits: connections, rate of connections, quota; its \
                     log and metrics tell which."
            }
            false => {
                "Look at credentials, client ids and version of the plan, and at the \
                      server's log."
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

/// What is known of a code like `refused 135`, by the scheme of the target.
fn meaning(case: &Case, code: &str) -> Option<&'static Meaning> {
    let number: u64 = code.rsplit(' ').next()?.parse().ok()?;
    let scheme = case.run.target.first()?.split(':').next()?;
    let list = match scheme {
        "miop" | "miops" => MIOP,
        "mqtt" | "mqtts" | "ws" | "wss" => MQTT,
        "im" | "ims" if code.starts_with("not taken") => IM_MESSAGES,
        "im" | "ims" => IM,
        "http" | "https" => HTTP,
        _ => return None,
    };
    list.iter().find(|known| known.0 == number)
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
        assert!(with("refused 137").evidence.contains("; 500 calls in all were refused"));
        let mut run = Made::of(40).run(20_000);
        run.total.codes.insert("refused 137".to_owned(), 500);
        let found = detect(&Case::of(&run)).remove(0);
        assert_eq!(found.evidence, "500 x refused 137 (server busy)");
    }
}
