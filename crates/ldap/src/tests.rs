//! Logins against scripted servers.

use crate::scripted::{Act, Request, Server, bound, entry, found, reference, result, serve};
use crate::{Ldap, LdapFaultKind, LdapSettings};
use model::ports::access::LdapVerdict;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::Builder;

const READER: &str = "cn=reader,dc=corp";
const ANN: &str = "uid=ann,dc=corp";

fn settings(urls: &[&str]) -> LdapSettings {
    LdapSettings {
        urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        bind_dn: READER.into(),
        password: "reads".into(),
        base: "dc=corp".into(),
        filter: "(uid=%u)".into(),
        name_attribute: "uid".into(),
        timeout_ms: 20_000,
        ..LdapSettings::default()
    }
}

fn ldap(settings: &LdapSettings) -> Ldap {
    Ldap::new(settings).expect("right settings")
}

fn right(name: &str) -> LdapVerdict {
    LdapVerdict::Right { name: name.into(), is_super: false }
}

/// Script of a server with the user `ann`, whose password is `secret`.
fn usual(id: u32, request: &Request) -> Act {
    match request {
        Request::Bind(name, password) => {
            let is_right = matches!(
                (name.as_str(), password.as_slice()),
                (READER, b"reads") | (ANN, b"secret")
            );
            bound(id, if is_right { 0 } else { 49 })
        }
        Request::Search(_, user) if user == "ann" || user == ANN => found(id, &[(ANN, "Ann")], 0),
        _ => found(id, &[], 0),
    }
}

/// The fault of a login at a server that answers searches with this script.
fn fault_of_search(
    search: impl Fn(u32) -> Act + Send + Clone + 'static,
) -> (LdapFaultKind, String) {
    let server = serve(move |id, request| match request {
        Request::Search(..) => search(id),
        bind => usual(id, bind),
    });
    let fault = ldap(&settings(&[&server.url])).ask("ann", b"secret").expect_err("no answer");
    assert!(fault.words.starts_with(&server.url), "{fault:?}");
    (fault.kind, fault.words)
}

fn binds(server: &Server) -> usize {
    server.requests.try_iter().filter(|it| matches!(it, Request::Bind(..))).count()
}

#[test]
fn a_user_is_searched_and_binds() {
    let server = serve(usual);
    let ldap = ldap(&settings(&[&server.url]));
    assert_eq!(ldap.ask("ann", b"secret"), Ok(right("ann")));
    assert_eq!(ldap.ask("ann", b"wrong"), Ok(LdapVerdict::Wrong));
    assert_eq!(ldap.ask("bob", b"secret"), Ok(LdapVerdict::Unknown));
    assert_eq!(ldap.ask("*)(uid=*", b"secret"), Ok(LdapVerdict::Unknown));
    let asked: Vec<Request> = server.requests.try_iter().collect();
    let bind = |name: &str, password: &[u8]| Request::Bind(name.into(), password.into());
    let search = |user: &str| Request::Search("dc=corp".into(), user.into());
    let expected = [
        bind(READER, b"reads"),
        search("ann"),
        bind(ANN, b"secret"),
        search("ann"),
        bind(ANN, b"wrong"),
        search("bob"),
        search("*)(uid=*"),
    ];
    assert_eq!(asked, expected, "connections are kept, and bound once");
}

#[test]
fn an_empty_password_or_name_is_never_sent() {
    let server = serve(usual);
    for user_dn in ["", "uid=%u,dc=corp", "%u"] {
        let mut settings = settings(&[&server.url]);
        if !user_dn.is_empty() {
            (settings.user_dn, settings.bind_dn) = (user_dn.into(), String::new());
        }
        assert_eq!(ldap(&settings).ask("ann", b""), Ok(LdapVerdict::Wrong));
        assert_eq!(ldap(&settings).ask("", b"secret"), Ok(LdapVerdict::Unknown));
        assert_eq!(ldap(&settings).ask(&"x".repeat(257), b"x"), Ok(LdapVerdict::Unknown));
    }
    assert_eq!(server.requests.try_iter().count(), 0);
    let (kind, words) = fault_of_search(|id| found(id, &[("", "ann")], 0));
    assert_eq!(kind, LdapFaultKind::Nonsense, "{words}");
}

#[test]
fn a_user_binds_by_a_pattern_and_is_searched_then() {
    let server = serve(usual);
    let mut settings = settings(&[&server.url]);
    (settings.bind_dn, settings.base) = (String::new(), String::new());
    settings.user_dn = "uid=%u,dc=corp".into();
    let by_dn = ldap(&settings);
    assert_eq!(by_dn.ask("ann", b"secret"), Ok(right("ann")));
    assert_eq!(by_dn.ask("ann", b"wrong"), Ok(LdapVerdict::Wrong));
    assert_eq!(by_dn.ask("ann,dc=corp", b"secret"), Ok(LdapVerdict::Wrong));
    let names: Vec<Request> = server.requests.try_iter().collect();
    assert_eq!(names[1], Request::Search(ANN.into(), "ann".into()));
    assert_eq!(names[3], Request::Bind("uid=ann\\,dc\\=corp,dc=corp".into(), b"secret".into()));
    // Active Directory accepts other forms of names, and finds no entry for an unknown name.
    let server = serve(|id, request| match request {
        Request::Bind(..) => bound(id, 0),
        search => usual(id, search),
    });
    settings.urls = vec![server.url.clone()];
    (settings.user_dn, settings.base) = ("%u@corp.example".into(), "dc=corp".into());
    assert_eq!(ldap(&settings).ask("ann", b"x"), Ok(right("ann")));
    assert_eq!(ldap(&settings).ask("cn=admin", b"x"), Ok(LdapVerdict::NotMember));
    let first = server.requests.try_iter().next().expect("a bind");
    assert_eq!(first, Request::Bind("ann@corp.example".into(), b"x".into()));
}

#[test]
fn groups_decide_who_may_log_in_and_who_may_do_everything() {
    let server = serve(|id, request| match request {
        Request::Search(base, value) if base == "ou=groups" => match value.as_str() {
            "members" => found(id, &[("cn=a", "a"), ("cn=b", "b")], 4),
            "admins" => found(id, &[("cn=a", "a")], 0),
            _ => found(id, &[], 0),
        },
        other => usual(id, other),
    });
    let with = |group: &str, superuser: &str| {
        let mut settings = settings(&[&server.url]);
        settings.group_base = "ou=groups".into();
        settings.group_filter = group.into();
        settings.superuser_filter = superuser.into();
        ldap(&settings).ask("ann", b"secret")
    };
    let super_user = LdapVerdict::Right { name: "ann".into(), is_super: true };
    assert_eq!(with("(&(cn=members)(member=%d))", ""), Ok(right("ann")));
    assert_eq!(with("(&(cn=others)(member=%d))", ""), Ok(LdapVerdict::NotMember));
    assert_eq!(with("", "(&(cn=admins)(member=%d))"), Ok(super_user.clone()));
    assert_eq!(with("(cn=members)", "(cn=others)"), Ok(right("ann")));
    assert_eq!(with("(cn=members)", "(cn=admins)"), Ok(super_user));
}

#[test]
fn a_name_is_the_entrys_and_not_the_clients() {
    let names = |entry: &'static str, given: &str| {
        let server = serve(move |id, request| match request {
            Request::Bind(..) => bound(id, 0),
            _ => found(id, &[("cn=a", entry)], 0),
        });
        ldap(&settings(&[&server.url])).ask(given, b"x")
    };
    assert_eq!(names("JÜRGEN", "jürgen"), Ok(right("jürgen")));
    assert_eq!(names("ann", "a\u{ad}nn"), Ok(right("ann")), "the server ignores a soft hyphen");
    for bad in ["", " ", "a\nb"] {
        assert_eq!(names(bad, "ann").expect_err("no name").kind, LdapFaultKind::Unnamed);
    }
}

#[test]
fn several_entries_are_nobody() {
    let two = fault_of_search(|id| found(id, &[(ANN, "ann"), ("cn=other", "ann")], 0));
    assert_eq!(two.0, LdapFaultKind::Ambiguous);
    let limited = fault_of_search(|id| found(id, &[(ANN, "ann"), ("cn=other", "ann")], 4));
    assert_eq!(limited.0, LdapFaultKind::Ambiguous);
    let thousands =
        fault_of_search(|id| Act::Send((0..10_000).flat_map(|_| entry(id, ANN, "ann")).collect()));
    assert_eq!(thousands.0, LdapFaultKind::Ambiguous);
    let endless =
        fault_of_search(|id| Act::Send((0..10_000).flat_map(|_| reference(id)).collect()));
    assert_eq!(endless.0, LdapFaultKind::Nonsense);
}

#[test]
fn references_are_ignored_and_referrals_are_no_answer() {
    let server = serve(|id, request| match request {
        Request::Search(..) => Act::Send(
            [reference(id), entry(id, ANN, "ann"), reference(id), result(id, 5, 0)].concat(),
        ),
        bind => usual(id, bind),
    });
    assert_eq!(ldap(&settings(&[&server.url])).ask("ann", b"secret"), Ok(right("ann")));
    let (kind, words) = fault_of_search(|id| found(id, &[], 10));
    assert!(kind == LdapFaultKind::Refused && words.contains("not followed"), "{words}");
    let (kind, words) = fault_of_search(|id| found(id, &[], 32));
    assert!(kind == LdapFaultKind::Refused && words.contains("NoSuchObject"), "{words}");
}

#[test]
fn nonsense_lets_nobody_in() {
    for nonsense in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"\x30\x00".to_vec(),
        b"\x30\x84\xff\xff\xff\xff".to_vec(),
        b"\x30\x03\x02\x01\x02".to_vec(),
        result(2, 1, 0),
        result(77, 5, 0),
        result(2, 24, 0),
        [0x30; 4_096].to_vec(),
    ] {
        let sent = nonsense.clone();
        let (kind, words) = fault_of_search(move |_| Act::Send(sent.clone()));
        assert_eq!(kind, LdapFaultKind::Nonsense, "{nonsense:?}: {words}");
    }
    let (kind, _) = fault_of_search(|_| Act::Close);
    assert_eq!(kind, LdapFaultKind::Unreachable);
}

#[test]
fn a_server_that_hangs_costs_the_time_of_the_call() {
    let server = serve(|_, _| Act::Hang);
    let ldap = ldap(&LdapSettings { timeout_ms: 50, ..settings(&[&server.url]) });
    let fault = ldap.ask("ann", b"secret").expect_err("no answer");
    assert_eq!(fault.kind, LdapFaultKind::Timeout, "{fault:?}");
}

#[test]
fn a_bind_that_is_refused_is_a_wrong_password_or_the_servers_fault() {
    let with = |reader: u32, user: u32| {
        let server = serve(move |id, request| match request {
            Request::Bind(name, _) => bound(id, if name == READER { reader } else { user }),
            search => usual(id, search),
        });
        ldap(&settings(&[&server.url])).ask("ann", b"secret").map_err(|fault| fault.kind)
    };
    assert_eq!(with(0, 0), Ok(right("ann")));
    for code in [19, 32, 34, 48, 49, 50, 53] {
        assert_eq!(with(0, code), Ok(LdapVerdict::Wrong), "{code}");
    }
    for code in [1, 2, 8, 10, 13, 14, 51, 52, 80, 4_096] {
        assert_eq!(with(0, code), Err(LdapFaultKind::Refused), "{code}");
    }
    assert_eq!(with(49, 0), Err(LdapFaultKind::Credentials));
    assert_eq!(with(52, 0), Err(LdapFaultKind::Refused));
}

#[test]
fn a_connection_that_was_closed_is_replaced_within_the_call() {
    // Each connection answers one search, then closes.
    let server = serve(|id, request| match request {
        Request::Search(..) if id > 2 => Act::Close,
        other => usual(id, other),
    });
    let ldap = ldap(&settings(&[&server.url]));
    for _ in 0..3 {
        assert_eq!(ldap.ask("ann", b"secret"), Ok(right("ann")));
    }
    assert_eq!(binds(&server), 6, "three of the reader and three of the user");
}

#[test]
fn another_server_is_asked_when_one_does_not_answer() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let refuses = serve(|id, _| bound(id, 52));
    let good = serve(usual);
    let ldap = ldap(&settings(&[&format!("ldap://{gone}"), &refuses.url, &good.url]));
    assert_eq!(ldap.ask("ann", b"secret"), Ok(right("ann")));
    assert_eq!(binds(&refuses), 1);
    assert_eq!(ldap.ask("ann", b"wrong"), Ok(LdapVerdict::Wrong));
    assert_eq!(binds(&refuses), 0, "the server that answered is asked first");
    let none = Ldap::new(&settings(&[&format!("ldap://{gone}")])).expect("right settings");
    let fault = none.ask("ann", b"secret").expect_err("nobody");
    assert_eq!(fault.kind, LdapFaultKind::Unreachable);
}

#[test]
fn another_server_is_asked_within_the_call_when_one_hangs() {
    let hangs = serve(|id, request| if id > 2 { Act::Hang } else { usual(id, request) });
    let good = serve(usual);
    let settings = LdapSettings { timeout_ms: 2_000, ..settings(&[&hangs.url, &good.url]) };
    let ldap = ldap(&LdapSettings { user_dn: "uid=%u,dc=corp".into(), ..settings });
    for _ in 0..3 {
        assert_eq!(ldap.ask("ann", b"secret"), Ok(right("ann")));
    }
    assert_eq!((binds(&hangs), binds(&good)), (2, 2), "one login each, and the one that hung");
}

/// Starts a server for one TLS connection, after StartTLS if `start_tls`; returns its URL and CA
/// certificate.
fn encrypted(start_tls: bool) -> (String, Vec<u8>) {
    let authority = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(Vec::new()).expect("parameters");
    let ca = params.self_signed(&authority).expect("a certificate");
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned()];
    let leaf = CertificateParams::new(names).expect("names").signed_by(&key, &issuer);
    let chain = vec![leaf.expect("a certificate").der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let config = Arc::new(config);
    let run = move || {
        use std::io::Write;
        for mut stream in listener.incoming().flatten() {
            if start_tls {
                let Ok(_) = crate::message::read(&mut stream) else { continue };
                // A plaintext response injected before the handshake must not be taken for one
                // within TLS.
                stream.write_all(&result(1, 24, 0)).expect("sent");
            }
            let session = ServerConnection::new(config.clone()).expect("a session");
            let mut tls = StreamOwned::new(session, stream);
            let mut id = u32::from(start_tls);
            while crate::message::read(&mut tls).is_ok() {
                id += 1;
                let answer = match id - u32::from(start_tls) {
                    1 => result(id, 1, 0),
                    _ => [entry(id, ANN, "ann"), result(id, 5, 0)].concat(),
                };
                tls.write_all(&answer).expect("sent");
            }
        }
    };
    Builder::new().name("encrypted".into()).spawn(run).expect("a thread");
    let scheme = if start_tls { "ldap" } else { "ldaps" };
    (format!("{scheme}://{address}"), ca.pem().into_bytes())
}

#[test]
fn connections_are_encrypted_and_certificates_verified() {
    for start_tls in [false, true] {
        let (url, ca) = encrypted(start_tls);
        let mut settings = LdapSettings { start_tls, ca: Some(ca), ..settings(&[&url]) };
        settings.user_dn = "uid=%u,dc=corp".into();
        settings.bind_dn.clear();
        assert_eq!(ldap(&settings).ask("ann", b"secret"), Ok(right("ann")), "{url}");
        let (_, other) = encrypted(start_tls);
        settings.ca = Some(other);
        let fault = ldap(&settings).ask("ann", b"secret").expect_err("another authority");
        assert_eq!(fault.kind, LdapFaultKind::Tls, "{fault:?}");
    }
    let server = serve(|id, request| match request {
        Request::StartTls => Act::Send(result(id, 24, 2)),
        other => usual(id, other),
    });
    let (_, ca) = encrypted(false);
    let settings = LdapSettings { start_tls: true, ca: Some(ca), ..settings(&[&server.url]) };
    let fault = ldap(&settings).ask("ann", b"secret").expect_err("StartTLS is refused");
    assert_eq!(fault.kind, LdapFaultKind::Tls, "{fault:?}");
    assert_eq!(server.requests.try_iter().collect::<Vec<_>>(), [Request::StartTls]);
}

#[test]
fn an_answer_in_front_of_the_handshake_is_not_taken_within_it() {
    let server = serve(|id, request| match request {
        Request::StartTls => Act::Send([result(id, 24, 0), result(id + 1, 1, 0)].concat()),
        _ => Act::Close,
    });
    let (_, ca) = encrypted(false);
    let settings = LdapSettings { start_tls: true, ca: Some(ca), ..settings(&[&server.url]) };
    let fault = ldap(&settings).ask("ann", b"secret").expect_err("no handshake");
    assert_eq!(fault.kind, LdapFaultKind::Tls, "{fault:?}");
}
