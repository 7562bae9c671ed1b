//! An LDAP server for tests whose script gives right or wrong answers.

use crate::ber::{put, put_number, put_with, tag};
use crate::message;
use ldap_parser::FromBer;
use ldap_parser::filter::Filter;
use ldap_parser::ldap::{AuthenticationChoice, LdapMessage, ProtocolOp};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// Most requests that are kept for a test.
const REQUESTS_MAX: usize = 64;

/// A request, with the fields that tests check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Name and password.
    Bind(String, Vec<u8>),
    /// Base, and the value of the first comparison in the filter.
    Search(String, String),
    StartTls,
}

/// Reaction of the server to a request.
pub(crate) enum Act {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends nothing, and keeps the connection.
    Hang,
    /// Ends the connection.
    Close,
}

/// A running server. Its requests arrive at `requests`.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) requests: Receiver<Request>,
}

/// Starts a server that answers on every connection by this script, from message number and
/// request.
pub(crate) fn serve(script: impl Fn(u32, &Request) -> Act + Send + Clone + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ldap://{}", listener.local_addr().expect("bound"));
    let (sender, requests) = sync_channel(REQUESTS_MAX);
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let (script, sender) = (script.clone(), sender.clone());
            let talk = move || talk(stream, &script, &sender);
            Builder::new().name("scripted".into()).spawn(talk).expect("a thread");
        }
    };
    Builder::new().name("scripted".into()).spawn(accept).expect("a thread");
    Server { url, requests }
}

fn talk(
    mut stream: TcpStream,
    script: &dyn Fn(u32, &Request) -> Act,
    sender: &SyncSender<Request>,
) {
    while let Ok(bytes) = message::read(&mut stream) {
        let (_, asked) = LdapMessage::from_ber(&bytes).expect("the client sends LDAP");
        let request = match asked.protocol_op {
            ProtocolOp::BindRequest(it) => match it.authentication {
                AuthenticationChoice::Simple(password) => {
                    Request::Bind(it.name.0.into(), password.into())
                }
                other => panic!("{other:?}"),
            },
            ProtocolOp::SearchRequest(it) => {
                Request::Search(it.base_object.0.into(), compared(&it.filter))
            }
            ProtocolOp::ExtendedRequest(_) => Request::StartTls,
            other => panic!("{other:?}"),
        };
        let act = script(asked.message_id.0, &request);
        // A test that has seen enough no longer reads requests.
        let _ = sender.try_send(request);
        match act {
            Act::Send(bytes) if stream.write_all(&bytes).is_ok() => {}
            Act::Hang => {}
            Act::Send(_) | Act::Close => return,
        }
    }
}

fn compared(filter: &Filter<'_>) -> String {
    match filter {
        Filter::And(all) | Filter::Or(all) => all.first().map(compared).unwrap_or_default(),
        Filter::EqualityMatch(it) => String::from_utf8_lossy(&it.assertion_value).into(),
        _ => String::new(),
    }
}

/// A response whose content is a result.
pub(crate) fn result(id: u32, operation: u8, code: u32) -> Vec<u8> {
    response(id, operation, |out| {
        put_number(out, tag::ENUMERATED, code);
        put(out, tag::OCTET_STRING, b"");
        put(out, tag::OCTET_STRING, b"");
    })
}

/// The answer to a bind.
pub(crate) fn bound(id: u32, code: u32) -> Act {
    Act::Send(result(id, 1, code))
}

/// The response to a search: entries, and the end with this code.
pub(crate) fn found(id: u32, entries: &[(&str, &str)], code: u32) -> Act {
    let entries = entries.iter().map(|(dn, name)| entry(id, dn, name));
    Act::Send(entries.chain([result(id, 5, code)]).flatten().collect())
}

/// An entry with a value of `uid`.
pub(crate) fn entry(id: u32, dn: &str, name: &str) -> Vec<u8> {
    response(id, 4, |out| {
        put(out, tag::OCTET_STRING, dn.as_bytes());
        put_with(out, tag::SEQUENCE, |out| {
            put_with(out, tag::SEQUENCE, |out| {
                put(out, tag::OCTET_STRING, b"uid");
                put_with(out, 0x31, |out| put(out, tag::OCTET_STRING, name.as_bytes()));
            });
        });
    })
}

/// A reference to another server.
pub(crate) fn reference(id: u32) -> Vec<u8> {
    response(id, 19, |out| put(out, tag::OCTET_STRING, b"ldap://elsewhere.example/dc=x"))
}

fn response(id: u32, operation: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put_with(&mut out, tag::SEQUENCE, |out| {
        put_number(out, tag::INTEGER, id);
        put_with(out, tag::application(operation), fill);
    });
    out
}
