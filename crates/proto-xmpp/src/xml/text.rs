//! Characters and references of XML, in and out (XML 1.0 2.2, 2.3, 2.11, 4.1).
//!
//! Read strictly: a reference is one of the five names or a number of a character that XML has.
//! Written so that whatever anybody said is XML: a character that XML does not have becomes U+FFFD.

use std::borrow::Cow;

/// Whether XML has this character (XML 1.0 2.2).
pub fn is_char(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether all characters of a text are XML's.
pub fn are_chars(text: &str) -> bool {
    let is_one = |byte: u8| byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r');
    match text.is_ascii() {
        // To the end whatever is found, so that many are looked at in one instruction.
        true => text.bytes().fold(true, |are, byte| are & is_one(byte)),
        false => text.chars().all(is_char),
    }
}

/// Whether a name without a prefix may begin so (Namespaces in XML 1.0 3, XML 1.0 2.3).
pub fn begins_name(char: char) -> bool {
    match char {
        'A'..='Z' | '_' | 'a'..='z' => true,
        char => matches!(char,
            '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
            | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}'
            | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}'
            | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}'),
    }
}

/// Whether it may go on so.
pub fn is_in_name(char: char) -> bool {
    begins_name(char)
        || matches!(char,
            '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

/// Whether this is a name without a prefix.
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(begins_name) && chars.all(is_in_name)
}

/// Whether all characters are XML's and all references can be followed.
pub fn is_content(mut text: &str) -> bool {
    while let Some(at) = text.find('&') {
        if !are_chars(&text[..at]) {
            return false;
        }
        match reference(&text[at..]) {
            Some((_, length)) => text = &text[at + length..],
            None => return false,
        }
    }
    are_chars(text)
}

/// Decodes a text: references followed, line ends as XML has them. A sign that begins no reference
/// stays as it is.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'&' | b'\r')) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['&', '\r']) {
        out.push_str(&rest[..at]);
        let is_end = rest.as_bytes()[at] == b'\r';
        let (char, length) = match reference(&rest[at..]) {
            Some(found) => found,
            None if is_end => ('\n', 1 + usize::from(rest[at..].starts_with("\r\n"))),
            None => ('&', 1),
        };
        out.push(char);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The value of an attribute: white space is a space (XML 1.0 3.3.3).
pub fn value(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')) {
        true => unescaped(&text.replace("\r\n", " ").replace(['\t', '\n', '\r'], " "))
            .into_owned()
            .into(),
        false => unescaped(text),
    }
}

/// The character that is referred to at the front, and the length of the reference.
fn reference(text: &str) -> Option<(char, usize)> {
    /// Longest reference that means something: `&#x10ffff;`, with some zeros in front.
    const BYTES_MAX: usize = 16;
    let text = text.strip_prefix('&')?;
    let end = text.bytes().take(BYTES_MAX).position(|byte| byte == b';')?;
    let char = match &text[..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        other => number(other.strip_prefix('#')?)?,
    };
    Some((char, end + 2))
}

fn number(text: &str) -> Option<char> {
    let (digits, radix) = match text.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let are_digits = !digits.is_empty() && digits.chars().all(|char| char.is_digit(radix));
    let number = are_digits.then(|| u32::from_str_radix(digits, radix).ok())??;
    char::from_u32(number).filter(|&char| is_char(char))
}

/// Appends a text as the content of an element.
pub fn put(text: &str, out: &mut Vec<u8>) {
    put_escaped(text, out, |char| match char {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '\r' => Some("&#xd;"),
        char => (!is_char(char)).then_some("\u{fffd}"),
    });
}

/// Appends a text as the value of an attribute, in single or double quotes.
pub fn put_value(text: &str, out: &mut Vec<u8>) {
    put_escaped(text, out, |char| match char {
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '&' => Some("&amp;"),
        '\'' => Some("&apos;"),
        '"' => Some("&quot;"),
        '\t' => Some("&#x9;"),
        '\n' => Some("&#xa;"),
        '\r' => Some("&#xd;"),
        char => (!is_char(char)).then_some("\u{fffd}"),
    });
}

/// The value of an attribute, in single quotes, as it was written somewhere; what cannot have been
/// written so is escaped. It may come from any protocol.
pub fn attribute_as_written(raw: &str) -> String {
    match is_content(raw) && !raw.contains('<') {
        true => raw.replace('\'', "&apos;"),
        false => escaped(raw),
    }
}

/// A text as the value of an attribute, or between tags.
pub fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    put_value(text, &mut out);
    String::from_utf8(out).expect("it was text")
}

fn put_escaped(text: &str, out: &mut Vec<u8>, escape: impl Fn(char) -> Option<&'static str>) {
    out.reserve(text.len());
    let is_plain = |byte: u8| byte.is_ascii() && escape(char::from(byte)).is_none();
    if text.bytes().fold(true, |are, byte| are & is_plain(byte)) {
        return out.extend_from_slice(text.as_bytes());
    }
    let mut from = 0;
    for (at, char) in text.char_indices() {
        if let Some(instead) = escape(char) {
            out.extend_from_slice(&text.as_bytes()[from..at]);
            out.extend_from_slice(instead.as_bytes());
            from = at + char.len_utf8();
        }
    }
    out.extend_from_slice(&text.as_bytes()[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_escaped_means_what_was_said() {
        let said = "a<b>&'\"\t\n\r\r\n &amp; 世界 \u{1f600}";
        let (mut text, mut quoted) = (Vec::new(), Vec::new());
        put(said, &mut text);
        put_value(said, &mut quoted);
        let text = String::from_utf8(text).expect("UTF-8");
        let quoted = String::from_utf8(quoted).expect("UTF-8");
        assert!(!text.contains(['<', '>']) && !quoted.contains(['<', '>', '\'', '"', '\n']));
        assert!(is_content(&text) && is_content(&quoted));
        assert_eq!((&*unescaped(&text), &*value(&quoted)), (said, said));
    }

    #[test]
    fn a_value_from_elsewhere_stands_as_it_was_written_if_it_can_have_been() {
        for (raw, written) in [
            ("a &amp; b", "a &amp; b"),
            ("it's", "it&apos;s"),
            ("<", "&lt;"),
            ("a & b", "a &amp; b"),
            ("a&b;'", "a&amp;b;&apos;"),
            ("\u{1}", "\u{fffd}"),
        ] {
            assert_eq!(attribute_as_written(raw), written, "{raw}");
        }
    }

    #[test]
    fn what_is_no_character_of_xml_is_replaced() {
        let mut out = Vec::new();
        put("a\0\u{1b}[2J\u{fffe}\u{ffff}b", &mut out);
        assert_eq!(String::from_utf8(out).as_deref(), Ok("a\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}b"));
    }

    #[test]
    fn references_are_read_strictly() {
        for (text, meaning) in [
            ("&lt;&gt;&amp;&apos;&quot;", "<>&'\""),
            ("&#65;&#x42;&#x1F600;", "AB\u{1f600}"),
            ("&#0000065;", "A"),
            ("a\r\nb\rc\n", "a\nb\nc\n"),
        ] {
            assert!(is_content(text), "{text}");
            assert_eq!(unescaped(text), meaning);
        }
        for text in [
            "&",
            "& ",
            "&;",
            "&#;",
            "&#x;",
            "&nbsp;",
            "&LT;",
            "&lt",
            "&#0;",
            "&#x0;",
            "&#xd800;",
            "&#xfffe;",
            "&#x110000;",
            "&#+65;",
            "&#-1;",
            "&#1;",
            "&#99999999999999999999;",
            "\u{1}",
            "a\u{ffff}",
            "&amp;\0",
            "&#X41;",
        ] {
            assert!(!is_content(text), "{text}");
        }
        assert_eq!(value("a\tb\nc\r\nd\re&#xa;"), "a b c d e\n");
        assert_eq!(unescaped("a&b"), "a&b");
    }

    #[test]
    fn names_are_those_of_namespaces() {
        for name in ["a", "_", "a-b.c1", "é", "a·", "日本"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1", "-a", ".a", "a:b", "a b", "·", "a\u{d7}", "×"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
