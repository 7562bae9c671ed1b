//! mosquitto's own files, and files as they are found in the field: what they come to, read by
//! [`Config`] each time.

use super::*;
use crate::config::{AccessSection, BridgeSection, ListenSection, MqttSection, ServerSection};
use base::setting::Section;
use model::limits::Limits;
use std::fs;

mod data;

/// Translates a text that stands alone.
fn of(text: &str) -> Result<Translation, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.conf");
    fs::write(&path, text).expect("is written");
    let dir = format!("{}/", folder.path().display());
    translate(&path)
        .map(|mut translated| {
            translated.text = translated.text.replace(&dir, "");
            translated.notes.iter_mut().for_each(|note| note.place = note.place.replace(&dir, ""));
            translated
        })
        .map_err(|why| why.to_string().replace(&dir, ""))
}

fn good(text: &str) -> Translation {
    let translated = of(text).unwrap_or_else(|why| panic!("{why}"));
    if let Err(why) = config(&translated, std::iter::empty()) {
        panic!("{why}\n{}", translated.text);
    }
    translated
}

/// Keys and values of a section, without where they come from.
fn keys(translated: &Translation, header: &str) -> Vec<String> {
    let header = format!("[{header}]");
    let lines = translated.text.lines().skip_while(|line| *line != header).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(" # ").map_or(line, |(key, _)| key).to_owned()).collect()
}

#[test]
fn without_a_listener_there_is_one_for_this_machine() {
    let translated = good("");
    assert_eq!(
        keys(&translated, "listen.mqtt-1883"),
        [
            "address = \"127.0.0.1:1883\"",
            "protocol = \"mqtt\"",
            "anonymous = \"yes\"",
            "believe_names = true"
        ]
    );
}

#[test]
fn the_example_of_debian_changes_nothing() {
    let translated = good(data::DEBIAN_EXAMPLE);
    assert_eq!((translated.notes.len(), keys(&translated, "listen.mqtt-1883").len()), (0, 4));
    // Every default that the example shows, as if it were set.
    let set = |line: &str| {
        let option = line.strip_prefix('#').filter(|rest| rest.starts_with(char::is_alphabetic))?;
        let has_value = option.split_once(' ').is_some_and(|(_, value)| !value.starts_with('<'));
        let bridge = ["address ", "topic ", "connection "].iter().any(|b| option.starts_with(b));
        (has_value && !bridge).then(|| option.to_owned())
    };
    let mut lines: Vec<String> = data::DEBIAN_EXAMPLE.lines().filter_map(set).collect();
    let bridge = lines.iter().position(|line| line.starts_with("bridge_attempt")).expect("there");
    lines.insert(bridge, "connection there\naddress example.com\ntopic # both 1".into());
    let translated = good(&lines.join("\n"));
    let lost: Vec<_> = translated.lost().map(|note| note.option.as_str()).collect();
    assert_eq!(lost, [""; 0], "{}", translated.text);
    assert!(translated.notes.len() > 50, "{}", translated.notes.len());
}

#[test]
fn debians_file_with_its_folder_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (main, conf_d) = (folder.path().join("mosquitto.conf"), folder.path().join("conf.d"));
    fs::create_dir(&conf_d).expect("made");
    let text = format!(
        "pid_file /run/mosquitto/mosquitto.pid\n\npersistence true\n\
         persistence_location /var/lib/mosquitto/\n\n\
         log_dest file /var/log/mosquitto/mosquitto.log\n\ninclude_dir {}\n",
        conf_d.display()
    );
    fs::write(&main, text).expect("is written");
    let one = "listener 1883\nallow_anonymous false\npassword_file /etc/mosquitto/passwd\n";
    fs::write(conf_d.join("b.conf"), one).expect("is written");
    fs::write(conf_d.join("a.conf"), "sys_interval 60\n").expect("is written");
    fs::write(conf_d.join("c.txt"), "nonsense\n").expect("is written");
    let translated = translate(&main).expect("is good");
    let config = config(&translated, std::iter::empty()).expect("is a configuration");
    assert_eq!(config.server.data, std::path::Path::new("/var/lib/mosquitto/holdline"));
    let options: Vec<_> = translated.notes.iter().map(|note| note.option.as_str()).collect();
    assert_eq!(options[4..6], ["include_dir", "sys_interval"], "in the order of their names");
    assert!(translated.text.contains("b.conf:2"), "{}", translated.text);
    let access = ["password_file = \"/etc/mosquitto/passwd\"", ANY_ID];
    assert_eq!(keys(&translated, "access"), access);
    let listener = keys(&translated, "listen.mqtt-1883");
    assert!(listener.contains(&"anonymous = \"no\"".into()), "{listener:?}");
}

#[test]
fn limits_become_limits() {
    let translated = good(
        "listener 1883 127.0.0.1\nmax_packet_size 100000\nmax_inflight_messages 0\n\
         max_queued_messages 5000\nmax_queued_bytes 1000000\nqueue_qos0_messages true\n\
         persistent_client_expiration 2d\nmax_keepalive 600\nretain_available false\n\
         sys_interval 0\nglobal_max_connections 5000\nretain_expiry_interval 60\n",
    );
    assert_eq!(
        keys(&translated, "mqtt"),
        [
            "packet_bytes_max = 100000",
            "inflight_max = 65535",
            "queue_count_max = 5000",
            "queue_bytes_max = 1000000",
            "queue_qos0 = true",
            "session_expiry_s_max = 172800",
            "keep_alive_s_max = 600",
            "retained_max = 0",
            "sys_interval_s = 0",
            "retained_expiry_s_max = 3600",
        ]
    );
    assert_eq!(keys(&translated, "limits"), ["connections_max = 5000"]);
    assert_eq!(translated.lost().count(), 0);
    let large = good("listener 1883\nmessage_size_limit 200000000\n");
    assert_eq!(large.lost().count(), 0);
    assert_eq!(keys(&large, "mqtt"), ["packet_bytes_max = 200002048"]);
    let largest = good("listener 1883\nmax_packet_size 2000000000\n");
    assert_eq!(largest.lost().count(), 1);
    assert_eq!(keys(&largest, "mqtt"), ["packet_bytes_max = 268435455"]);
}

#[test]
fn listeners_have_certificates_web_sockets_and_sockets() {
    let translated = good(
        "per_listener_settings true\n\
         listener 1883 localhost\nallow_anonymous true\n\
         listener 8883\ncafile /c/ca.crt\ncertfile /c/a.crt\nkeyfile /c/a.key\n\
         require_certificate true\nuse_identity_as_username true\ntls_version tlsv1.3\n\
         listener 9001 0.0.0.0 # for browsers\nprotocol websockets\npassword_file /p\n\
         websockets_origin https://a\nwebsockets_origin https://b\n\
         listener 0 /run/m.sock\nallow_anonymous true\n",
    );
    assert_eq!(keys(&translated, "listen.mqtt-1883")[0], "address = \"127.0.0.1:1883\"");
    let tls = keys(&translated, "listen.mqtt-8883");
    for key in [
        "address = \"[::]:8883\"",
        "tls = true",
        "certificate = \"/c/a.crt\"",
        "key = \"/c/a.key\"",
        "client_ca = \"/c/ca.crt\"",
        "client_certificates = \"required\"",
        "anonymous = \"no\"",
        "identity = \"common_name\"",
        "methods = [\"certificate\"]",
        "tls_min = \"1.3\"",
    ] {
        assert!(tls.iter().any(|found| found == key), "{key}: {tls:?}");
    }
    let web = keys(&translated, "listen.ws-9001");
    for key in ["protocol = \"http\"", "websocket = \"*\"", ORIGINS] {
        assert!(web.iter().any(|found| found == key), "{key}: {web:?}");
    }
    assert_eq!(keys(&translated, "listen.socket")[0], "address = \"unix:/run/m.sock\"");
    assert_eq!(keys(&translated, "access"), ["password_file = \"/p\"", ANY_ID]);
}

/// Setting that lets users have any client identifier, as mosquitto does.
const ANY_ID: &str = "client_ids = [\"*\"]";
const ORIGINS: &str = "websocket_origins = [\"https://a\", \"https://b\"]";

#[test]
fn what_protects_and_cannot_be_had_closes_its_listener() {
    for (text, option) in [
        ("listener 8883\npsk_hint hint\npsk_file /p\n", "psk_hint"),
        ("listener 1883\nbind_interface eth0\n", "bind_interface"),
        ("listener 8883\ncertfile /c\nkeyfile /k\ntls_engine pkcs11\n", "tls_engine"),
        ("listener 1883\nuse_username_as_clientid true\n", "use_username_as_clientid"),
        (
            "listener 8883\ncertfile /c\nkeyfile /k\ncapath /ca\nrequire_certificate true\n",
            "capath",
        ),
        (
            "per_listener_settings true\nlistener 1\npassword_file /a\nlistener 8883\n\
             password_file /b\n",
            "password_file",
        ),
        (
            "per_listener_settings true\nlistener 1\nacl_file /a\nlistener 8883\nacl_file /b\n",
            "acl_file",
        ),
    ] {
        let translated = good(text);
        let name = if text.contains("8883") { "listen.mqtt-8883" } else { "listen.mqtt-1883" };
        let found = keys(&translated, name);
        assert!(found.contains(&"enabled = false".into()), "{option}: {found:?}");
        let told = translated.lost().any(|note| note.to_string().contains(option));
        assert!(told, "{option}: {:?}", translated.notes);
    }
}

#[test]
fn a_bridge_is_carried_over() {
    let translated = good(
        "connection to-the.cloud\naddress a.example:8883 b.example\n\
         topic sensors/# out 1\ntopic cmd/# in 2 \"\" site1/\ntopic # both 0 l/ r/\n\
         remote_clientid site1\nremote_username u\nremote_password p#1 \"x\"\n\
         cleansession false\nkeepalive_interval 30\nrestart_timeout 10 60\n\
         bridge_protocol_version mqttv50\nnotifications false\nbridge_cafile /ca\n\
         max_inflight_messages 50\n",
    );
    let found = keys(&translated, "bridge.\"to-the.cloud\"");
    for key in [
        "addresses = [\"mqtts://a.example:8883\", \"mqtts://b.example:1883\"]",
        "client_id = \"site1\"",
        "user = \"u\"",
        "password = \"p#1 \\\"x\\\"\"",
        "clean = false",
        "keep_alive_s = 30",
        "restart_s_min = 10",
        "restart_s_max = 60",
        "protocol = \"mqtt5\"",
        "inflight_max = 50",
        "ca = \"/ca\"",
        "topics = [\"sensors/# out 1 \\\"\\\" \\\"\\\"\", \"cmd/# in 2 \\\"\\\" site1/\", \
         \"# both 0 l/ r/\"]",
    ] {
        assert!(found.iter().any(|line| line == key), "{key}: {found:?}");
    }
    let notes: String = translated.notes.iter().map(OptionNote::to_string).collect();
    assert!(!notes.contains("p#1"), "secrets are in no note");
}

#[test]
fn plug_ins_of_files_are_files_and_others_are_refused() {
    let translated = good(
        "listener 1883\nplugin /usr/lib/mosquitto_password_file.so\n\
         plugin_opt_password_file /p\nplugin /usr/lib/mosquitto_acl_file.so\n\
         plugin_opt_acl_file /a\nplugin /usr/lib/mosquitto_persist_sqlite.so\n\
         plugin_opt_sync normal\n",
    );
    let access = ["password_file = \"/p\"", "acl_file = \"/a\"", ANY_ID];
    assert_eq!(keys(&translated, "access"), access);
    for text in [
        "plugin /usr/lib/mosquitto_dynamic_security.so\n",
        "auth_plugin /usr/lib/auth.so\n",
        "plugin_opt_x y\n",
    ] {
        let why = of(text).expect_err("is refused");
        assert!(why.starts_with("m.conf:1: "), "{why}");
    }
}

#[test]
fn a_prefix_of_identifiers_is_a_pattern_of_them() {
    let translated = good("listener 1883\nclientid_prefixes secure-\n");
    assert_eq!(keys(&translated, "access"), ["client_ids = [\"secure-*\"]"]);
}

#[test]
fn what_mosquitto_would_not_take_is_told_with_its_line() {
    for (text, expected) in [
        (
            "\nlistner 1883\n",
            "m.conf:2: listner: is not an option of mosquitto; did you mean listener?",
        ),
        ("frobnicate\n", "m.conf:1: frobnicate: is not an option of mosquitto; correct"),
        ("listener\n", "m.conf:1: listener: has no value"),
        ("listener 70000\n", "has a port from 0 to 65535"),
        ("listener 0\n", "needs the path of a Unix socket"),
        ("allow_anonymous yes\n", "must be true or false"),
        ("max_packet_size 10\n", "must be 0, or at least 20"),
        ("max_qos 3\n", "must be a whole number from 0 to 2"),
        ("protocol amqp\n", "must be one of mqtt, websockets, http_api"),
        ("persistent_client_expiration 3q\n", "one of s h d w m y"),
        ("topic a\n", "is only allowed after `connection NAME`"),
        ("connection a\ntopic # sideways\n", "has the direction out, in or both"),
        ("listener 1\ncertfile /c\n", "certfile and keyfile go together"),
        ("listener 1\ncafile /c\n", "needs certfile and keyfile"),
        ("include_dir /there/is/none\n", "m.conf:1: include_dir: /there/is/none: "),
    ] {
        let why = of(text).expect_err(text);
        assert!(why.contains(expected), "{text}: {why}");
    }
    let two = of("a 1\nb 2\n").expect_err("is refused");
    assert_eq!(two.lines().count(), 2, "all of it at once: {two}");
}

#[test]
fn options_of_an_included_file_end_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf_d = folder.path().join("conf.d");
    fs::create_dir(&conf_d).expect("made");
    fs::write(conf_d.join("a.conf"), "listener 9001\nprotocol websockets\n").expect("written");
    let main = folder.path().join("m.conf");
    let dir = conf_d.display();
    let text = format!("listener 1883\ninclude_dir {dir}\nmax_connections 7\n");
    fs::write(&main, text).expect("written");
    let translated = translate(&main).expect("is good");
    let found = keys(&translated, "listen.mqtt-1883");
    assert_eq!(translated.lost().count(), 0);
    assert!(found.contains(&"connections_max = 7".to_owned()), "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(keys(&translated, "listen.ws-9001")[1], "protocol = \"http\"");
}

/// The importer knows keys by name alone: each one that it tells of is there.
#[test]
fn every_key_that_the_page_names_is_a_key() {
    fn has<S: Section>(key: &str) -> bool {
        S::settings().iter().any(|setting| setting.name == key)
    }
    let page = mosquitto_config::documented();
    let named = page.split('[').filter_map(|piece| piece.split_once("] "));
    let keys = named.map(|(section, rest)| {
        let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (section, rest.split(|c| !is_of_name(c)).next().unwrap_or_default())
    });
    let keys: Vec<_> = keys.filter(|(_, key)| !["", "and", "can", "or"].contains(key)).collect();
    assert!(keys.len() > 40, "{keys:?}");
    for (section, key) in keys {
        let is_there = match section {
            "server" => has::<ServerSection>(key),
            "listen.NAME" => has::<ListenSection>(key),
            "limits" => has::<Limits>(key),
            "mqtt" => has::<MqttSection>(key),
            "access" => has::<AccessSection>(key),
            "bridge.NAME" => has::<BridgeSection>(key),
            _ => false,
        };
        assert!(is_there, "[{section}] {key}");
    }
}
