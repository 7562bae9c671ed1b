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
        let hash = StoredHash::parse(text).expect("a hash");
        assert!(hash.is_of(password.as_bytes()), "{text}");
        assert!(!hash.is_of(b"") && !hash.is_of(b"Secret"), "{text}");
        assert_eq!(hash.text(), text);
        assert_eq!(hash.is_slow(), !text.starts_with("$6$"));
    }
}

#[test]
fn what_we_hash_is_checked_and_read_again() {
    for scheme in HashScheme::ALL {
        let hashing = Hashing {
            scheme,
            cost: Cost::Light,
            scram_iterations: ITERATIONS_MIN,
            scram_sha_1: true,
        };
        let kept = hashing.hash("pä$$".as_bytes(), *b"0123456789abcdefghijklmnopqrstuv");
        let hash = kept.hash.expect("made");
        assert_eq!(StoredHash::parse(&hash.text()).as_ref(), Ok(&hash), "{scheme:?}");
        assert!(hash.is_of("pä$$".as_bytes()) && !hash.is_of(b"pa$$"));
        assert_eq!(kept.scram.iter().count(), ScramHash::ALL.len(), "all were wanted");
        for scram in kept.scram.iter().cloned().map(StoredHash::Scram) {
            assert_eq!(StoredHash::parse(&scram.text()).as_ref(), Ok(&scram));
            assert!(scram.is_of("pä$$".as_bytes()) && !scram.is_of(b"x") && scram.is_slow());
            assert!(!format!("{hash:?} {scram:?}").contains("pä"));
        }
        let salts: Vec<_> = kept.scram.iter().map(|keys| keys.salt().to_vec()).collect();
        assert!(salts[0].len() == 16 && salts[1].len() == 16 && salts[0] != salts[1]);
    }
    let plain = StoredHash::parse("$plain$open:sesame").expect("a password");
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
        "$scram-sha-1$4096$c2FsdA==$AAAA$AAAA",
        "$scram-sha-512$4096$c2FsdA==$AAAA$AAAA",
    ];
    for text in wrong {
        assert!(StoredHash::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_line_is_made_for_a_file() {
    let hashing = Hashing { cost: Cost::Light, ..Hashing::default() };
    let made = line("ann", "secret", &hashing, [7; 32]).expect("a line");
    let (name, hash) = made.split_once(':').expect("two parts");
    assert!(name == "ann" && StoredHash::parse(hash).expect("a hash").is_of(b"secret"));
    assert_eq!(hash.split('$').nth(3).map(str::len), Some(16), "a salt as mosquitto reads it");
    let both = Hashing { scram_iterations: 1, ..hashing };
    let made = line("ann", "secret", &both, [7; 32]).expect("a line");
    assert!(made.contains(" $scram-sha-256$4096$"), "never fewer rounds than the standard's");
    assert!(!made.contains("$scram-sha-1$"));
    let both = Hashing { scram_sha_1: true, ..both };
    let made = line("ann", "secret", &both, [7; 32]).expect("a line");
    assert!(made.contains(" $scram-sha-256$4096$") && made.contains(" $scram-sha-1$4096$"));
    for user in ["", "a:b", "*", "#a", " a", "a\n", &"a".repeat(257)] {
        assert!(line(user, "secret", &hashing, [7; 32]).is_err(), "{user}");
    }
    assert!(line("ann", "", &hashing, [7; 32]).is_err());
    assert!(line("ann", &"x".repeat(1_025), &hashing, [7; 32]).is_err());
}

#[test]
fn the_longest_names_and_passwords_make_lines() {
    let hashing = Hashing { cost: Cost::Light, ..Hashing::default() };
    let make = |user: usize, password: usize| {
        line(&"u".repeat(user), &"p".repeat(password), &hashing, [7; 32])
    };
    let [name, password] = [UserOrder::NAME_BYTES_MAX, UserOrder::PASSWORD_BYTES_MAX];
    assert!(make(1, 1).is_ok() && make(name, password).is_ok());
    assert!(make(name + 1, 1).is_err_and(|why| why.contains("1 to 256 bytes")));
    assert!(make(1, password + 1).is_err_and(|why| why.contains("1 to 1024 bytes")));
}

#[test]
fn rounds_and_costs_are_taken_up_to_their_limit() {
    let (_, seven) = FOREIGN[0];
    let rounds = |rounds: u32| StoredHash::parse(&seven.replace("$101$", &format!("${rounds}$")));
    assert!(rounds(1).is_ok() && rounds(ITERATIONS_MAX).is_ok());
    assert!(rounds(0).is_err() && rounds(ITERATIONS_MAX + 1).is_err());
    let (_, argon) = FOREIGN[3];
    let cost = |kib: u32, passes: u32| {
        StoredHash::parse(&argon.replace("m=4096,t=1", &format!("m={kib},t={passes}")))
    };
    assert!(cost(ARGON2_KIB_MAX, ARGON2_PASSES_MAX).is_ok());
    let most = Err("verifying this hash would take more than 1 GiB or 64 passes");
    assert_eq!(cost(ARGON2_KIB_MAX + 1, 1), most);
    assert_eq!(cost(4_096, ARGON2_PASSES_MAX + 1), most);
}

#[test]
fn salts_are_taken_up_to_their_limit() {
    let salted = |text: &str, at: usize, bytes: usize| {
        let mut parts: Vec<String> = text.split('$').map(String::from).collect();
        parts[at] = BASE64_STANDARD.encode(vec![7; bytes]);
        StoredHash::parse(&parts.join("$"))
    };
    let keys = StoredHash::Scram(ScramKeys::derive(ScramHash::Sha1, b"x", b"salt", 1)).text();
    for (text, at) in [(FOREIGN[0].1, 3), (FOREIGN[2].1, 2), (&*keys, 3)] {
        assert!(salted(text, at, UserOrder::SALT_BYTES_MAX).is_ok(), "{text}");
        assert!(salted(text, at, UserOrder::SALT_BYTES_MAX + 1).is_err(), "{text}");
    }
}

#[test]
fn the_costs_of_scram_stay_within_the_limits() {
    let kept = |scram_iterations| {
        let hashing = Hashing {
            cost: Cost::Light,
            scram_iterations,
            scram_sha_1: true,
            ..Hashing::default()
        };
        let scram = hashing.hash(b"x", [7; 32]).scram;
        scram.iter().map(|keys| keys.iterations).collect::<Vec<_>>()
    };
    assert_eq!((kept(0), kept(1), kept(5_000)), (vec![], vec![4_096; 2], vec![5_000; 2]));
}

#[test]
fn a_hash_is_shown_by_its_kind_alone() {
    let shown = FOREIGN.map(|(_, text)| format!("{:?}", StoredHash::parse(text).expect("a hash")));
    let kinds = ["$7$", "$7$", "$6$", "$argon2id$", "$argon2id$"];
    assert_eq!(shown, kinds.map(|kind| format!("Hash({kind}…)")));
    assert_eq!(format!("{:?}", StoredHash::Plain("sesame".into())), "Hash($plain$…)");
    let shown = ScramHash::ALL.map(|hash| {
        let keys = ScramKeys::derive(hash, b"x", b"salt", 1);
        format!("{:?}", StoredHash::Scram(keys))
    });
    assert_eq!(shown, ["Hash($scram-sha-256$…)", "Hash($scram-sha-1$…)"]);
}
