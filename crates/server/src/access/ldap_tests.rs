//! The entrance with an LDAP server that is played: one user, `eve`, whose password is `secret`.

use super::tests::{Place, file, granted, question, refused, settings};
use super::*;
use crate::config::{AccessSection, Hidden, LdapSection};
use ::ldap::LdapFaultKind;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use tempfile::TempDir;

/// Operations of requests (RFC 4511 appendix B).
const BIND: u8 = 0x60;
const SEARCH: u8 = 0x63;

/// Plays a server; its URL.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ldap://{}", listener.local_addr().expect("bound"));
    let run = move || {
        for stream in listener.incoming().flatten() {
            Builder::new().spawn(move || talk(stream)).expect("a thread");
        }
    };
    Builder::new().spawn(run).expect("a thread");
    url
}

/// Requests here are short: one byte of length, one of the number.
fn talk(mut stream: TcpStream) {
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut body = vec![0; head[1].into()];
        stream.read_exact(&mut body).expect("a request");
        let (id, operation) = (body[2], body[3]);
        let has = |text: &[u8]| body.windows(text.len()).any(|part| part == text);
        let result = |operation: u8, code: u8| {
            vec![0x30, 12, 2, 1, id, operation, 7, 0x0a, 1, code, 4, 0, 4, 0]
        };
        let answer = match operation {
            BIND if has(b"secret") || has(b"reads") => result(0x61, 0),
            BIND => result(0x61, 49),
            SEARCH if has(b"eve") || has(b"Eve") => {
                let entry = b"\x64\x18\x04\x06cn=eve\x30\x0e\x30\x0c\x04\x03uid\x31\x05\x04\x03EVE";
                let mut found = vec![0x30, 3 + entry.len() as u8, 2, 1, id];
                found.extend_from_slice(entry);
                [found, result(0x65, 0)].concat()
            }
            SEARCH => result(0x65, 0),
            other => panic!("{other}"),
        };
        stream.write_all(&answer).expect("sent");
    }
}

fn at(url: &str, change: impl FnOnce(&mut LdapSection)) -> Settings {
    let mut ldap = LdapSection {
        urls: vec![url.to_owned()],
        bind_dn: "cn=r".into(),
        password: Hidden::of("reads"),
        base: "dc=x".into(),
        timeout_ms: 20_000,
        ..LdapSection::default()
    };
    change(&mut ldap);
    settings(AccessSection { ldap, ..AccessSection::default() })
}

#[test]
fn an_ldap_server_decides_and_its_absence_is_not_a_wrong_password() {
    let url = serve();
    let place = Place::new(at(&url, |_| {}));
    assert_eq!(granted(place.ask(question("Eve", "secret"))).user.as_deref(), Some("eve"));
    assert_eq!(refused(place.ask(question("eve", "guess"))), Denial::BadCredentials);
    assert_eq!(refused(place.ask(question("bob", "secret"))), Denial::BadCredentials);
    let counts = place.entrance.ldap_counts().expect("there is one");
    assert_eq!((counts.up, counts.asked), (1, 3));
    assert!(counts.faults.iter().all(|(_, count)| *count == 0), "{counts:?}");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    place.entrance.reload(at(&format!("ldap://{gone}"), |_| {})).expect("right settings");
    assert_eq!(refused(place.ask(question("eve", "secret"))), Denial::Unavailable);
    let counts = place.entrance.ldap_counts().expect("there is one");
    assert_eq!((counts.up, counts.asked), (0, 4));
    let of = |kind| counts.faults.iter().find(|(of, _)| *of == kind).expect("counted").1;
    assert!(of(LdapFaultKind::Unreachable) >= 1, "{counts:?}");
    place.entrance.reload(at(&url, |_| {})).expect("right settings");
    assert_eq!(granted(place.ask(question("eve", "secret"))).user.as_deref(), Some("eve"));
    place.entrance.reload(settings(AccessSection::default())).expect("right settings");
    assert_eq!(refused(place.ask(question("eve", "secret"))), Denial::BadCredentials);
    assert_eq!(place.entrance.ldap_counts(), None);
}

#[test]
fn ldap_begins_at_a_reload_and_takes_the_password_of_a_file() {
    let place = Place::new(settings(AccessSection::default()));
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "password", "reads\nmore\n");
    let with_file = at(&serve(), |ldap| {
        (ldap.password, ldap.password_file) = (Hidden::default(), Some(path));
    });
    place.entrance.reload(with_file).expect("right settings");
    assert_eq!(granted(place.ask(question("eve", "secret"))).user.as_deref(), Some("eve"));
    let wrong = at(&serve(), |ldap| ldap.password = Hidden::of("other"));
    place.entrance.reload(wrong).expect("right settings");
    assert_eq!(refused(place.ask(question("eve", "secret"))), Denial::Unavailable);
}

#[test]
fn files_that_ldap_cannot_use_are_told_at_the_start() {
    let folder = TempDir::new().expect("a folder");
    let empty = file(&folder, "empty", "");
    let missing = || Some("/nowhere/x".into());
    let wrong = [
        (at("ldaps://a", |ldap| ldap.ca = missing()), "/nowhere/x"),
        (at("ldaps://a", |ldap| ldap.ca = Some(empty.clone())), "no usable certificate"),
        (at("ldap://a", |ldap| ldap.password_file = missing()), "/nowhere/x"),
        (at("ldap://a", |ldap| ldap.password_file = Some(empty.clone())), "first line is empty"),
    ];
    for (settings, words) in wrong {
        let problem = Entrance::new(settings, [0; 32]).err().expect("it is refused");
        assert!(problem.starts_with("[access.ldap] ") && problem.contains(words), "{problem}");
    }
}
