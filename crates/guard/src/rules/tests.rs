//! Rules by example, and against a look at every topic of a small world.

use super::*;
use base::prng::Prng;

const WHO: Who<'_> = Who { client_id: "c1", user: Some("u1") };

fn line(text: &str) -> RuleLine {
    let mut words = text.splitn(3, ' ');
    let allow = words.next() == Some("allow");
    let act = words.next().expect("an act");
    let pattern = Pattern::parse(words.next().expect("a pattern")).expect("a pattern");
    RuleLine { allow, publish: act != "read", read: act != "publish", pattern }
}

fn rules(lines: &[&str]) -> UserRules {
    let list = List::new(lines.iter().map(|text| line(text)).collect());
    UserRules::new(vec![Arc::new(list)], false)
}

#[test]
fn the_first_line_that_is_about_it_decides() {
    let rules = rules(&["deny publish a/b", "allow both a/#", "deny both a/c", "allow read +/d"]);
    assert!(!rules.may(&WHO, Act::Publish, "a/b") && rules.may(&WHO, Act::Read, "a/b"));
    assert!(rules.may(&WHO, Act::Publish, "a/c"), "an earlier line allows it");
    assert!(rules.may(&WHO, Act::Read, "x/d") && !rules.may(&WHO, Act::Publish, "x/d"));
    assert!(!rules.may(&WHO, Act::Read, "x"), "nothing speaks of it");
}

#[test]
fn a_filter_reaches_as_far_as_its_topics() {
    let allow = rules(&["allow read a/#", "allow read dev/%c/in", "allow publish w/#"]);
    for (filter, reach) in [
        ("a/#", Reach::All),
        ("a/+/c", Reach::All),
        ("dev/c1/in", Reach::All),
        ("#", Reach::Partly),
        ("dev/+/in", Reach::Partly),
        ("dev/c2/in", Reach::Nothing),
        ("w/#", Reach::Nothing),
        ("$SYS/#", Reach::Nothing),
    ] {
        assert_eq!(allow.reach(&WHO, filter), reach, "{filter}");
    }
    let deny = rules(&["deny read a/secret/#", "allow read #"]);
    assert_eq!(deny.reach(&WHO, "a/+"), Reach::Partly);
    assert_eq!(deny.reach(&WHO, "a/secret/x"), Reach::Nothing);
    assert_eq!(deny.reach(&WHO, "b/#"), Reach::All);
    assert_eq!(deny.reach(&WHO, "$SYS/#"), Reach::Nothing, "# is not about the server's own");
}

#[test]
fn what_no_line_speaks_of_may_be_allowed() {
    let list = Arc::new(List::new(vec![line("deny both a/#")]));
    let rules = UserRules::new(vec![list], true);
    assert!(rules.may(&WHO, Act::Read, "b") && !rules.may(&WHO, Act::Read, "a/x"));
    assert_eq!(rules.reach(&WHO, "b/#"), Reach::All);
    assert_eq!(rules.reach(&WHO, "#"), Reach::Partly);
}

#[test]
fn names_with_wildcards_have_no_part_in_patterns() {
    let list = Arc::new(List::for_plain_names(vec![line("allow both public/#")]));
    let rules = UserRules::new(vec![list], false);
    assert!(rules.may(&WHO, Act::Read, "public/x"));
    for who in [Who { client_id: "a+", ..WHO }, Who { user: Some("#"), ..WHO }] {
        assert!(!rules.may(&who, Act::Read, "public/x"));
        assert_eq!(rules.reach(&who, "public/x"), Reach::Nothing);
    }
}

#[test]
fn a_rule_about_nothing_is_refused() {
    let rule = |publish, filter: &str| UserRule {
        allow: true,
        publish,
        read: false,
        filter: filter.into(),
    };
    assert!(RuleLine::of(&rule(true, "a/%u/#")).is_ok());
    assert!(
        RuleLine::of(&rule(false, "a")).is_err() && RuleLine::of(&rule(true, "a/#/b")).is_err()
    );
}

const LEVELS: [&str; 5] = ["a", "b", "c1", "", "$x"];

/// Every topic of up to three of the levels.
fn topics() -> Vec<String> {
    let mut topics: Vec<String> = LEVELS.map(String::from).into();
    let mut last = topics.clone();
    for _ in 0..2 {
        let longer = last.iter().flat_map(|topic| LEVELS.map(|level| format!("{topic}/{level}")));
        last = longer.collect();
        topics.extend(last.iter().cloned());
    }
    topics.retain(|topic| !topic.is_empty());
    topics
}

fn filter(rng: &mut Prng, names: bool) -> String {
    let mut levels = Vec::new();
    for _ in 0..=rng.below(3) {
        levels.push(match rng.below(8) {
            0 | 1 => "+",
            2 if names => "%c",
            3 if names => "%u",
            other => LEVELS[other as usize % LEVELS.len()],
        });
    }
    if rng.below(4) == 0 {
        *levels.last_mut().expect("one at least") = "#";
    }
    let filter = levels.join("/");
    if filter.is_empty() { "+".into() } else { filter }
}

/// The measure of every quicker way: the lines in order, and the standard's own words for a match.
fn by_hand(lines: &[(RuleLine, String)], act: Act, topic: &str) -> bool {
    let found = lines.iter().find(|(line, filter)| line.is_about(act) && is_match(filter, topic));
    found.is_some_and(|(line, _)| line.allow)
}

fn is_match(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') != filter.starts_with('$') {
        return false;
    }
    let (filter, topic): (Vec<_>, Vec<_>) =
        (filter.split('/').collect(), topic.split('/').collect());
    let Some(plain) = filter.strip_suffix(&["#"]) else {
        let same = filter.iter().zip(&topic).all(|(one, other)| *one == "+" || one == other);
        return filter.len() == topic.len() && same;
    };
    let same = plain.iter().zip(&topic).all(|(one, other)| *one == "+" || one == other);
    topic.len() >= plain.len().max(1) && same
}

#[test]
fn rules_agree_with_a_look_at_every_topic() {
    let topics = topics();
    let (mut all, mut partly, mut nothing) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut rng = Prng::new(seed);
        let count = 1 + rng.below(if seed % 3 == 0 { 24 } else { 6 });
        let lines = (0..count).map(|_| {
            let text = filter(&mut rng, true);
            let act = ["read", "publish", "both"][rng.below(3) as usize];
            let allow = if rng.below(3) == 0 { "deny" } else { "allow" };
            let own = text.replace("%c", "c1").replace("%u", "b");
            (line(&format!("{allow} {act} {text}")), own)
        });
        let lines: Vec<(RuleLine, String)> = lines.collect();
        let list = List::new(lines.iter().map(|(line, _)| line.clone()).collect());
        let rules = UserRules::new(vec![Arc::new(list)], false);
        let who = Who { client_id: "c1", user: Some("b") };
        for topic in &topics {
            for act in [Act::Read, Act::Publish] {
                let own = by_hand(&lines, act, topic);
                assert_eq!(rules.may(&who, act, topic), own, "seed {seed}: {act:?} {topic}");
            }
        }
        let wanted = filter(&mut rng, false);
        let matched = || topics.iter().filter(|topic| is_match(&wanted, topic));
        let allowed = matched().filter(|topic| by_hand(&lines, Act::Read, topic)).count();
        let reach = rules.reach(&who, &wanted);
        match reach {
            Reach::All => all += 1,
            Reach::Partly => partly += 1,
            Reach::Nothing => nothing += 1,
        }
        let holds = match reach {
            Reach::All => allowed == matched().count(),
            Reach::Nothing => allowed == 0,
            Reach::Partly => true,
        };
        assert!(holds, "seed {seed}: {wanted} does not reach {reach:?}");
        // With one line, the answer is exact.
        if let [(only, own)] = &*lines
            && only.read
            && !own.contains("c1/c1")
        {
            let exact = match (allowed, matched().count()) {
                (0, _) => Reach::Nothing,
                (allowed, count) if allowed == count => Reach::All,
                _ => Reach::Partly,
            };
            // Topics of more levels than those looked at are beyond the measure.
            let is_deep = wanted.ends_with('#') || own.ends_with('#');
            assert!(is_deep || reach == exact, "seed {seed}: {wanted} in {own}");
        }
    }
    assert!(all > 50 && partly > 100 && nothing > 100, "{all} {partly} {nothing}");
}
