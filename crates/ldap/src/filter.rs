//! Search filters (RFC 4515): parsed from the configuration, encoded for requests.
//!
//! The text is parsed once; placeholders become octets of values when a request is encoded. A name
//! with parentheses, asterisks or backslashes is therefore a value like any other.
//! ```text
//! filter = "(" ( "&" filter* | "|" filter* | "!" filter | item ) ")"
//! item   = attribute ("=" | "~=" | ">=" | "<=") value | attribute "=*" | substrings | extensible
//! ```

use crate::ber::{put, put_with, tag};
use crate::template::{Template, Values};

/// Greatest depth of a filter.
const DEPTH_MAX: usize = 16;

/// Most bytes of a filter.
pub(crate) const FILTER_BYTES_MAX: usize = 4_096;

/// Numbers of the choices (RFC 4511 4.5.1.7).
const EQUAL: u8 = 3;
const GREATER: u8 = 5;
const LESS: u8 = 6;
const APPROXIMATE: u8 = 8;

/// A filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    /// One of the four comparisons: its number (RFC 4511 4.5.1.7), attribute, value.
    Compare(u8, Box<str>, Template),
    Present(Box<str>),
    /// Attribute; beginning, middle parts, end. An empty beginning or end is absent.
    Substrings(Box<str>, Template, Vec<Template>, Template),
    /// Attribute (may be empty), whether `:dn` is set, rule, value.
    Extensible(Box<str>, bool, Box<str>, Template),
}

impl Filter {
    pub(crate) fn parse(text: &str) -> Result<Filter, String> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(format!("a filter has at most {FILTER_BYTES_MAX} bytes"));
        }
        let mut reader = Reader { rest: text.as_bytes(), length: text.len() };
        let filter = reader.filter(0)?;
        match reader.rest.is_empty() {
            true => Ok(filter),
            false => Err(reader.wrong("nothing may follow the filter's last parenthesis")),
        }
    }

    /// Whether `has` is true for any value of the filter.
    pub(crate) fn any(&self, has: &impl Fn(&Template) -> bool) -> bool {
        match self {
            Filter::And(all) | Filter::Or(all) => all.iter().any(|it| it.any(has)),
            Filter::Not(one) => one.any(has),
            Filter::Compare(_, _, value) | Filter::Extensible(_, _, _, value) => has(value),
            Filter::Present(_) => false,
            Filter::Substrings(_, begin, middle, end) => {
                has(begin) || has(end) || middle.iter().any(has)
            }
        }
    }

    /// Appends the encoded filter, with its placeholders replaced by `values`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, values: Values<'_>) {
        let each =
            |out: &mut Vec<u8>, all: &[Filter]| all.iter().for_each(|it| it.put(out, values));
        match self {
            Filter::And(all) => put_with(out, tag::values(0), |out| each(out, all)),
            Filter::Or(all) => put_with(out, tag::values(1), |out| each(out, all)),
            Filter::Not(one) => put_with(out, tag::values(2), |out| one.put(out, values)),
            Filter::Compare(number, attribute, value) => {
                put_with(out, tag::values(*number), |out| {
                    put(out, tag::OCTET_STRING, attribute.as_bytes());
                    put(out, tag::OCTET_STRING, &value.fill(values));
                });
            }
            Filter::Present(attribute) => put(out, tag::string(7), attribute.as_bytes()),
            Filter::Substrings(attribute, begin, middle, end) => {
                let part = |out: &mut Vec<u8>, number, value: &Template| {
                    if !value.is_empty() {
                        put(out, tag::string(number), &value.fill(values));
                    }
                };
                put_with(out, tag::values(4), |out| {
                    put(out, tag::OCTET_STRING, attribute.as_bytes());
                    put_with(out, tag::SEQUENCE, |out| {
                        part(out, 0, begin);
                        middle.iter().for_each(|value| part(out, 1, value));
                        part(out, 2, end);
                    });
                });
            }
            Filter::Extensible(attribute, with_dn, rule, value) => {
                put_with(out, tag::values(9), |out| {
                    for (number, text) in [(1, rule), (2, attribute)] {
                        if !text.is_empty() {
                            put(out, tag::string(number), text.as_bytes());
                        }
                    }
                    put(out, tag::string(3), &value.fill(values));
                    if *with_dn {
                        put(out, tag::string(4), &[0xff]);
                    }
                });
            }
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl Reader<'_> {
    fn wrong(&self, words: &str) -> String {
        format!("character {}: {words}", self.length - self.rest.len() + 1)
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.rest.first() == Some(&byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        match self.take(byte) {
            true => Ok(()),
            false => Err(self.wrong(&format!("{:?} is missing", char::from(byte)))),
        }
    }

    fn filter(&mut self, depth: usize) -> Result<Filter, String> {
        if depth == DEPTH_MAX {
            return Err(self.wrong(&format!("more than {DEPTH_MAX} nested parentheses")));
        }
        self.expect(b'(')?;
        let filter = if self.take(b'&') {
            Filter::And(self.filters(depth)?)
        } else if self.take(b'|') {
            Filter::Or(self.filters(depth)?)
        } else if self.take(b'!') {
            Filter::Not(Box::new(self.filter(depth + 1)?))
        } else {
            self.item()?
        };
        self.expect(b')')?;
        Ok(filter)
    }

    fn filters(&mut self, depth: usize) -> Result<Vec<Filter>, String> {
        let mut all = Vec::new();
        while self.rest.first() == Some(&b'(') {
            all.push(self.filter(depth + 1)?);
        }
        match all.is_empty() {
            true => Err(self.wrong("& and | need a filter")),
            false => Ok(all),
        }
    }

    fn item(&mut self) -> Result<Filter, String> {
        let attribute = self.word();
        if self.rest.first() == Some(&b':') {
            return self.extensible(attribute);
        }
        if attribute.is_empty() {
            return Err(self.wrong("the name of an attribute is missing"));
        }
        for (sign, number) in [(b'~', APPROXIMATE), (b'>', GREATER), (b'<', LESS)] {
            if self.take(sign) {
                self.expect(b'=')?;
                let value = self.value()?;
                return Ok(Filter::Compare(number, attribute, value));
            }
        }
        self.expect(b'=')?;
        let mut parts = vec![self.value()?];
        while self.take(b'*') {
            parts.push(self.value()?);
        }
        let end = parts.pop().unwrap_or_default();
        if parts.is_empty() {
            return Ok(Filter::Compare(EQUAL, attribute, end));
        }
        let begin = parts.remove(0);
        if parts.iter().any(Template::is_empty) {
            return Err(self.wrong("** has nothing between its asterisks"));
        }
        match begin.is_empty() && parts.is_empty() && end.is_empty() {
            true => Ok(Filter::Present(attribute)),
            false => Ok(Filter::Substrings(attribute, begin, parts, end)),
        }
    }

    /// `[attribute][:dn][:rule]:=value`
    fn extensible(&mut self, attribute: Box<str>) -> Result<Filter, String> {
        let (mut with_dn, mut rule): (bool, Box<str>) = (false, "".into());
        while self.take(b':') {
            if self.take(b'=') {
                if attribute.is_empty() && rule.is_empty() {
                    return Err(self.wrong(":= needs an attribute or a rule"));
                }
                return Ok(Filter::Extensible(attribute, with_dn, rule, self.value()?));
            }
            match &*self.word() {
                "dn" if !with_dn && rule.is_empty() => with_dn = true,
                word if !word.is_empty() && rule.is_empty() => rule = word.into(),
                _ => break,
            }
        }
        Err(self.wrong(":= is missing"))
    }

    /// Letters, digits, and the separators in names, numbers and options.
    fn word(&mut self) -> Box<str> {
        let is_of = |b: &u8| b.is_ascii_alphanumeric() || b"-._;".contains(b);
        let length = self.rest.iter().take_while(|b| is_of(b)).count();
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        String::from_utf8_lossy(word).into()
    }

    /// A value up to `*`, `)` or the end.
    fn value(&mut self) -> Result<Template, String> {
        let mut value = Template::default();
        while let Some((&byte, rest)) = self.rest.split_first() {
            match byte {
                b'*' | b')' => break,
                b'(' | 0 => return Err(self.wrong("in a value ( is \\28 and NUL is \\00")),
                b'\\' => {
                    let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
                    let digits = digits.filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
                    let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
                    let byte = byte.ok_or_else(|| self.wrong("\\ needs two hexadecimal digits"))?;
                    value.push(&[byte]);
                    self.rest = &rest[2..];
                }
                b'%' => {
                    let placed = value.push_placeholder(rest.first().copied());
                    placed.map_err(|words| self.wrong(&words))?;
                    self.rest = &rest[1..];
                }
                byte => {
                    value.push(&[byte]);
                    self.rest = rest;
                }
            }
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap_parser::FromBer;
    use ldap_parser::filter::{Filter as Parsed, Substring};

    fn sent(text: &str, user: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let filter = Filter::parse(text).expect(text);
        filter.put(&mut out, Values { user, dn: Some("cn=a,dc=b") });
        out
    }

    #[test]
    fn filters_are_sent_as_another_decoder_reads_them() {
        let bytes = sent("(&(|(uid=%u)(mail=%u@corp))(!(x>=5))(y<=\\2a)(z~=%%)(w=*))", "jürgen");
        let (rest, Parsed::And(all)) = Parsed::from_ber(&bytes).expect("a filter") else {
            panic!("it is an and")
        };
        assert!(rest.is_empty());
        let [
            Parsed::Or(names),
            Parsed::Not(not),
            Parsed::LessOrEqual(y),
            Parsed::ApproxMatch(z),
            w,
        ] = &all[..]
        else {
            panic!("{all:?}")
        };
        let [Parsed::EqualityMatch(uid), Parsed::EqualityMatch(mail)] = &names[..] else {
            panic!("{names:?}")
        };
        assert_eq!((&*uid.attribute_desc.0, &*uid.assertion_value), ("uid", "jürgen".as_bytes()));
        assert_eq!(&*mail.assertion_value, "jürgen@corp".as_bytes());
        assert!(matches!(&**not, Parsed::GreaterOrEqual(x) if &*x.assertion_value == b"5"));
        assert_eq!((&*y.assertion_value, &*z.assertion_value), (&b"*"[..], &b"%"[..]));
        assert!(matches!(w, Parsed::Present(name) if &*name.0 == "w"));
        let bytes = sent("(cn=a*b*%u*)", "x");
        let Parsed::Substrings(it) = Parsed::from_ber(&bytes).expect("a filter").1 else {
            panic!("substrings")
        };
        let [Substring::Initial(a), Substring::Any(b), Substring::Any(x)] = &it.substrings[..]
        else {
            panic!("{it:?}")
        };
        assert_eq!([&*a.0, &*b.0, &*x.0], [&b"a"[..], b"b", b"x"]);
        let bytes = sent("(memberOf:1.2.840.113556.1.4.1941:=%d)", "x");
        let Parsed::ExtensibleMatch(it) = Parsed::from_ber(&bytes).expect("a filter").1 else {
            panic!("extensible")
        };
        assert_eq!(it.matching_rule.expect("a rule").0, "1.2.840.113556.1.4.1941");
        assert_eq!(it.rule_type.expect("an attribute").0, "memberOf");
        assert_eq!(&*it.assertion_value.0, b"cn=a,dc=b");
        assert_eq!(sent("(ou:dn:=x)", "")[2..], *b"\x82\x02ou\x83\x01x\x84\x01\xff");
    }

    #[test]
    fn no_name_changes_a_filter() {
        for user in ["*", "*)(uid=*", "a)(|(uid=*", "\\2a", "(", "\0", "%d", "x)(&"] {
            let bytes = sent("(&(uid=%u)(objectClass=person))", user);
            let (rest, Parsed::And(all)) = Parsed::from_ber(&bytes).expect("a filter") else {
                panic!("it is an and")
            };
            assert!(rest.is_empty() && all.len() == 2);
            let Parsed::EqualityMatch(uid) = &all[0] else { panic!("{all:?}") };
            assert_eq!(&*uid.assertion_value, user.as_bytes());
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_place() {
        for (text, place) in [
            ("", 1),
            ("uid=%u", 1),
            ("(uid=%u", 8),
            ("(uid=%u))", 9),
            ("(=x)", 2),
            ("(&)", 3),
            ("(!)", 3),
            ("(uid)", 5),
            ("(uid=%x)", 6),
            ("(uid=\\2)", 6),
            ("(uid=\\+1)", 6),
            ("(uid=a(b)", 7),
            ("(uid=a**b)", 10),
            ("(:=x)", 4),
            ("(a:b:c:=x)", 7),
            ("(a>b)", 4),
        ] {
            let why = Filter::parse(text).expect_err(text);
            assert!(why.starts_with(&format!("character {place}: ")), "{text}: {why}");
        }
        let deep = format!("{}(a=b){}", "(!".repeat(16), ")".repeat(16));
        assert!(Filter::parse(&deep).is_err() && Filter::parse(&deep[2..deep.len() - 1]).is_ok());
        assert!(Filter::parse(&format!("(a={})", "b".repeat(FILTER_BYTES_MAX))).is_err());
    }
}
