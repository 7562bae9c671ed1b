//! Every vector of a malformed packet, shown to the machine: what its sender is told.

use super::harness::ServerHarness;
use crate::codec::tests::vectors::{Case, malformed};
use crate::codec::{FaultSet, PacketFault, Sender, Version};
use crate::server::ListenerProfile;
use model::counters::TopicCounter;

/// A machine under the limits of a vector, where the vector begins.
fn harness(case: &Case, lenient: bool) -> ServerHarness {
    let rules = &case.rules;
    let strict_text = rules.strict_text;
    let mut harness = ServerHarness::open(ListenerProfile {
        lenient,
        strict_text,
        ..ListenerProfile::strict(5_000)
    });
    let harness_of = |mut harness: ServerHarness| {
        let topics = &mut harness.limits.topics;
        topics.packet_bytes_max = rules.packet_bytes_max;
        topics.connect_bytes_max = rules.packet_bytes_max;
        topics.topic_bytes_max = rules.topic_bytes_max;
        topics.topic_levels_max = u16::try_from(rules.topic_levels_max).unwrap_or(u16::MAX);
        topics.client_id_bytes_max = rules.client_id_bytes_max;
        harness
    };
    if !case.is_first {
        harness = harness.bound(rules.version);
    }
    harness = harness_of(harness);
    harness.kind = true;
    harness
}

/// Vectors of client packets; a CONNECT of a bound client is a fault of its own.
fn cases() -> Vec<Case> {
    let is_told = |case: &Case| case.expected("fault").is_some();
    let is_connect =
        |case: &Case| !case.is_first && case.bytes.first().is_some_and(|b| b >> 4 == 1);
    let mut cases = malformed();
    cases.retain(|case| case.rules.sender == Sender::Client && is_told(case) && !is_connect(case));
    cases
}

/// The answer, in the words of the vectors.
fn answer(harness: &ServerHarness) -> String {
    match &harness.wire[..] {
        [] => "close".to_owned(),
        [0x20, 2, 0, code] => format!("old_connack {code}"),
        _ => {
            assert_eq!(harness.sent.len(), 1, "{:?}", harness.sent);
            let line = harness.sent[0].replace("reason=", "");
            line.split(" {").next().expect("something").to_owned()
        }
    }
}

#[test]
fn every_malformed_packet_is_answered_as_required() {
    let mut shown = FaultSet::NONE;
    let mut count = 0;
    // These are let pass on every listener: the bit of bridges, and long identifiers of 3.1.
    let passes = [PacketFault::BridgeBit, PacketFault::ClientIdLong].map(PacketFault::name);
    let is_strict = |case: &Case| !passes.map(Some).contains(&case.expected("fault"));
    for case in cases().into_iter().filter(is_strict) {
        let mut harness = harness(&case, false);
        if case.expected("answer").is_some_and(|answer| answer.starts_with("old_connack")) {
            harness.version = Version::V311;
        }
        harness.hear(&case.bytes);
        // So large, but not enough has come to know in which words to say so: the machine waits.
        harness.hear(&vec![0; if harness.ended.is_none() { 14 } else { 0 }]);
        let name = &case.name;
        assert_eq!(Some(&*answer(&harness)), case.expected("answer"), "`{name}`");
        let fault =
            PacketFault::ALL.iter().find(|fault| Some(fault.name()) == case.expected("fault"));
        let fault = *fault.expect("a fault of the table");
        assert_eq!(harness.ended, Some(fault.close_reason()), "`{name}`");
        shown.insert(fault);
        count += 1;
    }
    assert!(count > 200 && shown.iter().count() > 45, "{count}, {}", shown.iter().count());
}

#[test]
fn a_lenient_machine_goes_on_and_counts() {
    let mut count = 0;
    for case in cases().iter().filter(|case| case.expected("lenient").is_some()) {
        let mut harness = harness(case, true);
        harness.version = case.rules.version;
        harness.hear(&case.bytes);
        let counter = match case.expected("fault").expect("a fault") {
            "bridge_bit" => TopicCounter::TolerateBridgeBit,
            "client_id_empty" | "client_id_long" => TopicCounter::TolerateClientId,
            "header_flags" | "subscribe_bits" | "connect_flag" | "will_flags" | "dup_at_qos_0" => {
                TopicCounter::TolerateFlags
            }
            "nul" => TopicCounter::TolerateText,
            _ => TopicCounter::TolerateOther,
        };
        assert_eq!(harness.counts, [counter], "`{}`", case.name);
        let ends = matches!(case.bytes[0] >> 4, 14 | 15); // a farewell, and AUTH that nobody asked
        assert!(harness.ended.is_none() || ends, "`{}`: {:?}", case.name, harness.ended);
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn a_malformed_packet_is_answered_the_same_wherever_it_is_split() {
    for case in cases().iter().filter(|case| case.bytes.len() < 300) {
        let mut whole = harness(case, false);
        whole.version = Version::V5;
        let is_old = case.expected("answer").is_some_and(|a| a.starts_with("old_connack"));
        whole.version = if is_old { Version::V311 } else { Version::V5 };
        whole.hear(&case.bytes);
        let mut split = harness(case, false);
        split.version = whole.version;
        for byte in &case.bytes {
            split.hear(std::slice::from_ref(byte));
        }
        let name = &case.name;
        assert_eq!((&split.wire, split.ended), (&whole.wire, whole.ended), "`{name}`");
        assert_eq!(split.words, whole.words, "`{name}`");
    }
}
