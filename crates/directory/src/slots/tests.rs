//! Slots and maps of a cluster, by the words of its specification.

use super::*;

fn node(host: &str, port: i64) -> Value {
    let id = Value::BulkString(b"0f".to_vec());
    Value::Array(vec![Value::BulkString(host.as_bytes().to_vec()), Value::Int(port), id])
}

fn range(first: i64, last: i64, master: Value) -> Value {
    Value::Array(vec![Value::Int(first), Value::Int(last), master, node("replica", 1)])
}

fn asked() -> HostPort {
    HostPort { host: "asked".into(), port: 6379 }
}

fn place(host: &str, port: u16) -> HostPort {
    HostPort { host: host.into(), port }
}

#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(slot(b"123456789"), 0x31c3);
    assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
    assert_eq!(slot(b"foo{}{bar}"), 8_363, "an empty tag is none");
    assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    assert_eq!(slot(b"foo{bar"), slot(b"foo{bar"));
    assert_ne!(slot(b"foo{bar"), slot(b"bar"));
}

#[test]
fn a_map_is_read_and_mended() {
    let answer = Value::Array(vec![
        range(0, 8_191, node("a", 1)),
        range(8_192, 16_382, node("", 2)),
        range(16_383, 16_383, node("?", 3)),
    ]);
    let mut map = SlotMap::read(answer, &asked()).expect("an answer");
    assert_eq!(map.master(0), Some(&place("a", 1)));
    assert_eq!(map.master(16_382), Some(&place("asked", 2)));
    assert_eq!(map.master(16_383), None);
    let (slot, to) = redirection(Some("16383 b:7"), &asked()).expect("a redirection");
    map.moved(slot, to).expect("few masters");
    assert_eq!(map.master(16_383), Some(&place("b", 7)));
    assert_eq!(map.masters().len(), 3);
    let (_, to) = redirection(Some("1 fe80::1:7"), &asked()).expect("a redirection");
    assert_eq!(to, place("fe80::1", 7));
    assert_eq!(redirection(Some("1 :7"), &asked()).expect("a redirection").1, place("asked", 7));
}

#[test]
fn each_master_gets_one_key() {
    let answer = Value::Array(vec![
        range(0, 16_000, node("a", 1)),
        range(16_001, 16_001, node("b", 2)),
        range(16_002, 16_383, node("c", 3)),
    ]);
    let map = SlotMap::read(answer, &asked()).expect("an answer");
    let keys = map.one_each(|number| format!("history:{number}"));
    let mut masters: Vec<_> =
        keys.iter().map(|key| map.master(slot(key.as_bytes())).expect("covered")).collect();
    masters.sort();
    assert_eq!(masters, [&place("a", 1), &place("b", 2), &place("c", 3)]);
}

#[test]
fn answers_that_make_no_sense_are_no_map() {
    let nonsense = [
        Value::Nil,
        Value::Array(vec![Value::Int(1)]),
        Value::Array(vec![range(5, 1, node("a", 1))]),
        Value::Array(vec![range(0, 16_384, node("a", 1))]),
        Value::Array(vec![range(-1, 4, node("a", 1))]),
        Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
    ];
    for answer in nonsense {
        let told = format!("{answer:?}");
        let fault = SlotMap::read(answer, &asked()).err();
        assert!(matches!(fault, Some(DirectoryError::Nonsense(_))), "{told}: {fault:?}");
    }
    let none = SlotMap::read(Value::Array(vec![range(0, 1, node("a", 0))]), &asked()).err();
    assert!(matches!(none, Some(DirectoryError::Refused(_))), "{none:?}");
    for details in [None, Some(""), Some("1"), Some("1 a"), Some("16384 a:1"), Some("x a:1")] {
        assert!(redirection(details, &asked()).is_err(), "{details:?}");
    }
}
