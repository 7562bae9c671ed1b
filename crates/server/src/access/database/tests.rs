//! A book that a played database keeps, over played logs, followed look by look.

use super::super::tests::{Place, Rows, granted, order, question, refused, settings};
use super::*;
use crate::config::AccessSection;
use model::ports::databases::accounts::AccountNews;
use model::ports::log::Done;
use model::ports::users::{Authority, ImportForm, UserOrder, UserState};
use model::session::Denial;
use std::collections::BTreeMap;

/// A second of the tests.
const NOW_S: u32 = 1_000;

/// A database that is a map.
#[derive(Default)]
pub(super) struct PlayedTables(Mutex<PlayedDatabase>);

#[derive(Clone, Default)]
struct PlayedDatabase {
    id: u64,
    rows: BTreeMap<String, AccountColumns>,
    last_uid: u64,
    news: Vec<AccountNews>,
    /// The last change that is older than any writer.
    settled: u64,
    /// Why every call fails, if they do.
    fault: Option<DatabaseFault>,
    /// Commits that somebody else is faster than.
    conflicts: u32,
}

impl PlayedDatabase {
    /// Another program changes a row, or takes it away, and says so.
    fn change(
        &mut self,
        name: &str,
        change: impl FnOnce(Option<AccountColumns>) -> Option<AccountColumns>,
    ) {
        let before = self.rows.remove(name);
        if let Some(mut row) = change(before) {
            if row.uid == 0 {
                self.last_uid += 1;
                row.uid = self.last_uid;
            }
            self.last_uid = self.last_uid.max(row.uid);
            self.rows.insert(name.into(), row);
        }
        let seq = self.news.last().map_or(1, |last| last.seq + 1);
        self.settled = seq;
        self.news.push(AccountNews { seq, name: name.into() });
    }
}

impl PlayedTables {
    fn with(id: u64) -> Arc<PlayedTables> {
        Arc::new(PlayedTables(Mutex::new(PlayedDatabase { id, ..PlayedDatabase::default() })))
    }

    fn edit<T>(&self, edit: impl FnOnce(&mut PlayedDatabase) -> T) -> T {
        edit(&mut self.0.lock().expect("no panic"))
    }

    fn ask<T>(&self, ask: impl FnOnce(&mut PlayedDatabase) -> T) -> Result<T, DatabaseFault> {
        self.edit(|all| match &all.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(ask(all)),
        })
    }

    fn row(&self, name: &str) -> AccountColumns {
        self.edit(|all| all.rows[name].clone())
    }
}

impl AccountTables for PlayedTables {
    fn open(&self) -> Result<u64, DatabaseFault> {
        self.ask(|all| all.id)
    }

    fn count(&self) -> Result<u64, DatabaseFault> {
        self.ask(|all| all.rows.len() as u64)
    }

    fn page(&self, behind_uid: u64, count: usize) -> Result<Vec<AccountColumns>, DatabaseFault> {
        self.ask(|all| {
            let mut rows: Vec<_> =
                all.rows.values().filter(|row| row.uid > behind_uid).cloned().collect();
            rows.sort_by_key(|row| row.uid);
            rows.truncate(count.min(2));
            rows
        })
    }

    fn find(&self, names: &[&str]) -> Result<Vec<AccountColumns>, DatabaseFault> {
        self.ask(|all| names.iter().filter_map(|name| all.rows.get(*name).cloned()).collect())
    }

    fn commit(&self, changes: &[AccountChange]) -> Result<Vec<u64>, DatabaseFault> {
        let is_faster = self.ask(|all| {
            let was = all.conflicts;
            all.conflicts = was.saturating_sub(1);
            was > 0 || changes.iter().any(|it| all.rows.get(it.name()) != it.before.as_ref())
        })?;
        if is_faster {
            return Err(DatabaseFault::Conflict);
        }
        self.ask(|all| {
            let mut after = all.clone();
            for it in changes {
                let uid = it.after.as_ref().map_or(0, |row| row.uid);
                let is_its = |row: &AccountColumns| row.uid == uid && row.name != it.name();
                if uid != 0 && after.rows.values().any(is_its) {
                    return Err(DatabaseFault::Conflict);
                }
                after.change(it.name(), |_| it.after.clone());
            }
            *all = after;
            let uid = |it: &AccountChange| all.rows.get(it.name()).map_or(0, |row| row.uid);
            Ok(changes.iter().map(uid).collect())
        })?
    }

    fn last_news(&self) -> Result<u64, DatabaseFault> {
        self.ask(|all| all.news.last().map_or(0, |last| last.seq))
    }

    fn settled_news(&self, _: u32) -> Result<u64, DatabaseFault> {
        self.ask(|all| all.settled)
    }

    fn news(&self, behind: u64, count: usize) -> Result<Vec<AccountNews>, DatabaseFault> {
        self.ask(|all| all.news.iter().filter(|it| it.seq > behind).take(count).cloned().collect())
    }

    fn forget_news(&self, _: u32) -> Result<bool, DatabaseFault> {
        self.ask(|_| false)
    }
}

/// A server over a database, with the follower in hand.
struct Server {
    place: Place,
    follower: Follower,
}

impl Server {
    fn new(tables: &Arc<PlayedTables>) -> Server {
        Server::over(tables, Rows::default())
    }

    fn over(tables: &Arc<PlayedTables>, rows: Rows) -> Server {
        let tables = Some(tables.clone() as Arc<dyn AccountTables>);
        let section = AccessSection { users_max: 9, ..AccessSection::default() };
        let settings =
            crate::access::Settings { chat_domain: "a.example".into(), ..settings(section) };
        let place = Place::with_tables(settings, Ok(Done::Written), rows, tables);
        let book = place.entrance.shared.book.clone();
        let database = book.database.clone().expect("there is one");
        Server { follower: Follower::new(book, database), place }
    }

    fn looked(mut self) -> Server {
        assert_eq!(self.look(), Ok(()));
        self
    }

    fn look(&mut self) -> Result<(), UserFault> {
        self.follower.turn(NOW_S)
    }

    fn put(&self, order: UserOrder) -> Result<UserState, UserFault> {
        self.place.entrance.users().put(order, Authority::Admin)
    }

    fn uid(&self, name: &str) -> Option<u64> {
        self.place.entrance.users().user(name).expect("read").map(|user| user.uid)
    }

    /// As who somebody comes in, or why not.
    fn come(&self, name: &str, password: &str) -> Result<u64, Denial> {
        match self.place.ask(question(name, password)) {
            Admission::Refused(why) => Err(why),
            other => Ok(granted(other).account.expect("of the book").uid),
        }
    }

    fn counts(&self) -> DatabaseCounts {
        self.place.entrance.database_counts().expect("there is one")
    }
}

use model::ports::access::Admission;

fn password(password: &str) -> UserOrder {
    UserOrder { password: Some(password.into()), ..order("ann") }
}

fn away() -> Option<DatabaseFault> {
    Some(DatabaseFault::Away("gone".into()))
}

#[test]
fn a_change_is_in_the_database_before_it_holds_here() {
    let tables = PlayedTables::with(7);
    let server = Server::new(&tables).looked();
    let ann = server.put(order("ann")).expect("put");
    assert_eq!((ann.uid, tables.row("ann").uid, server.come("ann", "secret")), (1, 1, Ok(1)));
    assert_eq!(server.put(password("other")).map(|user| user.epoch), Ok(2));
    assert_eq!((tables.row("ann").epoch, server.come("ann", "other")), (2, Ok(1)));
    assert_eq!(server.come("ann", "secret"), Err(Denial::BadCredentials));
    assert_eq!(server.place.entrance.users().remove("ann", Authority::Admin), Ok(true));
    assert!(tables.edit(|all| all.rows.is_empty()) && server.uid("ann").is_none());
    assert_eq!(server.put(order("ann")).map(|user| user.uid), Ok(2), "never the same number");
    assert_eq!(server.place.entrance.users().remove("bob", Authority::Admin), Ok(false));
}

#[test]
fn a_database_that_is_away_lets_in_and_changes_nothing() {
    let tables = PlayedTables::with(7);
    let mut server = Server::new(&tables).looked();
    server.put(order("ann")).expect("put");
    tables.edit(|all| all.fault = away());
    let fault = server.put(password("other")).expect_err("away");
    assert!(matches!(&fault, UserFault::DatabaseFailed(why) if why.contains("gone")), "{fault:?}");
    assert_eq!((server.come("ann", "secret"), server.counts().up), (Ok(1), 0));
    assert!(server.look().is_err() && server.counts().faults >= 2);
    assert!(server.place.entrance.users().kick("ann", Authority::Admin).is_err());
    assert_eq!(server.counts().refused, 1, "nobody waits for one that is known to be away");
    // A restart goes on with the copy; strangers are strangers, for all were read once.
    let again = Server::over(&tables, server.place.rows.clone());
    assert_eq!((again.come("ann", "secret"), again.counts().whole), (Ok(1), 1));
    assert_eq!(again.come("bob", "x"), Err(Denial::BadCredentials));
    tables.edit(|all| all.fault = None);
    let again = again.looked();
    assert!(again.put(password("other")).is_ok() && again.counts().up == 1);
}

#[test]
fn without_a_copy_nobody_is_called_a_stranger() {
    let tables = PlayedTables::with(7);
    let other = Server::new(&tables).looked();
    for name in ["ann", "bob", "cem", "dan", "eve"] {
        other.put(order(name)).expect("put");
    }
    tables.edit(|all| all.fault = away());
    let mut server = Server::new(&tables);
    assert!(server.look().is_err());
    assert_eq!(server.come("ann", "secret"), Err(Denial::Unavailable));
    assert!(server.put(order("fay")).is_err());
    tables.edit(|all| all.fault = None);
    assert_eq!(server.look(), Ok(()));
    assert_eq!((server.come("ann", "secret"), server.counts().loaded), (Ok(1), 5));
    assert_eq!(server.come("gus", "x"), Err(Denial::BadCredentials));
}

#[test]
fn what_others_change_is_followed() {
    let tables = PlayedTables::with(7);
    let (one, mut other) = (Server::new(&tables).looked(), Server::new(&tables).looked());
    one.put(order("ann")).expect("put");
    assert_eq!(other.come("ann", "secret"), Err(Denial::BadCredentials), "not yet");
    assert_eq!((other.look(), other.come("ann", "secret")), (Ok(()), Ok(1)));
    let held = granted(other.place.ask(question("ann", "secret"))).account;
    one.put(password("other")).expect("put");
    assert_eq!(other.look(), Ok(()));
    assert!(!other.place.entrance.access().holds("ann", held), "its sessions end");
    assert_eq!(other.come("ann", "other"), Ok(1));
    one.place.entrance.users().remove("ann", Authority::Admin).expect("removed");
    one.put(order("ann")).expect("put");
    assert_eq!((other.look(), other.come("ann", "secret")), (Ok(()), Ok(2)));
    one.place.entrance.users().remove("ann", Authority::Admin).expect("removed");
    assert_eq!((other.look(), other.uid("ann")), (Ok(()), None));
    assert_eq!(other.counts().news, 5);
}

#[test]
fn a_change_that_comes_into_sight_behind_a_start_is_followed_whatever_came_before_it() {
    let tables = PlayedTables::with(7);
    Server::new(&tables).looked().put(order("ann")).expect("put");
    let row = |name: &str, uid| AccountColumns { name: name.into(), uid, ..tables.row("ann") };
    let (bob, cem) = (row("bob", 2), row("cem", 3));
    // Somebody draws a number for bob's row, and somebody else finishes with the next one first.
    tables.edit(|all| {
        let settled = all.settled;
        all.news.push(AccountNews { seq: 2, name: "bob".into() });
        all.change("cem", |_| Some(cem));
        all.news.remove(1);
        all.settled = settled;
    });
    let mut server = Server::new(&tables).looked();
    assert_eq!((server.uid("bob"), server.uid("cem")), (None, Some(3)));
    tables.edit(|all| {
        all.rows.insert("bob".into(), bob);
        all.news.insert(1, AccountNews { seq: 2, name: "bob".into() });
    });
    assert_eq!((server.look(), server.uid("bob")), (Ok(()), Some(2)));
}

#[test]
fn a_password_that_another_program_writes_ends_sessions_though_it_forgot_the_epoch() {
    let tables = PlayedTables::with(7);
    let mut server = Server::new(&tables).looked();
    server.put(order("ann")).expect("put");
    let held = granted(server.place.ask(question("ann", "secret"))).account;
    tables.edit(|all| {
        all.change("ann", |row| Some(AccountColumns { password: "$plain$new".into(), ..row? }))
    });
    assert_eq!((server.look(), tables.row("ann").epoch), (Ok(()), 2));
    assert!(!server.place.entrance.access().holds("ann", held));
    assert_eq!(server.come("ann", "new"), Ok(1));
    // An epoch that falls is raised again, and rules alone end nothing.
    tables.edit(|all| all.change("ann", |row| Some(AccountColumns { epoch: 1, ..row? })));
    assert_eq!((server.look(), tables.row("ann").epoch), (Ok(()), 2));
    // A row that is none lets nobody in, and comes back when it is one.
    tables
        .edit(|all| all.change("ann", |row| Some(AccountColumns { password: "x".into(), ..row? })));
    assert_eq!((server.look(), server.uid("ann"), server.counts().wrong), (Ok(()), None, 1));
    tables.edit(|all| {
        all.change("ann", |row| Some(AccountColumns { password: "$plain$new".into(), ..row? }))
    });
    assert_eq!((server.look(), server.come("ann", "new")), (Ok(()), Ok(1)));
}

#[test]
fn whoever_was_faster_is_built_upon() {
    let tables = PlayedTables::with(7);
    let (one, other) = (Server::new(&tables).looked(), Server::new(&tables).looked());
    one.put(order("ann")).expect("put");
    // The other has not looked: what it changes is what the database has.
    let changed = UserOrder { is_super: Some(true), password: None, ..order("ann") };
    assert_eq!(other.put(changed).map(|user| (user.uid, user.has_password)), Ok((1, true)));
    tables.edit(|all| all.conflicts = TRIES_MAX - 1);
    assert!(one.put(password("other")).is_ok_and(|user| user.is_super));
    tables.edit(|all| all.conflicts = TRIES_MAX);
    assert_eq!(one.put(password("third")), Err(UserFault::Busy));
    assert_eq!(one.come("ann", "other"), Ok(1));
}

#[test]
fn a_load_finds_who_came_and_who_went() {
    let tables = PlayedTables::with(7);
    let server = Server::new(&tables).looked();
    for name in ["ann", "bob", "cem"] {
        server.put(order(name)).expect("put");
    }
    // Nobody says a word of these.
    tables.edit(|all| {
        let mut dan = all.rows.remove("bob").expect("there");
        (dan.uid, dan.name) = (9, "dan".into());
        all.rows.insert("dan".into(), dan);
        all.rows.get_mut("cem").expect("there").is_disabled = true;
    });
    let again = Server::over(&tables, server.place.rows.clone()).looked();
    let uids = ["ann", "bob", "cem", "dan"].map(|name| again.uid(name));
    assert_eq!(uids, [Some(1), None, Some(3), Some(9)]);
    let cem = again.place.entrance.users().user("cem").expect("read").expect("there");
    assert!(cem.is_disabled && cem.epoch == 2 && tables.row("cem").epoch == 2);
}

#[test]
fn who_was_removed_while_a_server_was_away_is_gone_there_whatever_rows_are_no_accounts() {
    let tables = PlayedTables::with(7);
    let (one, mut other) = (Server::new(&tables).looked(), Server::new(&tables).looked());
    for name in ["ann", "bob"] {
        one.put(order(name)).expect("put");
    }
    one.put(UserOrder { password: None, ..order("*") }).expect("put");
    assert_eq!((other.look(), other.come("bob", "secret")), (Ok(()), Ok(2)));
    let rows = other.place.rows.clone();
    drop(other);
    one.place.entrance.users().remove("bob", Authority::Admin).expect("removed");
    // As many rows as the copy has accounts: ann's and everybody's.
    assert_eq!(tables.count(), Ok(2));
    let again = Server::over(&tables, rows.clone()).looked();
    assert_eq!(again.come("bob", "secret"), Err(Denial::BadCredentials));
    assert_eq!(again.come("ann", "secret"), Ok(1));
    assert_eq!((again.place.partings("bob", 2), again.place.partings("ann", 1)), (1, 0));
    assert_eq!(one.place.partings("bob", 2), 1);
    drop(again);
    one.place.entrance.users().remove("*", Authority::Admin).expect("removed");
    let again = Server::over(&tables, rows).looked();
    assert!(again.place.entrance.users().user("*").expect("read").is_none());
}

#[test]
fn rules_of_everybody_are_followed_too() {
    let tables = PlayedTables::with(7);
    let (one, mut other) = (Server::new(&tables).looked(), Server::new(&tables).looked());
    let everybody = UserOrder { password: None, ..order("*") };
    assert_eq!(one.put(everybody).map(|user| user.uid), Ok(0));
    let rules = |server: &Server| {
        let found = server.place.entrance.users().user("*").expect("read");
        found.map_or(0, |user| user.rules.len())
    };
    assert_eq!((other.look(), rules(&other)), (Ok(()), 1));
    assert_eq!(one.place.entrance.users().remove("*", Authority::Admin), Ok(true));
    assert_eq!((other.look(), rules(&other), rules(&one)), (Ok(()), 0, 0));
}

#[test]
fn an_empty_database_is_filled_and_another_one_with_accounts_is_not_touched() {
    let alone = Place::with_tables(
        settings(AccessSection::default()),
        Ok(Done::Written),
        Rows::default(),
        None,
    );
    let users = alone.entrance.users();
    let (ann, bob) = (
        users.put(order("ann"), Authority::Admin).expect("put"),
        users.put(order("bob"), Authority::Admin).expect("put"),
    );
    let tables = PlayedTables::with(7);
    let server = Server::over(&tables, alone.rows.clone());
    assert_eq!(server.come("ann", "secret"), Ok(ann.uid), "its own accounts hold meanwhile");
    let server = server.looked();
    assert_eq!((tables.row("ann").uid, tables.row("bob").uid), (ann.uid, bob.uid));
    assert!(server.put(order("cem")).is_ok_and(|cem| cem.uid > bob.uid));
    let full = PlayedTables::with(8);
    full.edit(|all| {
        all.change("zoe", |_| Some(AccountColumns { name: "zoe".into(), ..tables.row("bob") }))
    });
    let mut wrong = Server::over(&full, server.place.rows.clone());
    let fault = wrong.look().expect_err("it is no copy of that");
    assert!(matches!(&fault, UserFault::DatabaseFailed(why) if why.contains("no copy")));
    assert!(wrong.put(order("dan")).is_err() && wrong.come("ann", "secret").is_ok());
    assert_eq!(full.edit(|all| all.rows.len()), 1);
}

#[test]
fn a_folder_with_rules_of_everybody_fills_a_database_wherever_they_stand_among_accounts() {
    for last in ["bob", "cem", "dan", "eve", "fay", "gus", "hal", "ida"] {
        let section = settings(AccessSection::default());
        let alone = Place::with_tables(section, Ok(Done::Written), Rows::default(), None);
        let users = alone.entrance.users();
        users.put(order("ann"), Authority::Admin).expect("put");
        let highest = users.put(order(last), Authority::Admin).expect("put").uid;
        users.put(UserOrder { password: None, ..order("*") }, Authority::Admin).expect("put");
        let tables = PlayedTables::with(7);
        let server = Server::over(&tables, alone.rows.clone()).looked();
        assert_eq!((tables.row(last).uid, tables.edit(|all| all.rows.len())), (highest, 3));
        assert!(tables.row("*").uid > highest, "{last}");
        assert!(server.put(order("zoe")).is_ok());
    }
}

#[test]
fn a_book_that_goes_on_without_its_database_gives_no_number_again() {
    let tables = PlayedTables::with(7);
    let server = Server::new(&tables).looked();
    tables.edit(|all| all.last_uid = 200_000);
    let ann = server.put(order("ann")).expect("put").uid;
    server.place.entrance.users().remove("ann", Authority::Admin).expect("removed");
    let over = |rows: &Rows| {
        let section = settings(AccessSection::default());
        Place::with_tables(section, Ok(Done::Written), rows.clone(), None)
    };
    let alone = over(&server.place.rows);
    let bob = alone.entrance.users().put(order("bob"), Authority::Admin).expect("put").uid;
    assert!(bob & ((1 << 43) - 1) > ann, "{bob} {ann}");
    // It is nobody's copy any more.
    let mut back = Server::over(&tables, over(&alone.rows).rows.clone());
    tables.edit(|all| {
        all.change("zoe", |_| {
            Some(AccountColumns {
                name: "zoe".into(),
                uid: 0,
                epoch: 1,
                ..AccountColumns::default()
            })
        })
    });
    assert!(back.look().is_err() && back.uid("bob") == Some(bob));
}

#[test]
fn an_import_goes_there_in_one_change() {
    let tables = PlayedTables::with(7);
    let server = Server::new(&tables).looked();
    let users = server.place.entrance.users();
    let lines = ["ann:$plain$a".to_owned(), "bob:$plain$b".into()];
    let told = users.import(&lines, ImportForm::Passwords, Authority::Admin).expect("right");
    assert_eq!((told.done, told.made), (2, 2));
    assert_eq!((server.come("ann", "a"), server.come("bob", "b")), (Ok(1), Ok(2)));
    let told = users.import(&lines, ImportForm::Passwords, Authority::Admin).expect("right");
    assert_eq!((told.same, tables.edit(|all| all.news.len())), (2, 2));
    tables.edit(|all| all.fault = away());
    assert!(users.import(&lines, ImportForm::Passwords, Authority::Admin).is_err());
}

#[test]
fn more_accounts_than_may_be_are_refused_and_told() {
    let tables = PlayedTables::with(7);
    tables.edit(|all| {
        for at in 0..10 {
            let name = format!("u{at}");
            let row = AccountColumns { name: name.clone(), epoch: 1, ..AccountColumns::default() };
            all.change(&name, |_| Some(row));
        }
    });
    let mut server = Server::new(&tables);
    assert_eq!(server.look(), Err(UserFault::Full));
    assert_eq!(refused(server.place.ask(question("zoe", "x"))), Denial::Unavailable);
}
