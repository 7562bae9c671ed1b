//! Hashes of other programs, our own, and what is none.

use super::*;

/// Lines made by mosquitto_passwd 2.0.11 and the reference implementation of Argon2.
const FOREIGN: [(&str, &str); 5] = [
    (
        "correct horse",
        "$7$101$bUWyTLqKfffDTpwc$0F+tjRmZ34X9pAbnfhjSQWhUPVvGuCN9U1fOcRFV5uBqeWL0puCzobOEiUlIdxj\
         qqyhthJnnuvL3OeO8oTFuKg==",
    ),
    (
        "secret",
        "$7$1500$XsNhmaJQbwoQ0338$elcFYitfYWqzDObxjSJMEZLfXOLykN4adlXD+tMdmeRLpHwI+qpsJhG3eSHUur\
         1vDQcoP0AbpvM2dhGkSWwe4w==",
    ),
    (
        "pässword: $x",
        "$6$ZqheiioDwOXS0kKh$yJTts6G8eYpyP17SEcJY7EGwR+GBYV9ZkoT6+liMhOpygESU7ykRZEgTaVcJxRyU2G5\
         hk+O7/NVSEy41s/DZDQ==",
    ),
    (
        "battery staple",
        "$argon2id$v=19$m=4096,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$LhydoA0ZWz040YPpc9C/0PEWMWPqLmukh4\
         F+ripYB58",
    ),
    (
        "battery staple",
        "$argon2id$v=19$m=1024,t=2,p=4$b3RoZXJzYWx0b3RoZXJz$5dlcz0PbhI9dhr9m3Yg33cXZhMvzYx13wszu\
         jA3qXlEh/Qwt8TXzBZWd1TwHHG6SY9LJ/v85d72/fqfR6HJG2w",
    ),
];

#[test]
fn what_others_have_hashed_is_checked() {
    for (password, text) in FOREIGN {
        let hash = Hash::parse(text).expect("a hash");
        assert!(hash.is_of(password.as_bytes()), "{text}");
        assert!(!hash.is_of(b"") && !hash.is_of(b"Secret"), "{text}");
        assert_eq!(hash.text(), text);
        assert_eq!(hash.is_slow(), !text.starts_with("$6$"));
    }
}

#[test]
fn what_we_hash_is_checked_and_read_again() {
    for scheme in Scheme::ALL {
        let hashing = Hashing { scheme, cost: Cost::Light, scram_iterations: ITERATIONS_MIN };
        let kept = hashing.hash("pä$$".as_bytes(), *b"0123456789abcdefghijklmnopqrstuv");
        let hash = kept.hash.expect("made");
        assert_eq!(Hash::parse(&hash.text()).as_ref(), Ok(&hash), "{scheme:?}");
        assert!(hash.is_of("pä$$".as_bytes()) && !hash.is_of(b"pa$$"));
        let scram = Hash::Scram(kept.scram.expect("wanted"));
        assert_eq!(Hash::parse(&scram.text()).as_ref(), Ok(&scram));
        assert!(scram.is_of("pä$$".as_bytes()) && !scram.is_of(b"x"));
        assert!(!format!("{hash:?} {scram:?}").contains("pä"));
    }
    let plain = Hash::parse("$plain$open:sesame").expect("a password");
    assert!(plain.is_of(b"open:sesame") && !plain.is_of(b"open") && !plain.is_slow());
    assert!(!format!("{plain:?}").contains("sesame"));
}

#[test]
fn costs_are_what_their_names_say() {
    assert_eq!(Cost::ALL.map(|cost| cost.rounds().get()), [1_000, 20_000, 210_000]);
    let kib = Cost::ALL.map(|cost| cost.argon2().params().m_cost());
    assert_eq!(kib, [4 * 1024, 19 * 1024, 64 * 1024]);
}

#[test]
fn what_is_no_hash_is_named() {
    let long = format!("$7$101$bUWyTLqKfffDTpwc${}", "A".repeat(40));
    let wrong = [
        "plain text",
        "",
        "$",
        "$7$",
        "$7$0$AAAA$AAAA",
        "$7$x$AAAA$AAAA",
        &long,
        "$7$20000000$bUWyTLqKfffDTpwc$0F+tjRmZ34X9pAbnfhjSQWhUPVvGuCN9U1fOcRFV5uBqeWL0puCzobOEiUl\
         IdxjqqyhthJnnuvL3OeO8oTFuKg==",
        "$6$AAAA$BBBB",
        "$2b$12$abc",
        "$argon2i$v=19$m=4096,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$LhydoA0ZWz040YPpc9C/0A",
        "$argon2id$v=19$m=4096,t=1,p=1$c29tZXNhbHRzb21lc2FsdA",
        "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$LhydoA0ZWz040YPpc9C/0A",
        "$argon2id$v=19$m=4096,t=65,p=1$c29tZXNhbHRzb21lc2FsdA$LhydoA0ZWz040YPpc9C/0A",
        "$plain$",
        "$scram-sha-256$x",
    ];
    for text in wrong {
        assert!(Hash::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_line_is_made_for_a_file() {
    let hashing = Hashing { cost: Cost::Light, ..Hashing::default() };
    let made = line("ann", "secret", &hashing, [7; 32]).expect("a line");
    let (name, hash) = made.split_once(':').expect("two parts");
    assert!(name == "ann" && Hash::parse(hash).expect("a hash").is_of(b"secret"));
    assert_eq!(hash.split('$').nth(3).map(str::len), Some(16), "a salt as mosquitto reads it");
    let both = Hashing { scram_iterations: 1, ..hashing };
    let made = line("ann", "secret", &both, [7; 32]).expect("a line");
    assert!(made.contains(" $scram-sha-256$4096$"), "never fewer rounds than the standard's");
    for user in ["", "a:b", "*", "#a", " a", "a\n", &"a".repeat(257)] {
        assert!(line(user, "secret", &hashing, [7; 32]).is_err(), "{user}");
    }
    assert!(line("ann", "", &hashing, [7; 32]).is_err());
    assert!(line("ann", &"x".repeat(1_025), &hashing, [7; 32]).is_err());
}
