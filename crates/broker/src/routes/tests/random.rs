//! Topics and filters of a few levels, drawn.

use base::prng::Prng;

/// Topics of at most four of these levels.
pub(crate) struct Levels(pub &'static [&'static str]);

impl Levels {
    /// A topic; never an empty one.
    pub(crate) fn topic(&self, rng: &mut Prng) -> String {
        let count = 1 + rng.below(4);
        let level = |_| self.0[rng.below(self.0.len() as u64) as usize];
        let levels: Vec<&str> = (0..count).map(level).collect();
        if levels == [""] { "a".to_owned() } else { levels.join("/") }
    }

    /// A filter: each level a wildcard once in so many, and as often a wildcard behind the last.
    pub(crate) fn filter(&self, rng: &mut Prng, one_in: u64) -> String {
        let topic = self.topic(rng);
        let mut levels: Vec<&str> = topic.split('/').collect();
        for level in &mut levels {
            if rng.one_in(one_in) {
                *level = "+";
            }
        }
        if rng.one_in(one_in) {
            levels.push("#");
        }
        if rng.one_in(25) { "#".to_owned() } else { levels.join("/") }
    }
}
