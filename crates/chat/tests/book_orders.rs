//! Orders to the account book: which are accepted, and which sessions continue after them.

mod house;

use chat::{BookPolicy, Settings};
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::ports::access::{Access, Admission, Grant, GrantedAccount, NameOwner, Question, Who};
use model::ports::requests::{PortReply, PortRequest};
use model::ports::users::*;
use model::service::{Service, ServiceKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A book that tests write: the epoch of each account, whose number is the length of its name.
#[derive(Default)]
struct Book {
    epochs: Mutex<BTreeMap<String, u64>>,
    version: AtomicU64,
    /// End of the rights of new sessions, Unix seconds.
    until_s: AtomicU32,
    /// The versions of the rules by which all sessions were reported as checked.
    renewed: Mutex<Vec<u64>>,
}

impl Book {
    fn put(&self, name: &str, epoch: u64) {
        self.epochs.lock().expect("no panic").insert(name.into(), epoch);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, name: &str) {
        self.epochs.lock().expect("no panic").remove(name);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn account(&self, name: &str) -> Option<GrantedAccount> {
        let epoch = *self.epochs.lock().expect("no panic").get(name)?;
        Some(GrantedAccount { uid: name.len() as u64, epoch })
    }

    fn renewed(&self) -> Vec<u64> {
        std::mem::take(&mut *self.renewed.lock().expect("no panic"))
    }
}

impl Access for Book {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let user = question.user.as_deref();
        let account = user.and_then(|user| self.account(user));
        let until_s = self.until_s.load(Ordering::Relaxed);
        let user = user.map(Into::into);
        Admission::Granted(Grant { user, account, until_s, ..Grant::OPEN }, None)
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn holds(&self, user: &str, account: Option<GrantedAccount>) -> bool {
        account == self.account(user)
    }

    fn owner(&self, user: &str) -> NameOwner {
        self.account(user).map_or(NameOwner::Unknown, |it| NameOwner::Account(it.uid))
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn renewed(&self, _: (ServiceKind, ShardId), version: u64) {
        self.renewed.lock().expect("no panic").push(version);
    }
}

fn opened(registration: Registration) -> (House, Arc<Book>) {
    let book = Arc::new(Book::default());
    ["ann", "bobby"].into_iter().for_each(|name| book.put(name, 1));
    let administrators = ["bobby", "stranger"].map(Into::into).into();
    let policy = BookPolicy { registration, administrators };
    let access: Arc<dyn Access> = book.clone();
    let settings = Settings { access, book: policy, ..plain::settings(ShardId(0), 1) };
    (House::of(settings), book)
}

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn password(text: &str) -> NewPassword {
    NewPassword::new(text).expect("one")
}

type Device = (ConnRef, SessionRef);

impl House {
    fn login(&mut self, name: &str, device: &str) -> Device {
        let conn = self.conn(ShardId(0));
        let login = plain::login(address(name), device);
        let login = Login { password: Some(b"secret"[..].into()), ..login };
        let told = self.ask(conn, ChatRequest::Login(Box::new(login)));
        let session = told.into_iter().find_map(|(_, delivery)| match delivery {
            ChatDelivery::LoggedIn(told) => Some(told.session),
            _ => None,
        });
        (conn, session.expect("let in"))
    }

    /// The order that a request amounts to, with its number; or the fault.
    fn wish(&mut self, who: Device, wish: BookWish) -> Result<(u64, BookOrder), BookFault> {
        let (conn, session) = who;
        let request = BookRequest { session, number: 9, wish };
        let told = self.ask(conn, ChatRequest::Book(Box::new(request)));
        self.order(told, 9)
    }

    fn registers(&mut self, address: AccountAddress) -> Result<(u64, BookOrder), BookFault> {
        let conn = self.conn(ShardId(0));
        let registering = Registering { address, password: password("new"), source: None };
        let told = self.ask(conn, ChatRequest::Register(Box::new(registering)));
        self.order(told, 0)
    }

    fn order(
        &mut self,
        told: Vec<(ConnRef, ChatDelivery)>,
        expected: u32,
    ) -> Result<(u64, BookOrder), BookFault> {
        if let Some((number, PortRequest::Book(order))) = self.fx.port_requests.pop() {
            return Ok((number, *order));
        }
        match told.into_iter().next() {
            Some((_, ChatDelivery::Book { number, answer })) if number == expected => {
                Err(answer.expect_err("no order, and done"))
            }
            other => panic!("{other:?}"),
        }
    }

    /// The book's answer to an order; returns the kinds of deliveries, and their connections.
    fn booked(&mut self, number: u64, answer: BookAnswer) -> Vec<(ConnRef, &'static str)> {
        Service::port_reply(
            &mut self.chat,
            self.now,
            number,
            PortReply::Book(answer),
            &mut self.fx,
        );
        self.told()
    }

    fn told(&mut self) -> Vec<(ConnRef, &'static str)> {
        let told = self.rest().into_iter().map(|(conn, delivery)| match delivery {
            ChatDelivery::Book { answer, .. } if answer.is_ok() => (conn, "done"),
            ChatDelivery::Book { .. } => (conn, "refused"),
            ChatDelivery::End(_) => (conn, "ended"),
            other => panic!("{other:?}"),
        });
        told.collect()
    }
}

#[test]
fn whoever_changes_its_password_stays_and_its_other_devices_end() {
    let (mut house, book) = opened(Registration::Password);
    let (desk, phone) = (house.login("ann", "desk"), house.login("ann", "phone"));
    let wish = BookWish::Password(password("new"));
    let (number, order) = house.wish(desk, wish.clone()).expect("taken");
    let BookOrder::Password { user, account, .. } = order else { panic!("{order:?}") };
    assert_eq!((&*user, account), ("ann", GrantedAccount { uid: 3, epoch: 1 }));
    book.renewed();
    book.put("ann", 2); // the order is done; the walk that follows it comes before the answer
    assert_eq!(house.told(), [(phone.0, "ended")]);
    assert!(book.renewed().is_empty(), "one was not looked at");
    let granted = GrantedAccount { uid: 3, epoch: 2 };
    assert_eq!(house.booked(number, Ok(BookDone::Granted(granted))), [(desk.0, "done")]);
    assert_eq!(book.renewed(), [book.version()], "all were");
    let (_, order) = house.wish(desk, wish).expect("it goes on by its new grant");
    assert!(matches!(order, BookOrder::Password { account, .. } if account == granted));
}

#[test]
fn who_was_kicked_meanwhile_ends_behind_the_answer() {
    let (mut house, book) = opened(Registration::Password);
    let desk = house.login("ann", "desk");
    let (number, _) = house.wish(desk, BookWish::Password(password("new"))).expect("taken");
    book.put("ann", 3);
    assert!(house.told().is_empty());
    let granted = GrantedAccount { uid: 3, epoch: 2 };
    let told = house.booked(number, Ok(BookDone::Granted(granted)));
    assert_eq!(told, [(desk.0, "done"), (desk.0, "ended")]);
    let desk = house.login("ann", "desk");
    let (number, _) = house.wish(desk, BookWish::Password(password("new"))).expect("taken");
    book.put("ann", 4);
    let told = house.booked(number, Err(BookFault::Off));
    assert_eq!(told, [(desk.0, "refused"), (desk.0, "ended")]);
}

#[test]
fn who_gives_its_account_up_hears_so_and_ends() {
    let (mut house, book) = opened(Registration::Open);
    let desk = house.login("ann", "desk");
    let (number, order) = house.wish(desk, BookWish::Leave).expect("taken");
    assert!(matches!(order, BookOrder::Leave { .. }));
    book.remove("ann");
    assert!(house.told().is_empty());
    let told = house.booked(number, Ok(BookDone::Done));
    assert_eq!(told, [(desk.0, "done"), (desk.0, "ended")]);
}

#[test]
fn orders_of_whoever_has_gone_are_forgotten() {
    let (mut house, _) = opened(Registration::Open);
    let (conn, session) = house.login("ann", "desk");
    let (number, _) = house.wish((conn, session), BookWish::Leave).expect("taken");
    let reason = model::close::CloseReason::PeerClosed;
    house.ask(conn, ChatRequest::Closed { session, reason });
    assert!(house.booked(number, Ok(BookDone::Done)).is_empty());
    assert!(house.booked(number, Ok(BookDone::Done)).is_empty(), "answered twice is nothing");
}

#[test]
fn only_what_the_operator_allows_is_ordered_and_one_at_a_time() {
    let change = || BookWish::Password(password("new"));
    let (mut house, _) = opened(Registration::Off);
    let ann = house.login("ann", "desk");
    assert_eq!(house.wish(ann, change()), Err(BookFault::Off));
    assert_eq!(house.wish(ann, BookWish::Leave), Err(BookFault::Off));
    let (mut house, book) = opened(Registration::Password);
    let ann = house.login("ann", "desk");
    assert_eq!(house.wish(ann, BookWish::Leave), Err(BookFault::Off));
    assert!(house.wish(ann, change()).is_ok());
    assert_eq!(house.wish(ann, change()), Err(BookFault::Busy));
    let stranger = house.login("stranger", "desk");
    assert_eq!(house.wish(stranger, change()), Err(BookFault::Off), "not of the book");
    book.until_s.store(u32::MAX, Ordering::Relaxed);
    let by_token = house.login("bobby", "desk");
    assert_eq!(house.wish(by_token, change()), Err(BookFault::Off), "for a time alone");
}

#[test]
fn administrators_alone_order_something_of_others() {
    let (mut house, _) = opened(Registration::Off);
    let may = || BookWish::Operate(OperatorWish::May);
    let ann = house.login("ann", "desk");
    assert_eq!(house.wish(ann, may()), Err(BookFault::Forbidden));
    let stranger = house.login("stranger", "desk");
    assert_eq!(house.wish(stranger, may()), Err(BookFault::Forbidden), "a name is no account");
    let bobby = house.login("bobby", "desk");
    let change = |verb, names: &[&str], new: Option<&str>| {
        let accounts = names.iter().map(|name| address(name)).collect();
        let password = new.map(password);
        BookWish::Operate(OperatorWish::Change(UserChange { verb, accounts, password }))
    };
    let wrong = |result: Result<_, BookFault>| matches!(result, Err(BookFault::Wrong(_)));
    let many = ["x"; BOOK_ACCOUNTS_MAX + 1];
    for bad in [
        change(UserVerb::Remove, &[], None),
        change(UserVerb::Remove, &many, None),
        change(UserVerb::Remove, &["ann"], Some("x")),
        change(UserVerb::Add, &["new"], None),
        change(UserVerb::Add, &["system"], Some("x")),
        change(UserVerb::Add, &["guest-1"], Some("x")),
    ] {
        assert!(wrong(house.wish(bobby, bad.clone())), "{bad:?}");
    }
    let both = change(UserVerb::Disable, &["ann", "ann@b.example"], None);
    let (number, order) = house.wish(bobby, both).expect("taken");
    let BookOrder::Operate { by, users, .. } = order else { panic!("{order:?}") };
    assert_eq!(&*by, "bobby");
    let users: Vec<&str> = users.iter().map(|it| &**it).collect();
    assert_eq!(users, ["ann", "ann@b.example"], "as they log in");
    assert_eq!(house.booked(number, Ok(BookDone::Done)), [(bobby.0, "done")]);
}

#[test]
fn a_name_is_registered_that_nobody_has() {
    let (mut house, _) = opened(Registration::Open);
    house.login("stranger", "desk");
    assert_eq!(house.registers(address("ann")), Err(BookFault::Conflict));
    assert_eq!(house.registers(address("stranger")), Err(BookFault::Conflict), "by no proof");
    for name in ["system", "guest-7", "x@conference.a.example"] {
        let result = house.registers(address(name));
        assert!(matches!(result, Err(BookFault::Wrong(_))), "{name}: {result:?}");
    }
    let (number, order) = house.registers(address("carol")).expect("taken");
    assert!(matches!(order, BookOrder::Register { user, .. } if &*user == "carol"));
    let told = house.booked(number, Err(BookFault::Rate));
    assert_eq!(told.len(), 1);
    let (mut house, _) = opened(Registration::Password);
    assert_eq!(house.registers(address("carol")), Err(BookFault::Off));
}

#[test]
fn accounts_that_are_here_are_counted_and_some_are_named() {
    use model::ports::chat::{ChatAnswer, ChatCommand};
    let (mut house, _) = opened(Registration::Off);
    for (name, device) in [("ann", "desk"), ("ann", "phone"), ("bobby", "desk")] {
        house.login(name, device);
    }
    let mut online = |count| {
        Service::command(&mut house.chat, house.now, 1, ChatCommand::Online(count), &mut house.fx);
        house.fx.answers.pop().expect("at once").1
    };
    assert_eq!(online(0), ChatAnswer::Online(2, vec![]));
    assert_eq!(online(1), ChatAnswer::Online(2, vec![address("ann")]));
    assert_eq!(online(9), ChatAnswer::Online(2, vec![address("ann"), address("bobby")]));
}

#[test]
fn an_end_says_since_when_the_device_was_logged_in() {
    let (mut house, _) = opened(Registration::Off);
    let (conn, session) = house.login("ann", "desk");
    let since_ms = house.now.wall_ms;
    house.now.wall_ms += 90_000;
    let reason = model::close::CloseReason::PeerClosed;
    house.ask(conn, ChatRequest::Closed { session, reason });
    let [parting] = &house.fx.partings[..] else { panic!("{:?}", house.fx.partings) };
    assert_eq!((parting.conn, parting.since_ms), (conn, since_ms));
    assert_eq!((&*parting.client, parting.user.as_deref()), ("desk", Some("ann@a.example")));
}
