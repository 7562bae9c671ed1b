//! Files that people send: leave to upload one, and the note about it that a message carries.
//!
//! Bytes of files are nowhere here: a device is given addresses of a storage, and says in a message
//! where the file is. Invariant: a note that was written is read as it was; a name or a type in one
//! has no line end.

use base::encoding::Encoding;
use std::fmt::Write as _;

/// Longest name of a file, bytes.
pub const FILE_NAME_BYTES_MAX: usize = 255;
/// Longest type of a file, bytes.
pub const MEDIA_TYPE_BYTES_MAX: usize = 127;
/// Longest address of a file in a note, bytes.
pub const FILE_URL_BYTES_MAX: usize = 4_096;
/// Headers that an upload must have, at most.
pub const UPLOAD_HEADERS_MAX: usize = 4;

/// A file that somebody wants to upload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UploadWish {
    /// Its name, 1 to [`FILE_NAME_BYTES_MAX`] bytes.
    pub name: Box<str>,
    /// Its type, as `type/subtype`; empty: not told.
    pub media_type: Box<str>,
    /// Its size, at least 1.
    pub bytes: u64,
}

impl UploadWish {
    /// The type by which it is taken and kept.
    pub fn media_type(&self) -> &str {
        if self.media_type.is_empty() { UNKNOWN_TYPE } else { &self.media_type }
    }

    /// The headers of the upload: its type, if it is known.
    pub fn headers(&self) -> Vec<(Box<str>, Box<str>)> {
        let told = Some(&self.media_type).filter(|told| !told.is_empty());
        told.map(|told| ("Content-Type".into(), told.clone())).into_iter().collect()
    }

    /// Whether it makes sense, whatever the limits are.
    pub fn is_sound(&self) -> bool {
        is_file_name(&self.name) && is_media_type(self.media_type()) && self.bytes > 0
    }
}

/// Leave to upload a file.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct UploadSlot {
    /// URL for the upload (HTTP PUT).
    pub put_url: Box<str>,
    /// Headers that the request must have, by name and value; at most [`UPLOAD_HEADERS_MAX`].
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// URL from which receivers of the message get it.
    pub get_url: Box<str>,
    /// Unix second until which the file may be uploaded.
    pub put_until_s: u64,
    /// Unix second until which the file is kept.
    pub get_until_s: u64,
}

/// The type of what nothing is known of.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Whether a file may be called so: a name, and no path; nothing that cannot be seen.
pub fn is_file_name(name: &str) -> bool {
    let dots = name.chars().all(|c| c == '.');
    (1..=FILE_NAME_BYTES_MAX).contains(&name.len())
        && !dots
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

/// Whether a text is a media type without parameters (RFC 6838 4.2).
pub fn is_media_type(text: &str) -> bool {
    let named = |part: &str| {
        let first = part.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        let rest = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        first && part.bytes().all(rest)
    };
    text.len() <= MEDIA_TYPE_BYTES_MAX
        && text.split_once('/').is_some_and(|(kind, rest)| named(kind) && named(rest))
}

/// Whether a text stands for media types: one of them, `image/*`, or `*/*`.
pub fn is_type_pattern(text: &str) -> bool {
    text == "*/*" || is_media_type(text) || {
        text.strip_suffix("/*").is_some_and(|kind| is_media_type(&format!("{kind}/x")))
    }
}

/// Whether a type is one that a pattern stands for; capitals say nothing.
pub fn is_type_of(media_type: &str, pattern: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some("*") => true,
        Some(kind) => {
            let of = media_type.split('/').next().unwrap_or_default();
            of.eq_ignore_ascii_case(kind)
        }
        None => media_type.eq_ignore_ascii_case(pattern),
    }
}

/// Whether a file of this type may be shown by a browser by itself: pictures that run nothing.
pub fn is_picture(media_type: &str) -> bool {
    let pictures = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];
    pictures.iter().any(|known| known.eq_ignore_ascii_case(media_type))
}

/// The type that a file of this name has by custom.
pub fn type_by_name(name: &str) -> &'static str {
    let known = [
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("avif", "image/avif"),
        ("mp4", "video/mp4"),
        ("webm", "video/webm"),
        ("mp3", "audio/mpeg"),
        ("m4a", "audio/mp4"),
        ("ogg", "audio/ogg"),
        ("opus", "audio/ogg"),
        ("pdf", "application/pdf"),
        ("zip", "application/zip"),
        ("txt", "text/plain"),
    ];
    let ending = name.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    let found = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    found.map_or(UNKNOWN_TYPE, |(_, media_type)| media_type)
}

/// The note of a message about its file: lines of `key: value`, and perhaps, behind an empty line,
/// the stanza of XMPP that it came with.
///
/// ```text
/// url: https://chat.example.org/media/…/cat.png
/// name: cat.png
/// type: image/png
/// bytes: 48213
/// size: 800x600
/// blurhash: LEHV6nWB2yk8pyo0adR*.7kCMdnj
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FileNote<'a> {
    /// Where the file is: http or https.
    pub url: &'a str,
    /// Its name; empty: not told.
    pub name: &'a str,
    /// Its type; empty: not told.
    pub media_type: &'a str,
    /// Its size; 0: not told.
    pub bytes: u64,
    /// Width and height of a picture, in points; zeros: not told.
    pub size: (u32, u32),
    /// A blurred preview of the picture (BlurHash); empty: none.
    pub blurhash: &'a str,
    /// A stanza of XMPP, without addresses and body; empty: none.
    pub stanza: &'a str,
}

impl<'a> FileNote<'a> {
    /// The note in a message's `extra`; `None`: there is none. Lines that are not known are
    /// skipped.
    pub fn parse(extra: &'a [u8]) -> Option<FileNote<'a>> {
        let text = std::str::from_utf8(extra).ok()?;
        let (lines, stanza) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut note = FileNote { stanza, ..FileNote::default() };
        for line in lines.lines() {
            let Some((key, value)) = line.split_once(": ") else { continue };
            match key {
                "url" => note.url = value,
                "name" => note.name = value,
                "type" => note.media_type = value,
                "bytes" => note.bytes = value.parse().unwrap_or_default(),
                "size" => note.size = size_of(value).unwrap_or_default(),
                "blurhash" => note.blurhash = value,
                _ => {}
            }
        }
        is_file_url(note.url).then_some(note)
    }

    /// The note as it stands in a message.
    pub fn write(&self) -> Box<[u8]> {
        let mut text = format!("url: {}\n", self.url);
        let lines = [("name", self.name), ("type", self.media_type), ("blurhash", self.blurhash)];
        for (key, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
            let plain: String = value.chars().filter(|c| !c.is_control()).collect();
            let _ = writeln!(text, "{key}: {plain}");
        }
        if self.bytes > 0 {
            let _ = writeln!(text, "bytes: {}", self.bytes);
        }
        if self.size != (0, 0) {
            let _ = writeln!(text, "size: {}x{}", self.size.0, self.size.1);
        }
        if !self.stanza.is_empty() {
            let _ = write!(text, "\n{}", self.stanza);
        }
        text.into_bytes().into()
    }

    /// The note of which only the address is known.
    pub fn of_url(url: &'a str) -> Option<FileNote<'a>> {
        is_file_url(url).then(|| FileNote { url, ..FileNote::default() })
    }
}

/// The file's name as its address has it, with what is escaped there put right; empty: none.
pub fn name_in_url(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let last = path.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    let last = last.and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default();
    let mut bytes = Vec::with_capacity(last.len());
    let mut rest = last.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = rest.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| byte == b'%');
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &rest[3..] } else { behind };
    }
    String::from_utf8(bytes).ok().filter(|name| is_file_name(name)).unwrap_or_default()
}

/// Whether a text may be the address of a file.
pub fn is_file_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let visible = url.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'<' && b != b'>');
    url.len() <= FILE_URL_BYTES_MAX && visible && rest.is_some_and(|rest| !rest.is_empty())
}

fn size_of(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_file_is_none() {
        let long = "x".repeat(FILE_NAME_BYTES_MAX + 1);
        for bad in ["", ".", "..", "a/b", "..\\b", "a\nb", "a\0", &long] {
            assert!(!is_file_name(bad), "{bad:?}");
        }
        for good in ["a", ".hidden", "cat picture.png", "猫.png", &long[1..]] {
            assert!(is_file_name(good), "{good:?}");
        }
    }

    #[test]
    fn types_and_patterns_are_told_apart() {
        for bad in ["", "image", "image/", "/png", "image/*", "text/plain; charset=x", "a/b/c"] {
            assert!(!is_media_type(bad), "{bad:?}");
        }
        assert!(is_media_type("image/svg+xml") && is_type_pattern("image/svg+xml"));
        assert!(is_type_pattern("*/*") && is_type_pattern("image/*"));
        for bad in ["*", "*/png", "image*", "image/p*"] {
            assert!(!is_type_pattern(bad), "{bad:?}");
        }
        assert!(is_type_of("Image/PNG", "image/*") && is_type_of("Image/PNG", "image/png"));
        assert!(is_type_of("x/y", "*/*"));
        assert!(!is_type_of("imagery/png", "image/*") && !is_type_of("image/png", "image/jpeg"));
    }

    #[test]
    fn only_pictures_that_run_nothing_are_pictures() {
        assert!(is_picture("image/png") && is_picture("IMAGE/JPEG"));
        assert!(!is_picture("image/svg+xml") && !is_picture("text/html") && !is_picture(""));
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = FileNote {
            url: "https://a.example/media/x/cat.png?k=v",
            name: "cat: a picture.png",
            media_type: "image/png",
            bytes: 48_213,
            size: (800, 600),
            blurhash: "LEHV6nWB2yk8pyo0adR*.7kCMdnj",
            stanza: "<message>\n\n<x/></message>",
        };
        assert_eq!(FileNote::parse(&note.write()), Some(note));
        let bare = FileNote::of_url("http://a.example/x").expect("an address");
        assert_eq!(&*bare.write(), b"url: http://a.example/x\n");
        assert_eq!(FileNote::parse(&bare.write()), Some(bare));
    }

    #[test]
    fn a_note_needs_an_address_and_no_more() {
        for bad in ["", "name: x", "url: javascript:alert(1)", "url: https://", "url: http://a b"] {
            assert_eq!(FileNote::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(FileNote::parse(&[0xff]), None);
        let some =
            FileNote::parse(b"later: more\nurl: http://a/b\nbytes: many\nsize: 1\n").expect("one");
        assert_eq!((some.url, some.bytes, some.size), ("http://a/b", 0, (0, 0)));
    }

    #[test]
    fn a_line_end_in_a_name_makes_no_line() {
        let note =
            FileNote { url: "http://a/b", name: "x\nurl: http://evil/", ..FileNote::default() };
        let written = note.write();
        assert_eq!(FileNote::parse(&written).expect("a note").url, "http://a/b");
    }

    #[test]
    fn an_address_tells_the_name_that_is_in_it() {
        for (url, name) in [
            ("https://a.example/m/x/cat.png", "cat.png"),
            ("https://a.example/m/my%20cat.png?k=a/b#c", "my cat.png"),
            ("https://a.example/%e7%8c%ab.png", "猫.png"),
            ("https://a.example/100%", "100%"),
            ("https://a.example/a%2Fb", ""),
            ("https://a.example/%ff", ""),
            ("https://a.example/", ""),
            ("https://a.example", ""),
        ] {
            assert_eq!(name_in_url(url), name, "{url}");
        }
        assert_eq!(type_by_name("a.JPG"), "image/jpeg");
        assert_eq!(type_by_name("a.exe"), UNKNOWN_TYPE);
        assert_eq!(type_by_name("png"), UNKNOWN_TYPE);
    }
}
