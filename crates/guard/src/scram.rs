//! SCRAM, the server's side, over SHA-1 (RFC 5802) and SHA-256 (RFC 7677): a password is proved and
//! not shown.
//!
//! ```text
//! client-first ─► server-first ─► client-final ─► server-final, or a refusal
//! ```
//! State between the two answers of the client is the dialogue's bytes; the server keeps them and
//! shows them to nobody. The caller says whether an exchange is bound to its connection (the
//! methods whose names end in `-PLUS`, RFC 5802 6), and by what. It knows no users: keys are given
//! to it, and which hash is theirs they say. Names and passwords are taken as they are (of RFC
//! 5802's SASLprep, only that ASCII stays as it is).

use base::words;
use base64::prelude::{BASE64_STANDARD, Engine};
use model::ports::users::UserOrder;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Longest message of a client, bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Fewest rounds that a client need accept (RFC 7677 4).
pub const ITERATIONS_MIN: u32 = 4_096;

/// Most rounds of anything that is computed for a password.
pub const ITERATIONS_MAX: u32 = UserOrder::ROUNDS_MAX;

words! {
    /// Hash that an exchange is built on.
    #[derive(Hash)]
    pub enum ScramHash {
        /// SHA-256 (RFC 7677).
        Sha256 = "sha-256",
        /// SHA-1 (RFC 5802), whose weakness against collisions an HMAC does not have (RFC 6194 2):
        /// of what other servers kept.
        Sha1 = "sha-1",
    }
}

impl ScramHash {
    /// The method's name (MQTT5 4.12; RFC 5802 4).
    pub const fn method(self) -> &'static str {
        match self {
            ScramHash::Sha256 => "SCRAM-SHA-256",
            ScramHash::Sha1 => "SCRAM-SHA-1",
        }
    }

    /// The hash of a method, and whether it is bound to its connection.
    pub fn of_method(name: &str) -> Option<(ScramHash, bool)> {
        let (bare, is_bound) = name.strip_suffix("-PLUS").map_or((name, false), |it| (it, true));
        let hash = ScramHash::ALL.into_iter().find(|hash| hash.method() == bare);
        hash.map(|hash| (hash, is_bound))
    }

    /// Prefix of its keys as text, between two `$`.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            ScramHash::Sha256 => "scram-sha-256",
            ScramHash::Sha1 => "scram-sha-1",
        }
    }

    /// Length of what it makes, and so of each key.
    fn bytes(self) -> usize {
        self.digest().output_len()
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            ScramHash::Sha256 => &digest::SHA256,
            ScramHash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        }
    }

    fn mac(self, key: &[u8], said: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            ScramHash::Sha256 => hmac::HMAC_SHA256,
            ScramHash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), said)
    }

    /// The salted password (RFC 5802 3, `Hi`). Slow.
    fn salted(self, password: &[u8], salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            ScramHash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            ScramHash::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
        };
        let mut salted = vec![0; self.bytes()];
        pbkdf2::derive(algorithm, rounds, salt, password, &mut salted);
        salted
    }
}

/// Keys derived from a password (RFC 5802 3).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    pub(crate) hash: ScramHash,
    pub(crate) iterations: u32,
    /// Salt, StoredKey and ServerKey, one behind the other: one piece of memory for all clones.
    bytes: Arc<[u8]>,
}

const _: () = assert!(size_of::<Option<ScramKeys>>() <= 24, "of each row that is remembered");

/// Keys of one password, of each hash once at most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeysByHash([Option<ScramKeys>; ScramHash::ALL.len()]);

/// The first message of a client, taken apart.
#[derive(PartialEq, Eq, Debug)]
pub struct ClientFirst<'a> {
    /// The user it names, unescaped.
    pub user: String,
    /// Channel binding.
    pub binding: Binding<'a>,
    /// `n,,`, `y,,` or `p=NAME,,`, with what it says of another identity.
    header: &'a str,
    /// All behind that.
    bare: &'a str,
    nonce: &'a str,
}

/// Client's flag of channel binding (RFC 5802 7, `gs2-cbind-flag`).
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

impl KeysByHash {
    /// Keys for this hash.
    pub fn find(&self, hash: ScramHash) -> Option<&ScramKeys> {
        self.iter().find(|keys| keys.hash == hash)
    }

    /// Puts keys in place of those of the same hash.
    pub fn put(&mut self, keys: ScramKeys) {
        let at = ScramHash::ALL.iter().position(|hash| *hash == keys.hash);
        self.0[at.expect("these are all")] = Some(keys);
    }

    /// All of them, in the order of [`ScramHash::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = &ScramKeys> {
        self.0.iter().flatten()
    }
}

impl ScramKeys {
    /// Derives keys from a password. Slow.
    pub fn derive(hash: ScramHash, password: &[u8], salt: &[u8], iterations: u32) -> ScramKeys {
        let rounds = NonZeroU32::new(iterations.max(1)).expect("one at least");
        let salted = hash.salted(password, salt, rounds);
        let client = hash.mac(&salted, b"Client Key");
        let stored = digest::digest(hash.digest(), client.as_ref());
        let server = hash.mac(&salted, b"Server Key");
        let bytes = [salt, stored.as_ref(), server.as_ref()].concat().into();
        ScramKeys { hash, iterations: rounds.get(), bytes }
    }

    pub(crate) fn salt(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 2 * self.hash.bytes()]
    }

    fn stored(&self) -> &[u8] {
        &self.bytes[self.salt().len()..][..self.hash.bytes()]
    }

    fn server(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.hash.bytes()..]
    }

    /// Whether they are this password's. Slow.
    pub fn is_of(&self, password: &[u8]) -> bool {
        let other = ScramKeys::derive(self.hash, password, self.salt(), self.iterations);
        bool::from(other.stored().ct_eq(self.stored()))
    }

    /// `ROUNDS$SALT$STORED$SERVER`, in base64.
    pub fn text(&self) -> String {
        let [salt, stored, server] =
            [self.salt(), self.stored(), self.server()].map(|it| BASE64_STANDARD.encode(it));
        format!("{}${salt}${stored}${server}", self.iterations)
    }

    /// Parses keys for this hash.
    pub fn parse(hash: ScramHash, text: &str) -> Option<ScramKeys> {
        let mut words = text.split('$');
        let iterations = words.next()?.parse().ok()?;
        let mut bytes = || BASE64_STANDARD.decode(words.next()?).ok();
        let (salt, stored, server) = (bytes()?, bytes()?, bytes()?);
        let is_right = (1..=ITERATIONS_MAX).contains(&iterations)
            && salt.len() <= UserOrder::SALT_BYTES_MAX
            && [&stored, &server].into_iter().all(|key| key.len() == hash.bytes())
            && words.next().is_none();
        let bytes = || [salt, stored, server].concat().into();
        is_right.then(|| ScramKeys { hash, iterations, bytes: bytes() })
    }
}

impl std::fmt::Debug for ScramKeys {
    /// Without what they are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let method = self.hash.method();
        write!(f, "ScramKeys {{ {method}, iterations: {}, .. }}", self.iterations)
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
    let signature = keys.hash.mac(keys.stored(), signed.as_bytes());
    if proof.len() != signature.as_ref().len() {
        return Err(ScramFault::Malformed);
    }
    let both = proof.iter().zip(signature.as_ref());
    let client_key: Vec<u8> = both.map(|(one, other)| one ^ other).collect();
    let stored = digest::digest(keys.hash.digest(), &client_key);
    if !bool::from(stored.as_ref().ct_eq(keys.stored())) {
        return Err(ScramFault::Wrong);
    }
    let verifier = keys.hash.mac(keys.server(), signed.as_bytes());
    let verifier = BASE64_STANDARD.encode(verifier);
    Ok(format!("v={verifier}").into_bytes())
}

/// Stored keys.
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

    /// Message that both sides sign, and the proof.
    fn last(&self, bound: &[u8], message: &[u8]) -> Option<(String, Vec<u8>)> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut fields = without_proof.split(',');
        let binding = fields.next()?.strip_prefix("c=")?;
        let nonce = fields.next()?;
        let ours = self.answer.split(',').next()?;
        let expected = [self.header.as_bytes(), bound].concat();
        let is_bound = BASE64_STANDARD.decode(binding).ok()? == expected;
        let proof = BASE64_STANDARD.decode(proof).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::mac;
    use sha2::{Digest, Sha256};

    /// An exchange as a standard prints it: of `user` with `pencil` as password, 4,096 rounds.
    struct Printed {
        hash: ScramHash,
        salt: &'static str,
        first: &'static str,
        nonce: &'static str,
        answer: &'static str,
        last: &'static str,
        verifier: &'static str,
    }

    /// RFC 7677 3.
    const SHA_256: Printed = Printed {
        hash: ScramHash::Sha256,
        salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
        first: "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        answer: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        last: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
               p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        verifier: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    };

    /// RFC 5802 5.
    const SHA_1: Printed = Printed {
        hash: ScramHash::Sha1,
        salt: "QSXCR+Q6sek8bf92",
        first: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        nonce: "3rfcNHYJY1ZVvWVs7j",
        answer: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        last: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        verifier: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    };

    impl Printed {
        fn keys(&self) -> ScramKeys {
            let salt = BASE64_STANDARD.decode(self.salt).expect("base64");
            ScramKeys::derive(self.hash, b"pencil", &salt, 4_096)
        }

        /// Keys as a server stores them.
        fn begun(&self, keys: &ScramKeys) -> Vec<u8> {
            let first = ClientFirst::read(self.first.as_bytes()).expect("right");
            assert_eq!(first.user, "user");
            let (answer, dialogue) = first.answer(keys.salt(), keys.iterations, self.nonce);
            assert_eq!(String::from_utf8(answer).as_deref(), Ok(self.answer));
            dialogue
        }
    }

    fn keys() -> ScramKeys {
        SHA_256.keys()
    }

    #[test]
    fn the_exchanges_of_the_standards_are_spoken() {
        for printed in [SHA_256, SHA_1] {
            let keys = printed.keys();
            let dialogue = printed.begun(&keys);
            assert_eq!(user_of(&dialogue).as_deref(), Some("user"));
            let said = finish(&keys, &dialogue, b"", printed.last.as_bytes());
            assert_eq!(said.as_deref(), Ok(printed.verifier.as_bytes()));
            assert!(keys.is_of(b"pencil") && !keys.is_of(b"pencils"));
        }
    }

    #[test]
    fn methods_say_their_hash_and_whether_they_are_bound() {
        for (name, told) in [
            ("SCRAM-SHA-256", Some((ScramHash::Sha256, false))),
            ("SCRAM-SHA-256-PLUS", Some((ScramHash::Sha256, true))),
            ("SCRAM-SHA-1", Some((ScramHash::Sha1, false))),
            ("SCRAM-SHA-1-PLUS", Some((ScramHash::Sha1, true))),
            ("SCRAM-SHA-1-PLUS-PLUS", None),
            ("SCRAM-SHA-512", None),
            ("scram-sha-1", None),
            ("-PLUS", None),
            ("", None),
        ] {
            assert_eq!(ScramHash::of_method(name), told, "{name}");
        }
        assert_eq!(ScramHash::ALL.map(ScramHash::name), ["sha-256", "sha-1"]);
        assert_eq!(ScramHash::ALL.map(ScramHash::bytes), [32, 20]);
    }

    #[test]
    fn anything_that_was_changed_is_refused() {
        for printed in [SHA_256, SHA_1] {
            let (keys, right) = (printed.keys(), printed.last.as_bytes());
            let dialogue = printed.begun(&keys);
            for at in 0..right.len() {
                for bit in [1, 2, 32] {
                    let mut last = right.to_vec();
                    last[at] ^= bit;
                    // The last character of the proof has bits that mean nothing: zeros.
                    assert!(finish(&keys, &dialogue, b"", &last).is_err(), "{at} {bit}");
                }
                assert!(finish(&keys, &dialogue, b"", &right[..at]).is_err());
            }
            let other = ScramKeys::derive(printed.hash, b"other", keys.salt(), 4_096);
            assert_eq!(finish(&other, &dialogue, b"", right), Err(ScramFault::Wrong));
            assert_eq!(finish(&keys, b"", b"", right), Err(ScramFault::Malformed));
        }
    }

    #[test]
    fn a_proof_is_as_long_as_its_hash() {
        for (printed, other) in [(SHA_256, SHA_1), (SHA_1, SHA_256)] {
            let keys = printed.keys();
            let dialogue = printed.begun(&keys);
            let (without_proof, _) = printed.last.split_once(",p=").expect("some");
            let (_, proof) = other.last.split_once(",p=").expect("some");
            for proof in [proof, ""] {
                let last = format!("{without_proof},p={proof}");
                let said = finish(&keys, &dialogue, b"", last.as_bytes());
                assert_eq!(said, Err(ScramFault::Malformed), "{last}");
            }
        }
    }

    #[test]
    fn a_bound_exchange_is_right_on_its_own_connection_alone() {
        let keys = keys();
        let first = b"p=tls-exporter,,n=user,r=abc";
        let first = ClientFirst::read(first).expect("right");
        assert_eq!(first.binding, Binding::By("tls-exporter"));
        let (answer, dialogue) = first.answer(keys.salt(), keys.iterations, "def");
        assert_eq!(binding_of(&dialogue), Some(Binding::By("tls-exporter")));
        let answer = String::from_utf8(answer).expect("text");
        let last = |bound: &[u8]| {
            let header = [b"p=tls-exporter,,", bound].concat();
            let without_proof = format!("c={},r=abcdef", BASE64_STANDARD.encode(header));
            let signed = format!("n=user,r=abc,{answer},{without_proof}");
            let rounds = NonZeroU32::new(4_096).expect("some");
            let mut salted = [0; 32];
            let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
            pbkdf2::derive(algorithm, rounds, keys.salt(), b"pencil", &mut salted);
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
        for (printed, other) in [(SHA_256, SHA_1), (SHA_1, SHA_256)] {
            let (keys, hash) = (printed.keys(), printed.hash);
            let text = keys.text();
            assert_eq!(ScramKeys::parse(hash, &text), Some(keys));
            let bare = text[1..].replace('$', "");
            for wrong in ["", "0$a$b$c", "4096$$$", &format!("{text}$"), &bare] {
                assert_eq!(ScramKeys::parse(hash, wrong), None, "{wrong}");
            }
            assert_eq!(ScramKeys::parse(other.hash, &text), None, "of another length");
            // One key of this hash and one of the other.
            let mixed = other.keys();
            let last = |text: &str| text.rsplit_once('$').map(|(_, last)| last.to_owned());
            let both = text.replace(&last(&text).expect("one"), &last(&mixed.text()).expect("one"));
            assert_eq!(ScramKeys::parse(hash, &both), None, "{both}");
        }
        let shown = format!("{:?} {:?}", SHA_256.keys(), SHA_1.keys());
        let (one, other) = ("SCRAM-SHA-256, iterations: 4096", "SCRAM-SHA-1, iterations: 4096");
        assert_eq!(shown, format!("ScramKeys {{ {one}, .. }} ScramKeys {{ {other}, .. }}"));
    }

    #[test]
    fn a_user_has_keys_of_each_hash_once() {
        let mut keys = KeysByHash::default();
        assert!(keys.iter().next().is_none());
        keys.put(SHA_1.keys());
        assert_eq!(keys.find(ScramHash::Sha1), Some(&SHA_1.keys()));
        assert_eq!(keys.find(ScramHash::Sha256), None);
        keys.put(SHA_256.keys());
        let newer = ScramKeys::derive(ScramHash::Sha1, b"other", b"salt", 1);
        keys.put(newer.clone());
        assert_eq!(keys.find(ScramHash::Sha1), Some(&newer));
        assert!(keys.iter().eq([&SHA_256.keys(), &newer]));
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
        let rounds = |rounds: u32| {
            ScramKeys::parse(ScramHash::Sha256, &text.replace("4096", &rounds.to_string()))
        };
        assert!(rounds(1).is_some() && rounds(ITERATIONS_MAX).is_some());
        assert!(rounds(0).is_none() && rounds(ITERATIONS_MAX + 1).is_none());
        assert_eq!(ScramKeys::derive(ScramHash::Sha1, b"x", b"salt", 0).iterations, 1);
    }
}
