//! Files of rules in mosquitto's syntax.
//!
//! ```text
//! # a comment
//! topic read public/#            before any user: for those without a name
//! user ann
//! topic readwrite home/#         read, write, readwrite (also when left out) or deny
//! pattern write dev/%c/out       for everybody: %c is the client identifier, %u the user
//! ```
//! Semantics are mosquitto's: denials come first, whatever their line; a user's own lines before
//! patterns; access that no line allows is forbidden; patterns do not apply to a client with `+` or
//! `#` in its name or identifier. It reads no files. Invariant: a file with an invalid line is
//! refused as a whole.

use crate::pattern::Pattern;
use crate::problems::Problems;
use crate::rules::{List, RuleLine};
use model::ports::users::UserOrder;
use std::collections::HashMap;
use std::sync::Arc;

/// Lines of rules in a file, at most.
pub const ACL_LINES_MAX: usize = 1_000_000;

/// The rules of a file.
#[derive(Debug, Default)]
pub struct AclFile {
    users: HashMap<Box<str>, Arc<List>>,
    anonymous: Option<Arc<List>>,
    patterns: Option<Arc<List>>,
}

/// Lines while a file is read.
struct Draft {
    users: HashMap<Box<str>, Vec<RuleLine>>,
    anonymous: Vec<RuleLine>,
    patterns: Vec<RuleLine>,
    /// User that the next `topic` lines are about: nobody by name, before the first `user`.
    user: Option<Box<str>>,
    /// Lines that there may still be.
    left: usize,
    most: usize,
}

impl AclFile {
    /// Reads the text of a file; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<AclFile, Problems> {
        AclFile::at_most(ACL_LINES_MAX, file, text)
    }

    fn at_most(most: usize, file: &str, text: &str) -> Result<AclFile, Problems> {
        let (mut problems, mut draft) = (Problems::of(file), Draft::at_most(most));
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(problem) = draft.read(line) {
                problems.add(number, problem);
            }
        }
        let users = draft.users.into_iter();
        problems.or(AclFile {
            users: users
                .map(|(name, lines)| (name, Arc::new(List::new(denials_first(lines)))))
                .collect(),
            anonymous: list(draft.anonymous, List::new),
            patterns: list(draft.patterns, List::for_plain_names),
        })
    }

    /// The lines about a user, or about those without a name.
    pub fn own(&self, user: Option<&str>) -> Option<&Arc<List>> {
        match user {
            Some(name) => self.users.get(name),
            None => self.anonymous.as_ref(),
        }
    }

    /// The lines for all users.
    pub fn patterns(&self) -> Option<&Arc<List>> {
        self.patterns.as_ref()
    }

    /// Users with lines of their own.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(|name| &**name)
    }
}

impl Draft {
    fn at_most(most: usize) -> Draft {
        let (users, anonymous, patterns) = (HashMap::new(), Vec::new(), Vec::new());
        Draft { users, anonymous, patterns, user: None, left: most, most }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "user" if rest.is_empty() || rest.len() > UserOrder::NAME_BYTES_MAX => {
                Err(format!("`user` needs a name of 1 to {} bytes", UserOrder::NAME_BYTES_MAX))
            }
            "user" => {
                self.user = Some(rest.into());
                Ok(())
            }
            "topic" | "pattern" if self.left == 0 => Err(format!("more than {} rules", self.most)),
            "topic" => {
                let line = rule(word, rest)?;
                self.left -= 1;
                match &self.user {
                    Some(user) => self.users.entry(user.clone()).or_default().push(line),
                    None => self.anonymous.push(line),
                }
                Ok(())
            }
            "pattern" => {
                self.left -= 1;
                self.patterns.push(rule(word, rest)?);
                Ok(())
            }
            other => Err(format!("`{other}`: expected user, topic or pattern")),
        }
    }
}

/// `[read|write|readwrite|deny] FILTER`. In a `topic` line `%c` is no name (as in mosquitto).
fn rule(word: &str, rest: &str) -> Result<RuleLine, String> {
    let (access, filter) = match rest.split_once([' ', '\t']) {
        Some((access, filter)) => (access, filter.trim()),
        None if rest.is_empty() => return Err(format!("`{word}` needs a topic filter")),
        None => ("readwrite", rest),
    };
    let (allow, read, publish) = match access {
        "read" => (true, true, false),
        "write" => (true, false, true),
        "readwrite" => (true, true, true),
        "deny" => (false, true, true),
        other => return Err(format!("`{other}`: expected read, write, readwrite or deny")),
    };
    let pattern = match word {
        "pattern" => Pattern::parse(filter)?,
        _ => Pattern::literal(filter)?,
    };
    Ok(RuleLine { allow, publish, read, pattern })
}

fn list(lines: Vec<RuleLine>, make: impl Fn(Vec<RuleLine>) -> List) -> Option<Arc<List>> {
    (!lines.is_empty()).then(|| Arc::new(make(denials_first(lines))))
}

fn denials_first(mut lines: Vec<RuleLine>) -> Vec<RuleLine> {
    lines.sort_by_key(|line| line.allow);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::UserRules;
    use model::ports::access::{Act, Reach, Rules, Who};

    const FILE: &str = "
# mosquitto's own example, and more
topic read $SYS/#
topic read open/#

user roger
topic foo/bar
topic write logs/a b
topic deny foo/bar/secret/#
topic foo/bar/#

user ann
topic readwrite home/#
topic dev/%c

pattern write $SYS/broker/connection/%c/state
pattern readwrite dev/%c/#
pattern deny dev/%c/locked
pattern read users/%u
user roger
topic read late
";

    fn rules(file: &AclFile, user: Option<&str>) -> UserRules {
        let lists = file.own(user).into_iter().chain(file.patterns()).cloned();
        UserRules::new(lists.collect(), false)
    }

    #[test]
    fn one_rule_above_the_limit_is_named_by_its_line() {
        let text = "topic a\nuser ann\ntopic b\npattern c\n# no rule\npattern d\n";
        assert!(AclFile::at_most(4, "acl", text).is_ok());
        let problems = AclFile::at_most(3, "acl", text).expect_err("one too many").to_string();
        assert!(problems.starts_with("acl:6: more than 3 rules"), "{problems}");
        let problems = AclFile::at_most(1, "acl", text).expect_err("three too many").to_string();
        let lines: Vec<_> = problems.lines().map(|line| line.split(' ').next()).collect();
        assert_eq!(lines, ["acl:3:", "acl:4:", "acl:6:"].map(Some));
    }

    #[test]
    fn a_file_means_what_it_means_to_mosquitto() {
        let file = AclFile::parse("acl", FILE).expect("right");
        let who = |client_id, user| Who { client_id, user };
        let may = |user, act, topic: &str| rules(&file, user).may(&who("d1", user), act, topic);
        let (write, read) = (Act::Publish, Act::Read);
        assert!(may(None, read, "$SYS/load") && may(None, read, "open/x"));
        assert!(!may(None, write, "open/x") && !may(Some("ann"), read, "open/x"));
        assert!(may(Some("roger"), write, "foo/bar") && may(Some("roger"), read, "foo/bar/x"));
        assert!(!may(Some("roger"), read, "foo/bar/secret/x"), "a denial holds before all");
        assert!(may(Some("roger"), write, "logs/a b") && !may(Some("roger"), read, "logs/a b"));
        assert!(may(Some("roger"), read, "late"), "a user's lines are added up");
        assert!(may(Some("ann"), read, "dev/%c"), "in a topic line, %c is no name");
        assert!(may(Some("eve"), read, "dev/d1/x") && !may(Some("eve"), read, "dev/d2/x"));
        assert!(!may(Some("eve"), read, "dev/d1/locked"));
        assert!(may(Some("eve"), read, "users/eve") && !may(None, read, "users/"));
        assert!(may(None, write, "$SYS/broker/connection/d1/state"));
        let wild = who("d+", Some("ann"));
        let rules = rules(&file, Some("ann"));
        assert!(rules.may(&wild, read, "home/x") && !rules.may(&wild, read, "dev/d+/x"));
        assert_eq!(rules.reach(&who("d1", Some("ann")), "home/+"), Reach::All);
        assert_eq!(rules.reach(&who("d1", Some("ann")), "dev/d1/#"), Reach::Partly);
        assert_eq!(rules.reach(&who("d1", Some("ann")), "#"), Reach::Partly);
        assert_eq!(rules.reach(&who("d1", Some("ann")), "$SYS/#"), Reach::Nothing);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = "topic\nuser\ntopic foo a\npattern a/#/b\nacl x\ntopic read a\n";
        let problems = AclFile::parse("f", text).expect_err("five lines are wrong").to_string();
        let lines: Vec<_> = problems.lines().map(|line| line.split(' ').next()).collect();
        assert_eq!(lines, ["f:1:", "f:2:", "f:3:", "f:4:", "f:5:"].map(Some));
    }

    #[test]
    fn problems_have_an_end() {
        let problems = AclFile::parse("f", &"x\n".repeat(50)).expect_err("wrong").to_string();
        assert_eq!(problems.lines().count(), crate::problems::PROBLEMS_MAX + 1);
        assert!(problems.ends_with("and 30 more"));
    }
}
