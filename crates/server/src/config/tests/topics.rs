//! Sections about MQTT: listeners, topics, access, bridges.

use super::*;
use guard::passwords::HashScheme;
use net::layer::tls::CertificateIdentity;

#[test]
fn a_listener_of_mqtt_has_its_own_choices() {
    let config = parse(
        "[tls]\nclient_ca = \"ca.pem\"\n\
         [listen.a]\naddress = \"unix:/run/x.sock\"\nmode = \"0600\"\nprotocol = \"mqtt\"\n\
         [listen.b]\naddress = \"0.0.0.0:8883\"\nprotocol = \"mqtt\"\ntls = true\n\
         certificate = \"c.pem\"\nkey = \"k.pem\"\ntls_min = \"1.3\"\nlenient = true\n\
         client_certificates = \"required\"\nidentity = \"common_name\"\n\
         methods = [\"certificate\"]\nanonymous = \"no\"\n\
         [listen.c]\naddress = \"127.0.0.1:8080\"\nprotocol = \"mqtt\"\nwebsocket = \"*\"\n\
         websocket_origins = [\"https://app.example\"]\nbelieve_names = true",
    )
    .expect("good");
    let [a, b, c] = &config.listen[..] else { panic!("three") };
    assert_eq!(a.address, ListenAddress::Unix("/run/x.sock".into()));
    assert_eq!((a.file_mode(), a.web_socket.paths().len()), (0o600, 0));
    assert!(b.tls && b.lenient && b.anonymous == Anonymous::No);
    assert_eq!((b.tls_min, b.identity), (TlsMin::V13, CertificateIdentity::CommonName));
    assert_eq!(c.web_socket.paths(), ["*"]);
    assert_eq!(config.warnings, [""; 0]);
    assert_eq!(parse(&config.to_toml()).as_ref(), Ok(&config));
}

#[test]
fn whoever_sends_proxy_headers_is_an_address_or_a_network() {
    let text = "[listen.a]\naddress = \"127.0.0.1:1\"\nproxy = \"v1v2\"\nproxy_from = ";
    let config = parse(&format!("{text}[\"10.0.0.0/8\", \"2001:db8::7\"]")).expect("good");
    assert_eq!(config.listen[0].proxies().len(), 2);
    refused(
        &format!("{text}[\"10.0.0.0/8\", \"lb.example\"]"),
        &["holdline.toml:4: [listen.a] proxy_from = [\"10.0.0.0/8\", \"lb.example\"]: must be a \
           list of at most 256 addresses and networks, such as \"10.0.0.7\" or \"10.0.0.0/8\"; \
           correct or remove \"lb.example\""],
    );
}

#[test]
fn a_listener_of_mqtt_that_cannot_work_is_refused() {
    refused(
        "[listen.a]\naddress = \"unix:\"\n\
         [listen.b]\naddress = \"127.0.0.1:1\"\nmode = \"0999\"",
        &[
            "holdline.toml:2: [listen.a] address = \"unix:\": must be an IP address and a port, \
             such as \"127.0.0.1:7000\", or unix: and a path of at most 107 bytes; correct it",
            "holdline.toml:5: [listen.b] mode = \"0999\": must be three or four octal digits, such \
             as \"0660\"; correct it, such as \"0660\"",
        ],
    );
    refused(
        "[listen.a]\naddress = \"127.0.0.1:1\"\nmethods = [\"certificate\"]\n\
         [listen.b]\naddress = \"127.0.0.1:2\"\nmethods = [\"token\"]\n\
         [listen.c]\naddress = \"127.0.0.1:3\"\nmethods = [\"http\"]\ncertificate = \"c\"\n\
         [listen.d]\naddress = \"127.0.0.1:4\"\nmethods = [\"ldap\"]",
        &[
            "holdline.toml:10: [listen.c] certificate = \"c\": certificate and key go together; \
             name both files or neither",
            "holdline.toml:3: [listen.a] methods = [\"certificate\"]: this listener does not ask \
             for certificates; set client_certificates = \"required\" for it",
            "holdline.toml:6: [listen.b] methods = [\"token\"]: no key to verify tokens is \
             configured; set secret, key_files or jwks_url in [access.token]",
            "holdline.toml:9: [listen.c] methods = [\"http\"]: no service is configured; set url \
             in [access.http]",
            "holdline.toml:13: [listen.d] methods = [\"ldap\"]: no LDAP server is configured; set \
             urls in [access.ldap]",
        ],
    );
    refused(
        "[products.a]\n[listen.a]\naddress = \"127.0.0.1:1\"\nmethods = [\"scram\"]\n\
         [access]\nscram_hashes = []",
        &["holdline.toml:4: [listen.a] methods = [\"scram\"]: no hash is accepted; name one in \
             [access] scram_hashes"],
    );
}

#[test]
fn the_nameless_from_everywhere_are_warned_of() {
    let listen = |protocol: &str, address: &str| {
        let text = format!(
            "[listen.x]\naddress = \"{address}\"\nprotocol = \"{protocol}\"\nanonymous = \"yes\""
        );
        parse(&text).expect("allowed").warnings
    };
    let said = "[listen.x] anonymous = \"yes\" on 0.0.0.0:1883: everybody who can reach it can \
                connect without a user name";
    assert_eq!(listen("mqtt", "0.0.0.0:1883"), [said]);
    assert_eq!(listen("any", "0.0.0.0:1883"), [said]);
    assert_eq!(listen("mqtt", "127.0.0.1:1883"), [""; 0]);
    assert_eq!(listen("mqtt", "unix:/run/x"), [""; 0]);
    assert_eq!(listen("miop", "0.0.0.0:1883"), [""; 0]);
}

#[test]
fn limits_of_topics_are_held_against_the_others() {
    let config = parse("[mqtt]\nqueue_count_max = 7\nstrict_text = true").expect("good");
    assert_eq!(config.limits.topics.queue_count_max, 7);
    assert!(config.mqtt.strict_text);
    refused(
        "[mqtt]\nkeep_alive_s_min = 90\nkeep_alive_s_max = 60",
        &["holdline.toml:2: [mqtt] keep_alive_s_min = 90: keep_alive_s_min must not be above \
           keep_alive_s_max; change one of them"],
    );
}

#[test]
fn rewrites_and_subscriptions_of_all_are_read_and_held() {
    let config = parse(
        "[[mqtt.rewrite]]\nfilter = \"old/+/#\"\nto = \"new/$1/$2\"\nsubscribe = false\n\
         [[mqtt.auto_subscribe]]\nfilter = \"dev/%c/in\"\nqos = 1",
    )
    .expect("good");
    let rule = config.mqtt.rewrites[0].rule();
    assert!(rule.publish && !rule.subscribe);
    assert_eq!(config.mqtt.auto_subscribes[0].wish().qos, model::topic::Qos::AtLeastOnce);
    assert_eq!(parse(&config.to_toml()).as_ref(), Ok(&config));
    let bad = parse("[[mqtt.rewrite]]\nfilter = \"a/#/b\"\nto = \"c\"").expect_err("no filter");
    assert!(bad.to_string().starts_with("holdline.toml:2: [[mqtt.rewrite]] filter"), "{bad}");
}

#[test]
fn access_is_read_with_its_parts_and_shows_no_secret() {
    let secret = "0123456789abcdef0123456789abcdef";
    let config = with(
        &format!(
            "[access]\npassword_file = \"p\"\nsuperusers = [\"root\"]\nhash = \"argon2id\"\n\
             [access.token]\nsecret = \"{secret}\"\nequal = [\"client_id=%c\"]\n\
             [access.http]\nurl = \"http://127.0.0.1:1/\"\nheaders = [\"X-Key: {secret}\"]"
        ),
        &[("HOLDLINE_ACCESS_TOKEN_LEEWAY_S", "5"), ("HOLDLINE_ACCESS_THREADS", "3")],
    )
    .expect("good");
    assert_eq!((config.access.token.leeway_s, config.access.threads), (5, 3));
    assert_eq!(config.access.hash, HashScheme::Argon2id);
    assert!(config.access.token.is_set());
    assert_eq!(config.access.http.headers.reveal(), [format!("X-Key: {secret}")]);
    let shown = format!("{config:?}{}", config.to_toml());
    assert!(!shown.contains(secret), "{shown}");
    refused(
        "[access.token]\nsecret = \"short\"\n[access.http]\nheaders = [\"no colon\"]",
        &[
            "holdline.toml:2: [access.token] secret = (hidden): must be a text of at least 32 \
             bytes that is no PEM, or empty; correct it",
            "holdline.toml:4: [access.http] headers = (hidden): must be a list of at most 16 of \
             \"Name: value\"; correct or remove \"no colon\"",
        ],
    );
}

#[test]
fn a_bridge_is_read_and_held() {
    let config = parse(
        "[bridge.up]\naddresses = [\"mqtts://b.example\"]\ntopics = [\"a/# out 1 \\\"\\\" up/\"]\n\
         password = \"not shown\"\nuser = \"me\"\ninsecure = true",
    )
    .expect("good");
    let bridge = &config.bridges[0];
    assert_eq!((bridge.name.as_str(), bridge.topics.len()), ("up", 1));
    assert_eq!(bridge.packet_bytes_max, config.mqtt.limits.packet_bytes_max);
    assert_eq!(config.warnings.len(), 1);
    assert!(!format!("{config:?}{}", config.to_toml()).contains("not shown"));
    let bad = parse("[bridge.up]\naddresses = [\"b\"]\ntopics = [\"a/#/b out\"]");
    let bad = bad.expect_err("no filter").to_string();
    assert!(bad.starts_with("holdline.toml:3: [bridge.up] topics"), "{bad}");
}

#[test]
fn messages_for_webhooks_have_filters() {
    let hook = |rest: &str| parse(&format!("[[webhook]]\nurl = \"http://a/\"\n{rest}"));
    assert!(hook("events = [\"message_published\"]\ntopics = [\"a/#\"]").is_ok());
    for rest in ["events = [\"message_published\"]", "topics = [\"a/#\"]"] {
        let error = hook(rest).expect_err("one without the other").to_string();
        assert!(error.contains("go together"), "{error}");
    }
    assert!(hook("topics = [\"a/#/b\"]").is_err());
}

#[test]
fn a_product_may_have_a_topic() {
    let config = parse("[products.shop]\ntopic = \"push/%p/%d\"").expect("good");
    assert_eq!(config.products[0].topic.as_deref(), Some("push/%p/%d"));
    assert!(parse("[products.shop]\ntopic = \"push/#\"").is_err());
}

#[test]
fn ldap_is_read_and_shows_no_password() {
    let config = parse(
        "[access.ldap]\nurls = [\"ldaps://dc1.corp.example\", \"ldaps://dc2.corp.example\"]\n\
         bind_dn = \"holdline@corp.example\"\npassword = \"hush, hush\"\nbase = \"dc=corp\"\n\
         filter = \"(&(objectClass=user)(sAMAccountName=%u))\"\n\
         name_attribute = \"sAMAccountName\"\n\
         group_filter = \"(&(cn=mqtt)(member:1.2.840.113556.1.4.1941:=%d))\"",
    )
    .expect("good");
    assert!(config.access.ldap.is_on() && config.access.ldap.has_ldaps());
    let shown = format!("{config:?}{}", config.to_toml());
    assert!(!shown.contains("hush"), "{shown}");
    assert!(parse("[access.ldap]\nurls = [\"http://a\"]").is_err());
    assert!(parse("[access.ldap]\nname_attribute = \"a(b\"").is_err());
}

#[test]
fn keys_of_ldap_are_held_against_each_other() {
    let with = |text: &str, told: &[&str]| {
        let text = format!("[access.ldap]\nurls = [\"ldap://127.0.0.1\"]\n{text}");
        let words = parse(&text).expect_err("refused").to_string();
        for told in told {
            assert!(words.contains(told), "{words}");
        }
    };
    with(
        "bind_dn = \"cn=r\"\nbase = \"dc=x\"",
        &["holdline.toml:3: [access.ldap] bind_dn = \"cn=r\": bind_dn and its password go"],
    );
    with(
        "user_dn = \"%u@x\"",
        &["holdline.toml:2: [access.ldap] urls = [\"ldap://127.0.0.1\"]: searches need a base"],
    );
    with(
        "base = \"dc=x\"\nfilter = \"(uid=ann)\"",
        &["holdline.toml:4: [access.ldap] filter = \"(uid=ann)\": it must contain %u, the name"],
    );
    with(
        "base = \"dc=x\"\ngroup_filter = \"(cn=mqtt\"\nuser_dn = \"uid=ann\"",
        &[
            "holdline.toml:4: [access.ldap] group_filter = \"(cn=mqtt\": character 9: ')'",
            "holdline.toml:5: [access.ldap] user_dn = \"uid=ann\": it must contain %u, the name",
        ],
    );
    with(
        "base = \"dc=x\"\nuser_dn = \"uid=%u,dc=x\"\nbind_dn = \"cn=r\"\npassword = \"p\"",
        &["holdline.toml:4: [access.ldap] user_dn = \"uid=%u,dc=x\": searches are made as bind_dn"],
    );
    refused(
        "[access.ldap]\nurls = [\"ldaps://127.0.0.1\"]\nbase = \"dc=x\"\nstart_tls = true\n\
         [chat]\nregistration = \"open\"",
        &[
            "holdline.toml:4: [access.ldap] start_tls = true: ldaps:// is encrypted from the first \
             byte; use ldap:// with start_tls, or ldaps:// without",
            "holdline.toml:6: [chat] registration = \"open\": with open, strangers can register \
             names that tokens, certificates, [access.ldap] or [access.http] assign; authenticate \
             only accounts of the user database, or set it to \"password\"",
        ],
    );
}

#[test]
fn ldap_without_tls_and_listeners_with_scram_are_warned_of() {
    let warnings = |urls: &str, more: &str, listener: &str| {
        let text = format!(
            "[access.ldap]\nurls = [\"{urls}\"]\nbase = \"dc=x\"\n{more}\n\
             [listen.x]\naddress = \"127.0.0.1:1\"\n{listener}"
        );
        parse(&text).expect("allowed").warnings
    };
    let plain = "protocol = \"xmpp\"\nmethods = [\"passwords\", \"ldap\"]";
    assert_eq!(warnings("ldap://127.0.0.1", "", plain), [""; 0]);
    assert_eq!(warnings("ldap://dc1", "start_tls = true", plain), [""; 0]);
    let [bare] = &warnings("ldap://dc1", "", plain)[..] else { panic!("one") };
    assert!(bare.starts_with("[access.ldap] urls = [\"ldap://dc1\"]: passwords are sent without"));
    let [scram] = &warnings("ldap://127.0.0.1", "", "protocol = \"xmpp\"")[..] else {
        panic!("one")
    };
    assert!(scram.starts_with("[access.ldap]: the listeners x offer SCRAM"), "{scram}");
    assert_eq!(warnings("ldap://127.0.0.1", "", "protocol = \"mqtt\""), [""; 0]);
}

#[test]
fn listeners_that_offer_scram_to_users_of_a_service_are_warned_of() {
    let warnings = |methods: &str| {
        let text = format!(
            "[access.http]\nurl = \"http://127.0.0.1:1/\"\n\
             [listen.x]\naddress = \"127.0.0.1:1\"\nprotocol = \"im\"\nmethods = [{methods}]"
        );
        parse(&text).expect("allowed").warnings
    };
    let [scram] = &warnings("\"scram\", \"http\"")[..] else { panic!("one") };
    assert!(scram.starts_with("[access.http]: the listeners x offer SCRAM"), "{scram}");
    assert!(scram.contains("users of the HTTP service cannot log in"), "{scram}");
    assert_eq!(warnings("\"passwords\", \"http\""), [""; 0]);
    assert_eq!(warnings("\"scram\""), [""; 0]);
}
