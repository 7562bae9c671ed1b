//! The schema as it stands in `schema/im.proto`, and frames in the text format of Protocol Buffers.
//!
//! The text comes from what the codec writes: each field is looked up by its number, and must be of
//! the type that the schema gives it.

use crate::codec::protobuf::{Body, Sink};
use crate::schema::{ImSchema, SchemaLine};

/// The words of an enumeration, in their order.
pub(crate) fn words(of: &str) -> Vec<(u32, String)> {
    let lines = ImSchema::get().lines(of).iter();
    lines.map(|line| (line.number, line.name.to_owned())).collect()
}

/// A message as text.
pub(crate) fn text(of: &str, message: &impl Body) -> String {
    let mut text = Text { of, out: Vec::new() };
    message.put(&mut text);
    text.out.join(" ")
}

/// A sink that names what it is given.
struct Text<'a> {
    of: &'a str,
    out: Vec<String>,
}

impl Text<'_> {
    fn line(&self, number: u32) -> &'static SchemaLine {
        let line = ImSchema::get().field(self.of, number);
        line.unwrap_or_else(|| panic!("{} has no field {number}", self.of))
    }

    /// The field, which must be of one of these types.
    fn field(&self, number: u32, kinds: &[&str]) -> &'static SchemaLine {
        let line = self.line(number);
        assert!(kinds.contains(&line.kind), "{}.{}: {kinds:?}", self.of, line.name);
        line
    }

    fn say(&mut self, number: u32, kinds: &[&str], value: impl std::fmt::Display) {
        let name = self.field(number, kinds).name;
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
        let people = ["ContactVerb", "Half", "Show", "Reads", "Adding"];
        let more = [&people[..], &["ChatState", "ChatroomVerb", "ChatroomOut"]].concat();
        let kinds = [&["uint32"][..], &words, &more].concat();
        let kind = self.field(field, &kinds).kind;
        match ImSchema::get().field(kind, value) {
            Some(word) => self.say(field, &kinds[1..], word.name),
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
        let line = self.line(field);
        let within = text(line.kind, message);
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
