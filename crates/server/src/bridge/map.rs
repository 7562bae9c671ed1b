//! Topic map of a bridge: which messages cross, and as what: mosquitto's `topic` lines.
//!
//! ```text
//!  PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]        "" stands for nothing
//!  out: LOCAL-PREFIX+PATTERN is subscribed here, and REMOTE-PREFIX takes the place of LOCAL-PREFIX
//! ```
//! An empty pattern maps one topic to another. The first line that fits a message counts.

use client::{Qos, matches};

/// Direction in which messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// From us to the remote broker.
    #[default]
    Out,
    /// From the remote broker to us.
    In,
    /// Both ways.
    Both,
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// The pattern: a topic filter, or nothing.
    pub filter: String,
    /// Direction in which messages cross.
    pub direction: Direction,
    /// Highest QoS.
    pub qos: Qos,
    /// In front of the pattern here.
    pub local_prefix: String,
    /// In front of the pattern there.
    pub remote_prefix: String,
}

/// One of the two brokers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BridgeSide {
    /// The local broker.
    Local,
    /// The other.
    Remote,
}

impl Topic {
    /// Reads a line, without the word `topic`. An error says in words what is wrong with it.
    pub fn parse(line: &str) -> Result<Topic, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| match words.get(at) {
            Some(&"\"\"") | None => "",
            Some(word) => word,
        };
        if words.is_empty() || words.len() > 5 {
            return Err(format!(
                "`{line}`: the topic of a bridge must be PATTERN out|in|both QOS LOCAL-PREFIX \
                 REMOTE-PREFIX"
            ));
        }
        let direction = match word(1) {
            "out" | "" => Direction::Out,
            "in" => Direction::In,
            "both" => Direction::Both,
            other => {
                return Err(format!(
                    "`{line}`: the direction must be out, in or both, not \
                                         {other}"
                ));
            }
        };
        let qos = match word(2) {
            "" | "0" => Qos::AtMostOnce,
            "1" => Qos::AtLeastOnce,
            "2" => Qos::ExactlyOnce,
            other => return Err(format!("`{line}`: a QoS is 0, 1 or 2, not {other}")),
        };
        let topic = Topic {
            filter: word(0).to_owned(),
            direction,
            qos,
            local_prefix: word(3).to_owned(),
            remote_prefix: word(4).to_owned(),
        };
        topic.check().map_err(|why| format!("`{line}`: {why}"))?;
        Ok(topic)
    }

    /// Its fault, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.filter.starts_with('$') {
            return Err(
                "a bridge does not support shared subscriptions and $-topics as patterns; a \
                        prefix may begin with $"
                    .to_owned(),
            );
        }
        for prefix in [&self.local_prefix, &self.remote_prefix] {
            if prefix.contains(['+', '#']) {
                return Err(format!("the prefix {prefix} has a wildcard"));
            }
            if self.filter.is_empty() && prefix.is_empty() {
                return Err("without a pattern, both prefixes must be topics".to_owned());
            }
        }
        let levels: Vec<&str> = self.filter.split('/').collect();
        let is_wrong = |(at, level): (usize, &&str)| {
            level.contains('#') && (*level != "#" || at + 1 != levels.len())
                || level.contains('+') && *level != "+"
        };
        if levels.iter().enumerate().any(is_wrong) {
            return Err("in a pattern, + and # must fill a level, and # must be the last \
                        one"
            .to_owned());
        }
        // A prefix that does not end a level would make `a+` of `+`.
        for prefix in [&self.local_prefix, &self.remote_prefix] {
            let joins = !prefix.is_empty() && !prefix.ends_with('/');
            if joins && self.filter.starts_with(['+', '#']) {
                return Err(format!("before a wildcard, the prefix {prefix} must end with /"));
            }
        }
        Ok(())
    }

    /// Subscription on one side; `None`: nothing comes from there.
    pub fn subscribed(&self, side: BridgeSide) -> Option<String> {
        let (prefix, not) = match side {
            BridgeSide::Local => (&self.local_prefix, Direction::In),
            BridgeSide::Remote => (&self.remote_prefix, Direction::Out),
        };
        (self.direction != not).then(|| format!("{prefix}{}", self.filter))
    }

    /// Name on the other side of a topic; `None`: it does not cross by this line.
    pub fn crossed(&self, from: BridgeSide, topic: &str) -> Option<String> {
        if !matches(&self.subscribed(from)?, topic) {
            return None;
        }
        let (here, there) = match from {
            BridgeSide::Local => (&self.local_prefix, &self.remote_prefix),
            BridgeSide::Remote => (&self.remote_prefix, &self.local_prefix),
        };
        let crossed = format!("{there}{}", topic.strip_prefix(here.as_str())?);
        (!crossed.is_empty()).then_some(crossed)
    }
}

/// A message's topic on the other side, with its highest QoS there, by the first line that fits.
pub fn cross(topics: &[Topic], from: BridgeSide, topic: &str) -> Option<(String, Qos)> {
    topics.iter().find_map(|line| line.crossed(from, topic).map(|crossed| (crossed, line.qos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_mosquittos() {
        let cases = [
            ("# out", Direction::Out, 0, "", ""),
            ("a/# both 2 l/ r/", Direction::Both, 2, "l/", "r/"),
            ("\"\" in 1 here there", Direction::In, 1, "here", "there"),
            ("x in 0 \"\" r/", Direction::In, 0, "", "r/"),
        ];
        for (line, direction, qos, local, remote) in cases {
            let topic = Topic::parse(line).expect(line);
            assert_eq!((topic.direction, topic.qos as u8), (direction, qos), "{line}");
            assert_eq!((&*topic.local_prefix, &*topic.remote_prefix), (local, remote), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let lines = [
            "",
            "a up",
            "a in 3",
            "a in 1 l/# r/",
            "\"\" out 0 a",
            "#/a",
            "a b c d e f",
            "+ in 1 x y/",
        ];
        for line in lines {
            assert!(Topic::parse(line).is_err(), "{line}");
        }
        assert!(Topic::parse("$share/g/a in").is_err());
    }

    #[test]
    fn prefixes_take_each_others_place() {
        let line = |text: &str| Topic::parse(text).expect(text);
        let out = line("s/+/t out 1 home/ site1/");
        assert_eq!(out.subscribed(BridgeSide::Local).as_deref(), Some("home/s/+/t"));
        assert_eq!(out.subscribed(BridgeSide::Remote), None);
        assert_eq!(out.crossed(BridgeSide::Local, "home/s/a/t").as_deref(), Some("site1/s/a/t"));
        assert_eq!(out.crossed(BridgeSide::Local, "s/a/t"), None);
        let both = line("# both 2 \"\" r/");
        assert_eq!(both.subscribed(BridgeSide::Remote).as_deref(), Some("r/#"));
        assert_eq!(both.crossed(BridgeSide::Remote, "r/x").as_deref(), Some("x"));
        assert_eq!(both.crossed(BridgeSide::Local, "x").as_deref(), Some("r/x"));
        let one = line("\"\" in 1 here there");
        assert_eq!(one.crossed(BridgeSide::Remote, "there").as_deref(), Some("here"));
        assert_eq!(one.crossed(BridgeSide::Remote, "there/x"), None);
        assert_eq!(both.crossed(BridgeSide::Remote, "r"), None, "nothing would be left of it");
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        let lines = ["a/# out 2 \"\" x/", "# out 0 \"\" y/"].map(|l| Topic::parse(l).expect(l));
        let crossed = |topic| cross(&lines, BridgeSide::Local, topic).expect("a line fits");
        assert_eq!(crossed("a/b"), ("x/a/b".to_owned(), Qos::ExactlyOnce));
        assert_eq!(crossed("b"), ("y/b".to_owned(), Qos::AtMostOnce));
        assert_eq!(cross(&lines, BridgeSide::Remote, "x/a"), None);
    }
}
