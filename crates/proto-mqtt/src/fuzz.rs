//! Bytes that were bent at random, against codec and server machine: nothing may panic, nothing may
//! be taken that did not come, what is sent is whole packets and in proportion to what was read.
//!
//! The seeds lie in `corpus/`: streams of packets, made from the vectors by
//! [`writes_the_corpus`]. A stream that broke something is put there under its own name, and is
//! replayed for ever.

mod guided;

use crate::codec::publish::Publish;
use crate::codec::tests::bend::read_and_write_again;
use crate::codec::tests::vectors::{Case, good, malformed};
use crate::codec::{DecodeRules, DecodeStep, Sender, Version, decode, decode_first};
use crate::server::ListenerProfile;
use crate::server::tests::harness::{BIND_MS, SESSION, ServerHarness, denied, kindly};
use base::prng::Prng;
use model::close::CloseReason;
use model::session::{Denial, Outgoing, Routed, SessionDelivery as Down, SessionRequest as Up};
use model::topic::{Publication, Qos};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: u64 = 15_000;

fn folder(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", target].iter().collect()
}

/// The stored streams of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder(target)).expect("the corpus is stored");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let streams: Vec<_> = paths.iter().map(|path| std::fs::read(path).expect("bytes")).collect();
    assert!(streams.len() >= 6);
    streams
}

/// A piece of a stream with a few bytes changed, gone or doubled, or another stream behind it.
fn bent(rng: &mut Prng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(2) {
        let stream = &corpus[rng.below(corpus.len() as u64) as usize];
        let from = if rng.one_in(2) { 0 } else { rng.below(stream.len() as u64) as usize };
        let most = stream.len().min(from + 20 + rng.below(300) as usize);
        bytes.extend_from_slice(&stream[from..most]);
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes[at] = rng.draw() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, *[0, 1, 0x7f, 0x80, 0xff].get(at % 5).unwrap_or(&0)),
        }
    }
    bytes
}

/// The target of the codec: every packet in a stream, by every reader. Behind what is not taken,
/// the next byte begins another one.
fn read_stream(stream: &[u8], each: DecodeRules) -> u64 {
    let (mut at, mut taken) = (0, 0);
    while at < stream.len() {
        let rest = &stream[at..];
        let _ = Publish::peek(rest, &each);
        match decode(rest, &each) {
            Ok(DecodeStep::Packet { bytes, .. }) => {
                read_and_write_again(rest, &each).expect("it was read once");
                assert!(bytes <= rest.len());
                taken += 1;
                at += bytes;
            }
            Ok(DecodeStep::More(more)) => {
                assert!(more > 0);
                at += 1;
            }
            Err(_) => {
                if let Err(fault) = decode_first(rest, &each) {
                    let mut answer = Vec::new();
                    fault.answer_to_first(rest).write(&mut answer);
                    assert!(answer.len() <= 5);
                }
                at += 1;
            }
        }
    }
    taken
}

fn readers() -> impl Iterator<Item = DecodeRules> {
    [Sender::Client, Sender::Server].into_iter().flat_map(|sender| {
        Version::ALL.into_iter().flat_map(move |version| {
            [DecodeRules::strict(sender, version), DecodeRules::lenient(sender, version)]
        })
    })
}

#[test]
fn the_codec_reads_its_corpus() {
    for stream in corpus("codec") {
        let taken: u64 = readers().map(|rules| read_stream(&stream, rules)).sum();
        assert!(taken > 0, "a stream without a packet tests little");
    }
}

#[test]
fn the_codec_takes_bent_streams_or_finds_their_faults() {
    let (corpus, mut rng, mut taken) = (corpus("codec"), Prng::new(0x4d51), 0);
    let readers: Vec<DecodeRules> = readers().collect();
    for _ in 0..ROUNDS {
        let stream = bent(&mut rng, &corpus);
        let mut rules = readers[rng.below(readers.len() as u64) as usize];
        rules.strict_text = rng.one_in(4);
        taken += read_stream(&stream, rules);
    }
    assert!(taken > ROUNDS, "{taken} packets were read");
}

/// A possible answer of a broker to a request.
fn whim(rng: &mut Prng, word: &Up) -> Option<Down> {
    let refused = || Some(Down::Refused(denied(Denial::Busy)));
    let challenge = || Some(Down::Challenge { method: "m".into(), data: Box::default() });
    match word {
        Up::Connect(_) if rng.one_in(12) => refused(),
        Up::Connect(connect) if connect.method.is_some() && rng.one_in(2) => challenge(),
        Up::Proceed(_) if rng.one_in(4) => challenge(),
        Up::Publish { id, message, .. } if message.qos != Qos::AtMostOnce && rng.one_in(8) => {
            let result = if rng.one_in(2) { Err(Denial::Quota) } else { Ok(Routed::NoSubscriber) };
            Some(Down::Taken { id: *id, qos: message.qos, result })
        }
        _ => kindly(word),
    }
}

/// A possible order of a broker without a request, to a client whose session is bound.
fn call(rng: &mut Prng) -> Down {
    let id = 1 + rng.below(65_535) as u16;
    match rng.below(16) {
        0 => Down::End(denied(Denial::TakenOver)),
        1 => Down::Release { id, unknown: rng.one_in(2) },
        2 => Down::Completed { id, unknown: rng.one_in(2) },
        _ => {
            let topic = ["a", "some/topic", "another/topic"][rng.below(3) as usize];
            let payload = vec![7; rng.below(2_000) as usize];
            let properties: &[u8] = if rng.one_in(2) { &[1, 0] } else { &[] };
            let mut message = Publication::new(topic, properties, &payload);
            message.id = rng.draw();
            message.expire_at = rng.below(2) as u32 * 1_700_000_500;
            let qos = Qos::of(rng.below(3) as u8).expect("one of three");
            let subscription_ids = rng.one_in(4).then(|| Arc::from([1, 300]));
            let (again, retain, shared) = (rng.one_in(4), rng.one_in(4), rng.one_in(2));
            let id = if qos == Qos::AtMostOnce { 0 } else { id };
            let message = Arc::new(message);
            Down::Publish(Outgoing { message, id, qos, again, retain, shared, subscription_ids })
        }
    }
}

/// Checks that a broker can follow a machine's requests.
fn check(words: &[Up], ended: bool) -> bool {
    let Some((first, others)) = words.split_first() else { return false };
    assert!(matches!(first, Up::Connect(_)), "{first:?}");
    let ends = |word: &Up| matches!(word, Up::Gone | Up::Closed { .. });
    let end = others.iter().position(ends);
    assert!(end.is_none_or(|at| at + 1 == others.len()), "nothing comes behind the end");
    let mut is_bound = false;
    for word in others {
        match word {
            Up::Connect(_) => panic!("it connects once"),
            Up::Proceed(proceed) => assert!(proceed.session.is_none_or(|s| s == SESSION)),
            Up::Gone => assert!(!is_bound && ended),
            Up::Closed { session, .. } => {
                is_bound = true;
                assert!(*session == SESSION && ended);
            }
            _ => is_bound = true,
        }
    }
    is_bound
}

/// The target of the server machine: a stream in random pieces, with a broker of whims. True if it
/// came to be bound.
fn serve(stream: &[u8], rng: &mut Prng) -> bool {
    let (lenient, strict_text) = (rng.one_in(2), rng.one_in(4));
    let mut harness = ServerHarness::open(ListenerProfile {
        lenient,
        strict_text,
        ..ListenerProfile::strict(BIND_MS)
    });
    harness.limits.topics.receive_max = 1 + rng.below(4) as u16;
    harness.limits.topics.publishes_per_s = rng.below(2) as u32 * 5;
    let (mut rest, mut given, mut is_bound, mut seen) = (stream, 0, false, 0);
    while !rest.is_empty() && harness.ended.is_none() {
        let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(60) as usize));
        rest = later;
        harness.hear_any(piece);
        while seen < harness.words.len() {
            let answer = whim(rng, &harness.words[seen]);
            seen += 1;
            is_bound |= matches!(answer, Some(Down::Connected(_)));
            answer.into_iter().for_each(|answer| harness.tell(answer));
        }
        if is_bound && harness.ended.is_none() && rng.one_in(3) {
            let call = call(rng);
            given += if let Down::Publish(one) = &call { one.message.weight() } else { 8 };
            harness.tell(call);
        }
        match rng.below(24) {
            0 => harness.set_backlog(rng.below(600_000) as usize),
            1 if is_bound && harness.ended.is_none() => harness.drain(),
            2 => harness.wake(),
            3 => harness.pass(Duration::from_millis(rng.below(3_000))),
            4 if harness.ended.is_none() && rng.one_in(4) => harness.fall_silent(),
            _ => {}
        }
    }
    harness.close(CloseReason::PeerReset);
    assert!(harness.untaken() <= stream.len());
    let most = 16 * stream.len() + given + 512;
    assert!(harness.wire.len() <= most, "{} bytes for {}", harness.wire.len(), stream.len());
    check(&harness.words, harness.ended.is_some())
}

#[test]
fn the_server_serves_its_corpus() {
    for stream in corpus("server") {
        let bound = (0..20).filter(|&seed| serve(&stream, &mut Prng::new(seed))).count();
        assert!(bound > 0, "a stream that is never bound tests little");
    }
}

#[test]
fn the_server_answers_waits_or_ends() {
    let (corpus, mut rng, mut bound) = (corpus("server"), Prng::new(7), 0);
    for _ in 0..ROUNDS {
        let mut stream = Vec::new();
        if !rng.one_in(4) {
            let whole = &corpus[rng.below(corpus.len() as u64) as usize];
            stream.extend_from_slice(&whole[..whole.len().min(200)]);
        }
        stream.extend(bent(&mut rng, &corpus));
        bound += u64::from(serve(&stream, &mut rng));
    }
    assert!(bound > ROUNDS / 4, "{bound}: most rounds never came past the CONNECT");
}

/// Short packets of clients or servers of a version, one after another.
fn stream_of(cases: Vec<Case>, sender: Sender, version: Version, first: bool) -> Vec<u8> {
    let is_own = |case: &Case| {
        case.rules.sender == sender
            && case.rules.version == version
            && (first || !case.is_first)
            && case.bytes.len() < 200
    };
    cases.into_iter().filter(is_own).flat_map(|case| case.bytes).collect()
}

#[test]
#[ignore = "writes corpus/ anew from the vectors; names of its own stay"]
fn writes_the_corpus() {
    let write = |target: &str, name: String, bytes: &[u8]| {
        std::fs::create_dir_all(folder(target)).expect("a folder");
        std::fs::write(folder(target).join(name), bytes).expect("a file");
    };
    for version in Version::ALL {
        for (sender, word) in [(Sender::Client, "client"), (Sender::Server, "server")] {
            let name = |kind| format!("{kind}-{word}-{}", version.name());
            write("codec", name("good"), &stream_of(good(), sender, version, true));
            write("codec", name("malformed"), &stream_of(malformed(), sender, version, true));
        }
        let first = |case: &Case| {
            case.is_first
                && case
                    .expected("means")
                    .is_some_and(|means| means.starts_with(&format!("connect {} ", version.name())))
        };
        let connects: Vec<Vec<u8>> =
            good().into_iter().filter(first).map(|case| case.bytes).collect();
        let connects = connects.into_iter().filter(|bytes| bytes.len() < 200);
        for (number, mut stream) in connects.take(5).enumerate() {
            stream.extend(stream_of(good(), Sender::Client, version, false));
            write("server", format!("{}-{number}", version.name()), &stream);
        }
    }
}
