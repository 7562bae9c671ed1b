//! Services beside XMPP that the operator names for his people, such as relays of calls (XEP-0215).
//!
//! A client that is logged in gets them from the server of its own domain, with credentials for
//! each: a user name and a password, or such as are made anew for each question and hold for a time
//! (draft-uberti-behave-turn-rest), which the service can check by a secret that it shares with
//! this server. Which services there are is the listener's to know. Invariant: a secret goes to
//! nobody, and nothing at all to other domains.

use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Offered, Question, Questions};
use crate::server::session::Session;
use crate::stanza::{put_attribute, timestamp};
use crate::xml::scan::Element;
use base::time::Now;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use std::fmt;

/// The namespace of services (XEP-0215 2).
const SERVICES: &str = "urn:xmpp:extdisco:2";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        215,
        ("External Service Discovery", "0.7"),
        "no pushes: changes need a restart",
        "xmpp/test_server.py::test_services_beside_it_are_told_with_what_lets_one_in",
    )],
    offered: Offered::WithServices,
    server: (&[SERVICES], ""),
    questions: &[Questions {
        domain: Some(|question| match question.advertised.services() {
            [] => Err(StanzaFault::ServiceUnavailable),
            _ => Err(StanzaFault::Forbidden), // XEP-0215 2: they are for people of this server
        }),
        ..Questions::of_devices(SERVICES, asked)
    }],
    ..Feature::NONE
};

fn asked(session: &mut Session, question: &Question<'_, '_, '_>, _: &mut Out) -> Answer {
    let Some(listener) = session.listener.as_ref().filter(|_| question.is_for_server) else {
        return Err(StanzaFault::ServiceUnavailable);
    };
    let services = listener.advertised.services();
    match question.is_set {
        false => answer(question.asked, services, (question.now, session.account())).map(Some),
        true => Err(StanzaFault::ServiceUnavailable),
    }
}

/// Longest name of a type that is given back, bytes. One that is longer is a bad request.
const TYPE_BYTES_MAX: usize = 64;

/// A service that is none of XMPP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalService {
    /// Kind of the service: "stun", "turn" and their like.
    pub kind: Box<str>,
    /// The host, by its name or address.
    pub host: Box<str>,
    /// Its port; none: the usual one of its kind.
    pub port: Option<u16>,
    /// Transport: "udp" or "tcp".
    pub transport: &'static str,
    /// Credentials for the service.
    pub credentials: ServiceCredentials,
}

/// Credentials for a service.
#[derive(Clone, PartialEq, Eq)]
pub enum ServiceCredentials {
    /// No credentials: the service asks for none.
    Open,
    /// The same credentials for everybody.
    Same {
        /// The user name.
        username: Box<str>,
        /// The password.
        password: Box<str>,
    },
    /// Made for whoever asks.
    Made {
        /// Secret shared with the service.
        secret: Box<str>,
        /// How long they hold, seconds.
        ttl_s: u32,
        /// The account is part of the user name.
        with_account: bool,
    },
}

impl fmt::Debug for ServiceCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServiceCredentials::Open => "Open",
            ServiceCredentials::Same { .. } => "Same(…)",
            ServiceCredentials::Made { .. } => "Made(…)",
        })
    }
}

/// A user name and a password, and until when they hold, Unix milliseconds.
type Shown = (String, String, Option<u64>);

impl ServiceCredentials {
    fn shown(&self, now: Now, account: &str) -> Option<Shown> {
        match self {
            ServiceCredentials::Open => None,
            ServiceCredentials::Same { username, password } => {
                Some((username.to_string(), password.to_string(), None))
            }
            ServiceCredentials::Made { secret, ttl_s, with_account } => {
                let until_s = now.wall_ms / 1_000 + u64::from(*ttl_s);
                let account = Some(account).filter(|_| *with_account);
                let username = match account {
                    Some(account) => format!("{until_s}:{account}"),
                    None => until_s.to_string(),
                };
                let password = password(secret, &username);
                Some((username, password, Some(until_s * 1_000)))
            }
        }
    }
}

/// The password of a user name that holds for a time: what a service with the same secret comes to,
/// too (`use-auth-secret` of coturn).
fn password(secret: &str, username: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("of any length");
    mac.update(username.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Answer to a client that asks for services, or for credentials of one.
fn answer(
    asked: &Element<'_, '_>,
    services: &[ExternalService],
    (now, account): (Now, &str),
) -> Result<String, StanzaFault> {
    if services.is_empty() {
        return Err(StanzaFault::ServiceUnavailable);
    }
    match asked.name() {
        "services" => listed(asked, services, (now, account)),
        "credentials" => credentials(asked, services, (now, account)),
        _ => Err(StanzaFault::ServiceUnavailable),
    }
}

/// All services, or those of a type (XEP-0215 3.1, 3.2).
fn listed(
    asked: &Element<'_, '_>,
    services: &[ExternalService],
    (now, account): (Now, &str),
) -> Result<String, StanzaFault> {
    let kind = asked.attribute("type");
    if kind.as_ref().is_some_and(|kind| kind.len() > TYPE_BYTES_MAX) {
        return Err(StanzaFault::BadRequest);
    }
    let mut inner = format!("<services xmlns='{SERVICES}'").into_bytes();
    put_attribute("type", kind.as_deref(), &mut inner);
    inner.push(b'>');
    for service in services.iter().filter(|it| kind.as_ref().is_none_or(|kind| *kind == *it.kind)) {
        put(service, service.credentials.shown(now, account), &mut inner);
    }
    inner.extend_from_slice(b"</services>");
    Ok(String::from_utf8_lossy(&inner).into_owned())
}

/// Credentials for a service that the client knows already (XEP-0215 3.3).
fn credentials(
    asked: &Element<'_, '_>,
    services: &[ExternalService],
    (now, account): (Now, &str),
) -> Result<String, StanzaFault> {
    let mut wanted = asked.children().filter(|it| it.is("service", SERVICES));
    let (Some(wanted), None) = (wanted.next(), wanted.next()) else {
        return Err(StanzaFault::BadRequest);
    };
    let (Some(host), Some(kind)) = (wanted.attribute("host"), wanted.attribute("type")) else {
        return Err(StanzaFault::BadRequest);
    };
    let port = wanted.attribute("port").map(|port| port.parse::<u16>());
    let port = port.transpose().map_err(|_| StanzaFault::BadRequest)?;
    let is_it = |it: &&ExternalService| {
        it.host.eq_ignore_ascii_case(&host)
            && *it.kind == *kind
            && port.is_none_or(|port| it.port == Some(port))
    };
    let mut inner = format!("<credentials xmlns='{SERVICES}'>").into_bytes();
    let head = inner.len();
    for service in services.iter().filter(is_it) {
        if let Some(shown) = service.credentials.shown(now, account) {
            put(service, Some(shown), &mut inner);
        }
    }
    if inner.len() == head {
        return Err(StanzaFault::ItemNotFound);
    }
    inner.extend_from_slice(b"</credentials>");
    Ok(String::from_utf8_lossy(&inner).into_owned())
}

fn put(service: &ExternalService, shown: Option<Shown>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<service");
    put_attribute("type", Some(&service.kind), out);
    put_attribute("host", Some(&service.host), out);
    put_attribute("port", service.port.map(|port| port.to_string()).as_deref(), out);
    put_attribute("transport", Some(service.transport), out);
    if let Some((username, password, until_ms)) = shown {
        put_attribute("restricted", Some("true"), out);
        put_attribute("username", Some(&username), out);
        put_attribute("password", Some(&password), out);
        put_attribute("expires", until_ms.map(timestamp).as_deref(), out);
    }
    out.extend_from_slice(b"/>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;
    use base::time::Instant;

    /// A time, and when what is made then ends.
    const NOW_MS: u64 = 1_700_000_000_500;
    const UNTIL: &str = "expires='2023-11-15T22:13:20.000Z'";

    fn now() -> Now {
        Now::new(Instant::from_nanos(1), NOW_MS)
    }

    fn service(kind: &str, host: &str, credentials: ServiceCredentials) -> ExternalService {
        let (kind, host, port) = (kind.into(), host.into(), Some(3_478));
        ExternalService { kind, host, port, transport: "udp", credentials }
    }

    fn made(with_account: bool) -> ServiceCredentials {
        let secret = "north".into();
        ServiceCredentials::Made { secret, ttl_s: 86_400, with_account }
    }

    fn all() -> Vec<ExternalService> {
        let same =
            ServiceCredentials::Same { username: "guest".into(), password: "<guest>".into() };
        vec![
            service("stun", "stun.a.example", ServiceCredentials::Open),
            service("turn", "turn.a.example", made(false)),
            ExternalService { port: None, transport: "tcp", ..service("ftp", "::1", same) },
        ]
    }

    fn asks(inner: &str, services: &[ExternalService]) -> Result<String, StanzaFault> {
        let scan = Scan::element(inner.as_bytes()).expect("XML");
        let said = answer(&scan.root(), services, (now(), "ann@a.example"));
        said.inspect(|said| assert!(Scan::element(said.as_bytes()).is_ok(), "{said}"))
    }

    /// `printf %s 1433895918 | openssl dgst -sha1 -hmac north -binary | base64`, and with an
    /// account.
    #[test]
    fn a_password_is_what_coturn_comes_to() {
        assert_eq!(password("north", "1433895918"), VECTORS[0]);
        assert_eq!(password("north", "1433895918:ann@a.example"), VECTORS[1]);
        // RFC 2202 3, the second of its tests.
        let digest = "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79";
        let digest: [u8; 20] = base::hex::decode_array(digest).expect("twenty bytes");
        assert_eq!(password("Jefe", "what do ya want for nothing?"), STANDARD.encode(digest));
    }

    const VECTORS: [&str; 2] = ["3dkl8uIBelQlraT8v9eCSJTyt+U=", "fc6ybgwGGNWAjOd9iki9NyLSB5E="];

    #[test]
    fn services_are_told_with_what_lets_one_in() {
        let said = asks(&format!("<services xmlns='{SERVICES}'/>"), &all()).expect("told");
        let username = "1700086400";
        let made = password("north", username);
        let expected = format!(
            "<services xmlns='{SERVICES}'>\
             <service type='stun' host='stun.a.example' port='3478' transport='udp'/>\
             <service type='turn' host='turn.a.example' port='3478' transport='udp' \
             restricted='true' username='{username}' password='{made}' {UNTIL}/>\
             <service type='ftp' host='::1' transport='tcp' restricted='true' username='guest' \
             password='&lt;guest&gt;'/></services>"
        );
        assert_eq!(said, expected);
        let turn = asks(&format!("<services xmlns='{SERVICES}' type='turn'/>"), &all());
        let turn = turn.expect("told");
        assert!(turn.starts_with(&format!("<services xmlns='{SERVICES}' type='turn'><service ")));
        assert_eq!(turn.matches("<service ").count(), 1);
        let none = asks(&format!("<services xmlns='{SERVICES}' type='x&lt;'/>"), &all());
        assert_eq!(none, Ok(format!("<services xmlns='{SERVICES}' type='x&lt;'></services>")));
    }

    #[test]
    fn a_name_that_is_made_says_whose_it_is_only_if_it_is_to() {
        let services = [service("turn", "turn.a.example", made(true))];
        let said = asks(&format!("<services xmlns='{SERVICES}'/>"), &services).expect("told");
        assert!(said.contains("username='1700086400:ann@a.example'"), "{said}");
        let shown = password("north", "1700086400:ann@a.example");
        assert!(said.contains(&format!("password='{shown}'")), "{said}");
        assert!(!format!("{services:?}").contains("north"));
    }

    #[test]
    fn what_lets_one_in_at_one_service_is_told() {
        let of = |attributes: &str| {
            let inner = format!("<service {attributes}/>");
            asks(&format!("<credentials xmlns='{SERVICES}'>{inner}</credentials>"), &all())
        };
        for attributes in
            ["host='turn.a.example' type='turn'", "host='TURN.a.example' type='turn' port='3478'"]
        {
            let said = of(attributes).expect("told");
            assert!(said.contains("username='1700086400'") && said.contains(UNTIL), "{said}");
            assert_eq!(said.matches("<service ").count(), 1);
        }
        for (attributes, fault) in [
            ("host='stun.a.example' type='stun'", StanzaFault::ItemNotFound),
            ("host='turn.a.example' type='turn' port='1'", StanzaFault::ItemNotFound),
            ("host='turn.b.example' type='turn'", StanzaFault::ItemNotFound),
            ("host='turn.a.example'", StanzaFault::BadRequest),
            ("type='turn'", StanzaFault::BadRequest),
            ("host='turn.a.example' type='turn' port='x'", StanzaFault::BadRequest),
        ] {
            assert_eq!(of(attributes), Err(fault), "{attributes}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_without_services_there_is_nothing() {
        let two = "<service host='a' type='turn'/><service host='a' type='turn'/>";
        for (inner, fault) in [
            (format!("<credentials xmlns='{SERVICES}'/>"), StanzaFault::BadRequest),
            (format!("<credentials xmlns='{SERVICES}'>{two}</credentials>"), {
                StanzaFault::BadRequest
            }),
            (format!("<others xmlns='{SERVICES}'/>"), StanzaFault::ServiceUnavailable),
            (format!("<services xmlns='{SERVICES}' type='{}'/>", "x".repeat(65)), {
                StanzaFault::BadRequest
            }),
        ] {
            assert_eq!(asks(&inner, &all()), Err(fault), "{inner}");
            assert_eq!(asks(&inner, &[]), Err(StanzaFault::ServiceUnavailable), "{inner}");
        }
    }
}
