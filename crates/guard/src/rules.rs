//! Access rules: lines in lists, lists in order, and a default for topics that no line matches.
//!
//! The first line that is about the act and matches the topic decides. Lists are shared by all
//! their users, whose names are filled in while matching; nothing is allocated for that. They know
//! no users. Invariant: [`UserRules::reach`] never promises more than `may` permits for each topic:
//! `All` only if every topic of the filter may be read, `Nothing` only if none may.

use crate::encodings;
use crate::pattern::{Pattern, Relation};
use base::encoding::Encoding;
use model::ports::access::{Act, Reach, Rules, Who};
use model::ports::users::UserRule;
use std::sync::Arc;

/// Number of lines from which a list is sorted for lookups.
const SORTED_FROM: usize = 9;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleLine {
    /// Allowed, or forbidden.
    pub allow: bool,
    /// Whether the rule is about publishing.
    pub publish: bool,
    /// Whether the rule is about reading.
    pub read: bool,
    /// Topics that the line applies to.
    pub pattern: Pattern,
}

impl RuleLine {
    /// The line of a rule; the error says why it is none.
    pub fn of(rule: &UserRule) -> Result<RuleLine, String> {
        let UserRule { allow, publish, read, ref filter } = *rule;
        if !publish && !read {
            return Err(format!("the rule for `{filter}` is neither for publish nor for read"));
        }
        Ok(RuleLine { allow, publish, read, pattern: Pattern::parse(filter)? })
    }

    fn is_about(&self, act: Act) -> bool {
        match act {
            Act::Publish => self.publish,
            Act::Read => self.read,
        }
    }
}

/// Lines in order.
#[derive(Debug, Default)]
pub struct List {
    lines: Box<[RuleLine]>,
    /// Lines without wildcards and names, by their text; of long lists only.
    exact: Box<[u32]>,
    /// The others that have a first level, by it; likewise.
    headed: Box<[u32]>,
    /// The rest, in order; likewise.
    open: Box<[u32]>,
    /// Whether users whose names have wildcards are forbidden everything.
    wants_plain_names: bool,
}

impl List {
    /// A list of these lines.
    pub fn new(lines: Vec<RuleLine>) -> List {
        let mut list = List { lines: lines.into(), ..List::default() };
        if list.lines.len() >= SORTED_FROM {
            list.sort();
        }
        list
    }

    /// As [`new`](Self::new), but forbids users whose names have wildcards everything that was not
    /// decided before, as mosquitto does for patterns.
    pub fn for_plain_names(lines: Vec<RuleLine>) -> List {
        List { wants_plain_names: true, ..List::new(lines) }
    }

    /// How many lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Its lines, in order.
    pub(crate) fn lines(&self) -> &[RuleLine] {
        &self.lines
    }

    /// Whether users whose names have wildcards are forbidden everything.
    pub(crate) fn wants_plain_names(&self) -> bool {
        self.wants_plain_names
    }

    /// The lines as rules.
    pub fn rules(&self) -> Vec<UserRule> {
        let rule = |line: &RuleLine| UserRule {
            allow: line.allow,
            publish: line.publish,
            read: line.read,
            filter: line.pattern.text().into(),
        };
        self.lines.iter().map(rule).collect()
    }

    fn sort(&mut self) {
        let (mut exact, mut headed, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in (0_u32..).zip(&self.lines) {
            match line.pattern.first_level() {
                _ if line.pattern.is_exact() => exact.push(number),
                Some(_) => headed.push(number),
                None => open.push(number),
            }
        }
        // Lines of one key stay in order: the sort is stable.
        exact.sort_by_key(|&number| self.pattern(number).text());
        headed.sort_by_key(|&number| self.pattern(number).first_level());
        (self.exact, self.headed, self.open) = (exact.into(), headed.into(), open.into());
    }

    fn pattern(&self, number: u32) -> &Pattern {
        &self.lines[number as usize].pattern
    }

    /// Verdict of the first line that matches.
    fn decide(&self, who: &Who<'_>, act: Act, topic: &str) -> Option<bool> {
        if self.forbids_name(who) {
            return Some(false);
        }
        let holds = |line: &RuleLine| line.is_about(act) && line.pattern.matches(who, topic);
        if self.lines.len() < SORTED_FROM {
            return self.lines.iter().find(|line| holds(line)).map(|line| line.allow);
        }
        let first_of = |numbers: &[u32]| {
            numbers.iter().copied().find(|&number| holds(&self.lines[number as usize]))
        };
        let exact = equal(&self.exact, |number| self.pattern(number).text().cmp(topic));
        let level = topic.split('/').next();
        let headed = equal(&self.headed, |number| self.pattern(number).first_level().cmp(&level));
        let found = [exact, headed, &self.open].into_iter().filter_map(first_of).min();
        found.map(|number| self.lines[number as usize].allow)
    }

    /// How the lines stand to a filter that is to be read. `None`: they leave something undecided.
    fn walk(&self, who: &Who<'_>, filter: &str, walk: &mut ReachScan) -> Option<Reach> {
        if self.forbids_name(who) {
            return Some(walk.rest(false));
        }
        for line in self.lines.iter().filter(|line| line.read) {
            match line.pattern.relation(who, filter) {
                Relation::Covers => return Some(walk.rest(line.allow)),
                Relation::Overlaps if line.allow => walk.some_may = true,
                Relation::Overlaps => walk.some_may_not = true,
                Relation::Apart => {}
            }
        }
        None
    }

    fn forbids_name(&self, who: &Who<'_>) -> bool {
        let is_wild = |name: &str| name.contains(['+', '#']);
        self.wants_plain_names && (is_wild(who.client_id) || who.user.is_some_and(is_wild))
    }
}

/// The numbers whose key is the one looked for.
fn equal(numbers: &[u32], order: impl Fn(u32) -> std::cmp::Ordering) -> &[u32] {
    let from = numbers.partition_point(|&number| order(number).is_lt());
    let count = numbers[from..].partition_point(|&number| order(number).is_eq());
    &numbers[from..from + count]
}

/// Topics of a filter that a walk over the lines has found.
#[derive(Default)]
struct ReachScan {
    some_may: bool,
    some_may_not: bool,
}

impl ReachScan {
    /// All that is undecided is so.
    fn rest(&self, allow: bool) -> Reach {
        match (allow, self.some_may, self.some_may_not) {
            (true, _, false) => Reach::All,
            (false, false, _) => Reach::Nothing,
            _ => Reach::Partly,
        }
    }
}

/// All rules that apply to a client.
#[derive(Debug, Encoding)]
pub struct UserRules {
    lists: Box<[Arc<List>]>,
    /// Topics that no line matches are allowed.
    allow_unmatched: bool,
    fixed: bool,
}

impl UserRules {
    /// Lists in order, and what holds where none of them decides.
    pub fn new(lists: Vec<Arc<List>>, allow_unmatched: bool) -> UserRules {
        UserRules { lists: lists.into(), allow_unmatched, fixed: false }
    }

    /// Rules that came with the proof itself, without any others.
    pub fn fixed(list: List) -> UserRules {
        UserRules { lists: [Arc::new(list)].into(), allow_unmatched: false, fixed: true }
    }
}

impl Rules for UserRules {
    fn may(&self, who: &Who<'_>, act: Act, topic: &str) -> bool {
        let decided = self.lists.iter().find_map(|list| list.decide(who, act, topic));
        decided.unwrap_or(self.allow_unmatched)
    }

    fn reach(&self, who: &Who<'_>, filter: &str) -> Reach {
        let mut walk = ReachScan::default();
        let decided = self.lists.iter().find_map(|list| list.walk(who, filter, &mut walk));
        decided.unwrap_or_else(|| walk.rest(self.allow_unmatched))
    }

    fn encoded(&self) -> Box<[u8]> {
        encodings::encode(self)
    }

    fn fixed(&self) -> bool {
        self.fixed
    }
}

#[cfg(test)]
mod tests;
