//! Messages that did not arrive as they were sent, and subscriptions that were refused: what a
//! server owes its clients, whether or not a rule asks for it.
//!
//! Messages of stages in which the plan broke something are counted apart from the rest.

use crate::case::{Case, disturbance};
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity, StageRun};

/// One thing that may be wrong.
struct Wrong {
    /// Its figure.
    figure: &'static str,
    /// Of how many of these.
    of: &'static [&'static str],
    /// Words behind the count.
    what: &'static str,
    /// Meaning of the fault, and where to look.
    remedy: &'static str,
}

const RECEIVED: &[&str] = &["messages.received"];
const EXPECTED: &[&str] = &["audit.expected"];

const WRONGS: [Wrong; 21] = [
    Wrong {
        figure: "messages.missing",
        of: &["messages.received", "messages.missing"],
        what: "messages did not arrive",
        remedy: "Check the server's queue limits and its counters of dropped messages.",
    },
    Wrong {
        figure: "messages.repeated",
        of: RECEIVED,
        what: "messages arrived more than once",
        remedy: "Only QoS 1 permits duplicates, and only after the connection ended.",
    },
    Wrong {
        figure: "messages.reordered",
        of: RECEIVED,
        what: "messages arrived out of order within a sender and topic",
        remedy: "MQTT keeps the order of a topic (4.6), IM that of a conversation (5.1): look for \
                 several paths through the server.",
    },
    Wrong {
        figure: "messages.changed",
        of: RECEIVED,
        what: "messages arrived with a changed body",
        remedy: "Check for a bridge, a rule or a plugin of the server that rewrites messages.",
    },
    Wrong {
        figure: "messages.foreign",
        of: RECEIVED,
        what: "messages arrived that no client of this run sent",
        remedy: "Check for other publishers and for retained messages of an earlier run; use \
                 separate topics.",
    },
    Wrong {
        figure: "messages.astray",
        of: RECEIVED,
        what: "messages reached clients that had not subscribed to their topic",
        remedy: "Check the server's topic matching, and whether it mixes up sessions.",
    },
    Wrong {
        figure: "messages.other_qos",
        of: RECEIVED,
        what: "messages arrived at another QoS than the lower one of publication and subscription",
        remedy: "A broker delivers at the lower one of both (MQTT 3.8.4, 4.3). Does an option of \
                 the server lower or raise the QoS?",
    },
    Wrong {
        figure: "messages.other_topic",
        of: RECEIVED,
        what: "messages arrived under another topic than they were published to",
        remedy: "Look for a bridge or a rule that rewrites topics, and at topic aliases.",
    },
    Wrong {
        figure: "messages.retained_live",
        of: RECEIVED,
        what: "messages arrived with RETAIN although they were published without it",
        remedy: "RETAIN is 0 for what an existing subscription gets (MQTT 3.3.1.3).",
    },
    Wrong {
        figure: "messages.early_dup",
        of: RECEIVED,
        what: "messages arrived with DUP although they had not been sent before",
        remedy: "DUP is 0 at the first attempt (MQTT 3.3.1.1): applications drop such messages.",
    },
    Wrong {
        figure: "messages.other_sender",
        of: RECEIVED,
        what: "messages arrived with the wrong sender",
        remedy: "A server stamps `from` with the address of who sent it (RFC 6120 8.1.2.1).",
    },
    Wrong {
        figure: "messages.overcounted",
        of: &[],
        what: "acknowledgements exceeded the number of stanzas sent",
        remedy: "`h` counts the stanzas that were handled (XEP-0198 4): a client that believes it \
                 loses what was not.",
    },
    Wrong {
        figure: "sessions.lost",
        of: &["resumed", "sessions.lost"],
        what: "returning clients had lost their session on the server",
        remedy: "A session without Clean Session outlives its connection (MQTT 3.1.2.4): look at \
                 limits of sessions, their expiry, and persistence.",
    },
    Wrong {
        figure: "subscriptions.lowered",
        of: &["subscriptions.granted"],
        what: "subscriptions were granted at a lower QoS than requested",
        remedy: "Does an option or a rule of access of the server limit the QoS?",
    },
    Wrong {
        figure: "messages.unanswered",
        of: &["messages.sent"],
        what: "messages were never acknowledged",
        remedy: "The server owes each PUBLISH of QoS 1 and 2 its answer (4.3), and each Send of IM \
                 (4.2): look at its log.",
    },
    Wrong {
        figure: "messages.refused",
        of: &["messages.sent"],
        what: "messages were refused; the codes give the reason",
        remedy: "Check the server's access rules and quotas.",
    },
    Wrong {
        figure: "audit.missing",
        of: EXPECTED,
        what: "acknowledged messages are missing in inboxes",
        remedy: "What is acknowledged is stored (IM 4.2): look at the server's log and its disk.",
    },
    Wrong {
        figure: "audit.repeated",
        of: EXPECTED,
        what: "messages are duplicated in an inbox",
        remedy: "A message is said once by its id (IM 4.2), and has one place in an inbox (5.1).",
    },
    Wrong {
        figure: "audit.reordered",
        of: EXPECTED,
        what: "messages are out of order in an inbox",
        remedy: "An inbox has each conversation in its order (IM 5.1).",
    },
    Wrong {
        figure: "subscriptions.refused",
        of: &["subscriptions.granted", "subscriptions.refused"],
        what: "subscriptions were refused; the codes give the reason",
        remedy: "Check the server's access rules and the plan's filters.",
    },
    Wrong {
        figure: "subscriptions.unanswered",
        of: &["subscriptions.granted", "subscriptions.refused", "subscriptions.unanswered"],
        what: "subscriptions had no answer",
        remedy: "The server owes each SUBSCRIBE a SUBACK (3.8.4): look at its log.",
    },
];

/// Finds faults of messages and subscriptions.
pub fn detect(case: &Case) -> Vec<Finding> {
    WRONGS.iter().filter_map(|wrong| of(case, wrong)).collect()
}

fn of(case: &Case, wrong: &Wrong) -> Option<Finding> {
    let run = case.run;
    let all = run.total.figure(wrong.figure);
    if all < 1.0 {
        return None;
    }
    let mut stages: Vec<String> = Vec::new();
    let mut planned = 0.0;
    for stage in &run.stages {
        let count = stage.counts.figure(wrong.figure);
        if count < 1.0 {
            continue;
        }
        let of = format!("{} in stage `{}`", words::count(count), stage.name);
        match disturbance(run, stage) {
            Some(note) => {
                let kept = kept(case, wrong.figure, stage);
                planned += count - kept;
                let kept = match kept >= 1.0 {
                    true => format!(
                        "; {} of these were for sessions that the server keeps",
                        words::count(kept)
                    ),
                    false => String::new(),
                };
                stages.push(format!("{of}, in which {} on purpose{kept}", told(&note.text)));
            }
            None => stages.push(of),
        }
    }
    let planned = f64::min(planned, all);
    let rest = all - planned;
    let whole: f64 = wrong.of.iter().map(|name| run.total.figure(name)).sum();
    let codes = codes(case, wrong.figure);
    let met = window::bursts(case.series(), &format!("clients.{}", wrong.figure), u64::MAX);
    let (from_ms, to_ms) = met.first().map_or((0, case.end_ms()), |met| (met.0, met.1));
    let is_planned = rest < 1.0;
    let share = match whole >= all {
        true => format!(" of {} ({})", words::count(whole), words::percent(all / whole)),
        false => String::new(),
    };
    let stages = if stages.is_empty() { String::new() } else { format!(": {}", stages.join("; ")) };
    Some(Finding {
        gravity: if is_planned { Gravity::Note } else { Gravity::Warning },
        side: if is_planned { "plan" } else { "target" }.to_owned(),
        what: match is_planned {
            true => {
                format!("{} {}, all during planned faults.", words::count(all), wrong.what)
            }
            false => format!("{} {}.", words::count(rest), wrong.what),
        },
        evidence: format!("{}{share}{stages}{codes}", words::count(all)),
        remedy: wrong.remedy.to_owned(),
        from_ms,
        to_ms,
    })
}

/// Of what is wrong in a stage those that a disturbance does not excuse: a session that outlives
/// its connection outlives a cut, and so does what was sent to it at QoS 1 or 2. A server that was
/// killed may have lost both, unless it promises to be durable; that is for a rule to say.
fn kept(case: &Case, figure: &str, stage: &StageRun) -> f64 {
    let all = stage.counts.figure(figure);
    match figure {
        _ if case.was_killed_in(stage) => 0.0,
        "messages.missing" => stage.counts.figure("messages.missing_kept").min(all),
        "sessions.lost" => all,
        _ => 0.0,
    }
}

/// A note's words within a sentence.
fn told(note: &str) -> &str {
    note.strip_prefix(crate::case::BROKEN).unwrap_or(note)
}

/// The codes that belong to a figure, in words.
fn codes(case: &Case, figure: &str) -> String {
    let word = match figure {
        "subscriptions.refused" => "subscription refused ",
        "messages.refused" => "not taken ",
        _ => return String::new(),
    };
    let codes = case.run.total.codes.iter().filter(|(code, _)| code.starts_with(word));
    let told: Vec<String> =
        codes.take(5).map(|(code, n)| format!("{} x {code}", words::count(*n as f64))).collect();
    if told.is_empty() { String::new() } else { format!("; {}", words::list(&told)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::run::{Note, Run};

    fn run(figure: &str, count: f64) -> Run {
        let mut run = Made::of(60).run(10);
        for counts in [&mut run.total, &mut run.stages[0].counts] {
            counts.raise("messages.received", 1_000.0);
            counts.raise("messages.sent", 1_000.0);
            counts.raise(figure, count);
        }
        run
    }

    #[test]
    fn every_wrong_is_told_whatever_the_rules_are_and_none_where_there_is_none() {
        for wrong in &WRONGS {
            let found = detect(&Case::of(&run(wrong.figure, 7.0)));
            assert_eq!(found.len(), 1, "{}", wrong.figure);
            assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Warning, "target"));
            assert_eq!(found[0].what, format!("7 {}.", wrong.what));
            assert!(found[0].evidence.contains("7 in stage `hold`"), "{}", found[0].evidence);
            assert_eq!(detect(&Case::of(&run(wrong.figure, 0.0))), []);
        }
    }

    #[test]
    fn what_the_plan_broke_is_told_apart() {
        for note in ["broken on purpose: the target is stopped", "30 % of the clients: they reset"]
        {
            let mut run = run("messages.missing", 9.0);
            run.notes.push(Note { at_ms: 10_000, text: note.to_owned() });
            let found = detect(&Case::of(&run));
            assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Note, "plan"));
            assert!(found[0].evidence.contains("on purpose"), "{}", found[0].evidence);
            // Two more in another stage are not excused.
            let mut quiet = run.stages[0].clone();
            (quiet.name, quiet.from_ms) = ("quiet".to_owned(), 60_001);
            quiet.to_ms = 70_000;
            quiet.counts.figures.insert("messages.missing".to_owned(), 2.0);
            run.stages.push(quiet);
            run.total.raise("messages.missing", 2.0);
            let found = detect(&Case::of(&run));
            assert_eq!(found[0].what, "2 messages did not arrive.");
            assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Warning, "target"));
        }
    }

    #[test]
    fn a_cut_is_no_excuse_for_what_a_kept_session_misses_and_a_kill_is() {
        for (note, side, what) in [
            ("30 % of the clients: they reset", "target", "6 messages did not arrive."),
            ("broken on purpose: the network is cut", "target", "6 messages did not arrive."),
            ("broken on purpose: the target (process 7) was killed", "plan", "9 messages did not"),
        ] {
            let mut run = run("messages.missing", 9.0);
            for counts in [&mut run.total, &mut run.stages[0].counts] {
                counts.raise("messages.missing_kept", 6.0);
            }
            run.notes.push(Note { at_ms: 10_000, text: note.to_owned() });
            let found = detect(&Case::of(&run));
            assert_eq!(&*found[0].side, side, "{note}");
            assert!(found[0].what.starts_with(what), "{}", found[0].what);
        }
    }

    #[test]
    fn codes_are_told_with_the_figure_that_they_belong_to() {
        for (figure, code) in [
            ("subscriptions.refused", "subscription refused 135"),
            ("messages.refused", "not taken 151"),
        ] {
            let mut run = run(figure, 7.0);
            run.total.codes.insert("subscription refused 135".to_owned(), 3);
            run.total.codes.insert("not taken 151".to_owned(), 3);
            let found = detect(&Case::of(&run));
            assert!(found[0].evidence.ends_with(&format!("; 3 x {code}")), "{}", found[0].evidence);
        }
        let mut run = run("messages.missing", 7.0);
        run.total.codes.insert("not taken 151".to_owned(), 3);
        assert!(!detect(&Case::of(&run))[0].evidence.contains("151"));
    }
}
