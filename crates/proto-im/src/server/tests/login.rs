//! From the preface to LoggedIn.

use super::super::*;
use super::harness::*;
use crate::codec::client_frame::TokenRequestFields;
use crate::codec::server_frame::TokenFields;
use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::{FastBinding, FastOutcome, FastWish, Login, LoginRefused};
use model::link::{Protocol, TlsFacts};
use model::session::Denial;
use testkit::pair::PairSide;

fn login_words(side: &mut Side) -> Login {
    match side.take_words_as::<ChatRequest>().as_slice() {
        [ChatRequest::Login(login)] => (**login).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_login_goes_home_once_and_is_asked_there() {
    let mut side = asked();
    let ann = AccountAddress::parse("ann", "a.example").expect("right");
    assert_eq!(side.homes, [ann.home_hash(HashKey::new(1, 2))]);
    let login = login_words(&mut side);
    assert_eq!((login.protocol, &login.account, &*login.device), ("im", &ann, "phone"));
    assert_eq!((login.password, login.method, login.certificate), (None, None, None));
    assert!(login.near && !login.tls && !login.crowded);
}

#[test]
fn a_login_says_all_that_it_brings() {
    let listener = ImListener { bind_ms_max: 10_000, domain: "a.example".into() };
    let facts = TlsFacts { identity: Some("ann.cert".into()), ..TlsFacts::default() };
    let link = Link { tls: Some(facts), crowded: true, door: 3, ..Link::loopback(Protocol::Im) };
    let mut side = PairSide::new(Server::new(Arc::new(listener)), link);
    side.open(now());
    let fields = LoginFields {
        name: "ann@b.example",
        device: "tv",
        password: b"secret",
        method: "SCRAM-SHA-256",
        data: b"n,,",
        silence_s: 0,
    };
    let bytes = [&crate::codec::frame::PREFACE[..], &client(&ClientFrame::Login(fields))].concat();
    side.hear(now(), &bytes);
    let login = login_words(&mut side);
    assert_eq!(login.account.as_str(), "ann@b.example");
    assert_eq!(login.password.as_deref(), Some(&b"secret"[..]));
    assert_eq!(login.method, Some(("SCRAM-SHA-256".into(), b"n,,".as_slice().into())));
    assert_eq!((login.certificate.as_deref(), login.door), (Some("ann.cert"), 3));
    assert!(login.tls && login.crowded);
}

#[test]
fn a_login_arrives_in_any_pieces() {
    let login = LoginFields { name: "ann", device: "phone", ..LoginFields::default() };
    let bytes = [&crate::codec::frame::PREFACE[..], &client(&ClientFrame::Login(login))].concat();
    for cut in 0..=bytes.len() {
        let mut side = opened();
        side.hear(now(), &bytes[..cut]);
        side.hear(now(), &bytes[cut..]);
        assert_eq!((side.homes.len(), side.ended), (1, None), "{cut}");
        login_words(&mut side);
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    let long = "x".repeat(65);
    for (name, device) in [
        ("", "phone"),
        ("Ann", "phone"),
        (&long, "phone"),
        ("ann@", "phone"),
        ("ann", ""),
        ("ann", &long),
    ] {
        let mut side = begun();
        let login = LoginFields { name, device, ..LoginFields::default() };
        let sent = side.hear(now(), &client(&ClientFrame::Login(login)));
        let expected = ["refused { reason: REASON_NAME_INVALID word: \"name_invalid\" }"];
        assert_eq!(frames(&sent), expected, "{name} {device}");
        assert_eq!(side.ended, Some(CloseReason::AuthFailed));
        assert!(side.words.is_empty());
    }
}

#[test]
fn whoever_is_let_in_is_told_the_terms() {
    let mut side = begun();
    side.limits.chat.text_bytes_max = 1_000;
    let login = LoginFields { name: "ann", device: "tv", silence_s: 60, ..LoginFields::default() };
    side.hear(now(), &client(&ClientFrame::Login(login)));
    let sent = side.tell(now(), yes());
    assert_eq!(
        frames(&sent),
        ["logged_in { account: \"ann@a.example\" head: 12 cursor: 10 server_ms: 1700000000000 \
          silence_s: 60 page_messages_max: 128 text_bytes_max: 1000 extra_bytes_max: 65536 \
          requests_max: 256 file_bytes_max: 33554432 }"]
    );
    assert_eq!(side.silence_ms, 90_000);
}

#[test]
fn a_wish_for_silence_is_kept_within_its_bounds() {
    for (wish, expected) in [(0, 300), (1, 5), (5, 5), (299, 299), (301, 300), (u32::MAX, 300)] {
        let mut side = begun();
        let name = LoginFields { name: "ann", device: "tv", ..LoginFields::default() };
        let login = LoginFields { silence_s: wish, ..name };
        side.hear(now(), &client(&ClientFrame::Login(login)));
        side.tell(now(), yes());
        assert_eq!(side.silence_ms, expected * 1_500, "{wish}");
    }
}

#[test]
fn what_comes_behind_a_login_waits_for_its_answer() {
    let mut side = asked();
    side.take_words();
    let ping = client(&ClientFrame::Ping);
    assert!(side.hear(now(), &ping).is_empty());
    assert_eq!(side.untaken(), ping);
    let sent = side.tell(now(), yes());
    assert_eq!(frames(&sent).last().map(String::as_str), Some("pong { }"));
    assert!(side.untaken().is_empty());
}

#[test]
fn an_exchange_goes_on_until_the_service_says_yes_or_no() {
    let mut side = challenged();
    side.take_words();
    side.hear(now(), &client(&ClientFrame::Proceed(b"p=1")));
    let proceed = ChatRequest::Proceed(b"p=1".as_slice().into());
    assert_eq!(side.take_words_as::<ChatRequest>(), [proceed]);
    side.tell(now(), ChatDelivery::Challenge(Box::default()));
    side.hear(now(), &client(&ClientFrame::Proceed(b"")));
    let proceed = ChatRequest::Proceed(Box::default());
    assert_eq!(side.take_words_as::<ChatRequest>(), [proceed]);
    let ChatDelivery::LoggedIn(mut accepted) = yes() else { unreachable!("it is") };
    accepted.data = Some(b"v=x".as_slice().into());
    let sent = side.tell(now(), ChatDelivery::LoggedIn(accepted));
    assert!(frames(&sent)[0].contains("data: \"v=x\""));
    let mut side = challenged();
    side.hear(now(), &client(&ClientFrame::Goodbye));
    assert_eq!(side.ended, Some(CloseReason::Unbound));
}

#[test]
fn a_refusal_has_its_reason_and_its_way_to_be_counted() {
    for (why, reason) in [
        (Denial::BadCredentials, CloseReason::AuthFailed),
        (Denial::Busy, CloseReason::Busy),
        (Denial::Unavailable, CloseReason::Busy),
        (Denial::Full, CloseReason::Full),
        (Denial::StoreFailed, CloseReason::Quota),
        (Denial::ShuttingDown, CloseReason::Draining),
        (Denial::Moved, CloseReason::Redirected),
    ] {
        let mut side = asked();
        side.take_words();
        let refused = LoginRefused { why, retry_after_ms: 7, server: None, who: None };
        let sent = side.tell(now(), ChatDelivery::Refused(Box::new(refused)));
        let upper = why.name().to_uppercase();
        let said = format!(
            "refused {{ reason: REASON_{upper} word: \"{}\" retry_after_ms: 7 }}",
            why.name()
        );
        assert_eq!(frames(&sent), [said]);
        assert_eq!(side.ended, Some(reason));
        assert!(side.words.is_empty(), "the service knows that it is gone");
    }
}

#[test]
fn a_refusal_names_the_server_to_use_instead() {
    let mut side = asked();
    let (why, server) = (Denial::UseAnother, Some("10.0.0.7:7005".into()));
    let refused = LoginRefused { why, retry_after_ms: 0, server, who: None };
    let sent = side.tell(now(), ChatDelivery::Refused(Box::new(refused)));
    let said = "refused { reason: REASON_USE_ANOTHER word: \"use_another\" server: \
                \"10.0.0.7:7005\" }";
    assert_eq!(frames(&sent), [said]);
    assert_eq!(side.ended, Some(CloseReason::Redirected));
}

fn redeemed(data: &[u8]) -> (Side, Vec<String>) {
    let mut side = begun();
    let method = "HT-SHA-256-NONE";
    let login =
        LoginFields { name: "ann", device: "phone", method, data, ..LoginFields::default() };
    let sent = side.hear(now(), &client(&ClientFrame::Login(login)));
    (side, frames(&sent))
}

#[test]
fn a_login_by_a_token_shows_its_mac_and_is_answered_as_any() {
    for name in ["ann", "ann@a.example"] {
        let data = [name.as_bytes(), b"\0", &[9; 32]].concat();
        let (mut side, sent) = redeemed(&data);
        assert!(sent.is_empty(), "{sent:?}");
        match side.take_words_as::<ChatRequest>().as_slice() {
            [ChatRequest::Redeem(it)] => {
                assert_eq!((it.mac, &*it.bound, it.invalidates), ([9; 32], &[][..], false));
                assert_eq!((&*it.agent, it.binding), ("phone", FastBinding::None));
                assert_eq!((&it.login.method, &it.login.password), (&None, &None));
            }
            other => panic!("{other:?}"),
        }
        let said = side.tell(now(), yes());
        assert!(frames(&said)[0].starts_with("logged_in {"));
    }
}

#[test]
fn a_login_by_a_token_that_is_malformed_or_another_accounts_is_refused() {
    let of = |name: &[u8], mac: &[u8]| [name, b"\0", mac].concat();
    for data in [
        vec![],
        b"ann".to_vec(),
        of(b"ann", &[9; 31]),
        of(b"ann", &[9; 33]),
        of(b"bob", &[9; 32]),
        of(b"ann@b.example", &[9; 32]),
        of(b"\xff", &[9; 32]),
        of(b"", &[9; 32]),
    ] {
        let (side, sent) = redeemed(&data);
        let word = "refused { reason: REASON_BAD_CREDENTIALS word: \"bad_credentials\" }";
        assert_eq!(sent, [word], "{data:?}");
        assert_eq!(side.ended, Some(CloseReason::AuthFailed));
        assert!(side.words.is_empty());
    }
}

#[test]
fn a_device_asks_for_a_token_and_has_its_tokens_revoked() {
    let token = |revoke| client(&ClientFrame::Token(TokenRequestFields { number: 7, revoke }));
    let wish = |side: &mut Side| match side.take_words_as::<ChatRequest>().as_slice() {
        [ChatRequest::Token(wish)] => (**wish).clone(),
        other => panic!("{other:?}"),
    };
    let told = |side: &mut Side, wish: &FastWish, outcome| {
        let sent = side.tell(now(), ChatDelivery::Token(Box::new(wish.answer(outcome))));
        frames(&sent).concat()
    };
    let mut side = in_session();
    side.hear(now(), &token(false));
    let asked = wish(&mut side);
    let secret = asked.secret.expect("drawn for it");
    assert_eq!((asked.session, asked.agent.as_deref()), (SESSION, None));
    assert!(side.machine.is_idle(), "a request that is with the service is a number");
    let given = FastOutcome::Given { secret, until_s: 1_700_000_000 };
    let digits = base::hex::encode(&secret.0);
    let expected = format!("token {{ number: 7 token: \"{digits}\" until_ms: 1700000000000 }}");
    assert_eq!(told(&mut side, &asked, given), expected);
    let denied = told(&mut side_that_asks(&token(false)), &asked, FastOutcome::Denied);
    assert!(denied.contains("word: \"forbidden\""), "{denied}");
    let mut side = in_session();
    side.hear(now(), &token(true));
    let asked = wish(&mut side);
    assert_eq!(asked.secret, None);
    assert_eq!(told(&mut side, &asked, FastOutcome::Revoked), "done { number: 7 }");
}

fn side_that_asks(bytes: &[u8]) -> Side {
    let mut side = in_session();
    side.hear(now(), bytes);
    side
}

#[test]
fn a_token_is_not_in_the_debug_text() {
    let fields = TokenFields { number: 7, token: "secret", until_ms: 9 };
    assert_eq!(format!("{fields:?}"), "TokenFields { number: 7, .. }");
}
