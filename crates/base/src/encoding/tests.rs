//! Values of all forms that a derive knows, and bytes that are none.

use super::*;

/// All that a derive knows.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
#[encoding(Said = 0, Heard = 7, Gone = 3)]
enum Word {
    Said { number: u64, text: Arc<str> },
    Heard(Result<u16, Mood>, Option<Box<Word>>),
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
enum Mood {
    Fine = 1,
    Bad = 200,
}

#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
struct Grown {
    first: u8,
    #[encoding(since = 1)]
    second: u16,
    #[encoding(since = 2)]
    third: Vec<u32>,
}

#[test]
fn samples_have_each_variant_and_cross() {
    let all = sample::samples::<Word>();
    // Below the innermost box only words without one are left.
    let has = |found: fn(&Word) -> bool| all.iter().any(found);
    assert!(has(|word| matches!(word, Word::Said { .. })));
    assert!(has(|word| matches!(word, Word::Heard(Err(Mood::Bad), _))));
    assert!(has(|word| matches!(word, Word::Heard(_, Some(inner)) if **inner == Word::Gone)));
    assert_eq!(decode(&encode(&all)), Ok(all));
}

fn words() -> Vec<Word> {
    let text: Arc<str> = "hello".into();
    vec![
        Word::Said { number: 0x0102, text: text.clone() },
        Word::Heard(Err(Mood::Bad), Some(Box::new(Word::Said { number: 1, text }))),
        Word::Heard(Ok(9), None),
        Word::Gone,
    ]
}

#[test]
fn messages_are_decoded_as_they_were_and_a_shared_value_is_written_once() {
    let bytes = encode(&words());
    let expected = [
        &[1, 4, 0, 0, 0][..],
        &[0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, b'h', b'e', b'l', b'l', b'o'],
        &[7, 1, 200, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0],
        &[7, 0, 9, 0, 0],
        &[3],
    ];
    assert_eq!(bytes, expected.concat());
    let decoded: Vec<Word> = decode(&bytes).expect("as it was written");
    assert_eq!(decoded, words());
    let [Word::Said { text, .. }, Word::Heard(_, Some(inner)), ..] = &decoded[..] else {
        panic!("{decoded:?}");
    };
    assert!(matches!(&**inner, Word::Said { text: same, .. } if Arc::ptr_eq(text, same)));
}

#[test]
fn bytes_that_end_early_or_late_are_errors() {
    let bytes = encode(&words());
    for end in 0..bytes.len() {
        assert_eq!(decode::<Word>(&bytes[..end]), Err(DecodeError::Truncated), "{end}");
    }
    let more = [&bytes[..], &[0]].concat();
    assert_eq!(decode::<Word>(&more), Err(DecodeError::TooLong));
}

#[test]
fn an_unknown_tag_level_or_reference_is_an_error() {
    for (bytes, why) in [
        (&[1, 1, 0, 0, 0, 1][..], DecodeError::Tag("Word", 1)),
        (&[1, 1, 0, 0, 0, 7, 1, 2, 0], DecodeError::Tag("Mood", 2)),
        (&[1, 1, 0, 0, 0, 7, 3, 2, 0], DecodeError::Tag("Result", 3)),
        (&[0, 0, 0, 0, 0], DecodeError::Level(0)),
        (&[LEVEL + 1, 0, 0, 0, 0], DecodeError::Level(LEVEL + 1)),
    ] {
        assert_eq!(decode::<Word>(bytes), Err(why), "{bytes:?}");
    }
    let of_nothing = [1, 1, 0, 0, 0, 2, 0, 0, 0, 0];
    let why = DecodeError::Invalid("number of a shared value");
    assert_eq!(decode::<Arc<str>>(&of_nothing), Err(why));
    let of_other = [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, b'a', 2, 0, 0, 0, 0];
    assert_eq!(decode::<(Arc<str>, Arc<u8>)>(&of_other), Err(why), "it is of another type");
    assert_eq!(decode::<bool>(&[1, 1, 0, 0, 0, 2]), Err(DecodeError::Tag("bool", 2)));
    let not_text = [1, 1, 0, 0, 0, 1, 0, 0, 0, 0xff];
    assert_eq!(decode::<Box<str>>(&not_text), Err(DecodeError::Invalid("UTF-8 text")));
}

#[test]
fn a_length_beyond_the_bytes_is_refused_before_memory_is_taken() {
    let long = [1, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    assert_eq!(decode::<Vec<u64>>(&long), Err(DecodeError::Truncated));
    assert_eq!(decode::<Box<str>>(&long), Err(DecodeError::Truncated));
    assert_eq!(decode::<Vec<Vec<u8>>>(&long), Err(DecodeError::Truncated));
    assert_eq!(decode::<u8>(&long[5..]), Err(DecodeError::Level(0xff)));
    assert_eq!(decode::<u8>(&[&[1], &long[5..]].concat()), Err(DecodeError::Truncated));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let mut bytes = vec![1, 1, 0, 0, 0];
        for _ in 0..depth {
            bytes.extend_from_slice(&[7, 0, 0, 0, 1]);
        }
        bytes.push(3);
        decode::<Word>(&bytes)
    };
    // The list of messages is one.
    assert!(nested(usize::from(NESTING_MAX) - 1).is_ok());
    assert_eq!(nested(usize::from(NESTING_MAX)), Err(DecodeError::Nesting));
    assert_eq!(nested(1_000_000), Err(DecodeError::Nesting));
}

#[test]
fn a_field_of_a_later_level_is_neither_written_nor_read_below_it() {
    let grown = Grown { first: 1, second: 2, third: vec![3] };
    let bytes = encode(std::slice::from_ref(&grown));
    assert_eq!(bytes, [1, 1, 0, 0, 0, 1, 2, 0]);
    let of_this_level = Grown { third: Vec::new(), ..grown.clone() };
    assert_eq!(decode(&bytes), Ok(vec![of_this_level]));
    let later = encode_at(2, &[grown]);
    assert_eq!(later[8..], [1, 0, 0, 0, 3, 0, 0, 0]);
}
