//! Tests of the configuration: every refusal to the letter, defaults, overrides, differences, and
//! that `holdline.toml` agrees with the code.

use std::path::PathBuf;

use super::*;
use base::setting::{Kind, Section, Value};
use model::limits::MediaLimits;
use std::collections::BTreeSet;

const DOCUMENTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/holdline.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse("holdline.toml", text, std::iter::empty())
}

fn with(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Config::parse("holdline.toml", text, env)
}

/// The problems of a text are these lines and no others.
#[track_caller]
fn refused(text: &str, lines: &[&str]) {
    let told = parse(text).expect_err("it is refused").to_string();
    assert_eq!(told.lines().collect::<Vec<_>>(), lines);
}

#[track_caller]
fn refused_env(text: &str, env: &[(&str, &str)], lines: &[&str]) {
    let told = with(text, env).expect_err("it is refused").to_string();
    assert_eq!(told.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_wrong_type_names_the_line_and_the_remedy() {
    refused(
        "# first\n[limits]\nconnections_max = \"many\"",
        &["holdline.toml:3: [limits] connections_max = \"many\": must be a whole number \
             from 0 to 100000000 (connections); write a number, such as 0"],
    );
    refused(
        "[limits]\nconnections_max = \"5000\"",
        &["holdline.toml:2: [limits] connections_max = \"5000\": must be a whole number \
             from 0 to 100000000 (connections); remove the quotes"],
    );
    refused(
        "[limits]\ndrain_ms = -1",
        &["holdline.toml:2: [limits] drain_ms = -1: must be a whole number from 0 to 86400000 \
           (milliseconds); write a number, such as 10000"],
    );
    refused(
        "[server]\npin = 1\ndata = 7\nlog_format = true",
        &[
            "holdline.toml:2: [server] pin = 1: must be true or false; write true or false, \
             without quotes",
            "holdline.toml:3: [server] data = 7: must be a path; write a text in quotes, such as \
             \"data\"",
            "holdline.toml:4: [server] log_format = true: must be one of \"text\", \"json\"; \
             write a text in quotes, such as \"text\"",
        ],
    );
    refused(
        "[[webhook]]\nurl = \"http://a/\"\nproducts = \"a\"",
        &["holdline.toml:3: [[webhook]] products = \"a\": must be a list of at most 64 product \
           keys; write [\"a\"]"],
    );
}

#[test]
fn a_value_out_of_range_is_told_which_way_to_go() {
    refused(
        "[limits]\ncrowd_max = 70_000\nbinds_a_connection_max = 70_000",
        &[
            "holdline.toml:2: [limits] crowd_max = 70_000: must be a whole number from 0 to \
             65536 (connections); write 65536 or less",
            "holdline.toml:3: [limits] binds_a_connection_max = 70_000: must be a whole number \
             from 1 to 1024 (Binds); write 1024 or less",
        ],
    );
    refused(
        "[store]\nfsync = \"intervall\"\n[server]\nlog = \"loud\"",
        &[
            "holdline.toml:4: [server] log = \"loud\": must be a level (error, warn, info, debug, \
             trace) or a list such as info,net=debug; correct it, such as \"info\"",
            "holdline.toml:2: [store] fsync = \"intervall\": must be one of \"always\", \
             \"interval\", \"never\"; did you mean \"interval\"?",
        ],
    );
    let eight = ["\"http\""; 8].join(", ");
    let listener = "[products.a]\n[listen.a]\naddress = \"127.0.0.1:1\"\nmethods = ";
    let shown = format!("[{}…", &eight[..7 * 8 + 3]);
    let told = format!(
        "holdline.toml:4: [listen.a] methods = {shown}: must be a list of at most 7 of \
         \"certificate\", \"passwords\", \"scram\", \"token\", \"ldap\", \"http\", \"anonymous\"; \
         remove 1 of them"
    );
    refused(&format!("{listener}[{eight}]"), &[&told]);
}

#[test]
fn an_empty_name_is_shown_as_one_and_told_what_a_name_looks_like() {
    refused(
        "[limits]\n\"\" = 5\n[\"\"]\n",
        &[
            "holdline.toml:3: [\"\"]: is not a section; did you mean [server]?",
            "holdline.toml:2: [limits] \"\": is not a key of this section; did you mean \
             connections_max?",
        ],
    );
    refused_env(
        "",
        &[("HOLDLINE_", "x"), ("HOLDLINE_LIMITS", "3"), ("HOLDLINE_AGENTS_TOKEN", "t")],
        &[
            "environment: HOLDLINE_: names no key; did you mean HOLDLINE_SERVER_DATA?",
            "environment: HOLDLINE_LIMITS: names no key; did you mean \
             HOLDLINE_LIMITS_CONNECTIONS_MAX?",
        ],
    );
}

#[test]
fn an_unknown_key_or_section_is_told_the_nearest_one() {
    refused(
        "[limits]\nconections_max = 5\n[limit]\ndrain_ms = 1\n[tls]\nelephants = 3",
        &[
            "holdline.toml:3: [limit]: is not a section; did you mean [limits]?",
            "holdline.toml:6: [tls] elephants: is not a key of this section; the keys are \
             certificate, key, others, client_ca",
            "holdline.toml:2: [limits] conections_max: is not a key of this section; did you mean \
             connections_max?",
        ],
    );
    refused(
        "drain_ms = 5",
        &["holdline.toml:1: [drain_ms]: is not a section; the sections are server, listen, tls, \
           api, limits, mqtt, chat, domain, push, platform, media, bosh, federation, component, \
           contacts, service, access, bans, accounts, mysql, store, backup, cluster, presence, \
           products, names, bridge, webhook"],
    );
    refused(
        "[products.demo]\nsecret = []",
        &["holdline.toml:2: [products.demo] secret: is not a key of this section; did you mean \
           secrets?"],
    );
}

#[test]
fn the_shape_of_the_tree_is_held() {
    refused(
        "limits = 5\nwebhook = 1\n[listen]\naddress = \"127.0.0.1:1\"",
        &[
            "holdline.toml:4: listen.address: must be a section; write [listen.address] on a line \
             of its own",
            "holdline.toml:1: limits: must be a section; write [limits] on a line of its own",
            "holdline.toml:2: webhook: must be a list of sections; write [[webhook]] above each \
             one",
        ],
    );
    refused(
        "[products.demo]\nsecrets = [1]",
        &["holdline.toml:2: [products.demo] secrets: must be a list of sections; write \
           [[products.demo.secrets]] above each one"],
    );
    refused(
        "[listen.any]\nenabled = false\n\n[[webhook]]\nevents = []\n",
        &[
            "holdline.toml:1: [listen.any] address: is missing and has no default; it must be an \
             IP address and a port, such as \"127.0.0.1:7000\", or \
             unix: and a path of at most 107 bytes",
            "holdline.toml:4: [[webhook]] url: is missing and has no default; it must be an \
             http:// or https:// address",
        ],
    );
    refused(
        "[listen.\"a b\"]\naddress = \"127.0.0.1:1\"\n[products.\"a b\"]",
        &[
            "holdline.toml:1: [listen.\"a b\"]: a listener's name must be 1 to 32 letters, digits, \
             - and _; choose another name",
            "holdline.toml:3: [products.\"a b\"]: the product's key has the byte 0x20, allowed \
             are letters, digits and . _ - + : / =; choose another name",
        ],
    );
}

#[test]
fn a_file_that_is_no_toml_is_told_the_line() {
    refused(
        "[limits]\ndrain_ms = = 5",
        &["holdline.toml:2: is not TOML: extra `=`, expected nothing; correct this line"],
    );
    let twice = parse("[api]\nenabled = true\nenabled = true").expect_err("twice").to_string();
    assert!(twice.starts_with("holdline.toml:3: is not TOML: duplicate key"), "{twice}");
    for broken in ["\"0123456789abcdef", "0123456789abcdef", "'''0123456789abcdef"] {
        let told = parse(&format!("[api]\ntoken = {broken}")).expect_err("broken").to_string();
        assert!(told.starts_with("holdline.toml:2: is not TOML") && !told.contains("9abc"));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let path = PathBuf::from("/nowhere/holdline.toml");
    let error = Config::load(Some(&path), std::iter::empty()).expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "/nowhere/holdline.toml: cannot be read: No such file or directory (os error 2); name a \
         file that can be, or none for the defaults"
    );
}

#[test]
fn a_broken_relation_points_at_the_key_that_was_given() {
    refused(
        "[limits]\nframe_bytes_max = 4_096",
        &["holdline.toml:2: [limits] frame_bytes_max = 4_096: push_bytes_max must leave 1024 \
           bytes of frame_bytes_max for the frame itself; change one of them"],
    );
    refused(
        "[tls]\nkey = \"k.pem\"\n[store]\nsegment_bytes = 1073741824\nlog_bytes_max = 4194304",
        &[
            "holdline.toml:2: [tls] key = \"k.pem\": certificate and key go together; name both \
             files or neither",
            "holdline.toml:5: [store] log_bytes_max = 4194304: log_bytes_max must hold at \
             least four of segment_bytes; raise log_bytes_max or lower segment_bytes",
        ],
    );
    refused(
        "[[webhook]]\nurl = \"http://a/\"\nproducts = [\"p\", \"q\"]\n\
         [[webhook]]\nurl = \"http://a/\"\n[[webhook]]\nurl = \"http://a/\"\nproducts = [\"q\"]",
        &["holdline.toml:7: [[webhook]] url = \"http://a/\": another webhook has this address \
             for the same products; combine the two, or make the addresses differ, for instance \
             by a query"],
    );
    refused(
        "[products.a]\nheartbeat_max_s = 60\nchallenge = true\nhmac = false\n\
         secrets = [{ key_id = 1, hex = \"00112233445566778899aabbccddeeff\" },\n\
         { key_id = 1, hex = \"00112233445566778899aabbccddeeff\" }]",
        &[
            "holdline.toml:2: [products.a] heartbeat_max_s = 60: heartbeats must rise from min \
             (30) over default (300) to max (60); change one of them",
            "holdline.toml:3: [products.a] challenge = true: a challenge needs signatures; set \
             hmac = true or challenge = false",
            "holdline.toml:6: [[products.a.secrets]] key_id = 1: another secret of this product \
             has this number; give each secret its own",
        ],
    );
}

#[test]
fn a_listener_that_cannot_work_is_refused() {
    refused(
        "[listen.a]\naddress = \"127.0.0.1:1\"\ntls = true\n\
         [listen.b]\naddress = \"127.0.0.1:1\"\nprotocol = \"miop\"\nwebsocket = true\n\
         [listen.c]\naddress = \"127.0.0.1:2\"\nprotocol = \"http\"\n\
         [listen.d]\naddress = \"127.0.0.1:3\"\nclient_certificates = \"optional\"\n\
         [listen.e]\naddress = \"127.0.0.1:4\"\nenabled = false\nproxy = \"v3\"",
        &[
            "holdline.toml:17: [listen.e] proxy = \"v3\": must be one of \"off\", \"v1v2\"; \
             choose one of them",
            "holdline.toml:3: [listen.a] tls = true: TLS needs a certificate; set certificate and \
             key in [tls]",
            "holdline.toml:7: [listen.b] websocket = true: a listener of protocol \"miop\" does \
             not accept HTTP; set protocol = \"http\" or \"any\", or websocket = false",
            "holdline.toml:10: [listen.c] protocol = \"http\": a listener of protocol \"http\" \
             serves only WebSockets; set websocket = \"/miop\", \"/mqtt\", \"/im\" or \
             \"/xmpp-websocket\"",
            "holdline.toml:13: [listen.d] client_certificates = \"optional\": client certificates \
             need an authority to verify them; set client_ca in [tls]",
            "holdline.toml:5: [listen.b] address = \"127.0.0.1:1\": [listen.a] and [listen.b] have \
             the same address; give one of them another port",
        ],
    );
    refused(
        "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n\
         [listen.x]\naddress = \"127.0.0.1:1\"\nclient_certificates = \"required\"",
        &["holdline.toml:7: [listen.x] client_certificates = \"required\": clients send \
           certificates only in TLS; set tls = true for this listener"],
    );
}

#[test]
fn an_endpoint_of_a_bucket_has_no_path() {
    let bucket = |endpoint: &str| {
        format!(
            "[media]\ns3_endpoint = \"{endpoint}\"\ns3_bucket = \"files\"\n\
             s3_access_key = \"a\"\ns3_secret_key = \"b\""
        )
    };
    for right in ["http://127.0.0.1:9000", "https://s3.example.org", "https://s3.example.org/"] {
        assert!(parse(&bucket(right)).is_ok(), "{right}");
    }
    for wrong in ["https://h/files", "https://h/files/", "https://h//files", "https://h?a"] {
        let line = format!(
            "holdline.toml:2: [media] s3_endpoint = \"{wrong}\": must be an http:// or https:// \
             address without path and query, or empty"
        );
        let error = parse(&bucket(wrong)).expect_err(wrong).to_string();
        assert!(error.contains(&line), "{error}");
    }
}

#[test]
fn a_rule_is_silent_while_one_of_its_keys_is_unreadable() {
    refused(
        "[limits]\nframe_bytes_max = 4_096\npush_bytes_max = \"1024\"",
        &["holdline.toml:3: [limits] push_bytes_max = \"1024\": must be a whole number from 1 to \
           1047552 (bytes); remove the quotes"],
    );
}

#[test]
fn too_many_of_a_sort_are_refused() {
    let hook = |number| format!("[[webhook]]\nurl = \"http://a/{number}\"\n");
    let hooks: String = (0..=WEBHOOKS_MAX).map(hook).collect();
    refused(
        &hooks,
        &["holdline.toml:33: [[webhook]]: there are 17, at most 16 are allowed; remove 1"],
    );
    let listeners: String = (1..=LISTENERS_MAX + 2)
        .map(|n| format!("[listen.l{n}]\naddress = \"127.0.0.1:{n}\"\n"))
        .collect();
    let error = parse(&listeners).expect_err("34 listeners").to_string();
    assert_eq!(error, "holdline.toml:1: [listen]: there are 34, at most 32 are allowed; remove 2");
}

#[test]
fn secrets_are_never_shown() {
    let hex = "00112233445566778899aabbccddee";
    refused(
        &format!("[products.a]\nsecrets = [{{ key_id = 1, hex = \"{hex}\" }}]\n[api]\ntoken = 5"),
        &[
            "holdline.toml:4: [api] token = (hidden): must be 16 to 128 letters, digits and signs \
             without spaces, or empty; write a text in quotes",
            "holdline.toml:2: [[products.a.secrets]] hex = (hidden): must be 32 to 128 hexadecimal \
             digits (16 to 64 bytes); correct it",
        ],
    );
    let good = format!(
        "[products.a]\nsecrets = [{{ key_id = 1, hex = \"{hex}ff\" }}]\n\
         [api]\ntoken = \"a-token-of-mine-1\"\n\
         [[webhook]]\nurl = \"http://a/\"\nsecret = \"a-token-of-mine-2\""
    );
    let config = parse(&good).expect("it is good");
    assert_eq!(config.products[0].secrets[0].bytes.len(), 16);
    assert_eq!(config.products[0].secrets[0].bytes[15], 0xff);
    assert_eq!(config.api.token.reveal(), "a-token-of-mine-1");
    let other = parse(&good.replace(hex, &"0".repeat(30)).replace("mine", "yours")).expect("good");
    let shown = format!("{}{config:?}{:?}", config.to_toml(), config.diff(&other));
    assert!(!shown.contains("0011") && !shown.contains("mine") && !shown.contains("yours"));
    let changes = config.diff(&other);
    assert_eq!((changes.live.len(), changes.restart.len()), (3, 0));
    let env = [("HOLDLINE_API_TOKEN", "short")];
    let told = with("[api]\ntoken = \"a-token-of-mine-1\"", &env).expect_err("short").to_string();
    assert_eq!(
        told,
        "environment: HOLDLINE_API_TOKEN = (hidden): must be 16 to 128 letters, digits and signs \
         without spaces, or empty; correct it"
    );
}

#[test]
fn the_defaults_are_reachable_from_this_machine_only() {
    let config = parse("").expect("nothing is wrong with nothing");
    assert_eq!(config, Config::default());
    assert_eq!(Config::load(None, std::iter::empty()).as_ref(), Ok(&config));
    let names: Vec<&str> = config.listen.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["any", "miop", "ws", "mqtt", "mqtt-ws", "im", "im-ws", "xmpp"]);
    assert!(config.listen.iter().all(|l| l.address.is_near() && !l.tls));
    assert!(config.listen.iter().all(|l| l.anonymous == Anonymous::Loopback));
    assert!(config.api.address.ip().is_loopback());
    assert_eq!(config.products.len(), 1);
    assert_eq!(config.products[0].proofs.anonymous, AnonymousFrom::Loopback);
    // Without a storage nobody sends a file.
    let media = MediaLimits { file_bytes_max: 0, ..MediaLimits::default() };
    assert_eq!(config.limits, Limits { connections_max: 0, media, ..Limits::default() });
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn a_certificate_brings_listeners_for_it() {
    let config = parse("[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"").expect("good");
    let tls: Vec<(&str, String)> = config
        .listen
        .iter()
        .filter(|l| l.tls)
        .map(|l| (l.name.as_str(), l.address.to_string()))
        .collect();
    let expected = [
        ("miops", 7002),
        ("wss", 7004),
        ("mqtts", 8883),
        ("mqtt-wss", 8084),
        ("ims", 7006),
        ("im-wss", 7008),
        ("xmpps", 5223),
    ];
    assert_eq!(tls, expected.map(|(name, port)| (name, format!("127.0.0.1:{port}"))));
    let none = parse("[listen]\n[products]").expect("none of either is a choice");
    assert!(none.listen.is_empty() && none.products.is_empty());
}

#[test]
fn what_is_dangerous_is_warned_of() {
    let config = parse(
        "[api]\naddress = \"0.0.0.0:7080\"\n[products.\"a.b\"]\nanonymous = \"everywhere\"\n\
         [listen.lb]\naddress = \"0.0.0.0:7000\"\nproxy = \"v1v2\"\n\
         proxy_from = [\"10.0.0.7\", \"0.0.0.0/0\"]\n\
         [listen.lb2]\naddress = \"0.0.0.0:7001\"\nproxy = \"v1v2\"\nproxy_from = [\"10.0.0.7\"]",
    );
    assert_eq!(
        config.expect("allowed").warnings,
        [
            "[products.\"a.b\"] anonymous = \"everywhere\": anyone who reaches a listener can \
             bind as any device of this product",
            "[listen.lb] proxy_from lets anybody send PROXY headers to 0.0.0.0:7000: everybody who \
             can reach it can claim any address; list the proxies",
            "[api] address = \"0.0.0.0:7080\": the API speaks plain HTTP, its token can be read on \
             the network",
        ]
    );
}

#[test]
fn the_environment_overrides_every_scalar_key() {
    let config = with(
        "[limits]\nconnections_max = 9\n[products.\"a.b\"]\napp_id = 3",
        &[
            ("HOLDLINE_LIMITS_CONNECTIONS_MAX", "5"),
            ("HOLDLINE_SERVER_PIN", "false"),
            ("HOLDLINE_SERVER_LOG_FORMAT", "json"),
            ("HOLDLINE_LISTEN_MIOP_ADDRESS", "[::1]:9"),
            ("HOLDLINE_LISTEN_ANY_WEBSOCKET", "false"),
            ("HOLDLINE_TLS_CERTIFICATE", "c"),
            ("HOLDLINE_TLS_KEY", "k"),
            ("HOLDLINE_LISTEN_WSS_WEBSOCKET", "/other"),
            ("HOLDLINE_PRODUCTS_A_B_ANONYMOUS", "loopback"),
            ("HOLDLINE_TOKEN", "for the command line"),
            ("HOLDLINE_URL", "for the command line"),
            ("PATH", "of no concern"),
        ],
    )
    .expect("good");
    assert_eq!(config.limits.connections_max, 5);
    assert!(!config.server.pin);
    assert_eq!(config.server.log_format, LogFormat::Json);
    assert_eq!(config.listen[1].address.to_string(), "[::1]:9");
    assert_eq!(config.listen[0].web_socket, WebSocketAt::Off);
    assert_eq!(config.listen[9].web_socket, WebSocketAt::Path("/other".into()));
    assert_eq!(config.products[0].proofs.anonymous, AnonymousFrom::Loopback);
    assert_eq!(config.products[0].app_id, 3);
}

#[test]
fn a_bad_variable_is_refused_by_its_name() {
    refused_env(
        "[products.a-b]\n[products.a_b]\n",
        &[
            ("HOLDLINE_LIMITS_DRAIN_MS", "soon"),
            ("HOLDLINE_LIMITS_DRAIN", "5"),
            ("HOLDLINE_PRODUCTS_A_B_HMAC", "false"),
            ("HOLDLINE_TOKENS", "x"),
            ("HOLDLINE_WEBHOOK_1_URL", "http://a/"),
        ],
        &[
            "environment: HOLDLINE_LIMITS_DRAIN_MS = \"soon\": must be a whole number from 0 to \
             86400000 (milliseconds); write a number, such as 10000",
            "environment: HOLDLINE_LIMITS_DRAIN: names no key; did you mean \
             HOLDLINE_LIMITS_DRAIN_MS?",
            "environment: HOLDLINE_PRODUCTS_A_B_HMAC: names several keys; set them in the file",
            "environment: HOLDLINE_TOKENS: names no key; did you mean HOLDLINE_TOKEN?",
            "environment: HOLDLINE_WEBHOOK_1_URL: names no key; unset it; docs/configuration.md \
             names them",
        ],
    );
    refused_env(
        "",
        &[("HOLDLINE_LIMITS_FRAME_BYTES_MAX", "4096")],
        &["environment: HOLDLINE_LIMITS_FRAME_BYTES_MAX = \"4096\": push_bytes_max must leave \
           1024 bytes of frame_bytes_max for the frame itself; change one of them"],
    );
}

#[test]
fn a_reload_is_told_what_it_can_and_cannot_change() {
    let old = parse("[products.a]\n[products.b]").expect("good");
    let new = parse(
        "[server]\nshards = 2\n[limits]\ndrain_ms = 1\n[products.b]\nhmac = false\n\
         [products.c]\n[listen.x]\naddress = \"127.0.0.1:1\"",
    )
    .expect("good");
    let told = |changes: &[SettingChange]| -> Vec<String> {
        changes.iter().map(|c| format!("{}: {} -> {}", c.key, c.old, c.new)).collect()
    };
    let changes = old.diff(&new);
    assert_eq!(
        told(&changes.live),
        [
            "[listen.any]: present -> absent",
            "[listen.miop]: present -> absent",
            "[listen.ws]: present -> absent",
            "[listen.mqtt]: present -> absent",
            "[listen.mqtt-ws]: present -> absent",
            "[listen.im]: present -> absent",
            "[listen.im-ws]: present -> absent",
            "[listen.xmpp]: present -> absent",
            "[limits] drain_ms: 10000 -> 1",
            "[products.a]: present -> absent",
            "[products.b] hmac: true -> false",
            "[listen.x]: absent -> present",
            "[products.c]: absent -> present",
        ]
    );
    assert_eq!(told(&changes.restart), ["[server] shards: 0 -> 2"]);
    assert_eq!(old.diff(&old), Changes::default());
}

#[test]
fn the_effective_tree_reads_back_as_itself() {
    let config = with(
        "[products.\"a.b\"]\nanonymous = \"everywhere\"\n[[webhook]]\nurl = \"http://a/\"\n\
         events = [\"online\"]\n[listen.q]\naddress = \"[::]:1\"\nwebsocket = \"/a\\\"b\"",
        &[("HOLDLINE_LIMITS_DRAIN_MS", "5")],
    )
    .expect("good");
    assert_eq!(parse(&config.to_toml()).as_ref(), Ok(&config));
}

#[test]
fn the_documented_tree_is_the_one_in_the_code_and_means_the_defaults() {
    let file = std::fs::read_to_string(DOCUMENTED).expect("docs/holdline.toml is there");
    assert!(
        file == Config::documented(),
        "docs/holdline.toml differs from the code: cargo test -p server -- --ignored \
         holdline_toml"
    );
    assert_eq!(parse(&file).as_ref(), Ok(&Config::default()));
    let bare = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_string(),
        _ => line.to_string(),
    };
    let lines: Vec<String> = file.lines().map(bare).collect();
    assert_eq!(parse(&lines.join("\n")).as_ref(), Ok(&Config::default()));
    let keys = lines.iter().filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
    let printed = Config::default().to_toml();
    assert_eq!(keys, printed.lines().filter(|line| line.contains(" = ")).count());
    assert!(file.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_starter_is_short_and_accepted_as_it_is_and_with_its_examples() {
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../holdline.toml"));
    let file = file.expect("the starter is at the root");
    assert!(file.lines().count() <= 40, "a starter is read at once");
    assert_eq!(parse(&file).as_ref(), Ok(&Config::default()));
    let bare = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_string(),
        _ => line.to_string(),
    };
    let examples: Vec<String> = file.lines().map(bare).collect();
    let config = parse(&examples.join("\n")).expect("its examples are good");
    assert!(config.listen.iter().any(|listener| listener.tls));
}

#[test]
fn the_example_of_the_documentation_is_accepted() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let example: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "    [tls]")
        .take_while(|line| line.is_empty() || line.starts_with("    "))
        .collect();
    let config = parse(&example.join("\n").replace('…', &"0".repeat(32))).expect("it is good");
    assert_eq!((config.listen.len(), config.products[0].secrets.len()), (1, 1));
    assert!(config.listen[0].tls && config.warnings.is_empty());
}

#[test]
#[ignore = "writes docs/holdline.toml anew after a change to a table"]
fn holdline_toml_is_written() {
    std::fs::write(DOCUMENTED, Config::documented()).expect("docs can be written");
}

/// Every key of a section with its value.
fn shown<S: Section>(section: &S) -> Vec<String> {
    let value = |name| section.value(name).expect("its own key");
    let settings = S::settings().into_iter();
    settings.map(|setting| format!("{}: {}", setting.name, value(setting.name))).collect()
}

#[test]
fn the_limits_are_those_of_the_model() {
    let debug = format!("{:?}", Limits::default());
    // Those of topics have a section of their own.
    let fields = debug.strip_prefix("Limits { ").and_then(|rest| rest.split(", topics: ").next());
    let fields = fields.expect("a struct's Debug").replace("pushes: PushLimits { ", "");
    assert_eq!(shown(&Limits::default()).join(", "), fields.replace(" }", ""));
}

#[test]
fn the_limits_of_topics_are_those_of_the_model() {
    let debug = format!("{:?}", model::limits::TopicLimits::default());
    let fields = debug.strip_prefix("TopicLimits { ").and_then(|rest| rest.strip_suffix(" }"));
    let fields = fields.expect("a struct's Debug");
    let keys = shown(&MqttSection::default());
    let limits = fields.split(", ").count();
    assert_eq!(keys[..limits].join(", "), fields);
    assert_eq!(keys.len(), limits + 2, "strict_text and sys_interval_s");
}

/// Every key takes its default and both ends of its range, and gives back what it took.
fn holds<S: Section + Default>() {
    let settings = S::settings();
    let names: BTreeSet<_> = settings.iter().map(|setting| setting.name).collect();
    assert_eq!(names.len(), settings.len(), "no name is there twice");
    for setting in settings {
        let (name, kind) = (setting.name, setting.kind);
        let mut section = S::default();
        let usual = section.value(name).expect("its own key");
        assert!(setting.required || kind.fits(&usual), "{name}: default {usual}");
        if let Kind::Whole { min, max, .. } = kind {
            let beyond = [min.checked_sub(1), max.checked_add(1)].into_iter().flatten();
            beyond.for_each(|number| assert!(!kind.fits(&Value::Whole(number)), "{name}"));
        }
        let values = match kind {
            Kind::Whole { min, max, .. } => vec![Value::Whole(min), Value::Whole(max)],
            Kind::Word(words) => words.iter().map(|word| Value::Text((*word).into())).collect(),
            Kind::Bool => vec![Value::Bool(true), Value::Bool(false)],
            _ => continue,
        };
        for value in values {
            assert!(section.put(name, &value), "{name} = {value}");
            assert_eq!(section.value(name), Some(value), "{name}");
        }
        assert!(setting.text.ends_with('.'), "{name}");
    }
}

#[test]
fn every_key_holds_its_default_and_its_range() {
    holds::<ServerSection>();
    holds::<ListenSection>();
    holds::<TlsSection>();
    holds::<ApiSection>();
    holds::<Limits>();
    holds::<StoreSection>();
    holds::<Product>();
    holds::<model::product::Secret>();
    holds::<MqttSection>();
    holds::<Rewrite>();
    holds::<AutoSubscribeSection>();
    holds::<AccessSection>();
    holds::<Token>();
    holds::<Http>();
    holds::<BridgeSection>();
    holds::<WebhookSection>();
    holds::<PresenceSection>();
    holds::<FederationSection>();
    holds::<ComponentSection>();
    holds::<ServiceSection>();
    holds::<PlatformSection>();
    holds::<ContactsSection>();
}

#[test]
fn an_address_that_is_none_is_named() {
    refused(
        "[contacts]\nabuse = [\"mailto:abuse@example.org\", \"example.org\"]",
        &["holdline.toml:2: [contacts] abuse = [\"mailto:abuse@example.org\", \"example.org\"]: \
           must be a list of at most 8 URIs of up to 256 bytes, such as \
           \"mailto:me@example.org\", \"xmpp:me@example.org\" or \"https://example.org/me\"; \
           correct or remove \"example.org\""],
    );
}

#[test]
fn a_service_has_one_way_in_and_its_secrets_are_not_shown() {
    refused(
        "[service.a]\ntype = \"turn\"\nhost = \"a.example\"\nusername = \"u\"\n\
         [service.b]\ntype = \"turn\"\nhost = \"a.example\"\nusername = \"u\"\n\
         password = \"top-secret\"\nsecret = \"top-secret\"\nsecret_file = \"f\"\n\
         [service.c]\ntype = \"Turn\"\nhost = \"a b\"",
        &[
            "holdline.toml:13: [service.c] type = \"Turn\": must be 1 to 32 lower-case letters, \
             digits and -; correct it",
            "holdline.toml:14: [service.c] host = \"a b\": must be a host in lower case, or an IP \
             address; correct it",
            "holdline.toml:4: [service.a] username = \"u\": username and password go together; set \
             both or neither",
            "holdline.toml:8: [service.b] username = \"u\": a shared user name and a secret \
             exclude each other; remove username and password, or the secret",
            "holdline.toml:10: [service.b] secret = (hidden): a service has only one secret; set \
             secret or secret_file",
        ],
    );
    let text = "[service.a]\ntype = \"turn\"\nhost = \"a.example\"\nsecret = \"top-secret\"";
    let config = parse(text).expect("it is good");
    assert!(!config.to_toml().contains("top-secret") && !format!("{config:?}").contains("top-s"));
    let services = config.services.iter().map(|service| service.told().expect("told"));
    assert!(!format!("{:?}", services.collect::<Vec<_>>()).contains("top-secret"));
}

#[test]
fn components_have_domains_of_their_own_and_come_in_no_web_sockets() {
    refused(
        "[component.a]\ndomain = \"x.localhost\"\n[component.b]\ndomain = \"x.localhost\"\n\
         [component.c]\ndomain = \"localhost\"\n\
         [listen.x]\naddress = \"127.0.0.1:1\"\nprotocol = \"xmpp-component\"\nwebsocket = true",
        &[
            "holdline.toml:10: [listen.x] websocket = true: servers and components do not use \
             WebSockets; set websocket = false",
            "holdline.toml:4: [component.b] domain = \"x.localhost\": is already served; give each \
             component its own domain",
            "holdline.toml:6: [component.c] domain = \"localhost\": is already served; give each \
             component its own domain",
        ],
    );
}

#[test]
fn webhooks_choose_among_the_events_of_the_model() {
    use model::ports::control::disconnections::Disconnection;
    use model::ports::events::{ChatWhat, ClientWhat, DeviceWhat};
    use model::{close::CloseReason, id::MessageId, push::Outcome, push::PushReport};
    let all = [
        DeviceWhat::Online { protocol: "miop7", resumed: false },
        DeviceWhat::Offline { reason: CloseReason::PeerClosed },
        DeviceWhat::Report { seq: 0, body: Box::default() },
        DeviceWhat::Pushed { id: MessageId(1), outcome: Outcome::Expired },
        DeviceWhat::Reported { id: MessageId(1), report: PushReport::Opened },
        DeviceWhat::Reported { id: MessageId(1), report: PushReport::Dismissed },
        DeviceWhat::TokenDead { platform: "web".into() },
    ];
    let (filter, message) = ("a".into(), model::topic::Publication::new("a", &[], b""));
    let (why, count) = (model::session::Drop::Busy, 1);
    let clients = [
        ClientWhat::Connected {
            protocol: "mqtt5",
            peer: ([127, 0, 0, 1], 1).into(),
            resumed: false,
        },
        ClientWhat::Disconnected { reason: CloseReason::PeerClosed },
        ClientWhat::Refused { why: model::session::Denial::Busy },
        ClientWhat::ConnectionEnded(Box::new(Disconnection {
            at_ms: 0,
            client: "".into(),
            product: None,
            user: None,
            peer: None,
            listener: "any".into(),
            protocol: None,
            reason: CloseReason::PeerClosed,
            detail: "",
            lasted_ms: None,
            traffic: None,
        })),
        ClientWhat::SessionEnded,
        ClientWhat::Subscribed { filter, qos: model::topic::Qos::AtMostOnce },
        ClientWhat::Unsubscribed { filter: "a".into() },
        ClientWhat::Published(std::sync::Arc::new(message)),
        ClientWhat::Dropped { why, count },
    ];
    let account = model::account::AccountAddress::parse("ann", "a.example").expect("right");
    let client_id = model::chat::ClientMessageId([0; 16]);
    let said = std::sync::Arc::new(model::chat::ChatMessage {
        id: 1,
        seq: 1,
        at_ms: 0,
        from: account.clone(),
        device: "".into(),
        to: account.clone(),
        client_id,
        content: model::chat::Content::text("hello"),
        amended: None,
    });
    let (from, to) = (account.clone(), account.clone());
    let report = model::chat::ReportedAbuse {
        reporter: account.clone(),
        reported: account.clone(),
        reason: model::chat::AbuseReason::Spam,
        text: "".into(),
        messages: Vec::new(),
        left_out: 0,
        unreadable: 0,
        consent: Default::default(),
    };
    let chat = [
        ChatWhat::Stored(said.clone()),
        ChatWhat::Recalled(said.clone()),
        ChatWhat::GroupChanged(said),
        ChatWhat::AccountMade { account, id: model::account::AccountId(1) },
        ChatWhat::Flagged { from, to, client_id },
        ChatWhat::AbuseReported(std::sync::Arc::new(report)),
    ];
    let names = all.iter().map(DeviceWhat::name).chain(clients.iter().map(ClientWhat::name));
    let names = names.chain(chat.iter().map(ChatWhat::name));
    let alarms = [model::event::ALARM_RAISED, model::event::ALARM_CLEARED];
    let names = names.chain(alarms.iter().map(|kind| kind.name));
    assert_eq!(names.collect::<Vec<_>>(), admin::EVENT_TYPES);
}

#[test]
fn no_text_makes_it_panic() {
    let words =
        ["[", "]", "limits", "products", ".", "a", "=", "\n", "\"", "5", "{", "}", "#", ","];
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(words[(seed >> 33) as usize % words.len()]);
        }
        if let Err(error) = parse(&text) {
            assert!(!error.problems.is_empty(), "{text}");
        }
    }
}

mod cluster_section;
mod documents;
mod live;
mod names;
mod presence_section;
mod shown;
mod topics;
