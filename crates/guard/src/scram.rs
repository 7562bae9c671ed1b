//! SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677): a password is proved and not shown.
//!
//! ```text
//! client-first ─► server-first ─► client-final ─► server-final, or a refusal
//! ```
//! What must be remembered between the two answers of the client are the dialogue's bytes; the
//! server keeps them and shows them to nobody. Whether an exchange is bound to its connection
//! (`SCRAM-SHA-256-PLUS`, RFC 5802 6), and by what, is told to it. It knows no users: keys are
//! given to it. Names and passwords are taken as they are (of RFC 5802's SASLprep, only that ASCII
//! stays as it is).

use base64::prelude::{BASE64_STANDARD, Engine};
use hmac::{Hmac, KeyInit, Mac};
use ring::pbkdf2;
use sha2::{Digest, Sha256};
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;

/// The method's name (MQTT5 4.12).
pub const METHOD: &str = "SCRAM-SHA-256";

/// The name of the same bound to its connection.
pub const METHOD_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Longest message of a client, bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Fewest rounds that a client need accept (RFC 7677 4).
pub const ITERATIONS_MIN: u32 = 4_096;

/// Most rounds of anything that is computed for a password.
pub const ITERATIONS_MAX: u32 = 10_000_000;

/// Keys derived from a password (RFC 5802 3).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    pub(crate) iterations: u32,
    pub(crate) salt: Box<[u8]>,
    stored: [u8; 32],
    server: [u8; 32],
}

/// The first message of a client, taken apart.
#[derive(PartialEq, Eq, Debug)]
pub struct ClientFirst<'a> {
    /// The user it names, unescaped.
    pub user: String,
    /// What it is bound by.
    pub binding: Binding<'a>,
    /// `n,,`, `y,,` or `p=NAME,,`, with what it says of another identity.
    header: &'a str,
    /// All behind that.
    bare: &'a str,
    nonce: &'a str,
}

/// What a client says of channel binding (RFC 5802 7, `gs2-cbind-flag`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binding<'a> {
    /// `n`: it knows none.
    Unknown,
    /// `y`: it knows some, and believes that the server does not.
    NotOffered,
    /// `p=`: by the one of this name.
    By(&'a str),
}

impl<'a> Binding<'a> {
    fn parse(flag: &'a str) -> Option<Binding<'a>> {
        let is_name = |name: &&str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
            !name.is_empty() && name.bytes().all(allowed)
        };
        match flag {
            "n" => Some(Binding::Unknown),
            "y" => Some(Binding::NotOffered),
            flag => flag.strip_prefix("p=").filter(is_name).map(Binding::By),
        }
    }
}

/// Reason why a SCRAM exchange ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScramFault {
    /// A message is not what it should be, or asks for what is not offered.
    Malformed,
    /// The proof is wrong.
    Wrong,
}

impl ScramKeys {
    /// Those of a password. Slow.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> ScramKeys {
        let rounds = NonZeroU32::new(iterations.max(1)).expect("one at least");
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password, &mut salted);
        let stored = Sha256::digest(mac(&salted, &[b"Client Key"])).into();
        let server = mac(&salted, &[b"Server Key"]);
        ScramKeys { iterations: rounds.get(), salt: salt.into(), stored, server }
    }

    /// Whether they are this password's. Slow.
    pub fn is_of(&self, password: &[u8]) -> bool {
        let other = ScramKeys::derive(password, &self.salt, self.iterations);
        bool::from(other.stored.ct_eq(&self.stored))
    }

    /// `ROUNDS$SALT$STORED$SERVER`, in base64.
    pub fn text(&self) -> String {
        let [salt, stored, server] =
            [&*self.salt, &self.stored, &self.server].map(|bytes| BASE64_STANDARD.encode(bytes));
        format!("{}${salt}${stored}${server}", self.iterations)
    }

    /// Those that a text says.
    pub fn parse(text: &str) -> Option<ScramKeys> {
        let mut words = text.split('$');
        let iterations = words.next()?.parse().ok()?;
        let mut bytes = || BASE64_STANDARD.decode(words.next()?).ok();
        let (salt, stored, server) = (bytes()?, bytes()?, bytes()?);
        let is_right = (1..=ITERATIONS_MAX).contains(&iterations) && words.next().is_none();
        let (stored, server) = (stored.try_into().ok()?, server.try_into().ok()?);
        is_right.then(|| ScramKeys { iterations, salt: salt.into(), stored, server })
    }
}

impl std::fmt::Debug for ScramKeys {
    /// Without what they are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScramKeys {{ iterations: {}, .. }}", self.iterations)
    }
}

impl<'a> ClientFirst<'a> {
    /// Reads the client's first message (RFC 5802 7).
    pub fn read(message: &'a [u8]) -> Result<ClientFirst<'a>, ScramFault> {
        ClientFirst::parse(message).ok_or(ScramFault::Malformed)
    }

    fn parse(message: &'a [u8]) -> Option<ClientFirst<'a>> {
        let message = text(message)?;
        let (flag, rest) = message.split_once(',')?;
        let (identity, bare) = rest.split_once(',')?;
        let binding = Binding::parse(flag)?;
        let mut fields = bare.split(',');
        let user = name(fields.next()?.strip_prefix("n=")?)?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        // Somebody may act for nobody but itself.
        let is_self = identity.is_empty()
            || identity.strip_prefix("a=").and_then(name).is_some_and(|other| other == user);
        let header = &message[..message.len() - bare.len()];
        (is_self && is_printable && !nonce.is_empty() && !user.is_empty()).then_some(ClientFirst {
            user,
            binding,
            header,
            bare,
            nonce,
        })
    }

    /// The answer, and what to remember. `salt` and `iterations` are those of the user's keys;
    /// `nonce` is new, printable and without a comma.
    pub fn answer(&self, salt: &[u8], iterations: u32, nonce: &str) -> (Vec<u8>, Vec<u8>) {
        let salt = BASE64_STANDARD.encode(salt);
        let answer = format!("r={}{nonce},s={salt},i={iterations}", self.nonce);
        let dialogue = format!("{}\n{}\n{answer}", self.header, self.bare);
        (answer.into_bytes(), dialogue.into_bytes())
    }
}

/// The user of an exchange that was begun.
pub fn user_of(dialogue: &[u8]) -> Option<String> {
    let begun = Begun::read(dialogue)?;
    name(begun.bare.strip_prefix("n=")?.split(',').next()?)
}

/// By what an exchange that was begun is bound.
pub fn binding_of(dialogue: &[u8]) -> Option<Binding<'_>> {
    Binding::parse(Begun::read(dialogue)?.header.split(',').next()?)
}

/// Reads the client's last message; the server's last one, if the proof is right. `bound` is what
/// the exchange is bound to, as this side knows it; empty if it is not.
pub fn finish(
    keys: &ScramKeys,
    dialogue: &[u8],
    bound: &[u8],
    message: &[u8],
) -> Result<Vec<u8>, ScramFault> {
    let last = Begun::read(dialogue).and_then(|begun| begun.last(bound, message));
    let (signed, proof) = last.ok_or(ScramFault::Malformed)?;
    let signature = mac(&keys.stored, &[signed.as_bytes()]);
    let client_key: Vec<u8> = proof.iter().zip(signature).map(|(one, other)| one ^ other).collect();
    if !bool::from(Sha256::digest(&client_key).ct_eq(&keys.stored)) {
        return Err(ScramFault::Wrong);
    }
    let verifier = BASE64_STANDARD.encode(mac(&keys.server, &[signed.as_bytes()]));
    Ok(format!("v={verifier}").into_bytes())
}

/// What was remembered.
struct Begun<'a> {
    header: &'a str,
    bare: &'a str,
    answer: &'a str,
}

impl<'a> Begun<'a> {
    fn read(dialogue: &'a [u8]) -> Option<Begun<'a>> {
        let mut lines = std::str::from_utf8(dialogue).ok()?.split('\n');
        Some(Begun { header: lines.next()?, bare: lines.next()?, answer: lines.next()? })
    }

    /// What both sides sign, and the proof.
    fn last(&self, bound: &[u8], message: &[u8]) -> Option<(String, [u8; 32])> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut fields = without_proof.split(',');
        let binding = fields.next()?.strip_prefix("c=")?;
        let nonce = fields.next()?;
        let ours = self.answer.split(',').next()?;
        let expected = [self.header.as_bytes(), bound].concat();
        let is_bound = BASE64_STANDARD.decode(binding).ok()? == expected;
        let proof = BASE64_STANDARD.decode(proof).ok()?.try_into().ok()?;
        let signed = format!("{},{},{without_proof}", self.bare, self.answer);
        (is_bound && nonce == ours).then_some((signed, proof))
    }
}

/// A message is text, of a bounded length, on one line.
fn text(message: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(message).ok()?;
    (text.len() <= MESSAGE_BYTES_MAX && !text.contains(['\n', '\0'])).then_some(text)
}

/// A name, unescaped: `=2C` is a comma and `=3D` an equals sign (RFC 5802 5.1).
fn name(escaped: &str) -> Option<String> {
    let mut pieces = escaped.split('=');
    let mut name = String::from(pieces.next()?);
    for piece in pieces {
        let (sign, rest) = match piece.split_at_checked(2)? {
            ("2C", rest) => (',', rest),
            ("3D", rest) => ('=', rest),
            _ => return None,
        };
        name.push(sign);
        name += rest;
    }
    Some(name)
}

pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7677 3.
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const ANSWER: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const VERIFIER: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn keys() -> ScramKeys {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        ScramKeys::derive(b"pencil", &salt, 4_096)
    }

    #[test]
    fn the_exchange_of_the_standard_is_spoken() {
        let (keys, first) = (keys(), ClientFirst::read(FIRST).expect("right"));
        assert_eq!(first.user, "user");
        let (answer, dialogue) = first.answer(&keys.salt, keys.iterations, NONCE);
        assert_eq!(answer, ANSWER);
        assert_eq!(user_of(&dialogue).as_deref(), Some("user"));
        assert_eq!(finish(&keys, &dialogue, b"", LAST).as_deref(), Ok(VERIFIER));
        assert!(keys.is_of(b"pencil") && !keys.is_of(b"pencils"));
    }

    #[test]
    fn anything_that_was_changed_is_refused() {
        let (keys, first) = (keys(), ClientFirst::read(FIRST).expect("right"));
        let (_, dialogue) = first.answer(&keys.salt, keys.iterations, NONCE);
        for at in 0..LAST.len() {
            for bit in [1, 2, 32] {
                let mut last = LAST.to_vec();
                last[at] ^= bit;
                // The last character of the proof has bits that mean nothing; they must be zero.
                assert!(finish(&keys, &dialogue, b"", &last).is_err(), "{at} {bit}");
            }
            assert!(finish(&keys, &dialogue, b"", &LAST[..at]).is_err());
        }
        let other = ScramKeys::derive(b"other", &keys.salt, 4_096);
        assert_eq!(finish(&other, &dialogue, b"", LAST), Err(ScramFault::Wrong));
        assert_eq!(finish(&keys, b"", b"", LAST), Err(ScramFault::Malformed));
    }

    #[test]
    fn a_bound_exchange_is_right_on_its_own_connection_alone() {
        let keys = keys();
        let first = b"p=tls-exporter,,n=user,r=abc";
        let first = ClientFirst::read(first).expect("right");
        assert_eq!(first.binding, Binding::By("tls-exporter"));
        let (answer, dialogue) = first.answer(&keys.salt, keys.iterations, "def");
        assert_eq!(binding_of(&dialogue), Some(Binding::By("tls-exporter")));
        let answer = String::from_utf8(answer).expect("text");
        let last = |bound: &[u8]| {
            let header = [b"p=tls-exporter,,", bound].concat();
            let without_proof = format!("c={},r=abcdef", BASE64_STANDARD.encode(header));
            let signed = format!("n=user,r=abc,{answer},{without_proof}");
            let rounds = NonZeroU32::new(4_096).expect("some");
            let mut salted = [0; 32];
            let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
            pbkdf2::derive(algorithm, rounds, &keys.salt, b"pencil", &mut salted);
            let key = mac(&salted, &[b"Client Key"]);
            let signature = mac(&Sha256::digest(key), &[signed.as_bytes()]);
            let proof: Vec<u8> = key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
            format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).into_bytes()
        };
        assert!(finish(&keys, &dialogue, b"mine", &last(b"mine")).is_ok());
        for (ours, theirs) in [(&b"mine"[..], &b"other"[..]), (b"mine", b""), (b"", b"mine")] {
            let result = finish(&keys, &dialogue, ours, &last(theirs));
            assert_eq!(result, Err(ScramFault::Malformed));
        }
    }

    #[test]
    fn first_messages_are_read_strictly() {
        let read = |message: &str| ClientFirst::read(message.as_bytes()).map(|first| first.user);
        assert_eq!(read("y,,n=a=2Cb=3Dc,r=x").as_deref(), Ok("a,b=c"));
        assert_eq!(read("n,a=ann,n=ann,r=x").as_deref(), Ok("ann"));
        assert_eq!(read("n,,n=ann,r=x,ext=1").as_deref(), Ok("ann"));
        let wrong = [
            "p=,,n=ann,r=x",
            "p=a b,,n=ann,r=x",
            "p,,n=ann,r=x",
            "q,,n=ann,r=x",
            "n,a=bob,n=ann,r=x",
            "n,,m=1,n=ann,r=x",
            "n,,n=ann",
            "n,,n=ann,r=",
            "n,,n=,r=x",
            "n,,n=a=2,r=x",
            "n,,n=a=zz,r=x",
            "n,,n=a\nb,r=x",
            "n,,n=ann,r=\u{e4}",
            "n",
            "",
        ];
        for message in wrong {
            assert_eq!(read(message), Err(ScramFault::Malformed), "{message}");
        }
        assert!(ClientFirst::read(&[0xff]).is_err());
        let long = format!("n,,n={},r=x", "a".repeat(MESSAGE_BYTES_MAX));
        assert!(read(&long).is_err());
    }

    #[test]
    fn keys_are_kept_as_text() {
        let text = keys().text();
        assert_eq!(ScramKeys::parse(&text), Some(keys()));
        for wrong in ["", "0$a$b$c", "4096$$$", &format!("{text}$"), &text[1..].replace('$', "")] {
            assert_eq!(ScramKeys::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{:?}", keys()), "ScramKeys { iterations: 4096, .. }");
    }

    #[test]
    fn the_longest_message_is_read_and_a_name_ends_where_it_is_cut() {
        let long = |bytes: usize| format!("n,,n={},r=x", "a".repeat(bytes - "n,,n=,r=x".len()));
        assert!(ClientFirst::read(long(MESSAGE_BYTES_MAX).as_bytes()).is_ok());
        assert!(ClientFirst::read(long(MESSAGE_BYTES_MAX + 1).as_bytes()).is_err());
        assert!(ClientFirst::read(b"n,,n=a\0b,r=x").is_err());
        assert_eq!(user_of(b"n,,\nn=a=2Cb,r=x\nr=xy"), Some("a,b".into()));
        assert_eq!((user_of(b"n,,\nn=ann,r=x"), user_of(b"")), (None, None));
    }

    #[test]
    fn keys_have_as_many_rounds_as_there_may_be() {
        let text = keys().text();
        let rounds = |rounds: u32| ScramKeys::parse(&text.replace("4096", &rounds.to_string()));
        assert!(rounds(1).is_some() && rounds(ITERATIONS_MAX).is_some());
        assert!(rounds(0).is_none() && rounds(ITERATIONS_MAX + 1).is_none());
        assert_eq!(ScramKeys::derive(b"x", b"salt", 0).iterations, 1);
    }
}
