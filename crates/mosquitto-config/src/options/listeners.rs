//! Options of a listener: where it listens, TLS, who a client is.
//!
//! A protection that is not available closes the listener: it is written, but not opened.

use super::Plan::{Becomes, Closes, Ignored, Lost};
use super::Scope::Listener;
use super::Takes::{Flag, Number, Text, Word};
use super::{Arg, Draft, Known, Line, Told, known};
use crate::draft::{self, from, quoted};
use crate::words::{MQTT, listen};

pub(super) const OPTIONS: &[Known] = &[
    known(
        "listener",
        Listener,
        Text,
        Becomes("[listen.NAME] address", |draft, line, arg| {
            let mut words = arg.text().split(' ').filter(|word| !word.is_empty());
            let port = port(words.next().unwrap_or_default(), 0)?;
            let host = words.next().filter(|word| !word.starts_with('#')).map(str::to_owned);
            let (socket, host) = if port == 0 { (host, None) } else { (None, host) };
            if port == 0 && socket.is_none() {
                return Err("with port 0 needs the path of a Unix socket".into());
            }
            let from = from(line);
            let listener =
                draft::Listener { from, port, host, socket, ..draft::Listener::default() };
            draft.listeners.push(listener);
            draft.listener = Some(draft.listeners.len() - 1);
            Ok(Told::Done)
        }),
    ),
    known(
        "port",
        Listener,
        Text,
        Becomes("[listen.NAME] address", |draft, line, arg| {
            let port = port(arg.text().split(' ').next().unwrap_or_default(), 1)?;
            draft.usual(line).port = port;
            Ok(Told::Done)
        }),
    ),
    known(
        "bind_address",
        Listener,
        Text,
        Becomes("[listen.NAME] address", |draft, line, arg| {
            draft.usual(line).host = Some(arg.text().to_owned());
            Ok(Told::Done)
        }),
    ),
    known(
        "socket_domain",
        Listener,
        Word(&["ipv4", "ipv6"]),
        Becomes("[listen.NAME] address", |draft, line, arg| {
            draft.here(line).ipv = Some(if arg.text() == "ipv4" { 4 } else { 6 });
            Ok(Told::Done)
        }),
    ),
    known(
        "bind_interface",
        Listener,
        Text,
        Closes(&[], "use the address of that interface in the listener"),
    ),
    known(
        "protocol",
        Listener,
        Word(&["mqtt", "websockets", "http_api"]),
        Becomes(
            "[listen.NAME] protocol and websocket; http_api is not opened, see [api]",
            |draft, line, arg| {
                let listener = draft.here(line);
                listener.web_sockets = arg.text() == "websockets";
                listener.http_api = arg.text() == "http_api";
                match arg.text() {
                    "http_api" => Ok(Told::Lost("use [api]".into())),
                    _ => Ok(Told::Done),
                }
            },
        ),
    ),
    known("http_dir", Listener, Text, Lost(&[], "use a web server for files")),
    known(
        "websockets_origin",
        Listener,
        Text,
        Becomes("[listen.NAME] websocket_origins", |draft, line, arg| {
            draft.here(line).add(listen::ORIGINS, arg.text(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "max_connections",
        Listener,
        Number(-1, i32::MAX as i64),
        Becomes("[listen.NAME] connections_max", |draft, line, arg| match arg {
            Arg::Number(-1) => Ok(Told::Ignored("this is the behaviour here".into())),
            _ => {
                let most = arg.number().max(1).to_string();
                draft.here(line).put(listen::CONNECTIONS_MAX, most, line);
                Ok(Told::Done)
            }
        }),
    ),
    known("max_qos", Listener, Number(0, 2), Lost(&["2"], QOS)),
    known("maximum_qos", Listener, Number(0, 2), Lost(&["2"], QOS)),
    known(
        "max_topic_alias",
        Listener,
        Number(0, 65_535),
        Becomes("[mqtt] topic_alias_max, for all listeners", |draft, line, arg| {
            draft.put(MQTT, "topic_alias_max", arg.number().to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "max_topic_alias_broker",
        Listener,
        Number(0, 65_535),
        Becomes("[mqtt] topic_alias_out_max, for all listeners", |draft, line, arg| {
            draft.put(MQTT, "topic_alias_out_max", arg.number().to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "mount_point",
        Listener,
        Text,
        Closes(
            &[],
            "let clients use the prefix in their topics, and restrict them to it by rules; \
             [[mqtt.rewrite]] can add it for all listeners",
        ),
    ),
    known(
        "accept_protocol_versions",
        Listener,
        Text,
        Lost(&[], "each listener accepts MQTT 3.1, 3.1.1 and 5.0"),
    ),
    known(
        "enable_proxy_protocol",
        Listener,
        Number(1, 2),
        Becomes("[listen.NAME] proxy, with headers accepted from any address", |draft, line, _| {
            draft.here(line).put(listen::PROXY, quoted("v1v2"), line);
            for any in ["0.0.0.0/0", "::/0"] {
                draft.here(line).add(listen::PROXY_FROM, any, line);
            }
            Ok(Told::Done)
        }),
    ),
    known(
        "proxy_protocol_v2_require_tls",
        Listener,
        Flag,
        Closes(&["false", "0"], "let the proxy refuse connections without TLS"),
    ),
    known(
        "listener_allow_anonymous",
        Listener,
        Flag,
        Becomes("[listen.NAME] anonymous", |draft, line, arg| {
            draft.here(line).own.anonymous = Some((arg.flag(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "listener_auto_id_prefix",
        Listener,
        Text,
        Ignored("identifiers that the server assigns contain the shard of the session"),
    ),
    known(
        "use_username_as_clientid",
        Listener,
        Flag,
        Closes(
            &["false", "0"],
            "let clients send their user name as client identifier, and set [access] client_ids = \
             [\"%u\"], which refuses all others",
        ),
    ),
    known("plugin_use", Listener, Text, Closes(&[], "see plugin_load")),
    known(
        "certfile",
        Listener,
        Text,
        Becomes("[listen.NAME] tls and certificate", |draft, line, arg| {
            draft.here(line).certificate = Some((arg.text().to_owned(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "keyfile",
        Listener,
        Text,
        Becomes("[listen.NAME] key", |draft, line, arg| {
            draft.here(line).key = Some((arg.text().to_owned(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "cafile",
        Listener,
        Text,
        Becomes("[listen.NAME] client_ca, if client certificates are used", |draft, line, arg| {
            draft.here(line).ca = Some((arg.text().to_owned(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "capath",
        Listener,
        Text,
        Becomes(
            "nothing: with require_certificate the listener is not opened",
            |draft, line, _| {
                draft.here(line).ca_folder = Some(from(line));
                let instead =
                    "put the certificates of that folder into one file, and set cafile to it";
                Ok(Told::Lost(instead.into()))
            },
        ),
    ),
    known(
        "crlfile",
        Listener,
        Text,
        Becomes("[listen.NAME] revoked", |draft, line, arg| {
            draft.here(line).crl = Some((arg.text().to_owned(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "require_certificate",
        Listener,
        Flag,
        Becomes("[listen.NAME] client_certificates", |draft, line, arg| {
            let listener = draft.here(line);
            listener.requires_certificate = arg.flag().then(|| from(line));
            Ok(Told::Done)
        }),
    ),
    known(
        "use_identity_as_username",
        Listener,
        Flag,
        Becomes("[listen.NAME] identity = \"common_name\" and methods", |draft, line, arg| {
            identity(draft, line, arg, "common_name");
            Ok(Told::Done)
        }),
    ),
    known(
        "use_subject_as_username",
        Listener,
        Flag,
        Becomes("[listen.NAME] identity = \"subject\" and methods", |draft, line, arg| {
            identity(draft, line, arg, "subject");
            Ok(Told::Done)
        }),
    ),
    known(
        "disable_client_cert_date_checks",
        Listener,
        Flag,
        Lost(&["false", "0"], "expired certificates are not accepted: renew them"),
    ),
    known(
        "tls_version",
        Listener,
        Word(&["tlsv1.3", "tlsv1.2", "tlsv1.1"]),
        Becomes("[listen.NAME] tls_min", |draft, line, arg| match arg.text() {
            "tlsv1.1" => Ok(Told::Lost(
                "only TLS 1.2 and 1.3 are supported: replace clients that support \
                               only 1.1"
                    .into(),
            )),
            version => {
                let number = version.trim_start_matches("tlsv");
                draft.here(line).put(listen::TLS_MIN, quoted(number), line);
                Ok(Told::Done)
            }
        }),
    ),
    known("ciphers", Listener, Text, Lost(&[], CIPHERS)),
    known("ciphers_tls1.3", Listener, Text, Lost(&[], CIPHERS)),
    known("dhparamfile", Listener, Text, Ignored("key exchange uses elliptic curves only")),
    known("tls_engine", Listener, Text, Closes(&[], ENGINE)),
    known("tls_engine_kpass_sha1", Listener, Text, Closes(&[], ENGINE)),
    known("tls_keyform", Listener, Word(&["pem", "engine"]), Closes(&["pem"], ENGINE)),
    known(
        "psk_hint",
        Listener,
        Text,
        Closes(&[], "pre-shared keys are not supported: give clients certificates"),
    ),
];

const CIPHERS: &str = "only suites with forward secrecy and authenticated encryption are offered";
const QOS: &str = "each listener serves QoS 0, 1 and 2";
const ENGINE: &str = "give the key as a PEM file";

fn port(text: &str, min: u16) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port >= min);
    port.ok_or_else(|| format!("has a port from {min} to 65535"))
}

fn identity(draft: &mut Draft, line: &Line, arg: Arg<'_>, word: &'static str) {
    let listener = draft.here(line);
    if arg.flag() {
        listener.identity = Some((word, from(line)));
    } else if listener.identity.as_ref().is_some_and(|(known, _)| *known == word) {
        listener.identity = None;
    }
}
