//! Devices that another service has authenticated: their account, their time, and their shard.

mod house;

use chat::Settings;
use house::House;
use house::plain::{self, HOME};
use model::account::AccountAddress;
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::access::*;
use model::service::{Request, Service};
use model::session::Denial;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ann is account 7 of the book, whose sessions end below an epoch.
#[derive(Default)]
struct Book {
    epoch: AtomicU64,
    version: AtomicU64,
}

struct Key7(Arc<Book>);

impl Access for Key7 {
    fn admit(&self, _: u32, _: &Question) -> Admission {
        panic!("it has shown who it is")
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn holds(&self, user: &str, account: Option<GrantedAccount>) -> bool {
        let epoch = self.0.epoch.load(Ordering::Relaxed);
        user == "ann" && account.is_some_and(|it| it.uid == 7 && it.epoch >= epoch)
    }

    fn owner(&self, user: &str) -> NameOwner {
        if user == "ann" { NameOwner::Account(7) } else { NameOwner::Unknown }
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed)
    }
}

fn ann() -> AccountAddress {
    AccountAddress::parse("ann", "a.example").expect("right")
}

fn entering(user: &str, account: GrantedAccount, until_s: u32) -> ChatRequest {
    let address = AccountAddress::parse(user, "a.example").expect("right");
    let login = Login { protocol: "mqtt5", ..plain::login(address, "phone") };
    ChatRequest::Enter(Box::new(GrantedLogin { login, user: user.into(), account, until_s }))
}

const GRANTED: GrantedAccount = GrantedAccount { uid: 7, epoch: 3 };

fn home() -> ShardId {
    entering("ann", GRANTED, 0).owner(ShardId(9), (HOME, 2))
}

fn other() -> ShardId {
    ShardId(1 - home().0)
}

/// One of two shards.
fn house_of(shard: ShardId) -> (House, Arc<Book>) {
    let book = Arc::new(Book::default());
    let access = Arc::new(Key7(book.clone()));
    (House::of(Settings { access, ..plain::settings(shard, 2) }), book)
}

impl House {
    fn session(&mut self, from: ConnRef) -> SessionRef {
        match &self.ask(from, entering("ann", GRANTED, 0))[..] {
            [(to, ChatDelivery::LoggedIn(told))] if *to == from => told.session,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_was_let_in_elsewhere_is_not_asked_again_and_is_served_from_another_shard() {
    let (mut house, _) = house_of(home());
    let from = house.conn(other());
    let session = house.session(from);
    assert_eq!(session.shard(), home());
    let mut pull = ChatRequest::Pull { session, number: 1, after: 0, count: 5 };
    assert_eq!(pull.owner(other(), (HOME, 2)), home(), "requests find their shard");
    assert_eq!((pull.session(), pull.number_mut().copied()), (Some(session), Some(1)));
    let told = house.ask(from, pull.clone());
    assert!(matches!(&told[..], [(to, ChatDelivery::Page(_))] if *to == from), "{told:?}");
    let stranger = house.conn(home());
    let stranger = house.ask(stranger, pull);
    assert!(!stranger.iter().any(|(_, word)| matches!(word, ChatDelivery::Page(_))));
    for here in [ChatRequest::Gone, ChatRequest::Proceed(Box::default())] {
        assert_eq!(here.owner(other(), (HOME, 2)), other());
    }
}

#[test]
fn a_grant_that_does_not_hold_any_more_lets_nobody_in() {
    let refusals = [
        ("ann", GrantedAccount { uid: 8, ..GRANTED }, 0, Denial::NotAuthorized),
        ("bob", GRANTED, 0, Denial::NotAuthorized),
        ("ann", GRANTED, 1_700_000_000, Denial::NotAuthorized),
        ("ann", GrantedAccount { epoch: 1, ..GRANTED }, 0, Denial::NotAuthorized),
    ];
    for (user, account, until_s, why) in refusals {
        let (mut house, book) = house_of(home());
        book.epoch.store(2, Ordering::Relaxed);
        let from = house.conn(other());
        let told = house.ask(from, entering(user, account, until_s));
        let [(_, ChatDelivery::Refused(refused))] = &told[..] else { panic!("{told:?}") };
        assert_eq!((refused.why, refused.retry_after_ms), (why, 0), "{user} {account:?}");
    }
}

#[test]
fn an_order_that_ends_the_accounts_sessions_ends_this_one_too() {
    let (mut house, book) = house_of(home());
    let from = house.conn(other());
    house.session(from);
    book.epoch.store(4, Ordering::Relaxed);
    book.version.store(1, Ordering::Relaxed);
    let told = house.rest();
    let [(to, ChatDelivery::End(end))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*to, end.why), (from, Denial::NotAuthorized));
}

#[test]
fn a_session_whose_connection_has_gone_is_closed_where_it_lives() {
    let (mut house, _) = house_of(home());
    let from = house.conn(other());
    let session = house.session(from);
    let told = LoggedIn {
        session,
        account: model::account::AccountId(7),
        address: ann(),
        head: 0,
        cursor: 0,
        server_ms: 1,
        data: None,
    };
    // A delivery for a closed connection is returned to the connection's shard.
    let (mut there, _) = house_of(other());
    let word = ChatDelivery::LoggedIn(Box::new(told.clone()));
    there.chat.undelivered(there.now, from, word.clone(), &mut there.fx);
    let closed = ChatRequest::Closed { session, reason: CloseReason::PeerClosed };
    assert_eq!(there.fx.requests, [(from, closed.clone())]);
    assert_eq!(Request::Chat(closed.clone()).owner(other(), (HOME, 2)), home());
    house.ask(from, closed);
    assert!(house.chat.identity(from, subject(session)).is_none());
    // On its own shard it is handled at once.
    let from = house.conn(home());
    let session = house.session(from);
    let word = ChatDelivery::LoggedIn(Box::new(LoggedIn { session, ..told }));
    house.chat.undelivered(house.now, from, word, &mut house.fx);
    assert!(house.fx.requests.is_empty());
    assert!(house.chat.identity(from, subject(session)).is_none());
}

fn subject(session: SessionRef) -> model::ports::trace::TraceSubject {
    let kind = model::service::ServiceKind::Chat;
    model::ports::trace::TraceSubject::Session(kind, session)
}
