//! The schema, as `schema/im.proto` has it: for whoever carries frames whose fields it does not
//! know one by one.
//!
//! The file is read once, line by line; it is this crate's own, and its tests say that every line
//! of it is understood.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const FILE: &str = include_str!("../schema/im.proto");

/// Requests that belong to a connection of IM's own, and have no sense without one.
const OF_A_CONNECTION: [&str; 5] = ["login", "proceed", "ping", "goodbye", "token"];

/// A field of a message, or a word of an enumeration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaLine {
    /// The message or enumeration it stands in.
    pub of: &'static str,
    /// `uint32`, or the name of a message or an enumeration; empty for a word.
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// Whether the field repeats.
    pub repeated: bool,
}

/// All messages and enumerations, by name, each with its lines in their order.
pub struct ImSchema(BTreeMap<&'static str, Vec<SchemaLine>>);

static SCHEMA: LazyLock<ImSchema> = LazyLock::new(ImSchema::read);

impl ImSchema {
    /// The schema.
    pub fn get() -> &'static ImSchema {
        &SCHEMA
    }

    fn read() -> ImSchema {
        let (mut lines, mut of) = (BTreeMap::<_, Vec<_>>::new(), "");
        for line in FILE.lines().map(str::trim).filter(|line| is_said(line)) {
            let words: Vec<&'static str> = line.trim_end_matches(';').split_whitespace().collect();
            let (repeated, kind, name, number) = match words[..] {
                ["message" | "enum", name, ..] => {
                    of = name;
                    lines.entry(of).or_default();
                    continue;
                }
                ["repeated", kind, name, "=", number] => (true, kind, name, number),
                [kind, name, "=", number] => (false, kind, name, number),
                [name, "=", number] => (false, "", name, number),
                _ => continue,
            };
            if let (Ok(number), Some(its)) = (number.parse(), lines.get_mut(of)) {
                its.push(SchemaLine { of, kind, name, number, repeated });
            }
        }
        ImSchema(lines)
    }

    /// The lines of a message or an enumeration; none: there is no such.
    pub fn lines(&self, of: &str) -> &[SchemaLine] {
        self.0.get(of).map_or(&[], Vec::as_slice)
    }

    /// All lines.
    pub fn all(&self) -> impl Iterator<Item = &SchemaLine> {
        self.0.values().flatten()
    }

    /// Whether this is an enumeration, or a message: neither is built in.
    pub fn is_named(&self, kind: &str) -> bool {
        self.0.contains_key(kind)
    }

    /// Whether this is an enumeration.
    pub fn is_enumeration(&self, kind: &str) -> bool {
        self.lines(kind).first().is_some_and(|line| line.kind.is_empty())
    }

    /// A field by its number.
    pub fn field(&self, of: &str, number: u32) -> Option<&SchemaLine> {
        self.lines(of).iter().find(|line| line.number == number)
    }

    /// A field by its name, as the file has it or as JSON does: `client_id` or `clientId`.
    pub fn named(&self, of: &str, name: &str) -> Option<&SchemaLine> {
        self.lines(of).iter().find(|line| line.name == name || json_name(line.name) == name)
    }

    /// The request of this name, by which it stands in a `ClientFrame`: such as makes sense in a
    /// message that another protocol carries.
    pub fn request(&self, name: &str) -> Option<&SchemaLine> {
        let known = |line: &&SchemaLine| line.name == name && !OF_A_CONNECTION.contains(&name);
        self.lines("ClientFrame").iter().find(known)
    }
}

/// A field's name in JSON (protobuf.dev, "ProtoJSON Format"): `clientId` for `client_id`.
pub fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut is_next_large = false;
    for letter in name.chars() {
        match (letter, is_next_large) {
            ('_', _) => is_next_large = true,
            (letter, true) => {
                json.push(letter.to_ascii_uppercase());
                is_next_large = false;
            }
            (letter, false) => json.push(letter),
        }
    }
    json
}

/// Whether a line of the file says something of a message or an enumeration.
fn is_said(line: &str) -> bool {
    !line.starts_with("//") && !line.starts_with("option ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_and_of_a_type_that_there_is() {
        let schema = ImSchema::get();
        let built_in = ["uint32", "uint64", "sint32", "bool", "fixed64", "bytes", "string"];
        for line in schema.all() {
            let is_known = built_in.contains(&line.kind) || schema.is_named(line.kind);
            assert!(line.kind.is_empty() || is_known, "{line:?}");
        }
        let assigned = FILE.lines().filter(|line| is_said(line.trim()) && line.contains(" = "));
        let said = assigned.filter(|line| !line.trim().starts_with("syntax")).count();
        assert_eq!(schema.all().count(), said, "no line is passed over");
        let send = schema.field("ClientFrame", 3).expect("it is there");
        assert_eq!((send.name, send.kind, send.repeated), ("send", "Send", false));
        assert!(schema.is_enumeration("Fault") && !schema.is_enumeration("Send"));
        assert!(schema.lines("Nothing").is_empty() && schema.named("Send", "nothing").is_none());
    }

    #[test]
    fn a_request_is_found_by_its_name_unless_it_belongs_to_a_connection() {
        let schema = ImSchema::get();
        let number = |name| schema.request(name).map(|line| line.number);
        assert_eq!((number("send"), number("push_settings")), (Some(3), Some(25)));
        for none in ["login", "proceed", "ping", "goodbye", "Send", "", "send/x"] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn names_in_json_are_those_of_the_mapping() {
        for (name, json) in [("to", "to"), ("client_id", "clientId"), ("at_ms", "atMs")] {
            assert_eq!(json_name(name), json);
            let field = ImSchema::get().named("ChatMessage", json).map(|line| line.name);
            assert_eq!(field, Some(name));
        }
    }
}
