//! Authentication of Binds: proofs and tokens that are accepted, and those that are not.

use crate::harness::{HubHarness, SECRET, Seat, WALL_MS, id, product, settings};
use hmac::{Hmac, KeyInit, Mac};
use model::id::ProductKey;
use model::ports::pushes::{PushAnswer, PushCommand};
use model::product::{AnonymousFrom, Product};
use model::request::{Bind, Proof, PushDelivery, Refusal, Resume};
use sha2::Sha256;

fn signature(signed: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("any length");
    mac.update(signed);
    mac.finalize().into_bytes().into()
}

fn signed(name: &str, nonce: u8) -> Bind {
    let mut bind = HubHarness::bind(name);
    let signed: Box<[u8]> = format!("{name} {nonce}").into_bytes().into();
    let (mac, nonce, device_ms) = (signature(&signed), [nonce; 16], WALL_MS);
    bind.proof = Proof::Hmac { key_id: 1, signed, mac, nonce, device_ms, challenged: false };
    bind
}

fn strict() -> HubHarness {
    let mut product = product();
    product.proofs.anonymous = AnonymousFrom::Nowhere;
    HubHarness::with(product, settings())
}

fn verdict(world: &mut HubHarness, bind: Bind) -> Result<(), Refusal> {
    let conn = world.conn();
    match world.try_bind(conn, bind) {
        PushDelivery::Bound(_) => Ok(()),
        PushDelivery::Refused(refused) => Err(refused.why),
        other => panic!("neither bound nor refused: {other:?}"),
    }
}

#[test]
fn anonymous_binds_are_taken_from_where_the_product_says() {
    for (from, near, far) in [
        (AnonymousFrom::Nowhere, false, false),
        (AnonymousFrom::Loopback, true, false),
        (AnonymousFrom::Everywhere, true, true),
    ] {
        let mut product = product();
        product.proofs.anonymous = from;
        let mut world = HubHarness::with(product, settings());
        let mut bind = HubHarness::bind("d");
        assert_eq!(verdict(&mut world, bind.clone()).is_ok(), near);
        bind.from_loopback = false;
        assert_eq!(verdict(&mut world, bind).is_ok(), far);
    }
}

#[test]
fn a_signed_bind_is_taken_and_a_wrong_mac_is_not() {
    let mut world = strict();
    assert_eq!(verdict(&mut world, signed("d", 1)), Ok(()));
    let mut wrong = signed("d", 2);
    if let Proof::Hmac { mac, .. } = &mut wrong.proof {
        mac[31] ^= 1;
    }
    assert_eq!(verdict(&mut world, wrong), Err(Refusal::AuthFailed));
    let mut other = signed("d", 3);
    if let Proof::Hmac { key_id, .. } = &mut other.proof {
        *key_id = 2;
    }
    assert_eq!(verdict(&mut world, other), Err(Refusal::AuthFailed));
}

#[test]
fn a_wrong_proof_is_no_anonymous_bind() {
    let mut world = HubHarness::new();
    let mut wrong = signed("d", 2);
    if let Proof::Hmac { mac, .. } = &mut wrong.proof {
        mac[0] ^= 1;
    }
    assert_eq!(verdict(&mut world, wrong), Err(Refusal::AuthFailed));
    assert_eq!(world.state("d"), None, "nothing is kept for whoever is refused");
}

#[test]
fn a_clock_two_minutes_off_is_too_far() {
    let mut world = strict();
    for (nonce, ms, taken) in [
        (1, WALL_MS - 120_000, true),
        (2, WALL_MS + 120_000, true),
        (3, WALL_MS - 120_001, false),
        (4, WALL_MS + 120_001, false),
        (5, 0, false),
        (6, u64::MAX, false),
    ] {
        let mut bind = signed("d", nonce);
        if let Proof::Hmac { device_ms, .. } = &mut bind.proof {
            *device_ms = ms;
        }
        let expected = if taken { Ok(()) } else { Err(Refusal::ClockSkew) };
        assert_eq!(verdict(&mut world, bind), expected, "{ms}");
    }
}

#[test]
fn a_nonce_is_good_once() {
    let mut world = strict();
    assert_eq!(verdict(&mut world, signed("d", 1)), Ok(()));
    assert_eq!(verdict(&mut world, signed("d", 1)), Err(Refusal::Replayed));
    assert_eq!(verdict(&mut world, signed("e", 1)), Ok(()), "nonces are the device's own");
    world.pass_ms(100_000);
    assert_eq!(verdict(&mut world, signed("d", 1)), Err(Refusal::Replayed));
}

#[test]
fn a_failed_proof_does_not_use_its_nonce_up() {
    let mut world = strict();
    let mut wrong = signed("d", 1);
    if let Proof::Hmac { mac, .. } = &mut wrong.proof {
        *mac = [0; 32];
    }
    assert_eq!(verdict(&mut world, wrong), Err(Refusal::AuthFailed));
    assert_eq!(verdict(&mut world, signed("d", 1)), Ok(()));
}

#[test]
fn a_product_may_demand_a_challenge() {
    let mut product = product();
    product.proofs.challenge = true;
    let mut world = HubHarness::with(product, settings());
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let conn = world.conn();
        match world.try_bind(conn, signed("d", 1)) {
            PushDelivery::Challenge { term: 0, nonce } => nonces.push(nonce),
            other => panic!("no challenge: {other:?}"),
        }
    }
    assert_ne!(nonces[0], nonces[1]);
    let mut bind = signed("d", 1);
    if let Proof::Hmac { challenged, .. } = &mut bind.proof {
        *challenged = true;
    }
    assert_eq!(verdict(&mut world, bind), Ok(()));
    let unchallenged = HubHarness::bind("d");
    assert_eq!(verdict(&mut world, unchallenged), Err(Refusal::AuthFailed));
}

#[test]
fn a_classic_sign_is_half_a_mac_and_good_once() {
    let mut world = strict();
    let mut bind = HubHarness::bind("d");
    let bytes: Box<[u8]> = Box::from(*b"u=d,ts=1,n=2");
    let mut sign: [u8; 16] = signature(&bytes)[..16].try_into().expect("16 bytes");
    bind.proof = Proof::Classic { signed: bytes.clone(), sign, device_ms: WALL_MS };
    assert_eq!(verdict(&mut world, bind.clone()), Ok(()));
    assert_eq!(verdict(&mut world, bind.clone()), Err(Refusal::Replayed));
    sign[0] ^= 1;
    bind.proof = Proof::Classic { signed: bytes, sign, device_ms: WALL_MS };
    assert_eq!(verdict(&mut world, bind), Err(Refusal::AuthFailed));
}

#[test]
fn a_bearer_token_is_good_for_its_device_until_its_time() {
    let mut world = strict();
    let (product, device) = (ProductKey::parse("p").expect("a name"), id("d"));
    let until = WALL_MS / 1_000 + 60;
    let token = match world.command(PushCommand::Token { product, device, user: None, until }) {
        PushAnswer::Token(Some(token)) => token,
        other => panic!("no token: {other:?}"),
    };
    let with = |name: &str, token: &str| {
        let mut bind = HubHarness::bind(name);
        bind.proof = Proof::Token(token.as_bytes().into());
        bind
    };
    assert_eq!(verdict(&mut world, with("d", &token)), Ok(()));
    let longer = token.replacen(&until.to_string(), &(until + 1).to_string(), 1);
    for (name, token) in [("e", &*token), ("d", &*longer), ("d", ""), ("d", "."), ("d", "x.y")] {
        assert_eq!(verdict(&mut world, with(name, token)), Err(Refusal::AuthFailed), "{token}");
    }
    world.pass_ms(60_999);
    assert_eq!(verdict(&mut world, with("d", &token)), Ok(()), "its last second");
    world.pass_ms(1);
    assert_eq!(verdict(&mut world, with("d", &token)), Err(Refusal::AuthFailed));
}

#[test]
fn a_certificate_must_name_the_device() {
    let mut world = strict();
    let with = |identity: &str| {
        let mut bind = HubHarness::bind("d");
        bind.proof = Proof::Certificate(identity.into());
        bind
    };
    assert_eq!(verdict(&mut world, with("d")), Ok(()));
    assert_eq!(verdict(&mut world, with("D")), Err(Refusal::AuthFailed));
}

#[test]
fn a_kind_of_proof_that_the_product_does_not_take_is_refused() {
    let mut product = Product { proofs: product().proofs, ..product() };
    product.proofs.hmac = false;
    product.proofs.certificate = false;
    let mut world = HubHarness::with(product, settings());
    assert_eq!(verdict(&mut world, signed("d", 1)), Err(Refusal::AuthFailed));
    let mut bind = HubHarness::bind("d");
    bind.proof = Proof::Certificate("d".into());
    assert_eq!(verdict(&mut world, bind), Err(Refusal::AuthFailed));
}

#[test]
fn a_session_token_is_proof_enough() {
    let mut world = strict();
    let first = world.seat_with(signed("d", 1));
    let mut bind = HubHarness::bind("d");
    bind.resume = Some(Resume { token: first.bound.token, epoch: first.bound.epoch });
    assert!(world.seat_with(bind.clone()).bound.resumed);
    // The Bind before has replaced the session of this token, so the token is invalid.
    assert_eq!(verdict(&mut world, bind), Err(Refusal::AuthFailed));
}

#[test]
fn a_blocked_device_is_refused_until_it_is_unblocked() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    let block = |blocked| {
        let product = ProductKey::parse("p").expect("a name");
        PushCommand::Block { product, device: id("d"), blocked }
    };
    assert_eq!(world.command(block(true)), PushAnswer::Done(true));
    let deliveries = world.deliveries();
    let [(conn, PushDelivery::Kick(kick))] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((*conn, kick.why), (seat.conn, Refusal::DeviceBlocked));
    assert_eq!(verdict(&mut world, HubHarness::bind("d")), Err(Refusal::DeviceBlocked));
    assert_eq!(world.command(block(false)), PushAnswer::Done(true));
    assert_eq!(verdict(&mut world, HubHarness::bind("d")), Ok(()));
    world.hub.audit();
}

/// A Bind that resumes a session by its token alone.
fn resuming(seat: &Seat) -> Bind {
    let mut bind = HubHarness::bind("d");
    bind.resume = Some(Resume { token: seat.bound.token, epoch: seat.bound.epoch });
    bind
}

#[test]
fn a_session_token_does_not_outlive_a_kick_also_over_a_restart() {
    let kick = || {
        let product = ProductKey::parse("p").expect("a name");
        PushCommand::Kick { product, device: id("d"), addrs: Vec::new() }
    };
    for (is_online, restarts) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut world = strict();
        let seat = world.seat_with(signed("d", 1));
        if !is_online {
            world.close(&seat);
        }
        world.keeps = false;
        let reply = world.tell(kick());
        assert_eq!(world.answer(reply), None, "it is not stored yet");
        world.settle();
        assert_eq!(world.answer(reply), Some(PushAnswer::Done(is_online)));
        world.keeps = true;
        if restarts {
            world.restart();
        }
        assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
        world.hub.audit();
    }
    for restarts in [false, true] {
        let mut world = strict();
        let seat = world.seat_with(signed("d", 1));
        for blocked in [true, false] {
            let product = ProductKey::parse("p").expect("a name");
            world.keeps = false;
            let reply = world.tell(PushCommand::Block { product, device: id("d"), blocked });
            world.complete(Ok(()));
            assert_eq!(world.answer(reply), Some(PushAnswer::Done(true)));
            world.keeps = true;
            if restarts {
                world.restart(); // with nothing of it in the log but the block itself
            }
        }
        assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
    }
}

#[test]
fn a_session_token_does_not_outlive_the_secrets_it_was_got_with() {
    let mut world = strict();
    let seat = world.seat_with(signed("d", 1));
    let mut rotated = product();
    rotated.proofs.anonymous = AnonymousFrom::Nowhere;
    rotated.secrets[0].bytes = [9; 16].into();
    world.tell(PushCommand::PutProduct(Box::new(rotated)));
    assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
}

#[test]
fn a_session_token_does_not_outlive_what_proved_the_device_however_often_it_is_renewed() {
    let mut world = strict();
    let token = |world: &mut HubHarness, seconds: u64| {
        let until = world.now.wall_ms / 1_000 + seconds;
        let product = ProductKey::parse("p").expect("a name");
        match world.command(PushCommand::Token { product, device: id("d"), user: None, until }) {
            PushAnswer::Token(Some(token)) => Proof::Token(token.into_bytes().into()),
            other => panic!("no token: {other:?}"),
        }
    };
    let mut bind = HubHarness::bind("d");
    bind.proof = token(&mut world, 100);
    let mut seat = world.seat_with(bind);
    for _ in 0..9 {
        world.pass_ms(10_000);
        seat = world.seat_with(resuming(&seat));
        assert!(seat.bound.resumed);
    }
    world.pass_ms(11_000);
    assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
    // A session that began with a signature can be resumed for a day.
    let mut bind = HubHarness::bind("e");
    bind.proof = signed_at("e", world.now.wall_ms);
    let seat = world.seat_with(bind);
    world.close(&seat);
    let again = Bind { device: id("e"), ..resuming(&seat) };
    world.pass_ms(24 * 3_600_000 + 999);
    assert_eq!(verdict(&mut world, again), Ok(()));
    let mut bind = HubHarness::bind("e");
    bind.proof = signed_at("e", world.now.wall_ms);
    let seat = world.seat_with(bind);
    let again = Bind { device: id("e"), ..resuming(&seat) };
    world.pass_ms(24 * 3_600_000 + 1_000);
    assert_eq!(verdict(&mut world, again), Err(Refusal::AuthFailed));
}

fn signed_at(name: &str, device_ms: u64) -> Proof {
    let signed: Box<[u8]> = format!("{name} at {device_ms}").into_bytes().into();
    let (mac, nonce) = (signature(&signed), (device_ms as u128).to_be_bytes());
    Proof::Hmac { key_id: 1, signed, mac, nonce, device_ms, challenged: false }
}

#[test]
fn a_session_token_that_stands_for_a_certificate_is_good_with_the_certificate_alone() {
    let mut product = product();
    product.proofs.anonymous = AnonymousFrom::Nowhere;
    product.proofs.certificate = true;
    let mut world = HubHarness::with(product, settings());
    let certified = |name: &str| Proof::Certificate(name.into());
    let mut bind = HubHarness::bind("d");
    bind.proof = certified("d");
    let mut seat = world.seat_with(bind);
    for _ in 0..2 {
        // Refused: a Bind over a listener that requires no certificate, or with another device's.
        assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
        let foreign = Bind { proof: certified("e"), ..resuming(&seat) };
        assert_eq!(verdict(&mut world, foreign), Err(Refusal::AuthFailed));
        seat = world.seat_with(Bind { proof: certified("d"), ..resuming(&seat) });
        assert!(seat.bound.resumed);
    }
    // The token of a session that began with a signature is valid over every connection.
    let mut seat = world.seat_with(signed("d", 9));
    for proof in [certified("gateway"), certified("d"), Proof::None] {
        seat = world.seat_with(Bind { proof, ..resuming(&seat) });
        assert!(seat.bound.resumed);
    }
}

#[test]
fn a_session_token_does_not_stand_for_the_answer_to_a_challenge() {
    let mut product = product();
    product.proofs.anonymous = AnonymousFrom::Nowhere;
    product.proofs.challenge = true;
    let mut world = HubHarness::with(product, settings());
    let challenged = |bind: Bind| {
        let Proof::Hmac { key_id, signed, mac, nonce, device_ms, .. } = bind.proof else {
            panic!()
        };
        let proof = Proof::Hmac { key_id, signed, mac, nonce, device_ms, challenged: true };
        Bind { proof, ..bind }
    };
    let seat = world.seat_with(challenged(signed("d", 1)));
    assert_eq!(verdict(&mut world, resuming(&seat)), Err(Refusal::AuthFailed));
    let both = Bind { proof: signed("d", 2).proof, ..resuming(&seat) };
    let conn = world.conn();
    assert!(matches!(world.try_bind(conn, both.clone()), PushDelivery::Challenge { .. }));
    assert!(world.seat_with(challenged(both)).bound.resumed, "with the answer it is gone on with");
}

#[test]
fn a_signed_bind_is_not_taken_a_second_time_over_a_restart() {
    let mut world = strict();
    let bind = signed("d", 1);
    assert_eq!(verdict(&mut world, bind.clone()), Ok(()));
    world.restart();
    // While the proof may have been signed before the start, it is challenged.
    for after_ms in [0, 60_000, 60_000] {
        world.pass_ms(after_ms);
        let conn = world.conn();
        assert!(matches!(world.try_bind(conn, bind.clone()), PushDelivery::Challenge { .. }));
        let mut fresh = HubHarness::bind("d");
        fresh.proof = signed_at("d", world.now.wall_ms);
        assert!(matches!(world.try_bind(conn, fresh), PushDelivery::Challenge { .. }));
    }
    world.pass_ms(1);
    let mut fresh = HubHarness::bind("d");
    fresh.proof = signed_at("d", world.now.wall_ms);
    assert_eq!(verdict(&mut world, fresh), Ok(()));
    assert_eq!(verdict(&mut world, bind), Err(Refusal::ClockSkew));
}

#[test]
fn a_classic_signature_of_before_a_restart_is_not_taken_after_it() {
    let mut world = strict();
    let classic = |device_ms: u64| {
        let signed: Box<[u8]> = format!("classic {device_ms}").into_bytes().into();
        let sign = signature(&signed)[..16].try_into().expect("sixteen");
        Bind { proof: Proof::Classic { signed, sign, device_ms }, ..HubHarness::bind("d") }
    };
    let before = classic(world.now.wall_ms);
    assert_eq!(verdict(&mut world, before.clone()), Ok(()));
    world.restart();
    world.pass_ms(1);
    assert_eq!(verdict(&mut world, before), Err(Refusal::ClockSkew));
    let after = classic(world.now.wall_ms);
    assert_eq!(verdict(&mut world, after), Ok(()));
}
