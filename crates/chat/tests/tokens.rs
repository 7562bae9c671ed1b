//! Tokens by which devices log in again: issue, use, renewal, and end.

mod house;

use base::time::Now;
use chat::{ChatService, Settings};
use hmac::{Hmac, KeyInit, Mac};
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::access::{Access, Admission, Grant, GrantedAccount, NameOwner, Question, Who};
use model::session::Denial;
use sha2::Sha256;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A listener that takes no passwords.
const NO_PASSWORDS: u8 = 9;

/// A book in which every user has a password, in an epoch that rises when passwords change.
#[derive(Default)]
struct Book {
    epoch: AtomicU64,
}

impl Book {
    fn account(&self) -> GrantedAccount {
        GrantedAccount { uid: 7, epoch: self.epoch.load(Ordering::Relaxed) }
    }
}

impl Access for Book {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let user = question.user.as_deref().map(Into::into);
        let account = Some(self.account());
        let by_password = question.password.is_some();
        Admission::Granted(Grant { user, account, by_password, ..Grant::OPEN }, None)
    }

    fn takes_passwords(&self, door: u8) -> bool {
        door != NO_PASSWORDS
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn holds(&self, _: &str, account: Option<GrantedAccount>) -> bool {
        account == Some(self.account())
    }

    fn owner(&self, _: &str) -> NameOwner {
        NameOwner::Account(7)
    }

    fn version(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }
}

fn settings(book: &Arc<Book>) -> Settings {
    let chat = ChatLimits {
        fast_devices_an_account_max: 3,
        fast_token_s_max: 1_000,
        ..ChatLimits::default()
    };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    Settings { limits, access: book.clone(), ..plain::settings(ShardId(0), 1) }
}

fn house_of_book() -> (House, Arc<Book>) {
    let book = Arc::new(Book::default());
    (House::of(settings(&book)), book)
}

impl House {
    fn told(&mut self, from: ConnRef, request: ChatRequest) -> Vec<ChatDelivery> {
        let told = self.ask(from, request).into_iter().map(|(_, delivery)| delivery);
        // Earlier sessions end with the rights that they had.
        told.filter(|it| !matches!(it, ChatDelivery::End(_))).collect()
    }

    fn words(&mut self) -> (ConnRef, Login) {
        let conn = self.conn(ShardId(0));
        let account = AccountAddress::parse("ann", "a.example").expect("right");
        let login = Login { protocol: "xmpp", tls: true, ..plain::login(account, "") };
        (conn, login)
    }

    /// Logs a device in by its password, and requests a token for it.
    fn given(&mut self, agent: &str, secret: u8) -> u32 {
        let (conn, login) = self.words();
        let login = Login { password: Some(b"secret"[..].into()), ..login };
        let told = self.told(conn, ChatRequest::Login(Box::new(login)));
        let [ChatDelivery::LoggedIn(it)] = &told[..] else { panic!("{told:?}") };
        self.wants(conn, it.session, agent, secret)
    }

    fn wants(&mut self, conn: ConnRef, session: SessionRef, agent: &str, secret: u8) -> u32 {
        let secret = FastSecret([secret; 32]);
        match self.token((conn, session), Some(agent), Some(secret)) {
            FastOutcome::Given { secret: given, until_s } if given == secret => until_s,
            FastOutcome::Denied => 0,
            other => panic!("{other:?}"),
        }
    }

    fn token(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        agent: Option<&str>,
        secret: Option<FastSecret>,
    ) -> FastOutcome {
        let (agent, binding) = (agent.map(Into::into), FastBinding::EndPoint);
        let wish = FastWish { session, number: 3, agent, binding, secret };
        match &self.told(conn, ChatRequest::Token(Box::new(wish)))[..] {
            [ChatDelivery::Token(answer)] if answer.number == 3 => answer.outcome,
            other => panic!("{other:?}"),
        }
    }

    fn redeeming(&mut self, agent: &str, secret: u8) -> (ConnRef, Redeeming) {
        let (conn, login) = self.words();
        let bound: Box<[u8]> = b"binding"[..].into();
        let mac = mac(secret, b"Initiator", &bound);
        let (agent, binding) = (agent.into(), FastBinding::EndPoint);
        (conn, Redeeming { login, agent, binding, bound, mac, invalidates: false })
    }

    fn comes(&mut self, (conn, redeeming): (ConnRef, Redeeming)) -> Result<LoggedIn, Denial> {
        match &self.told(conn, ChatRequest::Redeem(Box::new(redeeming)))[..] {
            [ChatDelivery::LoggedIn(it)] => Ok((**it).clone()),
            [ChatDelivery::Refused(it)] => Err(it.why),
            other => panic!("{other:?}"),
        }
    }

    fn is_let_in(&mut self, agent: &str, secret: u8) -> bool {
        let redeeming = self.redeeming(agent, secret);
        match self.comes(redeeming) {
            Ok(_) => true,
            Err(why) => {
                assert_eq!(why, Denial::BadCredentials);
                false
            }
        }
    }

    fn pass_s(&mut self, seconds: u64) {
        let mono = self.now.after(Duration::from_secs(seconds));
        self.now = Now::new(mono, self.now.wall_ms + seconds * 1_000);
    }
}

fn mac(secret: u8, label: &[u8], bound: &[u8]) -> [u8; 32] {
    let token = format!("{secret:02x}").repeat(32);
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("any length");
    mac.update(label);
    mac.update(bound);
    mac.finalize().into_bytes().into()
}

#[test]
fn whoever_shows_a_token_is_let_in_until_its_time_is_over() {
    let (mut house, book) = house_of_book();
    assert_eq!(house.given("phone", 1), 1_700_001_000);
    let redeeming = house.redeeming("phone", 1);
    let told = house.comes(redeeming).expect("let in");
    assert_eq!(told.data.as_deref(), Some(&mac(1, b"Responder", b"binding")[..]));
    house.chat = ChatService::new(settings(&book)); // the process has died
    assert!(house.is_let_in("phone", 1));
    for (agent, secret) in [("phone", 2), ("desk", 1), ("", 1)] {
        assert!(!house.is_let_in(agent, secret), "{agent} {secret}");
    }
    house.pass_s(999);
    assert!(house.is_let_in("phone", 1));
    house.pass_s(1);
    assert!(!house.is_let_in("phone", 1));
}

#[test]
fn a_token_is_good_for_its_binding_alone() {
    let (mut house, _) = house_of_book();
    house.given("phone", 1);
    let (conn, it) = house.redeeming("phone", 1);
    let elsewhere = Redeeming { bound: b"another"[..].into(), ..it.clone() };
    assert_eq!(house.comes((conn, elsewhere)), Err(Denial::BadCredentials));
    let (conn, _) = house.words();
    let mac = mac(1, b"Initiator", b"");
    let unbound =
        Redeeming { binding: FastBinding::None, bound: Box::default(), mac, ..it.clone() };
    assert_eq!(house.comes((conn, unbound)), Err(Denial::BadCredentials));
    let (conn, _) = house.words();
    // The server's MAC is not accepted from a client.
    let mac = self::mac(1, b"Responder", b"binding");
    let answer = Redeeming { mac, ..it };
    assert_eq!(house.comes((conn, answer)), Err(Denial::BadCredentials));
}

#[test]
fn the_one_before_is_good_until_the_newer_was_used() {
    let (mut house, _) = house_of_book();
    house.given("phone", 1);
    house.given("phone", 2);
    assert!(house.is_let_in("phone", 1) && house.is_let_in("phone", 1));
    assert!(house.is_let_in("phone", 2));
    assert!(!house.is_let_in("phone", 1));
    house.given("phone", 3);
    house.given("phone", 4);
    assert!(!house.is_let_in("phone", 2), "two at the most");
    assert!(house.is_let_in("phone", 3) && house.is_let_in("phone", 4));
    let (conn, it) = house.redeeming("phone", 4);
    house.comes((conn, Redeeming { invalidates: true, ..it })).expect("once more");
    assert!(!house.is_let_in("phone", 4), "it was to be the last time");
}

#[test]
fn another_password_ends_all_tokens_and_too_many_devices_the_oldest() {
    let (mut house, book) = house_of_book();
    for (agent, secret) in [("a", 1), ("b", 2), ("c", 3)] {
        house.given(agent, secret);
        house.pass_s(1);
    }
    house.given("a", 4);
    house.pass_s(1);
    house.given("d", 5);
    assert!(!house.is_let_in("b", 2), "it was given first, since a has a newer one");
    assert!(house.is_let_in("a", 4) && house.is_let_in("c", 3) && house.is_let_in("d", 5));
    book.epoch.fetch_add(1, Ordering::Relaxed);
    for (agent, secret) in [("a", 4), ("c", 3), ("d", 5)] {
        assert!(!house.is_let_in(agent, secret));
    }
    house.given("a", 6);
    assert!(house.is_let_in("a", 6) && !house.is_let_in("a", 4), "of this epoch alone");
}

#[test]
fn a_token_opens_no_listener_that_takes_no_passwords() {
    let (mut house, _) = house_of_book();
    assert!(house.given("phone", 1) > 0);
    let (conn, mut redeeming) = house.redeeming("phone", 1);
    redeeming.login.door = NO_PASSWORDS;
    assert_eq!(house.comes((conn, redeeming)).map(|_| ()), Err(Denial::BadMethod));
    assert!(house.is_let_in("phone", 1), "and is as good as before at another one");
}

#[test]
fn who_came_without_a_password_is_given_no_token() {
    let (mut house, _) = house_of_book();
    let (conn, login) = house.words();
    let login = Login { certificate: Some("ann".into()), ..login };
    let told = house.told(conn, ChatRequest::Login(Box::new(login)));
    let [ChatDelivery::LoggedIn(it)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(house.wants(conn, it.session, "phone", 1), 0);
    assert!(!house.is_let_in("phone", 1));
    // A device that logged in by a token gets the next one.
    assert!(house.given("desk", 2) > 0);
    let redeeming = house.redeeming("desk", 2);
    let conn = redeeming.0;
    let it = house.comes(redeeming).expect("let in");
    assert!(house.wants(conn, it.session, "desk", 3) > 0);
}

#[test]
fn a_device_revokes_its_own_tokens_and_no_others() {
    let (mut house, _) = house_of_book();
    house.given("desk", 1);
    let (conn, login) = house.words();
    let password = Some(b"secret"[..].into());
    let login = Login { password, device: "tv".into(), binds: false, ..login };
    let told = house.told(conn, ChatRequest::Login(Box::new(login)));
    let [ChatDelivery::LoggedIn(it)] = &told[..] else { panic!("{told:?}") };
    let from = (conn, it.session);
    // Without an id the device's name is used.
    let given = house.token(from, None, Some(FastSecret([2; 32])));
    assert!(matches!(given, FastOutcome::Given { .. }), "{given:?}");
    assert!(house.is_let_in("tv", 2) && house.is_let_in("desk", 1));
    assert_eq!(house.token(from, None, None), FastOutcome::Revoked);
    assert!(!house.is_let_in("tv", 2) && house.is_let_in("desk", 1));
    assert_eq!(house.token(from, None, None), FastOutcome::Revoked, "retries succeed");
}
