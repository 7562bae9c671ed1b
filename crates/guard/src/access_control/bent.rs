//! Input from outside, altered at random, is refused or read, and never causes a panic.

use crate::accounts::Accounts;
use crate::acl::AclFile;
use crate::book::UserEntry;
use crate::http;
use crate::passwords::StoredHash;
use crate::pattern::Pattern;
use crate::scram::{self, ClientFirst, ScramHash, ScramKeys};
use crate::token::{self, Keys, Signed, TokenPolicy};
use base::prng::Prng;
use model::ports::access::Who;

/// Valid inputs, of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let vectors = include_str!("../token/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("text").as_bytes().to_vec();
    vec![
        b"n,a=ann,n=a=2Cnn,r=abc,x=y".to_vec(),
        b"c=biws,r=abcdef,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".to_vec(),
        b"n,,\nn=ann,r=abc\nr=abcdef,s=AAAA,i=4096".to_vec(),
        b"$7$101$bUWyTLqKfffDTpwc$AAAA".to_vec(),
        b"$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$LhydoA0ZWz040YPpc9C/0A".to_vec(),
        "ann:$plain$x super\nuser ann\ntopic read a/%c/\u{fc}/#\npattern deny %u/+/x".into(),
        b"dev/%c-%u/+/100%/#".to_vec(),
        b"ann:$scram-sha-1$1$AAAA$AAAA$AAAA".to_vec(),
        b"\x03\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\x08$plain$x\0\0\0\0\
            [[\"allow\",\"both\",\"a/#\"]]"
            .to_vec(),
        b"\x02\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\x08$plain$x\0\0\
            [[\"allow\",\"both\",\"a/#\"]]"
            .to_vec(),
        b"{\"result\":\"allow\",\"acl\":[{\"permission\":\"deny\",\"action\":\"all\",\
            \"topic\":\"a\"}]}"
            .to_vec(),
        b"{\"publish\":[\"a\"],\"sub\":[\"%c\"]}".to_vec(),
        text(&vectors["tokens"][0]["token"]),
        text(&vectors["tokens"][9]["token"]),
        text(&vectors["pems"]["rsa"]),
        text(&vectors["pems"]["e384"]),
        vectors["jwks"].to_string().into_bytes(),
    ]
}

fn show(bytes: &[u8], keys: &ScramKeys) {
    let who = Who { client_id: "d7", user: Some("ann") };
    let _ = ClientFirst::read(bytes);
    let _ = scram::user_of(bytes);
    let _ = scram::finish(keys, b"n,,\nn=ann,r=abc\nr=abcdef,s=AAAA,i=4096", b"", bytes);
    let _ = scram::finish(keys, bytes, b"", b"c=biws,r=abcdef,p=AAAA");
    let _ = (UserEntry::read(bytes), UserEntry::read_mark(bytes));
    let _ = http::verdict(200, bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = StoredHash::parse(&text);
    let _ = Accounts::parse("f", &text);
    let _ = AclFile::parse("f", &text);
    if let Ok(pattern) = Pattern::parse(&text) {
        let _ = pattern.matches(&who, &text);
        let _ = pattern.relation(&who, &text);
    }
    let mut keys = Keys::default();
    let _ = keys.add_pem(&text);
    let _ = keys.add_set(&text);
    if let Some(signed) = Signed::read(&text) {
        let policy =
            TokenPolicy { equal: vec![("a".into(), "%c%u%%c".into())], ..TokenPolicy::default() };
        let _ = signed.verify(&policy, &[&keys]);
        let _ = signed.claims(&policy, 5, &who);
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        let _ = token::acl(&value);
    }
}

#[test]
fn whatever_comes_nothing_panics() {
    let (seeds, keys) = (seeds(), ScramKeys::derive(ScramHash::Sha1, b"x", b"salt", 1));
    for seed in 0..4_000 {
        let mut rng = Prng::new(seed);
        let mut bytes = seeds[rng.below(seeds.len() as u64) as usize].clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            match rng.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, rng.draw() as u8),
                2 if at < bytes.len() => bytes[at] = rng.draw() as u8,
                _ => {
                    let other = &seeds[rng.below(seeds.len() as u64) as usize];
                    bytes.extend_from_slice(&other[..rng.below(other.len() as u64) as usize]);
                }
            }
        }
        show(&bytes, &keys);
    }
}
