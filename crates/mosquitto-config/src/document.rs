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
        out.push_str(&format!("\n## {title}\n| option | value | translation |\n"));
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
        [one] | [one, "0" | "1"] => format!(" (`{one}` is the behaviour here)"),
        many => format!(" (`{}` are the behaviour here)", many.join("`, `")),
    };
    let alone = if known.scope == Scope::Security {
        ", for one listener with \
                                                     `per_listener_settings`"
    } else {
        ""
    };
    match known.plan {
        Plan::Becomes(keys, _) => format!("becomes {keys}{alone}"),
        Plan::Ignored(why) => format!("ignored because {why}"),
        Plan::Lost(same, instead) => format!("**not supported**: {instead}{}", but(same)),
        Plan::Closes(same, instead) => {
            format!("**not supported, and its listener is not opened**: {instead}{}", but(same))
        }
        Plan::Refused(same, instead) => format!("**refused**: {instead}{}", but(same)),
    }
}

const PREFACE: &str = "\
# From mosquitto

```sh
holdline serve --mosquitto-conf /etc/mosquitto/mosquitto.conf             # starts with it
holdline config import /etc/mosquitto/mosquitto.conf --out holdline.toml  # translates it
```
Both read the file and the files that it includes, and apply the same checks as to any \
configuration. For each option that is not translated they report file and line, and the reason or \
a replacement. With `--strict` they fail if a requested option would be lost. Unknown options, and \
values that mosquitto itself refuses, are errors. A protection that Holdline does not support \
never makes a listener more open: such a listener is written with `enabled = false`, and reported.

This page is generated from the table that the translation uses.

## Different defaults
| | mosquitto | Holdline | key |
| --- | --- | --- | --- |
| expiry of offline sessions | never | 7 days | `[mqtt] session_expiry_s_max` |
| persistence | in memory, unless `persistence true` | always on stable storage | |
| web pages of other sites | may connect by default | may not | `[listen.NAME] websocket_origins` |
| largest packet | 256 MiB (2.1: 2 MB) | 1 MiB, at most 256 MiB | `[mqtt] packet_bytes_max` |
| unacknowledged deliveries to a client | 20 | 100 | `[mqtt] inflight_max` |
| topic aliases | 10 | 16 | `[mqtt] topic_alias_max` |
| client identifier of a bridge | HOST.NAME | holdline.NAME | `[bridge.NAME] client_id` |
| HTTP API | none | on 127.0.0.1:7080, with a token | `[api]` |
| settings of listeners | `per_listener_settings` | anonymous clients and certificates for each \
listener; users and rules for all | `[access]` |

Files of users (`mosquitto_passwd`) and of rules (`acl_file`) are used as they are. `mosquitto.db` \
is not read: publish retained messages again; clients create new sessions when they connect.
";
