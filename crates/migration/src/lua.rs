//! A table of literals as Prosody writes them to its files, read and not run.
//!
//! ```text
//! return {
//!     ["password"] = "open sesame";
//!     ["iteration_count"] = 10000;
//! };
//! ```
//! Of Lua (5.1 2.1, 2.5.7) it takes strings, numbers, `true`, `false`, `nil` and tables of these.
//! Anything that would have to be worked out, a comment too, is refused. Invariant: what is read is
//! the value that Lua would have.

use std::fmt;

/// Tables in tables. Prosody's accounts have none.
const DEPTH_MAX: u32 = 32;

/// A literal.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    /// A string, of any bytes.
    Text(Vec<u8>),
    /// A number, as it is written.
    Number(String),
    Bool(bool),
    Nil,
    Table(Table),
}

impl fmt::Debug for Literal {
    /// Its kind alone: it may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Literal::Text(_) => "a string",
            Literal::Number(_) => "a number",
            Literal::Bool(_) => "true or false",
            Literal::Nil => "nil",
            Literal::Table(_) => "a table",
        })
    }
}

/// A table: what is named in it by strings, and what stands in it one behind the other or under its
/// place. Other keys are read and not kept.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    named: Vec<(Vec<u8>, Literal)>,
    placed: Vec<Literal>,
}

/// An entry of a table.
enum Field {
    Named(Vec<u8>, Literal),
    Placed(Literal),
    Other,
}

/// Place where something else stands than a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LuaFault {
    /// The line, from 1.
    pub(crate) line: usize,
    why: &'static str,
}

impl fmt::Display for LuaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl Table {
    /// The table that a file returns.
    pub(crate) fn read(file: &[u8]) -> Result<Table, LuaFault> {
        let mut reader = Reader { text: file, at: 0 };
        reader.space();
        if !reader.skip(b"return") {
            return Err(reader.fault("a Prosody file starts with `return`"));
        }
        let Literal::Table(table) = reader.literal(0)? else {
            return Err(reader.fault("expected a table"));
        };
        reader.space();
        reader.skip(b";");
        reader.space();
        match reader.at == file.len() {
            true => Ok(table),
            false => Err(reader.fault("unexpected data after the table")),
        }
    }

    /// The value of this name; the last, if several have it.
    pub(crate) fn find(&self, name: &str) -> Option<&Literal> {
        let found = self.named.iter().rev().find(|(key, _)| key == name.as_bytes());
        found.map(|(_, literal)| literal).filter(|literal| **literal != Literal::Nil)
    }

    /// The values whose names are text, in the order of the table.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Literal)> {
        let named = self.named.iter();
        named.filter_map(|(name, literal)| Some((std::str::from_utf8(name).ok()?, literal)))
    }

    /// The values without names, in order.
    pub(crate) fn placed(&self) -> &[Literal] {
        &self.placed
    }

    /// The text of this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.find(name).and_then(Literal::text)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        match self.find(name)? {
            Literal::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The number of this name.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.find(name)? {
            Literal::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// The table of an item of a list: `item({ … });`, as it stands behind the first bracket and
    /// before the last.
    pub(crate) fn item(text: &[u8]) -> Result<Table, LuaFault> {
        let mut reader = Reader { text, at: 0 };
        reader.space();
        let Literal::Table(table) = reader.literal(0)? else {
            return Err(reader.fault("expected a table"));
        };
        reader.space();
        match reader.at == text.len() {
            true => Ok(table),
            false => Err(reader.fault("unexpected data after the table")),
        }
    }
}

impl Literal {
    /// The value, if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Literal::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fault(&self, why: &'static str) -> LuaFault {
        let before = &self.text[..self.at.min(self.text.len())];
        LuaFault { line: 1 + before.iter().filter(|byte| **byte == b'\n').count(), why }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace() || byte == 0x0b) {
            self.at += 1;
        }
    }

    /// Steps over this, if it stands here.
    fn skip(&mut self, what: &[u8]) -> bool {
        let is_here = self.text[self.at..].starts_with(what);
        self.at += if is_here { what.len() } else { 0 };
        is_here
    }

    /// A word or a number.
    fn word(&mut self, is_part: impl Fn(u8) -> bool) -> &str {
        let begin = self.at;
        while self.peek().is_some_and(&is_part) {
            self.at += 1;
        }
        std::str::from_utf8(&self.text[begin..self.at]).unwrap_or_default()
    }

    fn literal(&mut self, depth: u32) -> Result<Literal, LuaFault> {
        self.space();
        match self.peek() {
            Some(b'{') => self.table(depth).map(Literal::Table),
            Some(quote @ (b'"' | b'\'')) => self.text(quote).map(Literal::Text),
            Some(b'-' | b'0'..=b'9') => {
                let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-');
                let number = self.word(is_part).to_owned();
                match number.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(Literal::Number(number)),
                    _ => Err(self.fault("not a number")),
                }
            }
            _ => match self.word(is_of_name) {
                "true" => Ok(Literal::Bool(true)),
                "false" => Ok(Literal::Bool(false)),
                "nil" => Ok(Literal::Nil),
                _ => Err(self.fault("expected a string, a number, a table, true, false or nil")),
            },
        }
    }

    fn table(&mut self, depth: u32) -> Result<Table, LuaFault> {
        if depth == DEPTH_MAX {
            return Err(self.fault("more than 32 nested tables"));
        }
        self.at += 1;
        let mut table = Table::default();
        loop {
            self.space();
            if self.skip(b"}") {
                return Ok(table);
            }
            match self.field(depth + 1)? {
                Field::Named(name, literal) => table.named.push((name, literal)),
                Field::Placed(literal) => table.placed.push(literal),
                Field::Other => {}
            }
            self.space();
            match self.peek() {
                Some(b';' | b',') => self.at += 1,
                Some(b'}') => {}
                _ => return Err(self.fault("expected `;` or the end of the table")),
            }
        }
    }

    /// An entry of a table. Those under their places come in their order, as they are written.
    fn field(&mut self, depth: u32) -> Result<Field, LuaFault> {
        let key = match self.peek() {
            Some(b'[') => {
                self.at += 1;
                let key = self.literal(depth)?;
                self.space();
                if !self.skip(b"]") {
                    return Err(self.fault("expected `]`"));
                }
                key
            }
            Some(byte) if is_of_name(byte) && !byte.is_ascii_digit() => {
                let begin = self.at;
                let name = self.word(is_of_name).to_owned();
                if matches!(&*name, "true" | "false" | "nil") {
                    self.at = begin;
                    return self.literal(depth).map(Field::Placed);
                }
                Literal::Text(name.into_bytes())
            }
            _ => return self.literal(depth).map(Field::Placed),
        };
        self.space();
        if !self.skip(b"=") {
            return Err(self.fault("expected `=`"));
        }
        let value = self.literal(depth)?;
        Ok(match key {
            Literal::Text(key) => Field::Named(key, value),
            Literal::Number(_) => Field::Placed(value),
            _ => Field::Other,
        })
    }

    /// A string in quotes (Lua 5.1 2.1).
    fn text(&mut self, quote: u8) -> Result<Vec<u8>, LuaFault> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return Err(self.fault("unterminated string"));
            };
            self.at += 1;
            match byte {
                b'\\' => text.push(self.escaped()?),
                b'\n' | b'\r' => return Err(self.fault("a string must end on its line")),
                byte if byte == quote => return Ok(text),
                byte => text.push(byte),
            }
        }
    }

    /// The byte that an escape sequence stands for.
    fn escaped(&mut self) -> Result<u8, LuaFault> {
        let sign = self.peek().ok_or_else(|| self.fault("unterminated string"))?;
        if sign.is_ascii_digit() {
            let begin = self.at;
            while self.at < begin + 3 && self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
            let digits = std::str::from_utf8(&self.text[begin..self.at]).unwrap_or_default();
            return digits.parse().map_err(|_| self.fault("a byte must be at most 255"));
        }
        self.at += 1;
        Ok(match sign {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' | b'\n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            b'\\' | b'"' | b'\'' => sign,
            _ => return Err(self.fault("unknown escape sequence")),
        })
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Table, LuaFault> {
        Table::read(text.as_bytes())
    }

    fn found(text: &str, name: &str) -> Option<Literal> {
        read(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).find(name).cloned()
    }

    fn text(bytes: &[u8]) -> Option<Literal> {
        Some(Literal::Text(bytes.into()))
    }

    #[test]
    fn tables_of_literals_are_read() {
        let file = "return {\n\t[\"password\"] = \"a\\\"b\\\\\\n\\195\\164\\0c\\9\";\n\
                    \t[\"count\"] = 10000;\n\tyes = true, [7] = \"seven\";\n\
                    \t[\"deep\"] = { \"x\"; { [true] = -1.5e3 } };\n\t[\"gone\"] = nil;\n};\n";
        assert_eq!(found(file, "password"), text(b"a\"b\\\n\xc3\xa4\0c\t"));
        assert_eq!(found(file, "count"), Some(Literal::Number("10000".into())));
        assert_eq!(found(file, "yes"), Some(Literal::Bool(true)));
        assert!(matches!(found(file, "deep"), Some(Literal::Table(_))));
        assert_eq!(
            (found(file, "gone"), found(file, "seven"), found(file, "7")),
            Default::default()
        );
        assert_eq!(found("return {}", "x"), None);
        assert_eq!(found(" return{'x';true;a='b'}\n", "a"), text(b"b"));
        assert_eq!(found("return { a = 1, a = 'two' }", "a"), text(b"two"), "the last, as in Lua");
        assert_eq!(
            found("return { a = \"x\\\ny\\a\\b\\f\\v\\r\\'\" }", "a"),
            text(b"x\ny\x07\x08\x0c\x0b\r'")
        );
        assert_eq!(found("return { a = '\\0655\\255' }", "a"), text(b"A5\xff"));
    }

    #[test]
    fn whatever_would_have_to_be_run_is_refused_with_its_line() {
        for (wrong, line) in [
            ("", 1),
            ("{}", 1),
            ("return", 1),
            ("return 7", 1),
            ("return {\n", 2),
            ("return {}\nos.exit()", 2),
            ("return {} {}", 1),
            ("return {\na = os.time() }", 2),
            ("return { a = 1 + 1 }", 1),
            ("return { a = (1/0) }", 1),
            ("return { a = 0x }", 1),
            ("return { a = 1e999 }", 1),
            ("return { a = inf }", 1),
            ("return { a = [[x]] }", 1),
            ("return { -- comment\n a = 1 }", 1),
            ("return { a = \"x }", 1),
            ("return { a = \"x\n\" }", 2),
            ("return { a = \"\\q\" }", 1),
            ("return { a = \"\\256\" }", 1),
            ("return { a = \"\\", 1),
            ("return { [\"a\" = 1 }", 1),
            ("return { [\"a\"] 1 }", 1),
            ("return { a = 1 b = 2 }", 1),
            ("return { a }", 1),
            ("return { 1a = 2 }", 1),
            ("return { ; }", 1),
        ] {
            let fault = read(wrong).err().unwrap_or_else(|| panic!("{wrong} was read"));
            assert_eq!(fault.line, line, "{wrong}: {fault}");
        }
    }

    #[test]
    fn tables_stand_in_each_other_up_to_a_limit() {
        let deep = |count: usize| format!("return {}{}", "{".repeat(count), "}".repeat(count));
        assert!(read(&deep(DEPTH_MAX as usize)).is_ok());
        let fault = read(&deep(DEPTH_MAX as usize + 1)).err().expect("too deep");
        assert!(fault.to_string().contains("32 nested tables"));
        assert!(read(&"return {".repeat(100_000)).is_err());
        assert!(read(&format!("return {}", "{[".repeat(100_000))).is_err());
    }
}
