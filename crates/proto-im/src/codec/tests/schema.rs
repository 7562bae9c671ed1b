//! The schema as it stands in `schema/im.proto`, and frames in the text format of Protocol Buffers.
//!
//! The text comes from what the codec writes: each field is looked up by its number, and must be of
//! the type that the schema gives it.

use crate::codec::protobuf::{Body, Sink};

const FILE: &str = include_str!("../../../schema/im.proto");

/// A field, or a word of an enumeration.
#[derive(Clone, Debug)]
struct Line {
    /// The message or enumeration it stands in.
    of: String,
    /// `uint32`, or the name of a message; empty for a word.
    kind: String,
    name: String,
    number: u32,
}

/// All messages and enumerations.
pub(crate) struct Schema(Vec<Line>);

impl Schema {
    pub(crate) fn read() -> Schema {
        let (mut lines, mut of) = (Vec::new(), String::new());
        for line in FILE.lines().map(str::trim).filter(|line| is_said(line)) {
            let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
            match words[..] {
                ["message" | "enum", name, ..] => of = name.to_owned(),
                ["repeated", kind, name, "=", number] | [kind, name, "=", number] => {
                    lines.push(entry(&of, kind, name, number));
                }
                [name, "=", number] if !of.is_empty() => {
                    lines.push(entry(&of, "", name, number));
                }
                _ => {}
            }
        }
        Schema(lines.into_iter().filter(|line| !line.of.is_empty()).collect())
    }

    /// Names of all fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|line| !line.kind.is_empty()).map(|line| line.name.as_str())
    }

    /// The words of an enumeration, in their order.
    pub(crate) fn words(&self, of: &str) -> Vec<(u32, String)> {
        let its = self.0.iter().filter(|line| line.of == of);
        its.map(|line| (line.number, line.name.clone())).collect()
    }

    /// A message as text.
    pub(crate) fn text(&self, of: &str, message: &impl Body) -> String {
        let mut text = Text { schema: self, of: of.to_owned(), out: Vec::new() };
        message.put(&mut text);
        text.out.join(" ")
    }
}

/// Whether a line of the file says something of a message or an enumeration.
fn is_said(line: &str) -> bool {
    !line.starts_with("//") && !line.starts_with("option ")
}

fn entry(of: &str, kind: &str, name: &str, number: &str) -> Line {
    let number = number.parse().unwrap_or_else(|_| panic!("{name} = {number}"));
    Line { of: of.to_owned(), kind: kind.to_owned(), name: name.to_owned(), number }
}

/// A sink that names what it is given.
struct Text<'a> {
    schema: &'a Schema,
    of: String,
    out: Vec<String>,
}

impl Text<'_> {
    /// The field, which must be of one of these types.
    fn field(&self, number: u32, kinds: &[&str]) -> &Line {
        let its = |line: &&Line| line.of == self.of && line.number == number;
        let line = self.schema.0.iter().find(its);
        let line = line.unwrap_or_else(|| panic!("{} has no field {number}", self.of));
        assert!(kinds.contains(&&*line.kind), "{}.{}: {kinds:?}", self.of, line.name);
        line
    }

    fn say(&mut self, number: u32, kinds: &[&str], value: impl std::fmt::Display) {
        let name = self.field(number, kinds).name.clone();
        self.out.push(format!("{name}: {value}"));
    }
}

impl Sink for Text<'_> {
    fn varint(&mut self, _: u64) {
        unreachable!("fields come whole");
    }

    fn raw(&mut self, _: &[u8]) {
        unreachable!("fields come whole");
    }

    fn sized(&mut self, _: &impl Body) {
        unreachable!("fields come whole");
    }

    fn u64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.say(field, &["uint64"], value);
        }
    }

    fn u32(&mut self, field: u32, value: u32) {
        if value == 0 {
            return;
        }
        let words = ["Reason", "Fault", "GroupVerb", "GroupRole", "Setting"];
        let kinds = [&["uint32"][..], &words, &["ContactVerb", "Half", "Show"]].concat();
        let kind = self.field(field, &kinds).kind.clone();
        let word = self.schema.words(&kind).into_iter().find(|(number, _)| *number == value);
        match word {
            Some((_, word)) => self.say(field, &kinds[1..], word),
            None => self.say(field, &kinds, value),
        }
    }

    fn sint32(&mut self, field: u32, value: i32) {
        if value != 0 {
            self.say(field, &["sint32"], value);
        }
    }

    fn bool(&mut self, field: u32, value: bool) {
        if value {
            self.say(field, &["bool"], value);
        }
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.say(field, &["fixed64"], value);
        }
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            let escaped: String = value.iter().map(|byte| escape(*byte)).collect();
            self.say(field, &["bytes"], format!("\"{escaped}\""));
        }
    }

    fn text(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.say(field, &["string"], format!("\"{value}\""));
        }
    }

    fn each_text(&mut self, field: u32, value: &str) {
        self.say(field, &["string"], format!("\"{value}\""));
    }

    fn body(&mut self, field: u32, message: &impl Body) {
        let line = self.schema.0.iter().find(|line| line.of == self.of && line.number == field);
        let line = line.unwrap_or_else(|| panic!("{} has no field {field}", self.of)).clone();
        let within = self.schema.text(&line.kind, message);
        let space = if within.is_empty() { "" } else { " " };
        self.out.push(format!("{} {{ {within}{space}}}", line.name));
    }
}

/// A byte as the text format shows it.
fn escape(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        b'\t' => "\\t".into(),
        b'"' | b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        0x20..=0x7e => char::from(byte).to_string(),
        other => format!("\\{other:03o}"),
    }
}
