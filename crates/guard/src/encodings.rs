//! Encoding of compiled rules for another node: their lines, as they were written.

use crate::pattern::Pattern;
use crate::rules::{List, RuleLine, UserRules};
use base::encoding::sample::{Sample, SampleSource};
use base::encoding::{DecodeError, Decoder, Encoder, Encoding};
use model::ports::access::Rules;
use std::sync::Arc;

impl Encoding for RuleLine {
    fn encode(&self, to: &mut Encoder) {
        let RuleLine { allow, publish, read, pattern } = self;
        (*allow, *publish, *read).encode(to);
        pattern.is_literal().encode(to);
        to.text(pattern.text());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<RuleLine, DecodeError> {
        let (allow, publish, read) = Encoding::decode(from)?;
        let parse = if bool::decode(from)? { Pattern::literal } else { Pattern::parse };
        let pattern = parse(from.text()?).map_err(|_| DecodeError::Invalid("topic filter"))?;
        Ok(RuleLine { allow, publish, read, pattern })
    }
}

impl Encoding for List {
    fn encode(&self, to: &mut Encoder) {
        self.wants_plain_names().encode(to);
        to.list(self.lines());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<List, DecodeError> {
        let new = if bool::decode(from)? { List::for_plain_names } else { List::new };
        from.list().map(new)
    }
}

impl Sample for List {
    fn kinds(_: u8) -> usize {
        1
    }

    fn sample(_: usize, _: &mut SampleSource) -> List {
        List::default()
    }
}

/// Rules as bytes.
pub(crate) fn encode(rules: &UserRules) -> Box<[u8]> {
    base::encoding::encode(std::slice::from_ref(rules)).into()
}

/// Rules that another node encoded.
pub(crate) fn decode(bytes: &[u8]) -> Option<Arc<dyn Rules>> {
    let rules: Vec<UserRules> = base::encoding::decode(bytes).ok()?;
    rules.into_iter().next().map(|rules| Arc::new(rules) as Arc<dyn Rules>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::access::{Act, Reach, Who};

    fn line(allow: bool, pattern: Result<Pattern, String>) -> RuleLine {
        RuleLine { allow, publish: false, read: true, pattern: pattern.expect("a pattern") }
    }

    #[test]
    fn rules_hold_on_another_node_as_on_their_own() {
        let many = (0..20).map(|number| line(true, Pattern::parse(&format!("many/{number}"))));
        let lists = vec![
            List::for_plain_names(vec![line(true, Pattern::parse("own/%u/#"))]),
            List::new(vec![
                line(false, Pattern::literal("odd/%u")),
                line(true, Pattern::parse("odd/+")),
            ]),
            List::new(many.collect()),
        ];
        let rules = UserRules::new(lists.into_iter().map(Arc::new).collect(), false);
        let elsewhere = decode(&encode(&rules)).expect("as it was encoded");
        for user in ["ann", "a+"] {
            let who = Who { client_id: "c", user: Some(user) };
            for topic in ["own/ann/1", "own/bob/1", "odd/%u", "odd/ann", "many/7", "many/70"] {
                let own = rules.may(&who, Act::Read, topic);
                assert_eq!(elsewhere.may(&who, Act::Read, topic), own, "{user} {topic}");
                assert!(!elsewhere.may(&who, Act::Publish, topic));
            }
            assert_eq!(elsewhere.reach(&who, "odd/#"), rules.reach(&who, "odd/#"));
        }
        let who = Who { client_id: "c", user: Some("ann") };
        assert!(elsewhere.may(&who, Act::Read, "own/ann/1"));
        assert_eq!(elsewhere.reach(&who, "own/ann/#"), Reach::All);
        assert_eq!(elsewhere.fixed(), rules.fixed());
        assert!(decode(&[]).is_none());
        assert!(decode(&encode(&rules)[1..]).is_none());
    }
}
