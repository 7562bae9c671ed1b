//! Orders to the book, over the desk's own thread and a log that is played.

use super::tests::{Place, settings};
use super::*;
use crate::config::AccessSection;
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatDelivery, Contact, ContactsPage};
use model::limits::ChatLimits;
use model::link::Source;
use model::ports::access::GrantedAccount;
use model::ports::chat::{ChatAccountStatus, ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::control::{Answer, Command, Control, Reply};
use model::ports::users::{
    Announcement, Authority, BookAnswer, BookDone, BookFault, BookOrder, NewPassword, OperatorWish,
    UserChange, UserOrder, UserState, UserVerb,
};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};

const BY: (ServiceKind, ShardId) = (ServiceKind::Chat, ShardId(1));

/// Two are here.
struct Shards;

impl Control for Shards {
    fn ask(&self, command: Command, reply: Reply) {
        let Command::Chat(command) = command else { panic!("{command:?}") };
        let page = |listed: &[bool], more| {
            let contact = |&is_listed: &bool| {
                Arc::new(Contact { is_listed, ..Contact::nobody(address("carol")) })
            };
            let contacts = listed.iter().map(contact).collect();
            let (number, is_anew, since, upto) = (0, true, 5, 6);
            ContactsPage { number, is_anew, since, contacts, upto, more }
        };
        reply(Answer::Chat(match command {
            ChatCommand::Online(_) => ChatAnswer::Online(2, ["ann", "bob"].map(address).into()),
            ChatCommand::Account(of) if of == address("ann") => {
                let (id, made_s, head, muted_until_s) = (AccountId(1), 1, 1, 0);
                let devices = vec!["desk".into()];
                let status = ChatAccountStatus { id, made_s, devices, head, muted_until_s };
                ChatAnswer::Account(Some(status))
            }
            ChatCommand::Account(_) => ChatAnswer::Account(None),
            ChatCommand::Announce(it) if &*it.body == "too much" => ChatAnswer::Busy,
            ChatCommand::Announce(_) => ChatAnswer::Announcing,
            ChatCommand::Errand(errand) => {
                let ErrandWhat::Contacts(range) = errand.what else { panic!("{errand:?}") };
                let page = match range.after {
                    0 => page(&[true, false, true], true),
                    _ => page(&[true], false),
                };
                ChatAnswer::Told(Some(Box::new(ChatDelivery::ContactsPage(Box::new(page)))))
            }
            other => panic!("{other:?}"),
        }));
    }

    fn next_id(&self) -> model::id::MessageId {
        unreachable!("nothing is sent")
    }
}

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn password(text: &str) -> NewPassword {
    NewPassword::new(text).expect("one")
}

/// A desk whose answers are heard.
struct Desk {
    place: Place,
    answers: Receiver<(u64, BookAnswer)>,
    notes: Receiver<admin::BookNote>,
}

impl Desk {
    fn new() -> Desk {
        let light = AccessSection {
            hash_cost: guard::passwords::Cost::Light,
            superusers: vec!["root".into()],
            ..AccessSection::default()
        };
        let administrators = ["boss", "chief"].map(str::to_owned).into();
        let place = Place::new(Settings { administrators, ..settings(light) });
        let ((tell, answers), (note, notes)) = (sync_channel(9), sync_channel(9));
        let limits = ChatLimits {
            registrations_a_source_max: 6,
            passwords_an_account_max: 2,
            ..ChatLimits::default()
        };
        let ways = OrderWays {
            tell: Box::new(move |by, number, answer| {
                assert_eq!(by, BY);
                tell.send((number, answer)).expect("somebody listens");
            }),
            control: Arc::new(Shards),
            limits: Mutex::new(limits),
        };
        place.entrance.take_orders(ways).expect("a thread");
        place.entrance.tell_orders(Box::new(move |it| note.send(it).expect("somebody listens")));
        Desk { place, answers, notes }
    }

    fn order(&self, order: BookOrder) -> BookAnswer {
        self.place.entrance.order(BY, 5, Box::new(order)).expect("room");
        let (number, answer) = self.answers.recv().expect("an answer");
        assert_eq!(number, 5);
        answer
    }

    fn put(&self, name: &str, new: Option<&str>) -> UserState {
        let (is_super, is_disabled, rules) = Default::default();
        let password = new.map(Into::into);
        let order = UserOrder { name: name.into(), password, is_super, is_disabled, rules };
        self.place.entrance.users().put(order, Authority::Admin).expect("it is put")
    }

    fn user(&self, name: &str) -> Option<UserState> {
        self.place.entrance.users().user(name).expect("it is read")
    }

    fn has(&self, name: &str, word: &str) -> bool {
        let people = self.place.entrance.console_people();
        people.check(name, word).expect("asked").is_some()
    }

    fn note(&self) -> (Option<String>, &'static str, Option<&'static str>) {
        let note = self.notes.try_recv().expect("it was told before it was answered");
        (note.by, note.action, note.code)
    }

    fn registers(&self, user: &str, source: Option<Source>) -> BookAnswer {
        self.order(BookOrder::Register { user: user.into(), password: password("new"), source })
    }

    fn operates(&self, by: &UserState, verb: UserVerb, users: &[&str]) -> BookAnswer {
        let wants = matches!(verb, UserVerb::Add | UserVerb::SetPassword);
        let password = wants.then(|| password("other"));
        let accounts = users.iter().map(|name| address(name)).collect();
        let wish = OperatorWish::Change(UserChange { verb, accounts, password });
        let users = users.iter().map(|name| (*name).into()).collect();
        self.order(BookOrder::Operate { by: (*by.name).into(), account: of(by), wish, users })
    }
}

fn of(user: &UserState) -> GrantedAccount {
    GrantedAccount { uid: user.uid, epoch: user.epoch }
}

#[test]
fn a_password_is_changed_by_whom_the_account_still_is() {
    let desk = Desk::new();
    let ann = desk.put("ann", Some("old"));
    let change = |account| {
        let (user, password) = ("ann".into(), password("new"));
        desk.order(BookOrder::Password { user, account, password })
    };
    let old = GrantedAccount { epoch: ann.epoch + 7, ..of(&ann) };
    assert_eq!(change(old), Err(BookFault::Off), "kicked meanwhile");
    assert!(desk.has("ann", "old") && desk.notes.try_recv().is_err());
    let granted = GrantedAccount { epoch: ann.epoch + 1, ..of(&ann) };
    assert_eq!(change(of(&ann)), Ok(BookDone::Granted(granted)));
    assert!(desk.has("ann", "new") && !desk.has("ann", "old"));
    assert_eq!(desk.note(), (None, "own password", None));
    assert_eq!(change(granted), Err(BookFault::Rate));
    let bob = desk.put("bob", None);
    let (user, password) = ("bob".into(), password("new"));
    let answer = desk.order(BookOrder::Password { user, account: of(&bob), password });
    assert_eq!(answer, Err(BookFault::Off), "whom a token alone speaks for");
}

#[test]
fn an_account_is_given_up_by_whom_it_still_is() {
    let desk = Desk::new();
    let ann = desk.put("ann", Some("old"));
    let leave = |account| desk.order(BookOrder::Leave { user: "ann".into(), account });
    assert_eq!(leave(GrantedAccount { uid: 0, ..of(&ann) }), Err(BookFault::Off));
    assert_eq!(leave(of(&ann)), Ok(BookDone::Done));
    assert!(desk.user("ann").is_none());
    assert_eq!(leave(of(&ann)), Err(BookFault::Off));
}

#[test]
fn a_name_is_registered_that_nobody_has_and_of_which_nothing_is_said() {
    let desk = Desk::new();
    desk.put("ann", Some("old"));
    let near = None;
    for name in ["ann", "root", "boss"] {
        assert_eq!(desk.registers(name, near), Err(BookFault::Conflict), "{name}");
    }
    assert_eq!(desk.registers("carol", near), Ok(BookDone::Done));
    assert!(desk.has("carol", "new") && desk.has("ann", "old"));
    assert_eq!(desk.note(), (None, "register", None));
    let far = Some(Source::of([10, 0, 0, 7].into()));
    let made: Vec<bool> = (0..8).map(|n| desk.registers(&format!("u{n}"), far).is_ok()).collect();
    assert_eq!(made, [true, true, true, true, true, true, false, false]);
    assert_eq!(desk.registers("u8", far), Err(BookFault::Rate));
    assert!(desk.user("u7").is_none());
}

#[test]
fn an_administrator_does_what_the_api_does_and_it_is_told() {
    let desk = Desk::new();
    let boss = desk.put("boss", Some("secret"));
    let does = |verb, users: &[&str]| desk.operates(&boss, verb, users);
    let by = || Some("boss".to_owned());
    assert_eq!(does(UserVerb::Add, &["eve"]), Ok(BookDone::Done));
    assert_eq!(desk.note(), (by(), "add", None));
    assert_eq!(does(UserVerb::Add, &["eve"]), Err(BookFault::Conflict));
    assert_eq!(desk.note(), (by(), "add", Some("conflict")));
    let eve = desk.user("eve").expect("made");
    assert_eq!(does(UserVerb::End, &["eve"]), Ok(BookDone::Done));
    assert!(desk.user("eve").expect("there").epoch > eve.epoch);
    assert_eq!(does(UserVerb::Disable, &["eve"]), Ok(BookDone::Done));
    assert!(desk.user("eve").expect("there").is_disabled);
    assert_eq!(does(UserVerb::Enable, &["eve"]), Ok(BookDone::Done));
    assert!(!desk.user("eve").expect("there").is_disabled);
    assert_eq!(does(UserVerb::SetPassword, &["eve"]), Ok(BookDone::Done));
    assert!(desk.has("eve", "other"));
    let gone = does(UserVerb::Remove, &["eve", "nobody", "boss"]);
    assert_eq!(gone, Err(BookFault::Unknown("nobody".into())));
    assert!(desk.user("eve").is_none() && desk.user("boss").is_some(), "up to the first");
    for verb in [UserVerb::End, UserVerb::Disable, UserVerb::Enable, UserVerb::SetPassword] {
        assert_eq!(does(verb, &["nobody"]), Err(BookFault::Unknown("nobody".into())));
        assert!(desk.user("nobody").is_none(), "{verb:?}");
    }
    let ask = |wish| {
        let (by, users) = ("boss".into(), Vec::new());
        desk.order(BookOrder::Operate { by, account: of(&boss), wish, users })
    };
    assert_eq!(ask(OperatorWish::May), Ok(BookDone::Done));
    assert_eq!(ask(OperatorWish::Registered), Ok(BookDone::Count(1)));
    let accounts = vec![address("ann")];
    assert_eq!(ask(OperatorWish::Online(1)), Ok(BookDone::Online { count: 2, accounts }));
    let devices = vec!["desk".into()];
    let statistics = |name| ask(OperatorWish::Statistics(address(name)));
    assert_eq!(statistics("ann"), Ok(BookDone::Statistics { contacts: 3, devices }));
    assert_eq!(statistics("eve"), Err(BookFault::Unknown("eve@a.example".into())));
    while desk.notes.try_recv().is_ok() {}
    for (body, result, code) in
        [("now", Ok(BookDone::Done), None), ("too much", Err(BookFault::Busy), Some("busy"))]
    {
        let announcement = Arc::new(Announcement::new("", body).expect("right"));
        assert_eq!(ask(OperatorWish::Announce(announcement)), result);
        assert_eq!(desk.note(), (Some("boss".into()), "announce", code));
    }
}

#[test]
fn an_administrator_changes_nobody_else_who_administers_and_makes_nobody_who_does() {
    let desk = Desk::new();
    let boss = desk.put("boss", Some("secret"));
    desk.put("eve", Some("open"));
    let order = UserOrder { is_super: Some(true), ..order_desk::order_for("eve") };
    desk.place.entrance.users().put(order, Authority::Admin).expect("it is put");
    let verbs = [
        UserVerb::Add,
        UserVerb::Remove,
        UserVerb::End,
        UserVerb::Disable,
        UserVerb::Enable,
        UserVerb::SetPassword,
    ];
    // Named in the configuration and there; named and not there; a superuser of the book.
    for name in ["boss", "chief", "root", "eve"] {
        let before = desk.user(name);
        for verb in verbs {
            let answer = desk.operates(&boss, verb, &[name]);
            assert_eq!(answer, Err(BookFault::Forbidden), "{name} {verb:?}");
            assert_eq!(desk.note(), (Some("boss".into()), verb.name(), Some("forbidden")));
        }
        assert_eq!(desk.user(name), before);
    }
    assert!(desk.has("boss", "secret") && desk.has("eve", "open"));
    let (user, account, password) = ("boss".into(), of(&boss), password("new"));
    let own = desk.order(BookOrder::Password { user, account, password });
    assert!(own.is_ok(), "everybody changes the own password: {own:?}");
}

#[test]
fn who_was_an_administrator_orders_nothing_any_more() {
    let desk = Desk::new();
    let boss = desk.put("boss", Some("secret"));
    desk.put("boss", Some("stolen, so changed"));
    assert_eq!(desk.operates(&boss, UserVerb::Add, &["eve"]), Err(BookFault::Forbidden));
    assert!(desk.user("eve").is_none());
    assert_eq!(desk.note(), (Some("boss".into()), "add", Some("forbidden")));
}

#[test]
fn orders_are_refused_before_the_desk_is_open_and_behind_its_end() {
    let place = Place::new(settings(AccessSection::default()));
    let order = || {
        Box::new(BookOrder::Leave {
            user: "ann".into(),
            account: GrantedAccount { uid: 1, epoch: 0 },
        })
    };
    assert_eq!(place.entrance.order(BY, 1, order()), Err(BookFault::Busy));
    let desk = Desk::new();
    desk.place.entrance.close();
    assert_eq!(desk.place.entrance.order(BY, 1, order()), Err(BookFault::Busy));
}
