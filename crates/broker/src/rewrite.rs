//! Rules that give topics and filters another name, and subscriptions that every client has.
//!
//! A rule is a filter and what a match becomes: `$1`, `$2` … are what the wildcards of the filter
//! stood for, `%c` is the client's identifier and `%u` its user, in either of them. The first rule
//! that applies is the only one. `#` stands for all levels that are left; where it stands for none,
//! the `/` before its place goes too. A name that cannot be one level (empty, or with `/`, `+` or
//! `#`) is never put in: a rule that needs it does not apply.
//!
//! The values are made once, by the configuration; a client's name or topic cannot change them.

mod rule;
#[cfg(test)]
mod tests;

use model::topic::{Qos, RetainHandling, SubscriptionOptions};
use rule::Rule;

/// Most rules, and most filters in a list of subscriptions.
pub const RULES_MAX: usize = 1_024;

/// A rule as it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RewriteRule {
    /// Topics or filters that the rule applies to: a filter, with `%c` and `%u` where names stand.
    pub filter: String,
    /// Replacement of the topic or filter.
    pub to: String,
    /// Whether the rule applies to publishing.
    pub publish: bool,
    /// Whether the rule applies to subscribing and unsubscribing.
    pub subscribe: bool,
}

/// A subscription that every client is given when it connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AutoSubscribe {
    /// Its filter, with `%c` and `%u` where names stand.
    pub filter: String,
    /// The highest QoS.
    pub qos: Qos,
    /// Whether messages that the client published itself are left out.
    pub no_local: bool,
    /// Messages keep the retain flag they were published with.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// Names of the client whose topic or filter is renamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names<'n> {
    /// The client identifier.
    pub client: &'n str,
    /// The user, if it has one.
    pub user: Option<&'n str>,
}

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub struct Rewrites {
    publish: Vec<Rule>,
    subscribe: Vec<Rule>,
}

/// The subscriptions that every client is given.
#[derive(Clone, Debug, Default)]
pub struct AutoSubscribes {
    wishes: Vec<AutoSubscribe>,
}

impl Rewrites {
    /// Rules, the first first. `Err` says which is none, and why.
    pub fn new(rules: Vec<RewriteRule>) -> Result<Rewrites, String> {
        if rules.len() > RULES_MAX {
            return Err(format!("more than {RULES_MAX} rules"));
        }
        let mut rewrites = Rewrites::default();
        for RewriteRule { filter, to, publish, subscribe } in rules {
            let rule = Rule::new(&filter, &to)
                .map_err(|why| format!("rule \"{filter}\" to \"{to}\": {why}"))?;
            if publish {
                rewrites.publish.push(rule.clone());
            }
            if subscribe {
                rewrites.subscribe.push(rule);
            }
        }
        Ok(rewrites)
    }

    /// Whether nothing published has another name.
    pub fn leaves_publish(&self) -> bool {
        self.publish.is_empty()
    }

    /// The new name of a topic that is published to; `None`: it keeps its name. Its length and
    /// levels are to be checked as if the client had written it.
    pub fn published(&self, topic: &str, names: Names<'_>) -> Option<String> {
        let renamed = self.publish.iter().find_map(|rule| rule.apply(topic, names))?;
        is_filter(&renamed).then_some(renamed)
    }

    /// As [`published`](Self::published), for a filter. Of a shared or exclusive one only the plain
    /// filter is changed.
    pub fn subscribed(&self, filter: &str, names: Names<'_>) -> Option<String> {
        if self.subscribe.is_empty() {
            return None;
        }
        let (prefix, plain) = split(filter);
        let renamed = self.subscribe.iter().find_map(|rule| rule.apply(plain, names))?;
        is_filter(&renamed).then(|| format!("{prefix}{renamed}"))
    }
}

impl AutoSubscribes {
    /// A list of subscriptions. `Err` says which is none.
    pub fn new(wishes: Vec<AutoSubscribe>) -> Result<AutoSubscribes, String> {
        if wishes.len() > RULES_MAX {
            return Err(format!("more than {RULES_MAX} filters"));
        }
        let is_bad = |wish: &&AutoSubscribe| {
            let (prefix, plain) = split(&wish.filter);
            !is_filter(plain) || prefix.starts_with("$share/") && wish.no_local
        };
        match wishes.iter().find(is_bad) {
            Some(wish) => Err(format!("\"{}\" is no topic filter", wish.filter)),
            None => Ok(AutoSubscribes { wishes }),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.wishes.is_empty()
    }

    /// Subscriptions for a client. A filter with a name that the client does not have, or that
    /// cannot be one level, is left out.
    pub fn wishes(&self, names: Names<'_>) -> Vec<SubscriptionOptions> {
        let wish = |wish: &AutoSubscribe| {
            let mut filter = String::new();
            rule::fill(&wish.filter, names, &mut filter)?;
            Some(SubscriptionOptions {
                filter: filter.into_boxed_str(),
                qos: wish.qos,
                no_local: wish.no_local,
                retain_as_published: wish.retain_as_published,
                retain_handling: wish.retain_handling,
            })
        };
        self.wishes.iter().filter_map(wish).collect()
    }
}

/// Parts a filter into what makes it a shared or exclusive one, and the plain filter.
fn split(filter: &str) -> (&str, &str) {
    let prefix_bytes = if filter.starts_with("$exclusive/") {
        "$exclusive/".len()
    } else if let Some(shared) = filter.strip_prefix("$share/") {
        shared.find('/').map_or(0, |at| "$share/".len() + at + 1)
    } else {
        0
    };
    filter.split_at(prefix_bytes)
}

/// Whether it has the form of a topic filter (MQTT5 4.7.1-1, 4.7.1-2, 4.7.3-1 to 3).
fn is_filter(text: &str) -> bool {
    let levels = text.split('/').count();
    let is_level = |(at, level): (usize, &str)| match level {
        "+" => true,
        "#" => at + 1 == levels,
        level => !level.contains(['+', '#', '\0']),
    };
    !text.is_empty() && text.len() <= 65_535 && text.split('/').enumerate().all(is_level)
}
