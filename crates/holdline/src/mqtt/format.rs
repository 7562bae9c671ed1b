//! How `holdline sub` prints a message: the letters of mosquitto_sub's `-F`.
//!
//! ```text
//!  %t topic  %p payload  %x %X payload in hex  %l its length  %j %J as JSON  %q QoS  %r retain
//!  %m packet identifier  %S subscription identifiers  %E expiry  %C content type
//!  %D correlation data  %R response topic  %F payload format  %P user properties
//!  %I time  %U Unix time  %@Y... strftime in UTC  %% percent;  \n \t \r \a \e \0 \\
//! ```
//! Between the percent sign and the letter: `-` to the left, `0` with zeros, width, `.` length.
//!
//! A payload (`%p`) is printed byte by byte, as mosquitto_sub does, for it may be a file. All else
//! that comes from a publisher, topics first of all, is shown as `\u001b` where a terminal would
//! obey it.

use base::hex;
use base::text::escaped;
use client::{Property, Publication, Qos, properties_of};
use serde_json::Value;

/// A message as it came.
pub struct Shown<'a> {
    pub message: &'a Publication,
    pub qos: Qos,
    pub retain: bool,
    pub packet_id: u16,
    pub ids: &'a [u32],
    /// Unix time, milliseconds.
    pub at_ms: u64,
}

/// A format whose letters were checked.
pub struct Format(Vec<Piece>);

enum Piece {
    Text(Vec<u8>),
    Field {
        letter: char,
        left: bool,
        zeros: bool,
        width: usize,
        length: Option<usize>,
    },
    /// A letter of strftime.
    Time(char),
}

impl Format {
    /// Reads a format; what is wrong with it, in words.
    pub fn read(text: &str) -> Result<Format, String> {
        let (mut pieces, mut chars) = (Vec::new(), text.chars().peekable());
        let mut plain = Vec::new();
        let put = |char: char, plain: &mut Vec<u8>| {
            plain.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        };
        while let Some(char) = chars.next() {
            match char {
                '\\' => match chars.next() {
                    Some('n') => plain.push(b'\n'),
                    Some('t') => plain.push(b'\t'),
                    Some('r') => plain.push(b'\r'),
                    Some('a') => plain.push(7),
                    Some('e') => plain.push(0x1b),
                    Some('0') => plain.push(0),
                    Some('\\') => plain.push(b'\\'),
                    _ => return Err("-F: the escapes are \\n \\t \\r \\a \\e \\0 \\\\".into()),
                },
                '%' => {
                    if chars.next_if_eq(&'%').is_some() {
                        plain.push(b'%');
                        continue;
                    }
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(field(&mut chars)?);
                }
                char => put(char, &mut plain),
            }
        }
        pieces.push(Piece::Text(plain));
        Ok(Format(pieces))
    }

    /// Prints a message.
    pub fn print(&self, shown: &Shown<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Time(letter) => out.extend_from_slice(time(*letter, shown.at_ms).as_bytes()),
                Piece::Field { letter, left, zeros, width, length } => {
                    let mut text = value(*letter, shown);
                    text.truncate(length.unwrap_or(usize::MAX));
                    let missing = width.saturating_sub(text.len());
                    let fill = std::iter::repeat_n(if *zeros { b'0' } else { b' ' }, missing);
                    match left {
                        true => out.extend(text.into_iter().chain(fill)),
                        false => out.extend(fill.chain(text)),
                    }
                }
            }
        }
    }
}

const LETTERS: &str = "tpxXljJqrmSECDRFPIUA";
const TIMES: &str = "YmdHMSsjyFTeZzN";

fn field(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Piece, String> {
    if chars.next_if_eq(&'@').is_some() {
        let letter = chars.next().filter(|letter| TIMES.contains(*letter));
        return letter
            .map(Piece::Time)
            .ok_or(format!("-F: unknown time format; %@ must be followed by one of {TIMES}"));
    }
    let (mut left, mut zeros) = (false, false);
    while let Some(flag) = chars.next_if(|char| matches!(char, '-' | '0')) {
        (left, zeros) = (left || flag == '-', zeros || flag == '0');
    }
    let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut number = None;
        while let Some(digit) = chars.peek().and_then(|char| char.to_digit(10)) {
            number = Some((number.unwrap_or(0) * 10 + digit as usize).min(10_000));
            chars.next();
        }
        number
    };
    let width = number(chars).unwrap_or(0);
    let length = chars.next_if_eq(&'.').map(|_| number(chars).unwrap_or(0));
    match chars.next().filter(|letter| LETTERS.contains(*letter)) {
        Some(letter) => Ok(Piece::Field { letter, left, zeros, width, length }),
        None => Err(format!(
            "-F: unknown format; use % with one of {LETTERS}, %@ with a time letter, or %%"
        )),
    }
}

fn value(letter: char, shown: &Shown<'_>) -> Vec<u8> {
    let message = shown.message;
    let find = |wanted: u8| properties_of(message).find(|property| property.id() == wanted);
    let text = match letter {
        't' => message.topic().to_owned(),
        'p' => return message.payload().to_vec(),
        'x' => hex::encode(message.payload()),
        'X' => hex::encode(message.payload()).to_uppercase(),
        'l' => message.payload().len().to_string(),
        'q' => (shown.qos as u8).to_string(),
        'r' => u8::from(shown.retain).to_string(),
        'm' => shown.packet_id.to_string(),
        'S' => {
            let ids: Vec<String> = shown.ids.iter().map(u32::to_string).collect();
            ids.join(" ")
        }
        'E' => match message.expire_at {
            0 => String::new(),
            at => at.saturating_sub(message.at_s).to_string(),
        },
        'P' => {
            let pairs = properties_of(message).filter_map(|property| match property {
                Property::UserProperty((name, value)) => Some(format!("{name}:{value}")),
                _ => None,
            });
            pairs.collect::<Vec<_>>().join(" ")
        }
        'C' => text_of(find(0x03)),
        'R' => text_of(find(0x08)),
        'D' => match find(0x09) {
            Some(Property::CorrelationData(bytes)) => lossy(bytes),
            _ => String::new(),
        },
        'F' => match find(0x01) {
            Some(Property::PayloadFormat(is_text)) => is_text.to_string(),
            _ => String::new(),
        },
        'I' => iso(shown.at_ms, false),
        'U' => format!("{}.{:03}000000", shown.at_ms / 1_000, shown.at_ms % 1_000),
        'j' => json(shown, Value::String(lossy(message.payload()))),
        'J' => {
            let parsed = serde_json::from_slice(message.payload());
            json(shown, parsed.unwrap_or_else(|_| Value::String(lossy(message.payload()))))
        }
        _ => String::new(), // %A: an alias is gone when the message is shown
    };
    escaped(&text).into_owned().into_bytes()
}

fn text_of(property: Option<Property<'_>>) -> String {
    match property {
        Some(Property::ContentType(text) | Property::ResponseTopic(text)) => text.to_owned(),
        _ => String::new(),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// As mosquitto_sub orders it.
fn json(shown: &Shown<'_>, payload: Value) -> String {
    let message = shown.message;
    let mut fields = vec![
        ("tst", Value::String(iso(shown.at_ms, true))),
        ("topic", Value::String(message.topic().to_owned())),
        ("qos", Value::from(shown.qos as u8)),
        ("retain", Value::from(u8::from(shown.retain))),
        ("payloadlen", Value::from(message.payload().len())),
    ];
    if shown.packet_id != 0 {
        fields.push(("mid", Value::from(shown.packet_id)));
    }
    let properties: serde_json::Map<String, Value> = properties_of(message)
        .filter_map(|property| {
            let value = match property {
                Property::ContentType(text) | Property::ResponseTopic(text) => Value::from(text),
                Property::CorrelationData(bytes) => Value::from(lossy(bytes)),
                Property::PayloadFormat(is_text) => Value::from(is_text),
                Property::UserProperty((name, value)) => serde_json::json!({ name: value }),
                _ => return None,
            };
            Some((property.name().replace('_', "-"), value))
        })
        .collect();
    if !properties.is_empty() {
        fields.push(("properties", Value::Object(properties)));
    }
    fields.push(("payload", payload));
    let fields: Vec<String> =
        fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// Year, month and day of a Unix day (the proleptic Gregorian calendar).
fn date(day: u64) -> (u64, u64, u64) {
    let z = day + 719_468; // days since 0000-03-01
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

fn iso(at_ms: u64, fine: bool) -> String {
    let (year, month, day) = date(at_ms / 86_400_000);
    let (s, ms) = (at_ms / 1_000 % 86_400, at_ms % 1_000);
    let fraction = if fine { format!(".{ms:03}000") } else { String::new() };
    let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
    let zone = if fine { "Z+0000" } else { "+0000" };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
}

fn time(letter: char, at_ms: u64) -> String {
    let (year, month, day) = date(at_ms / 86_400_000);
    let s = at_ms / 1_000;
    let (hour, minute, second) = (s / 3_600 % 24, s / 60 % 60, s % 60);
    match letter {
        'Y' => format!("{year:04}"),
        'y' => format!("{:02}", year % 100),
        'm' => format!("{month:02}"),
        'd' => format!("{day:02}"),
        'e' => format!("{day:2}"),
        'H' => format!("{hour:02}"),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        's' => s.to_string(),
        'N' => format!("{:03}000000", at_ms % 1_000),
        'F' => format!("{year:04}-{month:02}-{day:02}"),
        'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        'j' => {
            let mut first = s / 86_400;
            while date(first - 1).0 == year {
                first -= 1;
            }
            format!("{:03}", s / 86_400 - first + 1)
        }
        'z' => "+0000".to_owned(),
        _ => "UTC".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str) -> String {
        let block = client::Block::of(&[
            Property::ContentType("text"),
            Property::UserProperty(("a", "b")),
            Property::UserProperty(("c", "d")),
        ]);
        let block = block.expect("a block");
        let message = client::publication(0, "x/y", block.properties(), b"{\"n\":1}");
        let shown = Shown {
            message: &message,
            qos: Qos::AtLeastOnce,
            retain: true,
            packet_id: 9,
            ids: &[3, 4],
            at_ms: 1_700_000_000_123,
        };
        let mut out = Vec::new();
        match Format::read(format) {
            Ok(format) => format.print(&shown, &mut out),
            Err(_) => out.extend_from_slice(b"refused"),
        }
        lossy(&out)
    }

    #[test]
    fn every_letter_prints_its_part() {
        let cases = [
            ("%t %p %q %r %m %l", "x/y {\"n\":1} 1 1 9 7"),
            ("%x|%X", "7b226e223a317d|7B226E223A317D"),
            ("%C %P %S", "text a:b c:d 3 4"),
            ("%I %U", "2023-11-14T22:13:20+0000 1700000000.123000000"),
            ("%@Y-%@m-%@d %@j", "2023-11-14 318"),
            ("100%%\\t\\\\", "100%\t\\"),
            ("[%-6t][%6t][%06l][%.1t]", "[x/y   ][   x/y][000007][x]"),
            ("%z", "refused"),
            ("\\q", "refused"),
            ("%", "refused"),
        ];
        for (format, wanted) in cases {
            assert_eq!(printed(format), wanted, "{format}");
        }
    }

    #[test]
    fn json_has_mosquittos_order() {
        assert_eq!(
            printed("%J"),
            "{\"tst\":\"2023-11-14T22:13:20.123000Z+0000\",\"topic\":\"x/y\",\"qos\":1,\
             \"retain\":1,\"payloadlen\":7,\"mid\":9,\
             \"properties\":{\"content-type\":\"text\",\"user-property\":{\"c\":\"d\"}},\
             \"payload\":{\"n\":1}}"
        );
        assert!(printed("%j").ends_with("\"payload\":\"{\\\"n\\\":1}\"}"));
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        for (day, wanted) in [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (19_782, (2024, 2, 29))] {
            assert_eq!(date(day), wanted);
        }
    }
}
