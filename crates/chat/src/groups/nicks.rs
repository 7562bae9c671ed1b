//! Nicks: the form by which names in a room are compared (RFC 8266).
//!
//! Pure. Invariant: two names that look alike but for case, blanks or the width of their letters
//! have one form; a name with characters that are not seen has none. Letters of other scripts, and
//! composed and decomposed ones, are told apart.

use model::chat::nick_key;

/// Characters that are not seen, or that change how others are seen (the general category Cf, and
/// `Default_Ignorable_Code_Point`), and the blank of Braille: each range with its last one.
const UNSEEN: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The form of a name by which names are compared; none: it is no name.
pub(crate) fn key_of(nick: &str) -> Option<Box<str>> {
    let is_unseen = |c: char| UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&c));
    if nick.chars().any(is_unseen) {
        return None;
    }
    nick_key(&nick.chars().map(common_width).collect::<String>())
        .filter(|_| nick_key(nick).is_some())
}

/// A letter of full width as the common one (RFC 8264 5.2.1).
fn common_width(c: char) -> char {
    let is_full = ('\u{ff01}'..='\u{ff5e}').contains(&c);
    let common = u32::from(c).checked_sub(0xfee0).and_then(char::from_u32);
    common.filter(|_| is_full).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_have_one_form_and_unseen_characters_make_none() {
        assert_eq!(key_of("\u{ff21}nn \u{ff11}"), key_of("ann  1"));
        assert_eq!(key_of("ÄNN").as_deref(), Some("änn"));
        assert_ne!(key_of("ann"), key_of("anne"));
        assert!(key_of("日本語").is_some() && key_of("tea ☕").is_some());
        for c in "\u{ad}\u{34f}\u{200b}\u{200d}\u{202e}\u{2060}\u{3164}\u{feff}\u{e0041}".chars() {
            assert_eq!(key_of(&format!("an{c}n")), None, "{}", c.escape_unicode());
        }
        assert_eq!(key_of("  "), None);
    }
}
