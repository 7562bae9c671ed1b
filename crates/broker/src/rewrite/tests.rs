//! Rules by example, and what they must never do.

use super::*;
use crate::routes::matches;
use base::prng::Prng;

const NAMES: Names<'_> = Names { client: "d7", user: Some("ann") };

fn rules(rules: &[(&str, &str)]) -> Result<Rewrites, String> {
    let rule = |&(filter, to): &(&str, &str)| RewriteRule {
        filter: filter.to_owned(),
        to: to.to_owned(),
        publish: true,
        subscribe: true,
    };
    Rewrites::new(rules.iter().map(rule).collect())
}

#[test]
fn a_match_becomes_what_the_rule_says() {
    for (filter, to, topic, wanted) in [
        ("x/+/y/#", "z/$1/$2", "x/a/y/b/c", Some("z/a/b/c")),
        ("x/+/y/#", "z/$1/$2", "x/a/y", Some("z/a")),
        ("x/#", "$1", "x/a", Some("a")),
        ("x/#", "$1", "x", None),
        ("x/#", "v-$1-w", "x", Some("v--w")),
        ("+/+", "$2/$1", "a/b", Some("b/a")),
        ("+/+", "$2/$2", "/b", Some("b/b")),
        ("+", "all/$1", "$SYS", None),
        ("x", "$SYS/x$", "x", Some("$SYS/x$")),
        ("x", "a/%c/%u/%", "x", Some("a/d7/ann/%")),
        ("dev/%c/in", "in/%u", "dev/d7/in", Some("in/ann")),
        ("dev/%c/in", "in", "dev/d8/in", None),
        ("p-%c/+", "q-$1", "p-d7/a", Some("q-a")),
        ("x/y", "z", "x/y/z", None),
        ("x/y", "z", "x", None),
    ] {
        let rewrites = rules(&[(filter, to)]).expect("a rule");
        assert_eq!(rewrites.published(topic, NAMES).as_deref(), wanted, "{filter} {to} {topic}");
    }
}

#[test]
fn the_first_rule_that_applies_is_the_only_one() {
    let rewrites = rules(&[("a/+", "b/$1"), ("b/+", "c/$1"), ("a/#", "d")]).expect("rules");
    for (topic, wanted) in [("a/x", "b/x"), ("b/x", "c/x"), ("a/x/y", "d")] {
        assert_eq!(rewrites.published(topic, NAMES).as_deref(), Some(wanted));
    }
    assert_eq!(rewrites.published("e", NAMES), None);
}

#[test]
fn filters_are_renamed_and_stay_filters() {
    let rewrites = rules(&[("x/+", "y/$1"), ("p/#", "q/$1"), ("m/+", "n-$1")]).expect("rules");
    for (filter, wanted) in [
        ("x/+", Some("y/+")),
        ("x/#", None),
        ("p/+/a/#", Some("q/+/a/#")),
        ("p/#", Some("q/#")),
        ("m/a", Some("n-a")),
        ("m/+", None), // "n-+" is no filter
        ("$share/g/x/a", Some("$share/g/y/a")),
        ("$exclusive/x/a", Some("$exclusive/y/a")),
        ("$share/x", None),
    ] {
        assert_eq!(rewrites.subscribed(filter, NAMES).as_deref(), wanted, "{filter}");
    }
}

#[test]
fn a_rule_is_for_publishing_or_subscribing_or_both() {
    let rule = |publish, subscribe| RewriteRule {
        filter: "a".to_owned(),
        to: "b".to_owned(),
        publish,
        subscribe,
    };
    for (publish, subscribe) in [(true, false), (false, true), (false, false)] {
        let rewrites = Rewrites::new(vec![rule(publish, subscribe)]).expect("a rule");
        assert_eq!(rewrites.published("a", NAMES).is_some(), publish);
        assert_eq!(rewrites.leaves_publish(), !publish);
        assert_eq!(rewrites.subscribed("a", NAMES).is_some(), subscribe);
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    let refused = [("a/#/b", "x"), ("a+", "x"), ("", "x"), ("a", ""), ("a", "x/+"), ("a", "#")];
    for rule in refused.into_iter().chain([("+/+", "$3"), ("+", "$0"), ("a", "$1")]) {
        let refusal = rules(&[rule]).expect_err(rule.0);
        assert!(refusal.contains(rule.1), "{refusal}");
    }
    let text = rules(&[("+", "$99999999999999999999999")]).expect("too large to be a number");
    assert_eq!(text.published("a", NAMES).as_deref(), Some("$99999999999999999999999"));
    assert!(rules(&vec![("a", "b"); RULES_MAX]).is_ok());
    assert!(rules(&vec![("a", "b"); RULES_MAX + 1]).is_err());
    let auto = |count: usize| {
        let wish = AutoSubscribe {
            filter: "a".to_owned(),
            qos: Qos::AtMostOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        };
        AutoSubscribes::new(vec![wish; count])
    };
    assert!(auto(RULES_MAX).is_ok() && auto(RULES_MAX + 1).is_err());
}

#[test]
fn a_name_that_is_no_level_is_never_put_in() {
    let rewrites = rules(&[("x/+", "%c/$1"), ("y/%u", "z")]).expect("rules");
    for client in ["", "a/b", "+", "#", "a#", "a\0"] {
        let names = Names { client, user: Some("a/b") };
        assert_eq!(rewrites.published("x/1", names), None);
        assert_eq!(rewrites.published("y/a/b", names), None);
    }
    assert_eq!(rewrites.published("y/ann", Names { user: None, ..NAMES }), None);
}

#[test]
fn a_rule_applies_to_what_its_filter_matches() {
    let levels = ["a", "b", "", "+", "$s"];
    for seed in 0..2_000 {
        let mut rng = Prng::new(seed);
        let mut text = |wildcards: bool| {
            let count = 1 + rng.below(4);
            let level = |_| match levels[rng.below(5) as usize] {
                "+" if !wildcards => "c",
                level => level,
            };
            let mut text: Vec<&str> = (0..count).map(level).collect();
            if wildcards && rng.one_in(3) {
                text.push("#");
            }
            text.join("/")
        };
        let (filter, topic) = (text(true), text(false));
        if filter.is_empty() || topic.is_empty() {
            continue;
        }
        let rewrites = rules(&[(&filter, "to")]).expect("a rule");
        let applies = rewrites.published(&topic, NAMES).is_some();
        assert_eq!(applies, matches(&filter, &topic), "{filter} {topic}");
    }
}

#[test]
fn every_client_gets_what_its_names_allow() {
    let wish = |filter: &str, qos| AutoSubscribe {
        filter: filter.to_owned(),
        qos,
        no_local: false,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    let list = ["dev/%c/#", "users/%u/+", "all", "$share/g/x"];
    let list = list.map(|filter| wish(filter, Qos::AtLeastOnce)).to_vec();
    let auto = AutoSubscribes::new(list).expect("filters");
    let filters = |names| -> Vec<String> {
        auto.wishes(names).into_iter().map(|wish| wish.filter.into()).collect()
    };
    assert_eq!(filters(NAMES), ["dev/d7/#", "users/ann/+", "all", "$share/g/x"]);
    assert_eq!(filters(Names { client: "a/b", user: None }), ["all", "$share/g/x"]);
    let first = &auto.wishes(NAMES)[0];
    assert_eq!((first.qos, first.retain_as_published), (Qos::AtLeastOnce, true));
    assert_eq!(first.retain_handling, RetainHandling::DoNotSend);
    assert!(AutoSubscribes::new(vec![wish("a/#/b", Qos::AtMostOnce)]).is_err());
    assert!(AutoSubscribes::default().is_empty() && !auto.is_empty());
}
