//! A form: what is told and what is said. A key may stand several times.

/// A line, decoded.
pub struct Line(Vec<(String, String)>);

impl Line {
    /// Takes a line apart.
    pub fn read(text: &str) -> Line {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Line(pairs.map(|(key, value)| (decode(key), decode(value))).collect())
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A field that every command has.
    pub fn need(&self, key: &str) -> &str {
        self.text(key).unwrap_or_else(|| panic!("no {key}"))
    }

    pub fn maybe<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).and_then(|text| text.parse().ok())
    }

    pub fn number(&self, key: &str, otherwise: u64) -> u64 {
        self.maybe(key).unwrap_or(otherwise)
    }

    pub fn flag(&self, key: &str, otherwise: bool) -> bool {
        self.text(key).map_or(otherwise, |text| text == "1")
    }

    pub fn all(&self, key: &str) -> Vec<&str> {
        let found = self.0.iter().filter(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).collect()
    }
}

fn decode(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                let pair = &text[at + 1..at + 3];
                out.push(u8::from_str_radix(pair, 16).expect("two digits"));
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8(out).expect("a line is text")
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                (byte as char).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Says a line. `println` writes it whole.
pub fn say(name: &str, event: &str, fields: &[(&str, String)]) {
    let mut line = format!("as={}&event={event}", encode(name));
    for (key, value) in fields {
        line += &format!("&{key}={}", encode(value));
    }
    println!("{line}");
}
