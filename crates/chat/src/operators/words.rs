//! Words that messages may not contain, from a file of the operator's.
//!
//! ```text
//! # a comment
//! refuse buy followers        the message is refused as not allowed
//! replace |darn|              each character of the word becomes a *
//! flag crypto                 the message is sent, and reported as an event
//! ```
//! A word is looked for anywhere in the text of a message; a `|` at its beginning or end requires
//! that no letter or digit is beside it there. Case is folded by Unicode's lower case of each
//! character, in the file and in texts; nothing else is folded (no accents, no widths, no
//! look-alikes). All words are looked for at once, in time that is linear in the text for words of
//! bounded length. This module knows no accounts. Invariant: a replaced text has only characters of
//! the original, or stars.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base::words;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Largest size of a words file, bytes. A larger one is refused.
pub const WORDS_FILE_BYTES_MAX: usize = 4 << 20;

/// Largest number of words in a file.
pub const WORDS_MAX: usize = 50_000;

/// Largest size of a word, bytes, after case folding.
pub const WORD_BYTES_MAX: usize = 128;

words! {
    /// Treatment of a message that contains a word.
    pub enum WordAction {
        /// The message is reported as an event.
        Flag = "flag",
        /// The word is replaced by stars.
        Replace = "replace",
        /// The message is refused.
        Refuse = "refuse",
    }
}

/// An error in a words file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordsFault {
    /// Line number, from 1 on; 0: the whole file.
    pub line: usize,
    /// Description of the error, and of the values allowed.
    pub why: String,
}

impl fmt::Display for WordsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            line => write!(f, "line {line}: {}", self.why),
        }
    }
}

/// A word, and at which of its ends it needs a boundary.
struct Word {
    action: WordAction,
    begins: bool,
    ends: bool,
}

/// The words of a file.
pub struct WordList {
    words: Vec<Word>,
    /// The search automaton; absent: the list has no words.
    found: Option<AhoCorasick>,
}

/// Result of a search for the words in a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WordsFound {
    /// The message is to be refused.
    pub refused: bool,
    /// The message is to be reported as an event.
    pub flagged: bool,
    /// The text with words replaced by stars; absent: it is unchanged.
    pub replaced: Option<String>,
}

impl WordList {
    /// An empty list.
    pub fn none() -> WordList {
        WordList { words: Vec::new(), found: None }
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the list has no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Parses a words file.
    pub fn parse(file: &[u8]) -> Result<WordList, WordsFault> {
        let whole = |why: String| WordsFault { line: 0, why };
        if file.len() > WORDS_FILE_BYTES_MAX {
            let bytes = file.len();
            return Err(whole(format!(
                "it has {bytes} bytes; the maximum is \
                                      {WORDS_FILE_BYTES_MAX}"
            )));
        }
        let (mut words, mut patterns) = (Vec::new(), Vec::new());
        for (at, line) in file.split(|byte| *byte == b'\n').enumerate() {
            let fault = |why: String| WordsFault { line: at + 1, why };
            let line = std::str::from_utf8(line).map_err(|_| fault("it is not UTF-8".into()))?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if words.len() == WORDS_MAX {
                return Err(fault(format!("more than {WORDS_MAX} words")));
            }
            let (word, pattern) = word_of(line).map_err(fault)?;
            words.push(word);
            patterns.push(pattern);
        }
        if words.is_empty() {
            return Ok(WordList::none());
        }
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let builder =
            AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(patterns);
        let found = builder.map_err(|error| {
            whole(format!(
                "the words cannot be compiled: \
                                                           {error}"
            ))
        })?;
        Ok(WordList { words, found: Some(found) })
    }

    /// Looks for all words of the list in a text.
    pub fn look(&self, text: &str) -> WordsFound {
        let mut told = WordsFound::default();
        let Some(found) = &self.found else { return told };
        let folded = Folded::of(text);
        let mut stars: Vec<(usize, usize)> = Vec::new();
        for at in found.find_overlapping_iter(&folded.text) {
            let word = &self.words[at.pattern().as_usize()];
            if !word.fits(&folded.text, (at.start(), at.end())) {
                continue;
            }
            match word.action {
                WordAction::Refuse => told.refused = true,
                WordAction::Flag => told.flagged = true,
                WordAction::Replace => stars.push((at.start(), at.end())),
            }
        }
        if !stars.is_empty() {
            told.replaced = Some(folded.starred(text, stars));
        }
        told
    }
}

impl Word {
    /// Whether a match counts, given the characters beside it.
    fn fits(&self, text: &str, (from, to): (usize, usize)) -> bool {
        let is_free = |beside: Option<char>| !beside.is_some_and(char::is_alphanumeric);
        (!self.begins || is_free(text[..from].chars().next_back()))
            && (!self.ends || is_free(text[to..].chars().next()))
    }
}

fn word_of(line: &str) -> Result<(Word, String), String> {
    let (action, word) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let action = WordAction::ALL.iter().copied().find(|known| known.name() == action);
    let action = action.ok_or("a line must start with `refuse`, `replace` or `flag`")?;
    let word = word.trim();
    let (begins, word) = word.strip_prefix('|').map_or((false, word), |word| (true, word));
    let (ends, word) = word.strip_suffix('|').map_or((false, word), |word| (true, word));
    let pattern: String = word.chars().flat_map(char::to_lowercase).collect();
    match pattern.len() {
        1..=WORD_BYTES_MAX => Ok((Word { action, begins, ends }, pattern)),
        0 => Err("the word is missing after the action".into()),
        bytes => Err(format!("the word has {bytes} bytes; the maximum is {WORD_BYTES_MAX}")),
    }
}

/// A text in lower case, with the positions of its characters in the original.
struct Folded {
    text: String,
    /// Offset at which each character begins in the folded text.
    begins: Vec<usize>,
}

impl Folded {
    fn of(text: &str) -> Folded {
        let mut folded = Folded { text: String::with_capacity(text.len()), begins: Vec::new() };
        for one in text.chars() {
            folded.begins.push(folded.text.len());
            folded.text.extend(one.to_lowercase());
        }
        folded
    }

    /// The original text with the characters in these folded ranges replaced by stars.
    fn starred(&self, text: &str, mut parts: Vec<(usize, usize)>) -> String {
        parts.sort_unstable();
        let mut parts = parts.into_iter().peekable();
        let mut end = 0;
        let one = |(one, begin): (char, &usize)| {
            while let Some((from, to)) = parts.peek().copied()
                && from <= *begin
            {
                end = end.max(to);
                parts.next();
            }
            if *begin < end { '*' } else { one }
        };
        text.chars().zip(&self.begins).map(one).collect()
    }
}

/// The word list in force, which a reload replaces.
pub struct WordShelf(RwLock<Arc<WordList>>);

impl Default for WordShelf {
    fn default() -> WordShelf {
        WordShelf(RwLock::new(Arc::new(WordList::none())))
    }
}

impl WordShelf {
    /// The word list in force.
    pub fn list(&self) -> Arc<WordList> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the word list in force.
    pub fn put(&self, list: WordList) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(file: &str) -> WordList {
        WordList::parse(file.as_bytes()).expect("a list")
    }

    #[test]
    fn words_are_found_wherever_they_stand_and_in_whatever_case() {
        let list = list("# ours\nrefuse Buy Followers\n\nreplace |darn|\nflag CRYPTO\r\n");
        assert_eq!(list.len(), 3);
        assert!(list.look("you can BUY FOLLOWERS here").refused);
        assert!(list.look("cryptography").flagged && !list.look("crypt").flagged);
        let replaced = |text| list.look(text).replaced;
        assert_eq!(replaced("Darn! darning, DARN"), Some("****! darning, ****".into()));
        assert_eq!(list.look("nothing"), WordsFound::default());
        assert_eq!(WordList::none().look("darn"), WordsFound::default());
    }

    #[test]
    fn what_is_replaced_has_the_characters_of_the_text() {
        let list = list("replace straße\nreplace i\u{307}x\nreplace 坏话\nreplace aa\n");
        let replaced = |text| list.look(text).replaced;
        assert_eq!(replaced("Die STRAßE!"), Some("Die ******!".into()));
        assert_eq!(replaced("a İX b"), Some("a ** b".into()), "one character, two when folded");
        assert_eq!(replaced("说坏话了"), Some("说**了".into()));
        assert_eq!(replaced("xaaax"), Some("x***x".into()), "words that overlap");
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        let fault = |file: &[u8]| WordList::parse(file).err().expect("wrong").to_string();
        assert_eq!(
            fault(b"flag a\nban b\n"),
            "line 2: a line must start with `refuse`, `replace` or `flag`"
        );
        assert_eq!(fault(b"flag\n"), "line 1: the word is missing after the action");
        assert_eq!(fault(b"\nflag ||\n"), "line 2: the word is missing after the action");
        assert_eq!(fault(b"flag a\xff\n"), "line 1: it is not UTF-8");
        let long = format!("flag {}", "x".repeat(WORD_BYTES_MAX + 1));
        assert_eq!(fault(long.as_bytes()), "line 1: the word has 129 bytes; the maximum is 128");
        let many = "flag a\n".repeat(WORDS_MAX + 1);
        assert_eq!(fault(many.as_bytes()), "line 50001: more than 50000 words");
        let large = vec![b'#'; WORDS_FILE_BYTES_MAX + 1];
        assert_eq!(fault(&large), "it has 4194305 bytes; the maximum is 4194304");
    }

    #[test]
    fn a_reload_holds_for_what_is_looked_at_afterwards() {
        let shelf = WordShelf::default();
        assert!(shelf.list().is_empty());
        shelf.put(list("refuse a"));
        assert!(shelf.list().look("A").refused);
    }
}
