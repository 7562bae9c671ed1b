//! Definition of one emoji: the sequences of UTS #51 (ED-17), recognised by their shape.
//!
//! ```text
//! emoji    element ( ZWJ element )*  |  flag  |  keycap
//! element  symbol  FE0E or FE0F?  skin tone?  tags?      skin tone  1F3FB to 1F3FF
//! flag     two of 1F1E6 to 1F1FF                         tags       E0020 to E007E, then E007F
//! keycap   one of 0 to 9, # and *, FE0F?, 20E3
//! ```
//! Blocks of code points decide which ones are symbols, and not Unicode's tables, which change each
//! year: so next year's emoji are accepted, and so are some symbols of these blocks that are no
//! emoji today. Whether fonts know a sequence is not checked. Invariant: no letter, digit, blank or
//! punctuation mark of a script is an emoji.

const ZWJ: char = '\u{200d}';
const ENDS_TAGS: char = '\u{e007f}';

/// Whether a text is one emoji.
pub(super) fn is_emoji(text: &str) -> bool {
    let mut letters = text.chars();
    let (first, second, third) = (letters.next(), letters.next(), letters.next());
    let is_one = letters.next().is_none();
    match (first, second, third) {
        (Some(a), Some(b), None) if is_flag_letter(a) => is_flag_letter(b),
        (Some('0'..='9' | '#' | '*'), Some('\u{20e3}'), None) => true,
        (Some('0'..='9' | '#' | '*'), Some('\u{fe0f}'), Some('\u{20e3}')) => is_one,
        _ => text.split(ZWJ).all(is_element),
    }
}

const fn is_flag_letter(letter: char) -> bool {
    matches!(letter, '\u{1f1e6}'..='\u{1f1ff}')
}

fn is_element(text: &str) -> bool {
    let mut rest = text.chars().peekable();
    if !rest.next().is_some_and(is_symbol) {
        return false;
    }
    rest.next_if(|letter| matches!(letter, '\u{fe0e}' | '\u{fe0f}'));
    rest.next_if(|letter| matches!(letter, '\u{1f3fb}'..='\u{1f3ff}'));
    let mut has_tags = false;
    while rest.next_if(|letter| matches!(letter, '\u{e0020}'..='\u{e007e}')).is_some() {
        has_tags = true;
    }
    let ends = if has_tags { rest.next() == Some(ENDS_TAGS) } else { true };
    ends && rest.next().is_none()
}

/// Whether an emoji may begin with this: blocks of symbols, and single ones of other blocks.
const fn is_symbol(letter: char) -> bool {
    matches!(
        letter,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
            | '\u{2190}'..='\u{21ff}' // arrows
            | '\u{2300}'..='\u{23ff}' // technical signs: watches, keys of players
            | '\u{24c2}'
            | '\u{25a0}'..='\u{27bf}' // shapes, signs, dingbats
            | '\u{2934}' | '\u{2935}'
            | '\u{2b00}'..='\u{2bff}' // more arrows, stars
            | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
            | '\u{1f000}'..='\u{1f1e5}' // tiles, cards, letters in squares
            | '\u{1f200}'..='\u{1faff}' // pictures
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_react_by_is_one_emoji() {
        let first = "👍 👍🏽 ❤ ❤️ ‼️ ©️ ™️ ☺️ ⌚ ✌🏻 ✨ ⭐ 〰️ ㊗️ 🀄";
        let last = "🅰️ 🈶 🇩🇪 🇨🇳 1️⃣ #️⃣ 🫡 🫩 🤷🏽‍♀️ 👩‍❤️‍💋‍👨 👨‍👩‍👧‍👦 🏳️‍🌈 🏴󠁧󠁢󠁳󠁣󠁴󠁿 👩🏻‍🤝‍👨🏿 😮‍💨 🧑‍🚀";
        for emoji in first.split(' ').chain(last.split(' ')) {
            assert!(is_emoji(emoji), "{emoji} {}", emoji.escape_unicode());
        }
    }

    #[test]
    fn a_word_a_letter_two_of_them_and_what_is_cut_off_are_none() {
        let cut = ["👍\u{200d}", "\u{200d}👍", "\u{fe0f}", "1\u{fe0f}", "🇩", "🇩🇪🇩", "🏴\u{e0067}"];
        let others = ["", "a", "1", "#", "ok", "lol", "世", "é", "👍👍", "👍a", "a👍", "+1", ":)"];
        let marks = ["👍\u{fe0f}\u{fe0f}", "\u{20e3}", "👍\n", "\u{202e}", "\u{e000}"];
        for text in cut.into_iter().chain(others).chain(marks) {
            assert!(!is_emoji(text), "{text} {}", text.escape_unicode());
        }
    }
}
