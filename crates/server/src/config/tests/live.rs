//! Each key is live or needs a restart, and a reload takes exactly the live ones.

use super::{parse, with};
use crate::config::Config;
use crate::config::print;
use base::setting::{Kind, Reload, Value};
use base::text::quoted;

/// Sections that the defaults do not have, so that their keys are walked, too.
const WHOLE: &str = "\
    [listen.x]\naddress = \"127.0.0.1:1\"\n[domain.b]\ndomain = \"b.example\"\n\
    [component.echo]\ndomain = \"echo.example\"\nsecret = \"0123456789abcdef\"\n\
    [access.ldap]\nbase = \"dc=x\"\n[service.relay]\ntype = \"turn\"\nhost = \"turn.example\"\n\
    [bridge.up]\naddresses = [\"127.0.0.1:1\"]\ntopics = [\"a out\"]\n[products.demo]\n";

/// Values of keys whose kind does not tell another one, or whose other one breaks a rule.
const OTHERS: &[(&str, &str, &str)] = &[
    ("[server]", "log", "\"debug\""),
    ("[api]", "token", "\"0123456789abcdef\""),
    ("[listen.x]", "methods", "[\"passwords\"]"),
    ("[api]", "viewers", "[\"a\"]"),
    ("[api]", "operators", "[\"b\"]"),
    ("[api]", "admins", "[\"c\"]"),
    ("[limits]", "frame_bytes_max", "65535"),
    ("[limits]", "frame_bytes_unbound_max", "2048"),
    ("[limits]", "push_bytes_max", "2048"),
    ("[limits]", "out_bytes_max", "2097152"),
    ("[mqtt]", "packet_bytes_max", "200000"),
    ("[mqtt]", "keep_alive_s_max", "60"),
    ("[mqtt]", "keep_alive_s_min", "5"),
    ("[chat]", "words_file", "\"words\""),
    ("[media]", "types", "[\"image/png\"]"),
    ("[access]", "password_file", "\"passwords\""),
    ("[access]", "acl_file", "\"rules\""),
    ("[access]", "superusers", "[\"root\"]"),
    ("[access]", "client_ids", "[\"%u\"]"),
    ("[access.token]", "secret", "\"0123456789abcdef0123456789abcdef\""),
    ("[access.token]", "key_files", "[\"keys.pem\"]"),
    ("[access.token]", "algorithms", "[\"HS256\"]"),
    ("[access.token]", "issuer", "\"a\""),
    ("[access.token]", "audience", "\"a\""),
    ("[access.token]", "user_claim", "\"name\""),
    ("[access.token]", "equal", "[\"a=b\"]"),
    ("[access.token]", "acl_claim", "\"rules\""),
    ("[access.ldap]", "urls", "[\"ldap://a\"]"),
    ("[access.ldap]", "ca", "\"ca.pem\""),
    ("[access.ldap]", "bind_dn", "\"cn=r\""),
    ("[access.ldap]", "password", "\"p\""),
    ("[access.ldap]", "password_file", "\"p\""),
    ("[access.ldap]", "base", "\"dc=y\""),
    ("[access.ldap]", "filter", "\"(cn=%u)\""),
    ("[access.ldap]", "name_attribute", "\"cn\""),
    ("[access.ldap]", "user_dn", "\"cn=%u\""),
    ("[access.ldap]", "group_filter", "\"(a=%d)\""),
    ("[access.ldap]", "superuser_filter", "\"(a=%u)\""),
    ("[access.ldap]", "group_base", "\"dc=y\""),
    ("[bosh]", "url", "\"https://chat.example\""),
    ("[backup]", "folder", "\"/var/backups/holdline\""),
    ("[bans]", "exempt", "[\"10.0.0.0/8\"]"),
];

/// Another value of a key, as TOML.
fn other(header: &str, name: &str, kind: &Kind, value: &Value) -> String {
    if let Some((.., other)) = OTHERS.iter().find(|(of, key, _)| (*of, *key) == (header, name)) {
        return (*other).to_owned();
    }
    match (kind, value) {
        (_, Value::Bool(on)) => (!on).to_string(),
        (Kind::Whole { max, .. }, Value::Whole(old)) if old < max => (old + 1).to_string(),
        (_, Value::Whole(old)) => (old - 1).to_string(),
        (Kind::Word(words), Value::Text(old)) => {
            quoted(words.iter().find(|word| *word != old).expect("two words"))
        }
        _ => panic!("{header} {name}: name another value in OTHERS"),
    }
}

#[test]
fn a_reload_takes_every_live_key_and_no_other() {
    let old = parse(WHOLE).expect("good");
    let mut live = 0;
    for (header, setting, value) in print::walked(&old) {
        // These are taken whole, or have rules that relate their keys.
        let whole = ["[bridge.", "[products.", "[listen.", "[tls]"];
        let is_whole = whole.iter().any(|of| header.starts_with(of));
        if setting.reload == Reload::Restart || is_whole {
            continue;
        }
        live += 1;
        let other = other(&header, setting.name, &setting.kind, &value);
        let variable = format!("HOLDLINE_{}_{}", header.replace('.', "_"), setting.name);
        let variable = variable.replace(['[', ']'], "").to_uppercase();
        // A list in the environment is its texts, and a text is itself.
        let text = other.trim_matches(['[', ']', '"']);
        let new = with(WHOLE, &[(&variable, text)]);
        let new = new.unwrap_or_else(|error| panic!("{variable}={other}: {error}"));
        let key = format!("{header} {}", setting.name);
        let changes = old.diff(&new);
        assert!(changes.live.iter().any(|change| change.key == key), "{key}: {changes:?}");
        let next = old.following(&new);
        assert_eq!(next.diff(&new), Default::default(), "{key} is taken");
        assert_eq!(next.limits, new.limits, "{key}, also where the server's parts find it");
    }
    assert!(live > 200, "limits, rates and much else: {live}");
}

#[test]
fn listeners_certificates_and_webhooks_are_taken_whole() {
    let of = |port: u16, protocol: &str, more: &str| {
        format!("address = \"127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\n{more}\n")
    };
    let hook = |url: &str| format!("[[webhook]]\nurl = \"{url}\"\n");
    let old = [
        format!("[listen.a]\n{}", of(1, "mqtt", "")),
        format!("[listen.gone]\n{}", of(2, "im", "")),
        format!("[listen.s2s]\n{}", of(3, "xmpp-server", "")),
        format!("[listen.turns]\n{}", of(4, "xmpp", "")),
        hook("http://a/"),
        hook("http://gone/"),
    ];
    let new = [
        format!("[listen.a]\n{}", of(5, "miop", "connections_max = 7")),
        format!("[listen.came]\n{}", of(6, "im", "tls = true")),
        format!("[listen.s2s]\n{}", of(7, "xmpp-server", "")),
        format!("[listen.turns]\n{}", of(4, "xmpp-component", "")),
        "[tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n".to_owned(),
        hook("http://a/") + "secret = \"0123456789abcdef\"\n",
    ];
    let (old, new) = (parse(&old.concat()).expect("good"), parse(&new.concat()).expect("good"));
    let next = old.following(&new);
    assert_eq!((&next.tls, &next.listen, &next.webhooks), (&new.tls, &new.listen, &new.webhooks));
    let applied: Vec<String> = old.diff(&next).live.into_iter().map(|it| it.key).collect();
    for key in [
        "[listen.a] address",
        "[listen.a] protocol",
        "[listen.gone]",
        "[listen.came]",
        "[listen.s2s] address",
        "[listen.turns] protocol",
        "[[webhook]] http://a/ secret",
        "[[webhook]] http://gone/",
    ] {
        assert!(applied.iter().any(|it| it == key), "{key}: {applied:?}");
    }
    assert_eq!(next.diff(&new), Default::default(), "nothing needs a restart");
}

#[test]
fn sections_of_lists_are_called_by_their_names_in_differences() {
    let hook = |url: &str, more: &str| format!("[[webhook]]\nurl = \"{url}\"\n{more}");
    let secret = |id: u32, digit: &str| {
        format!("[[products.p.secrets]]\nkey_id = {id}\nhex = \"{}\"\n", digit.repeat(64))
    };
    let keys = |old: &[String], new: &[String]| {
        let [old, new] = [old, new].map(|text| {
            parse(&format!("[products.p]\napp_id = 1\n[products.q]\napp_id = 2\n{}", text.concat()))
        });
        let changes = old.expect("good").diff(&new.expect("good"));
        changes.live.into_iter().map(|it| format!("{} {}", it.key, it.new)).collect::<Vec<_>>()
    };
    // The first one goes, and the second one is none the less the same.
    let both = ["http://a/", "https://ann:pw@b/?key=1"].map(|url| hook(url, ""));
    assert_eq!(keys(&both, &both[1..]), ["[[webhook]] http://a/ absent"]);
    let came = keys(&both[..1], &both).concat();
    assert!(came.starts_with("[[webhook]] https://") && came.ends_with(" present"), "{came}");
    assert!(!came.contains("pw") && !came.contains("key"), "{came}");
    let of = |product: &str, events: &str| {
        hook("http://a/", &format!("products = [\"{product}\"]\nevents = [{events}]\n"))
    };
    assert_eq!(
        keys(&[of("p", ""), of("q", "")], &[of("p", ""), of("q", "\"online\"")]),
        ["[[webhook]] http://a/ (q) events [\"online\"]"]
    );
    assert_eq!(
        keys(&[secret(1, "1")], &[secret(2, "2"), secret(1, "1")]),
        ["[[products.p.secrets]] 2 present"]
    );
}

#[test]
fn default_listeners_that_are_closed_are_named() {
    let told = |text: &str| parse(text).expect("good").closed_defaults_told();
    assert_eq!(told(""), None);
    let text = "[listen.more]\naddress = \"127.0.0.1:1884\"\nprotocol = \"mqtt\"\n\
                [listen.own]\naddress = \"127.0.0.1:7000\"\n";
    let told = told(text).expect("some are closed");
    assert!(told.contains("closed: miop (127.0.0.1:7001), ws (127.0.0.1:7003), mqtt"), "{told}");
    assert!(told.contains("`holdline check`"), "{told}");
}

#[test]
fn a_key_that_needs_a_restart_keeps_its_value_beside_one_that_does_not() {
    let old = parse("").expect("good");
    let new = parse("[server]\nshards = 3\n[limits]\ndrain_ms = 7\n[store]\nhot_bytes = 1")
        .expect("good");
    let next = old.following(&new);
    assert_eq!(next, Config { limits: new.limits.clone(), ..old.clone() });
    let left: Vec<String> = next.diff(&new).restart.into_iter().map(|it| it.key).collect();
    assert_eq!(left, ["[server] shards", "[store] hot_bytes"]);
    assert_eq!(next.diff(&new).live, []);
}
