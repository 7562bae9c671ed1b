//! Options for the whole broker: limits, users and rules, what is kept, the log, plug-ins.
//!
//! Invariant: see the module above.

use super::Plan::{Becomes, Ignored, Lost, Refused};
use super::Scope::{General, Security};
use super::Takes::{Flag, Number, Text, Word};
use super::{Arg, Known, Told, known};
use crate::draft::{Entry, Plugin, from, quoted};
use crate::words::{self, ACCESS, LIMITS, MQTT, SERVER};
use model::limits::PACKET_BYTES_HARD_MAX;

/// The highest whole number that an option takes.
const INT: i64 = i32::MAX as i64;

/// Where mosquitto says "no bound": more than any queue will hold.
const UNBOUND: u64 = 1 << 30;
const UNBOUND_BYTES: u64 = u32::MAX as u64;

/// Smallest bound of a packet here.
const PACKET_BYTES_MIN: u64 = 256;

const PLUGIN: &str = "manage users and rules by `holdline user`, [access.token], [access.ldap] or \
                      [access.http], then remove the line";

pub(super) const OPTIONS: &[Known] = &[
    known(
        "per_listener_settings",
        General,
        Flag,
        Becomes("the scope of the security options", |draft, _, arg| {
            draft.per_listener |= arg.flag();
            Ok(Told::Done)
        }),
    ),
    known(
        "allow_anonymous",
        Security,
        Flag,
        Becomes("[listen.NAME] anonymous", |draft, line, arg| {
            draft.security(line).anonymous = Some((arg.flag(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "password_file",
        Security,
        Text,
        Becomes("[access] password_file", |draft, line, arg| {
            let file = (arg.text().to_owned(), from(line));
            draft.security(line).password_file = Some(file);
            Ok(Told::Done)
        }),
    ),
    known(
        "acl_file",
        Security,
        Text,
        Becomes("[access] acl_file", |draft, line, arg| {
            draft.security(line).acl_file = Some((arg.text().to_owned(), from(line)));
            Ok(Told::Done)
        }),
    ),
    known(
        "psk_file",
        Security,
        Text,
        Lost(
            &[],
            "pre-shared keys are not supported: give clients certificates; listeners with psk_hint \
             are not opened",
        ),
    ),
    known(
        "allow_zero_length_clientid",
        Security,
        Flag,
        Lost(&["true", "1"], "a client without an identifier gets one"),
    ),
    known(
        "auto_id_prefix",
        Security,
        Text,
        Ignored("identifiers that the server assigns contain the shard of the session"),
    ),
    known(
        "clientid_prefixes",
        General,
        Text,
        Becomes("[access] client_ids", |draft, line, arg| {
            draft.put(
                ACCESS,
                "client_ids",
                format!("[{}]", quoted(&format!("{}*", arg.text()))),
                line,
            );
            Ok(Told::Done)
        }),
    ),
    known(
        "include_dir",
        General,
        Text,
        Becomes("the translation of the files in it", |_, _, _| Ok(Told::Done)),
    ),
    known(
        "max_packet_size",
        General,
        Number(0, INT),
        Becomes("[mqtt] packet_bytes_max", |draft, line, arg| match arg.number() {
            0 => Ok(Told::Ignored("this is the default here".into())),
            1..20 => Err("must be 0, or at least 20".into()),
            bytes => Ok(packet_bytes(draft, line, bytes)),
        }),
    ),
    known(
        "message_size_limit",
        General,
        Number(0, 268_435_455),
        Becomes(
            "[mqtt] packet_bytes_max, with room for the rest of the packet",
            |draft, line, arg| match arg.number() {
                0 => Ok(Told::Ignored("this is the default here".into())),
                bytes => Ok(packet_bytes(draft, line, bytes + 2 * 1024)),
            },
        ),
    ),
    known(
        "max_inflight_messages",
        General,
        Number(0, 65_535),
        Becomes("inflight_max of [mqtt] and of each [bridge.NAME]", |draft, line, arg| {
            let count = if arg.number() == 0 { 65_535 } else { arg.number() };
            let (key, value) = (words::bridge::INFLIGHT_MAX, count.to_string());
            draft.put(MQTT, key, value.clone(), line);
            draft.inflight = Some(Entry { key, value, from: from(line) });
            Ok(Told::Done)
        }),
    ),
    known(
        "max_inflight_bytes",
        General,
        Number(0, INT),
        Lost(&["0"], "unacknowledged messages to a client are limited by [mqtt] inflight_max"),
    ),
    known(
        "max_queued_messages",
        General,
        Number(0, INT),
        Becomes("[mqtt] queue_count_max", |draft, line, arg| {
            let count = if arg.number() == 0 { UNBOUND } else { arg.number().min(UNBOUND) };
            draft.put(MQTT, "queue_count_max", count.to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "max_queued_bytes",
        General,
        Number(0, INT),
        Becomes("[mqtt] queue_bytes_max", |draft, line, arg| {
            let bytes = if arg.number() == 0 { UNBOUND_BYTES } else { arg.number() };
            draft.put(MQTT, "queue_bytes_max", bytes.min(UNBOUND_BYTES).to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "queue_qos0_messages",
        General,
        Flag,
        Becomes("[mqtt] queue_qos0", |draft, line, arg| {
            draft.put(MQTT, "queue_qos0", arg.flag().to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "max_keepalive",
        General,
        Number(0, 65_535),
        Becomes("[mqtt] keep_alive_s_max", |draft, line, arg| {
            draft.put(MQTT, "keep_alive_s_max", arg.number().to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "memory_limit",
        General,
        Number(0, i64::MAX),
        Becomes("[limits] memory_max", |draft, line, arg| match arg {
            Arg::Number(0) => {
                Ok(Told::Ignored("the limit here is three quarters of the machine's memory".into()))
            }
            _ => {
                draft.put(LIMITS, "memory_max", arg.number().to_string(), line);
                Ok(Told::Done)
            }
        }),
    ),
    known(
        "global_max_connections",
        General,
        Number(-1, INT),
        Becomes("[limits] connections_max", |draft, line, arg| match arg.number() {
            0 => Ok(Told::Ignored("the default here is the limit of file descriptors".into())),
            count => {
                draft.put(LIMITS, "connections_max", count.to_string(), line);
                Ok(Told::Done)
            }
        }),
    ),
    known(
        "global_max_clients",
        General,
        Number(-1, INT),
        Becomes("[mqtt] sessions_max", |draft, line, arg| match arg.number() {
            0 => Ok(Told::Ignored("the default here is four million".into())),
            count => {
                draft.put(MQTT, "sessions_max", count.to_string(), line);
                Ok(Told::Done)
            }
        }),
    ),
    known(
        "upgrade_outgoing_qos",
        General,
        Flag,
        Lost(
            &["false", "0"],
            "a message is never delivered at a higher QoS than it was published with (MQTT5 \
             3.8.4-8): publish with the desired QoS",
        ),
    ),
    known(
        "persistent_client_expiration",
        General,
        Text,
        Becomes("[mqtt] session_expiry_s_max", |draft, line, arg| {
            let seconds = duration(arg.text())?;
            draft.put(MQTT, "session_expiry_s_max", seconds.to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "retain_available",
        General,
        Flag,
        Becomes("[mqtt] retained_max = 0, if it is false", |draft, line, arg| {
            if arg.flag() {
                return Ok(Told::Ignored("this is the behaviour here".into()));
            }
            draft.put(MQTT, "retained_max", "0".into(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "retain_expiry_interval",
        General,
        Number(1, INT),
        Becomes("[mqtt] retained_expiry_s_max, in seconds", |draft, line, arg| {
            let seconds = arg.number().min(10_000_000) * 60;
            draft.put(MQTT, "retained_expiry_s_max", seconds.to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "check_retain_source",
        General,
        Flag,
        Ignored(
            "messages are checked when they are published: delete unwanted ones with `holdline \
             retained clear`",
        ),
    ),
    known(
        "sys_interval",
        General,
        Number(0, 65_535),
        Becomes("[mqtt] sys_interval_s", |draft, line, arg| {
            draft.put(MQTT, "sys_interval_s", arg.number().to_string(), line);
            Ok(Told::Done)
        }),
    ),
    known(
        "persistence",
        General,
        Flag,
        Ignored("sessions, their queues and retained messages are always on stable storage"),
    ),
    known("retained_persistence", General, Flag, Ignored("it is an old name of persistence")),
    known(
        "persistence_location",
        General,
        Text,
        Becomes("[server] data, a folder in it; mosquitto.db is not read", |draft, line, arg| {
            let folder = format!("{}/holdline", arg.text().trim_end_matches('/'));
            draft.put(SERVER, "data", quoted(&folder), line);
            Ok(Told::Done)
        }),
    ),
    known("persistence_file", General, Text, Ignored("the data folder has files of its own")),
    known(
        "autosave_interval",
        General,
        Number(-INT, INT),
        Ignored("everything is on stable storage before it is acknowledged"),
    ),
    known(
        "autosave_on_changes",
        General,
        Flag,
        Ignored("everything is on stable storage before it is acknowledged"),
    ),
    known("allow_duplicate_messages", General, Flag, Ignored("mosquitto 2 no longer supports it")),
    known("retry_interval", General, Text, Ignored("mosquitto 2 no longer supports it")),
    known("store_clean_interval", General, Text, Ignored("mosquitto 2 no longer supports it")),
    known("set_tcp_nodelay", General, Flag, Ignored("small packets are never held back")),
    known(
        "user",
        General,
        Text,
        Ignored("the server runs as the user that starts it (systemd: User=)"),
    ),
    known(
        "pid_file",
        General,
        Text,
        Ignored("the server writes no PID file: a service manager knows its process"),
    ),
    known(
        "log_dest",
        General,
        Text,
        Becomes(
            "nothing, except none: [server] log = \"off\"; the log goes to standard error",
            |draft, line, arg| match arg.text().split(' ').next().unwrap_or_default() {
                "none" => {
                    draft.log_types.push("none".into());
                    draft.log_from = from(line);
                    Ok(Told::Done)
                }
                "stderr" | "stdout" | "file" | "syslog" | "topic" | "dlt" | "android" => {
                    let why = "the log goes to standard error, and the service manager stores it \
                               (systemd: journalctl)";
                    Ok(Told::Ignored(why.into()))
                }
                _ => Err("must be none, stdout, stderr, syslog, topic, dlt or file PATH".into()),
            },
        ),
    ),
    known(
        "log_type",
        General,
        Word(&[
            "none",
            "information",
            "notice",
            "warning",
            "error",
            "debug",
            "subscribe",
            "unsubscribe",
            "internal",
            "websockets",
            "all",
        ]),
        Becomes("[server] log, the most detailed level listed", |draft, line, arg| {
            draft.log_types.push(arg.text().into());
            draft.log_from = from(line);
            Ok(Told::Done)
        }),
    ),
    known("log_facility", General, Number(0, 7), Ignored("the log goes to standard error")),
    known("log_timestamp", General, Flag, Ignored("each line has its time")),
    known("log_timestamp_format", General, Text, Ignored("each line has its time (RFC 3339)")),
    known(
        "connection_messages",
        General,
        Flag,
        Ignored("connections are logged only at level debug: a million lines would be an outage"),
    ),
    known("websockets_log_level", General, Number(-INT, INT), Ignored("there is one log")),
    known(
        "websockets_headers_size",
        General,
        Number(0, 65_535),
        Ignored("the headers of an upgrade are limited to 16 KiB"),
    ),
    known(
        "packet_buffer_size",
        General,
        Number(0, 65_535),
        Ignored("buffers grow with their contents"),
    ),
    known(
        "enable_control_api",
        General,
        Flag,
        Ignored("use the HTTP API ([api]) and `holdline clients`, `retained` and `user`"),
    ),
    known("plugin", Security, Text, Becomes(PLUGINS, plugin)),
    known("global_plugin", General, Text, Becomes(PLUGINS, plugin)),
    known("auth_plugin", Security, Text, Refused(&[], PLUGIN)),
    known("plugin_load", General, Text, Refused(&[], PLUGIN)),
    known(
        "plugin_opt_*",
        Security,
        Text,
        Becomes("for mosquitto's own: password_file and acl_file", plugin_option),
    ),
    known("auth_opt_*", Security, Text, Refused(&[], PLUGIN)),
    known(
        "auth_plugin_deny_special_chars",
        Security,
        Flag,
        Ignored("rules with %c or %u never match names with + or #"),
    ),
];

const PLUGINS: &str = "for mosquitto_password_file and mosquitto_acl_file: [access]; \
                       mosquitto_persist_sqlite is not needed; others are refused";

type Answer = Result<Told, String>;

fn plugin(draft: &mut super::Draft, _: &super::Line, arg: super::Arg<'_>) -> Answer {
    let path = arg.text();
    let name = path.rsplit('/').next().unwrap_or(path);
    let found = match name.split('.').next().unwrap_or(name) {
        "mosquitto_password_file" => Plugin::Passwords,
        "mosquitto_acl_file" => Plugin::Rules,
        "mosquitto_persist_sqlite" => Plugin::Needless,
        _ => return Err(format!("is not supported; {PLUGIN}")),
    };
    draft.plugin = Some(found);
    match found {
        Plugin::Needless => {
            let why = "sessions and retained messages are always on stable storage";
            Ok(Told::Ignored(why.into()))
        }
        _ => Ok(Told::Done),
    }
}

fn plugin_option(draft: &mut super::Draft, line: &super::Line, arg: super::Arg<'_>) -> Answer {
    let file = Some((arg.text().to_owned(), from(line)));
    match (draft.plugin, line.option.as_str()) {
        (None, _) => Err("stands after `plugin` only".into()),
        (Some(Plugin::Passwords), "plugin_opt_password_file") => {
            draft.security(line).password_file = file;
            Ok(Told::Done)
        }
        (Some(Plugin::Rules), "plugin_opt_acl_file") => {
            draft.security(line).acl_file = file;
            Ok(Told::Done)
        }
        (Some(Plugin::Needless), _) => Ok(Told::Ignored("its plug-in is not needed".into())),
        _ => Err("is not an option of this plug-in".into()),
    }
}

/// Packets of so many bytes, or as many as there may be.
fn packet_bytes(draft: &mut super::Draft, line: &super::Line, bytes: u64) -> Told {
    let most = u64::from(PACKET_BYTES_HARD_MAX);
    let held = bytes.clamp(PACKET_BYTES_MIN, most);
    draft.put(MQTT, "packet_bytes_max", held.to_string(), line);
    match bytes > most {
        true => Told::Lost(format!("packets above {most} bytes: it is {most}")),
        false => Told::Done,
    }
}

/// A number with a letter for hours, days, weeks, months, years or seconds, as seconds.
fn duration(text: &str) -> Result<u64, String> {
    const DAY: u64 = 86_400;
    let wrong = || "must be a number and one of s h d w m y".to_owned();
    let mut letters = text.chars();
    let seconds = match letters.next_back() {
        Some('s') => 1,
        Some('h') => 3_600,
        Some('d') => DAY,
        Some('w') => 7 * DAY,
        Some('m') => 30 * DAY,
        Some('y') => 365 * DAY,
        _ => return Err(wrong()),
    };
    let count: u64 = letters.as_str().parse().map_err(|_| wrong())?;
    if count == 0 {
        return Err(wrong());
    }
    Ok((count * seconds).min(u64::from(u32::MAX)))
}
