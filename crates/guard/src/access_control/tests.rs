//! Access control as a shard and as a thread meet it, with each method alone and in order.

use super::*;
use crate::accounts::Accounts;
use crate::acl::AclFile;
use crate::book::EVERYBODY;
use crate::cache::CacheLimits;
use crate::passwords::{Cost, Hashing};
use crate::scram::ScramHash;
use crate::settings::{Anonymous, LdapPolicy};
use crate::sources::SourceLimits;
use model::link::ChannelBindings;
use model::ports::access::{Act, Reach};
use model::ports::users::{UserOrder, UserRule};

pub(super) const NOW_S: u32 = 1_700_000_000;

/// `ann`'s password is `secret` ($7$ of mosquitto_passwd), `bob`'s `open` in plain.
const USERS: &str = "ann:$7$1500$XsNhmaJQbwoQ0338$elcFYitfYWqzDObxjSJMEZLfXOLykN4adlXD+tMdmeRLpHwI\
+qpsJhG3eSHUur1vDQcoP0AbpvM2dhGkSWwe4w==
bob:$plain$open
off:$plain$open disabled
root:$plain$open super
";

const ACL: &str = "topic read public/#\nuser ann\ntopic home/#\npattern dev/%c/#\n";

/// Work of a thread of the roof. Accounts are in memory, and none is read.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) hashes: bool,
    pub(super) verdict: Option<Result<ServiceVerdict, NoVerdict>>,
    pub(super) asked: Vec<String>,
    /// Answer of the LDAP server.
    pub(super) looked_up: Option<Result<LdapVerdict, NoVerdict>>,
}

impl Errands for Thread {
    fn may_hash(&self) -> bool {
        self.hashes
    }

    fn ask(&mut self, question: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
        self.asked.push(question.into());
        self.verdict.clone()
    }

    fn look_up(&mut self, user: &str, _: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>> {
        self.asked.push(user.into());
        self.looked_up.clone()
    }

    fn fetch_keys(&mut self) -> Option<bool> {
        Some(false)
    }

    fn entry(&mut self, _: &str) -> Option<Result<Option<UserEntry>, NotRead>> {
        None
    }
}

pub(super) fn hashing_thread() -> Thread {
    Thread { hashes: true, ..Thread::default() }
}

pub(super) fn files(users: &str, acl: Option<&str>) -> PeopleFiles {
    PeopleFiles {
        accounts: Accounts::parse("pw", users).expect("right"),
        acl: acl.map(|acl| AclFile::parse("acl", acl).expect("right")),
        ..PeopleFiles::default()
    }
}

pub(super) fn access_control(settings: Settings, acl: Option<&str>) -> AccessControl {
    AccessControl::new(settings, files(USERS, acl), [1; 32])
}

pub(super) fn question(user: Option<&str>, password: Option<&str>) -> Question {
    Question {
        client_id: "d7".into(),
        user: user.map(Box::from),
        password: password.map(|password| password.as_bytes().into()),
        certificate: None,
        method: None,
        dialogue: None,
        bindings: None,
        peer: "10.0.0.7:4711".parse().expect("an address"),
        near: false,
        door: 0,
        tls: false,
        protocol: "mqtt5",
    }
}

/// In a word: the user, `-` without a name, or why not.
pub(super) fn word(admission: Admission) -> String {
    match admission {
        Admission::Granted(grant, _) => grant.user.map_or("-".into(), |user| user.to_string()),
        Admission::Refused(why) => format!("{why:?}"),
        Admission::Continue { .. } => "continue".into(),
        Admission::Later => "later".into(),
    }
}

fn granted(admission: Admission) -> Grant {
    match admission {
        Admission::Granted(grant, _) => grant,
        other => panic!("{other:?}"),
    }
}

fn at_once(access_control: &AccessControl, user: Option<&str>, password: Option<&str>) -> String {
    word(access_control.admit(NOW_S, &question(user, password)))
}

#[test]
fn anonymous_is_a_choice() {
    let settings = |anonymous| Settings {
        doors: vec![ListenerPolicy { anonymous, ..ListenerPolicy::default() }],
        ..Settings::default()
    };
    let local = Question { near: true, ..question(None, None) };
    // A header can say anything; only the socket makes somebody local.
    let told = Question { peer: "127.0.0.1:1".parse().expect("one"), ..question(None, None) };
    for (anonymous, near, far) in [
        (Anonymous::No, "NotAuthorized", "NotAuthorized"),
        (Anonymous::Loopback, "-", "NotAuthorized"),
        (Anonymous::Yes, "-", "-"),
    ] {
        let access_control = access_control(settings(anonymous), None);
        assert_eq!(word(access_control.admit(NOW_S, &local)), near, "{anonymous:?}");
        assert_eq!(word(access_control.admit(NOW_S, &told)), far, "{anonymous:?}");
        assert_eq!(word(access_control.admit(NOW_S, &question(None, None))), far, "{anonymous:?}");
        let named = Question { user: Some("eve".into()), ..local.clone() };
        assert_eq!(
            word(access_control.admit(NOW_S, &named)),
            "BadCredentials",
            "a name must be proved"
        );
        let other_door = Question { door: 7, ..local.clone() };
        assert_eq!(
            word(access_control.admit(NOW_S, &other_door)),
            "NotAuthorized",
            "nothing is said of it"
        );
    }
    let door = ListenerPolicy { anonymous: Anonymous::Yes, methods: vec![], believe_names: true };
    let access_control =
        access_control(Settings { doors: vec![door], ..Settings::default() }, Some(ACL));
    let grant = granted(access_control.admit(NOW_S, &question(Some("ann"), None)));
    let rules = grant.rules.expect("an ACL");
    let who = Who { client_id: "d7", user: Some("ann") };
    assert!(rules.may(&who, Act::Publish, "home/x"), "as mosquitto has it");
}

#[test]
fn who_shows_nothing_is_let_in_by_methods_that_are_wanted() {
    let control = |methods: &[Method]| {
        let door = ListenerPolicy { methods: methods.into(), ..ListenerPolicy::default() };
        access_control(Settings { doors: vec![door], ..Settings::default() }, None)
    };
    let asked = |method: &str, certificate: Option<&str>, protocol: &'static str| Question {
        method: Some((method.into(), Box::default())),
        certificate: certificate.map(Box::from),
        protocol,
        ..question(certificate, None)
    };
    let all = control(&[Method::Passwords, Method::Anonymous, Method::Certificate]);
    let word_of = |control: &AccessControl, asked: Question| word(control.admit(NOW_S, &asked));
    assert_eq!(word_of(&all, asked("ANONYMOUS", None, "xmpp")), "-");
    assert_eq!(word_of(&all, asked("EXTERNAL", Some("bob"), "xmpp")), "bob");
    assert_eq!(word_of(&all, asked("EXTERNAL", Some("off"), "xmpp")), "NotAuthorized");
    for (control, asked) in [
        (&all, asked("ANONYMOUS", None, "im")),
        (&all, asked("EXTERNAL", Some("bob"), "im")),
        (&all, asked("EXTERNAL", Some(""), "xmpp")),
        (&all, asked("EXTERNAL", None, "xmpp")),
        (&control(&[Method::Scram]), asked("ANONYMOUS", None, "xmpp")),
        (&control(&[Method::Scram]), asked("EXTERNAL", Some("bob"), "xmpp")),
    ] {
        assert_eq!(word_of(control, asked), "BadMethod");
    }
}

#[test]
fn a_grant_says_whether_a_password_was_shown_and_a_listener_whether_it_takes_one() {
    let methods = [
        vec![Method::Certificate],
        vec![Method::Anonymous],
        vec![Method::Token, Method::Http],
        vec![Method::Scram],
        vec![Method::Certificate, Method::Passwords],
    ];
    let door = |methods| ListenerPolicy { methods, ..ListenerPolicy::default() };
    let doors = methods.map(door).into();
    let settings = Settings { doors, ..Settings::default() };
    let control = access_control(settings.clone(), None);
    let takes: Vec<bool> = (0..6).map(|door| control.takes_passwords(door)).collect();
    assert_eq!(takes, [false, false, false, true, true, false]);
    let without_scram = access_control(Settings { scram_hashes: vec![], ..settings }, None);
    assert!(!without_scram.takes_passwords(3) && without_scram.takes_passwords(4));
    let by = |question: Question| granted(control.admit(NOW_S, &question)).by_password;
    let ann = Question { door: 4, ..question(Some("bob"), Some("open")) };
    assert!(by(ann.clone()));
    assert!(!by(Question { certificate: Some("bob".into()), ..ann }));
}

#[test]
fn slow_hashes_are_for_threads_and_are_remembered() {
    let access_control = access_control(Settings::default(), None);
    assert_eq!(at_once(&access_control, Some("bob"), Some("open")), "bob");
    assert_eq!(at_once(&access_control, Some("bob"), Some("shut")), "BadCredentials");
    assert_eq!(at_once(&access_control, Some("bob"), None), "BadCredentials");
    assert_eq!(at_once(&access_control, Some("eve"), Some("open")), "BadCredentials");
    for (password, answer) in [("secret", "ann"), ("guess", "BadCredentials")] {
        let asked = question(Some("ann"), Some(password));
        assert_eq!(word(access_control.admit(NOW_S, &asked)), "later");
        assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut hashing_thread())), answer);
        assert_eq!(word(access_control.admit(NOW_S, &asked)), answer, "it is remembered");
    }
    let CacheLimits { positive_s, negative_s, .. } = CacheLimits::default();
    let asked = question(Some("ann"), Some("guess"));
    assert_eq!(word(access_control.admit(NOW_S + negative_s, &asked)), "later");
    let asked = question(Some("ann"), Some("secret"));
    assert_eq!(word(access_control.admit(NOW_S + positive_s - 1, &asked)), "ann");
    assert_eq!(word(access_control.admit(NOW_S + positive_s, &asked)), "later");
    assert_eq!(access_control.remembered(), 3);
}

#[test]
fn a_changed_password_is_not_the_one_remembered() {
    let access_control = access_control(Settings::default(), None);
    let asked = question(Some("ann"), Some("secret"));
    access_control.resolve(NOW_S, &asked, &mut hashing_thread());
    assert_eq!(word(access_control.admit(NOW_S, &asked)), "ann");
    put(&access_control, "ann", Some("other"), |_| {});
    assert_eq!(word(access_control.admit(NOW_S, &asked)), "later");
    assert_eq!(
        word(access_control.resolve(NOW_S, &asked, &mut hashing_thread())),
        "BadCredentials"
    );
}

pub(super) fn put(
    access_control: &AccessControl,
    name: &str,
    password: Option<&str>,
    change: impl Fn(&mut UserOrder),
) {
    let mut order = UserOrder {
        name: name.into(),
        password: password.map(String::from),
        is_super: None,
        is_disabled: None,
        rules: None,
    };
    change(&mut order);
    let hashing = Hashing { cost: Cost::Light, scram_iterations: 4_096, ..Hashing::default() };
    let known = match access_control.may_have(name) {
        true => access_control.entry(name, &mut AtOnce).expect("remembered"),
        false => None,
    };
    let before = known.as_deref().cloned().unwrap_or(UserEntry::new(access_control.version()));
    let kept = password.map(|password| hashing.hash(password.as_bytes(), [9; 32]));
    let entry = before.ordered(&order, kept).expect("right");
    let ends = entry.epoch != before.epoch;
    access_control.put(name, entry, ends);
}

fn rule(allow: bool, filter: &str) -> UserRule {
    UserRule { allow, publish: true, read: true, filter: filter.into() }
}

#[test]
fn whoever_is_disabled_stays_out() {
    let door = ListenerPolicy { methods: Method::ALL.into(), ..ListenerPolicy::default() };
    let access_control =
        access_control(Settings { doors: vec![door], ..Settings::default() }, None);
    assert_eq!(at_once(&access_control, Some("off"), Some("open")), "NotAuthorized");
    let by_certificate = Question { certificate: Some("off".into()), ..question(None, None) };
    assert_eq!(word(access_control.admit(NOW_S, &by_certificate)), "NotAuthorized");
    put(&access_control, "bob", None, |order| order.is_disabled = Some(true));
    assert_eq!(at_once(&access_control, Some("bob"), Some("open")), "NotAuthorized");
    let who = Who { client_id: "d7", user: Some("bob") };
    assert_eq!(access_control.renew(&who).map(|grant| grant.until_s), Some(1), "it is over");
}

#[test]
fn a_certificate_names_its_user_where_the_listener_says_so() {
    let door = ListenerPolicy { methods: vec![Method::Certificate], ..ListenerPolicy::default() };
    let settings = Settings { doors: vec![door, ListenerPolicy::default()], ..Settings::default() };
    let access_control = access_control(settings, Some(ACL));
    let asked = Question { certificate: Some("ann".into()), ..question(Some("bob"), None) };
    let grant = granted(access_control.admit(NOW_S, &asked));
    assert_eq!(grant.user.as_deref(), Some("ann"), "the name that was proved holds");
    let who = Who { client_id: "d7", user: Some("ann") };
    assert!(grant.rules.is_some_and(|rules| rules.may(&who, Act::Publish, "home/x")));
    let other = Question { door: 1, ..asked };
    assert_eq!(word(access_control.admit(NOW_S, &other)), "BadCredentials");
}

#[test]
fn rules_are_the_books_and_then_the_files() {
    let access_control = access_control(
        Settings { superusers: vec!["bob".into()], ..Settings::default() },
        Some(ACL),
    );
    let rules = |user: &str| {
        let who = Who { client_id: "d7", user: Some(user) };
        access_control.renew(&who).expect("known").rules
    };
    assert!(rules("bob").is_none() && rules("root").is_none(), "superusers are above rules");
    let may = |user: &str, topic| {
        let who = Who { client_id: "d7", user: Some(user) };
        rules(user).is_some_and(|rules| rules.may(&who, Act::Read, topic))
    };
    assert!(may("ann", "home/x") && may("ann", "dev/d7/x") && !may("ann", "else"));
    put(&access_control, "ann", None, |order| {
        order.rules = Some(vec![rule(false, "home/attic"), rule(true, "x")])
    });
    assert!(!may("ann", "home/attic") && may("ann", "home/x") && may("ann", "x"));
    put(&access_control, EVERYBODY, None, |order| {
        order.rules = Some(vec![rule(false, "x"), rule(true, "news")])
    });
    assert!(may("ann", "x") && may("ann", "news"), "everybody's come behind one's own");
    let anonymous = access_control.renew(&Who { client_id: "d7", user: None }).expect("always");
    let (anonymous, who) = (anonymous.rules.expect("some"), Who { client_id: "d7", user: None });
    assert!(anonymous.may(&who, Act::Read, "news") && anonymous.may(&who, Act::Read, "public/x"));
    assert_eq!(anonymous.reach(&who, "home/#"), Reach::Nothing);
    assert!(access_control.remove("ann") && !access_control.remove("ann"));
    assert!(may("ann", "home/attic") && !may("ann", "x"), "the file's user is still there");
}

#[test]
fn without_any_rule_everything_is_allowed_and_with_one_nothing_else_is() {
    let access_control = access_control(Settings::default(), None);
    let bob = Who { client_id: "d7", user: Some("bob") };
    assert!(access_control.renew(&bob).expect("known").rules.is_none());
    put(&access_control, "ann", None, |order| order.rules = Some(vec![rule(true, "a")]));
    let rules = access_control.renew(&bob).expect("known").rules.expect("there are rules");
    assert!(!rules.may(&bob, Act::Read, "a"));
    assert!(access_control.remove("ann"));
    assert!(access_control.renew(&bob).expect("known").rules.is_none());
}

#[test]
fn strangers_share_their_rules() {
    let access_control = access_control(Settings::default(), Some(ACL));
    let rules = |user: &str, password: &str| {
        granted(access_control.admit(NOW_S, &question(Some(user), Some(password)))).rules
    };
    put(&access_control, "eve", None, |_| {});
    let (one, other) = (rules("bob", "open").expect("some"), rules("bob", "open").expect("some"));
    assert!(Arc::ptr_eq(&one, &other));
    let eve =
        access_control.renew(&Who { client_id: "e", user: Some("eve") }).expect("known").rules;
    assert!(Arc::ptr_eq(&one, &eve.expect("some")));
}

#[test]
fn who_was_removed_is_over_and_versions_rise() {
    let only_passwords =
        ListenerPolicy { methods: vec![Method::Passwords], ..ListenerPolicy::default() };
    for door in [ListenerPolicy::default(), only_passwords] {
        let access_control =
            access_control(Settings { doors: vec![door], ..Settings::default() }, None);
        let eve = Who { client_id: "d7", user: Some("eve") };
        let before = access_control.version();
        put(&access_control, "eve", Some("x"), |_| {});
        assert!(access_control.version() > before);
        assert_eq!(access_control.renew(&eve).map(|grant| grant.until_s), Some(0));
        access_control.remove("eve");
        assert_eq!(access_control.renew(&eve).map(|grant| grant.until_s), Some(1));
        put(&access_control, "eve", Some("x"), |_| {});
        assert_eq!(access_control.renew(&eve).map(|grant| grant.until_s), Some(0));
        let bob = Who { user: Some("bob"), ..eve };
        access_control.replace(access_control.settings().as_ref().clone(), files("", None));
        assert_eq!(
            access_control.renew(&bob).map(|grant| grant.until_s),
            Some(1),
            "the file lost it"
        );
    }
    let access_control = access_control(Settings::default(), None);
    let stranger = Who { client_id: "d7", user: Some("by-certificate") };
    assert_eq!(access_control.renew(&stranger).map(|grant| grant.until_s), Some(0));
    let token = Some(token::TokenPolicy::default());
    access_control.replace(Settings { token, ..Settings::default() }, files("", None));
    assert!(access_control.renew(&stranger).is_none(), "its token may have said what it may do");
}

#[test]
fn a_service_is_asked_and_what_it_allows_is_remembered() {
    let door = ListenerPolicy {
        methods: vec![Method::Passwords, Method::Http],
        ..ListenerPolicy::default()
    };
    let settings = Settings { doors: vec![door], http_cache_s: Some(60), ..Settings::default() };
    let access_control = access_control(settings, None);
    let allow = ServiceVerdict::Allow { is_super: false, rules: None, expires_s: None };
    let asked = question(Some("eve"), Some("x"));
    assert_eq!(word(access_control.admit(NOW_S, &asked)), "later");
    let mut thread = Thread { verdict: Some(Ok(allow)), ..hashing_thread() };
    assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), "eve");
    assert!(thread.asked[0].contains("\"user\":\"eve\""));
    let again = Question { peer: "10.0.0.7:5".parse().expect("one"), ..asked.clone() };
    assert_eq!(word(access_control.admit(NOW_S + 59, &again)), "eve");
    assert_eq!(word(access_control.admit(NOW_S + 60, &asked)), "later");
    let other = Question { client_id: "d8".into(), ..asked.clone() };
    assert_eq!(
        word(access_control.admit(NOW_S, &other)),
        "later",
        "it was not asked about that one"
    );
    assert_eq!(at_once(&access_control, Some("bob"), Some("open")), "bob", "passwords come first");
    let short = ServiceVerdict::Allow { is_super: true, rules: None, expires_s: Some(9) };
    for (verdict, answer) in [
        (Ok(short), "eve"),
        (Ok(ServiceVerdict::Deny), "BadCredentials"),
        (Ok(ServiceVerdict::Ignore), "BadCredentials"),
        (Err(NoVerdict("gone".into())), "Unavailable"),
    ] {
        let mut thread = Thread { verdict: Some(verdict), ..hashing_thread() };
        let admission = access_control.resolve(NOW_S, &other, &mut thread);
        if let Admission::Granted(grant, _) = &admission {
            assert_eq!((grant.until_s, grant.rules.is_none()), (NOW_S + 9, true));
        }
        assert_eq!(word(admission), answer);
        assert_eq!(
            word(access_control.admit(NOW_S, &other)),
            "later",
            "only what holds is remembered"
        );
    }
}

/// A thread that asks while the settings are replaced.
struct Reloading<'a> {
    access_control: &'a AccessControl,
    settings: Settings,
}

impl Errands for Reloading<'_> {
    fn may_hash(&self) -> bool {
        true
    }

    fn ask(&mut self, _: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
        self.access_control.replace(self.settings.clone(), PeopleFiles::default());
        Some(Ok(ServiceVerdict::Allow { is_super: false, rules: None, expires_s: None }))
    }

    fn look_up(&mut self, user: &str, _: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>> {
        self.access_control.replace(self.settings.clone(), PeopleFiles::default());
        Some(Ok(LdapVerdict::Right { name: user.into(), is_super: false }))
    }

    fn fetch_keys(&mut self) -> Option<bool> {
        Some(false)
    }

    fn entry(&mut self, _: &str) -> Option<Result<Option<UserEntry>, NotRead>> {
        None
    }
}

#[test]
fn an_answer_of_before_a_reload_is_not_remembered_behind_it() {
    for method in [Method::Http, Method::Ldap] {
        let door = ListenerPolicy { methods: vec![method], ..ListenerPolicy::default() };
        let settings = Settings {
            doors: vec![door],
            http_cache_s: Some(60),
            ldap: Some(LdapPolicy { cache_s: 60, gives_super: false }),
            ..Settings::default()
        };
        let access_control = access_control(settings.clone(), None);
        let asked = question(Some("eve"), Some("x"));
        let mut thread = Reloading { access_control: &access_control, settings };
        assert_eq!(word(access_control.resolve(NOW_S, &asked, &mut thread)), "eve");
        assert_eq!(word(access_control.admit(NOW_S, &asked)), "later", "{method:?}");
    }
}

#[test]
fn an_exchange_proves_a_user_without_its_password() {
    let access_control = access_control(Settings::default(), None);
    put(&access_control, "ann", Some("pencil"), |_| {});
    for (user, password, answer) in [
        ("ann", "pencil", "ann"),
        ("ann", "pen", "BadCredentials"),
        ("bob", "open", "bob"),
        ("nobody", "x", "BadCredentials"),
    ] {
        assert_eq!(word(exchange(&access_control, user, password)), answer, "{user}");
    }
    let asked = |method: &str, data: &[u8]| Question {
        method: Some((method.into(), data.into())),
        ..question(None, None)
    };
    assert_eq!(
        word(access_control.admit(NOW_S, &asked("SCRAM-SHA-1", b"n,,n=ann,r=x"))),
        "BadMethod"
    );
    let bound = asked("SCRAM-SHA-256", b"p=tls-exporter,,n=ann,r=x");
    assert_eq!(word(access_control.admit(NOW_S, &bound)), "BadCredentials");
    let bindings = ChannelBindings { exporter: Some([7; 32]), end_point: None };
    for (method, first, answer) in [
        ("SCRAM-SHA-256-PLUS", "p=tls-exporter", "continue"),
        ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point", "BadCredentials"),
        ("SCRAM-SHA-256-PLUS", "p=tls-unique", "BadCredentials"),
        ("SCRAM-SHA-256-PLUS", "n", "BadCredentials"),
        ("SCRAM-SHA-256", "n", "continue"),
        ("SCRAM-SHA-256", "y", "BadCredentials"),
        ("SCRAM-SHA-256", "p=tls-exporter", "BadCredentials"),
    ] {
        let data = format!("{first},,n=ann,r=x");
        let bindings = Some(Box::new(bindings.clone()));
        let asked = Question { bindings, ..asked(method, data.as_bytes()) };
        assert_eq!(word(access_control.admit(NOW_S, &asked)), answer, "{method} {first}");
    }
    let unbound = asked("SCRAM-SHA-256-PLUS", b"p=tls-exporter,,n=ann,r=x");
    assert_eq!(word(access_control.admit(NOW_S, &unbound)), "BadMethod");
    let unbound = asked("SCRAM-SHA-256", b"y,,n=ann,r=x");
    assert_eq!(word(access_control.admit(NOW_S, &unbound)), "continue");
    assert_eq!(
        word(access_control.admit(NOW_S, &asked("SCRAM-SHA-256", b"n,,n=bob,r=x"))),
        "later"
    );
    let silent = access_control.admit(NOW_S, &asked("SCRAM-SHA-256", b""));
    let Admission::Continue { data, dialogue } = silent else { panic!("it is asked on") };
    assert!(data.is_empty());
    let first = Question { dialogue: Some(dialogue), ..asked("SCRAM-SHA-256", b"n,,n=ann,r=x") };
    assert_eq!(word(access_control.admit(NOW_S, &first)), "continue");
    let salts = ["nobody", "nobody"].map(|user| {
        let first = format!("n,,n={user},r=x");
        let answer = access_control.admit(NOW_S, &asked("SCRAM-SHA-256", first.as_bytes()));
        let Admission::Continue { data, .. } = answer else { panic!("it is asked on") };
        String::from_utf8(data.into()).expect("text")
    });
    let parts = salts.each_ref().map(|text| text.split_once(",s=").expect("a salt"));
    assert_eq!(parts[0].1, parts[1].1, "nobody's salt stays the same");
    assert_ne!(parts[0].0, parts[1].0, "a nonce does not");
    let door = ListenerPolicy { methods: vec![Method::Passwords], ..ListenerPolicy::default() };
    access_control.replace(Settings { doors: vec![door], ..Settings::default() }, files("", None));
    assert_eq!(
        word(access_control.admit(NOW_S, &asked("SCRAM-SHA-256", b"n,,n=ann,r=x"))),
        "BadMethod"
    );
}

/// The client's side (RFC 5802 3), by SHA-256.
fn exchange(access_control: &AccessControl, user: &str, password: &str) -> Admission {
    exchange_by(ScramHash::Sha256, access_control, user, password)
}

/// The same by a hash.
pub(super) fn exchange_by(
    hash: ScramHash,
    access_control: &AccessControl,
    user: &str,
    password: &str,
) -> Admission {
    use base64::prelude::{BASE64_STANDARD, Engine};
    use ring::{digest, hmac, pbkdf2};
    let (derived, keyed, hashed) = match hash {
        ScramHash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
        ScramHash::Sha1 => (
            pbkdf2::PBKDF2_HMAC_SHA1,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
        ),
    };
    let mac = |key: &[u8], said: &str| hmac::sign(&hmac::Key::new(keyed, key), said.as_bytes());
    let mut thread = hashing_thread();
    let bare = format!("n={user},r=abc");
    let mut asked = Question {
        method: Some((hash.method().into(), format!("n,,{bare}").into_bytes().into())),
        ..question(None, None)
    };
    let answer = access_control.resolve(NOW_S, &asked, &mut thread);
    let Admission::Continue { data, dialogue } = answer else { return answer };
    let first = String::from_utf8(data.into()).expect("text");
    let field = |number: usize| first.split(',').nth(number).expect("three fields");
    let salt = BASE64_STANDARD.decode(&field(1)[2..]).expect("base64");
    let rounds = field(2)[2..].parse().expect("a number");
    let mut salted = vec![0; hashed.output_len()];
    pbkdf2::derive(derived, rounds, &salt, password.as_bytes(), &mut salted);
    let key = mac(&salted, "Client Key");
    let stored = digest::digest(hashed, key.as_ref());
    let without_proof = format!("c=biws,{}", field(0));
    let signature = mac(stored.as_ref(), &format!("{bare},{first},{without_proof}"));
    let both = key.as_ref().iter().zip(signature.as_ref());
    let proof: Vec<u8> = both.map(|(one, other)| one ^ other).collect();
    let last = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
    asked.method = Some((hash.method().into(), last.into_bytes().into()));
    asked.dialogue = Some(dialogue);
    access_control.resolve(NOW_S, &asked, &mut thread)
}

/// A thread that fetches keys, or fails to.
struct Fetcher<'a> {
    access_control: &'a AccessControl,
    set: Option<String>,
    fetched: u32,
}

impl Errands for Fetcher<'_> {
    fn may_hash(&self) -> bool {
        true
    }

    fn ask(&mut self, _: &str) -> Option<Result<ServiceVerdict, NoVerdict>> {
        None
    }

    fn look_up(&mut self, _: &str, _: &[u8]) -> Option<Result<LdapVerdict, NoVerdict>> {
        None
    }

    fn fetch_keys(&mut self) -> Option<bool> {
        self.fetched += 1;
        if let Some(set) = &self.set {
            let mut keys = Keys::default();
            keys.add_set(set).expect("keys");
            self.access_control.learn(keys);
        }
        Some(self.set.is_some())
    }

    fn entry(&mut self, _: &str) -> Option<Result<Option<UserEntry>, NotRead>> {
        None
    }
}

#[test]
fn a_token_is_let_in_when_its_key_is_known() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../token/vectors.json")).expect("JSON");
    let token = |at: usize| vectors["tokens"][at]["token"].as_str().expect("text");
    let policy = token::TokenPolicy { fetches_keys: true, ..token::TokenPolicy::default() };
    let settings = Settings { token: Some(policy), ..Settings::default() };
    let access_control = access_control(settings, Some(ACL));
    let (rs256, unknown) = (question(None, Some(token(3))), question(None, Some(token(12))));
    assert_eq!(word(access_control.admit(NOW_S, &rs256)), "later", "there are no keys yet");
    let mut thread = Fetcher { access_control: &access_control, set: None, fetched: 0 };
    assert_eq!(word(access_control.resolve(NOW_S, &rs256, &mut thread)), "Unavailable");
    assert_eq!(
        word(access_control.admit(NOW_S + 1, &rs256)),
        "Unavailable",
        "it was asked just now"
    );
    let set = Some(vectors["jwks"].to_string());
    let mut thread = Fetcher { access_control: &access_control, set, fetched: 0 };
    assert_eq!(word(access_control.resolve(NOW_S + 10, &rs256, &mut thread)), "ann");
    let grant = granted(access_control.admit(NOW_S, &rs256));
    let other = granted(access_control.admit(NOW_S, &rs256));
    assert_eq!(grant.until_s, 1_700_000_630);
    let (rules, others) = (grant.rules.expect("its own"), other.rules.expect("the same"));
    let who = Who { client_id: "d7", user: Some("ann") };
    assert!(rules.may(&who, Act::Read, "dev/d7/x") && !rules.may(&who, Act::Read, "home/x"));
    assert!(rules.fixed() && Arc::ptr_eq(&rules, &others), "what is said alike is shared");
    assert_eq!(word(access_control.admit(NOW_S + 11, &unknown)), "BadCredentials");
    assert_eq!(word(access_control.admit(NOW_S + 20, &unknown)), "later", "its key may be new");
    assert_eq!(word(access_control.resolve(NOW_S + 20, &unknown, &mut thread)), "BadCredentials");
    assert_eq!(thread.fetched, 2);
    assert_eq!(word(access_control.admit(1_700_000_630, &rs256)), "BadCredentials", "it is over");
    let named = Question { user: Some("bob".into()), ..rs256 };
    assert_eq!(
        word(access_control.admit(NOW_S, &named)),
        "BadCredentials",
        "bob's password it is not"
    );
    put(&access_control, "ann", None, |order| order.is_disabled = Some(true));
    assert_eq!(word(access_control.admit(NOW_S, &question(None, Some(token(3))))), "NotAuthorized");
}

#[test]
fn client_identifiers_may_be_bound_to_users() {
    let client_ids = ["%u", "%u:*", "guest-*"].map(String::from).to_vec();
    let settings = Settings { superusers: vec!["bob".into()], client_ids, ..Settings::default() };
    let bound = access_control(settings, None);
    let free = access_control(Settings::default(), None);
    for (user, client_id, may) in [
        (Some("ann"), "ann", true),
        (Some("ann"), "ann:d7", true),
        (Some("ann"), "ann:", true),
        (Some("ann"), "anna", false),
        (Some("ann"), "d7", false),
        (Some("ann"), "eve:d7", false),
        (Some("eve"), "ann:d7", false),
        (Some("eve"), "guest-1", true),
        (None, "guest-1", true),
        (None, "ann", false),
        (None, ":d7", false),
        (Some("bob"), "ann", true),
    ] {
        let who = Who { client_id, user };
        assert_eq!(bound.may_be(&who), may, "{who:?}");
    }
    for (user, client_id, may) in [
        (Some("ann"), "ann", true),
        (Some("ann"), "ann:d7", true),
        (Some("eve"), "d7", true),
        (Some("eve"), "d7:ann", true),
        (Some("eve"), "anna", true),
        (Some("eve"), "*", true),
        (Some("eve"), "ann", false),
        (Some("eve"), "ann:", false),
        (Some("eve"), "ann:d7", false),
        (None, "ann", false),
        (None, "d7", true),
        (Some("ann:d7"), "ann:d7:x", true),
    ] {
        let who = Who { client_id, user };
        assert_eq!(free.may_be(&who), may, "any but another user's: {who:?}");
    }
}

#[test]
fn a_source_that_guesses_is_refused_without_a_look_and_others_are_not() {
    let sources = SourceLimits { failures_max: 5, ..SourceLimits::default() };
    let access_control = access_control(Settings { sources, ..Settings::default() }, None);
    let guess = |number: u32| Question {
        client_id: format!("g{number}").into(),
        ..question(Some("nobody"), Some("guess"))
    };
    for number in 0..5 {
        assert_eq!(word(access_control.admit(NOW_S, &guess(number))), "BadCredentials");
    }
    assert_eq!(word(access_control.admit(NOW_S, &guess(9))), "Rate");
    let elsewhere = Question { peer: "10.0.0.8:1".parse().expect("one"), ..guess(9) };
    assert_eq!(word(access_control.admit(NOW_S, &elsewhere)), "BadCredentials");
    assert_eq!(
        word(access_control.admit(NOW_S, &Question { near: true, ..guess(9) })),
        "BadCredentials"
    );
}

#[test]
fn the_longest_password_is_looked_at_and_a_longer_one_is_not() {
    let most = UserOrder::PASSWORD_BYTES_MAX;
    let of = |bytes: usize| {
        let password = "p".repeat(bytes);
        let users = format!("long:$plain${password}\n");
        let access_control = AccessControl::new(Settings::default(), files(&users, None), [1; 32]);
        at_once(&access_control, Some("long"), Some(&password))
    };
    assert_eq!((of(most), of(most + 1)), ("long".into(), "BadCredentials".into()));
}

#[test]
fn so_many_claims_are_shared_and_then_the_oldest_is_forgotten() {
    let access_control = access_control(Settings::default(), None);
    let claimed = |n: u32| {
        let claim = serde_json::json!({"all": [format!("a/{n}")]});
        access_control.claimed(&claim).expect("rules")
    };
    let first = claimed(0);
    (1..CLAIMS_MAX).for_each(|n| drop(claimed(n)));
    assert!(Arc::ptr_eq(&first, &claimed(0)), "there is room for all of them");
    claimed(CLAIMS_MAX);
    assert!(!Arc::ptr_eq(&first, &claimed(0)));
    let kept = access_control.claims.lock().expect("nobody panicked").len();
    assert!(kept <= CLAIMS_MAX as usize, "{kept}");
}
