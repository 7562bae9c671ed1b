//! Frames that were bent at random, against codec and machines: nothing may panic, nothing may be
//! taken that did not come, and what is written stays in proportion to what was read.

use crate::client::{Client, Profile};
use crate::codec::{Version, classic, frame};
use crate::server::Server;
use base::prng::Prng;
use base::time::Now;
use model::close::CloseReason;
use model::id::{DeviceRef, ProductKey};
use model::link::{Link, Protocol};
use model::request::{Bound, Kick, PushDelivery, PushRequest, Refusal, Refused};
use std::sync::Arc;
use testkit::pair::PairSide;
use testkit::vector::{self, bent};

const FILES: [&str; 2] =
    [include_str!("../vectors/1-malformed.txt"), include_str!("../vectors/2-frames.txt")];
const ROUNDS: u64 = 30_000;

fn corpus() -> Vec<Vec<u8>> {
    let vectors = FILES.iter().flat_map(|file| vector::read(file));
    vectors.map(|vector| vector.bytes("bytes")).filter(|bytes| bytes.len() < 2_000).collect()
}

#[test]
fn the_codec_takes_no_more_than_came() {
    let (corpus, mut rng) = (corpus(), Prng::new(0x4d49_4f50));
    for _ in 0..ROUNDS {
        let bytes = bent(&mut rng, &corpus);
        let bytes_max = rng.below(5_000) as usize;
        if let Ok(Some((_, length))) = frame::parse(&bytes, bytes_max) {
            assert!(length <= bytes.len() && length <= bytes_max.max(4));
        }
        for version in [Version::V5, Version::V6] {
            if let Ok(Some((_, length))) = classic::parse(version, &bytes, bytes_max) {
                assert!(length <= bytes.len() && length <= bytes_max.max(4));
            }
        }
    }
}

fn now() -> Now {
    Now::default()
}

fn yes(term: u16) -> PushDelivery {
    PushDelivery::Bound(Box::new(Bound {
        term,
        device: DeviceRef::from_bits(u64::from(term)),
        epoch: 1,
        resumed: false,
        token: [0; 32],
        heartbeat_s: 60,
        inflight_max: 1,
        ack_ms: 1,
        offline_count: 0,
        server_ms: 0,
        frame_bytes_max: 1,
        app_id: 1,
    }))
}

/// A possible delivery of a hub, for a request or without one.
fn whim(rng: &mut Prng, request: &PushRequest) -> Option<PushDelivery> {
    let refused = |term, why| {
        let refused =
            Refused { term, why, retry_after_ms: 1, addrs: vec!["a:1".to_owned(); 5], who: None };
        Some(PushDelivery::Refused(Box::new(refused)))
    };
    match request {
        PushRequest::Bind(bind) => match rng.below(8) {
            0 => refused(bind.term, Refusal::Busy),
            1 => refused(bind.term, Refusal::AuthFailed),
            2 => Some(PushDelivery::Challenge { term: bind.term, nonce: [1; 16] }),
            _ => Some(yes(bind.term)),
        },
        PushRequest::Unbind { term, .. } => Some(PushDelivery::Unbound { term: *term }),
        PushRequest::Pull { term, .. } => Some(PushDelivery::Pulled { term: *term, remaining: 0 }),
        PushRequest::Report { term, seq, .. } => {
            Some(PushDelivery::ReportTaken { term: *term, seq: *seq })
        }
        _ if rng.one_in(4) => {
            let (term, why) = (rng.below(3) as u16, Refusal::Replaced);
            let addrs = Vec::new();
            Some(PushDelivery::Kick(Box::new(Kick {
                term,
                why,
                epoch: 1,
                retry_after_ms: 0,
                addrs,
            })))
        }
        _ => None,
    }
}

/// Feeds a server's machine in random pieces, with a hub of whims. Returns how often it bound.
fn serve(bytes: &[u8], rng: &mut Prng) -> usize {
    let mut side = PairSide::new(Server::new(1_000), Link::loopback(Protocol::Miop));
    side.limits.pushes.binds_a_connection_max = 3;
    side.open(now());
    let (mut rest, mut sent, mut binds) = (bytes, 0, 0);
    while !rest.is_empty() && side.ended.is_none() {
        let (piece, later) = rest.split_at(rest.len().min(1 + rng.below(40) as usize));
        rest = later;
        sent += side.hear(now(), piece).len();
        loop {
            let words = side.take_words_as::<PushRequest>();
            let answers: Vec<_> = words.iter().filter_map(|word| whim(rng, word)).collect();
            binds += answers.iter().filter(|a| matches!(a, PushDelivery::Bound(_))).count();
            if answers.is_empty() {
                break;
            }
            sent += answers.into_iter().map(|down| side.tell(now(), down).len()).sum::<usize>();
        }
    }
    assert!(side.untaken().len() <= bytes.len());
    assert!(sent <= 64 * bytes.len() + 256, "{sent} bytes sent for {}", bytes.len());
    side.close(now(), CloseReason::PeerReset);
    binds
}

#[test]
fn the_server_answers_waits_or_ends() {
    let (corpus, mut rng, mut binds) = (corpus(), Prng::new(7), 0);
    let goods: Vec<_> = corpus.iter().filter(|b| b.get(3) == Some(&2)).cloned().collect();
    for _ in 0..ROUNDS {
        let mut bytes = Vec::new();
        if !rng.one_in(4) {
            bytes.clone_from(&goods[rng.below(goods.len() as u64) as usize]);
        }
        bytes.extend(bent(&mut rng, &corpus));
        binds += serve(&bytes, &mut rng);
    }
    assert!(binds > ROUNDS as usize / 20, "{binds}: most rounds never came past the Bind");
}

#[test]
fn the_device_answers_waits_or_ends() {
    let (corpus, mut rng) = (corpus(), Prng::new(8));
    let product = ProductKey::parse("p").expect("a name");
    for _ in 0..ROUNDS {
        let version = [Version::V5, Version::V6, Version::V7][rng.below(3) as usize];
        let profile = Arc::new(Profile::new(version, product.clone(), "d"));
        let mut side = PairSide::new(Client::new(profile, 1), Link::loopback(Protocol::Miop));
        let mut sent = side.open(now()).len();
        let bytes = bent(&mut rng, &corpus);
        for piece in bytes.chunks(1 + rng.below(40) as usize) {
            sent += side.hear(now(), piece).len();
        }
        assert!(sent <= 4 * bytes.len() + 256);
        assert!(side.words.len() <= bytes.len());
    }
}
