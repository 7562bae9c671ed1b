//! The lines of an export: flat objects of JSON whose values are whole numbers and plain texts.
//!
//! ```text
//! {"holdline":"export","version":3,"logs":4,"cluster":"<hex>"}     first
//! {"log":0}                                                        what follows was in this log
//! {"row":1,"key":"<base64>","value":"<base64>"}                    row: the number of its table
//! {"timeline":"<hex>","last":7}                                    what follows is of this one
//! {"seq":5,"id":9,"at_s":1700000000,"label":"<base64>","body":"<base64>"}
//! {"reader":3,"upto":5}
//! {"once":"<hex>","crc":1,"made_s":1700000000,"id":9,"seqs":"5 6"} an append that is remembered
//! {"end":1,"rows":1,"timelines":1,"entries":1,"readers":1,"once_keys":1}       last
//! ```
//! It knows lines, not logs. Texts have no escapes: names are ours and contents are base64 or hex.
//! Invariant: [`Line::read`] gives back what [`Line::write`] wrote, and says what else is wrong.

use crate::engine::OnceRecord;
use base::hex;
use base::secret::ClusterSecret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::ports::log::{OnceKey, Table};
use model::timeline::{Message, ReaderId, Seq, TimelineId};

/// The version of the text.
const VERSION: u64 = 3;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    First { logs: u64, cluster: ClusterSecret },
    Log(u64),
    Row { table: Table, key: Vec<u8>, value: Vec<u8> },
    Timeline { timeline: TimelineId, last: Seq },
    Entry { seq: Seq, message: Message },
    Cursor { reader: ReaderId, upto: Seq },
    Once(OnceRecord),
    End(Sums),
}

/// How much an export holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Rows, each as often as there are logs that have it.
    pub rows: u64,
    /// Timelines.
    pub timelines: u64,
    /// Messages in them.
    pub entries: u64,
    /// Cursors.
    pub cursors: u64,
    /// Appends that are remembered under once keys.
    pub once: u64,
}

impl Sums {
    /// Counts a line.
    pub(super) fn note(&mut self, line: &Line) {
        match line {
            Line::Row { .. } => self.rows += 1,
            Line::Timeline { .. } => self.timelines += 1,
            Line::Entry { .. } => self.entries += 1,
            Line::Cursor { .. } => self.cursors += 1,
            Line::Once(_) => self.once += 1,
            Line::First { .. } | Line::Log(_) | Line::End(_) => {}
        }
    }
}

impl Line {
    /// Its text, without the end of line.
    pub(super) fn write(&self) -> String {
        let base = |bytes: &[u8]| STANDARD.encode(bytes);
        match self {
            Line::First { logs, cluster } => {
                let cluster = cluster.to_text();
                let first = format!(r#""holdline":"export","version":{VERSION}"#);
                format!(r#"{{{first},"logs":{logs},"cluster":"{cluster}"}}"#)
            }
            Line::Log(number) => format!(r#"{{"log":{number}}}"#),
            Line::Row { table, key, value } => {
                let (table, key, value) = (*table as u8, base(key), base(value));
                format!(r#"{{"row":{table},"key":"{key}","value":"{value}"}}"#)
            }
            Line::Timeline { timeline, last } => {
                let id = hex::encode(&timeline.to_bytes());
                format!(r#"{{"timeline":"{id}","last":{last}}}"#)
            }
            Line::Entry { seq, message: Message { id, at_s, label, body } } => {
                let (label, body) = (base(label), base(body));
                format!(
                    r#"{{"seq":{seq},"id":{id},"at_s":{at_s},"label":"{label}","body":"{body}"}}"#
                )
            }
            Line::Cursor { reader: ReaderId(reader), upto } => {
                format!(r#"{{"reader":{reader},"upto":{upto}}}"#)
            }
            Line::Once(OnceRecord { key, crc, made_s, id, seqs }) => {
                let key = hex::encode(&key.0.to_be_bytes());
                let seqs: Vec<String> = seqs.iter().map(Seq::to_string).collect();
                let (of, seqs) = (format!(r#""crc":{crc},"made_s":{made_s}"#), seqs.join(" "));
                format!(r#"{{"once":"{key}",{of},"id":{id},"seqs":"{seqs}"}}"#)
            }
            Line::End(Sums { rows, timelines, entries, cursors, once }) => {
                let both = format!(r#""rows":{rows},"timelines":{timelines}"#);
                let more = format!(r#""entries":{entries},"readers":{cursors}"#);
                format!(r#"{{"end":1,{both},{more},"once_keys":{once}}}"#)
            }
        }
    }

    /// Parses a line; the error says what is wrong with it.
    pub(super) fn read(line: &str) -> Result<Line, String> {
        let fields = Fields(fields(line).ok_or("it is not a flat JSON object")?);
        let (first, _) = fields.0.first().ok_or("it says nothing")?;
        match *first {
            "holdline" => fields.first(),
            "log" => Ok(Line::Log(fields.number("log")?)),
            "row" => fields.row(),
            "timeline" => {
                let id =
                    hex::decode_array(fields.text("timeline")?).and_then(TimelineId::from_bytes);
                let timeline = id.ok_or("\"timeline\" is not the id of one")?;
                Ok(Line::Timeline { timeline, last: fields.number("last")? })
            }
            "seq" => fields.entry(),
            "reader" => {
                let reader = ReaderId(fields.number("reader")?);
                Ok(Line::Cursor { reader, upto: fields.number("upto")? })
            }
            "once" => fields.once(),
            "end" => Ok(Line::End(Sums {
                rows: fields.number("rows")?,
                timelines: fields.number("timelines")?,
                entries: fields.number("entries")?,
                cursors: fields.number("readers")?,
                once: fields.number("once_keys")?,
            })),
            other => Err(format!("{other:?} begins no line that is known")),
        }
    }
}

/// Names and values of one line, in order.
struct Fields<'a>(Vec<(&'a str, Value<'a>)>);

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

impl<'a> Fields<'a> {
    fn first(&self) -> Result<Line, String> {
        match (self.text("holdline")?, self.number("version")?) {
            ("export", VERSION) => {
                let cluster = ClusterSecret::parse(self.text("cluster")?);
                let cluster = cluster.ok_or("\"cluster\" does not have 64 hex digits")?;
                Ok(Line::First { logs: self.number("logs")?, cluster })
            }
            ("export", version) => Err(format!("version {version} is unknown to this program")),
            _ => Err("it is not an export of Holdline".into()),
        }
    }

    fn row(&self) -> Result<Line, String> {
        let number = self.number("row")?;
        let table = u8::try_from(number).ok().and_then(Table::from_byte);
        let table = table.ok_or_else(|| format!("there is no table {number}"))?;
        Ok(Line::Row { table, key: self.bytes("key")?, value: self.bytes("value")? })
    }

    fn once(&self) -> Result<Line, String> {
        let key = hex::decode_array(self.text("once")?).map(u128::from_be_bytes).map(OnceKey);
        let key = key.ok_or("\"once\" does not have 32 hex digits")?;
        let seqs = self.text("seqs")?.split(' ').filter(|seq| !seq.is_empty()).map(str::parse);
        let seqs = seqs.collect::<Result<_, _>>().map_err(|_| "\"seqs\" are not numbers")?;
        let (crc, made_s) = (self.small("crc")?, self.small("made_s")?);
        Ok(Line::Once(OnceRecord { key, crc, made_s, id: self.number("id")?, seqs }))
    }

    fn small(&self, name: &str) -> Result<u32, String> {
        let number = self.number(name)?;
        u32::try_from(number).map_err(|_| format!("{name:?} is beyond 32 bits"))
    }

    fn entry(&self) -> Result<Line, String> {
        let at_s = self.small("at_s")?;
        let (label, body) = (self.bytes("label")?.into(), self.bytes("body")?.into());
        let message = Message { id: self.number("id")?, at_s, label, body };
        Ok(Line::Entry { seq: self.number("seq")?, message })
    }

    fn find(&self, name: &str) -> Result<Value<'a>, String> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value).ok_or_else(|| format!("{name:?} is missing"))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        match self.find(name)? {
            Value::Number(number) => Ok(number),
            Value::Text(_) => Err(format!("{name:?} is not a number")),
        }
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.find(name)? {
            Value::Text(text) => Ok(text),
            Value::Number(_) => Err(format!("{name:?} is not a text")),
        }
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        STANDARD.decode(self.text(name)?).map_err(|error| format!("{name:?}: {error}"))
    }
}

fn fields(line: &str) -> Option<Vec<(&str, Value<'_>)>> {
    let mut rest = line.trim().strip_prefix('{')?.trim_start();
    let mut fields = Vec::new();
    loop {
        let (name, after) = text(rest)?;
        rest = after.trim_start().strip_prefix(':')?.trim_start();
        let value = if rest.starts_with('"') {
            let (text, after) = text(rest)?;
            rest = after;
            Value::Text(text)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            rest = after;
            Value::Number(digits.parse().ok()?)
        };
        fields.push((name, value));
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None => return (rest == "}").then_some(fields),
        }
    }
}

fn text(rest: &str) -> Option<(&str, &str)> {
    let (text, after) = rest.strip_prefix('"')?.split_once('"')?;
    (!text.contains('\\')).then_some((text, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let timeline = TimelineId::of(Space::Other, HashKey::new(1, 2), &[b"a"]);
        let body: Box<[u8]> = (0..=255).collect();
        let message = Message { id: u64::MAX, at_s: 7, label: Box::default(), body };
        let sums = Sums { rows: 1, timelines: 2, entries: 3, cursors: 4, once: 5 };
        let once = |seqs: &[Seq]| {
            let key = OnceKey(7 << 100);
            Line::Once(OnceRecord { key, crc: u32::MAX, made_s: 1, id: 2, seqs: seqs.into() })
        };
        for line in [
            Line::First { logs: 4, cluster: ClusterSecret::new([0xa7; 32]) },
            Line::Log(3),
            Line::Row { table: Table::Other, key: b"\x00\"".to_vec(), value: vec![] },
            Line::Timeline { timeline, last: 0 },
            Line::Entry { seq: 1, message },
            Line::Cursor { reader: ReaderId(9), upto: u64::MAX },
            once(&[]),
            once(&[3, u64::MAX]),
            Line::End(sums),
        ] {
            let text = line.write();
            assert_eq!(Line::read(&text), Ok(line.clone()), "{text}");
            let spaced = text.replace(':', " : ").replace(',', " , ");
            assert_eq!(Line::read(&spaced), Ok(line), "{spaced}");
            for cut in 0..text.len() {
                assert!(Line::read(&text[..cut]).is_err(), "{}", &text[..cut]);
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, why) in [
            ("", "flat JSON"),
            ("{}", "flat JSON"),
            (r#"{"log":-1}"#, "flat JSON"),
            (r#"{"log":"1"}"#, "\"log\" is not a number"),
            (r#"{"other":1}"#, "\"other\" begins no line"),
            (r#"{"holdline":"export","version":1}"#, "version 1 is unknown"),
            (r#"{"holdline":"export","version":3,"cluster":"0"}"#, "64 hex digits"),
            (r#"{"once":"00","seqs":""}"#, "32 hex digits"),
            (r#"{"row":99,"key":"","value":""}"#, "no table 99"),
            (r#"{"row":1,"key":"*","value":""}"#, "\"key\": "),
            (r#"{"row":1,"key":"","value":"\n"}"#, "flat JSON"),
            (r#"{"timeline":"00000000000000000000000000000000","last":1}"#, "not the id"),
            (r#"{"seq":1,"id":1,"at_s":4294967296}"#, "beyond 32 bits"),
            (r#"{"reader":1}"#, "\"upto\" is missing"),
        ] {
            let told = Line::read(line).expect_err(line);
            assert!(told.contains(why), "{line}: {told}");
        }
    }
}
