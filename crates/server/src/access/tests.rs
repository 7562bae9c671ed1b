//! The entrance with real threads, files, and services on loopback; the log is played.

use super::*;
use crate::config::{AccessSection, Hidden, HiddenList, Http, Token};
use base::hash::HashKey;
use guard::{Anonymous, ListenerPolicy, Method};
use model::account::AccountAddress;
use model::id::NodeId;
use model::ports::access::{Act, Grant, Who};
use model::ports::log::{Call, Done, Read as LogRead, RowHome, StoreError, Table, Write};
use model::ports::users::{
    Authority, DOMAIN, ImportForm, UserFault, UserOrder, UserRule, account_home,
};
use model::service::ServiceKind;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use tempfile::TempDir;

/// `ann`'s password is `secret`.
const USERS: &str = "ann:$7$1500$XsNhmaJQbwoQ0338$elcFYitfYWqzDObxjSJMEZLfXOLykN4adlXD+tMdmeRLpHwI\
+qpsJhG3eSHUur1vDQcoP0AbpvM2dhGkSWwe4w==\n";

/// A set of one key and a token it signed for `joe` (RFC 7515 A.3.1), long ago.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256",
"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8\
ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

pub(super) type LogRows = BTreeMap<(Table, Box<[u8]>), Box<[u8]>>;

pub(super) type Rows = Arc<Mutex<Vec<LogRows>>>;

/// Logs that are played.
const LOGS: u16 = 3;

const HOME: HashKey = HashKey::new(1, 2);

/// With this section, and a listener that takes what listeners take.
pub(super) fn settings(access: AccessSection) -> Settings {
    let doors = vec![ListenerPolicy::default()];
    Settings { access, doors, ..Settings::default() }
}

/// The caller.
const BY: (ServiceKind, ShardId) = (ServiceKind::Topics, ShardId(3));

/// An entrance whose answers are heard and whose log is a map.
pub(super) struct Place {
    pub(super) entrance: Arc<Entrance>,
    answers: Receiver<((ServiceKind, ShardId), u64, Admission)>,
    pub(super) rows: Rows,
}

impl Place {
    pub(super) fn new(settings: Settings) -> Place {
        Place::with_log(settings, Ok(Done::Written))
    }

    pub(super) fn with_log(settings: Settings, answer: Result<Done, StoreError>) -> Place {
        Place::over(settings, answer, Rows::default())
    }

    /// Over what other logs kept: with all of them restored.
    pub(super) fn over(settings: Settings, answer: Result<Done, StoreError>, rows: Rows) -> Place {
        Place::with_tables(settings, answer, rows, None)
    }

    /// The same with a book that a database keeps, which nobody follows.
    pub(super) fn with_tables(
        settings: Settings,
        answer: Result<Done, StoreError>,
        rows: Rows,
        tables: Option<Arc<dyn AccountTables>>,
    ) -> Place {
        let entrance = Entrance::with_tables(settings, [5; 32], tables).expect("files are right");
        rows.lock().expect("no panic").resize_with(LOGS.into(), BTreeMap::new);
        for ((table, key), value) in rows.lock().expect("no panic").iter().flatten() {
            assert!(match table {
                Table::Users => entrance.restore(key, value),
                Table::ChatPartings => true, // chat's
                Table::Bans => entrance.restore_ban(key, value),
                _ => entrance.restore_token(key, value),
            });
        }
        entrance.restored().expect("it goes on with them");
        let (told, answers) = sync_channel(100);
        let (logs, asked) = (rows.clone(), Arc::downgrade(&entrance));
        let submit = move |log: u16, calls: Vec<(u64, Call)>| {
            let rows = &mut logs.lock().expect("no panic")[usize::from(log)];
            let all = calls.into_iter().map(|(ticket, call)| (ticket, play(rows, call, &answer)));
            let all = all.collect();
            asked.upgrade().is_some_and(|entrance| {
                entrance.complete(all);
                true
            })
        };
        let tell = move |by, number, admission| {
            told.send((by, number, admission)).expect("somebody listens");
        };
        let node = NodeId::new(1).expect("a node");
        let logs = LogWay { submit: Box::new(submit), home: HOME, shards: LOGS, node };
        // Each shard has looked as soon as it is woken.
        let woken = Arc::downgrade(&entrance);
        let wake = move || {
            let Some(entrance) = woken.upgrade() else { return };
            for shard in (0..LOGS).map(ShardId) {
                entrance.ban_book().asked_again(shard, u64::MAX);
                for service in [ServiceKind::Topics, ServiceKind::Chat] {
                    entrance.access().renewed((service, shard), u64::MAX);
                }
            }
        };
        let (tell, wake) = (Box::new(tell), Box::new(wake));
        entrance.begin_alone(Outbound { logs, tell, wake }).expect("threads");
        Place { entrance, answers, rows }
    }

    /// Rows that say that the ties of this account end.
    pub(super) fn partings(&self, name: &str, uid: u64) -> usize {
        let address = AccountAddress::parse(name, "a.example").expect("right");
        let Write::Put { table, key, .. } = chat::row_of_parting(HOME, (&address, uid), None)
        else {
            panic!("a row")
        };
        let rows = self.rows.lock().expect("no panic");
        rows.iter().filter(|log| log.contains_key(&(table, key.clone()))).count()
    }

    /// The accounts' rows, and in which log each is.
    fn accounts(&self) -> Vec<(u16, Box<[u8]>)> {
        let rows = self.rows.lock().expect("no panic");
        let each =
            (0..).zip(rows.iter()).flat_map(|(log, rows)| rows.keys().map(move |k| (log, k)));
        let is_account = |key: &[u8]| RowHome::of(key) != RowHome::Everywhere;
        each.filter(|(_, (_, key))| is_account(key)).map(|(l, (_, k))| (l, k.clone())).collect()
    }

    /// The answer to a question, wherever it comes from.
    pub(super) fn ask(&self, question: Question) -> Admission {
        match self.entrance.access().admit(clock::unix_s(), &question) {
            Admission::Later => {
                self.entrance.resolve(BY, 77, Box::new(question)).expect("room");
                let (asked, number, admission) = self.answers.recv().expect("an answer");
                assert_eq!((asked, number), (BY, 77));
                admission
            }
            at_once => at_once,
        }
    }
}

/// Answer of a log to writes.
fn play(
    rows: &mut LogRows,
    call: Call,
    answer: &Result<Done, StoreError>,
) -> Result<Done, StoreError> {
    match call {
        Call::Write(_) if answer.is_err() => return answer.clone(),
        Call::Write(Write::Put { table, key, value }) => drop(rows.insert((table, key), value)),
        Call::Write(Write::Delete { table, key }) => drop(rows.remove(&(table, key))),
        Call::Read(LogRead::Row { table, key }) => {
            return Ok(Done::Row(rows.get(&(table, key)).cloned()));
        }
        Call::Read(LogRead::Rows { table, after, count, .. }) => {
            let behind = |key: &[u8]| after.as_deref().is_none_or(|after| key > after);
            let of_table = rows.iter().filter(|((of, key), _)| *of == table && behind(key));
            let rows = of_table.map(|((_, key), value)| (key.clone(), value.clone()));
            return Ok(Done::Rows(rows.take(count).collect()));
        }
        other => panic!("{other:?}"),
    }
    answer.clone()
}

impl Drop for Place {
    fn drop(&mut self) {
        self.entrance.close();
    }
}

pub(super) fn question(user: &str, password: &str) -> Question {
    Question {
        client_id: "d7".into(),
        user: (!user.is_empty()).then(|| user.into()),
        password: Some(password.as_bytes().into()),
        certificate: None,
        method: None,
        dialogue: None,
        bindings: None,
        peer: SocketAddr::from(([10, 0, 0, 7], 4711)),
        near: false,
        door: 0,
        tls: false,
        protocol: "mqtt5",
    }
}

pub(super) fn granted(admission: Admission) -> Grant {
    match admission {
        Admission::Granted(grant, _) => grant,
        other => panic!("{other:?}"),
    }
}

pub(super) fn refused(admission: Admission) -> Denial {
    match admission {
        Admission::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

pub(super) fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("room");
    path
}

/// A server that answers each request, with what it was asked.
fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/x", listener.local_addr().expect("bound"));
    let run = move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.expect("a caller");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut line, mut head, mut length) = (String::new(), String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                head += &line;
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let (status, text) = answer(&(head + &String::from_utf8_lossy(&body)));
            let length = text.len();
            let reply = format!(
                "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}"
            );
            // The caller may have gone.
            let _ = stream.write_all(reply.as_bytes());
        }
    };
    Builder::new().spawn(run).expect("a thread");
    url
}

#[test]
fn who_is_in_the_password_file_logs_in_to_the_console_and_another_password_is_another_number() {
    let folder = TempDir::new().expect("a folder");
    let text = format!("{USERS}eve:$plain$apple\nbob:$plain$pear disabled\n");
    let path = file(&folder, "users", &text);
    let settings = settings(AccessSection {
        password_file: Some(path),
        hash_cost: guard::passwords::Cost::Light,
        ..AccessSection::default()
    });
    let place = Place::new(settings.clone());
    let people = place.entrance.console_people();
    let ann = people.check("ann", "secret").expect("asked").expect("it is hers");
    assert_eq!(people.standing("ann"), Ok(Some(ann)));
    assert_eq!(people.check("ann", "guess"), Ok(None));
    assert_eq!(people.check("bob", "pear"), Ok(None), "he is disabled");
    assert_eq!(people.check("nobody", "pear"), Ok(None));
    let eve = people.standing("eve").expect("asked").expect("she is there");
    file(&folder, "users", &text.replace("apple", "plum"));
    place.entrance.reload(settings.clone()).expect("it is right");
    assert_ne!(people.standing("eve"), Ok(Some(eve)), "she has another password");
    assert_eq!(people.standing("ann"), Ok(Some(ann)), "she has the same");
    assert_eq!(people.check("eve", "apple"), Ok(None));
    file(&folder, "users", USERS);
    place.entrance.reload(settings).expect("it is right");
    assert_eq!(people.standing("eve"), Ok(None), "she is gone");
    // A name that is in both is the book's, with the password that it has there.
    let order = UserOrder { password: Some("other".into()), ..order("ann") };
    place.entrance.users().put(order, Authority::Admin).expect("it is put");
    assert_eq!(people.check("ann", "secret"), Ok(None));
    assert!(people.check("ann", "other").expect("asked").is_some_and(|held| held != ann));
}

#[test]
fn passwords_and_rules_come_from_files() {
    let folder = TempDir::new().expect("a folder");
    let settings = settings(AccessSection {
        password_file: Some(file(&folder, "users", USERS)),
        acl_file: Some(file(&folder, "acl", "user ann\ntopic home/#\n")),
        ..AccessSection::default()
    });
    let place = Place::new(settings.clone());
    let grant = granted(place.ask(question("ann", "secret")));
    let who = Who { client_id: "d7", user: Some("ann") };
    let may = |grant: &Grant, topic| {
        grant.rules.as_ref().is_some_and(|rules| rules.may(&who, Act::Read, topic))
    };
    assert!(may(&grant, "home/x") && !may(&grant, "x"));
    assert_eq!(refused(place.ask(question("ann", "guess"))), Denial::BadCredentials);
    assert_eq!(refused(place.ask(question("bob", "x"))), Denial::BadCredentials);

    file(&folder, "acl", "user ann\ntopic home/#\ntopic x y\n");
    let problem = place.entrance.reload(settings.clone()).expect_err("it is broken");
    assert!(problem.contains("acl:3: "), "{problem}");
    let access = place.entrance.access();
    assert!(may(&access.renew(&who).expect("known"), "home/x"), "the old ones stay");
    let before = access.version();
    file(&folder, "acl", "user ann\ntopic x\n");
    place.entrance.reload(settings.clone()).expect("it is right");
    assert!(access.version() > before && may(&access.renew(&who).expect("known"), "x"));
    file(&folder, "users", "");
    place.entrance.reload(settings).expect("it is right");
    assert_eq!(refused(place.ask(question("ann", "secret"))), Denial::BadCredentials);
}

#[test]
fn what_is_wrong_at_the_start_is_told() {
    let folder = TempDir::new().expect("a folder");
    let broken = file(&folder, "broken", "what\n");
    let missing = Some("/nowhere/x".into());
    let only = |method| {
        let door = ListenerPolicy { methods: vec![method], ..ListenerPolicy::default() };
        Settings { doors: vec![door], ..Settings::default() }
    };
    let usual = AccessSection::default;
    let token = |change: &dyn Fn(&mut Token)| {
        let mut token = Token { secret: Hidden::of(&"x".repeat(32)), ..Token::default() };
        change(&mut token);
        settings(AccessSection { token, ..usual() })
    };
    let wrong = [
        (settings(AccessSection { password_file: missing, ..usual() }), "/nowhere/x"),
        (settings(AccessSection { password_file: Some(broken.clone()), ..usual() }), "broken:1"),
        (settings(AccessSection { acl_file: Some(broken.clone()), ..usual() }), "broken:1"),
        (only(Method::Token), "access.token"),
        (only(Method::Ldap), "access.ldap"),
        (only(Method::Http), "access.http"),
        (token(&|token| token.secret = Hidden::of("short")), "32"),
        (token(&|token| token.key_files = vec![broken.display().to_string()]), "PUBLIC KEY"),
        (token(&|token| token.algorithms = vec!["none".into()]), "HS256"),
    ];
    for (settings, words) in wrong {
        let problem = Entrance::new(settings, [0; 32]).err().expect("it is refused");
        assert!(problem.contains(words), "{problem}");
    }
}

pub(super) fn order(name: &str) -> UserOrder {
    UserOrder {
        name: name.into(),
        password: Some("secret".into()),
        is_super: None,
        is_disabled: None,
        rules: Some(vec![UserRule { allow: true, publish: true, read: false, filter: "a".into() }]),
    }
}

#[test]
fn the_book_is_on_the_logs_before_it_holds() {
    let place = Place::new(settings(AccessSection { users_max: 2, ..AccessSection::default() }));
    let users = place.entrance.users();
    let eve = users.put(order("eve"), Authority::Admin).expect("room");
    assert!(eve.has_password && eve.rules.len() == 1 && eve.epoch == 1);
    users.put(order("bob"), Authority::Admin).expect("room");
    assert_eq!(users.put(order("one-too-many"), Authority::Admin), Err(UserFault::Full));
    assert!(matches!(users.put(order("bob:x"), Authority::Admin), Err(UserFault::Wrong(_))));
    let bad = UserOrder { password: Some(String::new()), ..order("bob") };
    assert!(matches!(users.put(bad, Authority::Admin), Err(UserFault::Wrong(_))));
    assert_eq!(granted(place.ask(question("eve", "secret"))).user.as_deref(), Some("eve"));
    for name in ["bob", "eve"] {
        let hash = account_home(HOME, DOMAIN, name);
        let home = (base::hash::home(hash, LOGS), RowHome::at(hash));
        let found = place.accounts().into_iter().find(|(_, key)| key.ends_with(name.as_bytes()));
        assert_eq!(found.map(|(log, key)| (log, RowHome::of(&key))), Some(home), "{name}");
    }
    let other = Place::over(
        settings(AccessSection::default()),
        Ok(Done::Written),
        Arc::new(Mutex::new(place.rows.lock().expect("no panic").clone())),
    );
    assert_eq!(other.entrance.users().user("eve"), Ok(Some(eve)), "it is there after a restart");
    assert_eq!(granted(other.ask(question("eve", "secret"))).user.as_deref(), Some("eve"));
    assert!(other.entrance.users().put(order("new"), Authority::Admin).is_ok());

    assert_eq!(
        (users.remove("eve", Authority::Admin), users.remove("eve", Authority::Admin)),
        (Ok(true), Ok(false))
    );
    assert_eq!(place.accounts().len(), 1);
    assert_eq!(refused(place.ask(question("eve", "secret"))), Denial::BadCredentials);
    let none = Entrance::new(settings(AccessSection::default()), [6; 32]).expect("no files");
    assert!(!none.restore(b"x", b"{}") && !none.restore(&[0xff], b"{\"v\":1}"));
    assert_eq!(
        none.users().put(order("new"), Authority::Admin),
        Err(UserFault::StoreFailed),
        "there is no log"
    );
    let why = none.restored().expect_err("rows of before");
    assert!(why.contains("2 users") && why.contains("earlier build"), "{why}");
}

#[test]
fn pages_go_through_all_logs_and_everybody_is_on_one_of_them() {
    let access = AccessSection { hash_cost: guard::passwords::Cost::Light, ..Default::default() };
    let place = Place::new(settings(access));
    let users = place.entrance.users();
    let mut names: Vec<String> = (0..40).map(|number| format!("user-{number}")).collect();
    names.push("*".into());
    for name in &names {
        users.put(UserOrder { password: None, ..order(name) }, Authority::Admin).expect("room");
    }
    let logs = place.accounts().into_iter().map(|(log, _)| log);
    assert_eq!(logs.collect::<std::collections::BTreeSet<_>>().len(), usize::from(LOGS));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = users.list(after.as_deref(), 7).expect("readable");
        let Some(last) = page.last() else { break };
        after = Some(last.name.clone());
        found.extend(page.into_iter().map(|user| user.name));
    }
    let whole = users.list(None, 100).expect("readable");
    assert_eq!(found, whole.iter().map(|user| user.name.clone()).collect::<Vec<_>>());
    found.sort();
    names.sort();
    assert_eq!(found, names);
}

#[test]
fn a_number_is_given_once_whatever_happens() {
    let place = Place::new(settings(AccessSection::default()));
    let put = |place: &Place, name: &str| {
        let bare = UserOrder { password: None, ..order(name) };
        place.entrance.users().put(bare, Authority::Admin).expect("room").uid
    };
    let first = put(&place, "ann");
    assert_eq!(put(&place, "ann"), first, "it is who it was");
    assert_eq!(place.entrance.users().remove("ann", Authority::Admin), Ok(true));
    let second = put(&place, "ann");
    let other = put(&place, "bob");
    assert!(first < second && second < other && other < 1 << 53);
    let rows = place.rows.clone();
    drop(place);
    let place = Place::over(settings(AccessSection::default()), Ok(Done::Written), rows);
    assert!(put(&place, "eve") > other, "nor after a restart");
    // One log's copy is enough.
    let rows = place.rows.clone();
    let last = put(&place, "last");
    drop(place);
    rows.lock().expect("no panic").drain(1..);
    let place = Place::over(settings(AccessSection::default()), Ok(Done::Written), rows);
    assert!(put(&place, "new") > last);
}

#[test]
fn orders_that_end_sessions_are_on_the_log_first() {
    let place = Place::new(settings(AccessSection::default()));
    let (users, access) = (place.entrance.users(), place.entrance.access());
    users.put(order("eve"), Authority::Admin).expect("room");
    let come = |password| place.ask(question("eve", password));
    let first = granted(come("secret")).account;
    assert!(first.is_some() && access.holds("eve", first));
    let epoch =
        |place: &Place| place.entrance.users().user("eve").expect("read").expect("there").epoch;
    let kicked = users.kick("eve", Authority::Admin).expect("written").expect("there");
    assert_eq!((kicked.epoch, epoch(&place)), (2, 2));
    assert!(!access.holds("eve", first));
    let second = granted(come("secret")).account;
    let new = UserOrder { password: Some("other".into()), rules: None, ..order("eve") };
    assert_eq!(users.put(new, Authority::Admin).map(|user| user.epoch), Ok(3));
    assert!(!access.holds("eve", second));
    assert_eq!(refused(come("secret")), Denial::BadCredentials, "a check of before is not one");
    let third = granted(come("other")).account;
    let off = UserOrder { password: None, is_disabled: Some(true), rules: None, ..order("eve") };
    assert_eq!(
        users.put(off, Authority::Admin).map(|user| (user.epoch, user.is_disabled)),
        Ok((4, true))
    );
    assert!(!access.holds("eve", third));
    assert_eq!(refused(come("other")), Denial::NotAuthorized);
    assert_eq!(users.kick("nobody", Authority::Admin), Ok(None));
    assert!(matches!(users.kick("*", Authority::Admin), Err(UserFault::Wrong(_))));
}

#[test]
fn a_log_that_failed_is_not_a_wrong_password() {
    let rows = Rows::default();
    let place = Place::over(settings(AccessSection::default()), Ok(Done::Written), rows.clone());
    place.entrance.users().put(order("eve"), Authority::Admin).expect("room");
    drop(place);
    let place = Place::over(settings(AccessSection::default()), Ok(Done::Written), rows.clone());
    rows.lock().expect("no panic").iter_mut().flatten().for_each(|(_, value)| *value = [9].into());
    assert_eq!(refused(place.ask(question("eve", "secret"))), Denial::Unavailable);
    assert_eq!(place.entrance.users().user("eve"), Err(UserFault::StoreFailed));
    assert_eq!(
        place.entrance.users().put(order("eve"), Authority::Admin),
        Err(UserFault::StoreFailed)
    );
}

#[test]
fn rows_of_tokens_are_kept_by_the_log_and_are_there_after_a_restart() {
    let place = Place::new(settings(AccessSection::default()));
    let rows = place.entrance.token_rows();
    assert_eq!(rows.put("ci", b"row".into()), Ok(()));
    assert_eq!(rows.put("gone", b"row".into()), Ok(()));
    assert_eq!(rows.remove("gone"), Ok(()));
    assert_eq!(rows.all(), [("ci".to_owned(), b"row".to_vec())]);
    let other = Entrance::new(settings(AccessSection::default()), [6; 32]).expect("no files");
    for ((_, key), value) in place.rows.lock().expect("no panic").iter().flatten() {
        assert!(other.restore_token(key, value));
    }
    assert!(!other.restore_token(&[0xff], b"row"));
    assert_eq!(other.token_rows().all(), rows.all());
    assert!(place.entrance.users().list(None, 9).expect("read").is_empty(), "they are no users");
    let full = Place::with_log(settings(AccessSection::default()), Err(StoreError::Full));
    let rows = full.entrance.token_rows();
    assert!(rows.put("ci", b"row".into()).is_err() && rows.all().is_empty());
}

#[test]
fn that_an_account_goes_is_stored_for_its_contacts_and_of_nobody_who_stays() {
    let settings = settings(AccessSection::default());
    let place = Place::new(Settings { chat_domain: "a.example".into(), ..settings });
    let users = place.entrance.users();
    let put = |name: &str| {
        let order = UserOrder { password: None, ..order(name) };
        users.put(order, Authority::Admin).expect("put").uid
    };
    let (ann, bob) = (put("ann"), put("bob"));
    users.kick("ann", Authority::Admin).expect("kicked");
    assert_eq!((place.partings("ann", ann), place.partings("bob", bob)), (0, 0));
    assert_eq!(users.remove("ann", Authority::Admin), Ok(true));
    assert_eq!((place.partings("ann", ann), place.partings("bob", bob)), (1, 0));
    let again = put("ann");
    assert!(again != ann && place.partings("ann", again) == 0);
}

#[test]
fn what_the_log_does_not_take_does_not_hold() {
    let place = Place::with_log(settings(AccessSection::default()), Err(StoreError::Full));
    let users = place.entrance.users();
    assert_eq!(users.put(order("eve"), Authority::Admin), Err(UserFault::StoreFailed));
    assert_eq!(users.user("eve"), Ok(None));
    place.entrance.close();
    assert_eq!(users.put(order("eve"), Authority::Admin), Err(UserFault::StoreFailed));
}

#[test]
fn a_service_decides() {
    let url = serve(|asked| {
        assert!(asked.starts_with("POST /x ") && asked.contains("x-key: k"), "{asked}");
        match asked {
            _ if asked.contains("\"user\":\"eve\"") => (200, r#"{"result":"allow"}"#.into()),
            _ if asked.contains("\"user\":\"mad\"") => (200, "x".repeat(300 * 1024)),
            _ if asked.contains("\"user\":\"lost\"") => (302, String::new()),
            _ => (403, String::new()),
        }
    });
    let headers = HiddenList::of(vec!["x-key: k".into()]);
    let http = Http { url, headers, ..Http::default() };
    let place = Place::new(settings(AccessSection { http, ..AccessSection::default() }));
    assert_eq!(granted(place.ask(question("eve", "x"))).user.as_deref(), Some("eve"));
    assert_eq!(refused(place.ask(question("bob", "x"))), Denial::BadCredentials);
    for user in ["mad", "lost"] {
        assert_eq!(refused(place.ask(question(user, "x"))), Denial::Unavailable);
    }
    let counts = place.entrance.counts();
    assert_eq!((counts.resolved, counts.asked, counts.ask_failures), (4, 4, 2));
}

#[test]
fn keys_are_fetched() {
    let url = serve(|asked| {
        assert!(asked.starts_with("GET /x "), "{asked}");
        (200, KEYS.into())
    });
    let keys_at = |url: String| {
        let (user_claim, leeway_s) = ("iss".into(), u32::MAX);
        let token = Token { jwks_url: url, user_claim, leeway_s, ..Token::default() };
        settings(AccessSection { token, ..AccessSection::default() })
    };
    let place = Place::new(keys_at(url));
    assert_eq!(granted(place.ask(question("", TOKEN))).user.as_deref(), Some("joe"));
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    place.entrance.reload(keys_at(format!("http://{gone}/"))).expect("right");
    let why = refused(place.ask(question("", TOKEN)));
    assert_eq!(why, Denial::Unavailable, "keys of another place are none");
}

#[test]
fn too_many_questions_are_answered_at_once() {
    let settings = Settings {
        access: AccessSection { waiting_max: 3, ..AccessSection::default() },
        doors: vec![ListenerPolicy { anonymous: Anonymous::No, ..ListenerPolicy::default() }],
        ..Settings::default()
    };
    // Nothing was begun: nobody takes them.
    let entrance = Entrance::new(settings, [5; 32]).expect("no files");
    let ask = |number| entrance.resolve(BY, number, Box::new(question("a", "b")));
    assert!((0..3).all(|number| ask(number).is_ok()));
    assert!(matches!(ask(3), Err(Admission::Refused(Denial::Unavailable))));
    let counts = entrance.counts();
    assert_eq!((counts.waiting, counts.refused_full), (3, 1));
}

#[test]
fn a_close_answers_whoever_waits() {
    let place = Place::new(settings(AccessSection::default()));
    let lane = &place.entrance.shared.hashing;
    // Both threads are kept busy by answers that nobody takes until they are asked for.
    for number in 0..400 {
        if lane
            .put(Asked {
                by: BY,
                number,
                question: Box::new(question("a", "b")),
                known: guard::Known::Neither,
            })
            .is_err()
        {
            break;
        }
    }
    let entrance = place.entrance.clone();
    let closing = Builder::new().spawn(move || entrance.close()).expect("a thread");
    let answers: Vec<u64> = (0..400).map(|_| place.answers.recv().expect("an answer").1).collect();
    closing.join().expect("it ends");
    assert_eq!(answers.len(), 400);
    let late = place.entrance.resolve(BY, 1, Box::new(question("a", "b")));
    assert!(matches!(late, Err(Admission::Refused(Denial::Unavailable))));
}

#[test]
fn lines_become_accounts_that_can_log_in_and_again_they_change_nothing() {
    let access = AccessSection { hash_cost: guard::passwords::Cost::Light, ..Default::default() };
    let place = Place::new(settings(access));
    let users = place.entrance.users();
    let hashed = USERS.trim_end().to_owned();
    let import = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        users.import(&lines, ImportForm::Passwords, Authority::Admin)
    };
    let lines = ["# a comment", &hashed, "", "eve:$plain$open super", "off:$plain$x disabled"];
    let told = import(&lines).expect("room");
    assert_eq!((told.done, told.made, told.changed, told.same, told.wrong), (5, 3, 0, 0, None));
    assert!(granted(place.ask(question("ann", "secret"))).account.is_some());
    assert_eq!(granted(place.ask(question("eve", "open"))).user.as_deref(), Some("eve"));
    assert_eq!(refused(place.ask(question("off", "x"))), Denial::NotAuthorized);
    let rows = place.rows.lock().expect("no panic").clone();
    let plain =
        rows.iter().flatten().any(|(_, row)| String::from_utf8_lossy(row).contains("plain"));
    assert!(!plain, "a plain password is not kept");
    let told = import(&lines).expect("read");
    assert_eq!((told.done, told.made, told.changed, told.same), (5, 0, 0, 3));
    assert_eq!(*place.rows.lock().expect("no panic"), rows);
    let first = users.user("eve").expect("read").expect("there");
    let told = import(&["eve:$plain$other super"]).expect("read");
    assert_eq!((told.made, told.changed), (0, 1));
    let second = users.user("eve").expect("read").expect("there");
    assert_eq!((second.uid, second.epoch), (first.uid, first.epoch + 1));
    assert_eq!(refused(place.ask(question("eve", "open"))), Denial::BadCredentials);
    assert_eq!(granted(place.ask(question("eve", "other"))).user.as_deref(), Some("eve"));
}

#[test]
fn keys_from_elsewhere_are_good_for_the_password_that_they_are_of_after_a_restart_too() {
    // Those of RFC 5802 5.
    let keys = "ann:$scram-sha-1$4096$QSXCR+Q6sek8bf92$6dlGYMOdZcOPutkcNY8U2g7vK9Y=$\
                D+CSWLOshSulAsxiupA+qs2/fTE=";
    let place = Place::new(settings(AccessSection::default()));
    let told =
        place.entrance.users().import(&[keys.into()], ImportForm::Passwords, Authority::Admin);
    assert_eq!(told.expect("room").made, 1);
    let rows = place.rows.clone();
    let come = |place: &Place| {
        assert!(granted(place.ask(question("ann", "pencil"))).account.is_some());
        assert_eq!(refused(place.ask(question("ann", "pen"))), Denial::BadCredentials);
    };
    come(&place);
    drop(place);
    come(&Place::over(settings(AccessSection::default()), Ok(Done::Written), rows));
}

#[test]
fn who_administers_the_server_is_changed_by_orders_that_reach_everybody_alone() {
    let folder = TempDir::new().expect("a folder");
    let access = AccessSection {
        hash_cost: guard::passwords::Cost::Light,
        superusers: vec!["root".into()],
        password_file: Some(file(&folder, "users", "filed:$plain$apple super\n")),
        ..Default::default()
    };
    let administrators = ["boss".to_owned()].into();
    let place = Place::new(Settings { administrators, ..settings(access.clone()) });
    let users = place.entrance.users();
    let supers = UserOrder { is_super: Some(true), ..order("eve") };
    users.put(supers.clone(), Authority::Admin).expect("room");
    users.put(order("ann"), Authority::Users).expect("she administers nothing");
    let out = |name: &str| UserFault::OutOfReach(name.into());
    let import = |line: String| users.import(&[line], ImportForm::Passwords, Authority::Users);
    for name in ["boss", "root", "filed", "eve"] {
        let before = users.user(name).expect("read");
        let orders = [
            order(name),
            UserOrder { password: None, is_disabled: Some(true), rules: None, ..order(name) },
            UserOrder { password: None, rules: None, is_super: Some(false), ..order(name) },
        ];
        for order in orders {
            assert_eq!(users.put(order, Authority::Users), Err(out(name)), "{name}");
        }
        for line in [format!("{name}:$plain$mine"), format!("{name}:$plain$secret")] {
            assert_eq!(import(line), Err(out(name)), "nor is a password tried so: {name}");
        }
        assert_eq!(users.kick(name, Authority::Users), Err(out(name)));
        assert_eq!(users.remove(name, Authority::Users), Err(out(name)));
        assert_eq!(users.user(name).expect("read"), before);
    }
    // Nobody comes to administer by such an order.
    assert_eq!(users.put(supers.clone(), Authority::Users), Err(out("eve")));
    let ann = UserOrder { is_super: Some(true), ..order("ann") };
    assert_eq!(users.put(ann, Authority::Users), Err(out("ann")));
    assert_eq!(import("new:$plain$x super".into()), Err(out("new")));
    let lines = ["new:$plain$x", "boss:$plain$x", "newer:$plain$x"].map(str::to_owned);
    let told = users.import(&lines, ImportForm::Passwords, Authority::Users).expect("room");
    assert_eq!((told.done, told.made), (1, 1), "up to the first that is out of authority");
    // Whom the configuration names later, a reload protects.
    let administrators = ["ann".to_owned()].into();
    place.entrance.reload(Settings { administrators, ..settings(access) }).expect("it is right");
    assert_eq!(users.remove("ann", Authority::Users), Err(out("ann")));
    assert_eq!(users.put(order("boss"), Authority::Users).map(|user| user.name), Ok("boss".into()));
    assert_eq!(users.remove("ann", Authority::Admin), Ok(true));
}

#[test]
fn an_import_stops_where_it_has_to_and_says_where() {
    let access = AccessSection {
        hash_cost: guard::passwords::Cost::Light,
        scram_iterations: 0,
        users_max: 70,
        ..Default::default()
    };
    let place = Place::new(settings(access));
    let users = place.entrance.users();
    let csv = |lines: &[String]| users.import(lines, ImportForm::Csv, Authority::Admin);
    let line = |number: usize| format!("user-{number},secret");
    let wrong = csv(&[line(0), "no comma".into(), line(1)]).expect("room");
    assert_eq!((wrong.done, wrong.made), (1, 1));
    assert!(wrong.wrong.is_some_and(|why| why.contains("a comma")));
    assert_eq!(users.user("user-1"), Ok(None));
    let twice = csv(&[line(1), line(2), line(1)]).expect("room");
    assert_eq!((twice.done, twice.made), (2, 2), "a name that stood there waits for the next call");
    // As many plain passwords as one call takes; the next goes on behind them.
    let many: Vec<String> = (3..103).map(line).collect();
    let slice = csv(&many).expect("room");
    assert_eq!((slice.done, slice.made), (64, 64));
    let slice = csv(&many[64..]).expect("room");
    assert_eq!((slice.done, slice.made), (3, 3), "then the book is full");
    assert_eq!(csv(&many[67..]), Err(UserFault::Full));
    assert_eq!(users.list(None, 100).expect("read").len(), 70);
    let full = Place::with_log(settings(AccessSection::default()), Err(StoreError::Full));
    let lines = [USERS.trim_end().to_owned()];
    let told = full.entrance.users().import(&lines, ImportForm::Passwords, Authority::Admin);
    assert_eq!(told, Err(UserFault::StoreFailed));
}
