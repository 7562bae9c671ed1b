//! Encoding of requests and decoding of responses.
//!
//! A message is read with its exact length: plaintext bytes that follow a response to StartTLS are
//! never taken for responses within the encrypted connection.

use crate::ber::{put, put_number, put_with, tag};
use crate::fault::{LdapFault, LdapFaultKind};
use crate::filter::Filter;
use crate::template::Values;
use ldap_parser::FromBer;
use ldap_parser::ldap::{LdapMessage, LdapResult, ProtocolOp, ResultCode};
use std::io::{self, Read};

/// Most bytes of a response.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

/// Entries that a search asks for: two suffice to detect that there are several.
pub(crate) const ENTRIES_MAX: u32 = 2;

/// Most bytes of a server's explanation that are logged.
const SHOWN_BYTES_MAX: usize = 200;

/// The name of StartTLS (RFC 4511 4.14.1).
const START_TLS: &str = "1.3.6.1.4.1.1466.20037";

/// Scope of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// The entry itself.
    Base = 0,
    /// The entry and everything below.
    Subtree = 2,
}

/// A search request.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) base: &'a str,
    pub(crate) scope: Scope,
    pub(crate) filter: &'a Filter,
    pub(crate) values: Values<'a>,
    /// The attribute whose values are returned; `None`: none.
    pub(crate) attribute: Option<&'a str>,
    /// Time limit for the server, seconds.
    pub(crate) seconds: u32,
}

/// The result of an operation: its code and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: u32,
    /// The code's name, with the server's explanation.
    pub(crate) words: String,
}

/// An entry that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) dn: String,
    /// Values of the requested attribute.
    pub(crate) names: Vec<Vec<u8>>,
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    Bound(Outcome),
    Entry(Entry),
    /// The entries are on another server; references are not followed.
    Reference,
    Found(Outcome),
    Extended(Outcome),
}

/// Encodes a request to bind by name and password (RFC 4513 5.1.3).
pub(crate) fn bind(id: u32, name: &str, password: &[u8]) -> Vec<u8> {
    message(id, |out| {
        put_with(out, tag::application(0), |out| {
            put_number(out, tag::INTEGER, 3);
            put(out, tag::OCTET_STRING, name.as_bytes());
            put(out, tag::string(0), password);
        });
    })
}

/// Encodes a request for StartTLS.
pub(crate) fn start_tls(id: u32) -> Vec<u8> {
    message(id, |out| {
        put_with(out, tag::application(23), |out| put(out, tag::string(0), START_TLS.as_bytes()));
    })
}

/// Encodes a search request.
pub(crate) fn search(id: u32, search: &Search<'_>) -> Vec<u8> {
    // "1.1" requests no attributes (RFC 4511 4.5.1.8).
    let attribute = search.attribute.unwrap_or("1.1");
    message(id, |out| {
        put_with(out, tag::application(3), |out| {
            put(out, tag::OCTET_STRING, search.base.as_bytes());
            put_number(out, tag::ENUMERATED, search.scope as u32);
            // Aliases are not followed.
            put_number(out, tag::ENUMERATED, 0);
            put_number(out, tag::INTEGER, ENTRIES_MAX);
            put_number(out, tag::INTEGER, search.seconds);
            put(out, tag::BOOLEAN, &[0]);
            search.filter.put(out, search.values);
            put_with(out, tag::SEQUENCE, |out| put(out, tag::OCTET_STRING, attribute.as_bytes()));
        });
    })
}

fn message(id: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put_with(&mut out, tag::SEQUENCE, |out| {
        put_number(out, tag::INTEGER, id);
        fill(out);
    });
    out
}

/// Reads one message. `InvalidData` if it is not LDAP.
pub(crate) fn read(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let nonsense = |words: &'static str| io::Error::new(io::ErrorKind::InvalidData, words);
    let mut message = vec![0; 2];
    stream.read_exact(&mut message)?;
    if message[0] != tag::SEQUENCE {
        return Err(nonsense("not an LDAP message"));
    }
    let length = match usize::from(message[1]) {
        short @ 0..0x80 => short,
        long => {
            let count = long - 0x80;
            if !(1..=4).contains(&count) {
                return Err(nonsense("a message without a definite length"));
            }
            let mut digits = [0; 4];
            stream.read_exact(&mut digits[..count])?;
            message.extend_from_slice(&digits[..count]);
            digits[..count].iter().fold(0, |length, &byte| (length << 8) | usize::from(byte))
        }
    };
    if length > RESPONSE_BYTES_MAX {
        return Err(nonsense("a message of more than 262144 bytes"));
    }
    let begin = message.len();
    message.resize(begin + length, 0);
    stream.read_exact(&mut message[begin..])?;
    Ok(message)
}

/// Decodes the response in a message, which must answer the request of this number.
pub(crate) fn parse(bytes: &[u8], id: u32) -> Result<Response, LdapFault> {
    let nonsense = |words: &str| LdapFault::new(LdapFaultKind::Nonsense, words);
    let Ok((rest, message)) = LdapMessage::from_ber(bytes) else {
        return Err(nonsense("a message that cannot be decoded"));
    };
    if message.message_id.0 == 0 {
        // The only unsolicited notice is the notice of disconnection (RFC 4511 4.4.1).
        let words = "it announced that it ends the connection";
        return Err(LdapFault::new(LdapFaultKind::Unreachable, words));
    }
    if !rest.is_empty() || message.message_id.0 != id {
        return Err(nonsense("an answer to another request"));
    }
    match message.protocol_op {
        ProtocolOp::BindResponse(response) => Ok(Response::Bound(outcome(&response.result))),
        ProtocolOp::SearchResultDone(result) => Ok(Response::Found(outcome(&result))),
        ProtocolOp::ExtendedResponse(response) => Ok(Response::Extended(outcome(&response.result))),
        ProtocolOp::SearchResultReference(_) => Ok(Response::Reference),
        ProtocolOp::SearchResultEntry(entry) => {
            let values = entry.attributes.into_iter().flat_map(|it| it.attr_vals);
            Ok(Response::Entry(Entry {
                dn: entry.object_name.0.into_owned(),
                names: values.map(|value| value.0.into_owned()).collect(),
            }))
        }
        _ => Err(nonsense("a message that is no response")),
    }
}

fn outcome(result: &LdapResult<'_>) -> Outcome {
    let code = result.result_code;
    let name = match ResultCode(code.0) {
        ResultCode(code @ (9 | 22..=31 | 35 | 37..=47 | 81..)) => format!("result {code}"),
        code => format!("{code:?}"),
    };
    let text = result.diagnostic_message.0.trim_end_matches('\0');
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let words = match &text[..end] {
        "" => name,
        text => format!("{name}: {}", base::text::escaped(text)),
    };
    Outcome { code: code.0, words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use ldap_parser::ldap::{AuthenticationChoice, DerefAliases, SearchScope};

    fn parsed(bytes: &[u8]) -> (u32, ProtocolOp<'_>) {
        let (rest, message) = LdapMessage::from_ber(bytes).expect("a message");
        assert!(rest.is_empty());
        (message.message_id.0, message.protocol_op)
    }

    #[test]
    fn requests_are_sent_as_another_decoder_reads_them() {
        let bytes = bind(200, "cn=a", b"pass\xff");
        let (id, ProtocolOp::BindRequest(it)) = parsed(&bytes) else { panic!("a bind") };
        assert_eq!((id, it.version, &*it.name.0), (200, 3, "cn=a"));
        let AuthenticationChoice::Simple(password) = it.authentication else { panic!("simple") };
        assert_eq!(&*password, b"pass\xff");
        let bytes = start_tls(1);
        let (1, ProtocolOp::ExtendedRequest(it)) = parsed(&bytes) else { panic!("extended") };
        assert_eq!((&*it.request_name.0, it.request_value), (START_TLS, None));
        let filter = Filter::parse("(uid=%u)").expect("right");
        let bytes = search(
            7,
            &Search {
                base: "dc=corp",
                scope: Scope::Subtree,
                filter: &filter,
                values: Values { user: "ann", dn: None },
                attribute: None,
                seconds: 5,
            },
        );
        let (7, ProtocolOp::SearchRequest(it)) = parsed(&bytes) else { panic!("a search") };
        assert_eq!((&*it.base_object.0, it.scope), ("dc=corp", SearchScope::WholeSubtree));
        assert_eq!((it.deref_aliases, it.size_limit), (DerefAliases::NeverDerefAliases, 2));
        assert_eq!((it.time_limit, it.types_only, &*it.attributes[0].0), (5, false, "1.1"));
    }

    /// An entry of Active Directory, which writes every length with four bytes.
    const ENTRY: &[u8] = b"\x30\x84\x00\x00\x00\x31\x02\x01\x02\x64\x84\x00\x00\x00\x28\x04\x04\
        cn=a\x30\x84\x00\x00\x00\x1c\x30\x84\x00\x00\x00\x16\x04\x03uid\x31\x84\x00\x00\x00\x0b\
        \x04\x03ann\x04\x04anna";

    /// A refused bind.
    const REFUSED: &[u8] = b"\x30\x10\x02\x01\x01\x61\x0b\x0a\x01\x31\x04\x00\x04\x04no\n\0";

    #[test]
    fn responses_are_read() {
        let whole = read(&mut &[ENTRY, b"more"].concat()[..]).expect("a message");
        assert_eq!(whole, ENTRY);
        let names = vec![b"ann".to_vec(), b"anna".to_vec()];
        let entry = Entry { dn: "cn=a".into(), names };
        assert_eq!(parse(&whole, 2), Ok(Response::Entry(entry)));
        assert_eq!(parse(&whole, 3).expect_err("another").kind, LdapFaultKind::Nonsense);
        let outcome = Outcome { code: 49, words: "InvalidCredentials: no\\u000a".into() };
        assert_eq!(parse(REFUSED, 1), Ok(Response::Bound(outcome)));
        let farewell = b"\x30\x0c\x02\x01\x00\x78\x07\x0a\x01\x34\x04\x00\x04\x00";
        assert_eq!(parse(farewell, 1).expect_err("a notice").kind, LdapFaultKind::Unreachable);
        let asks = bind(1, "", b"x");
        assert_eq!(parse(&asks, 1).expect_err("a request").kind, LdapFaultKind::Nonsense);
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_held() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request"[..],
            b"\x30\x80\x02\x01\x01",
            b"\x30\x85\x00\x00\x00\x00\x05",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x83\x04\x00\x01",
        ] {
            let why = read(&mut &bytes[..]).expect_err("not LDAP");
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        let short = read(&mut &ENTRY[..9]).expect_err("half of it");
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn whatever_comes_nothing_panics() {
        for seed in 0..4_000 {
            let mut rng = Prng::new(seed);
            let mut bytes = if rng.below(2) == 0 { ENTRY.to_vec() } else { REFUSED.to_vec() };
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64 + 1) as usize;
                match rng.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, rng.draw() as u8),
                    _ if at < bytes.len() => bytes[at] = rng.draw() as u8,
                    _ => {}
                }
            }
            if let Ok(message) = read(&mut &bytes[..]) {
                let _ = parse(&message, 1);
            }
            let _ = parse(&bytes, 2);
        }
    }

    #[test]
    fn no_depth_of_values_overflows() {
        let prefixes = [
            &b""[..],
            b"\x02\x01\x01",
            b"\x02\x01\x01\x64\x80",
            b"\x02\x01\x01\x65\x80",
            b"\x02\x01\x01\x65\x07\x0a\x01\x00\x04\x00\x04\x00\xa0\x80",
        ];
        for opener in [&b"\x30\x80"[..], b"\x24\x80", b"\xa0\x80", b"\x30\x82\xff\xff"] {
            for prefix in prefixes {
                let mut inner = prefix.to_vec();
                while inner.len() < RESPONSE_BYTES_MAX {
                    inner.extend_from_slice(opener);
                }
                let mut out = Vec::new();
                put(&mut out, tag::SEQUENCE, &inner);
                let _ = parse(&out, 1);
            }
        }
    }
}
