//! Options of a bridge to another broker.
//!
//! Invariant: see the module above.

use super::Plan::{Becomes, Ignored, Lost, Refused};
use super::Scope::Bridge;
use super::Takes::{Flag, Number, Text, Word};
use super::{Arg, Draft, Known, Line, Plan, Told, known};
use crate::draft::{self, Entry, from, quoted};
use crate::words::bridge as words;

const INT: i64 = i32::MAX as i64;

pub(super) const OPTIONS: &[Known] = &[
    known(
        "connection",
        Bridge,
        Text,
        Becomes("[bridge.NAME]", |draft, line, arg| {
            let name: String = arg.text().chars().map(plain).take(64).collect();
            if draft.bridges.iter().any(|bridge| bridge.name == name) {
                return Err("another bridge has this name".into());
            }
            draft.bridges.push(draft::Bridge {
                name,
                from: from(line),
                ..draft::Bridge::default()
            });
            draft.bridge = Some(draft.bridges.len() - 1);
            Ok(Told::Done)
        }),
    ),
    known("address", Bridge, Text, Becomes("addresses", addresses)),
    known("addresses", Bridge, Text, Becomes("addresses", addresses)),
    known(
        "topic",
        Bridge,
        Text,
        Becomes("topics", |draft, _, arg| {
            let topic = topic(arg.text())?;
            draft.crossing()?.topics.push(topic);
            Ok(Told::Done)
        }),
    ),
    known(
        "round_robin",
        Bridge,
        Flag,
        Becomes("round_robin", |draft, line, arg| {
            put(draft, line, words::ROUND_ROBIN, arg.flag().to_string())
        }),
    ),
    known("remote_clientid", Bridge, Text, CLIENT_ID),
    known("clientid", Bridge, Text, CLIENT_ID),
    known("remote_username", Bridge, Text, USER),
    known("username", Bridge, Text, USER),
    known("remote_password", Bridge, Text, PASSWORD),
    known("password", Bridge, Text, PASSWORD),
    known(
        "local_clientid",
        Bridge,
        Text,
        Becomes("local_client_id", |draft, line, arg| {
            put(draft, line, words::LOCAL_CLIENT_ID, quoted(arg.text()))
        }),
    ),
    known("local_username", Bridge, Text, Ignored("a bridge needs no login at its own server")),
    known("local_password", Bridge, Text, Ignored("a bridge needs no login at its own server")),
    known(
        "cleansession",
        Bridge,
        Flag,
        Becomes("clean", |draft, line, arg| put(draft, line, words::CLEAN, arg.flag().to_string())),
    ),
    known(
        "local_cleansession",
        Bridge,
        Flag,
        Lost(&["false", "0"], "messages for the other broker are always queued"),
    ),
    known(
        "keepalive_interval",
        Bridge,
        Number(0, 65_535),
        Becomes("keep_alive_s", |draft, line, arg| {
            put(draft, line, words::KEEP_ALIVE, arg.number().max(5).to_string())
        }),
    ),
    known(
        "bridge_protocol_version",
        Bridge,
        Word(&["mqttv31", "mqttv311", "mqttv50"]),
        Becomes("protocol", |draft, line, arg| {
            let word = match arg.text() {
                "mqttv31" => "mqtt31",
                "mqttv50" => "mqtt5",
                _ => "mqtt311",
            };
            put(draft, line, words::PROTOCOL, quoted(word))
        }),
    ),
    known(
        "try_private",
        Bridge,
        Flag,
        Becomes("try_private", |draft, line, arg| {
            put(draft, line, words::TRY_PRIVATE, arg.flag().to_string())
        }),
    ),
    known("restart_timeout", Bridge, Text, Becomes("restart_s_min and restart_s_max", restart)),
    known(
        "start_type",
        Bridge,
        Word(&["automatic", "lazy", "once"]),
        Lost(&["automatic"], "a bridge is connected all the time"),
    ),
    known("idle_timeout", Bridge, Number(0, INT), Ignored("it applies only to start_type lazy")),
    known("threshold", Bridge, Number(0, INT), Ignored("it applies only to start_type lazy")),
    known(
        "notifications",
        Bridge,
        Flag,
        Becomes("notifications", |draft, line, arg| {
            put(draft, line, words::NOTIFICATIONS, arg.flag().to_string())
        }),
    ),
    known(
        "notifications_local_only",
        Bridge,
        Flag,
        Becomes("notifications_local_only", |draft, line, arg| {
            put(draft, line, words::LOCAL_ONLY, arg.flag().to_string())
        }),
    ),
    known(
        "notification_topic",
        Bridge,
        Text,
        Becomes("notification_topic", |draft, line, arg| {
            put(draft, line, words::NOTIFICATION_TOPIC, quoted(arg.text()))
        }),
    ),
    known(
        "bridge_outgoing_retain",
        Bridge,
        Flag,
        Becomes("outgoing_retain", |draft, line, arg| {
            put(draft, line, words::OUTGOING_RETAIN, arg.flag().to_string())
        }),
    ),
    known(
        "bridge_attempt_unsubscribe",
        Bridge,
        Flag,
        Ignored(
            "the bridge does not subscribe there to outgoing filters, and with clean = true no \
             session remains",
        ),
    ),
    known(
        "bridge_bind_address",
        Bridge,
        Text,
        Lost(
            &[],
            "the system chooses the source address: \
                                                          use routing",
        ),
    ),
    known(
        "bridge_max_packet_size",
        Bridge,
        Number(0, INT),
        Lost(&["0"], "the limit is [mqtt] packet_bytes_max"),
    ),
    known(
        "bridge_max_topic_alias",
        Bridge,
        Number(0, 65_535),
        Ignored("aliases are used if the other broker allows them"),
    ),
    known(
        "bridge_receive_maximum",
        Bridge,
        Number(1, 65_535),
        Ignored("unacknowledged messages are limited by [mqtt] receive_max"),
    ),
    known(
        "bridge_reload_type",
        Bridge,
        Word(&["lazy", "immediate"]),
        Ignored("a reload connects changed bridges anew"),
    ),
    known(
        "bridge_session_expiry_interval",
        Bridge,
        Number(0, INT),
        Lost(&[], "the session there never expires, or with clean = true ends with the connection"),
    ),
    known("bridge_tcp_keepalive", Bridge, Text, Ignored("[limits] tcp_user_timeout_ms applies")),
    known(
        "bridge_tcp_user_timeout",
        Bridge,
        Number(0, INT),
        Ignored("[limits] tcp_user_timeout_ms applies"),
    ),
    known(
        "bridge_cafile",
        Bridge,
        Text,
        Becomes("ca, and mqtts:// in addresses", |draft, line, arg| {
            draft.crossing()?.tls = true;
            put(draft, line, words::CA, quoted(arg.text()))
        }),
    ),
    known(
        "bridge_capath",
        Bridge,
        Text,
        Refused(
            &[],
            "put the certificates of that folder into one file, and set bridge_cafile to it",
        ),
    ),
    known(
        "bridge_certfile",
        Bridge,
        Text,
        Becomes("certificate", |draft, line, arg| {
            put(draft, line, words::CERTIFICATE, quoted(arg.text()))
        }),
    ),
    known(
        "bridge_keyfile",
        Bridge,
        Text,
        Becomes("key", |draft, line, arg| put(draft, line, words::KEY, quoted(arg.text()))),
    ),
    known(
        "bridge_insecure",
        Bridge,
        Flag,
        Becomes("insecure", |draft, line, arg| {
            put(draft, line, words::INSECURE, arg.flag().to_string())
        }),
    ),
    known(
        "bridge_alpn",
        Bridge,
        Text,
        Lost(&[], "ALPN is not sent: use a port of the other broker that does not need it"),
    ),
    known(
        "bridge_tls_use_os_certs",
        Bridge,
        Flag,
        Becomes("mqtts:// in addresses", |draft, _, arg| {
            draft.crossing()?.tls |= arg.flag();
            Ok(Told::Done)
        }),
    ),
    known("bridge_tls_version", Bridge, Text, Ignored("TLS 1.3 and 1.2 are always offered")),
    known(
        "bridge_ciphers",
        Bridge,
        Text,
        Ignored(
            "the best ciphers that both sides support are \
                                                   used",
        ),
    ),
    known(
        "bridge_ciphers_tls1.3",
        Bridge,
        Text,
        Ignored(
            "the best ciphers that both sides support \
                                                          are used",
        ),
    ),
    known(
        "bridge_require_ocsp",
        Bridge,
        Flag,
        Refused(&["false", "0"], "OCSP is not checked: remove the line to accept that"),
    ),
    known("bridge_identity", Bridge, Text, Refused(&[], PSK)),
    known("bridge_psk", Bridge, Text, Refused(&[], PSK)),
];

const PSK: &str = "pre-shared keys are not supported: use bridge_cafile, and certificates or a \
                   password";

const CLIENT_ID: Plan =
    Becomes("client_id", |draft, line, arg| put(draft, line, words::CLIENT_ID, quoted(arg.text())));
const USER: Plan =
    Becomes("user", |draft, line, arg| put(draft, line, words::USER, quoted(arg.text())));
const PASSWORD: Plan =
    Becomes("password", |draft, line, arg| put(draft, line, words::PASSWORD, quoted(arg.text())));

fn put(draft: &mut Draft, line: &Line, key: &'static str, value: String) -> Result<Told, String> {
    let entries = &mut draft.crossing()?.entries;
    entries.retain(|entry| entry.key != key);
    entries.push(Entry { key, value, from: from(line) });
    Ok(Told::Done)
}

/// Letters of a section's name.
fn plain(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' }
}

fn addresses(draft: &mut Draft, line: &Line, arg: Arg<'_>) -> Result<Told, String> {
    let words = arg.text().split(' ').filter(|word| !word.is_empty());
    let mut found = Vec::new();
    for word in words.take_while(|word| !word.starts_with('#')) {
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().ok().filter(|port| *port > 0)),
            None => (word, Some(1883)),
        };
        let port = port.ok_or("has a port from 1 to 65535")?;
        let host = host.trim_matches(['[', ']']);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        found.push(format!("{host}:{port}"));
    }
    if found.is_empty() {
        return Err("has no address".into());
    }
    draft.crossing()?.addresses = (found, from(line));
    Ok(Told::Done)
}

fn restart(draft: &mut Draft, line: &Line, arg: Arg<'_>) -> Result<Told, String> {
    let numbers = arg.text().split(' ').filter(|word| !word.is_empty()).map(str::parse::<u64>);
    let numbers = numbers.collect::<Result<Vec<_>, _>>();
    let numbers = numbers.map_err(|_| "has whole numbers of seconds")?;
    let (min, max) = match numbers[..] {
        [constant] => (constant.clamp(1, 3_600), constant.clamp(1, 3_600)),
        [base, cap] | [base, cap, _] if base <= cap => (base.clamp(1, 3_600), cap.clamp(1, 7_200)),
        _ => return Err("has a time, or a base and a cap that is not below it".into()),
    };
    put(draft, line, words::RESTART_MIN, min.to_string())?;
    put(draft, line, words::RESTART_MAX, max.to_string())
}

/// `pattern [[[out | in | both] qos] local-prefix remote-prefix]`, whole and in one form.
fn topic(text: &str) -> Result<String, String> {
    let (pattern, rest) = match text.strip_prefix('"').filter(|rest| !rest.starts_with('"')) {
        Some(rest) => rest.split_once('"').ok_or("has a quote that does not end")?,
        None => text.split_once(' ').unwrap_or((text, "")),
    };
    let rest = rest.split(' ').filter(|word| !word.is_empty());
    let words: Vec<&str> = rest.take_while(|word| !word.starts_with('#')).collect();
    let direction = words.first().map_or("out".to_owned(), |word| word.to_ascii_lowercase());
    if !["out", "in", "both"].contains(&direction.as_str()) {
        return Err("has the direction out, in or both".into());
    }
    let qos = *words.get(1).unwrap_or(&"0");
    if !["0", "1", "2"].contains(&qos) {
        return Err("has the QoS 0, 1 or 2".into());
    }
    let prefix = |at: usize| *words.get(at).unwrap_or(&"\"\"");
    let pattern = if pattern.contains(' ') { format!("\"{pattern}\"") } else { pattern.into() };
    let pattern = if pattern.is_empty() { "\"\"".to_owned() } else { pattern };
    Ok(format!("{pattern} {direction} {qos} {} {}", prefix(2), prefix(3)))
}
