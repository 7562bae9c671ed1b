//! Accounts by XMPP: registration (XEP-0077) and commands of administrators (XEP-0050, XEP-0133).

use crate::server::XmppListener;
use crate::server::tests::harness::*;
use crate::xml::scan::Scan;
use model::account::AccountAddress;
use model::chat::*;
use model::link::{Link, Source};
use model::ports::users::*;
use std::sync::Arc;

const COMMANDS: &str = "http://jabber.org/protocol/commands";
const ADMIN: &str = "http://jabber.org/protocol/admin";

/// A listener where anybody may make an account.
fn open(link: Link) -> Side {
    let listener = XmppListener {
        bind_ms_max: 10_000,
        registration: Registration::Open,
        domains: domains(false),
        scram_sha_256: true,
        scram_sha_1: false,
        plain: true,
        certificates: false,
        guests: false,
        fast: true,
        advertised: Arc::default(),
    };
    at(listener, link)
}

fn far() -> Link {
    Link { near: false, peer: ([10, 0, 0, 7], 4_711).into(), ..encrypted() }
}

fn register(inner: &str) -> String {
    format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{inner}</query></iq>")
}

fn wants(name: &str, password: &str) -> String {
    register(&format!("<username>{name}</username><password>{password}</password>"))
}

/// Request to the book, and its number.
fn asked(side: &mut Side) -> (u32, BookWish) {
    match words(side).pop().expect("asked") {
        ChatRequest::Book(it) => (it.number, it.wish),
        other => panic!("{other:?}"),
    }
}

fn book(side: &mut Side, number: u32, answer: BookAnswer) -> String {
    let said = told(side, ChatDelivery::Book { number, answer: Box::new(answer) });
    assert!(said.is_empty() || Scan::element(said.as_bytes()).is_ok(), "{said}");
    said
}

#[test]
fn ones_own_password_is_changed_and_the_stream_goes_on() {
    let mut side = available();
    let form = says(&mut side, &register("").replace("'set'", "'get'"));
    assert!(form.contains("<registered/><username>ann</username><password/>"), "{form}");
    assert_eq!(says(&mut side, &wants("Ann", "n&lt;w")), "", "the book answers");
    let (number, wish) = asked(&mut side);
    assert_eq!(wish, BookWish::Password(NewPassword::new("n<w").expect("one")));
    let said = book(&mut side, number, Ok(BookDone::Done));
    assert_eq!(said, "<iq type='result' id='r' to='ann@a.example/desk'></iq>");
}

#[test]
fn what_is_no_change_of_ones_own_is_refused_by_its_condition() {
    let mut side = available();
    let long = "x".repeat(UserOrder::PASSWORD_BYTES_MAX + 1);
    for (stanza, condition) in [
        (wants("bob", "new"), "<not-allowed"),
        (wants("ann", ""), "<not-acceptable"),
        (wants("ann", &long), "<not-acceptable"),
        (register("<username>ann</username>"), "<bad-request"),
        (register(""), "<bad-request"),
        (register("<remove/><username>ann</username>"), "<bad-request"),
    ] {
        let said = says(&mut side, &stanza);
        assert!(said.contains(condition), "{stanza}: {said}");
        assert!(words(&mut side).is_empty());
    }
    for (fault, condition) in [
        (BookFault::Off, "<not-allowed"),
        (BookFault::Rate, "<resource-constraint"),
        (BookFault::Busy, "<resource-constraint"),
        (BookFault::StoreFailed, "<resource-constraint"),
        (BookFault::Wrong("too <short>".into()), "too &lt;short"),
    ] {
        says(&mut side, &wants("ann", "new"));
        let (number, _) = asked(&mut side);
        let said = book(&mut side, number, Err(fault));
        assert!(said.contains(condition), "{said}");
    }
}

#[test]
fn an_account_is_given_up_by_a_word_that_stands_alone() {
    let mut side = available();
    says(&mut side, &register("<remove/>"));
    assert_eq!(asked(&mut side).1, BookWish::Leave);
}

#[test]
fn the_server_says_that_it_registers_where_it_does() {
    let query = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let info = format!("<iq type='get' id='i' to='a.example'>{query}</iq>");
    let feature = "<feature var='jabber:iq:register'/>";
    assert!(says(&mut available(), &info).contains(feature));
    let off = |registration| {
        let mut side = bound_at(registration);
        let found = says(&mut side, &info).contains(feature);
        (found, says(&mut side, &wants("ann", "new")))
    };
    let (found, refused) = off(Registration::Off);
    assert!(!found && refused.contains("<service-unavailable"), "{refused}");
}

/// Bound by a listener where people may do so much with accounts.
fn bound_at(registration: Registration) -> Side {
    let listener = XmppListener {
        bind_ms_max: 10_000,
        registration,
        domains: domains(false),
        scram_sha_256: true,
        scram_sha_1: false,
        plain: true,
        certificates: false,
        guests: false,
        fast: true,
        advertised: Arc::default(),
    };
    let mut side = at(listener, encrypted());
    says(&mut side, HEADER);
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    told(&mut side, yes());
    says(&mut side, HEADER);
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    side
}

#[test]
fn an_account_is_made_before_the_login_where_that_is_open() {
    let mut side = open(far());
    let features = says(&mut side, HEADER);
    assert!(features.contains("<register xmlns='http://jabber.org/features/iq-register'/>"));
    let form = says(&mut side, &register("").replace("'set'", "'get'"));
    assert!(form.contains("<username/><password/>") && form.contains("from='a.example'"), "{form}");
    assert_eq!(says(&mut side, &wants(" Bob ", "secret")), "", "the book answers");
    let registering = Registering {
        address: address("bob"),
        password: NewPassword::new("secret").expect("one"),
        source: Some(Source::of([10, 0, 0, 7].into())),
    };
    assert_eq!(words(&mut side), [ChatRequest::Register(Box::new(registering))]);
    assert_eq!(says(&mut side, &auth("PLAIN", "\0bob\0secret")), "", "it waits for the answer");
    let made = told(&mut side, done());
    assert_eq!(made, "<iq type='result' id='r' from='a.example'></iq>");
}

fn done() -> ChatDelivery {
    ChatDelivery::Book { number: 0, answer: Box::new(Ok(BookDone::Done)) }
}

#[test]
fn a_registration_that_is_none_is_refused_and_so_are_too_many() {
    let mut side = open(encrypted());
    says(&mut side, HEADER);
    for bad in [wants("a b", "x"), wants("", "x"), register("<username>bob</username>")] {
        let mut side = open(encrypted());
        says(&mut side, HEADER);
        let said = says(&mut side, &bad);
        assert!(said.contains("<not-acceptable"), "{bad}: {said}");
        assert!(words(&mut side).is_empty());
    }
    for _ in 0..3 {
        says(&mut side, &wants("bob", "x"));
        let [ChatRequest::Register(it)] = &words(&mut side)[..] else { panic!("asked") };
        assert_eq!(it.source, None, "of this machine");
        let answer = Box::new(Err(BookFault::Conflict));
        let said = told(&mut side, ChatDelivery::Book { number: 0, answer });
        assert!(said.contains("<conflict xmlns") && said.contains("id='r'"), "{said}");
    }
    assert!(says(&mut side, &wants("bob", "x")).contains("<policy-violation"));
}

#[test]
fn nobody_registers_where_it_is_not_open_or_can_be_overheard() {
    for link in [bare(), encrypted()] {
        let mut side = over(link);
        assert!(!says(&mut side, HEADER).contains("iq-register"));
        assert!(says(&mut side, &wants("bob", "x")).contains("<not-authorized"));
    }
    let heard = Link { near: false, ..bare() };
    for link in [heard, Link { near: false, ..startable() }] {
        let mut side = open(link);
        assert!(!says(&mut side, HEADER).contains("iq-register"));
        let said = says(&mut side, &wants("bob", "x"));
        assert!(said.contains("<not-allowed") && words(&mut side).is_empty(), "{said}");
    }
}

/// A command of the server's, with this in it.
fn command(node: &str, attributes: &str, inner: &str) -> String {
    format!(
        "<iq type='set' id='c' to='a.example'><command xmlns='{COMMANDS}' node='{ADMIN}#{node}' \
         {attributes}>{inner}</command></iq>"
    )
}

fn form(fields: &[(&str, &[&str])]) -> String {
    let values = |values: &[&str]| -> String {
        values.iter().map(|value| format!("<value>{value}</value>")).collect()
    };
    let fields: String = [("FORM_TYPE", &[ADMIN][..])]
        .iter()
        .chain(fields)
        .map(|(name, of)| format!("<field var='{name}'>{}</field>", values(of)))
        .collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

/// Begins a command of an administrator's: under which name it is open.
fn begun(side: &mut Side, node: &str) -> String {
    assert_eq!(says(side, &command(node, "action='execute'", "")), "", "the service says who may");
    let (number, wish) = asked(side);
    assert_eq!(wish, BookWish::Operate(OperatorWish::May));
    let said = book(side, number, Ok(BookDone::Done));
    assert!(said.contains("status='executing'") && said.contains("type='form'"), "{said}");
    let at = said.find("sessionid='").expect("a name") + "sessionid='".len();
    said[at..].split('\'').next().expect("it ends").to_owned()
}

fn change(verb: UserVerb, names: &[&str], password: Option<&str>) -> BookWish {
    let accounts = names.iter().map(|name| address(name)).collect();
    let password = password.and_then(NewPassword::new);
    BookWish::Operate(OperatorWish::Change(UserChange { verb, accounts, password }))
}

#[test]
fn each_command_has_a_form_and_comes_to_its_order() {
    let mut side = available();
    let one: &[(&str, &[&str])] = &[("accountjid", &["bob@a.example"]), ("password", &["x"])];
    let new: &[(&str, &[&str])] = &[one[0], one[1], ("password-verify", &["x"])];
    let two: &[(&str, &[&str])] = &[("accountjids", &["bob@a.example", " eve@A.example "])];
    let both = ["bob", "eve"];
    for (node, fields, expected) in [
        ("add-user", new, change(UserVerb::Add, &["bob"], Some("x"))),
        ("change-user-password", one, change(UserVerb::SetPassword, &["bob"], Some("x"))),
        ("delete-user", two, change(UserVerb::Remove, &both, None)),
        ("disable-user", two, change(UserVerb::Disable, &both, None)),
        ("reenable-user", two, change(UserVerb::Enable, &both, None)),
        ("end-user-session", two, change(UserVerb::End, &both, None)),
    ] {
        let id = begun(&mut side, node);
        says(&mut side, &command(node, &format!("sessionid='{id}'"), &form(fields)));
        let (number, wish) = asked(&mut side);
        assert_eq!(wish, expected, "{node}");
        let said = book(&mut side, number, Ok(BookDone::Done));
        assert!(said.contains("status='completed'") && said.contains(&id), "{said}");
        let again = says(&mut side, &command(node, &format!("sessionid='{id}'"), &form(fields)));
        assert!(again.contains("<bad-sessionid"), "{again}");
    }
}

#[test]
fn how_many_there_are_is_told_at_once_and_who_is_here_behind_a_form() {
    let mut side = available();
    for (node, wish, field) in [
        ("get-registered-users-num", OperatorWish::Registered, "registeredusersnum"),
        ("get-online-users-num", OperatorWish::Online(0), "onlineusersnum"),
    ] {
        says(&mut side, &command(node, "", ""));
        let (number, found) = asked(&mut side);
        assert_eq!(found, BookWish::Operate(wish));
        let said = book(&mut side, number, Ok(BookDone::Count(17)));
        let expected = format!("<field var='{field}'><value>17</value></field>");
        assert!(said.contains(&expected) && said.contains("status='completed'"), "{said}");
    }
    let node = "get-online-users-list";
    for (most, wanted) in [("25", 25), ("none", 200), ("65535", 200)] {
        let id = begun(&mut side, node);
        let fields = form(&[("max_items", &[most])]);
        says(&mut side, &command(node, &format!("sessionid='{id}' action='complete'"), &fields));
        let (number, wish) = asked(&mut side);
        assert_eq!(wish, BookWish::Operate(OperatorWish::Online(wanted)));
        let accounts: Vec<AccountAddress> = ["ann", "bob"].map(address).into();
        let said = book(&mut side, number, Ok(BookDone::Online { count: 2, accounts }));
        let expected = "<value>ann@a.example</value><value>bob@a.example</value>";
        assert!(said.contains(expected) && said.contains("'onlineuserjids'"), "{said}");
    }
}

#[test]
fn what_is_known_of_an_account_is_told() {
    let mut side = available();
    let node = "user-stats";
    for wrong in [&[][..], &[("accountjid", &["ann@a.example", "bob@a.example"][..])]] {
        let id = begun(&mut side, node);
        let said = says(&mut side, &command(node, &format!("sessionid='{id}'"), &form(wrong)));
        assert!(said.contains("<bad-request"), "{said}");
    }
    let id = begun(&mut side, node);
    let fields = form(&[("accountjid", &["bob@a.example"])]);
    says(&mut side, &command(node, &format!("sessionid='{id}'"), &fields));
    let (number, wish) = asked(&mut side);
    assert_eq!(wish, BookWish::Operate(OperatorWish::Statistics(address("bob"))));
    let devices = vec!["desk".into(), "a&b".into()];
    let said = book(&mut side, number, Ok(BookDone::Statistics { contacts: 3, devices }));
    assert!(said.contains("<field var='rostersize'><value>3</value></field>"), "{said}");
    assert!(said.contains("<value>desk</value><value>a&amp;b</value>"), "{said}");
}

#[test]
fn an_announcement_is_some_words_and_comes_as_a_headline_of_the_domain() {
    let mut side = available();
    let node = "announce";
    let too_long = "x".repeat(ANNOUNCED_BYTES_MAX + 1);
    for wrong in [" ", &too_long] {
        let id = begun(&mut side, node);
        let fields = form(&[("announcement", &[wrong])]);
        let said = says(&mut side, &command(node, &format!("sessionid='{id}'"), &fields));
        assert!(said.contains("<not-acceptable"), "{said}");
    }
    let id = begun(&mut side, node);
    let fields =
        form(&[("subject", &["Tonight"]), ("announcement", &["At ten", "we &lt;stop&gt;"])]);
    says(&mut side, &command(node, &format!("sessionid='{id}'"), &fields));
    let (number, wish) = asked(&mut side);
    let word = Arc::new(Announcement::new("Tonight", "At ten\nwe <stop>").expect("right"));
    assert_eq!(wish, BookWish::Operate(OperatorWish::Announce(word.clone())));
    let said = book(&mut side, number, Ok(BookDone::Done));
    assert!(said.contains("status='completed'"), "{said}");
    let expected = "<message type='headline' from='a.example' to='ann@a.example/desk'>\
        <subject>Tonight</subject><body>At ten\nwe &lt;stop&gt;</body></message>";
    assert_eq!(told(&mut side, ChatDelivery::Announcement(word.clone())), expected);
    let mut away = bound();
    assert_eq!(told(&mut away, ChatDelivery::Announcement(word)), "");
}

#[test]
fn whoever_is_no_administrator_is_told_nothing() {
    let mut side = available();
    let says_no = |side: &mut Side, stanza: &str| {
        says(side, stanza);
        let (number, _) = asked(side);
        book(side, number, Err(BookFault::Forbidden))
    };
    for node in ["add-user", "get-registered-users-num", "get-online-users-list"] {
        let said = says_no(&mut side, &command(node, "", ""));
        assert!(said.contains("<forbidden") && !said.contains("<field"), "{said}");
    }
    let query = |kind: &str, node: &str| {
        let space = format!("http://jabber.org/protocol/disco#{kind}");
        let query = format!("<query xmlns='{space}' node='{node}'/>");
        format!("<iq type='get' id='q' to='a.example'>{query}</iq>")
    };
    let said = says_no(&mut side, &query("items", COMMANDS));
    assert!(said.contains("type='result'") && !said.contains("<item"), "{said}");
    assert!(says_no(&mut side, &query("info", COMMANDS)).contains("<forbidden"));
    says(&mut side, &query("items", COMMANDS));
    let (number, _) = asked(&mut side);
    let said = book(&mut side, number, Ok(BookDone::Done));
    let item = format!("<item jid='a.example' node='{ADMIN}#add-user' name='Add User'/>");
    assert!(said.contains(&item) && said.matches("<item ").count() == 11, "{said}");
    says(&mut side, &query("info", &format!("{ADMIN}#add-user")));
    let (number, _) = asked(&mut side);
    let said = book(&mut side, number, Ok(BookDone::Done));
    assert!(said.contains("type='command-node' name='Add User'"), "{said}");
    let none = says(&mut side, &command("shutdown", "", ""));
    assert!(none.contains("<item-not-found") && words(&mut side).is_empty(), "{none}");
}

#[test]
fn a_form_that_is_wrong_is_refused_and_can_be_sent_again() {
    let mut side = available();
    let id = begun(&mut side, "add-user");
    let at = format!("sessionid='{id}'");
    let many: Vec<String> = (0..65).map(|n| format!("u{n}@a.example")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let whom = |jid| [("accountjid", jid), ("password", &["x"][..])];
    for (fields, condition) in [
        (form(&[]), "<bad-request"),
        (form(&whom(&["bob@a.example"])[..1]), "<bad-request"),
        (form(&whom(&["bob@a.example", "eve@a.example"])), "<bad-request"),
        (form(&whom(&["bob@b.example"])), "<item-not-found"),
        (form(&whom(&["a.example"])), "<item-not-found"),
        (form(&whom(&["b b@a.example"])), "<jid-malformed"),
        (form(&whom(&["bob@a.example/desk"])), "<not-acceptable"),
        (form(&whom(&many)), "<policy-violation"),
        (form(&[("accountjid", &["bob@a.example"]), ("password", &[""])]), "<not-acceptable"),
        (
            form(&[whom(&["bob@a.example"])[0], ("password", &["x"]), ("password-verify", &["y"])]),
            "<not-acceptable",
        ),
        (form(&whom(&["bob@a.example"])).replace(ADMIN, "x"), "<bad-request"),
        (String::new(), "<bad-payload"),
    ] {
        let said = says(&mut side, &command("add-user", &at, &fields));
        assert!(said.contains(condition), "{fields}: {said}");
        assert!(words(&mut side).is_empty());
    }
    let back = says(&mut side, &command("add-user", &format!("{at} action='prev'"), ""));
    assert!(back.contains("<bad-action"), "{back}");
    says(&mut side, &command("add-user", &at, &form(&whom(&["bob@a.example"]))));
    let (number, _) = asked(&mut side);
    let said = book(&mut side, number, Err(BookFault::Conflict));
    assert!(said.contains("<conflict xmlns"), "{said}");
}

#[test]
fn commands_are_cancelled_and_no_more_than_some_are_open() {
    let mut side = available();
    let id = begun(&mut side, "delete-user");
    let at = |id: &str, more: &str| command("delete-user", &format!("sessionid='{id}' {more}"), "");
    let other = command("add-user", &format!("sessionid='{id}'"), &form(&[]));
    assert!(says(&mut side, &other).contains("<bad-sessionid"), "of another command");
    let said = says(&mut side, &at(&id, "action='cancel'"));
    assert!(said.contains("status='canceled'"), "{said}");
    assert!(says(&mut side, &at(&id, "action='cancel'")).contains("<bad-sessionid"));
    let ids: Vec<String> = (0..5).map(|_| begun(&mut side, "delete-user")).collect();
    assert!(says(&mut side, &at(&ids[0], "action='cancel'")).contains("<bad-sessionid"));
    for id in &ids[1..] {
        assert!(says(&mut side, &at(id, "action='cancel'")).contains("status='canceled'"));
    }
    let begins = command("delete-user", "action='complete'", "");
    assert!(says(&mut side, &begins).contains("<bad-action"));
}
