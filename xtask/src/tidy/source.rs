//! Rust text seen by the rules: what is code, where functions end, which lines are tests.
//!
//! This is no parser. It blanks comments and literals, so that a word in a string is never taken
//! for code, and matches braces. It knows no types and no macros; a rule that needs those belongs
//! in clippy.toml. The invariant: the code has exactly as many lines as the text.

use std::ops::RangeInclusive;

/// One Rust file, prepared for the rules.
pub struct Source {
    code: Vec<char>,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Lines from the word `fn` to the closing brace, counted from 1.
    pub lines: RangeInclusive<usize>,
}

impl Source {
    /// Prepares one file's text.
    pub fn new(text: &str) -> Source {
        let code = mask(&text.chars().collect::<Vec<_>>());
        let test_lines = find_test_items(&code);
        Source { code, test_lines }
    }

    /// The text with comments and literals blanked.
    pub fn code(&self) -> String {
        self.code.iter().collect()
    }

    /// Whether this line belongs to an item under `#[cfg(test)]`.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Every identifier and keyword, with its line, in order.
    pub fn words(&self) -> Vec<(usize, String)> {
        let mut words = Vec::new();
        let (mut line, mut word) = (1, String::new());
        for &char in self.code.iter().chain(&['\n']) {
            if char.is_alphanumeric() || char == '_' {
                word.push(char);
            } else if !word.is_empty() {
                words.push((line, std::mem::take(&mut word)));
            }
            line += usize::from(char == '\n');
        }
        words
    }

    /// Names declared by one of `keywords`, with their lines: `declared(&["struct", "enum"])`.
    pub fn declared(&self, keywords: &[&str]) -> Vec<(usize, String)> {
        let words = self.words();
        let named = words.windows(2).filter(|pair| keywords.contains(&pair[0].1.as_str()));
        named.map(|pair| pair[1].clone()).collect()
    }

    /// All functions that have a body, nested ones too.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        let mut at = 0;
        while let Some(start) = find(&self.code, "fn", at) {
            at = start + 2;
            let is_word = !is_word_char(start.checked_sub(1).map(|i| self.code[i]));
            if !is_word || self.code.get(at) != Some(&' ') {
                continue;
            }
            let name: String =
                self.code[at + 1..].iter().take_while(|&&c| is_word_char(Some(c))).collect();
            let end = item_end(&self.code, at);
            if !name.is_empty() && self.code.get(end) == Some(&'}') {
                let lines = line_of(&self.code, start)..=line_of(&self.code, end);
                functions.push(Function { name, lines });
            }
        }
        functions
    }
}

fn is_word_char(char: Option<char>) -> bool {
    char.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn line_of(code: &[char], at: usize) -> usize {
    1 + code[..at].iter().filter(|&&c| c == '\n').count()
}

fn find(code: &[char], needle: &str, from: usize) -> Option<usize> {
    let needle: Vec<char> = needle.chars().collect();
    let tail = code.get(from..)?;
    tail.windows(needle.len()).position(|window| window == needle).map(|at| from + at)
}

/// Where the item that starts at `from` ends: its `;`, or the brace that closes its first block.
fn item_end(code: &[char], from: usize) -> usize {
    let (mut braces, mut others) = (0usize, 0usize);
    for (at, char) in code.iter().enumerate().skip(from) {
        match char {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces <= 1 => return at,
            '}' => braces -= 1,
            ';' if braces == 0 && others == 0 => return at,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

fn find_test_items(code: &[char]) -> Vec<RangeInclusive<usize>> {
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(start) = find(code, "#[cfg(test)]", at) {
        let end = item_end(code, start + "#[cfg(test)]".len());
        items.push(line_of(code, start)..=line_of(code, end));
        at = end.max(start + 1);
    }
    items
}

/// Blanks comments, strings and characters; line ends stay.
fn mask(text: &[char]) -> Vec<char> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = literal_end(text, at);
        for char in &mut code[at..end] {
            if *char != '\n' {
                *char = ' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

/// The end of the comment or literal that starts at `at`, or `at` when none does.
fn literal_end(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1).copied();
    match (text[at], next) {
        ('/', Some('/')) => seek(text, at, |rest| rest[0] == '\n'),
        ('/', Some('*')) => block_comment_end(text, at),
        ('"', _) => string_end(text, at),
        ('\'', _) => char_end(text, at),
        ('r', Some('"' | '#')) if !is_word_char(before(text, at, 1)) => raw_end(text, at),
        ('r', Some('"' | '#')) if is_raw_prefix(text, at) => raw_end(text, at),
        _ => at,
    }
}

fn before(text: &[char], at: usize, distance: usize) -> Option<char> {
    at.checked_sub(distance).map(|i| text[i])
}

/// `br"…"` and `cr"…"`: the letter before the `r` is a word of its own.
fn is_raw_prefix(text: &[char], at: usize) -> bool {
    matches!(before(text, at, 1), Some('b' | 'c')) && !is_word_char(before(text, at, 2))
}

fn seek(text: &[char], from: usize, found: impl Fn(&[char]) -> bool) -> usize {
    (from..text.len()).find(|&at| found(&text[at..])).unwrap_or(text.len())
}

fn block_comment_end(text: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0usize, start);
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(text.len())
}

fn string_end(text: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// A character literal, or only the quote of a lifetime.
fn char_end(text: &[char], start: usize) -> usize {
    match (text.get(start + 1), text.get(start + 2)) {
        (Some('\\'), _) => (seek(text, start + 3, |rest| rest[0] == '\'') + 1).min(text.len()),
        (Some(_), Some('\'')) => start + 3,
        _ => start,
    }
}

fn raw_end(text: &[char], start: usize) -> usize {
    let hashes = text[start + 1..].iter().take_while(|&&c| c == '#').count();
    if text.get(start + 1 + hashes) != Some(&'"') {
        return start; // `r#type`, a raw identifier
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&c| c == '#')
    };
    (seek(text, start + 2 + hashes, closes) + 1 + hashes).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.chars().count());
        source.code().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("a // fn b() {}\nc"), "a c");
        assert_eq!(code("a /* x /* y */ z */ b"), "a b");
        assert_eq!(code(r#"a("x \" { y") + b"#), "a( ) + b");
        assert_eq!(code("a(r#\"x \" { y\"#, b)"), "a( , b)");
        assert_eq!(code("a(br\"\\\") + b"), "a(b ) + b");
        assert_eq!(code("match c { '{' => '\\'', 'a' => '\\u{7b}' }"), "match c { => , => }");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code("r#type + attr\"x\""), "r#type + attr");
    }

    #[test]
    fn functions_end_at_their_brace() {
        let source = Source::new("fn a() {\n  if x { y }\n}\nfn b(c: [u8; 4]);\nconst fn d() {}\n");
        let found = source.functions();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), &found[0].lines), ("a", &(1..=3)));
        assert_eq!((found[1].name.as_str(), &found[1].lines), ("d", &(5..=5)));
    }

    #[test]
    fn pointers_and_parts_of_words_are_no_functions() {
        assert_eq!(Source::new("let often = 1; type F = fn(u8) -> u8;").functions(), []);
    }

    #[test]
    fn test_items_are_found_wherever_they_stand() {
        let text =
            "#[cfg(test)]\nuse a::b;\nfn c() {}\n#[cfg(test)]\nmod tests {\n  fn d() {}\n}\n";
        let source = Source::new(text);
        let tests: Vec<bool> = (1..=7).map(|line| source.is_test_line(line)).collect();
        assert_eq!(tests, [true, true, false, true, true, true, true]);
    }

    #[test]
    fn declarations_are_words_after_their_keyword() {
        let source = Source::new("pub struct A;\nenum B {}\n// struct C\ntrait D {}\n");
        let names = source.declared(&["struct", "enum"]);
        assert_eq!(names, [(1, "A".to_owned()), (2, "B".to_owned())]);
    }
}
