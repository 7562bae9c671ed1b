//! Proofs: what is good enough, and what is not.

use crate::world::{SECRET, WALL_MS, World, id, product, settings};
use hmac::{Hmac, KeyInit, Mac};
use model::id::ProductKey;
use model::ports::control::{Answer, Command};
use model::product::{AnonymousFrom, Product};
use model::request::{Bind, Delivery, Proof, Refusal, Resume};
use sha2::Sha256;

fn signature(signed: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).expect("any length");
    mac.update(signed);
    mac.finalize().into_bytes().into()
}

fn signed(name: &str, nonce: u8) -> Bind {
    let mut bind = World::bind(name);
    let signed: Box<[u8]> = format!("{name} {nonce}").into_bytes().into();
    let (mac, nonce, device_ms) = (signature(&signed), [nonce; 16], WALL_MS);
    bind.proof = Proof::Hmac { key_id: 1, signed, mac, nonce, device_ms, challenged: false };
    bind
}

fn strict() -> World {
    let mut product = product();
    product.proofs.anonymous = AnonymousFrom::Nowhere;
    World::with(product, settings())
}

fn verdict(world: &mut World, bind: Bind) -> Result<(), Refusal> {
    let conn = world.conn();
    match world.try_bind(conn, bind) {
        Delivery::Bound(_) => Ok(()),
        Delivery::Refused(refused) => Err(refused.why),
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
        let mut world = World::with(product, settings());
        let mut bind = World::bind("d");
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
    let mut world = World::new();
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
    let mut world = World::with(product, settings());
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let conn = world.conn();
        match world.try_bind(conn, signed("d", 1)) {
            Delivery::Challenge { term: 0, nonce } => nonces.push(nonce),
            other => panic!("no challenge: {other:?}"),
        }
    }
    assert_ne!(nonces[0], nonces[1]);
    let mut bind = signed("d", 1);
    if let Proof::Hmac { challenged, .. } = &mut bind.proof {
        *challenged = true;
    }
    assert_eq!(verdict(&mut world, bind), Ok(()));
    let unchallenged = World::bind("d");
    assert_eq!(verdict(&mut world, unchallenged), Err(Refusal::AuthFailed));
}

#[test]
fn a_classic_sign_is_half_a_mac_and_good_once() {
    let mut world = strict();
    let mut bind = World::bind("d");
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
    let token = match world.command(Command::Token { product, device, until }) {
        Answer::Token(Some(token)) => token,
        other => panic!("no token: {other:?}"),
    };
    let with = |name: &str, token: &str| {
        let mut bind = World::bind(name);
        bind.proof = Proof::Token(token.as_bytes().into());
        bind
    };
    assert_eq!(verdict(&mut world, with("d", &token)), Ok(()));
    let longer = token.replacen(&until.to_string(), &(until + 1).to_string(), 1);
    for (name, token) in [("e", &*token), ("d", &*longer), ("d", ""), ("d", "."), ("d", "x.y")] {
        assert_eq!(verdict(&mut world, with(name, token)), Err(Refusal::AuthFailed), "{token}");
    }
    world.pass_ms(61_000);
    assert_eq!(verdict(&mut world, with("d", &token)), Err(Refusal::AuthFailed));
}

#[test]
fn a_certificate_must_name_the_device() {
    let mut world = strict();
    let with = |identity: &str| {
        let mut bind = World::bind("d");
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
    let mut world = World::with(product, settings());
    assert_eq!(verdict(&mut world, signed("d", 1)), Err(Refusal::AuthFailed));
    let mut bind = World::bind("d");
    bind.proof = Proof::Certificate("d".into());
    assert_eq!(verdict(&mut world, bind), Err(Refusal::AuthFailed));
}

#[test]
fn a_session_token_is_proof_enough() {
    let mut world = strict();
    let first = world.seat_with(signed("d", 1));
    let mut bind = World::bind("d");
    bind.resume = Some(Resume { token: first.bound.token, epoch: first.bound.epoch });
    assert!(world.seat_with(bind.clone()).bound.resumed);
    // Its session is over now, and so is what it proves.
    assert_eq!(verdict(&mut world, bind), Err(Refusal::AuthFailed));
}

#[test]
fn a_blocked_device_is_refused_until_it_is_unblocked() {
    let mut world = World::new();
    let seat = world.seat("d");
    let block = |blocked| {
        let product = ProductKey::parse("p").expect("a name");
        Command::Block { product, device: id("d"), blocked }
    };
    assert_eq!(world.command(block(true)), Answer::Done(true));
    let deliveries = world.deliveries();
    let [(conn, Delivery::Kick(kick))] = &deliveries[..] else { panic!("{deliveries:?}") };
    assert_eq!((*conn, kick.why), (seat.conn, Refusal::DeviceBlocked));
    assert_eq!(verdict(&mut world, World::bind("d")), Err(Refusal::DeviceBlocked));
    assert_eq!(world.command(block(false)), Answer::Done(true));
    assert_eq!(verdict(&mut world, World::bind("d")), Ok(()));
    world.hub.audit();
}
