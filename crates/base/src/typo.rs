//! The word that was meant by one that is mistyped.
//!
//! Looked for among words that are known, by letters alone. Invariant: what is too far from each of
//! them is answered with none, for a wrong guess is worse than no guess.

/// The known word that is nearest to a mistyped one, if it is near enough to be meant: a third of
/// the letters may differ, at least one and at most four.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.is_empty() {
        return known.into_iter().next(); // nothing is near to nothing: show what one looks like
    }
    let enough = (typed.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(apart, _)| *apart <= enough)
        .min_by_key(|(apart, _)| *apart)
        .map(|(_, word)| word)
}

/// How many letters must be put in, taken out or replaced to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_one_that_may_be_meant() {
        let known = ["connections_max", "crowd_max", "tls"];
        assert_eq!(nearest("conections_max", known), Some("connections_max"));
        assert_eq!(nearest("crowds_max", known), Some("crowd_max"));
        assert_eq!(nearest("tsl", known), None);
        assert_eq!(nearest("elephants", known), None);
    }
}
