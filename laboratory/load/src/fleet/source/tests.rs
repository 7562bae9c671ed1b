//! Sources as they are written, on this machine's loopback.

use super::*;

fn loopback(ports: u16) -> Vec<SocketAddr> {
    (0..ports).map(|port| SocketAddr::from(([127, 0, 0, 1], 1_000 + port))).collect()
}

fn texts(sources: &[&str]) -> Result<Vec<String>, String> {
    let sources: Vec<String> = sources.iter().map(|&source| source.to_owned()).collect();
    let found = spread(&sources, &loopback(1), 10)?;
    Ok(found.iter().map(IpAddr::to_string).collect())
}

#[test]
fn addresses_ranges_and_networks_are_taken_in_turn() {
    let found = texts(&["127.0.0.9", "127.0.0.3-127.0.0.5", "127.0.2.0/30", "127.0.0.4"]);
    let want = ["127.0.0.9", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.2.1", "127.0.2.2"];
    assert_eq!(found.expect("all are this machine's"), want);
    assert_eq!(texts(&["127.0.3.0/24"]).map(|all| all.len()), Ok(254));
    assert_eq!(texts(&["127.0.3.7/32"]).map(|all| all.len()), Ok(1));
    assert_eq!(texts(&["127.0.3.6/31"]).map(|all| all.len()), Ok(2));
    assert_eq!(texts(&[]), Ok(Vec::new()));
    assert_eq!(texts(&["auto"]), Ok(Vec::new()));
}

#[test]
fn a_large_network_is_used_so_far() {
    assert_eq!(texts(&["127.0.0.0/8"]).map(|all| all.len()), Ok(SOURCES_MAX));
}

#[test]
fn what_is_no_source_is_said_in_words() {
    for (source, word) in [
        ("10.0.0", "not a source"),
        ("127.0.0.0/33", "not a source"),
        ("127.0.0.9-127.0.0.3", "not a source"),
        ("127.0.0.1-::1", "not a source"),
        ("::1", "is IPv6"),
        ("203.0.113.9", "not an address of this machine"),
    ] {
        let error = texts(&[source]).expect_err(source);
        assert!(error.contains(word) && error.contains(source), "{error}");
    }
    assert!(texts(&["auto", "127.0.0.1"]).is_err());
    let both = [loopback(1), vec![SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 1))]].concat();
    assert!(spread(&["127.0.0.1".to_owned()], &both, 1).is_err());
    assert_eq!(spread(&[], &both, 100_000), Ok(Vec::new()));
}

#[test]
fn needs_are_told_with_their_remedies() {
    let host = SourceHost { ports: 1_000, addresses: Vec::new() };
    let needs = Needs::of(&host, 1_500, &[], &loopback(1));
    assert_eq!((needs.ports, needs.ports_max, needs.descriptors), (1_500, 1_000, 1_500 + OWN));
    let short = needs.shortfalls();
    assert!(short.len() == 1 && short[0].contains("give 2 source addresses"), "{short:?}");
    let sources = ["127.0.0.2", "127.0.0.3"].map(|source| source.parse().expect("an address"));
    let enough = Needs::of(&host, 1_500, &sources, &loopback(1));
    assert_eq!(enough.shortfalls(), [] as [String; 0]);
    assert!(enough.slowness().is_some_and(|words| words.contains("beyond 450")));
    assert_eq!(Needs::of(&host, 900, &sources, &loopback(1)).slowness(), None);
    let words = enough.to_string();
    assert!(words.contains("from 2 source addresses to 1 address of the target: 750 of 1000"));
    let all = Needs::of(&host, u64::from(u32::MAX), &sources, &loopback(1));
    assert!(all.shortfalls()[0].contains("ulimit -n 4294967423"), "{:?}", all.shortfalls());
}

#[test]
fn pairs_are_those_that_occur() {
    assert_eq!([pairs(1, 1), pairs(2, 2), pairs(3, 2), pairs(4, 6)], [1, 2, 6, 12]);
}
