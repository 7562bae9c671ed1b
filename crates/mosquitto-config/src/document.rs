//! docs/mosquitto.md, printed from the table of options.

use super::options::{Known, Plan, Scope, Takes, all};

/// The text of docs/mosquitto.md.
pub fn documented() -> String {
    let mut out = String::from(PREFACE);
    for (scopes, title) in [
        (&[Scope::General, Scope::Security][..], "Options for the whole broker"),
        (&[Scope::Listener], "Options of a listener"),
        (&[Scope::Bridge], "Options of a bridge"),
    ] {
        out.push_str(&format!("\n## {title}\n| option | takes | what becomes of it |\n"));
        out.push_str("| --- | --- | --- |\n");
        for known in all().filter(|known| scopes.contains(&known.scope)) {
            let (name, takes) = (known.name, takes(known));
            out.push_str(&format!("| `{name}` | {takes} | {} |\n", plan(known)));
        }
    }
    out
}

fn takes(known: &Known) -> String {
    match known.takes {
        Takes::Flag => "true, false".into(),
        Takes::Number(min, max) if max < i64::from(i32::MAX) => format!("{min} to {max}"),
        Takes::Number(..) => "number".into(),
        Takes::Text => "text".into(),
        Takes::Word(words) => words.join(", "),
    }
}

fn plan(known: &Known) -> String {
    let but = |same: &[&str]| match same {
        [] => String::new(),
        [one] | [one, "0" | "1"] => format!(" (`{one}` is so here)"),
        many => format!(" (`{}` are so here)", many.join("`, `")),
    };
    let alone = if known.scope == Scope::Security { ", a listener's own if told so" } else { "" };
    match known.plan {
        Plan::Becomes(keys, _) => format!("becomes {keys}{alone}"),
        Plan::Ignored(why) => format!("ignored because {why}"),
        Plan::Lost(same, instead) => format!("**not supported**: {instead}{}", but(same)),
        Plan::Closes(same, instead) => {
            format!("**not supported, its listener is not opened**: {instead}{}", but(same))
        }
        Plan::Refused(same, instead) => format!("**refused**: {instead}{}", but(same)),
    }
}

const PREFACE: &str = "\
# From mosquitto

```sh
holdline serve --mosquitto-conf /etc/mosquitto/mosquitto.conf             # starts from it
holdline config import /etc/mosquitto/mosquitto.conf --out holdline.toml  # writes Holdline's own
```
Both read the file and what it includes, say of each option that is not taken over why, or what to \
do instead, with its file and line, and go through the same checks as any configuration. With \
`--strict` they refuse when something that was asked for would be lost. An unknown option, or a \
value that mosquitto would not take, is an error. What protects something and cannot be had here \
never makes a listener more open: that listener is written with `enabled = false`, and said to be.

This page is printed from the table that the translation goes by.

## What differs without an option
| | mosquitto | Holdline | key |
| --- | --- | --- | --- |
| sessions that are away | for ever | 7 days | `[mqtt] session_expiry_s_max` |
| what is kept | in memory, unless `persistence true` | always on stable storage | |
| pages of other sites | may connect, unless told | may not | `[listen.NAME] websocket_origins` |
| largest packet | 256 MiB (2.1: 2 MB) | 1 MiB, 256 MiB when told so | `[mqtt] packet_bytes_max` |
| deliveries on the way to a client | 20 | 100 | `[mqtt] inflight_max` |
| topic aliases | 10 | 16 | `[mqtt] topic_alias_max` |
| identifier of a bridge there | HOST.NAME | holdline.NAME | `[bridge.NAME] client_id` |
| HTTP API | none | on 127.0.0.1:7080, with a token | `[api]` |
| settings of listeners | `per_listener_settings` | anonymous clients and certificates are a \
listener's, users and rules are one set | `[access]` |

Files of users (`mosquitto_passwd`) and of rules (`acl_file`) are read as they are. `mosquitto.db` \
is not read: retained messages come again when they are published again, and sessions when clients \
connect.
";
